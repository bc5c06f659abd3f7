package report_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/metrics"
	"github.com/tgssim/tgssim/metrics/metricstest"
	"github.com/tgssim/tgssim/report"
	"github.com/tgssim/tgssim/serving"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

var update = flag.Bool("update", false, "write the golden files")

const ms = sim.Millisecond

// busyDay is a story with something of everything: queueing, communication, a
// rejection, uneven links, an SLO that is missed, steps.
func busyDay(t testing.TB) report.Run {
	t.Helper()
	story := metricstest.Story{
		Requests:   metricstest.Poisson(400, 8, 1000, 12, 7),
		Prefillers: 1, Prefill: 80 * ms, PrefillComm: 20 * ms, Wires: 2, Transfer: 13*ms + 1,
		StepCompute: 20 * ms, StepComm: 8 * ms, StepHost: 2 * ms,
		PrefillGPUs: 8, DecodeGPUs: 16, DecodeRanks: 4,
		Reject: map[int]string{17: `prompt of 1000 tokens, "too long" for a rank`},
	}
	cfg := metrics.DefaultConfig()
	cfg.SLO = metrics.SLO{TTFT: 500 * ms, ITL: 30 * ms, Percentile: 99}
	cfg.Steps = true
	wiring := topology.DefaultConfig()
	wiring.Nodes, wiring.Leaves, wiring.Spines = 2, 2, 2
	g, err := topology.LeafSpine(wiring)
	require.NoError(t, err)
	r, err := story.Measure(cfg, func(a *metrics.Account) {
		a.Graph = g
		for i := range g.Links {
			n := units.Bytes(1+i%3) * 10 * units.GB
			if metrics.TierOf(g, &g.Links[i]) == metrics.TierLeafUp {
				n *= units.Bytes(1 + i%5)
			}
			a.Loads = append(a.Loads, fabric.LinkLoad{
				Link: topology.LinkID(i), Wire: n + n/50,
				Payload: [fabric.NumClasses]units.Bytes{fabric.ClassKV: n / 4, fabric.ClassEP: n - n/4},
			})
		}
		a.Pools[1].KVBlocks, a.Pools[1].PeakKVBlocks = 1000, 333
		a.Pools[1].Comm = serving.CommTime{
			Startup: a.End / 20, Latency: a.End / 20, Ports: a.End / 4, Paths: a.End / 10, Contention: a.End / 100,
		}
		a.Pools[1].Steps, a.Pools[1].TwoBatchSteps = 1680, 420
	})
	require.NoError(t, err)
	return report.Run{
		Name: "busy-day", Scenario: []byte("name: busy-day\n"), Version: "1.2.3", Seed: 42, Fingerprint: 0xfeed,
		Events: 12345, Result: r, Timing: &report.Timing{Started: time.Unix(1, 0).UTC(), Wall: time.Second},
	}
}

func render(t testing.TB, r report.Run, o report.Options) string {
	t.Helper()
	var out strings.Builder
	require.NoError(t, report.Table(&out, &r, o))
	return out.String()
}

