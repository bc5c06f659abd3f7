package docs

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/congestion"
	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/fabric/packet"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// TestControl holds the tables about congestion control and paths.
func TestControl(t *testing.T) {
	check(t, "validation.md", []table{{"hpcc", true, hpccTable}})
	check(t, "gse.md", []table{
		{"schemes", true, schemesTable}, {"push", true, pushTable}, {"containers", true, containersTable},
		{"grants", true, grantsTable}, {"sensitivity", true, sensitivityTable}, {"short", false, shortTable},
	})
	check(t, "paths.md", []table{{"paths", true, pathsTable}, {"age", true, ageTable}, {"storage", true, storageTable}})
}

// hpccTable is HPCC-ns3's figures with HPCC, which takes the network's longest
// round trip for every flow's.
func hpccTable(t *testing.T) string {
	r := newRows("flows", "mean here, us", "HPCC-ns3", "difference", "p99 here, us", "HPCC-ns3", "difference")
	s := preset(t, "hpcc-ns3-hpcc")
	s.Congestion.HPCC.BaseRTT = 8*sim.Microsecond + 4*83720*sim.Picosecond
	for _, p := range []struct {
		list      string
		mean, p99 float64
	}{
		{"incast32", 650.0, 746.3}, {"perm128_s1", 201.8, 386.4}, {"perm128_s2", 201.6, 357},
		{"a2a16", 315.2, 358.1}, {"a2a32", 660.3, 1044.1}, {"a2a64", 1367.8, 1867.4},
	} {
		list := lists(t)[p.list]
		f := overSeeds(t, s, list, seedsOf(list))
		r.row(append(append([]string{p.list}, within(f.means, one(p.mean))...), within(f.p99s, one(p.p99))...)...)
	}
	return r.String()
}

// controlled is a lossless fabric with packets of 4,160 B before what a scheme
// adds.
func controlled(t testing.TB, algorithm string) packet.Settings {
	s := lossless(t)
	s.Packet.DeadlockCheck = 0
	s.Congestion.Algorithm = algorithm
	if algorithm == "credit" {
		s.Packet.Path.Choice = packet.PathSprayRandom
	}
	return s
}

// An outcome is what a run of a list has had.
type outcome struct {
	*network
	counters    packet.Counters
	lastHop     units.Bytes // longest queue before a NIC
	inside      units.Bytes // longest queue before a switch
	mean, ended float64
}

func outcomeOf(t *testing.T, s packet.Settings, list []fabric.Message) outcome {
	g := ls128(t)
	n, p := packets(t, s, g, 1)
	n.run(t, list)
	o := outcome{network: n, counters: p.Counters(), mean: n.log.mean() + reply, ended: n.max() + reply}
	for l := range g.Links {
		link := &g.Links[l]
		if g.Nodes[link.From].Kind < topology.KindLeaf {
			continue
		}
		depth := p.PortStats(topology.LinkID(l)).MaxDepth
		if g.Nodes[link.To].Kind == topology.KindNIC {
			o.lastHop = max(o.lastHop, depth)
		} else {
			o.inside = max(o.inside, depth)
		}
	}
	return o
}

// bounds are the least times of a last completion, us.
var bounds = map[string]float64{"incast32": 689.8, "perm128_s1": 93.4, "a2a32": 668.5}

