package packet

import (
	"github.com/tgssim/tgssim/congestion"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// A sender is the requesting end of a reliable connection (RC) queue pair. Its
// work requests are WRITEs with immediate, sent in the order of posting; packets
// are numbered through, whatever the request that they belong to.
type sender struct {
	// next is the packet to send next, una the first unacknowledged one, end the
	// one after the last that may be sent, high the one after the last ever sent.
	next, una, end, high uint32
	window               uint32 // packets
	route                uint32 // place in Network.routes of the first link
	nic                  uint32
	ringNext             uint32
	state                senderState
	prio, class          uint8
	timed                bool  // the retransmission timer is armed
	active               bool  // counts towards the NIC's queue pairs with work
	queued               bool  // waits to be active
	timeouts             uint8 // in a row, without progress

	// cur is the work request of packet next and curEnd the packet after it.
	cur, curEnd uint32
	// first is the oldest request that is not acknowledged, last the youngest,
	// hold the oldest that the limit on outstanding requests keeps back.
	first, last, hold uint32
	lastEnd           uint32 // packet after the last request
	outstanding       int32  // requests admitted and not acknowledged
	again             uint32 // the first range to retransmit
	probe             uint32 // the packet that a timeout sends as a probe
	probing           bool
	flow              congestion.FlowID // of the NIC's controller

	nextSend sim.Time // as far as pacing is concerned
	heard    sim.Time // last progress
	timer    sim.Timer
	rp       congestion.RP
	paths    pathChoice
}

// senderState says where a sender waits.
type senderState uint8

const (
	stateParked senderState = iota // nothing to send, or the window is full
	stateReady                     // in a ring of its NIC
	statePaced                     // in the heap of its NIC
)

// A request is a work request: part of a message, on one queue pair.
type request struct {
	job  uint32
	next uint32 // the one posted after it, or the free list
	end  uint32 // the packet after its last
	// last is the payload of its last packet; the others are full.
	last uint32
}

// canSend says whether the queue pair has a packet that it may send.
func (q *sender) canSend() bool {
	return q.again != none || q.next != q.end && q.next-q.una < q.window
}

// post appends a work request of n bytes.
func (n *Network) post(qp, job uint32, bytes units.Bytes, now sim.Time) {
	q, r := &n.senders[qp], &n.receivers[qp]
	w := n.newRequest()
	mtu := units.Bytes(n.mtu)
	packets := uint32(max(1, (bytes+mtu-1)/mtu))
	q.lastEnd += packets
	n.requests[w] = request{
		job: job, next: none, end: q.lastEnd,
		last: uint32(bytes - units.Bytes(packets-1)*mtu),
	}
	if q.first == none {
		q.first = w
	} else {
		n.requests[q.last].next = w
	}
	q.last = w
	if q.cur == none {
		q.cur, q.curEnd = w, q.lastEnd
	}
	if r.request == none {
		r.request, r.end = w, q.lastEnd
	}
	if q.hold == none {
		q.hold = w
		n.admit(qp, q, now)
	}
	n.activate(qp)
	n.stir(qp, now)
}

// admit lets as many requests go as may be outstanding.
func (n *Network) admit(qp uint32, q *sender, now sim.Time) {
	for q.hold != none {
		if q.outstanding >= n.maxRequests {
			n.acted.requestLimit = true
			return
		}
		q.outstanding++
		w, from := &n.requests[q.hold], q.end
		q.end, q.hold = w.end, w.next
		n.owe(qp, q, from, q.end, now)
	}
}

// activate gives a queue pair with work its place among the NIC's, if it has
// none and there is one.
func (n *Network) activate(qp uint32) {
	q := &n.senders[qp]
	if q.active || q.queued {
		return
	}
	nc := &n.nics[q.nic]
	if nc.active >= n.maxQPs {
		n.acted.qpLimit = true
		q.queued = true
		nc.waiting.push(n.senders, qp)
		return
	}
	nc.active++
	q.active = true
}

// retire gives up the place of a queue pair without work to one that waits.
func (n *Network) retire(qp uint32, now sim.Time) {
	q := &n.senders[qp]
	if q.timed {
		q.timed = false
		n.engine.Disarm(q.timer)
	}
	nc := &n.nics[q.nic]
	q.active = false
	nc.active--
	if nc.waiting.head == none {
		return
	}
	heir := nc.waiting.pop(n.senders)
	n.senders[heir].queued = false
	n.activate(heir)
	n.stir(heir, now)
}

// stir lets a parked queue pair send if it may.
func (n *Network) stir(qp uint32, now sim.Time) {
	q := &n.senders[qp]
	if q.state != stateParked || !q.active || !n.canSend(qp, q) {
		return
	}
	nc := &n.nics[q.nic]
	if q.nextSend > max(now, n.ports[nc.port].busy) {
		q.state = statePaced
		nc.paced.push(paced{q.nextSend, qp})
	} else {
		n.line(nc, qp)
	}
	n.kick(nc, now)
}

// segment makes the next packet of a queue pair, of at most so many MTUs: the
// first that is asked for again, or else the next one.
func (n *Network) segment(p *packet, q *sender, qp, most uint32) {
	*p = packet{qp: qp, at: q.route, prio: q.prio, class: q.class, count: 1, payload: n.mtu, wire: n.mtu + n.header}
	var w, count uint32
	if q.again == none {
		w = q.cur
		p.seq = q.next
		count = 1
		if most > 1 {
			count = min(most, q.curEnd-q.next, q.window-(q.next-q.una))
			n.lengthen(p, count)
		}
		q.next += count
		if q.window < uint32(n.ackEvery) && q.next-q.una >= q.window {
			p.flags = flagAsk // no packet follows that would bring the acknowledgement
		}
		if q.next != q.curEnd && p.seq == q.high { // the usual case
			q.high = q.next
			return
		}
		if q.next == q.curEnd {
			q.cur = n.requests[w].next
			if q.cur != none {
				q.curEnd = n.requests[q.cur].end
			}
		}
	} else {
		p.seq, count = n.takeAgain(q, most)
		w = n.requestOf(q, p.seq)
		n.lengthen(p, count)
	}
	if again := q.high - p.seq; int32(again) > 0 {
		p.flags |= flagAgain
		if q.window < uint32(n.ackEvery) {
			p.flags |= flagAsk
		}
		if q.probing && q.probe-p.seq < count {
			p.flags |= flagProbe
			q.probing = false
		}
		n.count.Retransmitted += int64(min(again, count))
	}
	if end := p.seq + count; int32(end-q.high) > 0 {
		q.high = end
	}
	if r := &n.requests[w]; p.seq+count == r.end {
		p.payload -= n.mtu - r.last
		p.wire -= n.mtu - r.last
		if n.atLeaves {
			p.flags |= flagAsk // as RoCE NICs do, which tells the leaf that nothing follows
		}
	}
}

// lengthen makes a packet a train of so many MTUs, each with its own headers.
func (n *Network) lengthen(p *packet, count uint32) {
	p.count, p.payload, p.wire = uint8(count), count*n.mtu, count*(n.mtu+n.header)
}

// trainOf is the most MTUs that a queue pair may send as one: as many as its rate
// allows in the time of a full train at the line rate. So pacing never waits for a
// train longer than that, or for one MTU, and hears of a new rate as soon.
func (n *Network) trainOf(nc *nic, q *sender, now sim.Time) uint32 {
	if n.train == 1 || nc.cc == nil && nc.ctl == nil {
		return n.train
	}
	rate, line := units.Rate(0), n.ports[nc.port].rate
	if nc.cc != nil {
		rate, line = nc.cc.Rate(&q.rp, now), nc.cc.LineRate()
	} else {
		rate = nc.ctl.Rate(q.flow, now)
	}
	most := uint64(n.train) * uint64(rate) / uint64(line)
	return uint32(min(max(1, most), uint64(n.train)))
}

// requestOf finds the work request of a packet that is not acknowledged.
func (n *Network) requestOf(q *sender, seq uint32) uint32 {
	w := q.first
	for int32(seq-n.requests[w].end) >= 0 {
		w = n.requests[w].next
	}
	return w
}

// reply takes in what comes back from the receiver.
func (n *Network) reply(id uint32, now sim.Time) {
	p := &n.packets[id]
	qp, f := p.qp, p.flags
	q := &n.senders[qp]
	nc := &n.nics[q.nic]
	cc := nc.cc
	if n.learning && f&flagCNP == 0 {
		n.learn(q, qp, id, now)
	}
	if f&(flagCNP|flagTelemetry) != 0 {
		n.release(id)
		if f&flagTelemetry != 0 {
			return
		}
		n.count.CNPs++
		cc.OnCNP(&q.rp, now)
		return
	}
	if cc != nil && f&flagMarked != 0 {
		cc.OnAck(&q.rp, now, congestion.Ack{Marked: true})
	}
	fresh := max(0, int32(p.seq-q.una))
	if fresh > 0 {
		n.acknowledged(qp, q, p.seq, now)
		p = &n.packets[id]
	}
	if n.windowFollows {
		q.window = n.inPackets(cc.Window(&q.rp, now))
	}
	if ctl := nc.ctl; ctl != nil {
		n.tell(ctl, q, id, p, uint32(fresh), now)
	}
	if f&flagNack != 0 {
		n.nacked(qp, q, p, now)
	}
	n.release(id)
	if q.first == none && q.active {
		n.retire(qp, now)
		return
	}
	n.stir(qp, now)
}

// acknowledged moves on to una and releases the requests before it.
func (n *Network) acknowledged(qp uint32, q *sender, una uint32, now sim.Time) {
	q.una, q.heard, q.timeouts = una, now, 0
	behind := int32(una-q.next) > 0 // it went back too far
	if behind {
		n.waive(qp, q, q.next, una, now)
	}
	if q.again != none {
		n.trimAgain(qp, q, now)
	}
	for q.first != none && int32(una-n.requests[q.first].end) >= 0 {
		w := q.first
		q.first = n.requests[w].next
		n.freeRequest(w)
		q.outstanding--
		if q.cur == w {
			q.cur = q.first
			if q.cur != none {
				q.curEnd = n.requests[q.cur].end
			}
		}
	}
	if behind {
		q.next = una
	}
	if q.hold != none {
		n.admit(qp, q, now)
	}
}

// newRequest returns the place of a work request that is not in use.
func (n *Network) newRequest() uint32 {
	if w := n.freeRequests; w != none {
		n.freeRequests = n.requests[w].next
		return w
	}
	n.requests = append(n.requests, request{})
	return uint32(len(n.requests) - 1)
}

func (n *Network) freeRequest(w uint32) {
	n.requests[w].next = n.freeRequests
	n.freeRequests = w
}
