package congestion

import (
	"math"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// The orders in which grants go round; see CreditConfig.Order.
const (
	// OrderRoundRobin gives every source one grant a turn.
	OrderRoundRobin = "round-robin"
	// OrderWeighted gives a source as many grants a turn as its weight.
	OrderWeighted = "weighted"
)

// CreditConfig is receiver credits: who wants to send asks, and whoever owns the
// bottleneck, the last link to the receiver, grants at the rate of that link.
// Sources: "RCCC" is the receiver-credit congestion control of Ultra Ethernet
// (uet-htsim; arXiv 2508.08906); "EQDS" is Olteanu et al., An edge-queued
// datagram service for all datacenter traffic, NSDI 2022; "DNX" the scheduled
// fabric of Broadcom's Jericho and Ramon.
type CreditConfig struct {
	// Preset names the set of constants to start from: see CreditPresets. What is
	// written beside it overrides it.
	Preset string `yaml:"preset"`
	// Quantum is what one grant allows, in bytes on the wire (RCCC: 4 packets per
	// pull; DNX: 256 to 8,192 B). Larger ones cost fewer messages and coarser
	// turns; with less than a packet each packet takes several.
	Quantum units.Bytes `yaml:"quantum"`
	// Speedup is the pace of grants over the rate of the link: slightly above 1,
	// an egress that has been idle for a moment catches up. What is too much is
	// held back by Outstanding.
	Speedup float64 `yaml:"speedup"`
	// Outstanding bounds what is granted and has not arrived, of all sources of a
	// link together, in bandwidth-delay products of the grant's round trip. What
	// exceeds one is the queue that may form; a little more than one keeps the
	// link busy when sources are at different distances.
	Outstanding float64 `yaml:"outstanding"`
	// SourceOutstanding is the same of one source: what a source that is busy
	// with other receivers may hoard.
	SourceOutstanding float64 `yaml:"source_outstanding"`
	// Push is what a source may send before any grant when it begins, in
	// bandwidth-delay products: it hides the round trip of asking from short
	// messages, and all N sources of an incast may use it at once (RCCC, EQDS,
	// NDP: 1). 0 asks first.
	Push float64 `yaml:"push"`
	// Order is who is granted next: "round-robin", every source once a turn, or
	// "weighted", each as often as its weight says.
	Order string `yaml:"order"`
	// KVWeight and EPWeight are the weight of a source of a traffic class with
	// "weighted": 1 and 3 give EP three quarters of a port that both want.
	KVWeight int `yaml:"kv_weight"`
	EPWeight int `yaml:"ep_weight"`
	// PerQueuePair multiplies the weight of a source by the number of its queue
	// pairs that have work, so that they have equal shares, whoever sends. Where
	// leaves are the sources, one with eight senders has no more than one with a
	// single sender otherwise.
	PerQueuePair bool `yaml:"per_queue_pair"`
	// Timeout is how long a source may be silent before what it was granted counts
	// as lost: grants or data that never arrived must not use up Outstanding for
	// ever. Well above the longest round trip with queues.
	Timeout sim.Time `yaml:"timeout"`
	// RequestBytes is how much a source may have ready to send without having
	// asked, while it waits for grants that it has asked for. 0 asks at once.
	RequestBytes units.Bytes `yaml:"request_bytes"`
	// MessageBytes is a request, grant or return on the wire: the least frame of
	// Ethernet with preamble and gap is 84 B.
	MessageBytes units.Bytes `yaml:"message_bytes"`
	// OnWires has these messages take their room on every link of their way, at
	// once when they are sent, before the data that waits there. Without it they
	// are counted and take the time that they need alone, as acknowledgements do.
	OnWires bool `yaml:"on_wires"`
}

// creditPresets is the table of the presets.
var creditPresets = presets[CreditConfig]{
	{"uec", "between NICs, after Ultra Ethernet's RCCC", uecCredit},
	{"voq", "between the edges of a scheduled fabric, with containers as the grant", voqCredit},
}

// CreditPresets lists the names of the presets.
func CreditPresets() []string { return creditPresets.names() }

// SetPreset sets every field to that of the named preset. An unknown name leaves
// c alone and is an error that names the nearest one.
func (c *CreditConfig) SetPreset(name string) error {
	return setPreset(c, &c.Preset, creditPresets, name)
}

// DefaultCredit is the preset "uec".
func DefaultCredit() CreditConfig {
	c := uecCredit()
	c.Preset = "uec"
	return c
}

// uecCredit has uet-htsim's four packets per pull, of 4,096 B of payload with up
// to 128 B of headers, and its first window of one bandwidth-delay product. The
// bounds on what is outstanding are derived: 1.5 products are uet-htsim's largest
// window.
func uecCredit() CreditConfig {
	return CreditConfig{
		Quantum: 4 * (4096 + 128), Speedup: 1,
		Outstanding: 1.5, SourceOutstanding: 1.5, Push: 1,
		Order: OrderRoundRobin, KVWeight: 1, EPWeight: 1, PerQueuePair: true, Timeout: 500 * sim.Microsecond,
		MessageBytes: 84, OnWires: true,
	}
}

// voqCredit grants containers of 16 KiB at 1.02 of the link's rate.
func voqCredit() CreditConfig {
	c := uecCredit()
	c.Quantum, c.Speedup, c.RequestBytes = 16*units.KiB, 1.02, 16*units.KiB
	return c
}

// Validate says what is wrong with c, as config.Problems, or nil.
func (c CreditConfig) Validate() error {
	var ps config.Problems
	if c.Preset != "" {
		oneOf(&ps, "preset", c.Preset, CreditPresets())
	}
	within(&ps, "quantum", c.Quantum, 64, 16*units.MiB)
	within(&ps, "speedup", c.Speedup, 0.1, 10)
	within(&ps, "outstanding", c.Outstanding, 0.01, 1000)
	within(&ps, "source_outstanding", c.SourceOutstanding, 0.01, 1000)
	within(&ps, "push", c.Push, 0, 1000)
	oneOf(&ps, "order", c.Order, []string{OrderRoundRobin, OrderWeighted})
	within(&ps, "kv_weight", c.KVWeight, 1, 1000)
	within(&ps, "ep_weight", c.EPWeight, 1, 1000)
	within(&ps, "timeout", c.Timeout, sim.Microsecond, 10*sim.Second)
	within(&ps, "request_bytes", c.RequestBytes, 0, units.GiB)
	within(&ps, "message_bytes", c.MessageBytes, 1, 4096)
	return ps.Err()
}

// product is so many bandwidth-delay products.
func product(times float64, r units.Rate, t sim.Time) units.Bytes {
	return units.Bytes(math.RoundToEven(times * r.BytesPerPicosecond() * float64(t)))
}

// PushBytes is Push for sources that send at a rate, and hear of grants a round
// trip after they ask.
func (c CreditConfig) PushBytes(line units.Rate, rtt sim.Time) units.Bytes {
	return product(c.Push, line, rtt)
}
