package topology

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// Limits on what can be built. They keep every index within 32 bits and a typo
// from taking the machine's memory.
const (
	MaxGPUs         = 1 << 20
	MaxGPUsPerNode  = 1 << 10
	MaxUplinks      = 1 << 12 // per leaf
	MaxFabricCables = 1 << 22 // leaf to spine, in all
	MaxRate         = 100 * units.Tbps
	MaxDelay        = sim.Second
)

// ratioTolerance is the relative error up to which a computed number of uplinks
// is whole and two ratios are equal: far above rounding, far below a mistake.
const ratioTolerance = 1e-9

// Wiring says which leaf each NIC of a server is cabled to.
type Wiring string

// The wirings.
const (
	// WiringPacked fills a leaf with all the NICs of consecutive servers.
	WiringPacked Wiring = "packed"
	// WiringRail takes NIC r of every server to a leaf of rail r. Consecutive
	// servers form blocks; block b has its own leaf for each rail, number
	// b*nics_per_node + r.
	WiringRail Wiring = "rail"
)

var wirings = []Wiring{WiringPacked, WiringRail}

// Config describes a cluster of equal servers under a leaf-spine fabric.
type Config struct {
	// Nodes is the number of servers.
	Nodes int `yaml:"nodes"`
	// GPUsPerNode is the number of GPUs in each server, all on one NVSwitch.
	GPUsPerNode int `yaml:"gpus_per_node"`
	// NICsPerNode is the number of RDMA NICs in each server. It divides
	// gpus_per_node: GPU g uses NIC g*nics_per_node/gpus_per_node. A single
	// server may have none.
	NICsPerNode int `yaml:"nics_per_node"`

	// NVLinkRate is what one GPU can send, and at the same time receive, over
	// NVLink. NVLink's packet overhead is not modelled, so this is the rate of
	// payload: 160 GB/s of the 200 GB/s signalled on an H800. In a scenario 0 takes
	// that of its GPU.
	NVLinkRate units.Rate `yaml:"nvlink_rate"`
	// NVLinkDelay is the latency of each of the two links between GPUs of a
	// server, half the NVSwitch and half the software at both ends included.
	NVLinkDelay sim.Time `yaml:"nvlink_delay"`

	// Leaves is the number of leaf switches. 0 leaves a single server without a
	// network.
	Leaves int `yaml:"leaves"`
	// Spines is the number of spine switches. It divides the number of uplinks
	// of a leaf. 0 is for a fabric of at most one leaf.
	Spines int `yaml:"spines"`
	// NICRate is the rate of a NIC and its leaf port, per direction.
	NICRate units.Rate `yaml:"nic_rate"`
	// LinkRate is the rate of one leaf-spine link, per direction.
	LinkRate units.Rate `yaml:"link_rate"`
	// LinkDelay is the propagation delay of every cable outside a server,
	// transceivers and forward error correction at its ends included.
	LinkDelay sim.Time `yaml:"link_delay"`
	// SwitchLatency is the pipeline latency of every leaf and spine.
	SwitchLatency sim.Time `yaml:"switch_latency"`
	// NICLatency is the latency of a message at each of its two ends: NIC, PCIe
	// and the software that posts or polls. It does not grow with size.
	NICLatency sim.Time `yaml:"nic_latency"`

	// Oversubscription is the ratio of a leaf's capacity towards its NICs to its
	// capacity towards the spines: 1 is non-blocking, 2 is half of it. 0 takes
	// what uplinks_per_leaf gives. It means nothing without spines.
	Oversubscription float64 `yaml:"oversubscription"`
	// UplinksPerLeaf is the number of links from a leaf to all spines together.
	// 0 derives it from oversubscription.
	UplinksPerLeaf int `yaml:"uplinks_per_leaf"`
	// Wiring is how servers are cabled to leaves: packed (all NICs of a server to one)
	// or rail (NIC r of every server to one of rail r).
	Wiring Wiring `yaml:"wiring"`
}

