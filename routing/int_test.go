package routing

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

func newINT(t require.TestingT, preset string, change func(*INTConfig)) *INT {
	var c INTConfig
	require.NoError(t, c.SetPreset(preset))
	if change != nil {
		change(&c)
	}
	r, err := NewINT(c)
	require.NoError(t, err)
	return r
}

// loads are paths that were all heard of at an instant.
func loads(c *INT, taken sim.Time, l ...float64) []PathState {
	paths := make([]PathState, len(l))
	for i := range l {
		c.Observe(&paths[i], taken, l[i])
	}
	return paths
}

// hashTo is a hash that gives a path.
func hashTo(path, paths int) uint64 {
	for h := uint64(0); ; h += 1 << 56 {
		if pick(h, paths) == path {
			return h
		}
	}
}

// A greedy flow takes the least busy path of all, at every packet.
func TestINTTakesTheLeastBusy(t *testing.T) {
	c := newINT(t, "greedy", nil)
	var f INTFlow
	path, moved := c.Next(&f, 0, loads(c, 0, 0.9, 0.5, 0.2, 0.7), hashTo(0, 4), 0, true)
	require.Equal(t, 2, path)
	require.True(t, moved, "away from its hash")
	path, moved = c.Next(&f, 0, loads(c, 0, 0.9, 0.1, 0.2, 0.7), hashTo(0, 4), 0, false)
	require.Equal(t, 1, path)
	require.True(t, moved)
	_, moved = c.Next(&f, 0, loads(c, 0, 0.9, 0.1, 0.1, 0.1), hashTo(0, 4), 0, false)
	require.False(t, moved, "no better, no move")
}

// What may move: flowlets after a gap, messages at their beginning, packets; none
// within the hold.
func TestINTGranularity(t *testing.T) {
	even := func(c *INTConfig) { c.Choices, c.Hold = 0, 0 }
	for _, x := range []struct {
		preset  string
		change  func(*INTConfig)
		at      sim.Time
		begins  bool
		another bool
	}{
		{"packet", even, 1, false, true},
		{"packet", func(c *INTConfig) { c.Choices, c.Hold = 0, 10 }, 9, false, false},
		{"packet", func(c *INTConfig) { c.Choices, c.Hold = 0, 10 }, 10, false, true},
		{"message", even, sim.Second, false, false},
		{"message", even, 1, true, true},
		{"flowlet", even, 20 * sim.Microsecond, true, false},
		{"flowlet", even, 20*sim.Microsecond + 1, false, true},
	} {
		c := newINT(t, x.preset, func(c *INTConfig) {
			c.MaxAge = sim.Second
			x.change(c)
		})
		var f INTFlow
		path, _ := c.Next(&f, 0, loads(c, 0, 0.1, 0.9), hashTo(0, 2), 0, true)
		require.Equal(t, 0, path)
		path, moved := c.Next(&f, x.at, loads(c, x.at, 0.9, 0.1), hashTo(0, 2), 0, x.begins)
		require.Equal(t, x.another, path == 1, "%+v", x)
		require.Equal(t, x.another, moved)
	}
}

// Better by less than the margin is not worth a move.
func TestINTMargin(t *testing.T) {
	c := newINT(t, "greedy", func(c *INTConfig) { c.Margin = 0.25 })
	for _, x := range []struct {
		there float64
		path  int
	}{{0.51, 0}, {0.5, 1}, {0.1, 1}, {0.9, 0}} {
		var f INTFlow
		path, _ := c.Next(&f, 0, loads(c, 0, 0.75, x.there), hashTo(0, 2), 0, true)
		require.Equal(t, x.path, path, "%v", x.there)
	}
	// Rounded to quarters, 0.5 and 0.74 are the same.
	c = newINT(t, "greedy", func(c *INTConfig) { c.Levels = 4 })
	var f INTFlow
	path, _ := c.Next(&f, 0, loads(c, 0, 0.74, 0.5, 0.6), hashTo(0, 3), 0, true)
	require.Equal(t, 0, path)
	path, _ = c.Next(&f, 0, loads(c, 0, 0.75, 0.5, 0.74), hashTo(0, 3), 0, false)
	require.NotEqual(t, 0, path)
}

