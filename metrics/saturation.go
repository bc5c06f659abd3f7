package metrics

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tgssim/tgssim/serving"
	"github.com/tgssim/tgssim/sim"
)

// A Load is a verdict on how the offered load compares with what the cluster
// can do.
type Load uint8

// The verdicts.
const (
	// Inconclusive: the run does not tell.
	Inconclusive Load = iota
	// Underloaded: it keeps up, and the GPUs and KV memory that bound it are
	// less than 60 % used.
	Underloaded
	// KeepingUp: no queue grows.
	KeepingUp
	// Saturated: a queue grows for as long as requests arrive, so that latencies
	// depend on the length of the run.
	Saturated
)

// String names the verdict.
func (l Load) String() string {
	return [...]string{"inconclusive", "underloaded", "keeping up", "saturated"}[l]
}

// A Saturation is the verdict on a run's load, and the evidence.
type Saturation struct {
	Load Load
	// Bottleneck is what is full when the verdict is Saturated.
	Bottleneck Stage
	// Evidence is one sentence.
	Evidence string
	// Requests is the number of arrivals, rejected ones excluded, judged.
	Requests int
	// ServedOverOffered is completions over arrivals in the second half of the
	// arrival window; nil without arrivals there.
	ServedOverOffered *float64
	// First and Second are the mean number of requests at each stage in the two
	// halves of the arrival window, and RunningFirst and RunningSecond those in
	// decode steps in its third and fourth quarter; RunningGrowth is what they
	// gain over the window beyond what a cluster that keeps up shows, and
	// RunningNoise one standard deviation of it.
	First, Second               [NumStages]float64
	RunningFirst, RunningSecond float64
	RunningGrowth, RunningNoise float64
	// Residence90 and Residence99 are percentiles of the time that a request is in
	// decode steps, over all that began, whatever the warm-up.
	Residence90, Residence99 sim.Time
	// Growth is how many requests every stage gains over the arrival window,
	// extrapolated from its halves; Noise is how much it may gain by chance when
	// the cluster keeps up.
	Growth [NumStages]float64
	Noise  float64
	// PrefillBusy is the share of the arrival window in which prefill instances
	// execute steps; nil without a prefill pool.
	PrefillBusy *float64
}

// String is the verdict as printed: "saturated (prefill queue)".
func (s *Saturation) String() string {
	if s.Load == Saturated {
		return fmt.Sprintf("%v (%v)", s.Load, s.Bottleneck)
	}
	return s.Load.String()
}

// The thresholds of the verdict.
const (
	// minRequests is the fewest arrivals that say anything.
	minRequests = 50
	// noiseSigmas standard deviations of a critically loaded queue are chance.
	noiseSigmas = 3
	// likelySigmas is the growth up to which a run is said to keep up.
	likelySigmas = 1.5
	// minGrowth is the least part of the arrivals that must pile up.
	minGrowth = 0.02
	// hiddenGrowth is the growth, as a part of the arrivals, that a run must be
	// long enough to exclude (at two sigmas) before it is said to keep up.
	hiddenGrowth = 0.15
	// lowUse is the use below which a pool counts as underloaded, and highUse
	// that from which one is busy enough to be the limit.
	lowUse, highUse = 0.6, 0.7
)

