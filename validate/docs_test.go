package validate

import (
	"context"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/internal/testkit"
)

// readings are the set-ups that DeepSeek-V3's decode figure has been read as.
var readings = []struct {
	what        string
	assignments []string
}{
	{"as above: 2 query tokens, 60 % accepted, KV 4,096", nil},
	{"without the drafting module's own layer and head", []string{"decode.mtp.layers_per_draft=0"}},
	{"1 query token, KV 4,989", []string{"decode.mtp.query_tokens=1", "workload.prompt={dist: fixed, tokens: 4733}"}},
}

// networkReadings are what the network of DeepEP's measurements may have been: the
// rows' own, and what is said of them in the other columns.
var networkReadings = []struct {
	target  string
	columns [3][]string // as in the table; nil has nothing to show
}{
	{"deepep-low-latency-ep16-h800", lowLatencyReadings},
	{"deepep-low-latency-ep32-h800", lowLatencyReadings},
	{"deepep-low-latency-ep64-h800", lowLatencyReadings},
	{"deepep-low-latency-ep128-h800", lowLatencyReadings},
	{"deepep-low-latency-ep256-h800", lowLatencyReadings},
	{"deepep-normal-ep16-h800", normalReadings(4)},
	{"deepep-normal-ep32-h800", normalReadings(8)},
	{"deepep-normal-ep64-h800", normalReadings(16)},
	{"deepseek-v3-prefill-fabric-h800", normalReadings(8)},
}

var lowLatencyReadings = [3][]string{{"network.engine=ideal"}, {}, nil}

// normalReadings is for so many servers.
func normalReadings(nodes int) [3][]string {
	return [3][]string{{}, {"cluster.wiring=packed", fmt.Sprint("cluster.leaves=", nodes), "cluster.spines=8"}, {"prefill.moe.routing.group_choice=top2"}}
}

// read is a target with assignments, known without.
func read(t *testing.T, known map[string][]Row, target string, assignments []string) []Row {
	if len(assignments) == 0 {
		return known[target]
	}
	s, err := Load(target, assignments...)
	require.NoError(t, err)
	rows, err := Run(context.Background(), s)
	require.NoError(t, err)
	return rows
}

// networkTable is the errors of networkReadings; known are those of the targets as
// they are.
func networkTable(t *testing.T, known map[string][]Row) string {
	var b strings.Builder
	b.WriteString("| target | measured | no collisions | a leaf to a server, ECMP | DeepSeek-V3's choice of groups |\n|---|---|---|---|---|\n")
	for _, n := range networkReadings {
		var lines [2][]string
		for _, set := range n.columns {
			if set == nil {
				for i := range lines {
					lines[i] = append(lines[i], "-")
				}
				continue
			}
			for i, r := range read(t, known, n.target, set) {
				if len(lines[i]) == 0 {
					lines[i] = []string{r.Name, Figure(r.Measured) + " " + r.Unit}
				}
				lines[i] = append(lines[i], Percent(r.ErrorPct))
			}
		}
		for _, l := range lines {
			if len(l) > 3 {
				b.WriteString("| " + strings.Join(l, " | ") + " |\n")
			}
		}
	}
	return b.String()
}

// The tables of docs/validation.md are what comes out. They stand between
// the lines "<!-- name -->" and "<!-- /name -->".
func TestDocument(t *testing.T) {
	_, rows := all(t)
	const file = "../docs/validation.md"
	// What the page says in short is what the tables say.
	v := Judge(rows)
	var worst, left, lowLatency, normal, transfer float64
	known := map[string][]Row{}
	for _, r := range rows {
		target, _, _ := strings.Cut(r.Name, "/")
		known[target] = append(known[target], r)
		if r.Fit {
			worst, left = max(worst, math.Abs(r.ErrorPct)), max(left, math.Abs(r.LeaveOneOut.ErrorPct))
		}
		if strings.HasPrefix(r.Name, "deepep-low-latency") && r.WithinPct != nil {
			lowLatency = max(lowLatency, math.Abs(r.ErrorPct))
		}
		if strings.HasPrefix(r.Name, "deepep-normal") {
			normal = max(normal, math.Abs(r.ErrorPct))
		}
		if r.Quantity == "kv_transfer" {
			transfer = max(transfer, math.Abs(r.ErrorPct))
		}
	}
	var b strings.Builder
	b.WriteString("| read as | tokens/s/GPU | error | step, ms |\n|---|---|---|---|\n")
	for _, r := range readings {
		got := read(t, known, "deepseek-v3-decode-h800", r.assignments)
		b.WriteString("| " + strings.Join([]string{r.what, Figure(got[0].Simulated), Percent(got[0].ErrorPct), Figure(got[1].Simulated)}, " | ") + " |\n")
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	short := strings.Join(strings.Fields(string(text)), " ")
	require.Contains(t, short, fmt.Sprintf("are met within %.1f %%, with %.1f %% mean absolute error", worst, v.Mean))
	require.Contains(t, short, fmt.Sprintf("fitted to the other five, each is met within %.1f %%", left))
	require.Contains(t, short, fmt.Sprintf("within %.0f %% of DeepEP's low-latency kernels", math.Ceil(lowLatency)))
	require.Contains(t, short, fmt.Sprintf("within %.0f %% of its normal ones", math.Ceil(normal)))
	require.Contains(t, short, fmt.Sprintf("KV transfers are within %.0f %% of Mooncake's", math.Ceil(transfer)))
	for name, want := range map[string]string{"targets": Markdown(rows), "readings": b.String(), "paths": networkTable(t, known)} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		before, after, body, err := testkit.Table(string(text), name)
		require.NoError(t, err, file)
		if *update {
			require.NoError(t, os.WriteFile(file, []byte(before+want+after), 0o644))
			continue
		}
		require.Equal(t, want, body, "%s has drifted; go test ./validate -update rewrites it", file)
	}
}
