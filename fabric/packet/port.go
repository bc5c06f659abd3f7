package packet

import (
	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/invariants"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// The priorities of a port. Control frames (CNPs, and acknowledgements when they
// queue) go first and are never paused. The data classes share prioShared, or
// have one each.
const (
	prioControl = iota
	prioShared
	prioEP // above prioShared when strict
	numPrios
)

// A port is the sending end of one directed link: a switch's egress or a NIC's.
//
// The wire is taken until busy. While it is, and while something waits, the port
// wakes up at busy; a packet that finds the wire free starts at once and costs
// one event, its arrival at the far end.
type port struct {
	// The first cache line is all that a packet touches that finds the wire free.
	busy sim.Time
	wake sim.Time // the wake-up that counts, or sim.Never; others are stale
	// ser is the time of a full packet on the wire and fullWire its bytes.
	ser       sim.Time
	fulls     [fabric.NumClasses]int64 // full data packets, or trains
	fullWire  uint32
	owner     uint32   // the switch or NIC, counted within its kind
	arriveIn  sim.Lane // ser + fly
	doneIn    sim.Lane // ser
	backlog   uint8    // a bit per priority with something waiting
	paused    uint8    // a bit per priority
	nic, down bool     // a NIC's port, not a switch's; the link has failed
	whole     bool     // the far end is a NIC, which takes in whole trains
	scheduled bool     // a leaf's, which GSE or ConWeave sends data to

	queue [numPrios]fifo
	// lag is by how much the shared class is behind the EP class, in bytes times
	// weight, while both wait; see pick.
	lag int64
	// fly is from the last bit on the wire to the earliest start at the far end:
	// propagation and the switch's pipeline.
	fly  sim.Time
	rate units.Rate
	sent carried
	// framed is when the last PFC frame was through.
	framed sim.Time
	// The same for a single MTU, where full packets are trains.
	oneIn, oneDone sim.Lane
	_              [8]byte // three cache lines
}

// carried is what a port has put on its wire beside the packets in port.fulls.
type carried struct {
	wire    int64
	packets [fabric.NumClasses]int64
	payload [fabric.NumClasses]int64
	control int64 // replies and pause frames
}

// load is everything that a port has put on its wire. A full packet is train
// MTUs.
func (pt *port) load(train, mtu uint32) carried {
	s := pt.sent
	for c, k := range pt.fulls {
		s.wire += k * int64(pt.fullWire)
		s.packets[c] += k * int64(train)
		s.payload[c] += k * int64(train*mtu)
	}
	return s
}

// time is how long n bytes take on the wire, rounded up to the picosecond.
func (pt *port) time(n uint32) sim.Time {
	const bit8 = 8 * uint64(sim.Second)
	q := uint64(n) * bit8 / uint64(pt.rate) // n < 2^20: it fits
	if q*uint64(pt.rate) != uint64(n)*bit8 {
		q++
	}
	return sim.Time(q)
}

// isFree tells whether a packet of a priority may start now: nothing that may
// go waits before it.
func (pt *port) isFree(now sim.Time, prio uint8) bool {
	return pt.busy <= now && pt.backlog&^pt.paused == 0 && pt.paused>>prio&1 == 0
}

// transmit puts a packet on a wire that is free.
func (n *Network) transmit(pt *port, id uint32, p *packet, now sim.Time) {
	if invariants.Enabled && pt.busy > now {
		panic("packet: two packets on a wire")
	}
	p.at++
	if n.observing {
		n.observe(pt, id, p, now)
	}
	if p.wire == pt.fullWire && !pt.down {
		pt.fulls[p.class]++
		pt.busy = now + pt.ser
		if n.train == 1 || pt.whole || n.ports[n.routes[p.at]].rate <= pt.rate {
			n.engine.AfterLane(pt.arriveIn, n.self, evArrive, id)
		} else {
			n.engine.At(now+n.ahead(pt, p)+pt.fly, n.self, evArrive, id)
		}
		return
	}
	pt.sent.wire += int64(p.wire)
	if p.flags&flagReply == 0 {
		pt.sent.packets[p.class] += int64(p.count)
		pt.sent.payload[p.class] += int64(p.payload)
	} else {
		pt.sent.control++
	}
	pt.busy = now + pt.time(p.wire)
	if pt.down {
		n.drop(id, DropLinkDown)
		return
	}
	if p.wire == n.mtu+n.header {
		n.engine.AfterLane(pt.oneIn, n.self, evArrive, id)
		return
	}
	n.engine.At(now+n.ahead(pt, p)+pt.fly, n.self, evArrive, id)
}

// ahead is the time from the begin of a packet on a wire, without the flight,
// until the far end may begin to send it on. A NIC takes in what has arrived
// whole. A switch forwards packet by packet: it may begin a train when the first
// MTU has arrived, or, onto a faster link, so much later that the last two have
// arrived when their turn comes, of which the last can be short.
func (n *Network) ahead(pt *port, p *packet) sim.Time {
	whole := pt.time(p.wire)
	if pt.whole || p.count <= 1 {
		return whole
	}
	mtu := n.mtu + n.header
	if next := &n.ports[n.routes[p.at]]; next.rate > pt.rate {
		full := uint32(p.count-1) * mtu
		late := max(0, pt.time(p.wire-full)-next.time(mtu))
		return pt.time(full) - next.time(full-mtu) + late
	}
	return pt.time(mtu)
}

// arrive takes in a packet at the end of a link.
func (n *Network) arrive(id uint32, now sim.Time) {
	p := &n.packets[id]
	l := n.routes[p.at]
	if n.faulty && n.lostOnWire(n.routes[p.at-1], p, now) {
		n.drop(id, DropLinkDown)
		return
	}
	if l == endOfRoute {
		n.receive(id, p, now)
		return
	}
	pt := &n.ports[l]
	if n.counting {
		n.conga.taken(n, id, p, now)
	}
	if pt.scheduled && p.prio != prioControl {
		if n.weaving != nil {
			n.weave(l, pt, id, p, now)
		} else {
			n.schedule(l, pt, id, p, now)
		}
		return
	}
	if pt.isFree(now, p.prio) {
		n.transmit(pt, id, p, now)
		return
	}
	n.enqueue(l, pt, id, p, now)
}

// serve starts the next packet of a switch's port at its wake-up.
func (n *Network) serve(l uint32, pt *port, now sim.Time) {
	ready := pt.backlog &^ pt.paused
	if ready == 0 {
		return
	}
	prio := n.pick(pt, ready)
	id := n.dequeue(l, pt, prio, now)
	p := &n.packets[id]
	n.transmit(pt, id, p, now)
	n.charge(pt, prio, p.wire)
	if pt.backlog&^pt.paused != 0 {
		n.wakeWhenDone(l, pt, p.wire)
	}
}

// pick chooses among the priorities that may send. With weights, the two data
// classes share the wire in their proportion whenever both wait; a class that
// was idle has saved up nothing (start-time fair queueing of two flows: Goyal,
// Vin and Cheng, SIGCOMM 1996).
func (n *Network) pick(pt *port, ready uint8) int {
	switch {
	case ready&(1<<prioControl) != 0:
		return prioControl
	case ready == 1<<prioShared:
		pt.lag = 0
		return prioShared
	case ready == 1<<prioEP:
		pt.lag = 0
		return prioEP
	case n.weights[0] == 0 || pt.lag <= 0:
		return prioEP
	}
	return prioShared
}

// charge counts what a class has sent while both wait.
func (n *Network) charge(pt *port, prio int, wire uint32) {
	switch prio {
	case prioEP:
		pt.lag += int64(wire) * n.weights[0]
	case prioShared:
		pt.lag -= int64(wire) * n.weights[1]
	}
}

// wakeWhenDone wakes a port when the packet that it has just begun is through.
func (n *Network) wakeWhenDone(l uint32, pt *port, wire uint32) {
	if wire == pt.fullWire {
		pt.wake = pt.busy
		n.engine.AfterLane(pt.doneIn, n.self, evWake, l)
		return
	}
	if wire == n.mtu+n.header {
		pt.wake = pt.busy
		n.engine.AfterLane(pt.oneDone, n.self, evWake, l)
		return
	}
	n.wakeAt(l, pt, pt.busy)
}

// wakeAt wakes a port at t, unless it wakes up before anyway.
func (n *Network) wakeAt(l uint32, pt *port, t sim.Time) {
	if pt.wake <= t {
		return
	}
	pt.wake = t
	n.engine.At(t, n.self, evWake, l)
}

// woken is a port's wake-up.
func (n *Network) woken(l uint32, now sim.Time) {
	pt := &n.ports[l]
	if pt.wake != now {
		return // an earlier one took its place
	}
	pt.wake = sim.Never
	if pt.busy > now { // a frame slipped in
		n.wakeAt(l, pt, pt.busy)
		return
	}
	if pt.nic {
		n.serveNIC(l, pt, now)
		return
	}
	n.serve(l, pt, now)
}
