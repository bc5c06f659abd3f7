package topology_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tgssim/tgssim/topology"
)

// sized is a cluster of 8-GPU servers, one leaf per server, as many leaves as
// a leaf-spine can have: the worst case for the routing table.
func sized(gpus int) topology.Config {
	c := topology.DefaultConfig()
	c.Nodes, c.Leaves = gpus/8, gpus/8
	return c
}

// heapBytes is what a graph holds, links and names included.
func heapBytes(t require.TestingT, c topology.Config) (*topology.Graph, uint64) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	g := build(t, c)
	runtime.GC()
	runtime.ReadMemStats(&after)
	return g, after.HeapAlloc - before.HeapAlloc
}

// TestMemory keeps the graph linear in the GPUs: a dense routing table alone
// would take 1 KB per GPU at 8,192 and 8 KB at 65,536.
func TestMemory(t *testing.T) {
	for _, gpus := range []int{8192, 65536} {
		g, bytes := heapBytes(t, sized(gpus))
		require.Less(t, bytes/uint64(gpus), uint64(700), "%d GPUs", gpus)
		runtime.KeepAlive(g)
	}
}

func BenchmarkLeafSpine(b *testing.B) {
	for _, gpus := range []int{16, 128, 1024, 8192} {
		b.Run(fmt.Sprintf("gpus=%d", gpus), func(b *testing.B) {
			c := sized(gpus)
			g, bytes := heapBytes(b, c)
			b.ReportAllocs()
			for b.Loop() {
				build(b, c)
			}
			b.ReportMetric(float64(bytes)/float64(gpus), "B/GPU")
			runtime.KeepAlive(g)
		})
	}
}

func BenchmarkNextHops(b *testing.B) {
	g := build(b, sized(8192))
	leaf := g.LeafOf(g.NICOf(0))
	b.ReportAllocs()
	total, i := 0, 0
	for b.Loop() {
		dst := g.NICOf(topology.GPU(8 + i*4099%8184))
		total += len(g.NextHops(leaf, dst))
		i++
	}
	_ = total
}
