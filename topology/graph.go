// Package topology describes what is wired to what: GPUs, NVLink switches,
// NICs, leaf and spine switches and the links between them. It is static: a
// graph is built once and then only read.
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

// LinkID is the index of a directed link. A cable is two links.
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
type Graph struct {
	Nodes []Node
	Links []Link
	// contract: see methods below; private fields as the builder needs.
}