// DefaultConfig is a non-blocking fabric of 16 H800-class servers: 128 GPUs,
// each with its own 400 Gb/s NIC, 16 leaves with 8 NICs and 8 uplinks, 8 spines.
//
// Its latencies add up to those that DeepSeek measured with 64 B messages
// ("Insights into DeepSeek-V3", arXiv 2505.09343, table 5; end to end): RoCE
// 3.6 us under one leaf, 5.6 us across the spine, NVLink 3.33 us. Going across
// adds two switches and two cables, so those cost 2.0 us: 500 ns each (the sum
// of a switch and a cable is what was measured, its even split is ours). Under
// one leaf there are two cables and one switch, 1.5 us; the other 2.1 us belong
// to the two ends, 1.05 us each. Serialising 64 B and 82 B of headers takes
// 2.92 ns per link on top, 6 to 12 ns in all. Each of the two NVLink hops gets
// half of the 3.33 us.
//
// NVLink carries 160 GB/s of payload per GPU and direction (DeepEP; 200 GB/s
// are signalled).
func DefaultConfig() Config {
	return Config{
		Nodes:            16,
		GPUsPerNode:      8,
		NICsPerNode:      8,
		NVLinkRate:       8 * 160 * units.Gbps,
		NVLinkDelay:      1665 * sim.Nanosecond,
		Leaves:           16,
		Spines:           8,
		NICRate:          400 * units.Gbps,
		LinkRate:         400 * units.Gbps,
		LinkDelay:        500 * sim.Nanosecond,
		SwitchLatency:    500 * sim.Nanosecond,
		NICLatency:       1050 * sim.Nanosecond,
		Oversubscription: 1,
		Wiring:           WiringPacked,
	}
}

// Validate says what keeps c from being built, as config.Problems, or nil. Each
// problem names the number that is wrong and what would fit.
func (c Config) Validate() error {
	var ps config.Problems
	c.checkServers(&ps)
	c.checkLinks(&ps)
	ps.Require(slices.Contains(wirings, c.Wiring), "wiring", "%q is not a wiring; use packed or rail", string(c.Wiring))
	// What follows computes with the numbers above; it needs them sound.
	if len(ps) == 0 {
		c.checkLeaves(&ps)
	}
	if len(ps) == 0 && c.Leaves > 0 {
		c.checkSpines(&ps)
	}
	return ps.Err()
}

// checkServers judges the servers by themselves.
func (c *Config) checkServers(ps *config.Problems) {
	ps.Require(c.Nodes >= 1 && c.Nodes <= MaxGPUs, "nodes", "%d servers; use 1 to %d", c.Nodes, MaxGPUs)
	ps.Require(c.GPUsPerNode >= 1 && c.GPUsPerNode <= MaxGPUsPerNode,
		"gpus_per_node", "%d GPUs per server; use 1 to %d", c.GPUsPerNode, MaxGPUsPerNode)
	if len(*ps) > 0 {
		return
	}
	if gpus := int64(c.Nodes) * int64(c.GPUsPerNode); gpus > MaxGPUs {
		ps.Addf("nodes", "%d servers x %d GPUs are %d GPUs, more than %d; use at most %d servers",
			c.Nodes, c.GPUsPerNode, gpus, MaxGPUs, MaxGPUs/c.GPUsPerNode)
	}
	switch {
	case c.NICsPerNode < 0:
		ps.Addf("nics_per_node", "%d is negative; use %s", c.NICsPerNode, divisorsOf(c.GPUsPerNode, c.NICsPerNode))
	case c.NICsPerNode == 0:
		ps.Require(c.Nodes == 1, "nics_per_node", "%d servers without NICs cannot talk; use %s",
			c.Nodes, divisorsOf(c.GPUsPerNode, c.GPUsPerNode))
	case c.GPUsPerNode%c.NICsPerNode != 0:
		ps.Addf("nics_per_node", "%d NICs cannot be shared evenly by %d GPUs; use %s",
			c.NICsPerNode, c.GPUsPerNode, divisorsOf(c.GPUsPerNode, c.NICsPerNode))
	}
}

