package testkit

import (
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestDraws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { t.Log(rapid.Uint64().Draw(t, "draw")) })
}

// Two processes draw the same, and another seed something else.
func TestDrawsAreTheSameInEveryRun(t *testing.T) {
	drawn := func(arguments ...string) []string {
		cmd := exec.Command(os.Args[0], append(arguments, "-test.run=^TestDraws$", "-test.v", "-rapid.v")...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		draws := regexp.MustCompile(`draw: \w+`).FindAllString(string(out), -1)
		require.GreaterOrEqual(t, len(draws), 100)
		return draws
	}
	t.Setenv("RAPID_SEED", "")
	os.Unsetenv("RAPID_SEED")
	first := drawn()
	require.Equal(t, first, drawn())
	require.NotEqual(t, first, drawn("-rapid.seed=2"))
}

func TestTable(t *testing.T) {
	before, after, body, err := Table("a\n<!-- x -->\nold\n<!-- /x -->\nb\n", "x")
	require.NoError(t, err)
	require.Equal(t, "a\n<!-- x -->\n", before)
	require.Equal(t, "<!-- /x -->\nb\n", after)
	require.Equal(t, "old\n", body)
	for _, text := range []string{"", "<!-- x -->\n", "<!-- /x -->\n<!-- x -->\n", "<!-- y -->\n<!-- /y -->\n"} {
		_, _, _, err := Table(text, "x")
		require.Error(t, err)
	}
}
