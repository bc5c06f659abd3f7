package plot

import (
	"bytes"
	"fmt"
	"html"
	"image/color"
	"image/png"
	"io"
	"math"
	"strings"
	"sync"
	"unicode/utf8"

	"codeberg.org/go-fonts/liberation/liberationsansbold"
	"codeberg.org/go-fonts/liberation/liberationsansregular"
	xfont "golang.org/x/image/font"
	"golang.org/x/image/font/opentype"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// dpi is the resolution of a PNG file: a slide 10 inches wide is 1440 pixels.
const dpi = 144

// fonts are Liberation Sans, regular and bold, which are part of the program.
// Their widths are those of Arial and Helvetica.
var fonts = sync.OnceValue(func() [2]*opentype.Font {
	var parsed [2]*opentype.Font
	for i, ttf := range [][]byte{liberationsansregular.TTF, liberationsansbold.TTF} {
		f, err := opentype.Parse(ttf)
		if err != nil {
			panic(fmt.Sprintf("plot: a font of the program does not parse: %v", err)) // no input can cause it
		}
		parsed[i] = f
	}
	return parsed
})

func face(size vg.Length, bold bool) font.Face {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
	i := 0
	if bold {
		f.Weight, i = xfont.WeightBold, 1
	}
	return font.Face{Font: f, Face: fonts()[i]}
}

// room is what is kept free for a line of text. Viewers of SVG that have none of
// the fonts of its widths fall back to wider ones: DejaVu Sans takes up to 15 %
// more, bold 20 %.
func room(f font.Face, s string) vg.Length {
	if f.Font.Weight == xfont.WeightBold {
		return 1.2 * f.Width(s)
	}
	return 1.15 * f.Width(s)
}

// A canvas is where a figure is drawn; lengths are points, from the lower left.
type canvas struct {
	draw.Canvas
	// anchors says that the viewer places text by its middle or end, in whatever
	// font it has.
	anchors bool
}

// clean replaces what has no place in XML or on a line.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError || r == 0xfffe || r == 0xffff {
			return '?'
		}
		return r
	}, s)
}

// snap moves a length to a grid of sixteenths of a point, an eighth of a pixel: a
// last bit that differs between processors (some fuse a product and a sum) does not
// move a pixel then, nor the last digit of an SVG file.
func snap(l vg.Length) vg.Length { return vg.Length(math.Floor(float64(l)*16+0.5)) / 16 }

// An align is the part of a text that is at its place.
type align string

// Alignments are named as in SVG's text-anchor.
const (
	atStart  align = "start"
	atMiddle align = "middle"
	atEnd    align = "end"
)

// aligned returns the face for a text and how far left of its place it begins.
func (c canvas) aligned(f font.Face, at align, s string) (font.Face, vg.Length) {
	switch {
	case at == atStart:
		return f, 0
	case c.anchors:
		f.Font.Variant = font.Variant(at) // svg makes the anchor of it
		return f, 0
	case at == atMiddle:
		return f, f.Width(s) / 2
	}
	return f, f.Width(s)
}

// text writes a line with that part of its baseline at a place.
func (c canvas) text(f font.Face, clr color.Color, x, y vg.Length, at align, s string) {
	s = clean(s)
	f, left := c.aligned(f, at, s)
	c.SetColor(clr)
	c.FillString(f, vg.Point{X: snap(x - left), Y: snap(y)}, s)
}

// vertical writes a line upwards, with its middle at y and its baseline at x.
func (c canvas) vertical(f font.Face, clr color.Color, x, y vg.Length, s string) {
	s = clean(s)
	f, left := c.aligned(f, atMiddle, s)
	c.Push()
	c.SetColor(clr)
	c.Translate(vg.Point{X: snap(x), Y: snap(y - left)})
	c.Rotate(math.Pi / 2)
	c.FillString(f, vg.Point{}, s)
	c.Pop()
}

func (c canvas) line(style draw.LineStyle, x0, y0, x1, y1 vg.Length) {
	c.StrokeLine2(style, snap(x0), snap(y0), snap(x1), snap(y1))
}

