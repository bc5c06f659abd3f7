package packet

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
	"github.com/tgssim/tgssim/topology/topologytest"
)

// drawTopology is a small random cluster whose rates give whole picoseconds per
// byte, so that no packet's time is rounded.
func drawTopology(t *rapid.T) topology.Config {
	c := topologytest.Small(t)
	rate := rapid.Custom(func(t *rapid.T) units.Rate {
		return units.Rate(rapid.SampledFrom([]int{40, 50, 100, 200, 400, 800}).Draw(t, "gbps")) * units.Gbps
	})
	c.NICRate, c.LinkRate = rate.Draw(t, "nic"), rate.Draw(t, "link")
	return c
}

// flowEngine is what the flow engine says of a message that is alone.
func flowEngine(t tester, c fabric.Config, g *topology.Graph, m fabric.Message) fabric.Delivery {
	b := &bench{t: t, engine: sim.New()}
	c.Engine = "flow"
	n, err := fabric.New(c, b.engine, g, 1)
	require.NoError(t, err)
	n.Send(m, b)
	b.engine.Run()
	return b.deliveries[0]
}

// unpaced is the default settings without congestion control and window: a NIC
// faster than the links behind it would be slowed down by its own queue.
func unpaced() Settings {
	s := DefaultSettings()
	s.Congestion.Algorithm = "none"
	s.Packet.Transport.WindowBDP = 0
	return s
}

// aloneOf is a delivery's account of the time alone.
func aloneOf(d fabric.Delivery) alone { return alone{d.Wire, d.Ideal, d.Latency} }

// A message of whole MTUs that is alone arrives in the picosecond in which the
// flow engine has it arrive, over any links; so does any message inside a server.
// Whatever the size, both engines state the same time alone.
func TestMessageAlone(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := unpaced()
		s.Fabric.MTU = units.Bytes(rapid.SampledFrom([]int{256, 1024, 1500, 4096, 9000}).Draw(rt, "mtu"))
		s.Fabric.Header = units.Bytes(rapid.IntRange(0, 200).Draw(rt, "header"))
		g := build(rt, drawTopology(rt))
		gpu := rapid.IntRange(0, g.GPUs()-1)
		m := fabric.Message{
			Src: topology.GPU(gpu.Draw(rt, "src")), Dst: topology.GPU(gpu.Draw(rt, "dst")),
			Bytes: s.Fabric.MTU * units.Bytes(rapid.IntRange(0, 300).Draw(rt, "packets")),
			Class: fabric.Class(rapid.IntRange(0, 1).Draw(rt, "class")),
			Post:  sim.Time(rapid.Int64Range(0, 1e8).Draw(rt, "post")), Tag: 7,
		}
		whole := rapid.Bool().Draw(rt, "whole")
		if !whole {
			m.Bytes += units.Bytes(rapid.IntRange(1, 255).Draw(rt, "odd"))
			m.QPs = rapid.IntRange(0, 4).Draw(rt, "qps")
		}
		want := flowEngine(rt, s.Fabric, g, m)
		b := newBench(rt, s, g)
		b.net.Send(m, b)
		got := b.run()[0]
		local := g.ServerOf(m.Src) == g.ServerOf(m.Dst)
		switch {
		case local || whole && m.Bytes > 0:
			require.Equal(rt, want, got)
		case m.Bytes == 0: // a packet of headers only
			require.Equal(rt, aloneOf(want), aloneOf(got))
		default:
			require.LessOrEqual(rt, got.Wire, want.Wire)
			if got.Queue > 0 {
				require.Equal(rt, aloneOf(want), aloneOf(got))
			}
		}
	})
}

