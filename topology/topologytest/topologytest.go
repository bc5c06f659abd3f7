// Package topologytest has clusters for tests: random ones, and those of the reference.
package topologytest

import (
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
	"pgregory.net/rapid"
)

// Config draws a valid cluster of 1 to 192 GPUs: any wiring, with and without
// spines, parallel links, shared NICs, and oversubscription given or derived.
func Config(t *rapid.T) topology.Config {
	c := topology.DefaultConfig()
	blocks := rapid.IntRange(1, 4).Draw(t, "blocks")
	c.Nodes = blocks * rapid.IntRange(1, 6).Draw(t, "servers per block")
	c.NICsPerNode = rapid.IntRange(1, 4).Draw(t, "nics per node")
	c.GPUsPerNode = c.NICsPerNode * rapid.IntRange(1, 2).Draw(t, "gpus per nic")
	c.Wiring = rapid.SampledFrom([]topology.Wiring{topology.WiringPacked, topology.WiringRail}).Draw(t, "wiring")
	c.Leaves = blocks
	if c.Wiring == topology.WiringRail {
		c.Leaves *= c.NICsPerNode
	}
	delay := rapid.Custom(func(t *rapid.T) sim.Time { return sim.Time(rapid.Int64Range(0, 1e7).Draw(t, "ps")) })
	c.NVLinkDelay, c.LinkDelay = delay.Draw(t, "nvlink delay"), delay.Draw(t, "link delay")
	c.SwitchLatency, c.NICLatency = delay.Draw(t, "switch latency"), delay.Draw(t, "nic latency")

	c.Spines = rapid.IntRange(0, 4).Draw(t, "spines")
	if c.Leaves > 1 {
		c.Spines = max(c.Spines, 1)
	}
	uplinks := c.Spines * rapid.IntRange(1, 3).Draw(t, "parallel")
	c.NICRate = units.Rate(rapid.Int64Range(1, 400).Draw(t, "nic Gbps")) * units.Gbps
	c.LinkRate = units.Rate(rapid.Int64Range(1, 400).Draw(t, "link Gbps")) * units.Gbps
	if c.Spines > 0 && rapid.Bool().Draw(t, "by oversubscription") {
		nicsPerLeaf := c.Nodes * c.NICsPerNode / c.Leaves
		c.Oversubscription = float64(nicsPerLeaf) * float64(c.NICRate) / float64(uplinks) / float64(c.LinkRate)
	} else {
		c.Oversubscription, c.UplinksPerLeaf = 0, uplinks
	}
	return c
}

// Small draws a cluster of 1 to 64 GPUs with packed wiring, one to three spines where
// there are several leaves, and the default rates.
func Small(t *rapid.T) topology.Config {
	c := topology.DefaultConfig()
	c.GPUsPerNode = rapid.SampledFrom([]int{1, 2, 4}).Draw(t, "gpus per node")
	c.NICsPerNode = c.GPUsPerNode
	if c.GPUsPerNode > 1 && rapid.Bool().Draw(t, "shared NICs") {
		c.NICsPerNode /= 2
	}
	c.Leaves = rapid.IntRange(1, 4).Draw(t, "leaves")
	c.Nodes = c.Leaves * rapid.IntRange(1, 4).Draw(t, "nodes per leaf")
	c.Spines = 0
	if c.Leaves > 1 {
		c.Spines = rapid.IntRange(1, 3).Draw(t, "spines")
		c.UplinksPerLeaf = c.Spines * rapid.IntRange(1, 2).Draw(t, "parallel links")
	}
	c.Oversubscription = 0
	if c.Spines == 0 {
		c.Oversubscription = 1
	}
	delay := rapid.Custom(func(t *rapid.T) sim.Time { return sim.Time(rapid.Int64Range(0, 3e6).Draw(t, "ps")) })
	c.NVLinkDelay, c.LinkDelay = delay.Draw(t, "nvlink delay"), delay.Draw(t, "link delay")
	c.SwitchLatency, c.NICLatency = delay.Draw(t, "switch"), delay.Draw(t, "nic")
	return c
}
