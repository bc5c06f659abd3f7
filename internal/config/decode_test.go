package config_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/internal/config"
	_ "github.com/tgssim/tgssim/internal/testkit" // the same draws in every run
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// checkDecode decodes a tree twice: the same must come out, and if it is a
// scenario it must survive being written and read again.
func checkDecode(t *testing.T, tree *config.Tree) {
	first, second := defaults(), defaults()
	err, again := tree.Decode(&first), tree.Decode(&second)
	if err != nil {
		require.EqualError(t, again, err.Error())
		var ps config.Problems
		require.ErrorAs(t, err, &ps)
		for _, p := range ps {
			require.NotEmpty(t, p.Where, "%s", p)
			require.NotEmpty(t, p.Message, "%s", p)
		}
		return
	}
	require.NoError(t, again)
	require.Equal(t, first, second)
	if !exact(first) {
		return
	}
	data, err := config.Marshal(first)
	if err != nil {
		// A name may be longer than YAML takes for a key on one line.
		require.ErrorContains(t, err, "cannot be a key")
		return
	}
	reread, err := config.Parse("resolved.yaml", data)
	require.NoError(t, err, "%s", data)
	var third scenario
	require.NoError(t, reread.Decode(&third), "%s", data)
	require.Equal(t, first, third)
}

// exact says whether the quantities are small enough for the text forms of
// package sim and units, which go through a float64, to be exact.
func exact(s scenario) bool {
	times := append([]sim.Time{s.Topology.Latencies.Hop}, s.Topology.Latencies.Lags...)
	for _, p := range s.Pools {
		times = append(times, p.Window)
	}
	if s.Failures != nil {
		times = append(times, s.Failures.MTBF)
	}
	for _, t := range times {
		if t > maxTime || t < -maxTime {
			return false
		}
	}
	return math.Abs(float64(s.Topology.LinkRate)) < 1<<50 && math.Abs(float64(s.Topology.Buffer)) < 1<<50
}

const maxTime sim.Time = 1 << 50

func FuzzParseDecode(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.story")
	require.NoError(f, err)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		require.NoError(f, err)
		for _, step := range strings.Split(string(data), "\n\n") {
			if input, _, ok := strings.Cut(step, "----\n"); ok {
				_, input, _ = strings.Cut(input, "\n")
				f.Add([]byte(input))
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tree, err := config.Parse("f.yaml", data)
		if err != nil {
			require.Nil(t, tree)
			require.ErrorAs(t, err, new(config.Problems))
			require.True(t, strings.HasPrefix(err.Error(), "f.yaml:"), "%s", err)
			return
		}
		again, err := config.Parse("f.yaml", data)
		require.NoError(t, err)
		require.Equal(t, again.Dump(true), tree.Dump(true))
		checkDecode(t, tree)
	})
}

// drawText draws text that a careless writer of YAML gets wrong.
func drawText(t *rapid.T) string {
	return rapid.OneOf(
		rapid.String(),
		rapid.StringOf(rapid.SampledFrom([]rune("ab01 .:-#'\"\n\t\r|>{}[],&*!%@?~_=\\/\u0085\u00a0\u2028\ufeff\ufffd\U0001f600\x00\x1b"))),
		rapid.StringMatching(`[a-c#-]{1,3}( [a-c:]{1,3}){0,2}(\n {0,2}[a-c#-]{0,3}){0,3}\n?`),
		rapid.SampledFrom([]string{
			"", " ", "\n", "\n\n", "a\n", "a\n\n", "\na", " a\nb", "a \nb", "a\n\nb\n", "a\n  b\n c", "a\r\nb", "a\n\tb", "a\n ",
			"true", "False", "yes", "no", "on", "OFF", "y", "null", "~", "8", "-8", "1_000", "0x10", "010", "1e3", ".5", "5.", ".inf",
			"NaN", "2024-01-01", "1:30", "12:30:45", "<<", "=", "- a", "-", "--- a", "---", "...", "? a", "a: b", "a:", ":a", "a #b",
			"#a", "@a", "%a", "`a`", "!a", "!!str a", "&a", "*a", "[a", "{a", "a,b", "\"a", "'a", "it's", "a\\b", "400 Gbps", "v3.1",
			strings.Repeat("long ", 300), strings.Repeat("x", 2000),
		}),
	).Draw(t, "text")
}

func drawFloat(t *rapid.T) float64 {
	return rapid.OneOf(rapid.Float64(), rapid.Float64Range(-2, 2),
		rapid.SampledFrom([]float64{0, 1, 1e21, 1e-9, math.MaxFloat64, math.SmallestNonzeroFloat64, math.Pi})).Draw(t, "float")
}

