package docs

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/congestion"
	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// TestValidation holds every table of validation.md to the simulator.
func TestValidation(t *testing.T) {
	check(t, "validation.md", []table{
		{"alone", false, aloneTable},
		{"incast", false, incastTable},
		{"fixed-point", true, fixedPointTable},
		{"md1", true, md1Table},
		{"bisection", false, bisectionTable},
		{"collisions", true, collisionTable},
		{"engines", true, enginesTable},
		{"peers", true, peersTable},
		{"htsim", true, htsimTable},
		{"placements", true, placementTable},
		{"tight", true, tightTable},
	})
}

// One message alone from host 0 to host 127, over 4 links: n packets of s =
// 83.2 ns arrive after (n-1+4) s + 4 us.
func aloneTable(t *testing.T) string {
	const s, hops = 83_200 * sim.Picosecond, 4
	r := newRows("", "engine", "measured, us", "expected, us", "difference")
	row := func(what, engine string, got, want sim.Time) {
		r.row(what, engine, num(got.Microseconds(), 4), num(want.Microseconds(), 4), off(float64(got), float64(want)))
	}
	const layerBytes, layers, tokens = 1152, 61, 1024 // DeepSeek-V3: 512 + 64 values of bf16 per token and layer
	for _, m := range []struct {
		what  string
		bytes units.Bytes
	}{{"1 MiB", units.MiB}, {"KV of 1,024 tokens, 72 MB", layerBytes * layers * tokens}} {
		list := []fabric.Message{{Src: 0, Dst: 127, Bytes: m.bytes}}
		want := sim.Time(m.bytes/4096-1+hops)*s + hops*sim.Microsecond
		settings := preset(t, "line-rate")
		p, _ := packets(t, settings, ls128(t), 1)
		p.run(t, list)
		f := fluids(t, settings.Fabric, ls128(t), 1).run(t, list)
		arrived := func(n *network) sim.Time { return sim.Time(math.Round(n.max() * 1e6)) }
		row(m.what+", last byte", "packet", arrived(p), want)
		row(m.what+", last byte", "flow", arrived(f), want)
		// The engine's last event is the arrival of the last acknowledgement.
		row(m.what+", acknowledged", "packet", p.engine.Now(), want+hops*(sim.Microsecond+1280*sim.Picosecond))
	}
	return r.String()
}

// N flows of n packets into one port end when it has sent them all.
func incastTable(t *testing.T) string {
	r := newRows("N", "packet engine, us", "flow engine, us", "expected, us", "difference, packet", "difference, flow", "pauses")
	for _, n := range []int{2, 4, 8, 16, 32, 64} {
		list := incast(128-n, n)
		p, net := packets(t, lossless(t), ls128(t), 1)
		p.run(t, list)
		f := fluids(t, lossless(t).Fabric, ls128(t), 1).run(t, list)
		want := (sim.Time(n*256+3)*83_200*sim.Picosecond + 4*sim.Microsecond).Microseconds()
		r.row(fmt.Sprint(n), num(p.max(), 3), num(f.max(), 3), num(want, 3), off(p.max(), want), off(f.max(), want), fmt.Sprint(net.Counters().Pauses))
	}
	return r.String()
}

