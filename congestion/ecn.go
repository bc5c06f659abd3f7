package congestion

import (
	"fmt"
	"math"
	"slices"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
)

// ECNConfig is when a switch marks packets, by the rate of the egress port.
type ECNConfig struct {
	// Preset names the thresholds to start from: see ECNPresets.
	Preset string `yaml:"preset"`
	// Thresholds lists them by port rate, in ascending order. A port takes those
	// of the highest rate that is not above its own, or else of the lowest.
	Thresholds []ECNThresholds `yaml:"thresholds"`
	// Proportional scales Kmin and Kmax of a port whose rate is not listed by its
	// rate over the listed one. Otherwise it takes them as they are.
	Proportional bool `yaml:"proportional"`
	// Kmin, Kmax and Pmax replace those of every line, at every port whatever its
	// rate; -1 keeps them.
	Kmin units.Bytes `yaml:"kmin"`
	Kmax units.Bytes `yaml:"kmax"`
	Pmax float64     `yaml:"pmax"`
}

// ECNThresholds is the marking curve of ports of one rate: RED (Floyd and
// Jacobson 1993) on the instantaneous queue. The probability is 0 up to Kmin,
// rises linearly to Pmax at Kmax, and is 1 above.
type ECNThresholds struct {
	// Rate is the port rate that the line is for.
	Rate units.Rate `yaml:"rate"`
	// Kmin and Kmax are egress queue lengths in bytes.
	Kmin units.Bytes `yaml:"kmin"`
	Kmax units.Bytes `yaml:"kmax"`
	// Pmax is a probability, 0 to 1.
	Pmax float64 `yaml:"pmax"`
}

// kept is for an own threshold that is not set.
const kept = -1

// ecnPresets is the table of the presets.
var ecnPresets = presets[ECNConfig]{
	// "Alibaba's production", its authors say.
	{"alibaba", "the HPCC repository's rule, 4 and 16 KB per Gb/s: 1.6 and 6.4 MB at 400 Gb/s, Pmax 0.2", curves(true,
		ECNThresholds{25 * units.Gbps, 100 * units.KB, 400 * units.KB, 0.2})},
	{"conweave", "ConWeave (SIGCOMM 2023): 100 and 400 KB, Pmax 0.2, the same at every rate", curves(false,
		ECNThresholds{100 * units.Gbps, 100 * units.KB, 400 * units.KB, 0.2})},
	// In proportion elsewhere, which is ours.
	{"paper", "DCQCN (SIGCOMM 2015): 5 and 200 KB at 40 Gb/s, Pmax 0.01, in proportion elsewhere", curves(true,
		ECNThresholds{40 * units.Gbps, 5 * units.KB, 200 * units.KB, 0.01})},
	// In proportion at 800 Gb/s, which is ours: its line for 1,600 Gb/s is an
	// NVLink's.
	{"simai", "SimAI.conf: 0.8 and 3.2 MB at 400 Gb/s, Pmax 0.2", curves(true,
		ECNThresholds{25 * units.Gbps, 100 * units.KB, 400 * units.KB, 0.2},
		ECNThresholds{100 * units.Gbps, 400 * units.KB, 1600 * units.KB, 0.2},
		ECNThresholds{200 * units.Gbps, 300 * units.KB, 1200 * units.KB, 0.8},
		ECNThresholds{400 * units.Gbps, 800 * units.KB, 3200 * units.KB, 0.2})},
	{"sonic", "SONiC's WRED profile AZURE_LOSSLESS: 1 and 2 MiB, Pmax 0.05, the same at every rate", curves(false,
		ECNThresholds{100 * units.Gbps, 1 * units.MiB, 2 * units.MiB, 0.05})},
	// 21 and 81 packets of 4,150 B of the 101.2 in 400 Gb/s x 8.4 us.
	{"uet", "uet-htsim: 20 and 80 % of a bandwidth-delay product of 8.4 us, 87 and 336 KB at 400 Gb/s, Pmax 1", curves(true,
		ECNThresholds{400 * units.Gbps, 21 * 4150, 81 * 4150, 1})},
}

// curves makes a preset of curves.
func curves(proportional bool, t ...ECNThresholds) func() ECNConfig {
	return func() ECNConfig {
		return ECNConfig{Thresholds: slices.Clone(t), Proportional: proportional, Kmin: kept, Kmax: kept, Pmax: kept}
	}
}

// ECNPresets lists the names of the presets.
func ECNPresets() []string { return ecnPresets.names() }

// SetPreset sets every field to that of the named preset. An unknown name leaves
// c alone and is an error that names the nearest one.
func (c *ECNConfig) SetPreset(name string) error {
	return setPreset(c, &c.Preset, ecnPresets, name)
}

// DefaultECN is the preset "alibaba".
func DefaultECN() ECNConfig {
	var c ECNConfig
	_ = c.SetPreset("alibaba")
	return c
}

// maxQueue bounds Kmax, so that Marker's products fit 64 bits.
const maxQueue = units.GiB

