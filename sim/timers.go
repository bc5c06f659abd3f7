package sim

import "fmt"

// A timerHeap is a 4-ary heap like eventHeap, of armed timers, that knows where
// each timer is.
type timerHeap struct {
	a []entry // what is the Timer
	n int
	// place[id] is where timer id is in a, or -1 when it is not armed.
	place []int32
	// what[id] is what timer id delivers.
	what []uint64
}

func (h *timerHeap) init() { h.a = nones(nil, 0) }

// add makes a disarmed timer.
func (h *timerHeap) add(what uint64) Timer {
	h.place = append(h.place, -1)
	h.what = append(h.what, what)
	return Timer(len(h.what) - 1)
}

// head is the key of the first timer to go off, or none's.
func (h *timerHeap) head() key { return h.a[0].key() }

// armed is the instant for which a timer is set.
func (h *timerHeap) armed(id Timer) (Time, bool) {
	p := h.place[id]
	if p < 0 {
		return Never, false
	}
	return h.a[p].at, true
}

// arm sets or moves a timer. The sequence number is above all others.
func (h *timerHeap) arm(id Timer, at Time, seq uint64) {
	x := entry{at, seq, uint64(id)}
	i := int(h.place[id])
	if i < 0 {
		if h.n+4 >= len(h.a) {
			h.a = nones(h.a, h.n)
		}
		i = h.n
		h.n++
		h.up(i, x)
		return
	}
	h.fix(i, x)
}

// disarm removes a timer; one that is not armed stays so.
func (h *timerHeap) disarm(id Timer) {
	if i := h.place[id]; i >= 0 {
		h.remove(int(i))
	}
}

// pop disarms the first timer and returns its event with the key of the next.
// The heap is not empty.
func (h *timerHeap) pop() (entry, key) {
	x := h.a[0]
	h.remove(0)
	x.what = h.what[x.what]
	return x, h.a[0].key()
}

// remove takes out the timer at i and fills its place with the last one.
func (h *timerHeap) remove(i int) {
	h.n--
	h.place[h.a[i].what] = -1
	x := h.a[h.n]
	h.a[h.n] = none
	if i < h.n {
		h.fix(i, x)
	}
}

// fix puts x where it belongs, given that place i is free.
func (h *timerHeap) fix(i int, x entry) {
	if i > 0 && less(x.key(), h.a[(i-1)/4].key()) == 1 {
		h.up(i, x)
	} else {
		h.down(i, x)
	}
}

func (h *timerHeap) up(i int, x entry) {
	for i > 0 {
		p := (i - 1) / 4
		parent := h.a[p]
		if less(x.key(), parent.key()) == 0 {
			break
		}
		h.put(i, parent)
		i = p
	}
	h.put(i, x)
}

func (h *timerHeap) down(i int, x entry) {
	for c := 4*i + 1; c < h.n; c = 4*i + 1 {
		group := (*[4]entry)(h.a[c:])
		m := least(group)
		child := group[m]
		if less(x.key(), child.key()) == 1 {
			break
		}
		h.put(i, child)
		i = c + int(m)
	}
	h.put(i, x)
}

func (h *timerHeap) put(i int, x entry) {
	h.a[i] = x
	h.place[x.what] = int32(i)
}

func (h *timerHeap) check() {
	heap := eventHeap{h.a, h.n}
	heap.check()
	armed := 0
	for id, p := range h.place {
		if p < 0 {
			continue
		}
		armed++
		if int(p) >= h.n || h.a[p].what != uint64(id) {
			panic(fmt.Sprintf("sim: timer %d is not at its place %d", id, p))
		}
	}
	if armed != h.n {
		panic(fmt.Sprintf("sim: %d timers have a place, %d are in the heap", armed, h.n))
	}
}
