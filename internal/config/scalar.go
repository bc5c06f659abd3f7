package config

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

var (
	integer   = regexp.MustCompile(`^[-+]?(0|[1-9][0-9]*)$`)
	decimal   = regexp.MustCompile(`^[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?$`)
	thousands = regexp.MustCompile(`^[-+]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]*)?$`)
	endless   = regexp.MustCompile(`^[-+]?\.?(?i:inf|infinity|nan)$`)
)

// setScalar stores a scalar in v, a string, bool, integer or float. When it
// cannot, hint says how to write the value, if there is more to say than what
// was expected.
func setScalar(v reflect.Value, n *node) (hint string, ok bool) {
	quoted := n.tag == "!!str" && tagOf(n.text) != "!!str"
	switch v.Kind() {
	case reflect.String:
		if n.tag != "!!str" && n.tag != "!!timestamp" && n.tag != "!!merge" {
			return "if text is meant, write " + strconv.Quote(abridge(n.text, 40)), false
		}
		v.SetString(n.text)
		return "", true
	case reflect.Bool:
		switch {
		case quoted && (n.text == "true" || n.text == "false"):
			return "remove the quotes", false
		case n.text == "true", n.text == "false":
			v.SetBool(n.text == "true")
			return "", true
		}
		return "", false
	}
	if quoted {
		return "remove the quotes", false
	}
	if v.CanFloat() {
		return setFloat(v, n.text)
	}
	return setInteger(v, n.text)
}

func setFloat(v reflect.Value, text string) (hint string, ok bool) {
	switch {
	case endless.MatchString(text):
		return "the number must be finite", false
	case !decimal.MatchString(text):
		return respell(text), false
	}
	f, err := strconv.ParseFloat(text, v.Type().Bits())
	if err != nil {
		return fmt.Sprintf("at most %g in size", largest(v.Type())), false
	}
	v.SetFloat(f)
	return "", true
}

func largest(t reflect.Type) float64 {
	if t.Bits() == 32 {
		return math.MaxFloat32
	}
	return math.MaxFloat64
}

func setInteger(v reflect.Value, text string) (hint string, ok bool) {
	if !integer.MatchString(text) {
		// 1e3 and 8.0 are whole, but so written they may be a slip.
		if f, err := strconv.ParseFloat(text, 64); err == nil && decimal.MatchString(text) {
			if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
				return "write " + strconv.FormatInt(int64(f), 10), false
			}
			return "", false
		}
		return respell(text), false
	}
	text = strings.TrimPrefix(text, "+")
	bits := v.Type().Bits()
	if v.CanInt() {
		i, err := strconv.ParseInt(text, 10, bits)
		if err != nil {
			return fmt.Sprintf("it must be in %d..%d", int64(-1)<<(bits-1), int64(1)<<(bits-1)-1), false
		}
		v.SetInt(i)
		return "", true
	}
	u, err := strconv.ParseUint(text, 10, bits)
	if err != nil {
		return fmt.Sprintf("it must be in 0..%d", uint64(math.MaxUint64)>>(64-bits)), false
	}
	v.SetUint(u)
	return "", true
}

// respell says how to write a number whose form is refused because readers do
// not agree on it, or returns "" for what is no number in any form.
func respell(text string) string {
	plain := strings.ReplaceAll(text, "_", "")
	if thousands.MatchString(plain) {
		plain = strings.ReplaceAll(plain, ",", "")
	}
	digits := strings.TrimLeft(plain, "+-")
	sign := plain[:len(plain)-len(digits)]
	if len(sign) > 1 || !strings.ContainsAny(digits, "0123456789") {
		return ""
	}
	if sign == "+" {
		sign = ""
	}
	if i, err := strconv.ParseUint(digits, 0, 64); err == nil {
		written := sign + strconv.FormatUint(i, 10)
		if base10 := strings.TrimLeft(digits, "0"); integer.MatchString(base10) && base10 != strconv.FormatUint(i, 10) {
			return fmt.Sprintf("write %s%s, or %s if octal is meant", sign, base10, written)
		}
		return "write " + written
	}
	digits = strings.TrimLeft(digits, "0")
	if digits == "" || strings.Trim(digits[:1], ".eE") == "" {
		digits = "0" + digits
	}
	if decimal.MatchString(digits) {
		return "write " + sign + digits
	}
	return ""
}

// expected describes what v takes, with its current value, the default, as the
// example.
func expected(v reflect.Value) string {
	example := ""
	if !v.IsZero() {
		example, _ = scalarText(v)
	}
	such := func(what, fallback string) string {
		if example == "" {
			example = fallback
		}
		if example == "" {
			return what
		}
		return what + " such as " + example
	}
	t := v.Type()
	switch {
	case t.Kind() == reflect.Pointer:
		if v.IsNil() {
			v = reflect.New(t.Elem())
		}
		return expected(v.Elem())
	case isText(t), t.Kind() == reflect.String:
		return such(article(words(t)), "")
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return such("a number", "0.5")
	case reflect.Slice:
		return expectedList(v)
	case reflect.Map:
		return "a mapping of names to " + plural(words(t.Elem()))
	case reflect.Struct:
		return "a mapping (keys: " + enumerate(keysOf(fieldsOf(t))) + ")"
	}
	return such("a whole number", "8")
}

// expectedList shows the default list as the example, when it fits on a line.
func expectedList(v reflect.Value) string {
	what := "a list of " + plural(words(v.Type().Elem()))
	if r, err := render(v); err == nil && v.Len() > 0 && len(r.body) == 0 && len(r.head) < 60 {
		return what + " such as " + r.head
	}
	return what
}

// textNames are the names of types written as text that are no words.
var textNames = map[string]string{"FLOPRate": "rate of operations", "DType": "number format"}

// words names a type in words: "whole number", "time", "list of rates".
func words(t reflect.Type) string {
	switch {
	case t.Kind() == reflect.Pointer:
		return words(t.Elem())
	case isText(t):
		if name, ok := textNames[t.Name()]; ok {
			return name
		}
		return strings.ToLower(t.Name())
	}
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.Slice:
		return "list of " + plural(words(t.Elem()))
	case reflect.Map:
		return "mapping of names to " + plural(words(t.Elem()))
	case reflect.Struct:
		return "mapping"
	}
	return "whole number"
}

func plural(what string) string {
	if head, tail, ok := strings.Cut(what, " of "); ok {
		return plural(head) + " of " + tail
	}
	switch {
	case what == "text", what == "true or false", strings.HasSuffix(what, "s"):
		return what
	case strings.HasSuffix(what, "y"):
		return strings.TrimSuffix(what, "y") + "ies"
	}
	return what + "s"
}

func article(what string) string {
	switch {
	case what == "text" || strings.HasSuffix(what, "s"):
		return what
	case strings.Contains("aeiou", what[:1]):
		return "an " + what
	}
	return "a " + what
}

// found describes what was written instead.
func found(n *node) string {
	switch {
	case n.kind == mapping:
		return "a mapping"
	case n.kind == sequence:
		return "a list"
	case n.tag == "!!str":
		return "the text " + strconv.Quote(abridge(n.text, 40))
	case n.text == "":
		return "nothing"
	}
	return abridge(n.text, 40)
}

var textType = reflect.TypeFor[encoding.TextUnmarshaler]()

// isText says whether a type reads itself from text.
func isText(t reflect.Type) bool {
	return t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(textType)
}
