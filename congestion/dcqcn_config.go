package congestion

import (
	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// What an update follows; see DCQCNConfig.AlphaUpdate and RateDecrease.
const (
	// OnCNP acts at the arrival of a CNP.
	OnCNP = "cnp"
	// OnPeriod looks at the end of every period whether a CNP has arrived in it.
	OnPeriod = "period"
)

// How marks travel to the sender; see DCQCNConfig.Notify.
const (
	// NotifyCNP sends congestion notification packets.
	NotifyCNP = "cnp"
	// NotifyACK echoes the mark of every packet on its acknowledgement.
	NotifyACK = "ack"
)

// What shares a CNP interval; see DCQCNConfig.CNPScope.
const (
	// ScopeQP is one interval per queue pair.
	ScopeQP = "qp"
	// ScopePort is one interval per NIC port, for all its queue pairs.
	ScopePort = "port"
)

// DCQCNConfig holds the constants of DCQCN. Sources: "paper" is Zhu et al.,
// Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015; "NIC" is
// the ConnectX family's implementation, by the names of NVIDIA's configuration
// tool and its DCQCN Parameters page (DOC-2790); "HPCC-ns3" is the simulator of
// Li et al., HPCC, SIGCOMM 2019, whose DCQCN is after the NIC's.
type DCQCNConfig struct {
	// Preset names the set of constants to start from: see DCQCNPresets. What is
	// written beside it overrides it.
	Preset string `yaml:"preset"`

	// Notify is how a mark travels back to the sender: "cnp" (paper, NIC) or
	// "ack", on every acknowledgement (HPCC-ns3).
	Notify string `yaml:"notify"`
	// CNPInterval is the least time between two CNPs (N in the paper, 50 us;
	// NIC: min_time_between_cnps). 0 sends one for every marked packet.
	CNPInterval sim.Time `yaml:"cnp_interval"`
	// CNPScope is what shares an interval: "qp" (paper) or "port" (NIC: "minimum
	// time between sending CNPs from the port").
	CNPScope string `yaml:"cnp_scope"`
	// CNPDeferred sends a CNP at the end of an interval in which a marked packet
	// arrived (paper, section 3.1). Otherwise such a mark is forgotten, and the
	// first one after the interval sends the CNP (NIC).
	CNPDeferred bool `yaml:"cnp_deferred"`
	// CNPDelay is from the decision to send a CNP until it leaves the NIC. NICs
	// with some 50 us have been reported (by users of ns-3-alibabacloud).
	CNPDelay sim.Time `yaml:"cnp_delay"`

	// AlphaUpdate is when alpha moves: "cnp", up with every CNP and down after
	// every AlphaTimer without one (paper), or "period", up or down at the end of
	// every AlphaTimer, by whether a CNP arrived in it (NIC, HPCC-ns3).
	AlphaUpdate string `yaml:"alpha_update"`
	// AlphaTimer is the period of that (paper: 55 us; NIC: dce_tcp_rtt, 1 us).
	AlphaTimer sim.Time `yaml:"alpha_timer"`
	// G is the gain of alpha: up is alpha = (1-g) alpha + g, down is alpha =
	// (1-g) alpha (paper: 1/256; NIC: 1 - dce_tcp_g/1024).
	G float64 `yaml:"g"`
	// InitialAlpha is alpha at a flow's first CNP (paper: 1; NIC:
	// initial_alpha_value/1024).
	InitialAlpha float64 `yaml:"initial_alpha"`

	// RateDecrease is when the rate is cut to 1 - alpha/2 of itself: "cnp", at a
	// CNP (paper), or "period", at the end of every DecreaseInterval in which a
	// CNP arrived (NIC, HPCC-ns3).
	RateDecrease string `yaml:"rate_decrease"`
	// DecreaseInterval is the period of that, or with "cnp" the least time
	// between two cuts (NIC: rate_reduce_monitor_period, 4 us).
	DecreaseInterval sim.Time `yaml:"decrease_interval"`
	// MinDecreaseFactor bounds a cut: the new rate is at least this part of the
	// old (NIC: rpg_min_dec_fac, 50 %, which 1 - alpha/2 never undercuts).
	MinDecreaseFactor float64 `yaml:"min_decrease_factor"`
	// ClampTargetRate makes every cut set the target rate to the rate before it
	// (paper; NIC: clamp_tgt_rate). Otherwise a cut does so only if the rate has
	// risen since the last one: by the byte counter, or also by the timer with
	// ClampTargetRateAfterTime (NIC: clamp_tgt_rate_after_time_inc).
	ClampTargetRate          bool `yaml:"clamp_target_rate"`
	ClampTargetRateAfterTime bool `yaml:"clamp_target_rate_after_time_increase"`
	// FirstCNPRate is the part of the line rate to which a flow's first CNP sets
	// both its rates, before any cut (NIC: rate_to_set_on_first_cnp). 1 leaves
	// them alone.
	FirstCNPRate float64 `yaml:"first_cnp_rate"`

	// IncreaseTimer is the time T between two increases (paper: 55 us; NIC:
	// rpg_time_reset, 300 us). 0 is none.
	IncreaseTimer sim.Time `yaml:"increase_timer"`
	// ByteCounter is the bytes B sent between two increases (paper: 10 MB; NIC:
	// rpg_byte_reset). 0 is none.
	ByteCounter units.Bytes `yaml:"byte_counter"`
	// FastRecovery is F, the number of increases of one kind, timer or bytes,
	// that halve the distance to the target rate before it is raised (paper: 5;
	// NIC: rpg_threshold, 1).
	FastRecovery int `yaml:"fast_recovery"`
	// RateAI is what an additive increase adds to the target rate (paper: 40
	// Mb/s at 40 Gb/s; NIC: rpg_ai_rate, 5 Mb/s).
	RateAI units.Rate `yaml:"rate_ai"`
	// RateHAI is what a hyper increase adds (NIC: rpg_hai_rate, 50 Mb/s).
	RateHAI units.Rate `yaml:"rate_hai"`
	// HAIByStage multiplies RateHAI by the number of the hyper increase: R_T +=
	// i R_HAI (paper). Otherwise each adds the same (HPCC-ns3).
	HAIByStage bool `yaml:"rate_hai_by_stage"`
	// ScaleFrom is the line rate that RateAI and RateHAI are meant for: they grow
	// in proportion to it. 0 is none: they are the same on every line. (HPCC-ns3:
	// 5 and 50 Mb/s for every 25 Gb/s.)
	ScaleFrom units.Rate `yaml:"scale_from"`
	// ReleaseAtLineRate ends the control of a flow that is back at line rate: its
	// next CNP is a first one again (NIC: "once this limit is reached, the flow
	// is not rate limited any more").
	ReleaseAtLineRate bool `yaml:"release_at_line_rate"`

	// GapFollowsRate lets a packet that waits for its turn go earlier when the timer
	// raises the rate meanwhile, as a NIC's rate limiter does. Otherwise the gap
	// before a packet is fixed when the one before it is sent (HPCC-ns3): 33 ms at 1
	// Mb/s, whatever the rate has become since.
	GapFollowsRate bool `yaml:"gap_follows_rate"`

	// MinRate is the lowest rate (NIC: rpg_min_rate, 1 Mb/s; HPCC-ns3: 100 Mb/s).
	MinRate units.Rate `yaml:"min_rate"`
	// InitialRate is the rate of a new flow; 0 is the line rate (paper, NIC,
	// HPCC-ns3). A lower one rises towards the line rate by the increase rules.
	InitialRate units.Rate `yaml:"initial_rate"`
	// Window bounds the bytes of a flow that are sent and not acknowledged; 0 is
	// no bound. DCQCN has none; HPCC-ns3 can add one.
	Window units.Bytes `yaml:"window"`
	// WindowFollowsRate shrinks Window in proportion to the rate (HPCC-ns3:
	// VAR_WIN).
	WindowFollowsRate bool `yaml:"window_follows_rate"`
}

// dcqcnPresets is the table of the presets.
var dcqcnPresets = presets[DCQCNConfig]{
	{"alibaba", "the NIC's timers, R_AI and R_HAI in proportion to the line rate, CNPs paced per queue pair", alibabaDCQCN},
	{"conweave", "ConWeave's simulator: as hpcc-ns3, R_AI 10 and R_HAI 25 Mb/s for every 25 Gb/s", conweaveDCQCN},
	{"hpcc-ns3", "the HPCC repository's simulator: the same, and every acknowledgement is a CNP", hpccNS3DCQCN},
	{"nvidia", "firmware defaults of an unchanged ConnectX (Mellanox): 300 us and 32,767 B, F = 1", nvidiaDCQCN},
	{"paper", "SIGCOMM 2015, at 40 Gb/s: 50/55/55 us and 10 MB, F = 5", paperDCQCN},
	{"simai", "SimAI.conf: as hpcc-ns3, 900 us, R_AI 50 and R_HAI 100 Mb/s at any rate", simaiDCQCN},
}

// DCQCNPresets lists the names of the presets.
func DCQCNPresets() []string { return dcqcnPresets.names() }

// SetPreset sets every field to that of the named preset. An unknown name leaves
// c alone and is an error that names the nearest one.
func (c *DCQCNConfig) SetPreset(name string) error {
	return setPreset(c, &c.Preset, dcqcnPresets, name)
}

// DefaultDCQCN is the preset "alibaba"; docs/decisions/0003 says why.
func DefaultDCQCN() DCQCNConfig {
	c := alibabaDCQCN()
	c.Preset = "alibaba"
	return c
}

// paperDCQCN is section 5 and table 14 of the paper. R_HAI is not in the paper;
// it is that of its authors' simulator (ns3-rdma, mix/config.txt), as is the
// minimum rate.
func paperDCQCN() DCQCNConfig {
	return DCQCNConfig{
		Notify:            NotifyCNP,
		CNPInterval:       50 * sim.Microsecond,
		CNPScope:          ScopeQP,
		CNPDeferred:       true,
		AlphaUpdate:       OnCNP,
		AlphaTimer:        55 * sim.Microsecond,
		G:                 1. / 256,
		InitialAlpha:      1,
		RateDecrease:      OnCNP,
		MinDecreaseFactor: 0.5,
		ClampTargetRate:   true,
		FirstCNPRate:      1,
		IncreaseTimer:     55 * sim.Microsecond,
		ByteCounter:       10 * units.MB,
		FastRecovery:      5,
		RateAI:            40 * units.Mbps,
		RateHAI:           200 * units.Mbps,
		HAIByStage:        true,
		GapFollowsRate:    true,
		MinRate:           100 * units.Mbps,
	}
}

// nvidiaDCQCN is the output of mlxconfig on an unchanged adapter: RPG_TIME_RESET
// 300, RPG_BYTE_RESET 32767, RPG_THRESHOLD 1, RPG_AI_RATE 5, RPG_HAI_RATE 50,
// RPG_GD 11 (a cut by alpha/2), RPG_MIN_DEC_FAC 50, RPG_MIN_RATE 1,
// RATE_TO_SET_ON_FIRST_CNP 0, DCE_TCP_G 1019, DCE_TCP_RTT 1,
// RATE_REDUCE_MONITOR_PERIOD 4, INITIAL_ALPHA_VALUE 1023, CLAMP_TGT_RATE False,
// CLAMP_TGT_RATE_AFTER_TIME_INC True, MIN_TIME_BETWEEN_CNPS 4 (2 and 0 on some
// models). DOC-2790 gives the byte counter in bytes.
func nvidiaDCQCN() DCQCNConfig {
	return DCQCNConfig{
		Notify:                   NotifyCNP,
		CNPInterval:              4 * sim.Microsecond,
		CNPScope:                 ScopePort,
		AlphaUpdate:              OnPeriod,
		AlphaTimer:               1 * sim.Microsecond,
		G:                        5. / 1024,
		InitialAlpha:             1023. / 1024,
		RateDecrease:             OnPeriod,
		DecreaseInterval:         4 * sim.Microsecond,
		MinDecreaseFactor:        0.5,
		ClampTargetRateAfterTime: true,
		FirstCNPRate:             1,
		IncreaseTimer:            300 * sim.Microsecond,
		ByteCounter:              32767,
		FastRecovery:             1,
		RateAI:                   5 * units.Mbps,
		RateHAI:                  50 * units.Mbps,
		ReleaseAtLineRate:        true,
		GapFollowsRate:           true,
		MinRate:                  1 * units.Mbps,
	}
}

// hpccNS3DCQCN is `run.py --cc dcqcn` of the HPCC repository: at 400 Gb/s R_AI is
// 80 and R_HAI 800 Mb/s. The minimum rate is the simulator's default.
func hpccNS3DCQCN() DCQCNConfig {
	return DCQCNConfig{
		Notify:                   NotifyACK,
		CNPScope:                 ScopeQP,
		AlphaUpdate:              OnPeriod,
		AlphaTimer:               1 * sim.Microsecond,
		G:                        1. / 256,
		InitialAlpha:             1,
		RateDecrease:             OnPeriod,
		DecreaseInterval:         4 * sim.Microsecond,
		MinDecreaseFactor:        0.5,
		ClampTargetRateAfterTime: true,
		FirstCNPRate:             1,
		IncreaseTimer:            300 * sim.Microsecond,
		FastRecovery:             1,
		RateAI:                   5 * units.Mbps,
		RateHAI:                  50 * units.Mbps,
		ScaleFrom:                25 * units.Gbps,
		MinRate:                  100 * units.Mbps,
	}
}

// conweaveDCQCN is `run.py --cc dcqcn` of the ConWeave repository, whose NIC is
// that of HPCC-ns3.
func conweaveDCQCN() DCQCNConfig {
	c := hpccNS3DCQCN()
	c.RateAI, c.RateHAI = 10*units.Mbps, 25*units.Mbps
	return c
}

// simaiDCQCN is SimAI.conf, whose NIC is that of HPCC-ns3, without its window of a
// bandwidth-delay product (HAS_WIN 1, VAR_WIN 1): Window is in bytes.
func simaiDCQCN() DCQCNConfig {
	c := hpccNS3DCQCN()
	c.IncreaseTimer = 900 * sim.Microsecond
	c.RateAI, c.RateHAI, c.ScaleFrom = 50*units.Mbps, 100*units.Mbps, 0
	return c
}

// alibabaDCQCN is hpccNS3DCQCN on NICs that send CNPs, with the NIC's interval.
func alibabaDCQCN() DCQCNConfig {
	c := hpccNS3DCQCN()
	c.Notify = NotifyCNP
	c.CNPInterval = 4 * sim.Microsecond
	return c
}

// Limits of a DCQCNConfig.
const (
	minTimer, maxTimer = sim.Nanosecond, sim.Second
	maxByteCounter     = units.GB
	maxFastRecovery    = 1000
	maxRate            = 100 * units.Tbps
	maxWindow          = units.TB
	minGain            = 1e-6
)

// Validate says what is wrong with c, as config.Problems, or nil.
func (c DCQCNConfig) Validate() error {
	var ps config.Problems
	if c.Preset != "" {
		oneOf(&ps, "preset", c.Preset, DCQCNPresets())
	}
	oneOf(&ps, "notify", c.Notify, []string{NotifyCNP, NotifyACK})
	within(&ps, "cnp_interval", c.CNPInterval, 0, maxTimer)
	oneOf(&ps, "cnp_scope", c.CNPScope, []string{ScopeQP, ScopePort})
	within(&ps, "cnp_delay", c.CNPDelay, 0, maxTimer)
	oneOf(&ps, "alpha_update", c.AlphaUpdate, []string{OnCNP, OnPeriod})
	within(&ps, "alpha_timer", c.AlphaTimer, minTimer, maxTimer)
	within(&ps, "g", c.G, minGain, 1)
	within(&ps, "initial_alpha", c.InitialAlpha, 0, 1)
	oneOf(&ps, "rate_decrease", c.RateDecrease, []string{OnCNP, OnPeriod})
	least := sim.Time(0)
	if c.RateDecrease == OnPeriod {
		least = minTimer
	}
	within(&ps, "decrease_interval", c.DecreaseInterval, least, maxTimer)
	within(&ps, "min_decrease_factor", c.MinDecreaseFactor, 0, 1)
	within(&ps, "first_cnp_rate", c.FirstCNPRate, 1e-3, 1)
	if c.IncreaseTimer != 0 {
		within(&ps, "increase_timer", c.IncreaseTimer, minTimer, maxTimer)
	}
	within(&ps, "byte_counter", c.ByteCounter, 0, maxByteCounter)
	ps.Require(c.IncreaseTimer != 0 || c.ByteCounter != 0, "increase_timer",
		"neither timer nor byte counter: no rate would ever rise; set increase_timer, such as 300us, or byte_counter")
	within(&ps, "fast_recovery", c.FastRecovery, 0, maxFastRecovery)
	within(&ps, "rate_ai", c.RateAI, 1, maxRate)
	within(&ps, "rate_hai", c.RateHAI, 1, maxRate)
	within(&ps, "scale_from", c.ScaleFrom, 0, maxRate)
	within(&ps, "min_rate", c.MinRate, 1, maxRate)
	within(&ps, "initial_rate", c.InitialRate, 0, maxRate)
	ps.Require(c.InitialRate == 0 || c.InitialRate >= c.MinRate, "initial_rate",
		"%v is below min_rate, %v; raise it, or 0 for the line rate", c.InitialRate, c.MinRate)
	within(&ps, "window", c.Window, 0, maxWindow)
	return ps.Err()
}
