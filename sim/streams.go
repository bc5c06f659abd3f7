package sim

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
)

// Streams derives the random streams of one run. Two streams of different names
// are independent, and a name's stream depends on nothing but the name, the seed
// and the replication: a component that is added, or draws more, shifts no other
// component's numbers.
type Streams struct {
	// Seed is the scenario's seed.
	Seed uint64
	// Replication counts the repetitions of a scenario, from 0.
	Replication uint64
}

// Stream returns the stream of that name from its beginning: the numbers of its
// Source. Name a stream for its purpose, "arrivals" or "ecmp/leaf3", and ask for
// it once: a second call starts over.
//
// Inside a run, take uniform numbers (Uint64, IntN, Float64, Perm, Shuffle) and
// transform them with internal/detmath. NormFloat64 and ExpFloat64 call
// math.Exp and math.Log, whose last bit differs between architectures.
func (s Streams) Stream(name string) *rand.Rand { return rand.New(s.Source(name)) }

// Source returns what a stream's numbers are taken from, for hot loops, where it is
// faster: a PCG-DXSM (math/rand/v2) seeded with the first 16 bytes of
//
//	SHA-256("tgssim stream\x00" || seed || replication || name)
//
// with both numbers as 8 bytes, big-endian.
func (s Streams) Source(name string) *rand.PCG {
	b := append([]byte(nil), "tgssim stream\x00"...)
	b = binary.BigEndian.AppendUint64(b, s.Seed)
	b = binary.BigEndian.AppendUint64(b, s.Replication)
	b = append(b, name...)
	sum := sha256.Sum256(b)
	return rand.NewPCG(binary.BigEndian.Uint64(sum[0:8]), binary.BigEndian.Uint64(sum[8:16]))
}
