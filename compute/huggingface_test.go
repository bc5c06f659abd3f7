package compute

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/internal/config"
	_ "github.com/tgssim/tgssim/internal/testkit" // the same draws in every run
)

// hfCase is a config.json in testdata/hf, which holds the structure of a
// published model, with its known figures.
type hfCase struct {
	file    string
	layers  int
	experts int
	total   int64 // main model: without MTP modules and quantisation scales
	active  int64 // input embedding included
	kv      int64 // bytes per token in bf16
	// published is total and active as published, in billions or trillions, with
	// as many digits as are significant, or empty where it is not comparable; noEmbedding is true when the published active
	// count leaves the input embedding out.
	published, publishedActive string
	noEmbedding                bool
	// source says where total is from: "tensors" is the sum over the tensors of
	// the published safetensors, as their model page counts it; "structure" is
	// the sum over the tensors that the modelling code makes (below), where the
	// published files hold more (scales, MTP modules, tied heads).
	source string
}

var hfCases = []hfCase{
	// Published: arXiv 2412.19437 (671B-A37B); DeepSeek-V3.1's and R1's pages.
	{"deepseek-v3", 61, 256, 671026419200, 37552297472, 70272, "671", "37", true, "structure"},
	{"deepseek-v3.1", 61, 256, 671026419200, 37552297472, 70272, "671", "37", true, "structure"},
	{"deepseek-r1", 61, 256, 671026419200, 37552297472, 70272, "671", "37", true, "structure"},
	// arXiv 2405.04434: 236B-A21B; Lite 15.7B-A2.4B, section B.1.
	{"deepseek-v2", 60, 160, 235741434880, 21375800320, 69120, "236", "21", true, "tensors"},
	{"deepseek-v2-lite", 27, 64, 15706484224, 2661150208, 31104, "15.7", "2.4", true, "tensors"},
	// arXiv 2507.20534: 1.04T-A32.6B there, 1T-A32B on the page. The logical
	// parameters of the published tensors are the total exactly.
	{"kimi-k2", 61, 384, 1026408232448, 32861500928, 70272, "1.0T", "32", true, "tensors"},
	// arXiv 2508.06471: 355B-A32B and 106B-A12B. The tensors with the MTP module
	// are 358,337,791,296 and 110,468,824,832: see TestGLMWithMTP. 355B is neither
	// these nor these without the module; 0.6 % off, it is not compared.
	{"glm-4.5", 92, 160, 352797829024, 33632266144, 376832, "", "32", true, "tensors less MTP"},
	{"glm-4.5-air", 46, 128, 106852251264, 13424129664, 188416, "106", "12", true, "tensors less MTP"},
	// arXiv 2508.10925, table 1: 20.91B-A3.61B and 116.83B-A5.13B, without the
	// input embedding.
	{"gpt-oss-20b", 24, 32, 20914757184, 4187440704, 49152, "20.91", "3.61", true, "tensors"},
	{"gpt-oss-120b", 36, 128, 116829156672, 5711982912, 73728, "116.83", "5.13", true, "tensors"},
	// arXiv 2505.09388, tables 1 and 2.
	{"qwen3-235b-a22b", 94, 128, 235093634560, 22190763520, 192512, "235", "22", true, "tensors"},
	{"qwen3-30b-a3b", 48, 128, 30532122624, 3353032704, 98304, "30.5", "3.3", false, "tensors"},
	{"qwen3-coder-480b-a35b", 62, 160, 480154875392, 35474765312, 253952, "480", "35", false, "tensors"},
	{"qwen3-32b", 64, 0, 32762123264, 32762123264, 262144, "32.8", "32.8", false, "tensors"},
	{"qwen3-14b", 40, 0, 14768307200, 14768307200, 163840, "14.8", "14.8", false, "tensors"},
	{"qwen3-8b", 36, 0, 8190735360, 8190735360, 147456, "8.2", "8.2", false, "tensors"},
	{"qwen3-8b-fp8", 36, 0, 8190735360, 8190735360, 147456, "8.2", "8.2", false, "structure"},
	{"qwen3-0.6b", 28, 0, 596049920, 596049920, 114688, "0.6", "0.6", false, "structure"},
	// arXiv 2412.15115 and the models' pages: 72.7B, 7.61B, 0.49B.
	{"qwen2.5-72b", 80, 0, 72706203648, 72706203648, 327680, "72.7", "72.7", false, "tensors"},
	{"qwen2.5-7b", 28, 0, 7615616512, 7615616512, 57344, "7.61", "7.61", false, "tensors"},
	{"qwen2.5-0.5b", 24, 0, 494032768, 494032768, 12288, "0.49", "0.49", false, "tensors"},
	// arXiv 2401.04088: 47B-A13B; the page of 8x22B: 141B-A39B.
	{"mixtral-8x7b", 32, 8, 46702792704, 12879925248, 131072, "47", "13", false, "tensors"},
	{"mixtral-8x22b", 56, 8, 140620634112, 39152031744, 229376, "141", "39", false, "tensors"},
	// arXiv 2310.06825.
	{"mistral-7b-v0.1", 32, 0, 7241732096, 7241732096, 131072, "7", "7", false, "tensors"},
	// arXiv 2407.21783, table 3, and the models' pages.
	{"llama-3.1-405b", 126, 0, 405853388800, 405853388800, 516096, "405", "405", false, "tensors"},
	{"llama-3.1-70b", 80, 0, 70553706496, 70553706496, 327680, "70.6", "70.6", false, "tensors"},
	{"llama-3.1-8b", 32, 0, 8030261248, 8030261248, 131072, "8.03", "8.03", false, "tensors"},
	{"llama-3.2-1b", 16, 0, 1235814400, 1235814400, 32768, "1.24", "1.24", false, "tensors"},
}

