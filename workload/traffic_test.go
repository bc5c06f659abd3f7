package workload

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

func TestIncastPattern(t *testing.T) {
	flows, err := TrafficConfig{Pattern: PatternIncast, Hosts: 32, First: 8, Bytes: units.MiB}.Flows(128, sim.Streams{})
	require.NoError(t, err)
	require.Len(t, flows, 32)
	require.Equal(t, Flow{Src: 8, Bytes: units.MiB}, flows[0])
	require.Equal(t, Flow{Src: 39, Bytes: units.MiB}, flows[31])
	flows, err = TrafficConfig{Pattern: PatternIncast, Target: 2, Bytes: 1}.Flows(4, sim.Streams{})
	require.NoError(t, err)
	require.Len(t, flows, 3, "nobody sends to itself")
}

// The reference's order of the pairs: first everyone's next neighbour, then the
// one after.
func TestAllToAllPattern(t *testing.T) {
	flows, err := TrafficConfig{Pattern: PatternAllToAll, Hosts: 16, Bytes: units.MiB}.Flows(128, sim.Streams{})
	require.NoError(t, err)
	file := filepath.Join("..", "..", "shared", "reference", "workloads", "flows_a2a16.csv")
	if text, err := os.ReadFile(file); err == nil {
		want, err := ReadFlows(strings.NewReader(string(text)), file, 128)
		require.NoError(t, err)
		require.Equal(t, want, flows)
	}
	pairs := map[[2]int]int{}
	for _, f := range flows {
		require.NotEqual(t, f.Src, f.Dst)
		pairs[[2]int{f.Src, f.Dst}]++
	}
	require.Len(t, pairs, 16*15)
}

func TestPermutationPattern(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := TrafficConfig{
			Pattern: PatternPermutation, Bytes: 1,
			Group: rapid.IntRange(0, 16).Draw(t, "group"),
			First: rapid.IntRange(0, 5).Draw(t, "first"),
		}
		hosts := rapid.IntRange(2, 200).Draw(t, "hosts")
		flows, err := c.Flows(c.First+hosts, sim.Streams{Seed: rapid.Uint64().Draw(t, "seed")})
		if hosts < 2*max(c.Group, 1) {
			require.ErrorContains(t, err, "group")
			return
		}
		require.NoError(t, err)
		require.Len(t, flows, hosts)
		received := map[int]bool{}
		for i, f := range flows {
			require.Equal(t, c.First+i, f.Src)
			require.False(t, received[f.Dst])
			received[f.Dst] = true
			require.Less(t, f.Dst, c.First+hosts)
			require.GreaterOrEqual(t, f.Dst, c.First)
			g := max(c.Group, 1)
			require.NotEqual(t, (f.Src-c.First)/g, (f.Dst-c.First)/g)
		}
	})
}

func TestReadFlows(t *testing.T) {
	flows, err := ReadFlows(strings.NewReader("\uFEFF# a comment\r\n1,0,4096\r\n\r\n0, 1 ,1MiB, 2us\n2,1,5,1us"), "f.csv", 3)
	require.NoError(t, err)
	require.Equal(t, []Flow{
		{Src: 1, Dst: 0, Bytes: 4096},
		{Src: 2, Dst: 1, Bytes: 5, Start: sim.Microsecond},
		{Src: 0, Dst: 1, Bytes: units.MiB, Start: 2 * sim.Microsecond},
	}, flows)

	for text, want := range map[string]string{
		"":                         "f.csv: holds no flows; write source,destination,bytes",
		"# only\n":                 "f.csv: holds no flows; write source,destination,bytes",
		"0,1":                      "f.csv:1: 2 fields; write source,destination,bytes and optionally start",
		"0,1,5\n\n0,3,5":           `f.csv:3: destination: "3" is not an endpoint; 0 to 2 are`,
		"0,1,5\n-1,2,5":            `f.csv:2: source: "-1" is not an endpoint; 0 to 2 are`,
		"1,1,5":                    "f.csv:1: destination: 1 is the source",
		"0,1,0":                    `f.csv:1: bytes: "0" is not a size; 1 to 1TB is valid`,
		"0,1,many":                 `f.csv:1: bytes: "many" is not a size; 1 to 1TB is valid`,
		"0,1,5,3":                  `f.csv:1: start: "3" has no unit`,
		"0,1,5,-3us":               "f.csv:1: start: -3us is out of range: 0s or later",
		"src,dst,bytes\n":          `f.csv:1: the header's "src" is not a column of flows`,
		"source,destination,bytes": "f.csv: holds no flows",
		"source,destination,size":  `f.csv:1: the header's "size" is not a column of flows`,
		"source,destination,bytes,priority\n0,1,5,3":                    `f.csv:1: the header's "priority" is not a column of flows`,
		"source,destination":                                            "f.csv:1: bytes: the header \"source,destination\" lacks this column",
		"source,bytes,source,destination":                               "f.csv:1: source: the header has this column twice",
		"source,destination,bytes,start,start_ps":                       "f.csv:1: start_ps: the header has start as well; one is enough",
		"source,destination,bytes\n0,1,5,3us":                           "f.csv:2: 4 fields; the header has 3",
		"source,destination,bytes,start_ps\n0,1,5,1us":                  `f.csv:2: start_ps: "1us" is not a whole number of picoseconds`,
		"source,destination,bytes,start_ps\n0,1,5,99999999999999999999": "f.csv:2: start_ps: ",
		"source,destination,bytes\nsource,destination,bytes":            `f.csv:2: source: "source" is not an endpoint`,
		"0,1,5\nsource,destination,bytes":                               `f.csv:2: source: "source" is not an endpoint`,
		"0,1,2000000000TB":                                              "f.csv:1: bytes: ",
	} {
		_, err := ReadFlows(strings.NewReader(text), "f.csv", 3)
		require.ErrorContains(t, err, want, text)
	}
}

