package congestion

import (
	"container/heap"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// A occurrence is an event of a toy.
type occurrence struct {
	at  sim.Time
	seq int
	do  func(now sim.Time)
}

// A toy is the simplest of event loops.
type toy struct {
	queue []occurrence
	seq   int
	now   sim.Time
}

func (l *toy) Len() int           { return len(l.queue) }
func (l *toy) Swap(i, j int)      { l.queue[i], l.queue[j] = l.queue[j], l.queue[i] }
func (l *toy) Push(x any)         { l.queue = append(l.queue, x.(occurrence)) }
func (l *toy) Less(i, j int) bool { return before(l.queue[i], l.queue[j]) }
func (l *toy) Pop() any {
	x := l.queue[len(l.queue)-1]
	l.queue = l.queue[:len(l.queue)-1]
	return x
}

func before(a, b occurrence) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }

func (l *toy) at(t sim.Time, do func(now sim.Time)) {
	l.seq++
	heap.Push(l, occurrence{t, l.seq, do})
}

// run executes events up to an instant, and at most so many.
func (l *toy) run(t require.TestingT, until sim.Time, most int) {
	for ; len(l.queue) > 0 && l.queue[0].at <= until; most-- {
		require.Positive(t, most, "the loop does not come to an end")
		x := heap.Pop(l).(occurrence)
		l.now = x.at
		x.do(x.at)
	}
	l.now = max(l.now, until)
}

// A pipe is a link with its queue, first in, first out.
type pipe struct {
	loop     *toy
	rate     units.Rate
	delay    sim.Time
	waiting  []func(now sim.Time, h INTHop)
	sizes    []units.Bytes
	queued   units.Bytes
	busy     bool
	sent     units.Bytes
	most     units.Bytes
	since    sim.Time
	integral float64 // of the queue over time, from the last reset on
}

func (p *pipe) observe(now sim.Time) {
	p.integral += float64(p.queued) * float64(now-p.since)
	p.since = now
}

// mean is the mean queue since an instant at which integral was reset.
func (p *pipe) mean(from, now sim.Time) float64 {
	p.observe(now)
	return p.integral / float64(now-from)
}

// put sends n bytes; then is called when they are at the far end.
func (p *pipe) put(now sim.Time, n units.Bytes, then func(now sim.Time, h INTHop)) {
	p.observe(now)
	p.waiting, p.sizes = append(p.waiting, then), append(p.sizes, n)
	p.queued += n
	p.most = max(p.most, p.queued)
	if !p.busy {
		p.start(now)
	}
}

func (p *pipe) start(now sim.Time) {
	p.observe(now)
	then, n := p.waiting[0], p.sizes[0]
	p.waiting, p.sizes = p.waiting[1:], p.sizes[1:]
	p.queued -= n
	p.busy = true
	p.sent += n
	h := INTHop{At: now, Sent: p.sent, Queue: p.queued, Rate: p.rate}
	p.loop.at(now+p.rate.Time(n), func(now sim.Time) {
		p.busy = false
		if len(p.waiting) > 0 {
			p.start(now)
		}
	})
	p.loop.at(now+p.rate.Time(n)+p.delay, func(now sim.Time) { then(now, h) })
}

// A pacer is a controller's flow.
type pacer interface {
	window() units.Bytes
	send(now sim.Time, n units.Bytes) sim.Time
	ack(now sim.Time, rtt sim.Time, n units.Bytes, a Ack)
}

// A toyFlow has so many packets to send, or always one more.
type toyFlow struct {
	total       uint32 // 0 is without end
	done        sim.Time
	loop        *toy
	pacer       pacer
	path        []*pipe
	back        sim.Time // of an acknowledgement
	size        units.Bytes
	next, acked uint32
	nextSend    sim.Time
	wakes       bool
	delivered   units.Bytes
	rtts        float64 // sum
	count       float64
}

