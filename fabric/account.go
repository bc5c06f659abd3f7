package fabric

import (
	"fmt"

	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/topology"
)

// carry books the payload of a transfer whose bytes are through to its links. A
// collective's runs are only counted, and booked when somebody looks.
func (n *network) carry(id int32) {
	f, coll := &n.flows[id], n.fluids[id].coll
	class, milli := n.jobs[id].class, n.jobs[id].milli
	switch {
	case coll >= 0:
		n.collectives[coll].runs++
	case f.spread >= 0:
		s := n.spreads[f.spread]
		for i, l := range s.links {
			n.carried[l][class].add(s.milli[i], 1)
		}
	default:
		for _, l := range f.links[:f.hops] {
			n.carried[l][class].add(milli, 1)
		}
	}
}

// fold books the completed runs of c.
func (n *network) fold(c *collective) {
	if c.runs == 0 {
		return
	}
	for i, l := range c.spread.links {
		n.carried[l][c.class].add(c.spread.milli[i], c.runs)
	}
	c.runs = 0
}

// Loads appends the load of every link, in link order, as of now. The bytes of a
// transfer that is flowing count as far as its fluid has come, on all its links
// alike. Wire is the payload times (MTU+header)/MTU, or on NVLink divided by its
// efficiency: what the link's rate is used up by.
func (n *network) Loads(dst []LinkLoad) []LinkLoad {
	for _, c := range n.collectives {
		n.fold(c)
	}
	base := len(dst)
	for l := range n.links {
		load := LinkLoad{Link: topology.LinkID(l)}
		for class := range NumClasses {
			load.Payload[class] = n.carried[l][class].bytes
		}
		dst = append(dst, load)
	}
	for i := range n.flowing {
		n.addProgress(dst[base:], n.flowing[i].id)
	}
	for l := range n.links {
		load := &dst[base+l]
		var payload units.Bytes
		for _, b := range load.Payload {
			payload += b
		}
		load.Wire = n.wires[l].onWire(payload)
	}
	return dst
}

// addProgress adds what a flowing transfer has carried so far, rounded down.
func (n *network) addProgress(loads []LinkLoad, id int32) {
	f, fl := &n.flows[id], &n.fluids[id]
	left := max(0, fl.work-float64(f.speed*float64(n.engine.Now()-fl.since)))
	done := 1 - left/fl.total
	class := n.jobs[id].class
	if f.spread >= 0 {
		s := n.spreads[f.spread]
		for i, l := range s.links {
			loads[l].Payload[class] += units.Bytes(done * float64(s.milli[i]) / 1000)
		}
		return
	}
	bytes := units.Bytes(done * float64(n.jobs[id].milli) / 1000)
	for _, l := range f.links[:f.hops] {
		loads[l].Payload[class] += bytes
	}
}

// Totals returns the conservation account as of now. A run of a collective is
// one message. Bytes are exact to the thousandth and rounded down, so that what
// was sent is always what was delivered plus what is in flight.
func (n *network) Totals() Totals {
	var t Totals
	for c := range NumClasses {
		t.SentBytes[c], t.DeliveredBytes[c] = n.sent[c].bytes, n.delivered[c].bytes
		t.InFlightBytes[c] = t.SentBytes[c] - t.DeliveredBytes[c]
		t.SentMessages[c], t.DeliveredMessages[c] = n.sentCount[c], n.deliveredCount[c]
		t.InFlightMessages[c] = t.SentMessages[c] - t.DeliveredMessages[c]
	}
	return t
}

// noWay is the complaint about two GPUs that no path joins.
func noWay(g *topology.Graph, src, dst topology.GPU) string {
	return fmt.Sprintf("there is no path from %s to %s", g.Nodes[g.GPUNode(src)].Name, g.Nodes[g.GPUNode(dst)].Name)
}
