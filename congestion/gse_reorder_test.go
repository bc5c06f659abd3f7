package congestion

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// A reorderer is an engine's part of restoring order: the lists of held packets.
type reorderer struct {
	s     *Sequencer
	lists [][]GSETag
	out   []GSETag
	late  map[GSETag]bool
}

func newReorderer(g *GSE) *reorderer {
	s := g.NewSequencer()
	return &reorderer{s: s, lists: make([][]GSETag, len(s.slots)), late: map[GSETag]bool{}}
}

func (r *reorderer) release(now sim.Time) {
	for {
		slot, ok := r.s.Release(now)
		if !ok {
			return
		}
		r.empty(slot)
	}
}

func (r *reorderer) empty(slot int) {
	r.out = append(r.out, r.lists[slot]...)
	r.lists[slot] = r.lists[slot][:0]
}

func (r *reorderer) skip(now sim.Time) {
	r.empty(r.s.Skip(now))
	r.release(now)
}

// arrive returns the verdicts, joined by "+".
func (r *reorderer) arrive(tag GSETag, n units.Bytes, now sim.Time) string {
	v := r.s.Arrive(tag, n, now)
	words := v.String()
	for ; v == Full; v = r.s.Arrive(tag, n, now) {
		r.skip(now)
	}
	if words == "full" {
		words += "+" + v.String()
	}
	if v == Hold {
		slot := r.s.Slot(tag.Container)
		r.lists[slot] = append(r.lists[slot], tag)
	} else {
		r.late[tag] = v == DeliverLate
		r.out = append(r.out, tag)
	}
	r.release(now)
	return words
}

// tags is the packets of containers of random sizes, in the order of sending.
func tags(t *rapid.T) []GSETag {
	var all []GSETag
	prev := 0
	for c := range rapid.IntRange(1, 60).Draw(t, "containers") {
		size := rapid.IntRange(1, 5).Draw(t, "packets")
		for i := range size {
			all = append(all, GSETag{Container: uint32(c), Index: uint16(i), Prev: uint16(prev)})
		}
		prev = size
	}
	return all
}

// mingle lets the packets of each path arrive in order, the paths in any
// interleaving in which no container is a window or more ahead of the one before
// the oldest: of that one nobody knows yet that it is complete.
func mingle(t *rapid.T, all []GSETag, paths int, window uint32) []GSETag {
	queues := make([][]GSETag, paths)
	path := 0
	for i, p := range all {
		if i == 0 || p.Container != all[i-1].Container {
			path = rapid.IntRange(0, paths-1).Draw(t, "path")
		}
		queues[path] = append(queues[path], p)
	}
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "arrivals"), 1))
	var arrived []GSETag
	for len(arrived) < len(all) {
		oldest := all[len(all)-1].Container
		for _, q := range queues {
			if len(q) > 0 {
				oldest = min(oldest, q[0].Container)
			}
		}
		q := &queues[r.IntN(paths)]
		if len(*q) > 0 && (*q)[0].Container < max(oldest, 1)-1+window {
			arrived = append(arrived, (*q)[0])
			*q = (*q)[1:]
		}
	}
	return arrived
}

func sequencers(t require.TestingT, window int, held units.Bytes) *GSE {
	c := DefaultGSE()
	c.ContainerBytes, c.ReorderWindow, c.ReorderBytes = 5000, window, held
	g, err := NewGSE(c, 400*units.Gbps, 8*sim.Microsecond)
	require.NoError(t, err)
	return g
}

// Whatever the paths do, as long as each keeps its own order and nothing
// overtakes more than the window, packets come out in the order in which they
// were sent, each once, and no sooner held than needed: at the end nothing is.
func TestOrderIsRestored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := tags(t)
		window := 1 << rapid.IntRange(1, 6).Draw(t, "window")
		r := newReorderer(sequencers(t, window, units.GiB))
		for i, p := range mingle(t, all, rapid.IntRange(1, 8).Draw(t, "paths"), uint32(window)) {
			require.NotContains(t, r.arrive(p, 1000, sim.Time(i)), "full")
			require.Equal(t, units.Bytes(1000*(i+1-len(r.out))), r.s.Held())
			require.Equal(t, r.s.Held() > 0, r.s.Deadline() != sim.Never)
			for k := range r.out {
				require.Equal(t, all[k], r.out[k])
			}
			// What is out is as much as can be: the next packet has not come.
			for _, list := range r.lists {
				for _, q := range list {
					require.NotEqual(t, all[len(r.out)], q)
				}
			}
		}
		require.Equal(t, all, r.out)
		require.Zero(t, r.s.Late+r.s.Lost+r.s.Skipped)
	})
}

// With losses, limits that are too small and timeouts at any time, every packet
// that arrives is handed over exactly once, no more than the limit is held, and
// whatever is handed over in order (not late) is in order.
func TestOrderUnderLossAndTimeouts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := tags(t)
		limit := units.Bytes(1000 * rapid.IntRange(5, 20).Draw(t, "limit"))
		r := newReorderer(sequencers(t, 1<<rapid.IntRange(1, 4).Draw(t, "window"), limit))
		arrived := mingle(t, all, rapid.IntRange(1, 8).Draw(t, "paths"), 1<<20)
		loss := rapid.IntRange(0, 4).Draw(t, "loss")
		draws := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "losses"), 1))
		want := map[GSETag]int{}
		late := int64(0)
		last := -1 // place in all of the last one in order
		place := map[GSETag]int{}
		for i, p := range all {
			place[p] = i
		}
		check := func() {
			require.LessOrEqual(t, r.s.Held(), limit)
			for _, p := range r.out {
				want[p]--
				if r.late[p] {
					late++
					continue
				}
				require.Greater(t, place[p], last)
				last = place[p]
			}
			r.out = r.out[:0]
		}
		for i, p := range arrived {
			if draws.IntN(10) < loss {
				continue
			}
			want[p]++
			r.arrive(p, 1000, sim.Time(i))
			check()
			if r.s.Deadline() != sim.Never && draws.IntN(8) == 0 {
				r.skip(sim.Time(i))
				check()
			}
		}
		for n := 0; r.s.Deadline() != sim.Never; n++ {
			require.Less(t, n, len(all))
			r.skip(r.s.Deadline())
			check()
		}
		for p, n := range want {
			require.Zero(t, n, "%+v", p)
		}
		require.Equal(t, late, r.s.Late)
		require.Zero(t, r.s.Held())
	})
}
