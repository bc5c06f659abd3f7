package sweep

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A thriftReader reads any structure of Thrift's compact protocol into maps from
// field numbers, knowing nothing of what is written.
type thriftReader struct {
	t  require.TestingT
	in *bytes.Reader
}

func (r *thriftReader) uvarint() uint64 {
	n, err := binary.ReadUvarint(r.in)
	require.NoError(r.t, err)
	return n
}

func (r *thriftReader) byte() byte {
	b, err := r.in.ReadByte()
	require.NoError(r.t, err)
	return b
}

func (r *thriftReader) value(kind byte) any {
	switch kind {
	case 5, 6: // integers
		n := r.uvarint()
		return int64(n>>1) ^ -int64(n&1)
	case 8:
		b := make([]byte, r.uvarint())
		_, err := r.in.Read(b)
		require.NoError(r.t, err)
		return string(b)
	case 9:
		head := r.byte()
		n := uint64(head >> 4)
		if n == 15 {
			n = r.uvarint()
		}
		items := make([]any, n)
		for i := range items {
			items[i] = r.value(head & 15)
		}
		return items
	case 12:
		fields := map[int]any{}
		for number := 0; ; {
			head := r.byte()
			if head == 0 {
				return fields
			}
			require.NotZero(r.t, head>>4, "a long form of a field, which is never needed here")
			number += int(head >> 4)
			require.NotContains(r.t, fields, number)
			fields[number] = r.value(head & 15)
		}
	}
	require.Fail(r.t, "unknown type", "%d", kind)
	return nil
}

// readParquet reads a file as the specification says, for the types, encodings
// and page form that the writer uses, and returns names and cells by row.
func readParquet(t require.TestingT, file []byte) (names []string, types []string, rows [][]string) {
	require.Equal(t, "PAR1", string(file[:4]))
	require.Equal(t, "PAR1", string(file[len(file)-4:]))
	size := int(binary.LittleEndian.Uint32(file[len(file)-8:]))
	meta := file[len(file)-8-size : len(file)-8]
	in := bytes.NewReader(meta)
	m := (&thriftReader{t, in}).value(12).(map[int]any)
	require.Zero(t, in.Len())
	schema := m[2].([]any)
	require.EqualValues(t, len(schema)-1, schema[0].(map[int]any)[5])
	for _, s := range schema[1:] {
		e := s.(map[int]any)
		require.EqualValues(t, 1, e[3], "optional")
		names = append(names, e[4].(string))
		types = append(types, fmt.Sprint(e[1], "/", e[6]))
	}
	for _, g := range m[4].([]any) {
		group := g.(map[int]any)
		chunks := group[1].([]any)
		require.Len(t, chunks, len(names))
		first := len(rows)
		n := int(group[3].(int64))
		for range n {
			rows = append(rows, make([]string, len(names)))
		}
		total := int64(0)
		for i, c := range chunks {
			d := c.(map[int]any)[3].(map[int]any)
			require.Equal(t, []any{names[i]}, d[3])
			require.EqualValues(t, n, d[5])
			at, length := d[9].(int64), d[7].(int64)
			total += length
			for k, cell := range readPage(t, file[at:at+length], n, types[i]) {
				rows[first+k][i] = cell
			}
		}
		require.Equal(t, total, group[2])
	}
	require.EqualValues(t, len(rows), m[3])
	return names, types, rows
}

func readPage(t require.TestingT, chunk []byte, n int, kind string) []string {
	in := bytes.NewReader(chunk)
	h := (&thriftReader{t, in}).value(12).(map[int]any)
	page := chunk[len(chunk)-in.Len():]
	require.EqualValues(t, len(page), h[2])
	require.EqualValues(t, len(page), h[3])
	require.Equal(t, map[int]any{1: int64(n), 2: int64(0), 3: int64(3), 4: int64(3)}, h[5])
	end := 4 + int(binary.LittleEndian.Uint32(page))
	levels := &thriftReader{t, bytes.NewReader(page[4:end])}
	values := page[end:]
	cells := make([]string, 0, n)
	bits := 0
	for levels.in.Len() > 0 {
		head := levels.uvarint()
		require.Zero(t, head&1, "a run")
		there := levels.byte() == 1
		for range head >> 1 {
			if !there {
				cells = append(cells, "")
				continue
			}
			cell := ""
			switch kind {
			case "0/<nil>":
				cell = strconv.FormatBool(values[bits/8]>>(bits%8)&1 == 1)
				bits++
			case "6/0":
				length := binary.LittleEndian.Uint32(values)
				cell, values = string(values[4:4+length]), values[4+length:]
			default:
				x := binary.LittleEndian.Uint64(values)
				values = values[8:]
				switch kind {
				case "2/<nil>":
					cell = strconv.FormatInt(int64(x), 10)
				case "2/14":
					cell = strconv.FormatUint(x, 10)
				case "5/<nil>":
					cell = strconv.FormatFloat(math.Float64frombits(x), 'g', -1, 64)
				}
			}
			require.NotEmpty(t, cell, kind)
			cells = append(cells, cell)
		}
	}
	require.Len(t, cells, n)
	require.Equal(t, (bits+7)/8, len(values), "nothing is left")
	return cells
}