func TestTableGolden(t *testing.T) {
	got := render(t, busyDay(t), report.Options{})
	file := filepath.Join("testdata", "table.golden")
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// What a golden file cannot tell: that the parts which are printed sum to what
// is printed as their sum.
func TestTableAddsUp(t *testing.T) {
	lines := strings.Split(render(t, busyDay(t), report.Options{}), "\n")
	section := func(title string) [][]string {
		var rows [][]string
		for i, l := range lines {
			if !strings.HasPrefix(l, title) {
				continue
			}
			for _, l := range lines[i+3:] {
				if l == "" {
					return rows
				}
				rows = append(rows, strings.Fields(l))
			}
		}
		t.Fatalf("no section %q", title)
		return nil
	}
	number := func(s string) float64 {
		v, err := strconv.ParseFloat(strings.ReplaceAll(s, ",", ""), 64)
		require.NoError(t, err)
		return v
	}
	var meanMS, mean, slow float64
	rows := section("TTFT SPLIT")
	for _, f := range rows[:len(rows)-1] {
		n := len(f)
		meanMS += number(f[n-4])
		mean += number(f[n-3])
		slow += number(f[n-1])
	}
	last := rows[len(rows)-1]
	require.Equal(t, "TTFT", last[0])
	require.InDelta(t, 100, mean, 1e-9)
	require.InDelta(t, 100, slow, 1e-9)
	require.InEpsilon(t, number(last[1]), meanMS, 1e-3)

	for _, f := range section("GPU TIME") {
		sum := 0.
		for _, cell := range f[2 : 2+int(metrics.NumActivities)] {
			sum += number(cell)
		}
		require.InDelta(t, 100, sum, 1e-9, "%v", f)
	}
}

func TestTableFitsItsWidth(t *testing.T) {
	run := busyDay(t)
	for _, width := range []int{60, 80, 100, 200} {
		for i, l := range strings.Split(render(t, run, report.Options{Width: width}), "\n") {
			require.LessOrEqual(t, len(l), width, "line %d at width %d: %q", i, width, l)
			require.Equal(t, strings.TrimRight(l, " "), l, "trailing spaces")
		}
	}
}

// A file, which is 100 wide, gets every column of every table.
func TestTableIsWhole(t *testing.T) {
	run := busyDay(t)
	pool := &run.Result.Pools[1]
	pool.Usage.Pool = "prefill" // the longer name
	pool.Dispatch = metrics.AllToAll{Runs: 1, Microseconds: 198, Logical: 5.541e6, NVLink: 10.92e6, Network: 4.156e6}
	pool.Combine = pool.Dispatch
	text := render(t, run, report.Options{})
	require.Contains(t, text, "network GB/s\n")
	require.NotContains(t, text, "~")
}

// Colours add escape codes and nothing else, and only when asked for.
func TestColours(t *testing.T) {
	run := busyDay(t)
	plain, coloured := render(t, run, report.Options{}), render(t, run, report.Options{Color: true})
	require.NotContains(t, plain, "\x1b")
	require.Contains(t, coloured, "\x1b[1;32mKeeping up\x1b[0m")
	require.Contains(t, coloured, "\x1b[1;31mSLO missed\x1b[0m")
	for strings.Contains(coloured, "\x1b[") {
		i := strings.Index(coloured, "\x1b[")
		coloured = coloured[:i] + coloured[i+strings.IndexByte(coloured[i:], 'm')+1:]
	}
	require.Equal(t, plain, coloured)

	file, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer file.Close()
	require.Equal(t, report.Options{Width: 100}, report.OptionsFor(file), "a file is not a terminal")
}

// cutShort is a run that stops with requests under way, measured after a
// warm-up.
func cutShort(t testing.TB, stop, warmup sim.Time, alter func(*metrics.Account)) report.Run {
	t.Helper()
	story := metricstest.Story{
		Requests:   metricstest.Regular(100, 100*ms, 1000, 50),
		Prefillers: 1, Prefill: 50 * ms, Transfer: 10 * ms, StepCompute: 30 * ms,
		PrefillGPUs: 8, DecodeGPUs: 16, DecodeRanks: 4, Stop: stop,
	}
	cfg := metrics.DefaultConfig()
	cfg.Warmup = warmup
	cfg.SLO = metrics.SLO{TTFT: 500 * ms, ITL: 40 * ms, Percentile: 99}
	r, err := story.Measure(cfg, alter)
	require.NoError(t, err)
	return report.Run{Name: "cut-short", Result: r}
}

// Without samples there is no value to hold against a limit.
func TestTableWithoutSamples(t *testing.T) {
	text := render(t, cutShort(t, 10*sim.Second, 1000*sim.Second, nil), report.Options{})
	require.Contains(t, text, "TTFT p99  - (SLO: at most 500.0 ms at p99, missed: no samples)")
	require.Contains(t, text, "p99 - <= 500.0: missed: no samples")
	require.Contains(t, text, "SLO missed. TTFT without samples of at most 500.0 ms")
	require.NotContains(t, text, "p99 0 ")
	require.NotContains(t, text, "TTFT 0 of")
}

// What is printed as served is what is printed as TGS, times its GPUs, also when
// the run is cut short.
func TestTableServesWhatItEmits(t *testing.T) {
	text := render(t, cutShort(t, 10*sim.Second, 0, nil), report.Options{})
	cells := func(line string) []string {
		for l := range strings.Lines(text) {
			if strings.HasPrefix(l, line) {
				return strings.Fields(strings.ReplaceAll(strings.TrimPrefix(l, line), ",", ""))
			}
		}
		t.Fatalf("no line %q", line)
		return nil
	}
	last := func(f []string) float64 {
		v, err := strconv.ParseFloat(f[len(f)-1], 64)
		require.NoError(t, err)
		return v
	}
	served := cells("served, whole run")
	require.InEpsilon(t, last(served), last(cells("tgs "))*24, 1e-3)
	require.InEpsilon(t, last(served), last(cells("tgs_decode"))*16, 1e-3)
	require.InEpsilon(t, last(served[:len(served)-1]), last(cells("tgs_prefill"))*8, 1e-3)
	require.InEpsilon(t, last(cells("tgs_decode")), last(cells("  batch / TPOT")), 0.02)
}

// The all-reduce is a closed form and no traffic: the table says that NVLink's
// use leaves it out, where there is one.
func TestLinkUseWithoutAllReduce(t *testing.T) {
	wiring := topology.DefaultConfig()
	g, err := topology.LeafSpine(wiring)
	require.NoError(t, err)
	for _, reduce := range []sim.Time{0, sim.Second} {
		text := render(t, cutShort(t, 10*sim.Second, 0, func(a *metrics.Account) {
			a.Graph = g
			a.Loads = []fabric.LinkLoad{{Link: 0, Wire: units.GB}}
			a.Pools[0].Time.AllReduce = sim.TotalOf(reduce, 1)
		}), report.Options{})
		require.Contains(t, text, "LINK USE (% of the whole run")
		require.Equal(t, reduce > 0, strings.Contains(text, "NVLink without the all-reduce"))
	}
}

func TestTableOfNothing(t *testing.T) {
	r, err := metrics.NewCollector(metrics.DefaultConfig()).Finish(metrics.Account{})
	require.NoError(t, err)
	text := render(t, report.Run{Result: r}, report.Options{})
	require.Contains(t, text, "Inconclusive. No request was admitted.")
	require.NotContains(t, text, "NaN")
	require.NotContains(t, text, "%!")
	require.NoError(t, report.WriteRun(filepath.Join(t.TempDir(), "empty"), report.Run{Result: r}))
}

func readCSV(t *testing.T, dir, name string) (header []string, rows [][]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	require.NotContains(t, string(text), "\r")
	all, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	require.NoError(t, err)
	return all[0], all[1:]
}

// picoseconds reads a decimal of seconds or milliseconds back exactly.
func picoseconds(t *testing.T, s string, digits int) sim.Time {
	t.Helper()
	whole, frac, _ := strings.Cut(s, ".")
	require.LessOrEqual(t, len(frac), digits)
	n, err := strconv.ParseInt(whole+frac+strings.Repeat("0", digits-len(frac)), 10, 64)
	require.NoError(t, err)
	return sim.Time(n)
}

// The CSV files say exactly what was measured: read back, pieces sum to their
// times to the picosecond.
func TestCSVIsExact(t *testing.T) {
	run := busyDay(t)
	dir := filepath.Join(t.TempDir(), "out", "run")
	require.NoError(t, report.WriteRun(dir, run))

	header, rows := readCSV(t, dir, report.RequestsFile)
	at := map[string]int{}
	for i, name := range header {
		at[name] = i
	}
	require.Len(t, at, len(header), "no name twice")
	require.Len(t, rows, len(run.Result.Requests))
	for i, row := range rows {
		q := &run.Result.Requests[i]
		cell := func(name string) string { return row[at[name]] }
		require.Equal(t, q.Arrival, picoseconds(t, cell("arrival_s"), 12))
		require.Equal(t, q.Outcome.String(), cell("outcome"))
		if q.Outcome == serving.Rejected {
			require.Equal(t, `prompt of 1000 tokens, "too long" for a rank`, cell("reason"))
			for _, name := range []string{"ttft_ms", "tpot_ms", "e2e_ms", "finish_s", "first_token_s", "prefill_rank", "decode_rank"} {
				require.Empty(t, cell(name), name)
			}
			continue
		}
		var ttft, gen sim.Time
		for name, k := range at {
			switch {
			case strings.HasPrefix(name, "ttft_") && strings.HasSuffix(name, "_ps"):
				ttft += picoseconds(t, row[k], 0)
			case strings.HasPrefix(name, "gen_"):
				gen += picoseconds(t, row[k], 0)
			}
		}
		require.Equal(t, ttft, picoseconds(t, cell("ttft_ms"), 9))
		require.Equal(t, ttft+gen, picoseconds(t, cell("e2e_ms"), 9))
		require.Equal(t, picoseconds(t, cell("finish_s"), 12)-picoseconds(t, cell("arrival_s"), 12), ttft+gen)
		tpot, err := strconv.ParseFloat(cell("tpot_ms"), 64)
		require.NoError(t, err)
		require.Equal(t, q.TPOT(), tpot)
	}

	_, flows := readCSV(t, dir, report.FlowsFile)
	require.Len(t, flows, len(run.Result.Transfers))
	for _, f := range flows {
		moved := picoseconds(t, f[6], 12) - picoseconds(t, f[5], 12)
		require.Equal(t, moved, picoseconds(t, f[7], 9))
		require.Equal(t, moved, picoseconds(t, f[8], 0)+picoseconds(t, f[9], 0)+picoseconds(t, f[10], 0))
	}
	_, links := readCSV(t, dir, report.LinksFile)
	require.Len(t, links, len(run.Result.Links.All))
	_, steps := readCSV(t, dir, report.StepsFile)
	require.Len(t, steps, len(run.Result.Steps))
	require.NotEmpty(t, steps)

	_, series := readCSV(t, dir, report.SeriesFile)
	tokens := int64(0)
	for _, row := range series {
		n, err := strconv.ParseInt(row[5], 10, 64)
		require.NoError(t, err)
		tokens += n
	}
	require.Equal(t, run.Result.Summary.TotalOutputTokens, tokens)

	text, err := os.ReadFile(filepath.Join(dir, report.SummaryFile))
	require.NoError(t, err)
	var back metrics.Summary
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, run.Result.Summary, back)
}

