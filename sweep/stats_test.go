package sweep

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The half-width is t times the standard error, with t from a printed table of
// Student's distribution (two-sided, 95 %).
func TestMeanOf(t *testing.T) {
	for n, quantile := range map[int]float64{2: 12.706, 3: 4.303, 5: 2.776, 10: 2.262, 31: 2.042, 121: 1.980} {
		values := make([]float64, n) // -1, 1, -1, 1 ... around 7
		sum := 0.
		for i := range values {
			values[i] = 7 + float64(1-2*(i%2))
			sum += values[i]
		}
		mean := sum / float64(n)
		square := 0.
		for _, v := range values {
			square += (v - mean) * (v - mean)
		}
		m := MeanOf(values)
		require.Equal(t, n, m.N)
		require.InDelta(t, mean, m.Mean, 1e-12)
		// half^2 = t^2 s^2/n
		require.InEpsilon(t, quantile*quantile*square/float64(n-1)/float64(n), m.Half*m.Half, 1e-3, "n %d", n)
	}
	require.Equal(t, Mean{N: 1, Mean: 3}, MeanOf([]float64{3}))
	require.Equal(t, Mean{}, MeanOf(nil))
	require.Equal(t, Mean{N: 3, Mean: 2}, MeanOf([]float64{2, 2, 2}))
}

func TestSpreadAndNearest(t *testing.T) {
	items := make([]int, 100)
	for i := range items {
		items[i] = 3 * i
	}
	some := spread(items, 16)
	require.Len(t, some, 16)
	require.Equal(t, 0, some[0])
	require.Equal(t, 297, some[15])
	for i := 1; i < len(some); i++ {
		require.InDelta(t, 297./15, float64(some[i]-some[i-1]), 3)
	}
	require.Equal(t, items[:5], spread(items[:5], 16))
	require.Equal(t, 3, nearest([]int{0, 3, 9}, 5))
	require.Equal(t, 9, nearest([]int{0, 3, 9}, 7))
	require.Equal(t, 3, nearest([]int{0, 3, 9}, 6), "the first of two")
}

// A probe is extended at the pace of its second half: after 1 s of building, a
// run that speeds up from 1 %/s to 3 %/s half-way through 8 s has 84 % to go.
func TestExtend(t *testing.T) {
	var seen []moment
	for i := 1; i <= 80; i++ {
		wall := time.Second + time.Duration(i)*100*time.Millisecond
		done := 0.001 * float64(i)
		if i > 40 {
			done = 0.04 + 0.003*float64(i-40)
		}
		seen = append(seen, moment{wall: wall, done: done})
	}
	var c Cost
	c.extend(seen, time.Second)
	require.Equal(t, CostProbed, c.Basis)
	require.InDelta(t, 9+0.84/0.03, c.Seconds, 1e-6)

	c = Cost{}
	c.extend([]moment{{wall: 2 * time.Second}}, time.Second)
	require.Equal(t, CostUnknown, c.Basis, "nothing happened")
	c.extend(nil, time.Second)
	require.Equal(t, CostUnknown, c.Basis)

	from := Cost{Seconds: 10, Basis: CostProbed, Requests: 100}
	c = Cost{Requests: 300}
	c.infer(&from)
	require.Equal(t, CostInferred, c.Basis)
	require.InDelta(t, 30, c.Seconds, 1e-12)
}

// What a dry run says is built is what the sweep builds; a probe that ends is
// measured; what cannot be built has its reason.
func TestEstimate(t *testing.T) {
	p := plan(t, "sweep: {axes: {cluster.spines: [1, 7], kv.qps: [1, 2]}}\n", Request{})
	costs, err := p.Estimate(context.Background(), time.Minute)
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "s")
	require.Equal(t, 2, do(t, p, dir, false, Options{}))
	f, err := p.Open(dir, testVersion, true)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Rows(func(r Row) error {
		c := costs[r.Point]
		require.Equal(t, r.Error == "", c.Error == nil)
		require.Equal(t, r.Cluster, c.Cluster)
		if c.Error == nil {
			require.Equal(t, CostMeasured, c.Basis)
			require.Positive(t, c.Seconds)
			require.Equal(t, 12, c.Requests)
		} else {
			require.Equal(t, r.Error, c.Error.Error())
		}
		return nil
	}))

	ctx, stop := context.WithCancel(context.Background())
	stop()
	_, err = p.Estimate(ctx, time.Minute)
	require.ErrorIs(t, err, context.Canceled)

	// A run that is much longer than its probe is extended.
	p = plan(t, "", Request{Axes: []string{"kv.qps=1"}, Replications: 1, Set: []string{"workload.requests=3000000", "workload.arrivals.rate=20/s"}})
	costs, err = p.Estimate(context.Background(), 200*time.Millisecond)
	require.NoError(t, err)
	require.Equal(t, CostProbed, costs[0].Basis)
	require.Greater(t, costs[0].Seconds, 1.)
}

// BenchmarkOverhead is what a sweep costs beside its runs: planning, building,
// journal and results, per run of a scenario that has one request of one token.
func BenchmarkOverhead(b *testing.B) {
	name := file(b, "")
	for _, c := range []struct {
		label string
		r     Request
	}{
		{"points", Request{Axes: []string{"kv.block_tokens=16..115"}}},
		{"replications", Request{Replications: 100}},
	} {
		c.r.Set = []string{"workload.requests=1", "workload.output={dist: fixed, tokens: 1}"}
		b.Run(c.label, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				p, err := New(name, c.r)
				require.NoError(b, err)
				require.Zero(b, do(b, p, filepath.Join(b.TempDir(), "s"), false, Options{Workers: 1}))
			}
			b.ReportMetric(b.Elapsed().Seconds()*1e3/float64(100*b.N), "ms/run")
		})
	}
}
