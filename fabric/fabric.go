// Package fabric moves bytes between GPUs. One small interface, Network, hides
// how: the ideal engine (no contention at all) and the flow engine (max-min fair
// fluids over the real links) are here, the packet engine is in fabric/packet.
package fabric

import (
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// Class is a traffic class. Classes may be given queues of their own.
type Class uint8

// The traffic classes.
const (
	ClassKV Class = iota // KV-cache transfers, prefill to decode
	ClassEP              // expert-parallel dispatch and combine
	NumClasses
)

// String names the class in lower case.
func (c Class) String() string { return [...]string{"kv", "ep"}[c] }

// A Message is one one-sided RDMA WRITE (or NVLink copy, inside a server) from
// a GPU's memory to another's.
type Message struct {
	Src, Dst topology.GPU
	// Bytes is the payload, headers excluded. Zero is allowed: such a message
	// costs its posting time and the latency.
	Bytes units.Bytes
	Class Class
	// QPs is the number of queue pairs that the payload is spread over; each has
	// its own UDP source port and therefore its own ECMP path. 0 means 1. The
	// parts are equal to the byte and the message is there when the last is.
	QPs int
	// FirstQP is the number of the first of them. Messages between the same two GPUs
	// that have none in common share no path, order or rate.
	FirstQP int
	// Parts, when not nil, replaces Src, Dst and Bytes: the message is several
	// writes between several GPUs that are posted together and count as one, such
	// as the shards of a KV cache. It is delivered when the last part has arrived,
	// and what its parts cost each other, at a NIC that they share, is Wire and not
	// Queue. The network does not keep the slice.
	Parts []Part
	// Post is the time from the call until the NIC may send the first byte:
	// building and posting the work requests.
	Post sim.Time
	// Tag comes back with the delivery.
	Tag uint64
}

// A Part is one write of a message of several.
type Part struct {
	Src, Dst topology.GPU
	Bytes    units.Bytes
}

// A Delivery reports that the last byte of a message or collective has arrived.
// Post + Wire + Queue == Arrived - Posted, to the picosecond.
type Delivery struct {
	Tag             uint64
	Posted, Arrived sim.Time
	// Post is the posting time, as asked for.
	Post sim.Time
	// Wire is what the transfer takes alone on the same paths: latency plus the
	// bytes of the link that takes longest. Ideal is the part of it that a fabric
	// without a bottleneck inside would take, latency plus the bytes of the busiest
	// end port, and Latency the part of that which does not grow with bytes.
	Wire, Ideal, Latency sim.Time
	// Queue is the rest: time lost to sharing links with others.
	Queue sim.Time
}

// A Receiver is told of deliveries, at the simulated time of arrival.
type Receiver interface {
	Delivered(d Delivery)
}

// A Share is one sender-receiver pair of a collective: for every unit (a token)
// that rank Rank contributes, Milli thousandths of a byte go from Src to Dst.
type Share struct {
	Rank     int
	Src, Dst topology.GPU
	// Milli is the payload per unit in 1/1000 byte, so that expected values stay
	// exact integers and sums do not depend on their order.
	Milli int64
}

// A CollectiveSpec is the fixed shape of a recurring collective such as an MoE
// dispatch: its pairs and proportions, for one placement.
type CollectiveSpec struct {
	Name  string
	Class Class
	// QPs is the number of queue pairs between two GPUs of different servers; each
	// carries an equal part and takes its own ECMP path. 0 means 1.
	QPs int
	// Ranks is the number of contributing ranks; Share.Rank is below it.
	Ranks  int
	Shares []Share
}

// A Collective is one recurring collective, ready to run. At most one run of it
// is under way at a time; for two at once make two.
type Collective interface {
	// SetUnits gives each rank's number of units (tokens) for the runs that
	// follow. It costs O(pairs); do it once per step, not once per layer.
	SetUnits(units []int64)
	// Start begins a run: after startup (kernel and posting latency) all pairs
	// send at once; the receiver hears when the last byte has arrived.
	Start(startup sim.Time, tag uint64, to Receiver)
	// Latency is what the next run takes beside its start-up and its bytes, as its
	// Delivery has it. It panics while one is under way.
	Latency() sim.Time
	// Repeat books so many further runs of the size of the last one as sent and
	// delivered: in the totals, and on the links that a run's bytes take. Nothing
	// moves and nobody hears of it: it is for whoever skips runs that would be like
	// one that has been simulated. Skipping them has taken the time took, up to now,
	// for which the clocks of what paces the collective's queue pairs have stood
	// still: they have not recovered from what the runs would have gone on doing to
	// them. Queue pairs that collectives share are held once at an instant. It costs
	// O(pairs) at most. A number below 1 books none.
	Repeat(times int64, took sim.Time)
}

// LinkLoad is what one link has carried so far.
type LinkLoad struct {
	Link topology.LinkID
	// Payload is bytes delivered over the link by class, headers excluded.
	Payload [NumClasses]units.Bytes
	// Wire is the bytes on the wire, headers included.
	Wire units.Bytes
}

// Totals is the conservation account of a network: what was handed in is
// delivered or in flight, at any instant.
type Totals struct {
	SentBytes, DeliveredBytes, InFlightBytes          [NumClasses]units.Bytes
	SentMessages, DeliveredMessages, InFlightMessages [NumClasses]int64
}

// A Network moves messages and runs collectives over one topology inside one
// simulation. It is not safe for concurrent use.
type Network interface {
	// Send posts a message; to hears of its delivery.
	Send(m Message, to Receiver)
	// NewCollective prepares a recurring collective. It fails when the spec
	// names a GPU or rank that does not exist.
	NewCollective(spec CollectiveSpec) (Collective, error)
	// Loads appends the load of every link, in link order, as of now.
	Loads(dst []LinkLoad) []LinkLoad
	// Totals returns the conservation account as of now.
	Totals() Totals
}
