package workload

import (
	"errors"
	"math"
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
	flows, err := TrafficConfig{Pattern: PatternIncast, Hosts: 32, First: 8, Bytes: units.MiB}.Flows(128, 0, sim.Streams{})
	require.NoError(t, err)
	require.Len(t, flows, 32)
	require.Equal(t, Flow{Src: 8, Bytes: units.MiB}, flows[0])
	require.Equal(t, Flow{Src: 39, Bytes: units.MiB}, flows[31])
	flows, err = TrafficConfig{Pattern: PatternIncast, Target: 2, Bytes: 1}.Flows(4, 0, sim.Streams{})
	require.NoError(t, err)
	require.Len(t, flows, 3, "nobody sends to itself")
}

// The reference's order of the pairs: first everyone's next neighbour, then the
// one after.
func TestAllToAllPattern(t *testing.T) {
	flows, err := TrafficConfig{Pattern: PatternAllToAll, Hosts: 16, Bytes: units.MiB}.Flows(128, 0, sim.Streams{})
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
		flows, err := c.Flows(c.First+hosts, 0, sim.Streams{Seed: rapid.Uint64().Draw(t, "seed")})
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
		"hosts: 11; the cluster has 8 endpoints from 2 on":                                {Pattern: PatternAllToAll, Hosts: 11, First: 2, Bytes: 1},
		"first: 10; the cluster has the endpoints 0 to 9":                                 {Pattern: PatternAllToAll, First: 10, Bytes: 1},
		"target: 10; the cluster has the endpoints 0 to 9":                                {Pattern: PatternIncast, Target: 10, Bytes: 1},
		"group: 6; no permutation of 10 endpoints":                                        {Pattern: PatternPermutation, Group: 6, Bytes: 1},
		"path: cannot read nowhere.csv: no such file":                                     {Pattern: PatternFile, Path: "nowhere.csv"},
		`sizes: unknown sizes "websaerch"; did you mean websearch?`:                       {Pattern: PatternPoisson, Sizes: "websaerch", Load: 0.5, Duration: sim.Millisecond},
		"sizes: missing; one of alistorage2019":                                           {Pattern: PatternPoisson, Load: 0.5, Duration: sim.Millisecond},
		"path: missing; name the file of the distribution":                                {Pattern: PatternPoisson, Sizes: SizesFile, Load: 0.5, Duration: sim.Millisecond},
		"path: has no meaning with pattern: poisson":                                      {Pattern: PatternPoisson, Sizes: "websearch", Path: "x", Load: 0.5, Duration: sim.Millisecond},
		"load: 2; must be 0.001 to 1":                                                     {Pattern: PatternPoisson, Sizes: "websearch", Load: 2, Duration: sim.Millisecond},
		"duration: 0s; must be 1us to 1000s":                                              {Pattern: PatternPoisson, Sizes: "websearch", Load: 0.5},
		"warmup: 1ms; must be less than the duration of 1ms":                              {Pattern: PatternPoisson, Sizes: "websearch", Load: 0.5, Duration: sim.Millisecond, Warmup: sim.Millisecond},
		"load: has no meaning with pattern: all_to_all":                                   {Pattern: PatternAllToAll, Load: 1, Bytes: 1},
		"hosts: 1; it takes two to send and receive":                                      {Pattern: PatternPoisson, Hosts: 1, Sizes: "websearch", Load: 0.5, Duration: sim.Millisecond},
		"duration: about 1.04e+08 flows begin in 100s; at most 16777216, which take 16.1": {Pattern: PatternPoisson, Sizes: "fbhadoop", Load: 1, Duration: 100 * sim.Second},
		"duration: 1us; no flow begins in it":                                             {Pattern: PatternPoisson, Hosts: 2, Sizes: "datamining", Load: 0.001, Duration: sim.Microsecond},
	} {
		_, err := c.Flows(10, 100*units.Gbps, sim.Streams{})
		require.ErrorContains(t, err, want)
	}
}