// svg writes the figure with text as text. Fonts are named, not embedded: where
// Liberation is missing, Arial and Helvetica have the same widths, and there is
// room for wider ones.
func (f *figure) svg(out io.Writer) error {
	l := f.layout()
	c := vgsvg.New(l.width, l.height)
	f.draw(canvas{draw.NewCanvas(c, l.width, l.height), true}, &l)
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return err
	}
	text := strings.NewReplacer(
		"font-family:Liberation Sans;", "font-family:'Liberation Sans',Arial,Helvetica,sans-serif;",
		"font-variant:middle;", "font-variant:normal;text-anchor:middle;",
		"font-variant:end;", "font-variant:normal;text-anchor:end;",
	).Replace(b.String())
	head, body, _ := strings.Cut(text, "xlink\">\n")
	_, err := fmt.Fprintf(out, "%sxlink\">\n<title>%s</title>\n%s", head, html.EscapeString(clean(f.title)), body)
	return err
}

func (f *figure) png(out io.Writer) error {
	l := f.layout()
	c := vgimg.NewWith(vgimg.UseWH(l.width, l.height), vgimg.UseDPI(dpi))
	f.draw(canvas{draw.NewCanvas(c, l.width, l.height), false}, &l)
	e := png.Encoder{CompressionLevel: png.BestCompression}
	return e.Encode(out, c.Image())
}

// wrap breaks a text at line feeds, and at spaces or after punctuation into lines
// no wider than width; words that are wider are broken where they must.
func wrap(f font.Face, width vg.Length, s string) (lines []string) {
	for s := range strings.SplitSeq(s, "\n") {
		lines = append(lines, wrapLine(f, width, s)...)
	}
	return lines
}

func wrapLine(f font.Face, width vg.Length, s string) (lines []string) {
	line := ""
	for _, part := range breakable(s) {
		switch {
		case room(f, strings.TrimRight(line+part, " ")) <= width:
			line += part
			continue
		case line != "":
			lines = append(lines, strings.TrimRight(line, " "))
		}
		line = part
		for room(f, strings.TrimRight(line, " ")) > width {
			cut := fitting(f, width, line)
			lines = append(lines, line[:cut])
			line = line[cut:]
		}
	}
	if line = strings.TrimRight(line, " "); line != "" {
		lines = append(lines, line)
	}
	return lines
}

// separator stands between the parts of a line that is broken there if it must.
const separator = "  \u00b7  "

// wrapParts breaks a line between its parts, or else as wrap does.
func wrapParts(f font.Face, width vg.Length, s string) (lines []string) {
	line := ""
	for i, part := range strings.Split(s, separator) {
		switch {
		case i == 0:
			line = part
		case room(f, line+separator+part) <= width:
			line += separator + part
		default:
			lines = append(lines, wrap(f, width, line)...)
			line = part
		}
	}
	return append(lines, wrap(f, width, line)...)
}

// breakable cuts a text after spaces and after - / _ + , and ; inside words.
func breakable(s string) (parts []string) {
	from := 0
	for i := 0; i < len(s); i++ {
		if strings.IndexByte(" -/_+,;", s[i]) >= 0 && (i+1 == len(s) || s[i+1] != ' ' && !(s[i] == ',' && '0' <= s[i+1] && s[i+1] <= '9')) {
			parts = append(parts, s[from:i+1])
			from = i + 1
		}
	}
	return append(parts, s[from:])
}

// fitting is the number of bytes of the longest beginning that fits, a rune at
// least.
func fitting(f font.Face, width vg.Length, s string) int {
	cut := 0
	for i, r := range s {
		end := i + len(string(r))
		if cut > 0 && room(f, s[:end]) > width {
			break
		}
		cut = end
	}
	return max(cut, 1)
}

func widest(f font.Face, lines []string) (w vg.Length) {
	for _, s := range lines {
		w = max(w, room(f, s))
	}
	return w
}
