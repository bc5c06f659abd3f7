package congestion

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

func TestDefaultConfig(t *testing.T) {
	c := DefaultConfig()
	require.NoError(t, c.Validate())
	require.Contains(t, Algorithms(), c.Algorithm)
	// The presets of the parts belong together.
	require.Equal(t, "alibaba", c.DCQCN.Preset)
	require.Equal(t, "alibaba", c.ECN.Preset)
	require.Equal(t, "sonic-tomahawk5", c.Buffer.Preset)
}

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		key, says string
		change    func(*Config)
	}{
		{"preset", "did you mean pfc-only?", func(c *Config) { c.Preset = "pfc_only" }},
		{"algorithm", "did you mean dcqcn?", func(c *Config) { c.Algorithm = "dcqn" }},
		{"algorithm", "known: " + strings.Join(Algorithms(), ", "), func(c *Config) { c.Algorithm = "zigzag" }},
		{"dcqcn.preset", "did you mean nvidia?", func(c *Config) { c.DCQCN.Preset = "nvdia" }},
		{"dcqcn.notify", "known: cnp, ack", func(c *Config) { c.DCQCN.Notify = "" }},
		{"dcqcn.cnp_interval", "0s to 1s", func(c *Config) { c.DCQCN.CNPInterval = -1 }},
		{"dcqcn.cnp_interval", "0s to 1s", func(c *Config) { c.DCQCN.CNPInterval = sim.Never }},
		{"dcqcn.cnp_scope", "did you mean port?", func(c *Config) { c.DCQCN.CNPScope = "prot" }},
		{"dcqcn.cnp_delay", "0s to 1s", func(c *Config) { c.DCQCN.CNPDelay = 2 * sim.Second }},
		{"dcqcn.alpha_update", "did you mean period?", func(c *Config) { c.DCQCN.AlphaUpdate = "periodic" }},
		{"dcqcn.alpha_timer", "1ns to 1s", func(c *Config) { c.DCQCN.AlphaTimer = 0 }},
		{"dcqcn.g", "1e-06 to 1", func(c *Config) { c.DCQCN.G = 0 }},
		{"dcqcn.g", "1e-06 to 1", func(c *Config) { c.DCQCN.G = math.NaN() }},
		{"dcqcn.initial_alpha", "0 to 1", func(c *Config) { c.DCQCN.InitialAlpha = 1.1 }},
		{"dcqcn.rate_decrease", "known: cnp, period", func(c *Config) { c.DCQCN.RateDecrease = "x" }},
		{"dcqcn.decrease_interval", "1ns to 1s", func(c *Config) { c.DCQCN.DecreaseInterval = 0 }},
		{"dcqcn.min_decrease_factor", "0 to 1", func(c *Config) { c.DCQCN.MinDecreaseFactor = 50 }},
		{"dcqcn.first_cnp_rate", "0.001 to 1", func(c *Config) { c.DCQCN.FirstCNPRate = 0 }},
		{"dcqcn.increase_timer", "neither timer nor byte counter", func(c *Config) { c.DCQCN.IncreaseTimer = 0 }},
		{"dcqcn.increase_timer", "1ns to 1s", func(c *Config) { c.DCQCN.IncreaseTimer = 999 }},
		{"dcqcn.byte_counter", "0B to 1GB", func(c *Config) { c.DCQCN.ByteCounter = units.TB }},
		{"dcqcn.fast_recovery", "0 to 1000", func(c *Config) { c.DCQCN.FastRecovery = -1 }},
		{"dcqcn.rate_ai", "1bps to", func(c *Config) { c.DCQCN.RateAI = 0 }},
		{"dcqcn.rate_hai", "1bps to", func(c *Config) { c.DCQCN.RateHAI = -1 }},
		{"dcqcn.scale_from", "0bps to", func(c *Config) { c.DCQCN.ScaleFrom = -1 }},
		{"dcqcn.min_rate", "1bps to", func(c *Config) { c.DCQCN.MinRate = 0 }},
		{"dcqcn.initial_rate", "below min_rate", func(c *Config) { c.DCQCN.InitialRate = 1 }},
		{"dcqcn.window", "0B to 1TB", func(c *Config) { c.DCQCN.Window = -1 }},
		{"none.window", "0B to 1TB", func(c *Config) { c.None.Window = -1 }},
		{"ecn.preset", "did you mean sonic?", func(c *Config) { c.ECN.Preset = "sonik" }},
		{"ecn.thresholds", "is empty", func(c *Config) { c.ECN.Thresholds = nil }},
		{"ecn.thresholds[0].rate", "1bps to", func(c *Config) { c.ECN.Thresholds[0].Rate = 0 }},
		{"ecn.thresholds[0].kmin", "0B to 1GiB", func(c *Config) { c.ECN.Thresholds[0].Kmin = -1 }},
		{"ecn.thresholds[0].kmax", "100KB to 1GiB", func(c *Config) { c.ECN.Thresholds[0].Kmax = 99 * units.KB }},
		{"ecn.thresholds[0].pmax", "0 to 1", func(c *Config) { c.ECN.Thresholds[0].Pmax = math.NaN() }},
		{"ecn.thresholds[1].rate", "not above", func(c *Config) { c.ECN.Thresholds = append(c.ECN.Thresholds, c.ECN.Thresholds[0]) }},
		{"ecn.kmin", "0B to 1GiB, or -1B", func(c *Config) { c.ECN.Kmin = -2 }},
		{"ecn.kmax", "99KB is below kmin, 100KB", func(c *Config) { c.ECN.Kmin, c.ECN.Kmax = 100*units.KB, 99*units.KB }},
		{"ecn.pmax", "0 to 1", func(c *Config) { c.ECN.Pmax = 1.5 }},
		{"ecn.pmax", "0 to 1", func(c *Config) { c.ECN.Pmax = math.NaN() }},
		{"buffer.preset", "did you mean hpcc-ns3?", func(c *Config) { c.Buffer.Preset = "hpcc_ns3" }},
		{"buffer.size", "1B to 1GiB", func(c *Config) { c.Buffer.Size = 0 }},
		{"buffer.size_from", "0bps to", func(c *Config) { c.Buffer.SizeFrom = -1 }},
		{"buffer.lossless[1]", "8 is not a priority; use 0 to 7", func(c *Config) { c.Buffer.Lossless = []int{0, 8} }},
		{"buffer.lossless[1]", "listed twice", func(c *Config) { c.Buffer.Lossless = []int{3, 3} }},
		{"buffer.guaranteed", "0B to 1GiB", func(c *Config) { c.Buffer.Guaranteed = -1 }},
		{"buffer.alpha", "0.00390625 to 256", func(c *Config) { c.Buffer.Alpha = 0 }},
		{"buffer.static_threshold", "0B to 1GiB", func(c *Config) { c.Buffer.StaticThreshold = -1 }},
		{"buffer.resume_offset", "0B to 1GiB", func(c *Config) { c.Buffer.ResumeOffset = -1 }},
		{"buffer.egress_alpha", "0.00390625 to 256", func(c *Config) { c.Buffer.EgressAlpha = 300 }},
		{"buffer.egress_guaranteed", "0B to 1GiB", func(c *Config) { c.Buffer.EgressGuaranteed = -1 }},
		{"buffer.headroom.bytes", "0B to 1GiB", func(c *Config) { c.Buffer.Headroom.Bytes = -1 }},
		{"buffer.headroom.delays", "0 to 100", func(c *Config) { c.Buffer.Headroom.Delays = -1 }},
		{"buffer.headroom.frames", "0 to 100", func(c *Config) { c.Buffer.Headroom.Frames = 101 }},
		{"buffer.headroom.pool", "0B to 1GiB", func(c *Config) { c.Buffer.Headroom.Pool = -1 }},
	} {
		c := DefaultConfig()
		tc.change(&c)
		var ps config.Problems
		require.ErrorAs(t, c.Validate(), &ps, tc.key)
		require.Len(t, ps, 1, "%s: %v", tc.key, ps)
		require.Equal(t, tc.key, ps[0].Key)
		require.Contains(t, ps[0].Message, tc.says)
	}
}

