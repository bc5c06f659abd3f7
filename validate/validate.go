// Package validate holds the simulator to published measurements: each target is
// a scenario that is run like any other, and what comes out stands beside what
// was measured.
package validate

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/tgssim/tgssim/experiment"
	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/metrics"
	"github.com/tgssim/tgssim/scenarios"
)

//go:embed targets/*.yaml
var files embed.FS

// Names lists the published targets that are scenarios, sorted.
func Names() []string {
	names, err := fs.Glob(files, "targets/*.yaml")
	if err != nil {
		return nil
	}
	for i, f := range names {
		names[i] = strings.TrimSuffix(path.Base(f), ".yaml")
	}
	return names
}

// Source returns the text of a target: a scenario that `tgssim run` takes.
func Source(name string) ([]byte, error) {
	if name == BoundTarget {
		return nil, fmt.Errorf("%s is no scenario and has no text: it is bytes over a network", name)
	}
	data, err := files.ReadFile("targets/" + name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("there is no target %q%s", name, config.Suggest(name, Targets()))
	}
	return data, nil
}

// Load reads a target by name, or a scenario of the user's own by path (with a
// slash, or ending in .yaml or .yml), which must say what was measured.
func Load(ref string, assignments ...string) (*scenarios.Scenario, error) {
	if strings.ContainsAny(ref, `/\`) || strings.HasSuffix(ref, ".yaml") || strings.HasSuffix(ref, ".yml") {
		s, err := scenarios.Load(ref, assignments...)
		if err == nil && len(s.Measured) == 0 {
			err = config.Problems{{Key: "measured", Message: ref + " has no measurement to be held to: write quantity, value, unit and source"}}
		}
		return s, err
	}
	if ref == BoundTarget {
		return bound, nil
	}
	data, err := Source(ref)
	if err != nil {
		return nil, err
	}
	s, err := scenarios.Read("target:"+ref+".yaml", data, assignments...)
	if err == nil {
		s.Name = ref
	}
	return s, err
}

// A Row is one measurement and what a run has in its place.
type Row struct {
	// Name is the target's, followed by the quantity for all but its first row.
	Name string `json:"name"`
	// Quantity is what was measured, and Unit the unit of both values.
	Quantity  string  `json:"quantity"`
	Unit      string  `json:"unit"`
	Measured  float64 `json:"measured"`
	Simulated float64 `json:"simulated"`
	// ErrorPct is the simulated value over the measured one, less 1, in per cent.
	ErrorPct float64 `json:"error_pct"`
	// WithinPct is the bar that the error is held to; null where it is only shown.
	WithinPct *float64 `json:"within_pct"`
	// Fit says that the row is one of those that the derate is fitted to.
	Fit bool `json:"fit"`
	// Context is the mean number of tokens whose KV a request of a decode step
	// read, and Steps how many steps were measured; null where there are none.
	Context *float64 `json:"context"`
	Steps   *int     `json:"steps"`
	Setup   string   `json:"setup"`
	Source  string   `json:"source"`
	// LeaveOneOut is filled in by LeaveOneOut.
	LeaveOneOut *Fit `json:"leave_one_out,omitempty"`
}

// Run runs the scenario and returns a row for each of its measurements. Of a
// scenario that lacks what was measured the error is config.Problems.
func Run(ctx context.Context, s *scenarios.Scenario) ([]Row, error) {
	if s == bound {
		return runBound("flow")
	}
	run := *s
	run.Metrics.Steps = true
	b, err := experiment.Build(&run)
	if err != nil {
		return nil, err
	}
	r, err := b.Run(ctx, nil)
	if err != nil {
		return nil, err
	}
	var rows []Row
	for i, m := range s.Measured {
		row := newRow(s, i, m)
		if err := row.measure(b, r.Result); err != nil { // the scenario is not one to measure that in
			return nil, config.Problems{{Where: s.Name, Key: fmt.Sprintf("measured[%d].quantity", i), Message: err.Error()}}
		}
		row.take(row.Simulated)
		rows = append(rows, row)
	}
	return rows, nil
}

// RunAll is Run of each scenario, so many at a time. The rows are in the order of
// the scenarios, and the error is that of the first of them that has one.
func RunAll(ctx context.Context, ss []*scenarios.Scenario, workers int) ([]Row, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	rows, errs := make([][]Row, len(ss)), make([]error, len(ss))
	var group sync.WaitGroup
	places := make(chan struct{}, max(1, workers))
	for i, s := range ss {
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			if rows[i], errs[i] = Run(ctx, s); errs[i] != nil {
				cancel()
			}
		})
	}
	group.Wait()
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return nil, err
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return slices.Concat(rows...), nil
}

// newRow is measurement i of a target, nothing simulated yet.
func newRow(s *scenarios.Scenario, i int, m scenarios.Measurement) Row {
	row := Row{
		Name: s.Name, Quantity: m.Quantity, Unit: m.Unit, Measured: m.Value,
		Fit: m.Fit, Setup: strings.TrimSpace(s.Description), Source: m.Source,
	}
	if i > 0 {
		row.Name += "/" + m.Quantity
	}
	if m.Within > 0 {
		row.WithinPct = &m.Within
	}
	return row
}

// take fills in the simulated value.
func (row *Row) take(v float64) {
	row.Simulated = v
	row.ErrorPct = 100 * (v/row.Measured - 1)
}

// measure takes the quantity of the run.
func (row *Row) measure(b *experiment.Simulation, r *metrics.Result) error {
	what, pool, _ := strings.Cut(row.Quantity, "_")
	if row.Quantity == "kv_transfer" {
		if r.KVTransfer.Count == 0 {
			return errors.New("no KV was transferred")
		}
		row.Simulated = r.KVTransfer.Mean
		return nil
	}
	f, ok := metrics.FullBatchOf(r.Steps, pool)
	if !ok {
		return fmt.Errorf("no two full steps of %s follow each other: give it more requests or longer outputs", pool)
	}
	row.Steps = &f.Steps
	cfg, rank := &b.Scenario.Serving.Prefill, b.Prefill
	tokens := f.Prompt
	if pool == "decode" {
		cfg, rank = &b.Scenario.Serving.Decode, b.Decode
		tokens = f.Output
		row.Context = &f.Context
	}
	perLayer := 1 / float64(f.Steps*max(1, rank.MoELayers()))
	switch what {
	case "tgs":
		row.Simulated = float64(tokens) / f.Span.Seconds() / float64(cfg.TP*cfg.DP)
	case "step":
		row.Simulated = f.Span.Milliseconds() / float64(f.Steps)
	case "dispatch":
		row.Simulated = f.Dispatch.Microseconds() * perLayer
	case "combine":
		row.Simulated = f.Combine.Microseconds() * perLayer
	default:
		return fmt.Errorf("nothing measures %s", row.Quantity)
	}
	return nil
}

// The bars of the rows that the derate is fitted to, in per cent.
const (
	// MeanBar bounds their mean absolute error.
	MeanBar = 2.5
	// LeaveOneOutBar bounds the error of each with the derate fitted to the others.
	LeaveOneOutBar = 7
)

// A Verdict is how rows stand to their bars.
type Verdict struct {
	// Held is the number of rows with a bar, Within that of those which are within
	// it, Fitted that of the rows that the derate is fitted to, and Mean the mean of
	// the latter's absolute errors, in per cent; 0 without any.
	Held, Within, Fitted int
	Mean                 float64
	// Missed names, in words, every bar that is missed.
	Missed []string
}

// Judge holds rows to their bars.
func Judge(rows []Row) (v Verdict) {
	for _, r := range rows {
		off := math.Abs(r.ErrorPct)
		if r.WithinPct != nil {
			v.Held++
			if off <= *r.WithinPct {
				v.Within++
			} else { // or no number
				v.Missed = append(v.Missed, fmt.Sprintf("%s is off by %.1f %%, and the bar is %.3g %%", r.Name, off, *r.WithinPct))
			}
		}
		if r.Fit {
			v.Fitted++
			v.Mean += off
		}
		if l := r.LeaveOneOut; l != nil && !(math.Abs(l.ErrorPct) <= LeaveOneOutBar) {
			v.Missed = append(v.Missed, fmt.Sprintf("%s, left out of the fit, is off by %.1f %%, and the bar is %d %%",
				r.Name, math.Abs(l.ErrorPct), LeaveOneOutBar))
		}
	}
	if v.Fitted == 0 {
		return v
	}
	v.Mean /= float64(v.Fitted)
	if !(v.Mean <= MeanBar) {
		v.Missed = append(v.Missed, fmt.Sprintf("the mean absolute error is %.2f %%, and the bar is %g %%", v.Mean, MeanBar))
	}
	return v
}

// LeastFitted is the number of rows to fit the derate to that LeaveOneOut needs.
const LeastFitted = 3

// Fitted counts the rows that the derate is fitted to which runs of ss will have.
func Fitted(ss []*scenarios.Scenario) (n int) {
	for _, s := range ss {
		for _, m := range s.Measured {
			if m.Fit {
				n++
			}
		}
	}
	return n
}

// fitted are the rows that the derate is fitted to.
func fitted(rows []Row) []*Row {
	var out []*Row
	for i := range rows {
		if rows[i].Fit {
			out = append(out, &rows[i])
		}
	}
	return out
}
