package congestion

// This file is the example of docs/extending.md, but for its test at the end.

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// AIMDConfig is additive increase and multiplicative decrease by marks.
type AIMDConfig struct {
	// Gain is what the window gains per round trip, in bytes.
	Gain units.Bytes `yaml:"gain"`
	// Beta is what is left of it after a mark.
	Beta float64 `yaml:"beta"`
}

// Validate says what is wrong with c, as config.Problems, or nil.
func (c AIMDConfig) Validate() error {
	var ps config.Problems
	within(&ps, "gain", c.Gain, 1, units.MB)
	within(&ps, "beta", c.Beta, 0.01, 0.99)
	return ps.Err()
}

// An aimdFlow is the state of a flow: 16 bytes.
type aimdFlow struct{ window, most float64 }

// aimdFlows is the controller of all flows of a line rate. What it does not say,
// it is deaf to; flows keeps its states.
type aimdFlows struct {
	deaf
	flows[aimdFlow]
	AIMDConfig
	line units.Rate
}

func newAIMD(c AIMDConfig, l Line) (Controller, error) {
	return &aimdFlows{AIMDConfig: c, line: l.Rate}, c.Validate()
}

func (c *aimdFlows) Open(_ sim.Time, r Route) FlowID {
	f := c.open()
	bdp := c.line.BytesPerPicosecond() * float64(r.RTT)
	c.states[f] = aimdFlow{window: bdp, most: 2 * bdp}
	return f
}

func (c *aimdFlows) OnSend(_ FlowID, now sim.Time, n units.Bytes) sim.Time {
	return now + sendTime(c.line, n)
}

func (c *aimdFlows) OnAck(f FlowID, _ sim.Time, a Ack) {
	s := &c.states[f]
	if a.Marked {
		s.window *= c.Beta
	} else {
		s.window += float64(float64(c.Gain) * float64(a.Bytes) / s.window)
	}
	s.window = min(max(s.window, 1), s.most)
}

func (c *aimdFlows) OnTimeout(f FlowID, _ sim.Time) { c.states[f].window = 1 }

func (c *aimdFlows) Rate(FlowID, sim.Time) units.Rate { return c.line }

func (c *aimdFlows) Window(f FlowID, _ sim.Time) units.Bytes { return units.Bytes(c.states[f].window) }

// end of the example

// The example is a row away from being an algorithm.
func TestExampleIsAController(t *testing.T) {
	settings := AIMDConfig{Gain: 4096, Beta: 0.5}
	table := append([]algorithm{{"aimd", Needs{Marks: true}, func(_ Config, l Line) (Controller, error) { return newAIMD(settings, l) }}}, algorithms...)
	c := DefaultConfig()
	c.Algorithm = "aimd"
	ctl, err := newOf(table, c, Line{400 * units.Gbps, 4096})
	require.NoError(t, err)
	f := ctl.Open(0, Route{RTT: 8 * sim.Microsecond, Hops: 3})
	require.Equal(t, units.Bytes(400_000), ctl.Window(f, 0))
	ctl.OnAck(f, 0, Ack{Bytes: 4096, Marked: true})
	require.Equal(t, units.Bytes(200_000), ctl.Window(f, 0))
	for range 49 { // a round trip
		ctl.OnAck(f, 0, Ack{Bytes: 4096})
	}
	require.InDelta(t, 204_096, float64(ctl.Window(f, 0)), 80)
	ctl.OnCNP(f, 0)
	ctl.OnTimeout(f, 0)
	require.Equal(t, units.Bytes(1), ctl.Window(f, 0))
	require.Equal(t, sim.Never, ctl.NextDeadline(f))
}
