// Package sim is the simulation kernel: picosecond time, one event queue in
// (time, sequence) order, cancellable timers, named random streams and a
// fingerprint of the run.
//
// A run is single-threaded and knows no wall clock, so the same inputs give the
// same trajectory on every machine. Parallelism belongs across runs, not inside
// one.
package sim

import (
	"fmt"
	"math"
	"strconv"
	"strings"
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

var timeUnits = []struct {
	name string
	span Time
}{
	{"s", Second},
	{"ms", Millisecond},
	{"us", Microsecond},
	{"ns", Nanosecond},
	{"ps", Picosecond},
}

// String prints t exactly, in the largest unit that keeps the number at or
// above one: "1.5us", "83.56ns", "0s".
func (t Time) String() string {
	if t == 0 {
		return "0s"
	}
	if t == Never {
		return "never"
	}
	abs := t
	if abs < 0 {
		abs = -abs
	}
	for _, u := range timeUnits {
		if abs < u.span {
			continue
		}
		whole, frac := t/u.span, abs%u.span
		if frac == 0 {
			return strconv.FormatInt(int64(whole), 10) + u.name
		}
		digits := len(strconv.FormatInt(int64(u.span), 10)) - 1
		f := strings.TrimRight(fmt.Sprintf("%0*d", digits, int64(frac)), "0")
		sign := ""
		if t < 0 && whole == 0 {
			sign = "-"
		}
		return sign + strconv.FormatInt(int64(whole), 10) + "." + f + u.name
	}
	return strconv.FormatInt(int64(t), 10) + "ps"
}

// MarshalText prints t as String does.
func (t Time) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads a number with a unit: ps, ns, us, ms, s, min or h, as in
// "1.5us". A bare number is refused, 0 excepted, because its unit would be a
// guess; so is a span that is not finite or over 106 days.
func (t *Time) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	num := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZµμ ")
	unit := strings.TrimSpace(s[len(num):])
	v, err := strconv.ParseFloat(num, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Errorf("%q is not a time: write a number and a unit, such as 1.5us, 20ms or 30s", s)
	}
	var span float64
	switch unit {
	case "":
		if v == 0 {
			*t = 0
			return nil
		}
		return fmt.Errorf("%q has no unit: write ps, ns, us, ms, s, min or h after the number, such as %ss", s, s)
	case "min":
		span = 60 * float64(Second)
	case "h":
		span = 3600 * float64(Second)
	case "µs", "μs":
		span = float64(Microsecond)
	default:
		for _, u := range timeUnits {
			if u.name == unit {
				span = float64(u.span)
			}
		}
		if span == 0 {
			return fmt.Errorf("%q has an unknown unit %q: use ps, ns, us, ms, s, min or h", s, unit)
		}
	}
	if math.Abs(v*span) >= math.MaxInt64 {
		return fmt.Errorf("%q is too long: at most 106 days", s)
	}
	*t = fromFloat(v * span)
	return nil
}
