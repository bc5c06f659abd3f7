package topology_test

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tgssim/tgssim/internal/config"
	_ "github.com/tgssim/tgssim/internal/testkit" // the same draws in every run
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
	"github.com/tgssim/tgssim/topology/topologytest"
	"gopkg.in/yaml.v3"
	"pgregory.net/rapid"
)

func TestInvalidConfigs(t *testing.T) {
	type conf = topology.Config
	for _, c := range []struct {
		change func(*conf)
		want   string
	}{
		// Servers.
		{func(c *conf) { c.Nodes = 0 }, "nodes: 0 servers; use 1 to 1048576"},
		{func(c *conf) { c.Nodes = -3 }, "nodes: -3 servers; use 1 to 1048576"},
		{func(c *conf) { c.Nodes = math.MaxInt }, "nodes: 9223372036854775807 servers; use 1 to 1048576"},
		{func(c *conf) { c.GPUsPerNode = 0 }, "gpus_per_node: 0 GPUs per server; use 1 to 1024"},
		{func(c *conf) { c.GPUsPerNode = math.MinInt }, "gpus_per_node: -9223372036854775808 GPUs per server; use 1 to 1024"},
		{func(c *conf) { c.Nodes = 1 << 18 }, "nodes: 262144 servers x 8 GPUs are 2097152 GPUs, more than 1048576; use at most 131072 servers"},
		{func(c *conf) { c.NICsPerNode = 3 }, "nics_per_node: 3 NICs cannot be shared evenly by 8 GPUs; use 1, 2, 4 or 8"},
		{func(c *conf) { c.NICsPerNode = 16 }, "nics_per_node: 16 NICs cannot be shared evenly by 8 GPUs; use 1, 2, 4 or 8"},
		{func(c *conf) { c.NICsPerNode = -1 }, "nics_per_node: -1 is negative; use 1, 2, 4 or 8"},
		{func(c *conf) { c.NICsPerNode = 0 }, "nics_per_node: 16 servers without NICs cannot talk; use 1, 2, 4 or 8"},
		// Rates and delays.
		{func(c *conf) { c.NVLinkRate = 0 }, "nvlink_rate: 0bps; use a rate above 0, up to 100Tbps"},
		{func(c *conf) { c.NICRate = -400 * units.Gbps }, "nic_rate: -400Gbps; use a rate above 0, up to 100Tbps"},
		{func(c *conf) { c.LinkRate = 101 * units.Tbps }, "link_rate: 101Tbps; use a rate above 0, up to 100Tbps"},
		{func(c *conf) { c.LinkRate = 0 }, "link_rate: 0bps; use a rate above 0, up to 100Tbps"},
		{func(c *conf) { c.NVLinkDelay = -1 }, "nvlink_delay: -1ps; use 0 to 1s"},
		{func(c *conf) { c.LinkDelay = 2 * sim.Second }, "link_delay: 2s; use 0 to 1s"},
		{func(c *conf) { c.SwitchLatency = sim.Never }, "switch_latency: never; use 0 to 1s"},
		{func(c *conf) { c.NICLatency = -1 }, "nic_latency: -1ps; use 0 to 1s"},
		// Leaves.
		{func(c *conf) { c.Leaves = -1 }, "leaves: -1 leaves; use 0 to 1048576"},
		{func(c *conf) { c.Leaves = 0 }, "leaves: 0 leaves cannot join 16 servers; use 1, 2, 4, 8 or 16"},
		{func(c *conf) { c.Leaves = 3 }, "leaves: 3 does not divide the 16 servers; use 1, 2, 4, 8 or 16"},
		{func(c *conf) { c.Leaves = 32 }, "leaves: 32 does not divide the 16 servers; use 1, 2, 4, 8 or 16"},
		{func(c *conf) { c.Nodes, c.Leaves = 7, 2 }, "leaves: 2 does not divide the 7 servers; use 1 or 7"},
		{func(c *conf) { c.Nodes, c.Leaves = 1, 2 }, "leaves: 2 does not divide the 1 server; use 1"},
		{func(c *conf) { c.Nodes, c.Leaves = 3600, 7 }, "leaves: 7 does not divide the 3600 servers; use 3, 4, 5, 6, 8, 9, 10 or 12"},
		{func(c *conf) { c.Wiring, c.Leaves = "rail", 12 }, "leaves: 12 is not a multiple of the 8 rails (nics_per_node); use 8, 16, 32, 64 or 128"},
		{func(c *conf) { c.Wiring, c.Leaves = "rail", 24 }, "leaves: 24 leaves are 3 per rail, which do not divide the 16 servers into equal blocks; use 8, 16, 32, 64 or 128"},
		{func(c *conf) { c.Wiring = "Rail" }, `wiring: "Rail" is not a wiring; use packed or rail`},
		{func(c *conf) { c.Wiring = "" }, `wiring: "" is not a wiring; use packed or rail`},
		{func(c *conf) { c.Nodes, c.Leaves = 1, 0 }, "spines: 8 spines without a leaf to attach to; use 0, or 1 leaf"},
		{func(c *conf) { c.Nodes, c.NICsPerNode, c.Leaves = 1, 0, 1 }, "leaves: 1 leaf but no NIC to attach; use 0, or set nics_per_node"},
		// Spines and uplinks.
		{func(c *conf) { c.Spines = 0 }, "spines: 16 leaves need a spine to reach each other; use at least 1"},
		{func(c *conf) { c.Spines = -1 }, "spines: -1 spines; use 0 to 4096"},
		{func(c *conf) { c.Spines, c.LinkRate = 3, 200*units.Gbps },
			"spines: 3 does not divide the 16 uplinks of a leaf (8 NICs x 400Gbps / oversubscription 1 / 200Gbps); use 1, 2, 4, 8 or 16"},
		{func(c *conf) { c.Spines = 16 },
			"spines: 16 does not divide the 8 uplinks of a leaf (8 NICs x 400Gbps / oversubscription 1 / 400Gbps); use 1, 2, 4 or 8"},
		{func(c *conf) { c.Oversubscription, c.UplinksPerLeaf = 0, 6 },
			"spines: 8 does not divide the 6 uplinks of a leaf (uplinks_per_leaf); use 1, 2, 3 or 6"},
		{func(c *conf) { c.UplinksPerLeaf = 4 },
			"oversubscription: 1 is not what 4 uplinks_per_leaf give, which is 2; set one of the two to 0"},
		{func(c *conf) { c.UplinksPerLeaf = -4 }, "uplinks_per_leaf: -4 uplinks; use 1 to 4096, or 0 to derive them from oversubscription"},
		{func(c *conf) { c.UplinksPerLeaf = math.MaxInt },
			"uplinks_per_leaf: 9223372036854775807 uplinks; use 1 to 4096, or 0 to derive them from oversubscription"},
		{func(c *conf) { c.Oversubscription = 0 }, "oversubscription: 0, and so is uplinks_per_leaf; set one of the two, such as oversubscription 1"},
		{func(c *conf) { c.Oversubscription = 3 },
			"oversubscription: 3 gives 2.667 uplinks per leaf (8 NICs x 400Gbps / oversubscription 3 / 400Gbps); set it to 0 and uplinks_per_leaf to 2 (4:1) or 3 (2.667:1)"},
		{func(c *conf) { c.Oversubscription = 16 },
			"oversubscription: 16 gives 0.5 uplinks per leaf (8 NICs x 400Gbps / oversubscription 16 / 400Gbps); set it to 0 and uplinks_per_leaf to 1 (8:1)"},
		{func(c *conf) { c.Oversubscription = 1e300 },
			"oversubscription: 1e+300 gives 8e-300 uplinks per leaf (8 NICs x 400Gbps / oversubscription 1e+300 / 400Gbps); set it to 0 and uplinks_per_leaf to 1 (8:1)"},
		{func(c *conf) { c.Oversubscription = 1e-3 },
			"oversubscription: 0.001 takes 8000 uplinks per leaf (8 NICs x 400Gbps / oversubscription 0.001 / 400Gbps), more than 4096; use at least 0.001953"},
		{func(c *conf) { c.Oversubscription = 5e-324 },
			"oversubscription: 5e-324 takes +Inf uplinks per leaf (8 NICs x 400Gbps / oversubscription 5e-324 / 400Gbps), more than 4096; use at least 0.001953"},
		{func(c *conf) { c.Oversubscription = -1 },
			"oversubscription: -1 is not a ratio; use 1 (non-blocking), 2, 4, ..., or 0 to derive it from uplinks_per_leaf"},
		{func(c *conf) { c.Oversubscription = math.NaN() },
			"oversubscription: NaN is not a ratio; use 1 (non-blocking), 2, 4, ..., or 0 to derive it from uplinks_per_leaf"},
		{func(c *conf) { c.Oversubscription = math.Inf(1) },
			"oversubscription: +Inf is not a ratio; use 1 (non-blocking), 2, 4, ..., or 0 to derive it from uplinks_per_leaf"},
		{func(c *conf) { c.Nodes, c.Leaves, c.Oversubscription = 1<<17, 1<<17, 0.125 },
			"leaves: 131072 leaves x 64 uplinks are 8388608 cables, more than 4194304; use fewer leaves or uplinks"},
		// Several at once.
		{func(c *conf) { c.Nodes, c.NICRate, c.Wiring = 0, 0, "x" },
			"nodes: 0 servers; use 1 to 1048576\nnic_rate: 0bps; use a rate above 0, up to 100Tbps\nwiring: \"x\" is not a wiring; use packed or rail"},
	} {
		cfg := topology.DefaultConfig()
		c.change(&cfg)
		err := cfg.Validate()
		require.EqualError(t, err, c.want)
		var ps config.Problems
		require.True(t, errors.As(err, &ps))
		_, err = topology.LeafSpine(cfg)
		require.EqualError(t, err, c.want, "the builder refuses what Validate refuses")
	}
}

