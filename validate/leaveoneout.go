package validate

import (
	"context"
	"fmt"
	"math"

	"github.com/tgssim/tgssim/scenarios"
)

// A Fit is what the model says of one target when the derate is fitted to the
// others.
type Fit struct {
	// Derate is the fitted one.
	Derate float64 `json:"derate"`
	// Simulated is a run of the target with it; ErrorPct is as in Row.
	Simulated float64 `json:"simulated"`
	ErrorPct  float64 `json:"error_pct"`
}

// The derates between which a fit looks, in steps of a thousandth. Targets are
// run at three of them; between those, the logarithm of a value is taken as a
// parabola. What a fit predicts is run for itself.
const (
	minDerate, maxDerate = 0.95, 1.25
	fitSteps             = 300
)

var sampledDerates = [3]float64{minDerate, 1.05, maxDerate}

// LeaveOneOut fits the derate, the one constant that all compute shares, to all
// rows that it is fitted to (Row.Fit) but one, by least squares of the logarithm of simulated over
// measured, and runs the one with it; so for each of them. ss holds the scenarios
// that the rows came from. The stretch of communication is not fitted: it was
// measured.
func LeaveOneOut(ctx context.Context, ss []*scenarios.Scenario, rows []Row) error {
	targets := fitted(rows)
	if len(targets) < LeastFitted {
		return fmt.Errorf("leave-one-out needs %d rows to fit to, not %d", LeastFitted, len(targets))
	}
	from := map[string]*scenarios.Scenario{}
	for _, s := range ss {
		from[s.Name] = s
	}
	curves := make([][3]float64, len(targets)) // ln(simulated / measured)
	for i, row := range targets {
		for k, derate := range sampledDerates {
			r, err := rerun(ctx, from, row, derate)
			if err != nil {
				return err
			}
			curves[i][k] = math.Log(r.Simulated / r.Measured)
		}
	}
	for i, row := range targets {
		best, least := 0., math.Inf(1)
		for step := range fitSteps + 1 {
			derate := minDerate + float64((maxDerate-minDerate)*float64(step)/fitSteps)
			var sum float64
			for k := range curves {
				if k != i {
					e := parabola(curves[k], derate)
					sum += float64(e * e)
				}
			}
			if sum < least {
				best, least = derate, sum
			}
		}
		r, err := rerun(ctx, from, row, best)
		if err != nil {
			return err
		}
		row.LeaveOneOut = &Fit{Derate: best, Simulated: r.Simulated, ErrorPct: r.ErrorPct}
	}
	return nil
}

// rerun runs the target of a row with another derate; with its own it is the row.
func rerun(ctx context.Context, from map[string]*scenarios.Scenario, row *Row, derate float64) (Row, error) {
	name := row.Name
	for len(name) > 0 && from[name] == nil {
		name = name[:len(name)-1] // a row that is not its target's first
	}
	s := *from[name]
	if s.GPU.Derate == derate {
		return *row, nil
	}
	s.GPU.Derate = derate
	s.Measured = nil
	for _, m := range from[name].Measured {
		if m.Quantity == row.Quantity {
			s.Measured = append(s.Measured, m)
		}
	}
	rows, err := Run(ctx, &s)
	if err != nil {
		return Row{}, err
	}
	return rows[0], nil
}

// parabola passes through the values at the sampled derates.
func parabola(y [3]float64, x float64) (sum float64) {
	d := sampledDerates
	for i := range d {
		l := y[i]
		for k := range d {
			if k != i {
				l *= (x - d[k]) / (d[i] - d[k])
			}
		}
		sum += float64(l)
	}
	return sum
}
