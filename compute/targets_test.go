package compute

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The six targets are measured end-to-end throughputs in tokens/GPU/s, as the
// README of alibaba/InferSim collects them: DeepSeek-V3 from
// deepseek-ai/profile-data, Qwen3 measured there with SGLang. Each is composed
// here from layer times, unit communication times and the overlap of the two, as
// a serving simulator would with an ideal fabric.
//
// model is what an independent implementation of the same layer model in Python
// gives. It is the tight check; measured is what the claim of 5 % rests on. The
// derate and the stretch of communication were fitted on such systems.

const micro = 1e6 // microseconds per second

func newTarget(t testing.TB, gpu, model string, s Setup) *Rank {
	t.Helper()
	var err error
	s.GPU, err = LoadProfile(gpu)
	require.NoError(t, err)
	s.Model, err = LoadModel(model)
	require.NoError(t, err)
	r, err := NewRank(s)
	require.NoError(t, err)
	return r
}

func chunks(n, tokens int) []Chunk {
	c := make([]Chunk, n)
	for i := range c {
		c[i].Tokens = tokens
	}
	return c
}

// prefillPeriod is the steady time per layer, in microseconds, of two
// micro-batches on two serial streams: compute A1 S0 A0 M1 M0 S1 and
// communication C0 D1 D0 C1, with attention a, shared expert s, routed experts
// m, dispatch d and combine c. DeepSeek's profile-data shows this order.
func prefillPeriod(a, s, m, d, c float64) float64 {
	var compute, comm, combine1, experts0 float64
	const layers = 40
	var at [layers]float64
	for i := range at {
		compute = max(compute, combine1) + a // A1
		attention1 := compute
		comm = max(comm, experts0) + c // C0
		combine0 := comm
		compute += s                     // S0
		comm = max(comm, attention1) + d // D1
		dispatch1 := comm
		compute = max(compute, combine0) + a  // A0
		comm = max(comm, compute) + d         // D0
		compute = max(compute, dispatch1) + m // M1
		experts1 := compute
		compute = max(compute, comm) + m // M0
		experts0 = compute
		comm = max(comm, experts1) + c // C1
		combine1 = comm
		compute += s // S1
		at[i] = compute
	}
	return (at[layers-1] - at[layers-11]) / 10
}

func deepseekPrefill(t testing.TB) float64 {
	// EP32, 16,384 tokens per GPU as two micro-batches of 2 x 4,096.
	r := newTarget(t, "H800", "DeepSeek-V3", Setup{EP: 32, CommSMs: DefaultCommSMs})
	const tokens = 8192
	l := r.Prefill(chunks(2, 4096))
	experts := r.Experts(true, 32*tokens, 1).Microseconds()
	// DeepEP normal kernels, EP32, unit test: 72 + 0.428 T and 149 + 0.840 T us.
	dispatch := CommStretch * (72 + 0.428*tokens)
	combine := CommStretch * (149 + 0.840*tokens)
	attention := (l.AttnIn + l.AttnOut).Microseconds()
	step := float64(r.MoELayers())*prefillPeriod(attention, l.Shared.Microseconds(), experts, dispatch, combine) +
		float64(r.DenseLayers())*2*(attention+l.DenseMLP.Microseconds()) +
		2*l.Head.Microseconds()
	return 2 * tokens / step * micro
}

// deepseekDecode is a step of 128 requests per GPU at EP128, in two
// micro-batches of 64, with query tokens and context each.
func deepseekDecode(t testing.TB, query, context int) (stepMicroseconds float64) {
	r := newTarget(t, "H800", "DeepSeek-V3", Setup{EP: 128})
	const requests = 64
	m := requests * query
	l := r.Decode(requests, int64(requests*context), query)
	experts := r.Experts(false, int64(128*m), 1).Microseconds()
	// DeepEP low latency, H800, EP128: 26 + 1.30 M and 24 + 2.70 M us, and the
	// launch of send and of receive. The 15 us of posting is compute.
	gap := 2 * r.gpu.Kernels.LaunchGap.Constants.T0.Microseconds()
	post := LowLatencySendReceive.Microseconds() * DefaultDerate
	dispatch := 26 + 1.30*float64(m) + gap
	combine := 24 + 2.70*float64(m) + gap
	perLayer := max(l.Shared.Microseconds()+l.AttnIn.Microseconds()+post, dispatch) + experts +
		max(l.AttnOut.Microseconds()+post, combine)
	dense := (l.AttnIn + l.AttnOut + l.DenseMLP).Microseconds()
	return 2 * (float64(r.MoELayers())*perLayer + float64(r.DenseLayers())*dense + l.Head.Microseconds())
}

