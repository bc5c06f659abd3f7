package packet

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/congestion"
	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// lossless is PFC without congestion control, in HPCC-ns3's buffers.
func lossless(t tester) Settings {
	s := preset(t, "hpcc-ns3-dcqcn")
	s.Fabric.Header = 64
	s.Congestion.Algorithm = "none"
	s.Packet.Transport.WindowBDP = 0
	s.Packet.DeadlockCheck = 3 * sim.Microsecond // pauses galore, and no deadlock
	return s
}

// G2: N flows of S bytes into one port end when that port has sent all of it,
// N n s after the first packet reached it: for n packets of time s over h hops
// of delay d, the last arrives N n s + (h-1) s + h d after the start. With PFC
// and no window, pauses must cost the bottleneck nothing.
func TestIncast(t *testing.T) {
	const packets = 256
	for _, n := range []int{2, 4, 8, 16, 32, 64} {
		b := newBench(t, lossless(t), build(t, ls128()))
		for i := range n {
			b.net.Send(fabric.Message{Src: topology.GPU(127 - i), Dst: 0, Bytes: packets * 4096, Tag: uint64(i)}, b)
		}
		last := summarise(b.run()).max
		bound := (sim.Time(n)*packets+3)*83_200*sim.Picosecond + 4*sim.Microsecond
		require.InEpsilon(t, bound.Microseconds(), last, 0.01, "%d to 1", n)
		require.GreaterOrEqual(t, last, bound.Microseconds())
		if n == 64 {
			require.Positive(t, b.net.Counters().Pauses, "64 MiB do not fit")
		}
	}
}

// G8: with PFC and the headroom of the standard nothing is lost, whatever the
// pressure; with headroom cut to a packet, it is, and everything arrives all the
// same.
func TestHeadroom(t *testing.T) {
	train := 1
	run := func(headroom congestion.HeadroomConfig, doubt string) Counters {
		s := lossless(t)
		s.Packet.Train = train
		s.Congestion.Buffer.Size = 8 * units.MB
		s.Congestion.Buffer.Headroom = headroom
		b := newBench(t, s, build(t, ls128()))
		require.Contains(t, strings.Join(b.net.Doubts(), "; "), doubt)
		require.Equal(t, doubt == "", len(b.net.Doubts()) == 0)
		for i := range 64 {
			b.net.Send(fabric.Message{Src: topology.GPU(127 - i), Dst: 0, Bytes: 1 << 20}, b)
		}
		b.run()
		return b.net.Counters()
	}
	full := run(congestion.HeadroomConfig{Bytes: 84, Delays: 2, Frames: 3}, "")
	require.Positive(t, full.Pauses)
	require.Zero(t, full.Dropped)
	require.Zero(t, full.Retransmitted)
	cut := run(congestion.HeadroomConfig{Frames: 1}, "congestion.buffer.headroom, 4.16 KB, is too small for PFC to be lossless: leaf0>nic0 needs 112.6 KB at 400Gbps and 1us; the preset derived")
	require.Positive(t, cut.Dropped[DropHeadroom])
	require.Positive(t, cut.Retransmitted)
	none := run(congestion.HeadroomConfig{}, "congestion.buffer.headroom, 0 B, is too small for PFC to be lossless") // pauses, and loses what they come too late for
	require.Positive(t, none.Pauses)
	require.Positive(t, none.Dropped[DropHeadroom])
	train = 16 // and what trains take beside it is added
	trains := run(congestion.HeadroomConfig{Bytes: 84, Delays: 2, Frames: 3}, "")
	require.Positive(t, trains.Pauses)
	require.Zero(t, trains.Dropped)
}

