// Package units holds the quantities of a scenario as they are written in text:
// rates, byte counts and frequencies. A quantity without its unit is refused,
// because guessing it is how a 400 GB/s link becomes a 400 Gb/s one.
package units

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/tgssim/tgssim/sim"
)

// Bytes is a number of bytes.
type Bytes int64

// Decimal and binary multiples of a byte.
const (
	KB  Bytes = 1e3
	MB  Bytes = 1e6
	GB  Bytes = 1e9
	TB  Bytes = 1e12
	KiB Bytes = 1 << 10
	MiB Bytes = 1 << 20
	GiB Bytes = 1 << 30
	TiB Bytes = 1 << 40
)

// Rate is a data rate in bits per second.
type Rate int64

// Multiples of a bit per second.
const (
	Mbps Rate = 1e6
	Gbps Rate = 1e9
	Tbps Rate = 1e12
)

// Frequency is a number of events per second, such as a request rate.
type Frequency float64

// BytesPerSecond returns r in bytes per second.
func (r Rate) BytesPerSecond() float64 { return float64(r) / 8 }

// BytesPerPicosecond returns r in bytes per picosecond, the fluid engines' unit.
func (r Rate) BytesPerPicosecond() float64 { return float64(r) / 8e12 }

// Time returns how long n bytes take at rate r, rounded up to the picosecond in
// which the last bit has left. It is exact (128-bit arithmetic) and saturates
// at sim.Never. A rate that is not positive takes forever.
func (r Rate) Time(n Bytes) sim.Time { return r.TimeScaled(n, 1, 1) }

// TimeScaled returns how long n*num/den bytes take at rate r, rounded up once.
// It serves protocols whose wire bytes are a rational multiple of the payload,
// such as 4178/4096. num and den must be positive.
func (r Rate) TimeScaled(n Bytes, num, den int64) sim.Time {
	if n <= 0 {
		return 0
	}
	if r <= 0 {
		return sim.Never
	}
	// ceil(n*num*8e12 / (den*r)): reduce first so that both sides fit.
	a, b := reduce(uint64(n), uint64(den))
	c, d := reduce(uint64(num), b)
	f, g := reduce(8e12, uint64(r))
	a, g = reduce(a, g)
	c, g = reduce(c, g)
	f, d = reduce(f, d)
	hi, lo := bits.Mul64(a, c)
	if hi != 0 {
		return sim.Never
	}
	hi, lo = bits.Mul64(lo, f)
	dh, dl := bits.Mul64(d, g)
	if dh != 0 {
		return 1 // more than 2^64 times slower than one byte per picosecond cannot be
	}
	if hi >= dl {
		return sim.Never
	}
	q, rem := bits.Div64(hi, lo, dl)
	if rem != 0 {
		q++
	}
	if q >= math.MaxInt64 {
		return sim.Never
	}
	return sim.Time(q)
}

func reduce(a, b uint64) (uint64, uint64) {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	if x == 0 {
		return a, b
	}
	return a / x, b / x
}

// Interval returns the mean spacing of events at frequency f, in seconds.
func (f Frequency) Interval() float64 { return 1 / float64(f) }

type multiple struct {
	name string
	size float64
}

var byteUnits = []multiple{
	{"TiB", 1 << 40},
	{"GiB", 1 << 30},
	{"MiB", 1 << 20},
	{"KiB", 1 << 10},
	{"TB", 1e12},
	{"GB", 1e9},
	{"MB", 1e6},
	{"KB", 1e3},
	{"kB", 1e3},
	{"B", 1},
}

var rateUnits = []multiple{
	{"Tbps", 1e12},
	{"Gbps", 1e9},
	{"Mbps", 1e6},
	{"kbps", 1e3},
	{"bps", 1},
	{"Tb/s", 1e12},
	{"Gb/s", 1e9},
	{"Mb/s", 1e6},
	{"kb/s", 1e3},
	{"b/s", 1},
	{"TB/s", 8e12},
	{"GB/s", 8e9},
	{"MB/s", 8e6},
	{"kB/s", 8e3},
	{"KB/s", 8e3},
	{"B/s", 8},
}

