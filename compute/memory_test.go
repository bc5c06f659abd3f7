package compute

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
)

func TestMemoryOfDenseModel(t *testing.T) {
	// Llama-3.1-70B at TP8 in bf16: an eighth of every matrix, all of the norms.
	m := newTarget(t, "H800", "Llama-3.1-70B", Setup{TP: 8}).Memory()
	norms := units.Bytes(2 * (80*2*8192 + 8192))
	require.Equal(t, norms, m.Parts.Norms)
	require.Equal(t, units.Bytes(2*70553706496-int64(norms))/8+norms, m.Weights)
	require.Equal(t, m.Parts.Sum(), m.Weights)
	require.Equal(t, 80*units.GB, m.Capacity)
	require.Equal(t, 8*units.GB, m.Reserve)
	require.Equal(t, units.Bytes(327680/8), m.KVPerToken)
	require.Equal(t, (int64(72e9)-int64(m.Weights))/40960, m.KVTokens())

	// TP16 has fewer KV heads than GPUs: each is held twice.
	wide := newTarget(t, "H800", "Llama-3.1-70B", Setup{TP: 16, KV: FP8}).Memory()
	require.Equal(t, units.Bytes(163840/8), wide.KVPerToken)
	perLayer := units.Bytes(2 * (2*8192*4*128 + 2*8192*1*128))
	require.Equal(t, 80*perLayer, wide.Parts.Attention)
}

func TestMemoryOfMixtureOfExperts(t *testing.T) {
	m := newTarget(t, "H800", "DeepSeek-V3", Setup{EP: 32}).Memory()
	scaled := func(n int64) units.Bytes { return units.Bytes(n + 4*n/(128*128)) }
	require.Equal(t, scaled(58*8*44040192), m.Parts.Experts)
	require.Equal(t, scaled(58*44040192), m.Parts.Shared)
	require.Equal(t, scaled(3*3*7168*18432), m.Parts.Dense)
	require.Equal(t, scaled(61*(187107328-2048)), m.Parts.Attention)
	require.Equal(t, units.Bytes(2*129280*7168), m.Parts.Embedding, "bf16 in the fp8 checkpoint")
	require.Equal(t, m.Parts.Embedding, m.Parts.Head)
	require.Equal(t, units.Bytes(2*58*(256*7168+256)), m.Parts.Router)
	require.Equal(t, units.Bytes(70272), m.KVPerToken)

	// The latent is held by every GPU of the rank, and so are the projections to
	// it; the rest of attention is shared.
	tp := newTarget(t, "H800", "DeepSeek-V3", Setup{TP: 8, EP: 32, KV: FP8}).Memory()
	require.Equal(t, units.Bytes(35136), tp.KVPerToken)
	require.Equal(t, m.Parts.Experts, tp.Parts.Experts)
	down := int64(7168 * (1536 + 512 + 64))
	require.Equal(t, scaled(61*(down+(187107328-2048-down)/8)), tp.Parts.Attention)
	require.InEpsilon(t, float64(m.Parts.Head)/8, float64(tp.Parts.Head), 1e-12)

	// All the weights of a rank's GPUs and an EP group together are the model.
	whole := newTarget(t, "H800", "DeepSeek-V3", Setup{EP: 256}).Memory()
	all := int64(whole.Weights) + 255*int64(whole.Parts.Experts)
	model, err := LoadModel("DeepSeek-V3")
	require.NoError(t, err)
	w := model.Weights()
	inFP8 := w.Attention + w.Dense + w.Shared + w.Experts
	inBF16 := w.Total() - inFP8
	require.InDelta(t, float64(inFP8)*(1+4./16384)+2*float64(inBF16), float64(all), 1e4)
}

func TestWeightsThatDoNotFit(t *testing.T) {
	setup := func(gpu, model string, s Setup) error {
		t.Helper()
		var err error
		s.GPU, err = LoadProfile(gpu)
		require.NoError(t, err)
		s.Model, err = LoadModel(model)
		require.NoError(t, err)
		_, err = NewRank(s)
		var ps config.Problems
		if err != nil {
			require.ErrorAs(t, err, &ps)
			require.Len(t, ps, 1)
		}
		return err
	}
	require.EqualError(t, setup("H800", "Llama-3.1-70B", Setup{}),
		"tp: weights need 141.1 GB per GPU at TP1, 69.1 GB more than the 72 GB usable of H800 80GB; TP2 would fit")
	require.NoError(t, setup("H800", "Llama-3.1-70B", Setup{TP: 2}))
	require.NoError(t, setup("H800", "Llama-3.1-70B", Setup{Weights: FP8, Utilisation: 0.95}))
	require.EqualError(t, setup("H800", "Llama-3.1-70B", Setup{Weights: FP8, Utilisation: 0.9125}),
		"tp: weights (72.7 GB) and the KV of 2048 tokens (0.7 GB) need 73.3 GB per GPU at TP1, 0.3 GB more than the 73 GB usable of H800 80GB; TP2 would fit")
	require.EqualError(t, setup("H800", "DeepSeek-V3", Setup{EP: 8}),
		"ep: weights need 100.8 GB per GPU at TP1 EP8, 28.8 GB more than the 72 GB usable of H800 80GB; EP16 would fit")
	require.NoError(t, setup("H800", "DeepSeek-V3", Setup{EP: 16}))
	require.NoError(t, setup("H20", "DeepSeek-V3", Setup{TP: 8, EP: 8}))
	err := setup("H800", "Qwen3-235B-A22B", Setup{Utilisation: 0.1})
	require.ErrorContains(t, err, "more than the 8 GB usable")
}

