package packet

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/congestion"
	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// lossy has no PFC and a switch memory of so many bytes.
func lossy(t tester, buffer units.Bytes) Settings {
	s := preset(t, "line-rate")
	s.Congestion.Buffer.Lossless = nil
	s.Congestion.Buffer.Size = buffer
	s.Congestion.Buffer.EgressAlpha = 1
	s.Packet.Transport.Timeout = 100 * sim.Microsecond
	return s
}

// An incast into a shallow lossy buffer drops, and every way of recovery brings
// every byte to its place; selective repeat sends less again than go-back-N.
func TestRecovery(t *testing.T) {
	again := map[string]int64{}
	for _, how := range []string{RecoveryGoBackN, RecoverySelective} {
		s := lossy(t, 300*units.KB)
		s.Packet.Transport.Recovery = how
		b := newBench(t, s, build(t, ls128()))
		for i := range 16 {
			b.net.Send(fabric.Message{Src: topology.GPU(127 - i), Dst: 0, Bytes: 1 << 20, QPs: 2}, b)
		}
		b.run()
		k := b.net.Counters()
		lost := k.Dropped[DropPool] + k.Dropped[DropQueue]
		require.Positive(t, lost)
		require.GreaterOrEqual(t, k.Retransmitted, lost)
		require.Positive(t, k.NACKs)
		again[how] = k.Retransmitted - lost
		t.Logf("%s: %d lost, %d sent again, %d timeouts", how, lost, k.Retransmitted, k.Timeouts)
		if how == RecoveryGoBackN {
			require.Equal(t, k.OutOfOrder, k.Dropped[DropOutOfOrder])
		} else {
			require.Positive(t, k.MaxReorder)
			require.Zero(t, k.Dropped[DropOutOfOrder])
		}
	}
	require.Less(t, again[RecoverySelective], again[RecoveryGoBackN]/2)
}

// One lost packet, by hand. Link nic0>leaf0 fails while packet k is on it and is
// back before the next: go-back-N sends everything from k on again when the NACK
// of packet k+1 is back; selective repeat sends packet k.
func TestOneLoss(t *testing.T) {
	const s, d = 83_200 * sim.Picosecond, sim.Microsecond
	for _, how := range []string{RecoveryGoBackN, RecoverySelective} {
		c := preset(t, "line-rate")
		c.Packet.Transport.Recovery, c.Packet.Transport.WindowBDP = how, 0
		c.Packet.Faults = []Fault{
			{Link: "nic0>leaf0", At: 10*s + d/2, Rate: 0}, {Link: "nic0>leaf0", At: 10*s + d/2 + 1, Rate: 1},
		}
		b := newBench(t, c, build(t, star(2, 400*units.Gbps)))
		b.net.Send(fabric.Message{Src: 0, Dst: 1, Bytes: 100 * 4096}, b)
		got := b.run()[0].Arrived
		k := b.net.Counters()
		// Of the packets on the wire at that instant: those whose first bit left
		// after 10 s + d/2 - d - s = 248.8 ns and before 1332 ns: packets 3 to 16,
		// counted from 0.
		lost := k.Dropped[DropLinkDown]
		require.EqualValues(t, 14, lost)
		require.EqualValues(t, 1, k.NACKs)
		// Packet 17 arrives at 18 s + 2 d + s and its NACK is back 2 d and two
		// serialisations of 1.28 ns later. By then packets to p have been sent.
		nack := 18*s + 2*d + s + 2*d + 2*1280*sim.Picosecond
		p := int64((nack + s - 1) / s) // the wire is free for a new packet then
		require.Equal(t, min(100, p), p, "still sending")
		if how == RecoveryGoBackN {
			require.Equal(t, p-3, k.Retransmitted)
			require.Equal(t, sim.Time(p)*s+97*s+2*d+s, got)
		} else {
			require.EqualValues(t, lost, k.Retransmitted)
			require.Equal(t, sim.Time(100+lost)*s+2*d+s, got)
		}
	}
}

