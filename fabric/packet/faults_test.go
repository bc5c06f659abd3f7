package packet

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/congestion"
	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// When an uplink dies, what is on it is lost, what is sent into it until the
// switches know is lost too, and then the flow goes another way; nothing is lost
// end to end.
func TestLinkFailure(t *testing.T) {
	g := build(t, ls128())
	s := preset(t, "line-rate")
	s.Packet.Transport.Timeout = 50 * sim.Microsecond
	s.Packet.FaultDetection = 20 * sim.Microsecond
	b := newBench(t, s, g)
	path := b.net.pathOf(0, 127, 0)
	up := path[1]
	s.Packet.Faults = []Fault{{Link: g.Links[up].Name, At: 30 * sim.Microsecond, Rate: 0}}
	b = newBench(t, s, g)
	b.net.Send(fabric.Message{Src: 0, Dst: 127, Bytes: 8 << 20}, b)
	d := b.run()[0]
	k := b.net.Counters()
	// 1 us of wire, 20 us of sending, window permitting (128 packets), in packets
	// of 83.2 ns.
	require.InDelta(t, 128, k.Dropped[DropLinkDown], 16)
	require.Positive(t, k.Timeouts)
	require.Less(t, d.Arrived, 300*sim.Microsecond)
	require.NotEqual(t, up, b.net.currentPath(0)[1])
	require.Zero(t, b.net.ports[up].queue[prioShared].bytes)
}

// Acknowledgements that queue go around a dead link as well.
func TestLinkFailureOnTheWayBack(t *testing.T) {
	g := build(t, ls128())
	s := preset(t, "line-rate")
	s.Packet.Transport.AckQueueing = true
	s.Packet.FaultDetection = 20 * sim.Microsecond
	b := newBench(t, s, g)
	back := b.net.pathBack(qpKey{0, 127, 0})[1]
	if back == g.Reverse(b.net.pathOf(0, 127, 0)[2]) {
		t.Fatal("both ways share a cable; choose another pair")
	}
	s.Packet.Faults = []Fault{{Link: g.Links[back].Name, At: 30 * sim.Microsecond, Rate: 0}}
	b = newBench(t, s, g)
	b.net.Send(fabric.Message{Src: 0, Dst: 127, Bytes: 8 << 20}, b)
	b.run()
	require.Positive(t, b.net.Counters().Dropped[DropLinkDown])
	require.NotEqual(t, uint32(back), b.net.routes[b.net.receivers[0].route+1])
}

// A degraded link is as fast as it says, from then on, both ways.
func TestDegradedLink(t *testing.T) {
	s := preset(t, "line-rate")
	s.Packet.Faults = []Fault{{Link: "leaf0>nic1", Rate: 0.25}}
	for _, dst := range []topology.GPU{0, 1} {
		b := newBench(t, s, build(t, star(2, 400*units.Gbps)))
		b.engine.RunUntil(0)
		b.net.Send(fabric.Message{Src: 1 - dst, Dst: dst, Bytes: 1000 * 4096}, b)
		want := 1001*83_200*sim.Picosecond + 3*1000*83_200*sim.Picosecond + 2*sim.Microsecond
		require.InDelta(t, float64(want), float64(b.run()[0].Arrived), 1e6)
	}
}

// A repaired link is used again.
func TestRepair(t *testing.T) {
	g := build(t, bare(2, 2, 1))
	s := preset(t, "line-rate")
	s.Packet.FaultDetection = 0
	s.Packet.Transport.Timeout = 100 * sim.Microsecond
	s.Packet.Faults = []Fault{{Link: "leaf0>spine0", At: 1000, Rate: 0}, {Link: "spine0>leaf0", At: 5 * sim.Millisecond, Rate: 1}}
	b := newBench(t, s, g)
	b.net.Send(fabric.Message{Src: 0, Dst: 1, Bytes: 1 << 20}, b)
	d := b.run()[0] // the only way is down for 5 ms
	// It is tried after 0.1, 0.3, 0.7, 1.5, 3.1 and 6.3 ms: the timeout doubles.
	require.InDelta(t, 6322, d.Arrived.Microseconds(), 2)
}

