package metrics

import (
	"github.com/tgssim/tgssim/fabric/packet"
	"github.com/tgssim/tgssim/topology"
)

// Ports is what the switches and NICs of the packet engine saw, in all.
type Ports struct {
	// MaxQueue is the longest queue of data of any port, and P99Queue the longest of
	// the ports' 99th percentiles over time, in bytes.
	MaxQueue int64 `json:"max_queue_bytes"`
	P99Queue int64 `json:"p99_queue_bytes"`
	// MarkedShare is the data packets that a switch port marked over those that it
	// sent, all switch ports together; 0 when none were sent.
	MarkedShare float64 `json:"marked_share"`
	// Paused is for how long ports, NICs' included, were told to stop by PFC, summed
	// over ports and priorities, in milliseconds; Pauses is how often.
	Paused float64 `json:"paused_ms"`
	Pauses int64   `json:"pauses"`
	// Dropped is the packets that switches refused.
	Dropped int64 `json:"dropped_packets"`
	// LostOnLinks is the packets on links that had failed or did while they were on
	// it; Resent is the packets that NICs sent again, whatever for, and Timeouts how
	// often their retransmission timers went off.
	LostOnLinks int64 `json:"link_down_packets"`
	Resent      int64 `json:"retransmitted_packets"`
	Timeouts    int64 `json:"retransmission_timeouts"`
}

// PortsOf sums up the statistics of ports of a graph, and what its NICs counted.
func PortsOf(g *topology.Graph, ports []packet.PortStats, k packet.Counters) Ports {
	s := Ports{LostOnLinks: k.Dropped[packet.DropLinkDown], Resent: k.Retransmitted, Timeouts: k.Timeouts}
	var sent, marked int64
	for i := range ports {
		p := &ports[i]
		s.Paused += p.PausedFor.Milliseconds()
		s.Pauses += p.Pauses
		for _, n := range p.Dropped {
			s.Dropped += n
		}
		if g.Nodes[g.Links[p.Link].From].Kind <= topology.KindNIC {
			continue
		}
		s.MaxQueue = max(s.MaxQueue, int64(p.MaxDepth))
		s.P99Queue = max(s.P99Queue, int64(p.P99Depth))
		for c := range p.Packets {
			sent += p.Packets[c]
			marked += p.Marked[c]
		}
	}
	if sent > 0 {
		s.MarkedShare = float64(marked) / float64(sent)
	}
	return s
}
