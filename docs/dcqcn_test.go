package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/congestion"
	"github.com/tgssim/tgssim/experiment"
	"github.com/tgssim/tgssim/fabric/packet"
	"github.com/tgssim/tgssim/internal/invariants"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/scenarios"
	"github.com/tgssim/tgssim/topology"
)

// TestDCQCN holds the tables of dcqcn.md.
func TestDCQCN(t *testing.T) {
	check(t, "dcqcn.md", []table{
		{"presets", true, presetsTable}, {"thresholds", true, thresholdsTable}, {"victims", true, victimsTable},
		{"notification", true, notificationTable}, {"increase", true, increaseTable}, {"loss", true, lossTable},
		{"tgs", true, tgsTable}, {"nothing", false, nothingTable},
	})
}

// A traffic is what `tgssim net` makes of a fabric and settings.
type traffic struct {
	*experiment.TrafficResult
	fct   []float64   // us, in order of the flows
	queue units.Bytes // the longest of a switch's port
}

func netted(t testing.TB, fabric string, set ...string) traffic {
	f, err := scenarios.LoadFabric(fabric, set...)
	require.NoError(t, err)
	b, err := experiment.BuildTraffic(f)
	require.NoError(t, err)
	r, err := b.Run(t.Context(), nil)
	require.NoError(t, err)
	n := traffic{TrafficResult: r}
	for _, x := range r.Flows {
		n.fct = append(n.fct, x.FCT.Microseconds())
	}
	net := b.Network.(*packet.Network)
	for l := range b.Graph.Links {
		if b.Graph.Nodes[b.Graph.Links[l].From].Kind >= topology.KindLeaf {
			n.queue = max(n.queue, net.PortStats(topology.LinkID(l)).MaxDepth)
		}
	}
	return n
}

func (n traffic) mean() float64 { m, _ := spread(n.fct); return m }

func (n traffic) last() float64 { return slices.Max(n.fct) }

// the patterns of the tables, as arguments of `tgssim net`.
var (
	incast32  = []string{"ls128-incast32"}
	permuted  = []string{"ls128-permutation"}
	allToAll2 = []string{"ls128-all-to-all", "traffic.hosts=32"}
	patterns  = [][]string{incast32, permuted, allToAll2}

	// feedback are those on which there is time for it: 16 MiB take 342 us at line rate.
	feedback = [][]string{{"ls128-incast32", "congestion.ecn.preset=conweave"}, permuted, {"ls128-permutation", "traffic.hosts=64", "traffic.bytes=16MiB"}}
)

func on(t testing.TB, pattern []string, set ...string) traffic {
	return netted(t, pattern[0], append(pattern[1:len(pattern):len(pattern)], set...)...)
}

// times are mean and last completion of every pattern, as cells.
func times(t testing.TB, patterns [][]string, set ...string) (cells []string) {
	for _, p := range patterns {
		n := on(t, p, set...)
		cells = append(cells, num(n.mean(), 0), num(n.last(), 0))
	}
	return cells
}

var feedbackHeads = []string{"incast, tight marks: mean, us", "last", "permutation of 4 MiB: mean", "last", "of 16 MiB: mean", "last"}

var patternHeads = []string{"incast: mean, us", "last", "permutation: mean", "last", "all-to-all: mean", "last"}

func presetsTable(t *testing.T) string {
	r := newRows(append([]string{"`congestion.preset`"}, append(slices.Clone(patternHeads), "longest queue, MB", "marked packets", "pauses")...)...)
	for _, name := range congestion.ConfigPresets() {
		cells := []string{"`" + name + "`"}
		queue, marked, pauses := units.Bytes(0), int64(0), int64(0)
		for _, p := range patterns {
			n := on(t, p, "congestion.preset="+name)
			cells = append(cells, num(n.mean(), 0), num(n.last(), 0))
			queue = max(queue, n.queue)
			marked += n.Counters.MarkedArrived
			pauses += n.Counters.Pauses
		}
		r.row(append(cells, num(float64(queue)/1e6, 1), fmt.Sprint(marked), fmt.Sprint(pauses))...)
	}
	return r.String()
}

func marksAt(kmin, kmax units.Bytes, pmax float64) []string {
	return []string{fmt.Sprintf("congestion.ecn.kmin=%dkB", kmin), fmt.Sprintf("congestion.ecn.kmax=%dkB", kmax), fmt.Sprint("congestion.ecn.pmax=", pmax)}
}

