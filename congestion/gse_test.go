package congestion

import (
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// A gseNet is leaves with a scheduled fabric between them: at every source a DGSQ
// per destination port, uplinks to spray over, one link from each spine to each
// egress leaf, a sequencer per source and a link to the destination. It is what an
// engine has to do, without the engine.
type gseNet struct {
	t       require.TestingT
	loop    *toy
	g       *GSE
	sources []*gseSource
	egress  []*gseEgress
	spines  [][]*pipe // by spine and egress
	delay   sim.Time  // of every link
	control sim.Time  // of a request or grant
	done    units.Bytes
	dropped units.Bytes
	last    sim.Time
	keys    []int
}

type gseSource struct {
	dgsqs   *DGSQs
	uplinks *Uplinks
	links   []*pipe
	queues  [][]gsePacket // by destination
	seq     []int
	ids     []SourceID // by destination: its source of credit; -1 when closed
	lives   []int      // by destination: how often its queue was made
	dead    []bool     // uplinks that lose what they are given
	known   [][]bool   // by destination: uplinks to avoid
}

type gsePacket struct {
	seq, src int
	size     units.Bytes
	tag      GSETag
}

type gseEgress struct {
	sched    *CreditScheduler
	seqs     []*Sequencer
	lists    [][][]gsePacket // by source and slot
	timers   []bool
	down     *pipe
	granting bool
	owner    map[SourceID]int // source, by source of credit
	next     []int            // by source: what came last plus one
	ordered  bool
	heldMost units.Bytes
	arrived  []units.Bytes // by source
}

const gseRTT = 8200 * sim.Nanosecond

func newGSENet(t require.TestingT, c GSEConfig, sources, egresses, uplinks int) *gseNet {
	g, err := NewGSE(c, creditLine, gseRTT)
	require.NoError(t, err)
	n := &gseNet{t: t, loop: &toy{}, g: g, delay: sim.Microsecond, control: 4 * sim.Microsecond}
	for range sources {
		s := &gseSource{
			dgsqs: g.NewDGSQs(egresses), uplinks: g.NewUplinks(uplinks),
			queues: make([][]gsePacket, egresses), seq: make([]int, egresses), ids: make([]SourceID, egresses), lives: make([]int, egresses),
			dead: make([]bool, uplinks), known: make([][]bool, egresses),
		}
		for u := range uplinks {
			s.links = append(s.links, &pipe{loop: n.loop, rate: creditLine, delay: n.delay + sim.Time(u)*100*sim.Nanosecond})
		}
		for d := range egresses {
			s.ids[d] = noSource
			s.known[d] = make([]bool, uplinks)
		}
		n.sources = append(n.sources, s)
	}
	for u := range uplinks {
		n.spines = append(n.spines, nil)
		for range egresses {
			n.spines[u] = append(n.spines[u], &pipe{loop: n.loop, rate: creditLine, delay: n.delay})
		}
	}
	for range egresses {
		sched, err := NewCreditScheduler(c.Credit, creditLine, gseRTT, toyPacket)
		require.NoError(t, err)
		e := &gseEgress{
			sched: sched, down: &pipe{loop: n.loop, rate: creditLine, delay: n.delay}, owner: map[SourceID]int{},
			next: make([]int, sources), timers: make([]bool, sources), ordered: true, arrived: make([]units.Bytes, sources),
		}
		for range sources {
			q := g.NewSequencer()
			e.seqs = append(e.seqs, q)
			e.lists = append(e.lists, make([][]gsePacket, len(q.slots)))
		}
		n.egress = append(n.egress, e)
	}
	return n
}

// enqueue gives a source packets for a destination.
func (n *gseNet) enqueue(now sim.Time, src, dst int, bytes units.Bytes) {
	s := n.sources[src]
	_, q := s.dgsqs.Get(dst, now)
	if s.ids[dst] == noSource {
		s.ids[dst] = n.egress[dst].sched.Open(1)
		s.lives[dst]++
		n.egress[dst].owner[s.ids[dst]] = src
	}
	for bytes > 0 {
		size := min(toyPacket, bytes)
		bytes -= size
		s.queues[dst] = append(s.queues[dst], gsePacket{seq: s.seq[dst], src: src, size: size})
		s.seq[dst]++
		n.g.Enqueue(q, now, size)
	}
	n.ask(now, src, dst)
	n.pump(now, src, dst)
}

func (n *gseNet) ask(now sim.Time, src, dst int) {
	s := n.sources[src]
	_, q := s.dgsqs.Get(dst, now)
	if total, ok := n.g.Ask(q); ok {
		id := s.ids[dst]
		n.loop.at(now+n.control, func(now sim.Time) {
			n.egress[dst].sched.OnRequest(id, now, total)
			n.grant(now, dst)
		})
	}
}

func (n *gseNet) pump(now sim.Time, src, dst int) {
	s := n.sources[src]
	_, q := s.dgsqs.Get(dst, now)
	for len(s.queues[dst]) > 0 {
		p := s.queues[dst][0]
		var view UplinkView
		for _, l := range s.links {
			view.Queues = append(view.Queues, l.queued)
		}
		view.Group = s.uplinks.Group(s.known[dst])
		tag, _, ok := n.g.Send(q, now, p.size, s.uplinks, view)
		if !ok {
			return
		}
		s.queues[dst] = s.queues[dst][1:]
		p.tag = tag
		id := s.ids[dst]
		s.links[tag.Path].put(now, p.size, func(now sim.Time, _ INTHop) {
			if s.dead[tag.Path] {
				n.dropped += p.size
				return
			}
			n.spines[tag.Path][dst].put(now, p.size, func(now sim.Time, _ INTHop) { n.arrive(now, dst, id, p) })
		})
	}
}

// arrive is a packet at the egress leaf.
func (n *gseNet) arrive(now sim.Time, dst int, id SourceID, p gsePacket) {
	e := n.egress[dst]
	q := e.seqs[p.src]
	e.sched.OnPush(p.size - units.Bytes(p.tag.Scheduled))
	n.grant(now, dst)
	v := q.Arrive(p.tag, p.size, now)
	for ; v == Full; v = q.Arrive(p.tag, p.size, now) {
		n.skip(now, dst, p.src)
	}
	if v == Hold {
		slot := q.Slot(p.tag.Container)
		e.lists[p.src][slot] = append(e.lists[p.src][slot], p)
	} else {
		n.deliver(now, dst, p)
	}
	n.release(now, dst, p.src)
	var held units.Bytes
	for _, q := range e.seqs {
		held += q.Held()
	}
	e.heldMost = max(e.heldMost, held)
	_ = id
}

func (n *gseNet) release(now sim.Time, dst, src int) {
	e := n.egress[dst]
	for {
		slot, ok := e.seqs[src].Release(now)
		if !ok {
			break
		}
		n.empty(now, dst, src, slot)
	}
	if at := e.seqs[src].Deadline(); at != sim.Never && !e.timers[src] {
		e.timers[src] = true
		n.loop.at(at, func(now sim.Time) {
			e.timers[src] = false
			if e.seqs[src].Deadline() <= now {
				n.skip(now, dst, src)
			}
			n.release(now, dst, src)
		})
	}
}

func (n *gseNet) skip(now sim.Time, dst, src int) {
	n.empty(now, dst, src, n.egress[dst].seqs[src].Skip(now))
	for {
		slot, ok := n.egress[dst].seqs[src].Release(now)
		if !ok {
			return
		}
		n.empty(now, dst, src, slot)
	}
}

func (n *gseNet) empty(now sim.Time, dst, src, slot int) {
	e := n.egress[dst]
	list := e.lists[src][slot]
	e.lists[src][slot] = nil
	for _, p := range list {
		n.deliver(now, dst, p)
	}
}

// deliver puts a packet, in order, into the queue of the egress port.
func (n *gseNet) deliver(now sim.Time, dst int, p gsePacket) {
	e := n.egress[dst]
	e.ordered = e.ordered && p.seq >= e.next[p.src]
	e.next[p.src] = p.seq + 1
	e.down.put(now, p.size, func(now sim.Time, _ INTHop) {
		n.done += p.size
		n.last = now
		e.arrived[p.src] += p.size
		scheduled := units.Bytes(p.tag.Scheduled)
		e.sched.OnPushGone(p.size - scheduled)
		if id := n.sources[p.src].ids[dst]; id != noSource {
			e.sched.OnArrive(id, now, scheduled)
		}
		n.grant(now, dst)
	})
}

func (n *gseNet) grant(now sim.Time, dst int) {
	e := n.egress[dst]
	if e.granting || e.sched.Next(now) == sim.Never {
		return
	}
	e.granting = true
	n.loop.at(e.sched.Next(now), func(now sim.Time) {
		e.granting = false
		if id, total, ok := e.sched.Grant(now); ok {
			src := e.owner[id]
			life := n.sources[src].lives[dst]
			n.loop.at(now+n.control, func(now sim.Time) {
				s := n.sources[src]
				if s.ids[dst] != id || s.lives[dst] != life {
					return // its queue is gone
				}
				_, q := s.dgsqs.Get(dst, now)
				q.OnCredit(total)
				if b := q.Return(); b > 0 {
					n.loop.at(now+n.control, func(now sim.Time) {
						e.sched.OnArrive(id, now, b)
						n.grant(now, dst)
					})
				}
				n.ask(now, src, dst)
				n.pump(now, src, dst)
			})
		}
		n.grant(now, dst)
	})
}

// vanish takes away what a source still has for a destination.
func (n *gseNet) vanish(now sim.Time, src, dst int) (gone units.Bytes) {
	s := n.sources[src]
	_, q := s.dgsqs.Get(dst, now)
	gone = q.Backlog()
	s.queues[dst] = nil
	id := s.ids[dst]
	e := n.egress[dst]
	total, tell := q.Cancel(gone)
	back := q.Return()
	n.loop.at(now+n.control, func(now sim.Time) {
		if tell {
			e.sched.OnRequest(id, now, total)
		}
		e.sched.OnArrive(id, now, back)
		n.grant(now, dst)
	})
	return gone
}

// sweep looks after idle queues and lost credit.
func (n *gseNet) sweep(now sim.Time) {
	for _, s := range n.sources {
		n.keys = s.dgsqs.Sweep(now, s.uplinks, n.keys[:0])
		for _, dst := range n.keys {
			n.egress[dst].sched.Close(s.ids[dst])
			s.ids[dst] = noSource
		}
	}
	for dst, e := range n.egress {
		e.sched.Expire(now)
		n.grant(now, dst)
	}
}

func (n *gseNet) sweepUntil(end sim.Time) {
	for at := sim.Time(0); at <= end; at += 50 * sim.Microsecond {
		n.loop.at(at, n.sweep)
	}
}

// settled requires that nothing is left anywhere.
func (n *gseNet) settled() {
	for _, s := range n.sources {
		require.Zero(n.t, s.dgsqs.Live())
		for _, q := range s.queues {
			require.Empty(n.t, q)
		}
	}
	for _, e := range n.egress {
		require.Zero(n.t, e.sched.Outstanding())
		e.sched.check()
		for src, q := range e.seqs {
			require.Zero(n.t, q.Held())
			require.Equal(n.t, sim.Never, q.Deadline())
			for _, list := range e.lists[src] {
				require.Empty(n.t, list)
			}
		}
	}
}

// Incast, with containers over four uplinks of different lengths: the egress is
// busy from the first byte to the last; its queue and its reordering hold what
// credits let be outstanding and what was pushed; shares are equal; order is
// restored; uplinks are even.
func TestGSEIncast(t *testing.T) {
	const sources, size = 32, 512 * units.KiB
	for _, preset := range GSEPresets() {
		for _, spray := range []string{SprayLeastSent, SprayRoundRobin, SprayLeastQueue} {
			var c GSEConfig
			require.NoError(t, c.SetPreset(preset))
			c.Spray = spray
			n := newGSENet(t, c, sources, 1, 4)
			for src := range sources {
				n.loop.at(0, func(now sim.Time) { n.enqueue(now, src, 0, size) })
			}
			work := creditLine.Time(sources * size)
			e := n.egress[0]
			n.loop.at(work/2, func(sim.Time) {
				low, high := units.Bytes(1<<60), units.Bytes(0)
				for _, b := range e.arrived {
					low, high = min(low, b), max(high, b)
				}
				// While all push, queues decide; what is granted is equal.
				if preset == "pull" {
					require.LessOrEqual(t, high-low, 2*c.Credit.Quantum)
				}
			})
			n.sweepUntil(2 * sim.Millisecond)
			n.loop.run(t, sim.Second, 3_000_000)
			require.Equal(t, sources*size, n.done)
			n.settled()
			require.True(t, e.ordered)
			pushed := sources * c.Credit.PushBytes(creditLine, gseRTT)
			t.Logf("%s, %s: last byte at %v (%v at line rate), queue %v, reordering %v", preset, spray, n.last, work, e.down.most, e.heldMost)
			bound := e.sched.most + pushed + sources*toyPacket // debts
			require.LessOrEqual(t, e.down.most, bound)
			require.LessOrEqual(t, e.heldMost, bound)
			trips := n.delay*3 + 2*n.control + sim.Microsecond
			require.Less(t, n.last, work+work/100+trips)
			for _, s := range n.sources {
				low, high := units.Bytes(1<<60), units.Bytes(0)
				for _, l := range s.links {
					low, high = min(low, l.sent), max(high, l.sent)
				}
				require.LessOrEqual(t, high-low, c.ContainerBytes, "uplinks of a source are a container apart at most")
			}
		}
	}
}

// All-to-all: every egress and every uplink is busy to the end, or nearly.
func TestGSEAllToAll(t *testing.T) {
	const leaves, size = 8, 512 * units.KiB
	n := newGSENet(t, DefaultGSE(), leaves, leaves, 2)
	for src := range leaves {
		for k := range leaves {
			n.loop.at(0, func(now sim.Time) { n.enqueue(now, src, (src+k)%leaves, size) })
		}
	}
	n.sweepUntil(2 * sim.Millisecond)
	n.loop.run(t, sim.Second, 3_000_000)
	require.Equal(t, leaves*leaves*size, n.done)
	n.settled()
	bound := creditLine.Time(leaves*size) + 3*n.delay
	t.Logf("last byte at %v, bound %v, most queues of a leaf %d", n.last, bound, n.sources[0].dgsqs.Peak())
	require.Less(t, float64(n.last), 1.1*float64(bound))
	for _, e := range n.egress {
		require.True(t, e.ordered)
	}
}

// Messages of any size at any time, sources that vanish, uplinks that fail, lose
// what they carry, are found out and come back: what was neither taken away nor
// lost arrives, queues are destroyed, no credit stays out, nothing is held. Without
// losses it all arrives in order.
func TestGSESurvives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := DefaultGSE()
		c.Credit.Push = rapid.SampledFrom([]float64{0, 0.02, 1}).Draw(t, "push")
		c.Credit.Timeout = 200 * sim.Microsecond
		c.Credit.Outstanding = rapid.SampledFrom([]float64{0.1, 1, 2}).Draw(t, "outstanding")
		c.ContainerBytes = units.Bytes(rapid.IntRange(4160, 30_000).Draw(t, "container"))
		c.Spray = rapid.SampledFrom([]string{SprayLeastSent, SprayRoundRobin, SprayLeastQueue}).Draw(t, "spray")
		uplinks := rapid.IntRange(2, 4).Draw(t, "uplinks")
		n := newGSENet(t, c, rapid.IntRange(1, 4).Draw(t, "sources"), rapid.IntRange(1, 3).Draw(t, "egresses"), uplinks)
		var want units.Bytes
		when := func(name string) sim.Time {
			return sim.Time(rapid.Int64Range(0, int64(600*sim.Microsecond)).Draw(t, name))
		}
		for src := range n.sources {
			for dst := range n.egress {
				for range rapid.IntRange(0, 3).Draw(t, "messages") {
					size := units.Bytes(rapid.IntRange(1, 200_000).Draw(t, "size"))
					want += size
					n.loop.at(when("at"), func(now sim.Time) { n.enqueue(now, src, dst, size) })
				}
				if rapid.IntRange(0, 3).Draw(t, "vanishes") == 0 {
					n.loop.at(when("end"), func(now sim.Time) {
						if n.sources[src].ids[dst] != noSource {
							want -= n.vanish(now, src, dst)
						}
					})
				}
			}
		}
		faulty := rapid.Bool().Draw(t, "faulty")
		if faulty {
			s, u := n.sources[0], rapid.IntRange(0, uplinks-1).Draw(t, "uplink")
			at := when("fault")
			n.loop.at(at, func(sim.Time) { s.dead[u] = true })
			n.loop.at(at+20*sim.Microsecond, func(sim.Time) {
				if n.known(u) {
					s.uplinks.SetDown(u, true)
				} else {
					s.known[0][u] = true
				}
			})
			n.loop.at(at+200*sim.Microsecond, func(sim.Time) {
				s.dead[u] = false
				s.uplinks.SetDown(u, false)
				s.known[0][u] = false
			})
		}
		n.sweepUntil(3 * sim.Millisecond)
		n.loop.run(t, sim.Second, 300_000)
		require.Equal(t, want, n.done+n.dropped)
		n.settled()
		for _, e := range n.egress {
			if n.dropped == 0 {
				require.True(t, e.ordered)
				for _, q := range e.seqs {
					require.Zero(t, q.Skipped+q.Late+q.Lost)
				}
			}
		}
	})
}

