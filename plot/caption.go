package plot

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
)

// facts are what all runs of a picture have in common, for the subtitle: model,
// GPU, fabric, engine.
func (t *table) facts() string {
	var parts []string
	add := func(text string) {
		if text != "" {
			parts = append(parts, text)
		}
	}
	models, gpus := t.common("model.name", 3), t.common("gpu.name", 3)
	if n := t.size(); n != "" && gpus != "" {
		gpus = n + " " + gpus
	}
	switch {
	case models != "" && gpus != "":
		add(models + " on " + strings.ToUpper(gpus))
	default:
		add(models)
		add(strings.ToUpper(gpus))
	}
	if rate := t.common("cluster.link_rate", 1); rate != "" {
		fabric := "leaf-spine fabric"
		if o, ok := parseNumber(t.common("cluster.oversubscription", 1)); ok && o != 1 {
			fabric += " oversubscribed " + ratio(o)
		}
		add(fabric + ", links of " + gbps(rate))
	}
	if engines := t.common("network.engine", 4); engines != "" {
		if strings.Contains(engines, ", ") {
			add("network engines: " + engines)
		} else {
			add(engines + " network engine")
		}
	}
	if prompt, output := t.common("workload.prompt.mean", 1), t.common("workload.output.mean", 1); prompt != "" && output != "" {
		add(fmt.Sprintf("prompts of %s, outputs of %s tokens", commas(prompt), commas(output)))
	}
	if trace := t.common("workload.trace.path", 1); trace != "" {
		add("trace " + trace[strings.LastIndexByte(trace, '/')+1:])
	}
	return strings.Join(parts, separator)
}

// common lists the values of a key of the scenarios, "" where there are none or
// more than so many.
func (t *table) common(key string, most int) string {
	var values []string
	for i := range t.rows {
		r := &t.rows[i]
		if r.settings == nil {
			continue
		}
		text, _ := r.settings.Value(key).Text()
		if text == "" {
			return ""
		}
		if !slices.Contains(values, text) {
			values = append(values, text)
		}
	}
	if len(values) > most {
		return ""
	}
	return strings.Join(values, ", ")
}

// gbps writes a rate with a space before its unit.
func gbps(rate string) string {
	var r units.Rate
	if r.UnmarshalText([]byte(rate)) != nil {
		return rate
	}
	return number(float64(r)/float64(units.Gbps)) + " Gb/s"
}

func commas(s string) string {
	if x, ok := parseNumber(s); ok {
		return number(x)
	}
	return s
}

// describe writes the subtitle and the caption of a picture of sweeps.
func (f *figure) describe(t *table, s *xySpec, front bool, all []*series) {
	f.subtitle = t.facts()
	points, fewest, most, bands, lines := 0, 0, 0, false, false
	for _, g := range all {
		lines = lines || len(g.spots) > 1
		for _, p := range g.spots {
			if points == 0 {
				fewest, most = p.y.N, p.y.N
			}
			points++
			fewest, most = min(fewest, p.y.N), max(most, p.y.N)
			bands = bands || p.y.N > 1
		}
	}
	text := plural(points, "point") + " of " + plural(len(t.rows), "run")
	switch {
	case fewest == most:
		text += fmt.Sprintf(" (%s)", plural(most, "replication"))
	default:
		text += fmt.Sprintf(" (%d to %d replications)", fewest, most)
	}
	text += ", " + t.seeds() + "."
	switch {
	case bands && (s.measured || s.names != nil || !lines):
		text += " Points are means over replications, bars 95 % confidence intervals (Student's t)."
	case bands:
		text += " Lines join means over replications; bands and bars are 95 % confidence intervals (Student's t)."
	}
	if slices.ContainsFunc(f.panels, func(p panel) bool { return p.cut() }) {
		text += " Intervals that leave the picture are cut off."
	}
	if bands && fewest < 2 {
		text += " Single replications have no interval."
	}
	if front {
		text += " Lines join the points that no other of the series beats in both directions; pale points are the others."
	}
	f.caption = append(f.caption, text+t.shortcuts())
	f.problems(t, s)
	f.caption = append(f.caption, t.origin())
}

// shortcuts says what the runs leave out to be fast.
func (t *table) shortcuts() (text string) {
	layers, train := "", ""
	for i := range t.rows {
		r := &t.rows[i]
		if v := valueOf(r.settings, "network.sample_layers"); v != "" && v != "0" {
			layers = v
		}
		if v := valueOf(r.settings, "packet.train"); v != "" && v != "1" && valueOf(r.settings, "network.engine") == "packet" {
			train = v
		}
	}
	if layers != "" {
		text += fmt.Sprintf(" Some %s of the MoE layers of a step are simulated and stand for the others.", layers)
	}
	if train != "" {
		text += fmt.Sprintf(" Packets move in trains of %s.", train)
	}
	return text
}