func hfFile(name string) string { return filepath.Join("testdata", "hf", name+".json") }

func openHF(file string) (*Model, error) {
	m, _, err := OpenModel(file)
	return m, err
}

func hfText(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(hfFile(name))
	require.NoError(t, err)
	return data
}

// near tells whether n is the published figure to its last digit; some authors
// cut the rest off instead of rounding.
func near(t *testing.T, n int64, published string) bool {
	t.Helper()
	if published == "" {
		return true
	}
	unit := 1e9
	if strings.HasSuffix(published, "T") {
		published, unit = strings.TrimSuffix(published, "T"), 1e12
	}
	value, err := strconv.ParseFloat(published, 64)
	require.NoError(t, err)
	digits := 0
	if _, fraction, ok := strings.Cut(published, "."); ok {
		digits = len(fraction)
	}
	return math.Abs(float64(n)/unit-value) < math.Pow(10, -float64(digits))
}

func TestHuggingFaceCounts(t *testing.T) {
	files, err := filepath.Glob(hfFile("*"))
	require.NoError(t, err)
	require.Len(t, hfCases, len(files), "every file is in the table")
	for _, c := range hfCases {
		m, err := openHF(hfFile(c.file))
		require.NoError(t, err, c.file)
		require.Equal(t, c.file, m.Name)
		require.Empty(t, m.Notes, c.file)
		require.Equal(t, c.layers, m.Layers, c.file)
		experts := 0
		if m.MoE != nil {
			experts = m.MoE.Experts
		}
		require.Equal(t, c.experts, experts, c.file)
		require.Equal(t, c.total, m.TotalParameters(), c.file)
		require.Equal(t, c.active, m.ActiveParameters(), c.file)
		require.Equal(t, c.kv, m.KVBytesPerToken(BF16), c.file)
		require.Equal(t, c.kv, 2*m.KVBytesPerToken(FP8), c.file)

		active := m.ActiveParameters()
		if c.noEmbedding {
			active -= m.Weights().Embedding
		}
		require.True(t, near(t, m.TotalParameters(), c.published), "%s: %d is not %s", c.file, m.TotalParameters(), c.published)
		require.True(t, near(t, active, c.publishedActive), "%s: %d is not %s", c.file, active, c.publishedActive)
	}
}

// The catalogue has what the config.json of each of its models says.
func TestCatalogueIsTheHuggingFaceStructure(t *testing.T) {
	for _, name := range Models() {
		want, err := LoadModel(name)
		require.NoError(t, err)
		require.NotEmpty(t, want.HuggingFace, name)
		got, err := openHF(hfFile(strings.ToLower(name)))
		require.NoError(t, err)
		got.Name, got.HuggingFace = want.Name, want.HuggingFace
		require.Equal(t, want, got, name)
	}
}

// tensors counts a model's parameters a second time: it adds up the tensors of
// a checkpoint, by the shapes that the modelling code of transformers gives
// them, straight from the keys of config.json.
func tensors(t *testing.T, data []byte) (total int64) {
	var c struct {
		Architectures []string

		L       int64  `json:"num_hidden_layers"`
		H       int64  `json:"hidden_size"`
		V       int64  `json:"vocab_size"`
		I       int64  `json:"intermediate_size"`
		Heads   int64  `json:"num_attention_heads"`
		KVHeads int64  `json:"num_key_value_heads"`
		HeadDim int64  `json:"head_dim"`
		Q       int64  `json:"q_lora_rank"`
		KV      int64  `json:"kv_lora_rank"`
		Nope    int64  `json:"qk_nope_head_dim"`
		Rope    int64  `json:"qk_rope_head_dim"`
		Value   int64  `json:"v_head_dim"`
		Tied    bool   `json:"tie_word_embeddings"`
		QKNorm  bool   `json:"use_qk_norm"`
		E1      int64  `json:"n_routed_experts"`
		E2      int64  `json:"num_experts"`
		E3      int64  `json:"num_local_experts"`
		Shared  int64  `json:"n_shared_experts"`
		MI      int64  `json:"moe_intermediate_size"`
		First   int64  `json:"first_k_dense_replace"`
		Topk    string `json:"topk_method"`
	}
	require.NoError(t, json.Unmarshal(data, &c))
	add := func(shape ...int64) {
		n := int64(1)
		for _, d := range shape {
			n *= d
		}
		total += n
	}
	gated := func(width int64) {
		add(width, c.H) // gate_proj.weight
		add(width, c.H) // up_proj.weight
		add(c.H, width) // down_proj.weight
	}
	arch := c.Architectures[0]
	is := func(names ...string) bool {
		for _, n := range names {
			if strings.HasPrefix(arch, n) {
				return true
			}
		}
		return false
	}
	if c.HeadDim == 0 {
		c.HeadDim = c.H / c.Heads
	}
	experts := c.E1 + c.E2 + c.E3
	add(c.V, c.H) // model.embed_tokens.weight
	if !c.Tied {
		add(c.V, c.H) // lm_head.weight
	}
	add(c.H) // model.norm.weight
	for layer := range c.L {
		add(c.H) // input_layernorm.weight
		add(c.H) // post_attention_layernorm.weight
		q, k := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
		switch {
		case is("Deepseek"):
			if c.Q > 0 {
				add(c.Q, c.H)                     // q_a_proj.weight
				add(c.Q)                          // q_a_layernorm.weight
				add(c.Heads*(c.Nope+c.Rope), c.Q) // q_b_proj.weight
			} else {
				add(c.Heads*(c.Nope+c.Rope), c.H) // q_proj.weight
			}
			add(c.KV+c.Rope, c.H)               // kv_a_proj_with_mqa.weight
			add(c.KV)                           // kv_a_layernorm.weight
			add(c.Heads*(c.Nope+c.Value), c.KV) // kv_b_proj.weight
			add(c.H, c.Heads*c.Value)           // o_proj.weight
		default:
			add(q, c.H) // q_proj.weight
			add(k, c.H) // k_proj.weight
			add(k, c.H) // v_proj.weight
			add(c.H, q) // o_proj.weight
			if is("Qwen2", "Glm4", "GptOss") {
				add(q) // q_proj.bias
				add(k) // k_proj.bias
				add(k) // v_proj.bias
			}
			if is("GptOss") {
				add(c.H)     // o_proj.bias
				add(c.Heads) // sinks
			}
			if is("Qwen3") || c.QKNorm {
				add(c.HeadDim) // q_norm.weight
				add(c.HeadDim) // k_norm.weight
			}
		}
		switch {
		case experts == 0 || layer < c.First:
			gated(c.I)
		case is("GptOss"):
			add(experts, c.H)        // router.weight
			add(experts)             // router.bias
			add(experts, c.H, 2*c.I) // experts.gate_up_proj
			add(experts, 2*c.I)      // experts.gate_up_proj_bias
			add(experts, c.I, c.H)   // experts.down_proj
			add(experts, c.H)        // experts.down_proj_bias
		default:
			add(experts, c.H) // gate.weight
			if is("Glm4") || c.Topk == "noaux_tc" {
				add(experts) // gate.e_score_correction_bias
			}
			width := c.MI
			if is("Mixtral") {
				width = c.I
			}
			for range experts {
				gated(width)
			}
			gated(c.Shared * width) // shared_experts
		}
	}
	return total
}

