package congestion

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

type timelyPacer struct {
	c *timelyFlows
	f FlowID
}

func (p timelyPacer) window() units.Bytes                       { return p.c.Window(p.f, 0) }
func (p timelyPacer) send(now sim.Time, n units.Bytes) sim.Time { return p.c.OnSend(p.f, now, n) }
func (p timelyPacer) ack(now, rtt sim.Time, n units.Bytes, a Ack) {
	a.Bytes, a.RTT = n, rtt
	p.c.OnAck(p.f, now, a)
}

// TIMELY has no one fixed point (Zhu et al., ECN or Delay, CoNEXT 2016): any queue
// between the thresholds whose gradient is zero is one, with any shares. So this is
// all that can be said: the link is used, with a queue, and round trips are under
// T_high.
func TestTimelyFixedPoints(t *testing.T) {
	const line, delay = 10 * units.Gbps, 2 * sim.Microsecond
	for _, n := range []int{2, 8} {
		k := newContest(delay, line)
		rtt := k.rtt(2*delay, 0)
		var c TimelyConfig
		require.NoError(t, c.SetPreset("paper"))
		ctl, err := newTimely(c, line)
		require.NoError(t, err)
		for range n {
			k.add(timelyPacer{ctl, ctl.Open(0, Route{RTT: rtt, Hops: 1})}, 2*delay, 0)
		}
		r := k.run(t, 20*sim.Millisecond, 60*sim.Millisecond)
		t.Logf("%d flows: used %.3f, round trip %.1f us of %.1f, fairness %.3f", n, r.used[0], r.rtt, rtt.Microseconds(), r.fairIndex)
		require.Greater(t, r.used[0], 0.85)
		require.Greater(t, r.rtt, 1.5*rtt.Microseconds())
		require.Less(t, r.rtt, 500.0)
	}
}

// Whatever it is told, a rate stays between the least and the line.
func TestTimelyBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := DefaultTimely()
		c.Beta, c.HAITimes = rapid.Float64Range(1e-3, 1).Draw(t, "beta"), rapid.IntRange(1, 1000).Draw(t, "times")
		c.RateAI = units.Rate(rapid.Int64Range(1, int64(maxRate)).Draw(t, "ai"))
		ctl, err := newTimely(c, 400*units.Gbps)
		require.NoError(t, err)
		f := ctl.Open(0, Route{RTT: sim.Time(rapid.Int64Range(0, int64(sim.Millisecond)).Draw(t, "rtt"))})
		for range 50 {
			before := ctl.Rate(f, 0)
			rtt := sim.Time(rapid.Int64Range(-1, int64(10*sim.Millisecond)).Draw(t, "delay"))
			ctl.OnAck(f, 0, Ack{RTT: rtt, Acked: rapid.Uint32().Draw(t, "acked"), Next: rapid.Uint32().Draw(t, "next")})
			require.GreaterOrEqual(t, ctl.Rate(f, 0), c.MinRate)
			require.LessOrEqual(t, ctl.Rate(f, 0), 400*units.Gbps)
			if s := ctl.states[f]; s.begun && rtt > 0 && rtt < s.low {
				require.GreaterOrEqual(t, ctl.Rate(f, 0), before, "below T_low nothing falls")
			}
			require.Greater(t, ctl.OnSend(f, 1, 4160), sim.Time(1))
		}
	})
}

func TestTimelyState(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(timelyFlow{}), uintptr(56))
	ctl, err := newTimely(DefaultTimely(), 400*units.Gbps)
	require.NoError(t, err)
	f := ctl.Open(0, Route{RTT: 8 * sim.Microsecond})
	i := uint32(0)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		i++
		ctl.OnAck(f, 0, Ack{RTT: sim.Time(i) * sim.Microsecond, Acked: i, Next: i})
	}))
}

func TestTimelySettings(t *testing.T) {
	for key, change := range map[string]func(c *TimelyConfig){
		"preset":     func(c *TimelyConfig) { c.Preset = "x" },
		"low":        func(c *TimelyConfig) { c.Low = 1 },
		"high":       func(c *TimelyConfig) { c.Low, c.High = 500*sim.Microsecond, 50*sim.Microsecond },
		"min_rtt":    func(c *TimelyConfig) { c.MinRTT = -1 },
		"low_rtts":   func(c *TimelyConfig) { c.LowRTTs = 0.5 },
		"high_rtts":  func(c *TimelyConfig) { c.HighRTTs = 2 },
		"alpha":      func(c *TimelyConfig) { c.Alpha = 0 },
		"beta":       func(c *TimelyConfig) { c.Beta = 1.1 },
		"rate_ai":    func(c *TimelyConfig) { c.RateAI = 0 },
		"scale_from": func(c *TimelyConfig) { c.ScaleFrom = -1 },
		"hai_after":  func(c *TimelyConfig) { c.HAIAfter = 0 },
		"hai_times":  func(c *TimelyConfig) { c.HAITimes = 0 },
		"min_rate":   func(c *TimelyConfig) { c.MinRate = 0 },
	} {
		c := DefaultTimely()
		change(&c)
		var ps config.Problems
		require.ErrorAs(t, c.Validate(), &ps, key)
		require.Len(t, ps, 1, key)
		require.Equal(t, key, ps[0].Key)
		_, err := newTimely(c, 400*units.Gbps)
		require.Error(t, err)
	}
	_, err := newTimely(DefaultTimely(), units.Mbps)
	require.ErrorContains(t, err, "min_rate: 100Mbps is above the line rate, 1Mbps")
}
