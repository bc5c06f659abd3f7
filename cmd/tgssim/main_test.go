package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"tgssim": func() {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
			code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
			stop()
			os.Exit(code)
		},
	})
}

// TestScripts runs the command lines of testdata/script as a user would, each in
// an empty folder. exitcode N is the exit code of the last command that failed.
func TestScripts(t *testing.T) {
	traces, err := filepath.Abs("../../workload/testdata")
	require.NoError(t, err)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("TRACES", traces)
			e.Setenv("TABLE", filepath.Join(filepath.Dir(filepath.Dir(traces)), "calibrate", "testdata", "kernels.csv"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":      exits,
			"cmpfolders": cmpFolders,
		},
	})
}

// exits CODE COMMAND... runs tgssim and checks the exact exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE tgssim ARGUMENTS...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = "?"
		if e, ok := err.(interface{ ExitCode() int }); ok {
			got = string(rune('0' + e.ExitCode()))
		}
	}
	if got != args[0] {
		ts.Fatalf("exit code %s, want %s", got, args[0])
	}
}

// cmpfolders A B fails unless both folders hold the same files with the same
// bytes.
func cmpFolders(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: cmpfolders A B")
	}
	read := func(dir string) map[string]string {
		files := map[string]string{}
		entries, err := os.ReadDir(ts.MkAbs(dir))
		ts.Check(err)
		for _, e := range entries {
			files[e.Name()] = ts.ReadFile(filepath.Join(dir, e.Name()))
		}
		return files
	}
	a, b := read(args[0]), read(args[1])
	if len(a) == 0 {
		ts.Fatalf("%s is empty", args[0])
	}
	for name, text := range a {
		if other, ok := b[name]; !ok || other != text {
			ts.Fatalf("%s differs between %s and %s", name, args[0], args[1])
		}
		delete(b, name)
	}
	for name := range b {
		ts.Fatalf("%s is only in %s", name, args[1])
	}
}
