package packet

import (
	"fmt"
	"math"

	"github.com/tgssim/tgssim/congestion"
	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/routing"
	"github.com/tgssim/tgssim/sim"
)

// Config is what the packet engine needs beside the packet's size
// (fabric.Config) and what paces flows and fills buffers (congestion.Config).
type Config struct {
	// Train is the most MTUs that move as one unit: 1 is exact; k divides the
	// events by up to k. Each MTU is marked, lost and acknowledged as a packet of
	// its own and switches forward them one by one, but every turn of a
	// round-robin is k packets long, and so is what a pause cannot stop any more,
	// for which headroom grows by 2 (k-1) packets. A flow that is paced sends
	// trains that are shorter in proportion; none is longer than a container of GSE.
	// docs/performance.md has the error. Telemetry and time stamps are a train's:
	// HPCC hears of its path less often, which moves 99th percentiles by up to 12 %.
	Train int `yaml:"train"`
	// Path is which path a packet takes.
	Path PathConfig `yaml:"path"`
	// Transport is how queue pairs acknowledge and recover from loss.
	Transport TransportConfig `yaml:"transport"`
	// NIC is what a NIC can do.
	NIC NICConfig `yaml:"nic"`
	// Queues is how the traffic classes share a port.
	Queues QueueConfig `yaml:"queues"`
	// MarkAt is when a switch decides to mark a packet: "dequeue", by what it
	// leaves behind (HPCC-ns3; the mark is as young as it can be), or "enqueue",
	// by what it finds (RED).
	MarkAt string `yaml:"mark_at"`
	// PauseResponse is the time from the end of a PFC frame until its receiver
	// begins no further frame. 0 as in HPCC-ns3; IEEE 802.3 allows up to 1.158 us
	// at 400 Gb/s. What it is must fit in the buffer's headroom.
	PauseResponse sim.Time `yaml:"pause_response"`
	// DeadlockCheck is how often, while any port is paused, the network looks
	// whether pauses wait for each other in a circle without progress. 0 never.
	DeadlockCheck sim.Time `yaml:"deadlock_check"`
	// Faults is what happens to links, in order of time.
	Faults []Fault `yaml:"faults"`
	// FaultDetection is from a fault or repair until the switches and NICs route
	// by it: loss of light and reconvergence. 0 is at once. BGP in data centres
	// takes 10 ms to 1 s; local repair in a switch under 1 ms.
	FaultDetection sim.Time `yaml:"fault_detection"`
}

// PathConfig says how packets choose between equal-cost paths.
type PathConfig struct {
	// Choice is "ecmp" (by the hash of the queue pair's 5-tuple, the same path as
	// in the flow engine), "static" (by number), "flowlet" (LetFlow), "conga"
	// (flowlets, to the uplink with the least congested path), "conweave" (leaves move
	// a flow when an answer is late, and restore its order), "int" (by the switches'
	// telemetry), or per packet "spray-random", "spray-round-robin" or
	// "oracle", which knows every queue and every packet under way, as no network
	// could.
	Choice string `yaml:"choice"`
	// Index is the path of "static", among the paths in the order of the topology;
	// -1 takes the destination GPU's number modulo the paths (D-mod-k routing).
	Index int `yaml:"index"`
	// FlowletGap is the pause after which a flowlet may change paths. LetFlow and
	// CONGA use 100 us; RDMA rarely pauses so long.
	FlowletGap sim.Time `yaml:"flowlet_gap"`
	// MaxPaths bounds the paths that a queue pair chooses from.
	MaxPaths int `yaml:"max_paths"`
	// INT is used by "int", CONGA by "conga", ConWeave by "conweave".
	INT      routing.INTConfig      `yaml:"int"`
	CONGA    routing.CONGAConfig    `yaml:"conga"`
	ConWeave routing.ConWeaveConfig `yaml:"conweave"`
}

// The path choices.
const (
	PathCONGA           = "conga"
	PathConWeave        = "conweave"
	PathECMP            = "ecmp"
	PathINT             = "int"
	PathOracle          = "oracle"
	PathStatic          = "static"
	PathFlowlet         = "flowlet"
	PathSprayRandom     = "spray-random"
	PathSprayRoundRobin = "spray-round-robin"
)

