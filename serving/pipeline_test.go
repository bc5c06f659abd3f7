package serving

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/compute"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// simplePipeline is a second implementation of serving a dense model with one
// prefill GPU of ample memory and several decode GPUs in turn. Nothing flows
// back from decode to prefill, so it is two loops over steps, no events.
type simplePipeline struct {
	s       *setup
	records []*Record
}

// prefillAll is Lindley's recursion with batches: a step begins when the last
// has ended and the host is ready, or at the next arrival.
func (p *simplePipeline) prefillAll() {
	cfg := &p.s.config.Prefill
	var end sim.Time
	left := p.records
	done := 0 // of left[0]
	for first := true; len(left) > 0; first = false {
		start := left[0].Arrival
		if !first && start <= end {
			start = end + cfg.HostGap
		}
		budget := cfg.MaxBatchTokens
		var chunks []compute.Chunk
		var batch []*Record
		n := 0 // prompts that end in this step
		for _, r := range left {
			if r.Arrival > start || budget == 0 || len(batch) == cfg.MaxBatchRequests {
				break
			}
			if done == 0 {
				r.PrefillStart = start
			}
			take := min(budget, r.PromptTokens-done)
			chunks = append(chunks, compute.Chunk{Tokens: take, Context: done})
			batch = append(batch, r)
			budget -= take
			if done += take; done == r.PromptTokens {
				done = 0
				n++
			}
		}
		t := p.s.prefill.Prefill(chunks)
		end = start + t.Head + sim.Time(p.s.prefill.dense)*(t.AttnIn+t.AttnOut+t.DenseMLP)
		for i, r := range batch {
			r.TTFT[PiecePrefillCompute] += end - start
			if i < n {
				r.PrefillEnd = end
				r.TTFT[PieceQueue] = end - r.Arrival - r.TTFT[PiecePrefillCompute]
			}
		}
		left = left[n:]
	}
}

// decodeAll runs one decode GPU over its requests, given in order of PrefillEnd.
func (p *simplePipeline) decodeAll(requests []*Record) {
	cfg, kv := &p.s.config.Decode, &p.s.config.KV
	free := int(p.s.decode.kvTokens) / kv.BlockTokens
	waiting := requests
	var arriving, running []*Record
	produced := map[*Record]int{}
	admit := func(now sim.Time) {
		for len(waiting) > 0 && waiting[0].PrefillEnd <= now {
			r := waiting[0]
			if need := blocksOf(p.s, r.PromptTokens+r.OutputTokens); need <= free {
				free -= need
			} else {
				return
			}
			waiting = waiting[1:]
			post := kv.PostPerMessage + kv.PostPerDescriptor*sim.Time(p.s.kvPieces*blocksOf(p.s, r.PromptTokens))
			r.TTFT[PieceDecodeMemory] = now - r.PrefillEnd
			r.TTFT[PieceTransferPost] = post
			r.TTFT[PieceTransferWire] = p.s.network.latency
			r.TransferEnd = now + post + p.s.network.latency
			r.KVBytes = p.s.decode.kvBytes * units.Bytes(r.PromptTokens)
			arriving = append(arriving, r)
			slices.SortStableFunc(arriving, func(a, b *Record) int { return cmp.Compare(a.TransferEnd, b.TransferEnd) })
		}
	}
	// admitUpTo takes prompts in as they come, the clock standing at none but
	// their own instants.
	admitUpTo := func(now sim.Time) {
		for len(waiting) > 0 && waiting[0].PrefillEnd <= now {
			before := len(waiting)
			if admit(waiting[0].PrefillEnd); len(waiting) == before {
				return
			}
		}
	}
	var end sim.Time
	for first := true; len(waiting)+len(arriving)+len(running) > 0; first = false {
		if len(running)+len(arriving) == 0 {
			admit(waiting[0].PrefillEnd)
		}
		start := end + cfg.HostGap
		if len(running) == 0 {
			// What is posted while the first is under way may overtake it.
			for n := -1; n != len(arriving); {
				n = len(arriving)
				admitUpTo(arriving[0].TransferEnd)
			}
			if at := arriving[0].TransferEnd; first || at > end {
				start = at
			}
		}
		admitUpTo(start)
		var joined []*Record
		for len(arriving) > 0 && arriving[0].TransferEnd <= start && len(running) < cfg.MaxBatchRequests {
			r := arriving[0]
			arriving = arriving[1:]
			r.TTFT[PieceDecodeWait] = start - r.TransferEnd
			running, joined = append(running, r), append(joined, r)
		}
		context := 0
		for _, r := range running {
			context += r.PromptTokens + produced[r] + 1
		}
		t := p.s.decode.Decode(len(running), int64(context), 1)
		last := end
		end = start + t.Head + sim.Time(p.s.decode.dense)*(t.AttnIn+t.AttnOut+t.DenseMLP)
		admitUpTo(end - 1)
		var still []*Record
		for _, r := range running {
			if produced[r]++; slices.Contains(joined, r) {
				r.FirstToken = end
				r.TTFT[PieceDecodeCompute] = end - start
			} else {
				r.Decode[PieceDecodeCompute] += end - start
				r.Decode[PieceDecodeHost] += start - last
			}
			if produced[r] < r.OutputTokens {
				still = append(still, r)
				continue
			}
			r.Finish = end
			free += blocksOf(p.s, r.PromptTokens+r.OutputTokens)
		}
		running = still
		admit(end)
	}
}

