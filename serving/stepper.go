package serving

import (
	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/sim"
)

// A stepper executes the steps of one instance: a prologue (dense layers), the
// MoE layers by a program over a compute and a communication stream, and an
// epilogue (the LM head). Every picosecond of a step is attributed: the compute
// stream is either computing, or waiting for an operation of a known kind.
type stepper struct {
	engine  *sim.Engine
	handler sim.HandlerID
	index   uint32 // argument of this stepper's events
	done    func() // called when the step has ended

	work   work
	phase  phase
	next   [numStreams]int // operations begun or skipped
	ended  [numStreams]int // operations ended or skipped
	busy   [numStreams]bool
	layers int
	lead   sim.Time // of the combine in two halves under way

	blockedAt sim.Time
	blockedOn part
	blocked   bool

	acct    stepAccount
	sampler sampler
}

// phase is how far a step has come.
type phase uint8

const (
	phaseIdle phase = iota
	phasePrologue
	phaseLayers
	phaseEpilogue
)

// Event kinds of a stepper; the cluster dispatches on them.
const (
	kindComputeDone uint16 = iota
	kindCommDone
	kindPhaseDone
	kindNextStep
	kindArrival
	kindSkipDone
)

// A cost is the time of one operation on the slowest rank, and what all the
// instance's GPUs together spend computing in it.
type cost struct {
	// slowest is the compute time of the slowest rank.
	slowest sim.Time
	// total is compute time summed over the GPUs, at most slowest x GPUs.
	total sim.Time
	// allReduce is the tensor-parallel all-reduce that follows, with the compute
	// stream waiting.
	allReduce sim.Time
}

func (c *cost) add(o cost, times int) {
	c.slowest += o.slowest * sim.Time(times)
	c.total += o.total * sim.Time(times)
	c.allReduce += o.allReduce * sim.Time(times)
}

// work is what one step has to do.
type work struct {
	// prologue is everything before the MoE layers; for a dense model, the whole
	// step. epilogue comes after them.
	prologue, epilogue cost
	// program runs the MoE layers; nil when there are none.
	program *program
	layers  int
	// sample is how many of the layers to simulate, 0 for all; see sampler.
	sample int
	// parts is the compute parts' cost, by micro-batch.
	parts [2][numParts]cost
	// collectives run dispatch and combine, by micro-batch.
	dispatch, combine [2]*allToAll
	// routing gives the routed experts' cost and the traffic layer by layer; nil
	// where all layers are alike.
	routing *routing
	// startup of dispatch and combine, and the stretch of both, in thousandths.
	dispatchStartup, combineStartup sim.Time
	stretchMilli                    int64
}

// stepAccount is where the time of a step went. Compute, Dispatch, Combine and
// AllReduce tile the step; ComputeTotal sums computing over the GPUs.
type stepAccount struct {
	Compute, Dispatch, Combine, AllReduce sim.Time
	ComputeTotal                          sim.Time
	CommTime
	CommVolume
}

// CommTime is where the time of dispatches and combines goes, hidden or not.
// The fields tile it, but for the stretch that compute beside it causes.
type CommTime struct {
	// Startup is kernels and posting.
	Startup sim.Time
	// Latency does not grow with bytes; Ports is the bytes of the busiest end port.
	Latency, Ports sim.Time
	// Paths is what links inside the fabric add, with no other traffic on them:
	// uneven ECMP, oversubscription.
	Paths sim.Time
	// Contention is what sharing links with other traffic adds.
	Contention sim.Time
}

func (c *CommTime) heard(d *fabric.Delivery) {
	c.Startup += d.Post
	c.Latency += d.Latency
	c.Ports += d.Ideal - d.Latency
	c.Paths += d.Wire - d.Ideal
	c.Contention += d.Queue
}

func (c *CommTime) add(o *CommTime) {
	c.Startup += o.Startup
	c.Latency += o.Latency
	c.Ports += o.Ports
	c.Paths += o.Paths
	c.Contention += o.Contention
}

// comm is the part of the step in which communication was exposed.
func (a *stepAccount) comm() sim.Time { return a.Dispatch + a.Combine + a.AllReduce }

// begin starts a step; done is called at its end.
func (s *stepper) begin(w work) {
	s.work = w
	s.acct = stepAccount{}
	s.next, s.ended = [numStreams]int{}, [numStreams]int{}
	s.layers = w.layers
	s.sample()
	s.run(phasePrologue, w.prologue)
}

// run computes a whole phase in one event.
func (s *stepper) run(p phase, c cost) {
	s.phase = p
	s.charge(c)
	s.engine.After(c.slowest+c.allReduce, s.handler, kindPhaseDone, s.index)
}

func (s *stepper) charge(c cost) {
	s.acct.Compute += c.slowest
	s.acct.ComputeTotal += c.total
	s.acct.AllReduce += c.allReduce
}

// phaseDone moves on from the prologue or the epilogue.
func (s *stepper) phaseDone() {
	switch {
	case s.phase == phasePrologue && s.work.program != nil:
		s.phase = phaseLayers
		s.mark()
		s.advance()
	case s.phase == phasePrologue:
		s.run(phaseEpilogue, s.work.epilogue)
	default:
		s.phase = phaseIdle
		s.done()
	}
}

// advance begins every operation that can begin, and ends the phase when both
// streams are through.
func (s *stepper) advance() {
	p := s.work.program
	for progress := true; progress; {
		progress = s.advanceStream(p, streamCompute)
		if s.advanceStream(p, streamComm) {
			progress = true
		}
	}
	total := s.layers + p.maxLag
	if s.ended[streamCompute] == total*len(p.ops[streamCompute]) {
		if s.ended[streamComm] == total*len(p.ops[streamComm]) {
			s.unblock(s.engine.Now())
			s.run(phaseEpilogue, s.work.epilogue)
			return
		}
		// Only communication is left: the compute stream waits for it.
		s.block(s.current(streamComm))
	}
}

