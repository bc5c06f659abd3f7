package serving

import (
	"fmt"

	"github.com/tgssim/tgssim/collective"
	"github.com/tgssim/tgssim/compute"
	"github.com/tgssim/tgssim/experts"
	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
	"github.com/tgssim/tgssim/workload"
)

// A CostModel gives the compute times of one attention rank; *compute.Rank is
// the real one.
type CostModel interface {
	Prefill(chunks []compute.Chunk) compute.LayerTimes
	Decode(requests int, kvTokens int64, queryTokens int) compute.LayerTimes
	Experts(prefill bool, groupTokens int64, imbalance float64) sim.Time
	ExpertsOf(prefill bool, l compute.ExpertLoad) sim.Time
	ExpertBytes() units.Bytes
	DenseLayers() int
	MoELayers() int
	Memory() compute.Memory
}

// A Source yields requests in order of arrival; the workload package's sources
// are the real ones.
type Source interface {
	Next() (workload.Request, bool)
}

// Options are what a cluster is built from.
type Options struct {
	Config  Config
	Engine  *sim.Engine
	Network fabric.Network
	Graph   *topology.Graph
	Source  Source
	// Prefill and Decode are the cost models of one rank of each pool;
	// PrefillOverlap is that of prefill steps that lend SMs to communication.
	Prefill, PrefillOverlap, Decode CostModel
	// Experts is the routing arithmetic of the model; Count 0 for a dense model.
	Experts collective.Experts
	// PrefillWeights and DecodeWeights are the popularity of experts that the pools'
	// moe.routing.popularity.path hold; nil where there is none.
	PrefillWeights, DecodeWeights *experts.Weights
	// Hidden is the model's hidden size in elements.
	Hidden int
	// KVPieces is the number of contiguous pieces of one KV block: one per layer
	// for MLA's latent, two (keys, values) for GQA.
	KVPieces int
	// NVLinkRate is the rate of one GPU's NVLink port per direction, as achieved.
	NVLinkRate units.Rate
	// SampleLayers is how many of the MoE layers of a step are simulated on the
	// network, spread over the step; the others take as long as those. 0 simulates
	// all. Steps of two micro-batches simulate at least three.
	SampleLayers int
	// Streams are the run's random streams; drafts are drawn from them.
	Streams sim.Streams
	// Listener hears what happens.
	Listener Listener
}

// A Cluster serves requests: it owns the pools and every request's state.
type Cluster struct {
	opt     Options
	engine  *sim.Engine
	handler sim.HandlerID
	prefill *pool
	decode  *pool
	steps   []*instance // by event argument, over both pools

	measured []*measured // by event argument

	live    []*request // by slot
	free    []uint32
	parts   []fabric.Part // scratch of transfer
	pending workload.Request
	more    bool

	arrived, finished, rejected int
}

// New builds the cluster and schedules the first arrival. It fails with
// config.Problems, under the keys of Config (and cluster.nodes), when the pools
// do not fit the topology or the experts do not spread.
func New(opt Options) (*Cluster, error) {
	c := &Cluster{opt: opt, engine: opt.Engine}
	c.handler = opt.Engine.Register(c)
	var ps config.Problems
	cfg := &opt.Config
	need := cfg.Prefill.GPUs() + cfg.Decode.GPUs()
	if have := opt.Graph.GPUs(); need > have {
		per := opt.Graph.GPUsPerServer()
		ps.Addf("cluster.nodes", "%d servers have %d GPUs and the pools need %d (prefill %d x %d, decode %d x %d); use %d",
			opt.Graph.Servers(), have, need, cfg.Prefill.Instances, cfg.Prefill.TP*cfg.Prefill.DP,
			cfg.Decode.Instances, cfg.Decode.TP*cfg.Decode.DP, (need+per-1)/per)
		return nil, ps
	}
	var err error
	c.prefill, err = c.newPool(poolPrefill, cfg.Prefill, opt.Prefill, 0)
	ps.Nest("prefill", err)
	c.decode, err = c.newPool(poolDecode, cfg.Decode, opt.Decode, cfg.Prefill.GPUs())
	ps.Nest("decode", err)
	for _, p := range []*pool{c.prefill, c.decode} {
		if p != nil && len(p.ranks) > 0 && p.ranks[0].blocks.capacity == 0 {
			ps.Addf("kv.block_tokens", "a block of %d tokens exceeds the KV memory of a %s GPU: %d tokens",
				cfg.KV.BlockTokens, p.name, p.cost.Memory().KVTokens())
		}
	}
	if err := ps.Err(); err != nil {
		return nil, err
	}
	c.pull()
	return c, nil
}

