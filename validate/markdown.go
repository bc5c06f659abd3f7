package validate

import (
	"fmt"
	"strings"
)

// Markdown is the rows as a table of a document.
func Markdown(rows []Row) string {
	var b strings.Builder
	line := func(cells ...string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line("target", "measured", "simulated", "error", "left out", "set-up", "source")
	b.WriteString(strings.Repeat("|---", 7) + "|\n")
	for i := range rows {
		r := &rows[i]
		line(r.Name, Figure(r.Measured)+" "+r.Unit, Figure(r.Simulated), Percent(r.ErrorPct), r.LeftOut(), r.Setup, r.Source)
	}
	return b.String()
}

// LeftOut is the error with the target left out of the fit of the derate, or
// "-".
func (row *Row) LeftOut() string {
	if row.LeaveOneOut == nil {
		return "-"
	}
	return fmt.Sprintf("%s (%.3f)", Percent(row.LeaveOneOut.ErrorPct), row.LeaveOneOut.Derate)
}

// Percent prints an error with its sign and one decimal.
func Percent(v float64) string {
	s := fmt.Sprintf("%+.1f %%", v)
	if s == "-0.0 %" {
		return "+0.0 %"
	}
	return s
}

// Figure prints a value with four significant digits at least.
func Figure(v float64) string {
	decimals := 0
	for limit := 1000.; limit > 1 && v < limit; limit /= 10 {
		decimals++
	}
	s := fmt.Sprintf("%.*f", decimals, v)
	whole, rest, _ := strings.Cut(s, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if rest != "" {
		whole += "." + rest
	}
	return whole
}
