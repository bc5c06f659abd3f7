package experts

// A Plan is a new placement of the experts of all layers, which is not in effect
// until it is applied: first the weights have to be moved.
type Plan struct {
	// Placements has one entry per layer.
	Placements []Placement
	// Moves lists the weights to send, layer by layer.
	Moves []Move
	// Before and After are the load of the busiest GPU over the mean, averaged
	// over the layers, for the loads observed.
	Before, After float64
}

// observing tells whether the step is in the window that the next placement rests
// on.
func (r *Router) observing() bool {
	c := r.cfg.Rebalance
	return c != nil && r.steps%c.Every >= c.Every-c.Window
}

// observe adds a layer's rows to the load of its experts.
func (r *Router) observe(l *layer, t *Traffic) {
	if l.observed == nil {
		l.observed = make([]float64, r.shape.Experts)
	}
	for slot, n := range t.Rows {
		l.observed[l.place.Expert[slot]] += float64(n)
	}
}

// EndStep counts a step. When the next placement is due it returns a plan for it,
// from the loads of the window, and otherwise nil. Layers that have not been
// routed in the window stay as they are.
func (r *Router) EndStep() *Plan {
	r.steps++
	if c := r.cfg.Rebalance; c == nil || r.steps%c.Every != 0 {
		return nil
	}
	p := &Plan{}
	for i := range r.layers {
		l := &r.layers[i]
		next := l.place
		if l.observed != nil {
			servers := 1 // all GPUs are alike
			if r.cfg.Placement.Strategy == PlaceEPLBHierarchical {
				servers = r.servers
			}
			next = align(l.place, r.placement(l.observed), servers)
			p.Before += l.place.Imbalance(l.observed) / float64(len(r.layers))
			p.After += next.Imbalance(l.observed) / float64(len(r.layers))
			clear(l.observed)
		} else {
			p.Before += 1 / float64(len(r.layers))
			p.After += 1 / float64(len(r.layers))
		}
		p.Placements = append(p.Placements, next)
		p.Moves = append(p.Moves, Moves(i, l.place, next, r.cluster.GPUs)...)
	}
	return p
}

// Apply puts a plan of this router into effect.
func (r *Router) Apply(p *Plan) {
	for i := range r.layers {
		r.placeLayer(i, p.Placements[i])
	}
}
