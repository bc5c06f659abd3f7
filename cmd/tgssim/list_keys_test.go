package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every key is listed with what it is, a section has its keys alone, and what is
// none is told the nearest.
func TestListKeys(t *testing.T) {
	list := func(args ...string) (string, string, int) {
		var stdout, stderr bytes.Buffer
		code := run(context.Background(), append([]string{"list", "keys"}, args...), &stdout, &stderr)
		return stdout.String(), stderr.String(), code
	}
	text, _, code := list("--json")
	require.Zero(t, code)
	var rows []keyRow
	require.NoError(t, json.Unmarshal([]byte(text), &rows))
	of := map[string]string{}
	for _, r := range rows {
		require.NotContains(t, of, r.Key)
		require.NotEmpty(t, r.About, r.Key)
		of[r.Key] = r.Of
	}
	for key, whose := range map[string]string{
		"congestion.gse.reorder_timeout": "both", "traffic.pattern": "fabric", "own_qps": "fabric", "workload.requests": "scenario",
		"scale.gpus.prefill": "scenario", "packet.faults[].link": "both", "cluster.nodes": "both",
	} {
		require.Equal(t, whose, of[key], key)
	}
	text, _, code = list()
	require.Zero(t, code)
	require.Equal(t, len(rows), strings.Count(text, "\n")-5, "a line for each, a head of two and three notes")
	require.Regexp(t, `network\.engine +text +flow, of fabrics packet\n`, text)

	text, _, code = list("congestion.gse", "traffic.hosts")
	require.Zero(t, code)
	require.Contains(t, text, "congestion.gse.reorder_timeout            50us         reorder_timeout is how long a missing container holds others")
	require.Contains(t, text, "traffic.hosts")
	require.NotContains(t, text, "congestion.dcqcn")
	require.NotContains(t, text, "traffic.bytes")

	_, complaint, code := list("congestion.gsee", "packet")
	require.Equal(t, 2, code)
	require.Equal(t, "error: there is no key or section \"congestion.gsee\"; did you mean congestion.gse?\n", complaint)
}
