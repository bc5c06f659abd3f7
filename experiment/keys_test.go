package experiment

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/scenarios"
)

// tiny are scenarios of some milliseconds in which every setting has something
// to act on. moe has one prefill and one decode instance, each over two servers
// and in two micro-batches; dense has two and two instances of two GPUs.
var tiny = map[string][]string{
	"moe": {
		"qwen3-30b-a3b-h20", "gpu.name=h800", "cluster.nodes=4", "cluster.leaves=4", "cluster.spines=4",
		"prefill.instances=1", "prefill.tp=2", "prefill.dp=8", "prefill.max_batch_tokens=2048",
		"prefill.overlap=two_batch", "prefill.overlap_min_tokens=64",
		"decode.dp=8", "decode.tp=2", "decode.overlap=two_batch", "decode.overlap_min_tokens=2",
		"workload.requests=24", "workload.arrivals={process: gamma, cv: 2, rate: 2000/s}",
		"workload.prompt={dist: lognormal, mean: 500, cv: 1, min: 16, max: 2048}",
		"workload.output={dist: uniform, min: 1, max: 4}",
	},
	"dense": {
		"llama-3.1-70b-h800-pd", "model.name=qwen3-8b", "cluster.nodes=2", "cluster.leaves=8", "cluster.spines=1",
		"prefill.tp=2", "decode.tp=2", "prefill.max_batch_tokens=1024",
		"workload.requests=12", "workload.arrivals={process: poisson, rate: 500/s}",
		"workload.prompt={dist: zipf, alpha: 1, min: 128, max: 2048}",
		"workload.output={dist: uniform, min: 1, max: 5}",
	},
	// packet sends the KV of eight GPUs to one, packet by packet.
	"packet": {
		"llama-3.1-70b-h800-pd", "model.name=qwen3-8b", "network.engine=packet",
		"cluster.nodes=2", "cluster.leaves=2", "cluster.spines=4", "cluster.wiring=packed", "cluster.oversubscription=2",
		"prefill.instances=1", "prefill.tp=8", "decode.instances=2", "decode.tp=1", "kv.qps=2",
		"workload.requests=3", "workload.arrivals={process: at_once}",
		"workload.prompt={dist: fixed, tokens: 100}", "workload.output={dist: fixed, tokens: 1}",
	},
	"trace": {
		"azure-replay", "model.name=qwen3-8b", "cluster.nodes=2", "cluster.leaves=2", "prefill.instances=1", "prefill.tp=1", "prefill.dp=1", "prefill.overlap=shared_expert",
		"decode.dp=1", "workload.trace.path=../workload/testdata/mooncake.jsonl",
	},
}

// What changing a key must do.
const (
	changes     = "changes"     // another trajectory
	refused     = "refused"     // an error that names the key
	measurement = "measurement" // the same trajectory, measured otherwise
	idle        = "idle"        // nothing at all, for the reason given
)

// A change of one key of a tiny scenario.
type change struct {
	key   string // as config.Keys lists it
	value string // "" where the key's section is changed by others
	does  string
	// in is the tiny scenario; moe when empty.
	in string
	// on is what else both runs have, separated by blanks.
	on string
	// why nothing changes.
	why string
	// says is what a refusal says where it does not name the key itself.
	says string
}

