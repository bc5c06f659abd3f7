package collective

import (
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// AllReduce returns the time of an all-reduce of n bytes over ranks GPUs of one
// NVLink domain, each with the given rate per direction: start-up plus the
// bandwidth-optimal 2(ranks-1)/ranks of the bytes through every GPU's port
// (Patarasuk and Yuan, JPDC 2009). One rank needs none.
//
// Tensor-parallel groups stay inside a server, so this is a closed form and no
// traffic on the simulated links: an all-reduce neither slows nor feels another
// micro-batch's dispatch over the same NVLink ports.
func AllReduce(n units.Bytes, ranks int, rate units.Rate, startup sim.Time) sim.Time {
	if ranks <= 1 {
		return 0
	}
	return startup + rate.TimeScaled(n, 2*int64(ranks-1), int64(ranks))
}
