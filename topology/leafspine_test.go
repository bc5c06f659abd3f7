package topology_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
	"github.com/tgssim/tgssim/topology/topologytest"
	"pgregory.net/rapid"
)

func build(t require.TestingT, c topology.Config) *topology.Graph {
	g, err := topology.LeafSpine(c)
	require.NoError(t, err)
	return g
}

// names writes a path as the names of its links.
func names(g *topology.Graph, path []topology.LinkID) string {
	words := make([]string, len(path))
	for i, l := range path {
		words[i] = g.Links[l].Name
	}
	return strings.Join(words, " ")
}

func pathNames(g *topology.Graph, src, dst topology.NodeID) []string {
	var all []string
	for _, p := range g.Paths(src, dst) {
		all = append(all, names(g, p))
	}
	return all
}

// small is 4 servers of 4 GPUs and 2 NICs under 2 leaves and 2 spines, with 4
// uplinks per leaf.
func small() topology.Config {
	c := topology.DefaultConfig()
	c.Nodes, c.GPUsPerNode, c.NICsPerNode = 4, 4, 2
	c.Leaves, c.Spines = 2, 2
	return c
}

func TestPackedByHand(t *testing.T) {
	g := build(t, small())
	require.Equal(t, 16, g.GPUs())
	require.Equal(t, 4, g.Servers())
	require.Equal(t, 8, g.NICs())
	// 16 GPU cables, 8 NIC cables, 2x4 uplinks, two links each.
	require.Len(t, g.Links, 2*(16+8+8))
	require.Equal(t, "16 GPUs, 8 NICs in 4 servers; 2 leaves, 2 spines, 4 uplinks per leaf, oversubscription 1:1, bisection 1600Gbps", g.Summary())

	require.Equal(t, 2, g.ServerOf(11))
	require.Equal(t, 3, g.LocalIndex(11))
	require.Equal(t, topology.GPU(11), g.GPUAt(2, 3))
	name := func(n topology.NodeID) string { return g.Nodes[n].Name }
	require.Equal(t, "gpu11", name(g.GPUNode(11)))
	require.Equal(t, "nvswitch2", name(g.NVSwitchOf(2)))
	for gpu, nic := range []string{"nic0", "nic0", "nic1", "nic1", "nic2", "nic2", "nic3", "nic3", "nic4"} {
		require.Equal(t, nic, name(g.NICOf(topology.GPU(gpu))))
	}
	for gpu, leaf := range map[topology.GPU]string{0: "leaf0", 3: "leaf0", 4: "leaf0", 7: "leaf0", 8: "leaf1", 15: "leaf1"} {
		require.Equal(t, leaf, name(g.LeafOf(g.NICOf(gpu))))
	}

	require.Equal(t, []string{"gpu0>nvswitch0 nvswitch0>gpu3"}, pathNames(g, g.GPUNode(0), g.GPUNode(3)))
	require.Equal(t, []string{"nic1>leaf0 leaf0>nic3"}, pathNames(g, g.GPUNode(3), g.GPUNode(6)))
	require.Equal(t, []string{
		"nic0>leaf0 leaf0>spine0#0 spine0>leaf1#0 leaf1>nic7",
		"nic0>leaf0 leaf0>spine0#0 spine0>leaf1#1 leaf1>nic7",
		"nic0>leaf0 leaf0>spine0#1 spine0>leaf1#0 leaf1>nic7",
		"nic0>leaf0 leaf0>spine0#1 spine0>leaf1#1 leaf1>nic7",
		"nic0>leaf0 leaf0>spine1#0 spine1>leaf1#0 leaf1>nic7",
		"nic0>leaf0 leaf0>spine1#0 spine1>leaf1#1 leaf1>nic7",
		"nic0>leaf0 leaf0>spine1#1 spine1>leaf1#0 leaf1>nic7",
		"nic0>leaf0 leaf0>spine1#1 spine1>leaf1#1 leaf1>nic7",
	}, pathNames(g, g.GPUNode(1), g.GPUNode(15)))
	require.Equal(t, []string{""}, pathNames(g, g.GPUNode(1), g.GPUNode(1)))
	require.Empty(t, g.Paths(g.GPUNode(0), g.NICOf(0)), "there is no cable between a GPU and a NIC")
	require.Equal(t, "leaf0>spine1#0 leaf0>spine1#1",
		names(g, g.LinksBetween(g.LeafOf(g.NICOf(0)), topology.NodeID(len(g.Nodes)-1))))
	require.Empty(t, g.LinksBetween(g.NICOf(0), g.NICOf(4)))
}

