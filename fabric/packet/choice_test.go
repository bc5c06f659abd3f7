package packet

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/congestion"
	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/routing"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// chosen is lossless HPCC-ns3 buffers with a window and no congestion control, so
// that paths are all that matters, with packets of the same size whoever collects
// telemetry.
func chosen(t tester, how, preset string) Settings {
	s := lossless(t)
	s.Packet.DeadlockCheck = 0
	s.Packet.Transport.WindowBDP = 1.25
	s.Packet.Path.Choice = how
	if how == PathINT {
		s.Fabric.Header -= 42
		require.NoError(t, s.Packet.Path.INT.SetPreset(preset))
	}
	return s
}

// permuted is the mean of two permutations, each under one hash.
func permuted(t *testing.T, s Settings) (f fct, c Counters) {
	for _, list := range []string{"flows_perm128_s1.csv", "flows_perm128_s2.csv"} {
		ms := flowList(t, list)
		b := newSeededBench(t, s, build(t, ls128()), 1)
		for _, m := range ms {
			b.net.Send(m, b)
		}
		x := summarise(b.run())
		f.mean, f.p99, f.max = f.mean+x.mean/2, f.p99+x.p99/2, f.max+x.max/2
		c = b.net.Counters()
	}
	return f, c
}

// A permutation on LS128: an oracle beats whoever knows less, what follows
// telemetry beats hashes, and RDMA, which does not pause, has no flowlets: LetFlow
// is no better than ECMP (ConWeave's simulator: 394 to 430 us for ECMP, 410 to 440
// for LetFlow, 446 to 469 for CONGA). Two permutations.
func TestChoicesOfPath(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	mean := map[string]float64{}
	for _, c := range []struct{ how, preset string }{
		{PathECMP, ""}, {PathFlowlet, ""}, {PathCONGA, ""}, {PathConWeave, ""}, {PathINT, "message"}, {PathINT, "packet"},
		{PathSprayRandom, ""}, {PathOracle, ""},
	} {
		f, k := permuted(t, chosen(t, c.how, c.preset))
		t.Logf("%-16s %-8s mean %6.1f p99 %6.1f max %6.1f us, %d moves, %d out of order", c.how, c.preset, f.mean, f.p99, f.max, k.Moves, k.OutOfOrder)
		mean[c.how+c.preset] = f.mean
		if c.how == PathFlowlet {
			require.EqualValues(t, 128, k.Flowlets, "no flow ever pauses")
		}
	}
	require.Less(t, mean[PathOracle], 1.1*93.4, "the bound is 93.4 us")
	require.LessOrEqual(t, mean[PathOracle], mean[PathSprayRandom]*1.02)
	require.Less(t, mean[PathSprayRandom], mean[PathINT+"packet"])
	require.Less(t, mean[PathINT+"packet"], 0.95*mean[PathECMP])
	require.InEpsilon(t, mean[PathECMP], mean[PathFlowlet], 0.05)
	require.Less(t, mean[PathConWeave], 0.95*mean[PathECMP], "ConWeave's simulator: 269 to 290 us")
	require.InDelta(t, 1.1, mean[PathCONGA]/mean[PathECMP], 0.1, "its first choice of four neighbours is worse than a hash's of all")
	require.InEpsilon(t, mean[PathECMP], mean[PathINT+"message"], 0.1, "flows of one message decide before they know anything")
}

// An oracle loses what is on its way over a link that fails and sends nothing more
// there, though routing has yet to hear of it.
func TestOracleSeesFailures(t *testing.T) {
	s := chosen(t, PathOracle, "")
	s.Packet.Faults = []Fault{{Link: "leaf0>spine3", At: 30 * sim.Microsecond, Rate: 0}}
	s.Packet.FaultDetection = 100 * sim.Millisecond
	b := newBench(t, s, build(t, ls128()))
	b.net.Send(fabric.Message{Src: 0, Dst: 127, Bytes: 8 << 20}, b)
	b.run()
	lost := b.net.Counters().Dropped[DropLinkDown]
	require.Positive(t, lost)
	// A link of eight has an eighth of 1 us of wire before it, and one packet on it.
	require.LessOrEqual(t, lost, int64(8))
}

// An AllToAll loses an uplink of four, and routing is not told for 10 ms. Who waits
// for it is stuck until a retransmission after that; with silent_after flows leave
// the path that answers no probe, and the first retransmission arrives: timeouts are
// 1 ms here.
func TestSilenceTellsOfFailures(t *testing.T) {
	c := bare(16, 4, 4)
	c.LinkDelay = sim.Microsecond
	g := build(t, c)
	last := func(per string, silent sim.Time) float64 {
		s := chosen(t, PathINT, per)
		s.Packet.Path.INT.SilentAfter, s.Packet.Transport.Timeout = silent, sim.Millisecond
		s.Packet.Faults = []Fault{{Link: "leaf0>spine0", At: 20 * sim.Microsecond, Rate: 0}}
		s.Packet.FaultDetection = 10 * sim.Millisecond
		b := newBench(t, s, g)
		for _, m := range allPairs(16) {
			m.Bytes = 256 << 10
			b.net.Send(m, b)
		}
		return summarise(b.run()).max
	}
	for _, per := range []string{"message", "packet"} {
		require.Greater(t, last(per, 0), 10_000., per)
		require.Less(t, last(per, 100*sim.Microsecond), 2_000., per)
	}
}

