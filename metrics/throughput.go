package metrics

import (
	"math"
	"slices"

	"github.com/tgssim/tgssim/serving"
	"github.com/tgssim/tgssim/sim"
)

// counts fills in what was asked for and what came of it.
func (x *analysis) counts() {
	s := &x.r.Summary
	rs := x.r.Requests
	s.RequestsArrived = len(rs)
	var offered struct{ requests, prompt, output int64 }
	served := 0
	for i := range rs {
		q := &rs[i]
		if x.r.Arrivals.Contains(q.Arrival) {
			offered.requests++
			offered.prompt += int64(q.PromptTokens)
			offered.output += int64(q.OutputTokens)
		}
		switch q.Outcome {
		case serving.Finished:
			s.Completed++
			s.TotalInputTokens += int64(q.PromptTokens)
			s.TotalOutputTokens += int64(q.OutputTokens)
			if x.r.Steady.Contains(q.Finish) {
				served++
			}
		case serving.Rejected:
			s.RequestsRejected++
		default:
			s.RequestsUnfinished++
		}
	}
	s.Failed = s.RequestsRejected + s.RequestsUnfinished
	s.EmittedOutputTokens = x.outputTokens(Window{0, sim.Never})
	s.PrefilledTokens = x.promptTokens(Window{0, sim.Never})

	span := x.r.Arrivals.Length()
	s.OfferedRate = per(float64(offered.requests), span)
	s.OfferedPromptTokens = per(float64(offered.prompt), span)
	s.OfferedOutputTokens = per(float64(offered.output), span)
	s.ServedRate = per(float64(served), x.r.Steady.Length())

	whole := x.r.Whole.Length()
	s.Duration = whole.Seconds()
	s.RequestThroughput = per(float64(s.Completed), whole)
	s.OutputThroughput = per(float64(s.TotalOutputTokens), whole)
	s.TotalTokenThroughput = per(float64(s.TotalInputTokens+s.TotalOutputTokens), whole)
	if len(rs) > 0 {
		s.FirstArrival = num(x.r.Whole.From.Seconds())
		s.LastArrival = num(x.lastArrival.Seconds())
		s.End = num(x.r.Whole.To.Seconds())
		s.SteadyStart = num(x.r.Steady.From.Seconds())
		s.SteadyEnd = num(x.r.Steady.To.Seconds())
	}
	x.peaks()
}

// outputTokens counts the output tokens emitted in a window, of finished
// requests or not.
func (x *analysis) outputTokens(w Window) int64 {
	var n int64
	for i := range x.r.Requests {
		if t := x.r.Requests[i].FirstToken; t != sim.Never && w.Contains(t) {
			n++
		}
	}
	x.c.later(func(at sim.Time, tokens int64) {
		if w.Contains(at) {
			n += tokens
		}
	})
	return n
}

// later calls f for all tokens but each request's first: those that a gap
// precedes, and those that came along with another.
func (c *Collector) later(f func(at sim.Time, tokens int64)) {
	c.gaps.each(func(e logEvent) { f(e.at, e.count) })
	c.extras.each(func(e logEvent) { f(e.at, e.count) })
}

// promptTokens counts the prompt tokens of the prefill steps that ended in a
// window.
func (x *analysis) promptTokens(w Window) int64 {
	var n int64
	x.c.prefills.each(func(e logEvent) {
		if w.Contains(e.at) {
			n += e.count
		}
	})
	return n
}

// peaks finds the busiest instant and, by vLLM's rule, the busiest second.
func (x *analysis) peaks() {
	s := &x.r.Summary
	whole := x.r.Whole
	n := int(whole.Length()/sim.Second) + 1
	tokens := make([]int64, n)
	change := make([]int, n+1)
	second := func(t sim.Time) int { return int(min(max(t-whole.From, 0)/sim.Second, sim.Time(n-1))) }
	var comings, goings []sim.Time
	for i := range x.r.Requests {
		q := &x.r.Requests[i]
		if q.Outcome == serving.Rejected {
			continue
		}
		comings = append(comings, q.Arrival)
		goings = append(goings, min(q.Finish, whole.To))
		if q.FirstToken != sim.Never {
			tokens[second(q.FirstToken)]++
		}
		if q.Outcome == serving.Finished {
			change[second(q.Arrival)]++
			change[second(q.Finish)+1]--
		}
	}
	x.c.later(func(at sim.Time, n int64) { tokens[second(at)] += n })
	s.MaxOutputTokensPerS = slices.Max(tokens)
	running := 0
	for _, d := range change {
		running += d
		s.MaxConcurrentRequests = max(s.MaxConcurrentRequests, running)
	}
	slices.Sort(comings)
	slices.Sort(goings)
	left := 0
	for i, t := range comings {
		for left < len(goings) && goings[left] <= t {
			left++ // who leaves at the instant of an arrival is no longer there
		}
		s.PeakRequestsInSystem = max(s.PeakRequestsInSystem, i+1-left)
	}
}

