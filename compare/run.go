package compare

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/tgssim/tgssim/experiment"
)

// Options say how a comparison is executed. They change no figure.
type Options struct {
	// Workers is the number of runs at a time; 0 is one per core.
	Workers int
	// Report is called after every run, from one goroutine at a time, with the
	// number of runs that are done; nil is never.
	Report func(done int)

	order []int // in which tests make the runs
}

// A Run is one run of a variant.
type Run struct {
	Variant     string `json:"variant"`
	Replication int    `json:"replication"`
	// Error is why there are no results; "" when there are.
	Error string `json:"error,omitempty"`
	// Fingerprint is the hash of the trajectory, 16 hexadecimal digits.
	Fingerprint string `json:"fingerprint,omitempty"`
	// Saturation is the verdict on the load, Lost the requests that were rejected or
	// left unfinished.
	Saturation string `json:"saturation,omitempty"`
	Lost       int    `json:"lost"`

	values map[string]float64 // all numbers of the summary
	doubts []string           // of the run, in its own words
}

// Value is a measure of the run; ok is false when it is undefined.
func (r *Run) Value(key string) (x float64, ok bool) {
	x, ok = r.values[key]
	return x, ok
}

func (r *Run) has(key string) bool {
	_, ok := r.values[key]
	return ok
}

// Run makes all runs and compares them. A run that cannot be made is a Run with an
// error, and the others go on. A cancelled context stops it with its error. The
// result does not depend on the number of workers.
func (p *Plan) Run(ctx context.Context, o Options) (*Result, error) {
	runs := make([]Run, p.Runs())
	workers := o.Workers
	if workers < 1 {
		workers = runtime.GOMAXPROCS(0)
	}
	traces := experiment.Traces{Limit: max(len(p.Variants), workers)}
	var next atomic.Int64
	var mu sync.Mutex
	done := 0
	var group sync.WaitGroup
	for range min(workers, len(runs)) {
		group.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1) - 1)
				if i >= len(runs) {
					return
				}
				if o.order != nil {
					i = o.order[i]
				}
				runs[i] = p.run(ctx, i, &traces)
				mu.Lock()
				if done++; o.Report != nil && ctx.Err() == nil {
					o.Report(done)
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return p.result(runs), nil
}

// run makes run i; runs are in the order of replications, and of variants in each.
// A panic is a mistake of ours; it fails the run and not the comparison.
func (p *Plan) run(ctx context.Context, i int, traces *experiment.Traces) (r Run) {
	v := &p.Variants[i%len(p.Variants)]
	r = Run{Variant: v.Letter, Replication: i / len(p.Variants)}
	defer func() {
		if x := recover(); x != nil {
			r.Error = fmt.Sprintf("internal error: %v", x)
		}
	}()
	s := *v.Scenario
	s.Replication = uint64(r.Replication)
	b, err := experiment.BuildWith(&s, traces)
	if err == nil {
		var result *experiment.Result
		if result, err = b.Run(ctx, nil); err == nil {
			err = r.succeed(result)
		}
	}
	if err != nil {
		r.Error = err.Error()
	}
	return r
}

// succeed takes the numbers of a finished run.
func (r *Run) succeed(result *experiment.Result) error {
	r.Fingerprint = fmt.Sprintf("%016x", result.Fingerprint)
	s := &result.Summary
	r.Saturation, r.Lost, r.doubts = s.Saturation, s.Failed, result.Doubts
	r.values = map[string]float64{}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	for key, v := range all {
		if n, ok := v.(float64); ok {
			r.values[key] = n
		}
	}
	// The pieces of the mean TTFT in milliseconds: shares of different totals could
	// not be compared.
	if ttft, ok := r.values["mean_ttft_ms"]; ok {
		for _, x := range pieces {
			if share, ok := r.values["ttft_share_"+x.key]; ok {
				r.values["ttft_ms_"+x.key] = share * ttft
			}
		}
	}
	return nil
}
