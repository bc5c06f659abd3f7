package serving

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// check holds a story to what must be true of all: lives and GPU time are tiled
// exactly, and what ran to its end is audited, step by step, against a second
// account that is drawn up from what the listener heard.
func (o *story) check(t require.TestingT, s *setup) {
	seen := map[int]bool{}
	for i := range o.records {
		r := &o.records[i]
		require.False(t, seen[r.ID], "request %d is reported twice", r.ID)
		seen[r.ID] = true
		if r.Outcome != Finished {
			continue
		}
		require.Equal(t, r.FirstToken-r.Arrival, r.TTFT.Sum(), "TTFT of request %d", r.ID)
		require.Equal(t, r.Finish-r.FirstToken, r.Decode.Sum(), "decoding of request %d", r.ID)
		for p := range NumPieces {
			require.GreaterOrEqual(t, r.TTFT[p], sim.Time(0), "%v of request %d", p, r.ID)
			require.GreaterOrEqual(t, r.Decode[p], sim.Time(0), "%v of request %d", p, r.ID)
		}
	}
	for _, x := range o.transfers {
		require.Equal(t, x.Arrived-x.Posted, x.Post+x.Wire+x.Queue)
	}
	for _, st := range o.steps {
		require.Equal(t, st.End-st.Start, st.Compute+st.Dispatch+st.Combine+st.AllReduce, "%+v", st)
	}
	for _, u := range o.usage {
		require.Equal(t, sim.TotalOf(o.end, u.GPUs), u.Time.Sum(), "%s: %+v", u.Pool, u.Time)
	}
	if s.until != sim.Never {
		return
	}
	for _, p := range []*pool{o.cluster.prefill, o.cluster.decode} {
		for _, r := range p.ranks {
			require.Zero(t, r.blocks.used, "%s rank %d leaks KV blocks", p.name, r.number)
			require.Zero(t, r.load, "%s rank %d leaks load", p.name, r.number)
			require.Zero(t, r.kvTokens)
			require.Zero(t, r.inbound)
		}
	}
	o.checkAdmission(t, s)
	o.checkTransfers(t, s)
	for i, prefill := range []bool{true, false} {
		newAudit(t, s, o, prefill).pool(&o.usage[i])
	}
}

// checkAdmission: exactly those that can never fit are refused; the others get
// all their tokens.
func (o *story) checkAdmission(t require.TestingT, s *setup) {
	later := 0
	for i := range o.records {
		r := &o.records[i]
		fits := blocksOf(s, r.PromptTokens) <= int(s.prefill.kvTokens)/s.config.KV.BlockTokens &&
			blocksOf(s, r.PromptTokens+r.OutputTokens) <= int(s.decode.kvTokens)/s.config.KV.BlockTokens
		require.Equal(t, map[bool]Outcome{true: Finished, false: Rejected}[fits], r.Outcome, "request %d", r.ID)
		if fits {
			later += r.OutputTokens - 1
		}
	}
	if s.config.Prefill.Router == RouterRoundRobin {
		turn := 0
		byID := o.byID()
		for id := range len(o.records) {
			if r := byID[id]; r.Outcome == Finished {
				require.Equal(t, turn, r.PrefillRank, "request %d", id)
				turn = (turn + 1) % (s.config.Prefill.Instances * s.config.Prefill.DP)
			}
		}
	}
	for gap, n := range o.gaps {
		require.Positive(t, gap)
		later -= n
	}
	for _, n := range o.extras {
		later -= n
	}
	require.Zero(t, later, "tokens after the first, announced as gaps and extras")
}

// blocksOf counts the KV blocks of n tokens one by one.
func blocksOf(s *setup, n int) (blocks int) {
	for ; n > 0; n -= s.config.KV.BlockTokens {
		blocks++
	}
	return blocks
}

