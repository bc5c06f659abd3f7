package compute

import (
	"fmt"
	"strconv"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
)

// MinKVTokens is the KV that must fit beside the weights: room for one request
// of moderate length. With less the setup serves nothing.
const MinKVTokens = 2048

// scaleBlock is the number of fp8 weights that share one 4-byte scale: a block
// of 128 x 128 (DeepSeek-V3, arXiv 2412.19437, section 3.3.2; Qwen3's FP8
// checkpoints are laid out alike).
const scaleBlock = 128 * 128

// Memory is the use of one GPU's memory.
type Memory struct {
	// Capacity is the GPU's memory.
	Capacity units.Bytes
	// Reserve is what Utilisation keeps free for activations, buffers and the
	// runtime.
	Reserve units.Bytes
	// Weights is the sum of Parts.
	Weights units.Bytes
	Parts   WeightBytes
	// KVPerToken is the KV of one token over all layers, the drafting module's
	// included, on one GPU: KV heads are shared by TP, each held at least once;
	// MLA's latent is held by every GPU.
	KVPerToken units.Bytes
	// KVReplicas is the number of GPUs of the rank that hold the same KV: above 1
	// where TP is wider than the KV heads, and TP itself with MLA. The rank holds
	// a token's KV so many times, and a GPU so many times an even share of it.
	KVReplicas int
}

// WeightBytes is the memory of the weights of one GPU by part of the model.
type WeightBytes struct {
	// Attention, Dense and Shared are sharded by TP, except MLA's projections to
	// the latents, which every GPU holds, and biases of the MLPs, which are
	// counted as if every GPU held them. Experts are sharded by EP, redundant copies
	// included. With fp8 or mxfp4 weights the four include the scale factors, and
	// biases in bf16; they count as in the checkpoint, although engines may unpack
	// MLA's up-projections to bf16.
	Attention, Dense, Shared, Experts units.Bytes
	// Router and Norms are held by every GPU in bf16.
	Router, Norms units.Bytes
	// Embedding and Head are sharded by TP, in bf16.
	Embedding, Head units.Bytes
	// Draft is the drafting module: its layers, held as those of the model, and
	// for each the projection of hidden state and embedding to the hidden size,
	// which every GPU holds. Embedding and head are the model's (DeepSeek-V3,
	// arXiv 2412.19437, section 2.2).
	Draft units.Bytes
}

// Sum is all parts.
func (w WeightBytes) Sum() units.Bytes {
	return w.Attention + w.Dense + w.Shared + w.Experts + w.Router + w.Norms + w.Embedding + w.Head + w.Draft
}

// Usable is what weights and KV may take together.
func (m Memory) Usable() units.Bytes { return m.Capacity - m.Reserve }

// KVTokens returns how many tokens' KV fits beside the weights.
func (m Memory) KVTokens() int64 {
	if m.KVPerToken <= 0 {
		return 0
	}
	return max(0, int64((m.Usable()-m.Weights)/m.KVPerToken))
}

// memoryOf needs a resolved setup.
func memoryOf(s Setup) Memory {
	m := s.Model
	capacity := s.GPU.Memory.Value
	usable := units.Bytes(float64(capacity) * s.Utilisation)
	parts := weightBytes(s)
	layers := m.Layers + s.DraftLayers
	if s.DraftLayers > 0 {
		deeper := s
		deeper.Model = new(Model)
		*deeper.Model = *m
		deeper.Model.Layers = layers
		projection := quantised(s.Weights, int64(s.DraftLayers)*2*int64(m.Hidden)*int64(m.Hidden))
		parts.Draft = weightBytes(deeper).Sum() - parts.Sum() + projection
	}
	return Memory{
		Capacity:   capacity,
		Reserve:    capacity - usable,
		Weights:    parts.Sum(),
		Parts:      parts,
		KVPerToken: units.Bytes(int64(layers) * m.kvElementsPerLayer(localKVHeads(m, s.TP)) * int64(s.KV.size())),
		KVReplicas: kvReplicas(m, s.TP),
	}
}

// kvReplicas is the number of tp GPUs that hold the same KV.
func kvReplicas(m *Model, tp int) int {
	if m.Attention.Kind == MLA {
		return tp
	}
	return max(1, tp/m.Attention.KVHeads)
}

