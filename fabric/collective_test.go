package fabric

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/internal/invariants"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// newCollective is NewCollective of a spec that must be right.
func (b *bench) newCollective(s CollectiveSpec, units []int64) *collective {
	b.t.Helper()
	c, err := b.net.NewCollective(s)
	require.NoError(b.t, err)
	c.SetUnits(units)
	return c.(*collective)
}

// packet is the store and forward of a full packet without headers at 400 Gb/s.
const packet = 4096 * 20 * sim.Picosecond

// An all-to-all of 8 hosts under one leaf has 7 pairs on every link. A flow into
// host 0 is one pair more there: it gets an eighth, and the collective, which
// moves in lock-step, 7/8 of its speed.
func TestCollectiveSharesByPairs(t *testing.T) {
	b := newBench(t, plain(), build(t, bare(10, 1, 0)))
	c := b.newCollective(allToAll("a2a", gpuRange(0, 8), 50_000_000), same(8, 1)) // 7 x 50 kB = 7 us
	b.net.Send(Message{Src: 9, Dst: 0, Bytes: units.GB}, b)
	c.Start(0, 1, b)
	b.settled()
	require.InDelta(t, 1./8, b.rates(2)[0], 1e-9)
	b.engine.RunUntil(100 * sim.Microsecond)
	require.Equal(t, Delivery{
		Tag: 1, Arrived: 8*sim.Microsecond + packet, Queue: sim.Microsecond,
		Wire: 7*sim.Microsecond + packet, Ideal: 7*sim.Microsecond + packet, Latency: packet,
	}, b.deliveries[0])
	b.run()
}

// Two all-to-alls over the same links halve each other; over disjoint ones they
// do not meet.
func TestCollectivesShareWithEachOther(t *testing.T) {
	g := build(t, bare(16, 1, 0))
	b := newBench(t, plain(), g)
	x := b.newCollective(allToAll("x", gpuRange(0, 8), 50_000_000), same(8, 1))
	y := b.newCollective(allToAll("y", gpuRange(0, 8), 50_000_000), same(8, 1))
	z := b.newCollective(allToAll("z", gpuRange(8, 16), 50_000_000), same(8, 1))
	x.Start(0, 0, b)
	y.Start(7*sim.Microsecond/2, 1, b) // meets the second half of x
	z.Start(0, 2, b)
	b.run()
	at := b.arrivals(3)
	require.Equal(t, sim.Time(10_500_000)+packet, at[0])                    // 3.5 alone, 7 at half speed
	require.Equal(t, sim.Time(3_500_000+7_000_000+3_500_000)+packet, at[1]) // 7 at half, 3.5 alone
	require.Equal(t, 7*sim.Microsecond+packet, at[2])
	require.True(t, x.spread.rated && y.spread.rated)
	if !invariants.Enabled { // whose checks look at every link
		require.False(t, z.spread.rated, "a collective without rivals looked at its links")
	}
}

// A collective whose links the others leave room on is not slowed by them: it
// needs only 1/7 of a link that has 2/7 to spare.
func TestSharingWithoutContention(t *testing.T) {
	b := newBench(t, plain(), build(t, bare(10, 1, 0)))
	hub := CollectiveSpec{Name: "hub", Class: ClassEP, Ranks: 1} // host 0 sends to 1..7
	for dst := topology.GPU(1); dst < 8; dst++ {
		hub.Shares = append(hub.Shares, Share{Src: 0, Dst: dst, Milli: 50_000_000})
	}
	b.newCollective(hub, []int64{1}).Start(0, 0, b)
	slow := CollectiveSpec{Name: "slow", Class: ClassEP, Ranks: 1} // 8 to 1 with 5/7 of the link
	slow.Shares = []Share{{Src: 8, Dst: 1, Milli: 250_000_000}, {Src: 8, Dst: 9, Milli: 100_000_000}}
	b.newCollective(slow, []int64{1}).Start(0, 1, b)
	for _, d := range b.run() {
		require.Zero(t, d.Queue)
		require.Equal(t, 7*sim.Microsecond+packet, d.Wire)
	}
	require.Zero(t, b.net.round, "rates were solved for though no link is contended")
}

