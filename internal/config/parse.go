package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// Limits of a file. A scenario is a few hundred lines and five levels deep.
const (
	maxBytes = 1 << 20
	maxDepth = 32
)

// Parse reads one YAML document with a mapping at its top. The subset of YAML is
// what a reader takes in without its specification: mappings with distinct text
// keys, sequences and scalars, in block or flow style. Refused, with the line:
// syntax errors, duplicate keys, keys that are not text, anchors, aliases, merge
// keys, tags, several documents, an empty file, tabs in indentation, control
// characters, text that is not UTF-8, and files over 1 MiB or 32 levels. The
// error is a Problems. A byte order mark at the start is skipped.
func Parse(file string, data []byte) (*Tree, error) {
	fail := func(line int, message string) (*Tree, error) {
		where := file
		if line > 0 {
			where = fmt.Sprintf("%s:%d", file, line)
		}
		return nil, Problems{{Where: where, Message: message}}
	}
	if len(data) > maxBytes {
		return fail(0, fmt.Sprintf("%d bytes are too many for such a file; the limit is %d", len(data), maxBytes))
	}
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	if line, message := inspect(data); message != "" {
		return fail(line, message)
	}
	doc, next, _, err := readDocument(data)
	switch {
	case err != nil:
		return fail(syntaxLine(data), explain(err))
	case doc == nil:
		return fail(0, "empty; expected a mapping, such as \"key: value\" on each line")
	case next != nil:
		return fail(next.Line, "a second document begins here; a file holds one")
	}
	b := builder{where: func(line int) string { return fmt.Sprintf("%s:%d", file, line) }}
	root := b.build(doc, doc.Line, "", 0)
	if doc.Kind != yaml.MappingNode && len(b.problems) == 0 {
		return fail(doc.Line, "expected a mapping, such as \"key: value\" on each line, found "+found(root))
	}
	if err := b.problems.Err(); err != nil {
		return nil, err
	}
	root.where = file
	return &Tree{file: file, root: root}, nil
}

// parseValue reads the value of a --set: one scalar or flow value on one line.
func parseValue(origin, path, text string) (*node, error) {
	fail := func(message string) (*node, error) {
		return nil, Problems{{Where: origin, Message: message}}
	}
	switch {
	case len(text) > maxBytes:
		return fail(fmt.Sprintf("%d bytes are too many; the limit is %d", len(text), maxBytes))
	case strings.TrimSpace(text) == "":
		return fail("no value; write section.key=value")
	case strings.ContainsAny(text, "\r\n"):
		return fail("the value has more than one line; write a list as [a, b] and a mapping as {a: 1}")
	}
	data := []byte("v: " + text)
	if _, message := inspect(data); message != "" {
		return fail(message)
	}
	doc, next, _, err := readDocument(data)
	if err != nil {
		return fail("the value is not YAML: " + explain(err))
	}
	if doc == nil || next != nil || doc.Kind != yaml.MappingNode || len(doc.Content) != 2 || !oneLine(doc.Content[1]) {
		return fail("expected one value, such as 8, text, [a, b] or {a: 1}")
	}
	b := builder{where: func(int) string { return origin }}
	value := b.build(doc.Content[1], 0, path, 1)
	if value.tag == "!!null" && value.text == "" {
		return fail("no value; write section.key=value")
	}
	return value, b.problems.Err()
}

// oneLine says whether a value was written in a style that needs no other line.
func oneLine(y *yaml.Node) bool {
	if y.Kind == yaml.MappingNode || y.Kind == yaml.SequenceNode {
		return y.Style&yaml.FlowStyle != 0
	}
	return y.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0
}

// inspect looks for what no line may hold, and returns the first such line
// (from 1) and what is wrong with it, or an empty message.
func inspect(data []byte) (line int, message string) {
	indent := true
	line = 1
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		next := i + size
		switch {
		case r == utf8.RuneError && size <= 1:
			return line, fmt.Sprintf("byte %#02x is not UTF-8 text", data[i])
		case r == '\n':
			line++
			indent = true
			i = next
			continue
		case r == '\r' && next < len(data) && data[next] == '\n':
		case r == '\t' && indent:
			return line, "a tab in the indentation; use spaces"
		case r < ' ' && r != '\t', 0x7f <= r && r < 0xa0, r == 0x2028, r == 0x2029, r == 0xFEFF, r == 0xFFFE, r == 0xFFFF:
			return line, fmt.Sprintf("character %U is not allowed; write it as an escape in double quotes", r)
		}
		indent = indent && r == ' '
		i = next
	}
	return 0, ""
}

// readDocument reads the first document of data, nil when there is none, and
// the next, nil when there is none. read is the number of lines it had to read.
func readDocument(data []byte) (doc, next *yaml.Node, read int, err error) {
	lines := lineReader{data: data}
	defer func() {
		// The library panics on its own errors and on a few malformed comments;
		// bad input must not end the program.
		if r := recover(); r != nil {
			doc, next, read, err = nil, nil, lines.lines, fmt.Errorf("not readable as YAML: %v", r)
		}
	}()
	dec := yaml.NewDecoder(&lines)
	documents := [2]*yaml.Node{}
	for i := range documents {
		var y yaml.Node
		if err = dec.Decode(&y); errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, lines.lines, err
		}
		documents[i] = &y
		if y.Kind == yaml.DocumentNode {
			documents[i] = y.Content[0]
		}
	}
	return documents[0], documents[1], lines.lines, nil
}

// A lineReader hands out at most a line at a time and counts them, so that the
// count at a syntax error bounds its line.
type lineReader struct {
	data  []byte
	lines int
}

