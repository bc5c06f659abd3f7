package congestion

import (
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
	return setPreset(c, &c.Preset, timelyPresets, name)
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
