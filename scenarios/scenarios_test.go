package scenarios

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/internal/config"
)

// complete is what a library scenario lacks on purpose.
func complete(name string) []string {
	if name == "azure-replay" {
		return []string{"workload.trace.path=../workload/testdata/azure_2023.csv"}
	}
	return nil
}

func TestLibraryLoads(t *testing.T) {
	names := Names()
	require.Contains(t, names, "deepseek-v3-h800-pd")
	for _, name := range names {
		s, err := Load(name, complete(name)...)
		require.NoError(t, err, name)
		require.Equal(t, name, s.Name)
		require.NotEmpty(t, s.Description, name)
		d, err := Description(name)
		require.NoError(t, err)
		require.Equal(t, s.Description, d)
	}
}

// The resolved text of a scenario is a scenario equal to it.
func TestResolvedRoundTrip(t *testing.T) {
	for _, name := range Names() {
		s, err := Load(name, complete(name)...)
		require.NoError(t, err)
		text, err := s.Resolved()
		require.NoError(t, err)
		file := filepath.Join(t.TempDir(), "resolved.yaml")
		// The trace's path is relative to the working directory, not to the file.
		text = []byte(strings.ReplaceAll(string(text), "../workload/", abs(t, "../workload")+"/"))
		require.NoError(t, os.WriteFile(file, text, 0o644))
		again, err := Load(file)
		require.NoError(t, err, name)
		twice, err := again.Resolved()
		require.NoError(t, err)
		require.Equal(t, string(text), string(twice), name)
	}
}

func abs(t *testing.T, path string) string {
	t.Helper()
	a, err := filepath.Abs(path)
	require.NoError(t, err)
	return a
}

// Files extend files, relative to themselves; what comes later wins; a section
// that is null is turned off.
func TestExtends(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	write("base/base.yaml", "extends: qwen3-30b-a3b-h20\nseed: 5\nworkload: {requests: 7}\n")
	write("mine.yaml", "extends: base/base.yaml\nworkload: {requests: 9}\ndecode: {max_batch_requests: 3}\n")
	s, err := Load(filepath.Join(dir, "mine.yaml"), "decode.max_batch_requests=4")
	require.NoError(t, err)
	require.Equal(t, "mine", s.Name)
	require.EqualValues(t, 5, s.Seed)
	require.Equal(t, 9, s.Workload.Requests)
	require.Equal(t, 4, s.Serving.Decode.MaxBatchRequests)
	require.Equal(t, "qwen3-30b-a3b", s.Model.Name)

	_, err = Load(filepath.Join(dir, "mine.yaml"), "decode.max_batch_requests=0")
	require.EqualError(t, err, "--set decode.max_batch_requests=0: decode.max_batch_requests: 0 is out of range: 1 to 65536")
}

// Who takes a fabric for a scenario, or the other way round, hears which command
// runs it.
func TestOnTheOtherShelf(t *testing.T) {
	_, err := Load("ls128-incast32")
	require.EqualError(t, err, `there is no scenario "ls128-incast32" in the library; it is a fabric: tgssim net ls128-incast32`)
	_, err = LoadFabric("kv-incast")
	require.EqualError(t, err, `there is no fabric "kv-incast" in the library; it is a scenario: tgssim run kv-incast`)
}

// FuzzLoad holds the whole loader to its word: any text is a scenario or a list
// of problems that name the file.
func FuzzLoad(f *testing.F) {
	for _, name := range Names() {
		text, err := files.ReadFile("library/" + name + ".yaml")
		require.NoError(f, err)
		f.Add(text)
	}
	f.Add([]byte("extends: ./fuzz.yaml\n"))
	f.Add([]byte("extends: deepseek-v3-h800-pd\nscale: {fabric: {radix: 64}, gpus: {prefill: 3, decode: 2}, load: {rate_per_gpu: 1/s}}\nsweep: {axes: {cluster.nodes: [1..4*2]}}\n"))
	f.Add([]byte("model: {name: qwen3-8b}\ngpu: {name: h20}\nworkload: {trace: {path: x, speedup: 1e300}}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file := filepath.Join(t.TempDir(), "fuzz.yaml")
		require.NoError(t, os.WriteFile(file, text, 0o644))
		s, err := Load(file)
		if err == nil {
			require.NoError(t, s.Validate())
			return
		}
		var ps config.Problems
		if errors.As(err, &ps) {
			for _, p := range ps {
				require.NotEmpty(t, p.Where, "%v", p)
				require.NotEmpty(t, p.Message)
			}
			return
		}
		require.ErrorContains(t, err, "fuzz.yaml")
	})
}
