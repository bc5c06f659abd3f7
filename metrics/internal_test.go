package metrics

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/sim"
)

// What goes into a log comes out: the same tokens at the same instants after
// the same gaps, in order, with and without merging.
func TestEventLogKeepsEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		merge := rapid.Bool().Draw(t, "merge")
		log := eventLog{merge: merge}
		var want []logEvent
		at := sim.Time(0)
		for range rapid.IntRange(0, 200).Draw(t, "events") {
			at += sim.Time(rapid.Int64Range(0, 3).Draw(t, "step")) * sim.Time(rapid.Int64Range(0, 1e12).Draw(t, "dt"))
			e := logEvent{at, sim.Time(rapid.SampledFrom([]int64{0, 1, 3e10, 3e10 + 7}).Draw(t, "gap")), rapid.Int64Range(0, 300).Draw(t, "count")}
			log.add(e.at, e.span, e.count)
			if e.count == 0 {
				continue
			}
			if n := len(want); merge && n > 0 && want[n-1].at == e.at && want[n-1].span == e.span {
				want[n-1].count += e.count
				continue
			}
			want = append(want, e)
		}
		for range 2 { // reading does not change it
			var got []logEvent
			log.each(func(e logEvent) { got = append(got, e) })
			require.Equal(t, want, got)
		}
	})
}

func TestEventLogCrossesChunks(t *testing.T) {
	var log eventLog
	const n = 50_000
	for i := range n {
		log.add(sim.Time(i)*30*sim.Millisecond, 30*sim.Millisecond+sim.Time(i%7), int64(i%100+1))
	}
	require.Greater(t, len(log.chunks), 2)
	i := 0
	log.each(func(e logEvent) {
		require.Equal(t, logEvent{sim.Time(i) * 30 * sim.Millisecond, 30*sim.Millisecond + sim.Time(i%7), int64(i%100 + 1)}, e)
		i++
	})
	require.Equal(t, n, i)
	require.Less(t, float64(log.bytes())/n, 9.0, "bytes per event")
}

// Shares sum to the whole, and none is further than one part from its quota.
func TestSharesSumExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.Float64Range(0, 1e9), 1, 12).Draw(t, "weights")
		parts := rapid.IntRange(1, million).Draw(t, "units")
		got := Shares(weights, parts)
		sum, total := 0, 0.0
		for i, w := range weights {
			sum += got[i]
			total += w
			require.False(t, w == 0 && got[i] > 0, "nothing gets nothing")
		}
		if total == 0 {
			require.Zero(t, sum)
			return
		}
		require.Equal(t, parts, sum)
		for i, w := range weights {
			require.InDelta(t, w/total*float64(parts), float64(got[i]), 1.0000001)
		}
	})
}

// Parts that are printed sum to their printed sum, and none is off by more than
// a tenth of a percent.
func TestPrintedPartsSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.IntRange(1000, 300_000), 1, 3).Draw(t, "parts")
		sum := 0
		for _, p := range parts {
			sum += p
		}
		printed := func(millionths int) float64 {
			v, err := strconv.ParseFloat(strings.TrimSuffix(percent(millionths), " %"), 64)
			require.NoError(t, err)
			return v
		}
		total := 0.0
		for i, p := range summing(sum, parts) {
			total += printed(p)
			require.InDelta(t, parts[i], p, 1000)
		}
		require.InDelta(t, printed(sum), total, 1e-9)
	})
	require.Equal(t, "26.0 %", percent(260_500), "halves to even, as the parts are")
	require.Equal(t, "26.2 %", percent(261_500))
	require.Equal(t, []int{2000, 7000, 2000, 90}, summing(11_400, []int{2100, 6900, 2400, 90}))
	require.Equal(t, []int{0, 0}, summing(0, []int{0, 0}))
}

func TestSpanSumDoesNotOverflow(t *testing.T) {
	var s spanSum
	for range 1000 {
		s.add(100*24*3600*sim.Second + 1)
	}
	require.Equal(t, int64(1000*100*24*3600), s.seconds)
	require.Equal(t, sim.Time(1000), s.rest)
}

