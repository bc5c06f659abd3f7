package experiment

import (
	"context"
	"fmt"

	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/fabric/packet"
	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/scenarios"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
	"github.com/tgssim/tgssim/workload"
)

// A Traffic is a fabric with flows, ready to run, once.
type Traffic struct {
	Fabric  *scenarios.Fabric
	Engine  *sim.Engine
	Graph   *topology.Graph
	Network fabric.Network
	Flows   []workload.Flow

	handler  sim.HandlerID
	nextQP   map[[2]int]int // of a pair of endpoints; nil when its flows share theirs
	results  []FlowResult
	finished int
}

// A FlowResult is what became of a flow.
type FlowResult struct {
	workload.Flow
	// Finish is the instant at which the last byte was in the receiver's memory,
	// sim.Never when that did not happen.
	Finish sim.Time
	// FCT is Finish less Start, and Ideal what the flow takes alone on the same
	// paths.
	FCT, Ideal sim.Time
}

// Slowdown is FCT over Ideal, 1 at best.
func (r *FlowResult) Slowdown() float64 { return float64(r.FCT) / float64(r.Ideal) }

// A TrafficResult is a finished run of pure traffic.
type TrafficResult struct {
	Flows       []FlowResult
	End         sim.Time
	Events      uint64
	Fingerprint uint64
	// Counters are the packet engine's; nil in the others.
	Counters *packet.Counters
	// Ports are its port statistics, in link order.
	Ports []packet.PortStats
	Loads []fabric.LinkLoad
	Notes []string
}

// BuildTraffic wires a fabric up. It fails with config.Problems that say where
// the offending keys were written.
func BuildTraffic(f *scenarios.Fabric, options ...sim.Option) (*Traffic, error) {
	t, err := buildTraffic(f, options)
	if err != nil {
		return nil, f.Locate(err)
	}
	return t, nil
}

func buildTraffic(f *scenarios.Fabric, options []sim.Option) (*Traffic, error) {
	t := &Traffic{Fabric: f, Engine: sim.New(options...)}
	var ps config.Problems
	var err error
	if t.Graph, err = topology.LeafSpine(f.Cluster); err != nil {
		ps.Nest("cluster", err)
		return nil, ps
	}
	t.Network, err = newNetwork(f.Network, f.Packet, f.Congestion, f.Seed, t.Engine, t.Graph)
	ps.Nest("", err)
	t.Flows, err = f.Traffic.Flows(t.Graph.GPUs(), endpointRate(f.Cluster), sim.Streams{Seed: f.Seed})
	ps.Nest("traffic", err)
	if err := ps.Err(); err != nil {
		return nil, err
	}
	if f.OwnQPs {
		t.nextQP = map[[2]int]int{}
	}
	t.handler = t.Engine.Register(t)
	t.results = make([]FlowResult, len(t.Flows))
	for i := range t.Flows {
		t.results[i] = FlowResult{Flow: t.Flows[i], Finish: sim.Never}
	}
	if len(t.Flows) > 0 {
		t.Engine.At(t.Flows[0].Start, t.handler, 0, 0)
	}
	return t, nil
}

// endpointRate is the rate of an endpoint: its part of its server's NICs, or of
// NVLink where there is no fabric.
func endpointRate(c topology.Config) units.Rate {
	if c.Leaves == 0 {
		return c.NVLinkRate
	}
	return c.NICRate * units.Rate(c.NICsPerNode) / units.Rate(c.GPUsPerNode)
}

// Handle starts the flows of this instant; Arg is the first of them.
func (t *Traffic) Handle(e sim.Event) {
	i := int(e.Arg)
	for ; i < len(t.Flows) && t.Flows[i].Start == e.At; i++ {
		f := &t.Flows[i]
		t.Network.Send(fabric.Message{
			Src: topology.GPU(f.Src), Dst: topology.GPU(f.Dst), Bytes: f.Bytes,
			Class: fabric.ClassKV, QPs: t.Fabric.QPs, FirstQP: t.firstQP(f), Tag: uint64(i),
		}, t)
	}
	if i < len(t.Flows) {
		t.Engine.At(t.Flows[i].Start, t.handler, 0, uint32(i))
	}
}

// firstQP is the number of the first queue pair of a flow.
func (t *Traffic) firstQP(f *workload.Flow) int {
	if t.nextQP == nil {
		return 0
	}
	pair := [2]int{f.Src, f.Dst}
	first := t.nextQP[pair]
	t.nextQP[pair] = first + t.Fabric.QPs
	return first
}

// Delivered notes the end of a flow.
func (t *Traffic) Delivered(d fabric.Delivery) {
	r := &t.results[d.Tag]
	r.Finish, r.FCT, r.Ideal = d.Arrived, d.Arrived-d.Posted, d.Wire
	t.finished++
}

// Run executes the traffic to its end. report may be nil; it is called now and
// then from the same goroutine. A cancelled context stops the run with its error.
func (t *Traffic) Run(ctx context.Context, report func(Progress)) (*TrafficResult, error) {
	for width, at := firstSlice, sim.Time(0); t.Engine.Pending() > 0 && at < sim.Never; {
		at = sim.Never - max(0, sim.Never-at-width)
		before := t.Engine.Events()
		t.Engine.RunUntil(at)
		width = nextSlice(width, t.Engine.Events()-before)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if report != nil {
			report(Progress{
				Now: t.Engine.Now(), Events: t.Engine.Events(),
				Arrived: len(t.Flows), Finished: t.finished, Total: len(t.Flows),
			})
		}
	}
	f := t.Fabric
	r := &TrafficResult{
		Flows: t.results, End: t.Engine.Now(), Events: t.Engine.Events(), Fingerprint: t.Engine.Fingerprint(),
		Loads: t.Network.Loads(nil),
		Ports: portStats(t.Network, t.Graph),
		Notes: engineNotes(t.Network, f.Network.Engine, f.Packet.Train, f.Written),
	}
	if n, ok := t.Network.(*packet.Network); ok {
		c := n.Counters()
		r.Counters = &c
	}
	if missing := len(t.Flows) - t.finished; missing > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d of %d flows never finished.", missing, len(t.Flows)))
	}
	return r, nil
}

// Span is from the first start to the last finish of the flows that finished.
func (r *TrafficResult) Span() sim.Time {
	first, last := sim.Never, sim.Time(0)
	for i := range r.Flows {
		if f := &r.Flows[i]; f.Finish != sim.Never {
			first, last = min(first, f.Start), max(last, f.Finish)
		}
	}
	return max(0, last-first)
}

// Goodput is the payload of the flows that finished over Span, in bits per second.
func (r *TrafficResult) Goodput() units.Rate {
	var bytes float64
	for i := range r.Flows {
		if f := &r.Flows[i]; f.Finish != sim.Never {
			bytes += float64(f.Bytes)
		}
	}
	span := r.Span()
	if span == 0 {
		return 0
	}
	return units.Rate(8 * bytes / span.Seconds())
}
