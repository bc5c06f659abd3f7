package packet

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/congestion"
	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/invariants"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/routing"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

type sink struct{ last sim.Time }

func (s *sink) Delivered(d fabric.Delivery) { s.last = d.Arrived }

// cpu is the processor time that the process has used, in seconds: on a busy
// machine the wall clock measures the neighbours.
func cpu() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Utime.Sec+u.Stime.Sec) + float64(u.Utime.Usec+u.Stime.Usec)/1e6
}

// permutation is a random cycle of n hosts.
func permutation(n int, bytes units.Bytes) []fabric.Message {
	r := rand.New(rand.NewPCG(1, 2))
	p := r.Perm(n)
	var ms []fabric.Message
	for i := range p {
		ms = append(ms, fabric.Message{Src: topology.GPU(p[i]), Dst: topology.GPU(p[(i+1)%n]), Bytes: bytes})
	}
	return ms
}

// dataHops is the number of data packets that links have carried.
func dataHops(n *Network) (hops int64) {
	for l := range n.ports {
		for _, p := range n.ports[l].load(n.train, n.mtu).packets {
			hops += p
		}
	}
	return hops
}

func benchmarkList(b *testing.B, s Settings, tc topology.Config, list []fabric.Message) {
	g := build(b, tc)
	e := sim.New()
	n, err := New(s, e, g, 1)
	require.NoError(b, err)
	var to sink
	b.ReportAllocs()
	events, hops := e.Events(), dataHops(n)
	began := e.Now()
	used := cpu()
	for b.Loop() {
		began = e.Now()
		for _, m := range list {
			n.Send(m, &to)
		}
		e.Run()
	}
	used = cpu() - used
	hops = dataHops(n) - hops
	b.ReportMetric(float64(hops)/used/1e6, "Mhops/cpu-s")
	b.ReportMetric(float64(hops)/b.Elapsed().Seconds()/1e6, "Mhops/s")
	b.ReportMetric(float64(e.Events()-events)/used/1e6, "Mevents/cpu-s")
	b.ReportMetric(float64(e.Events()-events)/float64(hops), "events/hop")
	b.ReportMetric((to.last - began).Microseconds(), "fct-us")
}

var flowLists = []string{"flows_incast32.csv", "flows_perm128_s1.csv", "flows_a2a16.csv", "flows_a2a32.csv", "flows_a2a64.csv"}

// BenchmarkFlowList runs the reference's flow lists on LS128: as its bare core
// does (a window, no congestion control, no PFC), and with everything on.
func BenchmarkFlowList(b *testing.B) {
	for _, name := range []string{"line-rate", "hpcc-ns3-dcqcn", "default"} {
		for _, list := range flowLists {
			b.Run(name+"/"+list, func(b *testing.B) {
				benchmarkList(b, preset(b, name), ls128(), flowList(b, list))
			})
		}
	}
}

// BenchmarkControllers is a permutation under every algorithm, acknowledged packet
// by packet, and over every choice of path.
func BenchmarkControllers(b *testing.B) {
	list := flowList(b, "flows_perm128_s1.csv")
	for _, name := range congestion.Algorithms() {
		b.Run(name, func(b *testing.B) {
			s := DefaultSettings()
			s.Packet.Transport.AckEvery, s.Congestion.Algorithm = 1, name
			benchmarkList(b, s, ls128(), list)
		})
	}
	for _, how := range pathChoices() {
		b.Run(how, func(b *testing.B) {
			s := DefaultSettings()
			s.Packet.Path.Choice = how
			benchmarkList(b, s, ls128(), list)
		})
	}
}

