package report

import (
	"bufio"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/metrics"
	"github.com/tgssim/tgssim/serving"
	"github.com/tgssim/tgssim/sim"
)

// A column is one column of a CSV file: its name and how it appends a row's
// value to a line. Times are written exactly, in decimal, without a locale; a
// value that does not exist is an empty cell.
type column[T any] struct {
	name string
	cell func(b []byte, row T) []byte
}

// writeCSV writes a header and a line per row.
func writeCSV[T any](w io.Writer, columns []column[T], rows int, row func(i int) T) error {
	out := bufio.NewWriterSize(w, 1<<16)
	var b []byte
	for i, c := range columns {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, c.name...)
	}
	b = append(b, '\n')
	for k := range rows {
		if _, err := out.Write(b); err != nil {
			return err
		}
		b = b[:0]
		r := row(k)
		for i, c := range columns {
			if i > 0 {
				b = append(b, ',')
			}
			b = c.cell(b, r)
		}
		b = append(b, '\n')
	}
	if _, err := out.Write(b); err != nil {
		return err
	}
	return out.Flush()
}

func names[T any](columns []column[T]) []string {
	out := make([]string, len(columns))
	for i, c := range columns {
		out[i] = c.name
	}
	return out
}

// Cells.

func appendInt[N ~int | ~int32 | ~int64](b []byte, n N) []byte {
	return strconv.AppendInt(b, int64(n), 10)
}

// appendFloat writes the shortest decimal that reads back as v, without an
// exponent.
func appendFloat(b []byte, v float64) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return b
	}
	return strconv.AppendFloat(b, v, 'f', -1, 64)
}

// appendText quotes as RFC 4180 does, when it must.
func appendText(b []byte, s string) []byte {
	if !strings.ContainsAny(s, ",\"\r\n") {
		return append(b, s...)
	}
	b = append(b, '"')
	b = append(b, strings.ReplaceAll(s, `"`, `""`)...)
	return append(b, '"')
}

// appendScaled writes t exactly in a unit of 10^digits picoseconds.
func appendScaled(b []byte, t sim.Time, digits int) []byte {
	if t == sim.Never {
		return b
	}
	if t < 0 {
		b, t = append(b, '-'), -t
	}
	unit := sim.Time(1)
	for range digits {
		unit *= 10
	}
	b = strconv.AppendInt(b, int64(t/unit), 10)
	rest := t % unit
	if rest == 0 {
		return b
	}
	b = append(b, '.')
	for rest > 0 {
		unit /= 10
		b = append(b, '0'+byte(rest/unit))
		rest %= unit
	}
	return b
}

func appendSeconds(b []byte, t sim.Time) []byte      { return appendScaled(b, t, 12) }
func appendMilliseconds(b []byte, t sim.Time) []byte { return appendScaled(b, t, 9) }

// requestRow is a request and the result it belongs to.
type requestRow struct {
	*metrics.Request
	result *metrics.Result
}

func (q requestRow) started() bool  { return q.FirstToken != sim.Never }
func (q requestRow) finished() bool { return q.Outcome == serving.Finished }

// requestColumns are the columns of requests.csv.
func requestColumns() []column[requestRow] {
	type row = requestRow
	rank := func(of func(q row) int32) func(b []byte, q row) []byte {
		return func(b []byte, q row) []byte {
			if of(q) < 0 {
				return b
			}
			return appendInt(b, of(q))
		}
	}
	instant := func(of func(q row) sim.Time) func(b []byte, q row) []byte {
		return func(b []byte, q row) []byte { return appendSeconds(b, of(q)) }
	}
	cs := []column[row]{
		{"id", func(b []byte, q row) []byte { return appendInt(b, q.ID) }},
		{"arrival_s", instant(func(q row) sim.Time { return q.Arrival })},
		{"prompt_tokens", func(b []byte, q row) []byte { return appendInt(b, q.PromptTokens) }},
		{"output_tokens", func(b []byte, q row) []byte { return appendInt(b, q.OutputTokens) }},
		{"outcome", func(b []byte, q row) []byte { return append(b, q.Outcome.String()...) }},
		{"reason", func(b []byte, q row) []byte { return appendText(b, q.result.Reason(q.Request)) }},
		{"prefill_rank", rank(func(q row) int32 { return q.PrefillRank })},
		{"decode_rank", rank(func(q row) int32 { return q.DecodeRank })},
		{"prefill_start_s", instant(func(q row) sim.Time { return q.PrefillStart })},
		{"prefill_end_s", instant(func(q row) sim.Time { return q.PrefillEnd })},
		{"transfer_end_s", instant(func(q row) sim.Time { return q.TransferEnd })},
		{"first_token_s", instant(func(q row) sim.Time { return q.FirstToken })},
		{"finish_s", instant(func(q row) sim.Time { return q.Finish })},
		{"ttft_prefill_only_ms", func(b []byte, q row) []byte {
			if q.PrefillEnd == sim.Never {
				return b
			}
			return appendMilliseconds(b, q.PrefillEnd-q.Arrival)
		}},
		{"ttft_ms", func(b []byte, q row) []byte {
			if !q.started() {
				return b
			}
			return appendMilliseconds(b, q.TTFTOf())
		}},
		{"tpot_ms", func(b []byte, q row) []byte {
			if !q.finished() {
				return b
			}
			return appendFloat(b, q.TPOT())
		}},
		{"e2e_ms", func(b []byte, q row) []byte {
			if !q.finished() {
				return b
			}
			return appendMilliseconds(b, q.E2E())
		}},
		{"kv_bytes", func(b []byte, q row) []byte { return appendInt(b, q.KVBytes) }},
	}
	for p := serving.Piece(0); p < serving.NumPieces; p++ {
		cs = append(cs, column[row]{"ttft_" + p.String() + "_ps", func(b []byte, q row) []byte {
			return appendInt(b, q.TTFT[p])
		}})
	}
	for p := serving.Piece(0); p < serving.NumPieces; p++ {
		cs = append(cs, column[row]{"gen_" + p.String() + "_ps", func(b []byte, q row) []byte {
			return appendInt(b, q.Decode[p])
		}})
	}
	return cs
}

