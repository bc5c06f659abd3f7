package workload

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/sim"
)

func decode(t *testing.T, text string) (Config, *config.Tree, error) {
	t.Helper()
	tree, err := config.Parse("s.yaml", []byte(text))
	require.NoError(t, err)
	cfg := DefaultConfig()
	if err := tree.Decode(&cfg); err != nil {
		return cfg, tree, err
	}
	return cfg, tree, tree.Resolve(cfg.Validate())
}

func TestConfigFromYAML(t *testing.T) {
	cfg, _, err := decode(t, `
requests: 6000
duration: 1min
arrivals: {process: gamma, rate: 90/min, cv: 2}
prompt: {dist: lognormal, mean: 2048, cv: 1, min: 16, max: 16384}
output: {dist: zipf, alpha: 1, min: 1, max: 1024}
prefix: {groups: 8, tokens: 1000, share: 0.3}
`)
	require.NoError(t, err)
	require.Equal(t, Config{
		Requests: 6000, Duration: 60 * sim.Second,
		Arrivals: &ArrivalConfig{Process: ProcessGamma, Rate: 1.5, CV: 2},
		Prompt:   &LengthConfig{Dist: DistLognormal, Mean: 2048, CV: 1, Min: 16, Max: 16384},
		Output:   &LengthConfig{Dist: DistZipf, Alpha: 1, Min: 1, Max: 1024},
		Prefix:   &PrefixConfig{Groups: 8, Tokens: 1000, Share: 0.3, BlockTokens: 512},
	}, cfg)

	trace, _, err := decode(t, "trace: {path: a.csv, speedup: 2}\n")
	require.NoError(t, err)
	require.Equal(t, Config{Trace: &TraceConfig{Path: "a.csv", Format: FormatAuto, Speedup: 2, ZeroLengths: ZeroSkip}}, trace)

	// What is written out reads back the same, and is as valid.
	for _, c := range []Config{cfg, trace} {
		out, err := config.Marshal(c)
		require.NoError(t, err)
		back, _, err := decode(t, string(out))
		require.NoError(t, err, "%s", out)
		require.Equal(t, c, back)
	}
}

