// Package units holds the quantities of a scenario as they are written in text:
// rates, byte counts and frequencies. A quantity without its unit is refused,
// because guessing it is how a 400 GB/s link becomes a 400 Gb/s one.
package units

import (
	"math"
	"math/big"
	"math/bits"

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
// at sim.Never. No bytes take no time; a rate that is not positive takes
// forever.
func (r Rate) Time(n Bytes) sim.Time { return r.TimeScaled(n, 1, 1) }

// TimeScaled returns how long n*num/den bytes take at rate r, rounded up once.
// It serves protocols whose wire bytes are a rational multiple of the payload,
// such as 4178/4096. num and den must be positive. It is exact and saturates at
// sim.Never for every argument, and does not allocate while n*num and den*r fit
// into 64 bits: up to 4 PB at 4178/4096.
func (r Rate) TimeScaled(n Bytes, num, den int64) sim.Time {
	if n <= 0 || num <= 0 {
		return 0
	}
	if r <= 0 || den <= 0 {
		return sim.Never
	}
	// ceil(n*num * oneBps / (den*r))
	ah, a := bits.Mul64(uint64(n), uint64(num))
	dh, d := bits.Mul64(uint64(den), uint64(r))
	if ah != 0 || dh != 0 {
		return r.timeScaledBig(n, num, den)
	}
	hi, lo := bits.Mul64(a, oneBps)
	if hi >= d {
		return sim.Never // the quotient needs more than 64 bits
	}
	q, rem := bits.Div64(hi, lo, d)
	if q >= math.MaxInt64 {
		return sim.Never
	}
	if rem != 0 {
		q++
	}
	return sim.Time(q)
}

// oneBps is the time of one byte at one bit per second, in picoseconds.
const oneBps = 8 * uint64(sim.Second)

// timeScaledBig is TimeScaled for positive arguments of any size.
func (r Rate) timeScaledBig(n Bytes, num, den int64) sim.Time {
	a := new(big.Int).Mul(big.NewInt(int64(n)), big.NewInt(num))
	a.Mul(a, new(big.Int).SetUint64(oneBps))
	d := new(big.Int).Mul(big.NewInt(den), big.NewInt(int64(r)))
	q, rem := a.DivMod(a, d, new(big.Int))
	if rem.Sign() != 0 {
		q.Add(q, big.NewInt(1))
	}
	if !q.IsInt64() {
		return sim.Never
	}
	return sim.Time(q.Int64())
}

// Interval returns the mean spacing of events at frequency f, in seconds: +Inf
// at frequency 0.
func (f Frequency) Interval() float64 { return 1 / float64(f) }
