package compute

import "github.com/tgssim/tgssim/sim"

// shape holds the sizes of the work of one GPU of a rank, as the kernels take
// them.
type shape struct {
	hidden    float64
	heads     float64 // query heads
	kvHeads   float64
	vocab     float64
	dense     float64 // width of the dense MLP
	shared    float64 // width of the shared experts
	inputSize float64 // bytes of an activation as a linear layer takes it
	fp8       bool    // activations are quantised for linear layers
}

func newShape(m *Model, s Setup) shape {
	a, input := &m.Attention, s.formats(s.Weights).activations
	sh := shape{
		hidden:    float64(m.Hidden),
		heads:     float64(a.Heads / s.TP),
		kvHeads:   float64(localKVHeads(m, s.TP)),
		vocab:     float64(ceilDiv(m.Vocab, s.TP)),
		dense:     float64(m.Intermediate / s.TP),
		inputSize: input.size(),
		fp8:       input == FP8,
	}
	if e := m.MoE; e != nil {
		sh.shared = float64(e.SharedExperts * e.Intermediate / s.TP)
	}
	return sh
}

// localKVHeads is the number of KV heads that one of tp GPUs holds.
func localKVHeads(m *Model, tp int) int { return ceilDiv(m.Attention.KVHeads, tp) }

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// A tally adds up the kernels of a part of a layer.
type tally struct {
	gpu   *Profile
	share float64
	// formats are those of the layer's linear layers.
	formats formats
	us      float64
	kernels int
}

// formats are those of linear layers with weights in w.
func (s *Setup) formats(w DType) formats {
	if s.Activations == BF16 {
		return formats{w, BF16}
	}
	return formats{w, w.activation()}
}

func (r *Rank) tally(share float64) tally {
	return tally{gpu: &r.gpu, share: share, formats: r.setup.formats(r.setup.Weights)}
}

// gemm adds a dense GEMM in the formats of the layer.
func (t *tally) gemm(m, k, n float64) {
	t.us += t.gpu.dense(t.formats, t.share, m, k, n)
	t.kernels++
}

// gemmBF16 adds a dense GEMM in bf16.
func (t *tally) gemmBF16(m, k, n float64) {
	t.us += t.gpu.dense(in(BF16), t.share, m, k, n)
	t.kernels++
}

// batched adds a bf16 GEMM per head.
func (t *tally) batched(m, heads, k, n float64) {
	t.us += t.gpu.batched(t.share, m, heads, k, n)
	t.kernels++
}

// move adds n element-wise kernels that move bytes together.
func (t *tally) move(n int, bytes float64) {
	t.us += t.gpu.elementwise(n, bytes)
	t.kernels += n
}

// launched counts kernels whose time is accounted for elsewhere.
func (t *tally) launched(n int) { t.kernels += n }

// inGraph is the sum with a launch gap per kernel, in microseconds.
func (t *tally) inGraph() float64 {
	return t.us + float64(float64(t.kernels)*t.gpu.Kernels.LaunchGap.Constants.T0.Microseconds())
}

// prefillLayer computes the parts of a layer for m tokens of prompt.
func (r *Rank) prefillLayer(m int) layerTimes {
	tokens := float64(m)
	attnIn, attnOut, shared, dense := r.tally(r.share), r.tally(r.share), r.tally(r.share), r.tally(1)
	r.attention(&attnIn, &attnOut, tokens, false)
	r.sharedExpert(&shared, tokens, false)
	r.denseMLP(&dense, tokens, false)
	return layerTimes{in: r.time(attnIn.us), out: r.time(attnOut.us), shared: r.time(shared.us), dense: r.time(dense.us)}
}

// decodeLayer computes the parts of a layer for m query tokens.
func (r *Rank) decodeLayer(m int) layerTimes {
	tokens := float64(m)
	attnIn, attnOut, shared, dense := r.tally(1), r.tally(1), r.tally(1), r.tally(1)
	r.attention(&attnIn, &attnOut, tokens, true)
	r.sharedExpert(&shared, tokens, true)
	r.denseMLP(&dense, tokens, true)
	return layerTimes{
		in: r.time(attnIn.inGraph()), out: r.time(attnOut.inGraph()),
		shared: r.time(shared.inGraph()), dense: r.time(dense.inGraph()),
	}
}

// attention adds the kernels before and after the attention core, which is added
// apart because it depends on the context.
func (r *Rank) attention(in, out *tally, m float64, decode bool) {
	if r.model.Attention.Kind == MLA {
		r.mlaIn(in, m, decode)
		r.mlaOut(out, m, decode)
	} else {
		r.gqaIn(in, m)
		r.gqaOut(out, m, decode)
	}
	if e := r.model.MoE; e != nil {
		out.gemmBF16(m, r.shape.hidden, float64(e.Experts))
	}
}

