// Package serving runs requests through a cluster: router, prefill and decode
// pools, KV blocks, KV transfers and layer-by-layer step execution.
package serving

import (
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/workload"
)

// A Piece is where an instant of a request's life went. The pieces of a request
// tile its life: they sum to it exactly.
type Piece uint8

// The pieces, in the order in which a request meets them.
const (
	// PieceQueue is waiting at the prefill side: for its turn, and between the
	// steps of a chunked prompt.
	PieceQueue Piece = iota
	// PiecePrefillCompute is prefill steps' time in which the GPUs compute.
	PiecePrefillCompute
	// PiecePrefillComm is prefill steps' time in which the GPUs wait for
	// dispatch, combine or all-reduce.
	PiecePrefillComm
	// PieceDecodeMemory is waiting for free KV blocks on the decode side.
	PieceDecodeMemory
	// PieceTransferPost is posting the KV transfer's work requests.
	PieceTransferPost
	// PieceTransferWire is what the KV transfer takes on an empty fabric.
	PieceTransferWire
	// PieceTransferQueue is what sharing the fabric adds to the KV transfer.
	PieceTransferQueue
	// PieceDecodeWait is waiting at the decode side with the KV in place: for
	// the running step to end, or for a place in the batch.
	PieceDecodeWait
	// PieceDecodeCompute is decode steps' time in which the GPUs compute.
	PieceDecodeCompute
	// PieceDecodeComm is decode steps' time in which the GPUs wait for
	// dispatch, combine or all-reduce.
	PieceDecodeComm
	// PieceDecodeHost is the host's gap between decode steps.
	PieceDecodeHost
	NumPieces
)

// String names the piece as the CSV columns and tables do.
func (p Piece) String() string {
	return [...]string{
		"queue", "prefill_compute", "prefill_comm", "decode_memory",
		"transfer_post", "transfer_wire", "transfer_queue", "decode_wait",
		"decode_compute", "decode_comm", "decode_host",
	}[p]
}

// Pieces is a span cut into pieces.
type Pieces [NumPieces]sim.Time

// Sum is the length of the span.
func (p *Pieces) Sum() sim.Time {
	var s sim.Time
	for _, t := range p {
		s += t
	}
	return s
}

// Outcome says how a request left the system.
type Outcome uint8

// The outcomes.
const (
	// Unfinished requests were still in the system when the run stopped.
	Unfinished Outcome = iota
	// Finished requests got all their tokens.
	Finished
	// Rejected requests were refused; Record.Reason says why.
	Rejected
)

// String names the outcome in lower case.
func (o Outcome) String() string { return [...]string{"unfinished", "finished", "rejected"}[o] }

// A Record is the story of one request.
type Record struct {
	workload.Request
	Outcome Outcome
	// Reason says why a request was rejected.
	Reason string
	// PrefillRank and DecodeRank are the attention ranks that served it,
	// counted over the pool; -1 when it got none.
	PrefillRank, DecodeRank int
	// PrefillStart, PrefillEnd, TransferEnd, FirstToken and Finish are instants;
	// sim.Never for those that did not come.
	PrefillStart, PrefillEnd, TransferEnd, FirstToken, Finish sim.Time
	// TTFT tiles arrival to first token; Decode tiles first to last token.
	TTFT, Decode Pieces
	// KVBytes is what the KV transfer moved.
	KVBytes units.Bytes
}

// A Transfer is one request's KV transfer; Messages is the writes that it was
// posted as, one per pair of GPUs that share some of the KV. Post + Wire +
// Queue == Arrived - Posted.
type Transfer struct {
	Request                 int
	PrefillRank, DecodeRank int
	Bytes                   units.Bytes
	Messages                int
	Posted, Arrived         sim.Time
	Post, Wire, Queue       sim.Time
	// Paths is the part of Wire that links inside the fabric add: uneven ECMP,
	// oversubscription.
	Paths sim.Time
}

// A Step is one executed step of an instance: all its ranks, all layers.
type Step struct {
	Pool       string // "prefill" or "decode"
	Instance   int
	Start, End sim.Time
	// Requests and Tokens are summed over the ranks: tokens that the step works
	// on, prompt tokens or the query tokens of decode, drafts included.
	Requests, Tokens int
	// Output is the tokens that requests get of it, and Context the tokens whose
	// KV its attention reads, those of the step included; 0 in prefill.
	Output, Context int64
	// Compute, Dispatch, Combine and AllReduce tile End - Start: time in which
	// the slowest rank computes, and time in which its compute stream is idle
	// waiting for communication.
	Compute, Dispatch, Combine, AllReduce sim.Time
}

// GPUTime is what the GPUs of a pool did, summed over them; the fields sum to
// GPUs times the length of the run.
type GPUTime struct {
	Compute sim.Total
	// Dispatch, Combine and AllReduce are communication that nothing hid.
	Dispatch, Combine, AllReduce sim.Total
	// Barrier is waiting, inside a step, for a slower rank of the same instance.
	Barrier sim.Total
	// WaitingKV is idle with work in sight: on a decode GPU, requests whose KV is
	// on its way; on a prefill GPU, prompts that wait for memory that holds the KV
	// of others.
	WaitingKV sim.Total
	// Host is the host's gap between steps.
	Host sim.Total
	// Idle is idle for want of work.
	Idle sim.Total
}

// PoolUsage is the account of one pool over a run.
type PoolUsage struct {
	Pool      string
	Instances int
	Ranks     int
	GPUs      int
	Time      GPUTime
	// Comm is what dispatches and combines took, summed over the instances (not
	// over GPUs).
	Comm CommTime
	// Volume is what they moved, of steps that ended, and Experts which experts took
	// it.
	Volume  CommVolume
	Experts ExpertUsage
	Steps   int
	// Sampling says how much of the MoE layers was simulated.
	Sampling Sampling
	// TwoBatchSteps is how many of them ran as two micro-batches.
	TwoBatchSteps int
	// Tokens is prompt tokens prefilled, or output tokens produced.
	Tokens int64
	// KVBlocks and PeakKVBlocks are capacity and the highest use, of one rank.
	KVBlocks, PeakKVBlocks int
	// BatchLimit and PeakBatch are the most requests that a rank may run at once
	// and the most that one did; 0 in a prefill pool, which counts tokens.
	BatchLimit, PeakBatch int
}

// A Listener hears what happens in a run. Nil fields are skipped. The pointers
// are valid during the call only.
type Listener struct {
	// Request is called once per request, when it finishes or is rejected; those
	// unfinished are reported when the run ends.
	Request func(r *Record)
	// Gap reports that count requests of a decode instance got a token gap after
	// their previous one.
	Gap func(at, gap sim.Time, count, instance int)
	// Extra reports tokens that came at an instant beside those that Gap and first
	// tokens are: accepted drafts, of requests of an instance that got a token at
	// that instant.
	Extra func(at sim.Time, tokens, instance int)
	// Transfer is called when a KV transfer has arrived.
	Transfer func(t *Transfer)
	// Step is called at the end of every step.
	Step func(s *Step)
}
