package archtest

import (
	"fmt"
	"go/ast"
	"go/types"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// simulation lists the packages whose code runs inside a simulation, where the
// same scenario and seed must give the same bits on every machine.
var simulation = []string{
	"sim", "topology", "workload", "compute", "experts", "congestion", "routing", "fabric", "collective", "serving", "metrics", "calibrate",
	"internal/units", "internal/detmath",
}

func inSimulation(pkg string) bool {
	return !isKit(pkg) && slices.ContainsFunc(simulation, func(dir string) bool { return within(pkg, dir) })
}

const (
	clock    = "a run knows no wall clock; its time is sim.Engine's"
	rounding = "its last bits differ between CPUs (assembly, fused multiply-add); use internal/detmath"
	global   = "randomness comes from the named streams of package sim"
)

// banned lists what a simulation may not call, by package and name, with the
// reason.
var banned = map[string]map[string]string{
	"time": reasons(clock, "Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"),
	"math": reasons(rounding, "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atan2", "Atanh", "Cbrt", "Cos", "Cosh",
		"Erf", "Erfc", "Erfcinv", "Erfinv", "Exp", "Exp2", "Expm1", "FMA", "Gamma", "Hypot", "J0", "J1", "Jn", "Lgamma",
		"Log", "Log10", "Log1p", "Log2", "Logb", "Pow", "Sin", "Sincos", "Sinh", "Tan", "Tanh", "Y0", "Y1", "Yn"),
	"math/rand/v2": reasons(global, "ExpFloat64", "Float32", "Float64", "Int", "Int32", "Int32N", "Int64", "Int64N",
		"IntN", "N", "NormFloat64", "Perm", "Shuffle", "Uint", "Uint32", "Uint32N", "Uint64", "Uint64N", "UintN",
		"NewZipf"),
}

// bannedImports lists what a simulation may not import at all.
var bannedImports = map[string]string{
	"math/rand":   global,
	"crypto/rand": global,
}

func reasons(why string, names ...string) map[string]string {
	m := map[string]string{}
	for _, n := range names {
		m[n] = why
	}
	return m
}

// checkPurity returns a line for each thing in the simulation packages that
// could make two runs differ. Its knowledge of maps is that of the types it can
// find without most of the standard library: it misses a map that another
// library returns.
func checkPurity(m *module) []string {
	var broken []string
	for _, f := range m.files {
		if f.test || !inSimulation(f.pkg) {
			continue
		}
		m.check(f.pkg)
		p := purity{module: m, file: f}
		for _, spec := range f.syntax.Imports {
			target := strings.Trim(spec.Path.Value, `"`)
			if why, ok := bannedImports[target]; ok {
				p.report(spec, "imports %s: %s", target, why)
			}
			if spec.Name != nil && spec.Name.Name == "." {
				p.report(spec, "imports %s into its own names: it hides what is called", target)
			}
		}
		for _, d := range f.syntax.Decls {
			p.function, _ = d.(*ast.FuncDecl)
			if p.function != nil && p.function.Recv == nil && p.function.Name.Name == "init" {
				p.report(d, "has an init function: variants are chosen by name in a table, not by registration")
			}
			ast.Inspect(d, p.visit)
		}
		broken = append(broken, p.broken...)
	}
	return broken
}

type purity struct {
	*module
	file     *goFile
	function *ast.FuncDecl
	broken   []string
}

func (p *purity) report(n ast.Node, format string, args ...any) {
	p.broken = append(p.broken, fmt.Sprintf("%s: %s %s", p.line(n.Pos()), p.file.pkg, fmt.Sprintf(format, args...)))
}

func (p *purity) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		p.report(n, "starts a goroutine: a run is one goroutine; parallelism is across runs")
	case *ast.SelectorExpr:
		p.selector(n)
	case *ast.CallExpr:
		if p.collects(n) && !p.explained(n) {
			p.report(n, "collects from a map: its order is random; use slices.Sorted")
		}
	case *ast.RangeStmt:
		if p.unordered(n) && !p.explained(n) && !p.sorted(n) {
			p.report(n, "ranges over a map: its order is random; sort the keys, or say in an `// order:` comment why it cannot matter")
		}
	}
	return true
}

