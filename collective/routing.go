package collective

import (
	"github.com/tgssim/tgssim/experts"
	"github.com/tgssim/tgssim/internal/config"
)

// Routing says which experts tokens choose, from step to step, and where those
// are. Without it all experts are equally popular, every step is the expectation,
// and load is balanced but for Config.Imbalance.
type Routing struct {
	experts.Config `yaml:",inline"`
	// SampleLayers is how many of a step's MoE layers have choices of their own,
	// evenly spread over the step; each stands for the layers up to the next. Over
	// as many steps as that are, every layer has its turn. 0 draws all, which
	// takes five to six times as long as 8 of 58; see docs/performance.md. The mean
	// of a run does not depend on it; steps vary more from one to the next with
	// fewer layers.
	SampleLayers int `yaml:"sample_layers"`
}

// DefaultRouting draws the counts of eight layers of a step; the rest is
// experts.Default.
func DefaultRouting() Routing {
	r := Routing{Config: experts.Default(), SampleLayers: 8}
	r.Counts = experts.CountAggregate
	return r
}

// SetDefaults fills in DefaultRouting.
func (r *Routing) SetDefaults() { *r = DefaultRouting() }

// Validate checks what can be checked without model and cluster.
func (r Routing) Validate() error {
	var ps config.Problems
	ps.Nest("", r.Config.Validate())
	ps.Require(r.SampleLayers >= 0 && r.SampleLayers <= 1024, "sample_layers",
		"%d is out of range: 1 to 1024, or 0 for every layer", r.SampleLayers)
	return ps.Err()
}
