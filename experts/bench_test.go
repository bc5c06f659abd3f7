package experts

import (
	"fmt"
	"testing"
)

// BenchmarkRoute gives the time of one layer of one step.
func BenchmarkRoute(b *testing.B) {
	ep128, ep32 := Packed(128, 8, 1), Packed(32, 8, 1)
	for _, c := range []struct {
		name    string
		shape   Shape
		cluster Cluster
		tokens  int
	}{
		{"v3-ep128-t128", deepSeek, ep128, 128},
		{"v3-ep32-t4096", deepSeek, ep32, 4096},
		{"qwen-ep32-t128", qwen, ep32, 128},
		// All tokens of EP128 as if they were one rank's: loads without pairs.
		{"v3-ep128-total", deepSeek, Cluster{GPUs: ep128.GPUs, Ranks: []int{0}}, 128 * 128},
	} {
		for _, counts := range Counts {
			for _, dedup := range []bool{false, true} {
				name := fmt.Sprintf("%s/%s/dedup=%v", c.name, counts, dedup)
				b.Run(name, func(b *testing.B) {
					r := newRouter(b, c.shape, c.cluster, 1, func(s *Setup) {
						s.Config.Counts, s.Deduplicate = counts, dedup
						s.Config.Popularity = zipf(0.5)
						s.Samples = 1 << 14
					})
					tokens := each(len(c.cluster.Ranks), c.tokens)
					var tr Traffic
					r.Route(0, tokens, &tr)
					b.ReportAllocs()
					for i := 0; b.Loop(); i++ {
						r.Route(i%c.shape.Layers, tokens, &tr)
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(tokens)), "ns/rank")
				})
			}
		}
	}
}

// BenchmarkNew gives the time to prepare 58 layers.
func BenchmarkNew(b *testing.B) {
	for _, counts := range Counts {
		b.Run(counts, func(b *testing.B) {
			for b.Loop() {
				newRouter(b, deepSeek, Packed(128, 8, 1), 1, func(s *Setup) {
					s.Config.Counts = counts
					s.Config.Popularity = zipf(0.5)
				})
			}
		})
	}
}
