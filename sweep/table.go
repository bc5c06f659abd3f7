package sweep

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// summaryColumns are the measures of sweep.csv, by their keys in a run's
// summary.json; docs/metrics.md defines them.
var summaryColumns = []string{
	"completed", "requests_rejected", "requests_unfinished", "offered_rate_req_per_s", "served_rate_req_per_s",
	"tgs", "tgs_steady", "tgs_decode", "tgs_decode_steady", "tgs_prefill", "tgs_prefill_steady", "tgs_offered", "tgs_perfect_fabric",
	"request_goodput", "slo_attainment", "slo_met",
	"mean_ttft_ms", "median_ttft_ms", "p99_ttft_ms", "mean_itl_ms", "median_itl_ms", "p99_itl_ms",
	"mean_tpot_ms", "p99_tpot_ms", "seconds_per_token", "tokens_per_s_per_user",
	"batch_per_decode_gpu", "kv_transfer_share_ttft", "mean_kv_transfer_ms", "p99_kv_transfer_ms", "ttft_share_transfer_queue",
	"exposed_comm_share_prefill", "exposed_comm_share_decode", "fabric_wait_share_prefill", "fabric_wait_share_decode",
	"gpu_time_prefill_dispatch", "gpu_time_prefill_combine", "gpu_time_decode_dispatch", "gpu_time_decode_combine",
	"dispatch_us_prefill", "combine_us_prefill", "dispatch_us_decode", "combine_us_decode",
	"comm_prefill_paths", "comm_prefill_contention", "comm_decode_paths", "comm_decode_contention",
	"tgs_cv_100ms", "tgs_worst_100ms", "bursts", "bursts_unrecovered", "burst_recovery_ms",
	"max_queue_bytes", "p99_queue_bytes", "marked_share", "paused_ms", "pauses", "dropped_packets",
	"link_down_packets", "retransmitted_packets", "retransmission_timeouts",
	"saturation", "network_verdict",
}

// MeasureColumns lists the measures of sweep.csv.
func MeasureColumns() []string { return slices.Clone(summaryColumns) }

// clusterColumns are the columns of a Cluster, in the order of its fields.
var clusterColumns = []string{
	"nodes", "gpus", "leaves", "spines", "uplinks_per_leaf", "oversubscription",
	"prefill_instances", "prefill_gpus", "decode_instances", "decode_gpus",
}

// reservedNames lists the columns that no axis may be named after.
func reservedNames() []string {
	return slices.Concat([]string{"point", "replication", "seed"}, clusterColumns, summaryColumns,
		[]string{"events", "fingerprint", "error"})
}

// A Row is an Outcome with the values of its point.
type Row struct {
	*Outcome
	// Labels are the values of the axes as written, Cells as numbers in the unit of
	// the column's name.
	Labels, Cells []string
	// Measures is the summary by its keys.
	Measures map[string]json.RawMessage
}

