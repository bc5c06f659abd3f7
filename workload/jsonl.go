package workload

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// jsonRows reads the rows of a JSON lines format.
type jsonRows struct {
	format *format
}

// The fields of a JSON row.
const (
	keyTime   = "timestamp"
	keyPrompt = "input_length"
	keyOutput = "output_length"
	keyBlocks = "hash_ids"
)

func (j *jsonRows) decode(line []byte, blocks *[]uint64) (row, *fault) {
	if !json.Valid(line) {
		var text json.RawMessage
		return row{}, faultf("", "not JSON: %v; one object per line is expected", json.Unmarshal(line, &text))
	}
	rest := bytes.TrimSpace(line)
	if rest[0] != '{' {
		return row{}, faultf("", "%s is not an object; {%q: ..., %q: ..., %q: ...} is expected",
			quote(rest), keyTime, keyPrompt, keyOutput)
	}
	var r row
	var seen [4]bool
	for w := (walker{rest[1:]}); ; {
		key, value, ok := w.member()
		if !ok {
			break
		}
		var problem string
		which := 0
		switch string(key) {
		case keyTime:
			which = 0
			r.at, problem = j.format.time(value)
		case keyPrompt:
			which = 1
			r.prompt, problem = parseTokens(value)
		case keyOutput:
			which = 2
			r.output, problem = parseTokens(value)
		case keyBlocks:
			which = 3
			problem = parseBlocks(value, blocks)
		default:
			continue
		}
		switch {
		case problem != "":
			return r, &fault{string(key), quote(value) + " " + problem}
		case seen[which]:
			return r, faultf(string(key), "written twice")
		}
		seen[which] = true
	}
	for i, key := range []string{keyTime, keyPrompt, keyOutput} {
		if !seen[i] {
			return r, faultf(key, "missing; every row needs %s, %s and %s", keyTime, keyPrompt, keyOutput)
		}
	}
	return r, nil
}

const wantBlocks = "a list of whole numbers from 0 to 18446744073709551615 is valid"

// parseBlocks appends the numbers of a JSON array.
func parseBlocks(value []byte, blocks *[]uint64) string {
	if value[0] != '[' {
		return "is not a list; " + wantBlocks
	}
	w := walker{value[1:]}
	for {
		item := w.element()
		if item == nil {
			return ""
		}
		if !isDigits(item) {
			return "has the item " + quote(item) + "; " + wantBlocks
		}
		n, err := parseUint(item)
		if err {
			return "has the item " + quote(item) + ", which is too large; " + wantBlocks
		}
		*blocks = append(*blocks, n)
	}
}

// parseUint reads digits, and tells whether they overflow.
func parseUint(digits []byte) (n uint64, overflow bool) {
	if len(digits) > 19 {
		n, err := strconv.ParseUint(string(digits), 10, 64)
		return n, err != nil
	}
	for _, c := range digits {
		n = n*10 + uint64(c-'0')
	}
	return n, false
}

// A walker steps over JSON that is known to be valid.
type walker struct {
	text []byte
}

// member returns the next key, as written between its quotes, and value of an
// object, and false at its end.
func (w *walker) member() (key, value []byte, ok bool) {
	key = w.element()
	if key == nil {
		return nil, nil, false
	}
	return key[1 : len(key)-1], w.element(), true
}

// element returns the next value or key, whole, and nil at the end of the array
// or object.
func (w *walker) element() []byte {
	for i, c := range w.text {
		switch c {
		case ' ', '\t', '\r', '\n', ',', ':':
			continue
		case ']', '}':
			return nil
		}
		end := i + span(w.text[i:])
		element := w.text[i:end]
		w.text = w.text[end:]
		return element
	}
	return nil
}

// span is the length of the value that text begins with.
func span(text []byte) int {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
			if !quoted && depth == 0 {
				return i + 1
			}
		case quoted:
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
			if depth == 0 {
				return i + 1
			}
			if depth < 0 {
				return i
			}
		case depth == 0 && (c == ',' || c == ' ' || c == '\t' || c == '\r'):
			return i
		}
	}
	return len(text)
}
