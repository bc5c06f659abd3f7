package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tgssim/tgssim/scenarios"
	"github.com/tgssim/tgssim/sweep"
)

// axisFlags are the flags of the commands that take axes.
type axisFlags struct {
	axes []string
	zip  bool
}

func (f *axisFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.axes, "axis", nil, "vary a key: `a.b=c,d,e`; 2..32*2 is 2,4,8,16,32; of an axis of labels in the scenario, the ones to take (repeatable)")
	cmd.Flags().BoolVar(&f.zip, "zip", false, "combine the first values of all axes, then the second, instead of all with all")
}

// request is what the flags ask for; --zip=false is a request, too.
func (f *axisFlags) request(cmd *cobra.Command, assignments []string) sweep.Request {
	r := sweep.Request{Set: assignments, Axes: f.axes}
	switch {
	case f.zip:
		r.Mode = scenarios.ModeZip
	case cmd.Flags().Changed("zip"):
		r.Mode = scenarios.ModeProduct
	}
	return r
}

// plan plans the points of a scenario that has axes; nil of any other.
func (f *axisFlags) plan(cmd *cobra.Command, flags *scenarioFlags, ref string) (*sweep.Plan, error) {
	assignments, err := flags.assignments(cmd)
	if err != nil {
		return nil, err
	}
	study, err := scenarios.Open(ref, assignments...)
	if err != nil || len(study.Sweep.Axes)+len(f.axes) == 0 {
		return nil, invalid(err)
	}
	p, err := sweep.New(ref, f.request(cmd, assignments))
	return p, invalid(err)
}

// checkPoints prints what is built at each point, and fails when something cannot
// be.
func checkPoints(cmd *cobra.Command, p *sweep.Plan) error {
	points, err := p.Describe(cmd.Context())
	if err != nil {
		return interrupted(err)
	}
	w := cmd.OutOrStdout()
	q := &printer{w: w}
	q.line("%s is swept over %s, %s each: %s", p.Name, plural(len(p.Points), "point"), plural(p.Replications, "run"), strings.Join(axisNames(p), " x "))
	if q.err == nil {
		q.err = printPoints(w, p, points, false)
	}
	for _, c := range points {
		if c.Error != nil || len(c.Derived) == 0 {
			continue
		}
		var lines []string
		for i, d := range c.Derived {
			if i > 0 && d.Rule == c.Derived[i-1].Rule {
				lines[len(lines)-1] += ", " + d.Key
				continue
			}
			lines = append(lines, "derived by "+d.Rule+": "+d.Key)
		}
		for _, line := range lines {
			q.line("%s", line)
		}
		break // the same keys at every point
	}
	return errors.Join(q.err, invalid(problemsOf(p, points)))
}

func axisNames(p *sweep.Plan) []string {
	names := make([]string, len(p.Axes))
	for i := range p.Axes {
		names[i] = p.Axes[i].Name
	}
	return names
}

type sweepFlags struct {
	scenario scenarioFlags
	axes     axisFlags
	reps     int
	workers  int
	out      string
	resume   bool
	dryRun   bool
	parquet  bool
}

