package congestion

import (
	"math"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// timelyFlow is the state of a flow: 56 bytes.
type timelyFlow struct {
	rate      units.Rate
	low, high sim.Time
	base      float64 // minRTT, ps
	diff      float64 // the filtered difference of two round trips, ps
	last      sim.Time
	// next is the number of the packet whose acknowledgement ends this round trip.
	next  uint32
	calm  uint16 // round trips in a row without a positive gradient
	begun bool   // last and next count
}

// timelyFlows is TIMELY (algorithm 1) for NICs of one line rate. As in HPCC-ns3 a
// completion event is the first acknowledgement of a new round trip, and flows
// begin at line rate. There is no window.
type timelyFlows struct {
	deaf
	flows[timelyFlow]
	TimelyConfig
	line, ai units.Rate
}

func newTimely(c TimelyConfig, line units.Rate) (*timelyFlows, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := lineRate(line); err != nil {
		return nil, err
	}
	var ps config.Problems
	ps.Require(c.MinRate <= line, "min_rate", "%v is above the line rate, %v", c.MinRate, line)
	return &timelyFlows{TimelyConfig: c, line: line, ai: scaled(c.RateAI, line, c.ScaleFrom)}, ps.Err()
}

func newTimelyFlows(c Config, l Line) (Controller, error) { return newTimely(c.Timely, l.Rate) }

// Open implements Controller.
func (c *timelyFlows) Open(_ sim.Time, r Route) FlowID {
	f := c.open()
	rtt := max(r.RTT, sim.Nanosecond)
	s := timelyFlow{rate: c.line, low: c.Low, high: c.High, base: float64(c.MinRTT)}
	if s.low == 0 {
		s.low = sim.Time(float64(rtt) * c.LowRTTs)
	}
	if s.high == 0 {
		s.high = sim.Time(float64(rtt) * c.HighRTTs)
	}
	if s.base == 0 {
		s.base = float64(rtt)
	}
	c.states[f] = s
	return f
}

// OnAck implements Controller.
func (c *timelyFlows) OnAck(f FlowID, _ sim.Time, a Ack) {
	s := &c.states[f]
	if a.RTT <= 0 || s.begun && int32(a.Acked-s.next) <= 0 {
		return
	}
	if s.begun {
		c.update(s, a.RTT)
	}
	s.last, s.next, s.begun = a.RTT, a.Next, true
}

// update is algorithm 1 of the paper.
func (c *timelyFlows) update(s *timelyFlow, rtt sim.Time) {
	s.diff = float64((1-c.Alpha)*s.diff) + float64(c.Alpha*float64(rtt-s.last))
	gradient := s.diff / s.base
	if gradient <= 0 {
		s.calm = next(s.calm)
	} else {
		s.calm = 0
	}
	switch {
	case rtt < s.low:
		c.rise(s, 1)
	case rtt > s.high:
		c.fall(s, float64(c.Beta*(1-float64(s.high)/float64(rtt))))
	case gradient > 0:
		c.fall(s, float64(c.Beta*gradient))
	case int(s.calm) >= c.HAIAfter:
		c.rise(s, c.HAITimes)
	default:
		c.rise(s, 1)
	}
}

func (c *timelyFlows) rise(s *timelyFlow, times int) {
	s.rate = min(s.rate+min(units.Rate(times)*c.ai, c.line), c.line)
}

// fall lowers the rate by a part of it.
func (c *timelyFlows) fall(s *timelyFlow, part float64) {
	s.rate = max(units.Rate(math.RoundToEven(float64(s.rate)*max(0, 1-part))), c.MinRate)
}

// OnSend implements Controller.
func (c *timelyFlows) OnSend(f FlowID, now sim.Time, n units.Bytes) sim.Time {
	return now + sendTime(c.states[f].rate, n)
}

// Rate implements Controller.
func (c *timelyFlows) Rate(f FlowID, _ sim.Time) units.Rate { return c.states[f].rate }

// Window implements Controller.
func (c *timelyFlows) Window(FlowID, sim.Time) units.Bytes { return NoWindow }
