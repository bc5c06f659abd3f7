package scenarios

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/internal/config"
)

// open opens a study of qwen3-30b-a3b-h20 with more written below.
func open(t *testing.T, text string, set ...string) (*Study, error) {
	t.Helper()
	return Open(write(t, t.TempDir(), "s.yaml", "extends: qwen3-30b-a3b-h20\n"+text), set...)
}

// axes is a sweep in one line per value: "key: label {key=value ...}".
func axes(s Sweep) (lines []string) {
	for _, a := range s.Axes {
		for _, v := range a.Values {
			var settings []string
			for _, x := range v.Settings {
				settings = append(settings, x.Key+"="+x.Value.String())
			}
			lines = append(lines, a.Name+": "+v.Label+" {"+strings.Join(settings, "; ")+"}")
		}
	}
	return lines
}

func TestSweepForms(t *testing.T) {
	want := []string{
		"cluster.nodes: 4 {cluster.nodes=4}", "cluster.nodes: 8 {cluster.nodes=8}", "cluster.nodes: 16 {cluster.nodes=16}", "cluster.nodes: 3 {cluster.nodes=3}",
		"decode.overlap: two_batch {decode.overlap=two_batch}", "decode.overlap: none {decode.overlap=none}",
		"net: zeta {network.engine=flow; kv.qps=2}", "net: alpha {network.engine=ideal}",
	}
	mapping, err := open(t, `
sweep:
  axes:
    cluster.nodes: [4..16*2, 3]
    decode.overlap: [two_batch, none]
    net:
      zeta: {network.engine: flow, kv.qps: 2}
      alpha: {network.engine: ideal}
  mode: zip
  replications: 5
`)
	require.NoError(t, err)
	require.Equal(t, want, axes(mapping.Sweep), "in the order written")
	require.Equal(t, ModeZip, mapping.Sweep.Mode)
	require.Equal(t, 5, mapping.Sweep.Replications)
	require.Equal(t, []string{"network.engine", "kv.qps"}, mapping.Sweep.Axes[2].Keys())

	list, err := open(t, `
sweep:
  axes:
    - {key: cluster.nodes, values: [4, 8, 16, 3]}
    - {key: decode.overlap, values: [two_batch, none]}
    - label: net
      values:
        zeta: {network.engine: flow, kv.qps: 2}
        alpha: {network.engine: ideal}
`)
	require.NoError(t, err)
	require.Equal(t, want, axes(list.Sweep))

	// null takes away an axis, of a file that is extended above all.
	less, err := open(t, `
sweep:
  axes:
    cluster.nodes: [4, 8, 16, 3]
    decode.overlap: null
    net: null
`)
	require.NoError(t, err)
	require.Equal(t, want[:4], axes(less.Sweep))

	// A scenario with axes is also one without.
	c, err := mapping.Scenario()
	require.NoError(t, err)
	require.Equal(t, 1, c.Cluster.Nodes)
	text, err := c.Resolved()
	require.NoError(t, err)
	require.NotContains(t, string(text), "sweep")
}

func TestParseAxis(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"a.b=2,4,8", "2|4|8"},
		{" a.b = 2 , four ,8.50,true,110/s", "2|four|8.50|true|110/s"},
		{"a.b=2..32*2", "2|4|8|16|32"},
		{"a.b=2..31*2,99", "2|4|8|16|99"},
		{"a.b=10..30+10,5", "10|20|30|5"},
		{"a.b=7..9", "7|8|9"},
		{"a.b=[1, 2],{x: 1}", "[1, 2]|{x: 1}"},
		{`a.b="1,2","x: y"`, `"1,2"|x: y`},
		{`a.b="8",8`, `"8"|8`},
		{"a.b=x=y,z", "x=y|z"},
		{"a.b=999999999999999998..999999999999999999", "999999999999999998|999999999999999999"},
	} {
		a, err := ParseAxis(c.text)
		require.NoError(t, err, c.text)
		require.Equal(t, "a.b", a.Name)
		require.Equal(t, strings.ReplaceAll(c.want, `"1,2"`, "1,2"), strings.Join(a.Labels(), "|"), c.text)
	}
	for _, c := range []struct{ text, want string }{
		{"a.b", "write section.key=value,value"},
		{"=1", "write section.key=value,value"},
		{"a.b=", "no values"},
		{"a.b= ", "no values"},
		{"a.b=1,,2", "--axis a.b=1,,2: the value is not YAML"},
		{"a.b=3..1", "the range 3..1 runs downwards"},
		{"a.b=1..3*1", "the range 1..3*1 does not get anywhere"},
		{"a.b=0..3*2", "does not get anywhere"},
		{"a.b=1..3+0", "does not get anywhere"},
		{"a.b=1..99999", "has more than 10000 values"},
		{"a.b=1..6000,7001..13000", "more than 10000 values"},
		{"a.b=[1", "not YAML"},
	} {
		_, err := ParseAxis(c.text)
		require.ErrorContains(t, err, c.want, c.text)
		require.ErrorContains(t, err, "--axis "+c.text[:1], "%s", c.text)
	}
}

