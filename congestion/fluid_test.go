package congestion

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// A fluidModel is the model of DCQCN by Zhu et al. (CoNEXT 2016): N equal flows
// share a link of c packets/s whose queue marks with probability p. At the fixed
// point every flow runs at c/N and
//
//	a^2 alpha = tau^2 R_AI R (b+d) (c+e)
//
// with R = c/N, a the probability of a CNP in tau, alpha its mean, and b, d the
// rates of byte counter and timer events, c, e those of the additive ones.
type fluidModel struct {
	rate        float64 // packets/s of the link
	n           float64
	ai          float64 // packets/s
	tau, tauA   float64 // s: period of cuts, of alpha
	timer       float64 // s
	byteCounter float64 // packets; 0 is none
	fast        float64
	kmin, kmax  float64 // bytes
	pmax        float64
}

// excess is the left side less the right side.
func (m fluidModel) excess(p float64) float64 {
	r := m.rate / m.n
	quiet := func(packets float64) float64 { return math.Pow(1-p, packets) }
	a, alpha := 1-quiet(m.tau*r), 1-quiet(m.tauA*r)
	var b, c float64
	if m.byteCounter > 0 {
		b = p / (1/quiet(m.byteCounter) - 1)
		c = b * quiet(m.fast*m.byteCounter)
	}
	d := p / (1/quiet(m.timer*r) - 1)
	e := d * quiet(m.fast*m.timer*r)
	return a*a*alpha - m.tau*m.tau*m.ai*r*(b+d)*(c+e)
}

// solve finds the fixed point by bisection: more marks, more cuts and fewer
// increases. It returns the marking probability and the queue, which stays at
// Kmax when no probability up to Pmax is enough.
func (m fluidModel) solve() (p, q float64) {
	low, high := 1e-9, m.pmax
	if m.excess(high) < 0 {
		return high, m.kmax
	}
	for range 200 {
		if p = (low + high) / 2; m.excess(p) < 0 {
			low = p
		} else {
			high = p
		}
	}
	return p, m.kmin + p*(m.kmax-m.kmin)/m.pmax
}

// TestFluidPaper solves the model with the paper's constants: 40 Gb/s, packets
// of 1,000 B, Kmin 5 KB, Kmax 200 KB, Pmax 1 %.
func TestFluidPaper(t *testing.T) {
	c := paperPreset()
	for _, want := range []struct{ n, p, q float64 }{
		{2, 0.00078, 20.2}, {4, 0.00189, 41.8}, {8, 0.00455, 93.8}, {10, 0.00603, 122.6},
	} {
		p, q := fluidOf(c, 40*units.Gbps, 1000, ECNThresholds{Kmin: 5 * units.KB, Kmax: 200 * units.KB, Pmax: 0.01}, want.n, 50*sim.Microsecond).solve()
		require.InDelta(t, want.p, p, 0.000006)
		require.InDelta(t, want.q, q/1000, 0.06)
	}
	_, q := fluidOf(c, 40*units.Gbps, 1000, ECNThresholds{Kmin: 5 * units.KB, Kmax: 200 * units.KB, Pmax: 0.01}, 16, 50*sim.Microsecond).solve()
	require.Equal(t, 200e3, q, "16 flows need more than Pmax")
}

// fluidOf is the model of a configuration.
func fluidOf(c DCQCNConfig, line units.Rate, packet units.Bytes, k ECNThresholds, n float64, tau sim.Time) fluidModel {
	return fluidModel{
		rate: line.BytesPerSecond() / float64(packet), n: n,
		ai:  c.RateAI.BytesPerSecond() / float64(packet),
		tau: tau.Seconds(), tauA: c.AlphaTimer.Seconds(), timer: c.IncreaseTimer.Seconds(),
		byteCounter: float64(c.ByteCounter) / float64(packet), fast: float64(c.FastRecovery),
		kmin: float64(k.Kmin), kmax: float64(k.Kmax), pmax: k.Pmax,
	}
}

// A dumbbell is n senders, one queue of the line rate that marks at dequeue, and
// the way back: the closed loop around the reaction points, with nothing else.
type dumbbell struct {
	d      *DCQCN
	marker Marker
	packet units.Bytes
	delay  sim.Time // from dequeue to the sender's hearing of a mark
	rng    *rand.Rand

	rps     []RP
	nps     []NP
	sendAt  []sim.Time
	sent    []units.Bytes
	waiting []int // flows of the queued packets
	free    sim.Time
	cnps    []cnp // in order of their time: the delay is constant

	queue, maxQueue units.Bytes
	since           sim.Time
	area            float64 // of the queue over time
}

type cnp struct {
	at   sim.Time
	flow int
}

