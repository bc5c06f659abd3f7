package experts

import (
	"math"

	"github.com/tgssim/tgssim/internal/detmath"
	"github.com/tgssim/tgssim/sim"
)

// The numbers of tokens from which a law's moments are estimated where no closed
// form is at hand: their standard error is at most 0.5/sqrt(n) of a token, 0.14 %
// and 0.4 %, and that of the mean load of one of 256 equal experts 1.5 % and
// 4.3 % of itself. The smaller number is for files with weights for each layer.
const (
	samplesShared = 1 << 17
	samplesLayer  = 1 << 14
)

// samplesHits is the most of those tokens from which the hits of a layer are
// estimated; knowing the means makes up for the rest.
const samplesHits = 1 << 15

// A law is how one token chooses among experts of given weights, whose numbering
// is the law's own: see popularity.
type law struct {
	shape    Shape
	balanced bool
	chooser  *chooser
	// p is the probability that a token chooses each expert; they sum to top k.
	p []float64
	// sample is the choices of tokens, top k each, from a stream that is the same
	// in every run, so that expectations do not depend on the seed.
	sample []uint16
	tree   []split
	cuts   []cut // of the tree
}

// newLaw prepares a law. The tree is for aggregate counts only; forSample is true
// when the moments of sets of experts will be asked for.
func newLaw(s Shape, groupChoice string, weights []float64, balanced, forTree, forSample bool, samples int) *law {
	l := &law{shape: s, balanced: balanced, chooser: newChooser(s, groupChoice, weights)}
	exact := balanced || !s.limited()
	if !exact || forTree || forSample {
		rng := sim.Streams{}.Stream("experts/moments")
		l.sample = make([]uint16, samples*s.TopK)
		for i := 0; i < len(l.sample); i += s.TopK {
			l.chooser.choose(rng, l.sample[i:i+s.TopK])
		}
	}
	switch {
	case balanced:
		l.p = make([]float64, s.Experts)
		for e := range l.p {
			l.p[e] = float64(s.TopK) / float64(s.Experts)
		}
	case exact:
		l.p = inclusion(weights, s.TopK)
	default:
		l.p = make([]float64, s.Experts)
		for _, e := range l.sample {
			l.p[e]++
		}
		for e := range l.p {
			l.p[e] /= float64(samples)
		}
	}
	if forTree {
		l.tree = newTree(l)
		l.cuts = newCuts(l.tree, s.Experts)
	}
	return l
}

// inclusion returns the probability of each item to be among the first k arrivals
// of a race of exponential clocks with these rates:
//
//	integral over t of w exp(-w t) P(fewer than k of the others have arrived by t)
//
// by the trapezoidal rule in log t, which converges exponentially (Trefethen and
// Weideman, SIAM Review 56(3), 2014). The number that have arrived is a sum of
// independent Bernoulli variates; those of all others follow from the sums of
// the items before and behind.
func inclusion(weights []float64, k int) []float64 {
	n := len(weights)
	p := make([]float64, n)
	if k >= n {
		for i := range p {
			p[i] = 1
		}
		return p
	}
	total, least := 0., math.Inf(1)
	for _, w := range weights {
		total += w
		least = min(least, w)
	}
	behind := make([]float64, (n+1)*k) // P(j of items i.. have arrived), j < k
	before := make([]float64, k)
	arrived := make([]float64, n)
	// From where nothing has arrived to where everything has, but for 1e-17.
	const step = 1. / 16
	from, to := detmath.Log(1e-17/total), detmath.Log(40/least)
	for u := from; u < to; u += step {
		t := detmath.Exp(u)
		clear(behind[n*k:])
		behind[n*k] = 1
		for i := n - 1; i >= 0; i-- {
			arrived[i] = -expm1(-weights[i] * t)
			include(behind[i*k:(i+1)*k], behind[(i+1)*k:(i+2)*k], arrived[i])
		}
		clear(before)
		before[0] = 1
		for i := range n {
			fewer, cumulated := 0., 0.
			for j := range k { // j behind, at most k-1-j before
				cumulated += before[j]
				fewer += float64(cumulated * behind[(i+1)*k+k-1-j])
			}
			p[i] += float64(step * weights[i] * t * (1 - arrived[i]) * fewer)
			include(before, before, arrived[i])
		}
	}
	return p
}

// include adds an item that has arrived with probability a to a distribution of
// the number of arrivals, cut off at its length.
func include(to, from []float64, a float64) {
	for j := len(from) - 1; j > 0; j-- {
		to[j] = float64(from[j]*(1-a)) + float64(from[j-1]*a)
	}
	to[0] = from[0] * (1 - a)
}

