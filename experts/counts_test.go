package experts

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/internal/detmath"
)

// simpleCounts is drawCounts a second time, straight from the tree: one choice
// after another, one random number after another.
func simpleCounts(l *law, rng *rand.Rand, tokens int) []int32 {
	counts := make([]int32, l.shape.Experts)
	var walk func(node, m int)
	walk = func(node, m int) {
		n := &l.tree[node]
		if n.size == 1 {
			counts[n.first] = int32(m)
			return
		}
		left, right := &l.tree[node+1], &l.tree[n.right]
		lo, hi := max(0, m-tokens*int(right.size)), min(m, tokens*int(left.size))
		x := lo
		if lo < hi {
			x = min(hi, max(lo, simpleSplit(rng, n, tokens, m, lo, hi)))
		}
		walk(node+1, x)
		walk(int(n.right), m-x)
	}
	walk(0, tokens*l.shape.TopK)
	return counts
}

func simpleSplit(rng *rand.Rand, n *split, tokens, m, lo, hi int) int {
	if n.binomial && n.chance == 0.5 && m <= 64 {
		return bits.OnesCount64(rng.Uint64() >> (64 - m))
	}
	if n.binomial && float64(m) < n.smooth {
		if m <= fewChoices {
			return simpleChoices(rng, m, n.chance)
		}
		return simpleInvert(rng, m, n.chance)
	}
	t := float64(tokens)
	mean := float64(t*n.left) + float64(n.slope*(float64(m)-float64(t*n.mean)))
	variance := t * n.residual
	gap := min(mean-float64(lo), float64(hi)-mean)
	if gap <= 0 {
		return int(mean)
	}
	if gap >= 0.5 && gap < 9 && float64(gap*gap) < float64(9*variance) {
		trials := hi - lo
		if variance < gap {
			trials = int(min(float64(trials), math.Ceil(gap*(gap/(gap-variance)))))
		}
		x := simpleInvert(rng, trials, gap/float64(trials))
		if float64(hi)-mean < mean-float64(lo) {
			return hi - x
		}
		return lo + x
	}
	if gap < 0.5 {
		variance = 0
	}
	u := rng.Uint64()
	ones := bits.OnesCount64(rng.Uint64())
	z := float64(ones) - 32 + float64(float64(u>>32)*0x1p-32) - 0.5
	s := math.Sqrt(max(0, variance-1./6) / (16 + 1./12))
	return int(math.Floor(mean + float64(s*z) + float64(float64(u&(1<<32-1))*0x1p-32)))
}

func simpleChoices(rng *rand.Rand, m int, chance float64) (x int) {
	limit := uint64(float64(chance*(1<<21)) + 0.5)
	var u uint64
	for i := range m {
		if i%3 == 0 {
			u = rng.Uint64()
		}
		if u>>(21*(i%3))%(1<<21) < limit {
			x++
		}
	}
	return x
}

func simpleInvert(rng *rand.Rand, m int, chance float64) int {
	hit, logMiss := chance, detmath.Log1p(-chance)
	if chance > 0.5 {
		hit, logMiss = 1-chance, detmath.Log(chance)
	}
	p, odds, u, x := detmath.Exp(float64(m)*logMiss), hit/(1-hit), rng.Float64(), 0
	for u -= p; u >= 0 && x < m; u -= p {
		x++
		p *= float64(m-x+1) / float64(x) * odds
	}
	if chance > 0.5 {
		return m - x
	}
	return x
}

// TestCountsAreThoseOfTheTree: the counts and the random numbers used are those of
// the simple way, to the last bit.
func TestCountsAreThoseOfTheTree(t *testing.T) {
	for _, c := range []struct {
		shape Shape
		alpha float64
	}{
		{deepSeek, 0.5}, {deepSeek, 0}, {deepSeek, 2.5}, {qwen, 1},
		{Shape{Layers: 1, Experts: 7, TopK: 3}, 2}, {Shape{Layers: 1, Experts: 16, TopK: 16}, 1},
		{Shape{Layers: 1, Experts: 2, TopK: 1}, 6}, {Shape{Layers: 1, Experts: 1, TopK: 1}, 0},
	} {
		l := newLaw(c.shape, GroupTop2, Zipf(c.shape.Experts, c.alpha), c.alpha == 0, true, true, 1<<12)
		slow, fast := rand.NewPCG(1, 2), rand.NewPCG(1, 2)
		got, tally := make([]int32, c.shape.Experts), make([]int32, 2*c.shape.Experts)
		for i := range 60 {
			for _, tokens := range []int{0, 1, 5, 16, 40, 128, 1000 + i} {
				want := simpleCounts(l, rand.New(slow), tokens)
				l.drawCounts(fast, tokens, got, tally)
				require.Equal(t, want, got, "%v alpha %v, %d tokens", c.shape, c.alpha, tokens)
				require.Equal(t, *slow, *fast)
			}
		}
	}
}

// TestCountChoicesAtTheEnds: no choice is below 0, and all are below 1.
func TestCountChoicesAtTheEnds(t *testing.T) {
	rng := rand.NewPCG(3, 4)
	for m := range fewChoices {
		require.Zero(t, countChoices(rng, m, choiceChance(0)))
		require.Equal(t, m, countChoices(rng, m, choiceChance(1)))
		require.Equal(t, m, countChoices(rng, m, choiceChance(1-1e-9)))
	}
}

// BenchmarkDrawCounts gives the time of one rank's counts.
func BenchmarkDrawCounts(b *testing.B) {
	l := newLaw(deepSeek, GroupTop2, Zipf(deepSeek.Experts, 0.5), false, true, true, 1<<14)
	into, tally := make([]int32, deepSeek.Experts), make([]int32, 2*deepSeek.Experts)
	rng := rand.NewPCG(1, 2)
	for b.Loop() {
		l.drawCounts(rng, 128, into, tally)
	}
}