// checkTransfers: every receiving GPU gets its KV once, in the announced number
// of parts, at the price of its descriptors.
func (o *story) checkTransfers(t require.TestingT, s *setup) {
	cfg := &s.config
	byID := o.byID()
	for _, x := range o.transfers {
		r := byID[x.Request]
		bytes := int64(s.decode.kvBytes) * int64(r.PromptTokens) * int64(cfg.Decode.TP)
		require.EqualValues(t, bytes, x.Bytes)
		require.EqualValues(t, bytes, r.KVBytes)
		require.Equal(t, r.TransferEnd, x.Arrived)
		require.Equal(t, [2]int{r.PrefillRank, r.DecodeRank}, [2]int{x.PrefillRank, x.DecodeRank})
		pieces := sim.Time(blocksOf(s, r.PromptTokens) * s.kvPieces)
		require.Equal(t, cfg.KV.PostPerMessage+pieces*cfg.KV.PostPerDescriptor, x.Post)
		require.Equal(t, s.network.latency-s.network.queue+s.network.perByte*sim.Time(bytes), x.Wire)
		require.Equal(t, s.network.queue, x.Queue)
		require.Equal(t, max(cfg.Prefill.TP, cfg.Decode.TP), x.Messages)
	}
	for _, m := range o.network.sent {
		require.Equal(t, fabric.ClassKV, m.Class)
		require.Equal(t, cfg.KV.QPs, m.QPs)
		require.Len(t, m.Parts, max(cfg.Prefill.TP, cfg.Decode.TP))
		got := map[topology.GPU]int64{}
		from := map[topology.GPU]int{}
		for _, p := range m.Parts {
			got[p.Dst] += int64(p.Bytes)
			from[p.Src]++
			require.Equal(t, int(m.Parts[0].Src)/cfg.Prefill.TP, int(p.Src)/cfg.Prefill.TP, "one prefill rank")
			first := int(p.Dst) - cfg.Prefill.GPUs()
			require.Equal(t, (int(m.Parts[0].Dst)-cfg.Prefill.GPUs())/cfg.Decode.TP, first/cfg.Decode.TP, "one decode rank")
		}
		require.Len(t, got, cfg.Decode.TP)
		require.Len(t, from, cfg.Prefill.TP, "every sender has a part")
		for _, bytes := range got {
			require.Equal(t, got[m.Parts[0].Dst], bytes)
		}
	}
}

func (o *story) byID() map[int]*Record {
	m := map[int]*Record{}
	for i := range o.records {
		m[o.records[i].ID] = &o.records[i]
	}
	return m
}

// An audit draws up the account of one pool a second time.
type audit struct {
	t       require.TestingT
	s       *setup
	o       *story
	prefill bool
	cfg     *PoolConfig
	cost    *fakeCost
	ranks   [][]*Record // those that each rank served, in order of arrival

	done      map[int]int        // prompt tokens prefilled, or tokens produced, by request
	drafts    map[int]*rand.Rand // decides on the drafts of a request
	pieces    map[int]*[2]Pieces
	compute   sim.Time // over the GPUs
	time      GPUTime
	comm      CommTime
	tokens    int64
	twoBatch  int
	stepCount int
}

func newAudit(t require.TestingT, s *setup, o *story, prefill bool) *audit {
	a := &audit{t: t, s: s, o: o, prefill: prefill, cfg: &s.config.Prefill, cost: &s.prefill}
	if !prefill {
		a.cfg, a.cost = &s.config.Decode, &s.decode
	}
	a.done, a.pieces, a.drafts = map[int]int{}, map[int]*[2]Pieces{}, map[int]*rand.Rand{}
	a.ranks = make([][]*Record, a.cfg.Instances*a.cfg.DP)
	for i := range o.records {
		if r := &o.records[i]; r.Outcome == Finished {
			n := r.PrefillRank
			if !prefill {
				n = r.DecodeRank
			}
			a.ranks[n] = append(a.ranks[n], r)
			a.pieces[r.ID] = &[2]Pieces{}
			a.drafts[r.ID] = sim.Streams{Seed: s.seed}.Stream(fmt.Sprintf("mtp/%d", r.ID))
		}
	}
	for _, rs := range a.ranks {
		slices.SortFunc(rs, func(x, y *Record) int { return cmp.Compare(x.ID, y.ID) })
	}
	return a
}

func (a *audit) pool(u *PoolUsage) {
	for _, rs := range a.ranks {
		a.fifo(rs)
		a.capacity(rs, u)
	}
	for i := range a.cfg.Instances {
		var steps []Step
		for _, st := range a.o.steps {
			if st.Instance == i && (st.Pool == "prefill") == a.prefill {
				steps = append(steps, st)
			}
		}
		a.instance(a.ranks[i*a.cfg.DP:(i+1)*a.cfg.DP], steps)
	}
	a.lives()
	require.Equal(a.t, a.tokens, u.Tokens)
	require.Equal(a.t, a.stepCount, u.Steps)
	require.Equal(a.t, a.twoBatch, u.TwoBatchSteps)
	require.Equal(a.t, a.comm, u.Comm)
	a.time.Compute.Add(a.compute, 1)
	require.Equal(a.t, a.time, u.Time, "%s", u.Pool)
	require.Equal(a.t, a.cfg.GPUs(), u.GPUs)
}

