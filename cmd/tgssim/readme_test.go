package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fences finds the code blocks of a Markdown file.
var fences = regexp.MustCompile("(?s)```([a-z]+)\n(.*?)```")

// TestReadme runs every command of README.md, in order, in a folder that holds
// the files that it shows, and looks for every line of output that it quotes.
func TestReadme(t *testing.T) {
	if testing.Short() {
		t.Skip("runs whole scenarios")
	}
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	traces, err := filepath.Abs("../../workload")
	require.NoError(t, err)
	dir := t.TempDir()
	t.Chdir(dir)
	require.NoError(t, os.Symlink(traces, "workload"))

	var last string
	commands := 0
	for _, m := range fences.FindAllStringSubmatch(string(text), -1) {
		switch kind, body := m[1], m[2]; kind {
		case "yaml":
			name := strings.TrimPrefix(strings.SplitN(body, "\n", 2)[0], "# ")
			require.NoError(t, os.WriteFile(name, []byte(body), 0o644))
		case "sh":
			for line := range strings.Lines(body) {
				line = strings.TrimPrefix(strings.TrimSpace(line), "go run ./cmd/")
				if line == "go test ./..." {
					continue // this is it
				}
				args := strings.Fields(line)
				require.Equal(t, "tgssim", args[0], "a command that no test can run: %s", line)
				var stdout, stderr bytes.Buffer
				code := run(context.Background(), args[1:], &stdout, &stderr)
				require.Zero(t, code, "%s\n%s", line, &stderr)
				require.NotEmpty(t, stdout.String(), line)
				if strings.HasSuffix(line, "run deepseek-v3-h800-pd") {
					last = stdout.String()
				}
				commands++
			}
		case "text":
			for line := range strings.Lines(body) {
				require.Contains(t, last, strings.TrimRight(line, "\n"), "README quotes output that is not printed")
			}
		default:
			t.Fatalf("a code block of kind %q is neither run nor checked", kind)
		}
	}
	require.GreaterOrEqual(t, commands, 9)
}
