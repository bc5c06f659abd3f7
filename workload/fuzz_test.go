package workload

import (
	"bytes"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/sim"
)

var place = regexp.MustCompile(`^f:([0-9]+)$`)

// checkTrace reads any bytes: an error has a line of the file, and what is read
// keeps every promise and is what the plain reader reads.
func checkTrace(t *testing.T, data []byte, cfg TraceConfig) {
	trace, err := ReadTrace(bytes.NewReader(data), "f", cfg)
	if err != nil {
		var ps config.Problems
		require.ErrorAs(t, err, &ps)
		require.Len(t, ps, 1)
		m := place.FindStringSubmatch(ps[0].Where)
		require.NotNil(t, m, "%q", ps[0].Where)
		line, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		require.True(t, 1 <= line && line <= bytes.Count(data, []byte("\n"))+1, "line %d", line)
		require.NotEmpty(t, ps[0].Message)
		return
	}
	cfg.Path, cfg.Speedup = "f", 1e3
	g, err := trace.Replay(Config{Trace: &cfg})
	if err != nil {
		require.ErrorContains(t, err, "trace.speedup: ")
		return
	}
	src := g.Source(sim.Streams{})
	all := drain(src)
	s := src.Stats()
	requireOrdered(t, all, s)
	require.NotEmpty(t, all)
	require.Zero(t, all[0].Arrival)
	require.Equal(t, s.Trace.Rows, s.Trace.Skipped+s.Trace.Dropped+s.Trace.Unplayed+s.Requests)
	for _, r := range all {
		require.LessOrEqual(t, len(r.Blocks), blocksOf(r.PromptTokens, s.BlockTokens))
	}
	requireSlowRows(t, data, trace)
}

// requireSlowRows compares the rows with what the plain reader reads.
func requireSlowRows(t *testing.T, data []byte, trace *Trace) {
	rows, err := slowRead(data, trace.summary.Format)
	require.NoError(t, err)
	require.Len(t, rows, trace.summary.Rows)
	requests := slowReplay(rows, 1)
	if trace.summary.OutOfOrder > 0 {
		// Digits beyond the nanosecond may order rows that are tied here.
		require.Len(t, trace.rows, len(requests))
		return
	}
	earliest := rows[0].at
	for _, r := range rows {
		if r.prompt > 0 && r.output > 0 {
			earliest = r.at
			break
		}
	}
	for i, r := range trace.rows {
		if exact := requests[i].Arrival; exact < sim.Never {
			// A nanosecond for rounding both ends, and what float64 loses of a
			// number with an exponent.
			first, _ := earliest.Float64()
			require.InDelta(t, float64(exact)/1e3, float64(r.at-trace.rows[0].at), 1.1+(first+exact.Seconds())*1e9*0x1p-52)
		}
		require.Equal(t, requests[i].PromptTokens, int(r.prompt))
		require.Equal(t, requests[i].OutputTokens, int(r.output))
		require.Equal(t, len(requests[i].Blocks), int(r.blocks))
		for j, b := range requests[i].Blocks {
			require.Equal(t, b, trace.blocks[r.first+j])
		}
	}
}

func seeds(f *testing.F, files []string, more ...string) {
	for _, file := range files {
		data, err := os.ReadFile(sample(file))
		require.NoError(f, err)
		lines := bytes.SplitAfter(data, []byte("\n"))
		f.Add(bytes.Join(lines[:5], nil))
	}
	for _, text := range more {
		f.Add([]byte(text))
	}
}

func fuzzFormat(f *testing.F, form string) {
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg := DefaultTraceConfig("")
		checkTrace(t, data, cfg)
		cfg.Format = form
		checkTrace(t, data, cfg)
	})
}

func FuzzAzure(f *testing.F) {
	seeds(f, []string{"azure_2023.csv", "azure_2024.csv"},
		azureHead+"2024-01-01 00:00:00,1,1", "\uFEFF"+azureHead+"2024-01-01T00:00:00.5-07:30,1,0\r\n\r\n\"2024-01-01 00:00:00Z\",1,1\n",
		"a,GeneratedTokens,TIMESTAMP,ContextTokens\n\"x,\"\"y\"\"\",5,2024-02-29 00:00:00+08,7\n")
	fuzzFormat(f, FormatAzure)
}

func FuzzBurstGPT(f *testing.F) {
	seeds(f, []string{"burstgpt_1.csv", "burstgpt_3.csv"},
		"Timestamp,Request tokens,Response tokens\n5,1,1\n4.0000000005,2,2\n1e3,3,0\n", "Timestamp,Request tokens,Response tokens\n"+strings.Repeat("9", 30)+",1,1")
	fuzzFormat(f, FormatBurstGPT)
}

func FuzzMooncake(f *testing.F) {
	seeds(f, []string{"mooncake.jsonl", "bailian.jsonl"},
		`{"timestamp":0,"input_length":1,"output_length":1,"hash_ids":[18446744073709551615]}`,
		`{"timestamp":1.5e3,"x":{"a":[1,"]}\""],"b":null},"input_length":513,"output_length":1,"hash_ids":[ 1 , 2 ]}`,
		`{"timestamp":0,"timestamp":0,"input_length":1,"output_length":1}`, `{"Timestamp":0,"input_length":"1"}`)
	fuzzFormat(f, FormatMooncake)
}
