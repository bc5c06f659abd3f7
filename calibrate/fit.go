package calibrate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tgssim/tgssim/compute"
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
	// outlierFactor and outlierLeast are the residual of an outlier: so many
	// standard deviations, and no less than that.
	outlierFactor = 4
	outlierLeast  = 0.1
	// mostError is the largest error in percent that a profile can hold.
	mostError = 1000
	// hopeless is the median error in percent of a class that is not fitted after
	// all.
	hopeless = 50
)

// A Result is a fitted profile and how it came about.
type Result struct {
	Profile *compute.Profile `json:"-"`
	File    string           `json:"file"`
	SHA256  string           `json:"sha256"`
	Base    string           `json:"base"`
	Rows    int              `json:"rows"`
	// OtherGPUs is the number of rows that are of other GPUs.
	OtherGPUs int `json:"rows_of_other_gpus"`
	// Ignored are the columns that were not read.
	Ignored  []string      `json:"ignored_columns"`
	Classes  []ClassResult `json:"classes"`
	Outliers []Outlier     `json:"outliers"`
}

// A ClassResult is the fit of one kernel class.
type ClassResult struct {
	Class  string `json:"class"`
	Rows   int    `json:"rows"`
	Shapes int    `json:"shapes"`
	// Kept is why all constants are the base's; "" for a class that was fitted.
	Kept string `json:"kept,omitempty"`
	// Fitted and HeldOut are errors over all rows, of the constants and of fits
	// that have not seen the row; Base those of the base's constants. HeldOut is
	// nil when there are too few shapes.
	Fitted    *Errors          `json:"fitted_error_pct,omitempty"`
	HeldOut   *Errors          `json:"held_out_error_pct,omitempty"`
	Base      *Errors          `json:"base_error_pct,omitempty"`
	Constants []ConstantResult `json:"constants,omitempty"`
}

// Errors are of |modelled / measured - 1|, in percent.
type Errors struct {
	Median float64 `json:"median"`
	P95    float64 `json:"p95"`
}

// A ConstantResult is one constant of a fitted class.
type ConstantResult struct {
	Name string `json:"name"`
	Unit string `json:"unit,omitempty"`
	// Base and Value are the constant before and after; StdError is the standard
	// error of a fitted one.
	Base     float64 `json:"base"`
	Value    float64 `json:"value"`
	StdError float64 `json:"std_error,omitempty"`
	// Kept is why the value is the base's, and Remark what else to know.
	Kept   string `json:"kept,omitempty"`
	Remark string `json:"remark,omitempty"`
}

// An Outlier is a measurement that the fitted class does not explain.
type Outlier struct {
	Line     int     `json:"line"`
	Class    string  `json:"class"`
	Shape    string  `json:"shape"`
	Measured float64 `json:"measured_us"`
	Modelled float64 `json:"modelled_us"`
}

