package plot

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// docs/plots.md shows every preset, and its pictures are pictures and light.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../docs/plots.md")
	require.NoError(t, err)
	size := 0
	for _, p := range Presets() {
		require.Contains(t, string(text), "**"+p.Name+"**")
		require.Contains(t, string(text), "(plots/"+p.Name+".svg)")
		require.Contains(t, string(text), "--preset "+p.Name+" -o docs/plots/"+p.Name+".svg")
		svg, err := os.ReadFile(filepath.Join("../docs/plots", p.Name+".svg"))
		require.NoError(t, err)
		texts := strings.Join(textsOf(t, svg), "\n")
		require.Contains(t, texts, p.title)
		require.Contains(t, texts, "simulated with tgssim")
		require.Equal(t, p.Name == "ttft-breakdown", strings.Contains(texts, "fabric oversubscribed 4:1"), "where all runs have it")
		size += len(svg)
	}
	require.Less(t, size, 400_000)
}
