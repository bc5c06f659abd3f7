package docs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/internal/invariants"
	"github.com/tgssim/tgssim/internal/testkit"
	"github.com/tgssim/tgssim/sweep"
)

const sizeStudy = "tgs-vs-fabric-size"

// sizeTable sweeps the study over some networks and sizes, and makes its table.
func sizeTable(t *testing.T, keep func(nodes, network string) bool) string {
	plan, err := sweep.New(sizeStudy, sweep.Request{})
	require.NoError(t, err)
	plan.Points = slices.DeleteFunc(plan.Points, func(point []int) bool {
		return !keep(plan.Axes[0].Values[point[0]].Label, plan.Axes[1].Values[point[1]].Label)
	})
	columns := []column{
		{"TGS", "tgs_steady", 1, 0}, {"mean ITL, ms", "mean_itl_ms", 1, 1},
		{"dispatch of decode, us", "dispatch_us_decode", 1, 0}, {"combine, us", "combine_us_decode", 1, 0},
		{"KV transfer, p99, ms", "p99_kv_transfer_ms", 1, 1}, {"marked, %", "marked_share", 100, 1},
		{"longest queue, MiB", "max_queue_bytes", 1. / (1 << 20), 0}, {"ports paused, ms", "paused_ms", 1, 0},
	}
	var keys []string
	head := []string{"GPUs", "network"}
	for _, c := range columns {
		keys, head = append(keys, c.key), append(head, c.head)
	}
	f, err := plan.Open(filepath.Join(t.TempDir(), "size"), "docs", false)
	require.NoError(t, err)
	defer f.Close()
	failed, err := f.Run(t.Context(), sweep.Options{})
	require.NoError(t, err)
	require.Zero(t, failed)
	points, err := f.Summarise(keys, nil)
	require.NoError(t, err)
	r := newRows(head...)
	for _, p := range points {
		cells := []string{num(float64(p.Cluster.GPUs), 0), p.Labels[1]}
		for i, m := range p.Means {
			m.Mean, m.Half = m.Mean*columns[i].scale, m.Half*columns[i].scale
			cells = append(cells, columns[i].cell(m))
		}
		r.row(cells...)
	}
	return r.String()
}

// TestSizeStudy holds the rows of the smallest cluster that take seconds; with
// -update and -long together it makes the whole table again, in minutes.
func TestSizeStudy(t *testing.T) {
	if !*long || invariants.Enabled {
		t.Skip("takes long: run with -long")
	}
	file := filepath.Join("studies", sizeStudy+".md")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	before, after, table, err := testkit.Table(string(text), sizeStudy)
	require.NoError(t, err)
	if *update {
		table = sizeTable(t, func(string, string) bool { return true })
		require.NoError(t, os.WriteFile(file, []byte(before+table+after), 0o644))
		return
	}
	quick := []string{"DCQCN+ECMP", "ECMP in the flow engine", "ideal"}
	want := sizeTable(t, func(nodes, network string) bool { return nodes == "8" && slices.Contains(quick, network) })
	require.Equal(t, 2+len(quick), strings.Count(want, "\n"))
	for row := range strings.Lines(want) {
		require.Contains(t, table, row, "%s has drifted; go test ./docs -run TestSizeStudy -long -update makes it again", file)
	}
}

// The study gives the same bytes with one worker and with several.
func TestSizeStudyDoesNotDependOnWorkers(t *testing.T) {
	skipStudies(t)
	results := func(workers int) (all string) {
		plan, err := sweep.New(sizeStudy, sweep.Request{
			Axes: []string{"cluster.nodes=8"}, Set: []string{"run.until=100ms"}, Replications: 1,
		})
		require.NoError(t, err)
		dir := filepath.Join(t.TempDir(), "size")
		f, err := plan.Open(dir, "docs", false)
		require.NoError(t, err)
		defer f.Close()
		failed, err := f.Run(t.Context(), sweep.Options{Workers: workers})
		require.NoError(t, err)
		require.Zero(t, failed)
		for _, name := range []string{sweep.CSVFile, sweep.JSONFile, sweep.ManifestFile} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(t, err)
			all += string(text)
		}
		return all
	}
	require.Equal(t, results(1), results(4))
}