// flowColumns are the columns of flows.csv.
func flowColumns() []column[*metrics.Transfer] {
	type row = *metrics.Transfer
	return []column[row]{
		{"request", func(b []byte, t row) []byte { return appendInt(b, t.Request) }},
		{"prefill_rank", func(b []byte, t row) []byte { return appendInt(b, t.PrefillRank) }},
		{"decode_rank", func(b []byte, t row) []byte { return appendInt(b, t.DecodeRank) }},
		{"messages", func(b []byte, t row) []byte { return appendInt(b, t.Messages) }},
		{"bytes", func(b []byte, t row) []byte { return appendInt(b, t.Bytes) }},
		{"posted_s", func(b []byte, t row) []byte { return appendSeconds(b, t.Posted) }},
		{"arrived_s", func(b []byte, t row) []byte { return appendSeconds(b, t.Arrived) }},
		{"transfer_ms", func(b []byte, t row) []byte { return appendMilliseconds(b, t.Arrived-t.Posted) }},
		{"post_ps", func(b []byte, t row) []byte { return appendInt(b, t.Post) }},
		{"wire_ps", func(b []byte, t row) []byte { return appendInt(b, t.Wire) }},
		{"queue_ps", func(b []byte, t row) []byte { return appendInt(b, t.Queue) }},
	}
}

// linkColumns are the columns of links.csv.
func linkColumns() []column[*metrics.LinkUse] {
	type row = *metrics.LinkUse
	cs := []column[row]{
		{"link", func(b []byte, l row) []byte { return appendInt(b, l.Link) }},
		{"name", func(b []byte, l row) []byte { return appendText(b, l.Name) }},
		{"tier", func(b []byte, l row) []byte { return append(b, l.Tier.String()...) }},
		{"rate_bps", func(b []byte, l row) []byte { return appendInt(b, l.Rate) }},
	}
	for c := fabric.Class(0); c < fabric.NumClasses; c++ {
		cs = append(cs, column[row]{"payload_" + c.String() + "_bytes", func(b []byte, l row) []byte {
			return appendInt(b, l.Payload[c])
		}})
	}
	return append(cs, []column[row]{
		{"wire_bytes", func(b []byte, l row) []byte { return appendInt(b, l.Wire) }},
		{"utilisation", func(b []byte, l row) []byte { return appendFloat(b, l.Utilisation) }},
	}...)
}

// seriesColumns are the columns of timeseries.csv.
func seriesColumns() []column[*metrics.SeriesRow] {
	type row = *metrics.SeriesRow
	waiting := func(s metrics.Stage) func(b []byte, r row) []byte {
		return func(b []byte, r row) []byte { return appendFloat(b, r.Waiting[s]) }
	}
	return []column[row]{
		{"start_s", func(b []byte, r row) []byte { return appendSeconds(b, r.From) }},
		{"end_s", func(b []byte, r row) []byte { return appendSeconds(b, r.To) }},
		{"arrivals", func(b []byte, r row) []byte { return appendInt(b, r.Arrivals) }},
		{"finished", func(b []byte, r row) []byte { return appendInt(b, r.Finished) }},
		{"prompt_tokens", func(b []byte, r row) []byte { return appendInt(b, r.PromptTokens) }},
		{"output_tokens", func(b []byte, r row) []byte { return appendInt(b, r.OutputTokens) }},
		{"tgs", func(b []byte, r row) []byte {
			if r.TGS == nil {
				return b
			}
			return appendFloat(b, *r.TGS)
		}},
		{"in_system", func(b []byte, r row) []byte { return appendFloat(b, r.InSystem) }},
		{"running", func(b []byte, r row) []byte { return appendFloat(b, r.Running) }},
		{"prefill_queue", waiting(metrics.StageQueue)},
		{"decode_memory_queue", waiting(metrics.StageDecodeMemory)},
		{"transfers_in_flight", waiting(metrics.StageTransfer)},
		{"decode_queue", waiting(metrics.StageDecodeWait)},
	}
}

// stepColumns are the columns of steps.csv.
func stepColumns() []column[*metrics.Step] {
	type row = *metrics.Step
	return []column[row]{
		{"pool", func(b []byte, s row) []byte { return appendText(b, s.Pool) }},
		{"instance", func(b []byte, s row) []byte { return appendInt(b, s.Instance) }},
		{"start_s", func(b []byte, s row) []byte { return appendSeconds(b, s.Start) }},
		{"end_s", func(b []byte, s row) []byte { return appendSeconds(b, s.End) }},
		{"requests", func(b []byte, s row) []byte { return appendInt(b, s.Requests) }},
		{"tokens", func(b []byte, s row) []byte { return appendInt(b, s.Tokens) }},
		{"output_tokens", func(b []byte, s row) []byte { return appendInt(b, s.Output) }},
		{"context_tokens", func(b []byte, s row) []byte { return appendInt(b, s.Context) }},
		{"compute_ps", func(b []byte, s row) []byte { return appendInt(b, s.Compute) }},
		{"dispatch_ps", func(b []byte, s row) []byte { return appendInt(b, s.Dispatch) }},
		{"combine_ps", func(b []byte, s row) []byte { return appendInt(b, s.Combine) }},
		{"all_reduce_ps", func(b []byte, s row) []byte { return appendInt(b, s.AllReduce) }},
	}
}
