package fabric

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

func TestDefaultConfig(t *testing.T) {
	c := DefaultConfig()
	require.NoError(t, c.Validate())
	require.InDelta(t, 0.98037, float64(c.MTU)/float64(c.MTU+c.Header), 5e-6, "RoCEv2's efficiency")
	require.Contains(t, EngineNames(), c.Engine)
}

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		key, says string
		change    func(*Config)
	}{
		{"engine", "did you mean ideal?", func(c *Config) { c.Engine = "ideel" }},
		{"engine", "did you mean packet?", func(c *Config) { c.Engine = "packets!" }},
		{"engine", "known", func(c *Config) { c.Engine = "" }},
		{"mtu", "64B to 64KiB", func(c *Config) { c.MTU = 0 }},
		{"mtu", "64B to 64KiB", func(c *Config) { c.MTU = 65537 }},
		{"mtu", "64B to 64KiB", func(c *Config) { c.MTU = -4096 }},
		{"header", "0 to 4KiB", func(c *Config) { c.Header = -1 }},
		{"header", "0 to 4KiB", func(c *Config) { c.Header = 4097 }},
		{"nvlink_efficiency", "above 0 up to 1", func(c *Config) { c.NVLinkEfficiency = 0 }},
		{"nvlink_efficiency", "above 0 up to 1", func(c *Config) { c.NVLinkEfficiency = 1.01 }},
		{"nvlink_efficiency", "above 0 up to 1", func(c *Config) { c.NVLinkEfficiency = nan() }},
		{"sample_layers", "0 for all", func(c *Config) { c.SampleLayers = -1 }},
		{"sample_layers", "1 to 1024 layers", func(c *Config) { c.SampleLayers = 1025 }},
	} {
		c := DefaultConfig()
		tc.change(&c)
		err := c.Validate()
		var ps config.Problems
		require.ErrorAs(t, err, &ps, tc.key)
		require.Len(t, ps, 1)
		require.Equal(t, tc.key, ps[0].Key)
		require.Contains(t, ps[0].Message, tc.says)
		_, err = New(c, sim.New(), build(t, bare(2, 1, 0)), 1)
		require.Error(t, err, "New accepts what Validate refuses")
	}
	for _, c := range []Config{
		{Engine: "flow", MTU: 64, Header: 0, NVLinkEfficiency: 1e-6},
		{Engine: "ideal", MTU: 64 * units.KiB, Header: 4 * units.KiB, NVLinkEfficiency: 1, SampleLayers: 1024},
	} {
		require.NoError(t, c.Validate())
		_, err := New(c, sim.New(), build(t, bare(2, 1, 0)), 1)
		require.NoError(t, err)
	}
}

func nan() float64 { zero := 0.; return zero / zero }

func TestNewRefusesLinksWithoutRate(t *testing.T) {
	g := build(t, bare(2, 1, 0))
	g.Links[3].Rate = 0
	_, err := New(DefaultConfig(), sim.New(), g, 1)
	require.ErrorContains(t, err, g.Links[3].Name)
}

// The seed of the run moves the paths unless the scenario fixes them.
func TestECMPSeed(t *testing.T) {
	g := build(t, ls128())
	paths := func(c Config, seed uint64) [][]topology.LinkID {
		n, err := New(c, sim.New(), g, seed)
		require.NoError(t, err)
		var all [][]topology.LinkID
		for dst := topology.GPU(8); dst < 40; dst++ {
			all = append(all, append([]topology.LinkID(nil), n.(*network).pathOf(0, dst, 0, ClassKV)...))
		}
		return all
	}
	free, fixed := DefaultConfig(), DefaultConfig()
	fixed.ECMPSeed = 7
	require.Equal(t, paths(free, 1), paths(free, 1))
	require.NotEqual(t, paths(free, 1), paths(free, 2))
	require.Equal(t, paths(fixed, 1), paths(fixed, 2))
	require.Equal(t, paths(fixed, 1), paths(free, 7))
}

// Queue pairs of one pair of GPUs, and the two classes, are told apart.
func TestQueuePairsSpreadOverPaths(t *testing.T) {
	b := newBench(t, DefaultConfig(), build(t, ls128()))
	used := map[topology.LinkID]bool{}
	for qp := range 64 {
		used[b.net.pathOf(0, 127, qp, ClassKV)[1]] = true
	}
	require.Len(t, used, 8, "64 queue pairs leave an uplink idle")
	differ := 0
	for dst := topology.GPU(8); dst < 72; dst++ {
		kv := b.net.pathOf(0, dst, 0, ClassKV)[1]
		if kv != b.net.pathOf(0, dst, 0, ClassEP)[1] {
			differ++
		}
	}
	require.Greater(t, differ, 40)
}
