package workload

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/tgssim/tgssim/sim"
)

func draw(t *testing.T, l LengthConfig, n int) (lengths []int, mean, cv float64, clamped int) {
	t.Helper()
	require.NoError(t, l.Validate())
	s := sampler{law: newLaw(l), r: sim.Streams{Seed: 9}.Stream("workload/prompt")}
	lengths = make([]int, n)
	sum, squares := 0., 0.
	for i := range lengths {
		x := s.next()
		if x < 1 || x > MaxTokens {
			require.Fail(t, "out of range", "%d", x)
		}
		lengths[i] = x
		sum += float64(x)
		squares += float64(x) * float64(x)
	}
	mean = sum / float64(n)
	return lengths, mean, math.Sqrt(squares/float64(n)-mean*mean) / mean, s.clamped
}

func TestFixed(t *testing.T) {
	lengths, _, _, _ := draw(t, LengthConfig{Dist: DistFixed, Tokens: 4096}, 100)
	for _, x := range lengths {
		require.Equal(t, 4096, x)
	}
}

func TestUniformLengths(t *testing.T) {
	lengths, _, _, _ := draw(t, LengthConfig{Dist: DistUniform, Min: 3, Max: 12}, 100_000)
	requireDiscreteKS(t, lengths, func(k int) float64 { return min(1, max(0, float64(k-2)/10)) })
	seen := map[int]bool{}
	for _, x := range lengths {
		seen[x] = true
	}
	require.Len(t, seen, 10, "both bounds are inclusive")
	lengths, _, _, _ = draw(t, LengthConfig{Dist: DistUniform, Min: 1, Max: MaxTokens}, 100_000)
	requireDiscreteKS(t, lengths, func(k int) float64 { return float64(k) / MaxTokens })
}

// Mean and cv are those of the length itself, not of its logarithm.
func TestLognormalHasTheAskedMoments(t *testing.T) {
	for _, l := range []LengthConfig{
		{Mean: 2000, CV: 0.3}, {Mean: 2000, CV: 1}, {Mean: 300, CV: 2},
	} {
		const n = 400_000
		l.Dist = DistLognormal
		lengths, mean, cv, clamped := draw(t, l, n)
		require.InDelta(t, l.Mean, mean, 4*l.Mean*l.CV/math.Sqrt(n))
		require.InEpsilon(t, l.CV, cv, 0.03)
		require.Less(t, clamped, n/1000, "only lengths that round to 0")
		s2 := math.Log(1 + l.CV*l.CV)
		law := distuv.LogNormal{Mu: math.Log(l.Mean) - s2/2, Sigma: math.Sqrt(s2)}
		requireDiscreteKS(t, lengths, func(k int) float64 {
			if k < 1 {
				return 0
			}
			return law.CDF(float64(k) + 0.5) // rounded to k or less
		})
	}
}

func TestLognormalIsClampedAndCounted(t *testing.T) {
	const n = 200_000
	wide := LengthConfig{Dist: DistLognormal, Mean: 1000, CV: 1}
	tight := wide
	tight.Min, tight.Max = 200, 4000
	free, _, _, _ := draw(t, wide, n)
	bounded, _, _, clamped := draw(t, tight, n)
	outside := 0
	for i, x := range free {
		if x < 200 || x > 4000 {
			outside++
		}
		if bounded[i] != min(max(x, 200), 4000) {
			require.Fail(t, "a draw changed its random numbers", "draw %d: %d, %d", i, x, bounded[i])
		}
	}
	require.Equal(t, outside, clamped)
	require.Positive(t, clamped)
}

// The figures of the reading P(x) ~ 1/x of the IETF benchmark's Zipf mix on
// [128, 8192]; the law by rank would have mean 970, median 194 and P99 7,456.
func TestZipfOfTheBenchmark(t *testing.T) {
	law := newLaw(LengthConfig{Dist: DistZipf, Alpha: 1, Min: 128, Max: 8192})
	mean := 0.
	for i, f := range law.cdf {
		p := f
		if i > 0 {
			p -= law.cdf[i-1]
		}
		mean += p * float64(128+i)
	}
	require.InDelta(t, 1937, mean, 1)
	require.Equal(t, 1022, 128+invert(law.cdf, 0.5))
	require.InDelta(t, 7858, 128+invert(law.cdf, 0.99), 2)
}

func TestZipfFollowsThePowerLaw(t *testing.T) {
	for _, l := range []LengthConfig{
		{Alpha: 0, Min: 10, Max: 29},
		{Alpha: 0.7, Min: 1, Max: 100},
		{Alpha: 1, Min: 128, Max: 8192},
		{Alpha: 2.5, Min: 1, Max: 5000},
		{Alpha: 10, Min: 1000, Max: 1100},
		{Alpha: 1.1, Min: 1, Max: 200_000},
	} {
		l.Dist = DistZipf
		total := 0.
		for x := l.Max; x >= l.Min; x-- { // smallest terms first, unlike the table
			total += math.Pow(float64(x), -l.Alpha)
		}
		partial := make([]float64, l.Max-l.Min+1)
		sum := 0.
		for i := range partial {
			sum += math.Pow(float64(l.Min+i), -l.Alpha)
			partial[i] = sum / total
		}
		law := newLaw(l)
		worst := 0.
		for i := range partial {
			worst = max(worst, math.Abs(partial[i]-law.cdf[i]))
		}
		require.Less(t, worst, 1e-11, "%+v", l)
		require.Equal(t, 1., law.cdf[len(law.cdf)-1])
		lengths, _, _, _ := draw(t, l, 100_000)
		requireDiscreteKS(t, lengths, func(k int) float64 {
			if k < l.Min {
				return 0
			}
			return partial[k-l.Min]
		})
	}
}

func TestInvert(t *testing.T) {
	cdf := []float64{0.25, 0.5, 1}
	for u, want := range map[float64]int{0: 0, 0.2499: 0, 0.25: 1, 0.49: 1, 0.5: 2, math.Nextafter(1, 0): 2} {
		require.Equal(t, want, invert(cdf, u), "u = %v", u)
	}
	require.Equal(t, 0, invert([]float64{1}, 0.7))
}
