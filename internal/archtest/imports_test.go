// Package archtest holds no code: its tests read the source of the whole module
// and fail, with the reason, where a package breaks a rule of the house: imports
// go one way, and what runs inside a simulation has nothing that differs between
// runs or machines.
package archtest

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A rule says which packages of the module a package may import, and why not
// others. A package may always import packages below its own directory.
type rule struct {
	pkg string
	may []string
	why string
}

// ground is what everything above the kernel may use.
var ground = []string{"internal/invariants", "internal/detmath", "sim", "internal/units", "internal/config"}

func plus(sets ...[]string) []string { return slices.Concat(sets...) }

// rules is in the order of the packages: a package may import only what stands
// above it in this table, and of that only what its rule names.
var rules = []rule{
	{"internal/invariants", nil, "a build tag that every package may ask for, so it can ask for none"},
	{"internal/detmath", nil, "pure functions of numbers"},
	{"sim", []string{"internal/invariants", "internal/detmath"}, "the kernel knows events and time, and nothing of what they mean"},
	{"internal/units", []string{"internal/invariants", "internal/detmath", "sim"}, "quantities and their text, whatever they measure"},
	{"internal/config", []string{"internal/invariants"}, "it decodes any Config, so it must not know any"},
	{"internal/atomicfile", nil, "it writes files, whatever is in them"},
	{"topology", ground, "a graph exists before anything moves on it"},
	{"workload", ground, "requests come from outside and know nothing of the cluster that will serve them"},
	{"compute", ground, "a kernel's time depends on the model and the GPU, not on the network"},
	{"calibrate", plus(ground, []string{"compute"}), "a fit turns times into constants, and runs nothing"},
	{"experts", ground, "which experts a token visits depends on popularity and placement, not on bytes or time"},
	{"congestion", plus(ground, []string{"topology"}), "a pacer is a pure state machine: feedback in, rate out"},
	{"routing", plus(ground, []string{"topology"}), "a router is a pure function: flow and telemetry in, path out"},
	{"fabric", plus(ground, []string{"topology", "congestion", "routing"}), "the fabric moves bytes and knows neither requests nor kernels"},
	{"collective", plus(ground, []string{"topology", "compute", "experts", "fabric"}), "a collective is a placement turned into messages; who waits for it is not its business"},
	{"serving", plus(ground, []string{"topology", "workload", "compute", "experts", "routing", "congestion", "fabric", "collective"}), "serving acts and reports to listeners; it does not measure or print"},
	{"metrics", plus(ground, []string{"topology", "workload", "compute", "routing", "congestion", "fabric", "collective", "serving"}), "metrics defines the measures; how they look is for report"},
	{"scenarios", plus(ground, []string{"topology", "workload", "compute", "experts", "routing", "congestion", "fabric", "collective", "serving", "metrics"}), "a scenario composes the Config of each package; it neither runs nor reports"},
	{"experiment", plus(ground, []string{"topology", "workload", "compute", "experts", "routing", "congestion", "fabric", "collective", "serving", "metrics", "scenarios"}), "experiment runs simulations; what they look like is for report"},
	{"sweep", plus(ground, []string{"internal/atomicfile", "topology", "workload", "compute", "experts", "routing", "congestion", "fabric", "collective", "serving", "metrics", "scenarios", "experiment"}), "a sweep is many runs and their table; it is no command, and pictures are for report"},
	{"compare", plus(ground, []string{"internal/atomicfile", "fabric", "metrics", "scenarios", "experiment", "sweep"}), "a comparison is runs side by side and what is said of them; it is no command"},
	{"validate", plus(ground, []string{"metrics", "scenarios", "experiment"}), "targets are scenarios and are run as such; it knows of no model what a run does not say"},
	{"report", plus(ground, []string{"internal/atomicfile", "topology", "workload", "compute", "fabric", "collective", "serving", "metrics", "scenarios", "experiment"}), "report renders what was measured; it is not a command"},
	{"plot", plus(ground, []string{"metrics", "sweep", "report"}), "a picture is made from files; it simulates nothing"},
	{"cmd", plus(ground, []string{"internal/atomicfile", "topology", "workload", "compute", "experts", "routing", "congestion", "fabric", "collective", "serving", "metrics", "scenarios", "experiment", "sweep", "compare", "report", "calibrate", "validate", "plot"}), "commands are the top of the house"},
	{"internal/archtest", nil, "it reads source, not packages"},
	{"internal/testkit", nil, "every test may use it, so it can use none"},
}

// ruleOf returns the rule of a package or of the directory it is in.
func ruleOf(pkg string) (rule, bool) {
	for dir := pkg; dir != "."; dir = path.Dir(dir) {
		if i := slices.IndexFunc(rules, func(r rule) bool { return r.pkg == dir }); i >= 0 {
			return rules[i], true
		}
	}
	return rule{}, false
}

func within(pkg, dir string) bool { return pkg == dir || strings.HasPrefix(pkg, dir+"/") }

// isKit tells a package of test helpers, such as topology/topologytest.
func isKit(pkg string) bool {
	parent := path.Base(path.Dir(pkg))
	return path.Base(pkg) == parent+"test" || path.Base(pkg) == "testkit"
}

