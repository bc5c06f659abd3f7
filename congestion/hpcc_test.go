package congestion

import (
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

type hpccPacer struct {
	h *HPCC
	f HPCCFlow
}

func (p *hpccPacer) window() units.Bytes                       { return p.h.Window(&p.f) }
func (p *hpccPacer) send(now sim.Time, n units.Bytes) sim.Time { return p.h.OnSend(&p.f, now, n) }
func (p *hpccPacer) ack(_, _ sim.Time, _ units.Bytes, a Ack)   { p.h.OnAck(&p.f, a) }
func newHPCCPacer(t *testing.T, c HPCCConfig, line units.Rate, rtt sim.Time) *hpccPacer {
	h, err := NewHPCC(c, line)
	require.NoError(t, err)
	p := &hpccPacer{h: h}
	h.Start(&p.f, rtt)
	return p
}

// N flows on one link: with W = W eta/U + W_AI for each, and the sum of all W = U
// B T where no queue stands, U = eta + N W_AI/(B T) = eta + N RateAI/B. U is what
// is sent, over B, and at most the mean queue over B T. The flows get equal
// shares and leave the queue with a packet or so.
func TestHPCCFixedPoint(t *testing.T) {
	const line, delay = 400 * units.Gbps, 2 * sim.Microsecond
	for _, n := range []int{1, 2, 8, 16} {
		c := DefaultHPCC()
		c.MaxStage = 0
		k := newContest(delay, line)
		rtt := k.rtt(2*delay, 0)
		for range n {
			k.add(newHPCCPacer(t, c, line, rtt), 2*delay, 0)
		}
		r := k.run(t, sim.Millisecond, 2*sim.Millisecond)
		want := 0.95 + float64(n)*160e6/400e9
		t.Logf("%d flows: utilisation %.4f, fixed point %.4f, queue %.0f B, fairness %.4f", n, r.used[0], want, r.queue[0], r.fairIndex)
		require.Less(t, r.used[0], want+0.003)
		require.Greater(t, r.used[0]+r.queue[0]/line.BytesPerPicosecond()/float64(rtt), want-0.003)
		require.Less(t, r.queue[0], 3.*toyPacket)
		require.Greater(t, r.fairIndex, 0.98)
	}
}

// Four flows of S = 10 MB at 100 Gb/s in packets of 1,000 B with 90 B of headers,
// as HPCC-ns3 has it: the last completes after 4 S (1 + 90/1000)/(eta C) = 3671.6
// us. (HPCC-ns3 itself: 36,709.8 us for ten times as much, where the formula gives
// 36,715.8.) Beginning and end weigh ten times as much here.
func TestHPCCDrain(t *testing.T) {
	const line, delay, packet, n = 100 * units.Gbps, sim.Microsecond, 1090, 4
	var c HPCCConfig
	require.NoError(t, c.SetPreset("hpcc-ns3"))
	k := newContest(delay, line)
	rtt := 4*delay + line.Time(packet)
	for range n {
		k.add(newHPCCPacer(t, c, line, rtt), 3*delay, 0)
	}
	for _, f := range k.flows {
		f.size, f.total = packet, 10_000
		k.loop.at(0, f.pump)
	}
	k.loop.run(t, sim.Second, 1_000_000)
	last := sim.Time(0)
	for _, f := range k.flows {
		require.Equal(t, f.total, f.acked)
		last = max(last, f.done)
	}
	want := n * 10_000 * packet / (0.95 * line.BytesPerPicosecond()) / float64(sim.Microsecond)
	t.Logf("last completion %.1f us, formula %.1f us", last.Microseconds(), want)
	require.InDelta(t, 1, last.Microseconds()/want, 0.005)
}

// Ten flows that begin at once at line rate pile up nine bandwidth-delay products;
// a few round trips later the queue is gone.
func TestHPCCDrainsIncast(t *testing.T) {
	const line, delay = 400 * units.Gbps, 2 * sim.Microsecond
	k := newContest(delay, line)
	rtt := k.rtt(2*delay, 0)
	for range 10 {
		k.add(newHPCCPacer(t, DefaultHPCC(), line, rtt), 2*delay, 0)
	}
	r := k.run(t, 30*rtt, 60*rtt)
	bdp := line.BytesPerPicosecond() * float64(rtt)
	require.Greater(t, float64(k.pipes[0].most), 5*bdp, "there was no incast")
	require.Less(t, r.queue[0], 0.1*bdp)
	require.Greater(t, r.used[0], 0.9)
}

// A flow over two links takes what the narrower one leaves, whichever it is: the
// most of all hops counts. Long crosses both; the other flows fill the second
// link.
func TestHPCCSeesEveryHop(t *testing.T) {
	const delay = 2 * sim.Microsecond
	for _, rates := range [][]units.Rate{{400 * units.Gbps, 100 * units.Gbps}, {100 * units.Gbps, 400 * units.Gbps}} {
		k := newContest(delay, rates...)
		rtt := k.rtt(2*delay, 0, 1)
		for range 4 {
			k.add(newHPCCPacer(t, DefaultHPCC(), 400*units.Gbps, rtt), 2*delay, 0, 1)
		}
		r := k.run(t, sim.Millisecond, 2*sim.Millisecond)
		for l, rate := range rates {
			t.Logf("link of %v: used %.3f, queue %.0f B", rate, r.used[l], r.queue[l])
			if rate == 100*units.Gbps {
				require.InDelta(t, 0.96, r.used[l], 0.03)
			}
			require.Less(t, r.queue[l], 6.*toyPacket)
		}
		require.Greater(t, r.fairIndex, 0.98)
	}
}

// Whatever telemetry says, the window stays between that of the least rate and
// that of the line, and U is a number.
func TestHPCCBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := DefaultHPCC()
		c.MaxStage = rapid.IntRange(0, 5).Draw(t, "stages")
		h, err := NewHPCC(c, 400*units.Gbps)
		require.NoError(t, err)
		var f HPCCFlow
		rtt := sim.Time(rapid.Int64Range(1, int64(sim.Millisecond)).Draw(t, "rtt"))
		h.Start(&f, rtt)
		most := h.bytes(&f, 400*units.Gbps)
		hops := make([]INTHop, rapid.IntRange(0, 6).Draw(t, "hops"))
		for i := range 30 {
			for k := range hops {
				hops[k].At += sim.Time(rapid.Int64Range(-10, int64(10*sim.Microsecond)).Draw(t, "dt"))
				hops[k].Sent += units.Bytes(rapid.Int64Range(-1, 1<<20).Draw(t, "sent"))
				hops[k].Queue = units.Bytes(rapid.Int64Range(0, 1<<30).Draw(t, "queue"))
				hops[k].Rate = units.Rate(rapid.SampledFrom([]int64{0, 1, int64(400 * units.Gbps)}).Draw(t, "rate"))
			}
			h.OnAck(&f, Ack{
				Acked: rapid.Uint32().Draw(t, "acked"), Next: rapid.Uint32().Draw(t, "next"),
				Path: rapid.Uint32Range(0, 1).Draw(t, "path"), Hops: hops,
			})
			require.GreaterOrEqual(t, f.window, h.bytes(&f, c.MinRate))
			require.LessOrEqual(t, f.window, most)
			require.True(t, f.meter.U() >= 0 && !math.IsInf(f.meter.U(), 0))
			require.GreaterOrEqual(t, h.Rate(&f), c.MinRate)
			require.LessOrEqual(t, h.Rate(&f), 400*units.Gbps)
			require.Greater(t, h.OnSend(&f, sim.Time(i), 4160), sim.Time(i))
		}
	})
}

