package sim

// A HandlerID names a registered Handler inside events, which hold no pointers.
type HandlerID uint16

// An Event is something that happens at one instant. It is a plain value of 24
// bytes: the queue holds nothing for the garbage collector to follow.
type Event struct {
	At      Time
	seq     uint64
	Handler HandlerID
	// Kind and Arg mean what the handler wants them to mean.
	Kind uint16
	Arg  uint32
}

// A Handler receives the events addressed to it, one at a time, in queue order.
type Handler interface {
	Handle(e Event)
}

// A Lane is a registered constant delay; see Engine.NewLane.
type Lane uint16

// A Timer is a cancellable, movable event; see Engine.NewTimer.
type Timer uint32

// An Engine runs one simulation.
type Engine struct {
	now      Time
	seq      uint64
	heap     []Event
	handlers []Handler
	lanes    []Time
	timers   []timer
	stopped  bool
}

type timer struct {
	h    HandlerID
	kind uint16
	arg  uint32
	seq  uint64
	at   Time
}

// New returns an engine at time 0.
func New() *Engine { return &Engine{} }

// Register gives h an ID to be addressed by.
func (e *Engine) Register(h Handler) HandlerID {
	e.handlers = append(e.handlers, h)
	return HandlerID(len(e.handlers) - 1)
}

// Now is the current instant.
func (e *Engine) Now() Time { return e.now }

// At schedules an event at instant t, which must not be before Now. Events at
// the same instant run in the order in which they were scheduled.
func (e *Engine) At(t Time, h HandlerID, kind uint16, arg uint32) {
	e.seq++
	e.push(Event{At: t, seq: e.seq, Handler: h, Kind: kind, Arg: arg})
}

// After schedules an event d from now.
func (e *Engine) After(d Time, h HandlerID, kind uint16, arg uint32) {
	e.At(e.now+d, h, kind, arg)
}

// NewLane registers a constant delay. Events scheduled through it cost O(1).
func (e *Engine) NewLane(delay Time) Lane {
	e.lanes = append(e.lanes, delay)
	return Lane(len(e.lanes) - 1)
}

// AfterLane schedules an event the lane's delay from now.
func (e *Engine) AfterLane(l Lane, h HandlerID, kind uint16, arg uint32) {
	e.After(e.lanes[l], h, kind, arg)
}

const timerHandler HandlerID = 1<<16 - 1

// NewTimer makes a disarmed timer that will deliver (h, kind, arg).
func (e *Engine) NewTimer(h HandlerID, kind uint16, arg uint32) Timer {
	e.timers = append(e.timers, timer{h: h, kind: kind, arg: arg, at: Never})
	return Timer(len(e.timers) - 1)
}

// Arm sets or moves the timer to instant t. A moved timer takes its place at t
// behind the events already scheduled there.
func (e *Engine) Arm(id Timer, t Time) {
	e.seq++
	e.timers[id].seq, e.timers[id].at = e.seq, t
	e.push(Event{At: t, seq: e.seq, Handler: timerHandler, Arg: uint32(id)})
}

// Disarm cancels the timer; nothing happens when it is not armed.
func (e *Engine) Disarm(id Timer) { e.timers[id].seq, e.timers[id].at = 0, Never }

// Armed tells whether the timer is set, and for when.
func (e *Engine) Armed(id Timer) (Time, bool) { return e.timers[id].at, e.timers[id].seq != 0 }

// Stop makes Run return after the current event.
func (e *Engine) Stop() { e.stopped = true }

// Run executes events until none is left or Stop is called.
func (e *Engine) Run() { e.RunUntil(Never) }

// RunUntil executes the events up to and including instant t.
func (e *Engine) RunUntil(t Time) {
	e.stopped = false
	for len(e.heap) > 0 && !e.stopped && e.heap[0].At <= t {
		ev := e.pop()
		if ev.Handler == timerHandler {
			tm := &e.timers[ev.Arg]
			if tm.seq != ev.seq {
				continue
			}
			tm.seq, tm.at = 0, Never
			ev.Handler, ev.Kind, ev.Arg = tm.h, tm.kind, tm.arg
		}
		e.now = ev.At
		e.handlers[ev.Handler].Handle(ev)
	}
}

func less(a, b *Event) bool { return a.At < b.At || a.At == b.At && a.seq < b.seq }

func (e *Engine) push(ev Event) {
	h := append(e.heap, ev)
	i := len(h) - 1
	for i > 0 && less(&h[i], &h[(i-1)/2]) {
		h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
		i = (i - 1) / 2
	}
	e.heap = h
}

func (e *Engine) pop() Event {
	h := e.heap
	top := h[0]
	n := len(h) - 1
	h[0] = h[n]
	h = h[:n]
	for i := 0; ; {
		c := 2*i + 1
		if c >= n {
			break
		}
		if c+1 < n && less(&h[c+1], &h[c]) {
			c++
		}
		if !less(&h[c], &h[i]) {
			break
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
	e.heap = h
	return top
}
