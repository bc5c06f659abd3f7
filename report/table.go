// Package report renders measured runs: tables for people, and run folders of
// JSON and CSV for everything else. It measures nothing itself; see package
// metrics for the definitions.
package report

import (
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"

	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/metrics"
	"github.com/tgssim/tgssim/serving"
)

// Options say how a table is rendered.
type Options struct {
	// Width is the number of columns; lines never exceed it. 0 means 100.
	Width int
	// Color marks headings and verdicts with ANSI colours.
	Color bool
}

// minWidth is the width below which tables would only be cut off.
const (
	defaultWidth = 100
	minWidth     = 60
)

// OptionsFor are the options for a file: coloured and as wide as the terminal,
// up to 100 columns, when it is a terminal; plain otherwise, or when NO_COLOR is
// set (no-color.org).
func OptionsFor(f *os.File) Options {
	o := Options{Width: defaultWidth}
	fd := int(f.Fd())
	if !term.IsTerminal(fd) {
		return o
	}
	o.Color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	if w, _, err := term.GetSize(fd); err == nil && w > 0 {
		o.Width = max(minWidth, min(w, defaultWidth))
	}
	return o
}

// Table renders a run for a capacity planner: the result in four lines and the
// verdicts, and then what they rest on: the load, TGS by each denominator,
// latencies, where TTFT, GPU time and communication went, and the links.
func Table(w io.Writer, r *Run, o Options) error {
	if o.Width == 0 {
		o.Width = defaultWidth
	}
	p := printer{o: o, r: r.Result, s: &r.Result.Summary}
	p.heading(r)
	p.result()
	p.verdict()
	p.load()
	p.throughput()
	p.latency()
	p.split()
	p.gpuTime()
	p.communication()
	p.links()
	_, err := io.WriteString(w, p.out.String())
	return err
}

type printer struct {
	out strings.Builder
	o   Options
	r   *metrics.Result
	s   *metrics.Summary
}

// section renders one table under its title, which says what all of it is: the
// unit and the window. The first column and those of left are kept to the left.
func (p *printer) section(title string, header table.Row, rows []table.Row, left ...int) {
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.Options{SeparateHeader: true}
	style.Box = table.BoxStyle{MiddleHorizontal: "-", PaddingRight: "  "}
	style.Format = table.FormatOptions{}
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	configs := make([]table.ColumnConfig, len(header))
	for i := range configs {
		configs[i] = table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight}
	}
	for _, i := range append(left, 0) {
		configs[i].Align, configs[i].AlignHeader = text.AlignLeft, text.AlignLeft
	}
	t.SetColumnConfigs(configs)
	t.AppendHeader(header)
	t.AppendRows(rows)
	p.out.WriteString(p.bold(wrap(title, p.o.Width)) + "\n")
	for line := range strings.SplitSeq(t.Render(), "\n") {
		if strings.Trim(line, "-") == "" { // it is as wide as the cells with their padding
			line = line[:min(len(line), p.o.Width)]
		}
		p.out.WriteString(snip(line, p.o.Width) + "\n")
	}
	p.out.WriteString("\n")
}

func (p *printer) heading(r *Run) {
	line := r.Name
	if line == "" {
		line = "run"
	}
	line += fmt.Sprintf(": %d GPUs", p.s.GPUs)
	if p.s.PrefillGPUs > 0 || p.s.DecodeGPUs > 0 {
		line += fmt.Sprintf(" (%d prefill, %d decode)", p.s.PrefillGPUs, p.s.DecodeGPUs)
	}
	line += fmt.Sprintf(", seed %d, fingerprint %016x", r.Seed, r.Fingerprint)
	p.out.WriteString(p.bold(wrap(line, p.o.Width)) + "\n\n")
}

