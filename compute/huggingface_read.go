package compute

import (
	"fmt"
	"strconv"
)

// model reads the structure. It goes on after a problem, so that all are told at
// once; what it returns then is of no use.
func (r *hfReader) model(f *family) *Model {
	m := &Model{
		Architecture: f.architecture,
		Layers:       r.required(keysLayers, 1, maxLayers),
		Hidden:       r.required(keysHidden, 1, maxSize),
		Vocab:        r.required(keysVocab, 1, maxVocab),
		// Absent means false in every family.
		TiedEmbeddings: r.flag([]string{"tie_word_embeddings"}, false),
		MLPBias:        f.expertBias,
	}
	if f.mlpBias {
		m.MLPBias = r.flag([]string{"mlp_bias"}, false)
	}
	if f.mtp {
		m.MTPLayers = r.optional(keysMTP, 0, maxMTP, 0)
	}
	if f.mla {
		r.latentAttention(f, m)
	} else {
		r.groupedAttention(f, m)
	}
	r.biases(f, &m.Attention)
	if f.experts {
		r.experts(f, m)
	}
	if m.DenseLayers() > 0 {
		m.Intermediate = r.required(keysWidth, 1, maxSize)
	} else {
		r.read[keysWidth[0]] = true // Qwen3-MoE states it, and uses it nowhere
	}
	r.formats(f, m)
	return m
}

func (r *hfReader) groupedAttention(f *family, m *Model) {
	a := &m.Attention
	a.Kind, a.Sinks = GQA, f.sinks
	a.Heads = r.required(keysHeads, 1, maxHeads)
	switch key, v := r.get(keysKVHeads); {
	case v != nil && v.kind == jsonNull || v == nil && f.multiHead:
		a.KVHeads = a.Heads
	case v == nil:
		r.missing(keysKVHeads, "write it, or null if every one of the query heads has its own")
	default:
		a.KVHeads = r.whole(key, v, 1, maxHeads, 0)
		if a.Heads > 0 && a.KVHeads > 0 && a.Heads%a.KVHeads != 0 {
			r.refuse(key, v, "must divide num_attention_heads (%d), not %d", a.Heads, a.KVHeads)
		}
	}
	r.headDim(f, m)
	switch f.norm {
	case normAlways:
		if a.QKNorm = r.flag([]string{"use_qk_norm"}, true); !a.QKNorm {
			r.refuse("use_qk_norm", r.root.members["use_qk_norm"], "is false, but %s always normalises queries and keys", f.architecture)
		}
	case normByKey:
		a.QKNorm = r.flag([]string{"use_qk_norm"}, false)
	}
	r.rotary(f, a)
	r.window(f, m)
}

// headDim reads head_dim, which need not be hidden_size over heads.
func (r *hfReader) headDim(f *family, m *Model) {
	a := &m.Attention
	if a.HeadDim = r.optional(keysHeadDim, 1, maxHeadDim, f.headDim); a.HeadDim > 0 || a.Heads == 0 || m.Hidden == 0 {
		return
	}
	a.HeadDim = m.Hidden / a.Heads
	if a.HeadDim > maxHeadDim || m.Hidden%a.Heads != 0 {
		r.missing(keysHeadDim, "hidden_size (%d) over num_attention_heads (%d) is not a whole number from 1 to %d", m.Hidden, a.Heads, maxHeadDim)
	}
}

// rotary reads partial_rotary_factor, which newer files have among the
// parameters of the rotary embedding.
func (r *hfReader) rotary(f *family, a *Attention) {
	key := "partial_rotary_factor"
	_, v := r.get([]string{key})
	if rope := r.root.members["rope_parameters"]; v == nil && rope != nil && rope.kind == jsonObject {
		v, key = rope.members[key], "rope_parameters."+key
	}
	if v == nil || v.kind == jsonNull {
		if f.halfRotary {
			a.RotaryDim = a.HeadDim / 2
		}
		return
	}
	factor, err := strconv.ParseFloat(v.text, 64)
	dims := int(float64(a.HeadDim) * factor)
	if v.kind != jsonNumber || err != nil || !(factor > 0 && factor <= 1) || a.HeadDim > 0 && dims < 1 {
		r.refuse(key, v, "must be above 0 and at most 1, with at least one dimension of a head, not %s", v.found())
		return
	}
	if dims < a.HeadDim {
		a.RotaryDim = dims
	}
}

// window reads which layers see a sliding window.
func (r *hfReader) window(f *family, m *Model) {
	sliding := []string{"sliding_window"}
	first := 0 // the layer from which on all have the window
	switch f.window {
	case windowNone:
		return // a window that is not off is an unknown key
	case windowAll:
		if f.architecture == "MistralForCausalLM" && !r.given(sliding) {
			r.missing(sliding, "write it, or null if there is none")
		}
	case windowByKey, windowAllByKey:
		r.read["max_window_layers"] = true
		if !r.flag([]string{"use_sliding_window"}, false) {
			r.read["sliding_window"] = true
			r.layerTypes(m, false)
			return
		}
		if f.window == windowByKey {
			first = r.optional([]string{"max_window_layers"}, 0, maxLayers, 28)
		}
	}
	window := r.optional(sliding, 0, maxWindow, 0)
	if window == 0 {
		if f.window == windowAlternating {
			r.missing(sliding, "write a whole number from 1 to %d", maxWindow)
		}
		r.layerTypes(m, false)
		return
	}
	windowed, listed := r.layerTypes(m, true)
	switch {
	case listed:
	case f.window == windowAlternating:
		windowed = (m.Layers + 1) / 2
	default:
		windowed = max(0, m.Layers-first)
	}
	if windowed > 0 {
		m.Attention.Window, m.Attention.WindowedLayers = window, windowed
	}
}

