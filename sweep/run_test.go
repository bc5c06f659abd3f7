package sweep

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/experiment"
	"github.com/tgssim/tgssim/metrics"
	"github.com/tgssim/tgssim/scenarios"
)

const testVersion = "test"

// do runs a sweep into a folder.
func do(t testing.TB, p *Plan, dir string, resume bool, o Options) (failed int) {
	t.Helper()
	f, err := p.Open(dir, testVersion, resume)
	require.NoError(t, err)
	defer f.Close()
	failed, err = f.Run(context.Background(), o)
	require.NoError(t, err)
	return failed
}

// results reads what must not depend on how the sweep was executed: all files but
// the journal and the clock's.
func results(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == JournalFile || d.Name() == TimingFile {
			return err
		}
		text, err := os.ReadFile(name)
		files[strings.TrimPrefix(name, dir)] = string(text)
		return err
	})
	require.NoError(t, err)
	return files
}

// table reads sweep.csv as columns by name.
func table(t testing.TB, dir string) (rows []map[string]string) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, CSVFile))
	require.NoError(t, err)
	defer f.Close()
	records, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	for _, r := range records[1:] {
		row := map[string]string{}
		for i, name := range records[0] {
			require.NotContains(t, row, name, "two columns of one name")
			row[name] = r[i]
		}
		rows = append(rows, row)
	}
	return rows
}

const axes = "sweep: {axes: {cluster.oversubscription: [1, 2], net: {flow: {network.engine: flow}, ideal: {network.engine: ideal}}}, replications: 3}\n"

// The number of workers, and an interruption, change nothing but the clock's file.
func TestWorkersChangeNothing(t *testing.T) {
	p := plan(t, axes, Request{})
	one := filepath.Join(t.TempDir(), "one")
	require.Zero(t, do(t, p, one, false, Options{Workers: 1}))
	want := results(t, one)
	require.Len(t, want, 3+1+len(p.Points), "scenario, csv, jsonl, manifest, points")
	counts := []int{2, 7, 0}
	if testing.Short() {
		counts = counts[1:2]
	}
	for _, workers := range counts {
		dir := filepath.Join(t.TempDir(), "many")
		do(t, p, dir, false, Options{Workers: workers})
		require.Equal(t, want, results(t, dir), "%d workers", workers)
	}

	// Stopped by its context after every so many runs.
	dir := filepath.Join(t.TempDir(), "stopped")
	seen := 0
	for seen < p.Runs() {
		f, err := p.Open(dir, testVersion, seen > 0)
		require.NoError(t, err)
		require.Equal(t, seen, f.Finished())
		ctx, stop := context.WithCancel(context.Background())
		limit := seen + 4
		_, err = f.Run(ctx, Options{Workers: 2, Every: 1, Report: func(s Status) {
			require.Equal(t, p.Runs(), s.Runs)
			if s.Done >= limit {
				stop()
			}
		}})
		stop()
		require.GreaterOrEqual(t, f.Finished(), seen)
		if seen = f.Finished(); seen < p.Runs() {
			require.ErrorIs(t, err, context.Canceled)
			require.NoFileExists(t, filepath.Join(dir, ManifestFile))
		}
		require.NoError(t, f.Close())
	}
	if _, err := os.Stat(filepath.Join(dir, ManifestFile)); err != nil { // stopped at the last run
		do(t, p, dir, true, Options{})
	}
	require.Equal(t, want, results(t, dir))
}

// Every row is the run that a scenario of its own gives: the point's file, with
// the replication set, through package experiment alone.
func TestRowsAreRuns(t *testing.T) {
	p := plan(t, axes, Request{})
	dir := filepath.Join(t.TempDir(), "s")
	do(t, p, dir, false, Options{})
	rows := table(t, dir)
	require.Len(t, rows, p.Runs())
	lines := jsonLines(t, dir)
	for i, row := range rows {
		require.Equal(t, strconv.Itoa(i/3), row["point"])
		require.Equal(t, strconv.Itoa(i%3), row["replication"])
		s, err := scenarios.Load(filepath.Join(dir, pointFile(i/3)), "replication="+row["replication"])
		require.NoError(t, err)
		require.Equal(t, row["cluster.oversubscription"], fmt.Sprint(s.Cluster.Oversubscription))
		require.Equal(t, row["net"], s.Network.Engine)
		b, err := experiment.Build(s)
		require.NoError(t, err)
		r, err := b.Run(context.Background(), nil)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("%016x", r.Fingerprint), row["fingerprint"])
		require.Equal(t, fmt.Sprint(r.Events), row["events"])
		require.Equal(t, fmt.Sprint(b.Graph.Leaves()), row["leaves"])
		require.Equal(t, fmt.Sprint(b.Graph.GPUs()), row["gpus"])
		require.Equal(t, fmt.Sprint(b.Graph.Oversubscription()), row["oversubscription"])
		require.Equal(t, number(t, row["tgs"]), *r.Summary.TGS)
		require.Equal(t, number(t, row["p99_ttft_ms"]), *r.Summary.P99TTFT)
		require.InEpsilon(t, 1000 / *r.Summary.MeanTPOT, number(t, row["tokens_per_s_per_user"]), 1e-12)
		require.Equal(t, r.Summary.Saturation, row["saturation"])
		require.Empty(t, row["error"])

		var summary metrics.Summary
		require.NoError(t, json.Unmarshal(lines[i].Summary, &summary))
		require.Equal(t, r.Summary, summary, "the whole summary survives")
		require.Equal(t, row["net"], strings.Trim(string(lines[i].Axes["net"]), `"`))
		require.Equal(t, row["cluster.oversubscription"], string(lines[i].Axes["cluster.oversubscription"]), "a number")
	}
}

