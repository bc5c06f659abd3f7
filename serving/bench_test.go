package serving

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/collective"
	"github.com/tgssim/tgssim/compute"
	"github.com/tgssim/tgssim/experts"
	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
	"github.com/tgssim/tgssim/workload"
)

// BenchmarkDecodeStep runs whole decode steps of DeepSeek-V3 on H800s with real
// cost models on an ideal fabric: batch, price, every dispatch and combine of 58
// layers, and tokens given out. ns/op is one step of the instance.
func BenchmarkDecodeStep(b *testing.B) {
	for _, c := range []struct {
		ep, batch int
		overlap   string
		timing    string
		query     int
		sample    int // layers simulated, 0 for all
	}{
		{32, 32, OverlapNone, collective.TimingFabric, 1, 0},
		{32, 32, OverlapNone, collective.TimingFabric, 1, 1},
		{128, 128, OverlapShared, collective.TimingFabric, 1, 0},
		{128, 128, OverlapShared, collective.TimingFabric, 1, 1},
		{128, 128, OverlapTwoBatch, collective.TimingFabric, 2, 0},
		{128, 128, OverlapTwoBatch, collective.TimingFabric, 2, 3},
		{128, 128, OverlapTwoBatch, collective.TimingMeasured, 2, 0},
	} {
		b.Run(fmt.Sprintf("EP%d/%s/%s/query%d/sample%d", c.ep, c.overlap, c.timing, c.query, c.sample), func(b *testing.B) {
			cfg := DefaultConfig()
			cfg.Prefill.DP, cfg.Prefill.HostGap = 32, 0
			cfg.Prefill.MaxBatchTokens = 1 << 20
			cfg.Decode.DP, cfg.Decode.MaxBatchRequests, cfg.Decode.Overlap = c.ep, c.batch, c.overlap
			cfg.Decode.MTP = MTPConfig{QueryTokens: c.query, Acceptance: 0.6}
			cfg.Decode.MoE.Timing = c.timing
			if c.timing == collective.TimingMeasured {
				cfg.Decode.MoE.MeasuredDispatch = collective.Measured{Fixed: 26 * us, PerToken: us}
				cfg.Decode.MoE.MeasuredCombine = collective.Measured{Fixed: 24 * us, PerToken: 2 * us}
			}
			steps, events := decodeSteps(b, cfg, c.ep*c.batch, c.sample, "ideal", func() {})
			b.ReportMetric(float64(events)/float64(steps), "events/step")
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(steps), "us/step")
		})
	}
}

// BenchmarkRoutedStep runs decode steps at EP128 with 128 requests per GPU in the
// flow engine, in which tokens choose experts: so many of the 58 layers drawn. The
// processor time of the best step can be compared on a busy machine too.
func BenchmarkRoutedStep(b *testing.B) {
	for _, c := range []struct {
		counts  string // "" without routing
		overlap string
		drawn   int
	}{
		{"", OverlapShared, 0},
		{experts.CountExpected, OverlapShared, 8},
		{experts.CountExpected, OverlapShared, 0},
		{experts.CountAggregate, OverlapShared, 1},
		{experts.CountAggregate, OverlapShared, 8},
		{experts.CountAggregate, OverlapTwoBatch, 8},
		{experts.CountAggregate, OverlapShared, 0},
	} {
		name := "balanced"
		if c.counts != "" {
			name = fmt.Sprintf("%s/%s/drawn%d", c.counts, c.overlap, c.drawn)
		}
		b.Run(name, func(b *testing.B) {
			cfg := DefaultConfig()
			cfg.Prefill.DP, cfg.Prefill.HostGap = 32, 0
			cfg.Prefill.MaxBatchTokens = 1 << 20
			cfg.Decode.DP, cfg.Decode.Overlap = 128, c.overlap
			if c.counts != "" {
				r := collective.DefaultRouting()
				r.Counts, r.SampleLayers = c.counts, c.drawn
				r.Popularity = experts.PopularityConfig{Kind: experts.PopularityZipf, Alpha: 0.5}
				cfg.Decode.MoE.Routing = &r
			}
			began, best := time.Duration(0), time.Hour
			decodeSteps(b, cfg, 128*128, 0, "flow", func() {
				now := processor()
				if began > 0 {
					best = min(best, now-began)
				}
				began = now
			})
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "ms/step")
			b.ReportMetric(float64(best.Microseconds())/1000, "processor-ms/best-step")
		})
	}
}

// processor is the processor time that the process has used.
func processor() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// roomy is a rank with memory for outputs of any length.
type roomy struct{ *compute.Rank }

func (r roomy) Memory() compute.Memory {
	m := r.Rank.Memory()
	m.Capacity = 1 << 55
	return m
}

// decodeSteps runs b.N steps with all requests in the batch and calls ended after
// each.
func decodeSteps(b *testing.B, cfg Config, n, sample int, engine string, ended func()) (steps int, events uint64) {
	gpu, err := compute.LoadProfile("H800")
	require.NoError(b, err)
	model, err := compute.LoadModel("DeepSeek-V3")
	require.NoError(b, err)
	top := topology.DefaultConfig()
	top.Nodes = (cfg.Prefill.GPUs() + cfg.Decode.GPUs()) / 8
	top.Leaves, top.Spines = top.Nodes, 8
	g, err := topology.LeafSpine(top)
	require.NoError(b, err)
	e := sim.New()
	f := fabric.DefaultConfig()
	f.Engine = engine
	network, err := fabric.New(f, e, g, 1)
	require.NoError(b, err)
	rank := func(ep int) CostModel {
		r, err := compute.NewRank(compute.Setup{GPU: gpu, Model: model, EP: ep})
		require.NoError(b, err)
		return roomy{r}
	}
	prefill := rank(cfg.Prefill.DP)
	var rs []workload.Request
	for range n {
		rs = append(rs, workload.Request{PromptTokens: 1, OutputTokens: 4*b.N + 1000})
	}
	running, decoded := false, 0
	_, err = New(Options{
		Config: cfg, Engine: e, Network: network, Graph: g, Source: requests(rs...),
		Prefill: prefill, PrefillOverlap: prefill, Decode: rank(cfg.Decode.DP),
		Experts: collective.Experts{Count: 256, TopK: 8, Groups: 8, GroupLimit: 4, Hidden: model.Hidden},
		Hidden:  model.Hidden, SampleLayers: sample, KVPieces: model.Layers, NVLinkRate: top.NVLinkRate,
		Listener: Listener{Step: func(s *Step) {
			if s.Pool == poolDecode && s.Requests == n {
				running = true
				decoded++
				ended()
			}
		}},
	})
	require.NoError(b, err)
	for !running && e.Step() {
	}
	require.True(b, running)
	decoded, events = 0, e.Events()
	b.ReportAllocs()
	b.ResetTimer()
	for decoded < b.N && e.Step() {
	}
	b.StopTimer()
	return decoded, e.Events() - events
}
