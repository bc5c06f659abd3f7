package congestion

import (
	"math"

	"github.com/tgssim/tgssim/internal/units"
)

// Uplinks spreads the containers of a source over its uplinks, or over the paths
// that it has to a destination.
type Uplinks struct {
	spray     string
	container units.Bytes   // what is reserved for one
	assigned  []units.Bytes // given to each: sent, and reserved for open containers
	toward    []units.Bytes // the same of each leaf's traffic, leaf by leaf; nil without Weigh
	slack     units.Bytes
	down      []bool
	turn      int
}

// NewUplinks makes the state of a source with so many uplinks.
func (g *GSE) NewUplinks(n int) *Uplinks {
	return &Uplinks{
		spray: g.spray, container: g.container,
		assigned: make([]units.Bytes, n), down: make([]bool, n),
	}
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
	u.toward, u.slack = make([]units.Bytes, leaves*len(u.assigned)), packet
	u.container = max(packet, u.container-u.container%packet) // an open one counts as a full one
}

// SetDown takes an uplink out of service or back. Open containers leave it with
// their next packet.
func (u *Uplinks) SetDown(i int, down bool) {
	if u.down[i] && !down {
		u.Rejoin(i)
	}
	u.down[i] = down
}

// Rejoin says that an uplink leads somewhere again where it did not for a while: it
// is not given what it has missed.
func (u *Uplinks) Rejoin(i int) {
	for at := 0; at < len(u.toward); at += len(u.assigned) {
		u.rejoin(u.toward[at:at+len(u.assigned)], i)
	}
	u.rejoin(u.assigned, i)
}

func (u *Uplinks) rejoin(given []units.Bytes, i int) {
	least, ok := units.Bytes(0), false
	for k, b := range given {
		if k != i && !u.down[k] && (!ok || b < least) {
			least, ok = b, true
		}
	}
	given[i] = max(given[i], least)
}

// An UplinkView is what a source knows of its uplinks at an instant, by uplink.
type UplinkView struct {
	// Queues are the bytes that wait for each; only "least-queue" looks at them.
	Queues []units.Bytes
	// Avoid are those that do not lead to the destination at hand, because of a
	// failure further on. Nil avoids none.
	Avoid []bool
	// Leaf is the destination's; see Weigh.
	Leaf int
}

// usable says whether a container may take an uplink.
func (u *Uplinks) usable(i int, v UplinkView) bool {
	return !u.down[i] && (v.Avoid == nil || !v.Avoid[i])
}

// Open chooses the uplink of a container and reserves its length there. It fails
// when there is no usable one.
//
// With full containers and "least-sent" no two uplinks are ever more than a
// container apart.
func (u *Uplinks) Open(v UplinkView) (uplink int, ok bool) {
	limit := units.Bytes(math.MaxInt64)
	for i, b := range u.assigned {
		if u.usable(i, v) {
			limit = min(limit, b+u.slack)
		}
	}
	best := -1
	for k := range u.assigned {
		i := u.turn + k
		if i >= len(u.assigned) {
			i -= len(u.assigned)
		}
		if u.usable(i, v) && (best < 0 || u.before(i, best, limit, v)) {
			best = i
		}
	}
	if best < 0 {
		return 0, false
	}
	u.turn = best + 1
	u.give(best, v.Leaf, u.container)
	return best, true
}

// before says whether uplink i is better than one that comes before it in turn.
// Those that have been given up to limit are as good as equal.
func (u *Uplinks) before(i, best int, limit units.Bytes, v UplinkView) bool {
	if u.spray == SprayLeastQueue && v.Queues[i] != v.Queues[best] {
		return v.Queues[i] < v.Queues[best]
	}
	if u.spray == SprayRoundRobin {
		return false
	}
	if a, b := max(u.assigned[i], limit), max(u.assigned[best], limit); a != b {
		return a < b
	}
	if u.toward == nil {
		return false
	}
	at := v.Leaf * len(u.assigned)
	return u.toward[at+i] < u.toward[at+best]
}

// give counts what an uplink has been given towards a leaf.
func (u *Uplinks) give(i, leaf int, n units.Bytes) {
	u.assigned[i] += n
	if u.toward != nil {
		u.toward[leaf*len(u.assigned)+i] += n
	}
}

// Close gives back what a container towards a leaf has not used of its reservation,
// having sent so many bytes.
func (u *Uplinks) Close(uplink, leaf int, sent units.Bytes) { u.give(uplink, leaf, sent-u.container) }

// Bytes is the memory of it: 8 B a counter.
func (u *Uplinks) Bytes() int64 { return 8 * int64(len(u.assigned)+len(u.toward)) }
