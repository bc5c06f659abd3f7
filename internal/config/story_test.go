package config_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/internal/config"
)

var rewrite = flag.Bool("rewrite", false, "write what the stories give into testdata instead of comparing")

// TestStories runs the stories of testdata. A step is a command with its input,
// "----", and the expected output up to an empty line:
//
//	parse FILE      make FILE the tree
//	over FILE       lay FILE over the tree, as extends does
//	set             make each line's assignment
//	take KEY        take a text key off the tree
//	decode          decode into the defaults and print what differs from them
//	validate        decode, validate, and find the places of the problems
//	place           print the place of each key
//	marshal         print the resolved scenario
//
// A step that fails prints its error, and the tree stays as it was.
func TestStories(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.story")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) { runStory(t, path) })
	}
}

func runStory(t *testing.T, path string) {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	var s story
	var got strings.Builder
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		got.WriteString(lines[i] + "\n")
		if lines[i] == "" || strings.HasPrefix(lines[i], "#") {
			continue
		}
		command, input := lines[i], ""
		for i++; i < len(lines) && lines[i] != "----"; i++ {
			input += lines[i] + "\n"
		}
		for i++; i < len(lines) && lines[i] != ""; i++ {
		}
		got.WriteString(input + "----\n" + strings.Trim(s.step(t, command, input), "\n") + "\n")
		if i < len(lines) {
			got.WriteString("\n")
		}
	}
	if *rewrite {
		require.NoError(t, os.WriteFile(path, []byte(got.String()), 0o644))
		return
	}
	require.Equal(t, string(data), got.String())
}

type story struct{ tree *config.Tree }

func (s *story) step(t *testing.T, command, input string) string {
	verb, arg, _ := strings.Cut(command, " ")
	switch verb {
	case "parse", "over":
		tree, err := config.Parse(arg, []byte(input))
		if err != nil {
			require.Nil(t, tree)
			return err.Error()
		}
		if verb == "parse" {
			s.tree = tree
		} else {
			s.tree.Merge(tree)
		}
		return "ok"
	case "set":
		for line := range strings.Lines(input) {
			if err := s.tree.Set(strings.TrimSuffix(line, "\n")); err != nil {
				return err.Error()
			}
		}
		return "ok"
	case "take":
		value := "untouched"
		where, err := s.tree.Take(arg, &value)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%s at %q", value, where)
	case "decode":
		dst := defaults()
		if err := s.tree.Decode(&dst); err != nil {
			return err.Error()
		}
		return changes(t, dst)
	case "validate":
		dst := defaults()
		require.NoError(t, s.tree.Decode(&dst))
		if err := s.tree.Resolve(dst.validate()); err != nil {
			return err.Error()
		}
		return "ok"
	case "place":
		var ps config.Problems
		for key := range strings.FieldsSeq(input) {
			ps.Addf(key, "here")
		}
		return s.tree.Resolve(ps).Error()
	case "marshal":
		dst := defaults()
		require.NoError(t, s.tree.Decode(&dst))
		data, err := config.Marshal(dst)
		require.NoError(t, err)
		return string(data)
	}
	t.Fatalf("unknown command %q", command)
	return ""
}

// changes lists the lines of the resolved scenario that are not in the defaults.
func changes(t *testing.T, s scenario) string {
	before, err := config.Marshal(defaults())
	require.NoError(t, err)
	after, err := config.Marshal(s)
	require.NoError(t, err)
	known := map[string]bool{}
	for line := range strings.Lines(string(before)) {
		known[line] = true
	}
	var out strings.Builder
	for line := range strings.Lines(string(after)) {
		if !known[line] {
			out.WriteString(line)
		}
	}
	if out.Len() == 0 {
		return "ok, all defaults"
	}
	return out.String()
}
