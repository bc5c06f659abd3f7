package routing

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/sim"
)

const us = sim.Microsecond

func newConWeave(t require.TestingT, change func(*ConWeaveConfig)) *ConWeave {
	c := DefaultConWeave()
	if change != nil {
		change(&c)
	}
	w, err := NewConWeave(c)
	require.NoError(t, err)
	return w
}

// The round trip is 5 us and an answer may be 4 us late. A flow whose answers come
// in time begins an epoch with each and stays where it is.
func TestConWeaveStaysWhileAnswersAreInTime(t *testing.T) {
	w := newConWeave(t, nil)
	var f WeaveFlow
	paths := make([]WeavePath, 8)
	at := uint16(0)
	for epoch := range uint32(20) {
		now := sim.Time(epoch) * 8 * us
		tag, moved := w.Next(&f, now, 5*us, paths, 1)
		require.False(t, moved)
		if epoch == 0 {
			at = tag.Path
		}
		require.Equal(t, WeaveTag{Sent: now, Epoch: epoch + 1, Path: at, Kind: WeaveInit}, tag)
		tag, _ = w.Next(&f, now+us, 5*us, paths, 1)
		require.Equal(t, WeaveTag{Sent: now + us, Epoch: epoch + 1, Path: at}, tag)
		w.OnReply(&f, epoch+1, WeaveInit, now+7*us)
		w.OnReply(&f, epoch, WeaveTail, now+7*us) // of no move of this epoch
	}
}

// An answer that is late moves the flow: the packet that finds out is the tail, on
// the old path, and the next ones are of the second phase, on another path, until
// the answer to the tail, however late, begins an epoch there.
func TestConWeaveMovesWhenAnAnswerIsLate(t *testing.T) {
	w := newConWeave(t, nil)
	var f WeaveFlow
	paths := make([]WeavePath, 8)
	first, _ := w.Next(&f, 0, 5*us, paths, 3)
	for i := range paths {
		if i != int(first.Path) && i != 5 {
			w.Pause(&paths[i], 0) // marked: no good
		}
	}
	w.Pause(&paths[first.Path], 0)
	tag, moved := w.Next(&f, 9*us, 5*us, paths, 3)
	require.Equal(t, WeaveData, tag.Kind, "9 us are in time")
	require.False(t, moved)
	w.OnReply(&f, 1, WeaveInit, 9*us) // and this is not
	for now := 10 * us; ; now += 10 * us {
		require.Less(t, now, 300*us)
		tag, moved = w.Next(&f, now, 5*us, paths, 3)
		require.Equal(t, WeaveTag{Sent: now, Tail: now, Epoch: f.epoch, Path: first.Path, Kind: WeaveTail}, tag)
		next, _ := w.Next(&f, now+us, 5*us, paths, 3)
		require.Equal(t, moved, next.Path != first.Path)
		require.True(t, next.Second)
		require.Equal(t, now, next.Tail)
		w.OnReply(&f, f.epoch, WeaveInit, now+2*us) // that of the first, later still
		if moved {
			require.True(t, now >= 16*us || next.Path == 5, "nobody moves to a path that is paused")
			after, _ := w.Next(&f, now+2*us, 5*us, paths, 3)
			require.True(t, after.Second)
			w.OnReply(&f, f.epoch, WeaveTail, now+80*us)
			after, _ = w.Next(&f, now+81*us, 5*us, paths, 3)
			require.Equal(t, WeaveTag{Sent: now + 81*us, Epoch: f.epoch, Path: next.Path, Kind: WeaveInit}, after)
			return
		}
		w.OnReply(&f, f.epoch, WeaveTail, now+2*us)
		_, _ = w.Next(&f, now+3*us, 5*us, paths, 3) // begins an epoch whose answer is late
		now += 10 * us
	}
}

// A pause longer than the expiry lets a flow begin anew, anywhere; a path that has
// failed is left at once and not drawn.
func TestConWeaveExpiryAndFailure(t *testing.T) {
	w := newConWeave(t, nil)
	paths := make([]WeavePath, 4)
	var f WeaveFlow
	seen := map[uint16]bool{}
	for i := range sim.Time(40) {
		tag, _ := w.Next(&f, i*301*us, 5*us, paths, 9)
		require.Equal(t, WeaveInit, tag.Kind)
		require.EqualValues(t, i+1, tag.Epoch)
		seen[tag.Path] = true
	}
	require.Len(t, seen, 4)
	paths[0].Down, paths[1].Down, paths[3].Down = true, true, true
	for seed := range uint64(20) {
		var f WeaveFlow
		tag, _ := w.Next(&f, 0, 5*us, paths, seed)
		require.EqualValues(t, 2, tag.Path)
	}
	paths[2].Down = true
	var g WeaveFlow
	w.Next(&g, 0, 5*us, paths, 1) // whatever it takes
}

