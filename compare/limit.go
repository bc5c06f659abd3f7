package compare

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A Limit is how far a measure may get worse: "tgs_steady=-2%" is missed when TGS
// falls significantly and by more than 2 % on average.
type Limit struct {
	// Text is as written.
	Text string
	// Key is the measure's.
	Key string
	// By is the change that is too much: a fraction of A's mean when Relative, or
	// else in the unit of the key; its sign is the direction that is watched.
	By       float64
	Relative bool
	down     bool
}

// limitForm is the syntax.
const limitForm = "MEASURE=-N%, +N%, -N or +N, such as tgs_steady=-2% or p99_ttft_ms=+50"

// ParseLimit reads a limit: a measure, the sign of the change that is watched, and
// a decimal number, with % or in the unit of the measure's name. A sign that is no
// regression is refused.
func ParseLimit(text string) (Limit, error) {
	key, by, ok := strings.Cut(text, "=")
	if !ok || by == "" || by[0] != '-' && by[0] != '+' {
		return Limit{}, fmt.Errorf("--fail-if %q: write %s", text, limitForm)
	}
	m, ok := find(key)
	if !ok {
		return Limit{}, fmt.Errorf("--fail-if %q: no measure %q is compared%s", text, key, suggest(key))
	}
	l := Limit{Text: text, Key: key, down: by[0] == '-'}
	digits, percent := strings.CutSuffix(by[1:], "%")
	if strings.Trim(digits, "0123456789.") != "" {
		return Limit{}, fmt.Errorf("--fail-if %q: %q is not a decimal number; write %s", text, digits, limitForm)
	}
	x, err := strconv.ParseFloat(digits, 64)
	if err != nil || x > 1e15 {
		return Limit{}, fmt.Errorf("--fail-if %q: %q is not a decimal number up to 1e15; write %s", text, digits, limitForm)
	}
	switch {
	case m.Better > 0 && !l.down:
		return Limit{}, fmt.Errorf("--fail-if %q: more is better of %s; write -%s", text, key, by[1:])
	case m.Better < 0 && l.down:
		return Limit{}, fmt.Errorf("--fail-if %q: less is better of %s; write +%s", text, key, by[1:])
	}
	if percent {
		x, l.Relative = x/100, true
	}
	if l.down {
		x = -x
	}
	l.By = x
	return l, nil
}

// The outcomes of a limit.
const (
	// Kept: the mean difference is within the limit.
	Kept = "kept"
	// NotSignificant: it is beyond the limit, and its interval contains 0.
	NotSignificant = "not significant"
	// Missed: it is beyond the limit, and its interval does not contain 0.
	Missed = "missed"
	// Undefined: the measure does not exist in these runs.
	Undefined = "undefined"
)

// judge says what became of the limit.
func (l Limit) judge(p Paired) string {
	if p.N < 2 {
		return Undefined
	}
	change := p.Diff
	if l.Relative {
		r, ok := p.Relative()
		if change = r; !ok && p.Diff != 0 { // from nothing: beyond any percentage
			change = math.Copysign(math.Inf(1), p.Diff)
		}
	}
	beyond := change > l.By
	if l.down {
		beyond = change < l.By
	}
	switch {
	case !beyond:
		return Kept
	case !p.Significant():
		return NotSignificant
	}
	return Missed
}