// TransportConfig is the reliable connection.
type TransportConfig struct {
	// WindowBDP bounds what a queue pair may have under way to so many
	// bandwidth-delay products of its path, when congestion control is "none"
	// with no window of its own, or when leaves do GSE, where the round trip has that
	// of a request in it; 0 is no bound. 1.25 is 126 packets on the reference's
	// fabric, which used 128: line rate with a quarter to spare.
	WindowBDP float64 `yaml:"window_bdp"`
	// AckBytes is an acknowledgement or CNP on the wire: 86 B are Ethernet 14,
	// IPv4 20, UDP 8, BTH 12, AETH 4, ICRC 4, FCS 4, preamble 8 and gap 12.
	AckBytes units.Bytes `yaml:"ack_bytes"`
	// AckEvery acknowledges every so many packets, and the last of a message in
	// any case. HPCC-ns3 and htsim acknowledge each; NICs coalesce.
	AckEvery int `yaml:"ack_every"`
	// AckQueueing sends acknowledgements and CNPs as packets through the queues.
	// Otherwise each is one event after the time that it takes alone, its
	// serialisation on every link included: a quarter of all events saved.
	AckQueueing bool `yaml:"ack_queueing"`
	// Recovery is what a receiver does with packets out of order and a sender
	// with a gap: "go-back-n" (RoCE NICs), "selective-repeat" (IRN; NICs that
	// place data directly), or "auto": selective repeat when the path changes
	// from packet to packet.
	Recovery string `yaml:"recovery"`
	// ReorderWindow is how many packets ahead of the next in order selective
	// repeat accepts one; a multiple of 64. Senders have no more under way.
	ReorderWindow int `yaml:"reorder_window"`
	// ReorderTolerance is by how many packets a missing one must be overtaken to
	// be taken for lost. 1 is right where nothing reorders; 0 is 1 on fixed paths
	// and half the reorder window otherwise.
	ReorderTolerance int `yaml:"reorder_tolerance"`
	// Timeout is the retransmission timeout without progress; it doubles with each
	// that passes in vain, up to 64 times, and is itself again with the first
	// progress (adaptive retransmission of ConnectX). RDMA has 4.096 us x 2^n, with
	// n of 14 (67 ms) to 20 in use, since a pause of PFC is not to look like a loss;
	// ConWeave's IRN, made for loss, has 320 us.
	Timeout sim.Time `yaml:"timeout"`
}

// The ways of recovery.
const (
	RecoveryAuto      = "auto"
	RecoveryGoBackN   = "go-back-n"
	RecoverySelective = "selective-repeat"
)

// NICConfig is what a NIC can do.
type NICConfig struct {
	// MaxQPs is the number of queue pairs that may have work under way on a NIC;
	// others wait for one to finish. 0 is no limit.
	MaxQPs int `yaml:"max_qps"`
	// MaxRequests is the number of work requests of a queue pair that may be
	// unacknowledged; others wait. 0 is no limit. Send queues of 128 are common.
	MaxRequests int `yaml:"max_requests"`
	// RequestCost is the time in which a NIC takes in one work request, one after
	// the other: 5 ns are 200 million messages a second (ConnectX-7). What software
	// spends on posting comes before it.
	RequestCost sim.Time `yaml:"request_cost"`
	// DrainRate is the rate at which a receiving NIC hands bytes, headers
	// included, to the GPU's memory; 0 is as fast as they come. A slower one
	// fills DrainBuffer and pauses the leaf.
	DrainRate units.Rate `yaml:"drain_rate"`
	// DrainBuffer is a NIC's receive buffer per port. It pauses its leaf above
	// half of it; ConnectX-class NICs have a few MB.
	DrainBuffer units.Bytes `yaml:"drain_buffer"`
}

// QueueConfig is how the traffic classes share ports.
type QueueConfig struct {
	// Mode is "shared" (one queue for all data), "strict" (EP above KV) or
	// "weighted" (each its share whenever both wait).
	Mode string `yaml:"mode"`
	// KVWeight and EPWeight are the shares with "weighted".
	KVWeight int `yaml:"kv_weight"`
	EPWeight int `yaml:"ep_weight"`
	// ControlPriority, KVPriority and EPPriority are the 802.1p priorities of control
	// frames, of KV (and all data when shared) and of EP, by which the switch's buffer
	// knows them. PFC protects those in congestion.buffer.lossless: SONiC uses 3 and 4.
	ControlPriority int `yaml:"control_priority"`
	KVPriority      int `yaml:"kv_priority"`
	EPPriority      int `yaml:"ep_priority"`
}

