package compute

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"sort"
	"strings"
	"sync"

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
	Assumed bool `yaml:"assumed,omitempty"`
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
	// operations per second, a multiply-add counting as two. A PeakFP8 of 0 is of
	// a GPU without FP8 arithmetic, whose file has no gemm_fp8.
	PeakFP8  Known[float64] `yaml:"peak_fp8_flops_per_s"`
	PeakBF16 Known[float64] `yaml:"peak_bf16_flops_per_s"`
	// HBM is the memory's peak data rate.
	HBM Known[units.Rate] `yaml:"hbm"`
	// NVLink is the data rate per GPU in one direction; NVLinkAchieved what
	// kernels reach of it, 0 where nobody has measured it.
	NVLink         Known[units.Rate] `yaml:"nvlink_per_direction"`
	NVLinkAchieved Known[units.Rate] `yaml:"nvlink_achieved_per_direction,omitempty"`

	// Calibration says what a fit of the user's own measurements was made from;
	// nil for any other profile.
	Calibration *Calibration `yaml:"calibration,omitempty"`

	Kernels Kernels `yaml:"kernels"`
}

// A Calibration is the provenance of a profile that was fitted to a table of
// measurements.
type Calibration struct {
	// File is the table's name, SHA256 its hash in hexadecimal, and Rows the
	// number of measurements used.
	File   string `yaml:"file"`
	SHA256 string `yaml:"sha256"`
	Rows   int    `yaml:"rows"`
	// Base is the profile that capacities, peaks and whatever was not fitted are
	// from.
	Base string `yaml:"base"`
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

// A Status says how the constants of a class came about.
type Status string

// The statuses.
const (
	// Fitted constants were fitted to kernels measured on this GPU.
	Fitted Status = "fitted"
	// Borrowed constants were fitted to kernels measured on another GPU,
	// Fit.MeasuredOn, whose errors they come with: those of this GPU are unknown.
	Borrowed Status = "borrowed"
	// Set constants are round numbers that a source gives, without a fit.
	Set Status = "set"
	// Assumed constants have no measurement behind them.
	Assumed Status = "assumed"
)

var statuses = []string{string(Fitted), string(Borrowed), string(Set), string(Assumed)}

// A Fit says what a class was fitted to and how far off it is.
type Fit struct {
	Status Status `yaml:"status"`
	// MeasuredOn is the GPU of the measurements of borrowed constants.
	MeasuredOn string `yaml:"measured_on,omitempty"`
	// Source names the measurements.
	Source string `yaml:"source"`
	// Points is the number of measured shapes fitted; 0 where not recorded.
	Points int `yaml:"points,omitempty"`
	// MedianPct and P95Pct are the median and the 95th percentile of the
	// relative error over the fitted shapes, in percent; 0 where there is none.
	MedianPct float64 `yaml:"median_pct,omitempty"`
	P95Pct    float64 `yaml:"p95_pct,omitempty"`
	// HeldOutMedianPct and HeldOutP95Pct are the same over shapes that were not
	// fitted; 0 where none were held out.
	HeldOutMedianPct float64 `yaml:"held_out_median_pct,omitempty"`
	HeldOutP95Pct    float64 `yaml:"held_out_p95_pct,omitempty"`
	// StdErrors are the standard errors of fitted constants, by name and in the
	// constant's unit (t0 in microseconds), where the fit has recorded them.
	StdErrors map[string]float64 `yaml:"std_errors,omitempty"`
	// Fixed are the constants that the fit did not move, by name, each with the
	// reason or with its own source: the errors above do not speak of them.
	Fixed map[string]string `yaml:"fixed,omitempty"`
	// Note qualifies.
	Note string `yaml:"note,omitempty"`
}

//go:embed profiles/*.yaml
var profileFiles embed.FS

var profileNames = sync.OnceValue(func() []string { return catalogueNames(profileFiles, "profiles") })

// Profiles lists the known GPUs by name, sorted.
func Profiles() []string { return slices.Clone(profileNames()) }

// LoadProfile returns the GPU of that name, in any case, or that of the profile
// file at that path (see IsProfilePath). The error of an unknown name suggests the
// nearest one; that of a file is config.Problems with the file and line.
func LoadProfile(ref string) (*Profile, error) {
	p, _, err := OpenProfile(ref)
	return p, err
}

// OpenProfile is LoadProfile that also returns the text of the file at a path; nil
// for a GPU of the catalogue.
func OpenProfile(ref string) (p *Profile, file []byte, err error) {
	if IsProfilePath(ref) {
		if file, err = readProfileFile(ref); err != nil {
			return nil, nil, err
		}
		p, err = ReadProfile(ref, file)
		return p, file, err
	}
	name := "profiles/" + strings.ToLower(ref) + ".yaml" // files are named as their GPUs, in lower case
	data, err := profileFiles.ReadFile(name)
	if err != nil {
		return nil, nil, fmt.Errorf("%q is not a known GPU%s", ref, config.Suggest(ref, Profiles()))
	}
	p, err = catalogued(name, data)
	return p, nil, err
}

// read has the profiles of the catalogue that were asked for, by file: a scenario
// asks several times.
var read sync.Map

// catalogued is ReadProfile of a file of the catalogue. What the profile refers to
// is not to be changed.
func catalogued(name string, data []byte) (*Profile, error) {
	known, ok := read.Load(name)
	if !ok {
		p, err := ReadProfile(name, data)
		if err != nil {
			return nil, err
		}
		known, _ = read.LoadOrStore(name, p)
	}
	p := *known.(*Profile)
	return &p, nil
}

// IsProfilePath tells the path of a profile file from the name of a GPU: it has a
// slash or ends in .yaml or .yml.
func IsProfilePath(ref string) bool {
	return strings.ContainsAny(ref, `/\`) || strings.HasSuffix(ref, ".yaml") || strings.HasSuffix(ref, ".yml")
}

// maxProfile bounds a profile file; config.Parse refuses larger ones.
const maxProfile = 1<<20 + 1

// readProfileFile reads a regular file, as far as a profile can be long.
func readProfileFile(name string) ([]byte, error) {
	explain := func(err error) error {
		var cause *fs.PathError
		if errors.As(err, &cause) {
			err = cause.Err
		}
		return fmt.Errorf("cannot read GPU profile %s: %w", name, err)
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return nil, explain(errors.New("not a regular file"))
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, explain(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxProfile))
	if err != nil {
		return nil, explain(err)
	}
	return data, nil
}

// ReadProfile reads a profile; file is its name for messages. It refuses unknown
// keys and what is missing or out of range: the error is config.Problems with
// file, line and key.
func ReadProfile(file string, data []byte) (*Profile, error) {
	tree, err := config.Parse(file, data)
	if err != nil {
		return nil, err
	}
	p := new(Profile)
	if err := tree.Decode(p); err != nil {
		return nil, err
	}
	if err := p.Validate(); err != nil {
		return nil, tree.Resolve(err)
	}
	return p, nil
}

// Marshal writes the profile as a file that ReadProfile reads back.
func (p *Profile) Marshal() ([]byte, error) { return config.Marshal(p) }

// Validate reports every value that is missing or out of range.
func (p *Profile) Validate() error {
	var ps config.Problems
	ps.Require(p.Name != "", "name", "is missing: write the GPU's name")
	known(&ps, "memory", p.Memory, leastMemory, mostMemory, "80GB")
	known(&ps, "sm_count", p.SMs, 1, mostSMs, "132")
	if p.ComputesFP8() || p.PeakFP8.Source == "" {
		known(&ps, "peak_fp8_flops_per_s", p.PeakFP8, float64(leastPeak), float64(mostPeak), "1.979e+15")
	}
	known(&ps, "peak_bf16_flops_per_s", p.PeakBF16, float64(leastPeak), float64(mostPeak), "9.895e+14")
	known(&ps, "hbm", p.HBM, leastHBM, mostHBM, "3.35TB/s")
	known(&ps, "nvlink_per_direction", p.NVLink, leastNVLink, mostNVLink, "200GB/s")
	ps.Require(p.NVLinkAchieved.Value >= 0 && p.NVLinkAchieved.Value <= p.NVLink.Value,
		"nvlink_achieved_per_direction", "must be from 0 to nvlink_per_direction (%s), not %s",
		bytesPerSecond(p.NVLink.Value), bytesPerSecond(p.NVLinkAchieved.Value))
	ps.Require(p.NVLinkAchieved.Value == 0 || p.NVLinkAchieved.Source != "",
		"nvlink_achieved_per_direction.source", "is missing: name where the number is from")
	k := &p.Kernels
	if p.ComputesFP8() || p.PeakFP8.Source == "" {
		class(&ps, p.Name, "gemm_fp8", k.GEMMFP8)
	} else {
		ps.Require(k.GEMMFP8.Constants == GEMM{}, "kernels.gemm_fp8", "peak_fp8_flops_per_s is 0, so %s has no such kernels: remove it", p.Name)
	}
	class(&ps, p.Name, "gemm_bf16", k.GEMMBF16)
	class(&ps, p.Name, "grouped_contiguous", k.GroupedContiguous)
	class(&ps, p.Name, "grouped_masked", k.GroupedMasked)
	class(&ps, p.Name, "gqa_decode", k.GQADecode)
	class(&ps, p.Name, "mla_decode", k.MLADecode)
	class(&ps, p.Name, "gqa_prefill", k.GQAPrefill)
	class(&ps, p.Name, "mla_prefill", k.MLAPrefill)
	class(&ps, p.Name, "elementwise", k.Elementwise)
	class(&ps, p.Name, "launch_gap", k.LaunchGap)
	return ps.Err()
}

// ComputesFP8 tells whether the tensor cores have FP8.
func (p *Profile) ComputesFP8() bool { return p.PeakFP8.Value != 0 }

// known asks for a number from low to high and its source.
func known[T number](ps *config.Problems, key string, k Known[T], low, high T, such string) {
	if k.Value == 0 && k.Source == "" {
		ps.Addf(key, "is missing: write a value and its source, as {value: %s, source: \"...\"}", such)
		return
	}
	within(ps, key+".value", &k.Value, low, high)
	ps.Require(k.Source != "", key+".source", "is missing: name where the number is from")
}

func class[C interface {
	comparable
	Validate() error
}](ps *config.Problems, gpu, name string, c Class[C]) {
	var none C
	if c.Constants == none && c.Fit.Status == "" && c.Fit.Source == "" {
		ps.Addf("kernels."+name, "is missing: write its constants and its fit, as the files in compute/profiles have them")
		return
	}
	ps.Nest("kernels."+name+".constants", c.Constants.Validate())
	ps.Nest("kernels."+name+".fit", c.Fit.validate(gpu, constantNames(c.Constants)))
}

// constantNames lists the constants of a class as its file writes them.
func constantNames(constants any) (names []string) {
	for _, k := range config.Keys(constants) {
		names = append(names, k.Path)
	}
	return names
}

// validate checks that a fit says where it is from and, unless nothing was
// fitted, how good it is. gpu is the profile's name.
func (f *Fit) validate(gpu string, constants []string) error {
	var ps config.Problems
	ps.Require(f.Source != "", "source", "is missing: name the measurements, or none with status: assumed")
	switch f.Status {
	case Fitted, Borrowed:
	case Set, Assumed:
		ps.Require(f.Points == 0 && f.MedianPct == 0 && f.P95Pct == 0 && f.HeldOutMedianPct == 0 && f.HeldOutP95Pct == 0,
			"status", "%s constants have no error of a fit: delete points and errors, or write fitted or borrowed", f.Status)
	case "":
		ps.Addf("status", "is missing: write one of %s", strings.Join(statuses, ", "))
	default:
		ps.Addf("status", "unknown value %q%s", f.Status, config.Suggest(string(f.Status), statuses))
	}
	if f.Status == Borrowed {
		ps.Require(f.MeasuredOn != "", "measured_on", "is missing: name the GPU that the borrowed constants were measured on")
	} else if f.Status != "" {
		ps.Require(f.MeasuredOn == "" || strings.EqualFold(f.MeasuredOn, gpu), "measured_on",
			"%s constants are of this GPU; write status: borrowed for those of %s", f.Status, f.MeasuredOn)
	}
	for _, e := range []struct {
		key string
		pct float64
	}{
		{"median_pct", f.MedianPct},
		{"p95_pct", f.P95Pct},
		{"held_out_median_pct", f.HeldOutMedianPct},
		{"held_out_p95_pct", f.HeldOutP95Pct},
	} {
		ps.Require(inside(e.pct, 0, 1000), e.key, "must be from 0 to 1000 percent, not %v", e.pct)
	}
	ps.Require(f.Points >= 0, "points", "must not be negative")
	for _, name := range slices.Sorted(maps.Keys(f.StdErrors)) {
		ps.Require(slices.Contains(constants, name), "std_errors."+name, "is not a constant of this class%s", config.Suggest(name, constants))
		ps.Require(inside(f.StdErrors[name], 0, 1e6), "std_errors."+name, "must be from 0 to 1e6, not %v", f.StdErrors[name])
	}
	for _, name := range slices.Sorted(maps.Keys(f.Fixed)) {
		ps.Require(slices.Contains(constants, name), "fixed."+name, "is not a constant of this class%s", config.Suggest(name, constants))
		ps.Require(f.Fixed[name] != "", "fixed."+name, "is empty: say why the constant was not fitted")
	}
	return ps.Err()
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