func TestHuggingFaceCountsByTensor(t *testing.T) {
	for _, c := range hfCases {
		require.Equal(t, c.total, tensors(t, hfText(t, c.file)), c.file)
	}
}

// GLM-4.5's published tensors are the model's and those of the MTP module: a MoE
// layer, the projection of embedding and hidden state, three norms, and an
// embedding and head of its own.
func TestGLMWithMTP(t *testing.T) {
	for name, want := range map[string]int64{"GLM-4.5": 358337791296, "GLM-4.5-Air": 110468824832} {
		m, err := LoadModel(name)
		require.NoError(t, err)
		deeper := *m
		deeper.Layers++
		h, layer := int64(m.Hidden), deeper.TotalParameters()-m.TotalParameters()
		require.Equal(t, want, m.TotalParameters()+layer+2*h*h+3*h+2*m.Weights().Embedding, name)
	}
}

// The checkpoint of gpt-oss-120b has 60.8 GiB and that of 20b 12.8 GiB
// (arXiv 2508.10925, section 2.1): experts at 4.25 bits, the rest in bf16.
func TestMemoryOfMXFP4(t *testing.T) {
	for name, gib := range map[string]float64{"gpt-oss-120b": 60.8, "gpt-oss-20b": 12.8} {
		r := newTarget(t, "H800", name, Setup{})
		require.Equal(t, MXFP4, r.Setup().ExpertWeights)
		require.Equal(t, BF16, r.Setup().Weights)
		require.InDelta(t, gib, float64(r.Memory().Weights)/(1<<30), 0.06, name)
		w := r.model.Weights()
		biases := r.model.biases().Experts
		require.EqualValues(t, (w.Experts-biases)*17/32+2*biases, r.Memory().Parts.Experts)
	}
	// Formats that are set are of the experts too.
	require.Equal(t, BF16, newTarget(t, "H20", "gpt-oss-20b", Setup{Weights: BF16}).Setup().ExpertWeights)
	require.Equal(t, FP8, newTarget(t, "H20", "gpt-oss-20b", Setup{Weights: FP8}).Setup().ExpertWeights)
}

// edited is a config.json with some keys set, or removed when nil.
func edited(t testing.TB, name string, change map[string]any) []byte {
	t.Helper()
	var c map[string]any
	dec := json.NewDecoder(bytes.NewReader(hfText(t, name)))
	dec.UseNumber()
	require.NoError(t, dec.Decode(&c))
	for k, v := range change {
		if v == nil {
			delete(c, k)
		} else {
			c[k] = v
		}
	}
	out, err := json.Marshal(c)
	require.NoError(t, err)
	return out
}

// null is JSON's, where nil removes a key.
var null = json.RawMessage("null")

func readEdited(t testing.TB, name string, change map[string]any) (*Model, error) {
	t.Helper()
	return ReadHuggingFace("x/config.json", edited(t, name, change))
}

