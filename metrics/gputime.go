package metrics

import (
	"github.com/tgssim/tgssim/serving"
	"github.com/tgssim/tgssim/sim"
)

// An Activity is what a GPU is doing at an instant.
type Activity uint8

// The activities, as serving.GPUTime accounts for them.
const (
	ActivityCompute Activity = iota
	ActivityDispatch
	ActivityCombine
	ActivityAllReduce
	ActivityBarrier
	ActivityWaitingKV
	ActivityHost
	ActivityIdle
	NumActivities
)

// String names the activity as the JSON keys do.
func (a Activity) String() string {
	return [...]string{
		"compute", "dispatch", "combine", "all_reduce", "barrier", "waiting_kv", "host", "idle",
	}[a]
}

// A PoolTime is what the GPUs of one pool did.
type PoolTime struct {
	Usage serving.PoolUsage
	// Seconds is GPU time by activity, in GPU-seconds.
	Seconds [NumActivities]float64
	// Share is GPU time by activity in millionths; a pool that existed has a
	// million.
	Share [NumActivities]int
	// Comm is what the pool's dispatches and combines consist of, and KV, on a
	// pool that receives it, the KV transfers.
	Comm, KV Comm
	// Dispatch and Combine are what one of them moves and takes, on average, and
	// Experts how tokens are spread over experts; nil where they are not drawn.
	Dispatch, Combine AllToAll
	Experts           *ExpertLoad
}

// Exposed is the share of communication that nothing hid, in millionths.
func (p *PoolTime) Exposed() int {
	return p.Share[ActivityDispatch] + p.Share[ActivityCombine] + p.Share[ActivityAllReduce]
}

// FabricWait is the share of GPU time spent waiting for data that travels from
// GPU to GPU over the fabric, in millionths: exposed dispatch and combine and,
// on GPUs that decode, idling with KV under way. The all-reduce of tensor
// parallelism is not in it, since it stays inside a server; nor is the idling of
// prefill GPUs whose memory holds KV that could not leave, since it may be
// decode memory that it waits for.
func (p *PoolTime) FabricWait() int {
	wait := p.Share[ActivityDispatch] + p.Share[ActivityCombine]
	if p.Usage.Pool != poolPrefill {
		wait += p.Share[ActivityWaitingKV]
	}
	return wait
}

// Busy is the share of GPU time that is not idle for want of work, in
// millionths.
func (p *PoolTime) Busy() int {
	if p.Share == [NumActivities]int{} {
		return 0
	}
	return million - p.Share[ActivityIdle]
}

// ofBusy is a share of GPU time as a share of the time that is not idle, in
// millionths: ramp-up, drain and light load do not dilute it.
func (p *PoolTime) ofBusy(share int) int {
	if p.Busy() == 0 {
		return 0
	}
	return int(int64(share) * million / int64(p.Busy()))
}

// pools computes the GPU time split of every pool.
func (x *analysis) pools() {
	for _, u := range x.a.Pools {
		p := PoolTime{Usage: u}
		t := u.Time
		weights := make([]float64, NumActivities)
		for a, span := range [NumActivities]sim.Total{
			t.Compute, t.Dispatch, t.Combine, t.AllReduce, t.Barrier, t.WaitingKV, t.Host, t.Idle,
		} {
			p.Seconds[a] = span.Seconds()
			weights[a] = p.Seconds[a]
		}
		copy(p.Share[:], Shares(weights, million))
		p.Comm = x.dispatches(&u)
		p.Dispatch = newAllToAll(&u.Volume.Dispatch, perInstance(&u))
		p.Combine = newAllToAll(&u.Volume.Combine, perInstance(&u))
		p.Experts = newExpertLoad(&u.Experts)
		if u.Pool != poolPrefill {
			p.KV = x.kvTransfers(&u)
		}
		x.r.Pools = append(x.r.Pools, p)
		if x.a.End > 0 && t.Sum() != sim.TotalOf(x.a.End, u.GPUs) {
			x.note("The GPU time of the %s pool does not sum to its GPUs times the run's length.", u.Pool)
		}
	}
	s := &x.r.Summary
	for i := range x.r.Pools {
		p := &x.r.Pools[i]
		s.setComm(p)
		s.setAllToAll(p)
		if p.Share == [NumActivities]int{} {
			continue
		}
		switch p.Usage.Pool {
		case poolPrefill:
			s.GPUTimePrefill = gpuTimePrefillJSON(p.Share)
			s.PeakKVPrefill = peakKV(p.Usage)
		case poolDecode:
			s.GPUTimeDecode = gpuTimeDecodeJSON(p.Share)
			s.PeakKVDecode = peakKV(p.Usage)
		}
	}
}

// peakKV is the highest use of a rank's KV blocks, as a share.
func peakKV(u serving.PoolUsage) *float64 {
	if u.KVBlocks <= 0 {
		return nil
	}
	return num(float64(u.PeakKVBlocks) / float64(u.KVBlocks))
}