// load is what was asked for and what was served.
func (p *printer) load() {
	s := p.s
	span := func(w metrics.Window) string {
		if w.Length() == 0 {
			return "-"
		}
		return fmt.Sprintf("%.1f-%.1f", w.From.Seconds(), w.To.Seconds())
	}
	prompt, output := tokensPerSecond(s.TGSPrefillSteady, s.PrefillGPUs), tokensPerSecond(s.TGSSteady, s.GPUs)
	wholePrompt, wholeOutput := tokensPerSecond(s.TGSPrefill, s.PrefillGPUs), tokensPerSecond(s.TGS, s.GPUs)
	p.section("LOAD", table.Row{"", "window (s)", "req/s", "prompt tokens/s", "output tokens/s"}, []table.Row{
		{"offered while requests arrive", span(p.r.Arrivals), figure(s.OfferedRate), figure(s.OfferedPromptTokens), figure(s.OfferedOutputTokens)},
		{"served, steady window", span(p.r.Steady), figure(s.ServedRate), figure(prompt), figure(output)},
		{"served, whole run", span(p.r.Whole), figure(s.RequestThroughput), figure(wholePrompt), figure(wholeOutput)},
	})
	requests := "requests"
	if s.RequestsArrived == 1 {
		requests = "request"
	}
	text := fmt.Sprintf("%s %s: %s finished, %s rejected, %s unfinished; at most %s at once", count(s.RequestsArrived), requests,
		count(s.Completed), count(s.RequestsRejected), count(s.RequestsUnfinished), count(s.PeakRequestsInSystem))
	if s.RequestGoodput != nil && s.SLOAttainment != nil {
		text += fmt.Sprintf(". Goodput over the whole run: %s req/s, %.1f %% of the requests within the SLO",
			figure(s.RequestGoodput), *s.SLOAttainment*100)
	}
	p.paragraph(text + ".")
}

// tokensPerSecond turns tokens per second per GPU back into tokens per second.
func tokensPerSecond(tgs *float64, gpus int) *float64 {
	if tgs == nil {
		return nil
	}
	v := *tgs * float64(gpus)
	return &v
}

// throughput is TGS, always with its denominator.
func (p *printer) throughput() {
	s := p.s
	p.section("TGS (tokens per second per GPU)", table.Row{"", "which tokens", "per GPU of", "GPUs", "steady", "whole run"}, []table.Row{
		{"tgs", "output", "the whole cluster", count(s.GPUs), figure(s.TGSSteady), figure(s.TGS)},
		{"tgs_decode", "output", "the decode pool", count(s.DecodeGPUs), figure(s.TGSDecodeSteady), figure(s.TGSDecode)},
		{"  batch / TPOT", "output, as a check", "the decode pool", count(s.DecodeGPUs), "", figure(s.BatchOverTPOT)},
		{"tgs_prefill", "prompt", "the prefill pool", count(s.PrefillGPUs), figure(s.TGSPrefillSteady), figure(s.TGSPrefill)},
		{"tgs_offered", "output asked for", "the whole cluster", count(s.GPUs), figure(s.TGSOffered), ""},
	}, 1, 2)
	if s.SecondsPerToken != nil {
		p.paragraph(fmt.Sprintf("seconds_per_token %s (the other use of the word TGS: what one user waits for one more token)",
			figure(s.SecondsPerToken)))
	}
}

func (p *printer) latency() {
	header := table.Row{"", "mean", "p50", "p90", "p99", "max", "samples"}
	limits := map[string]string{}
	for _, l := range p.r.Limits {
		value := digits(l.ValueMS)
		if l.NoSamples {
			value = "-"
		}
		limits[l.Name] = fmt.Sprintf("p%s %s <= %s: %s", p.percentile(), value, digits(l.LimitMS), outcome(l))
	}
	if len(limits) > 0 {
		header = append(header, "SLO")
	}
	var rows []table.Row
	for _, m := range []struct {
		name string
		st   metrics.Stats
	}{
		{"TTFT", p.r.TTFT},
		{"  prefill only", p.r.TTFTPrefill},
		{"ITL", p.r.ITL},
		{"TPOT", p.r.TPOT},
		{"E2E", p.r.E2E},
		{"KV transfer", p.r.KVTransfer},
	} {
		row := table.Row{m.name, "-", "-", "-", "-", "-", count(m.st.Count)}
		if m.st.Count > 0 {
			for i, v := range []float64{m.st.Mean, m.st.P50, m.st.P90, m.st.P99, m.st.Max} {
				row[i+1] = digits(v)
			}
		}
		if len(limits) > 0 {
			row = append(row, limits[m.name])
		}
		rows = append(rows, row)
	}
	p.section("LATENCY (ms)", header, rows, leftOf(header, "SLO")...)
}

func leftOf(header table.Row, name string) []int {
	for i, h := range header {
		if h == name {
			return []int{i}
		}
	}
	return nil
}

