package units

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// A multiple is a unit as it is written and how many base units it is.
type multiple struct {
	name string
	size int64
}

// byteUnits and rateUnits are in descending size, so that printing finds the
// largest that fits; rateUnits after the first five are for reading only.
var byteUnits = []multiple{
	{"TiB", int64(TiB)},
	{"TB", int64(TB)},
	{"GiB", int64(GiB)},
	{"GB", int64(GB)},
	{"MiB", int64(MiB)},
	{"MB", int64(MB)},
	{"KiB", int64(KiB)},
	{"KB", int64(KB)},
	{"kB", int64(KB)},
	{"B", 1},
}

var rateUnits = []multiple{
	{"Tbps", int64(Tbps)},
	{"Gbps", int64(Gbps)},
	{"Mbps", int64(Mbps)},
	{"kbps", 1e3},
	{"bps", 1},
	{"Tb/s", int64(Tbps)},
	{"Gb/s", int64(Gbps)},
	{"Mb/s", int64(Mbps)},
	{"kb/s", 1e3},
	{"b/s", 1},
	{"TB/s", 8 * int64(Tbps)},
	{"GB/s", 8 * int64(Gbps)},
	{"MB/s", 8 * int64(Mbps)},
	{"kB/s", 8e3},
	{"KB/s", 8e3},
	{"B/s", 8},
}

// frequencyUnits are divisors: seconds per unit of time.
var frequencyUnits = []multiple{{"/s", 1}, {"/min", 60}, {"/h", 3600}}

// A quantity is a kind of number with a unit, as messages speak of it.
type quantity struct {
	name, base, example string
	units               []multiple
}

var (
	byteQuantity      = quantity{"size", "bytes", "64KiB or 80GB", byteUnits}
	rateQuantity      = quantity{"rate", "bits per second", "400Gbps or 50GB/s", rateUnits}
	frequencyQuantity = quantity{"frequency", "events per second", "20/s or 90/min", frequencyUnits}
)

// maxText is the longest text read as a quantity.
const maxText = 100

// split cuts "400Gbps" or "400 Gbps" into the text of its number, a decimal
// number that a float can hold, and the size of its unit. The unit of a bare 0
// is 1.
func (q *quantity) split(s string) (number string, size int64, err error) {
	s = strings.TrimSpace(s)
	if len(s) > maxText {
		return "", 0, fmt.Errorf("%q... is too long: write a %s such as %s", s[:20], q.name, q.example)
	}
	end := run(s, 0, "+-.0123456789")
	// An exponent, but not the unit that may follow: "1e9B", "3.35e12B/s".
	if end < len(s) && (s[end] == 'e' || s[end] == 'E') {
		e := run(s, end+1, "+-0123456789")
		if _, err := strconv.ParseFloat(s[:e], 64); err == nil || errors.Is(err, strconv.ErrRange) {
			end = e
		}
	}
	number = s[:end]
	_, err = strconv.ParseFloat(number, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return "", 0, fmt.Errorf("%q is too large for a %s", s, q.name)
	case err != nil:
		return "", 0, fmt.Errorf("%q does not start with a number: write a %s such as %s", s, q.name, q.example)
	}
	unit := strings.TrimSpace(s[end:])
	if unit == "" {
		if isZero(number) {
			return "0", 1, nil
		}
		return "", 0, fmt.Errorf("%q has no unit: write a %s such as %s", s, q.name, q.example)
	}
	names := make([]string, len(q.units))
	for i, m := range q.units {
		if m.name == unit {
			return number, m.size, nil
		}
		names[i] = m.name
	}
	return "", 0, fmt.Errorf("%q has an unknown unit %q: use %s", s, unit, strings.Join(names, ", "))
}

// run is the end of the run of bytes of set that starts at from.
func run(s string, from int, set string) int {
	for from < len(s) && strings.IndexByte(set, s[from]) >= 0 {
		from++
	}
	return from
}

// isZero tells whether a decimal number is exactly zero, and not merely too
// small for a float.
func isZero(number string) bool {
	mantissa, _, _ := strings.Cut(strings.ToLower(number), "e")
	return !strings.ContainsAny(mantissa, "123456789")
}

// whole reads a quantity that must be a whole number of base units. It is exact:
// what cannot be held is refused and never rounded.
func (q *quantity) whole(text []byte) (int64, error) {
	number, size, err := q.split(string(text))
	if err != nil {
		return 0, err
	}
	if isZero(number) {
		return 0, nil
	}
	// A float tells first how large the number is: exact arithmetic on 1e99999999
	// would take all memory.
	switch approx, _ := strconv.ParseFloat(number, 64); {
	case math.Abs(approx) >= 1e30:
		return 0, fmt.Errorf("%q is too large for a %s", text, q.name)
	case math.Abs(approx) <= 1e-30:
		return 0, fmt.Errorf("%q is not a whole number of %s", text, q.base)
	}
	v, ok := new(big.Rat).SetString(number)
	if !ok {
		return 0, fmt.Errorf("%q does not start with a number: write a %s such as %s", text, q.name, q.example)
	}
	v.Mul(v, new(big.Rat).SetInt64(size))
	switch {
	case !v.IsInt():
		return 0, fmt.Errorf("%q is not a whole number of %s", text, q.base)
	case !v.Num().IsInt64():
		return 0, fmt.Errorf("%q is too large for a %s", text, q.name)
	}
	return v.Num().Int64(), nil
}

// UnmarshalText reads a byte count with its unit: "64KiB", "80GB", "4096B". It
// refuses what is not a whole number of bytes.
func (n *Bytes) UnmarshalText(text []byte) error {
	v, err := byteQuantity.whole(text)
	if err == nil {
		*n = Bytes(v)
	}
	return err
}

// UnmarshalText reads a data rate with its unit: "400Gbps" (bits) or "50GB/s"
// (bytes). It refuses what is not a whole number of bits per second.
func (r *Rate) UnmarshalText(text []byte) error {
	v, err := rateQuantity.whole(text)
	if err == nil {
		*r = Rate(v)
	}
	return err
}

// UnmarshalText reads a frequency: "20/s", "90/min", "1.5/h".
func (f *Frequency) UnmarshalText(text []byte) error {
	number, size, err := frequencyQuantity.split(string(text))
	if err != nil {
		return err
	}
	v, _ := strconv.ParseFloat(number, 64) // split has read it before
	v /= float64(size)
	if v == 0 && !isZero(number) {
		return fmt.Errorf("%q is too small for a frequency: write 0/s if you mean none", text)
	}
	*f = Frequency(v)
	return nil
}

// print writes n in the largest unit that divides it.
func print(n int64, table []multiple) string {
	for _, m := range table {
		if n != 0 && n%m.size == 0 {
			return strconv.FormatInt(n/m.size, 10) + m.name
		}
	}
	return strconv.FormatInt(n, 10) + table[len(table)-1].name
}

// String prints n exactly, in the largest unit that divides it: "80GB",
// "64KiB", "4178B".
func (n Bytes) String() string { return print(int64(n), byteUnits) }

// String prints r exactly, in bits per second with the largest unit that
// divides it: "400Gbps".
func (r Rate) String() string { return print(int64(r), rateUnits[:5]) }

// String prints f per second, with as many digits as tell it from its
// neighbours: "20/s".
func (f Frequency) String() string { return strconv.FormatFloat(float64(f), 'g', -1, 64) + "/s" }

// MarshalText prints n as String does.
func (n Bytes) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// MarshalText prints r as String does.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// MarshalText prints f as String does.
func (f Frequency) MarshalText() ([]byte, error) { return []byte(f.String()), nil }
