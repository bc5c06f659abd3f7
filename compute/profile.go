package compute

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"path"
	"sort"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
)

// A Known is a number and where it is from.
type Known[T any] struct {
	Value T `yaml:"value"`
	// Source names the publication or the repository.
	Source string `yaml:"source"`
	// Assumed is true when nothing was measured or published.
	Assumed bool `yaml:"assumed"`
}

// A Profile is a GPU: its capacities and peaks, and the fitted kernel classes.
// A further GPU is one more file in profiles/.
type Profile struct {
	// Name is the GPU's usual name: "H800".
	Name string `yaml:"name"`
	// Memory is the HBM capacity.
	Memory Known[units.Bytes] `yaml:"memory"`
	// SMs is the number of streaming multiprocessors.
	SMs Known[int] `yaml:"sm_count"`
	// PeakFP8 and PeakBF16 are dense tensor-core peaks in floating-point
	// operations per second, a multiply-add counting as two.
	PeakFP8  Known[float64] `yaml:"peak_fp8_flops_per_s"`
	PeakBF16 Known[float64] `yaml:"peak_bf16_flops_per_s"`
	// HBM is the memory's peak data rate.
	HBM Known[units.Rate] `yaml:"hbm"`
	// NVLink is the data rate per GPU in one direction; NVLinkAchieved what
	// kernels reach of it, 0 where nobody has measured it.
	NVLink         Known[units.Rate] `yaml:"nvlink_per_direction"`
	NVLinkAchieved Known[units.Rate] `yaml:"nvlink_achieved_per_direction"`

	Kernels Kernels `yaml:"kernels"`
}

// Kernels are the fitted classes of one GPU.
type Kernels struct {
	// GEMMFP8 and GEMMBF16 are dense GEMMs.
	GEMMFP8  Class[GEMM] `yaml:"gemm_fp8"`
	GEMMBF16 Class[GEMM] `yaml:"gemm_bf16"`
	// GroupedContiguous is the grouped GEMM over the rows of several experts
	// laid one after the other (prefill); GroupedMasked the one over a fixed
	// slot per expert of which only the first rows count (decode).
	GroupedContiguous Class[GEMM] `yaml:"grouped_contiguous"`
	GroupedMasked     Class[GEMM] `yaml:"grouped_masked"`
	// GQADecode and MLADecode are attention of one or a few query tokens per
	// request over its KV.
	GQADecode Class[AttentionDecode] `yaml:"gqa_decode"`
	MLADecode Class[AttentionDecode] `yaml:"mla_decode"`
	// GQAPrefill and MLAPrefill are causal attention of a chunk of a prompt.
	GQAPrefill Class[AttentionPrefill] `yaml:"gqa_prefill"`
	MLAPrefill Class[AttentionPrefill] `yaml:"mla_prefill"`
	// Elementwise is everything that only moves bytes.
	Elementwise Class[Elementwise] `yaml:"elementwise"`
	// LaunchGap is the idle time between two kernels of a CUDA graph.
	LaunchGap Class[LaunchGap] `yaml:"launch_gap"`
}

// A Class is a kernel class: the constants of its closed form and how well they
// reproduce the measurements.
type Class[C any] struct {
	Constants C   `yaml:"constants"`
	Fit       Fit `yaml:"fit"`
}

// A Fit says what a class was fitted to and how far off it is.
type Fit struct {
	// Source names the measurements.
	Source string `yaml:"source"`
	// Points is the number of measured shapes fitted; 0 where not recorded.
	Points int `yaml:"points"`
	// MedianPct and P95Pct are the median and the 95th percentile of the
	// relative error over the fitted shapes, in percent; 0 where there is none.
	MedianPct float64 `yaml:"median_pct"`
	P95Pct    float64 `yaml:"p95_pct"`
	// HeldOutMedianPct and HeldOutP95Pct are the same over shapes that were not
	// fitted; 0 where none were held out.
	HeldOutMedianPct float64 `yaml:"held_out_median_pct"`
	HeldOutP95Pct    float64 `yaml:"held_out_p95_pct"`
	// Assumed is true when nothing was measured on this GPU.
	Assumed bool `yaml:"assumed"`
	// Note qualifies.
	Note string `yaml:"note"`
}

// A FitRow is one line of a table of kernel classes.
type FitRow struct {
	// Class is the name in the profile file: "gemm_fp8".
	Class string
	// Constants are the fitted constants with their names and units.
	Constants string
	Fit
}

// FitTable lists the kernel classes in the order of the file: what is fitted,
// from what, with which error.
func (p *Profile) FitTable() []FitRow {
	k := &p.Kernels
	return []FitRow{
		fitRow("gemm_fp8", k.GEMMFP8),
		fitRow("gemm_bf16", k.GEMMBF16),
		fitRow("grouped_contiguous", k.GroupedContiguous),
		fitRow("grouped_masked", k.GroupedMasked),
		fitRow("gqa_decode", k.GQADecode),
		fitRow("mla_decode", k.MLADecode),
		fitRow("gqa_prefill", k.GQAPrefill),
		fitRow("mla_prefill", k.MLAPrefill),
		fitRow("elementwise", k.Elementwise),
		fitRow("launch_gap", k.LaunchGap),
	}
}

