package validate

import (
	"slices"

	"github.com/tgssim/tgssim/experiment"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/scenarios"
)

// BoundTarget is the name of the one target that is no scenario: the lower bound
// on TPOT of "Insights into DeepSeek-V3" (arXiv 2505.09343), which
// has bytes but no computation, no start-up, no latency and no headers.
const BoundTarget = "ideal-ep-bound"

// Targets lists everything that there is to run, sorted: Names and BoundTarget.
func Targets() []string {
	all := append(Names(), BoundTarget)
	slices.Sort(all)
	return all
}

// boundOf is what the bound is of: 32 tokens per GPU and micro-batch, each to nine
// experts (eight and the shared one) on other GPUs, in two micro-batches and 61
// layers.
var boundOf = experiment.Bound{Tokens: 32, Experts: 9, Hidden: 7000, AllToAlls: 2 * 61}

// bound stands for the target where scenarios are listed and run. Each published
// figure is held to half of its last digit.
var bound = &scenarios.Scenario{
	Name: BoundTarget,
	Description: "no scenario: bytes of dispatch and combine alone, 32 tokens to 9 experts, two micro-batches, 61 layers; " +
		"400 Gb/s per GPU (NVL72: 900 GB/s)",
	Measured: []scenarios.Measurement{
		{Quantity: "alltoall", Value: 120.96, Unit: "us", Source: boundSource, Within: 100 * 0.005 / 120.96},
		{Quantity: "tpot", Value: 14.76, Unit: "ms", Source: boundSource, Within: 100 * 0.005 / 14.76},
		{Quantity: "tpot_nvl72", Value: 0.82, Unit: "ms", Source: boundSource, Within: 100 * 0.005 / 0.82},
	},
}

const boundSource = "Insights into DeepSeek-V3, arXiv 2505.09343"

// runBound sends every dispatch and combine of a decode step through an engine, one
// after the other.
func runBound(engine string) ([]Row, error) {
	of := boundOf
	of.Engine, of.Rate = engine, 400*units.Gbps
	first, step, err := of.Run()
	if err != nil {
		return nil, err
	}
	of.Rate = 7200 * units.Gbps
	_, nvl72, err := of.Run()
	if err != nil {
		return nil, err
	}
	simulated := []float64{first.Microseconds(), step.Milliseconds(), nvl72.Milliseconds()}
	var rows []Row
	for i, m := range bound.Measured {
		row := newRow(bound, i, m)
		row.take(simulated[i])
		rows = append(rows, row)
	}
	return rows, nil
}
