package compare

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// By hand, with t(0.975) of 4 degrees of freedom, 2.776445105, and t(0.8), 0.940965,
// from any table.
func TestIntervalByHand(t *testing.T) {
	a := []float64{100, 110, 90, 105, 95}
	b := []float64{101, 112, 93, 109, 100} // 1, 2, 3, 4, 5 more
	p := pairUp(a, b)
	require.Equal(t, 5, p.N)
	require.Equal(t, 100., p.A)
	require.Equal(t, 103., p.B)
	require.Equal(t, 3., p.Diff)
	stderr := math.Sqrt(2.5 / 5) // s^2 = (4+1+0+1+4)/4
	require.InEpsilon(t, 2.776445105*stderr, p.Half, 1e-9)
	require.InEpsilon(t, (2.776445105+0.9409646)*stderr, p.Detectable, 1e-6)
	require.True(t, p.Significant())
	r, ok := p.Relative()
	require.True(t, ok)
	require.Equal(t, 0.03, r)

	// The same values without their pairs say nothing: pairing is what tells.
	p = pairUp(a, []float64{109, 101, 100, 93, 112})
	require.InDelta(t, 3, p.Diff, 1e-12)
	require.False(t, p.Significant())

	// Two replications: t is 12.706.
	p = pairUp([]float64{0, 0}, []float64{1, 3})
	require.InEpsilon(t, 12.7062047, p.Half, 1e-8)
	require.False(t, p.Significant())
	_, ok = p.Relative()
	require.False(t, ok)

	// One has no interval, and is never significant.
	p = pairUp([]float64{1}, []float64{2})
	require.Equal(t, Paired{N: 1, A: 1, B: 2, Diff: 1}, p)
	require.False(t, p.Significant())
}

// Over many experiments with normal noise the interval holds the true difference
// 95 times in a hundred, and a true difference of the size that is called
// detectable, at the true scatter, is found significant four times in five.
func TestCoverageAndPower(t *testing.T) {
	const n, experiments, diff = 5, 4000, 2.
	rng := rand.New(rand.NewPCG(1, 2))
	size := (2.776445105 + 0.9409646) * math.Sqrt2 / math.Sqrt(n) // of the difference of two unit normals
	covered, found := 0, 0
	for range experiments {
		a, b, c := make([]float64, n), make([]float64, n), make([]float64, n)
		for i := range a {
			common := 10 * rng.NormFloat64()
			a[i] = common + rng.NormFloat64()
			noise := common + rng.NormFloat64()
			b[i], c[i] = noise+diff, noise+size
		}
		if p := pairUp(a, b); math.Abs(p.Diff-diff) <= p.Half {
			covered++
		}
		if p := pairUp(a, c); p.Significant() {
			found++
		}
	}
	require.InDelta(t, 0.95, float64(covered)/experiments, 0.012)
	require.InDelta(t, 0.80, float64(found)/experiments, 0.04)
	t.Logf("covered %.3f, found %.3f", float64(covered)/experiments, float64(found)/experiments)
}

func TestPairsProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 12).Draw(t, "n")
		series := rapid.SliceOfN(rapid.Float64Range(-1e6, 1e6), n, n)
		a, b := series.Draw(t, "a"), series.Draw(t, "b")
		same := pairUp(a, a)
		require.Zero(t, same.Diff)
		require.Zero(t, same.Half)
		require.False(t, same.Significant(), "nothing differs from itself")

		there, back := pairUp(a, b), pairUp(b, a)
		require.InDelta(t, -there.Diff, back.Diff, 1e-6)
		require.InDelta(t, there.Half, back.Half, 1e-6)
		// What is common to a replication does not matter.
		shared := series.Draw(t, "shared")
		c, d := make([]float64, n), make([]float64, n)
		for i := range c {
			c[i], d[i] = a[i]+shared[i], b[i]+shared[i]
		}
		moved := pairUp(c, d)
		require.InDelta(t, there.Diff, moved.Diff, 1e-6)
		require.InDelta(t, there.Half, moved.Half, 1e-6)
		require.GreaterOrEqual(t, there.Detectable, there.Half)
	})
}
