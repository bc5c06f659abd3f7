package sweep

import "time"

// A forecast tells how long the runs to come may take. A run is taken to cost what
// those of the most similar point have cost, the one with most axes alike and then
// the nearest, in proportion to the requests.
type forecast struct {
	plan     *Plan
	requests []float64 // by point; 1 where they are not known
	spent    []float64 // seconds of the runs made, by point
	made     []int     // how many they are
	left     []int     // runs to come or under way
}

// maxWeighed is the largest number of points whose requests are looked up: each is
// a scenario to be read.
const maxWeighed = 64

func newForecast(p *Plan, todo []int) *forecast {
	n := len(p.Points)
	f := &forecast{p, make([]float64, n), make([]float64, n), make([]int, n), make([]int, n)}
	for point := range f.requests {
		f.requests[point] = 1
		if n > maxWeighed {
			continue
		}
		if s, err := p.Scenario(point); err == nil && s.Workload.Requests > 0 {
			f.requests[point] = float64(s.Workload.Requests)
		}
	}
	for _, run := range todo {
		f.left[run/p.Replications]++
	}
	return f
}

// finished counts a run; one that failed says nothing about the others.
func (f *forecast) finished(o *Outcome) {
	f.left[o.Point]--
	if o.Error == "" {
		f.spent[o.Point] += o.WallS
		f.made[o.Point]++
	}
}

// seconds is what a run of a point may take; ok is false before any was made.
func (f *forecast) seconds(point int) (s float64, ok bool) {
	best, alike, distance := 0, -1, 0
	for other, made := range f.made {
		if made == 0 {
			continue
		}
		a, d := 0, max(point-other, other-point)
		for axis, v := range f.plan.Points[other] {
			if f.plan.Points[point][axis] == v {
				a++
			}
		}
		if a > alike || a == alike && d < distance {
			best, alike, distance = other, a, d
		}
	}
	if alike < 0 {
		return 0, false
	}
	return f.spent[best] / float64(f.made[best]) * f.requests[point] / f.requests[best], true
}

// remaining is how long so many workers may take for what is left, given how much of
// the runs under way is done; 0 before any run was made.
func (f *forecast) remaining(workers int, underWay map[int]float64) time.Duration {
	sum, longest := 0., 0.
	for point, n := range f.left {
		if n == 0 {
			continue
		}
		s, ok := f.seconds(point)
		if !ok {
			return 0
		}
		done := underWay[point]
		sum += s * (float64(n) - done)
		if float64(n) > done {
			longest = max(longest, s*min(1, float64(n)-done))
		}
	}
	return time.Duration(max(longest, sum/float64(workers)) * float64(time.Second))
}