var (
	queueModes = []string{"shared", "strict", "weighted"}
	recoveries = []string{RecoveryAuto, RecoveryGoBackN, RecoverySelective}
	markTimes  = []string{"dequeue", "enqueue"}
)

// A Fault changes a link.
type Fault struct {
	// Link is the name of either direction of a cable: "leaf3>spine2".
	Link string `yaml:"link"`
	// At is when.
	At sim.Time `yaml:"at"`
	// Rate is the part of its rate that the cable, both directions, has from then
	// on: 0 is down, 1 is repaired, between them 0.001 is least. Routing avoids what
	// is down; what is slow keeps its share of the hash.
	Rate float64 `yaml:"rate"`
}

// DefaultConfig is per-packet simulation of RoCEv2 on ECMP paths.
func DefaultConfig() Config {
	return Config{
		Train: 1,
		Path: PathConfig{
			Choice: PathECMP, Index: -1, FlowletGap: 100 * sim.Microsecond, MaxPaths: 128,
			INT: routing.DefaultINT(), CONGA: routing.DefaultCONGA(), ConWeave: routing.DefaultConWeave(),
		},
		Transport: TransportConfig{
			WindowBDP: 1.25, AckBytes: 86, AckEvery: 4, Recovery: RecoveryAuto,
			ReorderWindow: 1024, Timeout: 67 * sim.Millisecond,
		},
		NIC:            NICConfig{DrainBuffer: 4 * units.MiB},
		Queues:         QueueConfig{Mode: "shared", KVWeight: 1, EPWeight: 1, ControlPriority: 6, KVPriority: 3, EPPriority: 4},
		MarkAt:         "dequeue",
		DeadlockCheck:  sim.Millisecond,
		FaultDetection: 10 * sim.Millisecond,
	}
}

// Settings is everything that shapes a packet network.
type Settings struct {
	Packet     Config            `yaml:"packet"`
	Fabric     fabric.Config     `yaml:"network"`
	Congestion congestion.Config `yaml:"congestion"`
}

// DefaultSettings is every package's defaults.
func DefaultSettings() Settings {
	return Settings{DefaultConfig(), fabric.DefaultConfig(), congestion.DefaultConfig()}
}

// presets is the table of the named settings.
var presets = []struct {
	name string
	make func() Settings
}{
	{"default", DefaultSettings},
	{"hpcc-ns3-dcqcn", ns3Settings},
	{"hpcc-ns3-hpcc", ns3HPCC},
	{"htsim-roce", htsimSettings},
	{"line-rate", lineRateSettings},
}

// Presets lists the names of whole settings:
//
//	default         every package's defaults
//	hpcc-ns3-dcqcn  the HPCC repository's simulator with DCQCN: 4,144 B packets,
//	                every packet acknowledged, every mark echoed, no window
//	hpcc-ns3-hpcc   the same with HPCC: telemetry makes its packets 4,186 B
//	htsim-roce      RoCE of Broadcom's htsim: no congestion control and no window,
//	                pauses at 15 packets of a port, acknowledgements in the queues
//	line-rate       the reference's bare core: 4,160 B packets, a window, no
//	                congestion control, buffers that cannot fill
func Presets() []string {
	names := make([]string, len(presets))
	for i, p := range presets {
		names[i] = p.name
	}
	return names
}

// Preset returns the named settings. An unknown name is an error that names the
// nearest one.
func Preset(name string) (Settings, error) {
	for _, p := range presets {
		if p.name == name {
			return p.make(), nil
		}
	}
	return Settings{}, fmt.Errorf("%q is not a preset%s", name, config.Suggest(name, Presets()))
}

// ns3Settings is run.py --cc dcqcn of the HPCC repository at 400 Gb/s, with the
// packet sizes of the reference.
func ns3Settings() Settings {
	s := DefaultSettings()
	s.Fabric.Header = 48
	s.Packet.Transport.AckBytes, s.Packet.Transport.AckEvery = 60, 1
	_ = s.Congestion.DCQCN.SetPreset("hpcc-ns3")
	_ = s.Congestion.ECN.SetPreset("alibaba")
	_ = s.Congestion.Buffer.SetPreset("hpcc-ns3")
	s.Congestion.Buffer.Size, s.Congestion.Buffer.SizeFrom = 32*units.MB, 0
	return s
}

