package metrics

import (
	"fmt"
	"strings"

	"github.com/tgssim/tgssim/serving"
)

// A Waiter says who waits for whom.
type Waiter uint8

// The answers.
const (
	// WaiterUnknown: no pool reported its time.
	WaiterUnknown Waiter = iota
	// NetworkWaits: the GPUs hardly ever wait for data.
	NetworkWaits
	// GPUWaitsBandwidth: the GPUs wait, and the busiest link is busy for about
	// as long.
	GPUWaitsBandwidth
	// GPUWaitsLatency: the GPUs wait for communication while the links are
	// mostly idle: start-up, posting and propagation, not load.
	GPUWaitsLatency
	// GPUWaits: the GPUs wait; the links' load is not known.
	GPUWaits
)

// String names the answer.
func (w Waiter) String() string {
	return [...]string{
		"unknown", "network_waits", "gpu_waits_bandwidth", "gpu_waits_latency", "gpu_waits",
	}[w]
}

// A NetworkAnswer answers: is the GPU waiting for the network, or the network
// for the GPU, and what does it cost?
type NetworkAnswer struct {
	Waiter Waiter
	// Pool is the pool that waits most.
	Pool string
	// TGSBound is an upper bound of TGS if no GPU ever waited for the fabric with
	// batches unchanged; nil without a TGS.
	TGSBound *float64
	// Sentences are the answer, the all-reduce's part if it matters, and the KV
	// transfer's part of TTFT.
	Sentences []string
}

// waitsFrom is the share, in millionths, of the time that GPUs have work from
// which waiting counts.
const waitsFrom = 50_000

// network answers the question from the GPU time split, and asks the links
// before it blames them: they are to blame when the busiest is busy for at
// least half as long as the GPUs wait.
func (x *analysis) network() {
	a := &x.r.Network
	defer func() {
		x.r.Summary.NetworkVerdict = a.Waiter.String()
		x.r.Summary.NetworkAnswer = strings.Join(a.Sentences, " ")
	}()
	worst := -1
	for i := range x.r.Pools {
		p := &x.r.Pools[i]
		if p.Share == [NumActivities]int{} {
			continue
		}
		exposed, wait := num(part(p.Exposed())), num(part(p.ofBusy(p.FabricWait())))
		switch p.Usage.Pool {
		case poolPrefill:
			x.r.Summary.ExposedCommPrefill, x.r.Summary.FabricWaitPrefill = exposed, wait
		case poolDecode:
			x.r.Summary.ExposedCommDecode, x.r.Summary.FabricWaitDecode = exposed, wait
		}
		if worst < 0 || p.ofBusy(p.FabricWait()) > x.r.Pools[worst].ofBusy(x.r.Pools[worst].FabricWait()) {
			worst = i
		}
	}
	if worst >= 0 {
		x.waiting(a, &x.r.Pools[worst])
	}
	if s := x.allReduceSentence(); s != "" {
		a.Sentences = append(a.Sentences, s)
	}
	if s := x.kvSentence(); s != "" {
		a.Sentences = append(a.Sentences, s)
	}
}

// waiting judges by the pool that waits most.
func (x *analysis) waiting(a *NetworkAnswer, p *PoolTime) {
	a.Pool = p.Usage.Pool
	a.TGSBound = x.bound()
	x.r.Summary.TGSWithoutFabricWait = a.TGSBound
	share := part(p.FabricWait())
	busiest, known := x.busiestLink()
	head := ""
	switch {
	case p.FabricWait() == 0:
		a.Waiter = NetworkWaits
		a.Sentences = append(a.Sentences,
			"The network waits for the GPUs: no GPU ever waits for the fabric, so a faster one would not add a token.")
		return
	case p.ofBusy(p.FabricWait()) < waitsFrom:
		a.Waiter = NetworkWaits
		a.Sentences = append(a.Sentences, fmt.Sprintf(
			"The network waits for the GPUs: %s GPUs wait for the fabric %s of the time that they have work; a faster one would gain at most %.1f %%.",
			p.Usage.Pool, breakdown(p), (x.gain()-1)*100))
		return
	case !known:
		a.Waiter = GPUWaits
		head = fmt.Sprintf("The GPUs wait for the network: %s GPUs do so %s of the time that they have work", p.Usage.Pool, breakdown(p))
	case busiest.Utilisation >= share/2:
		a.Waiter = GPUWaitsBandwidth
		head = fmt.Sprintf("The GPUs wait for the network: %s GPUs do so %s of the time that they have work, and the busiest link, %s (%v), is busy %s%s",
			p.Usage.Pool, breakdown(p), busiest.Name, busiest.Tier, percent(int(busiest.Utilisation*million)), x.uneven(busiest))
	default:
		a.Waiter = GPUWaitsLatency
		head = fmt.Sprintf("The GPUs wait for communication, but not for bandwidth: %s GPUs wait %s of the time that they have work while %s",
			p.Usage.Pool, breakdown(p), idleClause(busiest))
	}
	a.Sentences = append(a.Sentences, head+x.cost(a)+".")
}

// busiestLink is the most used link, and whether loads are known at all.
func (x *analysis) busiestLink() (LinkUse, bool) {
	var top LinkUse
	for _, l := range x.r.Links.All {
		if l.Utilisation > top.Utilisation {
			top = l
		}
	}
	return top, len(x.r.Links.All) > 0
}

