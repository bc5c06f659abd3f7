package sim

import "fmt"

// ringMin is the capacity of a ring after its first push.
const ringMin = 16

// A ring holds the events of one constant delay, which arrive in order. It grows
// by doubling and does not shrink. The zero value is an empty ring.
type ring struct {
	buf []entry // its length is a power of two, or zero
	// first and end count pops and pushes; modulo len(buf) they are places.
	first, end uint
}

func (r *ring) len() int { return int(r.end - r.first) }

// push appends x and tells whether it is the only event now.
func (r *ring) push(x entry) bool {
	if r.end-r.first == uint(len(r.buf)) {
		r.grow()
	}
	r.buf[r.end&uint(len(r.buf)-1)] = x
	r.end++
	return r.end-r.first == 1
}

// pop removes the first event and returns it with the key of the one after it.
// The ring is not empty.
func (r *ring) pop() (entry, key) {
	x := r.buf[r.first&uint(len(r.buf)-1)]
	r.first++
	return x, r.head()
}

// head is the key of the first event, or none's.
func (r *ring) head() key {
	if r.first == r.end {
		return none.key()
	}
	return r.buf[r.first&uint(len(r.buf)-1)].key()
}

func (r *ring) grow() {
	buf := make([]entry, max(ringMin, 2*len(r.buf)))
	if len(r.buf) > 0 {
		at := r.first & uint(len(r.buf)-1)
		n := copy(buf, r.buf[at:])
		copy(buf[n:], r.buf[:at])
	}
	r.first, r.end = 0, r.end-r.first
	r.buf = buf
}

func (r *ring) check(lane int) {
	for i := r.first + 1; i < r.end; i++ {
		a, b := r.buf[(i-1)&uint(len(r.buf)-1)], r.buf[i&uint(len(r.buf)-1)]
		if less(a.key(), b.key()) == 0 {
			panic(fmt.Sprintf("sim: lane %d: %v does not come before %v", lane, a, b))
		}
	}
}
