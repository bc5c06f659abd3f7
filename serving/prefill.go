package serving

import (
	"github.com/tgssim/tgssim/compute"
	"github.com/tgssim/tgssim/sim"
)

// A slice is what one prefill step does for one request.
type slice struct {
	r      *request
	tokens int
}

// planPrefill fills every rank's batch from its queue and works out what the
// step costs. It reports false when no rank has anything to do.
func (in *instance) planPrefill(now sim.Time, w *work) bool {
	in.requests, in.batch = 0, 0
	most := 0
	for _, r := range in.ranks {
		most = max(most, r.fill(in.pool.cfg.MaxBatchTokens, in.pool.cfg.MaxBatchRequests))
		for _, s := range r.batch {
			if s.r.prefilled == 0 {
				s.r.PrefillStart = now
			}
			s.r.spend(PieceQueue, now)
			in.batch += s.tokens
		}
		in.requests += len(r.batch)
	}
	if in.requests == 0 {
		return false
	}
	batches := in.batches(most)
	model := in.pool.cost
	if batches == 2 {
		model = in.pool.c.opt.PrefillOverlap
	}
	var k [2]costs
	var tokens [2][]int64
	for b := range batches {
		tokens[b] = in.scratch[b][:0]
	}
	for _, r := range in.ranks {
		r.split(batches)
		for b := range batches {
			var n int64
			for _, c := range r.chunks[b] {
				n += int64(c.Tokens)
			}
			tokens[b] = append(tokens[b], n)
			if n > 0 {
				t := model.Prefill(r.chunks[b])
				k[b].include(in.pool, &t)
			}
		}
	}
	in.scratch = tokens
	in.assemble(w, model, k[:batches], tokens[:batches])
	return true
}

// fill takes requests from the head of the queue while the token budget and the
// KV blocks last, and returns the tokens taken. A prompt longer than what is
// left of the budget is cut.
func (r *rank) fill(budget, most int) (tokens int) {
	r.batch = r.batch[:0]
	for q := r.queue.head; q != nil && budget > 0 && len(r.batch) < most; q = q.next {
		if q.prefilled == 0 && !r.blocks.take(q.PromptTokens) {
			break
		}
		n := min(budget, q.PromptTokens-q.prefilled)
		budget -= n
		tokens += n
		r.batch = append(r.batch, slice{q, n})
	}
	return tokens
}

// split lays the batch out as chunks for one or two micro-batches of as nearly
// equal tokens as can be, cutting one prompt in two where needed.
func (r *rank) split(batches int) {
	r.chunks[0], r.chunks[1] = r.chunks[0][:0], r.chunks[1][:0]
	total := 0
	for _, s := range r.batch {
		total += s.tokens
	}
	first := total
	if batches == 2 {
		first = (total + 1) / 2
	}
	for _, s := range r.batch {
		a := min(first, s.tokens)
		if a > 0 {
			r.chunks[0] = append(r.chunks[0], compute.Chunk{Tokens: a, Context: s.r.prefilled})
			first -= a
		}
		if b := s.tokens - a; b > 0 {
			r.chunks[1] = append(r.chunks[1], compute.Chunk{Tokens: b, Context: s.r.prefilled + a})
		}
	}
}

// finishPrefill books the step on its requests and sends off those whose
// prompt is done. It reports whether there is more to do.
func (in *instance) finishPrefill(now sim.Time, a *stepAccount) bool {
	more := false
	for _, r := range in.ranks {
		for _, s := range r.batch {
			q := s.r
			q.TTFT[PiecePrefillCompute] += a.Compute
			q.TTFT[PiecePrefillComm] += a.comm()
			q.mark = now
			q.prefilled += s.tokens
			r.charge(-int64(s.tokens))
			in.tokens += int64(s.tokens)
			if q.prefilled == q.PromptTokens {
				r.queue.pop() // batches are taken from the head, in order
				q.PrefillEnd = now
				in.pool.c.handOver(q)
			}
		}
		r.batch = r.batch[:0]
		more = more || r.queue.len > 0
	}
	return more
}
