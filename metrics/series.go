package metrics

import (
	"strconv"

	"github.com/tgssim/tgssim/serving"
	"github.com/tgssim/tgssim/sim"
)

// A Stage is where a request is on its way; the stages that are not waiting
// rooms are left out.
type Stage uint8

// The stages that can fill up, from the last to the first: which is also the
// order in which one backs up into the next.
const (
	StageDecodeWait   Stage = iota // KV in place, waiting to join the decode batch
	StageTransfer                  // KV on its way
	StageDecodeMemory              // prefilled, waiting for free KV blocks
	StageQueue                     // waiting for prefill
	NumStages
)

// String names what is full when the stage is.
func (s Stage) String() string {
	return [...]string{"decode batch", "KV transfer", "decode memory", "prefill queue"}[s]
}

// A stay is the time that a request spends in every stage, and in decode steps.
type stay struct {
	stage   [NumStages]Window
	running Window
}

// stayOf reconstructs a request's way from its instants and pieces, up to end.
// Chunks of a prompt that wait for their turn count as being prefilled.
func stayOf(q *Request, end sim.Time) stay {
	var s stay
	at := func(t sim.Time) sim.Time { return min(t, end) }
	s.stage[StageQueue] = Window{q.Arrival, at(q.PrefillStart)}
	if q.PrefillEnd == sim.Never {
		return s
	}
	moved := q.TTFT[serving.PieceTransferPost] + q.TTFT[serving.PieceTransferWire] + q.TTFT[serving.PieceTransferQueue]
	posted := end
	switch {
	case q.TransferEnd != sim.Never:
		posted = max(q.TransferEnd-moved, q.PrefillEnd)
	case moved > 0: // stopped under way
		posted = q.PrefillEnd + q.TTFT[serving.PieceDecodeMemory]
	case q.FirstToken != sim.Never: // no transfer: one pool does both
		posted = q.PrefillEnd
	}
	s.stage[StageDecodeMemory] = Window{q.PrefillEnd, at(posted)}
	arrived := q.TransferEnd
	if arrived == sim.Never && q.FirstToken != sim.Never {
		arrived = q.PrefillEnd
	}
	s.stage[StageTransfer] = Window{at(posted), at(arrived)}
	if arrived == sim.Never {
		return s
	}
	began := end
	if q.FirstToken != sim.Never {
		began = max(q.FirstToken-q.decoding(), arrived)
		s.running = Window{began, at(q.Finish)}
	}
	s.stage[StageDecodeWait] = Window{at(arrived), at(began)}
	return s
}

// A SeriesRow is one window of the run.
type SeriesRow struct {
	Window
	// Arrivals, Finished, PromptTokens (prefilled) and OutputTokens count what
	// happened in the window.
	Arrivals, Finished, PromptTokens, OutputTokens int64
	// Running is the mean number of requests in decode steps; Waiting the mean
	// number at each stage, so that Waiting[StageTransfer] is the transfers in
	// flight; InSystem the mean number that have arrived and not left.
	Running, InSystem float64
	Waiting           [NumStages]float64
	// TGS is output tokens per second per GPU of the whole cluster; nil without
	// GPUs.
	TGS *float64
}

// maxRows bounds the time series, whatever the window asked for.
const maxRows = 100_000

// seriesWindow is the width of the rows for a run of a length, above 0: what was
// asked for or, when that makes too many rows, the least multiple of it that does
// not.
func seriesWindow(asked, length sim.Time) sim.Time {
	if asked > 0 {
		rows := parts(length, asked)
		return asked * parts(rows, maxRows)
	}
	least := max(parts(length, 200), sim.Microsecond)
	for unit := sim.Microsecond; ; unit *= 10 {
		for _, m := range []sim.Time{1, 2, 5} {
			if m*unit >= least {
				return m * unit
			}
		}
	}
}

// parts is how many parts of a width a length has, the last one cut short; both
// are above 0. The sum of the two may be beyond the clock.
func parts(length, width sim.Time) sim.Time { return (length-1)/width + 1 }

