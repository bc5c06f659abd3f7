package topology

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tgssim/tgssim/sim"
	"pgregory.net/rapid"
)

// wire builds any fabric: nicLeaf gives the leaf of each NIC, cables the pairs
// of switches that are joined, leaves numbered before spines.
func wire(leaves, spines int, nicLeaf []int, cables [][2]int) *Graph {
	b := newBuilder(0, 0)
	b.add(KindGPU, len(nicLeaf))
	b.add(KindNVSwitch, len(nicLeaf))
	b.add(KindNIC, len(nicLeaf))
	b.add(KindLeaf, leaves)
	b.add(KindSpine, spines)
	g := b.g
	g.gpusPerNode, g.nicsPerNode = 1, 1
	for nic, leaf := range nicLeaf {
		b.cable(g.first[KindNIC]+NodeID(nic), g.first[KindLeaf]+NodeID(leaf), 1, sim.Nanosecond, 0, 1)
	}
	for i, c := range cables {
		b.cable(g.first[KindLeaf]+NodeID(c[0]), g.first[KindLeaf]+NodeID(c[1]), 1, sim.Nanosecond, i, len(cables))
	}
	return b.finish()
}

// plainDistances is the number of links from each node to dst, by one
// breadth-first search over the whole graph; -1 where there is no way.
func plainDistances(g *Graph, dst NodeID) []int {
	dist := make([]int, len(g.Nodes))
	for i := range dist {
		dist[i] = -1
	}
	dist[dst] = 0
	for queue := []NodeID{dst}; len(queue) > 0; queue = queue[1:] {
		for _, l := range g.Out(queue[0]) {
			if to := g.Links[l].To; dist[to] < 0 {
				dist[to] = dist[queue[0]] + 1
				queue = append(queue, to)
			}
		}
	}
	return dist
}

// requireRoutes compares NextHops with its definition: the links whose far end
// is one closer to dst.
func requireRoutes(t require.TestingT, g *Graph) {
	for dst := g.first[KindNIC]; dst < g.first[KindNIC+1]; dst++ {
		dist := plainDistances(g, dst)
		for at := g.first[KindNIC]; at < NodeID(len(g.Nodes)); at++ {
			if g.Nodes[at].Kind == KindNIC && dist[at] < 0 {
				continue // on an island: a NIC may still send to its leaf
			}
			var want []LinkID
			for _, l := range g.Out(at) {
				if far := dist[g.Links[l].To]; far >= 0 && far == dist[at]-1 {
					want = append(want, l)
				}
			}
			if got := g.NextHops(at, dst); !slices.Equal(want, got) {
				require.Equal(t, want, got, "%s to %s", g.Nodes[at].Name, g.Nodes[dst].Name)
			}
		}
	}
}

// TestRoutesOfAnyFabric compares the folded table with the definition on random
// wirings: parallel links, leaves cabled to leaves, islands.
func TestRoutesOfAnyFabric(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		leaves, spines := rapid.IntRange(1, 6).Draw(t, "leaves"), rapid.IntRange(0, 6).Draw(t, "spines")
		n := leaves + spines
		nicLeaf := rapid.SliceOfN(rapid.IntRange(0, leaves-1), 1, 8).Draw(t, "nic leaf")
		pair := rapid.Custom(func(t *rapid.T) [2]int {
			a := rapid.IntRange(0, n-1).Draw(t, "a")
			return [2]int{a, (a + rapid.IntRange(1, max(n-1, 1)).Draw(t, "step")) % n}
		})
		var cables [][2]int
		for _, c := range rapid.SliceOfN(pair, 0, 16).Draw(t, "cables") {
			if c[0] != c[1] {
				cables = append(cables, c)
			}
		}
		g := wire(leaves, spines, nicLeaf, cables)
		requireRoutes(t, g)
	})
}

// TestRoutesOfClos compares them where all leaves are twins, and where the
// leaves of each pod of a three-tier fabric are.
func TestRoutesOfClos(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pods := rapid.IntRange(1, 3).Draw(t, "pods")
		perPod := rapid.IntRange(1, 3).Draw(t, "leaves per pod")
		aggs := rapid.IntRange(1, 2).Draw(t, "spines per pod")
		cores := rapid.IntRange(1, 3).Draw(t, "cores")
		par := rapid.IntRange(1, 2).Draw(t, "parallel")
		var cables [][2]int
		leaves := pods * perPod
		for range par {
			for pod := range pods {
				for a := range aggs {
					agg := leaves + pod*aggs + a
					for l := range perPod {
						cables = append(cables, [2]int{pod*perPod + l, agg})
					}
					for c := range cores {
						cables = append(cables, [2]int{agg, leaves + pods*aggs + c})
					}
				}
			}
		}
		nicLeaf := make([]int, leaves+1)
		for i := range leaves {
			nicLeaf[i] = i
		}
		g := wire(leaves, pods*aggs+cores, nicLeaf, cables)
		require.LessOrEqual(t, g.routes.classes, pods)
		requireRoutes(t, g)
		if pods > 1 {
			// Up: agg, core; down: agg, leaf. par links at each of the four steps.
			want := aggs * cores * aggs * par * par * par * par
			require.Len(t, g.Paths(g.first[KindNIC], g.first[KindNIC]+NodeID(leaves-1)), want)
		}
	})
}

func TestLeafSpineLeavesAreTwins(t *testing.T) {
	g, err := LeafSpine(DefaultConfig())
	require.NoError(t, err)
	require.Equal(t, 1, g.routes.classes)
	requireRoutes(t, g)
}

func TestUnreachable(t *testing.T) {
	g := wire(2, 0, []int{0, 1}, nil)
	require.Empty(t, g.Paths(g.NICOf(0), g.NICOf(1)))
	require.Empty(t, g.NextHops(g.LeafOf(g.NICOf(0)), g.NICOf(1)))
}
