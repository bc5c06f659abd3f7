package experts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tgssim/tgssim/internal/config"
)

// Weights is the popularity of experts as a file has it: one list for all
// layers, or one for each.
type Weights struct {
	// Name is that of the file, for messages.
	Name string
	// Layers holds a weight for each expert, 0 or more, not all 0. All lists are
	// of one length.
	Layers [][]float64
}

// maxWeightFile bounds what is read, in bytes: room for 1,024 layers of 1,024
// experts with 60 bytes each.
const maxWeightFile = 64 << 20

// maxWeight bounds a weight, so that sums stay finite.
const maxWeight = 1e18

// ReadWeights reads weights or token counts, which only matter relative to each
// other within a layer. name is the file's, for messages. It is JSON when its
// first character is [ or {, and CSV otherwise.
//
// JSON is a list of numbers, one per expert, for all layers; or a list of such
// lists, one per MoE layer:
//
//	[[120, 7, 33, 4], [15, 80, 22, 9]]
//
// or an object with that list as its only member, weights.
//
// CSV has a header, in this order, and then a row for every expert of every
// layer, in any order, each once; layers and experts count from 0:
//
//	expert,weight
//	layer,expert,weight
//
// Blank lines are skipped. The error is config.Problems with one problem, whose
// Where is file:line.
func ReadWeights(r io.Reader, name string) (*Weights, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxWeightFile+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p := weightParser{name: name}
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	first := bytes.TrimLeft(data, " \t\r\n")
	switch {
	case len(data) > maxWeightFile:
		return nil, p.at(1, "", "the file is larger than %d MB; is it a list of weights?", maxWeightFile>>20)
	case !utf8.Valid(data):
		return nil, p.at(1, "", "the file is not text in UTF-8")
	case len(first) == 0:
		return nil, p.at(1, "", "the file is empty; JSON lists or CSV with the header expert,weight or layer,expert,weight is expected")
	case first[0] == '[' || first[0] == '{':
		err = p.json(data)
	default:
		err = p.csv(string(data))
	}
	if err != nil {
		return nil, err
	}
	return &Weights{Name: name, Layers: p.layers}, nil
}

type weightParser struct {
	name   string
	layers [][]float64
}

func (p *weightParser) at(line int, key, format string, args ...any) error {
	return config.Problems{{Key: key, Message: fmt.Sprintf(format, args...), Where: fmt.Sprintf("%s:%d", p.name, line)}}
}

const wantWeight = "a number from 0 to 1e18 is valid"

// weight reads a plain decimal number.
func weight(text string) (float64, bool) {
	if text == "" || strings.Trim(text, "0123456789.eE+-") != "" { // ParseFloat also knows Inf, NaN and hex
		return 0, false
	}
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil && v >= 0 && v <= maxWeight && !math.Signbit(v)
}

func (p *weightParser) json(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	line := func() int { return 1 + bytes.Count(data[:min(int(d.InputOffset()), len(data))], []byte("\n")) }
	token := func() (json.Token, error) {
		t, err := d.Token()
		if err != nil {
			if err == io.EOF || err == io.ErrUnexpectedEOF {
				return nil, p.at(line(), "", "the JSON ends too early")
			}
			return nil, p.at(line(), "", "not JSON: %v", err)
		}
		return t, nil
	}
	t, err := token()
	if err != nil {
		return err
	}
	object := t == json.Delim('{')
	if object {
		if t, err = token(); err != nil {
			return err
		}
		if t != "weights" {
			return p.at(line(), "", `found %s; the object's only member is "weights"`, show(t))
		}
		if t, err = token(); err != nil {
			return err
		}
		if t != json.Delim('[') {
			return p.at(line(), "weights", "found %s; a list is expected", show(t))
		}
	}
	if err := p.jsonLists(token, line); err != nil {
		return err
	}
	if object {
		if t, err = token(); err != nil {
			return err
		}
		if t != json.Delim('}') {
			return p.at(line(), "", `found %s; the object's only member is "weights"`, show(t))
		}
	}
	if _, err := d.Token(); err != io.EOF {
		return p.at(line(), "", "text follows the end of the JSON")
	}
	return nil
}

// jsonLists reads what follows the outer [: numbers, or lists of numbers.
func (p *weightParser) jsonLists(token func() (json.Token, error), line func() int) error {
	var list []float64
	depth, nested, first := 1, false, true
	for {
		t, err := token()
		if err != nil {
			return err
		}
		switch number, ok := t.(json.Number); {
		case t == json.Delim('[') && depth == 1 && (first || nested):
			depth, nested, list = 2, true, nil
		case t == json.Delim(']'):
			if depth == 2 || !nested {
				if err := p.layer(line(), list); err != nil {
					return err
				}
			}
			if depth--; depth == 0 {
				return nil
			}
		case ok && (depth == 2 || !nested):
			w, valid := weight(number.String())
			if !valid {
				return p.at(line(), "", "the weight %s is out of range; %s", show(t), wantWeight)
			}
			if list = append(list, w); len(list) > maxExperts {
				return p.at(line(), "", "a list has more than %d experts", maxExperts)
			}
		default:
			return p.at(line(), "", "found %s; a list of numbers, or of such lists, is expected", show(t))
		}
		first = false
	}
}

