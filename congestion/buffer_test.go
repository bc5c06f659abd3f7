package congestion

import (
	"container/heap"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/internal/config"
	_ "github.com/tgssim/tgssim/internal/testkit" // the same draws in every run
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// anyBuffer draws a small buffer of a few ports, so that its limits are met.
func anyBuffer(t *rapid.T) (BufferConfig, *Buffer, int) {
	kb := func(name string, from, to int) units.Bytes {
		return units.Bytes(rapid.IntRange(from, to).Draw(t, name)) * units.KB
	}
	c := BufferConfig{
		Preset:           "derived",
		Size:             kb("size", 300, 600),
		Lossless:         rapid.SampledFrom([][]int{{3}, {3, 4}, nil}).Draw(t, "lossless"),
		Guaranteed:       kb("guaranteed", 0, 5),
		Alpha:            rapid.SampledFrom([]float64{1. / 16, 1. / 8, 1, 4}).Draw(t, "alpha"),
		StaticThreshold:  rapid.SampledFrom([]units.Bytes{0, 0, 20 * units.KB}).Draw(t, "static"),
		ResumeOffset:     kb("offset", 0, 5),
		EgressAlpha:      rapid.SampledFrom([]float64{0.5, 1, 4}).Draw(t, "egress alpha"),
		EgressGuaranteed: kb("egress guaranteed", 0, 5),
		Headroom:         HeadroomConfig{Bytes: kb("headroom", 0, 20), Pool: kb("pool", 0, 60)},
	}
	ports := rapid.IntRange(1, 4).Draw(t, "ports")
	b, err := NewBuffer(c, 100*units.Gbps, 4178, samePorts(ports, Port{100 * units.Gbps, sim.Microsecond}))
	require.NoError(t, err)
	return c, b, ports
}

func samePorts(n int, p Port) []Port {
	ports := make([]Port, n)
	for i := range ports {
		ports[i] = p
	}
	return ports
}

// A stay is a packet in a buffer.
type stay struct {
	in, out, prio int
	n             units.Bytes
}

// A ledger is the second implementation of a buffer: it keeps the kinds of
// memory of every group apart and computes each sum when it needs it.
type ledger struct {
	c                            BufferConfig
	ports                        int
	guaranteed, shared, headroom map[[2]int]float64 // by port and priority
	queued                       map[[2]int]float64
	paused                       map[[2]int]bool
}

func newLedger(c BufferConfig, ports int) *ledger {
	return &ledger{c, ports, map[[2]int]float64{}, map[[2]int]float64{}, map[[2]int]float64{}, map[[2]int]float64{}, map[[2]int]bool{}}
}

func sum(m map[[2]int]float64) (s float64) {
	for _, v := range m {
		s += v
	}
	return s
}

func (l *ledger) lossless(prio int) bool {
	for _, p := range l.c.Lossless {
		if p == prio {
			return true
		}
	}
	return false
}

func (l *ledger) headroomPool() float64 {
	all := float64(l.ports*len(l.c.Lossless)) * float64(l.c.Headroom.Bytes)
	if l.c.Headroom.Pool > 0 {
		return min(all, float64(l.c.Headroom.Pool))
	}
	return all
}

func (l *ledger) pool() float64 {
	return float64(l.c.Size) - l.headroomPool() - float64(l.ports*len(l.c.Lossless))*float64(l.c.Guaranteed)
}

func (l *ledger) free() float64 { return l.pool() - sum(l.shared) }

func (l *ledger) threshold() float64 {
	if l.c.StaticThreshold > 0 {
		return float64(l.c.StaticThreshold)
	}
	return l.c.Alpha * l.free()
}

func (l *ledger) admit(s stay) Verdict {
	in, out, n := [2]int{s.in, s.prio}, [2]int{s.out, s.prio}, float64(s.n)
	if !l.lossless(s.prio) {
		switch {
		case n > l.free():
			return Verdict{Drop: DropPool}
		case l.queued[out]+n > max(l.c.EgressAlpha*l.free(), float64(l.c.EgressGuaranteed)):
			return Verdict{Drop: DropQueue}
		}
		l.shared[in] += n
		l.queued[out] += n
		return Verdict{}
	}
	toGuaranteed := min(n, float64(l.c.Guaranteed)-l.guaranteed[in])
	toShared := n - toGuaranteed
	switch {
	case toShared == 0, l.shared[in]+toShared <= l.threshold() && toShared <= l.free():
		l.guaranteed[in] += toGuaranteed
		l.shared[in] += toShared
	case l.headroom[in]+n <= float64(l.c.Headroom.Bytes) && sum(l.headroom)+n <= l.headroomPool():
		l.headroom[in] += n
	default:
		pause := !l.paused[in] && l.shared[in]+l.guaranteed[in] > 0
		l.paused[in] = l.paused[in] || pause
		return Verdict{Drop: DropHeadroom, Pause: pause}
	}
	l.queued[out] += n
	if !l.paused[in] && (l.headroom[in] > 0 || l.shared[in] > l.threshold()) {
		l.paused[in] = true
		return Verdict{Pause: true}
	}
	return Verdict{}
}

func (l *ledger) release(s stay) bool {
	in, out, n := [2]int{s.in, s.prio}, [2]int{s.out, s.prio}, float64(s.n)
	l.queued[out] -= n
	for _, kind := range []map[[2]int]float64{l.headroom, l.shared, l.guaranteed} {
		part := min(n, kind[in])
		kind[in] -= part
		n -= part
	}
	if l.paused[in] && l.headroom[in] == 0 && (l.shared[in] == 0 || l.shared[in]+float64(l.c.ResumeOffset) <= l.threshold()) {
		l.paused[in] = false
		return true
	}
	return false
}

// TestBufferAgainstLedger: the same verdicts, the same accounts, and everything
// is given back at the end. (The alphas drawn are powers of two: floor and exact
// thresholds differ by less than a byte, and packets are whole bytes.)
func TestBufferAgainstLedger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, b, ports := anyBuffer(t)
		l := newLedger(c, ports)
		var held []stay
		port := rapid.IntRange(0, ports-1)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			if len(held) > 0 && rapid.IntRange(0, 2).Draw(t, "leave") == 0 {
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				s := held[i]
				held = append(held[:i], held[i+1:]...)
				require.Equal(t, l.release(s), b.Release(s.in, s.out, s.prio, s.n))
			} else {
				s := stay{port.Draw(t, "in"), port.Draw(t, "out"), rapid.IntRange(2, 4).Draw(t, "prio"), units.Bytes(rapid.IntRange(1, 9000).Draw(t, "n"))}
				v := b.Admit(s.in, s.out, s.prio, s.n)
				require.Equal(t, l.admit(s), v, "%v", s)
				if v.Drop == NoDrop {
					held = append(held, s)
				}
			}
			b.check()
			u := b.Use()
			require.Equal(t, l.pool(), float64(u.SharedPool))
			require.Equal(t, l.headroomPool(), float64(u.HeadroomPool))
			require.Equal(t, sum(l.shared), float64(u.Shared))
			require.Equal(t, sum(l.headroom), float64(u.Headroom))
			require.Equal(t, sum(l.queued), float64(u.Total))
			require.LessOrEqual(t, u.Shared, u.SharedPool)
			require.LessOrEqual(t, u.Headroom, u.HeadroomPool)
		}
		for _, s := range held {
			require.Equal(t, l.release(s), b.Release(s.in, s.out, s.prio, s.n))
		}
		u := b.Use()
		require.Zero(t, u.Total)
		require.Zero(t, u.Shared)
		require.Zero(t, u.Headroom)
		for i := range b.groups {
			require.Equal(t, group{}, b.groups[i], "an empty group is not paused")
		}
	})
}

