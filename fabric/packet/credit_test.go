package packet

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/congestion"
	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// scheduled is a lossless fabric whose receivers grant, with packets of 4,160 B
// without headers of containers.
func scheduled(t tester, algorithm string, push float64) Settings {
	s := lossless(t)
	s.Packet.DeadlockCheck = 0
	s.Congestion.Algorithm = algorithm
	s.Congestion.GSE.Credit.Push, s.Congestion.Credit.Push = push, push
	if algorithm == "credit" {
		s.Packet.Path.Choice = PathSprayRandom
	}
	return s
}

// The receiver-driven peers of the reference end incast32 by 700 us, perm128
// within 1.15 of its bound and a2a64 within 1.03; so do receiver credits and GSE
// here, with a push of one bandwidth-delay product and without any.
func TestScheduledAgainstPeers(t *testing.T) {
	for _, c := range []struct {
		list string
		most float64 // last acknowledgement, us
	}{
		{"flows_incast32.csv", 700}, {"flows_perm128_s1.csv", 1.15 * 93.4}, {"flows_perm128_s2.csv", 1.15 * 93.4},
		{"flows_a2a64.csv", 1.03 * 1350},
	} {
		list := flowList(t, c.list)
		if testing.Short() && len(list) > 1000 {
			continue
		}
		for _, algorithm := range []string{"gse", "credit"} {
			for _, push := range []float64{1, 0} {
				if len(list) > 1000 && (algorithm == "credit" || push == 0) {
					continue
				}
				b := newBench(t, scheduled(t, algorithm, push), build(t, ls128()))
				for _, m := range list {
					b.net.Send(m, b)
				}
				f, k := summarise(b.run()), b.net.Counters()
				t.Logf("%-20s %-6s push %v: mean %.1f, last %.1f us", c.list, algorithm, push, f.mean+4, f.max+4)
				if algorithm == "credit" && push == 0 { // random spray, and nothing to fill gaps
					c.most *= 1.05
				}
				require.Less(t, f.max+4, c.most)
				require.Zero(t, k.Pauses)
				require.Zero(t, k.Retransmitted+k.CreditExpired+k.SkippedContainers+k.LateInContainer+k.LostInContainer)
			}
		}
	}
}

// lastHop is the longest queue before any NIC, and the longest elsewhere.
func lastHop(b *bench) (last, inside units.Bytes) {
	for l := range b.net.graph.Links {
		link := &b.net.graph.Links[l]
		if link.From < b.net.firstSwitch {
			continue
		}
		depth := b.net.PortStats(topology.LinkID(l)).MaxDepth
		if link.To < b.net.firstSwitch {
			last = max(last, depth)
		} else {
			inside = max(inside, depth)
		}
	}
	return last, inside
}

// Whatever the incast or all-to-all, with lossless classes or without: nothing is
// lost and nothing paused inside the fabric, the last hop's queue is what may be
// outstanding, what all may push, and a packet of debt for each; nothing is left
// anywhere.
func TestScheduledFabricIsQuiet(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		push := rapid.SampledFrom([]float64{0, 0.02, 0.1}).Draw(rt, "push")
		algorithm := rapid.SampledFrom([]string{"gse", "credit"}).Draw(rt, "algorithm")
		s := scheduled(rt, algorithm, push)
		if rapid.Bool().Draw(rt, "lossy") {
			s.Congestion.Buffer.Lossless = nil
		}
		if algorithm == "gse" {
			s.Congestion.GSE.ContainerBytes = units.Bytes(rapid.IntRange(4168, 40_000).Draw(rt, "container"))
			s.Congestion.GSE.StopBytes = units.Bytes(rapid.SampledFrom([]int{0, 20_000, 200_000}).Draw(rt, "stop"))
			s.Congestion.GSE.ResumeBytes = s.Congestion.GSE.StopBytes / 2
		}
		b := newSeededBench(rt, s, build(rt, ls128()), rapid.Uint64Range(1, 100).Draw(rt, "seed"))
		hosts := rapid.Permutation(gpuRange(0, 128)).Draw(rt, "hosts")
		sources, qps, lanes := rapid.IntRange(1, 40).Draw(rt, "sources"), rapid.IntRange(1, 3).Draw(rt, "qps"), 0
		sinks := 1
		if rapid.Bool().Draw(rt, "all to all") {
			sources = min(sources, 12)
			sinks = sources
		}
		for i := range sources {
			for k := range sinks {
				if src, dst := hosts[i+1], hosts[k]; src != dst {
					lanes++
					m := fabric.Message{Src: src, Dst: dst, QPs: qps, Bytes: units.Bytes(rapid.IntRange(1, 300_000).Draw(rt, "bytes"))}
					b.at(sim.Time(rapid.Int64Range(0, int64(20*sim.Microsecond)).Draw(rt, "at")), func() { b.net.Send(m, b) })
				}
			}
		}
		b.run()
		k := b.net.Counters()
		require.Zero(rt, k.Pauses)
		require.Zero(rt, k.Dropped)
		require.Zero(rt, k.Retransmitted)
		require.Zero(rt, k.CreditExpired)
		c := b.net.credits
		each := c.config.PushBytes(400*units.Gbps, c.rtt) + units.Bytes(b.net.fullWire)
		if algorithm == "credit" {
			each *= units.Bytes(qps)
		}
		most := units.Bytes(1.5*float64(c.config.PushBytes(400*units.Gbps, c.rtt))/max(push, 1e-9)) + units.Bytes(sources+1)*each
		if push == 0 {
			config := c.config
			config.Push = 1.5
			most = config.PushBytes(400*units.Gbps, c.rtt) + units.Bytes(sources+1)*each
		}
		last, _ := lastHop(b)
		require.LessOrEqual(rt, last, most)
	})
}

