package compute

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
)

func TestOverrideReplacesWhatItNames(t *testing.T) {
	p, err := LoadProfile("H800")
	require.NoError(t, err)
	before := *p
	tree, err := config.Parse("x.yaml", []byte("{memory: 141GB, sms: 148, peak_fp8: 4.5PFLOP/s, peak_bf16: 2250TFLOPS, hbm_bandwidth: 4.8TB/s, nvlink: 450GB/s}"))
	require.NoError(t, err)
	var o Override
	require.NoError(t, tree.Decode(&o))
	require.NoError(t, o.Validate())
	q := o.Apply(p)
	require.Equal(t, before, *p, "the profile itself stays")
	require.NoError(t, q.Validate())
	require.Equal(t, 141*units.GB, q.Memory.Value)
	require.Equal(t, 148, q.SMs.Value)
	require.Equal(t, 4.5e15, q.PeakFP8.Value)
	require.Equal(t, 2.25e15, q.PeakBF16.Value)
	require.Equal(t, 4.8e12, q.HBM.Value.BytesPerSecond())
	require.Equal(t, 450e9, q.NVLink.Value.BytesPerSecond())
	require.Equal(t, 360e9, q.NVLinkAchieved.Value.BytesPerSecond(), "0.8 of it, as of 200 GB/s")
	require.Equal(t, q.NVLinkAchieved.Value, q.NVLinkRate())
	require.Contains(t, q.HBM.Source, "in place of 26800Gbps")
	require.Equal(t, before.Kernels, q.Kernels)
	require.Equal(t, []string{
		"What if: gpu.memory is 141GB in place of 80GB.", "What if: gpu.sms is 148 in place of 132.",
		"What if: gpu.peak_fp8 is 4500 TFLOP/s in place of 1979 TFLOP/s.", "What if: gpu.peak_bf16 is 2250 TFLOP/s in place of 989.5 TFLOP/s.",
		"What if: gpu.hbm_bandwidth is 4800 GB/s in place of 3350 GB/s.", "What if: gpu.nvlink is 450 GB/s in place of 200 GB/s.",
	}, o.Changes(p))

	var none Override
	require.Equal(t, before, *none.Apply(p))
	require.Empty(t, none.Changes(p))
}

func TestOverrideRanges(t *testing.T) {
	for text, want := range map[string]string{
		"sms: 0":                  "sms: 0 is out of range: 1 to 1024",
		"memory: 0":               "memory: 0B is out of range: 1GB to 10TB",
		"peak_fp8: 1GFLOP/s":      "peak_fp8: 0.001TFLOP/s is out of range: 1TFLOP/s to 1000PFLOP/s",
		"peak_bf16: 0":            "peak_bf16: 0TFLOP/s is out of range",
		"hbm_bandwidth: 9GB/s":    "hbm_bandwidth: 9GB/s is out of range: 10GB/s to 1000TB/s",
		"hbm_bandwidth: 2000TB/s": "hbm_bandwidth: 2000TB/s is out of range: 10GB/s to 1000TB/s",
		"nvlink: 0":               "nvlink: 0GB/s is out of range: 1GB/s to 100TB/s",
	} {
		tree, err := config.Parse("x.yaml", []byte(text))
		require.NoError(t, err)
		var o Override
		require.NoError(t, tree.Decode(&o))
		require.ErrorContains(t, o.Validate(), want)
	}
}
