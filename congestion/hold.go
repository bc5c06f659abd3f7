package congestion

import "github.com/tgssim/tgssim/sim"

// Hold has the clock of a flow that has nothing to send stand still for the time
// by that has just gone by: its timers have as long to go as before, and its rate
// has not recovered. It is for whoever leaves out repetitions of a traffic that
// would have kept the flow as it is.
func (d *DCQCN) Hold(f *RP, by sim.Time) {
	f.alphaAt += by
	if f.timerAt != sim.Never {
		f.timerAt += by
	}
	if f.cutAt != sim.Never {
		f.cutAt += by
	}
}
