package workload

import (
	"fmt"
	"hash/fnv"
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// requireOrdered checks what Source promises, and Stats against a recount.
func requireOrdered(t require.TestingT, all []Request, s Stats) {
	var prompt, output, blocks, repeats int64
	seen := map[uint64]bool{}
	last := sim.Time(0)
	for i, r := range all {
		require.Equal(t, i, r.ID)
		require.GreaterOrEqual(t, r.Arrival, last)
		require.Less(t, r.Arrival, sim.Never)
		require.Positive(t, r.PromptTokens)
		require.Positive(t, r.OutputTokens)
		require.LessOrEqual(t, max(r.PromptTokens, r.OutputTokens), MaxTokens)
		last = r.Arrival
		prompt += int64(r.PromptTokens)
		output += int64(r.OutputTokens)
		for _, b := range r.Blocks {
			blocks++
			if seen[b] {
				repeats++
			}
			seen[b] = true
		}
	}
	require.Equal(t, len(all), s.Requests)
	require.Equal(t, prompt, s.PromptTokens)
	require.Equal(t, output, s.OutputTokens)
	require.Equal(t, blocks, s.Blocks)
	require.Equal(t, repeats, s.RepeatedBlocks)
	if len(all) > 0 {
		require.Equal(t, all[0].Arrival, s.First)
		require.Equal(t, last, s.Last)
	}
}

func TestSameSeedSameRequests(t *testing.T) {
	cfg := synthetic1(2000)
	cfg.Prefix = &PrefixConfig{Groups: 5, Tokens: 2000, Share: 0.5, BlockTokens: 256}
	a, sa := generate(t, cfg, 7)
	b, sb := generate(t, cfg, 7)
	require.Equal(t, a, b)
	require.Equal(t, sa, sb)
	requireOrdered(t, a, sa)
	c, _ := generate(t, cfg, 8)
	require.NotEqual(t, a, c)
	g, err := Load(cfg)
	require.NoError(t, err)
	require.NotEqual(t, a, drain(g.Source(sim.Streams{Seed: 7, Replication: 1})), "replications differ")
	require.Equal(t, a, drain(g.Source(sim.Streams{Seed: 7})))
}

// Changing one of arrivals, prompt, output and prefix leaves the others as they
// were.
func TestStreamsAreIndependent(t *testing.T) {
	type columns struct {
		at             []sim.Time
		prompt, output []int
	}
	split := func(cfg Config) (c columns) {
		all, _ := generate(t, cfg, 3)
		for _, r := range all {
			c.at = append(c.at, r.Arrival)
			c.prompt = append(c.prompt, r.PromptTokens)
			c.output = append(c.output, r.OutputTokens)
		}
		return c
	}
	base := split(synthetic1(3000))

	cfg := synthetic1(3000)
	cfg.Arrivals = &ArrivalConfig{Process: ProcessGamma, Rate: 20, CV: 3}
	got := split(cfg)
	require.NotEqual(t, base.at, got.at)
	require.Equal(t, base.prompt, got.prompt)
	require.Equal(t, base.output, got.output)

	cfg = synthetic1(3000)
	cfg.Prompt = &LengthConfig{Dist: DistZipf, Alpha: 1, Min: 128, Max: 8192}
	got = split(cfg)
	require.Equal(t, base.at, got.at)
	require.NotEqual(t, base.prompt, got.prompt)
	require.Equal(t, base.output, got.output)

	cfg = synthetic1(3000)
	cfg.Output = &LengthConfig{Dist: DistFixed, Tokens: 1}
	got = split(cfg)
	require.Equal(t, base.at, got.at)
	require.Equal(t, base.prompt, got.prompt)

	cfg = synthetic1(3000)
	cfg.Prefix = &PrefixConfig{Groups: 3, Tokens: 100, Share: 1, BlockTokens: 16}
	require.Equal(t, base, split(cfg))

	// Fewer requests are a prefix of more.
	got = split(synthetic1(1000))
	require.Equal(t, base.at[:1000], got.at)
	require.Equal(t, base.prompt[:1000], got.prompt)
	require.Equal(t, base.output[:1000], got.output)
}

// Arrivals, prompts and outputs do not foretell each other either.
func TestColumnsAreUncorrelated(t *testing.T) {
	const n = 50_000
	cfg := synthetic1(n)
	cfg.Prompt = &LengthConfig{Dist: DistUniform, Min: 1, Max: 10_000}
	all, _ := generate(t, cfg, 5)
	var gap, prompt, output []float64
	last := sim.Time(0)
	for _, r := range all {
		gap = append(gap, (r.Arrival - last).Seconds())
		last = r.Arrival
		prompt = append(prompt, float64(r.PromptTokens))
		output = append(output, float64(r.OutputTokens))
	}
	bound := 4 / math.Sqrt(n)
	require.InDelta(t, 0, stat.Correlation(gap, prompt, nil), bound)
	require.InDelta(t, 0, stat.Correlation(gap, output, nil), bound)
	require.InDelta(t, 0, stat.Correlation(prompt, output, nil), bound)
	require.InDelta(t, 0, stat.Correlation(prompt[1:], prompt[:n-1], nil), bound)
}

func TestBounds(t *testing.T) {
	cfg := synthetic1(0)
	cfg.Arrivals = &ArrivalConfig{Process: ProcessUniform, Rate: 20}
	cfg.Duration = 10 * sim.Second
	all, s := generate(t, cfg, 1)
	require.Len(t, all, 200, "arrivals in [0, duration) at 20/s")
	require.Equal(t, 9950*sim.Millisecond, s.Last)
	require.False(t, s.PastClock)
	cfg.Duration++
	all, _ = generate(t, cfg, 1)
	require.Len(t, all, 201)
	cfg.Requests = 7
	all, _ = generate(t, cfg, 1)
	require.Len(t, all, 7)

	// A source that has ended stays so.
	src, err := New(cfg, sim.Streams{})
	require.NoError(t, err)
	drain(src)
	_, ok := src.Next()
	require.False(t, ok)
	require.Equal(t, 7, src.Stats().Requests)
}

func TestClockEndsASource(t *testing.T) {
	cfg := synthetic1(1000)
	cfg.Arrivals.Rate = minRate
	all, s := generate(t, cfg, 1)
	require.True(t, s.PastClock)
	require.Less(t, len(all), 1000)
	requireOrdered(t, all, s)
	cfg.Duration = 9_000_000 * sim.Second
	_, s = generate(t, cfg, 1)
	require.False(t, s.PastClock, "the duration ended it")
}

func TestStatsRate(t *testing.T) {
	_, s := generate(t, synthetic1(50_000), 2)
	require.InEpsilon(t, 20, float64(s.Rate()), 4/math.Sqrt(50_000))
	require.InEpsilon(t, 1500, s.MeanPrompt(), 0.03)
	require.InEpsilon(t, 500.5, s.MeanOutput(), 0.02)
	require.Zero(t, Stats{}.Rate())
	require.Zero(t, Stats{}.MeanPrompt())
	cfg := synthetic1(10)
	cfg.Arrivals = &ArrivalConfig{Process: ProcessAtOnce}
	all, s := generate(t, cfg, 2)
	require.Len(t, all, 10)
	require.Zero(t, s.Rate(), "no time passes")
	cfg.Requests, cfg.Arrivals = 3, &ArrivalConfig{Process: ProcessUniform, Rate: 4}
	_, s = generate(t, cfg, 2)
	require.Equal(t, units.Frequency(4), s.Rate(), "two gaps in half a second")
}

func TestPrefixGroups(t *testing.T) {
	const n = 20_000
	cfg := synthetic1(n)
	cfg.Prompt = &LengthConfig{Dist: DistUniform, Min: 100, Max: 4000}
	cfg.Prefix = &PrefixConfig{Groups: 4, Tokens: 1000, Share: 0.6, Alpha: 1, BlockTokens: 100}
	all, s := generate(t, cfg, 4)
	requireOrdered(t, all, s)
	require.Equal(t, 100, s.BlockTokens)
	inGroup := map[uint64]float64{}
	private := map[uint64]bool{}
	for _, r := range all {
		require.Len(t, r.Blocks, (r.PromptTokens+99)/100)
		shared := 0
		for i, b := range r.Blocks {
			if b&groupBit == 0 {
				require.False(t, private[b], "private blocks are met once")
				private[b] = true
				continue
			}
			require.Equal(t, i, shared, "the shared blocks come first")
			require.EqualValues(t, i, b&(1<<24-1))
			require.Equal(t, r.Blocks[0]>>24, b>>24, "one group per prompt")
			shared++
		}
		if shared > 0 {
			require.Equal(t, min(r.PromptTokens, 1000)/100, shared)
			inGroup[r.Blocks[0]>>24&(1<<20-1)]++
		}
	}
	// Popularity 1/g over the four groups, of the 60 % that share.
	sum := 1 + 1./2 + 1./3 + 1./4
	for g := range 4 {
		p := 0.6 / float64(g+1) / sum
		require.InDelta(t, p, inGroup[uint64(g)]/n, 4*math.Sqrt(p*(1-p)/n), "group %d", g)
	}
	require.EqualValues(t, len(private)+4*10, s.Blocks-s.RepeatedBlocks, "distinct blocks")
}

// One Generator serves many runs at once.
func TestGeneratorIsShared(t *testing.T) {
	trace := DefaultTraceConfig(sample("mooncake.jsonl"))
	cfg := synthetic1(2000)
	cfg.Prompt = &LengthConfig{Dist: DistZipf, Alpha: 1, Min: 1, Max: 4096}
	for _, cfg := range []Config{cfg, {Trace: &trace}} {
		g, err := Load(cfg)
		require.NoError(t, err)
		want := drain(g.Source(sim.Streams{Seed: 1}))
		var wg sync.WaitGroup
		got := make([][]Request, 4)
		for i := range got {
			wg.Go(func() { got[i] = drain(g.Source(sim.Streams{Seed: 1})) })
		}
		wg.Wait()
		for _, all := range got {
			require.Equal(t, want, all)
		}
	}
}

// Every valid configuration keeps the promises of Source.
func TestEveryConfigKeepsItsPromises(t *testing.T) {
	lengths := func(t *rapid.T, label string) *LengthConfig {
		l := &LengthConfig{Dist: rapid.SampledFrom(Dists).Draw(t, label)}
		lo := rapid.IntRange(1, 1000).Draw(t, label+" min")
		hi := lo + rapid.IntRange(0, 5000).Draw(t, label+" span")
		switch l.Dist {
		case DistFixed:
			l.Tokens = hi
			return l
		case DistLognormal:
			l.Mean = rapid.Float64Range(float64(lo), float64(hi)).Draw(t, label+" mean")
			l.CV = rapid.Float64Range(minCV, maxCV).Draw(t, label+" cv")
		case DistZipf:
			l.Alpha = rapid.Float64Range(0, 10).Draw(t, label+" alpha")
		}
		l.Min, l.Max = lo, hi
		return l
	}
	rapid.Check(t, func(t *rapid.T) {
		a := &ArrivalConfig{Rate: units.Frequency(math.Exp(rapid.Float64Range(math.Log(minRate), math.Log(maxRate)).Draw(t, "log rate")))}
		a.Process = rapid.SampledFrom(Processes).Draw(t, "process")
		switch a.Process {
		case ProcessGamma:
			a.CV = rapid.Float64Range(minCV, maxCV).Draw(t, "cv")
		case ProcessBatch:
			a.Size = rapid.IntRange(1, 1000).Draw(t, "size")
		case ProcessOnOff:
			a.Period = sim.Time(rapid.Int64Range(2, int64(sim.Never-1)).Draw(t, "period"))
			a.Burst = sim.Time(rapid.Int64Range(1, int64(a.Period-1)).Draw(t, "burst"))
			most := float64(a.Period) / float64(a.Burst)
			if most <= 1 {
				t.Skip("no peak above 1 fits")
			}
			a.Peak = rapid.Float64Range(math.Nextafter(1, 2), most).Draw(t, "peak")
		case ProcessAtOnce:
			a.Rate = 0
		}
		cfg := Config{
			Requests: rapid.IntRange(1, 300).Draw(t, "requests"),
			Duration: sim.Time(rapid.SampledFrom([]int64{0, 1, 1e9, 1e15}).Draw(t, "duration")),
			Arrivals: a, Prompt: lengths(t, "prompt"), Output: lengths(t, "output"),
		}
		if rapid.Bool().Draw(t, "prefix") {
			cfg.Prefix = &PrefixConfig{Groups: 3, Tokens: 500, Share: 0.5, Alpha: 1, BlockTokens: 64}
		}
		g, err := Load(cfg)
		require.NoError(t, err)
		src := g.Source(sim.Streams{Seed: rapid.Uint64().Draw(t, "seed")})
		all := drain(src)
		s := src.Stats()
		requireOrdered(t, all, s)
		require.LessOrEqual(t, len(all), cfg.Requests)
		if cfg.Duration > 0 && len(all) > 0 {
			require.Less(t, s.Last, cfg.Duration)
		}
		for _, c := range []struct {
			l   *LengthConfig
			get func(Request) int
		}{
			{cfg.Prompt, func(r Request) int { return r.PromptTokens }},
			{cfg.Output, func(r Request) int { return r.OutputTokens }},
		} {
			lo, hi := c.l.Min, c.l.Max
			if c.l.Dist == DistFixed {
				lo, hi = c.l.Tokens, c.l.Tokens
			}
			for _, r := range all {
				require.True(t, lo <= c.get(r) && c.get(r) <= hi, "%d in [%d, %d]", c.get(r), lo, hi)
			}
		}
	})
}

// The pinned digests hold on every architecture; a change of them changes every
// recorded run of the project.
func TestPinnedWorkloads(t *testing.T) {
	lengths := map[string]*LengthConfig{
		"fixed":     {Dist: DistFixed, Tokens: 100},
		"uniform":   {Dist: DistUniform, Min: 10, Max: 4000},
		"lognormal": {Dist: DistLognormal, Mean: 1500, CV: 1.2, Max: 32768},
		"zipf":      {Dist: DistZipf, Alpha: 1.1, Min: 128, Max: 8192},
	}
	processes := map[string]*ArrivalConfig{
		"poisson": {Process: ProcessPoisson, Rate: 20},
		"gamma":   {Process: ProcessGamma, Rate: 20, CV: 2},
		"uniform": {Process: ProcessUniform, Rate: 30},
		"batch":   {Process: ProcessBatch, Rate: 20, Size: 8},
		"onoff":   {Process: ProcessOnOff, Rate: 20, Period: 10 * sim.Second, Burst: 3 * sim.Second, Peak: 2.5},
	}
	for _, c := range []struct {
		process, prompt, output string
		want                    uint64
	}{
		{"poisson", "lognormal", "uniform", 0x840c0843e08b6ace},
		{"gamma", "zipf", "lognormal", 0xdf8ffc6eabc1b11},
		{"uniform", "fixed", "zipf", 0x16e58f6a2ec6555},
		{"batch", "uniform", "fixed", 0x1f051d5bdff94255},
		{"onoff", "lognormal", "zipf", 0x50d5eba8c07fc8ee},
	} {
		cfg := Config{
			Requests: 20_000,
			Arrivals: processes[c.process], Prompt: lengths[c.prompt], Output: lengths[c.output],
			Prefix: &PrefixConfig{Groups: 10, Tokens: 1000, Share: 0.5, Alpha: 0.9, BlockTokens: 128},
		}
		all, _ := generate(t, cfg, 1)
		h := fnv.New64a()
		for _, r := range all {
			fmt.Fprintln(h, r.ID, int64(r.Arrival), r.PromptTokens, r.OutputTokens, r.Blocks)
		}
		require.Equal(t, c.want, h.Sum64(), "%s, %s, %s: %#x", c.process, c.prompt, c.output, h.Sum64())
	}
}
