package calibrate

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/compute"
	_ "github.com/tgssim/tgssim/internal/testkit" // the same draws in every run
)

// undetermined are the constants that 5 % of noise hides on the grid: whether H800
// computes or only reads in GQA decode, and the bandwidth of H20, which computes so
// slowly that its kernels hardly ever wait for memory.
var undetermined = map[string][]string{
	"H800": {"gqa_decode eff_fraction"},
	"H20": {"gemm_fp8 bw_eff_fraction", "gemm_bf16 bw_eff_fraction", "grouped_contiguous bw_eff_fraction",
		"grouped_masked bw_eff_fraction", "mla_decode bw_eff_fraction", "mla_decode fp8_kv_bw_eff_fraction"},
}

// stranger is the GPU with the kernel constants of another, to start a fit from.
func stranger(t testing.TB, name string) *compute.Profile {
	p := *gpu(t, name)
	other := "H20"
	if name == "H20" {
		other = "H800"
	}
	p.Kernels = gpu(t, other).Kernels
	truth := gpu(t, name)
	for _, c := range classes() {
		for _, k := range c.constants {
			// What is kept decides with what the others come out.
			if k.only == compute.FP8 || slices.Contains(undetermined[name], c.name+" "+k.name) {
				k.set(&p, k.get(truth))
			}
		}
	}
	p.Kernels.GEMMFP8.Constants.PadM = truth.Kernels.GEMMFP8.Constants.PadM
	p.Kernels.GEMMBF16.Constants.PadM = truth.Kernels.GEMMBF16.Constants.PadM
	p.Kernels.GroupedContiguous.Constants.PadM = truth.Kernels.GroupedContiguous.Constants.PadM
	p.Kernels.GroupedMasked.Constants.PadM = truth.Kernels.GroupedMasked.Constants.PadM
	p.Kernels.GQADecode.Constants.PadRows = truth.Kernels.GQADecode.Constants.PadRows
	p.Kernels.MLADecode.Constants.PadRows = truth.Kernels.MLADecode.Constants.PadRows
	return &p
}

// Without noise the constants come back to the digits that are kept, from
// anywhere; the base matters to nothing that the shapes determine.
func TestExactTimesGiveTheConstantsBack(t *testing.T) {
	for _, name := range gpus() {
		truth := gpu(t, name)
		r := fitTable(t, measured(t, truth, grid(), exact), stranger(t, name))
		require.Empty(t, r.Outliers)
		for i, c := range classes() {
			require.Empty(t, r.Classes[i].Kept, "%s %s", name, c.name)
			require.Less(t, r.Classes[i].Fitted.P95, 0.5, "%s %s", name, c.name)
			for _, k := range c.constants {
				j := slices.IndexFunc(r.Classes[i].Constants, func(x ConstantResult) bool { return x.Name == k.name })
				if j < 0 || r.Classes[i].Constants[j].Kept != "" {
					continue // H800's GQA decode never computes
				}
				want := k.effective(truth)
				require.InDelta(t, want, r.Classes[i].Constants[j].Value, 0.005*math.Max(want, k.width), "%s %s %s", name, c.name, k.name)
			}
		}
	}
}

// bounds are the largest standard errors that 5 % of noise leaves on the grid: of
// each constant, on either GPU. They follow from the noise: 0.05 times the root of
// the diagonal of the inverse of J'J, J being the derivatives of the logarithm of
// time. A constant is then within five of its standard errors: of 1,600 normal
// deviates the largest is about 3.5, and the forms are not linear.
var bounds = map[string]map[string]float64{
	"gemm_fp8":           {"eff_fraction": 0.015, "t0": 0.5, "wave_waste_fraction": 0.03, "k0_elements": 75, "bw_eff_fraction": 0.025},
	"gemm_bf16":          {"eff_fraction": 0.018, "t0": 1, "wave_waste_fraction": 0.03, "k0_elements": 70, "bw_eff_fraction": 0.02},
	"grouped_contiguous": {"eff_fraction": 0.02, "t0": 1.5, "wave_waste_fraction": 0.12, "k0_elements": 45, "bw_eff_fraction": 0.02},
	"grouped_masked":     {"eff_fraction": 0.025, "t0": 0.3, "wave_waste_fraction": 0.08, "k0_elements": 75, "bw_eff_fraction": 0.015},
	"gqa_decode":         {"eff_fraction": 0.015, "t0": 0.25, "bw_eff_fraction": 0.025, "fp8_kv_bw_eff_fraction": 0.03, "fp8_kv_speedup": 0.04},
	"mla_decode":         {"eff_fraction": 0.015, "t0": 0.35, "bw_eff_fraction": 0.015, "fp8_kv_bw_eff_fraction": 0.05, "fp8_kv_speedup": 0.03},
	"gqa_prefill":        {"eff_fraction": 0.02, "t0": 0.8, "s0_tokens": 95},
	"mla_prefill":        {"eff_fraction": 0.02, "t0": 2, "s0_tokens": 70},
	"elementwise":        {"t0": 0.08, "bw_eff_fraction": 0.05},
	"launch_gap":         {"t0": 0.03},
}

