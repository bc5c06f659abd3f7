package congestion

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

func anyCredit(t *rapid.T) CreditConfig {
	c := DefaultCredit()
	c.Quantum = units.Bytes(rapid.IntRange(64, 40_000).Draw(t, "quantum"))
	c.Speedup = rapid.Float64Range(0.5, 2).Draw(t, "speedup")
	c.Outstanding = rapid.Float64Range(0.05, 3).Draw(t, "outstanding")
	c.SourceOutstanding = rapid.Float64Range(0.05, 3).Draw(t, "of a source")
	c.Order = rapid.SampledFrom([]string{OrderRoundRobin, OrderWeighted}).Draw(t, "order")
	c.Timeout = sim.Time(rapid.Int64Range(int64(sim.Microsecond), int64(50*sim.Microsecond)).Draw(t, "timeout"))
	return c
}

// asked is what a test knows of a source.
type asked struct{ requested, granted, outstanding units.Bytes }

// Under any sequence of calls: never more than the bounds is outstanding, never
// more is granted than requested, grants keep the pace, and whoever can be
// granted something is, unless the bound forbids it.
func TestCreditsAreBounded(t *testing.T) {
	const line, rtt = 100 * units.Gbps, 10 * sim.Microsecond
	rapid.Check(t, func(t *rapid.T) {
		config := anyCredit(t)
		c, err := NewCreditScheduler(config, line, rtt, toyPacket)
		require.NoError(t, err)
		most, each := max(config.Quantum, product(config.Outstanding, line, rtt)), max(config.Quantum, product(config.SourceOutstanding, line, rtt))
		sources := map[SourceID]*asked{}
		var ids []SourceID
		now, pushed, all := sim.Time(0), units.Bytes(0), units.Bytes(0)
		var paced sim.Time // what the grants so far take at the pace
		pick := func() SourceID { return ids[rapid.IntRange(0, len(ids)-1).Draw(t, "source")] }
		bytes := func() units.Bytes { return units.Bytes(rapid.IntRange(0, 200_000).Draw(t, "bytes")) }
		for range rapid.IntRange(1, 150).Draw(t, "calls") {
			now += sim.Time(rapid.Int64Range(0, int64(3*sim.Microsecond)).Draw(t, "dt"))
			call := rapid.IntRange(0, 9).Draw(t, "call")
			if len(ids) == 0 {
				call = 0
			}
			switch call {
			case 0:
				id := c.Open(rapid.IntRange(-1, 5).Draw(t, "weight"))
				require.NotContains(t, sources, id)
				sources[id] = &asked{}
				ids = append(ids, id)
			case 1:
				if i := rapid.IntRange(0, len(ids)-1).Draw(t, "leaves"); rapid.Bool().Draw(t, "close") {
					c.Close(ids[i])
					c.Close(ids[i])
					all -= sources[ids[i]].outstanding
					delete(sources, ids[i])
					ids = append(ids[:i], ids[i+1:]...)
				}
			case 2, 3:
				id := pick()
				total := sources[id].granted + bytes() - 20_000
				c.OnRequest(id, now, total)
				sources[id].requested = max(total, sources[id].granted)
			case 4:
				id := pick()
				n := bytes()
				c.OnArrive(id, now, n)
				n = min(n, sources[id].outstanding+toyPacket)
				sources[id].outstanding -= n
				all -= n
			case 5:
				n := bytes() / 10
				c.OnPush(n)
				pushed += n
			case 6:
				c.OnPushGone(pushed)
				pushed = 0
			case 7:
				lost := c.Expire(now)
				var sum units.Bytes
				for id, s := range sources {
					s.outstanding = c.sources[id].outstanding
					sum += s.outstanding
				}
				require.Equal(t, all-sum, lost)
				all = sum
			default:
				for range 20 {
					next := c.Next(now)
					id, total, ok := c.Grant(now)
					require.Equal(t, next <= now, ok)
					if !ok {
						// Nobody is forgotten.
						if all+pushed <= 0 && next == sim.Never {
							for id, s := range sources {
								require.True(t, s.requested == s.granted || s.outstanding > 0, "source %d", id)
							}
						}
						break
					}
					s := sources[id]
					n := total - s.granted
					require.LessOrEqual(t, n, config.Quantum)
					require.Positive(t, n)
					require.True(t, n == config.Quantum || total == s.requested)
					s.granted, s.outstanding, all = total, s.outstanding+n, all+n
					require.LessOrEqual(t, s.granted, s.requested)
					require.True(t, s.outstanding <= n || s.outstanding <= each)
					require.True(t, all+pushed <= n || all+pushed <= most)
					require.GreaterOrEqual(t, now, paced)
					paced = max(paced, now) + c.pace.Time(n)
				}
			}
			require.Equal(t, all+pushed, c.Outstanding())
			c.check()
		}
	})
}

