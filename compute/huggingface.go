package compute

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tgssim/tgssim/internal/config"
)

// maxHuggingFace bounds a config.json; the largest, which list every module that
// is not quantised, have some hundred kilobytes.
const maxHuggingFace = 4 << 20

// A family is one architecture of Hugging Face, which says how a config.json is
// to be understood. The facts, defaults included, are those of the configuration
// and modelling code of transformers
// (github.com/huggingface/transformers, src/transformers/models) and, for what
// it does not have, of the code beside the checkpoint.
type family struct {
	// architecture is the name in architectures; types are those in model_type.
	architecture string
	types        []string
	// mla is true for latent attention.
	mla bool
	// experts is true for mixture of experts.
	experts bool
	// expertWidth names the width of an expert.
	expertWidth []string
	// placed is true where some layers may be dense.
	placed bool
	// shared and mtp are true where there may be shared experts and MTP modules.
	shared, mtp bool
	// groups is true where routing may be limited to groups of experts.
	groups bool
	// routerBias is true when each expert has a bias, learned or corrective.
	routerBias bool
	// bias says what attention_bias is of.
	bias biasRule
	// mlpBias is true when mlp_bias is known; expertBias when the projections of
	// experts always have biases, and sinks when heads have them.
	mlpBias, expertBias, sinks bool
	// norm says whether queries and keys are normalised per head.
	norm normRule
	// headDim is the default of head_dim, 0 for hidden_size over heads.
	headDim int
	// multiHead is true when an absent num_key_value_heads means one KV head per
	// query head, as in files of before grouped queries.
	multiHead bool
	// halfRotary is true when an absent partial_rotary_factor means a half.
	halfRotary bool
	// window says which layers have a sliding window.
	window windowRule
}

type biasRule uint8

const (
	biasNone biasRule = iota // attention_bias is not known
	biasQKV                  // of queries, keys and values
	biasAll                  // of the output projection too
	biasQKVAlways
)

type normRule uint8

const (
	normNone   normRule = iota
	normAlways          // Qwen3
	normByKey           // use_qk_norm
)

type windowRule uint8

const (
	windowNone        windowRule = iota
	windowAll                    // sliding_window, in all layers
	windowByKey                  // use_sliding_window, from layer max_window_layers on
	windowAllByKey               // use_sliding_window, in all layers
	windowAlternating            // in every other layer, from the first, or by layer_types
)

// families are the architectures that are known.
var families = []family{
	{architecture: "DeepseekV2ForCausalLM", types: []string{"deepseek_v2"}, mla: true, experts: true, expertWidth: keysMoEWidth,
		placed: true, shared: true, groups: true, bias: biasAll},
	{architecture: "DeepseekV3ForCausalLM", types: []string{"deepseek_v3", "kimi_k2"}, mla: true, experts: true, expertWidth: keysMoEWidth,
		placed: true, shared: true, mtp: true, groups: true, routerBias: true, bias: biasAll},
	{architecture: "Glm4MoeForCausalLM", types: []string{"glm4_moe"}, experts: true, expertWidth: keysMoEWidth,
		placed: true, shared: true, mtp: true, groups: true, routerBias: true, bias: biasQKV, norm: normByKey, halfRotary: true},
	{architecture: "GptOssForCausalLM", types: []string{"gpt_oss"}, experts: true, expertWidth: keysWidth,
		routerBias: true, bias: biasAll, expertBias: true, sinks: true, headDim: 64, window: windowAlternating},
	{architecture: "LlamaForCausalLM", types: []string{"llama"}, bias: biasAll, mlpBias: true, multiHead: true},
	{architecture: "MistralForCausalLM", types: []string{"mistral"}, window: windowAll},
	{architecture: "MixtralForCausalLM", types: []string{"mixtral"}, experts: true, expertWidth: keysWidth, window: windowAll},
	{architecture: "Qwen2ForCausalLM", types: []string{"qwen2"}, bias: biasQKVAlways, multiHead: true, window: windowByKey},
	{architecture: "Qwen3ForCausalLM", types: []string{"qwen3"}, bias: biasAll, norm: normAlways, headDim: 128, window: windowByKey},
	{architecture: "Qwen3MoeForCausalLM", types: []string{"qwen3_moe"}, experts: true, expertWidth: keysMoEWidth,
		placed: true, bias: biasAll, norm: normAlways, window: windowAllByKey},
}

// Architectures lists the architectures whose config.json is understood, sorted.
func Architectures() []string {
	var names []string
	for i := range families {
		names = append(names, families[i].architecture)
	}
	return names
}

