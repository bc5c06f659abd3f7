package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCalibrateDocument runs the commands of docs/calibrate.md, in order, beside
// its table, and looks for every line of output that it quotes.
func TestCalibrateDocument(t *testing.T) {
	text, err := os.ReadFile("../../docs/calibrate.md")
	require.NoError(t, err)
	table, err := os.ReadFile("../../calibrate/testdata/kernels.csv")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("kernels.csv", table, 0o644))

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
	require.Equal(t, 2, commands)
	require.Positive(t, quoted)
	require.FileExists(t, "out/lab/manifest.json")
}
