package compute

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func ulps(a, b float64) float64 {
	return math.Abs(a-b) / (math.Nextafter(math.Abs(b), math.Inf(1)) - math.Abs(b))
}

func TestCubeRootIsExactToTwoUlp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := rapid.Float64Range(1, 2).Draw(t, "u")
		if d := ulps(cbrt12(u), math.Cbrt(u)); d > 2 {
			t.Fatalf("cbrt12(%v) = %v, %v ulp from math.Cbrt", u, cbrt12(u), d)
		}
	})
	require.Equal(t, 1.0, cbrt12(1))
}

func TestNorm3(t *testing.T) {
	require.Equal(t, 5.0, norm3(5, 0))
	require.Equal(t, 5.0, norm3(0, 5))
	require.Equal(t, 0.0, norm3(0, 0))
	// 3^3 + 4^3 + 5^3 = 6^3, and 1^3 + 2^3 = 9.
	require.InEpsilon(t, 6, norm3(norm3(3, 4), 5), 1e-15)
	require.InEpsilon(t, 2.080083823051904, norm3(1, 2), 1e-15)
	// No overflow or underflow of the cubes.
	require.InEpsilon(t, 6e200, norm3(norm3(3e200, 4e200), 5e200), 1e-15)
	require.InEpsilon(t, 6e-200, norm3(norm3(3e-200, 4e-200), 5e-200), 1e-15)

	rapid.Check(t, func(t *rapid.T) {
		a := rapid.Float64Range(0, 1e9).Draw(t, "a")
		b := rapid.Float64Range(0, 1e9).Draw(t, "b")
		got := norm3(a, b)
		if got != norm3(b, a) {
			t.Fatalf("norm3(%v, %v) is not symmetric", a, b)
		}
		if top := max(a, b); got < top || got > top*1.2599210499 {
			t.Fatalf("norm3(%v, %v) = %v is outside [1, 2^(1/3)] of the larger", a, b, got)
		}
		// The exact sum of cubes, against the cube of the result.
		want, have := new(big.Float).Add(cube(a), cube(b)), cube(got)
		if want.Sign() > 0 {
			rel, _ := new(big.Float).Quo(new(big.Float).Sub(have, want), want).Float64()
			if math.Abs(rel) > 3e-15 {
				t.Fatalf("norm3(%v, %v)^3 is off by %v", a, b, rel)
			}
		}
	})
}

func cube(x float64) *big.Float {
	f := new(big.Float).SetPrec(200).SetFloat64(x)
	return new(big.Float).SetPrec(200).Mul(new(big.Float).SetPrec(200).Mul(f, f), f)
}
