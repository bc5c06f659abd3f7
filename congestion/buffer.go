package congestion

import (
	"fmt"
	"math"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/invariants"
	"github.com/tgssim/tgssim/internal/units"
)

// A Buffer is the accounting of one switch's packet memory. It knows how many
// bytes each ingress group and each egress queue holds, and of what kind, but no
// packet.
//
// The engine calls Admit when a packet has arrived and Release when it has left,
// and sends the PAUSE and RESUME that they decide.
type Buffer struct {
	pool         int64 // shared memory
	headroomPool int64
	shared       int64 // used of pool
	headroom     int64 // used of headroomPool
	total        int64 // bytes held
	guaranteed   int32
	resumeOffset int64
	static       int64 // of a group, or 0
	egressMin    int64
	egressAlpha  int64 // of 1<<16
	lossless     uint8 // bit mask of priorities
	ports        []portLimits
	groups       []group // by ingress port and priority
	queues       []int32 // bytes by egress port and priority
}

type portLimits struct {
	headroom int32 // of a group
	alpha    int32 // of 1<<16
}

// A group is a port and priority at ingress.
type group struct {
	used     int32 // of guaranteed and shared memory
	headroom int32
	paused   bool
}

// alphaOne is alpha 1 in 16-bit fixed point.
const alphaOne = 1 << 16

// NewBuffer makes the accounting of an empty switch with these ports, in a
// network whose NICs have rate nic and whose largest packets count as frame
// bytes. It fails when c is not valid or its reserves leave nothing to share.
func NewBuffer(c BufferConfig, nic units.Rate, frame units.Bytes, ports []Port) (*Buffer, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := lineRate(nic); err != nil {
		return nil, err
	}
	b := &Buffer{
		guaranteed:   int32(c.Guaranteed),
		resumeOffset: int64(c.ResumeOffset),
		static:       int64(c.StaticThreshold),
		egressMin:    int64(c.EgressGuaranteed),
		egressAlpha:  fixed(c.EgressAlpha),
		ports:        make([]portLimits, len(ports)),
		groups:       make([]group, len(ports)*Priorities),
		queues:       make([]int32, len(ports)*Priorities),
	}
	for _, p := range c.Lossless {
		b.lossless |= 1 << p
	}
	var sum int64
	for i, p := range ports {
		if p.Rate <= 0 || p.Rate > maxRate || p.Delay < 0 {
			return nil, fmt.Errorf("port %d has rate %v and delay %v; use a rate above 0 up to %v and no negative delay", i, p.Rate, p.Delay, maxRate)
		}
		h := min(c.Headroom.of(p, frame), maxBuffer)
		b.ports[i] = portLimits{int32(min(h, math.MaxInt32)), int32(fixed(c.alphaOf(p, nic)))}
		sum += int64(h) * int64(len(c.Lossless))
	}
	b.headroomPool = sum
	if c.Headroom.Pool > 0 {
		b.headroomPool = min(sum, int64(c.Headroom.Pool))
	}
	size, reserved := int64(c.sizeFor(nic)), int64(c.Guaranteed)*int64(len(ports)*len(c.Lossless))
	b.pool = size - b.headroomPool - reserved
	if b.pool <= 0 {
		return nil, config.Problems{{Key: "size", Message: fmt.Sprintf(
			"%v of memory leave nothing to share: %d ports need %v of headroom and %v of guarantees; use more than their sum",
			units.Bytes(size), len(ports), units.Bytes(b.headroomPool), units.Bytes(reserved))}}
	}
	return b, nil
}

func fixed(alpha float64) int64 { return int64(math.RoundToEven(alpha * alphaOne)) }

// A Drop is why a packet was not admitted.
type Drop uint8

// The reasons.
const (
	// NoDrop is none: the packet was admitted.
	NoDrop Drop = iota
	// DropHeadroom is a lossless packet for which headroom was too small.
	DropHeadroom
	// DropPool is a lossy packet that found the shared memory full.
	DropPool
	// DropQueue is a lossy packet whose egress queue was at its threshold.
	DropQueue
)

// String names the reason in lower case.
func (d Drop) String() string { return [...]string{"none", "headroom", "pool", "queue"}[d] }

// A Verdict is what becomes of an arriving packet.
type Verdict struct {
	Drop Drop
	// Pause tells the switch to send XOFF for the packet's priority on the port
	// that it came in by. It is set once, until Release says to resume, and also
	// with DropHeadroom where headroom is less than a packet.
	Pause bool
}

// Lossless says whether PFC protects a priority.
func (b *Buffer) Lossless(prio int) bool { return b.lossless>>prio&1 != 0 }

// Admit accounts for a packet of n bytes that has arrived at port in and goes
// out at port out, or refuses it.
func (b *Buffer) Admit(in, out, prio int, n units.Bytes) Verdict {
	g, q := &b.groups[in*Priorities+prio], &b.queues[out*Priorities+prio]
	size := int64(n)
	if !b.Lossless(prio) {
		free := b.pool - b.shared
		if size > free {
			return Verdict{Drop: DropPool}
		}
		if int64(*q)+size > max(b.egressMin, free*b.egressAlpha/alphaOne) {
			return Verdict{Drop: DropQueue}
		}
		g.used += int32(size)
		*q += int32(size)
		b.shared += size
		b.total += size
		if invariants.Enabled {
			b.checkUse(g)
		}
		return Verdict{}
	}
	held := b.sharedOf(g.used)
	after := b.sharedOf(g.used + int32(size))
	switch {
	case after == 0, after <= b.threshold(in) && after-held <= b.pool-b.shared:
		g.used += int32(size)
		b.shared += after - held
		held = after
	case int64(g.headroom)+size <= int64(b.ports[in].headroom) && b.headroom+size <= b.headroomPool:
		g.headroom += int32(size)
		b.headroom += size
	default:
		// The group is at its threshold all the same. An empty one stays without
		// pause, as nothing would ever leave it and resume it.
		pause := !g.paused && g.used > 0
		g.paused = g.paused || pause
		return Verdict{Drop: DropHeadroom, Pause: pause}
	}
	*q += int32(size)
	b.total += size
	if invariants.Enabled {
		b.checkUse(g)
	}
	if g.paused || g.headroom == 0 && held <= b.threshold(in) {
		return Verdict{}
	}
	g.paused = true
	return Verdict{Pause: true}
}

