package workload

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/sim"
)

// maxLine bounds a line of a trace: 16 MiB hold the hash IDs of ten million
// tokens in blocks of 16.
const maxLine = 16 << 20

// A Trace is a recorded trace, read and checked. It does not change.
type Trace struct {
	name string
	// rows are in time order, ties in the order of the file.
	rows []row
	// blocks holds the rows' hash IDs, one row after the other.
	blocks      []uint64
	blockTokens int
	summary     TraceStats
}

// A row is one request of a trace.
type row struct {
	at             int64 // ns, from an epoch of the file's own
	prompt, output int32
	blocks         int32 // how many
	first          int   // index of the first in Trace.blocks
}

// TraceStats is what was read of a trace. Rows = Skipped + Dropped + Unplayed +
// the requests played.
type TraceStats struct {
	// Format is what the file turned out to be; empty without a trace.
	Format string
	// Rows is the number of data rows read.
	Rows int
	// Skipped is how many of them TraceConfig.Skip left out.
	Skipped int
	// ZeroPrompt counts the other rows without prompt tokens, ZeroOutput those
	// with prompt but without output tokens.
	ZeroPrompt, ZeroOutput int
	// Dropped is how many of these were left out; the rest were raised to one
	// token.
	Dropped int
	// OutOfOrder counts the rows earlier than one before them in the file. They
	// are played in time order.
	OutOfOrder int
	// Unplayed is how many rows Config.Requests and Config.Duration left out.
	Unplayed int
}

// A fault is what is wrong with a row, or with one column of it.
type fault struct {
	column, message string
}

func faultf(column, format string, args ...any) *fault {
	return &fault{column, fmt.Sprintf(format, args...)}
}

// A decoder turns the data lines of one format into rows. Lengths may be 0; the
// caller decides about those. It appends hash IDs to *blocks.
type decoder interface {
	decode(line []byte, blocks *[]uint64) (row, *fault)
}

func openTrace(cfg TraceConfig) (*Trace, error) {
	f, err := os.Open(cfg.Path)
	if err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return nil, config.Problems{{Key: "trace.path", Message: fmt.Sprintf("cannot read %s: %v", cfg.Path, err)}}
	}
	defer f.Close()
	return ReadTrace(f, cfg.Path, cfg)
}

// ReadTrace reads a trace from r and checks every row. name stands for the file
// in errors, which are config.Problems of the form
//
//	file:line: column: what is wrong; what is valid
//
// Of cfg it uses Format, Skip, Rows, ZeroLengths and BlockTokens. Rows that are
// not in time order are sorted, and counted.
func ReadTrace(r io.Reader, name string, cfg TraceConfig) (*Trace, error) {
	var ps config.Problems
	cfg.validateReading(&ps)
	if err := ps.Err(); err != nil {
		return nil, err
	}
	b := builder{cfg: cfg, lines: newLines(r), trace: &Trace{name: name}}
	if f := b.read(); f != nil {
		return nil, config.Problems{{
			Key: f.column, Message: f.message, Where: fmt.Sprintf("%s:%d", name, b.lines.number),
		}}
	}
	return b.trace, nil
}

// builder reads one trace.
type builder struct {
	cfg    TraceConfig
	lines  *lines
	trace  *Trace
	latest int64 // time of the latest row so far
}

func (b *builder) read() *fault {
	head, f := b.lines.next()
	switch {
	case f != nil:
		return f
	case head == nil:
		return faultf("", "the file is empty; expected a CSV header or JSON lines")
	}
	form, d, f := recognise(head, b.cfg)
	if f != nil {
		return f
	}
	t := b.trace
	t.summary.Format = form.name
	if form.blockTokens > 0 {
		t.blockTokens = form.blockTokens
		if b.cfg.BlockTokens > 0 {
			t.blockTokens = b.cfg.BlockTokens
		}
	} else if b.cfg.BlockTokens > 0 {
		return faultf("block_tokens", "the format %s has no blocks; remove it", form.name)
	}
	line := head
	if form.columns != nil {
		line, f = b.lines.next()
	}
	for ; line != nil && f == nil; line, f = b.lines.next() {
		if f := b.add(line, d); f != nil {
			return f
		}
		if b.cfg.Rows > 0 && t.summary.Rows == b.cfg.Skip+b.cfg.Rows {
			break
		}
	}
	if f != nil {
		return f
	}
	return b.finish()
}

func (b *builder) add(line []byte, d decoder) *fault {
	t, s := b.trace, &b.trace.summary
	mark := len(t.blocks)
	r, f := d.decode(line, &t.blocks)
	if f != nil {
		return f
	}
	s.Rows++
	if s.Rows <= b.cfg.Skip {
		s.Skipped++
		t.blocks = t.blocks[:mark]
		return nil
	}
	if r.prompt == 0 || r.output == 0 {
		what := "output"
		if r.prompt == 0 {
			what = "prompt"
			s.ZeroPrompt++
		} else {
			s.ZeroOutput++
		}
		switch b.cfg.ZeroLengths {
		case ZeroRefuse:
			return faultf("", "no %s tokens; at least 1 is expected with zero_lengths: refuse", what)
		case ZeroSkip:
			s.Dropped++
			t.blocks = t.blocks[:mark]
			return nil
		}
		r.prompt, r.output = max(r.prompt, 1), max(r.output, 1)
	}
	r.first, r.blocks = mark, int32(len(t.blocks)-mark)
	if most := blocksOf(int(r.prompt), t.blockTokens); int(r.blocks) > most {
		return faultf(keyBlocks, "%d blocks for %d prompt tokens; at most %d with block_tokens: %d",
			r.blocks, r.prompt, most, t.blockTokens)
	}
	if len(t.rows) > 0 && r.at < b.latest {
		s.OutOfOrder++
	} else {
		b.latest = r.at
	}
	t.rows = append(t.rows, r)
	return nil
}

