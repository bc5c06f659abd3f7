package congestion

import (
	"math"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// TimelyConfig holds the constants of TIMELY. Sources: "paper" is Mittal et al.,
// TIMELY: RTT-based Congestion Control for the Datacenter, SIGCOMM 2015;
// "HPCC-ns3" the implementation in the simulator of HPCC, whose constants are the
// paper's.
type TimelyConfig struct {
	// Preset names the set of constants to start from: see TimelyPresets. What is
	// written beside it overrides it.
	Preset string `yaml:"preset"`
	// Low is T_low, the round trip time below which the rate only rises, and High
	// T_high, above which it only falls (paper: 50 and 500 us). 0 takes so many
	// round trips of the flow's own path without queues: LowRTTs and HighRTTs.
	Low  sim.Time `yaml:"low"`
	High sim.Time `yaml:"high"`
	// LowRTTs and HighRTTs are used where Low or High is 0: 2.5 and 25 are the
	// paper's over its MinRTT.
	LowRTTs  float64 `yaml:"low_rtts"`
	HighRTTs float64 `yaml:"high_rtts"`
	// MinRTT is what the difference of two round trips is divided by to be a
	// gradient (paper: 20 us); 0 takes that of the path.
	MinRTT sim.Time `yaml:"min_rtt"`
	// Alpha is the weight of the newest difference (HPCC-ns3: 0.875).
	Alpha float64 `yaml:"alpha"`
	// Beta scales a decrease (paper: 0.8).
	Beta float64 `yaml:"beta"`
	// RateAI is delta, what an increase adds (paper: 10 Mb/s at 10 Gb/s).
	RateAI units.Rate `yaml:"rate_ai"`
	// ScaleFrom is the line rate that RateAI is meant for: it grows in proportion.
	// 0 is none.
	ScaleFrom units.Rate `yaml:"scale_from"`
	// HAIAfter is after how many round trips in a row without a positive gradient
	// increases are HAITimes as large (paper: 5 and N = 5).
	HAIAfter int `yaml:"hai_after"`
	HAITimes int `yaml:"hai_times"`
	// MinRate is the lowest rate (HPCC-ns3: 100 Mb/s).
	MinRate units.Rate `yaml:"min_rate"`
}

// timelyPresets is the table of the presets.
var timelyPresets = presets[TimelyConfig]{
	{"derived", "the paper's thresholds in round trips of the path: 2.5 and 25", derivedTimely},
	{"paper", "SIGCOMM 2015, and HPCC's simulator: 50 and 500 us, 20 us", paperTimely},
}

// TimelyPresets lists the names of the presets.
func TimelyPresets() []string { return timelyPresets.names() }

// SetPreset sets every field to that of the named preset. An unknown name leaves
// c alone and is an error that names the nearest one.
func (c *TimelyConfig) SetPreset(name string) error {
	p, err := timelyPresets.find(name)
	if err == nil {
		*c = p
		c.Preset = name
	}
	return err
}

// DefaultTimely is the preset "derived".
func DefaultTimely() TimelyConfig {
	c := derivedTimely()
	c.Preset = "derived"
	return c
}

func derivedTimely() TimelyConfig {
	return TimelyConfig{
		LowRTTs: 2.5, HighRTTs: 25, Alpha: 0.875, Beta: 0.8,
		RateAI: 10 * units.Mbps, ScaleFrom: 10 * units.Gbps, HAIAfter: 5, HAITimes: 5,
		MinRate: 100 * units.Mbps,
	}
}

func paperTimely() TimelyConfig {
	c := derivedTimely()
	c.Low, c.High, c.MinRTT = 50*sim.Microsecond, 500*sim.Microsecond, 20*sim.Microsecond
	return c
}

// Validate says what is wrong with c, as config.Problems, or nil.
func (c TimelyConfig) Validate() error {
	var ps config.Problems
	if c.Preset != "" {
		oneOf(&ps, "preset", c.Preset, TimelyPresets())
	}
	for _, t := range []struct {
		key  string
		time sim.Time
	}{{"low", c.Low}, {"high", c.High}, {"min_rtt", c.MinRTT}} {
		if t.time != 0 {
			within(&ps, t.key, t.time, minTimer, maxTimer)
		}
	}
	within(&ps, "low_rtts", c.LowRTTs, 1, 1000)
	within(&ps, "high_rtts", c.HighRTTs, 1, 10000)
	if (c.Low == 0) == (c.High == 0) {
		key, above := "high", c.Low <= c.High
		if c.Low == 0 {
			key, above = "high_rtts", c.LowRTTs <= c.HighRTTs
		}
		ps.Require(above, key, "is below the threshold of increases; write it no lower than that")
	}
	within(&ps, "alpha", c.Alpha, 1e-3, 1)
	within(&ps, "beta", c.Beta, 1e-3, 1)
	within(&ps, "rate_ai", c.RateAI, 1, maxRate)
	within(&ps, "scale_from", c.ScaleFrom, 0, maxRate)
	within(&ps, "hai_after", c.HAIAfter, 1, 1000)
	within(&ps, "hai_times", c.HAITimes, 1, 1000)
	within(&ps, "min_rate", c.MinRate, 1, maxRate)
	return ps.Err()
}

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