// Without fresh telemetry of its path a flow is where its hash says; ECMP, that is.
func TestINTFallsBackToTheHash(t *testing.T) {
	c := newINT(t, "greedy", func(c *INTConfig) { c.MaxAge = 100 * sim.Nanosecond })
	const late = 101 * sim.Nanosecond
	home := hashTo(2, 4)
	var f INTFlow
	path, _ := c.Next(&f, 0, make([]PathState, 4), home, 0, true)
	require.Equal(t, 2, path)
	paths := loads(c, 0, 0.1, 0.5, 0.9, 0.5)
	path, _ = c.Next(&f, 100*sim.Nanosecond, paths, home, 0, true)
	require.Equal(t, 0, path)
	path, _ = c.Next(&f, late, paths, home, 0, true)
	require.Equal(t, 2, path, "all is too old")
	// Only the hash's path is known: there it stays. Others are, and it is not: too.
	c.Observe(&paths[2], late, 5)
	path, _ = c.Next(&f, late, paths, home, 0, true)
	require.Equal(t, 2, path)
	paths[2] = PathState{}
	c.Observe(&paths[0], late, 0)
	path, _ = c.Next(&f, late, paths, home, 0, true)
	require.Equal(t, 2, path)
	// A failed path is left at once, and never chosen.
	c.Observe(&paths[2], late, 0)
	paths[2].SetDown(true)
	for range 20 {
		path, _ = c.Next(&f, late, paths, home, 0, false)
		require.NotEqual(t, 2, path)
	}
	// With none in service it is the hash's.
	for i := range paths {
		paths[i].SetDown(true)
	}
	path, _ = c.Next(&f, late, paths, home, 0, false)
	require.Equal(t, 2, path)
	// Nor does it outlive a path.
	path, _ = c.Next(&f, late, paths[:1], home, 0, false)
	require.Equal(t, 0, path)
}

func TestINTAverageAndAge(t *testing.T) {
	c := newINT(t, "packet", func(c *INTConfig) { c.Gain, c.MaxAge = 0.25, 100*sim.Nanosecond })
	const ns = sim.Nanosecond
	var p PathState
	_, ok := c.Load(&p, 0)
	require.False(t, ok)
	c.Observe(&p, 10*ns, 0.8)
	load, ok := c.Load(&p, 110*ns)
	require.True(t, ok)
	require.Equal(t, 0.8, load)
	_, ok = c.Load(&p, 111*ns)
	require.False(t, ok)
	c.Observe(&p, 20*ns, 0.4) // 0.75 x 0.8 + 0.25 x 0.4
	load, _ = c.Load(&p, 20*ns)
	require.InDelta(t, 0.7, load, 1e-15)
	c.Observe(&p, 15*ns, 100) // older than what is known
	load, _ = c.Load(&p, 20*ns)
	require.InDelta(t, 0.7, load, 1e-15)
	c.Observe(&p, 20*ns, 0.3) // 0.75 x 0.7 + 0.25 x 0.3, of the same instant
	load, _ = c.Load(&p, 20*ns)
	require.InDelta(t, 0.6, load, 1e-15)
	q := p
	c.Observe(&q, 120*ns, 1) // just in time: 0.75 x 0.6 + 0.25
	load, _ = c.Load(&q, 120*ns)
	require.InDelta(t, 0.7, load, 1e-15)
	c.Observe(&p, 121*ns, 0.1) // what was known is too old to count
	load, _ = c.Load(&p, 121*ns)
	require.Equal(t, 0.1, load)
}

