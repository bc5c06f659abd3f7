package congestion

import (
	"fmt"
	"math"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// Priorities is the number of priorities of a port (IEEE 802.1Q).
const Priorities = 8

// BufferConfig is the packet memory of a switch and what it reserves and allows.
//
// Of Size, the guaranteed minimum and the headroom are set aside for lossless
// traffic; the rest is shared. A port and priority (a priority group) may use
// shared memory up to a dynamic threshold, alpha times what is left of it
// (Choudhury and Hahne 1998). Above it a lossless group is paused, and what its
// peer still sends goes to headroom; a lossy packet is dropped.
type BufferConfig struct {
	// Preset names the settings to start from: see BufferPresets.
	Preset string `yaml:"preset"`
	// Size is the packet memory of the switch.
	Size units.Bytes `yaml:"size"`
	// SizeFrom is the NIC rate that Size is meant for: it grows in proportion.
	// 0 is none.
	SizeFrom units.Rate `yaml:"size_from"`
	// Lossless lists the priorities with PFC. Empty is a lossy network.
	Lossless []int `yaml:"lossless"`
	// Guaranteed is reserved for every lossless group.
	Guaranteed units.Bytes `yaml:"guaranteed"`
	// Alpha is the factor of the dynamic threshold of lossless groups.
	Alpha float64 `yaml:"alpha"`
	// AlphaFollowsRate doubles Alpha, up to 1, for each doubling of a port's rate
	// above the NICs'.
	AlphaFollowsRate bool `yaml:"alpha_follows_rate"`
	// StaticThreshold replaces the dynamic threshold by so many bytes; 0 keeps it.
	StaticThreshold units.Bytes `yaml:"static_threshold"`
	// ResumeOffset is how far a paused group's use must be below the threshold
	// before it is resumed. A group without any is resumed in any case.
	ResumeOffset units.Bytes `yaml:"resume_offset"`
	// EgressAlpha is the factor of the dynamic threshold of lossy egress queues,
	// and EgressGuaranteed what such a queue may hold whatever the threshold.
	EgressAlpha      float64     `yaml:"egress_alpha"`
	EgressGuaranteed units.Bytes `yaml:"egress_guaranteed"`
	// Headroom is what a lossless group may hold above its threshold.
	Headroom HeadroomConfig `yaml:"headroom"`
}

// HeadroomConfig is the size of headroom, a sum of terms; see Headroom for what
// is needed.
type HeadroomConfig struct {
	// Bytes is the same for every port.
	Bytes units.Bytes `yaml:"bytes"`
	// Delays counts what the port's link carries during its propagation delay.
	Delays int `yaml:"delays"`
	// Frames counts largest frames.
	Frames int `yaml:"frames"`
	// Response adds what the link carries while the peer may still react, by IEEE
	// 802.3 (1.158 us at 400 Gb/s).
	Response bool `yaml:"response"`
	// Pool is the memory that all groups' headroom together may use; 0 is the sum
	// of them all. With less, groups that are paused at the same time can run out.
	Pool units.Bytes `yaml:"pool"`
}

// bufferPresets is the table of the presets.
var bufferPresets = presets[BufferConfig]{
	{"conweave", "ConWeave's simulator: 9 MiB, alpha 1/16", conweaveBuffer},
	{"derived", "a Tomahawk 5's memory, with enough headroom for every group", derivedBuffer},
	{"hpcc-ns3", "HPCC's simulator: 16 MiB for every 50 Gb/s of a NIC, alpha 1/8", hpccNS3Buffer},
	{"sonic-tomahawk5", "SONiC on a 128 x 400 Gb/s Tomahawk 5: 165 MB, alpha 1", tomahawk5Buffer},
}

// BufferPresets lists the names of the presets.
func BufferPresets() []string { return bufferPresets.names() }

// SetPreset sets every field to that of the named preset. An unknown name leaves
// c alone and is an error that names the nearest one.
func (c *BufferConfig) SetPreset(name string) error {
	return setPreset(c, &c.Preset, bufferPresets, name)
}

// DefaultBuffer is the preset "sonic-tomahawk5".
func DefaultBuffer() BufferConfig {
	c := tomahawk5Buffer()
	c.Preset = "sonic-tomahawk5"
	return c
}

// tomahawk5Buffer is sonic-buildimage, Arista-7060X6-64PE-O128S2: the pool
// ingress_lossless_pool (size 165,660,324 B of which xoff, the headroom of all
// groups together, 29,423,360 B), the profile of lossless groups at 400 Gb/s
// (size 18,796 B, xon_offset 3,556 B, xoff 612,140 B, dynamic_th 0, which is
// alpha 2^0) and of lossy queues (dynamic_th 0, size 1,778 B), PFC on
// priorities 3 and 4.
func tomahawk5Buffer() BufferConfig {
	return BufferConfig{
		Size:             165_660_324,
		Lossless:         []int{3, 4},
		Guaranteed:       18_796,
		Alpha:            1,
		ResumeOffset:     3_556,
		EgressAlpha:      1,
		EgressGuaranteed: 1_778,
		Headroom:         HeadroomConfig{Bytes: 612_140, Pool: 29_423_360},
	}
}

// derivedBuffer is tomahawk5Buffer with headroom that cannot run out.
func derivedBuffer() BufferConfig {
	c := tomahawk5Buffer()
	c.Headroom = HeadroomConfig{Bytes: pauseFrame, Delays: 2, Frames: 3, Response: true}
	return c
}

// hpccNS3Buffer is switch-mmu.cc, third.cc and run.py of the HPCC repository:
// 16 MiB for NICs of 50 Gb/s and in proportion, 4 KiB reserved, alpha 1/8 at the
// NICs' rate, XON 3 KiB below XOFF, headroom for three propagation delays. It has
// no lossy queues; the egress factor is ConWeave's.
func hpccNS3Buffer() BufferConfig {
	return BufferConfig{
		Size:             16 * units.MiB,
		SizeFrom:         50 * units.Gbps,
		Lossless:         []int{3},
		Guaranteed:       4 * units.KiB,
		Alpha:            1. / 8,
		AlphaFollowsRate: true,
		ResumeOffset:     3 * units.KiB,
		EgressAlpha:      1,
		Headroom:         HeadroomConfig{Delays: 3},
	}
}

// conweaveBuffer is the defaults of switch-mmu.cc and the authors' set-up: 9 MiB,
// alpha 1/16 at ingress and 1 at egress, headroom for two propagation delays and
// two packets of 1,048 B, one such packet guaranteed. XON is 1 B below XOFF (16 B
// of pool).
func conweaveBuffer() BufferConfig {
	return BufferConfig{
		Size:             9 * units.MiB,
		Lossless:         []int{3},
		Guaranteed:       1048,
		Alpha:            1. / 16,
		ResumeOffset:     1,
		EgressAlpha:      1,
		EgressGuaranteed: 1048,
		Headroom:         HeadroomConfig{Delays: 2, Frames: 2},
	}
}

// Limits of a BufferConfig.
const (
	maxBuffer          = units.GiB
	minAlpha, maxAlpha = 1. / 256, 256.
)

// Validate says what is wrong with c, as config.Problems, or nil. Whether the
// reserves fit into the memory depends on the ports; NewBuffer finds out.
func (c BufferConfig) Validate() error {
	var ps config.Problems
	if c.Preset != "" {
		oneOf(&ps, "preset", c.Preset, BufferPresets())
	}
	within(&ps, "size", c.Size, 1, maxBuffer)
	within(&ps, "size_from", c.SizeFrom, 0, maxRate)
	seen := [Priorities]bool{}
	for i, p := range c.Lossless {
		key := fmt.Sprintf("lossless[%d]", i)
		if p < 0 || p >= Priorities {
			ps.Addf(key, "%d is not a priority; use 0 to %d", p, Priorities-1)
			continue
		}
		ps.Require(!seen[p], key, "%d is listed twice", p)
		seen[p] = true
	}
	within(&ps, "guaranteed", c.Guaranteed, 0, maxBuffer)
	within(&ps, "alpha", c.Alpha, minAlpha, maxAlpha)
	within(&ps, "static_threshold", c.StaticThreshold, 0, maxBuffer)
	within(&ps, "resume_offset", c.ResumeOffset, 0, maxBuffer)
	within(&ps, "egress_alpha", c.EgressAlpha, minAlpha, maxAlpha)
	within(&ps, "egress_guaranteed", c.EgressGuaranteed, 0, maxBuffer)
	within(&ps, "headroom.bytes", c.Headroom.Bytes, 0, maxBuffer)
	within(&ps, "headroom.delays", c.Headroom.Delays, 0, 100)
	within(&ps, "headroom.frames", c.Headroom.Frames, 0, 100)
	within(&ps, "headroom.pool", c.Headroom.Pool, 0, maxBuffer)
	return ps.Err()
}

// A Port is a port of a switch: the rate of its link and its propagation delay.
type Port struct {
	Rate  units.Rate
	Delay sim.Time
}

// of is the headroom of each lossless group of a port, for largest frames of
// frame bytes.
func (h HeadroomConfig) of(p Port, frame units.Bytes) units.Bytes {
	n := h.Bytes + units.Bytes(h.Delays)*carried(p.Rate, p.Delay) + units.Bytes(h.Frames)*frame
	if h.Response {
		n += carried(p.Rate, ResponseTime(p.Rate))
	}
	return n
}

// alphaOf is the threshold factor of a port.
func (c BufferConfig) alphaOf(p Port, nic units.Rate) float64 {
	a := c.Alpha
	if c.AlphaFollowsRate {
		for r := p.Rate; r > nic && a < 1; r /= 2 {
			a = min(2*a, 1)
		}
	}
	return a
}

// sizeFor is the packet memory of a switch in a network of such NICs.
func (c BufferConfig) sizeFor(nic units.Rate) units.Bytes {
	if c.SizeFrom == 0 {
		return c.Size
	}
	size := float64(c.Size) * (float64(nic) / float64(c.SizeFrom))
	return units.Bytes(math.RoundToEven(min(size, float64(maxBuffer))))
}
