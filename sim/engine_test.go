package sim

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// A recorder notes what comes and when, and may react to it.
type recorder struct {
	log []string
	on  func(e Event)
}

func (r *recorder) Handle(e Event) {
	r.log = append(r.log, fmt.Sprintf("%v %d", e.At, e.Arg))
	if r.on != nil {
		r.on(e)
	}
}

func newRecorder(opts ...Option) (*Engine, *recorder, HandlerID) {
	e, r := New(opts...), &recorder{}
	return e, r, e.Register(r)
}

// bothOrders runs a test on either queue.
func bothOrders(t *testing.T, f func(t *testing.T, opts ...Option)) {
	t.Run("lanes", func(t *testing.T) { f(t) })
	t.Run("plain", func(t *testing.T) { f(t, HeapOnly()) })
}

func TestEqualsAreFIFOHoweverScheduled(t *testing.T) {
	bothOrders(t, func(t *testing.T, opts ...Option) {
		e, r, h := newRecorder(opts...)
		lane, timer, other := e.NewLane(5), e.NewTimer(h, 0, 2), e.NewTimer(h, 0, 4)
		e.At(5, h, 0, 0)
		e.AfterLane(lane, h, 0, 1)
		e.Arm(timer, 5)
		e.After(5, h, 0, 3)
		e.Arm(other, 5)
		e.AfterLane(lane, h, 0, 5)
		e.At(4, h, 0, 6)
		e.Run()
		require.Equal(t, []string{"4ps 6", "5ps 0", "5ps 1", "5ps 2", "5ps 3", "5ps 4", "5ps 5"}, r.log)
	})
}

func TestMovedTimerGoesToTheEndOfItsInstant(t *testing.T) {
	bothOrders(t, func(t *testing.T, opts ...Option) {
		e, r, h := newRecorder(opts...)
		timer := e.NewTimer(h, 0, 1)
		e.Arm(timer, 7)
		e.At(7, h, 0, 2)
		e.Arm(timer, 7)
		require.Equal(t, 2, e.Pending())
		e.Run()
		require.Equal(t, []string{"7ps 2", "7ps 1"}, r.log)
	})
}

func TestTimerLife(t *testing.T) {
	bothOrders(t, func(t *testing.T, opts ...Option) {
		e, r, h := newRecorder(opts...)
		timer := e.NewTimer(h, 3, 9)
		armed := func(want Time) {
			t.Helper()
			at, ok := e.Armed(timer)
			require.Equal(t, want, at)
			require.Equal(t, want != Never, ok)
		}
		armed(Never)
		e.Disarm(timer) // nothing to do
		e.Arm(timer, 10)
		armed(10)
		e.Arm(timer, 20)
		armed(20)
		e.Arm(timer, 5)
		armed(5)
		e.Disarm(timer)
		armed(Never)
		require.Zero(t, e.Pending())
		e.Arm(timer, 30)
		e.Arm(timer, Never)
		armed(Never)
		require.Zero(t, e.Pending())

		e.Arm(timer, 2)
		r.on = func(ev Event) {
			require.Equal(t, Event{At: e.Now(), Handler: h, Kind: 3, Arg: 9}, ev)
			armed(Never)
			if e.Now() < 4 {
				e.Arm(timer, e.Now()+1)
				armed(e.Now() + 1)
			}
		}
		e.Run()
		require.Equal(t, []string{"2ps 9", "3ps 9", "4ps 9"}, r.log)
		armed(Never)
	})
}

func TestDisarmFromAnEventOfTheSameInstant(t *testing.T) {
	bothOrders(t, func(t *testing.T, opts ...Option) {
		e, r, h := newRecorder(opts...)
		a, b := e.NewTimer(h, 0, 1), e.NewTimer(h, 0, 2)
		r.on = func(Event) { e.Disarm(a); e.Disarm(b) }
		e.Arm(a, 5)
		e.Arm(b, 5)
		e.Run()
		require.Equal(t, []string{"5ps 1"}, r.log)
	})
}

