package compute

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/invariants"
	"github.com/tgssim/tgssim/sim"
)

// A Setup says on what one attention rank runs. GPU and Model are needed; the
// zero value of everything else stands for a default.
type Setup struct {
	// GPU and Model are not changed, and may be shared between ranks.
	GPU   *Profile
	Model *Model
	// TP is the number of GPUs of the attention rank, which work in lockstep; 0
	// stands for 1. It divides the query heads and the widths of the MLPs. Where
	// TP is above the number of KV heads, KV heads are held more than once.
	TP int
	// EP is the number of GPUs that the routed experts are spread over, a
	// multiple of TP that divides the experts; 0 stands for TP, or for 1 when
	// the model is dense, which is then all it may be.
	EP int
	// RedundantExperts is the number of copies that each MoE layer has beyond one
	// of every expert. Experts and copies together spread evenly over EP.
	RedundantExperts int
	// Weights is the format of the attention, MLP and expert weights; routers,
	// norms, embeddings and LM head are bf16 always, as in the checkpoints of
	// DeepSeek-V3 and Qwen3. KV is the format of the KV cache.
	Weights, KV DType
	// ExpertWeights is the format of the routed experts; checkpoint stands for
	// that of Weights or, where Weights is left to the checkpoint, of the
	// checkpoint's experts.
	ExpertWeights DType
	// Activations is the format in which linear layers take their input, and of
	// their arithmetic. fp8 acts on layers with fp8 weights only, and bf16 with
	// narrower weights is weight-only quantisation. AsCheckpoint is fp8 where the
	// weights are fp8.
	Activations DType
	// DraftLayers is the number of layers of the module that drafts tokens (one
	// in DeepSeek-V3's MTP): more layers of the model's last kind in memory and in
	// the KV cache. Their time is the caller's to add.
	DraftLayers int
	// CommSMs is the number of SMs lent to communication while prefill overlaps
	// it with compute; DefaultCommSMs is DeepEP's. 0 when nothing overlaps.
	CommSMs int
	// Derate multiplies every compute time; 0 stands for DefaultDerate.
	Derate float64
	// Utilisation is the fraction of the GPU's memory that weights and KV may
	// take together; 0 stands for DefaultUtilisation.
	Utilisation float64
	// LocalPermute is true when tokens reach the experts of other GPUs by a
	// plain all-gather or all-reduce in decode, so that every GPU permutes its
	// rows before and reduces them after the experts. DeepEP's low-latency
	// kernels, the default, deliver rows per expert and reduce while they
	// combine.
	LocalPermute bool
}

// System constants, shared by every model and GPU.
const (
	// DefaultDerate is compute in a running system over the same kernels alone:
	// sums of class times in the profiles of DeepSeek and SGLang are 1.03 to
	// 1.11 times the model's (one outlier at 1.22).
	DefaultDerate = 1.05
	// DefaultUtilisation is vLLM's gpu_memory_utilization.
	DefaultUtilisation = 0.9
	// DefaultCommSMs is what DeepEP's normal kernels take in DeepSeek's prefill.
	DefaultCommSMs = 24
	// CommStretch is dispatch or combine that runs on SMs beside compute over
	// the same operation alone: 1.45 in DeepSeek's H800 trace, 1.44 in SGLang's
	// on H100. It stands for contention inside the GPU and barrier skew, not for
	// congestion: where the fabric is simulated, multiply the fabric's time.
	CommStretch = 1.45
	// LowLatencySendReceive is what a low-latency dispatch or combine takes of
	// the compute stream, to post and to receive.
	LowLatencySendReceive = 15 * sim.Microsecond
)

// A Rank is the cost model of one attention rank. It remembers times by token
// count, so it belongs to one run and is not safe for concurrent use.
type Rank struct {
	gpu   Profile
	model Model
	setup Setup // with the defaults filled in
	shape shape
	// share is the fraction of the SMs that prefill has.
	share float64

	prefill, decode memo[layerTimes]
	head            memo[sim.Time]
	memory          Memory
}

