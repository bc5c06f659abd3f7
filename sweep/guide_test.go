package sweep

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestGuide(t *testing.T) {
	g := guide{{0.1, 0}, {0.5, 0.2}, {1, 1}}
	for done, want := range map[float64]float64{0: 0, 0.1: 0, 0.3: 0.1, 0.5: 0.2, 0.75: 0.6, 1: 1} {
		require.InDelta(t, want, g.at(done), 1e-12, "%v", done)
	}
	require.Equal(t, 1., g.at(7))

	// A probe that saw half a second of the run in 1 s, and with it 1 % of the bytes,
	// is a run of 100 s, whatever has finished.
	var c Cost
	seen := []moment{{time.Second / 2, 0, 0.25}, {time.Second, 0, 0.5}}
	guide{{0, 0}, {0.5, 0.01}, {2, 1}}.judge(seen)
	c.extend(seen, 0)
	require.InDelta(t, 100, c.Seconds, 1e-9)
	seen[1].done = 0.3
	guide(nil).judge(seen)
	require.Equal(t, 0.3, seen[1].done)
}

// The guide of a point is a run of it in the flow engine, the same one whatever the
// packets do; other engines need none.
func TestGuidesOfPoints(t *testing.T) {
	p := plan(t, "network: {engine: packet}\n", Request{Axes: []string{"congestion.algorithm=dcqcn,gse", "kv.qps=1,2"}})
	g := guides{left: time.Minute, known: map[string]guide{}}
	for point := range p.Points {
		s, err := p.Scenario(point)
		require.NoError(t, err)
		x := g.of(t.Context(), s)
		require.Greater(t, len(x), 3)
		for i := 1; i < len(x); i++ {
			require.Greater(t, x[i].now, x[i-1].now)
			require.GreaterOrEqual(t, x[i].delivered, x[i-1].delivered)
		}
		require.Equal(t, 1., x[len(x)-1].delivered)
		s.Network.Engine = "flow"
		require.Nil(t, g.of(t.Context(), s))
	}
	require.Len(t, g.known, 2, "one for each kv.qps")

	g = guides{known: map[string]guide{}} // without time
	s, err := p.Scenario(0)
	require.NoError(t, err)
	require.Empty(t, g.of(t.Context(), s))
}
