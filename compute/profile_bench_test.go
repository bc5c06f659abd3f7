package compute

import "testing"

// BenchmarkLayer is one layer's times: remembered by token count, with only the
// attention core computed anew, and cold, every kernel of it.
func BenchmarkLayer(b *testing.B) {
	for _, c := range []struct {
		name string
		cold bool
	}{{"remembered", false}, {"cold", true}} {
		b.Run(c.name, func(b *testing.B) {
			r := newTarget(b, "H800", "DeepSeek-V3", Setup{EP: 128})
			keep = r.Decode(64, 1, 2)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if c.cold {
					r.decode.values[128], r.head.values[128] = layerTimes{}, 0
				}
				keep = r.Decode(64, int64(64*4096+i&1023), 2)
			}
		})
	}
}

// BenchmarkDecodeStep is a decode step of one rank in two micro-batches: as
// serving asks for it, with the experts of one layer standing for all (the busiest
// GPU's and the mean), remembered and cold.
func BenchmarkDecodeStep(b *testing.B) {
	for _, c := range []struct {
		name string
		cold bool
	}{{"remembered", false}, {"cold", true}} {
		b.Run(c.name, func(b *testing.B) {
			r := newTarget(b, "H800", "DeepSeek-V3", Setup{EP: 128})
			keep = r.Decode(64, 1, 2)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				for range 2 {
					if c.cold {
						r.decode.values[128], r.head.values[128] = layerTimes{}, 0
					}
					keep = r.Decode(64, int64(64*4096+i&1023), 2)
					keep.Shared += r.Experts(false, int64(16384+i&1023), 1.235)
					keep.Shared += r.Experts(false, int64(16384+i&1023), 1)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "steps/s")
		})
	}
}

// BenchmarkKernelTime is one evaluation of a closed form.
func BenchmarkKernelTime(b *testing.B) {
	p, err := LoadProfile("H800")
	if err != nil {
		b.Fatal(err)
	}
	k := Kernel{Class: "gemm_fp8", M: 128, K: 7168, N: 4096}
	var us float64
	b.ReportAllocs()
	for b.Loop() {
		us += p.KernelTime(&k)
	}
	_ = us
}

func BenchmarkOpenGPUAndModel(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := LoadProfile("h800"); err != nil {
			b.Fatal(err)
		}
		if _, err := LoadModel("deepseek-v3"); err != nil {
			b.Fatal(err)
		}
	}
}
