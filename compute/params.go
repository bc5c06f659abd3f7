package compute

// Weights are counts of parameters by part of the model. Norms are with the part
// that they belong to; scale factors of quantised weights are not parameters.
type Weights struct {
	// Attention, Dense, Shared, Experts and Router are over all layers: the
	// attention projections with their sinks, the MLPs of dense layers, the shared
	// experts, all routed experts, and the routers; biases are with their part.
	Attention, Dense, Shared, Experts, Router int64
	// Norms is all norms, those inside attention included.
	Norms int64
	// Embedding is the input embedding; Head is the LM head, 0 when tied.
	Embedding, Head int64
}

// Total is the sum of the parts.
func (w Weights) Total() int64 {
	return w.Attention + w.Dense + w.Shared + w.Experts + w.Router + w.Norms + w.Embedding + w.Head
}

// DenseLayers returns the number of layers with a dense MLP.
func (m *Model) DenseLayers() int {
	if m.MoE == nil {
		return m.Layers
	}
	return m.MoE.FirstDense
}

// MoELayers returns the number of layers with routed experts.
func (m *Model) MoELayers() int { return m.Layers - m.DenseLayers() }

// attentionWeights counts the projections, the vectors (biases and sinks) and the
// norms of one attention layer.
func (m *Model) attentionWeights() (linear, vectors, norms int64) {
	a, h := &m.Attention, int64(m.Hidden)
	heads := int64(a.Heads)
	if a.OutBias {
		vectors += h
	}
	if a.Kind == MLA {
		q, kv, rope := int64(a.QLoraRank), int64(a.KVLoraRank), int64(a.QKRopeHeadDim)
		nope, v := int64(a.QKNopeHeadDim), int64(a.VHeadDim)
		from := q // what queries are projected up from
		if q == 0 {
			from = h
		}
		if a.QKVBias {
			vectors += q + kv + rope
		}
		down := h * (q + kv + rope)
		up := from*heads*(nope+rope) + kv*heads*(nope+v)
		return down + up + heads*v*h, vectors, q + kv
	}
	d, kv := int64(a.HeadDim), int64(a.KVHeads)
	linear = h*(heads+2*kv)*d + heads*d*h
	if a.QKVBias {
		vectors += (heads + 2*kv) * d
	}
	if a.Sinks {
		vectors += heads
	}
	if a.QKNorm {
		norms = 2 * d
	}
	return linear, vectors, norms
}

// mlpWeights counts a gated MLP (gate, up, down) of the given width.
func (m *Model) mlpWeights(intermediate int) int64 {
	return 3*int64(m.Hidden)*int64(intermediate) + m.mlpBiases(intermediate)
}

// mlpBiases counts the biases among them.
func (m *Model) mlpBiases(intermediate int) int64 {
	if !m.MLPBias || intermediate == 0 {
		return 0
	}
	return 2*int64(intermediate) + int64(m.Hidden)
}

// Weights counts all parameters, without MTP modules.
func (m *Model) Weights() Weights { return m.weights(false) }

// ActiveWeights counts the parameters that one token uses: as Weights, but of
// the routed experts only top_k per layer.
func (m *Model) ActiveWeights() Weights { return m.weights(true) }

func (m *Model) weights(active bool) Weights {
	layers, moe := int64(m.Layers), int64(m.MoELayers())
	linear, vectors, norms := m.attentionWeights()
	w := Weights{
		Attention: layers * (linear + vectors),
		Dense:     int64(m.DenseLayers()) * m.mlpWeights(m.Intermediate),
		Norms:     layers*(norms+2*int64(m.Hidden)) + int64(m.Hidden),
		Embedding: int64(m.Vocab) * int64(m.Hidden),
	}
	if !m.TiedEmbeddings {
		w.Head = w.Embedding
	}
	if e := m.MoE; e != nil {
		routed := e.Experts
		if active {
			routed = e.TopK
		}
		w.Experts = moe * int64(routed) * m.mlpWeights(e.Intermediate)
		w.Shared = moe * m.mlpWeights(e.SharedExperts*e.Intermediate)
		w.Router = moe * int64(e.Experts) * int64(m.Hidden)
		if e.RouterBias {
			w.Router += moe * int64(e.Experts)
		}
	}
	return w
}

// biases counts the biases of the MLPs by part.
func (m *Model) biases() Weights {
	w := Weights{Dense: int64(m.DenseLayers()) * m.mlpBiases(m.Intermediate)}
	if e := m.MoE; e != nil {
		w.Experts = int64(m.MoELayers()) * int64(e.Experts) * m.mlpBiases(e.Intermediate)
		w.Shared = int64(m.MoELayers()) * m.mlpBiases(e.SharedExperts*e.Intermediate)
	}
	return w
}

// TotalParameters counts the parameters of the model, norms, embeddings and LM
// head included, MTP modules and scale factors of quantised weights excluded.
func (m *Model) TotalParameters() int64 { return m.Weights().Total() }

// ActiveParameters counts the parameters that one token uses, the input
// embedding included.
func (m *Model) ActiveParameters() int64 { return m.ActiveWeights().Total() }

// KVElements is the number of KV elements of one token over all layers, not
// sharded. Layers with a window count as the others: so it grows until the window
// is full.
func (m *Model) KVElements() int64 {
	return int64(m.Layers) * m.kvElementsPerLayer(m.Attention.KVHeads)
}

// kvElementsPerLayer counts the KV elements of one token and layer when kvHeads
// KV heads are held; MLA's latent has none to divide.
func (m *Model) kvElementsPerLayer(kvHeads int) int64 {
	a := &m.Attention
	if a.Kind == MLA {
		return int64(a.KVLoraRank) + int64(a.QKRopeHeadDim)
	}
	return 2 * int64(kvHeads) * int64(a.HeadDim)
}

// KVBytesPerToken is the KV of one token over all layers in the given format,
// not sharded. FP8 KV counts one byte per element, without scale factors.
func (m *Model) KVBytesPerToken(kv DType) int64 { return m.KVElements() * int64(kv.size()) }
