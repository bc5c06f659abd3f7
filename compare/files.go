package compare

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tgssim/tgssim/internal/atomicfile"
)

// The files of a comparison's folder, beside A.yaml, B.yaml and so on, the resolved
// scenarios.
const (
	JSONFile = "compare.json"
	CSVFile  = "compare.csv"
)

// A number is rounded to ten significant digits: more would differ between CPUs,
// and means nothing.
type number float64

func (x number) String() string {
	v, _ := strconv.ParseFloat(strconv.FormatFloat(float64(x), 'g', 10, 64), 64)
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// MarshalJSON writes a decimal without an exponent.
func (x number) MarshalJSON() ([]byte, error) { return []byte(x.String()), nil }

// defined is a number, or null.
func defined(x float64, ok bool) *number {
	if !ok {
		return nil
	}
	n := number(x)
	return &n
}

type jsonResult struct {
	Tool         string        `json:"tool"`
	Kind         string        `json:"kind"`
	Version      string        `json:"version"`
	Seed         uint64        `json:"seed"`
	Replications int           `json:"replications"`
	Confidence   number        `json:"confidence"`
	Variants     []jsonVariant `json:"variants"`
	Pairs        []jsonPair    `json:"pairs"`
	Limits       []Judged      `json:"limits"`
	Warnings     []string      `json:"warnings"`
	Notes        []string      `json:"notes"`
	Runs         []jsonRun     `json:"runs"`
}

type jsonVariant struct {
	Variant     string       `json:"variant"`
	Label       string       `json:"label"`
	GPUs        int          `json:"gpus"`
	Differences []Difference `json:"differences"`
}

type jsonPair struct {
	Variant  string        `json:"variant"`
	Verdict  string        `json:"verdict"`
	Same     bool          `json:"same"`
	Measures []jsonMeasure `json:"measures"`
	// Undefined lists the measures that A or the variant does not have at all.
	Undefined []string `json:"undefined"`
}

type jsonMeasure struct {
	Measure      string  `json:"measure"`
	Replications int     `json:"replications"`
	A            number  `json:"a"`
	B            number  `json:"b"`
	Difference   number  `json:"difference"`
	Low          *number `json:"low"`
	High         *number `json:"high"`
	Relative     *number `json:"relative"`
	Detectable   *number `json:"detectable"`
	Significant  bool    `json:"significant"`
	Verdict      string  `json:"verdict"`
}

type jsonRun struct {
	Run
	Measures map[string]number `json:"measures"`
}

func (c *Compared) json() jsonMeasure {
	r, ok := c.Relative()
	some := c.N > 1
	return jsonMeasure{
		Measure: c.Key, Replications: c.N, A: number(c.A), B: number(c.B), Difference: number(c.Diff),
		Low: defined(c.Diff-c.Half, some), High: defined(c.Diff+c.Half, some), Relative: defined(r, ok),
		Detectable: defined(c.Detectable, some), Significant: c.Significant(), Verdict: c.Word(),
	}
}

// JSON writes the comparison as one object; docs/compare.md describes it.
func (r *Result) JSON(w io.Writer, version string) error {
	x := jsonResult{
		Tool: "tgssim", Kind: "compare", Version: version, Seed: r.Plan.Seed, Replications: r.Plan.Replications, Confidence: 0.95,
		Limits: append([]Judged{}, r.Limits...), Warnings: append([]string{}, r.Plan.Warnings...), Notes: append([]string{}, r.Notes...),
	}
	for _, v := range r.Plan.Variants {
		x.Variants = append(x.Variants, jsonVariant{v.Letter, v.Label, v.Cluster.GPUs, append([]Difference{}, v.Differences...)})
	}
	for i := range r.Pairs {
		p := &r.Pairs[i]
		y := jsonPair{Variant: p.B.Letter, Verdict: p.Verdict, Same: p.Same, Measures: []jsonMeasure{}, Undefined: append([]string{}, p.OneSided...)}
		for k := range p.Measures {
			y.Measures = append(y.Measures, p.Measures[k].json())
		}
		x.Pairs = append(x.Pairs, y)
	}
	for i := range r.Runs {
		y := jsonRun{Run: r.Runs[i], Measures: map[string]number{}}
		for _, m := range Measures() {
			if v, ok := r.Runs[i].Value(m.Key); ok {
				y.Measures[m.Key] = number(v)
			}
		}
		x.Runs = append(x.Runs, y)
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(x)
}

// CSV writes a line per pair and measure.
func (r *Result) CSV(w io.Writer) error {
	var b strings.Builder
	b.WriteString("variant,label,measure,replications,a,b,difference,low,high,relative,detectable,significant,verdict\n")
	cell := func(x *number) string {
		if x == nil {
			return ""
		}
		return x.String()
	}
	for i := range r.Pairs {
		p := &r.Pairs[i]
		for k := range p.Measures {
			m := p.Measures[k].json()
			fmt.Fprintf(&b, "%s,%s,%s,%d,%s,%s,%s,%s,%s,%s,%s,%t,%s\n", p.B.Letter, quoted(p.B.Label), m.Measure, m.Replications,
				m.A, m.B, m.Difference, cell(m.Low), cell(m.High), cell(m.Relative), cell(m.Detectable), m.Significant, m.Verdict)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// quoted is a cell as in RFC 4180.
func quoted(s string) string {
	if !strings.ContainsAny(s, ",\"\r\n") {
		return s
	}
	return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
}

// CheckTarget says what keeps a comparison from being written to dir, or nil: it
// must be new, empty or hold nothing but an earlier comparison.
func CheckTarget(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		if info, statErr := os.Stat(dir); statErr == nil && !info.IsDir() {
			return fmt.Errorf("%s is a file; a comparison is written to a folder", dir)
		}
		return err
	}
	if len(entries) == 0 {
		return nil
	}
	var x struct{ Tool, Kind string }
	text, err := os.ReadFile(filepath.Join(dir, JSONFile))
	if err != nil || json.Unmarshal(text, &x) != nil || x.Tool != "tgssim" || x.Kind != "compare" {
		return fmt.Errorf("%s is not empty and not a comparison of tgssim: choose another folder, or empty it", dir)
	}
	for _, e := range entries {
		scenario := len(e.Name()) == len("A.yaml") && e.Name()[0] >= 'A' && e.Name()[0] < 'A'+MaxVariants && e.Name()[1:] == ".yaml"
		if e.Name() != JSONFile && e.Name() != CSVFile && !scenario {
			return fmt.Errorf("%s holds a comparison and also %s, which would be lost: move it, or choose another folder", dir, e.Name())
		}
	}
	return nil
}

// Write writes a folder, whole or not at all.
func (r *Result) Write(dir, version string) error {
	if err := CheckTarget(dir); err != nil {
		return err
	}
	return atomicfile.Folder(dir, func(tmp string) error {
		if err := r.fill(tmp, version); err != nil {
			return fmt.Errorf("writing %s: %w", dir, err)
		}
		return nil
	})
}

func (r *Result) fill(dir, version string) error {
	write := func(name string, text []byte) error { return os.WriteFile(filepath.Join(dir, name), text, 0o644) }
	for _, v := range r.Plan.Variants {
		text, err := v.Scenario.Resolved()
		if err == nil {
			err = write(v.Letter+".yaml", text)
		}
		if err != nil {
			return err
		}
	}
	var table, object bytes.Buffer
	if err := errors.Join(r.CSV(&table), r.JSON(&object, version)); err != nil {
		return err
	}
	return errors.Join(write(CSVFile, table.Bytes()), write(JSONFile, object.Bytes()))
}
