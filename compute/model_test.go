package compute

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// counts are exact figures of a model: parameters in all, parameters that one
// token uses, with and without the input embedding, parameters of one attention
// layer (its norms included) and of one routed expert, and KV elements per
// token.
type counts struct {
	Total     int64 `json:"total"`
	Active    int64 `json:"active"`
	NoEmb     int64 `json:"active_noemb"`
	AttnLayer int64 `json:"attn_layer"`
	Expert    int64 `json:"expert"`
	KV        int64 `json:"kv_elems"`
	KVBF16    int64 `json:"kv_bf16"`
	KVFP8     int64 `json:"kv_fp8"`
}

func countsOf(m *Model) counts {
	linear, vectors, norms := m.attentionWeights()
	c := counts{
		Total: m.TotalParameters(), Active: m.ActiveParameters(), AttnLayer: linear + vectors + norms,
		NoEmb: m.ActiveParameters() - m.Weights().Embedding,
		KV:    m.KVElements(), KVBF16: m.KVBytesPerToken(BF16), KVFP8: m.KVBytesPerToken(FP8),
	}
	if m.MoE != nil {
		c.Expert = m.mlpWeights(m.MoE.Intermediate)
	}
	return c
}

// The figures were computed from each model's config.json by a program of its
// own. DeepSeek publishes 671 B and 37 B, Qwen 30.5 B and 3.3 B.
var exactCounts = map[string]counts{
	"DeepSeek-R1":     {671026419200, 37552297472, 36625618432, 187107328, 44040192, 35136, 70272, 35136},
	"DeepSeek-V3":     {671026419200, 37552297472, 36625618432, 187107328, 44040192, 35136, 70272, 35136},
	"Llama-3.1-70B":   {70553706496, 70553706496, 69503033344, 150994944, 0, 163840, 327680, 163840},
	"Llama-3.1-8B":    {8030261248, 8030261248, 7504924672, 41943040, 0, 65536, 131072, 65536},
	"Mixtral-8x7B":    {46702792704, 12879925248, 12748853248, 41943040, 176160768, 65536, 131072, 65536},
	"Qwen3-235B-A22B": {235093634560, 22190763520, 21568433664, 71303424, 18874368, 96256, 192512, 96256},
	"Qwen3-30B-A3B":   {30532122624, 3353032704, 3041867776, 18874624, 4718592, 49152, 98304, 49152},
	"Qwen3-8B":        {8190735360, 8190735360, 7568405504, 41943296, 0, 73728, 147456, 73728},
}

func TestParameterAndKVCounts(t *testing.T) {
	for name, want := range exactCounts {
		m, err := LoadModel(name)
		require.NoError(t, err)
		require.Equal(t, want, countsOf(m), name)
	}
}

func TestCountsOfTheReference(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "shared", "reference", "models.json"))
	if err != nil {
		t.Skip("the reference counts are not beside the project: ", err)
	}
	var reference struct {
		Models map[string]counts `json:"models"`
	}
	require.NoError(t, json.Unmarshal(data, &reference))
	require.NotEmpty(t, reference.Models)
	for name, want := range reference.Models {
		m, err := LoadModel(name)
		require.NoError(t, err)
		require.Equal(t, want, countsOf(m), name)
	}
}

// A second count: every matrix of one DeepSeek-V3 and one Qwen3-8B layer,
// written out by the shapes in their checkpoints.
func TestWeightsByMatrix(t *testing.T) {
	m, err := LoadModel("DeepSeek-V3")
	require.NoError(t, err)
	w := m.Weights()
	attention := int64(7168*1536 + 1536*(128*192) + 7168*(512+64) + 512*(128*256) + (128*128)*7168)
	require.Equal(t, 61*attention, w.Attention)
	require.Equal(t, int64(3*3*7168*18432), w.Dense)
	require.Equal(t, int64(58*3*7168*2048), w.Shared)
	require.Equal(t, int64(58*256*3*7168*2048), w.Experts)
	require.Equal(t, int64(58*(256*7168+256)), w.Router)
	require.Equal(t, int64(61*(1536+512+2*7168)+7168), w.Norms)
	require.Equal(t, int64(129280*7168), w.Embedding)
	require.Equal(t, w.Embedding, w.Head)

	m, err = LoadModel("Qwen3-8B")
	require.NoError(t, err)
	w = m.Weights()
	require.Equal(t, int64(36*(4096*4096+2*4096*1024+4096*4096)), w.Attention)
	require.Equal(t, int64(36*3*4096*12288), w.Dense)
	require.Zero(t, w.Experts+w.Shared+w.Router)

	m.TiedEmbeddings = true
	require.Equal(t, w.Total()-w.Embedding, m.TotalParameters())
}

