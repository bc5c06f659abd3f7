package sweep

import (
	"context"
	"slices"
	"time"

	"github.com/tgssim/tgssim/congestion"
	"github.com/tgssim/tgssim/experiment"
	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/fabric/packet"
	"github.com/tgssim/tgssim/scenarios"
)

// A guide is which part of its bytes a run has delivered by which instant, in
// simulated seconds: what a run costs in the packet engine goes with the bytes. It
// is empty where it is not known.
type guide []mark

type mark struct{ now, delivered float64 }

// at is the part of the bytes delivered by an instant.
func (g guide) at(now float64) float64 {
	i, _ := slices.BinarySearchFunc(g, now, func(x mark, now float64) int {
		if x.now < now {
			return -1
		}
		return 1
	})
	switch {
	case i == 0:
		return 0
	case i == len(g):
		return 1
	}
	a, b := g[i-1], g[i]
	return a.delivered + (b.delivered-a.delivered)*(now-a.now)/(b.now-a.now)
}

// judge takes the part of the bytes for what is done at some moments, where there is
// a guide.
func (g guide) judge(seen []moment) {
	for i := range seen {
		if len(g) > 0 {
			seen[i].done = g.at(seen[i].now)
		}
	}
}

// guides are those of points in the packet engine, by their scenarios in the flow
// engine: points that differ in congestion control have the same one.
type guides struct {
	left   time.Duration // for those that are still to be made
	known  map[string]guide
	traces experiment.Traces
}

// of is the guide of a scenario; empty in other engines, and where there is no time
// for it or the flow engine cannot run it.
func (g *guides) of(ctx context.Context, s *scenarios.Scenario) guide {
	if s.Network.Engine != fabric.EnginePacket {
		return nil
	}
	flow := *s
	flow.Network.Engine = "flow"
	flow.Packet, flow.Congestion = packet.DefaultConfig(), congestion.DefaultConfig()
	key, err := flow.Resolved()
	if err != nil {
		return nil
	}
	if x, ok := g.known[string(key)]; ok {
		return x
	}
	started := time.Now()
	within, stop := context.WithTimeout(ctx, g.left)
	defer stop()
	x := g.run(within, &flow)
	g.left -= time.Since(started)
	g.known[string(key)] = x
	return x
}

func (g *guides) run(ctx context.Context, s *scenarios.Scenario) (x guide) {
	b, err := experiment.BuildWith(s, &g.traces)
	if err != nil {
		return nil
	}
	all := 0.
	_, err = b.Run(ctx, func(q experiment.Progress) {
		all = 0
		for _, n := range b.Network.Totals().DeliveredBytes {
			all += float64(n)
		}
		if now := q.Now.Seconds(); len(x) == 0 || now > x[len(x)-1].now {
			x = append(x, mark{now, all})
		}
	})
	if err != nil || all == 0 {
		return nil
	}
	for i := range x {
		x[i].delivered /= all
	}
	return x
}
