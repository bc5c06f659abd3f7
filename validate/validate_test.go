package validate

import (
	"context"
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/collective"
	"github.com/tgssim/tgssim/scenarios"
	"github.com/tgssim/tgssim/sim"
)

var update = flag.Bool("update", false, "rewrite testdata and the tables of docs/validation.md")

// all runs every target, once for all tests.
func all(t *testing.T) ([]*scenarios.Scenario, []Row) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs every target, many times")
	}
	if cache.rows == nil {
		for _, n := range Targets() {
			s, err := Load(n)
			require.NoError(t, err, n)
			cache.scenarios = append(cache.scenarios, s)
		}
		rows, err := RunAll(context.Background(), cache.scenarios, 2)
		require.NoError(t, err)
		cache.rows = rows
		require.NoError(t, LeaveOneOut(context.Background(), cache.scenarios, cache.rows))
	}
	return cache.scenarios, cache.rows
}

var cache struct {
	scenarios []*scenarios.Scenario
	rows      []Row
}

// The bars: the six published throughputs, the mean of their errors, and each of
// them predicted by what the other five say. DeepSeek-V3's decode step besides.
func TestBars(t *testing.T) {
	_, rows := all(t)
	v := Judge(rows)
	require.Empty(t, v.Missed)
	require.Equal(t, 6, v.Fitted)
	measured := map[string]float64{
		"deepseek-v3-prefill-h800": 7839, "deepseek-v3-decode-h800": 2324.75, "deepseek-v3-decode-h800/step_decode": 88.1,
		"qwen3-30b-a3b-prefill-h20": 16594, "qwen3-30b-a3b-decode-h20": 2749,
		"qwen3-8b-fp8-prefill-h20": 15061, "qwen3-8b-fp8-decode-h20": 2682,
	}
	for _, r := range rows {
		want, ok := measured[r.Name]
		if !ok {
			require.False(t, r.Fit, r.Name)
			continue
		}
		delete(measured, r.Name)
		require.Equal(t, want, r.Measured, r.Name)
		require.InEpsilon(t, r.Measured, r.Simulated, 0.06, r.Name)
		if r.Fit {
			require.LessOrEqual(t, *r.WithinPct, 6.)
			require.NotNil(t, r.LeaveOneOut, r.Name)
			require.LessOrEqual(t, math.Abs(r.LeaveOneOut.ErrorPct), 7., r.Name)
		}
	}
	require.Empty(t, measured)
	require.LessOrEqual(t, v.Mean, 2.5)
}

// What the rows rest on: full batches for long enough, contexts as published, one
// derate and one stretch for all, and none of them anything but the default.
func TestSetups(t *testing.T) {
	ss, rows := all(t)
	contexts := map[string]float64{
		"deepseek-v3-decode-h800": 4096, "qwen3-30b-a3b-decode-h20": 5120, "qwen3-8b-fp8-decode-h20": 5120,
	}
	for _, r := range rows {
		if want, ok := contexts[r.Name]; ok {
			require.InEpsilon(t, want, *r.Context, 0.001, r.Name)
			require.GreaterOrEqual(t, *r.Steps, 150, r.Name)
			delete(contexts, r.Name)
		}
		if strings.Contains(r.Quantity, "prefill") {
			require.GreaterOrEqual(t, *r.Steps, 2, r.Name)
		}
		require.NotEmpty(t, r.Setup, r.Name)
		require.NotEmpty(t, r.Source, r.Name)
	}
	require.Empty(t, contexts)
	for _, s := range ss {
		if s == bound {
			continue
		}
		require.Equal(t, 1.05, s.GPU.Derate, s.Name)
		require.Equal(t, 1.45, s.Serving.Prefill.CommStretch, s.Name)
		require.Equal(t, 1., s.Serving.Decode.CommStretch, s.Name)
		require.Equal(t, 1., s.Serving.Prefill.MoE.Imbalance, s.Name)
		require.Equal(t, 1., s.Serving.Decode.MoE.Imbalance, s.Name)
	}
}

