package serving

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/collective"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/workload"
)

const (
	us = sim.Microsecond
	ms = sim.Millisecond
)

func at(t sim.Time, prompt, output int) workload.Request {
	return workload.Request{Arrival: t, PromptTokens: prompt, OutputTokens: output}
}

// One request alone: prefill 100 us (100 tokens at 1 us), post 10 us, wire 1 ms,
// then three decode steps of 10 ms.
func TestOneRequestAlone(t *testing.T) {
	o := newSetup(requests(at(5*ms, 100, 3))).run(t)
	r := o.records[0]
	require.Equal(t, Finished, r.Outcome)
	require.Equal(t, 5*ms, r.PrefillStart)
	require.Equal(t, 5*ms+100*us, r.PrefillEnd)
	require.Equal(t, 6*ms+110*us, r.TransferEnd)
	require.Equal(t, 16*ms+110*us, r.FirstToken)
	require.Equal(t, 36*ms+110*us, r.Finish)
	require.Equal(t, Pieces{
		PiecePrefillCompute: 100 * us, PieceTransferPost: 10 * us, PieceTransferWire: ms, PieceDecodeCompute: 10 * ms,
	}, r.TTFT)
	require.Equal(t, Pieces{PieceDecodeCompute: 20 * ms}, r.Decode)
	require.EqualValues(t, 800, r.KVBytes)
	require.Equal(t, map[sim.Time]int{10 * ms: 2}, o.gaps)
}

// Two prompts together: the second waits for nothing when the budget holds
// both, and for the whole first step when it does not.
func TestPrefillTokenBudget(t *testing.T) {
	s := newSetup(requests(at(0, 100, 1), at(0, 100, 1)))
	s.config.Prefill.MaxBatchTokens = 200
	o := s.run(t)
	require.Equal(t, 200*us, o.records[0].PrefillEnd)
	require.Equal(t, 200*us, o.records[1].PrefillEnd)

	s = newSetup(requests(at(0, 100, 1), at(0, 100, 1)))
	s.config.Prefill.MaxBatchTokens = 100
	o = s.run(t)
	require.Equal(t, 100*us, o.records[0].PrefillEnd)
	require.Equal(t, 200*us, o.records[1].PrefillEnd)
	require.Equal(t, 100*us, o.records[1].TTFT[PieceQueue])
}

// A prompt over the budget is cut into chunks, and the rest of the last step's
// budget goes to the next prompt.
func TestChunkedPrefill(t *testing.T) {
	s := newSetup(requests(at(0, 250, 1), at(0, 50, 1)))
	s.config.Prefill.MaxBatchTokens = 100
	s.config.Prefill.HostGap = 7 * us
	o := s.run(t)
	require.Equal(t, 300*us+14*us, o.records[0].PrefillEnd)
	require.Equal(t, 300*us+14*us, o.records[1].PrefillEnd)
	require.Equal(t, 14*us, o.records[0].TTFT[PieceQueue], "the host gaps between its chunks")
	prefill := o.steps[:3]
	require.Equal(t, []int{100, 100, 100}, []int{prefill[0].Tokens, prefill[1].Tokens, prefill[2].Tokens})
	require.Equal(t, []int{1, 1, 2}, []int{prefill[0].Requests, prefill[1].Requests, prefill[2].Requests})
}

// Work that comes at the very instant at which a step ends waits for the host's
// gap, whichever of the two events was scheduled first: an arrival that is known
// before the step begins, or one that an arrival in the middle of it brings.
func TestWorkAtTheEndOfAStep(t *testing.T) {
	for _, between := range []bool{false, true} {
		list := requests(at(0, 90, 1), at(100*us, 50, 1))
		if between {
			list = requests(at(0, 90, 1), at(95*us, 1000, 1), at(100*us, 50, 1))
		}
		s := newSetup(list)
		s.prefill.kvTokens = 500 // the one between is refused
		s.prefill.head = 10 * us // from 90 us to the end at 100 us
		s.config.Prefill.HostGap = 7 * us
		o := s.run(t)
		last := o.records[len(o.records)-1] // the last to finish
		require.Equal(t, 107*us, last.PrefillStart)
		require.Equal(t, 7*us, last.TTFT[PieceQueue])
		require.Equal(t, sim.TotalOf(7*us, 1), o.usage[0].Time.Host)
	}
}

