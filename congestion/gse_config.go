package congestion

import (
	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// How containers choose an uplink; see GSEConfig.Spray.
const (
	// SprayLeastSent takes the uplink that has been given the fewest bytes.
	SprayLeastSent = "least-sent"
	// SprayRoundRobin takes the uplinks in turn.
	SprayRoundRobin = "round-robin"
	// SprayLeastQueue takes the uplink with the shortest queue, and of equals the
	// one that has been given the fewest bytes.
	SprayLeastQueue = "least-queue"
)

// GSEConfig is the scheduling of a Global Scheduling Ethernet (China Mobile's
// white paper of 2023; draft-zhuang-rtgwg-aidc-gse-architecture). The structure is
// public, no size or timer is: every value here is a choice, with its reason.
type GSEConfig struct {
	// Preset names the set of constants to start from: see GSEPresets. What is
	// written beside it overrides it.
	Preset string `yaml:"preset"`
	// Mode is where it is done: "e2e", in the NICs, whose queue pairs wait for
	// credit, or "n2n", in the leaves, which hold packets of unchanged RoCE NICs.
	Mode string `yaml:"mode"`
	// ContainerBytes is the length of a packet container (PKTC), in bytes on the
	// wire. A container is virtual: whole packets to one destination port and
	// class that follow each other, go over one uplink and so stay in order. 16
	// KiB is four packets of 4 KiB: containers of 8 uplinks are at most 8 x 16 KiB
	// apart, 2.6 us at 400 Gb/s. Larger ones balance worse, smaller ones are
	// reordered more.
	ContainerBytes units.Bytes `yaml:"container_bytes"`
	// HeaderBytes is what every packet carries more: the container's number (24
	// bits) and the packet's place in it (8), the number of packets of the
	// container before (8), the total of bytes that have used credit (16, counted
	// by 64), flags (8).
	HeaderBytes units.Bytes `yaml:"header_bytes"`
	// Spray is how a container chooses its uplink: "least-sent", "round-robin" or
	// "least-queue".
	Spray string `yaml:"spray"`
	// Credit is how the destination's egress port grants. The quantum is usually
	// a container's.
	Credit CreditConfig `yaml:"credit"`
	// StopBytes is the backlog of a DGSQ above which its packets' sources must
	// stop, and ResumeBytes the one below which they may go on: back-pressure per
	// destination, which does not stop those for others. 0 never stops them.
	StopBytes   units.Bytes `yaml:"stop_bytes"`
	ResumeBytes units.Bytes `yaml:"resume_bytes"`
	// IdleTimeout is how long a DGSQ stays without work before it is destroyed.
	// One that begins anew may push again, so it must be well above a round trip.
	IdleTimeout sim.Time `yaml:"idle_timeout"`
	// ReorderWindow is how many containers of a source an egress can keep apart; a
	// power of two.
	ReorderWindow int `yaml:"reorder_window"`
	// ReorderBytes is the most that an egress holds back of one source.
	ReorderBytes units.Bytes `yaml:"reorder_bytes"`
	// ReorderTimeout is how long a missing container holds others up while nothing comes
	// by the paths that may still bring it: the spread of the paths' delays and one
	// round trip of credit, or else what was late only counts as lost.
	ReorderTimeout sim.Time `yaml:"reorder_timeout"`
}

// Where GSE is done; see GSEConfig.Mode.
const (
	ModeE2E = "e2e"
	ModeN2N = "n2n"
)

// gsePresets is the table of the presets.
var gsePresets = presets[GSEConfig]{
	{"derived", "16 KiB containers and grants, one bandwidth-delay product pushed", derivedGSE},
	{"pull", "the same without a push: every byte waits for a grant", pullGSE},
}

// GSEPresets lists the names of the presets.
func GSEPresets() []string { return gsePresets.names() }

// SetPreset sets every field to that of the named preset. An unknown name leaves
// c alone and is an error that names the nearest one.
func (c *GSEConfig) SetPreset(name string) error {
	return setPreset(c, &c.Preset, gsePresets, name)
}

// DefaultGSE is the preset "derived".
func DefaultGSE() GSEConfig {
	c := derivedGSE()
	c.Preset = "derived"
	return c
}

// derivedGSE: the timeout of reordering covers the queues that ACKs, pauses and
// pushes make on some uplinks and not on others, 50 us being six round trips of a
// leaf-spine of 400 Gb/s; 64 containers are a megabyte, more than credits let be
// under way from one source.
func derivedGSE() GSEConfig {
	return GSEConfig{
		Mode: ModeE2E, ContainerBytes: 16 * units.KiB, HeaderBytes: 8, Spray: SprayLeastSent,
		Credit:    voqCredit(),
		StopBytes: 2 * units.MiB, ResumeBytes: units.MiB,
		IdleTimeout:   100 * sim.Microsecond,
		ReorderWindow: 64, ReorderBytes: units.MiB, ReorderTimeout: 50 * sim.Microsecond,
	}
}

func pullGSE() GSEConfig {
	c := derivedGSE()
	c.Credit.Push = 0
	return c
}

// Validate says what is wrong with c, as config.Problems, or nil.
func (c GSEConfig) Validate() error {
	var ps config.Problems
	if c.Preset != "" {
		oneOf(&ps, "preset", c.Preset, GSEPresets())
	}
	oneOf(&ps, "mode", c.Mode, []string{ModeE2E, ModeN2N})
	within(&ps, "container_bytes", c.ContainerBytes, 64, 16*units.MiB)
	within(&ps, "header_bytes", c.HeaderBytes, 0, 256)
	oneOf(&ps, "spray", c.Spray, []string{SprayLeastSent, SprayRoundRobin, SprayLeastQueue})
	ps.Nest("credit", c.Credit.Validate())
	within(&ps, "stop_bytes", c.StopBytes, 0, units.TB)
	ps.Require(c.ResumeBytes >= 0 && c.ResumeBytes <= c.StopBytes, "resume_bytes", "%v is not from 0B to stop_bytes, %v", c.ResumeBytes, c.StopBytes)
	within(&ps, "idle_timeout", c.IdleTimeout, minTimer, maxTimer)
	ps.Require(c.ReorderWindow >= 2 && c.ReorderWindow <= 1<<15 && c.ReorderWindow&(c.ReorderWindow-1) == 0,
		"reorder_window", "%d containers; use a power of two from 2 to %d", c.ReorderWindow, 1<<15)
	ps.Require(c.ReorderBytes >= max(64, c.ContainerBytes) && c.ReorderBytes <= units.TB, "reorder_bytes",
		"%v is less than a container, container_bytes %v, or more than %v", c.ReorderBytes, c.ContainerBytes, units.TB)
	within(&ps, "reorder_timeout", c.ReorderTimeout, minTimer, maxTimer)
	return ps.Err()
}