func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	out := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		out[e.Name()] = string(text)
	}
	return out
}

// Two runs of one scenario write the same bytes, except for the timing; and the
// manifest vouches for every file.
func TestRunFolderIsReproducible(t *testing.T) {
	base := t.TempDir()
	a, b := busyDay(t), busyDay(t)
	b.Timing.Wall = 7 * time.Second
	for dir, run := range map[string]report.Run{"a": a, "b": b} {
		run.Extra = []report.File{{Name: "plot.svg", Data: []byte("<svg/>")}}
		run.Inputs = []report.ManifestEntry{{Name: "a>b&c.csv"}}
		require.NoError(t, report.WriteRun(filepath.Join(base, dir), run))
	}
	fa, fb := files(t, filepath.Join(base, "a")), files(t, filepath.Join(base, "b"))
	require.NotEqual(t, fa[report.TimingFile], fb[report.TimingFile])
	m, err := report.ReadManifest(filepath.Join(base, "a"))
	require.NoError(t, err)
	require.Equal(t, "busy-day", m.Scenario)
	require.Equal(t, uint64(42), m.Seed)
	require.Equal(t, "000000000000feed", m.Fingerprint)
	for _, e := range m.Files {
		require.Equal(t, int64(len(fa[e.Name])), e.Bytes)
		sum := sha256.Sum256([]byte(fa[e.Name]))
		require.Equal(t, hex.EncodeToString(sum[:]), e.SHA256)
	}
	require.Len(t, fa, len(m.Files)+2, "all but the manifest and the timing are listed")
	delete(fa, report.TimingFile)
	delete(fb, report.TimingFile)
	require.Equal(t, fa, fb)
	require.Contains(t, fa[report.ManifestFile], `"a>b&c.csv"`, "JSON for files and terminals, not for HTML")
}

