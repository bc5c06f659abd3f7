package metrics

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/serving"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// An Account is what the simulation knows of itself when a run ends. Fields
// left zero leave out what depends on them.
type Account struct {
	// End is the instant at which the run stopped.
	End sim.Time
	// Exhausted tells that the run did not stop but had nothing left to do: requests
	// that are unfinished then would stay so.
	Exhausted bool
	// GPUs is the size of the whole cluster, GPUs outside the pools included; 0
	// takes the sum of the pools.
	GPUs  int
	Pools []serving.PoolUsage
	// Graph is the wiring that Loads refer to.
	Graph *topology.Graph
	Loads []fabric.LinkLoad
	// Totals is the fabric's conservation account.
	Totals fabric.Totals
}

// A Window is the span [From, To).
type Window struct{ From, To sim.Time }

// Length is the length of the window, 0 when it is empty.
func (w Window) Length() sim.Time { return max(w.To-w.From, 0) }

// Contains tells whether t is in the window.
func (w Window) Contains(t sim.Time) bool { return w.From <= t && t < w.To }

// overlap is how much of [from, to) lies in the window.
func (w Window) overlap(from, to sim.Time) sim.Time {
	return max(min(to, w.To)-max(from, w.From), 0)
}

// A Result is a measured run.
type Result struct {
	Config Config
	// Whole runs from the first arrival to the last completion, as vLLM's
	// benchmark counts its duration, or to the end of the run when requests were
	// left unfinished.
	Whole Window
	// Arrivals runs from the first arrival to the last, which it excludes: n
	// arrivals span n-1 intervals.
	Arrivals Window
	// Steady is the part of Arrivals after the ramp-up: from Config.Warmup or,
	// when that is 0, from the 90th percentile of the end-to-end latency (by then
	// the population of requests has filled up), at most half of Arrivals. It
	// holds neither ramp-up nor drain.
	Steady Window

	// Latencies, in milliseconds; see docs/metrics.md.
	TTFT, TTFTPrefill, ITL, TPOT, E2E, KVTransfer Stats
	// Limits judges the run by each limit of the SLO.
	Limits []Limit

	// TTFTMean and TTFTTail split the TTFT of all measured requests and of those
	// at or above its 99th percentile.
	TTFTMean, TTFTTail Split
	Pools              []PoolTime
	Links              Links
	Saturation         Saturation
	Network            NetworkAnswer
	// Notes are caveats that a reader of the figures should know.
	Notes []string

	Summary Summary

	// Series has one row per window.
	Series []SeriesRow
	// Requests and Transfers are in the order of request IDs; Steps in the order
	// in which they ended, nil unless asked for.
	Requests  []Request
	Transfers []Transfer
	Steps     []Step

	reasons []string
}

// Reason is why a request was rejected.
func (r *Result) Reason(q *Request) string { return r.reasons[q.reason] }

// analysis is the state of one Finish.
type analysis struct {
	c *Collector
	a Account
	r *Result
	// lastArrival is the instant of the last arrival.
	lastArrival sim.Time
	measured    []*Request // finished, arrived after the warm-up
	extras      int64      // tokens that came along with another, after the warm-up
	// life is the mean end-to-end latency of all that finished, in milliseconds,
	// whatever the warm-up; 0 when none did.
	life float64
}

// Finish turns what was heard into a Result. It fails when the account does not
// add up: when a request is reported twice, or when the pieces of one do not
// tile its life. The Collector must not be used afterwards.
func (c *Collector) Finish(a Account) (*Result, error) {
	if c.err != nil {
		return nil, c.err
	}
	slices.SortFunc(c.requests, func(a, b Request) int { return cmp.Compare(a.ID, b.ID) })
	for i := 1; i < len(c.requests); i++ {
		if c.requests[i].ID == c.requests[i-1].ID {
			return nil, fmt.Errorf("metrics: request %d was reported twice", c.requests[i].ID)
		}
	}
	slices.SortStableFunc(c.transfers, func(a, b Transfer) int { return cmp.Compare(a.Request, b.Request) })
	r := &Result{
		Config: c.cfg, Requests: c.requests, Transfers: c.transfers, Steps: c.steps, reasons: c.reasons,
	}
	x := analysis{c: c, a: a, r: r}
	x.clock()
	x.latencies()
	x.counts()
	x.throughput()
	x.stability()
	x.goodput()
	x.splits()
	x.links()
	x.pools()
	x.saturation()
	x.network()
	x.series()
	x.summarise()
	x.notes()
	return r, nil
}

// clock finds the windows that do not depend on latencies.
func (x *analysis) clock() {
	rs := x.r.Requests
	if len(rs) == 0 {
		return
	}
	first, lastFinish, unfinished := rs[0].Arrival, sim.Time(0), false
	for i := range rs {
		q := &rs[i]
		first = min(first, q.Arrival)
		x.lastArrival = max(x.lastArrival, q.Arrival)
		if q.Outcome == serving.Finished {
			lastFinish = max(lastFinish, q.Finish)
		}
		unfinished = unfinished || q.Outcome == serving.Unfinished
	}
	end := max(lastFinish, x.lastArrival)
	if unfinished {
		end = max(end, x.a.End)
	}
	x.r.Whole = Window{first, end}
	x.r.Arrivals = Window{first, x.lastArrival}
}

// steady places the steady window, given the end-to-end latencies of all
// finished requests.
func (x *analysis) steady(e2e []float64) {
	from := x.c.cfg.Warmup
	if from == 0 && len(e2e) > 0 {
		p90 := sim.FromSeconds(Percentile(e2e, 90) / 1e3)
		from = min(p90, x.r.Arrivals.Length()/2)
	}
	// from is a span; beyond the last arrival the window is empty.
	from = min(from, x.r.Arrivals.Length())
	x.r.Steady = Window{x.r.Arrivals.From + from, x.r.Arrivals.To}
}

// pool finds the usage of a pool, nil when there is none.
func (x *analysis) pool(name string) *serving.PoolUsage {
	for i := range x.a.Pools {
		if x.a.Pools[i].Pool == name {
			return &x.a.Pools[i]
		}
	}
	return nil
}

// note adds a caveat.
func (x *analysis) note(format string, args ...any) {
	x.r.Notes = append(x.r.Notes, fmt.Sprintf(format, args...))
}