// saturation judges the load by what piles up while requests arrive. A stage of
// a stable system gains nothing but noise; of an overloaded one, the excess of
// arrivals. The noise of n arrivals is taken as that of a critically loaded
// queue, a reflected random walk of standard deviation sqrt(n c^2), where c^2 is
// the squared coefficient of variation of the intervals between arrivals, at
// least that of a Poisson process (Kingman's heavy-traffic limit, 1962). Growth
// is measured between the mean occupancies of the two halves of the arrival
// window: twice their difference, for a queue that grows steadily.
func (x *analysis) saturation() {
	s := &x.r.Saturation
	arrivals := x.r.Arrivals
	halves := halve(arrivals)
	late := halve(halves[1])
	var first, second [NumStages]float64
	var offered, served, rejected, finished int
	var stays []decodeStay
	var gaps []float64
	last := sim.Never
	for i := range x.r.Requests {
		q := &x.r.Requests[i]
		if q.Outcome == serving.Rejected {
			rejected++
			continue
		}
		s.Requests++
		if last != sim.Never {
			gaps = append(gaps, (q.Arrival - last).Seconds())
		}
		last = q.Arrival
		if halves[1].Contains(q.Arrival) {
			offered++
		}
		if halves[1].Contains(q.Finish) {
			served++
		}
		if q.Outcome == serving.Finished {
			finished++
		}
		stay := stayOf(q, x.r.Whole.To)
		for k := range stay.stage {
			w := stay.stage[k]
			first[k] += halves[0].overlap(w.From, w.To).Seconds()
			second[k] += halves[1].overlap(w.From, w.To).Seconds()
		}
		if q.FirstToken != sim.Never {
			stays = append(stays, decodeStay{stay.running, q.Outcome == serving.Finished})
		}
	}
	if arrivals.Length() > 0 {
		for k := range first {
			s.First[k] = first[k] / max(halves[0].Length(), 1).Seconds() // a picosecond has no halves
			s.Second[k] = second[k] / max(halves[1].Length(), 1).Seconds()
			s.Growth[k] = float64(2 * (s.Second[k] - s.First[k]))
		}
		s.running(stays, late)
		s.PrefillBusy = x.prefillBusy(halves[1])
	}
	if offered > 0 {
		s.ServedOverOffered = num(float64(served) / float64(offered))
	}
	s.Noise = math.Sqrt(float64(s.Requests) * max(1, variation(gaps)))
	x.judge(s, finished)
	if rejected > 0 && s.Load != Inconclusive {
		s.Evidence += fmt.Sprintf(" Rejected requests (%d) are not counted.", rejected)
	}
	x.r.Summary.Saturation = s.String()
	x.r.Summary.SaturationEvidence = s.Evidence
	x.r.Summary.ServedOverOffered = s.ServedOverOffered
	x.r.Summary.PrefillBusy = s.PrefillBusy
}

// halve cuts a window in two.
func halve(w Window) [2]Window {
	mid := w.From + w.Length()/2
	return [2]Window{{w.From, mid}, {mid, w.To}}
}

// variation is the squared coefficient of variation.
func variation(v []float64) float64 {
	st := StatsOf(v)
	if st.Mean <= 0 {
		return 0
	}
	return st.Std / st.Mean * (st.Std / st.Mean)
}

// prefillBusy is the share of a window in which prefill instances run steps.
func (x *analysis) prefillBusy(w Window) *float64 {
	pool := x.pool(poolPrefill)
	if pool == nil || pool.Instances <= 0 || w.Length() == 0 {
		return nil
	}
	var busy spanSum
	steps := 0
	x.c.prefills.each(func(e logEvent) {
		busy.add(w.overlap(e.at-e.span, e.at))
		steps++
	})
	if steps == 0 {
		return nil
	}
	return num(busy.in() / w.Length().Seconds() / float64(pool.Instances))
}

// judge applies the thresholds.
func (x *analysis) judge(s *Saturation, finished int) {
	n := float64(s.Requests)
	worst, waiting, growth := StageDecodeWait, 0.0, 0.0
	for k := range s.Growth {
		if s.Growth[k] > s.Growth[worst] {
			worst = Stage(k)
		}
		waiting += s.Second[k]
		growth += s.Growth[k]
	}
	switch {
	case s.Requests == 0:
		s.Evidence = "No request was admitted."
		return
	case x.r.Arrivals.Length() == 0:
		s.Evidence = fmt.Sprintf("%s arrived at one instant: there is no rate to keep up with.", requests(s.Requests))
		return
	case s.Requests < minRequests:
		s.Evidence = fmt.Sprintf("Only %s: at least %d are needed to tell a queue that grows from one that fluctuates.",
			requests(s.Requests), minRequests)
		return
	case finished == 0:
		s.Evidence = fmt.Sprintf("No request finished, of %s: the run does not tell what the cluster serves.", Thousands(strconv.Itoa(s.Requests)))
		return
	case s.Growth[worst] > noiseSigmas*s.Noise && s.Growth[worst] > minGrowth*n:
		s.Load, s.Bottleneck = Saturated, x.root(s, worst)
		s.Evidence = s.overload(worst)
		return
	}
	why, filling := x.filling(s)
	switch {
	case filling:
		s.Evidence = why
	case s.moreRun():
		x.judgeRunning(s)
	case waiting >= 0.5 && max(growth, 0)+float64(2*s.Noise) > hiddenGrowth*n:
		bursts := ""
		if s.Noise > 1.5*math.Sqrt(n) {
			bursts = ", in bursts"
		}
		s.Evidence = fmt.Sprintf("Only %s%s: those waiting went from %s to %s, and chance alone can make that %s more or less.",
			requests(s.Requests), bursts, short(s.waitingFirst()), short(waiting), short(s.Noise))
	case growth > likelySigmas*s.Noise || waiting > 2*s.Noise:
		s.Evidence = fmt.Sprintf("Close to its limit: those waiting went from %s to %s, more than chance makes likely (%s) and less than proof%s.",
			short(s.waitingFirst()), short(waiting), short(s.Noise), s.ratio())
	default:
		s.Load = KeepingUp
		if x.lightlyUsed(s) {
			s.Load = Underloaded
		}
		s.Evidence = fmt.Sprintf("No queue grew beyond chance: %s requests waiting in the first half of the arrivals, %s in the second%s%s.",
			short(s.waitingFirst()), short(waiting), s.ratio(), x.use(s))
	}
}