// DCQCN's mean queue at the parameters on which the reference has compared the
// fluid model with HPCC-ns3.
func fixedPointTable(t *testing.T) string {
	s := preset(t, "hpcc-ns3-dcqcn")
	s.Fabric.MTU, s.Fabric.Header = 1000, 48
	d := &s.Congestion.DCQCN
	d.AlphaTimer, d.DecreaseInterval, d.IncreaseTimer = 50*sim.Microsecond, 50*sim.Microsecond, 55*sim.Microsecond
	d.FastRecovery, d.RateAI, d.RateHAI, d.ScaleFrom = 5, 200*units.Mbps, 200*units.Mbps, 0
	d.ClampTargetRate = true
	s.Congestion.ECN.Thresholds = []congestion.ECNThresholds{{
		Rate: 100 * units.Gbps, Kmin: 5 * units.KB, Kmax: 400 * units.KB, Pmax: 0.05,
	}}
	r := newRows("flows", "here, KB", "fluid model, KB", "difference", "HPCC-ns3, KB", "difference")
	for _, c := range []struct {
		flows      int
		fluid, ns3 float64
	}{{2, 8, 6}, {8, 24, 24}, {16, 49, 57}, {32, 108, 127}} {
		tc := leafSpine(c.flows+1, 1, 0)
		tc.NICRate = 100 * units.Gbps
		g := graph(t, tc)
		n, net := packets(t, s, g, 1)
		for i := range c.flows {
			n.Send(fabric.Message{Src: topology.GPU(i + 1), Bytes: 10 * units.GB}, &n.log)
		}
		area := func(until sim.Time) float64 {
			n.engine.RunUntil(until)
			return net.PortStats(downlink(g, 0)).MeanDepth * float64(n.engine.Now())
		}
		begun := area(100 * sim.Millisecond)
		from := n.engine.Now()
		mean := (area(200*sim.Millisecond) - begun) / float64(n.engine.Now()-from) / 1000
		whole := func(want float64) string { return fmt.Sprintf("%+.0f %%", 100*(mean/want-1)) }
		r.row(fmt.Sprint(c.flows), num(mean, 1), num(c.fluid, 0), whole(c.fluid), num(c.ns3, 0), whole(c.ns3))
	}
	return r.String()
}

// An arrivals sends packets at random from many hosts to host 0.
type arrivals struct {
	n    *network
	self sim.HandlerID
	rand *rand.Rand
	mean sim.Time
	left int
	nobody
}

type nobody struct{}

func (nobody) Delivered(fabric.Delivery) {}

func (a *arrivals) Handle(sim.Event) {
	a.n.Send(fabric.Message{Src: topology.GPU(1 + a.rand.IntN(255)), Bytes: 4096}, a)
	if a.left--; a.left > 0 {
		a.n.engine.After(sim.Time(a.rand.ExpFloat64()*float64(a.mean)), a.self, 0, 0)
	}
}

// M/D/1 at a port, in packets that wait, and at a prefill GPU, in waiting time.
func md1Table(t *testing.T) string {
	r := newRows("queue", "load", "measured", "M/D/1", "difference")
	for _, rho := range []float64{0.5, 0.8} {
		s := lossless(t)
		s.Congestion.Buffer.Size = units.GiB // headroom for 256 ports and more
		s.Packet.Transport.AckEvery = 1000
		g := graph(t, leafSpine(256, 1, 0))
		n, net := packets(t, s, g, 1)
		a := &arrivals{n: n, rand: rand.New(rand.NewPCG(7, 8)), left: 1_500_000, mean: sim.Time(83_200 / rho)}
		a.self = n.engine.Register(a)
		n.engine.After(0, a.self, 0, 0)
		n.engine.Run()
		got, want := net.PortStats(downlink(g, 0)).MeanDepth/4160, rho*rho/2/(1-rho)
		r.row("switch port, packets", num(rho, 1), num(got, 4), num(want, 4), off(got, want))
	}
	for _, c := range []struct {
		rho float64
		n   int
	}{{0.5, 800_000}, {0.8, 1_500_000}, {0.9, 2_000_000}} {
		got, want := prefillWait(t, c.rho, c.n), c.rho*1000/2/(1-c.rho)
		r.row("prefill GPU, us", num(c.rho, 1), num(got, 2), num(want, 2), off(got, want))
	}
	return r.String()
}

// An all-to-all of 32 hosts, 8 to a leaf, through one fat uplink per leaf that
// is oversubscribed: at least max(n-1, (n-8) r) messages through some port.
func bisectionTable(t *testing.T) string {
	const hosts, perLeaf, size = 32, 8, 256 * 4096
	r := newRows("oversubscription", "packet engine, us", "flow engine, us", "bound, us", "above it, packet", "above it, flow")
	for _, over := range []float64{1, 2, 4} {
		tc := leafSpine(hosts, 4, 1)
		tc.LinkRate, tc.Oversubscription = units.Rate(8/over*400e9), over
		spec := fabric.CollectiveSpec{Name: "a2a", Class: fabric.ClassEP, Ranks: hosts}
		for _, m := range allToAll(hosts, size) {
			spec.Shares = append(spec.Shares, fabric.Share{Rank: int(m.Src), Src: m.Src, Dst: m.Dst, Milli: 1000})
		}
		run := func(n *network) float64 {
			c, err := n.NewCollective(spec)
			require.NoError(t, err)
			u := make([]int64, hosts)
			for i := range u {
				u[i] = size
			}
			c.SetUnits(u)
			c.Start(0, 0, &n.log)
			n.engine.Run()
			return n.max()
		}
		p, _ := packets(t, lossless(t), graph(t, tc), 1)
		got, fluid := run(p), run(fluids(t, lossless(t).Fabric, graph(t, tc), 1))
		bound := max(hosts-1, (hosts-perLeaf)*over) * (400*units.Gbps).TimeScaled(size, 4160, 4096).Microseconds()
		r.row(fmt.Sprintf("%g:1", over), num(got, 1), num(fluid, 1), num(bound, 1), off(got, bound), off(fluid, bound))
	}
	return r.String()
}

