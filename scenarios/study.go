package scenarios

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tgssim/tgssim/collective"
	"github.com/tgssim/tgssim/compute"
	"github.com/tgssim/tgssim/internal/config"
)

// A Study is a scenario as written, before it is checked: what may be varied, and
// the rules by which the rest follows. Every point of a sweep is a Scenario of
// one Study.
type Study struct {
	// Name is the library's or the file's name, without extension.
	Name string
	// Sweep is the file's section sweep.
	Sweep Sweep

	tree *config.Tree
	// files are those that the tree is made of, the one that extends all others
	// first.
	files []string
}

// A Setting is a key and the value that is laid over a scenario.
type Setting struct {
	Key   string
	Value config.Value
}

// Open reads a scenario as Load does, and leaves the checks to Study.Scenario.
func Open(ref string, assignments ...string) (*Study, error) {
	tree, files, err := library.tree(ref, assignments)
	if err != nil {
		return nil, err
	}
	s := &Study{Name: nameOf(ref), tree: tree, files: files}
	if v := tree.Value(sweepKey); v.Written() {
		var ps config.Problems
		s.Sweep = readSweep(v, &ps)
		tree.Delete(sweepKey)
		return s, ps.Err()
	}
	return s, nil
}

// Scenario lays the settings over the study, applies its scaling rules and
// checks the result. Errors are as Load's.
func (s *Study) Scenario(settings ...Setting) (*Scenario, error) {
	tree, rules, err := s.lay(settings)
	if err != nil {
		return nil, err
	}
	var derived []Derived
	if rules != nil {
		if derived, err = rules.apply(tree); err != nil {
			return nil, tree.Resolve(err)
		}
	}
	c := Default()
	if err := tree.Decode(&c); err != nil {
		return nil, err
	}
	c.tree, c.derived, c.Name = tree, derived, s.Name
	if t := c.Workload.Trace; t != nil {
		t.Path = relocate(tree, tracePath, t.Path)
	}
	if compute.IsProfilePath(c.GPU.Name) {
		c.GPU.Name = relocate(tree, gpuName, c.GPU.Name)
	}
	if compute.IsModelPath(c.Model.Name) {
		c.Model.Name = relocate(tree, modelName, c.Model.Name)
	}
	for _, x := range []struct {
		key string
		moe *collective.Config
	}{{prefillWeights, &c.Serving.Prefill.MoE}, {decodeWeights, &c.Serving.Decode.MoE}} {
		if r := x.moe.Routing; r != nil && r.Popularity.Path != "" {
			r.Popularity.Path = relocate(tree, x.key, r.Popularity.Path)
		}
	}
	c.derive()
	if err := c.Validate(); err != nil {
		return nil, c.Locate(err)
	}
	return &c, nil
}

// Decodes checks that the settings are keys of a scenario and their values of the
// right type, whatever else may be wrong.
func (s *Study) Decodes(settings ...Setting) error {
	tree := s.tree.Clone()
	var ps config.Problems
	places := map[string]bool{}
	for _, x := range settings {
		ps.Nest("", tree.Put(x.Key, x.Value))
		places[x.Value.Where()] = true
	}
	if err := ps.Err(); err != nil {
		return err
	}
	_, err := takeRules(tree)
	ps.Nest("", err)
	c := Default()
	ps.Nest("", tree.Decode(&c))
	ps = slices.DeleteFunc(ps, func(p config.Problem) bool { return !places[p.Where] })
	return ps.Err()
}

// Keys whose value is the path of a file; those of gpuName and modelName may be
// names instead.
const (
	tracePath      = "workload.trace.path"
	gpuName        = "gpu.name"
	modelName      = "model.name"
	prefillWeights = "prefill.moe.routing.popularity.path"
	decodeWeights  = "decode.moe.routing.popularity.path"
)

// fileKeys are those keys.
var fileKeys = []string{gpuName, modelName, tracePath, prefillWeights, decodeWeights}

