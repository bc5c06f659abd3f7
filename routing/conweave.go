package routing

import (
	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// ConWeaveConfig is ConWeave (Song et al., SIGCOMM 2023): the leaf of a flow's
// source measures round trips to the leaf of its destination and moves the flow to
// another path when an answer is late; the destination's leaf holds what overtakes
// on the new path, so that the NIC sees packets in order. The values are those of
// its authors' simulator for two tiers.
type ConWeaveConfig struct {
	// ReplyMargin is by how much an answer may be later than on idle links before
	// the flow moves: the time of a queue of 50 KB at 100 Gb/s.
	ReplyMargin sim.Time `yaml:"reply_margin"`
	// PathPause is how long no flow moves to a path on which a packet was marked.
	PathPause sim.Time `yaml:"path_pause"`
	// Choices is how many paths are drawn when a flow moves; it takes the first
	// that is not paused, and stays where it is when all are.
	Choices int `yaml:"choices"`
	// Expiry is the pause of a flow after which it may take another path at once,
	// and the wait for an answer that does not come.
	Expiry sim.Time `yaml:"expiry"`
	// HoldMargin is by how much the last packet of the old path may be later than
	// expected, until what is held goes on without it.
	HoldMargin sim.Time `yaml:"hold_margin"`
	// HoldDefault is how late it is expected when nothing has come by the old path.
	HoldDefault sim.Time `yaml:"hold_default"`
	// HeaderBytes is what a packet between leaves carries. Its authors use fields
	// that are there anyway.
	HeaderBytes units.Bytes `yaml:"header_bytes"`
	// ControlBytes is an answer or a notice of a mark on the wire: the least frame
	// with preamble and gap.
	ControlBytes units.Bytes `yaml:"control_bytes"`
}

// DefaultConWeave is the settings of the authors' simulator.
func DefaultConWeave() ConWeaveConfig {
	return ConWeaveConfig{
		ReplyMargin: 4 * sim.Microsecond, PathPause: 16 * sim.Microsecond, Choices: 2, Expiry: 300 * sim.Microsecond,
		HoldMargin: 16 * sim.Microsecond, HoldDefault: 200 * sim.Microsecond, ControlBytes: 84,
	}
}

// Validate says what is wrong with c, as config.Problems, or nil.
func (c ConWeaveConfig) Validate() error {
	var ps config.Problems
	within(&ps, "reply_margin", c.ReplyMargin, 0, sim.Second)
	within(&ps, "path_pause", c.PathPause, 0, sim.Second)
	within(&ps, "choices", c.Choices, 1, 64)
	within(&ps, "expiry", c.Expiry, sim.Nanosecond, 10*sim.Second)
	within(&ps, "hold_margin", c.HoldMargin, 0, sim.Second)
	within(&ps, "hold_default", c.HoldDefault, 0, sim.Second)
	within(&ps, "header_bytes", c.HeaderBytes, 0, 256)
	within(&ps, "control_bytes", c.ControlBytes, 1, 4096)
	return ps.Err()
}

// A ConWeave is the constants of ConWeave.
type ConWeave struct{ c ConWeaveConfig }

// NewConWeave makes the constants. It fails when c is not valid.
func NewConWeave(c ConWeaveConfig) (*ConWeave, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &ConWeave{c}, nil
}

// A WeaveKind is what a packet is to the leaf of its destination.
type WeaveKind uint8

const (
	// WeaveData is most packets.
	WeaveData WeaveKind = iota
	// WeaveInit is the first of an epoch. It asks for an answer.
	WeaveInit
	// WeaveTail is the last before a flow moves, still on the old path. It asks for
	// an answer too, which says that nothing is left there.
	WeaveTail
)

// A WeaveTag is what the header of a packet says between leaves. An epoch has two
// phases: packets of the second have left after the tail, on the new path.
type WeaveTag struct {
	Sent   sim.Time // when the source's leaf sent it
	Tail   sim.Time // of the second phase, when it sent the tail
	Epoch  uint32
	Path   uint16
	Kind   WeaveKind
	Second bool
}

// A WeavePath is what a leaf knows of one path to another. Its zero value is ready.
type WeavePath struct {
	paused sim.Time // until then
	Down   bool     // it has failed
}

// Pause is the notice that a packet was marked on the path.
func (w *ConWeave) Pause(p *WeavePath, now sim.Time) { p.paused = now + w.c.PathPause }

// A WeaveFlow is what the leaf of a flow's source keeps of it. Its zero value is
// ready.
type WeaveFlow struct {
	last     sim.Time // packet
	deadline sim.Time // of the answer; none when 0
	tail     sim.Time
	epoch    uint32
	draws    uint32
	path     uint16
	second   bool
	stable   bool // the answer has come: the next packet begins an epoch
	begun    bool
}

// Next is the header of a packet sent now, with its path, and whether the flow
// moves: that its next packet takes another path, or this one after a pause. RTT is
// the round trip between the leaves on idle links. Flows of different seeds draw
// independently.
func (w *ConWeave) Next(f *WeaveFlow, now, rtt sim.Time, paths []WeavePath, seed uint64) (tag WeaveTag, moved bool) {
	expired := !f.begun || now-f.last > w.c.Expiry || paths[f.path].Down
	begins := expired || f.stable
	late := !begins && f.deadline != 0 && f.deadline < now
	before := f.path
	switch {
	case begins:
		f.epoch++
		f.second, f.stable, f.tail = false, false, 0
		f.deadline = now + rtt + w.c.ReplyMargin
		if expired {
			f.path = w.draw(f, now, paths, seed)
		}
		tag.Kind = WeaveInit
		tag.Path = f.path
	case late:
		f.deadline, f.tail = 0, now
		f.path = w.draw(f, now, paths, seed)
		tag.Kind, tag.Path = WeaveTail, before
	default:
		tag.Path = f.path
		tag.Second = f.second
	}
	moved = f.begun && f.path != before
	tag.Sent, tag.Tail, tag.Epoch = now, f.tail, f.epoch
	f.second = f.second || late
	f.begun, f.last = true, now
	return tag, moved
}

// draw is the path to move to: the first of those drawn that is not paused, or the
// flow's own; one in service in any case, if there is one.
func (w *ConWeave) draw(f *WeaveFlow, now sim.Time, paths []WeavePath, seed uint64) uint16 {
	last := f.path
	for range w.c.Choices {
		at := w.random(f, paths, seed)
		if p := &paths[at]; !p.Down && p.paused <= now {
			return at
		}
		if !f.begun {
			last = at // it is on no path yet
		}
	}
	for tries := len(paths); paths[last].Down && tries > 0; tries-- {
		last = uint16((int(last) + 1) % len(paths))
	}
	return last
}

func (w *ConWeave) random(f *WeaveFlow, paths []WeavePath, seed uint64) uint16 {
	f.draws++
	return uint16(RandomPath(mix(seed), uint64(f.draws), len(paths)))
}

// OnReply takes in an answer to a packet of a kind and epoch. One to the first of
// an epoch counts in time only; one to the tail says that the move is over.
func (w *ConWeave) OnReply(f *WeaveFlow, epoch uint32, kind WeaveKind, now sim.Time) {
	if epoch != f.epoch || (kind == WeaveTail) != f.second {
		return
	}
	if kind == WeaveTail || f.deadline != 0 && now < f.deadline {
		f.stable, f.deadline = true, 0
	}
}

// A WeaveOrder is what the leaf of a flow's destination keeps of it. Its zero value
// is ready.
type WeaveOrder struct {
	sent, came sim.Time // of the last packet by the old path
	tail       sim.Time // when the tail was sent
	release    sim.Time // when what is held is to go on
	epoch      uint32
	known      bool // sent and came are of this epoch
	over       bool // nothing is to come by the old path
	Holding    bool // packets are held
}

// Arrive takes in a packet and says whether it is to be held. Held packets go on,
// in the order of their arrival, at the time of Release, which the packet may have
// changed; see Flush.
func (w *ConWeave) Arrive(o *WeaveOrder, tag WeaveTag, now sim.Time) (hold bool) {
	if int32(tag.Epoch-o.epoch) < 0 {
		return false
	}
	if tag.Epoch != o.epoch {
		o.epoch, o.over, o.known = tag.Epoch, false, false
	}
	if tag.Kind == WeaveTail || tag.Second {
		o.tail = tag.Tail
	}
	if !tag.Second {
		o.sent, o.came, o.known = tag.Sent, now, true
		switch {
		case tag.Kind == WeaveTail && !o.Holding:
			o.over = true
		case tag.Kind == WeaveTail:
			o.release = now
		case o.Holding:
			o.release = w.due(o, now)
		}
		return false
	}
	if o.over {
		return false
	}
	if !o.Holding {
		o.Holding, o.release = true, w.due(o, now)
	}
	return true
}

// due is when the tail is expected, and a margin more: as long after the last
// packet by the old path as it was sent after that.
func (w *ConWeave) due(o *WeaveOrder, now sim.Time) sim.Time {
	if !o.known {
		return now + w.c.HoldDefault + w.c.HoldMargin
	}
	return max(now, o.came+max(0, o.tail-o.sent)+w.c.HoldMargin)
}

// Release is when the packets that are held go on; valid while there are any.
func (o *WeaveOrder) Release() sim.Time { return o.release }

// Flush ends the hold: what has been held goes on now, and so does what comes by
// the new path.
func (o *WeaveOrder) Flush() { o.Holding, o.over = false, true }

// Supersedes says whether a packet belongs to a later epoch than what is held,
// which is to go on before it.
func (o *WeaveOrder) Supersedes(tag WeaveTag) bool {
	return o.Holding && int32(tag.Epoch-o.epoch) > 0
}
