package compare

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/tgssim/tgssim/sweep"
)

// Paired is a measure of two scenarios over the replications that have it in
// both. Replication r of one draws the same random numbers as replication r of the
// other, so what is estimated is the mean of the differences within replications,
// which is far less uncertain than either mean.
type Paired struct {
	// N is the number of replications that have the measure in both.
	N int
	// A and B are the means; Diff is that of B - A.
	A, B, Diff float64
	// Half is half the 95 % confidence interval of Diff, by Student's t distribution
	// with N-1 degrees of freedom; undefined for N < 2.
	Half float64
	// Detectable is the true difference that N replications that scatter like these
	// would find significant with a probability of 80 %: (t(0.975) + t(0.8)) s/sqrt(N)
	// (Bloom, "Minimum detectable effects", Evaluation Review 19, 1995); undefined
	// for N < 2.
	Detectable float64
}

// power is the probability of Detectable.
const power = 0.8

// pairUp compares two series of which element r is from replication r.
func pairUp(a, b []float64) Paired {
	n := len(a)
	d := make([]float64, n)
	for i := range d {
		d[i] = b[i] - a[i]
	}
	m := sweep.MeanOf(d)
	p := Paired{N: n, A: sweep.MeanOf(a).Mean, B: sweep.MeanOf(b).Mean, Diff: m.Mean, Half: m.Half}
	if n > 1 && m.Half > 0 {
		t := distuv.StudentsT{Sigma: 1, Nu: float64(n - 1)}
		p.Detectable = m.Half * (1 + t.Quantile(power)/t.Quantile(0.975))
	}
	return p
}

// Significant tells that the interval does not contain 0.
func (p *Paired) Significant() bool { return p.N > 1 && math.Abs(p.Diff) > p.Half }

// Relative is the difference over the mean of A; ok is false when that is 0.
func (p *Paired) Relative() (x float64, ok bool) {
	if p.A == 0 {
		return 0, false
	}
	return p.Diff / math.Abs(p.A), true
}
