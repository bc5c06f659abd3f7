package serving

import (
	"fmt"
	"slices"

	"github.com/tgssim/tgssim/collective"
	"github.com/tgssim/tgssim/compute"
	"github.com/tgssim/tgssim/experts"
	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/topology"
)

// A routing is the experts that an instance's tokens choose. The choices of a step
// are drawn when it begins: for some of its layers, each of which stands for those
// up to the next. They set what the dispatches and combines carry between each pair
// of GPUs and what every GPU computes, of which the slowest is everyone's pace.
type routing struct {
	in     *instance
	router *experts.Router
	cfg    *collective.Routing
	// layers is the MoE layers of a step, those of drafts included, samples how many
	// of them are drawn, and known the layers of the router.
	layers, samples, known int
	drawn                  [2][]drawn // by micro-batch
	// loaded is the sample that the collectives of a micro-batch hold, -1 for none.
	loaded [2]int
	tokens []int // scratch of draw
	unique []int64

	moving *rebalancing // nil when no weights are on their way
	usage  ExpertUsage
}

// drawn is the choices of one layer for one micro-batch.
type drawn struct {
	traffic experts.Traffic
	units   []int64 // of the collectives
	cost    cost    // of the routed experts
}

// ExpertUsage is what became of the choices of a pool's tokens.
type ExpertUsage struct {
	// Draws is how many layers were drawn, micro-batches apart; 0 without routing.
	Draws int64
	// Chosen is the choices that experts took, and Dropped those that they had no
	// room for, summed over the draws, in thousandths.
	Chosen, Dropped int64
	// SumBusiest is the load of the busiest GPU over the mean, summed over the draws,
	// and MaxBusiest the most of them.
	SumBusiest, MaxBusiest float64
	// Rebalances is how often experts were placed anew, Skipped how often that was
	// due while weights were still on their way, Moves the experts that changed
	// GPUs, and MovedBytes their weights. SumBefore and SumAfter are the load of the
	// busiest GPU over the mean, by the loads observed.
	Rebalances, Skipped, Moves, MovedBytes int64
	SumBefore, SumAfter                    float64
}

func (u *ExpertUsage) add(o *ExpertUsage) {
	u.Draws += o.Draws
	u.Chosen += o.Chosen
	u.Dropped += o.Dropped
	u.SumBusiest += o.SumBusiest
	u.MaxBusiest = max(u.MaxBusiest, o.MaxBusiest)
	u.Rebalances += o.Rebalances
	u.Skipped += o.Skipped
	u.Moves += o.Moves
	u.MovedBytes += o.MovedBytes
	u.SumBefore += o.SumBefore
	u.SumAfter += o.SumAfter
}

// arrangement is the random stream of the experts' popularity, which is that of
// the model and not of an instance.
const arrangement = "experts/popularity"

// newRouting prepares the routing of an instance; nil when the pool has none. The
// errors are config.Problems under the keys of collective.Config.
func (in *instance) newRouting(place collective.Placement) (*routing, error) {
	p := in.pool
	cfg := p.cfg.MoE.Routing
	if cfg == nil || p.cost.MoELayers() == 0 {
		return nil, nil
	}
	r := &routing{in: in, cfg: cfg, layers: p.moe, known: p.cost.MoELayers(), loaded: [2]int{-1, -1}}
	r.samples = cfg.SampleLayers
	if r.samples == 0 || r.samples > r.layers {
		r.samples = r.layers
	}
	name := fmt.Sprintf("experts/%s/%d", p.name, in.index)
	cluster := place.Cluster()
	if first := p.original; first != nil && sameCluster(first.cluster, cluster) {
		r.router = first.router.Fork(p.c.opt.Streams, name)
	} else {
		e := &p.c.opt.Experts
		router, err := experts.New(experts.Setup{
			Config:      cfg.Config,
			Shape:       experts.Shape{Layers: r.known, Experts: e.Count, TopK: e.TopK, Groups: e.Groups, TopGroups: e.GroupLimit},
			Cluster:     cluster,
			Weights:     p.weights(),
			Deduplicate: collective.Deduplicates(p.cfg.MoE.Mode) || in.gpus == 1,
			Streams:     p.c.opt.Streams, Name: name, Popularity: arrangement,
		})
		if err != nil {
			var ps config.Problems
			ps.Nest("routing", err)
			return nil, ps
		}
		r.router = router
		if p.original == nil {
			p.original = &original{router: router, cluster: cluster}
		}
	}
	for b := range r.drawn {
		r.drawn[b] = make([]drawn, r.samples)
	}
	r.unique = make([]int64, in.gpus)
	return r, nil
}

// An original is the router of a pool's first instance, of which the others are
// forks.
type original struct {
	router  *experts.Router
	cluster experts.Cluster
}

// weights is the popularity that the pool's file has.
func (p *pool) weights() *experts.Weights {
	if p.name == poolPrefill {
		return p.c.opt.PrefillWeights
	}
	return p.c.opt.DecodeWeights
}

func sameCluster(a, b experts.Cluster) bool {
	return slices.Equal(a.GPUs, b.GPUs) && slices.Equal(a.Ranks, b.Ranks)
}

// sampleOf is the sample that stands for a layer.
func (r *routing) sampleOf(layer int) int { return ((layer+1)*r.samples - 1) / r.layers }

