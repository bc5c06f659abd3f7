package plot

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// makeXY composes a picture of measures against a column.
func (p *Preset) makeXY(r *Request) (*figure, error) {
	t, err := open(r.Dirs)
	if err != nil {
		return nil, err
	}
	return p.composeXY(r, t)
}

func (p *Preset) composeXY(r *Request, t *table) (*figure, error) {
	if err := t.where(r.Where); err != nil {
		return nil, err
	}
	s, err := p.spec(r, t)
	if err != nil {
		return nil, err
	}
	f := &figure{title: p.titleOf(s)}
	measures := make([][]*series, len(s.ys))
	for i, y := range s.ys {
		if measures[i], err = t.group(s, y); err != nil {
			return nil, err
		}
		if len(measures[i]) == 0 {
			return nil, t.nothing(s, y)
		}
	}
	all := unite(measures)
	if err := s.name(all); err != nil {
		return nil, err
	}
	s.part(all)
	for i, y := range s.ys {
		for _, g := range measures[i] { // alike in all panels, as in the legend
			same := all[slices.IndexFunc(all, g.is)]
			g.style, g.shift = same.style, same.shift
		}
		panel, err := p.panel(r, t, s, y, measures[i])
		if err != nil {
			return nil, err
		}
		f.panels = append(f.panels, *panel)
	}
	f.legendOf(all, s)
	f.describe(t, s, p.kind == kindFrontier, all)
	return f, nil
}

// spec works out which columns are shown.
func (p *Preset) spec(r *Request, t *table) (*xySpec, error) {
	s := &xySpec{x: p.x, ys: slices.Clone(p.ys)}
	if r.X != "" {
		s.x = r.X
	}
	if len(r.Y) > 0 {
		s.ys = slices.Clone(r.Y)
	}
	if len(s.ys) > maxPanels {
		return nil, fmt.Errorf("--y %s: %d panels are too many, %d at most", strings.Join(s.ys, ","), len(s.ys), maxPanels)
	}
	if !slices.ContainsFunc(t.rows, func(r row) bool { return r.failure == "" }) {
		return nil, fmt.Errorf("there are no results%s", t.firstFailure())
	}
	var err error
	if s.x, err = t.find(s.x); err != nil {
		return nil, fmt.Errorf("--x: %w", err)
	}
	for i := range s.ys {
		if s.ys[i], err = t.find(s.ys[i]); err != nil {
			return nil, fmt.Errorf("--y: %w", err)
		}
	}
	s.measured = t.isMeasure(s.x)
	if !slices.ContainsFunc(t.rows, func(r row) bool { _, ok := r.number(s.x); return ok }) {
		for i := range t.rows {
			if v := t.rows[i].text(s.x); v != "" && !slices.Contains(s.names, v) {
				s.names = append(s.names, v)
			}
		}
		if len(s.names) == 0 {
			return nil, fmt.Errorf("no run has a value of %s%s", s.x, t.firstFailure())
		}
		s.measured = false
	}
	if len(r.By) == 0 {
		t.chooseBy(s, p.kind == kindFrontier)
		return s, nil
	}
	for _, name := range r.By {
		if name, err = t.find(name); err != nil {
			return nil, fmt.Errorf("--by: %w", err)
		}
		s.by = append(s.by, name)
	}
	return s, nil
}

// nothing says why there is nothing to draw.
func (t *table) nothing(s *xySpec, y string) error {
	for i := range t.rows {
		if r := &t.rows[i]; r.text(y) != "" {
			if _, ok := r.number(y); !ok {
				return fmt.Errorf("--y %s: it has words such as %s, and a vertical axis needs numbers", y, r.text(y))
			}
		}
	}
	return fmt.Errorf("no run has both %s and %s%s", s.x, y, t.firstFailure())
}

// firstFailure names the first run without results, for messages.
func (t *table) firstFailure() string {
	failed, why := 0, ""
	for i := range t.rows {
		if t.rows[i].failure != "" {
			if failed++; failed == 1 {
				why, _, _ = strings.Cut(t.rows[i].failure, "\n")
			}
		}
	}
	if failed == 0 {
		return ""
	}
	return fmt.Sprintf("; %d of %d failed, the first with: %s", failed, len(t.rows), why)
}

