package serving

import (
	"github.com/tgssim/tgssim/collective"
	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/sim"
)

// A Volume is what dispatches, or combines, moved, summed over the GPUs, and how
// long they took, hidden or not. Measured ones move nothing.
type Volume struct {
	Runs int64
	// Time is from the call to the arrival of the last byte, summed over the runs.
	Time sim.Time
	// Logical, NVLink and Network are bytes; see collective.Volume. Each run's are
	// rounded down.
	Logical, NVLink, Network int64
}

func (v *Volume) add(o *Volume) {
	v.Runs += o.Runs
	v.Time += o.Time
	v.Logical += o.Logical
	v.NVLink += o.NVLink
	v.Network += o.Network
}

// CommVolume is the volumes of both AllToAlls.
type CommVolume struct{ Dispatch, Combine Volume }

func (c *CommVolume) add(o *CommVolume) {
	c.Dispatch.add(&o.Dispatch)
	c.Combine.add(&o.Combine)
}

// heard books a run; the rest of one belongs to the same run.
func (c *CommVolume) heard(o *op, d *fabric.Delivery, v *collective.Volume) {
	into := &c.Dispatch
	if o.part == partCombine {
		into = &c.Combine
	}
	runs := int64(1)
	if o.rest {
		runs = 0
	}
	into.add(&Volume{runs, d.Arrived - d.Posted, v.Logical / 1000, v.NVLink / 1000, v.Network / 1000})
}

// since is what has been added since an earlier reading.
func (c CommVolume) since(o *CommVolume) CommVolume {
	return CommVolume{c.Dispatch.since(&o.Dispatch), c.Combine.since(&o.Combine)}
}

func (v Volume) since(o *Volume) Volume {
	return Volume{v.Runs - o.Runs, v.Time - o.Time, v.Logical - o.Logical, v.NVLink - o.NVLink, v.Network - o.Network}
}

func (c CommVolume) times(n int64) CommVolume {
	return CommVolume{c.Dispatch.times(n), c.Combine.times(n)}
}

func (v Volume) times(n int64) Volume {
	return Volume{v.Runs * n, v.Time * sim.Time(n), v.Logical * n, v.NVLink * n, v.Network * n}
}

// An allToAll is a dispatch or combine of one micro-batch.
type allToAll struct {
	fabric.Collective
	op     collective.Operation // without volumes when it moves no bytes
	volume collective.Volume    // of a run with the units last given
	none   bool                 // there is nothing to send
}

// setUnits gives the units of the runs that follow.
func (a *allToAll) setUnits(units []int64) {
	a.SetUnits(units)
	if a.op.Volumes != nil {
		a.volume = a.op.Of(units)
	}
}