// Of an axis whose values have labels the command line takes some, in its order.
func TestLabelsOfAnAxis(t *testing.T) {
	s, err := open(t, `
sweep:
  axes:
    net:
      flow: {network.engine: flow, kv.qps: 2}
      "packets, one by one": {network.engine: packet}
      none: {}
      "8": {network.engine: ideal}
    kv.qps: [1, 2]
`)
	require.NoError(t, err)
	a, err := s.ParseAxis(`net="packets, one by one", none,8`)
	require.NoError(t, err)
	require.True(t, a.Labelled)
	require.Equal(t, []string{"net: packets, one by one {network.engine=packet}", "net: none {}", "net: 8 {network.engine=ideal}"},
		axes(Sweep{Axes: []Axis{a}}))
	a, err = s.ParseAxis("kv.qps=7,8")
	require.NoError(t, err)
	require.Equal(t, []string{"7", "8"}, a.Labels(), "an axis of a key takes any value of it")
	for text, want := range map[string]string{
		"net=flow,idaal":       "--axis net=flow,idaal: net: the scenario's axis has no value idaal",
		"net=flaw":             "has no value flaw; did you mean flow? (values: flow, \"packets, one by one\", none, 8)",
		"net=packets":          "has no value packets (values: flow, ",
		"net={a: 1}":           "has no value {a: 1}",
		"net=":                 "no values",
		"nett=flow,8, none,,3": "not YAML",
	} {
		_, err := s.ParseAxis(text)
		require.ErrorContains(t, err, want)
	}
}

// A point is there once; zipped axes have the same value again beside another.
func TestRepeats(t *testing.T) {
	for text, want := range map[string]string{
		"a: [1, 1]":                         "a: 1 is there twice",
		"a: [1..3, 2]":                      "a: 2 is there twice",
		"a: [1, 2, 3], b: [x, y, x]":        "b: x is there twice",
		"a: [1, 1, 2], b: [x, y, x], zip":   "",
		"a: [1, 1, 2], b: [x, x, y], zip":   "a: 1 is there twice, with the same beside it",
		"a: [1, 1], zip":                    "a: 1 is there twice",
		"a: [1, 1, 1], b: [x, y], zip":      "",
		"a: ['1 2', 1], b: [3, '2 3'], zip": "",
	} {
		mode := "product"
		if rest, zipped := strings.CutSuffix(text, ", zip"); zipped {
			text, mode = rest, "zip"
		}
		_, err := open(t, "sweep: {axes: {"+text+"}, mode: "+mode+"}\n")
		if want == "" {
			require.NoError(t, err, text)
			continue
		}
		require.ErrorContains(t, err, want, text)
	}
}

func TestSweepRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"sweep: 3\n", "s.yaml:2: sweep: expected a mapping with axes, skip, mode and replications, found 3"},
		{"sweep: {axis: {}}\n", "s.yaml:2: sweep.axis: unknown key; did you mean axes?"},
		{"sweep: {mode: zipp}\n", `sweep.mode: unknown value "zipp"; did you mean zip?`},
		{"sweep: {replications: 0}\n", "sweep.replications: 0 is out of range: 1 to 10000"},
		{"sweep: {replications: many}\n", "sweep.replications: expected a whole number"},
		{"sweep: {axes: 3}\n", "sweep.axes: expected a mapping of keys to lists"},
		{"sweep: {axes: {a: 3}}\n", "a: expected a list of values, or a mapping"},
		{"sweep: {axes: {a: []}}\n", "a: an axis without values"},
		{"sweep: {axes: {a: {}}}\n", "a: an axis without values"},
		{"sweep: {axes: {a: {x: 3}}}\n", "a.x: expected a mapping of keys to values"},
		{"sweep: {axes: [3]}\n", "sweep.axes[0]: expected {key: ..., values: [...]}, found 3"},
		{"sweep: {axes: [{key: a}]}\n", "sweep.axes[0]: no values"},
		{"sweep: {axes: [{key: a, label: b, values: [1]}]}\n", "write either key"},
		{"sweep: {axes: [{values: [1]}]}\n", "write either key"},
		{"sweep: {axes: [{key: a, value: [1]}]}\n", "sweep.axes[0].value: unknown key; did you mean values?"},
		{"sweep: {axes: [{key: a, values: 1}]}\n", "sweep.axes[0].values: expected a list"},
		{"sweep: {axes: [{label: a, values: [1]}]}\n", "sweep.axes[0].values: expected a mapping"},
		{"sweep: {axes: [{key: 3, values: [1]}]}\n", "sweep.axes[0]: expected text, found 3"},
		{"sweep: {axes: {a: [1]}, skip: {a: 1}}\n", "sweep.skip: expected a list such as"},
		{"sweep: {axes: {a: [1]}, skip: [a]}\n", "sweep.skip[0]: expected a combination such as {cluster.nodes: [64, 128], network: packet}, found"},
		{"sweep: {axes: {a: [1]}, skip: [{}]}\n", "sweep.skip[0]: names no axis, and so would leave out every point; write such as {"},
		{"sweep: {axes: {abc: [1]}, skip: [{abd: 1}]}\n", "sweep.skip[0].abd: there is no axis abd; did you mean abc?"},
		{"sweep: {axes: {a: [1]}, skip: [{a: 1}, {a: [1, 2]}]}\n", "sweep.skip[1].a: a has no value 2"},
		{"sweep: {axes: {a: [1]}, skip: [{a: []}]}\n", "sweep.skip[0].a: no values"},
		{"sweep: {skip: [{a: 1}]}\n", "there is no axis a"},
		{"sweep: {axes: {a: }}\n", "expected a list of values"},
	} {
		_, err := open(t, c.text)
		require.ErrorContains(t, err, c.want, c.text)
		var ps config.Problems
		require.True(t, errors.As(err, &ps))
		for _, p := range ps {
			require.NotEmpty(t, p.Where, c.text)
		}
	}
}

// What Decodes complains of is the settings themselves: a key that is none, a
// value of another type. What does not fit together is left to Scenario.
func TestDecodes(t *testing.T) {
	s, err := open(t, "cluster: {spine: 3}\n") // wrong, but not of the axis
	require.NoError(t, err)
	for _, c := range []struct{ axis, want string }{
		{"cluster.spines=17", ""},
		{"decode.overlap=nonsense", ""},
		{"scale.fabric={radix: 64}", ""},
		{"cluster.spnes=1", "--axis cluster.spnes=1: cluster.spnes: unknown key; did you mean spines?"},
		{"cluster.spines=many", "cluster.spines: expected a whole number"},
		{"workload.arrivals.rate=5", "workload.arrivals.rate: "},
		{"seed.x=5", "--axis seed.x=5: seed"},
		{"scale.fabric={radio: 64}", "scale.fabric.radio: unknown key"},
	} {
		a, err := ParseAxis(c.axis)
		require.NoError(t, err)
		err = s.Decodes(a.Values[0].Settings...)
		if c.want == "" {
			require.NoError(t, err, c.axis)
		} else {
			require.ErrorContains(t, err, c.want)
		}
	}
}

