package docs

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/fabric/packet"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
	"github.com/tgssim/tgssim/topology/topologytest"
)

// leafSpine is a fabric of the reference: hosts with one GPU and one NIC of 400
// Gb/s, 1 us per link, switches without latency. LS128 has 128 hosts, 16 leaves
// and 8 spines.
func leafSpine(hosts, leaves, spines int) topology.Config {
	c := topologytest.Hosts(hosts, leaves, spines)
	c.LinkDelay = sim.Microsecond
	if spines == 0 {
		c.Oversubscription, c.UplinksPerLeaf = 1, 0
	}
	return c
}

func graph(t testing.TB, c topology.Config) *topology.Graph {
	g, err := topology.LeafSpine(c)
	require.NoError(t, err)
	return g
}

func ls128(t testing.TB) *topology.Graph { return graph(t, leafSpine(128, 16, 8)) }

func preset(t testing.TB, name string) packet.Settings {
	s, err := packet.Preset(name)
	require.NoError(t, err)
	return s
}

// lossless is PFC without congestion control, in HPCC-ns3's buffers.
func lossless(t testing.TB) packet.Settings {
	s := preset(t, "hpcc-ns3-dcqcn")
	s.Fabric.Header = 64
	s.Congestion.Algorithm = "none"
	s.Packet.Transport.WindowBDP = 0
	s.Packet.DeadlockCheck = 3 * sim.Microsecond // pauses galore, and no deadlock
	return s
}

// A log keeps completion times, in microseconds.
type log struct{ fct []float64 }

func (l *log) Delivered(d fabric.Delivery) {
	l.fct = append(l.fct, (d.Arrived - d.Posted).Microseconds())
}

func (l *log) mean() (m float64) {
	for _, v := range l.fct {
		m += v / float64(len(l.fct))
	}
	return m
}

// p99 is the least value that 99 % do not exceed, as the reference has it.
func (l *log) p99() float64 {
	all := slices.Sorted(slices.Values(l.fct))
	return all[(len(all)*99+99)/100-1]
}

func (l *log) max() float64 { return slices.Max(l.fct) }

// A network is one of an engine of its own.
type network struct {
	engine *sim.Engine
	fabric.Network
	log
}

func packets(t testing.TB, s packet.Settings, g *topology.Graph, seed uint64) (*network, *packet.Network) {
	e := sim.New()
	n, err := packet.New(s, e, g, seed)
	require.NoError(t, err)
	return &network{engine: e, Network: n}, n
}

func fluids(t testing.TB, c fabric.Config, g *topology.Graph, seed uint64) *network {
	e := sim.New()
	c.Engine = "flow"
	n, err := fabric.New(c, e, g, seed)
	require.NoError(t, err)
	return &network{engine: e, Network: n}
}

// run sends everything at once and runs to the end.
func (n *network) run(t testing.TB, list []fabric.Message) *network {
	for _, m := range list {
		n.Send(m, &n.log)
	}
	n.engine.Run()
	require.Len(t, n.fct, len(list))
	return n
}

// A tick is an event that does nothing but bring the clock to its instant.
type tick struct{}

func (tick) Handle(sim.Event) {}

// loadsAt runs to an instant and returns what the links have carried by then.
func (n *network) loadsAt(at sim.Time) []fabric.LinkLoad {
	n.engine.At(at, n.engine.Register(tick{}), 0, 0)
	n.engine.RunUntil(at)
	return n.Loads(nil)
}

// incast is hosts first .. first+n-1 sending 1 MiB each to host 0.
func incast(first, n int) (list []fabric.Message) {
	for i := range n {
		list = append(list, fabric.Message{Src: topology.GPU(first + i), Bytes: units.MiB, Tag: uint64(i)})
	}
	return list
}

// allToAll is every pair of hosts 0..n-1, in the order of the reference's lists.
func allToAll(n int, bytes units.Bytes) (list []fabric.Message) {
	for k := 1; k < n; k++ {
		for i := range n {
			list = append(list, fabric.Message{
				Src: topology.GPU(i), Dst: topology.GPU((i + k) % n), Bytes: bytes, Tag: uint64(len(list)),
			})
		}
	}
	return list
}

// permutation is a list of the reference, of 128 hosts and 4 MiB per flow.
func permutation(t testing.TB, seed int) (list []fabric.Message) {
	name := fmt.Sprintf("flows_perm128_s%d.csv", seed)
	text, err := os.ReadFile(filepath.Join("..", "fabric", "testdata", name))
	require.NoError(t, err)
	for _, line := range strings.Fields(string(text)) {
		var src, dst, bytes int
		_, err := fmt.Sscanf(line, "%d,%d,%d", &src, &dst, &bytes)
		require.NoError(t, err)
		list = append(list, fabric.Message{
			Src: topology.GPU(src), Dst: topology.GPU(dst), Bytes: units.Bytes(bytes), Tag: uint64(len(list)),
		})
	}
	return list
}

// lists are the reference's flow lists.
func lists(t testing.TB) map[string][]fabric.Message {
	return map[string][]fabric.Message{
		"incast32": incast(8, 32), "perm128_s1": permutation(t, 1), "perm128_s2": permutation(t, 2),
		"a2a16": allToAll(16, units.MiB), "a2a32": allToAll(32, units.MiB), "a2a64": allToAll(64, units.MiB),
	}
}

// downlink is the link from a GPU's leaf to its NIC.
func downlink(g *topology.Graph, gpu topology.GPU) topology.LinkID {
	return g.NextHops(g.LeafOf(g.NICOf(gpu)), g.NICOf(gpu))[0]
}

// spread is the mean and the standard deviation of a sample.
func spread(x []float64) (mean, sd float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		sd += (v - mean) * (v - mean) / float64(len(x)-1)
	}
	return mean, math.Sqrt(sd)
}
