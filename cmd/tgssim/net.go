package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/tgssim/tgssim/experiment"
	"github.com/tgssim/tgssim/fabric/packet"
	"github.com/tgssim/tgssim/internal/atomicfile"
	"github.com/tgssim/tgssim/metrics"
	"github.com/tgssim/tgssim/scenarios"
	"github.com/tgssim/tgssim/sim"
)

type netFlags struct {
	scenario scenarioFlags
	flows    string
	ports    string
	json     bool
}

func newNet() *cobra.Command {
	var f netFlags
	cmd := &cobra.Command{
		Use:   "net FABRIC",
		Short: "Run pure traffic over a fabric, without requests: incast, permutation, all-to-all, random flows, a list of flows",
		Long: `Run pure traffic over a fabric, without requests, and print flow completion
times, slowdowns and what the switches did. FABRIC is one of ` + "`tgssim list fabrics`" + `, or
the path of a file. traffic.pattern is incast, permutation, all_to_all, poisson
(flows at random instants between random endpoints; traffic.sizes names a published
distribution of their sizes or a file of one) or file (a CSV of
source,destination,bytes and optionally start, with or without a header; what
--flows has written can be sent again).

A flow's completion time (FCT) runs from its start to its last byte in the
receiver's memory; its slowdown is that over what it takes alone. Flows that begin
before traffic.warmup is over are not in these figures.`,
		Example: `  tgssim net ls128-incast32
  tgssim net ls128-incast32 --set congestion.algorithm=none
  tgssim net ls128-all-to-all --set network.engine=flow
  tgssim net storage-100g-os2 --set packet.path.choice=conga --set traffic.load=0.4
  tgssim net ls128-incast32 --set 'traffic={pattern: file, path: flows.csv}' --flows fct.csv`,
		Args: exactly(1, "the name of a fabric or the path of its file"),
		RunE: func(cmd *cobra.Command, args []string) error { return runNet(cmd, &f, args[0]) },
	}
	f.scenario.register(cmd)
	cmd.Flags().StringVar(&f.flows, "flows", "", "write every flow's completion time to this CSV `file`")
	cmd.Flags().StringVar(&f.ports, "ports", "", "write what every port saw to this CSV `file` (packet engine)")
	cmd.Flags().BoolVar(&f.json, "json", false, "print the summary as JSON instead of tables")
	return cmd
}

func runNet(cmd *cobra.Command, f *netFlags, ref string) error {
	assignments, err := f.scenario.assignments(cmd)
	if err != nil {
		return err
	}
	fabric, err := scenarios.LoadFabric(ref, assignments...)
	if err != nil {
		return invalid(err)
	}
	t, err := experiment.BuildTraffic(fabric)
	if err != nil {
		return invalid(err)
	}
	if f.ports != "" && fabric.Network.Engine != "packet" {
		return invalid(fmt.Errorf("--ports: only the packet engine has ports with queues, and network.engine is %s", fabric.Network.Engine))
	}
	for _, name := range []string{f.flows, f.ports} { // before the run, not after
		if err := canWrite(name); err != nil {
			return invalid(err)
		}
	}
	progress := newProgress(cmd.ErrOrStderr(), time.Now())
	progress.what = "flows"
	r, err := t.Run(cmd.Context(), progress.report)
	progress.clear()
	if err != nil {
		return fmt.Errorf("run stopped: %w", interrupted(err))
	}
	if f.flows != "" {
		if err := atomicfile.File(f.flows, atomicfile.Bytes(flowsCSV(r))); err != nil {
			return fmt.Errorf("cannot write %s: %w", f.flows, err)
		}
	}
	if f.ports != "" {
		if err := atomicfile.File(f.ports, atomicfile.Bytes(portsCSV(t.Graph, r.Ports))); err != nil {
			return fmt.Errorf("cannot write %s: %w", f.ports, err)
		}
	}
	s := summarise(fabric, r)
	if f.json {
		e := json.NewEncoder(cmd.OutOrStdout())
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(s)
	}
	return s.print(cmd.OutOrStdout(), t.Graph.Summary(), r)
}

