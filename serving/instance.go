package serving

import (
	"math"

	"github.com/tgssim/tgssim/collective"
	"github.com/tgssim/tgssim/compute"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// An instance is one replica of the model: ranks that step together.
type instance struct {
	pool    *pool
	index   int // in the pool
	number  int // over the cluster: the argument of its events
	gpus    int
	ranks   []*rank
	stepper stepper

	load int64 // of all its ranks

	dispatch, combine [2]*allToAll
	routing           *routing   // nil where tokens choose evenly
	units             [2][]int64 // tokens per rank as last given to the network
	halves            [2][]int64 // of the units of a combine in two halves
	scratch           [2][]int64

	stepping bool // a step runs, or the host gap before one
	waking   bool // a step is about to begin at this instant
	began    sim.Time
	ended    sim.Time
	idleFrom sim.Time

	stepCount int64
	tokens    int64
	requests  int   // of the running step
	batch     int   // tokens of the running step
	output    int64 // tokens that the running step gives, in decode
	context   int64 // tokens of KV that it reads, in decode
	clock     decodeClock
	time      GPUTime
	comm      CommTime
	volume    CommVolume
	sampling  Sampling
	twoBatch  int  // steps that ran as two micro-batches
	last      Step // what the listener was told, here so that telling allocates nothing
}

// wake schedules a step at this very instant, behind the events already due, so
// that all who arrive together are seen together. At the instant at which a step
// has ended, it begins after the host's gap, as if the work had been there just
// before: the order of events at one instant is an accident.
func (in *instance) wake() {
	if in.stepping || in.waking {
		return
	}
	if in.stepCount > 0 && in.ended == in.pool.c.engine.Now() {
		in.stepping = true
		in.next()
		return
	}
	in.waking = true
	in.pool.c.engine.After(0, in.pool.c.handler, kindNextStep, uint32(in.number))
}

// beginStep starts a step if there is anything to do.
func (in *instance) beginStep() {
	now := in.pool.c.engine.Now()
	if in.stepping {
		in.time.Host.Add(now-in.ended, in.gpus)
	} else {
		in.accountIdle(now)
	}
	in.waking = false
	if in.routing != nil {
		in.routing.stepBegins()
	}
	var w work
	ok := false
	if in.pool == in.pool.c.prefill {
		ok = in.planPrefill(now, &w)
	} else {
		ok = in.planDecode(now, &w)
	}
	if !ok {
		in.stepping = false
		in.idleFrom = now
		return
	}
	in.stepping = true
	in.began = now
	in.stepCount++
	in.stepper.begin(w)
}

// endStep is called by the stepper when a step has ended.
func (in *instance) endStep() {
	c := in.pool.c
	now := c.engine.Now()
	a := &in.stepper.acct
	in.time.Compute.Add(a.ComputeTotal, 1)
	in.time.Barrier.Add(a.Compute*sim.Time(in.gpus)-a.ComputeTotal, 1)
	in.time.Dispatch.Add(a.Dispatch, in.gpus)
	in.time.Combine.Add(a.Combine, in.gpus)
	in.time.AllReduce.Add(a.AllReduce, in.gpus)
	in.comm.add(&a.CommTime)
	in.volume.add(&a.CommVolume)
	in.sampling.add(&in.stepper, now-in.began)
	if in.stepper.work.program != nil && in.stepper.work.program.batches == 2 {
		in.twoBatch++
	}
	if l := c.opt.Listener.Step; l != nil {
		in.last = Step{
			Pool: in.pool.name, Instance: in.index, Start: in.began, End: now,
			Requests: in.requests, Tokens: in.batch, Output: in.output, Context: in.context,
			Compute: a.Compute, Dispatch: a.Dispatch, Combine: a.Combine, AllReduce: a.AllReduce,
		}
		l(&in.last)
	}
	if in.routing != nil {
		in.routing.stepEnded()
	}
	more := false
	if in.pool == c.prefill {
		more = in.finishPrefill(now, a)
	} else {
		more = in.finishDecode(now, a)
	}
	in.ended = now
	if more {
		in.next()
		return
	}
	in.stepping = false
	in.idleFrom = now
}

// next schedules the next step, after the host's gap.
func (in *instance) next() {
	c, gap := in.pool.c, in.pool.cfg.HostGap
	in.clock.host += gap
	c.engine.After(gap, c.handler, kindNextStep, uint32(in.number))
}

// accountIdle attributes the idle time up to now.
func (in *instance) accountIdle(now sim.Time) {
	if in.stepping {
		return
	}
	if in.starved() {
		in.time.WaitingKV.Add(now-in.idleFrom, in.gpus)
	} else {
		in.time.Idle.Add(now-in.idleFrom, in.gpus)
	}
	in.idleFrom = now
}

// starved tells whether an idle instance is idle for want of KV: on a decode
// instance, transfers on their way to it; on a prefill instance, prompts that
// wait for memory that earlier prompts' KV still holds.
func (in *instance) starved() bool {
	for _, r := range in.ranks {
		if r.inbound > 0 || r.queue.len > 0 {
			return true
		}
	}
	return false
}

// close accounts for everything up to the end of the run. A step cut short is
// split by what it did so far.
func (in *instance) close(now sim.Time) {
	switch {
	case !in.stepping:
		in.accountIdle(now)
	case in.stepper.phase == phaseIdle:
		in.time.Host.Add(now-in.ended, in.gpus)
	default:
		in.stepper.cutShort(now)
		a := &in.stepper.acct
		in.time.Dispatch.Add(a.Dispatch, in.gpus)
		in.time.Combine.Add(a.Combine, in.gpus)
		in.time.Compute.Add(now-in.began-a.Dispatch-a.Combine, in.gpus)
	}
	in.idleFrom = now
}

// batches is the number of micro-batches of a step whose busiest rank has the
// given number of tokens.
func (in *instance) batches(tokens int) int {
	cfg := &in.pool.cfg
	if cfg.Overlap == OverlapTwoBatch && in.dispatch[0] != nil && tokens >= max(2, cfg.OverlapMinTokens) {
		return 2
	}
	return 1
}

// costs are the parts of a micro-batch: those of the slowest rank, whose pace
// is everyone's, and their sums over the GPUs. The slowest is the one whose whole
// step takes longest: ranks meet at every dispatch and combine, but one that is
// behind in attention is not also ahead of itself in the shared expert.
type costs struct {
	attnIn, attnOut, shared, mlp, head cost
	longest                            sim.Time
}

func (k *costs) include(p *pool, t *compute.LayerTimes) {
	tp := sim.Time(p.cfg.TP)
	whole := sim.Time(p.dense)*(t.AttnIn+t.AttnOut+t.DenseMLP) +
		sim.Time(p.moe)*(t.AttnIn+t.AttnOut+t.Shared) + sim.Time(p.heads)*t.Head
	slowest := whole > k.longest
	k.longest = max(k.longest, whole)
	for _, part := range []struct {
		c *cost
		t sim.Time
	}{{&k.attnIn, t.AttnIn}, {&k.attnOut, t.AttnOut}, {&k.shared, t.Shared}, {&k.mlp, t.DenseMLP}, {&k.head, t.Head}} {
		part.c.total += part.t * tp
		if slowest {
			part.c.slowest = part.t
		}
	}
}

// assemble turns the per-layer costs of the micro-batches, and their tokens by
// rank, into the work of a step. The experts' times come from model.
func (in *instance) assemble(w *work, model CostModel, batches []costs, tokens [][]int64) {
	p := in.pool
	dense, moe := p.dense, p.moe
	w.stretchMilli = 1000
	for b := range batches {
		k := &batches[b]
		var group, most int64
		for _, n := range tokens[b] {
			group += n
			most = max(most, n)
		}
		reduce := collective.AllReduce(units.Bytes(most*p.tokenBytes), p.cfg.TP, p.c.opt.NVLinkRate, p.cfg.AllReduceStartup)
		k.attnOut.allReduce = reduce
		k.mlp.allReduce = reduce
		w.prologue.add(k.attnIn, dense)
		w.prologue.add(k.attnOut, dense)
		w.prologue.add(k.mlp, dense)
		w.epilogue.add(k.head, p.heads)
		if moe == 0 {
			continue
		}
		experts := in.expertsCost(model, b, tokens[b], group)
		if in.dispatch[0] == nil { // one GPU holds all experts: no traffic
			for _, c := range []cost{k.attnIn, k.attnOut, k.shared} {
				w.prologue.add(c, moe)
			}
			if in.routing != nil {
				w.prologue.add(in.routing.expertsTotal(b), 1)
			} else {
				w.prologue.add(experts, moe)
			}
			continue
		}
		w.parts[b] = [numParts]cost{
			partAttnIn: k.attnIn, partAttnOut: k.attnOut, partShared: k.shared, partExperts: experts,
		}
		in.setUnits(b, tokens[b])
	}
	if moe > 0 && in.dispatch[0] != nil {
		in.schedule(w, len(batches), moe)
	}
}

// expertsCost is the routed experts' time for one layer of a micro-batch; with
// routing, it draws the choices, from which the time of each layer follows.
func (in *instance) expertsCost(model CostModel, b int, tokens []int64, group int64) cost {
	p := in.pool
	if in.routing != nil {
		in.routing.draw(b, model, tokens, group)
		return cost{}
	}
	if group == 0 {
		return cost{}
	}
	prefill := p == p.c.prefill
	imbalance := p.cfg.MoE.Imbalance
	c := cost{slowest: model.Experts(prefill, group, imbalance)}
	mean := c.slowest
	if imbalance > 1 {
		mean = min(mean, model.Experts(prefill, group, 1))
	}
	c.total = mean * sim.Time(in.gpus)
	return c
}

// setUnits tells the network the tokens by rank, when they have changed.
func (in *instance) setUnits(batch int, tokens []int64) {
	if in.routing != nil && in.pool.cfg.MoE.Timing != collective.TimingMeasured {
		return // layer by layer: see routing.load
	}
	last := in.units[batch]
	same := len(last) == len(tokens)
	for i := 0; same && i < len(tokens); i++ {
		same = last[i] == tokens[i]
	}
	if same {
		return
	}
	in.units[batch] = append(last[:0], tokens...)
	in.giveUnits(batch, tokens)
}

// giveUnits gives the units of a micro-batch to its dispatch and combine.
func (in *instance) giveUnits(batch int, units []int64) {
	in.dispatch[batch].setUnits(units)
	if in.pool.cfg.Overlap != OverlapSingle {
		in.combine[batch].setUnits(units)
		return
	}
	in.combine[1].none = halve(units, &in.halves)
	for i, half := range in.halves {
		in.combine[i].setUnits(half)
	}
}

// schedule chooses the program of the MoE layers.
func (in *instance) schedule(w *work, batches, layers int) {
	cfg := &in.pool.cfg
	prefill := in.pool == in.pool.c.prefill
	w.layers, w.sample = layers, in.pool.c.opt.SampleLayers
	w.dispatch, w.combine, w.routing = in.dispatch, in.combine, in.routing
	w.dispatchStartup, w.combineStartup = cfg.MoE.DispatchStartup, cfg.MoE.CombineStartup
	switch {
	case batches == 2 && prefill:
		w.program = &programTwoBatchPrefill
		w.stretchMilli = int64(math.Round(1000 * cfg.CommStretch))
	case batches == 2:
		w.program = &programTwoBatchDecode
		w.stretchMilli = int64(math.Round(1000 * cfg.CommStretch))
		for b := range 2 { // the dispatch's beside AttnIn, the combine's beside AttnOut
			for _, part := range []part{partAttnIn, partAttnOut} {
				w.parts[b][part].slowest += cfg.SendRecv
				w.parts[b][part].total += cfg.SendRecv * sim.Time(in.gpus)
			}
		}
	case cfg.Overlap == OverlapNone:
		w.program = &programSequential
	case cfg.Overlap == OverlapSingle:
		w.program = &programSingle
	default:
		w.program = &programShared
	}
}
