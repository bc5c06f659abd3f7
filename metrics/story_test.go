package metrics_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/metrics"
	"github.com/tgssim/tgssim/metrics/metricstest"
	"github.com/tgssim/tgssim/serving"
	"github.com/tgssim/tgssim/sim"
)

const (
	ms = sim.Millisecond
	s  = sim.Second
)

// clockwork is a story without chance: a request a second, 500 ms of prefill,
// 100 ms of transfer, then 11 tokens 100 ms apart. Every request has TTFT 700
// ms and end-to-end latency 1.7 s; the last of 11 arrives at 10 s.
func clockwork() metricstest.Story {
	return metricstest.Story{
		Requests:   metricstest.Regular(11, s, 1000, 11),
		Prefillers: 1, Prefill: 400 * ms, PrefillComm: 100 * ms, Transfer: 100 * ms,
		StepCompute: 60 * ms, StepComm: 30 * ms, StepHost: 10 * ms,
		PrefillGPUs: 4, DecodeGPUs: 8, DecodeRanks: 2,
	}
}

func measure(t testing.TB, story metricstest.Story, cfg metrics.Config, alter func(*metrics.Account)) *metrics.Result {
	t.Helper()
	r, err := story.Measure(cfg, alter)
	require.NoError(t, err)
	return r
}

func TestClockworkLatencies(t *testing.T) {
	r := measure(t, clockwork(), metrics.DefaultConfig(), nil)
	constant := func(n int64, v float64) metrics.Stats {
		return metrics.Stats{Count: n, Mean: v, P50: v, P90: v, P95: v, P99: v, Max: v}
	}
	require.Equal(t, constant(11, 700), r.TTFT)
	require.Equal(t, constant(11, 500), r.TTFTPrefill)
	require.Equal(t, constant(11, 1700), r.E2E)
	require.Equal(t, constant(11, 100), r.TPOT)
	require.Equal(t, constant(110, 100), r.ITL)
	require.Equal(t, constant(11, 100), r.KVTransfer)
}

func TestClockworkThroughput(t *testing.T) {
	r := measure(t, clockwork(), metrics.DefaultConfig(), nil)
	m := r.Summary
	require.Equal(t, metrics.Window{From: 0, To: 11700 * ms}, r.Whole)
	require.Equal(t, metrics.Window{From: 0, To: 10 * s}, r.Arrivals)
	require.Equal(t, metrics.Window{From: 1700 * ms, To: 10 * s}, r.Steady, "ramp-up is the 90th percentile of E2E")

	require.Equal(t, 11, m.Completed)
	require.Equal(t, int64(11_000), m.TotalInputTokens)
	require.Equal(t, int64(121), m.TotalOutputTokens)
	require.Equal(t, int64(121), m.EmittedOutputTokens)
	require.Equal(t, int64(11_000), m.PrefilledTokens)
	require.Equal(t, 11.7, m.Duration)

	near := func(want float64, got *float64) {
		t.Helper()
		require.NotNil(t, got)
		require.InEpsilon(t, want, *got, 1e-12)
	}
	near(121/11.7/12, m.TGS)
	near(121/11.7/8, m.TGSDecode)
	near(11_000/11.7/4, m.TGSPrefill)
	// Tokens come at i + 0.7 s + 0.1 k, k = 0..10. In [1.7, 10): the last of
	// request 0, all of 1 to 8, and the first three of 9.
	near((1+8*11+3)/8.3/12, m.TGSSteady)
	near((1+8*11+3)/8.3/8, m.TGSDecodeSteady)
	// Prefill ends at i + 0.5 s: requests 2 to 9 in the window.
	near(8*1000/8.3/4, m.TGSPrefillSteady)
	near(1, m.OfferedRate)
	near(11, m.OfferedOutputTokens)
	near(11./12, m.TGSOffered)
	// Finishes come at i + 1.7 s; those of requests 0 to 8 are in the window.
	near(9/8.3, m.ServedRate)
	near(11/11.7, m.RequestThroughput)
	near(121/11.7, m.OutputThroughput)
	near((11_000+121)/11.7, m.TotalTokenThroughput)
	near(0.1, m.SecondsPerToken)
	near(10, m.TokensPerUser)
	// Each request runs for 11 steps of 100 ms.
	near(11*1.1/11.7/8, m.BatchPerDecodeGPU)
	near(11*1.1/11.7/8/0.1, m.BatchOverTPOT)
	near(*m.TGSDecode, m.BatchOverTPOT)
	require.Equal(t, 2, m.PeakRequestsInSystem)
	require.Equal(t, 2, m.MaxConcurrentRequests)
	require.Equal(t, int64(11), m.MaxOutputTokensPerS)
	// Requests 0, 2, .. 10 on rank 0, the rest on rank 1.
	near(11*11/(2*(6.*6+5*5)), m.JFIDecodeTokens)
	near(11*11/(2*(6.*6+5*5)), m.JFIDecodeKVBytes)
	require.Empty(t, r.Notes)
}

