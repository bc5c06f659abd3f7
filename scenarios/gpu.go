package scenarios

import (
	"errors"

	"github.com/tgssim/tgssim/compute"
	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
)

// GPU picks a GPU profile, and what to change of it.
type GPU struct {
	// Name is a name of `tgssim list gpus`, or the path of a profile file: with a
	// slash, or ending in .yaml or .yml.
	Name string `yaml:"name"`
	// Derate multiplies every kernel time: kernels in a running system are
	// slower than in a benchmark by 3 to 11 %.
	Derate float64 `yaml:"derate"`
	// Override asks what if: numbers that replace the profile's.
	compute.Override `yaml:",inline"`
}

// Load reads the profile and changes what the scenario changes of it. file is the
// text of the user's own profile, nil for one of the catalogue; notes are what a
// reader of results should know of the GPU.
func (g *GPU) Load() (p *compute.Profile, file []byte, notes []string, err error) {
	p, file, err = compute.OpenProfile(g.Name)
	if err != nil {
		return nil, nil, nil, err
	}
	if u := p.Unfitted(); u != "" {
		notes = append(notes, u)
	}
	return g.Apply(p), file, append(notes, g.Changes(p)...), nil
}

// validate reports what is wrong, nvlink being the cluster's rate.
func (g *GPU) validate(ps *config.Problems, nvlink units.Rate) {
	ps.Require(g.Derate >= 0.5 && g.Derate <= 10, "gpu.derate", "%v is out of range: 0.5 to 10", g.Derate)
	ps.Nest("gpu", g.Override.Validate())
	if g.Name == "" {
		ps.Addf("gpu.name", "is missing: write one of `tgssim list gpus`, or the path of a profile file")
		return
	}
	p, _, _, err := g.Load()
	if err != nil {
		var inFile config.Problems // with places of their own
		if errors.As(err, &inFile) {
			ps.Nest("gpu.name", err)
		} else {
			ps.Addf("gpu.name", "%v", err)
		}
		return
	}
	ps.Require(g.PeakFP8 == nil || p.Kernels.GEMMFP8.Constants != (compute.GEMM{}), "gpu.peak_fp8",
		"%s has no FP8 arithmetic; one that has needs the gemm_fp8 of a profile file", p.Name)
	ps.Require(g.NVLink == nil || nvlink == p.NVLinkRate(), "gpu.nvlink",
		"has no effect: cluster.nvlink_rate is %v, where gpu.nvlink would make it %v; write one of them", nvlink, p.NVLinkRate())
}
