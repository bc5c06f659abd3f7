package fabric

import (
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// The same traffic gives the same picoseconds on every processor, with and
// without fused multiply-add (GOAMD64=v3, arm64). The number is a golden one: it
// changes with the hash of routing or with the model, and then for a reason.
func TestSameBitsEverywhere(t *testing.T) {
	tc := cluster(128)
	tc.NICRate, tc.LinkRate, tc.NVLinkRate = 399_999_999_937, 299_999_999_977, 1_277_777_777_777
	tc.Oversubscription, tc.UplinksPerLeaf, tc.Spines = 0, 32, 8
	c := DefaultConfig()
	c.ECMPSeed, c.NVLinkEfficiency = 1, 0.87
	g := build(t, tc)
	s := &story{}
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		s.messages = append(s.messages, Message{
			Src: topology.GPU(r.IntN(128)), Dst: topology.GPU(r.IntN(128)), Bytes: units.Bytes(r.Int64N(1e7)), QPs: r.IntN(5),
		})
		s.begin = append(s.begin, sim.Time(r.Int64N(1e9)))
	}
	for i := range 8 {
		spec := allToAll("ep", gpuRange(i*8, i*8+32), 0)
		for j := range spec.Shares {
			spec.Shares[j].Milli = r.Int64N(1e9)
		}
		s.specs = append(s.specs, spec)
		s.runs = append(s.runs, storyRun{spec: i, units: same(32, 1), at: sim.Time(r.Int64N(1e9))})
	}
	h := fnv.New64a()
	for _, at := range s.tell(t, c, g) {
		require.NoError(t, binary.Write(h, binary.LittleEndian, int64(at)))
	}
	require.Equal(t, uint64(0x11cef637bf0dbd72), h.Sum64())
}
