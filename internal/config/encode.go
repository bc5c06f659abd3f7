package config

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// Marshal writes a struct, or a pointer to one, as YAML that Parse and Decode
// read back to an equal struct, whatever that started from: every key is
// written, in the order of the fields (maps by name), nil pointers as null, and
// quantities with their units through MarshalText. An empty slice or map reads
// back as nil. A field tagged omitempty is left out while it is zero, so where
// its default is not zero, zero must not be a valid value. The rules for types
// and tags are Decode's. The error names the key that cannot be written: a float that is not finite, text that is not
// UTF-8, a type whose MarshalText fails.
func Marshal(v any) ([]byte, error) {
	value := reflect.Indirect(reflect.ValueOf(v))
	if value.Kind() != reflect.Struct {
		return nil, fmt.Errorf("config: cannot marshal %T; pass a struct", v)
	}
	if err := checkType(value.Type(), nil); err != nil {
		return nil, err
	}
	r, err := render(value)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	if r.head != "" {
		return []byte(r.head + "\n"), nil
	}
	return []byte(strings.Join(r.body, "\n") + "\n"), nil
}

// A rendered value is what follows its key on the same line, and the lines
// below, to be indented.
type rendered struct {
	head string
	body []string
}

func render(v reflect.Value) (rendered, error) {
	switch {
	case v.Kind() == reflect.Pointer && v.IsNil():
		return rendered{head: "null"}, nil
	case v.Kind() == reflect.Pointer:
		return render(v.Elem())
	case isText(v.Type()):
	case v.Kind() == reflect.Struct:
		return renderStruct(v)
	case v.Kind() == reflect.Map:
		return renderMap(v)
	case v.Kind() == reflect.Slice:
		return renderList(v)
	case v.Kind() == reflect.String && isBlock(v.String()):
		return renderBlock(v.String()), nil
	}
	text, err := scalarText(v)
	return rendered{head: text}, err
}

func renderStruct(v reflect.Value) (r rendered, err error) {
	for _, f := range fieldsOf(v.Type()) {
		if f.omit && v.FieldByIndex(f.index).IsZero() {
			continue
		}
		value, err := render(v.FieldByIndex(f.index))
		if err != nil {
			return r, fmt.Errorf("%s: %w", f.key, err)
		}
		r.add(quote(f.key), value)
	}
	return r.orEmpty("{}"), nil
}

// maxKey is how many characters YAML takes for a key on one line, less a margin
// (YAML 1.2.2, section 7.4: 1024).
const maxKey = 1000

func renderMap(v reflect.Value) (r rendered, err error) {
	keys := make([]string, 0, v.Len())
	for _, k := range v.MapKeys() {
		keys = append(keys, k.String())
	}
	slices.Sort(keys)
	for _, k := range keys {
		if k == "" || !utf8.ValidString(k) || len(quote(k)) > maxKey {
			return r, fmt.Errorf("the name %q cannot be a key", k)
		}
		value, err := render(v.MapIndex(reflect.ValueOf(k).Convert(v.Type().Key())))
		if err != nil {
			return r, fmt.Errorf("%s: %w", k, err)
		}
		r.add(quote(k), value)
	}
	return r.orEmpty("{}"), nil
}

// add appends a key of a mapping and its value.
func (r *rendered) add(key string, value rendered) {
	line := key + ":"
	if value.head != "" {
		line += " " + value.head
	}
	r.body = append(r.body, line)
	for _, l := range value.body {
		r.body = append(r.body, indent(l))
	}
}

func (r rendered) orEmpty(head string) rendered {
	if len(r.body) == 0 {
		r.head = head
	}
	return r
}

func indent(line string) string {
	if line == "" {
		return ""
	}
	return "  " + line
}

