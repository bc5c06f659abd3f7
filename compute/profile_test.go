package compute

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/internal/units"
)

func TestLoadProfileByName(t *testing.T) {
	require.Equal(t, []string{"B200", "H100", "H20", "H200", "H800"}, Profiles())
	for _, name := range []string{"H800", "h800"} {
		p, err := LoadProfile(name)
		require.NoError(t, err)
		require.Equal(t, "H800", p.Name)
	}
	_, err := LoadProfile("H8000")
	require.ErrorContains(t, err, `"H8000" is not a known GPU`)
	require.ErrorContains(t, err, "H800")
	_, err = LoadProfile("")
	require.Error(t, err)
}

func TestCapacities(t *testing.T) {
	h800, err := LoadProfile("H800")
	require.NoError(t, err)
	require.Equal(t, 80*units.GB, h800.Memory.Value)
	require.Equal(t, 132, h800.SMs.Value)
	require.Equal(t, 200e9, h800.NVLink.Value.BytesPerSecond())
	require.Equal(t, 160e9, h800.NVLinkAchieved.Value.BytesPerSecond())
	require.Equal(t, 3.35e12, h800.HBM.Value.BytesPerSecond())
	h20, err := LoadProfile("H20")
	require.NoError(t, err)
	require.Equal(t, 96*units.GB, h20.Memory.Value)
	require.Equal(t, 78, h20.SMs.Value)
	require.Equal(t, 450e9, h20.NVLink.Value.BytesPerSecond())
	require.Equal(t, 4e12, h20.HBM.Value.BytesPerSecond())
	for _, p := range []*Profile{h800, h20} {
		require.Equal(t, 2*p.PeakBF16.Value, p.PeakFP8.Value, "Hopper computes FP8 at twice the rate of BF16")
	}
}

// Every number has a source, and every class an error of its fit or the reason
// why it has none; so has every constant that the fit did not move.
func TestEverythingHasASource(t *testing.T) {
	status := map[string]map[Status][]string{}
	for _, name := range Profiles() {
		status[name] = map[Status][]string{}
		p, err := LoadProfile(name)
		require.NoError(t, err)
		for _, row := range p.FactTable() {
			require.NotEmpty(t, row.Source, row.Name)
			require.False(t, row.Assumed, row.Name)
		}
		table := p.FitTable()
		require.Len(t, table, 10)
		for _, row := range table {
			status[name][row.Status] = append(status[name][row.Status], row.Class)
			require.NotEmpty(t, row.Source, row.Class)
			require.NotEmpty(t, row.Constants, row.Class)
			switch row.Status {
			case Fitted, Borrowed:
				require.Positive(t, row.MedianPct, row.Class)
				require.Greater(t, row.P95Pct, row.MedianPct, row.Class)
				require.True(t, row.Points > 0 || strings.Contains(row.Note, "not recorded"), row.Class)
				require.True(t, row.HeldOutP95Pct > row.HeldOutMedianPct || row.Note != "", row.Class)
				for constant := range row.Fixed {
					require.NotEmpty(t, row.Fixed[constant])
				}
				for _, constant := range row.Names {
					switch constant {
					case "pad_m_rows", "pad_group_rows": // tiles: never fitted
						require.Contains(t, row.Fixed, constant, row.Class)
					}
				}
			default:
				require.NotEmpty(t, row.Note, row.Class)
			}
		}
	}
	unfitted := []string{"elementwise", "launch_gap"}
	lent := []string{"gemm_fp8", "gemm_bf16", "grouped_contiguous", "grouped_masked", "gqa_decode", "mla_decode", "gqa_prefill", "mla_prefill"}
	require.Equal(t, map[string]map[Status][]string{
		"H800": {
			Fitted:   {"gemm_fp8", "grouped_contiguous", "grouped_masked", "gqa_decode", "mla_decode", "mla_prefill"},
			Borrowed: {"gemm_bf16", "gqa_prefill"}, Set: unfitted,
		},
		"H20": {
			Fitted:  {"gemm_fp8", "grouped_contiguous", "grouped_masked", "gqa_decode", "mla_decode", "gqa_prefill"},
			Assumed: {"gemm_bf16", "mla_prefill"}, Set: unfitted,
		},
		"H100": {
			Fitted:   {"gemm_bf16", "gqa_prefill"},
			Borrowed: {"gemm_fp8", "grouped_contiguous", "grouped_masked", "gqa_decode", "mla_decode", "mla_prefill"}, Set: unfitted,
		},
		"H200": {Borrowed: lent, Set: unfitted},
		"B200": {Borrowed: lent, Set: unfitted},
	}, status)
}

