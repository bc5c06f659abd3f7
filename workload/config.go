package workload

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// Limits of what a workload may ask for.
const (
	// MaxTokens is the longest prompt or output, in tokens.
	MaxTokens = 10_000_000
	// maxRequests bounds counts of requests and rows.
	maxRequests = 1_000_000_000
	// maxZipfSpan bounds the lengths of a Zipf law: its table has one entry each.
	maxZipfSpan = 1 << 20
	// The range of arrival rates, per second, and of a coefficient of variation.
	minRate, maxRate = 1e-6, 1e9
	minCV, maxCV     = 0.01, 100
)

// Config says which requests arrive, and when: either synthetic (Arrivals,
// Prompt, Output and perhaps Prefix), or the replay of a recorded Trace.
type Config struct {
	// Requests is the most requests to issue; 0 is no such bound.
	Requests int `yaml:"requests,omitempty"`
	// Duration bounds the arrivals to the instants in [0, Duration); 0 is no
	// such bound. A synthetic workload needs one of the two bounds.
	Duration sim.Time `yaml:"duration,omitempty"`
	// Arrivals is the arrival process of a synthetic workload.
	Arrivals *ArrivalConfig `yaml:"arrivals,omitempty"`
	// Prompt is the distribution of prompt lengths, in tokens, shared prefixes
	// included.
	Prompt *LengthConfig `yaml:"prompt,omitempty"`
	// Output is the distribution of output lengths, in tokens.
	Output *LengthConfig `yaml:"output,omitempty"`
	// Prefix gives groups of synthetic prompts a common beginning; null is none.
	Prefix *PrefixConfig `yaml:"prefix,omitempty"`
	// Trace replays a recorded trace instead.
	Trace *TraceConfig `yaml:"trace,omitempty"`
}

// DefaultConfig is empty, and so not valid: the workload is the question that a
// scenario asks, and has no default.
func DefaultConfig() Config { return Config{} }

// The arrival processes.
const (
	// ProcessPoisson has independent exponential gaps.
	ProcessPoisson = "poisson"
	// ProcessGamma has independent gamma-distributed gaps of the given
	// coefficient of variation: 1 is Poisson, more is burstier. BurstGPT (Wang
	// et al., KDD 2025) describes real arrivals so.
	ProcessGamma = "gamma"
	// ProcessUniform is evenly spaced: request k arrives at k / rate.
	ProcessUniform = "uniform"
	// ProcessBatch is a Poisson process of batches of simultaneous requests.
	ProcessBatch = "batch"
	// ProcessOnOff is a Poisson process whose rate is a square wave.
	ProcessOnOff = "onoff"
	// ProcessAtOnce has every request at time 0, as an offline benchmark does.
	ProcessAtOnce = "at_once"
)

// Processes lists the valid values of ArrivalConfig.Process.
var Processes = []string{ProcessPoisson, ProcessGamma, ProcessUniform, ProcessBatch, ProcessOnOff, ProcessAtOnce}

// ArrivalConfig describes an arrival process. Keys that the process does not use
// are refused unless 0.
type ArrivalConfig struct {
	// Process is poisson, gamma, uniform, batch, onoff or at_once.
	Process string `yaml:"process"`
	// Rate is the mean number of requests per unit of time, in the long run;
	// 1e-6/s to 1e9/s. Every process but at_once.
	Rate units.Frequency `yaml:"rate,omitempty"`
	// CV is the standard deviation of the gaps over their mean, 0.01 to 100.
	// gamma.
	CV float64 `yaml:"cv,omitempty"`
	// Size is the number of requests that arrive together. batch.
	Size int `yaml:"size,omitempty"`
	// Period is the length of one cycle of the square wave, which begins with
	// the burst. onoff.
	Period sim.Time `yaml:"period,omitempty"`
	// Burst is how long the higher rate lasts in each Period. onoff.
	Burst sim.Time `yaml:"burst,omitempty"`
	// Peak is the higher rate over the mean rate: above 1, and at most
	// Period/Burst, where nothing arrives between bursts. onoff.
	Peak float64 `yaml:"peak,omitempty"`
}

// The length distributions.
const (
	// DistFixed gives every request the same length.
	DistFixed = "fixed"
	// DistUniform takes every length from Min to Max with equal probability.
	DistUniform = "uniform"
	// DistLognormal rounds a log-normal variate and clamps it to [Min, Max].
	DistLognormal = "lognormal"
	// DistZipf is the bounded power law P(x) ~ x**-Alpha on [Min, Max].
	DistZipf = "zipf"
)

// Dists lists the valid values of LengthConfig.Dist.
var Dists = []string{DistFixed, DistUniform, DistLognormal, DistZipf}

