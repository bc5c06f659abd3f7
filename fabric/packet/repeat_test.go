package packet

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// Runs that are repeated leave the same account as runs that take place: to the
// byte on every link where each queue pair has one path; in sum over the links
// where packets are sprayed. Asking for the latency of a run tells that of its
// delivery and changes nothing.
func TestRepeat(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := unpaced()
		s.Packet.Path.Choice = rapid.SampledFrom([]string{PathECMP, PathSprayRoundRobin}).Draw(rt, "paths")
		s.Packet.Train = rapid.SampledFrom([]int{1, 4}).Draw(rt, "train")
		g := build(rt, drawTopology(rt))
		spec := fabric.CollectiveSpec{Name: "c", Class: fabric.ClassEP, Ranks: 2, QPs: rapid.IntRange(1, 3).Draw(rt, "qps")}
		gpu := rapid.IntRange(0, g.GPUs()-1)
		for range rapid.IntRange(0, 8).Draw(rt, "shares") {
			spec.Shares = append(spec.Shares, fabric.Share{
				Rank: rapid.IntRange(0, 1).Draw(rt, "rank"),
				Src:  topology.GPU(gpu.Draw(rt, "src")), Dst: topology.GPU(gpu.Draw(rt, "dst")),
				Milli: rapid.Int64Range(0, 1e7).Draw(rt, "milli"),
			})
		}
		var benches [2]*bench
		var colls [2]fabric.Collective
		for i := range benches {
			var err error
			benches[i] = newBench(rt, s, g)
			colls[i], err = benches[i].net.NewCollective(spec)
			require.NoError(rt, err)
		}
		for range 3 {
			units := []int64{rapid.Int64Range(0, 5).Draw(rt, "u0"), rapid.Int64Range(0, 5).Draw(rt, "u1")}
			more := rapid.Int64Range(-1, 5).Draw(rt, "times")
			for i, b := range benches {
				colls[i].SetUnits(units)
				latency := sim.Never
				if i == 1 {
					latency = colls[i].Latency()
				}
				colls[i].Start(0, 0, b)
				b.engine.RunUntil(sim.Never - 1)
				if d := b.deliveries[len(b.deliveries)-1]; i == 1 {
					require.Equal(rt, min(latency, d.Wire), d.Latency, "but for a short last packet")
				}
			}
			for range more {
				colls[0].Start(0, 0, benches[0])
				benches[0].engine.RunUntil(sim.Never - 1)
			}
			before := benches[1].engine.Events()
			if rapid.Bool().Draw(rt, "units of the next run are known") {
				colls[1].SetUnits(nil) // they are not the last run's
			}
			colls[1].Repeat(more, 0)
			require.Zero(rt, benches[1].engine.Pending())
			require.Equal(rt, before, benches[1].engine.Events())
		}
		for _, b := range benches {
			b.idle()
		}
		require.Equal(rt, benches[0].net.sent, benches[1].net.sent)
		require.Equal(rt, benches[0].net.Totals(), benches[1].net.Totals())
		want, got := benches[0].net.Loads(nil), benches[1].net.Loads(nil)
		if s.Packet.Path.Choice == PathECMP {
			require.Equal(rt, want, got)
			return
		}
		require.Equal(rt, sumOf(want), sumOf(got))
	})
}

// sumOf adds up loads over the links.
func sumOf(loads []fabric.LinkLoad) (sum fabric.LinkLoad) {
	for _, l := range loads {
		sum.Wire += l.Wire
		for c, b := range l.Payload {
			sum.Payload[c] += b
		}
	}
	return sum
}

// A skip is no rest: after it, the next run takes to the picosecond what it would
// have taken had there been no skip. Without being held it finds its queue pairs
// back at line rate, as they were before the first.
func TestRepeatHoldsPacing(t *testing.T) {
	const gap = 200 * sim.Microsecond
	runs := func(skip sim.Time, held bool) (each []sim.Time) {
		b := newBench(t, DefaultSettings(), build(t, star(17, 400_000_000_000)))
		spec := fabric.CollectiveSpec{Name: "incast", Class: fabric.ClassEP, Ranks: 1}
		for src := range topology.GPU(16) {
			spec.Shares = append(spec.Shares, fabric.Share{Src: src, Dst: 16, Milli: 1_000_000_000})
		}
		c, err := b.net.NewCollective(spec)
		require.NoError(t, err)
		c.SetUnits([]int64{1})
		next := sim.Time(0)
		for i := range 8 {
			b.at(next, func() {
				if i == 6 && held {
					c.Repeat(3, skip)
				}
				c.Start(0, 0, b)
			})
			b.engine.RunUntil(next + 10*sim.Millisecond)
			d := b.deliveries[i]
			each = append(each, d.Arrived-d.Posted)
			if next = d.Arrived + gap; i == 5 {
				next += skip
			}
		}
		return each
	}
	want := runs(0, false)
	require.Equal(t, want, runs(100*sim.Millisecond, true))
	rested := runs(100*sim.Millisecond, false)
	require.Equal(t, want[:6], rested[:6])
	require.NotEqual(t, want[6:], rested[6:])
}
