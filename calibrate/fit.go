package calibrate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tgssim/tgssim/compute"
	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/detmath"
)

const (
	// folds is into how many parts the shapes of a class are divided; each is
	// predicted by a fit of the others.
	folds = 5
	// leastNoise is the deviation below which no measurement is believed.
	leastNoise = 0.01
	// decided is the posterior deviation, in widths of the prior, above which a
	// constant keeps the base's value.
	decided = 0.25
	// needed is the loss in variances of a residual that a constant must save to be
	// fitted where it is not determined: that of three standard deviations.
	needed = 4.5
	// huberFactor is the threshold of Huber's loss in standard deviations: 95 %
	// efficient where the residuals are normal (Huber 1964).
	huberFactor = 1.345
	// normalMAD is the standard deviation of a normal distribution over its
	// median absolute deviation.
	normalMAD = 1.4826
	// mostError is the largest error in percent that a profile can hold.
	mostError = 1000
	// hopeless is the median error in percent of a class that is not fitted after
	// all.
	hopeless = 50
)

// Fit fits the classes of which the table has enough rows, on top of base, which
// is not changed. The error is config.Problems when the table has rows that base
// cannot compute.
func Fit(t *Table, base *compute.Profile) (*Result, error) {
	for _, row := range t.Rows {
		if !base.ComputesFP8() && row.computesFP8() {
			return nil, config.Problems{{
				Where: fmt.Sprintf("%s:%d", t.File, row.Line), Key: dtypeColumn,
				Message: fmt.Sprintf("%s computes in fp8, and %s has no FP8 arithmetic: start from another profile", row.Kernel.Class, base.Name),
			}}
		}
	}
	p := *base
	r := &Result{
		Profile: &p, File: t.File, SHA256: t.SHA256, Base: base.Name,
		Rows: len(t.Rows), OtherGPUs: t.OtherGPUs,
		Ignored: append([]string{}, t.Ignored...), Outliers: []Outlier{}, // not null in JSON
	}
	p.Calibration = &compute.Calibration{File: t.File, SHA256: t.SHA256, Rows: len(t.Rows), Base: base.Name}
	for _, c := range classes() {
		f := newClassFit(c, t, base)
		r.Classes = append(r.Classes, f.run(&p))
		r.Outliers = append(r.Outliers, f.outliers(&p)...)
		f.record(&p, &r.Classes[len(r.Classes)-1])
	}
	slices.SortStableFunc(r.Outliers, func(a, b Outlier) int { return a.Line - b.Line })
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("the fitted profile is not valid: %w", err)
	}
	return r, nil
}

// A classFit is the fit of one class to its rows.
type classFit struct {
	class
	table *Table
	base  *compute.Profile
	rows  []Row
	// logs are the logarithms of the measured times.
	logs   []float64
	shapes int
	fitted bool
}

func newClassFit(c class, t *Table, base *compute.Profile) *classFit {
	f := &classFit{class: c, table: t, base: base}
	for _, row := range t.Rows {
		if row.Kernel.Class == c.name {
			f.rows = append(f.rows, row)
		}
	}
	// Sums are then the same whatever the order of the file.
	slices.SortFunc(f.rows, func(a, b Row) int {
		return cmp.Or(strings.Compare(a.shape, b.shape), cmp.Compare(a.Microseconds, b.Microseconds), a.Line-b.Line)
	})
	for i, row := range f.rows {
		f.logs = append(f.logs, detmath.Log(row.Microseconds))
		if i == 0 || row.shape != f.rows[i-1].shape {
			f.shapes++
		}
	}
	return f
}

