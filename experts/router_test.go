package experts

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/sim"
)

var (
	deepSeek = Shape{Layers: 58, Experts: 256, TopK: 8, Groups: 8, TopGroups: 4}
	qwen     = Shape{Layers: 94, Experts: 128, TopK: 8}
	mixtral  = Shape{Layers: 32, Experts: 8, TopK: 2}
)

// newRouter makes a router of a changed default.
func newRouter(t testing.TB, s Shape, cl Cluster, seed uint64, change func(*Setup)) *Router {
	setup := Setup{Config: Default(), Shape: s, Cluster: cl, Deduplicate: true, Streams: sim.Streams{Seed: seed}, Name: "decode"}
	if change != nil {
		change(&setup)
	}
	r, err := New(setup)
	require.NoError(t, err)
	return r
}

func zipf(alpha float64) PopularityConfig {
	return PopularityConfig{Kind: PopularityZipf, Alpha: alpha}
}

func each(ranks, tokens int) []int {
	out := make([]int, ranks)
	for i := range out {
		out[i] = tokens
	}
	return out
}

// conserve checks every law of conservation of a traffic from outside.
func conserve(t require.TestingT, r *Router, tokens []int, tr *Traffic) {
	require.NotPanics(t, func() { r.check(tokens, tr) })
}

func sum(ns []int64) (s int64) {
	for _, n := range ns {
		s += n
	}
	return s
}

// TestConservation: what is sent arrives, in every mode.
func TestConservation(t *testing.T) {
	cluster := Packed(16, 8, 2)
	tokens := []int{0, 1, 15, 16, 17, 100, 1000, 3}
	var tr Traffic
	for _, counts := range Counts {
		for _, choice := range Choices {
			for _, nearest := range CopyChoices {
				for _, capacity := range []float64{0, 0.5, 1, 1.25} {
					for _, strategy := range Strategies {
						name := fmt.Sprint(counts, choice, nearest, capacity, strategy)
						shape := Shape{Layers: 2, Experts: 64, TopK: 6, Groups: 8, TopGroups: 3}
						r := newRouter(t, shape, cluster, 1, func(s *Setup) {
							s.Config.Counts, s.Config.Choice, s.Config.CopyChoice = counts, choice, nearest
							s.Config.CapacityFactor, s.Samples = capacity, 1000
							s.Config.Popularity = zipf(0.8)
							s.Config.Placement = PlacementConfig{Strategy: strategy, Redundant: 16}
						})
						for layer := range 2 {
							r.Route(layer, tokens, &tr)
							conserve(t, r, tokens, &tr)
							total := int64(6 * 1152 * 1000)
							require.Equal(t, sum(tr.Rows), sum(tr.Sent), name)
							if choice == ChoiceToken {
								require.Equal(t, total, sum(tr.Sent)+sum(tr.Dropped), name)
							}
							if capacity == 0 {
								require.Zero(t, sum(tr.Dropped), name)
							}
							if most := int64(math.Ceil(108 * capacity)); capacity > 0 {
								requireRoom(t, r, &tr, layer, most*1000+5, name)
							}
						}
					}
				}
			}
		}
	}
}

// requireRoom checks that no expert gets more than its capacity.
func requireRoom(t *testing.T, r *Router, tr *Traffic, layer int, most int64, name string) {
	rows := make([]int64, r.shape.Experts)
	for slot, e := range r.Placement(layer).Expert {
		rows[e] += tr.Rows[slot]
	}
	for e, n := range rows {
		require.LessOrEqual(t, n, most, "%s: expert %d", name, e)
	}
}