func schemesTable(t *testing.T) string {
	r := newRows("flows", "scheme", "mean, us", "last, us", "over the bound", "queue before a NIC, KB", "inside, KB", "pauses")
	for _, list := range []string{"incast32", "perm128_s1", "a2a32"} {
		row := func(name string, s packet.Settings) {
			o := outcomeOf(t, s, lists(t)[list])
			r.row(list, name, num(o.mean, 1), num(o.ended, 1), fmt.Sprintf("%.3f", o.ended/bounds[list]),
				num(float64(o.lastHop)/1000, 0), num(float64(o.inside)/1000, 0), fmt.Sprint(o.counters.Pauses))
		}
		for _, a := range []string{"dcqcn", "hpcc", "swift"} {
			row(a+", ECMP", controlled(t, a))
		}
		row("credits, sprayed", controlled(t, "credit"))
		row("GSE E2E", controlled(t, "gse"))
		pull := controlled(t, "gse")
		require.NoError(t, pull.Congestion.GSE.SetPreset("pull"))
		row("GSE E2E without push", pull)
		leaves := controlled(t, "gse")
		leaves.Congestion.GSE.Mode, leaves.Packet.Transport.WindowBDP = congestion.ModeN2N, 1.25
		row("GSE N2N", leaves)
		require.NoError(t, leaves.Congestion.GSE.SetPreset("pull"))
		leaves.Congestion.GSE.Mode = congestion.ModeN2N
		row("GSE N2N without push", leaves)
	}
	return r.String()
}

// sweepRows runs GSE with changes on three lists.
func sweepRows(t *testing.T, r *rows, name string, change func(*congestion.GSEConfig)) {
	for _, list := range []string{"incast32", "perm128_s1", "a2a32"} {
		s := controlled(t, "gse")
		change(&s.Congestion.GSE)
		o := outcomeOf(t, s, lists(t)[list])
		k := o.counters
		held := sim.Time(0)
		if k.Held > 0 {
			held = k.HeldTime / sim.Time(k.Held)
		}
		r.row(name, list, num(o.mean, 1), num(o.ended, 1), num(float64(o.lastHop)/1000, 0), num(float64(o.inside)/1000, 0),
			fmt.Sprint(k.Held), num(held.Microseconds(), 2), num(float64(k.MaxHeld)/1000, 0), creditShare(o))
	}
}

// creditShare is what the messages of credits have taken of the link that has had
// most of them.
func creditShare(o outcome) string { return num(100*o.counters.CreditTime.Microseconds()/o.ended, 2) }

// sensitivityTable is every parameter that has no table of its own, one at a time, in
// both shapes.
func sensitivityTable(t *testing.T) string {
	r := newRows("parameter", "E2E: incast32, us", "perm128, us", "held, KB", "credits, %", "N2N: incast32, us", "perm128, us", "held, KB", "credits, %", "state, KB")
	for _, v := range []struct {
		name   string
		change func(*congestion.GSEConfig)
	}{
		{"the defaults", func(*congestion.GSEConfig) {}},
		{"spray round-robin", func(c *congestion.GSEConfig) { c.Spray = congestion.SprayRoundRobin }},
		{"header_bytes 32B", func(c *congestion.GSEConfig) { c.HeaderBytes = 32 }},
		{"stop_bytes 256KiB, resume_bytes 128KiB", func(c *congestion.GSEConfig) { c.StopBytes, c.ResumeBytes = 256*units.KiB, 128*units.KiB }},
		{"idle_timeout 10us", func(c *congestion.GSEConfig) { c.IdleTimeout = 10 * sim.Microsecond }},
		{"reorder_window 8", func(c *congestion.GSEConfig) { c.ReorderWindow = 8 }},
		{"reorder_bytes 32KiB", func(c *congestion.GSEConfig) { c.ReorderBytes = 32 * units.KiB }},
		{"reorder_timeout 2us", func(c *congestion.GSEConfig) { c.ReorderTimeout = 2 * sim.Microsecond }},
		{"credit.request_bytes 0B", func(c *congestion.GSEConfig) { c.Credit.RequestBytes = 0 }},
		{"credit.request_bytes 64KiB", func(c *congestion.GSEConfig) { c.Credit.RequestBytes = 64 * units.KiB }},
		{"credit.message_bytes 256B", func(c *congestion.GSEConfig) { c.Credit.MessageBytes = 256 }},
		{"credit.on_wires false", func(c *congestion.GSEConfig) { c.Credit.OnWires = false }},
		{"credit.source_outstanding 0.75", func(c *congestion.GSEConfig) { c.Credit.SourceOutstanding = 0.75 }},
		{"credit.timeout 50us", func(c *congestion.GSEConfig) { c.Credit.Timeout = 50 * sim.Microsecond }},
		{"credit.order weighted", func(c *congestion.GSEConfig) { c.Credit.Order = congestion.OrderWeighted }},
	} {
		cells := []string{v.name}
		var state int64
		for _, mode := range []string{congestion.ModeE2E, congestion.ModeN2N} {
			s := controlled(t, "gse")
			s.Congestion.GSE.Mode, s.Packet.Transport.WindowBDP = mode, 1.25
			v.change(&s.Congestion.GSE)
			incast, perm := outcomeOf(t, s, lists(t)["incast32"]), outcomeOf(t, s, lists(t)["perm128_s1"])
			cells = append(cells, num(incast.ended, 1), num(perm.ended, 1), num(float64(max(incast.counters.MaxHeld, perm.counters.MaxHeld))/1000, 0), creditShare(perm))
			state = max(state, incast.counters.MaxStateBytes, perm.counters.MaxStateBytes)
		}
		r.row(append(cells, num(float64(state)/1000, 1))...)
	}
	return r.String()
}

