package scenarios

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A config.json is found beside the scenario file that names it, and the resolved
// scenario finds it again.
func TestModelByPath(t *testing.T) {
	structure, err := os.ReadFile(filepath.Join("..", "compute", "testdata", "hf", "qwen3-8b.json"))
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "Mine"), 0o755))
	config := filepath.Join(dir, "Mine", "config.json")
	require.NoError(t, os.WriteFile(config, structure, 0o644))
	file := filepath.Join(dir, "mine.yaml")
	require.NoError(t, os.WriteFile(file, []byte("extends: qwen3-30b-a3b-h20\nmodel: {name: Mine/config.json}\n"), 0o644))

	s, err := Load(file)
	require.NoError(t, err)
	require.Equal(t, config, s.Model.Name)
	m, text, err := s.Model.Load()
	require.NoError(t, err)
	require.Equal(t, "Mine", m.Name)
	require.Equal(t, structure, text)

	resolved, err := s.Resolved()
	require.NoError(t, err)
	other := filepath.Join(t.TempDir(), "resolved.yaml")
	require.NoError(t, os.WriteFile(other, resolved, 0o644))
	again, err := Load(other)
	require.NoError(t, err)
	require.Equal(t, config, again.Model.Name)

	_, err = Load(file, `model.name=""`)
	require.ErrorContains(t, err, "model.name: is missing: write one of `tgssim list models`, or the path of a config.json")
	_, err = Load(file, "model.weights=mxfp4")
	require.EqualError(t, err, "--set model.weights=mxfp4: model.weights: mxfp4 is of experts alone, as in their checkpoint: write bf16 or fp8")
	_, err = Load(file, "model.name=qwen3-9b")
	require.ErrorContains(t, err, "did you mean Qwen3-8B?")
	require.NoError(t, os.WriteFile(config, []byte("{\n\"architectures\": 3}"), 0o644))
	_, err = Load(file)
	require.EqualError(t, err, config+":2:1: architectures: must be a list, not 3")
	require.NoError(t, os.Remove(config))
	_, err = Load(file)
	require.EqualError(t, err, file+":2: model.name: there is no file "+config)
}
