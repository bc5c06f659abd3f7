package packet

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// A window that a controller shrinks below the packets that a receiver
// acknowledges at once leaves nobody to wait for a timeout.
func TestSmallWindowsAreAcknowledged(t *testing.T) {
	for _, algorithm := range []string{"hpcc", "swift"} {
		for _, every := range []int{1, 4, 16} {
			s := preset(t, "default")
			s.Congestion.Algorithm = algorithm
			s.Packet.Transport.AckEvery = every
			b := newBench(t, s, build(t, ls128()))
			for _, m := range flowList(t, "flows_a2a32.csv") {
				b.net.Send(m, b)
			}
			f := summarise(b.run())
			require.Zero(t, b.net.Counters().Timeouts, "%s, an acknowledgement for %d packets", algorithm, every)
			require.Less(t, f.max, 1300.0, "%s, an acknowledgement for %d packets", algorithm, every)
		}
	}
}

// A window of fewer packets than a receiver acknowledges at once: the last of it
// asks for its acknowledgement, so each window takes one round trip.
func TestWindowBelowAckEvery(t *testing.T) {
	const packets = 100
	for window := range 5 {
		s := preset(t, "line-rate")
		s.Packet.Transport.WindowBDP, s.Congestion.None.Window = 0, units.Bytes(1+window)*4096
		s.Packet.Transport.AckEvery = 5
		b := newBench(t, s, build(t, star(2, 400*units.Gbps)))
		b.net.Send(fabric.Message{Src: 0, Dst: 1, Bytes: packets * 4096}, b)
		d := b.run()[0]
		require.Zero(t, b.net.Counters().Timeouts)
		rounds := sim.Time((packets - 1) / (1 + window))
		const rtt = 4*sim.Microsecond + 2*83_200*sim.Picosecond + 2*1280*sim.Picosecond
		require.InDelta(t, (rounds * (rtt + sim.Time(window)*83_200)).Microseconds(), d.Arrived.Microseconds(), 3)
	}
}

// What receivers cannot remember is not sent: a message of many reorder windows
// loses packets in a buffer that is far too small, and none for being too far ahead,
// which nobody would ask for again before a timeout each.
func TestSelectiveRepeatStaysInTheReorderWindow(t *testing.T) {
	const senders, packets = 4, 4096
	for _, algorithm := range []string{"dcqcn", "none"} {
		s := preset(t, "default")
		s.Congestion.Algorithm = algorithm
		s.Congestion.Buffer.Lossless, s.Congestion.Buffer.Size = nil, 2*units.MiB
		s.Packet.Transport.Recovery, s.Packet.Transport.ReorderWindow = RecoverySelective, 256
		s.Packet.Transport.WindowBDP, s.Packet.Transport.Timeout = 0, sim.Millisecond
		b := newBench(t, s, build(t, star(senders+1, 400*units.Gbps)))
		for i := range senders {
			b.net.Send(fabric.Message{Src: topology.GPU(1 + i), Bytes: packets * 4096}, b)
		}
		f := summarise(b.run())
		k := b.net.Counters()
		require.Positive(t, k.Dropped[DropQueue], algorithm)
		require.Zero(t, k.Dropped[DropReorderWindow], algorithm)
		const bound = senders * packets * 4178 * 8 / 400e3 // us, of the link to the receiver
		require.Less(t, f.max, 5*bound, algorithm)         // DCQCN has been cut far down by then
	}
}
