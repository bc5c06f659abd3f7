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
	c     *collective
	child map[step]int32
}

// A step goes from a segment to the one with a further link.
type step struct{ segment, link int32 }

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
	return &segmenter{c: c, child: map[step]int32{}}
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
	c, at := x.c, root
	for _, l := range links {
		next, known := x.child[step{at, int32(l)}]
		if !known {
			next = int32(len(c.segments))
			x.child[step{at, int32(l)}] = next
			way := append(slices.Clip(c.segments[at].links), int32(l))
			c.segments = append(c.segments, segment{links: way, first: c.segments[root].first})
		}
		at = next
	}
	return at
}

// fillColumns works out what each rank sends over each segment. Shares too small
// for a thousandth of a byte count for nothing.
func (c *collective) fillColumns() {
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
		for _, at := range segments {
			next[at] += int32(copy(all[next[at]:], c.sharesOf(p)))
		}
	}
	for i := range c.segments {
		if g := &c.segments[i]; g.first || len(g.links) > 0 {
			g.columns = columnsOf(merged(all[start[i]:start[i+1]]))
		}
	}
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

// columnsOf groups shares by payload.
func columnsOf(shares []perRank) (columns []column) {
	slices.SortStableFunc(shares, func(a, b perRank) int { return cmp.Compare(a.milli, b.milli) })
	for len(shares) > 0 {
		k, same := column{milli: shares[0].milli}, 0
		for same < len(shares) && shares[same].milli == k.milli {
			same++
		}
		k.split(shares[:same])
		columns, shares = append(columns, k), shares[same:]
	}
	return columns
}

// shortRun is the length below which a run is not worth its loop.
const shortRun = 8

// split takes the ranks of shares, in order, as runs and single ones.
func (k *column) split(shares []perRank) {
	for at := 0; at < len(shares); {
		first, end := shares[at].rank, at+1
		for end < len(shares) && shares[end].rank-shares[end-1].rank == shares[at+1].rank-first {
			end++
		}
		if end-at >= shortRun {
			k.runs = append(k.runs, run{int(first), int(shares[end-1].rank), int(shares[at+1].rank - first)})
			at = end
			continue
		}
		k.ranks = append(k.ranks, first)
		at++
	}
	k.ranks, k.runs = slices.Clip(k.ranks), slices.Clip(k.runs)
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
