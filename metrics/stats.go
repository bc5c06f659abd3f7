package metrics

import (
	"math"
	"slices"

	"github.com/tgssim/tgssim/sim"
)

// Stats summarises a sample. With Count 0 the rest means nothing and is zero.
type Stats struct {
	Count int64
	Mean  float64
	// Std is the population standard deviation, numpy's default (ddof 0).
	Std                     float64
	P50, P90, P95, P99, Max float64
}

// StatsOf summarises values, which it sorts.
func StatsOf(values []float64) Stats {
	if len(values) == 0 {
		return Stats{}
	}
	slices.Sort(values)
	n := float64(len(values))
	var sum, squares float64
	for _, v := range values {
		sum += v
	}
	mean := sum / n
	for _, v := range values {
		d := v - mean
		squares += float64(d * d)
	}
	return Stats{
		Count: int64(len(values)),
		Mean:  mean,
		Std:   math.Sqrt(squares / n),
		P50:   Percentile(values, 50),
		P90:   Percentile(values, 90),
		P95:   Percentile(values, 95),
		P99:   Percentile(values, 99),
		Max:   values[len(values)-1],
	}
}

// Percentile is the p-th percentile, p from 0 to 100, of values in ascending
// order, by numpy's default rule: the rank is (n-1) p/100, and between two
// values it interpolates linearly (Hyndman and Fan 1996, type 7), with numpy's
// own arithmetic, to the last bit. It is NaN when there are no values.
func Percentile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	i, t := rank(int64(len(sorted)), p)
	return between(sorted[i], sorted[min(i+1, int64(len(sorted))-1)], t)
}

// rank is the index below the p-th percentile of n values, and how far beyond
// it the percentile lies, in [0, 1).
func rank(n int64, p float64) (int64, float64) {
	v := float64(float64(n-1) * (min(max(p, 0), 100) / 100)) // rounded: no fused v - i
	i := math.Floor(v)
	return int64(i), v - i
}

// between interpolates from a to b as numpy does: from the nearer end.
func between(a, b, t float64) float64 {
	d := b - a
	if t >= 0.5 {
		return b - float64(d*(1-t))
	}
	return a + float64(d*t)
}

// A Weighted is a value that occurs Count times in a sample.
type Weighted struct {
	Value float64
	Count int64
}

// WeightedPercentile is Percentile over the sample in which every value stands
// Count times, without writing it out. sorted is ascending by Value and has
// positive counts.
func WeightedPercentile(sorted []Weighted, p float64) float64 {
	n := countOf(sorted)
	if n == 0 {
		return math.NaN()
	}
	i, t := rank(n, p)
	var below int64
	for k, w := range sorted {
		below += w.Count
		if i >= below {
			continue
		}
		next := w.Value
		if i+1 >= below && k+1 < len(sorted) {
			next = sorted[k+1].Value
		}
		return between(w.Value, next, t)
	}
	return sorted[len(sorted)-1].Value
}

func countOf(sample []Weighted) int64 {
	var n int64
	for _, w := range sample {
		n += w.Count
	}
	return n
}

// WeightedStatsOf summarises a weighted sample, ascending by Value.
func WeightedStatsOf(sorted []Weighted) Stats {
	n := countOf(sorted)
	if n == 0 {
		return Stats{}
	}
	var sum, squares float64
	for _, w := range sorted {
		sum += float64(w.Value * float64(w.Count))
	}
	mean := sum / float64(n)
	for _, w := range sorted {
		d := w.Value - mean
		squares += float64(float64(d*d) * float64(w.Count))
	}
	return Stats{
		Count: n,
		Mean:  mean,
		Std:   math.Sqrt(squares / float64(n)),
		P50:   WeightedPercentile(sorted, 50),
		P90:   WeightedPercentile(sorted, 90),
		P95:   WeightedPercentile(sorted, 95),
		P99:   WeightedPercentile(sorted, 99),
		Max:   sorted[len(sorted)-1].Value,
	}
}

// JFI is Jain's fairness index, (sum x)^2 / (n sum x^2): 1 when all are equal,
// 1/n when one has everything (Jain, Chiu and Hawe, DEC-TR-301, 1984). It is
// NaN when there is nothing to share.
func JFI(x []float64) float64 {
	var sum, squares float64
	for _, v := range x {
		sum += v
		squares += float64(v * v)
	}
	if squares == 0 {
		return math.NaN()
	}
	return float64(sum*sum) / float64(float64(len(x))*squares)
}

// A spanSum adds spans without overflow: a million requests that wait a
// thousand seconds each are more picoseconds than an int64 holds.
type spanSum struct {
	seconds int64
	rest    sim.Time // below one second
}

func (s *spanSum) add(t sim.Time) {
	s.rest += t % sim.Second
	s.seconds += int64(t/sim.Second) + int64(s.rest/sim.Second)
	s.rest %= sim.Second
}

// in returns the sum in seconds.
func (s spanSum) in() float64 { return float64(s.seconds) + s.rest.Seconds() }

// million is the number of parts in which shares are counted.
const million = 1_000_000

// Shares splits units whole parts in proportion to weights, by largest
// remainder, so that they sum to units exactly; equal remainders go to the
// first. All are 0 when the weights are.
func Shares(weights []float64, units int) []int {
	out := make([]int, len(weights))
	var sum float64
	for _, w := range weights {
		sum += w
	}
	if sum <= 0 {
		return out
	}
	left := units
	rests := make([]float64, len(weights))
	order := make([]int, len(weights))
	for i, w := range weights {
		quota := float64(float64(w/sum) * float64(units))
		out[i] = int(quota)
		rests[i] = quota - float64(out[i])
		order[i] = i
		left -= out[i]
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case rests[a] > rests[b]:
			return -1
		case rests[a] < rests[b]:
			return 1
		}
		return 0
	})
	for k := 0; left > 0; k++ {
		out[order[k%len(order)]]++
		left--
	}
	return out
}
