package sweep

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/scenarios"
)

// tiny is a scenario of a few milliseconds in which replications differ, and so
// do the flow and the ideal engine.
const tiny = `extends: llama-3.1-70b-h800-pd
model: {name: qwen3-8b}
cluster: {nodes: 2, leaves: 8, spines: 1}
prefill: {tp: 2, max_batch_tokens: 1024}
decode: {tp: 2}
workload:
  requests: 12
  arrivals: {process: poisson, rate: 500/s}
  prompt: {dist: zipf, alpha: 1, min: 128, max: 2048}
  output: {dist: uniform, min: 2, max: 5}
`

// file writes a scenario of tiny with more below.
func file(t testing.TB, text string) string {
	t.Helper()
	return write(t, tiny+text)
}

func write(t testing.TB, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "tiny.yaml")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	return name
}

func plan(t testing.TB, text string, r Request) *Plan {
	t.Helper()
	p, err := New(file(t, text), r)
	require.NoError(t, err)
	return p
}

// points are the labels of all points.
func points(p *Plan) (all []string) {
	for i := range p.Points {
		all = append(all, strings.Join(p.Labels(i), " "))
	}
	return all
}

func TestPoints(t *testing.T) {
	axes := "sweep: {axes: {kv.qps: [1, 2], decode.overlap: [none, two_batch], net: {f: {network.engine: flow}, i: {network.engine: ideal}}}}\n"
	p := plan(t, axes, Request{})
	require.Equal(t, []string{
		"1 none f", "1 none i", "1 two_batch f", "1 two_batch i",
		"2 none f", "2 none i", "2 two_batch f", "2 two_batch i",
	}, points(p), "the last axis fastest")
	require.Equal(t, 8, p.Runs())

	p = plan(t, axes, Request{Mode: scenarios.ModeZip, Replications: 3})
	require.Equal(t, []string{"1 none f", "2 two_batch i"}, points(p))
	require.Equal(t, 6, p.Runs())

	// The command line replaces an axis in its place, and adds others at the end.
	p = plan(t, axes, Request{Axes: []string{"decode.overlap=shared_expert", "gpu.derate=1,1.1"}})
	require.Equal(t, []string{"kv.qps", "decode.overlap", "net", "gpu.derate"}, p.Columns())
	require.Equal(t, 8, len(p.Points))
	require.Equal(t, "1 shared_expert f 1.1", points(p)[1])

	// Of an axis of labels it chooses values.
	chosen := plan(t, axes, Request{Axes: []string{"net=i", "decode.overlap=none"}})
	require.Equal(t, []string{"1 none i", "2 none i"}, points(chosen))
	chosen = plan(t, axes, Request{Axes: []string{"net=i,f", "kv.qps=1", "decode.overlap=none"}})
	require.Equal(t, []string{"1 none i", "1 none f"}, points(chosen))

	// Every point is what its settings say.
	for i := range p.Points {
		s, err := p.Scenario(i)
		require.NoError(t, err)
		l := p.Labels(i)
		require.Equal(t, l[0], fmt.Sprint(s.Serving.KV.QPs))
		require.Equal(t, l[1], s.Serving.Decode.Overlap)
		require.Equal(t, l[2], s.Network.Engine[:1])
		require.Equal(t, l[3], fmt.Sprint(s.GPU.Derate))
	}

	// No axes at all is one point, if it is repeated.
	p = plan(t, "", Request{Replications: 4})
	require.Len(t, p.Points, 1)
	require.Equal(t, 4, p.Runs())
	require.Equal(t, 2, plan(t, "sweep: {replications: 2}\n", Request{}).Runs())
}

// The unit of a quantity goes to the column's name, and its number to the cells.
func TestUnits(t *testing.T) {
	p := plan(t, "", Request{Axes: []string{
		"workload.arrivals.rate=500/s,60000/min", "cluster.nic_rate=400Gbps,0.1Tbps", "kv.post_per_message=370us,1ms",
		"network.mtu=4096B,1KiB", "kv.qps=1,2",
	}, Mode: scenarios.ModeZip})
	require.Equal(t, []string{
		"workload.arrivals.rate_per_s", "cluster.nic_rate_gbps", "kv.post_per_message_s", "network.mtu_bytes", "kv.qps",
	}, p.Columns())
	require.Equal(t, []string{"500", "400", "0.00037", "4096", "1"}, p.cells(p.Labels(0)))
	require.Equal(t, []string{"1000", "100", "0.001", "1024", "2"}, p.cells(p.Labels(1)))
}

