package congestion

import (
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// A Sequencer restores, at an egress, the order of the containers of one source.
// It decides; packets that have to wait are with the engine, in a first-in,
// first-out list per slot.
//
// The packets of a container come over one path and so in order, without gaps
// unless some are lost. The first container that is not complete is the head: its
// packets are handed over as they come. Those of later ones are held.
//
// What is missing may be late rather than lost as long as packets sent before it still
// come: it is given up when the paths that may have it have been silent for the
// timeout.
type Sequencer struct {
	slots []seqSlot // a ring, by container modulo its length
	paths []seqPath // that have brought something
	head  uint32
	held  units.Bytes
	limit units.Bytes
	wait  sim.Time
	since sim.Time // the head has held others up, or Never
	// Late is the number of packets that came after their turn had passed, Lost of
	// those that are known never to have come in time, within a container that
	// went on without them, Skipped of containers that were given up.
	Late, Lost, Skipped int64
}

// A seqSlot is what is known of a container.
type seqSlot struct {
	from sim.Time // the first packet was held
	held uint32   // bytes
	next uint16   // index of the packet to come
	size uint16   // packets; 0 is not known yet
}

// A seqPath is the last packet that came by a path: its container, and when; time 0
// where none has.
type seqPath struct {
	heard     sim.Time
	container uint32
}

// NewSequencer makes the state for a source whose numbering begins at container
// 0.
func (g *GSE) NewSequencer() *Sequencer {
	return &Sequencer{slots: make([]seqSlot, g.window), limit: g.held, wait: g.timeout, since: sim.Never}
}

// An Ordering is what to do with a packet.
type Ordering uint8

const (
	// Deliver hands the packet over at once.
	Deliver Ordering = iota
	// Hold puts it at the end of its slot's list.
	Hold
	// DeliverLate hands it over at once, out of order: its turn has passed.
	DeliverLate
	// Full holds up nothing more: Skip, hand over what Release says, and offer
	// the packet again.
	Full
)

// String is the decision in a word.
func (v Ordering) String() string {
	return [...]string{"deliver", "hold", "late", "full"}[v]
}

// Slot is where the packets of a container are held, 0 to the reorder window - 1.
func (s *Sequencer) Slot(container uint32) int { return int(container) & (len(s.slots) - 1) }

// Arrive takes in a packet of n bytes. Then call Release until it has no more: a
// packet that is held may be the one that says that the head is complete.
func (s *Sequencer) Arrive(tag GSETag, n units.Bytes, now sim.Time) Ordering {
	for int(tag.Path) >= len(s.paths) {
		s.paths = append(s.paths, seqPath{})
	}
	s.paths[tag.Path] = seqPath{now, tag.Container}
	ahead := int32(tag.Container - s.head)
	if ahead < 0 {
		s.Late++
		return DeliverLate
	}
	slot := &s.slots[s.Slot(tag.Container)]
	switch {
	case int(ahead) >= len(s.slots):
		return Full
	case tag.Index < slot.next:
		s.Late++
		return DeliverLate
	case ahead > 0 && s.held > 0 && s.held+n > s.limit:
		return Full
	}
	s.Lost += int64(tag.Index - slot.next)
	slot.next = tag.Index + 1
	if ahead == 0 {
		return Deliver
	}
	s.slots[s.Slot(tag.Container-1)].size = tag.Prev
	if slot.held == 0 {
		slot.from = now
	}
	slot.held += uint32(n)
	s.held += n
	if s.since == sim.Never {
		s.since = now
	}
	return Hold
}

// complete says whether all of the head has been handed over.
func (s *Sequencer) complete() bool {
	h := &s.slots[s.Slot(s.head)]
	return h.size != 0 && h.next >= h.size
}

// Release moves on to the next container if the head is complete, and returns
// the slot of it: what is held there is in order now. Call it, until it has no
// more, after Arrive and Skip.
func (s *Sequencer) Release(now sim.Time) (slot int, ok bool) {
	if !s.complete() {
		return 0, false
	}
	return s.advance(now), true
}

// advance makes the next container the head. It has held up the first one behind it
// that has come since that came, and not only since now: what is missing of several
// is given up at the same time.
func (s *Sequencer) advance(now sim.Time) int {
	s.slots[s.Slot(s.head)] = seqSlot{}
	s.head++
	at := s.Slot(s.head)
	slot := &s.slots[at]
	s.held -= units.Bytes(slot.held)
	slot.held = 0
	s.since = sim.Never
	for k := s.head + 1; s.held > 0; k++ {
		if next := &s.slots[s.Slot(k)]; next.held > 0 {
			s.since = next.from
			break
		}
	}
	return at
}

// Skip gives up the head, and containers behind it of which nothing has come, and
// returns the slot of the next one: what is held there is to be handed over. An
// owner calls it at the deadline, or when Arrive said Full.
func (s *Sequencer) Skip(now sim.Time) (slot int) {
	for {
		s.Skipped++
		slot = s.advance(now)
		if s.slots[slot].next > 0 || s.held == 0 {
			return slot
		}
	}
}

// Deadline is when the head will have held others up for too long, or sim.Never. A path
// by which nothing of later containers has come may bring it yet.
func (s *Sequencer) Deadline() sim.Time {
	if s.since == sim.Never {
		return sim.Never
	}
	since := s.since
	for i := range s.paths {
		if p := &s.paths[i]; int32(p.container-s.head) <= 0 {
			since = max(since, p.heard)
		}
	}
	return since + s.wait
}

// State is the memory of it in bytes.
func (s *Sequencer) State() int64 { return 112 + 16*int64(len(s.slots)+len(s.paths)) }

// Held is the bytes that wait.
func (s *Sequencer) Held() units.Bytes { return s.held }