// LengthConfig describes a distribution of lengths in tokens. Keys that the
// distribution does not use are refused unless 0.
type LengthConfig struct {
	// Dist is fixed, uniform, lognormal or zipf.
	Dist string `yaml:"dist"`
	// Tokens is the length. fixed.
	Tokens int `yaml:"tokens,omitempty"`
	// Mean and CV are the mean of the length and its standard deviation over
	// that mean, before rounding and clamping: the logarithm has variance
	// s = ln(1 + CV**2) and mean ln(Mean) - s/2. lognormal.
	Mean float64 `yaml:"mean,omitempty"`
	CV   float64 `yaml:"cv,omitempty"`
	// Alpha is the exponent of P(x) ~ x**-Alpha over the lengths x themselves,
	// 0 to 10. This is the reading here of "Zipf alpha=1.0 on [128, 8192]" in
	// the IETF inference benchmark: mean 1,937 and median 1,022 tokens. The law
	// by rank, (x-Min+1)**-Alpha, would have half the mean. zipf.
	Alpha float64 `yaml:"alpha,omitempty"`
	// Min and Max bound the length, both inclusive. uniform and zipf need both.
	// lognormal clamps to them, so that a length outside counts at the bound as
	// it does under a server's limits; 0 there is 1 and 10,000,000 tokens.
	Min int `yaml:"min,omitempty"`
	Max int `yaml:"max,omitempty"`
}

// PrefixConfig makes a share of the synthetic prompts begin with one of a few
// common texts, such as system prompts. Prompt lengths do not change; requests
// get Blocks.
type PrefixConfig struct {
	// Groups is the number of different common texts, 1 to 1,000,000.
	Groups int `yaml:"groups"`
	// Tokens is the length of a common text. A shorter prompt is a part of it.
	Tokens int `yaml:"tokens,omitempty"`
	// Share is the fraction of the requests that begin with one, 0 to 1.
	Share float64 `yaml:"share"`
	// Alpha skews their popularity: group g of 1, 2, ... is taken with
	// probability ~ g**-Alpha; 0 makes them equal. 0 to 10.
	Alpha float64 `yaml:"alpha,omitempty"`
	// BlockTokens is the number of tokens that one block of a prefix
	// stands for.
	BlockTokens int `yaml:"block_tokens"`
}

// SetDefaults fills in Mooncake's block size.
func (p *PrefixConfig) SetDefaults() { *p = PrefixConfig{BlockTokens: mooncakeBlock} }

// What TraceConfig.ZeroLengths may be.
const (
	// ZeroSkip leaves rows with a zero length out, and counts them.
	ZeroSkip = "skip"
	// ZeroOne raises a zero length to one token, and counts it.
	ZeroOne = "one"
	// ZeroRefuse makes a zero length an error.
	ZeroRefuse = "refuse"
)

// ZeroPolicies lists the valid values of TraceConfig.ZeroLengths.
var ZeroPolicies = []string{ZeroSkip, ZeroOne, ZeroRefuse}

// TraceConfig describes the replay of a recorded trace. The first request
// played arrives at time 0.
type TraceConfig struct {
	// Path is the file, relative to the working directory.
	Path string `yaml:"path"`
	// Format is azure, burstgpt, mooncake, bailian, or auto, which looks at the
	// first line.
	Format string `yaml:"format"`
	// Speedup divides the recorded times: 1 is as recorded, 2 twice as fast.
	// 0.000001 to 1,000,000.
	Speedup float64 `yaml:"speedup"`
	// Skip is the number of rows at the head of the file that are checked but
	// not played.
	Skip int `yaml:"skip,omitempty"`
	// Rows is the most rows read after those; 0 is all. What follows is neither
	// read nor checked. (workload.requests instead bounds what is played, in time
	// order, of a file that is read whole.)
	Rows int `yaml:"rows,omitempty"`
	// ZeroLengths says what becomes of a row without prompt or output tokens:
	// skip, one or refuse. In BurstGPT zero output marks a failed call.
	ZeroLengths string `yaml:"zero_lengths"`
	// BlockTokens is the number of tokens that one hash ID stands for; 0 is the
	// format's own: 512 for mooncake, 16 for bailian.
	BlockTokens int `yaml:"block_tokens,omitempty"`
}

// SetDefaults fills in: format auto, recorded speed, zero lengths skipped.
func (t *TraceConfig) SetDefaults() { *t = DefaultTraceConfig("") }

// DefaultTraceConfig replays all of a file as it was recorded.
func DefaultTraceConfig(path string) TraceConfig {
	return TraceConfig{Path: path, Format: FormatAuto, Speedup: 1, ZeroLengths: ZeroSkip}
}

