package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/tgssim/tgssim/internal/atomicfile"
	"github.com/tgssim/tgssim/metrics"
)

// A Run is a finished run as it is reported and kept.
type Run struct {
	// Name is the scenario's name and Scenario its resolved text, defaults and
	// all, which is written to scenario.yaml.
	Name     string
	Scenario []byte
	// Version is tgssim's.
	Version     string
	Seed        uint64
	Fingerprint uint64
	Events      uint64
	Result      *metrics.Result
	// Timing is the wall-clock side of the run; nil writes no timing.json.
	Timing *Timing
	// Inputs are the files that the scenario reads, such as a trace: their content
	// is part of what the run depends on.
	Inputs []ManifestEntry
	// Extra are further files for the run folder, such as plots. They must be as
	// reproducible as the rest.
	Extra []File
}

// A File is a named file of a run folder.
type File struct {
	// Name has no directory in it.
	Name string
	Data []byte
}

// A Timing is what a run took. It is the only thing in a run folder that differs
// between two runs of the same scenario, and has a file of its own.
type Timing struct {
	Started time.Time
	Wall    time.Duration
}

// The names of the files of a run folder.
const (
	ManifestFile = "manifest.json"
	TimingFile   = "timing.json"
	ScenarioFile = "scenario.yaml"
	SummaryFile  = "summary.json"
	RequestsFile = "requests.csv"
	FlowsFile    = "flows.csv"
	LinksFile    = "links.csv"
	SeriesFile   = "timeseries.csv"
	StepsFile    = "steps.csv"
)

// tool marks a manifest as ours, format the layout of the folder.
const (
	tool   = "tgssim"
	format = 1
)

// A Manifest says what a run folder is and what it holds. Two runs of the same
// version and scenario have equal manifests, on every machine.
type Manifest struct {
	Tool           string `json:"tool"`
	Format         int    `json:"format"`
	Version        string `json:"version"`
	Scenario       string `json:"scenario"`
	ScenarioSHA256 string `json:"scenario_sha256"`
	Seed           uint64 `json:"seed"`
	// Fingerprint is the hash of the trajectory, 16 hexadecimal digits.
	Fingerprint string `json:"fingerprint"`
	Events      uint64 `json:"events"`
	// Inputs lists the files that the scenario read.
	Inputs []ManifestEntry `json:"inputs,omitempty"`
	// Files lists the files in the order written; the manifest itself and
	// timing.json are not in it.
	Files []ManifestEntry `json:"files"`
}

// A ManifestEntry is one file of a run folder, or one that a scenario reads.
type ManifestEntry struct {
	// Name is the file's name, or for an input its path as the scenario has it.
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// timingJSON is the form of timing.json.
type timingJSON struct {
	Started      string  `json:"started"`
	WallS        float64 `json:"wall_s"`
	EventsPerS   float64 `json:"events_per_s"`
	SimulatedS   float64 `json:"simulated_s"`
	SpeedOverSim float64 `json:"simulated_over_wall"`
	Go           string  `json:"go"`
	OS           string  `json:"os"`
	Arch         string  `json:"arch"`
	CPUs         int     `json:"cpus"`
}

// WriteRun writes a run folder, whole or not at all. A folder that holds an
// earlier run is replaced as a whole; any other that is not empty is refused.
func WriteRun(dir string, r Run) error {
	if r.Result == nil {
		return errors.New("report: a run without a result")
	}
	target, err := place(dir)
	if err != nil {
		return err
	}
	return atomicfile.Folder(target, func(tmp string) error {
		f := folder{dir: tmp}
		f.writeAll(&r)
		if f.err != nil {
			return fmt.Errorf("writing %s: %w", dir, f.err)
		}
		return nil
	})
}

// place finds the folder that dir means and makes sure that it may be replaced.
func place(dir string) (string, error) {
	target, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if resolved, err := filepath.EvalSymlinks(target); err == nil {
		target = resolved
	}
	if filepath.Dir(target) == target {
		return "", fmt.Errorf("%s: a run folder cannot be the root of a file system", dir)
	}
	info, err := os.Stat(target)
	if errors.Is(err, fs.ErrNotExist) {
		return target, nil
	}
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", fmt.Errorf("%s is a file; a run is written to a folder", dir)
	}
	entries, err := os.ReadDir(target)
	if err != nil {
		return "", err
	}
	if len(entries) == 0 {
		return target, nil
	}
	m, err := ReadManifest(target)
	if err != nil {
		return "", fmt.Errorf("%s is not empty and not a run of tgssim (%w): choose another folder, or empty it", dir, err)
	}
	for _, e := range entries {
		if !m.lists(e.Name()) {
			return "", fmt.Errorf("%s holds a run and also %s, which would be lost: move it, or choose another folder", dir, e.Name())
		}
	}
	return target, nil
}

