package docs

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/compute"
	"github.com/tgssim/tgssim/experiment"
	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/scenarios"
)

func TestGPUs(t *testing.T) {
	check(t, "gpus.md", []table{
		{name: "facts", make: factsTable},
		{name: "fits", make: fitsTable},
		{name: "what-if", long: true, make: whatIfTable},
	})
}

func factsTable(t *testing.T) string {
	r := newRows("GPU", "number", "value", "source")
	for _, name := range compute.Profiles() {
		p, err := compute.LoadProfile(name)
		require.NoError(t, err)
		for _, f := range p.FactTable() {
			r.row(p.Name, "`"+f.Name+"`", f.Value, f.Source)
		}
	}
	return r.String()
}

func fitsTable(t *testing.T) string {
	r := newRows("GPU", "class", "status", "points", "error, %", "held out, %", "source", "note")
	for _, name := range compute.Profiles() {
		p, err := compute.LoadProfile(name)
		require.NoError(t, err)
		for _, f := range p.FitTable() {
			status, points := string(f.Status), ""
			if f.Status == compute.Borrowed {
				status = "unfitted, from " + f.MeasuredOn
			}
			if f.Points > 0 {
				points = fmt.Sprint(f.Points)
			}
			r.row(p.Name, "`"+f.Class+"`", status, points, pair(f.MedianPct, f.P95Pct), pair(f.HeldOutMedianPct, f.HeldOutP95Pct), f.Source, f.Note)
		}
	}
	return r.String()
}

// pair is a median and a 95th percentile.
func pair(median, p95 float64) string {
	switch {
	case median == 0 && p95 == 0:
		return ""
	case p95 == 0:
		return fmt.Sprintf("%g / -", median)
	}
	return fmt.Sprintf("%g / %g", median, p95)
}

// A whatIf is a scenario in which one pool's compute is looked at, and the kernels
// of one of its steps.
type whatIf struct {
	name     string
	scenario string
	set      []string
	prefill  bool
	kernels  []counted
}

// counted is a kernel and how often a step has it.
type counted struct {
	times float64
	compute.Kernel
}

func gemm(class string, times, m, k, n float64) counted {
	return counted{times, compute.Kernel{Class: class, M: m, K: k, N: n}}
}

func move(times, kernels, bytes float64) counted {
	return counted{times, compute.Kernel{Class: "elementwise", Kernels: kernels, Bytes: bytes}}
}

// llamaDecode are the kernels of a decode step of Llama-3.1-70B at TP8: 80 layers
// of hidden size 8,192, of which a GPU has 8 query heads, 1 KV head and 3,584
// columns of the MLP.
func llamaDecode(batch, context float64) []counted {
	const layers, hidden = 80, 8192
	h := 2 * batch * hidden
	return []counted{
		gemm("gemm_bf16", layers, batch, hidden, 10*128), gemm("gemm_bf16", layers, batch, 8*128, hidden),
		gemm("gemm_bf16", layers, batch, hidden, 2*3584), gemm("gemm_bf16", layers, batch, 3584, hidden),
		{layers, compute.Kernel{Class: "gqa_decode", DType: compute.BF16, Batch: batch, KVLen: context, QueryTokens: 1, Heads: 8, KVHeads: 1, HeadDim: 128}},
		move(layers, 6, 8*h+batch*(9*128*4+2*128*4)+batch*3584*6),
		{layers, compute.Kernel{Class: "launch_gap", Kernels: 11}},
		gemm("gemm_bf16", 1, batch, hidden, 16032), move(1, 6, batch*16032*6),
	}
}

