package units

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "github.com/tgssim/tgssim/internal/testkit" // the same draws in every run
)

func TestFLOPRateText(t *testing.T) {
	for text, want := range map[string]FLOPRate{
		"989.5TFLOP/s": 9.895e14, "1979TFLOP/s": 1.979e15, "1.979PFLOPS": 1.979e15, "2.25 PFLOP/s": 2.25e15,
		"148e3GFLOPS": 1.48e14, "0": 0, "7FLOP/s": 7,
	} {
		var f FLOPRate
		require.NoError(t, f.UnmarshalText([]byte(text)), text)
		require.Equal(t, want, f, text)
	}
	for text, want := range map[string]string{
		"989.5":       `"989.5" has no unit: write a rate of operations such as 989.5TFLOP/s`,
		"989TF":       `"989TF" has an unknown unit "TF": use PFLOP/s, TFLOP/s, GFLOP/s, FLOP/s, PFLOPS, TFLOPS, GFLOPS`,
		"1e99TFLOP/s": `"1e99TFLOP/s" is too large for a rate of operations`,
		"1e-99FLOPS":  `"1e-99FLOPS" has an unknown unit "FLOPS": use PFLOP/s, TFLOP/s, GFLOP/s, FLOP/s, PFLOPS, TFLOPS, GFLOPS`,
	} {
		f := FLOPRate(5)
		require.EqualError(t, f.UnmarshalText([]byte(text)), want, text)
		require.Equal(t, FLOPRate(5), f)
	}
	require.Equal(t, "989.5TFLOP/s", FLOPRate(9.895e14).String())
	require.Equal(t, "4500TFLOP/s", FLOPRate(4.5e15).String())
	require.Equal(t, "0TFLOP/s", FLOPRate(0).String())
}

func TestFLOPRateRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := FLOPRate(rapid.Float64Range(1, 1e18).Draw(t, "f"))
		var back FLOPRate
		require.NoError(t, back.UnmarshalText([]byte(f.String())))
		require.Equal(t, f, back)
	})
}

func FuzzFLOPRate(f *testing.F) {
	for _, s := range append(seeds, "989.5TFLOP/s", "4.5PFLOPS", "1e-29FLOP/s") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var v, back FLOPRate
		if err := v.UnmarshalText([]byte(text)); err != nil {
			require.Zero(t, v)
			return
		}
		require.False(t, math.IsNaN(float64(v)) || math.IsInf(float64(v), 0), text)
		require.NoError(t, back.UnmarshalText([]byte(v.String())), text)
		require.Equal(t, v, back, text)
	})
}
