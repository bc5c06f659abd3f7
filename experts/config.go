package experts

import (
	"slices"

	"github.com/tgssim/tgssim/internal/config"
)

// The ways to get counts.
const (
	// CountExpected takes expectations: every step of the same size is the same.
	CountExpected = "expected"
	// CountAggregate draws the counts of each rank.
	CountAggregate = "aggregate"
	// CountExact draws each token's experts.
	CountExact = "exact"
)

// Counts lists the valid values of Config.Counts.
var Counts = []string{CountExpected, CountAggregate, CountExact}

// Who chooses.
const (
	// ChoiceToken lets each token choose its top k experts.
	ChoiceToken = "token"
	// ChoiceExpert lets each expert choose a fixed number of tokens (Zhou et al.,
	// Mixture-of-Experts with Expert Choice Routing, NeurIPS 2022). The load is
	// balanced by construction, whatever the popularity, and groups do not matter.
	ChoiceExpert = "expert"
)

// Choices lists the valid values of Config.Choice.
var Choices = []string{ChoiceToken, ChoiceExpert}

// How the groups of group-limited choice are ranked.
const (
	// GroupTop2 ranks groups by the sum of their two best scores.
	GroupTop2 = "top2"
	// GroupRandom draws groups by their popularity, whatever the experts' scores.
	GroupRandom = "random"
	// GroupNone lets tokens choose from all groups, as DeepEP's tests do up to as
	// many servers as there are groups to choose.
	GroupNone = "none"
)

// GroupChoices lists the valid values of Config.GroupChoice.
var GroupChoices = []string{GroupTop2, GroupRandom, GroupNone}

// How the tokens of an expert with several copies are shared.
const (
	// CopyEven gives each copy as many, in turn.
	CopyEven = "even"
	// CopyNearest shares a rank's tokens evenly among the copies on its own
	// server, or among all when there is none.
	CopyNearest = "nearest"
)

// CopyChoices lists the valid values of Config.CopyChoice.
var CopyChoices = []string{CopyEven, CopyNearest}

// Config says how an MoE layer's tokens choose experts, and where those are.
type Config struct {
	// Counts is expected (nothing is drawn), aggregate (how many of a rank's tokens
	// choose each expert is drawn) or exact (every token chooses).
	Counts string `yaml:"counts"`
	// Popularity is how often the experts are wanted.
	Popularity PopularityConfig `yaml:"popularity"`
	// Choice is token (top k) or expert (expert choice).
	Choice string `yaml:"choice"`
	// GroupChoice is top2 (groups by their two best experts, as DeepSeek-V3), random
	// or none (no limit). It matters only for a model with group-limited routing.
	GroupChoice string `yaml:"group_choice"`
	// CapacityFactor bounds the tokens that an expert takes in one layer of one
	// step to the factor times the mean over experts, rounded up (GShard,
	// arXiv 2006.16668; here over all ranks together). What is above is dropped,
	// from all ranks alike. 0 drops nothing. With expert choice it is how many
	// tokens an expert takes over that mean, and 0 stands for 1. 0 to 64.
	CapacityFactor float64 `yaml:"capacity_factor,omitempty"`
	// Placement is where the experts are.
	Placement PlacementConfig `yaml:"placement"`
	// CopyChoice is even (each copy of an expert has as many tokens) or nearest (a
	// rank's tokens go to copies on its own server if there are any). It matters only
	// with redundant experts.
	CopyChoice string `yaml:"copy_choice"`
	// Rebalance places the experts anew while the system runs; null never does.
	Rebalance *RebalanceConfig `yaml:"rebalance,omitempty"`
}

// Default is DeepSeek-V3's choice over equally popular experts, in expectation,
// with consecutive experts on each GPU.
func Default() Config {
	return Config{
		Counts:      CountExpected,
		Popularity:  PopularityConfig{Kind: PopularityBalanced},
		Choice:      ChoiceToken,
		GroupChoice: GroupTop2,
		Placement:   PlacementConfig{Strategy: PlaceContiguous},
		CopyChoice:  CopyEven,
	}
}

// Validate checks what can be checked without model and cluster; New checks the
// rest.
func (c Config) Validate() error {
	var ps config.Problems
	oneOf(&ps, "counts", c.Counts, Counts)
	ps.Nest("popularity", c.Popularity.Validate())
	oneOf(&ps, "choice", c.Choice, Choices)
	oneOf(&ps, "group_choice", c.GroupChoice, GroupChoices)
	ps.Require(c.CapacityFactor >= 0 && c.CapacityFactor <= 64, "capacity_factor",
		"%v is out of range: above 0 to 64, or 0 to drop nothing", c.CapacityFactor)
	ps.Nest("placement", c.Placement.Validate())
	oneOf(&ps, "copy_choice", c.CopyChoice, CopyChoices)
	if c.Rebalance != nil {
		ps.Nest("rebalance", c.Rebalance.Validate())
		ps.Require(c.Placement.balances(), "rebalance",
			"needs placement.strategy eplb or eplb_hierarchical: %q does not depend on the load", c.Placement.Strategy)
	}
	return ps.Err()
}

// The laws of popularity.
const (
	// PopularityBalanced makes all experts equally popular.
	PopularityBalanced = "balanced"
	// PopularityZipf makes the i-th most popular expert i**-Alpha as popular as
	// the first.
	PopularityZipf = "zipf"
	// PopularityFile reads the weights: see ReadWeights.
	PopularityFile = "file"
)

// Popularities lists the valid values of PopularityConfig.Kind.
var Popularities = []string{PopularityBalanced, PopularityZipf, PopularityFile}