// Any figure that moves is seen.
func TestRowsAreAsRecorded(t *testing.T) {
	_, rows := all(t)
	const file = "testdata/rows.json"
	if *update {
		text, err := json.MarshalIndent(rows, "", "  ")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, append(text, '\n'), 0o644))
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var want []Row
	require.NoError(t, json.Unmarshal(text, &want))
	require.Len(t, rows, len(want))
	for i := range want {
		require.InEpsilon(t, want[i].Simulated, rows[i].Simulated, 1e-9, "%s; go test ./validate -update if it moved on purpose", rows[i].Name)
		want[i].Simulated, want[i].ErrorPct = rows[i].Simulated, rows[i].ErrorPct
		if f := want[i].LeaveOneOut; f != nil {
			require.InEpsilon(t, f.Simulated, rows[i].LeaveOneOut.Simulated, 1e-9, rows[i].Name)
			want[i].LeaveOneOut = rows[i].LeaveOneOut
		}
		require.Equal(t, want[i], rows[i])
	}
}

// Every quantity that a scenario may name is measured, in its unit: tgs and step
// are two views of the same steps.
func TestEveryQuantity(t *testing.T) {
	s, err := Load("qwen3-30b-a3b-decode-h20", "workload.output={dist: fixed, tokens: 40}", "workload.requests=800")
	require.NoError(t, err)
	s.Measured = nil
	for _, q := range scenarios.Quantities() {
		s.Measured = append(s.Measured, scenarios.Measurement{Quantity: q.Name, Value: 1, Unit: q.Unit, Source: "x"})
	}
	rows, err := Run(context.Background(), s)
	require.NoError(t, err)
	got := map[string]float64{}
	for _, r := range rows {
		got[r.Quantity] = r.Simulated
	}
	require.Len(t, got, len(scenarios.Quantities()))
	require.InEpsilon(t, 400/4/got["step_decode"]*1e3, got["tgs_decode"], 1e-9)
	require.InEpsilon(t, 16384/got["step_prefill"]*1e3, got["tgs_prefill"], 1e-9)
	// 19 us of start-up, 2 x 1.665 us of latency, 3 x 409,600 B at 450 GB/s.
	exchange := 19 + 3.33 + 3*409600/450e3
	require.InDelta(t, exchange, got["dispatch_decode"], 0.01)
	require.InDelta(t, exchange, got["combine_decode"], 0.01)
	require.Zero(t, got["dispatch_prefill"], "one GPU holds all experts")
	require.Positive(t, got["kv_transfer"])
}

// Figures by hand: of a fixed derate d the time of a model without communication
// is proportional to d, so the fit of one target to the others gives back what
// they were made with.
func TestLeaveOneOutFindsTheDerate(t *testing.T) {
	var ss []*scenarios.Scenario
	var rows []Row
	for _, n := range []string{"qwen3-8b-fp8-prefill-h20", "qwen3-30b-a3b-prefill-h20", "deepseek-v3-prefill-h800"} {
		s, err := Load(n, "gpu.derate=1.12")
		require.NoError(t, err)
		made, err := Run(context.Background(), s)
		require.NoError(t, err)
		s, err = Load(n)
		require.NoError(t, err)
		s.Measured[0].Value = made[0].Simulated
		r, err := Run(context.Background(), s)
		require.NoError(t, err)
		ss, rows = append(ss, s), append(rows, r...)
	}
	require.NoError(t, LeaveOneOut(context.Background(), ss, rows))
	for _, r := range rows {
		require.InDelta(t, 1.12, r.LeaveOneOut.Derate, 0.0021, r.Name)
		require.InDelta(t, 0, r.LeaveOneOut.ErrorPct, 0.2, r.Name)
		require.Greater(t, r.ErrorPct, 1., "with 1.05 it is off")
	}
	require.Error(t, LeaveOneOut(context.Background(), ss[:2], rows[:2]), "too few")
}

func TestParabola(t *testing.T) {
	f := func(x float64) float64 { return 3 - 2*x + 0.5*x*x }
	y := [3]float64{f(sampledDerates[0]), f(sampledDerates[1]), f(sampledDerates[2])}
	for _, x := range []float64{0.95, 1, 1.05, 1.13, 1.25} {
		require.InDelta(t, f(x), parabola(y, x), 1e-12)
	}
}