func drawTime(t *rapid.T) sim.Time {
	unit := rapid.SampledFrom([]sim.Time{1, sim.Nanosecond, sim.Microsecond, sim.Millisecond, sim.Second}).Draw(t, "unit")
	return sim.Time(rapid.Int64Range(-int64(maxTime/unit), int64(maxTime/unit)).Draw(t, "time")) * unit
}

func drawList[T any](t *rapid.T, draw func(*rapid.T) T) []T {
	var list []T
	for range rapid.IntRange(0, 3).Draw(t, "items") {
		list = append(list, draw(t))
	}
	return list
}

func drawMap[T any](t *rapid.T, draw func(*rapid.T) T) map[string]T {
	var m map[string]T
	for range rapid.IntRange(0, 3).Draw(t, "names") {
		name := drawText(t)
		if name == "" || len(name) > 300 {
			continue
		}
		if m == nil {
			m = map[string]T{}
		}
		m[name] = draw(t)
	}
	return m
}

func drawScenario(t *rapid.T) scenario {
	s := scenario{
		Name:        drawText(t),
		Description: drawText(t),
		Seed:        rapid.Uint64().Draw(t, "seed"),
		Topology: topology{
			Leaves:    rapid.Int().Draw(t, "leaves"),
			Spines:    rapid.Int8().Draw(t, "spines"),
			LinkRate:  units.Rate(rapid.Int64Range(-1<<50, 1<<50).Draw(t, "rate")),
			Buffer:    units.Bytes(rapid.Int64Range(-1<<50, 1<<50).Draw(t, "bytes")),
			Lossless:  rapid.Bool().Draw(t, "lossless"),
			Latencies: latencies{Hop: drawTime(t), Lags: drawList(t, drawTime)},
		},
		Arrivals: arrivals{
			Rate:   units.Frequency(rapid.Float64Range(0, 1e12).Draw(t, "frequency")),
			CV:     drawFloat(t),
			Spread: rapid.Float32().Draw(t, "spread"),
			Seeds:  drawMap(t, func(t *rapid.T) uint16 { return rapid.Uint16().Draw(t, "seed") }),
			Grid: drawList(t, func(t *rapid.T) []int {
				return drawList(t, func(t *rapid.T) int { return rapid.Int().Draw(t, "cell") })
			}),
		},
		Pools: drawList(t, func(t *rapid.T) pool {
			return pool{Role: drawText(t), TP: rapid.Int().Draw(t, "tp"), Window: drawTime(t)}
		}),
		Mix:   drawMap(t, func(t *rapid.T) mix { return mix{Share: drawFloat(t), Model: drawText(t)} }),
		Notes: drawList(t, drawText),
	}
	if rapid.Bool().Draw(t, "failures") {
		s.Failures = &failures{MTBF: drawTime(t), Links: rapid.Int().Draw(t, "links"), Spare: rapid.IntRange(0, 1).Draw(t, "spare")}
	}
	if rapid.Bool().Draw(t, "ratio") {
		ratio := drawFloat(t)
		s.Arrivals.Ratio = &ratio
	}
	return s
}

// What is marshalled is read back the same, over any defaults, and other readers
// of YAML take its text for the same text.
func TestMarshalRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawScenario(t)
		data, err := config.Marshal(want)
		require.NoError(t, err)
		tree, err := config.Parse("resolved.yaml", data)
		require.NoError(t, err, "%s", data)
		for _, start := range []scenario{{}, defaults(), drawScenario(t)} {
			if start.Failures != nil {
				start.Failures.Spare = 0 // the price of omitempty
			}
			require.NoError(t, tree.Decode(&start), "%s", data)
			require.Equal(t, want, start, "%s", data)
		}
		again, err := config.Marshal(&want)
		require.NoError(t, err)
		require.Equal(t, string(data), string(again))

		var other struct {
			Name, Description string
			Seed              any
			Topology          map[string]any
			Arrivals          map[string]any
			Pools             []struct{ Role any }
			Failures          any
			Mix               map[string]struct{ Model any }
			Notes             []any
		}
		require.NoError(t, yaml.Unmarshal(data, &other), "%s", data)
		require.Equal(t, want.Name, other.Name)
		require.Equal(t, want.Description, other.Description)
		require.EqualValues(t, want.Seed, other.Seed)
		require.Len(t, other.Notes, len(want.Notes))
		for i, note := range want.Notes {
			require.Equal(t, any(note), other.Notes[i], "%s", data)
		}
		for i, p := range want.Pools {
			require.Equal(t, any(p.Role), other.Pools[i].Role, "%s", data)
		}
		require.Len(t, other.Mix, len(want.Mix))
		for name, m := range want.Mix {
			require.Contains(t, other.Mix, name, "%s", data)
			require.Equal(t, any(m.Model), other.Mix[name].Model, "%s", data)
		}
	})
}