// The older what a NIC knows of its paths, the worse it chooses; with nothing but
// what acknowledgements say of its own path it does not move at all.
func TestStaleTelemetryHurts(t *testing.T) {
	var last float64
	for _, every := range []sim.Time{5 * sim.Microsecond, 50 * sim.Microsecond, 200 * sim.Microsecond, 0} {
		s := chosen(t, PathINT, "greedy")
		s.Packet.Path.INT.ProbeInterval, s.Packet.Path.INT.MaxAge = every, 10*sim.Millisecond
		f, k := permuted(t, s)
		t.Logf("probes every %v: mean %.1f max %.1f us, %d moves, %d B of probes", every, f.mean, f.max, k.Moves, k.ProbeBytes)
		require.Greater(t, f.max, 1.05*last)
		last = f.max
		require.Equal(t, every == 0, k.Moves == 0)
		require.Equal(t, every == 0, k.Probes == 0)
		require.Equal(t, k.Probes*2*126, k.ProbeBytes)
		age := (k.ReportAge / sim.Time(k.Reports)).Microseconds()
		require.Greater(t, age, 6., "from the first switch to the receiver and back")
		require.Less(t, age, 40.)
	}
}

// A message that begins when its NIC knows of its paths takes the quiet one: here
// the leaf's other uplinks are full.
func TestMessagesAvoidBusyPaths(t *testing.T) {
	quiet := 0
	for dst := range 8 {
		s := chosen(t, PathINT, "message")
		s.Packet.Path.INT.Choices, s.Packet.Path.INT.ProbeInterval = 0, 10*sim.Microsecond
		b := newBench(t, s, build(t, ls128()))
		n := b.net
		for i := range topology.GPU(7) {
			src, to := i+1, 8*(i+2)+1
			q := &n.senders[n.queuePair(src, to, fabric.ClassKV, 0)]
			q.paths.first, q.paths.count = q.paths.first+uint32(i)*uint32(q.paths.stride), 1
			n.Send(fabric.Message{Src: src, Dst: to, Bytes: 20 * units.MB}, b)
		}
		b.engine.RunUntil(100 * sim.Microsecond)
		to := topology.GPU(120 + dst)
		n.Send(fabric.Message{Dst: to, Bytes: 4096}, b) // makes the NIC probe
		b.engine.RunUntil(150 * sim.Microsecond)
		n.Send(fabric.Message{Dst: to, Bytes: 40 * 4096, Class: fabric.ClassEP}, b)
		b.engine.RunUntil(200 * sim.Microsecond)
		if n.PortStats(n.graph.Out(n.graph.LeafOf(n.graph.NICOf(0)))[8+7]).Packets[fabric.ClassEP] == 40 {
			quiet++
		}
	}
	require.Equal(t, 8, quiet, "by hash it would be 1 in 8")
}

// Paths that have failed are left, and taken again.
func TestChoicesLeaveFailures(t *testing.T) {
	for _, how := range []string{PathCONGA, PathConWeave, PathINT, PathOracle} {
		s := chosen(t, how, "packet")
		s.Packet.FaultDetection = 10 * sim.Microsecond
		s.Packet.Transport.Timeout = 100 * sim.Microsecond
		s.Packet.Path.CONGA.FlowletGap = sim.Microsecond
		s.Packet.Path.ConWeave.Expiry = sim.Microsecond
		s.Packet.Faults = []Fault{
			{Link: "leaf0>spine0", At: 20 * sim.Microsecond}, {Link: "leaf0>spine3", At: 30 * sim.Microsecond},
			{Link: "leaf0>spine0", At: 3 * sim.Millisecond, Rate: 1},
		}
		b := newBench(t, s, build(t, ls128()))
		send := func() {
			for i := range 8 {
				b.net.Send(fabric.Message{Src: topology.GPU(i), Dst: topology.GPU(64 + 8*i), Bytes: units.MB}, b)
			}
		}
		at := func(when sim.Time) [8]int64 {
			b.engine.RunUntil(when)
			var k [8]int64
			for i, l := range b.net.graph.Out(b.net.graph.LeafOf(b.net.graph.NICOf(0)))[8:] {
				k[i] = b.net.PortStats(l).Packets[0]
			}
			return k
		}
		send()
		b.at(sim.Millisecond, send)
		b.at(4*sim.Millisecond, send)
		known, between := at(500*sim.Microsecond), at(2900*sim.Microsecond)
		require.Equal(t, known[0], between[0], how)
		require.Equal(t, known[3], between[3], how)
		b.run()
		after := at(100 * sim.Second)
		require.Equal(t, known[3], after[3], how)
		if how == PathOracle {
			require.Greater(t, after[0], between[0], how)
		}
	}
}