// size is the number of GPUs where it is the same in all runs.
func (t *table) size() string {
	value := ""
	for i := range t.rows {
		v := t.rows[i].text("gpus")
		if v == "" || value != "" && v != value {
			return ""
		}
		value = v
	}
	return commas(value)
}

// problems says which runs are not in the picture, and why.
func (f *figure) problems(t *table, s *xySpec) {
	failed := map[string][]string{} // reason: places
	var reasons []string
	n, undefined := 0, 0
	var columns []string
	for i := range t.rows {
		r := &t.rows[i]
		if r.failure == "" {
			for _, c := range append([]string{s.x}, s.ys...) {
				if _, ok := r.number(c); !ok && (c != s.x || s.names == nil) {
					undefined++
					if !slices.Contains(columns, bare(columnOf(c).label)) {
						columns = append(columns, bare(columnOf(c).label))
					}
					break
				}
			}
			continue
		}
		n++
		reason, _, _ := strings.Cut(r.failure, "\n")
		if _, ok := failed[reason]; !ok {
			reasons = append(reasons, reason)
		}
		if at := t.placeOf(r); !slices.Contains(failed[reason], at) {
			failed[reason] = append(failed[reason], at)
		}
	}
	if n > 0 {
		text := fmt.Sprintf("%d of %s failed", n, plural(len(t.rows), "run"))
		for i, reason := range reasons {
			if i == 2 {
				text += fmt.Sprintf("; and for %d more reasons", len(reasons)-i)
				break
			}
			text += fmt.Sprintf("%s %s: %s", map[bool]string{true: ":", false: ";"}[i == 0], listed(failed[reason], 3), shorten(reason, 110))
		}
		if !strings.HasSuffix(text, "\u2026") {
			text = strings.TrimRight(text, ".") + "."
		}
		f.caption = append(f.caption, text)
		f.notes = append(f.notes, text)
	}
	if undefined > 0 {
		text := wereRuns(undefined) + " left out for want of a value"
		if len(s.ys) > 1 {
			text = wereRuns(undefined) + " left out of panels for want of a value"
		}
		text += ": " + strings.Join(columns, ", ") + "."
		f.caption = append(f.caption, text)
		f.notes = append(f.notes, text)
	}
}

// placeOf names the point of a row by its axes.
func (t *table) placeOf(r *row) string {
	var parts []string
	for _, a := range t.axes {
		if v := r.text(a); v != "" {
			parts = append(parts, a+"="+v)
		}
	}
	if len(parts) == 0 {
		return r.folder.name
	}
	return strings.Join(parts, " ")
}

func shorten(s string, most int) string {
	if len(s) <= most {
		return s
	}
	cut := strings.LastIndexByte(s[:most], ' ')
	if cut <= 0 {
		cut = most
	}
	return strings.ToValidUTF8(s[:cut], "") + "\u2026"
}

// seeds lists the seeds of the runs.
func (t *table) seeds() string {
	var seeds []string
	for _, f := range t.folders {
		if s := fmt.Sprint(f.seed); !slices.Contains(seeds, s) {
			seeds = append(seeds, s)
		}
	}
	if len(seeds) == 1 {
		return "seed " + seeds[0]
	}
	return "seeds " + listed(seeds, 5)
}

// origin names the scenarios and the versions that made the runs.
func (t *table) origin() string {
	var scenarios, versions []string
	for _, f := range t.folders {
		if f.scenario != "" && !slices.Contains(scenarios, f.scenario) {
			scenarios = append(scenarios, f.scenario)
		}
		if !slices.Contains(versions, f.version) {
			versions = append(versions, f.version)
		}
	}
	return "Scenario " + listed(scenarios, 4) + separator + "simulated with tgssim " + listed(versions, 4)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return decimal(float64(n), 0) + " " + what + "s"
}

func wereRuns(n int) string {
	if n == 1 {
		return "1 run is"
	}
	return plural(n, "run") + " are"
}

// valueOf is a key of a scenario, "" where it is not written.
func valueOf(tree *config.Tree, key string) string {
	if tree == nil {
		return ""
	}
	s, _ := tree.Value(key).Text()
	return s
}
