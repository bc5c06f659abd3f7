package config

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// A Defaulter fills itself with its defaults. The items of a list or mapping,
// and an optional section (a pointer that is nil), are not part of the defaults
// of the Config around them; Decode calls SetDefaults on each new one before it
// reads what is written.
type Defaulter interface {
	SetDefaults()
}

// A Presetter fills itself with one of several named sets of values. When a
// mapping for it has the key preset, Decode calls SetPreset before it reads the
// others, wherever in the mapping the key stands: what is written beside a preset
// overrides it. The key needs a field of its own all the same.
type Presetter interface {
	SetPreset(name string) error
}

// Decode reads the tree into dst, a pointer to a struct that holds the defaults.
// It is strict: every key written must be known and every value of the right
// type. All complaints are returned together, as Problems in the order written,
// each with its key and place; dst is then partly filled.
//
// Every exported field needs a yaml tag with its key, or `yaml:"-"`; the keys of
// a struct field tagged `yaml:",inline"` count as those of the struct around it.
// By type of the field:
//
//   - a type with UnmarshalText (sim.Time, units.Rate) reads any scalar, as
//     written;
//   - a string reads text, and neither numbers nor booleans: those are quoted;
//   - a bool reads true and false, and not yes, no, on, off or True;
//   - an integer reads decimal digits with an optional sign, and not 1.0, 1e3,
//     1_000, 0x10 or 010; a float also reads a fraction and an exponent, and not
//     .inf or .nan. A number that does not fit is refused;
//   - a struct reads a mapping, and keeps its defaults where a key is absent;
//   - a map with string keys, and a slice, are replaced whole; an empty one
//     becomes nil. Their items start from SetDefaults, or else from zero;
//   - a pointer is optional: null sets it to nil, anything else is read as the
//     type pointed to, starting from a copy of the default.
//
// Elsewhere null is refused, and so is a key with nothing after it: deleting the
// line is how one asks for the default.
func (t *Tree) Decode(dst any) error {
	v, err := target(dst)
	if err != nil {
		return err
	}
	if v.Kind() != reflect.Struct {
		return fmt.Errorf("config: cannot decode a tree into %T; pass a pointer to a struct", dst)
	}
	d := decoder{root: dst}
	d.value(t.root, "", v)
	t.decoded = dst
	return d.problems.Err()
}

// target returns what dst points to, once its type is known to be decodable.
func target(dst any) (reflect.Value, error) {
	v := reflect.ValueOf(dst)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return v, fmt.Errorf("config: cannot decode into %T; pass a pointer", dst)
	}
	return v.Elem(), checkType(v.Type().Elem(), nil)
}

type decoder struct {
	problems Problems
	// root is what the whole tree is decoded into, to tell where a misplaced key
	// belongs; nil when a part is decoded alone.
	root  any
	homes map[string][]string
}

func (d *decoder) refuse(n *node, path, format string, args ...any) {
	d.problems = append(d.problems, Problem{Key: path, Message: fmt.Sprintf(format, args...), Where: n.where})
}

// mistyped says what was expected and what was found; hint may be empty.
func (d *decoder) mistyped(n *node, path string, v reflect.Value, hint string) {
	if hint != "" {
		hint = ": " + hint
	}
	d.refuse(n, path, "expected %s, found %s%s", expected(v), found(n), hint)
}

// value decodes n into v, which holds the default.
func (d *decoder) value(n *node, path string, v reflect.Value) {
	if v.Kind() == reflect.Pointer {
		d.optional(n, path, v)
		return
	}
	if n.tag == "!!null" && n.kind == scalar {
		written, otherwise := "null", "delete the line to keep the default"
		if n.text == "" {
			written = "no value"
		}
		if strings.HasSuffix(path, "]") {
			otherwise = "delete the item"
		}
		d.refuse(n, path, "%s; write %s, or %s", written, expected(v), otherwise)
		return
	}
	switch {
	case isText(v.Type()):
		d.text(n, path, v)
	case v.Kind() == reflect.Struct:
		d.structure(n, path, v)
	case v.Kind() == reflect.Map:
		d.mapping(n, path, v)
	case v.Kind() == reflect.Slice:
		d.list(n, path, v)
	case n.kind != scalar:
		d.mistyped(n, path, v, "")
	default:
		if hint, ok := setScalar(v, n); !ok {
			d.mistyped(n, path, v, hint)
		}
	}
}

