package plot

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tgssim/tgssim/sweep"
)

// A spot is one place of a series: a point of a sweep over its replications.
type spot struct {
	folder *folder
	point  int
	x, y   sweep.Mean
}

// A series is the spots that are drawn as one line.
type series struct {
	name  string
	keys  []string // of the columns of by
	ideal bool
	first int     // row of it
	shift float64 // of its points from their names, on an axis of names
	spots []spot
	style style
}

// An xySpec is a picture of columns against a column.
type xySpec struct {
	x  string
	ys []string
	by []string
	// measured says that x is what came out, not what was set.
	measured bool
	// names are the values of an x that is no number.
	names []string
}

// where keeps the rows that have one of the values of every condition.
func (t *table) where(conditions []string) error {
	for _, condition := range conditions {
		name, list, ok := strings.Cut(condition, "=")
		if !ok {
			return fmt.Errorf("--where %s: write column=value,value", condition)
		}
		name, err := t.find(name)
		if err != nil {
			return fmt.Errorf("--where %s: %w", condition, err)
		}
		values := strings.Split(list, ",")
		var there []string
		kept := slices.DeleteFunc(slices.Clone(t.rows), func(r row) bool {
			text := r.text(name)
			if !slices.Contains(there, text) {
				there = append(there, text)
			}
			return !slices.ContainsFunc(values, func(v string) bool { return same(v, text) })
		})
		if len(kept) == 0 {
			return fmt.Errorf("--where %s: no run has it; there are %s", condition, listed(there, 8))
		}
		t.rows = kept
	}
	return nil
}

// same compares values as numbers where they are.
func same(a, b string) bool {
	x, ok := parseNumber(a)
	y, there := parseNumber(b)
	if ok && there {
		return x == y
	}
	return a == b
}

func listed(values []string, limit int) string {
	if len(values) > limit {
		return strings.Join(values[:limit], ", ") + fmt.Sprintf(" and %d more", len(values)-limit)
	}
	return strings.Join(values, ", ")
}

// isMeasure tells a column that came out of runs from one that was set.
func (t *table) isMeasure(name string) bool {
	if slices.Contains(t.axes, name) || !slices.Contains(t.columns, name) {
		return false
	}
	return !slices.Contains(builtColumns, name)
}

// builtColumns are the columns of what was built.
var builtColumns = []string{
	"nodes", "gpus", "leaves", "spines", "uplinks_per_leaf", "oversubscription", "prefill_instances", "prefill_gpus",
	"decode_instances", "decode_gpus",
}

// chooseBy finds the columns that make the series: the axes that x does not
// determine. Where x is measured these are the axes of words and, for lines that
// follow an axis, all others but the last.
func (t *table) chooseBy(s *xySpec, pareto bool) {
	var candidates []string
	if len(t.folders) > 1 {
		candidates = append(candidates, folderColumn)
	}
	candidates = append(candidates, t.axes...)
	rows := t.judged()
	constant := func(c string) bool { return functionOf(rows, c, nil) }
	all := candidates
	candidates = slices.DeleteFunc(slices.Clone(all), constant)
	if s.measured {
		var numbers []string
		for _, c := range candidates {
			if !slices.ContainsFunc(rows, func(r *row) bool { _, ok := parseNumber(r.text(c)); return !ok }) {
				numbers = append(numbers, c)
			}
		}
		keep := len(numbers)
		if !pareto && keep > 0 {
			keep-- // the last is the one that a line follows
			numbers = numbers[keep:]
		}
		candidates = slices.DeleteFunc(candidates, func(c string) bool { return slices.Contains(numbers, c) })
	}
	determined := []string{s.x}
	if s.measured {
		determined = nil
	}
	for _, c := range candidates {
		if c != s.x && !functionOf(rows, c, determined) {
			s.by = append(s.by, c)
			determined = append(determined, c)
		}
	}
	if len(s.by) == 0 { // a name for what stands beside the ideal fabric
		for _, c := range all {
			if c != s.x && constant(c) && slices.ContainsFunc(t.rows, func(r row) bool { return r.ideal() && r.text(c) != rows[0].text(c) }) {
				s.by = []string{c}
				return
			}
		}
	}
}

// judged are the rows by which series are chosen: those with a real network, or
// all where there are none.
func (t *table) judged() (rows []*row) {
	for _, ideal := range []bool{false, true} {
		for i := range t.rows {
			if r := &t.rows[i]; r.failure == "" && (ideal || !r.ideal()) {
				rows = append(rows, r)
			}
		}
		if len(rows) > 0 {
			break
		}
	}
	return rows
}