// What the packet engine's ports saw is in its rows and in no other engine's, with
// the sums of its ports.
func TestPortsAreInTheRows(t *testing.T) {
	p := plan(t, "sweep: {axes: {network.engine: [packet, flow, ideal]}}\n", Request{Set: []string{
		"prefill.instances=4", "decode.instances=4", "cluster.wiring=packed", "cluster.leaves=2", "cluster.oversubscription=8",
		"workload.arrivals.rate=20/s",
	}})
	dir := filepath.Join(t.TempDir(), "s")
	require.Zero(t, do(t, p, dir, false, Options{Parquet: true}))
	text, err := os.ReadFile(filepath.Join(dir, ParquetFile))
	require.NoError(t, err)
	names, types, cells := readParquet(t, text)
	lines := jsonLines(t, dir)
	for i, row := range table(t, dir) {
		s, err := p.Scenario(i)
		require.NoError(t, err)
		b, err := experiment.Build(s)
		require.NoError(t, err)
		r, err := b.Run(context.Background(), nil)
		require.NoError(t, err)
		for name, want := range map[string]func(metrics.Ports) string{
			"max_queue_bytes":         func(p metrics.Ports) string { return fmt.Sprint(p.MaxQueue) },
			"p99_queue_bytes":         func(p metrics.Ports) string { return fmt.Sprint(p.P99Queue) },
			"marked_share":            func(p metrics.Ports) string { return fmt.Sprint(p.MarkedShare) },
			"paused_ms":               func(p metrics.Ports) string { return fmt.Sprint(p.Paused) },
			"pauses":                  func(p metrics.Ports) string { return fmt.Sprint(p.Pauses) },
			"dropped_packets":         func(p metrics.Ports) string { return fmt.Sprint(p.Dropped) },
			"link_down_packets":       func(p metrics.Ports) string { return fmt.Sprint(p.LostOnLinks) },
			"retransmitted_packets":   func(p metrics.Ports) string { return fmt.Sprint(p.Resent) },
			"retransmission_timeouts": func(p metrics.Ports) string { return fmt.Sprint(p.Timeouts) },
		} {
			cell := cells[i][slices.Index(names, name)]
			if i > 0 {
				require.Empty(t, row[name], name)
				require.Empty(t, cell, name)
				require.NotContains(t, string(lines[i].Summary), name)
				continue
			}
			require.Equal(t, want(*r.Summary.Ports), row[name], name)
			require.Equal(t, row[name], cell, "%s, %s", name, types[slices.Index(names, name)])
			require.Contains(t, string(lines[i].Summary), `"`+name+`":`+row[name])
		}
		if i == 0 {
			require.NotEqual(t, "0", row["max_queue_bytes"])
		}
		for _, name := range []string{"tgs_cv_100ms", "tgs_worst_100ms", "bursts"} {
			require.NotEmpty(t, row[name], name)
		}
	}
}

func number(t testing.TB, s string) float64 {
	t.Helper()
	x, err := strconv.ParseFloat(s, 64)
	require.NoError(t, err)
	return x
}

func jsonLines(t testing.TB, dir string) (rows []jsonRow) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, JSONFile))
	require.NoError(t, err)
	defer f.Close()
	in := bufio.NewScanner(f)
	in.Buffer(nil, maxLine)
	for in.Scan() {
		var r jsonRow
		require.NoError(t, json.Unmarshal(in.Bytes(), &r))
		rows = append(rows, r)
	}
	require.NoError(t, in.Err())
	return rows
}