// A Chunk is a piece of a prompt: Tokens new tokens behind Context tokens whose
// KV is already there.
type Chunk struct{ Tokens, Context int }

// LayerTimes are the compute times of one rank for one batch or micro-batch. All
// GPUs of the rank take as long; their all-reduces are not included.
type LayerTimes struct {
	// AttnIn, per layer, is everything before the attention core: norm, QKV
	// projections, rope, KV write.
	AttnIn sim.Time
	// AttnOut, per layer, is the attention core, the output projection, the
	// second norm and, in MoE models, the router.
	AttnOut sim.Time
	// Shared, per MoE layer, is the shared expert; 0 when there is none.
	Shared sim.Time
	// DenseMLP, per dense layer, is the MLP; 0 when there is none.
	DenseMLP sim.Time
	// Head is LM head and sampling, once for the batch.
	Head sim.Time
}

// NewRank returns the cost model of s. The error is config.Problems with keys as
// scenarios write them: gpu, model, tp, ep, weights, activations, kv,
// redundant_experts, draft_layers, comm_sms, derate, utilisation. Weights that leave no room for MinKVTokens are a problem.
func NewRank(s Setup) (*Rank, error) {
	s, err := s.resolve()
	if err != nil {
		return nil, err
	}
	r := &Rank{gpu: *s.GPU, model: *s.Model, setup: s}
	r.shape = newShape(&r.model, s)
	r.share = float64(s.GPU.SMs.Value-s.CommSMs) / float64(s.GPU.SMs.Value)
	r.memory = memoryOf(s)
	if err := fits(s, r.memory); err != nil {
		return nil, err
	}
	return r, nil
}

// resolve fills in the defaults and reports what is wrong.
func (s Setup) resolve() (Setup, error) {
	var ps config.Problems
	if s.GPU == nil {
		ps.Addf("gpu", "is missing: name one of %s", strings.Join(Profiles(), ", "))
	}
	if s.Model == nil {
		ps.Addf("model", "is missing: name one of %s", strings.Join(Models(), ", "))
	}
	if len(ps) > 0 {
		return s, ps.Err()
	}
	ps.Nest("gpu", s.GPU.Validate())
	ps.Nest("model", s.Model.Validate())
	if len(ps) > 0 {
		return s, ps.Err()
	}
	if s.TP == 0 {
		s.TP = 1
	}
	if s.EP == 0 {
		s.EP = 1
		if s.Model.MoE != nil {
			s.EP = s.TP
		}
	}
	if s.Derate == 0 {
		s.Derate = DefaultDerate
	}
	if s.Utilisation == 0 {
		s.Utilisation = DefaultUtilisation
	}
	ps.Require(s.Weights <= FP8, "weights", "must be checkpoint, bf16 or fp8")
	ps.Require(s.KV <= FP8, "kv", "must be checkpoint (as bf16), bf16 or fp8")
	ps.Require(s.ExpertWeights <= MXFP4, "expert_weights", "must be checkpoint, bf16, fp8 or mxfp4")
	if s.Model.MoE != nil {
		s.ExpertWeights = s.ExpertWeights.or(s.Weights).or(s.Model.ExpertCheckpoint).or(s.Model.Checkpoint)
	}
	s.Weights = s.Weights.or(s.Model.Checkpoint)
	s.KV = s.KV.or(BF16)
	ps.Require(s.Activations <= FP8, "activations", "must be checkpoint (as the weights), bf16 or fp8")
	ps.Require(s.Activations != FP8 || s.Weights == FP8 || s.ExpertWeights == FP8, "activations",
		"fp8 needs fp8 weights, and they are %v: write weights fp8, or activations bf16", s.Weights)
	ps.Require(s.GPU.ComputesFP8() || s.Activations == BF16 || s.Weights != FP8 && s.ExpertWeights != FP8, "activations",
		"%s has no FP8 arithmetic, and weights are fp8: write activations bf16, which widens them on their way, or weights bf16", s.GPU.Name)
	ps.Require(s.DraftLayers >= 0 && s.DraftLayers <= 16, "draft_layers", "must be from 0 to 16, not %d", s.DraftLayers)
	s.checkParallel(&ps)
	ps.Require(s.CommSMs >= 0 && s.CommSMs < s.GPU.SMs.Value, "comm_sms", "must be from 0 to %d (%s has %d SMs), not %d",
		s.GPU.SMs.Value-1, s.GPU.Name, s.GPU.SMs.Value, s.CommSMs)
	ps.Require(inside(s.Derate, 0.5, 10), "derate", "must be from 0.5 to 10, not %v", s.Derate)
	ps.Require(inside(s.Utilisation, 0.1, 1), "utilisation", "must be from 0.1 to 1, not %v", s.Utilisation)
	return s, ps.Err()
}

