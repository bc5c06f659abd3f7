package congestion

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// A flow that was held goes on as one whose later events all come earlier by the
// time for which it was held.
func TestHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, err := NewDCQCN(DefaultConfig().DCQCN, 400*units.Gbps)
		require.NoError(t, err)
		var a, b RP
		d.Start(&a, 0)
		d.Start(&b, 0)
		now, held := sim.Time(0), sim.Time(0)
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			now += sim.Time(rapid.Int64Range(0, int64(100*sim.Microsecond)).Draw(t, "after"))
			switch rapid.IntRange(0, 2).Draw(t, "event") {
			case 0:
				d.OnCNP(&a, now)
				d.OnCNP(&b, now+held)
			case 1:
				require.Equal(t, held, d.OnSend(&b, now+held, 4178)-d.OnSend(&a, now, 4178))
			default:
				by := sim.Time(rapid.Int64Range(1, int64(50*sim.Millisecond)).Draw(t, "held"))
				held += by
				d.Hold(&b, by)
			}
			require.Equal(t, d.Rate(&a, now), d.Rate(&b, now+held))
			require.Equal(t, d.Target(&a, now), d.Target(&b, now+held))
			require.Equal(t, d.Alpha(&a, now), d.Alpha(&b, now+held))
		}
	})
}