// A message of several parts states the flow engine's time alone, is one message
// of all their bytes, and takes no longer than its last part would behind all
// others.
func TestPartsAlone(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := unpaced()
		g := build(rt, drawTopology(rt))
		gpu := rapid.IntRange(0, g.GPUs()-1)
		m := fabric.Message{QPs: rapid.IntRange(0, 3).Draw(rt, "qps"), Post: 1000, Tag: 3, Parts: []fabric.Part{}}
		var total units.Bytes
		for range rapid.IntRange(0, 6).Draw(rt, "parts") {
			p := fabric.Part{
				Src: topology.GPU(gpu.Draw(rt, "src")), Dst: topology.GPU(gpu.Draw(rt, "dst")),
				Bytes: units.Bytes(rapid.IntRange(0, 100_000).Draw(rt, "bytes")),
			}
			m.Parts, total = append(m.Parts, p), total+p.Bytes
		}
		want := flowEngine(rt, s.Fabric, g, m)
		b := newBench(rt, s, g)
		b.net.Send(m, b)
		got := b.run()
		require.Len(rt, got, 1)
		require.LessOrEqual(rt, got[0].Wire, want.Wire)
		if got[0].Queue > 0 {
			require.Equal(rt, aloneOf(want), aloneOf(got[0]))
		}
		require.Equal(rt, total, b.net.Totals().DeliveredBytes[m.Class])
		require.EqualValues(rt, 1, b.net.Totals().DeliveredMessages[m.Class])
	})
}

// The exact time of a message with a short last packet, store-and-forward by
// hand: packets p_1..p_n over links with times s_il leave link l at
// d_il = max(d_(i-1)l, d_i(l-1) + fly) + s_il.
func TestStoreAndForwardByHand(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := unpaced()
		g := build(rt, drawTopology(rt))
		gpu := rapid.IntRange(0, g.GPUs()-1)
		src, dst := topology.GPU(gpu.Draw(rt, "src")), topology.GPU(gpu.Draw(rt, "dst"))
		if g.ServerOf(src) == g.ServerOf(dst) {
			return
		}
		bytes := units.Bytes(rapid.IntRange(1, 100_000).Draw(rt, "bytes"))
		b := newBench(rt, s, g)
		b.net.Send(fabric.Message{Src: src, Dst: dst, Bytes: bytes}, b)
		path := b.net.pathOf(src, dst, 0)
		left := make([]sim.Time, len(path))
		var at sim.Time
		for rest := bytes; rest > 0; rest -= min(rest, s.Fabric.MTU) {
			at = g.NICLatency()
			for i, l := range path {
				link := &g.Links[l]
				left[i] = max(left[i], at) + link.Rate.Time(min(rest, s.Fabric.MTU)+s.Fabric.Header)
				at = left[i] + link.Delay + g.SwitchLatency(link.To)
			}
		}
		require.Equal(rt, at+g.NICLatency(), b.run()[0].Arrived)
	})
}

// A collective of one pair of whole packets takes what the flow engine says, and
// both state the same time alone for any collective.
func TestCollectiveAlone(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := unpaced()
		g := build(rt, drawTopology(rt))
		spec := fabric.CollectiveSpec{Name: "c", Class: fabric.ClassEP, Ranks: 3, QPs: rapid.IntRange(0, 3).Draw(rt, "qps")}
		gpu := rapid.IntRange(0, g.GPUs()-1)
		for range rapid.IntRange(0, 12).Draw(rt, "shares") {
			spec.Shares = append(spec.Shares, fabric.Share{
				Rank: rapid.IntRange(0, 2).Draw(rt, "rank"),
				Src:  topology.GPU(gpu.Draw(rt, "src")), Dst: topology.GPU(gpu.Draw(rt, "dst")),
				Milli: rapid.Int64Range(0, 1e7).Draw(rt, "milli"),
			})
		}
		units := []int64{rapid.Int64Range(0, 50).Draw(rt, "u0"), rapid.Int64Range(0, 50).Draw(rt, "u1"), 3}
		startup := sim.Time(rapid.Int64Range(0, 1e7).Draw(rt, "startup"))

		fc := s.Fabric
		fe := &bench{t: rt, engine: sim.New()}
		fn, err := fabric.New(fc, fe.engine, g, 1)
		require.NoError(rt, err)
		b := newBench(rt, s, g)
		for _, net := range []struct {
			n  fabric.Network
			to *bench
		}{{fn, fe}, {b.net, b}} {
			c, err := net.n.NewCollective(spec)
			require.NoError(rt, err)
			c.SetUnits(units)
			c.Start(startup, 5, net.to)
			net.to.engine.Run()
		}
		b.idle()
		want, got := fe.deliveries[0], b.deliveries[0]
		require.Equal(rt, fn.Totals(), b.net.Totals(), "the same account")
		require.Equal(rt, want.Post, got.Post)
		require.LessOrEqual(rt, got.Wire, want.Wire)
		if got.Queue > 0 {
			require.Equal(rt, aloneOf(want), aloneOf(got))
		}
	})
}