// checkLinks judges rates, delays and counts by their range alone.
func (c *Config) checkLinks(ps *config.Problems) {
	rate := func(key string, r units.Rate, used bool) {
		if used || r != 0 {
			ps.Require(r > 0 && r <= MaxRate, key, "%v; use a rate above 0, up to %v", r, MaxRate)
		}
	}
	rate("nvlink_rate", c.NVLinkRate, true)
	rate("nic_rate", c.NICRate, c.Leaves > 0)
	rate("link_rate", c.LinkRate, c.Spines > 0)
	delay := func(key string, d sim.Time) {
		ps.Require(d >= 0 && d <= MaxDelay, key, "%v; use 0 to %v", d, MaxDelay)
	}
	delay("nvlink_delay", c.NVLinkDelay)
	delay("link_delay", c.LinkDelay)
	delay("switch_latency", c.SwitchLatency)
	delay("nic_latency", c.NICLatency)

	ps.Require(c.Leaves >= 0 && c.Leaves <= MaxGPUs, "leaves", "%d leaves; use 0 to %d", c.Leaves, MaxGPUs)
	ps.Require(c.Spines >= 0 && c.Spines <= MaxUplinks, "spines", "%d spines; use 0 to %d", c.Spines, MaxUplinks)
	ps.Require(c.UplinksPerLeaf >= 0 && c.UplinksPerLeaf <= MaxUplinks,
		"uplinks_per_leaf", "%d uplinks; use 1 to %d, or 0 to derive them from oversubscription", c.UplinksPerLeaf, MaxUplinks)
	ps.Require(c.Oversubscription >= 0 && c.Oversubscription <= math.MaxFloat64, "oversubscription",
		"%g is not a ratio; use 1 (non-blocking), 2, 4, ..., or 0 to derive it from uplinks_per_leaf", c.Oversubscription)
}

// checkLeaves judges whether the NICs fill the leaves evenly.
func (c *Config) checkLeaves(ps *config.Problems) {
	switch {
	case c.Leaves == 0 && c.Nodes > 1:
		ps.Addf("leaves", "0 leaves cannot join %d servers; use %s", c.Nodes, c.leafCounts())
	case c.Leaves == 0:
		ps.Require(c.Spines == 0, "spines", "%s without a leaf to attach to; use 0, or 1 leaf", plural(c.Spines, "spine"))
	case c.NICsPerNode == 0:
		ps.Addf("leaves", "%s but no NIC to attach; use 0, or set nics_per_node", plural(c.Leaves, "leaf"))
	case c.Wiring == WiringRail && c.Leaves%c.NICsPerNode != 0:
		ps.Addf("leaves", "%d is not a multiple of the %d rails (nics_per_node); use %s", c.Leaves, c.NICsPerNode, c.leafCounts())
	case c.Wiring == WiringRail && c.Nodes%(c.Leaves/c.NICsPerNode) != 0:
		ps.Addf("leaves", "%d leaves are %d per rail, which do not divide the %d servers into equal blocks; use %s",
			c.Leaves, c.Leaves/c.NICsPerNode, c.Nodes, c.leafCounts())
	case c.Wiring == WiringPacked && c.Nodes%c.Leaves != 0:
		ps.Addf("leaves", "%d does not divide the %s; use %s", c.Leaves, plural(c.Nodes, "server"), c.leafCounts())
	}
}

// leafCounts lists the numbers of leaves that the NICs would fill evenly.
func (c *Config) leafCounts() string {
	if c.Wiring == WiringRail && c.NICsPerNode > 0 {
		counts := divisors(c.Nodes)
		for i := range counts {
			counts[i] *= c.NICsPerNode
		}
		return list(counts, c.Leaves)
	}
	return divisorsOf(c.Nodes, c.Leaves)
}

