package packet

import (
	"github.com/tgssim/tgssim/congestion"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// A nic schedules queue pairs onto its port. Packets are made when the wire is
// free for them, so what is in memory is what is in the fabric.
//
// Queue pairs that may send wait in a ring per priority and take turns packet by
// packet. One whose pacing allows its next packet only after the port's next
// turn waits in a heap by that instant.
type nic struct {
	port  uint32 // its link to the leaf
	ready uint8  // a bit per priority whose ring has somebody
	ring  [numPrios]ring
	paced pacedHeap

	// wqeFree is when the NIC has taken in the work requests posted so far.
	wqeFree sim.Time
	// active is the number of queue pairs with work; those beyond the limit queue
	// in waiting, linked through sender.ringNext.
	active  int
	waiting ring

	// What paces its queue pairs: one of the two, or neither.
	cc  *congestion.DCQCN
	ctl congestion.Controller
	np  congestion.NP // when CNPs are paced per port
	rx  drain
}

// A ring is a queue of queue pairs, linked through sender.ringNext.
type ring struct{ head, tail uint32 }

// emptyRing is a ring without members.
var emptyRing = ring{none, none}

func (r *ring) push(senders []sender, id uint32) {
	senders[id].ringNext = none
	if r.head == none {
		r.head = id
	} else {
		senders[r.tail].ringNext = id
	}
	r.tail = id
}

func (r *ring) pop(senders []sender) uint32 {
	id := r.head
	r.head = senders[id].ringNext
	return id
}

// A paced is a queue pair that may send its next packet at an instant.
type paced struct {
	at sim.Time
	id uint32
}

// A pacedHeap is a binary heap by instant, then by queue pair.
type pacedHeap []paced

func (a paced) before(b paced) bool { return a.at < b.at || a.at == b.at && a.id < b.id }

func (h *pacedHeap) push(x paced) {
	*h = append(*h, x)
	a := *h
	i := len(a) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !x.before(a[up]) {
			break
		}
		a[i] = a[up]
		i = up
	}
	a[i] = x
}

func (h *pacedHeap) pop() paced {
	a := *h
	top, x := a[0], a[len(a)-1]
	a = a[:len(a)-1]
	*h = a
	if len(a) == 0 {
		return top
	}
	i := 0
	for {
		c := 2*i + 1
		if c >= len(a) {
			break
		}
		if c+1 < len(a) && a[c+1].before(a[c]) {
			c++
		}
		if !a[c].before(x) {
			break
		}
		a[i] = a[c]
		i = c
	}
	a[i] = x
	return top
}

// line puts a queue pair into the ring of its priority.
func (n *Network) line(nc *nic, id uint32) {
	q := &n.senders[id]
	q.state = stateReady
	nc.ring[q.prio].push(n.senders, id)
	nc.ready |= 1 << q.prio
}

// kick lets a NIC's port send if it can.
func (n *Network) kick(nc *nic, now sim.Time) {
	pt := &n.ports[nc.port]
	if pt.busy > now {
		n.wakeAt(nc.port, pt, pt.busy)
		return
	}
	n.serveNIC(nc.port, pt, now)
}

// serveNIC sends the next packet of a NIC whose wire is free.
func (n *Network) serveNIC(l uint32, pt *port, now sim.Time) {
	nc := &n.nics[pt.owner]
	for len(nc.paced) > 0 && nc.paced[0].at <= now {
		n.line(nc, nc.paced.pop().id)
	}
	ready := (pt.backlog | nc.ready) &^ pt.paused
	if ready == 0 {
		n.sleep(l, pt, nc, now)
		return
	}
	prio := n.pick(pt, ready)
	if prio != prioControl && n.overtaken(nc, prio) {
		n.serveNIC(l, pt, now)
		return
	}
	var wire uint32
	if prio == prioControl {
		id, empty := pt.queue[prio].pop(n.packets)
		if empty {
			pt.backlog &^= 1 << prio
		}
		p := &n.packets[id]
		wire = p.wire
		n.transmit(pt, id, p, now)
	} else {
		wire = n.emit(nc, pt, prio, now)
		n.charge(pt, prio, wire)
	}
	if (pt.backlog|nc.ready)&^pt.paused != 0 {
		n.wakeWhenDone(l, pt, wire)
	} else {
		n.sleep(l, pt, nc, now)
	}
	if at := n.tookIn; at != none {
		n.tookIn = none
		n.ask(at, now) // takes the wire after the packet
	}
}

// overtaken takes the next queue pair of a ring out of it when it has nothing to
// send any more: it had gone back, and the acknowledgement of what it was to send
// again came before its turn.
func (n *Network) overtaken(nc *nic, prio int) bool {
	r := &nc.ring[prio]
	q := &n.senders[r.head]
	if q.active && n.canSend(r.head, q) {
		return false
	}
	r.pop(n.senders)
	if r.head == none {
		nc.ready &^= 1 << prio
	}
	q.state = stateParked
	return true
}

// sleep wakes a port with nobody in the rings when pacing next allows a packet.
func (n *Network) sleep(l uint32, pt *port, nc *nic, now sim.Time) {
	if len(nc.paced) > 0 {
		n.wakeAt(l, pt, max(pt.busy, nc.paced[0].at, now+1))
	}
}

// sendControl queues a control packet at a NIC's port.
func (n *Network) sendControl(nc *nic, id uint32, now sim.Time) {
	pt := &n.ports[nc.port]
	pt.queue[prioControl].push(n.packets, id, pt.backlog&(1<<prioControl) == 0)
	pt.backlog |= 1 << prioControl
	n.kick(nc, now)
}

// emit sends a packet of the queue pair whose turn it is and returns its bytes
// on the wire.
func (n *Network) emit(nc *nic, pt *port, prio int, now sim.Time) uint32 {
	r := &nc.ring[prio]
	qp := r.pop(n.senders)
	if r.head == none {
		nc.ready &^= 1 << prio
	}
	id := n.alloc()
	p, q := &n.packets[id], &n.senders[qp]
	n.segment(p, q, qp, n.trainOf(nc, q, now))
	if n.spraying {
		n.emitting = id
		p.at = n.choosePath(q, qp, p, now)
	}
	if n.labelling {
		n.label(id, qp, now)
		p = &n.packets[id]
	}
	if q.una == p.seq || !q.timed {
		n.watch(q, now)
	}
	next := now
	if nc.cc != nil {
		next = nc.cc.OnSend(&q.rp, now, units.Bytes(p.wire))
	} else if nc.ctl != nil {
		next = nc.ctl.OnSend(q.flow, now, units.Bytes(p.wire))
	}
	q.nextSend = next
	wire := p.wire
	n.transmit(pt, id, p, now)
	switch {
	case !n.canSend(qp, q):
		q.state = stateParked
	case next <= pt.busy:
		n.line(nc, qp)
	default:
		q.state = statePaced
		nc.paced.push(paced{next, qp})
	}
	return wire
}
