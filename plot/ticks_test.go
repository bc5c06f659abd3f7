package plot

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot/vg"
	"pgregory.net/rapid"
)

func labels(ts []tick) (out []string) {
	for _, t := range ts {
		if t.label != "" {
			out = append(out, t.label)
		}
	}
	return out
}

func TestTicks(t *testing.T) {
	wide := textWidth(face(tickSize, false))
	for name, c := range map[string]struct {
		axis   axis
		length vg.Length
		want   string
	}{
		"from 0":              {axis{min: 0, max: 520}, 300, "0 100 200 300 400 500"},
		"quarters":            {axis{min: 0, max: 1}, 250, "0 0.2 0.4 0.6 0.8 1.0"},
		"halves of 0.05":      {axis{min: 0, max: 0.2}, 150, "0 0.05 0.10 0.15 0.20"},
		"thousands":           {axis{min: 0, max: 2400}, 300, "0 500 1,000 1,500 2,000"},
		"millions":            {axis{min: 0, max: 3e6}, 300, "0 500,000 1M 1.5M 2M 2.5M 3M"},
		"far from 0":          {axis{min: 98.2, max: 101.4}, 300, "98.5 99.0 99.5 100.0 100.5 101.0"},
		"negative":            {axis{min: -3, max: 3}, 300, "\u22123 \u22122 \u22121 0 1 2 3"},
		"sizes":               {axis{min: 60, max: 1100, log: true, places: []float64{64, 128, 256, 512, 1024}}, 400, "64 128 256 512 1,024"},
		"sizes, narrow":       {axis{min: 60, max: 1100, log: true, places: []float64{64, 128, 256, 512, 1024}}, 120, "64 256 1,024"},
		"values, linear":      {axis{min: 0, max: 50, places: []float64{10, 25, 45}}, 300, "10 25 45"},
		"values too close":    {axis{min: 0, max: 50, places: []float64{10, 10.5, 45}}, 300, "0 10 20 30 40 50"},
		"decades":             {axis{min: 0.5, max: 2e4, log: true}, 300, "1 10 100 1,000 10,000"},
		"one decade":          {axis{min: 9, max: 95, log: true}, 300, "10 20 30 40 50 60 80"},
		"a ratio":             {axis{min: 0.9, max: 8.4, log: true, places: []float64{1, 2, 4, 8}, format: ratio}, 300, "1:1 2:1 4:1 8:1"},
		"names are all there": {axis{min: -0.5, max: 1.5, names: []string{"a", "b"}}, 10, "a b"},
	} {
		require.Equal(t, c.want, strings.Join(labels(c.axis.ticks(c.length, wide)), " "), name)
	}
}

// Whatever the range: ticks ascend and lie in it, labels keep clear of each other,
// and there are two at least where there is room for them.
func TestTicksAlwaysFit(t *testing.T) {
	wide := textWidth(face(tickSize, false))
	rapid.Check(t, func(t *rapid.T) {
		a := axis{log: rapid.Bool().Draw(t, "log")}
		lo := math.Pow(10, rapid.Float64Range(-8, 8).Draw(t, "lo"))
		if !a.log {
			lo *= rapid.SampledFrom([]float64{-1, 0, 1}).Draw(t, "sign")
		}
		hi := lo + math.Max(math.Abs(lo), 1e-8)*math.Pow(10, rapid.Float64Range(-3, 6).Draw(t, "spread"))
		a.cover(lo, hi, 0.05, 0.05)
		length := vg.Length(rapid.Float64Range(200, 600).Draw(t, "length"))
		ts := a.ticks(length, wide)
		require.LessOrEqual(t, len(ts), 200)
		for i, tick := range ts {
			require.InDelta(t, 0.5, a.fraction(tick.at), 0.5+1e-6, "%v in %v", tick, a)
			if i > 0 {
				require.Greater(t, tick.at, ts[i-1].at)
			}
		}
		require.True(t, a.clear(ts, length, wide), "%v in %v", labels(ts), a)
		if !a.log {
			require.GreaterOrEqual(t, len(labels(ts)), 2, "%v", a)
		}
		require.NotEmpty(t, labels(ts))
		seen := map[string]bool{}
		for _, s := range labels(ts) {
			require.False(t, seen[s], "two ticks are %s in %v", s, a)
			seen[s] = true
		}
	})
}

func TestWantsLog(t *testing.T) {
	require.True(t, wantsLog([]float64{1, 31}, false))
	require.False(t, wantsLog([]float64{1, 29}, false))
	require.True(t, wantsLog([]float64{16, 32, 64}, true))
	require.False(t, wantsLog([]float64{16, 32, 64}, false), "measured values are powers of two by chance")
	require.False(t, wantsLog([]float64{16, 32}, true))
	require.False(t, wantsLog([]float64{16, 32, 65}, true))
	require.False(t, wantsLog([]float64{0, 100}, false))
	require.False(t, wantsLog([]float64{-1, 100}, false))
	require.False(t, wantsLog(nil, true))
}

func TestNumbers(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 1: "1", 1024: "1,024", 999999: "999,999", 1e6: "1M", 2.5e6: "2.5M", 3e9: "3G", 1.5e12: "1.5T", 0.25: "0.25",
		-1234.5: "\u22121,234.5", 1e-7: "1e-7", 1. / 3: "0.333333",
	} {
		require.Equal(t, want, number(x))
	}
	require.Equal(t, "90.4", significant(90.43))
	require.Equal(t, "1,234", significant(1234.4))
	require.Equal(t, "0.0123", significant(0.012345))
}
