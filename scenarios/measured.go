package scenarios

import (
	"math"
	"strings"

	"github.com/tgssim/tgssim/internal/config"
)

// A Measurement is something that somebody measured of the system that a
// scenario describes, for `tgssim validate` to hold a run of it to. It changes
// nothing about the run.
type Measurement struct {
	// Quantity is tgs, step, dispatch or combine with _prefill or _decode behind it,
	// or kv_transfer.
	Quantity string `yaml:"quantity" json:"quantity"`
	// Value is what was measured, in Unit, which is that of the quantity.
	Value float64 `yaml:"value" json:"value"`
	Unit  string  `yaml:"unit" json:"unit"`
	// Source says where it was published.
	Source string `yaml:"source" json:"source"`
	// Within is how far a run may be from it, in per cent; 0 only shows how far it
	// is.
	Within float64 `yaml:"within_pct,omitempty" json:"within_pct,omitempty"`
	// Fit makes it one of those that `tgssim validate --leave-one-out` fits the
	// derate to, and whose mean error has a bar.
	Fit bool `yaml:"fit,omitempty" json:"fit,omitempty"`
}

// A Quantity is something that can be measured of a run.
type Quantity struct{ Name, Unit, Meaning string }

// Quantities lists what a Measurement may be of. See docs/metrics.md for full
// batches.
func Quantities() []Quantity {
	return []Quantity{
		{"tgs_prefill", "tokens/s/GPU", "prompt tokens per second per prefill GPU, with full batches"},
		{"tgs_decode", "tokens/s/GPU", "output tokens per second per decode GPU, with full batches"},
		{"step_prefill", "ms", "from one prefill step to the next, with full batches"},
		{"step_decode", "ms", "from one decode step to the next, with full batches"},
		{"dispatch_prefill", "us", "one dispatch that nothing hides, of a prefill step"},
		{"combine_prefill", "us", "one combine that nothing hides, of a prefill step"},
		{"dispatch_decode", "us", "one dispatch that nothing hides, of a decode step"},
		{"combine_decode", "us", "one combine that nothing hides, of a decode step"},
		{"kv_transfer", "ms", "mean KV transfer, from posting to the arrival of the last byte"},
	}
}

func (m Measurement) validate() error {
	var ps config.Problems
	var names []string
	var known *Quantity
	for _, q := range Quantities() {
		names = append(names, q.Name)
		if q.Name == m.Quantity {
			known = &q
		}
	}
	if known == nil {
		ps.Addf("quantity", "unknown value %q%s", m.Quantity, config.Suggest(m.Quantity, names))
	} else {
		ps.Require(m.Unit == known.Unit, "unit", "%q; %s is in %s", m.Unit, known.Name, known.Unit)
	}
	ps.Require(m.Value > 0 && !math.IsInf(m.Value, 1), "value", "%v is out of range: above 0", m.Value)
	ps.Require(strings.TrimSpace(m.Source) != "", "source", "is missing: write where it was published")
	ps.Require(m.Within >= 0 && m.Within <= 100, "within_pct", "%v is out of range: 0 (no limit) to 100", m.Within)
	return ps.Err()
}

// Read is Load of the text of a scenario that extends no other. file is its name
// in messages.
func Read(file string, data []byte, assignments ...string) (*Scenario, error) {
	tree, err := config.Parse(file, data)
	if err != nil {
		return nil, err
	}
	var ps config.Problems
	for _, a := range assignments {
		ps.Nest("", tree.Set(a))
	}
	if err := ps.Err(); err != nil {
		return nil, err
	}
	return (&Study{Name: nameOf(file), tree: tree, files: []string{file}}).Scenario()
}
