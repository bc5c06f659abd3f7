package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Tree is a YAML document in which every value remembers where it was
// written. The zero value is not usable; Parse makes one.
type Tree struct {
	file string
	root *node
	// decoded is what Decode last filled; Resolve reads the defaults from it.
	decoded any
}

type kind uint8

const (
	scalar kind = iota
	mapping
	sequence
)

// A node is one value of a Tree.
type node struct {
	kind kind
	// where is "file:line" of the value's key (or of the value, in a sequence),
	// or "--set key=value".
	where string
	// text is a scalar as written, without its quotes.
	text string
	// tag is what YAML takes a scalar for: "!!str", "!!int", "!!float", "!!bool",
	// "!!null". A quoted scalar is a "!!str".
	tag string
	// keys is a mapping's keys in the order written.
	keys   []string
	values map[string]*node
	items  []*node
}

func newMapping(where string) *node {
	return &node{kind: mapping, where: where, values: map[string]*node{}}
}

// put sets a key of a mapping; a new key becomes the last.
func (n *node) put(key string, v *node) {
	if _, ok := n.values[key]; !ok {
		n.keys = append(n.keys, key)
	}
	n.values[key] = v
}

func (n *node) clone() *node {
	c := *n
	if n.kind == mapping {
		c.keys = slices.Clone(n.keys)
		c.values = make(map[string]*node, len(n.values))
		for _, k := range n.keys {
			c.values[k] = n.values[k].clone()
		}
	}
	c.items = slices.Clone(n.items)
	for i, item := range n.items {
		c.items[i] = item.clone()
	}
	return &c
}

// Merge lays over on top of t, as `extends` does: mappings are merged key by
// key, any other value of over replaces that of t. Each value keeps its origin,
// and the file of the whole becomes that of over. An empty mapping changes
// nothing, because it has no key; over is not changed.
func (t *Tree) Merge(over *Tree) {
	t.file = over.file
	t.root.merge(over.root)
}

func (n *node) merge(over *node) {
	n.where = over.where
	for _, k := range over.keys {
		v := over.values[k]
		if old := n.values[k]; old != nil && old.kind == mapping && v.kind == mapping {
			old.merge(v)
			continue
		}
		n.put(k, v.clone())
	}
}

// Take removes a key from the top of the tree and decodes its value into dst,
// a pointer, by the rules of Decode. It returns where the key was written, or ""
// (and leaves dst alone) when it was not. It serves keys that are read before
// the rest, such as `extends`.
func (t *Tree) Take(key string, dst any) (where string, err error) {
	v, err := target(dst)
	if err != nil {
		return "", err
	}
	n := t.root.values[key]
	if n == nil {
		return "", nil
	}
	delete(t.root.values, key)
	t.root.keys = slices.DeleteFunc(t.root.keys, func(k string) bool { return k == key })
	var d decoder
	d.value(n, key, v)
	return n.where, d.problems.Err()
}

// step takes one step along a dotted path: to the longest key of a mapping that
// begins it, so that a key may contain dots, or to the item of a sequence whose
// [index] begins it. It returns nil when that is not written, and the rest of
// the path.
func (n *node) step(path string) (*node, string) {
	switch n.kind {
	case mapping:
		for end := len(path); end > 0; end-- {
			if end < len(path) && path[end] != '.' && path[end] != '[' {
				continue
			}
			if v := n.values[path[:end]]; v != nil {
				return v, strings.TrimPrefix(path[end:], ".")
			}
		}
	case sequence:
		if m := indexed.FindStringSubmatch(path); m != nil {
			if i, err := strconv.Atoi(m[1]); err == nil && i < len(n.items) {
				return n.items[i], strings.TrimPrefix(path[len(m[0]):], ".")
			}
		}
	}
	return nil, path
}

var (
	indexed     = regexp.MustCompile(`^\[([0-9]+)\]`)
	escapeLines = strings.NewReplacer("\n", `\n`, "\r", `\r`)
	settable    = regexp.MustCompile(`^[^\s.\[\]=]+(\[[0-9]+\])*(\.[^\s.\[\]=]+(\[[0-9]+\])*)*$`)
)

// Set makes one assignment of the command line, "topology.leaves=8": the effect
// is that of writing the value in the file, and the origin of the value becomes
// "--set topology.leaves=8". The value is one YAML scalar or flow value ("[8,
// 16]", "{rate: 20/s}"), and replaces the old one whole. Missing sections on the
// way are made; an item of a sequence that is written is reached by its index,
// "pools[2].tp=8". The error says what is wrong with the assignment or its path;
// t is then as before.
func (t *Tree) Set(assignment string) error {
	origin := "--set " + abridge(escapeLines.Replace(assignment), 80)
	fail := func(format string, args ...any) error {
		return Problems{{Where: origin, Message: fmt.Sprintf(format, args...)}}
	}
	path, text, ok := strings.Cut(assignment, "=")
	path = strings.TrimSpace(path)
	switch {
	case !ok:
		return fail("no value; write section.key=value")
	case !settable.MatchString(path):
		return fail("%q is not the path of a key; write section.key=value", abridge(path, 80))
	case strings.Count(path, ".")+strings.Count(path, "[") >= maxDepth:
		return fail("the path is deeper than %d levels", maxDepth)
	}
	value, err := parseValue(origin, path, text)
	if err != nil {
		return err
	}

	if message := t.assign(origin, path, value); message != "" {
		return fail("%s", message)
	}
	return nil
}