// A link that fails while it is paused, and comes back while the other end still
// wants it paused: the old pause must not last for ever, nor the new one be
// forgotten, or headroom would overflow.
func TestFailureUnderPause(t *testing.T) {
	s := lossless(t)
	s.Congestion.Buffer.StaticThreshold = 200 * units.KB
	s.Congestion.Buffer.ResumeOffset = 150 * units.KB // pauses of some 24 us
	s.Congestion.Buffer.Headroom = congestion.HeadroomConfig{Bytes: 500_000}
	s.Packet.Transport.Timeout = 200 * sim.Microsecond
	for _, up := range []sim.Time{101, 103, 107, 113, 127, 140} {
		s.Packet.Faults = []Fault{{Link: "nic1>leaf0", At: 100 * sim.Microsecond, Rate: 0}, {Link: "nic1>leaf0", At: up * sim.Microsecond, Rate: 1}}
		b := newBench(t, s, build(t, star(9, 400*units.Gbps)))
		for i := range 8 {
			b.net.Send(fabric.Message{Src: topology.GPU(1 + i), Dst: 0, Bytes: 4 << 20}, b)
		}
		b.run()
		require.Positive(t, b.net.PortStats(topology.LinkID(b.net.nics[1].port)).Pauses)
		require.Positive(t, b.net.Counters().Dropped[DropLinkDown])
		require.Zero(t, b.net.Counters().Dropped[DropHeadroom])
	}
}

// A spray leaves a dead path out once the failure is known.
func TestSprayAroundFailure(t *testing.T) {
	g := build(t, ls128())
	s := preset(t, "line-rate")
	s.Packet.Path.Choice = PathSprayRoundRobin
	s.Packet.FaultDetection = 10 * sim.Microsecond
	s.Packet.Transport.Timeout = 50 * sim.Microsecond
	s.Packet.Faults = []Fault{{Link: "leaf0>spine3", At: 20 * sim.Microsecond, Rate: 0}}
	b := newBench(t, s, g)
	b.net.Send(fabric.Message{Src: 0, Dst: 127, Bytes: 8 << 20}, b)
	b.engine.RunUntil(30 * sim.Microsecond)
	lost := b.net.Counters().Dropped[DropLinkDown]
	// One packet in eight of 10 us of sending, and of the microsecond on the wire.
	require.InDelta(t, 11_000/83.2/8, lost, 3)
	b.run()
	require.Equal(t, lost, b.net.Counters().Dropped[DropLinkDown])
}

func TestUnknownLink(t *testing.T) {
	s := DefaultSettings()
	s.Packet.Faults = []Fault{{Link: "leaf0>spin0", Rate: 0}}
	_, err := New(s, sim.New(), build(t, ls128()), 1)
	require.ErrorContains(t, err, "packet.faults[0].link")
	require.ErrorContains(t, err, "did you mean leaf0>spine0?")
}