func (b *builder) finish() *fault {
	t, s := b.trace, &b.trace.summary
	switch {
	case s.Rows == 0:
		return faultf("", "the file has a header but no rows")
	case len(t.rows) == 0:
		return faultf("", "none of the %d rows can be played: %d skipped, %d without prompt or output tokens",
			s.Rows, s.Skipped, s.Dropped)
	}
	if s.OutOfOrder > 0 {
		slices.SortStableFunc(t.rows, func(a, b row) int {
			switch {
			case a.at < b.at:
				return -1
			case a.at > b.at:
				return 1
			}
			return 0
		})
	}
	return nil
}

// Stats is what was read, with nothing counted as Unplayed.
func (t *Trace) Stats() TraceStats { return t.summary }

// Replay makes a Generator that plays t within the bounds of cfg, at the speed of
// cfg.Trace; the rest of cfg.Trace was for ReadTrace. It serves the replay of one
// trace at many speeds. The error is a config.Problems.
func (t *Trace) Replay(cfg Config) (*Generator, error) {
	if cfg.Trace == nil {
		return nil, config.Problems{{Key: "trace", Message: "missing; it says how fast to replay"}}
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	played, err := t.bound(cfg)
	if err != nil {
		return nil, err
	}
	return &Generator{cfg: cfg, trace: t, played: played}, nil
}

// arrival is when row i arrives: its time since the first row, over the speedup.
func (t *Trace) arrival(i int, speedup float64) sim.Time {
	return quotient(uint64(t.rows[i].at)-uint64(t.rows[0].at), uint64(sim.Nanosecond), speedup)
}

// bound returns how many rows the bounds of cfg let play. The error is a
// config.Problems.
func (t *Trace) bound(cfg Config) (int, error) {
	most, end := len(t.rows), sim.Never
	if cfg.Requests > 0 {
		most = min(most, cfg.Requests)
	}
	if cfg.Duration > 0 {
		end = cfg.Duration
	}
	speedup := cfg.Trace.Speedup
	n := sort.Search(most, func(i int) bool { return t.arrival(i, speedup) >= end })
	if end == sim.Never && n < most {
		days := float64(t.rows[most-1].at-t.rows[0].at) / 86400e9 / speedup
		return 0, config.Problems{{
			Key: "trace.speedup",
			Message: fmt.Sprintf("%s lasts %.1f days at speedup %s, and the clock covers 106; raise the speedup, or bound requests or duration",
				t.name, days, number(speedup)),
		}}
	}
	return n, nil
}

// replay plays a trace.
type replay struct {
	g    *Generator
	next int
	tally
}

func newReplay(g *Generator) *replay {
	r := &replay{g: g}
	r.stats.Trace = g.trace.summary
	r.stats.Trace.Unplayed = len(g.trace.rows) - g.played
	r.stats.BlockTokens = g.trace.blockTokens
	return r
}

func (p *replay) Next() (Request, bool) {
	if p.next == p.g.played {
		return Request{}, false
	}
	t := p.g.trace
	row := &t.rows[p.next]
	r := Request{
		ID: p.next, Arrival: t.arrival(p.next, p.g.cfg.Trace.Speedup),
		PromptTokens: int(row.prompt), OutputTokens: int(row.output),
	}
	if row.blocks > 0 {
		last := row.first + int(row.blocks)
		r.Blocks = t.blocks[row.first:last:last]
	}
	p.next++
	p.add(&r, len(r.Blocks))
	return r, true
}

func (p *replay) Stats() Stats { return p.stats }

// lines splits a file into lines.
type lines struct {
	scanner *bufio.Scanner
	number  int // of the line last returned, from 1
}

func newLines(r io.Reader) *lines {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 64<<10), maxLine)
	return &lines{scanner: s}
}

var byteOrderMark = []byte("\uFEFF")

// next returns the next line that is not blank, without its end ("\n" or
// "\r\n") and without a byte order mark, or nil at the end of the file. The line
// is valid until the next call.
func (l *lines) next() ([]byte, *fault) {
	for l.scanner.Scan() {
		l.number++
		line := l.scanner.Bytes()
		if l.number == 1 {
			line = bytes.TrimPrefix(line, byteOrderMark)
		}
		if len(bytes.TrimSpace(line)) > 0 {
			return line, nil
		}
	}
	switch err := l.scanner.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		l.number++
		return nil, faultf("", "the line is longer than %d MiB; is this a trace?", maxLine>>20)
	case err != nil:
		l.number++
		return nil, faultf("", "cannot be read: %v", err)
	}
	l.number = max(l.number, 1)
	return nil, nil
}