func (s *Saturation) waitingFirst() float64 {
	sum := 0.0
	for _, v := range s.First {
		sum += v
	}
	return sum
}

// root follows a queue that grows downstream to what holds it up: when prefill
// instances are not busy and yet requests wait for them, the last full stage
// after them is to blame.
func (x *analysis) root(s *Saturation, worst Stage) Stage {
	if worst != StageQueue || s.PrefillBusy == nil || *s.PrefillBusy >= highUse {
		return worst
	}
	fullest := worst
	for k := StageDecodeWait; k < StageQueue; k++ {
		if s.Second[k] >= 1 && (fullest == worst || s.Second[k] > s.Second[fullest]) {
			fullest = k
		}
	}
	return fullest
}

func (s *Saturation) overload(worst Stage) string {
	text := fmt.Sprintf("While %s arrived, those waiting for %s grew from %s in the first half to %s in the second%s",
		requests(s.Requests), waitsFor(worst), short(s.First[worst]), short(s.Second[worst]), s.ratio())
	if s.Bottleneck != worst {
		text += fmt.Sprintf("; prefill instances run steps only %.0f %% of it, and %s requests wait for %s behind them",
			*s.PrefillBusy*100, short(s.Second[s.Bottleneck]), waitsFor(s.Bottleneck))
	}
	return text + ". Latencies grow with the length of such a run; they describe the run, not the cluster."
}

// waitsFor names what the requests at a stage wait for.
func waitsFor(s Stage) string {
	return [...]string{"a place in the decode batch", "KV transfer", "decode memory", "prefill"}[s]
}

// ratio is the clause on served over offered, if known.
func (s *Saturation) ratio() string {
	if s.ServedOverOffered == nil {
		return ""
	}
	return fmt.Sprintf("; in the second half %.2f requests finish per arrival", *s.ServedOverOffered)
}

// lightlyUsed tells whether there is room in every resource of which the use is
// known; it takes at least one.
func (x *analysis) lightlyUsed(s *Saturation) bool {
	known := false
	if batch, _ := x.fullness(); batch >= lowUse {
		return false
	}
	for _, use := range []*float64{s.PrefillBusy, x.r.Summary.PeakKVDecode} {
		if use == nil {
			continue
		}
		if *use >= lowUse {
			return false
		}
		known = true
	}
	return known
}

// use is the clause on how full the resources are.
func (x *analysis) use(s *Saturation) string {
	text := ""
	if s.PrefillBusy != nil {
		text += fmt.Sprintf(" and prefill instances run steps %.0f %% of the time", *s.PrefillBusy*100)
		if s.ServedOverOffered == nil {
			text = fmt.Sprintf("; in the second half prefill instances run steps %.0f %% of the time", *s.PrefillBusy*100)
		}
	}
	return text + x.decodeUse()
}

// decodeUse is the clause on how full the decode pool ever was.
func (x *analysis) decodeUse() string {
	text := ""
	if kv := x.r.Summary.PeakKVDecode; kv != nil {
		text += fmt.Sprintf("; decode KV memory peaks at %.0f %%", *kv*100)
	}
	if u := x.pool(poolDecode); u != nil && u.BatchLimit > 0 {
		text += fmt.Sprintf("; the fullest decode batch has %s of %s requests", Thousands(strconv.Itoa(u.PeakBatch)),
			Thousands(strconv.Itoa(u.BatchLimit)))
	}
	return text
}

// short prints a number with three digits, or all of those before the point.
func short(v float64) string {
	switch a := math.Abs(v); {
	case a >= 99.95:
		return Thousands(strconv.FormatFloat(v, 'f', 0, 64))
	case a >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// Thousands puts a comma after every three digits before the point of a decimal
// number: "-12345.6" becomes "-12,345.6".
func Thousands(s string) string {
	whole, rest := s, ""
	if i := strings.IndexByte(s, '.'); i >= 0 {
		whole, rest = s[:i], s[i:]
	}
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return sign + whole + rest
}

// requests counts requests in words: "1 request", "6,000 requests".
func requests(n int) string {
	if n == 1 {
		return "1 request"
	}
	return Thousands(strconv.Itoa(n)) + " requests"
}
