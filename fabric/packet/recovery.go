package packet

import (
	"math/bits"

	"github.com/tgssim/tgssim/sim"
)

// A reorder is what a receiver that accepts packets out of order remembers: which
// of the packets behind the next one in order have arrived.
type reorder struct {
	bits  uint32 // place of its bitmap in Network.bitmaps, or none
	held  uint32 // packets that have arrived early
	top   uint32 // the packet after the last that has arrived, while held > 0
	asked uint32 // packets before it have been asked for if they are missing
}

// A gap is a range of packets that a sender is to send again.
type gap struct {
	from, to uint32
	next     uint32
}

// outOfOrder takes in a packet that is not the next one.
func (n *Network) outOfOrder(r *receiver, id uint32, p *packet, now sim.Time) {
	ahead := int32(p.seq - r.expected)
	if ahead < 0 {
		n.count.Duplicates += int64(p.count)
		n.acknowledge(r, id, p, 0, 0, now)
		return
	}
	n.count.OutOfOrder += int64(p.count)
	if !n.selective {
		n.discard(p, DropOutOfOrder)
		if r.nacked {
			n.release(id)
			return
		}
		r.nacked = true
		n.nack(r, id, p, 0, 0, now)
		return
	}
	if uint32(ahead) >= n.reorderWindow {
		n.discard(p, DropReorderWindow)
		n.release(id)
		return
	}
	probe, qp := p.flags&flagProbe != 0, p.qp
	count := min(uint32(p.count), n.reorderWindow-uint32(ahead))
	n.count.Dropped[DropReorderWindow] += int64(uint32(p.count) - count)
	early := n.mark(&r.window, r.expected, p.seq, count)
	n.count.Duplicates += int64(count - early)
	if early == 0 {
		n.release(id)
		if probe {
			n.askAll(r, qp, now)
		}
		return
	}
	n.count.MaxReorder = max(n.count.MaxReorder, int64(uint32(ahead)+count-1))
	if probe {
		n.release(id)
		n.askAll(r, qp, now)
		return
	}
	if from, count, ok := n.missing(&r.window, r.expected, n.reorderTolerance); ok {
		n.nack(r, id, p, from-r.expected, count, now)
		return
	}
	n.release(id)
}

// nack turns packet id into a request for count packets, beginning offset after
// the next one in order.
func (n *Network) nack(r *receiver, id uint32, p *packet, offset, count uint32, now sim.Time) {
	n.count.NACKs++
	n.acknowledge(r, id, p, flagNack, offset<<16|count, now)
}

// askAll answers a probe: it asks for everything that is missing up to it.
func (n *Network) askAll(r *receiver, qp uint32, now sim.Time) {
	r.window.asked = r.expected
	for {
		from, count, ok := n.missing(&r.window, r.expected, 1)
		if !ok {
			return
		}
		id := n.alloc()
		n.packets[id] = packet{qp: qp, class: r.class, count: 1}
		if n.telemetry != nil {
			n.collect(id, 0)
		}
		n.nack(r, id, &n.packets[id], from-r.expected, count, now)
	}
}

// mark notes that count packets from seq on have arrived early, and returns how
// many of them had not before.
func (n *Network) mark(w *reorder, expected, seq, count uint32) (fresh uint32) {
	if w.held == 0 {
		w.top, w.asked = expected, expected
		if w.bits == none {
			w.bits = n.newBitmap()
		}
	}
	for ; count > 0; count-- {
		b := &n.bitmaps[w.bits+seq%n.reorderWindow/64]
		bit := uint64(1) << (seq % 64)
		if *b&bit == 0 {
			*b |= bit
			w.held++
			fresh++
		}
		seq++
	}
	if int32(seq-w.top) > 0 {
		w.top = seq
	}
	return fresh
}

// arrived says whether a packet has arrived early.
func (n *Network) arrived(w *reorder, seq uint32) bool {
	return n.bitmaps[w.bits+seq%n.reorderWindow/64]>>(seq%64)&1 != 0
}

// missing finds the first range of packets that has not been asked for and that
// so many have overtaken that it must be lost. Every packet is asked for once;
// should it be lost again, the timeout's probe makes it be asked for once more.
func (n *Network) missing(w *reorder, expected, tolerance uint32) (from, count uint32, ok bool) {
	if int32(expected-w.asked) > 0 {
		w.asked = expected
	}
	limit := w.top - tolerance
	for int32(limit-w.asked) > 0 && n.arrived(w, w.asked) {
		w.asked++
	}
	from = w.asked
	for int32(limit-w.asked) > 0 && !n.arrived(w, w.asked) {
		w.asked++
	}
	return from, w.asked - from, w.asked != from
}

// pass moves past the next count packets, some of which may have arrived early,
// and past those behind them that have.
func (n *Network) pass(r *receiver, count uint32) {
	w := &r.window
	for ; count > 0; count-- {
		b := &n.bitmaps[w.bits+r.expected%n.reorderWindow/64]
		if bit := uint64(1) << (r.expected % 64); *b&bit != 0 {
			*b &^= bit
			w.held--
			n.count.Duplicates++
		}
		r.expected++
	}
	for w.held > 0 {
		b := &n.bitmaps[w.bits+r.expected%n.reorderWindow/64]
		run := uint32(bits.TrailingZeros64(^(*b >> (r.expected % 64))))
		if run == 0 {
			return
		}
		*b &^= (1<<run - 1) << (r.expected % 64)
		r.expected += run
		r.pending += uint16(run)
		w.held -= run
	}
	n.freeBitmaps = append(n.freeBitmaps, w.bits)
	w.bits = none
}

