package metrics_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/metrics"
	"github.com/tgssim/tgssim/metrics/metricstest"
	"github.com/tgssim/tgssim/serving"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/workload"
)

// md1 is an M/D/1 queue in front of prefill, at a load, with everything after
// it unlimited.
func md1(n int, load float64, seed uint64) metricstest.Story {
	return metricstest.Story{
		Requests:   metricstest.Poisson(n, 10*load, 1000, 4, seed),
		Prefillers: 1, Prefill: 100 * ms, Transfer: 5 * ms,
		StepCompute: 100 * ms, PrefillGPUs: 8, DecodeGPUs: 8,
	}
}

// judgeAll measures stories with seeds 1 to 10 and counts the verdicts.
func judgeAll(t *testing.T, story func(seed uint64) metricstest.Story) map[string]int {
	t.Helper()
	verdicts := map[string]int{}
	for seed := range uint64(10) {
		r := measure(t, story(seed+1), metrics.DefaultConfig(), nil)
		verdicts[r.Saturation.String()]++
		t.Logf("%v: %s", r.Saturation.String(), r.Saturation.Evidence)
	}
	return verdicts
}

func TestMD1(t *testing.T) {
	for _, c := range []struct {
		n    int
		load float64
		want string
		// least is how many of 10 runs must get the verdict; the rest may be
		// inconclusive and nothing else.
		least int
	}{
		{1000, 0.5, "underloaded", 10},
		{1000, 0.8, "keeping up", 10},
		{1000, 0.9, "keeping up", 10},
		{1000, 1.2, "saturated (prefill queue)", 8},
		{2000, 1.2, "saturated (prefill queue)", 10},
		{200, 2, "saturated (prefill queue)", 10},
		{10_000, 1.05, "saturated (prefill queue)", 8},
		{20, 0.9, "inconclusive", 10},
		{20, 1.2, "inconclusive", 10},
		{20, 5, "inconclusive", 10},
	} {
		t.Run(fmt.Sprintf("%d requests at %v", c.n, c.load), func(t *testing.T) {
			got := judgeAll(t, func(seed uint64) metricstest.Story { return md1(c.n, c.load, seed) })
			require.GreaterOrEqual(t, got[c.want], c.least, "%v", got)
			if c.want != "inconclusive" {
				require.Equal(t, 10, got[c.want]+got["inconclusive"], "%v", got)
			}
		})
	}
}

// A short run may fail to tell, but it must not tell the wrong thing.
func TestShortRunsDoNotMislead(t *testing.T) {
	for _, n := range []int{60, 100, 200, 400} {
		got := judgeAll(t, func(seed uint64) metricstest.Story { return md1(n, 1.3, seed) })
		require.Zero(t, got["keeping up"]+got["underloaded"], "%d requests at 130 %%: %v", n, got)
		got = judgeAll(t, func(seed uint64) metricstest.Story { return md1(n, 0.6, seed) })
		require.Zero(t, got["saturated (prefill queue)"], "%d requests at 60 %%: %v", n, got)
	}
}

// An overload of 5 % that chance happens to hide: the growth is more than chance
// makes likely and less than proof, and the verdict says so.
func TestCloseToTheLimit(t *testing.T) {
	r := measure(t, md1(10_000, 1.05, 15), metrics.DefaultConfig(), nil)
	growth := r.Saturation.Growth[metrics.StageQueue] / r.Saturation.Noise
	require.True(t, growth > 1.5 && growth < 3, "the story is no longer the one meant: %v", growth)
	require.Equal(t, "inconclusive", r.Saturation.String())
	require.Contains(t, r.Saturation.Evidence, "Close to its limit")
}