func TestRunUntil(t *testing.T) {
	bothOrders(t, func(t *testing.T, opts ...Option) {
		e, r, h := newRecorder(opts...)
		r.on = func(ev Event) {
			if ev.At == 10 && ev.Arg < 3 {
				e.At(10, h, 0, ev.Arg+1) // up to and including
			}
		}
		e.At(10, h, 0, 1)
		e.At(20, h, 0, 4)
		e.RunUntil(9)
		require.Empty(t, r.log)
		require.Zero(t, e.Now())
		e.RunUntil(15)
		require.Equal(t, []string{"10ps 1", "10ps 2", "10ps 3"}, r.log)
		require.Equal(t, Time(10), e.Now(), "Now stays at the last event")
		e.At(12, h, 0, 5) // before the 15 that the run went to, and fine
		e.RunUntil(0)     // the past holds nothing
		require.Len(t, r.log, 3)
		e.Run()
		require.Equal(t, []string{"12ps 5", "20ps 4"}, r.log[3:])
		require.Equal(t, uint64(5), e.Events())
		require.Zero(t, e.Pending())
	})
}

func TestStopAndStep(t *testing.T) {
	bothOrders(t, func(t *testing.T, opts ...Option) {
		e, r, h := newRecorder(opts...)
		r.on = func(Event) { e.Stop() }
		for i := range uint32(4) {
			e.At(Time(i), h, 0, i)
		}
		e.Stop() // there is no run to stop
		e.Run()
		require.Len(t, r.log, 1)
		e.RunUntil(3)
		require.Len(t, r.log, 2)
		require.True(t, e.Step(), "a stopped run goes on")
		require.Equal(t, 1, e.Pending())
		require.True(t, e.Step())
		require.False(t, e.Step())
		require.Equal(t, []string{"0s 0", "1ps 1", "2ps 2", "3ps 3"}, r.log)
	})
}

func TestNothingHappensAtNever(t *testing.T) {
	bothOrders(t, func(t *testing.T, opts ...Option) {
		e, r, h := newRecorder(opts...)
		long, never := e.NewLane(Never-10), e.NewLane(Never)
		r.on = func(ev Event) {
			if ev.At == 11 {
				e.AfterLane(long, h, 0, 7) // 1 beyond Never
				e.AfterLane(never, h, 0, 7)
				e.After(Never-11, h, 0, 7) // Never exactly
				e.After(Never-10, h, 0, 7)
				e.After(Never, h, 0, 7)
				e.After(Never-12, h, 0, 2) // the last instant of all
			}
		}
		e.At(11, h, 0, 1)
		e.At(Never, h, 0, 7)
		e.After(Never, h, 0, 7)
		e.AfterLane(never, h, 0, 7)
		e.AfterLane(long, h, 0, 3)
		require.Equal(t, 2, e.Pending())
		e.RunUntil(Never)
		require.Equal(t, []string{"11ps 1", "9223372.036854775797s 3", "9223372.036854775806s 2"}, r.log)
		require.Equal(t, Never-1, e.Now())
		require.Zero(t, e.Pending())
	})
}

func TestProgrammingErrorsPanic(t *testing.T) {
	bothOrders(t, func(t *testing.T, opts ...Option) {
		e, r, h := newRecorder(opts...)
		timer := e.NewTimer(h, 0, 0)
		r.on = func(Event) {
			require.PanicsWithValue(t, "sim: scheduling at 9.999ns, which is before now, 10ns",
				func() { e.At(9999, h, 0, 0) })
			require.PanicsWithValue(t, "sim: scheduling at 9.999ns, which is before now, 10ns",
				func() { e.After(-1, h, 0, 0) })
			require.PanicsWithValue(t, "sim: scheduling at -1ps, which is before now, 10ns",
				func() { e.Arm(timer, -1) })
			for _, f := range []func(){e.Run, func() { e.RunUntil(0) }, func() { e.Step() }} {
				require.PanicsWithValue(t, "sim: Run, RunUntil or Step called from inside a handler", f)
			}
		}
		require.PanicsWithValue(t, "sim: a lane with the negative delay -1ps", func() { e.NewLane(-1) })
		e.At(10*Nanosecond, h, 0, 0)
		e.Run()
		require.Len(t, r.log, 1)
		require.Zero(t, e.Pending())
	})
}