func TestLoadModelByName(t *testing.T) {
	require.Equal(t, []string{
		"DeepSeek-R1", "DeepSeek-V2", "DeepSeek-V2-Lite", "DeepSeek-V3", "DeepSeek-V3.1", "GLM-4.5", "GLM-4.5-Air",
		"Kimi-K2", "Llama-3.1-405B", "Llama-3.1-70B", "Llama-3.1-8B", "Mixtral-8x22B", "Mixtral-8x7B",
		"Qwen2.5-72B", "Qwen2.5-7B", "Qwen3-14B", "Qwen3-235B-A22B", "Qwen3-30B-A3B", "Qwen3-32B", "Qwen3-8B",
		"gpt-oss-120b", "gpt-oss-20b",
	}, Models())
	for _, name := range []string{"DeepSeek-V3", "deepseek-v3", "DEEPSEEK-V3", "deepseek-ai/DeepSeek-V3"} {
		m, err := LoadModel(name)
		require.NoError(t, err, name)
		require.Equal(t, "DeepSeek-V3", m.Name)
	}
	m, err := LoadModel("meta-llama/meta-llama-3.1-70b")
	require.NoError(t, err)
	require.Equal(t, "Llama-3.1-70B", m.Name)

	_, err = LoadModel("deepseek-v4")
	require.ErrorContains(t, err, `"deepseek-v4" is not a known model`)
	require.ErrorContains(t, err, "did you mean DeepSeek-V")
	_, err = LoadModel("qwen3-30b-a3")
	require.ErrorContains(t, err, "did you mean Qwen3-30B-A3B?")
	_, err = LoadModel("")
	require.Error(t, err)
	_, err = LoadModel("somebody/DeepSeek-V3")
	require.Error(t, err, "another owner's model of the same name is another model")
}

// A file is named as its model in lower case: LoadModel relies on it.
func TestCatalogueFilesAreNamedByContent(t *testing.T) {
	for _, c := range []struct {
		dir   string
		names []string
	}{{"models", Models()}, {"profiles", Profiles()}} {
		entries, err := os.ReadDir(c.dir)
		require.NoError(t, err)
		var files, want []string
		for _, e := range entries {
			files = append(files, e.Name())
		}
		for _, n := range c.names {
			want = append(want, strings.ToLower(n)+".yaml")
		}
		require.ElementsMatch(t, want, files)
	}
}

const smallModel = `
name: Tiny
layers: 2
hidden: 64
vocab: 1000
checkpoint: bf16
attention: {kind: gqa, heads: 4, kv_heads: 2, head_dim: 16}
intermediate: 128
`

