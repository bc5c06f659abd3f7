package packet

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
	"github.com/tgssim/tgssim/topology/topologytest"
)

var bare, ls128 = topologytest.Hosts, topologytest.LS128

// star is n hosts under one switch, 1 us from it.
func star(n int, rate units.Rate) topology.Config {
	c := bare(n, 1, 0)
	c.NICRate, c.LinkDelay = rate, sim.Microsecond
	c.Oversubscription, c.UplinksPerLeaf = 1, 0
	return c
}

// tester is a test, or a case of a property test.
type tester interface {
	require.TestingT
	Helper()
}

func build(t tester, c topology.Config) *topology.Graph {
	t.Helper()
	g, err := topology.LeafSpine(c)
	require.NoError(t, err)
	return g
}

func preset(t tester, name string) Settings {
	t.Helper()
	s, err := Preset(name)
	require.NoError(t, err)
	return s
}

// A bench is a network with its clock, and everything that it delivered.
type bench struct {
	t          tester
	engine     *sim.Engine
	net        *Network
	deliveries []fabric.Delivery
}

func (b *bench) Delivered(d fabric.Delivery) {
	require.Equal(b.t, b.engine.Now(), d.Arrived, "delivered at another time than it says")
	require.Equal(b.t, d.Arrived-d.Posted, d.Post+d.Wire+d.Queue, "pieces do not sum")
	require.GreaterOrEqual(b.t, d.Queue, sim.Time(0))
	b.deliveries = append(b.deliveries, d)
}

func newBench(t tester, s Settings, g *topology.Graph, opts ...sim.Option) *bench {
	return newSeededBench(t, s, g, 1, opts...)
}

func newSeededBench(t tester, s Settings, g *topology.Graph, seed uint64, opts ...sim.Option) *bench {
	t.Helper()
	b := &bench{t: t, engine: sim.New(opts...)}
	n, err := New(s, b.engine, g, seed)
	require.NoError(t, err)
	b.net = n
	return b
}

// at runs do at an instant.
func (b *bench) at(when sim.Time, do func()) {
	b.engine.At(when, b.engine.Register(event(do)), 0, 0)
}

type event func()

func (e event) Handle(sim.Event) { e() }

// run executes everything and checks that the network is empty and that nothing
// has been lost. What still moves after 100 seconds is in a circle.
func (b *bench) run() []fabric.Delivery {
	b.t.Helper()
	b.engine.RunUntil(100 * sim.Second)
	b.idle()
	return b.deliveries
}

// idle checks that nothing is left anywhere.
func (b *bench) idle() {
	b.t.Helper()
	n := b.net
	t := n.Totals()
	require.Equal(b.t, t.SentBytes, t.DeliveredBytes)
	require.Equal(b.t, t.SentMessages, t.DeliveredMessages)
	require.Equal(b.t, [fabric.NumClasses]units.Bytes{}, t.InFlightBytes)
	require.Empty(b.t, n.Notices())
	require.NoError(b.t, n.Check())
	require.Zero(b.t, n.inUse, "packets in use")
	require.Zero(b.t, b.engine.Pending())
	for i := range n.senders {
		s, r := &n.senders[i], &n.receivers[i]
		require.Equal(b.t, s.lastEnd, s.una)
		require.Equal(b.t, s.lastEnd, r.expected)
		require.Equal(b.t, none, s.first)
		require.Zero(b.t, r.window.held)
	}
	for l, bytes := range n.promised {
		require.Zero(b.t, bytes, n.graph.Links[l].Name)
	}
	for _, buf := range n.buffers {
		require.Zero(b.t, buf.Use().Total)
	}
}

// fct sums up completion times in microseconds.
type fct struct{ mean, p99, max float64 }

func summarise(ds []fabric.Delivery) fct {
	var f fct
	var all []float64
	for _, d := range ds {
		us := (d.Arrived - d.Posted).Microseconds()
		all = append(all, us)
		f.mean += us / float64(len(ds))
		f.max = max(f.max, us)
	}
	slices.Sort(all)
	f.p99 = all[(len(all)*99+99)/100-1]
	return f
}

// flowList is one of the reference's flow lists: lines of
// "source,destination,bytes" in testdata, but for the long ones of all pairs.
func flowList(t testing.TB, name string) []fabric.Message {
	t.Helper()
	var hosts int
	if _, err := fmt.Sscanf(name, "flows_a2a%d.csv", &hosts); err == nil {
		return allPairs(hosts)
	}
	text, err := os.ReadFile(filepath.Join("..", "testdata", name))
	require.NoError(t, err)
	var ms []fabric.Message
	for _, line := range strings.Fields(string(text)) {
		var v [3]int
		for i, f := range strings.Split(line, ",") {
			v[i], err = strconv.Atoi(f)
			require.NoError(t, err)
		}
		ms = append(ms, fabric.Message{
			Src: topology.GPU(v[0]), Dst: topology.GPU(v[1]), Bytes: units.Bytes(v[2]), Tag: uint64(len(ms)),
		})
	}
	return ms
}

// allPairs is a2aN: first everyone to its next neighbour, then to the one after.
func allPairs(hosts int) []fabric.Message {
	var ms []fabric.Message
	for step := 1; step < hosts; step++ {
		for src := range hosts {
			ms = append(ms, fabric.Message{
				Src: topology.GPU(src), Dst: topology.GPU((src + step) % hosts), Bytes: units.MiB, Tag: uint64(len(ms)),
			})
		}
	}
	return ms
}

func allToAll(name string, group []topology.GPU, milli int64) fabric.CollectiveSpec {
	s := fabric.CollectiveSpec{Name: name, Class: fabric.ClassEP, Ranks: len(group)}
	for r, src := range group {
		for _, dst := range group {
			if src != dst {
				s.Shares = append(s.Shares, fabric.Share{Rank: r, Src: src, Dst: dst, Milli: milli})
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