func TestRailByHand(t *testing.T) {
	c := small()
	c.Wiring, c.Leaves = topology.WiringRail, 4
	g := build(t, c)
	// Two blocks of two servers; block b has leaves 2b (rail 0) and 2b+1 (rail 1).
	var leaves []string
	for server := range 4 {
		for _, local := range []int{0, 2} {
			leaves = append(leaves, g.Nodes[g.LeafOf(g.NICOf(g.GPUAt(server, local)))].Name)
		}
	}
	require.Equal(t, []string{"leaf0", "leaf1", "leaf0", "leaf1", "leaf2", "leaf3", "leaf2", "leaf3"}, leaves)
	require.Equal(t, []string{"nic0>leaf0 leaf0>nic2"}, pathNames(g, g.GPUNode(0), g.GPUNode(4)), "same rail, same block")
	require.Equal(t, []string{
		"nic0>leaf0 leaf0>spine0 spine0>leaf1 leaf1>nic3",
		"nic0>leaf0 leaf0>spine1 spine1>leaf1 leaf1>nic3",
	}, pathNames(g, g.GPUNode(0), g.GPUNode(6)), "other rail, same block")
	require.Len(t, g.Paths(g.GPUNode(0), g.GPUNode(8)), 2, "same rail, other block")
}

func TestSingleServerWithoutNetwork(t *testing.T) {
	for _, nics := range []int{0, 8} {
		c := topology.DefaultConfig()
		c.Nodes, c.NICsPerNode, c.Leaves, c.Spines = 1, nics, 0, 0
		c.NICRate, c.LinkRate, c.Oversubscription = 0, 0, 0
		g := build(t, c)
		require.Len(t, g.Links, 16)
		require.Equal(t, []string{"gpu2>nvswitch0 nvswitch0>gpu7"}, pathNames(g, g.GPUNode(2), g.GPUNode(7)))
		require.Zero(t, g.BisectionRate())
		if nics == 0 {
			require.Equal(t, topology.NoNode, g.NICOf(0))
			require.Equal(t, "8 GPUs, 0 NICs in 1 server, NVLink only", g.Summary())
		} else {
			require.Equal(t, topology.NoNode, g.LeafOf(g.NICOf(0)), "the NIC has no cable")
			require.Empty(t, g.NextHops(g.NICOf(0), g.NICOf(1)))
			require.Empty(t, g.Paths(g.NICOf(0), g.NICOf(1)))
		}
	}
}

func TestOneLeafNeedsNoSpine(t *testing.T) {
	c := small()
	c.Leaves, c.Spines, c.LinkRate = 1, 0, 0
	g := build(t, c)
	require.Equal(t, []string{"nic0>leaf0 leaf0>nic7"}, pathNames(g, g.GPUNode(0), g.GPUNode(15)))
	require.Equal(t, "16 GPUs, 8 NICs in 4 servers; 1 leaf, 0 spines, bisection 1600Gbps", g.Summary())
}

// TestDefaultLatencies holds the defaults to the 64 B latencies that DeepSeek
// measured (arXiv 2505.09343, table 5), serialisation at each hop included.
func TestDefaultLatencies(t *testing.T) {
	c := topology.DefaultConfig()
	c.Leaves = 8 // two servers under each
	g := build(t, c)
	latency := func(src, dst topology.GPU, wire units.Bytes) float64 {
		path := g.Paths(g.GPUNode(src), g.GPUNode(dst))[0]
		total := g.PathLatency(path)
		for _, l := range path {
			total += g.Links[l].Rate.Time(wire)
		}
		return total.Microseconds()
	}
	const frame = 64 + 82 // RoCEv2 over Ethernet, preamble and gap included
	require.InEpsilon(t, 3.6, latency(0, 8, frame), 0.005, "RoCE, same leaf")
	require.InEpsilon(t, 5.6, latency(0, 16, frame), 0.005, "RoCE, across leaves")
	require.InEpsilon(t, 3.33, latency(0, 1, 64), 0.005, "NVLink")
}

