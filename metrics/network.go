package metrics

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tgssim/tgssim/serving"
)

// A Waiter says who waits for whom.
type Waiter uint8

// The answers. From GPUWaitsLatency on they say what the largest part of the
// communication is that the GPUs wait for.
const (
	// WaiterUnknown: no pool reported its time.
	WaiterUnknown Waiter = iota
	// NetworkWaits: the GPUs hardly ever wait for data.
	NetworkWaits
	// GPUWaits: the GPUs wait; what for is not known.
	GPUWaits
	// GPUWaitsLatency: start-up, posting and latency, which no bandwidth buys
	// back.
	GPUWaitsLatency
	// GPUWaitsPorts: the bytes of the GPUs' own NICs, or of NVLink, which no
	// better fabric carries faster.
	GPUWaitsPorts
	// GPUWaitsPaths: the fabric inside, uneven paths or oversubscription.
	GPUWaitsPaths
	// GPUWaitsContention: sharing links with other traffic.
	GPUWaitsContention
)

// String names the answer.
func (w Waiter) String() string {
	return [...]string{
		"unknown", "network_waits", "gpu_waits", "gpu_waits_latency", "gpu_waits_ports", "gpu_waits_paths",
		"gpu_waits_contention",
	}[w]
}

// A NetworkAnswer answers: is the GPU waiting for the network, or the network
// for the GPU, what for, and what does it cost?
type NetworkAnswer struct {
	Waiter Waiter
	// Pool is the pool that the answer is about: the one that limits a saturated
	// cluster, or else the one that waits most.
	Pool string
	// TGSBound is an upper bound of TGS if no GPU ever waited for the fabric, and
	// TGSPerfect if the fabric were perfect: no wider than its end ports, but never
	// narrower, and never shared. Both with batches unchanged; nil without a TGS
	// above 0, and when GPUs do so little but wait that the bound says nothing.
	TGSBound, TGSPerfect *float64
	// Sentences are the answer, the other pool's wait and the all-reduce's part if
	// they matter, and the KV transfer's part of TTFT.
	Sentences []string
}

// waitsFrom is the share, in millionths, of the time that GPUs have work from
// which waiting counts.
const waitsFrom = 50_000

// network answers the question from the GPU time split, and asks what the
// communication consists of before it blames anything.
func (x *analysis) network() {
	a, s := &x.r.Network, &x.r.Summary
	for i := range x.r.Pools {
		p := &x.r.Pools[i]
		if !p.known() {
			continue
		}
		exposed, wait := num(part(p.Exposed())), num(part(p.ofBusy(p.FabricWait())))
		switch p.Usage.Pool {
		case poolPrefill:
			s.ExposedCommPrefill, s.FabricWaitPrefill = exposed, wait
		case poolDecode:
			s.ExposedCommDecode, s.FabricWaitDecode = exposed, wait
		}
	}
	if judged := x.judged(); judged != nil {
		a.Pool = judged.Usage.Pool
		a.Waiter = judged.waiter()
		perfect, none := x.gains(judged)
		a.TGSBound, a.TGSPerfect = s.bound(none), s.bound(perfect)
		s.TGSWithoutFabricWait, s.TGSPerfectFabric = a.TGSBound, a.TGSPerfect
		a.Sentences = append(a.Sentences, x.waitSentence(judged, a.Waiter))
		for i := range x.r.Pools {
			if p := &x.r.Pools[i]; p != judged && p.ofBusy(p.FabricWait()) >= waitsFrom {
				a.Sentences = append(a.Sentences, x.otherSentence(p))
			}
		}
	}
	for _, t := range []string{x.allReduceSentence(), x.kvSentence()} {
		if t != "" {
			a.Sentences = append(a.Sentences, t)
		}
	}
	s.NetworkVerdict = a.Waiter.String()
	s.NetworkAnswer = strings.Join(a.Sentences, " ")
}

// boundless is the factor from which an upper bound says nothing: GPUs that
// wait nine tenths of their time would not do ten times the work with the
// batches that they have.
const boundless = 10

// bound is TGS times a factor; nil when that says nothing.
func (s *Summary) bound(factor float64) *float64 {
	if s.TGS == nil || *s.TGS == 0 || factor > boundless {
		return nil
	}
	return num(*s.TGS * factor)
}

// known tells that the pool reported its time.
func (p *PoolTime) known() bool { return p.Share != [NumActivities]int{} }

