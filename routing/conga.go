package routing

import (
	"math"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// CONGAConfig is leaf-to-leaf congestion feedback (Alizadeh et al., CONGA,
// SIGCOMM 2014). Sources: "paper"; "ConWeave" is the simulator of Song et al.,
// SIGCOMM 2023, which has CONGA for RDMA.
type CONGAConfig struct {
	// Preset names the settings to start from: see CONGAPresets.
	Preset string `yaml:"preset"`
	// Period is how often the estimator of a link's rate decays (paper: T_dre, 20
	// us with a time constant of 160 us; ConWeave: 50 us).
	Period sim.Time `yaml:"period"`
	// Alpha is by how much it decays: the time constant is Period/Alpha (ConWeave:
	// 0.2).
	Alpha float64 `yaml:"alpha"`
	// CountAt is when a link's estimator counts a packet: "send", when its wire does
	// (paper), or "enqueue", when it joins the link's queue (ConWeave): that knows of
	// more than the link can carry.
	CountAt string `yaml:"count_at"`
	// Bits is the width of a congestion metric: utilisation in steps of 2^-Bits
	// (paper and ConWeave: 3). Above 1, which there is with "enqueue", it goes on in
	// the same steps.
	Bits int `yaml:"bits"`
	// FlowletGap is the pause that ends a flowlet (paper: 500 us; ConWeave: 100 us).
	FlowletGap sim.Time `yaml:"flowlet_gap"`
	// Choices is how many uplinks next to each other, the first of which is drawn, a
	// new flowlet chooses from; 0 is all (paper). With all, the flows that begin
	// until the metrics have followed take the same uplinks (ConWeave: 4).
	Choices int `yaml:"choices"`
	// Aging is how long a metric counts without news; then the path is taken for
	// idle, so that it is tried again (paper: 10 ms; ConWeave: 500 us).
	Aging sim.Time `yaml:"aging"`
	// HeaderBytes is what packets between leaves carry: the uplink's tag, the
	// metric, and one metric of feedback with its tag. The paper uses bits of the
	// VXLAN header that are there anyway.
	HeaderBytes units.Bytes `yaml:"header_bytes"`
}

// When an estimator counts a packet; see CONGAConfig.CountAt.
const (
	CountAtEnqueue = "enqueue"
	CountAtSend    = "send"
)

// congaPresets is the table of the presets.
var congaPresets = []struct {
	name, about string
	make        func() CONGAConfig
}{
	{"conweave", "for RDMA at 100 Gb/s and more", conweaveCONGA},
	{"paper", "for TCP at 10 and 40 Gb/s", paperCONGA},
}

// CONGAPresets lists the names of the presets.
func CONGAPresets() []string {
	names := make([]string, len(congaPresets))
	for i, p := range congaPresets {
		names[i] = p.name
	}
	return names
}

// SetPreset sets every field to that of the named preset. An unknown name leaves
// c alone and is an error that names the nearest one.
func (c *CONGAConfig) SetPreset(name string) error {
	for _, p := range congaPresets {
		if p.name == name {
			*c = p.make()
			c.Preset = name
			return nil
		}
	}
	return unknownPreset(name, CONGAPresets())
}

// DefaultCONGA is the preset "conweave".
func DefaultCONGA() CONGAConfig {
	c := conweaveCONGA()
	c.Preset = "conweave"
	return c
}

func conweaveCONGA() CONGAConfig {
	return CONGAConfig{
		Period: 50 * sim.Microsecond, Alpha: 0.2, CountAt: CountAtEnqueue, Bits: 3,
		FlowletGap: 100 * sim.Microsecond, Choices: 4, Aging: 500 * sim.Microsecond,
	}
}

func paperCONGA() CONGAConfig {
	return CONGAConfig{
		Period: 20 * sim.Microsecond, Alpha: 0.125, CountAt: CountAtSend, Bits: 3,
		FlowletGap: 500 * sim.Microsecond, Aging: 10 * sim.Millisecond,
	}
}

// Validate says what is wrong with c, as config.Problems, or nil.
func (c CONGAConfig) Validate() error {
	var ps config.Problems
	if c.Preset != "" {
		oneOf(&ps, "preset", c.Preset, CONGAPresets())
	}
	within(&ps, "period", c.Period, sim.Nanosecond, sim.Second)
	within(&ps, "alpha", c.Alpha, 1e-3, 1)
	oneOf(&ps, "count_at", c.CountAt, []string{CountAtEnqueue, CountAtSend})
	within(&ps, "bits", c.Bits, 1, 7)
	within(&ps, "flowlet_gap", c.FlowletGap, 0, sim.Second)
	within(&ps, "choices", c.Choices, 0, 1<<10)
	within(&ps, "aging", c.Aging, sim.Nanosecond, 10*sim.Second)
	within(&ps, "header_bytes", c.HeaderBytes, 0, 256)
	return ps.Err()
}

// A CONGA is the constants of CONGA.
type CONGA struct {
	period sim.Time
	keep   float64
	tau    float64 // time constant, picoseconds
	steps  float64
	most   float64 // metric
	gap    sim.Time
	among  int
	aging  sim.Time
}

// NewCONGA makes the constants. It fails when c is not valid.
func NewCONGA(c CONGAConfig) (*CONGA, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	most := float64(int(1)<<c.Bits) - 1
	if c.CountAt == CountAtEnqueue {
		most = Down - 1
	}
	return &CONGA{
		most:   most,
		period: c.Period, keep: 1 - c.Alpha, tau: float64(c.Period) / c.Alpha,
		steps: float64(int(1) << c.Bits), gap: c.FlowletGap, among: c.Choices, aging: c.Aging,
	}, nil
}

// A DRE is the discounting rate estimator of one link: bytes sent, of which a part
// is forgotten every period. Its zero value is that of an idle link.
type DRE struct {
	x  float64
	at sim.Time // of the last decay
}

// settle runs the decays that are due.
func (c *CONGA) settle(d *DRE, now sim.Time) {
	n := (now - d.at) / c.period
	if n <= 0 {
		return
	}
	d.at += n * c.period
	// keep^n, by squaring.
	for k := c.keep; n != 0 && d.x != 0; n >>= 1 {
		if n&1 != 0 {
			d.x *= k
		}
		k *= k
	}
}

// Count reports n bytes for the link.
func (c *CONGA) Count(d *DRE, now sim.Time, n units.Bytes) {
	c.settle(d, now)
	d.x += float64(n)
}

// Metric is the utilisation X/(C tau) of a link of a rate, in steps of 2^-Bits.
func (c *CONGA) Metric(d *DRE, now sim.Time, rate units.Rate) uint8 {
	c.settle(d, now)
	u := d.x / (rate.BytesPerPicosecond() * c.tau)
	return uint8(min(u*c.steps, c.most))
}

// A congaMetric is one entry of a table.
type congaMetric struct {
	at      sim.Time
	value   uint8
	known   bool
	changed bool // since it was last sent back
}

// A CONGALeaf is the two tables of a leaf: Congestion-To-Leaf, how busy the paths
// to other leaves are, by the uplink of this leaf that they begin with, and
// Congestion-From-Leaf, what has come in from others and is to be sent back.
type CONGALeaf struct {
	c        *CONGA
	uplinks  int
	to, from []congaMetric // by leaf and uplink
	turn     []uint16      // by leaf: the uplink to report next
}

// NewLeaf makes the tables of a leaf in a fabric of so many leaves, each with so
// many uplinks.
func (c *CONGA) NewLeaf(leaves, uplinks int) *CONGALeaf {
	return &CONGALeaf{
		c: c, uplinks: uplinks,
		to: make([]congaMetric, leaves*uplinks), from: make([]congaMetric, leaves*uplinks),
		turn: make([]uint16, leaves),
	}
}

func (l *CONGALeaf) place(leaf, uplink int) int { return leaf*l.uplinks + uplink }

// OnArrive takes in the metric of a packet that has come from another leaf by one
// of its uplinks: the largest of the links that it has crossed.
func (l *CONGALeaf) OnArrive(src, uplink int, metric uint8, now sim.Time) {
	m := &l.from[l.place(src, uplink)]
	m.changed = m.changed || !m.known || m.value != metric
	m.at, m.value, m.known = now, metric, true
}

// Feedback is what a packet to a leaf takes back: one of that leaf's uplinks and
// its metric. Those that have changed since they were last sent come first, and
// the uplinks take turns.
func (l *CONGALeaf) Feedback(dst int) (uplink int, metric uint8, ok bool) {
	best := -1
	for k := range l.uplinks {
		u := int(l.turn[dst]) + k
		if u >= l.uplinks {
			u -= l.uplinks
		}
		m := &l.from[l.place(dst, u)]
		if m.changed {
			best = u
			break
		}
		if m.known && best < 0 {
			best = u
		}
	}
	if best < 0 {
		return 0, 0, false
	}
	l.turn[dst] = uint16((best + 1) % l.uplinks)
	m := &l.from[l.place(dst, best)]
	m.changed = false
	return best, m.value, true
}

// OnFeedback takes in what a packet from a leaf says of the path to it by one of
// this leaf's uplinks.
func (l *CONGALeaf) OnFeedback(from, uplink int, metric uint8, now sim.Time) {
	l.to[l.place(from, uplink)] = congaMetric{at: now, value: metric, known: true}
}

// Remote is the metric of the path to a leaf by an uplink: 0 when there is no news
// of it, or none for Aging.
func (l *CONGALeaf) Remote(dst, uplink int, now sim.Time) uint8 {
	m := &l.to[l.place(dst, uplink)]
	if !m.known || now-m.at > l.c.aging {
		return 0
	}
	return m.value
}

// Next is the uplink of a packet of a flow to a leaf, sent now, and whether it
// begins a flowlet. A new flowlet takes the uplink with the least of max(local,
// remote metric) among Choices, or all if those are down; its flow's last uplink if
// that is one of several, or else one drawn. Local is the metric of each uplink of this leaf. An uplink whose local
// metric is Down is not taken unless all are.
func (l *CONGALeaf) Next(f *Flowlet, now sim.Time, dst int, local []uint8, seed uint64) (uplink int, begins bool) {
	if f.count > 0 && int64(f.path) < int64(l.uplinks) && now-f.last <= l.c.gap && local[f.path] != Down {
		f.last = now
		return int(f.path), false
	}
	f.count++
	from, to := 0, l.uplinks
	if k := l.c.among; k > 0 && k < l.uplinks {
		from = RandomPath(mix(seed+golden), uint64(f.count), l.uplinks-k+1)
		to = from + k
	}
	least, equals := l.least(dst, from, to, local, now)
	if least == Down {
		from, to = 0, l.uplinks
		least, equals = l.least(dst, from, to, local, now)
	}
	f.last = now
	if f.count > 1 && int64(f.path) < int64(l.uplinks) && l.metric(dst, int(f.path), local, now) == least {
		return int(f.path), true
	}
	draw := RandomPath(mix(seed), uint64(f.count), equals)
	for u := from; u < to; u++ {
		if l.metric(dst, u, local, now) == least {
			if draw == 0 {
				f.path = uint32(u)
			}
			draw--
		}
	}
	return int(f.path), true
}

// least is the least metric of the uplinks from on and before to, and how many have
// it.
func (l *CONGALeaf) least(dst, from, to int, local []uint8, now sim.Time) (least, equals int) {
	least = math.MaxInt
	for u := from; u < to; u++ {
		switch m := l.metric(dst, u, local, now); {
		case m < least:
			least, equals = m, 1
		case m == least:
			equals++
		}
	}
	return least, equals
}

// metric is that of the whole path to a leaf by an uplink.
func (l *CONGALeaf) metric(dst, uplink int, local []uint8, now sim.Time) int {
	return int(max(local[uplink], l.Remote(dst, uplink, now)))
}

// Down is the local metric of an uplink that has failed.
const Down = math.MaxUint8
