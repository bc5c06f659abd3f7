package docs

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/experiment"
	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/scenarios"
	"github.com/tgssim/tgssim/topology"
)

// TestPerformance holds those tables of performance.md to the simulator that do
// not depend on the machine.
func TestPerformance(t *testing.T) {
	check(t, "performance.md", []table{{"train", true, trainTable}})
}

// trains are the numbers of packets that move as one.
var trains = []int{1, 4, 16}

// What trains cost in fidelity and save in events, without congestion control
// and with DCQCN. Where marks are drawn, figures are means of runs with the same
// paths and other draws, with the standard deviation of a run.
func trainTable(t *testing.T) string {
	r := newRows("flows", "preset", "train", "events", "mean, us", "error", "p99, us", "error", "last, us", "error")
	all := lists(t)
	for _, name := range []string{"incast32", "perm128_s1", "a2a16", "a2a32", "a2a64"} {
		for _, p := range []string{"line-rate", "default"} {
			runs := 1
			if p == "default" {
				runs = 5
			}
			var exact [3]float64
			for _, k := range trains {
				events, x := overDraws(t, p, k, runs, all[name])
				cells := []string{name, p, fmt.Sprint(k), fmt.Sprintf("%.2f M", events/1e6)}
				for i := range x {
					mean, sd := x[i][0], 0.
					if runs > 1 {
						mean, sd = spread(x[i])
					}
					if k == 1 {
						exact[i] = mean
					}
					text := num(mean, 1)
					if sd >= 0.05 {
						text += " ± " + num(sd, 1)
					}
					cells = append(cells, text, off(mean, exact[i]))
				}
				r.row(cells...)
			}
		}
	}
	return r.String()
}

// overDraws runs a list in trains of k under a preset, several times on the same
// paths: events per run, and mean, p99 and last completion of each.
func overDraws(t *testing.T, name string, k, runs int, list []fabric.Message) (events float64, x [3][]float64) {
	g := ls128(t)
	s := preset(t, name)
	s.Fabric.ECMPSeed, s.Packet.Train = 1, k
	for seed := range uint64(runs) {
		n, _ := packets(t, s, g, seed+1)
		n.run(t, list)
		events += float64(n.engine.Events()) / float64(runs)
		for i, v := range []float64{n.mean(), n.p99(), n.max()} {
			x[i] = append(x[i], v)
		}
	}
	return events, x
}

// cpu is the processor time that the process has used, in seconds: on a busy
// machine the wall clock measures the neighbours.
func cpu() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Utime.Sec+u.Stime.Sec) + float64(u.Utime.Usec+u.Stime.Usec)/1e6
}

// BenchmarkTrain is the speed that trains buy.
func BenchmarkTrain(b *testing.B) {
	for _, name := range []string{"incast32", "perm128_s1", "a2a64"} {
		list := lists(b)[name]
		for _, k := range trains {
			b.Run(fmt.Sprintf("%s/train=%d", name, k), func(b *testing.B) {
				s := preset(b, "default")
				s.Packet.Train = k
				n, _ := packets(b, s, ls128(b), 1)
				var to nobody
				used := cpu()
				for b.Loop() {
					for _, m := range list {
						n.Send(m, to)
					}
					n.engine.Run()
				}
				used = cpu() - used
				b.ReportMetric(payload(n)/4096/used/1e6, "Mhops/cpu-s")
				b.ReportMetric(used/float64(b.N)*1e3, "cpu-ms/op")
			})
		}
	}
}

// BenchmarkScenario runs the scenarios of the library that need no file, whole.
func BenchmarkScenario(b *testing.B) {
	for _, name := range scenarios.Names() {
		b.Run(name, func(b *testing.B) {
			s, err := scenarios.Load(name)
			if err != nil {
				b.Skip(err)
			}
			if s.Workload.Trace != nil && s.Workload.Trace.Path == "" {
				b.Skip("needs a trace")
			}
			if s.Network.Engine != "flow" {
				b.Skip("BenchmarkSampleLayers has the packet engine")
			}
			var events, requests, simulated float64
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			used := cpu()
			for b.Loop() {
				x, err := experiment.Build(s)
				require.NoError(b, err)
				r, err := x.Run(b.Context(), nil)
				require.NoError(b, err)
				events += float64(r.Events)
				simulated += r.End.Seconds()
				requests += float64(x.Progress().Finished)
			}
			used = cpu() - used
			runtime.ReadMemStats(&after)
			b.ReportMetric(events/used/1e6, "Mevents/cpu-s")
			b.ReportMetric(events/requests, "events/request")
			b.ReportMetric(requests/used, "requests/cpu-s")
			b.ReportMetric(used/simulated, "cpu-s/sim-s")
			b.ReportMetric(simulated/float64(b.N), "sim-s")
			b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(b.N)/1e6, "MB-allocated/op")
		})
	}
}

// BenchmarkActiveHosts tells the size of a fabric from what moves on it: of 8,192
// hosts so many send 1 MB each, again and again.
func BenchmarkActiveHosts(b *testing.B) {
	for _, active := range []int{16, 128, 1024, 8192} {
		b.Run(fmt.Sprintf("active=%d", active), func(b *testing.B) {
			n, _ := packets(b, preset(b, "default"), graph(b, leafSpine(8192, 256, 32)), 1)
			hosts := rand.New(rand.NewPCG(1, 2)).Perm(8192)[:active]
			var to nobody
			round := func() {
				for i, src := range hosts {
					dst := hosts[(i+1)%active]
					n.Send(fabric.Message{Src: topology.GPU(src), Dst: topology.GPU(dst), Bytes: units.MB}, to)
				}
				n.engine.Run()
			}
			round() // queue pairs and pools are made
			before, events := payload(n), n.engine.Events()
			used := cpu()
			for b.Loop() {
				for range 8192 / active {
					round()
				}
			}
			used = cpu() - used
			b.ReportMetric((payload(n)-before)/4096/used/1e6, "Mhops/cpu-s")
			b.ReportMetric(float64(n.engine.Events()-events)/used/1e6, "Mevents/cpu-s")
		})
	}
}

// payload is the bytes that links have carried, headers excluded.
func payload(n *network) (sum float64) {
	for _, l := range n.Loads(nil) {
		for _, bytes := range l.Payload {
			sum += float64(bytes)
		}
	}
	return sum
}
