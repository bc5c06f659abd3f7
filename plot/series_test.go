package plot

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/sweep"
)

func namesOf(f *figure) (names []string) {
	for _, e := range f.legend {
		names = append(names, e.name)
	}
	return names
}

// What was left out to be fast is said.
func TestShortcutsAreSaid(t *testing.T) {
	runs := study()
	_, texts := draws(t, Request{Dirs: []string{writeSweep(t, t.TempDir(), runs...)}, Preset: "tgs-vs-size"})
	all := strings.Join(texts, " ")
	require.Contains(t, all, "Some 2 of the MoE layers of a step are simulated")
	require.NotContains(t, all, "trains")
	for i := range runs {
		runs[i].engine = "packet"
	}
	_, texts = draws(t, Request{Dirs: []string{writeSweep(t, t.TempDir(), runs...)}, Preset: "tgs-vs-size"})
	require.Contains(t, strings.Join(texts, " "), "Packets move in trains of 16.")
}

// One point per size and network, the ideal one last; bands are t intervals.
func TestTGSAgainstSize(t *testing.T) {
	dir := writeSweep(t, filepath.Join(t.TempDir(), "s"), study()...)
	f, texts := draws(t, Request{Dirs: []string{dir}, Preset: "tgs-vs-size"})
	require.Equal(t, []string{"dcqcn-ecmp", "spray", "Ideal fabric"}, namesOf(f))
	require.Equal(t, "Network", f.heading)
	p := f.panels[0]
	require.True(t, p.x.log)
	require.Equal(t, []float64{64, 128, 256}, p.x.places)
	require.Zero(t, p.y.min)
	require.Len(t, p.layers, 3)
	require.Equal(t, []xy{{64, 400}, {128, 400}, {256, 400}}, p.layers[0].line)
	require.Equal(t, []xy{{64, 390}, {128, 390}, {256, 390}}, p.layers[1].line)
	require.Equal(t, black, p.layers[2].style.colour)
	// 398, 400, 402: s = 2, t(2) = 4.3027, so 400 +- 4.3027 x 2/sqrt(3).
	require.Len(t, p.layers[0].bands, 1)
	for i := range 3 {
		require.InDelta(t, 400-4.9683, p.layers[0].bands[0].low[i].y, 1e-3)
		require.InDelta(t, 400+4.9683, p.layers[0].bands[0].high[i].y, 1e-3)
	}
	for _, want := range []string{
		"Tokens per GPU per second against cluster size", "GPUs", "TGS (tokens/s per GPU)", "64", "128", "256", "spray", "Ideal fabric",
	} {
		require.Contains(t, texts, want)
	}
	all := strings.Join(texts, "\n")
	for _, want := range []string{"deepseek-v3 on H800", "400 Gb/s", "9 points of 27 runs (3 replications), seed 7", "Student's t", "tgssim 9.9.9", "Scenario fake"} {
		require.Contains(t, all, want)
	}
}

// What makes the series: axes that x leaves open; words where x is measured.
func TestChooseBy(t *testing.T) {
	grid := func(fabrics, rates int) (runs []fake) {
		for p := range 3 * fabrics * rates {
			n, fabric, rate := p/(fabrics*rates), p/rates%fabrics, p%rates
			runs = append(runs, fake{
				point: p, axes: map[string]any{"cluster.nodes": 2 << n, "fabric": fmt.Sprint("f", fabric), "kv.qps": 1 + rate},
				cluster: map[string]any{"nodes": 2 << n, "gpus": 16 << n, "oversubscription": 1 + fabric},
				summary: map[string]any{"tgs_steady": 100 + p, "mean_tpot_ms": 10 + p},
			})
		}
		return runs
	}
	for name, c := range map[string]struct {
		runs []fake
		x    string
		by   string
	}{
		"sizes and fabrics":       {grid(2, 1), "gpus", "fabric"},
		"all three":               {grid(2, 2), "gpus", "fabric kv.qps"},
		"only sizes":              {grid(1, 1), "gpus", ""},
		"an axis itself":          {grid(2, 2), "kv.qps", "cluster.nodes fabric"},
		"oversubscription":        {grid(2, 1), "oversubscription", "cluster.nodes"},
		"measured, words":         {grid(2, 1), "tokens_per_s_per_user", "fabric"},
		"measured, more than one": {grid(2, 2), "tokens_per_s_per_user", "cluster.nodes fabric"},
	} {
		table, err := open([]string{writeSweep(t, t.TempDir(), c.runs...)})
		require.NoError(t, err)
		s := xySpec{x: c.x, measured: table.isMeasure(c.x)}
		table.chooseBy(&s, false)
		require.Equal(t, c.by, strings.Join(s.by, " "), name)
		_, err = table.group(&s, "tgs_steady")
		require.NoError(t, err, name)
	}
}