// Overload of each stage is found at that stage.
func TestBottlenecks(t *testing.T) {
	base := func(seed uint64) metricstest.Story {
		s := md1(1000, 0.5, seed) // 5 requests a second, 400 ms of decoding each: 2 at a time
		s.Prefillers = 4
		return s
	}
	for want, spoil := range map[string]func(s *metricstest.Story){
		"saturated (decode batch)":  func(s *metricstest.Story) { s.Batch = 1; s.StepCompute = 75 * ms },
		"saturated (decode memory)": func(s *metricstest.Story) { s.Memory = 1; s.StepCompute = 75 * ms },
		"saturated (KV transfer)":   func(s *metricstest.Story) { s.Wires = 1; s.Transfer = 300 * ms },
		"underloaded":               func(*metricstest.Story) {},
	} {
		got := judgeAll(t, func(seed uint64) metricstest.Story {
			s := base(seed)
			spoil(&s)
			return s
		})
		require.Equal(t, map[string]int{want: 10}, got)
	}
}

// Backed up from behind: prefill takes nothing more because decode memory is
// full, its queue grows, and it is idle. The memory is to blame.
func TestBackPressure(t *testing.T) {
	const n = 1000
	requests := metricstest.Poisson(n, 10, 1000, 20, 1)
	c := metrics.NewCollector(metrics.DefaultConfig())
	l := c.Listener()
	// 8 places in decode memory, 1 s each: 8 requests a second. Requests enter
	// prefill (50 ms) only when fewer than 4 wait for memory.
	var free [8]sim.Time
	var admitted [n]sim.Time
	prefill := sim.Time(0)
	for i, q := range requests {
		start := max(q.Arrival, prefill)
		if i >= 4 {
			start = max(start, admitted[i-4])
		}
		end := start + 50*ms
		prefill = end
		place := 0
		for k := range free {
			if free[k] < free[place] {
				place = k
			}
		}
		admitted[i] = max(end, free[place])
		free[place] = admitted[i] + s
		tellBackPressure(l, q, start, end, admitted[i])
	}
	r, err := c.Finish(metricstest.Story{Requests: requests, Prefillers: 1, PrefillGPUs: 1, DecodeGPUs: 1}.Usage(200*s, n*1000))
	require.NoError(t, err)
	require.Less(t, *r.Saturation.PrefillBusy, 0.5)
	require.Equal(t, "saturated (decode memory)", r.Saturation.String(), r.Saturation.Evidence)
	require.Contains(t, r.Saturation.Evidence, "prefill instances run steps only")
}

// A burst has no rate, a pipeline that fills up is no overload, and neither is
// a rush at the start.
func TestTransients(t *testing.T) {
	burst := md1(500, 1, 1)
	for i := range burst.Requests {
		burst.Requests[i].Arrival = 3 * s
	}
	r := measure(t, burst, metrics.DefaultConfig(), nil)
	require.Equal(t, "inconclusive", r.Saturation.String())
	require.Contains(t, r.Saturation.Evidence, "one instant")

	for i := range burst.Requests {
		burst.Requests[i].Arrival += sim.Time(i % 2) // nor a rate to speak of
	}
	r = measure(t, burst, metrics.DefaultConfig(), nil)
	require.Equal(t, metrics.Inconclusive, r.Saturation.Load, r.Saturation.Evidence)
	require.NotContains(t, r.Saturation.Evidence, "NaN")

	filling := md1(1000, 0.5, 1) // 200 s of arrivals
	filling.StepCompute = 10 * sim.Second
	for i := range filling.Requests {
		filling.Requests[i].OutputTokens = 20 // 200 s of decoding
	}
	r = measure(t, filling, metrics.DefaultConfig(), nil)
	require.Equal(t, "inconclusive", r.Saturation.String(), r.Saturation.Evidence)
	require.Contains(t, r.Saturation.Evidence, "still filling up")

	rush := md1(2000, 0.5, 1)
	for i := range 200 {
		rush.Requests[i].Arrival = 0
	}
	r = measure(t, rush, metrics.DefaultConfig(), nil)
	require.Contains(t, []string{"underloaded", "keeping up"}, r.Saturation.String(), r.Saturation.Evidence)
}