// What a config.json may say in more than one way, or leave out.
func TestHuggingFaceDefaults(t *testing.T) {
	read := func(name string, change map[string]any) *Model {
		t.Helper()
		m, err := readEdited(t, name, change)
		require.NoError(t, err)
		require.Equal(t, "x", m.Name)
		return m
	}
	require.Equal(t, 128, read("llama-3.1-8b", nil).Attention.HeadDim)
	require.Equal(t, 32, read("llama-3.1-8b", map[string]any{"num_key_value_heads": nil}).Attention.KVHeads)
	require.Equal(t, 64, read("qwen3-32b", map[string]any{"num_key_value_heads": null}).Attention.KVHeads)
	require.Equal(t, 128, read("qwen3-32b", map[string]any{"head_dim": nil}).Attention.HeadDim, "not hidden over heads")
	require.Equal(t, 64, read("qwen3-30b-a3b", map[string]any{"head_dim": nil}).Attention.HeadDim, "hidden over heads")
	require.False(t, read("llama-3.1-8b", map[string]any{"tie_word_embeddings": nil}).TiedEmbeddings)
	require.True(t, read("llama-3.2-1b", nil).TiedEmbeddings)

	// Biases. attention_bias is of all four projections, of three in GLM.
	a := read("llama-3.1-8b", map[string]any{"attention_bias": true, "mlp_bias": true})
	require.True(t, a.Attention.QKVBias && a.Attention.OutBias && a.MLPBias)
	require.EqualValues(t, 8030261248+32*(4096+2*1024+4096+2*14336+4096), a.TotalParameters())
	a = read("glm-4.5", nil)
	require.True(t, a.Attention.QKVBias && !a.Attention.OutBias)
	a = read("llama-3.1-8b", map[string]any{"qkv_bias": true})
	require.True(t, a.Attention.QKVBias && !a.Attention.OutBias)
	a = read("qwen2.5-7b", map[string]any{"o_bias": true})
	require.True(t, a.Attention.QKVBias && a.Attention.OutBias)
	a = read("deepseek-v3", map[string]any{"attention_bias": true})
	require.EqualValues(t, 671026419200+61*(1536+512+64+7168), a.TotalParameters())
	a = read("gpt-oss-20b", map[string]any{"attention_bias": nil})
	require.True(t, a.Attention.QKVBias && a.Attention.OutBias, "its default is true")

	// Rotary embeddings of a part of the head.
	require.Equal(t, 64, read("glm-4.5", map[string]any{"partial_rotary_factor": nil}).Attention.RotaryDim)
	require.Equal(t, 32, read("glm-4.5", map[string]any{"partial_rotary_factor": nil,
		"rope_parameters": map[string]any{"partial_rotary_factor": 0.25}}).Attention.RotaryDim)
	require.Equal(t, 0, read("glm-4.5", map[string]any{"partial_rotary_factor": 1}).Attention.RotaryDim)
	require.Equal(t, 0, read("qwen3-8b", nil).Attention.RotaryDim)

	// Windows.
	w := func(name string, change map[string]any) [2]int {
		m := read(name, change)
		return [2]int{m.Attention.Window, m.Attention.WindowedLayers}
	}
	require.Equal(t, [2]int{128, 12}, w("gpt-oss-20b", nil))
	require.Equal(t, [2]int{128, 12}, w("gpt-oss-20b", map[string]any{"layer_types": nil}))
	require.Equal(t, [2]int{4096, 32}, w("mistral-7b-v0.1", nil))
	require.Equal(t, [2]int{}, w("mistral-7b-v0.1", map[string]any{"sliding_window": null}))
	require.Equal(t, [2]int{}, w("qwen2.5-7b", nil), "sliding_window is there, but not in use")
	require.Equal(t, [2]int{131072, 8}, w("qwen2.5-7b", map[string]any{"use_sliding_window": true, "max_window_layers": 20}))
	require.Equal(t, [2]int{}, w("qwen2.5-7b", map[string]any{"use_sliding_window": true, "max_window_layers": 28}))
	require.Equal(t, [2]int{64, 48}, w("qwen3-30b-a3b", map[string]any{"use_sliding_window": true, "sliding_window": 64}))

	// Which layers have experts.
	dense := func(name string, change map[string]any) int { return read(name, change).DenseLayers() }
	require.Equal(t, 3, dense("deepseek-v3", nil))
	require.Equal(t, 0, dense("deepseek-v3", map[string]any{"first_k_dense_replace": 0}))
	require.Equal(t, 61, dense("deepseek-v3", map[string]any{"first_k_dense_replace": 61}))
	require.Equal(t, 61, dense("deepseek-v3", map[string]any{"n_routed_experts": null}))
	require.Equal(t, 3+29, dense("deepseek-v3", map[string]any{"moe_layer_freq": 2}), "layers 4, 6, ..., 60 have experts")
	pattern := make([]int, 61)
	for i := 5; i < 61; i++ {
		pattern[i] = 1
	}
	require.Equal(t, 5, dense("deepseek-v3", map[string]any{"moe_layer_freq": pattern}))
	require.Equal(t, 5, dense("deepseek-v3", map[string]any{"moe_layer_freq": pattern, "first_k_dense_replace": nil}))
	names := make([]string, 61)
	for i := range names {
		names[i] = "sparse"
	}
	names[0] = "dense"
	require.Equal(t, 1, dense("deepseek-v3", map[string]any{"mlp_layer_types": names, "first_k_dense_replace": nil}))
	require.Equal(t, 24, dense("qwen3-30b-a3b", map[string]any{"decoder_sparse_step": 2}))
	require.Equal(t, 2, dense("qwen3-30b-a3b", map[string]any{"mlp_only_layers": []int{0, 47}}))
	ends := read("qwen3-30b-a3b", map[string]any{"mlp_only_layers": []int{0, 47}})
	require.Len(t, ends.Notes, 1)
	require.EqualValues(t, 30532122624-2*(128*3*2048*768+128*2048)+2*3*2048*6144, ends.TotalParameters())

	// Routing.
	r := read("deepseek-v3", map[string]any{"topk_method": "greedy"})
	require.False(t, r.MoE.RouterBias)
	require.Equal(t, 1, r.MoE.Groups)
	require.Equal(t, 8, read("deepseek-v3", map[string]any{"topk_method": nil}).MoE.Groups)
	require.Equal(t, 0, read("deepseek-v3", map[string]any{"n_shared_experts": null}).MoE.SharedExperts)

	// Formats.
	require.Equal(t, FP8, read("qwen3-8b-fp8", nil).Checkpoint)
	require.Equal(t, BF16, read("qwen3-8b-fp8", map[string]any{"quantization_config": nil}).Checkpoint)
	floats := map[string]any{"quant_method": "compressed-tensors", "ignore": []string{"lm_head", "re:.*mlp.gate$", "model.layers.92.self_attn.q_proj"},
		"config_groups": map[string]any{"group_0": map[string]any{"targets": []string{"Linear"}, "weights": map[string]any{"num_bits": 8, "type": "float"}}}}
	require.Equal(t, FP8, read("glm-4.5", map[string]any{"quantization_config": floats}).Checkpoint)
	floats["kv_cache_scheme"] = map[string]any{"num_bits": 8, "type": "float"}
	notes := read("glm-4.5", map[string]any{"quantization_config": floats}).Notes
	require.Len(t, notes, 1)
	require.Contains(t, notes[0], "quantization_config.kv_cache_scheme was not read: model.kv sets the format of the KV cache")
	require.Len(t, read("llama-3.1-8b", map[string]any{"torch_dtype": "float32"}).Notes, 1)
	m, err := ReadHuggingFace("x/config.json", []byte(`{"zest": 1, `+strings.TrimSpace(string(hfText(t, "llama-3.1-8b")))[1:]))
	require.NoError(t, err)
	require.Equal(t, []string{`x/config.json:1:2: the key "zest" was not read`}, m.Notes)
}

