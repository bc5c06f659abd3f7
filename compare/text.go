package compare

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tgssim/tgssim/sweep"
)

// width is the number of columns of the text.
const width = 100

// Text prints the comparison for people, in 100 columns: what is compared, a
// verdict per pair and the figures that it rests on.
func (r *Result) Text(w io.Writer) error {
	p := &page{}
	plan := r.Plan
	p.line("%s of each, common random numbers from seed %d", counted(plan.Replications, "replication"), plan.Seed)
	for i := range plan.Variants {
		v := &plan.Variants[i]
		p.hanging(v.Letter+"  ", fmt.Sprintf("%s (%d GPUs)", v.Label, v.Cluster.GPUs))
		if d := v.Differences; len(d) > 0 && !strings.Contains(v.Label, "=") {
			p.hanging("   ", "differs from A in "+list(d))
		}
	}
	p.line("")
	p.line("VERDICT")
	for i := range r.Pairs {
		p.hanging("* ", r.Pairs[i].Verdict)
	}
	for _, j := range r.Limits {
		p.hanging("* ", fmt.Sprintf("Limit %s in %s: %s.", j.Limit, j.Variant, j.Outcome))
	}
	for _, n := range plan.Warnings {
		p.hanging("* ", "Warning: "+n)
	}
	for _, n := range r.Notes {
		p.hanging("* ", "Note: "+n)
	}
	for i := range r.Failed {
		f := &r.Failed[i]
		first, _, _ := strings.Cut(f.Error, "\n")
		p.hanging("* ", fmt.Sprintf("Failed: %s, replication %d: %s", f.Variant, f.Replication, first))
	}
	if len(plan.Variants) > 2 {
		p.overview(r)
	}
	for i := range r.Pairs {
		p.pair(&r.Pairs[i], plan.Replications)
	}
	_, err := io.WriteString(w, p.String())
	return err
}

// overview is the means of TGS and latencies of all variants.
func (p *page) overview(r *Result) {
	rows := [][]string{{"means, latencies in ms"}}
	var shown []Measure
	for _, x := range []struct{ key, head string }{
		{"tgs_steady", "TGS"}, {"mean_ttft_ms", "TTFT mean"}, {"p99_ttft_ms", "TTFT p99"}, {"mean_itl_ms", "ITL mean"}, {"p99_itl_ms", "ITL p99"},
	} {
		if m, _ := find(x.key); slices.ContainsFunc(r.Pairs[0].Measures, func(c Compared) bool { return c.Key == x.key }) {
			shown = append(shown, m)
			rows[0] = append(rows[0], x.head)
		}
	}
	for _, v := range r.Plan.Variants {
		row := []string{v.Letter + "  " + shorten(v.Label, 24)}
		for _, m := range shown {
			var values []float64
			for i := range r.Runs {
				if x, ok := r.Runs[i].Value(m.Key); ok && r.Runs[i].Variant == v.Letter {
					values = append(values, x*m.scale)
				}
			}
			cell := "-"
			if len(values) > 0 {
				cell = figure(sweep.MeanOf(values).Mean)
			}
			row = append(row, cell)
		}
		rows = append(rows, append(row, ""))
	}
	rows[0] = append(rows[0], "")
	p.line("")
	p.table(rows)
}

// shorten keeps the end of a text, which is where labels differ.
func shorten(s string, most int) string {
	r := []rune(s)
	if len(r) <= most {
		return s
	}
	return ".." + string(r[len(r)-most+2:])
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// A page is text in the making.
type page struct{ strings.Builder }

func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// hanging wraps a paragraph under its mark. A word that is too long for a line is
// broken.
func (p *page) hanging(mark, text string) {
	room := width - len(mark)
	indent := strings.Repeat(" ", len(mark))
	line, begun := mark, false
	flush := func() {
		p.WriteString(strings.TrimRight(line, " ") + "\n")
		line, begun = indent, false
	}
	for _, word := range words(text) {
		if begun && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			flush()
		}
		for utf8.RuneCountInString(word) > room {
			runes := []rune(word)
			line += string(runes[:room])
			word = string(runes[room:])
			flush()
		}
		if begun {
			line += " "
		}
		line += word
		begun = true
	}
	flush()
}

