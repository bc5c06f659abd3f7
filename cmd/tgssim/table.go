package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// wrap is the width at which the last column of a listing is wrapped.
const wrap = 60

// writeTable prints a listing in the style of the run's tables.
func writeTable(w io.Writer, header []string, rows [][]string) error {
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.Options{SeparateHeader: true}
	style.Box = table.BoxStyle{MiddleHorizontal: "-", PaddingRight: "  ", UnfinishedRow: "~"}
	style.Format = table.FormatOptions{}
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	t.SetColumnConfigs([]table.ColumnConfig{{Number: len(header), WidthMax: wrap, WidthMaxEnforcer: text.WrapSoft}})
	t.AppendHeader(row(header))
	for _, r := range rows {
		t.AppendRow(row(r))
	}
	_, err := fmt.Fprintln(w, t.Render())
	return err
}

// screen is the width that tables of points keep to where they can.
const screen = 100

// shortest is how short labels are cut at the most.
const shortest = 12

// fit makes a table as narrow as the screen: columns from the first to the last but
// one that say the same in all rows go into a line of their own, and what stands
// before the first, labels, is cut as long as it tells the rows apart.
func fit(header []string, rows [][]string, first int) (narrow []string, cut [][]string, common string) {
	header = slices.Clone(header)
	for i := range rows {
		cut = append(cut, slices.Clone(rows[i]))
	}
	var said []string
	for c := len(header) - 2; c >= first && width(header, cut) > screen; c-- {
		if len(cut) < 2 || slices.ContainsFunc(cut, func(r []string) bool { return r[c] != cut[0][c] }) {
			continue
		}
		said = append([]string{header[c] + " " + cut[0][c]}, said...)
		header = slices.Delete(header, c, c+1)
		for i := range cut {
			cut[i] = slices.Delete(cut[i], c, c+1)
		}
	}
	whole := cut
	for longest := 40; longest >= shortest && width(header, cut) > screen; longest-- {
		if shorter := shortened(whole, first, longest); distinct(shorter, first) == distinct(whole, first) {
			cut = shorter
		}
		header = shortened([][]string{header}, first, longest)[0]
	}
	if len(said) > 0 {
		common = "at all points: " + strings.Join(said, ", ")
	}
	return header, cut, common
}

// shortened cuts the columns before the first.
func shortened(rows [][]string, first, longest int) [][]string {
	cut := make([][]string, len(rows))
	for i, r := range rows {
		cut[i] = slices.Clone(r)
		for c := range first {
			if text := []rune(r[c]); len(text) > longest {
				cut[i][c] = string(text[:longest-2]) + ".."
			}
		}
	}
	return cut
}

// distinct counts the points that the columns before the first tell apart.
func distinct(rows [][]string, first int) int {
	seen := map[string]bool{}
	for _, r := range rows {
		seen[strings.Join(r[:first], "\x00")] = true
	}
	return len(seen)
}

// width is that of a table on the screen.
func width(header []string, rows [][]string) (sum int) {
	for c := range header {
		longest := utf8.RuneCountInString(header[c])
		for _, r := range rows {
			longest = max(longest, utf8.RuneCountInString(r[c]))
		}
		sum += longest + 2
	}
	return sum - 2
}

func row(cells []string) table.Row {
	r := make(table.Row, len(cells))
	for i, c := range cells {
		r[i] = c
	}
	return r
}
