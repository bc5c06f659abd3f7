package plot

import (
	"image/color"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A figure is a picture in terms of what is drawn: panels below each other with
// one legend and one caption.
type figure struct {
	title    string
	subtitle string
	caption  []string // paragraphs
	panels   []panel
	legend   []entry
	heading  string   // of the legend
	notes    []string // for the terminal
}

// A panel is a pair of axes and what is between them.
type panel struct {
	title  string // over it; "" is none
	x, y   axis
	layers []layer
	bars   []bar
	failed []float64 // where on the x axis runs failed
}

// A layer is a line, points and what surrounds them.
type layer struct {
	style  style
	line   []xy // joined
	points []xy
	faint  []xy // points that are not the line's
	bands  []band
	bars   []bar // error bars, as lines
}

type xy struct{ x, y float64 }

// A band is the area between two lines.
type band struct{ low, high []xy }

// A bar is a rectangle in the units of the axes.
type bar struct {
	from, to xy
	colour   color.RGBA
	hatch    hatch
}

// cut tells whether an interval of the layers ends beyond the axes.
func (p *panel) cut() bool {
	outside := func(at xy) bool {
		x, y := p.x.fraction(at.x), p.y.fraction(at.y)
		return x < 0 || x > 1 || y < 0 || y > 1
	}
	for _, l := range p.layers {
		if slices.ContainsFunc(l.bands, func(b band) bool { return slices.ContainsFunc(b.low, outside) || slices.ContainsFunc(b.high, outside) }) ||
			slices.ContainsFunc(l.bars, func(b bar) bool { return outside(b.from) || outside(b.to) }) {
			return true
		}
	}
	return false
}

// An entry is one line of the legend.
type entry struct {
	name  string
	style style
	// box is a sample of a bar instead of a line.
	box   bool
	hatch hatch
	// point is a sample of a marker alone.
	point bool
}

// The type of the figure, in points on a slide 10 inches wide.
const (
	titleSize    = 18
	subtitleSize = 11.5
	labelSize    = 13
	tickSize     = 12
	legendSize   = 12
	captionSize  = 9
	margin       = 16
	sampleWidth  = 42
	tickLength   = 5
)

// A layout is where everything is.
type layout struct {
	width, height            vg.Length
	title, subtitle, caption []string
	// plots are the areas between the axes.
	plots  []vg.Rectangle
	xticks [][]tick
	yticks [][]tick
	// ylabels are the labels of the y axes in lines.
	ylabels [][]string
	// heading is the legend's, over its boxes.
	heading []string
	// names are the legend's entries in lines, boxes where they are.
	names [][]string
	boxes []vg.Rectangle
	// top and bottom are the edges between the texts and the plots.
	top, bottom vg.Length
}

func lineHeight(size vg.Length) vg.Length { return 1.25 * size }

// legendColumn is the most that a legend right of the plots may take.
const legendColumn = 190

// layout finds a place for everything: texts above and below, the legend right of
// the plots if it fits there, or else below them. A figure grows for long texts
// and for legends below, so that plots keep their size.
func (f *figure) layout() layout {
	l := layout{width: 720, height: 340}
	if n := len(f.panels); n > 1 {
		l.height = 210 + 210*vg.Length(n)
	}
	full := l.width - 2*margin
	l.title = wrap(face(titleSize, true), full, f.title)
	l.subtitle = wrapParts(face(subtitleSize, false), full, f.subtitle)
	for _, s := range f.caption {
		l.caption = append(l.caption, wrap(face(captionSize, false), full, s)...)
	}
	above := margin + lineHeight(titleSize)*vg.Length(len(l.title)) + lineHeight(subtitleSize)*vg.Length(len(l.subtitle)) + 14
	l.bottom = margin - 4 + lineHeight(captionSize)*vg.Length(len(l.caption)) + 8
	l.top = l.bottom + l.height
	right := l.width - margin
	if len(f.legend) > 0 {
		if width, ok := f.legendRight(&l); ok {
			right -= width + 12
		} else {
			f.legendBelow(&l)
		}
	}
	l.height = snap(l.top + above)
	f.place(&l, right)
	return l
}

// legendRight lays the legend out right of the plots, if it is not too tall, and
// returns its width.
func (f *figure) legendRight(l *layout) (width vg.Length, ok bool) {
	w := l.width
	ff := face(legendSize, false)
	l.names, l.boxes = nil, nil
	l.heading = wrap(face(legendSize, true), legendColumn, f.heading)
	width = widest(face(legendSize, true), l.heading)
	y := l.top - 4 - lineHeight(legendSize)*vg.Length(len(l.heading))
	for _, e := range f.legend {
		lines := wrap(ff, legendColumn-sampleWidth-6, e.name)
		l.names = append(l.names, lines)
		width = max(width, sampleWidth+6+widest(ff, lines))
	}
	for _, lines := range l.names {
		height := lineHeight(legendSize)*vg.Length(len(lines)) + 5
		l.boxes = append(l.boxes, vg.Rectangle{Min: vg.Point{X: w - margin - width, Y: y - height}, Max: vg.Point{X: w - margin, Y: y}})
		y -= height
	}
	return width, y >= l.bottom+20
}

// legendBelow lays the legend out in columns of equal width below the plots, which
// move up.
func (f *figure) legendBelow(l *layout) {
	ff := face(legendSize, false)
	full := l.width - 2*margin
	width := vg.Length(0)
	for _, e := range f.legend {
		width = max(width, sampleWidth+6+widest(ff, strings.Split(e.name, "\n"))+18)
	}
	columns := min(max(1, int(full/width)), 4)
	if len(f.legend) > 4 {
		columns = max(columns, 2)
	}
	width = full / vg.Length(columns)
	l.heading = wrap(face(legendSize, true), full, f.heading)
	l.names, l.boxes = nil, make([]vg.Rectangle, len(f.legend))
	for _, e := range f.legend {
		l.names = append(l.names, wrap(ff, width-sampleWidth-14, e.name))
	}
	rows := (len(f.legend) + columns - 1) / columns
	heights := make([]vg.Length, rows)
	total := vg.Length(0)
	for r := range rows {
		for i := r; i < len(l.names); i += rows {
			heights[r] = max(heights[r], lineHeight(legendSize)*vg.Length(len(l.names[i]))+3)
		}
		total += heights[r]
	}
	y := l.bottom + total
	for r := range rows {
		for i := r; i < len(l.names); i += rows {
			x := margin + width*vg.Length(i/rows)
			l.boxes[i] = vg.Rectangle{Min: vg.Point{X: x, Y: y - heights[r]}, Max: vg.Point{X: x + width - 8, Y: y}}
		}
		y -= heights[r]
	}
	total += lineHeight(legendSize)*vg.Length(len(l.heading)) + 8
	l.bottom, l.top = l.bottom+total, l.top+total
}

// place divides what is left among the panels. Panels share their left edge; the
// lowest has the labels of the x axis where all have the same.
func (f *figure) place(l *layout, right vg.Length) {
	tf := face(tickSize, false)
	n := vg.Length(len(f.panels))
	below := lineHeight(labelSize) + lineHeight(tickSize) + tickLength + 4
	if names := f.panels[0].x.names; names != nil {
		below += lineHeight(tickSize) * 2
	}
	gap, head := vg.Length(22), vg.Length(0)
	if slices.ContainsFunc(f.panels, func(p panel) bool { return p.title != "" }) {
		head = lineHeight(legendSize)
	}
	height := (l.top - l.bottom - below - gap*(n-1) - head*n) / n
	left, lines := vg.Length(0), 1
	for i := range f.panels {
		label := wrap(face(labelSize, false), height, f.panels[i].y.label)
		l.ylabels = append(l.ylabels, label)
		lines = max(lines, len(label))
		ts := f.panels[i].y.ticks(height, textHeight(tf))
		l.yticks = append(l.yticks, ts)
		for _, t := range ts {
			left = max(left, room(tf, t.label))
		}
	}
	left += margin + lineHeight(labelSize)*vg.Length(lines) + 8 + tickLength + 4
	y := l.top
	for i := range f.panels {
		y -= head
		p := &f.panels[i]
		r := vg.Rectangle{Min: vg.Point{X: snap(left), Y: snap(y - height)}, Max: vg.Point{X: snap(right - 10), Y: snap(y)}}
		l.plots = append(l.plots, r)
		ts := p.x.ticks(r.Max.X-r.Min.X, textWidth(tf))
		l.xticks = append(l.xticks, ts)
		y -= height + gap
	}
}

// place is where a value is drawn.
func (p *panel) place(r vg.Rectangle, at xy) vg.Point {
	return vg.Point{
		X: snap(r.Min.X + vg.Length(clamp(p.x.fraction(at.x)))*(r.Max.X-r.Min.X)),
		Y: snap(r.Min.Y + vg.Length(clamp(p.y.fraction(at.y)))*(r.Max.Y-r.Min.Y)),
	}
}

// clamp keeps what is far outside near enough to be clipped.
func clamp(x float64) float64 { return math.Max(-10, math.Min(10, x)) }

func (p *panel) places(r vg.Rectangle, at []xy) []vg.Point {
	pts := make([]vg.Point, len(at))
	for i := range at {
		pts[i] = p.place(r, at[i])
	}
	return pts
}

// draw draws everything.
func (f *figure) draw(c canvas, l *layout) {
	w, h := l.width, l.height
	c.FillPolygon(white, []vg.Point{{}, {X: w}, {X: w, Y: h}, {Y: h}})
	y := h - margin
	for _, s := range l.title {
		c.text(face(titleSize, true), ink, margin, y-titleSize, atStart, s)
		y -= lineHeight(titleSize)
	}
	for _, s := range l.subtitle {
		c.text(face(subtitleSize, false), softInk, margin, y-subtitleSize, atStart, s)
		y -= lineHeight(subtitleSize)
	}
	y = margin - 4 + lineHeight(captionSize)*vg.Length(len(l.caption))
	for _, s := range l.caption {
		c.text(face(captionSize, false), softInk, margin, y-captionSize, atStart, s)
		y -= lineHeight(captionSize)
	}
	for i := range f.panels {
		last := i == len(f.panels)-1
		f.panels[i].drawAxes(c, l.plots[i], l.xticks[i], l.yticks[i], l.ylabels[i], last)
		f.panels[i].draw(c, l.plots[i])
		f.panels[i].drawTitle(c, l.plots[i])
	}
	for i, s := range l.heading {
		y := l.boxes[0].Max.Y + lineHeight(legendSize)*vg.Length(len(l.heading)-i-1) + 4
		c.text(face(legendSize, true), ink, l.boxes[0].Min.X, y, atStart, s)
	}
	for i := range f.legend {
		f.legend[i].draw(c, l.boxes[i], l.names[i])
	}
}

// drawTitle writes the title over the panel, on one line.
func (p *panel) drawTitle(c canvas, r vg.Rectangle) {
	if p.title == "" {
		return
	}
	ff := face(legendSize, true)
	lines := wrap(ff, r.Max.X-r.Min.X-20, p.title)
	if len(lines) > 1 {
		lines[0] += " \u2026"
	}
	c.text(ff, ink, r.Min.X, r.Max.Y+5, atStart, lines[0])
}

// frame is the style of the axes.
var frame = draw.LineStyle{Color: softInk, Width: 0.9}

// drawAxes draws the grid, the axes and their labels; those of the x axis only
// where asked for.
func (p *panel) drawAxes(c canvas, r vg.Rectangle, xticks, yticks []tick, ylabel []string, labels bool) {
	grid := draw.LineStyle{Color: gridInk, Width: 0.6}
	tf, lf := face(tickSize, false), face(labelSize, false)
	for _, t := range yticks {
		y := p.place(r, xy{p.x.min, t.at}).Y
		if t.label == "" {
			c.line(frame, r.Min.X-tickLength/2, y, r.Min.X, y)
			continue
		}
		c.line(grid, r.Min.X, y, r.Max.X, y)
		c.line(frame, r.Min.X-tickLength, y, r.Min.X, y)
		c.text(tf, ink, r.Min.X-tickLength-4, y-0.36*tickSize, atEnd, t.label)
	}
	for _, t := range xticks {
		x := p.place(r, xy{t.at, p.y.min}).X
		length := vg.Length(tickLength)
		if t.label == "" {
			length /= 2
		} else if p.x.names == nil {
			c.line(grid, x, r.Min.Y, x, r.Max.Y)
		}
		c.line(frame, x, r.Min.Y-length, x, r.Min.Y)
		if labels {
			p.drawName(c, r, x, t.label)
		}
	}
	for i, s := range ylabel {
		c.vertical(lf, ink, margin+labelSize-3+lineHeight(labelSize)*vg.Length(i), (r.Min.Y+r.Max.Y)/2, s)
	}
	if labels {
		drop := vg.Length(0)
		if p.x.names != nil {
			drop = vg.Length(p.nameLines(r)-1) * lineHeight(tickSize)
		}
		c.text(lf, ink, (r.Min.X+r.Max.X)/2, r.Min.Y-tickLength-lineHeight(tickSize)-lineHeight(labelSize)-drop+1, atMiddle, p.x.label)
	}
}

// maxNameLines is the number of lines of a name on an axis.
const maxNameLines = 3

// nameLines is the number of lines that the names of the x axis take.
func (p *panel) nameLines(r vg.Rectangle) int {
	n := 1
	for _, name := range p.x.names {
		n = max(n, len(p.name(r, name)))
	}
	return n
}

// name breaks the name of a value into lines of its share of the axis.
func (p *panel) name(r vg.Rectangle, name string) []string {
	f := face(tickSize, false)
	width := (r.Max.X-r.Min.X)/vg.Length(max(len(p.x.names), 1)) - 6
	least := width
	for _, word := range breakable(name) { // whole if its own font is there
		if word = strings.TrimRight(word, " "); f.Width(word) <= least {
			width = max(width, room(f, word))
		}
	}
	lines := wrap(f, width, name)
	if len(lines) > maxNameLines {
		lines = lines[:maxNameLines]
		last := lines[maxNameLines-1]
		for last != "" && room(f, last+"...") > width {
			_, size := utf8.DecodeLastRuneInString(last)
			last = last[:len(last)-size]
		}
		lines[maxNameLines-1] = last + "..."
	}
	return lines
}

// drawName writes the label of a tick of the x axis.
func (p *panel) drawName(c canvas, r vg.Rectangle, x vg.Length, label string) {
	lines := []string{label}
	if p.x.names != nil {
		lines = p.name(r, label)
	}
	y := r.Min.Y - tickLength - tickSize - 1
	for _, s := range lines {
		c.text(face(tickSize, false), ink, x, y, atMiddle, s)
		y -= lineHeight(tickSize)
	}
}

// draw draws what is between the axes.
func (p *panel) draw(c canvas, r vg.Rectangle) {
	clip := draw.Canvas{Canvas: c.Canvas.Canvas, Rectangle: r}
	for _, b := range p.bars {
		c.fill(vg.Rectangle{Min: p.place(r, b.from), Max: p.place(r, b.to)}, b.colour, b.hatch)
	}
	c.line(frame, r.Min.X, r.Min.Y, r.Max.X, r.Min.Y)
	c.line(frame, r.Min.X, r.Min.Y, r.Min.X, r.Max.Y)
	for _, l := range p.layers { // bands below all lines
		for _, b := range l.bands {
			edge := p.places(r, b.low)
			for _, at := range slices.Backward(b.high) {
				edge = append(edge, p.place(r, at))
			}
			c.FillPolygon(l.style.band(), clip.ClipPolygonXY(edge))
		}
	}
	for _, l := range p.layers {
		for _, b := range l.bars {
			c.StrokeLines(l.style.solid(1.2), clip.ClipLinesXY(p.places(r, []xy{b.from, b.to}))...)
		}
		if len(l.line) > 1 {
			c.StrokeLines(l.style.line(), clip.ClipLinesXY(p.places(r, l.line))...)
		}
	}
	for _, l := range p.layers { // points above all lines
		radius := vg.Length(4)
		if len(l.points)+len(l.faint) > crowded {
			radius = 2.2
		}
		for _, at := range p.places(r, l.faint) {
			c.mark(l.style.marker, color.NRGBA{l.style.colour.R, l.style.colour.G, l.style.colour.B, 0x70}, at.X, at.Y, 0.75*radius)
		}
		for _, at := range p.places(r, l.points) {
			c.mark(l.style.marker, l.style.colour, at.X, at.Y, radius)
		}
	}
	for _, x := range p.failed {
		at := p.place(r, xy{x, p.y.min})
		c.mark(cross, ink, at.X, at.Y, 4.5)
	}
}

// draw draws an entry of the legend into its box.
func (e *entry) draw(c canvas, r vg.Rectangle, lines []string) {
	y := snap(r.Max.Y - lineHeight(legendSize)/2)
	r.Min.X = snap(r.Min.X)
	switch {
	case e.box:
		c.fill(vg.Rectangle{Min: vg.Point{X: r.Min.X + 6, Y: y - 6}, Max: vg.Point{X: r.Min.X + sampleWidth - 4, Y: y + 6}}, e.style.colour, e.hatch)
	case e.point:
		c.mark(e.style.marker, e.style.colour, r.Min.X+sampleWidth/2, y, 4)
	default:
		c.line(e.style.line(), r.Min.X, y, r.Min.X+sampleWidth, y)
		c.mark(e.style.marker, e.style.colour, r.Min.X+sampleWidth/2, y, 4)
	}
	for _, s := range lines {
		c.text(face(legendSize, false), ink, r.Min.X+sampleWidth+6, y-0.36*legendSize, atStart, s)
		y -= lineHeight(legendSize)
	}
}