func TestClockworkSplit(t *testing.T) {
	r := measure(t, clockwork(), metrics.DefaultConfig(), nil)
	require.Equal(t, 700., r.TTFTMean.TTFT)
	require.Equal(t, 400., r.TTFTMean.Mean[serving.PiecePrefillCompute])
	require.Equal(t, 100., r.TTFTMean.Mean[serving.PieceTransferWire])
	require.Equal(t, 30., r.TTFTMean.Mean[serving.PieceDecodeComm])
	require.Equal(t, 142_857, r.TTFTMean.Transfer(), "1/7")
	require.Equal(t, r.TTFTMean, r.TTFTTail, "all requests are at the 99th percentile")
	require.Equal(t, 0.142857, *r.Summary.KVTransferShare)
}

// vLLM counts whoever was there in some part of a second: two requests that
// never meet are two at once when they share one.
func TestVLLMConcurrencyIsPerSecond(t *testing.T) {
	story := clockwork()
	story.Requests = metricstest.Regular(4, 1800*ms, 1000, 11)
	m := measure(t, story, metrics.DefaultConfig(), nil).Summary
	require.Equal(t, 1, m.PeakRequestsInSystem)
	require.Equal(t, 2, m.MaxConcurrentRequests, "the first ends at 1.7 s, the second begins at 1.8 s")
}

// Who leaves at the instant of an arrival is no longer there.
func TestPeakCountsInstants(t *testing.T) {
	story := clockwork()
	story.Requests = metricstest.Regular(4, 1700*ms, 1000, 11)
	require.Equal(t, 1, measure(t, story, metrics.DefaultConfig(), nil).Summary.PeakRequestsInSystem)
	story.Requests = metricstest.Regular(4, 1700*ms-1, 1000, 11)
	require.Equal(t, 2, measure(t, story, metrics.DefaultConfig(), nil).Summary.PeakRequestsInSystem)
}

// One slow request among a hundred: the tail is that one, and its split is its
// own.
func TestTailSplitIsTheSlowOne(t *testing.T) {
	story := clockwork()
	story.Requests = metricstest.Regular(100, s, 1000, 2)
	story.Requests[50].Arrival = story.Requests[49].Arrival + 300*ms // waits 200 ms for prefill
	r := measure(t, story, metrics.DefaultConfig(), nil)
	require.Equal(t, 1, r.TTFTTail.Requests)
	require.Equal(t, 200., r.TTFTTail.Mean[serving.PieceQueue])
	require.Equal(t, 900., r.TTFTTail.TTFT)
	require.Equal(t, 222_222, r.TTFTTail.Share[serving.PieceQueue])
	require.InDelta(t, 702, r.TTFTMean.TTFT, 1e-9)
}