// Who does not choose by telemetry does not pay for it.
func TestTelemetryCosts(t *testing.T) {
	for _, how := range pathChoices() {
		s := chosen(t, how, "message")
		b := newBench(t, s, build(t, ls128()))
		require.EqualValues(t, 64, b.net.header, how)
		require.Equal(t, how == PathINT, b.net.telemetry != nil)
		want := uint32(60)
		if how == PathINT {
			want += 42
		}
		require.Equal(t, want, b.net.ackWire, how)
	}
	s := chosen(t, PathCONGA, "")
	s.Packet.Path.CONGA.HeaderBytes = 8
	require.EqualValues(t, 72, newBench(t, s, build(t, ls128())).net.header)
	require.False(t, congestion.NeedsOf(s.Congestion).INT)
}

// Eight sources share two uplinks and see the same of them, as old as it is. Greedy
// ones run from one to the other together; with margin, hold and draws no more than
// half ever move in the same round trip, and few at all.
func TestSourcesDoNotHerd(t *testing.T) {
	run := func(preset string) (most, moves int, lopsided float64) {
		s := chosen(t, PathINT, preset)
		s.Packet.Path.INT.Scope = routing.ScopeLeaf
		c := bare(16, 2, 2)
		c.LinkDelay, c.Oversubscription = sim.Microsecond, 4
		b := newBench(t, s, build(t, c))
		for i := range topology.GPU(8) {
			b.net.Send(fabric.Message{Src: i, Dst: 8 + i, Bytes: 10 * units.MB}, b)
		}
		var last [8]int
		const windows = 100
		for k := range windows {
			b.engine.RunUntil(100*sim.Microsecond + sim.Time(k)*8*sim.Microsecond)
			moved, on := 0, 0
			for i := range last {
				at := b.net.intPaths.flows[i].Path()
				if at != last[i] {
					moved++
				}
				on += at
				last[i] = at
			}
			if k == 0 {
				continue
			}
			most, moves = max(most, moved), moves+moved
			lopsided += math.Abs(float64(on)-4) / 4 / (windows - 1)
		}
		b.run()
		return most, moves, lopsided
	}
	most, moves, lopsided := run("packet")
	greedyMost, greedyMoves, greedyLopsided := run("greedy")
	t.Logf("packet: at most %d of 8 in a round trip, %d in all, %.2f lopsided; greedy: %d, %d, %.2f",
		most, moves, lopsided, greedyMost, greedyMoves, greedyLopsided)
	require.LessOrEqual(t, most, 4)
	require.GreaterOrEqual(t, greedyMost, 7)
	require.Less(t, 4*moves, greedyMoves)
	require.Less(t, lopsided, 0.6*greedyLopsided)
}

// An uplink at a quarter of its rate is left alone, for what it is worth: an
// AllToAll of 32 hosts in bursts, as of a decoder's layers. Before a burst all
// paths look idle; by the rates that switches stamp, flows know which one is slow.
// Its part by rate is 1/29 of what the leaf sends, a hash gives it 1/8.
func TestINTLeavesASlowUplink(t *testing.T) {
	run := func(how, preset string) (last, share float64) {
		s := chosen(t, how, preset)
		s.Packet.Faults = []Fault{{Link: "leaf0>spine1", Rate: 0.25}}
		c := bare(32, 4, 8)
		c.LinkDelay = sim.Microsecond
		b := newBench(t, s, build(t, c))
		for k := range sim.Time(8) {
			b.at(k*200*sim.Microsecond, func() {
				for i := range topology.GPU(32) {
					for j := range topology.GPU(31) {
						b.net.Send(fabric.Message{Src: i, Dst: (i + j + 1) % 32, Bytes: 16 * units.KiB}, b)
					}
				}
			})
		}
		worst := make([]float64, 8)
		for _, d := range b.run() {
			k := d.Posted / (200 * sim.Microsecond)
			worst[k] = max(worst[k], (d.Arrived - d.Posted).Microseconds())
		}
		for _, w := range worst[3:] {
			last += w / 5
		}
		slow, all := 0., 0.
		for i, l := range b.net.graph.Out(b.net.graph.LeafOf(b.net.graph.NICOf(0)))[8:] {
			packets := float64(b.net.PortStats(l).Packets[0])
			if all += packets; i == 1 {
				slow = packets
			}
		}
		return last, slow / all
	}
	ecmp, ecmpShare := run(PathECMP, "")
	t.Logf("ECMP: last %.1f us, %.3f on the slow uplink", ecmp, ecmpShare)
	for _, preset := range []string{"message", "packet"} {
		last, share := run(PathINT, preset)
		t.Logf("int %s: last %.1f us, %.3f", preset, last, share)
		require.Less(t, last, 0.6*ecmp, preset)
		require.Less(t, share, 0.5*ecmpShare, preset)
	}
}