// cell is row i of a window cut into rows of a width; the last ends where the
// window does.
func (w Window) cell(i int, width sim.Time) Window {
	from := w.From + sim.Time(i)*width
	return Window{from, from + min(width, w.To-from)}
}

// A gauge integrates a number of requests over the rows of a series in constant
// time per request.
type gauge struct {
	whole Window
	width sim.Time
	// partial is request-seconds in the rows where stays begin or end; change is
	// the change of the number of stays that cover a whole row.
	partial []float64
	change  []int64
}

func newGauge(w Window, width sim.Time, rows int) gauge {
	return gauge{whole: w, width: width, partial: make([]float64, rows), change: make([]int64, rows+1)}
}

func (g *gauge) row(t sim.Time) int {
	return int(min((t-g.whole.From)/g.width, sim.Time(len(g.partial)-1)))
}

func (g *gauge) add(stay Window) {
	from, to := max(stay.From, g.whole.From), min(stay.To, g.whole.To)
	if from >= to {
		return
	}
	i, j := g.row(from), g.row(to)
	if i == j {
		g.partial[i] += (to - from).Seconds()
		return
	}
	g.partial[i] += (g.whole.cell(i, g.width).To - from).Seconds()
	g.partial[j] += (to - g.whole.cell(j, g.width).From).Seconds()
	g.change[i+1]++
	g.change[j]--
}

// means returns the mean of every row.
func (g *gauge) means() []float64 {
	out := make([]float64, len(g.partial))
	var covering int64
	for i := range out {
		covering += g.change[i]
		out[i] = float64(covering) + g.partial[i]/g.whole.cell(i, g.width).Length().Seconds()
	}
	return out
}

// series cuts the run into rows.
func (x *analysis) series() {
	whole := x.r.Whole
	if whole.Length() == 0 {
		return
	}
	width := seriesWindow(x.c.cfg.Window, whole.Length())
	if asked := x.c.cfg.Window; width > asked && asked > 0 {
		x.note("metrics.window %v would make more than %s rows of a run this long; the time series has rows of %v.",
			asked, Thousands(strconv.Itoa(maxRows)), width)
	}
	n := int(parts(whole.Length(), width))
	rows := make([]SeriesRow, n)
	for i := range rows {
		rows[i].Window = whole.cell(i, width)
	}
	at := func(t sim.Time) *SeriesRow { return &rows[min(max(t-whole.From, 0)/width, sim.Time(n-1))] }

	running, inSystem := newGauge(whole, width, n), newGauge(whole, width, n)
	var waiting [NumStages]gauge
	for s := range waiting {
		waiting[s] = newGauge(whole, width, n)
	}
	for i := range x.r.Requests {
		q := &x.r.Requests[i]
		at(q.Arrival).Arrivals++
		if q.Outcome == serving.Rejected {
			continue
		}
		if q.Outcome == serving.Finished {
			at(q.Finish).Finished++
		}
		if q.FirstToken != sim.Never {
			at(q.FirstToken).OutputTokens++
		}
		stay := stayOf(q, whole.To)
		running.add(stay.running)
		inSystem.add(Window{q.Arrival, min(q.Finish, whole.To)})
		for s := range waiting {
			waiting[s].add(stay.stage[s])
		}
	}
	x.c.later(func(t sim.Time, n int64) { at(t).OutputTokens += n })
	x.c.prefills.each(func(e logEvent) { at(e.at).PromptTokens += e.count })
	for i, v := range running.means() {
		rows[i].Running = v
		rows[i].TGS = perGPU(float64(rows[i].OutputTokens), rows[i].Length(), x.r.Summary.GPUs)
	}
	for i, v := range inSystem.means() {
		rows[i].InSystem = v
	}
	for s := range waiting {
		for i, v := range waiting[s].means() {
			rows[i].Waiting[s] = v
		}
	}
	x.r.Series = rows
}