func thresholdsTable(t *testing.T) string {
	r := newRows(append([]string{"Kmin, KB", "Kmax, KB", "Pmax"}, append(slices.Clone(patternHeads), "longest queue of the permutation, MB")...)...)
	for _, k := range [][2]units.Bytes{{100, 400}, {100, 6400}, {400, 1600}, {1600, 6400}, {6400, 25600}} {
		for _, pmax := range []float64{0.05, 0.2, 1} {
			cells := []string{fmt.Sprint(int64(k[0])), fmt.Sprint(int64(k[1])), fmt.Sprint(pmax)}
			queue := units.Bytes(0)
			for _, p := range patterns {
				n := on(t, p, marksAt(k[0], k[1], pmax)...)
				cells = append(cells, num(n.mean(), 0), num(n.last(), 0))
				if p[0] == permuted[0] {
					queue = n.queue
				}
			}
			r.row(append(cells, num(float64(queue)/1e6, 1))...)
		}
	}
	return r.String()
}

// A shallow switch has ConWeave's 9 MiB, and headroom that suffices at 400 Gb/s.
const (
	shallow      = "congestion.buffer={preset: conweave, headroom: {response: true, frames: 3}}"
	shallowLossy = "congestion.buffer={preset: conweave, lossless: []}"
)

// withVictims is 32 hosts that send 1 MiB each to host 0, and seven of a leaf of their
// own that send 1 MiB each to host 0's neighbours under its leaf.
func withVictims(t testing.TB) []string {
	var b strings.Builder
	for i := range 32 {
		fmt.Fprintf(&b, "%d,0,1048576\n", 8+i)
	}
	for i := range 7 {
		fmt.Fprintf(&b, "%d,%d,1048576\n", 40+i, 1+i)
	}
	file := filepath.Join(t.TempDir(), "victims.csv")
	require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o644))
	return []string{"ls128-incast32", "traffic={pattern: file, path: " + file + "}"}
}

func victimsTable(t *testing.T) string {
	r := newRows("switch", "control", "incast: mean, us", "last", "victims: mean, us", "last", "longest queue, MB", "marked", "pauses")
	pattern := withVictims(t)
	for _, b := range []struct{ name, set string }{{"165 MB", "congestion.buffer.preset=sonic-tomahawk5"}, {"9 MiB", shallow}} {
		for _, c := range []struct {
			name string
			set  []string
		}{
			{"PFC only", []string{"congestion.preset=pfc-only"}},
			{"DCQCN, Kmin 1,600 KB", nil},
			{"DCQCN, Kmin 400 KB", marksAt(400, 1600, 0.2)},
			{"DCQCN, Kmin 100 KB", marksAt(100, 400, 0.2)},
			{"DCQCN, Kmin 100 KB, Pmax 1", marksAt(100, 400, 1)},
			{"hpcc", []string{"congestion.algorithm=hpcc"}},
			{"swift", []string{"congestion.algorithm=swift"}},
			{"timely", []string{"congestion.algorithm=timely"}},
		} {
			n := on(t, pattern, append([]string{b.set}, c.set...)...)
			var crowd, victims traffic
			for i, x := range n.Flows {
				if x.Dst == 0 {
					crowd.fct = append(crowd.fct, n.fct[i])
				} else {
					victims.fct = append(victims.fct, n.fct[i])
				}
			}
			r.row(b.name, c.name, num(crowd.mean(), 0), num(crowd.last(), 0), num(victims.mean(), 0), num(victims.last(), 0),
				num(float64(n.queue)/1e6, 1), fmt.Sprint(n.Counters.MarkedArrived), fmt.Sprint(n.Counters.Pauses))
		}
	}
	return r.String()
}

func notificationTable(t *testing.T) string {
	r := newRows(append([]string{"`cnp_interval`", "`cnp_delay`"}, feedbackHeads...)...)
	for _, interval := range []string{"0us", "4us", "10us", "50us"} {
		for _, delay := range []string{"0us", "10us", "55us"} {
			r.row(append([]string{interval, delay}, times(t, feedback, "congestion.dcqcn.cnp_interval="+interval, "congestion.dcqcn.cnp_delay="+delay)...)...)
		}
	}
	return r.String()
}

