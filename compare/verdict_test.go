package compare

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/sweep"
)

// synthetic makes a pair of 160 GPUs out of series of measures.
func synthetic(a, b map[string][]float64) *Pair {
	p := &Pair{
		a: &Variant{Letter: "A", Cluster: &sweep.Cluster{GPUs: 160}},
		B: &Variant{Letter: "B", Cluster: &sweep.Cluster{GPUs: 160}, Differences: []Difference{{"congestion.algorithm", "dcqcn", "gse"}}},
	}
	n := 0
	for _, values := range a {
		n = len(values)
	}
	for r := range n {
		x := pairOfRuns{&Run{values: map[string]float64{}, Fingerprint: fmt.Sprint("a", r)}, &Run{values: map[string]float64{}, Fingerprint: fmt.Sprint("b", r)}}
		for key, values := range a {
			x.a.values[key] = values[r]
		}
		for key, values := range b {
			x.b.values[key] = values[r]
		}
		p.runs = append(p.runs, x)
	}
	p.compare()
	return p
}

type series = map[string][]float64

func TestVerdicts(t *testing.T) {
	// Differences of -10, -12, -8: mean -10, half 4.3027 x 2/sqrt(3) = 4.968.
	less := synthetic(
		series{"tgs_steady": {500, 510, 490}, "gpu_time_decode_dispatch": {0.1, 0.11, 0.09}, "gpu_time_decode_combine": {0.1, 0.1, 0.1}, "gpu_time_decode_host": {0.1, 0.1, 0.1}},
		series{"tgs_steady": {490, 498, 482}, "gpu_time_decode_dispatch": {0.12, 0.131, 0.109}, "gpu_time_decode_combine": {0.104, 0.105, 0.106}, "gpu_time_decode_host": {0.05, 0.051, 0.052}})
	require.Equal(t, "B has less TGS than A, significantly by 2.0 %: 490.0 against 500.0 tokens/s per GPU, -10.0 [-15.0, -5.0], "+
		"-1,600 tokens/s on its 160 GPUs; the decode GPUs spend 12 % of their time on exposed dispatch instead of 10 %.", less.Verdict)

	// Saturated at prefill, decode is not what limits it; prefill GPUs wait as before.
	for _, r := range less.runs {
		r.b.Saturation = "saturated (prefill queue)"
	}
	less.compare()
	require.Contains(t, less.Verdict, "; no share of the GPUs' waiting says why.")
	require.Equal(t, pools, less.limiting(+1), "A is not saturated")
	for _, r := range less.runs {
		r.b.Saturation = "saturated (KV transfer)"
	}
	less.compare()
	require.Contains(t, less.Verdict, "; the decode GPUs spend 12 %")

	more := synthetic(series{"tgs_steady": {490, 498, 482}}, series{"tgs_steady": {500, 510, 490}})
	require.Equal(t, "B has more TGS than A, significantly by 2.0 %: 500.0 against 490.0 tokens/s per GPU, +10.0 [+5.0, +15.0], "+
		"+1,600 tokens/s on its 160 GPUs; no share of the GPUs' waiting says why.", more.Verdict)

	// 10 and -8, 4: mean 2, s 9.165, half 22.77; t(0.8) of 2 degrees of freedom is
	// 1.0607, and 22.77 x (1 + 1.0607/4.3027) = 28.38.
	none := synthetic(
		series{"tgs_steady": {500, 510, 490}, "mean_ttft_ms": {100, 110, 120}, "ttft_ms_queue": {50, 50, 50}, "ttft_ms_transfer_queue": {1, 1, 1}},
		series{"tgs_steady": {510, 502, 494}, "mean_ttft_ms": {110, 121, 131}, "ttft_ms_queue": {51, 51.1, 51}, "ttft_ms_transfer_queue": {10, 11, 11}})
	require.Equal(t, "No significant difference in TGS: B - A is +2.00 [-20.8, +24.8] tokens/s per GPU, and a difference of 28.4 (5.7 %) "+
		"would be found four times in five; mean TTFT is 10.7 ms longer (120.7 against 110.0, [+9.2, +12.1]), "+
		"of which KV behind other traffic +9.67 ms.", none.Verdict)

	one := synthetic(series{"tgs_steady": {500}}, series{"tgs_steady": {490}})
	require.Equal(t, "B has less TGS than A in the one replication, 490.0 against 500.0 tokens/s per GPU.", one.Verdict)

	equal := synthetic(series{"tgs_steady": {500, 510}}, series{"tgs_steady": {500, 510}})
	require.Equal(t, "No difference in TGS: 505.0 tokens/s per GPU in both.", equal.Verdict)

	// Five nanoseconds are significant, and nothing to speak of.
	tiny := synthetic(series{"tgs_steady": {500, 510}, "mean_itl_ms": {12.68, 12.69}}, series{"tgs_steady": {500, 510}, "mean_itl_ms": {12.680005, 12.690005}})
	itl, _ := tiny.measure("mean_itl_ms")
	require.True(t, itl.Significant())
	require.Equal(t, "No difference in TGS: 505.0 tokens/s per GPU in both.", tiny.Verdict)

	whole := synthetic(series{"tgs": {500, 510}}, series{"tgs": {500, 510}})
	require.Equal(t, "No difference in TGS over the whole run: 505.0 tokens/s per GPU in both.", whole.Verdict)
	empty := synthetic(series{"tgs_steady": {0, 0}, "tgs": {5, 5}}, series{"tgs_steady": {0, 0}, "tgs": {5, 5}})
	require.Equal(t, "No difference in TGS over the whole run: 5.000 tokens/s per GPU in both.", empty.Verdict)
	require.Equal(t, "TGS is undefined.", synthetic(series{"x": {1, 2}}, series{"x": {1, 2}}).Verdict)

	// The letter is the variant's, and what one of them lacks is said.
	none.B.Letter = "C"
	for _, r := range none.runs {
		delete(r.b.values, "mean_ttft_ms")
	}
	none.compare()
	require.Contains(t, none.Verdict, "No significant difference in TGS: C - A is ")
	require.Equal(t, []string{"mean_ttft_ms"}, none.OneSided)
	r := &Result{Plan: &Plan{Replications: 3, Variants: []Variant{*none.a, *none.B}}, Pairs: []Pair{*none}}
	require.Contains(t, text(t, r), "Undefined in A or in C: mean_ttft_ms.")

	// Only the tail differs.
	tail := synthetic(series{"tgs": {5, 5, 5}, "mean_itl_ms": {20, 20, 20}, "p99_itl_ms": {40, 41, 42}},
		series{"tgs": {5, 5, 5}, "mean_itl_ms": {20, 20, 20}, "p99_itl_ms": {30, 31, 32}})
	require.Equal(t, "No difference in TGS over the whole run: 5.000 tokens/s per GPU in both; ITL p99 is 10.0 ms shorter (31.00 against 41.00, [-10.0, -10.0]).", tail.Verdict)
}

