package serving

import (
	"github.com/tgssim/tgssim/collective"
	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/sim"
)

// The overlap schedules of a step; see program.go for what runs beside what.
const (
	// OverlapNone runs one operation at a time.
	OverlapNone = "none"
	// OverlapShared computes the shared expert while the dispatch is under way.
	OverlapShared = "shared_expert"
	// OverlapSingle is OverlapShared and computes the last of the experts' results
	// while the first are combined.
	OverlapSingle = "single_batch"
	// OverlapTwoBatch splits the batch in two, one computing while the other
	// communicates.
	OverlapTwoBatch = "two_batch"
)

// Overlaps lists the valid values of PoolConfig.Overlap.
var Overlaps = []string{OverlapNone, OverlapShared, OverlapSingle, OverlapTwoBatch}

// The routers.
const (
	// RouterRoundRobin takes the ranks of a pool in turn.
	RouterRoundRobin = "round_robin"
	// RouterLeastLoaded takes the rank with the least outstanding work: prompt
	// tokens queued and running for prefill, KV blocks held and awaited for
	// decode. Of equals it takes the one whose instance has least in all, then the
	// one that was chosen longest ago.
	RouterLeastLoaded = "least_loaded"
)

// Routers lists the valid values of PoolConfig.Router.
var Routers = []string{RouterRoundRobin, RouterLeastLoaded}

// PoolConfig describes one pool: how many instances of which shape, and how
// each batches and executes its steps.
type PoolConfig struct {
	// Instances is the number of model replicas in the pool: the x, or y, of
	// xPyD.
	Instances int `yaml:"instances"`
	// TP is the number of GPUs that share one attention rank, all in one server.
	TP int `yaml:"tp"`
	// DP is the number of attention ranks of an instance. They step together;
	// the experts of an MoE model are spread over all TP x DP GPUs.
	DP int `yaml:"dp"`
	// Router picks the rank of the pool that gets a request: round_robin or
	// least_loaded.
	Router string `yaml:"router"`
	// MaxBatchTokens is the prefill token budget of one rank in one step.
	// Longer prompts are cut into chunks. Prefill only.
	MaxBatchTokens int `yaml:"max_batch_tokens,omitempty"`
	// MaxBatchRequests is the most requests that one rank runs in one step.
	MaxBatchRequests int `yaml:"max_batch_requests"`
	// Overlap is none, shared_expert, single_batch (decode in low-latency mode only)
	// or two_batch.
	Overlap string `yaml:"overlap"`
	// OverlapMinTokens is the fewest tokens of the busiest rank (query tokens, with
	// MTP) for which two_batch splits a step; below it the step runs as
	// shared_expert, because two small batches cost more than they hide. Defaults:
	// 512 for prefill, the threshold of vLLM's dual batch overlap; 100 for decode,
	// where DeepSeek-V3 breaks even here on 64 H800s (80: 10 % slower, 96: 2 %
	// slower, 112: 5 % faster, 128: 6 % faster). vLLM's 32 loses a quarter.
	OverlapMinTokens int `yaml:"overlap_min_tokens"`
	// MoE says how tokens travel to their experts; unused by dense models.
	MoE collective.Config `yaml:"moe"`
	// CommSMs is the number of SMs that communication kernels take from compute
	// while batches overlap (DeepEP normal mode: 24 of 132). Prefill only: the
	// low-latency kernels of decode take none.
	CommSMs int `yaml:"comm_sms"`
	// CommStretch multiplies dispatch and combine that run on SMs beside
	// compute: SM, L2 and HBM contention and barrier skew, measured at 1.45. It
	// stands for nothing that happens on the fabric.
	CommStretch float64 `yaml:"comm_stretch"`
	// SendRecv is the time on the compute SMs to issue and receive one dispatch or
	// combine of a two-batch decode step. Decode only.
	SendRecv sim.Time `yaml:"send_recv"`
	// AllReduceStartup is the fixed cost of one tensor-parallel all-reduce. The
	// default is our estimate; the reference layer model takes 25 us for a whole
	// one of 400 kB over four H20s, which is 4 us of bytes.
	AllReduceStartup sim.Time `yaml:"all_reduce_startup"`
	// HostGap is the time between two steps in which the host schedules and
	// launches, with the GPUs idle.
	HostGap sim.Time `yaml:"host_gap"`
	// MTP is multi-token prediction, or any other speculative decoding that
	// verifies a chain of drafted tokens. Decode only.
	MTP MTPConfig `yaml:"mtp,omitempty"`
}

