// Package workload makes the requests that a cluster must serve: synthetic
// arrivals and lengths, or a recorded trace.
package workload

import "github.com/tgssim/tgssim/sim"

// A Request is one call to the model.
type Request struct {
	// ID counts from 0 in arrival order.
	ID int
	// Arrival is the instant at which the request reaches the router.
	Arrival sim.Time
	// PromptTokens and OutputTokens are at least 1.
	PromptTokens, OutputTokens int
	// Blocks are the hashes of the prompt's prefix blocks, as in Mooncake's
	// traces: two prompts with equal hashes are equal up to the end of that
	// block. Stats.BlockTokens is the length of a block; the last may be partly
	// filled. Nil when the source has none. Not to be changed.
	Blocks []uint64
}
