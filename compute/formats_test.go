package compute

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/internal/units"
)

// Each operand of a GEMM weighs what its own format says; the result is bf16.
func TestBytesOfFormats(t *testing.T) {
	const m, k, n, experts, rows = 96, 512, 384, 4, 33
	for _, f := range []struct {
		formats
		a, w float64
	}{
		{formats{BF16, BF16}, 2, 2}, {formats{FP8, FP8}, 1, 1}, {formats{FP8, BF16}, 2, 1},
	} {
		require.Equal(t, f.a*m*k+f.w*k*n+2*m*n, denseGEMM(64, f.formats, m, k, n).bytes)
		require.Equal(t, f.a*experts*rows*k+f.w*experts*k*n+2*experts*rows*n, groupedGEMM(64, f.formats, experts, rows, k, n).bytes)
	}
}

// Every format moves the parts that it is of, and no other.
func TestEachFormatMovesItsParts(t *testing.T) {
	decode := func(r *Rank) LayerTimes { return r.Decode(64, 64*4096, 1) }
	base := newTarget(t, "H800", "Qwen3-30B-A3B", Setup{EP: 4})
	b := decode(base)

	// KV: the attention core, and the bytes of the KV write before it.
	kv := newTarget(t, "H800", "Qwen3-30B-A3B", Setup{EP: 4, KV: FP8})
	l := decode(kv)
	require.NotEqual(t, b.AttnOut, l.AttnOut)
	require.Less(t, l.AttnIn, b.AttnIn)
	require.Equal(t, b.Head, l.Head)
	require.Equal(t, base.Experts(false, 256, 1), kv.Experts(false, 256, 1))
	require.Equal(t, base.Memory().Weights, kv.Memory().Weights)
	require.Equal(t, base.Memory().KVPerToken, 2*kv.Memory().KVPerToken)

	// Weights alone: half the bytes, the arithmetic of bf16. 64 rows are bound by
	// the weights' bytes, so experts take about half as long and no less.
	w := newTarget(t, "H800", "Qwen3-30B-A3B", Setup{EP: 4, Weights: FP8, Activations: BF16})
	l = decode(w)
	require.Less(t, l.AttnIn, b.AttnIn)
	require.Less(t, l.AttnOut, b.AttnOut)
	require.Equal(t, b.Head, l.Head, "the head is bf16 always")
	before, after := base.Experts(false, 256, 1), w.Experts(false, 256, 1)
	require.Greater(t, float64(after), 0.5*float64(before))
	require.Less(t, float64(after), 0.65*float64(before))
	require.Equal(t, base.Memory().KVPerToken, w.Memory().KVPerToken)
	require.Less(t, w.Memory().Weights, base.Memory().Weights)

	// Activations on top: the same memory, fp8 arithmetic, and kernels that
	// quantise. Large prompts are bound by arithmetic.
	a := newTarget(t, "H800", "Qwen3-30B-A3B", Setup{EP: 4, Weights: FP8, Activations: FP8})
	require.Equal(t, w.Memory(), a.Memory())
	require.Equal(t, decode(a), decode(newTarget(t, "H800", "Qwen3-30B-A3B", Setup{EP: 4, Weights: FP8})), "the default")
	require.Equal(t, decode(w).Head, decode(a).Head)
	slow, fast := w.Experts(true, 65536, 1), a.Experts(true, 65536, 1)
	require.Greater(t, float64(slow), 1.5*float64(fast))
	require.Less(t, float64(slow), 2.1*float64(fast))
	require.InEpsilon(t, float64(base.Experts(true, 65536, 1)), float64(slow), 0.01, "the arithmetic of bf16")
}

// SMs lent to communication slow prefill's layers, and nothing of decode.
func TestSharedSMsSlowPrefillOnly(t *testing.T) {
	whole, lent := newTarget(t, "H800", "DeepSeek-V3", Setup{EP: 32}), newTarget(t, "H800", "DeepSeek-V3", Setup{EP: 32, CommSMs: 24})
	require.Equal(t, whole.Decode(64, 64*4096, 2), lent.Decode(64, 64*4096, 2))
	require.Equal(t, whole.Experts(false, 4096, 1), lent.Experts(false, 4096, 1))
	w, l := whole.Prefill(chunks(2, 4096)), lent.Prefill(chunks(2, 4096))
	require.Less(t, w.AttnIn, l.AttnIn)
	require.Less(t, w.AttnOut, l.AttnOut)
	require.Less(t, w.Shared, l.Shared)
	require.Less(t, whole.Experts(true, 1<<18, 1), lent.Experts(true, 1<<18, 1))
	// What no communication runs beside has all of them.
	require.Equal(t, w.DenseMLP, l.DenseMLP)
	require.Equal(t, w.Head, l.Head)
}

// DeepSeek-V3's MTP module is one more MoE layer and a projection of 2 x 7,168 to
// 7,168; embedding and head are shared with the model.
func TestMemoryOfDraftModule(t *testing.T) {
	m := newTarget(t, "H800", "DeepSeek-V3", Setup{EP: 128}).Memory()
	d := newTarget(t, "H800", "DeepSeek-V3", Setup{EP: 128, DraftLayers: 1}).Memory()
	attention, expert, projection := int64(187107328-2048), int64(44040192), int64(2*7168*7168)
	scaled := attention + 2*expert + expert + projection // 2 of 256 experts per GPU, 1 shared
	router, norms := int64(2*(256*7168+256)), int64(2*(2048+2*7168))
	require.InDelta(t, float64(scaled)*(1+4./16384)+float64(router+norms), float64(d.Parts.Draft), 64)
	require.Equal(t, m.Weights+d.Parts.Draft, d.Weights)
	require.Equal(t, d.Parts.Sum(), d.Weights)
	require.Equal(t, units.Bytes(70272), m.KVPerToken)
	require.Equal(t, units.Bytes(70272+2*576), d.KVPerToken)
	require.Zero(t, m.Parts.Draft)

	// All GPUs of an EP group hold the module's weights once, beside what each
	// holds alike: the catalogue's 11.5e9 parameters of the checkpoint's module,
	// without its copies of embedding and head.
	all := int64(d.Parts.Draft) + 127*2*expert
	require.InEpsilon(t, 11.5e9, float64(all), 0.02)
}
