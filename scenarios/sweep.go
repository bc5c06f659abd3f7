package scenarios

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tgssim/tgssim/internal/config"
)

// sweepKey is the section that says what to vary.
const sweepKey = "sweep"

// The ways of combining axes.
const (
	// ModeProduct takes every combination, the last axis fastest.
	ModeProduct = "product"
	// ModeZip takes the first values of all axes, then the second ones, and so on.
	ModeZip = "zip"
)

// Modes lists the valid values of Sweep.Mode.
var Modes = []string{ModeProduct, ModeZip}

// MaxReplications and MaxValues bound what one sweep may ask for.
const (
	MaxReplications = 10_000
	MaxValues       = 10_000
)

// A Sweep says what to vary, in the section sweep of a scenario file:
//
//	sweep:
//	  axes:                      # in order; the last varies fastest
//	    cluster.nodes: [2, 4, 8]
//	    network:                 # several keys at once, each set under a name
//	      shared: {network.engine: flow}
//	      ideal: {network.engine: ideal}
//	  skip:                      # combinations that are left out
//	    - {network: shared, cluster.nodes: [8]}
//	  mode: product              # or zip
//	  replications: 3
//
// Axes may also be a list of {key: ..., values: [...]} and {label: ..., values:
// {name: {key: value}}}. A whole-number value may be a range: 2..32*2 is 2, 4,
// 8, 16, 32, and 10..30+10 is 10, 20, 30.
type Sweep struct {
	Axes []Axis
	// Skip lists combinations that are left out.
	Skip []Combination
	// Mode is product or zip; "" where it is not written.
	Mode string
	// Replications is how often each point is run, each time with other random
	// numbers; 0 where it is not written.
	Replications int
}

// An Axis is one thing that varies.
type Axis struct {
	// Name is the key that varies or, where several vary together, a label.
	Name string
	// Labelled tells the second kind.
	Labelled bool
	Values   []AxisValue
	// Where is the place it was written at.
	Where string
}

// An AxisValue is one value of an axis: its text, and the keys that it sets.
type AxisValue struct {
	Label    string
	Settings []Setting
}

// A Combination is all points whose axes have one of the labels given for each;
// axes that it does not name may have any.
type Combination []struct {
	Axis   string
	Labels []string
}

// Has tells whether a point belongs to the combination, given its labels by axis.
func (c Combination) Has(label func(axis string) string) bool {
	for _, x := range c {
		if !slices.Contains(x.Labels, label(x.Axis)) {
			return false
		}
	}
	return true
}

// Keys lists the keys that the axis sets, in the order in which they come.
func (a *Axis) Keys() []string {
	var keys []string
	for _, v := range a.Values {
		for _, x := range v.Settings {
			if !slices.Contains(keys, x.Key) {
				keys = append(keys, x.Key)
			}
		}
	}
	return keys
}

// Labels lists the values' texts.
func (a *Axis) Labels() []string {
	labels := make([]string, len(a.Values))
	for i, v := range a.Values {
		labels[i] = v.Label
	}
	return labels
}

// ParseAxis reads an axis of the command line, "cluster.nodes=2,4,8": a key, and
// values as Tree.Set reads them.
func ParseAxis(text string) (Axis, error) {
	origin := "--axis " + text
	var ps config.Problems
	refuse := func(format string, args ...any) (Axis, error) {
		return Axis{}, config.Problems{{Where: origin, Message: fmt.Sprintf(format, args...)}}
	}
	key, values, ok := strings.Cut(text, "=")
	key = strings.TrimSpace(key)
	switch {
	case !ok || key == "":
		return refuse("write section.key=value,value")
	case strings.TrimSpace(values) == "":
		return refuse("no values; write %s=value,value", key)
	}
	list, err := config.ParseValue(origin, "["+values+"]")
	if err != nil {
		return Axis{}, err
	}
	a := keyAxis(key, origin, list, &ps)
	return a, ps.Err()
}

// ParseAxis reads an axis of the command line as the function does; of an axis of
// the study whose values have labels, "network=ideal,dcqcn-ecmp", it takes those
// that are named, in that order.
func (s *Study) ParseAxis(text string) (Axis, error) {
	a, err := ParseAxis(text)
	i := slices.IndexFunc(s.Sweep.Axes, func(b Axis) bool { return b.Labelled && b.Name == a.Name })
	if err != nil || i < 0 {
		return a, err
	}
	var ps config.Problems
	labels := s.Sweep.Axes[i].Labels()
	chosen := Axis{Name: a.Name, Labelled: true, Where: a.Where}
	for _, v := range a.Values {
		x := v.Settings[0].Value
		label, _ := x.Text()
		if !x.IsScalar() {
			label = x.String()
		}
		at := slices.Index(labels, label)
		if at < 0 {
			complain(&ps, a.Name, x, "the scenario's axis has no value %s%s", label, suggestLabel(label, labels))
			continue
		}
		chosen.Values = append(chosen.Values, s.Sweep.Axes[i].Values[at])
	}
	return chosen, ps.Err()
}

