package serving

import (
	"math"
	"math/bits"

	"github.com/tgssim/tgssim/sim"
)

// A sampler lets the fabric carry only some of a step's MoE layers.
//
// The samples are iterations of the step's program, spread evenly over the step.
// When the last communication of one has ended, the stepper stands still for as
// long as it took, times the iterations that are left out, and then goes on from
// the state in which it was. The step is a pipeline that has the same state at the
// end of every iteration as long as its operations take the same time, and with
// them a skip is exact to the picosecond. (Each program's first compute operation
// waits for the last communication of the iteration before, which is what makes it
// so.) A compute operation that is under way ends later by the length of the skip.
//
// Congestion control, too, goes on from where it was: a skip is no rest.
//
// All accounts are kept as if every layer had been simulated: each skipped
// iteration is a copy of the one before the skip, and its bytes are booked on the
// links (fabric.Collective.Repeat).
//
// What holds an iteration up, such as a KV transfer, lasts for a time and not for a
// number of layers. So a skip is no longer than it would be at the pace of the
// fastest sample so far: after a slow one fewer iterations are left out, after one
// that took very long none, and the next sample is taken the sooner. (If all stood
// for the same number, the mean ITL of such runs as docs/performance.md has would
// come out 5 to 12 % too long at 8 layers of 58.) The price is that more layers are simulated
// than were asked for where they vary, and a mean that is too low by the square of
// their coefficient of variation where they vary from one to the next, at random.
//
// What is lost: other traffic goes on during a skip and does not meet this
// instance's dispatches and combines. So KV transfers, and the collectives of
// other instances, are slowed less than they would be. docs/performance.md has the
// error measured.
type sampler struct {
	plan  samplePlan
	taken int // samples that are through
	left  int // iterations until the next one is

	// The running iteration began at from, when these were the accounts.
	from              sim.Time
	dispatch, combine sim.Time
	comm              CommTime
	volume            CommVolume

	// A skip is under way from from for length.
	skipping bool
	skip     stepAccount // what it will add to the step's account
	times    int64       // iterations
	length   sim.Time
	// deferred is by how much the running compute operation ends later.
	deferred sim.Time

	periods spread
	fastest sim.Time // of them, or what the last step would have had them take
	pace    pace     // of the fastest
	last    pace     // of the last step
	// skipped is iterations, squared the sum of the squares of the skips.
	skipped, squared int64
}

// A pace is how long an iteration took, and how long it would have taken had its
// communication met nothing else.
type pace struct{ period, alone sim.Time }

// A samplePlan is so many samples, of whole iterations, after each of which some
// of the skipped ones come if all last as long. Without samples everything is
// simulated. Where batches are a layer apart, the first iteration is not a whole
// one, and in the last one the compute stream does not wait for the one before it:
// lag iterations are simulated before the samples, and as many after them. Before
// the samples warm more are simulated, which stand for themselves only.
type samplePlan struct{ lag, warm, samples, skipped int }

// warmUp is the most iterations to simulate before the first sample, unless they
// were more than a third of all. Congestion control, at line rate when a step
// begins, takes three to settle in the prefill steps of deepseek-v3-h800-pd on a
// fabric oversubscribed 4:1, and each of them is 13 % shorter than the others.
const warmUp = 4

// planSample is the plan of a step of so many layers of which k are to be
// simulated.
func planSample(p *program, layers, k int) samplePlan {
	if k < 1 || p == nil {
		return samplePlan{}
	}
	if k = max(k, 1+2*p.maxLag); k >= layers {
		return samplePlan{}
	}
	whole := k - 2*p.maxLag
	warm := min(warmUp, whole/3)
	return samplePlan{lag: p.maxLag, warm: warm, samples: whole - warm, skipped: layers - k}
}

// after is the number of iterations to skip after sample i: as equal as can be,
// the first ones taking the rest.
func (p samplePlan) after(i int) int {
	if i < p.skipped%p.samples {
		return p.skipped/p.samples + 1
	}
	return p.skipped / p.samples
}