// TestAdviceIsGood follows the counts that a message offers: each must build.
func TestAdviceIsGood(t *testing.T) {
	for _, leaves := range []int{1, 2, 4, 8, 16} {
		c := topology.DefaultConfig()
		c.Leaves = leaves
		require.NoError(t, c.Validate())
	}
	for _, leaves := range []int{8, 16, 32, 64, 128} {
		c := topology.DefaultConfig()
		c.Wiring, c.Leaves, c.Spines = "rail", leaves, 1
		require.NoError(t, c.Validate())
	}
	for _, uplinks := range []int{2, 3} {
		c := topology.DefaultConfig()
		c.Oversubscription, c.UplinksPerLeaf, c.Spines = 0, uplinks, uplinks
		require.NoError(t, c.Validate())
	}
}

// TestValidConfigsBuild also shows that the generator keeps its promise.
func TestValidConfigsBuild(t *testing.T) {
	require.NoError(t, topology.DefaultConfig().Validate())
	rapid.Check(t, func(t *rapid.T) {
		require.NoError(t, topologytest.Config(t).Validate())
	})
}

// TestAnyNumbers throws arbitrary numbers at the builder: it refuses or builds.
func TestAnyNumbers(t *testing.T) {
	size := rapid.OneOf(rapid.Int(), rapid.IntRange(-1, 20))
	rate := rapid.Custom(func(t *rapid.T) units.Rate { return units.Rate(rapid.Int64().Draw(t, "bps")) })
	delay := rapid.Custom(func(t *rapid.T) sim.Time { return sim.Time(rapid.Int64().Draw(t, "ps")) })
	rapid.Check(t, func(t *rapid.T) {
		c := topology.DefaultConfig()
		for _, p := range []*int{&c.Nodes, &c.GPUsPerNode, &c.NICsPerNode, &c.Leaves, &c.Spines, &c.UplinksPerLeaf} {
			if rapid.Bool().Draw(t, "change") {
				*p = size.Draw(t, "size")
			}
		}
		for _, p := range []*units.Rate{&c.NICRate, &c.LinkRate} {
			if rapid.Bool().Draw(t, "change") {
				*p = rate.Draw(t, "rate")
			}
		}
		c.LinkDelay = delay.Draw(t, "delay")
		c.Oversubscription = rapid.Float64().Draw(t, "oversubscription")
		c.Wiring = rapid.SampledFrom([]topology.Wiring{"packed", "rail", "ring"}).Draw(t, "wiring")
		if g, err := topology.LeafSpine(c); err == nil {
			require.Equal(t, c.Nodes*c.GPUsPerNode, g.GPUs())
		}
	})
}

func TestConfigYAML(t *testing.T) {
	want := topology.DefaultConfig()
	out, err := yaml.Marshal(want)
	require.NoError(t, err)
	require.Equal(t, `nodes: 16
gpus_per_node: 8
nics_per_node: 8
nvlink_rate: 1280Gbps
nvlink_delay: 1.665us
leaves: 16
spines: 8
nic_rate: 400Gbps
link_rate: 400Gbps
link_delay: 500ns
switch_latency: 500ns
nic_latency: 1.05us
oversubscription: 1
uplinks_per_leaf: 0
wiring: packed
`, string(out))
	var got topology.Config
	require.NoError(t, yaml.Unmarshal(out, &got))
	require.Equal(t, want, got)
}
