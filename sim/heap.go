package sim

import "fmt"

// heapMin is the least capacity of a heap.
const heapMin = 16

// An eventHeap is a 4-ary heap of events in (time, sequence) order. Behind the
// events stand nones, at least one group of children full, so that every child
// that a search looks at exists.
//
// Four children fit in two cache lines and halve the depth of a binary heap; the
// choice among them is branch-free. docs/decisions/0001-event-queue.md has the
// measurements.
type eventHeap struct {
	a []entry
	n int
}

func (h *eventHeap) init() { h.a = nones(nil, 0) }

// nones returns a larger copy of the first n entries of a, padded.
func nones(a []entry, n int) []entry {
	b := make([]entry, max(heapMin, 2*len(a)))
	copy(b, a[:n])
	for i := n; i < len(b); i++ {
		b[i] = none
	}
	return b
}

// head is the key of the first event, or none's.
func (h *eventHeap) head() key { return h.a[0].key() }

// push adds an event whose sequence number is above all others.
func (h *eventHeap) push(x entry) {
	if h.n+4 >= len(h.a) {
		h.a = nones(h.a, h.n)
	}
	a, i := h.a, uint(h.n)
	h.n++
	for i > 0 {
		p := (i - 1) / 4
		up := a[p]
		if up.at <= x.at {
			break
		}
		a[i] = up
		i = p
	}
	a[i] = x
}

// pop removes the first event and returns it with the key of the one after it.
// The heap is not empty.
func (h *eventHeap) pop() (entry, key) {
	a := h.a
	top := a[0]
	h.n--
	x := a[h.n]
	a[h.n] = none
	if h.n == 0 {
		return top, none.key()
	}
	i := 0
	for c := 1; c < h.n; c = 4*i + 1 {
		group := (*[4]entry)(a[c:])
		m := least(group)
		child := group[m]
		if less(x.key(), child.key()) == 1 {
			break
		}
		a[i] = child
		i = c + int(m)
	}
	a[i] = x
	return top, a[0].key()
}

// least is the place of the least of four entries.
func least(g *[4]entry) uint {
	a, b := g[0].key(), g[2].key()
	right := less(g[1].key(), a)
	a = a.choose(g[1].key(), right)
	right2 := less(g[3].key(), b)
	b = b.choose(g[3].key(), right2)
	pair := less(b, a)
	return uint(right^(right^(right2|2))&-pair) & 3
}

func (h *eventHeap) check() {
	for i := 1; i < len(h.a); i++ {
		if i >= h.n && h.a[i] != none {
			panic(fmt.Sprintf("sim: heap of %d: no padding at %d", h.n, i))
		}
		if i < h.n && less(h.a[i].key(), h.a[(i-1)/4].key()) == 1 {
			panic(fmt.Sprintf("sim: heap of %d: %d comes before its parent", h.n, i))
		}
	}
}
