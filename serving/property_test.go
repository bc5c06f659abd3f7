package serving

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/collective"
	_ "github.com/tgssim/tgssim/internal/testkit" // the same draws in every run
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/workload"
)

// drawRequests makes a list in order of arrival, with arrivals in whole
// microseconds and many of them together.
func drawRequests(t *rapid.T, most, prompt, output int) []workload.Request {
	rs := make([]workload.Request, rapid.IntRange(1, most).Draw(t, "requests"))
	for i := range rs {
		rs[i] = workload.Request{
			Arrival:      sim.Time(rapid.IntRange(0, 20).Draw(t, "arrival")) * 50 * us,
			PromptTokens: rapid.IntRange(1, prompt).Draw(t, "prompt"),
			OutputTokens: rapid.IntRange(1, output).Draw(t, "output"),
		}
	}
	slices.SortStableFunc(rs, func(a, b workload.Request) int { return cmp.Compare(a.Arrival, b.Arrival) })
	return rs
}

// drawCost makes a cost model that depends on everything.
func drawCost(t *rapid.T, moe int) fakeCost {
	draw := func(name string, most int) sim.Time {
		return sim.Time(rapid.IntRange(0, most).Draw(t, name)) * 2 * us
	}
	c := fakeCost{
		moe: moe, dense: rapid.IntRange(0, 2).Draw(t, "dense"),
		fixed: draw("fixed", 10), perToken: draw("token", 3), perContext: draw("context", 2), perKV: draw("kv", 2),
		shared: draw("shared", 10), sharedPerToken: draw("shared token", 2), mlp: draw("mlp", 10),
		head: draw("head", 10) + us, headPerSequence: draw("head sequence", 3),
		experts: draw("experts", 20), expertsPerToken: draw("expert token", 2), expertsDecode: draw("experts decode", 5),
		kvTokens: int64(rapid.IntRange(20, 200).Draw(t, "kv tokens")),
		kvBytes:  units.Bytes(rapid.IntRange(1, 9).Draw(t, "kv bytes")),
	}
	if moe == 0 {
		c.dense++
	}
	return c
}

// drawOverlap draws one that the pool may have in its default mode.
func drawOverlap(t *rapid.T, prefill bool) string {
	valid := func(overlap string) bool { return !prefill || overlap != OverlapSingle }
	return rapid.SampledFrom(Overlaps).Filter(valid).Draw(t, "overlap")
}

func drawPool(t *rapid.T, name string, c *PoolConfig, moe int) {
	draw := func(what string, from, to int) int { return rapid.IntRange(from, to).Draw(t, name+" "+what) }
	c.Instances = draw("instances", 1, 2)
	c.TP = 1 << draw("tp", 0, 2)
	if moe > 0 {
		c.DP = 8 / c.TP / c.Instances / draw("fewer", 1, 2)
		c.DP = max(1, c.DP)
	}
	c.Router = rapid.SampledFrom(Routers).Draw(t, name+" router")
	c.MaxBatchRequests = draw("batch", 1, 6)
	c.Overlap = drawOverlap(t, name == poolPrefill)
	c.OverlapMinTokens = draw("overlap from", 0, 6)
	c.CommStretch = []float64{1, 1.5, 2}[draw("stretch", 0, 2)]
	c.MoE.Imbalance = []float64{1, 1.5}[draw("imbalance", 0, 1)]
	c.MoE.DispatchStartup = sim.Time(draw("dispatch startup", 0, 5)) * 2 * us
	c.MoE.CombineStartup = sim.Time(draw("combine startup", 0, 5)) * 2 * us
	c.AllReduceStartup = sim.Time(draw("all-reduce", 0, 3)) * us
	c.HostGap = sim.Time(draw("gap", 0, 3)) * 5 * us
	if draw("measured", 0, 3) == 0 {
		c.MoE.Timing = collective.TimingMeasured
		c.MoE.MeasuredDispatch = collective.Measured{Fixed: sim.Time(draw("fixed", 0, 9)) * 2 * us, PerToken: 8 * us}
		c.MoE.MeasuredCombine = collective.Measured{Fixed: 10 * us, PerToken: sim.Time(draw("per token", 0, 9)) * 8 * us}
	}
}

// drawMTP makes a drafting module of any kind, or none.
func drawMTP(t *rapid.T) MTPConfig {
	return MTPConfig{
		QueryTokens:    rapid.IntRange(1, 4).Draw(t, "query tokens"),
		Acceptance:     rapid.SampledFrom([]float64{0, 0.3, 0.8, 1}).Draw(t, "acceptance"),
		LayersPerDraft: rapid.IntRange(0, 2).Draw(t, "draft layers"),
	}
}

