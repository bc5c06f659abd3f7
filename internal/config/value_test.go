package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func mustParse(t testing.TB, text string) *Tree {
	t.Helper()
	tree, err := Parse("f.yaml", []byte(text))
	require.NoError(t, err)
	return tree
}

const sample = `# a comment
b: {x: 1, w: "1", z: [1, two, "3", 4.50, true, "true", null, 2026-11-30]}
a.c: text with spaces
list:
  - {k: v}
  - - 1
    - []
  - {}
"quoted key": "line\nline"
empty: ""
block: |
  two
  lines
`

// What is written is seen in the order written, with its place and its type.
func TestValueSees(t *testing.T) {
	tree := mustParse(t, sample)
	top := tree.Value("")
	require.Equal(t, []string{"b", "a.c", "list", "quoted key", "empty", "block"}, top.Keys())
	require.True(t, top.IsMapping())
	b := tree.Value("b")
	require.Equal(t, "f.yaml:2", b.Where())
	require.Equal(t, `{x: 1, w: "1", z: [1, two, "3", 4.50, true, "true", null, 2026-11-30]}`, b.String())
	text, quoted := b.Get("x").Text()
	require.Equal(t, "1", text)
	require.False(t, quoted)
	text, quoted = b.Get("w").Text()
	require.Equal(t, "1", text)
	require.True(t, quoted)
	_, quoted = tree.Value("a.c").Text()
	require.False(t, quoted, "text needs no quotes to be text")
	items := tree.Value("list").Items()
	require.Len(t, items, 3)
	require.Equal(t, "f.yaml:5", items[0].Where())
	require.Equal(t, "[1, []]", items[1].String())
	require.Equal(t, "v", tree.Value("list[0].k").String())

	nothing := tree.Value("b.y")
	require.False(t, nothing.Written())
	require.False(t, nothing.IsScalar() || nothing.IsList() || nothing.IsMapping())
	require.Empty(t, nothing.Keys())
	require.Empty(t, nothing.Items())
	require.Empty(t, nothing.String()+nothing.Where())
	text, _ = nothing.Text()
	require.Empty(t, text)
	require.False(t, nothing.Get("x").Written())
	require.True(t, nothing.Equal(Value{}))
	require.False(t, nothing.Equal(b))
	require.False(t, b.Get("x").Equal(b.Get("w")), "a number is not text")
}

func TestPutAndDelete(t *testing.T) {
	tree := mustParse(t, "a: {b: 1}\nn: null\n")
	v, err := ParseValue("here", "[1, {x: 2}]")
	require.NoError(t, err)
	clone := tree.Clone()
	require.NoError(t, tree.Put("a.c.d", v))
	require.Equal(t, "[1, {x: 2}]", tree.Value("a.c.d").String())
	require.Equal(t, "here", tree.Where("a.c"))
	require.Equal(t, "f.yaml:1", tree.Where("a.b"))
	require.False(t, clone.Value("a.c").Written(), "a clone shares nothing")
	require.NoError(t, tree.Put("x", v))
	require.NoError(t, tree.Put("x[0]", v))
	require.Equal(t, "[1, {x: 2}]", v.String(), "what was put is a copy")

	require.EqualError(t, tree.Put("n.x", v), "here: n (f.yaml:2) is null; set it whole, as n={key: value}")
	require.EqualError(t, tree.Put("a b", v), `here: "a b" is not the path of a key`)

	tree.Delete("a.c.d")
	tree.Delete("a.nothing.at.all")
	tree.Delete("a.b.deeper")
	require.Equal(t, "{b: 1, c: {}}", tree.Value("a").String())
	tree.Delete("a")
	require.Equal(t, []string{"n", "x"}, tree.Value("").Keys())
}

func TestParseValueRefuses(t *testing.T) {
	for _, text := range []string{"", " ", "[1", "a: b: c", "x\ny", "&a 1", "1\n---\n2"} {
		_, err := ParseValue("--axis", text)
		require.ErrorContains(t, err, "--axis: ", "%q", text)
	}
}

// A tree that is written reads back as itself.
func TestYAMLRoundTrip(t *testing.T) {
	tree := mustParse(t, sample)
	text, err := tree.YAML()
	require.NoError(t, err)
	again := mustParse(t, string(text))
	require.True(t, tree.Value("").Equal(again.Value("")), "%s", text)
	twice, err := again.YAML()
	require.NoError(t, err)
	require.Equal(t, string(text), string(twice))
}

// FuzzYAML holds YAML to its word for every text that is a tree.
func FuzzYAML(f *testing.F) {
	f.Add(sample)
	f.Add("a: \"\\u2028\"\nb: 'x: #'\nc: 0x10\nd: ~\n")
	f.Add("a: [\"\\n\", \"- \", \" \", \"%\"]\n\"? \": {\"\": \"\"}\n")
	f.Fuzz(func(t *testing.T, text string) {
		tree, err := Parse("f", []byte(text))
		if err != nil {
			return
		}
		out, err := tree.YAML()
		if err != nil {
			return // a limit of the library, not a wrong text
		}
		again, err := Parse("f", out)
		require.NoError(t, err, "%q", out)
		require.True(t, tree.Value("").Equal(again.Value("")), "%q became %q", text, out)
		for _, k := range tree.Value("").Keys() {
			v := tree.Value("").Get(k)
			line := v.String()
			if len(line) > 1000 {
				continue
			}
			if w, err := ParseValue("o", line); err == nil {
				require.True(t, v.Equal(w), "%q on one line is %q", k, line)
			}
		}
	})
}
