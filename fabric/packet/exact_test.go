package packet

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/sim"
)

// The reference's one flow, exactly (G1): 1 MiB is n = 256 packets of s = 83.2
// ns over 4 links of 1 us. The last packet arrives after (n-1+4) s + 4 us, and
// the acknowledgement takes 4 us and 4 x 1.28 ns back: 29.5539 us.
func TestOneFlow(t *testing.T) {
	for _, queueing := range []bool{false, true} {
		s := preset(t, "line-rate")
		s.Packet.Transport.AckQueueing = queueing
		b := newBench(t, s, build(t, ls128()))
		b.net.Send(fabric.Message{Src: 0, Dst: 127, Bytes: 1 << 20}, b)
		d := b.run()[0]
		require.Equal(t, 259*83_200*sim.Picosecond+4*sim.Microsecond, d.Arrived)
		require.Zero(t, d.Queue)
		// Now is the arrival of the last acknowledgement, the last event.
		require.Equal(t, 29_553_920*sim.Picosecond, b.engine.Now())
	}
}