// Sources that always want more get equal numbers of bytes, or in proportion to
// their weights, to within the grants of one turn.
func TestCreditShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config := DefaultCredit()
		config.Quantum = 10_000
		config.Order = rapid.SampledFrom([]string{OrderRoundRobin, OrderWeighted}).Draw(t, "order")
		c, err := NewCreditScheduler(config, 100*units.Gbps, 10*sim.Microsecond, toyPacket)
		require.NoError(t, err)
		weights := rapid.SliceOfN(rapid.IntRange(1, 5), 1, 20).Draw(t, "weights")
		got := make([]units.Bytes, len(weights))
		ids := make([]SourceID, len(weights))
		for i, w := range weights {
			ids[i] = c.Open(w)
			c.OnRequest(ids[i], 0, units.GB)
		}
		now := sim.Time(0)
		for range 500 {
			now = c.Next(now)
			id, total, ok := c.Grant(now)
			require.True(t, ok)
			got[id] = total
			c.OnArrive(id, now, config.Quantum)
		}
		require.Equal(t, 499*800*sim.Nanosecond, now, "one grant of 10 KB per 800 ns")
		for i := range got {
			for k := range got {
				wi, wk := 1., 1.
				if config.Order == OrderWeighted {
					wi, wk = float64(weights[i]), float64(weights[k])
				}
				require.InDelta(t, float64(got[i])/wi, float64(got[k])/wk, 10_000)
			}
		}
	})
}

// A creditNet is senders, each with a link, and receivers, each with a link and a
// scheduler for it, with packets straight from one to the other and messages that
// take half the round trip.
type creditNet struct {
	loop    *toy
	config  CreditConfig
	up      []*pipe
	down    []*pipe
	sched   []*CreditScheduler
	granted []bool // an event of the scheduler is under way
	flows   [][]*creditFlow
	half    sim.Time
	done    units.Bytes
	last    sim.Time
}

type creditFlow struct {
	CreditSender
	id       SourceID
	src, dst int
	sending  bool
	arrived  units.Bytes
}

const creditLine = 400 * units.Gbps

func newCreditNet(t require.TestingT, c CreditConfig, senders, receivers int) *creditNet {
	n := &creditNet{loop: &toy{}, config: c, half: 4 * sim.Microsecond}
	rtt := 2*n.half + 2*creditLine.Time(toyPacket)
	for range senders {
		n.up = append(n.up, &pipe{loop: n.loop, rate: creditLine, delay: n.half / 2})
	}
	for range receivers {
		n.down = append(n.down, &pipe{loop: n.loop, rate: creditLine, delay: n.half / 2})
		s, err := NewCreditScheduler(c, creditLine, rtt, toyPacket)
		require.NoError(t, err)
		n.sched = append(n.sched, s)
		n.granted = append(n.granted, false)
	}
	for src := range senders {
		var row []*creditFlow
		for dst := range receivers {
			f := &creditFlow{src: src, dst: dst, id: n.sched[dst].Open(1)}
			f.Start(c.PushBytes(creditLine, rtt))
			row = append(row, f)
		}
		n.flows = append(n.flows, row)
	}
	return n
}

func (n *creditNet) send(f *creditFlow, now sim.Time, bytes units.Bytes) {
	f.Add(bytes)
	n.ask(f, now)
	n.pump(f, now)
}

