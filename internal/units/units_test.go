package units

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tgssim/tgssim/sim"
	"pgregory.net/rapid"
)

func TestRateTimeOfCommonFrames(t *testing.T) {
	// wire bytes * 8 / rate, by hand.
	for _, c := range []struct {
		rate  Rate
		bytes Bytes
		want  sim.Time
	}{
		{400 * Gbps, 4178, 83560 * sim.Picosecond}, // RoCEv2, MTU 4096
		{400 * Gbps, 4144, 82880 * sim.Picosecond}, // the peers' 82 ns trap
		{400 * Gbps, 64, 1280 * sim.Picosecond},
		{200 * Gbps, 4178, 167120 * sim.Picosecond},
		{800 * Gbps, 1, 10 * sim.Picosecond},
		{100 * Gbps, 1500, 120 * sim.Nanosecond},
		{1280 * Gbps, 1 * MB, 6250 * sim.Nanosecond}, // NVLink, 160 GB/s
		{50 * 8 * Gbps, 64 * 7168 * 3, 27525120 * sim.Picosecond},
		{8, 1, sim.Second},
		{7, 1, 1142857142858 * sim.Picosecond}, // 8/7 s, rounded up
		{1, 1, 8 * sim.Second},
		{3 * Tbps, 1, 3 * sim.Picosecond}, // 2.67 ps, rounded up
		{math.MaxInt64, 1, 1 * sim.Picosecond},
		{400 * Gbps, 0, 0},
		{400 * Gbps, -5, 0},
	} {
		require.Equal(t, c.want, c.rate.Time(c.bytes), "%v at %v", c.bytes, c.rate)
	}
}

func TestRateTimeSaturates(t *testing.T) {
	require.Equal(t, sim.Never, Rate(0).Time(1))
	require.Equal(t, sim.Never, Rate(-400*Gbps).Time(1))
	require.Equal(t, sim.Time(0), Rate(0).Time(0), "no bytes take no time, even without a link")
	require.Equal(t, sim.Never, Rate(1).Time(math.MaxInt64))
	// The last span below Never and the first above it, at 1 bit/s: 2^63 ps hold
	// 1152921 bytes and a bit.
	require.Equal(t, sim.Time(1152921)*8*sim.Second, Rate(1).Time(1152921))
	require.Equal(t, sim.Never, Rate(1).Time(1152922))
	require.Equal(t, sim.Never, Rate(400*Gbps).TimeScaled(math.MaxInt64, math.MaxInt64, 1))
	require.Equal(t, sim.Never, Rate(400*Gbps).TimeScaled(1, 1, 0))
	require.Equal(t, sim.Time(0), Rate(400*Gbps).TimeScaled(1, -1, 1))
}

func TestTimeScaledBeyond64Bits(t *testing.T) {
	// The intermediate products overflow 64 bits while the result does not.
	const huge = int64(1) << 62
	require.Equal(t, Rate(400*Gbps).Time(1000), Rate(400*Gbps).TimeScaled(1000, huge, huge))
	require.Equal(t, Rate(400*Gbps).Time(1000), Rate(400*Gbps).TimeScaled(1000, math.MaxInt64, math.MaxInt64))
	require.Equal(t, sim.Time(8e12), Rate(math.MaxInt64).TimeScaled(math.MaxInt64, 1, 1))
	require.Equal(t, sim.Time(1), Rate(math.MaxInt64).TimeScaled(1, 1, math.MaxInt64))
}

func TestTimeScaledOfRoCE(t *testing.T) {
	// Whole MTUs: as long as their frames one after the other.
	for _, packets := range []Bytes{1, 3, 256, 1 << 20} {
		require.Equal(t, (400*Gbps).Time(4178)*sim.Time(packets), (400*Gbps).TimeScaled(4096*packets, 4178, 4096))
	}
}

// TestTimeScaledIsExact compares with arithmetic that cannot overflow.
func TestTimeScaledIsExact(t *testing.T) {
	// Magnitudes uniform in their logarithm, so that every mix of fast and slow
	// path, saturation and rounding up is met.
	anySize := rapid.Custom(func(t *rapid.T) int64 {
		shift := rapid.IntRange(0, 62).Draw(t, "shift")
		return rapid.Int64Range(1, math.MaxInt64>>shift).Draw(t, "value")
	})
	rapid.Check(t, func(t *rapid.T) {
		n, num, den, r := anySize.Draw(t, "n"), anySize.Draw(t, "num"), anySize.Draw(t, "den"), anySize.Draw(t, "r")
		got := Rate(r).TimeScaled(Bytes(n), num, den)
		require.Equal(t, slowTime(n, num, den, r), got)
		require.Equal(t, slowTime(n, 1, 1, r), Rate(r).Time(Bytes(n)))
	})
}

// slowTime is ceil(n*num/den * 8e12/r), at most Never, in rational arithmetic.
func slowTime(n, num, den, r int64) sim.Time {
	bytes := new(big.Rat).Mul(new(big.Rat).SetInt64(n), big.NewRat(num, den))
	ps := bytes.Mul(bytes, big.NewRat(8_000_000_000_000, r))
	q := new(big.Int).Div(ps.Num(), ps.Denom())
	if !ps.IsInt() {
		q.Add(q, big.NewInt(1))
	}
	if q.Cmp(big.NewInt(math.MaxInt64)) >= 0 {
		return sim.Never
	}
	return sim.Time(q.Int64())
}

func TestTimeScaledDoesNotAllocate(t *testing.T) {
	require.Zero(t, testing.AllocsPerRun(100, func() {
		(400 * Gbps).TimeScaled(3*TB, 4178, 4096)
	}))
}

func TestBytesPerTime(t *testing.T) {
	require.Equal(t, 50e9, (400 * Gbps).BytesPerSecond())
	require.Equal(t, 0.05, (400 * Gbps).BytesPerPicosecond())
	require.Equal(t, 0.05, Frequency(20).Interval())
	require.True(t, math.IsInf(Frequency(0).Interval(), 1))
}

func BenchmarkRateTime(b *testing.B) {
	b.ReportAllocs()
	var sum sim.Time
	for i := range b.N {
		sum += (400 * Gbps).TimeScaled(Bytes(i&0xFFFFF), 4178, 4096)
	}
	_ = sum
}
