// Package compare runs scenarios side by side with common random numbers, and says
// which differences between them are more than chance.
package compare

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tgssim/tgssim/experiment"
	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/scenarios"
	"github.com/tgssim/tgssim/sweep"
)

// Limits of a comparison.
const (
	MaxVariants     = 16
	MaxReplications = 1000
	// DefaultReplications gives Student's t four degrees of freedom.
	DefaultReplications = 5
)

// A Request is what is to be compared.
type Request struct {
	// Refs are names or paths of scenarios: two or more, or one with Vary.
	Refs []string
	// Vary is "key=value,value", each a key of the scenario, or the name of one of
	// its axes (sweep.axes), with "=label,label" for some of its values. Several go
	// together: the first values are A, the second ones B.
	Vary []string
	// Set is assignments "a.b=c" for all.
	Set []string
	// Replications is the number of runs of each; 0 is DefaultReplications.
	Replications int
	// Limits are regressions that count as failure; see ParseLimit.
	Limits []string
	// Force makes warnings of refusals.
	Force bool
}

// A Variant is one of the scenarios.
type Variant struct {
	// Letter is A for the one that the others are compared with.
	Letter string
	// Label says what it is: the scenario's name, or what was varied.
	Label    string
	Scenario *scenarios.Scenario
	Cluster  *sweep.Cluster
	// Differences are the keys in which it differs from A.
	Differences []Difference
}

// A Plan is a comparison made ready. It does not change, and goroutines may share
// it.
type Plan struct {
	Variants     []Variant
	Replications int
	// Seed is A's, and used for all.
	Seed   uint64
	Limits []Limit
	// Warnings are what makes the comparison less than fair.
	Warnings []string
}