// Continuous batching: a request that arrives during a step joins the next one.
func TestContinuousBatching(t *testing.T) {
	o := newSetup(requests(at(0, 100, 3), at(2*ms, 100, 1))).run(t)
	// First: steps from 1.11 ms. Second: KV there at 3.11 ms, step at 11.11 ms.
	second := o.records[0]
	require.Equal(t, 1, second.ID)
	require.Equal(t, 8*ms, second.TTFT[PieceDecodeWait])
	require.Equal(t, 21*ms+110*us, second.Finish)
	require.Equal(t, 31*ms+110*us, o.records[1].Finish)
}

// The batch limit makes ready requests wait for a place.
func TestDecodeBatchLimit(t *testing.T) {
	s := newSetup(requests(at(0, 10, 2), at(0, 10, 2)))
	s.config.Decode.MaxBatchRequests = 1
	o := s.run(t)
	require.Equal(t, 20*ms, o.records[1].TTFT[PieceDecodeWait])
}

// Decode memory for one request only: the second's transfer begins when the
// first has finished.
func TestDecodeMemoryAdmission(t *testing.T) {
	s := newSetup(requests(at(0, 100, 2), at(0, 100, 2)))
	s.decode.kvTokens = 150
	o := s.run(t)
	first, second := o.records[0], o.records[1]
	require.Equal(t, first.Finish-second.PrefillEnd, second.TTFT[PieceDecodeMemory])
	require.Equal(t, first.Finish+10*us+ms, second.TransferEnd)
	require.Equal(t, 102, o.usage[1].PeakKVBlocks)
}

// Back-pressure: with prefill memory for one prompt, the second prompt waits
// until the first's KV has been sent, and the prefill GPU's idleness is blamed
// on it.
func TestPrefillBackPressure(t *testing.T) {
	s := newSetup(requests(at(0, 100, 1), at(0, 100, 1)))
	s.prefill.kvTokens = 150
	s.config.Prefill.MaxBatchTokens = 100
	o := s.run(t)
	sent := 100*us + 10*us + ms
	require.Equal(t, sent, o.records[1].PrefillStart)
	require.Equal(t, sim.TotalOf(sent-100*us, 1), o.usage[0].Time.WaitingKV)
}

// What can never fit is rejected at the door, with the reason, and harms no one.
func TestTooLargeIsRejected(t *testing.T) {
	s := newSetup(requests(at(0, 100, 51), at(0, 100, 50), at(0, 201, 1)))
	s.decode.kvTokens, s.prefill.kvTokens = 150, 200
	o := s.run(t)
	require.Equal(t, Rejected, o.records[0].Outcome)
	require.Equal(t, "prompt and output exceed the 150 KV blocks of a decode rank", o.records[0].Reason)
	require.Equal(t, "the prompt exceeds the 200 KV blocks of a prefill rank", o.records[1].Reason)
	require.Equal(t, Finished, o.records[2].Outcome)
}

func TestRouters(t *testing.T) {
	ranks := func(router string) (got []int) {
		s := newSetup(requests(at(0, 300, 1), at(0, 100, 1), at(0, 100, 1), at(0, 100, 1)))
		s.config.Prefill.Instances, s.config.Prefill.Router = 2, router
		o := s.run(t)
		got = make([]int, 4)
		for _, r := range o.records {
			got[r.ID] = r.PrefillRank
		}
		return got
	}
	require.Equal(t, []int{0, 1, 0, 1}, ranks(RouterRoundRobin))
	require.Equal(t, []int{0, 1, 1, 1}, ranks(RouterLeastLoaded))
}

// The ranks of one instance are ranks to a router, too.
func TestRoutersInsideAnInstance(t *testing.T) {
	ranks := func(router string) (got []int) {
		s := moeSetup(requests(at(0, 300, 1), at(0, 100, 1), at(0, 100, 1), at(0, 100, 1)))
		s.config.Prefill.Router = router
		got = make([]int, 4)
		for _, r := range s.run(t).records {
			got[r.ID] = r.PrefillRank
		}
		return got
	}
	require.Equal(t, []int{0, 1, 0, 1}, ranks(RouterRoundRobin))
	require.Equal(t, []int{0, 1, 1, 1}, ranks(RouterLeastLoaded))
}

