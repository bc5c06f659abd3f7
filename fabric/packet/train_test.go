package packet

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/congestion"
	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// A message alone takes the same to the picosecond whatever the train, because
// switches forward trains packet by packet: also onto slower links, and whatever
// the length of its last packet. Over links that are faster than the NICs a train
// closes up, so that the receiver's link begins it later: by what its other packets
// take longer on the slow link. At these rates 4,178 B take whole picoseconds.
func TestTrainAlone(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rates := rapid.SampledFrom([]units.Rate{100 * units.Gbps, 200 * units.Gbps, 400 * units.Gbps, 800 * units.Gbps})
		tc := bare(4, 2, 2)
		tc.LinkDelay, tc.SwitchLatency = sim.Microsecond, 500*sim.Nanosecond
		tc.NICRate, tc.LinkRate = rates.Draw(rt, "nic"), rates.Draw(rt, "link")
		tc.Oversubscription = 0
		tc.UplinksPerLeaf = 2
		g := build(rt, tc)
		m := fabric.Message{Src: 0, Dst: 3, Bytes: units.Bytes(rapid.IntRange(0, 300_000).Draw(rt, "bytes"))}
		algorithm := rapid.SampledFrom([]string{"none", "dcqcn"}).Draw(rt, "algorithm")
		var alone []sim.Time
		for _, k := range []int{1, 2, 5, 16, 64} {
			s := unpaced()
			s.Congestion.Algorithm = algorithm
			s.Congestion.Buffer.Size = units.GiB
			s.Packet.Train = k
			b := newBench(rt, s, g)
			b.net.Send(m, b)
			alone = append(alone, b.run()[0].Arrived)
		}
		late := max(0, tc.NICRate.Time(4178)-tc.LinkRate.Time(4178))
		for i, at := range alone[1:] {
			require.GreaterOrEqual(rt, at, alone[0])
			require.LessOrEqual(rt, at, alone[0]+sim.Time([]int{2, 5, 16, 64}[i]-1)*late)
		}
	})
}

// Of the packets of trains as many are marked as of packets: an incast without
// congestion control into a deep buffer, under a curve whose probability grows
// with the queue.
func TestTrainsAreMarkedAsPackets(t *testing.T) {
	marks := map[int]float64{}
	for _, k := range []int{1, 4, 16} {
		s := lossless(t)
		s.Congestion.Buffer.Size = units.GiB
		s.Congestion.ECN.Thresholds = []congestion.ECNThresholds{{Rate: 400 * units.Gbps, Kmin: 100 * units.KB, Kmax: 40 * units.MB, Pmax: 0.3}}
		s.Packet.Train = k
		b := newBench(t, s, build(t, star(33, 400*units.Gbps)))
		for i := range 32 {
			b.net.Send(fabric.Message{Src: topology.GPU(i + 1), Bytes: 1 << 20}, b)
		}
		b.run()
		ps := b.net.PortStats(b.net.graph.NextHops(b.net.graph.LeafOf(b.net.graph.NICOf(0)), b.net.graph.NICOf(0))[0])
		require.EqualValues(t, 32*256, ps.Packets[0])
		marks[k] = float64(ps.Marked[0])
	}
	t.Log(marks)
	// Some 1,000 of 8,192; the standard error of a difference is 40.
	require.Greater(t, marks[1], 700.)
	require.InDelta(t, marks[1], marks[4], 120)
	require.InDelta(t, marks[1], marks[16], 120)
}