// known says whether the failure of an uplink is one of the source's own, or of
// what lies behind it for one destination.
func (n *gseNet) known(u int) bool { return u%2 == 0 || len(n.egress) > 1 }

// A queue that is made anew goes on with the numbers of the old one.
func TestDGSQsComeAndGo(t *testing.T) {
	g, err := NewGSE(DefaultGSE(), creditLine, gseRTT)
	require.NoError(t, err)
	table, u := g.NewDGSQs(100), g.NewUplinks(4)
	_, q := table.Get(42, 0)
	g.Enqueue(q, 0, 3*toyPacket)
	for i := range 2 {
		tag, _, ok := g.Send(q, 0, toyPacket, u, UplinkView{})
		require.True(t, ok)
		require.Equal(t, GSETag{Index: uint16(i)}, tag)
	}
	require.Empty(t, table.Sweep(sim.Second, u, nil), "it has a packet left")
	_, again := table.Get(42, 0)
	require.Equal(t, q, again)
	g.Send(q, sim.Microsecond, toyPacket, u, UplinkView{})
	require.Empty(t, table.Sweep(sim.Microsecond+g.idle-1, u, nil))
	require.Equal(t, 1, table.Live())
	require.Equal(t, []int{42}, table.Sweep(sim.Microsecond+g.idle, u, nil))
	require.Zero(t, table.Live())
	// The container that was open has given its reservation back.
	require.Equal(t, units.Bytes(3*toyPacket), u.groups[0].assigned[0])
	table.Get(7, sim.Second)
	_, q = table.Get(42, sim.Second)
	require.Equal(t, 2, table.Live())
	require.Equal(t, 2, table.Peak())
	g.Enqueue(q, sim.Second, toyPacket)
	tag, _, ok := g.Send(q, sim.Second, toyPacket, u, UplinkView{})
	require.True(t, ok)
	require.Equal(t, GSETag{Container: 1, Prev: 3, Path: 1}, tag)
}