// A link that is down for good, whatever the recovery and the choice of paths:
// the run ends, says why, keeps its books, and delivers all the rest, also what
// waited for the place of a queue pair that has given up.
func TestDownForGood(t *testing.T) {
	for name, set := range map[string]func(*Settings){
		"go-back-n":             func(s *Settings) {},
		"selective":             func(s *Settings) { s.Packet.Transport.Recovery = RecoverySelective },
		"spray":                 func(s *Settings) { s.Packet.Path.Choice = PathSprayRandom },
		"static":                func(s *Settings) { s.Packet.Path.Choice = PathStatic },
		"queued replies":        func(s *Settings) { s.Packet.Transport.AckQueueing = true },
		"one queue pair a time": func(s *Settings) { s.Packet.NIC.MaxQPs = 1 },
		"failed twice": func(s *Settings) {
			down := s.Packet.Faults[0]
			s.Packet.Faults = []Fault{down, {Link: down.Link, At: down.At + 1000, Rate: 1}, {Link: down.Link, At: down.At + 2000}}
		},
		"known at once":  func(s *Settings) { s.Packet.FaultDetection = 0 },
		"from the start": func(s *Settings) { s.Packet.Faults[0].At = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			s := DefaultSettings()
			s.Packet.FaultDetection = sim.Millisecond
			s.Packet.Faults = []Fault{{Link: "leaf0>nic0", At: 30 * sim.Microsecond}}
			set(&s)
			b := newBench(t, s, build(t, ls128()))
			for i := range 4 {
				b.net.Send(fabric.Message{Src: topology.GPU(10 + i), Dst: 0, Bytes: 1 << 20}, b)
				b.net.Send(fabric.Message{Src: topology.GPU(10 + i), Dst: 1, Bytes: 1 << 20}, b)
			}
			b.engine.RunUntil(sim.Second)
			require.Zero(t, b.engine.Pending(), "tries for ever")
			require.NoError(t, b.net.Check())
			require.Len(t, b.deliveries, 4)
			require.Equal(t, 4*units.MiB, b.net.Totals().InFlightBytes[fabric.ClassKV])
			require.Len(t, b.net.Notices(), 1)
			require.Equal(t, "unreachable", b.net.Notices()[0].Kind)
			require.Contains(t, b.net.Notices()[0].Text, "to gpu0, since leaf0>nic0 is down and no repair is to come")
			require.Contains(t, b.net.Notices()[0].Text, "3 other queue pairs")
		})
	}
}

// PFC spreads: an incast on one host of leaf 1 fills leaf 1, which pauses the
// spine, which pauses leaf 0, so that a flow between two other hosts, whose own
// links are free, waits. With memory for all of it, nothing is paused and the
// victim takes its fair share of the uplink.
func TestPauseTree(t *testing.T) {
	tc := bare(16, 2, 1)
	tc.LinkDelay = sim.Microsecond
	tc.LinkRate = 1600 * units.Gbps
	tc.Oversubscription = 2
	run := func(buffer units.Bytes) (victim sim.Time, n *Network) {
		s := lossless(t)
		s.Congestion.Buffer.Size = buffer
		b := newBench(t, s, build(t, tc))
		for i := range 4 {
			b.net.Send(fabric.Message{Src: topology.GPU(i), Dst: 8, Bytes: 8 << 20, Tag: 1}, b)
		}
		b.at(100*sim.Microsecond, func() { b.net.Send(fabric.Message{Src: 5, Dst: 9, Bytes: 1 << 20, Tag: 2}, b) })
		for _, d := range b.run() {
			if d.Tag == 2 {
				victim = d.Arrived - d.Posted
			}
		}
		return victim, b.net
	}
	free, n := run(512 * units.MB)
	require.Zero(t, n.Counters().Pauses)
	blocked, n := run(8 * units.MB)
	t.Logf("the victim takes %v, %v behind pauses", free, blocked)
	require.Greater(t, blocked, 2*free)
	require.Zero(t, n.Counters().Dropped)
	g := n.graph
	for _, name := range []string{"spine0>leaf1", "leaf0>spine0", "nic5>leaf0"} {
		for l := range g.Links {
			if g.Links[l].Name == name {
				st := n.PortStats(topology.LinkID(l))
				require.Positive(t, st.Pauses, name)
				require.Positive(t, st.PausedFor, name)
			}
		}
	}
}

