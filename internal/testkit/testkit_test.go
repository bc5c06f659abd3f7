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
