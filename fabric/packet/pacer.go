package packet

import (
	"github.com/tgssim/tgssim/congestion"
	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// What paces queue pairs. DCQCN's state is in the queue pair and its methods are
// called directly; any other algorithm of package congestion is a
// congestion.Controller, one per line rate. With "none" a NIC has neither.

// layPacers gives every NIC what paces its queue pairs.
func (n *Network) layPacers(c congestion.Config) error {
	type pacer struct {
		rate units.Rate
		cc   *congestion.DCQCN
		ctl  congestion.Controller
	}
	if congestion.NeedsOf(c).Credits {
		return n.layCredits(c)
	}
	var all []pacer // one per line rate
	for i := range n.nics {
		nc := &n.nics[i]
		if len(n.graph.Out(n.firstNIC+topology.NodeID(i))) == 0 {
			continue
		}
		p := pacer{rate: n.graph.Links[nc.port].Rate}
		known := false
		for _, x := range all {
			if x.rate == p.rate {
				p, known = x, true
			}
		}
		if !known {
			var err error
			switch c.Algorithm {
			case "dcqcn":
				p.cc, err = congestion.NewDCQCN(c.DCQCN, p.rate)
			case "none":
			default:
				p.ctl, err = congestion.New(c, congestion.Line{Rate: p.rate, MTU: units.Bytes(n.mtu)})
			}
			if err != nil {
				return err
			}
			all = append(all, p)
		}
		nc.cc, nc.ctl = p.cc, p.ctl
	}
	return nil
}

// routeOf is what a path is like when nothing else is on it.
func (n *Network) routeOf(path []topology.LinkID) congestion.Route {
	r := congestion.Route{RTT: n.replyTime(path), Hops: len(path) - 1}
	for _, l := range path {
		pt := &n.ports[l]
		r.RTT += pt.time(n.mtu+n.header) + pt.fly
	}
	return r
}

// pace begins the pacing of a new queue pair on a path.
func (n *Network) pace(s *sender, path []topology.LinkID, now sim.Time) {
	nc := &n.nics[s.nic]
	s.window = n.windowOf(path)
	switch {
	case nc.cc != nil:
		nc.cc.Start(&s.rp, now)
	case nc.ctl != nil:
		s.flow = nc.ctl.Open(now, n.routeOf(path))
		s.window = max(n.inPackets(nc.ctl.Window(s.flow, now)), uint32(n.ackEvery))
	}
}

// tell reports an acknowledgement of so many packets to the controller of a queue
// pair and takes over its window. Packets count as full ones.
func (n *Network) tell(ctl congestion.Controller, q *sender, id uint32, p *packet, packets uint32, now sim.Time) {
	a := congestion.Ack{
		Bytes: units.Bytes(packets) * units.Bytes(n.mtu), Marked: p.flags&flagMarked != 0,
		Acked: q.una, Next: q.next,
	}
	if n.stamping && p.sent != 0 {
		a.RTT = sim.Time(nanoseconds(now)-p.sent) * sim.Nanosecond
	}
	if n.telemetry != nil {
		t := &n.telemetry[id]
		a.Hops, a.Path = t.hops[:t.count], t.path
	}
	ctl.OnAck(q.flow, now, a)
	n.follow(ctl, q, now)
}

// follow takes over the window of a queue pair's controller. A window of fewer
// packets than a receiver acknowledges at once would wait for an acknowledgement
// that does not come; below it, pacing alone slows the flow down.
func (n *Network) follow(ctl congestion.Controller, q *sender, now sim.Time) {
	bytes := ctl.Window(q.flow, now)
	w := max(n.inPackets(bytes), uint32(n.ackEvery))
	if !n.acted.cut {
		n.acted.cut = w < q.window || bytes == congestion.NoWindow && ctl.Rate(q.flow, now) < n.ports[n.nics[q.nic].port].rate
	}
	q.window = w
}

// nanoseconds is the clock of time stamps, 32 bits of nanoseconds as in a NIC. 0
// is for none.
func nanoseconds(now sim.Time) uint32 { return max(1, uint32(now/sim.Nanosecond)) }

// label writes what a new packet carries beside its headers: its time stamp, room
// for telemetry, what it has cost in credit.
func (n *Network) label(id, qp uint32, now sim.Time) {
	p := &n.packets[id]
	if n.stamping {
		p.sent = nanoseconds(now)
	}
	if n.telemetry != nil {
		n.collect(id, p.at)
	}
	if n.paying {
		n.spend(id, qp, p, now)
	}
}

// A record is the telemetry in a packet's header. It stays with the packet when
// that turns into its acknowledgement.
type record struct {
	hops  [congestion.MaxINTHops]congestion.INTHop
	path  uint32
	count uint8
}

// layTelemetry makes room in packets for what switches stamp.
func (n *Network) layTelemetry(s Settings) error {
	hops := 1
	if n.graph.Spines() > 0 {
		hops = 3
	}
	c := s.Congestion.INT
	if c.ReservedHops < hops {
		var ps config.Problems
		ps.Addf("congestion.int.reserved_hops", "%d is less than the %d switches of a path, and packets do not grow on their way; use %d to %d",
			c.ReservedHops, hops, hops, congestion.MaxINTHops)
		return ps
	}
	fastest := units.Rate(1)
	for l := range n.ports {
		if !n.isNVLink(topology.LinkID(l)) {
			fastest = max(fastest, n.graph.Links[l].Rate)
		}
	}
	var err error
	if n.int, err = congestion.NewINT(c, fastest); err != nil {
		return nest("congestion.int", err)
	}
	n.telemetry = []record{}
	n.observing = true
	n.header += uint32(n.int.Bytes(hops))
	n.ackWire += uint32(n.int.Bytes(hops))
	n.fullWire = (n.mtu + n.header) * n.train
	return nil
}

// collect begins the telemetry of a packet that leaves its NIC.
func (n *Network) collect(id, path uint32) {
	for int(id) >= len(n.telemetry) {
		n.telemetry = append(n.telemetry, record{})
	}
	t := &n.telemetry[id]
	t.path, t.count = path, 0
}

// stamp writes a port's state into a data packet that begins its way over the
// wire.
func (n *Network) stamp(pt *port, id uint32, p *packet, now sim.Time) {
	t := &n.telemetry[id]
	if int(t.count) >= len(t.hops) {
		return
	}
	sent := pt.sent.wire + int64(p.wire)
	for _, k := range pt.fulls {
		sent += k * int64(pt.fullWire)
	}
	t.hops[t.count] = n.int.Stamp(congestion.INTHop{
		At: now, Sent: units.Bytes(sent), Queue: units.Bytes(pt.queue[n.prioOf[p.class]].bytes), Rate: pt.rate,
	})
	t.count++
}