// fixedPoint is the parameter set on which the reference has checked the fluid
// model of DCQCN against HPCC-ns3 (G4): a star of 100 Gb/s, 1 us per link, MTU
// 1000, no byte counter, tau = tau' = 50 us, T = 55 us, F = 5, R_AI = R_HAI =
// 200 Mb/s, K = 5/400 KB, Pmax 5 %.
func fixedPoint(t tester) Settings {
	s := preset(t, "hpcc-ns3-dcqcn")
	s.Fabric.MTU, s.Fabric.Header = 1000, 48
	d := &s.Congestion.DCQCN
	d.AlphaTimer, d.DecreaseInterval, d.IncreaseTimer = 50*sim.Microsecond, 50*sim.Microsecond, 55*sim.Microsecond
	d.FastRecovery, d.RateAI, d.RateHAI, d.ScaleFrom = 5, 200*units.Mbps, 200*units.Mbps, 0
	d.ClampTargetRate = true
	s.Congestion.ECN.Thresholds = []congestion.ECNThresholds{{
		Rate: 100 * units.Gbps, Kmin: 5 * units.KB, Kmax: 400 * units.KB, Pmax: 0.05,
	}}
	return s
}

// Long DCQCN flows share a link evenly (Jain's index above 0.99), use all of it,
// and hold its queue at the fixed point of the fluid model: 8, 24, 49 and 108 KB
// for 2, 8, 16 and 32 flows, where HPCC-ns3 measured 6, 24, 57 and 127. The fluid
// says nothing of the fluctuation, which N = 2 lives on: its queue is empty half
// of the time.
func TestDCQCNFixedPoint(t *testing.T) {
	for _, c := range []struct {
		flows     int
		low, high float64 // KB: 25 % around what the fluid model or HPCC-ns3 says
	}{
		{2, 6 * 0.75, 8 * 1.25}, {8, 24 * 0.75, 24 * 1.25}, {16, 49 * 0.75, 57 * 1.25}, {32, 108 * 0.75, 127 * 1.25},
	} {
		if testing.Short() && c.flows != 8 {
			continue
		}
		b := newBench(t, fixedPoint(t), build(t, star(c.flows+1, 100*units.Gbps)))
		for i := range c.flows {
			b.net.Send(fabric.Message{Src: topology.GPU(i + 1), Dst: 0, Bytes: 10 * units.GB}, b)
		}
		const warm, span = 60 * sim.Millisecond, 60 * sim.Millisecond
		down := b.net.graph.NextHops(b.net.graph.LeafOf(b.net.graph.NICOf(0)), b.net.graph.NICOf(0))[0]
		b.engine.RunUntil(warm)
		area := b.net.PortStats(down).MeanDepth * float64(b.engine.Now())
		begun := b.engine.Now()
		pauses := b.net.Counters().Pauses // 32 flows that begin at line rate cause some
		got := make([]float64, c.flows)
		for i := range got {
			got[i] = -float64(b.net.receivers[i].expected)
		}
		b.engine.RunUntil(warm + span)
		mean := (b.net.PortStats(down).MeanDepth*float64(b.engine.Now()) - area) / float64(b.engine.Now()-begun) / 1000
		var sum, squares float64
		for i := range got {
			got[i] += float64(b.net.receivers[i].expected)
			sum += got[i]
			squares += got[i] * got[i]
		}
		jfi := sum * sum / (float64(c.flows) * squares)
		used := sum * 1048 * 8 / 100e9 / span.Seconds()
		t.Logf("%2d flows: mean queue %.1f KB, JFI %.4f, utilisation %.4f", c.flows, mean, jfi, used)
		require.Greater(t, jfi, 0.99)
		require.Greater(t, used, 0.92, "the queue of 32 flows, with a deviation above its mean, runs empty at times")
		require.GreaterOrEqual(t, mean, c.low)
		require.LessOrEqual(t, mean, c.high)
		require.Equal(t, pauses, b.net.Counters().Pauses)
	}
}

// A poisson sends messages of one packet from random GPUs to GPU 0.
type poisson struct {
	net    *Network
	engine *sim.Engine
	self   sim.HandlerID
	rand   *rand.Rand
	mean   sim.Time
	left   int
	gpus   int
	sink   sink
}

func (p *poisson) Handle(sim.Event) {
	p.net.Send(fabric.Message{Src: topology.GPU(1 + p.rand.IntN(p.gpus-1)), Bytes: 4096}, &p.sink)
	if p.left--; p.left > 0 {
		p.engine.After(sim.Time(p.rand.ExpFloat64()*float64(p.mean)), p.self, 0, 0)
	}
}

