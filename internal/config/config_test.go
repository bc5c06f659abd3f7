package config_test

import (
	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// scenario is a struct with one of everything that a Config may hold.
type scenario struct {
	Name        string         `yaml:"name"`
	Description string         `yaml:"description"`
	Seed        uint64         `yaml:"seed"`
	Topology    topology       `yaml:"topology"`
	Arrivals    arrivals       `yaml:"arrivals"`
	Pools       []pool         `yaml:"pools"`
	Failures    *failures      `yaml:"failures"`
	Mix         map[string]mix `yaml:"mix"`
	Notes       []string       `yaml:"notes"`
	Computed    int            `yaml:"-"`
}

type topology struct {
	Leaves    int         `yaml:"leaves"`
	Spines    int8        `yaml:"spines"`
	LinkRate  units.Rate  `yaml:"link_rate"`
	Buffer    units.Bytes `yaml:"buffer"`
	Lossless  bool        `yaml:"lossless"`
	Latencies latencies   `yaml:",inline"`
}

type latencies struct {
	Hop  sim.Time   `yaml:"hop_latency"`
	Lags []sim.Time `yaml:"lags"`
}

type arrivals struct {
	Rate   units.Frequency   `yaml:"rate"`
	CV     float64           `yaml:"cv"`
	Spread float32           `yaml:"spread"`
	Seeds  map[string]uint16 `yaml:"seeds"`
	Ratio  *float64          `yaml:"ratio"`
	Grid   [][]int           `yaml:"grid"`
}

type pool struct {
	Role   string   `yaml:"role"`
	TP     int      `yaml:"tp"`
	Window sim.Time `yaml:"window"`
}

// SetDefaults implements config.Defaulter.
func (p *pool) SetDefaults() { *p = pool{Role: "decode", TP: 1, Window: 20 * sim.Millisecond} }

type failures struct {
	MTBF  sim.Time `yaml:"mtbf"`
	Links int      `yaml:"links"`
	Spare int      `yaml:"spare,omitempty"`
}

// SetDefaults implements config.Defaulter.
func (f *failures) SetDefaults() { *f = failures{MTBF: 3600 * sim.Second, Links: 1} }

type mix struct {
	Share float64 `yaml:"share"`
	Model string  `yaml:"model"`
}

func defaults() scenario {
	return scenario{
		Name: "base",
		Seed: 1,
		Topology: topology{
			Leaves: 4, Spines: 2, LinkRate: 400 * units.Gbps, Buffer: 64 * units.MiB, Lossless: true,
			Latencies: latencies{Hop: 600 * sim.Nanosecond},
		},
		Arrivals: arrivals{Rate: 20, CV: 1, Spread: 0.5},
		Pools:    []pool{{Role: "prefill", TP: 8, Window: 5 * sim.Millisecond}},
	}
}

// validate stands for the Validate of the packages: it knows keys and no file.
func (s scenario) validate() error {
	var ps config.Problems
	var top config.Problems
	top.Require(s.Topology.Leaves > 0, "leaves", "must be at least 1")
	top.Require(s.Topology.LinkRate < units.Tbps, "link_rate", "must be below 1Tbps")
	ps.Nest("topology", top.Err())
	for i, p := range s.Pools {
		ps.Require(p.TP <= 8, "pools["+string(rune('0'+i))+"].tp", "must be at most 8")
	}
	return ps.Err()
}