func increaseTable(t *testing.T) string {
	r := newRows(append([]string{"`increase_timer`", "`byte_counter`"}, feedbackHeads...)...)
	for _, c := range [][2]string{{"55us", "0B"}, {"300us", "0B"}, {"900us", "0B"}, {"300us", "32767B"}, {"300us", "150kB"}, {"300us", "10MB"}, {"55us", "10MB"}} {
		r.row(append([]string{c[0], c[1]}, times(t, feedback, "congestion.dcqcn.increase_timer="+c[0], "congestion.dcqcn.byte_counter="+c[1])...)...)
	}
	return r.String()
}

func lossTable(t *testing.T) string {
	r := newRows("flows", "control", "PFC", "recovery", "mean, us", "last", "dropped full", "dropped out of order", "sent again", "timeouts", "pauses")
	for _, p := range [][]string{incast32, permuted} {
		for _, c := range []struct {
			name string
			set  []string
		}{
			{"none", []string{"congestion.preset=pfc-only"}},
			{"window", []string{"congestion.algorithm=none"}},
			{"DCQCN", nil},
			{"DCQCN, Kmin 100 KB", marksAt(100, 400, 0.2)},
		} {
			c.set = append(c.set, "packet.transport.timeout=1ms")
			for _, how := range []struct{ pfc, recovery, buffer string }{
				{"on", packet.RecoveryGoBackN, shallow}, {"off", packet.RecoveryGoBackN, shallowLossy}, {"off", packet.RecoverySelective, shallowLossy},
			} {
				n := on(t, p, append([]string{how.buffer, "packet.transport.recovery=" + how.recovery}, c.set...)...)
				k := n.Counters
				r.row(strings.TrimPrefix(p[0], "ls128-"), c.name, how.pfc, how.recovery, num(n.mean(), 0), num(n.last(), 0),
					fmt.Sprint(k.Dropped[packet.DropQueue]+k.Dropped[packet.DropPool]+k.Dropped[packet.DropHeadroom]),
					fmt.Sprint(k.Dropped[packet.DropOutOfOrder]), fmt.Sprint(k.Retransmitted), fmt.Sprint(k.Timeouts), fmt.Sprint(k.Pauses))
			}
		}
	}
	return r.String()
}

// served is a small packet-level run with KV transfers beside AllToAlls on a 4:1
// fabric.
var served = []string{
	"network.engine=packet", "network.sample_layers=2", "cluster.oversubscription=4", "cluster.spines=2",
	"workload.requests=20", "workload.output={dist: fixed, tokens: 12}",
}

func tgsTable(t *testing.T) string {
	r := newRows("", "TGS", "mean ITL, ms", "p99", "mean TTFT, ms", "mean KV transfer, ms", "p99")
	for _, set := range []string{"congestion.preset=lossless", "congestion.preset=pfc-only", "congestion.ecn.preset=conweave", "congestion.preset=sonic-nvidia"} {
		v := studied(t, "kv-beside-ep", append(slices.Clone(served), set)...)
		r.row("`"+set+"`", num(v("tgs"), 2), num(v("mean_itl_ms"), 2), num(v("p99_itl_ms"), 2), num(v("mean_ttft_ms"), 0),
			num(v("mean_kv_transfer_ms"), 1), num(v("p99_kv_transfer_ms"), 1))
	}
	return r.String()
}

// balanced is a shift by one leaf, each flow on a path of its own: no port has more
// than it can carry.
func balanced(t testing.TB) []string {
	var b strings.Builder
	for i := range 128 {
		fmt.Fprintf(&b, "%d,%d,262144\n", i, (i+8)%128)
	}
	file := filepath.Join(t.TempDir(), "shift.csv")
	require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o644))
	return []string{"ls128-incast32", "packet.path.choice=static", "traffic={pattern: file, path: " + file + "}"}
}

func nothingTable(t *testing.T) string {
	r := newRows("`congestion.preset`", "one flow of 1 MiB: us", "128 flows of 256 KiB that share nothing: mean, us", "last", "marked", "pauses")
	pattern := balanced(t)
	for _, name := range congestion.ConfigPresets() {
		one := on(t, incast32, "traffic.hosts=1", "congestion.preset="+name)
		n := on(t, pattern, "congestion.preset="+name)
		r.row("`"+name+"`", num(one.last(), 3), num(n.mean(), 3), num(n.last(), 3), fmt.Sprint(n.Counters.MarkedArrived), fmt.Sprint(n.Counters.Pauses))
	}
	return r.String()
}

