package experts_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/collective"
	"github.com/tgssim/tgssim/experts"
)

// TestHitUniformIsCollectiveHit: the closed form is that of package collective for
// consecutive experts.
func TestHitUniformIsCollectiveHit(t *testing.T) {
	for _, s := range []experts.Shape{
		{Experts: 256, TopK: 8, Groups: 8, TopGroups: 4}, {Experts: 128, TopK: 8}, {Experts: 8, TopK: 2},
		{Experts: 60, TopK: 4, Groups: 6, TopGroups: 2},
	} {
		e := collective.Experts{Count: s.Experts, TopK: s.TopK, Groups: s.Groups, GroupLimit: s.TopGroups}
		for _, held := range []int{1, 2, 3, 8, 10, 33, 60, s.Experts} {
			for first := 0; first+held <= s.Experts; first += 7 {
				require.InDelta(t, e.Hit(first, held), experts.HitOf(s, first, held), 1e-12, "%+v %d %d", s, first, held)
			}
		}
	}
}
