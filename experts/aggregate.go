package experts

import (
	"math"
	"math/bits"
	"math/rand/v2"

	"github.com/tgssim/tgssim/internal/detmath"
)

// aggregateFrom is the number of tokens of a rank from which aggregate counts are
// drawn; the choices of fewer are drawn one by one, which takes no longer.
const aggregateFrom = 16

// fewChoices is the number of choices up to which a binomial split is drawn
// choice by choice, where it is not smooth, and above which by inversion.
const fewChoices = 24

// A cut is a node of a law's tree as drawCounts needs it, one cache line.
type cut struct {
	// left and right are the places of the halves' counts: a single expert's own, or
	// that of another cut behind all experts.
	left, right         int32
	leftSize, rightSize int32 // experts
	// See split: the mean per token of the left half and of both, the slope and the
	// residual variance per token.
	leftMean, mean, slope, residual float64
	smooth                          int32 // choices from which a normal variate does
	chance                          uint32
	node                            int32 // in the tree
	half                            bool  // choices go either way alike and independently
}

// newCuts lists the nodes of a tree that are cut.
func newCuts(tree []split, experts int) []cut {
	place := make([]int32, len(tree))
	cuts := int32(0)
	for i, n := range tree {
		place[i] = n.first
		if n.size > 1 {
			place[i] = int32(experts) + cuts
			cuts++
		}
	}
	all := make([]cut, 0, cuts)
	for i := range tree {
		n := &tree[i]
		if n.size == 1 {
			continue
		}
		c := cut{
			left: place[i+1], right: place[n.right], leftSize: tree[i+1].size, rightSize: tree[n.right].size,
			leftMean: n.left, mean: n.mean, slope: n.slope, residual: n.residual, node: int32(i),
		}
		if n.binomial {
			c.half, c.chance, c.smooth = n.chance == 0.5, choiceChance(n.chance), math.MaxInt32
			if n.smooth < math.MaxInt32 {
				c.smooth = int32(math.Ceil(n.smooth))
			}
		}
		all = append(all, c)
	}
	return all
}

// drawCounts draws how many of the tokens choose each expert. It goes down the
// tree of the law, and splits the choices of each run among its halves. The sum
// is tokens x top k exactly. The mean of every run's count, its variance and the
// covariance of its halves are the law's, but for what whole numbers within the
// possible add (less than 1/4 token squared) or cut off; the covariance of distant
// experts follows from the chain of halves between them. tally has room for all
// experts and cuts.
func (l *law) drawCounts(rng *rand.PCG, tokens int, into []int32, tally []int32) {
	all := int32(tokens * l.shape.TopK)
	if len(l.cuts) == 0 {
		into[0] = all
		return
	}
	tally[len(into)] = all
	t := float64(tokens)
	for i := range l.cuts {
		c := &l.cuts[i]
		m := int(tally[len(into)+i])
		lo, hi := max(0, m-tokens*int(c.rightSize)), min(m, tokens*int(c.leftSize))
		var x int
		switch {
		case lo == hi:
			x = lo
		case c.half && m <= 64:
			x = min(hi, max(lo, bits.OnesCount64(rng.Uint64()>>(64-m))))
		case m >= int(c.smooth):
			mean := float64(t*c.leftMean) + float64(c.slope*(float64(m)-float64(t*c.mean)))
			if float64(lo)+farAway <= mean && mean <= float64(hi)-farAway {
				x = near(rng, mean, t*c.residual, lo, hi)
			} else {
				x = bounded(rng, mean, t*c.residual, lo, hi)
			}
		case m <= fewChoices:
			x = min(hi, max(lo, countChoices(rng, m, c.chance)))
		default:
			x = min(hi, max(lo, l.tree[c.node].invert(rng, m)))
		}
		tally[c.left], tally[c.right] = int32(x), int32(m-x)
	}
	copy(into, tally)
}

// choiceBits is the random bits of one choice, of which a number has three.
const choiceBits = 21

