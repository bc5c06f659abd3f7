package experts

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "github.com/tgssim/tgssim/internal/testkit" // the same draws in every run
)

// pairs returns the probability of each set of two that are drawn one after
// another without replacement.
func pairs(w []float64) map[[2]int]float64 {
	total := 0.
	for _, x := range w {
		total += x
	}
	out := map[[2]int]float64{}
	for i := range w {
		for j := range w {
			if i != j {
				out[[2]int{min(i, j), max(i, j)}] += w[i] / total * w[j] / (total - w[i])
			}
		}
	}
	return out
}

// near4 requires that a frequency is within four standard errors of a probability.
func near4(t require.TestingT, p, frequency float64, n int, msg ...any) {
	require.InDelta(t, p, frequency, 4*math.Sqrt(p*(1-p)/float64(n))+1e-9, msg...)
}

// TestTopTwoOfFour compares choices with all twelve orders, written out.
func TestTopTwoOfFour(t *testing.T) {
	const draws = 200_000
	for _, w := range [][]float64{{1, 1, 1, 1}, {8, 4, 2, 1}, {100, 1, 1, 1}, {0.01, 5, 5, 0.2}} {
		want := pairs(w)
		c := newChooser(Shape{Layers: 1, Experts: 4, TopK: 2}, GroupTop2, w)
		rng := rand.New(rand.NewPCG(1, 2))
		got := map[[2]int]int{}
		one := make([]uint16, 2)
		for range draws {
			c.choose(rng, one)
			got[[2]int{int(min(one[0], one[1])), int(max(one[0], one[1]))}]++
		}
		single := make([]float64, 4)
		for pair, p := range want {
			near4(t, p, float64(got[pair])/draws, draws, "%v %v", w, pair)
			single[pair[0]] += p
			single[pair[1]] += p
		}
		require.Len(t, got, 6)
		for e, p := range inclusion(w, 2) {
			require.InDelta(t, single[e], p, 1e-12, "%v", w)
		}
	}
}

// gumbelChoice is the definition: a score for every expert, the groups by the sum
// of their two best, the top k of what is left.
func gumbelChoice(rng *rand.Rand, s Shape, random bool, w []float64) []int {
	score := make([]float64, s.Experts)
	for e := range score {
		score[e] = math.Log(w[e]) - math.Log(-math.Log(1-rng.Float64()))
	}
	candidates := make([]int, 0, s.Experts)
	groups := max(1, s.Groups)
	size := s.Experts / groups
	rank, order := make([]float64, groups), make([]int, groups)
	for g := range groups {
		own := slices.Sorted(slices.Values(score[g*size : (g+1)*size]))
		order[g] = g
		rank[g] = own[size-1]
		if size > 1 {
			rank[g] += own[size-2]
		}
		if random {
			total := 0.
			for _, x := range w[g*size : (g+1)*size] {
				total += x
			}
			rank[g] = math.Log(total) - math.Log(-math.Log(1-rng.Float64()))
		}
	}
	slices.SortFunc(order, func(a, b int) int { return -compare(rank[a], rank[b]) })
	top := groups
	if s.limited() {
		top = s.TopGroups
	}
	for _, g := range order[:top] {
		for i := range size {
			candidates = append(candidates, g*size+i)
		}
	}
	slices.SortFunc(candidates, func(a, b int) int { return -compare(score[a], score[b]) })
	return candidates[:s.TopK]
}

func compare(a, b float64) int {
	if a < b {
		return -1
	}
	return 1
}

// TestRaceIsGumbelTopK compares the race of clocks with the definition: how often
// each expert is chosen, how many of a group, and in which order.
func TestRaceIsGumbelTopK(t *testing.T) {
	draws := 40_000
	if testing.Short() {
		draws = 5000
	}
	shapes := []Shape{
		{Layers: 1, Experts: 16, TopK: 4, Groups: 4, TopGroups: 2},
		{Layers: 1, Experts: 12, TopK: 3, Groups: 6, TopGroups: 3},
		{Layers: 1, Experts: 6, TopK: 2, Groups: 6, TopGroups: 3},
		{Layers: 1, Experts: 16, TopK: 8, Groups: 4, TopGroups: 2}, // all of the groups
		{Layers: 1, Experts: 12, TopK: 4},
	}
	for _, s := range shapes {
		for _, choice := range []string{GroupTop2, GroupRandom} { // none has no groups
			if choice == GroupRandom && s.Groups == 0 {
				continue
			}
			for _, alpha := range []float64{0, 1.2} {
				w := Zipf(s.Experts, alpha)
				name := fmt.Sprint(s, choice, alpha)
				rng := rand.New(rand.NewPCG(7, 7))
				c := newChooser(s, choice, w)
				one := make([]uint16, s.TopK)
				var got, want choiceCounts
				for range draws {
					c.choose(rng, one)
					got.add(s, one)
					slow := gumbelChoice(rng, s, choice == GroupRandom, w)
					for i, e := range slow {
						one[i] = uint16(e)
					}
					want.add(s, one)
				}
				got.compare(t, &want, draws, name)
			}
		}
	}
}

