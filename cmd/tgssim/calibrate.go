package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tgssim/tgssim/calibrate"
	"github.com/tgssim/tgssim/compute"
	"github.com/tgssim/tgssim/internal/atomicfile"
	"github.com/tgssim/tgssim/internal/config"
)

type calibrateFlags struct {
	gpu, base, out string
	force, json    bool
}

func newCalibrate() *cobra.Command {
	var f calibrateFlags
	cmd := &cobra.Command{
		Use:   "calibrate FILE.csv",
		Short: "Fit a GPU profile to your own kernel measurements",
		Long: `Fit the kernel classes of a GPU profile to a table of measured times, say how far
off the fit is, on the rows and on shapes that it has not seen, and name the rows
that it does not explain. The table is a CSV file: a column kernel with the class
of each row (gemm_fp8, gqa_decode, ...), its sizes, and time_us. Columns, forms and
a worked example: docs/calibrate.md.

Capacities, peaks and classes with too few rows are those of the base. The profile
that -o writes is named in a scenario by its path, as gpu.name.

Exit codes: 0 done, 1 failure, 2 invalid table or usage.`,
		Example: `  tgssim calibrate kernels.csv --gpu h800
  tgssim calibrate kernels.csv --base lab.yaml -o lab-fitted.yaml
  tgssim run deepseek-v3-h800-pd --set gpu.name=lab-fitted.yaml`,
		Args: exactly(1, "the CSV file of measurements"),
		RunE: func(cmd *cobra.Command, args []string) error { return runCalibrate(cmd, &f, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.gpu, "gpu", "", "the `name` of the GPU, as in list gpus: whose rows are taken, and the base")
	flags.StringVar(&f.base, "base", "", "the `profile` to start from, a name or the path of a file")
	flags.StringVarP(&f.out, "out", "o", "", "the profile `file` to write, .yaml")
	flags.BoolVar(&f.force, "force", false, "overwrite the file of -o")
	flags.BoolVar(&f.json, "json", false, "print JSON instead of tables")
	return cmd
}

func runCalibrate(cmd *cobra.Command, f *calibrateFlags, file string) error {
	if err := f.check(cmd); err != nil {
		return invalid(err)
	}
	data, err := readTable(file)
	if err != nil {
		return invalid(err)
	}
	base, table, err := f.load(file, data)
	if err != nil {
		return invalid(err)
	}
	result, err := calibrate.Fit(table, base)
	var rows config.Problems
	switch {
	case errors.As(err, &rows):
		return invalid(err)
	case err != nil:
		return err
	}
	written := f.out != "" && result.Fitted()
	if written {
		text, err := result.Profile.Marshal()
		if err != nil {
			return err
		}
		if err := atomicfile.File(f.out, atomicfile.Bytes(text)); err != nil {
			return invalid(fmt.Errorf("cannot write %s: %w", f.out, causeOf(err)))
		}
	}
	w := cmd.OutOrStdout()
	if f.json {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		err = e.Encode(result)
	} else {
		err = f.print(w, file, result, written)
	}
	if err == nil && f.out != "" && !written {
		err = invalid(fmt.Errorf("%s: no class could be fitted, for the reasons in the table: a profile would be the base's", file))
	}
	return err
}

// causeOf is err without a path that its message has already.
func causeOf(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// check refuses flags that exclude each other and a target that is there.
func (f *calibrateFlags) check(cmd *cobra.Command) error {
	switch {
	case f.gpu != "" && f.base != "":
		return errors.New("--gpu and --base exclude each other")
	case cmd.Flags().Changed("gpu") && f.gpu == "":
		return errors.New("--gpu needs the name of a GPU")
	case cmd.Flags().Changed("base") && f.base == "":
		return errors.New("--base needs the name of a GPU or the path of a profile")
	case cmd.Flags().Changed("out") && f.out == "":
		return errors.New("-o needs the name of a file")
	case f.gpu != "" && compute.IsProfilePath(f.gpu):
		return fmt.Errorf("--gpu takes a name; for the file %s write --base %s", f.gpu, f.gpu)
	case f.out == "":
		return nil
	case !strings.HasSuffix(f.out, ".yaml") && !strings.HasSuffix(f.out, ".yml"):
		return fmt.Errorf("-o %s: a profile's name ends in .yaml, by which a scenario tells it from the name of a GPU", f.out)
	}
	folder := filepath.Dir(f.out)
	if info, err := os.Stat(folder); err != nil {
		return fmt.Errorf("-o %s: cannot write in folder %s: %w", f.out, folder, causeOf(err))
	} else if !info.IsDir() {
		return fmt.Errorf("-o %s: %s is no folder", f.out, folder)
	}
	info, err := os.Lstat(f.out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("-o %s is there and no regular file", f.out)
	case !f.force:
		return fmt.Errorf("-o %s is there already; --force overwrites it", f.out)
	}
	return nil
}

// readTable reads the file as far as a table can be long.
func readTable(file string) ([]byte, error) {
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", file)
	}
	r, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", file, causeOf(err))
	}
	defer r.Close()
	return io.ReadAll(io.LimitReader(r, calibrate.MaxBytes+1))
}

// load reads the base and the table. Without a flag the base is the GPU that the
// table names.
func (f *calibrateFlags) load(file string, data []byte) (*compute.Profile, *calibrate.Table, error) {
	if f.gpu == "" && f.base == "" {
		table, err := calibrate.Read(file, data, "")
		if err != nil {
			return nil, nil, err
		}
		if table.GPU == "" {
			return nil, nil, fmt.Errorf("%s does not say of which GPU it is: write --gpu with one of %s, or --base with a profile",
				file, strings.Join(compute.Profiles(), ", "))
		}
		base, err := compute.LoadProfile(table.GPU)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: column gpu: %w; --base takes any profile", file, err)
		}
		return base, table, nil
	}
	ref, flag := f.gpu, "--gpu"
	if ref == "" {
		ref, flag = f.base, "--base"
	}
	base, err := compute.LoadProfile(ref)
	if err != nil {
		var inFile config.Problems
		if errors.As(err, &inFile) {
			return nil, nil, err
		}
		return nil, nil, fmt.Errorf("%s: %w", flag, err)
	}
	table, err := calibrate.Read(file, data, base.Name)
	return base, table, err
}

