package routing

import "github.com/tgssim/tgssim/topology"

// PathAround is Path once the switches know that some links have failed: each
// hashes over the equal-cost next links from which the destination can still be
// reached. With no link down it is Path. It is empty when there is no way left
// along shortest paths.
func (e *ECMP) PathAround(src, dst topology.GPU, k FlowKey, down func(topology.LinkID) bool, buf []topology.LinkID) []topology.LinkID {
	buf = buf[:0]
	if src == dst || e.g.ServerOf(src) == e.g.ServerOf(dst) {
		return e.Path(src, dst, k, buf)
	}
	at, to := e.g.NICOf(src), e.g.NICOf(dst)
	for at != to {
		hops := e.g.NextHops(at, to)
		live := 0
		for _, l := range hops {
			if e.reaches(l, to, down) {
				live++
			}
		}
		if live == 0 {
			return buf[:0]
		}
		choice := 0
		if len(hops) > 1 {
			choice = pick(Hash(k, e.seeds[at-e.first]), live)
		}
		for _, l := range hops {
			if !e.reaches(l, to, down) {
				continue
			}
			if choice == 0 {
				buf = append(buf, l)
				at = e.g.Links[l].To
				break
			}
			choice--
		}
	}
	return buf
}

// reaches says whether dst can be reached by way of link l.
func (e *ECMP) reaches(l topology.LinkID, dst topology.NodeID, down func(topology.LinkID) bool) bool {
	if down(l) {
		return false
	}
	at := e.g.Links[l].To
	if at == dst {
		return true
	}
	for _, next := range e.g.NextHops(at, dst) {
		if e.reaches(next, dst, down) {
			return true
		}
	}
	return false
}
