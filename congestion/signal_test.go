package congestion

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// TestCNPPacing: whatever the marks, no two CNPs are closer than the interval.
// Deferred, every mark is answered within one.
func TestCNPPacing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := paperPreset()
		c.CNPInterval = sim.Time(rapid.IntRange(0, 20).Draw(t, "interval")) * sim.Microsecond
		c.CNPDelay = sim.Time(rapid.IntRange(0, 60).Draw(t, "delay")) * sim.Microsecond
		c.CNPDeferred = rapid.Bool().Draw(t, "deferred")
		d, err := NewDCQCN(c, 100*units.Gbps)
		require.NoError(t, err)
		var np NP
		var now sim.Time
		var marks, cnps []sim.Time
		for range rapid.IntRange(1, 100).Draw(t, "marks") {
			now += sim.Time(rapid.IntRange(0, 8_000_000).Draw(t, "gap"))
			marks = append(marks, now)
			if at := d.OnMarked(&np, now); at != sim.Never {
				require.GreaterOrEqual(t, at, now+c.CNPDelay)
				cnps = append(cnps, at-c.CNPDelay)
			}
		}
		require.Equal(t, marks[0], cnps[0], "the first mark is answered at once")
		for i := 1; i < len(cnps); i++ {
			require.GreaterOrEqual(t, cnps[i]-cnps[i-1], c.CNPInterval)
		}
		if !c.CNPDeferred {
			require.Subset(t, marks, cnps)
			return
		}
		for _, m := range marks {
			answered := false
			for _, at := range cnps {
				answered = answered || m <= at && at <= m+c.CNPInterval
			}
			require.True(t, answered, "mark at %v, CNPs at %v", m, cnps)
		}
	})
}

func anyThresholds(t *rapid.T) ECNThresholds {
	kmin := rapid.Int64Range(0, int64(maxQueue)).Draw(t, "kmin")
	return ECNThresholds{
		Rate: 100 * units.Gbps, Kmin: units.Bytes(kmin),
		Kmax: units.Bytes(rapid.Int64Range(kmin, int64(maxQueue)).Draw(t, "kmax")),
		Pmax: rapid.OneOf(rapid.Float64Range(0, 1), rapid.SampledFrom([]float64{0, 1, 0.2})).Draw(t, "pmax"),
	}
}

// TestMarkIsProbability counts, exactly, for how many of the 2^32 random numbers
// a packet is marked.
func TestMarkIsProbability(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := anyThresholds(t)
		m := k.Marker()
		q := units.Bytes(rapid.Int64Range(0, int64(maxQueue)).Draw(t, "q"))
		marked := countMarked(m, q)
		require.InDelta(t, k.Probability(q), float64(marked)/(1<<32), 1.0/(1<<31), "q=%d", q)
		require.LessOrEqual(t, marked, countMarked(m, q+units.Bytes(rapid.Int64Range(0, int64(maxQueue)).Draw(t, "more"))), "a longer queue is marked no less")
	})
}