// everyKey has each key of a scenario at least once.
var everyKey = []change{
	{key: "description", value: "x", does: idle, why: "it is for the reader"},
	{key: "seed", value: "2", does: changes},
	{key: "seed", value: "2", does: changes, on: "network.ecmp_seed=5"},
	{key: "seed", value: "2", does: changes, in: "packet"},
	{key: "replication", value: "1", does: changes},
	{key: "replication", value: "1", does: changes, on: "network.engine=ideal"},
	{key: "replication", value: "1", does: changes, in: "packet"},
	{key: "replication", value: "1", does: idle, in: "trace", on: "network.ecmp_seed=5", why: "a replay on fixed paths draws nothing"},
	{key: "model.name", value: "qwen3-8b", does: changes, in: "trace", on: "model.name=llama-3.1-70b prefill.tp=2 decode.tp=2"},
	{key: "model.weights", value: "fp8", does: changes},
	{key: "model.activations", value: "bf16", does: changes, on: "model.weights=fp8"},
	{key: "model.kv", value: "fp8", does: changes},
	{key: "gpu.name", value: "h20", does: changes},
	{key: "gpu.derate", value: "1.2", does: changes},
	{key: "gpu.memory", value: "20GB", does: changes, in: "trace"},
	{key: "gpu.memory", value: "1GB", does: refused, says: "weights need"},
	{key: "gpu.sms", value: "100", does: changes},
	{key: "gpu.sms", value: "0", does: refused},
	{key: "gpu.peak_fp8", value: "4500TFLOP/s", does: changes, on: "model.weights=fp8"},
	{key: "gpu.peak_bf16", value: "2250TFLOP/s", does: changes},
	{key: "gpu.hbm_bandwidth", value: "4.8TB/s", does: changes},
	{key: "gpu.nvlink", value: "450GB/s", does: changes},
	{key: "gpu.nvlink", value: "450GB/s", does: refused, on: "cluster.nvlink_rate=1280Gbps"},

	{key: "cluster.nodes", value: "8", does: changes},
	{key: "cluster.nodes", value: "1", does: refused, on: "cluster.leaves=1 cluster.spines=0"},
	{key: "cluster.gpus_per_node", value: "16", does: changes, on: "cluster.nics_per_node=8"},
	{key: "cluster.nics_per_node", value: "4", does: changes},
	{key: "cluster.nvlink_rate", value: "400Gbps", does: changes},
	{key: "cluster.nvlink_delay", value: "3us", does: changes},
	{key: "cluster.leaves", value: "2", does: changes},
	{key: "cluster.spines", value: "8", does: changes},
	{key: "cluster.nic_rate", value: "200Gbps", does: changes},
	{key: "cluster.link_rate", value: "800Gbps", does: changes},
	{key: "cluster.link_delay", value: "700ns", does: changes},
	{key: "cluster.switch_latency", value: "700ns", does: changes},
	{key: "cluster.nic_latency", value: "2us", does: changes},
	{key: "cluster.oversubscription", value: "2", does: changes},
	{key: "cluster.uplinks_per_leaf", value: "4", does: changes, on: "cluster.oversubscription=0 cluster.uplinks_per_leaf=8"},
	{key: "cluster.wiring", value: "rail", does: changes, on: "cluster.nodes=8 cluster.leaves=8 cluster.spines=8"},

	{key: "network.engine", value: "ideal", does: changes},
	{key: "network.mtu", value: "1024B", does: changes},
	{key: "network.header", value: "150B", does: changes},
	{key: "network.nvlink_efficiency", value: "0.8", does: changes},
	{key: "network.ecmp_seed", value: "3", does: changes},
	{key: "network.sample_layers", value: "4", does: changes},

	{key: "prefill.instances", value: "1", does: changes, in: "dense"},
	{key: "prefill.tp", value: "4", does: changes, in: "dense"},
	{key: "prefill.dp", value: "4", does: changes},
	{key: "prefill.dp", value: "2", does: refused, in: "dense"},
	{key: "prefill.router", value: "round_robin", does: changes},
	{key: "prefill.max_batch_tokens", value: "512", does: changes},
	{key: "prefill.max_batch_requests", value: "1", does: changes},
	{key: "prefill.overlap", value: "none", does: changes},
	{key: "prefill.overlap_min_tokens", value: "100000", does: changes},
	{key: "prefill.moe.mode", value: "low_latency", does: changes},
	{key: "prefill.moe.timing", value: "measured", does: refused, says: "prefill.moe.measured_dispatch: missing"},
	{key: "prefill.moe.measured_dispatch.fixed", value: "90us", does: changes, on: prefillMeasured},
	{key: "prefill.moe.measured_dispatch.per_token", value: "9us", does: changes, on: prefillMeasured},
	{key: "prefill.moe.measured_combine.fixed", value: "90us", does: changes, on: prefillMeasured},
	{key: "prefill.moe.measured_combine.per_token", value: "9us", does: changes, on: prefillMeasured},
	{key: "prefill.moe.measured_combine.fixed", value: "9us", does: refused, says: "prefill.moe.measured_combine: has no meaning"},
	{key: "prefill.moe.dispatch_startup", value: "90us", does: changes},
	{key: "prefill.moe.combine_startup", value: "90us", does: changes},
	{key: "prefill.moe.dispatch_dtype", value: "bf16", does: changes},
	{key: "prefill.moe.combine_dtype", value: "fp8", does: changes},
	{key: "prefill.moe.qps", value: "1", does: changes},
	{key: "prefill.moe.imbalance", value: "1.3", does: changes},
	{key: "prefill.comm_sms", value: "40", does: changes},
	{key: "prefill.comm_stretch", value: "1.2", does: changes},
	{key: "prefill.send_recv", value: "5us", does: refused},
	{key: "prefill.all_reduce_startup", value: "30us", does: changes},
	{key: "prefill.host_gap", value: "300us", does: changes},

	{key: "prefill.mtp.query_tokens", value: "2", does: refused, says: "prefill.mtp: applies to decode only"},
	{key: "prefill.mtp.acceptance", value: "0.5", does: refused, says: "prefill.mtp: applies to decode only"},
	{key: "prefill.mtp.layers_per_draft", value: "1", does: refused, says: "prefill.mtp: applies to decode only"},
	{key: "decode.instances", value: "1", does: changes, in: "dense"},
	{key: "decode.tp", value: "4", does: changes, in: "dense"},
	{key: "decode.dp", value: "4", does: changes},
	{key: "decode.router", value: "round_robin", does: changes},
	{key: "decode.max_batch_tokens", value: "512", does: refused},
	{key: "decode.max_batch_requests", value: "1", does: changes},
	{key: "decode.overlap", value: "none", does: changes},
	{key: "decode.overlap", value: "single_batch", does: changes},
	{key: "decode.overlap_min_tokens", value: "1000", does: changes},
	{key: "decode.moe.mode", value: "normal", does: changes},
	{key: "decode.moe.timing", value: "measured", does: refused, says: "decode.moe.measured_dispatch: missing"},
	{key: "decode.moe.measured_dispatch.fixed", value: "90us", does: changes, on: decodeMeasured},
	{key: "decode.moe.measured_dispatch.per_token", value: "9us", does: changes, on: decodeMeasured},
	{key: "decode.moe.measured_combine.fixed", value: "90us", does: changes, on: decodeMeasured},
	{key: "decode.moe.measured_combine.per_token", value: "9us", does: changes, on: decodeMeasured},
	{key: "decode.moe.measured_combine.fixed", value: "9us", does: refused, says: "decode.moe.measured_combine: has no meaning"},
	{key: "decode.moe.dispatch_startup", value: "90us", does: changes},
	{key: "decode.moe.combine_startup", value: "90us", does: changes},
	{key: "decode.moe.dispatch_dtype", value: "fp8", does: changes},
	{key: "decode.moe.combine_dtype", value: "fp8", does: changes},
	{key: "decode.moe.qps", value: "1", does: changes},
	{key: "decode.moe.imbalance", value: "1.3", does: changes},
	{key: "decode.comm_sms", value: "24", does: refused},
	{key: "decode.comm_stretch", value: "1.2", does: changes},
	{key: "decode.send_recv", value: "5us", does: changes},
	{key: "decode.all_reduce_startup", value: "30us", does: changes},
	{key: "decode.host_gap", value: "300us", does: changes},
	{key: "decode.mtp.query_tokens", value: "2", does: changes},
	{key: "decode.mtp.acceptance", value: "0.9", does: changes, on: "decode.mtp.query_tokens=3"},
	{key: "decode.mtp.layers_per_draft", value: "0", does: changes, on: "decode.mtp.query_tokens=2"},

	{key: "kv.block_tokens", value: "64", does: changes},
	{key: "kv.memory_utilisation", value: "0.23", does: changes, in: "trace"},
	{key: "kv.memory_utilisation", value: "0.01", does: refused},
	{key: "kv.qps", value: "1", does: changes},
	{key: "kv.post_per_message", value: "1ms", does: changes},
	{key: "kv.post_per_descriptor", value: "1us", does: changes},

	{key: "workload.requests", value: "23", does: changes},
	{key: "workload.duration", value: "5ms", does: changes},
	{key: "workload.arrivals", value: "{process: poisson, rate: 2000/s}", does: changes},
	{key: "workload.arrivals.process", value: "uniform", does: changes, in: "dense"},
	{key: "workload.arrivals.rate", value: "1000/s", does: changes},
	{key: "workload.arrivals.cv", value: "3", does: changes},
	{key: "workload.arrivals.cv", value: "3", does: refused, in: "dense"},
	{key: "workload.arrivals.size", value: "3", does: changes, on: "workload.arrivals={process:_batch,_size:_2,_rate:_2000/s}"},
	{key: "workload.arrivals.period", value: "20ms", does: changes, on: onOff},
	{key: "workload.arrivals.burst", value: "2ms", does: changes, on: onOff},
	{key: "workload.arrivals.peak", value: "3", does: changes, on: onOff},
	{key: "workload.prompt", value: "{dist: fixed, tokens: 300}", does: changes},
	{key: "workload.prompt.dist", value: "uniform", does: refused, says: "has no meaning with dist: uniform"},
	{key: "workload.prompt.tokens", value: "301", does: changes, on: "workload.prompt={dist:_fixed,_tokens:_300}"},
	{key: "workload.prompt.mean", value: "600", does: changes},
	{key: "workload.prompt.cv", value: "2", does: changes},
	{key: "workload.prompt.alpha", value: "2", does: changes, in: "dense"},
	{key: "workload.prompt.min", value: "400", does: changes},
	{key: "workload.prompt.max", value: "600", does: changes},
	{key: "workload.output", value: "{dist: fixed, tokens: 3}", does: changes},
	{key: "workload.output.dist", value: "fixed", does: refused, says: "has no meaning with dist: fixed"},
	{key: "workload.output.tokens", value: "4", does: changes, on: "workload.output={dist:_fixed,_tokens:_3}"},
	{key: "workload.output.mean", value: "5", does: changes, on: lognormalOutput},
	{key: "workload.output.cv", value: "2", does: changes, on: lognormalOutput},
	{key: "workload.output.alpha", value: "3", does: changes, on: "workload.output={dist:_zipf,_alpha:_1,_min:_1,_max:_9}"},
	{key: "workload.output.min", value: "2", does: changes},
	{key: "workload.output.max", value: "6", does: changes},
	{key: "workload.prefix", value: "{groups: 2, tokens: 100, share: 0.5}", does: idle, why: noCache},
	{key: "workload.prefix.groups", value: "3", does: idle, on: prefix, why: noCache},
	{key: "workload.prefix.tokens", value: "200", does: idle, on: prefix, why: noCache},
	{key: "workload.prefix.share", value: "0.9", does: idle, on: prefix, why: noCache},
	{key: "workload.prefix.alpha", value: "2", does: idle, on: prefix, why: noCache},
	{key: "workload.prefix.block_tokens", value: "64", does: idle, on: prefix, why: noCache},
	{key: "workload.trace", value: "{path: ../workload/testdata/azure_2023.csv}", does: changes, in: "trace"},
	{key: "workload.trace.path", value: "../workload/testdata/azure_2023.csv", does: changes, in: "trace"},
	{key: "workload.trace.format", value: "azure", does: refused, in: "trace", says: "mooncake.jsonl:1: quotes are not balanced"},
	{key: "workload.trace.speedup", value: "2", does: changes, in: "trace"},
	{key: "workload.trace.skip", value: "1", does: changes, in: "trace"},
	{key: "workload.trace.rows", value: "2", does: changes, in: "trace"},
	{key: "workload.trace.zero_lengths", value: "one", does: changes, in: "trace", on: "workload.trace.path=ZEROS"},
	{key: "workload.trace.block_tokens", value: "64", does: idle, in: "trace", why: noCache},

	{key: "run.until", value: "10ms", does: changes},
	{key: "metrics.slo.ttft", value: "1us", does: measurement},
	{key: "metrics.slo.tpot", value: "1us", does: measurement},
	{key: "metrics.slo.e2e", value: "1us", does: measurement},
	{key: "metrics.slo.itl", value: "1us", does: measurement},
	{key: "metrics.slo.percentile", value: "50", does: measurement, on: "metrics.slo.ttft=1us"},
	{key: "metrics.warmup", value: "5ms", does: measurement},
	{key: "metrics.window", value: "7ms", does: measurement},
	{key: "metrics.top_links", value: "1", does: measurement},
	{key: "metrics.steps", value: "true", does: measurement},
	{key: "metrics.decode_instances", value: "[0]", does: measurement},

	{key: "measured[0].quantity", value: "step_decode", does: refused, on: aMeasurement, says: "measured[0].unit"},
	{key: "measured[0].value", value: "2", does: idle, on: aMeasurement, why: "a run is not what it is held to"},
	{key: "measured[0].unit", value: "ms", does: refused, on: aMeasurement},
	{key: "measured[0].source", value: "y", does: idle, on: aMeasurement, why: "it is for the reader"},
	{key: "measured[0].within_pct", value: "5", does: idle, on: aMeasurement, why: "it is for tgssim validate"},
	{key: "measured[0].fit", value: "true", does: idle, on: aMeasurement, why: "it is for tgssim validate"},
}

