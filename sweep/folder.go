package sweep

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
	"slices"
	"strings"

	"github.com/tgssim/tgssim/internal/atomicfile"
	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/scenarios"
)

// The files of a sweep's folder.
const (
	ScenarioFile = "scenario.yaml"
	JournalFile  = "sweep.journal"
	CSVFile      = "sweep.csv"
	JSONFile     = "sweep.jsonl"
	ParquetFile  = "sweep.parquet"
	TimingFile   = "timing.csv"
	ManifestFile = "manifest.json"
	PointsFolder = "points"
)

// A Manifest says what a sweep's folder is and what it holds. It is written last:
// where there is one, the sweep is complete.
type Manifest struct {
	identity
	// Points and Runs count what was planned, Failed the runs without results.
	Points int `json:"points"`
	Runs   int `json:"runs"`
	Failed int `json:"failed"`
	// Files lists the files that do not depend on the clock or the number of
	// workers: all but the journal, timing.csv and the manifest itself.
	Files []Entry `json:"files"`
}

// An Entry is one file of a manifest.
type Entry struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// An identity is what the results depend on.
type identity struct {
	Tool           string   `json:"tool"`
	Kind           string   `json:"kind"`
	Format         int      `json:"format"`
	Version        string   `json:"version"`
	Scenario       string   `json:"scenario"`
	ScenarioSHA256 string   `json:"scenario_sha256"`
	Seed           uint64   `json:"seed"`
	Mode           string   `json:"mode"`
	Replications   int      `json:"replications"`
	Axes           []axisID `json:"axes"`
	Inputs         []Entry  `json:"inputs,omitempty"`
}

type axisID struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
}

// identify works out the identity and the text of the scenario file.
func (p *Plan) identify(version string) (identity, []byte, error) {
	text, err := p.Text()
	if err != nil {
		return identity{}, nil, err
	}
	id := identity{
		Tool: "tgssim", Kind: "sweep", Format: 1, Version: version,
		Scenario: p.Name, ScenarioSHA256: hash(text), Seed: p.study.Seed(),
		Mode: p.Mode, Replications: p.Replications, Axes: []axisID{},
	}
	for i := range p.Axes {
		id.Axes = append(id.Axes, axisID{p.Axes[i].Name, p.Axes[i].Labels()})
	}
	var names []string
	for point := range p.Points {
		for _, name := range p.study.Files(p.settings(point)...) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if e, err := hashFile(name); err == nil { // or else the point says so
			id.Inputs = append(id.Inputs, e)
		}
	}
	return id, text, nil
}

// hashFile takes the measure of a file.
func hashFile(name string) (Entry, error) {
	e := Entry{Name: name}
	if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
		return e, fmt.Errorf("%s is not a regular file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return e, err
	}
	defer f.Close()
	h := sha256.New()
	e.Bytes, err = io.Copy(h, f)
	e.SHA256 = hex.EncodeToString(h.Sum(nil))
	return e, err
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// A Folder is where a sweep goes, ready to be filled.
type Folder struct {
	dir     string
	plan    *Plan
	id      identity
	text    []byte
	journal *journal
}

// Open makes a folder ready for the plan. Without resume, an unfinished sweep in
// it and files of others are refused, and a complete sweep is replaced; with
// resume, what an earlier sweep of the same plan has done counts as done, and one
// of another plan is refused with what differs. Close it when done.
func (p *Plan) Open(dir, version string, resume bool) (*Folder, error) {
	f := &Folder{dir: dir, plan: p}
	var err error
	if f.id, f.text, err = p.identify(version); err != nil {
		return nil, err
	}
	if err := f.judge(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, PointsFolder), 0o755); err != nil {
		return nil, err
	}
	if err := f.tidy(); err != nil {
		return nil, err
	}
	old, id, err := openJournal(f.path(JournalFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f, f.begin()
	case err != nil:
		return nil, err
	case resume:
		f.journal = old
		if err := f.compare(id); err != nil {
			return nil, errors.Join(fmt.Errorf("%s cannot be resumed: %w", dir, err), old.close())
		}
		if err := old.read(p); err != nil {
			return nil, errors.Join(fmt.Errorf("%s cannot be resumed: %w", dir, err), old.close())
		}
		if _, err := os.Stat(f.path(ManifestFile)); err == nil && f.Finished() < p.Runs() {
			if err := f.clear(); err != nil { // it was killed while it replaced another
				return nil, errors.Join(err, old.close())
			}
		}
		return f, f.writeScenario()
	}
	if _, err := os.Stat(f.path(ManifestFile)); err != nil {
		return nil, errors.Join(fmt.Errorf("%s holds an unfinished sweep: go on with --resume, remove it, or choose another folder", dir), old.close())
	}
	if err = f.begin(); err == nil {
		err = f.clear()
	}
	return f, errors.Join(err, old.close())
}

func (f *Folder) path(name string) string { return filepath.Join(f.dir, name) }

// own lists the names that a sweep's folder may hold.
var own = []string{ScenarioFile, JournalFile, CSVFile, JSONFile, ParquetFile, TimingFile, ManifestFile, PointsFolder}

// judge refuses a folder that holds anything else.
func (f *Folder) judge() error {
	info, err := os.Stat(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is a file; a sweep is written to a folder", f.dir)
	}
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return err
	}
	_, err = os.Stat(f.path(JournalFile))
	for _, e := range entries {
		ours := slices.Contains(own, e.Name())
		if err != nil { // a sweep that has not begun has nothing but this
			ours = e.Name() == PointsFolder && e.IsDir()
		}
		if !ours && !isTemporary(e.Name()) {
			return fmt.Errorf("%s holds %s, which is not of a sweep: choose another folder, or move it", f.dir, e.Name())
		}
	}
	return nil
}

