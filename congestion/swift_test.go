package congestion

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

type swiftPacer struct {
	s *Swift
	f SwiftFlow
}

func (p *swiftPacer) window() units.Bytes                       { return p.s.Window(&p.f) }
func (p *swiftPacer) send(now sim.Time, n units.Bytes) sim.Time { return p.s.OnSend(&p.f, now, n) }
func (p *swiftPacer) ack(now, rtt sim.Time, n units.Bytes, _ Ack) {
	p.s.OnAck(&p.f, now, Ack{Bytes: n, RTT: rtt})
}

func newSwiftPacer(t *testing.T, c SwiftConfig, line units.Rate, rtt sim.Time) *swiftPacer {
	s, err := NewSwift(c, line, toyPacket)
	require.NoError(t, err)
	p := &swiftPacer{s: s}
	s.Start(&p.f, rtt, 1)
	return p
}

// swiftContest is n flows on a link of 100 Gb/s.
func swiftContest(t *testing.T, c SwiftConfig, n int) (r result, rtt sim.Time) {
	const line, delay = 100 * units.Gbps, 2 * sim.Microsecond
	k := newContest(delay, line)
	rtt = k.rtt(2*delay, 0)
	for range n {
		k.add(newSwiftPacer(t, c, line, rtt), 2*delay, 0)
	}
	return k.run(t, 3*sim.Millisecond, 6*sim.Millisecond), rtt
}

// N flows on one link settle where the delay is the target of their windows: N w
// packets are C times target(w). With many flows the targets differ by flow
// scaling, which is what makes them equal.
func TestSwiftFixedPoint(t *testing.T) {
	const line = 100 * units.Gbps
	for _, n := range []int{2, 8, 32} {
		c := DefaultSwift()
		r, rtt := swiftContest(t, c, n)
		p := newSwiftPacer(t, c, line, rtt)
		low, high := c.MinWindow, 1000.
		for range 60 {
			p.f.cwnd = (low + high) / 2
			if float64(n)*p.f.cwnd*toyPacket < line.BytesPerPicosecond()*p.s.target(&p.f) {
				low = p.f.cwnd
			} else {
				high = p.f.cwnd
			}
		}
		want := p.s.target(&p.f) / float64(sim.Microsecond)
		t.Logf("%d flows: delay %.2f us, fixed point %.2f us (window %.2f), used %.3f, fairness %.3f",
			n, r.rtt, want, low, r.used[0], r.fairIndex)
		require.InDelta(t, want, r.rtt, 0.15*want)
		require.Greater(t, r.used[0], 0.97)
		require.Greater(t, r.fairIndex, 0.95)
	}
}

// With 200 flows a packet each is twice the target already: 200 x 333 ns = 67 us.
// Windows below one, and pacing, keep the delay at the target, 27 us, at the price
// of some of the link: with one packet per 67 us and flow each hears of the queue
// too late. (An increase of a whole packet would be a leap there; it is a tenth.)
func TestSwiftPacesBelowOnePacket(t *testing.T) {
	c := DefaultSwift()
	c.AI, c.InitialWindow = 0.1, 1
	paced, _ := swiftContest(t, c, 200)
	c.MinWindow = 1
	whole, _ := swiftContest(t, c, 200)
	t.Logf("delay %.1f us paced, %.1f us with a packet each; used %.3f and %.3f", paced.rtt, whole.rtt, paced.used[0], whole.used[0])
	require.InDelta(t, 67, whole.rtt, 1)
	require.InDelta(t, 27, paced.rtt, 4)
	require.Greater(t, paced.used[0], 0.7)
	require.Greater(t, paced.fairIndex, 0.9)
}

// The window stays within its bounds whatever comes.
func TestSwiftBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := DefaultSwift()
		c.MaxWindow = rapid.SampledFrom([]float64{0, 1, 50}).Draw(t, "most")
		s, err := NewSwift(c, 400*units.Gbps, 4096)
		require.NoError(t, err)
		var f SwiftFlow
		s.Start(&f, sim.Time(rapid.Int64Range(0, int64(sim.Millisecond)).Draw(t, "rtt")), 3)
		now := sim.Time(0)
		for range 50 {
			now += sim.Time(rapid.Int64Range(0, int64(20*sim.Microsecond)).Draw(t, "dt"))
			before, at := f.cwnd, f.fellAt
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				s.OnLoss(&f, now)
			case 1:
				s.OnTimeout(&f, now)
			default:
				s.OnAck(&f, now, Ack{
					Bytes: units.Bytes(rapid.Int64Range(0, 1<<20).Draw(t, "bytes")),
					RTT:   sim.Time(rapid.Int64Range(0, int64(100*sim.Microsecond)).Draw(t, "delay")),
				})
			}
			require.GreaterOrEqual(t, f.cwnd, c.MinWindow)
			require.LessOrEqual(t, f.cwnd, f.most)
			if f.timeouts < s.resetTimeouts {
				require.GreaterOrEqual(t, f.cwnd, min(before, max(c.MinWindow, before*(1-c.MaxMDF))))
			}
			if f.cwnd < before && f.timeouts < s.resetTimeouts {
				require.Equal(t, now, f.fellAt)
				require.True(t, at == 0 || now-at >= f.rtt)
			}
			require.Greater(t, s.OnSend(&f, now, 4178), now)
		}
	})
}

func TestSwiftState(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(SwiftFlow{}), uintptr(64))
	p := newSwiftPacer(t, DefaultSwift(), 400*units.Gbps, 8*sim.Microsecond)
	now := sim.Time(0)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		now += sim.Microsecond
		p.ack(now, 9*sim.Microsecond, 4096, Ack{})
		p.send(now, 4160)
	}))
}

func BenchmarkSwift(b *testing.B) {
	s, err := NewSwift(DefaultSwift(), 400*units.Gbps, 4096)
	require.NoError(b, err)
	flows := make([]SwiftFlow, 1<<12)
	for i := range flows {
		s.Start(&flows[i], 8*sim.Microsecond, 3)
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		rtt := 8*sim.Microsecond + sim.Time(n%7)*sim.Microsecond
		s.OnAck(&flows[n%(1<<12)], sim.Time(n)*sim.Nanosecond, Ack{Bytes: 4096, RTT: rtt})
	}
	b.ReportMetric(float64(unsafe.Sizeof(SwiftFlow{})), "B/flow")
}
