package experiment

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// On the ideal network layers do not vary, so that a run with sample_layers is
// the same run: every request, figure and link, whatever their number; and the
// same with the flow engine when there is nothing else on the links.
func TestSampleLayersIsExact(t *testing.T) {
	alone := append(append([]string(nil), tiny["moe"]...), "workload.requests=1", "network.engine=flow")
	for _, set := range [][]string{append(append([]string(nil), tiny["moe"]...), "network.engine=ideal"), alone} {
		want := run(t, load(t, set[0], set[1:]...))
		for _, k := range []string{"1", "2", "3", "4", "7", "47", "48"} {
			got := run(t, load(t, set[0], append(set[1:], "network.sample_layers="+k)...))
			require.Equal(t, want.Requests, got.Requests, k)
			require.Equal(t, summary(t, want), summary(t, got), k)
			require.Equal(t, want.Links, got.Links, k)
			for i := range want.Pools {
				w, g := want.Pools[i].Usage, got.Pools[i].Usage
				require.Equal(t, k != "48", g.Sampling.Steps > 0, k)
				g.Sampling = w.Sampling
				require.Equal(t, w, g, k)
			}
			if k != "48" {
				require.Less(t, got.Events, want.Events)
			}
		}
	}
}

// In the packet engine a sampled run sends the bytes of the full one, to the
// byte, also in halves: what is skipped is booked.
func TestSampleLayersConserves(t *testing.T) {
	set := append(append([]string(nil), tiny["moe"]...), "network.engine=packet", "workload.requests=6")
	totals := func(more ...string) (x [2]any, events uint64) {
		b, err := Build(load(t, set[0], append(set[1:], more...)...))
		require.NoError(t, err)
		r, err := b.Run(context.Background(), nil)
		require.NoError(t, err)
		sum := b.Network.Totals()
		require.Equal(t, sum.SentBytes, sum.DeliveredBytes)
		require.Equal(t, sum.SentMessages, sum.DeliveredMessages)
		conserves(t, b.Scenario, r)
		again := run(t, load(t, set[0], append(set[1:], more...)...))
		require.Equal(t, r.Fingerprint, again.Fingerprint)
		return [2]any{sum.SentBytes, r.Summary.EmittedOutputTokens}, r.Events
	}
	full, events := totals()
	got, fewer := totals("network.sample_layers=4")
	require.Equal(t, full, got)
	require.Less(t, fewer, events/3)
}

// A run says what was sampled and how far off that is, or why nothing was.
func TestSampleNotes(t *testing.T) {
	for _, tc := range []struct {
		in, set, says string
	}{
		{"moe", "network.sample_layers=8", "decode steps simulated 8"},
		{"moe", "network.sample_layers=8", "the standard error is"},
		{"moe", "network.sample_layers=1 network.engine=ideal", "too few to tell the error"},
		{"moe", "network.sample_layers=48", "changed nothing: qwen3-30b-a3b has 48 MoE layers"},
		{"dense", "network.sample_layers=8", "changed nothing: qwen3-8b has no MoE layers"},
	} {
		set := tiny[tc.in]
		r := run(t, load(t, set[0], append(append([]string(nil), set[1:]...), strings.Fields(tc.set)...)...))
		require.Contains(t, strings.Join(r.Notes, "\n"), tc.says)
	}
	r := run(t, load(t, tiny["dense"][0], tiny["dense"][1:]...))
	require.NotContains(t, strings.Join(r.Notes, "\n"), "sample_layers")
}

func TestPercent(t *testing.T) {
	for v, want := range map[float64]string{0: "0 %", 5e-5: "under 0.01 %", 0.0034: "0.34 %", 0.18: "18 %", 2.14: "214 %"} {
		require.Equal(t, want, percent(v))
	}
}
