package topology

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/tgssim/tgssim/internal/units"
)

// LeafSpine builds the cluster that c describes: servers with NVLink inside, a
// two-tier Clos of leaves and spines between them. Each leaf has the same
// number of uplinks to every spine. It fails when c is not valid.
func LeafSpine(c Config) (*Graph, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	gpus, nics := c.Nodes*c.GPUsPerNode, c.Nodes*c.NICsPerNode
	uplinks := 0
	if c.Spines > 0 {
		uplinks = c.uplinks()
	}
	cables := gpus + c.Leaves*uplinks
	if c.Leaves > 0 {
		cables += nics
	}
	b := newBuilder(gpus+c.Nodes+nics+c.Leaves+c.Spines, 2*cables)
	b.add(KindGPU, gpus)
	b.add(KindNVSwitch, c.Nodes)
	b.add(KindNIC, nics)
	b.add(KindLeaf, c.Leaves)
	b.add(KindSpine, c.Spines)
	g := b.g
	g.gpusPerNode, g.nicsPerNode = c.GPUsPerNode, c.NICsPerNode
	g.latency[KindNIC] = c.NICLatency
	g.latency[KindLeaf], g.latency[KindSpine] = c.SwitchLatency, c.SwitchLatency

	for gpu := range gpus {
		b.cable(g.GPUNode(GPU(gpu)), g.NVSwitchOf(gpu/c.GPUsPerNode), c.NVLinkRate, c.NVLinkDelay, 0, 1)
	}
	if c.Leaves > 0 {
		for nic := range nics {
			leaf := g.first[KindLeaf] + NodeID(c.leafOf(nic/c.NICsPerNode, nic%c.NICsPerNode))
			b.cable(g.first[KindNIC]+NodeID(nic), leaf, c.NICRate, c.LinkDelay, 0, 1)
		}
	}
	for leaf := range c.Leaves {
		for spine := range c.Spines {
			par := uplinks / c.Spines
			for i := range par {
				b.cable(g.first[KindLeaf]+NodeID(leaf), g.first[KindSpine]+NodeID(spine), c.LinkRate, c.LinkDelay, i, par)
			}
		}
	}
	return b.finish(), nil
}

// leafOf is the index of the leaf that NIC number nic of a server is cabled to.
func (c *Config) leafOf(server, nic int) int {
	if c.Wiring == WiringRail {
		blocks := c.Leaves / c.NICsPerNode
		block := server / (c.Nodes / blocks)
		return block*c.NICsPerNode + nic
	}
	return server / (c.Nodes / c.Leaves)
}

// BisectionRate is the rate, in one direction, at which one half of the NICs
// can send to the other half when no pair of them shares a leaf: half the sum
// of the NIC rates or half the sum of the uplink rates, whichever is less. With
// one leaf it is half the sum of the NIC rates. It saturates at the largest
// Rate.
func (g *Graph) BisectionRate() units.Rate {
	down, up := g.tierRates()
	if g.count(KindLeaf) > 1 && up < down {
		return up / 2
	}
	return down / 2
}

// Oversubscription is the ratio of the NIC rates to the uplink rates, summed
// over the leaves: what the built fabric has, whatever the Config asked for. It
// is 0 when there are no uplinks.
func (g *Graph) Oversubscription() float64 {
	down, up := g.tierRates()
	if up == 0 {
		return 0
	}
	return float64(down) / float64(up)
}

// tierRates sums the rates of the leaves' links down to NICs and up to other
// switches.
func (g *Graph) tierRates() (down, up units.Rate) {
	for leaf := g.first[KindLeaf]; leaf < g.first[KindLeaf+1]; leaf++ {
		for _, l := range g.Out(leaf) {
			if g.Links[l].To < g.first[KindLeaf] {
				down = addRates(down, g.Links[l].Rate)
			} else {
				up = addRates(up, g.Links[l].Rate)
			}
		}
	}
	return down, up
}

func addRates(a, b units.Rate) units.Rate {
	if sum, carry := bits.Add64(uint64(a), uint64(b), 0); carry == 0 && sum <= math.MaxInt64 {
		return units.Rate(sum)
	}
	return math.MaxInt64
}

// UplinksPerLeaf is the number of uplinks of the first leaf.
func (g *Graph) UplinksPerLeaf() int {
	if g.count(KindLeaf) == 0 {
		return 0
	}
	return len(g.switchLinks(g.first[KindLeaf]))
}

// Summary describes the cluster in one line: the counts, the uplinks per leaf
// and the oversubscription as built.
func (g *Graph) Summary() string {
	s := fmt.Sprintf("%s, %s in %s", plural(g.GPUs(), "GPU"), plural(g.NICs(), "NIC"), plural(g.Servers(), "server"))
	if g.Leaves() == 0 {
		return s + ", NVLink only"
	}
	s += fmt.Sprintf("; %s, %s", plural(g.Leaves(), "leaf"), plural(g.Spines(), "spine"))
	if up := g.UplinksPerLeaf(); up > 0 {
		s += fmt.Sprintf(", %s per leaf, oversubscription %.4g:1", plural(up, "uplink"), g.Oversubscription())
	}
	return s + fmt.Sprintf(", bisection %s", g.BisectionRate())
}

func plural(n int, what string) string {
	switch {
	case n == 1:
	case what == "leaf":
		what = "leaves"
	default:
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
