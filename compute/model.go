package compute

import (
	"embed"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/tgssim/tgssim/internal/config"
)

// AttentionKind is how a model's attention keeps its KV.
type AttentionKind string

// The kinds.
const (
	// GQA is grouped-query attention: kv_heads keys and values per layer and
	// token, shared by the query heads (arXiv 2305.13245).
	GQA AttentionKind = "gqa"
	// MLA is multi-head latent attention: one latent and one rotary key per
	// layer and token (DeepSeek-V2, arXiv 2405.04434).
	MLA AttentionKind = "mla"
)

// A Model is the structure of a transformer, as its config.json on Hugging Face
// states it.
type Model struct {
	// Name is the usual name: "DeepSeek-V3". HuggingFace is owner/name there.
	Name        string `yaml:"name"`
	HuggingFace string `yaml:"hugging_face"`
	// Architecture is the name of the modelling class there:
	// "DeepseekV3ForCausalLM".
	Architecture string `yaml:"architecture"`
	// Layers is the number of transformer layers, without MTP modules.
	Layers int `yaml:"layers"`
	// Hidden is the width of the residual stream, in elements.
	Hidden int `yaml:"hidden"`
	// Vocab is the number of rows of the embedding.
	Vocab int `yaml:"vocab"`
	// TiedEmbeddings is true when the LM head is the input embedding.
	TiedEmbeddings bool `yaml:"tied_embeddings"`
	// Checkpoint is the format of the published weights: bf16, or fp8 with one
	// 4-byte scale per block of 128 x 128.
	Checkpoint DType `yaml:"checkpoint"`
	// ExpertCheckpoint is the format of the routed experts where it is another:
	// mxfp4 (gpt-oss); checkpoint when it is the same.
	ExpertCheckpoint DType `yaml:"expert_checkpoint"`
	// MTPLayers is the number of multi-token-prediction modules in the
	// checkpoint. They are in no count and in no time of this package.
	MTPLayers int `yaml:"mtp_layers"`

	Attention Attention `yaml:"attention"`
	// Intermediate is the width of the MLP of a dense layer, in elements; 0 when
	// every layer is a MoE layer.
	Intermediate int `yaml:"intermediate"`
	// MLPBias is true when the three projections of every MLP, experts included,
	// have biases (gpt-oss).
	MLPBias bool `yaml:"mlp_bias"`
	// MoE is nil for a dense model.
	MoE *MoE `yaml:"moe"`

	// Notes are what a reader of the model's file should know: keys that were not
	// read, layers that are simulated in another order. They change nothing.
	Notes []string `yaml:"-"`
}

// Attention is the structure of an attention layer.
type Attention struct {
	Kind AttentionKind `yaml:"kind"`
	// Heads is the number of query heads.
	Heads int `yaml:"heads"`

	// QKVBias is true when the projections of the hidden state have biases: to
	// queries, keys and values, or to the latents. OutBias is the same of the
	// output projection.
	QKVBias bool `yaml:"qkv_bias"`
	OutBias bool `yaml:"out_bias"`

	// KVHeads and HeadDim are of GQA; QKNorm is true when queries and keys are
	// normalised per head.
	KVHeads int  `yaml:"kv_heads"`
	HeadDim int  `yaml:"head_dim"`
	QKNorm  bool `yaml:"qk_norm"`
	// RotaryDim is how many dimensions of a head the rotary embedding turns; 0
	// when it is all of HeadDim.
	RotaryDim int `yaml:"rotary_dim"`
	// Sinks is true when each head has a learned logit that takes part in the
	// softmax (gpt-oss).
	Sinks bool `yaml:"sinks"`
	// Window is the number of last tokens that WindowedLayers of the layers look
	// at; 0 and 0 when every layer looks at all. Which layers those are matters
	// to no figure of this package. Their KV is held and sent for the whole
	// context, as by an engine whose layers share one block table.
	Window         int `yaml:"window"`
	WindowedLayers int `yaml:"windowed_layers"`

	// The rest is of MLA: ranks of the query's and of the KV's latent, and
	// dimensions of a head. QLoraRank is 0 when queries are projected directly
	// (DeepSeek-V2-Lite).
	QLoraRank     int `yaml:"q_lora_rank"`
	KVLoraRank    int `yaml:"kv_lora_rank"`
	QKNopeHeadDim int `yaml:"qk_nope_head_dim"`
	QKRopeHeadDim int `yaml:"qk_rope_head_dim"`
	VHeadDim      int `yaml:"v_head_dim"`
}