const (
	prefillMeasured = "prefill.moe={timing:_measured,_measured_dispatch:_{fixed:_30us,_per_token:_1us},_measured_combine:_{fixed:_30us,_per_token:_1us}}"
	decodeMeasured  = "decode.moe={timing:_measured,_measured_dispatch:_{fixed:_30us,_per_token:_1us},_measured_combine:_{fixed:_30us,_per_token:_1us}}"
	aMeasurement    = "measured=[{quantity:_tgs_decode,_value:_1,_unit:_tokens/s/GPU,_source:_x}]"
	noCache         = "prefix caching is not modelled; a note says so"
	onOff           = "workload.arrivals={process:_onoff,_rate:_2000/s,_period:_10ms,_burst:_1ms,_peak:_5}"
	lognormalOutput = "workload.output={dist:_lognormal,_mean:_3,_cv:_1,_min:_1,_max:_20}"
	prefix          = "workload.prefix={groups:_2,_tokens:_100,_share:_0.5,_block_tokens:_32}"
)

// TestEveryKeyActs changes each key of a scenario, one at a time: the run takes
// another course, or the change is refused, or the table says why it does
// nothing. A new key has to be added to the table.
func TestEveryKeyActs(t *testing.T) {
	if testing.Short() {
		t.Skip("hundreds of runs")
	}
	seen := map[string]bool{}
	table := append(append([]change(nil), everyKey...), packetKeys()...)
	table = append(append(table, routingKeys("prefill")...), routingKeys("decode")...)
	for _, c := range table {
		seen[c.listed()] = true
	}
	known := map[string]bool{}
	for _, k := range config.Keys(scenarios.Default()) {
		known[k.Path] = true
		require.True(t, seen[k.Path], "add %s to everyKey, packetKeys or routingKeys", k.Path)
	}
	for key := range seen {
		require.True(t, known[key], "%s is in the table and no key of a scenario", key)
	}
	runs := map[string]*Result{}
	for _, c := range table {
		t.Run(c.key+"="+c.value, func(t *testing.T) { c.check(t, runs) })
	}
}

