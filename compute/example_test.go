package compute_test

import (
	"fmt"

	"github.com/tgssim/tgssim/compute"
)

// What one decode step of Qwen3-8B-FP8 takes on one H20: 64 requests with a
// context of 5,120 tokens each.
func ExampleRank_Decode() {
	gpu, err := compute.LoadProfile("H20")
	if err != nil {
		fmt.Println(err)
		return
	}
	model, err := compute.LoadModel("Qwen3-8B")
	if err != nil {
		fmt.Println(err)
		return
	}
	rank, err := compute.NewRank(compute.Setup{GPU: gpu, Model: model, Weights: compute.FP8})
	if err != nil {
		fmt.Println(err)
		return
	}
	const requests, context = 64, 5120
	t := rank.Decode(requests, requests*context, 1)
	layers := float64(rank.DenseLayers())
	step := layers*(t.AttnIn+t.AttnOut+t.DenseMLP).Milliseconds() + t.Head.Milliseconds()
	fmt.Printf("step %.1f ms, %.0f tokens/s (measured: 2682)\n", step, requests/step*1e3)
	fmt.Printf("KV of %d tokens fits\n", rank.Memory().KVTokens())
	// Output:
	// step 24.2 ms, 2646 tokens/s (measured: 2682)
	// KV of 521936 tokens fits
}

// A setup that does not fit says what would.
func ExampleNewRank() {
	gpu, _ := compute.LoadProfile("H800")
	model, _ := compute.LoadModel("DeepSeek-V3")
	_, err := compute.NewRank(compute.Setup{GPU: gpu, Model: model, EP: 8})
	fmt.Println(err)
	// Output:
	// ep: weights need 100.8 GB per GPU at TP1 EP8, 28.8 GB more than the 72 GB usable of H800 80GB; EP16 would fit
}

// The table behind `tgssim list gpus`.
func ExampleProfile_FitTable() {
	gpu, _ := compute.LoadProfile("H20")
	for _, row := range gpu.FitTable() {
		switch {
		case row.Status == compute.Assumed:
			fmt.Printf("%-18s assumed: %s\n", row.Class, row.Note)
		case row.MedianPct == 0:
			fmt.Printf("%-18s %s\n", row.Class, row.Note)
		default:
			fmt.Printf("%-18s %.1f %% median, %.1f %% p95\n", row.Class, row.MedianPct, row.P95Pct)
		}
	}
	// Output:
	// gemm_fp8           3.1 % median, 8.5 % p95
	// gemm_bf16          assumed: no bf16 data on H20: the fp8 constants against the bf16 peak
	// grouped_contiguous 2.2 % median, 13.2 % p95
	// grouped_masked     7.6 % median, 24.3 % p95
	// gqa_decode         5.8 % median, 25.2 % p95
	// mla_decode         10.3 % median, 14.8 % p95
	// gqa_prefill        3.0 % median, 7.5 % p95
	// mla_prefill        assumed: not measured on H20
	// elementwise        set, not fitted; no error of its own is known
	// launch_gap         one trace; no spread is known
}
