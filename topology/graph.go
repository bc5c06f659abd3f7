// Package topology describes what is wired to what: GPUs, NVLink switches,
// NICs, leaf and spine switches and the links between them. It is static: a
// graph is built once and then only read, so any number of runs may share it.
//
// Inside a server, GPU to GPU goes over GPU > NVSwitch > GPU links. Between
// servers it goes NIC > leaf > NIC, or NIC > leaf > spine > leaf > NIC. The hop
// between a GPU and its NIC (PCIe) is not a link; its time is part of the NIC's
// latency.
package topology

import (
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// GPU is the index of a GPU in the cluster, 0..GPUs-1, numbered server by
// server.
type GPU int32

// NodeID is the index of a vertex of the graph.
type NodeID int32

// LinkID is the index of a directed link. A cable is two links, 2k and 2k+1.
type LinkID int32

// NoNode and NoLink stand for the absence of one.
const (
	NoNode NodeID = -1
	NoLink LinkID = -1
)

// Kind says what a vertex is.
type Kind uint8

// The kinds of vertices.
const (
	KindGPU      Kind = iota // a GPU's NVLink port group
	KindNVSwitch             // the NVLink switch of one server
	KindNIC                  // an RDMA NIC
	KindLeaf                 // a leaf (top-of-rack or rail) switch
	KindSpine                // a spine switch
	numKinds
)

// String names the kind in lower case.
func (k Kind) String() string {
	return [...]string{"gpu", "nvswitch", "nic", "leaf", "spine"}[k]
}

// A Node is a vertex of the graph.
type Node struct {
	Kind Kind
	// Index counts within the kind: leaf 3, spine 0, NIC 17.
	Index int32
	// Name is unique and readable: "gpu17", "nic17", "leaf3", "spine0".
	Name string
}

// A Link is one direction of a cable.
type Link struct {
	From, To NodeID
	Rate     units.Rate
	// Delay is the propagation delay.
	Delay sim.Time
	// Name is readable and unique: "nic3>leaf0", "leaf0>spine2#1".
	Name string
}

// A Graph is a cluster's wiring. Build it with a builder of this package.
// Nodes are numbered kind by kind: GPUs first (so that GPU g is node g), then
// NVSwitches, NICs, leaves and spines. Callers read Nodes and Links and never
// change them.
type Graph struct {
	Nodes []Node
	Links []Link

	gpusPerNode int
	nicsPerNode int
	// first[k] is the first node of kind k; first[k+1] is one past its last.
	first [numKinds + 1]NodeID
	// latency is what a message spends inside a node of each kind.
	latency [numKinds]sim.Time
	// out holds the links leaving each node: out[outAt[n]:outAt[n+1]], ascending
	// by far end, parallel links together and in order.
	out   []LinkID
	outAt []int32
	// leaf is the leaf of each NIC, up and down the NIC's two links.
	leaf     []NodeID
	up, down []LinkID
	routes   routes
}

// count is the number of nodes of kind k.
func (g *Graph) count(k Kind) int { return int(g.first[k+1] - g.first[k]) }

// GPUs is the number of GPUs in the cluster.
func (g *Graph) GPUs() int { return g.count(KindGPU) }

// Servers is the number of servers.
func (g *Graph) Servers() int { return g.count(KindNVSwitch) }

// NICs is the number of NICs in the cluster, wired or not.
func (g *Graph) NICs() int { return g.count(KindNIC) }

// Leaves is the number of leaf switches.
func (g *Graph) Leaves() int { return g.count(KindLeaf) }

// Spines is the number of spine switches.
func (g *Graph) Spines() int { return g.count(KindSpine) }

// GPUsPerServer is the number of GPUs in every server.
func (g *Graph) GPUsPerServer() int { return g.gpusPerNode }

// ServerOf is the server that holds GPU gpu.
func (g *Graph) ServerOf(gpu GPU) int { return int(gpu) / g.gpusPerNode }

// LocalIndex is the index of a GPU inside its server.
func (g *Graph) LocalIndex(gpu GPU) int { return int(gpu) % g.gpusPerNode }

// GPUAt is the GPU with index local of a server.
func (g *Graph) GPUAt(server, local int) GPU { return GPU(server*g.gpusPerNode + local) }

// GPUNode is the vertex of a GPU.
func (g *Graph) GPUNode(gpu GPU) NodeID { return g.first[KindGPU] + NodeID(gpu) }

// NVSwitchOf is the NVLink switch of a server.
func (g *Graph) NVSwitchOf(server int) NodeID { return g.first[KindNVSwitch] + NodeID(server) }

// NICOf is the NIC that serves a GPU, or NoNode when servers have none.
func (g *Graph) NICOf(gpu GPU) NodeID {
	if g.nicsPerNode == 0 {
		return NoNode
	}
	server, local := g.ServerOf(gpu), g.LocalIndex(gpu)
	return g.first[KindNIC] + NodeID(server*g.nicsPerNode+local*g.nicsPerNode/g.gpusPerNode)
}

// LeafOf is the leaf that a NIC is cabled to, or NoNode when nic is not a NIC
// or has no cable.
func (g *Graph) LeafOf(nic NodeID) NodeID {
	if nic < g.first[KindNIC] || nic >= g.first[KindNIC+1] {
		return NoNode
	}
	return g.leaf[nic-g.first[KindNIC]]
}

// Out returns the links leaving a node, ascending by far end, parallel links
// together. The caller must not change the slice.
func (g *Graph) Out(node NodeID) []LinkID {
	return g.out[g.outAt[node]:g.outAt[node+1]:g.outAt[node+1]]
}

// LinksBetween returns the parallel links from one node to another, empty when
// they are not neighbours. It does not allocate; the caller must not change the
// slice.
func (g *Graph) LinksBetween(from, to NodeID) []LinkID {
	out := g.Out(from)
	lo := g.searchOut(out, to)
	hi := lo
	for hi < len(out) && g.Links[out[hi]].To == to {
		hi++
	}
	return out[lo:hi:hi]
}

// searchOut is the place in out of the first link whose far end is not below to.
func (g *Graph) searchOut(out []LinkID, to NodeID) int {
	lo, hi := 0, len(out)
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if g.Links[out[mid]].To < to {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// Reverse is the other direction of the same cable.
func (g *Graph) Reverse(l LinkID) LinkID { return l ^ 1 }

// SwitchLatency is the pipeline latency of a leaf or spine switch: from a
// packet's arrival at a port to the earliest start of its departure. It is 0
// for every other node; see NICLatency.
func (g *Graph) SwitchLatency(node NodeID) sim.Time {
	switch k := g.Nodes[node].Kind; k {
	case KindLeaf, KindSpine:
		return g.latency[k]
	}
	return 0
}

// NICLatency is what a message spends in the NIC, PCIe and software at each of
// its two ends, once per end and whatever its size.
func (g *Graph) NICLatency() sim.Time { return g.latency[KindNIC] }

// PathLatency is the time that a message of no bytes takes over a path: the
// propagation of every link, the latency of every node between them, and that
// of the NIC at both ends. An empty path takes none.
func (g *Graph) PathLatency(path []LinkID) sim.Time {
	var t sim.Time
	for _, l := range path {
		link := &g.Links[l]
		t += link.Delay + g.latency[g.Nodes[link.From].Kind]
	}
	if len(path) > 0 {
		t += g.latency[g.Nodes[g.Links[path[len(path)-1]].To].Kind]
	}
	return t
}
