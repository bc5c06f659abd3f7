package sweep

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/tgssim/tgssim/internal/atomicfile"
)

// The journal holds one line per finished run, in the order in which they
// finished, after a line that says what they are runs of. Each line carries a
// checksum and is written by one call and flushed to the disk before the run
// counts as done, so that a sweep that is killed loses only what was under way.
//
//	{"check":"<16 digits>","entry":{...}}
//
// check is the first half of the SHA-256 of entry's text.

// maxLine bounds a line of a journal.
const maxLine = 1 << 20

const (
	lineHead   = `{"check":"`
	lineMiddle = `","entry":`
	lineTail   = "}\n"
	checkSize  = 16
)

func checksum(entry []byte) string {
	sum := sha256.Sum256(entry)
	return hex.EncodeToString(sum[:checkSize/2])
}

// appendLine appends the line of an entry.
func appendLine(b []byte, entry any) ([]byte, error) {
	text, err := json.Marshal(entry)
	if err != nil {
		return b, err
	}
	b = append(b, lineHead...)
	b = append(b, checksum(text)...)
	b = append(b, lineMiddle...)
	b = append(b, text...)
	b = append(b, lineTail...)
	if len(b) > maxLine {
		return b, fmt.Errorf("%d bytes are more than a line of a journal can have", len(b))
	}
	return b, nil
}

// entryOf returns the entry of a line, with its newline; ok is false when the
// line is not whole.
func entryOf(line []byte) (entry []byte, ok bool) {
	const prefix = len(lineHead) + checkSize + len(lineMiddle)
	if len(line) < prefix+len(lineTail) || !bytes.HasPrefix(line, []byte(lineHead)) || !bytes.HasSuffix(line, []byte(lineTail)) {
		return nil, false
	}
	check := line[len(lineHead) : len(lineHead)+checkSize]
	entry = line[prefix : len(line)-len(lineTail)]
	middle := line[len(lineHead)+checkSize : prefix]
	return entry, string(middle) == lineMiddle && checksum(entry) == string(check)
}

// A stretch is where an entry lies in a journal.
type stretch struct {
	at     int64
	length int
}

// A journal is the journal of one sweep, open for appending.
type journal struct {
	file *os.File
	size int64
	// done has the stretch of every finished run, by its number; a length of 0 is
	// not done.
	done     []stretch
	finished int
}

// runOf is the number of a run.
func (p *Plan) runOf(point, replication int) int { return point*p.Replications + replication }

// createJournal starts a journal. It is there with its whole first line or not at
// all.
func createJournal(name string, id identity, runs int) (*journal, error) {
	line, err := appendLine(nil, id)
	if err != nil {
		return nil, err
	}
	if err := atomicfile.File(name, atomicfile.Bytes(line)); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return &journal{file: f, size: int64(len(line)), done: make([]stretch, runs)}, lock(f)
}

// openJournal reads a journal, drops a last line that is not whole, and is ready
// to append. It returns the identity in its first line; the caller judges it
// before it looks at the rest with read.
func openJournal(name string) (*journal, identity, error) {
	var id identity
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, id, err
	}
	j := &journal{file: f}
	if err := lock(f); err != nil {
		return nil, id, errors.Join(err, f.Close())
	}
	line, err := bufio.NewReaderSize(f, maxLine).ReadSlice('\n')
	entry, ok := entryOf(line)
	if err == nil && ok {
		err = json.Unmarshal(entry, &id)
	} else {
		err = errors.New("its first line is not whole")
	}
	if err != nil {
		return nil, id, errors.Join(fmt.Errorf("%s is no journal of a sweep: %w", name, err), f.Close())
	}
	j.size = int64(len(line))
	return j, id, nil
}

// read takes in the runs after the first line.
func (j *journal) read(p *Plan) error {
	j.done = make([]stretch, p.Runs())
	in := bufio.NewReaderSize(io.NewSectionReader(j.file, j.size, 1<<62), maxLine)
	for n := 2; ; n++ {
		line, err := in.ReadSlice('\n')
		if err == io.EOF {
			break // nothing, or a line without its end
		}
		if err != nil {
			return fmt.Errorf("line %d of the journal: %w", n, err)
		}
		entry, ok := entryOf(line)
		if !ok {
			if _, err := in.ReadByte(); err == io.EOF {
				break // the last line, not whole
			}
			return fmt.Errorf("line %d of the journal is damaged; remove the line, and its run is made again", n)
		}
		var o Outcome
		if err := json.Unmarshal(entry, &o); err != nil {
			return fmt.Errorf("line %d of the journal: %w", n, err)
		}
		if err := j.note(p, &o, stretch{j.size, len(line)}); err != nil {
			return fmt.Errorf("line %d of the journal: %w", n, err)
		}
	}
	return j.file.Truncate(j.size)
}

// note counts a run as done.
func (j *journal) note(p *Plan, o *Outcome, at stretch) error {
	if o.Point < 0 || o.Point >= len(p.Points) || o.Replication < 0 || o.Replication >= p.Replications {
		return fmt.Errorf("there is no replication %d of point %d", o.Replication, o.Point)
	}
	run := p.runOf(o.Point, o.Replication)
	if j.done[run].length > 0 {
		return fmt.Errorf("replication %d of point %d is there twice", o.Replication, o.Point)
	}
	j.done[run] = at
	j.finished++
	j.size += int64(at.length)
	return nil
}

// append records a finished run; when it returns, it is on the disk.
func (j *journal) append(p *Plan, o *Outcome) error {
	line, err := appendLine(nil, o)
	if err != nil {
		return err
	}
	if _, err := j.file.WriteAt(line, j.size); err != nil {
		return err
	}
	if err := j.file.Sync(); err != nil {
		return err
	}
	return j.note(p, o, stretch{j.size, len(line)})
}

// outcome reads a finished run again.
func (j *journal) outcome(run int) (*Outcome, error) {
	line := make([]byte, j.done[run].length)
	if _, err := j.file.ReadAt(line, j.done[run].at); err != nil {
		return nil, err
	}
	entry, ok := entryOf(line)
	if !ok {
		return nil, errors.New("the journal has changed under way")
	}
	o := new(Outcome)
	return o, json.Unmarshal(entry, o)
}

func (j *journal) close() error { return j.file.Close() }
