package experiment

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/tgssim/tgssim/collective"
	"github.com/tgssim/tgssim/compute"
	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/fabric/packet"
	"github.com/tgssim/tgssim/internal/invariants"
	"github.com/tgssim/tgssim/metrics"
	"github.com/tgssim/tgssim/serving"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// Progress is how far a run has come.
type Progress struct {
	Now                         sim.Time
	Arrived, Finished, Rejected int
	// Total is the number of requests that will arrive; 0 when unknown.
	Total  int
	Events uint64
}

// A Result is a finished run.
type Result struct {
	*metrics.Result
	// Fingerprint identifies the trajectory: equal runs have equal fingerprints.
	Fingerprint uint64
	// Events is the number of events executed.
	Events uint64
	// End is the instant of the last event, or the scenario's run.until.
	End sim.Time
	// Inputs are the files that the scenario reads, with their sizes and hashes.
	Inputs []Input
	// Ports are the packet engine's port statistics, in link order; nil in the
	// other engines.
	Ports []packet.PortStats
	// Doubts are those of the notes that question the run: what went wrong in the
	// packet engine, and where its settings contradict each other.
	Doubts []string
}

// An Input is a file that a scenario reads.
type Input struct {
	Path   string
	Bytes  int64
	SHA256 [sha256.Size]byte
}

// The simulated time between two looks at the context and two reports of
// progress begins with firstSlice and then follows the number of events in it, so
// that looks are some milliseconds apart whatever the engine. It does not change
// the run.
const (
	firstSlice  = 100 * sim.Microsecond
	longSlice   = 100 * sim.Millisecond
	shortSlice  = sim.Microsecond
	manyEvents  = 1 << 17
	fewerEvents = manyEvents / 4
)

// nextSlice is the width of the slice after one of a width with so many events.
func nextSlice(width sim.Time, events uint64) sim.Time {
	switch {
	case events == 0: // an idle stretch: look further ahead
		return min(2*width, sim.Never/4)
	case events > manyEvents:
		return max(width/2, shortSlice)
	case events < fewerEvents:
		width *= 2
	}
	return min(width, longSlice)
}