// A handler's panic does not leave the engine thinking that it still runs.
func TestEngineOutlivesAHandlersPanic(t *testing.T) {
	e, r, h := newRecorder()
	r.on = func(ev Event) {
		if ev.Arg == 1 {
			panic("mine")
		}
	}
	e.At(1, h, 0, 1)
	e.At(2, h, 0, 2)
	require.PanicsWithValue(t, "mine", e.Run)
	e.Run()
	require.Equal(t, []string{"1ps 1", "2ps 2"}, r.log)
}

func TestLimits(t *testing.T) {
	e := New()
	for range 1<<16 - 1 {
		e.Register(&recorder{})
	}
	require.PanicsWithValue(t, "sim: more than 65535 handlers", func() { e.Register(&recorder{}) })
}

func TestSameDelaySameLane(t *testing.T) {
	e := New()
	a, b := e.NewLane(5), e.NewLane(6)
	require.NotEqual(t, a, b)
	require.Equal(t, a, e.NewLane(5))
	require.Equal(t, b, e.NewLane(6))
}

// A lane added during a run does not disturb what waits.
func TestNewLaneDuringARun(t *testing.T) {
	e, r, h := newRecorder()
	r.on = func(ev Event) {
		if ev.Arg < 20 {
			e.AfterLane(e.NewLane(Time(30-ev.Arg)), h, 0, ev.Arg+100)
		}
	}
	for i := range uint32(20) {
		e.AfterLane(e.NewLane(Time(i)), h, 0, i)
	}
	e.Run()
	require.Len(t, r.log, 40)
	for i, line := range r.log[20:] { // all at 30, in the order scheduled
		require.Equal(t, fmt.Sprintf("30ps %d", 100+i), line)
	}
}

// The first values are part of a release, and were computed from the
// documentation of fold and scramble by a second program.
func TestFingerprintIsPinned(t *testing.T) {
	bothOrders(t, func(t *testing.T, opts ...Option) {
		e, _, h := newRecorder(opts...)
		require.Equal(t, uint64(0x492b8d6066c09227), e.Fingerprint())
		e.At(82880, h, 3, 7)
		e.Run()
		require.Equal(t, uint64(0x73187bf7b6415bfe), e.Fingerprint())
		e.Mix(42)
		require.Equal(t, uint64(0xe7bccaa398186b2a), e.Fingerprint())
	})
}

// Every part of every event counts, and so does their order.
func TestFingerprintTellsRunsApart(t *testing.T) {
	type at struct {
		t    Time
		h    int
		kind uint16
		arg  uint32
	}
	prints := map[uint64]string{}
	for name, events := range map[string][]at{
		"nothing":  {},
		"zero":     {{}},
		"two":      {{}, {}},
		"later":    {{t: 1}},
		"handler":  {{h: 1}},
		"kind":     {{kind: 1}},
		"arg":      {{arg: 1}},
		"arg high": {{arg: 1 << 31}},
		"t high":   {{t: 1 << 62}},
		"order":    {{arg: 1}, {arg: 2}},
		"reverse":  {{arg: 2}, {arg: 1}},
		"swap":     {{t: 1, arg: 2}, {t: 2, arg: 1}},
		"swapped":  {{t: 1, arg: 1}, {t: 2, arg: 2}},
	} {
		e := New()
		hs := []HandlerID{e.Register(&recorder{}), e.Register(&recorder{})}
		for _, ev := range events {
			e.At(ev.t, hs[ev.h], ev.kind, ev.arg)
		}
		e.Run()
		require.Empty(t, prints[e.Fingerprint()], name)
		prints[e.Fingerprint()] = name
		e.Mix(0)
		require.Empty(t, prints[e.Fingerprint()], "%s and Mix(0)", name)
		prints[e.Fingerprint()] = name + " and Mix(0)"
	}
}

