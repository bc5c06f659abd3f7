package compute

import (
	"fmt"
	"math"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/sim"
)

// The closed forms of this file are those of the fit: a fixed time t0, and the
// 3-norm of compute time Tc and memory time Tm,
//
//	t = t0 + (Tc^3 + Tm^3)^(1/3)
//
// All intermediate times are float64 microseconds, sizes are float64 counts
// (exact up to 2^53), and a share is the fraction of the SMs that the kernel has.

// mmaTile is the tile, in rows and columns of the output, of which a partly
// filled last wave is counted: 128 x 128.
const mmaTile = 128 * 128

// GEMM holds the constants of a GEMM-like class:
//
//	Tc = 2 (Mpad N + WaveWaste SMs 128^2) (K + K0) / (peak Eff)
//	Tm = bytes of A, of the weights of active experts and of C / (HBM BWEff)
type GEMM struct {
	// Eff is the fraction of the tensor-core peak reached by large shapes.
	Eff float64 `yaml:"eff_fraction"`
	// T0 is the fixed time of a call.
	T0 sim.Time `yaml:"t0"`
	// WaveWaste is the part of one full wave of tiles that is lost to the last,
	// partly filled one.
	WaveWaste float64 `yaml:"wave_waste_fraction"`
	// K0 is the prologue and epilogue of a tile, as elements of K.
	K0 float64 `yaml:"k0_elements"`
	// BWEff is the fraction of the HBM rate reached.
	BWEff float64 `yaml:"bw_eff_fraction"`
	// PadM is the number of rows to which the rows of each expert are padded.
	PadM int `yaml:"pad_m_rows"`
}

// Validate reports constants that are missing or out of range.
func (c GEMM) Validate() error {
	var ps config.Problems
	fraction(&ps, "eff_fraction", c.Eff)
	fraction(&ps, "bw_eff_fraction", c.BWEff)
	latency(&ps, "t0", c.T0)
	ps.Require(inside(c.WaveWaste, 0, 8), "wave_waste_fraction", "must be from 0 to 8 waves, not %v", c.WaveWaste)
	ps.Require(inside(c.K0, 0, 1e5), "k0_elements", "must be from 0 to 1e5, not %v", c.K0)
	ps.Require(c.PadM >= 1 && c.PadM <= 1024, "pad_m_rows", "must be from 1 to 1024, not %d", c.PadM)
	return ps.Err()
}

// String lists the constants.
func (c GEMM) String() string {
	return fmt.Sprintf("eff %g, t0 %v, wave waste %g, k0 %g, bw eff %g, pad %d rows",
		c.Eff, c.T0, c.WaveWaste, c.K0, c.BWEff, c.PadM)
}

// AttentionDecode holds the constants of a decode attention class: the 3-norm of
// the flops of the padded group of query rows and of the KV and query bytes.
type AttentionDecode struct {
	// Eff is the fraction of the bf16 peak reached.
	Eff float64 `yaml:"eff_fraction"`
	// T0 is the fixed time of a call.
	T0 sim.Time `yaml:"t0"`
	// BWEff is the fraction of the HBM rate reached.
	BWEff float64 `yaml:"bw_eff_fraction"`
	// PadRows is the number of rows to which the query heads that share one KV
	// head are padded.
	PadRows int `yaml:"pad_group_rows"`
	// FP8KVBWEff replaces BWEff when the KV is FP8; 0 when it is the same.
	FP8KVBWEff float64 `yaml:"fp8_kv_bw_eff_fraction"`
	// FP8KVSpeedup multiplies Eff when the KV is FP8; 0 stands for 1.
	FP8KVSpeedup float64 `yaml:"fp8_kv_speedup"`
}

// Validate reports constants that are missing or out of range.
func (c AttentionDecode) Validate() error {
	var ps config.Problems
	fraction(&ps, "eff_fraction", c.Eff)
	fraction(&ps, "bw_eff_fraction", c.BWEff)
	latency(&ps, "t0", c.T0)
	ps.Require(c.PadRows >= 1 && c.PadRows <= 1024, "pad_group_rows", "must be from 1 to 1024, not %d", c.PadRows)
	ps.Require(inside(c.FP8KVBWEff, 0, 1), "fp8_kv_bw_eff_fraction", "must be from 0 (as bw_eff_fraction) to 1, not %v", c.FP8KVBWEff)
	ps.Require(c.FP8KVSpeedup == 0 || inside(c.FP8KVSpeedup, 0.1, 2), "fp8_kv_speedup", "must be 0 (none) or from 0.1 to 2, not %v", c.FP8KVSpeedup)
	return ps.Err()
}