func sweepHead(what string) *rows {
	return newRows(what, "flows", "mean, us", "last, us", "queue before a NIC, KB", "inside, KB", "held back", "for, us", "at most, KB", "credits, % of a link")
}

func pushTable(t *testing.T) string {
	r := sweepHead("push, BDP")
	for _, v := range []float64{0, 0.25, 1, 2} {
		sweepRows(t, r, fmt.Sprint(v), func(c *congestion.GSEConfig) { c.Credit.Push = v })
	}
	return r.String()
}

func containersTable(t *testing.T) string {
	r := sweepHead("container, KiB")
	for _, v := range []units.Bytes{4, 8, 16, 32, 64, 256} {
		sweepRows(t, r, fmt.Sprint(int64(v)), func(c *congestion.GSEConfig) { c.ContainerBytes = v*units.KiB + 300 })
	}
	return r.String()
}

func grantsTable(t *testing.T) string {
	r := sweepHead("grants")
	for _, v := range []struct {
		name   string
		change func(*congestion.CreditConfig)
	}{
		{"4 KiB", func(c *congestion.CreditConfig) { c.Quantum = 4 * units.KiB }},
		{"64 KiB", func(c *congestion.CreditConfig) { c.Quantum = 64 * units.KiB }},
		{"pace 1.00", func(c *congestion.CreditConfig) { c.Speedup = 1 }},
		{"pace 1.10", func(c *congestion.CreditConfig) { c.Speedup = 1.1 }},
		{"0.75 BDP out", func(c *congestion.CreditConfig) { c.Outstanding, c.SourceOutstanding = 0.75, 0.75 }},
		{"3 BDP out", func(c *congestion.CreditConfig) { c.Outstanding, c.SourceOutstanding = 3, 3 }},
	} {
		sweepRows(t, r, v.name, func(c *congestion.GSEConfig) { v.change(&c.Credit) })
	}
	return r.String()
}