// split is where TTFT went, on average and for the slowest.
func (p *printer) split() {
	all, slow := &p.r.TTFTMean, &p.r.TTFTTail
	if all.TTFT == 0 {
		return
	}
	allTenths, slowTenths := tenths(all.Share[:]), tenths(slow.Share[:])
	var rows []table.Row
	for i := serving.Piece(0); i < serving.NumPieces; i++ {
		if all.Share[i] == 0 && slow.Share[i] == 0 {
			continue
		}
		rows = append(rows, table.Row{
			strings.ReplaceAll(i.String(), "_", " "),
			digits(all.Mean[i]), tenth(allTenths[i]), digits(slow.Mean[i]), tenth(slowTenths[i]),
		})
	}
	rows = append(rows, table.Row{"TTFT", digits(all.TTFT), tenth(sum(allTenths)), digits(slow.TTFT), tenth(sum(slowTenths))})
	p.section("TTFT SPLIT (where the time to first token goes)",
		table.Row{"", "mean (ms)", "%", fmt.Sprintf("slowest %s (ms)", count(slow.Requests)), "%"}, rows)
}

// gpuTime is what the GPUs did.
func (p *printer) gpuTime() {
	if len(p.r.Pools) == 0 {
		return
	}
	header := table.Row{""}
	for a := metrics.Activity(0); a < metrics.NumActivities; a++ {
		header = append(header, strings.ReplaceAll(strings.ReplaceAll(a.String(), "_", " "), "waiting kv", "await KV"))
	}
	header = append(header, "peak KV")
	var rows []table.Row
	for i := range p.r.Pools {
		pool := &p.r.Pools[i]
		row := table.Row{fmt.Sprintf("%s (%d)", pool.Usage.Pool, pool.Usage.GPUs)}
		for _, t := range tenths(pool.Share[:]) {
			row = append(row, tenth(t))
		}
		peak := "-"
		if u := pool.Usage; u.KVBlocks > 0 {
			peak = fmt.Sprintf("%.1f", float64(u.PeakKVBlocks)/float64(u.KVBlocks)*100)
		}
		rows = append(rows, append(row, peak))
	}
	p.section("GPU TIME (% of the whole run, ramp-up and drain included)", header, rows)
}

// communication is what dispatches and combines consist of.
func (p *printer) communication() {
	var rows []table.Row
	for i := range p.r.Pools {
		pool := &p.r.Pools[i]
		if pool.Comm.None() {
			continue
		}
		row := table.Row{fmt.Sprintf("%s (%d)", pool.Usage.Pool, pool.Usage.GPUs)}
		for _, t := range tenths(pool.Comm.Share[:]) {
			row = append(row, tenth(t))
		}
		two := "-"
		if n := pool.Usage.Steps; n > 0 {
			two = percent(float64(pool.Usage.TwoBatchSteps) / float64(n))
		}
		rows = append(rows, append(row, percent(float64(pool.Hidden())/1e6), two))
	}
	if len(rows) == 0 {
		return
	}
	header := table.Row{""}
	for c := metrics.CommPart(0); c < metrics.NumCommParts; c++ {
		header = append(header, strings.ReplaceAll(strings.ReplaceAll(c.String(), "startup", "start-up"), "ports", "own ports"))
	}
	p.section("DISPATCH AND COMBINE (% of their time, hidden or not)",
		append(header, "hidden by compute", "two-batch steps"), rows)
	p.allToAlls()
}

// allToAlls is what one dispatch and one combine move, and where the tokens go.
func (p *printer) allToAlls() {
	var rows, experts []table.Row
	for i := range p.r.Pools {
		pool := &p.r.Pools[i]
		for _, x := range []struct {
			name string
			a    *metrics.AllToAll
		}{{"dispatch", &pool.Dispatch}, {"combine", &pool.Combine}} {
			a := x.a
			if a.Runs == 0 || a.Logical == 0 {
				continue
			}
			rows = append(rows, table.Row{
				pool.Usage.Pool + " " + x.name, digits(a.Microseconds), digits(a.Logical / 1e6), digits(a.NVLink / 1e6), digits(a.Network / 1e6),
				digits(a.Rate(a.Logical)), digits(a.Rate(a.NVLink)), digits(a.Rate(a.Network)),
			})
		}
		if e := pool.Experts; e != nil {
			experts = append(experts, table.Row{
				pool.Usage.Pool, fmt.Sprintf("%.3f", e.Busiest), fmt.Sprintf("%.3f", e.MaxBusiest), percent(e.Dropped),
				count(pool.Usage.Steps), count(e.Rebalances), count(pool.Usage.Experts.Moves), gigabytes(units.Bytes(e.MovedBytes)),
			})
		}
	}
	if len(rows) > 0 {
		p.section("ONE DISPATCH OR COMBINE (mean per GPU, hidden or not; network is what leaves the server)",
			table.Row{"", "us", "logical MB", "NVLink MB", "network MB", "logical GB/s", "NVLink GB/s", "network GB/s"}, rows)
	}
	if len(experts) > 0 {
		p.section("EXPERTS (load of the busiest GPU over the mean)",
			table.Row{"", "mean", "max", "dropped %", "steps", "rebalances", "experts moved", "moved GB"}, experts)
	}
}

