package congestion

import (
	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// HPCCConfig holds the constants of HPCC. Sources: "paper" is Li et al., HPCC:
// High Precision Congestion Control, SIGCOMM 2019; "HPCC-ns3" its authors'
// simulator. HPCC reacts to every acknowledgement: packet.transport.ack_every of 1
// is what it was made for; with more it hears of as many packets less.
type HPCCConfig struct {
	// Preset names the set of constants to start from: see HPCCPresets. What is
	// written beside it overrides it.
	Preset string `yaml:"preset"`
	// Eta is the utilisation that HPCC aims at: what is above it keeps queues
	// from forming (paper: 95 %).
	Eta float64 `yaml:"eta"`
	// MaxStage is the number of additive increases in a row after which the
	// window is set by the utilisation although that is below Eta (paper: 5;
	// HPCC-ns3's runs: 0).
	MaxStage int `yaml:"max_stage"`
	// RateAI is W_AI/T: what the window gains per update beside the correction,
	// as a rate. It makes shares fair; N flows shift the utilisation by up to N
	// RateAI (HPCC-ns3: 10 Mb/s for every 25 Gb/s of the NIC).
	RateAI units.Rate `yaml:"rate_ai"`
	// ScaleFrom is the line rate that RateAI is meant for: it grows in
	// proportion. 0 is none.
	ScaleFrom units.Rate `yaml:"scale_from"`
	// FastReact moves the window at every acknowledgement, from the reference
	// window, which moves once per round trip (paper, section 3.3). Without it
	// both move once per round trip.
	FastReact bool `yaml:"fast_react"`
	// BaseRTT is T, the round trip without queues, for every flow; 0 takes that
	// of the flow's own path. The paper uses one value for a whole network,
	// slightly above the longest.
	BaseRTT sim.Time `yaml:"base_rtt"`
	// MinRate is the lowest rate (HPCC-ns3: 100 Mb/s).
	MinRate units.Rate `yaml:"min_rate"`
}

// hpccPresets is the table of the presets.
var hpccPresets = presets[HPCCConfig]{
	{"hpcc-ns3", "`run.py --cc hpcc` of the HPCC repository", hpccNS3},
	{"paper", "SIGCOMM 2019: five stages of additive increase", paperHPCC},
}

// HPCCPresets lists the names of the presets.
func HPCCPresets() []string { return hpccPresets.names() }

// SetPreset sets every field to that of the named preset. An unknown name leaves
// c alone and is an error that names the nearest one.
func (c *HPCCConfig) SetPreset(name string) error {
	return setPreset(c, &c.Preset, hpccPresets, name)
}

// DefaultHPCC is the preset "paper".
func DefaultHPCC() HPCCConfig {
	c := paperHPCC()
	c.Preset = "paper"
	return c
}

// paperHPCC is the paper's, with the additive increase of its authors' simulator.
// By the paper's rule of thumb, W_AI = W_init (1 - eta)/N, that is meant for N =
// 125 flows on a link: 0.05 x 25 Gb/s / 10 Mb/s.
func paperHPCC() HPCCConfig {
	return HPCCConfig{
		Eta: 0.95, MaxStage: 5,
		RateAI: 10 * units.Mbps, ScaleFrom: 25 * units.Gbps,
		FastReact: true,
		MinRate:   100 * units.Mbps,
	}
}

func hpccNS3() HPCCConfig {
	c := paperHPCC()
	c.MaxStage = 0
	return c
}

// Validate says what is wrong with c, as config.Problems, or nil.
func (c HPCCConfig) Validate() error {
	var ps config.Problems
	if c.Preset != "" {
		oneOf(&ps, "preset", c.Preset, HPCCPresets())
	}
	within(&ps, "eta", c.Eta, 0.01, 1)
	within(&ps, "max_stage", c.MaxStage, 0, 1000)
	within(&ps, "rate_ai", c.RateAI, 1, maxRate)
	within(&ps, "scale_from", c.ScaleFrom, 0, maxRate)
	if c.BaseRTT != 0 {
		within(&ps, "base_rtt", c.BaseRTT, minTimer, maxTimer)
	}
	within(&ps, "min_rate", c.MinRate, 1, maxRate)
	return ps.Err()
}