func TestConfigProblems(t *testing.T) {
	const rest = "prompt: {dist: fixed, tokens: 5}\noutput: {dist: fixed, tokens: 5}\n"
	const arrivals = "requests: 5\narrivals: {process: poisson, rate: 1/s}\n"
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "requests: 5\n", "s.yaml: no requests are described; write arrivals, prompt and output, or trace"},
		{"no bound", "arrivals: {process: poisson, rate: 1/s}\n" + rest, "s.yaml: requests: neither requests nor duration bounds the workload; write one of them, or both (not written; the default is 0)"},
		{"parts missing", "requests: 5\nprompt: {dist: fixed, tokens: 5}\n", "s.yaml: arrivals: missing; a synthetic workload needs arrivals, prompt and output (not written; the default is null)\ns.yaml: output: missing; a synthetic workload needs arrivals, prompt and output (not written; the default is null)"},
		{"both", arrivals + rest + "trace: {path: x}\n", "s.yaml:5: trace: a trace brings its own arrivals and lengths; remove it, or arrivals, prompt, output and prefix"},
		{"negative", "requests: -1\nduration: -1s\n" + "trace: {path: x}\n", "s.yaml:1: requests: -1; must be 0 to 1000000000\ns.yaml:2: duration: -1s is negative; 0 is no bound"},
		{"process", "requests: 5\narrivals: {process: poison, rate: 1/s}\n" + rest, `s.yaml:2: arrivals.process: unknown process "poison"; did you mean poisson?`},
		{"no process", "requests: 5\narrivals: {rate: 1/s}\n" + rest, "s.yaml:2: arrivals.process: missing; one of poisson, gamma, uniform, batch, onoff, at_once (not written)"},
		{"no rate", "requests: 5\narrivals: {process: poisson}\n" + rest, "s.yaml:2: arrivals.rate: 0/s; must be 1e-06/s to 1e+09/s (not written; the default is 0/s)"},
		{"no cv", "requests: 5\narrivals: {process: gamma, rate: 1/s}\n" + rest, "s.yaml:2: arrivals.cv: 0; must be 0.01 to 100 (not written; the default is 0)"},
		{"cv of poisson", "requests: 5\narrivals: {process: poisson, rate: 1/s, cv: 2}\n" + rest, "s.yaml:2: arrivals.cv: has no meaning with process: poisson, which uses rate; remove it"},
		{"rate of at_once", "requests: 5\narrivals: {process: at_once, rate: 1/s}\n" + rest, "s.yaml:2: arrivals.rate: has no meaning with process: at_once, which uses no other key; remove it"},
		{"at_once without count", "duration: 5s\narrivals: {process: at_once}\n" + rest, "s.yaml: requests: process at_once needs the number of requests, 1 to 1000000000 (not written; the default is 0)"},
		{"no size", "requests: 5\narrivals: {process: batch, rate: 1/s}\n" + rest, "s.yaml:2: arrivals.size: 0; must be 1 to 1000000000 (not written; the default is 0)"},
		{"onoff", "requests: 5\narrivals: {process: onoff, rate: 1/s, period: 10s, burst: 10s, peak: 2}\n" + rest, "s.yaml:2: arrivals.burst: 10s; must be above 0 and below the period of 10s"},
		{"peak", "requests: 5\narrivals: {process: onoff, rate: 1/s, period: 10s, burst: 4s, peak: 3}\n" + rest, "s.yaml:2: arrivals.peak: 3; must be above 1 and at most period/burst = 2.5"},
		{"dist", arrivals + "prompt: {dist: exponential, mean: 5}\noutput: {dist: fixed, tokens: 5}\n", `s.yaml:3: prompt.dist: unknown dist "exponential"; known: fixed, uniform, lognormal, zipf`},
		{"alpha of fixed", arrivals + "prompt: {dist: fixed, tokens: 5, alpha: 1}\noutput: {dist: fixed, tokens: 5}\n", "s.yaml:3: prompt.alpha: has no meaning with dist: fixed, which uses tokens; remove it"},
		{"no tokens", arrivals + "prompt: {dist: fixed}\noutput: {dist: fixed, tokens: 10000001}\n", "s.yaml:3: prompt.tokens: 0; must be 1 to 10000000 (not written; the default is 0)\ns.yaml:4: output.tokens: 10000001; must be 1 to 10000000"},
		{"uniform", arrivals + "prompt: {dist: uniform, max: 5}\noutput: {dist: uniform, min: 6, max: 5}\n", "s.yaml:3: prompt.min: 0; must be 1 to 10000000 (not written; the default is 0)\ns.yaml:4: output.max: 5 is below min, 6"},
		{"lognormal", arrivals + "prompt: {dist: lognormal, mean: 0.5, cv: 0}\noutput: {dist: lognormal, mean: 100, cv: 1, max: 50}\n", "s.yaml:3: prompt.mean: 0.5; must be 1 to 10000000\ns.yaml:3: prompt.cv: 0; must be 0.01 to 100\ns.yaml:4: output.mean: 100; must be between min and max, 1 to 50"},
		{"zipf", arrivals + "prompt: {dist: zipf, alpha: -1, min: 1, max: 5}\noutput: {dist: zipf, alpha: 1, min: 10, max: 5000000}\n", "s.yaml:3: prompt.alpha: -1; must be 0 to 10\ns.yaml:4: output.max: 5000000; at most min + 1048575, because a zipf has a table of its lengths"},
		{"prefix", arrivals + rest + "prefix: {groups: 0, tokens: 0, share: 1.5, alpha: 11, block_tokens: 0}\n", "s.yaml:5: prefix.groups: 0; must be 1 to 1000000\ns.yaml:5: prefix.tokens: 0; must be 1 to 10000000\ns.yaml:5: prefix.share: 1.5; must be 0 to 1\ns.yaml:5: prefix.alpha: 11; must be 0 to 10\ns.yaml:5: prefix.block_tokens: 0; must be 1 to 10000000"},
		{"trace", "trace: {format: azur, speedup: 0, skip: -1, rows: -1, zero_lengths: drop, block_tokens: -1}\n", `s.yaml:1: trace.path: missing; name the trace file (not written)
s.yaml:1: trace.format: unknown format "azur"; did you mean azure?
s.yaml:1: trace.skip: -1; must be 0 to 1000000000
s.yaml:1: trace.rows: -1; must be 0 to 1000000000
s.yaml:1: trace.zero_lengths: unknown zero_lengths "drop"; known: skip, one, refuse
s.yaml:1: trace.block_tokens: -1; must be 0 to 10000000
s.yaml:1: trace.speedup: 0; must be 0.000001 to 1000000`},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, _, err := decode(t, c.text)
			require.EqualError(t, err, c.want)
			_, err = New(cfg, sim.Streams{})
			require.Equal(t, cfg.Validate(), err, "New refuses it too")
		})
	}
}
