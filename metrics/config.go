// Package metrics holds every definition of tgssim in one place: what TTFT,
// ITL, TPOT, TGS, goodput and the rest mean, over which window, in which unit.
// A Collector hears what happens in a run and turns it into a Result.
// docs/metrics.md states the same definitions for readers.
package metrics

import (
	"fmt"
	"slices"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/sim"
)

// Config says how a run is measured. None of it changes the run itself.
type Config struct {
	// SLO is the service level objective that goodput counts against.
	SLO SLO `yaml:"slo"`
	// Warmup is a span after the first arrival. Requests that arrive in it, and
	// token gaps that end in it, are left out of the latency statistics, and the
	// steady window starts at its end. With 0 the statistics cover every request
	// and the steady window starts by itself.
	Warmup sim.Time `yaml:"warmup"`
	// Window is the width of the rows of the time series, at least 1 ms; 0 picks
	// the smallest 1, 2 or 5 times a power of ten that makes at most 200 rows. One
	// that would make over 100,000 rows is widened to the least multiple that does
	// not, and a note says so.
	Window sim.Time `yaml:"window"`
	// TopLinks is how many of the hottest links a run lists, 0 to 1000.
	TopLinks int `yaml:"top_links"`
	// Steps keeps a row for every executed step (88 bytes each).
	Steps bool `yaml:"steps"`
	// DecodeInstances limits the latency statistics, KV transfers' included, to the
	// requests that these decode instances got, counted from 0. Empty is all.
	// Throughput, TGS, goodput and GPU time are of the whole cluster in any case.
	DecodeInstances []int `yaml:"decode_instances"`
}

// chooses tells whether latencies are of some decode instances only.
func (c Config) chooses() bool { return len(c.DecodeInstances) > 0 }

// chosen tells whether latencies are of a decode instance, perhaps among others.
func (c Config) chosen(instance int) bool {
	return !c.chooses() || slices.Contains(c.DecodeInstances, instance)
}

// An SLO is a set of limits; a limit of 0 is none.
type SLO struct {
	// TTFT limits a request's time to first token.
	TTFT sim.Time `yaml:"ttft"`
	// TPOT limits a request's time per output token after the first; a request
	// with one output token meets it, as in vLLM's goodput.
	TPOT sim.Time `yaml:"tpot"`
	// E2E limits a request's end-to-end latency.
	E2E sim.Time `yaml:"e2e"`
	// ITL limits the run's pooled gaps between tokens at Percentile. It is no
	// limit of a single request: one late token does not spoil an answer.
	ITL sim.Time `yaml:"itl"`
	// Percentile, above 0 and up to 100, is where a whole run is judged: it
	// meets the SLO when this percentile of every limited latency is within its
	// limit. MLPerf's server scenario uses 99.
	Percentile float64 `yaml:"percentile"`
}

// IsSet tells whether there is any limit.
func (s SLO) IsSet() bool { return s.TTFT > 0 || s.ITL > 0 || s.TPOT > 0 || s.E2E > 0 }

// DefaultConfig measures everything, without limits.
func DefaultConfig() Config {
	return Config{SLO: SLO{Percentile: 99}, TopLinks: 5}
}

// Validate checks the settings against their ranges.
func (c Config) Validate() error {
	var ps config.Problems
	ps.Nest("slo", c.SLO.Validate())
	ps.Require(c.Warmup >= 0 && c.Warmup < sim.Never, "warmup", "%v is out of range: 0s or more", c.Warmup)
	ps.Require(c.Window == 0 || c.Window >= sim.Millisecond && c.Window < sim.Never, "window",
		"%v is out of range: 1ms or more, or 0s for automatic", c.Window)
	ps.Require(c.TopLinks >= 0 && c.TopLinks <= 1000, "top_links", "%d is out of range: 0 to 1000", c.TopLinks)
	for i, k := range c.DecodeInstances {
		ps.Require(k >= 0 && !slices.Contains(c.DecodeInstances[:i], k), fmt.Sprintf("decode_instances[%d]", i),
			"%d: use each number of a decode instance once, counted from 0", k)
	}
	return ps.Err()
}

// Validate checks the limits.
func (s SLO) Validate() error {
	var ps config.Problems
	limit := func(key string, t sim.Time) {
		ps.Require(t >= 0 && t < sim.Never, key, "%v is out of range: above 0s, or 0s for no limit", t)
	}
	limit("ttft", s.TTFT)
	limit("tpot", s.TPOT)
	limit("e2e", s.E2E)
	limit("itl", s.ITL)
	ps.Require(s.Percentile > 0 && s.Percentile <= 100, "percentile",
		"%v is out of range: above 0, up to 100", s.Percentile)
	return ps.Err()
}
