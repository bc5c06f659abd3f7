package packet

import (
	"github.com/tgssim/tgssim/congestion"
	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// A DropReason is why a packet was lost, or thrown away by its receiver.
type DropReason uint8

// The reasons. The first ones are the switch buffer's.
const (
	DropHeadroom      = DropReason(congestion.DropHeadroom) // a lossless packet beyond its headroom
	DropPool          = DropReason(congestion.DropPool)     // a lossy packet, shared memory full
	DropQueue         = DropReason(congestion.DropQueue)    // a lossy packet, queue at its threshold
	DropLinkDown      = DropQueue + 1                       // on a link that had failed, or did
	DropNIC           = DropQueue + 2                       // the receiving NIC's buffer was full
	DropOutOfOrder    = DropQueue + 3                       // go-back-N: not the next packet
	DropReorderWindow = DropQueue + 4                       // too far ahead for selective repeat
	NumDropReasons    = DropQueue + 5
)

// String names the reason.
func (d DropReason) String() string {
	return [...]string{"none", "headroom", "pool", "queue", "link-down", "nic-buffer", "out-of-order", "reorder-window"}[d]
}

// Counters count what has happened in the whole network. Packets are MTUs, also
// in trains.
type Counters struct {
	// Dropped counts packets by reason; the receivers' reasons are no losses.
	Dropped [NumDropReasons]int64
	// Retransmitted counts packets sent again, Timeouts the expiries of
	// retransmission timers, NACKs the requests of receivers.
	Retransmitted, Timeouts, NACKs int64
	// Duplicates counts packets that had arrived before, OutOfOrder those that
	// were not the next of their queue pair; MaxReorder is by how many packets
	// one was early at most.
	Duplicates, OutOfOrder, MaxReorder int64
	// Replies counts acknowledgements, NACKs and CNPs; CNPs those that arrived.
	Replies, CNPs int64
	// MarkedArrived counts packets that arrived with a congestion mark.
	MarkedArrived int64
	// Pauses counts XOFF frames, Flowlets the flowlets begun.
	Pauses, Flowlets int64
}

// Counters returns the counts as of now.
func (n *Network) Counters() Counters { return n.count }

// drop loses a packet.
func (n *Network) drop(id uint32, why DropReason) {
	n.discard(&n.packets[id], why)
	n.release(id)
}

// discard counts a packet that its receiver throws away.
func (n *Network) discard(p *packet, why DropReason) { n.count.Dropped[why] += int64(p.count) }

// Totals returns the conservation account as of now. A run of a collective is
// one message.
func (n *Network) Totals() fabric.Totals {
	var t fabric.Totals
	for c := range fabric.NumClasses {
		t.SentBytes[c], t.DeliveredBytes[c] = n.sent[c].bytes, n.delivered[c].bytes
		t.InFlightBytes[c] = t.SentBytes[c] - t.DeliveredBytes[c]
		t.SentMessages[c], t.DeliveredMessages[c] = n.sentCount[c], n.deliveredCount[c]
		t.InFlightMessages[c] = t.SentMessages[c] - t.DeliveredMessages[c]
	}
	return t
}

// Loads appends the load of every link, in link order, as of now. A packet
// counts when it begins its way over a link, each time that it is sent; Wire
// includes headers, and acknowledgements where they queue, and PFC frames.
func (n *Network) Loads(dst []fabric.LinkLoad) []fabric.LinkLoad {
	for _, c := range n.collectives {
		c.fold()
	}
	base := len(dst)
	dst = n.local.Loads(dst)
	for l := range n.ports {
		if n.isNVLink(topology.LinkID(l)) {
			continue
		}
		s := n.ports[l].load(n.train, n.mtu)
		load := fabric.LinkLoad{Link: topology.LinkID(l), Wire: units.Bytes(s.wire)}
		for c := range fabric.NumClasses {
			load.Payload[c] = units.Bytes(s.payload[c])
		}
		n.addRepeated(&load)
		dst[base+l] = load
	}
	return dst
}

// PortStats is what the sending end of a link has seen.
type PortStats struct {
	Link topology.LinkID
	// Wire is the bytes on the wire, Payload those of them that are payload.
	Wire    units.Bytes
	Payload [fabric.NumClasses]units.Bytes
	// Packets counts data packets by class and Marked those marked here; Control
	// counts queued acknowledgements and PFC frames.
	Packets, Marked [fabric.NumClasses]int64
	Control         int64
	// Dropped counts packets refused by the switch's buffer, by congestion.Drop.
	Dropped [4]int64
	// Pauses is how often the port was told to stop, PausedFor for how long, of
	// pauses that have ended, summed over priorities.
	Pauses    int64
	PausedFor sim.Time
	// MaxDepth is the most data bytes that have waited, MeanDepth their mean over
	// time since 0, P50Depth and P99Depth the depths not exceeded for so much of
	// the time, rounded up by at most a quarter. NICs' ports queue nothing.
	MaxDepth, P50Depth, P99Depth units.Bytes
	MeanDepth                    float64
}

// PortStats returns the statistics of the sending end of a link as of now.
func (n *Network) PortStats(l topology.LinkID) PortStats {
	pt, sp, ps := &n.ports[l], &n.switchPorts[l], &n.pauses[l]
	if now := n.engine.Now(); !pt.nic {
		sp.stats.observe(pt, now)
	}
	sent := pt.load(n.train, n.mtu)
	s := PortStats{
		Link: l, Packets: sent.packets, Marked: sp.stats.marked, Control: sent.control, Dropped: sp.stats.dropped,
		Pauses: ps.pauses, PausedFor: ps.pausedFor, MaxDepth: units.Bytes(sp.stats.most),
		P50Depth: sp.stats.quantile(50), P99Depth: sp.stats.quantile(99),
	}
	s.Wire = units.Bytes(sent.wire)
	for c, b := range sent.payload {
		s.Payload[c] = units.Bytes(b)
	}
	if sp.stats.since > 0 {
		s.MeanDepth = sp.stats.integral / float64(sp.stats.since)
	}
	return s
}

// quantile is the depth not exceeded for percent of the time.
func (s *portStats) quantile(percent int64) units.Bytes {
	var total, sum sim.Time
	for _, t := range s.span {
		total += t
	}
	for b, t := range s.span {
		sum += t
		if sum >= total/100*sim.Time(percent) {
			return units.Bytes(min(bucketTop(b), s.most))
		}
	}
	return units.Bytes(s.most)
}