func TestPathLatencyByHand(t *testing.T) {
	c := small()
	c.NVLinkDelay, c.LinkDelay, c.SwitchLatency, c.NICLatency = 1, 10, 100, 1000
	g := build(t, c)
	require.Equal(t, sim.Time(2), g.PathLatency(g.Paths(g.GPUNode(0), g.GPUNode(1))[0]))
	require.Equal(t, sim.Time(2*1000+2*10+100), g.PathLatency(g.Paths(g.GPUNode(0), g.GPUNode(4))[0]))
	require.Equal(t, sim.Time(2*1000+4*10+3*100), g.PathLatency(g.Paths(g.GPUNode(0), g.GPUNode(8))[0]))
	require.Zero(t, g.PathLatency(nil))
	require.Equal(t, sim.Time(1000), g.NICLatency())
	require.Equal(t, sim.Time(100), g.SwitchLatency(g.LeafOf(g.NICOf(0))))
	require.Equal(t, sim.Time(100), g.SwitchLatency(topology.NodeID(len(g.Nodes)-1)), "spine")
	for _, n := range []topology.NodeID{g.GPUNode(0), g.NVSwitchOf(0), g.NICOf(0)} {
		require.Zero(t, g.SwitchLatency(n))
	}
}

// TestRandomFabrics checks what holds for every leaf-spine, from the Config's
// numbers alone.
func TestRandomFabrics(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := topologytest.Config(t)
		g := build(t, c)
		gpus, nics := c.Nodes*c.GPUsPerNode, c.Nodes*c.NICsPerNode
		require.Equal(t, gpus, g.GPUs())
		require.Equal(t, nics, g.NICs())
		uplinks := g.UplinksPerLeaf()
		require.Len(t, g.Links, 2*(gpus+nics+c.Leaves*uplinks))
		if c.Oversubscription > 0 && c.Spines > 0 {
			require.InEpsilon(t, c.Oversubscription, g.Oversubscription(), 1e-9)
		}
		checkNodes(t, g)
		checkLinks(t, g, c)
		checkDegrees(t, g, c, uplinks)
		checkPaths(t, g, c, uplinks)
	})
}

func checkNodes(t *rapid.T, g *topology.Graph) {
	seen := map[string]bool{}
	for _, n := range g.Nodes {
		require.False(t, seen[n.Name], n.Name)
		seen[n.Name] = true
	}
	for gpu := range topology.GPU(g.GPUs()) {
		require.Equal(t, gpu, g.GPUAt(g.ServerOf(gpu), g.LocalIndex(gpu)))
		require.Equal(t, topology.Node{Kind: topology.KindGPU, Index: int32(gpu), Name: g.Nodes[g.GPUNode(gpu)].Name}, g.Nodes[g.GPUNode(gpu)])
		require.Equal(t, topology.KindNIC, g.Nodes[g.NICOf(gpu)].Kind)
	}
}

func checkLinks(t *rapid.T, g *topology.Graph, c topology.Config) {
	seen := map[string]bool{}
	for i, l := range g.Links {
		require.False(t, seen[l.Name], l.Name)
		seen[l.Name] = true
		ends, _, _ := strings.Cut(l.Name, "#")
		require.Equal(t, g.Nodes[l.From].Name+">"+g.Nodes[l.To].Name, ends)
		r := g.Links[g.Reverse(topology.LinkID(i))]
		require.Equal(t, [2]topology.NodeID{l.To, l.From}, [2]topology.NodeID{r.From, r.To})
		require.Contains(t, g.LinksBetween(l.From, l.To), topology.LinkID(i))
		rate, delay := c.LinkRate, c.LinkDelay
		switch min(g.Nodes[l.From].Kind, g.Nodes[l.To].Kind) {
		case topology.KindGPU:
			rate, delay = c.NVLinkRate, c.NVLinkDelay
		case topology.KindNIC:
			rate = c.NICRate
		}
		require.Equal(t, rate, l.Rate, l.Name)
		require.Equal(t, delay, l.Delay, l.Name)
	}
}