func TestJudge(t *testing.T) {
	six := 6.
	held := func(name string, off float64) Row { return Row{Name: name, ErrorPct: off, WithinPct: &six} }
	fit := func(name string, off float64) Row {
		r := held(name, off)
		r.Fit = true
		return r
	}
	require.Equal(t, Verdict{}, Judge([]Row{{Name: "shown", ErrorPct: 99}}))
	v := Judge([]Row{fit("a", 3), fit("b", -1), held("c", 5.9), {Name: "shown", ErrorPct: 99}})
	require.Equal(t, Verdict{Held: 3, Within: 3, Fitted: 2, Mean: 2}, v)
	v = Judge([]Row{fit("a", -6.01), fit("b", 0), fit("c", 0), held("d", 6.1)})
	require.Equal(t, []string{"a is off by 6.0 %, and the bar is 6 %", "d is off by 6.1 %, and the bar is 6 %"}, v.Missed)
	require.Equal(t, 2, v.Within)
	v = Judge([]Row{fit("a", 3), fit("b", -2.1)})
	require.Equal(t, []string{"the mean absolute error is 2.55 %, and the bar is 2.5 %"}, v.Missed)
	left := fit("a", 1)
	left.LeaveOneOut = &Fit{ErrorPct: -7.1}
	require.Equal(t, []string{"a, left out of the fit, is off by 7.1 %, and the bar is 7 %"}, Judge([]Row{left}).Missed)
	require.Len(t, Judge([]Row{fit("a", math.NaN())}).Missed, 2, "what is no number meets no bar")
}

// A user's own scenario is held to its own measurement, with everything that a
// scenario file may do.
func TestOwnScenario(t *testing.T) {
	dir := t.TempDir()
	text, err := Source("qwen3-8b-fp8-decode-h20")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "base.yaml"), text, 0o644))
	mine := filepath.Join(dir, "mine.yaml")
	require.NoError(t, os.WriteFile(mine, []byte(`extends: base.yaml
gpu: {derate: 2}
measured: [{quantity: step_decode, value: 50, unit: ms, source: my cluster}]
`), 0o644))
	s, err := Load(mine)
	require.NoError(t, err)
	rows, err := Run(context.Background(), s)
	require.NoError(t, err)
	require.Len(t, rows, 1)
	require.Equal(t, "mine", rows[0].Name)
	base, err := Load("qwen3-8b-fp8-decode-h20")
	require.NoError(t, err)
	one, err := Run(context.Background(), base)
	require.NoError(t, err)
	require.InEpsilon(t, 2/1.05*64e3/one[0].Simulated, rows[0].Simulated, 1e-6)

	for text, want := range map[string]string{
		"{quantity: tgs, value: 1, unit: ms, source: x}":                          `measured[0].quantity: unknown value "tgs"`,
		"{quantity: step_decod, value: 1, unit: ms, source: x}":                   "did you mean step_decode?",
		"{quantity: step_decode, value: 1, unit: s, source: x}":                   `measured[0].unit: "s"; step_decode is in ms`,
		"{quantity: step_decode, value: 0, unit: ms, source: x}":                  "measured[0].value: 0 is out of range: above 0",
		"{quantity: step_decode, value: .inf, unit: ms, source: x}":               "measured[0].value",
		"{quantity: step_decode, value: 1, unit: ms}":                             "measured[0].source: is missing",
		"{quantity: step_decode, value: 1, unit: ms, source: x, bar: 1}":          "measured[0].bar: unknown key",
		"{quantity: step_decode, value: 1, unit: ms, source: x, within_pct: 101}": "measured[0].within_pct: 101 is out of range: 0 (no limit) to 100",
	} {
		require.NoError(t, os.WriteFile(mine, []byte("extends: base.yaml\nmeasured: ["+text+"]\n"), 0o644))
		_, err = Load(mine)
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, os.WriteFile(mine, []byte("extends: base.yaml\nmeasured: []\n"), 0o644))
	_, err = Load(mine)
	require.ErrorContains(t, err, "has no measurement")
	_, err = Load("qwen3-8b-decode-h20")
	require.ErrorContains(t, err, `no target "qwen3-8b-decode-h20"; did you mean qwen3-8b-fp8-decode-h20?`)

	// Too short to have a steady state.
	short, err := Load("qwen3-8b-fp8-decode-h20", "workload.output={dist: fixed, tokens: 1}")
	require.NoError(t, err)
	_, err = Run(context.Background(), short)
	require.ErrorContains(t, err, "no two full steps of decode follow each other")
}

