package packet

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// A Notice is something that a run should not pass over in silence.
type Notice struct {
	At sim.Time
	// Kind is "deadlock" or "unreachable".
	Kind string
	Text string
}

// Notices returns what has been noticed so far.
func (n *Network) Notices() []Notice {
	if n.faults.count == 0 {
		return n.notices
	}
	x := n.faults.gaveUp
	if others := n.faults.count - 1; others > 0 {
		x.Text += fmt.Sprintf(" (nor what %d other queue pairs send)", others)
	}
	return append(slices.Clone(n.notices), x)
}

// deadlockState drives the look-out.
type deadlockState struct {
	timer  sim.Timer
	armed  bool
	paused int // ports and priorities that are paused
	// stuck is scratch: a byte per link with a bit per priority.
	stuck []uint8
}

// watchDeadlock arms the next look, when a port is paused.
func (n *Network) watchDeadlock(now sim.Time) {
	every := n.config.Packet.DeadlockCheck
	if every == 0 || n.deadlock.armed || n.deadlocked {
		return
	}
	n.deadlock.armed = true
	n.engine.Arm(n.deadlock.timer, now+every)
}

// resumed counts a pause that has ended. With the last, the look-out ends too: it
// must not be what keeps a run going.
func (n *Network) resumed() {
	d := &n.deadlock
	if d.paused--; d.paused == 0 && d.armed {
		d.armed = false
		n.engine.Disarm(d.timer)
	}
}

// checkDeadlock looks for pauses that nothing will ever end.
//
// A paused port waits for the switch at the far end of its link to send on some
// of what came by that link; the switch sends XON when it does. So let S be all
// paused ports, and take out, until nothing changes, each port some packet of
// which waits at the far end at a port outside S: that packet will go. Whoever
// remains waits only for packets that wait behind S itself, and no other event
// can ever end the pauses: it is a deadlock, not a long wait.
func (n *Network) checkDeadlock(now sim.Time) {
	d := &n.deadlock
	d.armed = false
	if d.stuck == nil {
		d.stuck = make([]uint8, len(n.ports))
	}
	for l := range n.ports {
		d.stuck[l] = n.ports[l].paused
	}
	for changed := true; changed; {
		changed = false
		for l := range n.ports {
			for prio := uint8(prioShared); prio < numPrios; prio++ {
				if d.stuck[l]>>prio&1 != 0 && !n.blocked(uint32(l), prio) {
					d.stuck[l] &^= 1 << prio
					changed = true
				}
			}
		}
	}
	for l := range n.ports {
		if d.stuck[l] != 0 {
			n.deadlocked = true
			n.notices = append(n.notices, Notice{now, "deadlock", n.describe(uint32(l))})
			return
		}
	}
	n.watchDeadlock(now)
}

// blocked says whether all packets of a priority that came by a link wait behind
// stuck ports of the switch at its far end, there being some.
func (n *Network) blocked(l uint32, prio uint8) bool {
	found := false
	free := n.eachHeld(l, prio, func(out uint32) bool {
		found = true
		return n.deadlock.stuck[out]>>prio&1 == 0
	})
	return found && !free
}

// eachHeld calls f with the port of every packet of a priority that came by a
// link and waits, until f says to stop, and tells whether it did.
func (n *Network) eachHeld(l uint32, prio uint8, f func(out uint32) bool) bool {
	to := n.graph.Links[l].To
	if to < n.firstSwitch || !n.buffers[n.switchOf(to)].Paused(int(n.portIndex[l^1]), n.qos[prio]) {
		return false // a NIC drains by itself; or XON is on its way
	}
	for _, out := range n.graph.Out(to) {
		pt := &n.ports[out]
		if pt.backlog>>prio&1 == 0 {
			continue
		}
		for id := pt.queue[prio].head; id != none; id = n.packets[id].next {
			if n.routes[n.packets[id].at-1] == l && f(uint32(out)) {
				return true
			}
		}
	}
	return false
}

// describe names the circle that a stuck port leads to.
func (n *Network) describe(l uint32) string {
	seen := map[uint32]int{} // looked up, never ranged over
	var chain []uint32
	for {
		if at, ok := seen[l]; ok {
			chain = append(chain[at:], l)
			break
		}
		seen[l] = len(chain)
		chain = append(chain, l)
		next := none
		for prio := uint8(prioShared); prio < numPrios && next == none; prio++ {
			if n.deadlock.stuck[l]>>prio&1 != 0 {
				n.eachHeld(l, prio, func(out uint32) bool { next = out; return true })
			}
		}
		if next == none {
			break
		}
		l = next
	}
	names := make([]string, len(chain))
	for i, l := range chain {
		names[i] = n.graph.Links[topology.LinkID(l)].Name
	}
	return fmt.Sprintf("pauses wait for each other: %s; nothing of this can ever move again", strings.Join(names, " waits for "))
}
