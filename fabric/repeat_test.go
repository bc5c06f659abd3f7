package fabric

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// Runs that are repeated leave the same account as runs that take place, on
// every link and to the thousandth of a byte, whatever the units in between. Asking
// for the latency of a run tells that of its delivery and changes nothing.
func TestRepeat(t *testing.T) {
	for _, engine := range []string{"flow", "ideal"} {
		t.Run(engine, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				c := drawConfig(rt, engine)
				g, err := topology.LeafSpine(drawTopology(rt))
				require.NoError(rt, err)
				spec := drawSpec(rt, g)
				var benches [2]*bench
				var colls [2]Collective
				for i := range benches {
					benches[i] = newBench(rt, c, g)
					colls[i], err = benches[i].net.NewCollective(spec)
					require.NoError(rt, err)
				}
				for range 3 {
					us := rapid.SliceOfN(rapid.Int64Range(0, 50), spec.Ranks, spec.Ranks).Draw(rt, "units")
					more := rapid.Int64Range(-1, 9).Draw(rt, "times")
					for i, b := range benches {
						colls[i].SetUnits(us)
						latency := sim.Never
						if i == 1 {
							latency = colls[i].Latency()
						}
						colls[i].Start(0, 0, b)
						b.engine.Run()
						if d := b.deliveries[len(b.deliveries)-1]; i == 1 {
							require.Equal(rt, latency, d.Latency)
						}
					}
					for range more {
						colls[0].Start(0, 0, benches[0])
						benches[0].engine.Run()
					}
					before := benches[1].engine.Events()
					if rapid.Bool().Draw(rt, "units of the next run are known") {
						colls[1].SetUnits(nil) // they are not the last run's
					}
					colls[1].Repeat(more, sim.Microsecond)
					require.Zero(rt, benches[1].engine.Pending())
					require.Equal(rt, before, benches[1].engine.Events())
				}
				for _, b := range benches {
					b.idle()
				}
				require.Equal(rt, benches[0].net.sent, benches[1].net.sent)
				require.Equal(rt, benches[0].net.Totals(), benches[1].net.Totals())
				require.Equal(rt, benches[0].net.Loads(nil), benches[1].net.Loads(nil))
			})
		})
	}
}

// Repeating while a run is under way counts whole runs, and the one under way
// still ends.
func TestRepeatUnderWay(t *testing.T) {
	b := newBench(t, plain(), build(t, bare(2, 1, 0)))
	spec := CollectiveSpec{Name: "c", Class: ClassEP, Ranks: 1, Shares: []Share{{Src: 0, Dst: 1, Milli: 1_000_000}}}
	c := b.newCollective(spec, []int64{1000})
	c.Start(0, 0, b)
	b.engine.RunUntil(10 * sim.Microsecond)
	c.Repeat(4, 0)
	require.EqualValues(t, 4*units.MB, b.net.Totals().DeliveredBytes[ClassEP])
	require.EqualValues(t, 1*units.MB, b.net.Totals().InFlightBytes[ClassEP])
	b.run()
	require.EqualValues(t, 5, b.net.Totals().DeliveredMessages[ClassEP])
	require.EqualValues(t, 5*units.MB, b.net.Loads(nil)[b.net.pathOf(0, 1, 0, ClassEP)[0]].Payload[ClassEP])
}