// judged is the pool that the answer is about, nil when none is known. What a
// saturated cluster delivers is up to the pool that limits it, however long the
// others wait; with room everywhere, the pool that waits most has most to gain.
func (x *analysis) judged() *PoolTime {
	limits := ""
	if s := &x.r.Saturation; s.Load == Saturated {
		limits = poolDecode
		if s.Bottleneck == StageQueue {
			limits = poolPrefill
		}
	}
	var most *PoolTime
	for i := range x.r.Pools {
		p := &x.r.Pools[i]
		switch {
		case !p.known():
		case p.Usage.Pool == limits:
			return p
		case most == nil || p.ofBusy(p.FabricWait()) > most.ofBusy(most.FabricWait()):
			most = p
		}
	}
	return most
}

// gain is the factor by which a pool would get its work done faster if it saved
// a share of its GPU time, in millionths; of a pool that would have nothing left
// to do, a millionth is left.
func (p *PoolTime) gain(saved int) float64 {
	busy := max(p.Busy(), 1)
	return float64(busy) / float64(busy-min(saved, busy-1))
}

// gains are the factors by which TGS could grow at most with a perfect fabric,
// and without any waiting for the fabric: those of the judged pool when it is
// known to limit the cluster, or else the largest of any pool.
func (x *analysis) gains(judged *PoolTime) (perfect, none float64) {
	perfect, none = judged.gain(judged.fabricBound()), judged.gain(judged.FabricWait())
	if x.r.Saturation.Load == Saturated {
		return perfect, none
	}
	for i := range x.r.Pools {
		p := &x.r.Pools[i]
		perfect, none = max(perfect, p.gain(p.fabricBound())), max(none, p.gain(p.FabricWait()))
	}
	return perfect, none
}

// waitedFor is the communication that most of a pool's wait is for: its
// dispatches and combines, or the KV that is on its way to it.
func (p *PoolTime) waitedFor() (c *Comm, isKV bool) {
	if p.Usage.Pool != poolPrefill && p.Share[ActivityWaitingKV] > p.Share[ActivityDispatch]+p.Share[ActivityCombine] {
		return &p.KV, true
	}
	return &p.Comm, false
}

// waiter is the verdict on a pool.
func (p *PoolTime) waiter() Waiter {
	if p.ofBusy(p.FabricWait()) < waitsFrom {
		return NetworkWaits
	}
	c, _ := p.waitedFor()
	return c.cause()
}

// cause is the largest part of communication, the one nearest to the GPU among
// equals.
func (c *Comm) cause() Waiter {
	first, _ := c.causes()
	return first
}

// closeCall is the part of the largest cause from which the second largest is as
// good as equal: seeds alone could swap them.
const closeCall = 0.8

// causes are the largest part of communication and, when it is as good as equal,
// the second largest, or else WaiterUnknown.
func (c *Comm) causes() (first, second Waiter) {
	if c.None() {
		return GPUWaits, WaiterUnknown
	}
	type part struct {
		cause Waiter
		share int
	}
	parts := []part{
		{GPUWaitsLatency, c.Share[CommStartup] + c.Share[CommLatency]},
		{GPUWaitsPorts, c.Share[CommPorts]},
		{GPUWaitsPaths, c.Share[CommPaths]},
		{GPUWaitsContention, c.Share[CommContention]},
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(b.share, a.share) })
	if float64(parts[1].share) >= closeCall*float64(parts[0].share) {
		second = parts[1].cause
	}
	return parts[0].cause, second
}

// mainly names what is waited for, both causes when they are as good as equal.
func (x *analysis) mainly(c *Comm) string {
	first, second := c.causes()
	if second == WaiterUnknown {
		return "mainly for " + x.causeName(c, first)
	}
	return "for " + x.causeName(c, first) + " and about as much for " + x.causeName(c, second)
}

// dominates is the share, in millionths, from which start-up and latency leave
// so little to bandwidth that it is not to blame at all.
const dominates = 2 * million / 3

