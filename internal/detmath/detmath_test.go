package detmath

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// between draws from [lo, hi); wide draws a positive float64 of any exponent,
// subnormals included.
func between(r *rand.Rand, lo, hi float64) float64 { return lo + float64((hi-lo)*r.Float64()) }

func wide(r *rand.Rand) float64 {
	for {
		x := math.Float64frombits(r.Uint64() >> 1)
		if x > 0 && x <= math.MaxFloat64 {
			return x
		}
	}
}

func near1(r *rand.Rand) float64 {
	return 1 + float64((2*r.Float64()-1)*math.Ldexp(1, -r.IntN(52)))
}

// The bounds on the error are what was measured over a hundred times as many
// points, rounded up.
func TestAccuracy(t *testing.T) {
	n := 2000
	if testing.Short() {
		n = 400
	}
	type point struct {
		got  float64
		want *big.Float
		at   string
	}
	unary := func(f func(float64) float64, ref func(*big.Float) *big.Float, x float64) point {
		return point{f(x), ref(bigf(x)), fmt.Sprint(x)}
	}
	refLog1p := func(x *big.Float) *big.Float { return refLog(newBig().Add(x, bigf(1))) }
	for _, c := range []struct {
		name  string
		bound float64
		draw  func(r *rand.Rand) point
	}{
		{"exp, whole range", 0.9, func(r *rand.Rand) point {
			return unary(Exp, refExp, between(r, -708, 709.7))
		}},
		{"exp, near 0", 0.9, func(r *rand.Rand) point { return unary(Exp, refExp, between(r, -2, 2)) }},
		{"exp, tiny", 0.52, func(r *rand.Rand) point {
			return unary(Exp, refExp, math.Ldexp(between(r, -1, 1), -r.IntN(60)-5))
		}},
		{"exp, subnormal results", 1, func(r *rand.Rand) point {
			return unary(Exp, refExp, between(r, -745, -708))
		}},
		{"log, all exponents", 0.9, func(r *rand.Rand) point { return unary(Log, refLog, wide(r)) }},
		{"log, subnormal", 0.9, func(r *rand.Rand) point {
			return unary(Log, refLog, math.Float64frombits(1+r.Uint64()>>(12+r.IntN(52))))
		}},
		{"log, around 1", 0.9, func(r *rand.Rand) point { return unary(Log, refLog, near1(r)) }},
		{"log, of a uniform", 0.9, func(r *rand.Rand) point { return unary(Log, refLog, 1-r.Float64()) }},
		{"log1p", 1.25, func(r *rand.Rand) point {
			x := math.Ldexp(1+r.Float64(), -r.IntN(60))
			if x < 1 && r.IntN(2) == 0 {
				x = -x
			}
			return unary(Log1p, refLog1p, x)
		}},
		{"log1p, large", 1, func(r *rand.Rand) point {
			return unary(Log1p, refLog1p, math.Ldexp(1+r.Float64(), r.IntN(1000)))
		}},
		{"pow, whole range", 0.9, func(r *rand.Rand) point {
			x := wide(r)
			y := between(r, -708, 709) / math.Log(x)
			return point{Pow(x, y), refPow(x, y), fmt.Sprint(x, y)}
		}},
		{"pow, base around 1", 0.9, func(r *rand.Rand) point {
			x := near1(r)
			for x == 1 || x <= 0 {
				x = near1(r)
			}
			y := between(r, -708, 709) / math.Log(x)
			return point{Pow(x, y), refPow(x, y), fmt.Sprint(x, y)}
		}},
		{"pow, lengths to small powers", 0.9, func(r *rand.Rand) point {
			x, y := float64(1+r.IntN(1e7)), between(r, -5, 5)
			return point{Pow(x, y), refPow(x, y), fmt.Sprint(x, y)}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRand(7)
			worst, at := 0., ""
			for range n {
				p := c.draw(r)
				if u := ulps(p.got, p.want); !(u <= worst) {
					worst, at = u, p.at
				}
			}
			t.Logf("worst of %d: %.4f ulp at %s", n, worst, at)
			require.LessOrEqual(t, worst, c.bound, "at %s", at)
		})
	}
}

