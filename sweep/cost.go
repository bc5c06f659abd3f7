package sweep

import (
	"context"
	"errors"
	"time"

	"github.com/tgssim/tgssim/experiment"
	"github.com/tgssim/tgssim/scenarios"
)

// How a cost was found.
const (
	// CostMeasured is a probe that came to its end.
	CostMeasured = "measured"
	// CostProbed is extended from the beginning of a run.
	CostProbed = "probed"
	// CostInferred is taken from the nearest point that was probed, in proportion to
	// the requests.
	CostInferred = "inferred"
	// CostUnknown is a probe in which next to nothing happened.
	CostUnknown = "unknown"
)

// A Cost is a point as it would be built, and what one run of it may take.
type Cost struct {
	Point int
	// Cluster and Derived are what follows from the point; Error is why it cannot
	// be built.
	Cluster *Cluster
	Derived []scenarios.Derived
	Error   error
	// Requests is the number that will arrive; 0 when unknown.
	Requests int
	// Seconds of one run on one core, and how they were found.
	Seconds float64
	Basis   string
}

// Describe builds every point, without running it.
func (p *Plan) Describe(ctx context.Context) ([]Cost, error) {
	costs := make([]Cost, len(p.Points))
	traces := experiment.Traces{}
	for point := range p.Points {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		costs[point] = p.describe(point, &traces)
	}
	return costs, nil
}

func (p *Plan) describe(point int, traces *experiment.Traces) Cost {
	c := Cost{Point: point}
	s, err := p.Scenario(point)
	if err != nil {
		c.Error = err
		return c
	}
	c.Derived = s.Derived()
	b, err := experiment.BuildWith(s, traces)
	if err != nil {
		c.Error = err
		return c
	}
	c.Cluster, c.Requests = ClusterOf(s, b.Graph), b.Progress().Total
	return c
}

// maxProbes is the largest number of points that are probed.
const maxProbes = 16

// Estimate is Describe with the cost of a run. It runs the beginning of up to 16
// points, spread evenly, for an equal part of the budget of wall-clock time each,
// and extends what it sees: the pace of arrivals in the second half of the probe
// is taken for that of the rest. The beginning of a run has fewer requests in the
// system than its middle. In the packet engine, where a probe sees little more, the
// pace of bytes counts instead, and a run of the point in the flow engine tells how
// many are to come; such runs take as long as the probes at the most. The estimate
// is good to a factor of two or so and no better; of a run that the probe sees to
// its end it is exact, but for the noise of the machine.
func (p *Plan) Estimate(ctx context.Context, budget time.Duration) ([]Cost, error) {
	costs, err := p.Describe(ctx)
	if err != nil {
		return nil, err
	}
	var sound []int
	for i := range costs {
		if costs[i].Error == nil {
			sound = append(sound, i)
		}
	}
	if len(sound) == 0 {
		return costs, nil
	}
	probes := spread(sound, maxProbes)
	g := guides{left: budget, known: map[string]guide{}}
	for _, point := range probes {
		if err := p.probe(ctx, &costs[point], budget/time.Duration(len(probes)), &g); err != nil {
			return nil, err
		}
	}
	for _, point := range sound {
		if costs[point].Basis == "" {
			costs[point].infer(&costs[nearest(probes, point)])
		}
	}
	return costs, nil
}

// spread takes at most n of the items, the first and the last among them.
func spread(items []int, n int) []int {
	if len(items) <= n {
		return items
	}
	some := make([]int, n)
	for i := range some {
		some[i] = items[i*(len(items)-1)/(n-1)]
	}
	return some
}

// nearest finds the number closest to x, the first of two.
func nearest(numbers []int, x int) int {
	best := numbers[0]
	for _, n := range numbers {
		if max(n-x, x-n) < max(best-x, x-best) {
			best = n
		}
	}
	return best
}

// infer takes the cost of another point.
func (c *Cost) infer(from *Cost) {
	c.Seconds, c.Basis = from.Seconds, CostInferred
	if from.Basis == CostUnknown {
		c.Basis = CostUnknown
	}
	if c.Requests > 0 && from.Requests > 0 {
		c.Seconds *= float64(c.Requests) / float64(from.Requests)
	}
}

// A moment is how much of a run was done when, and which instant it simulated.
type moment struct {
	wall time.Duration
	done float64
	now  float64 // in seconds
}

// probe runs the beginning of a point.
func (p *Plan) probe(ctx context.Context, c *Cost, budget time.Duration, g *guides) error {
	started := time.Now()
	s, err := p.Scenario(c.Point)
	if err != nil {
		return err
	}
	b, err := experiment.BuildWith(s, &g.traces)
	if err != nil {
		return err
	}
	built := time.Since(started)
	within, stop := context.WithTimeout(ctx, budget)
	defer stop()
	var seen []moment
	_, err = b.Run(within, func(q experiment.Progress) {
		seen = append(seen, moment{time.Since(started), share(s, q), q.Now.Seconds()})
	})
	switch {
	case err == nil:
		c.Seconds, c.Basis = time.Since(started).Seconds(), CostMeasured
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		g.of(ctx, s).judge(seen)
		c.extend(seen, built)
	default:
		c.Error = err // the run itself fails
	}
	return nil
}

// share is how much of a run is done, as far as can be known.
func share(s *scenarios.Scenario, q experiment.Progress) float64 {
	done := 0.
	switch {
	case q.Total > 0 && q.Arrived < q.Total:
		done = float64(q.Arrived) / float64(q.Total)
	case q.Total > 0:
		done = float64(q.Finished+q.Rejected) / float64(q.Total)
	case s.Workload.Duration > 0:
		done = q.Now.Seconds() / s.Workload.Duration.Seconds()
	}
	if s.Run.Until > 0 {
		done = max(done, q.Now.Seconds()/s.Run.Until.Seconds())
	}
	return min(done, 1)
}

// leastShare is the least part of a run that says anything about the rest.
const leastShare = 1e-5

// extend extends the second half of a probe to the whole run.
func (c *Cost) extend(seen []moment, built time.Duration) {
	c.Basis = CostUnknown
	if len(seen) == 0 {
		return
	}
	last := seen[len(seen)-1]
	c.Seconds = last.wall.Seconds()
	half := built + (last.wall-built)/2
	from := moment{wall: built}
	for _, m := range seen {
		if m.wall > half {
			break
		}
		from = m
	}
	pace := (last.done - from.done) / (last.wall - from.wall).Seconds()
	if last.done-from.done < leastShare || last.wall <= from.wall {
		return
	}
	c.Seconds += (1 - last.done) / pace
	c.Basis = CostProbed
}
