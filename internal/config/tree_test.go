package config_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/internal/config"
)

// Bytes that a story cannot hold.
func TestParseRefusesCharacters(t *testing.T) {
	for _, c := range []struct{ data, want string }{
		{"a: 1\nb: \xff\n", "f.yaml:2: byte 0xff is not UTF-8 text"},
		{"a: 1\nb: \xc3", "f.yaml:2: byte 0xc3 is not UTF-8 text"},
		{"\xff\xfea\x00:\x00", "f.yaml:1: byte 0xff is not UTF-8 text"},
		{"a: \xed\xa0\x80", "f.yaml:1: byte 0xed is not UTF-8 text"},
		{"a: 1\n\nb: \x00\n", "f.yaml:3: character U+0000 is not allowed; write it as an escape in double quotes"},
		{"a: \x1b[0m", "f.yaml:1: character U+001B is not allowed; write it as an escape in double quotes"},
		{"a: \x7f", "f.yaml:1: character U+007F is not allowed; write it as an escape in double quotes"},
		{"a: 1\rb: 2", "f.yaml:1: character U+000D is not allowed; write it as an escape in double quotes"},
		// Line breaks to YAML but not to an editor, so that lines would be miscounted.
		{"# \u2028\na: 1", "f.yaml:1: character U+2028 is not allowed; write it as an escape in double quotes"},
		{"# \u0085\na: 1", "f.yaml:1: character U+0085 is not allowed; write it as an escape in double quotes"},
		{"a: \uFEFF1", "f.yaml:1: character U+FEFF is not allowed; write it as an escape in double quotes"},
		{"a: 1\n\t\n", "f.yaml:2: a tab in the indentation; use spaces"},
		{"a: 1\n \t# comment\n", "f.yaml:2: a tab in the indentation; use spaces"},
	} {
		tree, err := config.Parse("f.yaml", []byte(c.data))
		require.Nil(t, tree, "%q", c.data)
		require.EqualError(t, err, c.want, "%q", c.data)
		require.ErrorAs(t, err, new(config.Problems))
	}
}

func TestParseTakesWhatEditorsWrite(t *testing.T) {
	tree, err := config.Parse("f.yaml", []byte("\uFEFF# notes\r\nname: a\r\ndescription: \"\\u2028 \\x1b\"\r\nseed: 3"))
	require.NoError(t, err)
	var s scenario
	require.NoError(t, tree.Decode(&s))
	require.Equal(t, scenario{Name: "a", Description: "\u2028 \x1b", Seed: 3}, s)
	require.Equal(t, "f.yaml:4", place(t, tree, "seed"))
}

func TestParseBounds(t *testing.T) {
	big := "name: " + strings.Repeat("a", 1<<20-len("name: "))
	_, err := config.Parse("f.yaml", []byte(big))
	require.NoError(t, err)
	_, err = config.Parse("f.yaml", []byte(big+"a"))
	require.EqualError(t, err, "f.yaml: 1048577 bytes are too many for such a file; the limit is 1048576")

	// What is deeper than allowed by far is refused as well, and not by a crash.
	for _, open := range []string{"[", "{a: ", "- ", "? "} {
		_, err = config.Parse("f.yaml", []byte("a: \n "+strings.Repeat(open, 9000)))
		require.Error(t, err)
		_, err = config.Parse("f.yaml", []byte(strings.Repeat(open, 1<<18)))
		require.Error(t, err)
	}
	_, err = config.Parse("f.yaml", []byte("a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]"))
	require.ErrorContains(t, err, "f.yaml:3: c[1]: aliases (*b) are not supported")
}

// The cost of finding the line of an error in a large file is bounded.
func TestSyntaxErrorInLargeFile(t *testing.T) {
	data := strings.Repeat("a: 1\n", 1<<15) + "b: \"open\n" + strings.Repeat("c: 1\n", 1<<14)
	_, err := config.Parse("f.yaml", []byte(data))
	require.ErrorContains(t, err, "is a quote left open?")

	data = strings.Repeat("# \n", 1<<15) + "a: 1\n b: 2\n" + strings.Repeat("c: 1\n", 1<<14)
	_, err = config.Parse("f.yaml", []byte(data))
	require.ErrorContains(t, err, fmt.Sprintf("f.yaml:%d: mapping values are not allowed", 1<<15+2))
}