// renderList writes scalars and lists of scalars on one line and anything else
// item by item.
func renderList(v reflect.Value) (r rendered, err error) {
	flow := make([]string, v.Len())
	oneLine := !isStructured(v.Type().Elem())
	for i := range v.Len() {
		item, err := render(v.Index(i))
		if err != nil {
			return r, fmt.Errorf("[%d]: %w", i, err)
		}
		flow[i] = item.head
		oneLine = oneLine && len(item.body) == 0
		line := "-"
		if item.head != "" {
			line += " " + item.head
		} else {
			line += " " + item.body[0]
			item.body = item.body[1:]
		}
		r.body = append(r.body, line)
		for _, l := range item.body {
			r.body = append(r.body, indent(l))
		}
	}
	if oneLine {
		return rendered{head: "[" + strings.Join(flow, ", ") + "]"}, nil
	}
	return r.orEmpty("[]"), nil
}

// isStructured says whether items of a type are written below each other even
// where they are empty.
func isStructured(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return !isText(t) && (t.Kind() == reflect.Struct || t.Kind() == reflect.Map)
}

// isBlock says whether text of several lines is exactly itself as a literal
// block, which is easier to read than escapes.
func isBlock(s string) bool {
	body := strings.TrimSuffix(s, "\n")
	lines := strings.Split(body, "\n")
	if !strings.Contains(s, "\n") || strings.TrimSpace(lines[0]) == "" || s[0] == ' ' {
		return false
	}
	for _, l := range lines {
		if strings.TrimRight(l, " ") != l || strings.ContainsFunc(l, func(r rune) bool {
			return r == utf8.RuneError || !unicode.IsPrint(r)
		}) {
			return false
		}
	}
	return lines[len(lines)-1] != ""
}

func renderBlock(s string) rendered {
	body, newline := strings.CutSuffix(s, "\n")
	head := "|-"
	if newline {
		head = "|"
	}
	return rendered{head: head, body: strings.Split(body, "\n")}
}

var errNotUTF8 = errors.New("text that is not UTF-8 cannot be written as YAML")

// scalarText writes a scalar as Decode reads it.
func scalarText(v reflect.Value) (string, error) {
	if isText(v.Type()) {
		m, ok := v.Interface().(encoding.TextMarshaler)
		if !ok {
			return "", fmt.Errorf("%s reads itself from text but does not write itself", v.Type())
		}
		text, err := m.MarshalText()
		if err != nil {
			return "", err
		}
		if !utf8.Valid(text) {
			return "", errNotUTF8
		}
		return quote(string(text)), nil
	}
	switch {
	case v.Kind() == reflect.String:
		if !utf8.ValidString(v.String()) {
			return "", errNotUTF8
		}
		return quote(v.String()), nil
	case v.Kind() == reflect.Bool:
		return strconv.FormatBool(v.Bool()), nil
	case v.CanInt():
		return strconv.FormatInt(v.Int(), 10), nil
	case v.CanUint():
		return strconv.FormatUint(v.Uint(), 10), nil
	case v.CanFloat():
		f := v.Float()
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return "", fmt.Errorf("%g is not finite", f)
		}
		return strconv.FormatFloat(f, 'g', -1, v.Type().Bits()), nil
	}
	return "", nil
}

var (
	// plain is text that no YAML reader takes for anything but itself, unless it
	// is one of the reserved words or a number, in a block or in a list [...].
	plain    = regexp.MustCompile(`^[A-Za-z0-9_./][A-Za-z0-9_./+-]*( [A-Za-z0-9_./+-]+)*$`)
	reserved = regexp.MustCompile(`^(?i:true|false|null|yes|no|on|off|y|n)$`)
)

// quote writes text plain where that is safe and in double quotes elsewhere. The
// escapes of Go are all escapes of YAML.
func quote(s string) string {
	if plain.MatchString(s) && !reserved.MatchString(s) && tagOf(s) == "!!str" {
		return s
	}
	return strconv.Quote(s)
}

// tagOf is what YAML takes plain text for.
func tagOf(text string) string {
	return (&yaml.Node{Kind: yaml.ScalarNode, Value: text}).ShortTag()
}
