package fabric

import (
	"math"
	"math/big"
	"math/bits"

	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// rateUnit is the resolution of rates in the solver: 2^16 units are one bit per
// second of payload. Whole numbers make sums of rates exact, whatever their
// order; 2^-16 b/s is 1e-11 of the share that 100,000 flows leave each other on
// a 400 Gb/s link.
const rateUnit = 1 << 16

// A wire is what never changes about a link: what payload costs on it.
type wire struct {
	rate units.Rate
	// num/den are the bytes on the wire per byte of payload, headers included:
	// (MTU+header)/MTU on Ethernet, 1/efficiency on NVLink.
	num, den int64
	// ps/per picoseconds is exactly what a thousandth of a byte takes, in lowest
	// terms; per is 0 where they do not fit.
	ps, per uint64
	// perMilli is the time of a thousandth of a byte, in picoseconds.
	perMilli float64
	// packet is the serialisation time of one full packet.
	packet sim.Time
	// nvlink is whether the link is inside a server.
	nvlink bool
	// port is whether the link is at an end of paths: a NIC's, or NVLink.
	port bool
}

// newWire returns a wire of a rate, with num/den bytes on it per byte of
// payload.
func newWire(rate units.Rate, num, den int64) wire {
	w := wire{rate: rate, num: num, den: den}
	f := new(big.Rat).SetFrac64(num, den)
	f.Mul(f, new(big.Rat).SetFrac64(8e9, int64(rate)))
	if f.Num().IsUint64() && f.Denom().IsUint64() {
		w.ps, w.per = f.Num().Uint64(), f.Denom().Uint64()
	}
	w.perMilli = w.exact(1)
	return w
}

// time is how long payload of milli thousandths of a byte takes, rounded up to
// the picosecond: ceil(payload * num/den * 8 / rate). It is
// units.Rate.TimeScaled with the division of the constants done beforehand.
func (w *wire) time(milli int64) sim.Time {
	if w.per == 0 {
		return w.rate.TimeScaled(units.Bytes(milli), w.num, 1000*w.den)
	}
	hi, lo := bits.Mul64(uint64(milli), w.ps)
	if hi >= w.per {
		return sim.Never
	}
	q, rem := bits.Div64(hi, lo, w.per)
	if q >= math.MaxInt64 {
		return sim.Never
	}
	if rem != 0 {
		q++
	}
	return sim.Time(q)
}

// exact is time without the rounding, to float64's precision.
func (w *wire) exact(milli int64) float64 {
	return float64(milli) * float64(w.num) / float64(w.den) / float64(w.rate) * 8e9
}

// capacity is the payload rate of the link in rateUnits, rounded down.
func (w *wire) capacity() int64 {
	return mulDiv(int64(w.rate)*rateUnit, w.den, w.num)
}

// onWire is the bytes on the wire that carry payload, rounded down.
func (w *wire) onWire(payload units.Bytes) units.Bytes {
	return units.Bytes(mulDiv(int64(payload), w.num, w.den))
}

// mulDiv is floor(a*b/c) of non-negative numbers, saturating.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, math.MaxInt64))
}

// ceilBps converts rateUnits to bits per second, rounded up.
func ceilBps(r int64) int64 { return (r + rateUnit - 1) / rateUnit }

// latency is the time from the first bit entering a path to the last bit of a
// message leaving it, less the time that the message's bytes take on the path's
// slowest link. Both engines add it to the time of the bytes.
//
// A message of N packets over links with packet times s_1..s_h, each switch
// storing a packet before it forwards it, takes
//
//	sum_i(s_i) + (N-1) max_i(s_i) + path = N max_i(s_i) + [sum_i(s_i) - max_i(s_i)] + path
//
// where path is the propagation of every link, the pipeline of every switch and
// the NIC latency of both ends (topology.Graph.PathLatency): the first packet
// crosses every link, the others follow at the pace of the slowest. N max(s_i)
// is the time of the bytes; the bracket, (h-1) packet times when all links are
// equally fast, belongs to the latency. A message below one MTU is one packet of
// its own size. The last packet of a longer one is taken as full.
//
// NVLink's packets are 256 B or less and cross the NVSwitch in a few
// nanoseconds, which its measured latency contains: nothing is added there.
func (n *network) latency(path []topology.LinkID, milli int64) sim.Time {
	t := n.graph.PathLatency(path)
	if len(path) == 0 || n.wires[path[0]].nvlink {
		return t
	}
	return satAdd(t, n.storeAndForward(path, milli))
}

// storeAndForward is the bracket of latency.
func (n *network) storeAndForward(path []topology.LinkID, milli int64) sim.Time {
	var sum, slowest sim.Time
	for _, l := range path {
		w := &n.wires[l]
		s := w.packet
		if milli < n.mtuMilli {
			s = w.time(milli)
		}
		sum = satAdd(sum, s)
		slowest = max(slowest, s)
	}
	return sum - slowest
}

// satAdd adds spans that are not negative, saturating at sim.Never.
func satAdd(a, b sim.Time) sim.Time {
	if a > sim.Never-b {
		return sim.Never
	}
	return a + b
}

// A volume is a number of bytes, exact to a thousandth.
type volume struct {
	bytes units.Bytes
	milli int64 // 0..999
}

// add adds times * milli thousandths of a byte.
func (v *volume) add(milli, times int64) {
	hi, lo := bits.Mul64(uint64(milli), uint64(times))
	q, r := bits.Div64(hi, lo, 1000) // runs of one collective stay far below 2^64 bytes
	v.bytes += units.Bytes(q)
	v.milli += int64(r)
	if v.milli >= 1000 {
		v.milli -= 1000
		v.bytes++
	}
}