// Latencies of some decode instances are those of a run that only they serve; what
// is the cluster's stays.
func TestDecodeInstances(t *testing.T) {
	story := metricstest.Story{
		Requests: metricstest.Poisson(90, 20, 100, 10, 1), Prefillers: 1, Wires: 1,
		Prefill: 20 * ms, Transfer: 10 * ms, StepCompute: 20 * ms, DecodeRanks: 3, PrefillGPUs: 1, DecodeGPUs: 3,
	}
	for i := range story.Requests { // ranks get requests in turn, and every third long answers
		story.Requests[i].OutputTokens += 5 * (i % 3)
	}
	of := func(instances ...int) *metrics.Result {
		cfg := metrics.DefaultConfig()
		cfg.DecodeInstances = instances
		return measure(t, story, cfg, func(a *metrics.Account) { a.Pools[1].Instances = 3 })
	}
	all, some := of(), of(0, 2)
	require.Equal(t, all.Summary.TGS, some.Summary.TGS)
	require.Equal(t, all.Steady, some.Steady)
	require.EqualValues(t, 60, some.TTFT.Count)
	require.EqualValues(t, 60, some.KVTransfer.Count)
	require.EqualValues(t, 30*(9+19), some.ITL.Count)
	require.Contains(t, some.Notes, "Latencies and KV transfers are of decode instances [0 2] only (metrics.decode_instances).")
	var ttft, sum float64
	for _, k := range []int{0, 1, 2} {
		one := of(k)
		require.EqualValues(t, 30, one.E2E.Count)
		require.EqualValues(t, 30*(9+5*k), one.ITL.Count)
		ttft += one.TTFT.Mean / 3
		sum += one.KVTransfer.Mean / 3
	}
	require.InDelta(t, all.TTFT.Mean, ttft, 1e-9)
	require.InDelta(t, all.KVTransfer.Mean, sum, 1e-9)
	require.Equal(t, all.ITL, of(2, 1, 0).ITL)
}

// With a warm-up, earlier arrivals leave the latency statistics but not the
// token sums, and the steady window starts at its end.
func TestWarmup(t *testing.T) {
	story := clockwork()
	story.Requests[1].Arrival = 200 * ms // waits 300 ms, in the warm-up
	cfg := metrics.DefaultConfig()
	all := measure(t, story, cfg, nil)
	require.Equal(t, 1000., all.TTFT.Max)
	cfg.Warmup = 3 * s
	warm := measure(t, story, cfg, nil)
	require.Equal(t, int64(8), warm.TTFT.Count, "requests 3 to 10")
	require.Equal(t, 700., warm.TTFT.Max)
	require.Equal(t, metrics.Window{From: 3 * s, To: 10 * s}, warm.Steady)
	require.Equal(t, all.Summary.TotalOutputTokens, warm.Summary.TotalOutputTokens)
	require.Equal(t, *all.Summary.TGS, *warm.Summary.TGS)
	// Gaps that end at or after 3 s: those of request 2 end at 2.8 to 3.7 s.
	require.Equal(t, int64(8*10+8), warm.ITL.Count)

	cfg.Warmup = 3600 * s // longer than the run: nothing is left to measure
	none := measure(t, story, cfg, nil)
	require.Zero(t, none.TTFT.Count)
	require.Zero(t, none.ITL.Count)
	require.Nil(t, none.Summary.TGSSteady)
	require.Nil(t, none.Summary.MeanTTFT)
	// The note on a short steady window does not hang on the samples that a warm-up
	// leaves: here the only request after it is unfinished.
	short := clockwork()
	short.Requests, short.Prefill, short.PrefillComm = metricstest.Regular(11, 200*ms, 1000, 30), 50*ms, 0
	short.Stop, cfg.Warmup = 5*s, 1900*ms
	r := measure(t, short, cfg, nil)
	require.Zero(t, r.E2E.Count)
	require.Equal(t, 10, r.Summary.Completed)
	require.Contains(t, strings.Join(r.Notes, "\n"), "less than one mean end-to-end latency")
	cfg.Warmup = 3600 * s

	cfg.SLO = metrics.SLO{TTFT: s, Percentile: 99}
	require.Equal(t, []metrics.Limit{{Name: "TTFT", LimitMS: 1000, NoSamples: true}}, measure(t, story, cfg, nil).Limits)
	require.NotNil(t, none.Summary.TGS)
}

