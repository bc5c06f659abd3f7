package plot

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/report"
	"github.com/tgssim/tgssim/sweep"
)

// A folder is a sweep or a run on the disk.
type folder struct {
	dir, name string
	run       bool // not a sweep
	version   string
	scenario  string
	seed      uint64
	runs      int // that a sweep has; 0 is not known
}

// A row is one run, of a sweep or by itself.
type row struct {
	folder             *folder
	point, replication int
	// failure is why it has no results.
	failure string
	// cells are the columns of the folder by name, "" where undefined.
	cells map[string]string
	// settings is the resolved scenario; nil where none could be resolved.
	settings *config.Tree
}

// A table is the runs of all folders.
type table struct {
	folders []*folder
	rows    []row
	// columns are the names of all cells in the order in which they were met.
	columns []string
	// axes are the columns that are axes of a sweep.
	axes []string
}

// Columns that no folder has: the name of the row's folder.
const folderColumn = "folder"

// openFolder finds out what a folder is.
func openFolder(dir string) (*folder, error) {
	f := &folder{dir: dir, name: filepath.Base(filepath.Clean(dir))}
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist; `tgssim sweep` and `tgssim run` write folders", dir)
	}
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is a file; a picture is made from the folder of a sweep or a run", dir)
	}
	text, err := os.ReadFile(filepath.Join(dir, sweep.ManifestFile))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(dir, sweep.JournalFile)); err == nil {
			return nil, fmt.Errorf("%s holds an unfinished sweep; `tgssim sweep ... -o %s --resume` finishes it", dir, dir)
		}
		return nil, fmt.Errorf("%s has no %s, so it is no folder of `tgssim sweep` or `tgssim run`", dir, sweep.ManifestFile)
	}
	if err != nil {
		return nil, err
	}
	var m struct {
		Kind string `json:"kind"`
		Runs int    `json:"runs"`
		report.Manifest
	}
	if err := json.Unmarshal(text, &m); err != nil || m.Tool != "tgssim" {
		return nil, fmt.Errorf("%s was not written by tgssim", filepath.Join(dir, sweep.ManifestFile))
	}
	f.run, f.version, f.scenario, f.seed, f.runs = m.Kind == "", m.Version, m.Scenario, m.Seed, m.Runs
	return f, nil
}

// open reads the runs of all folders.
func open(dirs []string) (*table, error) {
	t := &table{}
	for _, dir := range dirs {
		f, err := openFolder(dir)
		if err != nil {
			return nil, err
		}
		for _, g := range t.folders {
			switch {
			case filepath.Clean(g.dir) == filepath.Clean(dir):
				return nil, fmt.Errorf("%s is given twice", dir)
			case g.name == f.name:
				f.name = filepath.Clean(dir) // apart from its namesake
			}
		}
		t.folders = append(t.folders, f)
		read := t.readSweep
		if f.run {
			read = t.readRun
		}
		if err := read(f); err != nil {
			return nil, err
		}
	}
	for i := range t.rows {
		t.rows[i].cells[folderColumn] = t.rows[i].folder.name
	}
	return t, nil
}

func (t *table) column(name string) {
	if !slices.Contains(t.columns, name) {
		t.columns = append(t.columns, name)
	}
}

func (t *table) axis(name string) {
	t.column(name)
	if !slices.Contains(t.axes, name) {
		t.axes = append(t.axes, name)
	}
}

// maxFile is the size in bytes of the largest file that is read whole.
const maxFile = 1 << 30

func readFile(dir, name, command string) ([]byte, error) {
	path := filepath.Join(dir, name)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no %s; %s writes it", dir, name, command)
	}
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%s has %d bytes; the most that is read is %d", path, info.Size(), maxFile)
	}
	return os.ReadFile(path)
}

// readSweep reads sweep.jsonl, which has every measure, or sweep.csv where only
// that was kept.
func (t *table) readSweep(f *folder) error {
	text, err := os.ReadFile(filepath.Join(f.dir, sweep.JSONFile))
	name, read := sweep.JSONFile, t.readJSON
	if errors.Is(err, fs.ErrNotExist) {
		name, read = sweep.CSVFile, t.readTable
		text, err = readFile(f.dir, sweep.CSVFile, "`tgssim sweep`")
	}
	if err != nil {
		return err
	}
	first := len(t.rows)
	if err := read(f, text); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(f.dir, name), err)
	}
	if n := len(t.rows) - first; f.runs > 0 && n != f.runs {
		return fmt.Errorf("%s has %s of the sweep's %d: it is not whole", filepath.Join(f.dir, name), plural(n, "run"), f.runs)
	}
	trees := map[int]*config.Tree{}
	for i := range t.rows[first:] {
		r := &t.rows[first+i]
		if _, ok := trees[r.point]; !ok {
			trees[r.point] = readSettings(filepath.Join(f.dir, sweep.PointsFolder, fmt.Sprintf("%05d.yaml", r.point)))
		}
		r.settings = trees[r.point]
	}
	return nil
}

// readSettings reads a resolved scenario; nil where there is none.
func readSettings(path string) *config.Tree {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	tree, err := config.Parse(path, text)
	if err != nil {
		return nil
	}
	return tree
}

