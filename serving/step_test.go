package serving

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/sim"
)

// The steps of this file are worked out by hand, as anchors of the second
// account that audits all others.

// Two GPUs of a rank work for as long as one would, and reduce after attention
// and MLP: 20 us and 2 us per token each.
func TestTensorParallelStep(t *testing.T) {
	s := newSetup(requests(at(0, 100, 1)))
	s.config.Prefill.TP, s.config.Decode.TP = 2, 2
	s.prefill.mlp = 30 * us
	o := s.run(t)
	require.Equal(t, Step{
		Pool: "prefill", End: 570 * us, Requests: 1, Tokens: 100, Compute: 130 * us, AllReduce: 440 * us,
	}, o.steps[0])
	require.Equal(t, sim.TotalOf(130*us, 2), o.usage[0].Time.Compute)
	require.Equal(t, sim.TotalOf(440*us, 2), o.usage[0].Time.AllReduce)
	require.Equal(t, 440*us, o.records[0].TTFT[PiecePrefillComm])
	require.Equal(t, 10*ms+44*us, o.steps[1].End-o.steps[1].Start)
}

// In an MoE layer only attention reduces; all ranks wait for the one with most
// tokens, 300 of 400.
func TestTensorParallelMoEStep(t *testing.T) {
	s := moeSetup(requests(at(0, 300, 1), at(0, 100, 1)))
	s.config.Prefill.TP = 2
	o := s.run(t)
	require.Equal(t, 4*620*us, o.steps[0].AllReduce)
	require.Equal(t, 4*(400+200+620)*us+5*us, o.steps[0].End)
	// Rank by rank: in, out, shared; the experts are everyone's.
	require.Equal(t, sim.TotalOf(2*(4*(350+150)+2*5)*us+4*4*50*us, 1), o.usage[0].Time.Compute)
}

// twoBatches is two MoE layers whose steps split, without start-up or stretch.
func twoBatches(source Source) *setup {
	s := moeSetup(source)
	for _, c := range []*PoolConfig{&s.config.Prefill, &s.config.Decode} {
		c.Overlap, c.OverlapMinTokens, c.CommStretch = OverlapTwoBatch, 2, 1
	}
	s.prefill.moe, s.decode.moe = 2, 2
	return s
}

// 100 tokens in halves. Attention 80, shared 20, experts 50, dispatch and
// combine 100 us; compute and communication, by layer:
//
//	attn1 0-80    attn0 80-160  experts1 180-230 experts0 280-330 shared1 330-350
//	              dispatch1 80-180  dispatch0 180-280  combine1 280-380
//	attn1 380-460 shared0 460-480 attn0 480-560 experts1 580-630 experts0 680-730 shared1 730-750
//	combine0 380-480 dispatch1 480-580 dispatch0 580-680 combine1 680-780
//	shared0 750-770, combine0 780-880
func TestTwoBatchPrefillStep(t *testing.T) {
	o := twoBatches(requests(at(0, 100, 1))).run(t)
	require.Equal(t, Step{
		Pool: "prefill", End: 890 * us, Requests: 1, Tokens: 100,
		Compute: 610 * us, Dispatch: 140 * us, Combine: 140 * us,
	}, o.steps[0])
	require.Equal(t, [][]int64{{50, 0}, {50, 0}, {50, 0}, {50, 0}}, o.network.units[:4])
	require.Equal(t, 1, o.usage[0].TwoBatchSteps)
	require.Zero(t, o.usage[1].TwoBatchSteps)
	require.Equal(t, 4*100*us*2/4, o.usage[0].Comm.Latency)

	// The prompt is cut in two, so that its second half has the first as context.
	s := twoBatches(requests(at(0, 100, 1)))
	s.prefill.perContext = sim.Nanosecond
	require.Equal(t, 610*us+2*50*sim.Nanosecond, s.run(t).steps[0].Compute)

	// Steps that split lend SMs, and only those do.
	s = twoBatches(requests(at(0, 100, 1), at(10*ms, 1, 1)))
	slow := s.prefill
	slow.fixed, slow.experts = slow.fixed+us, slow.experts+2*us
	s.overlap = &slow
	for _, st := range s.run(t).steps {
		switch {
		case st.Pool == "prefill" && st.Tokens == 100:
			require.Equal(t, 622*us, st.Compute)
		case st.Pool == "prefill":
			require.Equal(t, 2*(30+1+20+50)*us+5*us, st.Compute)
		}
	}
}

