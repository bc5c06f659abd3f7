package packet

// none is the absence of a packet, queue pair, work request or place.
const none = ^uint32(0)

// A packet is what moves: one MTU with its headers, a train of them (whose MTUs
// are numbered through), or an acknowledgement on its way back. It is 32 bytes without pointers; packets are
// named by their place in Network.packets, and places are reused.
type packet struct {
	qp  uint32
	seq uint32 // of data, of its first MTU; of an acknowledgement, the next one expected
	// next is the packet behind it in a queue, or in the free list.
	next uint32
	// at is the place in Network.routes of the link that the packet waits for, or
	// is about to: the one before is the link that it came by.
	at      uint32
	wire    uint32 // bytes on the wire, headers, preamble and gap included
	payload uint32 // of data; of a NACK, the number of packets that are missing
	prio    uint8
	class   uint8
	flags   flags
	count   uint8  // MTUs: 1, or more in a train
	sent    uint32 // time stamp of data, see nanoseconds; 0 is none
}

// flags are the bits of a packet's header that matter here.
type flags uint8

const (
	flagMarked    flags = 1 << iota // congestion experienced; on an ACK, its echo
	flagNack                        // an acknowledgement that asks for packets again
	flagCNP                         // a congestion notification packet
	flagReply                       // travels back from the receiver
	flagAgain                       // a retransmission
	flagProbe                       // asks the receiver for all that it misses
	flagTelemetry                   // a probe of a path: it only collects telemetry
	flagAsk                         // asks for an acknowledgement at once: nothing follows, or the window is full
)

// alloc returns the place of a packet that is not in use. Pointers to packets
// are not valid across a call.
func (n *Network) alloc() uint32 {
	if id := n.freePacket; id != none {
		n.freePacket = n.packets[id].next
		n.inUse++
		return id
	}
	n.packets = append(n.packets, packet{})
	n.inUse++
	return uint32(len(n.packets) - 1)
}

// release gives a packet's place back.
func (n *Network) release(id uint32) {
	n.packets[id].next = n.freePacket
	n.freePacket = id
	n.inUse--
}

// A fifo is a queue of packets, linked through packet.next.
type fifo struct {
	head, tail uint32 // meaningful while bytes or count say that it is not empty
	bytes      uint32
}

// push appends a packet; empty says whether the queue was.
func (q *fifo) push(packets []packet, id uint32, empty bool) {
	p := &packets[id]
	p.next = none
	if empty {
		q.head = id
	} else {
		packets[q.tail].next = id
	}
	q.tail = id
	q.bytes += p.wire
}

// pop removes the first packet and tells whether the queue is empty now.
func (q *fifo) pop(packets []packet) (id uint32, empty bool) {
	id = q.head
	p := &packets[id]
	q.head = p.next
	q.bytes -= p.wire
	return id, q.head == none
}