// deepseekPrefill are the kernels of a prefill step of DeepSeek-V3 at EP32 with
// attention of its own on each GPU: 58 layers of 256 experts, of which a GPU has 8,
// and 3 dense ones.
func deepseekPrefill(sequences, length float64) []counted {
	const layers, moe, dense, hidden = 61, 58, 3, 7168
	t := sequences * length
	h, rows := 2*t*hidden, 8*t
	grouped := func(k, n float64) counted {
		return counted{moe, compute.Kernel{Class: "grouped_contiguous", DType: compute.FP8, Experts: 8, RowsPerExpert: t, K: k, N: n}}
	}
	return []counted{
		gemm("gemm_fp8", layers, t, hidden, 2112), gemm("gemm_fp8", layers, t, 1536, 24576), gemm("gemm_fp8", layers, t, 512, 32768),
		gemm("gemm_fp8", layers, t, 16384, hidden), gemm("gemm_bf16", moe, t, hidden, 256),
		{layers, compute.Kernel{Class: "mla_prefill", Sequences: sequences, SeqLen: length, Heads: 128, Latent: 512, RopeDim: 64, NopeDim: 128, ValueDim: 128}},
		gemm("gemm_fp8", moe, t, hidden, 4096), gemm("gemm_fp8", moe, t, 2048, hidden),
		grouped(hidden, 4096), grouped(2048, hidden),
		gemm("gemm_fp8", dense, t, hidden, 36864), gemm("gemm_fp8", dense, t, 18432, hidden),
		// Norms, rope, quantisation and assembly of keys and values; then SwiGLU,
		// permutation and reduction of the experts.
		move(layers, 10, 7*h+t*(2112*4+1536*3+128*64*4+128*(512+384)+16384*3)),
		move(moe, 7, t*2048*5+2*h+rows*2048*5+float64(3*hidden)*(rows+7.1*t)),
		move(dense, 2, t*18432*6+2*h),
		gemm("gemm_bf16", 1, sequences, hidden, 129280), move(1, 6, sequences*129280*6),
	}
}

var whatIfs = []whatIf{
	{name: "Llama-3.1-70B decode, 32 requests at TP8", scenario: "llama-3.1-70b-h800-pd", set: llamaSet(32), kernels: llamaDecode(32, 2048+256)},
	{name: "Llama-3.1-70B decode, 256 requests at TP8", scenario: "llama-3.1-70b-h800-pd", set: llamaSet(256), kernels: llamaDecode(256, 2048+256)},
	{name: "DeepSeek-V3 prefill, 2 x 4,096 tokens per GPU at EP32", scenario: "deepseek-v3-h800-pd", prefill: true, kernels: deepseekPrefill(2, 4096), set: []string{
		"network.engine=ideal", "prefill.instances=1", "prefill.tp=1", "prefill.dp=32", "prefill.max_batch_tokens=8192", "prefill.overlap=none",
		"workload.requests=64", "workload.arrivals={process: at_once}", "workload.prompt={dist: fixed, tokens: 4096}", "workload.output={dist: fixed, tokens: 1}",
	}},
}

func llamaSet(requests int) []string {
	return []string{
		"network.engine=ideal", "decode.instances=1", "decode.max_batch_requests=256", fmt.Sprintf("workload.requests=%d", requests),
		"workload.arrivals={process: at_once}", "workload.prompt={dist: fixed, tokens: 2048}", "workload.output={dist: fixed, tokens: 512}",
	}
}

// changes are the what-ifs on H800 of the table.
var changes = []struct {
	name string
	set  []string
}{
	{"`gpu.hbm_bandwidth=6.7TB/s` (x 2)", []string{"gpu.hbm_bandwidth=6.7TB/s"}},
	{"`gpu.peak_bf16=1979TFLOP/s gpu.peak_fp8=3958TFLOP/s` (x 2)", []string{"gpu.peak_bf16=1979TFLOP/s", "gpu.peak_fp8=3958TFLOP/s"}},
	{"all three", []string{"gpu.hbm_bandwidth=6.7TB/s", "gpu.peak_bf16=1979TFLOP/s", "gpu.peak_fp8=3958TFLOP/s"}},
	{"`gpu.hbm_bandwidth=4.8TB/s` (H200's, x 1.43)", []string{"gpu.hbm_bandwidth=4.8TB/s"}},
}