// Bytes of a collective's pairs are whole and add up to the whole bytes of the
// exact sum, whatever the thousandths.
func TestCollectiveRounding(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := build(rt, ls128())
		b := newBench(rt, DefaultSettings(), g)
		group := gpuRange(0, rapid.IntRange(2, 12).Draw(rt, "group"))
		spec := allToAll("c", group, 1)
		slices.SortFunc(spec.Shares, func(a, b fabric.Share) int { // as they are laid out
			return cmp.Or(cmp.Compare(a.Src, b.Src), cmp.Compare((a.Dst-a.Src+128)%128, (b.Dst-b.Src+128)%128))
		})
		var want int64
		u := same(len(group), 0)
		for i := range u {
			u[i] = rapid.Int64Range(0, 2000).Draw(rt, "units")
		}
		for i := range spec.Shares {
			spec.Shares[i].Milli = rapid.Int64Range(0, 3000).Draw(rt, "milli")
			want += spec.Shares[i].Milli * u[spec.Shares[i].Rank]
		}
		coll, err := b.net.NewCollective(spec)
		require.NoError(rt, err)
		coll.SetUnits(u)
		coll.Start(0, 0, b)
		var sum units.Bytes
		for i, p := range b.net.collectives[0].pairs {
			exact := spec.Shares[i].Milli * u[spec.Shares[i].Rank]
			require.InDelta(rt, float64(exact)/1000, float64(p.bytes), 1)
			sum += p.bytes
		}
		require.EqualValues(rt, want/1000, sum)
		b.run()
	})
}

// Every link has carried what the messages over it are, whatever the train: the
// payload, and headers for every MTU begun. NVLink's are the flow engine's.
func TestLoads(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := unpaced()
		s.Packet.Train = rapid.IntRange(1, 5).Draw(rt, "train")
		g := build(rt, drawTopology(rt))
		b := newBench(rt, s, g)
		payload := make([][2]units.Bytes, len(g.Links))
		wire := make([]units.Bytes, len(g.Links))
		gpu := rapid.IntRange(0, g.GPUs()-1)
		for range rapid.IntRange(0, 10).Draw(rt, "messages") {
			m := fabric.Message{
				Src: topology.GPU(gpu.Draw(rt, "src")), Dst: topology.GPU(gpu.Draw(rt, "dst")),
				Bytes: units.Bytes(rapid.IntRange(1, 100_000).Draw(rt, "bytes")),
				Class: fabric.Class(rapid.IntRange(0, 1).Draw(rt, "class")),
			}
			b.net.Send(m, b)
			var path []topology.LinkID
			if g.ServerOf(m.Src) != g.ServerOf(m.Dst) {
				path = b.net.pathOf(m.Src, m.Dst, uint32(m.Class))
			} else if m.Src != m.Dst {
				up, down := g.NVLinks(m.Src, m.Dst)
				path = []topology.LinkID{up, down}
			}
			for _, l := range path {
				payload[l][m.Class] += m.Bytes
				wire[l] += m.Bytes
				if !b.net.isNVLink(l) {
					wire[l] += (m.Bytes + s.Fabric.MTU - 1) / s.Fabric.MTU * s.Fabric.Header
				}
			}
		}
		b.run()
		paused := units.Bytes(84 * b.net.Counters().Pauses)
		for l, load := range b.net.Loads(nil) {
			require.EqualValues(rt, l, load.Link)
			require.Equal(rt, payload[l], load.Payload)
			require.GreaterOrEqual(rt, load.Wire, wire[l])
			require.LessOrEqual(rt, load.Wire, wire[l]+2*paused)
			if !b.net.isNVLink(topology.LinkID(l)) {
				st := b.net.PortStats(topology.LinkID(l))
				require.Equal(rt, load.Wire, st.Wire)
				require.Equal(rt, load.Payload, st.Payload)
			}
		}
	})
}
