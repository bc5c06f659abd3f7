package fabric

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/routing"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// The reference is the flow engine a second time, as simply as can be: maps,
// float64 bytes per picosecond, and rates found from scratch by raising all
// levels together whenever anything begins or ends. It shares no code with the
// engine but the hash that chooses paths.

// A refTransfer is a message or a run of a collective.
type refTransfer struct {
	begin   sim.Time
	load    map[topology.LinkID]float64 // bytes
	pairs   map[topology.LinkID]int
	latency sim.Time

	rate, left float64 // share of the whole per picosecond; share that is left
	slowed     bool
	done       bool
	through    sim.Time
}

type reference struct {
	c         Config
	g         *topology.Graph
	ecmp      *routing.ECMP
	transfers []*refTransfer
}

// capacity is the payload rate of a link in bytes per picosecond.
func (r *reference) capacity(l topology.LinkID) float64 {
	link := &r.g.Links[l]
	bytes := float64(link.Rate) / 8e12
	if r.g.Nodes[link.From].Kind == topology.KindGPU || r.g.Nodes[link.To].Kind == topology.KindGPU {
		return bytes * math.Round(r.c.NVLinkEfficiency*1e6) / 1e6
	}
	return bytes * float64(r.c.MTU) / float64(r.c.MTU+r.c.Header)
}

func (r *reference) path(src, dst topology.GPU, qp int, class Class) []topology.LinkID {
	key := routing.RoCE(uint32(src), uint32(dst), uint32(2*qp+int(class)))
	return r.ecmp.Path(src, dst, key, nil)
}

func (t *refTransfer) add(path []topology.LinkID, bytes float64) {
	if bytes == 0 {
		return
	}
	for _, l := range path {
		t.load[l] += bytes
		t.pairs[l]++
	}
}

// most is the link that takes longest, most pairs first, and its time.
func (r *reference) most(t *refTransfer) (link topology.LinkID, alone float64) {
	link = topology.NoLink
	for _, l := range sortedLinks(t.load) {
		x := t.load[l] / r.capacity(l)
		if tie := math.Abs(x-alone) <= 1e-9*x; !tie && x > alone || tie && t.pairs[l] > t.pairs[link] {
			link, alone = l, x
		}
	}
	return link, alone
}

func sortedLinks[V any](m map[topology.LinkID]V) []topology.LinkID {
	var ls []topology.LinkID
	for l := range m {
		ls = append(ls, l)
	}
	slices.Sort(ls)
	return ls
}

// fill raises the level of all live transfers until each is held by a full link
// or by its speed alone.
func (r *reference) fill(live []*refTransfer) {
	held := map[*refTransfer]bool{}
	level := map[*refTransfer]float64{}
	weight := map[*refTransfer]map[topology.LinkID]float64{}
	limit := map[*refTransfer]float64{}
	for _, t := range live {
		m, alone := r.most(t)
		weight[t] = map[topology.LinkID]float64{}
		for l, bytes := range t.load {
			weight[t][l] = float64(t.pairs[m]) * bytes / t.load[m]
		}
		limit[t] = t.load[m] / alone / float64(t.pairs[m])
	}
	for len(held) < len(live) {
		used, growing := map[topology.LinkID]float64{}, map[topology.LinkID]float64{}
		for _, t := range live {
			for _, l := range sortedLinks(weight[t]) {
				if held[t] {
					used[l] += level[t] * weight[t][l]
				} else {
					growing[l] += weight[t][l]
				}
			}
		}
		next := math.Inf(1)
		for l, g := range growing {
			next = min(next, (r.capacity(l)-used[l])/g)
		}
		for _, t := range live {
			if !held[t] {
				next = min(next, limit[t])
			}
		}
		for _, t := range live {
			if held[t] {
				continue
			}
			level[t] = next
			hold := limit[t] <= next*(1+1e-12)
			for l := range weight[t] {
				hold = hold || (r.capacity(l)-used[l])/growing[l] <= next*(1+1e-12)
			}
			if hold {
				held[t] = true
			}
		}
	}
	for _, t := range live {
		_, alone := r.most(t)
		t.rate = level[t] / limit[t] / alone
		if level[t] >= limit[t]*(1-1e-12) {
			t.rate = 1 / alone
		}
	}
}

