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
	// MarkedArrived counts packets that arrived with a congestion mark, a train as
	// one.
	MarkedArrived int64
	// Pauses counts XOFF frames, Flowlets the flowlets begun.
	Pauses, Flowlets int64
	// Moves counts how often telemetry, or ConWeave, has moved a queue pair to
	// another path; telemetry also from that of its hash, before its first packet.
	// Reports counts the telemetry that came back for it, with acknowledgements and
	// probes, and ReportAge sums up how long before its first switch had stamped it.
	// Probes counts probes, ProbeBytes theirs and their answers' on the wire.
	Moves, Reports, Probes, ProbeBytes int64
	ReportAge                          sim.Time
	// CreditRequests, CreditGrants and CreditReturns count the control messages of
	// receiver credits, CreditBytes is theirs on the wire of each link of their way,
	// CreditTime what they have taken of the link's time that has had the most of it.
	// CreditExpired is what was granted and counted as lost. CreditWaits counts the times that a queue pair or
	// DGSQ with something new to send had no credit, CreditWaitTime sums up how long
	// until it sent.
	CreditRequests, CreditGrants, CreditReturns, CreditBytes, CreditExpired, CreditWaits int64
	CreditWaitTime, CreditTime                                                           sim.Time
	// WeaveReplies and WeaveNotices count the answers and the notices of marks between
	// ConWeave's leaves, WeaveBytes theirs on the wire.
	WeaveReplies, WeaveNotices, WeaveBytes int64
	// Held counts packets that waited at their NIC for a container before theirs, or
	// at their leaf for ConWeave's old path, HeldTime sums up how long; MaxHeld is the
	// most bytes that a NIC or leaf has held.
	// SkippedContainers, LateInContainer and LostInContainer are what its timeouts
	// gave up, what came after that, and what never came. MaxDGSQs is the most
	// DGSQs that a NIC has had.
	Held, MaxHeld, SkippedContainers, LateInContainer, LostInContainer, MaxDGSQs int64
	HeldTime                                                                     sim.Time
	// ContainerHeaderBytes is what the headers of containers have added to what NICs
	// have sent, MaxStateBytes what a NIC, or leaf, needs at most for DGSQs (80 B each,
	// and 12 B per destination), what uplinks have been given (8 B each, in a leaf for
	// every leaf), and sequencers (96 B per source and 16 B per container of the
	// window), beside MaxHeld.
	ContainerHeaderBytes, MaxStateBytes int64
}

// lost is how many packets never reached their receiver.
func (k *Counters) lost() (sum int64) {
	for _, d := range []DropReason{DropHeadroom, DropPool, DropQueue, DropLinkDown, DropNIC} {
		sum += k.Dropped[d]
	}
	return sum
}

// Counters returns the counts as of now.
func (n *Network) Counters() Counters {
	k := n.count
	if n.credits != nil {
		n.countMessages(&k)
		n.countContainers(&k)
	}
	return k
}

// drop loses a packet.
func (n *Network) drop(id uint32, why DropReason) {
	p := &n.packets[id]
	n.discard(p, why)
	if n.atLeaves && p.flags&flagReply == 0 && int(id) < len(n.credits.tags) && n.credits.tags[id].pushed {
		n.depart(id, p, n.engine.Now())
	}
	if n.promised != nil && p.flags&flagReply == 0 {
		n.promise(p.at, -int64(p.wire))
	}
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
	// Dropped counts packets refused by the switch's buffer, by congestion.Drop,
	// DroppedOf those of each class.
	Dropped   [4]int64
	DroppedOf [fabric.NumClasses][4]int64
	// Pauses is how often the port was told to stop, PausedFor for how long, of
	// pauses that have ended, summed over priorities. PausesOf and PausedForOf are
	// those that stopped each class; where all data share a queue they are the same.
	Pauses      int64
	PausedFor   sim.Time
	PausesOf    [fabric.NumClasses]int64
	PausedForOf [fabric.NumClasses]sim.Time
	// Depth is of all data bytes that wait, DepthOf of the queue that a class uses.
	// NICs' ports queue nothing.
	Depth
	DepthOf [fabric.NumClasses]Depth
}

// A Depth is how long a queue has been since 0: at most, the lengths not exceeded
// for so much of the time, rounded up by at most a quarter, and the mean over time.
type Depth struct {
	MaxDepth, P50Depth, P99Depth units.Bytes
	MeanDepth                    float64
}

// PortStats returns the statistics of the sending end of a link as of now.
func (n *Network) PortStats(l topology.LinkID) PortStats {
	pt, sp, ps := &n.ports[l], &n.switchPorts[l], &n.pauses[l]
	now := n.engine.Now()
	if !pt.nic {
		sp.stats.observe(pt.queue[prioShared].bytes+pt.queue[prioEP].bytes, now)
	}
	sent := pt.load(n.train, n.mtu)
	s := PortStats{
		Link: l, Packets: sent.packets, Marked: sp.stats.marked, Control: sent.control,
		DroppedOf: sp.stats.dropped, Depth: sp.stats.sum(), Wire: units.Bytes(sent.wire),
	}
	for c, b := range sent.payload {
		s.Payload[c] = units.Bytes(b)
		prio := n.prioOf[c]
		s.PausesOf[c], s.PausedForOf[c] = ps.pauses[prio], ps.pausedFor[prio]
		for why, k := range s.DroppedOf[c] {
			s.Dropped[why] += k
		}
		s.DepthOf[c] = s.Depth
		if n.depths != nil && !pt.nic {
			n.observeQueue(uint32(l), pt, int(prio), now)
			s.DepthOf[c] = n.depths[l][prio-prioShared].sum()
		}
	}
	for prio := range ps.pauses {
		s.Pauses += ps.pauses[prio]
		s.PausedFor += ps.pausedFor[prio]
	}
	return s
}

// sum is the statistics of a queue.
func (s *depth) sum() Depth {
	d := Depth{MaxDepth: units.Bytes(s.most), P50Depth: s.quantile(50), P99Depth: s.quantile(99)}
	if s.since > 0 {
		d.MeanDepth = s.integral / float64(s.since)
	}
	return d
}

// quantile is the depth not exceeded for percent of the time.
func (s *depth) quantile(percent int64) units.Bytes {
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