func (p *purity) selector(n *ast.SelectorExpr) {
	name, from := n.Sel.Name, p.imported(n.X)
	// detmath is where the exact functions are made, of math.FMA among others.
	if why, ok := banned[from][name]; ok && !(from == "math" && name == "FMA" && p.file.pkg == "internal/detmath") {
		p.report(n, "uses %s.%s: %s", from, name, why)
	}
	if from == "" && (name == "NormFloat64" || name == "ExpFloat64") {
		p.report(n, "draws a %s of math/rand: it calls math.Exp and math.Log; use internal/detmath", name)
	}
}

// unordered says whether a loop goes over a map, itself or by maps.Keys and the
// like, and sees its entries.
func (p *purity) unordered(n *ast.RangeStmt) bool {
	if isBlank(n.Key) && isBlank(n.Value) {
		return false // only counts
	}
	if p.calls(n.X, "maps", "Keys", "Values", "All") {
		return true
	}
	t := p.info.TypeOf(n.X)
	if t == nil {
		return false
	}
	_, ok := t.Underlying().(*types.Map)
	return ok
}

// collects says whether a call makes a slice of a map's entries as they come.
func (p *purity) collects(n *ast.CallExpr) bool {
	return p.calls(n, "slices", "Collect", "AppendSeq") && slices.ContainsFunc(n.Args, func(arg ast.Expr) bool {
		return p.calls(arg, "maps", "Keys", "Values", "All")
	})
}

// calls says whether e calls one of the names of a package.
func (p *purity) calls(e ast.Expr, pkg string, names ...string) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	s, ok := call.Fun.(*ast.SelectorExpr)
	return ok && p.imported(s.X) == pkg && slices.Contains(names, s.Sel.Name)
}

func isBlank(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return e == nil || ok && id.Name == "_"
}

// explained says whether an `// order:` comment stands above or behind.
func (p *purity) explained(n ast.Node) bool {
	line := p.set.Position(n.Pos()).Line
	for _, group := range p.file.syntax.Comments {
		first, last := p.set.Position(group.Pos()).Line, p.set.Position(group.End()).Line
		if (last == line-1 || first == line) && strings.Contains(group.Text(), "order:") {
			return true
		}
	}
	return false
}

// sorted recognises a loop that only collects the keys into a slice which the
// same function then sorts.
func (p *purity) sorted(n *ast.RangeStmt) bool {
	if len(n.Body.List) != 1 || p.function == nil {
		return false
	}
	assign, ok := n.Body.List[0].(*ast.AssignStmt)
	if !ok || len(assign.Lhs) != 1 {
		return false
	}
	keys, ok := assign.Lhs[0].(*ast.Ident)
	call, isCall := assign.Rhs[0].(*ast.CallExpr)
	if !ok || !isCall {
		return false
	}
	if fun, ok := call.Fun.(*ast.Ident); !ok || fun.Name != "append" {
		return false
	}
	found := false
	ast.Inspect(p.function, func(m ast.Node) bool {
		call, ok := m.(*ast.CallExpr)
		if !ok || call.Pos() < n.End() || len(call.Args) == 0 {
			return true
		}
		s, ok := call.Fun.(*ast.SelectorExpr)
		arg, isIdent := call.Args[0].(*ast.Ident)
		if ok && isIdent && arg.Name == keys.Name {
			from := p.imported(s.X)
			found = found || from == "sort" || from == "slices" && strings.HasPrefix(s.Sel.Name, "Sort")
		}
		return true
	})
	return found
}

func TestSimulationIsPure(t *testing.T) {
	for _, line := range checkPurity(loadModule(t)) {
		t.Error(line)
	}
}

