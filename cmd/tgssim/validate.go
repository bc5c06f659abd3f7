package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tgssim/tgssim/internal/atomicfile"
	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/scenarios"
	"github.com/tgssim/tgssim/validate"
)

type validateFlags struct {
	json, markdown, list bool
	leaveOneOut, check   bool
	write                string
}

func newValidate() *cobra.Command {
	var f validateFlags
	cmd := &cobra.Command{
		Use:   "validate [TARGET]...",
		Short: "Run published measurements and print how far off the simulator is",
		Long: `Run the systems that published measurements are of, and print measured and
simulated values side by side, whatever comes out. Each target is a scenario,
but for ideal-ep-bound, which sends the bytes of a published bound through the
network alone; without names all of them run. A scenario of your own with a
section "measured" may be named by its path.

Exit codes: 0 done, 1 failure, 2 invalid input, 3 a bar is missed (--check).`,
		Example: `  tgssim validate
  tgssim validate --leave-one-out --check
  tgssim validate qwen3-8b-fp8-decode-h20 --json
  tgssim validate --write targets && tgssim run targets/qwen3-8b-fp8-decode-h20.yaml`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = validate.Targets()
				if f.write != "" { // what there is to write
					args = validate.Names()
				}
			}
			return f.run(cmd.Context(), cmd.OutOrStdout(), args)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.json, "json", false, "print the rows as JSON")
	flags.BoolVar(&f.markdown, "markdown", false, "print the rows as a Markdown table")
	flags.BoolVar(&f.list, "list", false, "list the targets and run nothing")
	flags.StringVar(&f.write, "write", "", "write the targets as scenario files into `folder` and run nothing")
	flags.BoolVar(&f.leaveOneOut, "leave-one-out", false, "also fit the derate to all rows that it is fitted to (fit: true) but one, and predict the one")
	flags.BoolVar(&f.check, "check", false, "exit with 3 when a bar is missed")
	return cmd
}

// excluded says which two of the flags make no sense together, or nothing.
func (f *validateFlags) excluded() error {
	runs := f.markdown || f.leaveOneOut || f.check
	switch {
	case f.json && f.markdown:
		return errors.New("--json and --markdown exclude each other")
	case f.list && f.write != "":
		return errors.New("--list and --write exclude each other")
	case f.list && runs:
		return errors.New("--list runs nothing: it goes with --json only")
	case f.write != "" && (runs || f.json):
		return errors.New("--write runs nothing: it goes with no other flag")
	}
	return nil
}

func (f *validateFlags) run(ctx context.Context, w io.Writer, names []string) error {
	if err := f.excluded(); err != nil {
		return invalid(err)
	}
	if f.write != "" {
		return writeTargets(w, f.write, names)
	}
	ss, err := loadTargets(names)
	if err != nil {
		return invalid(err)
	}
	if f.list {
		return listTargets(ss).write(w, f.json)
	}
	if n := validate.Fitted(ss); f.leaveOneOut && n < validate.LeastFitted {
		return invalid(fmt.Errorf("--leave-one-out needs %d measurements with `fit: true`, and these targets have %d", validate.LeastFitted, n))
	}
	rows, err := validate.RunAll(ctx, ss, runtime.GOMAXPROCS(0))
	var ps config.Problems
	switch {
	case errors.As(err, &ps):
		return invalid(err)
	case err != nil:
		return interrupted(err)
	}
	if f.leaveOneOut {
		if err := validate.LeaveOneOut(ctx, ss, rows); err != nil {
			return interrupted(err)
		}
	}
	verdict := validate.Judge(rows)
	if err := f.print(w, rows, verdict); err != nil {
		return err
	}
	if f.check && len(verdict.Missed) > 0 {
		return &codedError{errors.New(strings.Join(verdict.Missed, "; ")), exitMissed}
	}
	return nil
}