// Flows that go down and up again close a circle of buffers: leaf0 > spine0 >
// leaf1 > spine1 > leaf0. Under PFC it locks up, which the network says instead
// of running for ever; the same flows without PFC get through.
func TestDeadlock(t *testing.T) {
	tc := bare(16, 2, 2)
	tc.Oversubscription, tc.UplinksPerLeaf = 0, 2
	g := build(t, tc)
	link := func(name string) uint32 {
		for l := range g.Links {
			if g.Links[l].Name == name {
				return uint32(l)
			}
		}
		panic(name)
	}
	run := func(s Settings) *bench {
		b := newBench(t, s, g)
		ring := []string{"leaf0>spine0", "spine0>leaf1", "leaf1>spine1", "spine1>leaf0"}
		for i := range 8 {
			// Host i of leaf 0 to host i+1 of leaf 0, and the same on leaf 1, all the
			// way round: three quarters of the circle and out.
			for leaf := range 2 {
				src, dst := topology.GPU(8*leaf+i), topology.GPU(8*leaf+(i+1)%8)
				qp := b.net.queuePair(src, dst, fabric.ClassKV, 0)
				at := uint32(len(b.net.routes))
				b.net.routes = append(b.net.routes, uint32(b.net.nics[b.net.nicIndex(src)].port))
				for k := range 4 {
					b.net.routes = append(b.net.routes, link(ring[(2*leaf+k)%4]))
				}
				nic := g.NICOf(dst)
				b.net.routes = append(b.net.routes, uint32(g.NextHops(g.LeafOf(nic), nic)[0]), endOfRoute)
				b.net.senders[qp].route = at
				b.net.Send(fabric.Message{Src: src, Dst: dst, Bytes: 32 << 20}, b)
			}
		}
		b.engine.Run()
		return b
	}
	s := lossless(t)
	s.Congestion.Buffer.Size = 2 * units.MB
	s.Congestion.Buffer.Headroom = congestion.HeadroomConfig{Frames: 4, Bytes: 84, Delays: 2}
	b := run(s)
	require.Len(t, b.net.Notices(), 1)
	notice := b.net.Notices()[0]
	require.Equal(t, "deadlock", notice.Kind)
	require.Contains(t, notice.Text, "leaf0>spine0 waits for spine0>leaf1")
	require.Equal(t, 4, strings.Count(notice.Text, " waits for "))
	require.Zero(t, b.net.Counters().Dropped)
	require.NoError(t, b.net.Check())
	require.Positive(t, b.net.Totals().InFlightBytes[fabric.ClassKV])

	s.Congestion.Buffer.Lossless = nil
	b = run(s)
	require.Empty(t, b.net.Notices())
	b.idle()
}

// The report of what has not acted names what has not, and not what has.
func TestInert(t *testing.T) {
	names := func(b *bench) string {
		var all []string
		for _, i := range b.net.Inert() {
			require.NotEmpty(t, i.Why)
			all = append(all, i.Setting)
		}
		return strings.Join(all, " ")
	}
	s := preset(t, "hpcc-ns3-dcqcn")
	s.Packet.NIC.MaxQPs = 100
	b := newBench(t, s, build(t, ls128()))
	b.net.Send(fabric.Message{Src: 0, Dst: 127, Bytes: 1 << 20}, b)
	b.run()
	quiet := names(b)
	for _, want := range []string{"congestion.ecn", "congestion.dcqcn", "congestion.buffer.lossless", "packet.nic.max_qps", "packet.transport.recovery"} {
		require.Contains(t, quiet, want)
	}
	require.Contains(t, b.net.Inert()[0].Why, "the longest queue was 0 B, the least kmin is 1.6 MB")
	for _, want := range []string{"packet.transport.window_bdp", "congestion.none", "packet.path.index", "packet.fault_detection"} {
		require.Contains(t, quiet, want)
	}
	for i := range 40 {
		b.net.Send(fabric.Message{Src: topology.GPU(i), Dst: 127, Bytes: 2 << 20}, b)
	}
	b.run()
	for _, not := range []string{"congestion.ecn", "congestion.dcqcn", "congestion.buffer.lossless"} {
		require.NotContains(t, names(b), not)
	}
}

