package fabric

import (
	"fmt"
	"math/rand/v2"
	"runtime"
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

// BenchmarkCollectiveRivals runs all-to-alls that share links with each other:
// two of the same group at once, as with two micro-batches, and groups of GPUs
// strided over the leaves, which meet on the spine links.
func BenchmarkCollectiveRivals(b *testing.B) {
	for _, ep := range []int{32, 128} {
		b.Run(fmt.Sprintf("twins/ep=%d", ep), func(b *testing.B) {
			benchmarkRivals(b, 256, [][]topology.GPU{gpuRange(0, ep), gpuRange(0, ep)})
		})
	}
	for _, gpus := range []int{128, 1024} {
		for _, load := range []int{10, 100} { // percent of the time in communication
			b.Run(fmt.Sprintf("strided/gpus=%d/ep=32/load=%d", gpus, load), func(b *testing.B) {
				groups := make([][]topology.GPU, gpus/32)
				for i := range gpus {
					groups[i%len(groups)] = append(groups[i%len(groups)], topology.GPU(i))
				}
				benchmarkRivalsAt(b, gpus, groups, sim.Time(100-load)*7*sim.Microsecond/2)
			})
		}
	}
}

func benchmarkRivals(b *testing.B, gpus int, groups [][]topology.GPU) {
	benchmarkRivalsAt(b, gpus, groups, 20*sim.Microsecond)
}

func benchmarkRivalsAt(b *testing.B, gpus int, groups [][]topology.GPU, startup sim.Time) {
	e, n := silent(b, DefaultConfig(), build(b, cluster(gpus)))
	for i, group := range groups {
		c, err := n.NewCollective(allToAll("ep", group, 56_000_000/int64(len(group))))
		require.NoError(b, err)
		c.SetUnits(same(len(group), 64))
		r := &again{c: c, startup: startup, left: (b.N + len(groups) - 1) / len(groups)}
		e.RunUntil(sim.Time(i*i) * sim.Microsecond)
		c.Start(startup+sim.Time(i*i%97)*sim.Microsecond, 0, r)
	}
	b.ReportAllocs()
	b.ResetTimer()
	e.Run()
	b.ReportMetric(float64(n.round)/float64(b.N), "solves/op")
	b.ReportMetric(float64(len(n.collectives[0].spread.links)), "links")
}

// BenchmarkSend sends messages between random GPUs, never more than a few on one
// link, as KV transfers do.
func BenchmarkSend(b *testing.B) {
	for _, gpus := range []int{16, 128, 1024, 8192} {
		for _, qps := range []int{1, 4} {
			b.Run(fmt.Sprintf("gpus=%d/qps=%d", gpus, qps), func(b *testing.B) {
				e, n := silent(b, DefaultConfig(), build(b, cluster(gpus)))
				r := rand.New(rand.NewPCG(1, 2))
				s := sender{n: n, r: r, gpus: gpus, qps: qps}
				for range max(1, gpus/8) { // an eighth of the NICs are busy
					s.send()
				}
				b.ReportAllocs()
				b.ResetTimer()
				for s.left = b.N; s.left > 0; {
					e.RunUntil(e.Now() + sim.Millisecond)
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
			})
		}
	}
}

// A sender sends a message for every one that arrives.
type sender struct {
	n               *network
	r               *rand.Rand
	gpus, qps, left int
}

func (s *sender) send() {
	s.n.Send(Message{
		Src: topology.GPU(s.r.IntN(s.gpus)), Dst: topology.GPU(s.r.IntN(s.gpus)), QPs: s.qps,
		Bytes: units.Bytes(1e6 + s.r.IntN(1e7)),
	}, s)
}

func (s *sender) Delivered(Delivery) {
	s.left--
	s.send()
}

// BenchmarkMemory is the memory per flowing message, all of them on their links.
func BenchmarkMemory(b *testing.B) {
	g := build(b, cluster(1024))
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		const flows = 200_000
		e, n := silent(b, DefaultConfig(), g)
		var s sink
		for i := range flows {
			n.Send(Message{Src: topology.GPU(i % 1024), Dst: topology.GPU(i * 7 / 5 % 1024), Bytes: 1 << 40}, &s)
		}
		e.RunUntil(0)
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/flows, "B/flow")
		runtime.KeepAlive(n)
	}
}