// The tail is expected as long after the last packet of the old path as it was sent
// after that; what overtakes it is held until then and 16 us more.
func TestConWeaveHoldsWhatOvertakes(t *testing.T) {
	w := newConWeave(t, nil)
	var o WeaveOrder
	require.False(t, w.Arrive(&o, WeaveTag{Sent: 10 * us, Epoch: 1, Kind: WeaveInit}, 40*us))
	second := WeaveTag{Sent: 13 * us, Tail: 12 * us, Epoch: 1, Path: 1, Second: true}
	require.True(t, w.Arrive(&o, second, 18*us+30*us))
	require.Equal(t, 40*us+2*us+16*us, o.Release())
	require.True(t, w.Arrive(&o, second, 49*us))
	require.False(t, w.Arrive(&o, WeaveTag{Sent: 11 * us, Epoch: 1}, 50*us), "what comes by the old path goes on")
	require.Equal(t, 50*us+us+16*us, o.Release())
	require.False(t, w.Arrive(&o, WeaveTag{Sent: 12 * us, Tail: 12 * us, Epoch: 1, Kind: WeaveTail}, 52*us))
	require.Equal(t, 52*us, o.Release(), "the tail lets it go")
	o.Flush()
	require.False(t, o.Holding)
	require.False(t, w.Arrive(&o, second, 53*us))
	require.False(t, w.Arrive(&o, WeaveTag{Epoch: 0}, 54*us), "what is left of an epoch before")

	// With nothing from the old path it waits for the default, and a new epoch is
	// never held up by one that hangs.
	o = WeaveOrder{}
	require.True(t, w.Arrive(&o, second, 100*us))
	require.Equal(t, 316*us, o.Release())
	next := WeaveTag{Epoch: 2, Kind: WeaveInit}
	require.True(t, o.Supersedes(next))
	require.False(t, o.Supersedes(second))
	o.Flush()
	require.False(t, w.Arrive(&o, next, 110*us))
	require.True(t, w.Arrive(&o, WeaveTag{Sent: 5, Tail: 4, Epoch: 2, Second: true}, 111*us), "and has its own order")
}

// Whatever the delays of paths, each of which is in order, and as long as no tail
// is later than the hold's margin, a NIC sees packets in order.
func TestConWeaveKeepsOrder(t *testing.T) {
	type flight struct {
		tag    WeaveTag
		number int
		at     sim.Time
	}
	moves := 0
	rapid.Check(t, func(t *rapid.T) {
		w := newConWeave(t, func(c *ConWeaveConfig) { c.HoldMargin, c.Expiry = sim.Millisecond, 10*sim.Millisecond })
		paths := make([]WeavePath, 3)
		var f WeaveFlow
		var o WeaveOrder
		var out []flight
		var answers []flight
		busy := make([]sim.Time, len(paths))
		now := sim.Time(0)
		for i := range rapid.IntRange(100, 300).Draw(t, "packets") {
			now += sim.Time(rapid.Int64Range(1, int64(3*us)).Draw(t, "gap"))
			for len(answers) > 0 && answers[0].at <= now {
				w.OnReply(&f, answers[0].tag.Epoch, answers[0].tag.Kind, answers[0].at)
				answers = answers[1:]
			}
			tag, moved := w.Next(&f, now, 5*us, paths, 7)
			if moved {
				moves++
			}
			at := max(busy[tag.Path], now+sim.Time(rapid.Int64Range(int64(2*us), int64(60*us)).Draw(t, "delay")))
			busy[tag.Path] = at + 1
			out = append(out, flight{tag, i, at})
			if tag.Kind != WeaveData {
				answers = append(answers, flight{tag, i, at + 2*us})
				slices.SortFunc(answers, func(a, b flight) int { return cmp.Compare(a.at, b.at) })
			}
		}
		slices.SortStableFunc(out, func(a, b flight) int { return cmp.Compare(a.at, b.at) })
		var held, seen []int
		flush := func() {
			o.Flush()
			seen, held = append(seen, held...), nil
		}
		for _, x := range out {
			if o.Holding && o.Release() <= x.at || o.Supersedes(x.tag) {
				flush()
			}
			if w.Arrive(&o, x.tag, x.at) {
				held = append(held, x.number)
				continue
			}
			seen = append(seen, x.number)
			if o.Holding && o.Release() <= x.at {
				flush()
			}
		}
		flush()
		require.True(t, slices.IsSorted(seen), "%v", seen)
		require.Len(t, seen, len(out))
	})
	require.Greater(t, moves, 20)
}

func TestConWeaveConfig(t *testing.T) {
	require.NoError(t, DefaultConWeave().Validate())
	for key, change := range map[string]func(c *ConWeaveConfig){
		"reply_margin":  func(c *ConWeaveConfig) { c.ReplyMargin = -1 },
		"path_pause":    func(c *ConWeaveConfig) { c.PathPause = -1 },
		"choices":       func(c *ConWeaveConfig) { c.Choices = 0 },
		"expiry":        func(c *ConWeaveConfig) { c.Expiry = 0 },
		"hold_margin":   func(c *ConWeaveConfig) { c.HoldMargin = -1 },
		"hold_default":  func(c *ConWeaveConfig) { c.HoldDefault = -1 },
		"header_bytes":  func(c *ConWeaveConfig) { c.HeaderBytes = -1 },
		"control_bytes": func(c *ConWeaveConfig) { c.ControlBytes = 0 },
	} {
		c := DefaultConWeave()
		change(&c)
		require.ErrorContains(t, c.Validate(), key+": ")
		_, err := NewConWeave(c)
		require.Error(t, err)
	}
}