// Two requests on each rank, one in each micro-batch. In 40 and out 11 (10 of
// each to send and receive), shared 20, experts 50, dispatch and combine 100 us:
//
//	in0 0-40    out0 40-51 in1 51-91 shared0 91-111 experts0 151-201 out1 201-212
//	            dispatch0 51-151 combine0 201-301
//	in0 301-341 shared1 341-361 experts1 401-451 out0 451-462 in1 551-591 shared0 591-611 experts0 651-701 out1 701-712
//	dispatch1 301-401 combine1 451-551 dispatch0 551-651 combine0 701-801
//	shared1 712-732 dispatch1 801-901 experts1 901-951 combine1 951-1051
func TestTwoBatchDecodeStep(t *testing.T) {
	s := twoBatches(requests(at(0, 5, 1), at(0, 5, 1), at(0, 5, 1), at(0, 5, 1)))
	s.config.Prefill.Overlap = OverlapNone
	s.config.Decode.SendRecv = 10 * us
	o := s.run(t)
	st := o.steps[len(o.steps)-1]
	require.Equal(t, 4, st.Requests)
	require.Equal(t, 1061*us, st.End-st.Start)
	require.Equal(t, 4*(40+11+20+50)*us+10*us, st.Compute)
	require.Equal(t, sim.TotalOf(st.Compute, 2), o.usage[1].Time.Compute, "two equal ranks")
	require.Equal(t, 1, o.usage[1].TwoBatchSteps)
}

// Two requests on each rank. In 30, out 2, shared 20, experts 60 and dispatch
// 100 us; a combine 100 us for each half, of which 25 are latency, and 40 to start.
// The bytes of the second half follow those of the first, from 297 us on:
//
//	in 0-30 out 30-32 shared 32-52 experts 132-182 182-192
//	        dispatch 32-132        combine 182-297 297-397
func TestSingleBatchStep(t *testing.T) {
	s := moeSetup(requests(at(0, 5, 1), at(0, 5, 1), at(0, 5, 1), at(0, 5, 1)))
	s.decode.moe, s.decode.experts = 2, 60*us
	s.config.Decode.Overlap, s.config.Decode.MoE.CombineStartup = OverlapSingle, 40*us
	o := s.run(t)
	st := o.steps[len(o.steps)-1]
	require.Equal(t, 4, st.Requests)
	require.Equal(t, 2*397*us+5*us, st.End-st.Start)
	require.Equal(t, 2*(30+2+20+60)*us+5*us, st.Compute)
	require.Equal(t, [][]int64{{2, 2}, {1, 1}, {1, 1}}, o.network.units[len(o.network.units)-3:])
	v := o.usage[1].Volume
	require.Equal(t, v.Dispatch.Runs, v.Combine.Runs, "halves are one combine")
	require.Equal(t, sim.Time(v.Combine.Runs)*215*us, v.Combine.Time)
	require.Equal(t, sim.Time(v.Combine.Runs)*40*us, o.usage[1].Comm.Startup)
	require.Equal(t, sim.Time(v.Combine.Runs)*(25+25)*us, o.usage[1].Comm.Latency, "of a dispatch and a combine")
}

// A step splits from overlap_min_tokens of its busiest rank on, and never one
// request by itself.
func TestOverlapThreshold(t *testing.T) {
	split := func(least, prompt int) bool {
		s := twoBatches(requests(at(0, prompt, 1)))
		s.config.Prefill.OverlapMinTokens = least
		return s.run(t).usage[0].TwoBatchSteps == 1
	}
	require.False(t, split(10, 9))
	require.True(t, split(10, 10))
	require.True(t, split(0, 2))
	require.False(t, split(0, 1))
}

