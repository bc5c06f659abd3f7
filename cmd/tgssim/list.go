package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tgssim/tgssim/congestion"
	"github.com/tgssim/tgssim/routing"
	"github.com/tgssim/tgssim/scenarios"
)

func newList() *cobra.Command {
	list := &cobra.Command{
		Use:   "list",
		Short: "List the scenarios, fabrics, GPUs, models, presets or keys that are known",
		Args:  knownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, what := range []struct {
		name, short string
		rows        func([]string) (listing, error)
	}{
		{"scenarios", "List the library's scenarios", all(listScenarios)},
		{"fabrics", "List the library's fabrics for pure traffic", all(listFabrics)},
		{"gpus [NAME or PATH]...", "List the GPU profiles: what is fitted, from what, with which error", listGPUs},
		{"models", "List the model catalogue: parameters and KV bytes per token", all(listModels)},
		{"presets", "List the presets of congestion control, ECN, PFC and paths", all(listPresets)},
		{"keys [SECTION or KEY]...", "List the keys of a scenario or fabric: type and default, and of a section what they are", listKeys},
	} {
		var asJSON bool
		args := exactly(0, "no arguments")
		if strings.Contains(what.name, " ") {
			args = cobra.ArbitraryArgs
		}
		cmd := &cobra.Command{
			Use:   what.name,
			Short: what.short,
			Args:  args,
			RunE: func(cmd *cobra.Command, args []string) error {
				l, err := what.rows(args)
				if err != nil {
					return invalid(err)
				}
				return l.write(cmd.OutOrStdout(), asJSON)
			},
		}
		cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
		list.AddCommand(cmd)
	}
	return list
}

// all lists everything.
func all(rows func() (listing, error)) func([]string) (listing, error) {
	return func([]string) (listing, error) { return rows() }
}

// A listing is a table, and the same as objects for JSON.
type listing struct {
	header []string
	rows   [][]string
	notes  []string
	data   any
}

func (l listing) write(w io.Writer, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(l.data)
	}
	if err := writeTable(w, l.header, l.rows); err != nil {
		return err
	}
	for _, n := range l.notes {
		if _, err := fmt.Fprintln(w, n); err != nil {
			return err
		}
	}
	return nil
}

type scenarioRow struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

func listScenarios() (listing, error) {
	return described("scenario", scenarios.Names(), scenarios.Description, "Run one with `tgssim run NAME`.")
}

func listFabrics() (listing, error) {
	return described("fabric", scenarios.FabricNames(), scenarios.FabricDescription, "Run one with `tgssim net NAME`.")
}

// described lists names with their one-line descriptions.
func described(what string, names []string, describe func(string) (string, error), note string) (listing, error) {
	l := listing{header: []string{what, "what it shows"}, notes: []string{note}}
	var data []scenarioRow
	for _, name := range names {
		d, err := describe(name)
		if err != nil {
			return l, err
		}
		data = append(data, scenarioRow{name, d})
		l.rows = append(l.rows, []string{name, d})
	}
	l.data = data
	return l, nil
}

type presetRow struct {
	Key   string `json:"key"`
	Name  string `json:"name"`
	About string `json:"about"`
}

// listPresets lists what a key preset of a scenario may be.
func listPresets() (listing, error) {
	l := listing{
		header: []string{"key", "name", "what it is"},
		notes:  []string{"`--set KEY=NAME`, or KEY: NAME in a scenario; what is written beside a preset, or in a section of it, wins."},
	}
	var data []presetRow
	add := func(key, name, about string) {
		data = append(data, presetRow{key, name, about})
		l.rows = append(l.rows, []string{key, name, about})
	}
	for _, p := range congestion.PresetList() {
		key := "congestion.preset"
		if p.Key != "" {
			key = "congestion." + p.Key + ".preset"
		}
		add(key, p.Name, p.About)
	}
	for _, p := range routing.PresetList() {
		add("packet.path."+p.Key+".preset", p.Name, p.About)
	}
	l.data = data
	return l, nil
}