// Fit fits the classes of which the table has enough rows, on top of base, which
// is not changed.
func Fit(t *Table, base *compute.Profile) (*Result, error) {
	p := *base
	r := &Result{
		Profile: &p, File: t.File, SHA256: t.SHA256, Base: base.Name,
		Rows: len(t.Rows), OtherGPUs: t.OtherGPUs, Ignored: t.Ignored,
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

func roundTo(v float64, digits int) float64 {
	scale := 1.
	for range digits {
		scale *= 10
	}
	return math.RoundToEven(float64(v*scale)) / scale
}

// errors of p's times of the rows.
func (f *classFit) errors(p *compute.Profile, rows []Row) *Errors {
	e := make([]float64, len(rows))
	for i := range rows {
		e[i] = math.Abs(p.KernelTime(&rows[i].Kernel)/rows[i].Microseconds - 1)
	}
	return summarise(e)
}

func summarise(e []float64) *Errors {
	median := quantile(e, 0.5)
	return &Errors{Median: roundTo(100*median, 2), P95: roundTo(100*quantile(e, 0.95), 2)}
}

// quantile is the q-quantile of v by linear interpolation, numpy's rule. It sorts
// v.
func quantile(v []float64, q float64) float64 {
	slices.Sort(v)
	at := float64(q * float64(len(v)-1))
	i := int(at)
	if i+1 >= len(v) {
		return v[len(v)-1]
	}
	return v[i] + float64((v[i+1]-v[i])*(at-float64(i)))
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

// describe lists the constants, the tile last.
func (f *classFit) describe(p *compute.Profile, moving []int, kept map[int]string, sd []float64) (out []ConstantResult) {
	for k, c := range f.constants {
		if kept[k] != "" && c.get(f.base) == 0 && c.absent != nil {
			continue // as if it did not exist
		}
		r := ConstantResult{Name: c.name, Unit: c.unit, Base: c.get(f.base), Value: c.get(p), Kept: kept[k]}
		if j := slices.Index(moving, k); j >= 0 {
			r.StdError = significant(float64(sd[j]*c.width), 2)
			switch {
			case r.Value <= c.low:
				r.Remark = "at its lower bound"
			case r.Value >= c.high:
				r.Remark = "at its upper bound"
				if c.high == 1 && strings.HasPrefix(c.name, "eff") {
					r.Remark += ": the peak of the base may be too low"
				} else if c.high == 1 {
					r.Remark += ": the HBM bandwidth of the base may be too low, or the data is in a cache"
				}
			}
		}
		out = append(out, r)
	}
	return out
}

// significant rounds v to that many significant decimal digits, or to a whole
// number where it has more before the point.
func significant(v float64, digits int) float64 {
	if !(v > 0) {
		return 0
	}
	decimals := digits - 1
	for w := v; w < 1 && decimals < 9; w *= 10 {
		decimals++
	}
	if v >= 10 {
		decimals = 0
	}
	return roundTo(v, decimals)
}

// outliers lists the rows that the fit does not explain.
func (f *classFit) outliers(p *compute.Profile) (out []Outlier) {
	if !f.fitted {
		return nil
	}
	r := f.residuals(p)
	limit := math.Max(outlierLeast, outlierFactor*f.noise(p))
	for i, row := range f.rows {
		if math.Abs(r[i]) > limit {
			out = append(out, Outlier{
				Line: row.Line, Class: f.name, Shape: row.shape, Measured: row.Microseconds,
				Modelled: roundTo(p.KernelTime(&row.Kernel), 3),
			})
		}
	}
	return out
}

// record writes the provenance of the class into p.
func (f *classFit) record(p *compute.Profile, res *ClassResult) {
	fit := f.fit(p)
	if !f.fitted {
		note := "kept from the base profile: " + res.Kept + " in " + f.table.File
		if fit.Note != "" {
			note += "; " + fit.Note
		}
		fit.Note = note
		return
	}
	old := *fit
	*fit = compute.Fit{
		Status: compute.Fitted, Source: fmt.Sprintf("%s of %s", count(len(f.rows), "row"), f.table.File), Points: f.shapes,
		MedianPct: res.Fitted.Median, P95Pct: math.Min(res.Fitted.P95, mostError),
		StdErrors: map[string]float64{}, Fixed: map[string]string{},
	}
	if h := res.HeldOut; h != nil {
		fit.HeldOutMedianPct, fit.HeldOutP95Pct = math.Min(h.Median, mostError), math.Min(h.P95, mostError)
	}
	for _, c := range res.Constants {
		switch {
		case c.Kept != "":
			fit.Fixed[c.Name] = "kept from " + f.base.Name + ": " + c.Kept
		case c.StdError > 0:
			fit.StdErrors[c.Name] = c.StdError
		}
	}
	if f.tile != "" {
		reason := "rows of a tile, never fitted"
		if was := old.Fixed[f.tile]; was != "" {
			reason = was
		}
		fit.Fixed[f.tile] = reason
	}
	if len(fit.StdErrors) == 0 {
		fit.StdErrors = nil
	}
	if len(fit.Fixed) == 0 {
		fit.Fixed = nil
	}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
