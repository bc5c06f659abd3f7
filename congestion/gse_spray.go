package congestion

import "github.com/tgssim/tgssim/internal/units"

// Uplinks spreads the containers of a source over its uplinks, or over the paths
// that it has to a destination.
type Uplinks struct {
	spray     string
	container units.Bytes
	assigned  []units.Bytes // given to each: sent, and reserved for open containers
	down      []bool
	turn      int
	seed      uint64 // of draws; 0 takes turns
	draws     uint64
}

// NewUplinks makes the state of a source with so many uplinks.
func (g *GSE) NewUplinks(n int) *Uplinks {
	return &Uplinks{
		spray: g.spray, container: g.container,
		assigned: make([]units.Bytes, n), down: make([]bool, n),
	}
}

// SetDown takes an uplink out of service or back. Open containers leave it with
// their next packet. One that comes back is not given what it has missed.
func (u *Uplinks) SetDown(i int, down bool) {
	if u.down[i] && !down {
		least, ok := units.Bytes(0), false
		for k, d := range u.down {
			if !d && (!ok || u.assigned[k] < least) {
				least, ok = u.assigned[k], true
			}
		}
		u.assigned[i] = max(u.assigned[i], least)
	}
	u.down[i] = down
}

// Scatter has equally good uplinks drawn instead of taken in turn. Sources that
// send in step, each to its own destination, would otherwise keep meeting on the
// same uplinks for ever.
func (u *Uplinks) Scatter(seed uint64) { u.seed = seed | 1 }

// An UplinkView is what a source knows of its uplinks at an instant, by uplink.
type UplinkView struct {
	// Queues are the bytes that wait for each; only "least-queue" looks at them.
	Queues []units.Bytes
	// Avoid are those that do not lead to the destination at hand, because of a
	// failure further on. Nil avoids none.
	Avoid []bool
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
	if u.seed != 0 && u.spray != SprayRoundRobin {
		u.draws++
		u.turn = int(uint64(Uniform(u.seed, u.draws)) * uint64(len(u.assigned)) >> 32)
	}
	best := -1
	for k := range u.assigned {
		i := u.turn + k
		if i >= len(u.assigned) {
			i -= len(u.assigned)
		}
		if u.usable(i, v) && (best < 0 || u.before(i, best, v)) {
			best = i
		}
	}
	if best < 0 {
		return 0, false
	}
	u.turn = best + 1
	u.assigned[best] += u.container
	return best, true
}

// before says whether uplink i is better than one that comes before it in turn.
func (u *Uplinks) before(i, best int, v UplinkView) bool {
	if u.spray == SprayLeastQueue && v.Queues[i] != v.Queues[best] {
		return v.Queues[i] < v.Queues[best]
	}
	return u.spray != SprayRoundRobin && u.assigned[i] < u.assigned[best]
}

// Close gives back what a container has not used of its reservation.
func (u *Uplinks) Close(uplink int, unused units.Bytes) { u.assigned[uplink] -= unused }
