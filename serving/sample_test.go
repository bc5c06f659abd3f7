package serving

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/sim"
)

var programs = []*program{&programSequential, &programShared, &programSingle, &programTwoBatchPrefill, &programTwoBatchDecode}

// A sampledStep is one step with a network of its own.
type sampledStep struct {
	stepper
	end sim.Time
	net *fakeNetwork
}

// jitter makes a collective's runs take different times.
type jitter struct {
	*fakeCollective
	draw func() sim.Time
}

func (j jitter) Start(startup sim.Time, tag uint64, to fabric.Receiver) {
	j.fakeCollective.Start(startup+j.draw(), tag, to)
}

// newStep prepares a step over a copy of net; draw, when not nil, is added to
// every run of a collective.
func newStep(w work, net fakeNetwork, draw func() sim.Time) (*sim.Engine, *sampledStep) {
	e := sim.New()
	net.engine, net.handler = e, e.Register(&net)
	s := &sampledStep{end: -1, net: &net}
	net.handler = e.Register(&net)
	s.stepper.engine = e
	s.stepper.done = func() { s.end = e.Now() }
	s.stepper.handler = e.Register(handlerFunc(func(ev sim.Event) {
		switch ev.Kind {
		case kindPhaseDone:
			s.phaseDone()
		case kindComputeDone:
			s.opDone(streamCompute)
		case kindCommDone:
			s.opDone(streamComm)
		case kindSkipDone:
			s.skipDone()
		}
	}))
	for b := range 2 {
		d := &fakeCollective{n: &net, ranks: 1, most: int64(1 + b)}
		c := &fakeCollective{n: &net, ranks: 1, most: int64(2 + b), combine: true}
		w.dispatch[b], w.combine[b] = &allToAll{Collective: d}, &allToAll{Collective: c}
		if draw != nil {
			w.dispatch[b], w.combine[b] = &allToAll{Collective: jitter{d, draw}}, &allToAll{Collective: jitter{c, draw}}
		}
	}
	s.begin(w)
	return e, s
}

func runStep(t require.TestingT, w work, net fakeNetwork, draw func() sim.Time) *sampledStep {
	e, s := newStep(w, net, draw)
	e.RunUntil(sim.Never - 1)
	require.GreaterOrEqual(t, s.end, sim.Time(0), "the step never ended")
	a := &s.acct
	require.Equal(t, s.end, a.Compute+a.comm(), "the account tiles the step")
	require.Equal(t, len(w.program.ops[streamComm])*w.layers, s.net.runs, "every layer of every batch dispatches and combines")
	for _, x := range []sim.Time{a.Dispatch, a.Combine, a.Startup, a.Latency, a.Ports, a.Paths, a.Contention} {
		require.GreaterOrEqual(t, x, sim.Time(0))
	}
	return s
}

// drawWork is a step of random times, with layers before and after the MoE ones.
func drawWork(t *rapid.T, p *program) (w work, net fakeNetwork) {
	ps := func(name string, most int64) sim.Time { return sim.Time(rapid.Int64Range(0, most).Draw(t, name)) }
	span := func(name string) cost {
		c := cost{slowest: ps(name, 1e9), allReduce: ps(name+" all-reduce", 3) * ps(name+" all-reduce", 1e7)}
		c.total = c.slowest * 3
		return c
	}
	w = work{
		program: p, layers: rapid.IntRange(1, 30).Draw(t, "layers"),
		prologue: span("prologue"), epilogue: span("epilogue"),
		dispatchStartup: ps("dispatch startup", 1e8), combineStartup: ps("combine startup", 1e8),
		stretchMilli: rapid.Int64Range(1000, 1500).Draw(t, "stretch"),
	}
	for b := range p.batches {
		for part := range partDispatch {
			w.parts[b][part] = span(fmt.Sprint("part ", part))
		}
	}
	net = fakeNetwork{
		dispatch: ps("dispatch", 1e9), combine: ps("combine", 1e9), perUnit: ps("unit", 1e8),
		paths: ps("paths", 1e8), contention: ps("contention", 1e8),
	}
	return w, net
}

// A fabric that takes the same time for every layer has nothing that sampling
// could miss: the step and its whole account are those of the full step, to the
// picosecond, whatever the number of samples.
func TestSampledStepIsExact(t *testing.T) {
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				w, net := drawWork(t, p)
				want := runStep(t, w, net, nil)
				require.Zero(t, want.net.repeated)
				for k := 1; k <= w.layers+1; k++ {
					w.sample = k
					got := runStep(t, w, net, nil)
					require.Equal(t, want.end, got.end, "%d of %d layers", k, w.layers)
					require.Equal(t, want.acct, got.acct, "%d of %d layers", k, w.layers)
					least := max(k, 1+2*p.maxLag)
					require.Equal(t, len(p.ops[streamComm])*max(0, w.layers-least), got.net.repeated, "%d of %d layers", k, w.layers)
					var x Sampling
					x.add(&got.stepper, got.end)
					step, mean := x.Errors()
					require.Zero(t, step+mean, "nothing varied")
				}
			})
		})
	}
}

