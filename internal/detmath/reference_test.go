package detmath

import (
	"math"
	"math/big"
)

// A second, slow implementation in 320-bit arithmetic that shares no step with
// the package: exponentials by repeated squaring, logarithms by repeated square
// roots.

const refPrec = 320

func bigf(x float64) *big.Float { return new(big.Float).SetPrec(refPrec).SetFloat64(x) }

func newBig() *big.Float { return new(big.Float).SetPrec(refPrec) }

// refExp returns e**x from the Taylor series of e**(x/2**64), squared 64 times.
func refExp(x *big.Float) *big.Float {
	const halvings = 64
	r := newBig().SetMantExp(x, -halvings)
	sum, term := bigf(1), bigf(1)
	for n := 1.; n < 12; n++ {
		term.Mul(term, r)
		term.Quo(term, bigf(n))
		sum.Add(sum, term)
	}
	for range halvings {
		sum.Mul(sum, sum)
	}
	return sum
}

// refLog returns log x as 2**40 log(x**(2**-40)), by the series of artanh.
func refLog(x *big.Float) *big.Float {
	const roots = 40
	y := newBig().Set(x)
	for range roots {
		y.Sqrt(y)
	}
	s := newBig().Quo(newBig().Sub(y, bigf(1)), newBig().Add(y, bigf(1)))
	z := newBig().Mul(s, s)
	sum, pow := newBig(), newBig().Set(s)
	for n := 1.; n < 14; n += 2 {
		sum.Add(sum, newBig().Quo(pow, bigf(n)))
		pow.Mul(pow, z)
	}
	return sum.SetMantExp(sum, roots+1)
}

func refPow(x, y float64) *big.Float {
	return refExp(newBig().Mul(bigf(y), refLog(bigf(x))))
}

// ulps returns how far got is from want, in units of the spacing of float64 at
// want.
func ulps(got float64, want *big.Float) float64 {
	w, _ := want.Float64()
	if math.IsInf(got, 0) || math.IsInf(w, 0) || w == 0 {
		if got == w {
			return 0
		}
		return math.Inf(1)
	}
	aw := math.Abs(w)
	ulp := math.Nextafter(aw, math.Inf(1)) - aw
	if math.IsInf(ulp, 1) {
		ulp = aw - math.Nextafter(aw, 0)
	}
	d := newBig().Sub(bigf(got), want)
	u, _ := d.Quo(d, bigf(ulp)).Float64()
	return math.Abs(u)
}
