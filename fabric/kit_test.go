package fabric

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
	"github.com/tgssim/tgssim/topology/topologytest"
)

var bare, ls128 = topologytest.Hosts, topologytest.LS128

// cluster is n servers of 8 GPUs with 8 NICs, four servers (32 NICs) to a leaf
// where there are as many, non-blocking.
func cluster(gpus int) topology.Config {
	c := topology.DefaultConfig()
	c.Nodes = gpus / 8
	c.Leaves = max(1, c.Nodes/4)
	c.Spines = 32
	if c.Leaves == 1 {
		c.Spines = 0
		c.Oversubscription, c.UplinksPerLeaf = 1, 0
	}
	return c
}

func build(t testing.TB, c topology.Config) *topology.Graph {
	t.Helper()
	g, err := topology.LeafSpine(c)
	require.NoError(t, err)
	return g
}

// A bench is a network with its clock, and everything that it delivered.
type bench struct {
	t          tester
	engine     *sim.Engine
	graph      *topology.Graph
	net        *network
	deliveries []Delivery
}

func (b *bench) Delivered(d Delivery) {
	require.Equal(b.t, b.engine.Now(), d.Arrived, "delivered at another time than it says")
	require.Equal(b.t, d.Arrived-d.Posted, d.Post+d.Wire+d.Queue, "pieces do not sum")
	require.GreaterOrEqual(b.t, d.Queue, sim.Time(0), "faster than alone")
	b.deliveries = append(b.deliveries, d)
}

// tester is a test, or a case of a property test.
type tester interface {
	require.TestingT
	Helper()
}

func newBench(t tester, c Config, g *topology.Graph, opts ...sim.Option) *bench {
	t.Helper()
	b := &bench{t: t, engine: sim.New(opts...), graph: g}
	n, err := New(c, b.engine, g, 1)
	require.NoError(t, err)
	b.net = n.(*network)
	return b
}

// run executes everything and checks that nothing stays in flight.
func (b *bench) run() []Delivery {
	b.t.Helper()
	b.engine.Run()
	b.idle()
	return b.deliveries
}

// at runs do at an instant.
func (b *bench) at(when sim.Time, do func()) {
	b.engine.At(when, b.engine.Register(event(do)), 0, 0)
}

type event func()

func (e event) Handle(sim.Event) { e() }

// idle checks that the network is empty.
func (b *bench) idle() {
	b.t.Helper()
	n := b.net
	b.net.checkAccount()
	t := n.Totals()
	require.Equal(b.t, t.SentBytes, t.DeliveredBytes)
	require.Equal(b.t, t.SentMessages, t.DeliveredMessages)
	require.Empty(b.t, n.flowing)
	require.Zero(b.t, n.contended)
	for l := range n.links {
		require.Empty(b.t, n.links[l].members)
		require.True(b.t, n.links[l].total.zero())
		require.Zero(b.t, n.demands[l].sum)
	}
	for _, c := range n.collectives {
		require.Zero(b.t, c.near)
		require.Zero(b.t, c.running)
	}
}

// arrivals returns the arrival time of each tag below n.
func (b *bench) arrivals(n int) []sim.Time {
	at := make([]sim.Time, n)
	for _, d := range b.deliveries {
		at[d.Tag] = d.Arrived
	}
	return at
}

// flowList is one of the reference's flow lists: lines of
// "source,destination,bytes" in testdata, but for the long ones of all pairs.
func flowList(t testing.TB, name string) []Message {
	t.Helper()
	var hosts int
	if _, err := fmt.Sscanf(name, "flows_a2a%d.csv", &hosts); err == nil {
		return allPairs(hosts)
	}
	return carriedList(t, name)
}

// carriedList reads a list of testdata.
func carriedList(t testing.TB, name string) []Message {
	text, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	var ms []Message
	for _, line := range strings.Fields(string(text)) {
		var v [3]int
		for i, f := range strings.Split(line, ",") {
			v[i], err = strconv.Atoi(f)
			require.NoError(t, err)
		}
		ms = append(ms, Message{
			Src: topology.GPU(v[0]), Dst: topology.GPU(v[1]), Bytes: units.Bytes(v[2]), Tag: uint64(len(ms)),
		})
	}
	return ms
}

// allPairs is a2aN: first everyone to its next neighbour, then to the one after.
func allPairs(hosts int) []Message {
	var ms []Message
	for step := 1; step < hosts; step++ {
		for src := range hosts {
			ms = append(ms, Message{
				Src: topology.GPU(src), Dst: topology.GPU((src + step) % hosts), Bytes: units.MiB, Tag: uint64(len(ms)),
			})
		}
	}
	return ms
}

// allToAll is a collective of every GPU in the group to every other, milli
// thousandths of a byte per unit and pair.
func allToAll(name string, group []topology.GPU, milli int64) CollectiveSpec {
	s := CollectiveSpec{Name: name, Class: ClassEP, Ranks: len(group)}
	for r, src := range group {
		for _, dst := range group {
			if src != dst {
				s.Shares = append(s.Shares, Share{Rank: r, Src: src, Dst: dst, Milli: milli})
			}
		}
	}
	return s
}

func gpuRange(lo, hi int) []topology.GPU {
	var g []topology.GPU
	for i := lo; i < hi; i++ {
		g = append(g, topology.GPU(i))
	}
	return g
}

func same(n int, v int64) []int64 {
	u := make([]int64, n)
	for i := range u {
		u[i] = v
	}
	return u
}

// queued is a share of one queue pair.
type queued struct {
	Share
	qp int
}

// perQueuePair splits the shares of a spec over its queue pairs.
func perQueuePair(g *topology.Graph, spec CollectiveSpec) (all []queued) {
	for _, s := range spec.Shares {
		qps := max(1, spec.QPs)
		if g.ServerOf(s.Src) == g.ServerOf(s.Dst) {
			qps = 1
		}
		for qp := range qps {
			part := s
			part.Milli = (s.Milli + int64(qps-1-qp)) / int64(qps)
			all = append(all, queued{part, qp})
		}
	}
	return all
}