// G7: packets that arrive at a port at random wait rho^2 / (2 (1-rho)) in number
// on average (M/D/1). Each comes from one of 255 NICs of its own, so that hardly
// any has waited before; a gap in between is 1/255 of the port's load on each.
func TestMD1(t *testing.T) {
	for _, rho := range []float64{0.5, 0.8} {
		s := lossless(t)
		s.Congestion.Buffer.Size = units.GiB // headroom for 256 ports and more
		s.Packet.Transport.AckEvery = 1000
		b := newBench(t, s, build(t, star(256, 400*units.Gbps)))
		p := &poisson{net: b.net, engine: b.engine, rand: rand.New(rand.NewPCG(7, 8)), left: 500_000, gpus: 256}
		p.mean = sim.Time(83_200 / rho)
		p.self = b.engine.Register(p)
		b.engine.After(0, p.self, 0, 0)
		b.engine.Run()
		down := b.net.graph.NextHops(b.net.graph.LeafOf(b.net.graph.NICOf(0)), b.net.graph.NICOf(0))[0]
		got := b.net.PortStats(down).MeanDepth / 4160
		want := rho * rho / 2 / (1 - rho)
		t.Logf("rho %.1f: %.4f packets wait, M/D/1 says %.4f", rho, got, want)
		require.InEpsilon(t, want, got, 0.02)
	}
}

// G5: 8 flows that hash onto 8 uplinks are balls in bins: the fullest has 2.60 on
// average, 65.6 % of links are used, and 8!/8^8 = 0.24 % of placements are
// perfect. Measured by what the uplinks of leaf 0 have carried.
func TestBallsInBins(t *testing.T) {
	const seeds = 1000
	g := build(t, ls128())
	var most, used, perfect float64
	for seed := range uint64(seeds) {
		b := newSeededBench(t, preset(t, "line-rate"), g, seed+1)
		for i := range 8 {
			b.net.Send(fabric.Message{Src: topology.GPU(i), Dst: topology.GPU(8 + 8*i + i), Bytes: 4096}, b)
		}
		b.engine.Run()
		fullest, links := int64(0), 0.
		for _, l := range g.Out(g.LeafOf(g.NICOf(0)))[8:] {
			k := b.net.PortStats(l).Packets[fabric.ClassKV]
			fullest = max(fullest, k)
			if k > 0 {
				links++
			}
		}
		most += float64(fullest) / seeds
		used += links / 8 / seeds
		if fullest == 1 {
			perfect += 1. / seeds
		}
	}
	t.Logf("fullest %.3f, used %.3f, perfect %.4f", most, used, perfect)
	// Standard errors: 0.7/sqrt(1000) = 0.02, 0.1/32 = 0.003, 0.0015.
	require.InDelta(t, 2.60, most, 0.08)
	require.InDelta(t, 0.656, used, 0.012)
	require.InDelta(t, 0.0024, perfect, 0.005)
}

// G6: an all-to-all of n hosts, h to a leaf, oversubscribed r to 1, takes at
// least max((n-1) S/C, (n-h) S r/C). With one fat uplink per leaf no hash can be
// unlucky, and PFC holds the senders back: it comes within 6 % of the bound.
func TestAllToAllAgainstBisection(t *testing.T) {
	const hosts, perLeaf = 32, 8
	for _, r := range []float64{1, 2, 4} {
		tc := bare(hosts, 4, 1)
		tc.LinkDelay = sim.Microsecond
		tc.LinkRate = units.Rate(8 / r * 400e9)
		tc.Oversubscription = r
		b := newBench(t, lossless(t), build(t, tc))
		c, err := b.net.NewCollective(allToAll("a2a", gpuRange(0, hosts), 1000))
		require.NoError(t, err)
		const size = 256 * 4096
		c.SetUnits(same(hosts, size))
		c.Start(0, 0, b)
		got := b.run()[0].Arrived
		pair := (400 * units.Gbps).TimeScaled(size, 4160, 4096)
		bound := sim.Time(max(hosts-1, (hosts-perLeaf)*r) * float64(pair))
		t.Logf("%g:1: %v, bound %v, ratio %.4f, %d pauses", r, got, bound, float64(got)/float64(bound), b.net.Counters().Pauses)
		require.GreaterOrEqual(t, got, bound)
		require.InEpsilon(t, float64(bound), float64(got), 0.06)
	}
}

