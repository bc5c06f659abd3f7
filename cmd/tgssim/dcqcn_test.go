package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/scenarios"
)

// TestDCQCNDocument runs the commands of docs/dcqcn.md but for the long one, whose
// arguments are checked.
func TestDCQCNDocument(t *testing.T) {
	text, err := os.ReadFile("../../docs/dcqcn.md")
	require.NoError(t, err)
	commands := 0
	try := func(line string, args []string) {
		var stdout, stderr bytes.Buffer
		require.Zero(t, run(context.Background(), args, &stdout, &stderr), "%s\n%s", line, &stderr)
		require.NotEmpty(t, stdout.String())
		commands++
	}
	for _, m := range fences.FindAllStringSubmatch(string(text), -1) {
		require.Equal(t, "sh", m[1])
		for line := range strings.Lines(m[2]) {
			try(line, words(line)[1:])
		}
	}
	for line := range strings.Lines(string(text)) {
		if line, ok := strings.CutPrefix(line, "    tgssim run "); ok {
			var set []string
			for i, w := range words(line) {
				if i%2 == 0 && i > 0 {
					set = append(set, w)
				}
			}
			_, err := scenarios.Load(words(line)[0], set...)
			require.NoError(t, err)
			commands++
		}
	}
	require.Equal(t, 7, commands)
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
