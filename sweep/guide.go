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

// A guide is which part of its bytes a run has sent by which part of it, both
// at most 1 and rising: what a run costs in the packet engine goes with the bytes. It is
// empty where it is not known.
type guide []struct{ done, sent float64 }

// at is the part of the bytes sent by a part of the run.
func (g guide) at(done float64) float64 {
	i, _ := slices.BinarySearchFunc(g, done, func(x struct{ done, sent float64 }, done float64) int {
		if x.done < done {
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
	return a.sent + (b.sent-a.sent)*(done-a.done)/(b.done-a.done)
}

// shares are the parts of the bytes sent at some moments, nothing without a guide.
func (g guide) shares(seen []moment) (sent []float64) {
	if len(g) == 0 {
		return nil
	}
	for _, m := range seen {
		sent = append(sent, g.at(m.done))
	}
	return sent
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
	_, err = b.Run(ctx, func(q experiment.Progress) {
		sent := 0.
		for _, n := range b.Network.Totals().SentBytes {
			sent += float64(n)
		}
		done := share(s, q)
		if k := len(x); k == 0 || done > x[k-1].done {
			x = append(x, struct{ done, sent float64 }{done, sent})
		} else {
			x[k-1].sent = sent
		}
	})
	if err != nil || len(x) == 0 || x[len(x)-1].sent == 0 {
		return nil
	}
	all := x[len(x)-1].sent
	for i := range x {
		x[i].sent /= all
	}
	return x
}
