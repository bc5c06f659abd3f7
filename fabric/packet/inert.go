package packet

import (
	"fmt"

	"github.com/tgssim/tgssim/congestion"
)

// acted remembers which settings have had an effect that no counter shows.
type acted struct {
	requestLimit, qpLimit, wqe, drain bool
	cut                               bool // a controller has made a window or a rate smaller
	stopped                           bool // a DGSQ has stopped its queue pairs
	weight                            int  // of the source of credits that was weighed last
	unlike                            bool // another's was not the same
}

// An Inert is a setting that was chosen and has not acted: the run would have
// gone the same without it.
type Inert struct {
	// Setting is its key.
	Setting string
	// Why says what would have had to happen.
	Why string
	// IfWritten is that the setting is worth a word only when somebody has written
	// it: left to its default it says nothing.
	IfWritten bool
}

// Inert lists the settings that have not acted so far, and why.
func (n *Network) Inert() []Inert {
	var list []Inert
	add := func(inert bool, setting, why string) {
		if inert {
			list = append(list, Inert{Setting: setting, Why: why})
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
	algorithm := c.Congestion.Algorithm
	dcqcn, controlled := algorithm == "dcqcn", len(n.nics) > 0 && n.nics[0].ctl != nil
	add(marked == 0, "congestion.ecn", "no packet was marked: the longest queue was "+
		bytesText(depth)+", the least kmin is "+bytesText(int64(n.leastKmin)))
	add(dcqcn && k.CNPs == 0 && marked == 0, "congestion.dcqcn", "no sender was ever notified of congestion, so all sent at line rate")
	add(controlled && !n.acted.cut, "congestion."+algorithm, "nobody was ever slowed down: all sent at line rate")
	add(n.credits != nil && k.CreditGrants == 0, "congestion."+algorithm, "nothing was ever pulled: all was sent before the first grant")
	add(!congestion.NeedsOf(c.Congestion).Marks && marked > 0, "congestion.ecn", "packets were marked, but congestion control is "+algorithm+" and does not listen")
	add(len(c.Congestion.Buffer.Lossless) > 0 && k.Pauses == 0, "congestion.buffer.lossless",
		"nothing was ever paused: no ingress group reached its threshold; the longest queue was "+bytesText(depth))
	add(k.lost() == 0 && k.Retransmitted == 0, "packet.transport.recovery", "no packet was lost or sent again")
	add(c.Packet.Path.Choice == PathFlowlet && k.Flowlets <= int64(len(n.senders)), "packet.path.flowlet_gap",
		"no queue pair ever paused that long, so none changed its path")
	how := c.Packet.Path.Choice
	add(how == PathINT && k.Moves == 0, "packet.path.int", "telemetry never moved a queue pair")
	add(how == PathCONGA && k.Flowlets <= int64(len(n.senders)), "packet.path.conga",
		"no queue pair ever paused for the flowlet gap, so none changed its path")
	add(how == PathConWeave && k.Moves == 0, "packet.path.conweave", "no answer was ever late where another path was free, so no flow moved")
	add(how == PathINT && n.config.Packet.Path.INT.ProbeInterval > 0 && k.Probes == 0, "packet.path.int.probe_interval",
		"every path was heard of sooner")
	add(c.Packet.Path.reorders() && k.OutOfOrder == 0, "packet.transport.reorder_window", "no packet arrived out of order")
	add(c.Packet.NIC.MaxQPs > 0 && !n.acted.qpLimit, "packet.nic.max_qps", "no NIC had so many queue pairs with work at once")
	add(c.Packet.NIC.MaxRequests > 0 && !n.acted.requestLimit, "packet.nic.max_requests", "no queue pair had so many work requests under way")
	add(c.Packet.NIC.RequestCost > 0 && !n.acted.wqe, "packet.nic.request_cost", "no work request was posted to a NIC")
	add(c.Packet.NIC.DrainRate > 0 && !n.acted.drain, "packet.nic.drain_rate", "no NIC's receive buffer ever filled to half")
	add(c.Packet.Queues.Mode != "shared" && (n.sentCount[0] == 0 || n.sentCount[1] == 0), "packet.queues.mode",
		"only one traffic class was used between servers")
	return n.idle(list)
}

// Advice says where settings contradict each other, in sentences without their
// end.
func (n *Network) Advice() (list []string) {
	c, p := n.config.Congestion, n.config.Packet
	if every := p.Transport.AckEvery; congestion.NeedsOf(c).INT && every > 1 {
		list = append(list, fmt.Sprintf("congestion.algorithm %s hears of its path once in %d packets, as packet.transport.ack_every says; it is made for 1", c.Algorithm, every))
	}
	if lost := n.count.Dropped[DropHeadroom]; lost > 0 {
		list = append(list, fmt.Sprintf("congestion.buffer.headroom is too small for PFC to be lossless: %d packets were dropped; "+
			"the preset derived has what is needed", lost))
	}
	if k := &n.count; k.Timeouts > 0 && k.lost() == 0 {
		text := fmt.Sprintf("packet.transport.timeout, %v, is shorter than what packets wait in queues and behind pauses: it expired %d times though none was lost",
			p.Transport.Timeout, k.Timeouts)
		if usual := DefaultConfig().Transport.Timeout; p.Transport.Timeout < usual {
			text += fmt.Sprintf("; the default is %v", usual)
		}
		list = append(list, text)
	}
	if n.count.Pauses > 0 && n.pausesFirst() {
		list = append(list, n.pausedFirst())
	}
	return list
}

// pausesFirst says whether PFC stops a port that is alone before ECN marks there.
func (n *Network) pausesFirst() bool {
	return congestion.NeedsOf(n.config.Congestion).Marks && n.pauseAlone < n.leastKmin
}

func (n *Network) pausedFirst() string {
	return fmt.Sprintf("congestion.ecn hardly acts: one port is paused at %s, before its packets queue to the least kmin, %s; "+
		"lower kmin, or raise congestion.buffer.alpha", bytesText(int64(n.pauseAlone)), bytesText(int64(n.leastKmin)))
}

// Doubts says before a run what of the settings of PFC cannot be as it was meant,
// in sentences without their end; what of it has come true is in Advice.
func (n *Network) Doubts() (list []string) {
	if len(n.config.Congestion.Buffer.Lossless) == 0 {
		return nil
	}
	if x := n.short; x.needs > x.have {
		link := &n.graph.Links[x.link]
		list = append(list, fmt.Sprintf("congestion.buffer.headroom, %s, is too small for PFC to be lossless: %s needs %s at %v and %v; the preset derived has what is needed",
			bytesText(int64(x.have)), link.Name, bytesText(int64(x.needs)), link.Rate, link.Delay))
	}
	if n.pausesFirst() {
		list = append(list, n.pausedFirst())
	}
	return list
}

// idle appends the settings that cannot act beside the others that were chosen.
func (n *Network) idle(list []Inert) []Inert {
	add := func(inert bool, setting, why string) {
		if inert {
			list = append(list, Inert{setting, why, true})
		}
	}
	c, p := n.config.Congestion, n.config.Packet
	add(n.windowBDP == 0 && p.Transport.WindowBDP > 0, "packet.transport.window_bdp",
		"it is the window where congestion.algorithm is none and has no window of its own; here it is "+c.Algorithm)
	gse := c.Algorithm == "gse"
	add(gse && !n.atLeaves && !n.acted.stopped, "congestion.gse.stop_bytes", "no DGSQ ever had so much to send")
	add(n.atLeaves, "congestion.gse.stop_bytes", "leaves stop NICs by PFC; they know nothing else")
	if n.credits != nil {
		at := "congestion." + c.Algorithm + "."
		if gse {
			at += "credit."
		}
		add(n.credits.weighted && !n.acted.unlike, at+"order", "all sources had the same weight, so it was round-robin")
		for _, key := range []string{"kv_weight", "ep_weight", "per_queue_pair"} {
			add(!n.credits.weighted, at+key, "the order of grants is round-robin")
		}
	}
	add(gse && n.count.Held == 0, "congestion.gse.reorder_window", "no packet had to wait for a container before its own")
	for _, name := range congestion.Algorithms() {
		add(c.Algorithm != name, "congestion."+name, "congestion control is "+c.Algorithm)
	}
	add(n.telemetry == nil, "congestion.int", "nothing reads telemetry, so switches stamp none")
	add(!n.selective, "packet.transport.reorder_window", "recovery is go-back-N, which takes nothing out of order")
	add(!n.selective, "packet.transport.reorder_tolerance", "recovery is go-back-N, which takes nothing out of order")
	add(p.Path.Choice != PathStatic, "packet.path.index", "it chooses among static paths, and the choice is "+p.Path.Choice)
	add(p.Path.Choice != PathFlowlet, "packet.path.flowlet_gap", "the choice of path is "+p.Path.Choice)
	add(p.Path.Choice != PathINT, "packet.path.int", "the choice of path is "+p.Path.Choice)
	add(p.Path.Choice != PathCONGA, "packet.path.conga", "the choice of path is "+p.Path.Choice)
	add(p.Path.Choice != PathConWeave, "packet.path.conweave", "the choice of path is "+p.Path.Choice)
	add(!n.spraying, "packet.path.max_paths", "a queue pair has one path, as the choice is "+p.Path.Choice)
	add(p.Queues.Mode != "weighted", "packet.queues.kv_weight", "the queues are "+p.Queues.Mode)
	add(p.Queues.Mode != "weighted", "packet.queues.ep_weight", "the queues are "+p.Queues.Mode)
	add(p.NIC.DrainRate == 0, "packet.nic.drain_buffer", "without drain_rate a NIC takes in what comes at once")
	add(n.count.Pauses == 0, "packet.pause_response", "nothing was ever paused")
	add(!n.faulty, "packet.fault_detection", "there are no faults")
	return list
}

// bytesText prints a number of bytes to three digits or four: 25.7 MB.
func bytesText(b int64) string {
	switch v := float64(b); {
	case b >= 999_950_000:
		return fmt.Sprintf("%.3g GB", v/1e9)
	case b >= 999_950:
		return fmt.Sprintf("%.3g MB", v/1e6)
	case b >= 1000:
		return fmt.Sprintf("%.4g KB", v/1e3)
	}
	return fmt.Sprintf("%d B", b)
}