func (n *creditNet) ask(f *creditFlow, now sim.Time) {
	if total, ok := f.Request(n.config.RequestBytes); ok {
		n.loop.at(now+n.half, func(now sim.Time) {
			n.sched[f.dst].OnRequest(f.id, now, total)
			n.grant(f.dst, now)
		})
	}
}

// pump sends one packet at a time: flows of a sender share its link packet by
// packet.
func (n *creditNet) pump(f *creditFlow, now sim.Time) {
	size := min(toyPacket, f.Backlog())
	if f.sending || !f.CanSend() {
		return
	}
	f.sending = true
	scheduled := f.OnSend(size)
	up := n.up[f.src]
	up.put(now, size, func(now sim.Time, _ INTHop) {
		n.down[f.dst].put(now, size, func(now sim.Time, _ INTHop) {
			f.arrived += size
			n.done += size
			n.last = now
			n.sched[f.dst].OnArrive(f.id, now, scheduled)
			n.grant(f.dst, now)
		})
	})
	n.loop.at(now+up.rate.Time(up.queued+size), func(now sim.Time) {
		f.sending = false
		n.pump(f, now)
	})
}

func (n *creditNet) grant(dst int, now sim.Time) {
	s := n.sched[dst]
	if next := s.Next(now); n.granted[dst] || next == sim.Never {
		return
	}
	n.granted[dst] = true
	n.loop.at(s.Next(now), func(now sim.Time) {
		n.granted[dst] = false
		if id, total, ok := s.Grant(now); ok {
			n.loop.at(now+n.half, func(now sim.Time) {
				f := n.flows[id][dst] // sources were opened in the order of senders
				f.OnCredit(total)
				n.ask(f, now)
				n.pump(f, now)
			})
		}
		n.grant(dst, now)
	})
}

// Incast and all-to-all: all bytes arrive; the receivers' links are never idle but
// for the first trip, so that the last byte comes at the bound; the queue before
// them is what may be outstanding beyond a product, and what was pushed.
func TestCreditsConserveWork(t *testing.T) {
	const size = 512 * units.KiB
	for _, c := range []struct {
		senders, receivers int
		push               float64
		slack              float64 // of the bound
	}{
		{1, 1, 0, 1.01}, {1, 1, 1, 1.01}, {32, 1, 1, 1.01}, {32, 1, 0, 1.01}, {8, 8, 1, 1.06}, {8, 8, 0, 1.06},
	} {
		for _, preset := range CreditPresets() {
			var config CreditConfig
			require.NoError(t, config.SetPreset(preset))
			config.Push = c.push
			n := newCreditNet(t, config, c.senders, c.receivers)
			for _, row := range n.flows {
				for k := range row {
					f := row[(k+row[0].src)%len(row)]
					n.loop.at(0, func(now sim.Time) { n.send(f, now, size) })
				}
			}
			n.loop.run(t, sim.Second, 3_000_000)
			require.Equal(t, size*units.Bytes(c.senders*c.receivers), n.done)
			bound := creditLine.Time(size*units.Bytes(max(c.senders, c.receivers))) + n.half + creditLine.Time(toyPacket)
			if c.push == 0 {
				bound += 2 * n.half
			}
			var most units.Bytes
			for _, p := range n.down {
				most = max(most, p.most)
			}
			t.Logf("%d to %d, push %v, %s: last byte at %v, bound %v, queue %v", c.senders, c.receivers, c.push, preset, n.last, bound, most)
			require.GreaterOrEqual(t, n.last, bound-8*sim.Nanosecond)
			require.Less(t, float64(n.last), c.slack*float64(bound))
			pushed := config.PushBytes(creditLine, 2*n.half+2*creditLine.Time(toyPacket)) * units.Bytes(c.senders)
			require.LessOrEqual(t, most, n.sched[0].most+pushed+toyPacket*units.Bytes(c.senders))
			for _, s := range n.sched {
				require.Zero(t, s.Outstanding())
			}
		}
	}
}

