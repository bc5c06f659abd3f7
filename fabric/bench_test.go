package fabric

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

type sink struct{ last sim.Time }

func (s *sink) Delivered(d Delivery) { s.last = d.Arrived }

func silent(b *testing.B, c Config, g *topology.Graph) (*sim.Engine, *network) {
	e := sim.New()
	n, err := New(c, e, g, 1)
	require.NoError(b, err)
	return e, n.(*network)
}

func BenchmarkFlowList(b *testing.B) {
	for _, name := range []string{"flows_incast32.csv", "flows_perm128_s1.csv", "flows_a2a32.csv", "flows_a2a64.csv"} {
		b.Run(name, func(b *testing.B) {
			list := flowList(b, name)
			benchmarkList(b, build(b, ls128()), list)
		})
	}
	b.Run("perm8192", func(b *testing.B) {
		c := bare(8192, 256, 32)
		benchmarkList(b, build(b, c), permutation(8192, 1*units.MiB))
	})
}

// permutation is a random permutation of n hosts, without messages to oneself.
func permutation(n int, bytes units.Bytes) []Message {
	r := rand.New(rand.NewPCG(1, 2))
	p := r.Perm(n)
	var ms []Message
	for i := range p {
		ms = append(ms, Message{Src: topology.GPU(p[i]), Dst: topology.GPU(p[(i+1)%n]), Bytes: bytes})
	}
	return ms
}

func benchmarkList(b *testing.B, g *topology.Graph, list []Message) {
	e, n := silent(b, DefaultConfig(), g)
	var s sink
	b.ReportAllocs()
	var began sim.Time
	rounds := n.round
	for b.Loop() {
		began = e.Now()
		for _, m := range list {
			n.Send(m, &s)
		}
		e.Run()
	}
	b.ReportMetric((s.last - began).Microseconds(), "fct-us")
	b.ReportMetric(float64(n.round-rounds)/float64(b.N), "solves/op")
	b.ReportMetric(float64(b.N*len(list))/b.Elapsed().Seconds(), "messages/s")
}

// again starts its collective anew whenever it is through, left times.
type again struct {
	c       Collective
	left    int
	startup sim.Time
}

func (a *again) Delivered(Delivery) {
	if a.left--; a.left > 0 {
		a.c.Start(a.startup, 0, a)
	}
}

// BenchmarkCollective runs one all-to-all per EP group, all groups at once.
func BenchmarkCollective(b *testing.B) {
	for _, gpus := range []int{16, 128, 1024, 8192} {
		for _, ep := range []int{8, 32, 128} {
			if ep > gpus {
				continue
			}
			b.Run(fmt.Sprintf("gpus=%d/ep=%d", gpus, ep), func(b *testing.B) {
				benchmarkGroups(b, gpus, ep)
			})
		}
	}
}

func benchmarkGroups(b *testing.B, gpus, ep int) {
	g := build(b, cluster(gpus))
	e, n := silent(b, DefaultConfig(), g)
	var runs []*again
	for lo := 0; lo < gpus; lo += ep {
		c, err := n.NewCollective(allToAll("ep", gpuRange(lo, lo+ep), 56_000_000/int64(ep)))
		require.NoError(b, err)
		u := same(ep, 64)
		for i := range u {
			u[i] += int64(i % 3)
		}
		c.SetUnits(u)
		runs = append(runs, &again{c: c, startup: 20 * sim.Microsecond})
	}
	b.ReportAllocs()
	for i, r := range runs {
		r.left = (b.N + len(runs) - 1) / len(runs)
		e.RunUntil(e.Now() + sim.Time(i%7)*sim.Microsecond)
		r.c.Start(r.startup, 0, r)
	}
	b.ResetTimer()
	e.Run()
	b.ReportMetric(float64(n.round)/float64(b.N), "solves/op")
	b.ReportMetric(float64(len(n.collectives[0].spread.links)), "links")
}

// BenchmarkCollectiveShared runs one all-to-all on 128 GPUs over and over while
// a number of KV flows without end cross its links.
func BenchmarkCollectiveShared(b *testing.B) {
	for _, ep := range []int{32, 128} {
		for _, kv := range []int{0, 1, 5, 20} {
			b.Run(fmt.Sprintf("ep=%d/kv=%d", ep, kv), func(b *testing.B) {
				g := build(b, cluster(256))
				e, n := silent(b, DefaultConfig(), g)
				c, err := n.NewCollective(allToAll("ep", gpuRange(0, ep), 56_000_000/int64(ep)))
				require.NoError(b, err)
				c.SetUnits(same(ep, 64))
				var s sink
				for i := range kv {
					n.Send(Message{Src: topology.GPU(128 + i), Dst: topology.GPU(i), Bytes: 1 << 50}, &s)
				}
				r := &again{c: c, startup: 20 * sim.Microsecond, left: b.N}
				c.Start(r.startup, 0, r)
				b.ReportAllocs()
				b.ResetTimer()
				for r.left > 0 {
					e.RunUntil(e.Now() + sim.Millisecond)
				}
				b.ReportMetric(float64(n.round)/float64(b.N), "solves/op")
				b.ReportMetric(float64(len(n.collectives[0].spread.links)), "links")
			})
		}
	}
}