// netSummary is the outcome of pure traffic. Times are in microseconds: SpanUs is
// from the first start to the last finish, over which goodput is taken, and EndUs
// is when nothing was left to happen, timers included. Counted is the finished flows
// that began after the warm-up, of which the distributions are.
type netSummary struct {
	Fabric      string   `json:"fabric"`
	Engine      string   `json:"engine"`
	Seed        uint64   `json:"seed"`
	Fingerprint string   `json:"fingerprint"`
	Flows       int      `json:"flows"`
	Finished    int      `json:"finished"`
	Counted     int      `json:"counted"`
	Bytes       int64    `json:"bytes"`
	SpanUs      float64  `json:"span_us"`
	EndUs       float64  `json:"end_us"`
	GoodputGbps float64  `json:"goodput_gbps"`
	FCT         spread   `json:"fct_us"`
	Slowdown    spread   `json:"slowdown"`
	JFI         float64  `json:"jfi_goodput"`
	Events      uint64   `json:"events"`
	Notes       []string `json:"notes"`
}

// spread describes a distribution.
type spread struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	Max  float64 `json:"max"`
}

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	slices.Sort(values)
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	at := func(p float64) float64 { return metrics.Percentile(values, p) }
	return spread{
		Mean: sum / float64(len(values)), P50: at(50), P95: at(95), P99: at(99), P999: at(99.9), Max: values[len(values)-1],
	}
}

func summarise(f *scenarios.Fabric, r *experiment.TrafficResult) netSummary {
	s := netSummary{
		Fabric: f.Name, Engine: f.Network.Engine, Seed: f.Seed,
		Fingerprint: fmt.Sprintf("%016x", r.Fingerprint), Flows: len(r.Flows), SpanUs: r.Span().Microseconds(), EndUs: r.End.Microseconds(),
		GoodputGbps: float64(r.Goodput()) / 1e9, Events: r.Events, Notes: r.Notes,
	}
	var fct, slowdown, goodput []float64
	for i := range r.Flows {
		x := &r.Flows[i]
		if x.Finish == sim.Never {
			continue
		}
		s.Finished++
		s.Bytes += int64(x.Bytes)
		if x.Start < f.Traffic.Warmup {
			continue
		}
		s.Counted++
		fct = append(fct, x.FCT.Microseconds())
		slowdown = append(slowdown, x.Slowdown())
		goodput = append(goodput, float64(x.Bytes)/x.FCT.Seconds())
	}
	s.FCT, s.Slowdown, s.JFI = spreadOf(fct), spreadOf(slowdown), metrics.JFI(goodput)
	return s
}

func (s *netSummary) print(w io.Writer, cluster string, r *experiment.TrafficResult) error {
	fmt.Fprintf(w, "%s: %s engine, seed %d, fingerprint %s\n%s\n\n", s.Fabric, s.Engine, s.Seed, s.Fingerprint, cluster)
	fmt.Fprintf(w, "%d of %d flows finished", s.Finished, s.Flows)
	if s.Finished > 0 {
		fmt.Fprintf(w, ", %.4g MB in %.3f us: %.4g Gb/s in all", float64(s.Bytes)/1e6, s.SpanUs, s.GoodputGbps)
	}
	fmt.Fprint(w, "\n")
	if s.Counted < s.Finished {
		fmt.Fprintf(w, "%d began in the warm-up and do not count below\n", s.Finished-s.Counted)
	}
	fmt.Fprintln(w)
	row := func(name string, x spread) []string {
		f := func(v float64) string {
			if s.Counted == 0 {
				return "-"
			}
			return strconv.FormatFloat(v, 'f', 3, 64)
		}
		return []string{name, f(x.Mean), f(x.P50), f(x.P95), f(x.P99), f(x.P999), f(x.Max)}
	}
	rows := [][]string{row("FCT (us)", s.FCT), row("slowdown", s.Slowdown)}
	if err := writeTable(w, []string{"", "mean", "p50", "p95", "p99", "p99.9", "max"}, rows); err != nil {
		return err
	}
	if s.Counted > 0 {
		fmt.Fprintf(w, "\nfairness of goodput (JFI) %.4f\n", s.JFI)
	}
	if c := r.Counters; c != nil {
		fmt.Fprintln(w)
		if err := writeTable(w, []string{"packets", ""}, counterRows(c, r.Span())); err != nil {
			return err
		}
	}
	for _, n := range s.Notes {
		fmt.Fprintln(w, "* "+n)
	}
	return nil
}

// flowsCSV is one line per flow, in order of start.
func flowsCSV(r *experiment.TrafficResult) []byte {
	var b bytes.Buffer
	b.WriteString("source,destination,bytes,start_ps,finish_ps,fct_ps,ideal_ps,slowdown\n")
	for i := range r.Flows {
		x := &r.Flows[i]
		fmt.Fprintf(&b, "%d,%d,%d,%d,", x.Src, x.Dst, int64(x.Bytes), int64(x.Start))
		if x.Finish == sim.Never {
			b.WriteString(",,,\n")
			continue
		}
		fmt.Fprintf(&b, "%d,%d,%d,%s\n", int64(x.Finish), int64(x.FCT), int64(x.Ideal),
			strconv.FormatFloat(x.Slowdown(), 'g', -1, 64))
	}
	return b.Bytes()
}

