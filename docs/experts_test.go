package docs

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/collective"
	"github.com/tgssim/tgssim/experts"
	"github.com/tgssim/tgssim/serving"
	"github.com/tgssim/tgssim/topology"
)

// TestExpertsTables regenerates docs/experts.md.
func TestExpertsTables(t *testing.T) {
	check(t, "experts.md", []table{{"modes", false, modesTable}})
}

// modesTable is what a dispatch and a combine of 128 tokens of each GPU move.
func modesTable(t *testing.T) string {
	r := newRows("GPUs", "mode", "dispatch: logical", "NVLink", "network", "combine: logical", "NVLink", "network")
	for _, gpus := range []int{8, 32, 128} {
		c := topology.DefaultConfig()
		c.Nodes, c.Leaves, c.Spines = gpus/8, gpus/8, 8
		if c.Nodes == 1 {
			c.Spines = 0
		}
		place := collective.Placement{Graph: graph(t, c)}
		for g := range gpus {
			place.Ranks = append(place.Ranks, []topology.GPU{topology.GPU(g)})
		}
		for _, mode := range []string{collective.ModeLowLatency, collective.ModeNormal, collective.ModeAllGather} {
			cells := []string{fmt.Sprint(gpus), mode}
			for _, kind := range []collective.Kind{collective.KindDispatch, collective.KindCombine} {
				cfg := collective.DefaultDecode()
				cfg.Mode = mode
				op, err := collective.NewOperation(kind, cfg,
					collective.Experts{Count: 256, TopK: 8, Groups: 8, GroupLimit: 4, Hidden: 7168}, place)
				require.NoError(t, err)
				v := op.Of(slices.Repeat([]int64{128}, gpus))
				for _, milli := range []int64{v.Logical, v.NVLink, v.Network} {
					cells = append(cells, num(float64(milli)/float64(gpus)/1e9, 2))
				}
			}
			r.row(cells...)
		}
	}
	return r.String()
}

// The page names every value of its keys.
func TestExpertsPageIsComplete(t *testing.T) {
	text, err := os.ReadFile("experts.md")
	require.NoError(t, err)
	for _, values := range [][]string{
		collective.Modes, serving.Overlaps, experts.Counts, experts.Choices, experts.GroupChoices, experts.Strategies, experts.CopyChoices,
	} {
		for _, v := range values {
			require.Contains(t, string(text), "`"+v+"`")
		}
	}
	for _, kind := range experts.Popularities {
		require.Contains(t, string(text), "{kind: "+kind)
	}
}
