package packet

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// Flows that share an uplink while others are idle move apart, in mid-flow and in
// order; those that are alone have no reason to.
func TestConWeaveMovesInMidFlow(t *testing.T) {
	last := map[string]float64{}
	for i := range uint64(20) {
		how, seed := []string{PathConWeave, PathECMP}[i%2], i/2
		s := chosen(t, how, "")
		require.NoError(t, s.Congestion.ECN.SetPreset("conweave"))
		c := bare(8, 2, 4)
		c.LinkDelay = sim.Microsecond
		b := newSeededBench(t, s, build(t, c), seed+1)
		for i := range topology.GPU(4) {
			b.net.Send(fabric.Message{Src: i, Dst: 4 + i, Bytes: 8 * units.MB}, b)
		}
		f := summarise(b.run())
		k := b.net.Counters()
		require.Zero(t, k.OutOfOrder)
		last[how] += f.max / 10
		t.Logf("%s: last %.1f us, %d moves, %d held", how, f.max, k.Moves, k.Held)
		require.Less(t, k.Moves, int64(40))
		require.Equal(t, (k.WeaveReplies+k.WeaveNotices)*84, k.WeaveBytes)
	}
	require.Less(t, last[PathConWeave], 0.7*last[PathECMP])
	s := chosen(t, PathConWeave, "")
	b := newBench(t, s, build(t, ls128()))
	b.net.Send(fabric.Message{Src: 0, Dst: 127, Bytes: units.MiB}, b)
	b.net.Send(fabric.Message{Src: 8, Dst: 9, Bytes: units.MiB}, b) // under one leaf
	d := b.run()
	require.Equal(t, d[0].Wire, d[0].Arrived-d[0].Posted, "it costs nothing alone")
	require.Equal(t, d[1].Wire, d[1].Arrived-d[1].Posted)
	k := b.net.Counters()
	require.Zero(t, k.Moves+k.Held)
	// 21.3 us of packets, one answer per round trip of 4 us and their times.
	require.InDelta(t, 5, k.WeaveReplies, 1)
}

// Should the tail be lost, what is held goes on when it is overdue, and the NIC
// asks for what is missing.
func TestConWeaveSurvivesLoss(t *testing.T) {
	s := chosen(t, PathConWeave, "")
	s.Congestion.Buffer.Lossless, s.Congestion.Buffer.Size = nil, 400*units.KB
	s.Packet.Transport.Timeout = 100 * sim.Microsecond
	c := bare(16, 2, 4)
	c.LinkDelay = sim.Microsecond
	b := newBench(t, s, build(t, c))
	for i := range topology.GPU(8) {
		for j := range topology.GPU(4) {
			b.net.Send(fabric.Message{Src: i, Dst: 8 + (i+j)%8, Bytes: units.MB}, b)
		}
	}
	b.run()
	k := b.net.Counters()
	require.Positive(t, k.Moves)
	require.Positive(t, k.Held)
	require.Positive(t, k.Dropped[DropPool]+k.Dropped[DropQueue])
	require.Less(t, b.engine.Now(), 20*sim.Millisecond)
}
