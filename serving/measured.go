package serving

import (
	"slices"

	"github.com/tgssim/tgssim/collective"
	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/sim"
)

// kindMeasuredDone is the event at the end of a measured collective; the others
// are the stepper's.
const kindMeasuredDone uint16 = 32

// A measured is a dispatch or combine that takes the time that was measured of
// it. It stands in for one on the network, and moves nothing there.
type measured struct {
	c      *Cluster
	number uint32 // in Cluster.measured: the argument of its event
	times  collective.Measured
	tp     int64 // the GPUs that share a rank's tokens
	most   int64 // tokens of the busiest rank

	delivery fabric.Delivery
	to       fabric.Receiver
}

func (c *Cluster) newMeasured(times collective.Measured, tp int) *measured {
	m := &measured{c: c, number: uint32(len(c.measured)), times: times, tp: int64(tp)}
	c.measured = append(c.measured, m)
	return m
}

// SetUnits gives each rank's number of tokens.
func (m *measured) SetUnits(units []int64) { m.most = slices.Max(units) }

// Start begins a run. The fixed time stands for start-up and everything else that
// does not grow with tokens, so startup is not added.
func (m *measured) Start(_ sim.Time, tag uint64, to fabric.Receiver) {
	now, moving := m.c.engine.Now(), m.times.PerToken*sim.Time(m.most)/sim.Time(m.tp)
	m.to = to
	m.delivery = fabric.Delivery{
		Tag: tag, Posted: now, Arrived: now + m.times.Fixed + moving,
		Post: m.times.Fixed, Wire: moving, Ideal: moving,
	}
	m.c.engine.At(m.delivery.Arrived, m.c.handler, kindMeasuredDone, m.number)
}

// Latency is part of the fixed time.
func (m *measured) Latency() sim.Time { return 0 }

// Repeat books nothing: there are no bytes.
func (m *measured) Repeat(int64, sim.Time) {}