// What is written reads back, whatever the columns and rows, over several row
// groups.
func TestParquetRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var columns []column
		for i := range rapid.IntRange(1, 40).Draw(t, "columns") {
			columns = append(columns, column{fmt.Sprint("c.", i), kind(rapid.IntRange(0, int(kindBool)).Draw(t, "kind"))})
		}
		cell := func(k kind) string {
			if rapid.IntRange(0, 2).Draw(t, "null") == 0 {
				return ""
			}
			switch k {
			case kindInt:
				return fmt.Sprint(rapid.Int64().Draw(t, "int"))
			case kindUint:
				return fmt.Sprint(rapid.Uint64().Draw(t, "uint"))
			case kindFloat:
				return strconv.FormatFloat(rapid.Float64().Draw(t, "float"), 'g', -1, 64)
			case kindBool:
				return fmt.Sprint(rapid.Bool().Draw(t, "bool"))
			}
			return "x" + rapid.String().Draw(t, "text")
		}
		var out bytes.Buffer
		p := newParquet(&out, columns)
		p.most = rapid.IntRange(1, 9).Draw(t, "rows of a group")
		var want [][]string
		for range rapid.IntRange(0, 25).Draw(t, "rows") {
			row := make([]string, len(columns))
			for i := range row {
				row[i] = cell(columns[i].kind)
			}
			require.NoError(t, p.row(row))
			want = append(want, row)
		}
		require.NoError(t, p.close())
		names, _, got := readParquet(t, out.Bytes())
		require.Equal(t, want, got)
		for i := range columns {
			require.Equal(t, columns[i].name, names[i])
		}
	})
}

func TestParquetRefuses(t *testing.T) {
	for cell, k := range map[string]kind{"1.5": kindInt, "-1": kindUint, "much": kindFloat, "maybe": kindBool} {
		p := newParquet(&bytes.Buffer{}, []column{{"c", k}})
		require.ErrorContains(t, p.row([]string{cell}), "column c: ")
	}
	p := newParquet(failing{}, []column{{"c", kindInt}})
	require.NoError(t, (&p.columns[0]).add("1"))
	require.ErrorIs(t, p.close(), os.ErrClosed)
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, os.ErrClosed }

// The Parquet file is the CSV file, with types.
func TestParquetIsTheTable(t *testing.T) {
	p := plan(t, "sweep: {axes: {kv.qps: [1, 2], kv.post_per_message: [1ms, 2us], gpu.derate: [1, 1.1], x: {\"1\": {cluster.spines: 1}, \"2\": {cluster.spines: 7}}}}\n", Request{})
	dir := filepath.Join(t.TempDir(), "s")
	do(t, p, dir, false, Options{Parquet: true})
	text, err := os.ReadFile(filepath.Join(dir, ParquetFile))
	require.NoError(t, err)
	names, types, rows := readParquet(t, text)
	want := table(t, dir)
	require.Len(t, rows, len(want))
	typeOf := map[string]string{}
	for i, name := range names {
		typeOf[name] = types[i]
		for k := range rows {
			cell := want[k][name]
			if strings.HasPrefix(types[i], "5/") && cell != "" {
				require.Equal(t, number(t, cell), number(t, rows[k][i]))
				continue
			}
			require.Equal(t, cell, rows[k][i], name)
		}
	}
	require.Len(t, want[0], len(names))
	for name, kind := range map[string]string{
		"kv.qps": "2/<nil>", "kv.post_per_message_s": "5/<nil>", "gpu.derate": "5/<nil>", "x": "6/0", "tgs": "5/<nil>",
		"seed": "2/14", "slo_met": "0/<nil>", "saturation": "6/0", "gpus": "2/<nil>", "error": "6/0",
	} {
		require.Equal(t, kind, typeOf[name], name)
	}
	m, err := readManifest(filepath.Join(dir, ManifestFile))
	require.NoError(t, err)
	require.Equal(t, ParquetFile, m.Files[3].Name)

	// Without asking it is not there.
	do(t, p, dir, true, Options{})
	require.NoFileExists(t, filepath.Join(dir, ParquetFile))
}
