package packet

import (
	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// repeated is what runs booked by Repeat have put on a link. It is apart from
// the ports' own books, which say what has really been on the wire.
type repeated struct {
	wire    int64
	payload [fabric.NumClasses]int64
}

// Repeat books further runs of the size of the last one, without events. They
// count in Totals and Loads, there as packets that are sent once, on the paths
// that the queue pairs have when somebody looks; what is sprayed is spread
// evenly. PortStats, which is about queues, knows nothing of them.
func (c *collective) Repeat(times int64, took sim.Time) {
	c.hold(took)
	if times < 1 {
		return
	}
	n := c.net
	for _, v := range []*volume{&n.sent[c.class], &n.delivered[c.class]} {
		v.addTimes(c.milli, times)
	}
	n.sentCount[c.class] += times
	n.deliveredCount[c.class] += times
	c.repeats += times
	if c.local != nil {
		c.local.Repeat(times, took)
	}
}

// hold has the reaction points of the collective's queue pairs stand still for a
// time that ends now.
func (c *collective) hold(by sim.Time) {
	n := c.net
	if by <= 0 {
		return
	}
	if more := len(n.senders) - len(n.held); more > 0 {
		n.held = append(n.held, make([]sim.Time, more)...)
	}
	now := n.engine.Now()
	for i := range c.pairs {
		qp := c.pairs[i].qp
		if qp == none || n.held[qp] == now {
			continue
		}
		n.held[qp] = now
		q := &n.senders[qp]
		if q.state == stateParked {
			q.nextSend += by
		}
		if cc := n.nics[q.nic].cc; cc != nil {
			cc.Hold(&q.rp, by)
		} else if ctl := n.nics[q.nic].ctl; ctl != nil {
			ctl.Hold(q.flow, by)
		}
	}
}

// addTimes adds milli several times.
func (v *volume) addTimes(milli, times int64) {
	v.bytes += units.Bytes(milli / 1000 * times)
	v.add(milli % 1000 * times)
}

// fold books the repeated runs of c to the links.
func (c *collective) fold() {
	if c.repeats == 0 {
		return
	}
	n := c.net
	if n.repeated == nil {
		n.repeated = make([]repeated, len(n.ports))
	}
	for i := range c.pairs {
		p := &c.pairs[i]
		if p.qp == none || p.bytes == 0 {
			continue
		}
		payload := c.repeats * int64(p.bytes)
		packets := c.repeats * int64((p.bytes-1)/units.Bytes(n.mtu)+1)
		n.spreadOver(p.qp, c.class, payload, payload+packets*int64(n.header))
	}
	c.repeats = 0
}

// spreadOver books bytes to the paths of a queue pair, in equal parts; the first
// ones take the odd bytes.
func (n *Network) spreadOver(qp uint32, class fabric.Class, payload, wire int64) {
	q := &n.senders[qp]
	first, stride, count := q.route, uint32(0), int64(1)
	if n.spraying {
		first, stride, count = q.paths.first, uint32(q.paths.stride), int64(q.paths.count)
	}
	for k := range count {
		part := func(of int64) int64 {
			if k < of%count {
				return of/count + 1
			}
			return of / count
		}
		for at := first + uint32(k)*stride; n.routes[at] != endOfRoute; at++ {
			r := &n.repeated[n.routes[at]]
			r.wire += part(wire)
			r.payload[class] += part(payload)
		}
	}
}

// addRepeated adds to a load what Repeat has booked to its link.
func (n *Network) addRepeated(load *fabric.LinkLoad) {
	if n.repeated == nil {
		return
	}
	r := &n.repeated[load.Link]
	load.Wire += units.Bytes(r.wire)
	for c, b := range r.payload {
		load.Payload[c] += units.Bytes(b)
	}
}