// TestEveryFieldIsChecked: with every number negative, every key that holds one
// is named.
func TestEveryFieldIsChecked(t *testing.T) {
	c := DefaultConfig()
	var named []string
	var negate func(prefix string, v reflect.Value)
	negate = func(prefix string, v reflect.Value) {
		for i := range v.NumField() {
			f, key := v.Field(i), prefix+v.Type().Field(i).Tag.Get("yaml")
			switch f.Kind() {
			case reflect.Struct:
				negate(key+".", f)
			case reflect.Int, reflect.Int64:
				f.SetInt(-5)
				named = append(named, key)
			case reflect.Float64:
				f.SetFloat(-5)
				named = append(named, key)
			}
		}
	}
	negate("", reflect.ValueOf(&c).Elem())
	err := c.Validate()
	require.Error(t, err)
	require.Greater(t, len(named), 25)
	for _, key := range named {
		require.Contains(t, "\n"+err.Error(), "\n"+key+": ")
	}
}

func TestPresets(t *testing.T) {
	for _, name := range DCQCNPresets() {
		var c DCQCNConfig
		require.NoError(t, c.SetPreset(name))
		require.Equal(t, name, c.Preset)
		require.NoError(t, c.Validate(), name)
		_, err := NewDCQCN(c, 25*units.Gbps)
		require.NoError(t, err)
		_, err = NewDCQCN(c, 800*units.Gbps)
		require.NoError(t, err)
	}
	for _, name := range ECNPresets() {
		var c ECNConfig
		require.NoError(t, c.SetPreset(name))
		require.Equal(t, name, c.Preset)
		require.NoError(t, c.Validate(), name)
		c.Thresholds[0].Kmin = 0 // not that of the table
		var again ECNConfig
		require.NoError(t, again.SetPreset(name))
		require.NotZero(t, again.Thresholds[0].Kmin)
	}
	for _, name := range BufferPresets() {
		var c BufferConfig
		require.NoError(t, c.SetPreset(name))
		require.Equal(t, name, c.Preset)
		require.NoError(t, c.Validate(), name)
	}
	d, e, b := DefaultDCQCN(), DefaultECN(), DefaultBuffer()
	require.EqualError(t, d.SetPreset("papper"), `"papper" is not a known preset; did you mean paper?`)
	require.EqualError(t, e.SetPreset("x"), `"x" is not a known preset; known: alibaba, conweave, paper, simai, sonic, uet`)
	require.EqualError(t, b.SetPreset("sonic-tomahawk"), `"sonic-tomahawk" is not a known preset; did you mean sonic-tomahawk5?`)
	c := DefaultConfig()
	c.DCQCN, c.ECN, c.Buffer = d, e, b
	require.Equal(t, DefaultConfig(), c, "a refused name changes nothing")
}