func (f *toyFlow) pump(now sim.Time) {
	for !f.wakes && (f.total == 0 || f.next < f.total) && (f.next == f.acked || units.Bytes(f.next-f.acked+1)*f.size <= f.pacer.window()) {
		if f.nextSend > now {
			f.wakes = true
			f.loop.at(f.nextSend, func(now sim.Time) {
				f.wakes = false
				f.pump(now)
			})
			return
		}
		f.next++
		f.nextSend = f.pacer.send(now, f.size)
		f.hop(now, 0, now, nil)
	}
}

// hop takes a packet over the links from number i on.
func (f *toyFlow) hop(now sim.Time, i int, sent sim.Time, hops []INTHop) {
	if i < len(f.path) {
		f.path[i].put(now, f.size, func(now sim.Time, h INTHop) { f.hop(now, i+1, sent, append(hops, h)) })
		return
	}
	f.delivered += f.size
	f.loop.at(now+f.back, func(now sim.Time) {
		f.acked++
		f.done = now
		f.rtts += (now - sent).Microseconds()
		f.count++
		f.pacer.ack(now, now-sent, f.size, Ack{Acked: f.acked, Next: f.next, Hops: hops})
		f.pump(now)
	})
}

// A contest is flows over links, and what they get after a warm-up.
type contest struct {
	loop  *toy
	pipes []*pipe
	flows []*toyFlow
}

const toyPacket = 4160

// newContest lays links of rates, each with a delay.
func newContest(delay sim.Time, rates ...units.Rate) *contest {
	c := &contest{loop: &toy{}}
	for _, r := range rates {
		c.pipes = append(c.pipes, &pipe{loop: c.loop, rate: r, delay: delay})
	}
	return c
}

// rtt is the round trip without queues over links.
func (c *contest) rtt(back sim.Time, links ...int) sim.Time {
	for _, l := range links {
		back += c.pipes[l].rate.Time(toyPacket) + c.pipes[l].delay
	}
	return back
}

func (c *contest) add(p pacer, back sim.Time, links ...int) {
	f := &toyFlow{loop: c.loop, pacer: p, back: back, size: toyPacket}
	for _, l := range links {
		f.path = append(f.path, c.pipes[l])
	}
	c.flows = append(c.flows, f)
}

// result is what flows and links had from the end of the warm-up on.
type result struct {
	shares    []float64 // of each flow, of the first link
	used      []float64 // of each link
	queue     []float64 // mean of each link, bytes
	rtt       float64   // mean, us
	unfair    float64   // largest share over smallest
	fairIndex float64   // Jain's
}

func (c *contest) run(t *testing.T, warm, until sim.Time) result {
	for i, f := range c.flows {
		// Not all at once: a burst would be in step for ever.
		c.loop.at(sim.Time(i)*317*sim.Nanosecond, f.pump)
	}
	c.loop.run(t, warm, 5_000_000)
	var sent []units.Bytes
	for _, p := range c.pipes {
		p.observe(warm)
		p.integral = 0
		sent = append(sent, p.sent)
	}
	for _, f := range c.flows {
		f.delivered, f.rtts, f.count = 0, 0, 0
	}
	c.loop.run(t, until, 5_000_000)
	var r result
	span := float64(until - warm)
	for i, p := range c.pipes {
		r.used = append(r.used, float64(p.sent-sent[i])/span/p.rate.BytesPerPicosecond())
		r.queue = append(r.queue, p.mean(warm, until))
	}
	low, high, sum, squares, count := 2., 0., 0., 0., 0.
	for _, f := range c.flows {
		s := float64(f.delivered) / span / c.pipes[0].rate.BytesPerPicosecond()
		r.shares = append(r.shares, s)
		low, high = min(low, s), max(high, s)
		sum += s
		squares += s * s
		r.rtt += f.rtts
		count += f.count
	}
	r.rtt /= count
	r.unfair = high / low
	r.fairIndex = sum * sum / squares / float64(len(c.flows))
	return r
}
