package packet

import (
	"fmt"

	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/routing"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// endOfRoute follows the last link of a route in Network.routes.
const endOfRoute = none

// pathChoice is what a sender that changes paths keeps.
type pathChoice struct {
	first   uint32 // place in Network.routes of its first path
	stride  uint16 // places per path
	count   uint16
	flowlet routing.Flowlet
	turn    routing.RoundRobin
}

// far says whether the paths lead to another leaf.
func (c *pathChoice) far() bool { return c.stride > 3 }

// queuePair returns queue pair number qp between two GPUs in a class, and makes
// it when there is none. Queue pairs are numbered alternately by class, as in the
// flow engine, so that each has the same UDP source port in both.
func (n *Network) queuePair(src, dst topology.GPU, class fabric.Class, qp uint32) uint32 {
	k := qpKey{src, dst, qp*uint32(fabric.NumClasses) + uint32(class)}
	id, ok := n.byKey[k]
	if !ok {
		id = n.newQueuePair(k, class)
		n.byKey[k] = id
	}
	return id
}

// newQueuePair connects a queue pair.
func (n *Network) newQueuePair(k qpKey, class fabric.Class) uint32 {
	id := uint32(len(n.senders))
	path := n.somePath(k.src, k.dst, k.number)
	if len(path) == 0 {
		panic(fmt.Sprintf("packet: there is no path from gpu%d to gpu%d", k.src, k.dst))
	}
	s := sender{
		route: n.layRoute(path), nic: n.nicIndex(k.src), class: uint8(class), prio: n.prioOf[class],
		cur: none, first: none, last: none, hold: none, again: none,
		timer: n.engine.NewTimer(n.self, evTimeout, id),
	}
	n.pace(&s, path, n.engine.Now())
	if n.spraying {
		n.laySpray(&s, k)
	}
	switch {
	case n.intPaths != nil:
		n.layINT(&s, k, id)
	case n.conga != nil:
		n.layCONGAFlow(k, id)
	case n.weaving != nil:
		n.layWeave(&s, k, id)
	}
	if n.credits != nil {
		n.layLane(&s, id, path, n.nicIndex(k.dst))
	}
	r := receiver{
		request: none, class: uint8(class), nic: n.nicIndex(k.dst), window: reorder{bits: none},
		back: n.engine.NewLane(n.replyTime(path)),
	}
	if n.ackQueueing {
		r.route = n.layRoute(n.somePath(k.dst, k.src, k.number))
	}
	n.senders = append(n.senders, s)
	n.receivers = append(n.receivers, r)
	n.keys = append(n.keys, k)
	return id
}

// pathOf is the path of a queue pair that stays on one, or empty when failures
// have left none; it is valid until the next call.
func (n *Network) pathOf(src, dst topology.GPU, number uint32) []topology.LinkID {
	key := routing.RoCE(uint32(src), uint32(dst), number)
	if n.path.Choice == PathStatic {
		all := n.graph.Paths(n.graph.NICOf(src), n.graph.NICOf(dst))
		if len(all) == 0 {
			return nil
		}
		at := n.path.Index
		if at < 0 {
			at = int(dst)
		}
		n.scratch = append(n.scratch[:0], all[at%len(all)]...)
		return n.scratch
	}
	if n.faulty {
		n.scratch = n.paths.PathAround(src, dst, key, n.isExcluded, n.scratch)
	} else {
		n.scratch = n.paths.Path(src, dst, key, n.scratch)
	}
	return n.scratch
}

// somePath is pathOf, or where failures have left no path, one of those that there
// would be: what is sent into it is lost until it is repaired.
func (n *Network) somePath(src, dst topology.GPU, number uint32) []topology.LinkID {
	if path := n.pathOf(src, dst, number); len(path) > 0 || !n.faulty {
		return path
	}
	n.scratch = n.paths.Path(src, dst, routing.RoCE(uint32(src), uint32(dst), number), n.scratch)
	return n.scratch
}

// pathBack is the path of a queue pair's replies where they queue: that of a
// queue pair of the same number the other way.
func (n *Network) pathBack(k qpKey) []topology.LinkID { return n.pathOf(k.dst, k.src, k.number) }

// layRoute appends a path to the routes and returns its place.
func (n *Network) layRoute(path []topology.LinkID) uint32 {
	at := uint32(len(n.routes))
	for _, l := range path {
		n.routes = append(n.routes, uint32(l))
	}
	n.routes = append(n.routes, endOfRoute)
	return at
}

// laySpray lays out every path that a sender may choose from, or the first
// max_paths of them, beginning at one of its own so that senders differ.
func (n *Network) laySpray(s *sender, k qpKey) {
	all := n.graph.Paths(n.graph.NICOf(k.src), n.graph.NICOf(k.dst))
	var live [][]topology.LinkID
	for _, p := range all {
		if !n.crossesExcluded(p) {
			live = append(live, p)
		}
	}
	if len(live) == 0 || n.fixedPaths {
		live = all // a path keeps its number and is out of service
	}
	begin := int(routing.Hash(routing.RoCE(uint32(k.src), uint32(k.dst), k.number), n.spraySeed) % uint64(len(live)))
	if n.fixedPaths {
		begin = 0
	}
	count := min(len(live), n.path.MaxPaths)
	s.paths.first, s.paths.stride, s.paths.count = uint32(len(n.routes)), uint16(len(live[0])+1), uint16(count)
	s.paths.flowlet.Break()
	for i := range count {
		n.layRoute(live[(begin+i)%len(live)])
	}
}

// choosePath is the route of the next packet of a sender that changes paths.
func (n *Network) choosePath(q *sender, qp uint32, p *packet, now sim.Time) uint32 {
	return q.paths.first + uint32(n.next(n, q, qp, p, now))*uint32(q.paths.stride)
}

// windowOf is the window of a queue pair over a path, in packets.
func (n *Network) windowOf(path []topology.LinkID) uint32 {
	if n.window > 0 || n.windowBDP == 0 {
		return n.inPackets(n.window)
	}
	rtt, slowest := n.routeOf(path).RTT, n.ports[path[0]].rate
	if n.atLeaves && len(path) > 2 { // its leaf asks before it sends on
		rtt += n.controlTime(path[1:len(path)-1], true) + n.controlTime(path[1:len(path)-1], false)
	}
	for _, l := range path {
		slowest = min(slowest, n.ports[l].rate)
	}
	return n.inPackets(units.Bytes(n.windowBDP*rtt.Seconds()*slowest.BytesPerSecond()) * units.Bytes(n.mtu) / units.Bytes(n.mtu+n.header))
}

// inPackets is a window of so many bytes of payload, in packets: at least one,
// and as good as unlimited for 0, but with selective repeat no more than receivers
// can remember: what is sent beyond that is thrown away, and nobody asks for it.
func (n *Network) inPackets(bytes units.Bytes) uint32 {
	most := uint32(1 << 30)
	if n.selective {
		most = n.reorderWindow
	}
	if bytes <= 0 {
		return most
	}
	return uint32(min(max(1, (bytes-1)/units.Bytes(n.mtu)+1), units.Bytes(most)))
}

// replyTime is what an acknowledgement or CNP takes back along a path, alone:
// its serialisation on every link, propagation and the switches' pipelines.
func (n *Network) replyTime(path []topology.LinkID) sim.Time {
	var t sim.Time
	for _, l := range path {
		back := &n.graph.Links[n.graph.Reverse(l)]
		t += n.ports[l^1].time(n.ackWire) + back.Delay + n.graph.SwitchLatency(back.To)
	}
	return t
}

// nicIndex is the place of a GPU's NIC in Network.nics.
func (n *Network) nicIndex(gpu topology.GPU) uint32 {
	return uint32(n.graph.NICOf(gpu) - n.firstNIC)
}
