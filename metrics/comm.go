package metrics

import (
	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/serving"
)

// A CommPart is what an instant of a dispatch, a combine or a KV transfer goes
// to, hidden behind compute or not; see serving.CommTime.
type CommPart uint8

// The parts, from the GPU outwards.
const (
	// CommStartup is kernels and posting.
	CommStartup CommPart = iota
	// CommLatency is the latency of the links and switches.
	CommLatency
	// CommPorts is the bytes of the busiest end port: a NIC, or a GPU's NVLink.
	CommPorts
	// CommPaths is what links inside the fabric add with no other traffic on
	// them: uneven ECMP, oversubscription.
	CommPaths
	// CommContention is what other traffic adds.
	CommContention
	NumCommParts
)

// String names the part as the JSON keys do.
func (c CommPart) String() string {
	return [...]string{"startup", "latency", "ports", "paths", "contention"}[c]
}

// A Comm is what a pool's dispatches and combines, or the KV transfers to it,
// consist of.
type Comm struct {
	// Seconds is the communication's time by part, in GPU-seconds: a dispatch of
	// an instance counts once for each of its GPUs, which all take part in it, and
	// so does a KV transfer to it, which all may have to wait for.
	Seconds [NumCommParts]float64
	// Share is the same in millionths; all 0 when there was no communication.
	Share [NumCommParts]int
	// OnNVLink tells that the end ports are NVLink's: no byte leaves a server.
	OnNVLink bool
}

// newComm splits spans, each of them on gpus GPUs.
func newComm(parts [NumCommParts]float64, gpus float64, onNVLink bool) Comm {
	c := Comm{OnNVLink: onNVLink}
	for k, v := range parts {
		c.Seconds[k] = v * gpus
	}
	copy(c.Share[:], Shares(c.Seconds[:], million))
	return c
}

// None tells that there was no communication, or that nothing is known of it.
func (c *Comm) None() bool { return c.Share == [NumCommParts]int{} }

// total is the time of all parts.
func (c *Comm) total() float64 {
	sum := 0.0
	for _, v := range c.Seconds {
		sum += v
	}
	return sum
}

// fabric is the time that a perfect fabric would take off: one that is never
// narrower than its end ports and that nobody else uses.
func (c *Comm) fabric() float64 { return c.Seconds[CommPaths] + c.Seconds[CommContention] }

// perInstance is the number of GPUs of one instance.
func perInstance(u *serving.PoolUsage) float64 {
	return float64(u.GPUs) / float64(max(u.Instances, 1))
}

// dispatches splits what a pool's dispatches and combines took.
func (x *analysis) dispatches(u *serving.PoolUsage) Comm {
	t := &u.Comm
	return newComm([NumCommParts]float64{
		CommStartup:    t.Startup.Seconds(),
		CommLatency:    t.Latency.Seconds(),
		CommPorts:      t.Ports.Seconds(),
		CommPaths:      t.Paths.Seconds(),
		CommContention: t.Contention.Seconds(),
	}, perInstance(u), x.insideServers(fabric.ClassEP) || x.fitsServer(u))
}

// kvTransfers splits what the KV transfers to a pool took. Latency, microseconds
// beside the milliseconds of a KV cache, is in CommPorts.
func (x *analysis) kvTransfers(u *serving.PoolUsage) Comm {
	var post, ports, paths, queue spanSum
	for i := range x.r.Transfers {
		t := &x.r.Transfers[i]
		post.add(t.Post)
		ports.add(t.Wire - t.Paths)
		paths.add(t.Paths)
		queue.add(t.Queue)
	}
	return newComm([NumCommParts]float64{
		CommStartup: post.in(), CommPorts: ports.in(), CommPaths: paths.in(), CommContention: queue.in(),
	}, perInstance(u), x.insideServers(fabric.ClassKV))
}

// insideServers tells that NICs are known and carry nothing of a class.
func (x *analysis) insideServers(c fabric.Class) bool {
	for i := range x.r.Links.All {
		if l := &x.r.Links.All[i]; l.Tier != TierNVLink && l.Payload[c] > 0 {
			return false
		}
	}
	return len(x.r.Links.All) > 0
}

// fitsServer tells that the instances of a pool lie within servers: they fill
// them in order, so that those that divide a server's GPUs never straddle two.
func (x *analysis) fitsServer(u *serving.PoolUsage) bool {
	if x.a.Graph == nil || u.GPUs <= 0 || u.Instances <= 0 {
		return false
	}
	return x.a.Graph.GPUsPerServer()%(u.GPUs/u.Instances) == 0 && x.a.Graph.GPUsPerServer() > 0
}

// Hidden is the share of a pool's dispatches and combines that compute hides,
// in millionths.
func (p *PoolTime) Hidden() int {
	all := p.Comm.total()
	if all == 0 {
		return 0
	}
	return int(max(0, 1-p.exposed()/all) * million)
}

// exposed is the GPU-seconds of dispatch and combine that nothing hid.
func (p *PoolTime) exposed() float64 { return p.Seconds[ActivityDispatch] + p.Seconds[ActivityCombine] }

// fabricBound is the most of a pool's GPU time that a perfect fabric could save,
// in millionths of it. Taking d off the communication of a step takes at most d
// off the step (a longest path shrinks by no more than its parts) and no more
// than what was exposed; so it is with KV that GPUs wait for. What the fabric
// adds to communication that was hidden anyway is therefore counted as if it had
// been exposed first: this is a bound and not an estimate.
func (p *PoolTime) fabricBound() int {
	all := 0.0
	for _, s := range p.Seconds {
		all += s
	}
	if all == 0 {
		return 0
	}
	saved := min(p.exposed(), p.Comm.fabric())
	if p.Usage.Pool != poolPrefill {
		saved += min(p.Seconds[ActivityWaitingKV], p.KV.fabric())
	}
	return min(int(saved/all*million), p.FabricWait())
}

// setComm copies the split of dispatches and combines into the Summary.
func (s *Summary) setComm(p *PoolTime) {
	v := func(k CommPart) float64 { return part(p.Comm.Share[k]) }
	switch p.Usage.Pool {
	case poolPrefill:
		s.StepsPrefill, s.TwoBatchStepsPrefill = p.Usage.Steps, p.Usage.TwoBatchSteps
		if !p.Comm.None() {
			s.CommSharesPrefill = &CommSharesPrefill{
				v(CommStartup), v(CommLatency), v(CommPorts), v(CommPaths), v(CommContention), part(p.Hidden()),
			}
		}
	case poolDecode:
		s.StepsDecode, s.TwoBatchStepsDecode = p.Usage.Steps, p.Usage.TwoBatchSteps
		if !p.Comm.None() {
			s.CommSharesDecode = &CommSharesDecode{
				v(CommStartup), v(CommLatency), v(CommPorts), v(CommPaths), v(CommContention), part(p.Hidden()),
			}
		}
	}
}