func TestRunFolderIsReplacedWhole(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "run")
	require.NoError(t, os.Mkdir(dir, 0o755)) // an empty folder will do
	run := busyDay(t)
	run.Extra = []report.File{{Name: "old.svg"}}
	require.NoError(t, report.WriteRun(dir, run))
	require.FileExists(t, filepath.Join(dir, "old.svg"))
	run.Extra = nil
	run.Timing = nil
	require.NoError(t, report.WriteRun(dir, run))
	require.NoFileExists(t, filepath.Join(dir, "old.svg"))
	require.NoFileExists(t, filepath.Join(dir, report.TimingFile))
	require.Equal(t, []string{"run"}, list(t, base), "nothing is left beside it")

	link := filepath.Join(base, "latest")
	require.NoError(t, os.Symlink(dir, link))
	require.NoError(t, report.WriteRun(link, run))
	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeSymlink, "a link stays one")
}

func list(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// What is not ours is not touched.
func TestForeignFoldersAreRefused(t *testing.T) {
	run := busyDay(t)
	for _, f := range []struct{ name, text string }{
		{"notes.txt", "do not delete"},
		{report.ManifestFile, `{"manifest_version": 3, "name": "a browser extension"}`},
		{report.ManifestFile, `{"tool": "another", "format": 1}`},
		{report.ManifestFile, `{"tool": "tgssim", "format": 999}`},
	} {
		base := t.TempDir()
		dir := filepath.Join(base, "mine")
		require.NoError(t, os.Mkdir(dir, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, f.name), []byte(f.text), 0o644))
		err := report.WriteRun(dir, run)
		require.ErrorContains(t, err, "choose another folder")
		require.Equal(t, map[string]string{f.name: f.text}, files(t, dir))
		require.Equal(t, []string{"mine"}, list(t, base))
	}
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	require.ErrorContains(t, report.WriteRun(file, run), "is a file")
	require.ErrorContains(t, report.WriteRun("/", run), "root")
	require.ErrorContains(t, report.WriteRun(t.TempDir(), report.Run{}), "without a result")
}