// dataOn is what a link has carried but for control messages of credits.
func dataOn(b *bench, l topology.LinkID) units.Bytes {
	return b.net.PortStats(l).Wire - units.Bytes(b.net.credits.wired[l])
}

// Containers keep the uplinks of a NIC within a container of each other.
func TestContainersSpread(t *testing.T) {
	for _, spray := range []string{congestion.SprayLeastSent, congestion.SprayRoundRobin} {
		s := scheduled(t, "gse", 1)
		s.Congestion.GSE.Spray = spray
		b := newBench(t, s, build(t, ls128()))
		b.net.Send(fabric.Message{Src: 0, Dst: 127, Bytes: 3_000_000}, b)
		b.run()
		low, high := units.Bytes(1<<60), units.Bytes(0)
		for _, l := range b.net.graph.Out(b.net.graph.LeafOf(b.net.graph.NICOf(0)))[8:] {
			w := dataOn(b, l)
			low, high = min(low, w), max(high, w)
		}
		require.Positive(t, low)
		require.LessOrEqual(t, high-low, s.Congestion.GSE.ContainerBytes, spray)
	}
}

// A train is no longer than a container.
func TestTrainsFitContainers(t *testing.T) {
	for _, c := range []struct {
		train int
		most  uint32
	}{{1, 4168}, {2, 2 * 4168}, {8, 3 * 4168}, {64, 3 * 4168}} {
		s := scheduled(t, "gse", 1)
		s.Packet.Train = c.train
		b := newBench(t, s, build(t, ls128()))
		b.net.Send(fabric.Message{Src: 0, Dst: 127, Bytes: 3_000_000}, b)
		require.Equal(t, c.most, b.net.fullWire)
		require.InEpsilon(t, 65.3, b.run()[0].Arrived.Microseconds(), 0.01)
	}
}

// Half way through an incast all have had the same.
func TestScheduledSharesAreEqual(t *testing.T) {
	for _, algorithm := range []string{"gse", "credit"} {
		b := newBench(t, scheduled(t, algorithm, 0), build(t, ls128()))
		for i := range 16 {
			b.net.Send(fabric.Message{Src: topology.GPU(127 - 3*i), Bytes: 2 * units.MB}, b)
		}
		b.engine.RunUntil(300 * sim.Microsecond)
		low, high := uint32(1<<31), uint32(0)
		for i := range b.net.receivers {
			low, high = min(low, b.net.receivers[i].expected), max(high, b.net.receivers[i].expected)
		}
		require.Greater(t, low, uint32(200))
		require.LessOrEqual(t, high-low, uint32(10), "two grants")
		b.run()
	}
}

