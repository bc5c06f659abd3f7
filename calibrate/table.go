package calibrate

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tgssim/tgssim/compute"
	"github.com/tgssim/tgssim/internal/config"
)

// A Table is a file of kernel measurements.
type Table struct {
	// File is the name without its folder, SHA256 the hash in hexadecimal.
	File   string
	SHA256 string
	// GPU is whose rows they are; "" where the table does not say.
	GPU string
	// Rows are those rows, in order; OtherGPUs is the number of all others.
	Rows      []Row
	OtherGPUs int
	// Ignored are the names of columns that were not read.
	Ignored []string
}

// A Row is one measurement.
type Row struct {
	Line         int
	Kernel       compute.Kernel
	Microseconds float64

	// shape is the kernel's sizes in text, the same for the same kernel; fold is
	// the part of the class that it is in.
	shape string
	fold  uint64
}

// computesFP8 tells whether the row is of a GEMM in FP8.
func (r *Row) computesFP8() bool {
	switch r.Kernel.Class {
	case "gemm_fp8":
		return true
	case "grouped_contiguous", "grouped_masked":
		return r.Kernel.DType == compute.FP8
	}
	return false
}

// Limits of a table.
const (
	// MaxBytes is the size of the largest file that is read.
	MaxBytes    = 64 << 20
	maxProblems = 20
	mostSize    = 1e15
	mostTime    = 1e9 // microseconds
)

// timeColumns are the names of a column of times, with their units in
// microseconds.
var timeColumns = map[string]float64{
	"time_ns": 1e-3, "time_us": 1, "time_ms": 1e3, "time_s": 1e6,
	"latency_ns": 1e-3, "latency_us": 1, "latency_ms": 1e3, "latency_s": 1e6,
	"nanoseconds": 1e-3, "microseconds": 1, "milliseconds": 1e3, "seconds": 1e6,
	"us": 1, "ms": 1e3, "ns": 1e-3,
}

// notes are columns that may stand in a table and are not read. What contains one
// of rates is not either.
var (
	notes = []string{"note", "comment", "source", "framework", "library", "version", "device", "driver", "clock_mhz", "date"}
	rates = []string{"mfu", "flops", "utilisation", "utilization", "gb/s", "tb/s", "gbps", "tbps", "gb_s", "tb_s", "bandwidth", "roofline"}
)

// columns of a table that are not sizes.
const (
	kernelColumn = "kernel"
	dtypeColumn  = "dtype"
	gpuColumn    = "gpu"
	// shapeColumn may hold sizes as "m=64 n=2112 k=7168", instead of columns.
	shapeColumn = "shape"
)

// Read reads a table, a CSV file whose first line names the columns; file is its
// name for messages. Lines that start with # are comments. Where the table has a
// column gpu, only rows of the GPU of that name are taken, in any case; "" is
// right when all rows are of one. The error is config.Problems, each with file,
// line and column (of bytes, from 1).
func Read(file string, data []byte, gpu string) (*Table, error) {
	sum := sha256.Sum256(data)
	t := &Table{File: filepath.Base(file), SHA256: hex.EncodeToString(sum[:])}
	r := &reader{file: file, gpu: gpu, table: t, gpus: map[string]int{}}
	if len(data) > MaxBytes {
		r.refuse(0, 0, "", "%d bytes are too many; the limit is %d", len(data), MaxBytes)
		return nil, r.problems
	}
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		r.refuse(0, 0, "", "is not UTF-8 text: save the table as CSV in UTF-8")
		return nil, r.problems
	}
	r.csv = csv.NewReader(bytes.NewReader(bytes.TrimPrefix(data, []byte("\uFEFF"))))
	r.csv.Comment, r.csv.TrimLeadingSpace, r.csv.ReuseRecord = '#', true, true
	r.read()
	if len(r.problems) > 0 {
		return nil, r.problems
	}
	return t, nil
}

type reader struct {
	file     string
	gpu      string
	csv      *csv.Reader
	table    *Table
	problems config.Problems

	header []string // canonical names
	sizes  []size   // by column; at is nil for columns that are not sizes
	unit   float64
	time   int
	at     map[string]int // columns of the other known names
	gpus   map[string]int // rows by GPU
}

// refuse records a problem; line 0 is the whole file, column 0 the whole line.
func (r *reader) refuse(line, column int, key, format string, args ...any) {
	where := r.file
	if line > 0 {
		where += ":" + strconv.Itoa(line)
	}
	if column > 0 {
		where += ":" + strconv.Itoa(column)
	}
	r.problems = append(r.problems, config.Problem{Where: where, Key: key, Message: fmt.Sprintf(format, args...)})
}

