package experiment

import (
	"slices"

	"github.com/tgssim/tgssim/collective"
	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// A Bound is what expert parallelism cannot be faster than: its bytes over every
// GPU's port, without computation, start-up, latency and headers.
type Bound struct {
	// Tokens of each GPU go to Experts other GPUs, and have Hidden elements: of a
	// byte on the way there, without scales, and of two on the way back.
	Tokens          int64
	Experts, Hidden int
	// AllToAlls is the number of dispatches, each with its combine.
	AllToAlls int
	// Rate is that of a GPU's port; Engine is flow or ideal.
	Rate   units.Rate
	Engine string
}

// Run is the time of the first dispatch and combine, and of all of them one after
// the other. The GPUs are under one switch, each with one expert, and tokens go to
// all but the sender's.
func (b Bound) Run() (first, all sim.Time, err error) {
	top := topology.DefaultConfig()
	top.Nodes, top.GPUsPerNode, top.NICsPerNode = b.Experts+1, 1, 1
	top.Leaves, top.Spines = 1, 0
	top.NICRate, top.LinkRate = b.Rate, b.Rate
	top.LinkDelay, top.NICLatency, top.SwitchLatency, top.NVLinkDelay = 0, 0, 0, 0
	g, err := topology.LeafSpine(top)
	if err != nil {
		return 0, 0, err
	}
	e := sim.New()
	cfg := fabric.DefaultConfig()
	cfg.Engine, cfg.Header = b.Engine, 0
	n, err := fabric.New(cfg, e, g, 1)
	if err != nil {
		return 0, 0, err
	}
	var ops [2]fabric.Collective
	for k := range ops {
		// One byte per element and no scales: half as many of two bytes.
		moe := collective.Config{Mode: collective.ModeLowLatency, DispatchDType: "bf16", CombineDType: "bf16"}
		experts := collective.Experts{Count: b.Experts + 1, TopK: b.Experts + 1, Hidden: b.Hidden * (k + 1) / 2}
		var place collective.Placement
		place.Graph = g
		for gpu := range b.Experts + 1 {
			place.Ranks = append(place.Ranks, []topology.GPU{topology.GPU(gpu)})
		}
		op, err := collective.NewOperation(collective.Kind(k), moe, experts, place)
		if err != nil {
			return 0, 0, err
		}
		if ops[k], err = n.NewCollective(op.Spec); err != nil {
			return 0, 0, err
		}
		ops[k].SetUnits(slices.Repeat([]int64{b.Tokens}, b.Experts+1))
	}
	var sum moving
	for i := range b.AllToAlls {
		for _, op := range ops {
			op.Start(0, 0, &sum)
			e.Run()
		}
		if i == 0 {
			first = sim.Time(sum)
		}
	}
	return first, sim.Time(sum), nil
}

// moving adds up how long bytes moved: all but the latency, here that of the switch
// which takes in a packet before it sends it on.
type moving sim.Time

// Delivered adds one collective.
func (m *moving) Delivered(d fabric.Delivery) { *m += moving(d.Arrived - d.Posted - d.Latency) }