// FuzzBuffer turns bytes into arrivals and departures.
func FuzzBuffer(f *testing.F) {
	f.Add([]byte{0x00, 0xff, 0x13, 0x80, 0x47, 0x01})
	f.Add([]byte("the quick brown fox jumps over the lazy dog"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := tomahawk5Buffer()
		c.Preset, c.Size = "sonic-tomahawk5", 60*units.KB
		c.Guaranteed, c.Headroom = 1000, HeadroomConfig{Bytes: 5000, Pool: 15_000}
		b, err := NewBuffer(c, 100*units.Gbps, 4178, samePorts(4, Port{100 * units.Gbps, 0}))
		require.NoError(t, err)
		var held []stay
		for i := 0; i+2 < len(data); i += 3 {
			x := data[i]
			if x&1 == 0 && len(held) > 0 {
				k := int(data[i+1]) % len(held)
				s := held[k]
				held = append(held[:k], held[k+1:]...)
				was := b.Paused(s.in, s.prio)
				resumed := b.Release(s.in, s.out, s.prio, s.n)
				require.Equal(t, resumed, was && !b.Paused(s.in, s.prio))
			} else {
				s := stay{int(x >> 1 & 3), int(x >> 3 & 3), int(x >> 5), units.Bytes(data[i+1])*16 + units.Bytes(data[i+2])}
				was := b.Paused(s.in, s.prio)
				v := b.Admit(s.in, s.out, s.prio, s.n)
				require.Equal(t, v.Pause, !was && b.Paused(s.in, s.prio))
				if v.Drop == NoDrop {
					held = append(held, s)
				}
			}
			b.check()
		}
		for _, s := range held {
			b.Release(s.in, s.out, s.prio, s.n)
		}
		require.Zero(t, b.Use().Total)
		for i := range b.groups {
			require.False(t, b.groups[i].paused)
		}
	})
}

