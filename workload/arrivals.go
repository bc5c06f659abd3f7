package workload

import (
	"math"
	"math/bits"
	"math/rand/v2"

	"github.com/tgssim/tgssim/internal/detmath"
	"github.com/tgssim/tgssim/sim"
)

// A process makes the instants of arrival: next returns them one after the
// other, never decreasing, and sim.Never once they have left the clock's range.
type process interface {
	next() sim.Time
}

// newProcess returns the process of a valid a. Each draws from r alone.
func newProcess(a ArrivalConfig, r *rand.Rand) process {
	rate := float64(a.Rate)
	switch a.Process {
	case ProcessGamma:
		// The coefficient of variation of a gamma law is 1/sqrt(shape).
		shape := 1 / (a.CV * a.CV)
		return &gamma{r: r, shape: shape, rate: shape * rate}
	case ProcessUniform:
		return &uniform{rate: rate}
	case ProcessBatch:
		return &batch{poisson: poisson{r: r, rate: rate / float64(a.Size)}, size: a.Size}
	case ProcessOnOff:
		return newOnOff(a, r)
	case ProcessAtOnce:
		return atOnce{}
	}
	return &poisson{r: r, rate: rate}
}

// later returns t+gap, or sim.Never when that is past the clock's range.
func later(t, gap sim.Time) sim.Time {
	if gap >= sim.Never-t {
		return sim.Never
	}
	return t + gap
}

// poisson has exponential gaps, each rounded to the picosecond, the first from
// time 0.
type poisson struct {
	r    *rand.Rand
	rate float64 // per second
	now  sim.Time
}

func (p *poisson) next() sim.Time {
	p.now = later(p.now, sim.FromSeconds(detmath.Exponential(p.r)/p.rate))
	return p.now
}

// gamma is the renewal process of gamma-distributed gaps, the first from time 0.
type gamma struct {
	r           *rand.Rand
	shape, rate float64 // rate of the gamma law: mean gap = shape/rate seconds
	now         sim.Time
}

func (g *gamma) next() sim.Time {
	g.now = later(g.now, sim.FromSeconds(detmath.Gamma(g.r, g.shape)/g.rate))
	return g.now
}

// uniform has request k = 0, 1, ... at k/rate, rounded once: no drift.
type uniform struct {
	rate float64
	k    uint64
}

func (u *uniform) next() sim.Time {
	t := quotient(u.k, uint64(sim.Second), u.rate)
	u.k++
	return t
}

// batch has size requests at every instant of a Poisson process.
type batch struct {
	poisson
	size, left int
}

func (b *batch) next() sim.Time {
	if b.left == 0 {
		b.left = b.size
		b.poisson.next()
	}
	b.left--
	return b.now
}

type atOnce struct{}

func (atOnce) next() sim.Time { return 0 }

// onOff is a Poisson process whose rate is high for burst, then low for the rest
// of each period. An exponential variate of mean 1 is used up at the current
// rate until the next arrival, across the edges (Cinlar, Introduction to
// Stochastic Processes, 1975, section 4.7: a Poisson process of varying rate is
// one of rate 1 in the time scale of the integrated rate).
type onOff struct {
	r             *rand.Rand
	period, burst sim.Time
	high, low     float64 // per second
	mass          float64 // expected arrivals per period
	now           sim.Time
}

func newOnOff(a ArrivalConfig, r *rand.Rand) *onOff {
	rate, peak := float64(a.Rate), a.Peak
	// The mean over the period is rate: high*burst + low*(period-burst) =
	// rate*period. Rounding must not make low negative at the largest peak.
	rest := (float64(a.Period) - float64(peak*float64(a.Burst))) / float64(a.Period-a.Burst)
	return &onOff{
		r: r, period: a.Period, burst: a.Burst,
		high: peak * rate,
		low:  rate * max(0, rest),
		mass: rate * a.Period.Seconds(),
	}
}

func (o *onOff) next() sim.Time {
	need := detmath.Exponential(o.r)
	// Whole periods first, so that the loop below is short at any rate.
	if whole := math.Floor(need / o.mass); whole > 0 {
		need = max(0, need-float64(whole*o.mass))
		if whole*float64(o.period) >= math.MaxInt64 {
			o.now = sim.Never
		} else {
			o.now = later(o.now, sim.Time(whole)*o.period)
		}
	}
	for o.now != sim.Never {
		start := o.now - o.now%o.period
		rate, edge := o.high, later(start, o.burst)
		if o.now >= edge {
			rate, edge = o.low, later(start, o.period)
		}
		if rate > 0 {
			if gap := sim.FromSeconds(need / rate); gap < edge-o.now {
				o.now += gap
				break
			}
			need = max(0, need-float64(rate*(edge-o.now).Seconds()))
		}
		o.now = edge
	}
	return o.now
}

// quotient returns n*unit/d picoseconds, rounded once to the nearest (halves
// up), or sim.Never when that does not fit. The arithmetic is exact: d, which
// must be in [2**-60, 2**53), is m / 2**shift, and the product has 128 bits.
func quotient(n, unit uint64, d float64) sim.Time {
	frac, exp := math.Frexp(d)
	m, shift := uint64(frac*(1<<53)), 53-exp
	hi, lo := bits.Mul64(n, unit)
	if shift >= 64 {
		if hi != 0 {
			return sim.Never
		}
		hi, lo, shift = lo, 0, shift-64
	}
	// m < 2**53, so a product of more than 128 bits is far out of range.
	if bits.Len64(hi)+shift > 64 {
		return sim.Never
	}
	hi, lo = hi<<shift|lo>>(64-shift), lo<<shift
	if hi >= m {
		return sim.Never
	}
	q, rest := bits.Div64(hi, lo, m)
	if rest >= m-rest {
		q++
	}
	if q >= math.MaxInt64 {
		return sim.Never
	}
	return sim.Time(q)
}
