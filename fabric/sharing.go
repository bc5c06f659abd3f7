package fabric

// A link is what changes about a link: who is on it.
type link struct {
	// capacity is its payload rate, in rateUnits.
	capacity int64
	// demand is the sum of what its members carry over it at speed 1, each
	// rounded up, and demandable its capacity, rounded up, both in b/s.
	demand, demandable int64
	// total is the sum of the members' weights.
	total   shares
	members []member
	// spare and weight are the solver's, in solve number visited: capacity not
	// given out, and weight of the members that have no speed yet.
	spare   int64
	weight  shares
	visited uint32
	// dirty links have had members come or go since the last solve.
	dirty bool
}

// contended tells whether the members cannot all have speed 1.
func (l *link) contended() bool { return l.demand > l.demandable }

// A member is a transfer on a link, and which of the transfer's links it is.
type member struct{ flow, at int32 }

// A user is a collective with a share over a link, and which of its links it is.
type user struct{ coll, at int32 }

// Who shares with whom. A message joins every link of its path. A collective
// has hundreds of links and usually shares none, so it joins a link only when
// there is someone to share it with:
//
//   - users lists the collectives over each link, once and for all. A message
//     that joins or leaves a link tells them (collective.near counts those
//     messages), and a running one joins that link at once. A collective that
//     begins with near > 0 joins its links that have messages.
//   - rivals lists the collectives with a common link, once and for all. While
//     two rivals run (collective.running counts them) both join all their links.
//
// A collective with neither neither joins nor is looked at.

// join puts a transfer that begins to flow on its links.
func (n *network) join(id int32) {
	f, coll := &n.flows[id], n.fluids[id].coll
	switch {
	case coll >= 0:
		n.joinCollective(n.collectives[coll])
	case f.spread >= 0:
		s := n.spreads[f.spread]
		for at, l := range s.links {
			n.joinSpread(id, s, int32(at))
			n.announce(l)
		}
	default:
		bps := ceilBps(f.level * int64(f.pairs))
		for i := range f.hops {
			l := f.links[i]
			n.fluids[id].slots[i] = n.add(l, member{id, i}, shares{whole: int64(f.pairs)}, bps)
			n.announce(l)
		}
	}
}

// leave takes a transfer that is through off its links.
func (n *network) leave(id int32) {
	f, coll := &n.flows[id], n.fluids[id].coll
	switch {
	case coll >= 0:
		n.leaveCollective(n.collectives[coll])
	case f.spread >= 0:
		s := n.spreads[f.spread]
		n.leaveSpread(s)
		for _, l := range s.links {
			n.retire(l)
		}
	default:
		bps := ceilBps(f.level * int64(f.pairs))
		for i := range f.hops {
			n.remove(f.links[i], n.fluids[id].slots[i], shares{whole: int64(f.pairs)}, bps)
			n.retire(f.links[i])
		}
	}
}

// announce tells the collectives over link l that a message has joined it.
func (n *network) announce(l int32) {
	n.messages[l]++
	for _, u := range n.users[l] {
		c := n.collectives[u.coll]
		c.near++
		if c.flowing {
			n.joinSpread(c.id, &c.spread, u.at)
		}
	}
}

// retire tells them that a message has left it.
func (n *network) retire(l int32) {
	n.messages[l]--
	for _, u := range n.users[l] {
		n.collectives[u.coll].near--
	}
}

// joinCollective lets c flow and puts it on the links that it shares.
func (n *network) joinCollective(c *collective) {
	c.flowing = true
	for _, r := range c.rivals {
		r.running++
		if r.flowing {
			n.joinAll(r)
		}
	}
	switch {
	case c.running > 0:
		n.joinAll(c)
	case c.near > 0:
		for at, l := range c.spread.links {
			if n.messages[l] > 0 {
				n.joinSpread(c.id, &c.spread, int32(at))
			}
		}
	}
}

// leaveCollective takes c off every link.
func (n *network) leaveCollective(c *collective) {
	c.flowing, c.everywhere = false, false
	for _, r := range c.rivals {
		r.running--
	}
	n.leaveSpread(&c.spread)
}

// joinAll puts c on all its links.
func (n *network) joinAll(c *collective) {
	if c.everywhere {
		return
	}
	c.everywhere = true
	for at := range c.spread.links {
		n.joinSpread(c.id, &c.spread, int32(at))
	}
}

// joinSpread puts a spread on one of its links, unless it is there already or
// has no bytes for it.
func (n *network) joinSpread(id int32, s *spread, at int32) {
	if s.slots[at] >= 0 || s.milli[at] == 0 {
		return
	}
	if !s.rated {
		n.rate(s)
	}
	s.joined = append(s.joined, at)
	s.slots[at] = n.add(s.links[at], member{id, at}, s.weight[at], ceilBps(s.demand[at]))
}

// leaveSpread takes a spread off the links that it has joined.
func (n *network) leaveSpread(s *spread) {
	for _, at := range s.joined {
		n.remove(s.links[at], s.slots[at], s.weight[at], ceilBps(s.demand[at]))
		s.slots[at] = -1
	}
	s.joined = s.joined[:0]
}

// add puts a member on link l and returns its place.
func (n *network) add(l int32, m member, weight shares, bps int64) int32 {
	k := &n.links[l]
	k.members = append(k.members, m)
	before := k.contended()
	k.demand += bps
	k.total.add(weight)
	if k.contended() {
		n.touch(l)
		if !before {
			n.contended++
		}
	}
	return int32(len(k.members) - 1)
}

// remove takes the member at a place off link l.
func (n *network) remove(l, slot int32, weight shares, bps int64) {
	k := &n.links[l]
	before := k.contended()
	k.demand -= bps
	k.total.sub(weight)
	if before {
		n.touch(l)
		if !k.contended() {
			n.contended--
		}
	}
	last := int32(len(k.members) - 1)
	moved := k.members[last]
	k.members = k.members[:last]
	if slot == last {
		return
	}
	k.members[slot] = moved
	if spread := n.flows[moved.flow].spread; spread >= 0 {
		n.spreads[spread].slots[moved.at] = slot
	} else {
		n.fluids[moved.flow].slots[moved.at] = slot
	}
}
