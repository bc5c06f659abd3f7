package compute

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/internal/units"
)

func TestLoadProfileByName(t *testing.T) {
	require.Equal(t, []string{"H20", "H800"}, Profiles())
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

// Every number and class says where it is from, and a measured class how far off
// it is.
func TestEverythingHasASource(t *testing.T) {
	assumed := map[string][]string{}
	for _, name := range Profiles() {
		p, err := LoadProfile(name)
		require.NoError(t, err)
		for _, row := range p.FactTable() {
			require.NotEmpty(t, row.Source, row.Name)
			require.False(t, row.Assumed, row.Name)
		}
		table := p.FitTable()
		require.Len(t, table, 10)
		for _, row := range table {
			require.NotEmpty(t, row.Source, row.Class)
			require.NotEmpty(t, row.Constants, row.Class)
			switch {
			case row.Assumed:
				assumed[name] = append(assumed[name], row.Class)
				require.Zero(t, row.MedianPct, row.Class)
			case row.Class != "elementwise" && row.Class != "launch_gap":
				require.Positive(t, row.MedianPct, row.Class)
				require.Greater(t, row.P95Pct, row.MedianPct, row.Class)
			default:
				require.NotEmpty(t, row.Note, row.Class)
			}
		}
	}
	require.Equal(t, map[string][]string{"H20": {"gemm_bf16", "mla_prefill"}}, assumed)
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
		{"value: 132", "value: -132", "sm_count.value: must be a whole number from 1 to 1024, not -132"},
		{"160GB/s", "260GB/s", "nvlink_achieved_per_direction"},
		{"value: 3.35TB/s, source: ", "value: 3.35TB/s, assumed: true, note: ", "note"},
		{"pad_m_rows: 64", "pad_m_rows: 0", "pad_m_rows: must be from 1 to 1024, not 0"},
		{"pad_group_rows: 64", "pad_group_rows: 0", "pad_group_rows: must be from 1 to 1024, not 0"},
		{"s0_tokens: 636", "s0_tokens: -1", "kernels.gqa_prefill.constants.s0_tokens: must be from 0 to 1e5, not -1"},
		{"median_pct: 6.4", "median_pct: -6.4", "kernels.gemm_fp8.fit.median_pct"},
		{"points: 128", "points: -1", "kernels.gemm_fp8.fit.points"},
		{"  launch_gap:", "  gap:", "gap"},
	} {
		require.Contains(t, file, c.old)
		_, err := ReadProfile([]byte(strings.Replace(file, c.old, c.new, 1)))
		require.ErrorContains(t, err, c.want, c.new)
	}
	_, err = ReadProfile([]byte("name: X"))
	require.ErrorContains(t, err, "memory.value")
	require.ErrorContains(t, err, "kernels.mla_prefill.constants.eff_fraction")
	require.ErrorContains(t, err, "kernels.mla_prefill.fit.source")
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
		p, err := ReadProfile(data)
		if err != nil {
			return
		}
		p.FitTable()
		p.FactTable()
		p.Memory.Value = 1 << 50
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
