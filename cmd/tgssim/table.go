package main

import (
	"fmt"
	"io"

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

func row(cells []string) table.Row {
	r := make(table.Row, len(cells))
	for i, c := range cells {
		r[i] = c
	}
	return r
}
