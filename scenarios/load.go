package scenarios

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tgssim/tgssim/internal/config"
)

//go:embed library/*.yaml fabrics/*.yaml
var files embed.FS

// A shelf is one kind of ready-made scenario, with the command that runs it.
type shelf struct{ folder, what, verb string }

// The shelves: whole clusters, and fabrics alone.
var (
	library = shelf{"library", "scenario", "run"}
	fabrics = shelf{"fabrics", "fabric", "net"}
)

// libraryPrefix marks ready-made scenarios in messages.
const libraryPrefix = "library:"

// maxExtends bounds a chain of scenarios that extend each other.
const maxExtends = 16

// Names lists the library, sorted; FabricNames the fabrics.
func Names() []string { return library.names() }

// FabricNames lists the ready-made fabrics, sorted; see LoadFabric.
func FabricNames() []string { return fabrics.names() }

func (s shelf) names() []string {
	names, err := fs.Glob(files, s.folder+"/*.yaml")
	if err != nil {
		return nil
	}
	for i, f := range names {
		names[i] = strings.TrimSuffix(path.Base(f), ".yaml")
	}
	return names
}

// Load reads a scenario: one of the library by name, or a file by path (a name
// with a slash or ending in .yaml or .yml). The assignments, "a.b=c", are laid
// over it. Whatever is wrong comes back as config.Problems, each with the file
// and line, the key, and what would be right. Its scaling rules are applied; see
// Open for the axes that it may be swept over.
func Load(ref string, assignments ...string) (*Scenario, error) {
	s, err := Open(ref, assignments...)
	if err != nil {
		return nil, err
	}
	return s.Scenario()
}

// load reads a scenario and decodes it into dst, which holds the defaults.
func (s shelf) load(ref string, assignments []string, dst any) (*config.Tree, error) {
	tree, _, err := s.tree(ref, assignments)
	if err != nil {
		return nil, err
	}
	return tree, tree.Decode(dst)
}

// tree reads a scenario and lays the assignments over it. files are those that it
// is made of, the named one first.
func (s shelf) tree(ref string, assignments []string) (tree *config.Tree, files []string, err error) {
	if tree, err = s.read(ref, "", "", &files); err != nil {
		return nil, nil, err
	}
	var ps config.Problems
	for _, a := range assignments {
		ps.Nest("", tree.Set(a))
	}
	return tree, files, ps.Err()
}

func nameOf(ref string) string {
	return strings.TrimSuffix(strings.TrimSuffix(filepath.Base(ref), ".yml"), ".yaml")
}

// relocate finds the file that a scenario file names under key: beside that file,
// or else in the working directory, which is what a run's own scenario.yaml
// means. A path given on the command line stays relative to where that runs.
func relocate(tree *config.Tree, key, file string) string {
	return relocateFrom(tree.Where(key), file)
}

// relocateFrom does it for a path that was written at where.
func relocateFrom(where, file string) string {
	colon := strings.LastIndexByte(where, ':')
	if file == "" || filepath.IsAbs(file) || colon < 0 ||
		strings.HasPrefix(where, "--") || strings.HasPrefix(where, libraryPrefix) {
		return file
	}
	beside := filepath.Join(filepath.Dir(where[:colon]), file)
	if _, err := os.Stat(beside); err != nil {
		if _, err := os.Stat(file); err == nil {
			return file
		}
	}
	return beside
}

// isPath tells a path from a name of the library.
func isPath(ref string) bool {
	return strings.ContainsAny(ref, `/\`) || strings.HasSuffix(ref, ".yaml") || strings.HasSuffix(ref, ".yml")
}

// read parses a scenario and what it extends. dir is where a relative path
// starts; from is where it was extended, and chain the scenarios that led here,
// to which those that are read are added.
func (s shelf) read(ref, dir, from string, chain *[]string) (*config.Tree, error) {
	file, data, err := s.open(ref, dir)
	if err != nil {
		return nil, err
	}
	refuse := func(format string, args ...any) error {
		return config.Problems{{Key: "extends", Where: from, Message: fmt.Sprintf(format, args...)}}
	}
	if slices.Contains(*chain, file) {
		return nil, refuse("goes round in a circle: %s", strings.Join(append(*chain, file), " -> "))
	}
	if *chain = append(*chain, file); len(*chain) > maxExtends {
		return nil, refuse("more than %d scenarios deep", maxExtends)
	}
	tree, err := config.Parse(file, data)
	if err != nil {
		return nil, err
	}
	var base string
	where, err := tree.Take("extends", &base)
	if err != nil {
		return nil, err
	}
	if where == "" {
		return tree, nil
	}
	parent, err := s.read(base, filepath.Dir(file), where, chain)
	if err != nil {
		var missing *notFound
		if errors.As(err, &missing) {
			return nil, config.Problems{{Key: "extends", Where: where, Message: missing.Error()}}
		}
		return nil, err
	}
	parent.Merge(tree)
	return parent, nil
}

// notFound is a scenario that does not exist.
type notFound struct{ message string }

func (e *notFound) Error() string { return e.message }

// open finds a scenario and returns its name for messages and its text.
func (s shelf) open(ref, dir string) (file string, data []byte, err error) {
	if !isPath(ref) {
		data, err := files.ReadFile(s.folder + "/" + ref + ".yaml")
		if err == nil {
			return libraryPrefix + ref + ".yaml", data, nil
		}
		hint := config.Suggest(ref, s.names())
		for _, other := range []shelf{library, fabrics} {
			if slices.Contains(other.names(), ref) {
				hint = fmt.Sprintf("; it is a %s: tgssim %s %s", other.what, other.verb, ref)
			}
		}
		if _, err := os.Stat(filepath.Join(dir, ref)); err == nil {
			hint = fmt.Sprintf("; for the file write ./%s", ref)
		}
		return "", nil, &notFound{fmt.Sprintf("there is no %s %q in the library%s", s.what, ref, hint)}
	}
	file = ref
	if !filepath.IsAbs(ref) && dir != "" {
		file = filepath.Join(dir, ref)
	}
	data, err = readFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil, &notFound{fmt.Sprintf("there is no %s file %s", s.what, file)}
	case err != nil:
		var cause *fs.PathError
		if errors.As(err, &cause) {
			err = cause.Err
		}
		return "", nil, &notFound{fmt.Sprintf("cannot read %s %s: %v", s.what, file, err)}
	}
	return file, data, nil
}

// maxScenario bounds a scenario file; config.Parse refuses larger ones.
const maxScenario = 1<<20 + 1

// readFile reads a regular file, as far as a scenario can be long.
func readFile(name string) ([]byte, error) {
	if info, err := os.Stat(name); err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxScenario))
}

// Description returns the one-line description of a scenario of the library. It
// does not require the scenario to be complete.
func Description(name string) (string, error) { return library.description(name) }

// FabricDescription is Description of a ready-made fabric.
func FabricDescription(name string) (string, error) { return fabrics.description(name) }

func (s shelf) description(name string) (string, error) {
	tree, err := s.read(name, "", "", new([]string))
	if err != nil {
		return "", err
	}
	var d string
	_, err = tree.Take("description", &d)
	return d, err
}