// Without congestion control, on the same paths, the last completion of an
// all-to-all or a permutation agrees with the flow engine's.
func TestAgainstFlowEngine(t *testing.T) {
	for _, c := range []struct {
		list      string
		max, mean float64
	}{
		// Queues do not share a link evenly among flows that come to it by links of
		// different load, so that some of an incast are through early: the mean of
		// the reference's packet core is 10 % below that of its fluid, too.
		{"flows_incast32.csv", 0.001, 0.12},
		{"flows_perm128_s1.csv", 0.03, 0.06}, {"flows_perm128_s2.csv", 0.03, 0.06},
		{"flows_a2a16.csv", 0.03, 0.03}, {"flows_a2a32.csv", 0.03, 0.03}, {"flows_a2a64.csv", 0.03, 0.03},
	} {
		t.Run(c.list, func(t *testing.T) {
			list := flowList(t, c.list)
			if testing.Short() && len(list) > 2000 {
				t.Skip("long")
			}
			s := preset(t, "line-rate")
			g := build(t, ls128())
			b := newBench(t, s, g)
			fe := &bench{t: t, engine: sim.New()}
			f, err := fabric.New(s.Fabric, fe.engine, g, 1)
			require.NoError(t, err)
			for _, m := range list {
				b.net.Send(m, b)
				f.Send(m, fe)
			}
			fe.engine.Run()
			got, want := summarise(b.run()), summarise(fe.deliveries)
			t.Logf("packet mean %.1f p99 %.1f max %.1f us, flow mean %.1f p99 %.1f max %.1f us",
				got.mean, got.p99, got.max, want.mean, want.p99, want.max)
			require.InEpsilon(t, want.max, got.max, c.max)
			require.InEpsilon(t, want.mean, got.mean, c.mean)
		})
	}
}

// The peers' figures for LS128 (the reference's 1.3), mean and 99th percentile in
// microseconds from the start to the acknowledgement of the last packet, which
// for us is 4 us and 4 x 1.2 ns after its arrival: HPCC-ns3 with DCQCN and PFC,
// and Broadcom's htsim with RoCE and PFC and no congestion control. Ours are means
// over three seeds of the hashes. They agree within 10 % but for the mean of
// perm128 under DCQCN, 18 % above HPCC-ns3's: that run behaves as with half the
// slope of the marking curve (docs/validation.md, which has a2a64, more seeds and
// the experiments).
func TestPeers(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	type figures struct{ mean, p99 float64 }
	for _, c := range []struct {
		list          string
		ns3, htsim    figures
		tol, tolHtsim figures
	}{
		{"flows_incast32.csv", figures{589.4, 680.0}, figures{566, 690}, figures{0.12, 0.001}, figures{0.05, 0.002}},
		{"flows_perm128_s1.csv", figures{344.7, 826.9}, figures{200, 425}, figures{0.25, 0.1}, figures{0.07, 0.2}},
		{"flows_a2a16.csv", figures{324.5, 327.0}, figures{330.2, 332.7}, figures{0.005, 0.001}, figures{0.005, 0.001}},
		{"flows_a2a32.csv", figures{675.5, 762.6}, figures{704, 856}, figures{0.02, 0.06}, figures{0.03, 0.1}},
	} {
		list := flowList(t, c.list)
		run := func(what string, s Settings, want, tol figures) {
			var got figures
			var pauses float64
			const seeds = 2
			for seed := range uint64(seeds) {
				b := newSeededBench(t, s, build(t, ls128()), seed+1)
				for _, m := range list {
					b.net.Send(m, b)
				}
				f := summarise(b.run())
				got.mean, got.p99 = got.mean+(f.mean+4)/seeds, got.p99+(f.p99+4)/seeds
				pauses += float64(b.net.Counters().Pauses) / seeds
			}
			t.Logf("%-20s %-6s mean %7.1f (peer %7.1f, %+5.1f %%), p99 %7.1f (peer %7.1f, %+5.1f %%), %.0f pauses",
				c.list, what, got.mean, want.mean, 100*(got.mean/want.mean-1), got.p99, want.p99, 100*(got.p99/want.p99-1), pauses)
			require.InEpsilon(t, want.mean, got.mean, tol.mean)
			require.InEpsilon(t, want.p99, got.p99, tol.p99)
		}
		run("ns-3", asNS3(t), c.ns3, c.tol)
		run("htsim", preset(t, "htsim-roce"), c.htsim, c.tolHtsim)
	}
}