func qwen30Prefill(t testing.TB) float64 {
	r := newTarget(t, "H20", "Qwen3-30B-A3B", Setup{})
	l := r.Prefill(chunks(4, 4096))
	layer := (l.AttnIn + l.AttnOut + r.Experts(true, 16384, 1)).Microseconds()
	return 16384 / (float64(r.MoELayers())*layer + l.Head.Microseconds()) * micro
}

func qwen30Decode(t testing.TB) float64 {
	r := newTarget(t, "H20", "Qwen3-30B-A3B", Setup{EP: 4, LocalPermute: true})
	l := r.Decode(100, 100*5120, 1)
	layer := (l.AttnIn + l.AttnOut + r.Experts(false, 400, 1)).Microseconds()
	// Two exchanges of 25 us and their launch gaps; the derate was fitted with
	// them inside.
	exchange := DefaultDerate * 2 * (25 + r.gpu.Kernels.LaunchGap.Constants.T0.Microseconds())
	return 100 / (float64(r.MoELayers())*(layer+exchange) + l.Head.Microseconds()) * micro
}

func qwen8Prefill(t testing.TB) float64 {
	r := newTarget(t, "H20", "Qwen3-8B", Setup{Weights: FP8})
	l := r.Prefill(chunks(4, 4096))
	layer := (l.AttnIn + l.AttnOut + l.DenseMLP).Microseconds()
	return 16384 / (float64(r.DenseLayers())*layer + l.Head.Microseconds()) * micro
}

func qwen8Decode(t testing.TB) float64 {
	r := newTarget(t, "H20", "Qwen3-8B", Setup{Weights: FP8})
	l := r.Decode(64, 64*5120, 1)
	layer := (l.AttnIn + l.AttnOut + l.DenseMLP).Microseconds()
	return 64 / (float64(r.DenseLayers())*layer + l.Head.Microseconds()) * micro
}

func TestMeasuredTargets(t *testing.T) {
	const acceptedPerStep = 1.6 // 2 query tokens, 60 % of the second accepted
	for _, target := range []struct {
		name            string
		measured, model float64
		got             float64
	}{
		{"DeepSeek-V3 prefill, H800", 7839, 7900, deepseekPrefill(t)},
		{"DeepSeek-V3 decode, H800", 2324.75, 2440, 128 * acceptedPerStep / deepseekDecode(t, 2, 4096) * micro},
		{"Qwen3-30B-A3B prefill, H20", 16594, 16773, qwen30Prefill(t)},
		{"Qwen3-30B-A3B decode, H20", 2749, 2733, qwen30Decode(t)},
		{"Qwen3-8B-FP8 prefill, H20", 15061, 15078, qwen8Prefill(t)},
		{"Qwen3-8B-FP8 decode, H20", 2682, 2651, qwen8Decode(t)},
	} {
		t.Run(target.name, func(t *testing.T) {
			t.Logf("%8.1f tokens/GPU/s: %+.2f %% of measured, %+.3f %% of the Python model",
				target.got, 100*(target.got/target.measured-1), 100*(target.got/target.model-1))
			require.InEpsilon(t, target.model, target.got, 0.005)
			require.InEpsilon(t, target.measured, target.got, 0.05)
		})
	}
}

// Read as one query token and a context of 4,989, the decode target cannot be
// reproduced, which the independent model says too. Dispatch is then hidden, so
// the 12 launch gaps of attention and shared expert show; it has 9.
func TestDecodeTargetNeedsTwoQueryTokens(t *testing.T) {
	require.InEpsilon(t, 2080, 128/deepseekDecode(t, 1, 4989)*micro, 0.01)
}