// suggestLabel is the nearest of some labels, and all of them as they are written on
// the command line.
func suggestLabel(label string, labels []string) string {
	written := slices.Clone(labels)
	for i, l := range written {
		if strings.Contains(l, ",") {
			written[i] = strconv.Quote(l)
		}
	}
	hint := ""
	if near := config.Nearest(label, labels); near != "" {
		hint = "; did you mean " + near + "?"
	}
	return hint + " (values: " + strings.Join(written, ", ") + ")"
}

// Repeats records what would make a point twice: in a product a value that an axis
// has twice, in a zip one that has the same values of all axes beside it again.
func Repeats(axes []Axis, mode string, ps *config.Problems) {
	together := [][]Axis{axes}
	beside := ", with the same beside it"
	if mode != ModeZip || len(axes) == 1 {
		together, beside = nil, ""
		for i := range axes {
			together = append(together, axes[i:i+1])
		}
	}
	for _, zipped := range together {
		seen := map[string]bool{}
		for k := range zipped[0].Values {
			var labels []string
			for _, a := range zipped {
				if k >= len(a.Values) {
					return // not equally long, which is said elsewhere
				}
				labels = append(labels, strconv.Quote(a.Values[k].Label))
			}
			point := strings.Join(labels, " ")
			if a := zipped[0]; seen[point] {
				where := a.Where // labels are there twice only by choice of the command line
				if s := a.Values[k].Settings; !a.Labelled && len(s) > 0 {
					where = s[0].Value.Where()
				}
				*ps = append(*ps, config.Problem{Key: a.Name, Where: where, Message: a.Values[k].Label + " is there twice" + beside})
			}
			seen[point] = true
		}
	}
}

// readSweep reads the section sweep, and records what is wrong with it.
func readSweep(v config.Value, ps *config.Problems) (s Sweep) {
	if !v.IsMapping() {
		complain(ps, sweepKey, v, "expected a mapping with axes, skip, mode and replications, found %s", v.Found())
		return s
	}
	known := []string{"axes", "skip", "mode", "replications"}
	for _, key := range v.Keys() {
		at, x := sweepKey+"."+key, v.Get(key)
		switch key {
		case "axes":
			s.Axes = readAxes(x, ps)
		case "skip": // once the axes are known
		case "mode":
			ps.Nest("", x.Decode(at, &s.Mode))
			if s.Mode != "" && !slices.Contains(Modes, s.Mode) {
				complain(ps, at, x, "unknown value %q%s", s.Mode, config.Suggest(s.Mode, Modes))
			}
		case "replications":
			err := x.Decode(at, &s.Replications)
			ps.Nest("", err)
			if err == nil && (s.Replications < 1 || s.Replications > MaxReplications) {
				complain(ps, at, x, "%d is out of range: 1 to %d", s.Replications, MaxReplications)
			}
		default:
			complain(ps, at, x, "unknown key%s (keys here: %s)", config.Suggest(key, known), strings.Join(known, ", "))
		}
	}
	if x := v.Get("skip"); x.Written() {
		s.Skip = readSkip(x, s.Axes, ps)
	}
	if len(s.Axes) > 0 {
		Repeats(s.Axes, s.Mode, ps)
	}
	return s
}

// readSkip reads the combinations that are left out, each a mapping of axes to a
// label or a list of them.
func readSkip(v config.Value, axes []Axis, ps *config.Problems) (all []Combination) {
	const at = sweepKey + ".skip"
	const form = "{cluster.nodes: [64, 128], network: packet}"
	if !v.IsList() {
		complain(ps, at, v, "expected a list such as [%s], found %s", form, v.Found())
		return nil
	}
	names := make([]string, len(axes))
	for i := range axes {
		names[i] = axes[i].Name
	}
	for i, item := range v.Items() {
		if where := fmt.Sprintf("%s[%d]", at, i); !item.IsMapping() {
			complain(ps, where, item, "expected a combination such as %s, found %s", form, item.Found())
			continue
		} else if len(item.Keys()) == 0 {
			complain(ps, where, item, "names no axis, and so would leave out every point; write such as %s", form)
			continue
		}
		var c Combination
		for _, name := range item.Keys() {
			x := item.Get(name)
			where := fmt.Sprintf("%s[%d].%s", at, i, name)
			k := slices.Index(names, name)
			if k < 0 {
				complain(ps, where, x, "there is no axis %s%s", name, config.Suggest(name, names))
				continue
			}
			c = append(c, struct {
				Axis   string
				Labels []string
			}{name, readLabels(where, x, &axes[k], ps)})
		}
		all = append(all, c)
	}
	return all
}

