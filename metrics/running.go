package metrics

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/tgssim/tgssim/sim"
)

// A decodeStay is when a request was in decode steps; one that was still there
// when the run ended was there for at least so long.
type decodeStay struct {
	Window
	ended bool
}

// quantiles are quantiles, ascending and each in (0, 1), of the length of stays,
// by the product-limit estimate of Kaplan and Meier (1958): stays that the end
// of the run cut short count for as long as they were seen, and do not make the
// rest look shorter. A quantile beyond what was seen is the longest stay. Stays
// are sorted by length on return; there must be one at least.
func quantiles(stays []decodeStay, ps []float64) []sim.Time {
	slices.SortStableFunc(stays, func(a, b decodeStay) int {
		return cmp.Compare(a.Length(), b.Length())
	})
	out := make([]sim.Time, 0, len(ps))
	survival := 1.0
	for i := 0; i < len(stays) && len(out) < len(ps); i++ {
		if stays[i].ended {
			left := float64(len(stays) - i)
			survival *= (left - 1) / left
		}
		for len(out) < len(ps) && survival <= 1-ps[len(out)] {
			out = append(out, stays[i].Length())
		}
	}
	for len(out) < len(ps) {
		out = append(out, stays[len(stays)-1].Length())
	}
	return out
}

// residenceQuantiles is how many quantiles stand for the distribution of stays.
const residenceQuantiles = 64

// running measures the growth of the requests in decode steps from the third
// quarter of the arrivals to the fourth beyond what a cluster that keeps up
// shows. What that is follows from when requests began to decode and how long
// one stays: over a window it is the sum over requests of the mean overlap of
// their stay, were it of random length, with the window. So neither a changing
// arrival rate nor a population that is still filling up counts as growth.
//
// Chance is that of independent stays. The variance of the number present is at
// most its mean (that of a Poisson number), and that of its mean over a quarter
// of length Q at most rate x E[S^2] / Q (the integral of the autocovariance of
// an M/G/inf queue).
func (s *Saturation) running(stays []decodeStay, late [2]Window) {
	if len(stays) == 0 {
		return
	}
	ps := make([]float64, residenceQuantiles)
	for k := range ps {
		ps[k] = (float64(k) + 0.5) / residenceQuantiles
	}
	lengths := quantiles(stays, ps)
	ends := quantiles(stays, []float64{0.9, 0.99})
	s.Residence90, s.Residence99 = ends[0], ends[1]
	if late[0].Length() == 0 || late[1].Length() == 0 {
		return // arrivals within picoseconds
	}

	squares := 0.0
	for _, l := range lengths {
		squares += float64(l.Seconds() * l.Seconds())
	}
	squares /= float64(len(lengths))
	var present, expected, begun, variance [2]float64
	for k, w := range late {
		for _, q := range stays {
			present[k] += w.overlap(q.From, q.To).Seconds()
			if w.Contains(q.From) {
				begun[k]++
			}
			if q.From >= w.To {
				continue
			}
			for _, l := range lengths {
				expected[k] += w.overlap(q.From, q.From+min(l, sim.Never-q.From)).Seconds()
			}
		}
		span := w.Length().Seconds()
		present[k] /= span
		expected[k] /= float64(len(lengths)) * span
		rate := begun[k] / span
		variance[k] = min(present[k], rate*squares/span)
	}
	s.RunningFirst, s.RunningSecond = present[0], present[1]
	if expected[0] > 0 {
		ratio := expected[1] / expected[0]
		s.RunningGrowth = 4 * (present[1] - float64(present[0]*ratio))
		s.RunningNoise = 4 * math.Sqrt(variance[1]+float64(float64(ratio*ratio)*variance[0]))
	}
}

// moreRun tells that more requests run than a cluster that keeps up explains.
func (s *Saturation) moreRun() bool {
	return s.RunningGrowth > noiseSigmas*max(s.Noise, s.RunningNoise) && s.RunningGrowth > minGrowth*float64(s.Requests)
}

// filling tells that requests arrive for too short a time to see how many a
// cluster that has filled up holds, and why: the last two quarters of the
// arrivals are compared, and before them nine in ten stays must have had time to
// end, or 99 of 100 when more and more requests run.
func (x *analysis) filling(s *Saturation) (why string, filling bool) {
	percentile, stay := 90, s.Residence90
	if s.moreRun() {
		percentile, stay = 99, s.Residence99
	}
	half := x.r.Arrivals.Length() / 2
	if stay <= half {
		return "", false
	}
	return fmt.Sprintf("The cluster is still filling up: half-way to the last arrival %s s have passed, and a request decodes for %s s (p%d).",
		short(half.Seconds()), short(stay.Seconds()), percentile), true
}

// judgeRunning judges running requests that grow beyond what explains them. Only
// what is full can be overloaded: batches with room take up what arrives.
func (x *analysis) judgeRunning(s *Saturation) {
	s.Evidence = fmt.Sprintf("The decode batches kept growing while requests arrived, from %s to %s running requests in the last two quarters%s",
		short(s.RunningFirst), short(s.RunningSecond), s.ratio())
	batch, memory := x.fullness()
	if batch >= 1 || memory >= fullMemory {
		s.Load, s.Bottleneck = Saturated, StageDecodeWait
		if batch < 1 {
			s.Bottleneck = StageDecodeMemory
		}
		s.Evidence += x.decodeUse() + "."
		return
	}
	s.Evidence += x.decodeUse() + ". They are not full: a longer run tells whether they fill up."
}

// fullMemory is the use of KV blocks from which no further request is sure to
// fit.
const fullMemory = 0.98

// fullness is how full the fullest decode batch and the fullest rank's KV memory
// ever were, as shares; 0 when not known.
func (x *analysis) fullness() (batch, memory float64) {
	u := x.pool(poolDecode)
	if u == nil {
		return 0, 0
	}
	if u.BatchLimit > 0 {
		batch = float64(u.PeakBatch) / float64(u.BatchLimit)
	}
	if u.KVBlocks > 0 {
		memory = float64(u.PeakKVBlocks) / float64(u.KVBlocks)
	}
	return batch, memory
}