// TestExpectedIsCollective: for equal popularity, the expectations are those of
// package collective's traffic (whose hits are hitUniform's): one copy for each choice, and a token at most once
// to each GPU and server.
func TestExpectedIsCollective(t *testing.T) {
	for _, c := range []struct {
		shape   Shape
		gpus    int
		perNode int
	}{{deepSeek, 128, 8}, {deepSeek, 32, 8}, {deepSeek, 8, 8}, {qwen, 32, 8}, {mixtral, 8, 4}} {
		r := newRouter(t, c.shape, Packed(c.gpus, c.perNode, 1), 1, func(s *Setup) { s.Config.GroupChoice = GroupRandom })
		var tr Traffic
		const tokens = 4096
		r.Route(0, each(c.gpus, tokens), &tr)
		conserve(t, r, each(c.gpus, tokens), &tr)
		per := c.shape.Experts / c.gpus
		for rank := range c.gpus {
			for g := range c.gpus {
				require.InDelta(t, 1000*tokens*float64(c.shape.TopK)/float64(c.gpus), tr.Pairs[rank*c.gpus+g], float64(per))
				require.Equal(t, int64(math.Round(1000*tokens*hitOf(c.shape, g*per, per))), tr.GPUHits[rank*c.gpus+g])
			}
			for s := range tr.Servers {
				require.Equal(t, int64(math.Round(1000*tokens*hitOf(c.shape, s*per*c.perNode, per*c.perNode))), tr.ServerHits[rank*tr.Servers+s])
			}
		}
		require.InDelta(t, 1, tr.Imbalance(), 1e-6)
		// Striped experts, of other groups: only what they hold of each group matters.
		striped := newRouter(t, c.shape, Packed(c.gpus, c.perNode, 1), 1, func(s *Setup) {
			s.Config.GroupChoice, s.Config.Placement.Strategy = GroupRandom, PlaceStriped
		})
		exact := newRouter(t, c.shape, Packed(c.gpus, c.perNode, 1), 1, func(s *Setup) {
			s.Config.GroupChoice, s.Config.Placement.Strategy, s.Config.Counts = GroupRandom, PlaceStriped, CountExact
		})
		requireAlike(t, striped, exact, 0, c.gpus, 500, 0)
	}
}

// requireAlike requires that the sums over ranks of two routers, the first of
// expectations, agree within five standard errors (at most those of independent
// tokens, times top k) and a relative slack.
func requireAlike(t *testing.T, expected, drawn *Router, layer, ranks, tokens int, slack float64) {
	t.Helper()
	var a, b Traffic
	expected.Route(layer, each(ranks, tokens), &a)
	drawn.Route(layer, each(ranks, tokens), &b)
	k := float64(expected.shape.TopK)
	compare := func(name string, x, y []int64, width int) {
		sums := make([][2]float64, width)
		for i := range x {
			sums[i%width][0] += float64(x[i]) / 1000
			sums[i%width][1] += float64(y[i]) / 1000
		}
		for i, s := range sums {
			require.InDelta(t, s[0], s[1], 5*math.Sqrt(s[0]*k)/2+slack*s[0]+0.5, "%s %d", name, i)
		}
	}
	compare("rows", a.Rows, b.Rows, len(a.Rows))
	compare("pairs", a.Pairs, b.Pairs, a.GPUs)
	compare("GPU hits", a.GPUHits, b.GPUHits, a.GPUs)
	compare("server hits", a.ServerHits, b.ServerHits, a.Servers)
}

// TestThreeWaysAgree compares expectations with draws, for each choice, placement
// and way to share copies.
func TestThreeWaysAgree(t *testing.T) {
	shape := Shape{Layers: 2, Experts: 64, TopK: 6, Groups: 8, TopGroups: 3}
	for _, choice := range Choices {
		for _, copies := range CopyChoices {
			for _, strategy := range Strategies {
				for _, capacity := range []float64{0, 1} {
					if testing.Short() && (capacity > 0 || strategy == PlaceStriped) {
						continue
					}
					make := func(counts string) *Router {
						return newRouter(t, shape, Packed(16, 4, 1), 5, func(s *Setup) {
							s.Config.Counts, s.Config.Choice, s.Config.CopyChoice, s.Config.CapacityFactor = counts, choice, copies, capacity
							s.Config.Popularity, s.Config.Placement = zipf(0.7), PlacementConfig{Strategy: strategy, Redundant: 16}
							s.Samples = 8000
						})
					}
					expected := make(CountExpected)
					for _, counts := range []string{CountAggregate, CountExact} {
						slack := 0.05 // of the moments' sample
						if capacity > 0 && choice == ChoiceToken {
							slack = 0.12 // what drops leave of the tokens of a GPU is not exact
						}
						requireAlike(t, expected, make(counts), 1, 16, 400, slack)
					}
				}
			}
		}
	}
}

// TestNearestCopyStaysHome: with a copy of everything on each server nothing
// leaves it, and with even shares most does.
func TestNearestCopyStaysHome(t *testing.T) {
	shape := Shape{Layers: 1, Experts: 32, TopK: 4}
	for _, counts := range Counts {
		for _, copies := range CopyChoices {
			r := newRouter(t, shape, Packed(8, 2, 1), 1, func(s *Setup) {
				s.Config.Counts, s.Config.CopyChoice = counts, copies
				s.Config.Placement = PlacementConfig{Strategy: PlaceContiguous, Redundant: 96}
				s.Samples = 5000
			})
			var tr Traffic
			r.Route(0, each(8, 200), &tr)
			home := int64(0)
			for rank := range 8 {
				home += tr.Pairs[rank*8+rank/2*2] + tr.Pairs[rank*8+rank/2*2+1]
			}
			if copies == CopyNearest {
				require.Equal(t, sum(tr.Sent), home, counts)
				require.Equal(t, sum(tr.ServerHits), int64(8*200*1000), counts)
			} else {
				require.InDelta(t, float64(sum(tr.Sent))/4, float64(home), 0.02*float64(sum(tr.Sent)), counts)
			}
		}
	}
}