// functionOf tells whether the values of some columns determine that of another.
func functionOf(rows []*row, name string, columns []string) bool {
	seen := map[string]string{}
	for _, r := range rows {
		key, value := keyOf(r, columns), r.text(name)
		if old, ok := seen[key]; ok && old != value {
			return false
		}
		seen[key] = value
	}
	return true
}

func keyOf(r *row, columns []string) string {
	var b strings.Builder
	for _, c := range columns {
		fmt.Fprintf(&b, "%q,", r.text(c))
	}
	return b.String()
}

// A grouping sorts rows into series and spots.
type grouping struct {
	spec   *xySpec
	series []*series
	byName map[string]*series
	spots  map[place]int
	values map[*series][][2][]float64 // of x and y, of every spot
}

// A place is a spot of a series: a value of x, or a point where x is measured.
type place struct {
	series *series
	at     string
}

// group sorts the rows into series and spots for one measure, the series of an
// ideal network last.
func (t *table) group(s *xySpec, y string) ([]*series, error) {
	g := grouping{spec: s, byName: map[string]*series{}, spots: map[place]int{}, values: map[*series][][2][]float64{}}
	for i := range t.rows {
		r := &t.rows[i]
		if r.failure != "" {
			continue
		}
		yv, ok := r.number(y)
		xv, there := s.position(r)
		if !ok || !there {
			continue
		}
		if p := g.add(r, i, xv, yv); p != nil {
			return nil, t.mixed(s, p, r)
		}
	}
	for _, x := range g.series {
		for k := range x.spots {
			x.spots[k].x, x.spots[k].y = sweep.MeanOf(g.values[x][k][0]), sweep.MeanOf(g.values[x][k][1])
		}
		slices.SortStableFunc(x.spots, func(a, b spot) int { return cmp.Compare(a.x.Mean, b.x.Mean) })
	}
	slices.SortFunc(g.series, inOrder)
	return g.series, nil
}

// inOrder is the order of series: by their rows, those of an ideal network last.
func inOrder(a, b *series) int {
	if a.ideal != b.ideal {
		if a.ideal {
			return 1
		}
		return -1
	}
	return a.first - b.first
}

// is tells whether two series are the same one, of two measures.
func (x *series) is(y *series) bool { return x.ideal == y.ideal && slices.Equal(x.keys, y.keys) }

// unite brings the series of several measures together, each once with all its
// spots: not every series has every measure.
func unite(measures [][]*series) (all []*series) {
	for _, some := range measures {
		for _, g := range some {
			i := slices.IndexFunc(all, g.is)
			if i < 0 {
				x := *g
				x.spots = slices.Clone(g.spots)
				all = append(all, &x)
				continue
			}
			x := all[i]
			x.first = min(x.first, g.first)
			for _, p := range g.spots {
				if !slices.ContainsFunc(x.spots, func(q spot) bool { return q.folder == p.folder && q.point == p.point }) {
					x.spots = append(x.spots, p)
				}
			}
		}
	}
	slices.SortFunc(all, inOrder)
	return all
}

// add puts the i-th row in its place. Where another point of the sweep is there
// already, it returns that.
func (g *grouping) add(r *row, i int, x, y float64) (taken *spot) {
	id := fmt.Sprint(r.ideal(), keyOf(r, g.spec.by))
	in := g.byName[id]
	if in == nil {
		in = &series{ideal: r.ideal(), first: i}
		for _, c := range g.spec.by {
			in.keys = append(in.keys, r.text(c))
		}
		g.byName[id], g.series = in, append(g.series, in)
	}
	at := place{in, fmt.Sprint(x)}
	if g.spec.measured {
		at.at = fmt.Sprint(r.folder.name, " ", r.point)
	}
	k, ok := g.spots[at]
	if !ok {
		k = len(in.spots)
		g.spots[at] = k
		in.spots = append(in.spots, spot{folder: r.folder, point: r.point})
		g.values[in] = append(g.values[in], [2][]float64{})
	}
	if p := &in.spots[k]; p.folder != r.folder || p.point != r.point {
		return p
	}
	v := &g.values[in][k]
	v[0], v[1] = append(v[0], x), append(v[1], y)
	return nil
}

