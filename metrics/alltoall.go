package metrics

import "github.com/tgssim/tgssim/serving"

// An AllToAll is what one dispatch, or one combine, of a pool moves and takes,
// hidden behind compute or not: means over all that were run, and over the GPUs of
// an instance.
type AllToAll struct {
	// Runs is how many there were; the rest is 0 without any.
	Runs int64
	// Microseconds is from the call to the last byte, start-up included.
	Microseconds float64
	// Logical, NVLink and Network are bytes per GPU; see collective.Volume.
	Logical, NVLink, Network float64
}

// newAllToAll divides a volume by its runs and GPUs.
func newAllToAll(v *serving.Volume, gpus float64) (a AllToAll) {
	if a.Runs = v.Runs; v.Runs <= 0 {
		return a
	}
	n := float64(v.Runs)
	a.Microseconds = v.Time.Microseconds() / n
	a.Logical, a.NVLink, a.Network = float64(v.Logical)/n/gpus, float64(v.NVLink)/n/gpus, float64(v.Network)/n/gpus
	return a
}

// Rate is bytes of it over its time, in GB/s; 0 where it takes none.
func (a *AllToAll) Rate(bytes float64) float64 {
	if a.Microseconds <= 0 {
		return 0
	}
	return bytes / a.Microseconds / 1e3
}

// AllToAllPrefill is what the prefill pool's dispatches and combines move.
type AllToAllPrefill struct {
	DispatchTime        float64 `json:"dispatch_us_prefill"`
	DispatchLogical     float64 `json:"dispatch_logical_bytes_prefill"`
	DispatchNVLink      float64 `json:"dispatch_nvlink_bytes_prefill"`
	DispatchNetwork     float64 `json:"dispatch_network_bytes_prefill"`
	DispatchLogicalRate float64 `json:"dispatch_logical_gb_per_s_prefill"`
	DispatchNVLinkRate  float64 `json:"dispatch_nvlink_gb_per_s_prefill"`
	DispatchNetworkRate float64 `json:"dispatch_network_gb_per_s_prefill"`
	CombineTime         float64 `json:"combine_us_prefill"`
	CombineLogical      float64 `json:"combine_logical_bytes_prefill"`
	CombineNVLink       float64 `json:"combine_nvlink_bytes_prefill"`
	CombineNetwork      float64 `json:"combine_network_bytes_prefill"`
	CombineLogicalRate  float64 `json:"combine_logical_gb_per_s_prefill"`
	CombineNVLinkRate   float64 `json:"combine_nvlink_gb_per_s_prefill"`
	CombineNetworkRate  float64 `json:"combine_network_gb_per_s_prefill"`
}

// AllToAllDecode is the same of the decode pool.
type AllToAllDecode struct {
	DispatchTime        float64 `json:"dispatch_us_decode"`
	DispatchLogical     float64 `json:"dispatch_logical_bytes_decode"`
	DispatchNVLink      float64 `json:"dispatch_nvlink_bytes_decode"`
	DispatchNetwork     float64 `json:"dispatch_network_bytes_decode"`
	DispatchLogicalRate float64 `json:"dispatch_logical_gb_per_s_decode"`
	DispatchNVLinkRate  float64 `json:"dispatch_nvlink_gb_per_s_decode"`
	DispatchNetworkRate float64 `json:"dispatch_network_gb_per_s_decode"`
	CombineTime         float64 `json:"combine_us_decode"`
	CombineLogical      float64 `json:"combine_logical_bytes_decode"`
	CombineNVLink       float64 `json:"combine_nvlink_bytes_decode"`
	CombineNetwork      float64 `json:"combine_network_bytes_decode"`
	CombineLogicalRate  float64 `json:"combine_logical_gb_per_s_decode"`
	CombineNVLinkRate   float64 `json:"combine_nvlink_gb_per_s_decode"`
	CombineNetworkRate  float64 `json:"combine_network_gb_per_s_decode"`
}

// An ExpertLoad is how the tokens of a pool were spread over its experts.
type ExpertLoad struct {
	// Busiest is the load of the busiest GPU of an instance over the mean of all, on
	// average over the layers drawn; MaxBusiest is the most.
	Busiest, MaxBusiest float64
	// Dropped is the share of choices that no expert had room for.
	Dropped float64
	// Rebalances is how often experts were placed anew and MovedBytes the weights
	// that changed GPUs for it.
	Rebalances, MovedBytes int64
}

// newExpertLoad is nil where no experts were drawn.
func newExpertLoad(u *serving.ExpertUsage) *ExpertLoad {
	if u.Draws == 0 {
		return nil
	}
	l := &ExpertLoad{
		Busiest: u.SumBusiest / float64(u.Draws), MaxBusiest: u.MaxBusiest,
		Rebalances: u.Rebalances, MovedBytes: u.MovedBytes,
	}
	if all := u.Chosen + u.Dropped; all > 0 {
		l.Dropped = float64(u.Dropped) / float64(all)
	}
	return l
}

// ExpertLoadPrefill is that of the prefill pool.
type ExpertLoadPrefill struct {
	Busiest    float64 `json:"expert_busiest_over_mean_prefill"`
	MaxBusiest float64 `json:"expert_max_busiest_over_mean_prefill"`
	Dropped    float64 `json:"expert_dropped_share_prefill"`
	Rebalances int64   `json:"expert_rebalances_prefill"`
	MovedBytes int64   `json:"expert_moved_bytes_prefill"`
}

// ExpertLoadDecode is that of the decode pool.
type ExpertLoadDecode struct {
	Busiest    float64 `json:"expert_busiest_over_mean_decode"`
	MaxBusiest float64 `json:"expert_max_busiest_over_mean_decode"`
	Dropped    float64 `json:"expert_dropped_share_decode"`
	Rebalances int64   `json:"expert_rebalances_decode"`
	MovedBytes int64   `json:"expert_moved_bytes_decode"`
}

// setAllToAll copies a pool's AllToAlls and the load of its experts into the
// Summary.
func (s *Summary) setAllToAll(p *PoolTime) {
	d, c := &p.Dispatch, &p.Combine
	v := AllToAllPrefill{
		d.Microseconds, d.Logical, d.NVLink, d.Network, d.Rate(d.Logical), d.Rate(d.NVLink), d.Rate(d.Network),
		c.Microseconds, c.Logical, c.NVLink, c.Network, c.Rate(c.Logical), c.Rate(c.NVLink), c.Rate(c.Network),
	}
	var experts *ExpertLoadPrefill
	if l := p.Experts; l != nil {
		experts = &ExpertLoadPrefill{l.Busiest, l.MaxBusiest, l.Dropped, l.Rebalances, l.MovedBytes}
	}
	switch p.Usage.Pool {
	case poolPrefill:
		s.ExpertLoadPrefill = experts
		if d.Runs > 0 {
			s.AllToAllPrefill = &v
		}
	case poolDecode:
		s.ExpertLoadDecode = (*ExpertLoadDecode)(experts)
		if d.Runs > 0 {
			s.AllToAllDecode = (*AllToAllDecode)(&v)
		}
	}
}
