package units

import (
	"encoding"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
	"pgregory.net/rapid"
)

func TestReadBytes(t *testing.T) {
	for text, want := range map[string]Bytes{
		"4096B":                4096,
		"64KiB":                65536,
		"64 KiB":               65536,
		" 64KiB ":              65536,
		"80GB":                 80e9,
		"1.5KiB":               1536,
		"0.1GB":                1e8,
		"1e9B":                 1e9,
		"1e3KB":                1e6,
		"2.5e-3MB":             2500,
		".5KB":                 500,
		"5.KB":                 5000,
		"+5B":                  5,
		"-5B":                  -5,
		"010B":                 10, // not octal
		"0":                    0,
		"0.0":                  0,
		"-0":                   0,
		"0e9":                  0,
		"0e999999999TiB":       0,
		"9007199254740993B":    9007199254740993, // 2^53+1: not a float64
		"9223372036854775807B": math.MaxInt64,
		"-8388608TiB":          math.MinInt64,
		"0.000001TB":           1e6,
		"0.0000000000000000000000000000000000000001e46B": 1e6,
	} {
		var n Bytes
		require.NoError(t, n.UnmarshalText([]byte(text)), text)
		require.Equal(t, want, n, text)
	}
}

func TestReadRate(t *testing.T) {
	for text, want := range map[string]Rate{
		"400Gbps":    400e9,
		"400Gb/s":    400e9,
		"50GB/s":     400e9, // bytes are eight bits
		"3.35e12B/s": 26.8e12,
		"3.35TB/s":   26.8e12,
		"1.6Tbps":    1.6e12,
		"12.5Gbps":   12.5e9,
		"9600bps":    9600,
		"0":          0,
	} {
		var r Rate
		require.NoError(t, r.UnmarshalText([]byte(text)), text)
		require.Equal(t, want, r, text)
	}
}

func TestReadFrequency(t *testing.T) {
	for text, want := range map[string]Frequency{
		"20/s":     20,
		"90/min":   1.5,
		"90 /min":  1.5,
		"7/min":    7. / 60, // the float nearest to it, not 7 times a rounded 1/60
		"1800/h":   0.5,
		"2.5e3/s":  2500,
		"0/s":      0,
		"0":        0,
		"1e-200/s": 1e-200,
	} {
		var f Frequency
		require.NoError(t, f.UnmarshalText([]byte(text)), text)
		require.Equal(t, want, f, text)
	}
}

