package metrics

import "github.com/tgssim/tgssim/sim"

// FullBatch is what one instance of a pool does in steady state: the steps that
// follow each other with the largest batch of the run. Benchmarks that keep a
// fixed batch measure this, where a run as a whole also has the time in which its
// batch fills up and drains. See docs/metrics.md.
type FullBatch struct {
	// Steps is the number of steps counted: the longest series of full ones, less
	// the last, which only marks the end of the one before.
	Steps int
	// Requests and Tokens are those of one step, over all ranks.
	Requests, Tokens int
	// Span runs from the beginning of the first step counted to the end of the
	// host's gap after the last one.
	Span sim.Time
	// Prompt and Output are the tokens prefilled, or given to requests, in it.
	Prompt, Output int64
	// Context is the mean number of tokens whose KV a request of a decode step
	// reads, its own query tokens included; 0 in prefill.
	Context float64
	// Dispatch and Combine are the time in which compute waited for them.
	Dispatch, Combine sim.Time
}

// StepTime is the mean time from one step to the next.
func (f *FullBatch) StepTime() sim.Time { return f.Span / sim.Time(f.Steps) }

// FullBatchOf finds the full batches of a pool's first instance; ok is false when
// fewer than two full steps follow each other. It needs Config.Steps.
func FullBatchOf(steps []Step, pool string) (f FullBatch, ok bool) {
	var own []*Step
	for i := range steps {
		if s := &steps[i]; s.Pool == pool && s.Instance == 0 {
			own = append(own, s)
		}
	}
	var full int32
	for _, s := range own {
		full = max(full, s.Tokens)
	}
	var best []*Step
	for i := 0; i < len(own); {
		j := i
		for j < len(own) && own[j].Tokens == full {
			j++
		}
		if j-i > len(best) {
			best = own[i:j]
		}
		i = max(j, i+1)
	}
	if len(best) < 2 {
		return f, false
	}
	last := best[len(best)-1]
	f = FullBatch{
		Steps: len(best) - 1, Requests: int(last.Requests), Tokens: int(last.Tokens), Span: last.Start - best[0].Start,
	}
	var context, requests int64
	for _, s := range best[:f.Steps] {
		if pool == poolPrefill {
			f.Prompt += int64(s.Tokens)
		}
		f.Output += int64(s.Output)
		f.Dispatch += s.Dispatch
		f.Combine += s.Combine
		context += s.Context
		requests += int64(s.Requests)
	}
	f.Context = float64(context) / float64(requests)
	return f, true
}