// TestPresetList: every preset is found by its key, has a line of its own, and is
// valid at any rate.
func TestPresetList(t *testing.T) {
	said := map[string]string{}
	for _, p := range PresetList() {
		require.NotEmpty(t, p.About, p.Name)
		require.NotContains(t, said, p.About)
		said[p.About] = p.Name
		text := "preset: " + p.Name
		if p.Key != "" {
			text = p.Key + ": {" + text + "}"
		}
		tree, err := config.Parse("c.yaml", []byte(text))
		require.NoError(t, err)
		c := DefaultConfig()
		require.NoError(t, tree.Decode(&c), text)
		require.NoError(t, c.Validate(), text)
		for _, rate := range []units.Rate{units.Gbps, 25 * units.Gbps, 400 * units.Gbps, 800 * units.Gbps, 1600 * units.Gbps, maxRate} {
			require.NoError(t, c.ECN.Check(rate), text)
			_, err := New(c, Line{rate, 4096})
			require.NoError(t, err, text)
		}
	}
}

// TestWholePresets: what the presets of everything consist of.
func TestWholePresets(t *testing.T) {
	for _, tc := range []struct {
		name, algorithm, dcqcn, ecn, buffer string
		pfc                                 bool
	}{
		{"lossless", "dcqcn", "alibaba", "alibaba", "sonic-tomahawk5", true},
		{"pfc-only", "none", "alibaba", "alibaba", "sonic-tomahawk5", true},
		{"lossy", "dcqcn", "alibaba", "alibaba", "sonic-tomahawk5", false},
		{"conweave", "dcqcn", "conweave", "conweave", "conweave", true},
		{"hpcc-ns3", "dcqcn", "hpcc-ns3", "alibaba", "hpcc-ns3", true},
		{"paper", "dcqcn", "paper", "paper", "sonic-tomahawk5", true},
		{"simai", "dcqcn", "simai", "simai", "hpcc-ns3", true},
		{"sonic-nvidia", "dcqcn", "nvidia", "sonic", "sonic-tomahawk5", true},
	} {
		var c Config
		require.NoError(t, c.SetPreset(tc.name))
		require.Equal(t, tc.name, c.Preset)
		require.Equal(t, []string{tc.algorithm, tc.dcqcn, tc.ecn, tc.buffer}, []string{c.Algorithm, c.DCQCN.Preset, c.ECN.Preset, c.Buffer.Preset}, tc.name)
		require.Equal(t, tc.pfc, len(c.Buffer.Lossless) > 0, tc.name)
	}
	require.Len(t, ConfigPresets(), 8)
	c := DefaultConfig()
	require.EqualError(t, c.SetPreset("losless"), `"losless" is not a known preset; did you mean lossless?`)
	require.Equal(t, DefaultConfig(), c)
}

