package packet

import (
	"math"
	"math/bits"

	"github.com/tgssim/tgssim/congestion"
	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// A packet is in a switch's buffer while it waits for its egress wire. The one
// on the wire counts no more, as in HPCC-ns3; so a packet that finds the wire
// free costs the buffer nothing.

// switchPort is what a switch keeps of one of its ports beside the egress: the
// marking curve and the queue over time.
type switchPort struct {
	marker congestion.Marker
	draws  uint64 // uniform numbers used by marking
	stats  portStats
	_      [40]byte // whole cache lines
}

// enqueue puts a packet behind those that wait at a switch's port, or drops it.
func (n *Network) enqueue(l uint32, pt *port, id uint32, p *packet, now sim.Time) {
	in, sp := n.routes[p.at-1], &n.switchPorts[l]
	b := n.buffers[pt.owner]
	from, to := int(n.portIndex[in^1]), int(n.portIndex[l])
	v := b.Admit(from, to, n.qos[p.prio], units.Bytes(p.wire))
	for v.Drop != congestion.NoDrop {
		if v.Pause {
			n.sendPause(in, p.prio, true, now)
		}
		class := p.class
		sp.stats.dropped[class][v.Drop] += n.shorten(id, p, DropReason(v.Drop))
		if p.count == 0 {
			return
		}
		v = b.Admit(from, to, n.qos[p.prio], units.Bytes(p.wire))
	}
	if v.Pause {
		n.sendPause(in, p.prio, true, now)
	}
	empty := pt.backlog>>p.prio&1 == 0
	if p.prio != prioControl {
		sp.stats.observe(pt.queue[prioShared].bytes+pt.queue[prioEP].bytes, now)
		n.observeQueue(l, pt, int(p.prio), now)
		if n.markOnEnqueue && !empty {
			n.maybeMark(l, pt, sp, p)
		}
	}
	pt.queue[p.prio].push(n.packets, id, empty)
	pt.backlog |= 1 << p.prio
	if pt.paused>>p.prio&1 == 0 {
		n.wakeAt(l, pt, max(pt.busy, now))
	}
}

// shorten drops the second half of a train that does not fit, or a packet, after
// which count is 0, and returns how many packets that were.
func (n *Network) shorten(id uint32, p *packet, why DropReason) (lost int64) {
	if p.count <= 1 {
		n.drop(id, why)
		p.count = 0
		return 1
	}
	lost = int64(p.count+1) / 2
	n.count.Dropped[why] += lost
	wire := p.wire
	n.lengthen(p, uint32(p.count)-uint32(lost))
	if n.promised != nil {
		n.promise(p.at, int64(p.wire)-int64(wire))
	}
	return lost
}

// dequeue takes the first packet of a priority out of a switch's buffer.
func (n *Network) dequeue(l uint32, pt *port, prio int, now sim.Time) uint32 {
	sp := &n.switchPorts[l]
	q := &pt.queue[prio]
	if prio != prioControl {
		sp.stats.observe(pt.queue[prioShared].bytes+pt.queue[prioEP].bytes, now)
		n.observeQueue(l, pt, prio, now)
	}
	id, empty := q.pop(n.packets)
	if empty {
		pt.backlog &^= 1 << prio
	}
	p := &n.packets[id]
	in := n.routes[p.at-1]
	b := n.buffers[pt.owner]
	if b.Release(int(n.portIndex[in^1]), int(n.portIndex[l]), n.qos[prio], units.Bytes(p.wire)) {
		n.sendPause(in, p.prio, false, now)
	}
	if prio != prioControl && !n.markOnEnqueue && !empty {
		n.maybeMark(l, pt, sp, p)
	}
	return id
}

// maybeMark marks a packet by the bytes that wait in its queue without it.
func (n *Network) maybeMark(l uint32, pt *port, sp *switchPort, p *packet) {
	waiting := units.Bytes(pt.queue[p.prio].bytes)
	if !n.ecn || waiting+units.Bytes(p.wire) <= n.leastKmin {
		return
	}
	// One after the other, the MTUs of a train leave the ones behind them, or
	// find the ones before them.
	behind := units.Bytes(p.count-1) * units.Bytes(n.mtu+n.header)
	for ; behind >= 0; behind -= units.Bytes(n.mtu + n.header) {
		if waiting+behind <= n.leastKmin {
			return
		}
		sp.draws++
		if sp.marker.Mark(waiting+behind, congestion.Uniform(n.markSeed+uint64(l)<<32, sp.draws)) {
			p.flags |= flagMarked
			sp.stats.marked[p.class]++
		}
	}
}

// sendPause sends a PFC frame back over the cable that link in came by. It waits
// for the frame on the wire and takes the wire for its own time.
func (n *Network) sendPause(in uint32, prio uint8, xoff bool, now sim.Time) {
	back := &n.ports[in^1]
	if back.down {
		return
	}
	wait := max(0, back.busy-now)
	if n.train > 1 {
		wait %= back.time(n.mtu + n.header) // it slips in between the MTUs of a train
	}
	frame := back.time(pauseFrame)
	back.busy = max(back.busy, now) + frame
	back.framed = max(now+wait, back.framed) + frame
	back.sent.wire += pauseFrame
	back.sent.control++
	arg := n.pauseArg(in, prio)
	if xoff {
		arg |= 1
		n.count.Pauses++
	}
	n.engine.At(back.framed+n.graph.Links[in^1].Delay+n.pauseResponse, n.self, evPause, arg)
}

// pauseFrame is what a PFC frame takes on the wire: 64 B, preamble 8 and gap 12.
const pauseFrame = 84

// pauseArg is what the event of an XON carries: the link that it is for, how
// often that has failed (modulo 32) and the priority. XOFF sets the lowest bit.
func (n *Network) pauseArg(l uint32, prio uint8) uint32 {
	arg := l<<8 | uint32(prio)<<1
	if n.faulty {
		arg |= uint32(n.faults.failures[l]%32) << 3
	}
	return arg
}

// heedPause stops or resumes a priority of a port. A frame whose cable failed
// under way does nothing: the failure has ended the pauses of the port.
func (n *Network) heedPause(arg uint32, now sim.Time) {
	l, prio := arg>>8, arg>>1&3
	if arg&^1 != n.pauseArg(l, uint8(prio)) {
		return
	}
	pt := &n.ports[l]
	st := n.pauseStats(l)
	if arg&1 != 0 {
		if pt.paused>>prio&1 == 0 {
			pt.paused |= 1 << prio
			st.pauses[prio]++
			st.pausedAt[prio] = now
			n.deadlock.paused++
			n.watchDeadlock(now)
		}
		return
	}
	if pt.paused>>prio&1 == 0 {
		return
	}
	pt.paused &^= 1 << prio
	st.pausedFor[prio] += now - st.pausedAt[prio]
	n.resumed()
	switch {
	case pt.nic:
		n.kick(&n.nics[pt.owner], now)
	case pt.backlog&^pt.paused == 0:
	case pt.busy > now:
		n.wakeAt(l, pt, pt.busy)
	default:
		n.serve(l, pt, now)
	}
}

// pauseStats is where a port's pauses are counted.
func (n *Network) pauseStats(l uint32) *pauseStats { return &n.pauses[l] }

type pauseStats struct {
	pauses    [numPrios]int64
	pausedFor [numPrios]sim.Time
	pausedAt  [numPrios]sim.Time
}

// portStats is what a switch's egress has seen.
type portStats struct {
	marked  [fabric.NumClasses]int64
	dropped [fabric.NumClasses][4]int64 // by congestion.Drop
	depth                               // the data bytes that wait, in all queues
}

// A depth is the history of a queue's length.
type depth struct {
	since    sim.Time
	integral float64 // bytes times picoseconds
	most     uint32
	// span[b] is the time spent with a depth in bucket b; see bucketOf.
	span [depthBuckets]sim.Time
}

// observeQueue books the time since the last change of a data queue, where the
// classes have queues of their own.
func (n *Network) observeQueue(l uint32, pt *port, prio int, now sim.Time) {
	if n.depths != nil {
		n.depths[l][prio-prioShared].observe(pt.queue[prio].bytes, now)
	}
}

// depthBuckets covers depths to 4 GiB at two buckets per octave from 256 B on.
const depthBuckets = 50

// observe books the time since the last change of the queue, which has been this
// long until now.
func (s *depth) observe(depth uint32, now sim.Time) {
	s.most = max(s.most, depth)
	dt := now - s.since
	s.since = now
	s.integral += float64(float64(depth) * float64(dt))
	s.span[bucketOf(depth)] += dt
}

// bucketOf is the bucket of a depth: 0 for an empty queue, 1 below 256 B, then
// two for every doubling.
func bucketOf(depth uint32) int {
	if depth < 256 {
		return min(1, int(depth))
	}
	o := bits.Len32(depth) // 9..32
	return 2*(o-9) + int(depth>>(o-2)&1) + 2
}

// bucketTop is the largest depth of a bucket.
func bucketTop(b int) uint32 {
	if b < 2 {
		return uint32(b) * 255
	}
	o := (b-2)/2 + 9
	return uint32(uint64(2+(b-2)%2+1)<<(o-2) - 1)
}

// checkMarks says where the switches' ports have no marking curve.
func (n *Network) checkMarks(c congestion.ECNConfig) error {
	for l := range n.graph.Links {
		if link := &n.graph.Links[l]; link.From >= n.firstSwitch {
			if err := c.Check(link.Rate); err != nil {
				return err
			}
		}
	}
	return nil
}

// layBuffers makes the switches' buffers.
func (n *Network) layBuffers(c congestion.Config, nicRate units.Rate) error {
	g := n.graph
	n.leastKmin, n.pauseAlone = math.MaxInt64, math.MaxInt64
	c.Buffer.Headroom.Bytes += n.trainHeadroom()
	for node := n.firstSwitch; int(node) < len(g.Nodes); node++ {
		var ports []congestion.Port
		for _, l := range g.Out(node) {
			link := &g.Links[l]
			sp := &n.switchPorts[l]
			n.portIndex[l] = int32(len(ports))
			curve := c.ECN.At(link.Rate)
			sp.marker = curve.Marker()
			n.leastKmin = min(n.leastKmin, curve.Kmin)
			ports = append(ports, congestion.Port{Rate: link.Rate, Delay: link.Delay})
		}
		b, err := congestion.NewBuffer(c.Buffer, nicRate, units.Bytes(n.mtu+n.header), ports)
		if err != nil {
			return err
		}
		n.buffers[node-n.firstSwitch] = b
		for i, p := range ports {
			n.pauseAlone = min(n.pauseAlone, b.PauseAlone(i))
			n.compareHeadroom(g.Out(node)[i], b.Headroom(i), p)
		}
	}
	return nil
}

// trainHeadroom is the headroom that trains take beside that of packets: no pause cuts
// one that is on the wire, and one that has come for its first MTU is accounted whole.
func (n *Network) trainHeadroom() units.Bytes {
	return 2 * units.Bytes((n.train-1)*(n.mtu+n.header))
}

// A shortage is headroom of a port that is less than PFC needs to lose nothing.
type shortage struct {
	link        topology.LinkID
	have, needs units.Bytes
}

// compareHeadroom keeps the port that is the shortest of headroom.
func (n *Network) compareHeadroom(l topology.LinkID, have units.Bytes, p congestion.Port) {
	frame := units.Bytes(n.mtu + n.header)
	needs := congestion.Headroom(p.Rate, p.Delay, n.pauseResponse, frame) + n.trainHeadroom()
	if needs-have > n.short.needs-n.short.have {
		n.short = shortage{l, have, needs}
	}
}

// switchOf counts a switch within n.buffers.
func (n *Network) switchOf(node topology.NodeID) uint32 { return uint32(node - n.firstSwitch) }