// With weights, shares of a port that all want are as those: of the queue pairs that
// senders have, or of senders behind a leaf, and of classes.
func TestScheduledSharesAreWeighted(t *testing.T) {
	weighted := func(mode string) Settings {
		s := scheduled(t, "gse", 0)
		s.Congestion.GSE.Mode, s.Packet.Transport.WindowBDP = mode, 0
		s.Congestion.GSE.Credit.Order = congestion.OrderWeighted
		s.Congestion.Credit.Order = congestion.OrderWeighted
		return s
	}
	shares := func(s Settings, groups [][]fabric.Message) (got []float64) {
		b := newBench(t, s, build(t, ls128()))
		for _, group := range groups {
			for _, m := range group {
				m.Bytes = 20 * units.MB
				b.net.Send(m, b)
			}
		}
		sum := func() (sums []float64) {
			sums = make([]float64, len(groups))
			for i := range b.net.receivers {
				for g, group := range groups {
					for _, m := range group {
						if m.Src == b.net.keys[i].src && uint8(m.Class) == b.net.receivers[i].class {
							sums[g] += float64(b.net.receivers[i].expected)
						}
					}
				}
			}
			return sums
		}
		b.engine.RunUntil(50 * sim.Microsecond)
		begin := sum()
		b.engine.RunUntil(450 * sim.Microsecond)
		end := sum()
		for g := range groups {
			got = append(got, (end[g]-begin[g])/(end[0]-begin[0]))
		}
		return got
	}
	qps := [][]fabric.Message{{{Src: 120, QPs: 1}}, {{Src: 100, QPs: 2}}, {{Src: 80, QPs: 4}}}
	require.InDeltaSlice(t, []float64{1, 2, 4}, shares(weighted(congestion.ModeE2E), qps), 0.1)
	plain := weighted(congestion.ModeE2E)
	plain.Congestion.GSE.Credit.PerQueuePair = false
	require.InDeltaSlice(t, []float64{1, 1, 1}, shares(plain, qps), 0.05)
	plain.Congestion.GSE.Credit.PerQueuePair, plain.Congestion.GSE.Credit.Order = true, congestion.OrderRoundRobin
	require.InDeltaSlice(t, []float64{1, 1, 1}, shares(plain, qps), 0.05)

	leaves := [][]fabric.Message{{{Src: 120}}, {{Src: 100}, {Src: 101}}, {{Src: 80}, {Src: 81}, {Src: 82}, {Src: 83}}}
	require.InDeltaSlice(t, []float64{1, 2, 4}, shares(weighted(congestion.ModeN2N), leaves), 0.1)
	plain = weighted(congestion.ModeN2N)
	plain.Congestion.GSE.Credit.Order = congestion.OrderRoundRobin
	require.InDeltaSlice(t, []float64{1, 1, 1}, shares(plain, leaves), 0.05)

	classes := [][]fabric.Message{{{Src: 120, Class: fabric.ClassKV}}, {{Src: 120, Class: fabric.ClassEP}}, {{Src: 80, Class: fabric.ClassEP}}}
	for _, algorithm := range []string{"gse", "credit"} {
		s := weighted(congestion.ModeE2E)
		s.Congestion.Algorithm = algorithm
		if algorithm == "credit" {
			s.Packet.Path.Choice = PathSprayRandom
		}
		s.Congestion.GSE.Credit.EPWeight, s.Congestion.Credit.EPWeight = 3, 3
		require.InDeltaSlice(t, []float64{1, 3, 3}, shares(s, classes), 0.1, algorithm)
	}
}

// A weight that nobody differs in, or that nobody looks at, says so.
func TestIdleWeights(t *testing.T) {
	why := func(change func(*congestion.CreditConfig), qps int) map[string]string {
		s := scheduled(t, "gse", 0)
		change(&s.Congestion.GSE.Credit)
		b := newBench(t, s, build(t, ls128()))
		b.net.Send(fabric.Message{Src: 120, Bytes: units.MB}, b)
		b.net.Send(fabric.Message{Src: 100, Bytes: units.MB, QPs: qps}, b)
		b.run()
		m := map[string]string{}
		for _, i := range b.net.Inert() {
			m[strings.TrimPrefix(i.Setting, "congestion.gse.credit.")] = i.Why
		}
		return m
	}
	weigh := func(c *congestion.CreditConfig) { c.Order = congestion.OrderWeighted }
	require.NotContains(t, why(weigh, 2), "order")
	require.NotContains(t, why(weigh, 2), "kv_weight")
	require.Contains(t, why(weigh, 1)["order"], "the same weight")
	require.Contains(t, why(func(*congestion.CreditConfig) {}, 1)["kv_weight"], "round-robin")
}