// String lists the constants.
func (c AttentionDecode) String() string {
	s := fmt.Sprintf("eff %g, t0 %v, bw eff %g, pad %d rows", c.Eff, c.T0, c.BWEff, c.PadRows)
	if c.FP8KVBWEff != 0 {
		s += fmt.Sprintf(", fp8 KV bw eff %g", c.FP8KVBWEff)
	}
	if c.FP8KVSpeedup != 0 {
		s += fmt.Sprintf(", fp8 KV speed-up %g", c.FP8KVSpeedup)
	}
	return s
}

func (c *AttentionDecode) effs(kv DType) (eff, bwEff float64) {
	eff, bwEff = c.Eff, c.BWEff
	if kv == FP8 {
		if c.FP8KVBWEff > 0 {
			bwEff = c.FP8KVBWEff
		}
		if c.FP8KVSpeedup > 0 {
			eff *= c.FP8KVSpeedup
		}
	}
	return eff, bwEff
}

// AttentionPrefill holds the constants of a causal attention class:
//
//	t = T0 + flops of S (S + S0) / 2 query-key pairs per sequence / (bf16 peak Eff)
type AttentionPrefill struct {
	// Eff is the fraction of the bf16 peak reached by long sequences.
	Eff float64 `yaml:"eff_fraction"`
	// T0 is the fixed time of a call.
	T0 sim.Time `yaml:"t0"`
	// S0 is what a query token costs beyond its causal half, as keys.
	S0 float64 `yaml:"s0_tokens"`
}

// Validate reports constants that are missing or out of range.
func (c AttentionPrefill) Validate() error {
	var ps config.Problems
	fraction(&ps, "eff_fraction", c.Eff)
	latency(&ps, "t0", c.T0)
	ps.Require(inside(c.S0, 0, 1e5), "s0_tokens", "must be from 0 to 1e5, not %v", c.S0)
	return ps.Err()
}

// String lists the constants.
func (c AttentionPrefill) String() string {
	return fmt.Sprintf("eff %g, t0 %v, s0 %g tokens", c.Eff, c.T0, c.S0)
}

// Elementwise holds the constants of kernels that only move bytes:
//
//	t = kernels T0 + bytes / (HBM BWEff)
type Elementwise struct {
	// T0 is the fixed time of one kernel.
	T0 sim.Time `yaml:"t0"`
	// BWEff is the fraction of the HBM rate reached.
	BWEff float64 `yaml:"bw_eff_fraction"`
}

// Validate reports constants that are missing or out of range.
func (c Elementwise) Validate() error {
	var ps config.Problems
	fraction(&ps, "bw_eff_fraction", c.BWEff)
	latency(&ps, "t0", c.T0)
	return ps.Err()
}

// String lists the constants.
func (c Elementwise) String() string { return fmt.Sprintf("t0 %v, bw eff %g", c.T0, c.BWEff) }

// LaunchGap is the time between two kernels of a CUDA graph.
type LaunchGap struct {
	T0 sim.Time `yaml:"t0"`
}

// Validate reports a gap that is out of range.
func (c LaunchGap) Validate() error {
	var ps config.Problems
	latency(&ps, "t0", c.T0)
	return ps.Err()
}

// String gives the gap.
func (c LaunchGap) String() string { return fmt.Sprintf("t0 %v", c.T0) }

func fraction(ps *config.Problems, key string, v float64) {
	ps.Require(v > 0 && v <= 1, key, "must be above 0 and at most 1, not %v", v)
}

func latency(ps *config.Problems, key string, t sim.Time) {
	ps.Require(t >= 0 && t <= sim.Millisecond, key, "must be from 0us to 1ms, not %v", t)
}

