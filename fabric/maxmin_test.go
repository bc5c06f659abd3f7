package fabric

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// plain is the flow engine without headers, so that a 400 Gb/s link carries
// 50,000 bytes of payload per microsecond.
func plain() Config {
	c := DefaultConfig()
	c.Header = 0
	return c
}

// rates returns the payload rate of each flowing message by tag, in units of a
// 400 Gb/s link.
func (b *bench) rates(n int) []float64 {
	r := make([]float64, n)
	for i := range b.net.flowing {
		id := b.net.flowing[i].id
		f := &b.net.flows[id]
		r[b.net.jobs[id].tag] = f.speed * float64(f.level) * float64(f.pairs) / rateUnit / 400e9
	}
	return r
}

// settled runs the events of this instant, so that rates are those that follow.
func (b *bench) settled() { b.engine.RunUntil(b.engine.Now()) }

func (b *bench) send(src, dst topology.GPU, bytes units.Bytes) {
	tag := uint64(b.net.sentCount[ClassKV])
	b.net.Send(Message{Src: src, Dst: dst, Bytes: bytes, Tag: tag}, b)
}

// Three flows over two links: A on the first, B on the second, C on both. All
// get half; with a second flow beside B, C is held to a third and A gets the
// rest (Bertsekas and Gallager, Data Networks, 2nd ed., section 6.5.2).
func TestMaxMinTwoLinks(t *testing.T) {
	const big = units.GB
	b := newBench(t, plain(), build(t, bare(8, 1, 0)))
	b.send(0, 2, big) // A: up(0)
	b.send(3, 1, big) // B: down(1)
	b.send(0, 1, big) // C: up(0), down(1)
	b.settled()
	require.InDeltaSlice(t, []float64{1. / 2, 1. / 2, 1. / 2}, b.rates(3), 1e-12)
	b.send(4, 1, big)
	b.settled()
	require.InDeltaSlice(t, []float64{2. / 3, 1. / 3, 1. / 3, 1. / 3}, b.rates(4), 1e-12)
	b.send(0, 5, big) // up(0) has three now, but C does not use its third
	b.send(6, 1, big)
	b.settled()
	require.InDeltaSlice(t, []float64{3. / 8, 1. / 4, 1. / 4, 1. / 4, 3. / 8, 1. / 4}, b.rates(6), 1e-12)
	b.run()
}

// The parking lot: a long flow crosses four links, on each of which 1, 2, 3 and
// 1 others come and go. It is held by the link with most, and every other link
// gives its own flows what is left.
func TestMaxMinParkingLot(t *testing.T) {
	const big = units.GB
	c := bare(16, 4, 1) // 4 hosts to a leaf, one uplink each
	c.Oversubscription = 4
	b := newBench(t, plain(), build(t, c))
	b.send(0, 4, big) // up(0), leaf0>spine, spine>leaf1, down(4)
	b.send(0, 1, big) // up(0)
	b.send(2, 8, big) // leaf0>spine
	b.send(3, 9, big)
	b.send(10, 5, big) // spine>leaf1
	b.send(12, 6, big)
	b.send(13, 7, big)
	b.send(6, 4, big) // down(4)
	b.settled()
	// leaf0>spine: 3 flows, spine>leaf1: 4 flows, so the long one gets a quarter.
	require.InDeltaSlice(t,
		[]float64{1. / 4, 3. / 4, 3. / 8, 3. / 8, 1. / 4, 1. / 4, 1. / 4, 3. / 4}, b.rates(8), 1e-12)
	b.run()
}

// Rates follow who is there: two flows of 50 kB and 100 kB into one NIC. Both
// have half for 2 us, then the longer one has all for 1 us more.
func TestFlowSpeedsUpWhenAnotherEnds(t *testing.T) {
	b := newBench(t, plain(), build(t, bare(4, 1, 0)))
	b.send(0, 2, 50_000)
	b.send(1, 2, 100_000)
	one := 4096 * sim.Time(20) // store and forward of one packet
	d := b.run()
	require.Equal(t, 2*sim.Microsecond+one, d[0].Arrived)
	require.Equal(t, sim.Microsecond, d[0].Queue)
	require.Equal(t, 3*sim.Microsecond+one, d[1].Arrived)
	require.Equal(t, sim.Microsecond, d[1].Queue)
}

