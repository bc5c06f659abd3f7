package fabric

import (
	"fmt"
	"math"

	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/routing"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// network is both engines. A transfer, which is a message or a run of a
// collective, is posted, flows as a fluid along its links at a speed between 0
// and 1 of what it would have alone, flies for its latency, and is delivered.
//
// With contention, speeds are max-min fair (solve.go); without, they stay 1 and
// only a path's end ports limit it. Everything lives in slices and is named by
// index, so a transfer in steady state allocates nothing.
type network struct {
	engine     *sim.Engine
	handler    sim.HandlerID
	graph      *topology.Graph
	paths      *routing.ECMP
	contention bool
	mtuMilli   int64

	// Per link.
	links   []link
	wires   []wire
	users   [][]user // collectives with a share over the link
	carried [][NumClasses]volume

	// Per transfer, by ID. Messages' IDs are recycled, collectives' kept.
	flows  []flow
	fluids []fluid
	jobs   []job
	free   []int32

	spreads     []*spread // what flows along several paths at once
	freeSpreads []int32
	collectives []*collective

	// flowing is a heap of the flowing transfers by finish.
	flowing     []completion
	sequence    uint64
	finishTimer sim.Timer
	solveLane   sim.Lane
	finishArmed sim.Time

	solver
	sent, delivered           [NumClasses]volume
	sentCount, deliveredCount [NumClasses]int64

	// Scratch of Send: a path, and each link's place in a spread, -1 outside.
	path  []topology.LinkID
	place []int32
}

// Kinds of events.
const (
	evBegin  uint16 = iota // a transfer has been posted; Arg is its ID
	evFinish               // the first of the flowing transfers is through
	evSolve                // rates are to be recomputed
	evArrive               // a transfer has arrived; Arg is its ID
)

// maxFlowLinks is the length of path that a flow holds itself. Longer ones, and
// messages over several paths, have a spread.
const maxFlowLinks = 6

// A flow is what the solver needs of a transfer, one cache line.
type flow struct {
	// level is the rate of one of its shares (see solve.go) at speed 1, in
	// rateUnits.
	level int64
	// speed is the share of its rate alone at which it flows, next the one that
	// the solver is finding.
	speed, next float64
	// pairs is the number of shares that it has on each of its links; a spread
	// has its own per link.
	pairs int32
	// spread is the place in network.spreads, or -1 for a single path.
	spread int32
	hops   int32
	links  [maxFlowLinks]int32
}

// A fluid is how far a transfer has come.
type fluid struct {
	// begin is when it began to flow; solo is how long it flows alone.
	begin, solo sim.Time
	// ports is solo if only the end ports limited it.
	ports sim.Time
	// work is how much of the time alone (picoseconds, unrounded) was left at
	// instant since; total is what there was at the beginning. It has decreased
	// by speed per picosecond from then on.
	work, total float64
	since       sim.Time
	// heapAt is the place in network.flowing, or -1.
	heapAt int32
	// coll is the place in network.collectives, or -1 for a message.
	coll int32
	// slowed is whether some of its time was spent below speed 1.
	slowed bool
	slots  [maxFlowLinks]int32 // its places among the links' members
}

// A job is the rest of a transfer: what delivery needs.
type job struct {
	to                    Receiver
	tag                   uint64
	posted, post, latency sim.Time
	milli                 int64 // payload
	class                 Class
	// live is false while the ID is free.
	live bool
}

// Send posts a message. A message from a GPU to itself costs its posting time
// only. It panics when a GPU does not exist, when there is no way between them,
// or when Bytes is negative or above 9 PB.
func (n *network) Send(m Message, to Receiver) {
	if m.Parts == nil {
		n.mustExist(m.Src, m.Dst, m.Bytes)
	} else {
		m.Bytes = 0
		for _, p := range m.Parts {
			n.mustExist(p.Src, p.Dst, p.Bytes)
			m.Bytes += p.Bytes
			n.mustExist(p.Src, p.Dst, m.Bytes)
		}
	}
	id := n.newTransfer()
	j := &n.jobs[id]
	*j = job{
		to: to, tag: m.Tag, posted: n.engine.Now(), post: m.Post,
		milli: 1000 * int64(m.Bytes), class: m.Class, live: true,
	}
	n.sent[m.Class].bytes += m.Bytes
	n.sentCount[m.Class]++
	j.latency = n.route(id, &m)
	n.post(id)
}

// mustExist panics when there cannot be such a message.
func (n *network) mustExist(src, dst topology.GPU, b units.Bytes) {
	if b < 0 || int64(b) > math.MaxInt64/1000 {
		panic(fmt.Sprintf("fabric: message of %d bytes", int64(b)))
	}
	if gpus := n.graph.GPUs(); int(src) >= gpus || int(dst) >= gpus || src < 0 || dst < 0 {
		panic(fmt.Sprintf("fabric: message from GPU %d to GPU %d of %d", src, dst, gpus))
	}
}

// post waits for the posting time of a transfer.
func (n *network) post(id int32) {
	if t := n.jobs[id].post; t != 0 {
		n.engine.After(t, n.handler, evBegin, uint32(id))
		return
	}
	n.begin(id)
}

// newTransfer returns the ID of a flow and job that are not in use.
func (n *network) newTransfer() int32 {
	if last := len(n.free) - 1; last >= 0 {
		id := n.free[last]
		n.free = n.free[:last]
		return id
	}
	n.flows = append(n.flows, flow{})
	n.fluids = append(n.fluids, fluid{})
	n.visited = append(n.visited, 0)
	n.frozen = append(n.frozen, 0)
	n.jobs = append(n.jobs, job{})
	return int32(len(n.flows) - 1)
}

// Handle executes an event of the network.
func (n *network) Handle(e sim.Event) {
	switch e.Kind {
	case evBegin:
		n.begin(int32(e.Arg))
	case evFinish:
		n.finishArmed = sim.Never
		n.finishDue()
	case evSolve:
		n.solve()
	case evArrive:
		n.arrive(int32(e.Arg))
	}
}

// begin lets a posted transfer flow.
func (n *network) begin(id int32) {
	f := &n.fluids[id]
	now := n.engine.Now()
	f.begin, f.since = now, now
	if f.solo == 0 {
		n.fly(id)
		return
	}
	f.work, f.slowed = f.total, false
	n.flows[id].speed = 1
	n.enqueue(id, satAdd(now, f.solo))
	if n.contention {
		n.join(id)
	}
	n.armFinish()
}

// finishDue takes the transfers off their links that are through by now, first
// begun first.
func (n *network) finishDue() {
	now := n.engine.Now()
	for len(n.flowing) > 0 && n.flowing[0].at <= now {
		id := n.flowing[0].id
		n.dequeue(id)
		if n.contention {
			n.leave(id)
		}
		n.carry(id)
		n.fly(id)
	}
	n.armFinish()
}

// fly delivers a transfer whose bytes are through after its latency. It takes
// an event even without one: no receiver is called from inside Send or Start.
func (n *network) fly(id int32) {
	n.engine.After(n.jobs[id].latency, n.handler, evArrive, uint32(id))
}

// arrive delivers a transfer.
func (n *network) arrive(id int32) {
	j, f := &n.jobs[id], &n.flows[id]
	now := n.engine.Now()
	d := Delivery{
		Tag: j.tag, Posted: j.posted, Arrived: now, Post: j.post,
		Wire:  satAdd(n.fluids[id].solo, j.latency),
		Ideal: satAdd(n.fluids[id].ports, j.latency), Latency: j.latency,
	}
	d.Queue = now - d.Posted - d.Post - d.Wire
	n.delivered[j.class].add(j.milli, 1)
	n.deliveredCount[j.class]++
	to := j.to
	j.to, j.live = nil, false
	if n.fluids[id].coll < 0 {
		if f.spread >= 0 {
			n.freeSpreads = append(n.freeSpreads, f.spread)
			f.spread = -1
		}
		n.free = append(n.free, id)
	}
	to.Delivered(d)
}

// armFinish sets the timer to the first completion.
func (n *network) armFinish() {
	first := sim.Never
	if len(n.flowing) > 0 {
		first = n.flowing[0].at
	}
	if first == n.finishArmed {
		return
	}
	n.finishArmed = first
	n.engine.Arm(n.finishTimer, first)
}

// A completion is an entry of the heap of flowing transfers.
type completion struct {
	at  sim.Time
	seq uint64 // order of beginning, for transfers that finish together
	id  int32
}

func (a *completion) before(b *completion) bool {
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

// enqueue puts a transfer that begins to flow on the heap.
func (n *network) enqueue(id int32, at sim.Time) {
	n.sequence++
	n.fluids[id].heapAt = int32(len(n.flowing))
	n.flowing = append(n.flowing, completion{at, n.sequence, id})
	n.siftUp(len(n.flowing) - 1)
}

// dequeue takes a transfer off the heap.
func (n *network) dequeue(id int32) {
	i := int(n.fluids[id].heapAt)
	n.fluids[id].heapAt = -1
	last := len(n.flowing) - 1
	moved := n.flowing[last]
	n.flowing = n.flowing[:last]
	if i < last {
		n.flowing[i] = moved
		n.fluids[moved.id].heapAt = int32(i)
		n.fix(i)
	}
}

// fix restores the heap's order around place i.
func (n *network) fix(i int) {
	if !n.siftUp(i) {
		n.siftDown(i)
	}
}

// heapify restores the heap's order everywhere.
func (n *network) heapify() {
	if len(n.flowing) < 2 {
		return
	}
	for i := (len(n.flowing) - 2) / heapArity; i >= 0; i-- {
		n.siftDown(i)
	}
}

// heapArity is the number of children in the heap: four fit a cache line and a
// half, and halve its depth.
const heapArity = 4

func (n *network) siftUp(i int) bool {
	h := n.flowing
	c := h[i]
	start := i
	for i > 0 {
		parent := (i - 1) / heapArity
		if !c.before(&h[parent]) {
			break
		}
		h[i] = h[parent]
		n.fluids[h[i].id].heapAt = int32(i)
		i = parent
	}
	h[i] = c
	n.fluids[c.id].heapAt = int32(i)
	return i != start
}

func (n *network) siftDown(i int) {
	h := n.flowing
	c := h[i]
	for {
		first := heapArity*i + 1
		if first >= len(h) {
			break
		}
		best := first
		for k := first + 1; k < min(first+heapArity, len(h)); k++ {
			if h[k].before(&h[best]) {
				best = k
			}
		}
		if !h[best].before(&c) {
			break
		}
		h[i] = h[best]
		n.fluids[h[i].id].heapAt = int32(i)
		i = best
	}
	h[i] = c
	n.fluids[c.id].heapAt = int32(i)
}
