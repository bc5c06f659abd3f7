package fabric

import (
	"cmp"
	"slices"

	"github.com/tgssim/tgssim/topology"
)

// A segmenter finds the segments of the pairs of a collective: a tree for each of
// the three parts of a path, in which a segment's parent is itself without its
// last link.
type segmenter struct {
	c    *collective
	ways [][]int32 // the links of each segment, as places in the spread
	// below has the children of a root by their link, 0 where there is none, and
	// children those of any other segment, of which there are few.
	below    [numRoots][]int32
	children [][]step
}

// A step goes from a segment by a further link to another.
type step struct{ link, segment int32 }

// The roots of the trees, which are segments without links.
const (
	rootFirst int32 = iota
	rootBetween
	rootLast
	numRoots
)

func newSegmenter(c *collective) *segmenter {
	c.segments = make([]segment, numRoots)
	c.segments[rootFirst].first = true // of those who send to themselves
	return &segmenter{c: c, ways: make([][]int32, numRoots), children: make([][]step, numRoots)}
}

// addPair adds the next pair, given the places of its links.
func (x *segmenter) addPair(path []topology.LinkID) {
	first, last := min(1, len(path)), max(1, len(path)-1)
	x.c.pairSegments = append(x.c.pairSegments, [3]int32{
		x.find(rootFirst, path[:first]),
		x.find(rootBetween, path[first:max(first, len(path)-1)]),
		x.find(rootLast, path[min(last, len(path)):]),
	})
}

// find returns the segment of links below a root.
func (x *segmenter) find(root int32, links []topology.LinkID) int32 {
	at := root
	for _, l := range links {
		at = x.step(root, at, int32(l))
	}
	return at
}

// step returns the child of a segment by a link.
func (x *segmenter) step(root, at, link int32) int32 {
	c := x.c
	next := int32(len(c.segments))
	if at == root {
		for int(link) >= len(x.below[root]) {
			x.below[root] = append(x.below[root], 0)
		}
		if known := x.below[root][link]; known > 0 {
			return known
		}
		x.below[root][link] = next
	} else {
		for _, s := range x.children[at] {
			if s.link == link {
				return s.segment
			}
		}
		x.children[at] = append(x.children[at], step{link, next})
	}
	x.ways = append(x.ways, append(slices.Clip(x.ways[at]), link))
	x.children = append(x.children, nil)
	c.segments = append(c.segments, segment{first: c.segments[root].first})
	return next
}

// fill works out what each rank sends over each segment. Shares too small for a
// thousandth of a byte count for nothing.
func (x *segmenter) fill() {
	c := x.c
	start := make([]int32, len(c.segments)+1)
	for p, segments := range c.pairSegments {
		for _, at := range segments {
			start[at+1] += c.pairShareAt[p+1] - c.pairShareAt[p]
		}
	}
	for i := range c.segments {
		start[i+1] += start[i]
	}
	all, next := make([]perRank, start[len(c.segments)]), slices.Clone(start)
	for p, segments := range c.pairSegments {
		shares := c.sharesOf(p) // mostly one
		for _, at := range segments {
			for _, s := range shares {
				all[next[at]] = s
				next[at]++
			}
		}
	}
	for i := range c.segments {
		g := &c.segments[i]
		c.links = append(c.links, x.ways[i]...)
		if g.first || len(x.ways[i]) > 0 {
			c.addColumns(merged(all[start[i]:start[i+1]]))
		}
		g.links, g.columns = int32(len(c.links)), int32(len(c.columns))
	}
	c.pairsOn = make([]int32, len(c.segments))
}

// merged sums up the shares of each rank, in order of ranks, and drops those
// without payload.
func merged(shares []perRank) []perRank {
	slices.SortFunc(shares, func(a, b perRank) int { return cmp.Compare(a.rank, b.rank) })
	sum := shares[:0]
	for _, s := range shares {
		if last := len(sum) - 1; last >= 0 && sum[last].rank == s.rank {
			sum[last].milli += s.milli
		} else if s.milli > 0 {
			sum = append(sum, s)
		}
	}
	return sum
}

// addColumns adds the columns of the next segment: its shares by payload.
func (c *collective) addColumns(shares []perRank) {
	slices.SortStableFunc(shares, func(a, b perRank) int { return cmp.Compare(a.milli, b.milli) })
	for len(shares) > 0 {
		milli, same := shares[0].milli, 0
		for same < len(shares) && shares[same].milli == milli {
			same++
		}
		c.addRanks(shares[:same])
		c.columns = append(c.columns, column{milli, int32(len(c.ranks)), int32(len(c.runsOf))})
		shares = shares[same:]
	}
}

// shortRun is the length below which a run is not worth its loop.
const shortRun = 8

// addRanks adds the ranks of the next column, in order, as runs and single ones.
func (c *collective) addRanks(shares []perRank) {
	for at := 0; at < len(shares); {
		first, end := shares[at].rank, at+1
		for end < len(shares) && shares[end].rank-shares[end-1].rank == shares[at+1].rank-first {
			end++
		}
		if end-at >= shortRun {
			c.runsOf = append(c.runsOf, run{int(first), int(shares[end-1].rank), int(shares[at+1].rank - first)})
			at = end
			continue
		}
		c.ranks = append(c.ranks, first)
		at++
	}
}

// fillRanks lists the pairs that each rank sends payload over.
func (c *collective) fillRanks(ranks int) {
	c.rankPairAt = make([]int32, ranks+1)
	for _, s := range c.pairShares {
		if s.milli > 0 {
			c.rankPairAt[s.rank+1]++
		}
	}
	for r := range ranks {
		c.rankPairAt[r+1] += c.rankPairAt[r]
	}
	c.rankPairs = make([]int32, c.rankPairAt[ranks])
	next := slices.Clone(c.rankPairAt)
	for p := range c.pairSegments {
		for _, s := range c.sharesOf(p) {
			if s.milli > 0 {
				c.rankPairs[next[s.rank]] = int32(p)
				next[s.rank]++
			}
		}
	}
}