// The ideal fabric has no oversubscription: it is a level line beside the size it
// belongs to, in its colour.
func TestIdealIsLevel(t *testing.T) {
	var runs []fake
	for p := range 6 {
		n, i := p/3, p%3
		f := fake{
			point: p, axes: map[string]any{"cluster.nodes": 2 << n, "fabric": []string{"1:1", "4:1", "ideal"}[i]},
			cluster: map[string]any{"nodes": 2 << n, "gpus": 16 << n, "oversubscription": []int{1, 4, 1}[i]},
			summary: map[string]any{"tgs_steady": 100*n + 50 - 10*i},
		}
		if i == 2 {
			f.engine = "ideal"
		}
		runs = append(runs, f)
	}
	f, _ := draws(t, Request{Dirs: []string{writeSweep(t, t.TempDir(), runs...)}, Preset: "tgs-vs-oversubscription"})
	require.Equal(t, []string{"2 servers", "4 servers", "2 servers, ideal fabric", "4 servers, ideal fabric"}, namesOf(f))
	layers := f.panels[0].layers
	require.Equal(t, []xy{{1, 50}, {4, 40}}, layers[0].line)
	for i, want := range []float64{30, 130} {
		l := layers[2+i]
		require.Equal(t, []xy{{f.panels[0].x.min, want}, {f.panels[0].x.max, want}}, l.line)
		require.Empty(t, l.points)
		require.Equal(t, layers[i].style.colour, l.style.colour)
	}
}

// Two points at one place are no replications of each other.
func TestMixedPointsAreRefused(t *testing.T) {
	dir := writeSweep(t, t.TempDir(), study()...)
	_, err := Make(Request{Dirs: []string{dir}, Preset: "tgs-vs-size", By: []string{"gpu.name"}})
	require.EqualError(t, err, "runs at gpus 64 differ in network (dcqcn-ecmp, spray): add it to --by, or choose with --where network=dcqcn-ecmp")
	f, _ := draws(t, Request{Dirs: []string{dir}, Preset: "tgs-vs-size", Where: []string{"network=spray"}})
	require.Empty(t, f.legend)
	require.Equal(t, []xy{{64, 390}, {128, 390}, {256, 390}}, f.panels[0].layers[0].line)
	f, _ = draws(t, Request{Dirs: []string{dir}, Preset: "tgs-vs-size", Where: []string{"network=spray,ideal", "gpus=64,128.0"}})
	require.Equal(t, []string{"spray", "Ideal fabric"}, namesOf(f))
	require.Len(t, f.panels[0].layers[0].line, 2)
}

// Failed runs are marked where they would stand, even where nothing was built,
// and said with their reasons.
func TestFailedRunsAreShown(t *testing.T) {
	runs := study()
	for i := range runs {
		if f := &runs[i]; f.axes["network"] == "spray" && f.axes["cluster.nodes"] == 32 {
			f.failure, f.cluster = "too large <&>", nil
		}
	}
	f, texts := draws(t, Request{Dirs: []string{writeSweep(t, t.TempDir(), runs...)}, Preset: "tgs-vs-size"})
	require.Equal(t, []float64{256}, f.panels[0].failed)
	require.Contains(t, texts, "Failed runs")
	require.Contains(t, strings.Join(texts, " "), "3 of 27 runs failed: cluster.nodes=32 network=spray: too large <&>.")
	require.Len(t, f.panels[0].layers[1].line, 2)
	require.Len(t, f.notes, 1)

	for i := range runs {
		runs[i].failure = "no"
	}
	_, err := Make(Request{Dirs: []string{writeSweep(t, t.TempDir(), runs...)}, Preset: "tgs-vs-size"})
	require.ErrorContains(t, err, "there are no results; 27 of 27 failed, the first with: no")
}

// Without replications there is no band, and none over a single one among others.
func TestMissingReplications(t *testing.T) {
	all := study()
	var runs []fake
	for _, f := range all {
		if f.axes["network"] == "spray" && (f.replication == 0 || f.axes["cluster.nodes"] != 16) {
			runs = append(runs, f)
		}
	}
	f, texts := draws(t, Request{Dirs: []string{writeSweep(t, t.TempDir(), runs...)}, Preset: "tgs-vs-size"})
	l := f.panels[0].layers[0]
	require.Empty(t, l.bands)
	require.Len(t, l.bars, 2)
	require.Contains(t, strings.Join(texts, " "), "(1 to 3 replications), seed 7.")
	require.Contains(t, strings.Join(texts, " "), "Single replications have no interval.")

	f, _ = draws(t, Request{Dirs: []string{writeSweep(t, t.TempDir(), all[0])}, Preset: "tgs-vs-size"})
	require.Equal(t, []xy{{64, 402}}, f.panels[0].layers[0].points)
}