// What asking costs: a message that fits in the push takes what it takes alone;
// without a push, the time of a request to the receiver and of a grant back more.
func TestRequestsCostARoundTrip(t *testing.T) {
	send := func(s Settings, bytes units.Bytes) (sim.Time, Counters) {
		b := newBench(t, s, build(t, ls128()))
		b.net.Send(fabric.Message{Src: 0, Dst: 127, Bytes: bytes}, b)
		return b.run()[0].Arrived, b.net.Counters()
	}
	for _, algorithm := range []string{"gse", "credit"} {
		pushed, k := send(scheduled(t, algorithm, 1), 10*4096)
		header := units.Bytes(0)
		if algorithm == "gse" {
			header = 8
		}
		require.Equal(t, 13*(400*units.Gbps).Time(4160+header)+4*sim.Microsecond, pushed)
		require.Zero(t, k.CreditGrants)
		pulled, k := send(scheduled(t, algorithm, 0), 10*4096)
		trip := 8*sim.Microsecond + 8*(400*units.Gbps).Time(84)
		require.Equal(t, pushed+trip, pulled, algorithm)
		require.EqualValues(t, 1, k.CreditWaits)
		require.Equal(t, trip, k.CreditWaitTime)
		require.EqualValues(t, 1, k.CreditRequests)
		require.Equal(t, 84*(k.CreditRequests+k.CreditGrants+k.CreditReturns), k.CreditBytes)
		if algorithm == "gse" {
			require.EqualValues(t, 80, k.ContainerHeaderBytes)
			require.EqualValues(t, 1, k.MaxDGSQs)
			require.EqualValues(t, 112+16*(64+4), k.MaxStateBytes, "of the receiver")
		}
	}
}

// Grants take their room on the links that the data of the other direction needs: with
// 84 B for each 4 KiB that is 2 % of it, and nothing where there is none. Where they
// only count it is nothing, and without grants none.
func TestMessagesTakeRoom(t *testing.T) {
	run := func(algorithm, mode string, wires, both bool, push float64) (sim.Time, Counters) {
		s := scheduled(t, algorithm, push)
		s.Fabric.MTU = 512
		s.Congestion.GSE.Mode, s.Packet.Transport.WindowBDP = mode, 1.25
		for _, c := range []*congestion.CreditConfig{&s.Congestion.Credit, &s.Congestion.GSE.Credit} {
			c.Quantum, c.OnWires, c.RequestBytes = 4*units.KiB, wires, 64*units.KiB
		}
		b := newBench(t, s, build(t, ls128()))
		b.net.Send(fabric.Message{Src: 0, Dst: 127, Bytes: 10 * units.MB}, b)
		if both {
			b.net.Send(fabric.Message{Src: 127, Dst: 0, Bytes: 10 * units.MB}, b)
		}
		return b.run()[0].Arrived, b.net.Counters()
	}
	for _, algorithm := range []string{"gse", "credit"} {
		counted, k := run(algorithm, congestion.ModeE2E, false, true, 0)
		require.Zero(t, k.CreditTime)
		wired, k := run(algorithm, congestion.ModeE2E, true, true, 0)
		require.InDelta(t, 1+84.0/4096, float64(wired)/float64(counted), 0.002, algorithm)
		require.InEpsilon(t, 84.0/4096, float64(k.CreditTime)/float64(wired), 0.08, "%s: begin and end included", algorithm)
		alone, _ := run(algorithm, congestion.ModeE2E, false, false, 0)
		oneWay, _ := run(algorithm, congestion.ModeE2E, true, false, 0)
		require.InEpsilon(t, float64(alone), float64(oneWay), 0.0005, "the way back is free")
	}
	// Between leaves there are eight links for one NIC, so messages have room.
	counted, _ := run("gse", congestion.ModeN2N, false, true, 0)
	wired, k := run("gse", congestion.ModeN2N, true, true, 0)
	require.InEpsilon(t, float64(counted), float64(wired), 0.002)
	require.Positive(t, k.CreditTime)
	pushed, k := run("gse", congestion.ModeE2E, true, true, 100)
	require.Zero(t, k.CreditTime)
	require.Less(t, pushed, wired)
}

