package compute

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/sim"
)

// The parts of DeepSeek-V3's layers on H800, in microseconds, as an independent
// implementation in Python adds them up from the same kernel lists.
func TestPartsOfDeepSeekLayers(t *testing.T) {
	same := func(want float64, got sim.Time) {
		t.Helper()
		require.InEpsilon(t, want, got.Microseconds(), 1e-6)
	}
	r := newTarget(t, "H800", "DeepSeek-V3", Setup{EP: 32, CommSMs: 24})
	l := r.Prefill(chunks(2, 4096))
	same(7055.334623488061, l.AttnIn+l.AttnOut)
	same(827.6981350835136, l.Shared)
	same(7047.252088199129, r.Experts(true, 32*8192, 1))

	r = newTarget(t, "H800", "DeepSeek-V3", Setup{EP: 128})
	l = r.Decode(64, 64*4096, 2)
	same(74.90212341143764, l.AttnIn)
	same(356.758560826906, l.AttnOut)
	same(37.85454354937371, l.Shared)
	same(111.42656797996426, r.Experts(false, 128*128, 1))
	same(184.71542309553195, l.DenseMLP)
	same(772.5918360278057, l.Head)
}

// The parts of Qwen3's layers on H20, likewise. Its byte counts of element-wise
// kernels are lumped differently, so a layer is compared as a whole.
func TestPartsOfQwenLayers(t *testing.T) {
	same := func(want float64, got sim.Time, epsilon float64) {
		t.Helper()
		require.InEpsilon(t, want, got.Microseconds(), epsilon)
	}
	r := newTarget(t, "H20", "Qwen3-30B-A3B", Setup{Derate: 1})
	l := r.Prefill(chunks(4, 4096))
	same(19374.409, l.AttnIn+l.AttnOut+r.Experts(true, 16384, 1), 0.001)
	require.Zero(t, l.Shared)
	require.Zero(t, l.DenseMLP)

	r = newTarget(t, "H20", "Qwen3-30B-A3B", Setup{Derate: 1, EP: 4, LocalPermute: true})
	l = r.Decode(100, 512000, 1)
	// Two of its 20 launches are of the exchanges, which are no part of this.
	same(713.194-50-2, l.AttnIn+l.AttnOut+r.Experts(false, 400, 1), 0.003)
	same(651.482398, l.Head, 1e-6)

	r = newTarget(t, "H20", "Qwen3-8B", Setup{Derate: 1, Weights: FP8})
	l = r.Prefill(chunks(4, 4096))
	same(28729.352, l.AttnIn+l.AttnOut+l.DenseMLP, 0.001)
	l = r.Decode(64, 64*5120, 1)
	same(621.0347, l.AttnIn+l.AttnOut+l.DenseMLP, 0.002)
	same(668.179821, l.Head, 1e-6)
	require.Zero(t, l.Shared)
	require.Zero(t, r.Experts(true, 100, 1))
}

// ranks is a spread of setups to hold general properties against.
func ranks(t *testing.T) map[string]*Rank {
	all := map[string]*Rank{}
	add := func(name, gpu, model string, s Setup) { all[name] = newTarget(t, gpu, model, s) }
	add("deepseek tp1", "H800", "DeepSeek-V3", Setup{EP: 32, CommSMs: 24})
	add("deepseek tp4", "H800", "DeepSeek-R1", Setup{TP: 4, EP: 32, KV: FP8})
	add("qwen30 h20", "H20", "Qwen3-30B-A3B", Setup{})
	add("qwen30 permute", "H20", "Qwen3-30B-A3B", Setup{TP: 2, EP: 4, LocalPermute: true, Weights: FP8})
	add("qwen235", "H800", "Qwen3-235B-A22B", Setup{EP: 16})
	add("qwen8", "H20", "Qwen3-8B", Setup{Weights: FP8, KV: FP8})
	add("llama70", "H800", "Llama-3.1-70B", Setup{TP: 8})
	add("llama8", "H800", "Llama-3.1-8B", Setup{})
	add("mixtral", "H800", "Mixtral-8x7B", Setup{EP: 8})
	add("gpt-oss", "H800", "gpt-oss-120b", Setup{TP: 2, EP: 4})
	add("glm", "H20", "GLM-4.5-Air", Setup{EP: 8, KV: FP8})
	add("lite", "H20", "DeepSeek-V2-Lite", Setup{EP: 2})
	add("kimi", "H20", "Kimi-K2", Setup{TP: 2, EP: 32})
	return all
}