// checkSpines judges the uplinks and how the spines share them.
func (c *Config) checkSpines(ps *config.Problems) {
	if c.Spines == 0 {
		ps.Require(c.Leaves <= 1, "spines", "%d leaves need a spine to reach each other; use at least 1", c.Leaves)
		return
	}
	down := c.nicsPerLeaf() * float64(c.NICRate)
	how := fmt.Sprintf("%g NICs x %v / oversubscription %g / %v", c.nicsPerLeaf(), c.NICRate, c.Oversubscription, c.LinkRate)
	if c.UplinksPerLeaf > 0 {
		how = "uplinks_per_leaf"
		real := down / (float64(c.UplinksPerLeaf) * float64(c.LinkRate))
		ps.Require(c.Oversubscription == 0 || math.Abs(real/c.Oversubscription-1) <= ratioTolerance, "oversubscription",
			"%g is not what %d uplinks_per_leaf give, which is %.4g; set one of the two to 0", c.Oversubscription, c.UplinksPerLeaf, real)
	} else {
		if c.Oversubscription == 0 {
			ps.Addf("oversubscription", "0, and so is uplinks_per_leaf; set one of the two, such as oversubscription 1")
			return
		}
		want := c.fractionalUplinks()
		n := math.Round(want)
		switch {
		case want > MaxUplinks+0.5:
			ps.Addf("oversubscription", "%g takes %.4g uplinks per leaf (%s), more than %d; use at least %.4g",
				c.Oversubscription, want, how, MaxUplinks, down/float64(c.LinkRate)/MaxUplinks)
		case n < 1 || math.Abs(want-n) > ratioTolerance*n:
			ps.Addf("oversubscription", "%g gives %.4g uplinks per leaf (%s); set it to 0 and uplinks_per_leaf to %s",
				c.Oversubscription, want, how, c.nearestUplinks(want))
		}
	}
	if len(*ps) > 0 {
		return
	}
	uplinks := c.uplinks()
	ps.Require(uplinks%c.Spines == 0, "spines", "%d does not divide the %s of a leaf (%s); use %s",
		c.Spines, plural(uplinks, "uplink"), how, divisorsOf(uplinks, c.Spines))
	if cables := int64(c.Leaves) * int64(uplinks); cables > MaxFabricCables {
		ps.Addf("leaves", "%d leaves x %d uplinks are %d cables, more than %d; use fewer leaves or uplinks", c.Leaves, uplinks, cables, MaxFabricCables)
	}
}

// nicsPerLeaf is the number of NICs under each leaf. There are leaves.
func (c *Config) nicsPerLeaf() float64 {
	return float64(c.Nodes) * float64(c.NICsPerNode) / float64(c.Leaves)
}

// fractionalUplinks is the number of uplinks per leaf that oversubscription
// asks for, whole or not.
func (c *Config) fractionalUplinks() float64 {
	return c.nicsPerLeaf() * float64(c.NICRate) / c.Oversubscription / float64(c.LinkRate)
}

// uplinks is the number of uplinks per leaf of a valid Config with spines.
func (c *Config) uplinks() int {
	if c.UplinksPerLeaf > 0 {
		return c.UplinksPerLeaf
	}
	return int(math.Round(c.fractionalUplinks()))
}

// nearestUplinks names the whole numbers of uplinks around want.
func (c *Config) nearestUplinks(want float64) string {
	ratio := func(n float64) string {
		return fmt.Sprintf("%g (%.4g:1)", n, c.nicsPerLeaf()*float64(c.NICRate)/n/float64(c.LinkRate))
	}
	lo := math.Floor(want)
	switch {
	case lo < 1:
		return ratio(1)
	case lo+1 > MaxUplinks:
		return ratio(lo)
	}
	return ratio(lo) + " or " + ratio(lo+1)
}

// divisors returns the divisors of n > 0 in ascending order.
func divisors(n int) []int {
	var ds []int
	for d := 1; d*d <= n; d++ {
		if n%d == 0 {
			ds = append(ds, d)
			if d*d != n {
				ds = append(ds, n/d)
			}
		}
	}
	slices.Sort(ds)
	return ds
}

// divisorsOf lists the divisors of n for a message, those nearest to around when
// there are many.
func divisorsOf(n, around int) string { return list(divisors(n), around) }

// list writes ascending numbers as "1, 2 or 4", leaving out those far from
// around when there are many.
func list(ns []int, around int) string {
	const most = 8
	if len(ns) > most {
		i, _ := slices.BinarySearch(ns, around)
		lo := min(max(i-most/2, 0), len(ns)-most)
		ns = ns[lo : lo+most]
	}
	words := make([]string, len(ns))
	for i, n := range ns {
		words[i] = strconv.Itoa(n)
	}
	if len(words) == 1 {
		return words[0]
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
