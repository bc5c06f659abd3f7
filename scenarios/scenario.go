// Package scenarios composes the settings of all packages into one scenario,
// loads it strictly from YAML, and holds the library of ready-made ones.
package scenarios

import (
	"fmt"

	"github.com/tgssim/tgssim/compute"
	"github.com/tgssim/tgssim/congestion"
	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/fabric/packet"
	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/metrics"
	"github.com/tgssim/tgssim/serving"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
	"github.com/tgssim/tgssim/workload"
)

// A Scenario is everything that a run depends on. Two runs of equal scenarios
// give identical output.
type Scenario struct {
	// Description says in a line what the scenario shows.
	Description string `yaml:"description"`
	// Seed is where all randomness of a run comes from.
	Seed uint64 `yaml:"seed"`
	// Replication picks one of the independent repetitions of a seed, from 0. Two
	// scenarios of equal seed and replication draw the same random numbers for the
	// same purposes, however else they differ.
	Replication uint64 `yaml:"replication,omitempty"`
	// Model is the model served.
	Model Model `yaml:"model"`
	// GPU is what serves it.
	GPU GPU `yaml:"gpu"`
	// Cluster is the servers and the fabric between them.
	Cluster topology.Config `yaml:"cluster"`
	// Network is the engine that moves bytes.
	Network fabric.Config `yaml:"network"`
	// Packet and Congestion are NICs, switches and congestion control, in the
	// packet engine.
	Packet     packet.Config     `yaml:"packet"`
	Congestion congestion.Config `yaml:"congestion"`
	// Prefill, Decode and KV are the serving system.
	Serving serving.Config `yaml:",inline"`
	// Workload is the requests.
	Workload workload.Config `yaml:"workload"`
	// Run says when to stop.
	Run Run `yaml:"run"`
	// Metrics says how the run is measured.
	Metrics metrics.Config `yaml:"metrics"`
	// Measured is what was measured of a system like this one.
	Measured []Measurement `yaml:"measured,omitempty"`

	// Name is the library's or the file's name, without extension.
	Name    string `yaml:"-"`
	tree    *config.Tree
	derived []Derived
}

// Streams are the random streams of a run.
func (s *Scenario) Streams() sim.Streams {
	return sim.Streams{Seed: s.Seed, Replication: s.Replication}
}

// NetworkSeed seeds what the network draws and hashes: the seed itself for
// replication 0, another number for every other.
func (s *Scenario) NetworkSeed() uint64 {
	if s.Replication == 0 {
		return s.Seed
	}
	return s.Streams().Stream("network").Uint64()
}

// Model picks a model of the catalogue and its number formats.
type Model struct {
	// Name is a name of `tgssim list models`, or the path of a config.json of
	// Hugging Face: ending in .json, or beginning with ./, ../ or /.
	Name string `yaml:"name"`
	// Weights is the format of the weights: checkpoint (as published), bf16 or
	// fp8.
	Weights compute.DType `yaml:"weights"`
	// Activations is the format in which linear layers take their input, and of
	// their arithmetic: fp8, where the weights are fp8, or bf16; checkpoint is fp8
	// wherever the weights are. What travels to experts and back has formats of its
	// own: moe.dispatch_dtype and moe.combine_dtype.
	Activations compute.DType `yaml:"activations"`
	// KV is the format of the KV cache: bf16 or fp8.
	KV compute.DType `yaml:"kv"`
}

// Run bounds a run.
type Run struct {
	// Until stops the run at this instant, with requests left unfinished; 0 runs
	// until all requests are done.
	Until sim.Time `yaml:"until"`
}

// Default is the scenario that a file starts from. It names no model and no
// GPU.
func Default() Scenario {
	s := Scenario{
		Seed:       1,
		GPU:        GPU{Derate: compute.DefaultDerate},
		Model:      Model{KV: compute.BF16},
		Cluster:    topology.DefaultConfig(),
		Network:    fabric.DefaultConfig(),
		Packet:     packet.DefaultConfig(),
		Congestion: congestion.DefaultConfig(),
		Serving:    serving.DefaultConfig(),
		Workload:   workload.DefaultConfig(),
		Metrics:    metrics.DefaultConfig(),
	}
	s.Cluster.NVLinkRate = 0
	return s
}

// derive fills in what follows from other settings.
func (s *Scenario) derive() {
	if s.Cluster.NVLinkRate != 0 {
		return
	}
	gpu, _, _, err := s.GPU.Load()
	if err != nil { // Validate says so
		s.Cluster.NVLinkRate = topology.DefaultConfig().NVLinkRate
		return
	}
	s.Cluster.NVLinkRate = gpu.NVLinkRate()
}

// Validate checks every setting by itself. Whether they fit each other is found
// when a simulation is built from them.
func (s *Scenario) Validate() error {
	var ps config.Problems
	s.Model.validate(&ps)
	s.GPU.validate(&ps, s.Cluster.NVLinkRate)
	ps.Nest("cluster", s.Cluster.Validate())
	ps.Nest("network", s.Network.Validate())
	ps.Nest("packet", s.Packet.Validate())
	ps.Nest("congestion", s.Congestion.Validate())
	ps.Nest("", s.Serving.Validate())
	ps.Nest("workload", s.Workload.Validate())
	ps.Require(s.Run.Until >= 0 && s.Run.Until < sim.Never, "run.until", "%v is out of range: above 0s, or 0s to run to the end", s.Run.Until)
	ps.Nest("metrics", s.Metrics.Validate())
	for i, k := range s.Metrics.DecodeInstances {
		ps.Require(k < s.Serving.Decode.Instances, fmt.Sprintf("metrics.decode_instances[%d]", i),
			"%d: there are %d decode instances, counted from 0", k, s.Serving.Decode.Instances)
	}
	for i, m := range s.Measured {
		ps.Nest(fmt.Sprintf("measured[%d]", i), m.validate())
	}
	return ps.Err()
}

// Locate adds to the problems of err where their keys were written.
func (s *Scenario) Locate(err error) error {
	if s.tree == nil || err == nil {
		return err
	}
	return s.tree.Resolve(err)
}

// Written tells whether a key, or anything under it, was written in a file or
// set, rather than left to its default.
func (s *Scenario) Written(key string) bool { return s.tree != nil && s.tree.Where(key) != "" }

// Resolved is the scenario with every default written out, as YAML that loads
// back to the same scenario.
func (s *Scenario) Resolved() ([]byte, error) { return config.Marshal(s) }
