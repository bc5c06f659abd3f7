package sweep

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A run to come costs what the most similar one did, by the requests; so a sweep
// that grows is not taken for nearly done when its small points are.
func TestForecast(t *testing.T) {
	p := plan(t, "", Request{Axes: []string{"workload.requests=10,20,40", "network.engine=packet,ideal"}, Replications: 2})
	var todo []int
	for run := range p.Runs() {
		todo = append(todo, run)
	}
	f := newForecast(p, todo)
	require.Zero(t, f.remaining(2, nil), "nothing is known")
	done := func(point int, seconds float64, failure string) {
		f.finished(&Outcome{Point: point, WallS: seconds, Error: failure})
	}
	done(0, 0, "failed")
	require.Zero(t, f.remaining(2, nil), "a failure says nothing")
	done(0, 10, "")
	s, ok := f.seconds(4)
	require.True(t, ok)
	require.Equal(t, 40., s, "the same engine, four times the requests")
	done(1, 1, "")
	done(1, 3, "")
	s, _ = f.seconds(5)
	require.Equal(t, 8., s)
	// Left: 2 x 20 s, 2 x 4 s, 2 x 40 s, 2 x 8 s.
	require.Equal(t, 72*time.Second, f.remaining(2, nil))
	require.Equal(t, 52*time.Second, f.remaining(2, map[int]float64{4: 1}))
	require.Equal(t, 40*time.Second, f.remaining(100, nil), "no sooner than the longest run")
	for _, point := range []int{2, 2, 3, 3, 4, 5, 5} {
		done(point, 5, "")
	}
	require.InDelta(t, time.Second, f.remaining(2, map[int]float64{4: 0.8}), 2)
	done(4, 5, "")
	require.Zero(t, f.remaining(2, nil))
}
