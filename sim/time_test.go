package sim

import (
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestTimeString(t *testing.T) {
	for _, c := range []struct {
		t    Time
		want string
	}{
		{0, "0s"},
		{1, "1ps"},
		{-1, "-1ps"},
		{999, "999ps"},
		{Nanosecond, "1ns"},
		{1001, "1.001ns"},
		{82880, "82.88ns"},
		{-1500 * Nanosecond, "-1.5us"},
		{-500 * Microsecond, "-500us"},
		{1500 * Microsecond, "1.5ms"},
		{Second + 1, "1.000000000001s"},
		{3600 * Second, "3600s"},
		{Never - 1, "9223372.036854775806s"},
		{Never, "never"},
		{-Never, "-9223372.036854775807s"},
		{math.MinInt64, "-9223372.036854775808s"},
	} {
		require.Equal(t, c.want, c.t.String())
	}
}

func TestTimeUnmarshalText(t *testing.T) {
	for _, c := range []struct {
		text string
		want Time
	}{
		{"1ps", 1},
		{"1ns", 1e3},
		{"1us", 1e6},
		{"1\u00b5s", 1e6},
		{"1\u03bcs", 1e6},
		{"1ms", 1e9},
		{"1s", 1e12},
		{"1min", 60e12},
		{"1h", 3600e12},
		{"0", 0},
		{"-0", 0},
		{"0.0e5", 0},
		{"0s", 0},
		{"5 us", 5 * Microsecond},
		{" 5us\n", 5 * Microsecond},
		{"-5us", -5 * Microsecond},
		{"+5us", 5 * Microsecond},
		{"1e3us", Millisecond},
		{"1E+3us", Millisecond},
		{"25e-1us", 2500 * Nanosecond},
		{".5us", 500 * Nanosecond},
		{"5.us", 5 * Microsecond},
		{"82.88ns", 82880},
		{"1.000000000001s", Second + 1},
		{"never", Never},
		// Exact where a float64 is not: 2^53+1, and the last instant.
		{"9007199254740993ps", 1<<53 + 1},
		{"9223372.036854775806s", Never - 1},
		{"9223372036854775806ps", Never - 1},
		{"9223372.0368547758065s", Never - 1},
		{"-9223372.036854775806s", -(Never - 1)},
		// Rounded once, half to even.
		{"0.4ps", 0},
		{"0.5ps", 0},
		{"0.50000000000000000000000000001ps", 1},
		{"1.5ps", 2},
		{"2.5ps", 2},
		{"-2.5ps", -2},
		{"0.0025ns", 2},
		{"1e-14h", 36},
		{"0.14e-15h", 1}, // 0.504 ps
		{"0.13e-15h", 0}, // 0.468 ps
		{"1e-400s", 0},
		{"1e-99999999999999999999s", 0},
		{"0e99999999999999999999s", 0},
		{"0." + strings.Repeat("0", 400) + "1e401us", Microsecond},
		{"1" + strings.Repeat("0", 400) + "e-400us", Microsecond},
	} {
		var got Time
		require.NoError(t, got.UnmarshalText([]byte(c.text)), c.text)
		require.Equal(t, c.want, got, c.text)
	}
}

func TestTimeUnmarshalTextRefuses(t *testing.T) {
	for _, c := range []struct{ text, why string }{
		{"", "is not a time"},
		{"us", "is not a time"},
		{"-us", "is not a time"},
		{".us", "is not a time"},
		{"--5us", "is not a time"},
		{"5.5.5us", "is not a time"},
		{"1,5us", "is not a time"},
		{"1_000us", "is not a time"},
		{"5us\xff\xfe 3", "unknown unit"},
		{"inf", "is not a time"},
		{"NaNs", "is not a time"},
		{"5", "has no unit"},
		{"1e3", "has no unit"},
		{"5e", `unknown unit "e"`},
		{"0x10us", `unknown unit "x10us"`},
		{"5 days", `unknown unit "days"`},
		{"5US", `unknown unit "US"`},
		{"5u s", `unknown unit "u s"`},
		{"1e400s", "too long"},
		{"1e99999999999999999999s", "too long"},
		{"-1e400s", "too long"},
		{"107d", `unknown unit "d"`},
		{"2563h", "too long"},
		{"9223372.036854775807s", "too long"},
		{"9223372.0368547758066s", "too long"},
	} {
		got := Time(42)
		require.ErrorContains(t, got.UnmarshalText([]byte(c.text)), c.why, c.text)
		require.Equal(t, Time(42), got, "%q is refused, yet it changed the value", c.text)
	}
}

// anyTime draws from the whole range that text can hold.
func anyTime() *rapid.Generator[Time] {
	return rapid.Custom(func(t *rapid.T) Time {
		return Time(rapid.Int64Range(-math.MaxInt64+1, math.MaxInt64).Draw(t, "ps"))
	})
}

func TestTimeTextRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anyTime().Draw(t, "time")
		text, err := want.MarshalText()
		require.NoError(t, err)
		var got Time
		require.NoError(t, got.UnmarshalText(text))
		require.Equal(t, want, got, "%s", text)
	})
}