// The text of a study is the study, wherever it lies: axes, rules, what wins over
// them, and the files that it reads.
func TestStudyRoundTrip(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
	write(t, dir, "sub/t.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-06-01 09:00:00.0,500,3\n")
	write(t, dir, "sub/u.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-06-01 09:00:00.0,600,3\n")
	write(t, dir, "sub/replay.yaml", `extends: azure-replay
workload: {trace: {path: t.csv}}
scale: {fabric: {radix: 64}, gpus: {prefill: 3, decode: 2}}
cluster: {spines: 10}
sweep:
  axes:
    workload.trace.path: [t.csv, u.csv]
    net: {a b: {network.engine: flow, kv.qps: 2}, "true": {network.engine: ideal}}
`)
	t.Chdir(dir)
	s, err := Open("sub/replay.yaml", "cluster.oversubscription=2")
	require.NoError(t, err)
	require.Equal(t, []string{"sub/t.csv"}, s.Files())
	last := s.Sweep.Axes[0].Values[1].Settings
	require.Equal(t, []string{"sub/u.csv"}, s.Files(last...))
	s.Sweep.Mode, s.Sweep.Replications = ModeProduct, 3
	text, err := s.YAML(s.Sweep)
	require.NoError(t, err)

	require.NoError(t, os.MkdirAll("out/there", 0o755))
	require.NoError(t, os.WriteFile("out/there/scenario.yaml", text, 0o644))
	again, err := Open("out/there/scenario.yaml")
	require.NoError(t, err)
	require.Equal(t, []string{
		"workload.trace.path: sub/t.csv {workload.trace.path=sub/t.csv}", "workload.trace.path: sub/u.csv {workload.trace.path=sub/u.csv}",
		"net: a b {network.engine=flow; kv.qps=2}", "net: true {network.engine=ideal}",
	}, axes(again.Sweep))
	require.Equal(t, 3, again.Sweep.Replications)
	for k, v := range s.Sweep.Axes[0].Values {
		for i, w := range s.Sweep.Axes[1].Values {
			a, err := s.Scenario(append(v.Settings, w.Settings...)...)
			require.NoError(t, err)
			b, err := again.Scenario(append(again.Sweep.Axes[0].Values[k].Settings, again.Sweep.Axes[1].Values[i].Settings...)...)
			require.NoError(t, err)
			x, err := a.Resolved()
			require.NoError(t, err)
			y, err := b.Resolved()
			require.NoError(t, err)
			require.Equal(t, string(x), string(y))
			require.Equal(t, a.Derived(), b.Derived())
			require.Equal(t, 10, a.Cluster.Spines, "written beside the rule")
			require.Equal(t, 4, a.Cluster.Leaves, "by the rule: 20 servers at 2:1, 5 to a leaf")
		}
	}
	twice, err := again.YAML(again.Sweep)
	require.NoError(t, err)
	require.Equal(t, string(text), string(twice))
	require.EqualValues(t, 1, s.Seed())
	s, err = Open("sub/replay.yaml", "seed=7")
	require.NoError(t, err)
	require.EqualValues(t, 7, s.Seed())
}

// Replication 0 is the seed as it always was; the others draw other numbers, for
// the network too.
func TestReplications(t *testing.T) {
	s := Default()
	require.Equal(t, s.Seed, s.NetworkSeed())
	seen := map[uint64]bool{s.NetworkSeed(): true}
	for r := range uint64(100) {
		s.Replication = r + 1
		require.False(t, seen[s.NetworkSeed()])
		seen[s.NetworkSeed()] = true
		require.Equal(t, s.Streams().Stream("network").Uint64(), s.NetworkSeed())
	}
	s.Replication = 0
	text, err := s.Resolved()
	require.NoError(t, err)
	require.NotContains(t, string(text), "replication")
}

// FuzzParseAxis holds the parser to its word: an axis with distinct values of its
// key, or problems that say where.
func FuzzParseAxis(f *testing.F) {
	for _, text := range []string{"a=1,2", "a.b=2..32*2,x", "a=[1,2],{b: c}", `a="x,y"`, "a=1..9+3", "=", "a=1,1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseAxis(text)
		if err != nil {
			var ps config.Problems
			require.True(t, errors.As(err, &ps), "%v", err)
			for _, p := range ps {
				require.NotEmpty(t, p.Where)
			}
			return
		}
		require.NotEmpty(t, a.Values)
		for _, v := range a.Values {
			require.Len(t, v.Settings, 1)
			require.Equal(t, a.Name, v.Settings[0].Key)
		}
	})
}