// A code reads itself from text, and does not always write itself.
type code int

func (c *code) UnmarshalText(text []byte) error { *c = code(len(text)); return nil }

func (c code) MarshalText() ([]byte, error) {
	if c < 0 {
		return nil, errors.New("no code is negative")
	}
	return []byte(strings.Repeat("\xff", int(c))), nil
}

type silent struct{}

func (*silent) UnmarshalText([]byte) error { return nil }

func TestMarshalText(t *testing.T) {
	type coded struct {
		Code code `yaml:"code"`
	}
	_, err := config.Marshal(coded{-1})
	require.EqualError(t, err, "config: code: no code is negative")
	_, err = config.Marshal(coded{1})
	require.EqualError(t, err, "config: code: text that is not UTF-8 cannot be written as YAML")
	data, err := config.Marshal(coded{})
	require.NoError(t, err)
	require.Equal(t, "code: \"\"\n", string(data))

	_, err = config.Marshal(struct {
		S silent `yaml:"s"`
	}{})
	require.EqualError(t, err, "config: s: config_test.silent reads itself from text but does not write itself")

	data, err = config.Marshal(struct{}{})
	require.NoError(t, err)
	require.Equal(t, "{}\n", string(data))
	require.EqualError(t, parse(t, "code: [a]").Decode(&coded{}), "f.yaml:1: code: expected a code, found a list")
}

func TestMarshalRefuses(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		spoil func(*scenario)
		want  string
	}{
		{func(s *scenario) { s.Arrivals.CV = inf }, "config: arrivals: cv: +Inf is not finite"},
		{func(s *scenario) { s.Arrivals.Ratio = &nan }, "config: arrivals: ratio: NaN is not finite"},
		{func(s *scenario) { s.Notes = []string{"a", "\xff"} }, "config: notes: [1]: text that is not UTF-8 cannot be written as YAML"},
		{func(s *scenario) { s.Mix = map[string]mix{"": {}} }, `config: mix: the name "" cannot be a key`},
		{func(s *scenario) { s.Mix = map[string]mix{"\xff": {}} }, `config: mix: the name "\xff" cannot be a key`},
	} {
		s := defaults()
		c.spoil(&s)
		_, err := config.Marshal(s)
		require.EqualError(t, err, c.want)
	}
	s := defaults()
	s.Mix = map[string]mix{strings.Repeat("x", 2000): {}}
	_, err := config.Marshal(s)
	require.ErrorContains(t, err, "cannot be a key")
}

// What the default points to belongs to the default and is not written to.
func TestDecodeLeavesSharedDefaultsAlone(t *testing.T) {
	shared, ratio := &failures{MTBF: sim.Second, Links: 7}, 0.5
	s := scenario{Failures: shared, Pools: []pool{{TP: 3}}, Mix: map[string]mix{"a": {Share: 1}}}
	s.Arrivals.Ratio = &ratio
	before := s
	tree := parse(t, "failures: {mtbf: 2s}\narrivals: {ratio: 0.75}\npools: [{}]\nmix: {b: {}}")
	require.NoError(t, tree.Decode(&s))
	require.Equal(t, failures{MTBF: 2 * sim.Second, Links: 7}, *s.Failures, "absent keys keep the default")
	require.Equal(t, 0.75, *s.Arrivals.Ratio)
	require.Equal(t, map[string]mix{"b": {}}, s.Mix)
	require.Equal(t, failures{MTBF: sim.Second, Links: 7}, *shared)
	require.Equal(t, 0.5, ratio)
	require.Equal(t, []pool{{TP: 3}}, before.Pools)
	require.Equal(t, map[string]mix{"a": {Share: 1}}, before.Mix)
}

// The items of a mapping start from SetDefaults like those of a list.
func TestDecodeDefaultsOfMapItems(t *testing.T) {
	var s struct {
		Pools map[string]pool `yaml:"pools"`
	}
	require.NoError(t, parse(t, "pools: {a: {tp: 3}, b: {}}").Decode(&s))
	var want pool
	want.SetDefaults()
	require.Equal(t, want, s.Pools["b"])
	want.TP = 3
	require.Equal(t, want, s.Pools["a"])
}

