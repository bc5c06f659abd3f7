package experiment

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/collective"
	"github.com/tgssim/tgssim/compute"
	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/scenarios"
	"github.com/tgssim/tgssim/serving"
	"github.com/tgssim/tgssim/sim"
)

// measured is everything that a run reports.
func measured(t testing.TB, r *Result) string {
	t.Helper()
	text, err := json.Marshal(r.Result)
	require.NoError(t, err)
	return string(text)
}

func writeTrace(t testing.TB, rows string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "trace.csv")
	require.NoError(t, os.WriteFile(file, []byte("TIMESTAMP,ContextTokens,GeneratedTokens\n"+rows), 0o644))
	return file
}

// traceWithZeros has five rows: one without output, one without prompt.
func traceWithZeros(t testing.TB) string {
	return writeTrace(t, `2024-06-01 09:00:00.0,500,3
2024-06-01 09:00:01.0,500,0
2024-06-01 09:00:02.0,0,4
2024-06-01 09:00:04.0,500,3
2024-06-01 09:00:03.0,500,3
`)
}

const hour = 3600 * sim.Second

func tinyRun(t testing.TB, name string, set ...string) (*Simulation, *Result) {
	t.Helper()
	s := load(t, tiny[name][0], append(append([]string(nil), tiny[name][1:]...), set...)...)
	b, err := Build(s)
	require.NoError(t, err)
	r, err := b.Run(context.Background(), nil)
	require.NoError(t, err)
	conserves(t, s, r)
	return b, r
}

// Two requests an hour apart, which is many slices: the run ends at the last
// event, or exactly at run.until, which it includes, with nothing after it.
func TestUntil(t *testing.T) {
	trace := "workload.trace.path=" + writeTrace(t, "2024-06-01 09:00:00.0,500,3\n2024-06-01 10:00:00.0,500,3\n")
	_, whole := tinyRun(t, "trace", trace)
	last := whole.Requests[1].Finish
	require.Equal(t, last, whole.End)
	require.Greater(t, last, hour)
	require.Equal(t, whole.Requests[0].Finish+hour, last)
	for _, c := range []struct {
		until                 sim.Time
		end                   sim.Time
		arrived, done, events int // events: 0 all, 1 fewer
	}{
		{1, 1, 1, 0, 1},
		{30 * 60 * sim.Second, 30 * 60 * sim.Second, 1, 1, 1},
		{hour - 1, hour - 1, 1, 1, 1},
		{hour, hour, 2, 1, 1},
		{last - 1, last - 1, 2, 1, 1},
		{last, last, 2, 2, 0},
		{last + 1, last, 2, 2, 0},
		{2 * hour, last, 2, 2, 0},
	} {
		b, r := tinyRun(t, "trace", trace, "run.until="+c.until.String())
		require.Equal(t, c.end, r.End, "until %v", c.until)
		require.LessOrEqual(t, b.Engine.Now(), r.End)
		require.Equal(t, c.arrived, r.Summary.RequestsArrived, "until %v", c.until)
		require.Equal(t, c.done, r.Summary.Completed, "until %v", c.until)
		require.Equal(t, c.events == 0, r.Fingerprint == whole.Fingerprint, "until %v", c.until)
	}
}

// A run of an idle hour looks up a few times, not once per slice; what it
// reports only grows, and ends with the whole.
func TestProgress(t *testing.T) {
	trace := "workload.trace.path=" + writeTrace(t, "2024-06-01 09:00:00.0,500,3\n2024-06-01 10:00:00.0,500,3\n")
	b, err := Build(load(t, tiny["trace"][0], append(append([]string(nil), tiny["trace"][1:]...), trace)...))
	require.NoError(t, err)
	require.Equal(t, Progress{Total: 2}, b.Progress())
	var seen []Progress
	r, err := b.Run(context.Background(), func(p Progress) { seen = append(seen, p) })
	require.NoError(t, err)
	require.Less(t, len(seen), 100)
	for i := 1; i < len(seen); i++ {
		require.GreaterOrEqual(t, seen[i].Now, seen[i-1].Now)
		require.GreaterOrEqual(t, seen[i].Events, seen[i-1].Events)
	}
	require.Equal(t, Progress{Now: r.End, Arrived: 2, Finished: 2, Total: 2, Events: r.Events}, seen[len(seen)-1])
}

