package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tgssim/tgssim/compute"
	"github.com/tgssim/tgssim/experiment"
	"github.com/tgssim/tgssim/fabric/packet"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/scenarios"
	"github.com/tgssim/tgssim/serving"
	"github.com/tgssim/tgssim/workload"
)

func newCheck() *cobra.Command {
	var flags scenarioFlags
	var axes axisFlags
	var resolved bool
	cmd := &cobra.Command{
		Use:   "check SCENARIO",
		Short: "Check a scenario and print the cluster and workload that follow from it",
		Long: `Check a scenario and print the cluster and workload that follow from it, and
warnings of settings of PFC and ECN that are valid and cannot do what they are for.
Of a scenario with axes every point is built, and what cannot be built is refused
with the reason.`,
		Example: `  tgssim check deepseek-v3-h800-pd
  tgssim check my.yaml --resolved
  tgssim check my.yaml --axis cluster.nodes=2,4,8`,
		Args: exactly(1, "the name of a scenario or the path of its file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if plan, err := axes.plan(cmd, &flags, args[0]); err != nil || plan != nil && !resolved {
				if err == nil {
					err = checkPoints(cmd, plan)
				}
				return err
			}
			s, err := flags.load(cmd, args[0])
			if err != nil {
				return err
			}
			b, err := experiment.Build(s)
			if err != nil {
				return invalid(err)
			}
			if resolved {
				text, err := s.Resolved()
				if err == nil {
					_, err = cmd.OutOrStdout().Write(text)
				}
				return err
			}
			return describe(cmd.OutOrStdout(), b)
		},
	}
	flags.register(cmd)
	axes.register(cmd)
	cmd.Flags().BoolVar(&resolved, "resolved", false, "print the scenario with every default written out, as YAML; axes are left out")
	return cmd
}

// drawn bounds the requests that check draws from a synthetic workload.
const drawn = 100_000

func describe(w io.Writer, b *experiment.Simulation) error {
	s := b.Scenario
	p := &printer{w: w}
	p.line("%s is a valid scenario: %s", s.Name, s.Description)
	p.line("model     %s on %s, weights %s, KV %s", s.Model.Name, s.GPU.Name, s.Model.Weights, s.Model.KV)
	p.model(b.Model)
	for _, n := range b.GPUNotes {
		p.line("gpu       %s", n)
	}
	p.line("cluster   %s", b.Graph.Summary())
	p.derived(s.Derived())
	p.pool("prefill", &s.Serving.Prefill, b.Prefill)
	p.replicas(b.Model, s.Serving.Prefill.TP, b.Prefill)
	p.pool("decode", &s.Serving.Decode, b.Decode)
	p.replicas(b.Model, s.Serving.Decode.TP, b.Decode)
	if free := b.Graph.GPUs() - s.Serving.Prefill.GPUs() - s.Serving.Decode.GPUs(); free > 0 {
		p.line("unused    %d of the %d GPUs", free, b.Graph.GPUs())
	}
	p.workload(b.Source)
	if n, ok := b.Network.(*packet.Network); ok {
		for _, doubt := range n.Doubts() {
			p.line("warning   %s", doubt)
		}
	}
	return p.err
}

// derived prints what the scaling rules worked out.
func (p *printer) derived(values []scenarios.Derived) {
	for _, d := range values {
		p.line("derived   %s = %s, by %s", d.Key, d.Value, d.Rule)
	}
}

// printer writes lines and keeps the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

func (p *printer) pool(name string, c *serving.PoolConfig, r *compute.Rank) {
	m := r.Memory()
	p.line("%-9s %d x (TP%d x DP%d) = %d GPUs; per GPU %s weights of %s usable, KV for %d tokens",
		name, c.Instances, c.TP, c.DP, c.GPUs(), gigabytes(m.Weights), gigabytes(m.Usable()), m.KVTokens())
}

func gigabytes(n units.Bytes) string { return fmt.Sprintf("%.1f GB", float64(n)/1e9) }

func (p *printer) workload(source workload.Source) {
	n := 0
	for ; n < drawn; n++ {
		if _, more := source.Next(); !more {
			break
		}
	}
	st := source.Stats()
	if st.Requests == 0 {
		p.line("workload  no requests")
		return
	}
	if st.Requests == 1 {
		p.line("workload  1 request, %.0f prompt and %.0f output tokens", st.MeanPrompt(), st.MeanOutput())
		return
	}
	first := ""
	if n == drawn {
		first = "first "
	}
	p.line("workload  %s%d requests over %.4g s, %.4g req/s, mean %.0f prompt and %.0f output tokens",
		first, st.Requests, st.Last.Seconds(), float64(st.Rate()), st.MeanPrompt(), st.MeanOutput())
}
