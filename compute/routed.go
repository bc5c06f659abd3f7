package compute

import (
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// Milli is one in the counts of an ExpertLoad.
const Milli = 1000

// An ExpertLoad is what the experts of one GPU have to do in one layer of one
// step. Counts are in thousandths.
type ExpertLoad struct {
	// Rows is the tokens of each expert that the GPU holds, copies included.
	Rows []int64
	// Unique is the tokens that visit at least one of them; -1 where that is not
	// known, for the number with independent choices.
	Unique int64
	// Tokens is those of the whole group.
	Tokens int64
	// Expected tells that Rows are expectations: then an expert is visited by no
	// token in some steps, and a fraction of a row is no row of its own.
	Expected bool
}

// ExpertsOf returns the time of the routed experts of one layer on a GPU with a
// load of its own; 0 without rows. For a load that is the same on all experts of
// all GPUs it is that of Experts: an expert that no token visits is not read, and
// the rows of every other are padded to the kernel's tile.
func (r *Rank) ExpertsOf(prefill bool, l ExpertLoad) sim.Time {
	if r.model.MoE == nil {
		return 0
	}
	g := groupLoad{l: &l}
	for _, n := range l.Rows {
		if n <= 0 {
			continue
		}
		g.rows += float64(n)
		g.active += l.visited(n)
	}
	if g.rows == 0 {
		return 0
	}
	g.rows /= Milli
	unique := float64(l.Unique) / Milli
	if l.Unique < 0 {
		tokens, topK := float64(l.Tokens)/Milli, int64(r.model.MoE.TopK)
		unique = float64(tokens * (1 - power(1-1/float64(r.setup.EP), topK)))
	}
	return r.time(r.routed(prefill, &g, unique))
}

// visited is the share of steps in which an expert with so many thousandths of a
// row is visited.
func (l *ExpertLoad) visited(rows int64) float64 {
	if !l.Expected || rows >= l.Tokens {
		return 1
	}
	return 1 - power(1-float64(rows)/float64(l.Tokens), l.Tokens/Milli)
}

// groupLoad is a load as a grouped GEMM takes it: rows in all, and the number of
// experts that are visited. Without l, all of these have as many rows.
type groupLoad struct {
	l            *ExpertLoad
	rows, active float64
}

// padded is the rows that are computed when those of each expert are rounded up
// to whole pads.
func (g *groupLoad) padded(pad int) float64 {
	sum := 0.
	for _, n := range g.l.Rows {
		if n <= 0 {
			continue
		}
		if !g.l.Expected {
			sum += padded(float64(n)/Milli, pad)
			continue
		}
		visited := g.l.visited(n)
		// Expectations are sums of rounded ones: a tenth of a row is none.
		sum += float64(visited * padded(float64(n)/Milli/visited-0.1, pad))
	}
	return sum
}

// groupedLoad is the time of a grouped GEMM with rows of its own for each expert,
// in microseconds.
func (p *Profile) groupedLoad(contiguous bool, f formats, share float64, g *groupLoad, k, n float64) float64 {
	if g.l == nil {
		return p.grouped(contiguous, f, share, g.active, g.rows/g.active, k, n)
	}
	c := &p.Kernels.GroupedMasked.Constants
	if contiguous {
		c = &p.Kernels.GroupedContiguous.Constants
	}
	read := float64(f.activations.size()*g.rows*k) + float64(f.weights.size()*g.active*n*k)
	return p.gemmTime(c, f.activations, share, gemm{rows: g.padded(c.PadM), n: n, k: k, bytes: read + float64(2*g.rows*n)})
}

// ExpertBytes returns the memory of one routed expert of one layer, scale factors
// and biases included: what moves when an expert changes GPUs. 0 without experts.
func (r *Rank) ExpertBytes() units.Bytes {
	e := r.model.MoE
	if e == nil {
		return 0
	}
	biases := r.model.mlpBiases(e.Intermediate)
	return quantised(r.setup.ExpertWeights, r.model.mlpWeights(e.Intermediate)-biases) + units.Bytes(2*biases)
}
