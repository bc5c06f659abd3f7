package compute

import (
	"fmt"
	"math"
	"strconv"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
)

// An Override asks what if: it replaces single numbers of a profile. A nil one
// keeps the profile's. The kernels' efficiencies are fractions of the peaks and
// of the bandwidth, so they follow; fixed times per kernel stay.
type Override struct {
	// Memory is the HBM capacity, 1GB to 10TB; null keeps the profile's.
	Memory *units.Bytes `yaml:"memory,omitempty"`
	// SMs is the number of streaming multiprocessors, 1 to 1024: into how many
	// the peaks are divided, and so what a partly filled wave and the SMs lent to
	// communication cost. It does not move the peaks. Null
	// keeps the profile's.
	SMs *int `yaml:"sms,omitempty"`
	// PeakFP8 and PeakBF16 are the dense tensor-core peaks, 1TFLOP/s to
	// 1000PFLOP/s; null keeps the profile's.
	PeakFP8  *units.FLOPRate `yaml:"peak_fp8,omitempty"`
	PeakBF16 *units.FLOPRate `yaml:"peak_bf16,omitempty"`
	// HBM is the memory's peak data rate, 10GB/s to 1000TB/s; null keeps the
	// profile's.
	HBM *units.Rate `yaml:"hbm_bandwidth,omitempty"`
	// NVLink is the data rate in one direction, 1GB/s to 100TB/s; null keeps the
	// profile's. What kernels achieve of it, where known, keeps its ratio.
	NVLink *units.Rate `yaml:"nvlink,omitempty"`
}

// Validate reports numbers out of range, by their keys in a scenario's section
// gpu.
func (o *Override) Validate() error {
	var ps config.Problems
	within(&ps, "memory", o.Memory, leastMemory, mostMemory)
	within(&ps, "sms", o.SMs, 1, mostSMs)
	within(&ps, "peak_fp8", o.PeakFP8, leastPeak, mostPeak)
	within(&ps, "peak_bf16", o.PeakBF16, leastPeak, mostPeak)
	within(&ps, "hbm_bandwidth", o.HBM, leastHBM, mostHBM)
	within(&ps, "nvlink", o.NVLink, leastNVLink, mostNVLink)
	return ps.Err()
}

// Between which numbers a GPU may lie, in its file or as a what-if. They catch a
// wrong unit, not a bold plan.
const (
	leastMemory, mostMemory = units.GB, 10 * units.TB
	mostSMs                 = 1024
	leastPeak, mostPeak     = units.TFLOPs, 1000 * units.PFLOPs
	leastHBM, mostHBM       = 80 * units.Gbps, 8e6 * units.Gbps // 10 GB/s to 1000 TB/s
	leastNVLink, mostNVLink = 8 * units.Gbps, 8e5 * units.Gbps  // 1 GB/s to 100 TB/s
)

// A number is of a kind that a GPU is described by.
type number interface {
	units.Bytes | units.Rate | units.FLOPRate | float64 | int
}

func within[T number](ps *config.Problems, key string, v *T, low, high T) {
	if v != nil && !(*v >= low && *v <= high) {
		ps.Addf(key, "%s is out of range: %s to %s", readable(*v), readable(low), readable(high))
	}
}

// readable prints a number in a unit that it is commonly written in: a rate of
// memory or NVLink in bytes.
func readable[T number](v T) string {
	scaled := func(v, large float64, big, small string) string {
		if math.Abs(v) < large {
			return strconv.FormatFloat(v/large*1e3, 'g', -1, 64) + small
		}
		return strconv.FormatFloat(v/large, 'g', -1, 64) + big
	}
	switch v := any(v).(type) {
	case units.Rate:
		return scaled(v.BytesPerSecond(), 1e12, "TB/s", "GB/s")
	case units.FLOPRate:
		return scaled(float64(v), 1e15, "PFLOP/s", "TFLOP/s")
	}
	return fmt.Sprint(v)
}

// Apply returns p with the numbers replaced, their sources saying so. p is not
// changed.
func (o *Override) Apply(p *Profile) *Profile {
	q := *p
	replace(&q.Memory, o.Memory)
	replace(&q.SMs, o.SMs)
	if o.PeakFP8 != nil {
		replace(&q.PeakFP8, (*float64)(o.PeakFP8))
	}
	if o.PeakBF16 != nil {
		replace(&q.PeakBF16, (*float64)(o.PeakBF16))
	}
	replace(&q.HBM, o.HBM)
	if o.NVLink != nil {
		if a := &q.NVLinkAchieved; a.Value > 0 {
			a.Source = fmt.Sprintf("what if: the same %.3g of nvlink as %v of %v", float64(a.Value)/float64(q.NVLink.Value), a.Value, q.NVLink.Value)
			a.Value = units.Rate(float64(a.Value) / float64(q.NVLink.Value) * float64(*o.NVLink))
		}
		replace(&q.NVLink, o.NVLink)
	}
	return &q
}

// Changes lists what Apply would replace of p, in sentences.
func (o *Override) Changes(p *Profile) (out []string) {
	q := o.Apply(p)
	say := func(changed bool, key, was, is string) {
		if changed {
			out = append(out, fmt.Sprintf("What if: gpu.%s is %s in place of %s.", key, is, was))
		}
	}
	say(o.Memory != nil, "memory", p.Memory.Value.String(), q.Memory.Value.String())
	say(o.SMs != nil, "sms", strconv.Itoa(p.SMs.Value), strconv.Itoa(q.SMs.Value))
	say(o.PeakFP8 != nil, "peak_fp8", flops(p.PeakFP8.Value), flops(q.PeakFP8.Value))
	say(o.PeakBF16 != nil, "peak_bf16", flops(p.PeakBF16.Value), flops(q.PeakBF16.Value))
	say(o.HBM != nil, "hbm_bandwidth", bytesPerSecond(p.HBM.Value), bytesPerSecond(q.HBM.Value))
	say(o.NVLink != nil, "nvlink", bytesPerSecond(p.NVLink.Value), bytesPerSecond(q.NVLink.Value))
	return out
}

func replace[T any](k *Known[T], v *T) {
	if v != nil {
		*k = Known[T]{Value: *v, Source: fmt.Sprintf("what if: set by the scenario, in place of %v", k.Value)}
	}
}

// NVLinkRate is what a collective gets of NVLink in one direction: what kernels
// achieve, or the peak where nobody has measured that.
func (p *Profile) NVLinkRate() units.Rate {
	if p.NVLinkAchieved.Value > 0 {
		return p.NVLinkAchieved.Value
	}
	return p.NVLink.Value
}
