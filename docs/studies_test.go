package docs

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/experiment"
	"github.com/tgssim/tgssim/internal/invariants"
	"github.com/tgssim/tgssim/scenarios"
	"github.com/tgssim/tgssim/sweep"
)

// A column of a study's table is a figure of the summary, by its name there, times scale.
type column struct {
	head, key string
	scale     float64
	decimals  int
}

// absent is the figures that not every run has.
var absent = map[string]bool{"expert_busiest_over_mean_decode": true} // without moe.routing

// with is the column with so many decimals.
func (c column) with(decimals int) column {
	c.decimals = decimals
	return c
}

// cell is a mean with half of its 95 % confidence interval, in the unit of the
// samples.
func (c *column) cell(m sweep.Mean) string {
	if m.N == 0 {
		return "-"
	}
	text := num(m.Mean, c.decimals)
	if h := num(m.Half, c.decimals); m.N > 1 && strings.Trim(h, "0.") != "" {
		text += " ±" + h
	}
	return text
}

// summaryOf is a run's summary as `tgssim run --json` prints it.
func summaryOf(t testing.TB, s *scenarios.Scenario) map[string]any {
	x, err := experiment.Build(s)
	require.NoError(t, err)
	r, err := x.Run(t.Context(), nil)
	require.NoError(t, err)
	text, err := json.Marshal(r.Summary)
	require.NoError(t, err)
	var m map[string]any
	require.NoError(t, json.Unmarshal(text, &m))
	return m
}

// value is a figure that the run must have.
func value(t testing.TB, m map[string]any, key string) float64 {
	v, ok := m[key].(float64)
	require.True(t, ok, "%s is %v", key, m[key])
	return v
}

// studied runs a scenario of the library with settings.
func studied(t testing.TB, name string, set ...string) func(key string) float64 {
	s, err := scenarios.Load(name, set...)
	require.NoError(t, err)
	m := summaryOf(t, s)
	return func(key string) float64 { return value(t, m, key) }
}

// studyTable is the sweep of a study: a line per point, with half of the 95 %
// confidence interval when there are replications.
func studyTable(name string, axes []string, columns []column) func(t *testing.T) string {
	return func(t *testing.T) string {
		plan, err := sweep.New(name, sweep.Request{})
		require.NoError(t, err)
		r := newRows(studyHead(axes, columns)...)
		for point := range plan.Points {
			r.row(studyRow(t, plan, point, columns)...)
		}
		return r.String()
	}
}

// studyHead is the first line.
func studyHead(axes []string, columns []column) []string {
	head := slices.Clone(axes)
	for _, c := range columns {
		head = append(head, c.head)
	}
	return head
}

// studyRow is the line of a point.
func studyRow(t *testing.T, plan *sweep.Plan, point int, columns []column) []string {
	samples := make([][]float64, len(columns))
	for replication := range plan.Replications {
		s, err := plan.Scenario(point)
		require.NoError(t, err)
		s.Replication = uint64(replication)
		m := summaryOf(t, s)
		for i, c := range columns {
			if m[c.key] == nil && absent[c.key] {
				continue
			}
			samples[i] = append(samples[i], c.scale*value(t, m, c.key))
		}
	}
	cells := plan.Labels(point)
	for i, c := range columns {
		cells = append(cells, c.cell(sweep.MeanOf(samples[i])))
	}
	return cells
}

