package experts

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

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

// TestModes prints nothing and holds the sizes together in every mode.
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