// assign puts a value at a path, or says why it cannot; origin is the place of
// the sections made on the way.
func (t *Tree) assign(origin, path string, value *node) string {
	at, rest := t.root, path
	next, tail := at.step(rest)
	for next != nil && tail != "" {
		at, rest = next, tail
		next, tail = at.step(rest)
	}
	if message := t.blocked(at, next != nil, path, rest); message != "" {
		return message
	}
	switch {
	case at.kind == sequence:
		i, _ := strconv.Atoi(indexed.FindStringSubmatch(rest)[1]) // step has taken this index
		at.items[i] = value
	case next != nil:
		at.put(rest, value)
	default:
		steps := strings.Split(rest, ".")
		for _, key := range steps[:len(steps)-1] {
			section := newMapping(origin)
			at.put(key, section)
			at = section
		}
		at.put(steps[len(steps)-1], value)
	}
	return ""
}

// blocked says why path cannot be set: at is as far along it as is written, rest
// what is left, and written says whether that is the one step to a value of at.
func (t *Tree) blocked(at *node, written bool, path, rest string) string {
	here := strings.TrimSuffix(path[:len(path)-len(rest)], ".")
	index := indexed.FindString(rest)
	switch {
	case at.kind == scalar && at.tag == "!!null":
		return fmt.Sprintf("%s (%s) is null; set it whole, as %s={key: value}", here, at.where, here)
	case at.kind == scalar:
		return fmt.Sprintf("%s (%s) is a single value and has no keys", here, at.where)
	case at.kind == sequence && index == "":
		return fmt.Sprintf("%s (%s) is a list; name an item as %s[0]", here, at.where, here)
	case at.kind == sequence && !written:
		return fmt.Sprintf("%s (%s) has %d items and no %s", here, at.where, len(at.items), index)
	case at.kind == mapping && index != "":
		return fmt.Sprintf("%s (%s) is a mapping and has no items", here, at.where)
	case at.kind == mapping && !written && strings.Contains(rest, "["):
		list := path[:len(path)-len(rest)+strings.Index(rest, "[")]
		return fmt.Sprintf("%s is not written in %s, so it has no items to change; set the whole list", list, t.file)
	}
	return ""
}

// abridge shortens s to at most n characters.
func abridge(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-3]) + "..."
}

// Resolve fills in where each problem's key was written. It serves the problems
// of a Validate, which knows the keys but not the file. A key that is not
// written gets the place of the nearest section around it that is, or else the
// file, and the message says that the value is a default. Problems that have a
// place keep it; an error that is not Problems is returned as it is.
func (t *Tree) Resolve(problems error) error {
	var found Problems
	if !errors.As(problems, &found) {
		return problems
	}
	placed := make(Problems, len(found))
	for i, p := range found {
		placed[i] = t.place(p)
	}
	return placed.Err()
}

// Where returns where the value of a dotted path was written, "file:line" or
// "--set key=value", or "" when it was not.
func (t *Tree) Where(key string) string {
	n := t.root
	for key != "" {
		if n, key = n.step(key); n == nil {
			return ""
		}
	}
	return n.where
}

func (t *Tree) place(p Problem) Problem {
	if p.Where != "" {
		return p
	}
	n, rest := t.root, p.Key
	for rest != "" {
		next, tail := n.step(rest)
		if next == nil {
			break
		}
		n, rest = next, tail
	}
	p.Where = n.where
	if rest != "" {
		p.Message += t.unwritten(p.Key)
	}
	return p
}

var anyIndex = regexp.MustCompile(`\[[0-9]+\]`)

// unwritten is the remark on a key that is not written: its default, if what was
// decoded has such a key.
func (t *Tree) unwritten(key string) string {
	if t.decoded == nil {
		return " (not written)"
	}
	key = anyIndex.ReplaceAllString(key, "[]")
	for _, k := range Keys(t.decoded) {
		switch {
		case k.Path == key && k.Default != "":
			return " (not written; the default is " + k.Default + ")"
		case k.Path == key, strings.HasPrefix(k.Path, key+"."), strings.HasPrefix(k.Path, key+"["):
			return " (not written)"
		}
	}
	return ""
}
