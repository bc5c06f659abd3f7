package scenarios

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "github.com/tgssim/tgssim/internal/testkit" // the same draws in every run
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/topology"
)

// write writes a scenario file into a folder of the test's own.
func write(t testing.TB, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	return file
}

// grown is deepseek-v3-h800-pd with rules for everything.
const grown = `extends: deepseek-v3-h800-pd
scale:
  fabric: {radix: 64}
  gpus: {prefill: 3, decode: 2}
  load: {rate_per_gpu: 0.6875/s, requests_per_gpu: 37.5}
`

// What follows from the number of servers, worked out by hand.
func TestScaleByHand(t *testing.T) {
	file := write(t, t.TempDir(), "grown.yaml", grown)
	for _, c := range []struct {
		set                     string
		leaves, spines, uplinks int
		prefill, decode         int
		rate                    units.Frequency
		requests                int
	}{
		// 4 servers, 32 NICs, and 32 uplinks fill 64 ports. The 5 x 32 links need 3
		// spines of 64 ports, and 4 is the next number that divides the 32 uplinks.
		{"", 5, 4, 32, 3, 1, 110, 6000},
		{"cluster.nodes=40", 10, 8, 32, 6, 2, 220, 12000},
		// At 2:1 five servers are 40 ports down and 20 up.
		{"cluster.oversubscription=2", 4, 2, 20, 3, 1, 110, 6000},
		// A leaf per server, as the library's scenario has it.
		{"scale.fabric.nodes_per_leaf=1", 20, 4, 8, 3, 1, 110, 6000},
		// A rail's leaf has one NIC of every server: 20 down and 20 up; the 8 x 20
		// links need 3 spines, and 4 divides 20.
		{"cluster.wiring=rail", 8, 4, 20, 3, 1, 110, 6000},
		// NICs of half the rate take half a port: 10 servers would be 40 and 40.
		{"cluster.nic_rate=200Gbps", 4, 2, 20, 3, 1, 110, 6000},
		// Uplinks that are written are taken.
		{"cluster={oversubscription: 0, uplinks_per_leaf: 8, nodes: 20}", 4, 1, 8, 3, 1, 110, 6000},
	} {
		var set []string
		if c.set != "" {
			set = append(set, c.set)
		}
		s, err := Load(file, set...)
		require.NoError(t, err, c.set)
		g, err := topology.LeafSpine(s.Cluster)
		require.NoError(t, err, c.set)
		require.Equal(t, []int{c.leaves, c.spines, c.uplinks}, []int{g.Leaves(), g.Spines(), g.UplinksPerLeaf()}, c.set)
		require.Equal(t, []int{c.prefill, c.decode}, []int{s.Serving.Prefill.Instances, s.Serving.Decode.Instances}, c.set)
		require.Equal(t, c.rate, s.Workload.Arrivals.Rate, c.set)
		require.Equal(t, c.requests, s.Workload.Requests, c.set)
	}
}