// drawnLayer is the layer that is drawn for a sample: step after step the next of
// those that it stands for.
func (r *routing) drawnLayer(sample int) int {
	first := sample * r.layers / r.samples
	next := (sample + 1) * r.layers / r.samples
	return (first + int(r.in.stepCount%int64(next-first))) % r.known
}

// draw draws a micro-batch's choices of all samples, of tokens by rank, in all
// group of them.
func (r *routing) draw(b int, model CostModel, tokens []int64, group int64) {
	r.tokens = r.tokens[:0]
	for _, n := range tokens {
		r.tokens = append(r.tokens, int(n))
	}
	mode := r.in.pool.cfg.MoE.Mode
	for i := range r.drawn[b] {
		d := &r.drawn[b][i]
		r.router.Route(r.drawnLayer(i), r.tokens, &d.traffic)
		d.units = collective.Units(mode, &d.traffic, tokens, d.units)
		d.cost = r.price(model, &d.traffic, group)
		r.account(&d.traffic)
	}
	r.loaded[b] = -1
}

// price is what the GPUs compute for a layer's choices.
func (r *routing) price(model CostModel, t *experts.Traffic, group int64) (c cost) {
	clear(r.unique)
	known := len(t.GPUHits) > 0
	for i, n := range t.GPUHits {
		r.unique[i%t.GPUs] += n
	}
	load := compute.ExpertLoad{Tokens: group * compute.Milli, Expected: r.cfg.Counts == experts.CountExpected}
	prefill := r.in.pool == r.in.pool.c.prefill
	for g := range t.GPUs {
		load.Rows = t.Rows[g*t.Slots : (g+1)*t.Slots]
		load.Unique = -1
		if known {
			load.Unique = r.unique[g]
		}
		span := model.ExpertsOf(prefill, load)
		c.slowest = max(c.slowest, span)
		c.total += span
	}
	return c
}

// account books a draw.
func (r *routing) account(t *experts.Traffic) {
	u := &r.usage
	u.Draws++
	for i, n := range t.Sent {
		u.Chosen += n
		u.Dropped += t.Dropped[i]
	}
	busiest := t.Imbalance()
	u.SumBusiest += busiest
	u.MaxBusiest = max(u.MaxBusiest, busiest)
}

// costOf is the routed experts' cost of a layer.
func (r *routing) costOf(batch uint8, layer int) cost {
	return r.drawn[batch][r.sampleOf(layer)].cost
}

// load gives the collectives of a micro-batch what a layer carries. Its last
// combine is through by then.
func (r *routing) load(batch uint8, layer int) {
	i := r.sampleOf(layer)
	if r.loaded[batch] == i {
		return
	}
	r.loaded[batch] = i
	in := r.in
	if in.pool.cfg.MoE.Timing == collective.TimingMeasured {
		return // given when the step was assembled
	}
	units := r.drawn[batch][i].units
	in.giveUnits(int(batch), units)
}

// A rebalancing is weights on their way to a new placement: layer after layer, all
// of a layer's at once, beside the steps, which go on with the old placement. The
// new one is in effect from the first step that begins after the last have
// arrived.
type rebalancing struct {
	r    *routing
	plan *experts.Plan
	next int // of the plan's moves
	done bool
}

// stepEnded counts a step, and begins to move weights when that is due.
func (r *routing) stepEnded() {
	plan := r.router.EndStep()
	switch {
	case plan == nil:
		return
	case r.moving != nil:
		r.usage.Skipped++
		return
	}
	r.usage.Rebalances++
	r.usage.SumBefore += plan.Before
	r.usage.SumAfter += plan.After
	r.moving = &rebalancing{r: r, plan: plan}
	r.moving.send()
}

// stepBegins puts a placement whose weights have arrived into effect.
func (r *routing) stepBegins() {
	if m := r.moving; m != nil && m.done {
		r.router.Apply(m.plan)
		r.moving = nil
	}
}

// send sends the weights of the next layer that needs any.
func (m *rebalancing) send() {
	r := m.r
	p := r.in.pool
	bytes := p.cost.ExpertBytes()
	moves := m.plan.Moves
	parts := p.c.parts[:0]
	for m.next < len(moves) && len(parts) == 0 {
		layer := moves[m.next].Layer
		for ; m.next < len(moves) && moves[m.next].Layer == layer; m.next++ {
			if x := &moves[m.next]; x.From != x.To {
				parts = append(parts, fabric.Part{Src: r.in.gpu(x.From), Dst: r.in.gpu(x.To), Bytes: bytes})
			}
		}
	}
	if len(parts) == 0 {
		m.done = true
		return
	}
	r.usage.Moves += int64(len(parts))
	r.usage.MovedBytes += int64(len(parts)) * int64(bytes)
	p.c.opt.Network.Send(fabric.Message{Parts: parts, Class: fabric.ClassEP, QPs: p.c.opt.Config.KV.QPs}, m)
	p.c.parts = parts[:0]
}

// Delivered hears that the weights of a layer have arrived.
func (m *rebalancing) Delivered(fabric.Delivery) { m.send() }

// gpu is the i-th GPU of the instance.
func (in *instance) gpu(i int) topology.GPU {
	tp := in.pool.cfg.TP
	return in.ranks[i/tp].gpus[i%tp]
}

// expertsTotal is the routed experts' cost of all layers of a micro-batch, for an
// instance that dispatches nothing.
func (r *routing) expertsTotal(b int) (c cost) {
	for layer := range r.layers {
		c.add(r.costOf(uint8(b), layer), 1)
	}
	return c
}
