// Package docs holds no code: its tests run the simulator and hold the tables of
// the documents to what comes out. With -update they rewrite them. Tables that
// take more than a second or two are held with -long only, as .ci/tables does; the
// tests of the packages hold the same figures within tolerances.
package docs

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/internal/testkit"
)

var (
	update = flag.Bool("update", false, "rewrite the tables of the documents instead of comparing them")
	long   = flag.Bool("long", false, "compare the tables that take long, too")
)

// A table is a part of a document that a test regenerates. It stands between
// the lines "<!-- name -->" and "<!-- /name -->".
type table struct {
	name string
	long bool // left out without -long or -update
	make func(t *testing.T) string
}

// check compares the tables of a document to what they should be, or rewrites
// them.
func check(t *testing.T, file string, tables []table) {
	for _, x := range tables {
		t.Run(x.name, func(t *testing.T) {
			if x.long && !*long && !*update {
				t.Skip("takes long: run with -long")
			}
			want := x.make(t)
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			before, after, got, err := testkit.Table(string(text), x.name)
			require.NoError(t, err, file)
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(before+want+after), 0o644))
				return
			}
			require.Equal(t, want, got, "%s has drifted; go test ./docs -update rewrites it", file)
		})
	}
}

// rows is a Markdown table in the making.
type rows struct{ strings.Builder }

func newRows(head ...string) *rows {
	var r rows
	r.row(head...)
	r.WriteString(strings.Repeat("|---", len(head)) + "|\n")
	return &r
}

func (r *rows) row(cells ...string) { r.WriteString("| " + strings.Join(cells, " | ") + " |\n") }

// num is v with so many decimals.
func num(v float64, decimals int) string { return fmt.Sprintf("%.*f", decimals, v) }

// off is how far a measured value is from the expected one, in per cent.
func off(got, want float64) string {
	if got == want {
		return "0"
	}
	s := fmt.Sprintf("%+.2f %%", 100*(got/want-1))
	return strings.Replace(s, "-0.00", "+0.00", 1)
}
