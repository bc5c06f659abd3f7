package routing

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/topology"
	"github.com/tgssim/tgssim/topology/topologytest"
	"pgregory.net/rapid"
)

func build(t require.TestingT, c topology.Config) *topology.Graph {
	g, err := topology.LeafSpine(c)
	require.NoError(t, err)
	return g
}

// TestPathIsAShortestPath holds every path to the set that the topology lists.
func TestPathIsAShortestPath(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := build(t, topologytest.Config(t))
		e := NewECMP(g, rapid.Uint64().Draw(t, "seed"))
		gpu := rapid.IntRange(0, g.GPUs()-1)
		var buf []topology.LinkID
		for range 8 {
			src, dst := topology.GPU(gpu.Draw(t, "src")), topology.GPU(gpu.Draw(t, "dst"))
			k := RoCE(uint32(src), uint32(dst), rapid.Uint32().Draw(t, "qp"))
			buf = e.Path(src, dst, k, buf)
			if src == dst {
				require.Empty(t, buf)
				continue
			}
			require.Contains(t, g.Paths(g.GPUNode(src), g.GPUNode(dst)), buf)
			require.Equal(t, buf, NewECMP(g, 0).withSeedsOf(e).Path(src, dst, k, nil), "nothing but seeds matters")
			if g.ServerOf(src) != g.ServerOf(dst) {
				at := g.NICOf(src)
				for _, l := range buf {
					require.Equal(t, l, e.Next(at, g.NICOf(dst), k))
					at = g.Links[l].To
				}
				require.Equal(t, topology.NoLink, e.Next(at, g.NICOf(dst), k))
			}
		}
	})
}

func (e *ECMP) withSeedsOf(other *ECMP) *ECMP {
	e.seeds = other.seeds
	return e
}

// tiered has 16 uplinks per leaf to 4 spines, so that leaf and spine both
// choose: one of 16 up, one of 4 down.
func tiered(t require.TestingT) *topology.Graph {
	c := topology.DefaultConfig()
	c.LinkRate, c.Spines = 200*units.Gbps, 4
	return build(t, c)
}

func TestEveryPathIsTaken(t *testing.T) {
	g := tiered(t)
	all := g.Paths(g.GPUNode(0), g.GPUNode(8))
	require.Len(t, all, 64)
	taken := map[string]int{}
	for seed := range uint64(2000) {
		taken[fmt.Sprint(NewECMP(g, seed).Path(0, 8, RoCE(0, 8, 0), nil))]++
	}
	counts := make([]int, len(all))
	for i, p := range all {
		counts[i] = taken[fmt.Sprint(p)]
		require.Positive(t, counts[i], "path %d", i)
	}
	x, limit := chiSquare(counts)
	require.Less(t, x, limit, "paths are equally likely over seeds")
}

// downChoices counts, for flows from leaf 0 to leaf 1, which parallel link each
// spine takes, spine by spine.
func downChoices(g *topology.Graph, e *ECMP) [][]int {
	counts := make([][]int, g.Spines())
	for i := range counts {
		counts[i] = make([]int, 4)
	}
	for qp := range uint32(4096) {
		path := e.Path(0, 8, RoCE(0, 8, qp), nil)
		down := g.Links[path[2]]
		for i, l := range g.LinksBetween(down.From, down.To) {
			if l == path[2] {
				counts[g.Nodes[down.From].Index][i]++
			}
		}
	}
	return counts
}

// TestNoPolarisation: flows that one tier sent the same way must spread again at
// the next. With one seed everywhere they do not.
func TestNoPolarisation(t *testing.T) {
	g := tiered(t)
	for seed := range uint64(20) {
		for spine, counts := range downChoices(g, NewECMP(g, seed)) {
			x, limit := chiSquare(counts)
			require.Less(t, x, 1.5*limit, "spine %d, seed %d: %v", spine, seed, counts)
		}
		alike := newECMP(g, func(int) uint64 { return seed })
		for spine, counts := range downChoices(g, alike) {
			x, limit := chiSquare(counts)
			require.Greater(t, x, 10*limit, "spine %d, seed %d: %v are not polarised; does the test see anything?", spine, seed, counts)
		}
	}
}

func TestEverySwitchHasItsSeed(t *testing.T) {
	seen := map[uint64]bool{}
	c := topology.DefaultConfig()
	c.Nodes, c.Leaves = 1024, 1024
	g := build(t, c)
	for seed := range uint64(8) {
		e := NewECMP(g, seed)
		require.Len(t, e.seeds, 1024+8)
		for _, s := range e.seeds {
			require.False(t, seen[s])
			seen[s] = true
		}
	}
}

// maxLoad is the exact distribution of the fullest of n bins after m balls:
// P(max <= k) = m!/n^m [x^m] (sum of x^i/i! for i <= k)^n. It returns the mean
// and the standard deviation.
func maxLoad(m, n int) (mean, sd float64) {
	prev, second := 0.0, 0.0
	for k := 1; k <= m; k++ {
		// Coefficients of the power, by repeated multiplication.
		poly := make([]float64, m+1)
		poly[0] = 1
		for range n {
			next := make([]float64, m+1)
			for i := range poly {
				for j := 0; j <= k && i+j <= m; j++ {
					next[i+j] += poly[i] / math.Gamma(float64(j+1))
				}
			}
			poly = next
		}
		logScale, _ := math.Lgamma(float64(m + 1))
		p := poly[m] * math.Exp(logScale-float64(m)*math.Log(float64(n)))
		mean += float64(k) * (p - prev)
		second += float64(k*k) * (p - prev)
		prev = p
	}
	return mean, math.Sqrt(second - mean*mean)
}