// PopularityConfig says how often experts are wanted.
type PopularityConfig struct {
	// Kind is balanced, zipf or file.
	Kind string `yaml:"kind"`
	// Alpha is the exponent, above 0 to 4. zipf.
	Alpha float64 `yaml:"alpha,omitempty"`
	// Path is a CSV or JSON file of weights or counts. file.
	Path string `yaml:"path,omitempty"`
	// SameLayers gives the same experts the same popularity in every layer.
	// Otherwise every layer has its own arrangement of the weights, drawn from
	// the seed: groups change places, and experts do within their group, so that
	// each layer has other hot experts but the same law of its group sums. A file
	// with weights for each layer is taken as it is.
	SameLayers bool `yaml:"same_layers,omitempty"`
}

// Validate checks the settings.
func (c PopularityConfig) Validate() error {
	var ps config.Problems
	oneOf(&ps, "kind", c.Kind, Popularities)
	if c.Kind == PopularityZipf {
		ps.Require(c.Alpha > 0 && c.Alpha <= 4, "alpha", "%v is out of range: above 0 to 4", c.Alpha)
	} else {
		ps.Require(c.Alpha == 0, "alpha", "is only for kind zipf")
	}
	if c.Kind == PopularityFile {
		ps.Require(c.Path != "", "path", "is missing: name a CSV or JSON file of weights")
	} else {
		ps.Require(c.Path == "", "path", "is only for kind file")
	}
	return ps.Err()
}

// The strategies of placement.
const (
	// PlaceContiguous puts consecutive experts on a GPU: with n slots per GPU,
	// GPU g holds experts n g to n g + n - 1. Redundant copies are those of
	// experts 0, 1, 2, ... and follow the last expert.
	PlaceContiguous = "contiguous"
	// PlaceStriped deals the same list of copies out to the GPUs in turn.
	PlaceStriped = "striped"
	// PlaceEPLB replicates and packs experts by load over all GPUs: the global
	// policy of deepseek-ai/EPLB.
	PlaceEPLB = "eplb"
	// PlaceEPLBHierarchical gives each server whole expert groups, balanced by
	// load, and then replicates and packs within the server: EPLB's other policy.
	PlaceEPLBHierarchical = "eplb_hierarchical"
)

// Strategies lists the valid values of PlacementConfig.Strategy.
var Strategies = []string{PlaceContiguous, PlaceStriped, PlaceEPLB, PlaceEPLBHierarchical}

// PlacementConfig says where the experts are.
type PlacementConfig struct {
	// Strategy is contiguous, striped, eplb or eplb_hierarchical (whole groups of
	// experts to each server). The last two start from the popularity that the
	// simulation uses, or from a forecast of it.
	Strategy string `yaml:"strategy"`
	// Redundant is the number of copies per layer beyond one of each expert; 0 to
	// 4096. DeepSeek-V3 has 32 at EP32 in prefill (arXiv 2412.19437, section
	// 3.4.1). Experts and copies together must fill the GPUs evenly.
	Redundant int `yaml:"redundant,omitempty"`
	// ForecastCV is how wrong the load is that eplb and eplb_hierarchical start
	// from: each expert's is the true one times a gamma variate of mean 1 and this
	// standard deviation, 0 to 2. With 0.25, 32 redundant copies and Zipf popularity
	// of exponent 0.3 to 0.9, the busiest GPU has 1.04-1.07 of the mean at 8 GPUs,
	// 1.08-1.13 at 16 and 1.16-1.26 at 32, where LMSYS has measured 1.06, 1.11 and
	// 1.25; at 72 GPUs it has 1.26 and more, where 1.235 was measured.
	ForecastCV float64 `yaml:"forecast_cv,omitempty"`
}

func (c PlacementConfig) balances() bool {
	return c.Strategy == PlaceEPLB || c.Strategy == PlaceEPLBHierarchical
}

// Validate checks the settings.
func (c PlacementConfig) Validate() error {
	var ps config.Problems
	oneOf(&ps, "strategy", c.Strategy, Strategies)
	ps.Require(c.Redundant >= 0 && c.Redundant <= 4096, "redundant", "%d is out of range: 0 to 4096", c.Redundant)
	ps.Require(c.ForecastCV >= 0 && c.ForecastCV <= 2, "forecast_cv", "%v is out of range: 0 (right) to 2", c.ForecastCV)
	ps.Require(c.ForecastCV == 0 || c.balances(), "forecast_cv", "is only for strategy eplb and eplb_hierarchical")
	return ps.Err()
}

// RebalanceConfig says how often experts are placed anew.
type RebalanceConfig struct {
	// Every is the number of steps from one placement to the next, at least 1.
	// vLLM's default is 3000.
	Every int `yaml:"every"`
	// Window is how many steps before that are observed, 1 to Every. vLLM's
	// default is 1000.
	Window int `yaml:"window"`
}

// DefaultRebalance is vLLM's (parallel_config.eplb_config: step_interval and
// window_size).
func DefaultRebalance() RebalanceConfig { return RebalanceConfig{Every: 3000, Window: 1000} }

// SetDefaults fills in DefaultRebalance.
func (c *RebalanceConfig) SetDefaults() { *c = DefaultRebalance() }

// Validate checks the settings.
func (c RebalanceConfig) Validate() error {
	var ps config.Problems
	ps.Require(c.Every >= 1 && c.Every <= 1e9, "every", "%d is out of range: 1 to 1000000000 steps", c.Every)
	ps.Require(c.Window >= 1 && c.Window <= max(1, c.Every), "window",
		"%d is out of range: 1 to every (%d steps)", c.Window, c.Every)
	return ps.Err()
}

func oneOf(ps *config.Problems, key, value string, valid []string) {
	if !slices.Contains(valid, value) {
		ps.Addf(key, "unknown value %q%s", value, config.Suggest(value, valid))
	}
}