// sample prepares the sampler for the step that begins.
func (s *stepper) sample() {
	w := &s.work
	last := s.sampler.pace
	if last.period == 0 {
		last = s.sampler.last
	}
	s.sampler = sampler{plan: planSample(w.program, w.layers, w.sample), last: last}
	s.sampler.left = 1 + s.sampler.plan.lag + s.sampler.plan.warm
}

// mark notes the accounts at the beginning of an iteration.
func (s *stepper) mark() {
	x := &s.sampler
	x.from = s.engine.Now()
	x.dispatch, x.combine, x.comm = s.acct.Dispatch, s.acct.Combine, s.acct.CommTime
	x.volume = s.acct.CommVolume
}

// iterationEnded is called when the communication stream has ended an operation.
// It reports whether the step stands still from now on.
func (s *stepper) iterationEnded() bool {
	x := &s.sampler
	ops := len(s.work.program.ops[streamComm])
	left := s.layers - x.plan.lag - s.ended[streamComm]/ops
	if x.plan.samples == 0 || s.ended[streamComm]%ops != 0 || left <= 0 {
		return false
	}
	s.unblock(s.engine.Now())
	if x.left--; x.left > 0 {
		s.mark()
		return false
	}
	times := min(left, s.copies(s.engine.Now()-x.from))
	x.left = 1
	if times == 0 {
		s.mark()
		return false
	}
	s.beginSkip(int64(times))
	return true
}

// copies is how many iterations are left out after a sample that took so long.
func (s *stepper) copies(period sim.Time) int {
	x := &s.sampler
	x.periods.add(period)
	mine := pace{period, period - (s.acct.Contention - x.comm.Contention)}
	switch {
	case x.taken == 0:
		// Nothing in this step tells whether its first sample was held up: what
		// contention added in the last one does.
		x.pace, x.fastest = mine, period
		if l := x.last; mine.alone > 0 && l.alone > 0 && l.period/8 <= l.alone {
			x.fastest = min(period, share(mine.alone, l.period, l.alone))
		}
	case period < x.pace.period:
		x.pace, x.fastest = mine, min(x.fastest, period)
	}
	n := x.plan.after(min(x.taken, x.plan.samples-1))
	x.taken++
	if period > x.fastest {
		n = int(share(sim.Time(n), x.fastest, period))
	}
	return n
}

// beginSkip stops both streams for as long as the last iteration took, times n.
func (s *stepper) beginSkip(n int64) {
	x, now, p := &s.sampler, s.engine.Now(), s.work.program
	var c cost
	last := s.ended[streamComm]/len(p.ops[streamComm]) - 1 // the iteration that ends
	for i := range p.ops[streamCompute] {
		o := &p.ops[streamCompute][i]
		c.add(s.work.cost(o, last-int(o.lag)), int(n))
	}
	// Iterations that vary can follow each other faster than they compute, one
	// lending its time to the next; many copies of one cannot.
	x.length = max((now-x.from)*sim.Time(n), c.slowest+c.allReduce)
	x.times, x.skipping = n, true
	x.skipped += n
	x.squared += n * n
	exposed := x.length - c.slowest - c.allReduce
	dispatch, combine := s.acct.Dispatch-x.dispatch, s.acct.Combine-x.combine
	x.skip = stepAccount{
		Compute: c.slowest, ComputeTotal: c.total, AllReduce: c.allReduce,
		Dispatch:   share(exposed, dispatch, dispatch+combine),
		CommTime:   s.acct.CommTime.since(&x.comm).times(n),
		CommVolume: s.acct.CommVolume.since(&x.volume).times(n),
	}
	x.skip.Combine = exposed - x.skip.Dispatch
	for on := range numStreams {
		s.next[on] += int(n) * len(p.ops[on])
		s.ended[on] += int(n) * len(p.ops[on])
	}
	if s.busy[streamCompute] {
		x.deferred = x.length
	}
	x.from = now
	s.engine.After(x.length, s.handler, kindSkipDone, s.index)
}

// skipDone ends a skip: both streams go on where they were.
func (s *stepper) skipDone() {
	x := &s.sampler
	x.skipping = false
	s.acct.add(&x.skip)
	s.repeat(x.times, x.length)
	s.mark()
	s.advance()
}