// A run that cannot be written to its end leaves the old one as it was.
func TestFailureLeavesTheOldRun(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "run")
	run := busyDay(t)
	require.NoError(t, report.WriteRun(dir, run))
	before := files(t, dir)
	for _, name := range []string{"../escape", "a/b", "", ".", report.SummaryFile, report.ManifestFile} {
		run.Extra = []report.File{{Name: name}}
		require.Error(t, report.WriteRun(dir, run), name)
	}
	run.Extra = []report.File{{Name: "twice"}, {Name: "twice"}}
	require.Error(t, report.WriteRun(dir, run))
	require.Equal(t, before, files(t, dir))
	require.Equal(t, []string{"run"}, list(t, base))
}

func FuzzManifest(f *testing.F) {
	f.Add(`{"tool": "tgssim", "format": 1, "files": []}`)
	f.Add(`{"tool": "tgssim", "format": 2}`)
	f.Add(`{"tool": "other"}`)
	f.Add(`[`)
	f.Fuzz(func(t *testing.T, text string) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, report.ManifestFile), []byte(text), 0o644))
		m, err := report.ReadManifest(dir)
		if err == nil {
			require.Equal(t, "tgssim", m.Tool)
			require.Equal(t, 1, m.Format)
		}
	})
}

func BenchmarkWriteRun(b *testing.B) {
	run := busyDay(b)
	dir := filepath.Join(b.TempDir(), "run")
	b.ReportAllocs()
	for b.Loop() {
		if err := report.WriteRun(dir, run); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(len(run.Result.Requests)), "us/request")
}
