package serving

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/workload"
)

// poisson is a Source of n equal requests with exponential gaps.
type poisson struct {
	rng  *rand.Rand
	mean float64 // ps
	at   sim.Time
	n    int
	id   int
}

func (p *poisson) Next() (workload.Request, bool) {
	if p.id == p.n {
		return workload.Request{}, false
	}
	p.at += sim.Time(-math.Log1p(-p.rng.Float64()) * p.mean)
	p.id++
	return workload.Request{ID: p.id - 1, Arrival: p.at, PromptTokens: 1000, OutputTokens: 1}, true
}

// TestMD1 holds the prefill queue of a single GPU with fixed work per request
// to M/D/1, twice. Every single waiting time must equal Lindley's recursion
// W' = max(0, W + S - A) on the same arrivals, to the picosecond; and the mean
// must be within 2 % of Pollaczek and Khinchine's rho S / 2(1-rho). The
// recursion leaves the second no freedom but the length of the run: the busier
// the queue, the longer its memory, hence the more requests.
func TestMD1(t *testing.T) {
	const service = sim.Millisecond
	for _, c := range []struct {
		load     float64
		requests int
	}{{0.5, 200_000}, {0.8, 600_000}, {0.9, 1_200_000}} {
		if testing.Short() {
			c.requests /= 20
		}
		source := func() *poisson {
			return &poisson{rng: rand.New(rand.NewPCG(7, 11)), mean: float64(service) / c.load, n: c.requests}
		}
		mean := simulateMD1(t, source, service)
		want := c.load * float64(service) / (2 * (1 - c.load))
		t.Logf("load %.0f %%: mean wait %.2f us, M/D/1 %.2f us (%+.2f %%)",
			100*c.load, mean/1e6, want/1e6, 100*(mean/want-1))
		if !testing.Short() {
			require.InEpsilon(t, want, mean, 0.02)
		}
	}
}

// simulateMD1 returns the mean waiting time in picoseconds, having checked each
// one against the recursion.
func simulateMD1(t *testing.T, source func() *poisson, service sim.Time) float64 {
	s := newSetup(source())
	s.config.Prefill.MaxBatchTokens = 1000 // one request per step
	s.config.Prefill.Router = RouterRoundRobin
	s.prefill.perToken = service / 1000
	s.decode.fixed = 1

	reference := source()
	var last sim.Time
	var wait, sum sim.Time
	first := true
	waits := map[int]sim.Time{} // of requests not finished yet
	id := 0
	expect := func() {
		r, _ := reference.Next()
		if !first {
			wait = max(0, wait+service-(r.Arrival-last))
		}
		first, last = false, r.Arrival
		waits[id] = wait
		id++
	}
	e, c := s.build(t, Listener{Request: func(r *Record) {
		for id <= r.ID {
			expect()
		}
		if r.TTFT[PieceQueue] != waits[r.ID] {
			require.Equal(t, waits[r.ID], r.TTFT[PieceQueue], "request %d", r.ID)
		}
		delete(waits, r.ID)
		sum += r.TTFT[PieceQueue]
	}})
	e.Run()
	_, finished, _ := c.Progress()
	require.Equal(t, source().n, finished)
	return float64(sum) / float64(finished)
}
