package congestion

import (
	"math"

	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// A GSE is the constants of the sources and egresses of a Global Scheduling
// Ethernet whose ports have one rate. It does not change. The parts are
//
//	DGSQ             what a source has for one destination port and class
//	DGSQs            all of a source's, made on demand
//	Uplinks          how a source spreads containers
//	CreditScheduler  who may send to an egress port
//	Sequencer        the order of one source's containers at an egress
//
// A source is a leaf (N2N: NICs are unchanged) or a NIC (E2E), an egress the
// leaf of the destination or its NIC.
type GSE struct {
	container    units.Bytes
	push         units.Bytes
	request      units.Bytes
	stop, resume units.Bytes
	idle         sim.Time
	spray        string
	window       uint32
	held         units.Bytes
	timeout      sim.Time
}

// NewGSE makes the constants for ports of a rate and a round trip from a request
// to the data that it brings of rtt. It fails when c is not valid.
func NewGSE(c GSEConfig, rate units.Rate, rtt sim.Time) (*GSE, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := lineRate(rate); err != nil {
		return nil, err
	}
	if err := roundTrip(rtt); err != nil {
		return nil, err
	}
	g := &GSE{
		container: c.ContainerBytes, push: c.Credit.PushBytes(rate, rtt), request: c.Credit.RequestBytes,
		stop: c.StopBytes, resume: c.ResumeBytes, idle: c.IdleTimeout, spray: c.Spray,
		window: uint32(c.ReorderWindow), held: c.ReorderBytes, timeout: c.ReorderTimeout,
	}
	if g.stop == 0 {
		g.stop = math.MaxInt64
	}
	return g, nil
}

// A GSETag is what the header of a packet says.
type GSETag struct {
	// Container counts the containers of a source for a destination port and
	// class, modulo 2^32 here and 2^24 on the wire.
	Container uint32
	// Scheduled is how many of the packet's bytes use credit, Sent the total of those
	// since the queue was made. The header has the total.
	Scheduled uint32
	Sent      units.Bytes
	// Index is the packet's place in its container, from 0.
	Index uint16
	// Prev is the number of packets of the container before: only with the next
	// one is it known that a container has ended. 0 when there was none before.
	Prev uint16
	// Path is the uplink. It is not in the header: a NIC knows it by the entropy that
	// took the packet there, a leaf by the port that it came by.
	Path uint16
}

// maxIndex is the most packets of a container: what the header can count.
const maxIndex = 255

// A DGSQCursor is where the numbering of a destination's containers goes on when
// its DGSQ is made again: the egress must not see it begin anew.
type DGSQCursor struct {
	next uint32
	prev uint16
}

// A DGSQ is a dynamic global scheduling queue: what a source has for one
// destination port and class. The packets themselves are with the engine, first
// in, first out. It is ready after GSE.Start.
type DGSQ struct {
	CreditSender
	active  sim.Time    // of the last packet in or out
	filled  units.Bytes // of the open container
	next    uint32      // its number
	prev    uint16      // packets of the one before
	count   uint16      // packets of the open one
	path    uint16      // its uplink
	group   uint16      // and where it goes
	leaf    uint16
	open    bool
	stopped bool // sources are stopped
}

// Start makes q the state of a new queue that goes on at c.
func (g *GSE) Start(q *DGSQ, c DGSQCursor) {
	*q = DGSQ{next: c.next, prev: c.prev}
	q.CreditSender.Start(g.push)
}

// Enqueue reports a packet, or many together, of n bytes on the wire, and says
// whether its sources have to stop now.
func (g *GSE) Enqueue(q *DGSQ, now sim.Time, n units.Bytes) (stop bool) {
	q.Add(n)
	q.active = now
	if q.stopped || q.Backlog() <= g.stop {
		return false
	}
	q.stopped = true
	return true
}

// Ask is CreditSender.Request with the threshold of the settings.
func (g *GSE) Ask(q *DGSQ) (total units.Bytes, ask bool) { return q.Request(g.request) }

// Send sends the queue's first packet, of n bytes on the wire, if credit and
// uplinks allow it. Resume says whether stopped sources may go on now.
func (g *GSE) Send(q *DGSQ, now sim.Time, n units.Bytes, u *Uplinks, v UplinkView) (tag GSETag, resume, ok bool) {
	if !q.CanSend() {
		return GSETag{}, false, false
	}
	if q.open && (q.filled+n > g.container || q.count == maxIndex || !u.usable(int(q.path), &u.groups[v.Group])) {
		g.close(q, u)
	}
	if !q.open {
		path, ok := u.Open(v)
		if !ok {
			return GSETag{}, false, false
		}
		q.open, q.path, q.group, q.leaf = true, uint16(path), uint16(v.Group), uint16(v.Leaf)
	}
	tag = GSETag{
		Container: q.next, Index: q.count, Prev: q.prev, Path: q.path,
		Scheduled: uint32(q.OnSend(n)),
	}
	tag.Sent = q.Sent()
	q.count++
	q.filled += n
	q.active = now
	if q.stopped && q.Backlog() <= g.resume {
		q.stopped, resume = false, true
	}
	return tag, resume, true
}

// close ends the open container. What it has not used of its uplink goes back.
func (g *GSE) close(q *DGSQ, u *Uplinks) {
	u.Close(int(q.path), int(q.group), int(q.leaf), q.filled)
	q.next, q.prev = q.next+1, q.count
	q.open, q.count, q.filled = false, 0, 0
}

// DGSQs is the queues of one source, by key: destination port and class as one
// number. Queues are made on demand and destroyed when they have been idle; what
// stays is where their numbering goes on, 12 bytes per key.
type DGSQs struct {
	g       *GSE
	at      []int32 // by key: place in queues, or -1
	cursors []DGSQCursor
	queues  []DGSQ
	keys    []int32 // of each queue; -1 when it is free
	free    []int32
	live    int
	peak    int
}

// NewDGSQs makes the queues of a source for keys 0 to keys-1, and for others when
// they are asked for.
func (g *GSE) NewDGSQs(keys int) *DGSQs {
	t := &DGSQs{g: g, at: make([]int32, keys), cursors: make([]DGSQCursor, keys)}
	for i := range t.at {
		t.at[i] = -1
	}
	return t
}

// Get is the queue of a key, made if there is none. Its place holds as long as it
// lives; the pointer until the next Get.
func (t *DGSQs) Get(key int, now sim.Time) (place int, q *DGSQ) {
	for key >= len(t.at) {
		t.at, t.cursors = append(t.at, -1), append(t.cursors, DGSQCursor{})
	}
	if i := t.at[key]; i >= 0 {
		return int(i), &t.queues[i]
	}
	var i int32
	if n := len(t.free); n > 0 {
		i = t.free[n-1]
		t.free = t.free[:n-1]
	} else {
		i = int32(len(t.queues))
		t.queues, t.keys = append(t.queues, DGSQ{}), append(t.keys, -1)
	}
	t.at[key], t.keys[i] = i, int32(key)
	q = &t.queues[i]
	t.g.Start(q, t.cursors[key])
	q.active = now
	t.live++
	t.peak = max(t.peak, t.live)
	return int(i), q
}

// Sweep destroys the queues that have been idle for the timeout, and appends
// their keys to buf: their sources of credit are to be closed. An owner calls it
// every so often, such as every timeout, while there are queues.
func (t *DGSQs) Sweep(now sim.Time, u *Uplinks, buf []int) []int {
	for i := range t.queues {
		q, key := &t.queues[i], t.keys[i]
		if key < 0 || !q.Idle() || now-q.active < t.g.idle {
			continue
		}
		if q.open {
			t.g.close(q, u)
		}
		t.cursors[key] = DGSQCursor{q.next, q.prev}
		t.at[key], t.keys[i] = -1, -1
		t.free = append(t.free, int32(i))
		t.live--
		buf = append(buf, int(key))
	}
	return buf
}

// Live is the number of queues, Peak the most that there have been.
func (t *DGSQs) Live() int { return t.live }
func (t *DGSQs) Peak() int { return t.peak }
