package packet

import (
	"fmt"

	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// Check recounts what is in flight, message by message and packet by packet, and
// says where the books do not balance. It looks at everything.
func (n *Network) Check() error {
	var bytes [fabric.NumClasses]volume
	var count [fabric.NumClasses]int64
	for i := range n.jobs {
		if j := &n.jobs[i]; j.live {
			bytes[j.class].add(j.milli)
			count[j.class]++
		}
	}
	for c := range fabric.NumClasses {
		sum := n.delivered[c]
		sum.add(bytes[c].milli)
		sum.bytes += bytes[c].bytes
		if sum != n.sent[c] || n.deliveredCount[c]+count[c] != n.sentCount[c] {
			return fmt.Errorf("class %v sent %v in %d messages, delivered and in flight are %v in %d",
				c, n.sent[c], n.sentCount[c], sum, n.deliveredCount[c]+count[c])
		}
	}
	free := 0
	for id := n.freePacket; id != none; id = n.packets[id].next {
		free++
	}
	if free+n.inUse != len(n.packets) {
		return fmt.Errorf("%d packets are free and %d in use, of %d", free, n.inUse, len(n.packets))
	}
	for i := range n.senders {
		if err := n.checkSender(uint32(i)); err != nil {
			return err
		}
	}
	held := make([]units.Bytes, len(n.buffers))
	for l := range n.ports {
		if err := n.checkPort(uint32(l), held); err != nil {
			return err
		}
	}
	if err := n.checkLanes(); err != nil {
		return err
	}
	if err := n.checkLeaves(held); err != nil {
		return err
	}
	if err := n.checkWeaving(held); err != nil {
		return err
	}
	for i, b := range n.buffers {
		if b.Use().Total != held[i] {
			return fmt.Errorf("switch %d accounts for %v, its queues hold %v", i, b.Use().Total, held[i])
		}
	}
	return nil
}

// checkNow panics when the books do not balance. It looks every so many events
// that an event costs the same whatever the size of the network.
func (n *Network) checkNow() {
	if n.untilCheck--; n.untilCheck >= 0 {
		return
	}
	n.untilCheck = len(n.packets) + len(n.ports) + len(n.jobs) + len(n.senders)
	if err := n.Check(); err != nil {
		panic("packet: " + err.Error())
	}
}

// checkPort walks the queues of a port and adds what a switch holds.
func (n *Network) checkPort(l uint32, held []units.Bytes) error {
	pt := &n.ports[l]
	for prio := range pt.queue {
		sum := uint32(0)
		if pt.backlog>>prio&1 != 0 {
			for id := pt.queue[prio].head; id != none; id = n.packets[id].next {
				sum += n.packets[id].wire
			}
		}
		name := n.graph.Links[l].Name
		if sum != pt.queue[prio].bytes || (sum == 0) != (pt.backlog>>prio&1 == 0) {
			return fmt.Errorf("queue %d of %s holds %d B and says %d", prio, name, sum, pt.queue[prio].bytes)
		}
		if sum > 0 && pt.paused>>prio&1 == 0 && pt.wake == sim.Never {
			return fmt.Errorf("queue %d of %s holds %d B and nothing will wake it", prio, name, sum)
		}
		if !pt.nic {
			held[pt.owner] += units.Bytes(sum)
		}
	}
	return nil
}

// checkSender checks the order of a queue pair's marks and that it is not
// forgotten: one that may send is in its NIC's ring or heap.
func (n *Network) checkSender(id uint32) error {
	q, r := &n.senders[id], &n.receivers[id]
	ordered := int32(q.next-q.una) >= 0 && int32(q.high-q.next) >= 0 && int32(q.end-q.high) >= 0 && int32(q.lastEnd-q.end) >= 0
	switch {
	case !ordered:
		return fmt.Errorf("queue pair %d: una %d, next %d, high %d, end %d, last %d", id, q.una, q.next, q.high, q.end, q.lastEnd)
	case int32(r.expected-q.una) < 0 || int32(q.high-r.expected) < 0:
		return fmt.Errorf("queue pair %d: the receiver expects %d between %d and %d", id, r.expected, q.una, q.high)
	case q.state == stateParked && q.active && n.canSend(id, q):
		return fmt.Errorf("queue pair %d may send and waits for nothing", id)
	case q.una != q.next && !q.timed && !n.deadlocked && !n.hasGivenUp(id):
		return fmt.Errorf("queue pair %d has packets under way and no timer", id)
	}
	return nil
}
