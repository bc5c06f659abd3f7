package sim

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "github.com/tgssim/tgssim/internal/testkit" // the same draws in every run
)

// A kernel is what the tests in this file hold against each other: the engine,
// the engine with HeapOnly, and sortedKernel.
type kernel interface {
	Register(h Handler) HandlerID
	Now() Time
	At(t Time, h HandlerID, kind uint16, arg uint32)
	After(d Time, h HandlerID, kind uint16, arg uint32)
	NewLane(delay Time) Lane
	AfterLane(l Lane, h HandlerID, kind uint16, arg uint32)
	NewTimer(h HandlerID, kind uint16, arg uint32) Timer
	Arm(id Timer, t Time)
	Disarm(id Timer)
	Armed(id Timer) (Time, bool)
	Stop()
	Run()
	RunUntil(t Time)
	Step() bool
	Pending() int
}

// A sortedKernel is the definition of the order in as few words as possible: a
// list of events, stably sorted by instant before every pop. A timer's event is
// taken out of the list and appended anew.
type sortedKernel struct {
	now      Time
	handlers []Handler
	delays   []Time
	timers   []Event
	list     []sortedEvent
	stopped  bool
}

type sortedEvent struct {
	Event
	timer int // -1 when it is not one's
}

func (k *sortedKernel) Register(h Handler) HandlerID {
	k.handlers = append(k.handlers, h)
	return HandlerID(len(k.handlers) - 1)
}

func (k *sortedKernel) Now() Time { return k.now }

func (k *sortedKernel) add(e sortedEvent) {
	if e.At < k.now {
		panic("in the past")
	}
	if e.At != Never {
		k.list = append(k.list, e)
	}
}

func (k *sortedKernel) At(t Time, h HandlerID, kind uint16, arg uint32) {
	k.add(sortedEvent{Event{t, h, kind, arg}, -1})
}

func (k *sortedKernel) After(d Time, h HandlerID, kind uint16, arg uint32) {
	k.At(addSaturating(k.now, d), h, kind, arg)
}

func (k *sortedKernel) NewLane(delay Time) Lane {
	k.delays = append(k.delays, delay)
	return Lane(len(k.delays) - 1)
}

func (k *sortedKernel) AfterLane(l Lane, h HandlerID, kind uint16, arg uint32) {
	k.After(k.delays[l], h, kind, arg)
}

func (k *sortedKernel) NewTimer(h HandlerID, kind uint16, arg uint32) Timer {
	k.timers = append(k.timers, Event{Handler: h, Kind: kind, Arg: arg})
	return Timer(len(k.timers) - 1)
}

func (k *sortedKernel) Arm(id Timer, t Time) {
	k.Disarm(id)
	e := k.timers[id]
	e.At = t
	k.add(sortedEvent{e, int(id)})
}

func (k *sortedKernel) Disarm(id Timer) {
	k.list = slices.DeleteFunc(k.list, func(e sortedEvent) bool { return e.timer == int(id) })
}

func (k *sortedKernel) Armed(id Timer) (Time, bool) {
	for _, e := range k.list {
		if e.timer == int(id) {
			return e.At, true
		}
	}
	return Never, false
}

func (k *sortedKernel) Stop() { k.stopped = true }

func (k *sortedKernel) Run() { k.RunUntil(Never) }

func (k *sortedKernel) RunUntil(t Time) {
	for k.stopped = false; !k.stopped && k.step(t); {
	}
}

func (k *sortedKernel) Step() bool { return k.step(Never) }

func (k *sortedKernel) step(t Time) bool {
	slices.SortStableFunc(k.list, func(a, b sortedEvent) int {
		switch {
		case a.At < b.At:
			return -1
		case a.At > b.At:
			return 1
		}
		return 0
	})
	if len(k.list) == 0 || k.list[0].At > t {
		return false
	}
	e := k.list[0]
	k.list = slices.Delete(k.list, 0, 1)
	k.now = e.At
	k.handlers[e.Handler].Handle(e.Event)
	return true
}

func (k *sortedKernel) Pending() int { return len(k.list) }

func addSaturating(a, b Time) Time {
	if b > Never-a {
		return Never
	}
	return a + b
}

// An op is one thing that a handler, or the program outside, does to a kernel.
type op struct {
	Do    string
	Delay Time // for at, after, arm and newlane
	Which int  // lane or timer, modulo their number
	Times int  // how often, for lane
}

// A script is a whole program: what to do before the run, on the n-th event, and
// between the pieces of a run.
type script struct {
	Lanes   []Time
	Timers  int
	Before  []op
	On      [][]op
	Between []op
	Pieces  []Time // spans of RunUntil, from the last event
}

