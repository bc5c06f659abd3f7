package congestion

import (
	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// An HPCC is the constants of HPCC for one line rate. It does not change, so all
// flows of all NICs of that rate share one.
type HPCC struct {
	line, minRate, ai units.Rate
	eta               float64
	maxStage          uint16
	fastReact         bool
	baseRTT           sim.Time
}

// NewHPCC makes the constants of flows on NICs of a line rate. It fails when c is
// not valid or its rates do not fit the line.
func NewHPCC(c HPCCConfig, line units.Rate) (*HPCC, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := lineRate(line); err != nil {
		return nil, err
	}
	var ps config.Problems
	ps.Require(c.MinRate <= line, "min_rate", "%v is above the line rate, %v", c.MinRate, line)
	if err := ps.Err(); err != nil {
		return nil, err
	}
	return &HPCC{
		line: line, minRate: c.MinRate, ai: scaled(c.RateAI, line, c.ScaleFrom),
		eta: c.Eta, maxStage: uint16(c.MaxStage), fastReact: c.FastReact, baseRTT: c.BaseRTT,
	}, nil
}

// An HPCCFlow is what a sender's NIC keeps for a queue pair. It is ready after
// HPCC.Start.
type HPCCFlow struct {
	meter       INTMeter
	window, ref float64 // W and W_c, bytes
	rtt         sim.Time
	// last is the number of the packet whose acknowledgement moves W_c next.
	last  uint32
	stage uint16 // additive increases in a row
	begun bool   // last has been set
}

// Start makes f the state of a new flow on a path whose round trip without queues
// is rtt. It begins at line rate with one bandwidth-delay product (paper, section
// 3.2); as in HPCC-ns3, the path is taken for full until telemetry says otherwise.
func (h *HPCC) Start(f *HPCCFlow, rtt sim.Time) {
	if h.baseRTT > 0 {
		rtt = h.baseRTT
	}
	*f = HPCCFlow{rtt: max(rtt, sim.Nanosecond)}
	f.meter.Start(1)
	f.window = h.bytes(f, h.line)
	f.ref = f.window
}

// bytes is what a rate sends in a base RTT.
func (h *HPCC) bytes(f *HPCCFlow, r units.Rate) float64 {
	return float64(r.BytesPerPicosecond() * float64(f.rtt))
}

// OnAck takes in an acknowledgement (algorithm 1, NewAck).
func (h *HPCC) OnAck(f *HPCCFlow, a Ack) {
	full := f.begun && int32(a.Acked-f.last) > 0
	if f.begun && !full && !h.fastReact {
		return
	}
	moved := f.meter.Observe(a.Path, a.Hops, f.rtt)
	if moved {
		h.react(f, full)
	}
	if full && moved || !f.begun {
		f.last, f.begun = a.Next, true
	}
}

// react sets the window by the utilisation, and the reference window with it
// when a round trip is over (ComputeWind).
func (h *HPCC) react(f *HPCCFlow, full bool) {
	w, stage := f.ref, f.stage+1
	if u := f.meter.U(); u >= h.eta || f.stage >= h.maxStage {
		w, stage = w/(u/h.eta), 0
	}
	w += h.bytes(f, h.ai)
	w = min(max(w, h.bytes(f, h.minRate)), h.bytes(f, h.line))
	f.window = w
	if full {
		f.ref, f.stage = w, stage
	}
}

// OnSend reports that the flow sends n bytes, headers included, beginning now,
// and returns the earliest instant of its next packet: packets are paced at W/T.
func (h *HPCC) OnSend(f *HPCCFlow, now sim.Time, n units.Bytes) sim.Time {
	return now + sendTime(h.Rate(f), n)
}

// Rate is W/T.
func (h *HPCC) Rate(f *HPCCFlow) units.Rate {
	const bit8 = 8 * float64(sim.Second)
	return min(max(units.Rate(f.window/float64(f.rtt)*bit8), h.minRate), h.line)
}

// Window is W, the most bytes that the flow may have sent and not acknowledged.
// An engine lets a flow with none under way send one packet whatever its window.
func (h *HPCC) Window(f *HPCCFlow) units.Bytes { return units.Bytes(f.window) }

// Utilisation is U, what the flow believes of the busiest link of its path.
func (h *HPCC) Utilisation(f *HPCCFlow) float64 { return f.meter.U() }

// hpccFlows is HPCC as a Controller.
type hpccFlows struct {
	deaf
	*HPCC
	flows[HPCCFlow]
}

func newHPCCFlows(c Config, l Line) (Controller, error) {
	h, err := NewHPCC(c.HPCC, l.Rate)
	return &hpccFlows{HPCC: h}, err
}

func (c *hpccFlows) Open(_ sim.Time, r Route) FlowID {
	f := c.open()
	c.Start(&c.states[f], r.RTT)
	return f
}

func (c *hpccFlows) OnSend(f FlowID, now sim.Time, n units.Bytes) sim.Time {
	return c.HPCC.OnSend(&c.states[f], now, n)
}

func (c *hpccFlows) OnAck(f FlowID, _ sim.Time, a Ack) { c.HPCC.OnAck(&c.states[f], a) }

// Hold moves what is known of the switches' clocks.
func (c *hpccFlows) Hold(f FlowID, by sim.Time) { c.states[f].meter.Hold(by) }

func (c *hpccFlows) Rate(f FlowID, _ sim.Time) units.Rate { return c.HPCC.Rate(&c.states[f]) }

func (c *hpccFlows) Window(f FlowID, _ sim.Time) units.Bytes { return c.HPCC.Window(&c.states[f]) }