// TestHeadroomWorstCase: a peer that sends at line rate towards a switch that
// lets nothing out. With Headroom no packet is lost, whatever the sizes of the
// frames, the wait for the PFC frame and the phase; the worst case uses all but
// a frame and a half of it, and two frames less lose packets.
func TestHeadroomWorstCase(t *testing.T) {
	const rate, frame = 100 * units.Gbps, 4178
	const delay, response = 700 * sim.Nanosecond, 450 * sim.Nanosecond
	need := Headroom(rate, delay, response, frame)
	// flood returns the headroom that was used at the most and whether a packet
	// was lost. wait is for how long the PFC frame waits.
	flood := func(headroom, threshold units.Bytes, wait sim.Time, size func() units.Bytes) (most units.Bytes, lost bool) {
		c := BufferConfig{Preset: "derived", Size: 10 * units.MB, Lossless: []int{3}, Alpha: 1, EgressAlpha: 1,
			StaticThreshold: threshold, Headroom: HeadroomConfig{Bytes: headroom}}
		b, err := NewBuffer(c, rate, frame, samePorts(1, Port{rate, delay}))
		require.NoError(t, err)
		stop, now := sim.Never, sim.Time(0) // at the peer
		for now < stop {
			n := size()
			now += rate.Time(n) // its last bit has left, and arrives a delay later
			v := b.Admit(0, 0, 3, n)
			lost = lost || v.Drop != NoDrop
			if v.Pause {
				stop = now + delay + wait + rate.Time(pauseFrame) + delay + response
			}
		}
		_, most = b.GroupUse(0, 3)
		return most, lost
	}
	full := func() units.Bytes { return frame }
	var worst units.Bytes
	for phase := units.Bytes(0); phase < frame; phase += 13 {
		most, lost := flood(need, 50_000+phase, rate.Time(frame), full)
		require.False(t, lost)
		worst = max(worst, most)
	}
	t.Logf("Headroom %v, used %v", need, worst)
	require.Greater(t, worst, need-frame-frame/2)
	_, lost := flood(need-2*frame, 50_000, rate.Time(frame), full)
	require.True(t, lost, "two frames less are not enough")

	rapid.Check(t, func(t *rapid.T) {
		small := rapid.IntRange(64, frame)
		wait := rapid.Int64Range(0, int64(rate.Time(frame))).Draw(t, "wait")
		_, lost := flood(need, units.Bytes(rapid.IntRange(1000, 100_000).Draw(t, "threshold")), sim.Time(wait), func() units.Bytes {
			if rapid.Bool().Draw(t, "full") {
				return frame
			}
			return units.Bytes(small.Draw(t, "size"))
		})
		require.False(t, lost)
	})
}