// readLabels reads one label of an axis, or a list of them.
func readLabels(at string, v config.Value, a *Axis, ps *config.Problems) (labels []string) {
	items := []config.Value{v}
	if v.IsList() {
		items = v.Items()
	}
	if len(items) == 0 {
		complain(ps, at, v, "no values")
	}
	for _, x := range items {
		label, _ := x.Text()
		if !x.IsScalar() {
			label = x.String()
		}
		if !slices.Contains(a.Labels(), label) {
			complain(ps, at, x, "%s has no value %s%s", a.Name, label, config.Suggest(label, a.Labels()))
		}
		labels = append(labels, label)
	}
	return labels
}

func complain(ps *config.Problems, key string, v config.Value, format string, args ...any) {
	*ps = append(*ps, config.Problem{Key: key, Where: v.Where(), Message: fmt.Sprintf(format, args...)})
}

const axesForm = "a mapping of keys to lists of values, or a list of {key: ..., values: [...]}"

// readAxes reads the axes in either form.
func readAxes(v config.Value, ps *config.Problems) (axes []Axis) {
	const at = sweepKey + ".axes"
	switch {
	case v.IsMapping():
		for _, name := range v.Keys() {
			if x := v.Get(name); !x.IsNull() { // null takes away what is inherited
				axes = append(axes, readAxis(name, x, ps))
			}
		}
	case v.IsList():
		for i, item := range v.Items() {
			axes = append(axes, readItem(fmt.Sprintf("%s[%d]", at, i), item, ps))
		}
	default:
		complain(ps, at, v, "expected %s, found %s", axesForm, v.Found())
	}
	return axes
}

// readAxis reads the values of an axis: a list for a key, a mapping for a label.
func readAxis(name string, v config.Value, ps *config.Problems) Axis {
	switch {
	case v.IsList():
		return keyAxis(name, v.Where(), v, ps)
	case v.IsMapping():
		return labelAxis(name, v, ps)
	}
	complain(ps, name, v, "expected a list of values, or a mapping of names to the keys that each sets, found %s", v.Found())
	return Axis{Name: name}
}

// readItem reads {key: ..., values: [...]} or {label: ..., values: {...}}.
func readItem(at string, v config.Value, ps *config.Problems) Axis {
	if !v.IsMapping() {
		complain(ps, at, v, "expected {key: ..., values: [...]}, found %s", v.Found())
		return Axis{}
	}
	known := []string{"key", "label", "values"}
	for _, k := range v.Keys() {
		if !slices.Contains(known, k) {
			complain(ps, at+"."+k, v.Get(k), "unknown key%s (keys here: %s)", config.Suggest(k, known), strings.Join(known, ", "))
		}
	}
	key, label, values := v.Get("key"), v.Get("label"), v.Get("values")
	name := key
	if label.Written() {
		name = label
	}
	switch {
	case key.Written() == label.Written():
		complain(ps, at, v, "write either key, the one key that varies, or label, a name for several")
		return Axis{}
	case !values.Written():
		complain(ps, at, v, "no values")
		return Axis{}
	case key.Written() && !values.IsList():
		complain(ps, at+".values", values, "expected a list, found %s", values.Found())
		return Axis{}
	case label.Written() && !values.IsMapping():
		complain(ps, at+".values", values, "expected a mapping of names to the keys that each sets, found %s", values.Found())
		return Axis{}
	}
	var text string
	if err := name.Decode(at, &text); err != nil {
		ps.Nest("", err)
		return Axis{}
	}
	a := readAxis(text, values, ps)
	return a
}

// keyAxis makes the axis of one key.
func keyAxis(key, where string, list config.Value, ps *config.Problems) Axis {
	a := Axis{Name: key, Where: where}
	add := func(v config.Value) {
		label := v.String()
		if text, quoted := "", false; v.IsScalar() {
			if text, quoted = v.Text(); !quoted {
				label = text
			}
		}
		a.Values = append(a.Values, AxisValue{Label: label, Settings: []Setting{{key, v}}})
	}
	for _, v := range list.Items() {
		expanded, err := expand(v)
		if err != nil {
			complain(ps, key, v, "%v", err)
			continue
		}
		if len(a.Values)+len(expanded) > MaxValues {
			complain(ps, key, v, "more than %d values", MaxValues)
			break
		}
		for _, x := range expanded {
			add(x)
		}
	}
	if len(list.Items()) == 0 {
		complain(ps, key, list, "an axis without values")
	}
	return a
}

