package congestion

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// anyDCQCN draws constants of either flavour and mixtures of them, with timers
// short enough, or with common multiples, to meet often.
func anyDCQCN(t *rapid.T) (DCQCNConfig, units.Rate) {
	us := func(name string, from, to int) sim.Time {
		return sim.Time(rapid.IntRange(from, to).Draw(t, name)) * sim.Microsecond
	}
	line := rapid.SampledFrom([]units.Rate{40, 100, 400}).Draw(t, "line") * units.Gbps
	c := DCQCNConfig{
		Preset:                   "paper",
		Notify:                   rapid.SampledFrom([]string{NotifyCNP, NotifyACK}).Draw(t, "notify"),
		CNPScope:                 ScopeQP,
		AlphaUpdate:              rapid.SampledFrom([]string{OnCNP, OnPeriod}).Draw(t, "alpha update"),
		AlphaTimer:               us("alpha timer", 1, 60),
		G:                        rapid.SampledFrom([]float64{1. / 256, 1. / 16, 0.5, 1}).Draw(t, "g"),
		InitialAlpha:             rapid.SampledFrom([]float64{1, 0.5}).Draw(t, "initial alpha"),
		RateDecrease:             rapid.SampledFrom([]string{OnCNP, OnPeriod}).Draw(t, "rate decrease"),
		DecreaseInterval:         us("decrease interval", 1, 60),
		MinDecreaseFactor:        rapid.SampledFrom([]float64{0, 0.5, 0.75}).Draw(t, "min factor"),
		ClampTargetRate:          rapid.Bool().Draw(t, "clamp"),
		ClampTargetRateAfterTime: rapid.Bool().Draw(t, "clamp after time"),
		FirstCNPRate:             rapid.SampledFrom([]float64{1, 0.6}).Draw(t, "first"),
		IncreaseTimer:            us("timer", 0, 60),
		ByteCounter:              units.Bytes(rapid.IntRange(0, 3).Draw(t, "byte counter")) * 100 * units.KB,
		FastRecovery:             rapid.IntRange(0, 5).Draw(t, "F"),
		RateAI:                   units.Rate(rapid.IntRange(1, 1000).Draw(t, "ai")) * units.Mbps,
		RateHAI:                  units.Rate(rapid.IntRange(1, 1000).Draw(t, "hai")) * units.Mbps,
		HAIByStage:               rapid.Bool().Draw(t, "hai by stage"),
		ReleaseAtLineRate:        rapid.Bool().Draw(t, "release"),
		MinRate:                  units.Gbps,
		InitialRate:              rapid.SampledFrom([]units.Rate{0, 0, 5 * units.Gbps}).Draw(t, "initial"),
		Window:                   units.MB,
		WindowFollowsRate:        true,
		GapFollowsRate:           rapid.Bool().Draw(t, "gap follows"),
	}
	if c.IncreaseTimer == 0 && c.ByteCounter == 0 {
		c.IncreaseTimer = 55 * sim.Microsecond
	}
	return c, line
}

// A happening is an event of a flow; kinds are cnp, marked ack, ack, send, look.
type happening struct {
	at    sim.Time
	kind  int
	bytes units.Bytes
}

const (
	hCNP = iota
	hMarked
	hAck
	hSend
	hLook
)

// anyHappenings draws events in order: bursts on whole microseconds, which meet
// the timers, odd instants, and long silences.
func anyHappenings(t *rapid.T) []happening {
	n := rapid.IntRange(1, 60).Draw(t, "events")
	all := make([]happening, n)
	now := sim.Time(0)
	for i := range all {
		switch rapid.IntRange(0, 5).Draw(t, "gap kind") {
		case 0: // the same instant
		case 1, 2:
			now += sim.Time(rapid.IntRange(1, 60).Draw(t, "us")) * sim.Microsecond
		case 3, 4:
			now += sim.Time(rapid.IntRange(1, 20_000_000).Draw(t, "ps"))
		default:
			now += sim.Time(rapid.IntRange(1, 3000).Draw(t, "silence")) * sim.Microsecond
		}
		all[i] = happening{now, rapid.SampledFrom([]int{hCNP, hCNP, hMarked, hAck, hSend, hSend, hLook}).Draw(t, "kind"), 0}
		if all[i].kind == hSend {
			all[i].bytes = units.Bytes(rapid.IntRange(1, 400_000).Draw(t, "bytes"))
		}
	}
	return all
}

