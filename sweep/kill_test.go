package sweep

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// childVar makes this test binary a sweep: the scenario, the folder and the file
// that hears of every run that begins.
const childVar = "TGSSIM_TEST_SWEEP"

func TestMain(m *testing.M) {
	if args := strings.Split(os.Getenv(childVar), "\n"); len(args) == 3 {
		if err := child(args[0], args[1], args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(ref, dir, log string) error {
	p, err := New(ref, Request{})
	if err != nil {
		return err
	}
	f, err := p.Open(dir, testVersion, true)
	if err != nil {
		return err
	}
	begun, err := os.OpenFile(log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	_, err = f.Run(context.Background(), Options{Workers: 2, begun: func(run int) { fmt.Fprintln(begun, run) }})
	return err
}

// TestKill kills a sweep 50 times by SIGKILL at random instants, during start-up,
// runs, appends and the writing of the results. Nothing that was in the journal is
// lost or begun again, and the sweep that comes of it is byte for byte the one
// that was never interrupted.
func TestKill(t *testing.T) {
	if testing.Short() {
		t.Skip("kills 50 processes")
	}
	ref := file(t, "sweep: {axes: {kv.qps: [1, 2], cluster.oversubscription: [1, 2]}, replications: 2}\n")
	p, err := New(ref, Request{})
	require.NoError(t, err)
	whole := filepath.Join(t.TempDir(), "whole")
	do(t, p, whole, false, Options{})
	want := results(t, whole)

	k := killer{t: t, ref: ref, dir: filepath.Join(t.TempDir(), "killed"), plan: p, random: rand.New(rand.NewPCG(1, 2))}
	deadline := time.Now().Add(100 * time.Second)
	for k.kills < 50 {
		require.True(t, time.Now().Before(deadline), "only %d kills", k.kills)
		if k.round() {
			require.Equal(t, want, results(t, k.dir), "after %d kills", k.kills)
			k.sweeps++
			require.NoError(t, os.RemoveAll(k.dir))
			require.NoError(t, os.RemoveAll(k.log()))
		}
	}
	for !k.finish() {
	}
	require.Equal(t, want, results(t, k.dir))
	t.Logf("%d kills: %d before a run, %d with runs under way, %d after the last; %d whole sweeps", k.kills, k.early, k.midway, k.late, k.sweeps+1)
	require.Greater(t, k.midway, 5, "the instants are no test")
}

type killer struct {
	t        testing.TB
	ref, dir string
	plan     *Plan
	random   *rand.Rand
	kills    int
	early    int
	midway   int
	late     int
	sweeps   int
}

func (k *killer) log() string { return k.dir + ".log" }

// done reads the journal as a reader that knows nothing of the code does: lines
// that end are runs.
func (k *killer) done() map[string]bool {
	done := map[string]bool{}
	text, err := os.ReadFile(filepath.Join(k.dir, JournalFile))
	if err != nil {
		return done
	}
	lines := strings.SplitAfter(string(text), "\n")
	for _, line := range lines[1:] {
		if !strings.HasSuffix(line, "\n") {
			continue
		}
		var point, replication int
		_, after, _ := strings.Cut(line, `"point":`)
		_, err := fmt.Sscanf(after, `%d,"replication":%d,`, &point, &replication)
		require.NoError(k.t, err, line)
		run := strconv.Itoa(k.plan.runOf(point, replication))
		require.False(k.t, done[run], "run %s is in the journal twice", run)
		done[run] = true
	}
	return done
}

// begun lists the runs that began after so many bytes of the log.
func (k *killer) begun(from int) []string {
	text, err := os.ReadFile(k.log())
	if err != nil {
		return nil
	}
	return strings.Fields(string(text[min(from, len(text)):]))
}

// round starts a sweep and kills it at some instant; it tells whether the sweep
// came to its end before.
func (k *killer) round() (ended bool) {
	return k.run(func(cmd *exec.Cmd, ready io.Reader) {
		if k.random.IntN(4) > 0 { // at an instant after the start-up
			_, err := ready.Read(make([]byte, 16))
			if err != nil {
				return
			}
			time.Sleep(time.Duration(k.random.Int64N(int64(110 * time.Millisecond))))
		} else {
			time.Sleep(time.Duration(k.random.Int64N(int64(80 * time.Millisecond))))
		}
		_ = cmd.Process.Kill() // it may be gone
	})
}

// finish lets the sweep end.
func (k *killer) finish() bool { return k.run(func(*exec.Cmd, io.Reader) {}) }

func (k *killer) run(meanwhile func(cmd *exec.Cmd, ready io.Reader)) (ended bool) {
	before := k.done()
	log, _ := os.ReadFile(k.log())
	exe, err := os.Executable()
	require.NoError(k.t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childVar+"="+strings.Join([]string{k.ref, k.dir, k.log()}, "\n"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	require.NoError(k.t, err)
	require.NoError(k.t, cmd.Start())
	meanwhile(cmd, out)
	_, err = io.Copy(io.Discard, out)
	require.NoError(k.t, err)
	err = cmd.Wait()
	after := k.done()
	for run := range before {
		require.True(k.t, after[run], "run %s is lost", run)
	}
	begun := k.begun(len(log))
	for _, run := range begun {
		require.False(k.t, before[run], "run %s was done and began again", run)
	}
	// Under way are a run of each worker and the one that is being appended.
	require.LessOrEqual(k.t, len(begun), len(after)-len(before)+2+1, "more is lost than was under way")
	if err == nil {
		return true
	}
	require.EqualError(k.t, err, "signal: killed", stderr.String())
	k.kills++
	switch {
	case len(begun) == 0 && len(after) < k.plan.Runs():
		k.early++
	case len(after) < k.plan.Runs():
		k.midway++
	default:
		k.late++
	}
	return false
}
