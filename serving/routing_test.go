package serving

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/collective"
	"github.com/tgssim/tgssim/compute"
	"github.com/tgssim/tgssim/experts"
	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
	"github.com/tgssim/tgssim/workload"
)

// routedSetup is moeSetup with eight experts on eight GPUs, of which a token
// chooses one, by the weights given. Its stories are not audited: the audit knows
// even choices only.
func routedSetup(weights []float64, source Source) *setup {
	s := moeSetup(source)
	s.until = sim.Never - 1
	s.experts.TopK, s.servers = 1, 2
	s.weights = &experts.Weights{Name: "w", Layers: [][]float64{weights}}
	for _, c := range []*PoolConfig{&s.config.Prefill, &s.config.Decode} {
		r := collective.DefaultRouting()
		r.Counts = experts.CountExpected
		r.Popularity = experts.PopularityConfig{Kind: experts.PopularityFile, Path: "w", SameLayers: true}
		c.DP, c.MoE.Routing = 8, &r
	}
	return s
}

// crowd is so many requests at once.
func crowd(n, prompt, output int) Source {
	var rs []workload.Request
	for range n {
		rs = append(rs, at(0, prompt, output))
	}
	return requests(rs...)
}

// The step is slower by exactly what the busiest GPU's experts take longer, and
// what the others wait for it is the barrier's. Sixteen tokens, two from each of
// eight ranks: nine of them for the first expert.
func TestBusiestRankSetsThePace(t *testing.T) {
	even := []float64{1, 1, 1, 1, 1, 1, 1, 1}
	skewed := []float64{9, 1, 1, 1, 1, 1, 1, 1}
	run := func(weights []float64) *story {
		s := routedSetup(weights, crowd(16, 1, 2))
		s.decode.experts, s.decode.expertsPerToken = 0, 10*us
		return s.run(t)
	}
	a, b := run(even), run(skewed)
	last := func(o *story) Step { return o.steps[len(o.steps)-1] }
	require.Equal(t, 16, last(a).Requests)
	require.Equal(t, 4*(9-2)*10*us, last(b).Compute-last(a).Compute)
	require.Equal(t, 4*(9-2)*10*us, (last(b).End-last(b).Start)-(last(a).End-last(a).Start))
	require.Equal(t, sim.TotalOf(0, 1), a.usage[1].Time.Barrier)
	steps := sim.Time(b.usage[1].Steps)
	require.Equal(t, sim.TotalOf(steps*4*(8*9-16)*10*us, 1), b.usage[1].Time.Barrier)
	require.Equal(t, a.usage[1].Time.Compute, b.usage[1].Time.Compute, "the work is the same")

	u := b.usage[1].Experts
	require.EqualValues(t, 4*steps, u.Draws, "every layer of four")
	require.InDelta(t, 9*8./16, u.SumBusiest/float64(u.Draws), 1e-6)
	require.InDelta(t, 9*8./16, u.MaxBusiest, 1e-6)
	require.EqualValues(t, 16*1000*4*steps, u.Chosen)
	require.Zero(t, u.Dropped)
	require.Zero(t, a.usage[1].Experts.Moves)
}

// The network is told of thousandths of tokens for each pair of rank and GPU, when
// the choices change and not before.
func TestPairsReachTheNetwork(t *testing.T) {
	s := routedSetup([]float64{9, 1, 1, 1, 1, 1, 1, 1}, crowd(16, 1, 3))
	o := s.run(t)
	units := o.network.units
	last := units[len(units)-1]
	require.Len(t, last, 64)
	require.EqualValues(t, []int64{1125, 125, 125, 125, 125, 125, 125, 125}, last[:8])
	for _, spec := range o.network.specs {
		if spec.Ranks == 64 { // low latency: bytes of a token
			require.EqualValues(t, map[string]int64{"decode0 dispatch 0": 1056, "decode0 dispatch 1": 1056,
				"decode0 combine 0": 2048, "decode0 combine 1": 2048}[spec.Name], spec.Shares[0].Milli, spec.Name)
		}
	}
	v := o.usage[1].Volume
	runs := int64(4 * o.usage[1].Steps)
	require.Equal(t, runs, v.Dispatch.Runs)
	require.EqualValues(t, runs*16*1056, v.Dispatch.Logical)
	require.EqualValues(t, runs*16*2048, v.Combine.Logical)
	// A GPU keeps what is for its own expert: rank 0 its 1.125 tokens, the others
	// 0.125 each.
	require.EqualValues(t, runs*14*1056, v.Dispatch.NVLink)
	require.Zero(t, v.Dispatch.Network, "one server")
	require.Equal(t, sim.Time(runs)*100*us, v.Dispatch.Time)
}

