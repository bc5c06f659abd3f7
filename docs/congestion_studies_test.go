package docs

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/experiment"
	"github.com/tgssim/tgssim/metrics"
	"github.com/tgssim/tgssim/scenarios"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/sweep"
)

// The columns that the studies of congestion control share.
var (
	ttftColumns  = []column{{"TTFT mean, ms", "mean_ttft_ms", 1, 1}, {"p99", "p99_ttft_ms", 1, 1}}
	itlColumns   = []column{{"ITL mean, ms", "mean_itl_ms", 1, 2}, {"p99", "p99_itl_ms", 1, 2}}
	kvColumns    = []column{{"KV mean, ms", "mean_kv_transfer_ms", 1, 2}, {"p99", "p99_kv_transfer_ms", 1, 2}}
	tgsColumns   = []column{{"TGS", "tgs_steady", 1, 1}, {"worst 100 ms", "tgs_worst_100ms", 1, 1}}
	queueColumn  = column{"longest queue, MB", "max_queue_bytes", 1e-6, 1}
	pauseColumns = []column{{"pauses", "pauses", 1, 0}, {"paused, ms", "paused_ms", 1, 0}}
	markedColumn = column{"marked, %", "marked_share", 100, 1}
	lossColumns  = []column{{"dropped", "dropped_packets", 1, 0}, {"sent again", "retransmitted_packets", 1, 0}, {"timeouts", "retransmission_timeouts", 1, 0}}
)

// TestCongestionStudyTables holds the tables of the studies of congestion control.
func TestCongestionStudyTables(t *testing.T) {
	for _, s := range []slowStudy{
		{"mistuned-ecn.md", "mistuned-ecn", []string{"marks", "loss"}, slices.Concat(tgsColumns, ttftColumns, itlColumns, kvColumns,
			[]column{queueColumn, markedColumn}, pauseColumns[:1], lossColumns), []int{9}},
		{"pfc-victims.md", "pfc-victims", []string{"receiver", "scheme"}, slices.Concat(tgsColumns, ttftColumns, itlColumns, kvColumns,
			[]column{queueColumn, markedColumn}, pauseColumns, lossColumns[1:]), []int{9}},
	} {
		t.Run(s.name, s.hold)
	}
	check(t, filepath.Join("studies", "uplink-failure.md"), []table{{"uplink-failure", true, failureTable}})
}

// resultOf runs a scenario and keeps its steps.
func resultOf(t testing.TB, s *scenarios.Scenario) *metrics.Result {
	s.Metrics.Steps = true
	x, err := experiment.Build(s)
	require.NoError(t, err)
	r, err := x.Run(t.Context(), nil)
	require.NoError(t, err)
	return r.Result
}

// The failure of uplink-failure.
const failed, repaired = 350 * sim.Millisecond, 450 * sim.Millisecond

// A failure is what became of a run in which a link failed.
type failure struct {
	stall, recovery       sim.Time
	before, during, after float64 // TGS of the cluster in 100 ms
}

// failureOf looks at the decode steps of a run. The stall is by how much the longest
// step that the failure met is longer than the median of those before it; recovery
// is from the failure to the end of the last step before the repair that is more than
// a tenth longer.
func failureOf(r *metrics.Result) failure {
	var f failure
	var lengths []sim.Time
	window := func(from, to sim.Time) float64 {
		var tokens int64
		for _, s := range r.Steps {
			if s.Pool == "decode" && s.End >= from && s.End < to {
				tokens += int64(s.Output)
			}
		}
		return float64(tokens) / (to - from).Seconds() / float64(r.Summary.GPUs)
	}
	const width = 100 * sim.Millisecond
	f.before, f.during, f.after = window(failed-width, failed), window(failed, repaired), window(repaired, repaired+width)
	for _, s := range r.Steps {
		if s.Pool == "decode" && s.Start >= failed-width && s.End < failed {
			lengths = append(lengths, s.End-s.Start)
		}
	}
	slices.Sort(lengths)
	median := lengths[len(lengths)/2]
	for _, s := range r.Steps {
		if s.Pool != "decode" || s.End < failed || s.Start >= repaired {
			continue
		}
		f.stall = max(f.stall, s.End-s.Start-median)
		if s.End-s.Start > median+median/10 {
			f.recovery = s.End - failed
		}
	}
	return f
}