// The whole life of every request, piece by piece, is what the simple pipeline
// says. Step ends never coincide with arrivals or transfers: each step adds a
// few picoseconds of its own to whole microseconds.
func TestAgainstSimplePipeline(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rs := drawRequests(t, 25, 60, 10)
		s := newSetup(requests(rs...))
		s.prefill, s.decode = drawCost(t, 0), drawCost(t, 0)
		s.prefill.kvTokens, s.decode.kvTokens = 1<<20, int64(rapid.IntRange(96, 400).Draw(t, "memory"))
		s.prefill.head++
		s.decode.head += sim.Nanosecond
		pre, dec, kv := &s.config.Prefill, &s.config.Decode, &s.config.KV
		pre.MaxBatchTokens = rapid.IntRange(1, 100).Draw(t, "budget")
		pre.MaxBatchRequests = rapid.IntRange(1, 5).Draw(t, "prefill batch")
		dec.MaxBatchRequests = rapid.IntRange(1, 5).Draw(t, "decode batch")
		pre.HostGap = sim.Time(rapid.IntRange(0, 20).Draw(t, "prefill gap")) * us
		dec.HostGap = sim.Time(rapid.IntRange(0, 20).Draw(t, "decode gap")) * us
		dec.Instances = rapid.IntRange(1, 3).Draw(t, "decode instances")
		dec.Router = RouterRoundRobin
		kv.BlockTokens = rapid.SampledFrom([]int{1, 7, 16}).Draw(t, "block")
		kv.PostPerDescriptor = sim.Time(rapid.IntRange(0, 20).Draw(t, "descriptor")) * us
		s.kvPieces = rapid.IntRange(1, 4).Draw(t, "pieces")
		s.network.latency = sim.Time(rapid.IntRange(1, 1000).Draw(t, "latency")) * us

		p := &simplePipeline{s: s}
		turns := make([][]*Record, dec.Instances)
		for i, r := range rs {
			r.ID = i
			q := &Record{Request: r, Outcome: Finished, DecodeRank: i % dec.Instances}
			p.records = append(p.records, q)
			turns[q.DecodeRank] = append(turns[q.DecodeRank], q)
		}
		p.prefillAll()
		for _, turn := range turns {
			p.decodeAll(turn)
		}
		o := s.run(t)
		require.Len(t, o.records, len(rs))
		for _, got := range o.records {
			require.Equal(t, *p.records[got.ID], got)
		}
	})
}
