package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/internal/config"
)

func TestNearest(t *testing.T) {
	known := []string{"leaves", "spines", "link_rate", "hop_latency", "tp", "ep", "dcqcn", "ecmp"}
	for _, c := range []struct{ name, want string }{
		{"leaves", "leaves"},
		{"leafs", "leaves"},
		{"leavse", "leaves"}, // a swap is one edit
		{"spine", "spines"},
		{"Spines", "spines"},
		{"linkRate", "link_rate"},
		{"link-rate", "link_rate"},
		{"link rate", "link_rate"},
		{"hop_latncey", "hop_latency"},
		{"DCQCN", "dcqcn"},
		{"dcqn", "dcqcn"},
		{"emcp", "ecmp"},
		{"pp", ""}, // two letters: every edit makes another name
		{"TP", "tp"},
		{"width", ""},
		{"", ""},
		{"spray", ""},
	} {
		require.Equal(t, c.want, config.Nearest(c.name, known), "%q", c.name)
	}
	require.Equal(t, "abcd", config.Nearest("abce", []string{"abcd", "abcf"}), "the first of equals")
	require.Equal(t, "abcf", config.Nearest("abcff", []string{"abcdd", "abcf"}), "the nearest, not the first")
	require.Empty(t, config.Nearest("a", nil))
}

func TestSuggest(t *testing.T) {
	require.Equal(t, "; did you mean ecmp?", config.Suggest("emcp", []string{"spray", "ecmp"}))
	require.Equal(t, "; known: ecmp, spray", config.Suggest("int", []string{"ecmp", "spray"}))
	require.Empty(t, config.Suggest("int", nil))
	many := []string{"a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9", "b1", "b2", "b3", "b4"}
	require.Equal(t, "; known: a1, a2, a3, a4, a5, a6, a7, a8, a9, b1, b2, b3, ... (13 in all)", config.Suggest("other", many))
}

// naive is the optimal string alignment distance from its recursive definition.
func naive(a, b string) int {
	if a == "" || b == "" {
		return len(a) + len(b)
	}
	i, j := len(a)-1, len(b)-1
	cost := 1
	if a[i] == b[j] {
		cost = 0
	}
	d := min(naive(a[:i], b[:j])+cost, naive(a[:i], b)+1, naive(a, b[:j])+1)
	if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
		d = min(d, naive(a[:i-1], b[:j-1])+1)
	}
	return d
}

func TestDistance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[abc]{0,6}`)
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		require.Equal(t, naive(a, b), config.Distance(a, b))
	})
}

// One slip of the finger in a name of three letters or more is always found.
func TestNearestFindsOneSlip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z_]{3,12}`).Draw(t, "name")
		i := rapid.IntRange(0, len(name)-2).Draw(t, "at")
		slip := rapid.SampledFrom([]string{
			name[:i] + "X" + name[i:],
			name[:i] + "X" + name[i+1:],
			name[:i] + name[i+1:],
			name[:i] + name[i+1:i+2] + name[i:i+1] + name[i+2:],
		}).Draw(t, "slip")
		require.Equal(t, name, config.Nearest(slip, []string{"quite_another_name_0", name}))
	})
}
