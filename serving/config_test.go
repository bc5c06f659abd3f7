package serving

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/collective"
	"github.com/tgssim/tgssim/sim"
)

// Each setting at an end of its range, and one beyond.
func TestConfigRanges(t *testing.T) {
	require.NoError(t, DefaultConfig().Validate())
	for _, c := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Prefill.Instances = 0 }, "prefill.instances: 0 is out of range: 1 to 65536"},
		{func(c *Config) { c.Decode.Instances = 1 << 16 }, ""},
		{func(c *Config) { c.Decode.Instances = 1<<16 + 1 }, "decode.instances: 65537 is out of range"},
		{func(c *Config) { c.Prefill.TP = 64 }, ""},
		{func(c *Config) { c.Prefill.TP = 65 }, "prefill.tp: 65 is out of range: 1 to 64"},
		{func(c *Config) { c.Prefill.DP = 4097 }, "prefill.dp: 4097 is out of range: 1 to 4096"},
		{func(c *Config) { c.Prefill.Router = "random" }, `prefill.router: unknown value "random"`},
		{func(c *Config) { c.Decode.Overlap = "three_batch" }, `decode.overlap: unknown value "three_batch"`},
		{func(c *Config) { c.Prefill.MaxBatchTokens = 0 }, "prefill.max_batch_tokens: 0 is out of range: 1 to 1048576"},
		{func(c *Config) { c.Prefill.MaxBatchTokens = 1 }, ""},
		{func(c *Config) { c.Decode.MaxBatchTokens = 1 }, "decode.max_batch_tokens: applies to prefill only"},
		{func(c *Config) { c.Decode.MaxBatchRequests = 0 }, "decode.max_batch_requests: 0 is out of range"},
		{func(c *Config) { c.Decode.OverlapMinTokens = 0 }, ""},
		{func(c *Config) { c.Decode.OverlapMinTokens = -1 }, "decode.overlap_min_tokens: -1 is out of range"},
		{func(c *Config) { c.Prefill.CommSMs = 128 }, ""},
		{func(c *Config) { c.Prefill.CommSMs = 129 }, "prefill.comm_sms: 129 is out of range: 0 to 128"},
		{func(c *Config) { c.Decode.CommSMs = 1 }, "decode.comm_sms: applies to prefill only"},
		{func(c *Config) { c.Prefill.CommStretch = 0.99 }, "prefill.comm_stretch: 0.99 is out of range"},
		{func(c *Config) { c.Prefill.CommStretch = 10 }, ""},
		{func(c *Config) { c.Prefill.SendRecv = 1 }, "prefill.send_recv: applies to decode only"},
		{func(c *Config) { c.Decode.SendRecv = sim.Second + 1 }, "decode.send_recv: 1.000000000001s is out of range"},
		{func(c *Config) { c.Decode.AllReduceStartup = -1 }, "decode.all_reduce_startup: -1ps is out of range"},
		{func(c *Config) { c.Decode.HostGap = sim.Second }, ""},
		{func(c *Config) { c.Prefill.HostGap = -1 }, "prefill.host_gap: -1ps is out of range"},
		{func(c *Config) { c.Prefill.Overlap = OverlapSingle }, "prefill.overlap: single_batch applies to decode only; use shared_expert or two_batch"},
		{func(c *Config) { c.Prefill.Overlap, c.Prefill.MoE.Mode = OverlapSingle, collective.ModeLowLatency }, "prefill.overlap: single_batch applies to decode only"},
		{func(c *Config) { c.Decode.Overlap, c.Decode.MoE.Mode = OverlapSingle, collective.ModeNormal }, "decode.overlap: single_batch needs moe.mode low_latency, whose combine sends expert by expert; it is normal"},
		{func(c *Config) { c.Decode.Overlap = OverlapSingle }, ""},
		{func(c *Config) { c.Prefill.MoE.Mode = "fast" }, `prefill.moe.mode: unknown value "fast"`},
		{func(c *Config) { c.Prefill.MoE.Timing = "measure" }, `prefill.moe.timing: unknown value "measure"; did you mean measured?`},
		{func(c *Config) { c.Decode.MoE.Timing = "measured" }, "decode.moe.measured_dispatch: missing; timing: measured needs it"},
		{func(c *Config) { c.Decode.MoE.MeasuredCombine.Fixed = 1 },
			"decode.moe.measured_combine: has no meaning with timing: fabric; remove it, or write timing: measured"},
		{func(c *Config) {
			m := collective.Measured{Fixed: sim.Second, PerToken: sim.Millisecond}
			c.Decode.MoE.Timing, c.Decode.MoE.MeasuredDispatch, c.Decode.MoE.MeasuredCombine = "measured", m, m
		}, ""},
		{func(c *Config) {
			m := collective.Measured{Fixed: sim.Second + 1, PerToken: 1}
			c.Decode.MoE.Timing, c.Decode.MoE.MeasuredDispatch, c.Decode.MoE.MeasuredCombine = "measured", m, m
		}, "decode.moe.measured_dispatch.fixed: 1.000000000001s is out of range: 0s to 1s"},
		{func(c *Config) {
			m := collective.Measured{Fixed: 1, PerToken: -1}
			c.Decode.MoE.Timing, c.Decode.MoE.MeasuredDispatch, c.Decode.MoE.MeasuredCombine = "measured", m, m
		}, "decode.moe.measured_combine.per_token: -1ps is out of range: 0s to 1ms"},
		{func(c *Config) { c.Prefill.MTP = c.Decode.MTP }, "prefill.mtp: applies to decode only; remove it"},
		{func(c *Config) { c.Decode.MTP.QueryTokens = 0 }, "decode.mtp.query_tokens: 0 is out of range: 1 (nothing is drafted) to 16"},
		{func(c *Config) { c.Decode.MTP.QueryTokens = 16 }, ""},
		{func(c *Config) { c.Decode.MTP.QueryTokens = 17 }, "decode.mtp.query_tokens: 17 is out of range"},
		{func(c *Config) { c.Decode.MTP.Acceptance = -0.1 }, "decode.mtp.acceptance: -0.1 is out of range: 0 to 1"},
		{func(c *Config) { c.Decode.MTP.Acceptance = 1 }, ""},
		{func(c *Config) { c.Decode.MTP.Acceptance = 1.1 }, "decode.mtp.acceptance: 1.1 is out of range"},
		{func(c *Config) { c.Decode.MTP.Acceptance = math.NaN() }, "decode.mtp.acceptance: NaN is out of range"},
		{func(c *Config) { c.Decode.MTP.LayersPerDraft = 17 }, "decode.mtp.layers_per_draft: 17 is out of range: 0 (no model drafts) to 16"},
		{func(c *Config) { c.KV.BlockTokens = 0 }, "kv.block_tokens: 0 is out of range"},
		{func(c *Config) { c.KV.Utilisation = 1.01 }, "kv.memory_utilisation: 1.01 is out of range"},
		{func(c *Config) { c.KV.QPs = 0 }, "kv.qps: 0 is out of range"},
		{func(c *Config) { c.KV.PostPerMessage = -1 }, "kv.post_per_message: -1ps is out of range"},
		{func(c *Config) { c.KV.PostPerDescriptor = sim.Second + 1 }, "kv.post_per_descriptor: 1.000000000001s is out of range"},
	} {
		cfg := DefaultConfig()
		c.change(&cfg)
		if err := cfg.Validate(); c.want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, c.want)
		}
	}
}