// However many run at a time, rows stand in the order of their scenarios, and the
// error is of the first that has one.
func TestRunAll(t *testing.T) {
	var ss []*scenarios.Scenario
	for _, n := range []string{"qwen3-8b-fp8-prefill-h20", BoundTarget, "mooncake-kv-transfer-128-h800"} {
		s, err := Load(n)
		require.NoError(t, err)
		ss = append(ss, s)
	}
	one, err := RunAll(context.Background(), ss, 1)
	require.NoError(t, err)
	three, err := RunAll(context.Background(), ss, 3)
	require.NoError(t, err)
	require.Equal(t, one, three)
	require.Len(t, one, 5)
	require.Equal(t, BoundTarget, one[1].Name)

	short, err := Load("qwen3-8b-fp8-decode-h20", "workload.output={dist: fixed, tokens: 1}")
	require.NoError(t, err)
	_, err = RunAll(context.Background(), append(ss, short), 2)
	require.ErrorContains(t, err, "no two full steps")
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = RunAll(canceled, ss, 2)
	require.ErrorIs(t, err, context.Canceled)
}

func TestFigure(t *testing.T) {
	for v, want := range map[float64]string{
		0.5: "0.500", 1.5: "1.500", 31.65: "31.65", 88.1: "88.10", 155: "155.0", 7839: "7,839", 16594: "16,594", 1234567: "1,234,567",
	} {
		require.Equal(t, want, Figure(v))
	}
	require.Equal(t, "+0.0 %", Percent(-0.01))
	require.Equal(t, "-1.3 %", Percent(-1.32))
}

// Dispatch and combine over the simulated fabric, fluid and packet by packet:
// DeepEP's kernels, with the two constants that its low-latency targets share and
// the one that its normal ones do, and DeepSeek-V3's steps, whose communication is
// no measured time. EP64 and EP256 in low latency are shown and held to nothing.
func TestFabricBars(t *testing.T) {
	ss, rows := all(t)
	held := map[float64]int{}
	for _, r := range rows {
		bar := 0.
		switch {
		case strings.HasPrefix(r.Name, "deepep-low-latency-ep64-"), strings.HasPrefix(r.Name, "deepep-low-latency-ep256-"):
			require.Nil(t, r.WithinPct, r.Name)
			continue
		case strings.HasPrefix(r.Name, "deepep-low-latency"):
			bar = 10
		case strings.HasPrefix(r.Name, "deepep-normal"):
			bar = 15
		case strings.Contains(r.Name, "-fabric-"):
			bar = 6
		default:
			continue
		}
		held[bar]++
		require.Equal(t, bar, *r.WithinPct, r.Name)
		require.LessOrEqual(t, math.Abs(r.ErrorPct), bar, r.Name)
	}
	require.Equal(t, map[float64]int{10: 2 * 4 * 2, 15: 2 * (3 + 2), 6: 1 + 2}, held)
	packet := 0
	for _, s := range ss {
		switch d, p := s.Serving.Decode.MoE, s.Network.NVLinkEfficiency; {
		case strings.HasPrefix(s.Name, "deepep-low-latency"):
			require.Equal(t, 26*sim.Microsecond, d.DispatchStartup, s.Name)
			require.Equal(t, 24*sim.Microsecond, d.CombineStartup, s.Name)
			require.Equal(t, 1., p, s.Name)
		case strings.HasPrefix(s.Name, "deepep-normal"):
			require.Equal(t, collective.DefaultPrefill().DispatchStartup, s.Serving.Prefill.MoE.DispatchStartup, s.Name)
			require.Equal(t, 0.75, p, s.Name)
		}
		if strings.HasSuffix(s.Name, "-packet") {
			packet++
			require.Equal(t, "packet", s.Network.Engine, s.Name)
		}
	}
	require.Equal(t, 6, packet)
}

// The published bound comes out to its last digit, in both engines that are fluid.
func TestIdealBound(t *testing.T) {
	for _, engine := range []string{"flow", "ideal"} {
		rows, err := runBound(engine)
		require.NoError(t, err)
		require.Empty(t, Judge(rows).Missed)
		require.Len(t, rows, 3)
		require.InDelta(t, 3*32*9*7000/50e3, rows[0].Simulated, 1e-5)
		require.InDelta(t, 2*61*3*32*9*7000/50e6, rows[1].Simulated, 1e-5)
		require.InDelta(t, 2*61*3*32*9*7000/900e6, rows[2].Simulated, 1e-5)
	}
	_, err := runBound("packets")
	require.Error(t, err)
	_, err = Source(BoundTarget)
	require.ErrorContains(t, err, "is no scenario")
}