// More running requests are no overload when more arrive. When each stays longer
// and longer the run does not tell how it ends, unless what holds them is full.
func TestRunningRequestsFollowTheRate(t *testing.T) {
	rising := func(seed uint64) metricstest.Story {
		story := md1(2000, 0.5, seed)
		story.Prefillers, story.StepCompute = 8, sim.Second
		last := story.Requests[len(story.Requests)-1].Arrival.Seconds()
		for i := range story.Requests {
			at := story.Requests[i].Arrival.Seconds()
			story.Requests[i].Arrival = sim.FromSeconds(math.Sqrt(at * last)) // the rate rises linearly
			story.Requests[i].OutputTokens = 20                               // 20 s of decoding in 400 s
		}
		return story
	}
	got := judgeAll(t, rising)
	require.Zero(t, got["saturated (decode batch)"], "%v", got)
	require.Zero(t, got["inconclusive"], "%v", got)

	longer := md1(2000, 0.5, 1)
	longer.Prefillers, longer.StepCompute = 8, sim.Second
	for i := range longer.Requests {
		longer.Requests[i].OutputTokens = 1 + i/40 // to 50 s of decoding at the end
	}
	for want, u := range map[string]serving.PoolUsage{
		"inconclusive":              {BatchLimit: 128, PeakBatch: 127, KVBlocks: 100, PeakKVBlocks: 97},
		"saturated (decode batch)":  {BatchLimit: 128, PeakBatch: 128, KVBlocks: 100, PeakKVBlocks: 97},
		"saturated (decode memory)": {BatchLimit: 128, PeakBatch: 127, KVBlocks: 100, PeakKVBlocks: 98},
	} {
		r := measure(t, longer, metrics.DefaultConfig(), func(a *metrics.Account) {
			d := &a.Pools[1]
			d.BatchLimit, d.PeakBatch, d.KVBlocks, d.PeakKVBlocks = u.BatchLimit, u.PeakBatch, u.KVBlocks, u.PeakKVBlocks
		})
		require.Equal(t, want, r.Saturation.String(), r.Saturation.Evidence)
		require.Contains(t, r.Saturation.Evidence, "kept growing")
		require.Contains(t, r.Saturation.Evidence, fmt.Sprintf("the fullest decode batch has %d of 128 requests", u.PeakBatch))
	}
}

// longTailed is a cluster in which nothing ever waits (M/G/inf): 110 requests a
// second, which decode for a log-normal time of median 8 s and 90th percentile
// 19 s, as the answers of the library's scenarios do.
func longTailed(n int, rate float64, seed uint64) metricstest.Story {
	story := metricstest.Story{
		Requests: metricstest.Poisson(n, rate, 1000, 1, seed),
		Prefill:  100 * ms, Transfer: 5 * ms, StepCompute: s, PrefillGPUs: 8, DecodeGPUs: 8,
	}
	rng := rand.New(rand.NewPCG(seed, 2))
	for i := range story.Requests {
		story.Requests[i].OutputTokens = 1 + int(8*math.Exp(0.67*rng.NormFloat64()))
	}
	return story
}

// A cluster that keeps up never looks overloaded, however long the tail of its
// answers; it looks like itself once it has filled up, and before that like one
// that has not.
func TestLongAnswersAreNotOverload(t *testing.T) {
	for _, c := range []struct {
		n, least int
		rate     float64
	}{{300, 0, 110}, {1000, 0, 110}, {3000, 0, 110}, {6000, 19, 110}, {2000, 19, 20}, {600, 19, 5}} {
		keeps, inconclusive := 0, 0
		for seed := range uint64(20) {
			r := measure(t, longTailed(c.n, c.rate, seed+1), metrics.DefaultConfig(), nil)
			switch r.Saturation.Load {
			case metrics.Saturated:
				t.Fatalf("seed %d, %d requests: %s", seed+1, c.n, r.Saturation.Evidence)
			case metrics.Inconclusive:
				inconclusive++
				if c.least == 0 {
					require.Contains(t, r.Saturation.Evidence, "still filling up")
				}
			default:
				keeps++
			}
		}
		require.GreaterOrEqual(t, keeps, c.least, "%+v: %d inconclusive", c, inconclusive)
		if c.least == 0 {
			require.Equal(t, 20, inconclusive, "%+v", c)
		}
	}
}