func (s Setup) checkParallel(ps *config.Problems) {
	m := s.Model
	if !validTP(m, s.TP) {
		ps.Addf("tp", "must divide the heads and widths of %s: one of %s, not %d",
			m.Name, list(m.Attention.Heads, func(tp int) bool { return validTP(m, tp) }), s.TP)
	}
	switch {
	case m.MoE == nil:
		ps.Require(s.EP == 1, "ep", "must be 1: %s has no experts, not %d", m.Name, s.EP)
	case s.RedundantExperts < 0:
		ps.Addf("redundant_experts", "must be 0 or more, not %d", s.RedundantExperts)
	case s.EP < 1 || s.copies()%s.EP != 0:
		what := fmt.Sprintf("%d experts", m.MoE.Experts)
		if s.RedundantExperts > 0 {
			what += fmt.Sprintf(" and %d redundant copies", s.RedundantExperts)
		}
		ps.Addf("ep", "must divide the %s of %s: one of %s, not %d", what, m.Name,
			list(s.copies(), func(ep int) bool { return s.copies()%ep == 0 }), s.EP)
	case s.TP >= 1:
		ps.Require(s.EP%s.TP == 0, "ep", "must be a multiple of tp (%d), so that the GPUs of a rank hold experts alike, not %d", s.TP, s.EP)
	}
}

// copies is the number of experts that a layer holds over all GPUs.
func (s *Setup) copies() int { return s.Model.MoE.Experts + s.RedundantExperts }

// validTP tells whether tp GPUs can share the model's attention and MLPs evenly.
func validTP(m *Model, tp int) bool {
	if tp < 1 || m.Attention.Heads%tp != 0 || m.Intermediate%tp != 0 {
		return false
	}
	if e := m.MoE; e != nil && (e.SharedExperts*e.Intermediate)%tp != 0 {
		return false
	}
	kv := m.Attention.KVHeads
	return m.Attention.Kind == MLA || kv%tp == 0 || tp%kv == 0
}

// list prints the numbers from 1 to most that are valid.
func list(most int, valid func(int) bool) string {
	var out []string
	for n := 1; n <= most; n++ {
		if valid(n) {
			out = append(out, strconv.Itoa(n))
		}
	}
	return strings.Join(out, ", ")
}

// Setup returns the setup with the defaults filled in.
func (r *Rank) Setup() Setup { return r.setup }

// DenseLayers returns the number of layers with a dense MLP.
func (r *Rank) DenseLayers() int { return r.model.DenseLayers() }

// MoELayers returns the number of layers with routed experts.
func (r *Rank) MoELayers() int { return r.model.MoELayers() }

// Memory returns what one GPU of the rank holds.
func (r *Rank) Memory() Memory { return r.memory }

