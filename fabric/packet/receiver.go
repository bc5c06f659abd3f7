package packet

import (
	"github.com/tgssim/tgssim/congestion"
	"github.com/tgssim/tgssim/internal/invariants"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// A receiver is the responding end of a queue pair.
type receiver struct {
	expected uint32 // the next packet in order
	// request is the work request being received, end the packet after its last.
	request, end uint32
	pending      uint16 // packets since the last acknowledgement
	nacked       bool   // go-back-N: the present gap has been reported
	marked       bool   // a mark that the next acknowledgement echoes
	class        uint8
	back         sim.Lane // what a reply takes, when it does not queue
	nic          uint32
	route        uint32 // back to the sender, when replies queue
	window       reorder
	np           congestion.NP
}

// receive takes in a packet that has reached a NIC.
func (n *Network) receive(id uint32, p *packet, now sim.Time) {
	if p.flags&(flagReply|flagTelemetry) != 0 {
		if p.flags&flagReply == 0 {
			n.echo(id, p, now)
			return
		}
		n.reply(id, now)
		return
	}
	if invariants.Enabled && n.graph.Links[n.routes[p.at-1]].To != n.firstNIC+topology.NodeID(n.receivers[p.qp].nic) {
		panic("packet: delivered to another NIC than its queue pair's")
	}
	if n.paying {
		n.collectCredit(id, p, now)
		return
	}
	if n.drainRate > 0 {
		n.drainLater(id, p, now)
		return
	}
	n.accept(id, p, now)
}

// accept hands a data packet to its queue pair.
func (n *Network) accept(id uint32, p *packet, now sim.Time) {
	r := &n.receivers[p.qp]
	if p.flags&flagMarked != 0 {
		n.notify(r, p.qp, now)
		p = &n.packets[id]
	}
	fresh := p.seq + uint32(p.count) - r.expected
	if fresh-1 >= uint32(p.count) {
		n.outOfOrder(r, id, p, now)
		return
	}
	n.count.Duplicates += int64(uint32(p.count) - fresh)
	r.nacked = false
	if r.window.held > 0 {
		n.pass(r, fresh)
	} else {
		r.expected += fresh
	}
	r.pending += uint16(fresh)
	whole := r.request != none && int32(r.expected-r.end) >= 0
	if !whole && r.pending < n.ackEvery && p.flags&flagAsk == 0 {
		n.release(id)
		return
	}
	qp := p.qp
	n.acknowledge(r, id, p, 0, 0, now)
	if whole {
		n.complete(qp, now)
	}
}

// complete finishes the work requests whose packets have all arrived.
func (n *Network) complete(qp uint32, now sim.Time) {
	for {
		r := &n.receivers[qp] // the last one's listener may have made queue pairs
		if r.request == none || int32(r.expected-r.end) < 0 {
			return
		}
		w := &n.requests[r.request]
		job := w.job
		r.request = w.next
		if r.request != none {
			r.end = n.requests[r.request].end
		}
		if n.nicLatency > 0 {
			n.engine.AfterLane(n.nicLane, n.self, evPart, job)
		} else {
			n.partDone(job, now)
		}
	}
}

// acknowledge turns packet id into the acknowledgement of what has arrived, or
// with flagNack into a NACK with its payload.
func (n *Network) acknowledge(r *receiver, id uint32, p *packet, f flags, payload uint32, now sim.Time) {
	r.pending = 0
	p.seq, p.payload, p.count = r.expected, payload, 1
	p.flags = flagReply | f
	if r.marked {
		p.flags |= flagMarked
		r.marked = false
	}
	if n.conga != nil {
		f := &n.conga.flows[p.qp]
		n.conga.tag(id, f.dst, f.src)
	}
	n.sendBack(r, id, p, now)
}

// sendBack sends a reply to the sender of its queue pair.
func (n *Network) sendBack(r *receiver, id uint32, p *packet, now sim.Time) {
	p.prio, p.wire = prioControl, n.ackWire
	n.count.Replies++
	if !n.ackQueueing {
		n.engine.AfterLane(r.back, n.self, evReply, id)
		return
	}
	p.at = r.route
	n.sendControl(&n.nics[r.nic], id, now)
}

// notify takes in a congestion mark.
func (n *Network) notify(r *receiver, qp uint32, now sim.Time) {
	n.count.MarkedArrived++
	r.marked = true
	nc := &n.nics[r.nic]
	if nc.cc == nil {
		return
	}
	np := &r.np
	if n.cnpPerPort {
		np = &nc.np
	}
	at := nc.cc.OnMarked(np, now)
	if at == sim.Never {
		return
	}
	id := n.alloc()
	n.packets[id] = packet{qp: qp, class: r.class, flags: flagReply | flagCNP, count: 1}
	if at > now {
		n.engine.At(at, n.self, evNotify, id)
		return
	}
	n.sendBack(r, id, &n.packets[id], now)
}
