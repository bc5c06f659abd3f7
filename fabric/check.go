package fabric

import (
	"fmt"

	"github.com/tgssim/tgssim/internal/invariants"
)

// checkTolerance is the relative error up to which a link is full and levels
// are equal. Rounding rates down leaves a rateUnit per share unused besides.
const checkTolerance = 1e-9

// check panics when the rates are not feasible and max-min fair, or when bytes
// or messages have been lost. It looks at every transfer and link, joined or
// not, and does nothing unless built with the invariants tag.
func (n *network) check() {
	if !invariants.Enabled {
		return
	}
	used := make([]float64, len(n.links))
	top := make([]float64, len(n.links))   // highest level on the link
	count := make([]float64, len(n.links)) // shares of the link
	for i := range n.flowing {
		level := n.levelOf(n.flowing[i].id)
		n.eachRate(n.flowing[i].id, func(l int32, rate float64) {
			used[l] += rate
			top[l] = max(top[l], level)
			count[l] += 1 + float64(n.flows[n.flowing[i].id].pairs)
		})
	}
	for l := range n.links {
		// A demand counts in b/s: one of them may be too much without contention.
		if c := float64(n.links[l].capacity); used[l] > float64(c*(1+checkTolerance))+rateUnit {
			panic(fmt.Sprintf("fabric: link %s carries %g of its capacity", n.graph.Links[l].Name, used[l]/c))
		}
	}
	for i := range n.flowing {
		f := &n.flows[n.flowing[i].id]
		if f.speed <= 0 || f.speed > 1 {
			panic(fmt.Sprintf("fabric: transfer %d has speed %g", n.flowing[i].id, f.speed))
		}
		bottlenecked := f.speed == 1 // its own most loaded link is full
		level := n.levelOf(n.flowing[i].id)
		n.eachRate(n.flowing[i].id, func(l int32, _ float64) {
			full := used[l] >= float64(float64(n.links[l].capacity)*(1-checkTolerance))-count[l]
			bottlenecked = bottlenecked || full && level >= float64(top[l]*(1-checkTolerance))-1
		})
		if !bottlenecked {
			panic(fmt.Sprintf("fabric: transfer %d at speed %g has no bottleneck", n.flowing[i].id, f.speed))
		}
	}
	n.checkAccount()
}

// levelOf is the rate of one share of a flowing transfer.
func (n *network) levelOf(id int32) float64 {
	return n.flows[id].speed * float64(n.flows[id].level)
}

// eachRate calls f with each link that a flowing transfer has bytes for and the
// rate on it, in rateUnits.
func (n *network) eachRate(id int32, f func(link int32, rate float64)) {
	fl := &n.flows[id]
	if fl.spread >= 0 {
		s := n.spreads[fl.spread]
		n.rate(s)
		for i, l := range s.links {
			if s.milli[i] > 0 {
				f(l, fl.speed*float64(s.demand[i]))
			}
		}
		return
	}
	for _, l := range fl.links[:fl.hops] {
		f(l, fl.speed*float64(fl.level*int64(fl.pairs)))
	}
}

// checkAccount recounts what is in flight, transfer by transfer.
func (n *network) checkAccount() {
	var bytes [NumClasses]volume
	var count [NumClasses]int64
	for id := range n.jobs {
		if j := &n.jobs[id]; j.live {
			bytes[j.class].add(j.milli, 1)
			count[j.class]++
		}
	}
	for c := range NumClasses {
		sum := n.delivered[c]
		sum.add(bytes[c].milli, 1)
		sum.bytes += bytes[c].bytes
		if sum != n.sent[c] || n.deliveredCount[c]+count[c] != n.sentCount[c] {
			panic(fmt.Sprintf("fabric: class %v sent %v in %d messages, delivered and in flight are %v in %d",
				c, n.sent[c], n.sentCount[c], sum, n.deliveredCount[c]+count[c]))
		}
	}
}