// Run executes the simulation to its end, or to the scenario's run.until. report
// may be nil; it is called now and then from the same goroutine. A cancelled
// context stops the run with its error.
func (b *Simulation) Run(ctx context.Context, report func(Progress)) (*Result, error) {
	until := b.Scenario.Run.Until
	if until == 0 {
		until = sim.Never
	}
	width := firstSlice
	for at := sim.Time(0); b.Engine.Pending() > 0 && at < until; {
		at = until - max(0, until-at-width)
		before := b.Engine.Events()
		b.Engine.RunUntil(at)
		width = nextSlice(width, b.Engine.Events()-before)
		if report != nil {
			report(b.Progress())
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return b.finish()
}

// Progress reports how far the run has come.
func (b *Simulation) Progress() Progress {
	p := Progress{Now: b.Engine.Now(), Events: b.Engine.Events(), Total: b.total}
	p.Arrived, p.Finished, p.Rejected = b.Cluster.Progress()
	return p
}

// notes are what the reader of the results should know of the workload and the
// cluster.
func (b *Simulation) notes(usage []serving.PoolUsage) (notes []string) {
	say := func(n int, one, many string) {
		switch {
		case n == 1:
			notes = append(notes, one)
		case n > 1:
			notes = append(notes, fmt.Sprintf(many, n))
		}
	}
	notes = append(notes, b.GPUNotes...)
	st := b.Source.Stats()
	say(st.Trace.Dropped, "1 row of the trace has a zero length and was left out.",
		"%d rows of the trace have a zero length and were left out.")
	say(st.Trace.ZeroPrompt+st.Trace.ZeroOutput-st.Trace.Dropped, "1 zero length of the trace was raised to one token.",
		"%d zero lengths of the trace were raised to one token.")
	say(st.Trace.OutOfOrder, "1 row of the trace is out of order; it was played in order of time.",
		"%d rows of the trace are out of order; they were played in order of time.")
	say(st.Trace.Unplayed, "1 row of the trace was left out by workload.requests or workload.duration.",
		"%d rows of the trace were left out by workload.requests or workload.duration.")
	say(st.Clamped, "1 length was drawn outside its bounds and put at the nearer one.",
		"%d lengths were drawn outside their bounds and put at the nearer one.")
	if st.PastClock {
		notes = append(notes, "The arrivals left the 106 days that the clock covers; the rest was not played.")
	}
	c := &b.Scenario.Serving
	say(b.Graph.GPUs()-c.Prefill.GPUs()-c.Decode.GPUs(), "1 GPU of the cluster is in no pool; tgs counts it.",
		"%d GPUs of the cluster are in no pool; tgs counts them.")
	if st.Blocks > 0 {
		notes = append(notes, "The prompts share prefixes, and no cache makes use of it: prefix caching is not modelled.")
	}
	for i, p := range []serving.PoolConfig{c.Prefill, c.Decode} {
		switch u := &usage[i]; {
		case u.Steps == 0:
		case p.Overlap == serving.OverlapTwoBatch && u.TwoBatchSteps == 0:
			notes = append(notes, fmt.Sprintf("%s.overlap two_batch changed nothing: no step had overlap_min_tokens (%d) tokens on a rank and a fabric to hide.",
				u.Pool, p.OverlapMinTokens))
		case p.Overlap == serving.OverlapSingle && u.Volume.Combine.Runs == 0:
			notes = append(notes, fmt.Sprintf("%s.overlap single_batch changed nothing: no step had a dispatch and combine.", u.Pool))
		}
	}
	s := b.Scenario
	for _, pool := range []string{"prefill", "decode"} {
		if b.Prefill.MoELayers() == 0 && s.Written(pool+".moe") {
			notes = append(notes, fmt.Sprintf("The settings under %s.moe act on models with experts, and %s has none.", pool, s.Model.Name))
		}
	}
	notes = append(notes, sampleNotes(s.Network.SampleLayers, s.Model.Name, b.Prefill.MoELayers(), usage)...)
	notes = append(notes, b.replicaNotes()...)
	notes = append(notes, b.speculationNotes()...)
	notes = append(notes, b.allToAllNotes()...)
	notes = append(notes, b.Model.Notes...)
	return append(notes, engineNotes(b.Network, s.Network.Engine, s.Packet.Train, s.Written)...)
}

// replicaNotes say where TP is wider than the KV heads.
func (b *Simulation) replicaNotes() (notes []string) {
	a := &b.Model.Attention
	for _, pool := range []struct {
		name string
		rank *compute.Rank
	}{{"prefill", b.Prefill}, {"decode", b.Decode}} {
		if n := pool.rank.Memory().KVReplicas; n > 1 && a.Kind == compute.GQA {
			notes = append(notes, fmt.Sprintf("%s: %s has %d KV heads, so at TP%d each is held by %d GPUs; memory and KV transfers count every copy.",
				pool.name, b.Scenario.Model.Name, a.KVHeads, pool.rank.Setup().TP, n))
		}
	}
	return notes
}

// speculationNotes say what of MTP the reader should know.
func (b *Simulation) speculationNotes() (notes []string) {
	s := b.Scenario
	switch m := s.Serving.Decode.MTP; {
	case m.QueryTokens == 1 && s.Written("decode.mtp"):
		notes = append(notes, "The settings under decode.mtp act with query_tokens above 1: nothing was drafted.")
	case m.QueryTokens > 1 && m.LayersPerDraft > 0 && b.Model.MTPLayers == 0:
		notes = append(notes, fmt.Sprintf("%s has no module that drafts tokens: layers of its own kind stand for one, %d per draft.",
			s.Model.Name, m.LayersPerDraft))
	}
	return notes
}

// allToAllNotes say of each pool with experts what its AllToAlls do that a reader may
// not expect.
func (b *Simulation) allToAllNotes() (notes []string) {
	s := b.Scenario
	if b.Prefill.MoELayers() == 0 {
		return nil
	}
	prefill, decode := collective.DefaultPrefill(), collective.DefaultDecode()
	for _, pool := range []struct {
		name       string
		cfg        *serving.PoolConfig
		own, other *collective.Config
	}{{"prefill", &s.Serving.Prefill, &prefill, &decode}, {"decode", &s.Serving.Decode, &decode, &prefill}} {
		key, moe, gpus := pool.name+".moe.", &pool.cfg.MoE, pool.cfg.TP*pool.cfg.DP
		switch {
		case moe.Timing == collective.TimingMeasured:
			notes = append(notes, key+"timing measured: dispatch and combine took measured times and moved no bytes on the fabric.")
		case moe.Mode == collective.ModeAllGather && gpus > s.Cluster.GPUsPerNode:
			notes = append(notes, fmt.Sprintf("%smode all_gather sent every token to all %d GPUs, on several servers: engines do so inside a server. "+
				"low_latency and normal send it to its experts only.", key, gpus))
		case moe.Mode == pool.other.Mode && gpus > 1 && !s.Written(key+"dispatch_startup") && !s.Written(key+"combine_startup"):
			notes = append(notes, fmt.Sprintf("%smode %s began after the start-up of the pool's default mode, %s: %v for a dispatch and %v for a combine. "+
				"%s takes %v and %v: %sdispatch_startup, %scombine_startup.", key, moe.Mode, pool.own.Mode, moe.DispatchStartup, moe.CombineStartup,
				moe.Mode, pool.other.DispatchStartup, pool.other.CombineStartup, key, key))
		}
	}
	return notes
}

// portStats are those of every link outside the servers, in the packet engine.
func portStats(network fabric.Network, g *topology.Graph) (ports []packet.PortStats) {
	n, ok := network.(*packet.Network)
	if !ok {
		return nil
	}
	for l := range g.Links {
		if g.Nodes[g.Links[l].From].Kind >= topology.KindNIC && g.Nodes[g.Links[l].To].Kind >= topology.KindNIC {
			ports = append(ports, n.PortStats(topology.LinkID(l)))
		}
	}
	return ports
}

// engineNotes are what the packet engine has to say: what went wrong, which
// settings never acted and why. In the other engines all of them are inert.
func engineNotes(network fabric.Network, engine string, trains int, written func(key string) bool) (notes []string) {
	n, ok := network.(*packet.Network)
	if !ok {
		for _, key := range []string{"packet", "congestion"} {
			if written(key) {
				notes = append(notes, fmt.Sprintf("The settings under %s act in the packet engine; this run used %s.", key, engine))
			}
		}
		return notes
	}
	if written("packet.train") && trains > 1 {
		notes = append(notes, fmt.Sprintf("packet.train moves up to %d packets as one: mean and p99 of completion times are within "+
			"about 3 %% of single packets where docs/performance.md has measured them, AllToAlls of a few packets within 11 %%.", trains))
	}
	notes = append(notes, engineDoubts(n)...)
	for _, x := range n.Inert() {
		if x.IfWritten && !written(x.Setting) {
			continue
		}
		notes = append(notes, fmt.Sprintf("%s never acted: %s.", x.Setting, x.Why))
	}
	return notes
}

// engineDoubts are what went wrong, and where settings contradict each other.
func engineDoubts(n *packet.Network) (doubts []string) {
	for _, x := range n.Notices() {
		doubts = append(doubts, fmt.Sprintf("%s at %v: %s.", x.Kind, x.At, x.Text))
	}
	for _, x := range n.Advice() {
		doubts = append(doubts, x+".")
	}
	return doubts
}

func (b *Simulation) finish() (*Result, error) {
	end := b.Engine.Now()
	if b.Engine.Pending() > 0 {
		end = b.Scenario.Run.Until // or else nothing would be pending
	}
	totals := b.Network.Totals()
	if invariants.Enabled {
		for c := range totals.SentBytes {
			if totals.SentBytes[c] != totals.DeliveredBytes[c]+totals.InFlightBytes[c] {
				return nil, fmt.Errorf("class %d: sent %v, delivered %v, in flight %v bytes", c,
					totals.SentBytes[c], totals.DeliveredBytes[c], totals.InFlightBytes[c])
			}
		}
	}
	usage := b.Cluster.Finish(end)
	r, err := b.collector.Finish(metrics.Account{
		End:       end,
		Exhausted: b.Engine.Pending() == 0,
		GPUs:      b.Graph.GPUs(),
		Pools:     usage,
		Graph:     b.Graph,
		Loads:     b.Network.Loads(nil),
		Totals:    totals,
	})
	if err != nil {
		return nil, err
	}
	ports := portStats(b.Network, b.Graph)
	var doubts []string
	if n, ok := b.Network.(*packet.Network); ok {
		doubts = engineDoubts(n)
		sum := metrics.PortsOf(b.Graph, ports, n.Counters())
		r.Summary.Ports = &sum
	}
	r.Notes = append(r.Notes, b.notes(usage)...)
	return &Result{
		Result:      r,
		Inputs:      b.inputs,
		Ports:       ports,
		Doubts:      doubts,
		Fingerprint: b.Engine.Fingerprint(),
		Events:      b.Engine.Events(),
		End:         end,
	}, nil
}
