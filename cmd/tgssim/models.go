package main

import (
	"fmt"
	"strconv"

	"github.com/tgssim/tgssim/compute"
)

// model prints what is understood of a model, and what is not.
func (p *printer) model(m *compute.Model) {
	p.line("structure %s", m.Summary())
	for _, note := range m.Notes {
		p.line("note      %s", note)
	}
}

// replicas says that a rank of tp GPUs holds its KV more than once.
func (p *printer) replicas(m *compute.Model, tp int, r *compute.Rank) {
	n := r.Memory().KVReplicas
	switch {
	case n == 1:
	case m.Attention.Kind == compute.MLA:
		p.line("          the KV latent at TP%d: held by all %d GPUs, KV per GPU x%d", tp, n, n)
	default:
		p.line("          KV heads %d, TP%d: each held %s, KV per GPU x%d", m.Attention.KVHeads, tp, times(n), n)
	}
}

func times(n int) string {
	if n == 2 {
		return "twice"
	}
	return strconv.Itoa(n) + " times"
}

type modelRow struct {
	Name             string `json:"name"`
	HuggingFace      string `json:"hugging_face"`
	Architecture     string `json:"architecture"`
	Attention        string `json:"attention"`
	Layers           int    `json:"layers"`
	DenseLayers      int    `json:"dense_layers"`
	Heads            int    `json:"heads"`
	KVHeads          int    `json:"kv_heads,omitempty"`
	Window           int    `json:"window,omitempty"`
	WindowedLayers   int    `json:"windowed_layers,omitempty"`
	Experts          int    `json:"experts"`
	TopK             int    `json:"top_k"`
	SharedExperts    int    `json:"shared_experts"`
	MTPLayers        int    `json:"mtp_layers"`
	Parameters       int64  `json:"parameters"`
	ActiveParameters int64  `json:"active_parameters"`
	KVBytesBF16      int64  `json:"kv_bytes_per_token_bf16"`
	KVBytesFP8       int64  `json:"kv_bytes_per_token_fp8"`
	Checkpoint       string `json:"checkpoint"`
}

func listModels() (listing, error) {
	l := listing{
		header: []string{"model", "kind", "layers", "experts", "parameters", "active", "KV B/token (bf16)", "checkpoint", "source: config.json of"},
		notes: []string{
			"GQA 64/8 has 64 query heads over 8 KV heads; TP above the KV heads holds each more than once, and MLA's latent is held by every GPU.",
			"Parameters are without MTP modules and scale factors; active ones are with the input embedding.",
			"Any other model of these architectures: `--set model.name=path/to/config.json`.",
		},
	}
	var data []modelRow
	for _, name := range compute.Models() {
		m, err := compute.LoadModel(name)
		if err != nil {
			return l, err
		}
		a := &m.Attention
		row := modelRow{
			Name: m.Name, HuggingFace: m.HuggingFace, Architecture: m.Architecture,
			Attention: "GQA", Layers: m.Layers, DenseLayers: m.DenseLayers(), Heads: a.Heads, KVHeads: a.KVHeads,
			Window: a.Window, WindowedLayers: a.WindowedLayers, MTPLayers: m.MTPLayers,
			Parameters: m.TotalParameters(), ActiveParameters: m.ActiveParameters(),
			KVBytesBF16: m.KVBytesPerToken(compute.BF16), KVBytesFP8: m.KVBytesPerToken(compute.FP8), Checkpoint: m.Format(),
		}
		kind := fmt.Sprintf("GQA %d/%d", a.Heads, a.KVHeads)
		if a.Kind == compute.MLA {
			row.Attention, kind = "MLA", fmt.Sprintf("MLA %d", a.Heads)
		}
		experts := "dense"
		if m.MoE != nil {
			row.Experts, row.TopK, row.SharedExperts = m.MoE.Experts, m.MoE.TopK, m.MoE.SharedExperts
			experts = fmt.Sprintf("top %d of %d", row.TopK, row.Experts)
			if row.SharedExperts > 0 {
				experts += fmt.Sprintf(" + %d shared", row.SharedExperts)
			}
		}
		data = append(data, row)
		l.rows = append(l.rows, []string{
			row.Name, kind, strconv.Itoa(row.Layers), experts, billions(row.Parameters), billions(row.ActiveParameters),
			strconv.FormatInt(row.KVBytesBF16, 10), row.Checkpoint, row.HuggingFace,
		})
	}
	l.data = data
	return l, nil
}

func billions(n int64) string { return strconv.FormatFloat(float64(n)/1e9, 'f', 2, 64) + " B" }