func TestPlanRefuses(t *testing.T) {
	axes := func(text ...string) Request { return Request{Axes: text} }
	for _, c := range []struct {
		text string
		r    Request
		want string
	}{
		{"", Request{}, "nothing varies: write --axis"},
		{"", axes("cluster.spnes=1,2"), "cluster.spnes: unknown key; did you mean spines?"},
		{"sweep: {axes: {cluster.spnes: [1, 2]}}\n", Request{}, "tiny.yaml:11: cluster.spnes: unknown key; did you mean spines?"},
		{"sweep: {axes: {net: {a: {network.engin: flow}}}}\n", Request{}, "tiny.yaml:11: network.engin: unknown key; did you mean engine?"},
		{"", axes("kv.qps=1,many"), "kv.qps: expected a whole number"},
		{"", axes("kv.qps=1", "kv.qps=2"), "kv.qps: there are two axes for it"},
		{"", axes("kv.qps=1", "kv={qps: 2}"), "sets kv, and the axis kv.qps sets kv.qps"},
		{"sweep: {axes: {net: {a: {kv.qps: 1}, b: {kv.qps: 2}}}}\n", axes("kv.qps=3"), "kv.qps: sets kv.qps, and the axis net sets kv.qps"},
		{"sweep: {axes: [{key: kv.qps, values: [1]}, {key: kv.qps, values: [2]}]}\n", Request{}, "there are two axes of this name"},
		{"", Request{Axes: []string{"kv.qps=1"}, Set: []string{"kv.qps=2"}}, "sets kv.qps, so --set kv.qps=2 would do nothing"},
		{"", axes("kv.qps="), "no values"},
		{"sweep: {axes: {net: {flow: {kv.qps: 1}, b: {kv.qps: 2}}}}\n", axes("net=b,b"), "--axis net=b,b: net: b is there twice"},
		{"sweep: {axes: {net: {flow: {kv.qps: 1}, b: {kv.qps: 2}}}}\n", axes("net=b,flw"), "--axis net=b,flw: net: the scenario's axis has no value flw; did you mean flow? (values: flow, b)"},
		{"sweep: {axes: {kv.qps: []}}\n", Request{}, "an axis without values"},
		{"", axes("seed=1,2"), "seed cannot vary; for repetitions ask for replications"},
		{"", axes("replication=1,2"), "replication cannot vary"},
		{"sweep: {axes: {tgs: {a: {kv.qps: 1}}}}\n", Request{}, "a column of the results has this name"},
		{"", Request{Axes: []string{"kv.qps=1,2", "gpu.derate=1,1.1,1.2"}, Mode: scenarios.ModeZip}, "gpu.derate: 3 values beside the 2 of kv.qps"},
		{"", Request{Replications: scenarios.MaxReplications + 1}, "10001 replications are out of range"},
		{"", axes("workload.requests=1..101", "kv.block_tokens=1..100"), "more than 10000 points"},
		{"", Request{Axes: []string{"workload.requests=1..11"}, Replications: 10_000}, "more than 10000 points or 100000 runs"},
		{"", Request{Set: []string{"kv.qps"}}, "no value; write section.key=value"},
		{"", Request{Axes: []string{"kv.qps=1,2"}, Set: []string{"kv.block_tokns=3"}}, "--set kv.block_tokns=3: kv.block_tokns: unknown key; did you mean block_tokens?"},
		{"kv: {block_tokens: 0}\n", axes("kv.qps=1,2"), "tiny.yaml:11: kv.block_tokens: 0 is out of range"},
	} {
		_, err := New(file(t, c.text), c.r)
		require.ErrorContains(t, err, c.want)
		var ps config.Problems
		require.True(t, errors.As(err, &ps), "%v", err)
	}
	// An unknown key is said once, not once per value or point.
	for _, r := range []Request{axes("cluster.spnes=1,2"), {Axes: []string{"kv.qps=1,2,3"}, Set: []string{"cluster.spnes=1"}}} {
		_, err := New(file(t, ""), r)
		require.Error(t, err)
		require.Equal(t, 1, strings.Count(err.Error(), "unknown key"))
	}
	// What one value of an axis puts right is not wrong everywhere.
	_, err := New(file(t, "kv: {block_tokens: 0}\n"), axes("kv.block_tokens=0,16"))
	require.NoError(t, err)
}