// What is wrong is told with its place, its key and what would be right.
func TestHuggingFaceProblems(t *testing.T) {
	for _, c := range []struct {
		name   string
		change map[string]any
		want   string
	}{
		{"llama-3.1-8b", map[string]any{"architectures": []string{"FooForCausalLM"}},
			`architectures: "FooForCausalLM" is not a known architecture; known: DeepseekV2ForCausalLM, DeepseekV3ForCausalLM, Glm4MoeForCausalLM, GptOssForCausalLM, LlamaForCausalLM, MistralForCausalLM, MixtralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM, Qwen3MoeForCausalLM`},
		{"llama-3.1-8b", map[string]any{"architectures": nil, "model_type": "gemma3"}, `model_type: "gemma3" is not a known architecture; known: `},
		{"llama-3.1-8b", map[string]any{"architectures": nil, "model_type": nil}, "architectures: is missing: write one of DeepseekV2"},
		{"llama-3.1-8b", map[string]any{"architectures": []string{"KimiK25ForConditionalGeneration"}, "text_config": map[string]any{"a": 1}}, "it wraps a language model: make a file of its text_config"},
		{"llama-3.1-8b", map[string]any{"model_type": "qwen2"}, `model_type: "qwen2" does not go with LlamaForCausalLM: that is llama`},
		{"llama-3.1-8b", map[string]any{"model_type": 7}, "model_type: must be a string, not 7"},
		{"llama-3.1-8b", map[string]any{"architectures": "LlamaForCausalLM"}, `architectures: must be a list, not "LlamaForCausalLM"`},
		{"llama-3.1-8b", map[string]any{"architectures": []any{1}}, "architectures: must be a list of one name"},
		{"llama-3.1-8b", map[string]any{"hidden_size": nil}, "x/config.json: hidden_size: is missing: write a whole number from 1 to 1048576"},
		{"llama-3.1-8b", map[string]any{"hidden_size": 4096.5}, "hidden_size: must be a whole number from 1 to 1048576, not 4096.5"},
		{"llama-3.1-8b", map[string]any{"hidden_size": "4096"}, `hidden_size: must be a whole number from 1 to 1048576, not "4096"`},
		{"llama-3.1-8b", map[string]any{"hidden_size": -1}, "hidden_size: must be a whole number from 1 to 1048576, not -1"},
		{"llama-3.1-8b", map[string]any{"hidden_size": json.Number("1e400")}, "hidden_size: must be a whole number from 1 to 1048576, not 1e400"},
		{"llama-3.1-8b", map[string]any{"num_hidden_layers": 100000}, "num_hidden_layers: must be a whole number from 1 to 1024, not 100000"},
		{"llama-3.1-8b", map[string]any{"num_hidden_layers": []int{1}}, "num_hidden_layers: must be a whole number from 1 to 1024, not a list"},
		{"llama-3.1-8b", map[string]any{"num_key_value_heads": 5}, "num_key_value_heads: must divide num_attention_heads (32), not 5"},
		{"llama-3.1-8b", map[string]any{"num_attention_heads": 24}, "head_dim: is missing: hidden_size (4096) over num_attention_heads (24) is not a whole number"},
		{"llama-3.1-8b", map[string]any{"tie_word_embeddings": "yes"}, `tie_word_embeddings: must be true or false, not "yes"`},
		{"llama-3.1-8b", map[string]any{"sliding_window": 4096}, "sliding_window: is not known of LlamaForCausalLM and may change its structure"},
		{"llama-3.1-8b", map[string]any{"num_experts": 8}, "num_experts: is not known of LlamaForCausalLM"},
		{"llama-3.1-8b", map[string]any{"attention_chunk_size": 8192}, "attention_chunk_size: is not known of"},
		{"llama-3.1-8b", map[string]any{"partial_rotary_factor": 1.5}, "partial_rotary_factor: must be above 0 and at most 1"},
		{"llama-3.1-8b", map[string]any{"dtype": "float8_e4m3fn"}, `dtype: must be bfloat16, float16 or float32, not "float8_e4m3fn"`},
		{"qwen3-8b", map[string]any{"use_qk_norm": false}, "use_qk_norm: is false, but Qwen3ForCausalLM always normalises queries and keys"},
		{"llama-3.1-8b", map[string]any{"new\nlayers": 1}, "new\ufffdlayers: is not known of"},
		{"qwen3-8b", map[string]any{"num_key_value_heads": nil}, "num_key_value_heads: is missing: write it, or null"},
		{"mistral-7b-v0.1", map[string]any{"sliding_window": nil}, "sliding_window: is missing: write it, or null"},
		{"qwen2.5-7b", map[string]any{"attention_bias": false}, "attention_bias: is false, but Qwen2ForCausalLM always has biases"},
		{"qwen3-30b-a3b", map[string]any{"num_local_experts": 64}, "num_local_experts: is 64, but num_experts is 128: they mean the same"},
		{"qwen3-30b-a3b", map[string]any{"n_shared_experts": 1}, "n_shared_experts: is not known of Qwen3MoeForCausalLM"},
		{"qwen3-30b-a3b", map[string]any{"num_experts_per_tok": 129}, "num_experts_per_tok: must be a whole number from 1 to 128, not 129"},
		{"qwen3-30b-a3b", map[string]any{"num_experts_per_tok": nil}, "num_experts_per_tok: is missing: write a whole number from 1 to 128 (also known as experts_per_token"},
		{"qwen3-30b-a3b", map[string]any{"num_experts": 1}, "num_experts: must be a whole number from 2 to 65536, not 1"},
		{"qwen3-30b-a3b", map[string]any{"mlp_only_layers": []int{48}}, "mlp_only_layers[0]: must be a whole number from 0 to 47, not 48"},
		{"mixtral-8x7b", map[string]any{"num_local_experts": null}, "n_routed_experts: is missing: write a whole number from 2"},
		{"mixtral-8x7b", map[string]any{"first_k_dense_replace": 1}, "first_k_dense_replace: is not known of MixtralForCausalLM"},
		{"deepseek-v3", map[string]any{"n_group": 7}, "n_group: must divide the 256 experts, not 7"},
		{"deepseek-v3", map[string]any{"n_group": nil}, "n_group: is missing: write it, or null"},
		{"deepseek-v3", map[string]any{"topk_group": 9}, "topk_group: must be a whole number from 1 to 8, not 9"},
		{"deepseek-v3", map[string]any{"topk_method": "magic"}, `topk_method: must be greedy, group_limited_greedy or noaux_tc, not "magic"`},
		{"deepseek-v3", map[string]any{"first_k_dense_replace": nil}, "first_k_dense_replace: is missing"},
		{"deepseek-v3", map[string]any{"n_shared_experts": nil}, "n_shared_experts: is missing: write it, or null"},
		{"deepseek-v3", map[string]any{"q_lora_rank": nil}, "q_lora_rank: is missing: write it, or null if queries are projected directly"},
		{"deepseek-v3", map[string]any{"moe_layer_freq": []int{1}}, "moe_layer_freq: must say of all 61 layers, not of 1"},
		{"deepseek-v3", map[string]any{"qk_head_dim": 128}, "qk_head_dim: must be qk_nope_head_dim + qk_rope_head_dim (192), not 128"},
		{"deepseek-v3", map[string]any{"index_topk": 2048}, "index_topk: is not known of DeepseekV3ForCausalLM"},
		{"gpt-oss-20b", map[string]any{"layer_types": []string{"full_attention"}}, "layer_types: must name all 24 layers, not 1"},
		{"gpt-oss-20b", map[string]any{"layer_types": []string{"linear_attention"}}, `layer_types[0]: must be full_attention or sliding_attention, not "linear_attention"`},
		{"gpt-oss-20b", map[string]any{"sliding_window": null}, "sliding_window: is missing"},
		{"llama-3.1-8b", map[string]any{"quantization_config": map[string]any{"quant_method": "awq", "bits": 4}},
			`quantization_config.quant_method: "awq" is not known of LlamaForCausalLM; fp8 and compressed-tensors of 8-bit floats are; without quantization_config the same structure is read as bf16`},
		{"llama-3.1-8b", map[string]any{"quantization_config": map[string]any{"quant_method": "mxfp4"}}, `"mxfp4" is not known of LlamaForCausalLM`},
		{"llama-3.1-8b", map[string]any{"quantization_config": map[string]any{"bits": 4}}, "quantization_config.quant_method: is missing"},
		{"llama-3.1-8b", map[string]any{"quantization_config": 8}, "quantization_config: must be an object, not 8"},
		{"qwen3-8b", map[string]any{"quantization_config": map[string]any{"quant_method": "fp8", "weight_block_size": []int{64, 64}}}, "quantization_config.weight_block_size: must be [128, 128] or null"},
		{"qwen3-8b", map[string]any{"quantization_config": map[string]any{"quant_method": "fp8", "modules_to_not_convert": []string{"model.layers.0.self_attn"}}},
			`quantization_config.modules_to_not_convert[0]: "model.layers.0.self_attn" stays in 16 bits`},
		{"qwen3-8b", map[string]any{"quantization_config": map[string]any{"quant_method": "compressed-tensors", "config_groups": map[string]any{"g": map[string]any{"weights": map[string]any{"num_bits": 4, "type": "int"}}}}},
			"quantization_config.config_groups.g.weights: must be floats of 8 bits"},
	} {
		_, err := readEdited(t, c.name, c.change)
		var ps config.Problems
		require.ErrorAs(t, err, &ps, "%s %v", c.name, c.change)
		require.ErrorContains(t, err, c.want, "%s %v", c.name, c.change)
		for _, p := range ps {
			require.True(t, strings.HasPrefix(p.Where, "x/config.json"), "%v", p)
		}
	}
}