// waitSentence is the answer on the pool that was judged.
func (x *analysis) waitSentence(p *PoolTime, w Waiter) string {
	if p.FabricWait() == 0 {
		return "The network waits for the GPUs: no GPU ever waits for the fabric, so a faster one would not add a token."
	}
	pool := p.Usage.Pool
	if x.r.Saturation.Load == Saturated {
		pool += " limits this run, and its"
	}
	_, none := x.gains(p)
	if p.ofBusy(p.FabricWait()) < negligible {
		return fmt.Sprintf("The network waits for the GPUs: %s GPUs hardly ever wait for the fabric (%s of the time that they have work).",
			pool, percent(p.ofBusy(p.FabricWait())))
	}
	if w == NetworkWaits {
		return fmt.Sprintf("The network waits for the GPUs: %s GPUs spend only %s of the time that they have work waiting for %s; no waiting at all would gain %s.",
			pool, percent(p.ofBusy(p.FabricWait())), p.breakdown(), atMost(none))
	}
	c, isKV := p.waitedFor()
	head := "The GPUs wait for communication"
	switch {
	case w == GPUWaitsLatency && c.Share[CommStartup]+c.Share[CommLatency] >= dominates:
		head += ", but not for bandwidth"
	case w == GPUWaitsLatency:
		head += ", " + x.mainly(c)
	case w == GPUWaitsPorts && c.OnNVLink:
		head += " inside their servers, over NVLink"
	case w != GPUWaits:
		head = "The GPUs wait for the network, " + x.mainly(c)
	}
	return fmt.Sprintf("%s: %s GPUs spend %s of the time that they have work waiting for %s.%s%s", head, pool,
		percent(p.ofBusy(p.FabricWait())), p.breakdown(), x.consistsOf(c, isKV), x.cost(p, w))
}

// otherSentence is a word on a pool that was not judged and waits too.
func (x *analysis) otherSentence(p *PoolTime) string {
	c, _ := p.waitedFor()
	why := ""
	if !c.None() {
		why = ", " + x.mainly(c)
	}
	return fmt.Sprintf("%s GPUs wait %s of the time that they have work%s.",
		strings.ToUpper(p.Usage.Pool[:1])+p.Usage.Pool[1:], percent(p.ofBusy(p.FabricWait())), why)
}

// causeName names what is waited for.
func (x *analysis) causeName(c *Comm, w Waiter) string {
	switch {
	case w == GPUWaitsLatency:
		return "start-up and latency"
	case w == GPUWaitsPorts && c.OnNVLink:
		return "NVLink"
	case w == GPUWaitsPorts:
		return "their own NICs"
	case w == GPUWaitsPaths:
		return "the fabric inside (" + x.pathsName() + ")"
	}
	return "links shared with other traffic"
}

// oversubscribedFrom is the ratio from which a fabric is called oversubscribed.
const oversubscribedFrom = 1.01

// pathsName names what makes the links inside the fabric a bottleneck.
func (x *analysis) pathsName() string {
	if x.a.Graph == nil {
		return "uneven paths or oversubscribed links"
	}
	if r := x.a.Graph.Oversubscription(); r > oversubscribedFrom {
		return fmt.Sprintf("oversubscribed links, %.3g:1", r)
	}
	return "uneven ECMP paths"
}

// negligible is the share, in millionths, below which a part is not worth
// naming: it would print as 0.0 %.
const negligible = 500

// breakdown is what a pool waits for: "dispatch (2.7 %) and combine (14.0 %)".
func (p *PoolTime) breakdown() string {
	activities := []Activity{ActivityDispatch, ActivityCombine}
	if p.Usage.Pool != poolPrefill {
		activities = append(activities, ActivityWaitingKV)
	}
	shares := make([]int, len(activities))
	for i, a := range activities {
		shares[i] = p.ofBusy(p.Share[a])
	}
	shares = summing(p.ofBusy(p.FabricWait()), shares)
	var parts []string
	for i, a := range activities {
		if share := shares[i]; share >= negligible {
			name := strings.ReplaceAll(a.String(), "waiting_kv", "KV under way")
			parts = append(parts, fmt.Sprintf("%s (%s)", name, percent(share)))
		}
	}
	if len(parts) == 0 {
		return "the fabric"
	}
	return and(parts)
}

// and joins a list as a sentence does.
func and(parts []string) string {
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	return strings.Join(parts[:len(parts)-1], ", ") + " and " + parts[len(parts)-1]
}

// consistsOf says what communication consists of, leaving out what is nothing.
func (x *analysis) consistsOf(c *Comm, isKV bool) string {
	if c.None() {
		return ""
	}
	startup, ports := "start-up and latency", "NIC bandwidth"
	if isKV {
		startup = "posting"
	}
	if c.OnNVLink {
		ports = "NVLink bandwidth"
	}
	var parts []string
	names := []string{startup, ports, x.pathsName(), "contention"}
	t := summing(million, c.Share[:]) // as the table of all five parts has them
	for k, share := range []int{t[CommStartup] + t[CommLatency], t[CommPorts], t[CommPaths], t[CommContention]} {
		if share >= negligible {
			parts = append(parts, percent(share)+" "+names[k])
		}
	}
	what := " All dispatches and combines of the pool, hidden ones included, are "
	if isKV {
		what = " The KV transfers are "
	}
	return what + and(parts) + "."
}