// MoE is the structure of a mixture-of-experts layer.
type MoE struct {
	// Experts is the number of routed experts, TopK how many a token visits.
	Experts int `yaml:"experts"`
	TopK    int `yaml:"top_k"`
	// SharedExperts is the number of experts that every token visits.
	SharedExperts int `yaml:"shared_experts"`
	// Intermediate is the width of one expert, in elements.
	Intermediate int `yaml:"intermediate"`
	// FirstDense is the number of leading layers that are dense instead. Dense
	// layers that lie elsewhere are counted as leading ones.
	FirstDense int `yaml:"first_dense"`
	// Groups and TopGroups limit routing: a token's experts lie in at most
	// TopGroups of Groups equal groups (DeepSeek-V3, arXiv 2412.19437); 1 and 1
	// when there is no limit.
	Groups    int `yaml:"groups"`
	TopGroups int `yaml:"top_groups"`
	// RouterBias is true when the router has one bias per expert.
	RouterBias bool `yaml:"router_bias"`
}

//go:embed models/*.yaml
var modelFiles embed.FS

var modelNames = sync.OnceValue(func() []string { return catalogueNames(modelFiles, "models") })

// Models lists the catalogue by name, sorted.
func Models() []string { return slices.Clone(modelNames()) }

// LoadModel returns the model of that name, or of that Hugging Face owner/name,
// in any case. The error of an unknown name suggests the nearest one.
func LoadModel(name string) (*Model, error) {
	short := name[strings.LastIndexByte(name, '/')+1:]
	if short == name { // files are named as their models, in lower case
		if data, err := modelFiles.ReadFile("models/" + strings.ToLower(name) + ".yaml"); err == nil {
			return ReadModel(data)
		}
		return nil, unknownModel(name)
	}
	for _, n := range Models() {
		m, err := LoadModel(n)
		if err != nil {
			return nil, err
		}
		if strings.EqualFold(m.HuggingFace, name) {
			return m, nil
		}
	}
	return nil, unknownModel(name)
}

// unknownModel refuses a name and suggests the nearest one.
func unknownModel(name string) error {
	short := name[strings.LastIndexByte(name, '/')+1:]
	return fmt.Errorf("%q is not a known model%s", name, config.Suggest(short, Models()))
}

// IsModelPath tells the path of a config.json from the name of a model, which may
// have a slash too: it ends in .json or begins with /, ./ or ../.
func IsModelPath(ref string) bool {
	return strings.HasSuffix(ref, ".json") || filepath.IsAbs(ref) ||
		strings.HasPrefix(ref, "./") || strings.HasPrefix(ref, "../")
}

// OpenModel returns the model of a name, as LoadModel does, or of a config.json by
// path, as ReadHuggingFace does. file is the text of the config.json; nil for a
// model of the catalogue.
func OpenModel(ref string) (m *Model, file []byte, err error) {
	if IsModelPath(ref) {
		if file, err = readConfigFile(ref); err != nil {
			return nil, nil, err
		}
		m, err = ReadHuggingFace(ref, file)
		return m, file, err
	}
	if m, err = LoadModel(ref); err == nil {
		return m, nil, nil
	}
	if info, at := os.Stat(ref); at == nil {
		hint := ref
		if info.IsDir() {
			hint = path.Join(filepath.ToSlash(ref), "config.json")
		}
		err = fmt.Errorf("%w; for the file write ./%s", err, hint)
	}
	return nil, nil, err
}

