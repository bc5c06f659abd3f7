package docs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/internal/invariants"
	"github.com/tgssim/tgssim/internal/testkit"
	"github.com/tgssim/tgssim/sweep"
)

// A slowStudy is a study whose sweep takes minutes: its table is made again with
// -update and -long together. With -long some of its lines are held.
type slowStudy struct {
	page, name string
	axes       []string
	columns    []column
	held       []int // points
}

// hold compares the lines that are held, or rewrites the table.
func (s *slowStudy) hold(t *testing.T) {
	file := filepath.Join("studies", s.page)
	if *update && *long {
		check(t, file, []table{{s.name, true, studyTable(s.name, s.axes, s.columns)}})
		return
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	_, _, body, err := testkit.Table(string(text), s.name)
	require.NoError(t, err, file)
	require.True(t, strings.HasPrefix(body, newRows(studyHead(s.axes, s.columns)...).String()), "%s: the head of the table", file)
	if !*long || invariants.Enabled {
		t.Skip("takes long: run with -long")
	}
	plan, err := sweep.New(s.name, sweep.Request{})
	require.NoError(t, err)
	for _, point := range s.held {
		var want rows
		want.row(studyRow(t, plan, point, s.columns)...)
		require.Contains(t, body, want.String(), "%s has drifted; go test ./docs -run %s -update -long rewrites it", file, t.Name())
	}
}

// TestKVStudies holds the tables of the studies of KV transfers by congestion control and
// paths in the packet engine.
func TestKVStudies(t *testing.T) {
	var (
		tgs      = column{"TGS", "tgs", 1, 1}
		ttft     = column{"TTFT p99, ms", "p99_ttft_ms", 1, 1}
		marked   = markedColumn.with(2)
		paused   = pauseColumns[1].with(1)
		dispatch = column{"dispatch, us", "dispatch_us_decode", 1, 1}
		combine  = column{"combine, us", "combine_us_decode", 1, 1}
	)
	for _, s := range []slowStudy{
		{"kv-incast.md", "kv-incast", []string{"load", "scheme"}, slices.Concat(kvColumns, ttftColumns, itlColumns,
			[]column{tgs, tgsColumns[1].with(0), queueColumn, marked, paused}), []int{11}},
		{"kv-beside-ep.md", "ep-beside-kv", []string{"queues", "scheme"}, slices.Concat(kvColumns, []column{ttft}, itlColumns,
			[]column{dispatch, combine, tgs, queueColumn, marked}), []int{5}},
		{"ecmp-elephants.md", "ecmp-elephants", []string{"load", "paths"}, slices.Concat(kvColumns,
			[]column{ttft, tgs, queueColumn, marked, paused}), []int{9, 19}},
	} {
		t.Run(s.name, s.hold)
	}
}

// idle requires what an algorithm may cost where nothing meets: at most so much of
// the KV transfer, headers and targets below line rate, and hardly anything of ITL.
func idle(t *testing.T, base, other func(string) float64, most float64) {
	kv := other("mean_kv_transfer_ms") / base("mean_kv_transfer_ms")
	require.InDelta(t, 1, kv, most)
	if most == 0 {
		require.Equal(t, base("mean_ttft_ms"), other("mean_ttft_ms"))
		require.Equal(t, base("mean_itl_ms"), other("mean_itl_ms"))
	}
	require.InEpsilon(t, base("mean_itl_ms"), other("mean_itl_ms"), 0.003)
}

// What algorithms add to a packet of 4,178 B: GSE 8 B, telemetry 42 B, which with HPCC
// fills links to 95 %, and with trains, of which it hears more rarely, to a little less.
const (
	gseAdds  = 8. / 4178
	intAdds  = 42. / 4178
	hpccAdds = (1+intAdds)/0.94 - 1
)

// One transfer at a time is the same whatever the algorithm; an incast ends when the
// last link has carried it, but what stands before that link differs a hundredfold.
func TestIncastIsQueues(t *testing.T) {
	skipStudies(t)
	at := func(set ...string) func(string) float64 {
		return studied(t, "kv-incast", append([]string{"prefill.instances=4", "cluster.nodes=6", "cluster.leaves=6",
			"workload.prompt.tokens=1024", "workload.output.tokens=8", "packet.train=16", "network.sample_layers=2"}, set...)...)
	}
	dcqcn, gse := []string{"congestion.algorithm=dcqcn"}, []string{"congestion.algorithm=gse"}
	hpcc := []string{"congestion.algorithm=hpcc", "packet.transport.ack_every=1"}
	window := []string{"congestion.algorithm=none"}

	alone := func(set []string) func(string) float64 {
		return at(append(set, "workload.requests=2", "workload.arrivals={process: uniform, rate: 10/s}")...)
	}
	base := alone(window)
	idle(t, base, alone(dcqcn), 0)
	idle(t, base, alone(gse), gseAdds)
	idle(t, base, alone(hpcc), hpccAdds)
	require.Zero(t, base("marked_share"))

	burst := func(set []string) func(string) float64 {
		return at(append(set, "workload.requests=32", "workload.arrivals={process: at_once}")...)
	}
	d, g, h, w := burst(dcqcn), burst(gse), burst(hpcc), burst(window)
	// Four transfers meet at each of the eight NICs, and the first is posted 0.4 ms
	// after prefill.
	bound := 4 * 1024 * 98304 * 4178. / 4096 / 50e9 * 1e3
	for _, x := range []func(string) float64{d, g, h, w} {
		require.Greater(t, x("p99_kv_transfer_ms"), bound)
		require.Zero(t, x("dropped_packets"))
	}
	require.InDelta(t, bound+0.4, g("p99_kv_transfer_ms"), 0.3)
	require.Greater(t, d("p99_kv_transfer_ms"), 1.3*g("p99_kv_transfer_ms"))
	require.Greater(t, h("p99_kv_transfer_ms"), 1.2*g("p99_kv_transfer_ms"))
	require.Greater(t, d("max_queue_bytes"), 50*g("max_queue_bytes"))
	require.Greater(t, w("max_queue_bytes"), 5*g("max_queue_bytes"))
	require.Positive(t, d("pauses"))
	require.Zero(t, g("pauses")+h("pauses")+w("pauses"))
}

// Who decodes waits behind KV in one queue unless the queue is short; a queue of its
// own ends that under DCQCN.
func TestAllToAllBehindKV(t *testing.T) {
	skipStudies(t)
	at := func(set ...string) func(string) float64 {
		return studied(t, "ep-beside-kv", append([]string{"workload.requests=100", "workload.output.tokens=10",
			"network.sample_layers=4", "packet.train=8"}, set...)...)
	}
	quiet := func(algorithm string) func(string) float64 {
		return at("workload.prompt={dist: fixed, tokens: 16}", "workload.requests=30", "congestion.algorithm="+algorithm)
	}
	base := quiet("none")
	idle(t, base, quiet("dcqcn"), 0)
	idle(t, base, quiet("gse"), 0.01)

	window, dcqcn, gse := at("congestion.algorithm=none"), at("congestion.algorithm=dcqcn"), at("congestion.algorithm=gse")
	apart := at("congestion.algorithm=dcqcn", "packet.queues.mode=strict")
	require.Greater(t, dcqcn("p99_itl_ms"), 1.15*gse("p99_itl_ms"))
	require.Greater(t, window("p99_itl_ms"), 1.1*gse("p99_itl_ms"))
	require.Greater(t, dcqcn("max_queue_bytes"), 5*gse("max_queue_bytes"))
	require.Less(t, apart("p99_itl_ms"), 1.02*gse("p99_itl_ms"))
	require.Greater(t, apart("max_queue_bytes"), 5*gse("max_queue_bytes"), "the queue is there, and others stand in it")
}

// Elephants one after another do not collide; at once, the fewer flows the hash has to
// spread, the longer the unluckiest takes.
func TestElephantsCollide(t *testing.T) {
	skipStudies(t)
	at := func(set ...string) func(string) float64 {
		return studied(t, "ecmp-elephants", append([]string{"workload.prompt.tokens=512", "packet.train=16"}, set...)...)
	}
	variants := [][]string{
		{"kv.qps=1"}, {"kv.qps=64"}, {"packet.path.choice=spray-round-robin"}, {"congestion.algorithm=gse"},
		{"packet.path.choice=int", "packet.path.int.preset=packet"},
	}
	var alone, together [5]func(string) float64
	for i, v := range variants {
		alone[i] = at(append(v, "workload.requests=2", "workload.arrivals={process: uniform, rate: 5/s}")...)
		together[i] = at(v...)
	}
	for i, most := range []float64{0, 0, 0, gseAdds, intAdds} {
		idle(t, alone[0], alone[i], most)
		require.LessOrEqual(t, alone[i]("max_queue_bytes"), 16*(4178.+42), "a train at most")
	}
	kv := func(i int) float64 { return together[i]("p99_kv_transfer_ms") }
	require.Greater(t, kv(0), 3*kv(2))
	require.Greater(t, kv(0), 1.5*kv(4))
	require.Greater(t, kv(1), 1.1*kv(2))
	require.InEpsilon(t, alone[2]("p99_kv_transfer_ms"), kv(2), 0.01, "a spray reaches what a transfer takes alone")
	require.InEpsilon(t, alone[3]("p99_kv_transfer_ms"), kv(3), 0.01)
	require.Greater(t, together[0]("max_queue_bytes"), 10*together[2]("max_queue_bytes"))
}
