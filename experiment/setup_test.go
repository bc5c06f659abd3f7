package experiment

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/compute"
	"github.com/tgssim/tgssim/scenarios"
)

// The cost models are set up as the scenario says: GPUs permute rows themselves
// where tokens reach them by all-gather, the drafting module is in the memory of
// both pools while there are drafts, and SMs are lent by prefill only.
func TestSetupsOfRanks(t *testing.T) {
	build := func(set ...string) *Simulation {
		s, err := scenarios.Load("qwen3-30b-a3b-h20", set...)
		require.NoError(t, err)
		b, err := Build(s)
		require.NoError(t, err)
		return b
	}
	b := build()
	require.False(t, b.Decode.Setup().LocalPermute)
	require.Zero(t, b.Decode.Setup().DraftLayers)
	require.Equal(t, compute.AsCheckpoint, b.Decode.Setup().Activations)
	kv := b.Decode.Memory().KVPerToken

	b = build("decode.moe.mode=all_gather", "decode.mtp.query_tokens=3", "decode.mtp.layers_per_draft=2",
		"model.weights=fp8", "model.activations=bf16")
	require.True(t, b.Decode.Setup().LocalPermute)
	require.False(t, b.Prefill.Setup().LocalPermute)
	for _, r := range []*compute.Rank{b.Prefill, b.Decode} {
		require.Equal(t, 2, r.Setup().DraftLayers)
		require.Positive(t, r.Memory().Parts.Draft)
		require.Equal(t, compute.BF16, r.Setup().Activations)
		require.Zero(t, r.Setup().CommSMs, "only overlapped prefill lends them")
	}
	require.Equal(t, kv/48*50, b.Decode.Memory().KVPerToken)
	model, err := compute.LoadModel("qwen3-30b-a3b")
	require.NoError(t, err)
	require.Equal(t, 2*(48+2), kvPieces(model, 2))
	mla, err := compute.LoadModel("deepseek-v3")
	require.NoError(t, err)
	require.Equal(t, 61+1, kvPieces(mla, 1))

	s, err := scenarios.Load("qwen3-30b-a3b-h20", "model.activations=fp8")
	require.NoError(t, err)
	_, err = Build(s)
	require.ErrorContains(t, err, "model.activations: fp8 needs fp8 weights, and they are bf16")
}

// A run says when settings of drafts had nothing to act on, and when a fabric was
// not used.
func TestNotesOnDraftsAndTiming(t *testing.T) {
	notes := func(set ...string) string {
		s, err := scenarios.Load("qwen3-30b-a3b-h20", append(set, "workload.requests=4")...)
		require.NoError(t, err)
		b, err := Build(s)
		require.NoError(t, err)
		r, err := b.Run(context.Background(), nil)
		require.NoError(t, err)
		return strings.Join(r.Notes, "\n")
	}
	plain := notes()
	require.NotContains(t, plain, "mtp")
	require.NotContains(t, plain, "measured")
	require.Contains(t, notes("decode.mtp.acceptance=0.9"), "nothing was drafted")
	require.NotContains(t, notes("decode.mtp.query_tokens=2"), "nothing was drafted")
	require.Contains(t, notes("decode.mtp.query_tokens=2"), "qwen3-30b-a3b has no module that drafts tokens: layers of its own kind stand for one, 1 per draft.")
	require.NotContains(t, notes("decode.mtp.query_tokens=2", "decode.mtp.layers_per_draft=0"), "no module that drafts")
	require.NotContains(t, notes(), "KV heads")
	require.Contains(t, notes("prefill.tp=8", "prefill.instances=1", "cluster.nodes=2"),
		"prefill: qwen3-30b-a3b has 4 KV heads, so at TP8 each is held by 2 GPUs; memory and KV transfers count every copy.")
	require.Contains(t, notes("decode.moe.timing=measured", "decode.moe.measured_dispatch={fixed: 1us, per_token: 1ns}",
		"decode.moe.measured_combine={fixed: 1us, per_token: 1ns}"), "decode.moe.timing measured: ")
}