// Kernels of a profile with 5 % of noise give the constants back within five
// standard errors, and the times of shapes that were never measured within 4 %,
// four fifths of what one measurement is off.
func TestNoisyTimesGiveTheConstantsBack(t *testing.T) {
	unseen := []string{
		"gemm_fp8,,m=48 k=7168 n=2112", "gemm_fp8,,m=3000 k=2048 n=7168", "gemm_bf16,,m=700 k=5120 n=5120", "gemm_bf16,,m=16 k=8192 n=1024",
		"grouped_contiguous,fp8,experts=6 rows_per_expert=700 k=7168 n=4096", "grouped_masked,fp8,experts=9 rows_per_expert=100 k=2048 n=7168",
		"gqa_decode,bf16,batch=48 kv_len=5120 heads=32 kv_heads=8 head_dim=128", "gqa_decode,fp8,batch=48 kv_len=5120 heads=32 kv_heads=4 head_dim=128",
		"mla_decode,bf16,batch=64 kv_len=5000 heads=128", "mla_decode,fp8,batch=24 kv_len=9000 heads=128 query_tokens=2",
		"gqa_prefill,,seq_len=3000 heads=32 head_dim=128", "mla_prefill,,seq_len=6000 heads=128", "elementwise,,bytes=5000000 kernels=3", "launch_gap,,kernels=24",
	}
	for _, name := range gpus() {
		truth := gpu(t, name)
		for seed := range uint64(seeds()) {
			r := fitTable(t, measured(t, truth, grid(), gaussian(seed, 0.05)), stranger(t, name))
			for i, c := range classes() {
				res := &r.Classes[i]
				label := fmt.Sprintf("%s %s, seed %d", name, c.name, seed)
				require.Empty(t, res.Kept, label)
				// 0.6745 and 1.96 standard deviations, and what few rows make of it.
				few := 1 / math.Sqrt(float64(res.Rows))
				require.InDelta(t, 3.4, res.Fitted.Median, 0.8+8*few, label)
				require.InDelta(t, 9.8, res.Fitted.P95, 1.5+20*few, label)
				require.InDelta(t, res.Fitted.Median, res.HeldOut.Median, 0.5+6*few, label)
				for _, k := range c.constants {
					j := slices.IndexFunc(res.Constants, func(x ConstantResult) bool { return x.Name == k.name })
					if j < 0 || res.Constants[j].Kept != "" {
						continue
					}
					got := res.Constants[j]
					require.LessOrEqual(t, got.StdError, bounds[c.name][k.name], "%s %s", label, k.name)
					require.InDelta(t, k.effective(truth), got.Value, 5*got.StdError, "%s %s", label, k.name)
				}
			}
			table, err := Read("unseen.csv", []byte(measured(t, truth, unseen, exact)), "")
			require.NoError(t, err)
			for _, row := range table.Rows {
				require.InEpsilon(t, row.Microseconds, r.Profile.KernelTime(&row.Kernel), 0.04, "%s seed %d: %s %s", name, seed, row.Kernel.Class, row.shape)
			}
		}
	}
}

func TestWhatTheShapesDoNotDetermineIsKept(t *testing.T) {
	for name, allowed := range undetermined {
		base := gpu(t, name)
		r := fitTable(t, measured(t, base, grid(), gaussian(7, 0.05)), base)
		kept := 0
		for i, c := range classes() {
			for _, k := range r.Classes[i].Constants {
				if k.Kept == "" {
					continue
				}
				kept++
				require.Contains(t, allowed, c.name+" "+k.Name)
				require.Equal(t, "the shapes do not determine it", k.Kept)
				require.Equal(t, k.Base, k.Value)
				require.Contains(t, c.fit(r.Profile).Fixed[k.Name], "kept from "+name+": the shapes do not determine it")
			}
		}
		require.Positive(t, kept, name)
	}
}