// underFailure runs eight flows from leaf 0 to leaf 15 while an uplink by spine 2
// fails and comes back, and holds that leaf 0 leaves it and uses it again.
func underFailure(t *testing.T, s Settings, link string) Counters {
	s.Packet.FaultDetection = 20 * sim.Microsecond
	s.Packet.Transport.Timeout = 100 * sim.Microsecond
	s.Packet.Faults = []Fault{{Link: link, At: 30 * sim.Microsecond}, {Link: link, At: 600 * sim.Microsecond, Rate: 1}}
	b := newBench(t, s, build(t, ls128()))
	for i := range topology.GPU(8) {
		b.net.Send(fabric.Message{Src: i, Dst: 120 + i, Bytes: 30 * units.MB}, b)
	}
	up := b.net.graph.LinksBetween(b.net.graph.LeafOf(b.net.graph.NICOf(0)), b.net.firstSwitch+16+2)[0]
	b.engine.RunUntil(60 * sim.Microsecond)
	known := dataOn(b, up)
	b.engine.RunUntil(590 * sim.Microsecond)
	require.Equal(t, known, dataOn(b, up), "%s is left", link)
	b.engine.RunUntil(680 * sim.Microsecond)
	require.Greater(t, dataOn(b, up), known, "%s is used again", link)
	require.Len(t, b.run(), 8)
	k := b.net.Counters()
	require.Positive(t, k.Dropped[DropLinkDown], link)
	require.Positive(t, k.Retransmitted, link)
	return k
}

// Uplinks fail and come back under containers: the ones of a leaf itself, and of
// the leaf at the other end. What was lost is sent again, failed paths are left,
// all arrives.
func TestContainersSurviveFailures(t *testing.T) {
	for _, link := range []string{"leaf0>spine2", "spine2>leaf15", "leaf15>spine2"} {
		k := underFailure(t, scheduled(t, "gse", 1), link)
		require.Positive(t, k.SkippedContainers+k.LostInContainer, link)
	}
}

// A leaf that one spine does not reach any more costs others nothing: what goes to
// them is spread over all spines as before, so that their links from the spines, and
// the delays by them, stay alike, and no container comes so late that it counts as lost.
func TestFailuresLeaveOthersSpread(t *testing.T) {
	for _, mode := range []string{congestion.ModeE2E, congestion.ModeN2N} {
		s := scheduled(t, "gse", 1)
		s.Congestion.GSE.Mode = mode
		s.Packet.Transport.WindowBDP, s.Packet.FaultDetection = 1.25, 0
		s.Packet.Faults = []Fault{{Link: "leaf14>spine2"}}
		b := newBench(t, s, build(t, ls128()))
		for src := range topology.GPU(32) {
			for k := range topology.GPU(16) {
				b.net.Send(fabric.Message{Src: src, Dst: 112 + (src+k)%16, Bytes: units.MB}, b)
			}
		}
		b.run()
		k := b.net.Counters()
		require.Zero(t, k.Retransmitted+k.SkippedContainers+k.LateInContainer, mode)
		sent := 32 * 8 * (1e6 + 245*float64(b.net.header))
		for _, c := range []struct {
			leaf   topology.NodeID
			spines float64
		}{{14, 7}, {15, 8}} {
			for spine := range topology.NodeID(8) {
				down := b.net.graph.LinksBetween(b.net.firstSwitch+16+spine, b.net.firstSwitch+c.leaf)[0]
				if c.leaf == 14 && spine == 2 {
					require.Zero(t, dataOn(b, down))
					continue
				}
				require.InEpsilon(t, sent/c.spines, float64(dataOn(b, down)), 0.02, "%s: spine%d>leaf%d", mode, spine, c.leaf)
			}
		}
	}
}

