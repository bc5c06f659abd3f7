package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/sweep"
)

func TestSweepProgress(t *testing.T) {
	var out bytes.Buffer
	p := newSweepProgress(&out)
	p.report(sweep.Status{Runs: 3})
	p.clear()
	require.Empty(t, out.String(), "not a terminal")

	p.w = &out
	p.report(sweep.Status{Runs: 40, Done: 12, Running: 2, Elapsed: 34 * time.Second, Left: 80 * time.Second})
	require.Equal(t, "\r\x1b[K12 of 40 runs done, 2 under way, 34 s gone, about 80 s left", out.String())
	out.Reset()
	p.report(sweep.Status{Runs: 40, Failed: 1, Elapsed: 1234 * time.Millisecond})
	require.Equal(t, "\r\x1b[K0 of 40 runs done, 1 failed, 0 under way, 1.2 s gone", out.String())
}

// A table that is too wide loses what is the same everywhere, then the ends of
// labels, and nothing else.
func TestFit(t *testing.T) {
	header := []string{"point", "network", "GPUs", "uplinks", "oversub", "requests"}
	long := strings.Repeat("x", 90)
	rows := [][]string{{"0", "flow", "64", "8", "2:1", "100"}, {"1", "ideal", "128", "8", "2:1", "100"}}
	h, r, common := fit(header, rows, 2)
	require.Equal(t, header, h)
	require.Equal(t, rows, r)
	require.Empty(t, common, "it is narrow")

	rows[1][1] = long
	h, r, common = fit(header, rows, 2)
	require.Equal(t, []string{"point", "network", "GPUs", "requests"}, h)
	require.Equal(t, "at all points: uplinks 8, oversub 2:1", common)
	require.Equal(t, [][]string{{"0", "flow", "64", "100"}, {"1", strings.Repeat("x", 38) + "..", "128", "100"}}, r)
	require.LessOrEqual(t, width(h, r), screen)
	require.Equal(t, long, rows[1][1], "what came in is as it was")

	// So are their names, and labels that begin alike keep what differs.
	alike := strings.Repeat("y", 30)
	h, r, _ = fit([]string{"a " + long + long, "b"}, [][]string{{alike + "1", "x"}, {alike + "2", "x"}}, 1)
	require.Equal(t, "a "+long[:36]+"..", h[0])
	require.Equal(t, [][]string{{alike + "1", "x"}, {alike + "2", "x"}}, r)
	_, r, _ = fit([]string{"a", "b"}, [][]string{{long + "1", "x"}, {long + "2", "x"}}, 1)
	require.NotEqual(t, r[0][0], r[1][0])

	rows[0][3] = "16"
	h, _, common = fit(header, rows, 2)
	require.Equal(t, []string{"point", "network", "GPUs", "uplinks", "requests"}, h)
	require.Equal(t, "at all points: oversub 2:1", common)
	_, r, common = fit(header, rows[1:], 2)
	require.Empty(t, common, "one point has nothing in common")
	require.Len(t, r[0], len(header))
}

func TestIntervals(t *testing.T) {
	for want, m := range map[string]sweep.Mean{
		"-":            {},
		"453.4":        {N: 1, Mean: 453.4321},
		"453.4 +-2.1":  {N: 3, Mean: 453.4321, Half: 2.1234},
		"1318 +-2610":  {N: 3, Mean: 1318.4, Half: 2610.3},
		"0.1939 +-0":   {N: 2, Mean: 0.19394},
		"12.00 +-0.52": {N: 2, Mean: 12, Half: 0.5151},
	} {
		require.Equal(t, want, interval(m))
	}
	for want, s := range map[string]float64{"0.034 s": 0.0341, "9.5 s": 9.5, "132 s": 131.9, "17 min": 1000, "10 h": 36000} {
		require.Equal(t, want, roughly(s))
	}
}