// failureTable is the table of uplink-failure.
func failureTable(t *testing.T) string {
	plan, err := sweep.New("uplink-failure", sweep.Request{})
	require.NoError(t, err)
	r := newRows("paths", "TGS before", "during", "after", "worst 100 ms", "stall, ms", "recovery, ms", "ITL mean, ms", "max",
		"TTFT mean, ms", "p99", "KV mean, ms", "max", "lost on the link", "dropped", "sent again", "timeouts", "longest queue, MB", "pauses")
	for point := range plan.Points {
		s, err := plan.Scenario(point)
		require.NoError(t, err)
		x := resultOf(t, s)
		f, m := failureOf(x), x.Summary
		r.row(append(plan.Labels(point), num(f.before, 0), num(f.during, 0), num(f.after, 0), num(*m.TGSWorst, 0),
			num(f.stall.Milliseconds(), 1), num(f.recovery.Milliseconds(), 1), num(*m.MeanITL, 2), num(*m.MaxITL, 2),
			num(*m.MeanTTFT, 1), num(*m.P99TTFT, 1), num(*m.MeanKVTransfer, 2), num(*m.MaxKVTransfer, 2),
			fmt.Sprint(m.Ports.LostOnLinks), fmt.Sprint(m.Ports.Dropped), fmt.Sprint(m.Ports.Resent), fmt.Sprint(m.Ports.Timeouts),
			num(float64(m.Ports.MaxQueue)/1e6, 1), fmt.Sprint(m.Ports.Pauses))...)
	}
	return r.String()
}

// congested is what a study shows in a few requests.
type congested struct {
	t     *testing.T
	name  string
	small []string
}

func (c congested) at(set ...string) func(key string) float64 {
	return studied(c.t, c.name, slices.Concat(c.small, set)...)
}

// What schemes cost where nothing is congested, as a part of the time on the wire:
// a container's header with GSE; telemetry with INT, and with HPCC the twentieth of
// every link that it leaves free.
const (
	containerCost = 8. / 4178
	telemetryCost = 42. / 4178
	hpccCost      = (1+telemetryCost)/0.95 - 1
)

// alike requires that schemes differ from DCQCN by no more than such a cost, and
// that nothing is paused or lost.
func (c congested) alike(cost float64, schemes ...[]string) {
	first := c.at()
	for _, scheme := range schemes {
		run := c.at(scheme...)
		for _, key := range []string{"mean_itl_ms", "p99_itl_ms", "mean_ttft_ms", "mean_kv_transfer_ms", "p99_kv_transfer_ms"} {
			require.InDelta(c.t, first(key), run(key), cost*first(key), "%s, %s", scheme, key)
		}
		for _, key := range []string{"pauses", "dropped_packets", "link_down_packets", "retransmitted_packets"} {
			require.Zero(c.t, run(key), "%s, %s", scheme, key)
		}
	}
}

// The idle variant of each study: one request at a time, sent from one NIC to one.
var alone = []string{
	"prefill.tp=1", "workload.arrivals={process: uniform, rate: 5/s}", "workload.requests=2",
	"workload.prompt={dist: fixed, tokens: 512}", "workload.output={dist: fixed, tokens: 6}",
}

const (
	tooLow    = "congestion.ecn={kmin: 5KB, kmax: 200KB, pmax: 0.01}"
	tooHigh   = "congestion.ecn={kmin: 16MB, kmax: 64MB}"
	lossy     = "congestion.buffer.lossless=[]"
	goBackN   = "packet.transport.recovery=go-back-n"
	selective = "packet.transport.recovery=selective-repeat"
	gse       = "congestion.algorithm=gse"
	hpcc      = "congestion.algorithm=hpcc"
	forLoss   = "packet.transport.timeout=1ms"
)

// Thresholds and loss recovery are found out by queues: without any they do nothing.
func TestMistunedECN(t *testing.T) {
	skipStudies(t)
	small := []string{"cluster.nodes=4", "cluster.leaves=4"}
	idle := congested{t, "mistuned-ecn", slices.Concat(small, alone, []string{"prefill.instances=16"})}
	idle.alike(0, []string{tooLow}, []string{tooHigh}, []string{lossy, goBackN}, []string{lossy, selective})
	idle.alike(containerCost, []string{gse})
	idle.alike(hpccCost, []string{hpcc})

	busy := congested{t, "mistuned-ecn", append(small, "prefill.instances=4", "workload.requests=24", "packet.train=8",
		"workload.arrivals={process: at_once}", "workload.prompt={dist: fixed, tokens: 512}", "workload.output={dist: fixed, tokens: 6}")}
	tuned, low, scheduled := busy.at(), busy.at(tooLow), busy.at(gse)
	back, repeat := busy.at(lossy, goBackN, forLoss), busy.at(lossy, selective, forLoss)
	require.Greater(t, low("marked_share"), 3*tuned("marked_share"))
	require.Less(t, low("pauses"), 0.8*tuned("pauses"))
	require.Greater(t, low("mean_kv_transfer_ms"), 1.15*tuned("mean_kv_transfer_ms"))
	require.Positive(t, tuned("pauses"))
	require.Less(t, scheduled("max_queue_bytes"), 0.2*tuned("max_queue_bytes"))
	require.Zero(t, scheduled("pauses"))
	require.Less(t, scheduled("mean_kv_transfer_ms"), 0.9*tuned("mean_kv_transfer_ms"))
	require.Positive(t, back("dropped_packets"))
	require.Greater(t, back("mean_kv_transfer_ms"), 1.2*tuned("mean_kv_transfer_ms"))
	require.Less(t, repeat("retransmitted_packets"), 0.8*back("retransmitted_packets"))
	require.Less(t, repeat("mean_kv_transfer_ms"), back("mean_kv_transfer_ms"))
}