func (d *decoder) optional(n *node, path string, v reflect.Value) {
	if n.kind == scalar && n.tag == "!!null" {
		if n.text == "" {
			d.refuse(n, path, "no value; write %s, or null to leave it out", expected(v))
			return
		}
		v.SetZero()
		return
	}
	fresh := reflect.New(v.Type().Elem())
	if v.IsNil() {
		setDefaults(fresh)
	} else {
		fresh.Elem().Set(v.Elem())
	}
	d.value(n, path, fresh.Elem())
	v.Set(fresh)
}

func (d *decoder) text(n *node, path string, v reflect.Value) {
	if n.kind != scalar {
		d.mistyped(n, path, v, "")
		return
	}
	fresh := reflect.New(v.Type())
	if err := fresh.Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(n.text)); err != nil {
		d.refuse(n, path, "%s", err)
		return
	}
	v.Set(fresh.Elem())
}

func (d *decoder) structure(n *node, path string, v reflect.Value) {
	if n.kind != mapping {
		d.mistyped(n, path, v, "")
		return
	}
	fields := fieldsOf(v.Type())
	d.preset(n, path, v)
	for _, key := range n.keys {
		i := slices.IndexFunc(fields, func(f field) bool { return f.key == key })
		if i < 0 {
			d.unknown(n.values[key], path, key, fields)
			continue
		}
		d.value(n.values[key], join(path, key), v.FieldByIndex(fields[i].index))
	}
}

// preset applies the key preset of a mapping, if it has one that is not empty and
// v takes it. What is not text is refused later, with the other keys.
func (d *decoder) preset(n *node, path string, v reflect.Value) {
	p, ok := v.Addr().Interface().(Presetter)
	name, written := n.values["preset"]
	if !ok || !written || name.kind != scalar || name.tag != "!!str" || name.text == "" {
		return
	}
	if err := p.SetPreset(name.text); err != nil {
		d.refuse(name, join(path, "preset"), "%s", err)
	}
}

func (d *decoder) unknown(n *node, path, key string, fields []field) {
	known := keysOf(fields)
	advice := ""
	if near := Nearest(key, known); near != "" {
		advice = "; did you mean " + near + "?"
	} else if homes := d.homesOf(key); 0 < len(homes) && len(homes) <= 3 {
		advice = "; " + abridge(key, 80) + " belongs " + strings.Join(homes, " or ")
	}
	d.refuse(n, join(path, abridge(key, 80)), "unknown key%s (keys here: %s)", advice, enumerate(known))
}

// homesOf returns where a key is known: "under topology", "at the top level".
func (d *decoder) homesOf(key string) []string {
	if d.homes == nil && d.root != nil {
		d.homes = map[string][]string{}
		for _, k := range Keys(d.root) {
			d.addHomes(strings.ReplaceAll(k.Path, "[]", ""))
		}
	}
	return d.homes[key]
}

// addHomes notes the home of the last key of a path and of the sections above.
func (d *decoder) addHomes(path string) {
	for path != "" {
		cut := strings.LastIndexByte(path, '.')
		section, key := path[:max(cut, 0)], path[cut+1:]
		home := "at the top level"
		if section != "" {
			home = "under " + section
		}
		if !slices.Contains(d.homes[key], home) {
			d.homes[key] = append(d.homes[key], home)
		}
		path = section
	}
}

func (d *decoder) mapping(n *node, path string, v reflect.Value) {
	if n.kind != mapping {
		d.mistyped(n, path, v, "")
		return
	}
	v.SetZero()
	if len(n.keys) > 0 {
		v.Set(reflect.MakeMapWithSize(v.Type(), len(n.keys)))
	}
	for _, key := range n.keys {
		item := reflect.New(v.Type().Elem())
		setDefaults(item)
		d.value(n.values[key], join(path, key), item.Elem())
		v.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), item.Elem())
	}
}

func (d *decoder) list(n *node, path string, v reflect.Value) {
	if n.kind != sequence {
		d.mistyped(n, path, v, "")
		return
	}
	v.SetZero()
	if len(n.items) > 0 {
		v.Set(reflect.MakeSlice(v.Type(), len(n.items), len(n.items)))
	}
	for i, item := range n.items {
		setDefaults(v.Index(i).Addr())
		d.value(item, fmt.Sprintf("%s[%d]", path, i), v.Index(i))
	}
}

// setDefaults calls SetDefaults on what p points to, if it has it.
func setDefaults(p reflect.Value) {
	if d, ok := p.Interface().(Defaulter); ok {
		d.SetDefaults()
	}
}