// Combinations that are skipped are no points, and the rest are numbered without
// them; the file of the sweep skips the same ones.
func TestSkip(t *testing.T) {
	text := `sweep:
  axes: {kv.qps: [1, 2, 4], net: {f: {network.engine: flow}, i: {network.engine: ideal}}}
  skip: [{net: f, kv.qps: [2, 4]}, {kv.qps: 1, net: [i]}]
`
	all := func(p *Plan) []string {
		text, err := p.Text()
		require.NoError(t, err)
		again, err := New(write(t, string(text)), Request{})
		require.NoError(t, err)
		require.Equal(t, points(p), points(again))
		same, err := again.Text()
		require.NoError(t, err)
		require.Equal(t, string(text), string(same))
		return points(p)
	}
	require.Equal(t, []string{"1 f", "2 i", "4 i"}, all(plan(t, text, Request{})))
	require.Equal(t, []string{"4 i", "8 f", "8 i"}, all(plan(t, text, Request{Axes: []string{"kv.qps=4,8"}})), "other values are not skipped")
	require.Equal(t, []string{"8 f", "8 i"}, all(plan(t, text, Request{Axes: []string{"kv.qps=8"}})))
	require.Equal(t, []string{"1 f", "2 i"}, all(plan(t, text, Request{Axes: []string{"kv.qps=1,2"}, Mode: scenarios.ModeZip})))
	_, err := New(file(t, strings.Replace(text, "net: f, ", "", 1)), Request{Axes: []string{"kv.qps=2,4"}})
	require.ErrorContains(t, err, "sweep.skip leaves out every point")

	// Whatever is skipped, the others are all there, in order.
	p := plan(t, "", Request{Axes: []string{"kv.qps=1..4", "kv.block_tokens=1..4"}})
	before := points(p)
	rapid.Check(t, func(t *rapid.T) {
		p.study.Sweep.Skip = nil
		label := rapid.SampledFrom([]string{"1", "2", "3", "4"})
		gone := map[string]bool{}
		for range rapid.IntRange(0, 5).Draw(t, "n") {
			c := scenarios.Combination{{Axis: "kv.qps", Labels: rapid.SliceOfN(label, 1, 3).Draw(t, "a")}}
			if rapid.Bool().Draw(t, "both") {
				c = append(c, scenarios.Combination{{Axis: "kv.block_tokens", Labels: rapid.SliceOfN(label, 1, 3).Draw(t, "b")}}...)
			}
			p.study.Sweep.Skip = append(p.study.Sweep.Skip, c)
			for a := range 4 {
				for b := range 4 {
					if slices.Contains(c[0].Labels, fmt.Sprint(a+1)) && (len(c) == 1 || slices.Contains(c[1].Labels, fmt.Sprint(b+1))) {
						gone[fmt.Sprint(a+1, " ", b+1)] = true
					}
				}
			}
		}
		var ps config.Problems
		p.Points = nil
		p.combine(&ps)
		require.Equal(t, len(gone) == len(before), len(ps) > 0)
		require.Equal(t, slices.DeleteFunc(slices.Clone(before), func(s string) bool { return gone[s] }), append([]string{}, points(p)...))
	})
}

// Whatever the axes, the points are all combinations, each once, in lexical
// order.
func TestProductIsComplete(t *testing.T) {
	name := file(t, "")
	keys := []string{"kv.qps", "decode.max_batch_requests", "kv.block_tokens", "workload.requests"}
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(1, 5), 1, 4).Draw(t, "sizes")
		var axes []string
		n := 1
		for i, size := range sizes {
			axes = append(axes, fmt.Sprintf("%s=1..%d", keys[i], size))
			n *= size
		}
		p, err := New(name, Request{Axes: axes, Replications: 2})
		require.NoError(t, err)
		require.Len(t, p.Points, n)
		for k, point := range p.Points {
			number := 0
			for i, v := range point {
				number = number*sizes[i] + v
			}
			require.Equal(t, k, number)
		}
	})
}
