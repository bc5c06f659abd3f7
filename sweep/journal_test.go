package sweep

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "github.com/tgssim/tgssim/internal/testkit" // the same draws in every run
)

// journalOf writes a journal of five of the six runs of a plan, out of order.
func journalOf(t testing.TB, p *Plan) (name string, text []byte, outcomes map[int]*Outcome) {
	t.Helper()
	name = filepath.Join(t.TempDir(), JournalFile)
	j, err := createJournal(name, identity{Tool: "tgssim", Scenario: "x"}, p.Runs())
	require.NoError(t, err)
	outcomes = map[int]*Outcome{}
	for _, run := range []int{3, 0, 5, 1, 4} {
		o := &Outcome{
			Point: run / p.Replications, Replication: run % p.Replications, Seed: 1, Events: uint64(run),
			Summary: []byte(fmt.Sprintf(`{"tgs":%d.5,"word":"a\nb, é"}`, run)),
		}
		if run == 5 {
			o.Error, o.Summary = "an error\nof two lines", nil
		}
		require.NoError(t, j.append(p, o))
		outcomes[run] = o
	}
	require.NoError(t, j.close())
	text, err = os.ReadFile(name)
	require.NoError(t, err)
	return name, text, outcomes
}

// reread opens a journal and returns the runs that are done in it.
func reread(t testing.TB, p *Plan, name string) (map[int]*Outcome, error) {
	t.Helper()
	j, id, err := openJournal(name)
	if err != nil {
		return nil, err
	}
	defer j.close()
	require.Equal(t, "x", id.Scenario)
	if err := j.read(p); err != nil {
		return nil, err
	}
	done := map[int]*Outcome{}
	for run := range p.Runs() {
		if j.done[run].length > 0 {
			done[run], err = j.outcome(run)
			require.NoError(t, err)
		}
	}
	require.Len(t, done, j.finished)
	return done, nil
}

// Wherever a journal ends, what is whole before that counts, the rest is cut off,
// and the journal goes on as if it had never been there.
func TestJournalCutAnywhere(t *testing.T) {
	p := plan(t, "", Request{Axes: []string{"kv.qps=1,2,3"}, Replications: 2})
	name, text, outcomes := journalOf(t, p)
	header := bytes.IndexByte(text, '\n') + 1
	order := []int{3, 0, 5, 1, 4}
	for cut := 0; cut <= len(text); cut++ {
		require.NoError(t, os.WriteFile(name, text[:cut], 0o644))
		done, err := reread(t, p, name)
		if cut < header {
			require.ErrorContains(t, err, "is no journal of a sweep: its first line is not whole")
			continue
		}
		require.NoError(t, err)
		whole := bytes.Count(text[header:cut], []byte("\n"))
		require.Len(t, done, whole, "cut at %d", cut)
		for _, run := range order[:whole] {
			require.Equal(t, outcomes[run], done[run])
		}
		left, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, text[:header+lastNewline(text[header:cut])], left, "what is torn is gone")
	}
}

func lastNewline(b []byte) int { return bytes.LastIndexByte(b, '\n') + 1 }

// A journal with a byte changed is refused with the line, or has lost its last
// line; it is never believed.
func TestJournalDamaged(t *testing.T) {
	p := plan(t, "", Request{Axes: []string{"kv.qps=1,2,3"}, Replications: 2})
	name, text, outcomes := journalOf(t, p)
	last := bytes.LastIndexByte(text[:len(text)-1], '\n') + 1
	rapid.Check(t, func(rt *rapid.T) {
		at := rapid.IntRange(0, len(text)-1).Draw(rt, "at")
		b := rapid.Byte().Draw(rt, "byte")
		damaged := bytes.Clone(text)
		damaged[at] = b
		require.NoError(rt, os.WriteFile(name, damaged, 0o644))
		done, err := reread(t, p, name)
		switch {
		case b == text[at]:
			require.NoError(rt, err)
			require.Equal(rt, outcomes, done)
		case at == last-1: // the last two lines have become one
			require.NoError(rt, err)
			require.Len(rt, done, len(outcomes)-2)
		case at < last || b == '\n': // a line before the last
			require.Error(rt, err)
		default:
			require.NoError(rt, err)
			require.Len(rt, done, len(outcomes)-1)
		}
	})
}

func TestJournalRefuses(t *testing.T) {
	p := plan(t, "", Request{Axes: []string{"kv.qps=1,2,3"}, Replications: 2})
	name, text, _ := journalOf(t, p)
	lines := strings.SplitAfter(string(text), "\n")
	for _, c := range []struct{ text, want string }{
		{string(text) + lines[1] + lines[2], "line 7 of the journal: replication 1 of point 1 is there twice"},
		{lines[0] + lines[1][:40] + "\n" + lines[2], "line 2 of the journal is damaged; remove the line"},
		{"hello\n", "is no journal of a sweep"},
		{"", "is no journal of a sweep"},
	} {
		require.NoError(t, os.WriteFile(name, []byte(c.text), 0o644))
		_, err := reread(t, p, name)
		require.ErrorContains(t, err, c.want)
	}
	small := plan(t, "", Request{Axes: []string{"kv.qps=1,2"}, Replications: 2})
	require.NoError(t, os.WriteFile(name, text, 0o644))
	_, err := reread(t, small, name)
	require.ErrorContains(t, err, "there is no replication 1 of point 2")
}

// Two processes never append to one journal.
func TestJournalIsLocked(t *testing.T) {
	p := plan(t, "", Request{Axes: []string{"kv.qps=1,2,3"}, Replications: 2})
	name, _, _ := journalOf(t, p)
	j, _, err := openJournal(name)
	require.NoError(t, err)
	_, _, err = openJournal(name)
	require.ErrorContains(t, err, "another process is at work on this sweep")
	require.NoError(t, j.close())
	j, _, err = openJournal(name)
	require.NoError(t, err)
	require.NoError(t, j.close())
}

// FuzzEntry holds the reader of a line to its word: what it takes is exactly what
// would be written.
func FuzzEntry(f *testing.F) {
	line, err := appendLine(nil, Outcome{Point: 1, Summary: []byte(`{"tgs":1}`)})
	require.NoError(f, err)
	f.Add(line)
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, line []byte) {
		entry, ok := entryOf(line)
		if !ok {
			return
		}
		want := lineHead + checksum(entry) + lineMiddle + string(entry) + lineTail
		require.Equal(t, want, string(line))
	})
}