// TestStudyTables holds the tables of the studies of the flow engine.
func TestStudyTables(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the same figures, slower")
	}
	itl := column{"mean ITL, ms", "mean_itl_ms", 1, 1}
	dispatch := column{"dispatch, us", "dispatch_us_decode", 1, 0}
	combine := column{"combine, us", "combine_us_decode", 1, 0}
	tgs := column{"TGS of decode", "tgs_decode", 1, 0}
	compute := column{"compute, % of GPU time", "gpu_time_decode_compute", 100, 1}
	exposed := column{"exposed dispatch and combine, %", "exposed_comm_share_decode", 100, 1}
	for _, s := range []struct {
		name    string
		axes    []string
		columns []column
	}{
		{"two-batch", []string{"batch", "overlap"}, []column{itl, tgs, compute, exposed,
			{"hidden, % of dispatch and combine", "comm_hidden_share_decode", 100, 1}}},
		{"imbalance", []string{"imbalance"}, []column{itl, tgs, dispatch, combine, exposed,
			{"barrier, %", "gpu_time_decode_barrier", 100, 1}}},
		{"ep-imbalance", []string{"experts"}, []column{{"busiest GPU over mean", "expert_busiest_over_mean_decode", 1, 2},
			dispatch, combine, itl, {"p99, ms", "p99_itl_ms", 1, 1}, exposed, {"barrier, %", "gpu_time_decode_barrier", 100, 1}}},
		{"oversubscription", []string{"fabric"}, []column{itl, {"p99 TTFT, s", "p99_ttft_ms", 1e-3, 1},
			{"dispatch of prefill, us", "dispatch_us_prefill", 1, 0}, {"combine", "combine_us_prefill", 1, 0},
			{"hidden, %", "comm_hidden_share_prefill", 100, 1}, {"dispatch of decode, us", "dispatch_us_decode", 1, 0},
			{"combine", "combine_us_decode", 1, 0}, {"paths, % of it", "comm_decode_paths", 100, 1},
			{"KV transfer, ms", "mean_kv_transfer_ms", 1, 1}, {"TGS", "tgs", 1, 0}}},
		{"kv-beside-ep", []string{"queue pairs per KV transfer", "fabric"}, []column{{"KV transfer, mean ms", "mean_kv_transfer_ms", 1, 1},
			{"p99, ms", "p99_kv_transfer_ms", 1, 1}, {"ITL, mean ms", "mean_itl_ms", 1, 2}, {"p99, ms", "p99_itl_ms", 1, 2},
			{"contention, % of dispatch and combine", "comm_decode_contention", 100, 1}, {"TGS of decode, steady", "tgs_decode_steady", 1, 0}}},
		{"ecmp-collisions", []string{"servers", "queue pairs"}, []column{itl, dispatch, combine,
			{"paths, % of dispatch and combine", "comm_decode_paths", 100, 1}, {"TGS of decode", "tgs_decode", 1, 0}}},
	} {
		check(t, filepath.Join("studies", s.name+".md"), []table{{s.name, true, studyTable(s.name, s.axes, s.columns)}})
	}
}

// skipStudies leaves the studies out where time is short.
func skipStudies(t *testing.T) {
	if testing.Short() || invariants.Enabled {
		t.Skip("the same figures, slower")
	}
}

// Two micro-batches cost the same computation whatever the batch, and hide more of a
// larger one.
func TestTwoBatchHelpsLargeBatches(t *testing.T) {
	skipStudies(t)
	gain := func(batch int) float64 {
		var itl [2]float64
		for i, overlap := range []string{"shared_expert", "two_batch"} {
			itl[i] = studied(t, "two-batch", "decode.overlap="+overlap, "workload.output.tokens=64",
				fmt.Sprint("decode.max_batch_requests=", batch), fmt.Sprint("workload.requests=", 128*batch))("p99_itl_ms")
		}
		return itl[1]/itl[0] - 1
	}
	require.InDelta(t, 0.86, gain(8), 0.15)
	require.InDelta(t, 0.13, gain(64), 0.07)
	require.InDelta(t, -0.15, gain(256), 0.07)
}

// As a factor on computation imbalance looks harmless; drawn, bytes follow it.
func TestImbalanceIsMostlyBytes(t *testing.T) {
	skipStudies(t)
	at := func(set ...string) func(string) float64 {
		return studied(t, "imbalance", append(set, "workload.output.tokens=64")...)
	}
	even, knob, drawn := at(), at("decode.moe.imbalance=2"), at("decode.moe.routing.popularity={kind: zipf, alpha: 0.35}")
	require.InDelta(t, 2, drawn("expert_busiest_over_mean_decode"), 0.1)
	require.InDelta(t, 0.08, knob("p99_itl_ms")/even("p99_itl_ms")-1, 0.03)
	require.InDelta(t, 0.49, drawn("p99_itl_ms")/even("p99_itl_ms")-1, 0.12)
	require.InEpsilon(t, even("combine_us_decode"), knob("combine_us_decode"), 0.03)
	require.Greater(t, drawn("combine_us_decode"), 1.4*even("combine_us_decode"))
	require.Greater(t, knob("gpu_time_decode_barrier"), 10*even("gpu_time_decode_barrier"))
}

