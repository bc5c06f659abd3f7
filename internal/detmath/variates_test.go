package detmath

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Each variate against the distribution function of another implementation
// (gonum), by Kolmogorov and Smirnov, and against the moments in closed form.
func TestVariatesFollowTheirLaw(t *testing.T) {
	const n = 100_000
	type law interface {
		CDF(x float64) float64
		Mean() float64
		Variance() float64
		Skewness() float64
	}
	type variate struct {
		name string
		draw func(r *rand.Rand) float64
		law  law
	}
	cases := []variate{
		{"exponential", Exponential, distuv.Exponential{Rate: 1}},
		{"normal", Normal, distuv.Normal{Mu: 0, Sigma: 1}},
	}
	for _, shape := range []float64{0.05, 0.25, 0.9, 1, 1.5, 4, 100, 10000} {
		cases = append(cases, variate{
			fmt.Sprintf("gamma %g", shape),
			func(r *rand.Rand) float64 { return Gamma(r, shape) },
			gammaLaw{distuv.Gamma{Alpha: shape, Beta: 1}},
		})
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := newRand(11)
			xs := make([]float64, n)
			for i := range xs {
				xs[i] = c.draw(r)
			}
			mean, variance := stat.MeanVariance(xs, nil)
			se := math.Sqrt(c.law.Variance() / n)
			require.InDelta(t, c.law.Mean(), mean, 4*se, "mean")
			// The variance of a sample variance is (kurtosis-1)/n times its
			// square; excess kurtosis of these laws is 1.5 skewness**2.
			kurtosis := 3 + 1.5*c.law.Skewness()*c.law.Skewness()
			require.InDelta(t, 1, variance/c.law.Variance(), 4*math.Sqrt((kurtosis-1)/n), "variance")
			slices.Sort(xs)
			d := 0.
			for i, x := range xs {
				f := c.law.CDF(x)
				d = max(d, f-float64(i)/n, float64(i+1)/n-f)
			}
			// 1.63/sqrt(n) is the 1 % point of the Kolmogorov distribution.
			require.Less(t, d, 1.63/math.Sqrt(n), "Kolmogorov-Smirnov distance")
		})
	}
}

type gammaLaw struct{ distuv.Gamma }

func (g gammaLaw) Skewness() float64 { return 2 / math.Sqrt(g.Alpha) }

// Consecutive variates must not remember each other.
func TestVariatesAreUncorrelated(t *testing.T) {
	const n = 100_000
	for name, draw := range map[string]func(*rand.Rand) float64{
		"exponential": Exponential,
		"normal":      Normal,
		"gamma":       func(r *rand.Rand) float64 { return Gamma(r, 2) },
	} {
		r := newRand(5)
		xs := make([]float64, n+1)
		for i := range xs {
			xs[i] = draw(r)
		}
		require.InDelta(t, 0, stat.Correlation(xs[:n], xs[1:], nil), 4/math.Sqrt(n), name)
	}
}
