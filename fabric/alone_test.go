package fabric

import (
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "github.com/tgssim/tgssim/internal/testkit" // the same draws in every run
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
	"github.com/tgssim/tgssim/topology/topologytest"
)

// ceilRat is the smallest whole number of picoseconds that is not below r.
func ceilRat(r *big.Rat) sim.Time {
	q, m := new(big.Int).DivMod(r.Num(), r.Denom(), new(big.Int))
	if m.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	return sim.Time(q.Int64())
}

// onLink is the exact time in picoseconds that payload takes on a link,
// computed with rational numbers.
func onLink(c Config, g *topology.Graph, l topology.LinkID, payload *big.Rat) *big.Rat {
	link := &g.Links[l]
	t := new(big.Rat).Mul(payload, big.NewRat(8_000_000_000_000, int64(link.Rate)))
	if g.Nodes[link.From].Kind == topology.KindGPU || g.Nodes[link.To].Kind == topology.KindGPU {
		return t.Mul(t, big.NewRat(1_000_000, int64(c.NVLinkEfficiency*1e6+0.5)))
	}
	return t.Mul(t, big.NewRat(int64(c.MTU+c.Header), int64(c.MTU)))
}

// latencyOf states the latency of a path a second time: what an empty message
// takes, and every packet time but the longest.
func latencyOf(c Config, g *topology.Graph, path []topology.LinkID, payload *big.Rat) sim.Time {
	t := g.PathLatency(path)
	if len(path) == 0 || g.Nodes[g.Links[path[0]].From].Kind == topology.KindGPU {
		return t
	}
	packet := payload
	if mtu := big.NewRat(int64(c.MTU), 1); packet.Cmp(mtu) > 0 {
		packet = mtu
	}
	var longest sim.Time
	for _, l := range path {
		s := ceilRat(onLink(c, g, l, packet))
		t += s
		longest = max(longest, s)
	}
	return t - longest
}

// drawConfig is a random Config of one engine.
func drawConfig(t *rapid.T, engine string) Config {
	c := DefaultConfig()
	c.Engine = engine
	c.MTU = units.Bytes(rapid.SampledFrom([]int{256, 1024, 1500, 4096, 9000}).Draw(t, "mtu"))
	c.Header = units.Bytes(rapid.IntRange(0, 200).Draw(t, "header"))
	c.NVLinkEfficiency = float64(rapid.IntRange(100, 1000).Draw(t, "efficiency")) / 1000
	c.ECMPSeed = rapid.Uint64Min(1).Draw(t, "seed")
	return c
}

var drawRate = rapid.Custom(func(t *rapid.T) units.Rate {
	if rapid.Bool().Draw(t, "round") {
		return units.Rate(rapid.SampledFrom([]int{25, 40, 100, 200, 400, 800}).Draw(t, "gbps")) * units.Gbps
	}
	return units.Rate(rapid.Int64Range(1e9, 2e12).Draw(t, "bps"))
})

// drawTopology is a small random cluster; its links may be slower or faster
// than its NICs.
func drawTopology(t *rapid.T) topology.Config {
	c := topologytest.Small(t)
	c.NVLinkRate, c.NICRate, c.LinkRate = drawRate.Draw(t, "nvlink"), drawRate.Draw(t, "nic"), drawRate.Draw(t, "link")
	return c
}

var drawBytes = rapid.OneOf(rapid.Int64Range(0, 20000), rapid.Int64Range(0, 1<<34))

