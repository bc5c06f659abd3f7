package experiment

import (
	"fmt"

	"github.com/tgssim/tgssim/serving"
)

// sampleNotes say what network.sample_layers left out and how far off that is, or
// why it left out nothing.
func sampleNotes(sample int, model string, layers int, usage []serving.PoolUsage) (notes []string) {
	if sample == 0 {
		return nil
	}
	ran := 0
	for i := range usage {
		u, x := &usage[i], &usage[i].Sampling
		ran += u.Steps
		if x.Steps == 0 {
			continue
		}
		text := fmt.Sprintf("network.sample_layers: %s steps simulated %.3g of %d MoE layers and took the others to last as long.",
			u.Pool, float64(x.Simulated)/float64(x.Steps), x.Layers/x.Steps)
		if x.Judged > 0 {
			step, mean := x.Errors()
			text += fmt.Sprintf(" By the spread of the samples the standard error is %s of a step, and %s of the mean of %d; "+
				"KV transfers and other instances met the simulated layers only, which is not in it.", percent(step), percent(mean), x.Judged)
		} else {
			text += " These are too few to tell the error."
		}
		notes = append(notes, text)
	}
	switch {
	case len(notes) > 0 || ran == 0:
		return notes
	case layers == 0:
		return append(notes, fmt.Sprintf("network.sample_layers changed nothing: %s has no MoE layers.", model))
	case sample >= layers:
		return append(notes, fmt.Sprintf("network.sample_layers %d changed nothing: %s has %d MoE layers.", sample, model, layers))
	}
	return append(notes, "network.sample_layers changed nothing: no step had enough MoE layers that dispatch to other GPUs.")
}

// percent is a fraction as a reader wants it.
func percent(v float64) string {
	switch {
	case v == 0:
		return "0 %"
	case v < 1e-4:
		return "under 0.01 %"
	case v >= 1:
		return fmt.Sprintf("%.0f %%", 100*v)
	}
	return fmt.Sprintf("%.2g %%", 100*v)
}