func TestAxesOfChoice(t *testing.T) {
	dir := writeSweep(t, t.TempDir(), study()...)
	f, texts := draws(t, Request{Dirs: []string{dir}, X: "network", Y: []string{"tgs_steady", "mean_itl_ms"}, Where: []string{"gpus=64"}, Title: "Mine"})
	require.Equal(t, []string{"dcqcn-ecmp", "spray", "ideal"}, f.panels[0].x.names)
	require.Contains(t, texts, "Mine")
	require.Contains(t, texts, "Mean ITL (ms)")
	require.Len(t, f.panels, 2)
	require.Equal(t, []xy{{0, 400}, {1, 390}}, f.panels[0].layers[0].points, "one at a name stands at it")

	// Series with one value at one name stand beside each other, and all at the name.
	f, _ = draws(t, Request{Dirs: []string{dir}, X: "network", Y: []string{"tgs_steady"}})
	seen := map[float64]bool{}
	for _, l := range f.panels[0].layers {
		for i, q := range l.points {
			require.False(t, seen[q.x], "one point hides another")
			seen[q.x] = true
			require.InDelta(t, math.Round(q.x), q.x, 0.25)
			require.Equal(t, q.x, l.bars[i].from.x)
		}
	}
	require.Len(t, seen, 9)

	f, _ = draws(t, Request{Dirs: []string{dir}, X: "leaves", Y: []string{"tgs_steady"}, Log: "none", Zoom: true})
	require.False(t, f.panels[0].x.log)
	require.Greater(t, f.panels[0].y.min, 350.)
	f, _ = draws(t, Request{Dirs: []string{dir}, X: "leaves", Y: []string{"tgs_steady"}, Log: "y"})
	require.False(t, f.panels[0].x.log)
	require.True(t, f.panels[0].y.log)
	// A key of the scenario counts only where its engine asks for it.
	f, _ = draws(t, Request{Dirs: []string{dir}, Preset: "tgs-vs-size", By: []string{"congestion.algorithm"}, Where: []string{"network=spray,ideal"}})
	require.Equal(t, []string{"flow engine", "Ideal fabric"}, namesOf(f))
}

// Two folders are told apart by their names.
func TestTwoSweeps(t *testing.T) {
	dir := t.TempDir()
	a, b := writeSweep(t, filepath.Join(dir, "a"), study()[:3]...), writeSweep(t, filepath.Join(dir, "b"), study()[3:6]...)
	f, _ := draws(t, Request{Dirs: []string{a, b}, Preset: "tgs-vs-size"})
	require.Equal(t, []string{"a", "b"}, namesOf(f))
	require.Equal(t, "Folder", f.heading)
	_, err := Make(Request{Dirs: []string{a, a}, Preset: "tgs-vs-size"})
	require.ErrorContains(t, err, "given twice")
}

// The front is what brute force finds.
func TestPareto(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var spots []spot
		for i := range rapid.IntRange(0, 12).Draw(t, "n") {
			v := func(name string) sweep.Mean {
				return sweep.Mean{N: 1, Mean: float64(rapid.IntRange(0, 5).Draw(t, name))}
			}
			spots = append(spots, spot{point: i, x: v("x"), y: v("y")})
		}
		front := pareto(spots)
		for i, p := range front {
			if i > 0 {
				require.Greater(t, p.x.Mean, front[i-1].x.Mean)
				require.Less(t, p.y.Mean, front[i-1].y.Mean)
			}
		}
		for _, p := range spots {
			beaten := slices.ContainsFunc(spots, func(q spot) bool {
				return q.x.Mean >= p.x.Mean && q.y.Mean >= p.y.Mean && (q.x.Mean > p.x.Mean || q.y.Mean > p.y.Mean)
			})
			there := slices.ContainsFunc(front, func(q spot) bool { return q.x.Mean == p.x.Mean && q.y.Mean == p.y.Mean })
			require.Equal(t, !beaten, there)
		}
	})
}

