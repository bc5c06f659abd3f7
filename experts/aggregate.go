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

// drawCounts draws how many of the tokens choose each expert. It goes down the
// tree of the law, and splits the choices of each run among its halves. The sum
// is tokens x top k exactly. The mean of every run's count, its variance and the
// covariance of its halves are the law's, but for what whole numbers within the
// possible add (less than 1/4 token squared) or cut off; the covariance of distant
// experts follows from the chain of halves between them.
func (l *law) drawCounts(rng *rand.Rand, tokens int, into []int32, scratch []int32) {
	scratch[0] = int32(tokens * l.shape.TopK)
	for i := range l.tree {
		n := &l.tree[i]
		m := int(scratch[i])
		if n.size == 1 {
			into[n.first] = int32(m)
			continue
		}
		right := n.size - l.tree[i+1].size
		lo, hi := max(0, m-tokens*int(right)), min(m, tokens*int(l.tree[i+1].size))
		x := n.draw(rng, m, tokens, lo, hi)
		scratch[i+1], scratch[n.right] = int32(x), int32(m-x)
	}
}

func (n *split) draw(rng *rand.Rand, m, tokens, lo, hi int) int {
	switch {
	case lo == hi:
		return lo
	case !n.binomial:
	case n.chance == 0.5 && m <= 64:
		return min(hi, max(lo, bits.OnesCount64(rng.Uint64()>>(64-m))))
	case float64(m) >= n.smooth:
	case m <= fewChoices:
		return min(hi, max(lo, countChoices(rng, m, n.chance)))
	default:
		return min(hi, max(lo, n.invert(rng, m)))
	}
	t := float64(tokens)
	mean := float64(t*n.left) + float64(n.slope*(float64(m)-float64(t*n.mean)))
	return bounded(rng, mean, t*n.residual, lo, hi)
}

// countChoices is a binomial variate, one choice after another, of 21 random bits
// each.
func countChoices(rng *rand.Rand, m int, chance float64) int {
	const bits = 21
	limit := uint64(float64(chance*(1<<bits)) + 0.5)
	x := 0
	for m > 0 {
		r := rng.Uint64()
		for range min(3, m) {
			x += int((r&(1<<bits-1) - limit) >> 63) // 1 when it is below the limit, without a branch
			r >>= bits
		}
		m -= 3
	}
	return x
}

// invert is a binomial variate by inversion of its distribution, from the end
// that is near the mean.
func (n *split) invert(rng *rand.Rand, m int) int {
	chance, logMiss := n.chance, n.logMiss
	if n.chance > 0.5 {
		chance, logMiss = 1-chance, n.logHit
	}
	p, odds := detmath.Exp(float64(m)*logMiss), chance/(1-chance)
	u, x := rng.Float64(), 0
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

// bounded draws a whole number from lo to hi with the given mean and variance.
// Close to a bound, where a normal variate would be cut off, the distance from it
// is binomial, of as many trials as its variance takes.
func bounded(rng *rand.Rand, mean, variance float64, lo, hi int) int {
	down, up := mean-float64(lo), float64(hi)-mean
	gap := min(down, up)
	switch {
	case gap <= 0:
		return min(hi, max(lo, int(mean)))
	case gap < 0.5:
		variance = 0 // rounding adds gap (1 - gap)
	case gap < 9 && float64(gap*gap) < float64(9*variance):
		trials := hi - lo
		if variance < gap { // n p = gap, n p (1 - p) = variance
			trials = int(min(float64(trials), math.Ceil(gap*(gap/(gap-variance)))))
		}
		chance := gap / float64(trials)
		s := split{chance: chance, logMiss: detmath.Log1p(-chance), logHit: detmath.Log(chance)}
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
func near(rng *rand.Rand, mean, variance float64, lo, hi int) int {
	r := rng.Uint64()
	// The bits that are set among 64 have the variance 16 and an excess kurtosis of
	// -1/32; 32 further bits fill the gaps between the whole numbers.
	z := float64(bits.OnesCount64(rng.Uint64())) - 32 + float64(float64(r>>32)*0x1p-32) - 0.5
	s := math.Sqrt(max(0, variance-1./6) / (16 + 1./12))
	x := math.Floor(mean + float64(s*z) + float64(float64(r&(1<<32-1))*0x1p-32))
	return int(min(float64(hi), max(float64(lo), x)))
}
