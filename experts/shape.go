package experts

import "github.com/tgssim/tgssim/internal/config"

// Shape is what the choice depends on of a model.
type Shape struct {
	// Layers is the number of MoE layers; Experts is the routed experts of each, of
	// which a token chooses TopK.
	Layers, Experts, TopK int
	// Groups and TopGroups limit the choice: a token's experts lie in TopGroups of
	// Groups equal groups of consecutive experts. 0 or 1 groups, or as many top
	// groups as groups, are no limit.
	Groups, TopGroups int
}

// limited tells whether the groups limit the choice.
func (s Shape) limited() bool { return s.Groups > 1 && s.TopGroups < s.Groups }

// groups is the number of groups, 1 when there are none.
func (s Shape) groups() int { return max(1, s.Groups) }

// Limits of a shape.
const (
	maxLayers  = 1 << 10
	maxExperts = 1 << 14
	maxTopK    = 64
)

// Validate checks that a token can choose.
func (s Shape) Validate() error {
	var ps config.Problems
	ps.Require(s.Layers >= 1 && s.Layers <= maxLayers, "layers", "%d is out of range: 1 to %d", s.Layers, maxLayers)
	ps.Require(s.Experts >= 1 && s.Experts <= maxExperts, "experts", "%d is out of range: 1 to %d", s.Experts, maxExperts)
	most := min(maxTopK, s.Experts)
	ps.Require(s.TopK >= 1 && s.TopK <= most, "top_k", "%d is out of range: 1 to %d", s.TopK, most)
	if s.Groups > 1 {
		ps.Require(s.Experts%s.Groups == 0, "groups", "%d does not divide the %d experts", s.Groups, s.Experts)
		ps.Require(s.TopGroups >= 1 && s.TopGroups <= s.Groups, "top_groups", "%d is out of range: 1 to %d", s.TopGroups, s.Groups)
		ps.Require(s.TopGroups*(s.Experts/s.Groups) >= s.TopK, "top_groups",
			"%d groups of %d experts are too few to choose %d", s.TopGroups, s.Experts/s.Groups, s.TopK)
	}
	ps.Require(s.Groups >= 0, "groups", "%d is out of range: 0 (none) or more", s.Groups)
	return ps.Err()
}

// Cluster is the GPUs that hold the experts and the ranks whose tokens visit
// them, with the server of each. Servers are numbered from 0 without gaps.
type Cluster struct {
	// GPUs[g] is the server of GPU g.
	GPUs []int
	// Ranks[r] is the server of attention rank r.
	Ranks []int
}

// Packed is a cluster of that many GPUs, perServer to a server, with ranks of tp
// consecutive GPUs.
func Packed(gpus, perServer, tp int) Cluster {
	var c Cluster
	for g := range gpus {
		c.GPUs = append(c.GPUs, g/perServer)
		if g%tp == 0 {
			c.Ranks = append(c.Ranks, g/perServer)
		}
	}
	return c
}

// servers is the number of servers.
func (c Cluster) servers() int {
	n := 0
	for _, s := range c.GPUs {
		n = max(n, s+1)
	}
	return n
}

// perServer is the number of GPUs of every server, or 0 when they differ.
func (c Cluster) perServer() int {
	count := make([]int, c.servers())
	for _, s := range c.GPUs {
		count[s]++
	}
	for _, n := range count {
		if n != count[0] {
			return 0
		}
	}
	return count[0]
}

// maxGPUs bounds the GPUs of a cluster, as it does the ranks.
const maxGPUs = 1 << 14

// Validate checks that every server has GPUs and every rank a server.
func (c Cluster) Validate() error {
	var ps config.Problems
	if len(c.GPUs) < 1 || len(c.GPUs) > maxGPUs {
		ps.Addf("gpus", "%d is out of range: 1 to %d", len(c.GPUs), maxGPUs)
		return ps.Err()
	}
	ps.Require(len(c.Ranks) >= 1 && len(c.Ranks) <= maxGPUs, "ranks", "%d is out of range: 1 to %d", len(c.Ranks), maxGPUs)
	held := make([]bool, len(c.GPUs))
	for g, s := range c.GPUs {
		if s < 0 || s >= len(c.GPUs) {
			ps.Addf("gpus", "GPU %d is on server %d: 0 to %d is valid", g, s, len(c.GPUs)-1)
			return ps.Err()
		}
		held[s] = true
	}
	servers := c.servers()
	for s := range servers {
		ps.Require(held[s], "gpus", "server %d of %d holds none", s, servers)
	}
	for r, s := range c.Ranks {
		ps.Require(s >= 0 && s < servers, "ranks", "rank %d is on server %d: 0 to %d is valid", r, s, servers-1)
	}
	return ps.Err()
}