// One wrong value is one problem: what is measured by it is not blamed.
func TestHuggingFaceProblemsStandAlone(t *testing.T) {
	for _, c := range []struct {
		name, key string
		value     any
	}{
		{"deepseek-v3", "n_routed_experts", nil},
		{"deepseek-v3", "n_routed_experts", "256"},
		{"deepseek-v3", "n_routed_experts", 1},
		{"deepseek-v3", "num_hidden_layers", 0},
		{"deepseek-v3", "num_experts_per_tok", 257},
		{"deepseek-v3", "n_group", 7},
		{"glm-4.5", "n_routed_experts", -1},
		{"glm-4.5", "num_hidden_layers", "92"},
		{"qwen3-30b-a3b", "num_experts", nil},
		{"qwen3-30b-a3b", "num_hidden_layers", nil},
		{"mixtral-8x7b", "num_local_experts", 0},
		{"gpt-oss-20b", "num_local_experts", 1e9},
		{"llama-3.1-8b", "num_attention_heads", 0},
	} {
		_, err := readEdited(t, c.name, map[string]any{c.key: c.value})
		var ps config.Problems
		require.ErrorAs(t, err, &ps)
		require.Len(t, ps, 1, "%s %s: %v\n%v", c.name, c.key, c.value, err)
	}
}

