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
	// Algorithm is what paces a flow: see Algorithms.
	Algorithm string `yaml:"algorithm"`
	// DCQCN is used by "dcqcn".
	DCQCN DCQCNConfig `yaml:"dcqcn"`
	// None is used by "none".
	None NoneConfig `yaml:"none"`
	// HPCC is used by "hpcc".
	HPCC HPCCConfig `yaml:"hpcc"`
	// Swift is used by "swift".
	Swift SwiftConfig `yaml:"swift"`
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

// DefaultConfig is DCQCN between a Tomahawk 5's buffer and the marking rule of
// the HPCC repository.
func DefaultConfig() Config {
	return Config{
		Algorithm: "dcqcn",
		DCQCN:     DefaultDCQCN(),
		None:      DefaultNone(),
		HPCC:      DefaultHPCC(),
		Swift:     DefaultSwift(),
		Credit:    DefaultCredit(),
		GSE:       DefaultGSE(),
		INT:       DefaultINT(),
		ECN:       DefaultECN(),
		Buffer:    DefaultBuffer(),
	}
}

// Validate says what is wrong with c, as config.Problems, or nil.
func (c Config) Validate() error {
	var ps config.Problems
	oneOf(&ps, "algorithm", c.Algorithm, Algorithms())
	ps.Nest("dcqcn", c.DCQCN.Validate())
	ps.Nest("none", c.None.Validate())
	ps.Nest("hpcc", c.HPCC.Validate())
	ps.Nest("swift", c.Swift.Validate())
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