func TestCancelled(t *testing.T) {
	b, err := Build(load(t, tiny["dense"][0], tiny["dense"][1:]...))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	looks := 0
	_, err = b.Run(ctx, func(Progress) { looks++; cancel() })
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, looks)
}

// What is known of the number of requests beforehand is what comes.
func TestExpectedRequests(t *testing.T) {
	zeros := "workload.trace.path=" + traceWithZeros(t)
	for _, c := range []struct {
		in   string
		set  []string
		want int
	}{
		{"dense", nil, 12},
		{"dense", []string{"workload.duration=10ms"}, 0},
		{"trace", []string{zeros}, 3},
		{"trace", []string{zeros, "workload.trace.zero_lengths=one"}, 5},
		{"trace", []string{zeros, "workload.trace.skip=1"}, 2},
		{"trace", []string{zeros, "workload.requests=2"}, 2},
		{"trace", []string{zeros, "workload.trace.rows=4"}, 2},
	} {
		b, r := tinyRun(t, c.in, c.set...)
		require.Equal(t, c.want, b.Progress().Total, "%v", c.set)
		if c.want > 0 {
			require.Equal(t, c.want, r.Summary.RequestsArrived)
		}
	}
}

// The inputs of a run are hashed.
func TestInputs(t *testing.T) {
	file := traceWithZeros(t)
	_, r := tinyRun(t, "trace", "workload.trace.path="+file)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, []Input{{Path: file, Bytes: int64(len(text)), SHA256: sha256.Sum256(text)}}, r.Inputs)
	_, r = tinyRun(t, "dense")
	require.Empty(t, r.Inputs)
}

// What the reader should know is said, and nothing else.
func TestNotes(t *testing.T) {
	zeros := "workload.trace.path=" + traceWithZeros(t)
	const (
		clamped  = "1 length was drawn outside its bounds and put at the nearer one."
		idleGPUs = "14 GPUs of the cluster are in no pool; tgs counts them."
		disorder = "1 row of the trace is out of order; it was played in order of time."
	)
	for _, c := range []struct {
		in    string
		set   []string
		notes []string
	}{
		{"moe", nil, []string{clamped}},
		{"moe", []string{"workload.prompt={dist: fixed, tokens: 500}"}, nil},
		{"dense", nil, []string{"8 GPUs of the cluster are in no pool; tgs counts them."}},
		{"dense", []string{"decode.overlap=single_batch"}, []string{"8 GPUs of the cluster are in no pool; tgs counts them.",
			"decode.overlap single_batch changed nothing: no step had a dispatch and combine."}},
		{"moe", []string{"decode.overlap=single_batch"}, []string{clamped}},
		{"moe", []string{"prefill.overlap_min_tokens=100000"}, []string{clamped,
			"prefill.overlap two_batch changed nothing: no step had overlap_min_tokens (100000) tokens on a rank and a fabric to hide."}},
		{"moe", []string{"decode.overlap_min_tokens=1000"}, []string{clamped,
			"decode.overlap two_batch changed nothing: no step had overlap_min_tokens (1000) tokens on a rank and a fabric to hide."}},
		{"moe", []string{"workload.prompt={dist: lognormal, mean: 500, cv: 1, min: 500, max: 500}"}, []string{
			"24 lengths were drawn outside their bounds and put at the nearer one."}},
		{"moe", []string{"workload.prefix={groups: 2, tokens: 1000, share: 1, block_tokens: 16}"}, []string{clamped,
			"The prompts share prefixes, and no cache makes use of it: prefix caching is not modelled."}},
		{"moe", []string{"packet.train=2", "congestion.algorithm=none"}, []string{clamped,
			"The settings under packet act in the packet engine; this run used flow.",
			"The settings under congestion act in the packet engine; this run used flow."}},
		{"moe", []string{"decode.moe.mode=all_gather"}, []string{clamped,
			"decode.moe.mode all_gather sent every token to all 16 GPUs, on several servers: engines do so inside a server. " +
				"low_latency and normal send it to its experts only."}},
		{"moe", []string{"decode.moe.mode=normal"}, []string{clamped,
			"decode.moe.mode normal began after the start-up of the pool's default mode, low_latency: 21us for a dispatch and 19us for a combine. " +
				"normal takes 72us and 149us: decode.moe.dispatch_startup, decode.moe.combine_startup."}},
		{"moe", []string{"decode.moe.mode=normal", "decode.moe.dispatch_startup=72us"}, []string{clamped}},
		{"moe", []string{"prefill.moe.mode=low_latency"}, []string{clamped,
			"prefill.moe.mode low_latency began after the start-up of the pool's default mode, normal: 72us for a dispatch and 149us for a combine. " +
				"low_latency takes 21us and 19us: prefill.moe.dispatch_startup, prefill.moe.combine_startup."}},
		{"trace", []string{zeros}, []string{
			"2 rows of the trace have a zero length and were left out.", disorder, idleGPUs}},
		{"trace", []string{zeros, "workload.trace.zero_lengths=one", "workload.requests=2"}, []string{
			"2 zero lengths of the trace were raised to one token.", disorder,
			"3 rows of the trace were left out by workload.requests or workload.duration.", idleGPUs}},
	} {
		b, r := tinyRun(t, c.in, c.set...)
		var usage []serving.PoolUsage
		for _, p := range r.Pools {
			usage = append(usage, p.Usage)
		}
		notes := b.notes(usage)
		require.Equal(t, b.Graph.GPUs(), r.Summary.GPUs, "those in no pool included")
		require.Subset(t, r.Notes, notes)
		require.Equal(t, c.notes, notes, "%s %v", c.in, c.set)
	}
}

