package compute

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tgssim/tgssim/internal/config"
)

// An hfReader takes the values of one config.json and collects what is wrong.
type hfReader struct {
	file jsonFile
	root *jsonValue
	// family is the name of the architecture.
	family   string
	read     map[string]bool
	problems config.Problems
}

// refuse records a problem with the value of a key.
func (r *hfReader) refuse(key string, v *jsonValue, format string, args ...any) {
	if len(r.problems) >= maxProblems {
		return
	}
	r.problems = append(r.problems, r.file.problem(v.at, abridged(key), format, args...))
}

// missing records that none of the keys is there.
func (r *hfReader) missing(keys []string, format string, args ...any) {
	r.problems = append(r.problems, config.Problem{
		Where: r.file.name, Key: keys[0], Message: "is missing: " + fmt.Sprintf(format, args...) + otherNames(keys),
	})
}

// otherNames lists the further spellings of a key.
func otherNames(keys []string) string {
	if len(keys) == 1 {
		return ""
	}
	return " (also known as " + strings.Join(keys[1:], ", ") + ")"
}

// get returns the value of the first of the keys that is written, null or not,
// and refuses others that differ from it. It returns nil when none is.
func (r *hfReader) get(keys []string) (key string, v *jsonValue) {
	for _, k := range keys {
		r.read[k] = true
		other := r.root.members[k]
		switch {
		case other == nil:
		case v == nil || v.kind == jsonNull:
			key, v = k, other
		case other.kind != jsonNull && !sameScalar(v, other):
			r.refuse(k, other, "is %s, but %s is %s: they mean the same", other.found(), key, v.found())
		}
	}
	return key, v
}

func sameScalar(a, b *jsonValue) bool {
	if a.kind == jsonNumber && b.kind == jsonNumber {
		x, okX := wholeNumber(a.text)
		y, okY := wholeNumber(b.text)
		return okX && okY && x == y
	}
	return a.kind == b.kind && a.text == b.text
}

// given tells whether one of the keys is written, even as null.
func (r *hfReader) given(keys []string) bool {
	_, v := r.get(keys)
	return v != nil
}

// wholeNumber reads the digits of a JSON number that is whole, as 4, 4.0 or
// 4e0, and small enough to be exact.
func wholeNumber(text string) (int, bool) {
	if n, err := strconv.Atoi(text); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int(f), true
}

// optional is the whole number of the keys, from low to high; def when none is
// written or it is null. A wrong value is refused and def returned.
func (r *hfReader) optional(keys []string, low, high, def int) int {
	key, v := r.get(keys)
	if v == nil || v.kind == jsonNull {
		return def
	}
	return r.whole(key, v, low, high, def)
}

// whole is the whole number v, from low to high, or def when it is not one.
func (r *hfReader) whole(key string, v *jsonValue, low, high, def int) int {
	n, ok := wholeNumber(v.text)
	if v.kind != jsonNumber || !ok || n < low || n > high {
		r.refuse(key, v, "must be a whole number from %d to %d, not %s", low, high, v.found())
		return def
	}
	return n
}

// required is optional for a key that must be there; 0 when it is not.
func (r *hfReader) required(keys []string, low, high int) int {
	if _, v := r.get(keys); v == nil || v.kind == jsonNull {
		r.missing(keys, "write a whole number from %d to %d", low, high)
		return 0
	}
	return r.optional(keys, low, high, 0)
}

// flag is the bool of the keys; def when none is written or it is null.
func (r *hfReader) flag(keys []string, def bool) bool {
	key, v := r.get(keys)
	if v == nil || v.kind == jsonNull {
		return def
	}
	if v.kind != jsonBool {
		r.refuse(key, v, "must be true or false, not %s", v.found())
		return def
	}
	return v.text != ""
}

// word is the string of a key; "" when it is not written or null.
func (r *hfReader) word(key string) string {
	_, v := r.get([]string{key})
	if v == nil || v.kind == jsonNull {
		return ""
	}
	if v.kind != jsonString {
		r.refuse(key, v, "must be a string, not %s", v.found())
		return ""
	}
	return v.text
}

// list is the list of a key; nil when it is not written or null.
func (r *hfReader) list(key string) (v *jsonValue) {
	_, v = r.get([]string{key})
	if v == nil || v.kind == jsonNull {
		return nil
	}
	if v.kind != jsonList {
		r.refuse(key, v, "must be a list, not %s", v.found())
		return nil
	}
	return v
}

// unread refuses keys that say how the model is built and were not understood,
// and returns notes of the others that nothing is known of.
func (r *hfReader) unread() (notes []string) {
	const most = 10
	more := 0
	for _, key := range r.root.keys {
		v := r.root.members[key]
		switch {
		case r.read[key] || ignoredKeys[key] || v.blank():
		case looksStructural(key):
			r.refuse(key, v, "is not known of %s and may change its structure: remove it if it does not, or set it to null", r.family)
		case len(notes) == most:
			more++
		default:
			notes = append(notes, fmt.Sprintf("%s: the key %q was not read", r.file.where(v.at), abridged(key)))
		}
	}
	if more > 0 {
		notes = append(notes, fmt.Sprintf("%s: nor were %s", r.file.name, plural(more, "other key")))
	}
	return notes
}