func TestSetBounds(t *testing.T) {
	tree := parse(t, "a: 1")
	before := tree.Dump(true)
	require.EqualError(t, tree.Set("a=\"x\ny\""),
		`--set a="x\ny": the value has more than one line; write a list as [a, b] and a mapping as {a: 1}`)
	require.ErrorContains(t, tree.Set("a="+strings.Repeat("x", 1<<20+1)), "are too many")
	require.ErrorContains(t, tree.Set("a=\xff"), "byte 0xff is not UTF-8 text")
	require.ErrorContains(t, tree.Set("b.c="+strings.Repeat("[", 40)+strings.Repeat("]", 40)), "nested deeper than 32 levels")
	require.Equal(t, before, tree.Dump(true))
}

func TestResolveKeepsWhatItIsGiven(t *testing.T) {
	tree := parse(t, "seed: 3")
	require.NoError(t, tree.Resolve(nil))
	require.NoError(t, tree.Resolve(config.Problems{}))
	plain := errors.New("no Problems")
	require.Same(t, plain, tree.Resolve(plain))

	ps := config.Problems{{Key: "seed", Message: "m", Where: "elsewhere"}, {Message: "whole"}, {Key: "seed", Message: "n"}}
	err := tree.Resolve(fmt.Errorf("wrapped: %w", ps))
	require.EqualError(t, err, "elsewhere: seed: m\nf.yaml: whole\nf.yaml:1: seed: n")
	require.Empty(t, ps[1].Where, "the problems given are not changed")

	require.EqualError(t, tree.Resolve(config.Problems{{Key: "name", Message: "m"}}),
		"f.yaml: name: m (not written)", "nothing was decoded, so no default is known")
}

func TestMergeLeavesTheUpperTreeAlone(t *testing.T) {
	base, over := parse(t, "a: {x: 1}"), parse(t, "a: {y: {z: 1}}\nb: [1, {c: 2}]")
	before := over.Dump(true)
	base.Merge(over)
	require.NoError(t, base.Set("a.y.z=2"))
	require.NoError(t, base.Set("b[1].c=3"))
	require.Equal(t, before, over.Dump(true))
	merged := base.Dump(true)
	base.Merge(base)
	require.Equal(t, merged, base.Dump(true))
}

func parse(t require.TestingT, data string) *config.Tree {
	tree, err := config.Parse("f.yaml", []byte(data))
	require.NoError(t, err)
	return tree
}

func place(t *testing.T, tree *config.Tree, key string) string {
	var ps config.Problems
	ps.Addf(key, "m")
	require.ErrorAs(t, tree.Resolve(ps), &ps)
	return ps[0].Where
}

// A doc is the model of a tree: the second implementation of Merge and Set.
type doc struct {
	keys   []string
	values map[string]any // string or *doc
}

func newDoc() *doc { return &doc{values: map[string]any{}} }

func (d *doc) put(key string, v any) {
	if _, ok := d.values[key]; !ok {
		d.keys = append(d.keys, key)
	}
	d.values[key] = v
}

// String writes the model in flow style.
func (d *doc) String() string {
	var parts []string
	for _, k := range d.keys {
		parts = append(parts, fmt.Sprintf("%s: %s", k, d.values[k]))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// block writes the model in block style, so that each value has a line.
func (d *doc) block(b *bytes.Buffer, indent string) {
	for _, k := range d.keys {
		if sub, ok := d.values[k].(*doc); ok && len(sub.keys) > 0 {
			fmt.Fprintf(b, "%s%s:\n", indent, k)
			sub.block(b, indent+" ")
			continue
		}
		fmt.Fprintf(b, "%s%s: %s\n", indent, k, d.values[k])
	}
	if indent == "" && len(d.keys) == 0 {
		b.WriteString("{}\n")
	}
}

func (d *doc) parse(t require.TestingT, file string) *config.Tree {
	var b bytes.Buffer
	d.block(&b, "")
	tree, err := config.Parse(file, b.Bytes())
	require.NoError(t, err, "%s", &b)
	return tree
}

// drawDoc draws a document in which the name tells mappings from other values.
func drawDoc(t *rapid.T, depth int) *doc {
	d := newDoc()
	for range rapid.IntRange(0, 4).Draw(t, "keys") {
		if depth > 0 && rapid.Bool().Draw(t, "mapping") {
			d.put(rapid.SampledFrom([]string{"M", "N", "O.P"}).Draw(t, "section"), drawDoc(t, depth-1))
		} else {
			d.put(rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "key"), drawValue(t))
		}
	}
	return d
}

func drawValue(t *rapid.T) string {
	return rapid.SampledFrom([]string{"1", "a", `"8"`, "[1, {a: b}]", "null", "[]", "1.5", "20/s", "'it''s'", "~"}).Draw(t, "value")
}

func mergeModel(base, over *doc) *doc {
	out := newDoc()
	for _, k := range base.keys {
		out.put(k, base.values[k])
	}
	for _, k := range over.keys {
		b, isDoc := base.values[k].(*doc)
		o, both := over.values[k].(*doc)
		if isDoc && both {
			out.put(k, mergeModel(b, o))
		} else {
			out.put(k, over.values[k])
		}
	}
	return out
}

// Merge agrees with a model of plain maps, and is associative, places included,
// where the documents agree on what is a mapping. (Where they do not, it cannot
// be: {m: {a: 1}}, {m: 0}, {m: {b: 2}} loses a only from the left.)
func TestMergeProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawDoc(t, 3), drawDoc(t, 3), drawDoc(t, 3)

		left := a.parse(t, "a")
		left.Merge(b.parse(t, "b"))
		require.Equal(t, mergeModel(a, b).parse(t, "m").Dump(false), left.Dump(false))
		left.Merge(c.parse(t, "c"))

		right := b.parse(t, "b")
		right.Merge(c.parse(t, "c"))
		all := a.parse(t, "a")
		all.Merge(right)
		require.Equal(t, left.Dump(true), all.Dump(true))

		same := a.parse(t, "a")
		same.Merge(a.parse(t, "a"))
		require.Equal(t, a.parse(t, "a").Dump(true), same.Dump(true))
		same.Merge(parse(t, "{}"))
		require.Equal(t, a.parse(t, "a").Dump(false), same.Dump(false))
	})
}

