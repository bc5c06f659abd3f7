package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What cannot be is refused, with exit code 2, the key, and what it may be; in a file
// with its line.
func TestCongestionIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.yaml")
	require.NoError(t, os.WriteFile(file, []byte("extends: ls128-incast32\ncongestion:\n  preset: losy\n  ecn: {kmin: 2MB, kmax: 1MB}\n"), 0o644))
	for _, tc := range []struct{ set, says string }{
		{"", `mine.yaml:3: congestion.preset: "losy" is not a known preset; did you mean lossy?`},
		{"congestion.preset=lossy", "mine.yaml:4: congestion.ecn.kmax: 1MB is below kmin, 2MB"},
	} {
		refused(t, file, tc.says, tc.set)
	}
	for set, says := range map[string]string{
		"congestion.ecn.kmin=20MB":          "congestion.ecn.kmin: ports of 400Gbps would have a kmin of 20MB above their kmax",
		"congestion.ecn.pmax=1.01":          "congestion.ecn.pmax: 1.01 is out of range; use 0 to 1",
		"congestion.ecn.pmax=.nan":          "congestion.ecn.pmax: expected a number",
		"congestion.dcqcn.preset=mellanox":  "known: alibaba, conweave, hpcc-ns3, nvidia, paper, simai",
		"congestion.dcqcn.min_rate=800Gbps": "congestion.dcqcn.min_rate: 800Gbps is above the line rate, 400Gbps",
		"congestion.dcqcn.rate_ai=0bps":     "congestion.dcqcn.rate_ai: 0bps is out of range; use 1bps to",
		"congestion.timely.alpha=0":         "congestion.timely.alpha: 0 is out of range; use 0.001 to 1",
		"congestion.buffer.lossless=[8]":    "congestion.buffer.lossless[0]: 8 is not a priority; use 0 to 7",
		"congestion.buffer.size=1MB":        "congestion.buffer.size: 1MB of memory leave nothing to share",
		"packet.transport.ack_every=0":      "packet.transport.ack_every: 0 packets; use 1 to 1024",
		"packet.transport.recovery=gobackn": "did you mean go-back-n?",
	} {
		refused(t, "ls128-incast32", says, set)
	}
}

func refused(t *testing.T, ref, says, set string) {
	args := []string{"net", ref}
	if set != "" {
		args = append(args, "--set", set)
	}
	var stdout, stderr bytes.Buffer
	require.Equal(t, 2, run(context.Background(), args, &stdout, &stderr), set)
	require.Empty(t, stdout.String())
	require.Contains(t, stderr.String(), says)
}