// TestDropsFavourNoRank: what a capacity drops is in proportion to what a rank
// wants.
func TestDropsFavourNoRank(t *testing.T) {
	for _, counts := range []string{CountAggregate, CountExact} {
		r := newRouter(t, Shape{Layers: 1, Experts: 16, TopK: 2}, Packed(8, 8, 1), 1, func(s *Setup) {
			s.Config.Counts, s.Config.Popularity, s.Config.CapacityFactor = counts, zipf(1), 1
		})
		tokens := []int{2000, 1000, 1000, 1000, 1000, 1000, 1000, 1000}
		var tr Traffic
		r.Route(0, tokens, &tr)
		share := float64(sum(tr.Dropped)) / float64(2*9000*1000)
		require.Greater(t, share, 0.2)
		for rank, n := range tokens {
			require.InDelta(t, share, float64(tr.Dropped[rank])/float64(2*n*1000), 0.03)
		}
	}
}

// TestExpertChoiceIsBalanced: every expert takes as many tokens, however popular.
func TestExpertChoiceIsBalanced(t *testing.T) {
	for _, counts := range Counts {
		r := newRouter(t, qwen, Packed(32, 8, 1), 1, func(s *Setup) {
			s.Config.Counts, s.Config.Choice, s.Config.Popularity = counts, ChoiceExpert, zipf(1)
			s.Config.CapacityFactor = 1.5
		})
		var tr Traffic
		r.Route(7, each(32, 64), &tr)
		for _, n := range tr.Rows {
			require.InDelta(t, 1.5*32*64*8/128*1000, n, 1)
		}
		require.InDelta(t, 1, tr.Imbalance(), 1e-5)
	}
}

// TestDeterminism: the same seed gives the same traffic, another seed another,
// and a layer does not depend on which others are routed.
func TestDeterminism(t *testing.T) {
	for _, counts := range Counts {
		make := func(seed uint64) *Router {
			return newRouter(t, deepSeek, Packed(32, 8, 1), seed, func(s *Setup) {
				s.Config.Counts, s.Config.Popularity, s.Samples = counts, zipf(1), 2000
				s.Config.Placement = PlacementConfig{Strategy: PlaceEPLB, Redundant: 32, ForecastCV: 0.2}
			})
		}
		a, b, other := make(1), make(1), make(2)
		var x, y, z Traffic
		tokens := each(32, 100)
		for _, l := range []int{0, 1, 2, 9} {
			a.Route(l, tokens, &x)
		}
		b.Route(9, tokens, &y)
		other.Route(9, tokens, &z)
		require.Equal(t, x, y)
		require.NotEqual(t, x, z)
		hot := func(layer int) (best int) {
			for e, p := range a.Chances(layer) {
				if p > a.Chances(layer)[best] {
					best = e
				}
			}
			return best
		}
		require.False(t, hot(0) == hot(1) && hot(1) == hot(2), "hot experts differ by layer")
	}
}

// TestSameLayers: the same experts are hot in every layer when that is asked for.
func TestSameLayers(t *testing.T) {
	r := newRouter(t, qwen, Packed(8, 8, 1), 1, func(s *Setup) {
		s.Config.Popularity = PopularityConfig{Kind: PopularityZipf, Alpha: 1, SameLayers: true}
		s.Samples = 100
	})
	require.Equal(t, r.Chances(0), r.Chances(93))
	require.InDelta(t, 8, total(r.Chances(0)), 1e-9)
}

// TestNoAllocations: a step like one before allocates nothing, in any mode.
func TestNoAllocations(t *testing.T) {
	for _, counts := range Counts {
		for _, choice := range Choices {
			r := newRouter(t, Shape{Layers: 1, Experts: 64, TopK: 6, Groups: 8, TopGroups: 3}, Packed(16, 8, 1), 1, func(s *Setup) {
				s.Config.Counts, s.Config.Choice, s.Config.CapacityFactor, s.Samples = counts, choice, 1, 100
			})
			var tr Traffic
			tokens := each(16, 40)
			r.Route(0, tokens, &tr)
			require.Zero(t, testing.AllocsPerRun(10, func() { r.Route(0, tokens, &tr) }), "%s %s", counts, choice)
		}
	}
}

