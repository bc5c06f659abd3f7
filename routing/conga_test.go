package routing

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "github.com/tgssim/tgssim/internal/testkit" // the same draws in every run
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

func newCONGA(t require.TestingT, change func(*CONGAConfig)) *CONGA {
	c := DefaultCONGA()
	if change != nil {
		change(&c)
	}
	g, err := NewCONGA(c)
	require.NoError(t, err)
	return g
}

// X gains what is sent and keeps 1 - alpha of itself per period. At 80 Gb/s, 10 KB
// per us, and with tau = 50/0.2 = 250 us, a full link has X = 2.5 MB before a
// decay: 1.25 MB are a half, 4 of 8 steps; after three periods 0.512 of it,
// 640 KB, are a quarter, 2 steps.
func TestDRE(t *testing.T) {
	c := newCONGA(t, func(c *CONGAConfig) { c.CountAt = CountAtSend })
	var d DRE
	require.Zero(t, c.Metric(&d, 0, 80*units.Gbps))
	c.Count(&d, 0, 1250*units.KB)
	require.EqualValues(t, 4, c.Metric(&d, 0, 80*units.Gbps))
	require.EqualValues(t, 4, c.Metric(&d, 50*sim.Microsecond-1, 80*units.Gbps))
	require.EqualValues(t, 3, c.Metric(&d, 50*sim.Microsecond, 80*units.Gbps)) // 0.4 x 8 = 3.2
	require.EqualValues(t, 2, c.Metric(&d, 150*sim.Microsecond, 80*units.Gbps))
	require.InDelta(t, 640e3, d.x, 1e-6)
	c.Count(&d, 150*sim.Microsecond, 1860*units.KB)
	require.EqualValues(t, 7, c.Metric(&d, 150*sim.Microsecond, 80*units.Gbps), "a full link")
	c.Count(&d, 150*sim.Microsecond, 100*units.MB)
	require.EqualValues(t, 7, c.Metric(&d, 150*sim.Microsecond, 80*units.Gbps), "the last step")
	require.Zero(t, c.Metric(&d, sim.Second, 80*units.Gbps))

	c = newCONGA(t, nil) // that of a queue, which may have more to do than it can
	d = DRE{}
	c.Count(&d, 0, 5*units.MB)
	require.EqualValues(t, 16, c.Metric(&d, 0, 80*units.Gbps))
	c.Count(&d, 0, units.GB)
	require.EqualValues(t, Down-1, c.Metric(&d, 0, 80*units.Gbps))
}

// A new flowlet looks at four uplinks next to each other, so the ones in the
// middle are looked at more often; where they are down, at all.
func TestCONGAChoices(t *testing.T) {
	l := newCONGA(t, nil).NewLeaf(2, 8)
	local := make([]uint8, 8)
	counts := make([]int, 8)
	for seed := range uint64(8000) {
		var f Flowlet
		u, _ := l.Next(&f, 0, 1, local, seed)
		counts[u]++
	}
	for u, windows := range []float64{1, 2, 3, 4, 4, 3, 2, 1} {
		require.InEpsilon(t, 8000*windows/20, counts[u], 0.15, "uplink %d", u)
	}
	for u := range 7 {
		local[u] = Down
	}
	for seed := range uint64(100) {
		var f Flowlet
		u, _ := l.Next(&f, 0, 1, local, seed)
		require.Equal(t, 7, u)
	}
}

// Looking at it does not change it; decays in one go are those one by one.
func TestDREIsLazy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCONGA(t, func(c *CONGAConfig) { c.Alpha = rapid.Float64Range(0.01, 1).Draw(t, "alpha") })
		var lazy, touched DRE
		now := sim.Time(0)
		for range 20 {
			until := now + sim.Time(rapid.Int64Range(0, int64(sim.Millisecond)).Draw(t, "dt"))
			for ; now < until; now += 7 * sim.Microsecond {
				c.Metric(&touched, now, units.Gbps)
			}
			now = until
			n := units.Bytes(rapid.IntRange(0, 1_000_000).Draw(t, "n"))
			c.Count(&lazy, now, n)
			c.Count(&touched, now, n)
			require.Equal(t, lazy.at, touched.at)
			require.InEpsilon(t, touched.x+1, lazy.x+1, 1e-12)
		}
	})
}