// A later start of the clock changes no figure but the instants.
func TestShiftingTheClockChangesNothing(t *testing.T) {
	story := clockwork()
	base := measure(t, story, metrics.DefaultConfig(), nil)
	for i := range story.Requests {
		story.Requests[i].Arrival += 1000 * s
	}
	moved := measure(t, story, metrics.DefaultConfig(), nil)
	require.Equal(t, base.TTFT, moved.TTFT)
	require.Equal(t, *base.Summary.TGS, *moved.Summary.TGS)
	require.Equal(t, *base.Summary.TGSSteady, *moved.Summary.TGSSteady)
	require.Equal(t, base.Summary.MaxOutputTokensPerS, moved.Summary.MaxOutputTokensPerS)
	require.Equal(t, base.TTFTMean, moved.TTFTMean)
	require.Len(t, moved.Series, len(base.Series))
}

// The series neither loses nor invents anything: counts sum to the totals, and
// mean occupancies times their windows to the time that requests spent there.
func TestSeriesConserves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		story := clockwork()
		n := rapid.IntRange(1, 60).Draw(t, "requests")
		story.Requests = metricstest.Poisson(n, 1.5, 100, rapid.IntRange(1, 30).Draw(t, "out"), rapid.Uint64().Draw(t, "seed"))
		story.Memory = rapid.IntRange(0, 4).Draw(t, "memory")
		story.Wires = rapid.IntRange(0, 2).Draw(t, "wires")
		story.Batch = rapid.IntRange(0, 3).Draw(t, "batch")
		cfg := metrics.DefaultConfig()
		cfg.Window = sim.Time(rapid.SampledFrom([]int64{0, 1, 7, 60}).Draw(t, "window")) * s / 4
		r, err := story.Measure(cfg, nil)
		require.NoError(t, err)
		var arrivals, finished, prompt, output int64
		var inSystem, running float64
		var waiting [metrics.NumStages]float64
		for i, row := range r.Series {
			arrivals += row.Arrivals
			finished += row.Finished
			prompt += row.PromptTokens
			output += row.OutputTokens
			inSystem += row.InSystem * row.Length().Seconds()
			for k, n := range row.Waiting {
				waiting[k] += n * row.Length().Seconds()
			}
			running += row.Running * row.Length().Seconds()
			require.Positive(t, row.Length())
			if i > 0 {
				require.Equal(t, r.Series[i-1].To, row.From)
			}
		}
		require.Equal(t, r.Whole, metrics.Window{From: r.Series[0].From, To: r.Series[len(r.Series)-1].To})
		require.Equal(t, int64(n), arrivals)
		require.Equal(t, int64(n), finished)
		require.Equal(t, r.Summary.PrefilledTokens, prompt)
		require.Equal(t, r.Summary.TotalOutputTokens, output)
		var e2e, decoding float64
		var waited [metrics.NumStages]float64
		for i := range r.Requests {
			q := &r.Requests[i]
			e2e += q.E2E().Seconds()
			waited[metrics.StageQueue] += q.TTFT[serving.PieceQueue].Seconds()
			waited[metrics.StageDecodeMemory] += q.TTFT[serving.PieceDecodeMemory].Seconds()
			waited[metrics.StageTransfer] += (q.TTFT[serving.PieceTransferWire] + q.TTFT[serving.PieceTransferQueue]).Seconds()
			waited[metrics.StageDecodeWait] += q.TTFT[serving.PieceDecodeWait].Seconds()
			decoding += 0.1 * float64(q.OutputTokens)
		}
		require.InDelta(t, e2e, inSystem, 1e-6)
		require.InDeltaSlice(t, waited[:], waiting[:], 1e-6)
		require.InDelta(t, decoding, running, 1e-6)
	})
}

