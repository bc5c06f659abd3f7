package serving

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/sim"
)

// stepTime runs one step of the program with the given layer times.
func stepTime(t require.TestingT, p *program, layers int, in, out, shared, experts, dispatch, combine sim.Time) (sim.Time, stepAccount) {
	e := sim.New()
	n := newFakeNetwork(e)
	s := &stepper{engine: e}
	var end sim.Time = -1
	s.done = func() { end = e.Now() }
	s.handler = e.Register(handlerFunc(func(ev sim.Event) {
		switch ev.Kind {
		case kindPhaseDone:
			s.phaseDone()
		case kindComputeDone:
			s.opDone(streamCompute)
		case kindCommDone:
			s.opDone(streamComm)
		}
	}))
	n.dispatch, n.combine = 0, 0 // the start-up stands for the whole
	w := work{program: p, layers: layers, dispatchStartup: dispatch, combineStartup: combine, stretchMilli: 1000}
	for b := range 2 {
		w.dispatch[b] = &allToAll{Collective: &fakeCollective{n: n, ranks: 1, most: 1}}
		w.combine[b] = &allToAll{Collective: &fakeCollective{n: n, ranks: 1, most: 1, combine: true}}
		for part, d := range map[part]sim.Time{partAttnIn: in, partAttnOut: out, partShared: shared, partExperts: experts} {
			w.parts[b][part] = cost{slowest: d, total: d}
		}
	}
	s.begin(w)
	e.Run()
	require.GreaterOrEqual(t, end, sim.Time(0), "the step never ended")
	require.Equal(t, layers*len(p.ops[streamComm]), n.runs, "every micro-batch dispatches and combines in every layer")
	require.Equal(t, sim.Time(p.batches*layers)*(in+out+shared+experts), s.acct.Compute)
	require.Equal(t, end, s.acct.Compute+s.acct.comm(), "compute and exposed communication tile the step")
	return end, s.acct
}

type handlerFunc func(sim.Event)

func (f handlerFunc) Handle(e sim.Event) { f(e) }

var span1 = rapid.Int64Range(0, 1000)

// drawn layer times: any of them may be zero.
func drawTimes(t *rapid.T) (in, out, shared, experts, dispatch, combine sim.Time) {
	draw := func(name string) sim.Time { return sim.Time(span1.Draw(t, name)) * us }
	return draw("in"), draw("out"), draw("shared"), draw("experts"), draw("dispatch"), draw("combine")
}

func TestSequentialProgramIsTheSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in, out, shared, experts, dispatch, combine := drawTimes(t)
		layers := rapid.IntRange(1, 8).Draw(t, "layers")
		end, acct := stepTime(t, &programSequential, layers, in, out, shared, experts, dispatch, combine)
		require.Equal(t, sim.Time(layers)*(in+out+shared+experts+dispatch+combine), end)
		require.Equal(t, sim.Time(layers)*dispatch, acct.Dispatch)
		require.Equal(t, sim.Time(layers)*combine, acct.Combine)

		end, _ = stepTime(t, &programShared, layers, in, out, shared, experts, dispatch, combine)
		require.Equal(t, sim.Time(layers)*(in+out+max(shared, dispatch)+experts+combine), end)
	})
}

// Of a layer with single-batch overlap the combine hides the last sixth of the
// experts, or the other way round.
func TestSingleBatchProgram(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in, out, shared, experts, dispatch, combine := drawTimes(t)
		layers := rapid.IntRange(1, 8).Draw(t, "layers")
		end, _ := stepTime(t, &programSingle, layers, in, out, shared, experts, dispatch, combine)
		rest := experts / 6
		require.Equal(t, sim.Time(layers)*(in+out+max(shared, dispatch)+experts-rest+max(rest, combine)), end)
	})
}

// period is the steady time that one more layer takes.
func period(t require.TestingT, p *program, in, out, shared, experts, dispatch, combine sim.Time) sim.Time {
	const base, more = 40, 12
	a, _ := stepTime(t, p, base, in, out, shared, experts, dispatch, combine)
	b, _ := stepTime(t, p, base+more, in, out, shared, experts, dispatch, combine)
	return (b - a) / more
}

// The decode schedule's period in closed form: each micro-batch takes
// max(attention-in + shared, dispatch) + experts + max(attention-out, combine).
func TestTwoBatchDecodePeriod(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in, out, shared, experts, dispatch, combine := drawTimes(t)
		want := 2 * (max(in+shared, dispatch) + experts + max(out, combine))
		require.Equal(t, want, period(t, &programTwoBatchDecode, in, out, shared, experts, dispatch, combine))
	})
}

// The prefill schedule against a second implementation: the recurrence of its
// two in-order streams, written out operation by operation.
func TestTwoBatchPrefillPeriod(t *testing.T) {
	recurrence := func(a, s, m, d, c sim.Time) sim.Time {
		var compute, comm, combine1, experts0 sim.Time
		var ends []sim.Time
		for range 60 {
			compute = max(compute, combine1) + a // attention 1
			attn1 := compute
			comm = max(comm, experts0) + c // combine 0
			combine0 := comm
			compute += s // shared 0
			comm = max(comm, attn1) + d
			dispatch1 := comm
			compute = max(compute, combine0) + a // attention 0
			attn0 := compute
			compute = max(compute, dispatch1) + m // experts 1
			experts1 := compute
			comm = max(comm, attn0) + d
			dispatch0 := comm
			compute = max(compute, dispatch0) + m // experts 0
			experts0 = compute
			comm = max(comm, experts1) + c
			combine1 = comm
			compute += s // shared 1
			ends = append(ends, compute)
		}
		return (ends[59] - ends[47]) / 12
	}
	rapid.Check(t, func(t *rapid.T) {
		in, out, shared, experts, dispatch, combine := drawTimes(t)
		want := recurrence(in+out, shared, experts, dispatch, combine)
		require.Equal(t, want, period(t, &programTwoBatchPrefill, in, out, shared, experts, dispatch, combine))
	})
}

// Overlap never costs time beyond the pipeline's fill: two half batches cannot
// take longer than running everything in sequence.
func TestOverlapNeverLoses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in, out, shared, experts, dispatch, combine := drawTimes(t)
		for _, p := range []*program{&programTwoBatchPrefill, &programTwoBatchDecode} {
			end, acct := stepTime(t, p, 6, in, out, shared, experts, dispatch, combine)
			require.LessOrEqual(t, end, 2*6*(in+out+shared+experts+dispatch+combine), p.name)
			require.GreaterOrEqual(t, end, acct.Compute)
			require.GreaterOrEqual(t, end, 2*6*(dispatch+combine), "one dispatch or combine at a time")
		}
	})
}