// Common random numbers: a replication has the same requests at every point, and
// other ones than the other replications; on a fabric its paths differ too.
func TestCommonRandomNumbers(t *testing.T) {
	p := plan(t, "", Request{Axes: []string{"gpu.derate=1,1.2,1.4"}, Replications: 4})
	dir := filepath.Join(t.TempDir(), "s")
	do(t, p, dir, false, Options{})
	rows := table(t, dir)
	rates, prints := map[string]bool{}, map[string]bool{}
	for i, row := range rows {
		require.Equal(t, rows[i%4]["offered_rate_req_per_s"], row["offered_rate_req_per_s"])
		rates[row["offered_rate_req_per_s"]] = true
		prints[row["fingerprint"]] = true
	}
	require.Len(t, rates, 4)
	require.Len(t, prints, 12)
}

// A point that cannot be checked, built or run is a row with its reason, and the
// rest go on.
func TestFailuresAreRows(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "t.csv")
	require.NoError(t, os.WriteFile(trace, []byte("TIMESTAMP,ContextTokens,GeneratedTokens\n2024-06-01 09:00:00.0,500,3\n"), 0o644))
	p := plan(t, "sweep:\n  axes:\n    x:\n"+
		"      good: {kv.qps: 1}\n"+
		"      range: {cluster.spines: 7}\n"+
		"      memory: {model.name: llama-3.1-70b, prefill.tp: 1}\n"+
		"      missing: {workload: {trace: {path: nowhere.csv}}, workload.arrivals: null, workload.prompt: null, workload.output: null, workload.requests: 0}\n"+
		"      too: {kv.qps: 2}\n", Request{Replications: 2})
	dir := filepath.Join(t.TempDir(), "s")
	require.Equal(t, 6, do(t, p, dir, false, Options{Workers: 3}))
	rows := table(t, dir)
	for i, want := range []string{"", "cluster.spines: 7 does not divide", "prefill.tp: weights need", "", ""} {
		for r := range 2 {
			row := rows[2*i+r]
			require.Equal(t, want == "" && i != 3, row["error"] == "", "%v", row["error"])
			require.Contains(t, row["error"], want)
			require.Equal(t, row["error"] == "", row["tgs"] != "")
			require.Equal(t, row["error"] == "", row["fingerprint"] != "")
			require.Equal(t, row["error"] == "", row["events"] != "")
			require.Equal(t, "1", row["seed"])
		}
	}
	m, err := readManifest(filepath.Join(dir, ManifestFile))
	require.NoError(t, err)
	require.Equal(t, 6, m.Failed)
	require.Equal(t, 10, m.Runs)

	f, err := p.Open(dir, testVersion, true)
	require.NoError(t, err)
	defer f.Close()
	summary, err := f.Summarise([]string{"tgs", "tokens_per_s_per_user"}, []string{"saturation"})
	require.NoError(t, err)
	require.Len(t, summary, 5)
	require.Equal(t, 2, summary[1].Failed)
	require.Contains(t, summary[1].Error, "cluster.spines")
	require.Equal(t, 0, summary[1].Means[0].N)
	require.Equal(t, 2, summary[0].Means[0].N)
	require.InEpsilon(t, (number(t, rows[0]["tgs"])+number(t, rows[1]["tgs"]))/2, summary[0].Means[0].Mean, 1e-12)
}

// The columns that are said to be measures are, and no two are alike.
func TestColumnsExist(t *testing.T) {
	kinds := map[string]reflect.Kind{}
	var note func(reflect.Type)
	note = func(t reflect.Type) {
		for i := range t.NumField() {
			f := t.Field(i)
			k := f.Type
			if k.Kind() == reflect.Pointer {
				k = k.Elem()
			}
			if f.Anonymous {
				note(k)
				continue
			}
			kinds[f.Tag.Get("json")] = k.Kind()
		}
	}
	note(reflect.TypeFor[metrics.Summary]())
	whole := []reflect.Kind{reflect.Int, reflect.Int64}
	for _, name := range summaryColumns {
		require.Contains(t, kinds, name)
		require.Equal(t, slices.Contains(whole, kinds[name]), kindOfMeasure(name) == kindInt, name)
		require.Equal(t, kinds[name] == reflect.Float64, kindOfMeasure(name) == kindFloat, name)
	}
	names := reservedNames()
	slices.Sort(names)
	require.Equal(t, len(names), len(slices.Compact(names)))
}

