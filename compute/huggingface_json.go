package compute

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tgssim/tgssim/internal/config"
)

// jsonKind is what a JSON value is.
type jsonKind uint8

const (
	jsonNull jsonKind = iota
	jsonBool
	jsonNumber
	jsonString
	jsonList
	jsonObject
)

// A jsonValue is a JSON value that remembers where it was written.
type jsonValue struct {
	kind jsonKind
	// at is the offset of the value's first byte, or of its key's when it is a
	// member of an object.
	at int
	// text is a string, the digits of a number, or "true" for a true bool.
	text    string
	items   []*jsonValue
	keys    []string // of an object, in the order written
	members map[string]*jsonValue
}

// A jsonFile is a JSON text with a name for messages.
type jsonFile struct {
	name string
	data []byte
}

// where is "file:line:column" of an offset; columns count characters.
func (f jsonFile) where(at int) string {
	before := f.data[:min(max(at, 0), len(f.data))]
	line := 1 + bytes.Count(before, []byte{'\n'})
	column := 1 + utf8.RuneCount(before[1+bytes.LastIndexByte(before, '\n'):])
	return fmt.Sprintf("%s:%d:%d", f.name, line, column)
}

// problem is a complaint about the value at an offset.
func (f jsonFile) problem(at int, key, format string, args ...any) config.Problem {
	return config.Problem{Where: f.where(at), Key: key, Message: fmt.Sprintf(format, args...)}
}

// parse reads the text as one JSON object. It refuses keys that are written
// twice, which encoding/json would silently take the last of.
func (f jsonFile) parse() (*jsonValue, error) {
	if !utf8.Valid(f.data) {
		return nil, config.Problems{{Where: f.name, Message: "is not UTF-8 text"}}
	}
	if len(bytes.TrimSpace(f.data)) == 0 {
		return nil, config.Problems{{Where: f.name, Message: "is empty"}}
	}
	var whole json.RawMessage
	if err := json.Unmarshal(f.data, &whole); err != nil {
		at, message := len(f.data), err.Error()
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			at = int(syntax.Offset) - 1
		}
		if strings.HasPrefix(message, "unexpected end") {
			at = len(f.data)
		}
		return nil, config.Problems{f.problem(at, "", "is not JSON: %s", message)}
	}
	p := jsonParser{file: f, dec: json.NewDecoder(bytes.NewReader(f.data))}
	p.dec.UseNumber()
	root, err := p.value()
	if err != nil {
		return nil, err
	}
	if err := p.problems.Err(); err != nil {
		return nil, err
	}
	if root.kind != jsonObject {
		return nil, config.Problems{f.problem(root.at, "", "must be a JSON object, not %s", root.found())}
	}
	return root, nil
}

// A jsonParser turns valid JSON into values. Nesting is bounded by
// encoding/json.
type jsonParser struct {
	file     jsonFile
	dec      *json.Decoder
	path     []string // the keys around what is being read
	problems config.Problems
}

// maxProblems bounds what is told of one file.
const maxProblems = 20

// next is the offset of the next token's first byte.
func (p *jsonParser) next() int {
	at := int(p.dec.InputOffset())
	for at < len(p.file.data) && strings.IndexByte(" \t\r\n,:", p.file.data[at]) >= 0 {
		at++
	}
	return at
}

func (p *jsonParser) value() (*jsonValue, error) {
	v := &jsonValue{at: p.next()}
	token, err := p.dec.Token()
	if err != nil {
		return nil, config.Problems{p.file.problem(v.at, "", "is not JSON: %v", err)}
	}
	switch token := token.(type) {
	case json.Delim:
		if token == '{' {
			return v, p.object(v)
		}
		return v, p.list(v)
	case string:
		v.kind, v.text = jsonString, token
	case json.Number:
		v.kind, v.text = jsonNumber, token.String()
	case bool:
		v.kind = jsonBool
		if token {
			v.text = "true"
		}
	}
	return v, nil
}

func (p *jsonParser) list(v *jsonValue) error {
	v.kind = jsonList
	for p.dec.More() {
		item, err := p.value()
		if err != nil {
			return err
		}
		v.items = append(v.items, item)
	}
	_, err := p.dec.Token()
	return err
}

func (p *jsonParser) object(v *jsonValue) error {
	v.kind, v.members = jsonObject, map[string]*jsonValue{}
	for p.dec.More() {
		at := p.next()
		token, err := p.dec.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string)
		p.path = append(p.path, key)
		member, err := p.value()
		if err != nil {
			return err
		}
		member.at = at
		if first := v.members[key]; first != nil {
			p.problems = append(p.problems, p.file.problem(at, abridged(strings.Join(p.path, ".")),
				"is written twice; first at %s", p.file.where(first.at)))
			if len(p.problems) == maxProblems {
				return p.problems
			}
		}
		p.path = p.path[:len(p.path)-1]
		if v.members[key] != nil {
			continue
		}
		v.keys = append(v.keys, key)
		v.members[key] = member
	}
	_, err := p.dec.Token()
	return err
}

// found says what a value is, for "must be ..., not".
func (v *jsonValue) found() string {
	switch v.kind {
	case jsonNull:
		return "null"
	case jsonBool:
		if v.text == "" {
			return "false"
		}
		return v.text
	case jsonNumber:
		return abridged(v.text)
	case jsonString:
		return fmt.Sprintf("%q", abridged(v.text))
	case jsonList:
		return "a list"
	}
	return "an object"
}

// blank tells whether a value says nothing: null, false, 0, or empty.
func (v *jsonValue) blank() bool {
	switch v.kind {
	case jsonNull:
		return true
	case jsonNumber:
		n, ok := wholeNumber(v.text)
		return ok && n == 0
	case jsonBool, jsonString:
		return v.text == ""
	case jsonList:
		return len(v.items) == 0
	}
	return len(v.members) == 0
}

// abridged is s in one printable line, cut when it is long.
func abridged(s string) string {
	const most = 80
	var b strings.Builder
	n := 0
	for _, c := range s {
		if n++; n > most {
			return b.String() + "..."
		}
		if !unicode.IsPrint(c) {
			c = utf8.RuneError
		}
		b.WriteRune(c)
	}
	return b.String()
}
