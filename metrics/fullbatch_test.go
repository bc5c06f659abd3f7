package metrics

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/sim"
)

// A batch fills up, is full for three steps with a gap of 1 ms between them, has
// a place free, and is full again for two. The longest series counts, less its
// last step.
func TestFullBatch(t *testing.T) {
	const ms = sim.Millisecond
	var steps []Step
	add := func(at sim.Time, requests, output int32, context int64) {
		steps = append(steps,
			Step{Pool: "decode", Instance: 1, Start: at, End: at + ms, Requests: 99, Tokens: 198, Output: 99},
			Step{Pool: "decode", Start: at, End: at + 10*ms, Requests: requests, Tokens: 2 * requests, Output: output,
				Context: context, Dispatch: 2 * ms, Combine: ms},
			Step{Pool: "prefill", Start: at, End: at + ms, Requests: 5, Tokens: 500})
	}
	add(0, 3, 4, 300)
	add(11*ms, 4, 6, 400)
	add(22*ms, 4, 7, 440)
	add(33*ms, 4, 8, 480)
	add(44*ms, 3, 3, 400)
	add(55*ms, 4, 4, 600)
	add(66*ms, 4, 4, 700)
	f, ok := FullBatchOf(steps, "decode")
	require.True(t, ok)
	require.Equal(t, FullBatch{
		Steps: 2, Requests: 4, Tokens: 8, Span: 22 * ms, Output: 13, Context: 105, Dispatch: 4 * ms, Combine: 2 * ms,
	}, f)
	require.Equal(t, 11*ms, f.StepTime())

	f, ok = FullBatchOf(steps, "prefill")
	require.True(t, ok)
	require.Equal(t, FullBatch{Steps: 6, Requests: 5, Tokens: 500, Span: 66 * ms, Prompt: 3000}, f)

	for _, few := range [][]Step{nil, steps[:3], {steps[1], steps[4], steps[13]}} {
		_, ok = FullBatchOf(few, "decode")
		require.False(t, ok)
	}
}
