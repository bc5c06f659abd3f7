package plot

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/experiment"
	"github.com/tgssim/tgssim/metrics"
	"github.com/tgssim/tgssim/report"
	"github.com/tgssim/tgssim/scenarios"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/sweep"
)

// runFolder runs a scenario of the library and writes its folder.
func runFolder(t testing.TB, dir string, set ...string) (string, *metrics.Summary) {
	s, err := scenarios.Load("fabric-size-quick", append([]string{"metrics.steps=true", "scale.load.requests_per_gpu=6"}, set...)...)
	require.NoError(t, err)
	text, err := s.Resolved()
	require.NoError(t, err)
	b, err := experiment.Build(s)
	require.NoError(t, err)
	result, err := b.Run(context.Background(), nil)
	require.NoError(t, err)
	run := report.Run{
		Name: s.Name, Scenario: text, Version: "9.9.9", Seed: s.Seed, Fingerprint: result.Fingerprint, Events: result.Events, Result: result.Result,
	}
	require.NoError(t, report.WriteRun(dir, run))
	return dir, &result.Summary
}

// What the pictures make of the files of a run is what package metrics measured:
// every gap between outputs is found again in the steps, one by one.
func TestDistributionsAreThoseOfTheRun(t *testing.T) {
	for name, set := range map[string][]string{
		"plain":        nil,
		"instances":    {"cluster.nodes=8"},
		"drafts":       {"decode.mtp.query_tokens=2"},
		"warm-up":      {"metrics.warmup=300ms"},
		"cut short":    {"run.until=1s"},
		"two machines": {"decode.overlap=two_batch", "prefill.overlap=two_batch"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, want := runFolder(t, filepath.Join(t.TempDir(), "run"), set...)
			_, runs, err := openRuns(&Request{Dirs: []string{dir}})
			require.NoError(t, err)
			ttft := runs[0].ttfts()
			require.EqualValues(t, want.MeasuredRequests, total(ttft))
			same := func(want *float64, sample []metrics.Weighted, p float64) {
				require.InEpsilon(t, *want, metrics.WeightedPercentile(sample, p), 1e-9)
			}
			same(want.MedianTTFT, ttft, 50)
			same(want.P99TTFT, ttft, 99)
			itl, err := runs[0].itls()
			require.NoError(t, err)
			require.EqualValues(t, want.ITLSamples, total(itl))
			same(want.MedianITL, itl, 50)
			same(want.P90ITL, itl, 90)
			same(want.P99ITL, itl, 99)
			sum := 0.
			for _, w := range itl {
				sum += w.Value * float64(w.Count)
			}
			require.InEpsilon(t, *want.MeanITL, sum/float64(total(itl)), 1e-9)
		})
	}
}

func TestPicturesOfRuns(t *testing.T) {
	dir := t.TempDir()
	a, _ := runFolder(t, filepath.Join(dir, "built"))
	b, _ := runFolder(t, filepath.Join(dir, "ideal"), "network.engine=ideal")
	for _, preset := range []string{"ttft-cdf", "itl-cdf"} {
		f, texts := draws(t, Request{Dirs: []string{a, b}, Preset: preset})
		require.Len(t, f.legend, 2)
		require.True(t, strings.HasPrefix(f.legend[0].name, "built\np50 "), f.legend[0].name)
		require.Equal(t, black, f.legend[1].style.colour)
		require.Contains(t, texts, "100")
		for _, l := range f.panels[0].layers {
			require.Zero(t, l.line[0].y)
			require.Equal(t, 1., l.line[len(l.line)-1].y)
		}
	}
	f, _ := draws(t, Request{Dirs: []string{a, b}, Preset: "ttft-cdf", By: []string{"network.engine", "gpus"}})
	require.True(t, strings.HasPrefix(f.legend[1].name, "ideal, 32 GPUs\np50 "), f.legend[1].name)

	// Runs are rows, too, beside a sweep and without its axes.
	both, _ := draws(t, Request{Dirs: []string{a, writeSweep(t, filepath.Join(dir, "sweep"), study()...)}, Preset: "tgs-vs-size"})
	require.Equal(t, []string{"built", "dcqcn-ecmp", "spray", "Ideal fabric"}, namesOf(both))
	f, _ = draws(t, Request{Dirs: []string{a, b}, Preset: "frontier"})
	require.Equal(t, []string{"built", "Ideal fabric"}, namesOf(f))

	require.NoError(t, os.Remove(filepath.Join(a, "steps.csv")))
	_, err := Make(Request{Dirs: []string{a}, Preset: "itl-cdf"})
	require.ErrorContains(t, err, "has no steps.csv; `tgssim run ... --set metrics.steps=true` writes it")
	require.NoError(t, os.Remove(filepath.Join(a, "requests.csv")))
	_, err = Make(Request{Dirs: []string{a}, Preset: "ttft-cdf"})
	require.ErrorContains(t, err, "has no requests.csv; `tgssim run` writes it")
	require.NoError(t, os.WriteFile(filepath.Join(a, "requests.csv"), []byte("id,arrival_s\n"), 0o644))
	_, err = Make(Request{Dirs: []string{a}, Preset: "ttft-cdf"})
	require.ErrorContains(t, err, "requests.csv: it has no column prompt_tokens")
}

