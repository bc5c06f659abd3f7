package congestion

import (
	"math"
	"slices"

	"github.com/tgssim/tgssim/internal/units"
)

// Uplinks spreads the containers of a source over its uplinks, or over the paths
// that it has to a destination. Destinations behind a failure, which not all uplinks
// lead to, are a group of their own: each group is spread evenly over what it may use,
// as switches do with the next hops of a route. In one account what one group cannot
// use would be filled up with the others' traffic, and queue on their way.
type Uplinks struct {
	spray     string
	container units.Bytes // what is reserved for one
	slack     units.Bytes
	leaves    int // see Weigh; 0 without
	down      []bool
	groups    []spread
}

// A spread is what has been given to the uplinks for the destinations of a group.
type spread struct {
	avoid    []bool        // uplinks that do not lead there; nil avoids none
	assigned []units.Bytes // given to each: sent, and reserved for open containers
	toward   []units.Bytes // the same of each leaf's traffic, leaf by leaf; nil without Weigh
	turn     int
}

// NewUplinks makes the state of a source with so many uplinks.
func (g *GSE) NewUplinks(n int) *Uplinks {
	return &Uplinks{
		spray: g.spray, container: g.container, down: make([]bool, n),
		groups: []spread{{assigned: make([]units.Bytes, n)}},
	}
}

// Group is the number of the group of destinations to which some uplinks do not lead,
// because of a failure further on. 0 is that of the destinations that all lead to.
func (u *Uplinks) Group(avoid []bool) int {
	if !slices.Contains(avoid, true) {
		return 0
	}
	for i := range u.groups {
		if slices.Equal(u.groups[i].avoid, avoid) {
			return i
		}
	}
	n := len(u.down)
	g := spread{avoid: slices.Clone(avoid), assigned: make([]units.Bytes, n)}
	if u.leaves > 0 {
		g.toward = make([]units.Bytes, u.leaves*n)
	}
	u.groups = append(u.groups, g)
	return len(u.groups) - 1
}

// Weigh has u look at where containers go as well, to one of so many leaves: of
// the uplinks that are less than a packet above the least, one takes that which
// has been given the fewest bytes towards the leaf. A source that serves many
// destinations, which a leaf is, would otherwise leave to chance how the traffic
// for each is spread, and it is each leaf's own links from the spines on which
// that of several sources meets (per destination in turn: Cao et al.,
// Per-packet load-balanced, low-latency routing for Clos-based data center
// networks, CoNEXT 2013).
func (u *Uplinks) Weigh(leaves int, packet units.Bytes) {
	u.leaves, u.slack = leaves, packet
	u.groups[0].toward = make([]units.Bytes, leaves*len(u.down))
	u.container = max(packet, u.container-u.container%packet) // an open one counts as a full one
}

// SetDown takes an uplink out of service or back. Open containers leave it with
// their next packet. When it is back it is not given what it has missed.
func (u *Uplinks) SetDown(i int, down bool) {
	if u.down[i] && !down {
		for k := range u.groups {
			g := &u.groups[k]
			for at := 0; at < len(g.toward); at += len(u.down) {
				u.rejoin(g.toward[at:at+len(u.down)], g, i)
			}
			u.rejoin(g.assigned, g, i)
		}
	}
	u.down[i] = down
}

func (u *Uplinks) rejoin(given []units.Bytes, g *spread, i int) {
	least, ok := units.Bytes(0), false
	for k, b := range given {
		if k != i && u.usable(k, g) && (!ok || b < least) {
			least, ok = b, true
		}
	}
	given[i] = max(given[i], least)
}

// An UplinkView is what a source knows of its uplinks at an instant, by uplink.
type UplinkView struct {
	// Queues are the bytes that wait for each; only "least-queue" looks at them.
	Queues []units.Bytes
	// Group is the destination's; see Uplinks.Group.
	Group int
	// Leaf is the destination's; see Weigh.
	Leaf int
}

// usable says whether a container of a group may take an uplink.
func (u *Uplinks) usable(i int, g *spread) bool {
	return !u.down[i] && (g.avoid == nil || !g.avoid[i])
}

// Open chooses the uplink of a container and reserves its length there. It fails
// when there is no usable one.
//
// With full containers and "least-sent" no two uplinks are ever more than a
// container of a group apart.
func (u *Uplinks) Open(v UplinkView) (uplink int, ok bool) {
	g := &u.groups[v.Group]
	limit := units.Bytes(math.MaxInt64)
	for i, b := range g.assigned {
		if u.usable(i, g) {
			limit = min(limit, b+u.slack)
		}
	}
	best := -1
	for k := range g.assigned {
		i := g.turn + k
		if i >= len(g.assigned) {
			i -= len(g.assigned)
		}
		if u.usable(i, g) && (best < 0 || u.before(i, best, limit, g, v)) {
			best = i
		}
	}
	if best < 0 {
		return 0, false
	}
	g.turn = best + 1
	u.give(best, v.Group, v.Leaf, u.container)
	return best, true
}

// before says whether uplink i is better than one that comes before it in turn.
// Those that have been given up to limit are as good as equal.
func (u *Uplinks) before(i, best int, limit units.Bytes, g *spread, v UplinkView) bool {
	if u.spray == SprayLeastQueue && v.Queues[i] != v.Queues[best] {
		return v.Queues[i] < v.Queues[best]
	}
	if u.spray == SprayRoundRobin {
		return false
	}
	if a, b := max(g.assigned[i], limit), max(g.assigned[best], limit); a != b {
		return a < b
	}
	if g.toward == nil {
		return false
	}
	at := v.Leaf * len(g.assigned)
	return g.toward[at+i] < g.toward[at+best]
}

// give counts what an uplink has been given for a group, towards a leaf.
func (u *Uplinks) give(i, group, leaf int, n units.Bytes) {
	g := &u.groups[group]
	g.assigned[i] += n
	if g.toward != nil {
		g.toward[leaf*len(g.assigned)+i] += n
	}
}

// Close gives back what a container of a group towards a leaf has not used of its
// reservation, having sent so many bytes.
func (u *Uplinks) Close(uplink, group, leaf int, sent units.Bytes) {
	u.give(uplink, group, leaf, sent-u.container)
}

// Bytes is the memory of it: 8 B a counter.
func (u *Uplinks) Bytes() int64 { return int64(8 * len(u.groups) * len(u.down) * (1 + u.leaves)) }
