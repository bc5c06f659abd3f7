package compare

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/internal/config"
	_ "github.com/tgssim/tgssim/internal/testkit" // the same draws in every run
	"github.com/tgssim/tgssim/scenarios"
	"github.com/tgssim/tgssim/sweep"
)

// tiny is a scenario of a few milliseconds in which replications differ.
const tiny = `extends: llama-3.1-70b-h800-pd
model: {name: qwen3-8b}
cluster: {nodes: 2, leaves: 8, spines: 1}
prefill: {tp: 2, max_batch_tokens: 1024}
decode: {tp: 2}
workload:
  requests: 12
  arrivals: {process: poisson, rate: 500/s}
  prompt: {dist: zipf, alpha: 1, min: 128, max: 2048}
  output: {dist: uniform, min: 2, max: 5}
`

// file writes a scenario of tiny with more below.
func file(t testing.TB, name, more string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name+".yaml")
	require.NoError(t, os.WriteFile(path, []byte(tiny+more), 0o644))
	return path
}

func plan(t testing.TB, r Request) *Plan {
	t.Helper()
	if r.Replications == 0 {
		r.Replications = 3
	}
	p, err := New(r)
	require.NoError(t, err)
	return p
}

func run(t testing.TB, p *Plan, o Options) *Result {
	t.Helper()
	r, err := p.Run(context.Background(), o)
	require.NoError(t, err)
	require.Empty(t, r.Failed)
	return r
}

func text(t testing.TB, r *Result) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, r.Text(&b))
	for line := range strings.Lines(b.String()) {
		line = strings.TrimSuffix(line, "\n")
		require.LessOrEqual(t, utf8.RuneCountInString(line), 100, line)
		require.Equal(t, strings.TrimRight(line, " "), line)
	}
	return b.String()
}

func TestAgainstItself(t *testing.T) {
	name := file(t, "tiny", "")
	r := run(t, plan(t, Request{Refs: []string{name, name}, Limits: []string{"tgs=-0%", "p99_ttft_ms=+0"}}), Options{})
	p := r.Pairs[0]
	require.True(t, p.Same)
	require.Equal(t, "B is A: no difference, in all 3 replications.", p.Verdict)
	require.GreaterOrEqual(t, len(p.Measures), 10)
	for _, c := range p.Measures {
		require.Zero(t, c.Diff, c.Key)
		require.Zero(t, c.Half, c.Key)
		require.Equal(t, c.A, c.B)
		require.Equal(t, "same", c.Word())
	}
	require.False(t, r.Missed())
	require.Equal(t, Kept, r.Limits[0].Outcome)
	require.NotContains(t, text(t, r), "differ significantly")
}

// A setting that cannot act makes no difference, and is named.
func TestInertSetting(t *testing.T) {
	r := run(t, plan(t, Request{Refs: []string{file(t, "tiny", "")}, Vary: []string{"congestion.algorithm=dcqcn,none"}}), Options{})
	require.Equal(t, "No difference: B is the same run as A, event by event, in all 3 replications, so congestion.algorithm never acted.",
		r.Pairs[0].Verdict)
	require.Equal(t, "congestion.algorithm=none", r.Plan.Variants[1].Label)
}

// What is compared is a column of a sweep, too.
func TestMeasuresAreOfSweeps(t *testing.T) {
	for _, m := range Measures() {
		require.Contains(t, sweep.MeasureColumns(), m.Key)
	}
}

// In the packet engine the same setting may act, and its measures are there.
func TestPacketMeasures(t *testing.T) {
	r := run(t, plan(t, Request{
		Refs: []string{file(t, "tiny", "network: {engine: packet}\n")}, Vary: []string{"packet.path.choice=ecmp,spray-random"}, Replications: 2,
	}), Options{})
	for _, key := range []string{"max_queue_bytes", "marked_share", "paused_ms", "pauses", "dropped_packets", "p99_kv_transfer_ms"} {
		_, ok := r.Pairs[0].measure(key)
		require.True(t, ok, key)
	}
}