// labelAxis makes an axis whose values set several keys each.
func labelAxis(name string, v config.Value, ps *config.Problems) Axis {
	a := Axis{Name: name, Labelled: true, Where: v.Where()}
	for _, label := range v.Keys() {
		x := v.Get(label)
		if !x.IsMapping() {
			complain(ps, name+"."+label, x, "expected a mapping of keys to values such as {network.engine: ideal}, found %s", x.Found())
			continue
		}
		value := AxisValue{Label: label}
		for _, key := range x.Keys() {
			value.Settings = append(value.Settings, Setting{key, x.Get(key)})
		}
		a.Values = append(a.Values, value)
	}
	if len(v.Keys()) == 0 {
		complain(ps, name, v, "an axis without values")
	}
	return a
}

// span is a range of whole numbers: from..to, from..to+step or from..to*factor.
var span = regexp.MustCompile(`^([0-9]{1,18})\.\.([0-9]{1,18})(?:([+*])([0-9]{1,18}))?$`)

// expand returns the numbers of a range, or the value itself.
func expand(v config.Value) ([]config.Value, error) {
	if !v.IsScalar() {
		return []config.Value{v}, nil
	}
	text, _ := v.Text()
	m := span.FindStringSubmatch(text)
	if m == nil {
		return []config.Value{v}, nil
	}
	number := func(s string) int64 { n, _ := strconv.ParseInt(s, 10, 64); return n } // at most 18 digits
	from, to, by := number(m[1]), number(m[2]), int64(1)
	if m[3] != "" {
		by = number(m[4])
	}
	switch {
	case from > to:
		return nil, fmt.Errorf("the range %s runs downwards; write the lower end first", text)
	case m[3] == "*" && (by < 2 || from < 1), by < 1:
		return nil, fmt.Errorf("the range %s does not get anywhere; write such as 2..32*2 or 10..30+10", text)
	}
	var values []config.Value
	for n := from; n <= to; {
		if len(values) == MaxValues {
			return nil, fmt.Errorf("the range %s has more than %d values", text, MaxValues)
		}
		x, err := config.ParseValue(v.Where(), strconv.FormatInt(n, 10))
		if err != nil {
			return nil, err
		}
		values = append(values, x)
		switch {
		case m[3] == "*" && n > math.MaxInt64/by:
			return values, nil
		case m[3] == "*":
			n *= by
		default:
			n += by
		}
	}
	return values, nil
}

// yaml is the sweep on one line of YAML, "" when there is none.
func (s *Sweep) yaml() string {
	if len(s.Axes) == 0 && len(s.Skip) == 0 && s.Mode == "" && s.Replications == 0 {
		return ""
	}
	axes := make([]string, len(s.Axes))
	for i := range s.Axes {
		axes[i] = s.Axes[i].yaml()
	}
	text := "{axes: [" + strings.Join(axes, ", ") + "]"
	if len(s.Skip) > 0 {
		items := make([]string, len(s.Skip))
		for i, c := range s.Skip {
			items[i] = c.yaml()
		}
		text += ", skip: [" + strings.Join(items, ", ") + "]"
	}
	if s.Mode != "" {
		text += ", mode: " + s.Mode
	}
	if s.Replications != 0 {
		text += ", replications: " + strconv.Itoa(s.Replications)
	}
	return text + "}"
}

func (c Combination) yaml() string {
	parts := make([]string, len(c))
	for i, x := range c {
		labels := make([]string, len(x.Labels))
		for k, l := range x.Labels {
			labels[k] = quoted(l)
		}
		parts[i] = quoted(x.Axis) + ": [" + strings.Join(labels, ", ") + "]"
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func (a *Axis) yaml() string {
	values := make([]string, len(a.Values))
	if !a.Labelled {
		for i, v := range a.Values {
			values[i] = v.Settings[0].text()
		}
		return "{key: " + quoted(a.Name) + ", values: [" + strings.Join(values, ", ") + "]}"
	}
	for i, v := range a.Values {
		keys := make([]string, len(v.Settings))
		for k, x := range v.Settings {
			keys[k] = quoted(x.Key) + ": " + x.text()
		}
		values[i] = quoted(v.Label) + ": {" + strings.Join(keys, ", ") + "}"
	}
	return "{label: " + quoted(a.Name) + ", values: {" + strings.Join(values, ", ") + "}}"
}

// text is the value as YAML, a file's path relative to the working directory.
func (x *Setting) text() string {
	if text, _ := x.Value.Text(); x.Value.IsScalar() && isFile(x.Key, text) {
		return quoted(relocateFrom(x.Value.Where(), text))
	}
	return x.Value.String()
}

// quoted is text that YAML takes for text.
func quoted(s string) string { return strconv.Quote(s) }
