package sweep

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tgssim/tgssim/experiment"
	"github.com/tgssim/tgssim/scenarios"
)

// A Status is how far a sweep has come.
type Status struct {
	// Runs is the number of runs, Done those that are finished, Failed those of
	// them that have an error, Running those under way.
	Runs, Done, Failed, Running int
	// Elapsed is since this process began.
	Elapsed time.Duration
	// Left is an estimate of the time that is left; 0 when there is none yet.
	Left time.Duration
}

// Options say how a sweep is executed. They change no figure.
type Options struct {
	// Workers is the number of runs at a time; 0 is one per core.
	Workers int
	// Report is called now and then, from one goroutine, with the status; nil is
	// never.
	Report func(Status)
	// Every is the time between two reports.
	Every time.Duration
	// Parquet asks for the results in that form, too.
	Parquet bool

	begun func(run int) // tests hear of every run that begins
}

// Cores is the number of workers for so many runs.
func (o Options) Cores(runs int) int {
	n := o.Workers
	if n < 1 {
		n = runtime.GOMAXPROCS(0)
	}
	return max(1, min(n, runs))
}

// Run makes the runs that are not done, and writes the results. A run that cannot
// be made is an Outcome with an error, and the others go on. It returns the
// number of failed runs. A cancelled context stops it with the context's error;
// what is finished by then is in the journal.
func (f *Folder) Run(ctx context.Context, o Options) (failed int, err error) {
	r := &runner{folder: f, plan: f.plan, options: o, started: time.Now()}
	if err := r.run(ctx); err != nil {
		return 0, err
	}
	if err := f.Write(o.Parquet); err != nil {
		return 0, err
	}
	m, err := readManifest(f.path(ManifestFile))
	if err != nil {
		return 0, err
	}
	return m.Failed, nil
}

// A runner executes the runs of one folder.
type runner struct {
	folder  *Folder
	plan    *Plan
	options Options
	started time.Time
	traces  experiment.Traces

	next    atomic.Int64 // run to look at
	failed  int
	before  int       // done by earlier processes
	running []running // per worker

	forecast *forecast // nil without reports
}

// running is how far the run of a worker has come, in millionths; -1 when it has
// none.
type running struct{ progress, point atomic.Int64 }

const whole = 1_000_000

func (r *runner) run(ctx context.Context) error {
	runs := r.plan.Runs()
	r.before = r.folder.Finished()
	if r.before == runs {
		return nil
	}
	workers := r.options.Cores(runs - r.before)
	r.traces.Limit = workers
	r.running = make([]running, workers)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	// What is done is read here only, before the collector changes it.
	todo := make([]int, 0, runs-r.before)
	for run := range runs {
		if r.folder.journal.done[run].length == 0 {
			todo = append(todo, run)
		}
	}
	if r.options.Report != nil {
		r.forecast = newForecast(r.plan, todo)
	}
	outcomes := make(chan finished)
	var group sync.WaitGroup
	for w := range workers {
		r.running[w].progress.Store(-1)
		group.Go(func() { r.work(ctx, w, todo, outcomes) })
	}
	go func() {
		group.Wait()
		close(outcomes)
	}()
	err := r.collect(outcomes, stop)
	if err == nil && r.folder.Finished() < runs {
		err = context.Cause(ctx)
	}
	return err
}

// finished is a run that a worker has made, or why it could not go on.
type finished struct {
	outcome *Outcome
	err     error
}

// collect appends what the workers finish to the journal. After an error it stops
// them and takes in the rest.
func (r *runner) collect(outcomes <-chan finished, stop func()) (err error) {
	every := r.options.Every
	if every <= 0 {
		every = time.Second
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case x, more := <-outcomes:
			switch {
			case !more:
				r.report()
				return err
			case x.err == nil && err == nil:
				x.err = r.folder.journal.append(r.plan, x.outcome)
			}
			if x.err != nil {
				err = errors.Join(err, x.err)
				stop()
				continue
			}
			if x.outcome.Error != "" {
				r.failed++
			}
			if r.forecast != nil {
				r.forecast.finished(x.outcome)
			}
		case <-tick.C:
			r.report()
		}
	}
}

// work makes runs until there are none left.
func (r *runner) work(ctx context.Context, worker int, todo []int, out chan<- finished) {
	var last struct {
		point    int
		scenario *scenarios.Scenario
		sha256   string
		err      error
	}
	last.point = -1
	for ctx.Err() == nil {
		i := int(r.next.Add(1) - 1)
		if i >= len(todo) {
			return
		}
		point, replication := todo[i]/r.plan.Replications, todo[i]%r.plan.Replications
		if point != last.point {
			last.point = point
			last.scenario, last.err = r.plan.Scenario(point)
			last.sha256 = ""
			if last.err == nil {
				var err error
				if last.sha256, err = r.folder.writePoint(point, last.scenario); err != nil {
					out <- finished{err: err}
					return
				}
			}
		}
		r.running[worker].point.Store(int64(point))
		r.running[worker].progress.Store(0)
		if r.options.begun != nil {
			r.options.begun(todo[i])
		}
		o := &Outcome{Point: point, Replication: replication, Scenario: last.sha256, Seed: r.plan.study.Seed()}
		err := last.err
		if err == nil {
			s := *last.scenario
			s.Replication = uint64(replication)
			err = r.make(ctx, &s, o, &r.running[worker])
		}
		r.running[worker].progress.Store(-1)
		if ctx.Err() != nil {
			return // the run was cut short, or might have been
		}
		if err != nil {
			o.Error = err.Error()
		}
		out <- finished{outcome: o}
	}
}

// make makes one run and records it in o. A panic is a mistake of ours; it fails
// the run and not the sweep. Its stack has addresses, which differ from process
// to process: running the point by itself shows it.
func (r *runner) make(ctx context.Context, s *scenarios.Scenario, o *Outcome, at *running) (err error) {
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("internal error: %v", x)
		}
	}()
	started := time.Now()
	b, err := experiment.BuildWith(s, &r.traces)
	if err != nil {
		return err
	}
	o.Cluster = ClusterOf(s, b.Graph)
	result, err := b.Run(ctx, func(p experiment.Progress) {
		if p.Total > 0 {
			at.progress.Store(whole * int64(p.Arrived+p.Finished) / int64(2*p.Total))
		}
	})
	if err != nil {
		return err
	}
	err = o.succeed(result)
	o.WallS = time.Since(started).Seconds()
	return err
}

// report tells how far the sweep has come. Before the first run is made, the time
// left takes all for as long as those under way.
func (r *runner) report() {
	if r.options.Report == nil {
		return
	}
	s := Status{
		Runs: r.plan.Runs(), Done: r.folder.Finished(), Failed: r.failed, Elapsed: time.Since(r.started),
	}
	made, underWay := float64(s.Done-r.before), map[int]float64{}
	for i := range r.running {
		if p := r.running[i].progress.Load(); p >= 0 {
			s.Running++
			made += float64(p) / whole
			underWay[int(r.running[i].point.Load())] += float64(p) / whole
		}
	}
	if s.Left = r.forecast.remaining(len(r.running), underWay); s.Left == 0 && made > 0 {
		s.Left = time.Duration(float64(s.Elapsed) * (float64(s.Runs-r.before) - made) / made)
	}
	r.options.Report(s)
}
