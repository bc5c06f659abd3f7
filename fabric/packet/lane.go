package packet

import (
	"github.com/tgssim/tgssim/congestion"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// layCredits prepares receiver credits, if that is what paces.
func (n *Network) layCredits(s congestion.Config) error {
	c := &credits{place: map[[3]uint32]uint32{}, rtt: n.longestTrip(), wired: make([]int64, len(n.ports))}
	switch s.Algorithm {
	case "gse":
		var err error
		c.config = s.GSE.Credit
		if c.gse, err = congestion.NewGSE(s.GSE, n.nicRate(), c.rtt); err != nil {
			return err
		}
	case "credit":
		c.config = s.Credit
	default:
		return nil
	}
	c.weighted = c.config.Order == congestion.OrderWeighted
	n.atLeaves = s.Algorithm == "gse" && s.GSE.Mode == congestion.ModeN2N
	n.paying = !n.atLeaves
	if n.atLeaves {
		n.layLeaves()
	}
	c.ports = make([]creditPort, max(len(n.nics), n.graph.Leaves()))
	for i := range c.ports {
		c.ports[i].grantAt = sim.Never
	}
	n.credits = c
	return nil
}

// longestTrip is the longest round trip between NICs without queues.
func (n *Network) longestTrip() sim.Time {
	rtt := sim.Microsecond
	g := n.graph
	for dst := range topology.GPU(g.GPUs()) {
		if g.ServerOf(dst) == g.ServerOf(0) {
			continue
		}
		rtt = max(rtt, n.routeOf(n.pathOf(0, dst, 0)).RTT)
		if g.LeafOf(g.NICOf(dst)) != g.LeafOf(g.NICOf(0)) {
			break // all others are as far
		}
	}
	return rtt
}

// layLane gives a new queue pair its lane.
func (n *Network) layLane(s *sender, id uint32, path []topology.LinkID, dst uint32) {
	c := n.credits
	for uint32(len(c.ofQP)) <= id {
		c.ofQP = append(c.ofQP, none)
	}
	src := s.nic
	if n.atLeaves {
		src = n.switchOf(n.graph.LeafOf(n.firstNIC + topology.NodeID(s.nic)))
		n.layScheduler(dst)
		if !s.paths.far() {
			c.ofQP[id] = none
			return
		}
		path = path[1 : len(path)-1]
	}
	key := [3]uint32{src, dst, uint32(s.class)}
	at, ok := c.place[key]
	if !ok || c.gse == nil {
		at = uint32(len(c.lanes))
		c.place[key] = at
		c.lanes = append(c.lanes, lane{
			src: src, dst: dst,
			forth: n.engine.NewLane(n.controlTime(path, true)), back: n.engine.NewLane(n.controlTime(path, false)),
		})
		if c.gse != nil {
			n.layContainers(&c.lanes[at], at, s)
		}
		n.layScheduler(dst)
	}
	c.ofQP[id] = at
	c.lanes[at].qps = append(c.lanes[at].qps, id)
}

// layScheduler makes the scheduler of a NIC's port.
func (n *Network) layScheduler(nic uint32) {
	p := &n.credits.ports[nic]
	if p.sched != nil {
		return
	}
	rate := n.graph.Links[n.nics[nic].port].Rate
	sched, err := congestion.NewCreditScheduler(n.credits.config, rate, n.credits.rtt, units.Bytes(n.fullWire))
	if err != nil {
		panic("packet: " + err.Error()) // New has validated the same settings
	}
	p.sched = sched
	p.expiry = n.engine.NewTimer(n.self, evExpire, nic)
}

// controlTime is what a control message takes alone over a path, or back.
func (n *Network) controlTime(path []topology.LinkID, forth bool) (t sim.Time) {
	size := uint32(n.credits.config.MessageBytes)
	for _, l := range path {
		if !forth {
			l = n.graph.Reverse(l)
		}
		link := &n.graph.Links[l]
		t += n.ports[l].time(size) + link.Delay + n.graph.SwitchLatency(link.To)
	}
	return t
}