func newDumbbell(d *DCQCN, n int, k ECNThresholds, packet units.Bytes, delay sim.Time, seed uint64) *dumbbell {
	b := &dumbbell{
		d: d, marker: k.Marker(), packet: packet, delay: delay, rng: rand.New(rand.NewPCG(seed, 0)),
		rps: make([]RP, n), nps: make([]NP, n), sendAt: make([]sim.Time, n), sent: make([]units.Bytes, n),
	}
	for i := range b.rps {
		b.sendAt[i] = sim.Time(b.rng.Int64N(int64(20 * sim.Microsecond)))
		d.Start(&b.rps[i], b.sendAt[i])
	}
	return b
}

// hold adds up the queue's length until t.
func (b *dumbbell) hold(t sim.Time) {
	b.area += float64(b.queue) * float64(t-b.since)
	b.since = t
	b.maxQueue = max(b.maxQueue, b.queue)
}

// run goes on until t.
func (b *dumbbell) run(t sim.Time) {
	for {
		next, who := t, -1
		for i, at := range b.sendAt {
			if at < next {
				next, who = at, i
			}
		}
		if len(b.cnps) > 0 && b.cnps[0].at < next {
			next, who = b.cnps[0].at, len(b.sendAt)
		}
		if len(b.waiting) > 0 && b.free < next {
			b.dequeue()
			continue
		}
		switch {
		case who < 0:
			b.hold(t)
			return
		case who < len(b.sendAt):
			b.hold(next)
			b.queue += b.packet
			b.waiting = append(b.waiting, who)
			b.free = max(b.free, next)
			b.sent[who] += b.packet
			b.sendAt[who] = b.d.OnSend(&b.rps[who], next, b.packet)
		default:
			b.d.OnCNP(&b.rps[b.cnps[0].flow], next)
			b.cnps = b.cnps[1:]
		}
	}
}

// dequeue begins the transmission of the first packet at b.free.
func (b *dumbbell) dequeue() {
	b.hold(b.free)
	flow := b.waiting[0]
	b.waiting = b.waiting[1:]
	b.queue -= b.packet
	if b.marker.Mark(b.queue, b.rng.Uint32()) {
		if b.d.byACK {
			b.cnps = append(b.cnps, cnp{b.free + b.delay, flow})
		} else if at := b.d.OnMarked(&b.nps[flow], b.free); at != sim.Never {
			b.cnps = append(b.cnps, cnp{at + b.delay, flow})
		}
	}
	b.free += b.d.LineRate().Time(b.packet)
}

// measure runs the loop until warm, then until end, and returns the mean queue and
// the part of the link that was used.
func (b *dumbbell) measure(warm, end sim.Time) (queue, used float64) {
	b.run(warm)
	b.area, b.maxQueue = 0, 0
	clear(b.sent)
	b.run(end)
	var total units.Bytes
	for _, s := range b.sent {
		total += s
	}
	return b.area / float64(end-warm), float64(total) / (b.d.LineRate().BytesPerSecond() * (end - warm).Seconds())
}

// jain is Jain's fairness index (1984): 1 when all are equal, 1/n when one has
// everything.
func jain(x []units.Bytes) float64 {
	var sum, squares float64
	for _, v := range x {
		sum += float64(v)
		squares += float64(v) * float64(v)
	}
	return sum * sum / (float64(len(x)) * squares)
}

// TestFixedPoint runs the closed loop with the constants that were checked
// against HPCC-ns3: 100 Gb/s, packets of 1,000 B and 48 B of headers, no byte
// counter, R_T clamped at every cut as in the model, Kmin 5 KB, Kmax 400 KB, Pmax
// 5 %. The mean queue must be that of the fluid model within 25 % and that of
// HPCC-ns3's packets within 10 %.
func TestFixedPoint(t *testing.T) {
	c := hpccNS3DCQCN()
	c.Preset = "hpcc-ns3"
	c.AlphaTimer, c.DecreaseInterval, c.IncreaseTimer = 50*sim.Microsecond, 50*sim.Microsecond, 55*sim.Microsecond
	c.FastRecovery, c.ClampTargetRate = 5, true
	c.RateAI, c.RateHAI, c.ScaleFrom = 200*units.Mbps, 200*units.Mbps, 0
	k := ECNThresholds{Kmin: 5 * units.KB, Kmax: 400 * units.KB, Pmax: 0.05}
	const line, packet = 100 * units.Gbps, 1048
	d, err := NewDCQCN(c, line)
	require.NoError(t, err)
	for _, tc := range []struct {
		n, seeds   int
		fluid, ns3 float64 // KB
	}{
		{2, 3, 8, 6}, {8, 1, 24, 24}, {16, 1, 49, 57}, {32, 1, 108, 127},
	} {
		if testing.Short() && tc.n != 8 {
			continue
		}
		_, q := fluidOf(c, line, packet, k, float64(tc.n), c.DecreaseInterval).solve()
		require.InDelta(t, tc.fluid, q/1000, 0.5, "the model itself")
		mean := 0.
		for seed := range tc.seeds {
			b := newDumbbell(d, tc.n, k, packet, 3*sim.Microsecond, uint64(seed))
			queue, used := b.measure(100*sim.Millisecond, 200*sim.Millisecond)
			mean += queue / 1000 / float64(tc.seeds)
			require.Greater(t, jain(b.sent), 0.99, "N=%d", tc.n)
			require.Greater(t, used, 0.93, "N=%d", tc.n)
		}
		t.Logf("N=%d: mean queue %.1f KB, fluid %.1f KB, HPCC-ns3 %.0f KB", tc.n, mean, q/1000, tc.ns3)
		require.InDelta(t, 1, mean/(q/1000), 0.25, "N=%d", tc.n)
		require.InDelta(t, 1, mean/tc.ns3, 0.10, "N=%d", tc.n)
	}
}

