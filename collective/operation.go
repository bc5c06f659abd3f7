package collective

import (
	"fmt"
	"slices"

	"github.com/tgssim/tgssim/experts"
	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/topology"
)

// A Kind is one of the two AllToAlls of an MoE layer.
type Kind uint8

// The kinds.
const (
	KindDispatch Kind = iota
	KindCombine
)

// String names the kind in lower case.
func (k Kind) String() string { return [...]string{"dispatch", "combine"}[k] }

// An Operation is the traffic of a dispatch or combine, as a linear function of
// its units.
type Operation struct {
	// Spec is what the fabric carries.
	Spec fabric.CollectiveSpec
	// Volumes is what each unit moves.
	Volumes []Volume
	alike   []int // ends of the runs of units that move the same
}

// A Volume is what is moved, over all ranks: in thousandths of a byte where it is
// of a unit or of a run.
type Volume struct {
	// Logical is what DeepEP divides by the time: every selection of an expert in
	// low-latency mode, every server that a token visits in normal mode, and every
	// GPU in all-gather mode, those of the sender included.
	Logical int64
	// NVLink is the bytes that go from one GPU of a server to another, and Network
	// those that leave a server. What stays on a GPU is in neither. In normal mode
	// what is forwarded counts on both.
	NVLink, Network int64
}

// Of returns the volume of a run with so many units.
func (o *Operation) Of(units []int64) (v Volume) {
	first := 0
	for _, end := range o.alike {
		n := int64(0)
		for _, units := range units[min(first, len(units)):min(end, len(units))] {
			n += max(0, units)
		}
		each := &o.Volumes[first]
		v.Logical += n * each.Logical
		v.NVLink += n * each.NVLink
		v.Network += n * each.Network
		first = end
	}
	return v
}

// NewOperation returns the traffic of a dispatch or combine, as Dispatch and
// Combine do: one unit is one token of a rank.
func NewOperation(k Kind, c Config, e Experts, p Placement) (Operation, error) {
	build := Dispatch
	if k == KindCombine {
		build = Combine
	}
	spec, err := build(c, e, p)
	if err != nil {
		return Operation{Spec: spec}, err
	}
	return newOperation(spec, p, func(rank int) int64 {
		copies := 0.
		switch c.Mode {
		case ModeNormal:
			gpus := p.GPUs()
			perGPU := e.Count / len(gpus)
			forServers(p, gpus, func(first, last int) { copies += e.Hit(perGPU*first, perGPU*(last-first)) })
		case ModeAllGather:
			copies = float64(len(p.GPUs()))
		default:
			copies = float64(e.TopK)
		}
		return roundMilli(float64(tokenBytes(c.dtype(k), e.Hidden)) * copies)
	}), nil
}

// newOperation works out what units move; logical is that of each.
func newOperation(spec fabric.CollectiveSpec, p Placement, logical func(unit int) int64) Operation {
	o := Operation{Spec: spec, Volumes: make([]Volume, spec.Ranks)}
	for i := range o.Volumes {
		o.Volumes[i].Logical = logical(i)
	}
	for _, s := range spec.Shares {
		if p.Graph.ServerOf(s.Src) == p.Graph.ServerOf(s.Dst) {
			o.Volumes[s.Rank].NVLink += s.Milli
		} else {
			o.Volumes[s.Rank].Network += s.Milli
		}
	}
	for i := range o.Volumes {
		if next := i + 1; next == len(o.Volumes) || o.Volumes[next] != o.Volumes[i] {
			o.alike = append(o.alike, next)
		}
	}
	return o
}

// dtype is the format of the elements that travel.
func (c Config) dtype(k Kind) string {
	if k == KindDispatch {
		return c.DispatchDType
	}
	return c.CombineDType
}

// NewRouted returns the traffic of a dispatch or combine that follows the experts
// that tokens choose; its units are those of Units, of which each is a thousandth
// of a token. slots is the number of experts that a GPU holds, copies included. In
// all-gather mode, which sends every token everywhere, it is NewOperation.
//
// A rank of several GPUs shares its tokens evenly among them, to the byte of a
// token, the first ones taking the odd bytes.
func NewRouted(k Kind, c Config, e Experts, p Placement, slots int) (Operation, error) {
	if c.Mode == ModeAllGather {
		return NewOperation(k, c, e, p)
	}
	gpus := p.GPUs()
	if len(gpus) == 0 {
		return Operation{}, fmt.Errorf("no GPU holds experts")
	}
	r := routed{
		spec:  fabric.CollectiveSpec{Name: k.String(), Class: fabric.ClassEP, QPs: c.QPs},
		place: p, gpus: gpus, bytes: tokenBytes(c.dtype(k), e.Hidden), back: k == KindCombine,
	}
	if c.Mode == ModeNormal {
		return r.normal(), nil
	}
	if c.QPs == 0 {
		r.spec.QPs = max(1, slots)
	}
	return r.lowLatency(), nil
}