// countMarked finds the number of marked u by bisection: the marked ones are the
// smallest.
func countMarked(m Marker, q units.Bytes) uint64 {
	low, high := uint64(0), uint64(1)<<32
	for low < high {
		if mid := (low + high) / 2; m.Mark(q, uint32(mid)) {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// TestUniform pins the numbers to splitmix64's published ones and counts them.
func TestUniform(t *testing.T) {
	for i, want := range []uint64{0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F} {
		require.Equal(t, uint32(want>>32), Uniform(0, uint64(i)))
	}
	// 65,536 numbers over 256 bins, by their high and low bits: the statistic has
	// mean 255 and standard deviation 22.6.
	for seed := range uint64(8) {
		var high, low [256]int
		for n := range uint64(1 << 16) {
			u := Uniform(seed<<32, n)
			high[u>>24]++
			low[u&255]++
		}
		for _, bins := range [][256]int{high, low} {
			x := 0.
			for _, n := range bins {
				x += math.Pow(float64(n)-256, 2) / 256
			}
			require.InDelta(t, 255, x, 5*22.6)
		}
	}
}

// The presets at the rates of today's links, in KB: Kmin and Kmax as their sources
// have them, and in proportion to the rate where they say so.
func TestECNPresetsByRate(t *testing.T) {
	for _, c := range []struct {
		preset string
		want   [4][2]float64 // at 100, 200, 400 and 800 Gb/s
	}{
		{"alibaba", [4][2]float64{{400, 1600}, {800, 3200}, {1600, 6400}, {3200, 12800}}},
		{"simai", [4][2]float64{{400, 1600}, {300, 1200}, {800, 3200}, {1600, 6400}}},
		{"paper", [4][2]float64{{12.5, 500}, {25, 1000}, {50, 2000}, {100, 4000}}},
		{"conweave", [4][2]float64{{100, 400}, {100, 400}, {100, 400}, {100, 400}}},
		{"sonic", [4][2]float64{{1048.576, 2097.152}, {1048.576, 2097.152}, {1048.576, 2097.152}, {1048.576, 2097.152}}},
	} {
		var ecn ECNConfig
		require.NoError(t, ecn.SetPreset(c.preset))
		for i, rate := range []units.Rate{100, 200, 400, 800} {
			got := ecn.At(rate * units.Gbps)
			require.Equal(t, c.want[i], [2]float64{float64(got.Kmin) / 1000, float64(got.Kmax) / 1000}, "%s at %d Gb/s", c.preset, rate)
		}
	}
}

func TestECNWithoutThresholds(t *testing.T) {
	require.Equal(t, ECNThresholds{Rate: 5}, ECNConfig{}.At(5))
	require.True(t, ECNConfig{}.At(5).Marker().Mark(1, math.MaxUint32))
	require.False(t, ECNConfig{}.At(5).Marker().Mark(0, 0))
}

func TestQuanta(t *testing.T) {
	// 512 bits at 400 Gb/s are 1.28 ns.
	require.Equal(t, 1280*sim.Picosecond, QuantaTime(1, 400*units.Gbps))
	require.Equal(t, 65535*1280*sim.Picosecond, QuantaTime(MaxQuanta, 400*units.Gbps))
	require.Zero(t, QuantaTime(0, 400*units.Gbps))
	// 83.8848 us less the longest wait for a frame and the PFC frame's own time.
	require.Equal(t, 65535*1280*sim.Picosecond-85240*sim.Picosecond, RefreshAfter(MaxQuanta, 400*units.Gbps, 4178))
	require.Zero(t, RefreshAfter(10, 400*units.Gbps, 4178))
}

func TestResponseTime(t *testing.T) {
	for _, c := range []struct {
		rate units.Rate
		want sim.Time
	}{
		{10, 67 * 51200}, {25, 80 * 20480}, {40, 118 * 12800}, {50, 147 * 10240}, {100, 394 * 5120},
		{200, 453 * 2560}, {400, 905 * 1280}, {800, 905 * 640}, {1600, 905 * 320},
		{1, 67 * 512000}, {56, 0},
	} {
		if c.rate == 56 { // between two of the standard's
			require.Equal(t, QuantaTime(394, 56*units.Gbps), ResponseTime(56*units.Gbps))
			continue
		}
		require.Equal(t, c.want, ResponseTime(c.rate*units.Gbps), "%d Gb/s", c.rate)
	}
}

func TestPauseState(t *testing.T) {
	var s PauseState
	const rate = 400 * units.Gbps
	require.False(t, s.Paused(3, 0))
	s.Pause(3, 10*sim.Microsecond, 1000, rate) // for 1.28 us
	require.True(t, s.Paused(3, 10*sim.Microsecond))
	require.True(t, s.Paused(3, 11279999*sim.Picosecond))
	require.False(t, s.Paused(3, 11280*sim.Nanosecond), "it expires")
	require.False(t, s.Paused(4, 10*sim.Microsecond), "other priorities go on")
	require.Equal(t, 11280*sim.Nanosecond, s.Until(3))
	s.Pause(3, 11*sim.Microsecond, 1000, rate) // a refresh
	require.True(t, s.Paused(3, 12279*sim.Nanosecond))
	s.Pause(3, 12*sim.Microsecond, 0, rate) // XON
	require.False(t, s.Paused(3, 12*sim.Microsecond))
	s.Hold(3)
	require.True(t, s.Paused(3, sim.Never-1))
	s.Resume(3)
	require.False(t, s.Paused(3, 12*sim.Microsecond))
}

func TestHeadroomFigures(t *testing.T) {
	// 400 Gb/s, 1 us each way: 2 x 50,000 B on the cable, 905 quanta of 64 B, three
	// frames and the PFC frame.
	require.Equal(t, units.Bytes(100_000+57_920+3*4178+84), Headroom(400*units.Gbps, sim.Microsecond, ResponseTime(400*units.Gbps), 4178))
	require.Equal(t, units.Bytes(3*1518+84), Headroom(10*units.Gbps, 0, 0, 1518))
	// The preset "derived" is that formula; the others are as their sources say.
	p := Port{400 * units.Gbps, sim.Microsecond}
	require.Equal(t, Headroom(p.Rate, p.Delay, ResponseTime(p.Rate), 4178), derivedBuffer().Headroom.of(p, 4178))
	require.Equal(t, units.Bytes(150_000), hpccNS3Buffer().Headroom.of(p, 4178))
	require.Equal(t, units.Bytes(100_000+2*1048), conweaveBuffer().Headroom.of(p, 1048))
	require.Equal(t, units.Bytes(612_140), tomahawk5Buffer().Headroom.of(p, 4178))
	// SONiC's figure covers the standard's response and 150 m of fibre (750 ns)
	// with room to spare.
	require.Less(t, Headroom(p.Rate, 750*sim.Nanosecond, ResponseTime(p.Rate), 9216), units.Bytes(612_140))
}

func TestCarried(t *testing.T) {
	require.Equal(t, units.Bytes(50_000), carried(400*units.Gbps, sim.Microsecond))
	require.Equal(t, units.Bytes(1), carried(1, 1), "rounded up")
	require.Zero(t, carried(0, sim.Second))
	require.Zero(t, carried(400*units.Gbps, -1))
	require.Equal(t, units.Bytes(1<<62), carried(math.MaxInt64, sim.Never))
	rapid.Check(t, func(t *rapid.T) {
		r := units.Rate(rapid.Int64Range(1, int64(maxRate)).Draw(t, "rate"))
		n := carried(r, sim.Time(rapid.Int64Range(1, int64(sim.Second)).Draw(t, "time")))
		require.LessOrEqual(t, r.Time(n-1), sim.Second)
		// It is the inverse of Rate.Time, rounded up.
		at := r.Time(n)
		require.InDelta(t, float64(n), float64(carried(r, at)), 1+float64(r)/8e12)
	})
}
