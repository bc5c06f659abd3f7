package docs

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/experiment"
	"github.com/tgssim/tgssim/internal/invariants"
	"github.com/tgssim/tgssim/scenarios"
)

// TestSampleLayers holds the table of what network.sample_layers costs in
// accuracy.
func TestSampleLayers(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the same figures, slower")
	}
	check(t, "performance.md", []table{{"sample_layers", true, sampleTable}})
}

// samples are the settings of network.sample_layers that are compared, 0 first.
var samples = []int{0, 2, 4, 8, 16}

// sampleSlices are short runs of the library's DeepSeek scenario with short answers, so
// that requests end: as it is, and with four times the load on a fabric that is
// oversubscribed 4:1.
var sampleSlices = []struct {
	name string
	set  []string
}{
	{"as it is", nil},
	{"heavy", []string{"cluster.oversubscription=4", "cluster.spines=2", "workload.arrivals.rate=440/s"}},
}

// sampled runs a slice.
func sampled(t testing.TB, engine string, k int, set []string) *experiment.Result {
	set = append([]string{
		"workload.requests=20", "workload.output.mean=8", "workload.output.max=16",
		"network.engine=" + engine, fmt.Sprint("network.sample_layers=", k),
	}, set...)
	s, err := scenarios.Load("deepseek-v3-h800-pd", set...)
	require.NoError(t, err)
	x, err := experiment.Build(s)
	require.NoError(t, err)
	r, err := x.Run(t.Context(), nil)
	require.NoError(t, err)
	return r
}

func sampleTable(t *testing.T) string {
	r := newRows("slice", "engine", "layers", "simulated", "events", "ITL mean, ms", "error", "stated", "p50", "error",
		"p99", "error", "TTFT mean, ms", "error", "KV transfer mean, ms", "error", "TGS", "error")
	for _, s := range sampleSlices {
		for _, engine := range []string{"packet", "flow"} {
			var all *experiment.Result
			for _, k := range samples {
				x := sampled(t, engine, k, s.set)
				name, simulated, stated := "all", "58", ""
				if k == 0 {
					all = x
				} else {
					u := &x.Pools[1].Usage.Sampling
					_, mean := u.Errors()
					name, simulated = fmt.Sprint(k), num(float64(u.Simulated)/float64(u.Steps), 1)
					stated = fmt.Sprintf("±%.2f %%", 100*mean)
				}
				r.row(s.name, engine, name, simulated, fmt.Sprintf("%.2f M", float64(x.Events)/1e6),
					num(x.ITL.Mean, 2), off(x.ITL.Mean, all.ITL.Mean), stated,
					num(x.ITL.P50, 2), off(x.ITL.P50, all.ITL.P50), num(x.ITL.P99, 2), off(x.ITL.P99, all.ITL.P99),
					num(x.TTFT.Mean, 1), off(x.TTFT.Mean, all.TTFT.Mean),
					num(x.KVTransfer.Mean, 2), off(x.KVTransfer.Mean, all.KVTransfer.Mean),
					num(*x.Summary.TGS, 3), off(*x.Summary.TGS, *all.Summary.TGS))
			}
		}
	}
	return r.String()
}

// BenchmarkSampleLayers is the time that sampling saves.
func BenchmarkSampleLayers(b *testing.B) {
	for _, s := range sampleSlices {
		for _, engine := range []string{"packet", "flow"} {
			for _, k := range samples {
				b.Run(fmt.Sprintf("%s/%s/%d", s.name, engine, k), func(b *testing.B) {
					used := cpu()
					for b.Loop() {
						sampled(b, engine, k, s.set)
					}
					b.ReportMetric((cpu()-used)/float64(b.N), "cpu-s/op")
				})
			}
		}
	}
}