func TestGoodputAndSLO(t *testing.T) {
	story := clockwork()
	story.Requests[5].Arrival = story.Requests[4].Arrival + 200*ms // TTFT 1 s
	story.Reject = map[int]string{7: "prompt too long"}
	cfg := metrics.DefaultConfig()
	cfg.SLO.TTFT = 700 * ms
	r := measure(t, story, cfg, nil)
	require.InEpsilon(t, 9/11.7, *r.Summary.RequestGoodput, 1e-12, "one is late, one rejected")
	require.InEpsilon(t, 9./11, *r.Summary.SLOAttainment, 1e-12)
	require.False(t, *r.Summary.SLOMet)

	cfg.SLO.TTFT = s
	r = measure(t, story, cfg, nil)
	require.InEpsilon(t, 10/11.7, *r.Summary.RequestGoodput, 1e-12)
	require.True(t, r.Limits[0].Met, "a limit is met when it is reached")
	require.False(t, *r.Summary.SLOMet, "one of eleven rejected is more than 1 %")

	story.Reject = nil
	cfg.SLO = metrics.SLO{TTFT: s, ITL: 100 * ms, TPOT: 100 * ms, E2E: 2 * s, Percentile: 99}
	r = measure(t, story, cfg, nil)
	require.True(t, *r.Summary.SLOMet)
	require.Len(t, r.Limits, 4)
	for name, slo := range map[string]metrics.SLO{
		"ITL":  {ITL: 99 * ms, Percentile: 99},
		"TPOT": {TPOT: 99 * ms, Percentile: 99},
		"E2E":  {E2E: 1699 * ms, Percentile: 99},
	} {
		cfg.SLO = slo
		r = measure(t, story, cfg, nil)
		require.False(t, *r.Summary.SLOMet, name)
		require.Equal(t, name, r.Limits[0].Name)
		if name == "ITL" {
			require.Equal(t, 1., *r.Summary.SLOAttainment, "the ITL limit is the run's, not a request's")
		} else {
			require.Zero(t, *r.Summary.SLOAttainment)
		}
	}
	// Half the requests are late by the median, none by the minimum.
	cfg.SLO = metrics.SLO{TTFT: 700 * ms, Percentile: 90}
	require.True(t, *measure(t, story, cfg, nil).Summary.SLOMet, "one of eleven may be late at the 90th percentile")

	cfg.SLO = metrics.SLO{Percentile: 99}
	r = measure(t, story, cfg, nil)
	require.Nil(t, r.Summary.RequestGoodput)
	require.Nil(t, r.Summary.SLOMet)
}

// One output token has no TPOT and no gap, and meets their limits.
func TestOneToken(t *testing.T) {
	story := clockwork()
	for i := range story.Requests {
		story.Requests[i].OutputTokens = 1
	}
	cfg := metrics.DefaultConfig()
	cfg.SLO = metrics.SLO{TPOT: 1, ITL: 1, Percentile: 99}
	r := measure(t, story, cfg, nil)
	require.Zero(t, r.TPOT.Count)
	require.Zero(t, r.ITL.Count)
	require.Nil(t, r.Summary.MeanTPOT)
	require.Nil(t, r.Summary.SecondsPerToken)
	require.Nil(t, r.Summary.TokensPerUser)
	require.Nil(t, r.Summary.BatchOverTPOT)
	require.Equal(t, 1., *r.Summary.SLOAttainment)
	require.True(t, *r.Summary.SLOMet)
	require.Equal(t, 700., r.E2E.Mean)
}

