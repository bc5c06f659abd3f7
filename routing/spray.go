package routing

import (
	"math"

	"github.com/tgssim/tgssim/sim"
)

// A RoundRobin takes the paths in turn, packet by packet: the most even of
// sprays. Its zero value is ready.
type RoundRobin struct{ next uint32 }

// Next is the path of the next packet, out of paths.
func (r *RoundRobin) Next(paths int) int {
	if r.next >= uint32(paths) {
		r.next = 0
	}
	p := r.next
	r.next++
	return int(p)
}

// RandomPath is the path of draw number n, out of paths: uniform and
// independent of all others.
func RandomPath(seed, n uint64, paths int) int { return pick(mix(seed+(n+1)*golden), paths) }

// A Flowlet is LetFlow (Vanini et al., NSDI 2017) for one flow: packets that
// follow each other closely stay on a path, so that they stay in order; after a
// gap the next burst takes a random one. Its zero value is ready.
type Flowlet struct {
	last  sim.Time // of the last packet
	path  uint32
	count uint32 // flowlets so far
}

// Break ends the flowlet that is open: the paths have changed.
func (f *Flowlet) Break() { f.path = math.MaxUint32 }

// Next is the path of a packet sent now, out of paths, and whether it begins a
// flowlet: it is the first, or more than gap after the last, or there is no path
// of the last one's number any more. Flows of different seeds choose
// independently.
func (f *Flowlet) Next(now, gap sim.Time, seed uint64, paths int) (path int, begins bool) {
	if f.count == 0 || now-f.last > gap || int64(f.path) >= int64(paths) {
		f.count++
		f.path = uint32(RandomPath(mix(seed), uint64(f.count), paths))
		begins = true
	}
	f.last = now
	return int(f.path), begins
}
