package experts

import (
	"math/rand/v2"

	"github.com/tgssim/tgssim/internal/detmath"
)

// chooseTokens lets every expert choose its tokens, one by one, among those of
// all ranks. Scores are independent of each other, so each expert's choice is
// uniform.
func (r *Router) chooseTokens(l *layer, tokens []int, total int, into *Traffic) {
	if total == 0 {
		return
	}
	room := int(r.capacity(total))
	r.shuffle, r.rankOf = zeroed(r.shuffle, total), zeroed(r.rankOf, total)
	at := 0
	for rank, n := range tokens {
		for range n {
			r.shuffle[at], r.rankOf[at] = int32(at), int32(rank)
			at++
		}
	}
	words := (r.gpus + r.servers + 63) / 64
	if r.dedup {
		r.seen = zeroed(r.seen, total*words)
	}
	for c := range r.shape.Experts {
		clear(r.used)
		for i := range room { // the first of a shuffle, from whatever order
			j := i + l.rng.IntN(total-i)
			r.shuffle[i], r.shuffle[j] = r.shuffle[j], r.shuffle[i]
			token := int(r.shuffle[i])
			rank := int(r.rankOf[token])
			slot := r.routesOf(l, rank).slot(int32(c), r.used[rank]+int32(rank))
			r.used[rank]++
			gpu := int(slot) / r.slots
			into.Rows[slot]++
			into.Pairs[rank*r.gpus+gpu] += unit
			into.Sent[rank] += unit
			if !r.dedup {
				continue
			}
			server := r.cluster.GPUs[gpu]
			if mark(r.seen[token*words:], gpu) {
				into.GPUHits[rank*r.gpus+gpu] += unit
			}
			if mark(r.seen[token*words:], r.gpus+server) {
				into.ServerHits[rank*r.servers+server] += unit
			}
		}
	}
}

// mark sets a bit, and tells whether it was not set.
func mark(words []uint64, bit int) bool {
	w, b := &words[bit/64], uint64(1)<<(bit%64)
	fresh := *w&b == 0
	*w |= b
	return fresh
}

// countTokens draws how many tokens of each rank every expert chooses, rank after
// rank: hypergeometric in mean and variance.
func (r *Router) countTokens(l *layer, tokens []int, total int) {
	r.counts = zeroed(r.counts, len(tokens)*r.shape.Experts)
	room := int(r.capacity(total))
	for c := range r.shape.Experts {
		left, more := total, room
		for rank, n := range tokens {
			n = max(0, n)
			if n == 0 {
				continue
			}
			x := drawShare(l.pcg, n, left, more)
			r.counts[rank*r.shape.Experts+c] = int32(x)
			left, more = left-n, more-x
		}
	}
}

// drawShare draws how many of m tokens, chosen among left, are among the first n.
func drawShare(rng *rand.PCG, n, left, m int) int {
	lo, hi := max(0, m-(left-n)), min(m, n)
	if lo == hi {
		return lo
	}
	p := float64(n) / float64(left)
	mean := float64(m) * p
	if mean < 9 && p <= 0.5 { // skewed: less than three standard deviations
		s := split{chance: p, logMiss: detmath.Log1p(-p)}
		return min(hi, s.invert(rng, m))
	}
	return near(rng, mean, mean*(1-p)*float64(left-m)/float64(left-1), lo, hi)
}

// sendCounts sends what countTokens has counted.
func (r *Router) sendCounts(l *layer, tokens []int, into *Traffic) {
	clear(r.wanted) // nothing is dropped
	for rank, n := range tokens {
		r.sendRank(l, rank, max(0, n), r.rankCounts(rank), noLimit, into)
	}
}