// A gemm is one call: the padded rows that are computed and the bytes moved.
type gemm struct {
	// rows is the padded number of rows, over all experts; n and k are columns
	// of the output and depth.
	rows, n, k float64
	// bytes is A, weights and C.
	bytes float64
}

// padded is m rounded up to whole pads. A fraction of a row counts as a row.
func padded(m float64, pad int) float64 {
	p := float64(pad)
	return float64(math.Ceil(m/p) * p)
}

// formats are those of the two operands of a GEMM. The tensor cores run in the
// format of the activations: weights in a narrower one are widened on their way,
// which saves their bytes and no arithmetic, and whose own time is not modelled.
type formats struct{ weights, activations DType }

// in is both operands in one format.
func in(dt DType) formats { return formats{dt, dt} }

// denseGEMM is C[m,n] = A[m,k] W[k,n], C in bf16.
func denseGEMM(pad int, f formats, m, k, n float64) gemm {
	read := float64(f.activations.size()*m*k) + float64(f.weights.size()*n*k)
	return gemm{rows: padded(m, pad), n: n, k: k, bytes: read + float64(2*m*n)}
}

// batchedGEMM is one GEMM of m rows per head with weights of its own, as MLA's
// absorbed projections; all bf16.
func batchedGEMM(pad int, m, heads, k, n float64) gemm {
	elems := float64(m*heads*k) + float64(heads*k*n) + float64(m*heads*n)
	return gemm{rows: padded(m, pad), n: float64(heads * n), k: k, bytes: float64(2 * elems)}
}

// groupedGEMM is one GEMM of rowsEach rows for each of active experts.
func groupedGEMM(pad int, f formats, active, rowsEach, k, n float64) gemm {
	rows := float64(active * rowsEach)
	read := float64(f.activations.size()*rows*k) + float64(f.weights.size()*active*n*k)
	return gemm{
		rows:  float64(active * padded(rowsEach, pad)),
		n:     n,
		k:     k,
		bytes: read + float64(2*rows*n),
	}
}

// gemmTime is the class's time of a call with activations in dt, in microseconds.
func (p *Profile) gemmTime(c *GEMM, dt DType, share float64, g gemm) float64 {
	peak := p.PeakBF16.Value
	if dt == FP8 {
		peak = p.PeakFP8.Value
	}
	sms := float64(float64(p.SMs.Value) * share)
	work := float64(g.rows*g.n) + float64(c.WaveWaste*sms*mmaTile)
	tc := 2e6 * work * (g.k + c.K0) / (peak * share * c.Eff)
	tm := 1e6 * g.bytes / (p.HBM.Value.BytesPerSecond() * c.BWEff)
	return c.T0.Microseconds() + norm3(tc, tm)
}

// dense is the time of a dense GEMM, in microseconds.
func (p *Profile) dense(f formats, share, m, k, n float64) float64 {
	c := &p.Kernels.GEMMBF16.Constants
	if f.activations == FP8 {
		c = &p.Kernels.GEMMFP8.Constants
	}
	return p.gemmTime(c, f.activations, share, denseGEMM(c.PadM, f, m, k, n))
}

// batched is the time of a bf16 GEMM per head, in microseconds.
func (p *Profile) batched(share, m, heads, k, n float64) float64 {
	c := &p.Kernels.GEMMBF16.Constants
	return p.gemmTime(c, BF16, share, batchedGEMM(c.PadM, m, heads, k, n))
}

// grouped is the time of a grouped GEMM, in microseconds.
func (p *Profile) grouped(contiguous bool, f formats, share, active, rowsEach, k, n float64) float64 {
	c := &p.Kernels.GroupedMasked.Constants
	if contiguous {
		c = &p.Kernels.GroupedContiguous.Constants
	}
	return p.gemmTime(c, f.activations, share, groupedGEMM(c.PadM, f, active, rowsEach, k, n))
}

// elementwise is the time of n kernels moving bytes together, in microseconds.
func (p *Profile) elementwise(n int, bytes float64) float64 {
	c := &p.Kernels.Elementwise.Constants
	fixed := float64(float64(n) * c.T0.Microseconds())
	return fixed + 1e6*bytes/(p.HBM.Value.BytesPerSecond()*c.BWEff)
}