// conditional keys do nothing where what they describe does not exist.
var conditional = []change{
	{key: "prefill.comm_sms", value: "40", on: "prefill.overlap=shared_expert", why: "only two batches lend SMs"},
	{key: "prefill.comm_stretch", value: "3", on: "prefill.overlap=shared_expert", why: "nothing runs beside compute"},
	{key: "prefill.overlap_min_tokens", value: "1", on: "prefill.overlap=shared_expert", why: "it is two_batch's"},
	{key: "decode.send_recv", value: "1us", on: "decode.overlap=shared_expert", why: "it is the time between two batches"},
	{key: "prefill.overlap", value: "none", in: "dense", why: "a dense model has no dispatch to hide"},
	{key: "prefill.moe.imbalance", value: "2", in: "dense", why: "a dense model has no experts"},
	{key: "prefill.moe.mode", value: "low_latency", in: "dense", why: "a dense model has no experts"},
	{key: "prefill.moe.qps", value: "1", in: "dense", why: "a dense model has no experts"},
	{key: "decode.all_reduce_startup", value: "1ms", on: "decode.tp=1", why: "one GPU reduces nothing"},
	{key: "decode.mtp.acceptance", value: "1", why: "nothing is drafted"},
	{key: "decode.mtp.layers_per_draft", value: "3", why: "nothing is drafted"},
	{key: "decode.mtp.acceptance", value: "1", on: "decode.mtp.query_tokens=2 workload.output={dist:_fixed,_tokens:_1}", why: "one token is all that is asked for"},
	{key: "prefill.moe.dispatch_startup", value: "90us", on: prefillMeasured, why: "the measured time has it"},
	{key: "network.ecmp_seed", value: "3", does: measurement, on: "network.engine=ideal", why: "paths matter to the links' loads only"},
	{key: "network.sample_layers", value: "48", why: "the model has 48 MoE layers"},
	{key: "kv.qps", value: "1", does: measurement, on: "network.engine=ideal", why: "paths matter to the links' loads only"},
}