// A rule replaces what its file inherits, and yields to what is written beside
// it, above it, or by a setting.
func TestScaleLayers(t *testing.T) {
	dir := t.TempDir()
	leaves := func(ref string, set ...string) (leaves, spines int) {
		s, err := Load(ref, set...)
		require.NoError(t, err)
		return s.Cluster.Leaves, s.Cluster.Spines
	}
	rule := write(t, dir, "rule.yaml", grown)
	l, s := leaves(rule)
	require.Equal(t, []int{5, 4}, []int{l, s}, "over what it extends, 20 and 8")

	beside := write(t, dir, "beside.yaml", grown+"cluster: {leaves: 10}\n")
	l, s = leaves(beside)
	require.Equal(t, []int{10, 4}, []int{l, s}, "beside the rule")

	above := write(t, dir, "above.yaml", "extends: ./rule.yaml\ncluster: {spines: 8}\n")
	l, s = leaves(above)
	require.Equal(t, []int{5, 8}, []int{l, s}, "in a file that extends it")

	l, s = leaves(rule, "cluster.leaves=10")
	require.Equal(t, []int{10, 4}, []int{l, s}, "on the command line")
	l, s = leaves(beside, "scale.fabric={radix: 64}")
	require.Equal(t, []int{5, 4}, []int{l, s}, "a rule of the command line, over a file")

	study, err := Open(rule)
	require.NoError(t, err)
	axis, err := ParseAxis("cluster.leaves=10")
	require.NoError(t, err)
	c, err := study.Scenario(axis.Values[0].Settings...)
	require.NoError(t, err)
	require.Equal(t, 10, c.Cluster.Leaves, "by a setting")
	axis, err = ParseAxis("scale.fabric.radix=128")
	require.NoError(t, err)
	study, err = Open(beside, "cluster.spines=8")
	require.NoError(t, err)
	c, err = study.Scenario(axis.Values[0].Settings...)
	require.NoError(t, err)
	require.Equal(t, []int{4, 2}, []int{c.Cluster.Leaves, c.Cluster.Spines}, "a rule of a setting, over everything")

	// What is worked out is listed, and stands in the resolved scenario, which has
	// no rules left.
	c, err = Load(beside)
	require.NoError(t, err)
	require.Equal(t, []Derived{
		{"cluster.spines", "4", "scale.fabric"},
		{"prefill.instances", "3", "scale.gpus"}, {"decode.instances", "1", "scale.gpus"},
		{"workload.arrivals.rate", "110/s", "scale.load"}, {"workload.requests", "6000", "scale.load"},
	}, c.Derived())
	text, err := c.Resolved()
	require.NoError(t, err)
	require.NotContains(t, string(text), "scale:")
	resolved := write(t, dir, "resolved.yaml", string(text))
	again, err := Load(resolved)
	require.NoError(t, err)
	require.Equal(t, c.Cluster, again.Cluster)
	require.Equal(t, c.Workload, again.Workload)
	require.Empty(t, again.Derived())
}

func TestScaleStrong(t *testing.T) {
	file := write(t, t.TempDir(), "strong.yaml", `extends: deepseek-v3-h800-pd
scale:
  instances: {per_nodes: 20, prefill: 3, decode: 1}
  load: {rate: 90/s, requests: 500}
`)
	for _, nodes := range []int{20, 40, 80} {
		s, err := Load(file, fmt.Sprint("cluster.nodes=", nodes), fmt.Sprint("cluster.leaves=", nodes))
		require.NoError(t, err)
		require.EqualValues(t, 90, s.Workload.Arrivals.Rate)
		require.Equal(t, 500, s.Workload.Requests)
		require.Equal(t, nodes/20*3, s.Serving.Prefill.Instances)
		require.Equal(t, nodes/20, s.Serving.Decode.Instances)
	}
}

func TestScaleRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ scale, set, want string }{
		{"fabric: {}", "", "s.yaml:3: scale.fabric.radix: 0 ports; use 2 to 4096, such as 64"},
		{"fabric: {radix: 64, spines: 2}", "", "scale.fabric.spines: unknown key"},
		{"fabrics: {radix: 64}", "", "s.yaml:3: scale.fabrics: unknown key; did you mean fabric?"},
		{"fabric: {radix: 64}", "cluster.nodes=260", "s.yaml:3: scale.fabric: 260 servers need 65 leaves, and a spine of 64 ports reaches no more than 64"},
		{"fabric: {radix: 8}", "", "scale.fabric: no number of servers that divides 20 fills a leaf of 8 ports with whole uplinks: one server takes 8 ports and 8 for uplinks (oversubscription 1)"},
		{"fabric: {radix: 64, nodes_per_leaf: 3}", "", "scale.fabric: 20 servers do not fill leaves of nodes_per_leaf 3 evenly"},
		{"fabric: {radix: 64, nodes_per_leaf: 5}", "", "scale.fabric: nodes_per_leaf 5 takes 40 ports of a leaf and 40 for uplinks (oversubscription 1): they must be whole and at most 64 in all"},
		{"fabric: {radix: 64, nodes_per_leaf: 1}", "cluster.oversubscription=3", "8 ports of a leaf and 2.667 for uplinks"},
		{"fabric: {radix: 64}", "cluster.nodes=0", "cluster.nodes: 0 servers; use 1 to"},
		{"gpus: {prefill: 1, decode: 1}", "", "s.yaml:3: scale.gpus: 1 of 2 parts of 160 GPUs are 80 GPUs for prefill, which are no whole instances of 32 (tp 4 x dp 8)"},
		{"gpus: {prefill: 3, decode: 0}", "", "scale.gpus.decode: 0 is out of range"},
		{"gpus: {prefill: 3, decode: 2}\n  instances: {per_nodes: 20, prefill: 3, decode: 1}", "", "s.yaml:4: scale.instances: gpus works out the instances already"},
		{"instances: {per_nodes: 3, prefill: 3, decode: 1}", "", "scale.instances: 20 servers are no multiple of per_nodes 3"},
		{"load: {}", "", "scale.load: says nothing"},
		{"load: {rate: 5/s, rate_per_gpu: 1/s}", "", "scale.load.rate: rate_per_gpu lets the rate follow the GPUs"},
		{"load: {requests: 5, requests_per_gpu: 1}", "", "scale.load.requests: requests_per_gpu lets them follow"},
		{"load: {requests_per_gpu: -1}", "", "scale.load.requests_per_gpu: -1 is out of range"},
		{"load: {rate: 5/s}", "workload.arrivals={process: at_once}", "s.yaml:3: scale.load: there is no rate to set"},
	} {
		file := write(t, dir, "s.yaml", "extends: deepseek-v3-h800-pd\nscale:\n  "+c.scale+"\n")
		var set []string
		if c.set != "" {
			set = append(set, c.set)
		}
		_, err := Load(file, set...)
		require.ErrorContains(t, err, c.want, c.scale)
	}
	_, err := Load(write(t, dir, "s.yaml", "extends: deepseek-v3-h800-pd\nscale: 3\n"))
	require.ErrorContains(t, err, "s.yaml:2: scale: expected a mapping")
}

// Every fabric that the rule builds can be built, has the oversubscription that
// was asked for and no switch with more ports than the radix; and no fabric of
// fewer leaves, or of as many leaves and fewer spines, has.
func TestFabricIsLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := topology.DefaultConfig()
		c.Nodes = rapid.IntRange(1, 40).Draw(t, "nodes")
		c.NICsPerNode = rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "nics")
		c.Oversubscription = rapid.SampledFrom([]float64{0.5, 1, 1.5, 2, 3, 4}).Draw(t, "oversubscription")
		c.NICRate = rapid.SampledFrom([]units.Rate{100 * units.Gbps, 400 * units.Gbps}).Draw(t, "rate")
		c.Wiring = rapid.SampledFrom([]topology.Wiring{topology.WiringPacked, topology.WiringRail}).Draw(t, "wiring")
		f := FabricRule{Radix: rapid.SampledFrom([]int{4, 8, 16, 32, 64}).Draw(t, "radix")}
		got, err := f.build(c)
		want, found := leastFabric(c, f.Radix)
		require.Equal(t, found, err == nil, "%v", err)
		if err != nil {
			return
		}
		require.Equal(t, want, got)
		c.Leaves, c.Spines = got.leaves, got.spines
		require.NoError(t, c.Validate())
		if c.Spines > 0 {
			g, err := topology.LeafSpine(c)
			require.NoError(t, err)
			require.InDelta(t, c.Oversubscription, g.Oversubscription(), 1e-9)
		}
	})
}

// leastFabric tries all fabrics, fewest leaves first.
func leastFabric(c topology.Config, radix int) (twoTier, bool) {
	for leaves := 1; leaves <= c.Nodes*c.NICsPerNode; leaves++ {
		for spines := 0; spines <= radix; spines++ {
			c.Leaves, c.Spines = leaves, spines
			if c.Validate() != nil {
				continue
			}
			down := float64(c.Nodes*c.NICsPerNode) / float64(leaves) * float64(c.NICRate) / float64(c.LinkRate)
			up := 0.
			if spines > 0 {
				up = math.Round(down / c.Oversubscription)
			} else if c.Wiring == topology.WiringRail && leaves > 1 {
				continue
			}
			if leaves == 1 && spines > 0 {
				continue // what would they be for
			}
			if down+up <= float64(radix)+1e-9 && (spines == 0 || float64(leaves)*up <= float64(radix*spines)) {
				return twoTier{leaves, spines}, true
			}
		}
	}
	return twoTier{}, false
}