// The long tail hides no overload: with places for 80 % of what decodes at once
// the batch is found full.
func TestLongAnswersOverload(t *testing.T) {
	mean := 0.0
	for i, q := range longTailed(6000, 110, 1).Requests {
		mean += (float64(q.OutputTokens) - mean) / float64(i+1)
	}
	for seed := range uint64(3) {
		story := longTailed(6000, 110, seed+1)
		story.Batch = int(0.8 * 110 * mean)
		r := measure(t, story, metrics.DefaultConfig(), nil)
		require.Equal(t, "saturated (decode batch)", r.Saturation.String(), r.Saturation.Evidence)
	}
}

// How a run is measured does not change what is said of it: neither a warm-up
// that leaves no sample nor anything else of the configuration.
func TestVerdictIgnoresHowItIsMeasured(t *testing.T) {
	for name, story := range map[string]metricstest.Story{
		"filling": longTailed(500, 110, 1), "keeping up": longTailed(6000, 110, 1), "saturated": md1(1000, 1.5, 1),
	} {
		want := measure(t, story, metrics.DefaultConfig(), nil).Saturation
		for _, c := range []metrics.Config{
			{Warmup: 1000 * s}, {Warmup: 20 * s}, {Window: s, TopLinks: 3, Steps: true, SLO: metrics.SLO{TTFT: s, Percentile: 50}},
		} {
			require.Equal(t, want, measure(t, story, c, nil).Saturation, name)
		}
	}
}

// Without one finished request nothing is known of what the cluster serves.
func TestNothingFinished(t *testing.T) {
	story := longTailed(500, 110, 1)
	for i := range story.Requests {
		story.Requests[i].OutputTokens += 5
	}
	story.Stop = 4 * s
	r := measure(t, story, metrics.DefaultConfig(), nil)
	require.Zero(t, r.Summary.Completed)
	require.Equal(t, metrics.Inconclusive, r.Saturation.Load)
	require.Contains(t, r.Saturation.Evidence, "No request finished")
	require.Contains(t, r.Notes[0], "none finished: all figures are of the ramp-up")
}

// Requests in batches of 50 make a queue that swings far more than Poisson
// arrivals do, and yet keeps up.
func TestBatchesAreNotOverload(t *testing.T) {
	batches := func(seed uint64) metricstest.Story {
		story := md1(3000, 0.8, seed)
		for i := range story.Requests {
			story.Requests[i].Arrival = story.Requests[i/50*50].Arrival
		}
		return story
	}
	// Intervals of 50 sums of exponentials and 49 zeros: c^2 is 50, nearly.
	noise := measure(t, batches(1), metrics.DefaultConfig(), nil).Saturation.Noise
	require.InEpsilon(t, math.Sqrt(3000*50), noise, 0.05)
	got := judgeAll(t, batches)
	require.Zero(t, got["saturated (prefill queue)"], "%v", got)
}

func tellBackPressure(l serving.Listener, q workload.Request, start, end, admitted sim.Time) {
	r := serving.Record{
		Request: q, Outcome: serving.Finished,
		PrefillStart: start, PrefillEnd: end, TransferEnd: admitted, FirstToken: admitted + 50*ms, Finish: admitted + s,
		TTFT: serving.Pieces{
			serving.PieceQueue: start - q.Arrival, serving.PiecePrefillCompute: end - start,
			serving.PieceDecodeMemory: admitted - end, serving.PieceDecodeCompute: 50 * ms,
		},
		Decode: serving.Pieces{serving.PieceDecodeCompute: s - 50*ms},
	}
	l.Request(&r)
	l.Step(&serving.Step{Pool: "prefill", Start: start, End: end, Requests: 1, Tokens: q.PromptTokens})
}