func (r *reader) read() {
	head, err := r.csv.Read()
	switch {
	case errors.Is(err, io.EOF):
		r.refuse(0, 0, "", "is empty: the first line names the columns, such as kernel,m,n,k,time_us")
		return
	case err != nil:
		r.malformed(err, len(head))
		return
	}
	r.readHeader(slices.Clone(head))
	if len(r.problems) > 0 {
		return
	}
	for len(r.problems) < maxProblems {
		fields, err := r.csv.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			r.malformed(err, len(fields))
			break
		}
		r.row(fields)
	}
	if len(r.problems) == maxProblems {
		r.refuse(0, 0, "", "there may be more; reading stopped after %d problems", maxProblems)
	}
	if len(r.problems) == 0 {
		r.finish()
	}
}

// malformed records an error of the CSV reader at a line with so many fields.
func (r *reader) malformed(err error, fields int) {
	var bad *csv.ParseError
	if !errors.As(err, &bad) {
		r.refuse(0, 0, "", "%v", err)
		return
	}
	message := bad.Err.Error()
	if errors.Is(bad.Err, csv.ErrFieldCount) {
		message = fmt.Sprintf("there are %d fields where the header has %d", fields, len(r.header))
	}
	r.refuse(bad.Line, bad.Column, "", "%s", message)
}

func canonical(name string) string {
	return strings.NewReplacer("-", "_", " ", "_").Replace(strings.ToLower(strings.TrimSpace(name)))
}

func (r *reader) readHeader(head []string) {
	r.at, r.time = map[string]int{}, -1
	all := sizes()
	known := []string{kernelColumn, dtypeColumn, gpuColumn, shapeColumn, "time_us"}
	for _, s := range all {
		known = append(known, s.name)
	}
	r.sizes = make([]size, len(head))
	for i, name := range head {
		line, column := r.csv.FieldPos(i)
		name = canonical(name)
		if name == "args" {
			name = shapeColumn
		}
		if slices.Contains(r.header, name) {
			r.refuse(line, column, name, "is named twice")
		}
		r.header = append(r.header, name)
		unit, isTime := timeColumns[name]
		s := slices.IndexFunc(all, func(s size) bool { return s.name == name })
		switch {
		case isTime && r.time >= 0:
			r.refuse(line, column, name, "is a second column of times, beside %s", r.header[r.time])
		case isTime:
			r.time, r.unit = i, unit
		case s >= 0:
			r.sizes[i] = all[s]
		case slices.Contains(known, name):
			r.at[name] = i
		case slices.Contains(notes, name) || isRate(name):
			r.table.Ignored = append(r.table.Ignored, strings.TrimSpace(head[i]))
		case slices.Contains([]string{"time", "latency", "duration"}, name):
			r.refuse(line, column, name, "has no unit in its name: write time_us, time_ms, time_ns or time_s")
		case len(head) == 1 && strings.ContainsAny(name, ";\t|"):
			r.refuse(line, column, "", "the line has no comma: separate the columns by commas, not by %q", name[strings.IndexAny(name, ";\t|")])
		default:
			r.refuse(line, column, name, "unknown column%s", config.Suggest(name, known))
		}
	}
	if len(r.problems) > 0 {
		return
	}
	r.require()
}

// isRate tells a column of rates or utilisations from one of times or sizes.
func isRate(name string) bool {
	return slices.ContainsFunc(rates, func(r string) bool { return strings.Contains(name, r) })
}

// require asks for the columns that every table needs.
func (r *reader) require() {
	if _, ok := r.at[kernelColumn]; !ok {
		r.refuse(1, 0, kernelColumn, "there is no such column: it names the class of each row, such as gemm_fp8")
	}
	if r.time >= 0 {
		return
	}
	var relative []string
	for _, name := range r.header {
		if isRate(name) {
			relative = append(relative, name)
		}
	}
	if relative != nil {
		r.refuse(1, 0, "time_us", "there is no column of times, only %s: a fit needs measured times, because utilisations and rates are relative to peaks and counts of operations that the file does not state, and published tables differ in them; write the times, in microseconds, as time_us",
			strings.Join(relative, " and "))
		return
	}
	r.refuse(1, 0, "time_us", "there is no column of times: write them in microseconds as time_us (or time_ms, time_ns, time_s)")
}