// A prefill rank's load is prompt tokens, a decode rank's KV blocks of prompt and
// output: of blocks of 16, 32 and 17 tokens fill two each.
func TestLoads(t *testing.T) {
	s := newSetup(requests(at(0, 31, 1), at(0, 16, 1), at(0, 5, 1)))
	s.config.KV.BlockTokens = 16
	s.config.Prefill.Instances, s.config.Decode.Instances = 2, 2
	s.prefill.perToken, s.prefill.fixed = 0, ms // all are done at once, the first rank's first
	s.config.Prefill.MaxBatchRequests = 3
	prefill, decode := [3]int{}, [3]int{}
	for _, r := range s.run(t).records {
		prefill[r.ID], decode[r.ID] = r.PrefillRank, r.DecodeRank
	}
	require.Equal(t, [3]int{0, 1, 1}, prefill)
	require.Equal(t, [3]int{0, 1, 0}, decode)
}

// A DP instance steps as one: the rank with less to do waits at the barrier, for
// 200 us in each of 4 layers.
func TestBarrier(t *testing.T) {
	o := moeSetup(requests(at(0, 300, 1), at(0, 100, 1))).run(t)
	require.Equal(t, o.records[0].PrefillEnd, o.records[1].PrefillEnd)
	require.Equal(t, 4*600*us+5*us, o.steps[0].End)
	prefill := o.usage[0].Time
	require.Equal(t, sim.TotalOf(4*(350+150+2*50)*us+2*5*us, 1), prefill.Compute)
	require.Equal(t, sim.TotalOf(4*200*us, 1), prefill.Barrier)
	require.Equal(t, sim.TotalOf(4*100*us, 2), prefill.Dispatch)
}

// Ranks of a dense model share nothing, so they are instances.
func TestDenseRanksAreRefused(t *testing.T) {
	s := newSetup(requests())
	s.config.Prefill.DP = 2
	_, _, err := s.try(t, Listener{})
	require.ErrorContains(t, err, "prefill.dp: 2 attention ranks share experts, of which a dense model has none; use instances: 2")
}

// The least-loaded router prefers an idle instance to an empty rank of a busy
// one, and goes round among equals.
func TestLeastLoadedSpreadsOverInstances(t *testing.T) {
	s := moeSetup(requests(at(0, 100, 1), at(us, 100, 1), at(2*us, 100, 1), at(3*us, 100, 1), at(ms*100, 5, 1), at(ms*200, 5, 1)))
	s.config.Prefill.Instances, s.servers = 2, 1
	o := s.run(t)
	ranks := make([]int, 6)
	for _, r := range o.records {
		ranks[r.ID] = r.PrefillRank
	}
	require.Equal(t, []int{0, 2, 1, 3, 0, 2}, ranks)
}

// TP8 to TP2 and TP2 to TP8: every receiving GPU gets its share once.
func TestTransferMessages(t *testing.T) {
	type pair struct{ src, dst, bytes int }
	send := func(prefillTP, decodeTP int) (got []pair) {
		s := newSetup(requests(at(0, 10, 1)))
		s.servers = 2
		s.config.Prefill.TP, s.config.Decode.TP = prefillTP, decodeTP
		if prefillTP < 8 { // start the decode pool on the second server
			s.config.Prefill.Instances = 8 / prefillTP
		}
		o := s.run(t)
		require.Len(t, o.network.sent, 1)
		for _, p := range o.network.sent[0].Parts {
			got = append(got, pair{int(p.Src), int(p.Dst), int(p.Bytes)})
		}
		return got
	}
	require.Equal(t, []pair{
		{0, 8, 20}, {1, 8, 20}, {2, 8, 20}, {3, 8, 20}, {4, 9, 20}, {5, 9, 20}, {6, 9, 20}, {7, 9, 20},
	}, send(8, 2))
	require.Equal(t, []pair{
		{0, 8, 80}, {0, 9, 80}, {0, 10, 80}, {0, 11, 80}, {1, 12, 80}, {1, 13, 80}, {1, 14, 80}, {1, 15, 80},
	}, send(2, 8))
}