// Flows of any sizes that begin at any time and end at any time, some before they
// have sent all: what is not cancelled arrives, and nothing stays outstanding.
func TestNothingIsStranded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config := anyCredit(t)
		config.Timeout = 10 * sim.Millisecond
		config.Push = rapid.SampledFrom([]float64{0, 0.01, 1}).Draw(t, "push")
		config.RequestBytes = units.Bytes(rapid.IntRange(0, 100_000).Draw(t, "request"))
		n := newCreditNet(t, config, rapid.IntRange(1, 6).Draw(t, "senders"), rapid.IntRange(1, 3).Draw(t, "receivers"))
		var want units.Bytes
		for _, row := range n.flows {
			for _, f := range row {
				for range rapid.IntRange(0, 3).Draw(t, "messages") {
					at := sim.Time(rapid.Int64Range(0, int64(100*sim.Microsecond)).Draw(t, "at"))
					size := units.Bytes(rapid.IntRange(1, 300_000).Draw(t, "size"))
					want += size
					n.loop.at(at, func(now sim.Time) { n.send(f, now, size) })
				}
				if rapid.Bool().Draw(t, "vanishes") {
					at := sim.Time(rapid.Int64Range(0, int64(100*sim.Microsecond)).Draw(t, "end"))
					n.loop.at(at, func(now sim.Time) {
						want -= f.Backlog()
						if total, tell := f.Cancel(f.Backlog()); tell {
							n.loop.at(now+n.half, func(now sim.Time) { n.sched[f.dst].OnRequest(f.id, now, total) })
						}
					})
				}
			}
		}
		// Returning is looked after every so often, as an engine would at credits.
		for at := sim.Time(0); at < 2*sim.Millisecond; at += 20 * sim.Microsecond {
			n.loop.at(at, func(now sim.Time) {
				for _, row := range n.flows {
					for _, f := range row {
						if b := f.Return(); b > 0 {
							n.loop.at(now+n.half, func(now sim.Time) {
								n.sched[f.dst].OnArrive(f.id, now, b)
								n.grant(f.dst, now)
							})
						}
					}
				}
			})
		}
		n.loop.run(t, sim.Second, 100_000)
		require.Equal(t, want, n.done)
		for dst, s := range n.sched {
			require.Zero(t, s.Outstanding(), "receiver %d", dst)
			require.Equal(t, sim.Never, s.Next(sim.Second))
			s.check()
		}
		for _, row := range n.flows {
			for _, f := range row {
				require.True(t, f.Idle(), fmt.Sprintf("%+v", f.CreditSender))
			}
		}
	})
}

func TestCreditState(t *testing.T) {
	require.Equal(t, uintptr(48), unsafe.Sizeof(creditSource{}))
	require.Equal(t, uintptr(48), unsafe.Sizeof(CreditSender{}))
	c, s := benchCredits(t, 64)
	now := sim.Time(0)
	require.Zero(t, testing.AllocsPerRun(1000, func() { now = turnCredits(c, s, now) }))
}

// benchCredits is a scheduler and sources that always want more.
func benchCredits(t require.TestingT, n int) (*CreditScheduler, []CreditSender) {
	c, err := NewCreditScheduler(DefaultCredit(), 400*units.Gbps, 8*sim.Microsecond, 4224)
	require.NoError(t, err)
	s := make([]CreditSender, n)
	for i := range s {
		s[c.Open(1)].Add(units.TB)
		total, _ := s[i].Request(0)
		c.OnRequest(SourceID(i), 0, total)
	}
	return c, s
}

// turnCredits is a grant, and the sending and arrival of what it allows.
func turnCredits(c *CreditScheduler, s []CreditSender, now sim.Time) sim.Time {
	now = c.Next(now)
	id, total, _ := c.Grant(now)
	s[id].OnCredit(total)
	for s[id].CanSend() {
		c.OnArrive(id, now, s[id].OnSend(4224))
	}
	return now
}

func BenchmarkCredits(b *testing.B) {
	for _, n := range []int{8, 1024} {
		b.Run(fmt.Sprintf("sources=%d", n), func(b *testing.B) {
			c, s := benchCredits(b, n)
			b.ReportAllocs()
			now := sim.Time(0)
			for b.Loop() {
				now = turnCredits(c, s, now)
			}
			b.ReportMetric(float64(unsafe.Sizeof(creditSource{})+unsafe.Sizeof(CreditSender{})), "B/source")
		})
	}
}
