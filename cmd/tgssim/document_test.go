package main

import (
	"bytes"
	"context"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/compare"
)

// fences finds the code blocks of a Markdown file.
var fences = regexp.MustCompile("(?s)```([a-z]+)\n(.*?)```")

// A document is a Markdown file as a reader follows it.
type document struct {
	text string
	// less is what is added to a command that nothing is quoted of, so that it takes
	// less time.
	less map[string]string
	// commands were run, and quoted lines of their output found.
	commands, quoted int
}

func readDocument(t *testing.T, file string) *document {
	text, err := os.ReadFile(filepath.Join("../..", file))
	require.NoError(t, err)
	return &document{text: string(text)}
}

// follow runs the commands of the sh blocks, in order, writes the yaml blocks to
// the files that their first lines name, and looks for every line of the text
// blocks in what the sh block before them has printed.
func (d *document) follow(t *testing.T) {
	var printed string
	for _, m := range fences.FindAllStringSubmatch(d.text, -1) {
		switch kind, body := m[1], m[2]; kind {
		case "yaml":
			name := strings.TrimPrefix(strings.SplitN(body, "\n", 2)[0], "# ")
			require.NoError(t, os.WriteFile(name, []byte(body), 0o644))
		case "sh":
			printed = ""
			for line := range strings.Lines(body) {
				line = strings.TrimPrefix(strings.TrimSpace(line), "go run ./cmd/")
				if line != "go test ./..." { // this is it
					printed += d.execute(t, line)
				}
			}
		case "text":
			for line := range strings.Lines(body) {
				require.Contains(t, printed, strings.TrimSuffix(line, "\n"), "the document quotes output that is not printed")
				d.quoted++
			}
		default:
			t.Fatalf("a code block of kind %q is neither run nor checked", kind)
		}
	}
	require.Empty(t, d.less, "of no command")
}

// execute runs a command and returns what it prints.
func (d *document) execute(t *testing.T, line string) string {
	args := words(line + " " + d.less[line])
	delete(d.less, line)
	require.Equal(t, "tgssim", args[0], "a command that no test can run: %s", line)
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(context.Background(), args[1:], &stdout, &stderr), "%s\n%s", line, &stderr)
	require.NotEmpty(t, stdout.String(), line)
	d.commands++
	return stdout.String()
}

// words splits a line as a shell would: at blanks outside single quotes.
func words(line string) (args []string) {
	quoted := false
	var word strings.Builder
	for _, r := range strings.TrimSpace(line) + " " {
		switch {
		case r == '\'':
			quoted = !quoted
		case r == ' ' && !quoted:
			args = append(args, word.String())
			word.Reset()
		default:
			word.WriteRune(r)
		}
	}
	return args
}

// TestReadme follows README.md. What all targets of validate come out as is
// tested where they are.
func TestReadme(t *testing.T) {
	if testing.Short() {
		t.Skip("runs whole scenarios")
	}
	d := readDocument(t, "README.md")
	const fewer = "--set workload.requests=100"
	d.less = map[string]string{
		"tgssim run deepseek-v3-h800-pd --set cluster.oversubscription=4 --set cluster.spines=2":               fewer,
		"tgssim run deepseek-v3-h800-pd --set network.engine=ideal":                                            fewer,
		"tgssim run deepseek-v3-h800-pd --set decode.overlap=none --seed 7":                                    fewer,
		"tgssim run deepseek-v3-h800-pd --set gpu.hbm_bandwidth=4.8TB/s --set gpu.memory=141GB":                fewer,
		"tgssim sweep fabric-size-quick --reps 3 -o out/size":                                                  "--set scale.load.requests_per_gpu=1 --reps 1",
		"tgssim compare deepseek-v3-h800-pd --vary decode.overlap=none,two_batch --set workload.requests=1500": fewer + " --reps 2",
		"tgssim validate":                  "ideal-ep-bound qwen3-8b-fp8-decode-h20 mooncake-kv-transfer-128-h800",
		"tgssim run mine.yaml -o out/mine": fewer,
	}
	traces, err := filepath.Abs("../../workload")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	require.NoError(t, os.Symlink(traces, "workload"))
	d.follow(t)
	require.GreaterOrEqual(t, d.commands, 9)
	require.Positive(t, d.quoted)
}