// drawSetup makes a small cluster of any shape with a list of requests.
func drawSetup(t *rapid.T) *setup {
	s := newSetup(requests(drawRequests(t, 12, 60, 8)...))
	s.servers = 2
	moe := rapid.IntRange(0, 3).Draw(t, "moe layers")
	if moe > 0 {
		s.experts = collective.Experts{Count: 16, TopK: 2, Hidden: hidden}
	}
	drawPool(t, "prefill", &s.config.Prefill, moe)
	drawPool(t, "decode", &s.config.Decode, moe)
	for s.config.Prefill.GPUs()%s.config.Decode.TP != 0 {
		s.config.Decode.TP /= 2
	}
	s.config.Prefill.MaxBatchTokens = rapid.IntRange(1, 80).Draw(t, "budget")
	s.config.Decode.MTP = drawMTP(t)
	s.seed = rapid.Uint64().Draw(t, "seed")
	s.config.Decode.SendRecv = sim.Time(rapid.IntRange(0, 3).Draw(t, "send")) * us
	s.config.KV.BlockTokens = rapid.SampledFrom([]int{1, 3, 16}).Draw(t, "block")
	s.config.KV.QPs = rapid.IntRange(1, 4).Draw(t, "qps")
	s.config.KV.PostPerDescriptor = sim.Time(rapid.IntRange(0, 2).Draw(t, "descriptor")) * us
	s.kvPieces = rapid.IntRange(1, 6).Draw(t, "pieces")
	s.prefill, s.decode = drawCost(t, moe), drawCost(t, moe)
	s.decode.dense = s.prefill.dense
	overlap := drawCost(t, moe)
	overlap.dense = s.prefill.dense
	s.overlap = &overlap
	n := &s.network
	n.latency = sim.Time(rapid.IntRange(1, 100).Draw(t, "latency")) * us
	n.queue = rapid.SampledFrom([]sim.Time{0, us}).Draw(t, "kv queue")
	n.perByte = rapid.SampledFrom([]sim.Time{0, 10 * sim.Nanosecond}).Draw(t, "kv byte")
	n.dispatch = sim.Time(rapid.IntRange(0, 40).Draw(t, "dispatch")) * 2 * us
	n.combine = sim.Time(rapid.IntRange(0, 40).Draw(t, "combine")) * 2 * us
	n.perUnit = rapid.SampledFrom([]sim.Time{0, 2 * us, 50 * us}).Draw(t, "unit")
	n.paths = rapid.SampledFrom([]sim.Time{0, 7 * us}).Draw(t, "paths")
	n.contention = rapid.SampledFrom([]sim.Time{0, 11 * us}).Draw(t, "contention")
	return s
}

// Any small cluster keeps its accounts: run audits every step and every life.
func TestAccountsOfAnyCluster(t *testing.T) {
	two := 0
	rapid.Check(t, func(t *rapid.T) {
		s := drawSetup(t)
		o := s.run(t)
		for _, u := range o.usage {
			two += u.TwoBatchSteps
		}
	})
	require.Positive(t, two, "no step ran as two micro-batches: the test has lost its edge")
}

// A run stopped at any instant is the beginning of the whole run, and its
// accounts add up.
func TestStoppedAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSetup(t)
		list := *s.source.(*list)
		again := append(list[:0:0], list...)
		whole := s.run(t)
		s.source, s.until = &again, sim.Time(rapid.Int64Range(0, int64(whole.end)).Draw(t, "until"))
		s.network = fakeNetwork{
			latency: s.network.latency, queue: s.network.queue, perByte: s.network.perByte,
			dispatch: s.network.dispatch, combine: s.network.combine, perUnit: s.network.perUnit,
			paths: s.network.paths, contention: s.network.contention,
		}
		part := s.run(t)
		require.True(t, slices.Equal(whole.steps[:len(part.steps)], part.steps))
		require.True(t, len(part.steps) == len(whole.steps) || whole.steps[len(part.steps)].End > s.until)
		require.True(t, slices.Equal(whole.transfers[:len(part.transfers)], part.transfers))
		finished := 0
		for _, r := range part.records {
			if r.Outcome != Unfinished {
				require.Equal(t, whole.records[finished], r)
				finished++
			}
		}
		arrived, ended, rejected := part.cluster.Progress()
		require.Equal(t, finished, ended+rejected)
		require.Len(t, part.records, arrived)
	})
}
