// Package experiment turns scenarios into runs.
package experiment

import (
	"crypto/sha256"
	"errors"
	"math"
	"strings"

	"github.com/tgssim/tgssim/collective"
	"github.com/tgssim/tgssim/compute"
	"github.com/tgssim/tgssim/congestion"
	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/fabric/packet"
	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/metrics"
	"github.com/tgssim/tgssim/scenarios"
	"github.com/tgssim/tgssim/serving"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
	"github.com/tgssim/tgssim/workload"
)

// A Simulation is a scenario ready to run, once.
type Simulation struct {
	Scenario *scenarios.Scenario
	Model    *compute.Model
	Engine   *sim.Engine
	Graph    *topology.Graph
	Network  fabric.Network
	Cluster  *serving.Cluster
	Source   workload.Source
	// Prefill and Decode are the cost models of one attention rank.
	Prefill, Decode *compute.Rank
	// GPUNotes are sentences on the GPU that a reader of the results should know.
	GPUNotes []string

	collector *metrics.Collector
	total     int // requests that will arrive; 0 when unknown
	inputs    []Input
}

// Build wires a scenario up. It fails with config.Problems that say where the
// offending keys were written.
func Build(s *scenarios.Scenario, options ...sim.Option) (*Simulation, error) {
	return BuildWith(s, &Traces{}, options...)
}

// BuildWith is Build with traces that other simulations may use as well.
func BuildWith(s *scenarios.Scenario, traces *Traces, options ...sim.Option) (*Simulation, error) {
	b, err := build(s, traces, options)
	if err != nil {
		return nil, s.Locate(err)
	}
	return b, nil
}

