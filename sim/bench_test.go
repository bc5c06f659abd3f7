package sim

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"
)

// The benchmarks run the hold model (Vaucher and Duval, CACM 1975): take the
// next event, schedule another, at a constant number pending. 96 % of the events
// follow by one of the lanes' delays, 4 % by an irregular one, uniform up to
// 20 us.

const (
	frameDelay = 82880 * Picosecond // 4,144 bytes at 400 Gb/s
	wireDelay  = Microsecond
)

var pendings = []int{256, 2 << 10, 16 << 10, 128 << 10, 1 << 20}

// laneDelays is n delays, near the two above in turn.
func laneDelays(n int) []Time {
	d := make([]Time, n)
	for i := range d {
		d[i] = frameDelay + Time(i)*1700
		if i%2 == 1 {
			d[i] = wireDelay + Time(i)*13000
		}
	}
	return d
}

// A hop is one choice of the hold model, drawn beforehand.
type hop struct {
	lane  int // -1 for an irregular event
	delay Time
}

// numHops is a power of two, so that finding the next costs no division.
const numHops = 1 << 14

func hops(delays []Time) *[numHops]hop {
	r := rand.New(rand.NewPCG(1, 2))
	hs := new([numHops]hop)
	for i := range hs {
		if len(delays) > 0 && r.IntN(100) < 96 {
			l := r.IntN(len(delays))
			hs[i] = hop{l, delays[l]}
		} else {
			hs[i] = hop{-1, Time(r.Int64N(int64(20 * Microsecond)))}
		}
	}
	return hs
}

// holdQueue lets b hold a queue at n pending events through its pop and push.
func holdQueue(b *testing.B, n int, delays []Time, pop func() entry, push func(*hop, entry)) {
	hs := hops(delays)
	r := rand.New(rand.NewPCG(3, 4))
	seq := uint64(0)
	for range n {
		seq++
		push(&hop{lane: -1}, entry{at: Time(r.Int64N(int64(Microsecond))), seq: seq})
	}
	hold := func(n int) {
		for range n {
			x := pop()
			seq++
			h := &hs[seq%numHops]
			push(h, entry{x.at + h.delay, seq, x.what})
		}
	}
	hold(4 * n)
	b.ReportAllocs()
	b.ResetTimer()
	hold(b.N)
}

func holdLanes(b *testing.B, n int, delays []Time) {
	var q queue
	q.init()
	for range delays {
		q.addLane()
	}
	holdQueue(b, n, delays,
		func() entry { x, _ := q.pop(Never - 1); return x },
		func(h *hop, x entry) {
			if h.lane < 0 {
				q.push(x)
			} else {
				q.pushLane(h.lane, x)
			}
		})
}

func holdPlain(b *testing.B, n int, delays []Time) {
	var q plainQueue
	holdQueue(b, n, delays,
		func() entry { x, _ := q.pop(Never - 1); return x },
		func(_ *hop, x entry) { q.push(x.at, x.seq, x.what) })
}

// An anyHeap is the standard library's heap, whose Push and Pop box every event.
type anyHeap []entry

func (h anyHeap) Len() int { return len(h) }
func (h anyHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h anyHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *anyHeap) Push(x any)   { *h = append(*h, x.(entry)) }
func (h *anyHeap) Pop() any {
	n := len(*h) - 1
	x := (*h)[n]
	*h = (*h)[:n]
	return x
}

func holdContainer(b *testing.B, n int, delays []Time) {
	var q anyHeap
	holdQueue(b, n, delays,
		func() entry { return heap.Pop(&q).(entry) },
		func(_ *hop, x entry) { heap.Push(&q, x) })
}

// BenchmarkHold is one pop and push of the bare queues, with two lanes.
func BenchmarkHold(b *testing.B) {
	for _, q := range []struct {
		name string
		hold func(*testing.B, int, []Time)
	}{{"lanes", holdLanes}, {"plain", holdPlain}, {"container", holdContainer}} {
		for _, n := range pendings {
			b.Run(fmt.Sprintf("%s/pending=%d", q.name, n), func(b *testing.B) { q.hold(b, n, laneDelays(2)) })
		}
	}
}

// BenchmarkLaneCount is BenchmarkHold with more lanes.
func BenchmarkLaneCount(b *testing.B) {
	for _, lanes := range []int{2, 8, 32} {
		for _, n := range pendings[1:4] {
			b.Run(fmt.Sprintf("lanes=%d/pending=%d", lanes, n), func(b *testing.B) { holdLanes(b, n, laneDelays(lanes)) })
		}
	}
}

// A binaryHeap is eventHeap with two children: the same padding, the same
// branch-free choice. It is here to choose the arity by.
type binaryHeap struct{ eventHeap }

func (h *binaryHeap) push(x entry) {
	if h.n+4 >= len(h.a) {
		h.a = nones(h.a, h.n)
	}
	a, i := h.a, uint(h.n)
	h.n++
	for i > 0 {
		p := (i - 1) / 2
		up := a[p]
		if up.at <= x.at {
			break
		}
		a[i] = up
		i = p
	}
	a[i] = x
}

func (h *binaryHeap) pop() entry {
	a := h.a
	top := a[0]
	h.n--
	x := a[h.n]
	a[h.n] = none
	if h.n == 0 {
		return top
	}
	i := 0
	for c := 1; c < h.n; c = 2*i + 1 {
		pair := (*[2]entry)(a[c:])
		m := less(pair[1].key(), pair[0].key()) & 1
		child := pair[m]
		if less(x.key(), child.key()) == 1 {
			break
		}
		a[i] = child
		i = c + int(m)
	}
	a[i] = x
	return top
}

