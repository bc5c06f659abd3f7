package workload

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/sim"
)

// nearest rounds picoseconds, halves up, and saturates at sim.Never.
func nearest(ps *big.Rat) sim.Time {
	twice := new(big.Rat).Add(ps, big.NewRat(1, 2))
	n := new(big.Int).Quo(twice.Num(), twice.Denom()) // ps >= 0
	if !n.IsInt64() {
		return sim.Never
	}
	return sim.Time(n.Int64())
}

// drain takes everything from a source.
func drain(s Source) []Request {
	var all []Request
	for r, ok := s.Next(); ok; r, ok = s.Next() {
		all = append(all, r)
	}
	return all
}

// generate runs a configuration that must be valid.
func generate(t *testing.T, cfg Config, seed uint64) ([]Request, Stats) {
	t.Helper()
	s, err := New(cfg, sim.Streams{Seed: seed})
	require.NoError(t, err)
	all := drain(s)
	return all, s.Stats()
}

// synthetic1 is a plain synthetic workload.
func synthetic1(requests int) Config {
	return Config{
		Requests: requests,
		Arrivals: &ArrivalConfig{Process: ProcessPoisson, Rate: 20},
		Prompt:   &LengthConfig{Dist: DistLognormal, Mean: 1500, CV: 1.2, Max: 32768},
		Output:   &LengthConfig{Dist: DistUniform, Min: 1, Max: 1000},
	}
}

// requireKS checks times in seconds, which are rounded to the picosecond, against
// a continuous distribution function, at the 0.1 % point of Kolmogorov's
// distribution.
func requireKS(t *testing.T, xs []float64, cdf func(float64) float64) {
	t.Helper()
	const half = 0.5e-12
	xs = slices.Clone(xs)
	slices.Sort(xs)
	n, d := float64(len(xs)), 0.
	for i, x := range xs {
		if i == 0 || xs[i-1] < x {
			d = max(d, math.Abs(cdf(max(0, x-half))-float64(i)/n))
		}
		if i == len(xs)-1 || x < xs[i+1] {
			d = max(d, math.Abs(cdf(x+half)-float64(i+1)/n))
		}
	}
	require.Less(t, d, 1.95/math.Sqrt(n), "Kolmogorov-Smirnov distance of %d samples", len(xs))
}

// requireDiscreteKS checks lengths against cdf(k) = P(X <= k). For a discrete
// law the test is conservative.
func requireDiscreteKS(t *testing.T, lengths []int, cdf func(k int) float64) {
	t.Helper()
	count := map[int]int{}
	for _, x := range lengths {
		count[x]++
	}
	keys := make([]int, 0, len(count))
	for k := range count {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	n, below, d := float64(len(lengths)), 0, 0.
	for _, k := range keys {
		d = max(d, math.Abs(cdf(k-1)-float64(below)/n))
		below += count[k]
		d = max(d, math.Abs(cdf(k)-float64(below)/n))
	}
	require.Less(t, d, 1.95/math.Sqrt(n), "Kolmogorov-Smirnov distance of %d lengths", len(lengths))
}

// windows counts the arrivals in consecutive windows of the given width.
func windows(at []sim.Time, width sim.Time) []float64 {
	counts := make([]float64, at[len(at)-1]/width) // the last window is cut, so left out
	for _, t := range at {
		if i := int(t / width); i < len(counts) {
			counts[i]++
		}
	}
	return counts
}