func (p *Preset) titleOf(s *xySpec) string {
	if p.title != "" && s.x == p.x && slices.Equal(s.ys, p.ys) {
		return p.title
	}
	var ys []string
	for i, y := range s.ys {
		ys = append(ys, bare(columnOf(y).label))
		if i > 0 {
			ys[i] = inside(ys[i])
		}
	}
	head := ys[len(ys)-1]
	if len(ys) > 1 {
		head = strings.Join(ys[:len(ys)-1], ", ") + " and " + head
	}
	return head + " against " + inside(bare(columnOf(s.x).label))
}

// inside is a label as it stands inside a sentence.
func inside(label string) string {
	if len(label) > 1 && strings.ToLower(label[1:2]) == label[1:2] { // no acronym
		return strings.ToLower(label[:1]) + label[1:]
	}
	return label
}

// bare is a label without its unit.
func bare(label string) string {
	if i := strings.LastIndex(label, " ("); i > 0 {
		return label[:i]
	}
	return label
}

// panel draws the series of one measure.
func (p *Preset) panel(r *Request, t *table, s *xySpec, y string, all []*series) (*panel, error) {
	out := &panel{x: axis{label: columnOf(s.x).label, names: s.names}, y: axis{label: columnOf(y).label}}
	if !s.measured {
		out.failed = t.failures(s)
	}
	if err := out.scaleX(r, s, all); err != nil {
		return nil, err
	}
	if err := out.scaleY(r, y, all); err != nil {
		return nil, err
	}
	for _, g := range all {
		out.layers = append(out.layers, p.layer(out, s, g, all))
	}
	return out, nil
}

// values of the spots, with the ends of their intervals where wide is set.
func values(all []*series, of func(spot) (mean, half float64)) (means, ends []float64) {
	for _, g := range all {
		for _, p := range g.spots {
			m, half := of(p)
			means = append(means, m)
			ends = append(ends, m-half, m+half)
		}
	}
	return means, ends
}

func (o *panel) scaleX(r *Request, s *xySpec, all []*series) error {
	if s.names != nil {
		o.x.min, o.x.max = -0.5, float64(len(s.names))-0.5
		if strings.Contains(r.Log, "x") {
			return fmt.Errorf("--log %s: %s has names, not numbers", r.Log, s.x)
		}
		return nil
	}
	means, ends := values(all, func(p spot) (float64, float64) { return p.x.Mean, p.x.Half })
	means = append(means, o.failed...)
	distinct := slices.Compact(slices.Sorted(slices.Values(means)))
	const many = 16
	discrete := !s.measured && len(distinct) <= many
	if discrete {
		o.x.places = distinct
	}
	lo, hi := distinct[0], distinct[len(distinct)-1]
	o.x.log = wantsLog(distinct, discrete)
	if r.Log != "" {
		o.x.log = strings.Contains(r.Log, "x")
	}
	if o.x.log && lo <= 0 {
		return fmt.Errorf("--log %s: %s has the value %s, which has no place on a logarithmic axis", r.Log, s.x, number(lo))
	}
	if strings.HasSuffix(s.x, "oversubscription") {
		o.x.format = ratio
	}
	if s.measured && !o.x.log { // room for the bars, within reason
		d := hi - lo
		lo, hi = math.Max(slices.Min(ends), lo-d), math.Min(slices.Max(ends), hi+d)
	}
	o.x.cover(lo, hi, 0.05, 0.05)
	if !o.x.log && s.measured && lo >= 0 && lo < 0.5*hi {
		o.x.min = 0
	}
	if !o.x.log && lo >= 0 && o.x.min < 0 {
		o.x.min = 0
	}
	return nil
}

// maxBand is how far beyond the largest mean a band may stretch the axis: with
// two replications an interval is 13 standard errors wide.
const maxBand = 1.5