func checkDegrees(t *rapid.T, g *topology.Graph, c topology.Config, uplinks int) {
	total := 0
	for n := range g.Nodes {
		out := g.Out(topology.NodeID(n))
		total += len(out)
		for i, l := range out {
			require.Equal(t, topology.NodeID(n), g.Links[l].From)
			if i > 0 {
				require.LessOrEqual(t, g.Links[out[i-1]].To, g.Links[l].To)
			}
		}
		want := map[topology.Kind]int{
			topology.KindGPU:      1,
			topology.KindNVSwitch: c.GPUsPerNode,
			topology.KindNIC:      1,
			topology.KindLeaf:     c.Nodes*c.NICsPerNode/max(c.Leaves, 1) + uplinks,
		}
		if c.Spines > 0 {
			want[topology.KindSpine] = c.Leaves * uplinks / c.Spines
		}
		require.Len(t, out, want[g.Nodes[n].Kind], g.Nodes[n].Name)
	}
	require.Equal(t, len(g.Links), total)
}

func checkPaths(t *rapid.T, g *topology.Graph, c topology.Config, uplinks int) {
	anyGPU := rapid.IntRange(0, g.GPUs()-1)
	for range 8 {
		a, b := topology.GPU(anyGPU.Draw(t, "a")), topology.GPU(anyGPU.Draw(t, "b"))
		paths := g.Paths(g.GPUNode(a), g.GPUNode(b))
		from, to, count, length := g.NICOf(a), g.NICOf(b), 1, 2
		switch {
		case a == b:
			require.Equal(t, [][]topology.LinkID{{}}, paths)
			continue
		case g.ServerOf(a) == g.ServerOf(b):
			from, to = g.GPUNode(a), g.GPUNode(b)
		case !sameLeaf(c, g, a, b):
			count, length = uplinks*uplinks/c.Spines, 4
		}
		require.Len(t, paths, count)
		seen := map[string]bool{}
		for _, p := range paths {
			require.Len(t, p, length)
			at := from
			for _, l := range p {
				require.Equal(t, at, g.Links[l].From)
				at = g.Links[l].To
			}
			require.Equal(t, to, at)
			require.False(t, seen[names(g, p)])
			seen[names(g, p)] = true
		}
		if count > 1 {
			require.Len(t, g.NextHops(g.LeafOf(from), to), uplinks, "every uplink is an equal choice")
		}
	}
}

// sameLeaf says from the Config's words whether two GPUs' NICs share a leaf.
func sameLeaf(c topology.Config, g *topology.Graph, a, b topology.GPU) bool {
	rail := func(gpu topology.GPU) int { return g.LocalIndex(gpu) / (c.GPUsPerNode / c.NICsPerNode) }
	if c.Wiring == topology.WiringRail {
		perBlock := c.Nodes * c.NICsPerNode / c.Leaves
		return rail(a) == rail(b) && g.ServerOf(a)/perBlock == g.ServerOf(b)/perBlock
	}
	perLeaf := c.Nodes / c.Leaves
	return g.ServerOf(a)/perLeaf == g.ServerOf(b)/perLeaf
}

// Relations between a cluster and a changed one.

func TestOversubscriptionScalesOnlyTheFabric(t *testing.T) {
	c := topology.DefaultConfig()
	g1 := build(t, c)
	for _, over := range []float64{2, 4, 8} {
		c.Oversubscription, c.Spines = over, 1
		g := build(t, c)
		require.Equal(t, over, g.Oversubscription())
		require.Equal(t, g1.UplinksPerLeaf(), g.UplinksPerLeaf()*int(over))
		require.Equal(t, g1.BisectionRate(), g.BisectionRate()*units.Rate(over))
		require.Equal(t, len(g1.Links)-len(g.Links), 2*16*8*(int(over)-1)/int(over))
	}
	// More uplinks than NICs do not help the NICs.
	c.Oversubscription, c.Spines = 0.5, 16
	require.Equal(t, g1.BisectionRate(), build(t, c).BisectionRate())
}