func TestHuggingFaceSyntax(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "f.json: is empty"},
		{" \n ", "f.json: is empty"},
		{"\xff\xfe{\x00", "f.json: is not UTF-8 text"},
		{"{\n  \"a\": 1,\n  b\n}", "f.json:3:3: is not JSON: invalid character 'b' looking for beginning of object key string"},
		{"{\"a\": [1, 2", "f.json:1:12: is not JSON: unexpected end of JSON input"},
		{"{\"é\": NaN}", "f.json:1:7: is not JSON: invalid character 'N' looking for beginning of value"},
		{"{} {}", "f.json:1:4: is not JSON: invalid character '{' after top-level value"},
		{"[1]", "f.json:1:1: must be a JSON object, not a list"},
		{"  3", "f.json:1:3: must be a JSON object, not 3"},
		{"[{\"a\": {\"b\": 1,\n \"b\": 2}}]", "f.json:2:2: a.b: is written twice"},
		{"{\"a\": {\"b\": 1,\n \"b\": 2}}", "f.json:2:2: a.b: is written twice; first at f.json:1:8"},
		{"{\"hidden_size\": 1, \"hidden_size\": 1}", "f.json:1:20: hidden_size: is written twice; first at f.json:1:2"},
		{strings.Repeat("[", 20000), "f.json:1:10001: is not JSON: invalid character '[' exceeded max depth"},
	} {
		_, err := ReadHuggingFace("f.json", []byte(c.text))
		require.ErrorContains(t, err, c.want)
	}
	_, err := ReadHuggingFace("f.json", make([]byte, maxHuggingFace+1))
	require.ErrorContains(t, err, "f.json: is larger than 4194304 bytes")

	// The place of a value is its key's.
	text := strings.Replace(string(hfText(t, "llama-3.1-8b")), `"hidden_size": 4096`, `"hidden_size": -4096`, 1)
	line := 1 + strings.Count(text[:strings.Index(text, `"hidden_size"`)], "\n")
	_, err = ReadHuggingFace("f.json", []byte(text))
	require.EqualError(t, err, fmt.Sprintf("f.json:%d:3: hidden_size: must be a whole number from 1 to 1048576, not -4096", line))

	dir := t.TempDir()
	_, err = openHF(dir)
	require.ErrorContains(t, err, "is a folder: name the config.json in it")
	_, err = openHF(filepath.Join(dir, "none.json"))
	require.ErrorContains(t, err, "there is no file ")
	huge := filepath.Join(dir, "huge.json")
	require.NoError(t, os.WriteFile(huge, nil, 0o644))
	require.NoError(t, os.Truncate(huge, 1<<40))
	_, err = openHF(huge)
	require.ErrorContains(t, err, "has 1099511627776 bytes: a config.json has at most 4194304")
}

