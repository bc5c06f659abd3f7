package packet

import (
	"fmt"

	"github.com/tgssim/tgssim/congestion"
	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// Receiver credits: who wants to send asks the receiving NIC, which grants at the
// rate of its port. With "gse" the unit that asks is a DGSQ, all that a NIC has
// for a destination port and class, and what it sends goes in containers over all
// paths (see gse.go); with "credit" it is a queue pair.
//
// Requests, grants and returns take the time of a control message alone, each as
// one event; their bytes take room on every link of their way (see takeRoom).

// A lane is the two ends of a credit.
type lane struct {
	src, dst uint32   // NICs
	qps      []uint32 // queue pairs
	turn     uint32   // the one that is served first next
	told     uint32   // counts control messages, which take the paths in turn
	source   congestion.SourceID
	life     uint32      // counts the times that the source was opened
	settled  units.Bytes // of what it has sent under grants: arrived, or given up
	seen     units.Bytes // the most that a packet has said it had sent
	gap      units.Bytes // the least difference of the two since gapSince, for queue pairs
	gapSince sim.Time
	open     bool
	waiting  bool     // something waits for a grant, none being left
	since    sim.Time // when that began, and, for a queue pair, when it last sent
	forth    sim.Lane // of a control message to the receiver
	back     sim.Lane // and to the sender
	credit   congestion.CreditSender
	gse      container
	leaf     leafLane
}

// creditPort is what a NIC has as a receiver, and as a sender of containers.
type creditPort struct {
	sched   *congestion.CreditScheduler
	laneOf  []uint32 // by source
	grantAt sim.Time // of the event that counts, or Never
	expiry  sim.Timer
	timed   bool // expiry has been made
	held    units.Bytes
	sources [2]source // near and far
}

// credits is the state of receiver credits.
type credits struct {
	config   congestion.CreditConfig
	gse      *congestion.GSE // nil with "credit"
	lanes    []lane
	weighted bool
	place    map[[3]uint32]uint32 // by NICs and class; looked up, never ranged over
	ofQP     []uint32
	ports    []creditPort // by NIC
	tags     []creditTag  // by packet
	rtt      sim.Time
	wired    []int64       // by LinkID: bytes of control messages
	keys     []int         // scratch
	queues   []units.Bytes // scratch
}

// A creditTag is what a packet's header says, and when it began to wait for its
// turn.
type creditTag struct {
	congestion.GSETag
	life uint32
	port uint32 // in a leaf's buffer: the port that it is admitted to
	// pushed is that the port of its NIC counts it.
	pushed bool
	// turned is that it has been handed over in its turn.
	turned bool
	held   sim.Time
}

// creditOf is the sending end of a lane.
func (n *Network) creditOf(l *lane, now sim.Time) *congestion.CreditSender {
	if n.credits.gse == nil {
		return &l.credit
	}
	_, q := n.credits.ports[l.src].sources[l.gse.side].dgsqs.Get(l.gse.key, now)
	return &q.CreditSender
}

// canSend says whether a queue pair has a packet that it may send.
func (n *Network) canSend(qp uint32, q *sender) bool {
	return q.canSend() && (!n.paying || n.hasCredit(qp))
}

// hasCredit says whether a queue pair that has something to send has credit for it.
func (n *Network) hasCredit(qp uint32) bool {
	return n.creditOf(&n.credits.lanes[n.credits.ofQP[qp]], n.engine.Now()).CanSend()
}

// owe reports that a queue pair has the packets from number from up to number to
// to send, once more or for the first time.
func (n *Network) owe(qp uint32, q *sender, from, to uint32, now sim.Time) {
	bytes := n.wireOf(q, from, to)
	if !n.paying || bytes == 0 {
		return
	}
	c := n.credits
	at := c.ofQP[qp]
	n.awake(at, now)
	l := &c.lanes[at]
	s := n.creditOf(l, now)
	if c.gse != nil {
		_, d := c.ports[l.src].sources[l.gse.side].dgsqs.Get(l.gse.key, now)
		l.gse.outside += bytes
		n.takeIn(l, d, now)
	} else {
		s.Add(bytes)
	}
	if !l.waiting && !s.CanSend() {
		l.waiting, l.since = true, now
	}
	n.ask(at, now)
}

// awake opens the source of a lane that is to send, if it has none.
func (n *Network) awake(at uint32, now sim.Time) {
	c := n.credits
	l := &c.lanes[at]
	n.renew(l, now)
	if !l.open {
		p := &c.ports[l.dst]
		l.source, l.open = p.sched.Open(n.weightOf(l)), true
		l.life++
		l.settled, l.seen, l.gap, l.gapSince = 0, 0, 0, now
		for int(l.source) >= len(p.laneOf) {
			p.laneOf = append(p.laneOf, none)
		}
		p.laneOf[l.source] = at
		if c.gse == nil {
			l.credit.Start(c.config.PushBytes(n.graph.Links[n.nics[l.src].port].Rate, c.rtt))
		}
	}
}

// weightOf is what a lane's requests say of its weight, where the order of grants
// is by weight.
func (n *Network) weightOf(l *lane) int {
	c := n.credits
	if !c.weighted {
		return 1
	}
	w, qps := c.config.KVWeight, 0
	if fabric.Class(n.senders[l.qps[0]].class) == fabric.ClassEP {
		w = c.config.EPWeight
	}
	if c.config.PerQueuePair {
		for _, qp := range l.qps {
			if n.senders[qp].active {
				qps++
			}
		}
		w *= max(1, qps)
	}
	n.acted.unlike = n.acted.unlike || n.acted.weight > 0 && n.acted.weight != w
	n.acted.weight = w
	return w
}

// renew lets a lane that has been idle for long begin anew, with a push of its
// own. Queues that are idle have nothing to do, so it is enough to look after them
// when another one is needed.
func (n *Network) renew(l *lane, now sim.Time) {
	c := n.credits
	if c.gse != nil {
		if !l.open || n.creditOf(l, now).Backlog() == 0 {
			n.sweep(&c.ports[l.src].sources[l.gse.side], now)
		}
		return
	}
	if l.open && l.credit.Idle() && now-l.since > c.rtt {
		n.shut(l, now)
	}
}

// shut closes the source of a lane.
func (n *Network) shut(l *lane, now sim.Time) {
	n.credits.ports[l.dst].sched.Close(l.source)
	l.open = false
	n.settle(l.dst, now)
}

// waive reports that packets that were owed need not be sent any more.
func (n *Network) waive(qp uint32, q *sender, from, to uint32, now sim.Time) {
	bytes := n.wireOf(q, from, to)
	if !n.paying || bytes == 0 {
		return
	}
	at := n.credits.ofQP[qp]
	l := &n.credits.lanes[at]
	inside := bytes - min(bytes, l.gse.outside)
	l.gse.outside -= bytes - inside
	s := n.creditOf(l, now)
	if total, tell := s.Cancel(inside); tell {
		n.count.CreditRequests++
		n.message(evRequest, at, total, now)
	}
	n.giveBack(at, s, now)
	if l.gse.outside > 0 {
		_, d := n.credits.ports[l.src].sources[l.gse.side].dgsqs.Get(l.gse.key, now)
		n.takeIn(l, d, now)
		n.ask(at, now)
	}
}

// wireOf is the bytes on the wire of a queue pair's packets from one number up to
// another, which are not acknowledged. It is 0 where NICs need none.
func (n *Network) wireOf(q *sender, from, to uint32) units.Bytes {
	if !n.paying || int32(to-from) <= 0 {
		return 0
	}
	bytes := units.Bytes(to-from) * units.Bytes(n.mtu+n.header)
	for w := q.first; w != none; w = n.requests[w].next {
		r := &n.requests[w]
		if int32(r.end-to) > 0 {
			break
		}
		if int32(r.end-from) > 0 {
			bytes -= units.Bytes(n.mtu - r.last)
		}
	}
	return bytes
}

// ask requests credit for what has not been asked for, when it is time.
func (n *Network) ask(at uint32, now sim.Time) { n.askFor(at, n.credits.config.RequestBytes, now) }

// askFor does, when that is at least so much.
func (n *Network) askFor(at uint32, least units.Bytes, now sim.Time) {
	if total, ok := n.creditOf(&n.credits.lanes[at], now).Request(least); ok {
		n.count.CreditRequests++
		n.message(evRequest, at, total, now)
	}
}

// giveBack returns what was granted and is not needed.
func (n *Network) giveBack(at uint32, s *congestion.CreditSender, now sim.Time) {
	if b := s.Return(); b > 0 {
		n.count.CreditReturns++
		n.message(evReturn, at, b, now)
	}
}

// spend pays for a packet that a queue pair sends.
func (n *Network) spend(id, qp uint32, p *packet, now sim.Time) {
	c := n.credits
	l := &c.lanes[c.ofQP[qp]]
	if l.waiting {
		l.waiting = false
		n.count.CreditWaits++
		n.count.CreditWaitTime += now - l.since
	}
	if c.gse != nil { // nextContainer has
		return
	}
	l.since = now
	n.tagOf(id).Scheduled = uint32(l.credit.OnSend(units.Bytes(p.wire)))
	c.tags[id].life, c.tags[id].Sent = l.life, l.credit.Sent()
}

// tagOf is the tag of a packet.
func (n *Network) tagOf(id uint32) *creditTag {
	c := n.credits
	for int(id) >= len(c.tags) {
		c.tags = append(c.tags, creditTag{})
	}
	return &c.tags[id]
}

// A control message is a packet that nothing transmits: qp is its lane, at the
// life of its source, seq and payload are a number of bytes.
func (n *Network) message(kind uint16, at uint32, bytes units.Bytes, now sim.Time) {
	id := n.alloc()
	l := &n.credits.lanes[at]
	delay := l.forth
	if kind == evCredit {
		delay = l.back
	}
	if n.credits.config.OnWires {
		n.takeRoom(l, kind == evCredit, now)
	}
	n.packets[id] = packet{
		qp: at, at: l.life, seq: uint32(uint64(bytes)), payload: uint32(uint64(bytes) >> 32), prio: prioControl,
	}
	n.count.CreditBytes += int64(n.credits.config.MessageBytes)
	n.engine.AfterLane(delay, n.self, kind, id)
}

// takeRoom has a control message take the links between the ends of a lane for its
// time, as a frame that goes before the data that waits there. All of them are taken
// when it is sent: what the links carry is right, and when they do is off by less
// than the flight of the message.
func (n *Network) takeRoom(l *lane, back bool, now sim.Time) {
	q := &n.senders[l.qps[0]]
	at, reverse := q.route, uint32(0)
	for range q.paths.count {
		at = q.paths.first + l.told%uint32(q.paths.count)*uint32(q.paths.stride)
		l.told++
		if !n.faulty || !n.crossesExcluded(n.pathAt(at)) {
			break
		}
	}
	if back {
		reverse = 1
	}
	if n.atLeaves {
		at++ // the NIC's own link
	}
	c := n.credits
	size := uint32(c.config.MessageBytes)
	for ; n.routes[at] != endOfRoute; at++ {
		link := n.routes[at] ^ reverse
		pt := &n.ports[link]
		if n.atLeaves && n.routes[at+1] == endOfRoute || pt.down {
			continue
		}
		pt.busy = max(pt.busy, now) + pt.time(size)
		pt.sent.wire += int64(size)
		pt.sent.control++
		c.wired[link] += int64(size)
	}
}

// countMessages finds the link of which control messages have taken most.
func (n *Network) countMessages(k *Counters) {
	for l, bytes := range n.credits.wired {
		if bytes > 0 {
			k.CreditTime = max(k.CreditTime, n.graph.Links[l].Rate.Time(units.Bytes(bytes)))
		}
	}
}

// opened takes in a control message; it is of no account when its source has been
// closed meanwhile.
func (n *Network) opened(id uint32) (at uint32, bytes units.Bytes, ok bool) {
	p := &n.packets[id]
	at, bytes = p.qp, units.Bytes(uint64(p.payload)<<32|uint64(p.seq))
	l := &n.credits.lanes[at]
	ok = l.open && l.life == p.at
	n.release(id)
	return at, bytes, ok
}

// requested is a request that has reached the receiver, returned credit that was
// given back.
func (n *Network) requested(id uint32, now sim.Time) {
	if at, total, ok := n.opened(id); ok {
		l := &n.credits.lanes[at]
		sched := n.credits.ports[l.dst].sched
		if n.credits.weighted {
			sched.Weigh(l.source, n.weightOf(l))
		}
		sched.OnRequest(l.source, now, total)
		n.settle(l.dst, now)
	}
}

func (n *Network) returned(id uint32, now sim.Time) {
	if at, bytes, ok := n.opened(id); ok {
		l := &n.credits.lanes[at]
		n.credits.ports[l.dst].sched.OnArrive(l.source, now, bytes)
		n.settle(l.dst, now)
	}
}

// settle sees to it that a scheduler's next grant is made, and that what does not
// arrive is given up some time.
func (n *Network) settle(nic uint32, now sim.Time) {
	p := &n.credits.ports[nic]
	if p.sched.Outstanding() <= 0 {
		if p.timed {
			p.timed = false
			n.engine.Disarm(p.expiry)
		}
	} else if !p.timed {
		p.timed = true
		n.engine.Arm(p.expiry, now+n.credits.config.Timeout)
	}
	at := p.sched.Next(now)
	if at >= p.grantAt {
		return
	}
	p.grantAt = at
	n.engine.At(at, n.self, evGrant, nic)
}

// grant makes the grant that is due.
func (n *Network) grant(nic uint32, now sim.Time) {
	p := &n.credits.ports[nic]
	if p.grantAt != now {
		return // an earlier one took its place
	}
	p.grantAt = sim.Never
	if source, total, ok := p.sched.Grant(now); ok {
		n.count.CreditGrants++
		at := p.laneOf[source]
		n.message(evCredit, at, total, now)
	}
	n.settle(nic, now)
}

// expire gives up what has been granted and never arrived.
func (n *Network) expire(nic uint32, now sim.Time) {
	p := &n.credits.ports[nic]
	p.timed = false
	n.count.CreditExpired += int64(p.sched.Expire(now))
	n.settle(nic, now)
}

// credited is a grant that has reached the sender.
func (n *Network) credited(id uint32, now sim.Time) {
	at, total, ok := n.opened(id)
	if !ok {
		return
	}
	l := &n.credits.lanes[at]
	s := n.creditOf(l, now)
	s.OnCredit(total)
	n.giveBack(at, s, now)
	n.ask(at, now)
	if n.atLeaves {
		n.pump(at, now)
		return
	}
	l.turn++
	for k := range l.qps {
		n.stir(l.qps[(int(l.turn)+k)%len(l.qps)], now)
	}
}

// collectCredit takes in a data packet that has reached its NIC.
func (n *Network) collectCredit(id uint32, p *packet, now sim.Time) {
	at := n.credits.ofQP[p.qp]
	if n.credits.gse != nil {
		n.sequence(id, at, now)
		return
	}
	n.cameIn(id, at, now)
	n.hand(id, now)
}

// cameIn reports the credit that a packet has used to the scheduler of its NIC.
func (n *Network) cameIn(id, at uint32, now sim.Time) {
	c := n.credits
	l, t := &c.lanes[at], &c.tags[id]
	if t.Scheduled == 0 || !l.open || t.life != l.life {
		return
	}
	c.ports[l.dst].sched.OnArrive(l.source, now, units.Bytes(t.Scheduled))
	if c.gse == nil {
		l.settled += units.Bytes(t.Scheduled)
		l.seen = max(l.seen, t.Sent)
		l.gap = min(l.gap, l.seen-l.settled)
		if now-l.gapSince >= c.config.Timeout { // what has been overtaken all the time is lost
			n.giveUpCredit(l, l.settled+l.gap, now)
			l.gap, l.gapSince = l.seen-l.settled, now
		}
	}
	n.settle(l.dst, now)
}

// inTurn takes in that a packet of a container is handed over in its turn: what was
// sent before it and has not come is lost, and its credit free again.
func (n *Network) inTurn(id, at uint32, now sim.Time) {
	l, t := &n.credits.lanes[at], &n.credits.tags[id]
	t.turned = true
	if t.Scheduled == 0 || !l.open || t.life != l.life {
		return
	}
	n.giveUpCredit(l, t.Sent-units.Bytes(t.Scheduled), now)
	l.settled = t.Sent
}

// giveUpCredit frees the credit of what a lane has sent up to a total and what has
// neither arrived nor been given up.
func (n *Network) giveUpCredit(l *lane, sent units.Bytes, now sim.Time) {
	lost := sent - l.settled
	if lost <= 0 {
		return
	}
	l.settled = sent
	n.count.CreditExpired += int64(lost)
	n.credits.ports[l.dst].sched.OnArrive(l.source, now, lost)
	n.settle(l.dst, now)
}

// hand gives a data packet to its queue pair, or to the receive buffer before it.
func (n *Network) hand(id uint32, now sim.Time) {
	if n.atLeaves {
		p := &n.packets[id]
		l := n.routes[p.at]
		n.forward(l, &n.ports[l], id, p, now)
		return
	}
	if n.drainRate > 0 {
		n.drainLater(id, &n.packets[id], now)
		return
	}
	n.accept(id, &n.packets[id], now)
}

// checkLanes recounts what lanes have to send.
func (n *Network) checkLanes() error {
	if !n.paying {
		return nil
	}
	for at := range n.credits.lanes {
		l := &n.credits.lanes[at]
		var sum units.Bytes
		for _, qp := range l.qps {
			q := &n.senders[qp]
			sum += n.wireOf(q, q.next, q.end)
			for g := q.again; g != none; g = n.gaps[g].next {
				sum += n.wireOf(q, n.gaps[g].from, n.gaps[g].to)
			}
		}
		backlog := units.Bytes(0)
		if l.open {
			backlog = n.creditOf(l, n.engine.Now()).Backlog() + l.gse.outside
		}
		if backlog != sum {
			return fmt.Errorf("lane %d says that it has %v to send, its queue pairs have %v", at, backlog, sum)
		}
	}
	return nil
}