// repeat books the traffic of so many skipped iterations, which took so long.
func (s *stepper) repeat(times int64, took sim.Time) {
	ops := s.work.program.ops[streamComm]
	for i := range ops {
		if a := s.work.allToAll(&ops[i]); !a.none {
			a.Repeat(times, took)
		}
	}
}

// cutShort closes the books of a step that will not end, up to now.
func (s *stepper) cutShort(now sim.Time) {
	s.unblock(now)
	x := &s.sampler
	if !x.skipping || x.length == 0 {
		return
	}
	done := now - x.from
	s.acct.Dispatch += share(x.skip.Dispatch, done, x.length)
	s.acct.Combine += share(x.skip.Combine, done, x.length)
	s.repeat(int64(share(sim.Time(x.times), done, x.length)), done)
}

// share is floor(t*part/whole), and 0 of nothing. It must fit a Time.
func share(t, part, whole sim.Time) sim.Time {
	if whole == 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(t), uint64(part))
	q, _ := bits.Div64(hi, lo, uint64(whole))
	return sim.Time(q)
}

func (a *stepAccount) add(o *stepAccount) {
	a.Compute += o.Compute
	a.Dispatch += o.Dispatch
	a.Combine += o.Combine
	a.AllReduce += o.AllReduce
	a.ComputeTotal += o.ComputeTotal
	a.CommTime.add(&o.CommTime)
	a.CommVolume.add(&o.CommVolume)
}

// since is what has been added since an earlier reading.
func (c CommTime) since(o *CommTime) CommTime {
	return CommTime{
		c.Startup - o.Startup, c.Latency - o.Latency, c.Ports - o.Ports, c.Paths - o.Paths, c.Contention - o.Contention,
	}
}

func (c CommTime) times(n int64) CommTime {
	k := sim.Time(n)
	return CommTime{c.Startup * k, c.Latency * k, c.Ports * k, c.Paths * k, c.Contention * k}
}

// A spread is the running mean and sum of squared deviations of durations
// (Welford, Technometrics 4, 1962).
type spread struct {
	n        int64
	mean, m2 float64
}

func (w *spread) add(t sim.Time) {
	w.n++
	d := float64(t) - w.mean
	w.mean += d / float64(w.n)
	w.m2 += float64(d * (float64(t) - w.mean))
}

// Sampling is what Options.SampleLayers left of the MoE layers of a pool, and
// what it costs in accuracy. Steps in which nothing was left out are not in it.
type Sampling struct {
	// Steps is the number of steps; Layers are their MoE layers and Simulated those
	// of them that were simulated, more than asked for where layers vary.
	Steps, Layers, Simulated int64
	// Judged is the number of steps with at least two samples, whose spread says
	// something about the error.
	Judged int64

	variance, duration float64 // of the judged steps, in ps^2 and ps
}

// add takes in a step that has ended.
func (x *Sampling) add(s *stepper, length sim.Time) {
	if s.sampler.plan.samples == 0 {
		return
	}
	x.Steps++
	x.Layers += int64(s.work.layers)
	x.Simulated += int64(s.work.layers) - s.sampler.skipped
	if s.sampler.periods.n < 2 {
		return
	}
	x.Judged++
	x.duration += float64(length)
	x.variance += float64(s.sampler.periods.m2 / float64(s.sampler.periods.n-1) * float64(s.sampler.squared+s.sampler.skipped))
}

func (x *Sampling) merge(o *Sampling) {
	x.Steps += o.Steps
	x.Layers += o.Layers
	x.Simulated += o.Simulated
	x.Judged += o.Judged
	x.variance += o.variance
	x.duration += o.duration
}

// Errors estimates the standard error that extrapolating makes of the duration
// of one step and of the mean of all, as fractions of the mean. Iterations of a
// step are taken as independent draws of the variance s^2 that the samples show:
// then n copies of one of them are off from n others by s^2 (n^2 + n), squared. Errors of different steps are taken as independent, too. What sampling
// changes in the whole system is not in it. Both are 0 when no step was judged.
func (x *Sampling) Errors() (step, mean float64) {
	if x.Judged == 0 || x.duration == 0 {
		return 0, 0
	}
	mean = math.Sqrt(x.variance) / x.duration
	return mean * math.Sqrt(float64(x.Judged)), mean
}