// layerTypes counts the windowed layers of layer_types; listed is false when
// there is no such list.
func (r *hfReader) layerTypes(m *Model, window bool) (windowed int, listed bool) {
	const key = "layer_types"
	list := r.list(key)
	if list == nil {
		return 0, false
	}
	if m.Layers > 0 && len(list.items) != m.Layers {
		r.refuse(key, list, "must name all %d layers, not %d", m.Layers, len(list.items))
	}
	for i, v := range list.items {
		switch {
		case v.kind == jsonString && v.text == "full_attention":
		case v.kind == jsonString && v.text == "sliding_attention" && window:
			windowed++
		case v.kind == jsonString && v.text == "sliding_attention":
			r.refuse(fmt.Sprintf("%s[%d]", key, i), v, "is sliding_attention, but no sliding window is in use")
			return 0, true
		default:
			r.refuse(fmt.Sprintf("%s[%d]", key, i), v, "must be full_attention or sliding_attention, not %s", v.found())
			return 0, true
		}
	}
	return windowed, true
}

func (r *hfReader) latentAttention(f *family, m *Model) {
	a := &m.Attention
	a.Kind = MLA
	a.Heads = r.required(keysHeads, 1, maxHeads)
	rank := []string{"q_lora_rank"}
	if !r.given(rank) {
		r.missing(rank, "write it, or null if queries are projected directly")
	}
	a.QLoraRank = r.optional(rank, 0, maxSize, 0)
	a.KVLoraRank = r.required([]string{"kv_lora_rank"}, 1, maxSize)
	a.QKNopeHeadDim = r.required([]string{"qk_nope_head_dim"}, 1, maxHeadDim)
	a.QKRopeHeadDim = r.required([]string{"qk_rope_head_dim"}, 1, maxHeadDim)
	a.VHeadDim = r.required([]string{"v_head_dim"}, 1, maxHeadDim)
	// What follows from the others, in files of newer libraries.
	r.read["num_key_value_heads"], r.read["head_dim"] = true, true
	if key, v := r.get([]string{"qk_head_dim"}); v != nil && v.kind != jsonNull {
		if want := a.QKNopeHeadDim + a.QKRopeHeadDim; len(r.problems) == 0 && r.whole(key, v, 0, 2*maxHeadDim, want) != want {
			r.refuse(key, v, "must be qk_nope_head_dim + qk_rope_head_dim (%d), not %s", want, v.found())
		}
	}
}

// biases reads which projections of attention have one.
func (r *hfReader) biases(f *family, a *Attention) {
	all := []string{"attention_bias"}
	switch f.bias {
	case biasNone:
		return
	case biasQKV:
		a.QKVBias = r.flag(all, false)
	case biasAll:
		a.QKVBias = r.flag(all, f.sinks)
		a.OutBias = a.QKVBias
	case biasQKVAlways:
		a.QKVBias = true
		for _, key := range []string{all[0], keysQKVBias[0]} {
			if !r.flag([]string{key}, true) {
				r.refuse(key, r.root.members[key], "is false, but %s always has biases on queries, keys and values", f.architecture)
			}
		}
	}
	a.QKVBias = r.flag(keysQKVBias, a.QKVBias)
	a.OutBias = r.flag(keysOutBias, a.OutBias)
}

func (r *hfReader) experts(f *family, m *Model) {
	key, v := r.get(keysExperts)
	switch {
	case v == nil && f.placed:
		r.missing(keysExperts, "write it, or null if every layer is dense")
		r.leaveExperts()
		return
	case v == nil || v.kind == jsonNull && !f.placed:
		r.missing(keysExperts, "write a whole number from 2 to %d", maxExperts)
		r.leaveExperts()
		return
	}
	if f.placed && v.blank() && (v.kind == jsonNull || v.kind == jsonNumber) { // dense throughout, and the rest is unused
		r.leaveExperts()
		return
	}
	e := &MoE{Groups: 1, TopGroups: 1, RouterBias: f.routerBias}
	m.MoE = e
	if e.Experts = r.whole(key, v, 2, maxExperts, 0); e.Experts == 0 { // what else is said of them has no measure
		r.leaveExperts()
		return
	}
	e.TopK = r.required(keysTopK, 1, e.Experts)
	e.Intermediate = r.required(f.expertWidth, 1, maxSize)
	if f.shared {
		if !r.given(keysShared) {
			r.missing(keysShared, "write it, or null if there is none")
		}
		e.SharedExperts = r.optional(keysShared, 0, maxSharedExperts, 0)
	}
	if f.groups {
		r.groups(f, e)
	}
	if m.Layers == 0 {
		r.leaveExperts()
		return
	}
	if f.placed {
		e.FirstDense = r.denseLayers(m)
	}
	if e.FirstDense >= m.Layers {
		m.MoE = nil
	}
}

