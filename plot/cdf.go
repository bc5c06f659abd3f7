package plot

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tgssim/tgssim/metrics"
)

// makeCDF composes the distributions of a latency, a line per run.
func (p *Preset) makeCDF(r *Request) (*figure, error) {
	if strings.Contains(r.Log, "y") {
		return nil, errors.New("--log " + r.Log + ": a share that begins at 0 has no logarithmic axis")
	}
	t, runs, err := openRuns(r)
	if err != nil {
		return nil, err
	}
	if err := nameRuns(t, runs, r.By); err != nil {
		return nil, err
	}
	if len(runs) > maxSeries {
		return nil, fmt.Errorf("%d runs cannot be told apart, %d at most", len(runs), maxSeries)
	}
	f := &figure{title: p.title, subtitle: t.facts()}
	o := panel{y: axis{label: "Share of requests (%)", min: 0, max: 1, format: percent, places: []float64{0, 0.25, 0.5, 0.75, 0.9, 1}}}
	o.x.label = "Time to first token, TTFT (ms)"
	what := "requests"
	if p.kind == kindITL {
		o.x.label, o.y.label, what = "Time between outputs of a request, ITL (ms)", "Share of gaps (%)", "gaps"
	}
	samples, err := p.samples(runs)
	if err != nil {
		return nil, err
	}
	sizes, err := f.distributions(&o, runs, samples, what)
	if err != nil {
		return nil, err
	}
	if err := o.scaleLatency(r); err != nil {
		return nil, err
	}
	f.panels = []panel{o}
	f.caption = append(f.caption, fmt.Sprintf("Share of %s up to a value, of %s %s per run; p50 and p99 are percentiles; %s.",
		what, listed(sizes, 6), basis(p.kind), t.seeds()), t.origin())
	return f, nil
}

// samples are the latencies of each run.
func (p *Preset) samples(runs []*runData) (samples [][]metrics.Weighted, err error) {
	for _, d := range runs {
		sample := d.ttfts()
		if p.kind == kindITL {
			if sample, err = d.itls(); err != nil {
				return nil, err
			}
		}
		samples = append(samples, sample)
	}
	return samples, nil
}

// distributions adds a line and an entry per run and returns the sizes of the
// samples, each once.
func (f *figure) distributions(o *panel, runs []*runData, samples [][]metrics.Weighted, what string) (sizes []string, err error) {
	mixed := slices.ContainsFunc(runs, func(d *runData) bool { return !d.row.ideal() })
	real := 0
	for i, d := range runs {
		s := styleOf(real)
		if d.row.ideal() && mixed {
			s = idealStyle(i - real)
		} else {
			real++
		}
		s.marker = noMarker
		sample := samples[i]
		if len(sample) == 0 {
			f.notes = append(f.notes, fmt.Sprintf("%s has no %s to show", d.row.folder.dir, what))
			f.caption = append(f.caption, fmt.Sprintf("%s has no %s to show.", d.name, what))
			continue
		}
		o.layers = append(o.layers, layer{style: s, line: cumulate(sample)})
		p50, p99 := metrics.WeightedPercentile(sample, 50), metrics.WeightedPercentile(sample, 99)
		f.legend = append(f.legend, entry{style: s, name: fmt.Sprintf("%s\np50 %s, p99 %s ms", d.name, significant(p50), significant(p99))})
		sizes = append(sizes, decimal(float64(total(sample)), 0))
	}
	if len(o.layers) == 0 {
		return nil, errors.New("no run has any " + what + " to show")
	}
	slices.Sort(sizes)
	return slices.Compact(sizes), nil
}

// scaleLatency makes room for the lines of all distributions.
func (o *panel) scaleLatency(r *Request) error {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, l := range o.layers {
		lo, hi = min(lo, l.line[0].x), max(hi, l.line[len(l.line)-1].x)
	}
	o.x.log = wantsLog([]float64{lo, hi}, false)
	if r.Log != "" {
		o.x.log = r.Log == "x"
	}
	if o.x.log && lo <= 0 {
		return errors.New("--log x: a value of 0 has no place on a logarithmic axis")
	}
	o.x.cover(lo, hi, 0.03, 0.03)
	if !o.x.log && (lo < 0.5*hi || o.x.min < 0) && !r.Zoom {
		o.x.min = 0
	}
	return nil
}

func basis(k kind) string {
	if k == kindITL {
		return "gaps between successive outputs, pooled over all requests"
	}
	return "finished requests"
}

func total(sample []metrics.Weighted) (n int64) {
	for _, w := range sample {
		n += w.Count
	}
	return n
}

// maxCorners bounds the corners of a distribution that are drawn.
const maxCorners = 300

