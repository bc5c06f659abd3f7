package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// A Value is a value of a Tree as written, with its place. It serves sections
// whose form no struct can state: a mapping whose order matters, or values that
// are laid over a tree later, by Tree.Put. The zero Value is nothing written.
type Value struct{ n *node }

// ParseValue reads one YAML scalar or flow value on one line, as Tree.Set reads
// what follows the equals sign. origin is where it was written.
func ParseValue(origin, text string) (Value, error) {
	n, err := parseValue(origin, "", text)
	return Value{n}, err
}

// Value returns the value of a dotted path as written, or the zero Value.
func (t *Tree) Value(path string) Value {
	n := t.root
	for path != "" {
		if n, path = n.step(path); n == nil {
			return Value{}
		}
	}
	return Value{n}
}

// Written tells whether there is a value.
func (v Value) Written() bool { return v.n != nil }

// Where is where the value was written, as Tree.Where gives it.
func (v Value) Where() string {
	if v.n == nil {
		return ""
	}
	return v.n.where
}

// IsMapping, IsList and IsScalar tell the three kinds apart.
func (v Value) IsMapping() bool { return v.n != nil && v.n.kind == mapping }
func (v Value) IsList() bool    { return v.n != nil && v.n.kind == sequence }
func (v Value) IsScalar() bool  { return v.n != nil && v.n.kind == scalar }

// IsNull tells a null that is written out, which is not the same as nothing.
func (v Value) IsNull() bool { return v.IsScalar() && v.n.tag == "!!null" && v.n.text != "" }

// Text is a scalar as written, without quotes, or "" for anything else. quoted
// tells a number that is text because it was written in quotes.
func (v Value) Text() (text string, quoted bool) {
	if v.n == nil {
		return "", false
	}
	return v.n.text, v.n.tag == "!!str" && tagOf(v.n.text) != "!!str"
}

// Keys lists the keys of a mapping in the order written.
func (v Value) Keys() []string {
	if v.n == nil {
		return nil
	}
	return slices.Clone(v.n.keys)
}

// Get returns the value of a key of a mapping, the zero Value where there is none.
func (v Value) Get(key string) Value {
	if v.n == nil {
		return Value{}
	}
	return Value{v.n.values[key]}
}

// Items lists the items of a list.
func (v Value) Items() []Value {
	if v.n == nil {
		return nil
	}
	items := make([]Value, len(v.n.items))
	for i, n := range v.n.items {
		items[i] = Value{n}
	}
	return items
}

// Found describes a written value for a complaint: "a list", "the text \"x\"".
func (v Value) Found() string { return found(v.n) }

// Decode reads the value into dst, a pointer, by the rules of Tree.Decode. path
// is the key that its problems are reported under.
func (v Value) Decode(path string, dst any) error {
	d, err := target(dst)
	if err != nil {
		return err
	}
	var x decoder
	x.value(v.n, path, d)
	return x.problems.Err()
}

// String is the value as YAML on one line.
func (v Value) String() string {
	if v.n == nil {
		return ""
	}
	switch v.n.kind {
	case mapping:
		parts := make([]string, len(v.n.keys))
		for i, k := range v.n.keys {
			parts[i] = quote(k) + ": " + Value{v.n.values[k]}.String()
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case sequence:
		parts := make([]string, len(v.n.items))
		for i, n := range v.n.items {
			parts[i] = Value{n}.String()
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	switch v.n.tag {
	case "!!str":
		return quote(v.n.text)
	case "!!null":
		return "null"
	}
	return v.n.text
}

// Clone returns a copy of the tree that shares nothing with it.
func (t *Tree) Clone() *Tree { return &Tree{file: t.file, root: t.root.clone()} }

// Put lays a value over the tree at a dotted path, as Set does; the value keeps
// its place, which is also that of the sections made on the way. The error says
// what is wrong with the path; t is then as before.
func (t *Tree) Put(path string, v Value) error {
	message := fmt.Sprintf("%q is not the path of a key", abridge(path, 80))
	if settable.MatchString(path) && strings.Count(path, ".")+strings.Count(path, "[") < maxDepth {
		message = t.assign(v.n.where, path, v.n.clone())
	}
	if message != "" {
		return Problems{{Where: v.n.where, Message: message}}
	}
	return nil
}

// Delete removes what is written at a dotted path, if anything is.
func (t *Tree) Delete(path string) {
	at, rest := t.root, path
	for {
		next, tail := at.step(rest)
		switch {
		case next == nil:
			return
		case tail != "":
			at, rest = next, tail
			continue
		case at.kind == mapping:
			delete(at.values, rest)
			at.keys = slices.DeleteFunc(at.keys, func(k string) bool { return k == rest })
		}
		return
	}
}

// YAML writes the tree as a file that Parse reads back to an equal tree, places
// aside. Comments are lost.
func (t *Tree) YAML() ([]byte, error) {
	var out strings.Builder
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(t.root.yaml()); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	if err := e.Close(); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return []byte(out.String()), nil
}

// yaml is the node as the library's: scalars keep their type, and lists of
// scalars stand on one line.
func (n *node) yaml() *yaml.Node {
	text := func(s string) *yaml.Node {
		y := &yaml.Node{Kind: yaml.ScalarNode, Value: s}
		if quote(s) != s {
			y.Style = yaml.DoubleQuotedStyle
		}
		return y
	}
	switch n.kind {
	case mapping:
		y := &yaml.Node{Kind: yaml.MappingNode}
		if len(n.keys) == 0 {
			y.Style = yaml.FlowStyle
		}
		for _, k := range n.keys {
			y.Content = append(y.Content, text(k), n.values[k].yaml())
		}
		return y
	case sequence:
		y := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, item := range n.items {
			if item.kind != scalar {
				y.Style = 0
			}
			y.Content = append(y.Content, item.yaml())
		}
		return y
	}
	switch n.tag {
	case "!!str":
		return text(n.text)
	case "!!null":
		return &yaml.Node{Kind: yaml.ScalarNode, Value: "null"}
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: n.text}
}

// Equal tells whether two values are written alike, places aside.
func (v Value) Equal(w Value) bool { return reflect.DeepEqual(v.bare(), w.bare()) }

func (v Value) bare() any {
	if v.n == nil {
		return nil
	}
	switch v.n.kind {
	case mapping:
		m := make(map[string]any, len(v.n.keys))
		for _, k := range v.n.keys {
			m[k] = Value{v.n.values[k]}.bare()
		}
		return m
	case sequence:
		items := make([]any, len(v.n.items))
		for i, n := range v.n.items {
			items[i] = Value{n}.bare()
		}
		return items
	}
	if v.n.tag == "!!null" {
		return v.n.tag // however it is spelt
	}
	return [2]string{v.n.tag, v.n.text}
}
