package compare

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/scenarios"
	"github.com/tgssim/tgssim/sweep"
)

// A Difference is a key of which two scenarios have different values, as text;
// "" is a key that one of them does not have.
type Difference struct {
	Key string `json:"key"`
	A   string `json:"a"`
	B   string `json:"b"`
}

func (d Difference) String() string { return fmt.Sprintf("%s %s -> %s", d.Key, shown(d.A), shown(d.B)) }

func shown(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// A Guard is a difference between scenarios that makes a comparison unfair.
type Guard struct {
	// What differs.
	What string
	// Refuse tells what is refused without --force; the rest warns.
	Refuse bool
	// Keys are the keys, or the sections, that it is about; "*" stands for prefill
	// and decode.
	Keys []string
}

// Guards is the table, in order: the first that a key is of decides.
func Guards() []Guard { return slices.Clone(guards) }

// guards is the table; the first that fits a key decides. What fits none is what
// comparisons are for. docs/compare.md shows it.
var guards = []Guard{
	{"model", true, []string{"model.name"}},
	{"precision", true, []string{"model", "*.moe.dispatch_dtype", "*.moe.combine_dtype"}},
	{"GPU", true, []string{"gpu"}},
	{"workload", true, []string{"workload", "*.moe.routing.popularity", "*.moe.imbalance"}},
	{"number of GPUs", true, []string{"cluster.nodes", "cluster.gpus_per_node"}},
	{"length of the run", true, []string{"run"}},
	{"way of measuring", true, []string{"metrics"}},
	{"placement", false, []string{"*.instances", "*.tp", "*.dp", "*.moe.routing.placement", "cluster.wiring"}},
	{"line rate", false, []string{"cluster.nic_rate", "cluster.link_rate", "cluster.nvlink_rate", "cluster.nics_per_node"}},
	{"oversubscription", false, []string{"cluster.oversubscription", "cluster.uplinks_per_leaf", "cluster.leaves", "cluster.spines"}},
	{"way of simulating", false, []string{"network.engine", "network.sample_layers", "packet.train"}},
}

// guardOf finds the guard that a key belongs to, -1 for none.
func guardOf(key string) int {
	return slices.IndexFunc(guards, func(g Guard) bool {
		return slices.ContainsFunc(g.Keys, func(k string) bool {
			rest, pool := strings.CutPrefix(k, "*.")
			if !pool {
				return within(key, k)
			}
			return within(key, "prefill."+rest) || within(key, "decode."+rest)
		})
	})
}

func within(key, section string) bool {
	rest, ok := strings.CutPrefix(key, section)
	return ok && (rest == "" || rest[0] == '.')
}

// ignored are keys that change no result, or that all scenarios have from the
// first.
var ignored = []string{"description", "measured", "seed", "replication"}

// flatten lists the keys of a scenario with their values as text.
func flatten(s *scenarios.Scenario) (map[string]string, error) {
	text, err := s.Resolved()
	if err != nil {
		return nil, err
	}
	tree, err := config.Parse(s.Name, text)
	if err != nil {
		return nil, err
	}
	flat := map[string]string{}
	var walk func(path string, v config.Value)
	walk = func(path string, v config.Value) {
		if !v.IsMapping() {
			text, _ := v.Text()
			if !v.IsScalar() {
				text = v.String()
			}
			flat[path] = text
			return
		}
		for _, k := range v.Keys() {
			walk(strings.TrimPrefix(path+"."+k, "."), v.Get(k))
		}
	}
	walk("", tree.Value(""))
	for key := range flat {
		if slices.ContainsFunc(ignored, func(k string) bool { return within(key, k) }) {
			delete(flat, key)
		}
	}
	return flat, nil
}

// differences lists the keys in which two flat scenarios differ, in order.
func differences(a, b map[string]string) (all []Difference) {
	keys := slices.Sorted(maps.Keys(a))
	for k := range b {
		if _, ok := a[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		if a[k] != b[k] {
			all = append(all, Difference{k, a[k], b[k]})
		}
	}
	return all
}

// sameFabric drops differences that are two ways of writing the same fabric: an
// oversubscription, and the number of uplinks that it comes to.
func sameFabric(all []Difference, a, b *sweep.Cluster) []Difference {
	if a.UplinksPerLeaf != b.UplinksPerLeaf || a.Leaves != b.Leaves || a.Spines != b.Spines {
		return all
	}
	return slices.DeleteFunc(all, func(d Difference) bool {
		return d.Key == "cluster.oversubscription" || d.Key == "cluster.uplinks_per_leaf"
	})
}

// maxShown is how many keys a complaint names.
const maxShown = 3

// judge says what is unfair about comparing A with the scenario of a letter:
// refusals, which are warnings when forced, and warnings.
func judge(letter string, all []Difference, force bool) (refusals config.Problems, warnings []string) {
	by := make([][]Difference, len(guards))
	for _, d := range all {
		if g := guardOf(d.Key); g >= 0 {
			by[g] = append(by[g], d)
		}
	}
	for i, found := range by {
		if len(found) == 0 {
			continue
		}
		g := guards[i]
		if g.Refuse && !force {
			d := found[0]
			more := ""
			if n := len(found) - 1; n > 0 {
				more = fmt.Sprintf(" (and %d more)", n)
			}
			refusals.Addf(d.Key, "is %s in A and %s in %s%s: another %s; compare like with like, or say --force",
				shown(d.A), shown(d.B), letter, more, g.What)
			continue
		}
		warnings = append(warnings, fmt.Sprintf("%s has another %s than A: %s.", letter, g.What, list(found)))
	}
	return refusals, warnings
}

// list names the first differences.
func list(all []Difference) string {
	var parts []string
	for i, d := range all {
		if i == maxShown && len(all) > maxShown+1 {
			parts = append(parts, fmt.Sprintf("and %d more", len(all)-i))
			break
		}
		parts = append(parts, d.String())
	}
	return strings.Join(parts, ", ")
}