// All variants get the same requests; replications do not.
func TestCommonRandomNumbers(t *testing.T) {
	r := run(t, plan(t, Request{Refs: []string{file(t, "tiny", "seed: 7\n")}, Vary: []string{"decode.host_gap=100us,5ms"}}), Options{})
	require.Equal(t, uint64(7), r.Plan.Seed)
	var first []float64
	for i := 0; i < len(r.Runs); i += 2 {
		for _, key := range []string{"total_input_tokens", "total_output_tokens", "last_arrival_s"} {
			a, _ := r.Runs[i].Value(key)
			b, _ := r.Runs[i+1].Value(key)
			require.Equal(t, a, b, key)
			require.Positive(t, a)
			first = append(first, a)
		}
		require.NotEqual(t, r.Runs[i].Fingerprint, r.Runs[i+1].Fingerprint)
	}
	require.NotEqual(t, first[0], first[3])
	require.NotEqual(t, first[2], first[5])

	itl, _ := r.Pairs[0].measure("mean_itl_ms")
	require.InDelta(t, 4.9, itl.Diff, 1, "the gap is what was added to each step")
	require.True(t, itl.Significant())
	require.Contains(t, r.Pairs[0].Verdict, "; mean ITL is ")
	require.Contains(t, text(t, r), "worse")
}

// Neither the number of workers nor the order of the runs changes a byte.
func TestOrderIsIrrelevant(t *testing.T) {
	p := plan(t, Request{Refs: []string{file(t, "tiny", "")}, Vary: []string{"decode.host_gap=100us,200us,2ms", "kv.qps=1,2,4"}, Limits: []string{"tgs=-1%"}})
	bytesOf := func(r *Result) string {
		var b bytes.Buffer
		require.NoError(t, r.JSON(&b, "x"))
		require.NoError(t, r.CSV(&b))
		return b.String() + text(t, r)
	}
	want := bytesOf(run(t, p, Options{Workers: 1}))
	index := make([]int, p.Runs())
	for i := range index {
		index[i] = i
	}
	checks := 0
	rapid.Check(t, func(rt *rapid.T) {
		order := rapid.Permutation(index).Draw(rt, "order")
		workers := rapid.IntRange(1, 12).Draw(rt, "workers")
		if checks++; checks > 12 {
			return // each is 9 runs
		}
		require.Equal(t, want, bytesOf(run(t, p, Options{Workers: workers, order: order})))
	})
}

func TestRefusals(t *testing.T) {
	a := file(t, "tiny", "")
	for _, c := range []struct{ set, want string }{
		{"model.name=qwen3-32b", "model.name: is qwen3-8b in A and qwen3-32b in B: another model; compare like with like, or say --force"},
		{"model.kv=fp8", "model.kv: is bf16 in A and fp8 in B: another precision; compare like with like, or say --force"},
		{"gpu.name=h20", "gpu.name: is h800 in A and h20 in B: another GPU; compare like with like, or say --force"},
		{"gpu.derate=1.1", "gpu.derate: is 1 in A and 1.1 in B: another GPU; compare like with like, or say --force"},
		{"workload.requests=13", "workload.requests: is 12 in A and 13 in B: another workload; compare like with like, or say --force"},
		{"cluster.nodes=4", "cluster.nodes: is 2 in A and 4 in B: another number of GPUs; compare like with like, or say --force"},
		{"run.until=5s", "run.until: is 0s in A and 5s in B: another length of the run; compare like with like, or say --force"},
		{"metrics.warmup=1ms", "metrics.warmup: is 0s in A and 1ms in B: another way of measuring; compare like with like, or say --force"},
	} {
		key, value, _ := strings.Cut(c.set, "=")
		base, err := scenarios.Load(a)
		require.NoError(t, err)
		flat, err := flatten(base)
		require.NoError(t, err)
		want := strings.Replace(c.want, "is h800 in A", "is "+flat["gpu.name"]+" in A", 1)
		want = strings.Replace(want, "gpu.derate: is 1 in A", "gpu.derate: is "+flat["gpu.derate"]+" in A", 1)
		_, err = New(Request{Refs: []string{a}, Vary: []string{key + "=" + flat[key] + "," + value}})
		var ps config.Problems
		require.True(t, errors.As(err, &ps), "%s: %v", c.set, err)
		require.Len(t, ps, 1)
		require.Equal(t, want, ps[0].String())
	}

	// Several differences of a kind are one complaint, and --force makes warnings.
	b := file(t, "other", "seed: 9\nrun: {until: 100s}\nmetrics: {slo: {ttft: 3s, itl: 1s}}\n")
	_, err := New(Request{Refs: []string{a, b}})
	require.ErrorContains(t, err, "run.until: is 0s in A and 100s in B: another length")
	require.ErrorContains(t, err, "(and 1 more): another way of measuring")
	p := plan(t, Request{Refs: []string{a, b}, Force: true})
	require.Equal(t, "Seed 1 is used for all, and 9 of B is not.", p.Warnings[0])
	require.Len(t, p.Warnings, 3)
	require.Contains(t, p.Warnings[1], "B has another length of the run than A: run.until 0s -> 100s.")
	require.Contains(t, text(t, run(t, p, Options{})), "* Warning: B has another length of the run")
}