// New reads and builds the scenarios. What is wrong with them, or with comparing
// them, comes back as config.Problems.
func New(r Request) (*Plan, error) {
	p := &Plan{Replications: r.Replications}
	if p.Replications == 0 {
		p.Replications = DefaultReplications
	}
	var ps config.Problems
	ps.Require(p.Replications >= 1 && p.Replications <= MaxReplications, "",
		"--reps %d is not a number of replications; use 1 to %d", p.Replications, MaxReplications)
	for _, text := range r.Limits {
		l, err := ParseLimit(text)
		if err != nil {
			ps.Addf("", "%v", err)
		}
		p.Limits = append(p.Limits, l)
	}
	ps.Require(len(p.Limits) == 0 || p.Replications > 1, "", "--fail-if needs an interval: use --reps 2 or more")
	if err := ps.Err(); err != nil {
		return nil, err
	}
	var err error
	if len(r.Vary) > 0 {
		p.Variants, err = vary(r)
	} else {
		p.Variants, err = load(r)
	}
	if err == nil {
		err = p.prepare(r.Force)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// load reads one scenario per reference.
func load(r Request) ([]Variant, error) {
	var ps config.Problems
	switch n := len(r.Refs); {
	case n < 2:
		ps.Addf("", "nothing to compare with: name a second scenario, or vary one with --vary key=value,value")
	case n > MaxVariants:
		ps.Addf("", "%d scenarios are too many; compare up to %d", n, MaxVariants)
	}
	if err := ps.Err(); err != nil {
		return nil, err
	}
	all := make([]Variant, len(r.Refs))
	for i, ref := range r.Refs {
		s, err := scenarios.Load(ref, r.Set...)
		if err != nil {
			return nil, err
		}
		all[i] = Variant{Label: s.Name, Scenario: s}
	}
	return all, nil
}

// vary makes the variants of one scenario.
func vary(r Request) ([]Variant, error) {
	if len(r.Refs) != 1 {
		return nil, config.Problems{{Message: "--vary varies one scenario; name only one"}}
	}
	study, err := scenarios.Open(r.Refs[0], r.Set...)
	if err != nil {
		return nil, err
	}
	axes, err := axesOf(r, study)
	if err != nil {
		return nil, err
	}
	all := make([]Variant, len(axes[0].Values))
	for i := range all {
		var settings []scenarios.Setting
		var labels []string
		for _, a := range axes {
			settings = append(settings, a.Values[i].Settings...)
			labels = append(labels, a.Name+"="+a.Values[i].Label)
		}
		s, err := study.Scenario(settings...)
		if err != nil {
			return nil, asVary(err)
		}
		all[i] = Variant{Label: strings.Join(labels, ", "), Scenario: s}
	}
	return all, nil
}

// axesOf reads what varies, and checks that it varies together.
func axesOf(r Request, study *scenarios.Study) (axes []scenarios.Axis, err error) {
	var ps config.Problems
	for _, text := range r.Vary {
		a, err := axisOf(text, study)
		if err != nil {
			ps.Nest("", asVary(err))
			continue
		}
		axes = append(axes, a)
		refuse := func(format string, args ...any) {
			ps = append(ps, config.Problem{Key: a.Name, Where: "--vary " + text, Message: fmt.Sprintf(format, args...)})
		}
		switch n := len(a.Values); {
		case n != len(axes[0].Values):
			refuse("%d values beside the %d of %s; values vary together", n, len(axes[0].Values), axes[0].Name)
		case n < 2:
			refuse("one value; write two or more")
		case n > MaxVariants:
			refuse("%d values are too many; compare up to %d", n, MaxVariants)
		}
		for _, key := range a.Keys() {
			if slices.Contains([]string{"seed", "replication", "description", "sweep", "extends"}, key) {
				refuse("%s cannot vary; all have the same random numbers", key)
			}
			for _, b := range axes[:len(axes)-1] {
				if slices.ContainsFunc(b.Keys(), func(k string) bool { return scenarios.Overlap(k, key) }) {
					refuse("varies twice")
				}
			}
			for _, set := range r.Set {
				if k, _, _ := strings.Cut(set, "="); scenarios.Overlap(strings.TrimSpace(k), key) {
					refuse("varies, so --set %s would do nothing", set)
				}
			}
		}
	}
	if len(axes) > 0 {
		scenarios.Repeats(axes, scenarios.ModeZip, &ps)
	}
	return axes, asVary(ps.Err())
}

// axisOf is an axis of the command line, or one of the scenario by its name.
func axisOf(text string, study *scenarios.Study) (scenarios.Axis, error) {
	if strings.Contains(text, "=") {
		return study.ParseAxis(text)
	}
	var names []string
	for _, a := range study.Sweep.Axes {
		if a.Name == text {
			return a, nil
		}
		names = append(names, a.Name)
	}
	return scenarios.Axis{}, config.Problems{{
		Where:   "--vary " + text,
		Message: "write key=value,value, or the name of an axis of the scenario" + config.Suggest(text, names),
	}}
}

// asVary names the flag by which an axis came here.
func asVary(err error) error {
	var ps config.Problems
	ps.Nest("", err)
	for i := range ps {
		if rest, ok := strings.CutPrefix(ps[i].Where, "--axis "); ok {
			ps[i].Where = "--vary " + rest
		}
	}
	return ps.Err()
}

// prepare gives the variants their letters and one seed, builds each once, and
// judges whether they can be compared.
func (p *Plan) prepare(force bool) error {
	p.Seed = p.Variants[0].Scenario.Seed
	traces := experiment.Traces{Limit: len(p.Variants)}
	var first map[string]string
	var ps config.Problems
	for i := range p.Variants {
		v := &p.Variants[i]
		v.Letter = string(rune('A' + i))
		if s := v.Scenario.Seed; s != p.Seed {
			p.Warnings = append(p.Warnings, fmt.Sprintf("Seed %d is used for all, and %d of %s is not.", p.Seed, s, v.Letter))
			v.Scenario.Seed = p.Seed
		}
		b, err := experiment.BuildWith(v.Scenario, &traces)
		if err != nil {
			return asVary(err)
		}
		v.Cluster = sweep.ClusterOf(v.Scenario, b.Graph)
		flat, err := flatten(v.Scenario)
		if err != nil {
			return err
		}
		if i == 0 {
			first = flat
			continue
		}
		v.Differences = sameFabric(differences(first, flat), p.Variants[0].Cluster, v.Cluster)
		refusals, warnings := judge(v.Letter, v.Differences, force)
		ps = append(ps, refusals...)
		p.Warnings = append(p.Warnings, warnings...)
	}
	return ps.Err()
}

// Runs is the number of runs.
func (p *Plan) Runs() int { return len(p.Variants) * p.Replications }
