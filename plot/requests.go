package plot

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tgssim/tgssim/metrics"
	"github.com/tgssim/tgssim/report"
	"github.com/tgssim/tgssim/sim"
)

// A request is what pictures use of a line of requests.csv.
type request struct {
	arrival, firstToken sim.Time
	prompt              float64
	finished            bool
	decodeRank          int
	ttft                sim.Time
	pieces              []sim.Time // by the names of pieceColumns
}

// pieceColumns are the pieces of TTFT, in the order in which they pass.
var pieceColumns = []string{
	"ttft_queue_ps", "ttft_prefill_compute_ps", "ttft_prefill_comm_ps", "ttft_decode_memory_ps", "ttft_transfer_post_ps",
	"ttft_transfer_wire_ps", "ttft_transfer_queue_ps", "ttft_decode_wait_ps", "ttft_decode_compute_ps", "ttft_decode_comm_ps",
	"ttft_decode_host_ps",
}

// readRequests reads requests.csv.
func readRequests(text []byte) ([]request, error) {
	columns := append([]string{"arrival_s", "prompt_tokens", "outcome", "decode_rank", "first_token_s", "ttft_ms"}, pieceColumns...)
	c, err := newTableReader(text, columns...)
	if err != nil {
		return nil, err
	}
	var out []request
	err = c.rows(func(line int, record []string) error {
		cell := func(name string) string { return record[c.index[name]] }
		q := request{finished: cell("outcome") == "finished", decodeRank: -1, firstToken: sim.Never}
		var err error
		note := func(name string, e error) {
			if err == nil && e != nil {
				err = fmt.Errorf("line %d, %s: %w", line, name, e)
			}
		}
		arrival, e := exactTime(cell("arrival_s"), 12)
		q.arrival = arrival
		note("arrival_s", e)
		tokens, e := strconv.ParseUint(cell("prompt_tokens"), 10, 53)
		note("prompt_tokens", e)
		q.prompt = float64(tokens)
		if s := cell("decode_rank"); s != "" {
			q.decodeRank, e = strconv.Atoi(s)
			note("decode_rank", e)
		}
		if s := cell("first_token_s"); s != "" {
			q.firstToken, e = exactTime(s, 12)
			note("first_token_s", e)
			q.ttft, e = exactTime(cell("ttft_ms"), 9)
			note("ttft_ms", e)
		}
		for _, name := range pieceColumns {
			n, e := strconv.ParseInt(cell(name), 10, 64)
			note(name, e)
			q.pieces = append(q.pieces, sim.Time(n))
		}
		out = append(out, q)
		return err
	})
	return out, err
}

// exactTime reads a decimal in a unit of 10^digits picoseconds.
func exactTime(s string, digits int) (sim.Time, error) {
	whole, rest, _ := strings.Cut(s, ".")
	if whole == "" || strings.Trim(whole+rest, "0123456789") != "" || len(rest) > digits {
		return 0, fmt.Errorf("%q is no time with at most %d decimals", s, digits)
	}
	n, err := strconv.ParseInt(whole+rest+strings.Repeat("0", digits-len(rest)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no time", s)
	}
	return sim.Time(n), nil
}

// A runData is the folder of a run and the requests in it.
type runData struct {
	row      *row
	name     string
	requests []request
	from     sim.Time // of what counts: the end of an explicit warm-up
}

// openRuns reads the folders of runs; sweeps keep no requests.
func openRuns(r *Request) (*table, []*runData, error) {
	t, err := open(r.Dirs)
	if err != nil {
		return nil, nil, err
	}
	if err := t.where(r.Where); err != nil {
		return nil, nil, err
	}
	var runs []*runData
	for i := range t.rows {
		x := &t.rows[i]
		if !x.folder.run {
			return nil, nil, fmt.Errorf("%s is a sweep, which keeps no %s; `tgssim run %s -o RUN` writes one for a point", x.folder.dir,
				report.RequestsFile, filepath.ToSlash(filepath.Join(x.folder.dir, "points", fmt.Sprintf("%05d.yaml", x.point))))
		}
		text, err := readFile(x.folder.dir, report.RequestsFile, "`tgssim run`")
		if err != nil {
			return nil, nil, err
		}
		d := &runData{row: x, name: x.folder.name}
		if d.requests, err = readRequests(text); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", filepath.Join(x.folder.dir, report.RequestsFile), err)
		}
		d.warm()
		runs = append(runs, d)
	}
	return t, runs, nil
}

// warm finds the end of an explicit warm-up, before which nothing counts, as in
// package metrics.
func (d *runData) warm() {
	var warmup sim.Time
	if s := valueOf(d.row.settings, "metrics.warmup"); s == "" || warmup.UnmarshalText([]byte(s)) != nil || warmup <= 0 {
		return
	}
	first := sim.Never
	for i := range d.requests {
		first = min(first, d.requests[i].arrival)
	}
	d.from = first + warmup
}