// A switchSim is a switch whose ports' peers send without end, to each other
// through it, on two lossless priorities. PFC frames wait, travel and expire.
type switchSim struct {
	b          *Buffer
	rng        *rand.Rand
	port       Port
	frame      units.Bytes
	response   sim.Time
	quanta     uint16
	refresh    bool
	peers      []PauseState
	pfcArrives []sim.Time // of the latest PFC frame to each peer
	queues     [][]stay   // by egress port
	busy       []bool
	events     simEvents
	seq        int
	stopped    bool

	lost, pauses, forwarded int
}

type simEvent struct {
	at   sim.Time
	seq  int
	what func(now sim.Time)
}

type simEvents []simEvent

func (h simEvents) Len() int { return len(h) }
func (h simEvents) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h simEvents) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *simEvents) Push(x any)   { *h = append(*h, x.(simEvent)) }
func (h *simEvents) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

func (s *switchSim) at(t sim.Time, what func(sim.Time)) {
	s.seq++
	heap.Push(&s.events, simEvent{t, s.seq, what})
}

func (s *switchSim) run(until sim.Time) {
	for len(s.events) > 0 && s.events[0].at <= until {
		e := heap.Pop(&s.events).(simEvent)
		e.what(e.at)
	}
}

// send lets peer i begin a frame of a priority that is not paused, or wait for
// the end of a pause.
func (s *switchSim) send(i int, now sim.Time) {
	if s.stopped {
		return
	}
	prio := 3 + s.rng.IntN(2)
	if s.peers[i].Paused(prio, now) {
		prio = 7 - prio
	}
	if s.peers[i].Paused(prio, now) {
		s.at(now+100*sim.Nanosecond, func(now sim.Time) { s.send(i, now) })
		return
	}
	n := s.frame
	if s.rng.IntN(3) == 0 {
		n = 64 + units.Bytes(s.rng.Int64N(int64(s.frame-63)))
	}
	// Half of all traffic wants port 0.
	st := stay{i, s.rng.IntN(len(s.peers)) * s.rng.IntN(2), prio, n}
	end := now + s.port.Rate.Time(n)
	s.at(end+s.port.Delay, func(now sim.Time) { s.arrive(st, now) })
	s.at(end, func(now sim.Time) { s.send(i, now) })
}

func (s *switchSim) arrive(st stay, now sim.Time) {
	v := s.b.Admit(st.in, st.out, st.prio, st.n)
	if v.Pause {
		s.pauses++
		s.pfc(st.in, st.prio, s.quanta, now)
		if s.refresh {
			s.at(now+RefreshAfter(s.quanta, s.port.Rate, s.frame), func(now sim.Time) { s.again(st.in, st.prio, now) })
		}
	}
	if v.Drop != NoDrop {
		s.lost++
		return
	}
	s.queues[st.out] = append(s.queues[st.out], st)
	s.serve(st.out, now)
}

// again refreshes a pause that still holds.
func (s *switchSim) again(in, prio int, now sim.Time) {
	if s.b.Paused(in, prio) {
		s.pfc(in, prio, s.quanta, now)
		s.at(now+RefreshAfter(s.quanta, s.port.Rate, s.frame), func(now sim.Time) { s.again(in, prio, now) })
	}
}