// The golden table is computed by the formula, so it gives the formula back. It
// has too few prefill and element-wise shapes.
func TestFitOfTheReference(t *testing.T) {
	data := reference(t)
	for _, name := range []string{"H800", "H20"} {
		table, err := Read("kernel_times.csv", data, name)
		require.NoError(t, err)
		require.Equal(t, 156, table.OtherGPUs)
		base := stranger(t, name)
		base.Kernels.GQADecode.Constants.Eff = gpu(t, name).Kernels.GQADecode.Constants.Eff // undetermined by 12 shapes
		r, err := Fit(table, base)
		require.NoError(t, err)
		for i, c := range classes() {
			res := r.Classes[i]
			switch c.name {
			case "gqa_prefill", "mla_prefill":
				require.Equal(t, "4 distinct shapes where 5 are needed", res.Kept)
				continue
			case "elementwise":
				require.Equal(t, "2 distinct shapes where 4 are needed", res.Kept)
				continue
			case "launch_gap":
				require.Equal(t, "no rows", res.Kept)
				continue
			}
			require.Empty(t, res.Kept, "%s %s", name, c.name)
			require.LessOrEqual(t, res.Fitted.P95, 0.5, "%s %s", name, c.name)
			for _, k := range c.constants {
				j := slices.IndexFunc(res.Constants, func(x ConstantResult) bool { return x.Name == k.name })
				if j >= 0 && res.Constants[j].Kept == "" {
					require.InDelta(t, k.get(gpu(t, name)), res.Constants[j].Value, 0.01*math.Max(k.get(gpu(t, name)), k.width), "%s %s %s", name, c.name, k.name)
				}
			}
		}
	}
}

// A few wrong measurements are named, and do not decide.
func TestOutliers(t *testing.T) {
	truth := gpu(t, "H800")
	n := 0
	noise := gaussian(3, 0.03)
	var wrong []int
	r := fitTable(t, measured(t, truth, grid(), func() float64 {
		n++
		if n%20 == 7 {
			wrong = append(wrong, n+1) // below the header
			return 3
		}
		return noise()
	}), stranger(t, "H800"))
	var named []int
	for _, o := range r.Outliers {
		named = append(named, o.Line)
		require.InDelta(t, 3, o.Measured/o.Modelled, 0.8, o)
	}
	require.Equal(t, wrong, named)
	eff := r.Classes[0].Constants[0]
	require.InDelta(t, truth.Kernels.GEMMFP8.Constants.Eff, eff.Value, 0.03)
}

func TestClassesThatAreNotFitted(t *testing.T) {
	base := gpu(t, "H800")
	header := "kernel,dtype,m,n,k,time_us\n"
	same := strings.Repeat("gemm_fp8,,64,2112,7168,12\n", 100)
	r := fitTable(t, header+same, base)
	require.Equal(t, "1 distinct shape where 7 are needed", r.Classes[0].Kept)
	require.Equal(t, base.Kernels.GEMMFP8.Constants, r.Profile.Kernels.GEMMFP8.Constants)
	require.Contains(t, r.Profile.Kernels.GEMMFP8.Fit.Note, "kept from the base profile: 1 distinct shape where 7 are needed in grid.csv")
	require.Equal(t, "no rows", r.Classes[1].Kept)
	require.Equal(t, base.Kernels.GEMMFP8.Fit.MedianPct, r.Profile.Kernels.GEMMFP8.Fit.MedianPct)

	// Times in the wrong unit, or of another GPU.
	r = fitTable(t, strings.Replace(measured(t, gpu(t, "H20"), grid(), exact), "time_us", "time_ms", 1), base)
	require.Contains(t, r.Classes[0].Kept, "the median error after the fit is still")
	require.Equal(t, base.Kernels.GEMMFP8.Constants, r.Profile.Kernels.GEMMFP8.Constants)
	text, err := r.Profile.Marshal()
	require.NoError(t, err)
	_, err = compute.ReadProfile("x.yaml", text)
	require.NoError(t, err)
}

