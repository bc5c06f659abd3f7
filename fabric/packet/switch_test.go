package packet

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/congestion"
	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// A PFC frame waits for the frame on the wire, takes 84 B of it (1.68 ns at 400
// Gb/s), flies 1 us and is heeded after the response time: that long after the
// leaf's decision, to the picosecond, its NIC stops, and so it resumes.
func TestPauseTiming(t *testing.T) {
	s := lossless(t)
	s.Congestion.Buffer.StaticThreshold = 100 * units.KB
	s.Congestion.Buffer.Headroom = congestion.HeadroomConfig{Bytes: 300_000}
	s.Packet.PauseResponse = 100 * sim.Nanosecond
	b := newBench(t, s, build(t, star(5, 400*units.Gbps)))
	n := b.net
	for i := range 2 {
		b.net.Send(fabric.Message{Src: topology.GPU(1 + i), Dst: 0, Bytes: 2 << 20}, b)
	}
	// What goes the other way, from two hosts to host 1, keeps that wire busy at
	// instants of its own, with packets waiting for it.
	for i := range 2 {
		b.at(17*sim.Nanosecond, func() { b.net.Send(fabric.Message{Src: topology.GPU(3 + i), Dst: 1, Bytes: 1 << 20}, b) })
	}
	up := n.nics[1].port
	group := func() bool { return n.buffers[0].Paused(int(n.portIndex[up^1]), n.qos[prioShared]) }
	var due []sim.Time // when decisions take effect, in order
	waited, flips := 0, 0
	for {
		busy, decided, stopped := n.ports[up^1].busy, group(), n.ports[up].paused != 0
		if !b.engine.Step() {
			break
		}
		now := b.engine.Now()
		if after := n.ports[up^1].busy; after != busy {
			took := after - max(busy, now) // nothing begins before the wire is free
			require.True(t, took == 1680 || took == 83_200, "%v", took)
		}
		if group() != decided {
			due = append(due, max(busy, now)+1680+sim.Microsecond+100*sim.Nanosecond)
			if busy > now {
				waited++
			}
		}
		if (n.ports[up].paused != 0) != stopped {
			require.Equal(t, due[flips], now)
			flips++
		}
	}
	b.idle()
	require.Equal(t, len(due), flips)
	require.Greater(t, flips, 10)
	require.Positive(t, waited)
}

// Two NICs send 20 packets each to a third, in step. Packets of a pair arrive
// together; of the first pair one goes on and one waits. With every pair the
// queue grows by one: the port leaves behind 2, 3, ... 20 packets as it takes the
// next, and then 19, 18, ... 0. With Kmin = Kmax = k packets, those are marked
// that leave more than k behind: 20-k on the way up and 19-k on the way down. On
// arrival the same packets find i and i+1 waiting, i = 1..19: again 39-2k.
func TestMarkingByHand(t *testing.T) {
	for i, at := range append(markTimes, markTimes...) {
		for _, k := range []units.Bytes{3, 5, 10} {
			s := lossless(t)
			class := func(j int) fabric.Class { return fabric.Class(j) }
			if i >= len(markTimes) { // the same in a queue of the class's own
				s.Packet.Queues.Mode = "strict"
				class = func(int) fabric.Class { return fabric.ClassEP }
			}
			s.Packet.MarkAt = at
			s.Congestion.ECN.Thresholds = []congestion.ECNThresholds{{Rate: 400 * units.Gbps, Kmin: k * 4160, Kmax: k * 4160, Pmax: 1}}
			b := newBench(t, s, build(t, star(3, 400*units.Gbps)))
			for i := range 2 {
				b.net.Send(fabric.Message{Src: topology.GPU(1 + i), Dst: 0, Bytes: 20 * 4096, Class: class(i)}, b)
			}
			b.run()
			require.EqualValues(t, 39-2*k, b.net.Counters().MarkedArrived, "%s, %d", at, k)
			down := b.net.graph.NextHops(b.net.graph.LeafOf(b.net.graph.NICOf(0)), b.net.graph.NICOf(0))[0]
			st := b.net.PortStats(down)
			require.EqualValues(t, 39-2*k, st.Marked[0]+st.Marked[1])
			require.EqualValues(t, 40, st.Packets[0]+st.Packets[1])
			// The most that wait is 21, before the wake-up at the last arrival. The mean
			// is the sum of what is left behind, each for one packet's time: 1 for the
			// first, 2..20 and 19..0, which is 400, over the run.
			require.EqualValues(t, 21*4160, st.MaxDepth)
			require.InEpsilon(t, 400*4160*83_200/float64(b.engine.Now()), st.MeanDepth, 1e-9)
			require.LessOrEqual(t, st.P50Depth, st.P99Depth)
			require.LessOrEqual(t, st.P99Depth, st.MaxDepth)
		}
	}
}