// split cuts "400Gbps" or "400 Gbps" into its number and its unit.
func split(s string) (float64, string, error) {
	s = strings.TrimSpace(s)
	end := 0
	for end < len(s) && strings.IndexByte("+-.0123456789", s[end]) >= 0 {
		end++
	}
	// An exponent, but not the unit that may follow: "1e9B", "3.35e12B/s".
	if end < len(s) && (s[end] == 'e' || s[end] == 'E') {
		e := end + 1
		for e < len(s) && strings.IndexByte("+-0123456789", s[e]) >= 0 {
			e++
		}
		if _, err := strconv.ParseFloat(s[:e], 64); err == nil {
			end = e
		}
	}
	v, err := strconv.ParseFloat(s[:end], 64)
	if err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0, "", fmt.Errorf("%q does not start with a number", s)
	}
	return v, strings.TrimSpace(s[end:]), nil
}

func parse(s, what, example string, table []multiple) (float64, error) {
	v, unit, err := split(s)
	if err != nil {
		return 0, fmt.Errorf("%w: write a %s such as %s", err, what, example)
	}
	if unit == "" {
		if v == 0 {
			return 0, nil
		}
		return 0, fmt.Errorf("%q has no unit: write a %s such as %s", s, what, example)
	}
	for _, m := range table {
		if m.name == unit {
			v *= m.size
			if math.Abs(v) >= math.MaxInt64 {
				return 0, fmt.Errorf("%q is too large for a %s", s, what)
			}
			return v, nil
		}
	}
	names := make([]string, len(table))
	for i, m := range table {
		names[i] = m.name
	}
	return 0, fmt.Errorf("%q has an unknown unit %q: use %s", s, unit, strings.Join(names, ", "))
}

func whole(v float64, s, what string) (int64, error) {
	if v != math.Trunc(v) {
		return 0, fmt.Errorf("%q is not a whole number of %s", s, what)
	}
	return int64(v), nil
}

// UnmarshalText reads a byte count with its unit: "64KiB", "80GB", "4096B".
func (n *Bytes) UnmarshalText(text []byte) error {
	v, err := parse(string(text), "size", "64KiB or 80GB", byteUnits)
	if err != nil {
		return err
	}
	w, err := whole(v, string(text), "bytes")
	*n = Bytes(w)
	return err
}

// UnmarshalText reads a data rate with its unit: "400Gbps" (bits) or "50GB/s"
// (bytes).
func (r *Rate) UnmarshalText(text []byte) error {
	v, err := parse(string(text), "rate", "400Gbps or 50GB/s", rateUnits)
	if err != nil {
		return err
	}
	w, err := whole(v, string(text), "bits per second")
	*r = Rate(w)
	return err
}

// UnmarshalText reads a frequency: "20/s", "90/min".
func (f *Frequency) UnmarshalText(text []byte) error {
	v, err := parse(string(text), "frequency", "20/s or 90/min",
		[]multiple{{"/s", 1}, {"/min", 1. / 60}, {"/h", 1. / 3600}})
	*f = Frequency(v)
	return err
}

func print(n int64, table []multiple) string {
	for _, m := range table {
		if m.size <= math.Abs(float64(n)) && n%int64(m.size) == 0 {
			return strconv.FormatInt(n/int64(m.size), 10) + m.name
		}
	}
	return strconv.FormatInt(n, 10) + table[len(table)-1].name
}

// String prints n exactly, in the largest unit that divides it.
func (n Bytes) String() string { return print(int64(n), byteUnits) }

// String prints r exactly, in bits per second with the largest unit that
// divides it.
func (r Rate) String() string { return print(int64(r), rateUnits[:5]) }

// String prints f per second.
func (f Frequency) String() string { return strconv.FormatFloat(float64(f), 'g', -1, 64) + "/s" }

// MarshalText prints n as String does.
func (n Bytes) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// MarshalText prints r as String does.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// MarshalText prints f as String does.
func (f Frequency) MarshalText() ([]byte, error) { return []byte(f.String()), nil }