// cumulate is the distribution function as a line of steps: it jumps at each
// value to the share of the sample that is not above it. Of a large sample, every
// so many-th value jumps for those before it.
func cumulate(sample []metrics.Weighted) []xy {
	n := float64(total(sample))
	every := int64(math.Ceil(n / maxCorners))
	line := []xy{{sample[0].Value, 0}}
	var below, drawn int64
	for i, w := range sample {
		below += w.Count
		if below-drawn < every && i != len(sample)-1 {
			continue
		}
		drawn = below
		if last := line[len(line)-1]; last.x != w.Value {
			line = append(line, xy{w.Value, last.y})
		}
		line = append(line, xy{w.Value, float64(below) / n})
	}
	return line
}

func percent(x float64) string { return number(math.RoundToEven(1000*x) / 10) }

// Where the time to first token goes: the pieces of requests.csv, some together.
var parts = []struct {
	name   string
	pieces []string
	colour int // of partColours
	hatch  hatch
}{
	{"Waiting for prefill", []string{"ttft_queue_ps"}, 0, plain},
	{"Prefill: compute", []string{"ttft_prefill_compute_ps"}, 1, plain},
	{"Prefill: waiting for experts and all-reduce", []string{"ttft_prefill_comm_ps"}, 2, rising},
	{"Waiting for memory of decode", []string{"ttft_decode_memory_ps"}, 3, dotted},
	{"KV transfer: posting", []string{"ttft_transfer_post_ps"}, 4, plain},
	{"KV transfer: wire", []string{"ttft_transfer_wire_ps"}, 5, falling},
	{"KV transfer: contention", []string{"ttft_transfer_queue_ps"}, 6, crossed},
	{"Waiting for a decode step", []string{"ttft_decode_wait_ps"}, 7, level},
	{"First decode step", []string{"ttft_decode_compute_ps", "ttft_decode_comm_ps", "ttft_decode_host_ps"}, 8, plain},
}

// maxPanels is the number of panels that a picture can have.
const maxPanels = 4

// makeBreakdown composes stacked bars of the pieces of TTFT against the length
// of the prompt, a panel per run.
func (p *Preset) makeBreakdown(r *Request) (*figure, error) {
	t, runs, err := openRuns(r)
	if err != nil {
		return nil, err
	}
	if len(runs) > maxPanels {
		return nil, fmt.Errorf("--preset %s shows %d runs at most, a panel for each, and not %d: choose some", p.Name, maxPanels, len(runs))
	}
	if r.Log != "" && r.Log != "none" {
		return nil, fmt.Errorf("--preset %s has its own axes; leave out --log", p.Name)
	}
	if err := nameRuns(t, runs, r.By); err != nil {
		return nil, err
	}
	var all []*request
	for _, d := range runs {
		requests, err := d.broken()
		if err != nil {
			return nil, err
		}
		all = append(all, requests...)
	}
	f := &figure{title: p.title, subtitle: t.facts()}
	bins := binsOf(all)
	top, counted := 0., true
	for _, d := range runs {
		o := panel{x: axis{label: "Prompt length (tokens)"}, y: axis{label: "Mean time to first token (ms)"}}
		if len(runs) > 1 {
			o.title, o.y.label = d.name, "Mean TTFT (ms)"
		}
		top = max(top, o.stack(d, bins))
		f.panels = append(f.panels, o)
		counted = counted && slices.Equal(o.x.names, f.panels[0].x.names)
	}
	for i := range f.panels {
		o := &f.panels[i]
		o.x.min, o.x.max = -0.5, float64(len(bins))-0.5
		o.y.cover(0, top, 0, 0.06)
		for k := range bins {
			if !counted { // the runs differ in them
				o.x.names[k] = bins[k].reach()
			}
		}
	}
	f.legendOfParts(all)
	count := " A"
	switch {
	case counted && len(runs) > 1:
		count = " n is the number of requests of each run; a"
	case counted:
		count = " n is the number of requests; a"
	}
	f.caption = []string{
		fmt.Sprintf("Means over %s finished requests, %s; the pieces of a bar add up to its mean TTFT.%s range excludes its end, K is 1,024.",
			decimal(float64(len(all)), 0), t.seeds(), count),
		t.origin(),
	}
	return f, nil
}

// broken are the requests of a run whose TTFT is broken into pieces.
func (d *runData) broken() ([]*request, error) {
	requests := d.measured()
	if len(requests) == 0 {
		return nil, fmt.Errorf("%s has no finished request to show", d.row.folder.dir)
	}
	for _, q := range requests {
		if sum(q.pieces) != int64(q.ttft) {
			return nil, fmt.Errorf("%s: the pieces of a request's TTFT do not add up to it", d.row.folder.dir)
		}
	}
	return requests, nil
}

