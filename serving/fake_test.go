package serving

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/collective"
	"github.com/tgssim/tgssim/compute"
	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
	"github.com/tgssim/tgssim/workload"
)

// fakeCost is a cost model whose times can be worked out by hand.
type fakeCost struct {
	dense, moe int
	perToken   sim.Time // attnOut per prompt token or request
	fixed      sim.Time // attnIn
	shared     sim.Time
	experts    sim.Time
	mlp, head  sim.Time
	kvTokens   int64
	kvBytes    units.Bytes
}

func (f fakeCost) times(n int) compute.LayerTimes {
	return compute.LayerTimes{
		AttnIn: f.fixed, AttnOut: f.perToken * sim.Time(n), Shared: f.shared, DenseMLP: f.mlp, Head: f.head,
	}
}

func (f fakeCost) Prefill(chunks []compute.Chunk) compute.LayerTimes {
	n := 0
	for _, c := range chunks {
		n += c.Tokens
	}
	return f.times(n)
}

func (f fakeCost) Decode(requests int, _ int64, _ int) compute.LayerTimes { return f.times(requests) }
func (f fakeCost) Experts(bool, int64, float64) sim.Time                  { return f.experts }
func (f fakeCost) DenseLayers() int                                       { return f.dense }
func (f fakeCost) MoELayers() int                                         { return f.moe }
func (f fakeCost) Memory() compute.Memory {
	return compute.Memory{Capacity: units.Bytes(f.kvTokens) * f.kvBytes, KVPerToken: f.kvBytes}
}

// fakeNetwork takes a fixed time for everything and records what it was asked.
type fakeNetwork struct {
	engine   *sim.Engine
	handler  sim.HandlerID
	latency  sim.Time
	queue    sim.Time // reported as queueing, part of latency
	dispatch sim.Time
	pending  []func()
	free     []uint32
	sent     []fabric.Message
	runs     int
	units    [][]int64
}

func newFakeNetwork(e *sim.Engine) *fakeNetwork {
	n := &fakeNetwork{engine: e, latency: sim.Millisecond, dispatch: 100 * sim.Microsecond}
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
	posted := n.engine.Now()
	n.after(m.Post+n.latency, func() {
		to.Delivered(fabric.Delivery{
			Tag: m.Tag, Posted: posted, Arrived: n.engine.Now(),
			Post: m.Post, Wire: n.latency - n.queue, Queue: n.queue,
		})
	})
}

type fakeCollective struct{ n *fakeNetwork }

func (c fakeCollective) SetUnits(u []int64) {
	c.n.units = append(c.n.units, append([]int64(nil), u...))
}
func (c fakeCollective) Start(startup sim.Time, tag uint64, to fabric.Receiver) {
	c.n.runs++
	posted := c.n.engine.Now()
	c.n.after(startup+c.n.dispatch, func() {
		to.Delivered(fabric.Delivery{Tag: tag, Posted: posted, Arrived: c.n.engine.Now(), Post: startup, Wire: c.n.dispatch})
	})
}

func (n *fakeNetwork) NewCollective(fabric.CollectiveSpec) (fabric.Collective, error) {
	return fakeCollective{n}, nil
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
	usage     []PoolUsage
	network   *fakeNetwork
	end       sim.Time
	cluster   *Cluster
}

// setup of a story; tests change what they need.
type setup struct {
	config          Config
	prefill, decode fakeCost
	experts         collective.Experts
	servers         int
	source          Source
	until           sim.Time
	network         *fakeNetwork
}

func newSetup(source Source) *setup {
	c := DefaultConfig()
	c.Prefill.HostGap, c.Decode.HostGap = 0, 0
	c.Prefill.Overlap, c.Decode.Overlap = OverlapNone, OverlapNone
	c.KV = KVConfig{BlockTokens: 1, Utilisation: 1, QPs: 1, PostPerMessage: 10 * sim.Microsecond}
	cost := fakeCost{dense: 1, perToken: sim.Microsecond, kvTokens: 1 << 30, kvBytes: 8}
	decode := cost
	decode.perToken, decode.fixed = 0, 10*sim.Millisecond
	return &setup{config: c, prefill: cost, decode: decode, servers: 1, source: source, until: sim.Never}
}

