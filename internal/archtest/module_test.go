package archtest

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const modulePath = "github.com/tgssim/tgssim"

// A source is a file by its path from the top of the module, and its text.
type source struct{ name, text string }

type goFile struct {
	// name is the path from the top of the module and pkg its directory.
	name, pkg string
	test      bool
	syntax    *ast.File
}

// A module is the parsed source of the module, in the order of the file names.
// Build tags are not looked at: the rules hold under all of them.
type module struct {
	set   *token.FileSet
	files []*goFile

	// What types finds out; see check.
	info     types.Info
	packages map[string]*types.Package
	standard types.Importer
}

// loadModule reads the module that this package belongs to.
func loadModule(t *testing.T) *module {
	const root = "../.."
	require.FileExists(t, filepath.Join(root, "go.mod"))
	var sources []source
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() {
			if name != root && (base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")) {
				return filepath.SkipDir
			}
			return nil
		}
		if path.Ext(base) != ".go" {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		sources = append(sources, source{filepath.ToSlash(rel), string(text)})
		return err
	})
	require.NoError(t, err)
	return parseModule(t, sources...)
}

func parseModule(t *testing.T, sources ...source) *module {
	m := &module{
		set:      token.NewFileSet(),
		packages: map[string]*types.Package{},
		info: types.Info{
			Types: map[ast.Expr]types.TypeAndValue{},
			Uses:  map[*ast.Ident]types.Object{},
		},
	}
	m.standard = importer.ForCompiler(m.set, "source", nil)
	for _, s := range sources {
		syntax, err := parser.ParseFile(m.set, s.name, s.text, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
		m.files = append(m.files, &goFile{
			name: s.name, pkg: path.Dir(s.name), test: strings.HasSuffix(s.name, "_test.go"), syntax: syntax,
		})
	}
	return m
}

func (m *module) line(p token.Pos) string {
	at := m.set.Position(p)
	return fmt.Sprintf("%s:%d", at.Filename, at.Line)
}

// exact lists the packages of the standard library whose types matter here. The
// others are replaced by empty ones, which is a hundred times faster.
var exact = []string{"cmp", "iter", "maps", "math", "math/bits", "slices", "sort"}

// Import implements types.Importer, from source.
func (m *module) Import(target string) (*types.Package, error) {
	if pkg, ok := strings.CutPrefix(target, modulePath+"/"); ok {
		return m.check(pkg), nil
	}
	if slices.Contains(exact, target) {
		return m.standard.Import(target)
	}
	name := path.Base(target)
	if strings.HasPrefix(name, "v") && strings.Trim(name[1:], "0123456789") == "" {
		name = path.Base(path.Dir(target))
	}
	empty := types.NewPackage(target, name)
	empty.MarkComplete()
	return empty, nil
}

// check finds the types of a package as well as they can be found without the
// rest of the standard library, and leaves out what they depend on.
func (m *module) check(pkg string) *types.Package {
	if p, ok := m.packages[pkg]; ok {
		return p
	}
	var files []*ast.File
	for _, f := range m.files {
		if f.pkg == pkg && !f.test {
			files = append(files, f.syntax)
		}
	}
	m.packages[pkg] = types.NewPackage(modulePath+"/"+pkg, path.Base(pkg)) // against import cycles
	config := types.Config{Importer: m, Error: func(error) {}, FakeImportC: true}
	p, _ := config.Check(modulePath+"/"+pkg, m.set, files, &m.info)
	m.packages[pkg] = p
	return p
}

// imported returns the path of the package that e names, or "".
func (m *module) imported(e ast.Expr) string {
	id, ok := e.(*ast.Ident)
	if !ok {
		return ""
	}
	if p, ok := m.info.Uses[id].(*types.PkgName); ok {
		return p.Imported().Path()
	}
	return ""
}