func TestRefusals(t *testing.T) {
	dir := writeSweep(t, filepath.Join(t.TempDir(), "s"), study()...)
	for want, r := range map[string]Request{
		`unknown preset "tgs-vs-sice"; did you mean tgs-vs-size?`: {Preset: "tgs-vs-sice"},
		`choose --preset (`:                       {X: "gpus"},
		`--x: no column "gpsu"`:                   {X: "gpsu", Y: []string{"tgs"}},
		`--y: no column "tgs_stedy"`:              {X: "gpus", Y: []string{"tgs_stedy"}},
		`--by: no column "netwrok"`:               {Preset: "tgs-vs-size", By: []string{"netwrok"}},
		`--where gpus: write column=value,value`:  {Preset: "tgs-vs-size", Where: []string{"gpus"}},
		`no run has it; there are 64, 128, 256`:   {Preset: "tgs-vs-size", Where: []string{"gpus=65"}},
		`--log z is no choice of axes`:            {Preset: "tgs-vs-size", Log: "z"},
		`has its own axes; leave out --x and --y`: {Preset: "ttft-cdf", X: "gpus"},
		`keeps no requests.csv; ` + "`tgssim run": {Preset: "ttft-breakdown"},
		`5 panels are too many, 4 at most`:        {X: "gpus", Y: []string{"tgs", "tgs", "tgs", "tgs", "tgs"}},
		`network has names, not numbers`:          {X: "network", Y: []string{"tgs_steady"}, By: []string{"gpus"}, Log: "x"},
	} {
		r.Dirs = []string{dir}
		_, err := Make(r)
		require.ErrorContains(t, err, want)
	}
	_, err := Make(Request{Preset: "frontier"})
	require.ErrorContains(t, err, "needs the folder")
	_, err = Make(Request{Dirs: []string{t.TempDir()}, Preset: "frontier"})
	require.ErrorContains(t, err, "has no manifest.json, so it is no folder of")
	_, err = Make(Request{Dirs: []string{dir + "-none"}, Preset: "frontier"})
	require.ErrorContains(t, err, "does not exist")
	p, err := Make(Request{Dirs: []string{dir}, Preset: "frontier"})
	require.NoError(t, err)
	_, err = p.Encode("x.pdf")
	require.ErrorContains(t, err, "a picture ends in .svg or .png")
}

// A series that has one measure only is itself in the panel of the other one, too:
// the legend has all, and each looks the same everywhere.
func TestPanelsShareTheLegend(t *testing.T) {
	var runs []fake
	for p := range 6 {
		n, i := p/3, p%3
		f := fake{
			point: p, axes: map[string]any{"cluster.nodes": 2 << n, "network": []string{"flow", "packet", "ideal"}[i]},
			cluster: map[string]any{"nodes": 2 << n, "gpus": 16 << n},
			summary: map[string]any{"tgs_steady": 100*n + 50 - 10*i},
		}
		switch i {
		case 1:
			f.engine, f.summary["max_queue_bytes"] = "packet", 1000
		case 2:
			f.engine = "ideal"
		}
		runs = append(runs, f)
	}
	dir := writeSweep(t, t.TempDir(), runs...)
	for _, ys := range [][]string{{"max_queue_bytes", "tgs_steady"}, {"tgs_steady", "max_queue_bytes"}} {
		f, texts := draws(t, Request{Dirs: []string{dir}, X: "gpus", Y: ys})
		require.Equal(t, []string{"flow", "packet", "Ideal fabric"}, namesOf(f))
		for i, y := range ys {
			layers := f.panels[i].layers
			if y == "max_queue_bytes" {
				require.Len(t, layers, 1)
				require.Equal(t, f.legend[1].style, layers[0].style)
				continue
			}
			require.Len(t, layers, 3)
			for k := range layers {
				require.Equal(t, f.legend[k].style, layers[k].style)
			}
		}
		all := strings.Join(texts, " ")
		require.Contains(t, all, "6 points of 6 runs")
		require.Contains(t, all, "4 runs are left out of panels for want of a value: Longest queue of a switch port.")
	}
}

// A size at which nothing could be built has its place by its servers, if GPUs are
// in proportion to them.
func TestFailuresBeyondWhatWasBuilt(t *testing.T) {
	runs := study()
	for i := range runs {
		if runs[i].axes["cluster.nodes"] == 32 {
			runs[i].failure, runs[i].cluster = strings.Repeat("too large ", 20), nil
		}
	}
	f, texts := draws(t, Request{Dirs: []string{writeSweep(t, t.TempDir(), runs...)}, Preset: "tgs-vs-size"})
	require.Equal(t, []float64{256}, f.panels[0].failed)
	require.Contains(t, texts, "256")
	require.NotContains(t, strings.Join(texts, " "), "\u2026.")
	for i := range runs { // one size alone says nothing of the others
		if runs[i].axes["cluster.nodes"] == 16 {
			runs[i].failure, runs[i].cluster = "too large", nil
		}
	}
	f, _ = draws(t, Request{Dirs: []string{writeSweep(t, t.TempDir(), runs...)}, Preset: "tgs-vs-size"})
	require.Empty(t, f.panels[0].failed)
}

// A verdict has no place on a vertical axis, and is not said to be missing.
func TestWordsAreNoMeasure(t *testing.T) {
	runs := study()
	for i := range runs {
		runs[i].summary["saturation"] = "inconclusive"
	}
	_, err := Make(Request{Dirs: []string{writeSweep(t, t.TempDir(), runs...)}, X: "gpus", Y: []string{"saturation"}})
	require.EqualError(t, err, "--y saturation: it has words such as inconclusive, and a vertical axis needs numbers")
}
