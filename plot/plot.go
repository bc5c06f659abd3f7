// Package plot draws the pictures of sweeps and runs: TGS against the size of
// the fabric, frontiers, distributions of latencies, where the time to the first
// token goes. It reads the folders that `tgssim sweep` and `tgssim run` write and
// computes nothing that they do not hold, means over replications and bins aside.
//
// Equal folders give equal bytes: there is no clock, no map order and no font of
// the machine in a picture.
package plot

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tgssim/tgssim/internal/config"
)

// A Request is what a picture is to show.
type Request struct {
	// Dirs are folders of sweeps or of runs, or both.
	Dirs []string
	// Preset is one of Presets, or "" for X against Y.
	Preset string
	// X and Y are columns; they replace the preset's. Several Y are drawn in panels
	// below each other.
	X string
	Y []string
	// By are the columns whose values make the series; empty leaves the choice to
	// the picture.
	By []string
	// Where keeps the runs that have the values: "column=value,value".
	Where []string
	// Title replaces the title.
	Title string
	// Log is the axes that are logarithmic: "x", "y", "xy" or "none"; "" decides by
	// the range.
	Log string
	// Zoom fits the vertical axis to the values, where it would begin at 0.
	Zoom bool
}

// A Picture is ready to be drawn.
type Picture struct {
	figure *figure
}

// Make reads the folders and composes the picture. What is wrong with the request
// or missing in the folders is said with the nearest name, or with the command
// that would write what is missing.
func Make(r Request) (*Picture, error) {
	p, err := r.preset()
	if err != nil {
		return nil, err
	}
	f, err := p.make(&r)
	if err != nil {
		return nil, err
	}
	if r.Title != "" {
		f.title = r.Title
	}
	return &Picture{f}, nil
}

// preset checks what needs no folder.
func (r *Request) preset() (*Preset, error) {
	if len(r.Dirs) == 0 {
		return nil, errors.New("a picture needs the folder of a sweep or a run")
	}
	if !slices.Contains([]string{"", "x", "y", "xy", "none"}, r.Log) {
		return nil, fmt.Errorf("--log %s is no choice of axes; use x, y, xy or none", r.Log)
	}
	if r.Preset == "" {
		if r.X == "" || len(r.Y) == 0 {
			return nil, fmt.Errorf("choose --preset (%s), or --x and --y", strings.Join(presetNames(), ", "))
		}
		return &Preset{kind: kindXY}, nil
	}
	i := slices.IndexFunc(presets, func(p Preset) bool { return p.Name == r.Preset })
	if i < 0 {
		return nil, fmt.Errorf("unknown preset %q%s", r.Preset, config.Suggest(r.Preset, presetNames()))
	}
	p := presets[i]
	if p.kind != kindXY && p.kind != kindFrontier && (r.X != "" || len(r.Y) > 0) {
		return nil, fmt.Errorf("--preset %s has its own axes; leave out --x and --y", p.Name)
	}
	return &p, nil
}

// Formats are the endings of a picture's file.
func Formats() []string { return []string{".svg", ".png"} }

// Encode draws the picture in the format of the file's name.
func (p *Picture) Encode(name string) ([]byte, error) {
	var out bytes.Buffer
	var err error
	switch ext := strings.ToLower(filepath.Ext(name)); ext {
	case ".svg":
		err = p.figure.svg(&out)
	case ".png":
		err = p.figure.png(&out)
	default:
		err = fmt.Errorf("%s: a picture ends in .svg or .png", name)
	}
	return out.Bytes(), err
}

// Notes are what the viewer should know: failed runs and what was left out.
func (p *Picture) Notes() []string { return slices.Clone(p.figure.notes) }
