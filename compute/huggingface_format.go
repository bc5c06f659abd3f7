package compute

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// formats reads the number formats of the checkpoint.
func (r *hfReader) formats(f *family, m *Model) {
	m.Checkpoint = BF16
	for _, key := range []string{"torch_dtype", "dtype"} {
		switch name := strings.TrimPrefix(r.word(key), "torch."); name {
		case "", "bfloat16", "float16":
		case "float32":
			m.Notes = append(m.Notes, fmt.Sprintf("%s: weights of float32 are served in 16 bits", r.file.where(r.root.members[key].at)))
		default:
			r.refuse(key, r.root.members[key], "must be bfloat16, float16 or float32, not %q", abridged(name))
		}
	}
	const key = "quantization_config"
	_, v := r.get([]string{key})
	if v == nil || v.blank() {
		return
	}
	if v.kind != jsonObject {
		r.refuse(key, v, "must be an object, not %s", v.found())
		return
	}
	if scheme := v.members["kv_cache_scheme"]; scheme != nil && !scheme.blank() {
		m.Notes = append(m.Notes, fmt.Sprintf("%s: %s.kv_cache_scheme was not read: model.kv sets the format of the KV cache", r.file.where(scheme.at), key))
	}
	q := quantised8{r: r, m: m, v: v}
	switch method := v.members["quant_method"]; {
	case method == nil:
		r.refuse(key+".quant_method", v, "is missing: fp8, mxfp4 and compressed-tensors are known")
	case method.text == "fp8" && method.kind == jsonString:
		q.fp8()
	case method.text == "compressed-tensors" && method.kind == jsonString:
		q.compressed()
	case method.text == "mxfp4" && method.kind == jsonString && f.expertBias:
		m.ExpertCheckpoint = MXFP4
		q.leavesOut("modules_to_not_convert", `self_attn|attn`)
	default:
		known := "fp8 and compressed-tensors of 8-bit floats are"
		if f.expertBias {
			known = "mxfp4, fp8 and compressed-tensors of 8-bit floats are"
		}
		r.refuse(key+".quant_method", method,
			"%s is not known of %s; %s; without quantization_config the same structure is read as bf16", method.found(), f.architecture, known)
	}
}

// quantised8 reads a quantization_config of 8-bit floats.
type quantised8 struct {
	r *hfReader
	m *Model
	v *jsonValue
}

func (q quantised8) refuse(key string, v *jsonValue, format string, args ...any) {
	q.r.refuse("quantization_config."+key, v, format, args...)
}

// fp8 reads quant_method fp8: one scale per block of 128 x 128, or per tensor,
// which is counted alike.
func (q quantised8) fp8() {
	if block := q.v.members["weight_block_size"]; block != nil && block.kind != jsonNull {
		ok := block.kind == jsonList && len(block.items) == 2
		for _, side := range block.items {
			n, whole := wholeNumber(side.text)
			ok = ok && side.kind == jsonNumber && whole && n == 128
		}
		if !ok {
			q.refuse("weight_block_size", block, "must be [128, 128] or null")
		}
	}
	q.leavesOut("modules_to_not_convert", "")
	q.leavesOut("ignored_layers", "")
	q.m.Checkpoint = FP8
}

// compressed reads compressed-tensors where every linear layer is quantised to
// floats of 8 bits. Its scales, one per row, are counted as one per block of
// 128 x 128, which is 0.02 % of the weights.
func (q quantised8) compressed() {
	groups := q.v.members["config_groups"]
	if groups == nil || groups.kind != jsonObject || len(groups.keys) == 0 {
		q.refuse("config_groups", q.v, "is missing: it says what is quantised to what")
		return
	}
	for _, name := range groups.keys {
		key := "config_groups." + abridged(name)
		g := groups.members[name]
		w := g.members["weights"]
		if w == nil || w.kind != jsonObject {
			q.refuse(key+".weights", g, "is missing: it says what weights are quantised to")
			return
		}
		bits, kind := w.members["num_bits"], w.members["type"]
		n := 0
		if bits != nil {
			n, _ = wholeNumber(bits.text)
		}
		if n != 8 || kind == nil || kind.text != "float" {
			q.refuse(key+".weights", w, "must be floats of 8 bits; without quantization_config the same structure is read as bf16")
		}
		for _, target := range itemsOf(g.members["targets"]) {
			if target.text != "Linear" {
				q.refuse(key+".targets", target, "must be Linear, not %s", target.found())
			}
		}
	}
	q.leavesOut("ignore", "")
	q.m.Checkpoint = FP8
}

func itemsOf(v *jsonValue) []*jsonValue {
	if v == nil {
		return nil
	}
	return v.items
}

// unquantised are the modules that this package takes to be in bf16 always, and
// those of MTP modules.
var (
	unquantised = []string{"lm_head", "embed_tokens", "gate", "router", "eh_proj", "shared_head", "head", "e_score_correction_bias"}
	layerNumber = regexp.MustCompile(`layers\.(\d+)(\.|$)`)
)

// leavesOut reads a list of modules that are not quantised. One that is counted
// as quantised, unless it matches also, is refused.
func (q quantised8) leavesOut(key, also string) {
	list := q.v.members[key]
	if list == nil || list.kind == jsonNull {
		return
	}
	if list.kind != jsonList {
		q.refuse(key, list, "must be a list, not %s", list.found())
		return
	}
	for i, v := range list.items {
		name := strings.Trim(strings.TrimPrefix(v.text, "re:"), `^$.*\`)
		words := strings.FieldsFunc(name, func(c rune) bool { return strings.ContainsRune(`.*\$^`, c) })
		last := ""
		if len(words) > 0 {
			last = words[len(words)-1]
		}
		if v.kind == jsonString && (slices.Contains(unquantised, last) || strings.Contains(last, "norm") ||
			also != "" && slices.Contains(strings.Split(also, "|"), last) || q.ofMTP(name)) {
			continue
		}
		q.refuse(fmt.Sprintf("%s[%d]", key, i), v,
			"%s stays in 16 bits: this is not known, only that of norms, routers, embeddings and LM head is", v.found())
		return
	}
}

// ofMTP tells whether a module is of a layer behind the last.
func (q quantised8) ofMTP(name string) bool {
	match := layerNumber.FindStringSubmatch(name)
	if match == nil {
		return false
	}
	n, err := strconv.Atoi(match[1])
	return err == nil && n >= q.m.Layers && n < q.m.Layers+q.m.MTPLayers
}