// Read implements io.Reader.
func (r *lineReader) Read(p []byte) (int, error) {
	if len(r.data) == 0 {
		return 0, io.EOF
	}
	n := min(len(p), len(r.data))
	if end := bytes.IndexByte(r.data[:n], '\n'); end >= 0 {
		n = end + 1
	}
	copy(p, r.data[:n])
	if r.data[n-1] == '\n' || n == len(r.data) {
		r.lines++
	}
	r.data = r.data[n:]
	return n, nil
}

// syntaxLine returns the line of the syntax error in data: the one after the
// longest run of lines from the start that is valid alone. (The line in the
// library's message is that of the block around the error, or one before, or
// absent.) It returns the last line read when finding out would cost too much.
func syntaxLine(data []byte) int {
	_, _, last, _ := readDocument(data)
	ends := []int{0}
	for i, c := range data {
		if c == '\n' {
			ends = append(ends, i+1)
		}
	}
	budget := 2 * maxBytes
	for n := min(last, len(ends)) - 1; n >= 0 && budget > 0; n-- {
		budget -= ends[n]
		if _, _, _, err := readDocument(data[:ends[n]]); err == nil {
			return n + 1
		}
	}
	return last
}

// hints follow the library's words for a syntax error with the usual cause.
var hints = []struct{ problem, cause string }{
	{"did not find expected key", "is it indented like the keys around it?"},
	{"did not find expected '-' indicator", "is it indented like the items around it?"},
	{"could not find expected ':'", "a key is followed by a colon and a space"},
	{"mapping values are not allowed in this context", "a second colon, or a line indented too far?"},
	{"did not find expected ',' or ']'", "is a list [...] left open?"},
	{"did not find expected ',' or '}'", "is a mapping {...} left open?"},
	{"found unexpected end of stream", "is a quote left open?"},
	{"found character that cannot start any token", "text that begins with @, ` or % needs quotes"},
	{"did not find expected alphabetic or numeric character", "text that begins with * or & needs quotes"},
}

// explain words a syntax error of the library without its line.
func explain(err error) string {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	if rest, ok := strings.CutPrefix(message, "line "); ok {
		_, message, _ = strings.Cut(rest, ": ")
	}
	if name, ok := strings.CutPrefix(message, "unknown anchor '"); ok {
		name, _, _ = strings.Cut(name, "'")
		return "aliases (*" + name + ") are not supported; text that begins with * or & needs quotes"
	}
	for _, h := range hints {
		if message == h.problem {
			return message + " (" + h.cause + ")"
		}
	}
	return message
}

// A builder turns the library's nodes into a tree and refuses what Parse lists.
type builder struct {
	where    func(line int) string
	problems Problems
}

func (b *builder) refuse(line int, path, format string, args ...any) {
	b.problems = append(b.problems, Problem{Key: path, Message: fmt.Sprintf(format, args...), Where: b.where(line)})
}

// build returns the node of y, whose place is line. It returns a null scalar in
// place of what it refuses.
func (b *builder) build(y *yaml.Node, line int, path string, depth int) *node {
	n := &node{kind: scalar, where: b.where(line), text: y.Value, tag: y.ShortTag()}
	switch {
	case y.Kind == yaml.AliasNode:
		b.refuse(y.Line, path, "aliases (*%s) are not supported; write the value out", y.Value)
		return n
	case y.Anchor != "":
		b.refuse(y.Line, path, "anchors (&%s) are not supported; write the value out where it is needed", y.Anchor)
	case y.Style&yaml.TaggedStyle != 0:
		b.refuse(y.Line, path, "tags (%s) are not supported; the key decides the type", y.Tag)
	case depth > maxDepth:
		b.refuse(y.Line, path, "nested deeper than %d levels", maxDepth)
		return n
	}
	switch y.Kind {
	case yaml.MappingNode:
		return b.mapping(y, n.where, path, depth)
	case yaml.SequenceNode:
		n.kind = sequence
		for i, item := range y.Content {
			n.items = append(n.items, b.build(item, item.Line, fmt.Sprintf("%s[%d]", path, i), depth+1))
		}
	}
	return n
}

func (b *builder) mapping(y *yaml.Node, where, path string, depth int) *node {
	n := newMapping(where)
	lines := make(map[string]int, len(y.Content)/2)
	for i := 0; i+1 < len(y.Content); i += 2 {
		key, value := y.Content[i], y.Content[i+1]
		at := join(path, abridge(key.Value, 80))
		first, twice := lines[key.Value]
		switch {
		case key.Kind == yaml.AliasNode, key.Anchor != "", key.Style&yaml.TaggedStyle != 0:
			b.build(key, key.Line, at, depth) // to complain
			continue
		case key.Kind != yaml.ScalarNode:
			b.refuse(key.Line, path, "a key must be text, not a list or mapping")
			continue
		case key.ShortTag() == "!!merge":
			b.refuse(key.Line, path, "merge keys (<<) are not supported; use extends, or write the keys out")
			continue
		case key.Value == "":
			b.refuse(key.Line, path, "a key is empty")
			continue
		case key.ShortTag() != "!!str" && key.ShortTag() != "!!timestamp":
			b.refuse(key.Line, path, "key %s is not text; if it is meant, write %q", key.Value, key.Value)
			continue
		case twice:
			b.refuse(key.Line, at, "duplicate key%s", b.first(first, key.Line))
			continue
		}
		lines[key.Value] = key.Line
		n.put(key.Value, b.build(value, key.Line, at, depth+1))
	}
	return n
}

// first says where a duplicate key was first written, if that tells anything.
func (b *builder) first(line, again int) string {
	if line == again {
		return ", first written on the same line"
	}
	return ", first written at " + b.where(line)
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
