package experiment

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/serving"
)

// A combine in two halves carries what a whole one does and is as often, whatever the
// engine, the tokens of a rank (odd, one, none) and what gives their experts; and it
// makes no step longer.
func TestHalvesOfACombineAreWhole(t *testing.T) {
	for _, engine := range []string{"flow", "ideal", "packet"} {
		for _, c := range []struct{ name, requests, set string }{
			{"odd", "37", "decode.moe.mode=low_latency"},
			{"one token", "1", "decode.moe.mode=low_latency"},
			{"one or none", "5", "decode.moe.mode=low_latency"},
			{"drafts", "9", "decode.mtp={query_tokens: 3, acceptance: 1}"},
			{"exact", "19", "decode.moe.routing={counts: exact, sample_layers: 0, popularity: {kind: zipf, alpha: 0.5}}"},
			{"expected", "19", "decode.moe.routing={counts: expected}"},
			{"measured", "19", "decode.moe={timing: measured, measured_dispatch: {fixed: 26us, per_token: 1us}, measured_combine: {fixed: 24us, per_token: 2us}}"},
			{"one server", "19", "decode.dp=4"},
		} {
			t.Run(engine+" "+c.name, func(t *testing.T) {
				run := func(overlap string) (u serving.PoolUsage, itl float64) {
					_, r := tinyRun(t, "moe", "decode.overlap="+overlap, "network.engine="+engine, "network.sample_layers=2",
						"workload.requests="+c.requests, "workload.arrivals={process: at_once}",
						"workload.prompt={dist: fixed, tokens: 16}", "workload.output={dist: fixed, tokens: 4}", c.set)
					return r.Pools[1].Usage, *r.Summary.MaxITL
				}
				whole, longest := run(serving.OverlapShared)
				halves, longestHalves := run(serving.OverlapSingle)
				require.Positive(t, whole.Volume.Combine.Runs)
				require.Equal(t, whole.Steps, halves.Steps)
				require.Equal(t, whole.Volume.Dispatch.Runs, halves.Volume.Dispatch.Runs)
				require.Equal(t, whole.Volume.Combine.Runs, halves.Volume.Combine.Runs)
				require.Equal(t, whole.Volume.Dispatch.Network, halves.Volume.Dispatch.Network)
				rounding := float64(2 * whole.Volume.Combine.Runs) // each run's bytes are rounded down
				require.InDelta(t, whole.Volume.Combine.Logical, halves.Volume.Combine.Logical, rounding)
				require.InDelta(t, whole.Volume.Combine.Network, halves.Volume.Combine.Network, rounding)
				require.InDelta(t, whole.Volume.Combine.NVLink, halves.Volume.Combine.NVLink, rounding)
				require.LessOrEqual(t, longestHalves, longest)
			})
		}
	}
}
