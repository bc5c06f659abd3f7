package workload

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/sim"
)

// flowColumns says which field of a line is which, from 0; -1 is none.
type flowColumns struct {
	source, destination, bytes, start, startPs int
	// width is the number of fields of a line, or 0 before the first.
	width int
	// header says that one named them; else a line may lack its start.
	header bool
}

var (
	flowNames = []string{"source", "destination", "bytes", "start", "start_ps"}
	// flowResults are the further columns of a file of completed flows.
	flowResults = []string{"finish_ps", "fct_ps", "ideal_ps", "slowdown"}
)

// isFlowHeader tells a header from a flow: its first field begins with a letter.
func isFlowHeader(line []byte) bool {
	c := line[0] | 0x20
	return c >= 'a' && c <= 'z'
}

// plainColumns are those of a file without a header.
var plainColumns = flowColumns{source: 0, destination: 1, bytes: 2, start: 3, startPs: -1, width: 4}

func newFlowColumns(line []byte) (flowColumns, *fault) {
	names, f := splitHeader(line)
	if f != nil {
		return flowColumns{}, f
	}
	c := flowColumns{-1, -1, -1, -1, -1, len(names), true}
	at := []*int{&c.source, &c.destination, &c.bytes, &c.start, &c.startPs}
	for i, name := range names {
		k := slices.Index(flowNames, name)
		switch {
		case k >= 0 && *at[k] >= 0:
			return c, faultf(name, "the header has this column twice")
		case k >= 0:
			*at[k] = i
		case !slices.Contains(flowResults, name):
			return c, faultf("", "the header's %s is not a column of flows%s; they are source, destination, bytes and optionally start",
				quote([]byte(name)), config.Suggest(name, flowNames))
		}
	}
	for k, name := range flowNames[:3] {
		if *at[k] < 0 {
			return c, faultf(name, "the header %s lacks this column", quote(line))
		}
	}
	if c.start >= 0 && c.startPs >= 0 {
		return c, faultf("start_ps", "the header has start as well; one is enough")
	}
	return c, nil
}

// flow reads a line.
func (c *flowColumns) flow(line []byte, endpoints int) (Flow, *fault) {
	fields := bytes.Split(line, []byte(","))
	switch {
	case c.header && len(fields) != c.width:
		return Flow{}, faultf("", "%d fields; the header has %d", len(fields), c.width)
	case !c.header && len(fields) != 3 && len(fields) != 4:
		return Flow{}, faultf("", "%d fields; write source,destination,bytes and optionally start", len(fields))
	}
	for i := range fields {
		fields[i] = bytes.TrimSpace(fields[i])
	}
	var f Flow
	for _, end := range []struct {
		name string
		at   int
		to   *int
	}{{"source", c.source, &f.Src}, {"destination", c.destination, &f.Dst}} {
		n, err := strconv.Atoi(string(fields[end.at]))
		if err != nil || n < 0 || n >= endpoints {
			return f, faultf(end.name, "%s is not an endpoint; 0 to %d are", quote(fields[end.at]), endpoints-1)
		}
		*end.to = n
	}
	if f.Src == f.Dst {
		return f, faultf("destination", "%d is the source", f.Dst)
	}
	size, wrong := parseSize(fields[c.bytes])
	if wrong != nil || size < 1 {
		return f, faultf("bytes", "%s is not a size; 1 to 1TB is valid", quote(fields[c.bytes]))
	}
	f.Bytes = size
	return f, c.startOf(&f, fields)
}

func (c *flowColumns) startOf(f *Flow, fields [][]byte) *fault {
	name, text := "start", []byte(nil)
	switch {
	case c.startPs >= 0:
		name = "start_ps"
		if !isDigits(fields[c.startPs]) {
			return faultf(name, "%s is not a whole number of picoseconds", quote(fields[c.startPs]))
		}
		text = append(slices.Clone(fields[c.startPs]), "ps"...)
	case c.start >= 0 && c.start < len(fields):
		text = fields[c.start]
	default:
		return nil
	}
	if err := f.Start.UnmarshalText(text); err != nil {
		return faultf(name, "%v", err)
	}
	if f.Start < 0 || f.Start > sim.Never/4 {
		return faultf(name, "%v is out of range: 0s or later", f.Start)
	}
	return nil
}