// fifo: a rank serves in order of arrival, and decodes in order of transfer.
func (a *audit) fifo(rs []*Record) {
	if a.prefill {
		for i := 1; i < len(rs); i++ {
			require.LessOrEqual(a.t, rs[i-1].PrefillStart, rs[i].PrefillStart, "request %d overtakes", rs[i].ID)
			require.LessOrEqual(a.t, rs[i-1].PrefillEnd, rs[i].PrefillEnd, "request %d overtakes", rs[i].ID)
		}
		return
	}
	for _, x := range rs {
		for _, y := range rs {
			if x.PrefillEnd < y.PrefillEnd {
				require.LessOrEqual(a.t, posted(x), posted(y), "KV of request %d overtakes %d", y.ID, x.ID)
			}
			if x.TransferEnd < y.TransferEnd {
				require.LessOrEqual(a.t, x.FirstToken, y.FirstToken, "request %d overtakes %d", y.ID, x.ID)
			}
		}
	}
}

// posted is when the KV transfer began.
func posted(r *Record) sim.Time { return r.PrefillEnd + r.TTFT[PieceDecodeMemory] }

// capacity sweeps over the lives of KV blocks. The peak is between that of
// freeing before and after taking at one instant.
func (a *audit) capacity(rs []*Record, u *PoolUsage) {
	peak := func(freeFirst bool) (most int) {
		type change struct {
			at sim.Time
			by int
		}
		var changes []change
		for _, r := range rs {
			from, to, tokens := r.PrefillStart, r.TransferEnd, r.PromptTokens
			if !a.prefill {
				from, to, tokens = posted(r), r.Finish, r.PromptTokens+r.OutputTokens
			}
			n := blocksOf(a.s, tokens)
			changes = append(changes, change{from, n}, change{to, -n})
		}
		slices.SortFunc(changes, func(x, y change) int {
			if freeFirst {
				return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.by, y.by))
			}
			return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(y.by, x.by))
		})
		used := 0
		for _, c := range changes {
			used += c.by
			most = max(most, used)
		}
		return most
	}
	require.LessOrEqual(a.t, peak(true), u.PeakKVBlocks)
	require.LessOrEqual(a.t, u.PeakKVBlocks, u.KVBlocks)
	require.EqualValues(a.t, a.cost.kvTokens/int64(a.s.config.KV.BlockTokens), u.KVBlocks)
	if len(a.ranks) == 1 {
		require.GreaterOrEqual(a.t, peak(false), u.PeakKVBlocks)
	}
}

// instance audits the steps of one instance and what lies between them.
func (a *audit) instance(ranks [][]*Record, steps []Step) {
	idle := sim.Time(0) // up to where the instance's time is accounted for
	gpus := a.cfg.TP * a.cfg.DP
	for _, st := range steps {
		require.GreaterOrEqual(a.t, st.Start, idle, "a step begins before its time: %+v", st)
		a.between(ranks, idle, st.Start, gpus)
		a.step(ranks, st)
		idle = st.End
		if a.pendingAt(ranks, st.End) && a.cfg.HostGap > 0 {
			idle += a.cfg.HostGap
			a.time.Host.Add(a.cfg.HostGap, gpus)
		}
	}
	a.between(ranks, idle, a.o.end, gpus)
}

// pendingAt tells whether a rank has more to do when a step ends.
func (a *audit) pendingAt(ranks [][]*Record, end sim.Time) bool {
	for _, rs := range ranks {
		for _, r := range rs {
			if a.prefill && r.Arrival <= end && r.PrefillEnd > end || !a.prefill && r.TransferEnd <= end && r.Finish > end {
				return true
			}
		}
	}
	return false
}

// between accounts for the time in which no step runs: waiting for KV while a
// transfer is on its way (decode) or a prompt waits (prefill), else idle.
func (a *audit) between(ranks [][]*Record, from, to sim.Time, gpus int) {
	type span struct{ from, to sim.Time }
	var waits []span
	for _, rs := range ranks {
		for _, r := range rs {
			w := span{r.Arrival, r.PrefillEnd}
			if !a.prefill {
				w = span{posted(r), r.TransferEnd}
			}
			if w.from = max(w.from, from); w.from < min(w.to, to) {
				waits = append(waits, span{w.from, min(w.to, to)})
			}
		}
	}
	slices.SortFunc(waits, func(x, y span) int { return cmp.Compare(x.from, y.from) })
	at, waiting := from, sim.Time(0)
	for _, w := range waits {
		if w.to > at {
			waiting += w.to - max(at, w.from)
			at = w.to
		}
	}
	a.time.WaitingKV.Add(waiting, gpus)
	a.time.Idle.Add(to-from-waiting, gpus)
}

