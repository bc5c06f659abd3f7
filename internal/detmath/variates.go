package detmath

import (
	"math"
	"math/rand/v2"
)

// The variates below take their randomness from r.Float64, which is exact
// arithmetic on 53 bits of the source, and not from r.NormFloat64 or
// r.ExpFloat64, which call math.Exp and math.Log on their rare paths.

// Exponential returns a variate of mean 1, by inversion: one uniform each.
func Exponential(r *rand.Rand) float64 { return -Log(1 - r.Float64()) }

// Normal returns a variate of mean 0 and variance 1, by the polar method
// (Marsaglia and Bray, A convenient method for generating normal variables,
// SIAM Review 6, 1964). How many uniforms it takes depends on those uniforms
// alone, so two distributions driven by equal streams stay in step. The second
// variate of each pair is dropped, so that no state is left behind.
func Normal(r *rand.Rand) float64 {
	for {
		u := float64(2*r.Float64()) - 1
		v := float64(2*r.Float64()) - 1
		s := float64(u*u) + float64(v*v)
		if s > 0 && s < 1 {
			return u * math.Sqrt(-2*Log(s)/s)
		}
	}
}

// Gamma returns a variate with the given shape > 0 and scale 1: mean and
// variance are both shape. It is the method of Marsaglia and Tsang, A simple
// method for generating gamma variables, ACM TOMS 26(3), 2000, with their
// remedy for shapes below 1: Gamma(shape+1) * U**(1/shape).
func Gamma(r *rand.Rand, shape float64) float64 {
	boost := 1.
	if shape < 1 {
		boost = Pow(1-r.Float64(), 1/shape)
		shape++
	}
	d := shape - 1./3
	c := 1 / math.Sqrt(9*d)
	for {
		x := Normal(r)
		t := 1 + float64(c*x)
		if t <= 0 {
			continue
		}
		v := float64(t * t * t)
		u := 1 - r.Float64()
		x2 := float64(x * x)
		// The squeeze accepts most candidates without a logarithm.
		if u < 1-float64(0.0331*x2*x2) ||
			Log(u) < float64(0.5*x2)+float64(d*((1-v)+Log(v))) {
			return float64(d*v) * boost
		}
	}
}