// Poisson traffic has the load that was asked for, in flows and in bytes, spread
// over all pairs alike.
func TestPoissonTraffic(t *testing.T) {
	c := TrafficConfig{
		Pattern: PatternPoisson, Sizes: "alistorage2019", Load: 0.25, Hosts: 16, First: 2,
		Duration: 200 * sim.Millisecond, Warmup: sim.Millisecond,
	}
	flows, err := c.Flows(20, 100*units.Gbps, sim.Streams{Seed: 3})
	require.NoError(t, err)
	mean := NamedSizes(c.Sizes).Mean()
	want := 16 * 0.25 * 100e9 / 8 * 0.2 / mean
	require.InDelta(t, want, len(flows), 4*math.Sqrt(want))
	var bytes, gaps2 float64
	from, to := make([]int, 20), make([]int, 20)
	last := sim.Time(0)
	for _, f := range flows {
		require.NotEqual(t, f.Src, f.Dst)
		require.True(t, f.Start >= last && f.Start < c.Duration)
		gap := (f.Start - last).Seconds() * want / 0.2
		gaps2 += gap * gap
		last = f.Start
		bytes += float64(f.Bytes)
		from[f.Src]++
		to[f.Dst]++
	}
	require.InEpsilon(t, mean, bytes/float64(len(flows)), 0.02)
	require.InEpsilon(t, 2, gaps2/float64(len(flows)), 0.05, "E[gap^2] is 2 means squared")
	for i := range from {
		for _, k := range []int{from[i], to[i]} {
			if i < 2 || i >= 18 {
				require.Zero(t, k)
			} else {
				require.InDelta(t, want/16, k, 5*math.Sqrt(want/16))
			}
		}
	}
	again, err := c.Flows(20, 100*units.Gbps, sim.Streams{Seed: 3})
	require.NoError(t, err)
	require.Equal(t, flows, again)
	// The generator of the reference made 97,984 flows and 3.95 GB of these settings.
	c = TrafficConfig{Pattern: PatternPoisson, Sizes: "alistorage2019", Load: 0.25, Duration: 10 * sim.Millisecond}
	flows, err = c.Flows(128, 100*units.Gbps, sim.Streams{Seed: 1})
	require.NoError(t, err)
	require.InDelta(t, 97984, len(flows), 4*math.Sqrt(97984))
}

// Draws of a distribution have its distribution function and its mean.
func TestSizes(t *testing.T) {
	for _, d := range named {
		s, r := d.points, sim.Streams{Seed: 1}.Stream("test")
		const draws = 100_000
		below := make([]int, len(s))
		for range draws {
			b := s.Draw(r)
			require.True(t, b >= 1 && float64(b) <= s[len(s)-1].Bytes, d.name)
			for i := range s {
				if float64(b) <= s[i].Bytes {
					below[i]++
				}
			}
		}
		for i := range s {
			require.InDelta(t, s[i].CDF, float64(below[i])/draws, 0.005, "%s %v", d.name, s[i])
			require.True(t, i == 0 || s[i].Bytes > s[i-1].Bytes && s[i].CDF > s[i-1].CDF, d.name)
		}
	}
	require.InDelta(t, 40869.8, NamedSizes("alistorage2019").Mean(), 1e-6, "by hand")
	require.Equal(t, []string{"alistorage2019", "datamining", "fbhadoop", "solar2022", "websearch", "file"}, SizeNames())
}

func TestReadSizes(t *testing.T) {
	want := Sizes{{0, 0}, {4000, 0.5}, {4000, 0.75}, {1 << 20, 1}}
	for _, text := range []string{
		"0 0\n4000 50\n4000 75\n1048576 100\n",
		"# bytes cdf\n0,0\n\n4KB, 0.5\r\n4000\t.75\n1MiB 1",
	} {
		got, err := ReadSizes(strings.NewReader(text), "s.txt")
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	jumps := 0
	for r, i := (sim.Streams{}).Stream("test"), 0; i < 4000; i++ {
		if want.Draw(r) == 4000 {
			jumps++
		}
	}
	require.InDelta(t, 1000, jumps, 120, "a quarter is of just that size")
	for text, want := range map[string]string{
		"":                 "s.txt: holds no distribution",
		"1 0\n2 0.5":       "s.txt:2: cdf: the last is 0.5; it must be 1, or 100",
		"1 0\n5":           `s.txt:2: "5" is not a size and a part`,
		"1 0\nx 1":         `s.txt:2: bytes: "x" is not a size; 0 to`,
		"1 0\n-5 1":        `s.txt:2: bytes: "-5" is not a size`,
		"1 0\n2 NaN":       `s.txt:2: cdf: "NaN" is not a part`,
		"1 0\n2 101":       `s.txt:2: cdf: "101" is not a part`,
		"5 0\n4 1":         `s.txt:2: bytes: "4" is less than the size before`,
		"1 0.5\n2 .4\n3 1": `s.txt:2: cdf: ".4" is less than the part before`,
		"0 0\n0 1":         "s.txt:2: bytes: the mean of all flows is 0 B",
	} {
		_, err := ReadSizes(strings.NewReader(text), "s.txt")
		require.ErrorContains(t, err, want, text)
	}
}

func FuzzSizes(f *testing.F) {
	f.Add("0 0\n4000 50\n1MiB 100", uint64(1))
	f.Add("# x\n5,0.25\n5,1", uint64(2))
	f.Add("0 0\n1TB 1e-300\n1TB 1", uint64(3))
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		s, err := ReadSizes(strings.NewReader(text), "s.txt")
		if err != nil {
			var ps config.Problems
			require.True(t, errors.As(err, &ps))
			require.Contains(t, ps[0].Where, "s.txt")
			return
		}
		require.Equal(t, 1., s[len(s)-1].CDF)
		require.GreaterOrEqual(t, s.Mean(), 1.)
		r := sim.Streams{Seed: seed}.Stream("test")
		for range 20 {
			b := s.Draw(r)
			require.True(t, b >= 1 && float64(b) >= s[0].Bytes && float64(b) <= max(1, s[len(s)-1].Bytes), "%v", b)
		}
	})
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
