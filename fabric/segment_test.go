package fabric

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/topology"
)

// What a collective puts on its links is what its queue pairs do, one by one,
// whatever units it had before.
func TestLoadsAreThoseOfTheQueuePairs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g, err := topology.LeafSpine(drawTopology(rt))
		require.NoError(rt, err)
		b := newBench(rt, plain(), g)
		spec := drawSpec(rt, g)
		if rapid.Bool().Draw(rt, "own units") { // as where tokens choose experts
			spec = pairwise("pairs", gpuRange(0, rapid.IntRange(1, min(16, g.GPUs())).Draw(rt, "gpus")), rapid.Int64Range(0, 5).Draw(rt, "milli"))
			spec.QPs = rapid.IntRange(0, 3).Draw(rt, "qps")
		}
		c, err := b.net.NewCollective(spec)
		require.NoError(rt, err)
		unit := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 5), rapid.Int64Range(-2, 1<<40))
		for range rapid.IntRange(1, 4).Draw(rt, "runs") {
			units := rapid.SliceOfN(unit, 0, spec.Ranks+1).Draw(rt, "units")
			c.SetUnits(units)
			c.(*collective).reload()
			checkSpread(rt, b, spec, c.(*collective))
		}
	})
}

// checkSpread adds up the bytes and the pairs of each link.
func checkSpread(t require.TestingT, b *bench, spec CollectiveSpec, c *collective) {
	type pair struct {
		src, dst topology.GPU
		qp       int
	}
	bytes, total := map[pair]int64{}, int64(0)
	for _, s := range perQueuePair(b.graph, spec) {
		milli := s.Milli * c.units[s.Rank]
		bytes[pair{s.Src, s.Dst, s.qp}] += milli
		total += milli
	}
	milli, pairs := map[int32]int64{}, map[int32]int32{}
	for p, n := range bytes {
		if n == 0 {
			continue
		}
		for _, l := range b.net.pathOf(p.src, p.dst, p.qp, spec.Class) {
			milli[int32(l)] += n
			pairs[int32(l)]++
		}
	}
	require.Equal(t, total, c.milli)
	for i, l := range c.spread.links {
		require.Equal(t, milli[l], c.spread.milli[i], "bytes of link %d", l)
		require.Equal(t, pairs[l], c.spread.pairs[i], "pairs of link %d", l)
		delete(milli, l)
	}
	require.Empty(t, milli, "links that the collective does not know")
}
