package sweep

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strconv"
)

// A parquetWriter writes a flat table in Apache Parquet (format 1.0, the
// specification of github.com/apache/parquet-format): optional columns, plain
// values in one uncompressed page per column and row group. That is all that a
// table of results needs, and every reader reads it.
type parquetWriter struct {
	w       io.Writer
	offset  int64
	columns []parquetColumn
	most    int // rows of a row group
	rows    int // of the row group under way
	total   int64
	groups  []rowGroup
	err     error
}

// A kind is the type of a column.
type kind uint8

const (
	kindText kind = iota
	kindInt
	kindUint
	kindFloat
	kindBool
)

// physical is the type in the file: BOOLEAN, INT64, DOUBLE or BYTE_ARRAY.
func (k kind) physical() int64 {
	return [...]int64{kindText: 6, kindInt: 2, kindUint: 2, kindFloat: 5, kindBool: 0}[k]
}

type parquetColumn struct {
	column
	// levels are the definition levels of the row group under way: runs of values
	// that are there (odd) or not.
	levels []run
	values []byte
	bits   int // of values, when it is of booleans
}

type run struct {
	length int
	there  bool
}

type rowGroup struct {
	chunks []chunk
	rows   int64
}

type chunk struct{ offset, size int64 }

const parquetMagic = "PAR1"

// groupRows is the number of rows of a row group.
const groupRows = 10_000

func newParquet(w io.Writer, columns []column) *parquetWriter {
	p := &parquetWriter{w: w, most: groupRows, columns: make([]parquetColumn, len(columns))}
	for i, c := range columns {
		p.columns[i].column = c
	}
	p.write([]byte(parquetMagic))
	return p
}

// write keeps the first error.
func (p *parquetWriter) write(b []byte) {
	if p.err == nil {
		_, p.err = p.w.Write(b)
		p.offset += int64(len(b))
	}
}

// row adds a row; an empty cell is null.
func (p *parquetWriter) row(cells []string) error {
	for i := range p.columns {
		if err := p.columns[i].add(cells[i]); err != nil {
			return fmt.Errorf("column %s: %w", p.columns[i].name, err)
		}
	}
	if p.rows++; p.rows == p.most {
		p.flush()
	}
	return p.err
}

func (c *parquetColumn) add(cell string) error {
	there := cell != ""
	if n := len(c.levels); n > 0 && c.levels[n-1].there == there {
		c.levels[n-1].length++
	} else {
		c.levels = append(c.levels, run{1, there})
	}
	if !there {
		return nil
	}
	switch c.kind {
	case kindInt:
		n, err := strconv.ParseInt(cell, 10, 64)
		c.values = binary.LittleEndian.AppendUint64(c.values, uint64(n))
		return err
	case kindUint:
		n, err := strconv.ParseUint(cell, 10, 64)
		c.values = binary.LittleEndian.AppendUint64(c.values, n)
		return err
	case kindFloat:
		x, err := strconv.ParseFloat(cell, 64)
		c.values = binary.LittleEndian.AppendUint64(c.values, math.Float64bits(x))
		return err
	case kindBool:
		b, err := strconv.ParseBool(cell)
		if c.bits%8 == 0 {
			c.values = append(c.values, 0)
		}
		if b {
			c.values[c.bits/8] |= 1 << (c.bits % 8)
		}
		c.bits++
		return err
	}
	c.values = binary.LittleEndian.AppendUint32(c.values, uint32(len(cell)))
	c.values = append(c.values, cell...)
	return nil
}