func TestNothingToMeasure(t *testing.T) {
	cfg := metrics.DefaultConfig()
	cfg.SLO.TTFT = s
	t.Run("no requests", func(t *testing.T) {
		r, err := metrics.NewCollector(cfg).Finish(metrics.Account{})
		require.NoError(t, err)
		require.Equal(t, metrics.Inconclusive, r.Saturation.Load)
		require.Equal(t, "No request was admitted.", r.Saturation.Evidence)
		require.Equal(t, metrics.WaiterUnknown, r.Network.Waiter)
		checkJSON(t, r)
	})
	t.Run("all rejected", func(t *testing.T) {
		story := clockwork()
		story.Reject = map[int]string{}
		for i := range story.Requests {
			story.Reject[i] = "no KV blocks"
		}
		r := measure(t, story, cfg, nil)
		require.Equal(t, 11, r.Summary.Failed)
		require.Equal(t, 0., *r.Summary.RequestGoodput)
		require.False(t, *r.Summary.SLOMet)
		require.Equal(t, 0., *r.Summary.TGS)
		require.Equal(t, metrics.Inconclusive, r.Saturation.Load)
		require.Equal(t, []string{"Rejected 11 requests: no KV blocks (11)."}, r.Notes)
		checkJSON(t, r)
	})
	t.Run("one request", func(t *testing.T) {
		story := clockwork()
		story.Requests = story.Requests[:1]
		r := measure(t, story, cfg, nil)
		require.Nil(t, r.Summary.OfferedRate, "one arrival has no rate")
		require.Nil(t, r.Summary.TGSSteady)
		require.InEpsilon(t, 11/1.7/12, *r.Summary.TGS, 1e-12)
		require.Equal(t, metrics.Inconclusive, r.Saturation.Load)
		checkJSON(t, r)
	})
}

// checkJSON makes sure that a summary survives JSON and holds no NaN.
func checkJSON(t *testing.T, r *metrics.Result) {
	t.Helper()
	text, err := json.Marshal(r.Summary)
	require.NoError(t, err)
	require.NotContains(t, string(text), "NaN")
	require.NotContains(t, string(text), "Inf")
	var back metrics.Summary
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, r.Summary, back)
}

// A report must not hide a gap in a request's life, or count one twice.
func TestAccountMustAddUp(t *testing.T) {
	for name, spoil := range map[string]func(r *serving.Record){
		"TTFT pieces":   func(r *serving.Record) { r.TTFT[serving.PieceQueue]++ },
		"decode pieces": func(r *serving.Record) { r.Decode[serving.PieceDecodeHost]-- },
		"in order":      func(r *serving.Record) { r.FirstToken = sim.Never },
		"twice":         func(r *serving.Record) { r.ID = 2 },
	} {
		c := metrics.NewCollector(metrics.DefaultConfig())
		l := c.Listener()
		told := l.Request
		l.Request = func(r *serving.Record) {
			if r.ID == 3 {
				spoil(r)
			}
			told(r)
		}
		a := clockwork().Play(l)
		_, err := c.Finish(a)
		require.ErrorContains(t, err, name)
	}
}

func TestConfigValidate(t *testing.T) {
	require.NoError(t, metrics.DefaultConfig().Validate())
	for key, spoil := range map[string]func(c *metrics.Config){
		"warmup":         func(c *metrics.Config) { c.Warmup = -1 },
		"window":         func(c *metrics.Config) { c.Window = sim.Microsecond },
		"top_links":      func(c *metrics.Config) { c.TopLinks = -1 },
		"slo.ttft":       func(c *metrics.Config) { c.SLO.TTFT = -1 },
		"slo.itl":        func(c *metrics.Config) { c.SLO.ITL = sim.Never },
		"slo.percentile": func(c *metrics.Config) { c.SLO.Percentile = 0 },
	} {
		c := metrics.DefaultConfig()
		spoil(&c)
		require.ErrorContains(t, c.Validate(), key+": ")
	}
}

func BenchmarkCollector(b *testing.B) {
	// A decode instance reports a gap per step and running batch, a request every
	// ten steps.
	record := serving.Record{Outcome: serving.Finished}
	for b.Loop() {
		c := metrics.NewCollector(metrics.DefaultConfig())
		l := c.Listener()
		for i := range 100_000 {
			at := sim.Time(i) * 30 * ms
			l.Gap(at, 30*ms+sim.Time(i%1000), 100, 0)
			if i%10 == 0 {
				record.ID = i / 10
				l.Request(&record)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100_000, "ns/step")
	b.ReportAllocs()
}