// MTPConfig describes how a decode step makes more than one token of a request:
// QueryTokens - 1 tokens are drafted and verified together with the one that is
// certain, and kept up to the first that is rejected.
type MTPConfig struct {
	// QueryTokens is the number of tokens of each request that a step computes:
	// the certain one and the drafts. 1 drafts nothing.
	QueryTokens int `yaml:"query_tokens"`
	// Acceptance is the probability that a draft is accepted when those before it
	// were, so that a step makes 1 + p + p^2 + ... tokens on average (Leviathan et
	// al., ICML 2023, without its assumption on cost). The default is what LMSYS
	// assumes of DeepSeek-V3; DeepSeek reports 0.85 to 0.9 (arXiv 2412.19437,
	// section 5.4.3).
	Acceptance float64 `yaml:"acceptance"`
	// LayersPerDraft is the number of layers that drafting one token takes, each
	// like the last of the model; the module that has them is held in memory once
	// and has a KV cache of its own. DeepSeek-V3's is 1. 0 drafts without a model,
	// such as by looking up n-grams.
	LayersPerDraft int `yaml:"layers_per_draft"`
}

// drafts is the number of drafted tokens per request and step.
func (c MTPConfig) drafts() int { return max(0, c.QueryTokens-1) }

// DraftLayers is the number of layers of the drafting module; 0 when nothing is
// drafted.
func (c MTPConfig) DraftLayers() int {
	if c.drafts() == 0 {
		return 0
	}
	return c.LayersPerDraft
}

// KVConfig describes the paged KV cache and its transfer.
type KVConfig struct {
	// BlockTokens is the number of tokens of one KV block.
	BlockTokens int `yaml:"block_tokens"`
	// Utilisation is the fraction of a GPU's memory that weights, activations
	// and KV blocks may fill.
	Utilisation float64 `yaml:"memory_utilisation"`
	// QPs is the number of queue pairs that each GPU pair spreads a transfer
	// over; each takes its own ECMP path.
	QPs int `yaml:"qps"`
	// PostPerMessage and PostPerDescriptor are the software cost of one
	// transfer: fixed, and for each contiguous piece (one block of one layer).
	// Defaults: the fit of Mooncake's published Qwen3-8B transfers between two
	// 8xH800 nodes (0.378 ms + bytes / 146.1 GB/s per node pair), less the wire.
	PostPerMessage    sim.Time `yaml:"post_per_message"`
	PostPerDescriptor sim.Time `yaml:"post_per_descriptor"`
}

// Config describes the serving system: pools and KV cache.
type Config struct {
	Prefill PoolConfig `yaml:"prefill"`
	Decode  PoolConfig `yaml:"decode"`
	KV      KVConfig   `yaml:"kv"`
}

// DefaultConfig is one single-GPU instance per pool.
func DefaultConfig() Config {
	return Config{
		Prefill: PoolConfig{
			Instances: 1, TP: 1, DP: 1,
			Router:           RouterLeastLoaded,
			MaxBatchTokens:   8192,
			MaxBatchRequests: 256,
			Overlap:          OverlapShared,
			OverlapMinTokens: 512,
			MoE:              collective.DefaultPrefill(),
			CommSMs:          24,
			CommStretch:      1.45,
			SendRecv:         0,
			AllReduceStartup: 20 * sim.Microsecond,
			HostGap:          200 * sim.Microsecond,
		},
		Decode: PoolConfig{
			Instances: 1, TP: 1, DP: 1,
			Router:           RouterLeastLoaded,
			MaxBatchRequests: 128,
			Overlap:          OverlapShared,
			OverlapMinTokens: 100,
			MoE:              collective.DefaultDecode(),
			CommSMs:          0,
			CommStretch:      1,
			SendRecv:         15 * sim.Microsecond,
			AllReduceStartup: 20 * sim.Microsecond,
			HostGap:          200 * sim.Microsecond,
			MTP:              MTPConfig{QueryTokens: 1, Acceptance: 0.6, LayersPerDraft: 1},
		},
		KV: KVConfig{
			BlockTokens:       64,
			Utilisation:       0.9,
			QPs:               4,
			PostPerMessage:    370 * sim.Microsecond,
			PostPerDescriptor: 141 * sim.Nanosecond,
		},
	}
}

