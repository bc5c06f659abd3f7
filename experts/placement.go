package experts

import (
	"fmt"
	"slices"

	"github.com/tgssim/tgssim/internal/config"
)

// A Placement is where one layer's experts are: every GPU has as many slots, and
// every slot holds a copy of one expert.
type Placement struct {
	// Slots is the number of slots of a GPU.
	Slots int
	// Expert[g*Slots+i] is the expert in slot i of GPU g.
	Expert []int32
}

// GPUs returns the number of GPUs.
func (p Placement) GPUs() int { return len(p.Expert) / p.Slots }

// Of returns the experts of a GPU, slot by slot.
func (p Placement) Of(gpu int) []int32 { return p.Expert[gpu*p.Slots : (gpu+1)*p.Slots] }

// Copies returns the number of copies of each of n experts.
func (p Placement) Copies(n int) []int {
	copies := make([]int, n)
	for _, e := range p.Expert {
		copies[e]++
	}
	return copies
}

// Clone returns a copy that shares nothing.
func (p Placement) Clone() Placement { return Placement{p.Slots, slices.Clone(p.Expert)} }

// checkSlots reports copies that do not fill the GPUs, with key as a problem's.
func checkSlots(ps *config.Problems, c PlacementConfig, s Shape, cl Cluster) {
	gpus, all := len(cl.GPUs), s.Experts+c.Redundant
	if all%gpus != 0 {
		ps.Addf("placement.redundant", "%d experts and %d redundant copies do not spread evenly over %d GPUs: %d copies would",
			s.Experts, c.Redundant, gpus, (all+gpus-1)/gpus*gpus-s.Experts)
	}
	if c.Strategy != PlaceEPLBHierarchical {
		return
	}
	servers := cl.servers()
	ps.Require(slices.IsSorted(cl.GPUs), "placement.strategy", "eplb_hierarchical needs the GPUs in the order of their servers")
	ps.Require(cl.perServer() > 0, "placement.strategy", "eplb_hierarchical needs as many GPUs on every server")
	ps.Require(s.groups()%servers == 0, "placement.strategy",
		"eplb_hierarchical gives each server whole groups: the %d servers must divide the %d groups; eplb needs no groups",
		servers, s.groups())
}

// Contiguous places consecutive copies on a GPU.
func Contiguous(experts, redundant, gpus int) Placement {
	p := Placement{Slots: (experts + redundant) / gpus}
	for i := range p.Slots * gpus {
		p.Expert = append(p.Expert, int32(i%experts))
	}
	return p
}

// Striped deals the copies out to the GPUs in turn.
func Striped(experts, redundant, gpus int) Placement {
	p := Placement{Slots: (experts + redundant) / gpus}
	p.Expert = make([]int32, p.Slots*gpus)
	for i := range p.Expert {
		p.Expert[i%gpus*p.Slots+i/gpus] = int32(i % experts)
	}
	return p
}

// EPLB places experts by load over all GPUs (the global policy of
// deepseek-ai/EPLB): the redundant copies go one by one to the expert whose
// copies carry most, and the copies, heaviest first, to the GPU that carries
// least among those with an empty slot. Unlike there, a GPU that holds the expert
// already is taken only when no other has room: two copies on one GPU balance
// nothing. load[e] is that of expert e in any unit, 0 or more.
func EPLB(load []float64, redundant, gpus int) Placement {
	p := Placement{Slots: (len(load) + redundant) / gpus}
	p.Expert = make([]int32, p.Slots*gpus)
	pack(load, identity(len(load)), redundant, gpus, p.Expert)
	return p
}