// ns3HPCC is run.py --cc hpcc of the HPCC repository.
func ns3HPCC() Settings {
	s := ns3Settings()
	s.Congestion.Algorithm = "hpcc"
	_ = s.Congestion.HPCC.SetPreset("hpcc-ns3")
	_ = s.Congestion.INT.SetPreset("hpcc-ns3")
	return s
}

// htsimSettings is main_roce of csg-htsim, with packets of 4,160 B: a port is
// paused when more than 15 times 4,096 B that came by it wait, and resumed below
// 12 times (-pfc_thresholds 12 15, its default). Its buffers have no end.
func htsimSettings() Settings {
	s := lineRateSettings()
	s.Packet.Transport.WindowBDP, s.Packet.Transport.AckQueueing = 0, true
	b := &s.Congestion.Buffer
	b.Size, b.Lossless = 512*units.MB, []int{3}
	b.StaticThreshold, b.ResumeOffset = 15*4096, 3*4096
	b.Headroom = congestion.HeadroomConfig{Bytes: 600 * units.KB}
	return s
}

func lineRateSettings() Settings {
	s := DefaultSettings()
	s.Fabric.Header = 64
	s.Packet.Transport.AckBytes, s.Packet.Transport.AckEvery = 64, 1
	s.Congestion.Algorithm = "none"
	s.Congestion.Buffer.Lossless = nil
	s.Congestion.Buffer.Size = units.GiB
	s.Congestion.Buffer.EgressAlpha = 256
	return s
}

// Limits of a Config.
const (
	maxTrain   = 64
	maxUnit    = units.MiB // a train on the wire
	maxTimeout = 10 * sim.Second
	// What is slower than these delivers so little between two timeouts that a run
	// is of nothing but them.
	minFaultRate = 0.001
	minDrainRate = units.Gbps
)

// Validate says what is wrong with c, as config.Problems, or nil.
func (c Config) Validate() error {
	var ps config.Problems
	ps.Require(c.Train >= 1 && c.Train <= maxTrain, "train", "%d MTUs; use 1 to %d", c.Train, maxTrain)
	oneOf(&ps, "mark_at", c.MarkAt, markTimes)
	span(&ps, "pause_response", c.PauseResponse, 0, sim.Millisecond)
	ps.Require(c.DeadlockCheck == 0 || c.DeadlockCheck >= sim.Microsecond && c.DeadlockCheck <= sim.Second, "deadlock_check",
		"%v is out of range; use %v to %v, or 0 for never", c.DeadlockCheck, sim.Microsecond, sim.Second)
	span(&ps, "fault_detection", c.FaultDetection, 0, 1000*sim.Second)
	ps.Nest("path", c.Path.validate())
	ps.Nest("transport", c.Transport.validate())
	ps.Nest("nic", c.NIC.validate())
	ps.Nest("queues", c.Queues.validate())
	for i, f := range c.Faults {
		key := fmt.Sprintf("faults[%d]", i)
		ps.Require(f.At >= 0 && (i == 0 || f.At >= c.Faults[i-1].At), key+".at", "%v is before the fault above it", f.At)
		ps.Require(f.Rate == 0 || f.Rate >= minFaultRate && f.Rate <= 1, key+".rate",
			"%v is out of range; use %v to 1 (whole), or 0 (down)", f.Rate, minFaultRate)
		ps.Require(f.Link != "", key+".link", "is empty; use a link's name, such as leaf3>spine2")
	}
	return ps.Err()
}

func (c PathConfig) validate() error {
	var ps config.Problems
	oneOf(&ps, "choice", c.Choice, pathChoices())
	ps.Require(c.Index >= -1 && c.Index < 1<<20, "index", "%d is out of range; use a path's number, or -1 for the destination's", c.Index)
	span(&ps, "flowlet_gap", c.FlowletGap, 0, sim.Second)
	ps.Nest("int", c.INT.Validate())
	ps.Nest("conga", c.CONGA.Validate())
	ps.Nest("conweave", c.ConWeave.Validate())
	ps.Require(c.MaxPaths >= 1 && c.MaxPaths <= 1<<15, "max_paths", "%d paths; use 1 to %d", c.MaxPaths, 1<<15)
	return ps.Err()
}

