package sweep

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// While a complete sweep is replaced, its folder has a journal at every instant: a
// process that is killed there leaves a folder of ours.
func TestReplacingKeepsAJournal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "s")
	p := plan(t, "", Request{Axes: []string{"kv.qps=1,2"}})
	do(t, p, dir, false, Options{})
	var stop atomic.Bool
	missing := make(chan int)
	go func() {
		n := 0
		for !stop.Load() {
			if _, err := os.Stat(filepath.Join(dir, JournalFile)); errors.Is(err, fs.ErrNotExist) {
				n++
			}
		}
		missing <- n
	}()
	for range 10 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, ManifestFile), nil, 0o644))
		f, err := p.Open(dir, testVersion, false)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	stop.Store(true)
	require.Zero(t, <-missing, "looks without a journal")
}

// A sweep that was killed just after it took the place of another one goes on, and
// nothing of the other is left.
func TestResumeBesideAnOldSweep(t *testing.T) {
	old := plan(t, "", Request{Axes: []string{"kv.qps=1,2,3"}})
	p := plan(t, "", Request{Axes: []string{"kv.qps=4"}})
	fresh := filepath.Join(t.TempDir(), "fresh")
	do(t, p, fresh, false, Options{})
	want := results(t, fresh)
	for _, gone := range [][]string{
		{},
		{CSVFile, JSONFile},
		{CSVFile, JSONFile, ParquetFile, TimingFile, PointsFolder},
		{CSVFile, JSONFile, ParquetFile, TimingFile, PointsFolder, ManifestFile},
	} {
		dir := filepath.Join(t.TempDir(), "s")
		do(t, old, dir, false, Options{Parquet: true})
		id, _, err := p.identify(testVersion)
		require.NoError(t, err)
		j, err := createJournal(filepath.Join(dir, JournalFile), id, p.Runs())
		require.NoError(t, err)
		require.NoError(t, j.close())
		for _, name := range gone {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, name)))
		}
		f, err := p.Open(dir, testVersion, true)
		require.NoError(t, err)
		require.NoFileExists(t, f.path(ManifestFile), "an unfinished sweep looks complete")
		_, err = f.Run(t.Context(), Options{})
		require.NoError(t, err)
		require.NoError(t, f.Close())
		require.Equal(t, want, results(t, dir), "without %v", gone)
	}
}