// Layers with choices of their own, in turn: each sample stands for the layers up
// to the next, and over the steps every layer is drawn.
func TestSampledLayersTakeTurns(t *testing.T) {
	for _, c := range []struct{ layers, samples int }{{58, 8}, {58, 58}, {58, 1}, {7, 3}, {4, 4}, {59, 8}} {
		known := min(58, c.layers)
		in := &instance{}
		r := routing{in: in, layers: c.layers, samples: c.samples, known: known}
		seen := map[int]bool{}
		for in.stepCount = range int64(c.layers) {
			for layer := range c.layers {
				i := r.sampleOf(layer)
				first, end := i*c.layers/c.samples, (i+1)*c.layers/c.samples
				require.True(t, first <= layer && layer < end, "layer %d is in sample %d", layer, i)
				require.Less(t, r.drawnLayer(i), known)
				seen[r.drawnLayer(i)] = true
			}
		}
		require.Len(t, seen, known)
	}
}

// Weights of new placements move over the fabric, layer by layer, beside the
// steps; the new placement serves from the first step after the last arrival.
func TestRebalancing(t *testing.T) {
	s := routedSetup([]float64{8, 8, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, crowd(16, 1, 40))
	s.experts.Count = 16
	s.decode.experts, s.decode.expertsPerToken = 0, 10*us
	r := s.config.Decode.MoE.Routing
	// A forecast so wrong that there is something to mend.
	r.Placement = experts.PlacementConfig{Strategy: experts.PlaceEPLB, ForecastCV: 2}
	r.Rebalance = &experts.RebalanceConfig{Every: 8, Window: 8}
	s.network.latency, s.network.perByte = 10*us, 1 // a picosecond per byte: 1 us per expert
	o := s.run(t)
	u := o.usage[1].Experts
	require.Positive(t, u.Rebalances)
	require.Positive(t, u.Moves)
	require.Equal(t, u.Moves*1e6, u.MovedBytes)
	require.Less(t, u.SumAfter, u.SumBefore)
	moved := int64(0)
	for _, m := range o.network.sent {
		if m.Class == fabric.ClassEP {
			moved += int64(len(m.Parts))
			for _, p := range m.Parts {
				require.NotEqual(t, p.Src, p.Dst)
				require.EqualValues(t, 1e6, p.Bytes)
				require.GreaterOrEqual(t, int(p.Src), 8, "decode GPUs")
			}
		}
	}
	require.Equal(t, u.Moves, moved)
	span := func(i int) sim.Time { return o.steps[i].End - o.steps[i].Start }
	first, last := 0, len(o.steps)-1
	for o.steps[first].Pool != "decode" || o.steps[first].Requests < 16 {
		first++
	}
	require.Less(t, span(last), span(first), "EPLB pays")
	// Steps do not wait for weights: until they are there, all are as before.
	for i := first; i < first+7; i++ {
		require.Equal(t, span(first), span(i))
	}

	// Weights that never arrive in time are not sent twice.
	s.source, s.network = crowd(16, 1, 40), fakeNetwork{latency: 10 * ms, dispatch: 100 * us, combine: 100 * us}
	o = s.run(t)
	u = o.usage[1].Experts
	require.Positive(t, u.Skipped)
	require.EqualValues(t, 1, u.Rebalances)
}

// Whatever the choices, overlap and sampling, lives and GPU time are tiled, no
// token is lost, and what the network is told conserves tokens: story.check holds
// every run to it.
func TestRoutedProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := routedSetup([]float64{5, 1, 1, 2, 1, 1, 3, 1}, crowd(rapid.IntRange(1, 40).Draw(t, "requests"),
			rapid.IntRange(1, 50).Draw(t, "prompt"), rapid.IntRange(1, 6).Draw(t, "output")))
		s.experts.TopK = rapid.IntRange(1, 3).Draw(t, "top k")
		tp := rapid.SampledFrom([]int{1, 2}).Draw(t, "tp")
		for _, c := range []*PoolConfig{&s.config.Prefill, &s.config.Decode} {
			c.TP, c.DP = tp, 8/tp
			c.Overlap = drawOverlap(t, c == &s.config.Prefill)
			c.OverlapMinTokens = 2
			if c.MoE.Mode = collective.ModeLowLatency; c.Overlap != OverlapSingle {
				c.MoE.Mode = rapid.SampledFrom(collective.Modes).Draw(t, "mode")
			}
			r := c.MoE.Routing
			r.Counts = rapid.SampledFrom(experts.Counts).Draw(t, "counts")
			r.Choice = rapid.SampledFrom(experts.Choices).Draw(t, "choice")
			r.CapacityFactor = rapid.SampledFrom([]float64{0, 1, 2}).Draw(t, "capacity")
			r.SampleLayers = rapid.IntRange(0, 5).Draw(t, "drawn")
			r.Placement = experts.PlacementConfig{Strategy: experts.PlaceEPLB, Redundant: rapid.SampledFrom([]int{0, 8}).Draw(t, "redundant")}
			r.Rebalance = &experts.RebalanceConfig{Every: 2, Window: 2}
		}
		s.config.Decode.MTP.QueryTokens = rapid.IntRange(1, 2).Draw(t, "query")
		s.prefill.expertsPerToken, s.decode.expertsPerToken = us, us
		o := s.run(t)
		for _, r := range o.records {
			require.Equal(t, Finished, r.Outcome)
		}
		for i, u := range o.usage {
			x := u.Experts
			require.Positive(t, x.Draws)
			require.GreaterOrEqual(t, x.MaxBusiest*float64(x.Draws), x.SumBusiest-1e-9)
			require.GreaterOrEqual(t, x.SumBusiest, float64(x.Draws)-1e-9)
			require.Equal(t, u.Volume.Dispatch.Runs, u.Volume.Combine.Runs)
			c := []*PoolConfig{&s.config.Prefill, &s.config.Decode}[i]
			if r := c.MoE.Routing; r.Choice == experts.ChoiceToken && r.CapacityFactor == 0 {
				require.Zero(t, x.Dropped)
			}
		}
	})
}

