package serving

import (
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/collective"
	"github.com/tgssim/tgssim/compute"
	"github.com/tgssim/tgssim/experts"
	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
	"github.com/tgssim/tgssim/workload"
)

// fakeCost is a cost model whose times can be worked out by hand, and that
// depends on everything it is told.
type fakeCost struct {
	dense, moe int

	fixed      sim.Time // attnIn, per query token of a request
	perToken   sim.Time // attnOut, per prompt token or request
	perContext sim.Time // attnOut, per token of context before a chunk
	perKV      sim.Time // attnOut, per KV token that a decode step reads

	shared, sharedPerToken sim.Time
	mlp                    sim.Time
	head, headPerSequence  sim.Time // per chunk or request
	// experts and expertsPerToken (of the group) are multiplied by the imbalance;
	// expertsDecode comes on top in decode.
	experts, expertsPerToken, expertsDecode sim.Time

	kvTokens int64
	kvBytes  units.Bytes
}

func (f fakeCost) times(sequences, tokens int) compute.LayerTimes {
	return compute.LayerTimes{
		AttnIn: f.fixed, AttnOut: f.perToken * sim.Time(tokens),
		Shared: f.shared + f.sharedPerToken*sim.Time(tokens), DenseMLP: f.mlp,
		Head: f.head + f.headPerSequence*sim.Time(sequences),
	}
}

func (f fakeCost) Prefill(chunks []compute.Chunk) compute.LayerTimes {
	tokens, context := 0, 0
	for _, c := range chunks {
		tokens += c.Tokens
		context += c.Context
	}
	t := f.times(len(chunks), tokens)
	t.AttnOut += f.perContext * sim.Time(context)
	return t
}

func (f fakeCost) Decode(requests int, kvTokens int64, queryTokens int) compute.LayerTimes {
	t := f.times(requests, requests)
	t.AttnIn *= sim.Time(queryTokens)
	t.AttnOut += f.perKV * sim.Time(kvTokens)
	return t
}

func (f fakeCost) Experts(prefill bool, groupTokens int64, imbalance float64) sim.Time {
	t := sim.Time(float64(f.experts+f.expertsPerToken*sim.Time(groupTokens)) * imbalance)
	if !prefill {
		t += f.expertsDecode
	}
	return t
}

// ExpertsOf takes expertsPerToken for each row of the GPU.
func (f fakeCost) ExpertsOf(prefill bool, l compute.ExpertLoad) sim.Time {
	rows := int64(0)
	for _, n := range l.Rows {
		rows += n
	}
	if rows == 0 {
		return 0
	}
	t := f.experts + f.expertsPerToken*sim.Time(rows)/compute.Milli
	if !prefill {
		t += f.expertsDecode
	}
	return t
}

// ExpertBytes is a megabyte.
func (f fakeCost) ExpertBytes() units.Bytes { return 1e6 }

func (f fakeCost) DenseLayers() int { return f.dense }
func (f fakeCost) MoELayers() int   { return f.moe }
func (f fakeCost) Memory() compute.Memory {
	return compute.Memory{Capacity: units.Bytes(f.kvTokens) * f.kvBytes, KVPerToken: f.kvBytes}
}

// fakeNetwork takes times that can be worked out by hand and records what it was
// asked. It panics when it is used as no network may be.
type fakeNetwork struct {
	engine  *sim.Engine
	handler sim.HandlerID
	pending []func()
	free    []uint32

	// A KV transfer takes latency, of which queue is reported as queueing, and
	// perByte of the whole message.
	latency, queue, perByte sim.Time
	// A dispatch and a combine take an ideal fabric their own time and perUnit of
	// the busiest rank's units; paths and contention come on top.
	dispatch, combine, perUnit, paths, contention sim.Time

	sent     []fabric.Message
	runs     int // repeated ones included
	repeated int
	specs    []fabric.CollectiveSpec
	units    [][]int64
}

func newFakeNetwork(e *sim.Engine) *fakeNetwork {
	n := &fakeNetwork{engine: e, latency: sim.Millisecond, dispatch: 100 * sim.Microsecond, combine: 100 * sim.Microsecond}
	n.handler = e.Register(n)
	return n
}

