package docs

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/compute"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/serving"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
	"github.com/tgssim/tgssim/workload"
)

// fixedCost takes 1 us per prompt token and 1 ps per decode step.
type fixedCost struct{}

func (f fixedCost) Prefill(chunks []compute.Chunk) (l compute.LayerTimes) {
	for _, c := range chunks {
		l.AttnOut += sim.Time(c.Tokens) * sim.Microsecond
	}
	return l
}
func (fixedCost) Decode(int, int64, int) compute.LayerTimes   { return compute.LayerTimes{AttnIn: 1} }
func (fixedCost) Experts(bool, int64, float64) sim.Time       { return 0 }
func (fixedCost) ExpertsOf(bool, compute.ExpertLoad) sim.Time { return 0 }
func (fixedCost) ExpertBytes() units.Bytes                    { return 0 }
func (fixedCost) DenseLayers() int                            { return 1 }
func (fixedCost) MoELayers() int                              { return 0 }
func (fixedCost) Memory() compute.Memory                      { return compute.Memory{Capacity: 1 << 40, KVPerToken: 8} }

// random is n prompts of 1,000 tokens with exponential gaps.
type random struct {
	rng   *rand.Rand
	mean  float64 // ps
	at    sim.Time
	id, n int
}

func (s *random) Next() (workload.Request, bool) {
	if s.id == s.n {
		return workload.Request{}, false
	}
	s.at += sim.Time(-math.Log1p(-s.rng.Float64()) * s.mean)
	s.id++
	return workload.Request{ID: s.id - 1, Arrival: s.at, PromptTokens: 1000, OutputTokens: 1}, true
}

// prefillWait is the mean wait in microseconds at a GPU that prefills one
// request at a time, in 1 ms each.
func prefillWait(t *testing.T, rho float64, n int) float64 {
	tc := topology.DefaultConfig()
	tc.Nodes, tc.Leaves, tc.Spines = 1, 1, 0
	g := graph(t, tc)
	net := fluids(t, preset(t, "line-rate").Fabric, g, 1)
	c := serving.DefaultConfig()
	c.Prefill.HostGap, c.Decode.HostGap = 0, 0
	c.Prefill.Overlap, c.Decode.Overlap = serving.OverlapNone, serving.OverlapNone
	c.Prefill.MaxBatchTokens = 1000
	var sum sim.Time
	cluster, err := serving.New(serving.Options{
		Config: c, Engine: net.engine, Network: net, Graph: g,
		Source:  &random{rng: rand.New(rand.NewPCG(7, 11)), mean: float64(sim.Millisecond) / rho, n: n},
		Prefill: fixedCost{}, PrefillOverlap: fixedCost{}, Decode: fixedCost{},
		Hidden: 1000, KVPieces: 1, NVLinkRate: 1e12,
		Listener: serving.Listener{Request: func(r *serving.Record) { sum += r.TTFT[serving.PieceQueue] }},
	})
	require.NoError(t, err)
	net.engine.Run()
	_, finished, _ := cluster.Progress()
	require.Equal(t, n, finished)
	return sum.Microseconds() / float64(n)
}