// asNS3 is HPCC-ns3, whose clock counts whole nanoseconds: 4,144 B take it 82 ns
// and an acknowledgement one.
func asNS3(t tester) Settings {
	s := preset(t, "hpcc-ns3-dcqcn")
	s.Fabric.Header = 4
	s.Packet.Transport.AckQueueing, s.Packet.Transport.AckBytes = true, 50
	return s
}

// murmur3 is MurmurHash3 (Appleby, x86, 32 bits) of three words, by which
// HPCC-ns3's switches choose a path.
func murmur3(words [3]uint32, seed uint32) uint32 {
	h := seed
	for _, k := range words {
		k = bits.RotateLeft32(k*0xcc9e2d51, 15) * 0x1b873593
		h = bits.RotateLeft32(h^k, 13)*5 + 0xe6546b64
	}
	h ^= 4 * uint32(len(words))
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ h>>13) * 0xc2b2ae35
	return h ^ h>>16
}

// The mean of perm128 under DCQCN is not a matter of the peer's hash: by its
// function (of the addresses 11.0.host.1, the source port 10000 and any destination
// port, seeded with the number of the leaf, 128 to 143) it is 368 us and more for
// either permutation too, where the peer has 344.7 and 350.8.
func TestPermutationByNS3Hash(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	g := build(t, ls128())
	for i, list := range []string{"flows_perm128_s1.csv", "flows_perm128_s2.csv"} {
		ms, least := flowList(t, list), math.Inf(1)
		for dport := range uint32(5) {
			b := newBench(t, asNS3(t), g)
			for _, m := range ms {
				address := func(h topology.GPU) uint32 { return 0x0b000001 + uint32(h)<<8 }
				way := murmur3([3]uint32{address(m.Src), address(m.Dst), 10000 | (100+dport)<<16}, 128+uint32(m.Src)/8) % 8
				qp := b.net.queuePair(m.Src, m.Dst, m.Class, 0)
				b.net.senders[qp].route = b.net.layRoute(g.Paths(g.NICOf(m.Src), g.NICOf(m.Dst))[way])
				b.net.Send(m, b)
			}
			least = min(least, summarise(b.run()).mean+4)
		}
		t.Logf("%s: at least %.1f us", list, least)
		require.Greater(t, least, []float64{344.7, 350.8}[i])
	}
}

// Order among events of one instant must not matter where nothing is shared, nor
// for when a bottleneck has sent everything.
func TestOrderOfEquals(t *testing.T) {
	g := build(t, ls128())
	run := func(list []fabric.Message, opts ...sim.Option) *bench {
		b := newBench(t, preset(t, "line-rate"), g, opts...)
		for _, m := range list {
			b.net.Send(m, b)
		}
		b.run()
		return b
	}
	var incast, apart []fabric.Message
	for i := range 8 {
		incast = append(incast, fabric.Message{Src: topology.GPU(1 + i), Bytes: 100_000, Tag: uint64(i)})
		// Within their leaves, so no two share a link.
		apart = append(apart, fabric.Message{
			Src: topology.GPU(16 * i), Dst: topology.GPU(16*i + 1), Bytes: units.Bytes(100_000 + i), Tag: uint64(i),
		})
	}
	times := func(b *bench) []sim.Time {
		at := make([]sim.Time, len(b.deliveries))
		for _, d := range b.deliveries {
			at[d.Tag] = d.Arrived
		}
		return at
	}
	wantApart, wantLast := times(run(apart)), summarise(run(incast).deliveries).max
	for seed := range uint64(10) {
		require.Equal(t, wantApart, times(run(apart, sim.ShuffleTies(seed))))
		require.Equal(t, wantLast, summarise(run(incast, sim.ShuffleTies(seed)).deliveries).max)
	}
	// The plain heap gives the same course, bit for bit.
	require.Equal(t, run(incast).engine.Fingerprint(), run(incast, sim.HeapOnly()).engine.Fingerprint())
}

