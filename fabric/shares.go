package fabric

import (
	"math"
	"math/bits"
)

// shares is a number of shares of a link, in fixed point: whole + part/2^64.
// Sums are exact, so that they do not depend on the order of their terms, and a
// spread's sliver of a link keeps its precision beside a thousand whole shares.
type shares struct {
	whole int64
	part  uint64
}

// sharesOf converts x, which is not negative. It saturates at 2^60.
func sharesOf(x float64) shares {
	x = min(x, 1<<60)
	whole := math.Floor(x)
	return shares{int64(whole), uint64((x - whole) * (1 << 63) * 2)}
}

func (s *shares) add(o shares) {
	var carry uint64
	s.part, carry = bits.Add64(s.part, o.part, 0)
	s.whole += o.whole + int64(carry)
}

func (s *shares) sub(o shares) {
	var borrow uint64
	s.part, borrow = bits.Sub64(s.part, o.part, 0)
	s.whole -= o.whole + int64(borrow)
}

func (s shares) zero() bool { return s.whole == 0 && s.part == 0 }

// float returns s to float64's precision.
func (s shares) float() float64 {
	const unit = 1. / (1 << 32) / (1 << 32)
	return float64(s.whole) + float64(float64(s.part)*unit)
}