// throughput fills in TGS by each denominator, and its check.
func (x *analysis) throughput() {
	s := &x.r.Summary
	whole, steady := x.r.Whole.Length(), x.r.Steady.Length()
	s.GPUs = x.a.GPUs
	prefill, decode := x.pool(poolPrefill), x.pool(poolDecode)
	if prefill != nil {
		s.PrefillGPUs = prefill.GPUs
	}
	if decode != nil {
		s.DecodeGPUs = decode.GPUs
	}
	if s.GPUs == 0 {
		for i := range x.a.Pools {
			s.GPUs += x.a.Pools[i].GPUs
		}
	}
	out, outSteady := float64(s.EmittedOutputTokens), float64(x.outputTokens(x.r.Steady))
	s.TGS = perGPU(out, whole, s.GPUs)
	s.TGSSteady = perGPU(outSteady, steady, s.GPUs)
	s.TGSDecode = perGPU(out, whole, s.DecodeGPUs)
	s.TGSDecodeSteady = perGPU(outSteady, steady, s.DecodeGPUs)
	s.TGSPrefill = perGPU(float64(s.PrefilledTokens), whole, s.PrefillGPUs)
	s.TGSPrefillSteady = perGPU(float64(x.promptTokens(x.r.Steady)), steady, s.PrefillGPUs)
	if s.OfferedOutputTokens != nil && s.GPUs > 0 {
		s.TGSOffered = num(*s.OfferedOutputTokens / float64(s.GPUs))
	}
	if x.r.ITL.Count > 0 {
		// The mean gap, spread over the tokens that came with it.
		n := float64(x.r.ITL.Count)
		s.SecondsPerToken = num(x.r.ITL.Mean / 1e3 * (n / (n + float64(x.extras))))
	}
	if x.r.TPOT.Count > 0 && x.r.TPOT.Mean > 0 {
		s.TokensPerUser = num(1e3 / x.r.TPOT.Mean)
	}

	x.batch()
	x.fairness(decode)
}

// batch fills in the requests running in decode steps, unfinished ones included,
// averaged over the whole run, and the TGS that follows from it and the mean TPOT.
func (x *analysis) batch() {
	s, whole := &x.r.Summary, x.r.Whole
	if s.DecodeGPUs <= 0 || whole.Length() <= 0 {
		return
	}
	var running spanSum
	for i := range x.r.Requests {
		q := &x.r.Requests[i]
		if q.Outcome == serving.Unfinished {
			running.add(stayOf(q, whole.To).running.Length())
			continue
		}
		running.add(q.decoding() + q.Decode[serving.PieceDecodeCompute] +
			q.Decode[serving.PieceDecodeComm] + q.Decode[serving.PieceDecodeHost])
	}
	s.BatchPerDecodeGPU = num(running.in() / whole.Length().Seconds() / float64(s.DecodeGPUs))
	if x.r.TPOT.Count > 0 {
		s.BatchOverTPOT = num(*s.BatchPerDecodeGPU / (x.r.TPOT.Mean / 1e3))
	}
}

// decoding is how much of a request's TTFT its first decode step took.
func (q *Request) decoding() sim.Time {
	return q.TTFT[serving.PieceDecodeCompute] + q.TTFT[serving.PieceDecodeComm] + q.TTFT[serving.PieceDecodeHost]
}

// fairness computes Jain's index over the decode ranks (IETF draft-calabria-
// bmwg-ai-fabric-inference-bench-05, test 9.4: one index each for output tokens
// and KV received). Ranks that got nothing count.
func (x *analysis) fairness(decode *serving.PoolUsage) {
	ranks := 0
	if decode != nil {
		ranks = decode.Ranks
	}
	for i := range x.r.Requests {
		ranks = max(ranks, int(x.r.Requests[i].DecodeRank)+1)
	}
	tokens, bytes := make([]float64, ranks), make([]float64, ranks)
	for i := range x.r.Requests {
		if q := &x.r.Requests[i]; q.DecodeRank >= 0 && q.Outcome == serving.Finished {
			tokens[q.DecodeRank] += float64(q.OutputTokens)
			bytes[q.DecodeRank] += float64(q.KVBytes)
		}
	}
	x.r.Summary.JFIDecodeTokens = num(JFI(tokens))
	x.r.Summary.JFIDecodeKVBytes = num(JFI(bytes))
}

// goodput counts the requests that meet every limit of the SLO (DistServe,
// OSDI 2024; vLLM's request_goodput), and judges the run by it.
func (x *analysis) goodput() {
	s, slo := &x.r.Summary, x.c.cfg.SLO
	if !slo.IsSet() {
		return
	}
	good := 0
	for i := range x.r.Requests {
		if slo.metBy(&x.r.Requests[i]) {
			good++
		}
	}
	s.RequestGoodput = per(float64(good), x.r.Whole.Length())
	if len(x.r.Requests) == 0 {
		return
	}
	s.SLOAttainment = num(float64(good) / float64(len(x.r.Requests)))
	met := float64(s.Failed)*100 <= (100-slo.Percentile)*float64(len(x.r.Requests))
	for _, l := range x.r.Limits {
		met = met && l.Met
	}
	s.SLOMet = &met
}

// metBy tells whether a request finished within every limit that is one
// request's.
func (s SLO) metBy(q *Request) bool {
	within := func(limit sim.Time, ms float64) bool {
		return limit == 0 || math.IsNaN(ms) || ms <= limit.Milliseconds()
	}
	return q.Outcome == serving.Finished &&
		within(s.TTFT, q.TTFTOf().Milliseconds()) &&
		within(s.TPOT, q.TPOT()) &&
		within(s.E2E, q.E2E().Milliseconds())
}

// per divides by a span in seconds; nil when the span is empty.
func per(n float64, span sim.Time) *float64 {
	if span <= 0 {
		return nil
	}
	return num(n / span.Seconds())
}

// perGPU divides by a span in seconds and by GPUs; nil when there are none.
func perGPU(n float64, span sim.Time, gpus int) *float64 {
	if span <= 0 || gpus <= 0 {
		return nil
	}
	return num(n / span.Seconds() / float64(gpus))
}

// num is a pointer to v, nil when v is not a number: no NaN and no infinity
// ever leaves this package.
func num(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}