func happen(d *DCQCN, f *RP, h happening) sim.Time {
	switch h.kind {
	case hCNP:
		d.OnCNP(f, h.at)
	case hMarked:
		d.OnAck(f, h.at, Ack{Marked: true})
	case hAck:
		d.OnAck(f, h.at, Ack{})
	case hSend:
		return d.OnSend(f, h.at, h.bytes)
	}
	return 0
}

// TestLazyEqualsEager: a flow that is looked at whenever something expires, and
// at random instants, ends in the same state as one that only its events touch,
// bit for bit.
func TestLazyEqualsEager(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, line := anyDCQCN(t)
		d, err := NewDCQCN(c, line)
		require.NoError(t, err)
		var lazy, eager RP
		d.Start(&lazy, 0)
		d.Start(&eager, 0)
		for _, h := range anyHappenings(t) {
			for range rapid.IntRange(0, 3).Draw(t, "glances") {
				last := eager
				at := h.at - sim.Time(rapid.IntRange(0, 3_000_000).Draw(t, "before"))
				if at < 0 {
					continue
				}
				for due := d.NextDeadline(&eager); due <= at; due = d.NextDeadline(&eager) {
					d.Rate(&eager, due)
				}
				// Glances do not change what they do not have to.
				if d.NextDeadline(&last) > at {
					require.Equal(t, last, eager)
				}
				d.Rate(&eager, at)
				d.Alpha(&eager, at)
				d.Window(&eager, at)
			}
			for due := d.NextDeadline(&eager); due <= h.at; due = d.NextDeadline(&eager) {
				require.Equal(t, eager.rate, d.Rate(&eager, due-1), "nothing may change before the deadline")
				d.Rate(&eager, due)
			}
			require.Equal(t, happen(d, &lazy, h), happen(d, &eager, h))
			require.Equal(t, d.Rate(&lazy, h.at), d.Rate(&eager, h.at))
			require.Equal(t, d.Target(&lazy, h.at), d.Target(&eager, h.at))
			require.Equal(t, d.Alpha(&lazy, h.at), d.Alpha(&eager, h.at), "at %v", h.at)
			require.Equal(t, lazy, eager)
		}
	})
}

// A ticker is the second implementation: every timer an event of its own, every
// rule as the papers write it, in floating point. It is 1,000 times slower.
type ticker struct {
	c                    DCQCNConfig
	line                 float64
	now                  sim.Time
	rc, rt, alpha        float64
	limited, notified    bool
	alphaDue, timerDue   sim.Time
	cutDue, lastCut      sim.Time
	hadCNP, cutCNP       bool
	bytes                units.Bytes
	timeCount, byteCount int
}

func newTicker(c DCQCNConfig, line units.Rate) *ticker {
	k := &ticker{c: c, line: float64(line), rc: float64(line), rt: float64(line), alpha: c.InitialAlpha,
		alphaDue: sim.Never, timerDue: sim.Never, cutDue: sim.Never, lastCut: -sim.Never}
	if c.InitialRate != 0 && c.InitialRate < line {
		k.rc, k.limited = float64(c.InitialRate), true
		k.restart()
	}
	return k
}

func (k *ticker) restart() {
	k.bytes, k.timeCount, k.byteCount = 0, 0, 0
	k.timerDue = sim.Never
	if k.c.IncreaseTimer > 0 {
		k.timerDue = k.now + k.c.IncreaseTimer
	}
}

// run makes the timers go off one by one up to t.
func (k *ticker) run(t sim.Time) {
	for {
		due := min(k.alphaDue, k.timerDue, k.cutDue)
		if due > t {
			break
		}
		k.now = due
		switch due {
		case k.alphaDue:
			k.alpha *= 1 - k.c.G
			if k.hadCNP {
				k.alpha += k.c.G
			}
			k.hadCNP = false
			k.alphaDue += k.c.AlphaTimer
		case k.timerDue:
			k.timeCount++
			k.timerDue += k.c.IncreaseTimer
			k.raise()
		case k.cutDue:
			if k.cutCNP {
				k.lower()
			}
			k.cutCNP = false
			k.cutDue += k.c.DecreaseInterval
		}
	}
	k.now = t
}

