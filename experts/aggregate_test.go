package experts

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// sampleMoments are the mean and the covariances of vectors, with their standard
// errors from the vectors themselves.
type sampleMoments struct {
	n      int
	values [][]float64
	mean   []float64
}

func (m *sampleMoments) add(v []float64) {
	m.values = append(m.values, v)
	if m.mean == nil {
		m.mean = make([]float64, len(v))
	}
	for i, x := range v {
		m.mean[i] += (x - m.mean[i]) / float64(len(m.values))
	}
	m.n++
}

// covariance returns that of two components, and its standard error.
func (m *sampleMoments) covariance(i, j int) (c, se float64) {
	square := 0.
	for k, v := range m.values {
		x := (v[i] - m.mean[i]) * (v[j] - m.mean[j])
		d := x - c
		c += d / float64(k+1)
		square += d * (x - c)
	}
	n := float64(m.n)
	return c, math.Sqrt(square/n/n) + 1e-12
}

// agree requires means, variances and covariances that are alike within sigmas
// standard errors and a relative slack, that of the law's own moments. Covariances
// are compared where one of the two is among the first counts components.
func agree(t *testing.T, a, b *sampleMoments, counts int, sigmas, slack float64, name string) {
	for i := range a.mean {
		va, ea := a.covariance(i, i)
		vb, eb := b.covariance(i, i)
		require.InDelta(t, a.mean[i], b.mean[i], sigmas*math.Sqrt((va+vb)/float64(a.n))+slack*a.mean[i], "%s: mean %d", name, i)
		// Rounding to whole tokens adds up to 1/12 more than is taken away, and up to
		// 1/4 where there is nothing to take.
		rounding := 1. / 12
		if va < 0.5 {
			rounding = 1. / 4
		}
		require.InDelta(t, va, vb, sigmas*math.Hypot(ea, eb)+2*slack*va+rounding, "%s: variance %d", name, i)
		for j := range min(i, counts) {
			ca, ea := a.covariance(i, j)
			cb, eb := b.covariance(i, j)
			vj, _ := a.covariance(j, j)
			require.InDelta(t, ca, cb, sigmas*math.Hypot(ea, eb)+2*slack*math.Sqrt(va*vj), "%s: covariance %d %d", name, i, j)
		}
	}
}

// TestAggregateAgreesWithExact compares the rows of GPUs and the tokens of
// servers, over many steps: mean and variance of all, and their covariances with
// the rows. (How the tokens of two servers go together, beyond what their rows
// say, is not modelled.)
func TestAggregateAgreesWithExact(t *testing.T) {
	steps := 1500
	if testing.Short() {
		steps = 200
	}
	grouped := Shape{Layers: 1, Experts: 64, TopK: 6, Groups: 8, TopGroups: 3}
	flat := Shape{Layers: 1, Experts: 64, TopK: 6}
	for _, c := range []struct {
		name   string
		shape  Shape
		groups string
		pop    PopularityConfig
		slack  float64 // of law's moments (sample of 131,072), and of the chain of halves
		tokens int
	}{
		{"balanced", flat, GroupTop2, PopularityConfig{Kind: PopularityBalanced}, 0, 40},
		{"balanced groups", grouped, GroupTop2, PopularityConfig{Kind: PopularityBalanced}, 0.01, 40},
		{"balanced groups by lot", grouped, GroupRandom, PopularityConfig{Kind: PopularityBalanced}, 0.01, 100},
		{"zipf", flat, GroupTop2, zipf(0.8), 0.01, 40},
		{"zipf groups", grouped, GroupTop2, zipf(0.8), 0.03, 40},
		{"steep zipf", flat, GroupTop2, zipf(1.5), 0.02, 200},
	} {
		var exact, aggregate sampleMoments
		for _, counts := range []string{CountExact, CountAggregate} {
			r := newRouter(t, c.shape, Packed(8, 4, 1), 3, func(s *Setup) {
				s.Config.Counts, s.Config.Popularity, s.Config.GroupChoice = counts, c.pop, c.groups
			})
			into := &exact
			if counts == CountAggregate {
				into = &aggregate
			}
			var tr Traffic
			for range steps {
				r.Route(0, append([]int{c.tokens}, each(7, 0)...), &tr)
				var v []float64
				for g := range 8 {
					v = append(v, float64(tr.GPURows(g))/1000)
				}
				for g := range 8 {
					v = append(v, float64(tr.GPUHits[g])/1000)
				}
				v = append(v, float64(tr.ServerHits[0])/1000, float64(tr.ServerHits[1])/1000)
				into.add(v)
			}
		}
		agree(t, &exact, &aggregate, 8, 4.5, c.slack, c.name)
	}
}

