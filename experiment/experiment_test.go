package experiment

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/scenarios"
	"github.com/tgssim/tgssim/serving"
	"github.com/tgssim/tgssim/sim"
)

func load(t testing.TB, ref string, assignments ...string) *scenarios.Scenario {
	t.Helper()
	s, err := scenarios.Load(ref, assignments...)
	require.NoError(t, err)
	return s
}

func run(t testing.TB, s *scenarios.Scenario, options ...sim.Option) *Result {
	t.Helper()
	b, err := Build(s, options...)
	require.NoError(t, err)
	r, err := b.Run(context.Background(), nil)
	require.NoError(t, err)
	conserves(t, s, r)
	return r
}

// conserves holds every run to its accounts: requests, GPU time and bytes.
func conserves(t testing.TB, s *scenarios.Scenario, r *Result) {
	t.Helper()
	sum := &r.Summary
	require.Equal(t, sum.RequestsArrived, sum.Completed+sum.RequestsRejected+sum.RequestsUnfinished)
	for _, p := range r.Pools {
		require.Equal(t, sim.TotalOf(r.End, p.Usage.GPUs), p.Usage.Time.Sum(), "GPU time of the %s pool", p.Usage.Pool)
	}
	for _, q := range r.Requests {
		if q.Outcome == serving.Finished {
			require.Equal(t, q.FirstToken-q.Arrival, q.TTFT.Sum(), "TTFT of request %d", q.ID)
			require.Equal(t, q.Finish-q.FirstToken, q.Decode.Sum(), "decoding of request %d", q.ID)
		}
	}
}

func summary(t testing.TB, r *Result) string {
	t.Helper()
	text, err := json.MarshalIndent(r.Summary, "", " ")
	require.NoError(t, err)
	return string(text)
}

// atOnce makes a scenario small in which everything arrives at once, and would tie.
var atOnce = []string{"workload.requests=64", "workload.output.tokens=4", "workload.arrivals={process: poisson, rate: 500/s}"}

// small variants of the library, quick enough to run often.
var small = map[string][]string{
	"deepseek-v3-h800-packet": {"workload.requests=2"},
	"deepseek-v3-h800-pd":     {"workload.requests=120"},
	"qwen3-30b-a3b-h20":       {"workload.requests=100"},
	"fabric-size-quick":       {"workload.requests=100"},
	"ep-imbalance":            append([]string{"prefill.instances=1", "decode.dp=32", "cluster.nodes=8", "cluster.leaves=8"}, atOnce...),
	"imbalance":               atOnce,
	"oversubscription":        atOnce,
	"two-batch":               atOnce,
	"tgs-vs-fabric-size":      {"workload.requests=100", "run.until=30s"},
	"ecmp-collisions":         atOnce,
	"slow-nic":                {"workload.requests=4", "workload.arrivals={process: poisson, rate: 500/s}"},
	"kv-incast":               {"workload.requests=6", "workload.output.tokens=4"},
	"ep-beside-kv":            {"workload.requests=6", "workload.output.tokens=4"},
	"ecmp-elephants":          {"workload.requests=6", "workload.output.tokens=4"},
	"mistuned-ecn":            {"workload.requests=6"},
	"pfc-victims":             {"workload.requests=6", "workload.output.tokens=4"},
	"uplink-failure":          {"workload.requests=6", "workload.output.tokens=4"},
	"kv-beside-ep":            {"workload.requests=100"},
	"llama-3.1-70b-h800-pd":   {"workload.requests=300"},
	"azure-replay":            {"workload.trace.path=../workload/testdata/azure_2023.csv", "workload.trace.rows=60"},
}

// plain are the runs of small scenarios as they are, which several tests look at.
var plain = map[string]*Result{}

func plainRun(t *testing.T, name string) *Result {
	if plain[name] == nil {
		plain[name] = run(t, load(t, name, small[name]...))
	}
	return plain[name]
}

func TestEveryLibraryScenarioRuns(t *testing.T) {
	for _, name := range scenarios.Names() {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, small, name, "add the scenario to this test")
			r := plainRun(t, name)
			require.Positive(t, r.Summary.Completed)
			require.Equal(t, r.Summary.RequestsArrived, r.Summary.Completed, "all finish")
		})
	}
}

// quickly leaves out all but two of the small scenarios in short mode.
func quickly(t *testing.T, name string) {
	if testing.Short() && name != "llama-3.1-70b-h800-pd" && name != "qwen3-30b-a3b-h20" {
		t.Skip("with -short two scenarios do")
	}
}

// The same scenario a second time, through a plain heap instead of the fast queue,
// is the same run, event for event. Another seed is another run.
func TestRunsRepeat(t *testing.T) {
	for name, set := range small {
		t.Run(name, func(t *testing.T) {
			quickly(t, name)
			first := plainRun(t, name)
			heap := run(t, load(t, name, set...), sim.HeapOnly())
			require.Equal(t, first.Fingerprint, heap.Fingerprint)
			require.Equal(t, first.Requests, heap.Requests)
			require.Equal(t, summary(t, first), summary(t, heap))
			other := run(t, load(t, name, slices.Concat(set, []string{"seed=2"})...))
			require.NotEqual(t, first.Fingerprint, other.Fingerprint)
		})
	}
}

