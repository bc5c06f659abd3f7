package packet

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/congestion"
	"github.com/tgssim/tgssim/fabric"
	_ "github.com/tgssim/tgssim/internal/testkit" // the same draws in every run
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/routing"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// adversary draws a fabric and settings at their edges: shallow buffers, pauses
// at a few packets, timeouts below queueing delays, flowlets of a few packets.
func adversary(t *rapid.T) (topology.Config, Settings) {
	one := func(name string, of ...int) int { return rapid.SampledFrom(of).Draw(t, name) }
	coin := func(name string) bool { return rapid.Bool().Draw(t, name) }
	us := func(name string, least, most int) sim.Time {
		return sim.Time(rapid.IntRange(least*1000, most*1000).Draw(t, name)) * sim.Nanosecond
	}
	tc := bare(one("hosts", 4, 8), one("leaves", 2, 4), one("spines", 1, 2, 3))
	tc.LinkDelay = us("delay", 0, 2)
	tc.SwitchLatency = sim.Time(one("switch", 0, 300)) * sim.Nanosecond
	tc.LinkRate = units.Rate(one("rate", 100, 400, 800)) * units.Gbps
	tc.Oversubscription, tc.UplinksPerLeaf = 0, tc.Spines*one("cables", 1, 2)

	s := lossy(t, units.Bytes(rapid.IntRange(30, 400).Draw(t, "buffer KB"))*units.KB)
	b := &s.Congestion.Buffer
	switch one("pfc", 0, 1, 2) {
	case 1: // enough headroom
		s = lossless(t)
		b.StaticThreshold = units.Bytes(rapid.IntRange(4, 200).Draw(t, "threshold KB")) * units.KB
		b.ResumeOffset = b.StaticThreshold / 4
		b.Headroom = congestion.HeadroomConfig{Bytes: 600 * units.KB}
		b.Size = units.GiB
	case 2: // too little
		s = lossless(t)
		b.Size = 16 * units.MB
		b.Headroom = congestion.HeadroomConfig{Frames: 1}
	}
	b.Lossless = append(b.Lossless, 4)[:min(2, 2*len(b.Lossless))]
	s.Congestion.Algorithm = rapid.SampledFrom(congestion.Algorithms()).Draw(t, "algorithm")
	s.Congestion.ECN.Thresholds = []congestion.ECNThresholds{{Rate: 100 * units.Gbps, Kmin: 5 * units.KB, Kmax: 100 * units.KB, Pmax: 0.5}}
	s.Congestion.DCQCN.MinRate = units.Gbps
	p := &s.Packet
	p.Train = one("train", 1, 1, 2, 3, 7, 16, 64)
	p.Path.Choice = rapid.SampledFrom(pathChoices()).Draw(t, "path")
	p.Path.FlowletGap, p.Path.MaxPaths = us("gap", 0, 3), one("paths", 1, 2, 128)
	p.Path.INT.Per = rapid.SampledFrom([]string{routing.PerFlowlet, routing.PerMessage, routing.PerPacket}).Draw(t, "per")
	p.Path.INT.FlowletGap, p.Path.INT.ProbeInterval = us("int gap", 0, 3), us("probes", 0, 30)
	if p.Path.INT.ProbeInterval > 0 {
		p.Path.INT.SilentAfter = us("silent", 0, 100)
	}
	if congestion.NeedsOf(s.Congestion).OnePath && p.Path.reorders() {
		s.Congestion.Algorithm = "none"
	}
	if s.Congestion.Algorithm == "gse" {
		p.Path.Choice = PathECMP
	}
	for _, c := range []*congestion.CreditConfig{&s.Congestion.Credit, &s.Congestion.GSE.Credit} {
		c.Push = []float64{0, 0.03, 1}[one("push", 0, 1, 2)]
		c.Quantum = units.Bytes(rapid.IntRange(1000, 40_000).Draw(t, "quantum"))
		c.Outstanding = []float64{0.01, 0.3, 1.5}[one("outstanding", 0, 1, 2)]
		c.Timeout = us("credit timeout", 10, 200)
		c.RequestBytes = units.Bytes(one("request", 0, 10_000, 100_000))
		c.OnWires = coin("on wires")
		c.Order = []string{congestion.OrderRoundRobin, congestion.OrderWeighted}[one("order of grants", 0, 1)]
		c.EPWeight = one("weight", 1, 3)
	}
	gse := &s.Congestion.GSE
	if gse.Mode = []string{congestion.ModeE2E, congestion.ModeN2N}[one("mode", 0, 1)]; gse.Mode == congestion.ModeN2N && s.Congestion.Algorithm == "gse" {
		p.Train = 1
	}
	gse.ContainerBytes = units.Bytes(rapid.IntRange(int(s.Fabric.MTU+s.Fabric.Header+gse.HeaderBytes), 40_000).Draw(t, "container"))
	gse.ReorderWindow, gse.ReorderBytes = one("containers", 2, 8, 64), gse.ContainerBytes*units.Bytes(one("held", 1, 20))
	gse.ReorderTimeout, gse.IdleTimeout = us("order", 1, 50), us("idle", 1, 100)
	gse.StopBytes = units.Bytes(one("stop", 0, 3_000, 50_000))
	gse.ResumeBytes = gse.StopBytes / 2
	gse.Spray = []string{congestion.SprayLeastSent, congestion.SprayRoundRobin}[one("spray", 0, 1)]
	p.Transport.Recovery = rapid.SampledFrom(recoveries).Draw(t, "recovery")
	p.Transport.AckEvery, p.Transport.AckQueueing = one("ack every", 1, 4, 9), coin("queued acks")
	p.Transport.WindowBDP = []float64{0, 0.2, 1.25}[one("window", 0, 1, 2)]
	p.Transport.ReorderWindow, p.Transport.ReorderTolerance = one("reorder", 64, 256), one("tolerance", 0, 1, 3)
	p.Transport.Timeout = us("timeout", 5, 200)
	p.NIC.MaxQPs, p.NIC.MaxRequests = one("qps", 0, 1, 3), one("requests", 0, 1, 2)
	p.NIC.RequestCost = sim.Time(one("cost", 0, 100)) * sim.Nanosecond
	if coin("drain") {
		p.NIC.DrainRate, p.NIC.DrainBuffer = 100*units.Gbps, 128*units.KiB
	}
	p.Queues.Mode = rapid.SampledFrom(queueModes).Draw(t, "queues")
	p.MarkAt = rapid.SampledFrom(markTimes).Draw(t, "mark")
	p.PauseResponse = us("response", 0, 1)
	p.DeadlockCheck = us("deadlock", 3, 50)
	p.FaultDetection = us("detection", 0, 40)
	return tc, s
}

