package experts

import (
	"math"

	"github.com/tgssim/tgssim/internal/detmath"
)

// expect fills in expectations, in thousandths of a token. What a rank sends is
// rounded so that its sums over consecutive copies are right: the total is exact,
// and each count is within a thousandth. Where a capacity binds, an expert's
// expected choices are cut to it, as if all steps were the mean; for the tokens
// per GPU and server all choices there are taken to be cut alike.
func (r *Router) expect(l *layer, tokens []int, total int, into *Traffic) {
	room := r.capacity(total)
	for rank, n := range tokens {
		n = max(0, n)
		if rank > 0 && n == max(0, tokens[rank-1]) && r.routesOf(l, rank) == r.routesOf(l, rank-1) {
			r.expectAgain(rank, n, into)
			continue
		}
		rt := r.routesOf(l, rank)
		r.shares(l, rt, total, room)
		sum, done := 0., int64(0)
		for slot, p := range r.share {
			sum += float64(float64(n) * p)
			now := thousandths(sum)
			into.Rows[slot] += now - done
			into.Pairs[rank*r.gpus+slot/r.slots] += now - done
			done = now
		}
		into.Sent[rank] = done
		if r.cfg.Choice == ChoiceToken {
			into.Dropped[rank] = int64(n)*int64(r.shape.TopK)*unit - done
		}
		if r.dedup {
			r.expectHits(rt, rank, n, into)
		}
	}
}

// thousandths rounds to the nearest thousandth.
func thousandths(x float64) int64 { return int64(math.Floor(float64(x*unit) + 0.5)) }

// expectAgain copies what the rank before has, whose tokens and routes are the
// same.
func (r *Router) expectAgain(rank, tokens int, into *Traffic) {
	g, s := r.gpus, r.servers
	copy(into.Pairs[rank*g:(rank+1)*g], into.Pairs[(rank-1)*g:])
	if r.dedup {
		copy(into.GPUHits[rank*g:(rank+1)*g], into.GPUHits[(rank-1)*g:])
		copy(into.ServerHits[rank*s:(rank+1)*s], into.ServerHits[(rank-1)*s:])
	}
	into.Sent[rank], into.Dropped[rank] = into.Sent[rank-1], into.Dropped[rank-1]
	sum, done := 0., int64(0)
	for slot, p := range r.share {
		sum += float64(float64(tokens) * p)
		now := thousandths(sum)
		into.Rows[slot] += now - done
		done = now
	}
}

// shares fills in the expected choices of a token for each copy, and what a
// capacity leaves of those for each GPU and server.
func (r *Router) shares(l *layer, rt *routes, total int, room int64) {
	clear(r.share)
	clear(r.keep)
	for c := range r.shape.Experts {
		p := r.chance(l, c)
		switch {
		case r.cfg.Choice == ChoiceExpert && total > 0:
			p = float64(room) / float64(total)
		case float64(total)*p > float64(room):
			p = float64(room) / float64(total)
		}
		from, to := rt.first[c], rt.first[c+1]
		for _, slot := range rt.slots[from:to] {
			gpu := int(slot) / r.slots
			p := p / float64(to-from)
			r.share[slot] += p
			r.keep[gpu] += p
			r.keep[r.gpus+r.cluster.GPUs[gpu]] += p
		}
	}
}

// expectHits fills in the expected tokens of each GPU and server. A server's are
// at least those of its busiest GPU and at most those of all, also where they are
// estimates.
func (r *Router) expectHits(rt *routes, rank, tokens int, into *Traffic) {
	clear(r.serverCount)
	expected := func(set int) int {
		hit, mean := rt.moments.hit[set], rt.moments.mean[set]
		if r.keep[set] != mean && hit > 0 {
			hit = thinned(hit, mean, r.keep[set])
		}
		return int(thousandths(float64(tokens) * hit))
	}
	for g, server := range r.cluster.GPUs {
		n := expected(g)
		into.GPUHits[rank*r.gpus+g] = int64(n)
		s := &r.serverCount[server]
		s.most, s.sum = max(s.most, n), s.sum+n
	}
	for i, s := range r.serverCount {
		into.ServerHits[rank*r.servers+i] = int64(min(s.sum, max(s.most, expected(r.gpus+i))))
	}
}

// thinned is the probability that a token still has a choice in a set when only
// part of the choices there, keep of mean, are left: each is with the same
// probability, and a token with any has mean/hit of them.
func thinned(hit, mean, keep float64) float64 {
	if keep >= mean { // expert choice, rounded up
		return min(1, hit*(keep/mean))
	}
	return hit * (1 - detmath.Pow(1-keep/mean, mean/hit))
}