// steady is a decode instance over four servers on the real fabric with real cost
// models, running, with every request in the batch.
func steady(t testing.TB, change func(*Config), each func(*Step)) (*sim.Engine, fabric.Network) {
	gpu, err := compute.LoadProfile("H800")
	require.NoError(t, err)
	model, err := compute.LoadModel("DeepSeek-V3")
	require.NoError(t, err)
	cfg := DefaultConfig()
	cfg.Prefill.DP, cfg.Prefill.HostGap, cfg.Prefill.MaxBatchTokens = 32, 0, 1<<20
	cfg.Decode.DP = 32
	r := collective.DefaultRouting()
	r.SampleLayers = 4
	r.Popularity = experts.PopularityConfig{Kind: experts.PopularityZipf, Alpha: 0.6}
	cfg.Decode.MoE.Routing = &r
	change(&cfg)
	top := topology.DefaultConfig()
	top.Nodes, top.Leaves, top.Spines = 8, 8, 8
	g, err := topology.LeafSpine(top)
	require.NoError(t, err)
	e := sim.New()
	f := fabric.DefaultConfig()
	network, err := fabric.New(f, e, g, 1)
	require.NoError(t, err)
	rank := func(redundant int) CostModel {
		r, err := compute.NewRank(compute.Setup{GPU: gpu, Model: model, EP: 32, RedundantExperts: redundant})
		require.NoError(t, err)
		return roomy{r}
	}
	var rs []workload.Request
	for range 32 * 64 {
		rs = append(rs, workload.Request{PromptTokens: 1, OutputTokens: 1000})
	}
	redundant := 0
	if x := cfg.Decode.MoE.Routing; x != nil {
		redundant = x.Placement.Redundant
	}
	_, err = New(Options{
		Config: cfg, Engine: e, Network: network, Graph: g, Source: requests(rs...),
		Prefill: rank(0), PrefillOverlap: rank(0), Decode: rank(redundant),
		Experts: collective.Experts{Count: 256, TopK: 8, Groups: 8, GroupLimit: 4, Hidden: model.Hidden},
		Hidden:  model.Hidden, KVPieces: model.Layers, NVLinkRate: top.NVLinkRate, Streams: sim.Streams{Seed: 1},
		Listener: Listener{Step: func(s *Step) {
			if s.Pool == poolDecode && s.Requests == len(rs) {
				each(s)
			}
		}},
	})
	require.NoError(t, err)
	return e, network
}