// Validate says what is wrong with c, as config.Problems, or nil.
func (c ECNConfig) Validate() error {
	var ps config.Problems
	if c.Preset != "" {
		oneOf(&ps, "preset", c.Preset, ECNPresets())
	}
	ps.Require(len(c.Thresholds) > 0, "thresholds", "is empty; write at least one line with rate, kmin, kmax and pmax")
	for i, t := range c.Thresholds {
		key := func(name string) string { return fmt.Sprintf("thresholds[%d].%s", i, name) }
		within(&ps, key("rate"), t.Rate, 1, maxRate)
		ps.Require(i == 0 || t.Rate > c.Thresholds[i-1].Rate, key("rate"), "%v is not above the rate of the line before", t.Rate)
		within(&ps, key("kmin"), t.Kmin, 0, maxQueue)
		within(&ps, key("kmax"), t.Kmax, t.Kmin, maxQueue)
		within(&ps, key("pmax"), t.Pmax, 0, 1)
	}
	own := func(key string, q units.Bytes) {
		ps.Require(q == kept || q >= 0 && q <= maxQueue, key, "%v is out of range; use 0B to %v, or -1B for that of thresholds", q, maxQueue)
	}
	own("kmin", c.Kmin)
	own("kmax", c.Kmax)
	ps.Require(c.Pmax == kept || c.Pmax >= 0 && c.Pmax <= 1, "pmax", "%v is out of range; use 0 to 1, or -1 for that of thresholds", c.Pmax)
	ps.Require(c.Kmax < 0 || c.Kmin <= c.Kmax, "kmax", "%v is below kmin, %v", c.Kmax, c.Kmin)
	return ps.Err()
}

// Check says what is wrong with the marking curve of ports of a rate, as
// config.Problems, or nil: a Kmin or Kmax of its own may contradict what
// Thresholds say for the other.
func (c ECNConfig) Check(rate units.Rate) error {
	var ps config.Problems
	if t := c.At(rate); t.Kmin > t.Kmax {
		key, other := "kmin", "kmax"
		if c.Kmin == kept {
			key, other = other, key
		}
		ps.Addf(key, "ports of %v would have a kmin of %v above their kmax, %v; write %s, too", rate, t.Kmin, t.Kmax, other)
	}
	return ps.Err()
}

// At is the marking curve of a port of a rate. It is the zero value, which marks
// whatever is queued, when c has no thresholds.
func (c ECNConfig) At(rate units.Rate) ECNThresholds {
	if len(c.Thresholds) == 0 {
		return ECNThresholds{Rate: rate}
	}
	t := c.Thresholds[0]
	for _, u := range c.Thresholds[1:] {
		if u.Rate <= rate {
			t = u
		}
	}
	if c.Proportional && t.Rate != rate {
		by := float64(rate) / float64(t.Rate)
		t.Kmin = units.Bytes(math.RoundToEven(min(float64(t.Kmin)*by, float64(maxQueue))))
		t.Kmax = units.Bytes(math.RoundToEven(min(float64(t.Kmax)*by, float64(maxQueue))))
	}
	t.Rate = rate
	if c.Kmin != kept {
		t.Kmin = c.Kmin
	}
	if c.Kmax != kept {
		t.Kmax = c.Kmax
	}
	if c.Pmax != kept {
		t.Pmax = c.Pmax
	}
	return t
}

// Probability is the probability with which a packet is marked when q bytes are
// queued.
func (t ECNThresholds) Probability(q units.Bytes) float64 {
	switch {
	case q <= t.Kmin:
		return 0
	case q > t.Kmax:
		return 1
	}
	return t.Pmax * (float64(q-t.Kmin) / float64(t.Kmax-t.Kmin))
}

// A Marker decides whether to mark a packet. It is ECNThresholds in integers.
type Marker struct {
	kmin, kmax units.Bytes
	pmax       uint64 // of 1<<32
}

// Marker returns the decision for ports with these thresholds.
func (t ECNThresholds) Marker() Marker {
	return Marker{t.Kmin, t.Kmax, uint64(math.RoundToEven(t.Pmax * (1 << 32)))}
}

// Mark says whether a packet is marked when q bytes are queued at its port, given
// a number u that is uniform on all values of a uint32. It multiplies instead of
// dividing and is exact: the probability is that of Probability with Pmax rounded
// to 2^-32.
//
// What counts as queued is for the engine to say. HPCC-ns3 marks at dequeue and
// leaves the packet itself out.
func (m Marker) Mark(q units.Bytes, u uint32) bool {
	if q <= m.kmin {
		return false
	}
	if q > m.kmax {
		return true
	}
	return uint64(u)*uint64(m.kmax-m.kmin) < m.pmax*uint64(q-m.kmin)
}

// Uniform is number n of a sequence that looks uniform and independent on all
// values of a uint32: splitmix64 (Steele, Lea and Flood, OOPSLA 2014) in counter
// mode, its upper half. An engine that keeps a counter per port needs no random
// stream, and marking at one port does not shift that at another.
func Uniform(seed, n uint64) uint32 {
	z := seed + (n+1)*0x9E3779B97F4A7C15
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return uint32((z ^ z>>31) >> 32)
}
