package workload

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A second, plain implementation of the trace formats on encoding/csv,
// encoding/json, time.Parse and big.Rat, to compare with.

type slowRow struct {
	at             *big.Rat // seconds
	prompt, output int
	blocks         []uint64
}

// slowRead reads all rows of a trace, those with zero lengths included.
func slowRead(data []byte, form string) ([]slowRow, error) {
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	var rows []slowRow
	var at map[string]int
	for text := range strings.SplitSeq(string(data), "\n") {
		text = strings.TrimSuffix(text, "\r")
		if strings.TrimSpace(text) == "" {
			continue
		}
		if form == FormatMooncake || form == FormatBailian {
			r, err := slowJSON(text, form)
			if err != nil {
				return nil, err
			}
			rows = append(rows, r)
			continue
		}
		record, err := csv.NewReader(strings.NewReader(text)).Read()
		if err != nil && err != io.EOF {
			return nil, err
		}
		if at == nil {
			at = map[string]int{"": len(record)}
			for i, name := range record {
				if name = strings.TrimSpace(name); name != "" {
					at[name] = i
				}
			}
			continue
		}
		r, err := slowCSV(record, at, form)
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

func slowCSV(record []string, at map[string]int, form string) (r slowRow, err error) {
	if len(record) != at[""] {
		return r, fmt.Errorf("%d fields", len(record))
	}
	columns := map[string][3]string{
		FormatAzure:    {"TIMESTAMP", "ContextTokens", "GeneratedTokens"},
		FormatBurstGPT: {"Timestamp", "Request tokens", "Response tokens"},
	}[form]
	get := func(i int) string { return strings.TrimSpace(record[at[columns[i]]]) }
	if form == FormatAzure {
		var t time.Time
		for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02T15:04:05"} {
			for _, zone := range []string{"", "Z07:00", "Z0700", "Z07"} {
				if parsed, err := time.Parse(layout+zone, get(0)); err == nil {
					t = parsed
				}
			}
		}
		if t.IsZero() {
			return r, fmt.Errorf("time %q", get(0))
		}
		r.at = big.NewRat(t.UnixNano(), 1e9)
	} else if r.at, err = slowDecimal(get(0)); err != nil {
		return r, err
	}
	if r.prompt, err = strconv.Atoi(get(1)); err != nil {
		return r, err
	}
	r.output, err = strconv.Atoi(get(2))
	return r, err
}

func slowDecimal(text string) (*big.Rat, error) {
	if i := strings.IndexAny(text, "eE"); i >= 0 { // a big.Rat of 1e-999999999 would fill the memory
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, err
		}
		return new(big.Rat).SetFloat64(v), nil
	}
	v, ok := new(big.Rat).SetString(text)
	if !ok || v.Sign() < 0 {
		return nil, fmt.Errorf("number %q", text)
	}
	return v, nil
}

func slowJSON(text, form string) (r slowRow, err error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		return r, err
	}
	if r.at, err = slowDecimal(string(fields["timestamp"])); err != nil {
		return r, err
	}
	if form == FormatMooncake {
		r.at.Quo(r.at, big.NewRat(1000, 1))
	}
	if err := json.Unmarshal(fields["input_length"], &r.prompt); err != nil {
		return r, err
	}
	if err := json.Unmarshal(fields["output_length"], &r.output); err != nil {
		return r, err
	}
	if ids, ok := fields["hash_ids"]; ok {
		err = json.Unmarshal(ids, &r.blocks)
	}
	return r, err
}

// slowReplay turns rows into requests as it is documented: zero lengths left
// out, sorted by time, relative to the first, over the speedup, to the nearest
// picosecond.
func slowReplay(rows []slowRow, speedup float64) []Request {
	rows = slices.DeleteFunc(slices.Clone(rows), func(r slowRow) bool { return r.prompt == 0 || r.output == 0 })
	slices.SortStableFunc(rows, func(a, b slowRow) int { return a.at.Cmp(b.at) })
	requests := make([]Request, len(rows))
	divisor := new(big.Rat).SetFloat64(speedup)
	for i, r := range rows {
		t := new(big.Rat).Sub(r.at, rows[0].at)
		t.Mul(t, big.NewRat(1e12, 1)).Quo(t, divisor)
		requests[i] = Request{
			ID: i, Arrival: nearest(t),
			PromptTokens: r.prompt, OutputTokens: r.output,
			Blocks: orNil(r.blocks),
		}
	}
	return requests
}

// orNil makes an empty list nil.
func orNil(b []uint64) []uint64 {
	if len(b) == 0 {
		return nil
	}
	return b
}