// current is the kind of the operation that the stream is running or stuck at.
func (s *stepper) current(on stream) part {
	ops := s.work.program.ops[on]
	return ops[s.ended[on]%len(ops)].part
}

// advanceStream begins operations of one stream until one takes time or must
// wait; it reports whether any was begun or skipped.
func (s *stepper) advanceStream(p *program, on stream) bool {
	ops := p.ops[on]
	total := (s.layers + p.maxLag) * len(ops)
	moved := false
	for !s.busy[on] && s.next[on] < total {
		iteration, o := s.next[on]/len(ops), &ops[s.next[on]%len(ops)]
		if layer := iteration - int(o.lag); layer < 0 || layer >= s.layers {
			s.next[on]++
			s.ended[on]++
			moved = true
			continue
		}
		if d := s.unmet(p, o, iteration); d != nil {
			if on == streamCompute {
				s.block(p.ops[d.on][d.op].part)
			}
			break
		}
		s.next[on]++
		moved = true
		if on == streamCompute {
			s.unblock(s.engine.Now())
			s.compute(o, iteration-int(o.lag))
		} else {
			s.communicate(o, iteration-int(o.lag))
		}
	}
	return moved
}

// unmet returns a dependency that has not ended yet, or nil.
func (s *stepper) unmet(p *program, o *op, iteration int) *dep {
	for i := range o.after {
		d := &o.after[i]
		if back := iteration - d.back; back >= 0 && s.ended[d.on] <= back*len(p.ops[d.on])+d.op {
			return d
		}
	}
	return nil
}

// cost is that of a compute operation on a layer.
func (w *work) cost(o *op, layer int) cost {
	c := w.parts[o.batch][o.part]
	if o.part != partExperts {
		return c
	}
	if w.routing != nil {
		c = w.routing.costOf(o.batch, layer)
	}
	if w.program.halves {
		return o.half(c)
	}
	return c
}

func (s *stepper) compute(o *op, layer int) {
	c := s.work.cost(o, layer)
	s.charge(c)
	if d := c.slowest + c.allReduce; d > 0 {
		s.busy[streamCompute] = true
		s.engine.After(d, s.handler, kindComputeDone, s.index)
		return
	}
	s.ended[streamCompute]++
}

func (s *stepper) communicate(o *op, layer int) {
	s.busy[streamComm] = true
	if o.part == partDispatch {
		if s.work.routing != nil {
			s.work.routing.load(o.batch, layer)
		}
		s.work.dispatch[o.batch].Start(s.work.dispatchStartup, uint64(s.index), s)
		return
	}
	switch c := s.work.combine[o.batch]; {
	case !o.rest:
		s.lead = s.work.lead()
		c.Start(s.work.combineStartup-s.lead, uint64(s.index), s)
	case c.none:
		s.engine.After(0, s.handler, kindCommDone, s.index)
	default:
		c.Start(0, uint64(s.index), s)
	}
}

// lead is by how much the first half of a combine is early, so that the bytes of
// the second follow its own without the latency between them.
func (w *work) lead() sim.Time {
	if second := w.combine[1]; w.program.halves && !second.none {
		return min(second.Latency(), w.combineStartup)
	}
	return 0
}

// Delivered hears from the fabric that the running dispatch or combine is
// through. Contention on the SMs stretches what it takes on an ideal fabric;
// what the fabric adds is not the SMs' fault.
func (s *stepper) Delivered(d fabric.Delivery) {
	o := &s.work.program.ops[streamComm][s.ended[streamComm]%len(s.work.program.ops[streamComm])]
	s.acct.CommTime.heard(&d)
	if o.rest { // both halves have one start-up and one latency
		lead := min(s.lead, d.Latency)
		s.acct.Startup += lead
		s.acct.Latency -= lead
	}
	s.acct.CommVolume.heard(o, &d, &s.work.allToAll(o).volume)
	if extra := int64(d.Post+d.Ideal) * (s.work.stretchMilli - 1000) / 1000; extra > 0 {
		s.engine.After(sim.Time(extra), s.handler, kindCommDone, s.index)
		return
	}
	s.opDone(streamComm)
}

// allToAll is what a communication operation runs.
func (w *work) allToAll(o *op) *allToAll {
	if o.part == partDispatch {
		return w.dispatch[o.batch]
	}
	return w.combine[o.batch]
}

// opDone ends the running operation of a stream.
func (s *stepper) opDone(on stream) {
	if d := s.sampler.deferred; on == streamCompute && d > 0 { // layers were skipped meanwhile
		s.sampler.deferred = 0
		s.engine.After(d, s.handler, kindComputeDone, s.index)
		return
	}
	s.busy[on] = false
	s.ended[on]++
	if on == streamComm && s.iterationEnded() {
		return
	}
	s.advance()
}

func (s *stepper) block(on part) {
	if !s.blocked {
		s.blocked, s.blockedAt, s.blockedOn = true, s.engine.Now(), on
	} else if s.blockedOn != on {
		s.unblock(s.engine.Now())
		s.block(on)
	}
}

// unblock books the wait of the compute stream up to now.
func (s *stepper) unblock(now sim.Time) {
	if !s.blocked {
		return
	}
	s.blocked = false
	waited := now - s.blockedAt
	if s.blockedOn == partCombine {
		s.acct.Combine += waited
	} else {
		s.acct.Dispatch += waited
	}
}