// field returns the text of a column, "" where there is none, and its place.
func (r *reader) field(fields []string, name string) (text string, line, column int) {
	i, ok := r.at[name]
	if !ok {
		line, _ = r.csv.FieldPos(0)
		return "", line, 0
	}
	line, column = r.csv.FieldPos(i)
	return strings.TrimSpace(fields[i]), line, column
}

func (r *reader) row(fields []string) {
	if gpu, line, column := r.field(fields, gpuColumn); column > 0 {
		if gpu == "" {
			r.refuse(line, column, gpuColumn, "is empty: name the GPU")
			return
		}
		r.gpus[gpu]++
		if r.gpu != "" && !strings.EqualFold(gpu, r.gpu) {
			r.table.OtherGPUs++
			return
		}
	}
	before := len(r.problems)
	c, dtype := r.class(fields)
	if c == nil {
		return
	}
	line, _ := r.csv.FieldPos(0)
	row := Row{Line: line, Kernel: compute.Kernel{Class: c.name, DType: dtype}}
	line, column := r.csv.FieldPos(r.time)
	us, ok := r.number(line, column, r.header[r.time], strings.TrimSpace(fields[r.time]))
	if ok {
		row.Microseconds = float64(us * r.unit)
		if !(row.Microseconds > 0 && row.Microseconds <= mostTime) {
			r.refuse(line, column, r.header[r.time], "must be above 0 and at most 1000 s, not %s", fields[r.time])
		}
	}
	r.shape(fields, c, &row)
	if len(r.problems) == before {
		r.table.Rows = append(r.table.Rows, row)
	}
}

// class reads the kernel and dtype of a row; nil after a problem.
func (r *reader) class(fields []string) (*class, compute.DType) {
	kernel, line, column := r.field(fields, kernelColumn)
	name := canonical(kernel)
	text, dline, dcolumn := r.field(fields, dtypeColumn)
	if dcolumn == 0 {
		text = r.shapeField(fields, dtypeColumn)
		dline, dcolumn = line, 0
	}
	text = strings.ToLower(text)
	if name == "gemm" {
		if text != "bf16" && text != "fp8" {
			r.refuse(line, column, kernelColumn, "gemm needs a dtype, bf16 or fp8, not %q; or write gemm_bf16 or gemm_fp8", text)
			return nil, 0
		}
		name = "gemm_" + text
	}
	all := classes()
	i := slices.IndexFunc(all, func(c class) bool { return c.name == name })
	if i < 0 {
		names := make([]string, len(all))
		for j := range all {
			names[j] = all[j].name
		}
		r.refuse(line, column, kernelColumn, "%q is not a kernel class%s", kernel, config.Suggest(kernel, names))
		return nil, 0
	}
	c := &all[i]
	if text == "" {
		if c.required {
			r.refuse(dline, dcolumn, dtypeColumn, "is missing: %s needs one of %s", c.name, formats(c.dtypes))
			return nil, 0
		}
		return c, c.dtypes[0]
	}
	for _, d := range c.dtypes {
		if d.String() == text {
			return c, d
		}
	}
	r.refuse(dline, dcolumn, dtypeColumn, "%q is not a format of %s: write %s", text, c.name, formats(c.dtypes))
	return nil, 0
}

func formats(ds []compute.DType) string {
	names := make([]string, len(ds))
	for i, d := range ds {
		names[i] = d.String()
	}
	return strings.Join(names, ", ")
}

// shapeField returns the value of a name in the column shape, "" without.
func (r *reader) shapeField(fields []string, name string) string {
	text, _, _ := r.field(fields, shapeColumn)
	for _, pair := range strings.Fields(text) {
		if key, value, ok := strings.Cut(pair, "="); ok && canonical(key) == name {
			return value
		}
	}
	return ""
}

