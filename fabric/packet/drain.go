package packet

import (
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// A drain is the receive buffer of a NIC whose way to the GPU's memory is slower
// than its port.
type drain struct {
	queue  fifo
	filled bool // queue has somebody
	used   units.Bytes
	paused [numPrios]bool // told the leaf to stop
	link   uint32         // the leaf's link to the NIC
}

// drainLater puts a data packet into its NIC's receive buffer.
func (n *Network) drainLater(id uint32, p *packet, now sim.Time) {
	at := n.receivers[p.qp].nic
	rx := &n.nics[at].rx
	room := n.config.Packet.NIC.DrainBuffer
	for rx.used+units.Bytes(p.wire) > room {
		if n.shorten(id, p, DropNIC); p.count == 0 {
			return
		}
	}
	size := units.Bytes(p.wire)
	rx.used += size
	rx.link = n.routes[p.at-1]
	if !rx.filled {
		n.engine.At(now+n.drainRate.Time(size), n.self, evDrain, at)
	}
	rx.queue.push(n.packets, id, !rx.filled)
	rx.filled = true
	if rx.used > room/2 && !rx.paused[p.prio] {
		rx.paused[p.prio] = true
		n.acted.drain = true
		n.sendPause(rx.link, p.prio, true, now)
	}
}

// drained hands the first packet of a NIC's receive buffer over.
func (n *Network) drained(at uint32, now sim.Time) {
	rx := &n.nics[at].rx
	id, empty := rx.queue.pop(n.packets)
	rx.filled = !empty
	rx.used -= units.Bytes(n.packets[id].wire)
	if !empty {
		n.engine.At(now+n.drainRate.Time(units.Bytes(n.packets[rx.queue.head].wire)), n.self, evDrain, at)
	}
	if rx.used <= n.config.Packet.NIC.DrainBuffer/4 {
		for prio := range rx.paused {
			if rx.paused[prio] {
				rx.paused[prio] = false
				n.sendPause(rx.link, uint8(prio), false, now)
			}
		}
	}
	n.accept(id, &n.packets[id], now)
}