// BenchmarkNewCollective is the set-up, once per collective and placement, and
// SetUnits with the Start that takes it up, once per step.
func BenchmarkNewCollective(b *testing.B) {
	for _, ep := range []int{32, 128, 320} {
		spec := allToAll("ep", gpuRange(0, ep), 1e6)
		b.Run(fmt.Sprintf("new/ep=%d", ep), func(b *testing.B) {
			_, n := silent(b, DefaultConfig(), build(b, cluster(512)))
			for b.Loop() {
				c, err := n.NewCollective(spec)
				require.NoError(b, err)
				b.StopTimer()
				for _, l := range c.(*collective).spread.links {
					n.users[l] = n.users[l][:0] // not against each other
				}
				b.StartTimer()
			}
		})
		b.Run(fmt.Sprintf("units/ep=%d", ep), func(b *testing.B) {
			_, n := silent(b, DefaultConfig(), build(b, cluster(512)))
			c, err := n.NewCollective(spec)
			require.NoError(b, err)
			us, step := same(ep, 64), int64(0)
			b.ReportAllocs()
			for b.Loop() {
				step++
				us[step%int64(ep)] = 60 + step%8
				c.SetUnits(us)
				c.(*collective).reload()
			}
		})
	}
}

// BenchmarkAllToAll runs AllToAlls over 2 queue pairs with 128 tokens per rank, one
// after the other: of the same units each, or of others each, drawn for every pair
// of GPUs.
func BenchmarkAllToAll(b *testing.B) {
	for _, ep := range []int{32, 64, 128, 256} {
		b.Run(fmt.Sprintf("same/ep=%d", ep), func(b *testing.B) {
			spec := allToAll("same", gpuRange(0, ep), 7_392_000*8/int64(ep))
			benchmarkAllToAll(b, ep, spec, [][]int64{same(ep, 128)})
		})
		b.Run(fmt.Sprintf("drawn/ep=%d", ep), func(b *testing.B) {
			spec := pairwise("drawn", gpuRange(0, ep), 7_392)
			r := rand.New(rand.NewPCG(1, 2))
			drawn := make([][]int64, 8)
			for i := range drawn {
				drawn[i] = make([]int64, spec.Ranks)
				for range ep * 128 * 8 {
					drawn[i][r.IntN(len(drawn[i]))] += 1000
				}
			}
			benchmarkAllToAll(b, ep, spec, drawn)
		})
	}
}

// pairwise is allToAll with units of their own for every pair.
func pairwise(name string, group []topology.GPU, milli int64) CollectiveSpec {
	s := allToAll(name, group, milli)
	s.Ranks = len(group) * len(group)
	for i := range s.Shares {
		x := &s.Shares[i]
		x.Rank = x.Rank*len(group) + int(x.Dst-group[0])
	}
	return s
}

func benchmarkAllToAll(b *testing.B, ep int, spec CollectiveSpec, units [][]int64) {
	e, n := silent(b, DefaultConfig(), build(b, cluster(256)))
	spec.QPs = 2
	c, err := n.NewCollective(spec)
	require.NoError(b, err)
	var s sink
	run := func(i int) {
		if i < 2 || len(units) > 1 {
			c.SetUnits(units[i%len(units)])
		}
		c.Start(20*sim.Microsecond, 0, &s)
		e.Run()
	}
	run(0)
	b.ReportAllocs()
	for i := 1; b.Loop(); i++ {
		run(i)
	}
	b.ReportMetric(float64(len(c.(*collective).spread.links)), "links")
	b.ReportMetric(float64(ep*(ep-1)), "pairs")
}