func (l LayerTimes) atLeast(o LayerTimes) bool {
	return l.AttnIn >= o.AttnIn && l.AttnOut >= o.AttnOut && l.Shared >= o.Shared &&
		l.DenseMLP >= o.DenseMLP && l.Head >= o.Head
}

func TestMoreWorkTakesLonger(t *testing.T) {
	for name, r := range ranks(t) {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			n := func(label string, top int) int {
				return rapid.IntRange(0, top>>rapid.IntRange(0, 8).Draw(t, "shift")).Draw(t, label)
			}
			requests, kv, query := 1+n("requests", 512), n("kv", 1<<22), 1+n("query", 3)
			less := r.Decode(requests, int64(kv), query)
			more := r.Decode(requests+n("more requests", 64), int64(kv+n("more kv", 1<<20)), query+n("more query", 2))
			if !more.atLeast(less) {
				t.Fatalf("decode: %v, then %v", less, more)
			}

			var batch []Chunk
			for range 1 + n("chunks", 4) {
				batch = append(batch, Chunk{1 + n("tokens", 4096), n("context", 1<<15)})
			}
			first := r.Prefill(batch)
			i := rapid.IntRange(0, len(batch)-1).Draw(t, "which")
			batch[i].Tokens += n("more tokens", 1024)
			batch[i].Context += n("more context", 1<<14)
			if then := r.Prefill(batch); !then.atLeast(first) {
				t.Fatalf("prefill: %v, then %v", first, then)
			}
			if then := r.Prefill(append(batch, Chunk{Tokens: 1})); !then.atLeast(first) {
				t.Fatalf("prefill: %v, then %v with one chunk more", first, then)
			}

			prefill := rapid.Bool().Draw(t, "prefill")
			tokens, imbalance := int64(n("group tokens", 1<<18)), 1+float64(n("imbalance", 100))/100
			few := r.Experts(prefill, tokens, imbalance)
			many := r.Experts(prefill, tokens+int64(n("more group tokens", 1<<12)), imbalance+float64(n("more imbalance", 100))/100)
			if many < few {
				t.Fatalf("experts: %v, then %v", few, many)
			}
		}))
	}
}

// Remembered times are those of a rank that has seen nothing yet.
func TestMemoryOfTimesIsTransparent(t *testing.T) {
	used := ranks(t)
	for _, tokens := range []int{1, 7, 255, 256, 257, 4096, 300, memoLimit - 1, memoLimit, memoLimit + 1, 2 * memoLimit} {
		for name, fresh := range ranks(t) {
			for range 2 {
				require.Equal(t, fresh.Decode(tokens, 1e6, 1), used[name].Decode(tokens, 1e6, 1), "%s, %d tokens", name, tokens)
				require.Equal(t, fresh.Prefill(chunks(1, tokens)), used[name].Prefill(chunks(1, tokens)), "%s, %d tokens", name, tokens)
			}
		}
	}
}

func TestNothingTakesNoTime(t *testing.T) {
	for name, r := range ranks(t) {
		require.Zero(t, r.Prefill(nil), name)
		require.Zero(t, r.Prefill([]Chunk{{0, 100}, {-5, 0}}), name)
		require.Zero(t, r.Decode(0, 100, 1), name)
		require.Zero(t, r.Decode(-1, 100, 1), name)
		require.Zero(t, r.Experts(true, 0, 1), name)
		require.Zero(t, r.Experts(false, -1, 1), name)
		require.NotPanics(t, func() {
			r.Decode(math.MaxInt, math.MaxInt64, math.MaxInt)
			r.Prefill([]Chunk{{math.MaxInt, math.MaxInt}, {math.MaxInt, 1}})
			r.Experts(true, math.MaxInt64, math.Inf(1))
		}, name)
		// Out of range, but with a plain meaning.
		require.Equal(t, r.Decode(8, 0, 1), r.Decode(8, -100, 0), name)
		require.Equal(t, r.Prefill([]Chunk{{64, 0}}), r.Prefill([]Chunk{{64, -1}, {0, 0}}), name)
		require.Equal(t, r.Experts(false, 64, 1), r.Experts(false, 64, math.NaN()), name)
		require.Equal(t, r.Experts(false, 64, 1), r.Experts(false, 64, 0), name)
	}
}