func (c TransportConfig) validate() error {
	var ps config.Problems
	ps.Require(c.WindowBDP >= 0 && c.WindowBDP <= 1e6, "window_bdp", "%v is out of range; use 0 (no window) to 1e6, such as 1.25", c.WindowBDP)
	ps.Require(c.AckBytes >= 1 && c.AckBytes <= 4096, "ack_bytes", "%v is out of range; use 1B to 4096B, such as 86B", c.AckBytes)
	ps.Require(c.AckEvery >= 1 && c.AckEvery <= 1024, "ack_every", "%d packets; use 1 to 1024", c.AckEvery)
	oneOf(&ps, "recovery", c.Recovery, recoveries)
	ps.Require(c.ReorderWindow >= 64 && c.ReorderWindow <= 1<<15 && c.ReorderWindow%64 == 0 && c.ReorderWindow&(c.ReorderWindow-1) == 0,
		"reorder_window", "%d packets; use a power of two from 64 to %d", c.ReorderWindow, 1<<15)
	ps.Require(c.ReorderTolerance >= 0 && c.ReorderTolerance <= c.ReorderWindow,
		"reorder_tolerance", "%d packets; use 1 up to the reorder window, or 0 to derive it", c.ReorderTolerance)
	span(&ps, "timeout", c.Timeout, sim.Microsecond, maxTimeout)
	return ps.Err()
}

func (c NICConfig) validate() error {
	var ps config.Problems
	ps.Require(c.MaxQPs >= 0 && c.MaxQPs <= math.MaxInt32, "max_qps", "%d queue pairs; use 1 or more, or 0 for no limit", c.MaxQPs)
	ps.Require(c.MaxRequests >= 0 && c.MaxRequests <= math.MaxInt32, "max_requests", "%d work requests; use 1 or more, or 0 for no limit", c.MaxRequests)
	span(&ps, "request_cost", c.RequestCost, 0, sim.Millisecond)
	ps.Require(c.DrainRate == 0 || c.DrainRate >= minDrainRate && c.DrainRate <= 100*units.Tbps, "drain_rate",
		"%v is out of range; use %v to %v, or 0 for no limit", c.DrainRate, minDrainRate, 100*units.Tbps)
	ps.Require(c.DrainBuffer >= 64*units.KiB && c.DrainBuffer <= units.GiB, "drain_buffer", "%v is out of range; use 64KiB to 1GiB", c.DrainBuffer)
	return ps.Err()
}

func (c QueueConfig) validate() error {
	var ps config.Problems
	oneOf(&ps, "mode", c.Mode, queueModes)
	weight := func(key string, w int) {
		ps.Require(w >= 1 && w <= 1000, key, "%d is out of range; use 1 to 1000", w)
	}
	weight("kv_weight", c.KVWeight)
	weight("ep_weight", c.EPWeight)
	prio := func(key string, p int) {
		ps.Require(p >= 0 && p < congestion.Priorities, key, "%d is not a priority; use 0 to %d", p, congestion.Priorities-1)
	}
	prio("control_priority", c.ControlPriority)
	prio("kv_priority", c.KVPriority)
	prio("ep_priority", c.EPPriority)
	ps.Require(c.ControlPriority != c.KVPriority, "control_priority", "%d is also KV's; control frames need one of their own", c.ControlPriority)
	if c.Mode != "shared" {
		ps.Require(c.EPPriority != c.ControlPriority && c.EPPriority != c.KVPriority, "ep_priority",
			"%d is taken; with mode %s EP needs a priority of its own", c.EPPriority, c.Mode)
	}
	return ps.Err()
}

func oneOf(ps *config.Problems, key, name string, known []string) {
	for _, k := range known {
		if k == name {
			return
		}
	}
	ps.Addf(key, "%q is unknown%s", name, config.Suggest(name, known))
}

func span(ps *config.Problems, key string, t, least, most sim.Time) {
	ps.Require(t >= least && t <= most, key, "%v is out of range; use %v to %v", t, least, most)
}