// BenchmarkScale runs a permutation of 1 MB on fabrics of all sizes, 32 hosts to
// a leaf: how the cost of a packet-hop and the memory of a host grow.
func BenchmarkScale(b *testing.B) {
	for _, hosts := range []int{16, 128, 1024, 8192} {
		b.Run(fmt.Sprintf("hosts=%d", hosts), func(b *testing.B) {
			tc := bare(hosts, max(1, hosts/32), 32)
			if hosts <= 32 {
				tc.Spines, tc.UplinksPerLeaf = 0, 0
			}
			tc.LinkDelay = sim.Microsecond
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			g := build(b, tc)
			e := sim.New()
			n, err := New(DefaultSettings(), e, g, 1)
			require.NoError(b, err)
			list := permutation(hosts, units.MB)
			var to sink
			used, simulated := cpu(), sim.Time(0)
			for b.Loop() {
				began := e.Now()
				for _, m := range list {
					n.Send(m, &to)
				}
				e.Run()
				simulated += e.Now() - began
			}
			used = cpu() - used
			runtime.GC()
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(dataHops(n))/used/1e6, "Mhops/cpu-s")
			b.ReportMetric(used/simulated.Seconds(), "cpu-s/sim-s")
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(hosts)/1e3, "KB/host")
			runtime.KeepAlive(n)
		})
	}
}

// TestSizes states the memory of the things of which there are many.
func TestSizes(t *testing.T) {
	for _, c := range []struct {
		what      string
		size, max uintptr
	}{
		{"packet", unsafe.Sizeof(packet{}), 32},
		{"queue pair", unsafe.Sizeof(sender{}) + unsafe.Sizeof(receiver{}), 272},
		{"port", unsafe.Sizeof(port{}) + unsafe.Sizeof(switchPort{}) + unsafe.Sizeof(pauseStats{}), 840},
		{"work request", unsafe.Sizeof(request{}), 16},
		{"message", unsafe.Sizeof(job{}), 96},
	} {
		t.Logf("%s: %d B", c.what, c.size)
		require.LessOrEqual(t, c.size, c.max, c.what)
	}
	require.Zero(t, unsafe.Sizeof(port{})%64, "ports fill cache lines")
	require.Zero(t, unsafe.Sizeof(switchPort{})%64)
}

// Once everything has been as full as it gets, a run allocates nothing: no
// packet, queue pair, message or event.
func TestNoAllocations(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the checks allocate")
	}
	all := everyController()
	for _, name := range Presets() {
		all[name] = preset(t, name)
	}
	all["gse n2n"] = leafToLeaf(t, 1)
	for name, s := range all {
		choices := []string{PathECMP, PathSprayRandom}
		if name == "default" {
			choices = pathChoices()
			s.Packet.Path.INT.Per = routing.PerPacket
		}
		for _, how := range choices {
			s.Packet.Path.Choice = how
			if s.validate() != nil {
				continue // HPCC does not spray
			}
			b := newBench(t, s, build(t, ls128()))
			coll, err := b.net.NewCollective(allToAll("c", gpuRange(0, 16), 1000))
			require.NoError(t, err)
			coll.SetUnits(same(16, 10_000))
			parts := []fabric.Part{{Src: 3, Dst: 99, Bytes: 100_000}, {Src: 4, Dst: 99, Bytes: 100_000}}
			var to sink
			run := func() {
				for i := range 24 {
					b.net.Send(fabric.Message{Src: topology.GPU(127 - i), Dst: 0, Bytes: 100_000, QPs: 2}, &to)
				}
				b.net.Send(fabric.Message{Parts: parts}, &to)
				coll.Start(0, 0, &to)
				b.engine.Run()
			}
			for range 24 {
				run()
			}
			require.LessOrEqual(t, testing.AllocsPerRun(5, run), 1., "%s, %s", name, how)
		}
	}
}

// BenchmarkPermutation is 1 MB from each host to another, on a new network: of
// 8,192 hosts, the reference's largest, and of more.
func BenchmarkPermutation(b *testing.B) {
	for _, hosts := range []int{8192, 16384} {
		for _, name := range []string{"line-rate", "default"} {
			b.Run(fmt.Sprintf("hosts=%d/%s", hosts, name), func(b *testing.B) {
				tc := bare(hosts, hosts/32, 32)
				tc.LinkDelay = sim.Microsecond
				benchmarkList(b, preset(b, name), tc, permutation(hosts, units.MB))
			})
		}
	}
}
