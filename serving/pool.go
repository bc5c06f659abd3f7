package serving

import (
	"cmp"
	"fmt"

	"github.com/tgssim/tgssim/collective"
	"github.com/tgssim/tgssim/compute"
	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// A pool is the instances of one role, and the router over all their ranks.
type pool struct {
	c         *Cluster
	name      string
	cfg       PoolConfig
	cost      CostModel
	instances []*instance
	ranks     []*rank
	turn      int   // round robin
	chosen    int64 // least loaded: how many requests have been routed
	// tokenBytes is the size of one token's bf16 activations in an all-reduce.
	tokenBytes int64
	// dense and moe are the layers that a step runs, and heads how often it runs
	// the LM head: those of the model, and of the module that drafts tokens.
	dense, moe, heads int
	// original is the first instance's router; nil without routing.
	original *original
	// peakBatch is the most requests that a rank has decoded in one step.
	peakBatch int
}

// A rank is one attention rank: a TP group with its own queue and KV blocks.
type rank struct {
	instance *instance
	number   int // over the pool
	gpus     []topology.GPU
	blocks   blockPool
	// load is outstanding work, in prompt tokens (prefill) or KV blocks (decode).
	load int64
	// chosen is when the least-loaded router last took this rank.
	chosen int64

	// Prefill: queue holds the requests whose prompt is not done, in order.
	queue  fifo
	batch  []slice
	chunks [2][]compute.Chunk

	// Decode: waiting for KV blocks, then ready with their KV in place, then
	// running.
	waiting, ready fifo
	running        finishHeap
	joined         []*request
	kvTokens       int64
	drafts         draftLog
	output         int64 // tokens that the running step gives
	inbound        int   // transfers on their way
}

func (c *Cluster) newPool(name string, cfg PoolConfig, cost CostModel, firstGPU int) (*pool, error) {
	p := &pool{c: c, name: name, cfg: cfg, cost: cost}
	p.tokenBytes = 2 * int64(c.opt.Hidden)
	p.countLayers()
	var ps config.Problems
	g := c.opt.Graph
	if per := g.GPUsPerServer(); cfg.TP > per || per%cfg.TP != 0 {
		ps.Addf("tp", "%d GPUs of one rank must share a server, and servers have %d", cfg.TP, per)
		return nil, ps
	}
	if firstGPU%cfg.TP != 0 {
		ps.Addf("tp", "the pool begins at GPU %d, so ranks of %d would straddle servers; "+
			"make the prefill pool's GPUs a multiple of %d", firstGPU, cfg.TP, cfg.TP)
		return nil, ps
	}
	if cfg.DP > 1 && cost.MoELayers() == 0 {
		ps.Addf("dp", "%d attention ranks share experts, of which a dense model has none; use instances: %d", cfg.DP, cfg.DP*cfg.Instances)
		return nil, ps
	}
	mem := cost.Memory()
	blocks := newBlockPool(mem.KVTokens(), c.opt.Config.KV.BlockTokens)
	for i := range cfg.Instances {
		in := &instance{pool: p, index: i, number: len(c.steps), gpus: cfg.TP * cfg.DP}
		for range cfg.DP {
			r := &rank{instance: in, number: len(p.ranks), blocks: blocks}
			for range cfg.TP {
				r.gpus = append(r.gpus, topology.GPU(firstGPU))
				firstGPU++
			}
			in.ranks = append(in.ranks, r)
			p.ranks = append(p.ranks, r)
		}
		in.stepper = stepper{
			engine: c.engine, handler: c.handler, index: uint32(in.number),
			done: in.endStep,
		}
		if err := in.buildCollectives(); err != nil {
			ps.Nest("moe", err)
			return nil, ps
		}
		p.instances = append(p.instances, in)
		c.steps = append(c.steps, in)
	}
	return p, nil
}

// countLayers works out what a step runs. Every draft of decode is taken as one
// pass of the module over all query tokens and one more LM head; prefill passes
// its tokens through the module once, for the KV that the module will read, and
// needs no head for it.
func (p *pool) countLayers() {
	mtp := p.c.opt.Config.Decode.MTP
	passes := min(1, mtp.drafts())
	p.heads = 1
	if p.name == poolDecode {
		passes = mtp.drafts()
		if mtp.LayersPerDraft > 0 {
			p.heads += passes
		}
	}
	p.dense, p.moe = p.cost.DenseLayers(), p.cost.MoELayers()
	if p.moe > 0 {
		p.moe += passes * mtp.LayersPerDraft
	} else {
		p.dense += passes * mtp.LayersPerDraft
	}
}

// The names of the pools.
const (
	poolPrefill = "prefill"
	poolDecode  = "decode"
)

// route picks the rank for a new request.
func (p *pool) route() *rank {
	if p.cfg.Router == RouterRoundRobin {
		r := p.ranks[p.turn]
		p.turn = (p.turn + 1) % len(p.ranks)
		return r
	}
	best := p.ranks[0]
	for _, r := range p.ranks[1:] {
		if r.before(best) {
			best = r
		}
	}
	p.chosen++
	best.chosen = p.chosen
	return best
}

// before tells whether the least-loaded router prefers r. Ranks of an instance
// step together, so that an empty rank of a busy instance has to wait for a step
// to end, where one of an idle instance has not.
func (r *rank) before(o *rank) bool {
	return cmp.Or(
		cmp.Compare(r.load, o.load),
		cmp.Compare(r.instance.load, o.instance.load),
		cmp.Compare(r.chosen, o.chosen),
	) < 0
}

// charge changes the outstanding work of a rank.
func (r *rank) charge(load int64) {
	r.load += load
	r.instance.load += load
}

func (p *pool) close(now sim.Time) PoolUsage {
	u := PoolUsage{Pool: p.name, Instances: len(p.instances), Ranks: len(p.ranks), GPUs: p.cfg.GPUs()}
	for _, in := range p.instances {
		in.close(now)
		u.Time.add(&in.time)
		u.Comm.add(&in.comm)
		u.Volume.add(&in.volume)
		if in.routing != nil {
			u.Experts.add(&in.routing.usage)
		}
		u.Sampling.merge(&in.sampling)
		u.TwoBatchSteps += in.twoBatch
		u.Steps += int(in.stepCount)
		u.Tokens += in.tokens
	}
	for _, r := range p.ranks {
		u.KVBlocks = r.blocks.capacity
		u.PeakKVBlocks = max(u.PeakKVBlocks, r.blocks.peak)
	}
	if p == p.c.decode {
		u.BatchLimit, u.PeakBatch = p.cfg.MaxBatchRequests, p.peakBatch
	}
	return u
}

func (t *GPUTime) add(o *GPUTime) {
	for i, to := range t.parts() {
		to.Plus(*o.parts()[i])
	}
}

// Sum is the GPU time accounted for.
func (t *GPUTime) Sum() sim.Total {
	var sum sim.Total
	for _, p := range t.parts() {
		sum.Plus(*p)
	}
	return sum
}

func (t *GPUTime) parts() [8]*sim.Total {
	return [...]*sim.Total{
		&t.Compute, &t.Dispatch, &t.Combine, &t.AllReduce, &t.Barrier, &t.WaitingKV, &t.Host, &t.Idle,
	}
}

// buildCollectives prepares routing, dispatch and combine of the instance, the
// latter two twice where two micro-batches may be under way at once.
func (in *instance) buildCollectives() error {
	p := in.pool
	if p.cost.MoELayers() == 0 {
		return nil
	}
	place := collective.Placement{Graph: p.c.opt.Graph}
	for _, r := range in.ranks {
		place.Ranks = append(place.Ranks, r.gpus)
	}
	var err error
	if in.routing, err = in.newRouting(place); err != nil || in.gpus == 1 {
		return err
	}
	if in.routing == nil && p.c.opt.Experts.Count%in.gpus != 0 {
		return fmt.Errorf("%d experts do not spread evenly over the %d GPUs of an instance (tp x dp)",
			p.c.opt.Experts.Count, in.gpus)
	}
	for b := range 2 {
		if in.dispatch[b], err = in.newAllToAll(collective.KindDispatch, place, b); err != nil {
			return err
		}
		if in.combine[b], err = in.newAllToAll(collective.KindCombine, place, b); err != nil {
			return err
		}
	}
	return nil
}

// newAllToAll prepares a dispatch or combine of one micro-batch.
func (in *instance) newAllToAll(k collective.Kind, place collective.Placement, batch int) (*allToAll, error) {
	p := in.pool
	moe := &p.cfg.MoE
	if moe.Timing == collective.TimingMeasured {
		times := moe.MeasuredDispatch
		if k == collective.KindCombine {
			times = moe.MeasuredCombine
			if batch == 1 && p.cfg.Overlap == OverlapSingle {
				times.Fixed = 0 // of a combine in two halves the second
			}
		}
		return &allToAll{Collective: p.c.newMeasured(times, p.cfg.TP)}, nil
	}
	var op collective.Operation
	var err error
	if in.routing != nil {
		slots := in.routing.router.Placement(0).Slots
		op, err = collective.NewRouted(k, *moe, p.c.opt.Experts, place, slots)
	} else {
		op, err = collective.NewOperation(k, *moe, p.c.opt.Experts, place)
	}
	if err != nil {
		return nil, err
	}
	spec := op.Spec
	spec.Name = fmt.Sprintf("%s%d %s %d", p.name, in.index, spec.Name, batch)
	op.Spec.Shares = nil // the network has them
	c, err := p.c.opt.Network.NewCollective(spec)
	return &allToAll{Collective: c, op: op}, err
}