func TestWarnings(t *testing.T) {
	a := file(t, "tiny", "")
	for _, c := range []struct{ vary, want string }{
		{"cluster.link_rate=400Gbps,200Gbps", "B has another line rate than A: cluster.link_rate 400Gbps -> 200Gbps."},
		{"cluster.oversubscription=2,1", "B has another oversubscription than A: cluster.oversubscription 2 -> 1."},
		{"prefill.tp=2,4", "B has another placement than A: prefill.tp 2 -> 4."},
		{"network.engine=flow,ideal", "B has another way of simulating than A: network.engine flow -> ideal."},
	} {
		p, err := New(Request{Refs: []string{a}, Vary: []string{c.vary}})
		require.NoError(t, err, c.vary)
		require.Equal(t, []string{c.want}, p.Warnings)
	}
	// Nothing to say of what comparisons are for.
	for _, vary := range []string{"kv.qps=1,2", "decode.overlap=none,two_batch", "prefill.router=round_robin,least_loaded", "congestion.algorithm=dcqcn,none"} {
		p, err := New(Request{Refs: []string{a}, Vary: []string{vary}})
		require.NoError(t, err, vary)
		require.Empty(t, p.Warnings, vary)
	}
	// Two ways of writing one fabric are no difference.
	require.Empty(t, sameFabric([]Difference{{"cluster.oversubscription", "1", "0"}, {"cluster.uplinks_per_leaf", "0", "8"}},
		plan(t, Request{Refs: []string{a, a}}).Variants[0].Cluster, plan(t, Request{Refs: []string{a, a}}).Variants[1].Cluster))
}