// A collective made while messages and rivals are already under way meets them
// all the same.
func TestCollectiveMadeLate(t *testing.T) {
	b := newBench(t, plain(), build(t, bare(10, 1, 0)))
	b.net.Send(Message{Src: 9, Dst: 0, Bytes: units.GB}, b)
	c := b.newCollective(allToAll("late", gpuRange(0, 8), 50_000_000), same(8, 1))
	c.Start(0, 1, b)
	b.settled()
	require.InDelta(t, 1./8, b.rates(2)[0], 1e-9)
	b.newCollective(allToAll("later", gpuRange(0, 8), 50_000_000), same(8, 1)).Start(0, 1, b)
	b.settled()
	require.InDelta(t, 1./15, b.rates(2)[0], 1e-9)
	b.run()
}

// Of two links that take equally long, the one with more pairs says what a share
// is: the sender of two halves counts as two beside a flow, though its twin sends
// the same in one piece.
func TestSharesOfEquallyLoadedLinks(t *testing.T) {
	b := newBench(t, plain(), build(t, bare(10, 1, 0)))
	spec := CollectiveSpec{Name: "twins", Class: ClassEP, Ranks: 1, Shares: []Share{
		{Src: 0, Dst: 1, Milli: 1e9}, {Src: 5, Dst: 6, Milli: 5e8}, {Src: 5, Dst: 7, Milli: 5e8},
	}}
	b.newCollective(spec, []int64{1}).Start(0, 1, b)
	b.net.Send(Message{Src: 5, Dst: 9, Bytes: units.GB}, b)
	b.settled()
	require.InDelta(t, 1./3, b.rates(2)[0], 1e-9)
	b.run()
}

// A run keeps the units with which it was started.
func TestSetUnitsDuringARun(t *testing.T) {
	b := newBench(t, plain(), build(t, bare(8, 1, 0)))
	c := b.newCollective(allToAll("a2a", gpuRange(0, 8), 50_000_000), same(8, 2))
	c.Start(sim.Microsecond, 0, b)
	c.SetUnits(same(8, 4))
	b.at(3*sim.Microsecond, func() {
		c.SetUnits(same(8, 6))
		// 2 of 14 us have passed.
		require.Equal(t, units.Bytes(100_000), b.net.Loads(nil)[b.graph.Out(b.graph.NICOf(0))[0]].Payload[ClassEP])
	})
	require.Equal(t, 14*sim.Microsecond+packet, b.run()[0].Wire)
	c.Start(0, 1, b)
	require.Equal(t, 42*sim.Microsecond+packet, b.run()[1].Wire)
	require.Equal(t, units.Bytes(56*50_000*(2+6)), b.net.Totals().DeliveredBytes[ClassEP])
	require.Equal(t, units.Bytes(7*50_000*(2+6)), b.net.Loads(nil)[b.graph.Out(b.graph.NICOf(0))[0]].Payload[ClassEP])
}

// A rank without tokens sends nothing and is no pair on any link.
func TestIdleRanksAreNoPairs(t *testing.T) {
	b := newBench(t, plain(), build(t, bare(10, 1, 0)))
	c := b.newCollective(allToAll("a2a", gpuRange(0, 8), 50_000_000), []int64{0, 1, 1, 1, 0, 0, 0, 0})
	b.net.Send(Message{Src: 9, Dst: 0, Bytes: units.GB}, b)
	c.Start(0, 1, b)
	b.settled()
	// Into host 0 come three pairs and the flow. The senders' own links, with
	// seven pairs, are the bottleneck: the flow takes what 3/7 leave.
	require.InDelta(t, 4./7, b.rates(2)[0], 1e-9)
	b.engine.RunUntil(7*sim.Microsecond + packet)
	require.Equal(t, sim.Time(0), b.deliveries[0].Queue)
	b.engine.RunUntil(sim.Second)
	c.SetUnits(same(8, 1))
	b.net.Send(Message{Src: 9, Dst: 0, Bytes: units.GB}, b)
	c.Start(0, 1, b)
	b.settled()
	require.InDelta(t, 1./8, b.rates(2)[0], 1e-9)
	b.run()
}

