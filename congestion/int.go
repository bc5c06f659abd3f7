package congestion

import (
	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// MaxINTHops is the number of switches whose telemetry an INTMeter can keep: a
// three-tier fabric up and down has five (HPCC-ns3: maxHop).
const MaxINTHops = 5

// INTConfig is in-band network telemetry: what every switch writes into the
// packets that it sends, in how many bytes and how finely.
type INTConfig struct {
	// Preset names the format to start from: see INTPresets.
	Preset string `yaml:"preset"`
	// HeaderBytes is what a packet carries for telemetry beside the hops: the
	// number of hops, 4 bits, and the path's identity, 12 bits (HPCC, figure 7).
	HeaderBytes units.Bytes `yaml:"header_bytes"`
	// HopBytes is what every hop adds: rate, time, bytes sent and queue (HPCC: 64
	// bits).
	HopBytes units.Bytes `yaml:"hop_bytes"`
	// ReservedHops is the number of hops that a packet has room for when it
	// leaves its NIC, so that it does not grow on its way (HPCC-ns3: 5, hence 42
	// bytes in every packet). 0 lets every switch add its own.
	ReservedHops int `yaml:"reserved_hops"`
	// TimeUnit, BytesUnit and QueueUnit are the resolutions of the fields, which
	// are rounded down (HPCC-ns3: 1 ns, 128 B and 80 B).
	TimeUnit  sim.Time    `yaml:"time_unit"`
	BytesUnit units.Bytes `yaml:"bytes_unit"`
	QueueUnit units.Bytes `yaml:"queue_unit"`
	// ScaleFrom is the rate of the fastest link for which BytesUnit and QueueUnit
	// are meant: they grow in proportion to it, since the fields do not (HPCC-ns3:
	// 25 Gb/s, INT_MULTI). 0 is none.
	ScaleFrom units.Rate `yaml:"scale_from"`
}

// intPresets is the table of the presets.
var intPresets = presets[INTConfig]{
	{"exact", "HPCC's 42 bytes per packet, without its rounding", exactINT},
	{"hpcc-ns3", "the HPCC repository's: 1 ns, and at 400 Gb/s 2,048 B and 1,280 B", hpccNS3INT},
}

// INTPresets lists the names of the presets.
func INTPresets() []string { return intPresets.names() }

// SetPreset sets every field to that of the named preset. An unknown name leaves
// c alone and is an error that names the nearest one.
func (c *INTConfig) SetPreset(name string) error {
	return setPreset(c, &c.Preset, intPresets, name)
}

// DefaultINT is the preset "exact".
func DefaultINT() INTConfig {
	c := exactINT()
	c.Preset = "exact"
	return c
}

func exactINT() INTConfig {
	return INTConfig{
		HeaderBytes: 2, HopBytes: 8, ReservedHops: MaxINTHops,
		TimeUnit: sim.Picosecond, BytesUnit: 1, QueueUnit: 1,
	}
}

// hpccNS3INT is IntHop of the HPCC repository: byteUnit 128, qlenUnit 80, both
// times INT_MULTI, which its run.py sets to the NICs' rate over 25 Gb/s.
func hpccNS3INT() INTConfig {
	c := exactINT()
	c.TimeUnit, c.BytesUnit, c.QueueUnit, c.ScaleFrom = sim.Nanosecond, 128, 80, 25*units.Gbps
	return c
}

// Validate says what is wrong with c, as config.Problems, or nil.
func (c INTConfig) Validate() error {
	var ps config.Problems
	if c.Preset != "" {
		oneOf(&ps, "preset", c.Preset, INTPresets())
	}
	within(&ps, "header_bytes", c.HeaderBytes, 0, 256)
	within(&ps, "hop_bytes", c.HopBytes, 0, 256)
	within(&ps, "reserved_hops", c.ReservedHops, 0, MaxINTHops)
	within(&ps, "time_unit", c.TimeUnit, sim.Picosecond, sim.Millisecond)
	within(&ps, "bytes_unit", c.BytesUnit, 1, units.MiB)
	within(&ps, "queue_unit", c.QueueUnit, 1, units.MiB)
	within(&ps, "scale_from", c.ScaleFrom, 0, maxRate)
	return ps.Err()
}

// An INT is the constants of telemetry on one fabric.
type INT struct {
	header, hop  units.Bytes
	reserved     int
	time         sim.Time
	bytes, queue units.Bytes
}

// NewINT makes the constants of telemetry on a fabric whose fastest link has a
// rate. It fails when c is not valid.
func NewINT(c INTConfig, fastest units.Rate) (*INT, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := lineRate(fastest); err != nil {
		return nil, err
	}
	t := &INT{
		header: c.HeaderBytes, hop: c.HopBytes, reserved: c.ReservedHops,
		time: c.TimeUnit, bytes: c.BytesUnit, queue: c.QueueUnit,
	}
	if c.ScaleFrom > 0 {
		times := units.Bytes(max(1, fastest/c.ScaleFrom))
		t.bytes *= times
		t.queue *= times
	}
	return t, nil
}

// Bytes is what telemetry takes of a packet that has passed so many switches,
// and of the acknowledgement that takes it back.
func (t *INT) Bytes(hops int) units.Bytes {
	return t.header + t.hop*units.Bytes(max(hops, t.reserved))
}

// An INTHop is what one switch says of one of its ports as a packet leaves it: 32
// bytes here, INTConfig.HopBytes on the wire. The wire's fields are fewer bits
// that wrap around; here they do not.
type INTHop struct {
	// At is when the packet left the queue.
	At sim.Time
	// Sent is the bytes that the port has sent up to this packet, headers
	// included, since the beginning.
	Sent units.Bytes
	// Queue is the bytes that the packet leaves behind in the port's queue.
	Queue units.Bytes
	// Rate is that of the link.
	Rate units.Rate
}

// Stamp is h as the wire's fields can express it.
func (t *INT) Stamp(h INTHop) INTHop {
	h.At -= h.At % t.time
	h.Sent -= h.Sent % t.bytes
	h.Queue -= h.Queue % t.queue
	return h
}

// An INTMeter estimates the utilisation of a path from the telemetry of packets
// that have taken it: HPCC's U (Li et al., SIGCOMM 2019, algorithm 1,
// MeasureInflight). It is 1 for a path whose busiest link is just full without a
// queue. The zero value knows nothing and has U = 0.
type INTMeter struct {
	u    float64
	path uint32
	hops uint8
	last [MaxINTHops]INTHop
}

// Start makes m forget what it knows, and begin with an estimate.
func (m *INTMeter) Start(u float64) { m.u, m.hops = u, 0 }

// U is the estimate.
func (m *INTMeter) U() float64 { return m.u }

// Hold has m forget a time that ends now, in which nothing was sent.
func (m *INTMeter) Hold(by sim.Time) {
	for i := range m.last[:m.hops] {
		m.last[i].At += by
	}
}

// Observe takes in the telemetry that a packet has collected, in the order of the
// switches, and says whether the estimate has moved. A packet is compared with
// the one before it:
//
//	u_i = (bytes sent between them / their distance in time) / B_i
//	      + min(their queues) / (B_i T)
//	U   = (1 - tau/T) U + tau/T max_i u_i,   tau = min(distance at that i, T)
//
// with B_i the rate of link i and T the path's round trip without queues. The
// first packet on a path (its identity or length has changed) is only
// remembered. One that is older than the last, as after reordering, is ignored,
// and so is one with no hops or more than MaxINTHops.
func (m *INTMeter) Observe(path uint32, hops []INTHop, t sim.Time) bool {
	if len(hops) == 0 || len(hops) > MaxINTHops || t <= 0 {
		return false
	}
	if int(m.hops) != len(hops) || m.path != path {
		m.path, m.hops = path, uint8(len(hops))
		copy(m.last[:], hops)
		return false
	}
	most, tau := 0., sim.Time(0)
	for i := range hops {
		now, was := &hops[i], &m.last[i]
		dt, sent := now.At-was.At, now.Sent-was.Sent
		if dt <= 0 || sent < 0 || now.Rate <= 0 {
			return false
		}
		perTime := float64(sent)/float64(dt) + float64(min(now.Queue, was.Queue))/float64(t)
		if u := perTime / now.Rate.BytesPerPicosecond(); u > most {
			most, tau = u, dt
		}
	}
	w := float64(min(tau, t)) / float64(t)
	m.u = float64((1-w)*m.u) + float64(w*most)
	copy(m.last[:], hops)
	return true
}