// An acknowledgement comes every so many packets and with the last of each
// message, where no window asks for more.
func TestAckCoalescing(t *testing.T) {
	for _, every := range []int{1, 4, 7, 100} {
		s := preset(t, "line-rate")
		s.Packet.Transport.WindowBDP = 0
		s.Packet.Transport.AckEvery = every
		b := newBench(t, s, build(t, star(2, 400*units.Gbps)))
		for range 3 {
			b.net.Send(fabric.Message{Src: 0, Dst: 1, Bytes: 30 * 4096}, b)
		}
		b.run()
		require.EqualValues(t, 3*((30+every-1)/every), b.net.Counters().Replies)
	}
}

// A packet lost at the end of a message is sent again one timeout after the last
// progress: the acknowledgement of the packet before.
func TestTimeoutByHand(t *testing.T) {
	const s, d, ack = 83_200 * sim.Picosecond, sim.Microsecond, 2 * 1280 * sim.Picosecond
	for _, how := range []string{RecoveryGoBackN, RecoverySelective} {
		c := preset(t, "line-rate")
		c.Packet.Transport.Recovery = how
		c.Packet.Transport.Timeout = 50 * sim.Microsecond
		// Packet 8 has left the first wire at 9 s and is at the leaf at 9 s + d.
		// The last, packet 9, is on it alone from then on.
		down := 9*s + d + 1
		c.Packet.Faults = []Fault{{Link: "nic0>leaf0", At: down, Rate: 0}, {Link: "leaf0>nic0", At: down + 1, Rate: 1}}
		b := newBench(t, c, build(t, star(2, 400*units.Gbps)))
		b.net.Send(fabric.Message{Src: 0, Dst: 1, Bytes: 10 * 4096}, b)
		heard := 8*s + 2*s + 2*d + 2*d + ack
		require.Equal(t, heard+50*sim.Microsecond+2*s+2*d, b.run()[0].Arrived)
		require.EqualValues(t, 1, b.net.Counters().Timeouts)
		require.EqualValues(t, 1, b.net.Counters().Retransmitted)
	}
}

// CNPs of a receiver are one interval apart: per queue pair, or per port for all
// of them together; they arrive after their delay.
func TestCNPs(t *testing.T) {
	run := func(scope string, delay sim.Time) (cnps int64, span sim.Time) {
		s := preset(t, "hpcc-ns3-dcqcn")
		d := &s.Congestion.DCQCN
		require.NoError(t, d.SetPreset("alibaba"))
		d.CNPScope, d.CNPDelay, d.CNPInterval = scope, delay, 20*sim.Microsecond
		// Rates hardly fall, so that marks never cease.
		d.MinDecreaseFactor = 1
		s.Congestion.ECN.Thresholds = []congestion.ECNThresholds{{Rate: 400 * units.Gbps, Kmin: 1, Kmax: 2, Pmax: 1}}
		b := newBench(t, s, build(t, star(5, 400*units.Gbps)))
		for i := range 4 {
			b.net.Send(fabric.Message{Src: topology.GPU(1 + i), Dst: 0, Bytes: 4 << 20}, b)
		}
		// The first pair of packets to meet is at the leaf after 1.083 us; one waits
		// and is not marked, the next ones are, and a CNP needs 2 us and more back.
		b.engine.RunUntil(delay + 4*sim.Microsecond)
		require.Zero(t, b.net.Counters().CNPs)
		b.engine.RunUntil(delay + 5*sim.Microsecond)
		require.Positive(t, b.net.Counters().CNPs)
		b.run()
		return b.net.Counters().CNPs, b.engine.Now()
	}
	perQP, span := run(congestion.ScopeQP, 0)
	intervals := float64(span) / float64(20*sim.Microsecond)
	require.InDelta(t, 4*intervals, perQP, 5)
	perPort, span := run(congestion.ScopePort, 0)
	require.InDelta(t, float64(span)/float64(20*sim.Microsecond), perPort, 2)
	late, span2 := run(congestion.ScopeQP, 55*sim.Microsecond)
	require.InDelta(t, perQP, late, 5)
	require.Greater(t, span2, span-60*sim.Microsecond)
}

// A queue pair that has nothing more to send is still held to its rate by what
// it sent last: at 1 Gb/s, a packet of 4,144 B takes 33.152 us, and a message that
// is posted meanwhile begins then.
func TestPacingOverIdleness(t *testing.T) {
	s := preset(t, "hpcc-ns3-dcqcn")
	s.Congestion.DCQCN.InitialRate = units.Gbps
	s.Congestion.DCQCN.IncreaseTimer = sim.Second
	b := newBench(t, s, build(t, star(2, 400*units.Gbps)))
	send := func() { b.net.Send(fabric.Message{Src: 0, Dst: 1, Bytes: 4096}, b) }
	send()
	b.at(20*sim.Microsecond, send)
	b.at(20*sim.Microsecond, send)
	b.at(200*sim.Microsecond, send)
	const alone, gap = 2*82_880*sim.Picosecond + 2*sim.Microsecond, 33_152 * sim.Nanosecond
	for i, want := range []sim.Time{0, gap, 2 * gap, 200 * sim.Microsecond} {
		b.engine.Run()
		require.Equal(t, want+alone, b.deliveries[i].Arrived)
	}
	b.idle()
}
