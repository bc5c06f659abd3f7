package experts

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/internal/config"
)

func TestConfigIsChecked(t *testing.T) {
	require.NoError(t, Default().Validate())
	require.NoError(t, DefaultRebalance().Validate())
	for want, change := range map[string]func(*Config){
		`counts: unknown value "exakt"; did you mean exact?`:    func(c *Config) { c.Counts = "exakt" },
		`popularity.kind: unknown value "zip"; did you mean`:    func(c *Config) { c.Popularity.Kind = "zip" },
		"popularity.alpha: is only for kind zipf":               func(c *Config) { c.Popularity.Alpha = 1 },
		"popularity.alpha: 5 is out of range: above 0 to 4":     func(c *Config) { c.Popularity = zipf(5) },
		"popularity.path: is missing":                           func(c *Config) { c.Popularity.Kind = PopularityFile },
		"popularity.path: is only for kind file":                func(c *Config) { c.Popularity.Path = "x" },
		`choice: unknown value ""; known: token, expert`:        func(c *Config) { c.Choice = "" },
		`group_choice: unknown value "top3"; did you mean top2`: func(c *Config) { c.GroupChoice = "top3" },
		"capacity_factor: -1 is out of range":                   func(c *Config) { c.CapacityFactor = -1 },
		`placement.strategy: unknown value "epbl"; did you`:     func(c *Config) { c.Placement.Strategy = "epbl" },
		"placement.redundant: -1 is out of range":               func(c *Config) { c.Placement.Redundant = -1 },
		"placement.forecast_cv: 3 is out of range":              func(c *Config) { c.Placement.ForecastCV = 3 },
		"placement.forecast_cv: is only for":                    func(c *Config) { c.Placement.ForecastCV = 0.1 },
		`copy_choice: unknown value "near"`:                     func(c *Config) { c.CopyChoice = "near" },
		"rebalance: needs placement.strategy eplb":              func(c *Config) { r := DefaultRebalance(); c.Rebalance = &r },
		"rebalance.every: 0 is out of range":                    func(c *Config) { c.Rebalance = &RebalanceConfig{} },
		"rebalance.window: 9 is out of range: 1 to every (5":    func(c *Config) { c.Rebalance = &RebalanceConfig{5, 9} },
	} {
		c := Default()
		change(&c)
		require.ErrorContains(t, c.Validate(), want)
	}
}

// TestConfigFromYAML: every key is as documented, and comes back.
func TestConfigFromYAML(t *testing.T) {
	text := `counts: aggregate
popularity:
    kind: zipf
    alpha: 0.6
    same_layers: true
choice: token
group_choice: top2
capacity_factor: 1.25
placement:
    strategy: eplb_hierarchical
    redundant: 32
    forecast_cv: 0.25
copy_choice: nearest
rebalance:
    every: 3000
    window: 1000
`
	tree, err := config.Parse("f", []byte(text))
	require.NoError(t, err)
	c := Default()
	require.NoError(t, tree.Decode(&c))
	require.NoError(t, c.Validate())
	require.Equal(t, &RebalanceConfig{3000, 1000}, c.Rebalance)
	require.Equal(t, PlacementConfig{PlaceEPLBHierarchical, 32, 0.25}, c.Placement)
	require.True(t, c.Popularity.SameLayers)
}

func TestShapeAndClusterAreChecked(t *testing.T) {
	for want, change := range map[string]func(*Setup){
		"shape.layers: 0 is out of range":                       func(s *Setup) { s.Shape.Layers = 0 },
		"shape.experts: 0 is out of range":                      func(s *Setup) { s.Shape.Experts = 0 },
		"shape.top_k: 9 is out of range: 1 to 8":                func(s *Setup) { s.Shape.TopK = 9 },
		"shape.groups: 3 does not divide the 8 experts":         func(s *Setup) { s.Shape.Groups = 3 },
		"shape.groups: -1 is out of range":                      func(s *Setup) { s.Shape.Groups = -1 },
		"shape.top_groups: 5 is out of range: 1 to 4":           func(s *Setup) { s.Shape.Groups, s.Shape.TopGroups = 4, 5 },
		"shape.top_groups: 1 groups of 1 experts are too few":   func(s *Setup) { s.Shape.Groups, s.Shape.TopGroups = 8, 1 },
		"cluster.gpus: 0 is out of range":                       func(s *Setup) { s.Cluster = Cluster{} },
		"cluster.ranks: 0 is out of range":                      func(s *Setup) { s.Cluster.Ranks = nil },
		"cluster.ranks: rank 0 is on server 2: 0 to 1 is valid": func(s *Setup) { s.Cluster.Ranks[0] = 2 },
		"cluster.gpus: GPU 0 is on server -1":                   func(s *Setup) { s.Cluster.GPUs[0] = -1 },
		"cluster.gpus: server 1 of 4 holds none":                func(s *Setup) { s.Cluster.GPUs = []int{0, 0, 2, 3} },
		"samples: -1 is out of range":                           func(s *Setup) { s.Samples = -1 },
		"placement.redundant: 8 experts and 1 redundant copies do not spread evenly over 4 GPUs: 4 copies would": func(s *Setup) {
			s.Config.Placement.Redundant = 1
		},
		"placement.strategy: eplb_hierarchical gives each server whole groups: the 2 servers must divide the 1 groups": func(s *Setup) {
			s.Config.Placement.Strategy = PlaceEPLBHierarchical
		},
		"eplb_hierarchical needs as many GPUs on every server": func(s *Setup) {
			s.Config.Placement.Strategy, s.Cluster.GPUs = PlaceEPLBHierarchical, []int{0, 0, 0, 1}
		},
		"eplb_hierarchical needs the GPUs in the order of their servers": func(s *Setup) {
			s.Config.Placement.Strategy, s.Cluster.GPUs = PlaceEPLBHierarchical, []int{0, 1, 0, 1}
		},
	} {
		s := Setup{Config: Default(), Shape: mixtral, Cluster: Packed(4, 2, 1)}
		change(&s)
		_, err := New(s)
		require.ErrorContains(t, err, want)
	}
}
