package compute

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// evaluate computes one line of the golden tables.
func evaluate(p *Profile, kernel string, arg map[string]float64, dtype string) (us float64, err error) {
	dt := BF16
	if dtype == "fp8" {
		dt = FP8
	}
	dec := decodeBatch{requests: arg["batch"], query: max(1, arg["query_tokens"]), kv: arg["batch"] * arg["kv_len"]}
	var pre prefillBatch
	for range int(arg["sequences"]) {
		pre.add(arg["seq_len"], 0)
	}
	g := gqa{heads: arg["heads"], kvHeads: max(1, arg["kv_heads"]), dim: arg["head_dim"]}
	a := mla{heads: arg["heads"], latent: 512, rope: 64, nope: 128, value: 128}
	switch kernel {
	case "gemm_fp8":
		return p.dense(in(FP8), 1, arg["m"], arg["k"], arg["n"]), nil
	case "gemm_bf16":
		return p.dense(in(BF16), 1, arg["m"], arg["k"], arg["n"]), nil
	case "grouped_contiguous", "grouped_masked":
		return p.grouped(kernel == "grouped_contiguous", in(dt), 1, arg["experts"], arg["rows_per_expert"], arg["k"], arg["n"]), nil
	case "gqa_decode":
		return p.gqaDecode(g, dec, BF16), nil
	case "mla_decode":
		return p.mlaDecode(a, dec, BF16), nil
	case "gqa_prefill":
		return p.gqaPrefill(g, 1, pre, BF16), nil
	case "mla_prefill":
		return p.mlaPrefill(a, 1, pre), nil
	case "elementwise":
		return p.elementwise(int(arg["kernels"]), arg["bytes"]), nil
	}
	return 0, fmt.Errorf("unknown kernel %q", kernel)
}

// checkTimes holds every line of a table to 1e-6 and returns their number by
// class.
func checkTimes(t *testing.T, lines []string) map[string]int {
	seen := map[string]int{}
	profiles := map[string]*Profile{}
	for _, line := range lines {
		f := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == ',' })
		if len(f) < 4 || strings.HasPrefix(line, "#") {
			continue
		}
		p := profiles[f[0]]
		if p == nil {
			var err error
			p, err = LoadProfile(f[0])
			require.NoError(t, err, line)
			profiles[f[0]] = p
		}
		arg, dtype := map[string]float64{}, ""
		for _, a := range f[2 : len(f)-1] {
			key, value, _ := strings.Cut(a, "=")
			if key == "dtype" {
				dtype = value
				continue
			}
			v, err := strconv.ParseFloat(value, 64)
			require.NoError(t, err, line)
			arg[key] = v
		}
		want, err := strconv.ParseFloat(f[len(f)-1], 64)
		require.NoError(t, err, line)
		got, err := evaluate(p, f[1], arg, dtype)
		require.NoError(t, err, line)
		require.InEpsilon(t, want, got, 1e-6, line)
		seen[f[1]]++
	}
	return seen
}

func TestKernelTimes(t *testing.T) {
	data, err := os.ReadFile("testdata/kernel_times.txt")
	require.NoError(t, err)
	seen := checkTimes(t, strings.Split(string(data), "\n"))
	require.Equal(t, map[string]int{
		"gemm_fp8": 90, "gemm_bf16": 90, "grouped_contiguous": 20, "grouped_masked": 20,
		"gqa_decode": 24, "mla_decode": 48, "gqa_prefill": 8, "mla_prefill": 8, "elementwise": 4,
	}, seen)
}

