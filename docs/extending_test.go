package docs

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/internal/testkit"
)

// The example of a controller is the one that congestion compiles and tests.
func TestExampleOfAController(t *testing.T) {
	code, err := os.ReadFile("../congestion/example_test.go")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(code), "// AIMDConfig is")
	require.True(t, ok)
	example, _, ok := strings.Cut("// AIMDConfig is"+rest, "\n// end of the example")
	require.True(t, ok)
	text, err := os.ReadFile("extending.md")
	require.NoError(t, err)
	_, _, body, err := testkit.Table(string(text), "example")
	require.NoError(t, err)
	require.Equal(t, "```go\n"+example+"```\n", body)
}

// A row and three lines make the example of extending.md an algorithm of the command,
// with keys that are checked: no other file of the tree changes.
func TestOneMoreController(t *testing.T) {
	if !*long {
		t.Skip("builds the command: run with -long")
	}
	text, err := os.ReadFile("extending.md")
	require.NoError(t, err)
	fenced := func(name string) string {
		_, _, body, err := testkit.Table(string(text), name)
		require.NoError(t, err)
		return strings.TrimSuffix(strings.TrimPrefix(body, "```go\n"), "```\n")
	}
	lines := strings.Split(strings.TrimSpace(fenced("lines")), "\n")
	require.Len(t, lines, 5)
	dir, err := filepath.Abs("../congestion")
	require.NoError(t, err)
	tmp, overlay := t.TempDir(), map[string]string{}
	put := func(name, code string) {
		file := filepath.Join(tmp, name)
		require.NoError(t, os.WriteFile(file, []byte(code), 0o644))
		overlay[filepath.Join(dir, name)] = file
	}
	// before puts a line before one that stands in a file once.
	before := func(code, mark, line string) string {
		require.Equal(t, 1, strings.Count(code, mark), mark)
		return strings.Replace(code, mark, line+"\n"+mark, 1)
	}
	read := func(name string) string {
		code, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return string(code)
	}
	put("aimd.go", "package congestion\n\nimport (\n\"github.com/tgssim/tgssim/internal/config\"\n"+
		"\"github.com/tgssim/tgssim/internal/units\"\n\"github.com/tgssim/tgssim/sim\"\n)\n"+fenced("example"))
	put("controller.go", before(read("controller.go"), "\t{\"swift\", ", lines[0]))
	c := before(read("config.go"), "\t// Swift is used by", lines[2])
	c = before(c, "\t\tSwift:     DefaultSwift(),", lines[3])
	put("config.go", before(c, "\tps.Nest(\"swift\", ", lines[4]))
	overlay[filepath.Join(dir, "example_test.go")] = "" // it has the same
	list, err := json.Marshal(map[string]any{"Replace": overlay})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(tmp, "overlay.json"), list, 0o644))
	command := filepath.Join(tmp, "tgssim")
	out, err := exec.Command("go", "build", "-buildvcs=false", "-overlay", filepath.Join(tmp, "overlay.json"), "-o", command, "../cmd/tgssim").CombinedOutput()
	require.NoError(t, err, "%s", out)

	// The tests that go through the table take it in.
	out, err = exec.Command("go", "test", "-overlay", filepath.Join(tmp, "overlay.json"), "-run", "Validate|Preset|DefaultConfig|EveryField|NewRefuses",
		"../congestion").CombinedOutput()
	require.NoError(t, err, "%s", out)

	net := func(set ...string) (string, int) {
		args := []string{"net", "ls128-incast32"}
		for _, s := range set {
			args = append(args, "--set", s)
		}
		c := exec.Command(command, args...)
		out, _ := c.CombinedOutput()
		return string(out), c.ProcessState.ExitCode()
	}
	half, code := net("congestion.algorithm=aimd", "congestion.ecn.preset=conweave")
	require.Zero(t, code, half)
	require.Contains(t, half, "32 of 32 flows finished")
	require.NotContains(t, half, "congestion.aimd never acted")
	more, code := net("congestion.algorithm=aimd", "congestion.ecn.preset=conweave", "congestion.aimd.beta=0.9")
	require.Zero(t, code, more)
	require.NotEqual(t, half, more)
	for says, set := range map[string][]string{
		"congestion.aimd.beta: 2 is out of range; use 0.01 to 0.99":    {"congestion.aimd.beta=2"},
		"congestion.aimd.gane: unknown key (keys here: gain, beta)":    {"congestion.aimd.gane=1kB"},
		`congestion.algorithm: "aimdd" is unknown; did you mean aimd?`: {"congestion.algorithm=aimdd"},
	} {
		out, code := net(set...)
		require.Equal(t, 2, code)
		require.Contains(t, out, says)
	}
	idle, code := net("congestion.aimd.beta=0.9")
	require.Zero(t, code)
	require.Contains(t, idle, "congestion.aimd never acted: congestion control is dcqcn")
}