// checkImports returns a line for each import that breaks a rule. Files of tests
// may import what they like.
func checkImports(m *module) []string {
	var broken []string
	for _, f := range m.files {
		if f.test {
			continue
		}
		r, ok := ruleOf(f.pkg)
		if !ok {
			broken = append(broken, fmt.Sprintf("%s: package %s has no rule; say in internal/archtest where it stands", f.name, f.pkg))
			continue
		}
		for _, spec := range f.syntax.Imports {
			target, _ := strconv.Unquote(spec.Path.Value)
			pkg, ours := strings.CutPrefix(target, modulePath+"/")
			where := m.line(spec.Pos())
			switch {
			case !ours:
			case isKit(pkg) && !isKit(f.pkg):
				broken = append(broken, fmt.Sprintf("%s: %s imports %s: only tests may use a test kit", where, f.pkg, pkg))
			case within(pkg, r.pkg):
			case !slices.ContainsFunc(r.may, func(dir string) bool { return within(pkg, dir) }):
				broken = append(broken, fmt.Sprintf("%s: %s may not import %s: %s", where, f.pkg, pkg, r.why))
			}
		}
	}
	return broken
}

func TestImportsGoOneWay(t *testing.T) {
	for _, line := range checkImports(loadModule(t)) {
		t.Error(line)
	}
}

// drawsApart returns the packages whose property tests draw other values in every
// run: none of their tests imports testkit.
func drawsApart(m *module) []string {
	draws, fixed := map[string]bool{}, map[string]bool{}
	for _, f := range m.files {
		for _, spec := range f.syntax.Imports {
			switch target, _ := strconv.Unquote(spec.Path.Value); target {
			case "pgregory.net/rapid":
				draws[f.pkg] = draws[f.pkg] || f.test
			case modulePath + "/internal/testkit":
				fixed[f.pkg] = true
			}
		}
	}
	var apart []string
	for pkg := range draws {
		if draws[pkg] && !fixed[pkg] && pkg != "internal/testkit" {
			apart = append(apart, pkg)
		}
	}
	slices.Sort(apart)
	return apart
}

func TestPropertiesDrawTheSame(t *testing.T) {
	require.Empty(t, drawsApart(loadModule(t)), `these use rapid; import _ "`+modulePath+`/internal/testkit" in a test`)
	rapid := "package p\nimport _ \"pgregory.net/rapid\"\n"
	kit := "package p\nimport _ \"" + modulePath + "/internal/testkit\"\n"
	require.Equal(t, []string{"a"}, drawsApart(parseModule(t,
		source{"a/a_test.go", rapid}, source{"b/b_test.go", rapid}, source{"b/c_test.go", kit}, source{"c/c.go", rapid})))
}

// The table itself is in order: no rule allows what stands below it.
func TestRulesAreInOrder(t *testing.T) {
	place := map[string]int{}
	for i, r := range rules {
		require.NotContains(t, place, r.pkg)
		for _, dir := range r.may {
			require.Contains(t, place, dir, "%s may import %s, which stands no higher", r.pkg, dir)
		}
		require.NotEmpty(t, r.why)
		place[r.pkg] = i
	}
}

func TestImportCheckerCatches(t *testing.T) {
	file := func(name string, imports ...string) source {
		text := "package p\n"
		for _, i := range imports {
			text += "import _ " + strconv.Quote(i) + "\n"
		}
		return source{name, text}
	}
	of := func(pkg string) string { return modulePath + "/" + pkg }
	for _, c := range []struct {
		file source
		want string
	}{
		{file("fabric/flow.go", of("sim"), of("serving")),
			"fabric/flow.go:3: fabric may not import serving: the fabric moves bytes and knows neither requests nor kernels"},
		{file("sim/engine.go", of("internal/units")),
			"sim/engine.go:2: sim may not import internal/units: the kernel knows events and time, and nothing of what they mean"},
		{file("topology/g.go", of("workload")), "topology/g.go:2: topology may not import workload: a graph exists"},
		{file("scenarios/s.go", of("report")), "scenarios may not import report"},
		{file("experiment/e.go", of("report")), "experiment may not import report"},
		{file("report/r.go", of("cmd/tgssim")), "report may not import cmd/tgssim"},
		{file("serving/paged/p.go", of("metrics")), "serving/paged may not import metrics"},
		{file("fabric/packet/p.go", of("serving/paged")), "fabric/packet may not import serving/paged"},
		{file("fabricate/p.go", of("sim")), "package fabricate has no rule"},
		{file("fabric/p.go", of("fabricate")), "fabric may not import fabricate"},
		{file("internal/config/c.go", of("sim")), "internal/config may not import sim"},
		{file("serving/s.go", of("topology/topologytest")), "only tests may use a test kit"},
		{file("topology/topologytest/k.go", of("serving")), "topology/topologytest may not import serving"},
	} {
		broken := checkImports(parseModule(t, c.file))
		require.Len(t, broken, 1, "%s", c.file.name)
		require.Contains(t, broken[0], c.want)
	}
	require.Empty(t, checkImports(parseModule(t,
		file("fabric/flow.go", "fmt", of("sim"), of("routing"), of("fabric/packet"), "example.com/serving"),
		file("fabric/flow_test.go", of("serving"), of("topology/topologytest")),
		file("fabric/packet/p.go", of("fabric"), of("topology")),
		file("topology/topologytest/k.go", of("topology"), of("internal/units")),
		file("metrics/metricstest/k.go", of("topology/topologytest")),
		file("cmd/tgssim/main.go", of("report"), of("experiment"), of("sim")),
	)))
}