func TestKernelTimesOfTheReference(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "shared", "reference", "compute", "kernel_times.csv"))
	if err != nil {
		t.Skip("the reference table is not beside the project: ", err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	sum := 0
	for _, n := range checkTimes(t, lines[1:]) {
		sum += n
	}
	require.Equal(t, 312, sum)
}

// aKernel is a kernel of drawn sizes: its time on a GPU, and the least work that
// any implementation has, to hold it against the roofline.
type aKernel struct {
	name  string
	sizes []int
	time  func(p *Profile, share float64, size []int) float64
	// flops and bytes are the unpadded work.
	flops, bytes func(size []int) float64
	fp8          bool
	// sharesSMs is true when the class knows shares.
	sharesSMs bool
}

func f(v int) float64 { return float64(v) }

// kernelsUnderTest lists the classes with the upper bounds of their sizes.
func kernelsUnderTest() []aKernel {
	var ks []aKernel
	for _, dt := range []DType{BF16, FP8} {
		dense := func(p *Profile, share float64, s []int) float64 {
			return p.dense(in(dt), share, f(s[0]), f(s[1]), f(s[2]))
		}
		ks = append(ks, aKernel{
			name: "dense " + dt.String(), sizes: []int{1 << 14, 1 << 14, 1 << 15}, fp8: dt == FP8, sharesSMs: true, time: dense,
			flops: func(s []int) float64 { return 2 * f(s[0]) * f(s[1]) * f(s[2]) },
			bytes: func(s []int) float64 {
				return dt.size()*(f(s[0])*f(s[1])+f(s[1])*f(s[2])) + 2*f(s[0])*f(s[2])
			},
		})
		for _, contiguous := range []bool{true, false} {
			ks = append(ks, aKernel{
				name: fmt.Sprintf("grouped %v contiguous=%v", dt, contiguous), sizes: []int{256, 4096, 1 << 13, 1 << 13}, fp8: dt == FP8, sharesSMs: true,
				time: func(p *Profile, share float64, s []int) float64 {
					return p.grouped(contiguous, in(dt), share, f(s[0]), f(s[1]), f(s[2]), f(s[3]))
				},
				flops: func(s []int) float64 { return 2 * f(s[0]) * f(s[1]) * f(s[2]) * f(s[3]) },
				bytes: func(s []int) float64 {
					return dt.size()*f(s[0])*(f(s[1])*f(s[2])+f(s[2])*f(s[3])) + 2*f(s[0])*f(s[1])*f(s[3])
				},
			})
		}
	}
	ks = append(ks, aKernel{
		name: "batched", sizes: []int{4096, 128, 512, 512}, sharesSMs: true,
		time: func(p *Profile, share float64, s []int) float64 {
			return p.batched(share, f(s[0]), f(s[1]), f(s[2]), f(s[3]))
		},
		flops: func(s []int) float64 { return 2 * f(s[0]) * f(s[1]) * f(s[2]) * f(s[3]) },
		bytes: func(s []int) float64 { return 2 * f(s[1]) * (f(s[0])*(f(s[2])+f(s[3])) + f(s[2])*f(s[3])) },
	})
	// Decode: requests, KV tokens per request, query tokens, KV heads, heads per KV head.
	ks = append(ks, aKernel{
		name: "gqa decode", sizes: []int{512, 1 << 15, 4, 16, 64},
		time: func(p *Profile, _ float64, s []int) float64 {
			return p.gqaDecode(gqa{heads: f(s[3] * s[4]), kvHeads: f(s[3]), dim: 128}, batchOf(s), BF16)
		},
		flops: func(s []int) float64 { return 4 * f(s[0]) * f(s[1]) * f(s[2]) * f(s[3]*s[4]) * 128 },
		bytes: func(s []int) float64 { return 4*f(s[0])*f(s[1])*f(s[3])*128 + 4*f(s[0])*f(s[2])*f(s[3]*s[4])*128 },
	}, aKernel{
		name: "mla decode", sizes: []int{512, 1 << 15, 4, 128},
		time: func(p *Profile, _ float64, s []int) float64 {
			return p.mlaDecode(mla{heads: f(s[3]), latent: 512, rope: 64}, batchOf(s), BF16)
		},
		flops: func(s []int) float64 { return 2 * f(s[0]) * f(s[1]) * f(s[2]) * f(s[3]) * 1088 },
		bytes: func(s []int) float64 { return 2*f(s[0])*f(s[1])*576 + 2*f(s[0])*f(s[2])*f(s[3])*1088 },
	})
	// Prefill: chunks, new tokens, context, heads.
	ks = append(ks, aKernel{
		name: "gqa prefill", sizes: []int{16, 1 << 13, 1 << 15, 64}, sharesSMs: true,
		time: func(p *Profile, share float64, s []int) float64 {
			return p.gqaPrefill(gqa{heads: f(s[3]), kvHeads: 1, dim: 128}, share, chunksOf(s), BF16)
		},
		flops: func(s []int) float64 { return 4 * f(s[3]) * 128 * f(s[0]) * f(s[1]) * (f(s[1])/2 + f(s[2])) },
		bytes: func(s []int) float64 { return 4 * 128 * f(s[0]) * (f(s[1]+s[2]) + f(s[1])*f(s[3])) },
	}, aKernel{
		name: "mla prefill", sizes: []int{16, 1 << 13, 1 << 15, 128}, sharesSMs: true,
		time: func(p *Profile, share float64, s []int) float64 {
			return p.mlaPrefill(mla{heads: f(s[3]), latent: 512, rope: 64, nope: 128, value: 128}, share, chunksOf(s))
		},
		flops: func(s []int) float64 { return 2 * f(s[3]) * 320 * f(s[0]) * f(s[1]) * (f(s[1])/2 + f(s[2])) },
		bytes: func(s []int) float64 { return 2 * f(s[3]) * 320 * f(s[0]) * f(2*s[1]+s[2]) },
	}, aKernel{
		name: "elementwise", sizes: []int{64, 1 << 30},
		time:  func(p *Profile, _ float64, s []int) float64 { return p.elementwise(s[0], f(s[1])) },
		flops: func([]int) float64 { return 0 },
		bytes: func(s []int) float64 { return f(s[1]) },
	})
	return ks
}

func batchOf(s []int) decodeBatch {
	return decodeBatch{requests: f(s[0]), query: f(s[2]), kv: f(s[0]) * f(s[1])}
}

func chunksOf(s []int) (b prefillBatch) {
	for range s[0] {
		b.add(f(s[1]), f(s[2]))
	}
	return b
}

// each runs check on every GPU and class with drawn sizes.
func each(t *testing.T, check func(t *rapid.T, p *Profile, k aKernel, size []int)) {
	for _, name := range Profiles() {
		p, err := LoadProfile(name)
		require.NoError(t, err)
		for _, k := range kernelsUnderTest() {
			t.Run(name+" "+k.name, rapid.MakeCheck(func(t *rapid.T) {
				size := make([]int, len(k.sizes))
				for i, top := range k.sizes {
					// Draw the magnitude first, so that small sizes are common.
					size[i] = rapid.IntRange(1, max(1, top>>rapid.IntRange(0, 12).Draw(t, "shift"))).Draw(t, "size")
				}
				check(t, p, k, size)
			}))
		}
	}
}

func TestKernelsGrowWithEverySize(t *testing.T) {
	each(t, func(t *rapid.T, p *Profile, k aKernel, size []int) {
		before := k.time(p, 1, size)
		i := rapid.IntRange(0, len(size)-1).Draw(t, "which")
		larger := append([]int(nil), size...)
		larger[i] += rapid.IntRange(1, 1+k.sizes[i]).Draw(t, "more")
		if after := k.time(p, 1, larger); after < before*(1-1e-12) {
			t.Fatalf("%v takes %v us, %v takes %v us", size, before, larger, after)
		}
	})
}

// No kernel is faster than its unpadded work at the peak, or its bytes at the
// full HBM rate.
func TestKernelsStayUnderTheRoofline(t *testing.T) {
	each(t, func(t *rapid.T, p *Profile, k aKernel, size []int) {
		peak := p.PeakBF16.Value
		if k.fp8 {
			peak = p.PeakFP8.Value
		}
		got := k.time(p, 1, size)
		if floor := 1e6 * k.flops(size) / peak; got < floor {
			t.Fatalf("%v takes %v us, but its flops take %v us at the peak", size, got, floor)
		}
		if floor := 1e6 * k.bytes(size) / p.HBM.Value.BytesPerSecond(); got < floor {
			t.Fatalf("%v takes %v us, but its bytes take %v us at the HBM rate", size, got, floor)
		}
	})
}

// withoutFixed is p with no fixed times.
func withoutFixed(p Profile) *Profile {
	k := &p.Kernels
	k.GEMMFP8.Constants.T0, k.GEMMBF16.Constants.T0 = 0, 0
	k.GroupedContiguous.Constants.T0, k.GroupedMasked.Constants.T0 = 0, 0
	k.GQADecode.Constants.T0, k.MLADecode.Constants.T0 = 0, 0
	k.GQAPrefill.Constants.T0, k.MLAPrefill.Constants.T0 = 0, 0
	k.Elementwise.Constants.T0 = 0
	return &p
}

// Doubling the HBM rate halves the memory part and nothing else; likewise the
// peaks and the compute part. With both doubled, everything but t0 halves.
func TestKernelsScaleWithTheMachine(t *testing.T) {
	each(t, func(t *rapid.T, p *Profile, k aKernel, size []int) {
		base := withoutFixed(*p)
		fastMemory, fastMath, both := *base, *base, *base
		fastMemory.HBM.Value *= 2
		fastMath.PeakFP8.Value *= 2
		fastMath.PeakBF16.Value *= 2
		both.HBM, both.PeakFP8, both.PeakBF16 = fastMemory.HBM, fastMath.PeakFP8, fastMath.PeakBF16

		t0 := k.time(base, 1, size)
		if got := k.time(&both, 1, size); math.Abs(got/t0-0.5) > 1e-12 {
			t.Fatalf("%v: twice the machine takes %v of the time", size, got/t0)
		}
		// The cubes split into Tc^3 + Tm^3, so halving each takes off 7/8 of one:
		// the two savings add up to 7/8 of the whole. Prefill attention and
		// element-wise kernels have one part only, of which one saving is none.
		c0, c1, c2 := cubed(t0), cubed(k.time(&fastMemory, 1, size)), cubed(k.time(&fastMath, 1, size))
		if c1 > c0 || c2 > c0 {
			t.Fatalf("%v: a faster machine is slower", size)
		}
		if strings.Contains(k.name, "prefill") {
			return
		}
		if saved := (c0 - c1) + (c0 - c2); math.Abs(saved/c0-7./8) > 1e-9 {
			t.Fatalf("%v: doubling each rate alone saves %v of the cube", size, saved/c0)
		}
	})
}

func cubed(x float64) float64 { return x * x * x }

// A share of the SMs takes from compute and nothing from memory.
func TestKernelsSlowDownWithFewerSMs(t *testing.T) {
	each(t, func(t *rapid.T, p *Profile, k aKernel, size []int) {
		if !k.sharesSMs {
			return
		}
		share := rapid.Float64Range(0.1, 1).Draw(t, "share")
		base := withoutFixed(*p)
		whole, part := k.time(base, 1, size), k.time(base, share, size)
		if part < whole*(1-1e-12) || part > whole/share*(1+1e-12) {
			t.Fatalf("%v: %v us on all SMs, %v us on %v of them", size, whole, part, share)
		}
	})
}

// Padding: all row counts of one pad cost the same compute; the next row starts
// a new pad.
func TestGEMMRowsArePadded(t *testing.T) {
	for _, name := range Profiles() {
		p, err := LoadProfile(name)
		require.NoError(t, err)
		c := &p.Kernels.GroupedContiguous.Constants
		require.Equal(t, f(c.PadM*8), groupedGEMM(c.PadM, in(FP8), 8, 1, 64, 64).rows)
		require.Equal(t, f(c.PadM*8), groupedGEMM(c.PadM, in(FP8), 8, f(c.PadM), 64, 64).rows)
		require.Equal(t, f(c.PadM*16), groupedGEMM(c.PadM, in(FP8), 8, f(c.PadM)+0.25, 64, 64).rows)
		require.Equal(t, 128.0, denseGEMM(64, in(BF16), 65, 64, 64).rows)
	}
}

// The query tokens of a request read its KV once: with memory as the limit, two
// cost hardly more than one; and 64 heads fill one row tile of FlashMLA.
func TestDecodeAttentionSharesTheKV(t *testing.T) {
	p, err := LoadProfile("H20")
	require.NoError(t, err)
	base := withoutFixed(*p)
	base.PeakBF16.Value = 1e18
	g := gqa{heads: 32, kvHeads: 8, dim: 128}
	one := base.gqaDecode(g, decodeBatch{64, 1, 64 * 8192}, BF16)
	two := base.gqaDecode(g, decodeBatch{64, 2, 64 * 8192}, BF16)
	require.InEpsilon(t, one, two, 0.001)

	m := func(heads, query float64) float64 {
		return base.mlaDecode(mla{heads: heads, latent: 512, rope: 64}, decodeBatch{64, query, 64 * 8192}, BF16)
	}
	base.PeakBF16.Value = 1e9
	require.InEpsilon(t, m(64, 1), m(16, 1), 1e-9)
	require.InEpsilon(t, m(64, 1), m(16, 4), 1e-9)
	require.InEpsilon(t, 2*m(64, 1), m(64, 2), 1e-9)

	// FP8 KV on H20: half the bytes at 0.43 instead of 0.893 of the HBM rate, as
	// measured: no gain.
	base.PeakBF16.Value = 1e18
	require.InEpsilon(t, one*0.893/0.43/2, base.gqaDecode(g, decodeBatch{64, 1, 64 * 8192}, FP8), 0.005)
}
