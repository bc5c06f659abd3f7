package metrics

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/serving"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/workload"
)

// One request of seven tokens in steps of 10 ms that give 2, 3, 1 and 1: three
// gaps, and three tokens that came along with another.
func TestSeveralTokensAtOnce(t *testing.T) {
	const ms = sim.Millisecond
	c := NewCollector(Config{})
	l := c.Listener()
	l.Extra(20*ms, 1, 0)
	l.Gap(30*ms, 10*ms, 1, 0)
	l.Extra(30*ms, 2, 0)
	l.Gap(40*ms, 10*ms, 1, 0)
	l.Gap(50*ms, 10*ms, 1, 0)
	q := serving.Record{
		Request: workload.Request{PromptTokens: 5, OutputTokens: 7}, Outcome: serving.Finished,
		PrefillStart: 0, PrefillEnd: 10 * ms, TransferEnd: 10 * ms, FirstToken: 20 * ms, Finish: 50 * ms,
	}
	q.TTFT[serving.PiecePrefillCompute], q.TTFT[serving.PieceDecodeCompute] = 10*ms, 10*ms
	q.Decode[serving.PieceDecodeCompute] = 30 * ms
	l.Request(&q)
	r, err := c.Finish(Account{End: 50 * ms, Exhausted: true, GPUs: 1, Pools: []serving.PoolUsage{{Pool: "decode", GPUs: 1}}})
	require.NoError(t, err)

	require.EqualValues(t, 7, r.Summary.EmittedOutputTokens)
	require.InDelta(t, 7/0.05, *r.Summary.TGS, 1e-9)
	require.EqualValues(t, 7, r.Summary.MaxOutputTokensPerS)
	require.EqualValues(t, 3, r.ITL.Count, "outputs, not tokens")
	require.InDelta(t, 10, r.ITL.Mean, 1e-12)
	require.InDelta(t, 10, r.ITL.P50, 1e-12)
	require.InDelta(t, 30./6, r.TPOT.Mean, 1e-12, "by tokens")
	require.InDelta(t, 0.030/6, *r.Summary.SecondsPerToken, 1e-12, "by tokens")
	tokens := int64(0)
	for _, row := range r.Series {
		tokens += row.OutputTokens
	}
	require.EqualValues(t, 7, tokens)
	for _, n := range r.Notes {
		require.NotContains(t, n, "were seen being emitted")
	}
}