// words splits at spaces, but keeps a percent sign with its number.
func words(text string) (all []string) {
	for _, w := range strings.Fields(text) {
		if n := len(all); n > 0 && strings.HasPrefix(w, "%") {
			all[n-1] += " " + w
			continue
		}
		all = append(all, w)
	}
	return all
}

// pair prints the table of one pair. Measures that are 0 in every run are left
// out.
func (p *page) pair(x *Pair, replications int) {
	if len(x.Measures) == 0 {
		return
	}
	rows := [][]string{{"", "A", x.B.Letter, x.B.Letter + " - A", "95 % interval", "relative", ""}}
	var zero, partial []string
	significant := 0
	for i := range x.Measures {
		c := &x.Measures[i]
		if c.N < replications {
			partial = append(partial, fmt.Sprintf("%s in %d", c.Key, c.N))
		}
		if c.A == 0 && c.B == 0 && c.Diff == 0 && c.Half == 0 {
			zero = append(zero, c.Key)
			continue
		}
		if c.Significant() {
			significant++
		}
		rows = append(rows, c.row())
	}
	p.line("")
	p.line("%s AGAINST A", x.B.Letter)
	p.table(rows)
	if !x.Same && len(rows) > 1 && replications > 1 {
		p.hanging("", fmt.Sprintf("%d of %d measures differ significantly (n.s.: the interval contains 0). By chance alone, one in twenty would.", significant, len(rows)-1))
	}
	if len(zero) > 0 {
		p.hanging("", "0 in all runs: "+strings.Join(zero, ", ")+".")
	}
	if len(x.OneSided) > 0 {
		p.hanging("", fmt.Sprintf("Undefined in A or in %s: %s.", x.B.Letter, strings.Join(x.OneSided, ", ")))
	}
	if len(partial) > 0 {
		p.hanging("", fmt.Sprintf("Defined in fewer than %d replications: %s.", replications, strings.Join(partial, ", ")))
	}
}

// row is a measure as cells.
func (c *Compared) row() []string {
	s := c.scale
	interval, relative := c.interval(s), "-"
	if x, ok := c.Relative(); ok {
		relative = withSign(100*x, decimals(100*x, 2)) + " %"
	}
	if c.Diff == 0 && c.Half == 0 {
		interval = "" // exactly none
	}
	return []string{c.Label, figure(c.A * s), figure(c.B * s), signed(c.Diff * s), interval, relative, c.Word()}
}

// Word says in a word what a difference is.
func (c *Compared) Word() string {
	switch {
	case c.Diff == 0 && c.Half == 0:
		return "same"
	case c.N < 2:
		return ""
	case !c.Significant():
		return "n.s."
	case c.Better == 0 && c.Diff > 0:
		return "more"
	case c.Better == 0:
		return "less"
	case float64(c.Better)*c.Diff > 0:
		return "better"
	}
	return "worse"
}

// relativeColumn is where the relative difference is, which is left out where the
// table would be too wide.
const relativeColumn = 5

// table prints cells in columns, the first and the last to the left.
func (p *page) table(rows [][]string) {
	widths := make([]int, len(rows[0]))
	total := -2
	for i := range widths {
		for _, row := range rows {
			widths[i] = max(widths[i], len(row[i]))
		}
		total += widths[i] + 2
	}
	if total > width && len(rows[0]) > relativeColumn && rows[0][relativeColumn] == "relative" {
		narrow := make([][]string, len(rows))
		for k, row := range rows {
			narrow[k] = slices.Delete(slices.Clone(row), relativeColumn, relativeColumn+1)
		}
		p.table(narrow)
		return
	}
	for k, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-len(cell))
			if i == 0 || i == len(row)-1 {
				line.WriteString(cell + pad + "  ")
			} else {
				line.WriteString(pad + cell + "  ")
			}
		}
		p.line("%s", strings.TrimRight(line.String(), " "))
		if k == 0 {
			p.line("%s", strings.Repeat("-", total))
		}
	}
}