func TestHPCCState(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(INTHop{}), uintptr(32))
	require.LessOrEqual(t, unsafe.Sizeof(HPCCFlow{}), uintptr(216))
	p := newHPCCPacer(t, DefaultHPCC(), 400*units.Gbps, 8*sim.Microsecond)
	hops := make([]INTHop, 3)
	i := uint32(0)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		i++
		for k := range hops {
			hops[k] = INTHop{At: sim.Time(i) * sim.Microsecond, Sent: units.Bytes(i) * 4160, Rate: 400 * units.Gbps}
		}
		p.h.OnAck(&p.f, Ack{Acked: i, Next: i + 30, Hops: hops})
		p.h.OnSend(&p.f, sim.Time(i)*sim.Microsecond, 4160)
	}))
}

func BenchmarkHPCC(b *testing.B) {
	h, err := NewHPCC(DefaultHPCC(), 400*units.Gbps)
	require.NoError(b, err)
	flows := make([]HPCCFlow, 1<<12)
	for i := range flows {
		h.Start(&flows[i], 8*sim.Microsecond)
	}
	hops := make([]INTHop, 3)
	b.ReportAllocs()
	n := uint32(0)
	for b.Loop() {
		n++
		for k := range hops {
			hops[k] = INTHop{At: sim.Time(n) * sim.Nanosecond, Sent: units.Bytes(n) * 40, Rate: 400 * units.Gbps}
		}
		h.OnAck(&flows[n%(1<<12)], Ack{Acked: n, Next: n + 100, Hops: hops})
	}
	b.ReportMetric(float64(unsafe.Sizeof(HPCCFlow{})), "B/flow")
}
