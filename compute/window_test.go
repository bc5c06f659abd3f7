package compute

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/internal/units"
)

// The pairs of a windowed chunk, token by token: the i-th new token sees the
// context, the tokens before it and half of itself, the window at most.
func TestPairsInWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		window := rapid.IntRange(1, 300).Draw(t, "window")
		b, pairs, context := prefillBatch{window: float64(window)}, 0.0, 0.0
		for range rapid.IntRange(1, 4).Draw(t, "chunks") {
			s, c := rapid.IntRange(1, 500).Draw(t, "tokens"), rapid.IntRange(0, 500).Draw(t, "context")
			b.add(float64(s), float64(c))
			for i := range s {
				pairs += min(float64(c+i)+0.5, float64(window))
			}
			context += float64(min(c, window))
		}
		got := b.inWindow()
		require.Equal(t, pairs, got.pairs)
		require.Equal(t, context, got.context)
		require.Equal(t, b.tokens, got.tokens)
		require.LessOrEqual(t, got.pairs, b.pairs)
	})
}

// windowed is gpt-oss-20b on H800, with the window and the number of windowed
// layers set.
func windowed(t testing.TB, window, layers int) *Rank {
	t.Helper()
	gpu, err := LoadProfile("H800")
	require.NoError(t, err)
	m, err := LoadModel("gpt-oss-20b")
	require.NoError(t, err)
	m.Attention.Window, m.Attention.WindowedLayers = window, layers
	r, err := NewRank(Setup{GPU: gpu, Model: m, Derate: 1})
	require.NoError(t, err)
	return r
}

func TestWindowSavesWhatIsOutsideIt(t *testing.T) {
	none, half, all := windowed(t, 0, 0), windowed(t, 128, 12), windowed(t, 128, 24)
	// Within the window nothing is saved.
	require.Equal(t, none.Decode(10, 10*128, 1), half.Decode(10, 10*128, 1))
	require.Equal(t, none.Prefill(chunks(3, 128)), half.Prefill(chunks(3, 128)))
	// When all layers have it, a context above it costs nothing.
	require.Equal(t, all.Decode(10, 10*128, 1), all.Decode(10, 10*100000, 1))
	require.Equal(t, all.Decode(10, 10*129, 2), all.Decode(10, 10*100000, 2), "two query tokens see one key more")
	require.Less(t, all.Prefill([]Chunk{{1000, 100000}}).AttnOut, none.Prefill([]Chunk{{1000, 0}}).AttnOut)
	// Half of the layers save half of it.
	full, saved := none.Decode(10, 10*100000, 1), half.Decode(10, 10*100000, 1)
	require.InDelta(t, float64(full.AttnOut+all.Decode(10, 10*100000, 1).AttnOut)/2, float64(saved.AttnOut), 2)
	full, saved = none.Prefill(chunks(2, 8192)), half.Prefill(chunks(2, 8192))
	require.InDelta(t, float64(full.AttnOut+all.Prefill(chunks(2, 8192)).AttnOut)/2, float64(saved.AttnOut), 2)
	require.Equal(t, full.AttnIn, saved.AttnIn)
	// The KV is held all the same.
	require.Equal(t, none.Memory().KVPerToken, all.Memory().KVPerToken)
}

// Queries of DeepSeek-V2-Lite come straight from the stream; with a latent of the
// stream's width there would be one GEMM of that size more.
func TestQueriesWithoutLatent(t *testing.T) {
	lite := newTarget(t, "H800", "DeepSeek-V2-Lite", Setup{})
	m := lite.model
	m.Attention.QLoraRank = m.Hidden
	gpu, err := LoadProfile("H800")
	require.NoError(t, err)
	latent, err := NewRank(Setup{GPU: gpu, Model: &m})
	require.NoError(t, err)
	require.Greater(t, latent.Prefill(chunks(2, 2048)).AttnIn, lite.Prefill(chunks(2, 2048)).AttnIn)
	require.Equal(t, latent.Prefill(chunks(2, 2048)).AttnOut, lite.Prefill(chunks(2, 2048)).AttnOut)
	require.EqualValues(t, 27*int64(2048*2048+2048), latent.model.TotalParameters()-lite.model.TotalParameters())
	require.Equal(t, units.Bytes(2*27*2048*2048), latent.Memory().Parts.Attention-lite.Memory().Parts.Attention)
}

func TestRotaryDimensionsMove(t *testing.T) {
	air := newTarget(t, "H800", "GLM-4.5-Air", Setup{EP: 8})
	m := air.model
	m.Attention.RotaryDim = 0
	gpu, err := LoadProfile("H800")
	require.NoError(t, err)
	whole, err := NewRank(Setup{GPU: gpu, Model: &m, EP: 8})
	require.NoError(t, err)
	require.Greater(t, whole.Prefill(chunks(1, 4096)).AttnIn, air.Prefill(chunks(1, 4096)).AttnIn)
}

// A rank holds each KV head at least once, and together its GPUs hold KVReplicas
// times the KV.
func TestKVReplicas(t *testing.T) {
	for _, c := range []struct {
		model        string
		tp, replicas int
	}{
		{"Llama-3.1-70B", 4, 1}, {"Llama-3.1-70B", 8, 1}, {"Llama-3.1-70B", 16, 2}, {"Llama-3.1-70B", 32, 4},
		{"Qwen3-235B-A22B", 8, 2}, {"Qwen3-235B-A22B", 16, 4}, {"DeepSeek-V3", 8, 8},
	} {
		s := Setup{TP: c.tp}
		if c.model != "Llama-3.1-70B" {
			s.EP = 32
		}
		r := newTarget(t, "H800", c.model, s)
		require.Equal(t, c.replicas, r.Memory().KVReplicas, "%+v", c)
		require.Equal(t, units.Bytes(int64(c.replicas)*r.model.KVBytesPerToken(BF16)), units.Bytes(c.tp)*r.Memory().KVPerToken, "%+v", c)
	}
}

// Biases and sinks are sharded with what they belong to, in bf16 whatever the
// weights are.
func TestMemoryOfBiases(t *testing.T) {
	m := newTarget(t, "H800", "gpt-oss-120b", Setup{TP: 4, EP: 8, Weights: FP8}).Memory()
	linear := int64(36 * (2880*(64/4)*64*2 + 2*2880*(8/4)*64))
	vectors := int64(36 * ((64/4+2*8/4)*64 + 64/4 + 2880))
	require.Equal(t, quantised(FP8, linear)+units.Bytes(2*vectors), m.Parts.Attention)
	experts, biases := int64(36*128/8*3*2880*2880), int64(36*128/8*3*2880)
	require.Equal(t, quantised(FP8, experts)+units.Bytes(2*biases), m.Parts.Experts)
}
