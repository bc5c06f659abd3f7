package fabric

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// A collective is a spread whose bytes are a linear function of the ranks'
// units. What depends on placement only is computed by NewCollective, what
// depends on units once per SetUnits, and a run that shares no link costs the
// same whatever the number of links.
type collective struct {
	net   *network
	id    int32 // its transfer
	name  string
	class Class

	spread spread
	// flowing is true from the end of the startup until the bytes are through,
	// everywhere while it has joined all its links. Until then at tells which it
	// has joined, and joined lists them.
	flowing, everywhere bool
	at                  []bool
	joined              []int32
	// near is the number of messages on its links, once per link; running the
	// number of rivals that are flowing. See sharing.go.
	near, running int32
	rivals        []*collective

	// units are those of the loads in spread, next those of the next run.
	units, next []int64
	stale       bool
	mostUnits   int64
	milli       int64 // payload of a run, over all pairs
	latency     sim.Time
	runs        int64 // completed runs that network.carried does not hold yet

	// columns gives, for link i of the spread, the payload per unit of each rank
	// that sends over it: columns[columnAt[i]:columnAt[i+1]].
	columns  []perRank
	columnAt []int32
	// Pair p sends pairShares[pairShareAt[p]:...] over the links of the spread
	// pairLinks[pairLinkAt[p]:...].
	pairShares  []perRank
	pairShareAt []int32
	pairLinks   []int32
	pairLinkAt  []int32
	perUnit     []int64 // payload per unit of each rank
	classes     []pathClass
}

// perRank is a payload per unit of one rank, in thousandths of a byte.
type perRank struct {
	rank  int32
	milli int64
}

// A pathClass is the pairs whose paths have the same latency for every size.
type pathClass struct {
	path  []topology.LinkID // one of the paths
	pairs []int32           // largest first
}

// NewCollective prepares a recurring collective. Shares with the same source
// and destination are one pair for every queue pair, which sends over one path:
// that of the queue pair of the same number between the two GPUs in the spec's
// class. Shares from a GPU to itself use no link. All units are 0 until SetUnits.
func (n *network) NewCollective(spec CollectiveSpec) (Collective, error) {
	total, err := n.checkSpec(&spec)
	if err != nil {
		return nil, fmt.Errorf("collective %q: %w", spec.Name, err)
	}
	c := &collective{
		net: n, name: spec.Name, class: spec.Class,
		units: make([]int64, spec.Ranks), next: make([]int64, spec.Ranks),
		mostUnits: math.MaxInt64 / 2 / max(1, total),
		perUnit:   make([]int64, spec.Ranks),
	}
	if err := n.layOut(c, &spec); err != nil {
		return nil, fmt.Errorf("collective %q: %w", spec.Name, err)
	}
	n.introduce(c)
	c.id = n.newTransfer()
	n.flows[c.id] = flow{spread: int32(len(n.spreads))}
	n.fluids[c.id] = fluid{coll: int32(len(n.collectives))}
	n.spreads = append(n.spreads, &c.spread)
	n.collectives = append(n.collectives, c)
	c.reload()
	return c, nil
}

// checkSpec refuses what does not exist and sums the payload per unit.
func (n *network) checkSpec(spec *CollectiveSpec) (total int64, err error) {
	if spec.Class >= NumClasses {
		return 0, fmt.Errorf("class %d does not exist; there are %d", spec.Class, NumClasses)
	}
	if spec.Ranks < 0 {
		return 0, fmt.Errorf("%d ranks; use 0 or more", spec.Ranks)
	}
	if spec.QPs < 0 {
		return 0, fmt.Errorf("%d queue pairs; use 0 or more", spec.QPs)
	}
	gpus := topology.GPU(n.graph.GPUs())
	for i, s := range spec.Shares {
		switch {
		case s.Rank < 0 || s.Rank >= spec.Ranks:
			return 0, fmt.Errorf("share %d is of rank %d; there are %d", i, s.Rank, spec.Ranks)
		case s.Src < 0 || s.Src >= gpus:
			return 0, fmt.Errorf("share %d is from GPU %d; there are %d", i, s.Src, gpus)
		case s.Dst < 0 || s.Dst >= gpus:
			return 0, fmt.Errorf("share %d is to GPU %d; there are %d", i, s.Dst, gpus)
		case s.Milli < 0:
			return 0, fmt.Errorf("share %d is of %d thousandths of a byte; use 0 or more", i, s.Milli)
		case s.Milli > math.MaxInt64/2-total:
			return 0, fmt.Errorf("its shares add up to more than 4 PB per unit")
		}
		total += s.Milli
	}
	return total, nil
}

