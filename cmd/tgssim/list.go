package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tgssim/tgssim/compute"
	"github.com/tgssim/tgssim/scenarios"
)

func newList() *cobra.Command {
	list := &cobra.Command{
		Use:   "list",
		Short: "List the scenarios, fabrics, GPUs or models that are known",
		Args:  knownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, what := range []struct {
		name, short string
		rows        func() (listing, error)
	}{
		{"scenarios", "List the library's scenarios", listScenarios},
		{"fabrics", "List the library's fabrics for pure traffic", listFabrics},
		{"gpus", "List the GPU profiles: what is fitted, from what, with which error", listGPUs},
		{"models", "List the model catalogue: parameters and KV bytes per token", listModels},
	} {
		var asJSON bool
		cmd := &cobra.Command{
			Use:   what.name,
			Short: what.short,
			Args:  exactly(0, "no arguments"),
			RunE: func(cmd *cobra.Command, _ []string) error {
				l, err := what.rows()
				if err != nil {
					return err
				}
				return l.write(cmd.OutOrStdout(), asJSON)
			},
		}
		cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
		list.AddCommand(cmd)
	}
	return list
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

type modelRow struct {
	Name             string `json:"name"`
	HuggingFace      string `json:"hugging_face"`
	Attention        string `json:"attention"`
	Layers           int    `json:"layers"`
	Experts          int    `json:"experts"`
	TopK             int    `json:"top_k"`
	Parameters       int64  `json:"parameters"`
	ActiveParameters int64  `json:"active_parameters"`
	KVBytesBF16      int64  `json:"kv_bytes_per_token_bf16"`
	KVBytesFP8       int64  `json:"kv_bytes_per_token_fp8"`
}

func listModels() (listing, error) {
	l := listing{header: []string{"model", "attention", "layers", "experts", "parameters", "active", "KV B/token (bf16)"}}
	var data []modelRow
	for _, name := range compute.Models() {
		m, err := compute.LoadModel(name)
		if err != nil {
			return l, err
		}
		row := modelRow{
			Name: m.Name, HuggingFace: m.HuggingFace, Attention: strings.ToUpper(string(m.Attention.Kind)), Layers: m.Layers,
			Parameters: m.TotalParameters(), ActiveParameters: m.ActiveParameters(),
			KVBytesBF16: m.KVBytesPerToken(compute.BF16), KVBytesFP8: m.KVBytesPerToken(compute.FP8),
		}
		experts := "dense"
		if m.MoE != nil {
			row.Experts, row.TopK = m.MoE.Experts, m.MoE.TopK
			experts = fmt.Sprintf("top %d of %d", row.TopK, row.Experts)
			if n := m.MoE.SharedExperts; n > 0 {
				experts += fmt.Sprintf(" + %d shared", n)
			}
		}
		data = append(data, row)
		l.rows = append(l.rows, []string{
			row.Name, row.Attention, strconv.Itoa(row.Layers), experts,
			billions(row.Parameters), billions(row.ActiveParameters), strconv.FormatInt(row.KVBytesBF16, 10),
		})
	}
	l.data = data
	return l, nil
}

func billions(n int64) string { return strconv.FormatFloat(float64(n)/1e9, 'f', 2, 64) + " B" }
