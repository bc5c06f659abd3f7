package main

import (
	"bytes"
	"context"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/compare"
)

// A run that fails is said, and the exit code is 1, whatever the limits say.
func TestCompareFailedRun(t *testing.T) {
	plan, err := compare.New(compare.Request{
		Refs: []string{"qwen3-30b-a3b-h20", "qwen3-30b-a3b-h20"}, Set: []string{"workload.requests=5"}, Replications: 2,
		Limits: []string{"tgs=-1%"},
	})
	require.NoError(t, err)
	plan.Variants[1].Scenario.Model.Name = "no-such"
	result, err := plan.Run(context.Background(), compare.Options{})
	require.NoError(t, err)
	var stdout bytes.Buffer
	cmd := &cobra.Command{}
	cmd.SetOut(&stdout)
	err = (&compareFlags{}).deliver(cmd, result)
	require.ErrorContains(t, err, "2 of 4 runs failed; the first is replication 0 of B: ")
	var coded *codedError
	require.NotErrorAs(t, err, &coded)
	require.Contains(t, stdout.String(), "* Failed: B, replication 1: ")
}