// A flow that meets another only after it has begun: 100 kB alone for 1 us, then
// half speed for its other 50 kB.
func TestFlowSlowsDownWhenAnotherBegins(t *testing.T) {
	b := newBench(t, plain(), build(t, bare(4, 1, 0)))
	b.send(0, 2, 100_000)
	b.net.Send(Message{Src: 1, Dst: 2, Bytes: 100_000, Post: sim.Microsecond, Tag: 1}, b)
	one := 4096 * sim.Time(20)
	d := b.run()
	require.Equal(t, 3*sim.Microsecond+one, d[0].Arrived)
	require.Equal(t, 4*sim.Microsecond+one, d[1].Arrived)
}

// One that ends exactly when another begins is not slowed by it.
func TestBackToBackFlowsDoNotMeet(t *testing.T) {
	b := newBench(t, plain(), build(t, bare(4, 1, 0)))
	for i := range 5 {
		b.net.Send(Message{Src: 0, Dst: 2, Bytes: 50_000, Post: sim.Time(i) * sim.Microsecond, Tag: uint64(i)}, b)
	}
	for _, d := range b.run() {
		require.Zero(t, d.Queue)
	}
}

// Deliveries at one instant come in the order in which the transfers began.
func TestDeliveriesAreFIFO(t *testing.T) {
	b := newBench(t, plain(), build(t, bare(64, 1, 0)))
	for i := range 32 {
		b.send(topology.GPU(2*(i*13%32)), topology.GPU(2*(i*13%32)+1), 50_000)
	}
	for i, d := range b.run() {
		require.Equal(t, uint64(i), d.Tag)
	}
}

// The count of solves starts over without a trace.
func TestRoundsStartOver(t *testing.T) {
	b := newBench(t, plain(), build(t, bare(8, 1, 0)))
	for i := range 40 {
		if i == 20 {
			b.net.round = maxRound - 2
		}
		b.send(0, topology.GPU(1+i%7), 50_000)
		b.send(1, topology.GPU(1+i%7), 50_000)
		b.net.Send(Message{Src: 0, Dst: 7, Bytes: 50_000, Tag: 80}, b)
		b.run()
	}
	require.Less(t, b.net.round, uint32(200))
	n := len(b.deliveries) / 40
	for i, d := range b.deliveries {
		if i >= 7*n {
			require.Equal(t, b.deliveries[i-7*n].Queue, d.Queue)
		}
	}
}

// n flows into one NIC, or out of one, take n times as long; the last of them as
// long as one of n times the size.
func TestIncastTakesNTimes(t *testing.T) {
	for _, out := range []bool{false, true} {
		for _, n := range []int{1, 2, 3, 7, 31} {
			b := newBench(t, DefaultConfig(), build(t, bare(n+1, 1, 0)))
			for i := 1; i <= n; i++ {
				src, dst := topology.GPU(i), topology.GPU(0)
				if out {
					src, dst = dst, src
				}
				b.send(src, dst, units.MiB)
			}
			for _, d := range b.run() {
				want := (400*units.Gbps).TimeScaled(units.Bytes(n)*units.MiB, 4178, 4096) + 83_560
				require.InDelta(t, float64(want), float64(d.Arrived), 1, "%d flows", n)
				require.Equal(t, d.Arrived-d.Wire, d.Queue)
			}
		}
	}
}

// A message of k queue pairs has k shares of a link.
func TestQueuePairsCountAsFlows(t *testing.T) {
	b := newBench(t, plain(), build(t, bare(4, 1, 0)))
	b.net.Send(Message{Src: 0, Dst: 3, Bytes: units.GB, QPs: 3}, b)
	b.net.Send(Message{Src: 1, Dst: 3, Bytes: units.GB, Tag: 1}, b)
	b.settled()
	require.InDeltaSlice(t, []float64{3. / 4, 1. / 4}, b.rates(2), 1e-12)
}

