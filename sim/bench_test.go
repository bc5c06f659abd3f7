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

func hops(delays []Time) []hop {
	r := rand.New(rand.NewPCG(1, 2))
	hs := make([]hop, 1<<14)
	for i := range hs {
		if l := r.IntN(len(delays)); r.IntN(100) < 96 {
			hs[i] = hop{l, delays[l]}
		} else {
			hs[i] = hop{-1, Time(r.Int64N(int64(20 * Microsecond)))}
		}
	}
	return hs
}

// holdQueue lets b hold a queue at n pending events through its pop and push.
func holdQueue(b *testing.B, n int, delays []Time, pop func() entry, push func(hop, entry)) {
	hs := hops(delays)
	r := rand.New(rand.NewPCG(3, 4))
	seq := uint64(0)
	for range n {
		seq++
		push(hop{lane: -1}, entry{at: Time(r.Int64N(int64(Microsecond))), seq: seq})
	}
	hold := func(n int) {
		for range n {
			x := pop()
			seq++
			h := hs[seq%uint64(len(hs))]
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
		func(h hop, x entry) {
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
		func(_ hop, x entry) { q.push(x.at, x.seq, x.what) })
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
		func(_ hop, x entry) { heap.Push(&q, x) })
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

// A holder is a handler that keeps its engine at a constant number of pending
// events, the next event's delay being the next of a list.
type holder struct {
	engine *Engine
	self   HandlerID
	lanes  []Lane
	hops   []hop
	left   int
}

func (h *holder) Handle(e Event) {
	if h.left--; h.left == 0 {
		h.engine.Stop()
	}
	next := h.hops[uint(h.left)%uint(len(h.hops))]
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
