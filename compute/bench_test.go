package compute

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// keep stops the compiler from dropping what is measured.
var keep LayerTimes

func benchmarkDecode(b *testing.B, gpu, model string, s Setup, requests int) {
	r := newTarget(b, gpu, model, s)
	r.Decode(requests, 1, 2)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		keep = r.Decode(requests, int64(requests*4096+i&1023), 2)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "steps/s")
}

func BenchmarkDecodeMLA(b *testing.B) { benchmarkDecode(b, "H800", "DeepSeek-V3", Setup{EP: 128}, 64) }
func BenchmarkDecodeGQA(b *testing.B) { benchmarkDecode(b, "H20", "Qwen3-8B", Setup{}, 64) }

func BenchmarkPrefillMLA(b *testing.B) {
	r := newTarget(b, "H800", "DeepSeek-V3", Setup{EP: 32, CommSMs: DefaultCommSMs})
	batch := chunks(4, 2048)
	batch[3].Context = 6144 // one of them continues a prompt
	keep = r.Prefill(batch)
	b.ReportAllocs()
	for b.Loop() {
		keep = r.Prefill(batch)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "steps/s")
}

func BenchmarkPrefillGQA(b *testing.B) {
	r := newTarget(b, "H20", "Qwen3-8B", Setup{})
	batch := chunks(16, 512)
	keep = r.Prefill(batch)
	b.ReportAllocs()
	for b.Loop() {
		keep = r.Prefill(batch)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "steps/s")
}

func BenchmarkExperts(b *testing.B) {
	r := newTarget(b, "H800", "DeepSeek-V3", Setup{EP: 128})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		keep.AttnIn = r.Experts(false, int64(16384+i&1023), 1.235)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "layers/s")
}

func BenchmarkNewRank(b *testing.B) {
	gpu, err := LoadProfile("H800")
	require.NoError(b, err)
	model, err := LoadModel("DeepSeek-V3")
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		_, err = NewRank(Setup{GPU: gpu, Model: model, EP: 32})
	}
	require.NoError(b, err)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ranks/s")
}

// The simulator evaluates layer times once per step and micro-batch, so they
// must not allocate once the token count has been seen.
func TestLayerTimesDoNotAllocate(t *testing.T) {
	r := newTarget(t, "H800", "DeepSeek-V3", Setup{EP: 32, CommSMs: DefaultCommSMs})
	batch := []Chunk{{2048, 0}, {1024, 4096}}
	r.Prefill(batch)
	r.Decode(64, 1, 2)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		keep = r.Prefill(batch)
		keep = r.Decode(64, 262144, 2)
		keep.AttnIn = r.Experts(true, 65536, 1.1)
	}))
}

func BenchmarkReadHuggingFace(b *testing.B) {
	data := hfText(b, "deepseek-v3")
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := ReadHuggingFace("config.json", data); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecodeWithWindow is a decode layer whose attention is timed twice,
// over the context and over the window.
func BenchmarkDecodeWithWindow(b *testing.B) {
	r := windowed(b, 128, 12)
	b.ReportAllocs()
	for b.Loop() {
		r.Decode(64, 64*4096, 1)
	}
}
