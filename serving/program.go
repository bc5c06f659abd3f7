package serving

// A program is the schedule of the MoE layers of a step: which operation runs
// on which of an instance's two streams, in which order, after what. Streams
// run in order; a stream whose next operation must wait, waits. All overlap
// follows from the tables below, none from a formula.
//
// An iteration is one pass over the tables. An operation with lag n works on
// layer (iteration - n), so that a pipeline can start one micro-batch ahead of
// the other; operations whose layer falls outside the model are skipped.

// stream numbers the two streams of an instance.
type stream uint8

const (
	streamCompute stream = iota
	streamComm
	numStreams
)

// part says what an operation does.
type part uint8

const (
	partAttnIn  part = iota // norm, QKV projections
	partAttnOut             // attention core, output projection, gate
	partShared              // shared expert
	partExperts             // routed experts
	partDispatch
	partCombine
	numParts
)

// An op is one operation of a program on one micro-batch.
type op struct {
	part  part
	batch uint8
	lag   uint8
	rest  bool // goes on where the same part before it ended: see programSingle
	after []dep
}

// A dep is an operation that must have completed: number op of the stream, in
// the iteration back before the dependent's.
type dep struct {
	on   stream
	op   int
	back int
}

// A program holds the two streams' operations of one iteration.
type program struct {
	name    string
	batches int
	maxLag  int
	halves  bool // experts and combine are in two operations: see programSingle
	ops     [numStreams][]op
}

// programSequential runs one micro-batch, one operation at a time.
//
//	compute: in out shared .       experts .
//	comm:                  dispatch        combine
var programSequential = program{
	name:    "sequential",
	batches: 1,
	ops: [numStreams][]op{
		streamCompute: {
			0: {part: partAttnIn, after: []dep{{streamComm, 1, 1}}},
			1: {part: partAttnOut},
			2: {part: partShared},
			3: {part: partExperts, after: []dep{{streamComm, 0, 0}}},
		},
		streamComm: {
			0: {part: partDispatch, after: []dep{{streamCompute, 2, 0}}},
			1: {part: partCombine, after: []dep{{streamCompute, 3, 0}}},
		},
	},
}

// programShared hides as much of the dispatch as the shared expert lasts.
//
//	compute: in out shared   experts .
//	comm:           dispatch         combine
var programShared = program{
	name:    "shared expert beside dispatch",
	batches: 1,
	ops: [numStreams][]op{
		streamCompute: programSequential.ops[streamCompute],
		streamComm: {
			0: {part: partDispatch, after: []dep{{streamCompute, 1, 0}}},
			1: {part: partCombine, after: []dep{{streamCompute, 3, 0}}},
		},
	},
}

// programSingle also hides communication behind the end of the experts: the down
// projection tells block by block of 64 rows of an expert what is done, and once
// half of it is half of the results are sent while it goes on (single-batch overlap
// of SGLang's pull request 9660). The halves of a combine are of equal bytes, and
// the second costs no start-up: the kernel is running. Nor does it wait for the
// latency of the first: see work.lead. It uses the collective of batch 1.
//
//	compute: in out shared   experts experts .
//	comm:           dispatch         combine combine
var programSingle = program{
	name:    "single batch",
	batches: 1,
	halves:  true,
	ops: [numStreams][]op{
		streamCompute: {
			0: {part: partAttnIn, after: []dep{{streamComm, 2, 1}}},
			1: {part: partAttnOut},
			2: {part: partShared},
			3: {part: partExperts, after: []dep{{streamComm, 0, 0}}},
			4: {part: partExperts, rest: true},
		},
		streamComm: {
			0: {part: partDispatch, after: []dep{{streamCompute, 1, 0}}},
			1: {part: partCombine, after: []dep{{streamCompute, 3, 0}}},
			2: {part: partCombine, batch: 1, rest: true, after: []dep{{streamCompute, 4, 0}}},
		},
	},
}