// readJSON reads sweep.jsonl.
func (t *table) readJSON(f *folder, text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	for n := 1; ; n++ {
		var x struct {
			Point, Replication int
			Axes               json.RawMessage
			Seed               json.RawMessage
			Cluster            json.RawMessage
			Fingerprint        json.RawMessage
			Events             json.RawMessage
			Error              *string
			Summary            json.RawMessage
		}
		err := d.Decode(&x)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("run %d: %w", n, err)
		}
		if x.Point < 0 || x.Replication < 0 {
			return fmt.Errorf("run %d: point %d, replication %d", n, x.Point, x.Replication)
		}
		r := row{folder: f, point: x.Point, replication: x.Replication, cells: map[string]string{}}
		if x.Error != nil {
			r.failure = *x.Error
		}
		for i, object := range []json.RawMessage{x.Axes, x.Cluster, x.Summary} {
			note := t.column
			if i == 0 {
				note = t.axis
			}
			if err := flatten(object, r.cells, note); err != nil {
				return fmt.Errorf("run %d: %w", n, err)
			}
		}
		t.complete(&r)
	}
}

// flatten puts the members of an object that are numbers, words or true or false
// into cells, and those of objects in it as "a.b".
func flatten(object json.RawMessage, cells map[string]string, note func(string)) error {
	if len(object) == 0 || string(object) == "null" {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(object))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.New("an object is missing")
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		name, ok := key.(string)
		if !ok {
			return errors.New("an object has a key that is no text")
		}
		var value any
		if err := d.Decode(&value); err != nil {
			return err
		}
		switch v := value.(type) {
		case json.Number:
			cells[name] = v.String()
		case string:
			cells[name] = v
		case bool:
			cells[name] = strconv.FormatBool(v)
		case nil:
			cells[name] = ""
		default:
			continue
		}
		note(name)
	}
	return nil
}

// complete adds what follows from the measures of a row, and the row.
func (t *table) complete(r *row) {
	const userRate = "tokens_per_s_per_user"
	if tpot, ok := parseNumber(r.cells["mean_tpot_ms"]); ok && tpot > 0 {
		if _, there := r.cells[userRate]; !there {
			r.cells[userRate] = strconv.FormatFloat(1e3/tpot, 'f', -1, 64)
			t.column(userRate)
		}
	}
	t.rows = append(t.rows, *r)
}

// readTable reads sweep.csv. Columns between replication and seed are the axes.
func (t *table) readTable(f *folder, text []byte) error {
	c, err := newTableReader(text, "point", "replication", "seed", "error")
	if err != nil {
		return err
	}
	seed := c.index["seed"]
	for i, name := range c.header {
		switch {
		case i == c.index["point"] || i == c.index["replication"] || name == "error":
		case i < seed:
			t.axis(name)
		default:
			t.column(name)
		}
	}
	return c.rows(func(line int, record []string) error {
		r := row{folder: f, failure: record[c.index["error"]], cells: map[string]string{}}
		for i, name := range c.header {
			r.cells[name] = record[i]
		}
		delete(r.cells, "error")
		var e1, e2 error
		r.point, e1 = strconv.Atoi(r.cells["point"])
		r.replication, e2 = strconv.Atoi(r.cells["replication"])
		if e1 != nil || e2 != nil || r.point < 0 || r.replication < 0 {
			return fmt.Errorf("line %d: point %q, replication %q", line, r.cells["point"], r.cells["replication"])
		}
		t.complete(&r)
		return nil
	})
}

// readRun makes one row of the folder of a run.
func (t *table) readRun(f *folder) error {
	text, err := readFile(f.dir, report.SummaryFile, "`tgssim run`")
	if err != nil {
		return err
	}
	r := row{folder: f, cells: map[string]string{}, settings: readSettings(filepath.Join(f.dir, report.ScenarioFile))}
	if err := flatten(text, r.cells, t.column); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(f.dir, report.SummaryFile), err)
	}
	t.complete(&r)
	return nil
}

// A tableReader reads a CSV file with a header.
type tableReader struct {
	csv    *csv.Reader
	header []string
	index  map[string]int
}

// newTableReader checks that the columns are there.
func newTableReader(text []byte, columns ...string) (*tableReader, error) {
	c := &tableReader{csv: csv.NewReader(bytes.NewReader(text)), index: map[string]int{}}
	c.csv.ReuseRecord = true
	header, err := c.csv.Read()
	if err == io.EOF {
		return nil, errors.New("it is empty")
	}
	if err != nil {
		return nil, err
	}
	c.header = slices.Clone(header)
	for i, name := range c.header {
		if _, twice := c.index[name]; twice {
			return nil, fmt.Errorf("it has two columns %s", name)
		}
		c.index[name] = i
	}
	for _, name := range columns {
		if _, ok := c.index[name]; !ok {
			return nil, fmt.Errorf("it has no column %s%s", name, config.Suggest(name, c.header))
		}
	}
	return c, nil
}

func (c *tableReader) rows(yield func(line int, record []string) error) error {
	for {
		record, err := c.csv.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		line, _ := c.csv.FieldPos(0)
		if err := yield(line, record); err != nil {
			return err
		}
	}
}

// extreme is the size beyond which a number is nonsense, and below the inverse of
// which it is 0: no axis reaches it.
const extreme = 1e60

func parseNumber(s string) (float64, bool) {
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || strings.ContainsAny(s, "xXpP_nN") || !(math.Abs(x) <= extreme) { // a decimal number
		return 0, false
	}
	if math.Abs(x) < 1/extreme {
		return 0, true
	}
	return x, true
}
