package topology

import "slices"

// routes is the equal-cost next-hop table of the switches. It is a dense table
// per (switch, destination leaf) folded twice, without which 8,192 GPUs under
// 1,024 leaves would need a million entries:
//
//   - Towards an adjacent leaf the next hops are the links to it.
//   - Leaves with the same neighbours ("twins": all the leaves of a leaf-spine,
//     or of one pod) are at the same distance from everybody else, so every
//     switch that is not adjacent to them has the same next hops towards each.
//     The table has one column per class of twins.
type routes struct {
	// class is the class of each leaf, by leaf index.
	class   []int32
	classes int
	// far[switch*classes+class] is the place in sets of the next hops from a
	// switch towards the leaves of a class that are not adjacent to it.
	far  []span
	sets []LinkID
	// near[switch] tells which leaves are adjacent to a switch.
	near []near
	// nearAt holds places in Graph.out; see near.
	nearAt []int32
}

type span struct{ at, n int32 }

// near says that the links from a switch to leaf index lo+i are
// out[nearAt[at+i]:nearAt[at+i+1]], for i in 0..n-1.
type near struct{ lo, n, at int32 }

// NextHops returns the ECMP set: the links that leave node at on an equal-cost
// shortest path towards NIC dst. Cost is the number of links; parallel links
// are distinct members. The order is fixed (ascending by far end). It is empty
// when at is dst, is not a NIC or switch, or dst cannot be reached. It costs
// O(1) and does not allocate; the caller must not change the slice.
func (g *Graph) NextHops(at, dst NodeID) []LinkID {
	leaf := g.LeafOf(dst)
	if leaf == NoNode || at == dst {
		return nil
	}
	if at < g.first[KindLeaf] {
		if g.LeafOf(at) == NoNode {
			return nil
		}
		i := at - g.first[KindNIC]
		return g.up[i : i+1 : i+1]
	}
	if at == leaf {
		i := dst - g.first[KindNIC]
		return g.down[i : i+1 : i+1]
	}
	r := &g.routes
	sw, li := int32(at-g.first[KindLeaf]), int32(leaf-g.first[KindLeaf])
	if nr := r.near[sw]; uint32(li-nr.lo) < uint32(nr.n) {
		i := nr.at + li - nr.lo
		if lo, hi := r.nearAt[i], r.nearAt[i+1]; lo < hi {
			return g.out[lo:hi:hi]
		}
	}
	return r.set(r.far[int(sw)*r.classes+int(r.class[li])])
}

// buildRoutes fills g.routes for any wiring of switches. It takes one
// breadth-first search per class of twin leaves.
func (g *Graph) buildRoutes() {
	r := &g.routes
	base := g.first[KindLeaf]
	switches := len(g.Nodes) - int(base)
	r.near = make([]near, switches)
	for sw := range switches {
		r.near[sw] = g.buildNear(base + NodeID(sw))
	}
	members := g.twinLeaves()
	r.far = make([]span, switches*r.classes)
	dist := make([]int32, switches)
	queue := make([]NodeID, 0, switches)
	for class, leaves := range members {
		g.distances(leaves[0], dist, &queue)
		for sw := range switches {
			set := g.farSet(base+NodeID(sw), leaves, dist)
			if class > 0 {
				// Most classes look alike from afar: share the storage.
				prev := r.far[sw*r.classes+class-1]
				if slices.Equal(r.set(prev), r.set(set)) {
					r.sets, set = r.sets[:set.at], prev
				}
			}
			r.far[sw*r.classes+class] = set
		}
	}
	r.sets = slices.Clip(r.sets)
}

// farSet appends to r.sets the next hops from switch at towards those of a class
// of twin leaves that are not adjacent to it, given the distances to the first
// of them.
func (g *Graph) farSet(at NodeID, twins []NodeID, dist []int32) span {
	r, base := &g.routes, g.first[KindLeaf]
	start, d := len(r.sets), dist[at-base]
	switch links := g.switchLinks(at); {
	case at == twins[0] && len(twins) > 1:
		// To a twin, two links away, through any neighbour.
		r.sets = append(r.sets, links...)
	case d >= 2:
		for _, l := range links {
			if dist[g.Links[l].To-base] == d-1 {
				r.sets = append(r.sets, l)
			}
		}
	}
	return span{int32(start), int32(len(r.sets) - start)}
}

// set is the links of a span.
func (r *routes) set(s span) []LinkID { return r.sets[s.at : s.at+s.n : s.at+s.n] }

