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

	// What the segments refer to lies one behind the other: a segment's links and
	// columns, and a column's ranks and runs, end where it says.
	segments []segment
	links    []int32 // places in the spread
	columns  []column
	ranks    []int32
	runsOf   []run
	// pairsOn is the pairs that have something to send over each segment.
	pairsOn []int32
	// Pair p sends pairShares[pairShareAt[p]:...] over the segments pairSegments[p].
	// sending is how many of these shares have bytes.
	pairShares   []perRank
	pairShareAt  []int32
	pairSegments [][3]int32
	sending      []int32
	// Rank r sends over the pairs rankPairs[rankPairAt[r]:...].
	rankPairs  []int32
	rankPairAt []int32
	classes    []pathClass
}

// perRank is a payload per unit of one rank, in thousandths of a byte.
type perRank struct {
	rank  int32
	milli int64
}

// A segment is a part of paths: the first link, the last, or the links between,
// which many pairs have in common. What goes over it is added up once for all its
// links.
type segment struct {
	links, columns int32
	first          bool // of paths: all payload goes over one of these
}

// A column is ranks that send equally much per unit over a segment, some one by
// one and some as runs.
type column struct {
	milli       int64
	ranks, runs int32
}

// A run is the ranks from first to last, every stride of them.
type run struct{ first, last, stride int }

// A pathClass is the pairs whose paths have the same latency for every size.
type pathClass struct {
	path    []topology.LinkID // one of the paths
	latency sim.Time          // of path, without bytes
	pairs   []int32           // largest first
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
	room := int64(0)
	for i := range shares {
		room += n.queuePairs(shares[i].Src, shares[i].Dst, math.MaxInt64, spec.QPs)
	}
	c.reserve(room)
	s := &c.spread
	x := newSegmenter(c)
	for i := 0; i < len(shares); {
		first, end := &shares[i], i
		for end < len(shares) && shares[end].Src == first.Src && shares[end].Dst == first.Dst {
			end++
		}
		qps := n.queuePairs(first.Src, first.Dst, math.MaxInt64, spec.QPs)
		for qp := range qps {
			path := n.pathOf(first.Src, first.Dst, int(qp), c.class)
			if len(path) == 0 && first.Src != first.Dst {
				n.forget(s)
				return fmt.Errorf("%s", noWay(n.graph, first.Src, first.Dst))
			}
			c.classify(n, path)
			c.addShares(shares[i:end], qp, qps)
			x.addPair(n.placed(s, path))
		}
		i = end
	}
	n.forget(s)
	c.pairShareAt = append(c.pairShareAt, int32(len(c.pairShares)))
	s.milli, s.pairs = make([]int64, len(s.links)), make([]int32, len(s.links))
	c.at = make([]bool, len(s.links))
	c.sending = make([]int32, len(c.pairSegments))
	x.fill()
	c.fillRanks(spec.Ranks)
	c.sortClasses()
	return nil
}

// reserve makes room for the shares of pairs.
func (c *collective) reserve(shares int64) {
	c.pairShares = make([]perRank, 0, shares)
	c.pairShareAt = make([]int32, 0, shares+1)
	c.pairSegments = make([][3]int32, 0, shares)
}

// addShares adds the shares of the next pair, queue pair qp of qps, which carries
// an equal part of them; the first ones take the odd thousandths.
func (c *collective) addShares(shares []Share, qp, qps int64) {
	c.pairShareAt = append(c.pairShareAt, int32(len(c.pairShares)))
	for _, share := range shares {
		milli := share.Milli / qps
		if qp < share.Milli%qps {
			milli++
		}
		c.pairShares = append(c.pairShares, perRank{int32(share.Rank), milli})
	}
}

// placed replaces the links of a path by their places in s, where it adds those
// that are new.
func (n *network) placed(s *spread, path []topology.LinkID) []topology.LinkID {
	for i, l := range path {
		if n.place[l] < 0 {
			n.place[l] = int32(len(s.links))
			s.links = append(s.links, int32(l))
		}
		path[i] = topology.LinkID(n.place[l])
	}
	return path
}

