package routing

import (
	"math"
	"math/bits"

	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// An INT is the constants of path choice by telemetry.
type INT struct {
	per     string
	gap     sim.Time
	margin  float64
	hold    sim.Time
	choices int
	levels  float64
	damped  bool
	gain    float64
	maxAge  sim.Time
	probe   sim.Time
	bytes   units.Bytes
	silence sim.Time
}

// NewINT makes the constants. It fails when c is not valid.
func NewINT(c INTConfig) (*INT, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &INT{
		per: c.Per, gap: c.FlowletGap, margin: c.Margin, hold: c.Hold, choices: c.Choices, levels: float64(c.Levels), damped: c.Damped,
		gain: c.Gain, maxAge: c.MaxAge, probe: c.ProbeInterval, bytes: c.ProbeBytes, silence: c.SilentAfter,
	}, nil
}

// A PathState is what a source knows of one path to a destination. All flows of
// the source to it share one per path. Its zero value knows nothing.
type PathState struct {
	load  float64
	rate  units.Rate // of its slowest link; 0 is not known
	taken sim.Time   // when the switches said so; valid when known
	asked sim.Time   // when the last probe left; valid when probed
	waits sim.Time   // when the first probe left that nothing has answered; valid when waiting
	known bool
	// probed is whether a probe has left.
	probed bool
	// waiting is whether one has that nothing has answered.
	waiting bool
	// down is whether the path has failed.
	down bool
}

// SetDown takes a path out of service or back.
func (p *PathState) SetDown(down bool) {
	p.waiting = p.waiting && down == p.down
	p.down, p.known = down, p.known && !down
}

// SetRate is the rate of the slowest link of a path, as switches stamp it. Paths are
// drawn, and taken by the hash, in proportion: where nobody sends, a slow path looks
// as idle as any.
func (p *PathState) SetRate(rate units.Rate) { p.rate = rate }

// Observe takes in how busy a path was at an instant: 1 is a full link without a
// queue, such as congestion.INTMeter finds it. What is older than what is known is
// ignored; what is known from before MaxAge does not count in the average.
func (c *INT) Observe(p *PathState, taken sim.Time, load float64) {
	switch {
	case p.known && taken < p.taken:
		return
	case !p.known || taken-p.taken > c.maxAge:
		p.load = load
	default:
		p.load = float64((1-c.gain)*p.load) + float64(c.gain*load)
	}
	p.known, p.taken = true, taken
	p.waiting = p.waiting && taken < p.waits
}

// fresh says whether telemetry of a path is not too old.
func (c *INT) fresh(p *PathState, now sim.Time) bool {
	return p.known && !c.out(p, now) && now-p.taken <= c.maxAge
}

// out says whether a path has failed: by what routing says, or by its silence.
func (c *INT) out(p *PathState, now sim.Time) bool {
	return p.down || c.silence > 0 && p.waiting && now-p.waits > c.silence
}

// Load is how busy a path is taken to be, and whether that is known.
func (c *INT) Load(p *PathState, now sim.Time) (load float64, ok bool) {
	return p.load, c.fresh(p, now)
}

// ProbeDue says whether to send a probe over a path now, of so many bytes: it has
// not been heard of, and not been probed, for the interval. An owner asks every so
// often, such as every interval.
func (c *INT) ProbeDue(p *PathState, now sim.Time) (units.Bytes, bool) {
	if c.probe == 0 || p.down || p.known && now-p.taken < c.probe || p.probed && now-p.asked < c.probe {
		return 0, false
	}
	if !p.waiting {
		p.waits, p.waiting = now, true
	}
	p.asked, p.probed = now, true
	return c.bytes, true
}

// An INTFlow is the path of one flow. Its zero value is ready.
type INTFlow struct {
	last  sim.Time // packet
	moved sim.Time
	path  uint32
	count uint32 // decisions so far
}

// Path is that of the flow's last packet.
func (f *INTFlow) Path() int { return int(f.path) }

// Next is the path of a packet sent now, out of paths, and whether telemetry has
// chosen it: that it is another one than the last packet's, or for a flow's first
// than its hash's. Begins says that the packet is the first of a
// message. Hash is the flow's: it gives the path where nothing is known, and the
// draws. With no path in service it is the hash's.
//
// A decision compares the flow's path with others: with Choices that are drawn, or
// all. It moves if the least busy of them would be better by the margin with the
// flow on it. Own is what the flow itself adds to a path's load, which is in that
// of its path already; 0 if nobody knows. Without it a flow that fills a link alone
// flees from itself.
func (c *INT) Next(f *INTFlow, now sim.Time, paths []PathState, hash uint64, own float64, begins bool) (path int, moved bool) {
	first := f.count == 0
	gone := !first && (int64(f.path) >= int64(len(paths)) || c.out(&paths[f.path], now))
	decide := first || gone
	switch c.per {
	case PerPacket:
		decide = true
	case PerMessage:
		decide = decide || begins
	case PerFlowlet:
		decide = decide || now-f.last > c.gap
	}
	f.last = now
	if !decide || !first && !gone && now-f.moved < c.hold {
		return int(f.path), false
	}
	f.count = max(1, f.count+1)
	at := int(f.path)
	before := at
	if first || gone {
		at, own = c.homeOf(now, paths, hash), 0 // it is on no path yet
	}
	if first {
		before = at
	}
	to := c.choose(now, paths, hash, f.count, at, own)
	if c.damped && !first && !gone && to != at && !c.dares(paths[at].load, paths[to].load+own, hash, f.count) {
		to, f.moved = at, now // it asks again after the hold
	}
	at = to
	moved = at != before
	if moved || first {
		f.moved = now
	}
	f.path = uint32(at)
	return at, moved
}

// homeOf is the path that a hash gives, among those in service if there are any, in
// proportion to their rates.
func (c *INT) homeOf(now sim.Time, paths []PathState, hash uint64) int {
	live, fastest, slowest := 0, units.Rate(0), units.Rate(math.MaxInt64)
	for i := range paths {
		if p := &paths[i]; !c.out(p, now) {
			live++
			if p.rate > 0 {
				fastest, slowest = max(fastest, p.rate), min(slowest, p.rate)
			}
		}
	}
	if live == 0 || live == len(paths) && slowest >= fastest {
		return pick(hash, len(paths))
	}
	weight := func(p *PathState) uint64 {
		switch {
		case c.out(p, now):
			return 0
		case slowest >= fastest:
			return 1
		case p.rate == 0:
			return uint64(fastest)
		}
		return uint64(p.rate)
	}
	total := uint64(0)
	for i := range paths {
		total += weight(&paths[i])
	}
	n, _ := bits.Mul64(hash, total)
	for i := range paths {
		w := weight(&paths[i])
		if n < w {
			return i
		}
		n -= w
	}
	return 0
}

// choose is the path to take for a flow that is on path at.
func (c *INT) choose(now sim.Time, paths []PathState, hash uint64, decision uint32, at int, own float64) int {
	if !c.fresh(&paths[at], now) {
		at, own = c.homeOf(now, paths, hash), 0
		if !c.fresh(&paths[at], now) {
			return at
		}
	}
	seed := mix(hash + uint64(decision)*golden)
	best, least, equals := -1, math.Inf(1), 0
	look := func(i int) {
		if i == at || !c.fresh(&paths[i], now) {
			return
		}
		l := c.level(paths[i].load)
		switch {
		case l < least:
			best, least, equals = i, l, 1
		case l == least:
			equals++ // each of them with the same probability
			if RandomPath(seed, uint64(equals)<<32, equals) == 0 {
				best = i
			}
		}
	}
	if c.choices > 0 {
		for k := range c.choices {
			look(c.homeOf(now, paths, mix(seed+(uint64(k)+1)*golden)))
		}
	} else {
		for i := range paths {
			look(i)
		}
	}
	here := paths[at].load
	if best >= 0 && c.level(paths[best].load+own) < c.level(here) && here-paths[best].load-own >= c.margin {
		return best
	}
	return at
}

// dares draws whether a flow moves from a load to another, which it would then be.
func (c *INT) dares(here, there float64, hash uint64, decision uint32) bool {
	draw := float64(mix(hash^uint64(decision)*golden)>>11) / (1 << 53)
	return draw < (here-there)/(2*here)
}

// level is a load as it is compared.
func (c *INT) level(load float64) float64 {
	if c.levels == 0 {
		return load
	}
	return math.Floor(load * c.levels)
}

// PathLoads knows how busy paths are at this instant, as no network could: an
// oracle to measure others by.
type PathLoads interface {
	// PathLoad is the load of path number i, in any unit.
	PathLoad(i int) float64
}

// LeastLoaded is the path, out of paths, that an oracle says is the least busy;
// equals are drawn.
func LeastLoaded(o PathLoads, paths int, seed, draw uint64) int {
	best, least, equals := 0, math.Inf(1), 0
	for i := range paths {
		l := o.PathLoad(i)
		switch {
		case l < least:
			best, least, equals = i, l, 1
		case l == least:
			equals++
			if RandomPath(mix(seed+draw*golden), uint64(i), equals) == 0 {
				best = i
			}
		}
	}
	return best
}
