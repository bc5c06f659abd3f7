package sim

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Time is an instant since the start of the run, or a span, in picoseconds.
// An int64 of picoseconds covers 106 days, and one byte at 800 Gb/s is exactly
// 10 of them, so serialisation times need no rounding at the common link rates.
type Time int64

// Spans by unit.
const (
	Picosecond  Time = 1
	Nanosecond       = 1000 * Picosecond
	Microsecond      = 1000 * Nanosecond
	Millisecond      = 1000 * Microsecond
	Second           = 1000 * Millisecond

	// Never is later than every instant of a run.
	Never Time = math.MaxInt64
)

// Seconds returns t in seconds.
func (t Time) Seconds() float64 { return float64(t) / float64(Second) }

// Milliseconds returns t in milliseconds.
func (t Time) Milliseconds() float64 { return float64(t) / float64(Millisecond) }

// Microseconds returns t in microseconds.
func (t Time) Microseconds() float64 { return float64(t) / float64(Microsecond) }

// FromSeconds converts seconds to the nearest picosecond. It saturates at Never
// rather than overflow, and maps NaN to 0.
func FromSeconds(s float64) Time { return fromFloat(s * float64(Second)) }

// FromMicroseconds converts microseconds to the nearest picosecond, saturating
// like FromSeconds.
func FromMicroseconds(us float64) Time { return fromFloat(us * float64(Microsecond)) }

func fromFloat(ps float64) Time {
	switch {
	case math.IsNaN(ps):
		return 0
	case ps >= math.MaxInt64:
		return Never
	case ps <= -math.MaxInt64:
		return -Never
	}
	return Time(math.RoundToEven(ps))
}

// timeUnits are the units of text, largest first; String uses those up to the second.
var timeUnits = []struct {
	name string
	span Time
}{
	{"h", 3600 * Second},
	{"min", 60 * Second},
	{"s", Second},
	{"ms", Millisecond},
	{"us", Microsecond},
	{"ns", Nanosecond},
	{"ps", Picosecond},
	{"\u00b5s", Microsecond}, // micro sign
	{"\u03bcs", Microsecond}, // Greek mu
}

// String prints t exactly, in the largest unit up to the second that keeps the
// number at or above one: "1.5us", "83.56ns", "0s". Never is "never".
func (t Time) String() string {
	switch t {
	case 0:
		return "0s"
	case Never:
		return "never"
	}
	sign, abs := "", uint64(t)
	if t < 0 {
		sign, abs = "-", -abs
	}
	for _, u := range timeUnits {
		span := uint64(u.span)
		if u.span > Second || abs < span {
			continue
		}
		text := sign + strconv.FormatUint(abs/span, 10)
		if frac := abs % span; frac != 0 {
			// span+frac has one digit more than the fraction: a 1 in front of it.
			text += "." + strings.TrimRight(strconv.FormatUint(span+frac, 10)[1:], "0")
		}
		return text + u.name
	}
	panic("unreachable: a picosecond is the least that is not 0")
}

// MarshalText prints t as String does.
func (t Time) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads a decimal number with a unit: ps, ns, us, ms, s, min or h,
// as in "1.5us", "20 ms" or "1e-3s", and rounds it once, to the nearest
// picosecond (half to even), so that it reads back exactly what MarshalText
// prints. "never" is Never. A bare number is refused, 0 excepted, because its
// unit would be a guess; so is a span of 106 days and over, the end of Time.
func (t *Time) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	if s == Never.String() {
		*t = Never
		return nil
	}
	num, rest, ok := cutDecimal(s)
	unit := strings.TrimSpace(rest)
	if r, _ := utf8.DecodeRuneInString(unit); !ok || unit != "" && !unicode.IsLetter(r) {
		return fmt.Errorf("%q is not a time: write a number and a unit, such as 1.5us, 20ms or 30s", s)
	}
	span := Picosecond
	switch {
	case unit != "":
		if span = unitSpan(unit); span == 0 {
			return fmt.Errorf("%q has an unknown unit %q: use ps, ns, us, ms, s, min or h", s, unit)
		}
	case num.digits != "":
		return fmt.Errorf("%q has no unit: write ps, ns, us, ms, s, min or h after the number, such as %sus", s, s)
	}
	v, ok := num.times(span)
	if !ok {
		return fmt.Errorf("%q is too long: at most 106 days", s)
	}
	*t = v
	return nil
}

func unitSpan(name string) Time {
	for _, u := range timeUnits {
		if u.name == name {
			return u.span
		}
	}
	return 0
}

// A decimal is the number digits * 10^exp, or its negative; no digits are zero.
type decimal struct {
	negative bool
	digits   string
	exp      int
}

// cutDecimal splits s into the decimal number it starts with and the rest.
func cutDecimal(s string) (d decimal, rest string, ok bool) {
	if s != "" && (s[0] == '-' || s[0] == '+') {
		d.negative = s[0] == '-'
		s = s[1:]
	}
	whole := digitsOf(s)
	s = s[len(whole):]
	frac := ""
	if s != "" && s[0] == '.' {
		frac = digitsOf(s[1:])
		s = s[1+len(frac):]
	}
	if whole == "" && frac == "" {
		return decimal{}, s, false
	}
	d.digits = strings.TrimLeft(whole+frac, "0")
	// An exponent has digits; an e without is the beginning of some unit.
	if s != "" && (s[0] == 'e' || s[0] == 'E') {
		e := s[1:]
		minus := strings.HasPrefix(e, "-")
		if minus || strings.HasPrefix(e, "+") {
			e = e[1:]
		}
		if n := digitsOf(e); n != "" {
			s = e[len(n):]
			d.exp = exponent(n, minus)
		}
	}
	d.exp -= len(frac)
	return d, s, true
}

func digitsOf(s string) string {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return s[:i]
		}
	}
	return s
}

// exponent reads digits, up to a bound that leaves room for the length of any
// text.
func exponent(digits string, negative bool) int {
	const bound = 1 << 30
	e, err := strconv.Atoi(digits)
	if err != nil || e > bound {
		e = bound
	}
	if negative {
		return -e
	}
	return e
}

// times multiplies d by a span. It fails when the product is not between -Never
// and Never.
func (d decimal) times(span Time) (Time, bool) {
	// The number is below 10^magnitude and not below a tenth of it.
	magnitude := len(d.digits) + d.exp
	switch {
	case d.digits == "" || magnitude < -16: // not half a picosecond in any unit
		return 0, true
	case magnitude > 19:
		return 0, false
	}
	v, _ := new(big.Int).SetString(d.digits, 10)
	v.Mul(v, big.NewInt(int64(span)))
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(d.exp, -d.exp))), nil)
	if d.exp >= 0 {
		v.Mul(v, power)
	} else {
		v = quoHalfEven(v, power)
	}
	if v.Cmp(big.NewInt(int64(Never))) >= 0 {
		return 0, false
	}
	if d.negative {
		v.Neg(v)
	}
	return Time(v.Int64()), true
}

// quoHalfEven is a/b to the nearest integer, half to even; both are positive.
func quoHalfEven(a, b *big.Int) *big.Int {
	q, r := new(big.Int).QuoRem(a, b, new(big.Int))
	if c := r.Lsh(r, 1).Cmp(b); c > 0 || c == 0 && q.Bit(0) == 1 {
		q.Add(q, big.NewInt(1))
	}
	return q
}
