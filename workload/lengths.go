package workload

import (
	"math"
	"math/rand/v2"
	"sort"

	"github.com/tgssim/tgssim/internal/detmath"
)

// A law is a length distribution made ready to draw from. It is immutable; the
// samplers of many runs may share one.
type law struct {
	dist     string
	min, max int
	// mu and sigma are the mean and standard deviation of a lognormal's
	// logarithm.
	mu, sigma float64
	// cdf is a zipf's distribution function at min, min+1, ..., max.
	cdf []float64
}

func newLaw(l LengthConfig) law {
	switch l.Dist {
	case DistFixed:
		return law{dist: DistUniform, min: l.Tokens, max: l.Tokens}
	case DistLognormal:
		l = l.withBounds()
		s := detmath.Log1p(l.CV * l.CV)
		return law{
			dist: l.Dist, min: l.Min, max: l.Max,
			mu: detmath.Log(l.Mean) - s/2, sigma: math.Sqrt(s),
		}
	case DistZipf:
		return law{dist: l.Dist, min: l.Min, max: l.Max, cdf: powerLaw(l.Alpha, l.Min, l.Max)}
	}
	return law{dist: l.Dist, min: l.Min, max: l.Max}
}

// powerLaw is the distribution function of P(x) ~ x**-alpha on lo, lo+1, ..., hi.
func powerLaw(alpha float64, lo, hi int) []float64 {
	cdf := make([]float64, hi-lo+1)
	sum := 0.
	for i := range cdf {
		// Relative to lo, so that no exponent underflows the whole table.
		sum += detmath.Pow(float64(lo+i)/float64(lo), -alpha)
		cdf[i] = sum
	}
	for i := range cdf {
		cdf[i] /= sum
	}
	return cdf
}

// A sampler draws lengths. Every draw but a lognormal's takes one number from r,
// and a lognormal's takes as many whatever its parameters, so that request k
// keeps its random numbers when a parameter changes.
type sampler struct {
	law
	r *rand.Rand
	// clamped counts the draws of a lognormal that were outside [min, max].
	clamped int
}

func (s *sampler) next() int {
	switch s.dist {
	case DistLognormal:
		return s.clamp(detmath.Exp(s.mu + float64(s.sigma*detmath.Normal(s.r))))
	case DistZipf:
		return s.min + invert(s.cdf, s.r.Float64())
	}
	// The product is below the span even after rounding, and its bias, span/2**53
	// at most, is below 1e-8.
	return s.min + int(s.r.Float64()*float64(s.max-s.min+1))
}

func (s *sampler) clamp(x float64) int {
	x = math.RoundToEven(x)
	switch {
	case x < float64(s.min):
		s.clamped++
		return s.min
	case x > float64(s.max):
		s.clamped++
		return s.max
	}
	return int(x)
}

// invert returns the first index whose value is above u, for u in [0, 1) and an
// increasing cdf that ends in 1.
func invert(cdf []float64, u float64) int {
	return sort.Search(len(cdf)-1, func(i int) bool { return cdf[i] > u })
}
