package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tgssim/tgssim/compare"
	"github.com/tgssim/tgssim/sweep"
)

type compareFlags struct {
	scenario scenarioFlags
	vary     []string
	failIf   []string
	reps     int
	workers  int
	out      string
	force    bool
	json     bool
}

func newCompare() *cobra.Command {
	var f compareFlags
	cmd := &cobra.Command{
		Use:   "compare A B [C...] | compare SCENARIO --vary key=value,value",
		Short: "Say which differences between scenarios are more than chance",
		Long: `Run scenarios side by side, each several times with the same random numbers, and
compare all with the first: paired differences with 95 % confidence intervals, a
verdict in a sentence, and why. Scenarios that differ in model, precision, GPU,
workload or number of GPUs are refused without --force; docs/compare.md has the
table. Nothing depends on the number of workers.

Exit codes: 0 done, 1 failure, or a run that failed, 2 invalid input or scenarios
that are not alike, 3 a significant regression beyond a limit (--fail-if).`,
		Example: `  tgssim compare deepseek-v3-h800-packet --vary congestion.algorithm=dcqcn,none
  tgssim compare before.yaml after.yaml --reps 10 --fail-if tgs_steady=-2%
  tgssim compare fabric-size-quick --vary fabric --set cluster.nodes=8`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return invalid(errors.New("tgssim compare needs scenarios, by name or path; see `tgssim compare --help`"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.scenario.register(cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(&f.vary, "vary", nil, "vary a key of the one scenario: `a.b=c,d`, or an axis of it by name, with =label,label for some (several vary together)")
	flags.IntVar(&f.reps, "reps", compare.DefaultReplications, "the `number` of replications of each scenario")
	flags.StringArrayVar(&f.failIf, "fail-if", nil, "exit with 3 on a significant regression beyond a `limit`: tgs_steady=-2%, p99_ttft_ms=+50 (repeatable)")
	flags.BoolVar(&f.force, "force", false, "compare what is not alike, with a warning")
	flags.IntVar(&f.workers, "workers", 0, "the `number` of runs at a time (default: one per core)")
	flags.StringVarP(&f.out, "out", "o", "", "write compare.json, compare.csv and the scenarios to a `folder`")
	flags.BoolVar(&f.json, "json", false, "print JSON instead of tables")
	return cmd
}

// check checks the flags.
func (f *compareFlags) check(cmd *cobra.Command) error {
	changed := cmd.Flags().Changed
	switch {
	case changed("reps") && f.reps < 1:
		return fmt.Errorf("--reps %d is not a number of replications; use 1 to %d", f.reps, compare.MaxReplications)
	case changed("workers") && f.workers < 1:
		return fmt.Errorf("--workers %d is not a number of workers; use 1 or more", f.workers)
	case changed("out") && f.out == "":
		return errors.New("-o needs the name of a folder")
	case f.out != "":
		return compare.CheckTarget(f.out)
	}
	return nil
}

func (f *compareFlags) run(cmd *cobra.Command, refs []string) error {
	if err := f.check(cmd); err != nil {
		return invalid(err)
	}
	set, err := f.scenario.assignments(cmd)
	if err != nil {
		return err
	}
	plan, err := compare.New(compare.Request{
		Refs: refs, Vary: f.vary, Set: set, Replications: f.reps, Limits: f.failIf, Force: f.force,
	})
	if err != nil {
		return invalid(err)
	}
	progress, started := newSweepProgress(cmd.ErrOrStderr()), time.Now()
	result, err := plan.Run(cmd.Context(), compare.Options{Workers: f.workers, Report: func(done int) {
		s := sweep.Status{Runs: plan.Runs(), Done: done, Elapsed: time.Since(started)}
		s.Left = s.Elapsed * time.Duration(s.Runs-done) / time.Duration(done)
		progress.report(s)
	}})
	progress.clear()
	if err != nil {
		return fmt.Errorf("comparison stopped, nothing written: %w", interrupted(err))
	}
	return f.deliver(cmd, result)
}

// deliver writes the folder and prints, and turns what was found into an exit
// code.
func (f *compareFlags) deliver(cmd *cobra.Command, r *compare.Result) error {
	var written, printed error
	if f.out != "" {
		written = r.Write(f.out, version)
	}
	w := cmd.OutOrStdout()
	if f.json {
		printed = r.JSON(w, version)
	} else {
		printed = r.Text(w)
		if f.out != "" && written == nil && printed == nil {
			_, printed = fmt.Fprintf(w, "\nThe comparison is in %s\n", f.out)
		}
	}
	switch err := errors.Join(written, printed); {
	case err != nil:
		return err
	case len(r.Failed) > 0:
		x := r.Failed[0]
		return fmt.Errorf("%d of %d runs failed; the first is replication %d of %s: %s",
			len(r.Failed), r.Plan.Runs(), x.Replication, x.Variant, firstLine(x.Error))
	case r.Unjudged():
		return errors.New("--fail-if is on a measure that these runs do not have")
	case r.Missed():
		return &codedError{errors.New("a significant regression beyond a limit"), exitMissed}
	}
	return nil
}
