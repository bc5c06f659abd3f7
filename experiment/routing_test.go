package experiment

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// routedScenario is a file beside a file of weights, with 128 experts on 16 GPUs.
func routedScenario(t *testing.T, weights string) string {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "popular.csv"), []byte(weights), 0o644))
	file := filepath.Join(dir, "mine.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
model: {name: qwen3-30b-a3b}
gpu: {name: h800}
cluster: {nodes: 4, leaves: 4, spines: 4}
prefill: {instances: 1, dp: 16}
decode:
  instances: 1
  dp: 16
  moe:
    routing: {popularity: {kind: file, path: popular.csv}, sample_layers: 4}
workload:
  requests: 256
  arrivals: {process: poisson, rate: 4000/s}
  prompt: {dist: lognormal, mean: 200, cv: 0.5, min: 64, max: 512}
  output: {dist: uniform, min: 8, max: 16}
`), 0o644))
	return file
}

// hot is weights of which the first expert's are as many times the others'.
func hot(times string) string {
	var b strings.Builder
	b.WriteString("expert,weight\n0," + times + "\n")
	for e := 1; e < 128; e++ {
		fmt.Fprintf(&b, "%d,1\n", e)
	}
	return b.String()
}

// A file of weights is found beside the scenario, is an input of the run, and what
// it says reaches bytes, compute and the books: an expert that nearly every token
// chooses keeps its GPU 16/8 times as busy as the mean, which copies mend.
func TestPopularityFromAFile(t *testing.T) {
	text := hot("1000000")
	file := routedScenario(t, text)
	s := load(t, file)
	r := run(t, s)
	require.Len(t, r.Inputs, 1)
	require.Equal(t, sha256.Sum256([]byte(text)), r.Inputs[0].SHA256)
	require.Equal(t, int64(len(text)), r.Inputs[0].Bytes)
	require.Equal(t, "popular.csv", filepath.Base(r.Inputs[0].Path))
	m := r.Summary
	// One choice of eight is the hot expert; the other seven are spread over 16 GPUs.
	require.InDelta(t, (1+7*7./127)*16/8, m.ExpertLoadDecode.Busiest, 0.35)
	require.Nil(t, m.ExpertLoadPrefill)
	require.Zero(t, m.ExpertLoadDecode.Dropped)

	even := run(t, load(t, routedScenario(t, hot("1")))).Summary
	require.Less(t, even.ExpertLoadDecode.Busiest, m.ExpertLoadDecode.Busiest)
	require.Less(t, *even.MeanITL, *m.MeanITL)
	require.Greater(t, m.GPUTimeDecode.Barrier, even.GPUTimeDecode.Barrier)
	require.Less(t, even.AllToAllDecode.CombineTime, m.AllToAllDecode.CombineTime)
	require.InEpsilon(t, even.AllToAllDecode.CombineLogicalRate*even.AllToAllDecode.CombineTime,
		even.AllToAllDecode.CombineLogical/1e3, 1e-9)

	eplb := run(t, load(t, file, "decode.moe.routing.placement={strategy: eplb, redundant: 16}")).Summary
	require.Less(t, *eplb.MeanITL, *m.MeanITL)
	require.Less(t, eplb.ExpertLoadDecode.Busiest, m.ExpertLoadDecode.Busiest)

	drop := run(t, load(t, file, "decode.moe.routing.capacity_factor=1")).Summary
	require.Greater(t, drop.ExpertLoadDecode.Dropped, 0.05)
	require.Less(t, *drop.MeanITL, *m.MeanITL)

	moved := run(t, load(t, file, "decode.moe.routing.placement={strategy: eplb, redundant: 16, forecast_cv: 2}",
		"decode.moe.routing.rebalance={every: 12, window: 12}"))
	require.Positive(t, moved.Summary.ExpertLoadDecode.Rebalances)
	require.Positive(t, moved.Summary.ExpertLoadDecode.MovedBytes)

	_, err := Build(load(t, file, "decode.moe.routing.placement={strategy: eplb, redundant: 8}"))
	require.ErrorContains(t, err, "128 experts and 8 redundant copies")
	_, err = Build(load(t, file, "decode.moe.routing.popularity.path=none.csv"))
	require.ErrorContains(t, err, "decode.moe.routing.popularity.path: cannot read")
}