// isTemporary tells a file that a killed process has left half written.
func isTemporary(name string) bool {
	return strings.HasPrefix(name, ".") && strings.Contains(name, ".tmp-")
}

// tidy removes what a killed process has left half written.
func (f *Folder) tidy() error {
	for _, dir := range []string{f.dir, f.path(PointsFolder)} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if isTemporary(e.Name()) {
				if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// clear removes the results of the sweep that was there before, its manifest last:
// as long as that is there, some of them may be.
func (f *Folder) clear() error {
	for _, name := range []string{CSVFile, JSONFile, ParquetFile, TimingFile, PointsFolder, ManifestFile} {
		if err := os.RemoveAll(f.path(name)); err != nil {
			return err
		}
	}
	return os.MkdirAll(f.path(PointsFolder), 0o755)
}

// begin starts a sweep. The journal comes first, in place of an earlier one: what
// is in a folder without one is not ours.
func (f *Folder) begin() (err error) {
	if f.journal, err = createJournal(f.path(JournalFile), f.id, f.plan.Runs()); err != nil {
		return err
	}
	return f.writeScenario()
}

// writeScenario writes the scenario file, unless it is there.
func (f *Folder) writeScenario() error {
	if e, err := hashFile(f.path(ScenarioFile)); err == nil && e.SHA256 == f.id.ScenarioSHA256 {
		return nil
	}
	return atomicfile.File(f.path(ScenarioFile), atomicfile.Bytes(f.text))
}

// compare names the first thing in which the sweep of the folder differs.
func (f *Folder) compare(old identity) error {
	now := f.id
	switch {
	case old.Tool != now.Tool || old.Kind != now.Kind || old.Format != now.Format:
		return errors.New("it was written in another format")
	case old.Version != now.Version:
		return fmt.Errorf("it was made by version %s, and this is %s", old.Version, now.Version)
	case old.Mode != now.Mode:
		return fmt.Errorf("its axes are combined by %s, not %s", old.Mode, now.Mode)
	case old.Replications != now.Replications:
		return fmt.Errorf("it has %d replications, not %d", old.Replications, now.Replications)
	}
	for i := range max(len(old.Axes), len(now.Axes)) {
		switch {
		case i >= len(old.Axes):
			return fmt.Errorf("it has no axis %s", now.Axes[i].Name)
		case i >= len(now.Axes):
			return fmt.Errorf("it has an axis %s", old.Axes[i].Name)
		case old.Axes[i].Name != now.Axes[i].Name:
			return fmt.Errorf("its axis %d is %s, not %s", i+1, old.Axes[i].Name, now.Axes[i].Name)
		case !slices.Equal(old.Axes[i].Values, now.Axes[i].Values):
			return fmt.Errorf("its axis %s has the values %s, not %s", now.Axes[i].Name,
				strings.Join(old.Axes[i].Values, ", "), strings.Join(now.Axes[i].Values, ", "))
		}
	}
	if old.ScenarioSHA256 != now.ScenarioSHA256 {
		return f.compareTexts()
	}
	if !slices.Equal(old.Inputs, now.Inputs) {
		return fmt.Errorf("the files that it reads have changed since: %s", changed(old.Inputs, now.Inputs))
	}
	return nil
}

// changed names the first file that is not in both lists alike.
func changed(old, now []Entry) string {
	for _, e := range append(slices.Clone(now), old...) {
		if !slices.Contains(old, e) || !slices.Contains(now, e) {
			return e.Name
		}
	}
	return ""
}

// compareTexts names the first key in which the scenarios differ.
func (f *Folder) compareTexts() error {
	text, err := os.ReadFile(f.path(ScenarioFile))
	if err != nil {
		return fmt.Errorf("its scenario is another, and its %s is gone", ScenarioFile)
	}
	old, err := config.Parse(ScenarioFile, text)
	if err != nil {
		return fmt.Errorf("its scenario is another, and its %s cannot be read: %w", ScenarioFile, err)
	}
	now, err := config.Parse(ScenarioFile, f.text)
	if err != nil {
		return err
	}
	if key, a, b := difference("", old.Value(""), now.Value("")); key != "" {
		return fmt.Errorf("its scenario has %s %s, not %s", key, a, b)
	}
	return errors.New("its scenario is written in another way")
}

// difference finds the first key whose values differ.
func difference(at string, a, b config.Value) (key, old, now string) {
	if !a.IsMapping() || !b.IsMapping() {
		if a.Equal(b) {
			return "", "", ""
		}
		return at, orNone(a), orNone(b)
	}
	for _, k := range append(a.Keys(), b.Keys()...) {
		path := k
		if at != "" {
			path = at + "." + k
		}
		if key, old, now := difference(path, a.Get(k), b.Get(k)); key != "" {
			return key, old, now
		}
	}
	return "", "", ""
}

func orNone(v config.Value) string {
	if !v.Written() {
		return "not written"
	}
	return v.String()
}

// Finished is the number of runs that are done.
func (f *Folder) Finished() int { return f.journal.finished }

// Close lets the folder go.
func (f *Folder) Close() error { return f.journal.close() }

// pointFile is the name of the file of a point's scenario.
func pointFile(point int) string { return fmt.Sprintf("%s/%05d.yaml", PointsFolder, point) }

// writePoint writes the scenario of a point, every default and derived value in
// it, and returns its hash. Write makes sure that it has reached the disk.
func (f *Folder) writePoint(point int, s *scenarios.Scenario) (sha256 string, err error) {
	resolved, err := s.Resolved()
	if err != nil {
		return "", err
	}
	return hash(resolved), os.WriteFile(f.path(pointFile(point)), resolved, 0o644)
}

// checkPoint makes the file of a point anew if it is not what the journal says it
// is, as after a power failure. Points without a scenario have no file.
func (f *Folder) checkPoint(point int) (e Entry, written bool, err error) {
	o, err := f.journal.outcome(f.plan.runOf(point, 0))
	if err != nil || o.Scenario == "" {
		return e, false, err
	}
	e, err = hashFile(f.path(pointFile(point)))
	if err != nil || e.SHA256 != o.Scenario {
		s, err := f.plan.Scenario(point)
		if err != nil {
			return e, false, err
		}
		if _, err := f.writePoint(point, s); err != nil {
			return e, false, err
		}
		if e, err = hashFile(f.path(pointFile(point))); err != nil {
			return e, false, err
		}
	}
	e.Name = pointFile(point)
	return e, true, nil
}

func readManifest(name string) (*Manifest, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	m := new(Manifest)
	return m, json.Unmarshal(text, m)
}

// Write writes the results of a complete sweep, the manifest last; a Parquet file
// when it is asked for.
func (f *Folder) Write(parquet bool) error {
	if f.Finished() != f.plan.Runs() {
		return fmt.Errorf("%d of %d runs are done", f.Finished(), f.plan.Runs())
	}
	m := Manifest{identity: f.id, Points: len(f.plan.Points), Runs: f.plan.Runs(), Files: []Entry{}}
	for _, name := range []string{ManifestFile, ParquetFile} {
		if err := os.Remove(f.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	note := func(name string) error {
		e, err := hashFile(f.path(name))
		e.Name = name
		m.Files = append(m.Files, e)
		return err
	}
	err := atomicfile.File(f.path(JSONFile), f.writeJSON)
	if err == nil {
		err = atomicfile.File(f.path(CSVFile), func(w io.Writer) error { return f.writeCSV(w, &m.Failed) })
	}
	if err == nil {
		err = atomicfile.File(f.path(TimingFile), f.writeTiming)
	}
	names := []string{ScenarioFile, CSVFile, JSONFile}
	if err == nil && parquet {
		names = append(names, ParquetFile)
		err = atomicfile.File(f.path(ParquetFile), f.writeParquet)
	}
	for _, name := range names {
		if err == nil {
			err = note(name)
		}
	}
	if err != nil {
		return err
	}
	for point := range f.plan.Points {
		e, written, err := f.checkPoint(point)
		if err != nil {
			return err
		}
		if written {
			m.Files = append(m.Files, e)
		}
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(m); err != nil {
		return err
	}
	return atomicfile.File(f.path(ManifestFile), atomicfile.Bytes(out.Bytes()))
}