// Short, missing, superfluous, negative and absurd units do no harm.
func TestUnitsOutOfRange(t *testing.T) {
	b := newBench(t, plain(), build(t, bare(4, 1, 0)))
	c := b.newCollective(allToAll("a2a", gpuRange(0, 4), 1000), nil)
	run := func(us ...int64) units.Bytes {
		before := b.net.Totals().DeliveredBytes[ClassEP]
		c.SetUnits(us)
		c.Start(0, 0, b)
		b.run()
		return b.net.Totals().DeliveredBytes[ClassEP] - before
	}
	require.Equal(t, units.Bytes(0), run())
	require.Equal(t, units.Bytes(3*5), run(5))
	require.Equal(t, units.Bytes(3*4), run(1, 1, 1, 1, 7, 7))
	require.Equal(t, units.Bytes(3*2), run(-4, 2, math.MinInt64, 0))
	huge := run(math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64)
	require.Greater(t, huge, 4*units.TB)
	require.Less(t, huge, 10_000*units.TB)
}

func TestNewCollectiveRefuses(t *testing.T) {
	b := newBench(t, plain(), build(t, bare(4, 1, 0)))
	ok := Share{Rank: 1, Src: 0, Dst: 1, Milli: 5}
	for _, tc := range []struct {
		says string
		spec CollectiveSpec
	}{
		{"class 2", CollectiveSpec{Class: NumClasses}},
		{"-1 ranks", CollectiveSpec{Ranks: -1}},
		{"share 1 is of rank 2; there are 2", CollectiveSpec{Ranks: 2, Shares: []Share{ok, {Rank: 2}}}},
		{"share 0 is of rank -1", CollectiveSpec{Ranks: 2, Shares: []Share{{Rank: -1}}}},
		{"share 1 is from GPU 4; there are 4", CollectiveSpec{Ranks: 2, Shares: []Share{ok, {Src: 4}}}},
		{"share 1 is to GPU -1", CollectiveSpec{Ranks: 2, Shares: []Share{ok, {Dst: -1}}}},
		{"thousandths", CollectiveSpec{Ranks: 2, Shares: []Share{ok, {Milli: -1}}}},
		{"4 PB", CollectiveSpec{Ranks: 2, Shares: []Share{ok, {Milli: math.MaxInt64}}}},
	} {
		tc.spec.Name = "broken"
		_, err := b.net.NewCollective(tc.spec)
		require.ErrorContains(t, err, `collective "broken"`)
		require.ErrorContains(t, err, tc.says)
	}
	require.Panics(t, func() {
		c := b.newCollective(CollectiveSpec{Ranks: 2, Shares: []Share{ok}}, []int64{1, 1})
		c.Start(0, 0, b)
		c.Start(0, 0, b)
	})
}

// A GPU that no path leads to is refused by name, and messages to it panic.
func TestNoPath(t *testing.T) {
	tc := topology.DefaultConfig()
	tc.Nodes, tc.GPUsPerNode, tc.NICsPerNode, tc.Leaves, tc.Spines = 1, 4, 0, 0, 0
	g := build(t, tc)
	b := newBench(t, plain(), g)
	b.newCollective(allToAll("nvlink", gpuRange(0, 4), 1000), same(4, 1)).Start(0, 0, b)
	b.run()
	require.Panics(t, func() { b.net.Send(Message{Src: 0, Dst: 4}, b) })
	require.Panics(t, func() { b.net.Send(Message{Src: -1, Dst: 0}, b) })
	require.Panics(t, func() { b.net.Send(Message{Src: 0, Dst: 1, Bytes: -1}, b) })
}

