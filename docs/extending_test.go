package docs

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The example of a controller is the one that congestion compiles and tests.
func TestExampleOfAController(t *testing.T) {
	code, err := os.ReadFile("../congestion/example_test.go")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(code), "// AIMDConfig is")
	require.True(t, ok)
	example, _, ok := strings.Cut("// AIMDConfig is"+rest, "\n// end of the example")
	require.True(t, ok)
	text, err := os.ReadFile("extending.md")
	require.NoError(t, err)
	_, _, body, err := cut(string(text), "example")
	require.NoError(t, err)
	require.Equal(t, "```go\n"+example+"```\n", body)
}
