package workload

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"

	_ "github.com/tgssim/tgssim/internal/testkit" // the same draws in every run
	"github.com/tgssim/tgssim/sim"
)

func arrivals(a ArrivalConfig, n int) []sim.Time {
	p := newProcess(a, sim.Streams{Seed: 42}.Stream("workload/arrivals"))
	at := make([]sim.Time, n)
	for i := range at {
		at[i] = p.next()
	}
	return at
}

func gaps(at []sim.Time) []float64 {
	out := make([]float64, len(at))
	last := sim.Time(0)
	for i, t := range at {
		out[i] = (t - last).Seconds()
		last = t
	}
	return out
}

func TestPoissonGapsAreExponential(t *testing.T) {
	at := arrivals(ArrivalConfig{Process: ProcessPoisson, Rate: 250}, 100_000)
	requireKS(t, gaps(at), distuv.Exponential{Rate: 250}.CDF)
	// The index of dispersion of counts, variance over mean, is 1.
	mean, variance := stat.MeanVariance(windows(at, sim.Second), nil)
	n := at[len(at)-1].Seconds()
	require.InDelta(t, 250, mean, 4*math.Sqrt(250/n))
	require.InDelta(t, 1, variance/mean, 4*math.Sqrt(2/n))
}

func TestGammaGapsHaveTheAskedVariation(t *testing.T) {
	for _, cv := range []float64{0.1, 0.5, 1, 2, 5} {
		const n = 200_000
		g := gaps(arrivals(ArrivalConfig{Process: ProcessGamma, Rate: 40, CV: cv}, n))
		shape := 1 / (cv * cv)
		requireKS(t, g, distuv.Gamma{Alpha: shape, Beta: 40 * shape}.CDF)
		mean, sd := stat.MeanStdDev(g, nil)
		require.InDelta(t, 1./40, mean, 4*cv/40/math.Sqrt(n), "mean at cv %v", cv)
		// Excess kurtosis of a gamma is 6/shape.
		require.InDelta(t, cv, sd/mean, 4*cv*math.Sqrt((2+6*cv*cv)/n), "cv %v", cv)
	}
}

// Over long windows the index of dispersion of a renewal process tends to cv**2
// (Cox, Renewal Theory, 1962).
func TestGammaDispersion(t *testing.T) {
	at := arrivals(ArrivalConfig{Process: ProcessGamma, Rate: 100, CV: 2}, 400_000)
	mean, variance := stat.MeanVariance(windows(at, 5*sim.Second), nil)
	require.InDelta(t, 4, variance/mean, 0.8)
}

func TestUniformIsExact(t *testing.T) {
	at := arrivals(ArrivalConfig{Process: ProcessUniform, Rate: 20}, 5)
	require.Equal(t, []sim.Time{0, 50e9, 100e9, 150e9, 200e9}, at)
	// A third of a second has no exact form; the millionth is as near as the
	// first.
	p := &uniform{rate: 3, k: 1_000_000}
	require.Equal(t, nearest(big.NewRat(1_000_000*1e12, 3)), p.next())
}

func TestBatchesArriveTogether(t *testing.T) {
	const size = 16
	at := arrivals(ArrivalConfig{Process: ProcessBatch, Rate: 320, Size: size}, 320_000)
	heads := make([]sim.Time, 0, len(at)/size)
	for i := 0; i < len(at); i += size {
		require.Equal(t, at[i], at[i+size-1], "batch %d", i/size)
		heads = append(heads, at[i])
	}
	requireKS(t, gaps(heads), distuv.Exponential{Rate: 320. / size}.CDF)
	// A compound Poisson process of fixed batches has the batch as its index of
	// dispersion.
	mean, variance := stat.MeanVariance(windows(at, sim.Second), nil)
	n := at[len(at)-1].Seconds()
	require.InDelta(t, 320, mean, 4*math.Sqrt(320*size/n))
	require.InDelta(t, size, variance/mean, 4*size*math.Sqrt(2/n))
}