// Bars begin at 0, their pieces stand on each other without gaps, and each ends at
// the mean TTFT of its requests.
func TestBreakdownTiles(t *testing.T) {
	dir, _ := runFolder(t, filepath.Join(t.TempDir(), "run"))
	f, texts := draws(t, Request{Dirs: []string{dir}, Preset: "ttft-breakdown"})
	_, runs, err := openRuns(&Request{Dirs: []string{dir}})
	require.NoError(t, err)
	p := f.panels[0]
	require.Zero(t, p.y.min)
	bins := binsOf(runs[0].measured())
	require.Greater(t, len(bins), 3)
	seen := 0
	level := map[float64]float64{}
	for _, b := range p.bars {
		require.InDelta(t, level[b.from.x], b.from.y, 1e-9)
		require.Greater(t, b.to.y, b.from.y)
		level[b.from.x] = b.to.y
	}
	for i, bin := range bins {
		mean := 0.
		for _, q := range bin.requests {
			require.True(t, bin.from <= q.prompt && q.prompt <= bin.to)
			mean += milliseconds(q.ttft) / float64(len(bin.requests))
		}
		seen += len(bin.requests)
		require.InEpsilon(t, mean, level[float64(i)-0.36], 1e-9)
	}
	require.Equal(t, len(runs[0].measured()), seen)
	require.Contains(t, texts, "Prompt length (tokens)")
	require.Contains(t, texts, "KV transfer: wire")
	for _, column := range pieceColumns { // every piece is in one part
		n := 0
		for _, part := range parts {
			if slices.Contains(part.pieces, column) {
				n++
			}
		}
		require.Equal(t, 1, n, column)
	}

	_, err = Make(Request{Dirs: []string{dir, dir + "/"}, Preset: "ttft-breakdown"})
	require.ErrorContains(t, err, "given twice")
	text, err := os.ReadFile(filepath.Join(dir, "requests.csv"))
	require.NoError(t, err)
	lines := strings.SplitN(string(text), "\n", 3)
	cells := strings.Split(lines[1], ",")
	i := slices.Index(strings.Split(lines[0], ","), "ttft_queue_ps")
	n, err := strconv.Atoi(cells[i])
	require.NoError(t, err)
	cells[i] = strconv.Itoa(n + 1)
	lines[1] = strings.Join(cells, ",")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "requests.csv"), []byte(strings.Join(lines, "\n")), 0o644))
	_, err = Make(Request{Dirs: []string{dir}, Preset: "ttft-breakdown"})
	require.ErrorContains(t, err, "do not add up")
}

// Several runs are panels on the same axes, and each bar is of its run's requests.
func TestBreakdownOfSeveralRuns(t *testing.T) {
	dir := t.TempDir()
	a, _ := runFolder(t, filepath.Join(dir, "built"), "cluster.oversubscription=4")
	b, _ := runFolder(t, filepath.Join(dir, "ideal"), "network.engine=ideal")
	short, _ := runFolder(t, filepath.Join(dir, "short"), "workload.prompt={dist: fixed, tokens: 20}")
	f, texts := draws(t, Request{Dirs: []string{a, b}, Preset: "ttft-breakdown"})
	require.Len(t, f.panels, 2)
	require.Equal(t, f.panels[0].y, f.panels[1].y)
	require.Equal(t, f.panels[0].x, f.panels[1].x)
	require.Contains(t, texts, "built")
	require.Contains(t, texts, "ideal")
	_, runs, err := openRuns(&Request{Dirs: []string{a, b}})
	require.NoError(t, err)
	for i, d := range runs {
		sum, n, level := 0., 0., map[float64]float64{}
		for _, b := range f.panels[i].bars {
			level[b.from.x] = b.to.y
		}
		for k, b := range binsOf(d.measured()) {
			sum += level[float64(k)-0.36] * float64(len(b.requests))
			n += float64(len(b.requests))
		}
		total := 0.
		for _, q := range d.measured() {
			total += milliseconds(q.ttft)
		}
		require.InEpsilon(t, total/n, sum/n, 1e-9, d.name)
	}
	// A length that one run does not have is a gap in its panel.
	f, texts = draws(t, Request{Dirs: []string{a, short}, Preset: "ttft-breakdown", By: []string{"cluster.oversubscription"}})
	require.NotContains(t, strings.Join(texts, " "), "n=")
	require.Contains(t, texts, "4:1 oversubscribed")
	places := map[float64]bool{}
	for _, b := range f.panels[1].bars {
		places[b.from.x] = true
	}
	require.Len(t, places, 1)
	all := []string{a, b, short}
	for _, name := range []string{"4", "5"} {
		all = append(all, filepath.Join(dir, name))
		require.NoError(t, os.CopyFS(filepath.Join(dir, name), os.DirFS(short)))
	}
	_, err = Make(Request{Dirs: all, Preset: "ttft-breakdown"})
	require.EqualError(t, err, "--preset ttft-breakdown shows 4 runs at most, a panel for each, and not 5: choose some")
}