// The order of events at one instant is an accident of scheduling, and nothing
// that is reported may depend on it. In the packet engine packets that reach a
// port at one instant leave it one after the other, so somebody has to be first.
func TestTiesDoNotMatter(t *testing.T) {
	for name, set := range small {
		t.Run(name, func(t *testing.T) {
			quickly(t, name)
			if load(t, name, set...).Network.Engine == fabric.EnginePacket {
				t.Skip("ties are decided in queues")
			}
			want := plainRun(t, name)
			for seed := range uint64(5) {
				got := run(t, load(t, name, set...), sim.ShuffleTies(seed))
				require.Equal(t, want.Requests, got.Requests)
				require.Equal(t, summary(t, want), summary(t, got))
			}
		})
	}
}

// One KV transfer alone takes bytes / (efficiency x rate) + latency, to the
// picosecond, in both engines and through the whole stack; also when four
// prefill GPUs send a quarter each to one, whose NIC limits them together.
func TestTransferAlone(t *testing.T) {
	one := []string{"prefill.tp=1", "prefill.dp=32", "kv.qps=1"}
	four := []string{"prefill.tp=4", "prefill.dp=8", "kv.qps=4"}
	for _, engine := range []string{"flow", "ideal"} {
		for i, prompt := range []int{1, 77, 4096, 16384, 4096, 16384} {
			shape := one
			if i >= 4 {
				shape = four
			}
			s := load(t, "deepseek-v3-h800-pd", append(shape, "network.engine="+engine, "workload.requests=1",
				fmt.Sprintf("workload.prompt={dist: fixed, tokens: %d}", prompt))...)
			r := run(t, s)
			require.Len(t, r.Transfers, 1)
			x := r.Transfers[0]
			kv := units.Bytes(prompt * 70272) // bytes per token of DeepSeek-V3's latent
			require.Equal(t, kv, x.Bytes)
			// Across the spine: both NICs, four cables, three switches, and a full
			// packet stored and forwarded at each.
			c := s.Cluster
			latency := 2*c.NICLatency + 4*c.LinkDelay + 3*c.SwitchLatency + 3*c.NICRate.Time(4178)
			require.Equal(t, c.NICRate.TimeScaled(kv, 4178, 4096)+latency, x.Wire, "%s, %d tokens", engine, prompt)
			require.Zero(t, x.Queue)
			require.Equal(t, x.Arrived-x.Posted, x.Post+x.Wire)
		}
	}
}

// mean TTFT, mean ITL and TGS of a run.
func figures(r *Result) (ttft, itl, tgs float64) {
	return r.TTFT.Mean, r.ITL.Mean, *r.Summary.TGS
}

// A network without contention is never slower, and taking away half or three
// quarters of the uplinks costs something.
func TestOversubscriptionCosts(t *testing.T) {
	if testing.Short() {
		t.Skip("four runs of a large cluster")
	}
	at := func(set ...string) *Result {
		return run(t, load(t, "deepseek-v3-h800-pd", append(set, "workload.requests=600")...))
	}
	ideal := at("network.engine=ideal")
	full := at()
	half := at("cluster.oversubscription=2", "cluster.spines=4")
	quarter := at("cluster.oversubscription=4", "cluster.spines=2")
	last := 0.0
	for i, r := range []*Result{ideal, full, half, quarter} {
		ttft, itl, _ := figures(r)
		require.Greater(t, ttft+itl, last, "step %d", i)
		last = ttft + itl
	}
	// The prefill GPUs are what spans the spine hardest: their wait must grow.
	comm := func(r *Result) float64 {
		u := r.Pools[0].Usage.Time
		return u.Dispatch.Seconds() + u.Combine.Seconds()
	}
	require.Greater(t, comm(quarter), 1.3*comm(full))
}

// An idle fabric is never blamed: a dense model whose instances fit in a server
// sends nothing but KV, and four times the fabric changes TGS by under 0.5 %
// (the last requests end a little earlier).
func TestIdleFabricIsNotBlamed(t *testing.T) {
	slow := run(t, load(t, "llama-3.1-70b-h800-pd", "workload.requests=200"))
	fast := run(t, load(t, "llama-3.1-70b-h800-pd", "workload.requests=200", "cluster.nic_rate=1600Gbps", "cluster.link_rate=1600Gbps"))
	a, b := *slow.Summary.TGS, *fast.Summary.TGS
	require.InEpsilon(t, a, b, 0.005)
	require.NotContains(t, strings.Join(slow.Network.Sentences, " "), "GPUs wait for the network")
}

// The first 400 rows of the recorded traces, where they are at hand: every request
// is finished, with all its tokens.
func TestRecordedTraces(t *testing.T) {
	dir := filepath.Join("..", "..", "shared", "traces")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("recorded traces are not at hand: ", err)
	}
	if testing.Short() {
		t.Skip("several seconds")
	}
	for path, tokens := range map[string][2]int64{
		"azure-2023/AzureLLMInferenceTrace_conv.head2000.csv": {371_046, 104_009},
		"azure-2023/AzureLLMInferenceTrace_code.head2000.csv": {855_018, 9_820},
		"mooncake-fast25/conversation_trace.head2000.jsonl":   {5_710_530, 146_073},
	} {
		r := run(t, load(t, "azure-replay", "workload.trace.path="+filepath.Join(dir, path), "workload.trace.rows=400"))
		require.EqualValues(t, 400, r.Summary.Completed, path)
		require.EqualValues(t, tokens[0], r.Summary.TotalInputTokens, path)
		require.EqualValues(t, tokens[1], r.Summary.TotalOutputTokens, path)
	}
}
