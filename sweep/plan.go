// Package sweep runs a scenario over axes: every combination of values, each
// repeated with common random numbers, on all cores, to files that do not depend
// on how many. A sweep that is killed goes on where it was.
package sweep

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/scenarios"
	"github.com/tgssim/tgssim/sim"
)

// Limits of a sweep.
const (
	MaxPoints = 10_000
	MaxRuns   = 100_000
)

// A Request is what the command line asks for beside the scenario.
type Request struct {
	// Set is assignments "a.b=c" for every point.
	Set []string
	// Axes are "key=value,value": each replaces the scenario's axis of that name,
	// or is added as the last. Of a labelled axis they choose values.
	Axes []string
	// Mode is scenarios.ModeProduct or ModeZip; "" is the scenario's, or product.
	Mode string
	// Replications is the number of runs per point; 0 is the scenario's, or 1.
	Replications int
}

// A Plan is a sweep made ready: its points, in order. It does not change, and
// goroutines may share it.
type Plan struct {
	Name         string
	Axes         []scenarios.Axis
	Mode         string
	Replications int
	// Points has one entry per combination: for each axis, which of its values.
	Points [][]int

	study *scenarios.Study
	units []*unit // of each axis; nil where values stay as written
}

// New reads a scenario and plans its sweep. Whatever is wrong with the sweep
// itself comes back as config.Problems: a key that is none, a value of the wrong
// type, two axes for one key, what is invalid at every point. What is wrong with
// some combinations of values only is the business of their points.
func New(ref string, r Request) (*Plan, error) {
	study, err := scenarios.Open(ref, r.Set...)
	if err != nil {
		return nil, err
	}
	p := &Plan{
		Name: study.Name, Axes: slices.Clone(study.Sweep.Axes), study: study,
		Mode:         cmp.Or(r.Mode, study.Sweep.Mode, scenarios.ModeProduct),
		Replications: cmp.Or(r.Replications, study.Sweep.Replications, 1),
	}
	var ps config.Problems
	p.addAxes(r.Axes, &ps)
	if err := ps.Err(); err != nil {
		return nil, err
	}
	ps.Require(p.Replications >= 1 && p.Replications <= scenarios.MaxReplications, "", "%d replications are out of range: 1 to %d",
		p.Replications, scenarios.MaxReplications)
	p.findUnits()
	p.checkNames(&ps)
	p.checkOverlap(r.Set, &ps)
	if len(ps) == 0 {
		p.checkValues(&ps)
	}
	if len(ps) == 0 {
		p.combine(&ps)
	}
	if len(ps) == 0 {
		ps = p.common()
	}
	return p, ps.Err()
}

// addAxes adds the axes of the command line.
func (p *Plan) addAxes(texts []string, ps *config.Problems) {
	seen := map[string]bool{}
	for _, text := range texts {
		a, err := p.study.ParseAxis(text)
		if err != nil {
			ps.Nest("", err)
			continue
		}
		if seen[a.Name] {
			p.refuse(ps, a, "there are two axes for it; write all values in one")
			continue
		}
		seen[a.Name] = true
		if i := slices.IndexFunc(p.Axes, func(b scenarios.Axis) bool { return b.Name == a.Name }); i >= 0 {
			p.Axes[i] = a
		} else {
			p.Axes = append(p.Axes, a)
		}
	}
}

func (p *Plan) refuse(ps *config.Problems, a scenarios.Axis, format string, args ...any) {
	*ps = append(*ps, config.Problem{Key: a.Name, Where: a.Where, Message: fmt.Sprintf(format, args...)})
}

// checkNames refuses names that would be two columns of one name.
func (p *Plan) checkNames(ps *config.Problems) {
	for i, a := range p.Axes {
		switch column := p.column(i); {
		case a.Name == "" || strings.ContainsAny(a.Name, "\r\n"):
			p.refuse(ps, a, "an axis needs a name")
		case a.Labelled && slices.Contains(reservedNames(), column):
			p.refuse(ps, a, "a column of the results has this name; choose another label")
		default:
			for j := range i {
				if p.column(j) == column {
					p.refuse(ps, a, "there are two axes of this name")
				}
			}
		}
	}
}