// run fits the class into p.
func (f *classFit) run(p *compute.Profile) ClassResult {
	res := ClassResult{Class: f.name, Rows: len(f.rows), Shapes: f.shapes}
	switch {
	case len(f.rows) == 0:
		res.Kept = "no rows"
		return res
	case f.shapes < f.least():
		res.Kept = fmt.Sprintf("%s where %d are needed", count(f.shapes, "distinct shape"), f.least())
		res.Base = f.errors(f.base, f.rows)
		return res
	}
	res.Base = f.errors(f.base, f.rows)
	moving, kept := f.movable()
	moving, sd := f.fitDetermined(p, moving, kept)
	if len(moving) == 0 {
		res.Kept = "the shapes determine none of the constants"
		return res
	}
	f.round(p, moving)
	res.Fitted = f.errors(p, f.rows)
	if res.Fitted.Median > hopeless {
		res.Kept = fmt.Sprintf("the median error after the fit is still %.0f %%: are the units right, and the peaks of %s?", res.Fitted.Median, f.base.Name)
		res.Fitted = nil
		for _, k := range moving {
			f.constants[k].set(p, f.constants[k].get(f.base))
		}
		return res
	}
	f.fitted = true
	res.HeldOut = f.heldOut(p, moving)
	res.Constants = f.describe(p, moving, kept, sd)
	return res
}

// fitDetermined fits the moving constants, and moves back to the base, into kept,
// those that the rows do not determine. It returns the rest, with their standard
// deviations in widths of the prior.
func (f *classFit) fitDetermined(p *compute.Profile, moving []int, kept map[int]string) ([]int, []float64) {
	drop := func(j int) {
		k := moving[j]
		kept[k] = "the shapes do not determine it"
		f.constants[k].set(p, f.constants[k].get(f.base))
		moving = slices.Delete(moving, j, j+1)
	}
	for {
		f.solve(p, moving, f.rows, f.logs, true)
		noise := f.noise(p)
		sd := f.deviations(p, moving, noise)
		worst := -1
		for j := range sd {
			if sd[j] > decided && (worst < 0 || sd[j] > sd[worst]) {
				worst = j
			}
		}
		if worst < 0 {
			worst = f.dispensable(p, moving, noise)
		}
		if worst < 0 {
			return moving, sd
		}
		drop(worst)
	}
}

// dispensable returns the first moving constant without which the rows are
// explained as well, and which they do not determine at the base's value either;
// -1 when there is none. A form may look steep at a value that noise has led to.
func (f *classFit) dispensable(p *compute.Profile, moving []int, noise float64) int {
	threshold := float64(huberFactor * noise)
	with := loss(f.residuals(p), threshold)
	for j, k := range moving {
		c := &f.constants[k]
		q := *p
		c.set(&q, c.effective(f.base))
		if !(f.deviations(&q, moving, noise)[j] > decided) {
			continue
		}
		c.set(&q, c.get(f.base))
		f.solve(&q, slices.Delete(slices.Clone(moving), j, j+1), f.rows, f.logs, true)
		if worse := loss(f.residuals(&q), threshold) - with; worse < float64(needed*noise*noise) {
			return j
		}
	}
	return -1
}

// movable lists the constants that have rows of their format, and says why of the
// others.
func (f *classFit) movable() (moving []int, kept map[int]string) {
	has := map[compute.DType]bool{}
	for _, row := range f.rows {
		has[row.Kernel.DType] = true
	}
	kept = map[int]string{}
	for k, c := range f.constants {
		if c.only != 0 && !has[c.only] {
			kept[k] = fmt.Sprintf("no rows with %v KV", c.only)
			continue
		}
		moving = append(moving, k)
	}
	return moving, kept
}

// problem is the fit of the moving constants of p to rows.
func (f *classFit) problem(p *compute.Profile, moving []int, rows []Row, logs []float64) *problem {
	q := &problem{rows: len(rows)}
	for _, k := range moving {
		q.low = append(q.low, f.constants[k].low/f.constants[k].width)
		q.high = append(q.high, f.constants[k].high/f.constants[k].width)
	}
	q.residuals = func(x, r []float64) {
		for j, k := range moving {
			f.constants[k].set(p, float64(x[j]*f.constants[k].width))
		}
		for i := range rows {
			r[i] = logTime(p, &rows[i].Kernel) - logs[i]
		}
	}
	return q
}