// step audits who is in a step, and prices it.
func (a *audit) step(ranks [][]*Record, st Step) {
	a.stepCount++
	members := make([][]*Record, len(ranks))
	sequences := 0
	for i, rs := range ranks {
		for _, r := range rs {
			in := r.PrefillStart < st.End && st.End <= r.PrefillEnd
			if !a.prefill {
				in = r.FirstToken <= st.End && st.End <= r.Finish
			}
			if in {
				members[i] = append(members[i], r)
			}
		}
		require.LessOrEqual(a.t, len(members[i]), a.cfg.MaxBatchRequests)
		sequences += len(members[i])
	}
	require.Equal(a.t, st.Requests, sequences, "%+v", st)
	layOut := a.decodeBatch
	if a.prefill {
		layOut = a.prefillBatch
	}
	b := layOut(members)
	require.Equal(a.t, st.Tokens, b.tokens, "%+v", st)
	require.Equal(a.t, st.Output, int64(b.output), "%+v", st)
	require.Equal(a.t, st.Context, int64(b.context), "%+v", st)
	if a.prefill {
		a.tokens += int64(b.tokens)
	} else {
		a.tokens += int64(b.output)
		require.LessOrEqual(a.t, b.output-sequences, a.o.extras[st.End], "%+v", st)
	}
	want := a.price(b)
	require.Equal(a.t, want.total, st.End-st.Start, "length of %+v with %+v", st, b)
	require.Equal(a.t, want.compute, st.Compute, "%+v", st)
	require.Equal(a.t, want.allReduce, st.AllReduce, "%+v", st)
	if want.dispatch >= 0 {
		require.Equal(a.t, want.dispatch, st.Dispatch, "%+v", st)
	}
	gpus := a.cfg.TP * a.cfg.DP
	a.compute += want.gpuCompute
	a.time.Barrier.Add(st.Compute*sim.Time(gpus)-want.gpuCompute, 1)
	a.time.Dispatch.Add(st.Dispatch, gpus)
	a.time.Combine.Add(st.Combine, gpus)
	a.time.AllReduce.Add(st.AllReduce, gpus)
	a.comm.add(&want.comm)
	if len(b.micro) == 2 {
		a.twoBatch++
	}
	a.attribute(members, st)
}

// attribute books a step on its requests.
func (a *audit) attribute(members [][]*Record, st Step) {
	for _, rs := range members {
		for _, r := range rs {
			p := &a.pieces[r.ID][0]
			compute, comm := PiecePrefillCompute, PiecePrefillComm
			if !a.prefill {
				compute, comm = PieceDecodeCompute, PieceDecodeComm
				if st.End == r.FirstToken {
					p[PieceDecodeWait] += st.Start - r.TransferEnd
				} else {
					p = &a.pieces[r.ID][1]
					p[PieceDecodeHost] += a.cfg.HostGap
				}
			}
			p[compute] += st.Compute
			p[comm] += st.Dispatch + st.Combine + st.AllReduce
		}
	}
}

// lives compares the pieces that the pool is responsible for.
func (a *audit) lives() {
	for _, rs := range a.ranks {
		for _, r := range rs {
			p := a.pieces[r.ID]
			if a.prefill {
				require.Equal(a.t, r.PromptTokens, a.done[r.ID], "tokens prefilled of request %d", r.ID)
				require.Equal(a.t, p[0][PiecePrefillCompute], r.TTFT[PiecePrefillCompute])
				require.Equal(a.t, p[0][PiecePrefillComm], r.TTFT[PiecePrefillComm])
				queue := r.PrefillEnd - r.Arrival - p[0][PiecePrefillCompute] - p[0][PiecePrefillComm]
				require.Equal(a.t, queue, r.TTFT[PieceQueue])
				continue
			}
			require.Equal(a.t, r.OutputTokens, a.done[r.ID], "tokens produced of request %d", r.ID)
			require.Equal(a.t, p[1], r.Decode, "request %d", r.ID)
			for _, piece := range []Piece{PieceDecodeWait, PieceDecodeCompute, PieceDecodeComm} {
				require.Equal(a.t, p[0][piece], r.TTFT[piece], "%v of request %d", piece, r.ID)
			}
		}
	}
}