// Every gap is reported anew: two losses in one message cost two NACKs and no
// timeout.
func TestTwoLosses(t *testing.T) {
	for _, how := range []string{RecoveryGoBackN, RecoverySelective} {
		s := preset(t, "line-rate")
		s.Packet.Transport.Recovery = how
		for _, at := range []sim.Time{5 * sim.Microsecond, 30 * sim.Microsecond} {
			s.Packet.Faults = append(s.Packet.Faults,
				Fault{Link: "nic0>leaf0", At: at, Rate: 0}, Fault{Link: "nic0>leaf0", At: at + 1, Rate: 1})
		}
		b := newBench(t, s, build(t, star(2, 400*units.Gbps)))
		b.net.Send(fabric.Message{Src: 0, Dst: 1, Bytes: 1000 * 4096}, b)
		b.run()
		require.EqualValues(t, 2, b.net.Counters().NACKs)
		require.Zero(t, b.net.Counters().Timeouts)
	}
}

// Whatever the losses, recovery, queue pairs, limits and sizes, every byte
// arrives and the books balance.
func TestConservation(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := lossy(rt, units.Bytes(rapid.IntRange(50, 400).Draw(rt, "buffer KB"))*units.KB)
		if rapid.Bool().Draw(rt, "pfc") {
			s = lossless(rt)
			s.Congestion.Buffer.Size = 4 * units.MB
			s.Congestion.Buffer.Headroom = congestion.HeadroomConfig{Frames: rapid.IntRange(1, 3).Draw(rt, "headroom"), Delays: rapid.IntRange(0, 2).Draw(rt, "delays")}
			s.Packet.Transport.Timeout = 100 * sim.Microsecond
		}
		if rapid.Bool().Draw(rt, "dcqcn") {
			s.Congestion.Algorithm = "dcqcn"
		}
		p := &s.Packet
		p.Train = rapid.SampledFrom([]int{1, 1, 2, 5, 16, 64}).Draw(rt, "train")
		s.Congestion.Buffer.Size += units.Bytes(p.Train-1) * 100 * units.KB // their headroom
		p.Path.Choice = rapid.SampledFrom(pathChoices()).Draw(rt, "path")
		p.Path.FlowletGap = sim.Time(rapid.IntRange(0, 2000).Draw(rt, "gap")) * sim.Nanosecond
		p.Transport.Recovery = rapid.SampledFrom(recoveries).Draw(rt, "recovery")
		p.Transport.AckEvery = rapid.IntRange(1, 9).Draw(rt, "ack every")
		p.Transport.AckQueueing = rapid.Bool().Draw(rt, "queued acks")
		p.Transport.ReorderWindow = rapid.SampledFrom([]int{64, 256}).Draw(rt, "reorder window")
		p.NIC.MaxQPs = rapid.IntRange(0, 3).Draw(rt, "qps")
		p.NIC.MaxRequests = rapid.IntRange(0, 3).Draw(rt, "requests")
		p.NIC.RequestCost = sim.Time(rapid.IntRange(0, 1).Draw(rt, "cost")) * 100 * sim.Nanosecond
		if rapid.Bool().Draw(rt, "drain") {
			p.NIC.DrainRate = 100 * units.Gbps
			p.NIC.DrainBuffer = 256 * units.KiB
		}
		p.Queues.Mode = rapid.SampledFrom(queueModes).Draw(rt, "queues")
		s.Congestion.Buffer.Lossless = append(s.Congestion.Buffer.Lossless, 4)[:min(2, 2*len(s.Congestion.Buffer.Lossless))]
		p.MarkAt = rapid.SampledFrom(markTimes).Draw(rt, "mark")
		if rapid.Bool().Draw(rt, "faults") {
			p.FaultDetection = sim.Time(rapid.IntRange(0, 50).Draw(rt, "detection")) * sim.Microsecond
			for i, l := range []string{"leaf0>spine0", "leaf0>spine0", "nic9>leaf2", "nic9>leaf2"} {
				p.Faults = append(p.Faults, Fault{Link: l, At: sim.Time(10+20*i) * sim.Microsecond, Rate: []float64{0, 1, 0.25, 1}[i]})
			}
		}
		tc := bare(16, 4, 2)
		tc.GPUsPerNode, tc.NICsPerNode, tc.Nodes = 2, 2, 8
		tc.LinkDelay, tc.Oversubscription = sim.Microsecond, 2
		b := newBench(rt, s, build(rt, tc))
		gpu := rapid.IntRange(0, 15)
		for i := range rapid.IntRange(1, 12).Draw(rt, "messages") {
			m := fabric.Message{
				Src: topology.GPU(gpu.Draw(rt, "src")), Dst: topology.GPU(gpu.Draw(rt, "dst")), Tag: uint64(i),
				Bytes: units.Bytes(rapid.IntRange(0, 400_000).Draw(rt, "bytes")), QPs: rapid.IntRange(0, 3).Draw(rt, "qps"),
				Class: fabric.Class(rapid.IntRange(0, 1).Draw(rt, "class")),
			}
			b.at(sim.Time(rapid.IntRange(0, 30).Draw(rt, "at"))*sim.Microsecond, func() { b.net.Send(m, b) })
		}
		coll, err := b.net.NewCollective(allToAll("c", gpuRange(0, 8), 700))
		require.NoError(rt, err)
		coll.SetUnits(same(8, rapid.Int64Range(0, 20000).Draw(rt, "units")))
		coll.Start(5*sim.Microsecond, 99, b)
		for range 20 {
			b.engine.RunUntil(b.engine.Now() + 10*sim.Microsecond)
			require.NoError(rt, b.net.Check())
		}
		b.engine.RunUntil(10 * sim.Second)
		require.Empty(rt, b.net.Notices())
		b.run()
	})
}