// Collisions of the hash: 8 flows on 8 uplinks, and the max-min shares of a
// permutation.
func collisionTable(t *testing.T) string {
	g := ls128(t)
	uplinks := g.Out(g.LeafOf(g.NICOf(0)))[8:]
	const seeds, draws = 1000, 200
	var most, used, perfect float64
	for seed := range uint64(seeds) {
		n, net := packets(t, preset(t, "line-rate"), g, seed+1)
		var list []fabric.Message
		for i := range 8 {
			list = append(list, fabric.Message{Src: topology.GPU(i), Dst: topology.GPU(8 + 8*i + i), Bytes: 4096})
		}
		n.run(t, list)
		var fullest int64
		for _, l := range uplinks {
			k := net.PortStats(l).Packets[fabric.ClassKV]
			fullest = max(fullest, k)
			used += min(float64(k), 1) / 8 / seeds
		}
		most += float64(fullest) / seeds
		if fullest == 1 {
			perfect += 1. / seeds
		}
	}
	mean, least := permutationShares(t, g, draws)
	r := newRows("", "measured", "expected", "difference")
	row := func(what string, got, want float64, decimals int) {
		r.row(what, num(got, decimals), num(want, decimals), fmt.Sprintf("%+.*f", decimals, got-want))
	}
	row("flows on the fullest of 8 uplinks, 1,000 seeds", most, 2.597, 3)
	row("part of the uplinks in use", used, 1-math.Pow(7./8, 8), 3)
	row("placements without a collision", perfect, 0.0024, 4)
	row("perm128_s1: mean share of the line rate, 200 seeds", mean, 0.523, 3)
	row("perm128_s1: smallest share, mean over seeds", least, 0.240, 3)
	return r.String()
}

// permutationShares is the mean and the mean smallest max-min share of the line
// rate in a permutation: what each host's NIC carries between 10 and 30 us, when
// all have begun and none is through.
func permutationShares(t *testing.T, g *topology.Graph, draws int) (mean, least float64) {
	list := permutation(t, 1)
	for seed := range uint64(draws) {
		c := preset(t, "line-rate").Fabric
		n := fluids(t, c, g, seed+1)
		for _, m := range list {
			n.Send(m, &n.log)
		}
		early, late := n.loadsAt(10*sim.Microsecond), n.loadsAt(30*sim.Microsecond)
		low := 1.
		for _, m := range list {
			l := g.NextHops(g.NICOf(m.Src), g.NICOf(m.Dst))[0]
			share := float64(late[l].Wire-early[l].Wire) * 8 / 20e-6 / 400e9
			mean += share / float64(len(list)) / float64(draws)
			low = min(low, share)
		}
		least += low / float64(draws)
	}
	return mean, least
}

// The same flows on the same paths in both engines, without congestion control.
func enginesTable(t *testing.T) string {
	r := newRows("flows", "mean, packets, us", "mean, fluid, us", "difference", "last, packets, us", "last, fluid, us", "difference")
	all := lists(t)
	for _, name := range []string{"incast32", "perm128_s1", "perm128_s2", "a2a16", "a2a32", "a2a64"} {
		s := preset(t, "line-rate")
		p, _ := packets(t, s, ls128(t), 1)
		p.run(t, all[name])
		f := fluids(t, s.Fabric, ls128(t), 1).run(t, all[name])
		r.row(name, num(p.mean(), 1), num(f.mean(), 1), off(f.mean(), p.mean()), num(p.max(), 1), num(f.max(), 1), off(f.max(), p.max()))
	}
	return r.String()
}
