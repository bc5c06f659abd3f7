package routing

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

func TestRoundRobinIsEven(t *testing.T) {
	var r RoundRobin
	for i := range 100 {
		require.Equal(t, i%7, r.Next(7))
	}
	// Fewer paths than the turn it has come to: it starts over within them.
	for range 100 {
		require.Less(t, r.Next(2), 2)
	}
}

// Draws are uniform: of 80,000 over 8 paths, each gets 10,000 with a standard
// deviation of 94. Two seeds agree on one in eight, no more.
func TestRandomPathIsUniform(t *testing.T) {
	var count [8]int
	same := 0
	for i := range uint64(80_000) {
		p := RandomPath(1, i, 8)
		count[p]++
		if p == RandomPath(2, i, 8) {
			same++
		}
	}
	for _, c := range append(count[:], same) {
		require.InDelta(t, 10_000, c, 5*94)
	}
}

// A flowlet lasts until a gap longer than the one given, exactly.
func TestFlowlet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var f Flowlet
		gap := sim.Time(rapid.Int64Range(0, 1000).Draw(t, "gap"))
		seed, paths := rapid.Uint64().Draw(t, "seed"), rapid.IntRange(1, 64).Draw(t, "paths")
		now, last, path := sim.Time(0), -sim.Second, -1
		for range 50 {
			now += sim.Time(rapid.Int64Range(0, 2000).Draw(t, "pause"))
			got, begins := f.Next(now, gap, seed, paths)
			require.Equal(t, now-last > gap, begins)
			require.Less(t, got, paths)
			if !begins {
				require.Equal(t, path, got)
			}
			last, path = now, got
		}
	})
	// A flowlet does not outlive its path.
	for range 100 {
		var f Flowlet
		for paths := 8; paths > 0; paths-- {
			path, _ := f.Next(0, 10, 7, paths)
			require.Less(t, path, paths)
			f.Break()
			_, begins := f.Next(0, 10, 7, paths)
			require.True(t, begins)
		}
	}

	// Flowlets of one flow spread over all paths; so do first flowlets of many.
	var f Flowlet
	seen, first := map[int]bool{}, map[int]bool{}
	for i := range 200 {
		p, _ := f.Next(sim.Time(i)*sim.Second, sim.Millisecond, 9, 8)
		seen[p] = true
		var g Flowlet
		p, _ = g.Next(0, sim.Millisecond, uint64(i), 8)
		first[p] = true
	}
	require.Len(t, seen, 8)
	require.Len(t, first, 8)
}

// Without failures the path is ECMP's; with some it is a shortest path without a
// failed link, as long as there is one, and only flows whose choice the failure
// touches move.
func TestPathAround(t *testing.T) {
	c := topology.DefaultConfig()
	c.Spines = 4
	g, err := topology.LeafSpine(c)
	require.NoError(t, err)
	e := NewECMP(g, 3)
	rapid.Check(t, func(t *rapid.T) {
		gpu := rapid.IntRange(0, g.GPUs()-1)
		src, dst := topology.GPU(gpu.Draw(t, "src")), topology.GPU(gpu.Draw(t, "dst"))
		k := RoCE(uint32(src), uint32(dst), rapid.Uint32Max(100).Draw(t, "qp"))
		want := e.Path(src, dst, k, nil)
		require.Equal(t, want, e.PathAround(src, dst, k, func(topology.LinkID) bool { return false }, nil))
		dead := map[topology.LinkID]bool{}
		for range rapid.IntRange(1, 12).Draw(t, "failures") {
			l := topology.LinkID(rapid.IntRange(0, len(g.Links)-1).Draw(t, "link"))
			if len(want) > 2 && rapid.Bool().Draw(t, "on the path") {
				l = want[1+int(l)%(len(want)-2)]
			}
			dead[l], dead[g.Reverse(l)] = true, true
		}
		if g.ServerOf(src) == g.ServerOf(dst) {
			return
		}
		alive := 0
		var live []topology.LinkID
		for _, p := range g.Paths(g.NICOf(src), g.NICOf(dst)) {
			ok := true
			for _, l := range p {
				ok = ok && !dead[l]
			}
			if ok {
				alive++
				live = p
			}
		}
		got := e.PathAround(src, dst, k, func(l topology.LinkID) bool { return dead[l] }, nil)
		if alive == 0 {
			require.Empty(t, got)
			return
		}
		require.Len(t, got, len(live))
		require.Contains(t, g.Paths(g.NICOf(src), g.NICOf(dst)), got)
		for _, l := range got {
			require.False(t, dead[l])
		}
	})
}