// forget clears the places that laying out s has set.
func (n *network) forget(s *spread) {
	for _, l := range s.links {
		n.place[l] = -1
	}
}

// classify puts the next pair into the class of its path.
func (c *collective) classify(n *network, path []topology.LinkID) {
	pair, latency := int32(len(c.pairSegments)), n.graph.PathLatency(path)
	i := slices.IndexFunc(c.classes, func(k pathClass) bool { return k.latency == latency && n.alike(k.path, path) })
	if i < 0 {
		i = len(c.classes)
		c.classes = append(c.classes, pathClass{path: slices.Clone(path), latency: latency})
	}
	c.classes[i].pairs = append(c.classes[i].pairs, pair)
}

// alike tells whether two paths of one latency have the same for every size.
func (n *network) alike(a, b []topology.LinkID) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if x, y := &n.wires[a[i]], &n.wires[b[i]]; x.rate != y.rate || x.nvlink != y.nvlink {
			return false
		}
	}
	return true
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
	given := copy(c.next, units)
	clear(c.next[given:])
	c.stale = c.stale || !slices.Equal(c.next, c.units)
}

// prepare puts the units of the next run into effect.
func (c *collective) prepare() {
	if c.net.jobs[c.id].live {
		panic(fmt.Sprintf("fabric: collective %q started while it runs", c.name))
	}
	if c.stale {
		c.reload()
	}
}

// Latency is that of the next run.
func (c *collective) Latency() sim.Time {
	c.prepare()
	return c.latency
}

// Start begins a run. It panics when one is under way.
func (c *collective) Start(startup sim.Time, tag uint64, to Receiver) {
	c.prepare()
	n := c.net
	j := &n.jobs[c.id]
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
	c.takeUnits()
	s := &c.spread
	clear(s.milli)
	clear(s.pairs)
	c.milli = 0
	var links, columns, ranks, runs int32
	for i := range c.segments {
		g := &c.segments[i]
		load := int64(0)
		for _, k := range c.columns[columns:g.columns] {
			load += k.milli * c.sum(c.ranks[ranks:k.ranks], c.runsOf[runs:k.runs])
			ranks, runs = k.ranks, k.runs
		}
		for _, at := range c.links[links:g.links] {
			s.milli[at] += load
			s.pairs[at] += c.pairsOn[i]
		}
		links, columns = g.links, g.columns
		if g.first {
			c.milli += load
		}
	}
	n.setSpread(c.id, s)
	c.latency = 0
	for i := range c.classes {
		c.latency = max(c.latency, n.latency(c.classes[i].path, c.largest(&c.classes[i])))
	}
}

// takeUnits puts the next units into effect within their limits, and recounts the
// pairs of the ranks that begin or cease to have any.
func (c *collective) takeUnits() {
	c.stale = false
	c.units, c.next = c.next, c.units
	before := c.next[:len(c.units)]
	for r, units := range c.units {
		if uint64(units) > uint64(c.mostUnits) { // or negative
			units = min(max(0, units), c.mostUnits)
			c.units[r] = units
		}
		if (units == 0) == (before[r] == 0) {
			continue
		}
		change := int32(1)
		if units == 0 {
			change = -1
		}
		for _, p := range c.rankPairs[c.rankPairAt[r]:c.rankPairAt[r+1]] {
			before := c.sending[p]
			c.sending[p] += change
			if before > 0 && c.sending[p] > 0 {
				continue
			}
			for _, at := range c.pairSegments[p] {
				c.pairsOn[at] += change
			}
		}
	}
}

// sum adds up the units of ranks.
func (c *collective) sum(ranks []int32, runs []run) (sum int64) {
	units := c.units
	for _, r := range ranks {
		sum += units[r]
	}
	for _, run := range runs {
		for r := run.first; r <= run.last; r += run.stride {
			sum += units[r]
		}
	}
	return sum
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