// The text, read as a fraction by math/big, is within half a picosecond of the
// value that UnmarshalText makes of it.
func TestTimeUnmarshalTextRounds(t *testing.T) {
	spans := map[string]Time{"ps": 1, "ns": 1e3, "us": 1e6, "ms": 1e9, "s": 1e12, "min": 60e12, "h": 3600e12}
	rapid.Check(t, func(t *rapid.T) {
		num := rapid.StringMatching(`[+-]?[0-9]{1,12}(\.[0-9]{0,20})?([eE][+-]?[0-9])?`).Draw(t, "number")
		unit := rapid.SampledFrom([]string{"ps", "ns", "us", "ms", "s", "min", "h"}).Draw(t, "unit")
		exact, ok := new(big.Rat).SetString(num)
		require.True(t, ok)
		exact.Mul(exact, new(big.Rat).SetInt64(int64(spans[unit])))
		var got Time
		if err := got.UnmarshalText([]byte(num + unit)); err != nil {
			limit := new(big.Rat).SetInt64(math.MaxInt64)
			limit.Sub(limit, big.NewRat(1, 2))
			require.GreaterOrEqual(t, exact.Abs(exact).Cmp(limit), 0, "%v", err)
			return
		}
		off := exact.Sub(exact, new(big.Rat).SetInt64(int64(got)))
		half := off.Abs(off).Cmp(big.NewRat(1, 2))
		require.True(t, half < 0 || half == 0 && got%2 == 0, "%s%s became %d ps", num, unit, got)
	})
}

func TestTimeConversions(t *testing.T) {
	require.Equal(t, 1.5, (1500 * Millisecond).Seconds())
	require.Equal(t, 1.5, (1500 * Microsecond).Milliseconds())
	require.Equal(t, 1.5, (1500 * Nanosecond).Microseconds())
	require.Equal(t, 1500*Millisecond, FromSeconds(1.5))
	require.Equal(t, 1500*Nanosecond, FromMicroseconds(1.5))
	require.Equal(t, -1500*Millisecond, FromSeconds(-1.5))
	require.Equal(t, Time(2), FromSeconds(2.5e-12), "half to even")
	require.Equal(t, Never, FromSeconds(1e9))
	require.Equal(t, Never, FromSeconds(math.Inf(1)))
	require.Equal(t, -Never, FromSeconds(math.Inf(-1)))
	require.Equal(t, Time(0), FromSeconds(math.NaN()))
}

func FuzzTime(f *testing.F) {
	for _, s := range []string{
		"", "us", "5us", "-5us", "5 us", "1e3us", "1e400s", "1e-400s", "never", "0", "5", "1.5min", "2562h",
		"9223372.036854775807s", "0.5ps", "5\u00b5s", "1e", "1e+", "\xff", "1.e1h", "0x1p3s",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var v Time
		if v.UnmarshalText([]byte(s)) != nil {
			return
		}
		text, err := v.MarshalText()
		require.NoError(t, err)
		var again Time
		require.NoError(t, again.UnmarshalText(text), "%q printed as %q", s, text)
		require.Equal(t, v, again, "%q printed as %q", s, text)
	})
}