// flush writes the row group under way.
func (p *parquetWriter) flush() {
	if p.rows == 0 {
		return
	}
	g := rowGroup{rows: int64(p.rows)}
	for i := range p.columns {
		c := &p.columns[i]
		at := p.offset
		var levels []byte
		for _, r := range c.levels { // the run-length form of the hybrid encoding, one bit wide
			levels = binary.AppendUvarint(levels, uint64(r.length)<<1)
			levels = append(levels, bit(r.there))
		}
		page := binary.LittleEndian.AppendUint32(nil, uint32(len(levels)))
		page = append(append(page, levels...), c.values...)
		p.write(pageHeader(len(page), p.rows))
		p.write(page)
		g.chunks = append(g.chunks, chunk{at, p.offset - at})
		c.levels, c.values, c.bits = c.levels[:0], c.values[:0], 0
	}
	p.total += g.rows
	p.groups = append(p.groups, g)
	p.rows = 0
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// The encodings of values and of definition levels.
const (
	encodingPlain = 0
	encodingRLE   = 3
)

// pageHeader is the header of a data page of so many bytes.
func pageHeader(size, values int) []byte {
	var t thrift
	t.integer(1, i32, 0) // DATA_PAGE
	t.integer(2, i32, int64(size))
	t.integer(3, i32, int64(size))
	t.begin(5)
	t.integer(1, i32, int64(values))
	t.integer(2, i32, encodingPlain)
	t.integer(3, i32, encodingRLE)
	t.integer(4, i32, encodingRLE)
	t.end()
	t.end()
	return t.out
}

// close writes what is left and the footer.
func (p *parquetWriter) close() error {
	p.flush()
	footer := p.footer()
	p.write(footer)
	p.write(binary.LittleEndian.AppendUint32(nil, uint32(len(footer))))
	p.write([]byte(parquetMagic))
	return p.err
}

// footer is the file's FileMetaData.
func (p *parquetWriter) footer() []byte {
	const optional, utf8, uint64Type = 1, 0, 14
	t := thrift{last: []int16{0}}
	t.integer(1, i32, 1) // version
	t.list(2, structure, 1+len(p.columns))
	t.push()
	t.text(4, "sweep")
	t.integer(5, i32, int64(len(p.columns)))
	t.end()
	for i := range p.columns {
		c := &p.columns[i]
		t.push()
		t.integer(1, i32, c.kind.physical())
		t.integer(3, i32, optional)
		t.text(4, c.name)
		switch c.kind {
		case kindText:
			t.integer(6, i32, utf8)
		case kindUint:
			t.integer(6, i32, uint64Type)
		}
		t.end()
	}
	t.integer(3, i64, p.total)
	t.list(4, structure, len(p.groups))
	for _, g := range p.groups {
		p.group(&t, g)
	}
	t.text(6, "tgssim")
	t.end()
	return t.out
}

// group is the RowGroup of a row group.
func (p *parquetWriter) group(t *thrift, g rowGroup) {
	size := int64(0)
	t.push()
	t.list(1, structure, len(g.chunks))
	for i, c := range g.chunks {
		size += c.size
		t.push()
		t.integer(2, i64, c.offset)
		t.begin(3)
		t.integer(1, i32, p.columns[i].kind.physical())
		t.list(2, i32, 2)
		t.varint(encodingPlain)
		t.varint(encodingRLE)
		t.list(3, binaryType, 1)
		t.bytes(p.columns[i].name)
		t.integer(4, i32, 0) // uncompressed
		t.integer(5, i64, g.rows)
		t.integer(6, i64, c.size)
		t.integer(7, i64, c.size)
		t.integer(9, i64, c.offset)
		t.end()
		t.end()
	}
	t.integer(2, i64, size)
	t.integer(3, i64, g.rows)
	t.end()
}

// The types of Thrift's compact protocol.
const (
	i32        = 5
	i64        = 6
	binaryType = 8
	listType   = 9
	structure  = 12
)

// thrift writes structures in Thrift's compact protocol
// (github.com/apache/thrift, doc/specs/thrift-compact-protocol.md).
type thrift struct {
	out  []byte
	last []int16 // the last field of each structure that is open
}

// field begins a field; its number is at most 15 above the last one.
func (t *thrift) field(number int16, kind byte) {
	if len(t.last) == 0 {
		t.last = append(t.last, 0)
	}
	last := &t.last[len(t.last)-1]
	t.out = append(t.out, byte(number-*last)<<4|kind)
	*last = number
}

func (t *thrift) varint(n int64) { t.out = binary.AppendVarint(t.out, n) } // zigzag, as in Thrift

func (t *thrift) integer(number int16, kind byte, n int64) {
	t.field(number, kind)
	t.varint(n)
}

func (t *thrift) bytes(s string) {
	t.out = binary.AppendUvarint(t.out, uint64(len(s)))
	t.out = append(t.out, s...)
}

func (t *thrift) text(number int16, s string) {
	t.field(number, binaryType)
	t.bytes(s)
}

func (t *thrift) list(number int16, kind byte, n int) {
	t.field(number, listType)
	if n < 15 {
		t.out = append(t.out, byte(n)<<4|kind)
		return
	}
	t.out = append(t.out, 0xF0|kind)
	t.out = binary.AppendUvarint(t.out, uint64(n))
}

// push opens a structure that is an item of a list, begin one that is a field;
// end closes the last one.
func (t *thrift) push() { t.last = append(t.last, 0) }

func (t *thrift) begin(number int16) {
	t.field(number, structure)
	t.push()
}

func (t *thrift) end() {
	t.out = append(t.out, 0)
	t.last = t.last[:len(t.last)-1]
}