func newSweep() *cobra.Command {
	var f sweepFlags
	cmd := &cobra.Command{
		Use:   "sweep SCENARIO",
		Short: "Run a scenario over axes and write one row per run",
		Long: `Run a scenario at every combination of the values of its axes, which are in the
scenario (sweep.axes) or given with --axis, on all cores. With --reps every point
is run so often, each time with other random numbers, the same ones at every
point. The folder gets sweep.csv, sweep.jsonl, the scenario of every point and a
manifest; docs/sweep.md describes them. The files do not depend on the number of
workers, nor on whether the sweep was interrupted and resumed, timing.csv aside.

Exit codes: 0 done, 1 failure, or done with runs that failed (they are rows with
an error), 2 invalid input.`,
		Example: `  tgssim sweep fabric-size-quick
  tgssim sweep deepseek-v3-h800-pd --axis workload.arrivals.rate=60/s,90/s,120/s --reps 3
  tgssim sweep mine.yaml --axis cluster.nodes=2..32*2 --dry-run`,
		Args: exactly(1, "the name of a scenario or the path of its file"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	f.scenario.register(cmd)
	f.axes.register(cmd)
	flags := cmd.Flags()
	flags.IntVar(&f.reps, "reps", 0, "the `number` of replications of each point (default: the scenario's, or 1)")
	flags.IntVar(&f.workers, "workers", 0, "the `number` of runs at a time (default: one per core)")
	flags.StringVarP(&f.out, "out", "o", "", "the `folder` of the sweep (default out/SCENARIO-sweep-HASH)")
	flags.BoolVar(&f.resume, "resume", false, "go on with an unfinished sweep in the folder")
	flags.BoolVar(&f.parquet, "parquet", false, "write sweep.parquet beside sweep.csv")
	flags.BoolVar(&f.dryRun, "dry-run", false, "print the points and an estimate of their cost, and run nothing")
	return cmd
}

// plan checks the flags and plans the sweep.
func (f *sweepFlags) plan(cmd *cobra.Command, ref string) (*sweep.Plan, error) {
	changed := cmd.Flags().Changed
	switch {
	case changed("reps") && f.reps < 1:
		return nil, invalid(fmt.Errorf("--reps %d is not a number of replications; use 1 to %d", f.reps, scenarios.MaxReplications))
	case changed("workers") && f.workers < 1:
		return nil, invalid(fmt.Errorf("--workers %d is not a number of workers; use 1 or more", f.workers))
	case changed("out") && f.out == "":
		return nil, invalid(errors.New("-o needs the name of a folder"))
	case f.dryRun && f.resume:
		return nil, invalid(errors.New("--dry-run and --resume exclude each other"))
	}
	assignments, err := f.scenario.assignments(cmd)
	if err != nil {
		return nil, err
	}
	r := f.axes.request(cmd, assignments)
	r.Replications = f.reps
	p, err := sweep.New(ref, r)
	return p, invalid(err)
}

func (f *sweepFlags) run(cmd *cobra.Command, ref string) error {
	p, err := f.plan(cmd, ref)
	if err != nil {
		return err
	}
	if f.dryRun {
		return f.estimate(cmd, p)
	}
	dir := f.out
	if dir == "" {
		text, err := p.Text()
		if err != nil {
			return err
		}
		hash := sha256.Sum256(text)
		dir = filepath.Join("out", p.Name+"-sweep-"+hex.EncodeToString(hash[:4]))
	}
	folder, err := p.Open(dir, version, f.resume)
	if err != nil {
		return invalid(err)
	}
	progress := newSweepProgress(cmd.ErrOrStderr())
	failed, err := folder.Run(cmd.Context(), sweep.Options{Workers: f.workers, Report: progress.report, Every: every, Parquet: f.parquet})
	progress.clear()
	if err == nil {
		err = printSweep(cmd.OutOrStdout(), p, folder, dir)
	} else if errors.Is(err, context.Canceled) {
		err = fmt.Errorf("interrupted with %d of %d runs done; --resume goes on with them (%s)", folder.Finished(), p.Runs(), dir)
	}
	if err = errors.Join(err, folder.Close()); err == nil && failed > 0 {
		err = fmt.Errorf("%d of %d runs failed; they are rows with an error in %s", failed, p.Runs(), filepath.Join(dir, sweep.CSVFile))
	}
	return err
}

// The measures and verdicts of the table.
var (
	sweepMeasures = []string{"tgs_steady", "p99_ttft_ms", "p99_itl_ms", "fabric_wait_share_decode"}
	sweepHeads    = []string{"TGS", "TTFT p99", "ITL p99", "fabric"}
	sweepWords    = []string{"saturation"}
)

// printSweep prints a line per point.
func printSweep(w io.Writer, p *sweep.Plan, folder *sweep.Folder, dir string) error {
	points, err := folder.Summarise(sweepMeasures, sweepWords)
	if err != nil {
		return err
	}
	header := append(axisHeads(p), "GPUs")
	header = append(append(header, sweepHeads...), "load")
	var rows [][]string
	failed := atPoints[string]{plan: p}
	for _, x := range points {
		row := append([]string(nil), x.Labels...)
		gpus := "-"
		if x.Cluster != nil {
			gpus = strconv.Itoa(x.Cluster.GPUs)
		}
		row = append(row, gpus)
		for _, m := range x.Means {
			row = append(row, interval(m))
		}
		word := x.Words[0]
		if x.Failed > 0 {
			word = strings.TrimPrefix(word+", failed", ", ")
			failed.add(x.Point, firstLine(x.Error))
		}
		rows = append(rows, append(row, word))
	}
	if err := writePoints(w, header, rows, len(p.Axes)); err != nil {
		return err
	}
	q := &printer{w: w}
	q.line("")
	q.line("TGS: output tokens/s per GPU of the cluster in the steady window; latencies in ms;")
	q.line("fabric: share of the decode GPUs' time spent waiting for it.")
	if p.Replications > 1 {
		q.line("Means over %d replications, +- half the 95 %% confidence interval (Student's t).", p.Replications)
	}
	q.problems("failed", &failed)
	q.line("")
	q.line("The sweep is in %s", dir)
	return q.err
}

// axisHeads are the last parts of the axes' names, or the whole names where two
// would be alike.
func axisHeads(p *sweep.Plan) []string {
	heads := make([]string, len(p.Axes))
	count := map[string]int{}
	last := func(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }
	for i := range p.Axes {
		count[last(p.Axes[i].Name)]++
	}
	for i := range p.Axes {
		heads[i] = last(p.Axes[i].Name)
		if count[heads[i]] > 1 || p.Axes[i].Labelled {
			heads[i] = p.Axes[i].Name
		}
	}
	return heads
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// interval writes a mean and its interval: "453.4 +-2.1".
func interval(m sweep.Mean) string {
	switch m.N {
	case 0:
		return "-"
	case 1:
		return significant(m.Mean, 4)
	}
	return significant(m.Mean, 4) + " +-" + significant(m.Half, 2)
}

// significant writes so many significant digits at least, without an exponent.
func significant(x float64, digits int) string {
	if x == 0 {
		return "0"
	}
	decimals := digits - 1 - int(math.Floor(math.Log10(math.Abs(x))))
	return strconv.FormatFloat(x, 'f', max(0, min(decimals, 6)), 64)
}

// probeBudget is the wall-clock time for the probes of a dry run.
const probeBudget = 6 * time.Second

// estimate prints the points and what they may cost.
func (f *sweepFlags) estimate(cmd *cobra.Command, p *sweep.Plan) error {
	costs, err := p.Estimate(cmd.Context(), probeBudget)
	if err != nil {
		return interrupted(err)
	}
	w := cmd.OutOrStdout()
	if err := printPoints(w, p, costs, true); err != nil {
		return err
	}
	q := &printer{w: w}
	total, longest, unknown := 0., 0., 0
	bad := atPoints[string]{plan: p}
	for _, c := range costs {
		switch {
		case c.Error != nil:
			bad.add(c.Point, firstLine(c.Error.Error()))
		case c.Basis == sweep.CostUnknown:
			unknown++
		default:
			total += c.Seconds * float64(p.Replications)
			longest = max(longest, c.Seconds)
		}
	}
	workers := sweep.Options{Workers: f.workers}.Cores(p.Runs())
	q.line("")
	q.line("%s on %s: about %s.", plural(p.Runs(), "run"), plural(workers, "core"), roughly(max(longest, total/float64(workers))))
	q.line("Found by running up to 16 points for a moment. Where that was not to the end, it says `about`:")
	q.line("the rest is taken to go on at the same pace (of bytes, in the packet engine), which is good")
	q.line("to a factor of two or so.")
	if unknown > 0 {
		q.line("%s too slow to judge in this time and left out.", were(unknown, "point"))
	}
	if n := bad.points(); n > 0 {
		q.line("%s cannot be built and would have an error in the results.", plural(n, "point"))
		q.problems("error", &bad)
	}
	return q.err
}

// printPoints prints what is built at each point.
func printPoints(w io.Writer, p *sweep.Plan, costs []sweep.Cost, priced bool) error {
	header := append([]string{"point"}, axisHeads(p)...)
	header = append(header, "GPUs", "leaves", "spines", "uplinks", "oversub", "prefill", "decode", "requests")
	if priced {
		header = append(header, "one run")
	}
	var rows [][]string
	for _, c := range costs {
		row := append([]string{strconv.Itoa(c.Point)}, p.Labels(c.Point)...)
		row = append(row, pointCells(c, priced)...)
		if c.Error != nil {
			for len(row) < len(header)-1 {
				row = append(row, "-")
			}
			row = append(row, "cannot be built")
		}
		rows = append(rows, row)
	}
	return writePoints(w, header, rows, 1+len(p.Axes))
}

// writePoints prints a table with a line per point, as narrow as the screen if it
// can be; the columns before first name the point.
func writePoints(w io.Writer, header []string, rows [][]string, first int) error {
	header, rows, common := fit(header, rows, first)
	if err := writeTable(w, header, rows); err != nil || common == "" {
		return err
	}
	_, err := fmt.Fprintln(w, common)
	return err
}

// pointCells are the cells of a point after its axes; none where nothing can be
// built.
func pointCells(c sweep.Cost, priced bool) []string {
	if c.Error != nil {
		return nil
	}
	x := c.Cluster
	oversubscription := "-"
	if x.Oversubscription != nil {
		oversubscription = strconv.FormatFloat(*x.Oversubscription, 'g', 4, 64) + ":1"
	}
	requests := "?"
	if c.Requests > 0 {
		requests = strconv.Itoa(c.Requests)
	}
	cells := []string{
		strconv.Itoa(x.GPUs), strconv.Itoa(x.Leaves), strconv.Itoa(x.Spines), strconv.Itoa(x.UplinksPerLeaf),
		oversubscription, fmt.Sprintf("%d (%d)", x.PrefillInstances, x.PrefillGPUs), fmt.Sprintf("%d (%d)", x.DecodeInstances, x.DecodeGPUs),
		requests,
	}
	switch {
	case !priced:
	case c.Basis == sweep.CostUnknown:
		cells = append(cells, "unknown")
	case c.Basis == sweep.CostMeasured:
		cells = append(cells, roughly(c.Seconds))
	default:
		cells = append(cells, "about "+roughly(c.Seconds))
	}
	return cells
}

// roughly writes a time as precisely as an estimate deserves.
func roughly(seconds float64) string {
	switch {
	case seconds < 10:
		return strconv.FormatFloat(seconds, 'g', 2, 64) + " s"
	case seconds < 180:
		return strconv.FormatFloat(seconds, 'f', 0, 64) + " s"
	case seconds < 3*3600:
		return strconv.FormatFloat(seconds/60, 'f', 0, 64) + " min"
	}
	return strconv.FormatFloat(seconds/3600, 'f', 0, 64) + " h"
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

func were(n int, what string) string {
	if n == 1 {
		return "1 " + what + " was"
	}
	return strconv.Itoa(n) + " " + what + "s were"
}

// sweepProgress shows on a terminal how far a sweep has come.
type sweepProgress struct{ w io.Writer }

func newSweepProgress(w io.Writer) *sweepProgress {
	p := &sweepProgress{}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.w = w
	}
	return p
}

func (p *sweepProgress) report(s sweep.Status) {
	if p.w == nil {
		return
	}
	failed, left := "", ""
	if s.Failed > 0 {
		failed = fmt.Sprintf(", %d failed", s.Failed)
	}
	if s.Left > 0 {
		left = ", about " + roughly(s.Left.Seconds()) + " left"
	}
	fmt.Fprintf(p.w, "\r\x1b[K%d of %d runs done%s, %d under way, %s gone%s",
		s.Done, s.Runs, failed, s.Running, roughly(s.Elapsed.Seconds()), left)
}

func (p *sweepProgress) clear() {
	if p.w != nil {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