func TestProbes(t *testing.T) {
	const ns = sim.Nanosecond
	c := newINT(t, "packet", func(c *INTConfig) { c.ProbeInterval = 50 * ns })
	var p PathState
	n, due := c.ProbeDue(&p, 0)
	require.True(t, due)
	require.EqualValues(t, 126, n)
	_, due = c.ProbeDue(&p, 49*ns)
	require.False(t, due, "one is under way")
	lost := p
	_, due = c.ProbeDue(&lost, 50*ns)
	require.True(t, due, "it did not come back")
	c.Observe(&p, 30*ns, 0)
	_, due = c.ProbeDue(&p, 79*ns)
	require.False(t, due, "it has been heard of")
	_, due = c.ProbeDue(&p, 80*ns)
	require.True(t, due)
	p.SetDown(true)
	_, due = c.ProbeDue(&p, 1000*ns)
	require.False(t, due)
	c = newINT(t, "packet", func(c *INTConfig) { c.ProbeInterval = 0 })
	_, due = c.ProbeDue(&PathState{}, 0)
	require.False(t, due)
}

// A path of which no probe comes back is left for those that answer, in the middle
// of a message too, probed on, and used again when it answers. Without silent_after
// a flow follows its hash onto it.
func TestSilentPaths(t *testing.T) {
	const us = sim.Microsecond
	for _, after := range []sim.Time{0, 100 * us} {
		c := newINT(t, "message", func(c *INTConfig) { c.SilentAfter = after })
		paths := make([]PathState, 4)
		home := hashTo(2, 4)
		var f INTFlow
		path, _ := c.Next(&f, 0, paths, home, 0, true)
		require.Equal(t, 2, path)
		probes := func(from, to sim.Time, answers ...int) {
			for now := from; now <= to; now += 10 * us {
				for i := range paths {
					c.ProbeDue(&paths[i], now)
				}
				for _, i := range answers {
					c.Observe(&paths[i], now, 0.1)
				}
			}
		}
		probes(0, 100*us, 0, 1, 3)
		path, _ = c.Next(&f, 100*us, paths, home, 0, false)
		require.Equal(t, 2, path, "it may still answer")
		probes(110*us, 400*us, 0, 1, 3)
		path, moved := c.Next(&f, 401*us, paths, home, 0, false)
		require.Equal(t, after > 0, path != 2)
		require.Equal(t, after > 0, moved)
		var g INTFlow
		path, _ = c.Next(&g, 401*us, paths, home, 0, true)
		require.Equal(t, after > 0, path != 2, "new flows do not go there either")
		_, due := c.ProbeDue(&paths[2], 460*us)
		require.True(t, due)
		c.Observe(&paths[2], 350*us, 0.1)
		_, ok := c.Load(&paths[2], 460*us)
		require.True(t, ok, "an answer to any of the probes will do")
		// Where nobody answers it is the hash's, as without any telemetry.
		clear(paths)
		probes(1000*us, 2000*us)
		var h INTFlow
		path, _ = c.Next(&h, 2000*us, paths, home, 0, true)
		require.Equal(t, 2, path)
		// What routing takes back into service is not silent yet.
		paths[0].SetDown(true)
		paths[0].SetDown(false)
		path, _ = c.Next(&h, 2001*us, paths, home, 0, true)
		require.Equal(t, after > 0, path == 0)
	}
	bad := DefaultINT()
	bad.SilentAfter, bad.ProbeInterval = 100*us, 0
	require.ErrorContains(t, bad.Validate(), "silent_after: 100us without probes finds nothing out; write probe_interval, too")
}

// Among equals, and with choices, all paths are drawn alike, and flows with
// different hashes draw differently.
func TestINTDrawsAreUniform(t *testing.T) {
	for _, choices := range []int{0, 1, 2} {
		c := newINT(t, "greedy", func(c *INTConfig) { c.Choices = choices })
		counts := make([]int, 7)
		for i := range 7000 {
			var f INTFlow
			paths := loads(c, 0, 0.9, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5)
			// Hashes that all give path 0 and differ otherwise.
			hash := mix(uint64(i)) >> 3
			path, _ := c.Next(&f, 0, paths, hash, 0, true)
			if path > 0 {
				counts[path-1]++
			}
		}
		x, limit := chiSquare(counts)
		require.Less(t, x, limit, "%d choices: %v", choices, counts)
	}
}