func TestBins(t *testing.T) {
	of := func(lengths ...float64) (names []string) {
		var requests []*request
		for _, n := range lengths {
			requests = append(requests, &request{prompt: n})
		}
		for _, b := range binsOf(requests) {
			names = append(names, strings.ReplaceAll(b.name(), "\n", " "))
		}
		return names
	}
	require.Equal(t, []string{"4,096 n=2"}, of(4096, 4096))
	require.Equal(t, []string{"100 n=1", "2,000 n=2"}, of(2000, 100, 2000))
	require.Equal(t, []string{"<2 n=1", "2\u20134 n=2", "4\u20138 n=4", "8\u201316 n=2"}, of(1, 2, 3, 4, 5, 6, 7, 8, 9))
	many := make([]float64, 0, 400)
	for i := range 396 {
		many = append(many, float64(1024+i))
	}
	require.Equal(t, []string{"<2K n=398", "2K\u20138K n=4"}, of(append(many, 5, 600, 2048, 2049, 4096, 8000)...))
}

// A distribution function is the share of the sample that is not above a value.
func TestCumulate(t *testing.T) {
	require.Equal(t, []xy{{1, 0}, {1, 0.25}, {2, 0.25}, {2, 0.75}, {4, 0.75}, {4, 1}}, cumulate(weigh([]float64{2, 1, 4, 2}, nil)))
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(0, 1000), 1, 2000).Draw(t, "values")
		line := cumulate(weigh(values, nil))
		require.LessOrEqual(t, len(line), 2*maxCorners+4)
		slices.Sort(values)
		for i, at := range line {
			if i > 0 {
				require.GreaterOrEqual(t, at.x, line[i-1].x)
				require.GreaterOrEqual(t, at.y, line[i-1].y)
			}
			if i > 0 && at.y > line[i-1].y { // the top of a step
				upto, _ := slices.BinarySearch(values, math.Nextafter(at.x, 1e9))
				require.Equal(t, float64(upto)/float64(len(values)), at.y)
			}
		}
		require.Equal(t, xy{values[len(values)-1], 1}, line[len(line)-1])
	})
}

func TestExactTime(t *testing.T) {
	for s, want := range map[string]sim.Time{"0": 0, "1": 1e12, "1.5": 15e11, "0.000000000001": 1} {
		got, err := exactTime(s, 12)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, s := range []string{"", "-1", "x", "1.0000000000001", "1e3", "99999999999999999999", "1.-5", "1.2.3"} {
		_, err := exactTime(s, 12)
		require.Error(t, err, s)
	}
}

// Every column of a sweep and every key of a summary has a label in words.
func TestEveryColumnHasALabel(t *testing.T) {
	_, summary := runFolder(t, filepath.Join(t.TempDir(), "run"))
	text, err := json.Marshal(summary)
	require.NoError(t, err)
	cells := map[string]string{}
	require.NoError(t, flatten(text, cells, func(string) {}))
	require.Greater(t, len(cells), 80)
	names := append([]string{"cluster.nodes", "decode.max_batch_requests", "workload.arrivals.rate_per_s", "kv.post_per_message_us"}, builtColumns...)
	for name := range cells {
		names = append(names, name)
	}
	for _, name := range names {
		label := columnOf(name).label
		require.NotContains(t, label, "_", name)
		require.NotContains(t, label, "%", name)
		require.Contains(t, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", label[:1], "%s: %s", name, label)
		if strings.HasSuffix(name, "_ms") {
			require.Contains(t, label, "(ms)", name)
		}
	}
	for _, name := range sweep.MeasureColumns() {
		_, own := columnLabels[name]
		require.True(t, own || latency.MatchString(name) || name == "slo_met" || strings.HasSuffix(name, "verdict") || name == "saturation", name)
	}
	require.Equal(t, "99th percentile of TTFT (ms)", columnOf("p99_ttft_ms").label)
	require.Equal(t, "KV post per message (\u00b5s)", columnOf("kv.post_per_message_us").label)
}