// run finds when each transfer's bytes are through.
func (r *reference) run() {
	for _, t := range r.transfers {
		t.left = 1
		if len(t.load) == 0 {
			t.done, t.through = true, t.begin
		}
	}
	now := sim.Time(0)
	for {
		var live []*refTransfer
		next := sim.Never
		for _, t := range r.transfers {
			switch {
			case t.done:
			case t.begin > now:
				next = min(next, t.begin)
			default:
				live = append(live, t)
			}
		}
		r.fill(live)
		for _, t := range live {
			_, alone := r.most(t)
			t.through = now + sim.Time(math.Ceil(t.left/t.rate-1e-3))
			t.slowed = t.slowed || t.rate < 1/alone
			if !t.slowed {
				t.through = t.begin + sim.Time(math.Ceil(alone-1e-6))
			}
			next = min(next, t.through)
		}
		if next == sim.Never {
			return
		}
		for _, t := range live {
			t.left -= t.rate * float64(next-now)
			t.done = t.through <= next
		}
		now = next
	}
}

// A story is what happens to a network: messages and runs of collectives.
type story struct {
	messages []Message
	begin    []sim.Time // when each message is sent
	specs    []CollectiveSpec
	runs     []storyRun
}

// A storyRun is one run of a collective of its own, so that runs may overlap.
type storyRun struct {
	spec    int
	units   []int64
	at      sim.Time
	startup sim.Time
}

// tell runs the story on the engine and returns the arrival of each message,
// then of each run.
func (s *story) tell(t tester, c Config, g *topology.Graph, opts ...sim.Option) []sim.Time {
	b := newBench(t, c, g, opts...)
	for i, m := range s.messages {
		m.Tag = uint64(i)
		b.at(s.begin[i], func() { b.net.Send(m, b) })
	}
	for i, r := range s.runs {
		coll, err := b.net.NewCollective(s.specs[r.spec])
		require.NoError(t, err)
		coll.SetUnits(r.units)
		b.at(r.at, func() { coll.Start(r.startup, uint64(len(s.messages)+i), b) })
	}
	b.run()
	return b.arrivals(len(s.messages) + len(s.runs))
}

// imagine runs the story on the reference.
func (s *story) imagine(c Config, g *topology.Graph) []sim.Time {
	r := &reference{c: c, g: g, ecmp: routing.NewECMP(g, c.ECMPSeed)}
	exact := func(bytes float64) units.Bytes { return units.Bytes(math.Round(bytes * 1000)) }
	latency := func(path []topology.LinkID, milli units.Bytes) sim.Time {
		t := g.PathLatency(path)
		if len(path) == 0 || g.Nodes[g.Links[path[0]].From].Kind == topology.KindGPU {
			return t
		}
		var sum, longest sim.Time
		for _, l := range path {
			p := g.Links[l].Rate.TimeScaled(min(milli, 1000*c.MTU), int64(c.MTU+c.Header), 1000*int64(c.MTU))
			sum, longest = sum+p, max(longest, p)
		}
		return t + sum - longest
	}
	for i, m := range s.messages {
		t := &refTransfer{begin: s.begin[i] + m.Post, load: map[topology.LinkID]float64{}, pairs: map[topology.LinkID]int{}}
		qps := max(1, m.QPs)
		if g.ServerOf(m.Src) == g.ServerOf(m.Dst) {
			qps = 1
		}
		for qp := range qps {
			part := m.Bytes / units.Bytes(qps)
			if units.Bytes(qp) < m.Bytes%units.Bytes(qps) {
				part++
			}
			if part == 0 && qp > 0 {
				continue
			}
			path := r.path(m.Src, m.Dst, qp, m.Class)
			t.add(path, float64(part))
			t.latency = max(t.latency, latency(path, 1000*part))
		}
		r.transfers = append(r.transfers, t)
	}
	for _, run := range s.runs {
		t := &refTransfer{begin: run.at + run.startup, load: map[topology.LinkID]float64{}, pairs: map[topology.LinkID]int{}}
		spec := s.specs[run.spec]
		type pair struct {
			src, dst topology.GPU
			qp       int
		}
		bytes := map[pair]float64{}
		for _, sh := range perQueuePair(g, spec) {
			bytes[pair{sh.Src, sh.Dst, sh.qp}] += float64(sh.Milli*run.units[sh.Rank]) / 1000
		}
		for p, payload := range bytes {
			path := r.path(p.src, p.dst, p.qp, spec.Class)
			t.add(path, payload)
			t.latency = max(t.latency, latency(path, exact(payload)))
		}
		r.transfers = append(r.transfers, t)
	}
	r.run()
	var at []sim.Time
	for _, t := range r.transfers {
		at = append(at, t.through+t.latency)
	}
	return at
}