func TestRefusals(t *testing.T) {
	size, rate, freq := new(Bytes), new(Rate), new(Frequency)
	for _, c := range []struct {
		into encoding.TextUnmarshaler
		text string
		want string
	}{
		{size, "", `"" does not start with a number: write a size such as 64KiB or 80GB`},
		{size, "GB", `"GB" does not start with a number: write a size such as 64KiB or 80GB`},
		{size, "1-2GB", `"1-2GB" does not start with a number: write a size such as 64KiB or 80GB`},
		{size, "1.2.3GB", `"1.2.3GB" does not start with a number: write a size such as 64KiB or 80GB`},
		{size, "NaN", `"NaN" does not start with a number: write a size such as 64KiB or 80GB`},
		{size, "InfB", `"InfB" does not start with a number: write a size such as 64KiB or 80GB`},
		{size, "0x10B", `"0x10B" has an unknown unit "x10B": use TiB, TB, GiB, GB, MiB, MB, KiB, KB, kB, B`},
		{size, "1_000B", `"1_000B" has an unknown unit "_000B": use TiB, TB, GiB, GB, MiB, MB, KiB, KB, kB, B`},
		{size, "80", `"80" has no unit: write a size such as 64KiB or 80GB`},
		{size, "1e-400", `"1e-400" has no unit: write a size such as 64KiB or 80GB`},
		{size, "80gb", `"80gb" has an unknown unit "gb": use TiB, TB, GiB, GB, MiB, MB, KiB, KB, kB, B`},
		{size, "1EB", `"1EB" has an unknown unit "EB": use TiB, TB, GiB, GB, MiB, MB, KiB, KB, kB, B`},
		{size, "1.5B", `"1.5B" is not a whole number of bytes`},
		{size, "0.3KiB", `"0.3KiB" is not a whole number of bytes`},
		{size, "1e-400GB", `"1e-400GB" is not a whole number of bytes`},
		{size, "1e-40GB", `"1e-40GB" is not a whole number of bytes`},
		{size, "0.99999999999999999999999999B", `"0.99999999999999999999999999B" is not a whole number of bytes`},
		{size, "9223372036854775808B", `"9223372036854775808B" is too large for a size`},
		{size, "8388608TiB", `"8388608TiB" is too large for a size`},
		{size, "-9223372036854775809B", `"-9223372036854775809B" is too large for a size`},
		{size, "1e40B", `"1e40B" is too large for a size`},
		{size, "1e999999999B", `"1e999999999B" is too large for a size`},
		{size, strings.Repeat("1", 200), `"11111111111111111111"... is too long: write a size such as 64KiB or 80GB`},
		{rate, "400", `"400" has no unit: write a rate such as 400Gbps or 50GB/s`},
		{rate, "400Gb", `"400Gb" has an unknown unit "Gb": use Tbps, Gbps, Mbps, kbps, bps, Tb/s, Gb/s, Mb/s, kb/s, b/s, TB/s, GB/s, MB/s, kB/s, KB/s, B/s`},
		{rate, "0.5b/s", `"0.5b/s" is not a whole number of bits per second`},
		{rate, "2000000TB/s", `"2000000TB/s" is too large for a rate`},
		{freq, "20", `"20" has no unit: write a frequency such as 20/s or 90/min`},
		{freq, "20Hz", `"20Hz" has an unknown unit "Hz": use /s, /min, /h`},
		{freq, "1e400/s", `"1e400/s" is too large for a frequency`},
		{freq, "1e-400/s", `"1e-400/s" is too small for a frequency: write 0/s if you mean none`},
	} {
		require.EqualError(t, c.into.UnmarshalText([]byte(c.text)), c.want, c.text)
	}
	require.Zero(t, *size, "a refused text must leave the value alone")
	require.Zero(t, *rate)
	require.Zero(t, *freq)
}

func TestPrint(t *testing.T) {
	for n, want := range map[Bytes]string{
		0: "0B", 1: "1B", 4178: "4178B", 65536: "64KiB", 80e9: "80GB", 1024000: "1000KiB",
		96 * GiB: "96GiB", -2048: "-2KiB", math.MinInt64: "-8388608TiB", math.MaxInt64: "9223372036854775807B",
	} {
		require.Equal(t, want, n.String())
	}
	for r, want := range map[Rate]string{
		0: "0bps", 400 * Gbps: "400Gbps", 1600 * Gbps: "1600Gbps", 2 * Tbps: "2Tbps", 12500 * Mbps: "12500Mbps", 9601: "9601bps",
	} {
		require.Equal(t, want, r.String())
	}
	require.Equal(t, "20/s", Frequency(20).String())
	require.Equal(t, "0.1/s", Frequency(0.1).String())
	require.Equal(t, "1e+21/s", Frequency(1e21).String())
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Multiples of units are what the printer shortens; plain draws hit few.
		n := rapid.Int64().Draw(t, "n")
		unit := rapid.SampledFrom(byteUnits).Draw(t, "unit").size
		for _, v := range []int64{n, n / unit * unit, n % 100000 * unit % math.MaxInt64} {
			var b Bytes
			require.NoError(t, b.UnmarshalText([]byte(Bytes(v).String())))
			require.Equal(t, Bytes(v), b)
			var r Rate
			require.NoError(t, r.UnmarshalText([]byte(Rate(v).String())))
			require.Equal(t, Rate(v), r)
		}
		f := Frequency(rapid.Float64().Draw(t, "f"))
		var back Frequency
		require.NoError(t, back.UnmarshalText([]byte(f.String())))
		require.Equal(t, f, back)
	})
}

