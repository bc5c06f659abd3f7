package experts

import (
	"math"

	"github.com/tgssim/tgssim/internal/invariants"
)

// unit is one token in the counts of a Traffic.
const unit = 1000

// noLimit is the room of an expert that takes all.
const noLimit = math.MaxInt64

// Route fills in the traffic of one layer of one step in which rank i has
// tokens[i] tokens; a negative number counts as 0. layer is from 0, and tokens
// has an entry for every rank. Once into has been used, nothing is allocated but
// for a step with more tokens than any before, and then only where a capacity
// needs all choices at once.
func (r *Router) Route(layer int, tokens []int, into *Traffic) {
	l := &r.layers[layer]
	into.reset(r)
	total := 0
	for _, n := range tokens {
		total += max(0, n)
	}
	switch {
	case r.cfg.Counts == CountExpected:
		r.expect(l, tokens, total, into)
	case r.cfg.Choice == ChoiceExpert && r.cfg.Counts == CountExact:
		r.chooseTokens(l, tokens, total, into)
	case r.cfg.Choice == ChoiceExpert:
		r.countTokens(l, tokens, total)
		r.sendCounts(l, tokens, into)
	default:
		r.routeTokens(l, tokens, total, into)
	}
	for i := range into.Rows {
		if r.cfg.Counts != CountExpected {
			into.Rows[i] *= unit
		}
	}
	if r.observing() {
		r.observe(l, into)
	}
	if invariants.Enabled {
		r.check(tokens, into)
	}
}

// capacity is the most choices that an expert takes.
func (r *Router) capacity(tokens int) int64 {
	if r.cfg.CapacityFactor == 0 && r.cfg.Choice == ChoiceToken {
		return noLimit
	}
	mean := float64(tokens) * float64(r.shape.TopK) / float64(r.shape.Experts)
	room := int64(math.Ceil(mean * r.factor()))
	if r.cfg.Choice == ChoiceExpert {
		room = min(room, int64(tokens))
	}
	return room
}

// routeTokens draws the choices of all ranks and sends them. Where there is a
// capacity, all have chosen before the first is sent.
func (r *Router) routeTokens(l *layer, tokens []int, total int, into *Traffic) {
	room := r.capacity(total)
	together := room < noLimit
	if together {
		r.counts = zeroed(r.counts, len(tokens)*r.shape.Experts)
		if need := total * r.shape.TopK; len(r.choice) < need {
			r.choice = make([]uint16, need)
		}
		clear(r.wanted)
		clear(r.passed)
		at := 0
		for rank, n := range tokens {
			counts := r.rankCounts(rank)
			r.choose(l, max(0, n), counts, r.choice[at:])
			at += max(0, n) * r.shape.TopK
			for c, n := range counts {
				r.wanted[c] += int64(n)
			}
		}
	}
	at := 0
	for rank, n := range tokens {
		n = max(0, n)
		if !r.single(n) {
			counts := r.counts[:r.shape.Experts]
			if together {
				counts = r.rankCounts(rank)
			} else {
				r.law(l).drawCounts(l.pcg, n, counts, r.tally)
			}
			r.sendRank(l, rank, n, counts, room, into)
			at += n * r.shape.TopK
			continue
		}
		rt := r.routesOf(l, rank)
		clear(r.slotCount)
		clear(r.used)
		one := r.choice[:r.shape.TopK]
		for range n {
			if together {
				one = r.choice[at : at+r.shape.TopK]
				at += r.shape.TopK
			} else {
				r.law(l).chooser.choose(l.rng, one)
			}
			r.send(rt, rank, one, room, into)
		}
		r.deliver(rank, into)
	}
}

// sendRank sends what a rank has counted.
func (r *Router) sendRank(l *layer, rank, tokens int, counts []int32, room int64, into *Traffic) {
	rt := r.routesOf(l, rank)
	if rt.only != nil && room == noLimit {
		r.deliverAll(rt, rank, counts, into)
	} else {
		clear(r.slotCount)
		r.spread(rt, rank, counts, room, into)
		r.deliver(rank, into)
	}
	if r.dedup {
		r.estimateHits(l, rt, rank, tokens, into)
	}
}

func (r *Router) law(l *layer) *law { return r.laws[l.law] }

// rankCounts is the part of r.counts that belongs to a rank, when all do.
func (r *Router) rankCounts(rank int) []int32 {
	return r.counts[rank*r.shape.Experts : (rank+1)*r.shape.Experts]
}

// single tells whether the choices of that many tokens are drawn one by one.
func (r *Router) single(tokens int) bool {
	return r.cfg.Counts == CountExact || tokens < aggregateFrom
}

// choose draws the choices of a rank's tokens into counts, and into choices too
// where they are drawn one by one.
func (r *Router) choose(l *layer, tokens int, counts []int32, choices []uint16) {
	if !r.single(tokens) {
		r.law(l).drawCounts(l.pcg, tokens, counts, r.tally)
		return
	}
	k := r.shape.TopK
	for i := range tokens {
		one := choices[i*k : (i+1)*k]
		r.law(l).chooser.choose(l.rng, one)
		for _, c := range one {
			counts[c]++
		}
	}
}

