package sim

import "math/bits"

const (
	// fingerprintSeed is the fingerprint's state before the first event: the
	// fraction of the square root of 2, so that it is nobody's choice.
	fingerprintSeed = 0x6a09e667f3bcc908
	// oddPhi is 2^64 over the golden ratio, odd: Knuth's multiplicative hashing
	// constant (The Art of Computer Programming, vol. 3, 6.4).
	oddPhi = 0x9e3779b97f4a7c15
)

// fold mixes v into the state h. It is a bijection of either argument, so two
// runs whose states have parted do not meet again by the same events.
func fold(h, v uint64) uint64 { return bits.RotateLeft64((h^v)*oddPhi, 29) }

// scramble is a bijection in which every input bit reaches every output bit: the
// finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014; constants of
// Stafford's variant 13).
func scramble(v uint64) uint64 {
	v = (v ^ v>>30) * 0xbf58476d1ce4e5b9
	v = (v ^ v>>27) * 0x94d049bb133111eb
	return v ^ v>>31
}