// readConfigFile reads a regular file, as far as a config.json can be long. The
// error is config.Problems.
func readConfigFile(file string) ([]byte, error) {
	refuse := func(format string, args ...any) ([]byte, error) {
		return nil, config.Problems{{Message: fmt.Sprintf(format, args...)}}
	}
	switch info, err := os.Stat(file); {
	case errors.Is(err, fs.ErrNotExist):
		return refuse("there is no file %s", file)
	case err != nil:
		return refuse("cannot read %s: %v", file, cause(err))
	case info.IsDir():
		return refuse("%s is a folder: name the config.json in it", file)
	case !info.Mode().IsRegular():
		return refuse("%s is not a regular file", file)
	case info.Size() > maxHuggingFace:
		return refuse("%s has %d bytes: a config.json has at most %d", file, info.Size(), maxHuggingFace)
	}
	f, err := os.Open(file)
	if err != nil {
		return refuse("cannot read %s: %v", file, cause(err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxHuggingFace+1))
	if err != nil {
		return refuse("cannot read %s: %v", file, cause(err))
	}
	return data, nil
}

// cause is err without the path that it repeats.
func cause(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// ReadHuggingFace reads the model that a config.json of Hugging Face describes,
// the text of file; no weights are needed. The model is called as the folder of a
// config.json, or as the file when that has another name. The error is
// config.Problems, with file, line and column of what is wrong. What a file says
// is never guessed at: an unknown architecture, a key that may change the
// structure and is not understood, and a value out of range are problems.
func ReadHuggingFace(file string, data []byte) (*Model, error) {
	if len(data) > maxHuggingFace {
		return nil, config.Problems{{Where: file, Message: fmt.Sprintf("is larger than %d bytes", maxHuggingFace)}}
	}
	r := hfReader{file: jsonFile{file, data}, read: map[string]bool{}}
	var err error
	if r.root, err = r.file.parse(); err != nil {
		return nil, err
	}
	f := r.architecture()
	if f == nil {
		return nil, r.problems
	}
	r.family = f.architecture
	m := r.model(f)
	m.Name = hfName(file, f.architecture)
	m.Notes = append(m.Notes, r.unread()...)
	if len(r.problems) == 0 {
		err := m.Validate() // what no single key can be blamed for
		var ps config.Problems
		if errors.As(err, &ps) {
			for _, p := range ps {
				r.problems = append(r.problems, config.Problem{Where: file, Key: p.Key, Message: p.Message})
			}
		}
	}
	if err := r.problems.Err(); err != nil {
		return nil, err
	}
	return m, nil
}

// hfName is what a model is called that was read from a file.
func hfName(file, architecture string) string {
	name := strings.TrimSuffix(filepath.Base(file), ".json")
	if name == "config" {
		name = filepath.Base(filepath.Dir(file))
	}
	if name = strings.Trim(name, `./\ `); name == "" {
		return architecture
	}
	return name
}

// architecture finds the family that the file names in architectures or
// model_type, which must not contradict each other.
func (r *hfReader) architecture() *family {
	kind := r.word("model_type")
	names := r.list("architectures")
	if len(r.problems) > 0 {
		return nil
	}
	if names == nil || len(names.items) == 0 {
		if kind == "" {
			r.missing([]string{"architectures"}, "write one of %s", strings.Join(Architectures(), ", "))
			return nil
		}
		for i := range families {
			if slices.Contains(families[i].types, kind) {
				return &families[i]
			}
		}
		r.unknown("model_type", r.root.members["model_type"], kind)
		return nil
	}
	if len(names.items) > 1 || names.items[0].kind != jsonString {
		r.refuse("architectures", names, "must be a list of one name")
		return nil
	}
	name := names.items[0].text
	i := slices.IndexFunc(families, func(f family) bool { return f.architecture == name })
	if i < 0 {
		r.unknown("architectures", names, name)
		return nil
	}
	if kind != "" && !slices.Contains(families[i].types, kind) {
		r.refuse("model_type", r.root.members["model_type"], "%q does not go with %s: that is %s",
			abridged(kind), name, strings.Join(families[i].types, " or "))
		return nil
	}
	return &families[i]
}

// unknown refuses an architecture by name.
func (r *hfReader) unknown(key string, v *jsonValue, name string) {
	hint := ""
	if text := r.root.members["text_config"]; text != nil && text.kind == jsonObject {
		hint = "; it wraps a language model: make a file of its text_config, with its architecture"
	}
	r.refuse(key, v, "%q is not a known architecture; known: %s%s", abridged(name), strings.Join(Architectures(), ", "), hint)
}
