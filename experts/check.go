package experts

import "fmt"

// check panics when the traffic of a layer breaks a law of conservation.
func (r *Router) check(tokens []int, t *Traffic) {
	fail := func(format string, args ...any) { panic("experts: " + fmt.Sprintf(format, args...)) }
	rows, sent := int64(0), int64(0)
	for _, n := range t.Rows {
		rows += n
	}
	for rank, n := range tokens {
		pairs := int64(0)
		for _, x := range t.Pairs[rank*t.GPUs : (rank+1)*t.GPUs] {
			pairs += x
		}
		if pairs != t.Sent[rank] {
			fail("rank %d sends %d to GPUs, and %d in all", rank, pairs, t.Sent[rank])
		}
		sent += pairs
		want := int64(max(0, n)) * int64(r.shape.TopK) * unit
		if r.cfg.Choice == ChoiceToken && t.Sent[rank]+t.Dropped[rank] != want {
			fail("rank %d sends %d and drops %d of %d", rank, t.Sent[rank], t.Dropped[rank], want)
		}
		if r.dedup {
			r.checkHits(rank, int64(max(0, n))*unit, t, fail)
		}
	}
	if rows != sent {
		fail("%d arrive of %d", rows, sent)
	}
}

// checkHits checks that tokens are at most choices, but for the rounding of
// expectations, and a server's tokens between the most of a GPU and the sum of
// all.
func (r *Router) checkHits(rank int, tokens int64, t *Traffic, fail func(string, ...any)) {
	slack := int64(0)
	if r.cfg.Counts == CountExpected {
		slack = 2
	}
	for s := range t.Servers {
		most, sum, hits := int64(0), int64(0), t.ServerHits[rank*t.Servers+s]
		for g, server := range r.cluster.GPUs {
			if server != s {
				continue
			}
			h := t.GPUHits[rank*t.GPUs+g]
			if h < 0 || h > t.Pairs[rank*t.GPUs+g]+slack || h > tokens {
				fail("rank %d sends %d of %d tokens to GPU %d, with %d choices", rank, h, tokens, g, t.Pairs[rank*t.GPUs+g])
			}
			most, sum = max(most, h), sum+h
		}
		if hits < most || hits > sum || hits > tokens {
			fail("rank %d sends %d of %d tokens to server %d, whose GPUs get %d to %d", rank, hits, tokens, s, most, sum)
		}
	}
}
