package report

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tgssim/tgssim/metrics"
)

// result is what is read first: TGS, the two latencies and the load.
func (p *printer) result() {
	s := p.s
	line := func(name, text string) {
		const column = 10
		indent := strings.Repeat(" ", column)
		p.out.WriteString(name + indent[len(name):] + strings.ReplaceAll(wrap(text, p.o.Width-column), "\n", "\n"+indent) + "\n")
	}
	p.out.WriteString(p.bold("RESULT") + "\n------\n")
	switch {
	case s.TGS == nil:
		line("TGS", "-")
	case s.TGSSteady == nil:
		line("TGS", fmt.Sprintf("%s output tokens/s per GPU of the whole cluster over the whole run, ramp-up and drain included; there is no steady window",
			figure(s.TGS)))
	default:
		line("TGS", fmt.Sprintf("%s output tokens/s per GPU of the whole cluster in the steady window; %s over the whole run, ramp-up and drain included",
			figure(s.TGSSteady), figure(s.TGS)))
	}
	for _, l := range []struct {
		name string
		p99  *float64
	}{{"TTFT", s.P99TTFT}, {"ITL", s.P99ITL}} {
		text := "-"
		if l.p99 != nil {
			text = digits(*l.p99) + " ms"
		}
		line(l.name+" p99", text+p.limit(l.name))
	}
	load := p.r.Saturation.String()
	if s.OfferedRate != nil && s.ServedRate != nil {
		load += fmt.Sprintf(": %s req/s arrive, %s are served in the steady window", figure(s.OfferedRate), figure(s.ServedRate))
	}
	line("load", load)
	p.out.WriteString("\n")
}

// limit is the limit on a latency, if there is one, and whether it is met.
func (p *printer) limit(name string) string {
	for _, l := range p.r.Limits {
		if l.Name == name {
			return fmt.Sprintf(" (SLO: at most %s ms at p%s, %s)", digits(l.LimitMS), p.percentile(), outcome(l))
		}
	}
	return ""
}

// outcome is what became of a limit in a word or two.
func outcome(l metrics.Limit) string {
	switch {
	case l.Met && l.NoSamples:
		return "met: no samples"
	case l.Met:
		return "met"
	case l.NoSamples:
		return "missed: no samples"
	}
	return "missed"
}

// percentile is where the SLO is judged: "99".
func (p *printer) percentile() string {
	return strconv.FormatFloat(p.r.Config.SLO.Percentile, 'g', -1, 64)
}

// verdict is the answers, one point each.
func (p *printer) verdict() {
	p.out.WriteString(p.bold("VERDICT") + "\n-------\n")
	v := &p.r.Saturation
	word := strings.ToUpper(v.String()[:1]) + v.String()[1:]
	p.point(word, loadColor(v.Load), v.Evidence)
	for _, s := range p.r.Network.Sentences {
		p.point("", "", s)
	}
	switch m := p.s.SLOMet; {
	case m == nil:
	case *m:
		p.point("SLO met", green, sloWhy(p.r))
	default:
		p.point("SLO missed", red, sloWhy(p.r))
	}
	for _, n := range p.r.Notes {
		p.point("", "", "Note: "+n)
	}
	p.out.WriteString("\n")
}

// sloWhy names the limits that are missed, or what was demanded.
func sloWhy(r *metrics.Result) string {
	var missed, all []string
	for _, l := range r.Limits {
		t := fmt.Sprintf("%s %s of at most %s ms", l.Name, digits(l.ValueMS), digits(l.LimitMS))
		if l.NoSamples {
			t = fmt.Sprintf("%s without samples of at most %s ms", l.Name, digits(l.LimitMS))
		}
		all = append(all, t)
		if !l.Met {
			missed = append(missed, t)
		}
	}
	at := " at p" + strconv.FormatFloat(r.Config.SLO.Percentile, 'g', -1, 64) + "."
	switch {
	case r.Summary.SLOMet != nil && *r.Summary.SLOMet:
		return strings.Join(all, ", ") + at
	case len(missed) > 0:
		return strings.Join(missed, ", ") + at
	}
	return fmt.Sprintf("%s of %s requests did not finish.", count(r.Summary.Failed), count(r.Summary.RequestsArrived))
}

// ANSI escape codes (ECMA-48, select graphic rendition).
const (
	bold   = "\x1b[1m"
	red    = "\x1b[1;31m"
	green  = "\x1b[1;32m"
	yellow = "\x1b[1;33m"
	reset  = "\x1b[0m"
)

func loadColor(l metrics.Load) string {
	switch l {
	case metrics.Saturated:
		return red
	case metrics.Inconclusive:
		return yellow
	}
	return green
}

// point is one verdict, in its colour, and why.
func (p *printer) point(word, color, why string) {
	const indent = "  "
	if word != "" {
		why = word + ". " + why
	}
	plain := wrap(why, p.o.Width-len(indent))
	if p.o.Color && word != "" && strings.HasPrefix(plain, word) {
		plain = color + word + reset + plain[len(word):]
	}
	p.out.WriteString("* " + strings.ReplaceAll(plain, "\n", "\n"+indent) + "\n")
}