// layer adds a list.
func (p *weightParser) layer(line int, list []float64) error {
	sum := 0.
	for _, w := range list {
		sum += w
	}
	switch {
	case len(list) == 0:
		return p.at(line, "", "a list of weights is empty")
	case sum <= 0:
		return p.at(line, "", "all weights of layer %d are 0", len(p.layers))
	case len(p.layers) > 0 && len(list) != len(p.layers[0]):
		return p.at(line, "", "layer %d has %d experts; layer 0 has %d", len(p.layers), len(list), len(p.layers[0]))
	case len(p.layers) == maxLayers:
		return p.at(line, "", "there are more than %d layers", maxLayers)
	}
	p.layers = append(p.layers, list)
	return nil
}

// show prints what was found, shortened.
func show(v any) string {
	var text string
	switch v := v.(type) {
	case json.Delim:
		text = v.String()
	case json.Number:
		text = v.String()
	default:
		text = fmt.Sprintf("%q", v)
		if v == nil {
			text = "null"
		}
	}
	if runes := []rune(text); len(runes) > 40 {
		return string(runes[:40]) + "..."
	}
	return text
}

// The headers of CSV files.
const (
	headShared = "expert,weight"
	headLayers = "layer,expert,weight"
)

func (p *weightParser) csv(text string) error {
	c := weightRows{parser: p}
	line := 0
	for row := range strings.Lines(text) {
		line++
		row = strings.TrimSpace(row)
		if row == "" {
			continue
		}
		if err := c.row(line, row); err != nil {
			return err
		}
	}
	return c.end(max(1, line))
}

// weightRows collects the rows of a CSV file.
type weightRows struct {
	parser *weightParser
	fields int         // of the header; 0 before it
	seen   [][]float64 // by layer and expert; -1 where missing
	rows   int
}

func (c *weightRows) row(line int, text string) error {
	p := c.parser
	fields := strings.Split(text, ",")
	for i := range fields {
		fields[i] = strings.TrimSpace(fields[i])
	}
	if c.fields == 0 {
		head := strings.Join(fields, ",")
		if head != headShared && head != headLayers {
			return p.at(line, "", "the header is %s; %s or %s is expected", show(head), headShared, headLayers)
		}
		c.fields = len(fields)
		return nil
	}
	if len(fields) != c.fields {
		return p.at(line, "", "the number of fields is %d; %d are valid, as in the header", len(fields), c.fields)
	}
	layer := 0
	if c.fields == 3 {
		n, ok := index(fields[0], maxLayers)
		if !ok {
			return p.at(line, "layer", "%s is not valid; 0 to %d is", show(fields[0]), maxLayers-1)
		}
		layer, fields = n, fields[1:]
	}
	expert, ok := index(fields[0], maxExperts)
	if !ok {
		return p.at(line, "expert", "%s is not valid; 0 to %d is", show(fields[0]), maxExperts-1)
	}
	w, ok := weight(fields[1])
	if !ok {
		return p.at(line, "weight", "%s is not valid; %s", show(fields[1]), wantWeight)
	}
	for len(c.seen) <= layer {
		c.seen = append(c.seen, nil)
	}
	for len(c.seen[layer]) <= expert {
		c.seen[layer] = append(c.seen[layer], -1)
	}
	if c.seen[layer][expert] >= 0 {
		return p.at(line, "expert", "expert %d of layer %d is there twice", expert, layer)
	}
	c.seen[layer][expert] = w
	c.rows++
	return nil
}

func (c *weightRows) end(line int) error {
	p := c.parser
	if c.rows == 0 {
		return p.at(line, "", "there are no rows after the header")
	}
	for l, list := range c.seen {
		if list == nil {
			return p.at(line, "layer", "layer %d is missing", l)
		}
		for e, w := range list {
			if w < 0 {
				return p.at(line, "expert", "expert %d of layer %d is missing", e, l)
			}
		}
		if err := p.layer(line, list); err != nil {
			return err
		}
	}
	return nil
}

// index reads a whole number below limit.
func index(text string, limit int) (int, bool) {
	n, err := strconv.ParseUint(text, 10, 31)
	return int(n), err == nil && n < uint64(limit)
}