// isFile tells whether the value of a key is the path of a file.
func isFile(key, text string) bool {
	return key == tracePath || key == prefillWeights || key == decodeWeights || key == gpuName && compute.IsProfilePath(text) ||
		key == modelName && compute.IsModelPath(text)
}

// lay returns the tree with the settings on it and without what its rules
// replace, and the rules, nil without any.
func (s *Study) lay(settings []Setting) (*config.Tree, *rules, error) {
	tree := s.tree.Clone()
	var ps config.Problems
	for _, x := range settings {
		ps.Nest("", tree.Put(x.Key, x.Value))
	}
	if err := ps.Err(); err != nil {
		return nil, nil, err
	}
	r, err := takeRules(tree)
	if err != nil || r == nil {
		return tree, nil, err
	}
	touches := func(key string) bool {
		return slices.ContainsFunc(settings, func(x Setting) bool { return overlap(x.Key, key) })
	}
	for _, key := range r.derives() {
		rule := s.layer(r.where(key), touches(rulesKey))
		if where := tree.Where(key); where != "" && s.layer(where, touches(key)) < rule {
			tree.Delete(key)
		}
	}
	return tree, r, nil
}

// layer ranks the places where something is written: a file below the files that
// extend it, those below the command line, and that below the settings of a
// point.
func (s *Study) layer(where string, set bool) int {
	if set {
		return len(s.files) + 1
	}
	for i, file := range s.files {
		if rest, ok := strings.CutPrefix(where, file); ok && (rest == "" || isLine(rest)) {
			return len(s.files) - 1 - i
		}
	}
	return len(s.files)
}

// isLine tells ":12".
func isLine(s string) bool {
	return len(s) > 1 && s[0] == ':' && strings.Trim(s[1:], "0123456789") == ""
}

// overlap tells whether one of two dotted keys is the other or a section around
// it.
func overlap(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	rest, ok := strings.CutPrefix(b, a)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// Overlap is whether two axes or settings would change the same thing.
func Overlap(a, b string) bool { return overlap(a, b) }

// YAML writes the study with the sweep given as one file that opens as an equal
// study, in whichever folder it lies: what it extends is in it, and paths are
// relative to the working directory.
func (s *Study) YAML(sweep Sweep) ([]byte, error) {
	tree := s.tree.Clone()
	if r, err := takeRules(tree.Clone()); err == nil && r != nil {
		for _, key := range r.derives() {
			if where := tree.Where(key); where != "" && s.layer(where, false) < s.layer(r.where(key), false) {
				tree.Delete(key)
			}
		}
	}
	for _, key := range fileKeys {
		v := tree.Value(key)
		text, _ := v.Text()
		if !v.IsScalar() || !isFile(key, text) {
			continue
		}
		if err := put(tree, "", key, quoted(relocate(tree, key, text))); err != nil {
			return nil, err
		}
	}
	if text := sweep.yaml(); text != "" {
		if err := put(tree, "", sweepKey, text); err != nil {
			return nil, err
		}
	}
	return tree.YAML()
}

// put lays YAML text over a tree, written at where.
func put(tree *config.Tree, where, key, text string) error {
	v, err := config.ParseValue(where, text)
	if err != nil {
		return err
	}
	return tree.Put(key, v)
}

// Files lists the files that the scenario reads with the settings laid over it,
// relative to the working directory.
func (s *Study) Files(settings ...Setting) (files []string) {
	tree := s.tree.Clone()
	for _, x := range settings {
		if tree.Put(x.Key, x.Value) != nil {
			return nil // Scenario says why
		}
	}
	for _, key := range fileKeys {
		v := tree.Value(key)
		if text, _ := v.Text(); v.IsScalar() && isFile(key, text) {
			files = append(files, relocateFrom(v.Where(), text))
		}
	}
	return files
}

// Seed is the seed without any settings.
func (s *Study) Seed() uint64 {
	text, _ := s.tree.Value("seed").Text()
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return n
	}
	return Default().Seed
}