// TestRebalance: after the window the placement fits what was observed, and the
// moves of the plan make it.
func TestRebalance(t *testing.T) {
	for _, strategy := range []string{PlaceEPLB, PlaceEPLBHierarchical} {
		shape := deepSeek
		shape.Layers = 3
		r := newRouter(t, shape, Packed(32, 8, 1), 1, func(s *Setup) {
			s.Config.Counts, s.Config.Popularity, s.Samples = CountAggregate, zipf(0.8), 1<<15
			s.Config.Placement = PlacementConfig{Strategy: strategy, Redundant: 32, ForecastCV: 0.5}
			s.Config.Rebalance = &RebalanceConfig{Every: 5, Window: 3}
		})
		tokens := each(32, 256)
		var tr Traffic
		worst := func(layer int) float64 {
			r.Route(layer, tokens, &tr)
			return tr.Imbalance()
		}
		for step := range 5 {
			before := worst(0)
			worst(1)
			plan := r.EndStep()
			if step < 4 {
				require.Nil(t, plan)
				continue
			}
			old := []Placement{r.Placement(0), r.Placement(1), r.Placement(2)}
			require.Equal(t, old[2], plan.Placements[2], "not routed, so not moved")
			for l := range old {
				var own []Move
				for _, m := range plan.Moves {
					if m.Layer == l {
						own = append(own, m)
					}
				}
				require.Equal(t, plan.Placements[l], carry(old[l], own))
				require.Equal(t, l == 2, len(own) == 0)
			}
			require.Equal(t, old[0], r.Placement(0), "not in effect yet")
			r.Apply(plan)
			after := worst(0)
			t.Logf("%s: %.3f, then %.3f; plan %.3f to %.3f with %d moves", strategy, before, after, plan.Before, plan.After, len(plan.Moves))
			require.Less(t, after-1, (before-1)*0.6)
			require.Less(t, plan.After, plan.Before)
		}
	}
}

// TestRandomRouters: whatever is configured, what is refused is refused with a
// key and what is not obeys the laws of conservation.
func TestRandomRouters(t *testing.T) {
	accepted := 0
	defer func() { t.Logf("%d accepted", accepted) }()
	rapid.Check(t, func(t *rapid.T) {
		groups := rapid.SampledFrom([]int{0, 1, 2, 4}).Draw(t, "groups")
		s := Shape{Layers: 1, Experts: max(1, groups) * rapid.IntRange(1, 9).Draw(t, "size"), Groups: groups}
		s.TopGroups = rapid.IntRange(0, max(1, groups)).Draw(t, "top groups")
		s.TopK = rapid.IntRange(1, 9).Draw(t, "k")
		cl := Packed(rapid.IntRange(1, 9).Draw(t, "gpus"), rapid.IntRange(1, 4).Draw(t, "per server"), 1)
		pick := func(names []string) string { return rapid.SampledFrom(names).Draw(t, "name") }
		setup := Setup{Shape: s, Cluster: cl, Deduplicate: rapid.Bool().Draw(t, "dedup"), Samples: 50, Config: Config{
			Counts: pick(Counts), Choice: pick(Choices), GroupChoice: pick(GroupChoices), CopyChoice: pick(CopyChoices),
			CapacityFactor: rapid.SampledFrom([]float64{0, 0.3, 1, 2}).Draw(t, "capacity"),
			Popularity:     rapid.SampledFrom([]PopularityConfig{{Kind: PopularityBalanced}, zipf(0.5), zipf(4)}).Draw(t, "popularity"),
			Placement:      PlacementConfig{Strategy: pick(Strategies)},
		}}
		setup.Config.Placement.Redundant = rapid.IntRange(0, 1).Draw(t, "more")*len(cl.GPUs) + (len(cl.GPUs)-s.Experts%len(cl.GPUs))%len(cl.GPUs)
		r, err := New(setup)
		accepted++
		if err != nil {
			accepted--
			var ps config.Problems
			require.ErrorAs(t, err, &ps)
			require.NotEmpty(t, ps[0].Key)
			return
		}
		tokens := rapid.SliceOfN(rapid.IntRange(-1, 70), len(cl.Ranks), len(cl.Ranks)).Draw(t, "tokens")
		var tr Traffic
		for range 3 {
			r.Route(0, tokens, &tr)
			conserve(t, r, tokens, &tr)
		}
	})
}