// Of one dispatch (4 us to start, 100 us ideal, 7 us for paths, 11 us for
// others' traffic) only what the SMs work at is stretched by half: 104 us.
func TestStretchSparesTheFabric(t *testing.T) {
	length := func(stretch float64) sim.Time {
		s := twoBatches(requests(at(0, 100, 1)))
		s.prefill = fakeCost{moe: 1, head: us, kvTokens: 1 << 20, kvBytes: 1}
		s.config.Prefill.CommStretch = stretch
		s.config.Prefill.MoE.DispatchStartup, s.config.Prefill.MoE.CombineStartup = 4*us, 4*us
		s.network.paths, s.network.contention = 7*us, 11*us
		o := s.run(t)
		require.Equal(t, CommTime{
			Startup: 16 * us, Latency: 100 * us, Ports: 300 * us, Paths: 28 * us, Contention: 44 * us,
		}, o.usage[0].Comm)
		return o.steps[0].End
	}
	require.Equal(t, 4*122*us+2*us, length(1))
	require.Equal(t, 4*(122+52)*us+2*us, length(1.5))
}

// What runs alone is not stretched, whatever the setting.
func TestNoStretchWithoutOverlap(t *testing.T) {
	s := moeSetup(requests(at(0, 100, 1)))
	s.config.Prefill.CommStretch = 3
	require.Equal(t, 4*100*us, s.run(t).steps[0].Dispatch)
}

// The busiest experts set the pace, 1.5 times the mean; the GPUs together
// compute the mean, and the rest is the barrier.
func TestImbalanceIsBarrier(t *testing.T) {
	s := moeSetup(requests(at(0, 100, 1), at(0, 100, 1)))
	s.config.Prefill.MoE.Imbalance = 1.5
	s.prefill.expertsPerToken = us // of 200
	o := s.run(t)
	require.Equal(t, 4*(150+375)*us+5*us, o.steps[0].Compute)
	require.Equal(t, sim.TotalOf(4*(150+250)*us+5*us, 2), o.usage[0].Time.Compute)
	require.Equal(t, sim.TotalOf(4*125*us, 2), o.usage[0].Time.Barrier)
}

// The rank that takes longest over the whole step is everyone's pace in every
// part of it: the first has more tokens, the second more context.
func TestSlowestRankOverTheWholeStep(t *testing.T) {
	s := moeSetup(requests(at(0, 40, 1), at(0, 90, 1)))
	s.config.Prefill.MaxBatchTokens = 50
	s.prefill.perContext, s.prefill.sharedPerToken, s.prefill.moe = 2*us, us, 1
	o := s.run(t)
	// Second step: the second prompt's last 40 tokens over 50 of context.
	require.Equal(t, []int{90, 40}, []int{o.steps[0].Tokens, o.steps[1].Tokens})
	require.Equal(t, (30+50+70+50+5)*us, o.steps[0].Compute)
	require.Equal(t, (30+40+100+60+50+5)*us, o.steps[1].Compute)

	// First: 40 tokens alone, then 10 tokens behind 40 of context beside 50 new.
	s = moeSetup(requests(at(0, 60, 1), at(us, 50, 1)))
	s.config.Prefill.MaxBatchTokens = 50
	s.prefill.perContext, s.prefill.sharedPerToken, s.prefill.moe = 2*us, us, 1
	o = s.run(t)
	require.Equal(t, 60, o.steps[1].Tokens)
	// Out 10 + 100 and shared 30, against out 50 and shared 70: 140 beats 120,
	// and its 30 of shared expert are what the step has.
	require.Equal(t, (30+110+30+50+5)*us, o.steps[1].Compute)
}

// A decode step reads prompts, tokens so far and the one given: 11 and 21
// tokens at first, of which the rank with 21 sets the pace.
func TestDecodeReadsItsContext(t *testing.T) {
	s := moeSetup(requests(at(0, 10, 3), at(0, 20, 2)))
	s.decode.perKV = us
	o := s.run(t)
	compute := func(kv int) sim.Time { return 4*sim.Time(30+1+kv+20+50)*us + 5*us }
	require.Equal(t, compute(21), o.steps[1].Compute)
	require.Equal(t, compute(22), o.steps[2].Compute)
	require.Equal(t, compute(13), o.steps[3].Compute)
	// The first rank waits for the second twice, for 10 tokens in each layer; then
	// the second has nothing but its experts to compute.
	require.Equal(t, sim.TotalOf(2*4*10*us+4*(30+1+13+20)*us+5*us, 1), o.usage[1].Time.Barrier)
}

