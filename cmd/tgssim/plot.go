package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tgssim/tgssim/internal/atomicfile"
	"github.com/tgssim/tgssim/plot"
)

type plotFlags struct {
	request plot.Request
	out     string
	list    bool
}

func newPlot() *cobra.Command {
	var f plotFlags
	cmd := &cobra.Command{
		Use:   "plot DIR...",
		Short: "Draw a picture of sweeps or runs, as SVG or PNG",
		Long: `Draw a picture of the folders of sweeps or runs: one of the presets, or any
columns against another. Columns are those of sweep.csv, the keys of summary.json
and the keys of the scenario. Replications become means with 95 % confidence
intervals; what the caption says of model, GPU, fabric, seed and version comes
from the folders. Equal folders give equal bytes. docs/plots.md shows them all.

Exit codes: 0 done, 1 failure, 2 invalid input or missing data.`,
		Example: `  tgssim plot --list
  tgssim plot out/study --preset tgs-vs-size
  tgssim plot out/study --x gpus --y p99_ttft_ms --by fabric -o ttft.png
  tgssim plot out/a out/b --preset ttft-cdf -o ttft.svg`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 && !f.list {
				return invalid(errors.New("tgssim plot needs the folder of a sweep or a run; see `tgssim plot --help`"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.request.Preset, "preset", "", "the `name` of a picture; --list shows them")
	flags.StringVar(&f.request.X, "x", "", "the `column` of the horizontal axis")
	flags.StringSliceVar(&f.request.Y, "y", nil, "the `column` of the vertical axis; several make panels")
	flags.StringSliceVar(&f.request.By, "by", nil, "the `columns` whose values make the lines (default: the axes that x leaves open)")
	flags.StringArrayVar(&f.request.Where, "where", nil, "keep the runs that have a value: `column=value,value` (repeatable)")
	flags.StringVarP(&f.out, "out", "o", "", "the `file`, .svg or .png (default: beside the first folder)")
	flags.StringVar(&f.request.Title, "title", "", "the `title` instead of the picture's own")
	flags.StringVar(&f.request.Log, "log", "", "logarithmic `axes`: x, y, xy or none (default: by the range)")
	flags.BoolVar(&f.request.Zoom, "zoom", false, "fit the vertical axis to the values instead of beginning at 0")
	flags.BoolVar(&f.list, "list", false, "list the presets and what each needs")
	return cmd
}

func (f *plotFlags) run(cmd *cobra.Command, dirs []string) error {
	if f.list {
		var rows [][]string
		for _, p := range plot.Presets() {
			rows = append(rows, []string{p.Name, p.Shows + ". Needs " + p.Needs})
		}
		return writeTable(cmd.OutOrStdout(), []string{"preset", "picture"}, rows)
	}
	out, err := f.target(cmd, dirs)
	if err != nil {
		return invalid(err)
	}
	f.request.Dirs = dirs
	picture, err := plot.Make(f.request)
	if err != nil {
		return invalid(err)
	}
	data, err := picture.Encode(out)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	if err := atomicfile.File(out, atomicfile.Bytes(data)); err != nil {
		return err
	}
	q := &printer{w: cmd.OutOrStdout()}
	for _, note := range picture.Notes() {
		q.line("note: %s", note)
	}
	q.line("The picture is in %s", out)
	return q.err
}

// target is the file of the picture.
func (f *plotFlags) target(cmd *cobra.Command, dirs []string) (string, error) {
	if cmd.Flags().Changed("out") {
		if !slices.Contains(plot.Formats(), strings.ToLower(filepath.Ext(f.out))) {
			return "", fmt.Errorf("-o %s: a picture ends in %s", f.out, strings.Join(plot.Formats(), " or "))
		}
	} else {
		name := f.request.Preset
		if name == "" {
			name = strings.Join(append(slices.Clone(f.request.Y), "vs", f.request.X), "-")
		}
		f.out = filepath.Clean(dirs[0]) + "-" + strings.NewReplacer("/", "-", "\\", "-").Replace(name) + ".svg"
	}
	// Folders of sweeps and runs hold their own files only: another one keeps them
	// from being made again.
	for _, dir := range dirs {
		if rest, err := filepath.Rel(dir, f.out); err == nil && filepath.IsLocal(rest) {
			return "", fmt.Errorf("-o %s: %s is for the files of its sweep or run; write the picture beside it", f.out, dir)
		}
	}
	return f.out, nil
}