// A run stopped in the middle reports what was unfinished and still accounts
// for every GPU's time.
func TestStoppedEarly(t *testing.T) {
	for until := sim.Time(0); until < 25*ms; until += 777 * us {
		s := newSetup(requests(at(0, 100, 3), at(500*us, 100, 3), at(20*ms, 10, 1)))
		s.until = until
		o := s.run(t)
		arrived, finished, rejected := o.cluster.Progress()
		require.Equal(t, arrived, len(o.records))
		n := 0
		for _, r := range o.records {
			if r.Outcome == Finished {
				n++
			}
		}
		require.Equal(t, finished, n)
		require.Zero(t, rejected)
	}
}

// moeSetup is an MoE model of 4 layers on 2-GPU instances.
func moeSetup(source Source) *setup {
	s := newSetup(source)
	s.experts = collective.Experts{Count: 8, TopK: 2, Hidden: 1024}
	s.config.Prefill.DP, s.config.Decode.DP = 2, 2
	for _, c := range []*fakeCost{&s.prefill, &s.decode} {
		*c = fakeCost{
			moe: 4, fixed: 30 * us, perToken: us, shared: 20 * us, experts: 50 * us, head: 5 * us,
			kvTokens: 1 << 30, kvBytes: 8,
		}
	}
	s.config.Prefill.MoE.DispatchStartup, s.config.Prefill.MoE.CombineStartup = 0, 0
	s.config.Decode.MoE.DispatchStartup, s.config.Decode.MoE.CombineStartup = 0, 0
	s.config.Decode.SendRecv = 0
	return s
}

// Every MoE layer dispatches and combines, in both pools; what nothing hides is
// exposed, and the shared expert hides its own length.
func TestMoELayers(t *testing.T) {
	s := moeSetup(requests(at(0, 100, 2)))
	o := s.run(t)
	require.Equal(t, (4+4)*(1+2), o.network.runs)
	// Sequential: in 30, out 100, shared 20, dispatch 100, experts 50, combine 100.
	require.Equal(t, Step{
		Pool: "prefill", End: 4*400*us + 5*us, Requests: 1, Tokens: 100,
		Compute: 4*200*us + 5*us, Dispatch: 4 * 100 * us, Combine: 4 * 100 * us,
	}, o.steps[0])

	s = moeSetup(requests(at(0, 100, 2)))
	s.config.Prefill.Overlap = OverlapShared
	o = s.run(t)
	require.Equal(t, 4*80*us, o.steps[0].Dispatch)
	require.Equal(t, 4*380*us+5*us, o.steps[0].End)
}

// One GPU holds all experts: no traffic, no exposed communication.
func TestMoEOnOneGPU(t *testing.T) {
	s := moeSetup(requests(at(0, 100, 2)))
	s.config.Prefill.DP, s.config.Decode.DP = 1, 1
	o := s.run(t)
	require.Zero(t, o.network.runs)
	require.Equal(t, 4*200*us+5*us, o.steps[0].End)
}

// Units reach the network when the batch changes, and only then.
func TestUnitsFollowTheBatch(t *testing.T) {
	s := moeSetup(requests(at(0, 100, 3), at(0, 40, 5)))
	o := s.run(t)
	var decode [][]int64
	for i := 0; i < len(o.network.units); i += 2 { // dispatch and combine get the same
		require.Equal(t, o.network.units[i], o.network.units[i+1])
		decode = append(decode, o.network.units[i])
	}
	require.Equal(t, [][]int64{{100, 40}, {1, 1}, {0, 1}}, decode)
}

// The state of a finished request is used again.
func TestSlotsAreRecycled(t *testing.T) {
	o := newSetup(requests(at(0, 10, 1), at(sim.Second, 10, 1), at(2*sim.Second, 10, 1), at(2*sim.Second, 10, 1))).run(t)
	require.Len(t, o.cluster.live, 2, "never more than two at once")
}