// What the exactness rests on: no compute operation of an iteration begins
// before the last communication of the iteration before has ended, and when that
// has, all compute operations before the iteration have.
func TestIterationsMeet(t *testing.T) {
	for _, p := range programs {
		last := len(p.ops[streamComm]) - 1
		require.Equal(t, op{part: partAttnIn, batch: p.ops[streamCompute][0].batch, after: []dep{{streamComm, last, 1}}},
			p.ops[streamCompute][0], p.name)
		end := p.ops[streamComm][last]
		require.Zero(t, end.lag, p.name)
		require.True(t, slices.ContainsFunc(end.after, func(d dep) bool { return d.on == streamCompute && d.back == 0 }), p.name)
	}
}

// drawProgram is any program that cannot get stuck: operations wait for earlier
// ones in one order of both streams, or for any of the iteration before.
func drawProgram(t *rapid.T) *program {
	p := &program{name: "random", batches: rapid.IntRange(1, 2).Draw(t, "batches")}
	p.maxLag = rapid.IntRange(0, p.batches-1).Draw(t, "lag")
	type place struct {
		on stream
		op op
	}
	var all []place
	for b := range uint8(p.batches) {
		for part := range numParts {
			on := streamCompute
			if part >= partDispatch {
				on = streamComm
			}
			o := op{part: part, batch: b, lag: uint8(rapid.IntRange(0, p.maxLag).Draw(t, "lag of op"))}
			all = append(all, place{on, o})
		}
	}
	all = rapid.Permutation(all).Draw(t, "order")
	i := slices.IndexFunc(all, func(x place) bool { return x.on == streamCompute })
	all[0], all[i] = all[i], all[0]
	before := 0 // compute operations before the last communication
	for i := range all {
		x := &all[i]
		for range rapid.IntRange(0, 2).Draw(t, "dependencies") {
			d := dep{on: stream(rapid.IntRange(0, 1).Draw(t, "on")), back: rapid.IntRange(0, 1).Draw(t, "back")}
			have := len(p.ops[d.on])
			if d.back == 1 {
				have = p.batches * []int{4, 2}[d.on]
			}
			if have == 0 {
				continue
			}
			d.op = rapid.IntRange(0, have-1).Draw(t, "of op")
			x.op.after = append(x.op.after, d)
		}
		p.ops[x.on] = append(p.ops[x.on], x.op)
		if x.on == streamComm {
			before = len(p.ops[streamCompute])
		}
	}
	last := len(p.ops[streamComm]) - 1
	end := &p.ops[streamComm][last]
	end.lag = 0
	end.after = append(end.after, dep{streamCompute, rapid.IntRange(0, before-1).Draw(t, "last waits for"), 0})
	p.ops[streamCompute][0].after = []dep{{streamComm, last, 1}}
	return p
}

// Whatever the program and however the fabric varies, the account tiles the step,
// every layer computes and communicates, and the same step gives the same result.
func TestSampledStepTiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProgram(t)
		w, net := drawWork(t, p)
		jitters := rapid.SliceOfN(rapid.Int64Range(0, 1e9), 1, 20).Draw(t, "jitter")
		source := func() func() sim.Time {
			i := 0
			return func() sim.Time { i++; return sim.Time(jitters[i%len(jitters)]) }
		}
		full := runStep(t, w, net, source())
		w.sample = rapid.IntRange(1, w.layers).Draw(t, "sample")
		got := runStep(t, w, net, source())
		require.Equal(t, full.acct.Compute, got.acct.Compute)
		require.Equal(t, full.acct.ComputeTotal, got.acct.ComputeTotal)
		require.Equal(t, full.acct.AllReduce, got.acct.AllReduce)
		require.Equal(t, got.acct, runStep(t, w, net, source()).acct)
	})
}

// A step that the end of the run cuts short has waited no longer than it lasted,
// also in the middle of a skip, and has sent no more than there are layers.
func TestSampledStepCutShort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, net := drawWork(t, rapid.SampledFrom(programs).Draw(t, "program"))
		full := runStep(t, w, net, nil)
		w.sample = rapid.IntRange(1, 4).Draw(t, "sample")
		cut := sim.Time(rapid.Int64Range(0, int64(full.end)).Draw(t, "cut"))
		var at [2]*sampledStep
		for i, k := range []int{0, w.sample} {
			w.sample = k
			e, s := newStep(w, net, nil)
			e.RunUntil(cut)
			s.cutShort(cut)
			require.LessOrEqual(t, s.acct.Dispatch+s.acct.Combine, cut)
			require.LessOrEqual(t, s.net.runs, full.net.runs)
			at[i] = s
		}
		// An iteration is the grain of what is booked of a skip.
		require.InDelta(t, at[0].net.runs, at[1].net.runs, float64(2*len(w.program.ops[streamComm])))
	})
}

