package plot

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot/vg"
	"pgregory.net/rapid"

	_ "github.com/tgssim/tgssim/internal/testkit" // the same draws in every run
)

func overlaps(a, b vg.Rectangle) bool {
	const touch = 0.01
	return a.Min.X < b.Max.X-touch && b.Min.X < a.Max.X-touch && a.Min.Y < b.Max.Y-touch && b.Min.Y < a.Max.Y-touch
}

// However many series there are and whatever their names: the legend keeps clear
// of the plots, its entries of each other, everything is on the canvas, and plots
// are large enough to be read.
func TestLayout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-zA-Z0-9/_,.-]{1,40}`)
		sentence := func(most int, name string) string {
			return strings.Join(rapid.SliceOfN(word, 1, most).Draw(t, name), " ")
		}
		f := figure{title: sentence(12, "title"), subtitle: sentence(12, "subtitle"), heading: sentence(3, "heading")}
		for range rapid.IntRange(1, 4).Draw(t, "panels") {
			f.panels = append(f.panels, panel{
				x: axis{label: "x", min: 1, max: 1000, log: true},
				y: axis{label: sentence(8, "label"), min: 0, max: rapid.Float64Range(1e-3, 1e7).Draw(t, "max")},
			})
		}
		for i := range rapid.IntRange(0, maxSeries+2).Draw(t, "series") {
			f.legend = append(f.legend, entry{name: sentence(8, "name"), style: styleOf(i)})
		}
		for range rapid.IntRange(0, 4).Draw(t, "captions") {
			f.caption = append(f.caption, sentence(30, "caption"))
		}
		l := f.layout()
		canvas := vg.Rectangle{Max: vg.Point{X: l.width, Y: l.height}}
		inside := func(r vg.Rectangle) bool {
			return r.Min.X >= 0 && r.Min.Y >= 0 && r.Max.X <= canvas.Max.X && r.Max.Y <= canvas.Max.Y
		}
		require.Len(t, l.boxes, len(f.legend))
		for i, box := range l.boxes {
			require.True(t, inside(box), "%v", box)
			ff := face(legendSize, false)
			for _, s := range l.names[i] {
				require.LessOrEqual(t, sampleWidth+6+1.15*ff.Width(s), box.Max.X-box.Min.X+0.01)
			}
			require.LessOrEqual(t, lineHeight(legendSize)*vg.Length(len(l.names[i])), box.Max.Y-box.Min.Y)
			for _, plot := range l.plots {
				require.False(t, overlaps(box, plot), "%v %v", box, plot)
			}
			for _, other := range l.boxes[:i] {
				require.False(t, overlaps(box, other), "%v %v", box, other)
			}
		}
		for i, plot := range l.plots {
			require.True(t, inside(plot))
			require.Greater(t, plot.Max.X-plot.Min.X, vg.Length(300))
			require.Greater(t, plot.Max.Y-plot.Min.Y, vg.Length(140))
			require.LessOrEqual(t, widest(face(labelSize, false), l.ylabels[i]), plot.Max.Y-plot.Min.Y+0.1)
		}
		for _, s := range l.caption {
			require.LessOrEqual(t, 1.15*ptr(face(captionSize, false)).Width(s), l.width-2*margin, "DejaVu Sans is 15 %% wider")
		}
		require.Equal(t, strings.ReplaceAll(f.title, " ", ""), strings.ReplaceAll(strings.Join(l.title, ""), " ", ""), "nothing is lost")
	})
}

// Series differ from each other in two of colour, dash and marker, and in grey by
// dash or marker.
func TestStyles(t *testing.T) {
	for i := range maxSeries {
		for k := range i {
			a, b := styleOf(i), styleOf(k)
			same := 0
			dashes := fmt.Sprint(a.dashes) == fmt.Sprint(b.dashes)
			for _, alike := range []bool{a.colour == b.colour, dashes, a.marker == b.marker} {
				if alike {
					same++
				}
			}
			require.LessOrEqual(t, same, 1, "%d and %d", i, k)
			require.False(t, dashes && a.marker == b.marker, "%d and %d", i, k)
		}
	}
	seen := map[string]bool{}
	for _, part := range parts {
		look := fmt.Sprint(partColours[part.colour])
		require.False(t, seen[look], part.name)
		seen[look] = true
	}
}

func TestWrap(t *testing.T) {
	f := face(12, false)
	require.Equal(t, []string{"one two"}, wrap(f, 500, "one two"))
	require.Equal(t, []string{"a", "b"}, wrap(f, 500, "a\nb"))
	require.Equal(t, []string{"one", "two"}, wrap(f, 30, "one two"))
	require.Equal(t, []string{"leaf-", "spine"}, wrap(f, 35, "leaf-spine"))
	require.Equal(t, []string{"1,024"}, wrap(f, 10000, "1,024"))
	require.Empty(t, wrap(f, 100, ""))
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		lines := wrap(f, vg.Length(rapid.Float64Range(1, 300).Draw(t, "width")), s)
		bare := func(s string) string {
			return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == '\n' }), "")
		}
		require.Equal(t, bare(s), bare(strings.Join(lines, "")))
	})
}

func ptr[T any](x T) *T { return &x }

// A word that fits below its place in the font that is meant is not broken for the
// sake of wider ones.
func TestNamesKeepTheirWords(t *testing.T) {
	f := face(tickSize, false)
	p := panel{x: axis{names: make([]string, 10)}}
	share := f.Width("random") + 7
	require.Greater(t, room(f, "random"), share-6, "no test")
	require.Equal(t, []string{"spray,", "random"}, p.name(vg.Rectangle{Max: vg.Point{X: 10 * share}}, "spray, random"))
	share = f.Width("random") - 1
	require.NotContains(t, p.name(vg.Rectangle{Max: vg.Point{X: 10 * share}}, "spray, random"), "random")
}