// override reads the settings of a change.
func override(t *testing.T, set ...string) *compute.Override {
	var lines []string
	for _, a := range set {
		key, value, _ := strings.Cut(strings.TrimPrefix(a, "gpu."), "=")
		lines = append(lines, key+": "+value)
	}
	tree, err := config.Parse("set", []byte(strings.Join(lines, "\n")))
	require.NoError(t, err)
	var o compute.Override
	require.NoError(t, tree.Decode(&o))
	return &o
}

// roofline is the time of a step when each kernel takes the longer of its compute
// and its memory time, and not their smooth maximum.
func roofline(t *testing.T, p *compute.Profile, kernels []counted) (us float64) {
	noMemory := override(t, "hbm_bandwidth=1000TB/s").Apply(p)
	noCompute := override(t, "peak_bf16=1000PFLOP/s", "peak_fp8=1000PFLOP/s").Apply(p)
	for _, k := range kernels {
		us += k.times * max(noMemory.KernelTime(&k.Kernel), noCompute.KernelTime(&k.Kernel))
	}
	return us
}

// computeTime is the simulated compute of the pool in seconds of one GPU.
func (w *whatIf) computeTime(t *testing.T, set ...string) float64 {
	s, err := scenarios.Load(w.scenario, append(append([]string(nil), w.set...), set...)...)
	require.NoError(t, err)
	b, err := experiment.Build(s)
	require.NoError(t, err)
	r, err := b.Run(context.Background(), nil)
	require.NoError(t, err)
	share := r.Summary.GPUTimeDecode.Compute
	if w.prefill {
		share = r.Summary.GPUTimePrefill.Compute
	}
	return share * r.End.Seconds()
}

func whatIfTable(t *testing.T) string {
	p, err := compute.LoadProfile("H800")
	require.NoError(t, err)
	r := newRows("compute of", "change", "roofline", "simulated")
	for _, w := range whatIfs {
		before, flat := w.computeTime(t), roofline(t, p, w.kernels)
		for _, c := range changes {
			predicted := flat / roofline(t, override(t, c.set...).Apply(p), w.kernels)
			simulated := before / w.computeTime(t, c.set...)
			r.row(w.name, c.name, num(predicted, 2)+" x", num(simulated, 2)+" x")
			// The smooth maximum rounds the ridge off: a kernel there gains from either.
			require.InDelta(t, predicted, simulated, 0.15, "%s, %s", w.name, c.name)
		}
	}
	return r.String()
}

// What reads is faster in proportion to the bandwidth and not for more arithmetic,
// what computes the other way round, and what does both lies between; fixed times
// bound all of them.
func TestWhatIfFollowsTheRoofline(t *testing.T) {
	p, err := compute.LoadProfile("H800")
	require.NoError(t, err)
	bandwidth := override(t, changes[0].set...).Apply(p)
	arithmetic := override(t, changes[1].set...).Apply(p)
	speedup := func(q *compute.Profile, k compute.Kernel) float64 { return p.KernelTime(&k) / q.KernelTime(&k) }
	reads := compute.Kernel{Class: "gemm_bf16", M: 16, K: 16384, N: 65536}
	computes := compute.Kernel{Class: "gemm_bf16", M: 16384, K: 16384, N: 16384}
	both := compute.Kernel{Class: "gemm_bf16", M: 320, K: 8192, N: 16384}
	require.InDelta(t, 2, speedup(bandwidth, reads), 0.1)
	require.InDelta(t, 1, speedup(arithmetic, reads), 0.01)
	require.InDelta(t, 1, speedup(bandwidth, computes), 0.01)
	require.InDelta(t, 2, speedup(arithmetic, computes), 0.01)
	for _, q := range []*compute.Profile{bandwidth, arithmetic} {
		require.Greater(t, speedup(q, both), 1.05)
		require.Less(t, speedup(q, both), 1.6)
	}
}
