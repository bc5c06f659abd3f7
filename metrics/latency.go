package metrics

import (
	"cmp"
	"math"
	"slices"

	"github.com/tgssim/tgssim/serving"
	"github.com/tgssim/tgssim/sim"
)

// TTFTOf is the time from arrival to the first output token, KV transfer and
// first decode step included (vLLM; IETF draft-calabria-bmwg-ai-fabric-
// inference-bench-05, section 4). Only for a request that got one.
func (q *Request) TTFTOf() sim.Time { return q.FirstToken - q.Arrival }

// E2E is the time from arrival to the last output token of a finished request.
func (q *Request) E2E() sim.Time { return q.Finish - q.Arrival }

// TPOT is the time per output token after the first, (E2E - TTFT) / (out - 1),
// in milliseconds (vLLM, MLPerf); NaN with fewer than two tokens.
func (q *Request) TPOT() float64 {
	if q.OutputTokens < 2 {
		return math.NaN()
	}
	return (q.Finish - q.FirstToken).Milliseconds() / float64(q.OutputTokens-1)
}

// latencies computes the latency statistics, and places the steady window on
// the way.
func (x *analysis) latencies() {
	rs := x.r.Requests
	warm := x.r.Whole.From + min(x.c.cfg.Warmup, sim.Never-x.r.Whole.From)
	_, extras := x.outputs()
	var all, ttft, prefill, tpot, e2e []float64
	for i := range rs {
		q := &rs[i]
		if q.Outcome != serving.Finished {
			continue
		}
		all = append(all, q.E2E().Milliseconds())
		if q.Arrival < warm || !x.chosen(q.DecodeRank) {
			continue
		}
		x.measured = append(x.measured, q)
		ttft = append(ttft, q.TTFTOf().Milliseconds())
		e2e = append(e2e, q.E2E().Milliseconds())
		if q.PrefillEnd != sim.Never {
			prefill = append(prefill, (q.PrefillEnd - q.Arrival).Milliseconds())
		}
		if v := q.TPOT(); !math.IsNaN(v) {
			tpot = append(tpot, v)
		}
	}
	if x.c.cfg.chooses() {
		x.note("Latencies and KV transfers are of decode instances %v only (metrics.decode_instances).", x.c.cfg.DecodeInstances)
	}
	x.life = StatsOf(all).Mean // sorts
	x.steady(all)
	x.r.TTFT, x.r.TTFTPrefill = StatsOf(ttft), StatsOf(prefill)
	x.r.TPOT, x.r.E2E = StatsOf(tpot), StatsOf(e2e)
	gaps := x.itl(warm)
	x.r.ITL = WeightedStatsOf(gaps)
	extras.each(func(e logEvent) {
		if e.at >= warm {
			x.extras += e.count
		}
	})

	slo := x.c.cfg.SLO
	x.limit("TTFT", slo.TTFT, Percentile(ttft, slo.Percentile))
	x.limit("ITL", slo.ITL, WeightedPercentile(gaps, slo.Percentile))
	x.limit("TPOT", slo.TPOT, Percentile(tpot, slo.Percentile))
	x.limit("E2E", slo.E2E, Percentile(e2e, slo.Percentile))

	moved := make([]float64, 0, len(x.r.Transfers))
	for i := range x.r.Transfers {
		if t := &x.r.Transfers[i]; x.chosen(t.DecodeRank) {
			moved = append(moved, (t.Arrived - t.Posted).Milliseconds())
		}
	}
	x.r.KVTransfer = StatsOf(moved)
}

// chosen tells whether the latencies are of a decode rank.
func (x *analysis) chosen(rank int32) bool {
	u := x.pool(poolDecode)
	if !x.c.cfg.chooses() || u == nil || u.Instances == 0 {
		return true
	}
	return x.c.cfg.chosen(int(rank) / (u.Ranks / u.Instances))
}

// outputs are the token gaps, and the tokens that came along with another, that
// the latencies are of.
func (x *analysis) outputs() (gaps, extras *eventLog) {
	if x.c.cfg.chooses() {
		return &x.c.chosenGaps, &x.c.chosenExtras
	}
	return &x.c.gaps, &x.c.extras
}

// A Limit is one limit of the SLO and what became of it in a run.
type Limit struct {
	// Name is TTFT, ITL, TPOT or E2E.
	Name string
	// LimitMS and ValueMS, the latency at the SLO's percentile, are in
	// milliseconds.
	LimitMS, ValueMS float64
	// NoSamples tells that there is no value.
	NoSamples bool
	// Met tells whether the value is within the limit. A latency of which there
	// is no sample does not meet it, ITL and TPOT of one-token answers excepted.
	Met bool
}

// limit judges the run by one limit, if there is one.
func (x *analysis) limit(name string, limit sim.Time, value float64) {
	if limit <= 0 {
		return
	}
	l := Limit{Name: name, LimitMS: limit.Milliseconds(), ValueMS: value, Met: value <= limit.Milliseconds()}
	if math.IsNaN(value) {
		l.ValueMS, l.NoSamples = 0, true
		l.Met = len(x.measured) > 0
	}
	x.r.Limits = append(x.r.Limits, l)
}

// itl is the sample of token gaps that end at or after an instant, in
// milliseconds, ascending. Gaps of all requests are pooled, as in vLLM; tokens
// that come together are one output, with one gap before it.
func (x *analysis) itl(from sim.Time) []Weighted {
	type gap struct {
		span  sim.Time
		count int64
	}
	var gaps []gap
	log, _ := x.outputs()
	log.each(func(e logEvent) {
		switch {
		case e.at < from:
		case len(gaps) > 0 && gaps[len(gaps)-1].span == e.span:
			gaps[len(gaps)-1].count += e.count
		default:
			gaps = append(gaps, gap{e.span, e.count})
		}
	})
	slices.SortFunc(gaps, func(a, b gap) int { return cmp.Compare(a.span, b.span) })
	sample := make([]Weighted, 0, len(gaps))
	for _, g := range gaps {
		v := g.span.Milliseconds()
		if n := len(sample); n > 0 && sample[n-1].Value == v {
			sample[n-1].Count += g.count
			continue
		}
		sample = append(sample, Weighted{v, g.count})
	}
	return sample
}