// drawStory is random traffic that overlaps: instants from a few, so that many
// coincide, sizes over four decades, one- and many-path messages, collectives of
// all and of some GPUs.
func drawStory(t *rapid.T, g *topology.Graph) *story {
	s := &story{}
	gpu := rapid.IntRange(0, g.GPUs()-1)
	instant := rapid.Custom(func(t *rapid.T) sim.Time {
		return sim.Time(rapid.IntRange(0, 8).Draw(t, "instant")) * 25 * sim.Microsecond
	})
	size := rapid.OneOf(rapid.Int64Range(0, 1e4), rapid.Int64Range(1e5, 1e8))
	for range rapid.IntRange(0, 25).Draw(t, "messages") {
		s.messages = append(s.messages, Message{
			Src: topology.GPU(gpu.Draw(t, "src")), Dst: topology.GPU(gpu.Draw(t, "dst")),
			Bytes: units.Bytes(size.Draw(t, "bytes")), Class: Class(rapid.IntRange(0, 1).Draw(t, "class")),
			QPs:  rapid.SampledFrom([]int{0, 1, 1, 2, 4}).Draw(t, "qps"),
			Post: sim.Time(rapid.SampledFrom([]int{0, 0, 25_000_000}).Draw(t, "post")),
		})
		s.begin = append(s.begin, instant.Draw(t, "at"))
	}
	for range rapid.IntRange(0, 3).Draw(t, "specs") {
		if rapid.Bool().Draw(t, "all-to-all") {
			lo := gpu.Draw(t, "lo")
			hi := rapid.IntRange(lo, g.GPUs()).Draw(t, "hi")
			s.specs = append(s.specs, allToAll("all-to-all", gpuRange(lo, hi), rapid.Int64Range(1, 1e8).Draw(t, "milli")))
		} else {
			s.specs = append(s.specs, drawSpec(t, g))
		}
	}
	if len(s.specs) == 0 {
		return s
	}
	for range rapid.IntRange(0, 6).Draw(t, "runs") {
		r := storyRun{
			spec: rapid.IntRange(0, len(s.specs)-1).Draw(t, "spec"),
			at:   instant.Draw(t, "at"), startup: sim.Time(rapid.SampledFrom([]int{0, 25_000_000}).Draw(t, "startup")),
		}
		ranks := s.specs[r.spec].Ranks
		r.units = rapid.SliceOfN(rapid.Int64Range(0, 20), ranks, ranks).Draw(t, "units")
		s.runs = append(s.runs, r)
	}
	return s
}

// The engine and the reference agree to 1e-9 on every arrival. Instants are
// whole picoseconds in both; 10 of them are allowed for, because one that is
// rounded the other way moves the next.
func TestAgainstReference(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := drawConfig(rt, "flow")
		g, err := topology.LeafSpine(drawTopology(rt))
		require.NoError(rt, err)
		s := drawStory(rt, g)
		got, want := s.tell(rt, c, g), s.imagine(c, g)
		require.Len(rt, got, len(want))
		for i := range want {
			require.InDelta(rt, float64(want[i]), float64(got[i]), 10+1e-9*float64(want[i]), "transfer %d", i)
		}
	})
}

// When things happen at one instant, their order does not change any arrival:
// neither the order of events nor that in which transfers are made.
func TestOrderOfEqualsDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := drawConfig(rt, "flow")
		g, err := topology.LeafSpine(drawTopology(rt))
		require.NoError(rt, err)
		s := drawStory(rt, g)
		want := s.tell(rt, c, g)
		for seed := range uint64(3) {
			require.Equal(rt, want, s.tell(rt, c, g, sim.ShuffleTies(seed)))
		}
		order := rapid.Permutation(indices(len(s.messages))).Draw(rt, "order")
		shuffled := &story{specs: s.specs, runs: s.runs}
		for _, i := range order {
			shuffled.messages = append(shuffled.messages, s.messages[i])
			shuffled.begin = append(shuffled.begin, s.begin[i])
		}
		got := shuffled.tell(rt, c, g)
		for at, i := range order {
			require.Equal(rt, want[i], got[at])
		}
		require.Equal(rt, want[len(order):], got[len(order):])
	})
}

func indices(n int) []int {
	x := make([]int, n)
	for i := range x {
		x[i] = i
	}
	return x
}
