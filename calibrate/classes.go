package calibrate

import (
	"github.com/tgssim/tgssim/compute"
	"github.com/tgssim/tgssim/sim"
)

// A constant is one number of a kernel class that a fit may move.
type constant struct {
	name, unit string
	get        func(*compute.Profile) float64
	set        func(*compute.Profile, float64)
	// low and high are the bounds of the profile format.
	low, high float64
	// start is a typical value, and width the deviation of a weak prior: how far
	// GPUs and libraries differ.
	start, width float64
	// digits is the number of decimals that a profile has.
	digits int
	// only is the format of KV that the constant is for; 0 for all.
	only compute.DType
	// absent is what the value 0 stands for; nil where it is itself.
	absent func(*compute.Profile) float64
}

// effective is the value that p's times are of.
func (c *constant) effective(p *compute.Profile) float64 {
	if v := c.get(p); v != 0 || c.absent == nil {
		return v
	}
	return c.absent(p)
}

// A class is a kernel class: its constants and what its file rows need.
type class struct {
	name string
	// columns are the sizes that a row must have; optional ones have a default.
	columns  []string
	optional []string
	// dtypes are the formats that a row may name; the first is the default, and
	// required tells that a row must name one.
	dtypes    []compute.DType
	required  bool
	constants []constant
	// tile is the name of the constant that is never fitted, if there is one.
	tile string
	fit  func(*compute.Profile) *compute.Fit
}

// least is the number of distinct shapes without which a class is not fitted.
func (c *class) least() int {
	n := 2
	for _, k := range c.constants {
		if k.only == 0 || k.only == compute.BF16 {
			n++
		}
	}
	return n
}

const (
	fixedMost = 1000. // microseconds
	sizeMost  = 1e5
	// The least efficiency that a fit may end at.
	leastEff = 0.01
)

// number makes the constant at the address that of returns.
func number(name, unit string, of func(*compute.Profile) *float64, c constant) constant {
	c.name, c.unit = name, unit
	c.get = func(p *compute.Profile) float64 { return *of(p) }
	c.set = func(p *compute.Profile, v float64) { *of(p) = v }
	return c
}

func efficiency(name string, start float64, of func(*compute.Profile) *float64) constant {
	return number(name, "", of, constant{low: leastEff, high: 1, start: start, width: 0.2, digits: 4})
}

// fixedTime is t0, in microseconds.
func fixedTime(start float64, of func(*compute.Profile) *sim.Time) constant {
	return constant{
		name: "t0", unit: "us", low: 0, high: fixedMost, start: start, width: 10, digits: 4,
		get: func(p *compute.Profile) float64 { return of(p).Microseconds() },
		set: func(p *compute.Profile, v float64) { *of(p) = sim.FromMicroseconds(v) },
	}
}

func gemmConstants(of func(*compute.Profile) *compute.GEMM) []constant {
	return []constant{
		efficiency("eff_fraction", 0.7, func(p *compute.Profile) *float64 { return &of(p).Eff }),
		fixedTime(4, func(p *compute.Profile) *sim.Time { return &of(p).T0 }),
		number("wave_waste_fraction", "waves", func(p *compute.Profile) *float64 { return &of(p).WaveWaste },
			constant{low: 0, high: 8, start: 0.2, width: 1, digits: 4}),
		number("k0_elements", "elements", func(p *compute.Profile) *float64 { return &of(p).K0 },
			constant{low: 0, high: sizeMost, start: 200, width: 300, digits: 2}),
		efficiency("bw_eff_fraction", 0.85, func(p *compute.Profile) *float64 { return &of(p).BWEff }),
	}
}

func decodeConstants(of func(*compute.Profile) *compute.AttentionDecode) []constant {
	eff := efficiency("eff_fraction", 0.5, func(p *compute.Profile) *float64 { return &of(p).Eff })
	bw := efficiency("bw_eff_fraction", 0.85, func(p *compute.Profile) *float64 { return &of(p).BWEff })
	fp8 := efficiency("fp8_kv_bw_eff_fraction", 0.6, func(p *compute.Profile) *float64 { return &of(p).FP8KVBWEff })
	speedup := number("fp8_kv_speedup", "", func(p *compute.Profile) *float64 { return &of(p).FP8KVSpeedup },
		constant{low: 0.1, high: 2, start: 1, width: 0.5, digits: 4})
	eff.only, bw.only, fp8.only, speedup.only = compute.BF16, compute.BF16, compute.FP8, compute.FP8
	fp8.absent, speedup.absent = bw.get, func(*compute.Profile) float64 { return 1 }
	return []constant{
		eff,
		fixedTime(20, func(p *compute.Profile) *sim.Time { return &of(p).T0 }),
		bw, fp8, speedup,
	}
}

