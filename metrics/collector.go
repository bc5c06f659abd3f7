package metrics

import (
	"fmt"
	"math"

	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/serving"
	"github.com/tgssim/tgssim/sim"
)

// A Collector hears a run and keeps what the definitions need: one row without
// pointers per request and per KV transfer, and a few bytes per token gap. It
// decides nothing before Finish, so every window can be exact.
type Collector struct {
	cfg       Config
	requests  []Request
	reasons   []string
	reasonAt  map[string]uint32 // index in reasons; never iterated
	transfers []Transfer
	gaps      eventLog // at: the token; span: the gap before it
	extras    eventLog // at: the tokens that came along with another; no span
	// chosenGaps and chosenExtras are those of Config.DecodeInstances.
	chosenGaps, chosenExtras eventLog
	prefills                 eventLog // at: the step's end; span: its length; count: its tokens
	steps                    []Step
	err                      error
}

// A Request is what is kept of a serving.Record, in 264 bytes.
type Request struct {
	ID, PromptTokens, OutputTokens                            int32
	PrefillRank, DecodeRank                                   int32
	Outcome                                                   serving.Outcome
	reason                                                    uint32
	Arrival                                                   sim.Time
	PrefillStart, PrefillEnd, TransferEnd, FirstToken, Finish sim.Time
	KVBytes                                                   units.Bytes
	// TTFT tiles arrival to first token; Decode tiles first to last token.
	TTFT, Decode serving.Pieces
}

// A Transfer is what is kept of a serving.Transfer.
type Transfer struct {
	Request, PrefillRank, DecodeRank, Messages int32
	Bytes                                      units.Bytes
	Posted, Arrived                            sim.Time
	// Post, Wire and Queue tile Posted to Arrived.
	Post, Wire, Queue sim.Time
	// Paths is the part of Wire that links inside the fabric add.
	Paths sim.Time
}

// A Step is what is kept of a serving.Step; see Config.Steps.
type Step struct {
	Pool                                  string
	Instance, Requests, Tokens, Output    int32
	Context                               int64
	Start, End                            sim.Time
	Compute, Dispatch, Combine, AllReduce sim.Time
}

// NewCollector returns a Collector for one run.
func NewCollector(cfg Config) *Collector {
	return &Collector{cfg: cfg, reasonAt: map[string]uint32{}, gaps: eventLog{merge: true}, chosenGaps: eventLog{merge: true}}
}

// Listener returns the callbacks through which the run reports.
func (c *Collector) Listener() serving.Listener {
	return serving.Listener{Request: c.request, Gap: c.gap, Extra: c.extra, Transfer: c.transfer, Step: c.step}
}

func (c *Collector) request(r *serving.Record) {
	if err := check(r); err != nil && c.err == nil {
		c.err = err
	}
	c.requests = append(c.requests, Request{
		ID:           narrow(r.ID),
		PromptTokens: narrow(r.PromptTokens),
		OutputTokens: narrow(r.OutputTokens),
		PrefillRank:  narrow(r.PrefillRank),
		DecodeRank:   narrow(r.DecodeRank),
		Outcome:      r.Outcome,
		reason:       c.intern(r.Reason),
		Arrival:      r.Arrival,
		PrefillStart: r.PrefillStart,
		PrefillEnd:   r.PrefillEnd,
		TransferEnd:  r.TransferEnd,
		FirstToken:   r.FirstToken,
		Finish:       r.Finish,
		KVBytes:      r.KVBytes,
		TTFT:         r.TTFT,
		Decode:       r.Decode,
	})
}

// check verifies that the pieces of a finished request tile its life: a report
// with an unexplained gap in it would not be worth reading.
func check(r *serving.Record) error {
	if r.Outcome != serving.Finished {
		return nil
	}
	if r.FirstToken == sim.Never || r.Finish == sim.Never || r.FirstToken < r.Arrival || r.Finish < r.FirstToken {
		return fmt.Errorf("metrics: request %d finished, but its arrival %v, first token %v and last token %v are not in order",
			r.ID, r.Arrival, r.FirstToken, r.Finish)
	}
	if sum, span := r.TTFT.Sum(), r.FirstToken-r.Arrival; sum != span {
		return fmt.Errorf("metrics: the TTFT pieces of request %d sum to %v, but its TTFT is %v", r.ID, sum, span)
	}
	if sum, span := r.Decode.Sum(), r.Finish-r.FirstToken; sum != span {
		return fmt.Errorf("metrics: the decode pieces of request %d sum to %v, but from first to last token it took %v",
			r.ID, sum, span)
	}
	return nil
}

// narrow saturates, so that a count too large for the row cannot turn negative.
func narrow(n int) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) }

func (c *Collector) intern(reason string) uint32 {
	if i, ok := c.reasonAt[reason]; ok {
		return i
	}
	i := uint32(len(c.reasons))
	c.reasons = append(c.reasons, reason)
	c.reasonAt[reason] = i
	return i
}

func (c *Collector) gap(at, gap sim.Time, count, instance int) {
	c.gaps.add(at, gap, int64(count))
	if c.cfg.chooses() && c.cfg.chosen(instance) {
		c.chosenGaps.add(at, gap, int64(count))
	}
}

func (c *Collector) extra(at sim.Time, tokens, instance int) {
	c.extras.add(at, 0, int64(tokens))
	if c.cfg.chooses() && c.cfg.chosen(instance) {
		c.chosenExtras.add(at, 0, int64(tokens))
	}
}

func (c *Collector) transfer(t *serving.Transfer) {
	c.transfers = append(c.transfers, Transfer{
		Request:     narrow(t.Request),
		PrefillRank: narrow(t.PrefillRank),
		DecodeRank:  narrow(t.DecodeRank),
		Messages:    narrow(t.Messages),
		Bytes:       t.Bytes,
		Posted:      t.Posted,
		Arrived:     t.Arrived,
		Post:        t.Post,
		Wire:        t.Wire,
		Queue:       t.Queue,
		Paths:       t.Paths,
	})
}

func (c *Collector) step(s *serving.Step) {
	if s.Pool == poolPrefill {
		c.prefills.add(s.End, s.End-s.Start, int64(s.Tokens))
	}
	if !c.cfg.Steps {
		return
	}
	c.steps = append(c.steps, Step{
		Pool:      s.Pool,
		Instance:  narrow(s.Instance),
		Requests:  narrow(s.Requests),
		Tokens:    narrow(s.Tokens),
		Output:    narrow(int(s.Output)),
		Context:   s.Context,
		Start:     s.Start,
		End:       s.End,
		Compute:   s.Compute,
		Dispatch:  s.Dispatch,
		Combine:   s.Combine,
		AllReduce: s.AllReduce,
	})
}

// The names of the pools, as in serving.Step and serving.PoolUsage.
const (
	poolPrefill = "prefill"
	poolDecode  = "decode"
)