// delays are the adversarial ones: ties, the immediate future, each lane's delay
// and its neighbours, and the end of time.
func drawDelay(lanes []Time) *rapid.Generator[Time] {
	choices := []Time{0, 0, 1, 2, 3, 1000, Never - 1, Never / 2, Never - 4, Never}
	for _, d := range lanes {
		choices = append(choices, d, d+1, addSaturating(d, d), max(0, d-1))
	}
	return rapid.OneOf(
		rapid.SampledFrom(choices),
		rapid.Custom(func(t *rapid.T) Time { return Time(rapid.Int64Range(0, 12).Draw(t, "short")) }),
		rapid.Custom(func(t *rapid.T) Time { return Time(rapid.Int64Range(0, 1<<40).Draw(t, "long")) }),
	)
}

func drawScript() *rapid.Generator[script] {
	return rapid.Custom(func(t *rapid.T) script {
		lane := rapid.Custom(func(t *rapid.T) Time {
			return Time(rapid.OneOf(rapid.Int64Range(0, 4), rapid.Just(int64(frameDelay)), rapid.Just(int64(1)<<62)).Draw(t, "delay"))
		})
		s := script{
			Lanes:  rapid.SliceOfN(lane, 1, 6).Draw(t, "lanes"),
			Timers: rapid.IntRange(1, 40).Draw(t, "timers"),
		}
		delay := drawDelay(s.Lanes)
		operation := rapid.Custom(func(t *rapid.T) op {
			o := op{
				Do: rapid.SampledFrom([]string{
					"at", "after", "lane", "lane", "arm", "arm", "rearm", "disarm", "newlane", "newtimer", "stop",
				}).Draw(t, "do"),
				Delay: delay.Draw(t, "delay"),
				Which: rapid.IntRange(0, 40).Draw(t, "which"),
				Times: 1,
			}
			if rapid.IntRange(0, 15).Draw(t, "burst") == 0 {
				o.Times = rapid.IntRange(2, 3*ringMin).Draw(t, "times")
			}
			return o
		})
		size := rapid.SampledFrom([]int{5, 15, 40}).Draw(t, "size")
		s.Before = rapid.SliceOfN(operation, 1, 12).Draw(t, "before")
		s.On = rapid.SliceOfN(rapid.SliceOfN(operation, size/10, 4), size, 2*size).Draw(t, "on")
		s.Between = rapid.SliceOfN(operation, 0, 20).Draw(t, "between")
		s.Pieces = rapid.SliceOfN(delay, 0, 20).Draw(t, "pieces")
		return s
	})
}

// A seen is everything a handler can observe when an event comes.
type seen struct {
	Event   Event
	Now     Time
	Pending int
	Armed   []Time
}

// An actor plays a script on a kernel and keeps a diary.
type actor struct {
	k     kernel
	s     script
	ids   [2]HandlerID
	lanes []Lane
	timer []Timer
	count uint32
	diary []seen
}

func play(k kernel, s script) *actor {
	a := &actor{k: k, s: s}
	a.ids = [2]HandlerID{k.Register(a), k.Register(a)}
	for _, d := range s.Lanes {
		a.lanes = append(a.lanes, k.NewLane(d))
	}
	for range s.Timers {
		a.newTimer()
	}
	a.do(s.Before)
	return a
}

func (a *actor) newTimer() {
	n := len(a.timer)
	a.timer = append(a.timer, a.k.NewTimer(a.ids[n%2], 1000, uint32(n)))
}

func (a *actor) Handle(e Event) {
	n := len(a.diary)
	a.look(e)
	if n < len(a.s.On) {
		a.do(a.s.On[n])
	}
}

func (a *actor) look(e Event) {
	if e, ok := a.k.(*Engine); ok {
		e.queue.check()
	}
	s := seen{Event: e, Now: a.k.Now(), Pending: a.k.Pending()}
	for _, id := range a.timer {
		at, ok := a.k.Armed(id)
		if !ok && at != Never {
			at = -1
		}
		s.Armed = append(s.Armed, at)
	}
	a.diary = append(a.diary, s)
}

func (a *actor) do(ops []op) {
	k := a.k
	for _, o := range ops {
		id := a.timer[o.Which%len(a.timer)]
		for range o.Times {
			a.count++
			h, kind := a.ids[a.count%2], uint16(a.count%3)
			switch o.Do {
			case "at":
				k.At(addSaturating(k.Now(), o.Delay), h, kind, a.count)
			case "after":
				k.After(o.Delay, h, kind, a.count)
			case "lane":
				k.AfterLane(a.lanes[o.Which%len(a.lanes)], h, kind, a.count)
			case "arm":
				k.Arm(id, addSaturating(k.Now(), o.Delay))
			case "rearm": // a little earlier or later than it is, or the same
				at, _ := k.Armed(id)
				if at != Never {
					at += Time(o.Which%5) - 2
				}
				k.Arm(id, max(k.Now(), at))
			case "disarm":
				k.Disarm(id)
			}
		}
		switch o.Do {
		case "newlane":
			a.lanes = append(a.lanes, k.NewLane(min(o.Delay, Never)))
		case "newtimer":
			a.newTimer()
		case "stop":
			k.Stop()
		}
	}
}