func prefillConstants(of func(*compute.Profile) *compute.AttentionPrefill) []constant {
	return []constant{
		efficiency("eff_fraction", 0.6, func(p *compute.Profile) *float64 { return &of(p).Eff }),
		fixedTime(20, func(p *compute.Profile) *sim.Time { return &of(p).T0 }),
		number("s0_tokens", "tokens", func(p *compute.Profile) *float64 { return &of(p).S0 },
			constant{low: 0, high: sizeMost, start: 300, width: 1000, digits: 2}),
	}
}

// classes lists the kernel classes in the order of a profile.
func classes() []class {
	bf16, fp8, mxfp4 := compute.BF16, compute.FP8, compute.MXFP4
	dense := []string{"m", "n", "k"}
	grouped := []string{"experts", "rows_per_expert", "n", "k"}
	latent := []string{"kv_lora_rank", "qk_rope_head_dim"}
	return []class{
		{name: "gemm_fp8", columns: dense, dtypes: []compute.DType{fp8}, tile: "pad_m_rows",
			constants: gemmConstants(func(p *compute.Profile) *compute.GEMM { return &p.Kernels.GEMMFP8.Constants }),
			fit:       func(p *compute.Profile) *compute.Fit { return &p.Kernels.GEMMFP8.Fit }},
		{name: "gemm_bf16", columns: dense, dtypes: []compute.DType{bf16}, tile: "pad_m_rows",
			constants: gemmConstants(func(p *compute.Profile) *compute.GEMM { return &p.Kernels.GEMMBF16.Constants }),
			fit:       func(p *compute.Profile) *compute.Fit { return &p.Kernels.GEMMBF16.Fit }},
		{name: "grouped_contiguous", columns: grouped, dtypes: []compute.DType{bf16, fp8, mxfp4}, required: true, tile: "pad_m_rows",
			constants: gemmConstants(func(p *compute.Profile) *compute.GEMM { return &p.Kernels.GroupedContiguous.Constants }),
			fit:       func(p *compute.Profile) *compute.Fit { return &p.Kernels.GroupedContiguous.Fit }},
		{name: "grouped_masked", columns: grouped, dtypes: []compute.DType{bf16, fp8, mxfp4}, required: true, tile: "pad_m_rows",
			constants: gemmConstants(func(p *compute.Profile) *compute.GEMM { return &p.Kernels.GroupedMasked.Constants }),
			fit:       func(p *compute.Profile) *compute.Fit { return &p.Kernels.GroupedMasked.Fit }},
		{name: "gqa_decode", columns: []string{"batch", "kv_len", "heads", "kv_heads", "head_dim"}, optional: []string{"query_tokens"},
			dtypes: []compute.DType{bf16, fp8}, tile: "pad_group_rows",
			constants: decodeConstants(func(p *compute.Profile) *compute.AttentionDecode { return &p.Kernels.GQADecode.Constants }),
			fit:       func(p *compute.Profile) *compute.Fit { return &p.Kernels.GQADecode.Fit }},
		{name: "mla_decode", columns: []string{"batch", "kv_len", "heads"}, optional: append([]string{"query_tokens"}, latent...),
			dtypes: []compute.DType{bf16, fp8}, tile: "pad_group_rows",
			constants: decodeConstants(func(p *compute.Profile) *compute.AttentionDecode { return &p.Kernels.MLADecode.Constants }),
			fit:       func(p *compute.Profile) *compute.Fit { return &p.Kernels.MLADecode.Fit }},
		{name: "gqa_prefill", columns: []string{"seq_len", "heads", "head_dim"}, optional: []string{"kv_heads", "sequences", "context_len"},
			dtypes:    []compute.DType{bf16, fp8},
			constants: prefillConstants(func(p *compute.Profile) *compute.AttentionPrefill { return &p.Kernels.GQAPrefill.Constants }),
			fit:       func(p *compute.Profile) *compute.Fit { return &p.Kernels.GQAPrefill.Fit }},
		{name: "mla_prefill", columns: []string{"seq_len", "heads"},
			optional:  append([]string{"sequences", "context_len", "qk_nope_head_dim", "v_head_dim"}, latent...),
			dtypes:    []compute.DType{bf16},
			constants: prefillConstants(func(p *compute.Profile) *compute.AttentionPrefill { return &p.Kernels.MLAPrefill.Constants }),
			fit:       func(p *compute.Profile) *compute.Fit { return &p.Kernels.MLAPrefill.Fit }},
		{name: "elementwise", columns: []string{"bytes"}, optional: []string{"kernels"},
			dtypes: []compute.DType{bf16, fp8, mxfp4},
			constants: []constant{
				fixedTime(2, func(p *compute.Profile) *sim.Time { return &p.Kernels.Elementwise.Constants.T0 }),
				efficiency("bw_eff_fraction", 0.8, func(p *compute.Profile) *float64 { return &p.Kernels.Elementwise.Constants.BWEff }),
			},
			fit: func(p *compute.Profile) *compute.Fit { return &p.Kernels.Elementwise.Fit }},
		{name: "launch_gap", optional: []string{"kernels"},
			dtypes:    []compute.DType{bf16, fp8, mxfp4},
			constants: []constant{fixedTime(1, func(p *compute.Profile) *sim.Time { return &p.Kernels.LaunchGap.Constants.T0 })},
			fit:       func(p *compute.Profile) *compute.Fit { return &p.Kernels.LaunchGap.Fit }},
	}
}