// shape reads the sizes of a row, from their columns and from the column shape.
func (r *reader) shape(fields []string, c *class, row *Row) {
	before := len(r.problems)
	given := map[string]bool{}
	set := func(s *size, line, column int, text string) {
		if !slices.Contains(c.columns, s.name) && !slices.Contains(c.optional, s.name) {
			r.refuse(line, column, s.name, "has no meaning for %s, whose sizes are %s", c.name,
				strings.Join(append(slices.Clone(c.columns), c.optional...), ", "))
			return
		}
		if given[s.name] {
			r.refuse(line, column, s.name, "is given twice")
			return
		}
		given[s.name] = true
		v, ok := r.number(line, column, s.name, text)
		switch {
		case !ok:
		case !(v >= s.least && v <= mostSize) || s.fraction && v == 0:
			valid := fmt.Sprintf("from %v to %.0e", s.least, mostSize)
			if s.fraction {
				valid = fmt.Sprintf("above 0 and at most %.0e", mostSize)
			}
			r.refuse(line, column, s.name, "must be %s, not %s", valid, text)
		case !s.fraction && v != float64(int64(v)):
			r.refuse(line, column, s.name, "must be a whole number, not %s", text)
		default:
			*s.at(&row.Kernel) = v
		}
	}
	for i := range r.sizes {
		if text := strings.TrimSpace(fields[i]); r.sizes[i].at != nil && text != "" {
			line, column := r.csv.FieldPos(i)
			set(&r.sizes[i], line, column, text)
		}
	}
	all := sizes()
	text, line, column := r.field(fields, shapeColumn)
	for _, pair := range strings.Fields(text) {
		key, value, ok := strings.Cut(pair, "=")
		i := slices.IndexFunc(all, func(s size) bool { return s.name == canonical(key) })
		switch {
		case !ok:
			r.refuse(line, column, shapeColumn, "expected size=number pairs, such as m=64 n=2112 k=7168, not %q", pair)
		case canonical(key) == dtypeColumn:
		case i < 0:
			names := make([]string, len(all))
			for j := range all {
				names[j] = all[j].name
			}
			r.refuse(line, column, shapeColumn, "%q is not a size%s", key, config.Suggest(key, names))
		default:
			set(&all[i], line, column, value)
		}
	}
	r.complete(c, row, given, len(r.problems) == before)
}

// complete asks for the sizes that are missing, fills in the optional ones and
// names the shape. sound is false after a problem.
func (r *reader) complete(c *class, row *Row, given map[string]bool, sound bool) {
	var words []string
	if row.Kernel.DType != c.dtypes[0] || c.required {
		words = append(words, "dtype="+row.Kernel.DType.String())
	}
	for _, s := range sizes() {
		needed := slices.Contains(c.columns, s.name)
		switch {
		case needed && !given[s.name]:
			if sound {
				r.refuse(row.Line, 0, s.name, "is missing: %s needs %s", c.name, strings.Join(c.columns, ", "))
			}
			return
		case !given[s.name] && slices.Contains(c.optional, s.name):
			*s.at(&row.Kernel) = s.otherwise
		}
		if given[s.name] {
			words = append(words, s.name+"="+strconv.FormatFloat(*s.at(&row.Kernel), 'f', -1, 64))
		}
	}
	if k := &row.Kernel; sound && k.KVHeads > 0 && float64(int64(k.Heads/k.KVHeads)) != k.Heads/k.KVHeads {
		r.refuse(row.Line, 0, "kv_heads", "%v must divide the %v heads", k.KVHeads, k.Heads)
	}
	row.shape = strings.Join(words, " ")
	h := fnv.New64a()
	io.WriteString(h, c.name+" "+row.shape)
	// FNV's low bits alone are uneven over texts that differ in a digit.
	v := h.Sum64()
	row.fold = (v ^ v>>32) % folds
}

// number reads a decimal number.
func (r *reader) number(line, column int, key, text string) (float64, bool) {
	if text == "" {
		r.refuse(line, column, key, "is empty: write a number")
		return 0, false
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || strings.ContainsAny(text, "xXpP_nNiI") {
		r.refuse(line, column, key, "%q is not a number", text)
		return 0, false
	}
	return v, true
}

// finish checks that the rows are those of one GPU.
func (r *reader) finish() {
	names := make([]string, 0, len(r.gpus))
	for name := range r.gpus {
		names = append(names, name)
	}
	slices.Sort(names)
	switch {
	case len(r.table.Rows) == 0 && r.table.OtherGPUs > 0:
		r.refuse(0, 0, gpuColumn, "has no rows of %s, only of %s", r.gpu, strings.Join(names, ", "))
	case len(r.table.Rows) == 0:
		r.refuse(0, 0, "", "has no measurements below its header")
	case r.gpu == "" && len(names) > 1:
		r.refuse(0, 0, gpuColumn, "has rows of %s: choose one", strings.Join(names, ", "))
	case len(names) == 1:
		r.table.GPU = names[0]
	case len(names) > 1:
		r.table.GPU = r.gpu
	}
}
