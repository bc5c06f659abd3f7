package main

import (
	"bytes"
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