// A size is a column of the table with one dimension of a kernel.
type size struct {
	name string
	at   func(*compute.Kernel) *float64
	// otherwise is the value where the column is empty and the class does not need
	// it: DeepSeek-V3's dimensions, one of everything else, no context.
	otherwise float64
	// least is 1, or 0 where nothing is a valid number of tokens.
	least float64
	// fraction is set where the number need not be whole.
	fraction bool
}

// sizes lists the size columns.
func sizes() []size {
	return []size{
		{name: "m", at: func(k *compute.Kernel) *float64 { return &k.M }, least: 1},
		{name: "n", at: func(k *compute.Kernel) *float64 { return &k.N }, least: 1},
		{name: "k", at: func(k *compute.Kernel) *float64 { return &k.K }, least: 1},
		{name: "experts", at: func(k *compute.Kernel) *float64 { return &k.Experts }, least: 1},
		{name: "rows_per_expert", at: func(k *compute.Kernel) *float64 { return &k.RowsPerExpert }, fraction: true},
		{name: "heads", at: func(k *compute.Kernel) *float64 { return &k.Heads }, least: 1},
		{name: "kv_heads", at: func(k *compute.Kernel) *float64 { return &k.KVHeads }, least: 1, otherwise: 1},
		{name: "head_dim", at: func(k *compute.Kernel) *float64 { return &k.HeadDim }, least: 1},
		{name: "kv_lora_rank", at: func(k *compute.Kernel) *float64 { return &k.Latent }, least: 1, otherwise: 512},
		{name: "qk_rope_head_dim", at: func(k *compute.Kernel) *float64 { return &k.RopeDim }, otherwise: 64},
		{name: "qk_nope_head_dim", at: func(k *compute.Kernel) *float64 { return &k.NopeDim }, least: 1, otherwise: 128},
		{name: "v_head_dim", at: func(k *compute.Kernel) *float64 { return &k.ValueDim }, least: 1, otherwise: 128},
		{name: "batch", at: func(k *compute.Kernel) *float64 { return &k.Batch }, least: 1},
		{name: "kv_len", at: func(k *compute.Kernel) *float64 { return &k.KVLen }, least: 1},
		{name: "query_tokens", at: func(k *compute.Kernel) *float64 { return &k.QueryTokens }, least: 1, otherwise: 1},
		{name: "sequences", at: func(k *compute.Kernel) *float64 { return &k.Sequences }, least: 1, otherwise: 1},
		{name: "seq_len", at: func(k *compute.Kernel) *float64 { return &k.SeqLen }, least: 1},
		{name: "context_len", at: func(k *compute.Kernel) *float64 { return &k.ContextLen }},
		{name: "bytes", at: func(k *compute.Kernel) *float64 { return &k.Bytes }},
		{name: "kernels", at: func(k *compute.Kernel) *float64 { return &k.Kernels }, least: 1, otherwise: 1},
	}
}
