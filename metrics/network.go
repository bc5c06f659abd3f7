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
	// TGSBound is an upper bound of TGS if no GPU ever waited for data with
	// batches unchanged; nil without a TGS.
	TGSBound *float64
	// Sentences are the answer, and the KV transfer's part of TTFT.
	Sentences []string
}

// waitsFrom is the share of GPU time from which waiting counts, in millionths.
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
		exposed := num(float64(p.Exposed()) / million)
		switch p.Usage.Pool {
		case poolPrefill:
			x.r.Summary.ExposedCommPrefill = exposed
		case poolDecode:
			x.r.Summary.ExposedCommDecode = exposed
		}
		if worst < 0 || p.Waiting() > x.r.Pools[worst].Waiting() {
			worst = i
		}
	}
	if worst >= 0 {
		x.waiting(a, &x.r.Pools[worst])
	}
	if s := x.kvSentence(); s != "" {
		a.Sentences = append(a.Sentences, s)
	}
}

// waiting judges by the pool that waits most.
func (x *analysis) waiting(a *NetworkAnswer, p *PoolTime) {
	a.Pool = p.Usage.Pool
	a.TGSBound = x.bound()
	x.r.Summary.TGSWithoutWaiting = a.TGSBound
	share := float64(p.Waiting()) / million
	busiest, known := x.busiestLink()
	head := ""
	switch {
	case p.Waiting() == 0:
		a.Waiter = NetworkWaits
		a.Sentences = append(a.Sentences,
			"The network waits for the GPUs: no GPU ever waits for data, so a faster network would not add a token.")
		return
	case p.Waiting() < waitsFrom:
		a.Waiter = NetworkWaits
		head = fmt.Sprintf("The network waits for the GPUs: %s GPUs wait for data %s of the time", p.Usage.Pool, percent(p.Waiting()))
	case !known:
		a.Waiter = GPUWaits
		head = fmt.Sprintf("The GPUs wait for the network: %s GPUs do so %s of the time", p.Usage.Pool, x.breakdown(p))
	case busiest.Utilisation >= share/2:
		a.Waiter = GPUWaitsBandwidth
		head = fmt.Sprintf("The GPUs wait for the network: %s GPUs do so %s of the time, and the busiest link, %s (%v), is busy %s",
			p.Usage.Pool, x.breakdown(p), busiest.Name, busiest.Tier, percent(int(busiest.Utilisation*million)))
	default:
		a.Waiter = GPUWaitsLatency
		head = fmt.Sprintf("The GPUs wait for communication, but not for bandwidth: %s GPUs wait %s of the time while %s",
			p.Usage.Pool, x.breakdown(p), idleClause(busiest))
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

func idleClause(l LinkUse) string {
	if l.Wire == 0 {
		return "no link carries anything"
	}
	return fmt.Sprintf("the busiest link, %s (%v), is busy only %s: start-up and latency, not load", l.Name, l.Tier,
		percent(int(l.Utilisation*million)))
}

// breakdown is the waiting share with its parts: "18.2 % (dispatch 10.1 %, ...)".
func (x *analysis) breakdown(p *PoolTime) string {
	var parts []string
	for _, k := range []struct {
		a    Activity
		name string
	}{
		{ActivityDispatch, "dispatch"}, {ActivityCombine, "combine"},
		{ActivityAllReduce, "all-reduce"}, {ActivityWaitingKV, "KV under way"},
	} {
		if p.Share[k.a] > 0 {
			parts = append(parts, k.name+" "+percent(p.Share[k.a]))
		}
	}
	return percent(p.Waiting()) + " (" + strings.Join(parts, ", ") + ")"
}

// bound is TGS if no GPU waited for data. A pool that works for share w of its
// busy time would do its work in w of the time, so that no cluster can gain more
// than its most waiting pool.
func (x *analysis) bound() *float64 {
	tgs := x.r.Summary.TGS
	if tgs == nil {
		return nil
	}
	factor := 1.0
	for i := range x.r.Pools {
		p := &x.r.Pools[i]
		busy := million - p.Share[ActivityIdle]
		if work := busy - p.Waiting(); work > 0 {
			factor = max(factor, float64(busy)/float64(work))
		}
	}
	return num(*tgs * factor)
}

// cost says what waiting costs in tokens.
func (x *analysis) cost(a *NetworkAnswer) string {
	tgs := x.r.Summary.TGS
	if tgs == nil || a.TGSBound == nil || *tgs == 0 {
		return ""
	}
	text := fmt.Sprintf("; with none of it and the same batches TGS would be at most %s instead of %s (+%.1f %%)",
		short(*a.TGSBound), short(*tgs), (*a.TGSBound / *tgs - 1)*100)
	if l := x.r.Saturation.Load; l == Underloaded || l == KeepingUp {
		text += ", but the offered load sets TGS here: expect lower latency, not more tokens"
	}
	return text
}

// kvSentence states the KV transfer's part of TTFT.
func (x *analysis) kvSentence() string {
	s := &x.r.TTFTMean
	if s.TTFT == 0 || len(x.r.Transfers) == 0 && s.Transfer() == 0 {
		return ""
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