// A gauge is the integral of a staircase: against the sum over all rows of the
// overlap of every stay.
func TestGaugeAgainstOverlaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := sim.Time(rapid.Int64Range(0, 50).Draw(t, "from"))
		whole := Window{from, from + sim.Time(rapid.Int64Range(1, 200).Draw(t, "length"))}
		width := sim.Time(rapid.Int64Range(1, 60).Draw(t, "width"))
		rows := int((whole.Length() + width - 1) / width)
		g := newGauge(whole, width, rows)
		want := make([]float64, rows)
		for range rapid.IntRange(0, 20).Draw(t, "stays") {
			a := sim.Time(rapid.Int64Range(0, 300).Draw(t, "a"))
			stay := Window{a, a + sim.Time(rapid.Int64Range(-5, 300).Draw(t, "stay"))}
			g.add(stay)
			for i := range want {
				row := Window{whole.From + sim.Time(i)*width, min(whole.From+sim.Time(i+1)*width, whole.To)}
				want[i] += float64(row.overlap(stay.From, stay.To)) / float64(row.Length())
			}
		}
		require.InDeltaSlice(t, want, g.means(), 1e-9)
	})
}

// Without censoring the estimate is the sample's own quantile; with it, long
// stays that are cut short do not make the rest look shorter.
func TestQuantilesOfStays(t *testing.T) {
	var whole, cut []decodeStay
	rng := rand.New(rand.NewPCG(1, 1))
	for range 10_000 {
		from := sim.FromSeconds(20 * rng.Float64())
		span := sim.FromSeconds(10 * rng.Float64()) // uniform up to 10 s
		whole = append(whole, decodeStay{Window{from, from + span}, true})
		// The clock stops at 20 s.
		cut = append(cut, decodeStay{Window{from, min(from+span, 20*sim.Second)}, from+span <= 20*sim.Second})
	}
	for _, stays := range [][]decodeStay{whole, cut} {
		q := quantiles(stays, []float64{0.1, 0.5, 0.9})
		for k, want := range []float64{1, 5, 9} {
			require.InDelta(t, want, q[k].Seconds(), 0.15)
		}
	}
	require.Equal(t, []sim.Time{2, 5, 5}, quantiles([]decodeStay{
		{Window{0, 5}, true}, {Window{0, 1}, true}, {Window{1, 3}, true}, {Window{0, 4}, true},
	}, []float64{0.5, 0.8, 0.99}))
	require.Equal(t, []sim.Time{7}, quantiles([]decodeStay{{Window{0, 7}, false}}, []float64{0.5}), "nothing ended")
}

// The doc comments state these sizes.
func TestRowsAreCompact(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(Request{}), uintptr(264))
	require.LessOrEqual(t, unsafe.Sizeof(Step{}), uintptr(88))
}

func TestSeriesWindow(t *testing.T) {
	for _, c := range []struct{ asked, length, want sim.Time }{
		{0, 200 * sim.Second, sim.Second},
		{0, 201 * sim.Second, 2 * sim.Second},
		{0, 60 * sim.Second, 500 * sim.Millisecond},
		{0, 24 * 3600 * sim.Second, 500 * sim.Second},
		{0, 1, sim.Microsecond},
		{3 * sim.Second, 60 * sim.Second, 3 * sim.Second},
		{7 * sim.Millisecond, 1000 * sim.Second, 14 * sim.Millisecond},
		{sim.Millisecond, 1000 * sim.Second, 10 * sim.Millisecond},
	} {
		require.Equal(t, c.want, seriesWindow(c.asked, c.length), "%v of %v", c.asked, c.length)
	}
	// At any length and any width asked for there are at most so many rows, all of
	// them within the window, and they tile it.
	rapid.Check(t, func(t *rapid.T) {
		length := sim.Time(rapid.OneOf(rapid.Int64Range(1, int64(sim.Never)), rapid.Int64Range(int64(sim.Never)-3, int64(sim.Never))).Draw(t, "length"))
		asked := sim.Time(rapid.OneOf(rapid.Just(int64(0)), rapid.Just(int64(sim.Millisecond)),
			rapid.Int64Range(int64(sim.Millisecond), int64(sim.Never)-1)).Draw(t, "asked"))
		width := seriesWindow(asked, length)
		require.Positive(t, width)
		rows := parts(length, width)
		require.LessOrEqual(t, rows, sim.Time(maxRows))
		if asked > 0 {
			require.Zero(t, width%asked)
		} else {
			require.LessOrEqual(t, rows, sim.Time(200))
		}
		w := Window{sim.Never - length, sim.Never}
		require.Equal(t, w.From, w.cell(0, width).From)
		last := w.cell(int(rows)-1, width)
		require.Equal(t, w.To, last.To)
		require.Positive(t, last.Length())
		require.LessOrEqual(t, last.Length(), width)
	})
}
