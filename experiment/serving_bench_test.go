package experiment

import (
	"context"
	"fmt"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/scenarios"
)

// servingOnly is a scenario in which the network costs nothing: what is left is
// the serving system. Llama-3.1-70B on 16 instances of TP4, 6 for prefill and 10
// for decode, 60 requests per second of 512 tokens in and 512 out.
func servingOnly(t testing.TB, requests int) *scenarios.Scenario {
	t.Helper()
	s, err := scenarios.Load("llama-3.1-70b-h800-pd",
		"cluster.nodes=8", "cluster.leaves=1", "cluster.spines=0", "cluster.wiring=packed", "network.engine=ideal",
		"prefill.instances=6", "prefill.tp=4", "decode.instances=10", "decode.tp=4",
		"workload.arrivals.rate=60/s", fmt.Sprint("workload.requests=", requests),
		"workload.prompt={dist: fixed, tokens: 512}", "workload.output={dist: fixed, tokens: 512}")
	require.NoError(t, err)
	return s
}

// runServing runs it and returns what depends on no machine: events per request,
// and bytes allocated per request.
func runServing(t testing.TB, requests int) (events, bytes float64) {
	s := servingOnly(t, requests)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b, err := Build(s)
	require.NoError(t, err)
	r, err := b.Run(context.Background(), nil)
	require.NoError(t, err)
	runtime.ReadMemStats(&after)
	require.Equal(t, requests, r.Summary.Completed)
	return float64(r.Events) / float64(requests), float64(after.TotalAlloc-before.TotalAlloc) / float64(requests)
}

// What a request costs does not grow with their number.
func TestServingCostIsFlat(t *testing.T) {
	few, bytesOfFew := runServing(t, 2_000)
	many, bytesOfMany := runServing(t, 20_000)
	require.LessOrEqual(t, many, 1.05*few, "events per request")
	require.LessOrEqual(t, bytesOfMany, 1.1*bytesOfFew, "bytes per request")
	require.Less(t, 8_000*bytesOfMany, 200e6, "8,000 requests in 200 MB, even if nothing were ever freed")
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

// BenchmarkServing is the speed of the serving system alone, building the cluster
// and measuring the run included.
func BenchmarkServing(b *testing.B) {
	for _, requests := range []int{1_000, 8_000, 10_000, 100_000} {
		b.Run(fmt.Sprint("requests=", requests), func(b *testing.B) {
			b.ReportAllocs()
			var events float64
			used := cpu()
			for range b.N {
				events, _ = runServing(b, requests)
			}
			b.ReportMetric((cpu()-used)*1e6/float64(b.N*requests), "cpu-us/request")
			b.ReportMetric(events, "events/request")
		})
	}
}