// A header names the columns, and completed flows can be sent again.
func TestReadFlowsWithHeader(t *testing.T) {
	want := []Flow{{Src: 1, Dst: 0, Bytes: 4096}, {Src: 0, Dst: 2, Bytes: units.MiB, Start: 2 * sim.Microsecond}}
	for _, text := range []string{
		"source,destination,bytes,start\n1,0,4096,0s\n0,2,1MiB,2us\n",
		"\uFEFF# flows\r\n source , destination,bytes , start\r\n1,0,4096, 0s\r\n0,2,1MiB,2us\r\n",
		"start,bytes,destination,source\n2us,1MiB,2,0\n0s,4096,0,1\n",
		"source,destination,bytes,start_ps,finish_ps,fct_ps,ideal_ps,slowdown\n1,0,4096,0,9,9,9,1\n0,2,1048576,2000000,,,,\n",
	} {
		got, err := ReadFlows(strings.NewReader(text), "f.csv", 3)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}

func TestTrafficRefusals(t *testing.T) {
	for want, c := range map[string]TrafficConfig{
		"pattern: missing": {},
		`pattern: unknown pattern "incats"; did you mean incast?`: {Pattern: "incats"},
		"bytes: 0B; must be 1B to 1TB":                            {Pattern: PatternIncast},
		"target: has no meaning with pattern: all_to_all":         {Pattern: PatternAllToAll, Target: 1, Bytes: 1},
		"path: missing": {Pattern: PatternFile},
		"hosts: 11; the cluster has 8 endpoints from 2 on": {Pattern: PatternAllToAll, Hosts: 11, First: 2, Bytes: 1},
		"first: 10; the cluster has the endpoints 0 to 9":  {Pattern: PatternAllToAll, First: 10, Bytes: 1},
		"target: 10; the cluster has the endpoints 0 to 9": {Pattern: PatternIncast, Target: 10, Bytes: 1},
		"group: 6; no permutation of 10 endpoints":         {Pattern: PatternPermutation, Group: 6, Bytes: 1},
		"path: cannot read nowhere.csv: no such file":      {Pattern: PatternFile, Path: "nowhere.csv"},
	} {
		_, err := c.Flows(10, sim.Streams{})
		require.ErrorContains(t, err, want)
	}
}

func FuzzFlows(f *testing.F) {
	f.Add("0,1,5\n# x\n1,2,1MiB,2us")
	f.Add("0,1,5,1e300s")
	f.Add("bytes,source,destination,start_ps\n5,0,1,7")
	f.Fuzz(func(t *testing.T, text string) {
		flows, err := ReadFlows(strings.NewReader(text), "f.csv", 8)
		if err != nil {
			var ps config.Problems
			require.True(t, errors.As(err, &ps))
			require.Contains(t, ps[0].Where, "f.csv")
			return
		}
		last := sim.Time(0)
		for _, x := range flows {
			require.True(t, x.Src >= 0 && x.Src < 8 && x.Dst >= 0 && x.Dst < 8 && x.Src != x.Dst)
			require.Positive(t, x.Bytes)
			require.GreaterOrEqual(t, x.Start, last)
			last = x.Start
		}
	})
}