// EPLBHierarchical places whole groups of consecutive experts on each server,
// balanced by load, and then the server's experts and its part of the redundant
// copies on its GPUs as EPLB does. servers divides groups and gpus, and a
// server's GPUs are those with consecutive numbers.
func EPLBHierarchical(load []float64, groups, redundant, gpus, servers int) Placement {
	size, slots := len(load)/groups, (len(load)+redundant)/gpus
	p := Placement{Slots: slots, Expert: make([]int32, slots*gpus)}
	weights := make([]float64, groups)
	for e, l := range load {
		weights[e/size] += l
	}
	bins := packEqual(weights, groups/servers, servers)
	perServer := slots * gpus / servers
	for s := range servers {
		var own []int32
		for _, g := range bins[s*groups/servers : (s+1)*groups/servers] {
			for i := range size {
				own = append(own, g*int32(size)+int32(i))
			}
		}
		slices.Sort(own)
		pack(load, own, perServer-len(own), gpus/servers, p.Expert[s*perServer:(s+1)*perServer])
	}
	return p
}

// heaviest orders items by load, and by number where that is equal.
func heaviest(load []float64) []int32 {
	order := identity(len(load))
	slices.SortStableFunc(order, func(a, b int32) int {
		switch {
		case load[a] > load[b]:
			return -1
		case load[a] < load[b]:
			return 1
		}
		return 0
	})
	return order
}

// packEqual puts items, heaviest first, into the lightest bin with room for more;
// each bin takes room items, and bin b's are at [b*room, (b+1)*room).
func packEqual(load []float64, room, bins int) []int32 {
	out := make([]int32, room*bins)
	used, carried := make([]int, bins), make([]float64, bins)
	for _, i := range heaviest(load) {
		best := -1
		for b := range bins {
			if used[b] < room && (best < 0 || carried[b] < carried[best]) {
				best = b
			}
		}
		out[best*room+used[best]] = i
		used[best]++
		carried[best] += load[i]
	}
	return out
}

// pack replicates some experts and packs the copies into GPUs of equal slots.
func pack(load []float64, own []int32, redundant, gpus int, into []int32) {
	copies := make([]int, len(own))
	for i := range copies {
		copies[i] = 1
	}
	for range redundant {
		best := 0
		for i, e := range own {
			// More load per copy: a/m > b/n, without a division.
			if load[e]*float64(copies[best]) > load[own[best]]*float64(copies[i]) ||
				load[e] == 0 && load[own[best]] == 0 && copies[i] < copies[best] {
				best = i
			}
		}
		copies[best]++
	}
	var item []int32 // index in own of each copy
	var each []float64
	for i, e := range own {
		for range copies[i] {
			item, each = append(item, int32(i)), append(each, load[e]/float64(copies[i]))
		}
	}
	slots := len(into) / gpus
	used, carried := make([]int, gpus), make([]float64, gpus)
	for _, c := range heaviest(each) {
		expert := own[item[c]]
		best, twice := -1, true
		for g := range gpus {
			if used[g] == slots {
				continue
			}
			again := slices.Contains(into[g*slots:g*slots+used[g]], expert)
			if best < 0 || twice && !again || again == twice && carried[g] < carried[best] {
				best, twice = g, again
			}
		}
		into[best*slots+used[best]] = expert
		used[best]++
		carried[best] += each[c]
	}
}

// Load returns what each GPU carries when the copies of an expert share its load
// evenly.
func (p Placement) Load(load []float64) []float64 {
	copies := p.Copies(len(load))
	out := make([]float64, p.GPUs())
	for i, e := range p.Expert {
		out[i/p.Slots] += load[e] / float64(copies[e])
	}
	return out
}

// Imbalance returns the load of the busiest GPU over the mean: 1 when no GPU
// carries anything.
func (p Placement) Imbalance(load []float64) float64 {
	most, sum := 0., 0.
	for _, l := range p.Load(load) {
		most, sum = max(most, l), sum+l
	}
	if sum == 0 {
		return 1
	}
	return most * float64(p.GPUs()) / sum
}

// A Move is the weights of one expert on their way to a slot.
type Move struct {
	// Layer is the MoE layer.
	Layer int
	// Expert is the expert whose weights move.
	Expert int
	// From and To are GPUs: From has a copy in the old placement. They are the
	// same when the copy changes slots within a GPU, or is doubled there: no bytes
	// leave it.
	From, To int
	// Slot is the slot of To that receives the copy.
	Slot int
}