// Where nothing queues no setting of DCQCN, marks or PFC changes anything: every
// flow ends at the same picosecond, and the run says what did not act.
func TestNothingToControl(t *testing.T) {
	pattern := balanced(t)
	want := on(t, pattern)
	require.InDelta(t, want.last(), want.mean(), 1e-9, "nobody waits")
	sets := [][]string{
		marksAt(100, 400, 1), {"congestion.dcqcn.cnp_delay=55us"}, {"congestion.dcqcn.cnp_interval=50us"},
		{"congestion.dcqcn.increase_timer=900us"}, {"congestion.dcqcn.byte_counter=32767B"}, {shallow}, {shallowLossy},
		{shallowLossy, "packet.transport.recovery=selective-repeat"}, {"congestion.algorithm=timely"},
	}
	for _, name := range congestion.ConfigPresets() {
		sets = append(sets, []string{"congestion.preset=" + name})
	}
	for _, set := range sets {
		n := on(t, pattern, set...)
		require.Equal(t, want.fct, n.fct, set)
		require.Zero(t, n.Counters.MarkedArrived+n.Counters.Pauses+n.Counters.Retransmitted, set)
		require.Contains(t, strings.Join(n.Notes, "\n"), "congestion.ecn never acted: no packet was marked", set)
	}
}

// Marks at 100 to 400 KB starve at 400 Gb/s: a flow that is cut early waits for the
// timer of 300 us. HPCC-ns3 has means of 344.7 us at 1,600 to 6,400 KB and 562.6 at
// 100 to 400 KB for a permutation, and an incast of 32 whose link is idle a third of the
// time.
func TestTightMarksStarve(t *testing.T) {
	for _, p := range [][]string{incast32, permuted} {
		loose, tight := on(t, p), on(t, p, "congestion.ecn.preset=conweave")
		require.Greater(t, tight.mean(), 1.2*loose.mean(), p)
		require.Greater(t, tight.last(), 1.05*loose.last(), p)
		fast := on(t, p, "congestion.ecn.preset=conweave", "congestion.dcqcn.increase_timer=55us")
		require.Less(t, fast.mean(), 0.9*tight.mean(), "it is the timer: %s", p)
	}
}

// Without PFC a small buffer loses packets. Go-back-N throws away what follows a
// loss, too; selective repeat sends again what was dropped, and no more than a few
// others; with PFC nothing is lost at all.
func TestLossAndRecovery(t *testing.T) {
	if testing.Short() || invariants.Enabled {
		t.Skip("the same figures, slower")
	}
	on := func(set ...string) *packet.Counters { return on(t, permuted, set...).Counters }
	pfc := on(shallow)
	require.Positive(t, pfc.Pauses)
	require.Zero(t, pfc.Retransmitted)
	all := on(shallowLossy)
	some := on(shallowLossy, "packet.transport.recovery=selective-repeat")
	require.Zero(t, all.Pauses+some.Pauses)
	require.Positive(t, all.Dropped[packet.DropOutOfOrder])
	require.Zero(t, some.Dropped[packet.DropOutOfOrder])
	require.Greater(t, all.Retransmitted, 2*some.Retransmitted)
	require.InEpsilon(t, some.Dropped[packet.DropQueue], some.Retransmitted, 0.02)
}

// A run says where its settings contradict each other.
func TestAdvice(t *testing.T) {
	for _, tc := range []struct {
		pattern   []string
		set, says string
	}{
		{incast32, shallow, "congestion.ecn hardly acts: one port is paused at 393.7 KB"},
		{incast32, "congestion.algorithm=hpcc", "congestion.algorithm hpcc hears of its path once in 4 packets"},
		{incast32, "packet.transport.timeout=20us", "packet.transport.timeout, 20us, is shorter than what packets wait"},
		{withVictims(t), "congestion.buffer={preset: conweave, headroom: {delays: 0, frames: 1}}", "congestion.buffer.headroom is too small for PFC to be lossless: "},
	} {
		require.Contains(t, strings.Join(on(t, tc.pattern, tc.set).Notes, "\n"), tc.says)
		require.NotContains(t, strings.Join(on(t, tc.pattern).Notes, "\n"), tc.says)
	}
	hpcc := on(t, incast32, "congestion.algorithm=hpcc", "packet.transport.ack_every=1")
	require.NotContains(t, strings.Join(hpcc.Notes, "\n"), "hears of its path")
}
