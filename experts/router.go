package experts

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/detmath"
	"github.com/tgssim/tgssim/sim"
)

// Setup says what a Router routes.
type Setup struct {
	Config  Config
	Shape   Shape
	Cluster Cluster
	// Weights is what Config.Popularity.Path holds; nil unless its kind is file.
	Weights *Weights
	// Deduplicate asks for the counts of tokens per GPU and server, beside those
	// of choices.
	Deduplicate bool
	// Samples is the number of tokens from which moments without a closed form are
	// estimated; 0 stands for 131,072, or 16,384 for weights of each layer.
	Samples int
	// Streams and Name give the random streams of their own: Name/forecast for the
	// errors of the forecast and Name/layer0, Name/layer1, ... for the choices, so
	// that what one layer draws does not depend on which others are routed.
	Streams sim.Streams
	Name    string
	// Popularity is the stream of the arrangement of the weights, so that several
	// pools can have the same hot experts; "" stands for Name/popularity.
	Popularity string
}

// A Router draws the traffic of the MoE layers of one pool. It belongs to one
// run.
type Router struct {
	cfg     Config
	shape   Shape
	cluster Cluster
	dedup   bool
	gpus    int
	servers int
	slots   int

	laws   []*law
	layers []layer

	// What one Route needs.
	choice    []uint16 // of all ranks' tokens when there is a capacity, or of one token
	counts    []int32  // by rank and expert when there is a capacity, or by expert
	tally     []int32  // of drawCounts
	slotCount []int32
	used      []int32 // by expert, or by rank when experts choose
	wanted    []int64 // by expert: choices of all ranks
	passed    []int64 // by expert: choices seen so far
	gpuSeen   []uint32
	nodeSeen  []uint32
	token     uint32
	shuffle   []int32 // tokens of the step, in some order
	rankOf    []int32 // by token
	seen      []uint64
	share     []float64 // by slot
	keep      []float64 // by set: what a capacity leaves of the choices

	serverCount []serverCount

	steps int
}

// A layer is one MoE layer.
type layer struct {
	law    int
	expert []int32   // by number in the law
	pcg    *rand.PCG // what rng draws from
	rng    *rand.Rand
	place  Placement
	// routes has one entry, or one per server when the nearest copy is taken.
	routes []routes
	// observed is the rows of each expert in the window, in thousandths.
	observed []float64
}

// routes are the copies that a rank's tokens may go to.
type routes struct {
	// slots[first[c]:first[c+1]] are those of the expert that the law numbers c.
	first, slots []int32
	// only[slot] is the number of the expert whose only copy it is; nil where an
	// expert has several.
	only    []int32
	moments moments
}

// slot is the copy that takes a rank's i-th token for an expert.
func (rt *routes) slot(c, i int32) int32 {
	from, n := rt.first[c], rt.first[c+1]-rt.first[c]
	if n == 1 {
		return rt.slots[from]
	}
	return rt.slots[from+i%n]
}

// New returns a router. The error is config.Problems, whose keys are those of the
// Config, but for shape.*, cluster.* and the file's own lines.
func New(s Setup) (*Router, error) {
	var ps config.Problems
	ps.Nest("", s.Config.Validate())
	ps.Nest("shape", s.Shape.Validate())
	ps.Nest("cluster", s.Cluster.Validate())
	if len(ps) == 0 {
		ps.Require(s.Samples >= 0 && s.Samples <= 1<<24, "samples", "%d is out of range: 1 to %d, or 0 for the default", s.Samples, 1<<24)
		checkSlots(&ps, s.Config.Placement, s.Shape, s.Cluster)
	}
	if len(ps) > 0 {
		return nil, ps.Err()
	}
	if s.Config.GroupChoice == GroupNone {
		s.Shape.TopGroups = s.Shape.Groups
	}
	r := &Router{
		cfg: s.Config, shape: s.Shape, cluster: s.Cluster, dedup: s.Deduplicate,
		gpus: len(s.Cluster.GPUs), servers: s.Cluster.servers(),
	}
	r.slots = (s.Shape.Experts + s.Config.Placement.Redundant) / r.gpus
	if s.Popularity == "" {
		s.Popularity = s.Name + "/popularity"
	}
	pop, err := newPopularity(s.Config.Popularity, s.Shape, s.Weights, s.Streams.Stream(s.Popularity))
	if err != nil {
		ps.Addf("popularity.path", "%v", err)
		return nil, ps.Err()
	}
	r.makeLaws(pop, s.Samples)
	forecast := s.Streams.Stream(s.Name + "/forecast")
	for l := range s.Shape.Layers {
		pcg := layerSource(s.Streams, s.Name, l)
		r.layers = append(r.layers, layer{law: pop.law[l], expert: pop.expert[l], pcg: pcg, rng: rand.New(pcg)})
		r.placeLayer(l, r.placement(r.forecast(l, forecast)))
	}
	r.allocate()
	return r, nil
}

// layerSource is where the choices of a layer come from.
func layerSource(streams sim.Streams, name string, layer int) *rand.PCG {
	return streams.Source(fmt.Sprintf("%s/layer%d", name, layer))
}

// Fork returns a router for another instance on a cluster of the same shape: with
// the same popularity and the placement that r has now, and with choices of its
// own, from the streams name/layer0, name/layer1, ... It costs little beside New.
// The two do not affect each other.
func (r *Router) Fork(streams sim.Streams, name string) *Router {
	f := &Router{
		cfg: r.cfg, shape: r.shape, cluster: r.cluster, dedup: r.dedup,
		gpus: r.gpus, servers: r.servers, slots: r.slots, laws: slices.Clone(r.laws),
	}
	for l := range r.layers {
		o := &r.layers[l]
		// Laws, placements and routes are replaced and never changed.
		pcg := layerSource(streams, name, l)
		f.layers = append(f.layers, layer{law: o.law, expert: o.expert, pcg: pcg, rng: rand.New(pcg), place: o.place, routes: o.routes})
	}
	f.allocate()
	return f
}