// pfc sends a PFC frame after a wait of up to a frame, behind the one before it.
func (s *switchSim) pfc(in, prio int, quanta uint16, now sim.Time) {
	wait := sim.Time(s.rng.Int64N(int64(s.port.Rate.Time(s.frame)) + 1))
	at := now + wait + s.port.Rate.Time(pauseFrame) + s.port.Delay + s.response
	at = max(at, s.pfcArrives[in])
	s.pfcArrives[in] = at
	s.at(at, func(now sim.Time) { s.peers[in].Pause(prio, now, quanta, s.port.Rate) })
}

func (s *switchSim) serve(out int, now sim.Time) {
	if s.busy[out] || len(s.queues[out]) == 0 {
		return
	}
	s.busy[out] = true
	st := s.queues[out][0]
	s.queues[out] = s.queues[out][1:]
	s.at(now+s.port.Rate.Time(st.n), func(now sim.Time) {
		s.forwarded++
		if s.b.Release(st.in, st.out, st.prio, st.n) {
			s.pfc(st.in, st.prio, 0, now)
		}
		s.busy[out] = false
		s.serve(out, now)
	})
}

func newSwitchSim(t *testing.T, headroom HeadroomConfig, quanta uint16, refresh bool, seed uint64) *switchSim {
	const ports = 6
	s := &switchSim{
		rng: rand.New(rand.NewPCG(seed, 1)), port: Port{100 * units.Gbps, 500 * sim.Nanosecond}, frame: 4178,
		response: 300 * sim.Nanosecond, quanta: quanta, refresh: refresh,
		peers: make([]PauseState, ports), pfcArrives: make([]sim.Time, ports), queues: make([][]stay, ports), busy: make([]bool, ports),
	}
	c := BufferConfig{Preset: "derived", Size: 800 * units.KB, Lossless: []int{3, 4}, Guaranteed: 2000, Alpha: 1. / 4,
		ResumeOffset: 4 * units.KB, EgressAlpha: 1, Headroom: headroom}
	var err error
	s.b, err = NewBuffer(c, s.port.Rate, s.frame, samePorts(ports, s.port))
	require.NoError(t, err)
	for i := range s.peers {
		s.at(sim.Time(s.rng.Int64N(int64(sim.Microsecond))), func(now sim.Time) { s.send(i, now) })
	}
	return s
}

// TestLossless: with Headroom, no admission fails in a congested switch, with
// pauses that are refreshed before they expire; what goes in comes out. Without
// refreshes, or with too little headroom, packets are lost.
func TestLossless(t *testing.T) {
	const rate, delay, response, frame = 100 * units.Gbps, 500 * sim.Nanosecond, 300 * sim.Nanosecond, 4178
	enough := HeadroomConfig{Bytes: Headroom(rate, delay, response, frame)}
	lostElse := 0
	seeds := uint64(4)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		s := newSwitchSim(t, enough, 1000, true, seed)
		s.run(2 * sim.Millisecond)
		require.Zero(t, s.lost, "seed %d", seed)
		require.Greater(t, s.pauses, 100, "the test must meet congestion")
		require.Greater(t, s.forwarded, 10_000)
		s.b.check()
		s.stopped = true
		s.run(sim.Second)
		require.Zero(t, s.b.Use().Total, "all that went in came out")
		for i := range s.b.groups {
			require.False(t, s.b.groups[i].paused)
		}

		expiring := newSwitchSim(t, enough, 1000, false, seed)
		expiring.run(2 * sim.Millisecond)
		short := newSwitchSim(t, HeadroomConfig{Bytes: enough.Bytes - 3*frame}, 1000, true, seed)
		short.run(2 * sim.Millisecond)
		t.Logf("seed %d: %d pauses, %d packets; lost without refreshes %d, with 3 frames less headroom %d", seed, s.pauses, s.forwarded, expiring.lost, short.lost)
		require.NotZero(t, expiring.lost)
		lostElse += short.lost
	}
	require.NotZero(t, lostElse)
}