// TestNoGroups: with group_choice none a model's groups limit nothing, so that a
// token goes to as many servers as k draws without replacement from all experts
// reach: 1.993 of 2 and 3.614 of 4 for DeepSeek-V3, as in DeepEP's tests. Placement
// by groups still has them.
func TestNoGroups(t *testing.T) {
	for servers, want := range map[int]float64{2: 1.993, 4: 3.614} {
		none := newRouter(t, deepSeek, Packed(8*servers, 8, 1), 1, func(s *Setup) { s.Config.GroupChoice = GroupNone })
		free := deepSeek
		free.Groups, free.TopGroups = 0, 0
		without := newRouter(t, free, Packed(8*servers, 8, 1), 1, nil)
		var a, b Traffic
		tokens := each(8*servers, 1000)
		none.Route(0, tokens, &a)
		without.Route(0, tokens, &b)
		require.Equal(t, b, a)
		require.InDelta(t, want, float64(sum(a.ServerHits))/1e6/float64(8*servers), 0.0005)
	}
	newRouter(t, deepSeek, Packed(16, 8, 1), 1, func(s *Setup) {
		s.Config.GroupChoice = GroupNone
		s.Config.Placement = PlacementConfig{Strategy: PlaceEPLBHierarchical, Redundant: 16}
	})
}

// TestTopTwoReachesMoreServers: groups that are ranked by their two best experts
// hold more of a token's experts, so that a token goes to more servers than the
// uniform choice of groups has it. The definition itself gives as many.
func TestTopTwoReachesMoreServers(t *testing.T) {
	const tokens = 3000
	perToken := func(groupChoice string) float64 {
		r := newRouter(t, deepSeek, Packed(32, 8, 1), 1, func(s *Setup) { s.Config.GroupChoice = groupChoice })
		var tr Traffic
		r.Route(0, append([]int{1000}, each(31, 0)...), &tr)
		return float64(sum(tr.ServerHits)) / 1e6
	}
	w, rng := Zipf(256, 0), rand.New(rand.NewPCG(4, 4))
	servers := 0
	for range tokens {
		var hit [4]bool
		for _, e := range gumbelChoice(rng, deepSeek, false, w) {
			hit[e/64] = true
		}
		for _, h := range hit {
			if h {
				servers++
			}
		}
	}
	require.InDelta(t, float64(servers)/tokens, perToken(GroupTop2), 4*0.7/math.Sqrt(tokens))
	require.InDelta(t, 3.13, perToken(GroupTop2), 0.01)
	require.InDelta(t, 2.93, perToken(GroupRandom), 0.01)
}

// A fork has the popularity and the placement of its original, and draws of its
// own that do not disturb those of the original.
func TestFork(t *testing.T) {
	balance := func(s *Setup) {
		s.Config.Counts, s.Config.Popularity = CountAggregate, zipf(0.6)
		s.Config.Placement = PlacementConfig{Strategy: PlaceEPLB, Redundant: 32, ForecastCV: 0.2}
		s.Config.Rebalance = &RebalanceConfig{Every: 2, Window: 2}
		s.Samples = 1 << 12
	}
	cl, tokens := Packed(32, 8, 1), each(32, 64)
	shape := deepSeek
	shape.Layers = 8
	alone, r := newRouter(t, shape, cl, 3, balance), newRouter(t, shape, cl, 3, balance)
	f := r.Fork(sim.Streams{Seed: 3}, "other")
	named := newRouter(t, shape, cl, 3, func(s *Setup) { balance(s); s.Name, s.Popularity = "other", "decode/popularity" })
	require.Equal(t, r.Chances(7), f.Chances(7))
	require.Equal(t, r.Chances(7), named.Chances(7), "the stream of the arrangement has a name of its own")
	require.Equal(t, r.Placement(7), f.Placement(7))
	require.NotEqual(t, r.Chances(7), newRouter(t, shape, cl, 3, func(s *Setup) { balance(s); s.Name = "other" }).Chances(7))
	var a, b, c Traffic
	for step := range 4 {
		alone.Route(7, tokens, &a)
		f.Route(7, tokens, &c)
		r.Route(7, tokens, &b)
		require.Equal(t, a, b, "step %d", step)
		require.NotEqual(t, a, c)
		conserve(t, f, tokens, &c)
		if p := r.EndStep(); p != nil {
			alone.Apply(alone.EndStep())
			before := f.Placement(7).Clone()
			r.Apply(p)
			require.Equal(t, before, f.Placement(7))
			continue
		}
		alone.EndStep()
	}
}