func (o *panel) scaleY(r *Request, y string, all []*series) error {
	means, ends := values(all, func(p spot) (float64, float64) { return p.y.Mean, p.y.Half })
	lo, hi := slices.Min(means), slices.Max(means)
	o.y.log = wantsLog(means, false) && !isShare(y) && !r.Zoom
	if r.Log != "" {
		o.y.log = strings.Contains(r.Log, "y")
	}
	if o.y.log && lo <= 0 {
		return fmt.Errorf("--log %s: %s has the value %s, which has no place on a logarithmic axis", r.Log, y, number(lo))
	}
	spread := hi - lo
	top, bottom := slices.Max(ends), slices.Min(ends)
	switch {
	case o.y.log:
		o.y.cover(math.Max(bottom, lo/2), math.Min(top, hi*2), 0.06, 0.06)
	case r.Zoom:
		d := math.Max(spread, 0.02*math.Abs(hi))
		o.y.cover(math.Max(bottom, lo-2*d), math.Min(top, hi+2*d), 0.08, 0.08)
	case lo < 0:
		o.y.cover(math.Max(bottom, lo-2*spread), math.Min(top, hi+2*spread), 0.08, 0.08)
	default:
		o.y.cover(0, math.Min(top, hi*maxBand), 0, 0.08)
	}
	return nil
}

// crowded is the number of points from which markers hide each other: lines lose
// theirs, and others are small.
const crowded = 40

// layer is how one series is drawn.
func (p *Preset) layer(o *panel, s *xySpec, g *series, all []*series) layer {
	l := layer{style: g.style}
	if s.names != nil {
		l.stand(g)
		return l
	}
	front := g.spots
	if p.kind == kindFrontier {
		front = pareto(g.spots)
	}
	for _, q := range g.spots {
		at := xy{q.x.Mean, q.y.Mean}
		if slices.Contains(front, q) {
			l.points = append(l.points, at)
		} else {
			l.faint = append(l.faint, at)
		}
		if q.y.N > 1 && s.measured {
			l.bars = append(l.bars, upright(q))
		}
		if q.x.N > 1 && s.measured {
			l.bars = append(l.bars, bar{from: xy{at.x - q.x.Half, at.y}, to: xy{at.x + q.x.Half, at.y}})
		}
	}
	for _, q := range front {
		l.line = append(l.line, xy{q.x.Mean, q.y.Mean})
	}
	if s.measured {
		return l
	}
	if len(front) > crowded { // the line says it all
		l.points = nil
	}
	l.intervals(front)
	if g.ideal && s.stands(all, g) { // at every place of the axis alike
		mean, half := g.spots[0].y.Mean, g.spots[0].y.Half
		g.style.marker = noMarker
		l = layer{style: g.style, line: []xy{{o.x.min, mean}, {o.x.max, mean}}}
		if half > 0 {
			l.bands = []band{{[]xy{{o.x.min, mean - half}, {o.x.max, mean - half}}, []xy{{o.x.min, mean + half}, {o.x.max, mean + half}}}}
		}
	}
	return l
}

// beside is how far apart two series stand at a name, as a part of the name's share
// of the axis; all of them take half of it at the most.
const beside = 0.14

// part lets the series stand beside each other at a name that several have, so that
// none hides another.
func (s *xySpec) part(all []*series) {
	at := map[float64]int{}
	crowd := 0
	for _, g := range all {
		for _, q := range g.spots {
			at[q.x.Mean]++
			crowd = max(crowd, at[q.x.Mean])
		}
	}
	if s.names == nil || crowd < 2 {
		return
	}
	n := float64(len(all))
	for k, g := range all {
		g.shift = (float64(k) - (n-1)/2) * min(beside, 0.5/n)
	}
}

// stand puts the points of a series at their names.
func (l *layer) stand(g *series) {
	for _, q := range g.spots {
		q.x.Mean += g.shift
		l.points = append(l.points, xy{q.x.Mean, q.y.Mean})
		if q.y.N > 1 {
			l.bars = append(l.bars, upright(q))
		}
	}
}