// links is the load of the wiring, by tier and at its hottest.
func (p *printer) links() {
	l := &p.r.Links
	if len(l.Tiers) == 0 {
		return
	}
	var rows []table.Row
	for i := range l.Tiers {
		t := &l.Tiers[i]
		rows = append(rows, table.Row{t.Tier, count(t.Links), percent(t.Mean), percent(t.Max), figure(t.JFI), figure(t.MMR), snip(t.Busiest, 30)})
	}
	title := "LINK USE (% of the whole run)"
	for i := range p.r.Pools {
		if p.r.Pools[i].Seconds[metrics.ActivityAllReduce] > 0 {
			title = "LINK USE (% of the whole run; NVLink without the all-reduce, which is no traffic on links)"
		}
	}
	p.section(title, table.Row{"", "links", "mean %", "max %", "JFI", "max/mean", "busiest"}, rows, 6)
	if len(l.Hottest) == 0 {
		return
	}
	rows = nil
	for i := range l.Hottest {
		u := &l.Hottest[i]
		rows = append(rows, table.Row{
			snip(u.Name, 30), u.Tier, u.Rate, percent(u.Utilisation),
			gigabytes(u.Payload[fabric.ClassKV]), gigabytes(u.Payload[fabric.ClassEP]), gigabytes(u.Wire),
		})
	}
	p.section("HOTTEST LINKS", table.Row{"", "tier", "rate", "busy %", "KV (GB)", "EP (GB)", "wire (GB)"}, rows, 1)
}

func (p *printer) paragraph(s string) { p.out.WriteString(wrap(s, p.o.Width) + "\n\n") }

func (p *printer) bold(s string) string {
	if p.o.Color {
		return bold + s + reset
	}
	return s
}

// wrap breaks lines between words, but not before a percent sign; words that are
// longer than a line stay whole.
func wrap(s string, width int) string {
	const glue = "\x00"
	var out strings.Builder
	at := 0
	for i, word := range strings.Fields(strings.ReplaceAll(s, " %", glue+"%")) {
		n := text.StringWidth(word) + strings.Count(word, glue)
		switch {
		case i == 0:
		case at+1+n > width:
			out.WriteByte('\n')
			at = 0
		default:
			out.WriteByte(' ')
			at++
		}
		out.WriteString(strings.ReplaceAll(word, glue, " "))
		at += n
	}
	return out.String()
}

// Numbers.

// figure is digits of a value that may be undefined.
func figure(v *float64) string {
	if v == nil {
		return "-"
	}
	return digits(*v)
}

// count prints a number of things, with commas between the thousands.
func count[N ~int | ~int64](n N) string { return metrics.Thousands(strconv.FormatInt(int64(n), 10)) }

// digits prints four significant digits, more before the point if there are
// more, with commas between the thousands; three below 1.
func digits(v float64) string {
	decimals := 0
	switch a := math.Abs(v); {
	case a == 0:
		return "0"
	case a >= 999.95:
	case a >= 99.995:
		decimals = 1
	case a >= 9.9995:
		decimals = 2
	case a >= 0.99995:
		decimals = 3
	default:
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	return metrics.Thousands(strconv.FormatFloat(v, 'f', decimals, 64))
}

// tenths cuts 100.0 % in proportion to shares, in tenths of a percent, so that
// the printed parts sum to 100.0 exactly.
func tenths(shares []int) []int {
	weights := make([]float64, len(shares))
	for i, s := range shares {
		weights[i] = float64(s)
	}
	return metrics.Shares(weights, 1000)
}

func tenth(t int) string { return fmt.Sprintf("%d.%d", t/10, t%10) }

func sum(v []int) int {
	n := 0
	for _, x := range v {
		n += x
	}
	return n
}

// percent prints a fraction as a percentage without its sign.
func percent(v float64) string { return strconv.FormatFloat(v*100, 'f', 1, 64) }

func gigabytes(n units.Bytes) string { return digits(float64(n) / 1e9) }

// snip shortens a name that is too long for its column.
func snip(s string, n int) string { return text.Snip(s, n, "~") }
