package fabric

import (
	"math"

	"github.com/tgssim/tgssim/sim"
)

// The rates are weighted max-min fair (Bertsekas and Gallager, Data Networks,
// 2nd ed., section 6.5.2), extended to transfers whose rate is a vector.
//
// Every transfer k has a level v_k: the rate of one of its shares. A message
// over one queue pair is one share and carries v_k on each link of its path. A
// spread with bytes L_l on link l, whose most loaded link m carries p pairs,
// carries v_k w_l there, w_l = p L_l/L_m: on its most loaded link it counts as
// its number of pairs, elsewhere in proportion to its bytes, and where its pairs
// are alike that is again their number. Alone it reaches the level V_k at which
// m is full, which is speed 1; speed is v_k/V_k.
//
// Rates are fair when every transfer below speed 1 has a bottleneck: a full link
// on which no other has a higher level. Progressive filling finds them: raise
// all levels together; where a link fills, or a transfer reaches speed 1, those
// concerned stay, and the rest goes on.
//
// Only contended links matter, those of which more is asked than there is when
// all have speed 1: no other can fill. What one arrival or departure can change
// is therefore confined to what is reachable from it through contended links and
// the transfers on them; only that is solved again.
//
// Rates and weights are whole numbers, so a sum of them does not depend on the
// order of its terms, and the result not on the order in which transfers came.

// finishSlack is the part of a picosecond by which a completion may be rounded
// down. It is above float64's error on spans below a second, so that a span of
// whole picoseconds does not become one more.
const finishSlack = 1e-3

// solver is the part of network that finds speeds.
type solver struct {
	demands   []demand // per link
	contended int      // number of contended links
	dirty     []int32
	pending   bool   // whether evSolve is scheduled
	round     uint32 // number of the solve
	// visited[t] is twice the last solve that collected transfer t, plus one if
	// t was on a contended link; held counts those that were. frozen[t] is the
	// last solve that gave t a speed; a transfer without one has speed 1.
	visited, frozen []uint32
	held            int
	region          []int32 // transfers to solve for
	present         []int32 // those on each visited link, link by link
	filling         []fill
	changed         []int32
}

// A fill is an entry of the heap of links by the level at which they fill.
type fill struct {
	level float64
	link  int32
}

func (a *fill) before(b *fill) bool {
	return a.level < b.level || a.level == b.level && a.link < b.link
}

// touch notes that the rates on link l must be found again, after all that
// happens at this instant.
func (n *network) touch(l int32) {
	if n.links[l].dirty {
		return
	}
	n.links[l].dirty = true
	n.dirty = append(n.dirty, l)
	if !n.pending {
		n.pending = true
		n.engine.AfterLane(n.solveLane, n.handler, evSolve, 0)
	}
}

// solve finds the speeds of all transfers that may be affected by what came and
// went since the last solve.
func (n *network) solve() {
	n.pending = false
	n.collect()
	n.fill()
	n.apply()
	n.armFinish()
	n.check()
}

// collect finds the region to solve: the transfers on dirty links, and what they
// reach through contended links.
func (n *network) collect() {
	if n.round == maxRound {
		n.forgetRounds()
	}
	n.round++
	n.region, n.present, n.filling, n.held = n.region[:0], n.present[:0], n.filling[:0], 0
	for _, l := range n.dirty {
		n.links[l].dirty = false
		n.visit(l)
	}
	n.dirty = n.dirty[:0]
	for i := 0; i < len(n.region); i++ {
		f := &n.flows[n.region[i]]
		f.next = 1
		if f.spread >= 0 {
			n.followSpread(n.spreads[f.spread])
			continue
		}
		if len(n.filling) == n.contended {
			continue // no link is left to find
		}
		for _, l := range f.links[:f.hops] {
			if n.demands[l].contended() {
				n.visit(l)
			}
		}
	}
}

// maxRound keeps twice the round, and one more, within 32 bits.
const maxRound = 1<<31 - 1

// forgetRounds makes the count of solves start over.
func (n *network) forgetRounds() {
	n.round = 0
	clear(n.visited)
	clear(n.frozen)
	for l := range n.links {
		n.links[l].visited = 0
	}
}

// followSpread visits the contended links of a spread and lists them.
func (n *network) followSpread(s *spread) {
	s.contended = s.contended[:0]
	for at, l := range s.links {
		if n.demands[l].contended() && s.milli[at] > 0 {
			s.contended = append(s.contended, int32(at))
			n.visit(l)
		}
	}
}

// visit adds those on link l to the region, and l to the links to fill.
func (n *network) visit(l int32) {
	k := &n.links[l]
	if k.visited == n.round {
		return
	}
	k.visited = n.round
	k.spare, k.weight = k.capacity, k.total
	k.from = int32(len(n.present))
	mark := 2 * n.round
	if n.demands[l].contended() {
		mark++
	}
	for _, m := range k.members {
		n.meet(m.flow, mark)
	}
	for _, u := range n.users[l] {
		if c := n.collectives[u.coll]; c.has(u.at) {
			k.weight.add(c.spread.weight[u.at])
			n.meet(c.id, mark)
		}
	}
	k.to = int32(len(n.present))
	if mark&1 == 1 {
		n.filling = append(n.filling, fill{k.fillsAt(), l})
	}
}

