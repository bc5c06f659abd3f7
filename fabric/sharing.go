package fabric

// A link is what changes about a link beside its demand.
type link struct {
	// capacity is its payload rate, in rateUnits.
	capacity int64
	// members are the messages on it, total the sum of their weights.
	members []member
	total   shares
	// dirty links have had transfers come or go since the last solve.
	dirty bool

	// The rest is the solver's, in solve number visited: the capacity not given
	// out, the weight of the transfers that have no speed yet, and all transfers
	// on the link, network.present[from:to].
	visited  uint32
	from, to int32
	spare    int64
	weight   shares
}

// A demand is what those on a link would carry over it if all had speed 1, and
// the link's capacity. Both are in b/s, each term rounded up.
type demand struct{ sum, limit int64 }

// contended tells whether they cannot all have speed 1.
func (d *demand) contended() bool { return d.sum > d.limit }

// A member is a message on a link, and which of the message's links it is.
type member struct{ flow, at int32 }

// A user is a collective with a share over a link, and which of its links it is.
type user struct{ coll, at int32 }

// Who shares with whom. A message is a member of every link of its path. A
// collective has hundreds of links and usually shares none, so it adds its
// demand to a link only when there is someone to share it with; it is then said
// to have joined the link.
//
//   - users lists the collectives over each link, once and for all. A message
//     that joins or leaves a link tells them (collective.near counts those
//     messages), and one that is flowing joins that link at once. A collective
//     that begins with near > 0 joins its links that have messages.
//   - rivals lists the collectives with a common link, once and for all. While
//     two rivals flow (collective.running counts them) both join all their links.
//
// A collective with neither does not look at its links at all.

// join puts a transfer that begins to flow on its links.
func (n *network) join(id int32) {
	f, coll := &n.flows[id], n.fluids[id].coll
	switch {
	case coll >= 0:
		n.joinCollective(n.collectives[coll])
	case f.spread >= 0:
		s := n.spreads[f.spread]
		n.rate(s)
		for at, l := range s.links {
			s.slots[at] = n.add(l, member{id, int32(at)}, s.weight[at])
			n.ask(l, s.bps[at])
			n.announce(l)
		}
	default:
		bps := ceilBps(f.level * int64(f.pairs))
		for i := range f.hops {
			l := f.links[i]
			n.fluids[id].slots[i] = n.add(l, member{id, i}, shares{whole: int64(f.pairs)})
			n.ask(l, bps)
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
		for at, l := range s.links {
			n.remove(l, s.slots[at], s.weight[at])
			n.unask(l, s.bps[at])
			n.retire(l)
		}
	default:
		bps := ceilBps(f.level * int64(f.pairs))
		for i := range f.hops {
			l := f.links[i]
			n.remove(l, n.fluids[id].slots[i], shares{whole: int64(f.pairs)})
			n.unask(l, bps)
			n.retire(l)
		}
	}
}

// announce tells the collectives over link l that a message has joined it.
func (n *network) announce(l int32) {
	for _, u := range n.users[l] {
		c := n.collectives[u.coll]
		c.near++
		if c.flowing {
			n.joinAt(c, u.at)
		}
	}
}

// retire tells them that a message has left it.
func (n *network) retire(l int32) {
	for _, u := range n.users[l] {
		n.collectives[u.coll].near--
	}
}

// joinCollective lets c flow and joins the links that it shares.
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
			if len(n.links[l].members) > 0 {
				n.joinAt(c, int32(at))
			}
		}
	}
}

// leaveCollective takes c off every link that it has joined.
func (n *network) leaveCollective(c *collective) {
	c.flowing = false
	for _, r := range c.rivals {
		r.running--
	}
	if c.everywhere {
		for at, l := range c.spread.links {
			n.unask(l, c.spread.bps[at])
		}
	} else {
		for _, at := range c.joined {
			n.unask(c.spread.links[at], c.spread.bps[at])
		}
	}
	for _, at := range c.joined {
		c.at[at] = false
	}
	c.everywhere, c.joined = false, c.joined[:0]
}

// joinAll joins all the links of c.
func (n *network) joinAll(c *collective) {
	if c.everywhere {
		return
	}
	n.rate(&c.spread)
	for at, l := range c.spread.links {
		if !c.at[at] {
			n.ask(l, c.spread.bps[at])
		}
	}
	c.everywhere = true
}

// joinAt joins one of the links of c, unless it has joined it already.
func (n *network) joinAt(c *collective, at int32) {
	if c.everywhere || c.at[at] {
		return
	}
	n.rate(&c.spread)
	c.at[at] = true
	c.joined = append(c.joined, at)
	n.ask(c.spread.links[at], c.spread.bps[at])
}

// has tells whether c shares link number at of its own with whoever else is on
// it. Without bytes for the link it does not.
func (c *collective) has(at int32) bool {
	return c.flowing && (c.everywhere || c.at[at]) && c.spread.milli[at] > 0
}

// ask adds to the demand on link l.
func (n *network) ask(l int32, bps int64) {
	d := &n.demands[l]
	before := d.contended()
	d.sum += bps
	if d.contended() {
		n.touch(l)
		if !before {
			n.contended++
		}
	}
}

// unask takes from the demand on link l.
func (n *network) unask(l int32, bps int64) {
	d := &n.demands[l]
	before := d.contended()
	d.sum -= bps
	if before {
		n.touch(l)
		if !d.contended() {
			n.contended--
		}
	}
}

// add puts a message on link l and returns its place.
func (n *network) add(l int32, m member, weight shares) int32 {
	k := &n.links[l]
	k.members = append(k.members, m)
	k.total.add(weight)
	return int32(len(k.members) - 1)
}

// remove takes the message at a place off link l.
func (n *network) remove(l, slot int32, weight shares) {
	k := &n.links[l]
	k.total.sub(weight)
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
