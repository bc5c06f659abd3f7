// Package config holds what every Config of the project shares: the form of a
// complaint about one key, so that a package can say what is wrong with its own
// settings without knowing in which file they were written, and the strict
// decoder that turns a YAML tree into a struct.
package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Problem is one thing wrong with one setting.
type Problem struct {
	// Key is the dotted path of the setting, relative to the Config that
	// complains: "leaves", "arrivals.rate".
	Key string
	// Message says what is wrong and what would be right, with the valid range
	// or the nearest valid name.
	Message string
	// Where is "file:line" once the loader has found it, "--set" for an
	// override, or empty.
	Where string
}

// String prints the problem on one line: where, key, message.
func (p Problem) String() string {
	var b strings.Builder
	if p.Where != "" {
		b.WriteString(p.Where + ": ")
	}
	if p.Key != "" {
		b.WriteString(p.Key + ": ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// Problems is a list of complaints, in the order found. It is an error when it
// is not empty; return it through Err.
type Problems []Problem

// Error prints one problem per line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Addf records a problem with key, once: two parts may read the same setting.
func (ps *Problems) Addf(key, format string, args ...any) {
	if p := (Problem{Key: key, Message: fmt.Sprintf(format, args...)}); !slices.Contains(*ps, p) {
		*ps = append(*ps, p)
	}
}

// Require records a problem with key unless ok holds.
func (ps *Problems) Require(ok bool, key, format string, args ...any) {
	if !ok {
		ps.Addf(key, format, args...)
	}
}

// Nest records the problems of a nested Config under prefix. A problem that has a
// place already is recorded as it is: it speaks of another file, such as a trace.
// Any other error becomes one problem of the prefix itself.
func (ps *Problems) Nest(prefix string, err error) {
	if err == nil {
		return
	}
	var inner Problems
	if !errors.As(err, &inner) {
		*ps = append(*ps, Problem{Key: prefix, Message: err.Error()})
		return
	}
	for _, p := range inner {
		switch {
		case prefix == "" || p.Where != "":
		case p.Key == "":
			p.Key = prefix
		default:
			p.Key = prefix + "." + p.Key
		}
		*ps = append(*ps, p)
	}
}

// Err returns the list as an error, or nil when it is empty.
func (ps Problems) Err() error {
	if len(ps) == 0 {
		return nil
	}
	return ps
}
