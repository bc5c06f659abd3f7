package compute

import (
	"fmt"
	"strconv"
	"strings"
)

// Summary says in a line what is understood of the model: architecture, layers,
// attention, experts, parameters, KV and formats.
func (m *Model) Summary() string {
	parts := []string{fmt.Sprintf("%d layers of %d", m.Layers, m.Hidden), m.Attention.String()}
	if m.Architecture != "" {
		parts[0] = m.Architecture + ", " + parts[0]
	}
	parts = append(parts, m.Experts())
	total := fmt.Sprintf("%s parameters", billions(m.TotalParameters()))
	if m.MoE != nil {
		total += fmt.Sprintf(", %s active", billions(m.ActiveParameters()))
	}
	if m.TiedEmbeddings {
		total += ", tied embeddings"
	}
	if m.MTPLayers > 0 {
		total += fmt.Sprintf(", without %s", plural(m.MTPLayers, "MTP module"))
	}
	parts = append(parts, total, fmt.Sprintf("KV %d B/token (bf16)", m.KVBytesPerToken(BF16)), m.Format()+" checkpoint")
	return strings.Join(parts, "; ")
}

// String describes the attention: "GQA of 64 heads over 8 KV heads of 128".
func (a *Attention) String() string {
	var s string
	if a.Kind == MLA {
		s = fmt.Sprintf("MLA of %d heads, latent %d + %d", a.Heads, a.KVLoraRank, a.QKRopeHeadDim)
	} else {
		s = fmt.Sprintf("GQA of %d heads over %s of %d", a.Heads, plural(a.KVHeads, "KV head"), a.HeadDim)
	}
	if a.QKNorm {
		s += ", QK norm"
	}
	switch {
	case a.QKVBias && a.OutBias:
		s += ", biases"
	case a.QKVBias:
		s += ", QKV biases"
	case a.OutBias:
		s += ", output bias"
	}
	if a.Sinks {
		s += ", sinks"
	}
	if a.WindowedLayers > 0 {
		s += fmt.Sprintf(", window of %d in %s", a.Window, plural(a.WindowedLayers, "layer"))
	}
	return s
}

// Experts describes the MLPs: "top 8 of 256 experts + 1 shared, 3 dense layers",
// or "dense".
func (m *Model) Experts() string {
	e := m.MoE
	if e == nil {
		return "dense"
	}
	s := fmt.Sprintf("top %d of %d experts", e.TopK, e.Experts)
	if e.SharedExperts > 0 {
		s += fmt.Sprintf(" + %d shared", e.SharedExperts)
	}
	if e.FirstDense > 0 {
		s += ", " + plural(e.FirstDense, "dense layer")
	}
	return s
}

// Format is the format of the checkpoint's weights: "bf16", or "bf16, experts
// mxfp4".
func (m *Model) Format() string {
	if m.ExpertCheckpoint == AsCheckpoint || m.ExpertCheckpoint == m.Checkpoint {
		return m.Checkpoint.String()
	}
	return fmt.Sprintf("%v, experts %v", m.Checkpoint, m.ExpertCheckpoint)
}

// billions prints a number of parameters in billions, or in millions when it is
// less than one.
func billions(n int64) string {
	if n < 1e9 {
		return strconv.FormatFloat(float64(n)/1e6, 'f', 2, 64) + " M"
	}
	return strconv.FormatFloat(float64(n)/1e9, 'f', 2, 64) + " B"
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