func build(s *scenarios.Scenario, traces *Traces, options []sim.Option) (*Simulation, error) {
	var ps config.Problems
	model, structure, err := s.Model.Load()
	if err != nil {
		ps.Nest("model.name", err)
		return nil, ps
	}
	gpu, file, notes, err := s.GPU.Load()
	if err != nil {
		ps.Nest("gpu.name", err)
		return nil, ps
	}
	b := &Simulation{Scenario: s, Model: model, GPUNotes: notes, Engine: sim.New(options...)}
	b.Prefill, err = newRank(s, gpu, model, &s.Serving.Prefill, 0)
	nestRank(&ps, "prefill", err)
	overlap, err := newRank(s, gpu, model, &s.Serving.Prefill, s.Serving.Prefill.CommSMs)
	if b.Prefill != nil {
		nestRank(&ps, "prefill", err)
	}
	b.Decode, err = newRank(s, gpu, model, &s.Serving.Decode, 0)
	nestRank(&ps, "decode", err)
	if b.Graph, err = topology.LeafSpine(s.Cluster); err != nil {
		ps.Nest("cluster", err)
		return nil, ps
	}
	streams := s.Streams()
	b.Network, err = newNetwork(s.Network, s.Packet, s.Congestion, s.NetworkSeed(), b.Engine, b.Graph)
	ps.Nest("", err)
	if err := ps.Err(); err != nil {
		return nil, err
	}
	var requests *workload.Generator
	requests, b.inputs, err = loadWorkload(s, traces)
	if file != nil {
		b.inputs = append(b.inputs, Input{Path: s.GPU.Name, Bytes: int64(len(file)), SHA256: sha256.Sum256(file)})
	}
	if structure != nil {
		b.inputs = append(b.inputs, Input{Path: s.Model.Name, Bytes: int64(len(structure)), SHA256: sha256.Sum256(structure)})
	}
	ps.Nest("workload", err)
	weights, err := b.readWeights()
	ps.Nest("", err)
	if err := ps.Err(); err != nil {
		return nil, err
	}
	b.Source = requests.Source(streams)
	b.total = expected(s, b.Source.Stats().Trace)
	b.collector = metrics.NewCollector(s.Metrics)
	b.Cluster, err = serving.New(serving.Options{
		Config:  s.Serving,
		Engine:  b.Engine,
		Network: b.Network,
		Graph:   b.Graph,
		Source:  b.Source,

		Prefill:        b.Prefill,
		PrefillOverlap: overlap,
		Decode:         b.Decode,

		Experts:        routed(model),
		PrefillWeights: weights[0],
		DecodeWeights:  weights[1],

		Hidden:       model.Hidden,
		KVPieces:     kvPieces(model, s.Serving.Decode.MTP.DraftLayers()),
		SampleLayers: s.Network.SampleLayers,

		NVLinkRate: units.Rate(math.RoundToEven(float64(s.Cluster.NVLinkRate) * s.Network.NVLinkEfficiency)),
		Streams:    streams,
		Listener:   b.collector.Listener(),
	})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// newNetwork makes the engine that f names.
func newNetwork(f fabric.Config, p packet.Config, c congestion.Config, seed uint64,
	e *sim.Engine, g *topology.Graph) (fabric.Network, error) {
	if f.Engine == fabric.EnginePacket {
		return packet.New(packet.Settings{Packet: p, Fabric: f, Congestion: c}, e, g, seed)
	}
	n, err := fabric.New(f, e, g, seed)
	var ps config.Problems
	ps.Nest("network", err)
	return n, ps.Err()
}

// expected is the number of requests that a workload will bring, if it can be
// known beforehand.
func expected(s *scenarios.Scenario, t workload.TraceStats) int {
	if s.Workload.Trace != nil {
		return t.Rows - t.Skipped - t.Dropped - t.Unplayed
	}
	if s.Workload.Duration == 0 {
		return s.Workload.Requests
	}
	return 0
}

func newRank(s *scenarios.Scenario, gpu *compute.Profile, model *compute.Model, pool *serving.PoolConfig, commSMs int) (*compute.Rank, error) {
	setup := compute.Setup{
		GPU: gpu, Model: model, TP: pool.TP, EP: 1,
		Weights: s.Model.Weights, KV: s.Model.KV,
		Activations: s.Model.Activations,
		DraftLayers: s.Serving.Decode.MTP.DraftLayers(),
		CommSMs:     commSMs,
		Derate:      s.GPU.Derate,
		Utilisation: s.Serving.KV.Utilisation,

		LocalPermute: pool.MoE.Mode == collective.ModeAllGather,
	}
	if model.MoE != nil {
		setup.EP = pool.TP * pool.DP
		if r := pool.MoE.Routing; r != nil {
			setup.RedundantExperts = r.Placement.Redundant
		}
	}
	return compute.NewRank(setup)
}

// nestRank records the problems of a compute.Setup under the keys of a scenario:
// a pool's EP is TP x DP, and some settings are not of the pool.
func nestRank(ps *config.Problems, pool string, err error) {
	var inner config.Problems
	if !errors.As(err, &inner) {
		ps.Nest(pool, err)
		return
	}
	elsewhere := map[string]string{
		"utilisation": "kv.memory_utilisation", "derate": "gpu.derate", "kv": "model.kv", "weights": "model.weights",
		"redundant_experts": pool + ".moe.routing.placement.redundant",
		"activations":       "model.activations", "draft_layers": "decode.mtp.layers_per_draft",
	}
	for _, p := range inner {
		key := pool + "." + p.Key
		switch {
		case elsewhere[p.Key] != "":
			key = elsewhere[p.Key]
		case p.Key == "ep":
			key = pool + ".dp"
			if strings.HasPrefix(p.Message, "must ") {
				p.Message = "tp x dp, the GPUs that share the experts, " + p.Message +
					"; copies of experts (" + pool + ".moe.routing.placement.redundant) allow others"
			}
		}
		ps.Addf(key, "%s", p.Message)
	}
}

// routed is the routing arithmetic of the model's MoE layers.
func routed(m *compute.Model) collective.Experts {
	if m.MoE == nil {
		return collective.Experts{}
	}
	return collective.Experts{
		Count: m.MoE.Experts, TopK: m.MoE.TopK, Groups: m.MoE.Groups, GroupLimit: m.MoE.TopGroups, Hidden: m.Hidden,
	}
}

// kvPieces is the number of contiguous pieces of one KV block: MLA keeps one
// latent per layer, GQA keys and values; the layers of the drafting module have
// theirs.
func kvPieces(m *compute.Model, draftLayers int) int {
	layers := m.Layers + draftLayers
	if m.Attention.Kind == compute.MLA {
		return layers
	}
	return 2 * layers
}