// A steady rate has the metric of its share of the link.
func TestDREOfASteadyRate(t *testing.T) {
	c := newCONGA(t, func(c *CONGAConfig) { c.Bits = 7 })
	for _, share := range []float64{0.1, 0.25, 0.5, 0.8} {
		var d DRE
		packet := units.Bytes(4160)
		gap := sim.Time(float64((400 * units.Gbps).Time(packet)) / share)
		now := sim.Time(0)
		sum, n := 0., 0
		for ; now < 3*sim.Millisecond; now += gap {
			c.Count(&d, now, packet)
			if now > 2*sim.Millisecond {
				sum += float64(c.Metric(&d, now, 400*units.Gbps))
				n++
			}
		}
		// Right before a decay X is a period's worth above where it is after it.
		require.InDelta(t, share*128*0.9, sum/float64(n), 0.02*128)
	}
}

// The metrics of leaf 1's uplinks, as packets bring them to leaf 0, go back one by
// one, changed ones first, and count at leaf 1 with its own, as the larger of the
// two.
func TestCONGAFeedback(t *testing.T) {
	c := newCONGA(t, nil)
	a, b := c.NewLeaf(2, 3), c.NewLeaf(2, 3)
	_, _, ok := a.Feedback(1)
	require.False(t, ok)
	a.OnArrive(1, 0, 5, 0)
	a.OnArrive(1, 2, 1, 0)
	var got [][2]int
	for range 4 {
		u, m, ok := a.Feedback(1)
		require.True(t, ok)
		got = append(got, [2]int{u, int(m)})
		b.OnFeedback(0, u, m, 0)
	}
	require.Equal(t, [][2]int{{0, 5}, {2, 1}, {0, 5}, {2, 1}}, got)
	a.OnArrive(1, 2, 4, 0)
	a.OnArrive(1, 2, 4, 0)
	u, m, _ := a.Feedback(1)
	require.Equal(t, [2]int{2, 4}, [2]int{u, int(m)}, "what has changed comes first")
	b.OnFeedback(0, u, m, 0)
	a.OnArrive(1, 1, 0, 0)
	u, _, _ = a.Feedback(1)
	require.Equal(t, 1, u, "an idle path that nothing was known of is news")
	require.EqualValues(t, 5, b.Remote(0, 0, 0))
	require.EqualValues(t, 0, b.Remote(0, 1, 0), "no news is an idle path")
	require.EqualValues(t, 4, b.Remote(0, 2, 0))
	require.EqualValues(t, 0, b.Remote(1, 2, 0), "other leaves have metrics of their own")

	next := func(now sim.Time, local ...uint8) int {
		var f Flowlet
		u, begins := b.Next(&f, now, 0, local, 1)
		require.True(t, begins)
		return u
	}
	require.Equal(t, 1, next(0, 0, 3, 0))
	require.Equal(t, 2, next(0, 0, 6, 0), "4 is less than 5 and 6")
	require.Equal(t, 2, next(0, 6, 6, 5))
	require.Equal(t, 0, next(0, 5, Down, Down))
	// After Aging what was heard counts no more.
	require.EqualValues(t, 5, b.Remote(0, 0, 500*sim.Microsecond))
	require.Equal(t, 0, next(500*sim.Microsecond+1, 0, 1, 1))
}

// Flowlets stay on their uplink, and a new one stays if that is one of the best;
// among the best all are drawn alike.
func TestCONGAFlowlets(t *testing.T) {
	c := newCONGA(t, nil)
	l := c.NewLeaf(2, 4)
	counts := make([]int, 3)
	for seed := range uint64(6000) {
		var f Flowlet
		first, _ := l.Next(&f, 0, 1, []uint8{1, 0, 0, 0}, seed)
		counts[first-1]++
		same, begins := l.Next(&f, 100*sim.Microsecond, 1, []uint8{0, 7, 7, 7}, seed)
		require.False(t, begins)
		require.Equal(t, first, same)
		again, begins := l.Next(&f, 201*sim.Microsecond, 1, []uint8{0, 0, 0, 0}, seed)
		require.True(t, begins)
		require.Equal(t, first, again)
		other, _ := l.Next(&f, 500*sim.Microsecond, 1, []uint8{0, 7, 7, 7}, seed)
		require.Equal(t, 0, other)
		gone, begins := l.Next(&f, 501*sim.Microsecond, 1, []uint8{Down, 7, 3, 7}, seed)
		require.True(t, begins, "its uplink has failed")
		require.Equal(t, 2, gone)
	}
	x, limit := chiSquare(counts)
	require.Less(t, x, limit, "%v", counts)
}