// checkOverlap refuses two axes, or an axis and an assignment, that set the same
// key.
func (p *Plan) checkOverlap(assignments []string, ps *config.Problems) {
	for i, a := range p.Axes {
		for _, key := range a.Keys() {
			if slices.Contains([]string{"seed", "replication", "description", "sweep", "extends"}, key) || strings.HasPrefix(key, "sweep.") {
				p.refuse(ps, a, "%s cannot vary; for repetitions ask for replications", key)
			}
			for _, b := range p.Axes[:i] {
				for _, other := range b.Keys() {
					if scenarios.Overlap(key, other) && a.Name != b.Name {
						p.refuse(ps, a, "sets %s, and the axis %s sets %s; a key can vary on one axis only", key, b.Name, other)
					}
				}
			}
			for _, text := range assignments {
				set, _, _ := strings.Cut(text, "=")
				if scenarios.Overlap(key, strings.TrimSpace(set)) {
					p.refuse(ps, a, "sets %s, so --set %s would do nothing", key, text)
				}
			}
		}
	}
}

// checkValues refuses keys that are none and values of the wrong type, whatever
// they are combined with.
func (p *Plan) checkValues(ps *config.Problems) {
	seen := map[string]bool{}
	for _, a := range p.Axes {
		for _, v := range a.Values {
			var found config.Problems
			found.Nest("", p.study.Decodes(v.Settings...))
			for _, x := range found {
				if !seen[x.String()] { // an unknown key is so for every value
					seen[x.String()] = true
					*ps = append(*ps, x)
				}
			}
		}
	}
}

// combine works out the points.
func (p *Plan) combine(ps *config.Problems) {
	if len(p.Axes) == 0 && p.Replications == 1 {
		ps.Addf("", "nothing varies: write --axis key=value,value, or sweep.axes in the scenario, or ask for replications")
		return
	}
	if len(p.Axes) > 0 {
		scenarios.Repeats(p.Axes, p.Mode, ps)
	}
	n := 1
	for i, a := range p.Axes {
		switch {
		case p.Mode == scenarios.ModeZip && i > 0 && len(a.Values) != len(p.Axes[0].Values):
			p.refuse(ps, a, "%d values beside the %d of %s; zipped axes are equally long", len(a.Values), len(p.Axes[0].Values), p.Axes[0].Name)
			return
		case p.Mode == scenarios.ModeZip:
			n = len(a.Values)
		default:
			n = min(n*len(a.Values), MaxPoints+1)
		}
	}
	if n > MaxPoints || n*p.Replications > MaxRuns {
		ps.Addf("", "more than %d points or %d runs; split the sweep", MaxPoints, MaxRuns)
		return
	}
	for k := range n {
		point := make([]int, len(p.Axes))
		for i, rest := len(p.Axes)-1, k; i >= 0; i-- {
			if p.Mode == scenarios.ModeZip {
				point[i] = k
				continue
			}
			size := len(p.Axes[i].Values)
			point[i], rest = rest%size, rest/size
		}
		if !p.skips(point) {
			p.Points = append(p.Points, point)
		}
	}
	if len(p.Points) == 0 {
		ps.Addf("", "sweep.skip leaves out every point")
	}
}

// common is what is wrong at every point, which is a mistake in the scenario and not
// in a combination of values.
func (p *Plan) common() (all config.Problems) {
	for point := range p.Points {
		_, err := p.Scenario(point)
		var found config.Problems
		found.Nest("", err)
		if point == 0 {
			all = found
		}
		all = slices.DeleteFunc(all, func(x config.Problem) bool { return !slices.Contains(found, x) })
		if len(all) == 0 {
			break
		}
	}
	return all
}

// skips tells whether the scenario leaves a combination out. Values that an axis
// of the command line does not have are left out already.
func (p *Plan) skips(point []int) bool {
	return slices.ContainsFunc(p.study.Sweep.Skip, func(c scenarios.Combination) bool {
		return c.Has(func(axis string) string {
			i := slices.IndexFunc(p.Axes, func(a scenarios.Axis) bool { return a.Name == axis })
			return p.Axes[i].Values[point[i]].Label
		})
	})
}

// Runs is the number of runs: points times replications.
func (p *Plan) Runs() int { return len(p.Points) * p.Replications }

