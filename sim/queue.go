package sim

import "fmt"

// A source is one sorted supply of events; the next event of a queue is the
// least of its sources' heads. Lane l is source firstLane+l.
const (
	srcIrregular = iota
	srcTimers
	firstLane
)

// A queue yields events in (time, sequence) order: a ring per constant delay, a
// heap of irregular events, a heap of timers, and a tournament among their
// heads.
type queue struct {
	rings     []ring
	irregular eventHeap
	timers    timerHeap

	// heads[s] is the key of source s's first event, or none's.
	heads []key
	// tree is a tournament over the heads in the layout of an iterative segment
	// tree: leaf s is node len(heads)+s, the parent of node n is n/2, and a node
	// holds the source that won below it, so tree[1] is the source of the next
	// event. Any number of leaves will do, not only a power of two.
	tree []uint32
}

func (q *queue) init() {
	q.irregular.init()
	q.timers.init()
	q.build()
}

// addLane adds an empty ring and returns its number.
func (q *queue) addLane() int {
	q.rings = append(q.rings, ring{})
	q.build()
	return len(q.rings) - 1
}

// build lays out the tree for the present sources and plays every match.
func (q *queue) build() {
	n := firstLane + len(q.rings)
	q.heads = make([]key, n)
	q.tree = make([]uint32, 2*n)
	for s := range n {
		q.heads[s] = q.sourceHead(s)
		q.tree[n+s] = uint32(s)
	}
	for p := n - 1; p > 0; p-- {
		a, b := q.tree[2*p], q.tree[2*p+1]
		if less(q.heads[b], q.heads[a]) == 1 {
			a = b
		}
		q.tree[p] = a
	}
}

// setHead gives source s a new head and replays its matches up to the root.
func (q *queue) setHead(s uint32, k key) {
	heads, tree := q.heads, q.tree
	heads[s] = k
	for n := uint(s) + uint(len(heads)); n > 1; {
		rival := tree[n^1]
		won := less(heads[rival], k)
		k = k.choose(heads[rival], won)
		s ^= (s ^ rival) & uint32(-won)
		n >>= 1
		tree[n] = s
	}
}

// pushLane adds an event to a lane. Its instant is not before any other there.
func (q *queue) pushLane(lane int, x entry) {
	if q.rings[lane].push(x) {
		q.setHead(uint32(firstLane+lane), x.key())
	}
}

// push adds an irregular event. Its sequence number is above all others, so it
// comes first only when its instant does.
func (q *queue) push(x entry) {
	q.irregular.push(x)
	if x.at < q.heads[srcIrregular].at {
		q.setHead(srcIrregular, x.key())
	}
}

// arm sets or moves a timer. The sequence number is above all others.
func (q *queue) arm(id Timer, at Time, seq uint64) {
	q.timers.arm(id, at, seq)
	q.refreshTimers()
}

func (q *queue) disarm(id Timer) {
	q.timers.disarm(id)
	q.refreshTimers()
}

func (q *queue) refreshTimers() {
	if k := q.timers.head(); k != q.heads[srcTimers] {
		q.setHead(srcTimers, k)
	}
}

// pop removes and returns the next event, unless there is none up to limit,
// which is before Never. A timer's event comes with what the timer delivers.
func (q *queue) pop(limit Time) (entry, bool) {
	s := q.tree[1]
	if q.heads[s].at > limit {
		return entry{}, false
	}
	var x entry
	var next key
	switch {
	case s >= firstLane:
		x, next = q.rings[s-firstLane].pop()
	case s == srcIrregular:
		x, next = q.irregular.pop()
	default:
		x, next = q.timers.pop()
	}
	q.setHead(s, next)
	return x, true
}

// len is the number of events waiting.
func (q *queue) len() int {
	n := q.irregular.n + q.timers.n
	for i := range q.rings {
		n += q.rings[i].len()
	}
	return n
}

// sourceHead is the key of source s's first event, asked of the source itself.
func (q *queue) sourceHead(s int) key {
	switch s {
	case srcIrregular:
		return q.irregular.head()
	case srcTimers:
		return q.timers.head()
	}
	return q.rings[s-firstLane].head()
}

// check panics when the queue contradicts itself. It looks at every event.
func (q *queue) check() {
	winner := q.heads[q.tree[1]]
	for s, cached := range q.heads {
		k := q.sourceHead(s)
		if k != cached {
			panic(fmt.Sprintf("sim: source %d: cached head %v, real head %v", s, cached, k))
		}
		if less(k, winner) == 1 {
			panic(fmt.Sprintf("sim: %v is next by the tree, but %v comes before it", winner, k))
		}
	}
	for lane := range q.rings {
		q.rings[lane].check(lane)
	}
	q.irregular.check()
	q.timers.check()
}