// lists tells whether a file is part of the run folder.
func (m *Manifest) lists(name string) bool {
	return name == ManifestFile || name == TimingFile ||
		slices.ContainsFunc(m.Files, func(e ManifestEntry) bool { return e.Name == name })
}

// ReadManifest reads the manifest of a run folder. It fails when there is none,
// or one that is not tgssim's.
func ReadManifest(dir string) (*Manifest, error) {
	text, err := os.ReadFile(filepath.Join(dir, ManifestFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("it has no %s", ManifestFile)
	}
	if err != nil {
		return nil, err
	}
	return parseManifest(text)
}

func parseManifest(text []byte) (*Manifest, error) {
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("%s: %w", ManifestFile, err)
	}
	if m.Tool != tool {
		return nil, fmt.Errorf("its %s was not written by tgssim", ManifestFile)
	}
	if m.Format < 1 || m.Format > format {
		return nil, fmt.Errorf("its %s has format %d; this version knows 1 to %d", ManifestFile, m.Format, format)
	}
	return &m, nil
}

// A folder is a run folder being written; the first error stops it.
type folder struct {
	dir   string
	files []ManifestEntry
	err   error
}

func (f *folder) writeAll(r *Run) {
	res := r.Result
	if r.Scenario != nil {
		f.bytes(ScenarioFile, r.Scenario)
	}
	f.json(SummaryFile, res.Summary)
	f.file(RequestsFile, func(w io.Writer) error {
		return writeCSV(w, requestColumns(), len(res.Requests), func(i int) requestRow {
			return requestRow{&res.Requests[i], res}
		})
	})
	f.file(FlowsFile, func(w io.Writer) error {
		return writeCSV(w, flowColumns(), len(res.Transfers), pick(res.Transfers))
	})
	f.file(LinksFile, func(w io.Writer) error {
		return writeCSV(w, linkColumns(), len(res.Links.All), pick(res.Links.All))
	})
	f.file(SeriesFile, func(w io.Writer) error {
		return writeCSV(w, seriesColumns(), len(res.Series), pick(res.Series))
	})
	if res.Config.Steps {
		f.file(StepsFile, func(w io.Writer) error {
			return writeCSV(w, stepColumns(), len(res.Steps), pick(res.Steps))
		})
	}
	for _, e := range r.Extra {
		f.extra(e)
	}
	sum := sha256.Sum256(r.Scenario)
	listed := f.files
	f.json(ManifestFile, Manifest{
		Tool: tool, Format: format, Version: r.Version, Scenario: r.Name, ScenarioSHA256: hex.EncodeToString(sum[:]),
		Seed: r.Seed, Fingerprint: fmt.Sprintf("%016x", r.Fingerprint), Events: r.Events, Inputs: r.Inputs, Files: listed,
	})
	if r.Timing != nil {
		f.json(TimingFile, r.timing())
	}
}

func pick[T any](rows []T) func(i int) *T { return func(i int) *T { return &rows[i] } }

// timing completes the timing with what follows from it.
func (r *Run) timing() timingJSON {
	t := timingJSON{
		Started: r.Timing.Started.Format(time.RFC3339), WallS: r.Timing.Wall.Seconds(),
		SimulatedS: r.Result.Whole.To.Seconds(),
		Go:         runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(),
	}
	if t.WallS > 0 {
		t.EventsPerS = float64(r.Events) / t.WallS
		t.SpeedOverSim = t.SimulatedS / t.WallS
	}
	return t
}

// file writes one file and takes its measure.
func (f *folder) file(name string, write func(w io.Writer) error) {
	if f.err != nil {
		return
	}
	out, err := os.OpenFile(filepath.Join(f.dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		f.err = err
		return
	}
	hash, size := sha256.New(), counter(0)
	err = write(io.MultiWriter(out, hash, &size))
	if f.err = errors.Join(err, out.Close()); f.err == nil {
		f.files = append(f.files, ManifestEntry{Name: name, Bytes: int64(size), SHA256: hex.EncodeToString(hash.Sum(nil))})
	}
}

func (f *folder) bytes(name string, data []byte) {
	f.file(name, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// json writes indented JSON, with < and > as they are.
func (f *folder) json(name string, v any) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		f.err = errors.Join(f.err, err)
		return
	}
	f.bytes(name, text.Bytes())
}

// extra writes a further file, if its name is one and not taken.
func (f *folder) extra(e File) {
	reserved := []string{
		ManifestFile, TimingFile, ScenarioFile, SummaryFile, RequestsFile, FlowsFile, LinksFile, SeriesFile, StepsFile,
	}
	if e.Name != filepath.Base(e.Name) || e.Name == "." || e.Name == ".." || slices.Contains(reserved, e.Name) {
		f.err = errors.Join(f.err, fmt.Errorf("%q cannot be the name of a further file", e.Name))
		return
	}
	f.bytes(e.Name, e.Data)
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
