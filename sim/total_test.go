package sim

import (
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A Total is what arbitrary-precision arithmetic says, however large.
func TestTotalAgainstBig(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var total Total
		want := new(big.Int)
		for range rapid.IntRange(0, 20).Draw(t, "terms") {
			span := Time(rapid.Int64Range(0, int64(Never)/4).Draw(t, "span"))
			n := rapid.IntRange(0, 1<<20).Draw(t, "n")
			total.Add(span, n)
			want.Add(want, new(big.Int).Mul(big.NewInt(int64(span)), big.NewInt(int64(n))))
		}
		got := new(big.Int).Mul(big.NewInt(total.s), big.NewInt(int64(Second)))
		got.Add(got, big.NewInt(int64(total.ps)))
		require.Equal(t, want.String(), got.String())
		twice := total
		twice.Plus(total)
		require.InEpsilon(t, 2*total.Seconds()+1, twice.Seconds()+1, 1e-12)
	})
}

func TestTotalOfAThousandGPUsOverAWeek(t *testing.T) {
	require.Equal(t, 1024.*7*86400, TotalOf(7*86400*Second, 1024).Seconds())
	require.Equal(t, "619315200.000000000000s", TotalOf(7*86400*Second, 1024).String())
	require.Equal(t, "1.5ms", TotalOf(500*Microsecond, 3).String())
	require.Equal(t, TotalOf(3, 2), TotalOf(2, 3))
	require.Panics(t, func() { TotalOf(-1, 1) })
}
