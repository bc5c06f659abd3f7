package compute

import "math"

// A gqa is the attention of one GPU in grouped-query form: heads query heads
// share kvHeads KV heads of dimension dim.
type gqa struct{ heads, kvHeads, dim float64 }

// An mla is multi-head latent attention on one GPU (DeepSeek-V2,
// arXiv 2405.04434): heads query heads over one latent of rank latent with a
// rotary part of dimension rope. Decode works on the latent ("absorbed");
// prefill on keys of dimension nope+rope and values of dimension value.
type mla struct{ heads, latent, rope, nope, value float64 }

// A decodeBatch is what decode attention sees: requests with query tokens each,
// over kv cached tokens in all.
type decodeBatch struct{ requests, query, kv float64 }

// A prefillBatch is what prefill attention sees, summed over its chunks.
type prefillBatch struct {
	// tokens is new tokens, context those whose KV is already there.
	tokens, context float64
	// pairs is sum of S (S/2 + C): query-key pairs of a chunk of S new tokens
	// behind C.
	pairs float64
	// window is how many keys a query token of a windowed layer sees, 0 when
	// there are none; windowContext and windowPairs are context and pairs there.
	window, windowContext, windowPairs float64
}

func (b *prefillBatch) add(tokens, context float64) {
	b.tokens += tokens
	b.context += context
	b.pairs += float64(tokens * (float64(tokens/2) + context))
	if b.window == 0 {
		return
	}
	b.windowContext += math.Min(context, b.window)
	// The first tokens see all before them, the rest see the window.
	growing := math.Min(math.Max(b.window-context, 0), tokens)
	b.windowPairs += float64(growing*(float64(growing/2)+math.Min(context, b.window))) + float64(b.window*(tokens-growing))
}

// inWindow is the batch as a windowed layer sees it.
func (b *prefillBatch) inWindow() prefillBatch {
	return prefillBatch{tokens: b.tokens, context: b.windowContext, pairs: b.windowPairs}
}

// inWindow is the batch as a layer with the window sees it: the query tokens of
// a request see window keys each, shifted by one. It is exact when no context is
// shorter than that, or none is longer; between, it is an upper bound.
func (b decodeBatch) inWindow(window int) decodeBatch {
	b.kv = math.Min(b.kv, float64(b.requests*(float64(window)+b.query-1)))
	return b
}

// gqaDecode is the time of decode attention in microseconds:
//
//	Tc = 4 kv kvHeads rows dim / (bf16 peak Eff), rows the padded group
//	Tm = (2 kv kvHeads dim of KV + 2 query heads dim bf16 of Q and O) / (HBM BWEff)
//
// The query tokens of one request share the KV that is read, so they are rows of
// the same group.
func (p *Profile) gqaDecode(g gqa, b decodeBatch, kv DType) float64 {
	c := &p.Kernels.GQADecode.Constants
	eff, bwEff := c.effs(kv)
	rows := padded(float64(b.query*g.heads)/g.kvHeads, c.PadRows)
	tc := 4e6 * b.kv * g.kvHeads * rows * g.dim / (p.PeakBF16.Value * eff)
	bytes := float64(2*kv.size()*b.kv*g.kvHeads*g.dim) + float64(4*b.requests*b.query*g.heads*g.dim)
	tm := 1e6 * bytes / (p.HBM.Value.BytesPerSecond() * bwEff)
	return c.T0.Microseconds() + norm3(tc, tm)
}

// mlaDecode is the time of absorbed MLA decode in microseconds:
//
//	Tc = 2 kv rows (latent + rope + latent) / (bf16 peak Eff), rows = query heads, padded
//	Tm = (kv (latent + rope) of KV + query heads (2 latent + rope) bf16 of Q and O) / (HBM BWEff)
func (p *Profile) mlaDecode(a mla, b decodeBatch, kv DType) float64 {
	c := &p.Kernels.MLADecode.Constants
	eff, bwEff := c.effs(kv)
	rows := padded(float64(b.query*a.heads), c.PadRows)
	width := float64(2*a.latent) + a.rope
	tc := 2e6 * b.kv * rows * width / (p.PeakBF16.Value * eff)
	bytes := float64(kv.size()*b.kv*(a.latent+a.rope)) + float64(2*b.requests*b.query*a.heads*width)
	tm := 1e6 * bytes / (p.HBM.Value.BytesPerSecond() * bwEff)
	return c.T0.Microseconds() + norm3(tc, tm)
}

// prefill is the time of a causal attention in microseconds:
//
//	t = T0 + 2 heads (key + value dimension) (pairs + tokens S0 / 2) / (bf16 peak Eff)
//
// The fit has no memory term because whole prompts never need one. A few new
// tokens behind a long context would then be served faster than their KV can be
// read, so bytes at the HBM's full rate are a floor.
func (p *Profile) prefill(c *AttentionPrefill, share, heads, dims float64, b prefillBatch, bytes float64) float64 {
	pairs := b.pairs + float64(b.tokens*c.S0/2)
	tc := 2e6 * heads * dims * pairs / (p.PeakBF16.Value * share * c.Eff)
	tm := 1e6 * bytes / p.HBM.Value.BytesPerSecond()
	return c.T0.Microseconds() + math.Max(tc, tm)
}

// gqaPrefill is the time of GQA prefill in microseconds.
func (p *Profile) gqaPrefill(g gqa, share float64, b prefillBatch, kv DType) float64 {
	bytes := float64(2*kv.size()*(b.tokens+b.context)*g.kvHeads*g.dim) + float64(4*b.tokens*g.heads*g.dim)
	return p.prefill(&p.Kernels.GQAPrefill.Constants, share, g.heads, 2*g.dim, b, bytes)
}

// mlaPrefill is the time of MLA prefill in microseconds, on keys and values that
// were projected up from the latent in bf16.
func (p *Profile) mlaPrefill(a mla, share float64, b prefillBatch) float64 {
	dims := a.nope + a.rope + a.value
	bytes := float64(2 * a.heads * dims * (b.tokens + b.tokens + b.context))
	return p.prefill(&p.Kernels.MLAPrefill.Constants, share, a.heads, dims, b, bytes)
}