func TestCONGAState(t *testing.T) {
	require.Equal(t, uintptr(16), unsafe.Sizeof(DRE{}))
	require.Equal(t, uintptr(16), unsafe.Sizeof(congaMetric{}))
	c := newCONGA(t, nil)
	l := c.NewLeaf(16, 8)
	var d DRE
	var f Flowlet
	local := make([]uint8, 8)
	now := sim.Time(0)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		now += 200 * sim.Microsecond
		c.Count(&d, now, 4160)
		local[0] = c.Metric(&d, now, 400*units.Gbps)
		u, _ := l.Next(&f, now, 3, local, 7)
		l.OnArrive(3, u, 2, now)
		l.Feedback(3)
	}))
}

func BenchmarkCONGA(b *testing.B) {
	c := newCONGA(b, nil)
	l := c.NewLeaf(16, 8)
	dres := make([]DRE, 8)
	var f Flowlet
	local := make([]uint8, 8)
	b.ReportAllocs()
	now := sim.Time(0)
	for b.Loop() {
		now += 83 * sim.Nanosecond
		u, _ := l.Next(&f, now, 3, local, 7)
		c.Count(&dres[u], now, 4160)
		local[u] = c.Metric(&dres[u], now, 400*units.Gbps)
	}
}

// The settings are complete, and complaints name the key.
func TestRoutingConfigs(t *testing.T) {
	for _, p := range INTPresets() {
		var c INTConfig
		require.NoError(t, c.SetPreset(p))
		require.NoError(t, c.Validate())
		require.Equal(t, p, c.Preset)
	}
	for _, p := range CONGAPresets() {
		var c CONGAConfig
		require.NoError(t, c.SetPreset(p))
		require.NoError(t, c.Validate())
	}
	require.NoError(t, DefaultINT().Validate())
	require.NoError(t, DefaultCONGA().Validate())
	c := DefaultINT()
	require.ErrorContains(t, c.SetPreset("flowlets"), `did you mean flowlet`)
	require.Equal(t, DefaultINT(), c)
	require.ErrorContains(t, new(CONGAConfig).SetPreset("papr"), `did you mean paper`)
	for key, change := range map[string]func(c *INTConfig){
		"preset":         func(c *INTConfig) { c.Preset = "x" },
		"per":            func(c *INTConfig) { c.Per = "" },
		"scope":          func(c *INTConfig) { c.Scope = "x" },
		"flowlet_gap":    func(c *INTConfig) { c.FlowletGap = -1 },
		"margin":         func(c *INTConfig) { c.Margin = -0.1 },
		"hold":           func(c *INTConfig) { c.Hold = -1 },
		"choices":        func(c *INTConfig) { c.Choices = -1 },
		"levels":         func(c *INTConfig) { c.Levels = -1 },
		"gain":           func(c *INTConfig) { c.Gain = 0 },
		"max_age":        func(c *INTConfig) { c.MaxAge = 0 },
		"probe_interval": func(c *INTConfig) { c.ProbeInterval = 1 },
		"silent_after":   func(c *INTConfig) { c.SilentAfter = 1 },
		"probe_bytes":    func(c *INTConfig) { c.ProbeBytes = 0 },
	} {
		c := DefaultINT()
		change(&c)
		require.ErrorContains(t, c.Validate(), key+": ")
		_, err := NewINT(c)
		require.Error(t, err)
	}
	for key, change := range map[string]func(c *CONGAConfig){
		"preset":       func(c *CONGAConfig) { c.Preset = "x" },
		"period":       func(c *CONGAConfig) { c.Period = 0 },
		"alpha":        func(c *CONGAConfig) { c.Alpha = 0 },
		"bits":         func(c *CONGAConfig) { c.Bits = 8 },
		"count_at":     func(c *CONGAConfig) { c.CountAt = "x" },
		"choices":      func(c *CONGAConfig) { c.Choices = -1 },
		"flowlet_gap":  func(c *CONGAConfig) { c.FlowletGap = -1 },
		"aging":        func(c *CONGAConfig) { c.Aging = 0 },
		"header_bytes": func(c *CONGAConfig) { c.HeaderBytes = -1 },
	} {
		c := DefaultCONGA()
		change(&c)
		require.ErrorContains(t, c.Validate(), key+": ")
		_, err := NewCONGA(c)
		require.Error(t, err)
	}
}