func TestSpinesShareTheSameUplinks(t *testing.T) {
	c := topology.DefaultConfig()
	c.Spines = 1
	one := build(t, c)
	paths := 64
	for _, spines := range []int{1, 2, 4, 8} {
		c.Spines = spines
		g := build(t, c)
		require.Len(t, g.Links, len(one.Links), "the cables are the same")
		require.Equal(t, one.UplinksPerLeaf(), g.UplinksPerLeaf())
		require.Equal(t, one.BisectionRate(), g.BisectionRate())
		// 8 uplinks; 8/spines parallel links down from the spine.
		require.Len(t, g.Paths(g.NICOf(0), g.NICOf(8)), paths/spines)
	}
}

func TestHalfTheRateTwiceTheLinks(t *testing.T) {
	c := topology.DefaultConfig()
	fast := build(t, c)
	c.LinkRate /= 2
	slow := build(t, c)
	require.Equal(t, 2*fast.UplinksPerLeaf(), slow.UplinksPerLeaf())
	require.Equal(t, fast.BisectionRate(), slow.BisectionRate())
	require.Equal(t, fast.Oversubscription(), slow.Oversubscription())
}

func TestBisectionGrowsWithTheCluster(t *testing.T) {
	c := topology.DefaultConfig()
	base := build(t, c).BisectionRate()
	require.Equal(t, 64*400*units.Gbps, base)
	c.Nodes, c.Leaves = 2*c.Nodes, 2*c.Leaves
	require.Equal(t, 2*base, build(t, c).BisectionRate())
}

func TestBisectionSaturates(t *testing.T) {
	c := topology.DefaultConfig()
	c.Nodes, c.Leaves, c.Spines = 1<<15, 1<<8, 1
	c.NICRate, c.LinkRate = topology.MaxRate, topology.MaxRate
	require.Equal(t, units.Rate(math.MaxInt64/2), build(t, c).BisectionRate())
}

func TestWiringsAgreeOnOneNIC(t *testing.T) {
	c := topology.DefaultConfig()
	c.NICsPerNode, c.Spines = 1, 1
	packed := build(t, c)
	c.Wiring = topology.WiringRail
	require.Equal(t, packed, build(t, c))
}

func TestUplinksGivenOrDerived(t *testing.T) {
	c := topology.DefaultConfig()
	derived := build(t, c)
	c.UplinksPerLeaf = 8
	require.Equal(t, derived, build(t, c), "both, in agreement")
	c.Oversubscription = 0
	require.Equal(t, derived, build(t, c), "uplinks only")
}

func TestSameConfigSameGraph(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := topologytest.Config(t)
		require.Equal(t, build(t, c), build(t, c))
	})
}

func TestNextHopsDoesNotAllocate(t *testing.T) {
	g := build(t, topology.DefaultConfig())
	leaf, dst := g.LeafOf(g.NICOf(0)), g.NICOf(127)
	spine := g.Links[g.NextHops(leaf, dst)[0]].To
	for _, at := range []topology.NodeID{g.NICOf(0), leaf, spine, g.LeafOf(dst)} {
		require.Zero(t, testing.AllocsPerRun(100, func() { g.NextHops(at, dst) }))
	}
	hops := g.NextHops(leaf, dst)
	_ = append(hops, 0)
	require.Equal(t, hops, g.NextHops(leaf, dst), "appending to a set must not write into the next")
}

// TestKindsAndRoutesOutOfPlace asks for routes from where there are none.
func TestKindsAndRoutesOutOfPlace(t *testing.T) {
	g := build(t, small())
	for _, dst := range []topology.NodeID{g.GPUNode(3), g.NVSwitchOf(0), g.LeafOf(g.NICOf(0)), topology.NodeID(len(g.Nodes) - 1), topology.NoNode} {
		require.Equal(t, topology.NoNode, g.LeafOf(dst))
		require.Empty(t, g.NextHops(g.NICOf(0), dst))
	}
	for _, at := range []topology.NodeID{g.GPUNode(3), g.NVSwitchOf(0), g.NICOf(8)} {
		require.Empty(t, g.NextHops(at, g.NICOf(8)))
	}
	kinds := []string{}
	for k := topology.KindGPU; k <= topology.KindSpine; k++ {
		kinds = append(kinds, k.String())
	}
	require.Equal(t, []string{"gpu", "nvswitch", "nic", "leaf", "spine"}, slices.Clip(kinds))
}