// A receiver may start the next run, of the same collective, at once.
func TestStartFromDelivered(t *testing.T) {
	b := newBench(t, plain(), build(t, bare(8, 1, 0)))
	c := b.newCollective(allToAll("a2a", gpuRange(0, 8), 50_000_000), same(8, 1))
	r := &again{c: c, left: 100}
	c.Start(0, 0, r)
	b.run()
	require.Equal(t, 100*(7*sim.Microsecond+packet), b.engine.Now())
	require.Equal(t, int64(100), b.net.Totals().DeliveredMessages[ClassEP])
}

// No receiver is called before Send or Start has returned, even when there is
// nothing to wait for.
func TestDeliveryIsAnEvent(t *testing.T) {
	b := newBench(t, plain(), build(t, bare(2, 1, 0)))
	b.net.Send(Message{Src: 1, Dst: 1, Bytes: 5}, b)
	b.newCollective(CollectiveSpec{Name: "empty"}, nil).Start(0, 1, b)
	require.Empty(t, b.deliveries)
	require.Equal(t, []Delivery{{Tag: 0}, {Tag: 1}}, b.run())
	require.Equal(t, units.Bytes(5), b.net.Totals().DeliveredBytes[ClassKV])
}

// Loads grow steadily from nothing to exactly what was sent over each link, and
// at every instant what was sent is delivered or in flight.
func TestLoadsAndTotals(t *testing.T) {
	for _, engine := range []string{"flow", "ideal"} {
		t.Run(engine, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) { checkLoads(rt, engine) })
		})
	}
}

func checkLoads(rt *rapid.T, engine string) {
	c := drawConfig(rt, engine)
	g, err := topology.LeafSpine(drawTopology(rt))
	require.NoError(rt, err)
	s := drawStory(rt, g)
	b := newBench(rt, c, g)
	want := make([][NumClasses]int64, len(g.Links)) // thousandths
	var sent [NumClasses]int64
	for i, m := range s.messages {
		b.at(s.begin[i], func() { b.net.Send(m, b) })
		qps := max(1, m.QPs)
		if g.ServerOf(m.Src) == g.ServerOf(m.Dst) {
			qps = 1
		}
		for qp := range qps {
			part := int64(m.Bytes) / int64(qps)
			if qp < int(m.Bytes)%qps {
				part++
			}
			for _, l := range b.net.pathOf(m.Src, m.Dst, qp, m.Class) {
				want[l][m.Class] += 1000 * part
			}
		}
		sent[m.Class] += 1000 * int64(m.Bytes)
	}
	for _, r := range s.runs {
		coll := b.newCollective(s.specs[r.spec], r.units)
		b.at(r.at, func() { coll.Start(r.startup, 0, b) })
		for _, sh := range perQueuePair(g, s.specs[r.spec]) {
			for _, l := range b.net.pathOf(sh.Src, sh.Dst, sh.qp, ClassEP) {
				want[l][ClassEP] += sh.Milli * r.units[sh.Rank]
			}
			sent[ClassEP] += sh.Milli * r.units[sh.Rank]
		}
	}
	last := b.net.Loads(nil)
	for at := sim.Time(0); at < 400*sim.Microsecond; at += 13 * sim.Microsecond {
		b.engine.RunUntil(at)
		loads, tot := b.net.Loads(nil), b.net.Totals()
		b.net.checkAccount()
		for cl := range NumClasses {
			require.Equal(rt, tot.SentBytes[cl], tot.DeliveredBytes[cl]+tot.InFlightBytes[cl])
			require.Equal(rt, tot.SentMessages[cl], tot.DeliveredMessages[cl]+tot.InFlightMessages[cl])
			require.GreaterOrEqual(rt, tot.InFlightBytes[cl], units.Bytes(0))
			require.GreaterOrEqual(rt, tot.InFlightMessages[cl], int64(0))
			for l := range loads {
				require.GreaterOrEqual(rt, loads[l].Payload[cl], last[l].Payload[cl], "a load shrinks")
			}
		}
		last = loads
	}
	b.run()
	for l, load := range b.net.Loads(nil) {
		require.Equal(rt, topology.LinkID(l), load.Link)
		var sum units.Bytes
		for cl := range NumClasses {
			require.Equal(rt, units.Bytes(want[l][cl]/1000), load.Payload[cl])
			sum += load.Payload[cl]
		}
		if g.Nodes[g.Links[l].From].Kind >= topology.KindNIC {
			require.Equal(rt, sum*(c.MTU+c.Header)/c.MTU, load.Wire)
		}
	}
	for cl := range NumClasses {
		require.Equal(rt, units.Bytes(sent[cl]/1000), b.net.Totals().SentBytes[cl])
	}
}

