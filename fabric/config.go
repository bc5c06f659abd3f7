package fabric

import (
	"errors"
	"fmt"
	"math"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/routing"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// Config chooses the engine that moves bytes and what a packet costs.
type Config struct {
	// Engine is how bytes move: "flow" (max-min fair fluids over the real links),
	// "ideal" (every transfer as if alone, limited by its end ports) or "packet"
	// (packets in queues).
	Engine string `yaml:"engine"`
	// MTU is the payload of a full packet. RoCEv2's largest path MTU is 4,096 B
	// (InfiniBand Architecture Specification 1.4, section 7.7.8).
	MTU units.Bytes `yaml:"mtu"`
	// Header is what each packet takes on the wire beside its payload. 82 B are
	// Ethernet 14, IPv4 20, UDP 8, BTH 12, ICRC 4, FCS 4, preamble 8 and gap 12:
	// 4,178 B for 4,096 B of payload, 98.037 % of the line rate.
	Header units.Bytes `yaml:"header"`
	// NVLinkEfficiency is the share of an NVLink's rate in the topology that is
	// payload, resolved to a millionth. It is 1 because the topology states
	// NVLink as a rate of payload (160 of 200 GB/s signalled on an H800, DeepEP).
	// Set it to 0.8 together with a topology in signalled rates.
	NVLinkEfficiency float64 `yaml:"nvlink_efficiency"`
	// ECMPSeed seeds the switches' hashes. 0 takes the run's seed, so that
	// replications sample hash placements; any other value holds them fixed.
	ECMPSeed uint64 `yaml:"ecmp_seed"`
	// SampleLayers is how many of the MoE layers of a step send their dispatches
	// and combines through the network, spread over the step; the others take as
	// long as those, and their bytes are booked. 0 simulates all of them, as does
	// a number that is not below the model's; two micro-batches need three. It is
	// for long runs with the packet engine: what it saves and what it costs is in
	// docs/performance.md. KV transfers meet only the layers that are simulated.
	SampleLayers int `yaml:"sample_layers"`
}

// Limits of a Config.
const (
	minMTU, maxMTU = 64, 64 * units.KiB
	maxHeader      = 4 * units.KiB
	million        = 1_000_000
	minEfficiency  = 1. / million
	// maxSampleLayers is more than any model has.
	maxSampleLayers = 1024
	// maxRate keeps a capacity in rateUnits within an int64.
	maxRate = 100 * units.Tbps
)

// engines is the table of engine names.
var engines = []struct {
	name string
	// contention is whether transfers share links.
	contention bool
}{
	{"flow", true},
	{"ideal", false},
	{EnginePacket, true},
}

// EnginePacket is the engine that this package does not make: its package needs
// more settings than Config.
const EnginePacket = "packet"

// EngineNames lists the valid values of Config.Engine.
func EngineNames() []string {
	names := make([]string, len(engines))
	for i, e := range engines {
		names[i] = e.name
	}
	return names
}

// DefaultConfig is the flow engine with RoCEv2 packets at MTU 4,096.
func DefaultConfig() Config {
	return Config{
		Engine:           "flow",
		MTU:              4096,
		Header:           82,
		NVLinkEfficiency: 1,
	}
}

// Validate says what is wrong with c, as config.Problems, or nil.
func (c Config) Validate() error {
	var ps config.Problems
	if _, ok := findEngine(c.Engine); !ok {
		ps.Addf("engine", "%q is not an engine%s", c.Engine, config.Suggest(c.Engine, EngineNames()))
	}
	ps.Require(c.MTU >= minMTU && c.MTU <= maxMTU, "mtu", "%v is out of range; use %dB to %v, such as 4096B", c.MTU, minMTU, maxMTU)
	ps.Require(c.Header >= 0 && c.Header <= maxHeader, "header", "%v is out of range; use 0 to %v, such as 82B", c.Header, maxHeader)
	ps.Require(c.SampleLayers >= 0 && c.SampleLayers <= maxSampleLayers, "sample_layers",
		"%d is out of range: 1 to %d layers, or 0 for all", c.SampleLayers, maxSampleLayers)
	ps.Require(c.NVLinkEfficiency >= minEfficiency && c.NVLinkEfficiency <= 1,
		"nvlink_efficiency", "%v is out of range; use a fraction above 0 up to 1, such as 0.8", c.NVLinkEfficiency)
	return ps.Err()
}

func findEngine(name string) (contention, ok bool) {
	for _, e := range engines {
		if e.name == name {
			return e.contention, true
		}
	}
	return false, false
}

// New returns a network over g that lives on the engine's clock. The seed is
// the run's, used where Config.ECMPSeed is 0. It fails when c is not valid or g
// has a link without a rate.
func New(c Config, engine *sim.Engine, g *topology.Graph, seed uint64) (Network, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Engine == EnginePacket {
		return nil, errors.New("the packet engine is made by package fabric/packet")
	}
	if c.ECMPSeed != 0 {
		seed = c.ECMPSeed
	}
	contention, _ := findEngine(c.Engine)
	n := &network{
		engine:     engine,
		graph:      g,
		paths:      routing.NewECMP(g, seed),
		contention: contention,
		mtuMilli:   1000 * int64(c.MTU),
		links:      make([]link, len(g.Links)),
		wires:      make([]wire, len(g.Links)),
		users:      make([][]user, len(g.Links)),
		carried:    make([][NumClasses]volume, len(g.Links)),
		place:      make([]int32, len(g.Links)),
	}
	n.demands = make([]demand, len(g.Links))
	if err := n.layWires(c); err != nil {
		return nil, err
	}
	n.handler = engine.Register(n)
	n.finishTimer = engine.NewTimer(n.handler, evFinish, 0)
	n.solveLane = engine.NewLane(0)
	n.finishArmed = sim.Never
	return n, nil
}

// layWires sets up what never changes about each link.
func (n *network) layWires(c Config) error {
	// A fabric has few kinds of links: each is worked out once. The map is looked
	// up, never ranged over.
	type kind struct {
		rate   units.Rate
		nvlink bool
	}
	kinds := map[kind]wire{}
	ppm := int64(math.RoundToEven(c.NVLinkEfficiency * million))
	for i := range n.graph.Links {
		l := &n.graph.Links[i]
		if l.Rate <= 0 || l.Rate > maxRate {
			return fmt.Errorf("link %s has rate %v; a fabric takes rates above 0 up to %v", l.Name, l.Rate, maxRate)
		}
		from, to := n.graph.Nodes[l.From].Kind, n.graph.Nodes[l.To].Kind
		k := kind{l.Rate, from == topology.KindGPU || to == topology.KindGPU}
		w, ok := kinds[k]
		if !ok {
			w = newWire(l.Rate, int64(c.MTU+c.Header), int64(c.MTU))
			if k.nvlink {
				w = newWire(l.Rate, million, ppm)
			}
			w.nvlink, w.packet = k.nvlink, w.time(n.mtuMilli)
			kinds[k] = w
		}
		w.port = k.nvlink || from == topology.KindNIC || to == topology.KindNIC
		n.wires[i] = w
		n.links[i].capacity = w.capacity()
		n.demands[i].limit = ceilBps(n.links[i].capacity)
		n.place[i] = -1
	}
	return nil
}