// However containers come and go, and whatever they hold, the uplinks of a source
// that has one open at a time are never more than a container apart.
func TestUplinksStayEven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, err := NewGSE(DefaultGSE(), creditLine, gseRTT)
		require.NoError(t, err)
		n := rapid.IntRange(1, 16).Draw(t, "uplinks")
		u, full := g.NewUplinks(n), rapid.Bool().Draw(t, "full")
		sent := make([]units.Bytes, n)
		for range 200 {
			i, ok := u.Open(UplinkView{})
			require.True(t, ok)
			used := g.container
			if !full {
				used = units.Bytes(rapid.IntRange(1, int(g.container)).Draw(t, "used"))
				u.Close(i, 0, 0, used)
			}
			sent[i] += used
			low, high := sent[0], sent[0]
			for k, b := range sent {
				low, high = min(low, b), max(high, b)
				require.Equal(t, b, u.groups[0].assigned[k])
			}
			require.LessOrEqual(t, high-low, g.container)
		}
	})
}

// However the containers of a source go to leaves, its uplinks are never more than a
// container apart, and those of one leaf's traffic hardly more; without Weigh it is
// many times as much.
func TestUplinksAreWeighed(t *testing.T) {
	g, err := NewGSE(DefaultGSE(), creditLine, gseRTT)
	require.NoError(t, err)
	const uplinks, leaves = 8, 16
	run := func(weigh bool) (apart units.Bytes) {
		u := g.NewUplinks(uplinks)
		if weigh {
			u.Weigh(leaves, toyPacket)
		}
		full := u.container
		toward := make([]units.Bytes, uplinks*leaves)
		for k := range uint64(20_000) {
			leaf := int(Uniform(5, k)) * leaves >> 32
			i, ok := u.Open(UplinkView{Leaf: leaf})
			require.True(t, ok)
			u.Close(i, 0, leaf, full)
			toward[leaf*uplinks+i] += full
			require.LessOrEqual(t, slices.Max(u.groups[0].assigned)-slices.Min(u.groups[0].assigned), full)
			each := toward[leaf*uplinks : (leaf+1)*uplinks]
			apart = max(apart, (slices.Max(each)-slices.Min(each))/full)
		}
		if weigh {
			require.Equal(t, toward, u.groups[0].toward)
			require.EqualValues(t, 8*(uplinks+uplinks*leaves), u.Bytes())
		}
		return apart
	}
	require.LessOrEqual(t, run(true), units.Bytes(4))
	require.Greater(t, run(false), units.Bytes(20))
}