// In the time scale of the integrated rate an on-off process is Poisson of rate
// 1, whatever its phases.
func TestOnOffFollowsItsRate(t *testing.T) {
	for _, a := range []ArrivalConfig{
		{Rate: 50, Period: 10 * sim.Second, Burst: 2 * sim.Second, Peak: 4},
		{Rate: 50, Period: 10 * sim.Second, Burst: 2 * sim.Second, Peak: 5}, // silent between bursts
		{Rate: 0.05, Period: 3 * sim.Second, Burst: sim.Second, Peak: 2},    // many periods per arrival
		{Rate: 1000, Period: sim.Second, Burst: 980 * sim.Millisecond, Peak: 1.01},
		{Rate: 7, Period: 3, Burst: 1, Peak: 3}, // periods of picoseconds
	} {
		a.Process = ProcessOnOff
		require.NoError(t, a.Validate())
		const n = 50_000
		at := arrivals(a, n)
		burst, period := a.Burst.Seconds(), a.Period.Seconds()
		high := float64(a.Rate) * a.Peak
		low := (float64(a.Rate)*period - high*burst) / (period - burst)
		scaled := make([]float64, n)
		inBurst, last := 0., 0.
		for i, x := range at {
			phase := (x % a.Period).Seconds()
			if phase < burst {
				inBurst++
			}
			integral := float64(a.Rate)*period*float64(x/a.Period) +
				high*min(phase, burst) + low*max(0, phase-burst)
			scaled[i], last = integral-last, integral
		}
		requireKS(t, scaled, distuv.Exponential{Rate: 1}.CDF)
		share := high * burst / (float64(a.Rate) * period)
		require.InDelta(t, share, inBurst/n, 4*math.Sqrt(share*(1-share)/n)+1e-12, "%+v", a)
	}
}

func TestAtOnce(t *testing.T) {
	require.Equal(t, make([]sim.Time, 9), arrivals(ArrivalConfig{Process: ProcessAtOnce}, 9))
}

// Twice the rate is the same history at twice the speed: a random number buys
// the same arrival.
func TestRateScalesTime(t *testing.T) {
	for _, a := range []ArrivalConfig{
		{Process: ProcessPoisson, Rate: 3},
		{Process: ProcessGamma, Rate: 3, CV: 1.7},
		{Process: ProcessUniform, Rate: 3},
		{Process: ProcessBatch, Rate: 3, Size: 4},
	} {
		slow := arrivals(a, 10_000)
		a.Rate *= 2
		fast := arrivals(a, 10_000)
		for i := range slow {
			require.InDelta(t, float64(slow[i])/2, float64(fast[i]), float64(i+1), "%s, request %d", a.Process, i)
		}
	}
}

func TestArrivalsEndWithTheClock(t *testing.T) {
	for _, a := range []ArrivalConfig{
		{Process: ProcessPoisson, Rate: minRate},
		{Process: ProcessGamma, Rate: minRate, CV: 100},
		{Process: ProcessUniform, Rate: minRate},
		{Process: ProcessBatch, Rate: minRate, Size: 3},
		{Process: ProcessOnOff, Rate: minRate, Period: 1000, Burst: 1, Peak: 1000},
		{Process: ProcessOnOff, Rate: minRate, Period: sim.Never - 1, Burst: sim.Never - 2, Peak: 1.0000000001},
	} {
		at := arrivals(a, 1000)
		last := sim.Time(0)
		for _, x := range at {
			require.GreaterOrEqual(t, x, last)
			last = x
		}
		require.Equal(t, sim.Never, last, "%+v", a)
	}
}

func TestQuotientIsExact(t *testing.T) {
	check := func(t require.TestingT, n, unit uint64, d float64) {
		v := new(big.Rat).SetInt(new(big.Int).Mul(new(big.Int).SetUint64(n), new(big.Int).SetUint64(unit)))
		require.Equal(t, nearest(v.Quo(v, new(big.Rat).SetFloat64(d))), quotient(n, unit, d), "%d * %d / %v", n, unit, d)
	}
	check(t, 0, 1000, 1e-6)
	check(t, 5, 1, 10) // a half goes up
	check(t, 15, 1, 10)
	check(t, math.MaxInt64, 1, 1)
	check(t, math.MaxInt64, 1, 1.0000000000000002)
	check(t, maxInstant, 1000, 1000)
	check(t, math.MaxUint64, math.MaxUint64, 1<<53-1)
	rapid.Check(t, func(t *rapid.T) {
		check(t,
			rapid.Uint64().Draw(t, "n")>>rapid.IntRange(0, 63).Draw(t, "shift"),
			rapid.SampledFrom([]uint64{1, 1000, 1e12, math.MaxUint64}).Draw(t, "unit"),
			math.Ldexp(rapid.Float64Range(1, 2).Draw(t, "mantissa"), rapid.IntRange(-60, 51).Draw(t, "exponent")))
	})
}