// Set gives the tree that editing the file would, and changes no other place.
func TestSetEqualsEditing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDoc(t, 3)
		tree := d.parse(t, "f.yaml")
		at, path := d, ""
		for range rapid.IntRange(0, 3).Draw(t, "depth") {
			// A dotted name is reached only where it is written.
			names := []string{"M", "N"}
			if _, ok := at.values["O.P"]; ok {
				names = append(names, "O.P")
			}
			name := rapid.SampledFrom(names).Draw(t, "step")
			if at.values[name] == nil {
				at.put(name, newDoc())
			}
			at, path = at.values[name].(*doc), path+name+"."
		}
		key, value := rapid.SampledFrom([]string{"x", "y", "w"}).Draw(t, "last"), drawValue(t)
		at.put(key, value)
		require.NoError(t, tree.Set(path+key+"="+value))
		require.Equal(t, d.parse(t, "f.yaml").Dump(false), tree.Dump(false))
		require.Contains(t, tree.Dump(true), " @--set "+path+key+"="+value)
	})
}

func FuzzSet(f *testing.F) {
	for _, s := range []string{
		"seed=3", "topology.leaves=8", "pools[0].tp=4", "pools[1]={role: a}", "mix.a.b.share=1", "a=[1, {b: c}]",
		"a", "=", "a..b=1", "a=\"", "a=#", "topology=null", "topology.leaves.x=1", "a= &b *b", "a=!!x y", "a=? b",
	} {
		f.Add(s)
	}
	const file = "seed: 1\ntopology:\n  leaves: 4\npools:\n  - {tp: 1}\n  - {tp: 2}\nmix: {a.b: {share: 1}}\n"
	f.Fuzz(func(t *testing.T, assignment string) {
		tree, untouched := parse(t, file), parse(t, file).Dump(true)
		if err := tree.Set(assignment); err != nil {
			require.ErrorAs(t, err, new(config.Problems))
			require.Equal(t, untouched, tree.Dump(true))
			return
		}
		path, _, ok := strings.Cut(assignment, "=")
		require.True(t, ok)
		require.True(t, strings.HasPrefix(place(t, tree, strings.TrimSpace(path)), "--set "))
		once := tree.Dump(true)
		require.NoError(t, tree.Set(assignment))
		require.Equal(t, once, tree.Dump(true))
		checkDecode(t, tree)
	})
}

func TestWhere(t *testing.T) {
	tree := parse(t, "a:\n  b: 1\nc: [1, {d: 2}]")
	require.NoError(t, tree.Set("a.e=3"))
	for key, want := range map[string]string{
		"": "f.yaml", "a": "f.yaml:1", "a.b": "f.yaml:2", "a.e": "--set a.e=3", "c[1].d": "f.yaml:3",
		"a.x": "", "a.b.c": "", "c[2]": "", "x": "",
	} {
		require.Equal(t, want, tree.Where(key), "%q", key)
	}
}
