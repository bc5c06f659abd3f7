package metrics

import (
	"math"

	"github.com/tgssim/tgssim/serving"
	"github.com/tgssim/tgssim/sim"
)

// How stability is measured; docs/metrics.md has the definitions. They are fixed,
// so that two runs never differ in them.
const (
	// stabilityWindow is the window over which TGS is looked at, and in which
	// arrivals are counted to find bursts.
	stabilityWindow = 100 * sim.Millisecond
	// stabilityStep is the distance between the beginnings of the windows among
	// which the worst is sought.
	stabilityStep = stabilityWindow / stepsPerWindow

	stepsPerWindow = 10
	// calmWindows is how many windows without a burst part two bursts, and give the
	// band to which the later one has to return.
	calmWindows = 10
	// recoveredWindows is how many windows in a row must be within the band.
	recoveredWindows = 3
	// maxStability bounds the memory: longer spans have no such measures. It is 11
	// hours of steady window and 4 days of run.
	maxStability = 1 << 22
)

// stability fills in how even TGS is in the steady window, and how long bursts of
// arrivals are felt.
func (x *analysis) stability() {
	x.evenness()
	x.recovery()
}

// evenness fills in the coefficient of variation and the worst window of TGS.
func (x *analysis) evenness() {
	s, steady := &x.r.Summary, x.r.Steady
	n := steady.Length() / stabilityStep
	if s.GPUs <= 0 || n > maxStability {
		return
	}
	tokens := make([]int64, n)
	add := func(at sim.Time, count int64) {
		if i := (at - steady.From) / stabilityStep; at >= steady.From && i < n {
			tokens[i] += count
		}
	}
	for i := range x.r.Requests {
		if t := x.r.Requests[i].FirstToken; t != sim.Never {
			add(t, 1)
		}
	}
	x.c.later(add)
	cv, worst, ok := evenness(tokens)
	if !ok {
		return
	}
	s.TGSVariation = num(cv)
	s.TGSWorst = perGPU(float64(worst), stabilityWindow, s.GPUs)
}

// evenness is the coefficient of variation of the tokens in successive windows,
// NaN when there are no tokens, and the fewest tokens of any window, given those
// of every step. ok is false when there are not two whole windows.
func evenness(tokens []int64) (cv float64, worst int64, ok bool) {
	windows := len(tokens) / stepsPerWindow
	if windows < 2 {
		return 0, 0, false
	}
	var sum, squares float64
	var window int64
	worst = math.MaxInt64
	for i, n := range tokens {
		window += n
		if i >= stepsPerWindow {
			window -= tokens[i-stepsPerWindow]
		}
		if i < stepsPerWindow-1 {
			continue
		}
		worst = min(worst, window)
		if (i+1)%stepsPerWindow == 0 {
			sum += float64(window)
			squares += float64(float64(window) * float64(window))
		}
	}
	n := float64(windows)
	mean := sum / n
	variance := max(0, squares/n-float64(mean*mean))
	return math.Sqrt(variance) / mean, worst, true
}

// recovery fills in the bursts and how long they are felt.
func (x *analysis) recovery() {
	s, whole := &x.r.Summary, x.r.Whole
	if whole.Length() == 0 || x.r.Arrivals.Length() == 0 || parts(whole.Length(), stabilityWindow) > maxStability {
		return
	}
	n := int(parts(whole.Length(), stabilityWindow))
	arriving := int(parts(x.r.Arrivals.Length(), stabilityWindow))
	arrivals, waiting := make([]int64, arriving), newGauge(whole, stabilityWindow, n)
	for i := range x.r.Requests {
		q := &x.r.Requests[i]
		arrivals[min(int((q.Arrival-whole.From)/stabilityWindow), arriving-1)]++
		if q.Outcome == serving.Rejected {
			continue // waits for nothing
		}
		stay := stayOf(q, whole.To)
		for _, w := range stay.stage {
			waiting.add(w)
		}
	}
	bursts := burstsOf(arrivals)
	s.Bursts = len(bursts)
	if len(bursts) == 0 {
		return
	}
	var felt int
	felt, s.BurstsUnrecovered = recoveries(bursts, waiting.means())
	s.BurstRecovery = num((sim.Time(felt) * stabilityWindow).Milliseconds() / float64(len(bursts)))
}

// A burst is a span of windows, from the first to the one after the last.
type burst struct{ from, to int }

// burstsOf finds the bursts among the arrivals of all windows: what is more than
// three standard deviations of a Poisson count, taken as at least 1, above the mean.
// Bursts with fewer than calmWindows between them are one; one that has not as
// many before it has no band to return to, and is left out.
func burstsOf(arrivals []int64) (bursts []burst) {
	var sum int64
	for _, n := range arrivals {
		sum += n
	}
	mean := float64(sum) / float64(len(arrivals))
	limit := mean + float64(3*math.Sqrt(max(mean, 1)))
	for i, n := range arrivals {
		if float64(n) <= limit {
			continue
		}
		if last := len(bursts) - 1; last >= 0 && i-bursts[last].to < calmWindows {
			bursts[last].to = i + 1
			continue
		}
		bursts = append(bursts, burst{i, i + 1})
	}
	if len(bursts) > 0 && bursts[0].from < calmWindows {
		bursts = bursts[1:]
	}
	return bursts
}

// recoveries sums, in windows, how long after each burst the number of requests
// that wait is back within its band, which is what it was at most in the windows
// before the burst, and at least 1. A burst that it does not recover from before
// the next one, or before the run ends, is counted up to there, and as unrecovered.
func recoveries(bursts []burst, waiting []float64) (felt, unrecovered int) {
	for k, b := range bursts {
		band := 1.
		for _, w := range waiting[b.from-calmWindows : b.from] {
			band = max(band, w)
		}
		end := len(waiting)
		if k+1 < len(bursts) {
			end = bursts[k+1].from
		}
		back, within := b.to, 0
		for i := b.to; i < end && within < recoveredWindows; i++ {
			if within++; waiting[i] > band {
				back, within = i+1, 0
			}
		}
		felt += back - b.to
		if back == end && back > b.to {
			unrecovered++
		}
	}
	return felt, unrecovered
}