func (k *ticker) raise() {
	low, high := min(k.timeCount, k.byteCount), max(k.timeCount, k.byteCount)
	if k.c.ByteCounter == 0 || k.c.IncreaseTimer == 0 {
		low = high - 1
	}
	f := k.c.FastRecovery
	if low > f {
		add := float64(k.c.RateHAI)
		if k.c.HAIByStage {
			add *= float64(low - f)
		}
		k.rt += add
	} else if high > f {
		k.rt += float64(k.c.RateAI)
	}
	k.rt = math.Min(k.rt, k.line)
	k.rc = math.Ceil((k.rc + k.rt) / 2)
	if k.c.ReleaseAtLineRate && k.rc == k.line && !k.cutCNP {
		k.limited, k.notified = false, false
		k.alphaDue, k.timerDue, k.cutDue = sim.Never, sim.Never, sim.Never
	}
}

func (k *ticker) lower() {
	if k.c.ClampTargetRate || k.byteCount > 0 || k.timeCount > 0 && k.c.ClampTargetRateAfterTime {
		k.rt = k.rc
	}
	k.rc = math.Max(math.Floor(k.rc*math.Max(1-k.alpha/2, k.c.MinDecreaseFactor)), float64(k.c.MinRate))
	k.lastCut = k.now
	k.restart()
}

func (k *ticker) cnp(t sim.Time) {
	k.run(t)
	first := !k.notified
	if first {
		k.limited, k.notified = true, true
		k.alpha, k.lastCut = k.c.InitialAlpha, -sim.Never
		k.alphaDue, k.hadCNP = t+k.c.AlphaTimer, false
		if cap := math.Max(math.Floor(k.line*k.c.FirstCNPRate), float64(k.c.MinRate)); cap < k.rc {
			k.rc, k.rt = cap, cap
			k.restart()
		}
		if k.c.RateDecrease == OnPeriod {
			k.cutDue = t + k.c.DecreaseInterval
		}
	} else if k.c.AlphaUpdate == OnPeriod {
		k.hadCNP = true
	}
	if k.c.RateDecrease == OnPeriod {
		k.cutCNP = true
	} else if t-k.c.DecreaseInterval >= k.lastCut {
		k.lower()
	}
	if k.c.AlphaUpdate == OnCNP {
		k.alpha = k.alpha*(1-k.c.G) + k.c.G
		k.alphaDue = t + k.c.AlphaTimer
	}
}

func (k *ticker) send(t sim.Time, n units.Bytes) {
	k.run(t)
	if !k.limited || k.c.ByteCounter == 0 {
		return
	}
	for k.bytes += n; k.bytes >= k.c.ByteCounter; {
		if k.rc == k.line { // no increase is missed
			k.bytes = 0
			return
		}
		k.bytes -= k.c.ByteCounter
		k.byteCount++
		k.raise()
		if !k.limited {
			return
		}
	}
}

// TestAgainstTicker holds the reaction point to the second implementation.
func TestAgainstTicker(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, line := anyDCQCN(t)
		d, err := NewDCQCN(c, line)
		require.NoError(t, err)
		var f RP
		d.Start(&f, 0)
		k := newTicker(c, line)
		for _, h := range anyHappenings(t) {
			happen(d, &f, h)
			switch {
			case h.kind == hCNP, h.kind == hMarked && c.Notify == NotifyACK:
				k.cnp(h.at)
			case h.kind == hSend:
				k.send(h.at, h.bytes)
			default:
				k.run(h.at)
			}
			// alpha differs in its last bits, so a rate can differ by the bit that
			// rounding makes of it.
			require.InDelta(t, k.rc, float64(d.Rate(&f, h.at)), 4+1e-10*k.rc, "rate at %v", h.at)
			require.InDelta(t, k.rt, float64(d.Target(&f, h.at)), 4+1e-10*k.rt, "target at %v", h.at)
			alpha := k.alpha
			if !k.notified {
				alpha = c.InitialAlpha
			}
			require.InDelta(t, alpha, d.Alpha(&f, h.at), 1e-12, "alpha at %v", h.at)
			d.check(&f)
		}
	})
}

// TestTimeScale: with all timers and all instants twice as long, everything
// happens the same at twice the time.
func TestTimeScale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, line := anyDCQCN(t)
		slow := c
		slow.AlphaTimer *= 2
		slow.DecreaseInterval *= 2
		slow.IncreaseTimer *= 2
		d, err := NewDCQCN(c, line)
		require.NoError(t, err)
		e, err := NewDCQCN(slow, line)
		require.NoError(t, err)
		var f, g RP
		d.Start(&f, 0)
		e.Start(&g, 0)
		for _, h := range anyHappenings(t) {
			happen(d, &f, h)
			h.at *= 2
			happen(e, &g, h)
			require.Equal(t, d.Rate(&f, h.at/2), e.Rate(&g, h.at))
			require.Equal(t, d.Alpha(&f, h.at/2), e.Alpha(&g, h.at))
		}
	})
}

