package fabric

import (
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/routing"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// A spread is what flows along several paths at once and in lock-step: a
// message over several queue pairs, or a collective. It is a coflow whose rate
// is a vector: at speed 1, each link gets its share of the bytes in the time
// that the most loaded link needs for its own.
type spread struct {
	links []int32
	milli []int64 // payload per link, in thousandths of a byte
	pairs []int32 // sender-receiver pairs, or queue pairs, with bytes on the link
	// bottleneck is the place of the link that takes longest, -1 without load.
	bottleneck int32

	// demand is the rate on each link at speed 1, in rateUnits, bps the same in
	// b/s, rounded up, and weight that rate per level. rated tells whether they
	// have been computed since the bytes changed.
	demand, bps []int64
	weight      []shares
	rated       bool

	slots     []int32 // a message's places among the links' members
	contended []int32 // the solver's: places of the contended links
}

// clear empties s and keeps its memory.
func (s *spread) clear() {
	s.links, s.milli, s.pairs = s.links[:0], s.milli[:0], s.pairs[:0]
	s.slots = s.slots[:0]
}

// route finds the paths of message id, sets up its flow, and returns its latency.
//
// The payload of a part is divided over its queue pairs as evenly as bytes
// allow, the first ones taking the odd bytes; queue pairs without a byte are not
// used. Paths that differ make a spread, and its last byte arrives over the path
// with the highest latency. NVLink has no queue pairs.
func (n *network) route(id int32, m *Message) sim.Time {
	f := &n.flows[id]
	f.spread, n.fluids[id].coll = -1, -1
	if m.Parts == nil && n.queuePairs(m.Src, m.Dst, m.Bytes, m.QPs) == 1 {
		path := n.pathOf(m.Src, m.Dst, m.FirstQP, m.Class)
		if len(path) == 0 && m.Src != m.Dst {
			panic(noWay(n.graph, m.Src, m.Dst))
		}
		if len(path) <= maxFlowLinks {
			milli := 1000 * int64(m.Bytes)
			n.setPath(id, path, milli, 1)
			return n.latency(path, milli)
		}
	}
	return n.routeSpread(id, m)
}

// queuePairs is the number of queue pairs that carry a write.
func (n *network) queuePairs(src, dst topology.GPU, b units.Bytes, qps int) int64 {
	if qps <= 1 || n.graph.ServerOf(src) == n.graph.ServerOf(dst) {
		return 1
	}
	return max(1, min(int64(qps), int64(b)))
}

// routeSpread is route for a message that may need several paths.
func (n *network) routeSpread(id int32, m *Message) sim.Time {
	f := &n.flows[id]
	f.spread = n.newSpread()
	s := n.spreads[f.spread]
	s.clear()
	latency, pairs := sim.Time(0), int64(0)
	if m.Parts == nil {
		latency, pairs = n.spreadPart(s, Part{m.Src, m.Dst, m.Bytes}, m)
	}
	for _, p := range m.Parts {
		t, qps := n.spreadPart(s, p, m)
		latency, pairs = max(latency, t), pairs+qps
	}
	for _, l := range s.links {
		n.place[l] = -1
	}
	if len(m.Parts) <= 1 && len(s.links) == len(n.path) && len(n.path) <= maxFlowLinks {
		// All took the last one's path.
		n.freeSpreads = append(n.freeSpreads, f.spread)
		f.spread = -1
		n.setPath(id, n.path, 1000*int64(m.Bytes), pairs)
		return latency
	}
	n.setSpread(id, s)
	return latency
}

// spreadPart adds the paths of a part to s and returns its latency and the
// number of its queue pairs.
func (n *network) spreadPart(s *spread, p Part, m *Message) (latency sim.Time, pairs int64) {
	pairs = n.queuePairs(p.Src, p.Dst, p.Bytes, m.QPs)
	for qp := range pairs {
		bytes := int64(p.Bytes) / pairs
		if qp < int64(p.Bytes)%pairs {
			bytes++
		}
		path := n.pathOf(p.Src, p.Dst, m.FirstQP+int(qp), m.Class)
		if len(path) == 0 && p.Src != p.Dst {
			panic(noWay(n.graph, p.Src, p.Dst))
		}
		latency = max(latency, n.latency(path, 1000*bytes))
		for _, l := range path {
			at := n.place[l]
			if at < 0 {
				at = int32(len(s.links))
				n.place[l] = at
				s.links = append(s.links, int32(l))
				s.milli = append(s.milli, 0)
				s.pairs = append(s.pairs, 0)
				s.slots = append(s.slots, 0)
			}
			s.milli[at] += 1000 * bytes
			s.pairs[at]++
		}
	}
	return latency, pairs
}

// newSpread returns the place of a spread that is not in use.
func (n *network) newSpread() int32 {
	if last := len(n.freeSpreads) - 1; last >= 0 {
		i := n.freeSpreads[last]
		n.freeSpreads = n.freeSpreads[:last]
		return i
	}
	n.spreads = append(n.spreads, &spread{})
	return int32(len(n.spreads) - 1)
}

// pathOf is the path of a queue pair; it is valid until the next call. Queue
// pairs between two GPUs are numbered alternately by class, because KV and EP
// traffic do not share connections, and each number has its own UDP source port.
func (n *network) pathOf(src, dst topology.GPU, qp int, class Class) []topology.LinkID {
	number := uint32(qp)*uint32(NumClasses) + uint32(class)
	n.path = n.paths.Path(src, dst, routing.RoCE(uint32(src), uint32(dst), number), n.path)
	return n.path
}

// setPath makes transfer id a fluid of pairs equal shares along one path.
func (n *network) setPath(id int32, path []topology.LinkID, milli, pairs int64) {
	f, fl := &n.flows[id], &n.fluids[id]
	f.hops, f.pairs, fl.solo, fl.ports = int32(len(path)), int32(pairs), 0, 0
	slowest := topology.NoLink
	for i, l := range path {
		f.links[i] = int32(l)
		if n.wires[l].port {
			fl.ports = max(fl.ports, n.wires[l].time(milli))
		}
		if !n.limits(l) {
			continue
		}
		if slowest == topology.NoLink || n.links[l].capacity < n.links[slowest].capacity {
			slowest = l
		}
	}
	if slowest == topology.NoLink || milli == 0 {
		return
	}
	fl.solo = n.wires[slowest].time(milli)
	fl.total = n.wires[slowest].exact(milli)
	f.level = max(1, n.links[slowest].capacity/pairs)
}

// limits tells whether a link limits a transfer that is alone: every link does,
// but in the ideal engine only the end ports.
func (n *network) limits(l topology.LinkID) bool { return n.contention || n.wires[l].port }

// setSpread finds the link on which s takes longest and sets up its transfer.
// Of links that take equally long, the one with most pairs wins, then the first.
func (n *network) setSpread(id int32, s *spread) {
	f, fl := &n.flows[id], &n.fluids[id]
	s.bottleneck, s.rated = -1, false
	fl.solo, fl.ports, fl.total = 0, 0, 0
	longest := 0.0
	for i, l := range s.links {
		if n.wires[l].port {
			fl.ports = max(fl.ports, n.wires[l].time(s.milli[i]))
		}
		if n.limits(topology.LinkID(l)) {
			longest = max(longest, float64(s.milli[i])*n.wires[l].perMilli)
		}
	}
	if longest == 0 {
		return
	}
	for i, l := range s.links {
		if float64(s.milli[i])*n.wires[l].perMilli < longest*(1-sameTime) || !n.limits(topology.LinkID(l)) {
			continue
		}
		fl.solo = max(fl.solo, n.wires[l].time(s.milli[i]))
		if b := s.bottleneck; b < 0 || s.pairs[i] > s.pairs[b] || s.pairs[i] == s.pairs[b] && l < s.links[b] {
			s.bottleneck = int32(i)
		}
	}
	l := s.links[s.bottleneck]
	fl.total = n.wires[l].exact(s.milli[s.bottleneck])
	f.level = max(1, n.links[l].capacity/int64(s.pairs[s.bottleneck]))
}

// sameTime is the relative difference up to which two times in float64 may be
// the same number: some hundred roundings.
const sameTime = 1e-13

// rate computes what each link of s carries at speed 1: in the time of the
// bottleneck, its own bytes.
func (n *network) rate(s *spread) {
	if s.rated {
		return
	}
	s.rated = true
	k := len(s.links)
	if cap(s.demand) < k {
		s.demand, s.bps, s.weight = make([]int64, k), make([]int64, k), make([]shares, k)
	}
	s.demand, s.bps, s.weight = s.demand[:k], s.bps[:k], s.weight[:k]
	most := float64(s.milli[s.bottleneck])
	capacity := float64(n.links[s.links[s.bottleneck]].capacity)
	pairs := float64(s.pairs[s.bottleneck])
	for i, l := range s.links {
		share := float64(s.milli[i]) / most
		s.demand[i] = min(int64(share*capacity), n.links[l].capacity)
		s.bps[i] = ceilBps(s.demand[i])
		s.weight[i] = sharesOf(share * pairs)
	}
}