// The cost models are those of the scenario's settings.
func TestCostModelsFollowTheScenario(t *testing.T) {
	build := func(set ...string) *Simulation {
		b, err := Build(load(t, tiny["moe"][0], append(append([]string(nil), tiny["moe"][1:]...), set...)...))
		require.NoError(t, err)
		return b
	}
	model, err := compute.LoadModel("qwen3-30b-a3b")
	require.NoError(t, err)
	gpu, err := compute.LoadProfile("h800")
	require.NoError(t, err)
	for _, set := range [][]string{
		nil, {"gpu.derate=2"}, {"kv.memory_utilisation=0.5"}, {"model.weights=fp8"}, {"model.kv=fp8"},
		{"decode.tp=1", "decode.dp=16"}, {"prefill.tp=4", "prefill.dp=4"},
	} {
		b := build(set...)
		c := b.Scenario
		for _, pool := range []struct {
			rank   *compute.Rank
			tp, ep int
		}{
			{b.Prefill, c.Serving.Prefill.TP, c.Serving.Prefill.GPUs()},
			{b.Decode, c.Serving.Decode.TP, c.Serving.Decode.GPUs()},
		} {
			want, err := compute.NewRank(compute.Setup{
				GPU: gpu, Model: model, TP: pool.tp, EP: pool.ep, Weights: c.Model.Weights, KV: c.Model.KV,
				Derate: c.GPU.Derate, Utilisation: c.Serving.KV.Utilisation,
			})
			require.NoError(t, err)
			require.Equal(t, want.Memory(), pool.rank.Memory(), "%v", set)
			chunks := []compute.Chunk{{Tokens: 1000, Context: 77}}
			require.Equal(t, want.Prefill(chunks), pool.rank.Prefill(chunks), "%v", set)
			require.Equal(t, want.Decode(10, 10_000, 1), pool.rank.Decode(10, 10_000, 1), "%v", set)
			require.Equal(t, want.Experts(true, 1000, 1), pool.rank.Experts(true, 1000, 1), "%v", set)
		}
	}
	require.Equal(t, 2*build("gpu.derate=1").Decode.Memory().KVPerToken, 2*build().Decode.Memory().KVPerToken)
	require.Equal(t, build().Decode.Memory().KVPerToken, 2*build("model.kv=fp8").Decode.Memory().KVPerToken)
}

// The descriptors of a KV transfer: one latent per layer and block of
// DeepSeek-V3's 61 layers, keys and values of Qwen3-30B's 48.
func TestDescriptors(t *testing.T) {
	for _, c := range []struct {
		scenario string
		pieces   sim.Time
	}{{"deepseek-v3-h800-pd", 61}, {"qwen3-30b-a3b-h20", 96}, {"llama-3.1-70b-h800-pd", 160}} {
		s := load(t, c.scenario, "workload.requests=1", "workload.prompt={dist: fixed, tokens: 100}",
			"workload.output={dist: fixed, tokens: 1}", "kv.block_tokens=64", "kv.post_per_message=1us", "kv.post_per_descriptor=1us")
		r := run(t, s)
		require.Equal(t, (1+2*c.pieces)*sim.Microsecond, r.Transfers[0].Post, c.scenario)
	}
}