func weightBytes(s Setup) WeightBytes {
	m, a, tp := s.Model, &s.Model.Attention, int64(s.TP)
	w := m.Weights()
	layers, h := int64(m.Layers), int64(m.Hidden)

	linear, vectors, _ := m.attentionWeights()
	var perLayer int64
	if a.Kind == MLA {
		down := h * int64(a.QLoraRank+a.KVLoraRank+a.QKRopeHeadDim)
		perLayer = down + (linear-down)/tp
	} else {
		heads := int64(a.Heads/s.TP + localKVHeads(m, s.TP))
		perLayer = 2 * h * heads * int64(a.HeadDim)
		if a.QKVBias {
			vectors = int64(a.Heads/s.TP+2*localKVHeads(m, s.TP)) * int64(a.HeadDim)
		}
		if a.Sinks {
			vectors += int64(a.Heads / s.TP)
		}
		if a.OutBias {
			vectors += h
		}
	}
	vocab, biases := int64(ceilDiv(m.Vocab, s.TP)), m.biases()
	held := func(experts int64) int64 { // by one GPU
		if m.MoE == nil {
			return 0
		}
		return experts / int64(m.MoE.Experts) * int64(s.copies()/s.EP)
	}
	parts := WeightBytes{
		Attention: quantised(s.Weights, layers*perLayer) + units.Bytes(2*layers*vectors),
		Dense:     quantised(s.Weights, (w.Dense-biases.Dense)/tp) + units.Bytes(2*biases.Dense),
		Shared:    quantised(s.Weights, (w.Shared-biases.Shared)/tp) + units.Bytes(2*biases.Shared),
		Experts:   quantised(s.ExpertWeights, held(w.Experts-biases.Experts)) + units.Bytes(2*held(biases.Experts)),
		Router:    units.Bytes(2 * w.Router),
		Norms:     units.Bytes(2 * w.Norms),
		Embedding: units.Bytes(2 * vocab * h),
	}
	if !m.TiedEmbeddings {
		parts.Head = parts.Embedding
	}
	return parts
}

// quantised is the bytes of n weights of a linear layer.
func quantised(d DType, n int64) units.Bytes {
	switch d {
	case FP8:
		return units.Bytes(n + 4*((n+scaleBlock-1)/scaleBlock))
	case MXFP4: // blocks of 32 weights: 16 bytes and a scale of one
		return units.Bytes(17 * ((n + 31) / 32))
	}
	return units.Bytes(2 * n)
}

// fits complains when the weights leave no room for MinKVTokens, and names the
// smallest EP or TP with which they would.
func fits(s Setup, m Memory) error {
	if m.KVTokens() >= MinKVTokens {
		return nil
	}
	key, at := "tp", fmt.Sprintf("TP%d", s.TP)
	if s.Model.MoE != nil {
		key, at = "ep", fmt.Sprintf("TP%d EP%d", s.TP, s.EP)
	}
	usable := fmt.Sprintf("the %s usable of %s %s", gigabytes(m.Usable()), s.GPU.Name, m.Capacity)
	var ps config.Problems
	if over := m.Weights - m.Usable(); over > 0 {
		ps.Addf(key, "weights need %s per GPU at %s, %s more than %s; %s", gigabytes(m.Weights), at, gigabytes(over), usable, remedy(s))
	} else {
		ps.Addf(key, "weights (%s) and the KV of %d tokens (%s) need %s per GPU at %s, %s more than %s; %s",
			gigabytes(m.Weights), MinKVTokens, gigabytes(MinKVTokens*m.KVPerToken), gigabytes(m.Weights+MinKVTokens*m.KVPerToken),
			at, gigabytes(m.Weights+MinKVTokens*m.KVPerToken-m.Usable()), usable, remedy(s))
	}
	return ps.Err()
}

// remedy names the nearest wider setup that fits: more EP first, because it
// costs no all-reduce, then more TP with as little EP as it needs.
func remedy(s Setup) string {
	wider := s
	for wider.TP = s.TP; wider.TP <= s.Model.Attention.Heads; wider.TP++ {
		if !validTP(s.Model, wider.TP) {
			continue
		}
		tp := fmt.Sprintf("TP%d", wider.TP)
		e := s.Model.MoE
		if e == nil {
			if memoryOf(wider).KVTokens() >= MinKVTokens {
				return tp + " would fit"
			}
			continue
		}
		for wider.EP = s.EP; wider.EP <= s.copies(); wider.EP++ {
			if s.copies()%wider.EP != 0 || wider.EP%wider.TP != 0 || memoryOf(wider).KVTokens() < MinKVTokens {
				continue
			}
			if wider.TP == s.TP {
				return fmt.Sprintf("EP%d would fit", wider.EP)
			}
			return fmt.Sprintf("%s EP%d would fit", tp, wider.EP)
		}
	}
	return "no TP or EP fits"
}

// gigabytes prints decimal gigabytes with one digit, or none when it is whole.
func gigabytes(n units.Bytes) string {
	s := strconv.FormatFloat(float64(n)/1e9, 'f', 1, 64)
	if len(s) > 2 && s[len(s)-2:] == ".0" {
		s = s[:len(s)-2]
	}
	return s + " GB"
}
