package docs

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/experiment"
	"github.com/tgssim/tgssim/fabric/packet"
	"github.com/tgssim/tgssim/metrics"
	"github.com/tgssim/tgssim/scenarios"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// storage is a run of the storage-like mix and its slowdowns, sorted, as ConWeave's
// simulator counts them: to the last acknowledgement, over the round trip and the
// bytes at the NIC's rate, and 1 at least.
func storage(t *testing.T, assignments ...string) (slowdowns []float64, k *packet.Counters) {
	f, err := scenarios.LoadFabric("storage-100g-os2", assignments...)
	require.NoError(t, err)
	x, err := experiment.BuildTraffic(f)
	require.NoError(t, err)
	r, err := x.Run(context.Background(), nil)
	require.NoError(t, err)
	leaf := func(gpu int) topology.NodeID { return x.Graph.LeafOf(x.Graph.NICOf(topology.GPU(gpu))) }
	for i := range r.Flows {
		flow := &r.Flows[i]
		require.NotEqual(t, sim.Never, flow.Finish)
		if flow.Start < f.Traffic.Warmup {
			continue
		}
		hops := 4.
		if leaf(flow.Src) == leaf(flow.Dst) {
			hops = 2
		}
		packets := float64((flow.Bytes + 999) / 1000)
		fct := flow.FCT.Microseconds() + hops*1.0048                             // 60 B at 100 Gb/s, 1 us
		alone := hops*2.08 + (float64(flow.Bytes)+float64(48*packets))*8/100_000 // 1,000 B per hop
		slowdowns = append(slowdowns, max(1, fct/alone))
	}
	slices.Sort(slowdowns)
	return slowdowns, r.Counters
}

// storageChoices are the rows of the table, with ConWeave's figures where it has
// some.
var storageChoices = []struct{ name, set, theirs string }{
	{"ecmp", "{choice: ecmp}", "1.82 / 1.13 / 5.09 / 9.29 / 15.8"},
	{"flowlet", "{choice: flowlet}", "1.82 / 1.13 / 4.91 / 10.07 / 17.2"},
	{"conga", "{choice: conga}", "1.63 / 1.12 / 3.99 / 7.34 / 12.5"},
	{"conweave", "{choice: conweave}", "1.43 / 1.12 / 2.82 / 4.98 / 8.6"},
	{"int, message", "{choice: int}", ""},
	{"int, message, leaf", "{choice: int, int: {scope: leaf}}", ""},
	{"int, packet, leaf", "{choice: int, int: {preset: packet, scope: leaf}}", ""},
	{"spray-round-robin", "{choice: spray-round-robin}", ""},
	{"oracle", "{choice: oracle}", ""},
}

func storageTable(t *testing.T) string {
	r := newRows("choice", "slowdown: mean / p50 / p95 / p99 / p99.9", "ConWeave's simulator", "marked, %", "pauses", "out of order")
	for _, c := range storageChoices {
		s, k := storage(t, "packet.path="+c.set, "traffic.duration=5ms", "traffic.warmup=2ms")
		mean, _ := spread(s)
		at := func(p float64) float64 { return metrics.Percentile(s, p) }
		r.row(c.name, fmt.Sprintf("%.2f / %.2f / %.2f / %.2f / %.1f", mean, at(50), at(95), at(99), at(99.9)), c.theirs,
			num(float64(k.MarkedArrived)/float64(k.Replies)*100, 1), fmt.Sprint(k.Pauses), fmt.Sprint(k.OutOfOrder))
	}
	return r.String()
}

// The order of ConWeave's simulator, on a slice of the mix: flowlets move nobody, so
// LetFlow is ECMP with another draw; CONGA's first choice knows something, and
// ConWeave moves in mid-flow.
func TestStorageOrder(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds")
	}
	mean, p99 := map[string]float64{}, map[string]float64{}
	for _, c := range storageChoices[:4] {
		s, k := storage(t, "packet.path="+c.set, "traffic.duration=1300us", "traffic.warmup=500us")
		mean[c.name], _ = spread(s)
		p99[c.name] = metrics.Percentile(s, 99)
		t.Logf("%s: mean %.3f, p99 %.2f, %d pauses", c.name, mean[c.name], p99[c.name], k.Pauses)
		if c.name == "flowlet" {
			require.LessOrEqual(t, k.Flowlets, int64(13_100), "one for every flow, no more")
		}
	}
	require.InEpsilon(t, mean["ecmp"], mean["flowlet"], 0.05)
	require.Less(t, mean["conga"], 0.985*mean["ecmp"])
	require.Less(t, mean["conweave"], 0.96*mean["conga"])
	require.Less(t, p99["conga"], 0.95*p99["ecmp"])
	require.Less(t, p99["conweave"], 0.9*p99["conga"])
}
