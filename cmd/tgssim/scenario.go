package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tgssim/tgssim/scenarios"
)

// scenarioFlags are the flags of every command that loads a scenario.
type scenarioFlags struct {
	set  []string
	seed string
}

func (f *scenarioFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.set, "set", nil, "set a key of the scenario: `a.b=c` (repeatable)")
	cmd.Flags().StringVar(&f.seed, "seed", "", "the `number` that all randomness comes from (default: the scenario's)")
}

// load reads the scenario and lays the flags over it.
func (f *scenarioFlags) load(cmd *cobra.Command, ref string) (*scenarios.Scenario, error) {
	assignments, err := f.assignments(cmd)
	if err != nil {
		return nil, err
	}
	s, err := scenarios.Load(ref, assignments...)
	return s, invalid(err)
}

// assignments are the flags as "a.b=c", the seed last.
func (f *scenarioFlags) assignments(cmd *cobra.Command) ([]string, error) {
	if !cmd.Flags().Changed("seed") {
		return f.set, nil
	}
	if _, err := strconv.ParseUint(f.seed, 10, 64); err != nil {
		return nil, invalid(&badSeed{f.seed})
	}
	return append(f.set, "seed="+f.seed), nil
}

type badSeed struct{ text string }

func (e *badSeed) Error() string {
	return "--seed " + strconv.Quote(e.text) + " is not a whole number from 0 to 18446744073709551615"
}