// mlaIn adds norm, projections to and from the latents, rope and KV write. In
// decode the keys' up-projection is absorbed into the query, one GEMM per head.
func (r *Rank) mlaIn(t *tally, m float64, decode bool) {
	a, s := &r.model.Attention, &r.shape
	h := float64(2 * m * s.hidden)
	q, kv, rope := float64(a.QLoraRank), float64(a.KVLoraRank), float64(a.QKRopeHeadDim)
	nope, v := float64(a.QKNopeHeadDim), float64(a.VHeadDim)
	down := q + kv + rope

	t.gemm(m, s.hidden, down)
	if q > 0 {
		t.gemm(m, q, s.heads*(nope+rope))
	} else { // queries straight from the stream
		t.gemm(m, s.hidden, s.heads*(nope+rope))
	}
	// Norm reads the stream and the residual, and writes the residual and the
	// quantised input; the latents are normalised, q's quantised; rope turns q.
	bytes := float64(3*h) + float64(s.inputSize*m*s.hidden) + float64(m*s.heads*rope*4)
	kernels := 4
	if s.fp8 && q > 0 {
		bytes += float64(m * q * 3)
		kernels++
	}
	if decode {
		t.batched(m, s.heads, nope, kv)
		t.move(kernels, bytes+float64(m*down*6))
		return
	}
	t.gemm(m, kv, s.heads*(nope+v))
	// Keys and values are assembled per head.
	bytes += float64(m*down*4) + float64(m*s.heads*(2*(nope+v)+2*(nope+rope)))
	t.move(kernels+1, bytes)
}

// mlaOut adds the output projection and the second norm. In decode the values'
// up-projection comes first, one GEMM per head.
func (r *Rank) mlaOut(t *tally, m float64, decode bool) {
	a, s := &r.model.Attention, &r.shape
	h := float64(2 * m * s.hidden)
	nope, v := float64(a.QKNopeHeadDim), float64(a.VHeadDim)
	if decode {
		t.launched(2) // the core: split over the KV, then merge
		// From the latent to values: counted in the keys' direction, where flops
		// and bytes are the same.
		t.batched(m, s.heads, nope, float64(a.KVLoraRank))
	}
	t.gemm(m, s.heads*v, s.hidden)
	bytes := float64(3*h) + float64(s.inputSize*m*s.hidden)
	kernels := 3
	if s.fp8 {
		bytes += float64(m * s.heads * v * 3)
		kernels++
	}
	t.move(kernels, bytes)
}

// gqaIn adds norm, QKV projection, per-head norms, rope and KV write.
func (r *Rank) gqaIn(t *tally, m float64) {
	a, s := &r.model.Attention, &r.shape
	h := float64(2 * m * s.hidden)
	d := float64(a.HeadDim)
	t.gemm(m, s.hidden, (s.heads+s.kvHeads+s.kvHeads)*d)
	// Norm reads and writes the stream and the residual; rope reads and writes q
	// and k; the KV write reads and writes k and v.
	bytes := float64(4*h) + float64(m*(s.heads+s.kvHeads)*a.rotary()*4) +
		float64(m*2*s.kvHeads*d*(2+r.setup.KV.size()))
	kernels := 3
	if a.QKNorm {
		kernels += 2
	}
	if s.fp8 {
		bytes += float64(1.5 * h)
		kernels++
	}
	t.move(kernels, bytes)
}

// gqaOut adds output projection, second norm and, in decode, the merge of the
// core's splits.
func (r *Rank) gqaOut(t *tally, m float64, decode bool) {
	a, s := &r.model.Attention, &r.shape
	width := s.heads * float64(a.HeadDim)
	t.gemm(m, width, s.hidden)
	bytes := float64(4 * 2 * m * s.hidden)
	kernels := 1
	if decode {
		t.launched(1) // the core
		kernels++
	}
	if s.fp8 {
		bytes += float64(m * width * 3)
		kernels++
	}
	if e := r.model.MoE; e != nil {
		bytes += float64(m * float64(e.Experts) * 16) // softmax and top-k in fp32
		kernels++
	}
	t.move(kernels, bytes)
}

// sharedExpert adds the shared experts of a MoE layer, if any.
func (r *Rank) sharedExpert(t *tally, m float64, decode bool) {
	s := &r.shape
	if s.shared == 0 {
		return
	}
	h := float64(2 * m * s.hidden)
	t.gemm(m, s.hidden, 2*s.shared)
	t.gemm(m, s.shared, s.hidden)
	// SwiGLU reads gate and up and writes the quantised product; the result is
	// added to that of the routed experts.
	bytes := float64(m * s.shared * (4 + s.inputSize))
	if decode {
		t.move(2, bytes+float64(1.5*h))
		return
	}
	t.move(3, bytes+float64(2*h))
}

// denseMLP adds the MLP of a dense layer, if any.
func (r *Rank) denseMLP(t *tally, m float64, decode bool) {
	s := &r.shape
	if r.model.DenseLayers() == 0 {
		return
	}
	h := float64(2 * m * s.hidden)
	t.gemm(m, s.hidden, 2*s.dense)
	t.gemm(m, s.dense, s.hidden)
	bytes := float64(m * s.dense * 6) // SwiGLU: gate and up in, product out
	switch {
	case r.model.Attention.Kind == MLA: // DeepSeek's kernels quantise as they go
		if !decode {
			bytes += float64(2 * h)
		}
		t.move(2, bytes)
	case s.fp8:
		t.move(3, bytes+float64(1.5*h)+float64(m*s.dense*3))
	default:
		t.move(1, bytes)
	}
}