// Prefill returns the times of a batch of prompt chunks. Head is for one token
// per chunk, as vLLM samples it. Chunks without tokens are skipped; a batch
// without tokens takes no time.
//
// Kernels of prefill are queued ahead, so there is no launch gap. All but the
// dense MLP and the head, with which no communication overlaps, run on the SMs
// that CommSMs leaves.
func (r *Rank) Prefill(chunks []Chunk) LayerTimes {
	b := prefillBatch{window: float64(r.model.Attention.Window)}
	var rows, tokens int
	for _, c := range chunks {
		if c.Tokens <= 0 {
			continue
		}
		rows++
		tokens += c.Tokens
		b.add(float64(c.Tokens), float64(max(0, c.Context)))
	}
	if tokens == 0 {
		return LayerTimes{}
	}
	t := r.prefill.get(tokens, r.prefillLayer)
	return LayerTimes{
		AttnIn:   t.in,
		AttnOut:  t.out + r.time(r.prefillCore(b)),
		Shared:   t.shared,
		DenseMLP: t.dense,
		Head:     r.head.get(rows, r.headTime),
	}
}

// Decode returns the times of a decode batch of requests, each with queryTokens
// query tokens (1, or more when tokens are predicted ahead, as with MTP), whose
// context lengths sum to kvTokens. A batch without requests takes no time; a
// queryTokens below 1 counts as 1. Every kernel pays the launch gap of a CUDA
// graph, except those of the head.
func (r *Rank) Decode(requests int, kvTokens int64, queryTokens int) LayerTimes {
	if requests <= 0 {
		return LayerTimes{}
	}
	queryTokens = max(1, queryTokens)
	tokens := requests * queryTokens
	b := decodeBatch{requests: float64(requests), query: float64(queryTokens), kv: float64(max(0, kvTokens))}
	t := r.decode.get(tokens, r.decodeLayer)
	return LayerTimes{
		AttnIn:   t.in,
		AttnOut:  t.out + r.time(r.decodeCore(b)),
		Shared:   t.shared,
		DenseMLP: t.dense,
		Head:     r.head.get(tokens, r.headTime),
	}
}

// Experts returns the time of the routed experts of one layer on the busiest
// GPU, when the ranks of the EP group bring groupTokens tokens together; 0
// without tokens or experts. The busiest GPU gets imbalance times the mean of
// the rows; an imbalance below 1 counts as 1.
//
// An expert that no token visits is not read: with routing taken as uniform and
// independent, a share 1 - (1 - top_k/experts)^groupTokens of them is active.
func (r *Rank) Experts(prefill bool, groupTokens int64, imbalance float64) sim.Time {
	if groupTokens <= 0 || r.model.MoE == nil {
		return 0
	}
	if !(imbalance > 1) {
		imbalance = 1
	}
	return r.time(r.experts(prefill, groupTokens, imbalance))
}

// time derates microseconds of compute.
func (r *Rank) time(us float64) sim.Time { return sim.FromMicroseconds(us * r.setup.Derate) }

// layerTimes are the parts of a layer that depend on the number of tokens only.
type layerTimes struct{ in, out, shared, dense sim.Time }

// memoLimit bounds the token counts that are remembered; larger ones, which are
// rare, are computed every time.
const memoLimit = 1 << 16

// A memo remembers a function of a count.
type memo[T comparable] struct{ values []T }

// get returns f(n), from memory when it is there. f never returns the zero T.
func (m *memo[T]) get(n int, f func(int) T) T {
	var zero T
	if uint(n) < uint(len(m.values)) {
		if v := m.values[n]; v != zero {
			if invariants.Enabled && f(n) != v {
				panic(fmt.Sprintf("compute: the times remembered for %d tokens are %v, not %v", n, v, f(n)))
			}
			return v
		}
	}
	v := f(n)
	if uint(n) >= memoLimit { // also a sum of tokens that has overflowed
		return v
	}
	if n >= len(m.values) {
		grown := make([]T, min(memoLimit, max(256, 2*n)))
		copy(grown, m.values)
		m.values = grown
	}
	m.values[n] = v
	return v
}
