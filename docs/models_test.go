package docs

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/compute"
)

// published is what a model's authors say of its size, and what the total was
// compared to.
var published = map[string][2]string{
	"DeepSeek-R1":      {"671B-A37B¹", "structure"},
	"DeepSeek-V2":      {"236B-A21B¹, arXiv 2405.04434", "tensors"},
	"DeepSeek-V2-Lite": {"15.7B-A2.4B¹, arXiv 2405.04434", "tensors"},
	"DeepSeek-V3":      {"671B-A37B¹, arXiv 2412.19437", "structure"},
	"DeepSeek-V3.1":    {"671B-A37B¹", "structure"},
	"GLM-4.5":          {"355B-A32B¹, arXiv 2508.06471", "tensors, less the MTP module's"},
	"GLM-4.5-Air":      {"106B-A12B¹, arXiv 2508.06471", "tensors, less the MTP module's"},
	"Kimi-K2":          {"1T-A32B¹, arXiv 2507.20534", "tensors"},
	"Llama-3.1-405B":   {"405B, arXiv 2407.21783", "tensors"},
	"Llama-3.1-70B":    {"70.6B", "tensors"},
	"Llama-3.1-8B":     {"8.03B", "tensors"},
	"Mixtral-8x22B":    {"141B-A39B", "tensors"},
	"Mixtral-8x7B":     {"47B-A13B, arXiv 2401.04088", "tensors"},
	"Qwen2.5-72B":      {"72.7B, arXiv 2412.15115", "tensors"},
	"Qwen2.5-7B":       {"7.61B", "tensors"},
	"Qwen3-14B":        {"14.8B, arXiv 2505.09388", "tensors"},
	"Qwen3-235B-A22B":  {"235B-A22B, arXiv 2505.09388", "tensors"},
	"Qwen3-30B-A3B":    {"30.5B-A3.3B", "tensors"},
	"Qwen3-32B":        {"32.8B", "tensors"},
	"Qwen3-8B":         {"8.2B", "tensors"},
	"gpt-oss-120b":     {"116.83B-A5.13B¹, arXiv 2508.10925", "tensors"},
	"gpt-oss-20b":      {"20.91B-A3.61B¹, arXiv 2508.10925", "tensors"},
}

func TestModels(t *testing.T) {
	check(t, "models.md", []table{{name: "catalogue", make: catalogue}})
}

func catalogue(t *testing.T) string {
	r := newRows("model", "architecture", "layers", "parameters", "active", "KV B/token", "checkpoint", "published", "exact against")
	require.Len(t, published, len(compute.Models()))
	for _, name := range compute.Models() {
		m, err := compute.LoadModel(name)
		require.NoError(t, err)
		p, ok := published[name]
		require.True(t, ok, name)
		r.row(fmt.Sprintf("[%s](https://huggingface.co/%s)", name, m.HuggingFace), m.Architecture, strconv.Itoa(m.Layers),
			thousands(m.TotalParameters()), thousands(m.ActiveParameters()),
			thousands(m.KVBytesPerToken(compute.BF16)), m.Format(), p[0], p[1])
	}
	return r.String() + "\n¹ Active parameters without the input embedding.\n"
}

// thousands groups the digits of n by commas.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
