package routing

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// What may change paths; see INTConfig.Per.
const (
	// PerFlowlet lets a flow move after a pause, so that it stays in order.
	PerFlowlet = "flowlet"
	// PerMessage lets it move with the first packet of a message.
	PerMessage = "message"
	// PerPacket lets it move at any packet: receivers must take packets out of
	// order.
	PerPacket = "packet"
)

// Who shares telemetry; see INTConfig.Scope.
const (
	ScopeNIC  = "nic"
	ScopeLeaf = "leaf"
)

// INTConfig is path choice by telemetry: a leaf or NIC remembers how busy each of
// its paths was when it last heard, and moves flows to less busy ones. The values
// are choices, with their reasons: vendors publish none.
type INTConfig struct {
	// Preset names the settings to start from: see INTPresets.
	Preset string `yaml:"preset"`
	// Per is what may change paths: "flowlet", "message" or "packet".
	Per string `yaml:"per"`
	// Scope is who shares what telemetry says: "nic" is each NIC by itself, "leaf" all
	// NICs under a leaf, which sees everyone's acknowledgements pass.
	Scope string `yaml:"scope"`
	// FlowletGap is the pause that ends a flowlet: more than paths differ in delay.
	FlowletGap sim.Time `yaml:"flowlet_gap"`
	// Margin is by how much, in utilisation, another path must be better. It keeps
	// flows from changing places for nothing, as the last one's move is not yet in
	// what the others see. 0.1 is one of ten flows' worth.
	Margin float64 `yaml:"margin"`
	// Hold is how long a flow that has moved stays: until telemetry has had time
	// to show what the move did, a round trip or two.
	Hold sim.Time `yaml:"hold"`
	// Damped lets a flow move only with the probability that evens two paths out when
	// all flows of the busier one do the same, half the difference over its load, and
	// ask again after Hold (adaptive sampling of Fischer, Raecke and Voecking, STOC
	// 2006, halved). Without it all that see an idle path run to it.
	Damped bool `yaml:"damped"`
	// Choices is how many draws a decision has among all paths, the flow's own
	// included, for others to look at. Two are nearly as good as all (Mitzenmacher, IEEE TPDS 2001),
	// and sources that see the same telemetry do not all choose the same path. 0
	// looks at all.
	Choices int `yaml:"choices"`
	// Levels is the number of steps of 1/Levels to which utilisations are rounded
	// down before they are compared; equals are drawn at random. 0 does not round.
	// (CONGA: 3 bits.)
	Levels int `yaml:"levels"`
	// Gain is the weight of a new value in a path's average; 1 keeps the last one
	// only.
	Gain float64 `yaml:"gain"`
	// MaxAge is how old telemetry may be: a flow whose path has not been heard of
	// for longer goes where its hash says.
	MaxAge sim.Time `yaml:"max_age"`
	// ProbeInterval is how long a path may go without telemetry before a probe is
	// sent over it. 0 sends none: what is known comes with acknowledgements, of
	// paths in use only.
	ProbeInterval sim.Time `yaml:"probe_interval"`
	// SilentAfter is how long a probe may go unanswered before its path is taken to
	// have failed, and left until it answers (HULA, SOSR 2016, detects failures so):
	// more than a round trip, and than an interval for a probe that is lost alone to
	// do no harm. 0 waits for routing to say so. What comes back of a path from after
	// the probe left is an answer, too.
	SilentAfter sim.Time `yaml:"silent_after"`
	// ProbeBytes is a probe on the wire, each way: the least frame with preamble
	// and gap, 84 B, and five hops of telemetry, 42 B.
	ProbeBytes units.Bytes `yaml:"probe_bytes"`
}

// intPresets is the table of the presets.
var intPresets = []struct {
	name, about string
	make        func() INTConfig
}{
	{"flowlet", "moves flowlets, with margin, hold and two choices", flowletINT},
	{"greedy", "every packet to the least busy of all paths: it herds", greedyINT},
	{"message", "as flowlet, at the first packet of a message", messageINT},
	{"packet", "as flowlet, at any packet", packetINT},
}

// INTPresets lists the names of the presets.
func INTPresets() []string {
	names := make([]string, len(intPresets))
	for i, p := range intPresets {
		names[i] = p.name
	}
	return names
}

// SetPreset sets every field to that of the named preset. An unknown name leaves
// c alone and is an error that names the nearest one.
func (c *INTConfig) SetPreset(name string) error {
	for _, p := range intPresets {
		if p.name == name {
			*c = p.make()
			c.Preset = name
			return nil
		}
	}
	return unknownPreset(name, INTPresets())
}

// DefaultINT is the preset "message".
func DefaultINT() INTConfig {
	c := messageINT()
	c.Preset = "message"
	return c
}

func flowletINT() INTConfig {
	return INTConfig{
		Per: PerFlowlet, Scope: ScopeNIC, FlowletGap: 20 * sim.Microsecond, Margin: 0.1, Hold: 20 * sim.Microsecond, Damped: true,
		Choices: 2, Gain: 0.5, MaxAge: 200 * sim.Microsecond, ProbeInterval: 50 * sim.Microsecond, ProbeBytes: 126,
	}
}

func messageINT() INTConfig {
	c := flowletINT()
	c.Per = PerMessage
	return c
}

func packetINT() INTConfig {
	c := flowletINT()
	c.Per = PerPacket
	return c
}

func greedyINT() INTConfig {
	c := packetINT()
	c.Margin, c.Hold, c.Choices, c.Gain, c.Damped = 0, 0, 0, 1, false
	return c
}

// unknownPreset is the complaint about a name that is no preset.
func unknownPreset(name string, known []string) error {
	return fmt.Errorf("%q is not a known preset%s", name, config.Suggest(name, known))
}

func oneOf(ps *config.Problems, key, name string, known []string) {
	ps.Require(slices.Contains(known, name), key, "%q is unknown%s", name, config.Suggest(name, known))
}

// within requires low <= v <= high; a NaN is not.
func within[T cmp.Ordered](ps *config.Problems, key string, v, low, high T) {
	ps.Require(low <= v && v <= high, key, "%v is out of range; use %v to %v", v, low, high)
}

// Validate says what is wrong with c, as config.Problems, or nil.
func (c INTConfig) Validate() error {
	var ps config.Problems
	if c.Preset != "" {
		oneOf(&ps, "preset", c.Preset, INTPresets())
	}
	oneOf(&ps, "per", c.Per, []string{PerFlowlet, PerMessage, PerPacket})
	oneOf(&ps, "scope", c.Scope, []string{ScopeLeaf, ScopeNIC})
	within(&ps, "flowlet_gap", c.FlowletGap, 0, sim.Second)
	within(&ps, "margin", c.Margin, 0, 10)
	within(&ps, "hold", c.Hold, 0, sim.Second)
	within(&ps, "choices", c.Choices, 0, 64)
	within(&ps, "levels", c.Levels, 0, 1<<16)
	within(&ps, "gain", c.Gain, 1e-3, 1)
	within(&ps, "max_age", c.MaxAge, sim.Nanosecond, 10*sim.Second)
	if c.ProbeInterval != 0 {
		within(&ps, "probe_interval", c.ProbeInterval, sim.Nanosecond, 10*sim.Second)
	}
	if c.SilentAfter != 0 {
		within(&ps, "silent_after", c.SilentAfter, sim.Nanosecond, 10*sim.Second)
		ps.Require(c.ProbeInterval != 0, "silent_after", "%v without probes finds nothing out; write probe_interval, too", c.SilentAfter)
	}
	within(&ps, "probe_bytes", c.ProbeBytes, 1, 16384)
	return ps.Err()
}
