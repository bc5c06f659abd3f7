package packet

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/topology"
)

// What a port has seen of each class adds up to what it has seen: packets that
// were dropped, pauses and their time, and the mean depth of the two queues. A
// class that strictly goes first waits less.
func TestStatsByClass(t *testing.T) {
	run := func(mode string, s Settings) PortStats {
		s.Packet.Queues.Mode = mode
		b := newBench(t, s, build(t, star(9, 400*units.Gbps)))
		for i := range 8 {
			b.net.Send(fabric.Message{Src: topology.GPU(1 + i), Bytes: 2 << 20, Class: fabric.Class(i % 2)}, b)
		}
		b.run()
		g := b.net.graph
		nic, down := PortStats{}, b.net.PortStats(g.NextHops(g.LeafOf(g.NICOf(0)), g.NICOf(0))[0])
		for i := range 8 {
			x := b.net.PortStats(topology.LinkID(b.net.nics[1+i].port))
			nic.Pauses += x.Pauses
			require.Equal(t, Depth{}, x.DepthOf[0])
			sum := int64(0)
			for c := range fabric.NumClasses {
				nic.PausesOf[c] += x.PausesOf[c]
				sum += int64(x.PausedForOf[c])
			}
			if mode != "shared" {
				require.EqualValues(t, x.PausedFor, sum)
			}
		}
		down.Pauses, down.PausesOf = nic.Pauses, nic.PausesOf
		return down
	}
	pfc := lossless(t)
	pfc.Congestion.Buffer.Lossless = []int{3, 4}
	pfc.Congestion.Buffer.StaticThreshold = 200 * units.KB
	pfc.Congestion.Buffer.Size = units.GiB
	for _, s := range []Settings{pfc, lossy(t, 300*units.KB)} {
		for _, mode := range []string{"strict", "weighted"} {
			x := run(mode, s)
			require.Equal(t, x.Pauses, x.PausesOf[0]+x.PausesOf[1])
			require.InEpsilon(t, x.MeanDepth, x.DepthOf[0].MeanDepth+x.DepthOf[1].MeanDepth, 1e-9)
			for c := range fabric.NumClasses {
				require.Positive(t, x.DepthOf[c].MaxDepth)
				require.LessOrEqual(t, x.DepthOf[c].MaxDepth, x.MaxDepth)
				require.LessOrEqual(t, x.DepthOf[c].P50Depth, x.DepthOf[c].P99Depth)
			}
			for why, k := range x.Dropped {
				require.Equal(t, k, x.DroppedOf[0][why]+x.DroppedOf[1][why])
			}
			if mode == "strict" {
				require.Less(t, x.DepthOf[fabric.ClassEP].MeanDepth, x.DepthOf[fabric.ClassKV].MeanDepth)
			}
			if len(s.Congestion.Buffer.Lossless) > 0 {
				require.Positive(t, x.PausesOf[0])
			} else {
				require.Positive(t, x.DroppedOf[0][2]+x.DroppedOf[0][3])
			}
		}
		x := run("shared", s)
		require.Equal(t, x.Depth, x.DepthOf[0])
		require.Equal(t, x.Depth, x.DepthOf[1])
		require.Equal(t, x.Pauses, x.PausesOf[1])
	}
}
