package calibrate

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tgssim/tgssim/compute"
)

// outlierFactor and outlierLeast are the residual of an outlier: so many standard
// deviations, and no less than that.
const (
	outlierFactor = 4
	outlierLeast  = 0.1
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

// Fitted tells whether any class was fitted: without, the profile is the base's.
func (r *Result) Fitted() bool {
	return slices.ContainsFunc(r.Classes, func(c ClassResult) bool { return c.Kept == "" })
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

func roundTo(v float64, digits int) float64 {
	scale := 1.
	for range digits {
		scale *= 10
	}
	return math.RoundToEven(float64(v*scale)) / scale
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
