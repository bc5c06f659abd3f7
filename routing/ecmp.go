package routing

import "github.com/tgssim/tgssim/topology"

// ECMP is per-flow equal-cost multipath (RFC 2992, hash-threshold over equal
// regions): every switch hashes the 5-tuple and sends all packets of a flow to
// the same one of its equal-cost next links. It never changes after NewECMP.
type ECMP struct {
	g *topology.Graph
	// seeds is the hash seed of each node, by NodeID from first on.
	seeds []uint64
	first topology.NodeID
}

// NewECMP makes the routing of a fabric. Each switch has its own hash seed,
// derived from seed and its number: switches with equal seeds would choose alike
// tier after tier and leave links idle (polarisation).
func NewECMP(g *topology.Graph, seed uint64) *ECMP {
	return newECMP(g, func(switchIndex int) uint64 {
		return mix(mix(seed+golden) + uint64(switchIndex+1)*golden)
	})
}

func newECMP(g *topology.Graph, seedOf func(switchIndex int) uint64) *ECMP {
	e := &ECMP{g: g, first: topology.NodeID(len(g.Nodes))}
	for i := range g.Nodes {
		if k := g.Nodes[i].Kind; k == topology.KindLeaf || k == topology.KindSpine {
			e.first = min(e.first, topology.NodeID(i))
		}
	}
	e.seeds = make([]uint64, topology.NodeID(len(g.Nodes))-e.first)
	for i := range e.seeds {
		e.seeds[i] = seedOf(i)
	}
	return e
}

// Next is the link by which node at forwards flow k towards NIC dst, or NoLink
// when at is dst or there is no way.
func (e *ECMP) Next(at, dst topology.NodeID, k FlowKey) topology.LinkID {
	hops := e.g.NextHops(at, dst)
	switch len(hops) {
	case 0:
		return topology.NoLink
	case 1:
		return hops[0]
	}
	return hops[pick(Hash(k, e.seeds[at-e.first]), len(hops))]
}

// Path overwrites buf with the links that flow k takes from GPU src to GPU dst
// and returns it, as long as the path is and grown if need be. GPUs of one
// server are joined by their two NVLink links, whatever k; a GPU and itself by
// none. Between servers the path runs from the NIC of src to the NIC of dst. It
// is empty also when there is no way, which no fabric built by package topology
// has. It does not allocate when buf has room for the path (4 links in a
// leaf-spine).
func (e *ECMP) Path(src, dst topology.GPU, k FlowKey, buf []topology.LinkID) []topology.LinkID {
	buf = buf[:0]
	if src == dst {
		return buf
	}
	if e.g.ServerOf(src) == e.g.ServerOf(dst) {
		up, down := e.g.NVLinks(src, dst)
		return append(buf, up, down)
	}
	at, to := e.g.NICOf(src), e.g.NICOf(dst)
	for at != to {
		l := e.Next(at, to, k)
		if l == topology.NoLink {
			return buf[:0]
		}
		buf = append(buf, l)
		at = e.g.Links[l].To
	}
	return buf
}