// An uplink that leads somewhere again is given its share, not what it has missed.
// Destinations that it does not lead to do not count for those that it does.
func TestUplinksRejoin(t *testing.T) {
	g, err := NewGSE(DefaultGSE(), creditLine, gseRTT)
	require.NoError(t, err)
	u := g.NewUplinks(4)
	u.Weigh(2, toyPacket)
	open := func(v UplinkView) (taken [4]int) {
		for range 120 {
			i, ok := u.Open(v)
			require.True(t, ok)
			u.Close(i, v.Group, v.Leaf, u.container)
			taken[i]++
		}
		return taken
	}
	all := UplinkView{Leaf: 1, Group: u.Group([]bool{false, false, false, false})}
	three := UplinkView{Leaf: 1, Group: u.Group([]bool{false, true, false, false})}
	require.Equal(t, three.Group, u.Group([]bool{false, true, false, false}))
	even := [4]int{30, 30, 30, 30}
	require.Equal(t, even, open(all))
	require.Equal(t, [4]int{40, 0, 40, 40}, open(three))
	require.Equal(t, even, open(all), "not what the others had no use for")
	u.SetDown(2, true)
	require.Equal(t, [4]int{60, 0, 0, 60}, open(three))
	require.Equal(t, [4]int{40, 40, 0, 40}, open(all))
	u.SetDown(2, false)
	require.Equal(t, even, open(all))
	require.Equal(t, [4]int{40, 0, 40, 40}, open(three))
	require.EqualValues(t, 2*8*4*(1+2), u.Bytes(), "two groups, two leaves")
}

