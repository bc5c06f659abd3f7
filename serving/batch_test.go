package serving

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The peak of the decode batch is that of one rank in one step, and never above
// the limit; a prefill pool has none.
func TestPeakBatch(t *testing.T) {
	for limit, want := range map[int]int{1: 1, 2: 2, 3: 2} {
		// The first two decode together; the third comes when both are gone.
		s := newSetup(requests(at(0, 10, 2), at(0, 10, 2), at(500*ms, 10, 1)))
		s.config.Decode.MaxBatchRequests = limit
		o := s.run(t)
		require.Equal(t, limit, o.usage[1].BatchLimit)
		require.Equal(t, want, o.usage[1].PeakBatch, "limit %d", limit)
		require.Zero(t, o.usage[0].BatchLimit+o.usage[0].PeakBatch)
	}
}