// A slow link makes containers late, and not lost: as long as those before them on
// their path come they are waited for, longer than the timeout, where there is room for
// what waits, and nothing is sent again.
func TestSlowPathsAreWaitedFor(t *testing.T) {
	s := scheduled(t, "gse", 1)
	s.Congestion.GSE.ReorderWindow, s.Congestion.GSE.ReorderBytes = 1024, 16*units.MiB
	s.Packet.Transport.Timeout = 10 * sim.Millisecond
	s.Packet.Faults = []Fault{{Link: "leaf0>spine2", Rate: 0.25}}
	b := newBench(t, s, build(t, ls128()))
	for i := range topology.GPU(8) {
		b.net.Send(fabric.Message{Src: i, Dst: 120 + i, Bytes: 4 * units.MB}, b)
	}
	b.run()
	k := b.net.Counters()
	require.Greater(t, k.HeldTime/sim.Time(k.Held), 2*s.Congestion.GSE.ReorderTimeout)
	require.Zero(t, k.Retransmitted+k.SkippedContainers+k.LateInContainer)
}

// What a failure takes with it of granted credit is free again soon, though its source
// goes on all the time: a flow is at line rate afterwards. Without that it would have
// next to nothing left to send with.
func TestLostCreditIsMadeGood(t *testing.T) {
	for _, mode := range []string{congestion.ModeE2E, congestion.ModeN2N, "credit"} {
		s := scheduled(t, "gse", 1)
		if mode == "credit" {
			s = scheduled(t, "credit", 1)
			s.Congestion.Credit.Timeout = 100 * sim.Microsecond
		} else {
			s.Congestion.GSE.Mode = mode
		}
		s.Packet.Transport.WindowBDP = 1.25
		s.Packet.Transport.Timeout, s.Packet.FaultDetection = 100*sim.Microsecond, 200*sim.Microsecond
		s.Packet.Faults = []Fault{{Link: "leaf1>spine2", At: 30 * sim.Microsecond}}
		b := newBench(t, s, build(t, ls128()))
		b.net.Send(fabric.Message{Src: 8, Bytes: 80 * units.MB}, b)
		b.engine.RunUntil(800 * sim.Microsecond)
		before := b.net.receivers[0].expected
		b.engine.RunUntil(1200 * sim.Microsecond)
		got := float64(b.net.receivers[0].expected-before) * float64(b.net.fullWire)
		require.InDelta(t, 1, got/((400*units.Gbps).BytesPerSecond()*400e-6), 0.05, mode)
		b.run()
		require.Greater(t, units.Bytes(b.net.Counters().CreditExpired), b.net.credits.config.PushBytes(400*units.Gbps, b.net.credits.rtt)/4, mode)
	}
}

// A DGSQ that has enough takes no more: it asks for less at a time, more often,
// and the end is the same.
func TestDGSQStops(t *testing.T) {
	run := func(stop units.Bytes) (sim.Time, Counters) {
		s := scheduled(t, "gse", 0)
		s.Congestion.GSE.StopBytes, s.Congestion.GSE.ResumeBytes = stop, stop/2
		b := newBench(t, s, build(t, ls128()))
		b.net.Send(fabric.Message{Src: 0, Dst: 127, Bytes: 8 * units.MB, QPs: 3}, b)
		return b.run()[0].Arrived, b.net.Counters()
	}
	free, k := run(0)
	require.EqualValues(t, 3, k.CreditRequests, "one a queue pair")
	held, k := run(units.MB)
	require.Greater(t, k.CreditRequests, int64(8))
	require.InEpsilon(t, float64(free), float64(held), 0.02)
	slow, _ := run(100_000) // a quarter of what is under way at line rate
	require.Greater(t, slow, 2*free)
}

func TestScheduledRefuses(t *testing.T) {
	for _, c := range []struct {
		says   string
		change func(*Settings)
	}{
		{"packet.path.choice: spray-random, but containers", func(s *Settings) { s.Packet.Path.Choice = PathSprayRandom }},
		{"congestion.gse.container_bytes: 4KiB is less than a packet of 4168B on the wire, and packets are not cut; use 4168B to 16MiB",
			func(s *Settings) { s.Congestion.GSE.ContainerBytes = 4 * units.KiB }},
		{"congestion.gse.spray: a NIC does not see", func(s *Settings) { s.Congestion.GSE.Spray = congestion.SprayLeastQueue }},
	} {
		s := scheduled(t, "gse", 1)
		c.change(&s)
		_, err := New(s, sim.New(), build(t, ls128()), 1)
		require.ErrorContains(t, err, c.says)
	}
}