// loadTargets loads all targets, or says what is wrong with each that is not one.
func loadTargets(names []string) (ss []*scenarios.Scenario, err error) {
	var errs []error
	seen := map[string]bool{}
	for _, n := range names {
		s, err := validate.Load(n)
		switch {
		case err != nil:
			errs = append(errs, err)
		case seen[s.Name]:
			errs = append(errs, fmt.Errorf("two targets are called %q", s.Name))
		default:
			seen[s.Name] = true
			ss = append(ss, s)
		}
	}
	if len(errs) == 1 {
		return nil, errs[0]
	}
	return ss, errors.Join(errs...)
}

func listTargets(ss []*scenarios.Scenario) listing {
	l := listing{
		header: []string{"target", "measured", "set-up"},
		notes:  []string{"Write them as scenario files with `tgssim validate --write FOLDER`."},
	}
	type target struct {
		Name     string                  `json:"name"`
		Setup    string                  `json:"setup"`
		Measured []scenarios.Measurement `json:"measured"`
	}
	var data []target
	for _, s := range ss {
		var what []string
		for _, m := range s.Measured {
			what = append(what, fmt.Sprintf("%s %s %s", m.Quantity, validate.Figure(m.Value), m.Unit))
		}
		setup := strings.TrimSpace(s.Description)
		l.rows = append(l.rows, []string{s.Name, strings.Join(what, "\n"), setup})
		data = append(data, target{s.Name, setup, s.Measured})
	}
	l.data = data
	return l
}

// writeTargets writes targets as files. It overwrites none.
func writeTargets(w io.Writer, dir string, names []string) error {
	texts := make([][]byte, len(names))
	for i, n := range names {
		var err error
		if texts[i], err = validate.Source(n); err != nil {
			return invalid(err)
		}
		if _, err := os.Lstat(filepath.Join(dir, n+".yaml")); err == nil {
			return invalid(fmt.Errorf("%s is there already", filepath.Join(dir, n+".yaml")))
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return invalid(err)
	}
	for i, n := range names {
		if err := atomicfile.File(filepath.Join(dir, n+".yaml"), atomicfile.Bytes(texts[i])); err != nil {
			return invalid(fmt.Errorf("cannot write %s: %w", filepath.Join(dir, n+".yaml"), causeOf(err)))
		}
	}
	many := fmt.Sprintf("%d targets are", len(names))
	if len(names) == 1 {
		many = "1 target is"
	}
	_, err := fmt.Fprintf(w, "%s in %s\n", many, dir)
	return err
}

func (f *validateFlags) print(w io.Writer, rows []validate.Row, verdict validate.Verdict) error {
	switch {
	case f.json:
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(rows)
	case f.markdown:
		_, err := io.WriteString(w, validate.Markdown(rows))
		return err
	}
	header := []string{"target", "measured", "simulated", "error", "bar", "unit", "set-up (source)"}
	if f.leaveOneOut {
		header = append(header[:5:5], append([]string{"left out (derate)"}, header[5:]...)...)
	}
	var cells [][]string
	for i := range rows {
		r := &rows[i]
		bar := "-"
		if r.WithinPct != nil {
			bar = fmt.Sprintf("%.2g %%", *r.WithinPct)
		}
		c := []string{r.Name, validate.Figure(r.Measured), validate.Figure(r.Simulated), validate.Percent(r.ErrorPct), bar}
		if f.leaveOneOut {
			c = append(c, r.LeftOut())
		}
		cells = append(cells, append(c, r.Unit, fmt.Sprintf("%s (%s)", r.Setup, r.Source)))
	}
	if err := writeTable(w, header, cells); err != nil {
		return err
	}
	p := &printer{w: w}
	if verdict.Held > 0 {
		p.line("%d rows have a bar; %d are within it.", verdict.Held, verdict.Within)
	}
	if verdict.Fitted > 0 {
		p.line("Mean absolute error of the %d that the derate is fitted to: %.2f %% (bar %g %%).", verdict.Fitted, verdict.Mean, validate.MeanBar)
	}
	for _, m := range verdict.Missed {
		p.line("MISSED: %s.", m)
	}
	return p.err
}
