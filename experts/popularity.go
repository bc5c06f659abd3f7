package experts

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/tgssim/tgssim/internal/detmath"
)

// floorWeight is the least popularity of an expert over the mean: one that was
// never seen in a recording may still be chosen, where fewer than k are left.
const floorWeight = 1e-6

// Zipf returns the weights 1, 2**-alpha, 3**-alpha, ... of n experts.
func Zipf(n int, alpha float64) []float64 {
	w := make([]float64, n)
	for i := range w {
		w[i] = detmath.Pow(float64(i+1), -alpha)
	}
	return w
}

// popularity is the weights of the layers, in a numbering of the experts in which
// layers that differ only by arrangement are one: weights[i] are those of the
// i-th such law.
type popularity struct {
	balanced bool
	weights  [][]float64
	// law is the index of each layer's weights.
	law []int
	// expert[l][i] is the layer's expert that the law numbers i.
	expert [][]int32
}

// newPopularity arranges the weights. file is what kind file has read.
func newPopularity(c PopularityConfig, s Shape, file *Weights, rng *rand.Rand) (popularity, error) {
	p := popularity{law: make([]int, s.Layers)}
	shuffled := !c.SameLayers
	switch c.Kind {
	case PopularityZipf:
		sorted := Zipf(s.Experts, c.Alpha)
		w := make([]float64, s.Experts)
		for i, at := range rng.Perm(s.Experts) {
			w[at] = sorted[i]
		}
		p.weights = [][]float64{w}
	case PopularityFile:
		if err := file.fits(s); err != nil {
			return p, err
		}
		for _, layer := range file.Layers {
			p.weights = append(p.weights, floored(layer))
		}
		if len(p.weights) > 1 {
			shuffled = false
			for l := range p.law {
				p.law[l] = l
			}
		}
	default:
		p.balanced, shuffled = true, false
		w := make([]float64, s.Experts)
		for i := range w {
			w[i] = 1
		}
		p.weights = [][]float64{w}
	}
	for range s.Layers {
		if shuffled {
			p.expert = append(p.expert, arrange(s, rng))
		} else {
			p.expert = append(p.expert, identity(s.Experts))
		}
	}
	return p, nil
}

// floored scales the weights to a mean of 1 and raises the least of them.
func floored(weights []float64) []float64 {
	most, mean := slices.Max(weights), 0.
	for _, w := range weights {
		mean += w / most / float64(len(weights))
	}
	out := make([]float64, len(weights))
	for i, w := range weights {
		out[i] = max(w/most/mean, floorWeight)
	}
	return out
}

func identity(n int) []int32 {
	is := make([]int32, n)
	for i := range is {
		is[i] = int32(i)
	}
	return is
}

// arrange draws an arrangement of a layer that keeps groups together.
func arrange(s Shape, rng *rand.Rand) []int32 {
	groups := 1
	if s.limited() {
		groups = s.Groups
	}
	size := s.Experts / groups
	out := make([]int32, 0, s.Experts)
	for _, g := range rng.Perm(groups) {
		for _, e := range rng.Perm(size) {
			out = append(out, int32(g*size+e))
		}
	}
	return out
}

// fits checks that the file is for this model.
func (w *Weights) fits(s Shape) error {
	switch {
	case w == nil:
		return fmt.Errorf("the weights have not been read")
	case len(w.Layers) != 1 && len(w.Layers) != s.Layers:
		return fmt.Errorf("%s has weights for %d layers; the model has %d MoE layers, and one list for all is valid too",
			w.Name, len(w.Layers), s.Layers)
	case len(w.Layers[0]) != s.Experts:
		return fmt.Errorf("%s has weights for %d experts; the model has %d", w.Name, len(w.Layers[0]), s.Experts)
	}
	return nil
}