// stack adds the bars of a run, a bar for each bin, and returns the height of the
// highest.
func (o *panel) stack(d *runData, bins []bin) (top float64) {
	for i, b := range bins {
		b.requests = nil
		for _, q := range d.measured() {
			if b.from <= q.prompt && q.prompt <= b.to {
				b.requests = append(b.requests, q)
			}
		}
		o.x.names = append(o.x.names, b.name())
		level := 0.
		for _, part := range parts {
			height := b.mean(part.pieces)
			if height > 0 {
				o.bars = append(o.bars, bar{
					from: xy{float64(i) - 0.36, level}, to: xy{float64(i) + 0.36, level + height},
					colour: partColours[part.colour], hatch: part.hatch,
				})
				level += height
			}
		}
		top = max(top, level)
	}
	return top
}

// legendOfParts lists the pieces from the top of a bar to its foot, those that
// are nowhere left out.
func (f *figure) legendOfParts(requests []*request) {
	all := bin{requests: requests}
	var none []string
	for _, part := range slices.Backward(parts) {
		if all.mean(part.pieces) == 0 {
			none = append(none, part.name)
			continue
		}
		f.legend = append(f.legend, entry{name: part.name, style: style{colour: partColours[part.colour]}, box: true, hatch: part.hatch})
	}
	if len(none) > 0 {
		slices.Reverse(none)
		f.notes = append(f.notes, "no time is spent in: "+listed(none, len(none)))
	}
}

// A bin is the requests with prompts of a range of lengths.
type bin struct {
	from, to float64 // of prompts, both included
	requests []*request
}

// binsOf sorts requests by the length of their prompts: into the lengths
// themselves where they are few, or else into ranges between powers of two, of
// which those with less than 1 % of the requests join their neighbours.
func binsOf(requests []*request) []bin {
	var lengths []float64
	for _, q := range requests {
		lengths = append(lengths, q.prompt)
	}
	slices.Sort(lengths)
	lengths = slices.Compact(lengths)
	var bins []bin
	const few = 8
	if len(lengths) <= few {
		for _, n := range lengths {
			bins = append(bins, bin{from: n, to: n})
		}
	} else {
		for from := 0.; from <= lengths[len(lengths)-1]; {
			to := max(1, 2*from)
			bins = append(bins, bin{from: from, to: to - 1})
			from = to
		}
	}
	for _, q := range requests {
		i := slices.IndexFunc(bins, func(b bin) bool { return q.prompt <= b.to })
		bins[i].requests = append(bins[i].requests, q)
	}
	if len(lengths) > few {
		bins = merge(bins, max(1, len(requests)/100))
	}
	return bins
}

// merge joins bins with fewer than so many requests with the next, the last with
// the one before.
func merge(bins []bin, fewest int) []bin {
	var out []bin
	for _, b := range bins {
		if k := len(out) - 1; k >= 0 && len(out[k].requests) < fewest {
			out[k].to = b.to
			out[k].requests = append(out[k].requests, b.requests...)
			continue
		}
		out = append(out, b)
	}
	if k := len(out) - 1; k > 0 && len(out[k].requests) < fewest {
		out[k-1].to = out[k].to
		out[k-1].requests = append(out[k-1].requests, out[k].requests...)
		out = out[:k]
	}
	return out
}

// name is the reach of the bin and its number of requests.
func (b *bin) name() string { return b.reach() + "\nn=" + decimal(float64(len(b.requests)), 0) }

// reach is the range of the bin, its end excluded.
func (b *bin) reach() string {
	switch {
	case b.from == b.to:
		return number(b.from)
	case b.from == 0:
		return "<" + binary(b.to+1)
	}
	return binary(b.from) + "\u2013" + binary(b.to+1)
}

// binary writes a power of two, with K for 1,024.
func binary(x float64) string {
	if x >= 1024 && math.Mod(x, 1024) == 0 {
		return number(x/1024) + "K"
	}
	return number(x)
}

// mean is the mean of the sum of some pieces in ms, 0 without requests.
func (b *bin) mean(pieces []string) float64 {
	if len(b.requests) == 0 {
		return 0
	}
	var ps float64
	for _, q := range b.requests {
		for _, name := range pieces {
			ps += float64(q.pieces[slices.Index(pieceColumns, name)])
		}
	}
	return ps / 1e9 / float64(len(b.requests))
}

func sum[T ~int64](values []T) (n int64) {
	for _, v := range values {
		n += int64(v)
	}
	return n
}
