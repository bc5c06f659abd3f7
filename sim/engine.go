package sim

import (
	"fmt"

	"github.com/tgssim/tgssim/internal/invariants"
)

// A Lane is a registered constant delay; see Engine.NewLane.
type Lane uint16

// A Timer is a cancellable, movable event; see Engine.NewTimer.
type Timer uint32

// An Engine runs one simulation. It is not safe for concurrent use.
type Engine struct {
	now         Time
	seq         uint64
	events      uint64
	fingerprint uint64
	stopped     bool
	running     bool

	queue  queue
	plain  *plainQueue // in place of queue when not nil
	delays []Time      // of each lane
	// laneOf finds the lane of a delay. It is looked up, never ranged over.
	laneOf   map[Time]Lane
	handlers []Handler

	// Kept when invariants are enabled: the key of the latest event, and the
	// number of events until the next check of the whole queue.
	last       key
	untilCheck int
}

// An Option changes how an Engine orders its events.
type Option func(*Engine)

// HeapOnly keeps every event in one plain binary heap. The order is the same as
// without it and the run slower; it is there to check the faster queue by.
func HeapOnly() Option {
	return func(e *Engine) { e.usePlain() }
}

// ShuffleTies runs events of the same instant in a pseudo-random order that
// depends on the seed, instead of the order in which they were scheduled. A
// result that changes with the seed depends on the order among equals.
func ShuffleTies(seed uint64) Option {
	return func(e *Engine) {
		e.usePlain()
		e.plain.shuffled, e.plain.seed = true, scramble(seed)
	}
}

func (e *Engine) usePlain() {
	if e.plain == nil {
		e.plain = &plainQueue{}
	}
}

// New returns an engine at time 0.
func New(opts ...Option) *Engine {
	e := &Engine{fingerprint: fingerprintSeed, laneOf: map[Time]Lane{}}
	e.queue.init()
	for _, o := range opts {
		o(e)
	}
	return e
}

// Register gives h an ID to be addressed by. There are 65,535 of them; a handler
// with many instances tells them apart by Event.Arg.
func (e *Engine) Register(h Handler) HandlerID {
	if len(e.handlers) == int(timerHandler) {
		panic("sim: more than 65535 handlers")
	}
	e.handlers = append(e.handlers, h)
	return HandlerID(len(e.handlers) - 1)
}

// Now is the instant of the event being handled, or of the last one that was; 0
// before the first.
func (e *Engine) Now() Time { return e.now }

// At schedules an event at instant t. Events of the same instant run in the
// order in which they were scheduled. It panics when t is before Now; at Never
// it does nothing.
func (e *Engine) At(t Time, h HandlerID, kind uint16, arg uint32) {
	if t < e.now {
		e.panicPast(t)
	}
	if t == Never {
		return
	}
	e.seq++
	if e.plain != nil {
		e.plain.push(t, e.seq, pack(h, kind, arg))
		return
	}
	e.queue.push(entry{t, e.seq, pack(h, kind, arg)})
}

// After schedules an event d from now, which is Never when the sum overflows. It
// panics when d is negative.
func (e *Engine) After(d Time, h HandlerID, kind uint16, arg uint32) {
	t := e.now + d
	if t < e.now && d >= 0 {
		t = Never
	}
	e.At(t, h, kind, arg)
}

// NewLane registers a constant delay. Events scheduled through it cost O(1)
// whatever their number. The same delay gives the same lane. It panics when the
// delay is negative.
func (e *Engine) NewLane(delay Time) Lane {
	if delay < 0 {
		panic(fmt.Sprintf("sim: a lane with the negative delay %v", delay))
	}
	if l, ok := e.laneOf[delay]; ok {
		return l
	}
	if len(e.delays) > 1<<16-1 {
		panic("sim: more than 65536 lanes")
	}
	l := Lane(len(e.delays))
	e.laneOf[delay] = l
	e.delays = append(e.delays, delay)
	e.queue.addLane()
	return l
}

// AfterLane schedules an event the lane's delay from now. It is After with that
// delay, in order and in everything else.
func (e *Engine) AfterLane(l Lane, h HandlerID, kind uint16, arg uint32) {
	t := e.now + e.delays[l]
	if uint64(t) >= uint64(Never) { // Never, or negative by overflow
		return
	}
	e.seq++
	if e.plain != nil {
		e.plain.push(t, e.seq, pack(h, kind, arg))
		return
	}
	e.queue.pushLane(int(l), entry{t, e.seq, pack(h, kind, arg)})
}