// Weighted classes share a port in their proportion while both have something to
// send, and strict ones do not share it.
func TestClassesShareAPort(t *testing.T) {
	for _, c := range []struct {
		mode   string
		kv, ep int
		want   float64 // EP's part of the wire while both are active
	}{{"shared", 1, 1, 0.5}, {"weighted", 1, 1, 0.5}, {"weighted", 1, 3, 0.75}, {"weighted", 4, 1, 0.2}, {"strict", 1, 1, 1}} {
		s := lossless(t)
		s.Packet.Queues.Mode, s.Packet.Queues.KVWeight, s.Packet.Queues.EPWeight = c.mode, c.kv, c.ep
		s.Congestion.Buffer.Lossless = []int{3, 4}
		for _, from := range []string{"one NIC", "two NICs"} {
			b := newBench(t, s, build(t, star(3, 400*units.Gbps)))
			ep := topology.GPU(1)
			if from == "two NICs" {
				ep = 2
			}
			b.net.Send(fabric.Message{Src: 1, Bytes: 100 * units.MB, Class: fabric.ClassKV}, b)
			b.net.Send(fabric.Message{Src: ep, Bytes: 100 * units.MB, Class: fabric.ClassEP}, b)
			b.engine.RunUntil(sim.Millisecond)
			down := b.net.graph.NextHops(b.net.graph.LeafOf(b.net.graph.NICOf(0)), b.net.graph.NICOf(0))[0]
			sent := b.net.PortStats(down).Packets
			share := float64(sent[fabric.ClassEP]) / float64(sent[0]+sent[1])
			require.InDelta(t, c.want, share, 0.02, fmt.Sprint(c, from))
			b.run()
		}
	}
}

// A class that was idle has saved up nothing: when it joins, it gets its share
// from then on.
func TestIdleClassSavesNothing(t *testing.T) {
	for first := range fabric.NumClasses {
		s := lossless(t)
		s.Packet.Queues.Mode = "weighted"
		s.Congestion.Buffer.Lossless = []int{3, 4}
		b := newBench(t, s, build(t, star(3, 400*units.Gbps)))
		b.net.Send(fabric.Message{Src: 1, Bytes: 100 * units.MB, Class: first}, b)
		b.at(sim.Millisecond, func() { b.net.Send(fabric.Message{Src: 1, Bytes: 100 * units.MB, Class: 1 - first}, b) })
		b.engine.RunUntil(sim.Millisecond + 200*sim.Microsecond)
		down := b.net.graph.NextHops(b.net.graph.LeafOf(b.net.graph.NICOf(0)), b.net.graph.NICOf(0))[0]
		require.InDelta(t, 1200, b.net.PortStats(down).Packets[1-first], 30, "half of 198 us of packets of 83.2 ns, first at the NIC where only one class waited")
		b.run()
	}
}

func TestBuckets(t *testing.T) {
	last := -1
	for _, d := range []uint32{0, 1, 255, 256, 300, 384, 511, 512, 767, 768, 1 << 20, 3 << 20, math.MaxUint32} {
		k := bucketOf(d)
		require.GreaterOrEqual(t, k, last)
		require.Less(t, k, depthBuckets)
		require.GreaterOrEqual(t, bucketTop(k), d)
		if k > 1 {
			require.Less(t, bucketTop(k-1), d)
		}
		last = k
	}
}

// The ranks of an AllToAll do not begin with the same one: messages of one packet
// take N-1 packet times and not up to twice that, and nowhere more than a few
// wait.
func TestAllToAllInTurn(t *testing.T) {
	const n = 16
	s := preset(t, "line-rate")
	b := newBench(t, s, build(t, star(n, 400*units.Gbps)))
	coll, err := b.net.NewCollective(allToAll("c", gpuRange(0, n), 4096*1000))
	require.NoError(t, err)
	coll.SetUnits(same(n, 1))
	coll.Start(0, 0, b)
	d := b.run()[0]
	require.Equal(t, n*83_200*sim.Picosecond+2*sim.Microsecond, d.Arrived)
	for l := range b.net.graph.Links {
		require.LessOrEqual(t, b.net.PortStats(topology.LinkID(l)).MaxDepth, units.Bytes(4160))
	}
}
