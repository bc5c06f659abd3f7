package congestion

import (
	"math"
	"math/bits"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/invariants"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// A DCQCN is the constants of DCQCN for one line rate. It does not change, so
// all flows of all NICs of that rate share one. Its methods work on the RP and NP
// that they are given.
type DCQCN struct {
	line, minRate, initial units.Rate
	firstRate              units.Rate // the rates' bound at the first CNP
	ai, hai                units.Rate
	haiByStage             bool
	release                bool
	byACK                  bool
	deferred               bool
	alphaPeriodic          bool
	cutPeriodic            bool
	clamp, clampAfterTime  bool
	windowFollows          bool
	gapFollows             bool
	fast                   uint16
	byteCounter            uint32
	timer                  sim.Time
	alphaTimer             sim.Time
	cutInterval            sim.Time
	g, keep                float64 // alpha = keep alpha (+ g)
	initialAlpha           float64
	minFactor              float64
	window                 units.Bytes
	cnpInterval, cnpDelay  sim.Time
}

// NewDCQCN makes the constants of flows on NICs of a line rate. It fails when c
// is not valid or its rates do not fit the line.
func NewDCQCN(c DCQCNConfig, line units.Rate) (*DCQCN, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := lineRate(line); err != nil {
		return nil, err
	}
	var ps config.Problems
	ps.Require(c.MinRate <= line, "min_rate", "%v is above the line rate, %v", c.MinRate, line)
	ps.Require(c.InitialRate <= line, "initial_rate", "%v is above the line rate, %v; 0 is the line rate", c.InitialRate, line)
	if err := ps.Err(); err != nil {
		return nil, err
	}
	d := &DCQCN{
		line: line, minRate: c.MinRate, initial: c.InitialRate,
		ai: scaled(c.RateAI, line, c.ScaleFrom), hai: scaled(c.RateHAI, line, c.ScaleFrom), haiByStage: c.HAIByStage,
		release:       c.ReleaseAtLineRate,
		byACK:         c.Notify == NotifyACK,
		deferred:      c.CNPDeferred,
		alphaPeriodic: c.AlphaUpdate == OnPeriod,
		cutPeriodic:   c.RateDecrease == OnPeriod,
		clamp:         c.ClampTargetRate, clampAfterTime: c.ClampTargetRateAfterTime,
		windowFollows: c.WindowFollowsRate, gapFollows: c.GapFollowsRate,
		fast:        uint16(c.FastRecovery),
		byteCounter: uint32(c.ByteCounter),
		timer:       c.IncreaseTimer,
		alphaTimer:  c.AlphaTimer,
		cutInterval: c.DecreaseInterval,
		g:           c.G, keep: 1 - c.G, initialAlpha: c.InitialAlpha,
		minFactor:   c.MinDecreaseFactor,
		window:      c.Window,
		cnpInterval: c.CNPInterval, cnpDelay: c.CNPDelay,
	}
	if d.initial == 0 {
		d.initial = line
	}
	d.firstRate = max(d.minRate, units.Rate(float64(line)*c.FirstCNPRate))
	return d, nil
}

// scaled is r, or its share of a line when it is meant for lines of rate from.
func scaled(r, line, from units.Rate) units.Rate {
	if from == 0 {
		return r
	}
	hi, lo := bits.Mul64(uint64(r), uint64(line))
	if hi >= uint64(from) {
		return maxRate
	}
	q, _ := bits.Div64(hi, lo, uint64(from))
	return max(1, units.Rate(min(q, uint64(maxRate))))
}

// LineRate is the rate of the NICs.
func (d *DCQCN) LineRate() units.Rate { return d.line }

// An RP is the reaction point of one flow: what a sender's NIC keeps for a queue
// pair. It is ready after DCQCN.Start.
type RP struct {
	rate, target units.Rate // R_C and R_T; minRate <= rate <= target <= line
	// alpha is as of the instant alphaAt, from which the next period is counted.
	alpha   float64
	alphaAt sim.Time
	// timerAt is when the increase timer expires next; Never when it is stopped
	// or could change nothing.
	timerAt sim.Time
	// cutAt is the end of the running period of rate decrease, or the earliest
	// instant of the next cut.
	cutAt                sim.Time
	bytes                uint32 // sent since the last expiry of the byte counter, below line rate
	timeStage, byteStage uint16 // expiries since the last cut
	flags                rpFlags
}

type rpFlags uint8

const (
	rpLimited  rpFlags = 1 << iota // the increase rules apply
	rpNotified                     // alpha and the periods run: a CNP has come
	rpRaise                        // a CNP came in the running period of alpha
	rpCut                          // a CNP came in the running period of decrease
)

// Start makes f the state of a new flow.
func (d *DCQCN) Start(f *RP, now sim.Time) {
	*f = RP{rate: d.initial, target: d.line, alpha: d.initialAlpha, timerAt: sim.Never, cutAt: sim.Never}
	if d.initial < d.line {
		f.flags = rpLimited
		f.timerAt = d.after(now)
	}
}

// after is when an increase timer started at t expires.
func (d *DCQCN) after(t sim.Time) sim.Time {
	if d.timer == 0 {
		return sim.Never
	}
	return t + d.timer
}

// OnSend reports that the flow sends n bytes, headers included, beginning now,
// and returns the earliest instant of its next packet: n bytes at the flow's rate
// later. A change of rate meanwhile does not move that instant, unless the timer
// makes it and DCQCNConfig.GapFollowsRate says so.
func (d *DCQCN) OnSend(f *RP, now sim.Time, n units.Bytes) sim.Time {
	if f.flags&rpLimited == 0 {
		return now + sendTime(d.line, n)
	}
	d.advance(f, now)
	if d.byteCounter != 0 {
		d.countBytes(f, n)
	}
	next := now + sendTime(f.rate, n)
	if d.gapFollows && next > f.timerAt {
		return min(next, d.paced(*f, now, n))
	}
	return next
}

// paced is when a flow that is told nothing more has sent n bytes from now on, at
// the rates that its timers make.
func (d *DCQCN) paced(f RP, now sim.Time, n units.Bytes) sim.Time {
	for {
		at, next := now+sendTime(f.rate, n), d.NextDeadline(&f)
		if at <= next {
			return at
		}
		// A deadline is before the n bytes are through, so some are left.
		n = max(1, n-units.Bytes(f.rate.BytesPerPicosecond()*float64(next-now)))
		now = next
		d.advance(&f, now)
	}
}

// countBytes runs the byte counter. It stands still at line rate, where nothing is
// to be gained.
func (d *DCQCN) countBytes(f *RP, n units.Bytes) {
	sum, reset := units.Bytes(f.bytes)+n, units.Bytes(d.byteCounter)
	for !d.full(f) {
		if sum < reset {
			f.bytes = uint32(sum)
			return
		}
		sum -= reset
		f.byteStage = next(f.byteStage)
		d.increase(f)
	}
}

// sendTime is line.Time(n) without its 128-bit division, for a packet.
func sendTime(r units.Rate, n units.Bytes) sim.Time {
	const bit8 = 8 * uint64(sim.Second)
	if uint64(n) > math.MaxInt64/bit8 || r <= 0 {
		return r.Time(n)
	}
	q := uint64(n) * bit8 / uint64(r)
	if q*uint64(r) != uint64(n)*bit8 {
		q++
	}
	return sim.Time(q)
}

// OnAck reports an acknowledgement. Its mark counts as a CNP where marks travel
// that way.
func (d *DCQCN) OnAck(f *RP, now sim.Time, a Ack) {
	if a.Marked && d.byACK {
		d.OnCNP(f, now)
	}
}

// OnCNP reports the arrival of a CNP.
func (d *DCQCN) OnCNP(f *RP, now sim.Time) {
	d.advance(f, now)
	if f.flags&rpNotified == 0 {
		d.first(f, now)
	} else {
		d.settleAlpha(f, now)
		if d.alphaPeriodic {
			f.flags |= rpRaise
		}
	}
	switch {
	case d.cutPeriodic:
		if f.cutAt <= now { // periods without a CNP have passed
			f.cutAt += (now-f.cutAt)/d.cutInterval*d.cutInterval + d.cutInterval
		}
		f.flags |= rpCut
	case f.cutAt <= now:
		d.cut(f, now)
		f.cutAt = now + d.cutInterval
	}
	if !d.alphaPeriodic {
		f.alpha = float64(d.keep*f.alpha) + d.g
		f.alphaAt = now
	}
	if invariants.Enabled {
		d.check(f)
	}
}

// first begins the control of a flow. The first period of alpha counts as one
// without a CNP (HPCC-ns3: "init alpha").
func (d *DCQCN) first(f *RP, now sim.Time) {
	f.flags = rpLimited | rpNotified
	f.alpha, f.alphaAt, f.cutAt = d.initialAlpha, now, now
	if d.firstRate < f.rate {
		f.rate, f.target = d.firstRate, d.firstRate
		d.restart(f, now)
	}
}

// settleAlpha moves alpha to the last of its expiries that is not after t. It is
// called at CNPs and cuts only: how often a flow is looked at must not matter to
// the last bit of alpha.
func (d *DCQCN) settleAlpha(f *RP, t sim.Time) {
	if t-f.alphaAt < d.alphaTimer {
		return
	}
	n := (t - f.alphaAt) / d.alphaTimer
	f.alphaAt += n * d.alphaTimer
	if f.flags&rpRaise != 0 {
		f.alpha = float64(d.keep*f.alpha) + d.g
		f.flags &^= rpRaise
		n--
	}
	f.alpha *= power(d.keep, uint64(n))
}

// power is x**n, by squaring.
func power(x float64, n uint64) float64 {
	y := 1.
	for ; n != 0 && y != 0; n >>= 1 {
		if n&1 != 0 {
			y *= x
		}
		x *= x
	}
	return y
}

// cut lowers the rate at t: R_T = R_C, R_C = (1 - alpha/2) R_C.
func (d *DCQCN) cut(f *RP, t sim.Time) {
	d.settleAlpha(f, t)
	if d.clamp || f.byteStage > 0 || d.clampAfterTime && f.timeStage > 0 {
		f.target = f.rate
	}
	factor := max(1-float64(f.alpha/2), d.minFactor)
	f.rate = max(units.Rate(float64(f.rate)*factor), d.minRate)
	d.restart(f, t)
}

// restart makes timer, byte counter and stages start over at t.
func (d *DCQCN) restart(f *RP, t sim.Time) {
	f.bytes, f.timeStage, f.byteStage = 0, 0, 0
	f.timerAt = d.after(t)
}

// advance catches up on the timers that have expired, up to and including now.
func (d *DCQCN) advance(f *RP, now sim.Time) {
	for now >= f.timerAt || f.flags&rpCut != 0 && now >= f.cutAt {
		if f.flags&rpCut != 0 && f.cutAt < f.timerAt {
			d.cut(f, f.cutAt)
			f.flags &^= rpCut
			f.cutAt += d.cutInterval
			continue
		}
		f.timerAt += d.timer
		f.timeStage = next(f.timeStage)
		d.increase(f)
	}
	if invariants.Enabled {
		d.check(f)
	}
}

// next counts to 65,535 and stays there.
func next(stage uint16) uint16 { return stage + uint16(min(1, math.MaxUint16-stage)) }

// increase is one step up: fast recovery while neither stage is above F, hyper
// increase when both are, additive increase between. A missing timer or byte
// counter counts as one stage behind the other, so that one additive increase
// comes before the hyper increases (HPCC-ns3).
func (d *DCQCN) increase(f *RP) {
	high, low := max(f.timeStage, f.byteStage), min(f.timeStage, f.byteStage)
	if d.byteCounter == 0 || d.timer == 0 {
		low = high - 1
	}
	switch {
	case high <= d.fast:
	case low <= d.fast:
		f.target = min(f.target+d.ai, d.line)
	case d.haiByStage:
		f.target = min(f.target+units.Rate(low-d.fast)*d.hai, d.line)
	default:
		f.target = min(f.target+d.hai, d.line)
	}
	f.rate += (f.target - f.rate + 1) / 2
	if d.full(f) {
		f.timerAt = sim.Never
		if d.release && f.flags&rpCut == 0 {
			f.flags = 0
		}
	}
}

// full says that the flow is at line rate, where increases change nothing.
func (d *DCQCN) full(f *RP) bool { return f.rate == d.line }

// check panics when the state is impossible.
func (d *DCQCN) check(f *RP) {
	if !(d.minRate <= f.rate && f.rate <= f.target && f.target <= d.line && 0 <= f.alpha && f.alpha <= 1) {
		panic("congestion: impossible state of a reaction point")
	}
}

// Rate is R_C, the rate of the flow as of now.
func (d *DCQCN) Rate(f *RP, now sim.Time) units.Rate {
	d.advance(f, now)
	return f.rate
}

// Target is R_T, the rate that fast recovery returns to, as of now.
func (d *DCQCN) Target(f *RP, now sim.Time) units.Rate {
	d.advance(f, now)
	return f.target
}

// Alpha is the flow's estimate of congestion as of now, 0 to 1.
func (d *DCQCN) Alpha(f *RP, now sim.Time) float64 {
	d.advance(f, now)
	if f.flags&rpNotified == 0 {
		return d.initialAlpha
	}
	c := *f
	d.settleAlpha(&c, now)
	return c.alpha
}

// Window is the most bytes that the flow may have sent and not acknowledged, as
// of now. An engine lets a flow with none under way send one packet whatever its
// window.
func (d *DCQCN) Window(f *RP, now sim.Time) units.Bytes {
	if d.window == 0 {
		return NoWindow
	}
	if !d.windowFollows {
		return d.window
	}
	d.advance(f, now)
	hi, lo := bits.Mul64(uint64(d.window), uint64(f.rate))
	q, _ := bits.Div64(hi, lo, uint64(d.line))
	return units.Bytes(q)
}

// NextDeadline is when the rate will change next if nothing is called meanwhile,
// or sim.Never.
func (d *DCQCN) NextDeadline(f *RP) sim.Time {
	if f.flags&rpCut != 0 && f.cutAt < f.timerAt {
		return f.cutAt
	}
	return f.timerAt
}