func TestPurityCheckerCatches(t *testing.T) {
	config := source{"topology/config.go", "package topology\n\ntype Names map[string]int\n\nfunc All() Names { return nil }\n"}
	for _, c := range []struct{ text, want string }{
		{`import "time"; var t = time.Now()`, "uses time.Now: a run knows no wall clock"},
		{`import clock "time"; func f() { clock.Sleep(1) }`, "uses time.Sleep"},
		{`func f() { go f() }`, "starts a goroutine"},
		{`func init() {}`, "has an init function"},
		{`import "math"; var x = math.Exp(2)`, "uses math.Exp: its last bits differ between CPUs"},
		{`import "math"; var x = math.FMA(2, 3, 4)`, "uses math.FMA"},
		{`import "math"; var f = []func(float64) float64{math.Log}`, "uses math.Log"},
		{`import m "math"; func f(math int) float64 { return m.Pow(2, 3) }`, "uses math.Pow"},
		{`import . "math"; var x = Exp(2)`, "imports math into its own names"},
		{`import "math/rand"; var x = rand.Int()`, "imports math/rand"},
		{`import "math/rand/v2"; var x = rand.IntN(3)`, "uses math/rand/v2.IntN: randomness comes from the named streams"},
		{`import "math/rand/v2"; func f(r *rand.Rand) float64 { return r.NormFloat64() }`, "draws a NormFloat64"},
		{`var m map[int]int; func f() { for k := range m { println(k) } }`, "ranges over a map: its order is random"},
		{`type s struct { m map[int]int }; func (s *s) f() { for _, v := range s.m { println(v) } }`, "ranges over a map"},
		{`import "github.com/tgssim/tgssim/topology"; func f() { for k := range topology.All() { println(k) } }`, "ranges over a map"},
		{`import "maps"; func f(m map[int]int) { for k := range maps.Keys(m) { println(k) } }`, "ranges over a map"},
		{`import ("maps"; "slices"); func f(m map[int]int) []int { return slices.Collect(maps.Keys(m)) }`, "collects from a map"},
		{`import "maps"; func f(m map[int]int) { for k := range maps.Clone(m) { println(k) } }`, "ranges over a map"},
		{"// sorted, in order\nfunc f(m map[int]int) { for k := range m { println(k) } }", "ranges over a map"},
		{`func f(m map[int]int) (ks []int) { for k := range m { ks = append(ks, k) }; return ks }`, "ranges over a map"},
		{`import "slices"; func f(m map[int]int) (ks, o []int) { for k := range m { ks = append(ks, k) }; slices.Sort(o); return ks }`, "ranges over a map"},
		{`import "slices"; func f(m map[int]int) (ks []int) { slices.Sort(ks); for k := range m { ks = append(ks, k) }; return ks }`, "ranges over a map"},
	} {
		broken := checkPurity(parseModule(t, config, source{"fabric/flow.go", "package fabric\n" + c.text + "\n"}))
		require.Len(t, broken, 1, "%s", c.text)
		require.Contains(t, broken[0], "fabric/flow.go:", "%s", c.text)
		require.Contains(t, broken[0], ": fabric "+c.want, "%s", c.text)
	}
	for _, text := range []string{
		`import "time"; const d = time.Second; var t, _ = time.Parse("", "")`,
		`import "math"; var x = math.Sqrt(2) + math.Floor(2) + math.Inf(1)`,
		`type m struct{ Exp func(int) int }; func f(math m) int { return math.Exp(1) }`,
		`import "math/rand/v2"; func f(r *rand.Rand) int { return rand.New(rand.NewPCG(1, 2)).IntN(3) + r.IntN(4) }`,
		`import rand "github.com/tgssim/tgssim/internal/detmath"; var x = rand.NormFloat64()`,
		`func f(s []int) { for k := range s { println(k) } }`,
		`func f(m map[int]int) { for range m { println() }; for _ = range m { println() } }`,
		"func f(m map[int]int) {\n\t// order: a sum of integers\n\tfor _, v := range m { println(v) }\n}",
		"func f(m map[int]int) {\n\tfor _, v := range m { // order: a sum of integers\n\t\tprintln(v)\n\t}\n}",
		`import "slices"; func f(m map[int]int) (ks []int) { for k := range m { ks = append(ks, k) }; slices.Sort(ks); return ks }`,
		`import "sort"; func f(m map[string]int) (ks []string) { for k := range m { ks = append(ks, k) }; sort.Strings(ks); return ks }`,
		`import ("maps"; "slices"); func f(m map[int]int) { for _, k := range slices.Sorted(maps.Keys(m)) { println(k) } }`,
		`type engine struct{}; func (engine) init() {}`,
	} {
		require.Empty(t, checkPurity(parseModule(t, config, source{"fabric/flow.go", "package fabric\n" + text + "\n"})), "%s", text)
	}
	// Elsewhere, in tests and in test kits these are fine.
	text := "package p\nimport \"time\"\nfunc init() { go time.Now() }\n"
	for _, name := range []string{"experiment/run.go", "fabric/flow_test.go", "fabric/fabrictest/kit.go", "cmd/tgssim/main.go", "simulator/s.go"} {
		require.Empty(t, checkPurity(parseModule(t, source{name, text})), "%s", name)
	}
	require.Len(t, checkPurity(parseModule(t, source{"fabric/packet/p.go", text})), 3)
	require.Empty(t, checkPurity(parseModule(t, source{"internal/detmath/d.go", "package detmath\nimport \"math\"\nvar x = math.FMA(1, 2, 3)\n"})))
}