// send sends one token to its experts.
func (r *Router) send(rt *routes, rank int, choice []uint16, room int64, into *Traffic) {
	if r.token++; r.token == 0 { // all stamps are old again
		clear(r.gpuSeen)
		clear(r.nodeSeen)
		r.token = 1
	}
	for _, c := range choice {
		if room < noLimit && r.admitted(int(c), 1, room) == 0 {
			into.Dropped[rank] += unit
			continue
		}
		slot := rt.slot(int32(c), r.used[c]+int32(rank))
		r.used[c]++
		r.slotCount[slot]++
		if !r.dedup {
			continue
		}
		gpu := int(slot) / r.slots
		if r.gpuSeen[gpu] != r.token {
			r.gpuSeen[gpu] = r.token
			into.GPUHits[rank*r.gpus+gpu] += unit
			if server := r.cluster.GPUs[gpu]; r.nodeSeen[server] != r.token {
				r.nodeSeen[server] = r.token
				into.ServerHits[rank*r.servers+server] += unit
			}
		}
	}
}

// admitted is how many of the next n choices of an expert find room: the choices
// that do are spread evenly over all of them, so that no rank is favoured.
func (r *Router) admitted(c int, n, room int64) int64 {
	if r.wanted[c] <= room {
		return n
	}
	before := r.passed[c]
	r.passed[c] += n
	return r.passed[c]*room/r.wanted[c] - before*room/r.wanted[c]
}

// spread shares a rank's counts among the copies.
func (r *Router) spread(rt *routes, rank int, counts []int32, room int64, into *Traffic) {
	for c, n := range counts {
		if n == 0 {
			continue
		}
		if room < noLimit {
			kept := int32(r.admitted(c, int64(n), room))
			into.Dropped[rank] += int64(n-kept) * unit
			n = kept
		}
		from, copies := rt.first[c], rt.first[c+1]-rt.first[c]
		if copies == 1 {
			r.slotCount[rt.slots[from]] += n
			continue
		}
		each, more := n/copies, n%copies
		for i := range copies {
			x := each
			if i < more {
				x++
			}
			r.slotCount[rt.slots[from+(i+int32(rank))%copies]] += x
		}
	}
}

// deliver adds what a rank sends to each copy.
func (r *Router) deliver(rank int, into *Traffic) {
	pairs := into.Pairs[rank*r.gpus : (rank+1)*r.gpus]
	sent := int64(0)
	for g := range pairs {
		sum := int64(0)
		for i, n := range r.slotCount[g*r.slots : (g+1)*r.slots] {
			into.Rows[g*r.slots+i] += int64(n)
			sum += int64(n)
		}
		pairs[g] = sum * unit
		sent += sum
	}
	into.Sent[rank] = sent * unit
}

// deliverAll is spread and deliver where each expert has one copy and room for all.
func (r *Router) deliverAll(rt *routes, rank int, counts []int32, into *Traffic) {
	sent := int64(0)
	for g := range r.gpus {
		rows, sum := into.Rows[g*r.slots:(g+1)*r.slots], int64(0)
		for i, c := range rt.only[g*r.slots : (g+1)*r.slots] {
			n := int64(counts[c])
			rows[i] += n
			sum += n
		}
		into.Pairs[rank*r.gpus+g] = sum * unit
		sent += sum
	}
	into.Sent[rank] = sent * unit
}

// A serverCount sums up what a rank sends to the GPUs of a server.
type serverCount struct{ choices, most, sum int }

// estimateHits draws how many tokens of a rank go to each GPU and server at least
// once, given how many choices do: the best linear estimate, with the variance
// that it leaves. What is possible bounds it: a server gets at least the tokens
// of its busiest GPU and at most those of all.
func (r *Router) estimateHits(l *layer, rt *routes, rank, tokens int, into *Traffic) {
	clear(r.serverCount)
	pairs := into.Pairs[rank*r.gpus : (rank+1)*r.gpus]
	for g, n := range pairs {
		choices := int(n / unit)
		h := choices
		if r.slots > 1 {
			h = r.estimateHit(l, &rt.moments, g, choices, tokens, 0, choices)
		}
		into.GPUHits[rank*r.gpus+g] = int64(h) * unit
		s := &r.serverCount[r.cluster.GPUs[g]]
		s.choices, s.most, s.sum = s.choices+choices, max(s.most, h), s.sum+h
	}
	for i, s := range r.serverCount {
		h := r.estimateHit(l, &rt.moments, r.gpus+i, s.choices, tokens, s.most, s.sum)
		into.ServerHits[rank*r.servers+i] = int64(h) * unit
	}
}

// estimateHit draws the tokens with a choice in a set, of which there are that
// many. The covariance of a token's number of choices in the set with whether
// there are any is the mean of the number times the probability of none.
func (r *Router) estimateHit(l *layer, m *moments, set, choices, tokens, lo, hi int) int {
	most := min(r.shape.Experts, r.shape.TopK)
	if r.cfg.Choice == ChoiceExpert {
		most = r.shape.Experts
	}
	lo, hi = max(lo, (choices+most-1)/most), min(hi, choices, tokens)
	if lo >= hi {
		return hi
	}
	covariance := m.mean[set] * (1 - m.hit[set])
	slope := 0.
	if m.variance[set] > 0 {
		slope = min(1, covariance/m.variance[set])
	}
	t := float64(tokens)
	mean := float64(t*m.hit[set]) + float64(slope*(float64(choices)-float64(t*m.mean[set])))
	left := float64(m.hit[set]*(1-m.hit[set])) - float64(slope*covariance)
	return bounded(l.pcg, mean, t*max(0, left), lo, hi)
}