// layOut finds the paths of the pairs, the links that they use, and what every
// rank sends over each.
func (n *network) layOut(c *collective, spec *CollectiveSpec) error {
	shares := slices.Clone(spec.Shares)
	slices.SortStableFunc(shares, func(a, b Share) int {
		return cmp.Or(cmp.Compare(a.Src, b.Src), cmp.Compare(a.Dst, b.Dst), cmp.Compare(a.Rank, b.Rank))
	})
	s := &c.spread
	var perLink []int32 // shares per link of the spread
	for i := 0; i < len(shares); {
		first, end := &shares[i], i
		for ; end < len(shares) && shares[end].Src == first.Src && shares[end].Dst == first.Dst; end++ {
			c.perUnit[shares[end].Rank] += shares[end].Milli
		}
		qps := n.queuePairs(first.Src, first.Dst, math.MaxInt64, spec.QPs)
		for qp := range qps {
			path := n.pathOf(first.Src, first.Dst, int(qp), c.class)
			if len(path) == 0 && first.Src != first.Dst {
				n.forget(s)
				return fmt.Errorf("%s", noWay(n.graph, first.Src, first.Dst))
			}
			perLink = c.addPair(n, path, shares[i:end], qp, qps, perLink)
		}
		i = end
	}
	n.forget(s)
	c.pairLinkAt = append(c.pairLinkAt, int32(len(c.pairLinks)))
	c.pairShareAt = append(c.pairShareAt, int32(len(c.pairShares)))
	s.milli, s.pairs = make([]int64, len(s.links)), make([]int32, len(s.links))
	c.at = make([]bool, len(s.links))
	c.fillColumns(perLink)
	c.sortClasses()
	return nil
}

// addPair adds the pair of queue pair qp of qps, which carries an equal part of
// the shares over path; the first ones take the odd thousandths.
func (c *collective) addPair(n *network, path []topology.LinkID, shares []Share, qp, qps int64, perLink []int32) []int32 {
	c.classify(n, path)
	c.pairLinkAt = append(c.pairLinkAt, int32(len(c.pairLinks)))
	c.pairShareAt = append(c.pairShareAt, int32(len(c.pairShares)))
	for _, share := range shares {
		milli := share.Milli / qps
		if qp < share.Milli%qps {
			milli++
		}
		c.pairShares = append(c.pairShares, perRank{int32(share.Rank), milli})
	}
	s := &c.spread
	for _, l := range path {
		at := n.place[l]
		if at < 0 {
			at = int32(len(s.links))
			n.place[l] = at
			s.links = append(s.links, int32(l))
			perLink = append(perLink, 0)
		}
		c.pairLinks = append(c.pairLinks, at)
		perLink[at] += int32(len(shares))
	}
	return perLink
}

// forget clears the places that laying out s has set.
func (n *network) forget(s *spread) {
	for _, l := range s.links {
		n.place[l] = -1
	}
}

// classify puts the next pair into the class of its path.
func (c *collective) classify(n *network, path []topology.LinkID) {
	pair := int32(len(c.pairLinkAt))
	i := slices.IndexFunc(c.classes, func(k pathClass) bool { return n.alike(k.path, path) })
	if i < 0 {
		i = len(c.classes)
		c.classes = append(c.classes, pathClass{path: slices.Clone(path)})
	}
	c.classes[i].pairs = append(c.classes[i].pairs, pair)
}

// alike tells whether two paths have the same latency for every size.
func (n *network) alike(a, b []topology.LinkID) bool {
	if len(a) != len(b) || n.graph.PathLatency(a) != n.graph.PathLatency(b) {
		return false
	}
	for i := range a {
		if x, y := &n.wires[a[i]], &n.wires[b[i]]; x.rate != y.rate || x.nvlink != y.nvlink {
			return false
		}
	}
	return true
}

// fillColumns turns the pairs' shares into columns, one per link, with one entry
// per rank. perLink is the number of shares over each link.
func (c *collective) fillColumns(perLink []int32) {
	links := len(c.spread.links)
	start := make([]int32, links+1)
	for i, k := range perLink {
		start[i+1] = start[i] + k
	}
	all := make([]perRank, start[links])
	next := slices.Clone(start)
	for p := range len(c.pairLinkAt) - 1 {
		for _, at := range c.linksOf(p) {
			next[at] += int32(copy(all[next[at]:], c.sharesOf(p)))
		}
	}
	c.columnAt = make([]int32, 1, links+1)
	for i := range links {
		column := all[start[i]:start[i+1]]
		slices.SortFunc(column, func(a, b perRank) int { return cmp.Compare(a.rank, b.rank) })
		for j, e := range column {
			if last := len(c.columns) - 1; j > 0 && c.columns[last].rank == e.rank {
				c.columns[last].milli += e.milli
			} else {
				c.columns = append(c.columns, e)
			}
		}
		c.columnAt = append(c.columnAt, int32(len(c.columns)))
	}
	c.columns = slices.Clip(c.columns)
}