// What cannot act beside other settings is worth a word only where it was written,
// and nothing is said of what acts.
func TestIdle(t *testing.T) {
	idle := func(change func(*Settings)) (list []string) {
		s := preset(t, "default")
		change(&s)
		for _, x := range newBench(t, s, build(t, ls128())).net.Inert() {
			if x.IfWritten {
				list = append(list, x.Setting)
			}
		}
		return list
	}
	for _, c := range []struct {
		setting string
		acts    func(*Settings)
	}{
		{"packet.transport.window_bdp", func(s *Settings) { s.Congestion.Algorithm = "none" }},
		{"congestion.none", func(s *Settings) { s.Congestion.Algorithm = "none" }},
		{"packet.transport.reorder_window", func(s *Settings) { s.Packet.Transport.Recovery = RecoverySelective }},
		{"packet.transport.reorder_tolerance", func(s *Settings) { s.Packet.Path.Choice = PathSprayRandom }},
		{"packet.path.index", func(s *Settings) { s.Packet.Path.Choice = PathStatic }},
		{"packet.path.flowlet_gap", func(s *Settings) { s.Packet.Path.Choice = PathFlowlet }},
		{"packet.path.max_paths", func(s *Settings) { s.Packet.Path.Choice = PathSprayRandom }},
		{"packet.queues.kv_weight", func(s *Settings) { s.Packet.Queues.Mode = "weighted" }},
		{"packet.queues.ep_weight", func(s *Settings) { s.Packet.Queues.Mode = "weighted" }},
		{"packet.nic.drain_buffer", func(s *Settings) { s.Packet.NIC.DrainRate = units.Gbps }},
		{"packet.fault_detection", func(s *Settings) { s.Packet.Faults = []Fault{{Link: "leaf0>spine0", Rate: 1}} }},
	} {
		require.Contains(t, idle(func(*Settings) {}), c.setting)
		require.NotContains(t, idle(c.acts), c.setting)
	}
	require.Contains(t, idle(func(s *Settings) { s.Congestion.Algorithm = "none" }), "congestion.dcqcn")
}

func TestBytesText(t *testing.T) {
	for b, want := range map[int64]string{
		0: "0 B", 999: "999 B", 1000: "1 KB", 4160: "4.16 KB", 25_673_810: "25.7 MB", 6_400_000: "6.4 MB", 999_999: "1 MB", 2_000_000_000: "2 GB",
	} {
		require.Equal(t, want, bytesText(b))
	}
}

// A sender of flowlets that had more paths than are left does not use one that is
// gone, nor another queue pair's; and a pause that is under way when its cable
// fails does not outlive the failure.
func TestPathsLostUnderWay(t *testing.T) {
	g := build(t, ls128())
	for _, choice := range []string{PathFlowlet, PathSprayRandom, PathSprayRoundRobin} {
		for at := range 20 {
			s := preset(t, "default")
			s.Packet.Path.Choice, s.Packet.Path.FlowletGap = choice, 200*sim.Microsecond
			s.Packet.FaultDetection = 2 * sim.Microsecond
			s.Packet.Transport.Timeout = 50 * sim.Microsecond
			for i := range 4 {
				s.Packet.Faults = append(s.Packet.Faults, Fault{Link: "leaf0>spine" + string(rune('0'+i)), At: 20*sim.Microsecond + sim.Time(at)*25*sim.Nanosecond})
			}
			b := newBench(t, s, g)
			for src := range topology.GPU(8) {
				b.net.Send(fabric.Message{Src: src, Dst: 127 - src%2, Bytes: 400 << 10, Tag: uint64(src)}, b)
				b.net.Send(fabric.Message{Src: src + 8, Dst: src, Bytes: 400 << 10, Tag: 100 + uint64(src)}, b)
			}
			require.Len(t, b.run(), 16)
		}
	}
}