// Twice the rate of every link halves every time but the latency.
func TestTwiceTheRateHalvesTheTime(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tc := drawTopology(rt)
		tc.NVLinkDelay, tc.LinkDelay, tc.SwitchLatency, tc.NICLatency = 0, 0, 0, 0
		tc.NVLinkRate, tc.NICRate, tc.LinkRate = tc.NVLinkRate/2*2, tc.NICRate/2*2, tc.LinkRate/2*2
		slow, err := topology.LeafSpine(tc)
		require.NoError(rt, err)
		tc.NVLinkRate, tc.NICRate, tc.LinkRate = 2*tc.NVLinkRate, 2*tc.NICRate, 2*tc.LinkRate
		fast, err := topology.LeafSpine(tc)
		require.NoError(rt, err)
		c := drawConfig(rt, "flow")
		s := drawStory(rt, slow)
		for i := range s.begin { // everything at once: instants do not scale
			s.begin[i], s.messages[i].Post = 0, 0
		}
		for i := range s.runs {
			s.runs[i].at, s.runs[i].startup = 0, 0
		}
		at, half := s.tell(rt, c, slow), s.tell(rt, c, fast)
		for i := range at {
			require.InDelta(rt, float64(at[i])/2, float64(half[i]), 20+1e-9*float64(at[i]))
		}
	})
}

// On a single link, another flow never makes one faster.
func TestAnotherFlowNeverHelps(t *testing.T) {
	g := build(t, bare(12, 1, 0))
	rapid.Check(t, func(rt *rapid.T) {
		s := &story{}
		for i := range rapid.IntRange(1, 10).Draw(rt, "flows") {
			s.messages = append(s.messages, Message{
				Src: topology.GPU(i + 1), Dst: 0, Bytes: units.Bytes(rapid.Int64Range(0, 1e7).Draw(rt, "bytes")),
			})
			s.begin = append(s.begin, sim.Time(rapid.Int64Range(0, 1e8).Draw(rt, "at")))
		}
		c := DefaultConfig()
		with := s.tell(rt, c, g)
		last := len(s.messages) - 1
		s.messages, s.begin = s.messages[:last], s.begin[:last]
		for i, at := range s.tell(rt, c, g) {
			require.LessOrEqual(rt, at, with[i]+1)
		}
	})
}

// Renaming the hosts of a leaf renames the results and changes nothing else.
func TestPermutationOfHosts(t *testing.T) {
	g := build(t, bare(10, 1, 0))
	rapid.Check(t, func(rt *rapid.T) {
		s := drawStory(rt, g)
		for i := range s.messages {
			s.messages[i].QPs = 1
		}
		c := DefaultConfig()
		want := s.tell(rt, c, g)
		to := rapid.Permutation(indices(10)).Draw(rt, "to")
		for i := range s.messages {
			m := &s.messages[i]
			m.Src, m.Dst = topology.GPU(to[m.Src]), topology.GPU(to[m.Dst])
		}
		for i := range s.specs {
			for j := range s.specs[i].Shares {
				sh := &s.specs[i].Shares[j]
				sh.Src, sh.Dst = topology.GPU(to[sh.Src]), topology.GPU(to[sh.Dst])
			}
		}
		require.Equal(rt, want, s.tell(rt, c, g))
	})
}

// The ideal engine is the flow engine where nothing is shared, and never slower.
func TestIdealIsALowerBound(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := drawConfig(rt, "flow")
		g, err := topology.LeafSpine(drawTopology(rt))
		require.NoError(rt, err)
		s := drawStory(rt, g)
		flow := s.tell(rt, c, g)
		c.Engine = "ideal"
		for i, at := range s.tell(rt, c, g) {
			require.LessOrEqual(rt, at, flow[i])
		}
	})
}

// Messages of gigabytes and of one byte, on links of 1 Gb/s and of 2 Tb/s, with
// thousands of others: none stays, and the sum of the bytes takes as long as it
// must.
func TestManyUnequalFlows(t *testing.T) {
	c := bare(64, 1, 0)
	c.NICRate = 999_999_937 // a prime
	b := newBench(t, DefaultConfig(), build(t, c))
	var sum units.Bytes
	for i := range 3000 {
		bytes := units.Bytes(math.Floor(math.Pow(1.007, float64(i))))
		sum += bytes
		b.net.Send(Message{Src: topology.GPU(1 + i%63), Dst: 0, Bytes: bytes, Post: sim.Time(i % 17), Tag: uint64(i)}, b)
	}
	d := b.run()
	require.Len(t, d, 3000)
	want := c.NICRate.TimeScaled(sum, 4178, 4096)
	require.InEpsilon(t, float64(want), float64(d[2999].Arrived), 1e-6)
}