// The defaults that have a source are the source's.
func TestDefaultsWithASource(t *testing.T) {
	c := DefaultConfig()
	require.Equal(t, 370*us, c.KV.PostPerMessage, "Mooncake")
	require.Equal(t, 141*sim.Nanosecond, c.KV.PostPerDescriptor, "Mooncake")
	require.Equal(t, [2]int{24, 0}, [2]int{c.Prefill.CommSMs, c.Decode.CommSMs}, "DeepEP")
	require.Equal(t, [2]float64{1.45, 1}, [2]float64{c.Prefill.CommStretch, c.Decode.CommStretch})
	require.Equal(t, [2]sim.Time{0, 15 * us}, [2]sim.Time{c.Prefill.SendRecv, c.Decode.SendRecv})
}

// Pools that do not fit the servers are refused with what would fit.
func TestPoolsThatDoNotFit(t *testing.T) {
	for _, c := range []struct {
		change func(*setup)
		want   string
	}{
		{func(s *setup) { s.config.Prefill.Instances = 8 },
			"cluster.nodes: 1 servers have 8 GPUs and the pools need 9 (prefill 8 x 1, decode 1 x 1); use 2"},
		{func(s *setup) { s.config.Prefill.Instances = 7 }, ""},
		{func(s *setup) { s.config.Prefill.TP = 3 }, "prefill.tp: 3 GPUs of one rank must share a server, and servers have 8"},
		{func(s *setup) { s.servers, s.config.Prefill.TP = 3, 16 }, "prefill.tp: 16 GPUs of one rank must share a server"},
		{func(s *setup) { s.config.Decode.TP = 4 },
			"decode.tp: the pool begins at GPU 1, so ranks of 4 would straddle servers; make the prefill pool's GPUs a multiple of 4"},
		{func(s *setup) { s.config.Prefill.Instances, s.config.Decode.TP = 4, 4 }, ""},
		{func(s *setup) { *s = *moeSetup(s.source); s.config.Decode.DP = 3 },
			"decode.moe: 8 experts do not spread evenly over the 3 GPUs of an instance (tp x dp)"},
	} {
		s := newSetup(requests())
		c.change(s)
		if _, _, err := s.try(t, Listener{}); c.want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, c.want)
		}
	}
}