// A model is named, or its file is.
func TestOpenModel(t *testing.T) {
	m, file, err := OpenModel("deepseek-ai/DeepSeek-V3")
	require.NoError(t, err)
	require.Nil(t, file)
	require.Equal(t, "DeepSeek-V3", m.Name)
	m, file, err = OpenModel(hfFile("qwen3-8b"))
	require.NoError(t, err)
	require.Equal(t, hfText(t, "qwen3-8b"), file)
	require.Equal(t, "qwen3-8b", m.Name)
	_, _, err = OpenModel("./testdata/hf")
	require.EqualError(t, err, "./testdata/hf is a folder: name the config.json in it")
	_, _, err = OpenModel("testdata/hf")
	require.ErrorContains(t, err, `"testdata/hf" is not a known model`)
	require.ErrorContains(t, err, "; for the file write ./testdata/hf/config.json")
	_, _, err = OpenModel("qwen3-9b")
	require.ErrorContains(t, err, "did you mean Qwen3-8B?")
	for ref, want := range map[string]bool{
		"deepseek-v3": false, "deepseek-ai/DeepSeek-V3": false, "config.json": true, "a/b.json": true,
		"./x": true, "../x": true, "/x": true, "": false,
	} {
		require.Equal(t, want, IsModelPath(ref), ref)
	}
}

// A hostile file is refused in no time, and in few words.
func TestHuggingFaceFloods(t *testing.T) {
	structure := strings.TrimSpace(string(hfText(t, "qwen3-30b-a3b")))
	structure = structure[:len(structure)-1]
	flood := func(part string, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, part, i)
		}
		return b.String()
	}
	for name, text := range map[string]string{
		"the same key":    structure + flood(`, "a": 1%.0d`, 50_000) + "}",
		"structural keys": structure + flood(`, "layer_%d": 1`, 50_000) + "}",
		"wrong items":     structure[:strings.LastIndex(structure, `"mlp_only_layers"`)] + `"mlp_only_layers": [` + strings.Repeat("-1,", 250_000) + "0]}",
		"depth":           strings.Repeat("[", 9000) + flood("{\"a\":%d},", 50_000) + "0" + strings.Repeat("]", 9000),
	} {
		start := time.Now()
		_, err := ReadHuggingFace("f.json", []byte(text))
		require.Less(t, time.Since(start), 20*time.Second, name)
		var ps config.Problems
		require.ErrorAs(t, err, &ps, name)
		require.LessOrEqual(t, len(ps), maxProblems+8, name)
		require.Less(t, len(err.Error()), 10_000, name)
	}
	m, err := ReadHuggingFace("f.json", []byte(structure+flood(`, "x%d": 1`, 30_000)+"}"))
	require.NoError(t, err)
	require.Len(t, m.Notes, 11)
	require.Equal(t, "f.json: nor were 29990 other keys", m.Notes[10])
}

func TestHuggingFaceNames(t *testing.T) {
	for file, want := range map[string]string{
		"models/Qwen3-8B/config.json": "Qwen3-8B",
		"config.json":                 "LlamaForCausalLM",
		"./config.json":               "LlamaForCausalLM",
		"../config.json":              "LlamaForCausalLM",
		"mine.json":                   "mine",
		"a/b/mine":                    "mine",
	} {
		require.Equal(t, want, hfName(file, "LlamaForCausalLM"), file)
	}
}

// The spelling of a key, the order of keys, the spelling of a whole number and
// keys that mean nothing here change nothing.
func TestHuggingFaceSpellings(t *testing.T) {
	groups := [][]string{keysExperts, keysTopK, keysShared}
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(hfCases).Draw(t, "file")
		data, err := os.ReadFile(hfFile(c.file))
		require.NoError(t, err)
		want, err := ReadHuggingFace("m.json", data)
		require.NoError(t, err)
		var values map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(data, &values))
		for _, names := range groups {
			for _, old := range names {
				if v, ok := values[old]; ok {
					delete(values, old)
					values[rapid.SampledFrom(names).Draw(t, "name")] = v
				}
			}
		}
		values["rope_scaling"] = json.RawMessage(`{"type": "yarn", "factor": 4}`)
		values["unknown_flag"] = json.RawMessage(`false`)
		values["num_unknown"] = json.RawMessage(`null`)
		keys := slices.Sorted(maps.Keys(values))
		var text strings.Builder
		text.WriteString("{")
		for i, k := range rapid.Permutation(keys).Draw(t, "order") {
			if i > 0 {
				text.WriteString(",")
			}
			v := string(values[k])
			if n, err := json.Number(v).Int64(); err == nil && n > 0 {
				v = fmt.Sprintf(rapid.SampledFrom([]string{"%d", "%d.0", "%de0", "%d0e-1"}).Draw(t, "number"), n)
			}
			fmt.Fprintf(&text, "%s%q:%s%s", rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(t, "blank"), k, "\r\n ", v)
		}
		text.WriteString("}")
		got, err := ReadHuggingFace("m.json", []byte(text.String()))
		if err != nil {
			t.Fatalf("%v\n%s", err, text.String())
		}
		require.Equal(t, want, got)
	})
}

// FuzzHuggingFace holds the reader to its word: any text is a model that
// validates and can be timed, or a list of problems that name the file.
func FuzzHuggingFace(f *testing.F) {
	for _, c := range hfCases {
		f.Add(hfText(f, c.file))
	}
	f.Add([]byte(`{"architectures":["Qwen3MoeForCausalLM"],"num_hidden_layers":2.0,"layer_types":[null,{}],"quantization_config":{"quant_method":"fp8","weight_block_size":[128,{}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ReadHuggingFace("f.json", data)
		if err != nil {
			var ps config.Problems
			require.ErrorAs(t, err, &ps)
			require.NotEmpty(t, ps)
			for _, p := range ps {
				require.True(t, strings.HasPrefix(p.Where, "f.json"), "%v", p)
				require.NotEmpty(t, p.Message)
			}
			return
		}
		require.NoError(t, m.Validate())
		require.NotEmpty(t, m.Summary())
		timed(t, m)
	})
}
