package experts

// Traffic is one layer of one step: how many tokens go from which rank to which
// copy. All counts are in thousandths of a token, which matters only for expected
// counts. The slices are flat and are used again by the next Route into the same
// Traffic.
type Traffic struct {
	// Ranks, GPUs, Servers and Slots are the sizes of what follows; Slots is per
	// GPU.
	Ranks, GPUs, Servers, Slots int
	// Rows[gpu*Slots+slot] is the tokens of all ranks for that copy: the rows of
	// its GEMM.
	Rows []int64
	// Pairs[rank*GPUs+gpu] is the choices of the rank's tokens that fall on the
	// GPU: each is a message of its own in DeepEP's low-latency mode.
	Pairs []int64
	// GPUHits[rank*GPUs+gpu] is the rank's tokens that go to the GPU at least once,
	// and ServerHits[rank*Servers+server] those that go to the server at least
	// once, as in DeepEP's normal mode. Both are empty unless Setup.Deduplicate is
	// set.
	GPUHits, ServerHits []int64
	// Sent[rank] is the sum of the rank's pairs, and Dropped[rank] its choices that
	// no expert had room for.
	Sent, Dropped []int64
}

// GPURows returns the rows of all copies of a GPU.
func (t *Traffic) GPURows(gpu int) int64 {
	sum := int64(0)
	for _, n := range t.Rows[gpu*t.Slots : (gpu+1)*t.Slots] {
		sum += n
	}
	return sum
}

// Busiest returns the GPU with most rows, the first of several.
func (t *Traffic) Busiest() int {
	best, most := 0, int64(-1)
	for g := range t.GPUs {
		if n := t.GPURows(g); n > most {
			best, most = g, n
		}
	}
	return best
}

// Imbalance returns the rows of the busiest GPU over the mean of all, and 1 when
// there are none.
func (t *Traffic) Imbalance() float64 {
	sum := int64(0)
	for _, n := range t.Rows {
		sum += n
	}
	if sum == 0 {
		return 1
	}
	return float64(t.GPURows(t.Busiest())) * float64(t.GPUs) / float64(sum)
}

// reset gives the traffic its sizes and clears it.
func (t *Traffic) reset(r *Router) {
	t.Ranks, t.GPUs, t.Servers, t.Slots = len(r.cluster.Ranks), r.gpus, r.servers, r.slots
	t.Rows = zeroed(t.Rows, t.GPUs*t.Slots)
	t.Pairs = zeroed(t.Pairs, t.Ranks*t.GPUs)
	t.Sent = zeroed(t.Sent, t.Ranks)
	t.Dropped = zeroed(t.Dropped, t.Ranks)
	hits := 0
	if r.dedup {
		hits = t.Ranks
	}
	t.GPUHits = zeroed(t.GPUHits, hits*t.GPUs)
	t.ServerHits = zeroed(t.ServerHits, hits*t.Servers)
}

// zeroed returns n zeros, in s where it is large enough.
func zeroed[T int32 | int64 | uint32 | uint64 | float64](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	s = s[:n]
	clear(s)
	return s
}