// TestOwnThresholds: kmin, kmax and pmax replace those of the table, and what they
// contradict there is found where a port has it.
func TestOwnThresholds(t *testing.T) {
	c := DefaultECN()
	c.Kmin, c.Pmax = 2*units.MB, 0.5
	require.NoError(t, c.Validate())
	require.Equal(t, ECNThresholds{400 * units.Gbps, 2 * units.MB, 6400 * units.KB, 0.5}, c.At(400*units.Gbps))
	require.NoError(t, c.Check(400*units.Gbps))
	require.EqualError(t, c.Check(100*units.Gbps), "kmin: ports of 100Gbps would have a kmin of 2MB above their kmax, 1600KB; write kmax, too")
	c.Kmax = 3 * units.MB
	require.NoError(t, c.Check(100*units.Gbps))
	require.Equal(t, ECNThresholds{100 * units.Gbps, 2 * units.MB, 3 * units.MB, 0.5}, c.At(100*units.Gbps))
	c.Kmin = -1
	require.EqualError(t, c.Check(units.Tbps), "kmax: ports of 1Tbps would have a kmin of 4MB above their kmax, 3MB; write kmin, too")
	c.Kmin, c.Pmax = 0, 0
	require.NoError(t, c.Validate())
	require.Equal(t, ECNThresholds{units.Tbps, 0, 3 * units.MB, 0}, c.At(units.Tbps), "0 is a threshold like any other")
}