// leaveExperts passes over what a file says of experts beside their number.
func (r *hfReader) leaveExperts() {
	for _, keys := range [][]string{keysTopK, keysShared, keysMoEWidth, keysGroups, keysTopGroup, {
		"first_k_dense_replace", "moe_layer_freq", "decoder_sparse_step", "mlp_only_layers", "mlp_layer_types"}} {
		for _, k := range keys {
			r.read[k] = true
		}
	}
}

// groups reads what limits routing to groups of experts.
func (r *hfReader) groups(f *family, e *MoE) {
	method := r.word("topk_method")
	key, v := r.get(keysGroups)
	if v == nil && f.mtp && f.mla && method != "greedy" { // the default of the class is 8 groups
		r.missing(keysGroups, "write it, or null if a token's experts may lie in any group")
	}
	e.Groups = r.optional(keysGroups, 1, e.Experts, 1)
	e.TopGroups = r.optional(keysTopGroup, 1, e.Groups, e.Groups)
	if v != nil && e.Experts%e.Groups != 0 {
		r.refuse(key, v, "must divide the %d experts, not %d", e.Experts, e.Groups)
	}
	if f.mla {
		switch at := r.root.members["topk_method"]; method {
		case "greedy":
			e.Groups, e.TopGroups, e.RouterBias = 1, 1, false
		case "group_limited_greedy":
			e.RouterBias = false
		case "noaux_tc": // DeepSeek-V3, arXiv 2412.19437, section 2.1.2
			e.RouterBias = true
		case "":
		default:
			r.refuse("topk_method", at, "must be greedy, group_limited_greedy or noaux_tc, not %s", at.found())
		}
	}
}

// denseLayers counts the layers without experts. All that says so must hold: a
// layer has experts when first_k_dense_replace is behind, moe_layer_freq and
// decoder_sparse_step meet it, and mlp_only_layers and mlp_layer_types do not
// except it.
func (r *hfReader) denseLayers(m *Model) int {
	dense := make([]bool, m.Layers)
	if r.family == "Qwen3MoeForCausalLM" {
		step := r.optional([]string{"decoder_sparse_step"}, 1, maxLayers, 1)
		for i := range dense {
			dense[i] = (i+1)%step != 0
		}
		for i, v := range itemsOf(r.list("mlp_only_layers")) {
			if layer := r.whole(fmt.Sprintf("mlp_only_layers[%d]", i), v, 0, max(0, m.Layers-1), 0); layer < m.Layers {
				dense[layer] = true
			}
		}
	} else {
		first := []string{"first_k_dense_replace"}
		for i := range r.optional(first, 0, m.Layers, 0) {
			dense[i] = true
		}
		listed := r.layerList("mlp_layer_types", dense)
		listed = r.layerFrequency(dense) || listed
		if !r.given(first) && !listed {
			r.missing(first, "write how many of the first layers are dense, 0 if none")
		}
	}
	n, leading := 0, 0
	for i, d := range dense {
		if d {
			n++
		}
		if n == i+1 {
			leading = n
		}
	}
	if n > leading {
		m.Notes = append(m.Notes, fmt.Sprintf("%s: dense layers lie between MoE layers; they are simulated before them", r.file.name))
	}
	return n
}

// layerFrequency marks dense layers by moe_layer_freq: a number (every so many
// layers have experts) or a list by layer.
func (r *hfReader) layerFrequency(dense []bool) (listed bool) {
	const key = "moe_layer_freq"
	_, v := r.get([]string{key})
	switch {
	case v == nil || v.kind == jsonNull:
	case v.kind == jsonList:
		return r.layerList(key, dense)
	default:
		freq := r.whole(key, v, 1, maxLayers, 1)
		for i := range dense {
			dense[i] = dense[i] || i%freq != 0
		}
	}
	return false
}

// layerList marks dense layers by a list that says of each layer whether it has
// experts: 1 or "sparse", or not: 0 or "dense".
func (r *hfReader) layerList(key string, dense []bool) (listed bool) {
	list := r.list(key)
	if list == nil {
		return false
	}
	if len(list.items) != len(dense) {
		r.refuse(key, list, "must say of all %d layers, not of %d, whether they have experts", len(dense), len(list.items))
		return true
	}
	for i, v := range list.items {
		n, ok := wholeNumber(v.text)
		switch {
		case v.kind == jsonNumber && ok && n == 0, v.kind == jsonString && v.text == "dense":
			dense[i] = true
		case v.kind == jsonNumber && ok && n == 1, v.kind == jsonString && v.text == "sparse":
		default:
			r.refuse(fmt.Sprintf("%s[%d]", key, i), v, `must be 0 or "dense", 1 or "sparse", not %s`, v.found())
			return true
		}
	}
	return true
}