// A message that is alone takes exactly its posting time, its bytes at the rate
// of the slowest link (of the slower end, in the ideal engine) and its latency;
// over several queue pairs, the bytes of the link that takes longest.
func TestMessageAlone(t *testing.T) {
	for _, engine := range []string{"flow", "ideal"} {
		t.Run(engine, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				c := drawConfig(rt, engine)
				g, err := topology.LeafSpine(drawTopology(rt))
				require.NoError(rt, err)
				gpu := rapid.IntRange(0, g.GPUs()-1)
				m := Message{
					Src: topology.GPU(gpu.Draw(rt, "src")), Dst: topology.GPU(gpu.Draw(rt, "dst")),
					Bytes: units.Bytes(drawBytes.Draw(rt, "bytes")), QPs: rapid.IntRange(0, 5).Draw(rt, "qps"),
					Class: Class(rapid.IntRange(0, 1).Draw(rt, "class")),
					Post:  sim.Time(rapid.Int64Range(0, 1e8).Draw(rt, "post")), Tag: 7,
				}
				if rapid.Bool().Draw(rt, "in parts") {
					m.Src, m.Dst, m.Bytes = 0, 0, 0
					m.Parts = rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) Part {
						return Part{
							Src: topology.GPU(gpu.Draw(rt, "src")), Dst: topology.GPU(gpu.Draw(rt, "dst")),
							Bytes: units.Bytes(drawBytes.Draw(rt, "bytes")),
						}
					}), 1, 6).Draw(rt, "parts")
				}
				b := newBench(rt, c, g)
				start := sim.Time(rapid.Int64Range(0, 1e9).Draw(rt, "start"))
				b.at(start, func() { b.net.Send(m, b) })
				want := wantAlone(c, b, m)
				want.Tag, want.Posted, want.Post = 7, start, m.Post
				want.Arrived = start + m.Post + want.Wire
				require.Equal(rt, []Delivery{want}, b.run())
			})
		})
	}
}

// wantAlone is the Wire, Ideal and Latency of a message, a second time.
func wantAlone(c Config, b *bench, m Message) Delivery {
	g := b.graph
	load := map[topology.LinkID]*big.Rat{}
	var latency sim.Time
	parts := m.Parts
	if parts == nil {
		parts = []Part{{m.Src, m.Dst, m.Bytes}}
	}
	for _, p := range parts {
		qps := int64(max(1, m.QPs))
		if g.ServerOf(p.Src) == g.ServerOf(p.Dst) {
			qps = 1
		}
		for qp := range qps {
			bytes := int64(p.Bytes) / qps
			if qp < int64(p.Bytes)%qps {
				bytes++
			}
			if bytes == 0 && qp > 0 {
				continue
			}
			path := b.net.pathOf(p.Src, p.Dst, int(qp), m.Class)
			latency = max(latency, latencyOf(c, g, path, big.NewRat(bytes, 1)))
			for _, l := range path {
				if load[l] == nil {
					load[l] = new(big.Rat)
				}
				load[l].Add(load[l], big.NewRat(bytes, 1))
			}
		}
	}
	return alone(c, g, load, latency)
}

// alone is what the longest of the loads takes, over all links and over the end
// ports, which are all that there is in the ideal engine.
func alone(c Config, g *topology.Graph, load map[topology.LinkID]*big.Rat, latency sim.Time) Delivery {
	var longest, ports sim.Time
	for l, bytes := range load {
		t := ceilRat(onLink(c, g, l, bytes))
		from, to := g.Nodes[g.Links[l].From].Kind, g.Nodes[g.Links[l].To].Kind
		if from <= topology.KindNIC || to <= topology.KindNIC {
			ports = max(ports, t)
		}
		longest = max(longest, t)
	}
	if c.Engine == "ideal" {
		longest = ports
	}
	return Delivery{Wire: longest + latency, Ideal: ports + latency, Latency: latency}
}

// Several queue pairs whose paths are as fast as the NIC take what one takes.
func TestQueuePairsAloneShareTheNIC(t *testing.T) {
	g := build(t, ls128())
	for qps := 1; qps <= 16; qps++ {
		b := newBench(t, DefaultConfig(), g)
		b.net.Send(Message{Src: 0, Dst: 127, Bytes: 1<<20 + 5, QPs: qps}, b)
		// 3 x 83.56 ns for the store and forward of the first packet, 4 us of fibre.
		wire := (400*units.Gbps).TimeScaled(1<<20+5, 4178, 4096) + 3*83_560 + 4*sim.Microsecond
		require.Equal(t, wire, b.run()[0].Arrived, "%d queue pairs", qps)
	}
}