// What is borrowed is what the lender has: the constants, the errors and the
// source, class by class.
func TestBorrowedIsAsLent(t *testing.T) {
	for _, name := range Profiles() {
		p, err := LoadProfile(name)
		require.NoError(t, err)
		for i, row := range p.FitTable() {
			if row.Status != Borrowed {
				continue
			}
			lender, err := LoadProfile(row.MeasuredOn)
			require.NoError(t, err, "%s %s", name, row.Class)
			lent := lender.FitTable()[i]
			require.Equal(t, Fitted, lent.Status, "%s %s", name, row.Class)
			require.Equal(t, lent.Constants, row.Constants, "%s %s", name, row.Class)
			require.Equal(t, lent.Fixed, row.Fixed, "%s %s", name, row.Class)
			require.Equal(t, [5]float64{float64(lent.Points), lent.MedianPct, lent.P95Pct, lent.HeldOutMedianPct, lent.HeldOutP95Pct},
				[5]float64{float64(row.Points), row.MedianPct, row.P95Pct, row.HeldOutMedianPct, row.HeldOutP95Pct}, "%s %s", name, row.Class)
			require.Contains(t, row.Source, lent.Source, "%s %s", name, row.Class)
		}
	}
}

func TestUnfitted(t *testing.T) {
	for name, want := range map[string]string{
		"H800": "", "H20": "", "H100": "",
		"H200": "No kernel was measured on H200; its kernel times are its peaks and bandwidth with the efficiencies of H100 and H800.",
		"B200": "No kernel was measured on B200; its kernel times are its peaks and bandwidth with the efficiencies of H100 and H800.",
	} {
		p, err := LoadProfile(name)
		require.NoError(t, err)
		require.Equal(t, want, p.Unfitted())
	}
}

// A written profile reads back as itself.
func TestProfileRoundTrip(t *testing.T) {
	for _, name := range Profiles() {
		p, err := LoadProfile(name)
		require.NoError(t, err)
		p.Kernels.GEMMFP8.Fit.StdErrors = map[string]float64{"t0": 0.25, "eff_fraction": 0.01}
		p.Calibration = &Calibration{File: "kernels.csv", SHA256: "00ff", Rows: 12, Base: "H800"}
		text, err := p.Marshal()
		require.NoError(t, err)
		back, err := ReadProfile("x.yaml", text)
		require.NoError(t, err)
		require.Equal(t, p, back)
	}
}

func TestLoadProfileFile(t *testing.T) {
	dir := t.TempDir()
	data, err := profileFiles.ReadFile("profiles/h20.yaml")
	require.NoError(t, err)
	file := filepath.Join(dir, "mine.yaml")
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(data), "name: H20", "name: Mine", 1)), 0o644))
	p, err := LoadProfile(file)
	require.NoError(t, err)
	require.Equal(t, "Mine", p.Name)
	_, err = LoadProfile(filepath.Join(dir, "none.yaml"))
	require.ErrorContains(t, err, "none.yaml: no such file")
	_, err = LoadProfile(dir + "/")
	require.ErrorContains(t, err, "not a regular file")
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(data), "sm_count: {value: 78", "sm_count: {value: 0", 1)), 0o644))
	_, err = LoadProfile(file)
	require.ErrorContains(t, err, "mine.yaml:7: sm_count.value: 0 is out of range: 1 to 1024")
}