// choiceChance is a probability in units of 2^-choiceBits.
func choiceChance(chance float64) uint32 {
	return uint32(float64(chance*(1<<choiceBits)) + 0.5)
}

// countChoices is a binomial variate, one choice after another.
func countChoices(rng *rand.PCG, m int, chance uint32) int {
	const mask = 1<<choiceBits - 1
	limit, x, last := uint64(chance), uint64(0), uint64(0)
	for ; m > 0; m -= 3 {
		// A difference is negative, and its topmost bit 1, when a choice is below the
		// limit.
		last = rng.Uint64()
		x += (last&mask-limit)>>63 + (last>>choiceBits&mask-limit)>>63 + (last>>(2*choiceBits)&mask-limit)>>63
	}
	// One or two of the last three may be too many.
	x -= (last>>(2*choiceBits)&mask - limit) >> 63 & (uint64(1-m) >> 1)
	x -= (last>>choiceBits&mask - limit) >> 63 & (uint64(-m) >> 1)
	return int(x)
}

// invert is a binomial variate by inversion of its distribution, from the end
// that is near the mean.
func (n *split) invert(rng *rand.PCG, m int) int {
	chance, logMiss := n.chance, n.logMiss
	if n.chance > 0.5 {
		chance, logMiss = 1-chance, n.logHit
	}
	p, odds := detmath.Exp(float64(m)*logMiss), chance/(1-chance)
	u, x := uniform(rng), 0
	for x < m {
		if u -= p; u < 0 {
			break
		}
		x++
		p *= float64(m-x+1) / float64(x) * odds
	}
	if n.chance > 0.5 {
		return m - x
	}
	return x
}

// farAway is the distance of a mean from a bound at which no normal variate with at
// most that variance is cut off.
const farAway = 9

// bounded draws a whole number from lo to hi with the given mean and variance.
// Close to a bound, where a normal variate would be cut off, the distance from it
// is binomial, of as many trials as its variance takes.
func bounded(rng *rand.PCG, mean, variance float64, lo, hi int) int {
	down, up := mean-float64(lo), float64(hi)-mean
	gap := min(down, up)
	switch {
	case gap <= 0:
		return min(hi, max(lo, int(mean)))
	case gap < 0.5:
		variance = 0 // rounding adds gap (1 - gap)
	case gap < farAway && float64(gap*gap) < float64(9*variance):
		trials := hi - lo
		if variance < gap { // n p = gap, n p (1 - p) = variance
			trials = int(min(float64(trials), math.Ceil(gap*(gap/(gap-variance)))))
		}
		chance := gap / float64(trials)
		s := split{chance: chance}
		if chance > 0.5 {
			s.logHit = detmath.Log(chance)
		} else {
			s.logMiss = detmath.Log1p(-chance)
		}
		x := s.invert(rng, trials)
		if up < down {
			return hi - x
		}
		return lo + x
	}
	return near(rng, mean, variance, lo, hi)
}

// near draws a whole number from lo to hi with the given mean and variance: a
// nearly normal variate, rounded up or down at random so that the mean stays. The
// rounding adds a variance of 1/6 on average, which is taken from the normal
// part.
func near(rng *rand.PCG, mean, variance float64, lo, hi int) int {
	r, z := rng.Uint64(), bits.OnesCount64(rng.Uint64())-32
	// The bits that are set among 64 have the variance 16 and an excess kurtosis of
	// -1/32; 32 further bits fill the gaps between the whole numbers.
	normal := float64(z) + float64(float64(int64(r>>32))*0x1p-32) - 0.5
	s := math.Sqrt(max(0, variance-1./6) / (16 + 1./12))
	x := math.Floor(mean + float64(s*normal) + float64(float64(int64(r&(1<<32-1)))*0x1p-32))
	return min(hi, max(lo, int(x)))
}

// uniform is a number from 0 to 1, excluded, as rand.Rand.Float64 draws it.
func uniform(rng *rand.PCG) float64 { return float64(int64(rng.Uint64()&(1<<53-1))) * 0x1p-53 }