// sortClasses puts the pairs that send most per unit first, so that a search
// for one that sends a full packet is short.
func (c *collective) sortClasses() {
	size := make([]int64, len(c.pairShareAt)-1)
	for p := range size {
		for _, s := range c.sharesOf(p) {
			size[p] += s.milli
		}
	}
	for i := range c.classes {
		slices.SortStableFunc(c.classes[i].pairs, func(a, b int32) int { return cmp.Compare(size[b], size[a]) })
	}
}

func (c *collective) linksOf(pair int) []int32 {
	return c.pairLinks[c.pairLinkAt[pair]:c.pairLinkAt[pair+1]]
}

func (c *collective) sharesOf(pair int) []perRank {
	return c.pairShares[c.pairShareAt[pair]:c.pairShareAt[pair+1]]
}

// introduce makes c and the collectives with which it has a link in common
// known to each other, and counts the messages that are on its links.
func (n *network) introduce(c *collective) {
	index := int32(len(n.collectives))
	known := make([]bool, index)
	for at, l := range c.spread.links {
		for _, u := range n.users[l] {
			if known[u.coll] {
				continue
			}
			known[u.coll] = true
			r := n.collectives[u.coll]
			r.rivals, c.rivals = append(r.rivals, c), append(c.rivals, r)
			if r.flowing {
				c.running++
			}
		}
		n.users[l] = append(n.users[l], user{index, int32(at)})
		c.near += int32(len(n.links[l].members))
	}
}

// SetUnits gives each rank's number of units for the runs that follow; one
// under way keeps its own. Ranks beyond len(units) get none, and a negative
// number is none. Numbers are limited so that a run is at most 4 PB.
func (c *collective) SetUnits(units []int64) {
	for r := range c.next {
		c.next[r] = 0
		if r < len(units) {
			c.next[r] = min(max(0, units[r]), c.mostUnits)
		}
	}
	c.stale = c.stale || !slices.Equal(c.next, c.units)
}

// Start begins a run. It panics when one is under way.
func (c *collective) Start(startup sim.Time, tag uint64, to Receiver) {
	n := c.net
	j := &n.jobs[c.id]
	if j.live {
		panic(fmt.Sprintf("fabric: collective %q started while it runs", c.name))
	}
	if c.stale {
		c.reload()
	}
	*j = job{
		to: to, tag: tag, posted: n.engine.Now(), post: startup,
		latency: c.latency, milli: c.milli, class: c.class, live: true,
	}
	n.sent[c.class].add(c.milli, 1)
	n.sentCount[c.class]++
	n.post(c.id)
}

// Repeat books further runs of the size of the last one, without events. Nothing
// paces a fluid.
func (c *collective) Repeat(times int64, _ sim.Time) {
	if times < 1 {
		return
	}
	n := c.net
	n.sent[c.class].add(c.milli, times)
	n.delivered[c.class].add(c.milli, times)
	n.sentCount[c.class] += times
	n.deliveredCount[c.class] += times
	c.runs += times
}

// reload computes everything that depends on the units.
func (c *collective) reload() {
	n := c.net
	n.fold(c)
	recount := false
	for r := range c.units {
		recount = recount || (c.units[r] > 0) != (c.next[r] > 0)
		c.units[r] = c.next[r]
	}
	c.stale = false
	s := &c.spread
	for i := range s.links {
		var sum int64
		for _, e := range c.columns[c.columnAt[i]:c.columnAt[i+1]] {
			sum += e.milli * c.units[e.rank]
		}
		s.milli[i] = sum
	}
	c.milli = 0
	for r, milli := range c.perUnit {
		c.milli += milli * c.units[r]
	}
	if recount {
		c.countPairs()
	}
	n.setSpread(c.id, s)
	c.latency = 0
	for i := range c.classes {
		c.latency = max(c.latency, n.latency(c.classes[i].path, c.largest(&c.classes[i])))
	}
}

// countPairs counts, for each link, the pairs that have something to send.
func (c *collective) countPairs() {
	clear(c.spread.pairs)
	for p := range len(c.pairLinkAt) - 1 {
		if c.payload(p) == 0 {
			continue
		}
		for _, at := range c.linksOf(p) {
			c.spread.pairs[at]++
		}
	}
}

// largest is the most that a pair of the class sends, or anything that fills a
// packet.
func (c *collective) largest(k *pathClass) int64 {
	var most int64
	for _, p := range k.pairs {
		if most = max(most, c.payload(int(p))); most >= c.net.mtuMilli {
			break
		}
	}
	return most
}

// payload is what a pair sends in a run, in thousandths of a byte.
func (c *collective) payload(pair int) int64 {
	var sum int64
	for _, s := range c.sharesOf(pair) {
		sum += s.milli * c.units[s.rank]
	}
	return sum
}
