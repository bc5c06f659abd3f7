package experts

import (
	"math/bits"
	"math/rand/v2"

	"github.com/tgssim/tgssim/internal/detmath"
)

// An urn draws the items of a run of weights, each with a probability in
// proportion to its weight. The table is that of Walker's alias method (Vose,
// IEEE Trans. Software Eng. 17(9), 1991): one random number per draw.
type urn struct {
	weights []float64
	total   float64
	keep    []uint64 // item i stays i when the random number is below keep[i]
	alias   []uint16
}

func newUrn(weights []float64) urn {
	n := len(weights)
	u := urn{weights: weights, keep: make([]uint64, n), alias: make([]uint16, n)}
	for _, w := range weights {
		u.total += w
	}
	scaled := make([]float64, n)
	var small, large []uint16
	for i, w := range weights {
		scaled[i] = w / u.total * float64(n)
		if scaled[i] < 1 {
			small = append(small, uint16(i))
		} else {
			large = append(large, uint16(i))
		}
	}
	for len(small) > 0 && len(large) > 0 {
		s, l := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		u.keep[s], u.alias[s] = uint64(scaled[s]*0x1p64), l
		scaled[l] = (scaled[l] + scaled[s]) - 1
		if scaled[l] < 1 {
			large = large[:len(large)-1]
			small = append(small, l)
		}
	}
	for _, i := range append(small, large...) { // 1 but for rounding
		u.keep[i], u.alias[i] = 1<<64-1, i
	}
	return u
}

func (u *urn) draw(rng *rand.Rand) int {
	i, low := bits.Mul64(rng.Uint64(), uint64(len(u.keep)))
	if low < u.keep[i] { // low is what is left of the number: uniform given i
		return int(i)
	}
	return int(u.alias[i])
}

// drawOther draws an item that is not taken, as if the taken ones were not there;
// left is the weight of those that are. Draws that hit a taken item are repeated,
// and where that becomes long, because what is left weighs little, the items are
// counted off instead.
func (u *urn) drawOther(rng *rand.Rand, taken []bool, left float64) int {
	for range 6 {
		if i := u.draw(rng); !taken[i] {
			return i
		}
	}
	at, last := float64(left*rng.Float64()), -1
	for i, w := range u.weights {
		if taken[i] {
			continue
		}
		last = i
		if at -= w; at < 0 {
			break
		}
	}
	return last
}

// A chooser draws the experts of one token after another. Experts are numbered
// as in the weights; groups are consecutive and of equal size.
type chooser struct {
	k, groups, top int
	size           int // of a group
	byTop2         bool
	all            urn
	urns           []urn // of the groups
	popularity     []float64

	taken []bool
	races []race
	order []int
}

// A race is the arrivals of one group's experts, in order, as far as they have
// been needed.
type race struct {
	now, left float64 // time of the last arrival, weight of those to come
	ids       []int
	times     []float64
	used      int     // arrivals that the token has taken
	key       float64 // groups are ranked by this, lowest first
}

// newChooser returns the chooser of a law. The weights must be positive.
func newChooser(s Shape, groupChoice string, weights []float64) *chooser {
	c := &chooser{k: s.TopK, taken: make([]bool, s.Experts), all: newUrn(weights)}
	if !s.limited() {
		return c
	}
	c.groups, c.top, c.size = s.Groups, s.TopGroups, s.Experts/s.Groups
	c.byTop2 = groupChoice == GroupTop2
	c.races, c.order = make([]race, c.groups), make([]int, c.groups)
	for g := range c.groups {
		c.urns = append(c.urns, newUrn(weights[g*c.size:(g+1)*c.size]))
		c.popularity = append(c.popularity, c.urns[g].total)
		c.races[g].ids = make([]int, 0, c.size)
		c.races[g].times = make([]float64, 0, c.size)
	}
	return c
}

// choose fills into with k experts, all different, in order of choice.
func (c *chooser) choose(rng *rand.Rand, into []uint16) {
	if c.groups > 0 {
		c.chooseLimited(rng, into)
		return
	}
	left := c.all.total
	for i := range into {
		e := c.all.drawOther(rng, c.taken, left)
		c.taken[e] = true
		left -= c.all.weights[e]
		into[i] = uint16(e)
	}
	for _, e := range into {
		c.taken[e] = false
	}
}

func (c *chooser) chooseLimited(rng *rand.Rand, into []uint16) {
	for g := range c.races {
		r := &c.races[g]
		*r = race{left: c.urns[g].total, ids: r.ids[:0], times: r.times[:0]}
		c.order[g] = g
		switch {
		case !c.byTop2:
			r.key = detmath.Exponential(rng) / c.popularity[g]
		case c.size == 1:
			c.arrive(rng, g)
			r.key = r.times[0]
		default:
			// A score is minus the logarithm of a time, so the highest sum of two is
			// the lowest product.
			c.arrive(rng, g)
			c.arrive(rng, g)
			r.key = r.times[0] * r.times[1]
		}
	}
	for i := range c.top { // the best groups to the front
		best := i
		for j := i + 1; j < c.groups; j++ {
			if c.races[c.order[j]].key < c.races[c.order[best]].key {
				best = j
			}
		}
		c.order[i], c.order[best] = c.order[best], c.order[i]
	}
	for i := range into {
		first, at := -1, 0.
		for _, g := range c.order[:c.top] {
			r := &c.races[g]
			if r.used == len(r.ids) {
				if r.used == c.size {
					continue
				}
				c.arrive(rng, g)
			}
			if t := r.times[r.used]; first < 0 || t < at {
				first, at = g, t
			}
		}
		r := &c.races[first]
		into[i] = uint16(first*c.size + r.ids[r.used])
		r.used++
	}
	for g := range c.races {
		for _, e := range c.races[g].ids {
			c.taken[g*c.size+e] = false
		}
	}
}

// arrive adds the next arrival of a group: after an exponential time of the rate
// that is left, one of the experts that are left.
func (c *chooser) arrive(rng *rand.Rand, g int) {
	r := &c.races[g]
	taken := c.taken[g*c.size : (g+1)*c.size]
	if len(r.ids) == c.size-1 || r.left <= 0 { // exact where rounding has eaten the rest
		r.left = 0
		for e, w := range c.urns[g].weights {
			if !taken[e] {
				r.left += w
			}
		}
	}
	e := c.urns[g].drawOther(rng, taken, r.left)
	r.now += detmath.Exponential(rng) / r.left
	r.left -= c.urns[g].weights[e]
	taken[e] = true
	r.ids, r.times = append(r.ids, e), append(r.times, r.now)
}