// measured are the requests behind TTFT: finished, and not of the warm-up.
func (d *runData) measured() (out []*request) {
	for i := range d.requests {
		if q := &d.requests[i]; q.finished && q.arrival >= d.from {
			out = append(out, q)
		}
	}
	return out
}

// nameRuns names runs by the columns asked for, or by their folders.
func nameRuns(t *table, runs []*runData, by []string) error {
	if len(by) == 0 {
		return nil
	}
	names := make([][]string, len(runs))
	for _, name := range by {
		name, err := t.find(name)
		if err != nil {
			return fmt.Errorf("--by: %w", err)
		}
		for i, d := range runs {
			names[i] = append(names[i], show(name, d.row.text(name)))
		}
	}
	for i, d := range runs {
		d.name = strings.Join(names[i], ", ")
	}
	return nil
}

// ttfts are the measured times to first token in ms, ascending.
func (d *runData) ttfts() []metrics.Weighted {
	var values []float64
	for _, q := range d.measured() {
		values = append(values, milliseconds(q.ttft))
	}
	return weigh(values, nil)
}

func milliseconds(t sim.Time) float64 { return float64(t) / 1e9 }

// weigh sorts a sample and counts equal values; counts of nil are all 1.
func weigh(values []float64, counts []int64) []metrics.Weighted {
	out := make([]metrics.Weighted, len(values))
	for i, v := range values {
		out[i] = metrics.Weighted{Value: v, Count: 1}
		if counts != nil {
			out[i].Count = counts[i]
		}
	}
	slices.SortStableFunc(out, func(a, b metrics.Weighted) int {
		switch {
		case a.Value < b.Value:
			return -1
		case a.Value > b.Value:
			return 1
		}
		return 0
	})
	merged := out[:0]
	for _, w := range out {
		if k := len(merged); k > 0 && merged[k-1].Value == w.Value {
			merged[k-1].Count += w.Count
			continue
		}
		merged = append(merged, w)
	}
	return merged
}

// A step is what pictures use of a line of steps.csv.
type step struct {
	instance int
	end      sim.Time
	requests int64
}

// readSteps reads the decode steps of steps.csv.
func readSteps(text []byte) ([]step, error) {
	c, err := newTableReader(text, "pool", "instance", "end_s", "requests")
	if err != nil {
		return nil, err
	}
	var out []step
	err = c.rows(func(line int, record []string) error {
		if record[c.index["pool"]] != "decode" {
			return nil
		}
		instance, e1 := strconv.Atoi(record[c.index["instance"]])
		end, e2 := exactTime(record[c.index["end_s"]], 12)
		requests, e3 := strconv.ParseInt(record[c.index["requests"]], 10, 64)
		if err := errors.Join(e1, e2, e3); err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
		out = append(out, step{instance, end, requests})
		return nil
	})
	return out, err
}

// itls finds the gaps between successive outputs of all requests, in ms. Every
// request in a step has an output at its end. Those that had none before it, whose
// first token it is, have no gap; the gap of all others is the time since the end
// of the instance's step before.
func (d *runData) itls() ([]metrics.Weighted, error) {
	dir := d.row.folder.dir
	text, err := readFile(dir, report.StepsFile, "`tgssim run ... --set metrics.steps=true`")
	if err != nil {
		return nil, err
	}
	steps, err := readSteps(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, report.StepsFile), err)
	}
	ranks, err := strconv.Atoi(valueOf(d.row.settings, "decode.dp"))
	if err != nil || ranks < 1 {
		return nil, fmt.Errorf("%s: decode.dp is missing, which tells the ranks of an instance", filepath.Join(dir, report.ScenarioFile))
	}
	type instant struct {
		instance int
		at       sim.Time
	}
	joined := map[instant]int64{}
	for i := range d.requests {
		if q := &d.requests[i]; q.firstToken != sim.Never && q.decodeRank >= 0 {
			joined[instant{q.decodeRank / ranks, q.firstToken}]++
		}
	}
	slices.SortStableFunc(steps, func(a, b step) int {
		if a.instance != b.instance {
			return a.instance - b.instance
		}
		return int(max(-1, min(1, a.end-b.end)))
	})
	var gaps []float64
	var counts []int64
	for i, s := range steps {
		n := s.requests - joined[instant{s.instance, s.end}]
		if n < 0 || n > 0 && (i == 0 || steps[i-1].instance != s.instance) {
			return nil, fmt.Errorf("%s: %s and %s do not belong together", dir, report.StepsFile, report.RequestsFile)
		}
		if n > 0 && s.end >= d.from {
			gaps, counts = append(gaps, milliseconds(s.end-steps[i-1].end)), append(counts, n)
		}
	}
	return weigh(gaps, counts), nil
}