// TestCalibrateDocument follows docs/calibrate.md beside its table.
func TestCalibrateDocument(t *testing.T) {
	d := readDocument(t, "docs/calibrate.md")
	table, err := os.ReadFile("../../calibrate/testdata/kernels.csv")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("kernels.csv", table, 0o644))
	d.follow(t)
	require.Equal(t, 2, d.commands)
	require.Positive(t, d.quoted)
	require.FileExists(t, "out/lab/manifest.json")
}

// TestDCQCNDocument follows docs/dcqcn.md.
func TestDCQCNDocument(t *testing.T) {
	d := readDocument(t, "docs/dcqcn.md")
	d.follow(t)
	require.Equal(t, 7, d.commands)
}

// indented finds a command, also in the text of a list.
var indented = regexp.MustCompile(`^ {4,}tgssim (.*\S)`)

// TestLongCommands gives the indented commands of all documents, which may take
// minutes, to the simulator and interrupts them at once: what is wrong with a
// command is said before that.
func TestLongCommands(t *testing.T) {
	var files []string
	for _, pattern := range []string{"../../docs/*.md", "../../docs/*/*.md"} {
		some, err := filepath.Glob(pattern)
		require.NoError(t, err)
		files = append(files, some...)
	}
	commands := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			if m := indented.FindStringSubmatch(line); m != nil {
				commands[m[1]] = filepath.Base(file)
			}
		}
	}
	interrupted, cancel := context.WithCancel(context.Background())
	cancel()
	traces, err := filepath.Abs("../../workload")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	require.NoError(t, os.Symlink(traces, "workload"))
	for _, yours := range []string{"before.yaml", "after.yaml", "mine.yaml"} {
		require.NoError(t, os.WriteFile(yours, []byte("extends: fabric-size-quick\n"), 0o644))
	}
	count := 0
	for _, line := range slices.Sorted(maps.Keys(commands)) {
		args := words(line)
		if args[0] == "plot" || args[0] == "validate" { // of folders that others make; of its own tests
			continue
		}
		var stderr bytes.Buffer
		code := run(interrupted, args, io.Discard, &stderr)
		assert.NotEqual(t, exitUsage, code, "%s: %s\n%s", commands[line], line, &stderr)
		require.NoError(t, os.RemoveAll("out")) // several sweep into one folder
		count++
	}
	require.Greater(t, count, 40)
}

// TestCompareDocument follows docs/compare.md, and looks for every measure and
// guard in it.
func TestCompareDocument(t *testing.T) {
	if testing.Short() {
		t.Skip("runs whole scenarios")
	}
	d := readDocument(t, "docs/compare.md")
	d.less = map[string]string{
		"tgssim compare fabric-size-quick --vary fabric --set cluster.nodes=4 --set scale.load.requests_per_gpu=4 --reps 3":                                                 "--reps 2",
		"tgssim compare qwen3-30b-a3b-h20 --vary decode.host_gap=100us,500us --vary kv.qps=1,2 --set workload.requests=200 --json":                                          "--reps 2",
		"tgssim compare qwen3-30b-a3b-h20 --vary decode.host_gap=100us,110us --set workload.requests=200 --fail-if tgs_steady=-2% --fail-if p99_ttft_ms=+50 -o out/nightly": "--reps 2",
	}
	t.Chdir(t.TempDir())
	d.follow(t)
	require.Equal(t, 5, d.commands)
	require.Equal(t, 5, d.quoted)
	require.FileExists(t, "out/nightly/compare.json")
	for _, m := range compare.Measures() {
		require.Contains(t, d.text, "`"+m.Key+"`")
	}
	for _, g := range compare.Guards() {
		outcome := "warning"
		if g.Refuse {
			outcome = "refused"
		}
		found := false
		for line := range strings.Lines(d.text) {
			if strings.HasPrefix(line, "| "+g.What+" | ") && strings.HasSuffix(line, " | "+outcome+" |\n") {
				found = true
				for _, k := range g.Keys {
					require.Contains(t, line, "`"+k+"`")
				}
			}
		}
		require.True(t, found, "%s is not said to be %s", g.What, outcome)
	}
}
