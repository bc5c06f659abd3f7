package congestion

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
)

// Config chooses what paces flows and how switches signal congestion.
type Config struct {
	// Preset names the settings to start from, of all sections: see
	// ConfigPresets. Presets of the sections, and what is written beside it,
	// override it.
	Preset string `yaml:"preset"`
	// Algorithm is what paces a flow, by name: "none", "dcqcn", "hpcc", "swift",
	// "timely", "credit" or "gse", each of which has a section here.
	Algorithm string `yaml:"algorithm"`
	// DCQCN is used by "dcqcn".
	DCQCN DCQCNConfig `yaml:"dcqcn"`
	// None is used by "none".
	None NoneConfig `yaml:"none"`
	// HPCC is used by "hpcc".
	HPCC HPCCConfig `yaml:"hpcc"`
	// Swift is used by "swift".
	Swift SwiftConfig `yaml:"swift"`
	// Timely is used by "timely".
	Timely TimelyConfig `yaml:"timely"`
	// Credit is used by "credit", between queue pairs.
	Credit CreditConfig `yaml:"credit"`
	// GSE is used by "gse", from NIC to NIC.
	GSE GSEConfig `yaml:"gse"`
	// INT is the telemetry that switches write into packets, where something
	// reads it: "hpcc" does.
	INT INTConfig `yaml:"int"`
	// ECN is when switches mark.
	ECN ECNConfig `yaml:"ecn"`
	// Buffer is the switches' packet memory and PFC.
	Buffer BufferConfig `yaml:"buffer"`
}

// configPresets is the table of the presets.
var configPresets = presets[Config]{
	{"lossless", "DCQCN and PFC, the default: alibaba's rate and marks, a Tomahawk 5's buffer", lossless},
	{"pfc-only", "no congestion control and no window: PFC alone holds senders back", pfcOnly},
	{"lossy", "DCQCN without PFC: full buffers drop, packet.transport.recovery repairs", lossy},
	{"conweave", "dcqcn, ecn and buffer of ConWeave's simulator", allOf("conweave", "conweave", "conweave")},
	{"hpcc-ns3", "dcqcn, ecn and buffer of the HPCC repository's simulator", allOf("hpcc-ns3", "alibaba", "hpcc-ns3")},
	{"paper", "dcqcn and ecn of the DCQCN paper, buffer of lossless", allOf("paper", "paper", "sonic-tomahawk5")},
	{"simai", "dcqcn and ecn of SimAI.conf, buffer of hpcc-ns3", allOf("simai", "simai", "hpcc-ns3")},
	{"sonic-nvidia", "nobody has tuned anything: firmware defaults, SONiC's marks and buffer", allOf("nvidia", "sonic", "sonic-tomahawk5")},
}

// ConfigPresets lists the names of the presets.
func ConfigPresets() []string { return configPresets.names() }

// SetPreset sets every field to that of the named preset. An unknown name leaves
// c alone and is an error that names the nearest one.
func (c *Config) SetPreset(name string) error {
	return setPreset(c, &c.Preset, configPresets, name)
}

// DefaultConfig is the preset "lossless".
func DefaultConfig() Config {
	c := lossless()
	c.Preset = "lossless"
	return c
}

// lossless is DCQCN between a Tomahawk 5's buffer and the marking rule of the HPCC
// repository.
func lossless() Config {
	return Config{
		Algorithm: "dcqcn",
		DCQCN:     DefaultDCQCN(),
		None:      DefaultNone(),
		HPCC:      DefaultHPCC(),
		Swift:     DefaultSwift(),
		Timely:    DefaultTimely(),
		Credit:    DefaultCredit(),
		GSE:       DefaultGSE(),
		INT:       DefaultINT(),
		ECN:       DefaultECN(),
		Buffer:    DefaultBuffer(),
	}
}

// pfcOnly is a NIC that sends at line rate whenever it is not paused.
func pfcOnly() Config {
	c := lossless()
	c.Algorithm, c.None.Window = "none", maxWindow
	return c
}

func lossy() Config {
	c := lossless()
	c.Buffer.Lossless = nil
	return c
}

// allOf is DCQCN, marks and buffers by the names of their presets.
func allOf(dcqcn, ecn, buffer string) func() Config {
	return func() Config {
		c := lossless()
		_ = c.DCQCN.SetPreset(dcqcn)
		_ = c.ECN.SetPreset(ecn)
		_ = c.Buffer.SetPreset(buffer)
		return c
	}
}

// Validate says what is wrong with c, as config.Problems, or nil.
func (c Config) Validate() error {
	var ps config.Problems
	if c.Preset != "" {
		oneOf(&ps, "preset", c.Preset, ConfigPresets())
	}
	oneOf(&ps, "algorithm", c.Algorithm, Algorithms())
	ps.Nest("dcqcn", c.DCQCN.Validate())
	ps.Nest("none", c.None.Validate())
	ps.Nest("hpcc", c.HPCC.Validate())
	ps.Nest("swift", c.Swift.Validate())
	ps.Nest("timely", c.Timely.Validate())
	ps.Nest("credit", c.Credit.Validate())
	ps.Nest("gse", c.GSE.Validate())
	ps.Nest("int", c.INT.Validate())
	ps.Nest("ecn", c.ECN.Validate())
	ps.Nest("buffer", c.Buffer.Validate())
	return ps.Err()
}

// unknownName is the complaint about a name that is not of a table.
func unknownName(what, name string, known []string) error {
	return fmt.Errorf("%q is not a known %s%s", name, what, config.Suggest(name, known))
}

// oneOf requires a value to be one of the known names.
func oneOf(ps *config.Problems, key, name string, known []string) {
	ps.Require(slices.Contains(known, name), key, "%q is unknown%s", name, config.Suggest(name, known))
}

// within requires low <= v <= high; a NaN is not.
func within[T cmp.Ordered](ps *config.Problems, key string, v, low, high T) {
	ps.Require(low <= v && v <= high, key, "%v is out of range; use %v to %v", v, low, high)
}

// lineRate requires a line rate that times can be computed at.
func lineRate(line units.Rate) error {
	if line <= 0 || line > maxRate {
		return fmt.Errorf("a line rate of %v is out of range; use above 0 up to %v", line, maxRate)
	}
	return nil
}
