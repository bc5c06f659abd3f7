package compute

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tgssim/tgssim/internal/units"
)

// A FitRow is one line of a table of kernel classes.
type FitRow struct {
	// Class is the name in the profile file: "gemm_fp8".
	Class string
	// Constants are the constants with their names and units; Names are their
	// names in the profile file.
	Constants string
	Names     []string
	Fit
}

// FitTable lists the kernel classes in the order of the file: what is fitted,
// from what, with which error.
func (p *Profile) FitTable() []FitRow {
	k := &p.Kernels
	var rows []FitRow
	if p.ComputesFP8() {
		rows = append(rows, fitRow("gemm_fp8", k.GEMMFP8))
	}
	return append(rows,
		fitRow("gemm_bf16", k.GEMMBF16),
		fitRow("grouped_contiguous", k.GroupedContiguous),
		fitRow("grouped_masked", k.GroupedMasked),
		fitRow("gqa_decode", k.GQADecode),
		fitRow("mla_decode", k.MLADecode),
		fitRow("gqa_prefill", k.GQAPrefill),
		fitRow("mla_prefill", k.MLAPrefill),
		fitRow("elementwise", k.Elementwise),
		fitRow("launch_gap", k.LaunchGap),
	)
}

func fitRow[C fmt.Stringer](class string, c Class[C]) FitRow {
	return FitRow{Class: class, Constants: c.Constants.String(), Names: constantNames(c.Constants), Fit: c.Fit}
}

// A FactRow is one line of a table of a GPU's numbers.
type FactRow struct {
	// Name is the name in the profile file, Value has its unit.
	Name, Value, Source string
	Assumed             bool
}

// FactTable lists the capacities and peaks with their sources. A number that
// nobody has published is left out.
func (p *Profile) FactTable() []FactRow {
	rows := []FactRow{
		{"memory", p.Memory.Value.String(), p.Memory.Source, p.Memory.Assumed},
		{"sm_count", strconv.Itoa(p.SMs.Value), p.SMs.Source, p.SMs.Assumed},
		{"peak_fp8", flops(p.PeakFP8.Value), p.PeakFP8.Source, p.PeakFP8.Assumed},
		{"peak_bf16", flops(p.PeakBF16.Value), p.PeakBF16.Source, p.PeakBF16.Assumed},
		{"hbm", bytesPerSecond(p.HBM.Value), p.HBM.Source, p.HBM.Assumed},
		{"nvlink_per_direction", bytesPerSecond(p.NVLink.Value), p.NVLink.Source, p.NVLink.Assumed},
	}
	if n := p.NVLinkAchieved; n.Value > 0 {
		rows = append(rows, FactRow{"nvlink_achieved_per_direction", bytesPerSecond(n.Value), n.Source, n.Assumed})
	}
	return rows
}

func flops(v float64) string {
	if v == 0 {
		return "none"
	}
	return strconv.FormatFloat(v/1e12, 'f', -1, 64) + " TFLOP/s"
}

func bytesPerSecond(r units.Rate) string {
	return strconv.FormatFloat(r.BytesPerSecond()/1e9, 'f', -1, 64) + " GB/s"
}

// Unfitted says in a sentence that no kernel was measured on this GPU, and whose
// efficiencies stand in; "" where a class is fitted.
func (p *Profile) Unfitted() string {
	var lenders []string
	for _, row := range p.FitTable() {
		switch {
		case row.Status == Fitted:
			return ""
		case row.Status == Borrowed && !slices.Contains(lenders, row.MeasuredOn):
			lenders = append(lenders, row.MeasuredOn)
		}
	}
	slices.Sort(lenders)
	if len(lenders) == 0 {
		return fmt.Sprintf("No kernel was measured on %s; its kernel times are assumed.", p.Name)
	}
	return fmt.Sprintf("No kernel was measured on %s; its kernel times are its peaks and bandwidth with the efficiencies of %s.",
		p.Name, strings.Join(lenders, " and "))
}
