package main

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/scenarios"
)

// Every preset that is listed can be set, by its key and name; another name is an
// error with the nearest one or all of them.
func TestListPresets(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(context.Background(), []string{"list", "presets", "--json"}, &stdout, &stderr))
	var rows []presetRow
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &rows))
	keys := map[string]int{}
	for _, r := range rows {
		_, err := scenarios.LoadFabric("ls128-incast32", r.Key+"="+r.Name)
		require.NoError(t, err)
		if keys[r.Key]++; keys[r.Key] == 1 {
			_, err := scenarios.LoadFabric("ls128-incast32", r.Key+"="+r.Name+"x")
			require.ErrorContains(t, err, "did you mean "+r.Name+"?")
			_, err = scenarios.LoadFabric("ls128-incast32", r.Key+"=zzzzzzzzzz")
			require.ErrorContains(t, err, "known: ")
		}
		require.NotEmpty(t, r.About)
	}
	require.Len(t, keys, 12)
	require.Equal(t, 8, keys["congestion.preset"])
	require.Equal(t, 6, keys["congestion.ecn.preset"])
	require.Equal(t, 6, keys["congestion.dcqcn.preset"])
}
