package congestion

import (
	"math"

	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// NoWindow is the window of a flow that has none.
const NoWindow units.Bytes = math.MaxInt64

// An Ack is what an acknowledgement tells the sender.
type Ack struct {
	// Bytes is the payload that it acknowledges for the first time.
	Bytes units.Bytes
	// Marked is whether the packet that it answers carried a congestion mark.
	Marked bool
	// RTT is the time since that packet was sent, 0 when it was not taken.
	RTT sim.Time
}

// A FlowID names a flow within its Controller. IDs of closed flows are reused.
type FlowID int32

// A Controller paces the flows of NICs of one line rate and keeps their state:
// any algorithm behind one face, for an engine that chooses by name.
type Controller interface {
	// Open begins a flow.
	Open(now sim.Time) FlowID
	// Close ends it.
	Close(f FlowID)
	// OnSend reports that n bytes, headers included, are sent beginning now, and
	// returns the earliest instant of the next packet as far as the flow's rate
	// is concerned.
	OnSend(f FlowID, now sim.Time, n units.Bytes) sim.Time
	// OnAck reports an acknowledgement, OnCNP a congestion notification packet.
	OnAck(f FlowID, now sim.Time, a Ack)
	OnCNP(f FlowID, now sim.Time)
	// Rate is the flow's rate as of now; Window is the most bytes that it may
	// have sent and not acknowledged.
	Rate(f FlowID, now sim.Time) units.Rate
	Window(f FlowID, now sim.Time) units.Bytes
	// NextDeadline is when Rate or Window will change next if nothing is called
	// meanwhile, or sim.Never.
	NextDeadline(f FlowID) sim.Time
}

// algorithms is the table of the algorithms.
var algorithms = []struct {
	name string
	make func(c Config, line units.Rate) (Controller, error)
}{
	{"dcqcn", func(c Config, line units.Rate) (Controller, error) {
		d, err := NewDCQCN(c.DCQCN, line)
		return &dcqcnFlows{DCQCN: d}, err
	}},
	{"none", func(c Config, line units.Rate) (Controller, error) {
		n, err := NewNone(c.None, line)
		return &noneFlows{None: n}, err
	}},
}

// Algorithms lists the valid values of Config.Algorithm.
func Algorithms() []string {
	names := make([]string, len(algorithms))
	for i, a := range algorithms {
		names[i] = a.name
	}
	return names
}

// New makes the controller that c.Algorithm names, for NICs of a line rate. It
// fails when the name is unknown or the algorithm's settings are not valid.
func New(c Config, line units.Rate) (Controller, error) {
	for _, a := range algorithms {
		if a.name == c.Algorithm {
			ctl, err := a.make(c, line)
			if err != nil {
				return nil, err
			}
			return ctl, nil
		}
	}
	return nil, unknownName("algorithm", c.Algorithm, Algorithms())
}

// flows holds the states of a controller's flows.
type flows[S any] struct {
	states []S
	free   []FlowID
}

func (s *flows[S]) open() FlowID {
	if n := len(s.free); n > 0 {
		f := s.free[n-1]
		s.free = s.free[:n-1]
		return f
	}
	var zero S
	s.states = append(s.states, zero)
	return FlowID(len(s.states) - 1)
}

// Close implements Controller.
func (s *flows[S]) Close(f FlowID) { s.free = append(s.free, f) }

// dcqcnFlows is DCQCN as a Controller.
type dcqcnFlows struct {
	*DCQCN
	flows[RP]
}

func (c *dcqcnFlows) Open(now sim.Time) FlowID {
	f := c.open()
	c.Start(&c.states[f], now)
	return f
}

func (c *dcqcnFlows) OnSend(f FlowID, now sim.Time, n units.Bytes) sim.Time {
	return c.DCQCN.OnSend(&c.states[f], now, n)
}

func (c *dcqcnFlows) OnAck(f FlowID, now sim.Time, a Ack) { c.DCQCN.OnAck(&c.states[f], now, a) }

func (c *dcqcnFlows) OnCNP(f FlowID, now sim.Time) { c.DCQCN.OnCNP(&c.states[f], now) }

func (c *dcqcnFlows) Rate(f FlowID, now sim.Time) units.Rate { return c.DCQCN.Rate(&c.states[f], now) }

func (c *dcqcnFlows) Window(f FlowID, now sim.Time) units.Bytes {
	return c.DCQCN.Window(&c.states[f], now)
}

func (c *dcqcnFlows) NextDeadline(f FlowID) sim.Time { return c.DCQCN.NextDeadline(&c.states[f]) }

// noneFlows is None as a Controller.
type noneFlows struct {
	*None
	flows[struct{}]
}

func (c *noneFlows) Open(sim.Time) FlowID { return c.open() }

func (c *noneFlows) OnSend(_ FlowID, now sim.Time, n units.Bytes) sim.Time {
	return c.None.OnSend(now, n)
}

func (c *noneFlows) OnAck(FlowID, sim.Time, Ack) {}

func (c *noneFlows) OnCNP(FlowID, sim.Time) {}

func (c *noneFlows) Rate(FlowID, sim.Time) units.Rate { return c.line }

func (c *noneFlows) Window(FlowID, sim.Time) units.Bytes { return c.None.Window() }

func (c *noneFlows) NextDeadline(FlowID) sim.Time { return sim.Never }
