package packet

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

func TestPresetsAreValid(t *testing.T) {
	for _, name := range Presets() {
		s := preset(t, name)
		require.NoError(t, s.Packet.Validate(), name)
		_, err := New(s, sim.New(), build(t, ls128()), 1)
		require.NoError(t, err, name)
	}
	_, err := Preset("line_rat")
	require.ErrorContains(t, err, "did you mean line-rate?")
}

// Each setting that is wrong is named, alone, with what would be right.
func TestValidate(t *testing.T) {
	for _, c := range []struct {
		key, says string
		break_    func(*Config)
	}{
		{"train", "use 1 to 64", func(c *Config) { c.Train = 0 }},
		{"train", "use 1 to 64", func(c *Config) { c.Train = 65 }},
		{"mark_at", "did you mean enqueue?", func(c *Config) { c.MarkAt = "enque" }},
		{"pause_response", "use 0s to 1ms", func(c *Config) { c.PauseResponse = -1 }},
		{"deadlock_check", "use 1us to 1s, or 0 for never", func(c *Config) { c.DeadlockCheck = 2 * sim.Second }},
		{"deadlock_check", "use 1us to 1s, or 0 for never", func(c *Config) { c.DeadlockCheck = 1 }},
		{"fault_detection", "out of range", func(c *Config) { c.FaultDetection = -1 }},
		{"path.choice", "did you mean ecmp?", func(c *Config) { c.Path.Choice = "emcp" }},
		{"path.index", "-1 for the destination's", func(c *Config) { c.Path.Index = -2 }},
		{"path.flowlet_gap", "out of range", func(c *Config) { c.Path.FlowletGap = -1 }},
		{"path.max_paths", "use 1 to", func(c *Config) { c.Path.MaxPaths = 0 }},
		{"transport.window_bdp", "such as 1.25", func(c *Config) { c.Transport.WindowBDP = -1 }},
		{"transport.ack_bytes", "such as 86B", func(c *Config) { c.Transport.AckBytes = 0 }},
		{"transport.ack_every", "use 1 to 1024", func(c *Config) { c.Transport.AckEvery = 0 }},
		{"transport.recovery", "did you mean go-back-n?", func(c *Config) { c.Transport.Recovery = "goback-n" }},
		{"transport.reorder_window", "a power of two", func(c *Config) { c.Transport.ReorderWindow = 100 }},
		{"transport.reorder_tolerance", "0 to derive it", func(c *Config) { c.Transport.ReorderTolerance = -1 }},
		{"transport.timeout", "use 1us to 10s", func(c *Config) { c.Transport.Timeout = 0 }},
		{"nic.max_qps", "0 for no limit", func(c *Config) { c.NIC.MaxQPs = -1 }},
		{"nic.max_requests", "0 for no limit", func(c *Config) { c.NIC.MaxRequests = -1 }},
		{"nic.request_cost", "out of range", func(c *Config) { c.NIC.RequestCost = sim.Second }},
		{"nic.drain_rate", "0 for no limit", func(c *Config) { c.NIC.DrainRate = -1 }},
		{"nic.drain_rate", "use 1Gbps to", func(c *Config) { c.NIC.DrainRate = units.Mbps }},
		{"nic.drain_buffer", "use 64KiB to 1GiB", func(c *Config) { c.NIC.DrainBuffer = units.KiB }},
		{"queues.mode", "did you mean shared?", func(c *Config) { c.Queues.Mode = "share" }},
		{"queues.kv_weight", "use 1 to 1000", func(c *Config) { c.Queues.KVWeight = 0 }},
		{"queues.ep_weight", "use 1 to 1000", func(c *Config) { c.Queues.EPWeight = 1001 }},
		{"queues.control_priority", "one of their own", func(c *Config) { c.Queues.ControlPriority = 3 }},
		{"queues.kv_priority", "not a priority", func(c *Config) { c.Queues.KVPriority = 8 }},
		{"queues.ep_priority", "of its own", func(c *Config) { c.Queues.Mode, c.Queues.EPPriority = "strict", 3 }},
		{"faults[1].at", "before the fault above it", func(c *Config) {
			c.Faults = []Fault{{Link: "a", At: 2, Rate: 1}, {Link: "a", At: 1, Rate: 1}}
		}},
		{"faults[0].rate", "0.001 to 1 (whole), or 0 (down)", func(c *Config) { c.Faults = []Fault{{Link: "a", Rate: 2}} }},
		{"faults[0].rate", "0.001 to 1 (whole), or 0 (down)", func(c *Config) { c.Faults = []Fault{{Link: "a", Rate: 1e-9}} }},
		{"faults[0].link", "such as leaf3>spine2", func(c *Config) { c.Faults = []Fault{{Rate: 1}} }},
	} {
		cfg := DefaultConfig()
		c.break_(&cfg)
		var ps config.Problems
		require.ErrorAs(t, cfg.Validate(), &ps, c.key)
		require.Len(t, ps, 1, "%s: %v", c.key, ps)
		require.Equal(t, c.key, ps[0].Key)
		require.Contains(t, ps[0].Message, c.says, c.key)
		s := DefaultSettings()
		s.Packet = cfg
		_, err := New(s, sim.New(), build(t, ls128()), 1)
		require.ErrorContains(t, err, "packet."+c.key)
	}
	s := DefaultSettings()
	s.Fabric.MTU, s.Packet.Train = 60*units.KiB, 64
	_, err := New(s, sim.New(), build(t, ls128()), 1)
	require.ErrorContains(t, err, "use a shorter train")
	s = DefaultSettings()
	s.Congestion.Buffer.Size = units.MB
	_, err = New(s, sim.New(), build(t, ls128()), 1)
	require.ErrorContains(t, err, "congestion.buffer.size: 1MB of memory leave nothing to share")
	s = DefaultSettings()
	s.Fabric.MTU = 1
	_, err = New(s, sim.New(), build(t, ls128()), 1)
	require.ErrorContains(t, err, "network.mtu")
	s = DefaultSettings()
	s.Congestion.DCQCN.MinRate = 500 * units.Gbps
	_, err = New(s, sim.New(), build(t, ls128()), 1)
	require.ErrorContains(t, err, "congestion.dcqcn.min_rate: 500Gbps is above the line rate")
}