// BenchmarkIrregular is one pop and push when every event is irregular, up to
// 20 us: eventHeap against two children per node, and against the plain heap.
func BenchmarkIrregular(b *testing.B) {
	hold := func(name string, hold func(b *testing.B, n int)) {
		for _, n := range append([]int{16}, pendings...) {
			b.Run(fmt.Sprintf("%s/pending=%d", name, n), func(b *testing.B) { hold(b, n) })
		}
	}
	hold("4-ary", func(b *testing.B, n int) {
		var h eventHeap
		h.init()
		holdQueue(b, n, nil,
			func() entry { x, _ := h.pop(); return x },
			func(_ *hop, x entry) { h.push(x) })
	})
	hold("2-ary", func(b *testing.B, n int) {
		var h binaryHeap
		h.init()
		holdQueue(b, n, nil,
			func() entry { return h.pop() },
			func(_ *hop, x entry) { h.push(x) })
	})
	hold("plain", func(b *testing.B, n int) { holdPlain(b, n, nil) })
}

// A holder is a handler that keeps its engine at a constant number of pending
// events, the next event's delay being the next of a list.
type holder struct {
	engine *Engine
	self   HandlerID
	lanes  []Lane
	hops   *[numHops]hop
	left   int
}

func (h *holder) Handle(e Event) {
	if h.left--; h.left == 0 {
		h.engine.Stop()
	}
	next := &h.hops[uint(h.left)%numHops]
	if next.lane < 0 {
		h.engine.After(next.delay, h.self, e.Kind, e.Arg)
	} else {
		h.engine.AfterLane(h.lanes[next.lane], h.self, e.Kind, e.Arg)
	}
}

func (h *holder) run(n int) {
	h.left = n
	h.engine.Run()
}

func newHolder(pending int, delays []Time, opts ...Option) *holder {
	h := &holder{engine: New(opts...), hops: hops(delays)}
	h.self = h.engine.Register(h)
	for _, d := range delays {
		h.lanes = append(h.lanes, h.engine.NewLane(d))
	}
	r := rand.New(rand.NewPCG(3, 4))
	for i := range pending {
		h.engine.At(Time(r.Int64N(int64(Microsecond))), h.self, 0, uint32(i))
	}
	h.run(4*pending + 1)
	return h
}

// BenchmarkEngine is one event of an engine: pop, fingerprint, Handle, schedule.
func BenchmarkEngine(b *testing.B) {
	for _, q := range []struct {
		name string
		opts []Option
	}{{"lanes", nil}, {"plain", []Option{HeapOnly()}}} {
		for _, n := range pendings {
			b.Run(fmt.Sprintf("%s/pending=%d", q.name, n), func(b *testing.B) {
				h := newHolder(n, laneDelays(2), q.opts...)
				b.ReportAllocs()
				b.ResetTimer()
				h.run(b.N)
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mevents/s")
			})
		}
	}
}

// BenchmarkTimer is one Arm of a timer among many that are armed: pushed back to
// the end as a retransmission timer is by every acknowledgement, moved anywhere,
// or disarmed and armed again.
func BenchmarkTimer(b *testing.B) {
	for _, n := range []int{256, 16 << 10} {
		r := rand.New(rand.NewPCG(5, 6))
		var anywhere [4093]Time // a prime: no timer gets the same instant every round
		for i := range anywhere {
			anywhere[i] = Time(r.Int64N(int64(Millisecond)))
		}
		armed := func() (*Engine, []Timer) {
			e := New()
			h := e.Register(quiet{})
			timers := make([]Timer, n)
			for i := range timers {
				timers[i] = e.NewTimer(h, 0, uint32(i))
			}
			r.Shuffle(n, func(i, j int) { timers[i], timers[j] = timers[j], timers[i] })
			for i, id := range timers {
				e.Arm(id, Time(i))
			}
			return e, timers
		}
		each := func(name string, do func(e *Engine, id Timer, i int)) {
			b.Run(fmt.Sprintf("%s/armed=%d", name, n), func(b *testing.B) {
				e, timers := armed()
				b.ReportAllocs()
				b.ResetTimer()
				for i := range b.N {
					do(e, timers[i&(n-1)], i)
				}
			})
		}
		each("push back", func(e *Engine, id Timer, i int) { e.Arm(id, Time(n+i)) })
		each("anywhere", func(e *Engine, id Timer, i int) { e.Arm(id, anywhere[i%len(anywhere)]) })
		each("disarm and arm", func(e *Engine, id Timer, i int) {
			e.Disarm(id)
			e.Arm(id, anywhere[i%len(anywhere)])
		})
		b.Run(fmt.Sprintf("expire and arm/armed=%d", n), func(b *testing.B) {
			h := &rearmer{after: &anywhere}
			h.engine, _ = armed()
			h.engine.handlers[0] = h
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				h.engine.step(Never - 1)
			}
		})
	}
}

// A rearmer arms the timer that went off.
type rearmer struct {
	engine *Engine
	after  *[4093]Time
	n      int
}

func (h *rearmer) Handle(e Event) {
	h.n++
	h.engine.Arm(Timer(e.Arg), e.At+h.after[h.n%len(h.after)])
}

// BenchmarkFingerprint is what an executed event's fingerprint costs.
func BenchmarkFingerprint(b *testing.B) {
	fp := uint64(fingerprintSeed)
	for i := range b.N {
		fp = fold(fold(fp, uint64(i)), 7)
	}
	if fp == 0 {
		b.Log("unlikely")
	}
}
