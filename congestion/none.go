package congestion

import (
	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// NoneConfig is no congestion control: line rate within a fixed window. What
// remains is PFC, or loss.
type NoneConfig struct {
	// Window bounds the bytes of a flow that are sent and not acknowledged; 0 is
	// no bound.
	Window units.Bytes `yaml:"window"`
}

// DefaultNone has no window.
func DefaultNone() NoneConfig { return NoneConfig{} }

// Validate says what is wrong with c, as config.Problems, or nil.
func (c NoneConfig) Validate() error {
	var ps config.Problems
	within(&ps, "window", c.Window, 0, maxWindow)
	return ps.Err()
}

// A None paces flows at line rate within a fixed window. A flow has no state.
type None struct {
	line   units.Rate
	window units.Bytes
}

// NewNone makes the constants of flows on NICs of a line rate. It fails when c is
// not valid.
func NewNone(c NoneConfig, line units.Rate) (*None, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := lineRate(line); err != nil {
		return nil, err
	}
	n := &None{line: line, window: c.Window}
	if n.window == 0 {
		n.window = NoWindow
	}
	return n, nil
}

// OnSend returns the instant at which n bytes sent from now on have left.
func (c *None) OnSend(now sim.Time, n units.Bytes) sim.Time { return now + sendTime(c.line, n) }

// Window is the most bytes that a flow may have sent and not acknowledged.
func (c *None) Window() units.Bytes { return c.window }