// shortTable is one message alone on an idle fabric: where a request has nothing
// to win.
func shortTable(t *testing.T) string {
	r := newRows("message", "dcqcn, us", "hpcc, us", "credits, us", "GSE E2E, us", "E2E without push, us", "GSE N2N, us", "N2N without push, us")
	for _, b := range []units.Bytes{64, 4 * units.KiB, 64 * units.KiB, units.MiB} {
		cells := []string{b.String()}
		for _, a := range []struct {
			algorithm, mode string
			push            float64
		}{{"dcqcn", congestion.ModeE2E, 1}, {"hpcc", congestion.ModeE2E, 1}, {"credit", congestion.ModeE2E, 1},
			{"gse", congestion.ModeE2E, 1}, {"gse", congestion.ModeE2E, 0}, {"gse", congestion.ModeN2N, 1}, {"gse", congestion.ModeN2N, 0}} {
			s := controlled(t, a.algorithm)
			s.Congestion.GSE.Mode, s.Congestion.GSE.Credit.Push = a.mode, a.push
			n, _ := packets(t, s, ls128(t), 1)
			n.run(t, []fabric.Message{{Src: 0, Dst: 127, Bytes: b}})
			cells = append(cells, num(n.max(), 2))
		}
		r.row(cells...)
	}
	return r.String()
}

// choosing is a lossless fabric with a window, on which paths are all that
// matters, with packets of 4,160 B telemetry included.
func choosing(t testing.TB, how, preset string) packet.Settings {
	s := controlled(t, "none")
	s.Packet.Transport.WindowBDP = 1.25
	s.Packet.Path.Choice = how
	if how == packet.PathINT {
		s.Fabric.Header -= 42
		require.NoError(t, s.Packet.Path.INT.SetPreset(preset))
	}
	return s
}

func pathsTable(t *testing.T) string {
	r := newRows("choice", "no control: mean, us", "last, us", "DCQCN: mean, us", "last, us", "moves", "out of order, %")
	for _, c := range []struct{ how, preset string }{
		{packet.PathECMP, ""}, {packet.PathFlowlet, ""}, {packet.PathCONGA, ""}, {packet.PathConWeave, ""}, {packet.PathINT, "message"}, {packet.PathINT, "packet"},
		{packet.PathINT, "greedy"}, {packet.PathSprayRandom, ""}, {packet.PathSprayRoundRobin, ""}, {packet.PathOracle, ""},
	} {
		name := c.how
		if c.preset != "" {
			name += ", " + c.preset
		}
		cells := []string{name}
		var k packet.Counters
		for _, a := range []string{"none", "dcqcn"} {
			s := choosing(t, c.how, c.preset)
			s.Congestion.Algorithm = a
			mean, last, counters := overPermutations(t, s)
			cells = append(cells, num(mean, 1), num(last, 1))
			if a == "none" {
				k = counters
			}
		}
		r.row(append(cells, fmt.Sprint(k.Moves+max(0, k.Flowlets-128)), num(float64(k.OutOfOrder)/1310.72, 1))...)
	}
	return r.String()
}

// overPermutations is the mean over two permutations and three hashes, and the
// counters of the last run.
func overPermutations(t *testing.T, s packet.Settings) (mean, last float64, k packet.Counters) {
	for i := range 2 {
		for seed := range uint64(3) {
			n, p := packets(t, s, ls128(t), seed+1)
			n.run(t, permutation(t, i+1))
			mean, last, k = mean+(n.log.mean()+reply)/6, last+(n.max()+reply)/6, p.Counters()
		}
	}
	return mean, last, k
}

func ageTable(t *testing.T) string {
	r := newRows("a path is probed after", "mean, us", "last, us", "moves", "mean age of what comes back, us", "probes, KB")
	for _, every := range []sim.Time{5 * sim.Microsecond, 20 * sim.Microsecond, 50 * sim.Microsecond, 100 * sim.Microsecond, 200 * sim.Microsecond, 0} {
		s := choosing(t, packet.PathINT, "packet")
		s.Packet.Path.INT.ProbeInterval, s.Packet.Path.INT.MaxAge = every, 10*sim.Millisecond
		mean, last, k := overPermutations(t, s)
		name := every.String()
		if every == 0 {
			name = "never"
		}
		r.row(name, num(mean, 1), num(last, 1), fmt.Sprint(k.Moves), num((k.ReportAge/sim.Time(k.Reports)).Microseconds(), 1), num(float64(k.ProbeBytes)/1000, 0))
	}
	return r.String()
}