// makeLaws prepares what the counts need.
func (r *Router) makeLaws(pop popularity, samples int) {
	if r.cfg.Choice == ChoiceExpert {
		return // every expert takes as many tokens, whatever the popularity
	}
	switch {
	case samples > 0:
	case len(pop.weights) > 1:
		samples = samplesLayer
	default:
		samples = samplesShared
	}
	forTree := r.cfg.Counts == CountAggregate
	forSample := r.dedup && r.cfg.Counts != CountExact && !(r.cfg.Counts == CountExpected && r.uniform())
	for _, w := range pop.weights {
		r.laws = append(r.laws, newLaw(r.shape, r.cfg.GroupChoice, w, pop.balanced, forTree, forSample, samples))
	}
}

// forecast returns the load of each expert that the first placement goes by.
func (r *Router) forecast(layer int, rng *rand.Rand) []float64 {
	load := r.Chances(layer)
	if cv := r.cfg.Placement.ForecastCV; cv > 0 {
		shape := 1 / float64(cv*cv)
		for e := range load {
			load[e] *= detmath.Gamma(rng, shape) / shape
		}
	}
	return load
}

// placement places experts by the configured strategy and the load of each.
func (r *Router) placement(load []float64) Placement {
	c := r.cfg.Placement
	switch c.Strategy {
	case PlaceStriped:
		return Striped(r.shape.Experts, c.Redundant, r.gpus)
	case PlaceEPLB:
		return EPLB(load, c.Redundant, r.gpus)
	case PlaceEPLBHierarchical:
		return EPLBHierarchical(load, r.shape.groups(), c.Redundant, r.gpus, r.servers)
	}
	return Contiguous(r.shape.Experts, c.Redundant, r.gpus)
}

// placeLayer puts a placement of one layer into effect. A layer that is like the
// one before shares what has been worked out for that.
func (r *Router) placeLayer(i int, p Placement) {
	l := &r.layers[i]
	if i > 0 {
		o := &r.layers[i-1]
		if l.law == o.law && slices.Equal(l.expert, o.expert) && slices.Equal(p.Expert, o.place.Expert) {
			l.place, l.routes = p, o.routes
			return
		}
	}
	r.place(l, p)
}

// place puts a placement into effect.
func (r *Router) place(l *layer, p Placement) {
	l.place = p
	classes := 1
	if r.cfg.CopyChoice == CopyNearest && r.cfg.Placement.Redundant > 0 {
		classes = r.servers
	}
	l.routes = make([]routes, classes)
	number := make([]int32, r.shape.Experts) // in the law, of an expert
	for c, e := range l.expert {
		number[e] = int32(c)
	}
	copies := make([][]int32, r.shape.Experts)
	for slot, e := range p.Expert {
		copies[number[e]] = append(copies[number[e]], int32(slot))
	}
	for class := range l.routes {
		rt := &l.routes[class]
		rt.first = make([]int32, 1, r.shape.Experts+1)
		for _, all := range copies {
			before := len(rt.slots)
			for _, slot := range all {
				if classes > 1 && r.cluster.GPUs[int(slot)/r.slots] == class {
					rt.slots = append(rt.slots, slot)
				}
			}
			if len(rt.slots) == before {
				rt.slots = append(rt.slots, all...)
			}
			rt.first = append(rt.first, int32(len(rt.slots)))
		}
		if len(p.Expert) == r.shape.Experts {
			rt.only = make([]int32, len(p.Expert))
			for slot, e := range p.Expert {
				rt.only[slot] = number[e]
			}
		}
		if r.dedup && r.cfg.Counts != CountExact {
			rt.moments = newMoments(r.gpus + r.servers)
			r.measure(l, rt)
		}
	}
}

// routesOf returns the routes of a rank's tokens.
func (r *Router) routesOf(l *layer, rank int) *routes {
	if len(l.routes) == 1 {
		return &l.routes[0]
	}
	return &l.routes[r.cluster.Ranks[rank]]
}

// Chances returns the probability that a token chooses each expert of a layer.
// They sum to top k; when experts choose, to that times the capacity factor.
func (r *Router) Chances(layer int) []float64 {
	l := &r.layers[layer]
	out := make([]float64, r.shape.Experts)
	for c, e := range l.expert {
		out[e] = r.chance(l, c)
	}
	return out
}

// Placement returns where a layer's experts are now; it is not to be changed.
func (r *Router) Placement(layer int) Placement { return r.layers[layer].place }

// factor is the capacity factor of expert choice.
func (r *Router) factor() float64 {
	if r.cfg.CapacityFactor == 0 {
		return 1
	}
	return r.cfg.CapacityFactor
}

func (r *Router) allocate() {
	s := r.shape
	r.tally = make([]int32, 2*s.Experts)
	r.counts = make([]int32, s.Experts)
	r.choice = make([]uint16, s.TopK)
	r.slotCount = make([]int32, r.gpus*r.slots)
	r.used = make([]int32, max(s.Experts, len(r.cluster.Ranks)))
	r.wanted, r.passed = make([]int64, s.Experts), make([]int64, s.Experts)
	r.share, r.keep = make([]float64, r.gpus*r.slots), make([]float64, r.gpus+r.servers)
	r.serverCount = make([]serverCount, r.servers)
	r.gpuSeen, r.nodeSeen = make([]uint32, r.gpus), make([]uint32, r.servers)
}
