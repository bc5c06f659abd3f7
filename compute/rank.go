package compute

import (
	"errors"

	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// A DType is the number format of weights or of KV entries.
type DType uint8

// The formats.
const (
	// AsCheckpoint stands for the format of the model's own checkpoint (weights)
	// or BF16 (KV).
	AsCheckpoint DType = iota
	BF16
	FP8
)

// A Profile is a GPU: capacities, peaks, and the fitted kernel classes.
type Profile struct {
	Name   string
	Memory units.Bytes
}

// Profiles lists the known GPUs by name, sorted.
func Profiles() []string { return nil }

// LoadProfile returns the GPU of that name, in any case.
func LoadProfile(name string) (*Profile, error) { return nil, errors.New("not built yet") }

// A Model is the structure of a model.
type Model struct {
	Name string
}

// Models lists the catalogue by name, sorted.
func Models() []string { return nil }

// LoadModel returns the catalogue's model of that name, in any case.
func LoadModel(name string) (*Model, error) { return nil, errors.New("not built yet") }

// A Setup says on what one attention rank runs.
type Setup struct {
	GPU   *Profile
	Model *Model
	// TP is the number of GPUs of the attention rank, which work in lockstep.
	TP int
	// EP is the number of GPUs that the routed experts are spread over; 1 for a
	// dense model.
	EP int
	// Weights and KV are number formats.
	Weights, KV DType
	// CommSMs is the number of SMs lent to communication while prefill overlaps
	// it with compute.
	CommSMs int
	// Derate multiplies every compute time; 0 stands for DefaultDerate.
	Derate float64
	// Utilisation is the fraction of the GPU's memory that weights and KV may
	// take; 0 stands for DefaultUtilisation.
	Utilisation float64
}

// A Rank is the cost model of one attention rank. It memoises, so it belongs to
// one run: it is not safe for concurrent use.
type Rank struct{}

// NewRank returns the cost model of s, or config.Problems.
func NewRank(s Setup) (*Rank, error) { return nil, errors.New("not built yet") }

// A Chunk is a piece of a prompt: Tokens new tokens behind Context tokens whose
// KV is already there.
type Chunk struct{ Tokens, Context int }

// LayerTimes are the compute times of one rank for one batch or micro-batch.
type LayerTimes struct {
	// AttnIn, per layer, is everything before the attention core: norm, QKV
	// projections, rope, KV write.
	AttnIn sim.Time
	// AttnOut, per layer, is the attention core, the output projection, the
	// second norm and, in MoE layers, the router gate.
	AttnOut sim.Time
	// Shared is the shared expert of a MoE layer; 0 when the model has none.
	Shared sim.Time
	// DenseMLP is the MLP of a dense layer; 0 when the model has none.
	DenseMLP sim.Time
	// Head is LM head and sampling, once for the batch.
	Head sim.Time
}

// Prefill returns the times of a batch of prompt chunks.
func (r *Rank) Prefill(chunks []Chunk) LayerTimes { return LayerTimes{} }

// Decode returns the times of a decode batch of requests, each with queryTokens
// query tokens (1, or more when tokens are predicted ahead, as with MTP), whose
// context lengths sum to kvTokens.
func (r *Rank) Decode(requests int, kvTokens int64, queryTokens int) LayerTimes { return LayerTimes{} }

// Experts returns the time of the routed experts of one layer on the busiest
// GPU, when the ranks of the EP group bring groupTokens tokens together. The
// busiest GPU gets imbalance (>= 1) times the mean of the rows.
func (r *Rank) Experts(prefill bool, groupTokens int64, imbalance float64) sim.Time { return 0 }

// DenseLayers returns the number of layers with a dense MLP.
func (r *Rank) DenseLayers() int { return 0 }

// MoELayers returns the number of layers with routed experts.
func (r *Rank) MoELayers() int { return 0 }

// Memory returns what one GPU of the rank holds.
func (r *Rank) Memory() Memory { return Memory{} }

// Memory is the use of one GPU's memory.
type Memory struct {
	// Capacity is the GPU's memory; Weights what the weights take of it;
	// Reserve what is left to activations, buffers and the runtime.
	Capacity, Weights, Reserve units.Bytes
	// KVPerToken is what the KV of one token takes on one GPU, all layers.
	KVPerToken units.Bytes
}

// KVTokens returns how many tokens' KV fits on the GPU.
func (m Memory) KVTokens() int64 {
	if m.KVPerToken <= 0 {
		return 0
	}
	return max(0, int64((m.Capacity-m.Weights-m.Reserve)/m.KVPerToken))
}

// Defaults of a Setup.
const (
	DefaultDerate      = 1.05
	DefaultUtilisation = 0.9
)
