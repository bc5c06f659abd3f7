package packet

import (
	"github.com/tgssim/tgssim/congestion"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// GSE from NIC to NIC (E2E): a NIC has a DGSQ per destination NIC and class, whose
// packets wait where they are, in the queue pairs; containers go over all paths;
// the receiving NIC restores their order and hands packets to their queue pairs
// in order.

// container is what a lane has for GSE.
type container struct {
	key  int // of its DGSQ at its source
	side int // of its NIC's sources
	// outside is what its queue pairs have to send and the DGSQ has stopped to take.
	outside units.Bytes
	stopped bool
	group   int // of the destinations that the same uplinks lead to
	seq     *congestion.Sequencer
	slots   []fifo // held packets, by container
	order   sim.Timer
	due     sim.Time // when order goes off, or Never
}

// A source is what a NIC has as a sender of containers: to NICs of its own leaf,
// or to others.
type source struct {
	dgsqs   *congestion.DGSQs
	uplinks *congestion.Uplinks
	lanes   []uint32 // by key of a DGSQ
}

// layContainers prepares a lane and the NIC that sends on it.
func (n *Network) layContainers(l *lane, at uint32, s *sender) {
	c := n.credits
	if s.paths.far() {
		l.gse.side = 1
	}
	p := &c.ports[l.src].sources[l.gse.side]
	if p.dgsqs == nil {
		p.dgsqs, p.uplinks = c.gse.NewDGSQs(0), c.gse.NewUplinks(int(s.paths.count))
		if n.atLeaves {
			p.uplinks.Weigh(n.graph.Leaves(), units.Bytes(n.fullWire))
		}
		n.takeDown(p, s)
	}
	l.leaf.to = n.switchOf(n.graph.LeafOf(n.firstNIC + topology.NodeID(l.dst)))
	l.gse.key = len(p.lanes)
	p.lanes = append(p.lanes, at)
	l.gse.order, l.gse.due = n.engine.NewTimer(n.self, evOrder, at), sim.Never
	n.avoid(l, s)
}

// pathOfUplink is the path of an uplink: NICs of a leaf begin at different ones, or all
// would send their containers to the same spine at the same time.
func (n *Network) pathOfUplink(q *sender, uplink int) int {
	if n.atLeaves { // the leaf itself sends
		return uplink % int(q.paths.count)
	}
	return (uplink + int(q.nic)) % int(q.paths.count)
}

// nextContainer is the path of a packet's container.
func (n *Network) nextContainer(q *sender, qp uint32, p *packet, now sim.Time) int {
	c := n.credits
	l := &c.lanes[c.ofQP[qp]]
	s := &c.ports[l.src].sources[l.gse.side]
	_, d := s.dgsqs.Get(l.gse.key, now)
	wire := units.Bytes(p.wire)
	if more := wire - d.Backlog(); more > 0 { // it took the first part of the packet
		l.gse.outside -= more
		c.gse.Enqueue(d, now, more)
	}
	tag, _, ok := c.gse.Send(d, now, wire, s.uplinks, congestion.UplinkView{Group: l.gse.group})
	if !ok {
		panic("packet: a DGSQ sends without credit or uplink")
	}
	if n.takeIn(l, d, now) {
		n.tookIn = c.ofQP[qp]
	}
	t := n.tagOf(n.emitting)
	t.GSETag, t.life = tag, l.life
	return n.pathOfUplink(q, int(tag.Path))
}

// takeIn moves what the queue pairs of a lane have to send into its DGSQ, until
// that has enough, and says whether it has taken any.
func (n *Network) takeIn(l *lane, d *congestion.DGSQ, now sim.Time) bool {
	g := &n.config.Congestion.GSE
	if l.gse.outside == 0 || l.gse.stopped && d.Backlog() > g.ResumeBytes {
		return false
	}
	bytes := l.gse.outside
	if g.StopBytes > 0 {
		bytes = min(bytes, max(0, g.StopBytes-d.Backlog())+1)
	}
	l.gse.outside -= bytes
	n.credits.gse.Enqueue(d, now, bytes)
	l.gse.stopped = l.gse.outside > 0
	n.acted.stopped = n.acted.stopped || l.gse.stopped
	return true
}

// avoid finds the uplinks that lead a lane nowhere. Where none is left it takes
// them all.
func (n *Network) avoid(l *lane, q *sender) {
	if !n.faulty {
		return
	}
	bad, all := make([]bool, int(q.paths.count)), true
	for i := range bad {
		at := q.paths.first + uint32(n.pathOfUplink(q, i))*uint32(q.paths.stride)
		bad[i] = n.crossesExcluded(n.pathAt(at))
		all = all && bad[i]
	}
	if all {
		bad = nil
	}
	l.gse.group = n.credits.ports[l.src].sources[l.gse.side].uplinks.Group(bad)
}

// takeDown takes the uplinks of a source that have failed out of service, unless
// all have.
func (n *Network) takeDown(p *source, q *sender) {
	if !n.faulty || q.paths.count == 1 {
		return
	}
	bad, all := make([]bool, int(q.paths.count)), true
	for i := range bad {
		up := n.routes[q.paths.first+uint32(n.pathOfUplink(q, i))*uint32(q.paths.stride)+1]
		bad[i] = n.isExcluded(topology.LinkID(up))
		all = all && bad[i]
	}
	for i, down := range bad {
		p.uplinks.SetDown(i, down && !all)
	}
}

// rerouteContainers follows what routing has learnt of failures and repairs.
func (n *Network) rerouteContainers() {
	if n.credits == nil || n.credits.gse == nil {
		return
	}
	c := n.credits
	for i := range c.lanes {
		l := &c.lanes[i]
		q := &n.senders[l.qps[0]]
		n.takeDown(&c.ports[l.src].sources[l.gse.side], q)
		n.avoid(l, q)
	}
}

// sweep destroys the DGSQs of a source that have been idle for long.
func (n *Network) sweep(p *source, now sim.Time) {
	c := n.credits
	c.keys = p.dgsqs.Sweep(now, p.uplinks, c.keys[:0])
	for _, key := range c.keys {
		if l := &c.lanes[p.lanes[key]]; l.open {
			n.shut(l, now)
		}
	}
}

// sequence takes in a packet of a container: it is handed over in order.
func (n *Network) sequence(id, at uint32, now sim.Time) {
	c := n.credits
	l := &c.lanes[at]
	if l.gse.seq == nil {
		l.gse.seq = c.gse.NewSequencer()
		l.gse.slots = make([]fifo, n.config.Congestion.GSE.ReorderWindow)
		for i := range l.gse.slots {
			l.gse.slots[i].head = none
		}
	}
	seq, tag, wire := l.gse.seq, c.tags[id].GSETag, units.Bytes(n.packets[id].wire)
	v := seq.Arrive(tag, wire, now)
	for v == congestion.Full {
		n.empty(at, seq.Skip(now), now)
		n.inOrder(at, now)
		v = seq.Arrive(tag, wire, now)
	}
	if v == congestion.DeliverLate {
		n.late(id, at)
	} else if !n.atLeaves {
		n.cameIn(id, at, now)
	}
	switch {
	case v != congestion.Hold:
		n.inTurn(id, at, now)
		n.hand(id, now)
	case n.atLeaves && !n.holdAtLeaf(id, now): // lost: its turn will pass
	default:
		p := &c.ports[l.dst]
		p.held += wire
		c.tags[id].held = now
		slot := &c.lanes[at].gse.slots[seq.Slot(tag.Container)]
		slot.push(n.packets, id, slot.head == none)
	}
	n.inOrder(at, now)
	n.count.MaxHeld = max(n.count.MaxHeld, int64(c.ports[c.lanes[at].dst].held))
	n.watchOrder(at, now)
}

// late takes the credit from a packet whose turn has passed: it counts as lost with
// what was sent before the next one. At its port it is as if it had been pushed.
func (n *Network) late(id, at uint32) {
	c := n.credits
	t := &c.tags[id]
	if t.pushed {
		c.ports[c.lanes[at].dst].sched.OnPush(units.Bytes(t.Scheduled))
	}
	t.Scheduled = 0
}

// inOrder hands over the containers whose turn it is.
func (n *Network) inOrder(at uint32, now sim.Time) {
	seq := n.credits.lanes[at].gse.seq
	for {
		slot, ok := seq.Release(now)
		if !ok {
			return
		}
		n.empty(at, slot, now)
	}
}

// empty hands over what is held of a container.
func (n *Network) empty(at uint32, slot int, now sim.Time) {
	c := n.credits
	for {
		l := &c.lanes[at] // receivers may make lanes
		q := &l.gse.slots[slot]
		if q.head == none {
			return
		}
		id, _ := q.pop(n.packets)
		c.ports[l.dst].held -= units.Bytes(n.packets[id].wire)
		if wait := now - c.tags[id].held; wait > 0 {
			n.count.Held++
			n.count.HeldTime += wait
		}
		n.inTurn(id, at, now)
		if n.atLeaves {
			n.dismiss(c.tags[id].port, &n.packets[id], now)
		}
		n.hand(id, now)
	}
}

// watchOrder sets the timer of a container that others wait for. A deadline that has
// become later is looked at when the timer goes off.
func (n *Network) watchOrder(at uint32, now sim.Time) {
	g := &n.credits.lanes[at].gse
	switch due := g.seq.Deadline(); {
	case due == sim.Never && g.due != sim.Never:
		g.due = sim.Never
		n.engine.Disarm(g.order)
	case due < g.due:
		g.due = max(due, now)
		n.engine.Arm(g.order, g.due)
	}
}

// skipContainer is the timer of a container that others wait for.
func (n *Network) skipContainer(at uint32, now sim.Time) {
	g := &n.credits.lanes[at].gse
	g.due = sim.Never
	if seq := g.seq; seq.Deadline() <= now {
		n.empty(at, seq.Skip(now), now)
		n.inOrder(at, now)
	}
	n.watchOrder(at, now)
}

// countContainers adds up what sequencers and sources have counted.
func (n *Network) countContainers(k *Counters) {
	if n.credits.gse == nil {
		return
	}
	state := make([]int64, len(n.credits.ports))
	for i := range n.credits.lanes {
		if s := n.credits.lanes[i].gse.seq; s != nil {
			at := n.credits.lanes[i].dst
			if n.atLeaves {
				at = n.credits.lanes[i].leaf.to
			}
			state[at] += s.State()
			k.SkippedContainers += s.Skipped
			k.LateInContainer += s.Late
			k.LostInContainer += s.Lost
		}
	}
	for i := range n.credits.ports {
		sum := int64(0)
		for _, s := range n.credits.ports[i].sources {
			if s.dgsqs != nil {
				sum += int64(s.dgsqs.Peak())
				state[i] += s.uplinks.Bytes() + 80*int64(s.dgsqs.Peak()) + 12*int64(len(s.lanes))
			}
		}
		k.MaxStateBytes = max(k.MaxStateBytes, state[i])
		k.MaxDGSQs = max(k.MaxDGSQs, sum)
		if i >= len(n.nics) {
			continue
		}
		for _, packets := range n.ports[n.nics[i].port].load(n.train, n.mtu).packets {
			k.ContainerHeaderBytes += packets * int64(n.config.Congestion.GSE.HeaderBytes)
		}
	}
}