// Labels are the values of a point, one per axis.
func (p *Plan) Labels(point int) []string {
	labels := make([]string, len(p.Axes))
	for i, v := range p.Points[point] {
		labels[i] = p.Axes[i].Values[v].Label
	}
	return labels
}

// Scenario is the scenario of a point, in its first replication.
func (p *Plan) Scenario(point int) (*scenarios.Scenario, error) {
	return p.study.Scenario(p.settings(point)...)
}

func (p *Plan) settings(point int) (settings []scenarios.Setting) {
	for i, v := range p.Points[point] {
		settings = append(settings, p.Axes[i].Values[v].Settings...)
	}
	return settings
}

// Base is the scenario without any axis.
func (p *Plan) Base() (*scenarios.Scenario, error) { return p.study.Scenario() }

// skip is what the scenario leaves out, without the values that the axes do not
// have.
func (p *Plan) skip() (all []scenarios.Combination) {
	for _, c := range p.study.Sweep.Skip {
		c = slices.Clone(c)
		possible := true
		for k, x := range c {
			i := slices.IndexFunc(p.Axes, func(a scenarios.Axis) bool { return a.Name == x.Axis })
			c[k].Labels = slices.DeleteFunc(slices.Clone(x.Labels), func(l string) bool { return !slices.Contains(p.Axes[i].Labels(), l) })
			possible = possible && len(c[k].Labels) > 0
		}
		if possible {
			all = append(all, c)
		}
	}
	return all
}

// Text is the scenario file of the sweep: what was written, with what it extends,
// the axes and the replications.
func (p *Plan) Text() ([]byte, error) {
	return p.study.YAML(scenarios.Sweep{Axes: p.Axes, Skip: p.skip(), Mode: p.Mode, Replications: p.Replications})
}

// A unit is how the values of one type of key are written as numbers.
type unit struct {
	// kind is the type as config.Keys names it, suffix the unit in a column's name.
	kind, suffix string
	number       func(text string) (float64, error)
}

var unitsOf = []unit{
	{"time", "_s", func(s string) (float64, error) {
		var t sim.Time
		err := t.UnmarshalText([]byte(s))
		return t.Seconds(), err
	}},
	{"rate", "_gbps", func(s string) (float64, error) {
		var r units.Rate
		err := r.UnmarshalText([]byte(s))
		return float64(r) / float64(units.Gbps), err
	}},
	{"bytes", "_bytes", func(s string) (float64, error) {
		var n units.Bytes
		err := n.UnmarshalText([]byte(s))
		return float64(n), err
	}},
	{"frequency", "_per_s", func(s string) (float64, error) {
		var f units.Frequency
		err := f.UnmarshalText([]byte(s))
		return float64(f), err
	}},
}

// findUnits finds the unit of each axis whose values are quantities.
func (p *Plan) findUnits() {
	types := keyTypes()
	p.units = make([]*unit, len(p.Axes))
	for i := range p.Axes {
		for k := range unitsOf {
			if u := &unitsOf[k]; !p.Axes[i].Labelled && types[p.Axes[i].Name] == u.kind && u.fits(p.Axes[i].Values) {
				p.units[i] = u
			}
		}
	}
}

// fits tells whether all values can be written in the unit.
func (u *unit) fits(values []scenarios.AxisValue) bool {
	return !slices.ContainsFunc(values, func(v scenarios.AxisValue) bool {
		_, err := u.number(v.Label)
		return err != nil
	})
}

// keyTypes is the type of every key of a scenario, and of the scaling rules.
func keyTypes() map[string]string {
	types := map[string]string{}
	for _, k := range config.Keys(scenarios.Default()) {
		types[k.Path] = k.Type
	}
	for _, k := range config.Keys(scenarios.Scale{}) {
		types["scale."+k.Path] = k.Type
	}
	return types
}

// column is the name of an axis's column, with the unit in it.
func (p *Plan) column(axis int) string {
	if u := p.units[axis]; u != nil {
		return p.Axes[axis].Name + u.suffix
	}
	return p.Axes[axis].Name
}

// Columns names the columns of the axes, with the unit of a quantity in the name.
func (p *Plan) Columns() []string {
	names := make([]string, len(p.Axes))
	for i := range p.Axes {
		names[i] = p.column(i)
	}
	return names
}