// A power that float64 can hold must come out exact: a table of 2**k or 10**k
// that is one ulp off would be visible in every derived time.
func TestPowExactWhereRepresentable(t *testing.T) {
	for base := 2; base <= 1000; base++ {
		exact := big.NewInt(1)
		for e := 1; ; e++ {
			exact.Mul(exact, big.NewInt(int64(base)))
			f, acc := new(big.Float).SetInt(exact).Float64()
			if acc != big.Exact || math.IsInf(f, 0) || e > 60 {
				break
			}
			require.Equal(t, f, Pow(float64(base), float64(e)), "%d**%d", base, e)
			require.Equal(t, math.Pow(-1, float64(e))*f, Pow(-float64(base), float64(e)), "-%d**%d", base, e)
			if e == 2 {
				require.Equal(t, float64(base), Pow(f, 0.5), "sqrt %d", base*base)
			}
		}
	}
	for e := -1074; e <= 1023; e++ {
		require.Equal(t, math.Ldexp(1, e), Pow(2, float64(e)), "2**%d", e)
	}
}

// Every combination of special arguments gives the zeros, infinities and NaNs
// of package math, the sign of zero included.
func TestSpecialValues(t *testing.T) {
	inf := math.Inf(1)
	args := []float64{
		math.NaN(), inf, -inf, 0, math.Copysign(0, -1), 1, -1, 2, -2, 3, -3, 0.5, -0.5, 1.5, -1.5,
		math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, -math.SmallestNonzeroFloat64,
		0x1p-1022, 0x1p-60, -0x1p-60, 1 << 53, 1<<53 + 2, -1 << 53, 1<<53 - 1, 1<<52 + 1, -(1<<52 + 1), 1e300, -1e300,
		709, 709.79, -700, -745.14, 710, -746, 1000, -1000,
		math.Nextafter(1, 0), math.Nextafter(1, 2), math.Nextafter(-1, 0), math.Sqrt2, 1025, -1075,
	}
	same := func(want, got float64, what string, args ...float64) {
		t.Helper()
		switch {
		case math.IsNaN(want):
			require.True(t, math.IsNaN(got), "%s%v: want NaN, got %v", what, args, got)
		case math.IsInf(want, 0) || want == 0:
			require.Equal(t, math.Float64bits(want), math.Float64bits(got),
				"%s%v: want %v, got %v", what, args, want, got)
		default:
			require.InEpsilon(t, want, got, 1e-13, "%s%v", what, args)
		}
	}
	for _, x := range args {
		same(math.Exp(x), Exp(x), "exp", x)
		if x <= 0 || x >= 0x1p-1022 { // math.Log of a subnormal is 5 % off on amd64
			same(math.Log(x), Log(x), "log", x)
		}
		same(math.Log1p(x), Log1p(x), "log1p", x)
		for _, y := range args {
			want := math.Pow(x, y)
			if math.IsInf(x*y, 0) || want == 0 || want == 1 || math.IsInf(want, 0) || math.IsNaN(x+y+want) {
				same(want, Pow(x, y), "pow", x, y)
				continue
			}
			// Finite values of math.Pow are up to 1e-8 off; the reference is not.
			require.LessOrEqual(t, ulps(math.Abs(Pow(x, y)), refPow(math.Abs(x), y)), 1., "pow%v", []float64{x, y})
			require.Equal(t, math.Signbit(want), math.Signbit(Pow(x, y)), "pow%v", []float64{x, y})
		}
	}
}

// The bounds here are the true ones: math.Exp overflows early on amd64, at 709.78,
// and flushes to zero early on arm64.
func TestExpAtItsBounds(t *testing.T) {
	const last, least = 709.782712893384, -745.1332191019411
	require.LessOrEqual(t, ulps(Exp(last), refExp(bigf(last))), 1.)
	require.Equal(t, math.Inf(1), Exp(math.Nextafter(last, 710)))
	require.Equal(t, math.SmallestNonzeroFloat64, Exp(least))
	require.Zero(t, Exp(math.Nextafter(least, -746)))
}

// Monotonicity over neighbours catches a seam between two reductions.
func TestMonotoneAcrossSeams(t *testing.T) {
	for k := -40.; k <= 40; k++ {
		x := (k + 0.5) * math.Ln2
		prev := Exp(x - 1e-12)
		for i := range 2000 {
			y := Exp(x - 1e-12 + float64(i)*1e-15)
			require.GreaterOrEqual(t, y, prev)
			prev = y
		}
		x = math.Ldexp(math.Sqrt2, int(k))
		for range 1000 {
			x = math.Nextafter(x, 0)
		}
		prev = Log(x)
		for range 2000 {
			x = math.Nextafter(x, math.Inf(1))
			y := Log(x)
			require.GreaterOrEqual(t, y, prev)
			prev = y
		}
	}
}