// expm1 is exp(x) - 1 for x <= 0, with an absolute error of a few 1e-17 for
// small x.
func expm1(x float64) float64 {
	if x > -1e-5 {
		return x + float64(x*x/2)
	}
	return detmath.Exp(x) - 1
}

// A split is a node of the tree of a law: a run of consecutive experts that is
// cut in two, or one expert. The nodes are in order: a node's left child follows
// it.
type split struct {
	first, size int32
	right       int32 // index of the right child; 0 for one expert
	// mean is the expected number of choices of a token in the run.
	mean float64
	// The left child's count, given that T tokens make m choices in the run, has
	// the mean T left + slope (m - T mean) and the variance T residual, as the
	// best linear estimate from the token's covariances has.
	left, slope, residual float64
	// chance is left over mean. When the residual is what m independent choices
	// with this chance would have, binomial is set; logMiss is log(1 - chance), and
	// logHit log(chance). From smooth choices on, the rarer side has a mean of at
	// least three standard deviations.
	chance, logMiss, logHit float64
	binomial                bool
	smooth                  float64
}

// newTree cuts the experts in halves, groups first.
func newTree(l *law) []split {
	s := l.shape
	b := treeBuilder{law: l, leaf: make([]int32, s.Experts)}
	b.build(0, s.Experts, -1)
	b.measure()
	return b.nodes
}

type treeBuilder struct {
	law    *law
	nodes  []split
	parent []int32
	leaf   []int32 // node of each expert
}

func (b *treeBuilder) build(first, size int, parent int32) {
	at := int32(len(b.nodes))
	b.nodes = append(b.nodes, split{first: int32(first), size: int32(size)})
	b.parent = append(b.parent, parent)
	if size == 1 {
		b.leaf[first] = at
		return
	}
	unit := 1
	if group := b.law.shape.Experts / b.law.shape.groups(); size > group {
		unit = group
	}
	half := (size/unit + 1) / 2 * unit
	b.build(first, half, at)
	b.nodes[at].right = int32(len(b.nodes))
	b.build(first+half, size-half, at)
}

// measure fills in the moments. Means are the law's own; the variance of one
// expert is exact; those of longer runs come from the sample.
func (b *treeBuilder) measure() {
	k := b.law.shape.TopK
	squares := make([]float64, len(b.nodes))
	sums := make([]float64, len(b.nodes))
	count := make([]int32, len(b.nodes))
	for i := 0; i < len(b.law.sample); i += k {
		choice := b.law.sample[i : i+k]
		for _, e := range choice {
			for n := b.leaf[e]; n >= 0; n = b.parent[n] {
				count[n]++
			}
		}
		for _, e := range choice {
			for n := b.leaf[e]; n >= 0 && count[n] > 0; n = b.parent[n] {
				sums[n] += float64(count[n])
				squares[n] += float64(count[n] * count[n])
				count[n] = 0
			}
		}
	}
	samples := float64(len(b.law.sample) / k)
	variance := make([]float64, len(b.nodes))
	for i := len(b.nodes) - 1; i >= 0; i-- {
		n := &b.nodes[i]
		if n.size == 1 {
			n.mean = b.law.p[n.first]
			variance[i] = n.mean * (1 - n.mean)
			continue
		}
		l, r := i+1, int(n.right)
		n.mean = b.nodes[l].mean + b.nodes[r].mean
		mean := sums[i] / samples
		variance[i] = max(0, squares[i]/samples-float64(mean*mean))
		if n.size == int32(b.law.shape.Experts) {
			variance[i] = 0
		}
		n.left = b.nodes[l].mean
		n.chance = n.left / n.mean
		covariance := (variance[i] + variance[l] - variance[r]) / 2
		if variance[i] > 1e-12 {
			n.slope = min(1, max(0, covariance/variance[i]))
		}
		// Var(L) - 2 slope Cov(L, M) + slope**2 Var(M): also right for a cut slope.
		n.residual = max(0, variance[l]-float64(2*n.slope*covariance)+float64(n.slope*n.slope*variance[i]))
		free := float64(n.mean * n.chance * (1 - n.chance))
		n.binomial = math.Abs(n.residual-free) < float64(0.1*free) && math.Abs(n.slope-n.chance) < float64(0.1*n.chance)
		n.smooth = 9 * max(n.chance, 1-n.chance) / min(n.chance, 1-n.chance)
		n.logMiss, n.logHit = detmath.Log1p(-n.chance), detmath.Log(n.chance)
	}
}