// meanStep is the mean duration of the first n full decode steps.
func meanStep(t testing.TB, n int, change func(*Config)) (mean sim.Time, steps []Step) {
	e, _ := steady(t, change, func(s *Step) { steps = append(steps, *s) })
	for len(steps) < n && e.Step() {
	}
	for _, s := range steps {
		mean += (s.End - s.Start) / sim.Time(n)
	}
	return mean, steps
}

// Popular experts make steps slower, redundant copies that EPLB places make up for
// most of it, and a seed gives the same steps again.
func TestEPLBShortensSteps(t *testing.T) {
	const n = 6
	balanced, _ := meanStep(t, n, func(c *Config) { c.Decode.MoE.Routing = nil })
	skewed, first := meanStep(t, n, func(*Config) {})
	_, again := meanStep(t, n, func(*Config) {})
	require.Equal(t, first, again)
	eplb, _ := meanStep(t, n, func(c *Config) {
		c.Decode.MoE.Routing.Placement = experts.PlacementConfig{Strategy: experts.PlaceEPLB, Redundant: 32}
	})
	require.Greater(t, skewed, balanced*5/4)
	require.Less(t, eplb, skewed*9/10)
	require.Greater(t, eplb, balanced, "tokens do not choose evenly, even so")
}

// Equal popularity, groups by lot and expected counts are the steps of a pool
// without routing: all GPUs are alike, and get what they would. Durations differ by
// the thousandths of tokens that counts are rounded to.
func TestExpectedIsBalanced(t *testing.T) {
	want, _ := meanStep(t, 2, func(c *Config) { c.Decode.MoE.Routing = nil })
	got, _ := meanStep(t, 2, func(c *Config) {
		r := c.Decode.MoE.Routing
		r.Counts, r.GroupChoice, r.Popularity = experts.CountExpected, experts.GroupRandom, experts.PopularityConfig{Kind: experts.PopularityBalanced}
	})
	require.InEpsilon(t, float64(want), float64(got), 1e-4)
}

// A step in which tokens choose experts allocates nothing.
func TestRoutedStepsDoNotAllocate(t *testing.T) {
	n := 0
	e, network := steady(t, func(*Config) {}, func(*Step) { n++ })
	for n < 4 && e.Step() {
	}
	require.Zero(t, testing.AllocsPerRun(3, func() {
		for at := n; n == at && e.Step(); {
		}
	}))
	x := network.Totals()
	for c := range x.SentBytes {
		require.Equal(t, x.SentBytes[c], x.DeliveredBytes[c]+x.InFlightBytes[c])
	}
}
