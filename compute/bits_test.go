package compute

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"
)

// The same bits on every CPU: run this with GOAMD64=v3, or on arm64, where the
// compiler fuses multiplications with additions. The number changes with every
// constant and kernel list; when it does so on purpose, write the new one here.
func TestTimesHaveTheSameBitsEverywhere(t *testing.T) {
	h := fnv.New64a()
	add := func(values ...uint64) {
		for _, v := range values {
			var b [8]byte
			binary.LittleEndian.PutUint64(b[:], v)
			h.Write(b[:])
		}
	}
	// Sizes that are neither round nor small, from a fixed sequence.
	next := uint64(12345)
	draw := func(top int) int {
		next = next*6364136223846793005 + 1442695040888963407
		return 1 + int(next>>33)%top
	}
	for _, name := range []string{"H20", "H800"} {
		p, err := LoadProfile(name)
		require.NoError(t, err)
		for _, k := range kernelsUnderTest() {
			for range 200 {
				size := make([]int, len(k.sizes))
				for i, top := range k.sizes {
					size[i] = draw(top)
				}
				add(math.Float64bits(k.time(p, 1/(1+float64(draw(7))/9), size)))
			}
		}
	}
	all := ranks(t)
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		r := all[name]
		for range 200 {
			for _, l := range []LayerTimes{
				r.Prefill([]Chunk{{draw(9000), draw(20000)}, {draw(500), 0}}),
				r.Decode(draw(600), int64(draw(1<<22)), draw(3)),
			} {
				add(uint64(l.AttnIn), uint64(l.AttnOut), uint64(l.Shared), uint64(l.DenseMLP), uint64(l.Head))
			}
			add(uint64(r.Experts(draw(2) == 1, int64(draw(1<<16)), 1+float64(draw(99))/77)))
		}
	}
	require.Equal(t, uint64(0xf17ebc3cb1c221d5), h.Sum64())
}