// build makes the cluster and its engine.
func (s *setup) build(t testing.TB, l Listener) (*sim.Engine, *Cluster) {
	t.Helper()
	e, c, err := s.try(t, l)
	require.NoError(t, err)
	return e, c
}

// try is build of what may be refused.
func (s *setup) try(t testing.TB, l Listener) (*sim.Engine, *Cluster, error) {
	t.Helper()
	top := topology.DefaultConfig()
	top.Nodes, top.Leaves, top.Spines = s.servers, s.servers, 8
	if s.servers == 1 {
		top.Spines = 0
	}
	g, err := topology.LeafSpine(top)
	require.NoError(t, err)
	e := sim.New()
	s.network = newFakeNetwork(e)
	c, err := New(Options{
		Config: s.config, Engine: e, Network: s.network, Graph: g, Source: s.source,
		Prefill: s.prefill, PrefillOverlap: s.prefill, Decode: s.decode, Experts: s.experts, Hidden: 1024, KVPieces: 1,
		NVLinkRate: 1280 * units.Gbps, Listener: l,
	})
	return e, c, err
}

func (s *setup) run(t testing.TB) *story {
	t.Helper()
	out := &story{gaps: map[sim.Time]int{}}
	e, c := s.build(t, Listener{
		Request:  func(r *Record) { out.records = append(out.records, *r) },
		Transfer: func(x *Transfer) { out.transfers = append(out.transfers, *x) },
		Step:     func(x *Step) { out.steps = append(out.steps, *x) },
		Gap:      func(_, gap sim.Time, n int) { out.gaps[gap] += n },
	})
	out.cluster, out.network = c, s.network
	e.RunUntil(s.until)
	out.end = e.Now()
	out.usage = c.Finish(e.Now())
	out.check(t, s)
	return out
}

// check holds every story to what must be true of all: lives and GPU time are
// tiled exactly, and the memory is back where it was.
func (o *story) check(t testing.TB, s *setup) {
	t.Helper()
	seen := map[int]bool{}
	for i := range o.records {
		r := &o.records[i]
		require.False(t, seen[r.ID], "request %d is reported twice", r.ID)
		seen[r.ID] = true
		if r.Outcome != Finished {
			continue
		}
		require.Equal(t, r.FirstToken-r.Arrival, r.TTFT.Sum(), "TTFT of request %d", r.ID)
		require.Equal(t, r.Finish-r.FirstToken, r.Decode.Sum(), "decoding of request %d", r.ID)
		for p := range NumPieces {
			require.GreaterOrEqual(t, r.TTFT[p], sim.Time(0), "%v of request %d", p, r.ID)
			require.GreaterOrEqual(t, r.Decode[p], sim.Time(0), "%v of request %d", p, r.ID)
		}
	}
	for _, x := range o.transfers {
		require.Equal(t, x.Arrived-x.Posted, x.Post+x.Wire+x.Queue)
	}
	for _, st := range o.steps {
		require.Equal(t, st.End-st.Start, st.Compute+st.Dispatch+st.Combine+st.AllReduce, "%+v", st)
	}
	for _, u := range o.usage {
		require.Equal(t, sim.TotalOf(o.end, u.GPUs), u.Time.Sum(), "%s: %+v", u.Pool, u.Time)
	}
	if s.until == sim.Never {
		for _, p := range []*pool{o.cluster.prefill, o.cluster.decode} {
			for _, r := range p.ranks {
				require.Zero(t, r.blocks.used, "%s rank %d leaks KV blocks", p.name, r.number)
				require.Zero(t, r.load, "%s rank %d leaks load", p.name, r.number)
				require.Zero(t, r.kvTokens)
				require.Zero(t, r.inbound)
			}
		}
	}
}