func TestReadProfileIsStrict(t *testing.T) {
	data, err := profileFiles.ReadFile("profiles/h800.yaml")
	require.NoError(t, err)
	file := string(data)
	for _, c := range []struct{ old, new, want string }{
		{"sm_count:", "sms:", "sms"},
		{"eff_fraction: 0.7546", "efficiency: 0.7546", "efficiency"},
		{"eff_fraction: 0.7546", "eff_fraction: 1.7546", "kernels.gemm_fp8.constants.eff_fraction: must be above 0 and at most 1, not 1.7546"},
		{"eff_fraction: 0.7546", "eff_fraction: .nan", "kernels.gemm_fp8.constants.eff_fraction"},
		{"t0: 2.5122us", "t0: 2.5122", "has no unit"},
		{"t0: 2.5122us", "t0: 2.5122s", "kernels.gemm_fp8.constants.t0: must be from 0us to 1ms"},
		{"value: 80GB", "value: 80", "has no unit"},
		{"value: 80GB", "value: 0", "memory.value"},
		{"value: 80GB", "value: 80TB", "h800.yaml:7: memory.value: 80TB is out of range: 1GB to 10TB"},
		{"hbm: {value: 3.35TB/s", "hbm: {value: 3.35MB/s", "h800.yaml:11: hbm.value: 0.00335GB/s is out of range: 10GB/s to 1000TB/s"},
		{"value: 1.979e+15", "value: 1979", "peak_fp8_flops_per_s.value: 1979 is out of range: 1e+12 to 1e+18"},
		{"value: 132", "value: -132", "sm_count.value: -132 is out of range: 1 to 1024"},
		{"160GB/s", "260GB/s", "nvlink_achieved_per_direction"},
		{"value: 3.35TB/s, source: ", "value: 3.35TB/s, assumed: true, note: ", "note"},
		{"pad_m_rows: 64", "pad_m_rows: 0", "pad_m_rows: must be from 1 to 1024, not 0"},
		{"pad_group_rows: 64", "pad_group_rows: 0", "pad_group_rows: must be from 1 to 1024, not 0"},
		{"s0_tokens: 636", "s0_tokens: -1", "kernels.gqa_prefill.constants.s0_tokens: must be from 0 to 1e5, not -1"},
		{"median_pct: 6.4", "median_pct: -6.4", "kernels.gemm_fp8.fit.median_pct"},
		{"points: 128", "points: -1", "kernels.gemm_fp8.fit.points"},
		{"status: fitted", "status: fited", "kernels.gemm_fp8.fit.status: unknown value \"fited\"; did you mean fitted?"},
		{"status: fitted", "status: assumed", "assumed constants have no error of a fit"},
		{"      status: fitted\n", "", "kernels.gemm_fp8.fit.status: is missing"},
		{"measured_on: H100", "measured_on: \"\"", "kernels.gemm_bf16.fit.measured_on: is missing"},
		{"status: borrowed", "status: fitted", "h800.yaml:30: kernels.gemm_bf16.fit.measured_on: fitted constants are of this GPU"},
		{"{bw_eff_fraction: ", "{bw_eff_fracton: ", "kernels.gemm_fp8.fit.fixed.bw_eff_fracton: is not a constant of this class; did you mean bw_eff_fraction?"},
		{"points: 128", "std_errors: {t1: 2}", "kernels.gemm_fp8.fit.std_errors.t1: is not a constant"},
		{"  launch_gap:", "  gap:", "gap"},
	} {
		require.Contains(t, file, c.old)
		_, err := ReadProfile("h800.yaml", []byte(strings.Replace(file, c.old, c.new, 1)))
		require.ErrorContains(t, err, c.want, c.new)
	}
	_, err = ReadProfile("x.yaml", []byte("name: X"))
	require.ErrorContains(t, err, `memory: is missing: write a value and its source, as {value: 80GB, source: "..."} (not written)`)
	require.ErrorContains(t, err, "kernels.mla_prefill: is missing: write its constants and its fit")
}

