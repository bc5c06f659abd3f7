package experts

// Moments are what one token of a rank does to sets of copies, one set for each
// GPU and then one for each server.
type moments struct {
	// mean is the expected number of the token's choices in the set, variance its
	// variance, and hit the probability of at least one.
	mean, variance, hit []float64
}

func newMoments(sets int) moments {
	return moments{make([]float64, sets), make([]float64, sets), make([]float64, sets)}
}

// hitUniform returns the probability that a token chooses at least one of a set
// of experts, held[g] of group g, when the groups that it chooses from, and the
// experts in them, are equally likely: over the number of the set's experts in
// the chosen groups, then hypergeometric. For consecutive experts it is
// collective.Experts.Hit.
func hitUniform(s Shape, held []int) float64 {
	groups, top := 1, 1
	if s.limited() {
		groups, top = s.Groups, s.TopGroups
	}
	size, all := s.Experts/groups, 0
	for _, h := range held {
		all += h
	}
	// ways[j][h]: choices of j groups that hold h of the set.
	ways := make([][]float64, top+1)
	for j := range ways {
		ways[j] = make([]float64, all+1)
	}
	ways[0][0] = 1
	total := 0.
	for _, n := range held {
		for j := top; j > 0; j-- {
			for h := all; h >= n; h-- {
				ways[j][h] += ways[j-1][h-n]
			}
		}
	}
	for _, w := range ways[top] {
		total += w
	}
	miss := 0.
	for h, w := range ways[top] {
		if w > 0 {
			miss += float64(w / total * missAll(top*size, h, s.TopK))
		}
	}
	return 1 - miss
}

// missAll is the probability that k draws without replacement from n items avoid
// a marked subset of m.
func missAll(n, m, k int) float64 {
	p := 1.
	for i := range k {
		if n-m-i <= 0 {
			return 0
		}
		p *= float64(n-m-i) / float64(n-i)
	}
	return p
}

// measure fills in the moments of a layer's routes from the choices of the law's
// sample; means are the law's. A hit is estimated with the mean, which is known
// better, as control variate: the covariance of a token's number of choices in a
// set with whether there are any is the mean times the probability of none.
func (r *Router) measure(l *layer, rt *routes) {
	gpus := r.gpus
	m := &rt.moments
	r.means(l, rt)
	if r.cfg.Choice == ChoiceExpert {
		r.measureExpertChoice(rt)
		return
	}
	law := r.laws[l.law]
	k := r.shape.TopK
	if len(law.sample) == 0 { // not needed: see makeLaws
		r.measureUniform(l, rt)
		return
	}
	sets := len(m.mean)
	sum, square, hit := make([]float64, sets), make([]float64, sets), make([]float64, sets)
	count := make([]int32, sets)
	used := make([]int32, r.shape.Experts)
	sample := law.sample[:min(len(law.sample), samplesHits*k)]
	for i := 0; i < len(sample); i += k {
		choice := sample[i : i+k]
		var at [2 * maxTopK]int32
		for j, c := range choice {
			gpu := rt.slot(int32(c), used[c]) / int32(r.slots)
			used[c]++
			at[2*j], at[2*j+1] = gpu, int32(gpus+r.cluster.GPUs[gpu])
			count[at[2*j]]++
			count[at[2*j+1]]++
		}
		for _, set := range at[:2*k] {
			if n := count[set]; n > 0 {
				sum[set] += float64(n)
				square[set] += float64(n * n)
				hit[set]++
				count[set] = 0
			}
		}
	}
	tokens := float64(len(sample) / k)
	for i := range m.mean {
		if sum[i] == 0 {
			m.hit[i] = min(1, m.mean[i])
			m.variance[i] = m.mean[i]
			continue
		}
		mean, h := sum[i]/tokens, hit[i]/tokens
		m.variance[i] = max(0, square[i]/tokens-float64(mean*mean))
		slope := 0.
		if m.variance[i] > 0 {
			slope = min(1, mean*(1-h)/m.variance[i])
		}
		m.hit[i] = max(0, min(1, m.mean[i], h+float64(slope*(m.mean[i]-mean))))
	}
	if r.uniform() {
		r.measureUniform(l, rt)
	}
}

// means fills in the expected choices.
func (r *Router) means(l *layer, rt *routes) {
	m := &rt.moments
	clear(m.mean)
	for c := range r.shape.Experts {
		from, to := rt.first[c], rt.first[c+1]
		for _, slot := range rt.slots[from:to] {
			gpu := int(slot) / r.slots
			share := r.chance(l, c) / float64(to-from)
			m.mean[gpu] += share
			m.mean[r.gpus+r.cluster.GPUs[gpu]] += share
		}
	}
}

// chance is the probability that a token and the expert that the law of the
// layer numbers c come together.
func (r *Router) chance(l *layer, c int) float64 {
	if r.cfg.Choice == ChoiceExpert {
		return min(1, r.factor()*float64(r.shape.TopK)/float64(r.shape.Experts))
	}
	return r.laws[l.law].p[c]
}

// uniform tells whether hits have the closed form: equal popularity, groups by
// lot and one copy of each expert.
func (r *Router) uniform() bool {
	return r.cfg.Popularity.Kind == PopularityBalanced && r.cfg.Choice == ChoiceToken && r.cfg.Placement.Redundant == 0 &&
		(!r.shape.limited() || r.cfg.GroupChoice == GroupRandom)
}

// measureUniform fills in the hits by the closed form.
func (r *Router) measureUniform(l *layer, rt *routes) {
	groups := 1
	if r.shape.limited() {
		groups = r.shape.Groups
	}
	held := make([][]int, len(rt.moments.hit))
	for i := range held {
		held[i] = make([]int, groups)
	}
	for c, slot := range rt.slots { // one copy each
		gpu := int(slot) / r.slots
		group := c / (r.shape.Experts / groups)
		held[gpu][group]++
		held[r.gpus+r.cluster.GPUs[gpu]][group]++
	}
	for i := range held {
		rt.moments.hit[i] = hitUniform(r.shape, held[i])
	}
}

// measureExpertChoice fills in the moments when every expert chooses its tokens
// independently of the others.
func (r *Router) measureExpertChoice(rt *routes) {
	m := &rt.moments
	f := r.chance(nil, 0)
	clear(m.variance)
	for i := range m.hit {
		m.hit[i] = 1 // the miss, until the end
	}
	for c := range r.shape.Experts {
		from, to := rt.first[c], rt.first[c+1]
		share := f / float64(to-from)
		held := map[int]float64{}
		for _, slot := range rt.slots[from:to] {
			gpu := int(slot) / r.slots
			held[gpu] += share
			held[r.gpus+r.cluster.GPUs[gpu]] += share
		}
		// order: each set has its own sums
		for set, p := range held {
			m.variance[set] += float64(p * (1 - p))
			m.hit[set] *= 1 - p
		}
	}
	for i := range m.hit {
		m.hit[i] = 1 - m.hit[i]
	}
}