// Where a key is known in many places, none of them is advised.
func TestUnknownKeyKnownInManyPlaces(t *testing.T) {
	type part struct {
		Width int `yaml:"width"`
	}
	type three struct {
		A part `yaml:"a"`
		B part `yaml:"b"`
		C part `yaml:"c"`
	}
	tree := parse(t, "width: 3")
	require.EqualError(t, tree.Decode(&three{}),
		"f.yaml:1: width: unknown key; width belongs under a or under b or under c (keys here: a, b, c)")
	require.EqualError(t, tree.Decode(&struct {
		Three three `yaml:",inline"`
		D     part  `yaml:"d"`
	}{}), "f.yaml:1: width: unknown key (keys here: a, b, c, d)")
}

// Mistakes of the program, not of the file, are told as such.
func TestUnusableTypes(t *testing.T) {
	type loop struct {
		Next *loop `yaml:"next"`
	}
	type twice struct {
		A         int `yaml:"hop_latency"`
		latencies `yaml:"-"`
		L         latencies `yaml:",inline"`
	}
	tree := parse(t, "a: 1")
	var nothing *scenario
	number := 3
	for _, c := range []struct {
		dst  any
		want string
	}{
		{nil, "config: cannot decode into <nil>; pass a pointer"},
		{nothing, "config: cannot decode into *config_test.scenario; pass a pointer"},
		{scenario{}, "config: cannot decode into config_test.scenario; pass a pointer"},
		{&number, "config: cannot decode a tree into *int; pass a pointer to a struct"},
		{&struct{ A int }{}, "config: field A of struct { A int } has no yaml tag"},
		{&struct {
			A int `yaml:"a,flow"`
		}{}, `yaml option "flow" is not supported`},
		{&struct {
			A int `yaml:",inline"`
		}{}, "only a struct without a key can be inline"},
		{&struct {
			a int `yaml:"a"`
		}{}, "has a yaml tag but is not exported"},
		{&struct {
			A any `yaml:"a"`
		}{}, "config: interface {} cannot be read from YAML"},
		{&struct {
			A map[int]int `yaml:"a"`
		}{}, "config: map[int]int has keys that are not strings"},
		{&struct {
			A **int `yaml:"a"`
		}{}, "config: **int is a pointer to a pointer"},
		{&loop{}, "config: config_test.loop contains itself"},
		{&twice{}, "config: config_test.twice has two fields with the key hop_latency"},
	} {
		require.ErrorContains(t, tree.Decode(c.dst), c.want)
		require.NotErrorIs(t, tree.Decode(c.dst), config.Problems{})
	}
	_, err := config.Marshal(&loop{})
	require.EqualError(t, err, "config: config_test.loop contains itself")
	_, err = config.Marshal(nothing)
	require.EqualError(t, err, "config: cannot marshal *config_test.scenario; pass a struct")
	require.Nil(t, config.Keys(&loop{}))
	require.Nil(t, config.Keys(nil))
}

func TestKeys(t *testing.T) {
	require.Equal(t, []config.KeyInfo{
		{"name", "text", "base"},
		{"description", "text", ""},
		{"seed", "whole number", "1"},
		{"topology.leaves", "whole number", "4"},
		{"topology.spines", "whole number", "2"},
		{"topology.link_rate", "rate", "400Gbps"},
		{"topology.buffer", "bytes", "64MiB"},
		{"topology.lossless", "true or false", "true"},
		{"topology.hop_latency", "time", "600ns"},
		{"topology.lags", "list of times", "[]"},
		{"arrivals.rate", "frequency", "20/s"},
		{"arrivals.cv", "number", "1"},
		{"arrivals.spread", "number", "0.5"},
		{"arrivals.seeds", "mapping of names to whole numbers", "{}"},
		{"arrivals.ratio", "number", "null"},
		{"arrivals.grid", "list of lists of whole numbers", "[]"},
		{"pools[].role", "text", "decode"},
		{"pools[].tp", "whole number", "1"},
		{"pools[].window", "time", "20ms"},
		{"failures", "optional mapping", "null"},
		{"failures.mtbf", "time", "3600s"},
		{"failures.links", "whole number", "1"},
		{"failures.spare", "whole number", "0"},
		{"mix.<name>.share", "number", "0"},
		{"mix.<name>.model", "text", ""},
		{"notes", "list of text", "[]"},
	}, config.Keys(defaults()))
}
