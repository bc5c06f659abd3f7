package main

import (
	"slices"
	"strings"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/scenarios"
)

type keyRow struct {
	Key     string `json:"key"`
	Type    string `json:"type"`
	Default string `json:"default"`
	// FabricDefault is that of fabrics where it is another one.
	FabricDefault string `json:"fabric_default,omitempty"`
	// Of is whose key it is: scenario, fabric or both.
	Of    string `json:"of"`
	About string `json:"about"`
}

// listKeys lists the keys under any of the sections, with what they are; with none
// of them all keys, briefly.
func listKeys(sections []string) (l listing, err error) {
	l.header = []string{"key", "type", "default"}
	l.notes = []string{
		"`tgssim list keys SECTION`, such as congestion.gse or packet.path.int, says what they are.",
		"A file may also have extends, another to start from, and a scenario sweep: docs/sweep.md.",
	}
	if len(sections) > 0 {
		l.header = []string{"key", "default", "what it is"}
		l.notes = nil
	}
	keys := scenarios.Keys()
	if err := knownSections(sections, keys); err != nil {
		return l, err
	}
	var data []keyRow
	own, last := false, ""
	for _, k := range keys {
		if !under(k.Path, sections) {
			continue
		}
		r := keyRow{k.Path, k.Type, k.Default, k.FabricDefault, "scenario", k.About}
		switch {
		case k.Fabric && k.Scenario:
			r.Of = "both"
		case k.Fabric:
			r.Of, own = "fabric", true
		}
		data = append(data, r)
		if len(sections) == 0 {
			if r.FabricDefault != "" {
				r.Default += ", of fabrics " + r.FabricDefault
			}
			l.rows = append(l.rows, []string{r.Key, r.Type, r.Default})
			continue
		}
		about := k.About
		if about == last {
			about = "as above"
		}
		last = k.About
		if r.FabricDefault != "" {
			about += " The default of fabrics is " + r.FabricDefault + "."
		}
		l.rows = append(l.rows, []string{r.Key, r.Default, about})
	}
	if own {
		l.notes = append(l.notes, "traffic, qps and own_qps are of fabrics, tgssim net.")
	}
	l.data = data
	return l, nil
}

// under tells whether a key is one of the sections, or in one; all are in none.
func under(key string, sections []string) bool {
	for _, s := range sections {
		if rest, ok := strings.CutPrefix(key, s); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return true
		}
	}
	return len(sections) == 0
}

// knownSections complains about a name that no key begins with.
func knownSections(sections []string, keys []scenarios.Key) error {
	var names []string
	for _, k := range keys {
		for at, c := range k.Path + "." {
			if name := k.Path[:at]; strings.ContainsRune(".[", c) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	var ps config.Problems
	for _, s := range sections {
		ps.Require(slices.Contains(names, s), "", "there is no key or section %q%s", s, config.Suggest(s, names))
	}
	return ps.Err()
}
