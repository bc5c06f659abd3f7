// Package metricstest tells stories to a metrics.Collector: runs of a toy
// cluster so simple that every figure of them is known in advance.
package metricstest

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/metrics"
	"github.com/tgssim/tgssim/serving"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/workload"
)

// A Story is a toy cluster and what it is asked to serve. A request is
// prefilled alone by one of Prefillers, in Prefill; waits for one of Memory
// places, which it holds to its end; is transferred over one of Wires, in
// Transfer; waits for one of Batch places; and then gets a token every
// StepCompute + StepComm + StepHost. Every queue is first come, first served,
// and has no limit when its number is 0.
type Story struct {
	Requests                             []workload.Request
	Prefillers, Memory, Wires, Batch     int
	Prefill, PrefillComm, Transfer       sim.Time
	StepCompute, StepComm, StepHost      sim.Time
	PrefillGPUs, DecodeGPUs, DecodeRanks int
	// Reject names the requests, by ID, that are refused, and why.
	Reject map[int]string
	// Stop is when the run is cut short; 0 lets it finish.
	Stop sim.Time
}

// Poisson makes n requests with exponential intervals.
func Poisson(n int, perSecond float64, prompt, output int, seed uint64) []workload.Request {
	rng := rand.New(rand.NewPCG(seed, 1))
	out := make([]workload.Request, n)
	at := 0.0
	for i := range out {
		at += -math.Log(1-rng.Float64()) / perSecond
		out[i] = workload.Request{ID: i, Arrival: sim.FromSeconds(at), PromptTokens: prompt, OutputTokens: output}
	}
	return out
}

// Regular makes n requests at a fixed interval, the first at time 0.
func Regular(n int, interval sim.Time, prompt, output int) []workload.Request {
	out := make([]workload.Request, n)
	for i := range out {
		out[i] = workload.Request{ID: i, Arrival: sim.Time(i) * interval, PromptTokens: prompt, OutputTokens: output}
	}
	return out
}

// A desk serves one customer at a time on each of its places; one without
// places serves everybody at once.
type desk []sim.Time

// next is the place that is free first, and when a customer who comes at t is
// served there.
func (d desk) next(t sim.Time) (int, sim.Time) {
	if len(d) == 0 {
		return 0, t
	}
	i := 0
	for k := range d {
		if d[k] < d[i] {
			i = k
		}
	}
	return i, max(t, d[i])
}

// occupy keeps a place until t.
func (d desk) occupy(place int, t sim.Time) {
	if len(d) > 0 {
		d[place] = t
	}
}

type call struct {
	at   sim.Time
	tell func()
}

// Play tells the story and returns the account of the run.
func (s Story) Play(l serving.Listener) metrics.Account {
	var calls []call
	prefill, memory := make(desk, s.Prefillers), make(desk, s.Memory)
	wires, batch := make(desk, s.Wires), make(desk, s.Batch)
	step := s.StepCompute + s.StepComm + s.StepHost
	end := sim.Time(0)
	prefilled := int64(0)
	for i, q := range s.Requests {
		r := serving.Record{
			Request: q, PrefillRank: -1, DecodeRank: -1,
			PrefillStart: sim.Never, PrefillEnd: sim.Never, TransferEnd: sim.Never,
			FirstToken: sim.Never, Finish: sim.Never,
		}
		if why, ok := s.Reject[q.ID]; ok {
			r.Outcome, r.Reason = serving.Rejected, why
			calls = append(calls, call{q.Arrival, func() { l.Request(&r) }})
			end = max(end, q.Arrival)
			continue
		}
		r.Outcome = serving.Finished
		p, start := prefill.next(q.Arrival)
		r.PrefillRank, r.PrefillStart, r.PrefillEnd = p, start, start+s.Prefill+s.PrefillComm
		prefill.occupy(p, r.PrefillEnd)
		m, admitted := memory.next(r.PrefillEnd)
		w, sent := wires.next(admitted)
		r.TransferEnd = sent + s.Transfer
		wires.occupy(w, r.TransferEnd)
		b, began := batch.next(r.TransferEnd)
		r.FirstToken = began + step
		r.Finish = began + step*sim.Time(q.OutputTokens)
		memory.occupy(m, r.Finish)
		batch.occupy(b, r.Finish)
		r.DecodeRank = i % max(s.DecodeRanks, 1)
		r.KVBytes = units.Bytes(q.PromptTokens) * 70272
		more := sim.Time(q.OutputTokens - 1)
		r.TTFT = serving.Pieces{
			serving.PieceQueue:          start - q.Arrival,
			serving.PiecePrefillCompute: s.Prefill,
			serving.PiecePrefillComm:    s.PrefillComm,
			serving.PieceDecodeMemory:   admitted - r.PrefillEnd,
			serving.PieceTransferWire:   s.Transfer,
			serving.PieceTransferQueue:  sent - admitted,
			serving.PieceDecodeWait:     began - r.TransferEnd,
			serving.PieceDecodeCompute:  s.StepCompute,
			serving.PieceDecodeComm:     s.StepComm,
			serving.PieceDecodeHost:     s.StepHost,
		}
		r.Decode = serving.Pieces{
			serving.PieceDecodeCompute: s.StepCompute * more,
			serving.PieceDecodeComm:    s.StepComm * more,
			serving.PieceDecodeHost:    s.StepHost * more,
		}
		if s.Stop == 0 || r.PrefillEnd <= s.Stop {
			prefilled += int64(q.PromptTokens)
		}
		calls = append(calls, s.tell(l, r, admitted)...)
		end = max(end, r.Finish)
	}
	if s.Stop > 0 {
		end = s.Stop
	}
	slices.SortStableFunc(calls, func(a, b call) int { return cmp.Compare(a.at, b.at) })
	for _, c := range calls {
		c.tell()
	}
	return s.Usage(end, prefilled)
}

