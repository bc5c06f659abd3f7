package routing

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"
)

// TestMixIsSplitMix64 pins the finaliser to the published outputs of
// splitmix64 with seed 0.
func TestMixIsSplitMix64(t *testing.T) {
	for i, want := range []uint64{0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F} {
		require.Equal(t, want, mix(uint64(i+1)*golden))
	}
}

func TestSourcePort(t *testing.T) {
	require.Equal(t, uint16(49152), SourcePort(0))
	require.Equal(t, uint16(49153), SourcePort(1))
	require.Equal(t, uint16(65535), SourcePort(1<<14-1))
	require.Equal(t, uint16(49153), SourcePort(1<<14), "the high bits count")
	require.Equal(t, uint16(49153), SourcePort(1<<28), "all of them")
	seen := map[uint16]int{}
	for qp := range uint32(1 << 20) {
		p := SourcePort(qp)
		require.GreaterOrEqual(t, p, uint16(49152))
		seen[p]++
		if qp == 1<<14-1 {
			require.Len(t, seen, 1<<14, "QPs of one block have different ports")
		}
	}
	for _, n := range seen {
		require.Equal(t, 64, n, "every port serves as many QPs as the next")
	}
	require.Equal(t, FlowKey{Src: 3, Dst: 9, SrcPort: 49157, DstPort: 4791, Proto: 17}, RoCE(3, 9, 5))
}

func TestPick(t *testing.T) {
	require.Equal(t, 0, pick(0, 8))
	require.Equal(t, 7, pick(math.MaxUint64, 8))
	require.Equal(t, 4, pick(1<<63, 8))
	rapid.Check(t, func(t *rapid.T) {
		h, n := rapid.Uint64().Draw(t, "h"), rapid.IntRange(1, 1<<20).Draw(t, "n")
		require.Less(t, uint(pick(h, n)), uint(n))
	})
}

// chiSquare is the statistic of counts against equal shares, and its 99.9 %
// quantile under uniformity.
func chiSquare(counts []int) (x, limit float64) {
	total := 0
	for _, n := range counts {
		total += n
	}
	want := float64(total) / float64(len(counts))
	for _, n := range counts {
		x += (float64(n) - want) * (float64(n) - want) / want
	}
	return x, distuv.ChiSquared{K: float64(len(counts) - 1)}.Quantile(0.999)
}

// TestChoicesAreUniform draws keys the way clusters do, with little entropy and
// in order, which is where weak hashes fail.
func TestChoicesAreUniform(t *testing.T) {
	families := map[string]func(i uint32) FlowKey{
		"QPs of one pair":        func(i uint32) FlowKey { return RoCE(1, 2, i) },
		"sources to one sink":    func(i uint32) FlowKey { return RoCE(i, 2, 0) },
		"one source to all":      func(i uint32) FlowKey { return RoCE(1, i, 0) },
		"shift permutation":      func(i uint32) FlowKey { return RoCE(i, i+8, 0) },
		"addresses in steps":     func(i uint32) FlowKey { return RoCE(i<<16, i<<8, 0) },
		"all pairs of a cluster": func(i uint32) FlowKey { return RoCE(i%128, i/128, 0) },
		"source equals sink":     func(i uint32) FlowKey { return RoCE(i, i, 7) },
	}
	for name, key := range families {
		for _, n := range []int{2, 3, 7, 8, 16, 32, 128} {
			for seed := range uint64(4) {
				counts := make([]int, n)
				for i := range uint32(1 << 14) {
					counts[pick(Hash(key(i), seed), n)]++
				}
				x, limit := chiSquare(counts)
				// 196 tests at 1 in 1,000 each: leave room for the luckiest of them.
				require.Less(t, x, 1.3*limit, "%s over %d links, seed %d", name, n, seed)
			}
		}
	}
}

// TestSeedsAreIndependent crosses the choices under two neighbouring seeds: all
// pairs of choices must be equally frequent.
func TestSeedsAreIndependent(t *testing.T) {
	for seed := range uint64(16) {
		counts := make([]int, 64)
		for i := range uint32(1 << 14) {
			k := RoCE(i, i+1, 0)
			counts[8*pick(Hash(k, seed), 8)+pick(Hash(k, seed+1), 8)]++
		}
		x, limit := chiSquare(counts)
		require.Less(t, x, 1.3*limit, "seeds %d and %d", seed, seed+1)
	}
}

// TestAvalanche flips each input bit: each output bit must follow in half of
// the cases.
func TestAvalanche(t *testing.T) {
	const samples = 4000
	rng := rand.New(rand.NewPCG(1, 2))
	flips := [104 + 64][64]int{}
	for range samples {
		k := FlowKey{rng.Uint32(), rng.Uint32(), uint16(rng.Uint32()), uint16(rng.Uint32()), uint8(rng.Uint32())}
		seed := rng.Uint64()
		h := Hash(k, seed)
		for in := range flips {
			k2, s2 := flip(k, seed, in)
			d := h ^ Hash(k2, s2)
			for out := range 64 {
				flips[in][out] += int(d >> out & 1)
			}
		}
	}
	// 10,752 proportions; 5.5 standard errors are exceeded by chance once in
	// 2,000 such tables.
	limit := 5.5 * 0.5 / math.Sqrt(samples)
	for in := range flips {
		for out, n := range flips[in] {
			require.InDelta(t, 0.5, float64(n)/samples, limit, "input bit %d, output bit %d", in, out)
		}
	}
}

// flip inverts one of the 104 bits of the key or the 64 of the seed.
func flip(k FlowKey, seed uint64, bit int) (FlowKey, uint64) {
	switch {
	case bit < 32:
		k.Src ^= 1 << bit
	case bit < 64:
		k.Dst ^= 1 << (bit - 32)
	case bit < 80:
		k.SrcPort ^= 1 << (bit - 64)
	case bit < 96:
		k.DstPort ^= 1 << (bit - 80)
	case bit < 104:
		k.Proto ^= 1 << (bit - 96)
	default:
		seed ^= 1 << (bit - 104)
	}
	return k, seed
}

// TestHashIsPinned holds the hash to values from a second implementation, in
// another language: trajectories must be the same on every machine and version.
func TestHashIsPinned(t *testing.T) {
	require.Equal(t, uint64(0x33fe8bd4f9c57863), Hash(FlowKey{}, 0))
	require.Equal(t, uint64(0xb5b2f56fd594f1e5), Hash(FlowKey{0x0A000001, 0x0A000002, 49152, 4791, 17}, 7))
	require.Equal(t, uint64(0xc2564db1b106f2d3),
		Hash(FlowKey{math.MaxUint32, math.MaxUint32, math.MaxUint16, math.MaxUint16, math.MaxUint8}, math.MaxUint64))
}

func TestHashDoesNotAllocate(t *testing.T) {
	k := RoCE(1, 2, 3)
	require.Zero(t, testing.AllocsPerRun(100, func() { k.Src += uint32(Hash(k, 5)) }))
}

func BenchmarkHash(b *testing.B) {
	b.ReportAllocs()
	k := RoCE(1, 2, 3)
	for b.Loop() {
		k.Src = uint32(Hash(k, 5))
	}
}
