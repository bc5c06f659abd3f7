package docs

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/fabric/packet"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// reply is what lies between the arrival of a flow's last packet, where our
// completion times end, and its acknowledgement, where the peers' do: 4 us and 4
// x 1.28 ns between leaves of LS128.
const reply = 4.00512

// figures are mean and 99th percentile of completion times over hash seeds, in
// microseconds.
type figures struct{ means, p99s []float64 }

func overSeeds(t *testing.T, s packet.Settings, list []fabric.Message, seeds int) (f figures) {
	g := ls128(t)
	for seed := range uint64(seeds) {
		n, _ := packets(t, s, g, seed+1)
		n.run(t, list)
		f.means, f.p99s = append(f.means, n.mean()+reply), append(f.p99s, n.p99()+reply)
	}
	return f
}

// A span is what a peer has: one figure, or several by its own seeds.
type span struct{ low, high float64 }

func one(v float64) span { return span{v, v} }

func (s span) String() string {
	if s.low == s.high {
		return num(s.low, 1)
	}
	return fmt.Sprintf("%g-%g", s.low, s.high)
}

// off is the difference to the nearest end of a peer's span.
func (s span) off(v float64) string {
	switch {
	case v < s.low:
		return fmt.Sprintf("%+.1f %%", 100*(v/s.low-1))
	case v > s.high:
		return fmt.Sprintf("%+.1f %%", 100*(v/s.high-1))
	}
	return "inside"
}

// The reference's figures for LS128: HPCC-ns3 with DCQCN and PFC, and Broadcom's
// htsim with RoCE and PFC and no congestion control.
var peers = []struct {
	list       string
	ns3, htsim [2]span // mean, 99th percentile
}{
	{"incast32", [2]span{one(589.4), one(680.0)}, [2]span{{545, 588}, one(690)}},
	{"perm128_s1", [2]span{one(344.7), one(826.9)}, [2]span{{193, 208}, {340, 510}}},
	{"a2a16", [2]span{one(324.5), one(327.0)}, [2]span{one(330.2), one(332.7)}},
	{"a2a32", [2]span{one(675.5), one(762.6)}, [2]span{{692, 717}, {808, 905}}},
	{"a2a64", [2]span{one(1373.1), one(1631.0)}, [2]span{one(1493.7), one(1982.9)}},
}

const hashSeeds = 10

func peersTable(t *testing.T) string {
	r := newRows("flows", "peer", "mean here, us", "peer", "difference", "p99 here, us", "peer", "difference")
	all := lists(t)
	row := func(list, peer string, s packet.Settings, want [2]span) {
		f := overSeeds(t, s, all[list], hashSeeds)
		mean, sd := spread(f.means)
		p99, sd99 := spread(f.p99s)
		r.row(list, peer, fmt.Sprintf("%.1f ± %.1f", mean, sd), want[0].String(), want[0].off(mean),
			fmt.Sprintf("%.1f ± %.1f", p99, sd99), want[1].String(), want[1].off(p99))
	}
	for _, p := range peers {
		row(p.list, "HPCC-ns3", preset(t, "hpcc-ns3-dcqcn"), p.ns3)
		s := lossless(t)
		s.Packet.Transport.WindowBDP = 1.25
		row(p.list, "htsim", s, p.htsim)
	}
	return r.String()
}

// A permutation under DCQCN, by the draw of the hash, and what moves it.
func placementTable(t *testing.T) string {
	const seeds = 30
	r := newRows("", "permutation", "mean ± sd, us", "least", "most", "HPCC-ns3", "it is off by", "p99 ± sd, us", "HPCC-ns3")
	row := func(what string, seeds, perm int, change func(*packet.Settings)) {
		ns3 := [...][2]float64{1: {344.7, 826.9}, 2: {350.8, 850}}[perm]
		s := preset(t, "hpcc-ns3-dcqcn")
		change(&s)
		f := overSeeds(t, s, permutation(t, perm), seeds)
		mean, sd := spread(f.means)
		p99, sd99 := spread(f.p99s)
		r.row(fmt.Sprintf("%s, %d seeds", what, seeds), fmt.Sprintf("s%d", perm), fmt.Sprintf("%.1f ± %.1f", mean, sd),
			num(slices.Min(f.means), 1), num(slices.Max(f.means), 1), num(ns3[0], 1), fmt.Sprintf("%+.1f sd", (ns3[0]-mean)/sd),
			fmt.Sprintf("%.0f ± %.0f", p99, sd99), num(ns3[1], 0))
	}
	row("as HPCC-ns3", seeds, 1, func(*packet.Settings) {})
	row("as HPCC-ns3", seeds, 2, func(*packet.Settings) {})
	for _, v := range []struct {
		what   string
		change func(*packet.Settings)
	}{
		{"acknowledgements through the queues", func(s *packet.Settings) { s.Packet.Transport.AckQueueing = true }},
		{"a window of 126 packets", func(s *packet.Settings) { s.Congestion.DCQCN.Window = 126 * 4096 }},
		{"64 B of headers", func(s *packet.Settings) { s.Fabric.Header = 64 }},
		{"least rate 1 Gb/s instead of 0.1", func(s *packet.Settings) { s.Congestion.DCQCN.MinRate = units.Gbps }},
		{"a cut every 8 us instead of 4", func(s *packet.Settings) { s.Congestion.DCQCN.DecreaseInterval = 8 * sim.Microsecond }},
		{"alpha begins at 0.5 instead of 1", func(s *packet.Settings) { s.Congestion.DCQCN.InitialAlpha = 0.5 }},
	} {
		row(v.what, 10, 1, v.change)
	}
	return r.String()
}