// A container belongs to the group that it was opened for: it gives what it has not
// used back there, also when its queue has come to another one since, as destinations
// do that an uplink does not lead to any more. That uplink it leaves.
func TestContainersOfGroups(t *testing.T) {
	g, err := NewGSE(DefaultGSE(), creditLine, gseRTT)
	require.NoError(t, err)
	u := g.NewUplinks(2)
	second := u.Group([]bool{true, false})
	var q DGSQ
	g.Start(&q, DGSQCursor{})
	g.Enqueue(&q, 0, 3*toyPacket)
	send := func(group int) (path uint16) {
		tag, _, ok := g.Send(&q, 0, toyPacket, u, UplinkView{Group: group})
		require.True(t, ok)
		return tag.Path
	}
	require.EqualValues(t, 0, send(0))
	require.EqualValues(t, 1, send(second), "the open container's uplink does not lead there")
	require.Equal(t, []units.Bytes{toyPacket, 0}, u.groups[0].assigned)
	require.EqualValues(t, 1, send(0), "the uplink leads there as well")
	g.close(&q, u)
	require.Equal(t, []units.Bytes{toyPacket, 0}, u.groups[0].assigned)
	require.Equal(t, []units.Bytes{0, 2 * toyPacket}, u.groups[second].assigned)
}