// strikes draws faults anywhere at any time: cables fail, lose speed, fail again
// before routing knows, several at once, and even all ways to a host at once. In
// the end all are whole again.
func strikes(t *rapid.T, g *topology.Graph, within sim.Time) (faults []Fault) {
	var names []string
	for l := range g.Links {
		if k := g.Nodes[g.Links[l].From].Kind; k != topology.KindGPU && k != topology.KindNVSwitch &&
			g.Nodes[g.Links[l].To].Kind >= topology.KindNIC {
			names = append(names, g.Links[l].Name)
		}
	}
	struck := map[string]bool{} // looked up by name, in order
	for range rapid.IntRange(1, 12).Draw(t, "faults") {
		f := Fault{
			Link: rapid.SampledFrom(names).Draw(t, "link"),
			At:   sim.Time(rapid.Int64Range(0, int64(within)).Draw(t, "at")),
			Rate: rapid.SampledFrom([]float64{0, 0, 0, 0.1, 0.5, 1}).Draw(t, "part"),
		}
		struck[f.Link] = true
		faults = append(faults, f)
	}
	slices.SortStableFunc(faults, func(a, b Fault) int { return int(a.At - b.At) })
	for _, name := range names {
		if struck[name] {
			faults = append(faults, Fault{Link: name, At: within + sim.Time(rapid.Int64Range(0, 1000).Draw(t, "mended")), Rate: 1})
		}
	}
	slices.SortStableFunc(faults, func(a, b Fault) int { return int(a.At - b.At) })
	return faults
}

// Whatever fails whenever, every byte arrives once the links are whole again, and
// the books balance all the time.
func TestFaultsAnywhere(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tc, s := adversary(rt)
		g := build(rt, tc)
		const within = 200 * sim.Microsecond
		s.Packet.Faults = strikes(rt, g, within)
		b := newSeededBench(rt, s, g, rapid.Uint64Range(1, 1000).Draw(rt, "seed"))
		gpu := rapid.IntRange(0, tc.Nodes-1)
		sent := 0
		for i := range rapid.IntRange(1, 12).Draw(rt, "messages") {
			m := fabric.Message{
				Src: topology.GPU(gpu.Draw(rt, "src")), Dst: topology.GPU(gpu.Draw(rt, "dst")), Tag: uint64(i),
				Bytes: units.Bytes(rapid.IntRange(0, 600_000).Draw(rt, "bytes")), QPs: rapid.IntRange(0, 3).Draw(rt, "qps"),
				Class: fabric.Class(rapid.IntRange(0, 1).Draw(rt, "class")),
			}
			sent++
			b.at(sim.Time(rapid.Int64Range(0, int64(within)).Draw(rt, "when")), func() { b.net.Send(m, b) })
		}
		coll, err := b.net.NewCollective(allToAll("c", gpuRange(0, tc.Nodes), 1000))
		require.NoError(rt, err)
		coll.SetUnits(same(tc.Nodes, rapid.Int64Range(0, 50_000).Draw(rt, "units")))
		b.at(sim.Time(rapid.Int64Range(0, int64(within)).Draw(rt, "collective")), func() { coll.Start(0, 99, b) })
		sent++
		for range 30 {
			b.engine.RunUntil(b.engine.Now() + 10*sim.Microsecond)
			require.NoError(rt, b.net.Check())
		}
		b.run()
		require.Len(rt, b.deliveries, sent)
	})
}