// Popular experts lengthen dispatch and combine, as the busiest GPU's NIC has more to
// receive; EPLB mends that where it knows the load, and a capacity drops it.
func TestEPLBMendsPopularity(t *testing.T) {
	skipStudies(t)
	at := func(set string) func(string) float64 { // 32 GPUs of 64
		return studied(t, "ep-imbalance", set, "prefill.instances=1", "decode.dp=32", "workload.requests=4096",
			"workload.prompt.tokens=8", "workload.output.tokens=8", "decode.moe.routing.sample_layers=1")
	}
	const busiest, dispatch = "expert_busiest_over_mean_decode", "dispatch_us_decode"
	even, popular := at("decode.moe.routing.popularity={kind: balanced}"), at("decode.moe.routing.placement={strategy: contiguous}")
	eplb := at("decode.moe.routing.placement={strategy: eplb, redundant: 64}")
	capped := at("decode.moe.routing.capacity_factor=1.5")
	require.Greater(t, popular(busiest), 1.5*even(busiest))
	require.Greater(t, popular(dispatch), 1.5*even(dispatch))
	require.Greater(t, popular("gpu_time_decode_barrier"), 1.5*even("gpu_time_decode_barrier"))
	require.InEpsilon(t, even(busiest), eplb(busiest), 0.1)
	require.InEpsilon(t, even(dispatch), eplb(dispatch), 0.05)
	require.Less(t, capped(busiest), 0.8*popular(busiest))
	require.InDelta(t, 0.13, capped("expert_dropped_share_decode"), 0.04)
}

// Decode shows what oversubscription does to AllToAlls, prefill hides most of it.
func TestOversubscriptionMultipliesAllToAlls(t *testing.T) {
	skipStudies(t)
	at := func(set ...string) func(string) float64 { return studied(t, "oversubscription", set...) }
	one, two, four := at(), at("cluster.oversubscription=2", "cluster.spines=4"), at("cluster.oversubscription=4", "cluster.spines=2")
	for _, step := range []struct{ more, less func(string) float64 }{{two, one}, {four, two}} {
		for _, key := range []string{"mean_itl_ms", "p99_ttft_ms", "combine_us_decode", "comm_decode_paths", "mean_kv_transfer_ms"} {
			require.Greater(t, step.more(key), 1.1*step.less(key), key)
		}
		require.Less(t, step.more("tgs"), 0.9*step.less("tgs"))
		require.Less(t, step.more("comm_hidden_share_prefill"), step.less("comm_hidden_share_prefill"))
	}
	require.InDelta(t, 2.7, four("combine_us_prefill")/one("combine_us_prefill"), 0.4)
}

// More queue pairs come nearer to the fabric without collisions, which has none left.
func TestQueuePairsAgainstCollisions(t *testing.T) {
	skipStudies(t)
	base := []string{"workload.output.tokens=64", "workload.requests=2048", "cluster.nodes=8", "cluster.leaves=8", "decode.dp=32"}
	mean := func(set ...string) (itl, paths float64) {
		for replication := range 3 {
			run := studied(t, "ecmp-collisions", append(append(set, base...), fmt.Sprint("replication=", replication))...)
			itl += run("p99_itl_ms") / 3
			paths += run("comm_decode_paths") / 3
		}
		return itl, paths
	}
	one, onePaths := mean("decode.moe.qps=1")
	some, somePaths := mean("decode.moe.qps=4")
	many, manyPaths := mean("decode.moe.qps=64")
	ideal, none := mean("network.engine=ideal")
	require.InDelta(t, 0.12, one/ideal-1, 0.06)
	require.InDelta(t, 0.06, some/ideal-1, 0.04)
	require.InDelta(t, 0.015, many/ideal-1, 0.012)
	require.InDelta(t, 0.27, onePaths, 0.08)
	require.Greater(t, onePaths, somePaths)
	require.Greater(t, somePaths, manyPaths)
	require.Zero(t, none)
}

// All GPUs go at the pace of the one whose NIC is slow; a link that is slow is
// worse than one that is down.
func TestSlowNICSetsThePace(t *testing.T) {
	skipStudies(t)
	at := func(faults string) float64 { // 32 GPUs of 128
		return studied(t, "slow-nic", "packet.faults="+faults, "cluster.nodes=8", "cluster.leaves=8", "decode.dp=32",
			"workload.requests=1024", "network.sample_layers=1")("p99_itl_ms")
	}
	whole := at("[]")
	quarter := at("[{link: nic40>leaf5, at: 0s, rate: 0.25}]")
	tenth := at("[{link: nic40>leaf5, at: 0s, rate: 0.1}]")
	require.Greater(t, quarter, 1.25*whole)
	// A step's bytes of a NIC: 32 tokens, 8 experts, 3 of 4 servers elsewhere, over 58 layers.
	bytes := 58 * 32 * 8 * 3. / 4 * (7392 + 14336) * 4178 / 4096
	require.InEpsilon(t, (1/0.1-1/0.25)*bytes/50e9*1e3, tenth-quarter, 0.05)
	require.Greater(t, at("[{link: leaf5>spine2, at: 0s, rate: 0.25}]"), 1.15*whole)
	require.InEpsilon(t, whole, at("[{link: leaf5>spine2, at: 0s, rate: 0}]"), 0.1)
}