// With FP8 KV only, what is of bf16 KV stays, and the rest is of it.
func TestOnlyFP8KV(t *testing.T) {
	truth := gpu(t, "H20")
	base := *truth
	base.Kernels.GQADecode.Constants.FP8KVBWEff = 0
	base.Kernels.MLADecode.Constants.FP8KVSpeedup = 0
	rows := slices.DeleteFunc(grid(), func(row string) bool { return !strings.Contains(row, "decode,fp8") })
	r := fitTable(t, measured(t, truth, rows, gaussian(2, 0.02)), &base)
	require.InDelta(t, 0.43, r.Profile.Kernels.GQADecode.Constants.FP8KVBWEff, 0.02)
	require.InDelta(t, 1.7, r.Profile.Kernels.MLADecode.Constants.FP8KVSpeedup, 0.03)
	require.Equal(t, truth.Kernels.GQADecode.Constants.Eff, r.Profile.Kernels.GQADecode.Constants.Eff)
	require.Equal(t, "kept from H20: no rows with bf16 KV", r.Profile.Kernels.GQADecode.Fit.Fixed["eff_fraction"])
	require.NoError(t, r.Profile.Validate())
}

// Measurements that no constants explain are fitted as well as can be, and give a
// valid profile that says how bad it is.
func TestNonsense(t *testing.T) {
	n := 0
	r := fitTable(t, measured(t, gpu(t, "H800"), grid(), func() float64 {
		n++
		return []float64{1, 1, 1, 1e3, 1e-3, 1, 1}[n%7]
	}), gpu(t, "H800"))
	require.Greater(t, r.Classes[0].Fitted.P95, 1000.)
	require.Equal(t, 1000., r.Profile.Kernels.GEMMFP8.Fit.P95Pct)
	require.NotEmpty(t, r.Outliers)
}

// The order of the rows does not matter, to the last bit.
func TestOrderDoesNotMatter(t *testing.T) {
	base := stranger(t, "H800")
	lines := strings.SplitAfter(measured(t, gpu(t, "H800"), grid()[:40], gaussian(5, 0.05)), "\n")
	want := fitTable(t, strings.Join(lines, ""), base)
	rapid.Check(t, func(rt *rapid.T) {
		rows := rapid.Permutation(lines[1:len(lines)-1]).Draw(rt, "rows")
		got := fitTable(t, lines[0]+strings.Join(rows, ""), base)
		require.Equal(t, want.Profile.Kernels, got.Profile.Kernels)
	})
}

// Every machine writes the same bytes.
func TestTheSameBytesEverywhere(t *testing.T) {
	r := fitTable(t, measured(t, gpu(t, "H20"), grid(), gaussian(11, 0.05)), stranger(t, "H20"))
	text, err := r.Profile.Marshal()
	require.NoError(t, err)
	sum := sha256.Sum256(text)
	require.Equal(t, "da6ee16d23c4d2f7", hex.EncodeToString(sum[:8]))
	back, err := compute.ReadProfile("x.yaml", text)
	require.NoError(t, err)
	require.Equal(t, r.Profile, back)
}

func BenchmarkFit(b *testing.B) {
	table, err := Read("grid.csv", []byte(measured(b, gpu(b, "H800"), grid(), gaussian(1, 0.05))), "")
	require.NoError(b, err)
	base := gpu(b, "H800")
	b.ReportAllocs()
	for b.Loop() {
		_, err = Fit(table, base)
		require.NoError(b, err)
	}
	b.ReportMetric(float64(len(table.Rows)), "rows")
}

// A base without FP8 arithmetic takes rows of other formats, and no others.
func TestFitWithoutFP8(t *testing.T) {
	base := *gpu(t, "H800")
	base.PeakFP8.Value = 0
	base.Kernels.GEMMFP8 = compute.Class[compute.GEMM]{}
	header := "kernel,dtype,m,n,k,experts,rows_per_expert,time_us\n"
	for _, row := range []string{"gemm,fp8,64,2112,7168,,,12\n", "grouped_masked,fp8,,4096,7168,8,64,90\n"} {
		table, err := Read("x.csv", []byte(header+"gemm,bf16,64,2112,7168,,,12\n"+row), "")
		require.NoError(t, err)
		_, err = Fit(table, &base)
		require.ErrorContains(t, err, "x.csv:3: dtype: ")
		require.ErrorContains(t, err, "computes in fp8, and H800 has no FP8 arithmetic")
	}
	table, err := Read("x.csv", []byte(header+"gemm,bf16,64,2112,7168,,,12\ngrouped_masked,bf16,,4096,7168,8,64,90\n"), "")
	require.NoError(t, err)
	r, err := Fit(table, &base)
	require.NoError(t, err)
	require.False(t, r.Fitted())
	text, err := r.Profile.Marshal()
	require.NoError(t, err)
	_, err = compute.ReadProfile("x.yaml", text)
	require.NoError(t, err)
}
