package packet

import (
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/units"
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
		for _, p := range n.ports[l].load(n.unit).packets {
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

// BenchmarkPermutation8192 is the reference's largest: 1 MB from each of 8,192
// hosts to another.
func BenchmarkPermutation8192(b *testing.B) {
	for _, name := range []string{"line-rate", "default"} {
		b.Run(name, func(b *testing.B) {
			benchmarkList(b, preset(b, name), bare(8192, 256, 32), permutation(8192, units.MB))
		})
	}
}