// Every key of a guard is a key of a scenario, or a section.
func TestGuardsNameKeys(t *testing.T) {
	var keys []string
	for _, k := range config.Keys(scenarios.Default()) {
		keys = append(keys, k.Path)
	}
	for _, g := range guards {
		for _, k := range g.Keys {
			k = strings.Replace(k, "*.", "decode.", 1)
			found := false
			for _, key := range keys {
				found = found || within(key, k)
			}
			require.True(t, found, "%s: there is no key %s", g.What, k)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	a := file(t, "tiny", "sweep: {axes: {net: {flow: {network.engine: flow}, ideal: {network.engine: ideal}}}}\n")
	for _, c := range []struct {
		r    Request
		want string
	}{
		{Request{}, "nothing to compare with: name a second scenario, or vary one with --vary key=value,value"},
		{Request{Refs: []string{a}}, "nothing to compare with"},
		{Request{Refs: []string{a, a}, Vary: []string{"kv.qps=1,2"}}, "--vary varies one scenario; name only one"},
		{Request{Refs: make([]string, 17)}, "17 scenarios are too many; compare up to 16"},
		{Request{Refs: []string{a}, Vary: []string{"kv.qps=1"}}, "--vary kv.qps=1: kv.qps: one value; write two or more"},
		{Request{Refs: []string{a}, Vary: []string{"kv.qps=1..17"}}, "17 values are too many"},
		{Request{Refs: []string{a}, Vary: []string{"kv.qps=1,2", "gpu.derate=1,1.1,1.2"}}, "gpu.derate: 3 values beside the 2 of kv.qps; values vary together"},
		{Request{Refs: []string{a}, Vary: []string{"kv.qps=1,2", "kv.qps=3,4"}}, "kv.qps: varies twice"},
		{Request{Refs: []string{a}, Vary: []string{"kv.qps=1,1"}}, "--vary kv.qps=1,1: kv.qps: 1 is there twice"},
		{Request{Refs: []string{a}, Vary: []string{"kv.qps=1,1", "net=flow,flow"}}, "--vary kv.qps=1,1: kv.qps: 1 is there twice, with the same beside it"},
		{Request{Refs: []string{a}, Vary: []string{"kv.qsp=1,2"}}, "--vary kv.qsp=1,2: kv.qsp: unknown key; did you mean qps?"},
		{Request{Refs: []string{a}, Vary: []string{"kv.qps=1,x"}}, "--vary kv.qps=1,x: kv.qps: expected a whole number"},
		{Request{Refs: []string{a}, Vary: []string{"kv.qps="}}, "--vary kv.qps=: no values"},
		{Request{Refs: []string{a}, Vary: []string{"seed=1,2"}}, "seed cannot vary; all have the same random numbers"},
		{Request{Refs: []string{a}, Vary: []string{"kv.qps=1,2"}, Set: []string{"kv.qps=3"}}, "varies, so --set kv.qps=3 would do nothing"},
		{Request{Refs: []string{a}, Vary: []string{"nett"}}, "--vary nett: write key=value,value, or the name of an axis of the scenario; did you mean net?"},
		{Request{Refs: []string{a}, Vary: []string{"net=ideel,flow"}}, "--vary net=ideel,flow: net: the scenario's axis has no value ideel; did you mean ideal?"},
		{Request{Refs: []string{a}, Vary: []string{"net=flow"}}, "--vary net=flow: net: one value; write two or more"},
		{Request{Refs: []string{a, "no-such"}}, `no scenario "no-such" in the library`},
		{Request{Refs: []string{a, a}, Replications: -1}, "--reps -1 is not a number of replications; use 1 to 1000"},
		{Request{Refs: []string{a, a}, Replications: 1, Limits: []string{"tgs=-1%"}}, "--fail-if needs an interval: use --reps 2 or more"},
		{Request{Refs: []string{a, a}, Limits: []string{"tgs"}}, `--fail-if "tgs": write`},
	} {
		_, err := New(c.r)
		require.ErrorContains(t, err, c.want)
	}
	// An axis of the scenario, by its name.
	p := plan(t, Request{Refs: []string{a}, Vary: []string{"net"}})
	require.Equal(t, "net=ideal", p.Variants[1].Label)
	require.Equal(t, "ideal", p.Variants[1].Scenario.Network.Engine)
	// Some of its values, in another order.
	p = plan(t, Request{Refs: []string{a}, Vary: []string{"net=ideal,flow"}})
	require.Equal(t, "net=flow", p.Variants[1].Label)
	require.Equal(t, "flow", p.Variants[1].Scenario.Network.Engine)
	// What varies together may have a value again.
	p = plan(t, Request{Refs: []string{a}, Vary: []string{"kv.qps=1,2,2", "net=flow,flow,ideal"}})
	require.Equal(t, "kv.qps=2, net=ideal", p.Variants[2].Label)
}

// What runs say against themselves is passed on: HPCC with few acknowledgements is
// not what it was made for.
func TestDoubts(t *testing.T) {
	name := file(t, "tiny", "network: {engine: packet}\ncongestion: {algorithm: dcqcn}\npacket: {transport: {ack_every: 4}}\n")
	r := run(t, plan(t, Request{Refs: []string{name}, Vary: []string{"congestion.algorithm=dcqcn,hpcc"}}), Options{})
	require.Contains(t, r.Notes, "B, in 3 of 3 replications: congestion.algorithm hpcc hears of its path once in 4 packets, as packet.transport.ack_every says; it is made for 1.")
	for _, n := range r.Notes {
		require.NotContains(t, n, "A, in")
	}
	require.Empty(t, run(t, plan(t, Request{Refs: []string{name}, Vary: []string{"congestion.algorithm=dcqcn,none"}}), Options{}).Runs[0].doubts)
}

// A run that fails is said, and the others are compared.
func TestFailedRun(t *testing.T) {
	name := file(t, "tiny", "")
	p := plan(t, Request{Refs: []string{name, name, name}})
	p.Variants[1].Scenario.Model.Name = "no-such"
	r, err := p.Run(context.Background(), Options{})
	require.NoError(t, err)
	require.Len(t, r.Failed, 3)
	require.Equal(t, "B", r.Failed[0].Variant)
	require.Equal(t, "No replication succeeded in both.", r.Pairs[0].Verdict)
	require.True(t, r.Pairs[1].Same)
	require.Contains(t, text(t, r), "* Failed: B, replication 0: ")
	require.NotContains(t, text(t, r), "B AGAINST A")
}

func TestCancelled(t *testing.T) {
	name := file(t, "tiny", "")
	ctx, stop := context.WithCancel(context.Background())
	_, err := plan(t, Request{Refs: []string{name, name}}).Run(ctx, Options{Workers: 1, Report: func(int) { stop() }})
	require.ErrorIs(t, err, context.Canceled)
}

func TestFolder(t *testing.T) {
	name := file(t, "tiny", "")
	r := run(t, plan(t, Request{Refs: []string{name}, Vary: []string{"decode.host_gap=100us,2ms"}}), Options{})
	dir := filepath.Join(t.TempDir(), "out", "cmp")
	require.NoError(t, r.Write(dir, "1.2.3"))
	require.NoError(t, r.Write(dir, "1.2.3"), "an earlier comparison is replaced")

	entries, err := os.ReadDir(filepath.Dir(dir))
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing is left beside it")
	var x jsonResult
	object, err := os.ReadFile(filepath.Join(dir, JSONFile))
	require.NoError(t, err)
	var generic map[string]any
	require.NoError(t, json.Unmarshal(object, &generic))
	require.Equal(t, "compare", generic["kind"])
	require.NoError(t, json.Unmarshal(object, &x))
	require.Equal(t, []Difference{{"decode.host_gap", "100us", "2ms"}}, x.Variants[1].Differences)
	require.Len(t, x.Runs, 6)
	require.Contains(t, x.Runs[0].Measures, "tgs_steady")
	f, err := os.Open(filepath.Join(dir, CSVFile))
	require.NoError(t, err)
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 1+len(r.Pairs[0].Measures))
	require.Equal(t, "decode.host_gap=2ms", rows[1][1])

	// A scenario of the folder is one of the runs.
	s, err := scenarios.Load(filepath.Join(dir, "B.yaml"))
	require.NoError(t, err)
	require.Equal(t, r.Plan.Variants[1].Scenario.Serving, s.Serving)

	// What is not ours is left alone.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "thesis.txt"), nil, 0o644))
	require.ErrorContains(t, r.Write(dir, ""), "holds a comparison and also thesis.txt, which would be lost")
	other := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(other, "x"), nil, 0o644))
	require.ErrorContains(t, r.Write(other, ""), "is not empty and not a comparison of tgssim")
	require.ErrorContains(t, CheckTarget(filepath.Join(other, "x")), "is a file")
	require.NoError(t, CheckTarget(t.TempDir()))
}

func BenchmarkCompare(b *testing.B) {
	p := plan(b, Request{Refs: []string{file(b, "tiny", "")}, Vary: []string{"kv.qps=1,2"}})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Run(context.Background(), Options{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(p.Runs()), "runs/op")
}
