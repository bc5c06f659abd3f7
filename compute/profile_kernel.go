package compute

// A Kernel is one call, as a benchmark would make it alone on the GPU. Which
// sizes count depends on the class; all others are ignored. Sizes are float64
// counts, exact up to 2^53.
type Kernel struct {
	// Class is the name in a profile file: "gemm_fp8".
	Class string
	// DType is the format of the weights of a grouped GEMM (an mxfp4 one has bf16
	// activations), and of the KV that attention reads.
	DType DType

	// GEMMs: C[M,N] = A[M,K] W[K,N]; a grouped one has RowsPerExpert rows for
	// each of Experts experts in place of M.
	M, N, K                float64
	Experts, RowsPerExpert float64

	// Attention: Heads query heads. GQA has KVHeads KV heads of HeadDim, MLA the
	// dimensions of the latent, of its rotary part, and of keys and values.
	Heads, KVHeads, HeadDim            float64
	Latent, RopeDim, NopeDim, ValueDim float64
	// Decode: Batch requests with QueryTokens query tokens over KVLen cached
	// tokens each.
	Batch, KVLen, QueryTokens float64
	// Prefill: Sequences chunks of SeqLen new tokens behind ContextLen cached
	// ones, causal.
	Sequences, SeqLen, ContextLen float64

	// Bytes is what element-wise kernels move between them, Kernels how many they
	// are; for launch_gap, how many gaps the time is of.
	Bytes, Kernels float64
}

// KernelTime returns the time of a kernel in microseconds, without the derate of
// a running system. A class that does not exist takes no time.
func (p *Profile) KernelTime(k *Kernel) float64 {
	grouped := formats{k.DType, k.DType.activation()}
	switch k.Class {
	case "gemm_fp8":
		return p.dense(in(FP8), 1, k.M, k.K, k.N)
	case "gemm_bf16":
		return p.dense(in(BF16), 1, k.M, k.K, k.N)
	case "grouped_contiguous":
		return p.grouped(true, grouped, 1, k.Experts, k.RowsPerExpert, k.K, k.N)
	case "grouped_masked":
		return p.grouped(false, grouped, 1, k.Experts, k.RowsPerExpert, k.K, k.N)
	case "gqa_decode":
		return p.gqaDecode(gqa{k.Heads, k.KVHeads, k.HeadDim}, k.decode(), k.DType)
	case "mla_decode":
		return p.mlaDecode(k.mla(), k.decode(), k.DType)
	case "gqa_prefill":
		return p.gqaPrefill(gqa{k.Heads, k.KVHeads, k.HeadDim}, 1, k.prefill(), k.DType)
	case "mla_prefill":
		return p.mlaPrefill(k.mla(), 1, k.prefill())
	case "elementwise":
		return p.elementwise(int(k.Kernels), k.Bytes)
	case "launch_gap":
		return k.Kernels * p.Kernels.LaunchGap.Constants.T0.Microseconds()
	}
	return 0
}

func (k *Kernel) decode() decodeBatch {
	return decodeBatch{requests: k.Batch, query: k.QueryTokens, kv: float64(k.Batch * k.KVLen)}
}

func (k *Kernel) prefill() prefillBatch {
	return prefillBatch{
		tokens:  float64(k.Sequences * k.SeqLen),
		context: float64(k.Sequences * k.ContextLen),
		pairs:   float64(k.Sequences * k.SeqLen * (float64(k.SeqLen/2) + k.ContextLen)),
	}
}

func (k *Kernel) mla() mla {
	return mla{heads: k.Heads, latent: k.Latent, rope: k.RopeDim, nope: k.NopeDim, value: k.ValueDim}
}