// Cutting a prompt into chunks does not create or lose attention work: the pairs
// of query and key tokens are the same, except for the constants per token.
func TestChunksCoverThePrompt(t *testing.T) {
	var whole, cut prefillBatch
	whole.add(8192, 0)
	for at := 0.0; at < 8192; at += 1024 {
		cut.add(1024, at)
	}
	require.Equal(t, whole.pairs, cut.pairs)
	require.Equal(t, whole.tokens, cut.tokens)

	// GQA reads the context's KV; MLA must also project it up again, so that
	// cutting costs it more.
	for name, r := range map[string]*Rank{
		"gqa": newTarget(t, "H800", "Llama-3.1-8B", Setup{}),
		"mla": newTarget(t, "H800", "DeepSeek-V3", Setup{EP: 32}),
	} {
		one := r.Prefill([]Chunk{{8192, 0}}).AttnOut
		var cut sim.Time
		for at := 0; at < 8192; at += 1024 {
			cut += r.Prefill([]Chunk{{1024, at}}).AttnOut
		}
		require.Greater(t, cut, one, name)
		require.Less(t, cut, 2*one, name)
	}
}

// A few new tokens behind a long context cannot be faster than reading its KV.
func TestShortChunkReadsItsContext(t *testing.T) {
	r := newTarget(t, "H800", "Llama-3.1-8B", Setup{Derate: 1})
	empty := r.Prefill([]Chunk{{1, 0}}).AttnOut
	long := r.Prefill([]Chunk{{1, 1 << 20}}).AttnOut
	kv := float64(r.Memory().KVPerToken) / 32 * (1 << 20)
	require.GreaterOrEqual(t, (long - empty).Seconds(), kv/3.35e12*0.999)
}

// More TP never makes a GPU slower, and halves at most.
func TestTensorParallelSplitsTheWork(t *testing.T) {
	gpu := "H20"
	for _, model := range []string{"Qwen3-8B", "Llama-3.1-8B"} {
		last := newTarget(t, gpu, model, Setup{})
		for _, tp := range []int{2, 4, 8, 16} {
			r := newTarget(t, gpu, model, Setup{TP: tp})
			a, b := last.Decode(64, 64*4096, 1), r.Decode(64, 64*4096, 1)
			require.True(t, a.atLeast(b), "%s TP%d: %v, then %v", model, tp, a, b)
			require.Greater(t, 2*b.DenseMLP, a.DenseMLP)
			p, q := last.Prefill(chunks(2, 4096)), r.Prefill(chunks(2, 4096))
			require.True(t, p.atLeast(q), "%s TP%d: %v, then %v", model, tp, p, q)
			last = r
		}
	}
}

// One token of a model with 128 experts reads top_k of them, not all; with many
// tokens every expert is read once.
func TestFewTokensReadFewExperts(t *testing.T) {
	r := newTarget(t, "H800", "Qwen3-30B-A3B", Setup{Derate: 1})
	read := func(tokens int64) float64 { // microseconds beyond the fixed costs
		k := &r.gpu.Kernels
		fixed := 2*k.GroupedMasked.Constants.T0.Microseconds() + 4*k.Elementwise.Constants.T0.Microseconds() +
			6*k.LaunchGap.Constants.T0.Microseconds()
		return r.Experts(false, tokens, 1).Microseconds() - fixed
	}
	const expertBytes = 3 * 2048 * 768 * 2
	hbm := 3.35e12 * 0.8494 / 1e6 // bytes per microsecond
	require.InEpsilon(t, 8*expertBytes/hbm, read(1), 0.2)
	require.InEpsilon(t, 128*expertBytes/hbm, read(400), 0.2)
	require.InEpsilon(t, 2, read(2)/read(1), 0.07)
}

func TestPower(t *testing.T) {
	require.Equal(t, 1.0, power(0.5, 0))
	require.Equal(t, 0.0, power(0, 3))
	require.Equal(t, 1024.0, power(2, 10))
	rapid.Check(t, func(t *rapid.T) {
		x, n := rapid.Float64Range(0, 1).Draw(t, "x"), rapid.Int64Range(0, 1<<20).Draw(t, "n")
		if got, want := power(x, n), math.Pow(x, float64(n)); math.Abs(got-want) > 1e-9*want+1e-300 {
			t.Fatalf("%v^%d = %v, not %v", x, n, got, want)
		}
	})
}
