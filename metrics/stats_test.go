package metrics_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/metrics"
)

// The values are numpy's (np.percentile, default method), to the last bit.
func TestPercentileFollowsNumpy(t *testing.T) {
	for _, c := range []struct {
		values []float64
		p      float64
		want   float64
	}{
		{[]float64{1, 2, 3, 4}, 25, 1.75},
		{[]float64{1, 2, 3, 4}, 50, 2.5},
		{[]float64{1, 2, 3, 4}, 75, 3.25},
		{[]float64{1, 2, 3, 4}, 0, 1},
		{[]float64{1, 2, 3, 4}, 100, 4},
		{[]float64{15, 20, 35, 40, 50}, 40, 29},
		{[]float64{15, 20, 35, 40, 50}, 90, 46},
		{[]float64{7}, 99, 7},
		{[]float64{0, 10}, 99, 9.9},
		// Beyond the middle numpy interpolates from the upper end; from the lower end
		// the last digits would differ.
		{[]float64{2.11, 5.74, 7.14, 8.32}, 95, 8.142999999999999},
		{[]float64{2.23, 2.39, 3.1, 8.04}, 90, 6.558},
		{[]float64{1.56, 1.63, 4.01, 8.88}, 99, 8.7339},
	} {
		require.Equal(t, c.want, metrics.Percentile(c.values, c.p), "%v at %v", c.values, c.p)
	}
	require.True(t, math.IsNaN(metrics.Percentile(nil, 50)))
	require.True(t, math.IsNaN(metrics.WeightedPercentile(nil, 50)))
}

// numpy's rule written out a second way: an order statistic of fractional rank.
func naivePercentile(values []float64, p float64) float64 {
	s := slices.Clone(values)
	slices.Sort(s)
	h := float64(len(s)-1) * p / 100
	lo := int(math.Floor(h))
	hi := int(math.Ceil(h))
	return s[lo] + (h-float64(lo))*(s[hi]-s[lo])
}

func TestPercentileAgainstNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-1e6, 1e6), 1, 50).Draw(t, "values")
		p := rapid.Float64Range(0, 100).Draw(t, "p")
		want := naivePercentile(values, p)
		slices.Sort(values)
		got := metrics.Percentile(values, p)
		require.InDelta(t, want, got, 1e-6)
		require.GreaterOrEqual(t, got, values[0])
		require.LessOrEqual(t, got, values[len(values)-1])
	})
}

// A weighted sample is the sample written out: percentiles are identical, not
// close, whatever the weights.
func TestWeightedIsExpansion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		distinct := rapid.SliceOfNDistinct(rapid.Float64Range(0, 1e3), 1, 20, rapid.ID).Draw(t, "values")
		slices.Sort(distinct)
		var sample []metrics.Weighted
		var expanded []float64
		for _, v := range distinct {
			n := rapid.Int64Range(1, 40).Draw(t, "count")
			sample = append(sample, metrics.Weighted{Value: v, Count: n})
			for range n {
				expanded = append(expanded, v)
			}
		}
		p := rapid.OneOf(rapid.Float64Range(0, 100), rapid.SampledFrom([]float64{0, 50, 90, 99, 99.9, 100})).Draw(t, "p")
		require.Equal(t, metrics.Percentile(expanded, p), metrics.WeightedPercentile(sample, p))

		a, b := metrics.StatsOf(expanded), metrics.WeightedStatsOf(sample)
		require.Equal(t, a.Count, b.Count)
		require.InEpsilon(t, a.Mean+1, b.Mean+1, 1e-12)
		require.InDelta(t, a.Std, b.Std, 1e-6)
		a.Mean, a.Std, b.Mean, b.Std = 0, 0, 0, 0
		require.Equal(t, a, b)
	})
}

func TestStats(t *testing.T) {
	s := metrics.StatsOf([]float64{2, 4, 4, 4, 5, 5, 7, 9})
	require.Equal(t, int64(8), s.Count)
	require.Equal(t, 5.0, s.Mean)
	require.Equal(t, 2.0, s.Std, "population, not sample: numpy's ddof is 0")
	require.Equal(t, 4.5, s.P50)
	require.Equal(t, 9.0, s.Max)
	require.Zero(t, metrics.StatsOf(nil))
	require.Zero(t, metrics.WeightedStatsOf(nil))
}

func TestJFI(t *testing.T) {
	require.Equal(t, 1.0, metrics.JFI([]float64{3, 3, 3}))
	require.Equal(t, 0.25, metrics.JFI([]float64{0, 0, 8, 0}))
	require.InDelta(t, 36.0/(3*14), metrics.JFI([]float64{1, 2, 3}), 1e-15)
	require.True(t, math.IsNaN(metrics.JFI([]float64{0, 0})))
	require.True(t, math.IsNaN(metrics.JFI(nil)))
}

func BenchmarkWeightedStats(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	sample := make([]metrics.Weighted, 100_000)
	for i := range sample {
		sample[i] = metrics.Weighted{Value: float64(i), Count: 1 + rng.Int64N(200)}
	}
	b.ReportAllocs()
	for b.Loop() {
		metrics.WeightedStatsOf(sample)
	}
}