// Limits make work wait and lose none of it: with one queue pair at a time a
// NIC's messages follow each other, with one request at a time each waits for
// the acknowledgement of the one before.
func TestLimits(t *testing.T) {
	const s, rtt = 83_200 * sim.Picosecond, 4*sim.Microsecond + 2*83_200*sim.Picosecond + 2*1280*sim.Picosecond
	run := func(change func(*Settings), messages int, dst func(i int) topology.GPU) []fabric.Delivery {
		c := preset(t, "line-rate")
		change(&c)
		b := newBench(t, c, build(t, star(9, 400*units.Gbps)))
		for i := range messages {
			b.net.Send(fabric.Message{Src: 0, Dst: dst(i), Bytes: 4096, Tag: uint64(i)}, b)
		}
		return b.run()
	}
	apart := func(i int) topology.GPU { return topology.GPU(1 + i) }
	one := func(int) topology.GPU { return 1 }
	first := 2*s + 2*sim.Microsecond // a packet over two links
	for i, d := range run(func(*Settings) {}, 8, apart) {
		require.Equal(t, first+sim.Time(i)*s, d.Arrived)
	}
	for i, d := range run(func(c *Settings) { c.Packet.NIC.MaxQPs = 1 }, 8, apart) {
		require.Equal(t, first+sim.Time(i)*rtt, d.Arrived)
	}
	for i, d := range run(func(c *Settings) { c.Packet.NIC.MaxQPs = 2 }, 8, apart) {
		require.Equal(t, first+sim.Time(i/2)*rtt+sim.Time(i%2)*s, d.Arrived)
	}
	for i, d := range run(func(c *Settings) { c.Packet.NIC.MaxRequests = 1 }, 8, one) {
		require.Equal(t, first+sim.Time(i)*rtt, d.Arrived)
	}
	for i, d := range run(func(c *Settings) { c.Packet.NIC.RequestCost = sim.Microsecond }, 8, apart) {
		require.Equal(t, first+sim.Time(i+1)*sim.Microsecond, d.Arrived)
	}
}

// DCQCN's window bounds what is under way, and follows the rate when it shall.
func TestDCQCNWindow(t *testing.T) {
	for _, follows := range []bool{false, true} {
		s := preset(t, "hpcc-ns3-dcqcn")
		s.Congestion.DCQCN.Window = 50 * 4096
		s.Congestion.DCQCN.WindowFollowsRate = follows
		s.Congestion.ECN.Thresholds = []congestion.ECNThresholds{{Rate: 400 * units.Gbps, Kmin: 1, Kmax: 2, Pmax: 1}}
		b := newBench(t, s, build(t, star(5, 400*units.Gbps)))
		for i := range 4 {
			b.net.Send(fabric.Message{Src: topology.GPU(1 + i), Dst: 0, Bytes: 4 << 20}, b)
		}
		least, most := uint32(50), uint32(0)
		for b.engine.Step() {
			for i := range b.net.senders {
				q := &b.net.senders[i]
				require.LessOrEqual(t, q.next-q.una, uint32(50))
				least, most = min(least, q.window), max(most, q.next-q.una)
			}
		}
		require.EqualValues(t, 50, most)
		require.Equal(t, follows, least < 40)
		b.idle()
	}
}

