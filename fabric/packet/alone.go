package packet

import (
	"math"

	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// The time alone is the flow engine's: the bytes at (MTU+header)/MTU on the
// link that takes longest, plus the latency of the path, which is the time of an
// empty message and one packet's serialisation on every link but the slowest.
// docs of package fabric derive it. A message that is a whole number of MTUs
// takes exactly that in this engine too, where a packet's serialisation is a
// whole number of picoseconds.

// loadScratch sums up what a transfer puts on each link.
type loadScratch struct {
	links []topology.LinkID
	milli []int64
	// latency is the longest of the paths.
	latency sim.Time
}

// addLoad adds milli thousandths of a byte along a path. Without a fixed path,
// only the ends of it are sure to carry them.
func (n *Network) addLoad(path []topology.LinkID, milli int64) {
	s := &n.load
	s.latency = max(s.latency, n.latency(path, milli))
	for i, l := range path {
		if n.spraying && i > 0 && i < len(path)-1 {
			continue
		}
		at := n.place[l]
		if at < 0 {
			at = int32(len(s.links))
			n.place[l] = at
			s.links, s.milli = append(s.links, l), append(s.milli, 0)
		}
		s.milli[at] += milli
	}
}

// An alone is what a transfer would take without any other; see fabric.Delivery.
type alone struct{ wire, ideal, latency sim.Time }

// takeLoad returns the time alone of what was added, and forgets it.
func (n *Network) takeLoad() alone {
	s := &n.load
	var longest, ports sim.Time
	for i, l := range s.links {
		t := n.linkTime(l, s.milli[i])
		longest = max(longest, t)
		if n.graph.Links[l].From < n.firstSwitch || n.graph.Links[l].To < n.firstSwitch {
			ports = max(ports, t)
		}
		n.place[l] = -1
	}
	a := alone{longest + s.latency, ports + s.latency, s.latency}
	s.links, s.milli, s.latency = s.links[:0], s.milli[:0], 0
	return a
}

// currentPath is the path of a queue pair, valid until the next call.
func (n *Network) currentPath(qp uint32) []topology.LinkID {
	n.scratch = n.scratch[:0]
	for at := n.senders[qp].route; n.routes[at] != endOfRoute; at++ {
		n.scratch = append(n.scratch, topology.LinkID(n.routes[at]))
	}
	return n.scratch
}

// linkTime is how long milli thousandths of a byte of payload take on a link.
func (n *Network) linkTime(l topology.LinkID, milli int64) sim.Time {
	rate := n.graph.Links[l].Rate
	if n.isNVLink(l) {
		ppm := int64(math.RoundToEven(n.config.Fabric.NVLinkEfficiency * 1e6))
		return rate.TimeScaled(units.Bytes(milli), 1e6, 1000*ppm)
	}
	return rate.TimeScaled(units.Bytes(milli), int64(n.mtu+n.header), 1000*int64(n.mtu))
}

// latency is the part of the time alone that does not grow with the bytes.
func (n *Network) latency(path []topology.LinkID, milli int64) sim.Time {
	t := n.graph.PathLatency(path)
	if len(path) == 0 || n.isNVLink(path[0]) {
		return t
	}
	var sum, slowest sim.Time
	for _, l := range path {
		s := n.linkTime(l, min(milli, 1000*int64(n.mtu)))
		sum += s
		slowest = max(slowest, s)
	}
	return t + sum - slowest
}

// isNVLink says whether a link is inside a server.
func (n *Network) isNVLink(l topology.LinkID) bool {
	link := &n.graph.Links[l]
	return link.From < n.firstNIC || link.To < n.firstNIC
}
