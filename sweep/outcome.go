package sweep

import (
	"encoding/json"
	"strconv"

	"github.com/tgssim/tgssim/experiment"
	"github.com/tgssim/tgssim/scenarios"
	"github.com/tgssim/tgssim/topology"
)

// An Outcome is what became of one run.
type Outcome struct {
	// Point and Replication say which, both from 0.
	Point       int `json:"point"`
	Replication int `json:"replication"`
	// Error is why there are no results; "" when there are.
	Error string `json:"error,omitempty"`
	// Scenario is the SHA-256 of the text of the point's scenario; "" when there is
	// none.
	Scenario string `json:"scenario_sha256,omitempty"`
	// Seed is the scenario's.
	Seed uint64 `json:"seed"`
	// Cluster is what was built; nil when nothing could be.
	Cluster *Cluster `json:"cluster,omitempty"`
	// Fingerprint is the hash of the trajectory, 16 hexadecimal digits.
	Fingerprint string `json:"fingerprint,omitempty"`
	Events      uint64 `json:"events,omitempty"`
	// Summary is the run's metrics.Summary.
	Summary json.RawMessage `json:"summary,omitempty"`
	// WallS is what the run took, in seconds.
	WallS float64 `json:"wall_s"`
}

// A Cluster is the hardware of a point in numbers.
type Cluster struct {
	Nodes  int `json:"nodes"`
	GPUs   int `json:"gpus"`
	Leaves int `json:"leaves"`
	Spines int `json:"spines"`
	// UplinksPerLeaf and Oversubscription are those that were built; the latter is
	// nil without spines.
	UplinksPerLeaf   int      `json:"uplinks_per_leaf"`
	Oversubscription *float64 `json:"oversubscription"`
	// PrefillInstances and DecodeInstances are the pools, with their GPUs.
	PrefillInstances int `json:"prefill_instances"`
	PrefillGPUs      int `json:"prefill_gpus"`
	DecodeInstances  int `json:"decode_instances"`
	DecodeGPUs       int `json:"decode_gpus"`
}

// ClusterOf describes the cluster of a scenario and its graph.
func ClusterOf(s *scenarios.Scenario, g *topology.Graph) *Cluster {
	c := &Cluster{
		Nodes: g.Servers(), GPUs: g.GPUs(), Leaves: g.Leaves(), Spines: g.Spines(),
		PrefillInstances: s.Serving.Prefill.Instances, PrefillGPUs: s.Serving.Prefill.GPUs(),
		DecodeInstances: s.Serving.Decode.Instances, DecodeGPUs: s.Serving.Decode.GPUs(),
	}
	if c.Spines > 0 {
		o := g.Oversubscription()
		c.UplinksPerLeaf, c.Oversubscription = g.UplinksPerLeaf(), &o
	}
	return c
}

// succeed records the results.
func (o *Outcome) succeed(r *experiment.Result) error {
	text, err := json.Marshal(r.Summary)
	if err != nil {
		return err
	}
	o.Summary, o.Events = text, r.Events
	o.Fingerprint = strconv.FormatUint(r.Fingerprint, 16)
	for len(o.Fingerprint) < 16 {
		o.Fingerprint = "0" + o.Fingerprint
	}
	return nil
}