// One decode step in halves of unequal context: three requests of 30 tokens and
// the one they get, two in the first micro-batch.
func TestTwoBatchDecodeSharesTheKV(t *testing.T) {
	s := twoBatches(requests(at(0, 29, 1), at(0, 29, 1), at(0, 29, 1)))
	s.config.Prefill.DP, s.config.Prefill.TP = 1, 2
	s.config.Decode.DP, s.config.Decode.TP = 1, 2
	s.config.Decode.AllReduceStartup = 0
	s.decode = fakeCost{moe: 1, perKV: us, head: us, kvTokens: 1 << 20, kvBytes: 1}
	s.network.dispatch, s.network.combine, s.network.perUnit = 1000*us, 1500*us, 100*us
	o := s.run(t)
	st := o.steps[len(o.steps)-1]
	// out0 64 (60 and the reduce of two), dispatch0 to 1264, out1 32 beside
	// combine0 to 2964, dispatch1 to 4064, combine1 to 5664.
	require.Equal(t, 90*us+2*us, st.Compute)
	require.Equal(t, (2+1)*2*us, st.AllReduce)
	require.Equal(t, (5664+2)*us, st.End-st.Start)
	require.Equal(t, [][]int64{{2}, {2}, {1}, {1}}, o.network.units[len(o.network.units)-4:])
}

// Blocks of 16 tokens and six pieces each, as of three layers of keys and
// values: 33 tokens are 18 descriptors.
func TestTransferPostsEveryPiece(t *testing.T) {
	s := newSetup(requests(at(0, 33, 2)))
	s.config.KV.BlockTokens, s.config.KV.PostPerDescriptor, s.config.KV.QPs = 16, us, 5
	s.kvPieces = 6
	s.decode.kvTokens = 63
	o := s.run(t)
	require.Equal(t, 28*us, o.records[0].TTFT[PieceTransferPost])
	require.Equal(t, 28*us, o.network.sent[0].Post)
	require.Equal(t, 5, o.network.sent[0].QPs)
	require.Equal(t, 3, o.usage[0].PeakKVBlocks)
	require.Equal(t, 3, o.usage[1].PeakKVBlocks)
	require.Equal(t, 3, o.usage[1].KVBlocks, "48 of 63 tokens")
}

// The host's gap between decode steps belongs to the requests that run and to
// the one that waits; between the GPUs' steps it is the host's.
func TestHostGap(t *testing.T) {
	s := newSetup(requests(at(0, 100, 3), at(12*ms, 100, 1)))
	s.config.Decode.HostGap = 300 * us
	o := s.run(t)
	// Steps at 1.11-11.11, 11.41-21.41 and 21.71-31.71; the second's KV is there
	// at 13.11.
	first, second := o.records[0], o.records[1]
	require.Equal(t, 0, first.ID)
	require.Equal(t, 31710*us, first.Finish)
	require.Equal(t, Pieces{PieceDecodeCompute: 20 * ms, PieceDecodeHost: 600 * us}, first.Decode)
	require.Equal(t, 21710*us-13110*us, second.TTFT[PieceDecodeWait])
	require.Equal(t, map[sim.Time]int{10300 * us: 2}, o.gaps)
	require.Equal(t, sim.TotalOf(600*us, 1), o.usage[1].Time.Host)
	require.Equal(t, sim.TotalOf(1010*us, 1), o.usage[1].Time.WaitingKV)
	require.Equal(t, sim.TotalOf(100*us, 1), o.usage[1].Time.Idle)
}