// solve moves the constants of p to where they fit the rows best, starting from
// where they are and, if asked, from typical values.
func (f *classFit) solve(p *compute.Profile, moving []int, rows []Row, logs []float64, again bool) {
	if len(moving) == 0 {
		return
	}
	q := f.problem(p, moving, rows, logs)
	var best []float64
	var bestLoss float64
	for _, typical := range []bool{false, true} {
		if typical && !again {
			break
		}
		x := make([]float64, len(moving))
		for j, k := range moving {
			v := f.constants[k].effective(p)
			if typical {
				v = f.constants[k].start
			}
			x[j] = math.Max(q.low[j], math.Min(q.high[j], v/f.constants[k].width))
		}
		threshold := 0.1
		for range 3 {
			q.solve(x, threshold)
			r := make([]float64, len(rows))
			q.residuals(x, r)
			threshold = huberFactor * math.Max(deviation(r), 1e-5)
		}
		r := make([]float64, len(rows))
		q.residuals(x, r)
		// Judged alike, whatever each start's threshold came to.
		if l := loss(r, 0.1); best == nil || l < bestLoss {
			best, bestLoss = x, l
		}
	}
	for j, k := range moving {
		f.constants[k].set(p, float64(best[j]*f.constants[k].width))
	}
}

// deviation is a robust standard deviation of residuals.
func deviation(r []float64) float64 {
	a := make([]float64, len(r))
	for i, v := range r {
		a[i] = math.Abs(v)
	}
	return normalMAD * quantile(a, 0.5)
}

// residuals are the logarithms of modelled over measured time.
func (f *classFit) residuals(p *compute.Profile) []float64 {
	r := make([]float64, len(f.rows))
	for i := range f.rows {
		r[i] = logTime(p, &f.rows[i].Kernel) - f.logs[i]
	}
	return r
}

// logTime is the logarithm of a modelled time, of a picosecond where that is
// nothing.
func logTime(p *compute.Profile, k *compute.Kernel) float64 {
	return detmath.Log(math.Max(p.KernelTime(k), 1e-6))
}

func (f *classFit) noise(p *compute.Profile) float64 {
	return math.Max(deviation(f.residuals(p)), leastNoise)
}

// deviations of the moving constants, in widths of their priors.
func (f *classFit) deviations(p *compute.Profile, moving []int, noise float64) []float64 {
	q := f.problem(p, moving, f.rows, f.logs)
	x := make([]float64, len(moving))
	for j, k := range moving {
		x[j] = f.constants[k].get(p) / f.constants[k].width
	}
	saved := *p
	sd := q.deviations(x, noise)
	*p = saved
	return sd
}

// round brings the moving constants to the decimals that a profile has.
func (f *classFit) round(p *compute.Profile, moving []int) {
	for _, k := range moving {
		c := &f.constants[k]
		c.set(p, math.Max(c.low, math.Min(c.high, roundTo(c.get(p), c.digits))))
	}
}

// errors of p's times of the rows.
func (f *classFit) errors(p *compute.Profile, rows []Row) *Errors {
	e := make([]float64, len(rows))
	for i := range rows {
		e[i] = math.Abs(p.KernelTime(&rows[i].Kernel)/rows[i].Microseconds - 1)
	}
	return summarise(e)
}

// heldOut predicts every row by a fit of the other folds; nil when one of them
// would have too few shapes.
func (f *classFit) heldOut(p *compute.Profile, moving []int) *Errors {
	var e []float64
	for fold := range uint64(folds) {
		var rows, out []Row
		var logs []float64
		seen := map[string]bool{}
		for i, row := range f.rows {
			if fold == row.fold {
				out = append(out, row)
				continue
			}
			rows, logs = append(rows, row), append(logs, f.logs[i])
			seen[row.shape] = true
		}
		if len(seen) < f.least()-1 {
			return nil
		}
		q := *p
		f.solve(&q, moving, rows, logs, false)
		for i := range out {
			e = append(e, math.Abs(q.KernelTime(&out[i].Kernel)/out[i].Microseconds-1))
		}
	}
	return summarise(e)
}
