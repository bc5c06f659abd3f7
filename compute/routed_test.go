package compute

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

func routedRank(t testing.TB, change func(*Setup)) *Rank {
	gpu, err := LoadProfile("h800")
	require.NoError(t, err)
	model, err := LoadModel("deepseek-v3")
	require.NoError(t, err)
	s := Setup{GPU: gpu, Model: model, EP: 64}
	if change != nil {
		change(&s)
	}
	r, err := NewRank(s)
	require.NoError(t, err)
	return r
}

// An even load takes as long as the one that Experts assumes.
func TestEvenLoadTakesAsLong(t *testing.T) {
	for _, ep := range []int{32, 64, 128} {
		r := routedRank(t, func(s *Setup) { s.EP = ep })
		for _, prefill := range []bool{false, true} {
			for _, tokens := range []int64{64, 256, 1000, 8192, 65536} {
				slots := 256 / ep
				l := ExpertLoad{Unique: -1, Tokens: tokens * Milli, Expected: true}
				for range slots {
					l.Rows = append(l.Rows, tokens*8*Milli/256)
				}
				want := r.Experts(prefill, tokens, 1)
				require.InEpsilon(t, float64(want), float64(r.ExpertsOf(prefill, l)), 1e-4, "EP%d, %d tokens, prefill %v", ep, tokens, prefill)
			}
		}
	}
}

// Rows are padded expert by expert, and one that nobody visits costs nothing: by
// hand, from the GEMM's own formula.
func TestUnevenLoad(t *testing.T) {
	r := routedRank(t, nil)
	c := r.gpu.Kernels.GroupedMasked.Constants
	pad := int64(c.PadM)
	load := ExpertLoad{Rows: []int64{(pad + 1) * Milli, 0, 3 * Milli, pad * Milli}, Unique: -1, Tokens: 4096 * Milli}
	g := groupLoad{l: &load}
	require.Equal(t, float64(4*pad), g.padded(int(pad)))

	rows := float64(2*pad + 4)
	gemms := 0.
	for _, kn := range [][2]float64{{7168, 4096}, {2048, 7168}} {
		k, n := kn[0], kn[1]
		gemms += r.gpu.gemmTime(&c, FP8, 1, gemm{rows: float64(4 * pad), n: n, k: k, bytes: rows*k + 3*n*k + 2*rows*n})
	}
	want := gemms + r.gpu.elementwise(1, rows*2048*5)
	want += 3 * r.gpu.Kernels.LaunchGap.Constants.T0.Microseconds()
	require.Equal(t, sim.FromMicroseconds(want*DefaultDerate), r.ExpertsOf(false, load))

	more := load
	more.Rows = []int64{(pad + 1) * Milli, Milli, 3 * Milli, pad * Milli}
	require.Greater(t, r.ExpertsOf(false, more), r.ExpertsOf(false, load), "a fourth expert's weights are read")
	require.Zero(t, r.ExpertsOf(false, ExpertLoad{Rows: []int64{0, 0}, Tokens: Milli}))
	require.Zero(t, testing.AllocsPerRun(10, func() { r.ExpertsOf(false, load) }))
}

// Redundant copies take memory: one expert's bytes for each copy, layer by layer.
func TestRedundantExpertsTakeMemory(t *testing.T) {
	plain := routedRank(t, nil)
	more := routedRank(t, func(s *Setup) { s.RedundantExperts = 64 })
	// gate, up and down of 7,168 x 2,048, a byte each, and a scale per 128 x 128.
	each := units.Bytes(3*7168*2048 + 4*3*7168*2048/(128*128))
	require.Equal(t, each, plain.ExpertBytes())
	require.Equal(t, 58*each, more.Memory().Weights-plain.Memory().Weights)
	require.Less(t, more.Memory().KVTokens(), plain.Memory().KVTokens())

	_, err := NewRank(Setup{GPU: &plain.gpu, Model: &plain.model, EP: 64, RedundantExperts: 32})
	require.ErrorContains(t, err, "must divide the 256 experts and 32 redundant copies of DeepSeek-V3")
	_, err = NewRank(Setup{GPU: &plain.gpu, Model: &plain.model, EP: 144, RedundantExperts: 32})
	require.NoError(t, err)
}
