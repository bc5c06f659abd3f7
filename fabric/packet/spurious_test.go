package packet

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// A retransmission timeout far below the queueing delay goes off while nothing
// is lost: senders go back, and the acknowledgements of what they are to send
// again overtake them while they wait for their turn at the NIC. Everything still
// arrives, and nobody sends what it has not got.
func TestSpuriousTimeouts(t *testing.T) {
	for _, how := range []string{RecoveryGoBackN, RecoverySelective} {
		s := preset(t, "line-rate")
		s.Packet.Transport.Recovery = how
		s.Packet.Transport.Timeout = 20 * sim.Microsecond
		b := newBench(t, s, build(t, ls128()))
		sent := 0
		for src := range 8 { // many queue pairs share each NIC, and all go to one
			for i := range 6 {
				b.net.Send(fabric.Message{Src: topology.GPU(8 + src), Dst: 64, Bytes: 64 * 8192, QPs: 64, Tag: uint64(i)}, b)
				sent++
			}
		}
		require.Len(t, b.run(), sent)
		k := b.net.Counters()
		require.Positive(t, k.Timeouts, how)
		require.Zero(t, k.Dropped[DropPool]+k.Dropped[DropQueue]+k.Dropped[DropHeadroom], how)
		t.Logf("%s: %d timeouts, %d sent again", how, k.Timeouts, k.Retransmitted)
	}
}