// NewTimer makes a disarmed timer that will deliver (h, kind, arg).
func (e *Engine) NewTimer(h HandlerID, kind uint16, arg uint32) Timer {
	if e.plain != nil {
		return e.plain.newTimer(pack(h, kind, arg))
	}
	return e.queue.timers.add(pack(h, kind, arg))
}

// Arm sets or moves the timer to instant t. Even one that was set for t already
// takes its place behind the events scheduled there. It panics when t is before
// Now; arming at Never disarms.
func (e *Engine) Arm(id Timer, t Time) {
	if t < e.now {
		e.panicPast(t)
	}
	if t == Never {
		e.Disarm(id)
		return
	}
	e.seq++
	if e.plain != nil {
		e.plain.arm(id, t, e.seq)
		return
	}
	e.queue.arm(id, t, e.seq)
}

// Disarm cancels the timer; nothing happens when it is not armed.
func (e *Engine) Disarm(id Timer) {
	if e.plain != nil {
		e.plain.disarm(id)
		return
	}
	e.queue.disarm(id)
}

// Armed tells whether the timer is set, and for when; Never when it is not. A
// timer is no longer armed when its event is handled, and may be armed again
// there.
func (e *Engine) Armed(id Timer) (Time, bool) {
	if e.plain != nil {
		return e.plain.armed(id)
	}
	return e.queue.timers.armed(id)
}

// Stop makes the Run or RunUntil under way return after the current event. The
// next one goes on from there.
func (e *Engine) Stop() { e.stopped = true }

// Run executes events until none is left or Stop is called. It panics when called
// from inside a handler, as RunUntil and Step do.
func (e *Engine) Run() { e.RunUntil(Never) }

// RunUntil executes the events up to and including instant t, those scheduled
// meanwhile included, until Stop is called. Now stays at the last event
// executed; it does not move on to t.
func (e *Engine) RunUntil(t Time) {
	e.enter()
	defer e.leave()
	for limit := min(t, Never-1); !e.stopped && e.step(limit); {
	}
}

// Step executes the next event and tells whether there was one.
func (e *Engine) Step() bool {
	e.enter()
	defer e.leave()
	return e.step(Never - 1)
}

// Pending is the number of events waiting, armed timers included.
func (e *Engine) Pending() int {
	if e.plain != nil {
		return e.plain.len()
	}
	return e.queue.len()
}

// Events is the number of events executed.
func (e *Engine) Events() uint64 { return e.events }

// Fingerprint is a hash of the run so far: of the instant, handler, kind and
// argument of every event executed and of every value given to Mix, in order.
// Runs of one model with equal fingerprints took the same course.
func (e *Engine) Fingerprint() uint64 { return scramble(e.fingerprint) }

// Mix adds a value to the fingerprint, such as a measurement or a decision that
// the events do not show.
func (e *Engine) Mix(v uint64) { e.fingerprint = fold(e.fingerprint, v) }

func (e *Engine) step(limit Time) bool {
	var x entry
	var ok bool
	if e.plain != nil {
		x, ok = e.plain.pop(limit)
	} else {
		x, ok = e.queue.pop(limit)
	}
	if !ok {
		return false
	}
	if invariants.Enabled {
		e.check(x)
	}
	e.now = x.at
	e.events++
	e.fingerprint = fold(fold(e.fingerprint, uint64(x.at)), x.what)
	ev := x.event()
	e.handlers[ev.Handler].Handle(ev)
	return true
}

func (e *Engine) enter() {
	if e.running {
		panic("sim: Run, RunUntil or Step called from inside a handler")
	}
	e.running, e.stopped = true, false
}

func (e *Engine) leave() { e.running = false }

func (e *Engine) panicPast(t Time) {
	panic(fmt.Sprintf("sim: scheduling at %v, which is before now, %v", t, e.now))
}

// check panics when x, about to be executed, is out of order.
func (e *Engine) check(x entry) {
	shuffled := e.plain != nil && e.plain.shuffled
	if x.at < e.now || !shuffled && less(e.last, x.key()) == 0 {
		panic(fmt.Sprintf("sim: event %v after %v", x, e.last))
	}
	e.last = x.key()
	if e.untilCheck--; e.plain == nil && e.untilCheck < 0 {
		e.queue.check()
		e.untilCheck = e.queue.len() // so that an event costs O(1) on average
	}
}