func (n *fakeNetwork) Handle(e sim.Event) {
	f := n.pending[e.Arg]
	n.pending[e.Arg] = nil
	n.free = append(n.free, e.Arg)
	f()
}

func (n *fakeNetwork) after(d sim.Time, f func()) {
	if len(n.free) == 0 {
		n.free = append(n.free, uint32(len(n.pending)))
		n.pending = append(n.pending, nil)
	}
	slot := n.free[len(n.free)-1]
	n.free = n.free[:len(n.free)-1]
	n.pending[slot] = f
	n.engine.After(d, n.handler, 0, slot)
}

func (n *fakeNetwork) Send(m fabric.Message, to fabric.Receiver) {
	if len(n.sent) < 100 {
		m.Parts = append([]fabric.Part(nil), m.Parts...)
		n.sent = append(n.sent, m)
	}
	posted, wire := n.engine.Now(), n.latency-n.queue
	for _, p := range m.Parts {
		wire += n.perByte * sim.Time(p.Bytes)
	}
	n.after(m.Post+wire+n.queue, func() {
		to.Delivered(fabric.Delivery{
			Tag: m.Tag, Posted: posted, Arrived: n.engine.Now(), Post: m.Post, Wire: wire, Queue: n.queue,
		})
	})
}

// fakeCollective is one dispatch or combine.
type fakeCollective struct {
	n       *fakeNetwork
	combine bool
	ranks   int
	most    int64 // units of the busiest rank
	running bool
}

func (c *fakeCollective) SetUnits(u []int64) {
	if c.running || len(u) != c.ranks {
		panic("units for another number of ranks, or in the middle of a run")
	}
	c.n.units = append(c.n.units, append([]int64(nil), u...))
	c.most = slices.Max(u)
}

// ideal is what a run takes a fabric without a bottleneck.
func (n *fakeNetwork) ideal(combine bool, most int64) sim.Time {
	if combine {
		return n.combine + n.perUnit*sim.Time(most)
	}
	return n.dispatch + n.perUnit*sim.Time(most)
}

func (c *fakeCollective) Start(startup sim.Time, tag uint64, to fabric.Receiver) {
	if c.running || c.most == 0 {
		panic("a collective is started twice, or with nothing to send")
	}
	c.running = true
	c.n.runs++
	posted, ideal := c.n.engine.Now(), c.n.ideal(c.combine, c.most)
	c.n.after(startup+ideal+c.n.paths+c.n.contention, func() {
		c.running = false
		to.Delivered(fabric.Delivery{
			Tag: tag, Posted: posted, Arrived: c.n.engine.Now(), Post: startup,
			Latency: ideal / 4, Ideal: ideal, Wire: ideal + c.n.paths, Queue: c.n.contention,
		})
	})
}

func (c *fakeCollective) Latency() sim.Time {
	if c.running {
		panic("asked for the latency in the middle of a run")
	}
	return c.n.ideal(c.combine, c.most) / 4
}

// Repeat counts runs that are not simulated.
func (c *fakeCollective) Repeat(times int64, _ sim.Time) {
	if c.running || c.most == 0 || times < 0 {
		panic("a run is repeated before it has ended")
	}
	c.n.runs += int(times)
	c.n.repeated += int(times)
}

func (n *fakeNetwork) NewCollective(s fabric.CollectiveSpec) (fabric.Collective, error) {
	n.specs = append(n.specs, s)
	return &fakeCollective{n: n, ranks: s.Ranks, combine: strings.Contains(s.Name, "combine")}, nil
}
func (n *fakeNetwork) Loads(dst []fabric.LinkLoad) []fabric.LinkLoad { return dst }
func (n *fakeNetwork) Totals() fabric.Totals                         { return fabric.Totals{} }

// list is a Source of given requests.
type list []workload.Request

func (l *list) Next() (workload.Request, bool) {
	if len(*l) == 0 {
		return workload.Request{}, false
	}
	r := (*l)[0]
	*l = (*l)[1:]
	return r, true
}

func requests(at ...workload.Request) *list {
	l := list(at)
	for i := range l {
		l[i].ID = i
	}
	return &l
}

// story is a finished run of a cluster with fakes.
type story struct {
	records   []Record
	transfers []Transfer
	steps     []Step
	gaps      map[sim.Time]int
	extras    map[sim.Time]int // tokens that came along, by instant
	usage     []PoolUsage
	network   *fakeNetwork
	end       sim.Time
	cluster   *Cluster
}

