package congestion

import (
	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// SwiftConfig holds the constants of Swift. Sources: "paper" is Kumar et al.,
// Swift: Delay is Simple and Effective for Congestion Control in the Datacenter,
// SIGCOMM 2020; "htsim" is the implementation in csg-htsim.
type SwiftConfig struct {
	// Preset names the set of constants to start from: see SwiftPresets. What is
	// written beside it overrides it.
	Preset string `yaml:"preset"`
	// BaseTarget is the target delay of a flow with a large window on a path
	// without hops; 0 derives it from the path, see TargetRTTs. The paper's is
	// some way above the round trip of a cluster, 25 us in its figures.
	BaseTarget sim.Time `yaml:"base_target"`
	// TargetRTTs is the base target in round trips of the flow's path without
	// queues, where BaseTarget is 0: 1.25 leaves a quarter of a bandwidth-delay
	// product to the queue. The paper has no such rule; it makes one set of
	// constants fit fabrics of any size.
	TargetRTTs float64 `yaml:"target_rtts"`
	// HopDelay is what every switch of the path adds to the target (paper: h-bar,
	// section 3.5). 0 where TargetRTTs is used, which follows the path already.
	HopDelay sim.Time `yaml:"hop_delay"`
	// FlowScaling is the most that a small window adds to the target, in base
	// targets (paper: fs_range; htsim: 5). Many flows have small windows, and N
	// flows out of step keep a queue that grows with the square root of N.
	FlowScaling float64 `yaml:"flow_scaling"`
	// ScalingMinWindow and ScalingMaxWindow are the windows, in packets, at which
	// that is all and nothing (paper: fs_min_cwnd and fs_max_cwnd; htsim: 0.1 and
	// 100).
	ScalingMinWindow float64 `yaml:"scaling_min_window"`
	ScalingMaxWindow float64 `yaml:"scaling_max_window"`
	// AI is the additive increase, in packets per round trip (htsim: 1).
	AI float64 `yaml:"ai"`
	// Beta scales the multiplicative decrease by how far the delay is above the
	// target (htsim: 0.8).
	Beta float64 `yaml:"beta"`
	// MaxMDF bounds a decrease: the new window is at least 1 - MaxMDF of the old
	// (htsim: 0.5).
	MaxMDF float64 `yaml:"max_mdf"`
	// MinWindow and MaxWindow bound the window, in packets. Below one, packets are
	// paced (htsim: 0.1 and 100). 0 for MaxWindow is no bound but twice the
	// path's bandwidth-delay product.
	MinWindow float64 `yaml:"min_window"`
	MaxWindow float64 `yaml:"max_window"`
	// InitialWindow is the window of a new flow, in packets; 0 is the path's
	// bandwidth-delay product, so that it begins at line rate, as RDMA does.
	InitialWindow float64 `yaml:"initial_window"`
	// ResetTimeouts is the number of timeouts in a row after which the window
	// falls to MinWindow (paper: RETX_RESET_THRESHOLD).
	ResetTimeouts int `yaml:"reset_timeouts"`
}

// swiftPresets is the table of the presets.
var swiftPresets = presets[SwiftConfig]{
	{"derived", "targets that follow from the path, line rate from the start", derivedSwift},
	{"htsim", "csg-htsim's constants on a base target of 25 us", htsimSwift},
}

// SwiftPresets lists the names of the presets.
func SwiftPresets() []string { return swiftPresets.names() }

// SetPreset sets every field to that of the named preset. An unknown name leaves
// c alone and is an error that names the nearest one.
func (c *SwiftConfig) SetPreset(name string) error {
	return setPreset(c, &c.Preset, swiftPresets, name)
}

// DefaultSwift is the preset "derived".
func DefaultSwift() SwiftConfig {
	c := derivedSwift()
	c.Preset = "derived"
	return c
}

func derivedSwift() SwiftConfig {
	return SwiftConfig{
		TargetRTTs: 1.25, FlowScaling: 5, ScalingMinWindow: 0.1, ScalingMaxWindow: 100,
		AI: 1, Beta: 0.8, MaxMDF: 0.5, MinWindow: 0.1, ResetTimeouts: 5,
	}
}

// htsimSwift is csg-htsim's swift.cpp, but for the base target, the hop delay and
// the first window, which are arguments there.
func htsimSwift() SwiftConfig {
	c := derivedSwift()
	c.BaseTarget, c.HopDelay = 25*sim.Microsecond, sim.Microsecond
	c.MaxWindow, c.InitialWindow = 100, 10
	return c
}

// Limits of a SwiftConfig.
const (
	leastWindow, mostWindow = 1e-3, 1e6 // packets
)

// Validate says what is wrong with c, as config.Problems, or nil.
func (c SwiftConfig) Validate() error {
	var ps config.Problems
	if c.Preset != "" {
		oneOf(&ps, "preset", c.Preset, SwiftPresets())
	}
	if c.BaseTarget == 0 || c.TargetRTTs != 0 {
		within(&ps, "target_rtts", c.TargetRTTs, 1, 1000)
	}
	if c.BaseTarget != 0 {
		within(&ps, "base_target", c.BaseTarget, minTimer, maxTimer)
	}
	within(&ps, "hop_delay", c.HopDelay, 0, sim.Millisecond)
	within(&ps, "flow_scaling", c.FlowScaling, 0, 1000)
	within(&ps, "scaling_min_window", c.ScalingMinWindow, leastWindow, mostWindow)
	within(&ps, "scaling_max_window", c.ScalingMaxWindow, leastWindow, mostWindow)
	ps.Require(!(c.ScalingMaxWindow <= c.ScalingMinWindow), "scaling_max_window",
		"%v is not above scaling_min_window, %v", c.ScalingMaxWindow, c.ScalingMinWindow)
	within(&ps, "ai", c.AI, leastWindow, mostWindow)
	within(&ps, "beta", c.Beta, 1e-3, 1)
	within(&ps, "max_mdf", c.MaxMDF, 1e-3, 0.999)
	within(&ps, "min_window", c.MinWindow, leastWindow, mostWindow)
	if c.MaxWindow != 0 {
		within(&ps, "max_window", c.MaxWindow, max(1, c.MinWindow), mostWindow)
	}
	if c.InitialWindow != 0 {
		within(&ps, "initial_window", c.InitialWindow, max(leastWindow, c.MinWindow), mostWindow)
	}
	within(&ps, "reset_timeouts", c.ResetTimeouts, 1, 100)
	return ps.Err()
}

// packets is a rate's bandwidth-delay product in packets.
func packets(r units.Rate, t sim.Time, mtu units.Bytes) float64 {
	return r.BytesPerPicosecond() * float64(t) / float64(mtu)
}