// TestFixedPointOfPaper does the same with the paper's reaction and notification
// point: CNPs every 50 us, the byte counter on, at 40 Gb/s.
func TestFixedPointOfPaper(t *testing.T) {
	c := paperPreset()
	k := ECNThresholds{Kmin: 5 * units.KB, Kmax: 200 * units.KB, Pmax: 0.01}
	const line, packet = 40 * units.Gbps, 1000
	d, err := NewDCQCN(c, line)
	require.NoError(t, err)
	for _, n := range []int{2, 4, 8} {
		if testing.Short() && n != 4 {
			continue
		}
		_, q := fluidOf(c, line, packet, k, float64(n), c.CNPInterval).solve()
		b := newDumbbell(d, n, k, packet, 3*sim.Microsecond, uint64(n))
		mean, _ := b.measure(200*sim.Millisecond, 500*sim.Millisecond)
		t.Logf("N=%d: mean queue %.1f KB, fluid %.1f KB; JFI %.4f", n, mean/1000, q/1000, jain(b.sent))
		require.InDelta(t, 1, mean/q, 0.25, "N=%d", n)
		require.Greater(t, jain(b.sent), 0.99, "N=%d", n)
	}
}

// TestPresetsConverge lets eight flows share a link under every preset: the link
// is used, the shares are equal, the queue stays between empty and Kmax.
func TestPresetsConverge(t *testing.T) {
	const line = 100 * units.Gbps
	for _, name := range DCQCNPresets() {
		var c DCQCNConfig
		require.NoError(t, c.SetPreset(name))
		ecn := DefaultECN()
		if name == "paper" {
			require.NoError(t, ecn.SetPreset("paper"))
		}
		d, err := NewDCQCN(c, line)
		require.NoError(t, err)
		k := ecn.At(line)
		b := newDumbbell(d, 8, k, 4178, 5*sim.Microsecond, 1)
		mean, used := b.measure(100*sim.Millisecond, 200*sim.Millisecond)
		t.Logf("%s: mean queue %.0f KB, largest %v, Kmin %v, Kmax %v; link used %.1f %%, JFI %.4f",
			name, mean/1000, b.maxQueue, k.Kmin, k.Kmax, 100*used, jain(b.sent))
		require.Greater(t, used, 0.95, name)
		require.Greater(t, jain(b.sent), 0.99, name)
		require.Less(t, mean, float64(k.Kmax), name)
	}
}

// TestPresetsRecover measures what the presets make of 100 us of marks on every
// packet of a flow at 400 Gb/s: how far the rate falls, and how long after the
// last mark it is back at half and at nine tenths of the line.
func TestPresetsRecover(t *testing.T) {
	const line, packet, congested = 400 * units.Gbps, 4178, 100 * sim.Microsecond
	low, back := map[string]units.Rate{}, map[string]sim.Time{}
	for _, name := range DCQCNPresets() {
		var c DCQCNConfig
		require.NoError(t, c.SetPreset(name))
		d, err := NewDCQCN(c, line)
		require.NoError(t, err)
		var f RP
		var np NP
		d.Start(&f, 0)
		now, due, half, least := sim.Time(0), sim.Never, sim.Time(0), line // due is a CNP's time
		for now <= congested || d.Rate(&f, now) < 9*line/10 {
			next := d.OnSend(&f, now, packet)
			if now <= congested {
				d.OnAck(&f, now, Ack{Marked: true})
				due = min(due, d.OnMarked(&np, now))
			}
			if due <= next {
				d.OnCNP(&f, due)
				due = sim.Never
			}
			now = next
			least = min(least, d.Rate(&f, now))
			if half == 0 && now > congested && d.Rate(&f, now) >= line/2 {
				half = now - congested
			}
		}
		low[name], back[name] = least, now-congested
		t.Logf("%s: down to %.2f Gb/s, half the line after %.1f ms, nine tenths after %.1f ms", name,
			float64(least)/1e9, half.Milliseconds(), back[name].Milliseconds())
	}
	require.Greater(t, low["paper"], 10*low["alibaba"], "cuts every 50 us against every 4 us")
	require.GreaterOrEqual(t, low["nvidia"], low["alibaba"], "the byte counter raises the rate between cuts")
	// But then the next cut clamps the target, which is the line rate otherwise.
	require.Greater(t, back["nvidia"], 2*back["alibaba"])
	require.InDelta(t, back["hpcc-ns3"].Microseconds(), back["alibaba"].Microseconds(), 100)
}