func TestGSEState(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(DGSQ{}), uintptr(80))
	require.Equal(t, uintptr(16), unsafe.Sizeof(seqSlot{}))
	require.LessOrEqual(t, unsafe.Sizeof(Sequencer{}), uintptr(112))
	require.Equal(t, uintptr(16), unsafe.Sizeof(seqPath{}))
	require.Equal(t, uintptr(8), unsafe.Sizeof(DGSQCursor{}))
	s := newGSEBench(t)
	require.Zero(t, testing.AllocsPerRun(1000, func() { s.packet(t) }))
}

// A gseBench is one queue that is credited for ever, and its sequencer.
type gseBench struct {
	g   *GSE
	q   DGSQ
	u   *Uplinks
	s   *Sequencer
	now sim.Time
}

func newGSEBench(t require.TestingT) *gseBench {
	c := DefaultGSE()
	c.Credit.Push = 0
	g, err := NewGSE(c, creditLine, gseRTT)
	require.NoError(t, err)
	s := &gseBench{g: g, u: g.NewUplinks(8), s: g.NewSequencer()}
	g.Start(&s.q, DGSQCursor{})
	s.q.OnCredit(1 << 60)
	return s
}

func (s *gseBench) packet(t require.TestingT) {
	s.now += 83 * sim.Nanosecond
	s.g.Enqueue(&s.q, s.now, toyPacket)
	tag, _, ok := s.g.Send(&s.q, s.now, toyPacket, s.u, UplinkView{})
	if !ok {
		t.FailNow()
	}
	s.s.Arrive(tag, toyPacket, s.now)
	for ok {
		_, ok = s.s.Release(s.now)
	}
}

func BenchmarkGSE(b *testing.B) {
	s := newGSEBench(b)
	b.ReportAllocs()
	for b.Loop() {
		s.packet(b)
	}
	b.ReportMetric(float64(unsafe.Sizeof(DGSQ{})), "B/queue")
	b.ReportMetric(float64(unsafe.Sizeof(Sequencer{}))+float64(len(s.s.slots))*float64(unsafe.Sizeof(seqSlot{})), "B/sequencer")
}