// The pinned bits hold on amd64, on amd64 with GOAMD64=v3, on arm64 and on
// every other architecture. A change of them changes every recorded fingerprint
// of the project.
func TestPinnedBits(t *testing.T) {
	for _, c := range []struct {
		what string
		got  float64
		want uint64
	}{
		{"exp(1)", Exp(1), 0x4005bf0a8b145769},
		{"exp(-0.1)", Exp(-0.1), 0x3fecf46d99d52b3a},
		{"exp(100)", Exp(100), 0x48f3494a9b171bf5},
		{"exp(-740)", Exp(-740), 0x55},
		{"log(2)", Log(2), 0x3fe62e42fefa39ef},
		{"log(3)", Log(3), 0x3ff193ea7aad030a},
		{"log(0.1)", Log(0.1), 0xc0026bb1bbb55515},
		{"log(1e300)", Log(1e300), 0x4085963447f87fb5},
		{"log1p(1e-10)", Log1p(1e-10), 0x3ddb7cdfd9d1d693},
		{"log1p(-0.3)", Log1p(-0.3), 0xbfd6d3c324e13f4f},
		{"pow(2, 0.5)", Pow(2, 0.5), 0x3ff6a09e667f3bcc},
		{"pow(10, 0.3)", Pow(10, 0.3), 0x3fffec982d5bb8af},
		{"pow(8192, -1.1)", Pow(8192, -1.1), 0x3f09fdf8bcce5338},
		{"pow(0.99609375, 1000)", Pow(0.99609375, 1000), 0x3f94710d4af618e5},
	} {
		require.Equalf(t, c.want, math.Float64bits(c.got), "%s = %v = %#x", c.what, c.got, math.Float64bits(c.got))
	}
}

// TestPinnedDigests pins 100,000 results of each function, and of each variate.
func TestPinnedDigests(t *testing.T) {
	for _, c := range []struct {
		name string
		f    func(r *rand.Rand) float64
		want uint64
	}{
		{"exp", func(r *rand.Rand) float64 { return Exp(between(r, -745, 710)) }, 0xa707a1e7aaa42595},
		{"log", func(r *rand.Rand) float64 { return Log(wide(r)) }, 0xacbc1e54d035e53d},
		{"log near 1", func(r *rand.Rand) float64 { return Log(near1(r)) }, 0xd5fa3e97b4ac813},
		{"log1p", func(r *rand.Rand) float64 { return Log1p(between(r, -1, 3)) }, 0x99a5e74620c6e3a},
		{"pow", func(r *rand.Rand) float64 { return Pow(between(r, 0, 10), between(r, -100, 100)) }, 0xb51852f292005207},
		{"exponential", Exponential, 0x204a484b97c04dda},
		{"normal", Normal, 0x782113bc5bd99995},
		{"gamma 0.1", func(r *rand.Rand) float64 { return Gamma(r, 0.1) }, 0xd9193048b2dfb3c0},
		{"gamma 2.5", func(r *rand.Rand) float64 { return Gamma(r, 2.5) }, 0x903a9e1b62712d1f},
	} {
		r, h := newRand(3), fnv.New64a()
		for range 100_000 {
			b := math.Float64bits(c.f(r))
			h.Write([]byte{
				byte(b), byte(b >> 8), byte(b >> 16), byte(b >> 24),
				byte(b >> 32), byte(b >> 40), byte(b >> 48), byte(b >> 56),
			})
		}
		require.Equalf(t, c.want, h.Sum64(), "%s: %#x", c.name, h.Sum64())
	}
}

var sink float64

func BenchmarkElementary(b *testing.B) {
	r := newRand(1)
	xs := make([]float64, 1024)
	for i := range xs {
		xs[i] = between(r, 0.01, 20)
	}
	for _, c := range []struct {
		name string
		f    func(float64) float64
	}{
		{"exp", Exp}, {"exp/math", math.Exp},
		{"log", Log}, {"log/math", math.Log},
		{"log1p", Log1p}, {"log1p/math", math.Log1p},
		{"pow", func(x float64) float64 { return Pow(x, 1.7) }},
		{"pow/math", func(x float64) float64 { return math.Pow(x, 1.7) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				sink += c.f(xs[i&1023])
			}
		})
	}
}

func BenchmarkVariates(b *testing.B) {
	for _, c := range []struct {
		name string
		f    func(r *rand.Rand) float64
	}{
		{"exponential", Exponential}, {"normal", Normal},
		{"gamma 0.25", func(r *rand.Rand) float64 { return Gamma(r, 0.25) }},
		{"gamma 4", func(r *rand.Rand) float64 { return Gamma(r, 4) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := newRand(1)
			b.ReportAllocs()
			for range b.N {
				sink += c.f(r)
			}
		})
	}
}