// GPUs returns the number of GPUs of the pool.
func (c PoolConfig) GPUs() int { return c.Instances * c.TP * c.DP }

// Progress returns how many requests have arrived, finished and been rejected.
func (c *Cluster) Progress() (arrived, finished, rejected int) {
	return c.arrived, c.finished, c.rejected
}

// Finish closes the books at instant now, not before the engine's: idle time is
// accounted up to it, requests still in the system are reported as unfinished.
// It returns the account of both pools.
func (c *Cluster) Finish(now sim.Time) []PoolUsage {
	usage := make([]PoolUsage, 0, 2)
	for _, p := range []*pool{c.prefill, c.decode} {
		usage = append(usage, p.close(now))
	}
	for _, r := range c.live {
		if r != nil {
			c.report(r, Unfinished)
		}
	}
	return usage
}

// Handle dispatches the cluster's events.
func (c *Cluster) Handle(e sim.Event) {
	switch e.Kind {
	case kindArrival:
		c.arrive()
	case kindNextStep:
		c.steps[e.Arg].beginStep()
	case kindPhaseDone:
		c.steps[e.Arg].stepper.phaseDone()
	case kindComputeDone:
		c.steps[e.Arg].stepper.opDone(streamCompute)
	case kindCommDone:
		c.steps[e.Arg].stepper.opDone(streamComm)
	case kindSkipDone:
		c.steps[e.Arg].stepper.skipDone()
	case kindMeasuredDone:
		m := c.measured[e.Arg]
		m.to.Delivered(m.delivery)
	}
}

// pull fetches the next request from the source and schedules its arrival.
func (c *Cluster) pull() {
	c.pending, c.more = c.opt.Source.Next()
	if c.more {
		c.engine.At(c.pending.Arrival, c.handler, kindArrival, 0)
	}
}

// arrive takes in every request of this instant, so that those arriving
// together are batched together.
func (c *Cluster) arrive() {
	now := c.engine.Now()
	for c.more && c.pending.Arrival == now {
		c.admit(c.pending)
		c.pending, c.more = c.opt.Source.Next()
	}
	if c.more {
		c.engine.At(c.pending.Arrival, c.handler, kindArrival, 0)
	}
}

func (c *Cluster) admit(w workload.Request) {
	c.arrived++
	r := c.newRequest(w)
	p, d := &c.prefill.ranks[0].blocks, &c.decode.ranks[0].blocks
	if p.need(r.PromptTokens) > p.capacity {
		c.reject(r, fmt.Sprintf("the prompt exceeds the %d KV blocks of a prefill rank", p.capacity))
		return
	}
	if d.need(r.PromptTokens+r.OutputTokens) > d.capacity {
		c.reject(r, fmt.Sprintf("prompt and output exceed the %d KV blocks of a decode rank", d.capacity))
		return
	}
	rank := c.prefill.route()
	r.PrefillRank = rank.number
	rank.instance.accountIdle(c.engine.Now())
	rank.charge(int64(r.PromptTokens))
	rank.queue.push(r)
	rank.instance.wake()
}

func (c *Cluster) newRequest(w workload.Request) *request {
	r := &request{}
	if n := len(c.free); n > 0 {
		r.slot = c.free[n-1]
		c.free = c.free[:n-1]
	} else {
		r.slot = uint32(len(c.live))
		c.live = append(c.live, nil)
	}
	c.live[r.slot] = r
	r.Record = Record{
		Request: w, PrefillRank: -1, DecodeRank: -1,
		PrefillStart: sim.Never, PrefillEnd: sim.Never, TransferEnd: sim.Never,
		FirstToken: sim.Never, Finish: sim.Never,
	}
	r.mark = w.Arrival
	return r
}

func (c *Cluster) reject(r *request, reason string) {
	c.rejected++
	r.Reason = reason
	c.release(r, Rejected)
}

// release hands out the record and recycles the slot.
func (c *Cluster) release(r *request, o Outcome) {
	c.report(r, o)
	c.live[r.slot] = nil
	c.free = append(c.free, r.slot)
}

func (c *Cluster) report(r *request, o Outcome) {
	r.Outcome = o
	if c.opt.Listener.Request != nil {
		c.opt.Listener.Request(&r.Record)
	}
}