// Whatever is known and whatever happens, the path is one of those there are, in
// service if any is, and only a decision moves a flow.
func TestINTProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newINT(t, rapid.SampledFrom(INTPresets()).Draw(t, "preset"), func(c *INTConfig) {
			c.Choices = rapid.IntRange(0, 3).Draw(t, "choices")
			c.Levels = rapid.SampledFrom([]int{0, 8}).Draw(t, "levels")
			c.SilentAfter = rapid.SampledFrom([]sim.Time{0, 20 * sim.Microsecond}).Draw(t, "silent")
		})
		paths := make([]PathState, rapid.IntRange(1, 9).Draw(t, "paths"))
		hash := rapid.Uint64().Draw(t, "hash")
		var f INTFlow
		now, last := sim.Time(0), -1
		for range 60 {
			now += sim.Time(rapid.Int64Range(0, int64(60*sim.Microsecond)).Draw(t, "dt"))
			p := &paths[rapid.IntRange(0, len(paths)-1).Draw(t, "path")]
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 6:
				c.ProbeDue(p, now)
			case 0:
				p.SetDown(rapid.Bool().Draw(t, "down"))
			case 1, 2:
				taken := now - sim.Time(rapid.Int64Range(0, int64(300*sim.Microsecond)).Draw(t, "age"))
				c.Observe(p, taken, rapid.Float64Range(0, 3).Draw(t, "load"))
			default:
				if last < 0 {
					last = c.homeOf(now, paths, hash)
				}
				at, moved := c.Next(&f, now, paths, hash, 0, rapid.Bool().Draw(t, "begins"))
				require.True(t, at >= 0 && at < len(paths))
				require.Equal(t, at != last, moved)
				some := false
				for i := range paths {
					some = some || !c.out(&paths[i], now)
				}
				require.True(t, !c.out(&paths[at], now) || !some)
				last = at
			}
		}
	})
}

// A fleet is a toy: flows of equal rate that each take one of a few paths, and
// sources that see the paths' loads some steps late, with noise that is the same
// for all of them, so that no two paths look equal.
type fleet struct {
	c      *INT // nil follows the hash
	oracle bool // sees the loads of now
	flows  int
	paths  int
	age    int // steps by which telemetry is late
	// decides and turnover are the parts of the flows that may move, and that give
	// way to new ones, in a step.
	decides, turnover float64
	together          bool // all begin on path 0
	own               float64
	draws             *rand.Rand

	now     []float64 // loads of the paths, of which the mean is 1
	history [][]float64
	tables  [][]PathState

	fullest float64 // mean over time of the fullest path
	swing   float64 // the most that a path's load has risen in a step
	moves   int
}

const fleetStep = 10 * sim.Microsecond

type fleetFlow struct {
	INTFlow
	hash uint64
	at   int
}

// PathLoad makes a fleet its own oracle.
func (s *fleet) PathLoad(i int) float64 { return s.now[i] }

func (s *fleet) newFlow() fleetFlow {
	hash := s.draws.Uint64()
	if s.together {
		hash /= uint64(s.paths) // gives path 0
	}
	return fleetFlow{hash: hash, at: pick(hash, s.paths)}
}

func (s *fleet) run(steps int) {
	share := float64(s.paths) / float64(s.flows)
	flows := make([]fleetFlow, s.flows)
	s.now, s.tables = make([]float64, s.paths), make([][]PathState, s.flows)
	for i := range flows {
		flows[i] = s.newFlow()
		s.now[flows[i].at] += share
		s.tables[i] = make([]PathState, s.paths)
	}
	for k := range steps {
		var seen []float64
		for _, l := range s.now {
			seen = append(seen, 0.8*l+1e-6*s.draws.Float64())
		}
		s.history = append(s.history, seen)
		before := append([]float64(nil), s.now...)
		for i := range flows {
			f := &flows[i]
			s.now[f.at] -= share // it does not count itself where it looks at now
			to := s.step(k, i, f)
			s.now[to] += share
			if to != f.at {
				s.moves++
			}
			f.at = to
		}
		high := 0.
		for p := range s.now {
			high = max(high, s.now[p])
			if k >= steps/2 {
				s.swing = max(s.swing, s.now[p]-before[p])
			}
		}
		if k >= steps/2 {
			s.fullest += high / float64(steps-steps/2)
		}
	}
}