// unevenFrom is how many times the mean of its tier the busiest link must carry
// for the unevenness to be worth a word.
const unevenFrom = 1.5

// uneven says that the links of the busiest one's tier share the load badly.
func (x *analysis) uneven(l LinkUse) string {
	t := x.r.Links.Tier(l.Tier)
	if t == nil || t.MMR == nil || *t.MMR < unevenFrom {
		return ""
	}
	return fmt.Sprintf(" where its tier averages %s: path choice leaves capacity unused", percent(int(t.Mean*million)))
}

func idleClause(l LinkUse) string {
	if l.Wire == 0 {
		return "no link carries anything"
	}
	return fmt.Sprintf("the busiest link, %s (%v), is busy only %s: start-up and latency, not load", l.Name, l.Tier,
		percent(int(l.Utilisation*million)))
}

// negligible is the share, in millionths, below which a part is not worth
// naming: it would print as 0.0 %.
const negligible = 500

// breakdown is the fabric wait with its parts: "18.2 % (dispatch 10.1 %, ...)".
func breakdown(p *PoolTime) string {
	var parts []string
	for _, k := range []struct {
		a    Activity
		name string
	}{{ActivityDispatch, "dispatch"}, {ActivityCombine, "combine"}, {ActivityWaitingKV, "KV under way"}} {
		if p.Share[k.a] >= negligible && (k.a != ActivityWaitingKV || p.Usage.Pool != poolPrefill) {
			parts = append(parts, k.name+" "+percent(p.ofBusy(p.Share[k.a])))
		}
	}
	total := percent(p.ofBusy(p.FabricWait()))
	if len(parts) == 0 {
		return total
	}
	return total + " (" + strings.Join(parts, ", ") + ")"
}

// bound is TGS if no GPU waited for the fabric. A pool that works for share w of
// its busy time would do its work in w of the time, so that no cluster can gain
// more than its most waiting pool.
func (x *analysis) bound() *float64 {
	tgs := x.r.Summary.TGS
	if tgs == nil {
		return nil
	}
	return num(*tgs * x.gain())
}

// gain is the factor of bound.
func (x *analysis) gain() float64 {
	factor := 1.0
	for i := range x.r.Pools {
		p := &x.r.Pools[i]
		busy := p.Busy()
		if work := busy - p.FabricWait(); work > 0 {
			factor = max(factor, float64(busy)/float64(work))
		}
	}
	return factor
}

// cost says what waiting costs in tokens. It is an upper bound, and nothing at
// all when the cluster does what it is asked for.
func (x *analysis) cost(a *NetworkAnswer) string {
	tgs := x.r.Summary.TGS
	if tgs == nil || a.TGSBound == nil || *tgs == 0 {
		return ""
	}
	gain := (x.gain() - 1) * 100
	if l := x.r.Saturation.Load; l == Underloaded || l == KeepingUp {
		return fmt.Sprintf("; at this load that costs latency, not tokens: TGS is what was asked for. A saturated cluster could gain at most %.1f %%", gain)
	}
	return fmt.Sprintf("; with none of it and the same batches TGS would be at most %s instead of %s (+%.1f %%)",
		short(*a.TGSBound), short(*tgs), gain)
}

// allReduceSentence states the all-reduce's part of GPU time, where it matters.
func (x *analysis) allReduceSentence() string {
	var parts []string
	for i := range x.r.Pools {
		if p := &x.r.Pools[i]; p.Share[ActivityAllReduce] >= waitsFrom {
			parts = append(parts, percent(p.Share[ActivityAllReduce])+" of "+p.Usage.Pool)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "All-reduce over NVLink takes " + strings.Join(parts, " and ") +
		" GPU time; it stays inside the servers, and no fabric changes it."
}

// worthSplitting is the share, in millionths, from which the KV transfer's part
// of TTFT is split.
const worthSplitting = 10_000

// kvSentence states the KV transfer's part of TTFT.
func (x *analysis) kvSentence() string {
	s := &x.r.TTFTMean
	if s.TTFT == 0 || len(x.r.Transfers) == 0 && s.Transfer() == 0 {
		return ""
	}
	if s.Transfer() < worthSplitting && x.r.TTFTTail.Transfer() < worthSplitting {
		return fmt.Sprintf("KV transfer takes %s of the mean TTFT and %s of the slowest 1 %%.",
			percent(s.Transfer()), percent(x.r.TTFTTail.Transfer()))
	}
	return fmt.Sprintf("KV transfer takes %s of the mean TTFT (posting %s, wire %s, contention %s) and %s of the slowest 1 %%.",
		percent(s.Transfer()), percent(s.Share[serving.PieceTransferPost]), percent(s.Share[serving.PieceTransferWire]),
		percent(s.Share[serving.PieceTransferQueue]), percent(x.r.TTFTTail.Transfer()))
}

// percent prints millionths as a percentage: "18.2 %", "0.04 %".
func percent(millionths int) string {
	v := float64(millionths) / 1e4
	if millionths != 0 && v < 0.1 {
		return fmt.Sprintf("%.2f %%", v)
	}
	return fmt.Sprintf("%.1f %%", v)
}