// Validate checks the settings against their ranges. Whether the model fits the
// GPUs is checked when the cluster is built.
func (c Config) Validate() error {
	var ps config.Problems
	ps.Nest("prefill", c.Prefill.validate(true))
	ps.Nest("decode", c.Decode.validate(false))
	ps.Nest("kv", c.KV.Validate())
	return ps.Err()
}

func (c PoolConfig) validate(prefill bool) error {
	var ps config.Problems
	count := func(key string, v, max int) {
		ps.Require(v >= 1 && v <= max, key, "%d is out of range: 1 to %d", v, max)
	}
	count("instances", c.Instances, 1<<16)
	count("tp", c.TP, 64)
	count("dp", c.DP, 4096)
	count("max_batch_requests", c.MaxBatchRequests, 1<<16)
	if prefill {
		count("max_batch_tokens", c.MaxBatchTokens, 1<<20)
		ps.Require(c.MTP == MTPConfig{}, "mtp", "applies to decode only; remove it")
	} else {
		ps.Require(c.MaxBatchTokens == 0, "max_batch_tokens",
			"applies to prefill only; a decode step is bounded by max_batch_requests")
		ps.Require(c.CommSMs == 0, "comm_sms", "applies to prefill only; remove it")
		ps.Nest("mtp", c.MTP.Validate())
	}
	ps.Require(!prefill || c.SendRecv == 0, "send_recv", "applies to decode only; remove it")
	choice(&ps, "router", c.Router, Routers)
	choice(&ps, "overlap", c.Overlap, Overlaps)
	if c.Overlap == OverlapSingle {
		ps.Require(!prefill, "overlap", "single_batch applies to decode only; use %s or %s", OverlapShared, OverlapTwoBatch)
		ps.Require(prefill || c.MoE.Mode == collective.ModeLowLatency, "overlap",
			"single_batch needs moe.mode low_latency, whose combine sends expert by expert; it is %s", c.MoE.Mode)
	}
	ps.Require(c.OverlapMinTokens >= 0 && c.OverlapMinTokens <= 1<<20, "overlap_min_tokens",
		"%d is out of range: 0 to %d", c.OverlapMinTokens, 1<<20)
	ps.Nest("moe", c.MoE.Validate())
	ps.Require(c.CommSMs >= 0 && c.CommSMs <= 128, "comm_sms", "%d is out of range: 0 to 128", c.CommSMs)
	ps.Require(c.CommStretch >= 1 && c.CommStretch <= 10, "comm_stretch",
		"%v is out of range: 1 (no slowdown) to 10", c.CommStretch)
	span(&ps, "send_recv", c.SendRecv)
	span(&ps, "all_reduce_startup", c.AllReduceStartup)
	span(&ps, "host_gap", c.HostGap)
	return ps.Err()
}

// Validate checks the settings.
func (c MTPConfig) Validate() error {
	var ps config.Problems
	ps.Require(c.QueryTokens >= 1 && c.QueryTokens <= 16, "query_tokens",
		"%d is out of range: 1 (nothing is drafted) to 16", c.QueryTokens)
	ps.Require(c.Acceptance >= 0 && c.Acceptance <= 1, "acceptance", "%v is out of range: 0 to 1", c.Acceptance)
	ps.Require(c.LayersPerDraft >= 0 && c.LayersPerDraft <= 16, "layers_per_draft",
		"%d is out of range: 0 (no model drafts) to 16", c.LayersPerDraft)
	return ps.Err()
}

// Validate checks the settings.
func (c KVConfig) Validate() error {
	var ps config.Problems
	ps.Require(c.BlockTokens >= 1 && c.BlockTokens <= 8192, "block_tokens",
		"%d is out of range: 1 to 8192 tokens", c.BlockTokens)
	ps.Require(c.Utilisation >= 0.1 && c.Utilisation <= 1, "memory_utilisation",
		"%v is out of range: 0.1 to 1", c.Utilisation)
	ps.Require(c.QPs >= 1 && c.QPs <= 64, "qps", "%d is out of range: 1 to 64", c.QPs)
	span(&ps, "post_per_message", c.PostPerMessage)
	span(&ps, "post_per_descriptor", c.PostPerDescriptor)
	return ps.Err()
}

func span(ps *config.Problems, key string, t sim.Time) {
	ps.Require(t >= 0 && t <= sim.Second, key, "%v is out of range: 0s to 1s", t)
}

func choice(ps *config.Problems, key, value string, valid []string) {
	for _, v := range valid {
		if v == value {
			return
		}
	}
	ps.Addf(key, "unknown value %q%s", value, config.Suggest(value, valid))
}
