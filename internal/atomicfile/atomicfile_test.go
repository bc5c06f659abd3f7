package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// names lists a folder, hidden entries included.
func names(t *testing.T, dir string) (all []string) {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a")
	require.NoError(t, File(name, Bytes([]byte("one"))))
	full := errors.New("full")
	require.ErrorIs(t, File(name, func(w io.Writer) error {
		_, err := w.Write([]byte("half of tw"))
		return errors.Join(err, full)
	}), full)
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, "one", string(text), "the old file stays when the new one fails")
	require.Equal(t, []string{"a"}, names(t, dir), "nothing is left beside it")
	require.NoError(t, File(name, Bytes([]byte("two"))))
	text, err = os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, "two", string(text))
	info, err := os.Stat(name)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o644), info.Mode().Perm())
	require.Error(t, File(filepath.Join(dir, "none", "a"), Bytes(nil)))
	require.Error(t, File(dir, Bytes(nil)), "a folder is in its place")
	require.Equal(t, []string{"a"}, names(t, dir))
}

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "b", "c")
	put := func(file string, fail error) func(string) error {
		return func(dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, file), nil, 0o644), fail)
		}
	}
	require.NoError(t, Folder(target, put("old", nil)))
	full := errors.New("full")
	require.ErrorIs(t, Folder(target, put("half", full)), full)
	require.Equal(t, []string{"old"}, names(t, target), "the old folder stays when the new one fails")
	require.NoError(t, Folder(target, put("new", nil)))
	require.Equal(t, []string{"new"}, names(t, target), "nothing of the old folder stays")
	require.Equal(t, []string{"c"}, names(t, filepath.Dir(target)), "nothing is left beside it")
}

// Should the new folder not get to its place, the old one goes back.
func TestReplaceGoesBack(t *testing.T) {
	target := filepath.Join(t.TempDir(), "a")
	require.NoError(t, Folder(target, func(string) error { return nil }))
	require.Error(t, replace(target, target+".gone"))
	require.Equal(t, []string{"a"}, names(t, filepath.Dir(target)))
}