// step is the path of flow i in step k.
func (s *fleet) step(k, i int, f *fleetFlow) int {
	table, begins := s.tables[i], s.draws.Float64() < s.decides
	if old := k - s.age; s.c != nil && old >= 0 {
		for p := range table {
			s.c.Observe(&table[p], sim.Time(old)*fleetStep, s.history[old][p])
		}
	}
	if s.draws.Float64() < s.turnover {
		at := f.at
		*f = s.newFlow()
		f.at, begins = at, true
	}
	switch {
	case s.oracle:
		if begins {
			return LeastLoaded(s, s.paths, f.hash, uint64(k))
		}
		return f.at
	case s.c == nil:
		return pick(f.hash, s.paths)
	}
	to, _ := s.c.Next(&f.INTFlow, sim.Time(k)*fleetStep, table, f.hash, s.own, begins)
	return to
}

// Old telemetry is worse than new: 64 flows on 8 paths, of which one in ten sends
// a message per step and one in 20 is replaced. Fresh telemetry is better than the
// hash, an oracle better still; the older, the less is left of that, until it is
// worse than none; older than MaxAge it is not used, and that is the hash again.
func TestStaleTelemetryHurts(t *testing.T) {
	c := newINT(t, "message", func(c *INTConfig) { c.Hold, c.Gain, c.MaxAge = 0, 1, sim.Millisecond })
	run := func(c *INT, age int, oracle bool) float64 {
		s := fleet{
			c: c, oracle: oracle, flows: 64, paths: 8, age: age, decides: 0.1, turnover: 0.05,
			draws: rand.New(rand.NewPCG(1, 1)),
		}
		s.run(2000)
		return s.fullest
	}
	ecmp, oracle := run(nil, 0, false), run(nil, 0, true)
	fresh, late, later, stale := run(c, 0, false), run(c, 5, false), run(c, 20, false), run(c, 101, false)
	t.Logf("fullest path over the mean: oracle %.2f, fresh %.2f, 50 us %.2f, 200 us %.2f, too old %.2f, ECMP %.2f",
		oracle, fresh, late, later, stale, ecmp)
	require.Less(t, oracle+0.05, fresh)
	require.Less(t, fresh+0.05, late)
	require.Less(t, late+0.05, later)
	require.Less(t, fresh+0.1, ecmp)
	require.InDelta(t, ecmp, stale, 0.05)
}

// Sources that see the same and act at the same instants must not all run to the
// same path and back. The swing is the most that a path's load rises in one step,
// in units of the mean; all flows on one of n paths are n.
func TestSourcesDoNotOscillateInStep(t *testing.T) {
	for _, x := range []struct{ flows, paths int }{{2, 2}, {8, 8}, {64, 8}} {
		run := func(preset string, change func(*INTConfig)) *fleet {
			own := 0.
			if preset != "greedy" {
				own = 0.8 * float64(x.paths) / float64(x.flows)
			}
			s := &fleet{
				own: own,
				c:   newINT(t, preset, change), flows: x.flows, paths: x.paths, age: 2, decides: 1, together: true,
				draws: rand.New(rand.NewPCG(1, 1)),
			}
			s.run(1000)
			return s
		}
		greedy := run("greedy", nil)
		margin := run("greedy", func(c *INTConfig) { c.Margin = 0.1 })
		draws := run("greedy", func(c *INTConfig) { c.Choices = 2 })
		calm := run("packet", func(c *INTConfig) { c.Hold = 40 * sim.Microsecond })
		t.Logf("%d flows on %d paths: swing %.2f greedy, %.2f with a margin, %.2f with two choices, %.2f with margin, hold and two choices; fullest path %.2f, %.2f, %.2f, %.2f; moves %d, %d, %d, %d",
			x.flows, x.paths, greedy.swing, margin.swing, draws.swing, calm.swing,
			greedy.fullest, margin.fullest, draws.fullest, calm.fullest, greedy.moves, margin.moves, draws.moves, calm.moves)
		require.InDelta(t, float64(x.paths), greedy.swing, 0.01, "without them all flows move together")
		require.InDelta(t, greedy.swing, margin.swing, 0.01, "a margin alone is not enough")
		require.Less(t, calm.swing, 0.25*greedy.swing)
		require.Less(t, calm.swing, draws.swing+0.01)
		require.Less(t, calm.fullest, 0.8*greedy.fullest)
		require.Less(t, 3*calm.moves, greedy.moves)
	}
}

