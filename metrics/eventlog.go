package metrics

import (
	"encoding/binary"

	"github.com/tgssim/tgssim/sim"
)

// An eventLog keeps (instant, span, count) triples exactly, in about 9 bytes
// each: differences from the last, as varints, in chunks that are never copied.
// What is asked of them, over which window, can so be decided at the end.
type eventLog struct {
	// merge joins consecutive events with the same instant and span.
	merge   bool
	chunks  [][]byte
	pending logEvent // not yet written
	last    logEvent // the last one written
}

type logEvent struct {
	at, span sim.Time
	count    int64
}

const (
	logChunk = 1 << 16
	logEntry = 3 * binary.MaxVarintLen64
)

// add records an event with a positive count.
func (l *eventLog) add(at, span sim.Time, count int64) {
	if count <= 0 {
		return
	}
	if l.merge && at == l.pending.at && span == l.pending.span {
		l.pending.count += count
		return
	}
	l.flush()
	l.pending = logEvent{at, span, count}
}

func (l *eventLog) flush() {
	e := l.pending
	if e.count == 0 {
		return
	}
	n := len(l.chunks) - 1
	if n < 0 || len(l.chunks[n])+logEntry > logChunk {
		l.chunks = append(l.chunks, make([]byte, 0, logChunk))
		n++
	}
	b := l.chunks[n]
	b = binary.AppendVarint(b, int64(e.at-l.last.at))
	b = binary.AppendVarint(b, int64(e.span-l.last.span))
	b = binary.AppendUvarint(b, uint64(e.count))
	l.chunks[n], l.last = b, e
	l.pending = logEvent{}
}

// bytes is what the log holds.
func (l *eventLog) bytes() int {
	n := 0
	for _, c := range l.chunks {
		n += len(c)
	}
	return n
}

// each calls f for every event, in the order of add.
func (l *eventLog) each(f func(e logEvent)) {
	var e logEvent
	for _, b := range l.chunks {
		for len(b) > 0 {
			at, n := binary.Varint(b)
			b = b[n:]
			span, n := binary.Varint(b)
			b = b[n:]
			count, n := binary.Uvarint(b)
			b = b[n:]
			e.at += sim.Time(at)
			e.span += sim.Time(span)
			e.count = int64(count)
			f(e)
		}
	}
	if l.pending.count > 0 {
		f(l.pending)
	}
}