// Fuzz with -fuzzminimizetime 5x: the seeds are long, and shrinking what covers
// new code would take all the time.
func FuzzReadProfile(f *testing.F) {
	for _, name := range Profiles() {
		data, err := profileFiles.ReadFile("profiles/" + strings.ToLower(name) + ".yaml")
		require.NoError(f, err)
		f.Add(data)
	}
	model, err := LoadModel("Qwen3-30B-A3B")
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ReadProfile("x.yaml", data)
		if err != nil {
			return
		}
		p.FitTable()
		p.FactTable()
		p.Memory.Value = mostMemory
		r, err := NewRank(Setup{GPU: p, Model: model})
		require.NoError(t, err, "whatever is accepted can be used")
		l := r.Decode(64, 1<<20, 1)
		if l.AttnIn <= 0 || l.AttnOut <= 0 || l.Head <= 0 || r.Experts(true, 4096, 1) <= 0 {
			t.Fatalf("times %+v", l)
		}
	})
}

func TestDTypeText(t *testing.T) {
	for _, d := range []DType{AsCheckpoint, BF16, FP8} {
		text, err := d.MarshalText()
		require.NoError(t, err)
		var back DType
		require.NoError(t, back.UnmarshalText(text))
		require.Equal(t, d, back)
	}
	var d DType
	require.ErrorContains(t, d.UnmarshalText([]byte("FP4")), `"FP4" is not a number format`)
	require.Equal(t, "dtype(9)", DType(9).String())
}

// withoutFP8 is an H800's file without FP8 arithmetic.
func withoutFP8(t testing.TB) string {
	data, err := profileFiles.ReadFile("profiles/h800.yaml")
	require.NoError(t, err)
	head, rest, ok := strings.Cut(string(data), "  gemm_fp8:\n")
	require.True(t, ok)
	rest = rest[strings.Index(rest, "  gemm_bf16:\n"):]
	return strings.Replace(head, "peak_fp8_flops_per_s: {value: 1.979e+15", "peak_fp8_flops_per_s: {value: 0", 1) + rest
}

// A GPU without FP8 says so, and is not asked to compute in it.
func TestGPUWithoutFP8(t *testing.T) {
	p, err := ReadProfile("x.yaml", []byte(withoutFP8(t)))
	require.NoError(t, err)
	require.False(t, p.ComputesFP8())
	require.Equal(t, "gemm_bf16", p.FitTable()[0].Class)
	require.Equal(t, "none", p.FactTable()[2].Value)
	text, err := p.Marshal()
	require.NoError(t, err)
	back, err := ReadProfile("x.yaml", text)
	require.NoError(t, err)
	require.Equal(t, p, back)

	dense, err := LoadModel("Qwen3-8B")
	require.NoError(t, err)
	mixture, err := LoadModel("Qwen3-30B-A3B")
	require.NoError(t, err)
	for _, s := range []Setup{{Model: dense, Weights: FP8}, {Model: dense, Weights: FP8, Activations: FP8}, {Model: mixture, ExpertWeights: FP8}} {
		s.GPU = p
		_, err = NewRank(s)
		require.ErrorContains(t, err, "activations: H800 has no FP8 arithmetic, and weights are fp8: write activations bf16")
		if s.Activations == FP8 {
			continue
		}
		s.Activations = BF16
		r, err := NewRank(s)
		require.NoError(t, err)
		full, err := LoadProfile("H800")
		require.NoError(t, err)
		s.GPU = full
		want, err := NewRank(s)
		require.NoError(t, err)
		require.Equal(t, want.Decode(64, 1<<18, 1), r.Decode(64, 1<<18, 1), "fp8 weights and bf16 arithmetic")
		require.Equal(t, want.Experts(true, 4096, 1), r.Experts(true, 4096, 1))
	}

	peak := units.PFLOPs
	_, err = NewRank(Setup{GPU: (&Override{PeakFP8: &peak}).Apply(p), Model: dense})
	require.ErrorContains(t, err, "gpu.kernels.gemm_fp8: is missing")
	_, err = ReadProfile("x.yaml", []byte(strings.Replace(withoutFP8(t), "kernels:\n",
		"kernels:\n  gemm_fp8: {constants: {eff_fraction: 1, bw_eff_fraction: 1, pad_m_rows: 64}}\n", 1)))
	require.ErrorContains(t, err, "x.yaml:15: kernels.gemm_fp8: peak_fp8_flops_per_s is 0, so H800 has no such kernels: remove it")
}
