package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/compare"
)

// TestCompareDocument runs the commands of docs/compare.md, in order, and looks for
// every line of output that it quotes in what the last of them has printed.
func TestCompareDocument(t *testing.T) {
	if testing.Short() {
		t.Skip("runs whole scenarios")
	}
	text, err := os.ReadFile("../../docs/compare.md")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	var stdout bytes.Buffer
	commands, quoted := 0, 0
	for _, m := range fences.FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(m[2]) {
			line = strings.TrimSpace(line)
			switch m[1] {
			case "sh":
				args := strings.Fields(line)
				require.Equal(t, "tgssim", args[0])
				var stderr bytes.Buffer
				stdout.Reset()
				require.Zero(t, run(context.Background(), args[1:], &stdout, &stderr), "%s\n%s", line, &stderr)
				commands++
			case "text":
				require.Contains(t, stdout.String(), line, "the document quotes output that is not printed")
				quoted++
			default:
				t.Fatalf("a code block of kind %q is neither run nor checked", m[1])
			}
		}
	}
	require.Equal(t, 5, commands)
	require.Equal(t, 5, quoted)
	require.FileExists(t, "out/nightly/compare.json")
	for _, m := range compare.Measures() {
		require.Contains(t, string(text), "`"+m.Key+"`")
	}
	for _, g := range compare.Guards() {
		outcome := "warning"
		if g.Refuse {
			outcome = "refused"
		}
		found := false
		for line := range strings.Lines(string(text)) {
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

// A run that fails is said, and the exit code is 1, whatever the limits say.
func TestCompareFailedRun(t *testing.T) {
	plan, err := compare.New(compare.Request{
		Refs: []string{"qwen3-30b-a3b-h20", "qwen3-30b-a3b-h20"}, Set: []string{"workload.requests=5"}, Replications: 2,
		Limits: []string{"tgs=-1%"},
	})
	require.NoError(t, err)
	plan.Variants[1].Scenario.Model.Name = "no-such"
	result, err := plan.Run(context.Background(), compare.Options{})
	require.NoError(t, err)
	var stdout bytes.Buffer
	cmd := &cobra.Command{}
	cmd.SetOut(&stdout)
	err = (&compareFlags{}).deliver(cmd, result)
	require.ErrorContains(t, err, "2 of 4 runs failed; the first is replication 0 of B: ")
	var coded *codedError
	require.NotErrorAs(t, err, &coded)
	require.Contains(t, stdout.String(), "* Failed: B, replication 1: ")
}
