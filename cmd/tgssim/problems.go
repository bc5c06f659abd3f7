package main

import (
	"fmt"
	"slices"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/sweep"
)

// atPoints is what is wrong at which points of a sweep, in the order in which it was
// found: the same thing is said once.
type atPoints[T comparable] struct {
	plan  *sweep.Plan
	found []T
	at    map[T][]int
}

func (a *atPoints[T]) add(point int, x T) {
	if a.at == nil {
		a.at = map[T][]int{}
	}
	if a.at[x] == nil {
		a.found = append(a.found, x)
	}
	a.at[x] = append(a.at[x], point)
}

// where names the first of the points at which it is wrong, and counts the others.
func (a *atPoints[T]) where(x T) string {
	points := a.at[x]
	text := a.plan.Sprint(points[0])
	switch more := len(points) - 1; {
	case more+1 == len(a.plan.Points) && (more > 0 || text == ""):
		return "every point"
	case more == 0:
		return text
	default:
		return text + " and " + plural(more, "more point")
	}
}

// points counts the points at which anything is wrong.
func (a *atPoints[T]) points() int {
	var all []int
	for _, x := range a.found {
		all = append(all, a.at[x]...)
	}
	slices.Sort(all)
	return len(slices.Compact(all))
}

// maxProblems is the number of problems that are printed.
const maxProblems = 8

func (p *printer) problems(word string, a *atPoints[string]) {
	for i, text := range a.found {
		if i == maxProblems {
			p.line("... and %s", plural(len(a.found)-i, "other problem"))
			break
		}
		p.line("%s: %s: %s", word, a.where(text), text)
	}
}

// problemsOf are the problems of all points that cannot be built, with the points
// behind.
func problemsOf(p *sweep.Plan, costs []sweep.Cost) error {
	a := atPoints[config.Problem]{plan: p}
	for _, c := range costs {
		var found config.Problems
		found.Nest("", c.Error)
		for _, x := range found {
			a.add(c.Point, x)
		}
	}
	var ps config.Problems
	for _, x := range a.found {
		where := a.where(x)
		x.Message += fmt.Sprintf(" (at %s)", where)
		ps = append(ps, x)
	}
	return ps.Err()
}