// choiceCounts counts what one choice has: each expert, at each place, and each
// number of experts of each group.
type choiceCounts struct{ expert, first, group [64]int }

func (c *choiceCounts) add(s Shape, choice []uint16) {
	groups := max(1, s.Groups)
	var of [64]int
	for _, e := range choice {
		c.expert[e]++
		of[int(e)/(s.Experts/groups)]++
	}
	c.first[choice[0]]++
	for g := range groups {
		c.group[min(63, g*8+of[g])]++
	}
}

func (c *choiceCounts) compare(t *testing.T, o *choiceCounts, draws int, name string) {
	for i, pair := range [][2][64]int{{c.expert, o.expert}, {c.first, o.first}, {c.group, o.group}} {
		for j := range pair[0] {
			p := float64(pair[0][j]+pair[1][j]) / float64(2*draws)
			// Some 3,000 comparisons: 5 standard errors.
			require.InDelta(t, float64(pair[1][j])/float64(draws), float64(pair[0][j])/float64(draws),
				5*math.Sqrt(2*p*(1-p)/float64(draws))+1e-9, "%s: %d %d", name, i, j)
		}
	}
}

// TestChoicesAreValid: k different experts, of no more groups than the limit,
// whatever the weights.
func TestChoicesAreValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		groups := rapid.IntRange(1, 8).Draw(t, "groups")
		size := rapid.IntRange(1, 8).Draw(t, "size")
		s := Shape{Layers: 1, Experts: groups * size, Groups: groups, TopGroups: rapid.IntRange(1, groups).Draw(t, "top")}
		s.TopK = rapid.IntRange(1, min(s.TopGroups*size, maxTopK)).Draw(t, "k")
		require.NoError(t, s.Validate())
		w := floored(rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(1e-300, 1), rapid.SampledFrom([]float64{0, 1e-9, 1, 1e9})),
			s.Experts, s.Experts).Filter(func(w []float64) bool { return slices.Max(w) > 0 }).Draw(t, "weights"))
		c := newChooser(s, rapid.SampledFrom([]string{GroupTop2, GroupRandom}).Draw(t, "choice"), w)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		one := make([]uint16, s.TopK)
		for range 20 {
			c.choose(rng, one)
			seen, of := map[uint16]bool{}, map[int]bool{}
			for _, e := range one {
				require.Less(t, int(e), s.Experts)
				require.False(t, seen[e], "%v", one)
				seen[e], of[int(e)/size] = true, true
			}
			require.LessOrEqual(t, len(of), s.TopGroups)
			require.NotContains(t, c.taken, true)
		}
	})
}

// TestInclusion: the chances sum to k, are in the order of the weights, and are
// those of two experts by symmetry; also for extreme weights.
func TestInclusion(t *testing.T) {
	for _, c := range []struct {
		w []float64
		k int
	}{
		{Zipf(256, 1), 8}, {Zipf(128, 0.3), 8}, {Zipf(60, 4), 4}, {Zipf(8, 2), 2}, {Zipf(5, 1), 5},
		{floored(append(make([]float64, 30), 1, 1e6, 3)), 3},
	} {
		p, sum := inclusion(c.w, c.k), 0.
		for i := range p {
			sum += p[i]
			require.True(t, 0 < p[i] && p[i] <= 1+1e-12)
			for j := range p {
				require.False(t, c.w[i] > c.w[j] && p[i] < p[j]-1e-12)
			}
		}
		require.InEpsilon(t, float64(c.k), sum, 1e-10, "%v", c)
	}
	for _, p := range inclusion([]float64{3, 3, 3, 3, 3}, 2) {
		require.InDelta(t, 0.4, p, 1e-12)
	}
}

// hitOf is hitUniform of consecutive experts.
func hitOf(s Shape, first, held int) float64 {
	of := make([]int, s.groups())
	for i := first; i < first+held; i++ {
		of[i/(s.Experts/len(of))]++
	}
	return hitUniform(s, of)
}
