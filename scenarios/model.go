package scenarios

import (
	"errors"

	"github.com/tgssim/tgssim/compute"
	"github.com/tgssim/tgssim/internal/config"
)

// Load reads the model. file is the text of the config.json, nil for a model of
// the catalogue.
func (m *Model) Load() (model *compute.Model, file []byte, err error) {
	return compute.OpenModel(m.Name)
}

func (m *Model) validate(ps *config.Problems) {
	ps.Require(m.KV != compute.AsCheckpoint, "model.kv", "checkpoints hold no KV cache: write bf16 or fp8")
	for _, f := range []struct {
		key   string
		value compute.DType
	}{{"weights", m.Weights}, {"activations", m.Activations}, {"kv", m.KV}} {
		ps.Require(f.value != compute.MXFP4, "model."+f.key, "mxfp4 is of experts alone, as in their checkpoint: write bf16 or fp8")
	}
	if m.Name == "" {
		ps.Addf("model.name", "is missing: write one of `tgssim list models`, or the path of a config.json")
		return
	}
	_, _, err := m.Load()
	var inFile config.Problems // with places of their own
	switch {
	case errors.As(err, &inFile):
		ps.Nest("model.name", err)
	case err != nil:
		ps.Addf("model.name", "%v", err)
	}
}