// mostOutliers is the number of outliers that are printed.
const mostOutliers = 20

func (f *calibrateFlags) print(w io.Writer, file string, r *calibrate.Result, written bool) error {
	p := &printer{w: w}
	rows := func(n int) string { return counted(n, "row") }
	p.line("%s: %s (sha256 %s), on top of %s", file, rows(r.Rows), r.SHA256[:12], r.Base)
	if r.OtherGPUs > 0 {
		p.line("%s of other GPUs left out.", rows(r.OtherGPUs))
	}
	if len(r.Ignored) > 0 {
		p.line("Columns not read: %s.", strings.Join(r.Ignored, ", "))
	}
	p.line("\nERRORS, %% of the measured time (median / 95th percentile)")
	var lines, constants [][]string
	for _, c := range r.Classes {
		outcome := "fitted"
		if c.Kept != "" {
			outcome = "kept from the base: " + c.Kept
		}
		lines = append(lines, []string{
			c.Class, strconv.Itoa(c.Rows), strconv.Itoa(c.Shapes), percents(c.Base), percents(c.Fitted), percents(c.HeldOut), outcome,
		})
		for _, k := range c.Constants {
			constants = append(constants, constantRow(c.Class, k))
		}
	}
	p.table([]string{"class", "rows", "shapes", "base", "fitted", "held out", "outcome"}, lines)
	if constants != nil {
		p.line("\nCONSTANTS")
		p.table([]string{"class", "constant", "base", "fitted", "standard error", "remark"}, constants)
	}
	f.printOutliers(p, file, r.Outliers)
	switch {
	case written:
		p.line("\nThe profile is %s; a scenario takes it as gpu.name.", f.out)
	case f.out != "":
		p.line("\nNothing was written.")
	default:
		p.line("\nNothing was written; -o profile.yaml writes the profile.")
	}
	return p.err
}

func (f *calibrateFlags) printOutliers(p *printer, file string, outliers []calibrate.Outlier) {
	if len(outliers) == 0 {
		p.line("\nNo row is an outlier.")
		return
	}
	p.line("\nOUTLIERS")
	var rows [][]string
	for _, o := range outliers[:min(len(outliers), mostOutliers)] {
		rows = append(rows, []string{
			fmt.Sprintf("%s:%d", file, o.Line), o.Class, fmt.Sprintf("%.4g", o.Measured), fmt.Sprintf("%.4g", o.Modelled),
			fmt.Sprintf("%+.0f %%", 100*(o.Modelled/o.Measured-1)), o.Shape,
		})
	}
	p.table([]string{"row", "class", "measured us", "modelled us", "error", "shape"}, rows)
	if more := len(outliers) - mostOutliers; more > 0 {
		p.line("and %d more: --json lists them all", more)
	}
}

func constantRow(class string, k calibrate.ConstantResult) []string {
	name := k.Name
	if k.Unit != "" {
		name += ", " + k.Unit
	}
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	if k.Kept != "" {
		return []string{class, name, number(k.Base), "kept", "", k.Kept}
	}
	return []string{class, name, number(k.Base), number(k.Value), number(k.StdError), k.Remark}
}

func percents(e *calibrate.Errors) string {
	if e == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f / %.1f", e.Median, e.P95)
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// table writes a listing and keeps the first error.
func (p *printer) table(header []string, rows [][]string) {
	if p.err == nil {
		p.err = writeTable(p.w, header, rows)
	}
}
