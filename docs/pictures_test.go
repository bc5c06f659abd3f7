package docs

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/internal/invariants"
)

// A picture of the documents is an indented command
//
//	tgssim plot out/x ... -o docs/plots/x.svg
//
// of a page, below the `tgssim sweep` or `tgssim run` with -o that makes each of
// its folders. The page shows it. TestPictures runs the commands as they stand:
// with -long it holds the pictures to what comes out, with -update it makes them
// again, one page or one picture with -run TestPictures/plots.md/frontier.svg.
// Nothing else is to be done for a new picture.

// slowPages have pictures of sweeps that take minutes. They are made again with
// -update and -long together, and not compared.
var slowPages = []string{
	"ecmp-elephants.md", "kv-beside-ep.md", "kv-incast.md", "mistuned-ecn.md", "pfc-victims.md",
	"tgs-vs-fabric-size.md", "uplink-failure.md",
}

// A command is one of a page, split into words.
type command struct {
	page string // below docs
	line int
	args []string // without "tgssim"
}

// out is the value of its flag -o.
func (c *command) out() string {
	if i := slices.Index(c.args, "-o"); i >= 0 && i+1 < len(c.args) {
		return c.args[i+1]
	}
	return ""
}

// draws tells a command that makes a picture of the documents.
func (c *command) draws() bool { return c.args[0] == "plot" && strings.HasPrefix(c.out(), "docs/") }

// folders are the folders that a plot reads.
func (c *command) folders() (dirs []string) {
	for _, a := range c.args[1:] {
		if strings.HasPrefix(a, "-") {
			break
		}
		dirs = append(dirs, a)
	}
	return dirs
}

// commandsOf finds the indented commands of a page.
func commandsOf(t *testing.T, page string) (list []command) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		rest, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "    tgssim ")
		if !ok {
			continue
		}
		args, err := split(rest)
		require.NoError(t, err, "%s:%d", page, number)
		list = append(list, command{filepath.ToSlash(page), number, args})
	}
	return list
}

// split splits a command into words as a shell does; single quotes keep spaces.
func split(line string) (words []string, err error) {
	var word strings.Builder
	quoted, some := false, false
	for _, r := range line {
		switch {
		case r == '\'':
			quoted, some = !quoted, true
		case r == ' ' && !quoted:
			if some {
				words = append(words, word.String())
			}
			word.Reset()
			some = false
		case strings.ContainsRune("\"\\$|&;<>`", r) && !quoted:
			return nil, errors.New("a command with " + string(r) + " is no plain one; quote it with '")
		default:
			word.WriteRune(r)
			some = true
		}
	}
	if quoted || !some && len(words) == 0 {
		return nil, errors.New("a quote is open, or there is no command")
	}
	if some {
		words = append(words, word.String())
	}
	return words, nil
}

func TestSplit(t *testing.T) {
	for line, want := range map[string][]string{
		"run x": {"run", "x"}, " a  b ": {"a", "b"}, "--set 'a={b: 1, c: 2}'": {"--set", "a={b: 1, c: 2}"}, "x=''": {"x="}, "'' a": {"", "a"},
	} {
		got, err := split(line)
		require.NoError(t, err, line)
		require.Equal(t, want, got, line)
	}
	for _, line := range []string{"", " ", "'a", "a | b", "a > b", `a "b"`, "a $b"} {
		_, err := split(line)
		require.Error(t, err, line)
	}
}

// pages are the documents, and those of the studies.
func pages(t *testing.T) (list []string) {
	for _, pattern := range []string{"*.md", "studies/*.md"} {
		some, err := filepath.Glob(pattern)
		require.NoError(t, err)
		list = append(list, some...)
	}
	return list
}

// Every picture is made by one command, of a page that shows it, from folders that
// commands above make.
func TestPicturesHaveCommands(t *testing.T) {
	made := map[string]bool{}
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		folders := map[string]bool{}
		for _, c := range commandsOf(t, page) {
			if slices.Contains([]string{"sweep", "run"}, c.args[0]) {
				folders[c.out()] = true
			}
			if !c.draws() {
				continue
			}
			name := strings.TrimPrefix(c.out(), "docs/")
			require.False(t, made[name], "%s:%d: %s is made twice", page, c.line, name)
			made[name] = true
			require.NotEmpty(t, c.folders(), "%s:%d: the folders come first", page, c.line)
			for _, dir := range c.folders() {
				require.True(t, folders[dir], "%s:%d: no command above makes %s", page, c.line, dir)
			}
			shown, err := filepath.Rel(filepath.Dir(page), filepath.FromSlash(name))
			require.NoError(t, err)
			require.Contains(t, string(text), "]("+filepath.ToSlash(shown)+")", "%s does not show it", page)
		}
	}
	require.NoError(t, filepath.WalkDir(".", func(name string, _ fs.DirEntry, err error) error {
		if ext := filepath.Ext(name); ext == ".svg" || ext == ".png" {
			require.True(t, made[filepath.ToSlash(name)], "no command makes %s", name)
			delete(made, filepath.ToSlash(name))
		}
		return err
	}))
	if !*update {
		require.Empty(t, made, "they are not there; go test ./docs -run TestPictures -update makes them")
	}
}

// TestPictures holds the pictures to what their commands give.
func TestPictures(t *testing.T) {
	if !*long && !*update || invariants.Enabled {
		t.Skip("takes long: run with -long")
	}
	dir := t.TempDir()
	tool := filepath.Join(dir, "tgssim")
	if runtime.GOOS == "windows" {
		tool += ".exe"
	}
	execute(t, ".", "go", "build", "-o", tool, "../cmd/tgssim")
	for _, page := range pages(t) {
		list := commandsOf(t, page)
		if !slices.ContainsFunc(list, func(c command) bool { return c.draws() }) {
			continue
		}
		t.Run(filepath.Base(page), func(t *testing.T) {
			if slices.Contains(slowPages, filepath.Base(page)) && !(*update && *long) {
				t.Skip("takes minutes: run with -update -long")
			}
			work, done := t.TempDir(), map[string]bool{}
			for i, c := range list {
				if !c.draws() {
					continue
				}
				t.Run(filepath.Base(c.out()), func(t *testing.T) {
					for _, m := range list[:i] {
						if o := m.out(); slices.Contains(c.folders(), o) && !done[o] && m.args[0] != "plot" {
							execute(t, work, tool, m.args...)
							done[o] = true
						}
					}
					holdPicture(t, work, tool, c)
				})
			}
		})
	}
}

// holdPicture draws a picture and compares it to the one of the documents, or
// replaces that.
func holdPicture(t *testing.T, work, tool string, c command) {
	drawn := filepath.Join(work, filepath.Base(c.out()))
	args := slices.Clone(c.args)
	args[slices.Index(args, "-o")+1] = drawn
	execute(t, work, tool, args...)
	want, err := os.ReadFile(drawn)
	require.NoError(t, err)
	name := filepath.Join("..", filepath.FromSlash(c.out()))
	if *update {
		require.NoError(t, os.WriteFile(name, want, 0o644))
		return
	}
	got, err := os.ReadFile(name)
	require.NoError(t, err)
	require.True(t, bytes.Equal(got, want), "%s is not what %s:%d gives; go test ./docs -run %s -update makes it again",
		c.out(), c.page, c.line, t.Name())
}

// execute runs a command in a folder.
func execute(t *testing.T, dir, name string, args ...string) {
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %s\n%s", name, strings.Join(args, " "), out)
}
