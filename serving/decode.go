package serving

import "github.com/tgssim/tgssim/sim"

// A decodeClock is how much of each piece an instance's decoding has seen so
// far; the difference between two readings tiles the time between them.
type decodeClock struct {
	compute, comm, host sim.Time
}

// planDecode takes the requests whose KV is in place into the batch, as far as
// it has room, and works out what the step costs. It reports false when no rank
// has a request to run.
func (in *instance) planDecode(now sim.Time, w *work) bool {
	in.requests, in.output, in.context = 0, 0, 0
	query := max(1, in.pool.cfg.MTP.QueryTokens)
	step := in.stepCount + 1
	most := 0
	for _, r := range in.ranks {
		for r.ready.len > 0 && len(r.running) < in.pool.cfg.MaxBatchRequests {
			q := r.ready.pop()
			q.spend(PieceDecodeWait, now)
			q.finishStep = in.stepCount + int64(q.OutputTokens)
			if query > 1 {
				q.finishStep = r.draft(q, step)
			}
			r.running.push(q)
			r.joined = append(r.joined, q)
			r.kvTokens += int64(q.PromptTokens)
		}
		in.requests += len(r.running)
		most = max(most, len(r.running))
		r.output = int64(len(r.running)) + r.drafts.take(step)
		in.output += r.output
	}
	in.batch = in.requests * query
	in.pool.peakBatch = max(in.pool.peakBatch, most)
	if in.requests == 0 {
		return false
	}
	batches := 1
	if most > 1 { // the query tokens of one request stay together
		batches = in.batches(most * query)
	}
	var k [2]costs
	var tokens [2][]int64
	for b := range batches {
		tokens[b] = in.scratch[b][:0]
	}
	for _, r := range in.ranks {
		// Each running request reads its context and the tokens of this step.
		kv := r.kvTokens + int64(len(r.running)*query)
		in.context += kv
		left, leftKV := len(r.running), kv
		for b := range batches {
			n := (left + batches - b - 1) / (batches - b)
			nKV := leftKV
			if b == 0 && batches == 2 {
				nKV = kv * int64(n) / int64(max(1, left))
			}
			left, leftKV = left-n, leftKV-nKV
			tokens[b] = append(tokens[b], int64(n*query))
			if n > 0 {
				t := in.pool.cost.Decode(n, nKV, query)
				k[b].include(in.pool, &t)
			}
		}
	}
	in.scratch = tokens
	in.assemble(w, in.pool.cost, k[:batches], tokens[:batches])
	return true
}

// finishDecode gives every running request its tokens. It reports whether there
// is more to do.
func (in *instance) finishDecode(now sim.Time, a *stepAccount) bool {
	c := in.pool.c
	in.clock.compute += a.Compute
	in.clock.comm += a.comm()
	old := 0
	more := false
	for _, r := range in.ranks {
		n := len(r.running)
		old += n - len(r.joined)
		r.kvTokens += r.output
		in.tokens += r.output
		for _, q := range r.joined {
			q.FirstToken = now
			q.TTFT[PieceDecodeCompute] += a.Compute
			q.TTFT[PieceDecodeComm] += a.comm()
			q.base = in.clock
		}
		r.joined = r.joined[:0]
	}
	if old > 0 && c.opt.Listener.Gap != nil {
		// Steps follow each other without a pause while requests run.
		c.opt.Listener.Gap(now, now-in.ended, old, in.index)
	}
	if extra := in.output - int64(in.requests); extra > 0 && c.opt.Listener.Extra != nil {
		c.opt.Listener.Extra(now, int(extra), in.index)
	}
	for _, r := range in.ranks {
		freed := false
		for len(r.running) > 0 && r.running[0].finishStep == in.stepCount {
			q := r.running.pop()
			r.kvTokens -= int64(q.PromptTokens + q.OutputTokens)
			r.blocks.give(q.PromptTokens + q.OutputTokens)
			r.charge(-int64(r.blocks.need(q.PromptTokens + q.OutputTokens)))
			freed = true
			q.Finish = now
			q.Decode[PieceDecodeCompute] = in.clock.compute - q.base.compute
			q.Decode[PieceDecodeComm] = in.clock.comm - q.base.comm
			q.Decode[PieceDecodeHost] = in.clock.host - q.base.host
			c.finished++
			c.release(q, Finished)
		}
		if freed {
			r.admit()
		}
		more = more || len(r.running)+r.ready.len > 0
	}
	return more
}
