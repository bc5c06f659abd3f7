package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tgssim/tgssim/experiment"
	"github.com/tgssim/tgssim/report"
)

type runFlags struct {
	scenario   scenarioFlags
	out        string
	noFiles    bool
	json       bool
	requireSLO bool
}

func newRun() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run SCENARIO",
		Short: "Run a scenario, print what it delivered and write the run folder",
		Long: `Run a scenario of the library, by name, or of a file, by path. The tables go to
standard output; the files go to a folder of the run's own. Two runs of the same
scenario and seed give the same bytes, timing.json aside.

Exit codes: 0 done, 1 failure, 2 invalid input, 3 SLO missed (--require-slo).`,
		Example: `  tgssim run deepseek-v3-h800-pd
  tgssim run deepseek-v3-h800-pd --set network.engine=ideal --seed 7
  tgssim run azure-replay --set workload.trace.path=trace.csv -o out/azure`,
		Args: exactly(1, "the name of a scenario or the path of its file"),
		RunE: func(cmd *cobra.Command, args []string) error { return runScenario(cmd, &f, args[0]) },
	}
	f.scenario.register(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&f.out, "out", "o", "", "the run `folder` (default out/SCENARIO-HASH)")
	flags.BoolVar(&f.noFiles, "no-files", false, "write no run folder")
	flags.BoolVar(&f.json, "json", false, "print the summary as JSON, with vLLM's key names, instead of tables")
	flags.BoolVar(&f.requireSLO, "require-slo", false, "exit with 3 when the run misses the scenario's SLO")
	return cmd
}

func runScenario(cmd *cobra.Command, f *runFlags, ref string) error {
	if f.noFiles && f.out != "" {
		return invalid(errors.New("-o and --no-files exclude each other"))
	}
	if cmd.Flags().Changed("out") && f.out == "" {
		return invalid(errors.New("-o needs the name of a folder"))
	}
	s, err := f.scenario.load(cmd, ref)
	if err != nil {
		return err
	}
	if f.requireSLO && !s.Metrics.SLO.IsSet() {
		return invalid(errors.New("--require-slo: the scenario sets no limit; write one, such as --set metrics.slo.ttft=2s"))
	}
	text, err := s.Resolved()
	if err != nil {
		return err
	}
	dir, err := f.folder(s.Name, text)
	if err != nil {
		return invalid(err)
	}
	b, err := experiment.Build(s)
	if err != nil {
		return invalid(err)
	}
	run, err := simulate(cmd, b)
	if err != nil {
		return err
	}
	run.Name, run.Scenario, run.Seed = s.Name, text, s.Seed
	return f.deliver(cmd.OutOrStdout(), run, dir)
}

// folder is where the run goes, "" for nowhere. Better to hear before a run than
// after it that it cannot go there.
func (f *runFlags) folder(name string, text []byte) (string, error) {
	if f.noFiles {
		return "", nil
	}
	dir := f.out
	if dir == "" {
		hash := sha256.Sum256(text)
		dir = filepath.Join("out", name+"-"+hex.EncodeToString(hash[:4]))
	}
	return dir, report.CheckTarget(dir)
}

// simulate runs the simulation, with progress on a terminal.
func simulate(cmd *cobra.Command, b *experiment.Simulation) (*report.Run, error) {
	started := time.Now()
	progress := newProgress(cmd.ErrOrStderr(), started)
	result, err := b.Run(cmd.Context(), progress.report)
	progress.clear()
	if err != nil {
		return nil, fmt.Errorf("run stopped, nothing written: %w", interrupted(err))
	}
	run := &report.Run{
		Version: version, Fingerprint: result.Fingerprint, Events: result.Events, Result: result.Result,
		Timing: &report.Timing{Started: started, Wall: time.Since(started)},
	}
	if result.Ports != nil {
		run.Extra = append(run.Extra, report.File{Name: portsFile, Data: portsCSV(b.Graph, result.Ports)})
	}
	for _, in := range result.Inputs {
		run.Inputs = append(run.Inputs, report.ManifestEntry{
			Name: in.Path, Bytes: in.Bytes, SHA256: hex.EncodeToString(in.SHA256[:]),
		})
	}
	return run, nil
}

// deliver writes the run folder and prints the tables. Neither is held back when
// the other fails.
func (f *runFlags) deliver(w io.Writer, run *report.Run, dir string) error {
	var written error
	if dir != "" {
		written = report.WriteRun(dir, *run)
	}
	printed := f.print(w, run)
	if dir != "" && written == nil && printed == nil && !f.json {
		_, printed = fmt.Fprintf(w, "\nThe run is in %s\n", dir)
	}
	if err := errors.Join(written, printed); err != nil {
		return err
	}
	if f.requireSLO && !met(run.Result.Summary.SLOMet) {
		return &codedError{errors.New("the run misses its SLO"), exitMissed}
	}
	return nil
}

// interrupted says what a cancelled context means here.
func interrupted(err error) error {
	if errors.Is(err, context.Canceled) {
		return errors.New("interrupted")
	}
	return err
}

func met(b *bool) bool { return b != nil && *b }

func (f *runFlags) print(w io.Writer, run *report.Run) error {
	if f.json {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(run.Result.Summary)
	}
	o := report.Options{}
	if file, ok := w.(*os.File); ok {
		o = report.OptionsFor(file)
	}
	return report.Table(w, run, o)
}

// progress shows on a terminal how far a run has come, and nothing elsewhere.
type progress struct {
	w       io.Writer // nil when it is not a terminal
	what    string    // that arrives and finishes
	started time.Time
	last    time.Time
}

func newProgress(w io.Writer, started time.Time) *progress {
	p := &progress{what: "requests", started: started, last: started}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.w = w
	}
	return p
}

// every is the time between two updates of the line, in wall-clock time.
const every = 250 * time.Millisecond

func (p *progress) report(now experiment.Progress) {
	if p.w == nil || time.Since(p.last) < every {
		return
	}
	p.last = time.Now()
	total := ""
	if now.Total > 0 {
		total = fmt.Sprintf(" of %d", now.Total)
	}
	fmt.Fprintf(p.w, "\r\x1b[K%.4g s simulated in %.1f s, %d %s arrived, %d finished%s, %.1f M events",
		now.Now.Seconds(), time.Since(p.started).Seconds(), now.Arrived, p.what, now.Finished, total, float64(now.Events)/1e6)
}

// clear removes the line.
func (p *progress) clear() {
	if p.w != nil {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