// drive runs a kernel to the end in one of three ways.
func (a *actor) drive(how string) {
	switch how {
	case "step":
		for a.k.Step() {
		}
	case "pieces":
		for i, p := range a.s.Pieces {
			a.k.RunUntil(addSaturating(a.k.Now(), p))
			a.look(Event{})
			if i < len(a.s.Between) {
				a.do(a.s.Between[i : i+1])
			}
		}
	}
	for a.k.Pending() > 0 { // again after every Stop
		a.k.Run()
		a.look(Event{})
	}
}

// The lanes, heap and timers execute what the plain heap executes and what a
// stable sort says, and every handler sees the same world, under times made to
// confuse them.
func TestOrderIsThatOfASort(t *testing.T) {
	for _, how := range []string{"run", "step", "pieces"} {
		t.Run(how, rapid.MakeCheck(func(t *rapid.T) {
			s := drawScript().Draw(t, "script")
			engine, plain := New(), New(HeapOnly())
			lanes, heap, sorted := play(engine, s), play(plain, s), play(&sortedKernel{}, s)
			lanes.drive(how)
			heap.drive(how)
			sorted.drive(how)
			require.Equal(t, sorted.diary, lanes.diary)
			require.Equal(t, sorted.diary, heap.diary)
			require.Equal(t, engine.Events(), plain.Events())
			require.Equal(t, engine.Fingerprint(), plain.Fingerprint())
		}))
	}
}

// A crowd is a dense, long simulation for differential runs: many events per
// instant, lanes that fill and drain, timers that move at most events.
type crowd struct {
	k      kernel
	self   HandlerID
	r      *rand.Rand
	lanes  []Lane
	timers []Timer
	left   int
	hash   uint64
}

func newCrowd(k kernel, seed uint64, events int) *crowd {
	c := &crowd{k: k, r: rand.New(rand.NewPCG(seed, 1)), left: events}
	c.self = k.Register(c)
	for _, d := range []Time{0, 1, 2, 3, 5, 8, 40, 40, 41} {
		c.lanes = append(c.lanes, k.NewLane(d))
	}
	for i := range 100 {
		c.timers = append(c.timers, k.NewTimer(c.self, 1, uint32(i)))
	}
	for i := range 20 {
		k.At(0, c.self, 0, uint32(i))
	}
	return c
}

func (c *crowd) Handle(e Event) {
	for _, v := range []uint64{uint64(e.At), uint64(e.Kind), uint64(e.Arg), uint64(c.k.Pending())} {
		c.hash = c.hash*31 + v
	}
	c.left--
	if c.left < 0 {
		return
	}
	for range c.r.IntN(4) { // dies out or explodes; kept between bounds below
		if c.k.Pending() < 300 {
			c.k.AfterLane(c.lanes[c.r.IntN(len(c.lanes))], c.self, 0, uint32(c.left))
		}
	}
	if c.k.Pending() < 200 {
		c.k.After(Time(c.r.IntN(50)), c.self, 2, uint32(c.left))
	}
	t := c.timers[c.r.IntN(len(c.timers))]
	switch c.r.IntN(4) {
	case 0:
		c.k.Disarm(t)
	case 1:
		c.k.Arm(t, c.k.Now())
	default:
		c.k.Arm(t, c.k.Now()+Time(c.r.IntN(100)))
	}
}

func TestLongRunsOfAllKernelsAgree(t *testing.T) {
	const events = 20_000
	for seed := range uint64(3) {
		sorted := newCrowd(&sortedKernel{}, seed, events/10)
		sorted.k.Run()
		short := newCrowd(New(), seed, events/10)
		short.k.Run()
		require.Equal(t, sorted.hash, short.hash)

		engine, plain := New(), New(HeapOnly())
		lanes, heap := newCrowd(engine, seed, events), newCrowd(plain, seed, events)
		lanes.k.Run()
		heap.k.Run()
		require.Greater(t, engine.Events(), uint64(events))
		require.Equal(t, heap.hash, lanes.hash)
		require.Equal(t, plain.Fingerprint(), engine.Fingerprint())
	}
}