// newBitmap returns the place of an empty bitmap of reorderWindow bits.
func (n *Network) newBitmap() uint32 {
	if k := len(n.freeBitmaps); k > 0 {
		b := n.freeBitmaps[k-1]
		n.freeBitmaps = n.freeBitmaps[:k-1]
		return b
	}
	b := uint32(len(n.bitmaps))
	n.bitmaps = append(n.bitmaps, make([]uint64, n.reorderWindow/64)...)
	return b
}

// nacked takes in a NACK: go-back-N sends everything from the gap on again,
// selective repeat the packets that are named.
func (n *Network) nacked(qp uint32, q *sender, p *packet, now sim.Time) {
	q.heard = now
	if ctl := n.nics[q.nic].ctl; ctl != nil {
		ctl.OnLoss(q.flow, now)
		n.follow(ctl, q, now)
	}
	if !n.selective {
		if p.seq == q.una {
			n.goBack(qp, q, now)
		}
		return
	}
	from := p.seq + p.payload>>16
	n.askAgain(qp, q, from, from+p.payload&0xFFFF, now)
}

// goBack makes the first unacknowledged packet the next to send.
func (n *Network) goBack(qp uint32, q *sender, now sim.Time) {
	if q.next == q.una {
		return
	}
	n.owe(qp, q, q.una, q.next, now)
	q.next, q.cur = q.una, q.first
	q.curEnd = n.requests[q.cur].end
	for q.again != none {
		n.dropGap(qp, q, now)
	}
}

// askAgain appends a range to what a sender is to send again.
func (n *Network) askAgain(qp uint32, q *sender, from, to uint32, now sim.Time) {
	if int32(q.una-from) > 0 {
		from = q.una
	}
	if int32(to-from) <= 0 {
		return
	}
	n.owe(qp, q, from, to, now)
	g := n.freeGaps
	if g != none {
		n.freeGaps = n.gaps[g].next
	} else {
		g = uint32(len(n.gaps))
		n.gaps = append(n.gaps, gap{})
	}
	n.gaps[g] = gap{from, to, none}
	at := &q.again
	for *at != none {
		at = &n.gaps[*at].next
	}
	*at = g
}

// takeAgain returns the next packets to send again, at most so many and of one
// work request; q.again is not none.
func (n *Network) takeAgain(q *sender, most uint32) (seq, count uint32) {
	g := &n.gaps[q.again]
	seq, count = g.from, 1
	if most > 1 {
		count = min(most, g.to-seq, n.requests[n.requestOf(q, seq)].end-seq)
	}
	g.from += count
	if g.from == g.to {
		n.freeGap(q)
	}
	return seq, count
}

// dropGap drops the first range without sending it.
func (n *Network) dropGap(qp uint32, q *sender, now sim.Time) {
	g := n.gaps[q.again]
	n.freeGap(q)
	n.waive(qp, q, g.from, g.to, now)
}

// freeGap drops the first range to send again.
func (n *Network) freeGap(q *sender) {
	g := q.again
	q.again = n.gaps[g].next
	n.gaps[g].next = n.freeGaps
	n.freeGaps = g
}

// trimAgain drops what has been acknowledged from what is to be sent again.
func (n *Network) trimAgain(qp uint32, q *sender, now sim.Time) {
	for q.again != none {
		g := &n.gaps[q.again]
		if una := min(int32(q.una-g.from), int32(g.to-g.from)); una > 0 {
			n.waive(qp, q, g.from, g.from+uint32(una), now)
			g.from += uint32(una)
		}
		if int32(g.to-g.from) > 0 {
			return
		}
		n.dropGap(qp, q, now)
	}
}

// watch starts the retransmission timer of a sender that begins to have packets
// under way. The timer is lazy: it goes off one timeout after it was set, looks
// when there was progress last, and is set anew for one timeout after that.
func (n *Network) watch(q *sender, now sim.Time) {
	q.heard = now
	if !q.timed {
		q.timed = true
		n.engine.Arm(q.timer, now+n.patience(q))
	}
}

// patience is how long a sender waits for progress: the timeout, twice as long
// after each in a row that has passed in vain, up to 64 times. Without that, what
// is sent again sooner than queues drain can fill them for ever.
func (n *Network) patience(q *sender) sim.Time { return n.rto << min(q.timeouts, maxBackoff) }

// maxBackoff is the number of times that the retransmission timeout doubles.
const maxBackoff = 6

// timeout is a sender's retransmission timer.
func (n *Network) timeout(qp uint32, now sim.Time) {
	q := &n.senders[qp]
	q.timed = false
	if q.next == q.una || n.deadlocked {
		return
	}
	q.timed = true
	if due := q.heard + n.patience(q); due > now {
		n.engine.Arm(q.timer, due)
		return
	}
	if down, lost := n.lostForGood(qp); lost {
		n.giveUp(qp, down, now)
		return
	}
	n.count.Timeouts++
	q.heard = now
	q.timeouts = min(q.timeouts+1, maxBackoff)
	n.engine.Arm(q.timer, now+n.patience(q))
	if ctl := n.nics[q.nic].ctl; ctl != nil {
		ctl.OnTimeout(q.flow, now)
		n.follow(ctl, q, now)
	}
	if n.selective {
		// The first packet that is missing, and the last sent, as a probe to which
		// the receiver answers with all that it misses between.
		for q.again != none {
			n.dropGap(qp, q, now)
		}
		q.probe, q.probing = q.next-1, true
		n.askAgain(qp, q, q.una, q.una+1, now)
		if q.next-1 != q.una {
			n.askAgain(qp, q, q.probe, q.next, now)
		}
	} else {
		n.goBack(qp, q, now)
	}
	n.stir(qp, now)
}