// A NIC that drains at a quarter of its port's rate paces the whole message to
// that, with pauses and without loss.
func TestDrain(t *testing.T) {
	s := lossless(t)
	s.Packet.NIC.DrainRate = 100 * units.Gbps
	b := newBench(t, s, build(t, star(2, 400*units.Gbps)))
	const n = 20_000
	b.net.Send(fabric.Message{Src: 0, Dst: 1, Bytes: n * 4096}, b)
	d := b.run()[0]
	require.InEpsilon(t, float64(n*4*83_200*sim.Picosecond), float64(d.Arrived), 0.001)
	require.Positive(t, b.net.Counters().Pauses)
	require.Zero(t, b.net.Counters().Dropped)

	// 64 KiB, paused at half, do not hold what 2 us of the way back bring: some is
	// lost there, and sent again.
	s.Packet.NIC.DrainBuffer = 64 * units.KiB
	s.Packet.Transport.Timeout = 100 * sim.Microsecond
	b = newBench(t, s, build(t, star(2, 400*units.Gbps)))
	b.net.Send(fabric.Message{Src: 0, Dst: 1, Bytes: 4 << 20}, b)
	b.run()
	require.Positive(t, b.net.Counters().Dropped[DropNIC])
}

// Over eight paths of which one has a tenth of the rate, packets overtake each other:
// spraying with selective repeat loses nothing and sends nothing twice; the same
// with go-back-N throws away what comes early.
func TestSpray(t *testing.T) {
	for _, choice := range []string{PathSprayRandom, PathSprayRoundRobin} {
		for _, how := range []string{RecoveryAuto, RecoveryGoBackN} {
			s := preset(t, "line-rate")
			s.Packet.Path.Choice = choice
			s.Packet.Transport.Recovery = how
			s.Packet.Faults = []Fault{{Link: "leaf0>spine0", Rate: 0.1}}
			b := newBench(t, s, build(t, ls128()))
			b.engine.RunUntil(0)
			b.net.Send(fabric.Message{Src: 0, Dst: 127, Bytes: 4 << 20}, b)
			b.run()
			k := b.net.Counters()
			require.Positive(t, k.OutOfOrder)
			if how == RecoveryAuto {
				require.Zero(t, k.Retransmitted)
				require.Zero(t, k.Dropped)
				require.Less(t, k.MaxReorder, int64(100))
			} else {
				require.Positive(t, k.Retransmitted)
			}
		}
	}
}

// Spraying evens out what ECMP's collisions make uneven: a permutation under PFC
// comes within 5 % of the line rate, where ECMP takes two to four times as long
// (NDP in htsim 97.4 us, the reference's bound 93.4 us).
func TestSprayedPermutation(t *testing.T) {
	times := map[string]fct{}
	for _, choice := range []string{PathECMP, PathSprayRandom, PathSprayRoundRobin} {
		s := lossless(t)
		s.Packet.Path.Choice = choice
		s.Packet.Transport.WindowBDP = 1.25
		b := newBench(t, s, build(t, ls128()))
		for _, m := range flowList(t, "flows_perm128_s1.csv") {
			b.net.Send(m, b)
		}
		times[choice] = summarise(b.run())
		t.Logf("%s: %.1f", choice, times[choice])
	}
	require.Less(t, times[PathSprayRandom].max, 110.)
	require.Less(t, times[PathSprayRoundRobin].max, 98.)
	require.Greater(t, times[PathECMP].max, 200.)
}

// Flowlets move when there is a gap, and only then.
func TestFlowlets(t *testing.T) {
	run := func(gap sim.Time) Counters {
		s := preset(t, "line-rate")
		s.Packet.Path.Choice, s.Packet.Path.FlowletGap = PathFlowlet, gap
		b := newBench(t, s, build(t, ls128()))
		for i := range 20 { // bursts of 64 packets, 20 us apart
			b.at(sim.Time(i)*20*sim.Microsecond, func() {
				b.net.Send(fabric.Message{Src: 0, Dst: 127, Bytes: 64 * 4096}, b)
			})
		}
		b.run()
		return b.net.Counters()
	}
	require.EqualValues(t, 20, run(10*sim.Microsecond).Flowlets)
	require.EqualValues(t, 1, run(100*sim.Microsecond).Flowlets)
}

