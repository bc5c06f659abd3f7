package metrics_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/metrics"
	"github.com/tgssim/tgssim/metrics/metricstest"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/workload"
)

// In the clockwork tokens come every 100 ms, but for those at the seams of
// requests: between 1.7 s and 10 s there are 83 windows of 100 ms, of which those
// that begin with x.7 s hold two tokens, the last of one request and the first of
// the next, as they are on the second; and 12 GPUs.
func TestClockworkStability(t *testing.T) {
	r := measure(t, clockwork(), metrics.DefaultConfig(), nil)
	// Tokens at i + 0.7 ... i + 1.7: windows [1.7, 1.8), ... hold 2 at 1.7, 2.7 ...
	// 9.7 (9 of 83 windows) and 1 otherwise: 92 tokens.
	mean := 92. / 83
	square := (9*4 + 74*1) / 83.
	require.NotNil(t, r.Summary.TGSVariation)
	require.InDelta(t, (square-mean*mean)/(mean*mean), *r.Summary.TGSVariation**r.Summary.TGSVariation, 1e-12)
	require.InEpsilon(t, 1/0.1/12, *r.Summary.TGSWorst, 1e-12)
	require.Zero(t, r.Summary.Bursts)
	require.Nil(t, r.Summary.BurstRecovery)
}

// One prefiller of 10 ms and a request every 100 ms; at 5 s sixty come at once.
// They need 600 ms, during which six more come, which wait behind them; the wait
// for prefill has sunk to at most one request when all but the last are begun.
func TestRecoveryFromABurst(t *testing.T) {
	var requests []workload.Request
	for i := range 100 {
		requests = append(requests, workload.Request{Arrival: sim.Time(i) * 100 * ms, PromptTokens: 10, OutputTokens: 2})
		if i == 50 {
			for range 60 {
				requests = append(requests, requests[len(requests)-1])
			}
		}
	}
	for i := range requests {
		requests[i].ID = i
	}
	story := metricstest.Story{
		Requests: requests, Prefillers: 1, Prefill: 10 * ms, Transfer: ms, StepCompute: ms,
		PrefillGPUs: 1, DecodeGPUs: 1, DecodeRanks: 1,
	}
	m := measure(t, story, metrics.DefaultConfig(), nil).Summary
	require.Equal(t, 1, m.Bursts)
	require.Zero(t, m.BurstsUnrecovered)
	// The burst's window ends at 5.1 s, and 61 requests need until 5.61 s and six or
	// seven behind them until 5.67 s. In [5.6, 5.7) there wait on average, of 10 ms
	// each, 6 + 5 + 4 ... / 10 = 2.1; in the next it is less than 1.
	require.Equal(t, 600., *m.BurstRecovery)

	// Who is rejected arrives, and waits for nothing: ten fewer are served 100 ms
	// sooner.
	story.Reject = map[int]string{}
	for id := 60; id < 70; id++ {
		story.Reject[id] = "no"
	}
	rejected := measure(t, story, metrics.DefaultConfig(), nil).Summary
	require.Equal(t, 1, rejected.Bursts)
	require.Equal(t, 500., *rejected.BurstRecovery)
	story.Reject = nil

	// Twice as fast a prefiller is back sooner.
	story.Prefill = 5 * ms
	faster := measure(t, story, metrics.DefaultConfig(), nil).Summary
	require.Less(t, *faster.BurstRecovery, *m.BurstRecovery)
	require.Greater(t, *faster.BurstRecovery, 0.)

	// Cut short within it, it has not recovered.
	story.Prefill, story.Stop = 10*ms, 5500*ms
	cut := measure(t, story, metrics.DefaultConfig(), nil).Summary
	require.Equal(t, 1, cut.BurstsUnrecovered)
}
