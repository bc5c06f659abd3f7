package metrics_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/metrics"
	"github.com/tgssim/tgssim/metrics/metricstest"
	"github.com/tgssim/tgssim/serving"
	"github.com/tgssim/tgssim/sim"
)

// A run cut short counts the tokens of unfinished requests in its windows, not
// in vLLM's totals, and says that its latencies are too good.
func TestUnfinished(t *testing.T) {
	story := clockwork()
	story.Stop = 10*s + 100*ms // cuts request 9 at 5 tokens, and 10
	r := measure(t, story, metrics.DefaultConfig(), nil)
	m := r.Summary
	require.Equal(t, 9, m.Completed)
	require.Equal(t, 2, m.RequestsUnfinished)
	require.Equal(t, 2, m.Failed)
	require.Equal(t, int64(99), m.TotalOutputTokens)
	require.Equal(t, int64(99+5), m.EmittedOutputTokens)
	require.Equal(t, 10.1, m.Duration)
	// TGS counts what the GPUs emitted, vLLM's keys what was finished.
	require.InEpsilon(t, 104/10.1/12, *m.TGS, 1e-12)
	require.InEpsilon(t, 104/10.1/8, *m.TGSDecode, 1e-12)
	require.InEpsilon(t, 99/10.1, *m.OutputThroughput, 1e-12)
	// Nine requests ran for 1.1 s, request 9 from 9.6 s on.
	require.InEpsilon(t, (9*1.1+0.5)/10.1/8, *m.BatchPerDecodeGPU, 1e-12)
	require.InEpsilon(t, *m.TGSDecode, *m.BatchOverTPOT, 1e-2)
	require.Len(t, r.Notes, 1)
	require.Contains(t, r.Notes[0], "2 requests were unfinished")
	// Request 9 runs from 9.6 s on; request 10 waits for its prefill.
	last := r.Series[len(r.Series)-1]
	require.Equal(t, 2., last.InSystem)
	require.Equal(t, 1., last.Running)
	checkJSON(t, r)
}

// Wherever a run is cut short, TGS is what the series counts, and the batch what
// it holds.
func TestTGSIsWhatTheSeriesCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		story := clockwork()
		story.Requests = metricstest.Poisson(rapid.IntRange(1, 60).Draw(t, "requests"), 2, 100, 12, rapid.Uint64().Draw(t, "seed"))
		story.Batch = rapid.IntRange(0, 3).Draw(t, "batch")
		story.Stop = sim.Time(rapid.Int64Range(0, 60).Draw(t, "stop")) * s / 2
		if last := story.Requests[len(story.Requests)-1].Arrival; story.Stop > 0 {
			story.Stop = max(story.Stop, last) // what has not arrived is not heard of
		}
		r, err := story.Measure(metrics.DefaultConfig(), nil)
		require.NoError(t, err)
		if r.Whole.Length() == 0 {
			t.Skip("nothing happens")
		}
		var tokens, running float64
		for _, row := range r.Series {
			tokens += float64(row.OutputTokens)
			running += row.Running * row.Length().Seconds()
		}
		whole := r.Whole.Length().Seconds()
		require.InDelta(t, tokens/whole/12, *r.Summary.TGS, 1e-9)
		require.InDelta(t, running/whole/8, *r.Summary.BatchPerDecodeGPU, 1e-9)
	})
}

// A run may reach the end of the clock: no span overflows, and a note says why
// requests are unfinished.
func TestEndOfClock(t *testing.T) {
	for _, window := range []sim.Time{0, ms} {
		cfg := metrics.DefaultConfig()
		cfg.Window = window
		c := metrics.NewCollector(cfg)
		l := c.Listener()
		late := sim.Never - 2
		for id := range 60 {
			r := serving.Record{
				PrefillStart: 1, PrefillEnd: 2, TransferEnd: 3, FirstToken: late - s, Finish: late, Outcome: serving.Finished,
			}
			r.ID, r.PromptTokens, r.OutputTokens = id, 10, 2
			r.Arrival = sim.Time(id % 2)
			r.PrefillStart = r.Arrival
			r.TTFT[serving.PieceDecodeWait] = r.FirstToken - r.Arrival
			r.Decode[serving.PieceDecodeCompute] = s
			if id%3 == 0 {
				r.Outcome, r.FirstToken, r.Finish = serving.Unfinished, sim.Never, sim.Never
			}
			l.Request(&r)
		}
		l.Gap(late, s, 40, 0)
		r, err := c.Finish(metrics.Account{End: sim.Never - 1, Exhausted: true, GPUs: 2, Pools: []serving.PoolUsage{{Pool: "decode", GPUs: 2}}})
		require.NoError(t, err)
		require.LessOrEqual(t, len(r.Series), 100_000)
		require.Equal(t, r.Whole.To, r.Series[len(r.Series)-1].To)
		for i, row := range r.Series {
			require.Positive(t, row.Length(), i)
		}
		require.Contains(t, strings.Join(r.Notes, "\n"), "the 106 days that the clock covers")
		require.Equal(t, window > 0, strings.Contains(strings.Join(r.Notes, "\n"), "metrics.window 1ms would make more than 100,000 rows"))
		checkJSON(t, r)
	}
	story := clockwork()
	story.Stop = 5 * s
	for _, n := range measure(t, story, metrics.DefaultConfig(), nil).Notes {
		require.NotContains(t, n, "106 days", "this run was stopped")
	}
}
