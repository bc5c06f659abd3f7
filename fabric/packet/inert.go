package packet

import (
	"strconv"

	"github.com/tgssim/tgssim/internal/units"
)

// acted remembers which settings have had an effect that no counter shows.
type acted struct {
	requestLimit, qpLimit, wqe, drain bool
}

// An Inert is a setting that was chosen and has not acted: the run would have
// gone the same without it.
type Inert struct {
	// Setting is its key.
	Setting string
	// Why says what would have had to happen.
	Why string
}

// Inert lists the settings that have not acted so far, and why.
func (n *Network) Inert() []Inert {
	var list []Inert
	add := func(inert bool, setting, why string) {
		if inert {
			list = append(list, Inert{setting, why})
		}
	}
	c, k := n.config, &n.count
	var marked, depth int64
	for l := range n.switchPorts {
		s := &n.switchPorts[l].stats
		depth = max(depth, int64(s.most))
		for _, m := range s.marked {
			marked += m
		}
	}
	dcqcn := c.Congestion.Algorithm == "dcqcn"
	add(marked == 0, "congestion.ecn", "no packet was marked: the longest queue was "+
		bytesText(depth)+", the least kmin is "+bytesText(int64(n.leastKmin)))
	add(dcqcn && k.CNPs == 0 && marked == 0, "congestion.dcqcn", "no sender was ever notified of congestion, so all sent at line rate")
	add(!dcqcn && marked > 0, "congestion.ecn", "packets were marked, but congestion control is "+c.Congestion.Algorithm+" and does not listen")
	add(len(c.Congestion.Buffer.Lossless) > 0 && k.Pauses == 0, "congestion.buffer.lossless",
		"nothing was ever paused: no ingress group reached its threshold; the longest queue was "+bytesText(depth))
	lost := int64(0)
	for _, d := range []DropReason{DropHeadroom, DropPool, DropQueue, DropLinkDown, DropNIC} {
		lost += k.Dropped[d]
	}
	add(lost == 0 && k.Retransmitted == 0, "packet.transport.recovery", "no packet was lost or sent again")
	add(c.Packet.Path.Choice == PathFlowlet && k.Flowlets <= int64(len(n.senders)), "packet.path.flowlet_gap",
		"no queue pair ever paused that long, so none changed its path")
	add(sprays(c.Packet.Path.Choice) && k.OutOfOrder == 0, "packet.transport.reorder_window", "no packet arrived out of order")
	add(c.Packet.NIC.MaxQPs > 0 && !n.acted.qpLimit, "packet.nic.max_qps", "no NIC had so many queue pairs with work at once")
	add(c.Packet.NIC.MaxRequests > 0 && !n.acted.requestLimit, "packet.nic.max_requests", "no queue pair had so many work requests under way")
	add(c.Packet.NIC.RequestCost > 0 && !n.acted.wqe, "packet.nic.request_cost", "no work request was posted to a NIC")
	add(c.Packet.NIC.DrainRate > 0 && !n.acted.drain, "packet.nic.drain_rate", "no NIC's receive buffer ever filled to half")
	add(c.Packet.Queues.Mode != "shared" && (n.sentCount[0] == 0 || n.sentCount[1] == 0), "packet.queues.mode",
		"only one traffic class was used between servers")
	return list
}

// bytesText prints a number of bytes.
func bytesText(b int64) string {
	text, err := units.Bytes(b).MarshalText()
	if err != nil {
		return strconv.FormatInt(b, 10) + "B"
	}
	return string(text)
}