// Release accounts for the departure of n bytes that Admit admitted with the same
// ports and priority, and says whether to send XON on port in. A group gives back
// headroom first, then shared memory, then its guarantee.
func (b *Buffer) Release(in, out, prio int, n units.Bytes) (resume bool) {
	g, q := &b.groups[in*Priorities+prio], &b.queues[out*Priorities+prio]
	size := int32(n)
	*q -= size
	b.total -= int64(size)
	if !b.Lossless(prio) {
		g.used -= size
		b.shared -= int64(size)
		if invariants.Enabled {
			b.checkUse(g)
		}
		return false
	}
	fromHeadroom := min(g.headroom, size)
	g.headroom -= fromHeadroom
	b.headroom -= int64(fromHeadroom)
	held := b.sharedOf(g.used)
	g.used -= size - fromHeadroom
	left := b.sharedOf(g.used)
	b.shared -= held - left
	if invariants.Enabled {
		b.checkUse(g)
	}
	if !g.paused || g.headroom > 0 || left > 0 && left+b.resumeOffset > b.threshold(in) {
		return false
	}
	g.paused = false
	return true
}

// sharedOf is the part of a lossless group's bytes above its guarantee.
func (b *Buffer) sharedOf(used int32) int64 { return int64(max(0, used-b.guaranteed)) }

// threshold is the shared memory that a lossless group of a port may use.
func (b *Buffer) threshold(in int) int64 {
	if b.static > 0 {
		return b.static
	}
	return (b.pool - b.shared) * int64(b.ports[in].alpha) / alphaOne
}

// checkUse panics when a change of a group has left something impossible. An
// empty buffer is looked at as a whole.
func (b *Buffer) checkUse(g *group) {
	if g.used < 0 || g.headroom < 0 || b.shared < 0 || b.shared > b.pool || b.headroom > b.headroomPool {
		panic("congestion: a buffer holds less than nothing or more than it has")
	}
	if b.total == 0 {
		b.check()
	}
}

// check panics when the account does not balance. It looks at every group.
func (b *Buffer) check() {
	var shared, headroom, total int64
	for i := range b.groups {
		g := &b.groups[i]
		switch {
		case g.used < 0 || g.headroom < 0:
			panic("congestion: a group holds less than nothing")
		case b.Lossless(i % Priorities):
			shared += b.sharedOf(g.used)
		default:
			shared += int64(g.used)
		}
		headroom += int64(g.headroom)
		total += int64(g.used) + int64(g.headroom)
	}
	var queued int64
	for _, q := range b.queues {
		queued += int64(q)
	}
	if shared != b.shared || headroom != b.headroom || total != b.total || queued != total ||
		shared > b.pool || headroom > b.headroomPool {
		panic("congestion: the account of a buffer does not balance")
	}
}

// Threshold is the shared memory that a lossless group of a port may use now
// without being paused.
func (b *Buffer) Threshold(in int) units.Bytes { return units.Bytes(b.threshold(in)) }

// Headroom is what a lossless group of a port has above its threshold; see Headroom
// for what it needs.
func (b *Buffer) Headroom(in int) units.Bytes { return units.Bytes(b.ports[in].headroom) }

// PauseAlone is the shared memory at which a group of a port is paused when no
// other uses any: alpha/(1+alpha) of it, or the static threshold. ECN can act
// before PFC only with Kmax below it.
func (b *Buffer) PauseAlone(in int) units.Bytes {
	if b.static > 0 {
		return units.Bytes(min(b.static, b.pool))
	}
	a := int64(b.ports[in].alpha)
	return units.Bytes(b.pool * a / (alphaOne + a))
}

// Paused says whether a group is paused: XOFF was decided, and XON not yet.
func (b *Buffer) Paused(in, prio int) bool { return b.groups[in*Priorities+prio].paused }

// Queued is the bytes held for an egress queue, the marking decision's input.
func (b *Buffer) Queued(out, prio int) units.Bytes {
	return units.Bytes(b.queues[out*Priorities+prio])
}

// A Use is how much of a buffer is in use, in bytes.
type Use struct {
	// Total is everything held. Shared and Headroom are the parts of it beyond
	// the guarantees; SharedPool and HeadroomPool are their limits.
	Total, Shared, Headroom, SharedPool, HeadroomPool units.Bytes
}

// Use returns how much is in use.
func (b *Buffer) Use() Use {
	return Use{
		Total: units.Bytes(b.total), Shared: units.Bytes(b.shared), Headroom: units.Bytes(b.headroom),
		SharedPool: units.Bytes(b.pool), HeadroomPool: units.Bytes(b.headroomPool),
	}
}

// GroupUse is what one group holds: of guaranteed and shared memory, and of
// headroom.
func (b *Buffer) GroupUse(in, prio int) (used, headroom units.Bytes) {
	g := &b.groups[in*Priorities+prio]
	return units.Bytes(g.used), units.Bytes(g.headroom)
}
