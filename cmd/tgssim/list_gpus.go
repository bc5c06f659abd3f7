package main

import (
	"fmt"

	"github.com/tgssim/tgssim/compute"
)

type gpuRow struct {
	Name    string    `json:"name"`
	Facts   []factRow `json:"facts"`
	Kernels []fitRow  `json:"kernels"`
}

type factRow struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	Source  string `json:"source"`
	Assumed bool   `json:"assumed"`
}

type fitRow struct {
	Class            string             `json:"class"`
	Constants        string             `json:"constants"`
	Status           compute.Status     `json:"status"`
	MeasuredOn       string             `json:"measured_on"`
	Source           string             `json:"source"`
	Points           int                `json:"points"`
	MedianPct        float64            `json:"median_error_pct"`
	P95Pct           float64            `json:"p95_error_pct"`
	HeldOutMedianPct float64            `json:"held_out_median_error_pct"`
	HeldOutP95Pct    float64            `json:"held_out_p95_error_pct"`
	StdErrors        map[string]float64 `json:"std_errors,omitempty"`
	Fixed            map[string]string  `json:"fixed,omitempty"`
	Note             string             `json:"note,omitempty"`
	Assumed          bool               `json:"assumed"`
}

// gpuHeader is the header of the table of listGPUs.
var gpuHeader = []string{"gpu", "what", "value", "error % (median/p95)", "held out", "status", "source"}

// listGPUs lists the named profiles, or else the catalogue.
func listGPUs(names []string) (listing, error) {
	l := listing{
		header: gpuHeader,
		notes: []string{
			"fitted: to kernels of this GPU. unfitted: borrowed from the fit of another GPU; (errors) are of that fit, unknown here.",
			"set: a round number of the source. assumed: nothing was measured. Errors are of kernel times; - means none is recorded.",
			"Constants, what is not fitted of them, and notes: `tgssim list gpus --json` and compute/profiles/*.yaml.",
		},
	}
	var data []gpuRow
	if len(names) == 0 {
		names = compute.Profiles()
	}
	for _, name := range names {
		p, err := compute.LoadProfile(name)
		if err != nil {
			return l, err
		}
		row, lines := describeGPU(p)
		data = append(data, row)
		l.rows = append(l.rows, lines...)
	}
	l.data = data
	return l, nil
}

// describeGPU lists the numbers of a profile, as an object and as lines.
func describeGPU(p *compute.Profile) (row gpuRow, lines [][]string) {
	row.Name = p.Name
	for _, f := range p.FactTable() {
		row.Facts = append(row.Facts, factRow{f.Name, f.Value, f.Source, f.Assumed})
		status := "published"
		if f.Assumed {
			status = "assumed"
		}
		lines = append(lines, []string{p.Name, f.Name, f.Value, "", "", status, f.Source})
	}
	for _, f := range p.FitTable() {
		row.Kernels = append(row.Kernels, fitRow{
			f.Class, f.Constants, f.Status, f.MeasuredOn, f.Source, f.Points, f.MedianPct, f.P95Pct,
			f.HeldOutMedianPct, f.HeldOutP95Pct, f.StdErrors, f.Fixed, f.Note, f.Status == compute.Assumed,
		})
		lines = append(lines, []string{
			p.Name, f.Class, points(f.Points), errors2(f.Status, f.MedianPct, f.P95Pct),
			errors2(f.Status, f.HeldOutMedianPct, f.HeldOutP95Pct), status(f.Fit), f.Source,
		})
	}
	return row, lines
}

func points(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d points", n)
}

// errors2 is a median and a 95th percentile, in parentheses where they are those
// of another GPU.
func errors2(s compute.Status, median, p95 float64) string {
	text := "-"
	switch {
	case median == 0 && p95 == 0:
		return text
	case p95 == 0:
		text = fmt.Sprintf("%g / -", median)
	default:
		text = fmt.Sprintf("%g / %g", median, p95)
	}
	if s == compute.Borrowed {
		return "(" + text + ")"
	}
	return text
}

func status(f compute.Fit) string {
	if f.Status == compute.Borrowed {
		return "unfitted, from " + f.MeasuredOn
	}
	return string(f.Status)
}
