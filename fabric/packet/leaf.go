package packet

import (
	"fmt"

	"github.com/tgssim/tgssim/congestion"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// GSE from leaf to leaf (N2N): NICs are unchanged. A packet whose next link is an
// uplink waits in its leaf's DGSQ for the destination NIC's port and class; the
// leaf of that port grants, restores the order of containers and queues packets
// at the port. What waits in a DGSQ, or for a container, stays admitted to the
// leaf's buffer, so that PFC towards the NICs works as for any queue.

// A leafLane is what a lane between leaves holds.
type leafLane struct {
	queue  fifo // of the DGSQ
	filled bool
	to     uint32 // its NIC's leaf
}

// layLeaves has the leaves do what NICs do with GSE from NIC to NIC.
func (n *Network) layLeaves() {
	for l := range n.ports {
		from, to := n.graph.Links[l].From, n.graph.Links[l].To
		leaf := from >= n.firstSwitch && int(from-n.firstSwitch) < n.graph.Leaves()
		n.ports[l].scheduled = leaf && (to < n.firstSwitch || n.graph.Spines() > 0)
	}
}

// schedule takes in a data packet that has reached a leaf on its way to an uplink
// or to a NIC.
func (n *Network) schedule(l uint32, pt *port, id uint32, p *packet, now sim.Time) {
	in := n.routes[p.at-1]
	at := n.credits.ofQP[p.qp]
	switch {
	case !pt.whole:
		n.queueUp(l, pt, id, at, now)
	case n.graph.Links[in].From >= n.firstSwitch: // from a spine
		c := n.credits
		t := &c.tags[id]
		t.pushed = true
		c.ports[c.lanes[at].dst].sched.OnPush(units.Bytes(p.wire) - units.Bytes(t.Scheduled))
		n.settle(c.lanes[at].dst, now)
		n.sequence(id, at, now)
	default: // within the leaf
		t := n.tagOf(id)
		t.Scheduled, t.pushed = 0, true
		sched := n.credits.ports[n.receivers[p.qp].nic].sched
		sched.OnPush(units.Bytes(p.wire))
		n.forward(l, pt, id, p, now)
	}
}

// forward sends a packet on, or queues it at the port.
func (n *Network) forward(l uint32, pt *port, id uint32, p *packet, now sim.Time) {
	if pt.isFree(now, p.prio) {
		n.transmit(pt, id, p, now)
		return
	}
	n.enqueue(l, pt, id, p, now)
}

// admitted lets the buffer of a switch take in a packet for a port. It returns
// false when it has been dropped.
func (n *Network) admitted(l uint32, pt *port, id uint32, p *packet, now sim.Time) bool {
	in := n.routes[p.at-1]
	v := n.buffers[pt.owner].Admit(int(n.portIndex[in^1]), int(n.portIndex[l]), n.qos[p.prio], units.Bytes(p.wire))
	if v.Drop != congestion.NoDrop {
		n.switchPorts[l].stats.dropped[p.class][v.Drop]++
		n.drop(id, DropReason(v.Drop))
		return false
	}
	if v.Pause {
		n.sendPause(in, p.prio, true, now)
	}
	return true
}

// dismiss takes a packet that is to move on out of a switch's buffer.
func (n *Network) dismiss(l uint32, p *packet, now sim.Time) {
	in := n.routes[p.at-1]
	if n.buffers[n.ports[l].owner].Release(int(n.portIndex[in^1]), int(n.portIndex[l]), n.qos[p.prio], units.Bytes(p.wire)) {
		n.sendPause(in, p.prio, false, now)
	}
}

// queueUp puts a packet into its DGSQ.
func (n *Network) queueUp(l uint32, pt *port, id, at uint32, now sim.Time) {
	p := &n.packets[id]
	if !n.admitted(l, pt, id, p, now) {
		return
	}
	c := n.credits
	t := n.tagOf(id)
	t.port, t.pushed, t.turned = l, false, false
	lane := &c.lanes[at]
	wire := units.Bytes(p.wire)
	n.awake(at, now)
	_, d := c.ports[lane.src].sources[1].dgsqs.Get(lane.gse.key, now)
	c.gse.Enqueue(d, now, wire)
	lane.leaf.queue.push(n.packets, id, !lane.leaf.filled)
	lane.leaf.filled = true
	if !lane.waiting && !d.CanSend() {
		lane.waiting, lane.since = true, now
	}
	if p.flags&flagAsk != 0 { // nothing follows soon that would ask for it
		n.askFor(at, 0, now)
	} else {
		n.ask(at, now)
	}
	n.pump(at, now)
}

// pump sends on what a DGSQ has credit for.
func (n *Network) pump(at uint32, now sim.Time) {
	c := n.credits
	lane := &c.lanes[at]
	s := &c.ports[lane.src].sources[1]
	for lane.leaf.filled {
		id := lane.leaf.queue.head
		p := &n.packets[id]
		q := &n.senders[p.qp]
		_, d := s.dgsqs.Get(lane.gse.key, now)
		tag, _, ok := c.gse.Send(d, now, units.Bytes(p.wire), s.uplinks, n.viewOf(lane, q))
		if !ok {
			return
		}
		if lane.waiting {
			lane.waiting = false
			n.count.CreditWaits++
			n.count.CreditWaitTime += now - lane.since
		}
		_, empty := lane.leaf.queue.pop(n.packets)
		lane.leaf.filled = !empty
		t := &c.tags[id]
		n.dismiss(t.port, p, now)
		t.GSETag, t.life = tag, lane.life
		p.at = q.paths.first + uint32(n.pathOfUplink(q, int(tag.Path)))*uint32(q.paths.stride) + 1
		l := n.routes[p.at]
		n.forward(l, &n.ports[l], id, p, now)
	}
}

// viewOf is what a leaf knows of its uplinks.
func (n *Network) viewOf(l *lane, q *sender) congestion.UplinkView {
	v := congestion.UplinkView{Group: l.gse.group, Leaf: int(l.leaf.to)}
	if n.config.Congestion.GSE.Spray == congestion.SprayLeastQueue {
		c := n.credits
		c.queues = c.queues[:0]
		for i := range int(q.paths.count) {
			up := &n.ports[n.routes[q.paths.first+uint32(n.pathOfUplink(q, i))*uint32(q.paths.stride)+1]]
			c.queues = append(c.queues, units.Bytes(up.queue[prioShared].bytes+up.queue[prioEP].bytes))
		}
		v.Queues = c.queues
	}
	return v
}

// holdAtLeaf has the buffer of a leaf keep a packet that waits for a container.
func (n *Network) holdAtLeaf(id uint32, now sim.Time) bool {
	p := &n.packets[id]
	l := n.routes[p.at]
	if !n.admitted(l, &n.ports[l], id, p, now) {
		return false
	}
	n.credits.tags[id].port = l
	return true
}

// depart is a packet that leaves a leaf for its NIC, or is lost there: what it has used of the
// port's credit is free again.
func (n *Network) depart(id uint32, p *packet, now sim.Time) {
	c := n.credits
	nic := n.receivers[p.qp].nic
	t, port := &c.tags[id], &c.ports[nic]
	t.pushed = false
	port.sched.OnPushGone(units.Bytes(p.wire) - units.Bytes(t.Scheduled))
	if t.Scheduled > 0 && t.turned {
		if l := &c.lanes[c.ofQP[p.qp]]; l.open && t.life == l.life {
			port.sched.OnArrive(l.source, now, units.Bytes(t.Scheduled))
		}
	}
	n.settle(nic, now)
}

// checkLeaves adds what DGSQs and sequencers hold to the switches' accounts.
func (n *Network) checkLeaves(held []units.Bytes) error {
	if n.credits == nil || !n.atLeaves {
		return nil
	}
	for i := range n.credits.lanes {
		l := &n.credits.lanes[i]
		sum := units.Bytes(0)
		if l.leaf.filled {
			for id := l.leaf.queue.head; id != none; id = n.packets[id].next {
				sum += units.Bytes(n.packets[id].wire)
			}
		}
		backlog := units.Bytes(0)
		if l.open {
			backlog = n.creditOf(l, n.engine.Now()).Backlog()
		}
		if backlog != sum {
			return fmt.Errorf("DGSQ %d says that it has %v, it holds %v", i, backlog, sum)
		}
		held[l.src] += sum
		for s := range l.gse.slots {
			for id := l.gse.slots[s].head; id != none; id = n.packets[id].next {
				held[l.leaf.to] += units.Bytes(n.packets[id].wire)
			}
		}
	}
	return nil
}
