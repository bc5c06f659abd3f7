package sim

// A plainQueue is the textbook: one binary heap for everything, and timers that
// leave their old events behind to be skipped. It shares no code with queue, so
// that each can judge the other.
type plainQueue struct {
	heap   []entry // what has timerHandler when arg is the Timer that goes off
	timers []plainTimer
	// stale counts the events in the heap that a timer has left behind.
	stale int
	// shuffled replaces the sequence number, as the second part of the order, by
	// a pseudo-random function of it and the seed.
	shuffled bool
	seed     uint64
}

type plainTimer struct {
	what  uint64
	at    Time
	order uint64
	armed bool
}

// timerHandler marks a timer's events in a plainQueue. No handler has this ID.
const timerHandler HandlerID = 1<<16 - 1

func (q *plainQueue) len() int { return len(q.heap) - q.stale }

// order is the second part of the key of the event with sequence number seq.
func (q *plainQueue) order(seq uint64) uint64 {
	if !q.shuffled {
		return seq
	}
	return scramble(seq + q.seed)
}

func (q *plainQueue) push(at Time, seq, what uint64) {
	q.add(entry{at, q.order(seq), what})
}

func (q *plainQueue) newTimer(what uint64) Timer {
	q.timers = append(q.timers, plainTimer{what: what})
	return Timer(len(q.timers) - 1)
}

func (q *plainQueue) arm(id Timer, at Time, seq uint64) {
	q.disarm(id)
	t := &q.timers[id]
	t.at, t.order, t.armed = at, q.order(seq), true
	q.add(entry{at, t.order, pack(timerHandler, 0, uint32(id))})
}

func (q *plainQueue) disarm(id Timer) {
	if t := &q.timers[id]; t.armed {
		t.armed = false
		q.stale++
	}
}

func (q *plainQueue) armed(id Timer) (Time, bool) {
	t := q.timers[id]
	if !t.armed {
		return Never, false
	}
	return t.at, true
}

// pop removes and returns the next event, unless there is none up to limit.
func (q *plainQueue) pop(limit Time) (entry, bool) {
	for len(q.heap) > 0 && q.heap[0].at <= limit {
		x := q.take()
		if ev := x.event(); ev.Handler == timerHandler {
			t := &q.timers[ev.Arg]
			if !t.armed || t.order != x.seq {
				q.stale--
				continue
			}
			t.armed = false
			x.what = t.what
		}
		return x, true
	}
	return entry{}, false
}

func (q *plainQueue) before(i, j int) bool {
	a, b := &q.heap[i], &q.heap[j]
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

func (q *plainQueue) swap(i, j int) { q.heap[i], q.heap[j] = q.heap[j], q.heap[i] }

func (q *plainQueue) add(x entry) {
	q.heap = append(q.heap, x)
	for i := len(q.heap) - 1; i > 0 && q.before(i, (i-1)/2); i = (i - 1) / 2 {
		q.swap(i, (i-1)/2)
	}
}

func (q *plainQueue) take() entry {
	top := q.heap[0]
	n := len(q.heap) - 1
	q.swap(0, n)
	q.heap = q.heap[:n]
	for i := 0; ; {
		c := 2*i + 1
		if c+1 < n && q.before(c+1, c) {
			c++
		}
		if c >= n || !q.before(c, i) {
			return top
		}
		q.swap(i, c)
		i = c
	}
}