// Validate returns what is wrong as config.Problems, or nil. It does not look at
// the trace file; Load does.
func (c Config) Validate() error {
	var ps config.Problems
	inRange(&ps, "requests", c.Requests, 0, maxRequests)
	ps.Require(c.Duration >= 0, "duration", "%v is negative; 0 is no bound", c.Duration)
	synthetic := c.Arrivals != nil || c.Prompt != nil || c.Output != nil || c.Prefix != nil
	switch {
	case c.Trace == nil && !synthetic:
		ps.Addf("", "no requests are described; write arrivals, prompt and output, or trace")
	case c.Trace == nil:
		c.validateSynthetic(&ps)
	case synthetic:
		ps.Addf("trace", "a trace brings its own arrivals and lengths; remove it, or arrivals, prompt, output and prefix")
	default:
		ps.Nest("trace", c.Trace.Validate())
	}
	return ps.Err()
}

func (c Config) validateSynthetic(ps *config.Problems) {
	ps.Require(c.Requests != 0 || c.Duration != 0, "requests",
		"neither requests nor duration bounds the workload; write one of them, or both")
	const missing = "missing; a synthetic workload needs arrivals, prompt and output"
	if c.Arrivals == nil {
		ps.Addf("arrivals", missing)
	} else {
		ps.Nest("arrivals", c.Arrivals.Validate())
		ps.Require(c.Arrivals.Process != ProcessAtOnce || c.Requests != 0, "requests",
			"process at_once needs the number of requests, 1 to %d", maxRequests)
	}
	if c.Prompt == nil {
		ps.Addf("prompt", missing)
	} else {
		ps.Nest("prompt", c.Prompt.Validate())
	}
	if c.Output == nil {
		ps.Addf("output", missing)
	} else {
		ps.Nest("output", c.Output.Validate())
	}
	if c.Prefix != nil {
		ps.Nest("prefix", c.Prefix.Validate())
	}
}

// Validate returns what is wrong as config.Problems, or nil.
func (a ArrivalConfig) Validate() error {
	var ps config.Problems
	if !oneOf(&ps, "process", a.Process, Processes) {
		return ps.Err()
	}
	uses := map[string][]string{
		ProcessGamma: {"cv"},
		ProcessBatch: {"size"},
		ProcessOnOff: {"period", "burst", "peak"},
	}[a.Process]
	if a.Process != ProcessAtOnce {
		uses = append(uses, "rate")
	}
	unused(&ps, "process", a.Process, uses, []setting{
		{"rate", a.Rate != 0}, {"cv", a.CV != 0}, {"size", a.Size != 0},
		{"period", a.Period != 0}, {"burst", a.Burst != 0}, {"peak", a.Peak != 0},
	})
	if a.Process != ProcessAtOnce {
		ps.Require(minRate <= a.Rate && a.Rate <= maxRate, "rate",
			"%v; must be %v to %v", a.Rate, units.Frequency(minRate), units.Frequency(maxRate))
	}
	switch a.Process {
	case ProcessGamma:
		inSpan(&ps, "cv", a.CV, minCV, maxCV)
	case ProcessBatch:
		inRange(&ps, "size", a.Size, 1, maxRequests)
	case ProcessOnOff:
		a.validateOnOff(&ps)
	}
	return ps.Err()
}

func (a ArrivalConfig) validateOnOff(ps *config.Problems) {
	ok := a.Period > 0 && a.Burst > 0 && a.Burst < a.Period
	ps.Require(a.Period > 0, "period", "%v; must be above 0, such as 10s", a.Period)
	ps.Require(ok || a.Period <= 0, "burst", "%v; must be above 0 and below the period of %v", a.Burst, a.Period)
	if ok {
		most := float64(a.Period) / float64(a.Burst)
		ps.Require(1 < a.Peak && a.Peak <= most, "peak",
			"%s; must be above 1 and at most period/burst = %s", number(a.Peak), number(most))
	}
}