// A slow receiver of one instance costs the other nothing but by pauses: not alone,
// not where nobody pauses, not where its traffic has a priority of its own.
func TestPFCVictims(t *testing.T) {
	skipStudies(t)
	const (
		slow    = "packet.faults=[{link: nic40>leaf2, at: 0s, rate: 0.1}]"
		noPause = "congestion.buffer={lossless: [], size: 1GiB}"
		apart   = "packet.queues.mode=strict"
	)
	idle := congested{t, "pfc-victims", append(slices.Clone(alone), "prefill.instances=24", slow)}
	idle.alike(0, []string{"packet.faults=[]"}, []string{noPause}, []string{apart})
	idle.alike(containerCost, []string{gse})
	idle.alike(hpccCost, []string{hpcc})

	busy := congested{t, "pfc-victims", []string{"packet.train=16", "workload.requests=40", "workload.prompt.tokens=1024",
		"workload.output.tokens=6", "workload.arrivals={process: at_once}", "network.sample_layers=2"}}
	whole, victim, free := busy.at("packet.faults=[]"), busy.at(slow), busy.at(slow, noPause)
	require.Greater(t, victim("p99_kv_transfer_ms"), 1.5*whole("p99_kv_transfer_ms"))
	require.InEpsilon(t, whole("p99_kv_transfer_ms"), free("p99_kv_transfer_ms"), 0.15)
	require.Greater(t, victim("paused_ms"), 2*whole("paused_ms"))
	scheduled := busy.at(slow, gse)
	require.Zero(t, scheduled("pauses"))
	require.InEpsilon(t, busy.at("packet.faults=[]", gse)("p99_kv_transfer_ms"), scheduled("p99_kv_transfer_ms"), 0.05)
	require.Less(t, busy.at(slow, apart)("p99_itl_ms"), victim("p99_itl_ms"))
}

// While nobody has noticed that a link is down, every scheme loses packets into it
// and decoding stands still; how long is up to detection. Without the failure, and
// with so little traffic, the ways to choose paths are alike.
func TestUplinkFailure(t *testing.T) {
	skipStudies(t)
	small := []string{"cluster.nodes=3", "cluster.leaves=3"}
	idle := congested{t, "uplink-failure", slices.Concat(small, alone, []string{"prefill.instances=8", "packet.faults=[]"})}
	idle.alike(0, []string{"congestion.ecn.kmin=1KB"})
	idle.alike(containerCost, []string{gse}, []string{"packet.path.choice=spray-random"})
	idle.alike(telemetryCost, []string{"packet.path.choice=int"})
	idle.alike(hpccCost, []string{hpcc})

	busy := congested{t, "uplink-failure", append(small, "prefill.instances=2", "workload.requests=40", "workload.output.tokens=10", "packet.train=16",
		"packet.faults=[{link: leaf1>spine1, at: 100ms, rate: 0}, {link: leaf1>spine1, at: 150ms, rate: 1}]")}
	whole, soon := busy.at("packet.faults=[]"), busy.at("packet.fault_detection=1ms")
	require.Zero(t, whole("link_down_packets"))
	require.Less(t, soon("max_itl_ms"), whole("max_itl_ms")+4)
	require.Positive(t, soon("link_down_packets"))
	for _, set := range [][]string{nil, {gse}, {hpcc}, {"packet.path.choice=int"}, {"packet.path.choice=spray-random"}} {
		run := busy.at(set...)
		require.Positive(t, run("link_down_packets"), set)
		require.Positive(t, run("retransmission_timeouts"), set)
		require.Greater(t, run("max_itl_ms"), whole("max_itl_ms")+6, set)
		require.Less(t, run("max_itl_ms"), whole("max_itl_ms")+20, set)
	}
}