// Replications that are one and the same run have no chance in them.
func TestConstant(t *testing.T) {
	p := synthetic(series{"tgs": {5, 5, 5}}, series{"tgs": {6, 6, 6}})
	for _, r := range p.runs {
		r.a.Fingerprint, r.b.Fingerprint = "a", "b"
	}
	p.compare()
	require.True(t, p.Constant)
	require.Contains(t, p.Verdict, "B has more TGS over the whole run than A, exactly by 20 %")
	r := Result{Plan: &Plan{Replications: 3}, Pairs: []Pair{*p}}
	r.note()
	require.Contains(t, r.Notes[0], "All replications are the same run")
}

// Notes on the load.
func TestNotes(t *testing.T) {
	p := &Plan{Replications: 1, Variants: []Variant{{Letter: "A"}, {Letter: "B"}}}
	r := Result{Plan: p, Runs: []Run{{Variant: "A", Saturation: "keeping up"}, {Variant: "B", Saturation: "underloaded"}}}
	r.note()
	require.Len(t, r.Notes, 2)
	require.Contains(t, r.Notes[0], "One replication says nothing of chance")
	require.Contains(t, r.Notes[1], "keeps up in every run")
	r = Result{Plan: p, Runs: []Run{{Variant: "A", Saturation: "keeping up"}, {Variant: "B", Saturation: "saturated (prefill queue)", Lost: 3}}}
	r.note()
	require.Equal(t, "Saturated: B in 1 of 1 replications. Latencies then grow with the length of the run: compare throughput.", r.Notes[1])
	require.Contains(t, r.Notes[2], "3 of B")
}

// The widest figures fit into 100 columns.
func TestTableFits(t *testing.T) {
	for _, x := range []float64{0, 1e-9, 1, 12345.678, 1.23456789e9, 1e12} {
		a, b := series{}, series{}
		for _, m := range Measures() {
			a[m.Key], b[m.Key] = []float64{x, 2 * x, 3 * x}, []float64{-x, 5 * x, 7.7 * x}
		}
		p := synthetic(a, b)
		p.B.Label = "a very long label that does not fit into a line of a hundred columns, whatever one does with it, really"
		p.a.Label = "A"
		r := &Result{Plan: &Plan{Replications: 3, Variants: []Variant{*p.a, *p.B, *p.B}}, Pairs: []Pair{*p, *p}}
		require.NotEmpty(t, text(t, r))
	}
}

func TestFigures(t *testing.T) {
	require.Equal(t, "1,234,568", figure(1234567.8))
	require.Equal(t, "0.1235", figure(0.123456))
	require.Equal(t, "+12,346", signed(12345.6))
	require.Equal(t, "-0.0123", signed(-0.01234))
	require.Equal(t, "0", signed(-1e-12))
	require.Equal(t, "0", signed(0))
	require.Equal(t, "1.234567891", number(1.23456789123).String())
	require.Equal(t, "1.235e+12", figure(1.23456e12))
	require.Equal(t, "-1.235e+12", signed(-1.23456e12))
	require.Equal(t, "0.1", number(0.1000000000001).String())
}