// String prints the move on one line.
func (m Move) String() string {
	return fmt.Sprintf("layer %d: expert %d from GPU %d to GPU %d, slot %d", m.Layer, m.Expert, m.From, m.To, m.Slot)
}

// align renumbers the GPUs of next, and the slots of each, so that as much as
// possible stays where it is in old: the bins of a balanced placement are alike,
// so which GPU takes which is free. With servers above 1, whole servers (of
// consecutive GPUs) change places, and then the GPUs within each.
func align(old, next Placement, servers int) Placement {
	block := len(old.Expert) / servers
	moved := next.Clone()
	if servers > 1 {
		for b, to := range match(Placement{block, old.Expert}, Placement{block, next.Expert}) {
			copy(moved.Expert[to*block:(to+1)*block], next.Expert[b*block:])
		}
	}
	out := next.Clone()
	for s := range servers {
		before := Placement{old.Slots, old.Expert[s*block : (s+1)*block]}
		after := Placement{old.Slots, moved.Expert[s*block : (s+1)*block]}
		into := Placement{old.Slots, out.Expert[s*block : (s+1)*block]}
		for b, to := range match(before, after) {
			alignSlots(before.Of(to), after.Of(b), into.Of(to))
		}
	}
	return out
}

// match returns the GPU of old that each GPU of next becomes: the pair with most
// copies in common first.
func match(old, next Placement) []int {
	gpus := old.GPUs()
	shared := make([]int, gpus*gpus)
	for g := range gpus {
		for b := range gpus {
			shared[g*gpus+b] = common(old.Of(g), next.Of(b))
		}
	}
	to, filled := make([]int, gpus), make([]bool, gpus)
	for b := range to {
		to[b] = -1
	}
	for want := old.Slots; want >= 0; want-- {
		for g := range gpus {
			for b := 0; b < gpus && !filled[g]; b++ {
				if to[b] < 0 && shared[g*gpus+b] == want {
					to[b], filled[g] = g, true
				}
			}
		}
	}
	return to
}

// common counts the copies that two GPUs share.
func common(a, b []int32) int {
	n := 0
	for i, e := range b {
		if slices.Contains(a, e) && !slices.Contains(b[:i], e) {
			n++
		}
	}
	return n
}

// alignSlots puts the experts of next into the slots that hold them in old, and
// the others into the slots that are left.
func alignSlots(old, next, out []int32) {
	rest := slices.Clone(next)
	for i, e := range old {
		out[i] = -1
		if j := slices.Index(rest, e); j >= 0 {
			out[i] = e
			rest = slices.Delete(rest, j, j+1)
		}
	}
	for i := range out {
		if out[i] < 0 {
			out[i], rest = rest[0], rest[1:]
		}
	}
}

// Moves lists what has to be sent so that old becomes next, slot by slot. A copy
// comes from the GPU itself where that has the expert, else from a GPU on its
// server, else from any; among those from the one that has sent least. server[g]
// is the server of GPU g.
func Moves(layer int, old, next Placement, server []int) []Move {
	holders := map[int32][]int{}
	for i, e := range old.Expert {
		if h := holders[e]; len(h) == 0 || h[len(h)-1] != i/old.Slots {
			holders[e] = append(h, i/old.Slots)
		}
	}
	sent := make([]int, old.GPUs())
	var moves []Move
	for i, e := range next.Expert {
		if i < len(old.Expert) && old.Expert[i] == e {
			continue
		}
		to := i / next.Slots
		rank := func(g int) int {
			switch {
			case g == to:
				return 0
			case server[g] == server[to]:
				return 1
			}
			return 2
		}
		from := -1
		for _, g := range holders[e] {
			if from < 0 || rank(g) < rank(from) || rank(g) == rank(from) && sent[g] < sent[from] {
				from = g
			}
		}
		if from != to {
			sent[from]++
		}
		moves = append(moves, Move{Layer: layer, Expert: int(e), From: from, To: to, Slot: i % next.Slots})
	}
	return moves
}