// A folder is refused unless its sweep is the same one, and unfinished ones are
// only resumed when asked for.
func TestFolders(t *testing.T) {
	base := file(t, axes)
	dir := filepath.Join(t.TempDir(), "s")
	open := func(resume bool, version string, r Request) error {
		p, err := New(base, r)
		require.NoError(t, err)
		f, err := p.Open(dir, version, resume)
		if err == nil {
			require.NoError(t, f.Close())
		}
		return err
	}
	require.NoError(t, open(true, "1", Request{}), "nothing there to resume: it begins")
	require.ErrorContains(t, open(false, "1", Request{}), "holds an unfinished sweep: go on with --resume")
	require.NoError(t, open(true, "1", Request{}))
	for _, c := range []struct {
		r    Request
		want string
	}{
		{Request{Replications: 4}, "it has 3 replications, not 4"},
		{Request{Mode: scenarios.ModeZip}, "its axes are combined by product, not zip"},
		{Request{Axes: []string{"kv.qps=1,2"}}, "it has no axis kv.qps"},
		{Request{Axes: []string{"cluster.oversubscription=2,4,8"}}, "its axis cluster.oversubscription has the values 1, 2, not 2, 4, 8"},
		{Request{Set: []string{"workload.requests=13"}}, "its scenario has workload.requests 12, not 13"},
		{Request{Set: []string{"run.until=1s"}}, "its scenario has run not written, not {until: 1s}"},
	} {
		err := open(true, "1", c.r)
		require.ErrorContains(t, err, dir+" cannot be resumed: "+c.want)
	}
	require.ErrorContains(t, open(true, "2", Request{}), "it was made by version 1, and this is 2")

	p, err := New(base, Request{})
	require.NoError(t, err)
	f, err := p.Open(dir, "1", true)
	require.NoError(t, err)
	_, err = f.Run(context.Background(), Options{})
	require.NoError(t, err)
	require.NoError(t, f.Close())
	want := results(t, dir)
	require.NoError(t, open(true, "1", Request{}), "a complete one has nothing to do")
	require.Equal(t, want, results(t, dir))

	// The file of a point that is gone or torn is made again.
	require.NoError(t, os.Remove(filepath.Join(dir, pointFile(1))))
	require.NoError(t, os.Truncate(filepath.Join(dir, pointFile(2)), 100))
	f, err = p.Open(dir, "1", true)
	require.NoError(t, err)
	require.NoError(t, f.Write(false))
	require.NoError(t, f.Close())
	require.Equal(t, want, results(t, dir))

	// A complete one is replaced, by another sweep too.
	p, err = New(base, Request{Axes: []string{"cluster.oversubscription=1"}})
	require.NoError(t, err)
	do(t, p, dir, false, Options{})
	require.Len(t, table(t, dir), 6)
	require.NoFileExists(t, filepath.Join(dir, pointFile(2)))

	// What a killed process leaves half written goes; what is of others stays.
	left := filepath.Join(dir, ".sweep.csv.tmp-123")
	require.NoError(t, os.WriteFile(left, nil, 0o644))
	require.NoError(t, open(true, testVersion, Request{Axes: []string{"cluster.oversubscription=1"}}))
	require.NoFileExists(t, left)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "thesis.txt"), nil, 0o644))
	require.ErrorContains(t, open(true, testVersion, Request{}), "holds thesis.txt, which is not of a sweep")
	require.FileExists(t, filepath.Join(dir, "thesis.txt"))

	// A file of one of our names is somebody else's where there is no journal.
	own := filepath.Dir(base)
	require.NoError(t, os.Rename(base, filepath.Join(own, ScenarioFile)))
	base, dir = filepath.Join(own, ScenarioFile), own
	require.ErrorContains(t, open(false, "1", Request{}), "holds scenario.yaml, which is not of a sweep")
	require.ErrorContains(t, open(true, "1", Request{}), "holds scenario.yaml, which is not of a sweep")
	text, err := os.ReadFile(base)
	require.NoError(t, err)
	require.Equal(t, tiny+axes, string(text))
}

// A trace that has changed since is another sweep.
func TestInputsCount(t *testing.T) {
	dir := t.TempDir()
	trace := filepath.Join(dir, "t.csv")
	write := func(tokens int) {
		require.NoError(t, os.WriteFile(trace, fmt.Appendf(nil, "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-06-01 09:00:00.0,%d,3\n", tokens), 0o644))
	}
	write(500)
	r := Request{Axes: []string{"workload.trace.speedup=1,2"}, Set: []string{"workload.trace.path=" + trace}}
	p, err := New("azure-replay", r)
	require.NoError(t, err)
	out := filepath.Join(dir, "s")
	require.Zero(t, do(t, p, out, false, Options{}))
	m, err := readManifest(filepath.Join(out, ManifestFile))
	require.NoError(t, err)
	require.Len(t, m.Inputs, 1)
	f, err := p.Open(out, testVersion, true)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	write(501)
	_, err = p.Open(out, testVersion, true)
	require.ErrorContains(t, err, "the files that it reads have changed since: "+trace)
}
