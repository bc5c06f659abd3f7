package experiment

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/sim"
)

// A trace is read once for all simulations that replay it, at whatever speed, and
// forgotten when others have been asked for since; the runs are those of
// simulations that read it themselves.
func TestTracesAreShared(t *testing.T) {
	one := writeTrace(t, "2024-06-01 09:00:00.0,500,3\n2024-06-01 09:00:01.0,700,3\n")
	two := writeTrace(t, "2024-06-01 09:00:00.0,800,3\n")
	build := func(traces *Traces, set ...string) (*Result, error) {
		s := load(t, tiny["trace"][0], append(append([]string(nil), tiny["trace"][1:]...), set...)...)
		b, err := BuildWith(s, traces)
		if err != nil {
			return nil, err
		}
		return b.Run(context.Background(), nil)
	}
	var traces Traces
	first, err := build(&traces, "workload.trace.path="+one)
	require.NoError(t, err)
	alone, err := build(&Traces{}, "workload.trace.path="+one, "workload.trace.speedup=2")
	require.NoError(t, err)
	require.Len(t, first.Inputs, 1)
	require.NotZero(t, first.Inputs[0].Bytes)
	require.NoError(t, os.Remove(one))

	again, err := build(&traces, "workload.trace.path="+one)
	require.NoError(t, err, "it is kept")
	require.Equal(t, first.Fingerprint, again.Fingerprint)
	require.Equal(t, first.Inputs, again.Inputs)
	fast, err := build(&traces, "workload.trace.path="+one, "workload.trace.speedup=2")
	require.NoError(t, err, "at another speed")
	require.Equal(t, alone.Fingerprint, fast.Fingerprint)
	_, err = build(&traces, "workload.trace.path="+one, "workload.trace.zero_lengths=one")
	require.ErrorContains(t, err, "cannot read "+one, "read in another way it is another trace")

	_, err = build(&traces, "workload.trace.path="+two)
	require.NoError(t, err)
	_, err = build(&traces, "workload.trace.path="+one)
	require.ErrorContains(t, err, "cannot read "+one, "only the last one is kept")
}

// Looks come some milliseconds apart: slices shrink where much happens, grow where
// little does, and jump over idle stretches.
func TestNextSlice(t *testing.T) {
	require.Equal(t, 2*firstSlice, nextSlice(firstSlice, 10))
	require.Equal(t, firstSlice, nextSlice(firstSlice, manyEvents))
	require.Equal(t, firstSlice/2, nextSlice(firstSlice, manyEvents+1))
	require.Equal(t, longSlice, nextSlice(longSlice, 10))
	require.Equal(t, 2*longSlice, nextSlice(longSlice, 0))
	require.Equal(t, longSlice, nextSlice(1000*longSlice, 10), "after an idle stretch")
	require.Equal(t, shortSlice, nextSlice(shortSlice, 1<<40))
	require.Equal(t, sim.Never/4, nextSlice(sim.Never/4, 0))
}