// canWrite says what is wrong with a file's name before anything is written: its
// folder must be there, and it must not be one itself. An empty name is no file.
func canWrite(name string) error {
	if name == "" {
		return nil
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return fmt.Errorf("cannot write %s: it is a folder", name)
	}
	if info, err := os.Stat(filepath.Dir(name)); err != nil || !info.IsDir() {
		return fmt.Errorf("cannot write %s: %s is not a folder", name, filepath.Dir(name))
	}
	return nil
}

// counterRows is the packet engine's counters over a span as a table.
func counterRows(c *packet.Counters, span sim.Time) [][]string {
	n := func(v int64) string { return strconv.FormatInt(v, 10) }
	rows := [][]string{
		{"arrived with a congestion mark", n(c.MarkedArrived)},
		{"congestion notifications (CNP)", n(c.CNPs)},
		{"pause frames (XOFF)", n(c.Pauses)},
		{"sent again", n(c.Retransmitted)},
		{"timeouts", n(c.Timeouts)},
		{"out of order", n(c.OutOfOrder)},
	}
	if c.Reports > 0 {
		rows = append(rows,
			[]string{"telemetry of a path, mean age", fmt.Sprintf("%d, %.3g us", c.Reports, (c.ReportAge / sim.Time(c.Reports)).Microseconds())},
			[]string{"probes, bytes both ways", fmt.Sprintf("%d, %d", c.Probes, c.ProbeBytes)},
			[]string{"moved to another path", n(c.Moves)})
	}
	if c.WeaveReplies > 0 {
		rows = append(rows,
			[]string{"answers between leaves, notices of marks, bytes", fmt.Sprintf("%d, %d, %d", c.WeaveReplies, c.WeaveNotices, c.WeaveBytes)},
			[]string{"moved to another path", n(c.Moves)},
			[]string{"held for the old path, mean", meanWait(c.HeldTime, c.Held)},
			[]string{"held at most by a leaf, bytes", n(c.MaxHeld)})
	}
	rows = append(rows, creditRows(c, span)...)
	for reason, count := range c.Dropped {
		if count > 0 {
			rows = append(rows, []string{"dropped: " + packet.DropReason(reason).String(), n(count)})
		}
	}
	return rows
}

// meanWait is how often something has waited, and how long on average.
func meanWait(sum sim.Time, count int64) string {
	return fmt.Sprintf("%d, %.3g us", count, (sum / sim.Time(max(1, count))).Microseconds())
}

// creditRows is what receiver credits, and containers, have cost.
func creditRows(c *packet.Counters, span sim.Time) (rows [][]string) {
	if c.CreditRequests > 0 {
		rows = append(rows,
			[]string{"credits asked for, granted, returned", fmt.Sprintf("%d, %d, %d", c.CreditRequests, c.CreditGrants, c.CreditReturns)},
			[]string{"bytes of these messages; of a link at most", fmt.Sprintf("%d; %.2f %%", c.CreditBytes, 100*c.CreditTime.Seconds()/max(span, 1).Seconds())},
			[]string{"waits for a first grant, mean", meanWait(c.CreditWaitTime, c.CreditWaits)})
	}
	if c.CreditExpired > 0 {
		rows = append(rows, []string{"granted bytes counted as lost", strconv.FormatInt(c.CreditExpired, 10)})
	}
	if c.MaxDGSQs > 0 {
		rows = append(rows,
			[]string{"bytes of containers' headers", strconv.FormatInt(c.ContainerHeaderBytes, 10)},
			[]string{"waits for an earlier container, mean", meanWait(c.HeldTime, c.Held)},
			[]string{"held at most by a NIC, bytes", strconv.FormatInt(c.MaxHeld, 10)},
			[]string{"state of a NIC at most, bytes", strconv.FormatInt(c.MaxStateBytes, 10)},
			[]string{"DGSQs of a NIC at most", strconv.FormatInt(c.MaxDGSQs, 10)},
			[]string{"containers given up; packets late, lost", fmt.Sprintf("%d; %d, %d", c.SkippedContainers, c.LateInContainer, c.LostInContainer)})
	}
	return rows
}