func fitRow[C fmt.Stringer](class string, c Class[C]) FitRow {
	return FitRow{Class: class, Constants: c.Constants.String(), Fit: c.Fit}
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
	flops := func(v float64) string { return strconv.FormatFloat(v/1e12, 'f', -1, 64) + " TFLOP/s" }
	bytesPerSecond := func(r units.Rate) string {
		return strconv.FormatFloat(r.BytesPerSecond()/1e9, 'f', -1, 64) + " GB/s"
	}
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

//go:embed profiles/*.yaml
var profileFiles embed.FS

// Profiles lists the known GPUs by name, sorted.
func Profiles() []string { return catalogueNames(profileFiles, "profiles") }

// LoadProfile returns the GPU of that name, in any case. The error of an unknown
// name suggests the nearest one.
func LoadProfile(name string) (*Profile, error) {
	for _, n := range Profiles() {
		if strings.EqualFold(n, name) {
			data, err := profileFiles.ReadFile(path.Join("profiles", strings.ToLower(n)+".yaml"))
			if err != nil {
				return nil, err
			}
			return ReadProfile(data)
		}
	}
	return nil, fmt.Errorf("%q is not a known GPU%s", name, config.Suggest(name, Profiles()))
}

// ReadProfile reads a profile file. It refuses unknown keys; the error is
// config.Problems when the keys are right and the values are not.
func ReadProfile(data []byte) (*Profile, error) {
	p := new(Profile)
	if err := decodeStrict(data, p); err != nil {
		return nil, err
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return p, nil
}

// Validate reports every value that is missing or out of range.
func (p *Profile) Validate() error {
	var ps config.Problems
	ps.Require(p.Name != "", "name", "is missing: write the GPU's name")
	known(&ps, "memory", p.Memory, p.Memory.Value > 0, "a size such as 80GB")
	known(&ps, "sm_count", p.SMs, p.SMs.Value > 0 && p.SMs.Value <= 1024, "a whole number from 1 to 1024")
	known(&ps, "peak_fp8_flops_per_s", p.PeakFP8, inside(p.PeakFP8.Value, 1e9, 1e18), "1e9 to 1e18")
	known(&ps, "peak_bf16_flops_per_s", p.PeakBF16, inside(p.PeakBF16.Value, 1e9, 1e18), "1e9 to 1e18")
	known(&ps, "hbm", p.HBM, p.HBM.Value > 0, "a rate such as 3.35TB/s")
	known(&ps, "nvlink_per_direction", p.NVLink, p.NVLink.Value > 0, "a rate such as 200GB/s")
	ps.Require(p.NVLinkAchieved.Value >= 0 && p.NVLinkAchieved.Value <= p.NVLink.Value,
		"nvlink_achieved_per_direction", "must be from 0 to nvlink_per_direction (%s), not %s", p.NVLink.Value, p.NVLinkAchieved.Value)
	k := &p.Kernels
	class(&ps, "kernels.gemm_fp8", k.GEMMFP8)
	class(&ps, "kernels.gemm_bf16", k.GEMMBF16)
	class(&ps, "kernels.grouped_contiguous", k.GroupedContiguous)
	class(&ps, "kernels.grouped_masked", k.GroupedMasked)
	class(&ps, "kernels.gqa_decode", k.GQADecode)
	class(&ps, "kernels.mla_decode", k.MLADecode)
	class(&ps, "kernels.gqa_prefill", k.GQAPrefill)
	class(&ps, "kernels.mla_prefill", k.MLAPrefill)
	class(&ps, "kernels.elementwise", k.Elementwise)
	class(&ps, "kernels.launch_gap", k.LaunchGap)
	return ps.Err()
}

func known[T any](ps *config.Problems, key string, k Known[T], ok bool, valid string) {
	ps.Require(ok, key+".value", "must be %s, not %v", valid, k.Value)
	ps.Require(k.Source != "", key+".source", "is missing: name where the number is from")
}

func class[C interface{ Validate() error }](ps *config.Problems, key string, c Class[C]) {
	ps.Nest(key+".constants", c.Constants.Validate())
	ps.Require(c.Fit.Source != "", key+".fit.source", "is missing: name the measurements, or none with assumed: true")
	for _, e := range []struct {
		key string
		pct float64
	}{
		{"median_pct", c.Fit.MedianPct},
		{"p95_pct", c.Fit.P95Pct},
		{"held_out_median_pct", c.Fit.HeldOutMedianPct},
		{"held_out_p95_pct", c.Fit.HeldOutP95Pct},
	} {
		ps.Require(inside(e.pct, 0, 1000), key+".fit."+e.key, "must be from 0 to 1000 percent, not %v", e.pct)
	}
	ps.Require(c.Fit.Points >= 0, key+".fit.points", "must not be negative")
}

// inside is false for NaN.
func inside(v, low, high float64) bool { return v >= low && v <= high }

// decodeStrict reads exactly one YAML document into v and refuses keys that v
// does not have.
func decodeStrict(data []byte, v any) error {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(v); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("the file is empty")
		}
		return err
	}
	var more yaml.Node
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return errors.New("the file has more than one document")
	}
	return nil
}

// catalogueNames lists the "name" of every file of a folder, sorted. A file is
// named as its content in lower case; a test holds the catalogue to that.
func catalogueNames(files embed.FS, dir string) []string {
	entries, err := files.ReadDir(dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		data, err := files.ReadFile(path.Join(dir, e.Name()))
		if err != nil {
			continue
		}
		var head struct {
			Name string `yaml:"name"`
		}
		if yaml.Unmarshal(data, &head) == nil && head.Name != "" {
			names = append(names, head.Name)
		}
	}
	sort.Strings(names)
	return names
}
