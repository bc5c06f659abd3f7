package packet

import (
	"fmt"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// faultState is what faults have done to the links.
type faultState struct {
	links    []topology.LinkID // of each fault: one direction of its cable
	downAt   []sim.Time        // when each link last failed; -1 never
	failures []uint32          // how often each link has failed
	excluded []bool            // links that routing avoids
	left     int               // faults that switches and NICs have yet to route by
	cut      []bool            // queue pairs that have given up
	gaveUp   Notice            // about the first of them
	count    int               // of them
}

// layFaults finds the links of the faults and schedules them.
func (n *Network) layFaults(c Config) error {
	if len(c.Faults) == 0 {
		return nil
	}
	n.faulty = true
	byName := map[string]topology.LinkID{} // looked up, never ranged over
	var names []string
	for l := range n.graph.Links {
		if !n.isNVLink(topology.LinkID(l)) {
			byName[n.graph.Links[l].Name] = topology.LinkID(l)
			names = append(names, n.graph.Links[l].Name)
		}
	}
	f := &n.faults
	f.downAt, f.excluded = make([]sim.Time, len(n.ports)), make([]bool, len(n.ports))
	f.failures = make([]uint32, len(n.ports))
	for l := range f.downAt {
		f.downAt[l] = -1
	}
	var ps config.Problems
	for i, fault := range c.Faults {
		l, ok := byName[fault.Link]
		if !ok {
			ps.Addf(fmt.Sprintf("packet.faults[%d].link", i), "%q is not a link between NICs and switches%s",
				fault.Link, config.Suggest(fault.Link, names))
			continue
		}
		f.links = append(f.links, l)
		f.left++
		n.engine.At(max(fault.At, n.engine.Now()), n.self, evFault, uint32(i))
	}
	return ps.Err()
}

// strike applies a fault to both directions of its cable.
func (n *Network) strike(i uint32, now sim.Time) {
	fault := n.config.Packet.Faults[i]
	l := n.faults.links[i]
	cable := [2]topology.LinkID{l, n.graph.Reverse(l)}
	wasDown := n.ports[l].down
	for _, l := range cable {
		pt := &n.ports[l]
		pt.down = fault.Rate == 0
		if pt.down {
			n.faults.downAt[l] = now
			n.faults.failures[l]++
		} else {
			n.setRate(pt, max(1, units.Rate(float64(n.graph.Links[l].Rate)*fault.Rate)))
		}
	}
	for _, l := range cable {
		switch down := fault.Rate == 0; {
		case down:
			n.unpause(uint32(l), now)
		case wasDown:
			n.pauseAgain(uint32(l), now)
		}
	}
	if detect := n.config.Packet.FaultDetection; detect > 0 {
		n.engine.After(detect, n.self, evRoute, i)
	} else {
		n.reconverge(now)
	}
}

// unpause ends the pauses of a port whose link has failed: nobody is left to end
// them. What it sends from now on is lost.
func (n *Network) unpause(l uint32, now sim.Time) {
	for prio := range uint8(numPrios) {
		n.heedPause(n.pauseArg(l, prio), now)
	}
}

// pauseAgain makes the far end of a repaired link repeat the pauses that it has
// asked for.
func (n *Network) pauseAgain(l uint32, now sim.Time) {
	to := n.graph.Links[l].To
	if to < n.firstSwitch {
		for prio, paused := range n.nics[to-n.firstNIC].rx.paused {
			if paused {
				n.sendPause(l, uint8(prio), true, now)
			}
		}
		return
	}
	b := n.buffers[n.switchOf(to)]
	for prio := uint8(prioShared); prio < numPrios; prio++ {
		if b.Paused(int(n.portIndex[l^1]), n.qos[prio]) {
			n.sendPause(l, prio, true, now)
		}
	}
}

// lostOnWire says whether the link that a packet has come by failed while it was
// on it.
func (n *Network) lostOnWire(l uint32, p *packet, now sim.Time) bool {
	down := n.faults.downAt[l]
	if down < 0 {
		return false
	}
	pt := &n.ports[l]
	last := now - n.graph.SwitchLatency(n.graph.Links[l].To) // its last bit arrived
	wire := p.wire
	if p.count > 1 && !pt.whole {
		wire = n.mtu + n.header // a train shares the fate of its first MTU
	}
	first := last - n.graph.Links[l].Delay - pt.time(wire) // its first bit left
	return down > first && down <= last
}

// isExcluded says whether routing avoids a link.
func (n *Network) isExcluded(l topology.LinkID) bool { return n.faults.excluded[l] }

// crossesExcluded says whether a path has a link that routing avoids.
func (n *Network) crossesExcluded(path []topology.LinkID) bool {
	if !n.faulty {
		return false
	}
	for _, l := range path {
		if n.faults.excluded[l] {
			return true
		}
	}
	return false
}

// reconverge routes by the links that are up now. A queue pair without a way
// left keeps its path, and loses its packets, until there is one.
func (n *Network) reconverge(sim.Time) {
	n.faults.left--
	changed := false
	for l := range n.ports {
		changed = changed || n.faults.excluded[l] != n.ports[l].down
		n.faults.excluded[l] = n.ports[l].down
	}
	if !changed {
		return
	}
	for qp := range n.senders {
		s, k := &n.senders[qp], n.keys[qp]
		path := n.pathOf(k.src, k.dst, k.number)
		if len(path) > 0 && !n.isRoute(s.route, path) {
			s.route = n.layRoute(path)
		}
		if n.intPaths != nil {
			n.markDown(s, &n.intPaths.known[n.intPaths.flows[qp].known])
		} else if n.weaving != nil {
			n.weaveAround(s, uint32(qp))
		} else if n.spraying && !n.fixedPaths {
			n.laySpray(s, k)
		}
		if r := &n.receivers[qp]; n.ackQueueing {
			if path := n.pathBack(k); len(path) > 0 && !n.isRoute(r.route, path) {
				r.route = n.layRoute(path)
			}
		}
	}
	n.rerouteContainers()
}

// isRoute says whether the route at a place is a path.
func (n *Network) isRoute(at uint32, path []topology.LinkID) bool {
	for i, l := range path {
		if n.routes[at+uint32(i)] != uint32(l) {
			return false
		}
	}
	return n.routes[at+uint32(len(path))] == endOfRoute
}

// lostForGood returns a link of a queue pair's route, or of its replies' where
// they queue, that is down for ever: all faults have struck, routing has answered
// and still has nothing better.
func (n *Network) lostForGood(qp uint32) (topology.LinkID, bool) {
	if !n.faulty || n.faults.left > 0 {
		return 0, false
	}
	l, down := n.downOn(n.senders[qp].route)
	if !down && n.ackQueueing {
		l, down = n.downOn(n.receivers[qp].route)
	}
	return l, down
}

// downOn finds the first link of a route that is down.
func (n *Network) downOn(route uint32) (topology.LinkID, bool) {
	for ; n.routes[route] != endOfRoute; route++ {
		if l := n.routes[route]; n.ports[l].down {
			return topology.LinkID(l), true
		}
	}
	return 0, false
}

// giveUp ends the tries of a queue pair whose way is lost for good. Its messages
// stay in flight for ever, which a notice says; its place among the NIC's goes to
// one that waits.
func (n *Network) giveUp(qp uint32, down topology.LinkID, now sim.Time) {
	f, q := &n.faults, &n.senders[qp]
	if missing := len(n.senders) - len(f.cut); missing > 0 {
		f.cut = append(f.cut, make([]bool, missing)...)
	}
	if !f.cut[qp] {
		f.cut[qp] = true
		if f.count++; f.count == 1 {
			k := n.keys[qp]
			f.gaveUp = Notice{now, "unreachable", fmt.Sprintf("gpu%d has no way to gpu%d, since %s is down and no repair is to come; what it sends there never arrives",
				k.src, k.dst, n.graph.Links[down].Name)}
		}
	}
	q.timed = false
	if q.active {
		n.retire(qp, now)
	}
}

// hasGivenUp says whether a queue pair has stopped trying.
func (n *Network) hasGivenUp(qp uint32) bool { return int(qp) < len(n.faults.cut) && n.faults.cut[qp] }
