// Package collective turns an operation and a placement into traffic: which
// GPU sends how many bytes to which for an MoE dispatch, a combine or an
// all-reduce. It knows nothing of time on the wire; the fabric does.
package collective

import (
	"fmt"
	"math"

	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// The AllToAll modes of an MoE layer: DeepEP's two kernel families, and the plain
// collectives that small groups use.
const (
	// ModeLowLatency sends each selected expert its own copy of the token,
	// straight to the expert's GPU.
	ModeLowLatency = "low_latency"
	// ModeNormal sends a token at most once to each server, to the GPU with the
	// sender's local index, which forwards it over NVLink to the GPUs there.
	ModeNormal = "normal"
	// ModeAllGather sends every token to every GPU of the group, whatever its
	// experts, and reduce-scatters the outputs, as inference engines do inside a
	// server. The GPUs sort out their rows themselves.
	ModeAllGather = "all_gather"
)

// Modes lists the valid values of Config.Mode.
var Modes = []string{ModeNormal, ModeLowLatency, ModeAllGather}

// Where the time of a dispatch or combine comes from.
const (
	// TimingFabric moves its bytes over the simulated network.
	TimingFabric = "fabric"
	// TimingMeasured takes what was measured of it, a fixed time and one per
	// token, and moves no bytes. It is for holding the rest of the model to a
	// system whose communication is known: it neither feels nor causes congestion.
	TimingMeasured = "measured"
)

// Timings lists the valid values of Config.Timing.
var Timings = []string{TimingFabric, TimingMeasured}

// Measured is a time that was measured of a dispatch or combine alone, as a
// function of the tokens that a GPU contributes.
type Measured struct {
	// Fixed is the time without tokens: kernels, posting, synchronisation and
	// latency.
	Fixed sim.Time `yaml:"fixed"`
	// PerToken is the time of each token of the busiest GPU.
	PerToken sim.Time `yaml:"per_token"`
}

// Config says how an MoE layer's tokens travel.
type Config struct {
	// Mode is normal (a token goes once to each server, and on over NVLink),
	// low_latency (to each of its experts) or all_gather (to every GPU).
	Mode string `yaml:"mode"`
	// Timing is fabric (bytes move) or measured (times that are given, and no bytes).
	Timing string `yaml:"timing"`
	// MeasuredDispatch and MeasuredCombine are the times of timing measured, which
	// then replace start-up and fabric.
	MeasuredDispatch Measured `yaml:"measured_dispatch,omitempty"`
	MeasuredCombine  Measured `yaml:"measured_combine,omitempty"`
	// DispatchStartup and CombineStartup are the kernel, posting and
	// synchronisation time before the first byte leaves, beside the fabric's own
	// latency.
	DispatchStartup sim.Time `yaml:"dispatch_startup"`
	CombineStartup  sim.Time `yaml:"combine_startup"`
	// DispatchDType and CombineDType are the format of one element of a token on
	// its way to the experts and back: fp8 (with a 4-byte scale for every 128
	// elements) or bf16.
	DispatchDType string `yaml:"dispatch_dtype"`
	CombineDType  string `yaml:"combine_dtype"`
	// QPs is the number of queue pairs between two GPUs; each takes its own ECMP
	// path. 0 is what DeepEP opens: 12 in normal mode (one per channel, half its 24
	// SMs), one per expert of a GPU in low-latency mode; and 1 in all-gather mode.
	QPs int `yaml:"qps"`
	// Imbalance is the load of the busiest GPU's experts over the mean, 1 or
	// more. Measured with EPLB: 1.06 at 8 GPUs, 1.11 at 16, 1.25 at 32 (LMSYS). It
	// slows the experts' compute; the traffic stays balanced. With Routing both
	// follow from the tokens' choices, and it must be 1.
	Imbalance float64 `yaml:"imbalance"`
	// Routing says which experts tokens choose; null for the expectation over
	// equally popular ones.
	Routing *Routing `yaml:"routing,omitempty"`
}

// DefaultPrefill is DeepEP's normal mode. The start-up times are the constant
// terms of the H800 EP32 measurements (72 us + 0.428 us/token and 149 us +
// 0.840 us/token; deepseek-ai/DeepEP and the DeepSeek-V3 profile).
func DefaultPrefill() Config {
	return Config{
		Mode:            ModeNormal,
		Timing:          TimingFabric,
		DispatchStartup: 72 * sim.Microsecond,
		CombineStartup:  149 * sim.Microsecond,
		DispatchDType:   "fp8",
		CombineDType:    "bf16",
		Imbalance:       1,
	}
}

// DefaultDecode is DeepEP's low-latency mode. The start-up times are the
// constant terms of the H800 EP128 measurements (26 us and 24 us), less the
// 5 us that two leaf-spine hops take on the simulated fabric.
func DefaultDecode() Config {
	return Config{
		Mode:            ModeLowLatency,
		Timing:          TimingFabric,
		DispatchStartup: 21 * sim.Microsecond,
		CombineStartup:  19 * sim.Microsecond,
		DispatchDType:   "fp8",
		CombineDType:    "bf16",
		Imbalance:       1,
	}
}

// Validate checks the settings.
func (c Config) Validate() error {
	var ps config.Problems
	oneOf(&ps, "mode", c.Mode, Modes)
	oneOf(&ps, "timing", c.Timing, Timings)
	c.validateMeasured(&ps)
	oneOf(&ps, "dispatch_dtype", c.DispatchDType, dtypes)
	oneOf(&ps, "combine_dtype", c.CombineDType, dtypes)
	ps.Require(c.DispatchStartup >= 0 && c.DispatchStartup <= sim.Second, "dispatch_startup",
		"%v is out of range: 0s to 1s", c.DispatchStartup)
	ps.Require(c.CombineStartup >= 0 && c.CombineStartup <= sim.Second, "combine_startup",
		"%v is out of range: 0s to 1s", c.CombineStartup)
	ps.Require(c.QPs >= 0 && c.QPs <= 256, "qps", "%d is out of range: 1 to 256, or 0 for DeepEP's number", c.QPs)
	ps.Require(c.Imbalance >= 1 && c.Imbalance <= 256, "imbalance",
		"%v is out of range: 1 (balanced) to 256", c.Imbalance)
	if c.Routing != nil {
		ps.Nest("routing", c.Routing.Validate())
		ps.Require(c.Imbalance == 1, "imbalance",
			"%v has no meaning with routing, from which the imbalance follows; remove it, or remove routing", c.Imbalance)
	}
	return ps.Err()
}

// validateMeasured: the measured times are there exactly when they are used.
func (c Config) validateMeasured(ps *config.Problems) {
	for _, m := range []struct {
		key string
		Measured
	}{{"measured_dispatch", c.MeasuredDispatch}, {"measured_combine", c.MeasuredCombine}} {
		switch {
		case c.Timing != TimingMeasured:
			ps.Require(m.Measured == Measured{}, m.key, "has no meaning with timing: %s; remove it, or write timing: %s", c.Timing, TimingMeasured)
		case m.Measured == Measured{}:
			ps.Addf(m.key, "missing; timing: %s needs it, such as {fixed: 26us, per_token: 1.3us}", TimingMeasured)
		default:
			ps.Require(m.Fixed >= 0 && m.Fixed <= sim.Second, m.key+".fixed", "%v is out of range: 0s to 1s", m.Fixed)
			ps.Require(m.PerToken >= 0 && m.PerToken <= sim.Millisecond, m.key+".per_token", "%v is out of range: 0s to 1ms", m.PerToken)
		}
	}
}

func oneOf(ps *config.Problems, key, value string, valid []string) {
	for _, v := range valid {
		if v == value {
			return
		}
	}
	ps.Addf(key, "unknown value %q%s", value, config.Suggest(value, valid))
}

var dtypes = []string{"fp8", "bf16"}

// tokenBytes is what one token of hidden elements weighs on the wire.
func tokenBytes(dtype string, hidden int) int64 {
	if dtype == "fp8" {
		return int64(hidden) + 4*int64((hidden+127)/128)
	}
	return 2 * int64(hidden)
}

// Experts is the routing arithmetic of a model's MoE layer.
type Experts struct {
	// Count experts per layer, of which each token selects TopK.
	Count, TopK int
	// Groups and GroupLimit describe group-limited routing: the experts are in
	// Groups groups and a token's experts come from GroupLimit of them. 0 or 1
	// groups mean no limit.
	Groups, GroupLimit int
	// Hidden is the model's hidden size in elements.
	Hidden int
}

// Hit returns the probability that a token selects at least one of the experts
// first to first+held-1, when experts (and groups, where routing is limited) are
// equally popular. Exact: over the groups that are chosen, then hypergeometric
// over the experts in them. The experts are consecutive, so all groups but the
// first and the last that they touch are whole.
func (e Experts) Hit(first, held int) float64 {
	first, last := max(first, 0), min(first+held, e.Count)
	if last <= first {
		return 0
	}
	if e.Groups <= 1 || e.GroupLimit >= e.Groups {
		return 1 - missAll(e.Count, last-first, e.TopK)
	}
	size := e.Count / e.Groups
	var whole int
	var partial []int
	for g := first / size; g*size < last; g++ {
		n := min(last, (g+1)*size) - max(first, g*size)
		if n == size {
			whole++
		} else {
			partial = append(partial, n)
		}
	}
	pool := e.GroupLimit * size
	rest := e.Groups - whole - len(partial)
	var miss float64
	for chosen := range 1 << len(partial) { // which of the partial groups are chosen
		held, k := 0, 0
		for i, n := range partial {
			if chosen>>i&1 == 1 {
				held, k = held+n, k+1
			}
		}
		for j := range whole + 1 { // how many of the whole ones
			ways := choose(whole, j) * choose(rest, e.GroupLimit-k-j) / choose(e.Groups, e.GroupLimit)
			miss += float64(ways * missAll(pool, held+j*size, e.TopK))
		}
	}
	return 1 - miss
}

// missAll is the probability that k draws without replacement from n items
// avoid a marked subset of m.
func missAll(n, m, k int) float64 {
	p := 1.0
	for i := range k {
		if n-m-i <= 0 {
			return 0
		}
		p *= float64(n-m-i) / float64(n-i)
	}
	return p
}

func choose(n, k int) float64 {
	if k < 0 || k > n {
		return 0
	}
	c := 1.0
	for i := range k {
		c = c * float64(n-i) / float64(i+1)
	}
	return math.Round(c)
}

// A Placement is the GPUs of an EP group: ranks[i] holds the GPUs of attention
// rank i (its TP group). The experts are spread evenly over all of them.
type Placement struct {
	Graph *topology.Graph
	Ranks [][]topology.GPU
}

// GPUs returns all GPUs of the placement, in rank order.
func (p Placement) GPUs() []topology.GPU {
	var all []topology.GPU
	for _, r := range p.Ranks {
		all = append(all, r...)
	}
	return all
}

// Dispatch returns the traffic that carries tokens to their experts, one unit
// being one token of the rank. Selections that stay on the sending GPU use no
// wire. Experts are taken as equally popular; the bytes are the expectation, in
// thousandths of a byte per token.
func Dispatch(c Config, e Experts, p Placement) (fabric.CollectiveSpec, error) {
	return build("dispatch", c, e, p, tokenBytes(c.DispatchDType, e.Hidden), false)
}

// Combine returns the traffic that carries the experts' outputs back: the
// dispatch reversed, with the combine's element size.
func Combine(c Config, e Experts, p Placement) (fabric.CollectiveSpec, error) {
	return build("combine", c, e, p, tokenBytes(c.CombineDType, e.Hidden), true)
}

func build(name string, c Config, e Experts, p Placement, bytes int64, reverse bool) (fabric.CollectiveSpec, error) {
	gpus := p.GPUs()
	spec := fabric.CollectiveSpec{Name: name, Class: fabric.ClassEP, QPs: c.QPs, Ranks: len(p.Ranks)}
	if len(gpus) == 0 || e.Count%len(gpus) != 0 {
		return spec, fmt.Errorf("%d experts do not spread evenly over %d GPUs", e.Count, len(gpus))
	}
	switch {
	case c.QPs > 0:
	case c.Mode == ModeNormal:
		spec.QPs = deepEPChannels
	case c.Mode == ModeAllGather:
		spec.QPs = 1
	default:
		spec.QPs = e.Count / len(gpus)
	}
	b := builder{spec: &spec, reverse: reverse}
	for rank, own := range p.Ranks {
		for _, src := range own {
			// The rank's tokens are split evenly over its TP group.
			b.rank, b.token = rank, float64(bytes)/float64(len(own))
			switch c.Mode {
			case ModeNormal:
				b.normal(p, e, src, gpus)
			case ModeAllGather:
				b.allGather(src, gpus)
			default:
				b.lowLatency(e, src, gpus)
			}
		}
	}
	return spec, nil
}

// deepEPChannels is the number of queue pairs between two GPUs of DeepEP's
// normal kernels.
const deepEPChannels = 12

type builder struct {
	spec    *fabric.CollectiveSpec
	reverse bool
	rank    int
	token   float64 // bytes of one token's copy, per sending GPU
}

func (b *builder) add(src, dst topology.GPU, copies float64) {
	milli := roundMilli(b.token * copies)
	if src == dst || milli == 0 {
		return
	}
	if b.reverse {
		src, dst = dst, src
	}
	b.spec.Shares = append(b.spec.Shares, fabric.Share{Rank: b.rank, Src: src, Dst: dst, Milli: milli})
}

// roundMilli is bytes in thousandths.
func roundMilli(bytes float64) int64 { return int64(math.Round(1000 * bytes)) }

// lowLatency: k copies per token, spread evenly over the GPUs.
func (b *builder) lowLatency(e Experts, src topology.GPU, gpus []topology.GPU) {
	copies := float64(e.TopK) / float64(len(gpus))
	for _, dst := range gpus {
		b.add(src, dst, copies)
	}
}

// allGather: one copy to every GPU, straight.
func (b *builder) allGather(src topology.GPU, gpus []topology.GPU) {
	for _, dst := range gpus {
		b.add(src, dst, 1)
	}
}

// normal: one copy per server that holds a selected expert, to the GPU there
// with the sender's local index, and from it one copy per GPU that holds one.
func (b *builder) normal(p Placement, e Experts, src topology.GPU, gpus []topology.GPU) {
	perGPU := e.Count / len(gpus)
	forServers(p, gpus, func(first, last int) {
		here, relay := gpus[first:last], src
		if p.Graph.ServerOf(src) != p.Graph.ServerOf(here[0]) {
			relay = here[relayIndex(p.Graph, src, here)]
			b.add(src, relay, e.Hit(perGPU*first, perGPU*len(here)))
		}
		for i, dst := range here {
			b.add(relay, dst, e.Hit(perGPU*(first+i), perGPU))
		}
	})
}

// relayIndex picks the GPU of a server that shares the sender's rail, or a
// stand-in where the server lends the group fewer GPUs.
func relayIndex(g *topology.Graph, src topology.GPU, here []topology.GPU) int {
	local := g.LocalIndex(src)
	for i, gpu := range here {
		if g.LocalIndex(gpu) == local {
			return i
		}
	}
	return local % len(here)
}
