package congestion

import (
	"fmt"

	"github.com/tgssim/tgssim/internal/invariants"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// A SourceID names a source within its CreditScheduler. IDs of closed sources are
// reused.
type SourceID int32

// noSource ends the ring.
const noSource SourceID = -1

// A CreditScheduler grants the sources of one link the right to send: the
// receiving NIC's in UEC's credits, the egress port's in GSE. Sources with a
// request take turns; a grant is made whenever the pace allows one and no more
// than the bound is outstanding. What is under way is at most that bound and, as
// sources may be in debt for the rest of a packet, a packet per source.
//
// Requests and grants are totals since the source was opened, so that a message
// that is lost, or overtaken, is made good by the next one.
type CreditScheduler struct {
	quantum         units.Bytes
	packet          units.Bytes // the longest: the largest debt of a source
	most, mostEach  units.Bytes // outstanding
	pace            units.Rate
	timeout         sim.Time
	weighted        bool
	sources         []creditSource
	free            []SourceID
	head, tail      SourceID // of the ring of those that can be granted
	outstanding     units.Bytes
	pushed          units.Bytes // in the link's queue without a grant
	next            sim.Time    // when the pace allows the next grant
	granted, grants int64
}

// A creditSource is 48 bytes.
type creditSource struct {
	requested, granted units.Bytes // totals
	outstanding        units.Bytes
	heard              sim.Time // of the last grant, request or arrival
	next               SourceID
	weight, turns      uint16 // grants a turn, and made in this one
	open, waiting      bool   // in use; in the ring
}

// NewCreditScheduler makes the scheduler of a link of a rate, whose grants bring
// data after a round trip without queues of rtt, in packets of at most so many
// bytes on the wire. It fails when c is not valid.
func NewCreditScheduler(c CreditConfig, rate units.Rate, rtt sim.Time, packet units.Bytes) (*CreditScheduler, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := lineRate(rate); err != nil {
		return nil, err
	}
	if err := roundTrip(rtt); err != nil {
		return nil, err
	}
	if packet < 1 || packet > 16*units.MiB {
		return nil, fmt.Errorf("packets of %v are out of range; use 1B to 16MiB", packet)
	}
	return &CreditScheduler{
		quantum: c.Quantum, packet: packet,
		most: max(c.Quantum, product(c.Outstanding, rate, rtt)), mostEach: max(c.Quantum, product(c.SourceOutstanding, rate, rtt)),
		pace: max(1, units.Rate(float64(rate)*c.Speedup)), timeout: c.Timeout, weighted: c.Order == OrderWeighted,
		head: noSource, tail: noSource,
	}, nil
}

// roundTrip requires a round trip that products can be computed of.
func roundTrip(rtt sim.Time) error {
	if rtt <= 0 || rtt > maxTimer {
		return fmt.Errorf("a round trip of %v is out of range; use above 0 up to %v", rtt, maxTimer)
	}
	return nil
}

// Open adds a source with a weight, at least 1, that counts when the order is
// "weighted".
func (c *CreditScheduler) Open(weight int) SourceID {
	s := creditSource{next: noSource, weight: c.weight(weight), open: true}
	if n := len(c.free); n > 0 {
		id := c.free[n-1]
		c.free = c.free[:n-1]
		c.sources[id] = s
		return id
	}
	c.sources = append(c.sources, s)
	return SourceID(len(c.sources) - 1)
}

// Weigh gives a source another weight, from its next grant on.
func (c *CreditScheduler) Weigh(id SourceID, weight int) { c.sources[id].weight = c.weight(weight) }

// weight is the grants a turn of a source of a weight.
func (c *CreditScheduler) weight(w int) uint16 {
	if !c.weighted {
		return 1
	}
	return uint16(min(max(w, 1), 1<<15))
}

// Close removes a source, whatever it has asked for. What it was granted and has
// not sent is outstanding no more; if it arrives after all, call nothing.
func (c *CreditScheduler) Close(id SourceID) {
	s := &c.sources[id]
	if !s.open {
		return
	}
	c.outstanding -= s.outstanding
	if s.waiting {
		c.unlink(id)
	}
	*s = creditSource{next: noSource}
	c.free = append(c.free, id)
}

// unlink takes a source out of the middle of the ring: rare.
func (c *CreditScheduler) unlink(id SourceID) {
	before := noSource
	for at := c.head; at != id; at = c.sources[at].next {
		before = at
	}
	next := c.sources[id].next
	if before == noSource {
		c.head = next
	} else {
		c.sources[before].next = next
	}
	if c.tail == id {
		c.tail = before
	}
	c.sources[id].waiting = false
}

// OnRequest takes in a request: the total that a source wants granted, bytes on
// the wire. A lower total than the last one takes back what has not been granted.
func (c *CreditScheduler) OnRequest(id SourceID, now sim.Time, total units.Bytes) {
	s := &c.sources[id]
	if !s.open {
		return
	}
	s.requested, s.heard = max(total, s.granted), now
	c.line(id)
}

// OnArrive reports that so many bytes of a source that use credit have arrived, or
// that it has given them back. A source may be in debt for a packet; the
// scheduler thinks of no debt larger than a grant.
func (c *CreditScheduler) OnArrive(id SourceID, now sim.Time, n units.Bytes) {
	s := &c.sources[id]
	if !s.open {
		return
	}
	n = min(n, s.outstanding+c.packet)
	s.outstanding -= n
	c.outstanding -= n
	s.heard = now
	c.line(id)
}

// OnPush reports bytes that have come without a grant and wait at the link, and
// OnPushGone that they have left. They count as outstanding meanwhile. An
// owner that does not see the queue of its link, such as a NIC, calls neither.
func (c *CreditScheduler) OnPush(n units.Bytes)     { c.pushed += n }
func (c *CreditScheduler) OnPushGone(n units.Bytes) { c.pushed -= n }

// wants is the next grant of a source, 0 when it has none coming.
func (c *CreditScheduler) wants(s *creditSource) units.Bytes {
	n := min(c.quantum, s.requested-s.granted)
	if s.outstanding > 0 && s.outstanding+n > c.mostEach {
		return 0
	}
	return n
}

// line puts a source that can be granted something at the end of the ring.
func (c *CreditScheduler) line(id SourceID) {
	s := &c.sources[id]
	if s.waiting || c.wants(s) <= 0 {
		return
	}
	s.waiting, s.turns, s.next = true, 0, noSource
	if c.head == noSource {
		c.head = id
	} else {
		c.sources[c.tail].next = id
	}
	c.tail = id
}

// settle drops sources at the head that can no longer be granted anything: they
// have taken their request back.
func (c *CreditScheduler) settle() {
	for c.head != noSource && c.wants(&c.sources[c.head]) <= 0 {
		c.pop()
	}
}

func (c *CreditScheduler) pop() {
	s := &c.sources[c.head]
	s.waiting = false
	c.head = s.next
	if c.head == noSource {
		c.tail = noSource
	}
}

// blocked says whether the next grant would exceed the bound. Where nothing is
// outstanding there is always room for one.
func (c *CreditScheduler) blocked() bool {
	used := c.outstanding + c.pushed
	return used > 0 && used+c.wants(&c.sources[c.head]) > c.most
}

// Next is the earliest instant of the next grant, or sim.Never while there is
// nothing to grant or too much outstanding. Requests, arrivals, closed sources
// and expiries can change it.
func (c *CreditScheduler) Next(now sim.Time) sim.Time {
	c.settle()
	if c.head == noSource || c.blocked() {
		return sim.Never
	}
	return max(now, c.next)
}

// Grant makes the grant that is due: to whom, and the new total. It makes none
// before Next.
func (c *CreditScheduler) Grant(now sim.Time) (id SourceID, total units.Bytes, ok bool) {
	if c.Next(now) > now {
		return noSource, 0, false
	}
	id = c.head
	s := &c.sources[id]
	n := c.wants(s)
	s.granted += n
	s.outstanding += n
	s.heard = now
	c.outstanding += n
	c.granted += int64(n)
	c.grants++
	c.next = max(c.next, now) + sendTime(c.pace, n)
	s.turns++
	if s.turns >= s.weight || c.wants(s) <= 0 {
		c.pop()
		c.line(id)
	}
	if invariants.Enabled {
		c.check()
	}
	return id, s.granted, true
}

// Outstanding is what is granted and has not arrived, and what was pushed and
// waits. Expire acts only while it is above 0.
func (c *CreditScheduler) Outstanding() units.Bytes { return c.outstanding + c.pushed }

// Expire gives up what has been outstanding of sources that have been silent for
// the timeout, and returns how much. An owner calls it every so often, such as
// every timeout, while something is outstanding.
func (c *CreditScheduler) Expire(now sim.Time) units.Bytes {
	var lost units.Bytes
	for i := range c.sources {
		s := &c.sources[i]
		if s.outstanding > 0 && now-s.heard >= c.timeout {
			lost += s.outstanding
			c.outstanding -= s.outstanding
			s.outstanding = 0
			c.line(SourceID(i))
		}
	}
	return lost
}

// Grants is the number of grants made and their bytes.
func (c *CreditScheduler) Grants() (count, bytes int64) { return c.grants, c.granted }

// check panics when the books do not add up.
func (c *CreditScheduler) check() {
	var sum units.Bytes
	waiting := 0
	for i := range c.sources {
		s := &c.sources[i]
		sum += s.outstanding
		if s.outstanding < -c.packet || s.granted > s.requested || s.outstanding > max(c.mostEach, c.quantum) {
			panic("congestion: a source of credits was granted too much")
		}
		if s.waiting {
			waiting++
		} else if s.open && c.wants(s) > 0 {
			panic("congestion: a source of credits is forgotten")
		}
	}
	for at := c.head; at != noSource; at = c.sources[at].next {
		waiting--
	}
	if sum != c.outstanding || waiting != 0 || c.pushed < 0 {
		panic("congestion: the books of a credit scheduler do not add up")
	}
}
