package scenarios

import (
	"encoding"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write keys.tsv anew")

// comments are the structs of packages as they are written, by folder and name.
type comments map[string]map[string]*ast.StructType

// structs reads those of a folder.
func (c comments) structs(t *testing.T, folder string) map[string]*ast.StructType {
	if c[folder] != nil {
		return c[folder]
	}
	c[folder] = map[string]*ast.StructType{}
	files, err := filepath.Glob(folder + "/*.go")
	require.NoError(t, err)
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		require.NoError(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if x, ok := spec.Type.(*ast.StructType); ok {
					c[folder][spec.Name.Name] = x
				}
			}
			return true
		})
	}
	return c[folder]
}

// of is the comment of a field. One that stands without has that of the field
// before, if that names it.
func (c comments) of(t *testing.T, s reflect.Type, field string) string {
	folder := filepath.Join("..", strings.TrimPrefix(s.PkgPath(), "github.com/tgssim/tgssim/"))
	decl := c.structs(t, folder)[s.Name()]
	require.NotNil(t, decl, "%v", s)
	last := ""
	for _, f := range decl.Fields.List {
		text := f.Doc.Text()
		if text == "" {
			text = f.Comment.Text()
		}
		for _, name := range f.Names {
			if name.Name == field {
				if text == "" && regexp.MustCompile(`\b`+field+`\b`).MatchString(last) {
					text = last
				}
				return text
			}
		}
		if text != "" {
			last = text
		}
	}
	return ""
}

// terms are names of fields that are words of the field, too: they are the key only
// where they begin a comment.
var terms = []string{"CONGA", "HBM", "KV", "MoE", "MTP", "MTU", "SMs"}

// explain adds the comments of all keys of a struct.
func (c comments) explain(t *testing.T, path string, s reflect.Type, about map[string]string) {
	names := map[string]string{} // of fields: their keys
	for i := range s.NumField() {
		key, _, _ := strings.Cut(s.Field(i).Tag.Get("yaml"), ",")
		if key != "" && key != "-" {
			names[s.Field(i).Name] = key
		}
	}
	words, presets := regexp.MustCompile(`[A-Za-z0-9]+`), regexp.MustCompile(`see [A-Za-z]+Presets`)
	for i := range s.NumField() {
		f := s.Field(i)
		key, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case options == "inline":
			c.explain(t, path, f.Type, about)
			continue
		case key == "" || key == "-":
			continue
		}
		at := strings.TrimPrefix(path+"."+key, ".")
		text := presets.ReplaceAllString(strings.Join(strings.Fields(c.of(t, s, f.Name)), " "), "see tgssim list presets")
		begins := true
		about[at] = words.ReplaceAllStringFunc(text, func(w string) string {
			k, ok := names[w]
			if !ok || !begins && slices.Contains(terms, w) {
				k = w
			}
			begins = false
			return k
		})
		kind := f.Type
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		if kind.Kind() == reflect.Slice && kind.Elem().Kind() == reflect.Struct {
			at, kind = at+"[]", kind.Elem()
		}
		if kind.Kind() == reflect.Map {
			at, kind = at+".<name>", kind.Elem()
		}
		if kind.Kind() == reflect.Struct && !reflect.PointerTo(kind).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
			c.explain(t, at, kind, about)
		}
	}
}

// Every key says what it is, as the comment of its field does.
func TestKeyTexts(t *testing.T) {
	about, c := map[string]string{}, comments{}
	c.explain(t, "", reflect.TypeFor[Fabric](), about)
	c.explain(t, "", reflect.TypeFor[Scenario](), about) // what both have is said of scenarios
	c.explain(t, rulesKey, reflect.TypeFor[Scale](), about)
	var want strings.Builder
	for _, k := range Keys() {
		text := about[k.Path]
		require.NotEmpty(t, text, k.Path)
		require.NotContains(t, text, "\t")
		want.WriteString(k.Path + "\t" + text + "\n")
	}
	if *update {
		require.NoError(t, os.WriteFile("keys.tsv", []byte(want.String()), 0o644))
		return
	}
	require.Equal(t, want.String(), keyTexts, "go test ./scenarios -run TestKeyTexts -update")
}
