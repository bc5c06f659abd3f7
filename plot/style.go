package plot

import (
	"image/color"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The palette of Okabe and Ito (Color Universal Design, 2008), which most people
// with a colour vision deficiency can tell apart. Black is for the ideal fabric,
// and yellow, which is lost on white, only fills.
var (
	black      = color.RGBA{0x00, 0x00, 0x00, 0xff}
	orange     = color.RGBA{0xe6, 0x9f, 0x00, 0xff}
	skyBlue    = color.RGBA{0x56, 0xb4, 0xe9, 0xff}
	green      = color.RGBA{0x00, 0x9e, 0x73, 0xff}
	yellow     = color.RGBA{0xf0, 0xe4, 0x42, 0xff}
	blue       = color.RGBA{0x00, 0x72, 0xb2, 0xff}
	vermillion = color.RGBA{0xd5, 0x5e, 0x00, 0xff}
	purple     = color.RGBA{0xcc, 0x79, 0xa7, 0xff}

	white    = color.RGBA{0xff, 0xff, 0xff, 0xff}
	ink      = color.RGBA{0x22, 0x22, 0x22, 0xff}
	softInk  = color.RGBA{0x55, 0x55, 0x55, 0xff}
	gridInk  = color.RGBA{0xdd, 0xdd, 0xdd, 0xff}
	grey     = color.RGBA{0x99, 0x99, 0x99, 0xff}
	paleGrey = color.RGBA{0xcc, 0xcc, 0xcc, 0xff}
)

var seriesColours = []color.RGBA{blue, vermillion, green, purple, orange, skyBlue}

// Dash patterns and markers tell series apart without colour. The cycles' lengths
// have no common factor with each other's neighbours, so that maxSeries styles
// differ pairwise in two of the three.
var seriesDashes = [][]vg.Length{nil, {10, 3}, {2, 2.5}, {9, 3, 2, 3}, {16, 4}, {5, 2, 2, 2, 2, 2}, {4, 6}}

// idealDashes are those of ideal fabrics, one after the other.
var idealDashes = [][]vg.Length{{6, 4}, {3, 3}, {10, 5}, {6, 2, 2, 2}}

// maxSeries is the number of series that can be told apart.
const maxSeries = 14

// A style is how a series looks.
type style struct {
	colour color.RGBA
	dashes []vg.Length
	marker marker
	width  vg.Length
}

func styleOf(i int) style {
	return style{seriesColours[i%len(seriesColours)], seriesDashes[i%len(seriesDashes)], marker(i % int(numMarkers)), 2}
}

// idealStyle is that of the i-th ideal fabric.
func idealStyle(i int) style { return style{black, idealDashes[i%len(idealDashes)], ring, 1.8} }

func (s style) line() draw.LineStyle {
	return draw.LineStyle{Color: s.colour, Width: s.width, Dashes: s.dashes}
}

// solid is the line of marks and error bars.
func (s style) solid(width vg.Length) draw.LineStyle {
	return draw.LineStyle{Color: s.colour, Width: width}
}

// band is the colour of a confidence band.
func (s style) band() color.Color {
	return color.NRGBA{s.colour.R, s.colour.G, s.colour.B, 0x2c}
}

// A marker is the shape of a point.
type marker int

const (
	disc marker = iota
	square
	triangle
	diamond
	downward
	numMarkers
	noMarker
	ring  // the ideal fabric
	cross // a failed run
)

// outline is the polygon of a marker of half-width r; nil is a circle.
func (m marker) outline(x, y, r vg.Length) []vg.Point {
	switch m {
	case square:
		r *= 0.88
		return []vg.Point{{X: x - r, Y: y - r}, {X: x + r, Y: y - r}, {X: x + r, Y: y + r}, {X: x - r, Y: y + r}}
	case triangle:
		return []vg.Point{{X: x - 1.1*r, Y: y - 0.8*r}, {X: x + 1.1*r, Y: y - 0.8*r}, {X: x, Y: y + 1.2*r}}
	case diamond:
		r *= 1.25
		return []vg.Point{{X: x - r, Y: y}, {X: x, Y: y - r}, {X: x + r, Y: y}, {X: x, Y: y + r}}
	case downward:
		return []vg.Point{{X: x - 1.1*r, Y: y + 0.8*r}, {X: x + 1.1*r, Y: y + 0.8*r}, {X: x, Y: y - 1.2*r}}
	}
	return nil
}

// mark draws a marker with a white rim, so that it stands out on lines.
func (c canvas) mark(m marker, clr color.Color, x, y, r vg.Length) {
	switch m {
	case noMarker:
		return
	case cross:
		for _, s := range []draw.LineStyle{{Color: white, Width: 4.5}, {Color: clr, Width: 2}} {
			c.line(s, x-r, y-r, x+r, y+r)
			c.line(s, x-r, y+r, x+r, y-r)
		}
		return
	case ring:
		c.DrawGlyphNoClip(draw.GlyphStyle{Color: clr, Radius: r, Shape: draw.CircleGlyph{}}, vg.Point{X: x, Y: y})
		c.DrawGlyphNoClip(draw.GlyphStyle{Color: white, Radius: r - 1.4, Shape: draw.CircleGlyph{}}, vg.Point{X: x, Y: y})
		return
	case disc:
		c.DrawGlyphNoClip(draw.GlyphStyle{Color: white, Radius: r + 1, Shape: draw.CircleGlyph{}}, vg.Point{X: x, Y: y})
		c.DrawGlyphNoClip(draw.GlyphStyle{Color: clr, Radius: r, Shape: draw.CircleGlyph{}}, vg.Point{X: x, Y: y})
		return
	}
	c.FillPolygon(white, m.outline(x, y, r+1.2))
	c.FillPolygon(clr, m.outline(x, y, r))
}

// A hatch is the pattern of a bar, so that bars differ in grey, too.
type hatch int

const (
	plain hatch = iota
	rising
	falling
	level
	dotted
	crossed
)

// fill draws a bar with its pattern and a white edge.
func (c canvas) fill(r vg.Rectangle, clr color.Color, h hatch) {
	pts := []vg.Point{r.Min, {X: r.Max.X, Y: r.Min.Y}, r.Max, {X: r.Min.X, Y: r.Max.Y}}
	c.FillPolygon(clr, pts)
	inside := draw.Canvas{Canvas: c.Canvas.Canvas, Rectangle: r}
	s := draw.LineStyle{Color: color.NRGBA{0, 0, 0, 0xa0}, Width: 0.7}
	gap := vg.Length(6)
	if h == crossed {
		gap = 8
	}
	w, height := r.Max.X-r.Min.X, r.Max.Y-r.Min.Y
	switch h {
	case rising, falling, crossed:
		for d := -height; d < w; d += gap {
			up := []vg.Point{{X: r.Min.X + d, Y: r.Min.Y}, {X: r.Min.X + d + height, Y: r.Max.Y}}
			down := []vg.Point{{X: r.Min.X + d, Y: r.Max.Y}, {X: r.Min.X + d + height, Y: r.Min.Y}}
			if h != falling {
				c.StrokeLines(s, inside.ClipLinesXY(up)...)
			}
			if h != rising {
				c.StrokeLines(s, inside.ClipLinesXY(down)...)
			}
		}
	case level, dotted:
		if h == dotted {
			s.Dashes = []vg.Length{1.2, 3.5}
			s.Width = 1.2
		}
		for y := r.Min.Y + gap/2; y < r.Max.Y; y += gap {
			c.line(s, r.Min.X, y, r.Max.X, y)
		}
	}
	c.StrokeLines(draw.LineStyle{Color: white, Width: 0.6}, append(pts, pts[0]))
}

// partColours are those of the pieces of TTFT: greys for waiting in front, blues
// for prefill, warm ones for KV transfer, greens and purple for decode.
var partColours = []color.RGBA{
	paleGrey, blue, skyBlue, grey, yellow, orange, vermillion, purple, green,
}
