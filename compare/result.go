package compare

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tgssim/tgssim/metrics"
)

// A Compared is one measure of a pair.
type Compared struct {
	Measure
	Paired
}

// A Pair is a variant compared with A.
type Pair struct {
	// B is the variant.
	B *Variant
	// Same tells that every run of B is the run of A, event by event, with equal
	// measures; Constant that all replications of both are one and the same run, so
	// that there is no chance in them.
	Same, Constant bool
	// Measures are those that some replication has in both, OneSided the keys of
	// those that only runs of one of them have.
	Measures []Compared
	OneSided []string
	// Verdict is one sentence.
	Verdict string

	a    *Variant
	runs []pairOfRuns // replications that succeeded in both
}

type pairOfRuns struct{ a, b *Run }

// A Judged is what became of a limit.
type Judged struct {
	Limit   string `json:"limit"`
	Variant string `json:"variant"`
	// Outcome is Kept, NotSignificant, Missed or Undefined.
	Outcome string `json:"outcome"`
}

// A Result is a finished comparison.
type Result struct {
	Plan *Plan
	// Runs are in the order of replications, and of variants in each.
	Runs  []Run
	Pairs []Pair
	// Failed are the runs without results.
	Failed []Run
	Limits []Judged
	// Notes are caveats that a reader should know.
	Notes []string
}

// Missed tells that a limit was missed by a significant difference.
func (r *Result) Missed() bool { return r.has(Missed) }

// Unjudged tells that a limit is on a measure that these runs do not have.
func (r *Result) Unjudged() bool { return r.has(Undefined) }

func (r *Result) has(outcome string) bool {
	return slices.ContainsFunc(r.Limits, func(j Judged) bool { return j.Outcome == outcome })
}

// result compares the runs.
func (p *Plan) result(runs []Run) *Result {
	r := &Result{Plan: p, Runs: runs}
	for i := range runs {
		if runs[i].Error != "" {
			r.Failed = append(r.Failed, runs[i])
		}
	}
	for k := 1; k < len(p.Variants); k++ {
		pair := Pair{a: &p.Variants[0], B: &p.Variants[k]}
		for i := 0; i < len(runs); i += len(p.Variants) {
			if a, b := &runs[i], &runs[i+k]; a.Error == "" && b.Error == "" {
				pair.runs = append(pair.runs, pairOfRuns{a, b})
			}
		}
		pair.compare()
		for _, l := range p.Limits {
			x, _ := pair.measure(l.Key)
			r.Limits = append(r.Limits, Judged{l.Text, pair.B.Letter, l.judge(x)})
		}
		r.Pairs = append(r.Pairs, pair)
	}
	r.note()
	return r
}

func (p *Pair) compare() {
	p.Measures, p.OneSided = nil, nil
	for _, m := range Measures() {
		if x, ok := p.measure(m.Key); ok {
			p.Measures = append(p.Measures, Compared{m, x})
		} else if slices.ContainsFunc(p.runs, func(r pairOfRuns) bool { return r.a.has(m.Key) || r.b.has(m.Key) }) {
			p.OneSided = append(p.OneSided, m.Key)
		}
	}
	equal := !slices.ContainsFunc(p.runs, func(r pairOfRuns) bool { return r.a.Fingerprint != r.b.Fingerprint })
	zero := !slices.ContainsFunc(p.Measures, func(c Compared) bool { return c.Diff != 0 || c.Half != 0 })
	p.Same = len(p.runs) > 0 && equal && zero
	p.Constant = len(p.runs) > 1
	for _, r := range p.runs {
		if r.a.Fingerprint != p.runs[0].a.Fingerprint || r.b.Fingerprint != p.runs[0].b.Fingerprint {
			p.Constant = false
		}
	}
	p.Verdict = p.verdict()
}

// measure compares one number; ok is false when no replication has it in both.
func (p *Pair) measure(key string) (Paired, bool) {
	var a, b []float64
	for _, r := range p.runs {
		x, okA := r.a.Value(key)
		y, okB := r.b.Value(key)
		if okA && okB {
			a, b = append(a, x), append(b, y)
		}
	}
	if len(a) == 0 {
		return Paired{}, false
	}
	return pairUp(a, b), true
}

// note adds what a reader of the figures should know.
func (r *Result) note() {
	say := func(format string, args ...any) { r.Notes = append(r.Notes, fmt.Sprintf(format, args...)) }
	if r.Plan.Replications == 1 {
		say("One replication says nothing of chance: no difference is called significant. Use --reps.")
	}
	if slices.ContainsFunc(r.Pairs, func(p Pair) bool { return p.Constant && !p.Same }) {
		say("All replications are the same run: nothing in these scenarios is random, and what differs differs exactly.")
	}
	keeping, saturated, lost := 0, []string{}, []string{}
	for _, v := range r.Plan.Variants {
		var n, missing int
		for i := range r.Runs {
			if r.Runs[i].Variant != v.Letter {
				continue
			}
			missing += r.Runs[i].Lost
			switch s := r.Runs[i].Saturation; {
			case strings.HasPrefix(s, metrics.Saturated.String()):
				n++
			case s == metrics.KeepingUp.String() || s == metrics.Underloaded.String():
				keeping++
			}
		}
		if n > 0 {
			saturated = append(saturated, fmt.Sprintf("%s in %d of %d", v.Letter, n, r.Plan.Replications))
		}
		if missing > 0 {
			lost = append(lost, fmt.Sprintf("%d of %s", missing, v.Letter))
		}
	}
	if keeping == len(r.Runs) {
		say("The cluster keeps up in every run: TGS is what was asked for and can hardly differ. Compare latencies, or raise the load.")
	}
	if len(saturated) > 0 {
		say("Saturated: %s replications. Latencies then grow with the length of the run: compare throughput.", strings.Join(saturated, ", "))
	}
	if len(lost) > 0 {
		say("Requests rejected or unfinished, over all replications: %s. Latencies are of the others.", strings.Join(lost, ", "))
	}
	for _, v := range r.Plan.Variants {
		r.doubt(v.Letter)
	}
}

// doubt passes on what runs of a variant say of themselves, once for each subject,
// in the words of the first.
func (r *Result) doubt(letter string) {
	var said []string
	count := map[string]int{}
	subject := func(text string) string {
		s, _, _ := strings.Cut(text, " ")
		return strings.TrimSuffix(s, ",")
	}
	for i := range r.Runs {
		if r.Runs[i].Variant != letter {
			continue
		}
		for _, text := range r.Runs[i].doubts {
			if count[subject(text)]++; count[subject(text)] == 1 {
				said = append(said, text)
			}
		}
	}
	for _, text := range said {
		r.Notes = append(r.Notes, fmt.Sprintf("%s, in %d of %d replications: %s", letter, count[subject(text)], r.Plan.Replications, text))
	}
}