// upright is the error bar of a spot.
func upright(q spot) bar {
	return bar{from: xy{q.x.Mean, q.y.Mean - q.y.Half}, to: xy{q.x.Mean, q.y.Mean + q.y.Half}}
}

// intervals draws the confidence intervals of spots along a line: bands where
// neighbours have one, and bars where a spot has one and no neighbour does.
func (l *layer) intervals(spots []spot) {
	for from := 0; from < len(spots); {
		to := from
		for to < len(spots) && spots[to].y.N > 1 {
			to++
		}
		switch {
		case to-from > 1:
			var b band
			for _, q := range spots[from:to] {
				b.low = append(b.low, xy{q.x.Mean, q.y.Mean - q.y.Half})
				b.high = append(b.high, xy{q.x.Mean, q.y.Mean + q.y.Half})
			}
			if slices.ContainsFunc(spots[from:to], func(q spot) bool { return q.y.Half > 0 }) {
				l.bands = append(l.bands, b)
			}
		case to-from == 1:
			l.bars = append(l.bars, upright(spots[from]))
		}
		from = max(to, from+1)
	}
}

// stands tells whether an ideal series has one value for the whole axis: the
// fabric is what the axis varies, and the ideal one has none.
func (s *xySpec) stands(all []*series, g *series) bool {
	if len(g.spots) != 1 || s.x == "gpus" || s.x == "nodes" {
		return false
	}
	return slices.ContainsFunc(all, func(h *series) bool { return !h.ideal && len(h.spots) > 1 })
}

// failures are the places of the x axis at which runs failed.
func (t *table) failures(s *xySpec) (at []float64) {
	for i := range t.rows {
		if r := &t.rows[i]; r.failure != "" {
			x, ok := s.position(r)
			if !ok {
				x, ok = t.infer(s, r)
			}
			if ok && !slices.Contains(at, x) {
				at = append(at, x)
			}
		}
	}
	return at
}

// infer finds where a run would stand that could not even be built: at the place
// of the runs with the same value of an axis that determines the place, or where an
// axis in proportion to the place says.
func (t *table) infer(s *xySpec, failed *row) (x float64, ok bool) {
	var built []*row
	for i := range t.rows {
		if t.rows[i].text(s.x) != "" {
			built = append(built, &t.rows[i])
		}
	}
	for _, axis := range t.axes {
		if !functionOf(built, s.x, []string{axis}) || functionOf(built, s.x, nil) {
			continue
		}
		for _, r := range built {
			if r.text(axis) == failed.text(axis) {
				return s.position(r)
			}
		}
		if factor := s.factor(built, axis); factor > 0 {
			x, ok = failed.number(axis)
			return factor * x, ok
		}
	}
	return 0, false
}

// factor is by how much x is larger than an axis, 0 if that is not the same in all
// runs.
func (s *xySpec) factor(built []*row, axis string) (factor float64) {
	for _, r := range built {
		x, ok := r.number(s.x)
		of, there := r.number(axis)
		if !ok || !there || of == 0 || factor != 0 && x != factor*of {
			return 0
		}
		factor = x / of
	}
	return factor
}

// legendOf lists the series, if there is anything to tell apart.
func (f *figure) legendOf(all []*series, s *xySpec) {
	f.heading = s.heading(all)
	for _, g := range all {
		if g.name != "" {
			f.legend = append(f.legend, entry{name: g.name, style: g.style, point: s.names != nil})
		}
	}
	for i := range f.panels {
		if len(f.panels[i].failed) > 0 {
			f.legend = append(f.legend, entry{name: "Failed runs", style: style{colour: ink, marker: cross}, point: true})
			break
		}
	}
}

// heading says what the names of the legend are, where they are words that do
// not say it themselves.
func (s *xySpec) heading(all []*series) string {
	var parts []string
	for i, c := range s.by {
		if slices.ContainsFunc(all, func(g *series) bool { _, number := parseNumber(g.keys[i]); return number }) {
			continue
		}
		parts = append(parts, bare(columnOf(c).label))
	}
	return strings.Join(parts, ", ")
}