// Halfway through, half is loaded: of a message at half speed, a quarter of the
// collective that is two times as long.
func TestLoadsInProgress(t *testing.T) {
	b := newBench(t, plain(), build(t, bare(8, 1, 0)))
	up := func(host topology.GPU) topology.LinkID { return b.graph.Out(b.graph.NICOf(host))[0] }
	payload := func(host topology.GPU, c Class) units.Bytes { return b.net.Loads(nil)[up(host)].Payload[c] }
	b.send(0, 2, 100_000)
	b.send(1, 2, 100_000)
	pair := CollectiveSpec{Name: "pair", Class: ClassEP, Ranks: 1, Shares: []Share{{Src: 4, Dst: 5, Milli: 400_000_000}}}
	b.newCollective(pair, []int64{1}).Start(0, 2, b)
	b.at(2*sim.Microsecond, func() {
		require.Equal(t, units.Bytes(50_000), payload(0, ClassKV))
		require.Equal(t, units.Bytes(50_000), payload(1, ClassKV))
		require.Equal(t, units.Bytes(100_000), payload(4, ClassEP))
		require.Equal(t, units.Bytes(300_000), b.net.Totals().InFlightBytes[ClassKV]+100_000)
	})
	b.run()
	require.Equal(t, units.Bytes(400_000), payload(4, ClassEP))
}

// In steady state nothing allocates, whoever shares with whom.
func TestNoAllocations(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the checks allocate")
	}
	for _, engine := range []string{"flow", "ideal"} {
		c := DefaultConfig()
		c.Engine = engine
		e := sim.New()
		n, err := New(c, e, build(t, cluster(64)), 1)
		require.NoError(t, err)
		x, err := n.NewCollective(allToAll("x", gpuRange(0, 48), 1e6))
		require.NoError(t, err)
		y, err := n.NewCollective(allToAll("y", gpuRange(16, 64), 1e6))
		require.NoError(t, err)
		var s sink
		loads := n.Loads(nil)
		us := same(48, 1)
		round := 0
		step := func() {
			round++
			us[0] = int64(round % 3)
			x.SetUnits(us)
			x.Start(sim.Microsecond, 0, &s)
			y.Start(sim.Microsecond, 0, &s)
			for i := range 40 {
				n.Send(Message{
					Src: topology.GPU(i), Dst: topology.GPU((i * 7) % 64), Bytes: units.Bytes(i) * 10_000, QPs: i % 4,
					Post: sim.Time(i) * sim.Microsecond,
				}, &s)
			}
			e.RunUntil(e.Now() + 10*sim.Microsecond)
			loads = n.Loads(loads[:0])
			e.Run()
		}
		step()
		for range 20 {
			step()
		}
		require.Zero(t, testing.AllocsPerRun(30, step), engine)
	}
}
