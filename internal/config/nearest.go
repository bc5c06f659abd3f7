package config

import (
	"fmt"
	"strings"
)

// Nearest returns the known name that name is most likely a misspelling of, or
// "" when none is close. Case, "-" and spaces are taken for lower case and "_";
// beyond that one edit per three letters is forgiven (insertion, deletion,
// substitution or swap of two neighbours). The first of equally near names wins.
func Nearest(name string, known []string) string {
	best, bestDistance := "", 0
	a := fold(name)
	for _, k := range known {
		b := fold(k)
		limit := max(len(a), len(b)) / 3
		if len(a)-len(b) > limit || len(b)-len(a) > limit {
			continue
		}
		if d := distance(a, b); d <= limit && (best == "" || d < bestDistance) {
			best, bestDistance = k, d
		}
	}
	return best
}

// Suggest returns the tail of a complaint about an unknown name: "; did you
// mean ecmp?" when one is near, or else the known names: "; known: ecmp, spray".
// It returns "" when nothing is known.
func Suggest(name string, known []string) string {
	if near := Nearest(name, known); near != "" {
		return "; did you mean " + near + "?"
	}
	if len(known) == 0 {
		return ""
	}
	return "; known: " + enumerate(known)
}

// enumerate joins the names, the first dozen of them when they are many.
func enumerate(names []string) string {
	const most = 12
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s, ... (%d in all)", strings.Join(names[:most], ", "), len(names))
}

var folder = strings.NewReplacer("-", "_", " ", "_")

func fold(s string) []rune { return []rune(folder.Replace(strings.ToLower(s))) }

// distance is the optimal string alignment distance: Levenshtein's with swaps of
// neighbours (Damerau 1964), where no letter is edited twice.
func distance(a, b []rune) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := last[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(change, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