// switchLinks returns the links from a node to switches: the uplinks of a leaf.
func (g *Graph) switchLinks(node NodeID) []LinkID {
	out := g.Out(node)
	return out[g.searchOut(out, g.first[KindLeaf]):]
}

// buildNear indexes the links from switch at to the leaves beside it.
func (g *Graph) buildNear(at NodeID) near {
	r := &g.routes
	out := g.Out(at)
	lo := g.searchOut(out, g.first[KindLeaf])
	hi := g.searchOut(out, g.first[KindLeaf+1])
	if lo == hi {
		return near{}
	}
	from := g.Links[out[lo]].To
	to := g.Links[out[hi-1]].To
	n := near{lo: int32(from - g.first[KindLeaf]), n: int32(to-from) + 1, at: int32(len(r.nearAt))}
	i := lo
	for leaf := from; leaf <= to; leaf++ {
		r.nearAt = append(r.nearAt, g.outAt[at]+int32(i))
		for i < hi && g.Links[out[i]].To == leaf {
			i++
		}
	}
	r.nearAt = append(r.nearAt, g.outAt[at]+int32(hi))
	return n
}

// twinLeaves sorts the leaves into classes with the same set of neighbouring
// switches and returns the members of each.
func (g *Graph) twinLeaves() [][]NodeID {
	r := &g.routes
	base := g.first[KindLeaf]
	r.class = make([]int32, g.count(KindLeaf))
	byNeighbours := map[string]int32{} // looked up only, never ranged over
	var members [][]NodeID
	var key []byte
	for i := range r.class {
		leaf := base + NodeID(i)
		key = key[:0]
		last := NoNode
		for _, l := range g.switchLinks(leaf) {
			if to := g.Links[l].To; to != last {
				last = to
				key = append(key, byte(to), byte(to>>8), byte(to>>16), byte(to>>24))
			}
		}
		class, ok := byNeighbours[string(key)]
		if !ok {
			class = int32(len(members))
			byNeighbours[string(key)] = class
			members = append(members, nil)
		}
		r.class[i] = class
		members[class] = append(members[class], leaf)
	}
	r.classes = len(members)
	return members
}

// distances fills dist with the number of links from each switch to leaf, -1
// where there is no way.
func (g *Graph) distances(leaf NodeID, dist []int32, queue *[]NodeID) {
	base := g.first[KindLeaf]
	for i := range dist {
		dist[i] = -1
	}
	q := append((*queue)[:0], leaf)
	dist[leaf-base] = 0
	for head := 0; head < len(q); head++ {
		at := q[head]
		for _, l := range g.switchLinks(at) {
			if to := g.Links[l].To; dist[to-base] < 0 {
				dist[to-base] = dist[at-base] + 1
				q = append(q, to)
			}
		}
	}
	*queue = q
}

// Paths returns every equal-cost shortest path between two NICs, or between two
// GPUs, in the order of NextHops at each hop. Two GPUs of one server are joined
// by one NVLink path, GPUs of two servers by the paths of their NICs. It is
// meant for tests and tools: the number of paths is the product of the choices.
// A node and itself are joined by one empty path; nodes without a way by none.
func (g *Graph) Paths(src, dst NodeID) [][]LinkID {
	if src == dst {
		return [][]LinkID{{}}
	}
	ks, kd := g.Nodes[src].Kind, g.Nodes[dst].Kind
	if ks != kd {
		return nil
	}
	if ks == KindGPU {
		a, b := GPU(src-g.first[KindGPU]), GPU(dst-g.first[KindGPU])
		if g.ServerOf(a) == g.ServerOf(b) {
			up, down := g.NVLinks(a, b)
			return [][]LinkID{{up, down}}
		}
		src, dst = g.NICOf(a), g.NICOf(b)
	}
	var all [][]LinkID
	var walk func(at NodeID, path []LinkID)
	walk = func(at NodeID, path []LinkID) {
		if at == dst {
			all = append(all, slices.Clone(path))
			return
		}
		for _, l := range g.NextHops(at, dst) {
			walk(g.Links[l].To, append(path, l))
		}
	}
	walk(src, nil)
	return all
}

// NVLinks returns the two links from GPU a to GPU b of the same server: up to
// the NVSwitch and down again.
func (g *Graph) NVLinks(a, b GPU) (up, down LinkID) {
	return g.Out(g.GPUNode(a))[0], g.Reverse(g.Out(g.GPUNode(b))[0])
}