// TestAggregateExperts compares the counts of single experts, which are small.
func TestAggregateExperts(t *testing.T) {
	steps := 3000
	if testing.Short() {
		steps = 500
	}
	for _, c := range []struct {
		shape  Shape
		alpha  float64
		tokens int
	}{
		{Shape{Layers: 1, Experts: 16, TopK: 2}, 1, 16},
		{Shape{Layers: 1, Experts: 16, TopK: 4, Groups: 4, TopGroups: 2}, 0.5, 64},
		{Shape{Layers: 1, Experts: 8, TopK: 2}, 0, 300},
		{Shape{Layers: 1, Experts: 7, TopK: 3}, 2, 50},
	} {
		l := newLaw(c.shape, GroupTop2, Zipf(c.shape.Experts, c.alpha), c.alpha == 0, true, true, samplesShared)
		pcg := rand.NewPCG(5, 5)
		rng := rand.New(pcg)
		var exact, aggregate sampleMoments
		one := make([]uint16, c.shape.TopK)
		counts, tally := make([]int32, c.shape.Experts), make([]int32, 2*c.shape.Experts)
		for range steps {
			v, w := make([]float64, c.shape.Experts), make([]float64, c.shape.Experts)
			for range c.tokens {
				l.chooser.choose(rng, one)
				for _, e := range one {
					v[e]++
				}
			}
			l.drawCounts(pcg, c.tokens, counts, tally)
			total := 0
			for e, n := range counts {
				require.True(t, 0 <= n && int(n) <= c.tokens)
				total += int(n)
				w[e] = float64(n)
			}
			require.Equal(t, c.tokens*c.shape.TopK, total)
			exact.add(v)
			aggregate.add(w)
		}
		agree(t, &exact, &aggregate, c.shape.Experts, 4.5, 0.03, fmt.Sprint(c))
	}
}

// TestNearKeepsMeanAndVariance: whole numbers with the moments asked for.
func TestNearKeepsMeanAndVariance(t *testing.T) {
	rng := rand.NewPCG(1, 1)
	const draws = 400_000
	for _, c := range [][2]float64{{100.3, 50}, {1000.5, 900}, {20, 2}, {7.25, 1}} {
		sum, square := 0., 0.
		for range draws {
			x := float64(near(rng, c[0], c[1], 0, 1<<30)) - c[0]
			sum += x
			square += x * x
		}
		require.InDelta(t, 0, sum/draws, 4*math.Sqrt(c[1]/draws))
		require.InEpsilon(t, c[1], square/draws, 4*math.Sqrt(2./draws)+0.002, "%v", c)
	}
	require.Equal(t, 5, near(rng, -100, 1, 5, 9))
	require.Equal(t, 9, near(rng, 1e18, 1, 5, 9))
}

// TestBinomialSplits compares the three ways to a binomial with its distribution.
func TestBinomialSplits(t *testing.T) {
	const draws = 100_000
	rng := rand.NewPCG(9, 9)
	for _, c := range []struct {
		m      int
		chance float64
	}{{1, 0.3}, {7, 0.5}, {12, 0.9}, {40, 0.1}, {40, 0.93}, {200, 0.02}} {
		n := split{chance: c.chance, logMiss: math.Log1p(-c.chance), logHit: math.Log(c.chance)}
		draw := map[string]func() int{
			"choices": func() int { return countChoices(rng, c.m, choiceChance(c.chance)) },
			"invert":  func() int { return n.invert(rng, c.m) },
		}
		for name, draw := range draw {
			got := make([]int, c.m+1)
			for range draws {
				got[draw()]++
			}
			for x, count := range got {
				lg := func(n int) float64 { v, _ := math.Lgamma(float64(n + 1)); return v }
				p := math.Exp(lg(c.m) - lg(x) - lg(c.m-x) + float64(x)*math.Log(c.chance) + float64(c.m-x)*math.Log1p(-c.chance))
				require.InDelta(t, p, float64(count)/draws, 4.5*math.Sqrt(p/draws)+2e-5, "%s %v: %d", name, c, x)
			}
		}
	}
}
