package congestion

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// presettable is what every Config with presets can do.
type presettable interface {
	SetPreset(name string) error
	Validate() error
}

// Every preset of every machine is valid and remembers its name; an unknown name
// leaves the settings alone and says the nearest one.
func TestMachinePresets(t *testing.T) {
	for _, m := range []struct {
		presets []string
		make    func() presettable
		name    func(presettable) string
		typo    string
		near    string
	}{
		{INTPresets(), func() presettable { c := DefaultINT(); return &c }, func(c presettable) string { return c.(*INTConfig).Preset }, "exakt", "exact"},
		{HPCCPresets(), func() presettable { c := DefaultHPCC(); return &c }, func(c presettable) string { return c.(*HPCCConfig).Preset }, "papers", "paper"},
		{SwiftPresets(), func() presettable { c := DefaultSwift(); return &c }, func(c presettable) string { return c.(*SwiftConfig).Preset }, "htsims", "htsim"},
		{TimelyPresets(), func() presettable { c := DefaultTimely(); return &c }, func(c presettable) string { return c.(*TimelyConfig).Preset }, "papers", "paper"},
		{CreditPresets(), func() presettable { c := DefaultCredit(); return &c }, func(c presettable) string { return c.(*CreditConfig).Preset }, "uecc", "uec"},
		{GSEPresets(), func() presettable { c := DefaultGSE(); return &c }, func(c presettable) string { return c.(*GSEConfig).Preset }, "pulls", "pull"},
	} {
		c := m.make()
		require.NoError(t, c.Validate())
		require.ErrorContains(t, c.SetPreset(m.typo), "did you mean "+m.near+"?")
		require.Equal(t, m.make(), c)
		require.Contains(t, m.presets, m.name(c), "the default is a preset")
		for _, p := range m.presets {
			require.NoError(t, c.SetPreset(p))
			require.NoError(t, c.Validate(), p)
			require.Equal(t, p, m.name(c))
		}
	}
}