// Rows calls yield with every run, by point and replication.
func (f *Folder) Rows(yield func(Row) error) error {
	for point := range f.plan.Points {
		labels := f.plan.Labels(point)
		cells := f.plan.cells(labels)
		for replication := range f.plan.Replications {
			o, err := f.journal.outcome(f.plan.runOf(point, replication))
			if err != nil {
				return err
			}
			r := Row{Outcome: o, Labels: labels, Cells: cells}
			if o.Summary != nil {
				if err := json.Unmarshal(o.Summary, &r.Measures); err != nil {
					return err
				}
			}
			if err := yield(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// cells writes the values of the axes in the units of their columns.
func (p *Plan) cells(labels []string) []string {
	cells := slices.Clone(labels)
	for i, u := range p.units {
		if u == nil {
			continue
		}
		if x, err := u.number(labels[i]); err == nil {
			cells[i] = strconv.FormatFloat(x, 'f', -1, 64)
		}
	}
	return cells
}

// Measure is a measure of the summary; ok is false when it is undefined.
func (r *Row) Measure(name string) (x float64, ok bool) {
	x, err := strconv.ParseFloat(string(r.Measures[name]), 64)
	return x, err == nil
}

// Word is a verdict of the summary, "" when there is none.
func (r *Row) Word(name string) string {
	var s string
	if json.Unmarshal(r.Measures[name], &s) != nil {
		return ""
	}
	return s
}

// cell is a measure as it stands in the CSV file.
func (r *Row) cell(name string) string {
	text := string(r.Measures[name])
	switch {
	case text == "null":
		return ""
	case strings.HasPrefix(text, `"`):
		return r.Word(name)
	}
	return text
}

// A column is a column of the results.
type column struct {
	name string
	kind kind
}

// columns are the columns of sweep.csv and sweep.parquet.
func (p *Plan) columns() []column {
	columns := []column{{"point", kindInt}, {"replication", kindInt}}
	for i := range p.Axes {
		columns = append(columns, column{p.column(i), p.kindOf(i)})
	}
	columns = append(columns, column{"seed", kindUint})
	for _, name := range clusterColumns {
		k := kindInt
		if name == "oversubscription" {
			k = kindFloat
		}
		columns = append(columns, column{name, k})
	}
	for _, name := range summaryColumns {
		columns = append(columns, column{name, kindOfMeasure(name)})
	}
	return append(columns, column{"events", kindUint}, column{"fingerprint", kindText}, column{"error", kindText})
}

func kindOfMeasure(name string) kind {
	switch name {
	case "completed", "requests_rejected", "requests_unfinished", "bursts", "bursts_unrecovered",
		"max_queue_bytes", "p99_queue_bytes", "pauses", "dropped_packets",
		"link_down_packets", "retransmitted_packets", "retransmission_timeouts":
		return kindInt
	case "slo_met":
		return kindBool
	case "saturation", "network_verdict":
		return kindText
	}
	return kindFloat
}

// kindOf is the kind of an axis: whole numbers or numbers where all its values
// are, or else text.
func (p *Plan) kindOf(axis int) kind {
	k := kindInt
	for value, v := range p.Axes[axis].Values {
		labels := make([]string, len(p.Axes))
		labels[axis] = v.Label
		cell := p.cells(labels)[axis]
		text, err := p.json(axis, value, cell)
		if err != nil || string(text) != cell || cell == "true" || cell == "false" {
			return kindText // not a number, or a quoted one
		}
		if _, err := strconv.ParseInt(cell, 10, 64); err != nil {
			k = kindFloat
		}
	}
	return k
}

// record is a run as the cells of the columns; "" is undefined.
func (r *Row) record() []string {
	record := append([]string{strconv.Itoa(r.Point), strconv.Itoa(r.Replication)}, r.Cells...)
	record = append(record, strconv.FormatUint(r.Seed, 10))
	record = append(record, r.Cluster.cells()...)
	for _, name := range summaryColumns {
		record = append(record, r.cell(name))
	}
	events := ""
	if r.Error == "" {
		events = strconv.FormatUint(r.Events, 10)
	}
	return append(record, events, r.Fingerprint, r.Error)
}

func (f *Folder) writeCSV(w io.Writer, failed *int) error {
	out := bufio.NewWriter(w)
	var header []string
	for _, c := range f.plan.columns() {
		header = append(header, c.name)
	}
	writeRecord(out, header)
	err := f.Rows(func(r Row) error {
		if r.Error != "" {
			*failed++
		}
		writeRecord(out, r.record())
		return nil
	})
	if err != nil {
		return err
	}
	return out.Flush()
}

func (f *Folder) writeParquet(w io.Writer) error {
	out := bufio.NewWriter(w)
	p := newParquet(out, f.plan.columns())
	if err := f.Rows(func(r Row) error { return p.row(r.record()) }); err != nil {
		return err
	}
	if err := p.close(); err != nil {
		return err
	}
	return out.Flush()
}

// cells are the values of clusterColumns.
func (c *Cluster) cells() []string {
	cells := make([]string, len(clusterColumns))
	if c == nil {
		return cells
	}
	for i, n := range []int{
		c.Nodes, c.GPUs, c.Leaves, c.Spines, c.UplinksPerLeaf, 0,
		c.PrefillInstances, c.PrefillGPUs, c.DecodeInstances, c.DecodeGPUs,
	} {
		cells[i] = strconv.Itoa(n)
	}
	cells[slices.Index(clusterColumns, "oversubscription")] = ""
	if c.Oversubscription != nil {
		cells[slices.Index(clusterColumns, "oversubscription")] = strconv.FormatFloat(*c.Oversubscription, 'f', -1, 64)
	}
	return cells
}

// writeRecord writes a line of CSV, quoted as in RFC 4180 where it must be. The
// writer keeps the first error.
func writeRecord(w *bufio.Writer, cells []string) {
	for i, c := range cells {
		if i > 0 {
			w.WriteByte(',')
		}
		if strings.ContainsAny(c, ",\"\r\n") {
			c = `"` + strings.ReplaceAll(c, `"`, `""`) + `"`
		}
		w.WriteString(c)
	}
	w.WriteByte('\n')
}

// A jsonRow is a line of sweep.jsonl.
type jsonRow struct {
	Point       int                        `json:"point"`
	Replication int                        `json:"replication"`
	Axes        map[string]json.RawMessage `json:"axes"`
	Seed        uint64                     `json:"seed"`
	Cluster     *Cluster                   `json:"cluster"`
	Fingerprint string                     `json:"fingerprint"`
	Events      uint64                     `json:"events"`
	Error       *string                    `json:"error"`
	Summary     json.RawMessage            `json:"summary"`
}

func (f *Folder) writeJSON(w io.Writer) error {
	out := bufio.NewWriter(w)
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	columns := f.plan.Columns()
	err := f.Rows(func(r Row) error {
		x := jsonRow{
			Point: r.Point, Replication: r.Replication, Axes: map[string]json.RawMessage{}, Seed: r.Seed,
			Cluster: r.Cluster, Fingerprint: r.Fingerprint, Events: r.Events, Summary: r.Summary,
		}
		if r.Error != "" {
			x.Error = &r.Error
		}
		for i, name := range columns {
			text, err := f.plan.json(i, f.plan.Points[r.Point][i], r.Cells[i])
			if err != nil {
				return err
			}
			x.Axes[name] = text
		}
		return e.Encode(x)
	})
	if err != nil {
		return err
	}
	return out.Flush()
}

// json is the value of an axis: a number or true or false where it was written
// as one, or else text.
func (p *Plan) json(axis, value int, cell string) (json.RawMessage, error) {
	a := &p.Axes[axis]
	var typed any
	if text := []byte(cell); !a.Labelled && json.Unmarshal(text, &typed) == nil {
		quoted := false
		if v := a.Values[value].Settings[0].Value; v.IsScalar() {
			_, quoted = v.Text()
		}
		switch typed.(type) {
		case float64, bool:
			if !quoted {
				return text, nil
			}
		}
	}
	return json.Marshal(cell)
}

func (f *Folder) writeTiming(w io.Writer) error {
	out := bufio.NewWriter(w)
	writeRecord(out, []string{"point", "replication", "wall_s", "events_per_s"})
	err := f.Rows(func(r Row) error {
		rate := ""
		if r.WallS > 0 {
			rate = strconv.FormatFloat(float64(r.Events)/r.WallS, 'f', 0, 64)
		}
		writeRecord(out, []string{
			strconv.Itoa(r.Point), strconv.Itoa(r.Replication), strconv.FormatFloat(r.WallS, 'f', 6, 64), rate,
		})
		return nil
	})
	if err != nil {
		return err
	}
	return out.Flush()
}

// Sprint is the labels of a point for messages.
func (p *Plan) Sprint(point int) string {
	parts := make([]string, len(p.Axes))
	for i, label := range p.Labels(point) {
		parts[i] = fmt.Sprintf("%s=%s", p.Axes[i].Name, label)
	}
	return strings.Join(parts, " ")
}