// setup of a story; tests change what they need.
type setup struct {
	config          Config
	prefill, decode fakeCost
	overlap         *fakeCost // of prefill in two batches; nil: as prefill
	experts         collective.Experts
	servers         int
	kvPieces        int
	source          Source
	until           sim.Time
	seed            uint64
	network         fakeNetwork // its times
	// weights are the popularity of experts that both pools' files hold.
	weights *experts.Weights
}

func newSetup(source Source) *setup {
	c := DefaultConfig()
	c.Prefill.HostGap, c.Decode.HostGap = 0, 0
	c.Prefill.Overlap, c.Decode.Overlap = OverlapNone, OverlapNone
	c.KV = KVConfig{BlockTokens: 1, Utilisation: 1, QPs: 1, PostPerMessage: 10 * sim.Microsecond}
	cost := fakeCost{dense: 1, perToken: sim.Microsecond, kvTokens: 1 << 30, kvBytes: 8}
	decode := cost
	decode.perToken, decode.fixed = 0, 10*sim.Millisecond
	return &setup{
		config: c, prefill: cost, decode: decode, servers: 1, kvPieces: 1, source: source, until: sim.Never,
		network: fakeNetwork{
			latency: sim.Millisecond, dispatch: 100 * sim.Microsecond, combine: 100 * sim.Microsecond,
		},
	}
}

// build makes the cluster and its engine.
func (s *setup) build(t require.TestingT, l Listener) (*sim.Engine, *Cluster) {
	e, c, err := s.try(t, l)
	require.NoError(t, err)
	return e, c
}

// try is build of what may be refused.
func (s *setup) try(t require.TestingT, l Listener) (*sim.Engine, *Cluster, error) {
	top := topology.DefaultConfig()
	top.Nodes, top.Leaves, top.Spines = s.servers, s.servers, 8
	if s.servers == 1 {
		top.Spines = 0
	}
	g, err := topology.LeafSpine(top)
	require.NoError(t, err)
	e := sim.New()
	s.network.engine = e
	s.network.handler = e.Register(&s.network)
	overlap := s.overlap
	if overlap == nil {
		overlap = &s.prefill
	}
	c, err := New(Options{
		Config: s.config, Engine: e, Network: &s.network, Graph: g, Source: s.source,
		Prefill: s.prefill, PrefillOverlap: *overlap, Decode: s.decode, Experts: s.experts,
		PrefillWeights: s.weights, DecodeWeights: s.weights,
		Hidden: hidden, KVPieces: s.kvPieces, NVLinkRate: nvlink, Streams: sim.Streams{Seed: s.seed}, Listener: l,
	})
	return e, c, err
}

const (
	// An all-reduce takes 2 us per token for TP2 and 3 us for TP4: 4,000 B, once
	// and one and a half times through a port of 2 GB/s.
	hidden = 2000
	nvlink = 16 * units.Gbps
)

func (s *setup) run(t require.TestingT) *story {
	out := &story{gaps: map[sim.Time]int{}, extras: map[sim.Time]int{}}
	var last sim.Time
	clock := func(at sim.Time) {
		require.GreaterOrEqual(t, at, last, "the clock runs backwards")
		last = at
	}
	e, c := s.build(t, Listener{
		Request: func(r *Record) { out.records = append(out.records, *r) },
		Transfer: func(x *Transfer) {
			clock(x.Arrived)
			out.transfers = append(out.transfers, *x)
		},
		Step: func(x *Step) {
			clock(x.End)
			out.steps = append(out.steps, *x)
		},
		Gap: func(at, gap sim.Time, n, _ int) {
			clock(at)
			require.Positive(t, n)
			out.gaps[gap] += n
		},
		Extra: func(at sim.Time, n, _ int) {
			clock(at)
			require.Positive(t, n)
			out.extras[at] += n
		},
	})
	out.cluster, out.network = c, &s.network
	e.RunUntil(s.until)
	if out.end = e.Now(); e.Pending() > 0 {
		out.end = s.until
	}
	out.usage = c.Finish(out.end)
	out.check(t, s)
	return out
}
