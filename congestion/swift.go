package congestion

import (
	"fmt"
	"math"

	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// A Swift is the constants of Swift for one line rate and packet size. It does
// not change, so all flows of all NICs of that rate share one.
//
// It controls the fabric's delay only. The paper has a second window for the
// receiving host's delay; here a slow receiver is PFC's business.
type Swift struct {
	line                 units.Rate
	mtu                  units.Bytes
	base, hop            sim.Time
	rtts                 float64
	scaling, alpha, beta float64 // flow scaling, in base targets
	ai, md, maxMDF       float64
	least, most, initial float64 // windows, packets
	resetTimeouts        uint8
}

// NewSwift makes the constants of flows on NICs of a line rate that send packets
// with a payload of mtu. It fails when c is not valid.
func NewSwift(c SwiftConfig, line units.Rate, mtu units.Bytes) (*Swift, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := lineRate(line); err != nil {
		return nil, err
	}
	if mtu < 1 || mtu > units.MiB {
		return nil, fmt.Errorf("packets of %v are out of range; use 1B to 1MiB", mtu)
	}
	s := &Swift{
		line: line, mtu: mtu, base: c.BaseTarget, rtts: c.TargetRTTs, hop: c.HopDelay, scaling: c.FlowScaling,
		ai: c.AI, md: c.Beta, maxMDF: c.MaxMDF, least: c.MinWindow, most: c.MaxWindow, initial: c.InitialWindow,
		resetTimeouts: uint8(c.ResetTimeouts),
	}
	// Equation 2 of the paper, in base targets: alpha/sqrt(w) + beta is FlowScaling
	// at the smallest window and 0 at the largest.
	high := 1 / math.Sqrt(c.ScalingMaxWindow)
	s.alpha = c.FlowScaling / (1/math.Sqrt(c.ScalingMinWindow) - high)
	s.beta = -s.alpha * high
	return s, nil
}

// A SwiftFlow is what a sender's NIC keeps for a queue pair. It is ready after
// Swift.Start.
type SwiftFlow struct {
	cwnd, most float64 // packets
	// base is the target of a large window: base target and hops.
	base   sim.Time
	scale  float64  // what flow scaling multiplies: the base target without hops
	rtt    sim.Time // the last one measured
	fellAt sim.Time // the window's last decrease
	// timeouts is how many there were in a row.
	timeouts uint8
	fallen   bool // fellAt counts
}

// Start makes f the state of a new flow on a path with a round trip without
// queues of rtt over so many switches.
func (s *Swift) Start(f *SwiftFlow, rtt sim.Time, hops int) {
	rtt = max(rtt, sim.Nanosecond)
	base := s.base
	if base == 0 {
		base = sim.Time(float64(rtt) * s.rtts)
	}
	bdp := packets(s.line, rtt, s.mtu)
	*f = SwiftFlow{cwnd: s.initial, most: s.most, base: base + sim.Time(hops)*s.hop, scale: float64(base), rtt: rtt}
	if f.most == 0 {
		f.most = max(1, s.least, 2*bdp)
	}
	if f.cwnd == 0 {
		f.cwnd = bdp
	}
	s.clamp(f)
}

func (s *Swift) clamp(f *SwiftFlow) { f.cwnd = min(max(f.cwnd, s.least), f.most) }

// target is the target delay, in picoseconds (equation 2).
func (s *Swift) target(f *SwiftFlow) float64 {
	scaled := float64(s.alpha/math.Sqrt(f.cwnd)) + s.beta
	return float64(f.base) + float64(f.scale*min(max(scaled, 0), s.scaling))
}

// OnAck takes in an acknowledgement (algorithm 1). Bytes that it acknowledges
// count as so many packets of the full size. One without a round trip time
// changes nothing.
func (s *Swift) OnAck(f *SwiftFlow, now sim.Time, a Ack) {
	f.timeouts = 0
	if a.RTT <= 0 {
		return
	}
	f.rtt = a.RTT
	delay, target := float64(a.RTT), s.target(f)
	if delay < target {
		acked := float64(a.Bytes) / float64(s.mtu)
		if f.cwnd >= 1 {
			acked /= f.cwnd
		}
		f.cwnd += float64(s.ai * acked)
		s.clamp(f)
		return
	}
	over := float64(s.md*(delay-target)) / delay
	s.fall(f, now, max(1-over, 1-s.maxMDF))
}

// fall multiplies the window, at most once per round trip.
func (s *Swift) fall(f *SwiftFlow, now sim.Time, by float64) {
	if f.fallen && now-f.fellAt < f.rtt {
		return
	}
	f.cwnd *= by
	f.fellAt, f.fallen = now, true
	s.clamp(f)
}

// OnLoss reports a loss that the receiver has told of.
func (s *Swift) OnLoss(f *SwiftFlow, now sim.Time) { s.fall(f, now, 1-s.maxMDF) }

// OnTimeout reports a retransmission timeout.
func (s *Swift) OnTimeout(f *SwiftFlow, now sim.Time) {
	f.timeouts = min(f.timeouts+1, s.resetTimeouts)
	if f.timeouts == s.resetTimeouts {
		f.cwnd, f.fellAt, f.fallen = s.least, now, true
		s.clamp(f)
		return
	}
	s.OnLoss(f, now)
}

// OnSend reports that the flow sends n bytes, headers included, beginning now,
// and returns the earliest instant of its next packet: n bytes at line rate
// later, or, with a window below one packet, a round trip over the window (paper,
// section 3.6).
func (s *Swift) OnSend(f *SwiftFlow, now sim.Time, n units.Bytes) sim.Time {
	if f.cwnd < 1 {
		return now + sim.Time(float64(f.rtt)/f.cwnd)
	}
	return now + sendTime(s.line, n)
}

// Rate is what the window makes in a round trip.
func (s *Swift) Rate(f *SwiftFlow) units.Rate {
	const bit8 = 8 * float64(sim.Second)
	return min(max(units.Rate(f.cwnd*float64(s.mtu)/float64(f.rtt)*bit8), 1), s.line)
}

// Window is the most bytes of payload that the flow may have sent and not
// acknowledged. An engine lets a flow with none under way send one packet
// whatever its window.
func (s *Swift) Window(f *SwiftFlow) units.Bytes { return units.Bytes(f.cwnd * float64(s.mtu)) }

// swiftFlows is Swift as a Controller.
type swiftFlows struct {
	deaf
	*Swift
	flows[SwiftFlow]
}

func newSwiftFlows(c Config, l Line) (Controller, error) {
	s, err := NewSwift(c.Swift, l.Rate, l.MTU)
	return &swiftFlows{Swift: s}, err
}

func (c *swiftFlows) Open(_ sim.Time, r Route) FlowID {
	f := c.open()
	c.Start(&c.states[f], r.RTT, r.Hops)
	return f
}

func (c *swiftFlows) OnSend(f FlowID, now sim.Time, n units.Bytes) sim.Time {
	return c.Swift.OnSend(&c.states[f], now, n)
}

func (c *swiftFlows) OnAck(f FlowID, now sim.Time, a Ack) { c.Swift.OnAck(&c.states[f], now, a) }

func (c *swiftFlows) OnLoss(f FlowID, now sim.Time) { c.Swift.OnLoss(&c.states[f], now) }

func (c *swiftFlows) OnTimeout(f FlowID, now sim.Time) { c.Swift.OnTimeout(&c.states[f], now) }

// Hold moves the last decrease.
func (c *swiftFlows) Hold(f FlowID, by sim.Time) { c.states[f].fellAt += by }

func (c *swiftFlows) Rate(f FlowID, _ sim.Time) units.Rate { return c.Swift.Rate(&c.states[f]) }

func (c *swiftFlows) Window(f FlowID, _ sim.Time) units.Bytes { return c.Swift.Window(&c.states[f]) }