// Static paths are the ones that are asked for.
func TestStaticPath(t *testing.T) {
	g := build(t, ls128())
	for index := range 8 {
		s := preset(t, "line-rate")
		s.Packet.Path.Choice, s.Packet.Path.Index = PathStatic, index
		b := newBench(t, s, g)
		b.net.Send(fabric.Message{Src: 0, Dst: 127, Bytes: 4096}, b)
		b.run()
		for _, l := range g.Paths(g.NICOf(0), g.NICOf(127))[index] {
			require.EqualValues(t, 1, b.net.PortStats(l).Packets[fabric.ClassKV])
		}
	}
}

// The destination's number chooses where the index is -1.
func TestStaticPathByDestination(t *testing.T) {
	g := build(t, ls128())
	s := preset(t, "line-rate")
	s.Packet.Path.Choice = PathStatic
	b := newBench(t, s, g)
	for dst := topology.GPU(64); dst < 80; dst++ {
		require.Equal(t, g.Paths(g.NICOf(0), g.NICOf(dst))[dst%8], b.net.pathOf(0, dst, 0))
	}
}

// Sprays begin on different paths, so that short messages do not all take the
// first one.
func TestSpraysBeginApart(t *testing.T) {
	s := preset(t, "line-rate")
	s.Packet.Path.Choice = PathSprayRoundRobin
	b := newBench(t, s, build(t, ls128()))
	for i := range 8 {
		b.net.Send(fabric.Message{Src: topology.GPU(i), Dst: topology.GPU(64 + i), Bytes: 4096}, b)
	}
	b.run()
	used := 0
	for _, l := range b.net.graph.Out(b.net.graph.LeafOf(b.net.graph.NICOf(0)))[8:] {
		if b.net.PortStats(l).Packets[0] > 0 {
			used++
		}
	}
	require.Greater(t, used, 2)
}

// A spray's time alone is not held to one path: four uplinks of 100 Gb/s carry
// what a NIC of 400 Gb/s sends.
func TestSprayAlone(t *testing.T) {
	tc := bare(4, 2, 4)
	tc.LinkRate, tc.Oversubscription, tc.UplinksPerLeaf = 100*units.Gbps, 0, 4
	for _, choice := range []string{PathECMP, PathSprayRoundRobin} {
		s := unpaced()
		s.Packet.Path.Choice = choice
		b := newBench(t, s, build(t, tc))
		b.net.Send(fabric.Message{Src: 0, Dst: 3, Bytes: 1000 * 4096}, b)
		d := b.run()[0]
		if choice == PathECMP {
			require.Greater(t, d.Wire, 3*d.Ideal)
		} else {
			require.Equal(t, d.Ideal, d.Wire)
		}
		require.InEpsilon(t, float64(d.Wire), float64(d.Arrived), 0.01)
	}
}

// The window is 1.25 bandwidth-delay products: 8 us of fibre, four packets and
// four acknowledgements are 8.338 us, which at 400 Gb/s are 100.2 packets of
// 4,160 B.
func TestWindow(t *testing.T) {
	b := newBench(t, preset(t, "line-rate"), build(t, ls128()))
	require.EqualValues(t, 126, b.net.senders[b.net.queuePair(0, 127, 0, 0)].window)
}

// Trains are for speed: their error on an incast is nil, on a permutation small.
func TestTrain(t *testing.T) {
	for _, c := range []struct {
		list string
		tol  float64
	}{{"flows_incast32.csv", 0.005}, {"flows_perm128_s1.csv", 0.02}, {"flows_a2a16.csv", 0.02}} {
		var want float64
		for _, k := range []int{1, 4, 8} {
			s := preset(t, "line-rate")
			s.Packet.Train = k
			b := newBench(t, s, build(t, ls128()))
			for _, m := range flowList(t, c.list) {
				b.net.Send(m, b)
			}
			f := summarise(b.run())
			t.Logf("%s in trains of %d: %.1f us in %d events", c.list, k, f, b.engine.Events())
			if k == 1 {
				want = f.max
			}
			require.InEpsilon(t, want, f.max, c.tol)
		}
	}
}