// meet notes that a transfer is on the link being visited. mark is twice the
// round, plus one if the link is contended.
func (n *network) meet(id int32, mark uint32) {
	n.present = append(n.present, id)
	before := n.visited[id]
	if before >= mark {
		return
	}
	n.visited[id] = mark
	n.held += int(mark & 1)
	if before < mark&^1 {
		n.region = append(n.region, id)
	}
}

// fillsAt is the level at which those without a speed fill the link.
func (l *link) fillsAt() float64 { return float64(l.spare) / l.weight.float() }

// fill gives a speed to every transfer that is held by a contended link. The
// heap's levels are lower bounds: giving one transfer its speed only raises the
// level at which the rest fill its links. So a level is brought up to date when
// it comes first.
func (n *network) fill() {
	for i := len(n.filling)/2 - 1; i >= 0; i-- {
		n.sinkFill(i)
	}
	for n.held > 0 && len(n.filling) > 0 {
		l := n.filling[0].link
		k := &n.links[l]
		if !k.weight.zero() {
			if at := k.fillsAt(); at > n.filling[0].level {
				n.filling[0].level = at
				n.sinkFill(0)
				continue
			}
			// Where only a sliver of a spread is left, the level can be beyond int64.
			level := int64(min(n.filling[0].level, 1<<62))
			if n.freeze(k, max(1, level)) {
				continue
			}
		}
		last := len(n.filling) - 1
		n.filling[0] = n.filling[last]
		n.filling = n.filling[:last]
		if last > 0 {
			n.sinkFill(0)
		}
	}
}

// freeze gives those on a full link their speeds. Transfers that reach speed 1
// below its level go first, and if there are any, the rest must wait for the
// level that they leave: freeze then returns true.
func (n *network) freeze(k *link, level int64) (wait bool) {
	for _, id := range n.present[k.from:k.to] {
		if n.frozen[id] == n.round {
			continue
		}
		if v := n.flows[id].level; v <= level {
			n.give(id, v)
			wait = true
		}
	}
	if wait {
		return true
	}
	for _, id := range n.present[k.from:k.to] {
		if n.frozen[id] != n.round {
			n.give(id, level)
		}
	}
	return false
}

// give gives a transfer its speed and takes its rates from the spare capacity of
// the contended links.
func (n *network) give(id int32, level int64) {
	n.frozen[id] = n.round
	n.held--
	f := &n.flows[id]
	if level < f.level {
		f.next = float64(level) / float64(f.level)
	}
	if f.spread >= 0 {
		s := n.spreads[f.spread]
		for _, at := range s.contended {
			k := &n.links[s.links[at]]
			k.spare -= int64(f.next * float64(s.demand[at]))
			k.weight.sub(s.weight[at])
		}
		return
	}
	for _, l := range f.links[:f.hops] {
		k := &n.links[l]
		k.spare -= level * int64(f.pairs)
		k.weight.whole -= int64(f.pairs)
	}
}

// sinkFill restores the order of the heap of links below place i.
func (n *network) sinkFill(i int) {
	h := n.filling
	c := h[i]
	for {
		k := 2*i + 1
		if k >= len(h) {
			break
		}
		if k+1 < len(h) && h[k+1].before(&h[k]) {
			k++
		}
		if !h[k].before(&c) {
			break
		}
		h[i] = h[k]
		i = k
	}
	h[i] = c
}

// apply moves the transfers of the region to their new speeds. Those whose speed
// has not changed are left alone, and with them the time at which they finish.
func (n *network) apply() {
	n.changed = n.changed[:0]
	for _, id := range n.region {
		if f := &n.flows[id]; f.speed != f.next {
			n.settle(id)
			f.speed = f.next
			n.changed = append(n.changed, id)
		}
	}
	rebuild := len(n.changed) > len(n.flowing)/heapifyAbove
	for _, id := range n.changed {
		at := n.fluids[id].heapAt
		n.flowing[at].at = n.finishOf(id)
		if !rebuild {
			n.fix(int(at))
		}
	}
	if rebuild {
		n.heapify()
	}
}

// heapifyAbove is the share of changed entries from which rebuilding the heap is
// cheaper than mending it.
const heapifyAbove = 8

// settle brings the remaining work of a transfer up to the present.
func (n *network) settle(id int32) {
	f, speed, now := &n.fluids[id], n.flows[id].speed, n.engine.Now()
	if now == f.since {
		return
	}
	f.work = max(0, f.work-float64(speed*float64(now-f.since)))
	f.since = now
	if speed < 1 {
		f.slowed = true
	}
}

// finishOf is when a transfer is through at its present speed. One that has
// never been slowed is through at exactly its time alone; no other is sooner.
func (n *network) finishOf(id int32) sim.Time {
	f, speed := &n.fluids[id], n.flows[id].speed
	alone := satAdd(f.begin, f.solo)
	if !f.slowed && speed == 1 {
		return alone
	}
	left := math.Ceil(float64(f.work/speed) - finishSlack)
	if left >= float64(sim.Never-f.since) {
		return sim.Never
	}
	return max(alone, f.since+sim.Time(left))
}
