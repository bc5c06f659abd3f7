package workload

import (
	"bytes"
	"encoding/csv"
	"slices"

	"github.com/tgssim/tgssim/internal/config"
)

// csvRows reads the rows of a CSV format, whose columns it finds by name.
type csvRows struct {
	format *format
	width  int // fields of the header
	// at[i] is the field of format.columns[i].
	at     [3]int
	fields [][]byte
}

// maxHeader bounds the header, which is compared with the known names.
const maxHeader = 64 << 10

func splitHeader(head []byte) ([]string, *fault) {
	if len(head) > maxHeader {
		return nil, faultf("", "the header %s is %d bytes long; is this a trace?", quote(head), len(head))
	}
	fields, f := splitFields(head, nil)
	if f != nil {
		return nil, f
	}
	header := make([]string, len(fields))
	for i, name := range fields {
		header[i] = string(bytes.TrimSpace(name))
	}
	return header, nil
}

func newCSVRows(form *format, head []byte) (*csvRows, *fault) {
	header, f := splitHeader(head)
	if f != nil {
		return nil, f
	}
	c := &csvRows{format: form, width: len(header)}
	for i, name := range form.columns {
		at := slices.Index(header, name)
		switch {
		case at < 0:
			advice := ""
			others := slices.DeleteFunc(header, func(h string) bool { return slices.Contains(form.columns, h) })
			if near := config.Nearest(name, others); near != "" {
				advice = "; is it " + quote([]byte(near)) + "?"
			}
			return nil, faultf(name, "the header %s lacks this column of the format %s%s", quote(head), form.name, advice)
		case slices.Contains(header[at+1:], name):
			return nil, faultf(name, "the header %s has this column twice", quote(head))
		}
		c.at[i] = at
	}
	return c, nil
}

func (c *csvRows) decode(line []byte, _ *[]uint64) (row, *fault) {
	fields, f := splitFields(line, c.fields[:0])
	c.fields = fields
	if f != nil {
		return row{}, f
	}
	if len(fields) != c.width {
		return row{}, faultf("", "the number of fields is %d; %d are valid, as in the header", len(fields), c.width)
	}
	var r row
	text := bytes.TrimSpace(fields[c.at[0]])
	at, problem := c.format.time(text)
	if problem != "" {
		return r, &fault{c.format.columns[0], quote(text) + " " + problem}
	}
	r.at = at
	for i, dst := range []*int32{&r.prompt, &r.output} {
		text := bytes.TrimSpace(fields[c.at[i+1]])
		n, problem := parseTokens(text)
		if problem != "" {
			return r, &fault{c.format.columns[i+1], quote(text) + " " + problem}
		}
		*dst = n
	}
	return r, nil
}

// splitFields cuts a line at its commas, into dst. Fields in quotes are read by
// RFC 4180, but may not span lines.
func splitFields(line []byte, dst [][]byte) ([][]byte, *fault) {
	if bytes.IndexByte(line, '"') >= 0 {
		record, err := csv.NewReader(bytes.NewReader(line)).Read()
		if err != nil {
			return dst, faultf("", "quotes are not balanced; a quoted field must end on its line")
		}
		for _, field := range record {
			dst = append(dst, []byte(field))
		}
		return dst, nil
	}
	for {
		i := bytes.IndexByte(line, ',')
		if i < 0 {
			return append(dst, line), nil
		}
		dst = append(dst, line[:i])
		line = line[i+1:]
	}
}