// Where switches have stamped that a path is slow, the hash gives it its part.
func TestHomesBySpeed(t *testing.T) {
	c := newINT(t, "message", nil)
	paths := make([]PathState, 4)
	even := make([]PathState, 4)
	paths[1].SetRate(100 * units.Gbps)
	paths[2].SetRate(400 * units.Gbps)
	counts := make([]int, 4)
	for i := range uint64(13_000) {
		counts[c.homeOf(0, paths, mix(i))]++
		require.Equal(t, pick(mix(i), 4), c.homeOf(0, even, mix(i)))
	}
	for i, want := range []float64{4000, 1000, 4000, 4000} { // what is not known counts as fast
		require.InEpsilon(t, want, counts[i], 0.1, "path %d", i)
	}
	paths[3].SetDown(true)
	for i := range uint64(1000) {
		require.NotEqual(t, 3, c.homeOf(0, paths, mix(i)))
	}
}

// The hash spreads flows evenly over the paths that are left.
func TestHomesOfSomePaths(t *testing.T) {
	paths := make([]PathState, 8)
	for _, down := range []int{0, 3, 7} {
		paths[down].SetDown(true)
	}
	c, counts := newINT(t, "message", nil), make([]int, 8)
	for i := range 10_000 {
		var f INTFlow
		at, _ := c.Next(&f, 0, paths, mix(uint64(i)), 0, true)
		counts[at]++
	}
	x, limit := chiSquare([]int{counts[1], counts[2], counts[4], counts[5], counts[6]})
	require.Less(t, x, limit, "%v", counts)
	require.Zero(t, counts[0]+counts[3]+counts[7])
}

// The oracle's draws do not favour a path.
func TestOracleTies(t *testing.T) {
	counts := make([]int, 5)
	for i := range uint64(10_000) {
		counts[LeastLoaded(&fleet{now: []float64{1, 1, 1, 1, 1}}, 5, 3, i)]++
	}
	x, limit := chiSquare(counts)
	require.Less(t, x, limit, "%v", counts)
	require.Equal(t, 2, LeastLoaded(&fleet{now: []float64{3, 2, 1, 2}}, 4, 0, 0))
}

func TestINTState(t *testing.T) {
	require.Equal(t, uintptr(48), unsafe.Sizeof(PathState{}))
	require.Equal(t, uintptr(24), unsafe.Sizeof(INTFlow{}))
	c := newINT(t, "packet", nil)
	paths := loads(c, 0, 0.1, 0.2, 0.3, 0.4)
	var f INTFlow
	require.Zero(t, testing.AllocsPerRun(100, func() {
		c.Observe(&paths[1], 0, 0.5)
		c.Next(&f, 0, paths, 7, 0, true)
	}))
}

func BenchmarkINT(b *testing.B) {
	c := newINT(b, "packet", func(c *INTConfig) { c.Hold = 0 })
	paths := loads(c, 0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
	flows := make([]INTFlow, 1<<12)
	b.ReportAllocs()
	n := uint64(0)
	for b.Loop() {
		n++
		c.Next(&flows[n&4095], sim.Time(n), paths, n&4095, 0, false)
	}
	b.ReportMetric(float64(unsafe.Sizeof(INTFlow{})), "B/flow")
}
