package sim

import (
	"math/bits"
	"strconv"
)

// A Total is a sum of spans that may outgrow a Time, such as the GPU time of a
// thousand GPUs over a day. It is exact to the picosecond, holds 292 billion
// years, and equal totals are ==. The zero value is an empty sum.
type Total struct {
	s  int64 // whole seconds
	ps Time  // 0 to 1 s
}

// TotalOf is n times span.
func TotalOf(span Time, n int) Total {
	var t Total
	t.Add(span, n)
	return t
}

// Add adds n times span. Neither may be negative: a Total only grows.
func (t *Total) Add(span Time, n int) {
	if span < 0 || n < 0 {
		panic("sim: negative span in a Total: " + strconv.Itoa(n) + " x " + span.String())
	}
	hi, lo := bits.Mul64(uint64(span), uint64(n))
	s, ps := bits.Div64(hi, lo, uint64(Second)) // hi < 1e12 for n below 2^40
	t.plus(int64(s), Time(ps))
}

// Plus adds another total.
func (t *Total) Plus(o Total) { t.plus(o.s, o.ps) }

func (t *Total) plus(s int64, ps Time) {
	t.s += s
	if t.ps += ps; t.ps >= Second {
		t.ps -= Second
		t.s++
	}
}

// Seconds returns t in seconds.
func (t Total) Seconds() float64 { return float64(t.s) + t.ps.Seconds() }

// String prints t in seconds, exactly.
func (t Total) String() string {
	if t.s == 0 {
		return t.ps.String()
	}
	frac := strconv.FormatInt(int64(Second+t.ps), 10)[1:]
	return strconv.FormatInt(t.s, 10) + "." + frac + "s"
}
