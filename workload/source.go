package workload

import (
	"fmt"

	"github.com/tgssim/tgssim/internal/invariants"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// A Source yields the requests of one run.
type Source interface {
	// Next returns the next request, in order of arrival: IDs count from 0 and
	// arrivals never decrease. It returns false when there is none left.
	Next() (Request, bool)
	// Stats describes the requests returned so far.
	Stats() Stats
}

// Stats describes what a Source has returned.
type Stats struct {
	// Requests, and the tokens of their prompts and outputs.
	Requests                   int
	PromptTokens, OutputTokens int64
	// First and Last are the first and last arrival.
	First, Last sim.Time
	// Clamped counts the lognormal prompts and outputs that were drawn outside
	// their bounds and put at the nearer one.
	Clamped int
	// PastClock tells that the arrivals left the 106 days that the clock covers,
	// which ended a synthetic workload early.
	PastClock bool
	// BlockTokens is the number of tokens of a prefix block, 0 without blocks.
	BlockTokens int
	// Blocks counts the prefix blocks, RepeatedBlocks those among them that had
	// come before: the hits of a cache that never evicts.
	Blocks, RepeatedBlocks int64
	// Trace is what was read, when a trace is replayed.
	Trace TraceStats
}

// Rate is the offered rate, measured: the number of gaps over the time from the
// first to the last arrival. It is 0 when there is no such time.
func (s Stats) Rate() units.Frequency {
	if s.Last <= s.First {
		return 0
	}
	return units.Frequency(float64(s.Requests-1) / (s.Last - s.First).Seconds())
}

// MeanPrompt is the mean prompt length in tokens, 0 without requests.
func (s Stats) MeanPrompt() float64 { return mean(s.PromptTokens, s.Requests) }

// MeanOutput is the mean output length in tokens, 0 without requests.
func (s Stats) MeanOutput() float64 { return mean(s.OutputTokens, s.Requests) }

func mean(sum int64, n int) float64 {
	if n == 0 {
		return 0
	}
	return float64(sum) / float64(n)
}

// A Generator is a workload made ready: its trace read and checked, its tables
// built. It does not change, so the runs of many goroutines may share one.
type Generator struct {
	cfg            Config
	prompt, output law
	popularity     []float64
	trace          *Trace
	played         int
}

// Load checks cfg and reads its trace, if it has one. The error is a
// config.Problems: with keys relative to cfg for a setting, with the file and
// line for a row of the trace.
func Load(cfg Config) (*Generator, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Trace != nil {
		trace, err := openTrace(*cfg.Trace)
		if err != nil {
			return nil, err
		}
		return trace.Replay(cfg)
	}
	g := &Generator{cfg: cfg, prompt: newLaw(*cfg.Prompt), output: newLaw(*cfg.Output)}
	if cfg.Prefix != nil {
		g.popularity = powerLaw(cfg.Prefix.Alpha, 1, cfg.Prefix.Groups)
	}
	return g, nil
}

// Source starts the workload from its beginning, with the random numbers of one
// run. Arrivals, prompts, outputs and prefixes have a stream each, named
// "workload/arrivals" and so on, so that changing one does not shift the others.
func (g *Generator) Source(streams sim.Streams) Source {
	if g.trace != nil {
		return newReplay(g)
	}
	s := &synthetic{
		requests: g.cfg.Requests,
		end:      g.cfg.Duration,
		arrivals: newProcess(*g.cfg.Arrivals, streams.Stream("workload/arrivals")),
		prompt:   sampler{law: g.prompt, r: streams.Stream("workload/prompt")},
		output:   sampler{law: g.output, r: streams.Stream("workload/output")},
	}
	if s.requests == 0 {
		s.requests = maxRequests
	}
	if s.end == 0 {
		s.end = sim.Never
	}
	if g.cfg.Prefix != nil {
		s.prefixes = &prefixes{
			PrefixConfig: *g.cfg.Prefix,
			popularity:   g.popularity,
			r:            streams.Stream("workload/prefix"),
		}
		s.stats.BlockTokens = g.cfg.Prefix.BlockTokens
	}
	return s
}

// New is Load and Generator.Source in one, for a single run.
func New(cfg Config, streams sim.Streams) (Source, error) {
	g, err := Load(cfg)
	if err != nil {
		return nil, err
	}
	return g.Source(streams), nil
}

// synthetic draws requests.
type synthetic struct {
	requests       int
	end            sim.Time
	done           bool
	arrivals       process
	prompt, output sampler
	prefixes       *prefixes
	tally
}

func (s *synthetic) Next() (Request, bool) {
	if s.done || s.stats.Requests == s.requests {
		return Request{}, false
	}
	at := s.arrivals.next()
	if at >= s.end {
		s.done = true
		s.stats.PastClock = at == sim.Never && s.end == sim.Never
		return Request{}, false
	}
	r := Request{
		ID: s.stats.Requests, Arrival: at,
		PromptTokens: s.prompt.next(), OutputTokens: s.output.next(),
	}
	shared := 0
	if s.prefixes != nil {
		r.Blocks, shared = s.prefixes.blocks(r.ID, r.PromptTokens)
	}
	s.add(&r, shared)
	return r, true
}

func (s *synthetic) Stats() Stats {
	st := s.stats
	st.Clamped = s.prompt.clamped + s.output.clamped
	return st
}

// tally keeps the statistics of the requests returned.
type tally struct {
	stats Stats
	seen  map[uint64]struct{}
}

// add counts a request of which the first mayRepeat blocks may also be those of
// another.
func (t *tally) add(r *Request, mayRepeat int) {
	s := &t.stats
	if invariants.Enabled && (r.ID != s.Requests || r.Arrival < s.Last || r.PromptTokens < 1 || r.OutputTokens < 1) {
		panic(fmt.Sprintf("workload: request %+v after %d, the last at %v", *r, s.Requests, s.Last))
	}
	if s.Requests == 0 {
		s.First = r.Arrival
	}
	s.Last = r.Arrival
	s.Requests++
	s.PromptTokens += int64(r.PromptTokens)
	s.OutputTokens += int64(r.OutputTokens)
	s.Blocks += int64(len(r.Blocks))
	if mayRepeat == 0 {
		return
	}
	if t.seen == nil {
		t.seen = map[uint64]struct{}{}
	}
	before := len(t.seen)
	for _, b := range r.Blocks[:mayRepeat] {
		t.seen[b] = struct{}{}
	}
	s.RepeatedBlocks += int64(mayRepeat - (len(t.seen) - before))
}
