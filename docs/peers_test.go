package docs

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tgssim/tgssim/congestion"
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

// asNS3 is HPCC-ns3, whose clock counts whole nanoseconds: 4,144 B take it 82 ns
// at 400 Gb/s and 60 B one, as 4,100 B and 50 B would.
func asNS3(t *testing.T) packet.Settings {
	s := preset(t, "hpcc-ns3-dcqcn")
	s.Fabric.Header = 4
	s.Packet.Transport.AckQueueing, s.Packet.Transport.AckBytes = true, 50
	return s
}

// seedsOf is the number of hash seeds: the draw matters less to many flows, which
// take longer.
func seedsOf(list []fabric.Message) int {
	if len(list) > 200 {
		return 3
	}
	return 10
}

// within is mean and standard deviation beside a peer's figure.
func within(sample []float64, want span) []string {
	mean, sd := spread(sample)
	return []string{fmt.Sprintf("%.1f ± %.1f", mean, sd), want.String(), want.off(mean)}
}

func peersTable(t *testing.T) string {
	r := newRows("flows", "peer", "mean here, us", "peer", "difference", "p99 here, us", "peer", "difference")
	all := lists(t)
	row := func(list, peer string, s packet.Settings, want [2]span) {
		f := overSeeds(t, s, all[list], seedsOf(all[list]))
		r.row(append(append([]string{list, peer}, within(f.means, want[0])...), within(f.p99s, want[1])...)...)
	}
	for _, p := range peers {
		row(p.list, "HPCC-ns3", asNS3(t), p.ns3)
		row(p.list, "htsim", preset(t, "htsim-roce"), p.htsim)
	}
	return r.String()
}

// From our own lossless fabric to htsim's, one setting after the other.
func htsimTable(t *testing.T) string {
	r := newRows("flows", "", "mean here, us", "htsim", "difference", "p99 here, us", "htsim", "difference")
	for _, p := range peers[3:] {
		s := lossless(t)
		s.Packet.Transport.WindowBDP = 1.25
		row := func(what string, s packet.Settings) {
			f := overSeeds(t, s, lists(t)[p.list], 3)
			r.row(append(append([]string{p.list, what}, within(f.means, p.htsim[0])...), within(f.p99s, p.htsim[1])...)...)
		}
		row("thresholds of HPCC-ns3's buffers, a window", s)
		h := preset(t, "htsim-roce")
		s.Congestion.Buffer = h.Congestion.Buffer
		row("pauses from 15 packets on, until below 12", s)
		s.Packet.Transport.AckQueueing, s.Packet.Transport.AckBytes, s.Packet.Transport.AckEvery = true, 64, 1
		row("and acknowledgements in the queues", s)
		row("and no window: htsim-roce", h)
	}
	return r.String()
}

// HPCC-ns3's figures for two permutations, mean and 99th percentile.
var permutations = [][2]float64{{344.7, 826.9}, {350.8, 850}}

// A permutation under DCQCN: the draw of the hash, and what moves the mean and
// the tail.
func placementTable(t *testing.T) string {
	r := newRows("", "s1: mean, us", "peer's", "p99, us", "peer's", "s2: mean, us", "peer's", "p99, us", "peer's")
	row := func(what string, seeds int, change func(*packet.Settings)) {
		cells := []string{fmt.Sprintf("%s, %d seeds", what, seeds)}
		for i, ns3 := range permutations {
			s := asNS3(t)
			if change != nil {
				change(&s)
			}
			f := overSeeds(t, s, permutation(t, i+1), seeds)
			for j, sample := range [][]float64{f.means, f.p99s} {
				mean, sd := spread(sample)
				text := fmt.Sprintf("%.0f ± %.0f", mean, sd)
				if change == nil {
					text += fmt.Sprintf(" (%.0f to %.0f)", slices.Min(sample), slices.Max(sample))
				}
				cells = append(cells, text, one(ns3[j]).off(mean))
			}
		}
		r.row(cells...)
	}
	dcqcn := func(change func(*congestion.DCQCNConfig)) func(*packet.Settings) {
		return func(s *packet.Settings) { change(&s.Congestion.DCQCN) }
	}
	curve := func(kmin, kmax units.Bytes, pmax float64) func(*packet.Settings) {
		return func(s *packet.Settings) {
			s.Congestion.ECN.Thresholds = []congestion.ECNThresholds{{Rate: 400 * units.Gbps, Kmin: kmin, Kmax: kmax, Pmax: pmax}}
		}
	}
	row("as HPCC-ns3", 30, nil)
	for _, v := range []struct {
		what   string
		change func(*packet.Settings)
	}{
		{"Pmax 0.1 instead of 0.2", curve(1600*units.KB, 6400*units.KB, 0.1)},
		{"Kmax 11,200 KB instead of 6,400", curve(1600*units.KB, 11200*units.KB, 0.2)},
		{"marks at the queue's tail", func(s *packet.Settings) { s.Packet.MarkAt = "enqueue" }},
		{"4,144 B in 82.88 ns, acknowledgements beside the queues", func(s *packet.Settings) { *s = preset(t, "hpcc-ns3-dcqcn") }},
		{"least rate 1 Gb/s instead of 0.1", dcqcn(func(d *congestion.DCQCNConfig) { d.MinRate = units.Gbps })},
		{"a cut every 8 us instead of 4", dcqcn(func(d *congestion.DCQCNConfig) { d.DecreaseInterval = 8 * sim.Microsecond })},
		{"alpha begins at 0.5 instead of 1", dcqcn(func(d *congestion.DCQCNConfig) { d.InitialAlpha = 0.5 })},
		{"g 1/16 instead of 1/256", dcqcn(func(d *congestion.DCQCNConfig) { d.G = 1. / 16 })},
		{"CNPs 4 us apart instead of every mark", dcqcn(func(d *congestion.DCQCNConfig) {
			d.Notify, d.CNPInterval = congestion.NotifyCNP, 4*sim.Microsecond
		})},
	} {
		row(v.what, 5, v.change)
	}
	return r.String()
}

// Where marks are certain: thresholds that every collision exceeds at once.
func tightTable(t *testing.T) string {
	r := newRows("flows", "mean here, us", "HPCC-ns3", "difference", "p99 here, us", "HPCC-ns3", "difference")
	for _, p := range []struct {
		list      string
		mean, p99 float64
	}{{"incast32", 1057, 1131}, {"perm128_s1", 562.6, 1012.8}, {"perm128_s2", 562.3, 1006.8}, {"a2a32", 899.2, 1448.6}} {
		s := asNS3(t)
		s.Congestion.ECN.Thresholds = []congestion.ECNThresholds{{Rate: 400 * units.Gbps, Kmin: 100 * units.KB, Kmax: 400 * units.KB, Pmax: 0.2}}
		list := lists(t)[p.list]
		f := overSeeds(t, s, list, seedsOf(list))
		r.row(append(append([]string{p.list}, within(f.means, one(p.mean))...), within(f.p99s, one(p.p99))...)...)
	}
	return r.String()
}