func TestShuffleTies(t *testing.T) {
	const n = 3
	run := func(seed uint64) []string {
		e, r, h := newRecorder(HeapOnly(), ShuffleTies(seed), HeapOnly())
		lane, timer := e.NewLane(7), e.NewTimer(h, 0, 1)
		e.At(7, h, 0, 0)
		e.Arm(timer, 7)
		e.AfterLane(lane, h, 0, 2)
		for i := range uint32(n) {
			e.At(6-Time(i), h, 0, 10+i)
		}
		gone := e.NewTimer(h, 0, 20)
		e.Arm(gone, 7)
		e.Arm(gone, 8)
		e.Disarm(gone)
		e.Run()
		require.Len(t, r.log, 2*n)
		require.Equal(t, []string{"4ps 12", "5ps 11", "6ps 10"}, r.log[:n], "only equals are shuffled")
		return r.log[n:]
	}
	count := map[string]int{}
	const runs = 6000
	for seed := range uint64(runs) {
		order := run(seed)
		require.ElementsMatch(t, []string{"7ps 0", "7ps 1", "7ps 2"}, order)
		count[fmt.Sprint(order)]++
		if seed < 10 {
			require.Equal(t, order, run(seed), "the same seed gives the same order")
		}
	}
	// Six orders, each binomial(6000, 1/6): 1000 with standard deviation 29.
	require.Len(t, count, 6)
	for order, c := range count {
		require.InDelta(t, runs/6, c, 5*29, order)
	}
}

// An event that a handler schedules for its own instant comes after it, however
// ties are shuffled.
func TestShuffleTiesKeepsCauseBeforeEffect(t *testing.T) {
	for seed := range uint64(100) {
		e, r, h := newRecorder(ShuffleTies(seed))
		var done [10]bool
		r.on = func(ev Event) {
			done[ev.Arg] = true
			if ev.Arg < 5 {
				e.After(0, h, 0, ev.Arg+5)
			} else {
				require.True(t, done[ev.Arg-5])
			}
		}
		for i := range uint32(5) {
			e.At(1, h, 0, i)
		}
		e.Run()
		require.Len(t, r.log, 10)
	}
}

func TestEventsAllocateNothing(t *testing.T) {
	e, r, h := newRecorder()
	r.log = nil
	e.handlers[h] = quiet{}
	lane := e.NewLane(82880)
	timers := make([]Timer, 100)
	for i := range timers {
		timers[i] = e.NewTimer(h, 0, 0)
	}
	for name, f := range map[string]func(){
		"lane":  func() { e.AfterLane(lane, h, 0, 0); e.Step() },
		"heap":  func() { e.After(7, h, 0, 0); e.After(5, h, 0, 0); e.Step(); e.Step() },
		"timer": func() { e.Arm(timers[0], e.Now()+9); e.Step() },
		"timer move and disarm": func() {
			for i, id := range timers {
				e.Arm(id, e.Now()+Time(i))
			}
			for i, id := range timers {
				e.Arm(id, e.Now()+Time(i*37%100))
			}
			for _, id := range timers {
				e.Disarm(id)
			}
		},
		"run": func() {
			for i := range 100 {
				e.AfterLane(lane, h, 0, 0)
				e.After(Time(i), h, 0, 0)
			}
			e.Run()
		},
	} {
		f() // grow first
		require.Zero(t, testing.AllocsPerRun(100, f), name)
		require.Zero(t, e.Pending(), name)
	}
}

// quiet does nothing.
type quiet struct{}

func (quiet) Handle(Event) {}

// Moving a timer leaves nothing behind: a million moves, one event waiting.
func TestMovedTimersLeaveNothingBehind(t *testing.T) {
	e, _, h := newRecorder()
	timer := e.NewTimer(h, 0, 0)
	for i := range Time(1_000_000) {
		e.Arm(timer, Second-i)
	}
	require.Equal(t, 1, e.Pending())
	require.Len(t, e.queue.timers.a, heapMin)
}
