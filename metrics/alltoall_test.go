package metrics_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/metrics"
	"github.com/tgssim/tgssim/serving"
	"github.com/tgssim/tgssim/sim"
)

// Bandwidths by hand: 40 dispatches of 100 us on eight GPUs that move 8 MB each
// over all of them are 1 MB per GPU in 100 us, 10 GB/s.
func TestAllToAlls(t *testing.T) {
	m := measure(t, clockwork(), metrics.DefaultConfig(), both(busy(20, 0, 20), func(a *metrics.Account) {
		u := &a.Pools[1]
		u.Instances = 1
		u.Volume.Dispatch = serving.Volume{Runs: 40, Time: 4 * sim.Millisecond, Logical: 40 * 8e6, NVLink: 40 * 2e6, Network: 40 * 4e6}
		u.Volume.Combine = serving.Volume{Runs: 40, Time: 8 * sim.Millisecond, Logical: 40 * 16e6}
		u.Experts = serving.ExpertUsage{
			Draws: 4, SumBusiest: 6, MaxBusiest: 2.5, Chosen: 900, Dropped: 100, Rebalances: 3, MovedBytes: 7,
		}
	})).Summary
	require.Nil(t, m.AllToAllPrefill)
	require.Nil(t, m.ExpertLoadPrefill)
	require.Equal(t, metrics.AllToAllDecode{
		DispatchTime: 100, DispatchLogical: 1e6, DispatchNVLink: 0.25e6, DispatchNetwork: 0.5e6,
		DispatchLogicalRate: 10, DispatchNVLinkRate: 2.5, DispatchNetworkRate: 5,
		CombineTime: 200, CombineLogical: 2e6, CombineLogicalRate: 10,
	}, *m.AllToAllDecode)
	require.Equal(t, metrics.ExpertLoadDecode{
		Busiest: 1.5, MaxBusiest: 2.5, Dropped: 0.1, Rebalances: 3, MovedBytes: 7,
	}, *m.ExpertLoadDecode)
}