// A run stopped in each phase of an MoE step: 140 us of dense layer, 150 us of
// attention and shared expert, dispatch, 50 us of experts, combine, 5 us of head,
// and the host's gap of 10 us.
func TestStoppedInEachPhase(t *testing.T) {
	for _, c := range []struct{ until, compute, barrier, dispatch, combine, host sim.Time }{
		{70 * us, 140 * us, 0, 0, 0, 0},
		{200 * us, 400 * us, 0, 0, 0, 0},
		{340 * us, 580 * us, 0, 100 * us, 0, 0},
		{410 * us, 620 * us, 0, 200 * us, 0, 0},
		{500 * us, 680 * us, 0, 200 * us, 120 * us, 0},
		{542 * us, 684 * us, 0, 200 * us, 200 * us, 0},
		{550 * us, 395 * us, 295 * us, 200 * us, 200 * us, 10 * us},
	} {
		s := moeSetup(requests(at(0, 100, 1), at(us, 100, 1), at(2*us, 100, 1)))
		s.config.Prefill.Router = RouterRoundRobin
		s.config.Prefill.HostGap = 10 * us
		s.prefill.dense, s.prefill.moe, s.prefill.mlp = 1, 1, 10*us
		s.decode.dense, s.decode.moe = 1, 1
		s.until = c.until
		o := s.run(t)
		require.Equal(t, c.until, o.end)
		got := o.usage[0].Time
		require.Equal(t, GPUTime{
			Compute: sim.TotalOf(c.compute, 1), Barrier: sim.TotalOf(c.barrier, 1),
			Dispatch: sim.TotalOf(c.dispatch, 1), Combine: sim.TotalOf(c.combine, 1), Host: sim.TotalOf(c.host, 1),
		}, got, "until %v", c.until)
	}
}

// Two decode instances of two ranks: the least-loaded router fills all four
// before any twice, and each steps by itself.
func TestDecodeInstances(t *testing.T) {
	s := moeSetup(requests(at(0, 10, 2), at(0, 10, 2), at(0, 10, 2), at(0, 10, 2), at(0, 10, 9)))
	s.config.Prefill.DP, s.config.Decode.Instances = 1, 2
	o := s.run(t)
	ranks := make([]int, 5)
	for _, r := range o.records {
		ranks[r.ID] = r.DecodeRank
	}
	require.Equal(t, []int{0, 2, 1, 3, 0}, ranks)
	steps := [2]int{}
	for _, st := range o.steps {
		if st.Pool == "decode" {
			steps[st.Instance]++
		}
	}
	require.Equal(t, [2]int{9, 2}, steps)
	require.Equal(t, "decode1 combine 1", o.network.specs[len(o.network.specs)-1].Name)
}

// Each pool's collectives follow its own settings and lie on its own GPUs.
func TestCollectivesOfEachPool(t *testing.T) {
	s := moeSetup(requests(at(0, 10, 1)))
	s.config.Prefill.MoE.QPs, s.config.Decode.MoE.QPs = 3, 5
	o := s.run(t)
	require.Len(t, o.network.specs, 8)
	for i, spec := range o.network.specs {
		pool := [2]string{"prefill0", "decode0"}[i/4]
		require.Equal(t, fmt.Sprintf("%s %s %d", pool, [2]string{"dispatch", "combine"}[i%2], i/2%2), spec.Name)
		require.Equal(t, [2]int{3, 5}[i/4], spec.QPs)
		require.Equal(t, 2, spec.Ranks)
		for _, x := range spec.Shares {
			require.Equal(t, [2]int{i / 4, i / 4}, [2]int{int(x.Src) / 2, int(x.Dst) / 2})
		}
	}
}

// A batch has at most max_batch_requests prompts, whatever the token budget.
func TestPrefillBatchLimit(t *testing.T) {
	s := newSetup(requests(at(0, 10, 1), at(0, 10, 1), at(0, 10, 1), at(0, 10, 1), at(0, 10, 1)))
	s.config.Prefill.MaxBatchRequests = 2
	o := s.run(t)
	var got []int
	for _, st := range o.steps {
		if st.Pool == "prefill" {
			got = append(got, st.Requests)
		}
	}
	require.Equal(t, []int{2, 2, 1}, got)
}