// prefillCore is the attention core of a layer, in microseconds. MLA keeps only
// latents, so the context's keys and values are projected up again.
func (r *Rank) prefillCore(b prefillBatch) float64 {
	if r.model.Attention.Kind != MLA {
		full := r.gpu.gqaPrefill(r.gqa(), r.share, b, r.setup.KV)
		if r.model.Attention.WindowedLayers == 0 {
			return full
		}
		return r.meanCore(full, r.gpu.gqaPrefill(r.gqa(), r.share, b.inWindow(), r.setup.KV))
	}
	a := r.mla()
	us := r.gpu.mlaPrefill(a, r.share, b)
	if b.context > 0 {
		us += r.gpu.dense(r.setup.formats(r.setup.Weights), r.share, b.context, a.latent, a.heads*(a.nope+a.value))
	}
	return us
}

// decodeCore is the attention core of a layer, in microseconds.
func (r *Rank) decodeCore(b decodeBatch) float64 {
	if r.model.Attention.Kind == MLA {
		return r.gpu.mlaDecode(r.mla(), b, r.setup.KV)
	}
	full := r.gpu.gqaDecode(r.gqa(), b, r.setup.KV)
	if r.model.Attention.WindowedLayers == 0 {
		return full
	}
	return r.meanCore(full, r.gpu.gqaDecode(r.gqa(), b.inWindow(r.model.Attention.Window), r.setup.KV))
}

// meanCore is the mean over the layers of a core that takes full microseconds
// over the whole context and windowed over the window.
func (r *Rank) meanCore(full, windowed float64) float64 {
	share := float64(r.model.Attention.WindowedLayers) / float64(r.model.Layers)
	return float64(full*(1-share)) + float64(windowed*share)
}

func (r *Rank) gqa() gqa {
	return gqa{heads: r.shape.heads, kvHeads: r.shape.kvHeads, dim: float64(r.model.Attention.HeadDim)}
}

func (r *Rank) mla() mla {
	a := &r.model.Attention
	return mla{
		heads: r.shape.heads, latent: float64(a.KVLoraRank), rope: float64(a.QKRopeHeadDim),
		nope: float64(a.QKNopeHeadDim), value: float64(a.VHeadDim),
	}
}

// experts is the time of the routed experts of a layer on the busiest GPU, in
// microseconds.
func (r *Rank) experts(prefill bool, groupTokens int64, imbalance float64) float64 {
	e, ep := r.model.MoE, float64(r.setup.EP)
	tokens, topK, total := float64(groupTokens), float64(e.TopK), float64(e.Experts)
	rows := float64(tokens * topK / ep * imbalance)
	active := float64(total / ep * (1 - power(1-topK/total, groupTokens)))
	// unique is the tokens of the group with at least one expert on this GPU.
	unique := float64(tokens * (1 - power(1-1/ep, int64(e.TopK))))
	return r.routed(prefill, &groupLoad{rows: rows, active: active}, unique)
}

// routed is the time of the routed experts of a layer on one GPU, in
// microseconds: two grouped GEMMs over its rows, and the kernels that move them.
func (r *Rank) routed(prefill bool, load *groupLoad, unique float64) float64 {
	t := r.tally(1)
	t.formats = r.setup.formats(r.setup.ExpertWeights)
	if prefill {
		t.share = r.share
	}
	h, w := r.shape.hidden, float64(r.model.MoE.Intermediate)
	rows := load.rows
	t.us += r.gpu.groupedLoad(prefill, t.formats, t.share, load, h, 2*w)
	t.us += r.gpu.groupedLoad(prefill, t.formats, t.share, load, w, h)
	t.kernels += 2

	size := t.formats.activations.size()
	swiglu := float64(rows * w * (4 + size))
	reduce := float64(2 * h * (rows + unique))
	switch {
	case r.setup.EP == 1: // the GEMM gathers its rows; sort, SwiGLU, reduce
		t.move(4, swiglu+reduce)
	case prefill || r.setup.LocalPermute:
		t.move(4, swiglu+reduce+float64(size*h*(rows+unique)))
	default: // DeepEP low latency
		t.move(1, swiglu)
	}
	if prefill {
		return t.us
	}
	return t.inGraph()
}

// headTime is LM head and sampling of rows tokens. Sampling is six kernels that
// move the logits three times in bf16 between them.
func (r *Rank) headTime(rows int) sim.Time {
	t := r.tally(1)
	m := float64(rows)
	t.gemmBF16(m, r.shape.hidden, r.shape.vocab)
	t.move(6, float64(m*r.shape.vocab*6))
	return r.time(t.us)
}

// power is x^n for n >= 0, by squaring: products only, so the same everywhere.
func power(x float64, n int64) float64 {
	y := 1.0
	for ; n > 0 && y > 0; n >>= 1 {
		if n&1 == 1 {
			y *= x
		}
		x *= x
	}
	return float64(y)
}