// collide sends the given number of QPs from each GPU of leaf 0 to its
// counterpart under leaf 1, and returns the load of each uplink of leaf 0.
func collide(g *topology.Graph, e *ECMP, flows, qps int) []int {
	uplinks := g.NextHops(g.LeafOf(g.NICOf(0)), g.NICOf(topology.GPU(flows)))
	load := make([]int, len(uplinks))
	var buf []topology.LinkID
	for i := range flows {
		src, dst := topology.GPU(i), topology.GPU(flows+i)
		for qp := range qps {
			buf = e.Path(src, dst, RoCE(uint32(src), uint32(dst), uint32(qp)), buf)
			for u, l := range uplinks {
				if l == buf[1] {
					load[u]++
				}
			}
		}
	}
	return load
}

// TestBallsInBins compares the collisions of a permutation between two leaves
// with the exact law of balls in bins.
func TestBallsInBins(t *testing.T) {
	const seeds = 1000
	for _, c := range []struct {
		flows, qps int
		overEven   float64 // mean of the fullest link over the mean link
	}{
		{4, 1, 2.13}, {8, 1, 2.60}, {16, 1, 3.08},
		{8, 2, 2.10}, {8, 4, 1.76}, {8, 8, 1.53}, // the gain of more QPs per flow
	} {
		cfg := topology.DefaultConfig()
		cfg.Nodes, cfg.GPUsPerNode, cfg.NICsPerNode = 2, c.flows, c.flows
		cfg.Leaves, cfg.Spines = 2, c.flows
		g := build(t, cfg)
		mean, sd := maxLoad(c.flows*c.qps, c.flows)
		require.InDelta(t, c.overEven, mean/float64(c.qps), 0.006, "the closed form itself")

		sum := 0
		for seed := range uint64(seeds) {
			fullest := 0
			for _, n := range collide(g, NewECMP(g, seed), c.flows, c.qps) {
				fullest = max(fullest, n)
			}
			sum += fullest
		}
		got := float64(sum) / seeds
		t.Logf("%d flows x %d QPs on %d uplinks: mean max load %.3f, exact %.3f", c.flows, c.qps, c.flows, got, mean)
		require.InDelta(t, mean, got, 3*sd/math.Sqrt(seeds))
	}
}

// TestCollisionsOfEight: 8 flows on 8 uplinks miss each other with probability
// 8!/8^8 = 0.24 %, and use 1-(7/8)^8 = 65.6 % of the links.
func TestCollisionsOfEight(t *testing.T) {
	const seeds = 40000
	c := topology.DefaultConfig()
	c.Nodes, c.Leaves = 2, 2
	g := build(t, c)
	free, used := 0, 0
	for seed := range uint64(seeds) {
		n := 0
		for _, load := range collide(g, NewECMP(g, seed), 8, 1) {
			n += min(load, 1)
		}
		used += n
		if n == 8 {
			free++
		}
	}
	p := 40320. / (1 << 24)
	require.InDelta(t, 0.0024, p, 0.00001)
	t.Logf("no collision %.4f %%, exact %.4f %%; links used %.2f %%", 100*float64(free)/seeds, 100*p, 100*float64(used)/seeds/8)
	require.InDelta(t, p, float64(free)/seeds, 3*math.Sqrt(p*(1-p)/seeds))
	require.InDelta(t, 1-math.Pow(7./8, 8), float64(used)/seeds/8, 0.002)
}

func TestPathReusesTheBuffer(t *testing.T) {
	g := build(t, topology.DefaultConfig())
	e := NewECMP(g, 1)
	buf := make([]topology.LinkID, 0, 4)
	for _, dst := range []topology.GPU{0, 1, 8, 127} {
		require.Zero(t, testing.AllocsPerRun(100, func() {
			buf = e.Path(0, dst, RoCE(0, uint32(dst), 3), buf)
		}))
	}
	first := e.Path(0, 8, RoCE(0, 8, 3), nil)
	require.Equal(t, first, e.Path(0, 8, RoCE(0, 8, 3), e.Path(0, 1, FlowKey{}, buf)), "what was in the buffer is gone")
}

func TestServerWithoutNICs(t *testing.T) {
	c := topology.DefaultConfig()
	c.Nodes, c.NICsPerNode, c.Leaves, c.Spines = 1, 0, 0, 0
	g := build(t, c)
	path := NewECMP(g, 1).Path(2, 5, FlowKey{}, nil)
	require.Len(t, path, 2)
	require.Equal(t, "gpu2>nvswitch0", g.Links[path[0]].Name)
	require.Equal(t, "nvswitch0>gpu5", g.Links[path[1]].Name)
}

func BenchmarkPath(b *testing.B) {
	for _, gpus := range []int{128, 8192} {
		b.Run(fmt.Sprintf("gpus=%d", gpus), func(b *testing.B) {
			c := topology.DefaultConfig()
			c.Nodes, c.Leaves = gpus/8, gpus/8
			g := build(b, c)
			e := NewECMP(g, 1)
			buf := make([]topology.LinkID, 0, 4)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				src, dst := topology.GPU(i%gpus), topology.GPU((i*4099+8)%gpus)
				buf = e.Path(src, dst, RoCE(uint32(src), uint32(dst), 0), buf)
				i++
			}
		})
	}
}