// ReadModel reads a model file. It refuses unknown keys; the error is
// config.Problems when the keys are right and the values are not.
func ReadModel(data []byte) (*Model, error) {
	m := new(Model)
	if err := decodeStrict(data, m); err != nil {
		return nil, err
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	return m, nil
}

// maxSize bounds every width of a model, and maxParameters the whole, so that
// sums of products of counts fit int64 and float64.
const (
	maxSize       = 1 << 20
	maxParameters = 1e15
)

// The largest counts that a model may have.
const (
	maxLayers        = 1024
	maxVocab         = 1 << 24
	maxMTP           = 16
	maxHeads         = 4096
	maxHeadDim       = 4096
	maxWindow        = 1 << 30
	maxExperts       = 1 << 16
	maxSharedExperts = 1024
)

// Validate reports every value that is missing or out of range.
func (m *Model) Validate() error {
	var ps config.Problems
	ps.Require(m.Name != "", "name", "is missing: write the model's name")
	between(&ps, "layers", m.Layers, 1, maxLayers)
	between(&ps, "hidden", m.Hidden, 1, maxSize)
	between(&ps, "vocab", m.Vocab, 1, maxVocab)
	between(&ps, "mtp_layers", m.MTPLayers, 0, maxMTP)
	ps.Require(m.Checkpoint == BF16 || m.Checkpoint == FP8, "checkpoint", "must be bf16 or fp8, not %v", m.Checkpoint)
	ps.Require(m.ExpertCheckpoint == AsCheckpoint || m.MoE != nil, "expert_checkpoint", "is set, but the model has no experts")
	ps.Require(m.ExpertCheckpoint <= MXFP4, "expert_checkpoint", "must be checkpoint (the same), bf16, fp8 or mxfp4")
	ps.Nest("attention", m.Attention.validate(m.Layers))
	if m.MoE != nil {
		ps.Nest("moe", m.MoE.validate(m.Layers))
	}
	low := 0
	if m.DenseLayers() > 0 {
		low = 1
	}
	between(&ps, "intermediate", m.Intermediate, low, maxSize)
	if len(ps) == 0 {
		n := m.roughly()
		ps.Require(n <= maxParameters, "", "has about %.1e parameters: at most %.0e can be counted", n, maxParameters)
	}
	return ps.Err()
}

// roughly is at least the number of parameters, in floating point because it may
// exceed int64.
func (m *Model) roughly() float64 {
	f := func(n int) float64 { return float64(n) }
	a := &m.Attention
	product := func(a, b int) float64 { return float64(float64(a) * float64(b)) }
	widths := product(a.Heads+2*a.KVHeads, a.HeadDim) + product(a.Heads, a.HeadDim+a.QKNopeHeadDim+a.QKRopeHeadDim+a.VHeadDim) +
		f(a.QLoraRank+a.KVLoraRank+a.QKRopeHeadDim) + product(3, m.Intermediate) + 16
	latents := float64(f(a.Heads) * (product(a.QLoraRank, a.QKNopeHeadDim+a.QKRopeHeadDim) + product(a.KVLoraRank, a.QKNopeHeadDim+a.VHeadDim)))
	if e := m.MoE; e != nil {
		widths += product(3*(e.Experts+e.SharedExperts), e.Intermediate) + f(e.Experts)
	}
	return product(2*m.Vocab, m.Hidden) + float64(f(m.Layers)*(float64(f(m.Hidden+2)*widths)+latents))
}

func (a *Attention) validate(layers int) error {
	var ps config.Problems
	between(&ps, "heads", a.Heads, 1, maxHeads)
	switch a.Kind {
	case GQA:
		between(&ps, "kv_heads", a.KVHeads, 1, maxHeads)
		ps.Require(a.KVHeads < 1 || a.Heads%a.KVHeads == 0, "kv_heads", "must divide heads (%d), not %d", a.Heads, a.KVHeads)
		between(&ps, "head_dim", a.HeadDim, 1, maxHeadDim)
		between(&ps, "rotary_dim", a.RotaryDim, 0, max(0, a.HeadDim))
		between(&ps, "windowed_layers", a.WindowedLayers, 0, max(0, layers))
		low, high := 0, 0
		if a.WindowedLayers > 0 {
			low, high = 1, maxWindow
		}
		between(&ps, "window", a.Window, low, high)
		ps.Require(a.QLoraRank == 0 && a.KVLoraRank == 0 && a.QKNopeHeadDim == 0 && a.QKRopeHeadDim == 0 && a.VHeadDim == 0,
			"kind", "is gqa, but keys of mla are set")
	case MLA:
		between(&ps, "q_lora_rank", a.QLoraRank, 0, maxSize)
		between(&ps, "kv_lora_rank", a.KVLoraRank, 1, maxSize)
		between(&ps, "qk_nope_head_dim", a.QKNopeHeadDim, 1, maxHeadDim)
		between(&ps, "qk_rope_head_dim", a.QKRopeHeadDim, 1, maxHeadDim)
		between(&ps, "v_head_dim", a.VHeadDim, 1, maxHeadDim)
		ps.Require(a.KVHeads == 0 && a.HeadDim == 0 && !a.QKNorm && a.RotaryDim == 0 && !a.Sinks && a.Window == 0 && a.WindowedLayers == 0,
			"kind", "is mla, but keys of gqa are set")
	default:
		ps.Addf("kind", "must be gqa or mla, not %q", string(a.Kind))
	}
	return ps.Err()
}

// rotary is the number of dimensions of a head that rotary embedding turns.
func (a *Attention) rotary() float64 {
	if a.RotaryDim > 0 {
		return float64(a.RotaryDim)
	}
	return float64(a.HeadDim)
}

func (e *MoE) validate(layers int) error {
	var ps config.Problems
	between(&ps, "experts", e.Experts, 2, maxExperts)
	between(&ps, "top_k", e.TopK, 1, max(1, e.Experts))
	between(&ps, "shared_experts", e.SharedExperts, 0, maxSharedExperts)
	between(&ps, "intermediate", e.Intermediate, 1, maxSize)
	between(&ps, "first_dense", e.FirstDense, 0, max(0, layers-1))
	between(&ps, "groups", e.Groups, 1, max(1, e.Experts))
	between(&ps, "top_groups", e.TopGroups, 1, max(1, e.Groups))
	ps.Require(e.Groups < 1 || e.Experts%e.Groups == 0, "groups", "must divide experts (%d), not %d", e.Experts, e.Groups)
	return ps.Err()
}

func between(ps *config.Problems, key string, v, low, high int) {
	ps.Require(v >= low && v <= high, key, "must be from %d to %d, not %d", low, high, v)
}