// tell is what is heard of one request.
func (s Story) tell(l serving.Listener, r serving.Record, admitted sim.Time) []call {
	var calls []call
	heard := func(at sim.Time, tell func()) {
		if s.Stop == 0 || at <= s.Stop {
			calls = append(calls, call{at, tell})
		}
	}
	heard(r.PrefillEnd, func() {
		l.Step(&serving.Step{
			Pool: "prefill", Instance: r.PrefillRank, Start: r.PrefillStart, End: r.PrefillEnd,
			Requests: 1, Tokens: r.PromptTokens, Compute: s.Prefill, Dispatch: s.PrefillComm,
		})
	})
	heard(r.TransferEnd, func() {
		l.Transfer(&serving.Transfer{
			Request: r.ID, PrefillRank: r.PrefillRank, DecodeRank: r.DecodeRank, Bytes: r.KVBytes, Messages: 1,
			Posted: admitted, Arrived: r.TransferEnd, Wire: s.Transfer, Queue: r.TransferEnd - admitted - s.Transfer,
		})
	})
	step := s.StepCompute + s.StepComm + s.StepHost
	for k := 1; k < r.OutputTokens; k++ {
		at := r.FirstToken + step*sim.Time(k)
		heard(at, func() { l.Gap(at, step, 1, r.DecodeRank) })
	}
	if s.Stop > 0 && r.Finish > s.Stop {
		unfinished := r
		unfinished.Outcome, unfinished.Finish = serving.Unfinished, sim.Never
		for _, t := range []*sim.Time{
			&unfinished.PrefillStart, &unfinished.PrefillEnd, &unfinished.TransferEnd, &unfinished.FirstToken,
		} {
			if *t > s.Stop {
				*t = sim.Never
			}
		}
		unfinished.Decode = serving.Pieces{}
		if unfinished.FirstToken == sim.Never {
			unfinished.TTFT = serving.Pieces{}
		}
		return append(calls, call{s.Stop, func() { l.Request(&unfinished) }})
	}
	return append(calls, call{r.Finish, func() { l.Request(&r) }})
}

// Usage is the account of a run that ended at end: decode GPUs run without a
// break, prefill GPUs when there is something to prefill.
func (s Story) Usage(end sim.Time, prefilled int64) metrics.Account {
	step := max(s.StepCompute+s.StepComm+s.StepHost, 1)
	dispatch := end / step * s.StepComm / 2
	combine := end / step * (s.StepComm - s.StepComm/2)
	host := end / step * s.StepHost
	decode := serving.GPUTime{
		Compute:  sim.TotalOf(end-dispatch-combine-host, s.DecodeGPUs),
		Dispatch: sim.TotalOf(dispatch, s.DecodeGPUs),
		Combine:  sim.TotalOf(combine, s.DecodeGPUs),
		Host:     sim.TotalOf(host, s.DecodeGPUs),
	}
	prefillers := s.Prefillers
	if prefillers == 0 {
		prefillers = 1
	}
	served := sim.Time(len(s.Requests) - len(s.Reject))
	each := sim.Time(s.PrefillGPUs / prefillers)
	all := end * sim.Time(s.PrefillGPUs)
	compute := min(served*s.Prefill*each, all)
	comm := min(served*s.PrefillComm*each, all)
	prefill := serving.GPUTime{
		Compute:  sim.TotalOf(compute, 1),
		Dispatch: sim.TotalOf(comm, 1),
		Idle:     sim.TotalOf(max(all-compute-comm, 0), 1),
	}
	return metrics.Account{End: end, GPUs: s.PrefillGPUs + s.DecodeGPUs, Pools: []serving.PoolUsage{
		{Pool: "prefill", Instances: prefillers, Ranks: prefillers, GPUs: s.PrefillGPUs, Time: prefill, Tokens: prefilled},
		{Pool: "decode", Instances: 1, Ranks: max(s.DecodeRanks, 1), GPUs: s.DecodeGPUs, Time: decode},
	}}
}

// Measure plays the story to a Collector and measures it. alter, which may be
// nil, completes the account: links, KV blocks.
func (s Story) Measure(cfg metrics.Config, alter func(a *metrics.Account)) (*metrics.Result, error) {
	c := metrics.NewCollector(cfg)
	a := s.Play(c.Listener())
	if alter != nil {
		alter(&a)
	}
	return c.Finish(a)
}