// The reference's one flow: 1 MiB from host 0 to 127 of LS128. Its exact form is
// (n-1+hops) s + hops prop one way; only the reference's acknowledgement (4 us
// back and 4 x 1.28 ns) is missing here.
func TestOneFlowOnLS128(t *testing.T) {
	for _, engine := range []string{"flow", "ideal"} {
		c := DefaultConfig()
		c.Engine, c.Header = engine, 64
		b := newBench(t, c, build(t, ls128()))
		for _, m := range []Message{{Src: 0, Dst: 127, Bytes: 1 << 20}} {
			b.net.Send(m, b)
		}
		require.Equal(t, 259*83_200*sim.Picosecond+4*sim.Microsecond, b.run()[0].Wire)
	}
}

// A collective that is alone takes exactly its startup, the longest time of any
// link, and the longest latency of any pair.
func TestCollectiveAlone(t *testing.T) {
	for _, engine := range []string{"flow", "ideal"} {
		t.Run(engine, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				c := drawConfig(rt, engine)
				g, err := topology.LeafSpine(drawTopology(rt))
				require.NoError(rt, err)
				b := newBench(rt, c, g)
				spec := drawSpec(rt, g)
				coll, err := b.net.NewCollective(spec)
				require.NoError(rt, err)
				now := sim.Time(0)
				for run := range 3 {
					us := rapid.SliceOfN(rapid.Int64Range(0, 50), spec.Ranks, spec.Ranks).Draw(rt, "units")
					coll.SetUnits(us)
					startup := sim.Time(rapid.Int64Range(0, 1e8).Draw(rt, "startup"))
					coll.Start(startup, uint64(run), b)
					want := wantCollective(c, b, spec, us)
					want.Tag, want.Posted, want.Post = uint64(run), now, startup
					want.Arrived = now + startup + want.Wire
					require.Equal(rt, want, b.run()[run])
					now = b.engine.Now()
				}
			})
		})
	}
}

// drawSpec is a random collective: any pairs, several shares to some.
func drawSpec(t *rapid.T, g *topology.Graph) CollectiveSpec {
	s := CollectiveSpec{
		Name: "random", Class: ClassEP,
		Ranks: rapid.IntRange(1, 4).Draw(t, "ranks"), QPs: rapid.IntRange(0, 4).Draw(t, "qps"),
	}
	gpu := rapid.IntRange(0, g.GPUs()-1)
	for range rapid.IntRange(0, 12).Draw(t, "shares") {
		s.Shares = append(s.Shares, Share{
			Rank: rapid.IntRange(0, s.Ranks-1).Draw(t, "rank"),
			Src:  topology.GPU(gpu.Draw(t, "src")), Dst: topology.GPU(gpu.Draw(t, "dst")),
			Milli: rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 1e5), rapid.Int64Range(0, 1e10)).Draw(t, "milli"),
		})
	}
	return s
}

func wantCollective(c Config, b *bench, spec CollectiveSpec, us []int64) Delivery {
	type pair struct {
		src, dst topology.GPU
		qp       int
	}
	bytes := map[pair]*big.Rat{}
	for _, s := range perQueuePair(b.graph, spec) {
		p := pair{s.Src, s.Dst, s.qp}
		if bytes[p] == nil {
			bytes[p] = new(big.Rat)
		}
		bytes[p].Add(bytes[p], big.NewRat(s.Milli*us[s.Rank], 1000))
	}
	load := map[topology.LinkID]*big.Rat{}
	var latency sim.Time
	for p, payload := range bytes {
		path := b.net.pathOf(p.src, p.dst, p.qp, spec.Class)
		latency = max(latency, latencyOf(c, b.graph, path, payload))
		for _, l := range path {
			if load[l] == nil {
				load[l] = new(big.Rat)
			}
			load[l].Add(load[l], payload)
		}
	}
	return alone(c, b.graph, load, latency)
}