func TestNewBufferRefuses(t *testing.T) {
	nic, ports := 400*units.Gbps, samePorts(64, Port{400 * units.Gbps, sim.Microsecond})
	c := DefaultBuffer()
	_, err := NewBuffer(c, nic, 4178, ports)
	require.NoError(t, err)
	c.Size = 20 * units.MB
	_, err = NewBuffer(c, nic, 4178, ports)
	var ps config.Problems
	require.ErrorAs(t, err, &ps)
	require.Equal(t, "size", ps[0].Key)
	require.Contains(t, ps[0].Message, "64 ports need 29423360B of headroom and")
	_, err = NewBuffer(DefaultBuffer(), 0, 4178, ports)
	require.ErrorContains(t, err, "line rate")
	ports[5].Rate = 0
	_, err = NewBuffer(DefaultBuffer(), nic, 4178, ports)
	require.ErrorContains(t, err, "port 5")
	ports[5] = Port{nic, -1}
	_, err = NewBuffer(DefaultBuffer(), nic, 4178, ports)
	require.ErrorContains(t, err, "port 5")
}

// TestBufferPresets checks the figures of the presets where their sources give
// them.
func TestBufferPresets(t *testing.T) {
	build := func(name string, nic units.Rate, ports ...Port) *Buffer {
		var c BufferConfig
		require.NoError(t, c.SetPreset(name))
		b, err := NewBuffer(c, nic, 1048, ports)
		require.NoError(t, err)
		return b
	}
	port := Port{400 * units.Gbps, sim.Microsecond}
	// HPCC-ns3: 128 MiB at 400 Gb/s; headroom 150 KB and 4 KiB per port set aside;
	// alpha 1/8 at the NICs' rate, doubling with the port's, up to 1.
	b := build("hpcc-ns3", 400*units.Gbps, port, port, Port{800 * units.Gbps, 0}, Port{8000 * units.Gbps, 0}, Port{200 * units.Gbps, 0})
	pool := 128*units.MiB - 2*150*units.KB - 5*4*units.KiB
	require.Equal(t, pool, b.Use().SharedPool)
	require.Equal(t, pool/8, b.Threshold(0))
	require.Equal(t, pool/4, b.Threshold(2))
	require.Equal(t, pool, b.Threshold(3))
	require.Equal(t, pool/8, b.Threshold(4))
	require.Equal(t, pool/9, b.PauseAlone(0))
	// Tomahawk 5: alpha 1, so that a group alone gets half of what is shared; the
	// marking of the HPCC repository's rule ends far below.
	ports := samePorts(128, port)
	b = build("sonic-tomahawk5", 400*units.Gbps, ports...)
	pool = 165_660_324 - 29_423_360 - 256*18_796
	require.Equal(t, pool, b.Use().SharedPool)
	require.Equal(t, units.Bytes(29_423_360), b.Use().HeadroomPool)
	require.Equal(t, pool/2, b.PauseAlone(7))
	require.Less(t, DefaultECN().At(400*units.Gbps).Kmax, b.PauseAlone(0))
	// With one port the pool of headroom is no more than that port can use.
	require.Equal(t, units.Bytes(2*612_140), build("sonic-tomahawk5", 400*units.Gbps, port).Use().HeadroomPool)
	b = build("conweave", 100*units.Gbps, samePorts(24, Port{100 * units.Gbps, sim.Microsecond})...)
	require.Equal(t, 9*units.MiB-24*(25_000+2*1048)-24*1048, b.Use().SharedPool)
	require.Equal(t, b.Use().SharedPool/16, b.Threshold(0))
	b = build("derived", 400*units.Gbps, ports...)
	require.Equal(t, 256*Headroom(port.Rate, port.Delay, ResponseTime(port.Rate), 1048), b.Use().HeadroomPool)
	static := DefaultBuffer()
	static.StaticThreshold = units.GiB
	b, err := NewBuffer(static, port.Rate, 1048, ports)
	require.NoError(t, err)
	require.Equal(t, pool, b.PauseAlone(0))
}