// A slow flow sends short trains: what it waits for is never longer than a full
// train takes at the line rate, or one packet at its own, so that it hears of a new
// rate as early as with single packets, and its bytes go at its rate.
func TestTrainsOfSlowFlows(t *testing.T) {
	const mtu = 82_880 * sim.Picosecond // 4,144 B at 400 Gb/s
	for _, rate := range []units.Rate{100 * units.Mbps, 10 * units.Gbps, 100 * units.Gbps, 399 * units.Gbps} {
		ratio := float64(400*units.Gbps) / float64(rate)
		for _, k := range []int{1, 4, 16} {
			s := preset(t, "hpcc-ns3-dcqcn")
			s.Congestion.DCQCN.InitialRate, s.Congestion.DCQCN.IncreaseTimer = rate, sim.Second
			s.Packet.Train = k
			b := newBench(t, s, build(t, star(2, 400*units.Gbps)))
			b.net.Send(fabric.Message{Src: 0, Dst: 1, Bytes: 200 * 4096}, b)
			last := b.net.senders[0].nextSend
			longest := last
			for b.engine.Step() {
				if at := b.net.senders[0].nextSend; at != last {
					longest = max(longest, at-last)
					last = at
				}
			}
			b.idle()
			bound := max(ratio, float64(k)) * float64(mtu) * 1.0001
			require.LessOrEqual(t, float64(longest), bound, "%v, train %d", rate, k)
			require.InDelta(t, 199*ratio*float64(mtu), float64(b.deliveries[0].Arrived), 2*bound+3e6, "%v, train %d", rate, k)
		}
	}
}

// A pause frame slips in between the packets of a train, and the second of two
// never overtakes the first, wherever the train is.
func TestPauseWithinTrain(t *testing.T) {
	s := lossless(t)
	s.Packet.Train = 16
	const mtu = 83_200 * sim.Picosecond
	rapid.Check(t, func(rt *rapid.T) {
		b := newBench(rt, s, build(rt, star(2, 400*units.Gbps)))
		in := uint32(b.net.nics[0].port)
		back := &b.net.ports[in^1]
		back.busy = sim.Time(rapid.Int64Range(0, int64(16*mtu)).Draw(rt, "busy"))
		end := sim.Time(0)
		now := sim.Time(0)
		for i := range 5 {
			now += sim.Time(rapid.Int64Range(0, int64(mtu)/8).Draw(rt, "later"))
			b.net.sendPause(in, prioShared, i%2 == 0, now)
			require.Greater(rt, back.framed, end)
			require.LessOrEqual(rt, back.framed, max(now, end)+mtu+2*back.time(pauseFrame))
			end = back.framed
		}
	})
}

// What trains cost in fidelity, with every preset: paths are the same, marks are
// not, so two runs of each are averaged, but for the all-to-all. Where a port is
// paused at 15 packets a train of 16 pauses it by itself, which costs an all-to-all
// a tenth. HPCC hears of its path once a train, which moves the tail of an
// all-to-all.
func TestTrains(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for _, list := range []string{"flows_incast32.csv", "flows_perm128_s1.csv", "flows_a2a32.csv"} {
		for _, name := range Presets() {
			ms := flowList(t, list)
			run := func(k int) (f fct) {
				runs := 2.
				if len(ms) > 200 {
					runs = 1
				}
				for seed := range uint64(runs) {
					s := preset(t, name)
					s.Fabric.ECMPSeed = 1
					s.Packet.Train = k
					b := newSeededBench(t, s, build(t, ls128()), seed+1)
					for _, m := range ms {
						b.net.Send(m, b)
					}
					x := summarise(b.run())
					f.mean, f.p99 = f.mean+x.mean/runs, f.p99+x.p99/runs
				}
				return f
			}
			exact := run(1)
			for _, k := range []int{4, 16} {
				got := run(k)
				what := fmt.Sprintf("%s, %s, train %d: mean %+.1f %%, p99 %+.1f %%", list, name, k,
					100*(got.mean/exact.mean-1), 100*(got.p99/exact.p99-1))
				t.Log(what)
				mean, tail := 0.05, 0.08
				if name == "hpcc-ns3-hpcc" {
					tail = 0.15
				}
				if name == "htsim-roce" && k == 16 {
					mean = 0.15
				}
				require.InEpsilon(t, exact.mean, got.mean, mean, what)
				require.InEpsilon(t, exact.p99, got.p99, tail, what)
			}
		}
	}
}