// What the complaint suggests fits, and it is the smallest EP that does.
func TestRemedyFits(t *testing.T) {
	suggested := 0
	for _, name := range Models() {
		model, err := LoadModel(name)
		require.NoError(t, err)
		for _, gpuName := range []string{"H20", "H800"} {
			gpu, err := LoadProfile(gpuName)
			require.NoError(t, err)
			for _, util := range []float64{0.1, 0.2, 0.3, 0.5, 0.7, 0.9} {
				setup := Setup{GPU: gpu, Model: model, Utilisation: util, Weights: BF16}
				s, err := setup.resolve()
				require.NoError(t, err)
				if memoryOf(s).KVTokens() >= MinKVTokens {
					continue
				}
				suggested++
				said := remedy(s)
				if said == "no TP or EP fits" {
					widest := setup
					widest.TP = model.Attention.Heads
					if model.MoE != nil {
						widest.EP = model.MoE.Experts
					}
					_, err = NewRank(widest)
					require.Error(t, err)
					continue
				}
				smallest := setup
				if _, err := fmt.Sscanf(said, "EP%d would fit", &smallest.EP); err == nil {
					for narrower := 1; narrower < smallest.EP; narrower++ {
						if model.MoE.Experts%narrower != 0 {
							continue
						}
						setup.EP = narrower
						_, err = NewRank(setup)
						require.Error(t, err, "%s: EP%d fits too", said, narrower)
					}
				} else if _, err := fmt.Sscanf(said, "TP%d EP%d would fit", &smallest.TP, &smallest.EP); err != nil {
					_, err = fmt.Sscanf(said, "TP%d would fit", &smallest.TP)
					require.NoError(t, err, said)
				}
				_, err = NewRank(smallest)
				require.NoError(t, err, said)
			}
		}
	}
	require.Greater(t, suggested, 20)
}

func TestSetupProblems(t *testing.T) {
	gpu, err := LoadProfile("H800")
	require.NoError(t, err)
	v3, err := LoadModel("DeepSeek-V3")
	require.NoError(t, err)
	llama, err := LoadModel("Llama-3.1-8B")
	require.NoError(t, err)

	_, err = NewRank(Setup{})
	require.EqualError(t, err, "gpu: is missing: name one of B200, H100, H20, H200, H800\n"+
		"model: is missing: name one of "+strings.Join(Models(), ", "))

	for _, c := range []struct {
		setup Setup
		want  string
	}{
		{Setup{Model: llama, TP: 3}, "tp: must divide the heads and widths of Llama-3.1-8B: one of 1, 2, 4, 8, 16, 32, not 3"},
		{Setup{Model: llama, TP: -1}, "tp: must divide"},
		{Setup{Model: llama, TP: 64}, "tp: must divide"},
		{Setup{Model: llama, EP: 8}, "ep: must be 1: Llama-3.1-8B has no experts, not 8"},
		{Setup{Model: v3, EP: 48}, "ep: must divide the 256 experts of DeepSeek-V3: one of 1, 2, 4, 8, 16, 32, 64, 128, 256, not 48"},
		{Setup{Model: v3, EP: -8}, "ep: must divide"},
		{Setup{Model: v3, EP: 32, TP: 64}, "ep: must be a multiple of tp (64), so that the GPUs of a rank hold experts alike, not 32"},
		{Setup{Model: v3, EP: 32, CommSMs: 132}, "comm_sms: must be from 0 to 131 (H800 has 132 SMs), not 132"},
		{Setup{Model: v3, EP: 32, Derate: -1}, "derate: must be from 0.5 to 10, not -1"},
		{Setup{Model: v3, EP: 32, Derate: math.NaN()}, "derate: must be"},
		{Setup{Model: v3, EP: 32, Utilisation: 1.1}, "utilisation: must be from 0.1 to 1, not 1.1"},
		{Setup{Model: v3, EP: 32, Weights: 7}, "weights: must be"},
		{Setup{Model: v3, EP: 32, KV: 7}, "kv: must be"},
		{Setup{Model: v3, EP: 32, Activations: 7}, "activations: must be"},
		{Setup{Model: llama, Activations: FP8}, "activations: fp8 needs fp8 weights, and they are bf16: write weights fp8, or activations bf16"},
		{Setup{Model: v3, EP: 32, DraftLayers: 17}, "draft_layers: must be from 0 to 16, not 17"},
		{Setup{Model: v3, EP: 32, DraftLayers: -1}, "draft_layers: must be"},
		{Setup{Model: &Model{}}, "model.layers: must be from 1"},
		{Setup{Model: v3, GPU: &Profile{}}, "gpu.memory: is missing"},
	} {
		if c.setup.GPU == nil {
			c.setup.GPU = gpu
		}
		_, err := NewRank(c.setup)
		var ps config.Problems
		require.ErrorAs(t, err, &ps)
		require.ErrorContains(t, err, c.want)
	}

	r, err := NewRank(Setup{GPU: gpu, Model: llama})
	require.NoError(t, err)
	want := Setup{GPU: gpu, Model: llama, TP: 1, EP: 1, Weights: BF16, KV: BF16, Derate: DefaultDerate, Utilisation: DefaultUtilisation}
	require.Equal(t, want, r.Setup())
	require.Equal(t, 32, r.DenseLayers())
	require.Equal(t, 0, r.MoELayers())
	r, err = NewRank(Setup{GPU: gpu, Model: v3, TP: 16})
	require.NoError(t, err)
	require.Equal(t, 16, r.Setup().EP)
	require.Equal(t, FP8, r.Setup().Weights)
	require.Equal(t, 3, r.DenseLayers())
	require.Equal(t, 58, r.MoELayers())
}