// Where the fabric's time varies from layer to layer, the extrapolated step is
// off, and the error that is reported is of the size of the true one: over many
// steps of independent jitter their variances agree within a fifth.
func TestSamplingReportsItsError(t *testing.T) {
	source := rand.New(rand.NewPCG(1, 2))
	draw := func() sim.Time { return sim.Time(source.Int64N(60_000)) * sim.Nanosecond }
	w := work{program: &programSequential, layers: 58, stretchMilli: 1000}
	w.parts[0][partAttnIn] = cost{slowest: 100 * us, total: 100 * us}
	net := fakeNetwork{dispatch: 50 * us, combine: 50 * us}
	for _, k := range []int{4, 8, 16} {
		w.sample = 0
		var x Sampling
		var off, offMean, length float64
		const steps = 2000
		for range steps {
			w.sample = 0
			full := runStep(t, w, net, draw)
			w.sample = k
			got := runStep(t, w, net, draw)
			x.add(&got.stepper, got.end)
			d := float64(got.end - full.end)
			off += d * d
			offMean += d
			length += float64(got.end)
		}
		require.EqualValues(t, steps, x.Judged)
		require.EqualValues(t, steps*58, x.Layers)
		require.GreaterOrEqual(t, x.Simulated, int64(steps*k))
		require.Less(t, x.Simulated, int64(steps*k)*3/2)
		step, mean := x.Errors()
		require.Positive(t, mean)
		require.InEpsilon(t, step, mean*44.72, 0.01)
		// The two steps differ by the k simulated layers of each as well, of which
		// the measured ones are in the extrapolated step once more than is skipped.
		s2 := 2 * 60_000. * 60_000 / 12 * 1e6 // of a layer: two draws of a uniform distribution, in ps^2
		want := off/steps - 2*float64(k)*s2 - 2*float64(58-k)*s2
		require.InEpsilon(t, want, step*step*length*length/steps/steps, 0.2, "%d samples", k)
		// Layers that vary at random come out too short by at most (sd/mean)^2.
		require.InDelta(t, 0, offMean/length, 4*mean+s2/260_000/260_000/1e6, "%d samples: bias", k)
	}
}

// What holds up the fabric for a time, as a KV transfer does, holds up the sampled
// step in the mean as long as the full one: bursts of 4 ms in which a collective
// takes five times as long, a few times in a step of 15 ms or more.
func TestSampledBursts(t *testing.T) {
	source := rand.New(rand.NewPCG(1, 2))
	w := work{program: &programSequential, layers: 58, stretchMilli: 1000}
	w.parts[0][partAttnIn] = cost{slowest: 100 * us, total: 100 * us}
	mean := func(k int) (sum float64) {
		w.sample = k
		for range 1000 {
			var e *sim.Engine
			phase := sim.Time(source.Int64N(int64(20 * sim.Millisecond)))
			var s *sampledStep
			e, s = newStep(w, fakeNetwork{dispatch: 50 * us, combine: 50 * us}, func() sim.Time {
				if (e.Now()+phase)%(20*sim.Millisecond) < 4*sim.Millisecond {
					return 200 * us
				}
				return 0
			})
			e.RunUntil(sim.Second)
			sum += float64(s.end)
		}
		return sum
	}
	full := mean(0)
	require.Greater(t, full, 1000*58*200e6*1.05)
	require.InEpsilon(t, full, mean(8), 0.01)
	require.InEpsilon(t, full, mean(16), 0.01)
}

// With fewer than two samples nothing is claimed about the error.
func TestSamplingErrorUnknown(t *testing.T) {
	w := work{program: &programShared, layers: 20, sample: 1, stretchMilli: 1000}
	s := runStep(t, w, fakeNetwork{dispatch: us, combine: us}, nil)
	var x Sampling
	x.add(&s.stepper, s.end)
	require.EqualValues(t, 1, x.Steps)
	require.Zero(t, x.Judged)
	step, mean := x.Errors()
	require.Zero(t, step+mean)
}

// The samples are spread evenly over the step, and with what comes before and
// after them are as many as asked for.
func TestSamplePlan(t *testing.T) {
	for layers := 1; layers < 70; layers++ {
		for k := 0; k <= layers+1; k++ {
			for _, p := range programs {
				plan := planSample(p, layers, k)
				want := max(k, 1+2*p.maxLag)
				if k == 0 || want >= layers {
					require.Equal(t, samplePlan{}, plan)
					continue
				}
				skipped := 0
				for i := range plan.samples {
					skipped += plan.after(i)
					require.InDelta(t, float64(layers-want)/float64(plan.samples), plan.after(i), 0.999)
				}
				require.Equal(t, layers-want, skipped)
				require.Equal(t, want, plan.samples+2*plan.lag+plan.warm)
				require.GreaterOrEqual(t, plan.samples, 2*plan.warm)
				require.Equal(t, p.maxLag, plan.lag)
			}
		}
	}
	require.Equal(t, samplePlan{}, planSample(nil, 50, 4))
}