// position is where a row stands on the x axis.
func (s *xySpec) position(r *row) (float64, bool) {
	if s.names == nil {
		return r.number(s.x)
	}
	i := slices.Index(s.names, r.text(s.x))
	return float64(i), i >= 0
}

// mixed says that two points would be averaged as if they were replications of
// one, and how to part them.
func (t *table) mixed(s *xySpec, p *spot, r *row) error {
	var other *row
	for i := range t.rows {
		if t.rows[i].folder == p.folder && t.rows[i].point == p.point {
			other = &t.rows[i]
			break
		}
	}
	columns := append([]string{folderColumn}, t.axes...)
	for _, c := range columns {
		if a, b := other.text(c), r.text(c); a != b && !slices.Contains(s.by, c) && c != s.x {
			return fmt.Errorf("runs at %s %s differ in %s (%s, %s): add it to --by, or choose with --where %s=%s", s.x, r.text(s.x), c, a, b, c, a)
		}
	}
	return fmt.Errorf("points %d and %d are both at %s %s: draw them apart with --by, or choose with --where", p.point, r.point, s.x, r.text(s.x))
}

// name names the series, and gives them their styles.
func (s *xySpec) name(all []*series) error {
	if len(all) > maxSeries {
		return fmt.Errorf("%d series (by %s) cannot be told apart, %d at most: choose some with --where, or fewer columns with --by",
			len(all), strings.Join(s.by, ", "), maxSeries)
	}
	ideals := 0
	for _, g := range all {
		if g.ideal {
			ideals++
		}
	}
	real := 0
	for _, g := range all {
		var parts []string
		for i, c := range s.by {
			if g.keys[i] != "" && !s.onlyIdeal(all, g, i) {
				parts = append(parts, show(c, g.keys[i]))
			}
		}
		switch {
		case len(parts) == 0 && slices.Contains(g.keys, ""): // it has none of the columns
			parts = append(parts, g.spots[0].folder.name)
		case g.ideal && len(parts) == 0:
			parts = append(parts, "Ideal fabric")
		case g.ideal:
			parts = append(parts, "ideal fabric")
		case len(parts) == 0 && ideals > 0:
			parts = append(parts, "Fabric as built")
		}
		g.name = strings.Join(parts, ", ")
		if !g.ideal {
			g.style = styleOf(real)
			real++
		}
	}
	for i, g := range all {
		if !g.ideal {
			continue
		}
		g.style = idealStyle(i - real)
		if ideals == len(all) {
			g.style = styleOf(i) // nothing else to stand apart from
		} else if sibling := s.sibling(all, g); sibling != nil && ideals > 1 {
			g.style.colour = sibling.style.colour
		}
	}
	return nil
}

// onlyIdeal tells whether the i-th key of an ideal series is a name that no other
// series has: what makes it ideal.
func (s *xySpec) onlyIdeal(all []*series, g *series, i int) bool {
	return g.ideal && slices.ContainsFunc(all, func(h *series) bool { return !h.ideal }) &&
		!slices.ContainsFunc(all, func(h *series) bool { return !h.ideal && h.keys[i] == g.keys[i] })
}

// sibling is the real series that an ideal one belongs to: all keys alike but
// those that make it ideal.
func (s *xySpec) sibling(all []*series, g *series) *series {
	var found *series
	for _, h := range all {
		if h.ideal {
			continue
		}
		alike := true
		for i := range s.by {
			alike = alike && (h.keys[i] == g.keys[i] || s.onlyIdeal(all, g, i))
		}
		if alike {
			if found != nil {
				return nil // of several
			}
			found = h
		}
	}
	return found
}

// pareto are the spots that no other beats in both directions, by ascending x.
func pareto(spots []spot) (front []spot) {
	sorted := slices.Clone(spots)
	slices.SortStableFunc(sorted, func(a, b spot) int {
		switch {
		case a.x.Mean != b.x.Mean && a.x.Mean > b.x.Mean, a.x.Mean == b.x.Mean && a.y.Mean > b.y.Mean:
			return -1
		case a.x.Mean == b.x.Mean && a.y.Mean == b.y.Mean:
			return 0
		}
		return 1
	})
	for _, p := range sorted { // from the largest x down, y must rise
		if len(front) == 0 || p.y.Mean > front[len(front)-1].y.Mean {
			front = append(front, p)
		}
	}
	slices.Reverse(front)
	return front
}