// TestPresetsInYAML: what is written beside a preset overrides it, wherever it
// stands, and a configuration reads back as it was written.
func TestPresetsInYAML(t *testing.T) {
	read := func(text string) (Config, error) {
		tree, err := config.Parse("c.yaml", []byte(text))
		require.NoError(t, err)
		c := DefaultConfig()
		return c, tree.Decode(&c)
	}
	c, err := read(strings.Join([]string{
		"algorithm: none",
		"dcqcn: {rate_ai: 7Mbps, preset: nvidia, byte_counter: 0B}",
		"ecn: {preset: sonic}",
		"buffer: {preset: hpcc-ns3, headroom: {delays: 5}}",
	}, "\n"))
	require.NoError(t, err)
	want := DefaultConfig()
	want.Algorithm = "none"
	require.NoError(t, want.DCQCN.SetPreset("nvidia"))
	want.DCQCN.RateAI, want.DCQCN.ByteCounter = 7*units.Mbps, 0
	require.NoError(t, want.ECN.SetPreset("sonic"))
	require.NoError(t, want.Buffer.SetPreset("hpcc-ns3"))
	want.Buffer.Headroom.Delays = 5
	require.Equal(t, want, c)

	text, err := config.Marshal(&c)
	require.NoError(t, err)
	again, err := read(string(text))
	require.NoError(t, err)
	require.Equal(t, c, again)

	c, err = read("ecn: {kmin: 100kB, preset: sonic}\npreset: lossy\nalgorithm: hpcc")
	require.NoError(t, err)
	require.NoError(t, want.SetPreset("lossy"))
	require.NoError(t, want.ECN.SetPreset("sonic"))
	want.Algorithm, want.ECN.Kmin = "hpcc", 100*units.KB
	require.Equal(t, want, c, "sections are over the whole, keys over both")

	_, err = read("dcqcn:\n  g: 0.5\n  preset: nvida")
	require.EqualError(t, err, `c.yaml:3: dcqcn.preset: "nvida" is not a known preset; did you mean nvidia?`)
}

func TestNewRefusesRates(t *testing.T) {
	c := DefaultConfig()
	for _, line := range []units.Rate{0, -1, 200 * units.Tbps} {
		for _, a := range Algorithms() {
			c.Algorithm = a
			_, err := New(c, Line{line, 4096})
			require.ErrorContains(t, err, "line rate", a)
		}
	}
	var ps config.Problems
	_, err := NewDCQCN(c.DCQCN, 50*units.Mbps)
	require.ErrorAs(t, err, &ps)
	require.Equal(t, "min_rate", ps[0].Key)
	c.DCQCN.InitialRate = 40 * units.Gbps
	_, err = NewDCQCN(c.DCQCN, 25*units.Gbps)
	require.ErrorAs(t, err, &ps)
	require.Equal(t, "initial_rate", ps[0].Key)
	c.DCQCN.G = 2
	_, err = NewDCQCN(c.DCQCN, 25*units.Gbps)
	require.ErrorContains(t, err, "g: ")
	c.Algorithm = "dcqcn"
	ctl, err := New(c, Line{25 * units.Gbps, 4096})
	require.Error(t, err)
	require.Nil(t, ctl)
	c.Algorithm = "no-such"
	_, err = New(c, Line{25 * units.Gbps, 4096})
	require.EqualError(t, err, `"no-such" is not a known algorithm; known: `+strings.Join(Algorithms(), ", "))
	c.None.Window = -1
	_, err = NewNone(c.None, 25*units.Gbps)
	require.Error(t, err)
}

func TestScaled(t *testing.T) {
	require.Equal(t, 80*units.Mbps, scaled(5*units.Mbps, 400*units.Gbps, 25*units.Gbps))
	require.Equal(t, 5*units.Mbps, scaled(5*units.Mbps, 400*units.Gbps, 0))
	require.Equal(t, units.Rate(1), scaled(1, 1, 100), "never nothing")
	require.Equal(t, maxRate, scaled(maxRate, maxRate, 1))
	require.Equal(t, maxRate, scaled(units.Tbps, 200*units.Gbps, units.Gbps))
}