// TestReadIsExact compares decimal texts with integer arithmetic.
func TestReadIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// digits * 10^-decimals units
		digits := rapid.Int64Range(-1e17, 1e17).Draw(t, "digits")
		decimals := rapid.IntRange(0, 17).Draw(t, "decimals")
		unit := rapid.SampledFrom(byteUnits).Draw(t, "unit")
		text := new(big.Rat).SetFrac(big.NewInt(digits), pow10(decimals)).FloatString(decimals) + unit.name
		scaled := new(big.Int).Mul(big.NewInt(digits), big.NewInt(unit.size))
		whole, rem := new(big.Int).QuoRem(scaled, pow10(decimals), new(big.Int))
		var n Bytes
		err := n.UnmarshalText([]byte(text))
		switch {
		case rem.Sign() != 0:
			require.ErrorContains(t, err, "is not a whole number of bytes", text)
		case !whole.IsInt64():
			require.ErrorContains(t, err, "is too large for a size", text)
		default:
			require.NoError(t, err, text)
			require.Equal(t, whole.Int64(), int64(n), text)
		}
	})
}

func pow10(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

func TestYAML(t *testing.T) {
	type doc struct {
		Size Bytes
		Rate Rate
		Freq Frequency
	}
	var d doc
	require.NoError(t, yaml.Unmarshal([]byte("size: 80GB\nrate: 400Gbps\nfreq: 20/s\n"), &d))
	require.Equal(t, doc{80 * GB, 400 * Gbps, 20}, d)
	out, err := yaml.Marshal(d)
	require.NoError(t, err)
	require.Equal(t, "size: 80GB\nrate: 400Gbps\nfreq: 20/s\n", string(out))
}

var seeds = []string{
	"", "0", "80GB", "64KiB", "4096B", "1e9B", "-1.5e3KB", "400Gbps", "50GB/s", "3.35e12B/s", "20/s", "90/min", "1e-400/s",
	"1e999999999B", "9223372036854775807B", "9007199254740993B", "+.e", "0x1p3B", "1_0B", "5EB", "١B", "1e+B", "\x00", "1B\n", "0E10000000000000000000",
}

// fuzzWhole checks a reader of whole numbers: what it accepts prints and reads
// back as the same value, and equals what 2,000-bit arithmetic makes of the same
// text; so nothing is cut off silently.
func fuzzWhole(f *testing.F, read func(string) (int64, string, error), table []multiple) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, printed, err := read(text)
		if err != nil {
			require.Zero(t, v)
			require.NotEmpty(t, err.Error())
			return
		}
		back, again, err := read(printed)
		require.NoError(t, err)
		require.Equal(t, v, back)
		require.Equal(t, printed, again)

		num := strings.TrimSpace(text)
		size := int64(1)
		for _, m := range table {
			if cut, ok := strings.CutSuffix(num, m.name); ok {
				num, size = strings.TrimSpace(cut), m.size
				break
			}
		}
		exact, _, err := big.ParseFloat(num, 10, 2000, big.ToNearestEven)
		if err != nil { // an exponent beyond 64 bits, so nothing but zero can be meant
			require.Regexp(t, `^[+-]?[0.]+[eE]`, num)
			require.Zero(t, v, text)
			return
		}
		exact.Mul(exact, new(big.Float).SetInt64(size))
		diff := exact.Sub(exact, new(big.Float).SetInt64(v))
		require.Less(t, diff.Abs(diff).Cmp(big.NewFloat(1e-30)), 1, "%q read as %d", text, v)
	})
}

func FuzzBytes(f *testing.F) {
	fuzzWhole(f, func(s string) (int64, string, error) {
		var n Bytes
		err := n.UnmarshalText([]byte(s))
		return int64(n), n.String(), err
	}, byteUnits)
}

func FuzzRate(f *testing.F) {
	fuzzWhole(f, func(s string) (int64, string, error) {
		var r Rate
		err := r.UnmarshalText([]byte(s))
		return int64(r), r.String(), err
	}, rateUnits)
}

func FuzzFrequency(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var v, back Frequency
		if err := v.UnmarshalText([]byte(text)); err != nil {
			require.Zero(t, v)
			return
		}
		require.False(t, math.IsNaN(float64(v)) || math.IsInf(float64(v), 0), text)
		require.NoError(t, back.UnmarshalText([]byte(v.String())))
		require.Equal(t, v, back)
		require.Equal(t, strings.ContainsAny(strings.Split(strings.ToLower(text), "e")[0], "123456789"), v != 0, text)
	})
}