// half is what an operation of a program with halves computes of the experts'
// cost: of the three projections, equal in weights and work, the last half of the
// last one is the rest.
func (o *op) half(experts cost) cost {
	rest := cost{slowest: experts.slowest / 6, total: experts.total / 6, allReduce: experts.allReduce}
	if o.rest {
		return rest
	}
	return cost{slowest: experts.slowest - rest.slowest, total: experts.total - rest.total}
}

// halve splits units into a first half and the rest, and reports whether the rest
// is nothing.
func halve(units []int64, to *[2][]int64) bool {
	to[0], to[1] = to[0][:0], to[1][:0]
	none := true
	for _, n := range units {
		to[0], to[1] = append(to[0], n-n/2), append(to[1], n/2)
		none = none && n < 2
	}
	return none
}

// programTwoBatchPrefill is DeepSeek's prefill schedule of two micro-batches
// (profile data published with DeepSeek-V3; attention, shared, experts,
// dispatch and combine of batches 0 and 1):
//
//	compute: attn1 shared0 attn0 experts1 experts0 shared1
//	comm:    combine0 dispatch1 dispatch0 combine1
//
// Batch 0 finishes a layer (shared0, combine0) one iteration late.
var programTwoBatchPrefill = program{
	name:    "two-batch prefill",
	batches: 2,
	maxLag:  1,
	ops: [numStreams][]op{
		streamCompute: {
			0: {part: partAttnIn, batch: 1, after: []dep{{streamComm, 3, 1}}},
			1: {part: partAttnOut, batch: 1},
			2: {part: partShared, batch: 0, lag: 1},
			3: {part: partAttnIn, batch: 0, after: []dep{{streamComm, 0, 0}}},
			4: {part: partAttnOut, batch: 0},
			5: {part: partExperts, batch: 1, after: []dep{{streamComm, 1, 0}}},
			6: {part: partExperts, batch: 0, after: []dep{{streamComm, 2, 0}}},
			7: {part: partShared, batch: 1},
		},
		streamComm: {
			0: {part: partCombine, batch: 0, lag: 1, after: []dep{{streamCompute, 6, 1}}},
			1: {part: partDispatch, batch: 1, after: []dep{{streamCompute, 1, 0}}},
			2: {part: partDispatch, batch: 0, after: []dep{{streamCompute, 4, 0}}},
			3: {part: partCombine, batch: 1, after: []dep{{streamCompute, 5, 0}}},
		},
	},
}

// programTwoBatchDecode is the decode schedule of two micro-batches: while one
// dispatches, the other computes the first half of its attention and the first
// its shared expert; while one combines, the other computes the second half.
// Batch 1 runs its experts one iteration late.
//
//	compute: in0 shared1 experts1 out0     in1 shared0 experts0 out1
//	comm:    dispatch1            combine1 dispatch0            combine0
var programTwoBatchDecode = program{
	name:    "two-batch decode",
	batches: 2,
	maxLag:  1,
	ops: [numStreams][]op{
		streamCompute: {
			0: {part: partAttnIn, batch: 0, after: []dep{{streamComm, 3, 1}}},
			1: {part: partShared, batch: 1, lag: 1},
			2: {part: partExperts, batch: 1, lag: 1, after: []dep{{streamComm, 0, 0}}},
			3: {part: partAttnOut, batch: 0},
			4: {part: partAttnIn, batch: 1, after: []dep{{streamComm, 1, 0}}},
			5: {part: partShared, batch: 0},
			6: {part: partExperts, batch: 0, after: []dep{{streamComm, 2, 0}}},
			7: {part: partAttnOut, batch: 1},
		},
		streamComm: {
			0: {part: partDispatch, batch: 1, lag: 1, after: []dep{{streamCompute, 7, 1}}},
			1: {part: partCombine, batch: 1, lag: 1, after: []dep{{streamCompute, 2, 0}}},
			2: {part: partDispatch, batch: 0, after: []dep{{streamCompute, 3, 0}}},
			3: {part: partCombine, batch: 0, after: []dep{{streamCompute, 6, 0}}},
		},
	},
}