// TestMoreCNPsLessRate: with cuts at CNPs that always clamp, a flow that gets the
// same CNPs and one more is not faster afterwards, until its next increase.
func TestMoreCNPsLessRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, err := NewDCQCN(paperPreset(), 40*units.Gbps)
		require.NoError(t, err)
		var f RP
		d.Start(&f, 0)
		for _, h := range anyHappenings(t) {
			happen(d, &f, h)
			more := f
			d.OnCNP(&more, h.at)
			require.LessOrEqual(t, d.Rate(&more, h.at), d.Rate(&f, h.at))
			require.LessOrEqual(t, d.Target(&more, h.at), d.Target(&f, h.at))
			require.Greater(t, d.Alpha(&more, h.at), 0.)
		}
	})
}

func paperPreset() DCQCNConfig {
	var c DCQCNConfig
	if err := c.SetPreset("paper"); err != nil {
		panic(err)
	}
	return c
}

// A flow that is left alone for the longest run returns at once, in the state
// that a minute would have brought it to.
func TestLongSilence(t *testing.T) {
	for _, name := range DCQCNPresets() {
		var c DCQCNConfig
		require.NoError(t, c.SetPreset(name))
		d, err := NewDCQCN(c, 400*units.Gbps)
		require.NoError(t, err)
		var f RP
		d.Start(&f, 0)
		for i := range sim.Time(100) {
			d.OnCNP(&f, i*50*sim.Microsecond)
		}
		d.Rate(&f, sim.Second)
		const century = 105 * 24 * 3600 * sim.Second
		require.Equal(t, 400*units.Gbps, d.Rate(&f, century), name)
		require.Equal(t, sim.Never, d.NextDeadline(&f))
		d.OnCNP(&f, century)
		require.Less(t, d.Alpha(&f, century), 1.0000001)
	}
}

func TestPower(t *testing.T) {
	for _, x := range []float64{0, 1, 0.5, 255. / 256, 1 - 1e-6} {
		for _, n := range []uint64{0, 1, 2, 3, 10, 1000, 1 << 40} {
			require.InDelta(t, math.Pow(x, float64(n)), power(x, n), 1e-12, "%v**%d", x, n)
		}
	}
}

func TestSendTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := units.Rate(rapid.Int64Range(1, int64(maxRate)).Draw(t, "rate"))
		n := units.Bytes(rapid.Int64Range(0, 1<<40>>rapid.IntRange(0, 40).Draw(t, "shift")).Draw(t, "bytes"))
		require.Equal(t, r.Time(n), sendTime(r, n))
	})
	require.Equal(t, sim.Time(82880), sendTime(400*units.Gbps, 4144))
	require.Equal(t, sim.Never, sendTime(0, 1))
	require.Zero(t, sendTime(1, -5))
	for n := units.Bytes(1_152_920); n < 2_400_000; n += 97 { // about where a slow rate reaches Never
		require.Equal(t, units.Rate(1).Time(n), sendTime(1, n))
	}
}

// TestGapFollowsRate: the gap before a packet is what its bytes take at the rates
// that the timers make of the flow's, and never longer than without.
func TestGapFollowsRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, line := anyDCQCN(t)
		c.MinRate, c.GapFollowsRate, c.RateDecrease = units.Mbps, true, OnCNP
		d, err := NewDCQCN(c, line)
		require.NoError(t, err)
		c.GapFollowsRate = false
		fixed, err := NewDCQCN(c, line)
		require.NoError(t, err)
		var f RP
		d.Start(&f, 0)
		for _, h := range anyHappenings(t) {
			happen(fixed, &f, h)
			one, other := f, f
			n := units.Bytes(rapid.IntRange(1, 9000).Draw(t, "bytes"))
			gap, most := d.OnSend(&one, h.at, n)-h.at, fixed.OnSend(&other, h.at, n)-h.at
			require.Equal(t, other, one, "the state is the same")
			require.LessOrEqual(t, gap, most)
			sent, steps := 0., 1.
			for at := h.at; at < h.at+gap; steps++ {
				rate, until := d.Rate(&one, at), min(d.NextDeadline(&one), h.at+gap)
				sent += rate.BytesPerPicosecond() * float64(until-at)
				at = until
			}
			require.InDelta(t, float64(n), sent, 2*steps)
		}
	})
}
