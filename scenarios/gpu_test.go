package scenarios

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/compute"
)

// A GPU that has no FP8 gets none by a what-if.
func TestPeakOfAGPUWithoutFP8(t *testing.T) {
	p, err := compute.LoadProfile("H800")
	require.NoError(t, err)
	p.PeakFP8.Value, p.Kernels.GEMMFP8 = 0, compute.Class[compute.GEMM]{}
	text, err := p.Marshal()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "old.yaml")
	require.NoError(t, os.WriteFile(file, text, 0o644))
	_, err = Load("llama-3.1-70b-h800-pd", "gpu.name="+file, "gpu.peak_bf16=1PFLOP/s")
	require.NoError(t, err)
	_, err = Load("llama-3.1-70b-h800-pd", "gpu.name="+file, "gpu.peak_fp8=1PFLOP/s")
	require.ErrorContains(t, err, "gpu.peak_fp8: H800 has no FP8 arithmetic; one that has needs the gemm_fp8 of a profile file")
}