// What is out of range is refused, by its key, also by the constructors.
func TestMachineSettings(t *testing.T) {
	nan := math.NaN()
	for key, change := range map[string]func(c *settings){
		"int.preset":                func(c *settings) { c.INT.Preset = "x" },
		"int.header_bytes":          func(c *settings) { c.INT.HeaderBytes = -1 },
		"int.hop_bytes":             func(c *settings) { c.INT.HopBytes = 257 },
		"int.reserved_hops":         func(c *settings) { c.INT.ReservedHops = 6 },
		"int.time_unit":             func(c *settings) { c.INT.TimeUnit = 0 },
		"int.bytes_unit":            func(c *settings) { c.INT.BytesUnit = 0 },
		"int.queue_unit":            func(c *settings) { c.INT.QueueUnit = 0 },
		"int.scale_from":            func(c *settings) { c.INT.ScaleFrom = -1 },
		"hpcc.preset":               func(c *settings) { c.HPCC.Preset = "x" },
		"hpcc.eta":                  func(c *settings) { c.HPCC.Eta = 1.01 },
		"hpcc.max_stage":            func(c *settings) { c.HPCC.MaxStage = -1 },
		"hpcc.rate_ai":              func(c *settings) { c.HPCC.RateAI = 0 },
		"hpcc.scale_from":           func(c *settings) { c.HPCC.ScaleFrom = -1 },
		"hpcc.base_rtt":             func(c *settings) { c.HPCC.BaseRTT = 1 },
		"hpcc.min_rate":             func(c *settings) { c.HPCC.MinRate = 0 },
		"swift.preset":              func(c *settings) { c.Swift.Preset = "x" },
		"swift.target_rtts":         func(c *settings) { c.Swift.TargetRTTs = 0.9 },
		"swift.base_target":         func(c *settings) { c.Swift.BaseTarget = 1 },
		"swift.hop_delay":           func(c *settings) { c.Swift.HopDelay = -1 },
		"swift.flow_scaling":        func(c *settings) { c.Swift.FlowScaling = nan },
		"swift.scaling_min_window":  func(c *settings) { c.Swift.ScalingMinWindow = 0 },
		"swift.scaling_max_window":  func(c *settings) { c.Swift.ScalingMaxWindow = 0.1 },
		"swift.ai":                  func(c *settings) { c.Swift.AI = 0 },
		"swift.beta":                func(c *settings) { c.Swift.Beta = 1.1 },
		"swift.max_mdf":             func(c *settings) { c.Swift.MaxMDF = 1 },
		"swift.min_window":          func(c *settings) { c.Swift.MinWindow = 0 },
		"swift.max_window":          func(c *settings) { c.Swift.MaxWindow = 0.5 },
		"swift.initial_window":      func(c *settings) { c.Swift.InitialWindow = 0.01 },
		"swift.reset_timeouts":      func(c *settings) { c.Swift.ResetTimeouts = 0 },
		"credit.preset":             func(c *settings) { c.Credit.Preset = "x" },
		"credit.quantum":            func(c *settings) { c.Credit.Quantum = 63 },
		"credit.speedup":            func(c *settings) { c.Credit.Speedup = 0 },
		"credit.outstanding":        func(c *settings) { c.Credit.Outstanding = nan },
		"credit.source_outstanding": func(c *settings) { c.Credit.SourceOutstanding = 0 },
		"credit.push":               func(c *settings) { c.Credit.Push = -1 },
		"credit.order":              func(c *settings) { c.Credit.Order = "" },
		"credit.timeout":            func(c *settings) { c.Credit.Timeout = 0 },
		"credit.request_bytes":      func(c *settings) { c.Credit.RequestBytes = -1 },
		"credit.message_bytes":      func(c *settings) { c.Credit.MessageBytes = 0 },
		"gse.preset":                func(c *settings) { c.GSE.Preset = "x" },
		"gse.container_bytes":       func(c *settings) { c.GSE.ContainerBytes = 0 },
		"gse.header_bytes":          func(c *settings) { c.GSE.HeaderBytes = -1 },
		"gse.spray":                 func(c *settings) { c.GSE.Spray = "" },
		"gse.credit.quantum":        func(c *settings) { c.GSE.Credit.Quantum = 0 },
		"gse.stop_bytes":            func(c *settings) { c.GSE.StopBytes = -1 },
		"gse.resume_bytes":          func(c *settings) { c.GSE.ResumeBytes = c.GSE.StopBytes + 1 },
		"gse.idle_timeout":          func(c *settings) { c.GSE.IdleTimeout = 0 },
		"gse.reorder_window":        func(c *settings) { c.GSE.ReorderWindow = 48 },
		"gse.reorder_bytes":         func(c *settings) { c.GSE.ReorderBytes = c.GSE.ContainerBytes - 1 },
		"gse.reorder_timeout":       func(c *settings) { c.GSE.ReorderTimeout = 0 },
	} {
		s := settings{INT: DefaultINT(), HPCC: DefaultHPCC(), Swift: DefaultSwift(), Credit: DefaultCredit(), GSE: DefaultGSE()}
		change(&s)
		var ps config.Problems
		ps.Nest("int", s.INT.Validate())
		ps.Nest("hpcc", s.HPCC.Validate())
		ps.Nest("swift", s.Swift.Validate())
		ps.Nest("credit", s.Credit.Validate())
		ps.Nest("gse", s.GSE.Validate())
		require.NotEmpty(t, ps, key)
		require.Equal(t, key, ps[0].Key, "%v", ps)
		const line, rtt = 400 * units.Gbps, 8 * sim.Microsecond
		errs := 0
		for _, err := range []error{
			second(NewINT(s.INT, line)), second(NewHPCC(s.HPCC, line)), second(NewSwift(s.Swift, line, 4096)),
			second(NewCreditScheduler(s.Credit, line, rtt, 4160)), second(NewGSE(s.GSE, line, rtt)),
		} {
			if err != nil {
				errs++
			}
		}
		require.Equal(t, 1, errs, key)
	}
}

func second[T any](_ T, err error) error { return err }

// What does not fit the line or the packets is refused too.
func TestMachinesOnImpossibleLines(t *testing.T) {
	for _, line := range []units.Rate{0, -1, 101 * units.Tbps} {
		require.Error(t, second(NewINT(DefaultINT(), line)))
		require.Error(t, second(NewHPCC(DefaultHPCC(), line)))
		require.Error(t, second(NewSwift(DefaultSwift(), line, 4096)))
		require.Error(t, second(NewCreditScheduler(DefaultCredit(), line, sim.Microsecond, 4160)))
		require.Error(t, second(NewGSE(DefaultGSE(), line, sim.Microsecond)))
	}
	require.ErrorContains(t, second(NewHPCC(DefaultHPCC(), units.Mbps)), "min_rate: 100Mbps is above the line rate, 1Mbps")
	require.ErrorContains(t, second(NewSwift(DefaultSwift(), units.Gbps, 0)), "use 1B to 1MiB")
	require.ErrorContains(t, second(NewCreditScheduler(DefaultCredit(), units.Gbps, 0, 4160)), "use above 0")
	require.ErrorContains(t, second(NewCreditScheduler(DefaultCredit(), units.Gbps, sim.Microsecond, 0)), "use 1B to 16MiB")
	require.ErrorContains(t, second(NewGSE(DefaultGSE(), units.Gbps, -1)), "use above 0")
}
