package serving

import (
	"math/rand/v2"
	"strconv"
)

// A draftLog is how many tokens the steps to come will make beside the one that
// every running request gets. It is kept per rank because all that a step needs
// of the drafts is their sum.
//
// What becomes of a request's drafts is drawn when it joins the batch, for all of
// its steps at once, so that a step costs nothing per request. Nothing looks at a
// draw before its step.
type draftLog struct {
	// ring holds the sums by step, modulo its length, a power of two.
	ring []int64
}

// add counts n accepted drafts for a step, of which the furthest that is noted
// is below now + len(ring).
func (l *draftLog) add(now, step, n int64) {
	for step-now >= int64(len(l.ring)) {
		grown := make([]int64, max(64, 2*len(l.ring)))
		for s := now; s < now+int64(len(l.ring)); s++ {
			grown[s&int64(len(grown)-1)] = l.ring[s&int64(len(l.ring)-1)]
		}
		l.ring = grown
	}
	l.ring[step&int64(len(l.ring)-1)] += n
}

// take returns the sum of a step, and forgets it.
func (l *draftLog) take(step int64) int64 {
	if len(l.ring) == 0 {
		return 0
	}
	at := &l.ring[step&int64(len(l.ring)-1)]
	n := *at
	*at = 0
	return n
}

// draft draws what becomes of the drafts of a request that joins the batch at
// step first, and returns its last step. The draws come from a stream of the
// request's own: they depend on the seed and on its ID, and on nothing that
// happens to it.
func (r *rank) draft(q *request, first int64) (last int64) {
	p := r.instance.pool
	rng := p.c.opt.Streams.Stream("mtp/" + strconv.Itoa(q.ID))
	last = first
	for left := q.OutputTokens; ; last++ {
		kept := min(left-1, accepted(rng, p.cfg.MTP))
		if kept > 0 {
			r.drafts.add(first, last, int64(kept))
		}
		if left -= 1 + kept; left == 0 {
			return last
		}
	}
}

// accepted draws how many drafts of a step are accepted: those before the first
// that is not.
func accepted(rng *rand.Rand, c MTPConfig) (n int) {
	for n < c.drafts() && rng.Float64() < c.Acceptance {
		n++
	}
	return n
}
