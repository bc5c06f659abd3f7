package metrics

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// steps makes windows of so many tokens, all at the first step of each.
func steps(windows ...int64) (tokens []int64) {
	for _, n := range windows {
		tokens = append(append(tokens, n), make([]int64, stepsPerWindow-1)...)
	}
	return tokens
}

func TestEvennessByHand(t *testing.T) {
	for _, c := range []struct {
		tokens []int64
		cv     float64
		worst  int64
	}{
		{steps(10, 10, 10), 0, 10},
		{steps(10, 30), 0.5, 10},             // mean 20, deviation 10
		{steps(0, 0, 0, 8), math.Sqrt(3), 0}, // mean 2, deviation sqrt(12)
		// A window that straddles two holds neither of their tokens: 5 at the beginning
		// of the first, 5 at the end of the second, nothing in the 100 ms between.
		{[]int64{5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5}, 0, 0},
		// What does not fill a window counts for the worst only.
		{append(steps(10, 10), 0, 0, 0, 0, 0), 0, 0},
	} {
		cv, worst, ok := evenness(c.tokens)
		require.True(t, ok)
		require.InDelta(t, c.cv, cv, 1e-15)
		require.Equal(t, c.worst, worst)
	}
	_, _, ok := evenness(steps(10)[:stepsPerWindow])
	require.False(t, ok, "one window does not vary")
	cv, worst, ok := evenness(steps(0, 0))
	require.True(t, ok)
	require.True(t, math.IsNaN(cv))
	require.Zero(t, worst)
}

// The same by the definitions, written down once more.
func TestEvennessIsWhatItSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tokens := rapid.SliceOfN(rapid.Int64Range(0, 1000), 2*stepsPerWindow, 8*stepsPerWindow).Draw(t, "tokens")
		tokens[0]++ // never none at all
		worst := int64(math.MaxInt64)
		var windows []float64
		for i := 0; i+stepsPerWindow <= len(tokens); i++ {
			var n int64
			for _, k := range tokens[i : i+stepsPerWindow] {
				n += k
			}
			worst = min(worst, n)
			if i%stepsPerWindow == 0 {
				windows = append(windows, float64(n))
			}
		}
		st := StatsOf(windows)
		cv, w, ok := evenness(tokens)
		require.True(t, ok)
		require.Equal(t, worst, w)
		if st.Mean > 0 {
			require.InDelta(t, st.Std/st.Mean, cv, 1e-6)
		}
	})
}

// level is n windows of x.
func level[T any](n int, x T) []T { return slices.Repeat([]T{x}, n) }

func TestBurstsByHand(t *testing.T) {
	calm := level(50, int64(4))
	// 110 windows of 4 and two of 40: mean 4.64, limit 11.1.
	two := slices.Concat(calm, []int64{40}, level(10, int64(4)), []int64{40}, calm)
	require.Equal(t, []burst{{50, 51}, {61, 62}}, burstsOf(two), "ten calm windows part them")
	one := slices.Concat(calm, []int64{40}, level(9, int64(4)), []int64{40}, calm)
	require.Equal(t, []burst{{50, 61}}, burstsOf(one), "nine do not")
	require.Empty(t, burstsOf(calm))
	require.Empty(t, burstsOf(slices.Concat(level(9, int64(4)), []int64{40}, calm)), "no band to return to")
	require.Empty(t, burstsOf(level(40, int64(0))))
	// Few requests a second: two at once are no burst, five are.
	rare := func(n int64) []int64 { return slices.Concat(level(50, int64(0)), []int64{n}, level(50, int64(0))) }
	require.Empty(t, burstsOf(rare(3)))
	require.Len(t, burstsOf(rare(5)), 1)
}

func TestRecoveriesByHand(t *testing.T) {
	bursts := []burst{{10, 12}}
	before := level(10, 5.)
	for _, c := range []struct {
		name             string
		after            []float64
		felt, unrecoverd int
	}{
		{"never left", level(20, 5.), 0, 0},
		{"four windows", slices.Concat(level(4, 9.), level(10, 5.)), 4, 0},
		{"twice within is not back", slices.Concat([]float64{9, 5, 5, 9}, level(10, 5.)), 4, 0},
		{"three times is", slices.Concat([]float64{9, 5, 5, 5, 9}, level(10, 5.)), 1, 0},
		{"not before the end", level(8, 9.), 8, 1},
		{"just before the end", []float64{9, 9, 5}, 2, 0},
		{"the end", nil, 0, 0},
	} {
		felt, unrecovered := recoveries(bursts, slices.Concat(before, []float64{7, 9}, c.after))
		require.Equal(t, c.felt, felt, c.name)
		require.Equal(t, c.unrecoverd, unrecovered, c.name)
	}
	// The next burst cuts it short; its own band is what was there before it.
	waiting := slices.Concat(before, []float64{9}, level(10, 8.), []float64{20}, []float64{10, 8, 8, 8})
	felt, unrecovered := recoveries([]burst{{10, 11}, {21, 22}}, waiting)
	require.Equal(t, 10+1, felt)
	require.Equal(t, 1, unrecovered)
	// Less than one request is no queue.
	felt, _ = recoveries(bursts, slices.Concat(level(10, 0.), []float64{7, 9}, level(5, 0.9)))
	require.Zero(t, felt)
}
