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
	"strings"

	"github.com/tgssim/tgssim/experiment"
	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/metrics"
	"github.com/tgssim/tgssim/scenarios"
)

//go:embed targets/*.yaml
var files embed.FS

// Names lists the published targets, sorted.
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
	data, err := files.ReadFile("targets/" + name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("there is no target %q%s", name, config.Suggest(name, Names()))
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
		row := Row{
			Name: s.Name, Quantity: m.Quantity, Unit: m.Unit, Measured: m.Value,
			Setup: strings.TrimSpace(s.Description), Source: m.Source,
		}
		if i > 0 {
			row.Name += "/" + m.Quantity
		}
		if m.Within > 0 {
			row.WithinPct = &m.Within
		}
		if err := row.measure(b, r.Result); err != nil { // the scenario is not one to measure that in
			return nil, config.Problems{{Where: s.Name, Key: fmt.Sprintf("measured[%d].quantity", i), Message: err.Error()}}
		}
		row.ErrorPct = 100 * (row.Simulated/row.Measured - 1)
		rows = append(rows, row)
	}
	return rows, nil
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

// The bars that all rows with a bar of their own are held to together, in per
// cent.
const (
	// MeanBar bounds the mean absolute error.
	MeanBar = 2.5
	// LeaveOneOutBar bounds the error of a row whose target the derate was not
	// fitted to.
	LeaveOneOutBar = 7
)

// A Verdict is how rows stand to their bars.
type Verdict struct {
	// Held is the number of rows with a bar, and Mean the mean of their absolute
	// errors, in per cent; 0 without any.
	Held int
	Mean float64
	// Missed names, in words, every bar that is missed.
	Missed []string
}

// Judge holds rows to their bars.
func Judge(rows []Row) (v Verdict) {
	for _, r := range rows {
		if r.WithinPct == nil {
			continue
		}
		v.Held++
		v.Mean += math.Abs(r.ErrorPct)
		if off := math.Abs(r.ErrorPct); !(off <= *r.WithinPct) {
			v.Missed = append(v.Missed, fmt.Sprintf("%s is off by %.1f %%, and the bar is %g %%", r.Name, off, *r.WithinPct))
		}
		if l := r.LeaveOneOut; l != nil && !(math.Abs(l.ErrorPct) <= LeaveOneOutBar) {
			v.Missed = append(v.Missed, fmt.Sprintf("%s, left out of the fit, is off by %.1f %%, and the bar is %d %%",
				r.Name, math.Abs(l.ErrorPct), LeaveOneOutBar))
		}
	}
	if v.Held == 0 {
		return v
	}
	v.Mean /= float64(v.Held)
	if !(v.Mean <= MeanBar) {
		v.Missed = append(v.Missed, fmt.Sprintf("the mean absolute error is %.2f %%, and the bar is %g %%", v.Mean, MeanBar))
	}
	return v
}

// LeastHeld is the number of rows with a bar that LeaveOneOut needs.
const LeastHeld = 3

// Bars counts the rows with a bar that runs of ss will have.
func Bars(ss []*scenarios.Scenario) (n int) {
	for _, s := range ss {
		for _, m := range s.Measured {
			if m.Within > 0 {
				n++
			}
		}
	}
	return n
}

// held are the rows with a bar.
func held(rows []Row) []*Row {
	var out []*Row
	for i := range rows {
		if rows[i].WithinPct != nil {
			out = append(out, &rows[i])
		}
	}
	return out
}
