package congestion

import (
	"math"

	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// NoWindow is the window of a flow that has none.
const NoWindow units.Bytes = math.MaxInt64

// An Ack is what an acknowledgement tells the sender. An algorithm reads what its
// Needs name; the rest may be missing.
type Ack struct {
	// Bytes is the payload that it acknowledges for the first time.
	Bytes units.Bytes
	// RTT is the time since the packet that it answers was sent, 0 when it was not
	// taken.
	RTT sim.Time
	// Hops is the telemetry of the switches that the packet passed, in the order of
	// the path, and Path the path's identity: another one has another number.
	Hops []INTHop
	Path uint32
	// Acked is the first packet that is not acknowledged and Next the one that the
	// sender will send next, in any numbering that goes up, modulo 2^32.
	Acked, Next uint32
	// Marked is whether the packet carried a congestion mark.
	Marked bool
}

// A Route is what a flow's path is like when nothing else is on it.
type Route struct {
	// RTT is the time from the first bit of a full packet to the last of its
	// acknowledgement.
	RTT sim.Time
	// Hops is the number of switches.
	Hops int
}

// A Line is a NIC's port: its rate and the payload of a full packet.
type Line struct {
	Rate units.Rate
	MTU  units.Bytes
}

// Needs is what an algorithm needs of the engine beside acknowledgements. Who
// does not need something does not pay for it.
type Needs struct {
	// Marks are congestion marks (ECN), as CNPs or echoed in acknowledgements.
	Marks bool
	// RTT is the time stamp of every packet.
	RTT bool
	// INT is telemetry in every packet and back, at its bytes.
	INT bool
	// Credits are grants of the receiver before data: the engine runs
	// CreditSchedulers, and between grants flows are at line rate.
	Credits bool
	// OnePath is that packets of a flow may not take different paths.
	OnePath bool
}

// A FlowID names a flow within its Controller. IDs of closed flows are reused.
type FlowID int32

// A Controller paces the flows of NICs of one line rate and keeps their state:
// any algorithm behind one face, for an engine that chooses by name.
type Controller interface {
	// Open begins a flow.
	Open(now sim.Time, r Route) FlowID
	// Close ends it.
	Close(f FlowID)
	// OnSend reports that n bytes, headers included, are sent beginning now, and
	// returns the earliest instant of the next packet as far as the flow's rate
	// is concerned.
	OnSend(f FlowID, now sim.Time, n units.Bytes) sim.Time
	// OnAck reports an acknowledgement, OnCNP a congestion notification packet,
	// OnLoss a loss that the receiver has told of, OnTimeout one that only silence
	// has told of.
	OnAck(f FlowID, now sim.Time, a Ack)
	OnCNP(f FlowID, now sim.Time)
	OnLoss(f FlowID, now sim.Time)
	OnTimeout(f FlowID, now sim.Time)
	// Hold has the flow stand still for a time that ends now, as if it had not
	// been.
	Hold(f FlowID, by sim.Time)
	// Rate is the flow's rate as of now; Window is the most bytes that it may
	// have sent and not acknowledged. A flow with nothing under way may send one
	// packet whatever its window.
	Rate(f FlowID, now sim.Time) units.Rate
	Window(f FlowID, now sim.Time) units.Bytes
	// NextDeadline is when Rate or Window will change next if nothing is called
	// meanwhile, or sim.Never.
	NextDeadline(f FlowID) sim.Time
}

// An algorithm is a row of the table: the name that scenarios use, which is also
// that of its section of Config, what it needs, and how to make it.
type algorithm struct {
	name  string
	needs Needs
	make  func(c Config, l Line) (Controller, error)
}

// algorithms is the table of the algorithms.
var algorithms = []algorithm{
	{"dcqcn", Needs{Marks: true}, newDCQCNFlows},
	{"none", Needs{}, newNoneFlows},
	{"hpcc", Needs{INT: true, OnePath: true}, newHPCCFlows},
	{"swift", Needs{RTT: true}, newSwiftFlows},
	{"timely", Needs{RTT: true}, newTimelyFlows},
	{"credit", Needs{Credits: true}, newLineRate},
	{"gse", Needs{Credits: true}, newLineRate},
}

// Algorithms lists the valid values of Config.Algorithm.
func Algorithms() []string {
	names := make([]string, len(algorithms))
	for i, a := range algorithms {
		names[i] = a.name
	}
	return names
}

// NeedsOf is what the algorithm that c names needs; nothing for an unknown one.
func NeedsOf(c Config) Needs {
	for _, a := range algorithms {
		if a.name == c.Algorithm {
			return a.needs
		}
	}
	return Needs{}
}

// New makes the controller that c.Algorithm names, for NICs of a line. It fails
// when the name is unknown, or the algorithm's settings or the rate are not valid.
func New(c Config, l Line) (Controller, error) { return newOf(algorithms, c, l) }

func newOf(table []algorithm, c Config, l Line) (Controller, error) {
	for _, a := range table {
		if a.name == c.Algorithm {
			if err := lineRate(l.Rate); err != nil {
				return nil, err
			}
			ctl, err := a.make(c, l)
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

// deaf answers for an algorithm that does not listen to some events, and changes
// nothing by itself.
type deaf struct{}

func (deaf) OnCNP(FlowID, sim.Time)       {}
func (deaf) OnLoss(FlowID, sim.Time)      {}
func (deaf) OnTimeout(FlowID, sim.Time)   {}
func (deaf) Hold(FlowID, sim.Time)        {}
func (deaf) NextDeadline(FlowID) sim.Time { return sim.Never }

// dcqcnFlows is DCQCN as a Controller.
type dcqcnFlows struct {
	deaf
	*DCQCN
	flows[RP]
}

func newDCQCNFlows(c Config, l Line) (Controller, error) {
	d, err := NewDCQCN(c.DCQCN, l.Rate)
	return &dcqcnFlows{DCQCN: d}, err
}

func (c *dcqcnFlows) Open(now sim.Time, _ Route) FlowID {
	f := c.open()
	c.Start(&c.states[f], now)
	return f
}

func (c *dcqcnFlows) OnSend(f FlowID, now sim.Time, n units.Bytes) sim.Time {
	return c.DCQCN.OnSend(&c.states[f], now, n)
}

func (c *dcqcnFlows) OnAck(f FlowID, now sim.Time, a Ack) { c.DCQCN.OnAck(&c.states[f], now, a) }

func (c *dcqcnFlows) OnCNP(f FlowID, now sim.Time) { c.DCQCN.OnCNP(&c.states[f], now) }

func (c *dcqcnFlows) Hold(f FlowID, by sim.Time) { c.DCQCN.Hold(&c.states[f], by) }

func (c *dcqcnFlows) Rate(f FlowID, now sim.Time) units.Rate { return c.DCQCN.Rate(&c.states[f], now) }

func (c *dcqcnFlows) Window(f FlowID, now sim.Time) units.Bytes {
	return c.DCQCN.Window(&c.states[f], now)
}

func (c *dcqcnFlows) NextDeadline(f FlowID) sim.Time { return c.DCQCN.NextDeadline(&c.states[f]) }

// noneFlows is None as a Controller.
type noneFlows struct {
	deaf
	*None
	flows[struct{}]
}

func newNoneFlows(c Config, l Line) (Controller, error) {
	n, err := NewNone(c.None, l.Rate)
	return &noneFlows{None: n}, err
}

// newLineRate paces at line rate, without a window.
func newLineRate(_ Config, l Line) (Controller, error) {
	n, err := NewNone(NoneConfig{}, l.Rate)
	return &noneFlows{None: n}, err
}

func (c *noneFlows) Open(sim.Time, Route) FlowID { return c.open() }

func (c *noneFlows) OnSend(_ FlowID, now sim.Time, n units.Bytes) sim.Time {
	return c.None.OnSend(now, n)
}

func (c *noneFlows) OnAck(FlowID, sim.Time, Ack) {}

func (c *noneFlows) Rate(FlowID, sim.Time) units.Rate { return c.line }

func (c *noneFlows) Window(FlowID, sim.Time) units.Bytes { return c.None.Window() }