// Validate returns what is wrong as config.Problems, or nil.
func (l LengthConfig) Validate() error {
	var ps config.Problems
	if !oneOf(&ps, "dist", l.Dist, Dists) {
		return ps.Err()
	}
	uses := map[string][]string{
		DistFixed:     {"tokens"},
		DistUniform:   {"min", "max"},
		DistLognormal: {"mean", "cv", "min", "max"},
		DistZipf:      {"alpha", "min", "max"},
	}[l.Dist]
	unused(&ps, "dist", l.Dist, uses, []setting{
		{"tokens", l.Tokens != 0}, {"mean", l.Mean != 0}, {"cv", l.CV != 0},
		{"alpha", l.Alpha != 0}, {"min", l.Min != 0}, {"max", l.Max != 0},
	})
	switch l.Dist {
	case DistFixed:
		inRange(&ps, "tokens", l.Tokens, 1, MaxTokens)
		return ps.Err()
	case DistLognormal:
		inSpan(&ps, "mean", l.Mean, 1, MaxTokens)
		inSpan(&ps, "cv", l.CV, minCV, maxCV)
		l = l.withBounds()
	}
	low := inRange(&ps, "min", l.Min, 1, MaxTokens)
	if inRange(&ps, "max", l.Max, 1, MaxTokens) && low {
		l.validateBounds(&ps)
	}
	if l.Dist == DistZipf {
		inSpan(&ps, "alpha", l.Alpha, 0, 10)
	}
	return ps.Err()
}

// validateBounds compares the bounds with each other and with the rest.
func (l LengthConfig) validateBounds(ps *config.Problems) {
	switch {
	case l.Max < l.Min:
		ps.Addf("max", "%d is below min, %d", l.Max, l.Min)
	case l.Dist == DistLognormal && 1 <= l.Mean && l.Mean <= MaxTokens &&
		(l.Mean < float64(l.Min) || l.Mean > float64(l.Max)):
		ps.Addf("mean", "%s; must be between min and max, %d to %d", number(l.Mean), l.Min, l.Max)
	case l.Dist == DistZipf && l.Max-l.Min >= maxZipfSpan:
		ps.Addf("max", "%d; at most min + %d, because a zipf has a table of its lengths",
			l.Max, maxZipfSpan-1)
	}
}

// withBounds replaces the bounds 0 of a lognormal.
func (l LengthConfig) withBounds() LengthConfig {
	if l.Min == 0 {
		l.Min = 1
	}
	if l.Max == 0 {
		l.Max = MaxTokens
	}
	return l
}

// Validate returns what is wrong as config.Problems, or nil.
func (p PrefixConfig) Validate() error {
	var ps config.Problems
	inRange(&ps, "groups", p.Groups, 1, 1_000_000)
	inRange(&ps, "tokens", p.Tokens, 1, MaxTokens)
	inSpan(&ps, "share", p.Share, 0, 1)
	inSpan(&ps, "alpha", p.Alpha, 0, 10)
	inRange(&ps, "block_tokens", p.BlockTokens, 1, MaxTokens)
	return ps.Err()
}

// Validate returns what is wrong as config.Problems, or nil. It does not look at
// the file.
func (t TraceConfig) Validate() error {
	var ps config.Problems
	ps.Require(t.Path != "", "path", "missing; name the trace file")
	t.validateReading(&ps)
	inSpan(&ps, "speedup", t.Speedup, 1e-6, 1e6)
	return ps.Err()
}

// validateReading checks the settings that ReadTrace uses.
func (t TraceConfig) validateReading(ps *config.Problems) {
	oneOf(ps, "format", t.Format, Formats)
	inRange(ps, "skip", t.Skip, 0, maxRequests)
	inRange(ps, "rows", t.Rows, 0, maxRequests)
	oneOf(ps, "zero_lengths", t.ZeroLengths, ZeroPolicies)
	inRange(ps, "block_tokens", t.BlockTokens, 0, MaxTokens)
}

// A setting is a key and whether it is written.
type setting struct {
	key string
	set bool
}

// unused complains about the settings that a variant does not use.
func unused(ps *config.Problems, choice, variant string, uses []string, settings []setting) {
	for _, s := range settings {
		if s.set && !slices.Contains(uses, s.key) {
			ps.Addf(s.key, "has no meaning with %s: %s, which uses %s; remove it",
				choice, variant, cmp.Or(strings.Join(uses, ", "), "no other key"))
		}
	}
}

func oneOf(ps *config.Problems, key, value string, known []string) bool {
	ok := slices.Contains(known, value)
	switch {
	case ok:
	case value == "":
		ps.Addf(key, "missing; one of %s", strings.Join(known, ", "))
	default:
		ps.Addf(key, "unknown %s %q%s", key, value, config.Suggest(value, known))
	}
	return ok
}

func inRange(ps *config.Problems, key string, v, lo, hi int) bool {
	ps.Require(lo <= v && v <= hi, key, "%d; must be %d to %d", v, lo, hi)
	return lo <= v && v <= hi
}

// inSpan refuses NaN as well.
func inSpan(ps *config.Problems, key string, v, lo, hi float64) {
	ps.Require(lo <= v && v <= hi, key, "%s; must be %s to %s", number(v), number(lo), number(hi))
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