// A cost model's problem is told under the scenario's key.
func TestProblemsNameTheScenariosKeys(t *testing.T) {
	for _, c := range []struct {
		set  []string
		want string
	}{
		{[]string{"gpu.derate=0.5", "model.weights=fp9"}, "model.weights"},
		{[]string{"prefill.tp=3"}, "prefill.tp"},
		{[]string{"prefill.dp=3"}, "prefill.dp"},
		{[]string{"prefill.comm_sms=128", "gpu.name=h20"}, "prefill.comm_sms"},
		{[]string{"kv.memory_utilisation=0.01"}, "kv.memory_utilisation"},
		{[]string{"model.name=qwen3-9b"}, "model.name"},
		{[]string{"cluster.spines=3"}, "cluster.spines"},
		{[]string{"network.engine=flaw"}, "network.engine"},
	} {
		require.ErrorContains(t, refusal(t, c.set...), c.want+":", "%v", c.set)
	}
}

// refusal is the error of the tiny scenario with the assignments.
func refusal(t testing.TB, set ...string) error {
	t.Helper()
	s, err := scenarios.Load(tiny["moe"][0], append(append([]string(nil), tiny["moe"][1:]...), set...)...)
	if err != nil {
		return err
	}
	_, err = Build(s)
	return err
}

// The routing arithmetic is the model's.
func TestExperts(t *testing.T) {
	for name, want := range map[string]collective.Experts{
		"deepseek-v3":   {Count: 256, TopK: 8, Groups: 8, GroupLimit: 4, Hidden: 7168},
		"qwen3-30b-a3b": {Count: 128, TopK: 8, Groups: 1, GroupLimit: 1, Hidden: 2048},
		"qwen3-8b":      {},
	} {
		m, err := compute.LoadModel(name)
		require.NoError(t, err)
		require.Equal(t, want, routed(m), name)
	}
}

// One prompt of 300 tokens on two GPUs: each of Qwen3-8B's 36 layers reduces
// twice, 4,096 elements of two bytes per token, at the NVLinks' rate of payload.
func TestAllReducesFollowTheModel(t *testing.T) {
	for _, efficiency := range []string{"1", "0.8"} {
		b, r := tinyRun(t, "dense", "workload.requests=1", "workload.prompt={dist: fixed, tokens: 300}",
			"network.nvlink_efficiency="+efficiency, "cluster.nvlink_rate=1000Gbps")
		rate := 1000 * units.Gbps
		if efficiency == "0.8" {
			rate = 800 * units.Gbps
		}
		one := collective.AllReduce(2*4096*300, 2, rate, b.Scenario.Serving.Prefill.AllReduceStartup)
		require.Equal(t, sim.TotalOf(2*36*one, 2), r.Pools[0].Usage.Time.AllReduce)
	}
}

// The problems of a rank are told under the keys that a scenario has for them.
func TestRankProblemsAreNested(t *testing.T) {
	for key, want := range map[string]string{
		"tp": "decode.tp", "ep": "decode.dp", "comm_sms": "decode.comm_sms", "derate": "gpu.derate",
		"utilisation": "kv.memory_utilisation", "kv": "model.kv", "weights": "model.weights",
	} {
		var ps config.Problems
		nestRank(&ps, "decode", config.Problems{{Key: key, Message: "must be so"}})
		require.Len(t, ps, 1)
		require.Equal(t, want, ps[0].Key)
		if key == "ep" {
			require.Equal(t, "tp x dp, the GPUs that share the experts, must be so; "+
				"copies of experts (decode.moe.routing.placement.redundant) allow others", ps[0].Message)
		} else {
			require.Equal(t, "must be so", ps[0].Message)
		}
	}
}

// Without a seed of its own, path choice takes the run's.
func TestPathsTakeTheRunsSeed(t *testing.T) {
	for _, in := range []string{"moe", "packet"} {
		_, own := tinyRun(t, in, "seed=2")
		_, same := tinyRun(t, in, "seed=2", "network.ecmp_seed=2")
		_, other := tinyRun(t, in, "seed=2", "network.ecmp_seed=1")
		require.Equal(t, own.Fingerprint, same.Fingerprint, in)
		require.NotEqual(t, own.Fingerprint, other.Fingerprint, in)
	}
}
