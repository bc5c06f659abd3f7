package workload_test

import (
	"fmt"
	"strings"

	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/workload"
)

// Ten minutes of bursty arrivals with the prompt mix of the IETF benchmark.
func Example() {
	source, err := workload.New(workload.Config{
		Duration: 600 * sim.Second,
		Arrivals: &workload.ArrivalConfig{Process: workload.ProcessGamma, Rate: 20, CV: 2},
		Prompt:   &workload.LengthConfig{Dist: workload.DistZipf, Alpha: 1, Min: 128, Max: 8192},
		Output:   &workload.LengthConfig{Dist: workload.DistLognormal, Mean: 300, CV: 1, Max: 4096},
	}, sim.Streams{Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	for r, ok := source.Next(); ok; r, ok = source.Next() {
		if r.ID < 3 {
			fmt.Printf("%d at %v: %d prompt tokens, %d output tokens\n", r.ID, r.Arrival, r.PromptTokens, r.OutputTokens)
		}
	}
	s := source.Stats()
	fmt.Printf("%d requests, %.1f/s, %.0f and %.0f tokens on average\n", s.Requests, float64(s.Rate()), s.MeanPrompt(), s.MeanOutput())
	// Output:
	// 0 at 52.655323058ms: 534 prompt tokens, 140 output tokens
	// 1 at 53.743742277ms: 4557 prompt tokens, 57 output tokens
	// 2 at 54.160125575ms: 990 prompt tokens, 305 output tokens
	// 11854 requests, 19.8/s, 1954 and 297 tokens on average
}

// A malformed row is reported with its line before anything runs.
func ExampleReadTrace() {
	const file = `TIMESTAMP,ContextTokens,GeneratedTokens
2024-05-10 00:00:00.009930+00:00,2162,5
2024-05-10 00:00:00.017335+00:00,2399,six
`
	_, err := workload.ReadTrace(strings.NewReader(file), "code.csv", workload.DefaultTraceConfig("code.csv"))
	fmt.Println(err)
	// Output: code.csv:3: GeneratedTokens: "six" is not a whole number; 0 to 10000000 is valid
}
