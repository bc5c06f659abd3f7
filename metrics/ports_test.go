package metrics_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/fabric/packet"
	"github.com/tgssim/tgssim/metrics"
	"github.com/tgssim/tgssim/topology"
)

func TestPortsByHand(t *testing.T) {
	cfg := topology.DefaultConfig()
	cfg.Nodes, cfg.Leaves, cfg.Spines = 2, 2, 1
	g, err := topology.LeafSpine(cfg)
	require.NoError(t, err)
	link := func(from, to topology.Kind) topology.LinkID {
		for l := range g.Links {
			if g.Nodes[g.Links[l].From].Kind == from && g.Nodes[g.Links[l].To].Kind == to {
				return topology.LinkID(l)
			}
		}
		t.Fatal("no such link")
		return 0
	}
	nic := packet.PortStats{Link: link(topology.KindNIC, topology.KindLeaf), Pauses: 3, PausedFor: 5 * ms}
	nic.Packets[0] = 1000 // were sent by no switch
	up := packet.PortStats{Link: link(topology.KindLeaf, topology.KindSpine), Pauses: 1, PausedFor: 2 * ms}
	up.Packets[0], up.Marked[0], up.Packets[1], up.Marked[1] = 60, 10, 20, 10
	up.MaxDepth, up.P99Depth = 5000, 300
	up.Dropped[1], up.Dropped[3] = 4, 5
	down := packet.PortStats{Link: link(topology.KindSpine, topology.KindLeaf)}
	down.Packets[0], down.MaxDepth, down.P99Depth, down.Dropped[2] = 20, 400, 400, 1
	k := packet.Counters{Retransmitted: 12, Timeouts: 2}
	k.Dropped[packet.DropQueue], k.Dropped[packet.DropLinkDown] = 10, 3
	require.Equal(t, metrics.Ports{
		MaxQueue: 5000, P99Queue: 400, MarkedShare: 0.2, Paused: 7, Pauses: 4, Dropped: 10,
		LostOnLinks: 3, Resent: 12, Timeouts: 2,
	}, metrics.PortsOf(g, []packet.PortStats{nic, up, down}, k))
	require.Equal(t, metrics.Ports{Paused: 5, Pauses: 3}, metrics.PortsOf(g, []packet.PortStats{nic}, packet.Counters{}), "no switch, no share")
}