func TestReadModelIsStrict(t *testing.T) {
	m, err := ReadModel([]byte(smallModel))
	require.NoError(t, err)
	// Embedding and head, then per layer q, k, v, o, the MLP and two norms.
	layer := int64(64*64+2*64*32+64*64) + 3*64*128 + 2*64
	require.Equal(t, 2*1000*64+2*layer+64, m.TotalParameters())

	for _, c := range []struct{ old, new, want string }{
		{"layers:", "lairs:", "lairs"},
		{"heads: 4", "head: 4", "head"},
		{"layers: 2", "layers: 0", "layers: must be from 1 to 1024, not 0"},
		{"layers: 2", "layers: two", "two"},
		{"kv_heads: 2", "kv_heads: 3", "attention.kv_heads: must divide heads (4), not 3"},
		{"kind: gqa", "kind: mha", `attention.kind: must be gqa or mla, not "mha"`},
		{"kind: gqa", "kind: mla", "attention.kv_lora_rank: must be from 1"},
		{"checkpoint: bf16", "checkpoint: int4", `"int4" is not a number format: write checkpoint, bf16, fp8 or mxfp4`},
		{"checkpoint: bf16", "checkpoint: checkpoint", "checkpoint: must be bf16 or fp8"},
		{"checkpoint: bf16", "checkpoint: mxfp4", "checkpoint: must be bf16 or fp8, not mxfp4"},
		{"checkpoint: bf16", "checkpoint: bf16\nexpert_checkpoint: mxfp4", "expert_checkpoint: is set, but the model has no experts"},
		{"head_dim: 16", "head_dim: 16, rotary_dim: 17", "attention.rotary_dim: must be from 0 to 16, not 17"},
		{"head_dim: 16", "head_dim: 16, window: 128", "attention.window: must be from 0 to 0, not 128"},
		{"head_dim: 16", "head_dim: 16, windowed_layers: 1", "attention.window: must be from 1 to"},
		{"head_dim: 16", "head_dim: 16, window: 8, windowed_layers: 3", "attention.windowed_layers: must be from 0 to 2, not 3"},
		{"hidden: 64", "hidden: 1048576\nmoe: {experts: 65536, top_k: 9, intermediate: 1048576, groups: 1, top_groups: 1}", "has about 4.3e+17 parameters: at most 1e+15 can be counted"},
		{"intermediate: 128", "", "intermediate: must be from 1"},
		{"name: Tiny", "", "name: is missing"},
		{"intermediate: 128", "moe: {experts: 8, top_k: 9, intermediate: 32, groups: 3, top_groups: 1}", "moe.top_k: must be from 1 to 8, not 9"},
		{"intermediate: 128", "moe: {experts: 8, top_k: 2, intermediate: 32, groups: 3, top_groups: 1}", "moe.groups: must divide experts (8), not 3"},
		{"intermediate: 128", "intermediate: 128\n---\nname: Two", "more than one document"},
	} {
		_, err := ReadModel([]byte(strings.Replace(smallModel, c.old, c.new, 1)))
		require.ErrorContains(t, err, c.want, c.new)
	}
	_, err = ReadModel(nil)
	require.ErrorContains(t, err, "empty")
}

func FuzzReadModel(f *testing.F) {
	f.Add([]byte(smallModel))
	for _, name := range Models() {
		data, err := modelFiles.ReadFile("models/" + strings.ToLower(name) + ".yaml")
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ReadModel(data)
		if err != nil {
			return
		}
		timed(t, m)
	})
}

// timed puts a model that was accepted on a GPU with memory enough, and times it.
func timed(t *testing.T, m *Model) {
	gpu, err := LoadProfile("H800")
	require.NoError(t, err)
	gpu.Memory.Value = 1 << 60
	if m.TotalParameters() < m.ActiveParameters() || m.ActiveParameters() <= 0 || m.KVElements() <= 0 {
		t.Fatalf("%d parameters, %d active, %d KV elements", m.TotalParameters(), m.ActiveParameters(), m.KVElements())
	}
	r, err := NewRank(Setup{GPU: gpu, Model: m})
	if err != nil {
		t.Skip(err)
	}
	for _, l := range []LayerTimes{r.Prefill([]Chunk{{100, 7}}), r.Decode(3, 300, 2)} {
		if l.AttnIn <= 0 || l.AttnOut <= 0 || l.Head <= 0 || l.Shared < 0 || l.DenseMLP < 0 {
			t.Fatalf("times %+v", l)
		}
	}
	if (r.Experts(true, 64, 1) > 0) != (r.MoELayers() > 0) {
		t.Fatal("experts take no time")
	}
}