func TestConditionalKeysRest(t *testing.T) {
	runs := map[string]*Result{}
	for _, c := range conditional {
		if c.does == "" {
			c.does = idle
		}
		t.Run(c.key+"="+c.value, func(t *testing.T) { c.check(t, runs) })
	}
}

// listed is the key as config.Keys writes it: with [] for any item of a list.
func (c change) listed() string { return strings.ReplaceAll(c.key, "[0]", "[]") }

func (c change) check(t *testing.T, runs map[string]*Result) {
	t.Helper()
	in := c.in
	if in == "" {
		in = "moe"
	}
	set := append([]string(nil), tiny[in]...)
	for _, a := range strings.Fields(c.on) {
		a = strings.ReplaceAll(a, ":_", ": ")
		a = strings.ReplaceAll(a, ",_", ", ")
		if strings.HasSuffix(a, "=ZEROS") {
			a = strings.TrimSuffix(a, "ZEROS") + traceWithZeros(t)
		}
		if strings.Contains(a, "WEIGHTS") {
			a = weightFiles(t, a)
		}
		set = append(set, a)
	}
	name := in + " " + c.on
	if runs[name] == nil {
		runs[name] = run(t, load(t, set[0], set[1:]...))
	}
	before := runs[name]
	label := name + ": " + c.key + "=" + c.value
	value := c.value
	if strings.Contains(value, "WEIGHTS") {
		value = weightFiles(t, value)
	}
	s, err := scenarios.Load(set[0], append(set[1:], c.key+"="+value)...)
	var after *Result
	if err == nil {
		var b *Simulation
		if b, err = Build(s); err == nil {
			after, err = b.Run(context.Background(), nil)
		}
	}
	if c.does == refused {
		says := c.says
		if says == "" {
			says = c.key
		}
		require.ErrorContains(t, err, says, label)
		return
	}
	require.NoError(t, err, label)
	conserves(t, s, after)
	switch c.does {
	case changes:
		require.NotEqual(t, before.Fingerprint, after.Fingerprint, "%s changes nothing", label)
	case measurement:
		require.Equal(t, before.Fingerprint, after.Fingerprint, label)
		require.Equal(t, before.Requests, after.Requests, label)
		require.NotEqual(t, measured(t, before), measured(t, after), "%s is measured alike", label)
	case idle:
		require.NotEmpty(t, c.why, label)
		require.Equal(t, before.Fingerprint, after.Fingerprint, label)
		require.Equal(t, summary(t, before), summary(t, after), label)
	}
}