// cost says what waiting costs. Both figures are upper bounds, and no tokens at
// all when the cluster does what it is asked for; without a TGS there is none to
// gain on.
func (x *analysis) cost(p *PoolTime, w Waiter) string {
	if tgs := x.r.Summary.TGS; tgs == nil || *tgs == 0 {
		return ""
	}
	c, _ := p.waitedFor()
	fabric, none := x.gains(p)
	all := atMost(none)
	text := ""
	switch {
	case fabric >= worthRunning:
		text = fmt.Sprintf("a perfect fabric (full bandwidth on every path, no other traffic) would gain %s (a run with network.engine ideal shows how much of it is real), and no waiting for dispatch, combine and KV at all %s",
			atMost(fabric), all)
	case w == GPUWaitsPorts && !c.OnNVLink:
		text = fmt.Sprintf("a better fabric would gain %s, faster NICs would help, and no waiting for dispatch, combine and KV at all would gain %s",
			orNothing(fabric), all)
	default:
		text = fmt.Sprintf("a better fabric would gain %s, and no waiting for dispatch, combine and KV at all %s", orNothing(fabric), all)
	}
	if l := x.r.Saturation.Load; l == Underloaded || l == KeepingUp {
		return " At this load that costs latency, not tokens: TGS is what was asked for. Under full load " + text + "."
	}
	return " With the same batches " + text + "."
}

// worthRunning is the bound from which a run with an ideal fabric is worth its
// while.
const worthRunning = 1.01

// orNothing prints what a factor adds at most.
func orNothing(factor float64) string {
	switch gain := factor - 1; {
	case gain == 0:
		return "nothing"
	case gain < 0.001:
		return "next to nothing"
	}
	return atMost(factor)
}

// atMost prints a factor as what it adds at most: "at most 25.5 %".
func atMost(factor float64) string {
	if factor > boundless {
		return "an unknown multiple"
	}
	return "at most " + percent(int((factor-1)*million))
}

// allReduceSentence states the all-reduce's part of GPU time, where it matters.
func (x *analysis) allReduceSentence() string {
	var parts []string
	for i := range x.r.Pools {
		if p := &x.r.Pools[i]; p.ofBusy(p.Share[ActivityAllReduce]) >= waitsFrom {
			parts = append(parts, percent(p.ofBusy(p.Share[ActivityAllReduce]))+" of the time that "+p.Usage.Pool+" GPUs have work")
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "All-reduce over NVLink takes " + and(parts) + "; it stays inside the servers, and no fabric changes it."
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
	t := summing(million, s.Share[:]) // as the table of all pieces has them
	post, wire, queue := t[serving.PieceTransferPost], t[serving.PieceTransferWire], t[serving.PieceTransferQueue]
	split := ""
	if s.Transfer() >= worthSplitting || x.r.TTFTTail.Transfer() >= worthSplitting {
		split = fmt.Sprintf(" (posting %s, wire %s, contention %s)", percent(post), percent(wire), percent(queue))
	}
	return fmt.Sprintf("KV transfer takes %s of the mean TTFT%s and %s of that of the slowest 1 %%.",
		percent(post+wire+queue), split, percent(x.r.TTFTTail.Transfer()))
}

// summing rounds parts, in millionths, up or down to tenths of a percent such that
// they sum to the sum as percent prints it, those with most to lose up; a part that
// has no tenth stays as it is.
func summing(sum int, parts []int) []int {
	out := make([]int, len(parts))
	order := make([]int, len(parts))
	left := tenths(sum)
	for i, p := range parts {
		order[i] = i
		out[i] = p / tenth
		left -= out[i]
	}
	slices.SortStableFunc(order, func(a, b int) int { return parts[b]%tenth - parts[a]%tenth })
	for _, i := range order[:min(max(left, 0), len(order))] {
		out[i]++
	}
	for i := range out {
		if out[i] *= tenth; out[i] == 0 {
			out[i] = parts[i]
		}
	}
	return out
}

// tenth is a tenth of a percent in millionths.
const tenth = 1000

// tenths rounds millionths to tenths of a percent, halves to even.
func tenths(millionths int) int {
	return int(math.RoundToEven(float64(millionths) / tenth))
}

// percent prints millionths as a percentage: "18.2 %", "0.04 %".
func percent(millionths int) string {
	v := float64(millionths) / 1e4
	switch {
	case millionths == 0:
		return "0 %"
	case v < 0.01:
		return "under 0.01 %"
	case v < 0.1:
		return fmt.Sprintf("%.2f %%", v)
	}
	return fmt.Sprintf("%.1f %%", float64(tenths(millionths))/10)
}