// routed builds a routed operation.
type routed struct {
	spec  fabric.CollectiveSpec
	place Placement
	gpus  []topology.GPU
	bytes int64 // of a token: thousandths of a byte per thousandth of a token
	back  bool  // combine
}

// add sends a part of a unit.
func (r *routed) add(unit int, src, dst topology.GPU, bytes int64) {
	if src == dst || bytes == 0 {
		return
	}
	if r.back {
		src, dst = dst, src
	}
	r.spec.Shares = append(r.spec.Shares, fabric.Share{Rank: unit, Src: src, Dst: dst, Milli: bytes})
}

// part is what GPU i of n of a rank sends of a token.
func (r *routed) part(i, n int) int64 {
	part := r.bytes / int64(n)
	if int64(i) < r.bytes%int64(n) {
		part++
	}
	return part
}

// lowLatency: units are pairs of a rank and a GPU.
func (r *routed) lowLatency() Operation {
	r.spec.Ranks = len(r.place.Ranks) * len(r.gpus)
	for rank, own := range r.place.Ranks {
		for g, dst := range r.gpus {
			for i, src := range own {
				r.add(rank*len(r.gpus)+g, src, dst, r.part(i, len(own)))
			}
		}
	}
	return newOperation(r.spec, r.place, func(int) int64 { return r.bytes })
}

// normal: units are pairs of a rank and a server, and after them pairs of a rank
// and a GPU.
func (r *routed) normal() Operation {
	if r.spec.QPs == 0 {
		r.spec.QPs = deepEPChannels
	}
	servers := 0
	forServers(r.place, r.gpus, func(int, int) { servers++ })
	toGPUs := len(r.place.Ranks) * servers
	r.spec.Ranks = toGPUs + len(r.place.Ranks)*len(r.gpus)
	g := r.place.Graph
	for rank, own := range r.place.Ranks {
		for i, src := range own {
			server := 0
			forServers(r.place, r.gpus, func(first, last int) {
				here, relay := r.gpus[first:last], src
				if g.ServerOf(src) != g.ServerOf(here[0]) {
					relay = here[relayIndex(g, src, here)]
					r.add(rank*servers+server, src, relay, r.part(i, len(own)))
				}
				for j, dst := range here {
					r.add(toGPUs+rank*len(r.gpus)+first+j, relay, dst, r.part(i, len(own)))
				}
				server++
			})
		}
	}
	return newOperation(r.spec, r.place, func(unit int) int64 {
		if unit < toGPUs {
			return r.bytes
		}
		return 0
	})
}

// forServers calls f with the range of GPUs of each server, in order.
func forServers(p Placement, gpus []topology.GPU, f func(first, last int)) {
	for first := 0; first < len(gpus); {
		last := first + 1
		for last < len(gpus) && p.Graph.ServerOf(gpus[last]) == p.Graph.ServerOf(gpus[first]) {
			last++
		}
		f(first, last)
		first = last
	}
}

// Cluster is the placement as the experts package has it, with the servers in the
// order of their GPUs.
func (p Placement) Cluster() experts.Cluster {
	var c experts.Cluster
	gpus := p.GPUs()
	server := -1
	var last int
	for i, g := range gpus {
		if s := p.Graph.ServerOf(g); i == 0 || s != last {
			server, last = server+1, s
		}
		c.GPUs = append(c.GPUs, server)
	}
	at := 0
	for _, own := range p.Ranks {
		c.Ranks = append(c.Ranks, c.GPUs[at])
		at += len(own)
	}
	return c
}

// Units writes the units of a routed operation for one layer of one step to dst,
// which is used again where it is large enough, and returns them. tokens is that
// of each rank.
func Units(mode string, t *experts.Traffic, tokens []int64, dst []int64) []int64 {
	dst = dst[:0]
	switch mode {
	case ModeAllGather:
		return append(dst, tokens...)
	case ModeNormal:
		dst = slices.Grow(dst, len(t.ServerHits)+len(t.GPUHits))
		return append(append(dst, t.ServerHits...), t.GPUHits...)
	}
	return append(dst, t.Pairs...)
}

// Deduplicates tells whether a mode needs a token's GPUs and servers rather than
// its experts.
func Deduplicates(mode string) bool { return mode != ModeLowLatency }
