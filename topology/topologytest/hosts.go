package topologytest

import (
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// Hosts is a cluster of hosts with a GPU and a NIC of 400 Gb/s each, and without
// latencies, so that times are those of the bytes.
func Hosts(hosts, leaves, spines int) topology.Config {
	c := topology.DefaultConfig()
	c.Nodes, c.GPUsPerNode, c.NICsPerNode = hosts, 1, 1
	c.Leaves, c.Spines = leaves, spines
	c.LinkDelay, c.SwitchLatency, c.NICLatency, c.NVLinkDelay = 0, 0, 0, 0
	return c
}

// LS128 is the fabric of the reference flow lists: 128 hosts, 16 leaves, 8 spines,
// 400 Gb/s everywhere, 1 us per link, switches without latency.
func LS128() topology.Config {
	c := Hosts(128, 16, 8)
	c.LinkDelay = sim.Microsecond
	return c
}
