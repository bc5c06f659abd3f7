package serving

import "github.com/tgssim/tgssim/sim"

// A request is the live state of one request. It is recycled after its record
// has been handed out.
type request struct {
	Record
	slot uint32
	next *request // in the queue that holds it

	// mark is the instant up to which its life is attributed to pieces.
	mark sim.Time
	// prefilled is the number of prompt tokens whose KV exists.
	prefilled int
	posted    sim.Time // of its KV transfer
	// finishStep is the instance's step that makes its last token.
	finishStep int64
	// base is the instance's clock of pieces when the first token came.
	base decodeClock
}

// spend attributes the time since the last mark to a piece of the TTFT.
func (r *request) spend(p Piece, until sim.Time) {
	r.TTFT[p] += until - r.mark
	r.mark = until
}

// A fifo is a queue of requests, linked through the requests themselves.
type fifo struct {
	head, tail *request
	len        int
}

func (q *fifo) push(r *request) {
	r.next = nil
	if q.tail == nil {
		q.head = r
	} else {
		q.tail.next = r
	}
	q.tail = r
	q.len++
}

func (q *fifo) pop() *request {
	r := q.head
	q.head = r.next
	if q.head == nil {
		q.tail = nil
	}
	r.next = nil
	q.len--
	return r
}

// A finishHeap orders running requests by the step in which they finish, then
// by ID, so that the order of completions never depends on how they got in.
type finishHeap []*request

func (h finishHeap) before(i, j int) bool {
	if h[i].finishStep != h[j].finishStep {
		return h[i].finishStep < h[j].finishStep
	}
	return h[i].ID < h[j].ID
}

func (h *finishHeap) push(r *request) {
	*h = append(*h, r)
	q := *h
	for i := len(q) - 1; i > 0; {
		up := (i - 1) / 2
		if !q.before(i, up) {
			break
		}
		q[i], q[up] = q[up], q[i]
		i = up
	}
}

func (h *finishHeap) pop() *request {
	q := *h
	top := q[0]
	n := len(q) - 1
	q[0] = q[n]
	q[n] = nil
	q = q[:n]
	*h = q
	for i := 0; ; {
		c := 2*i + 1
		if c >= n {
			break
		}
		if c+1 < n && q.before(c+1, c) {
			c++
		}
		if !q.before(c, i) {
			break
		}
		q[i], q[c] = q[c], q[i]
		i = c
	}
	return top
}
