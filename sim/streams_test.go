package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// The first values are part of a release: every golden result depends on them.
// They were computed from the documentation of Stream by a second program.
func TestStreamsArePinned(t *testing.T) {
	for _, c := range []struct {
		s    Streams
		name string
		want [3]uint64
	}{
		{Streams{}, "", [3]uint64{0xfc32b89dec54c282, 0xc545b748c09a4b91, 0x5ceca6c27976e222}},
		{Streams{Seed: 1}, "arrivals", [3]uint64{0x211896480f95180e, 0x26b9b91a88d4e35, 0xbab4007772e21021}},
		{Streams{Seed: 1, Replication: 1}, "arrivals", [3]uint64{0x4751fddbf473ff9a, 0xac8789c4293fd458, 0x66e46bd8d4b33c3f}},
		{Streams{Seed: 1}, "ecmp/leaf3", [3]uint64{0x8cc37434500530fc, 0xe6ecae902de1f9a9, 0x5299c07d87909acf}},
	} {
		r := c.s.Stream(c.name)
		got := [3]uint64{r.Uint64(), r.Uint64(), r.Uint64()}
		require.Equal(t, c.want, got, "%+v %q: got %#x", c.s, c.name, got)
	}
}

// A stream's numbers do not depend on which others exist or how far they are.
func TestStreamsDoNotShiftEachOther(t *testing.T) {
	s := Streams{Seed: 7, Replication: 3}
	alone := s.Stream("lengths")
	want := []uint64{alone.Uint64(), alone.Uint64(), alone.Uint64()}

	other := s.Stream("arrivals")
	other.Uint64()
	again := s.Stream("lengths")
	got := []uint64{again.Uint64()}
	other.Perm(1000)
	got = append(got, again.Uint64())
	s.Stream("a new component").Uint64()
	got = append(got, again.Uint64())
	require.Equal(t, want, got)
}

// Streams that differ in one thing look independent: with n pairs of uniform
// numbers the correlation is near 0 with standard error 1/sqrt(n), and the
// number of equal top bytes is binomial(n, 1/256). Five standard errors, on a
// fixed seed.
func TestStreamsAreIndependent(t *testing.T) {
	const n = 1 << 16
	base := Streams{Seed: 42}
	others := map[string]*rand.Rand{
		"seed":              Streams{Seed: 43}.Stream("arrivals"),
		"replication":       Streams{Seed: 42, Replication: 1}.Stream("arrivals"),
		"name":              base.Stream("arrival"),
		"longer name":       base.Stream("arrivals2"),
		"swapped":           Streams{Seed: 0, Replication: 42}.Stream("arrivals"),
		"name eats numbers": Streams{}.Stream("\x00\x00\x00\x00\x00\x00\x00*arrivals"),
	}
	for what, other := range others {
		r := base.Stream("arrivals")
		var xy, same float64
		for range n {
			a, b := r.Uint64(), other.Uint64()
			xy += (float64(a)/(1<<64) - 0.5) * (float64(b)/(1<<64) - 0.5)
			if a>>56 == b>>56 {
				same++
			}
		}
		require.InDelta(t, 0, xy*12/n, 5/math.Sqrt(n), what)
		require.InDelta(t, n/256., same, 5*math.Sqrt(n/256.*255/256), what)
	}
}

// Many names give many streams: no two of 10,000 begin alike.
func TestStreamsOfManyNames(t *testing.T) {
	seen := map[uint64]string{}
	for rep := range uint64(10) {
		for i := range 1000 {
			name := fmt.Sprintf("link%d", i)
			v := Streams{Seed: 5, Replication: rep}.Stream(name).Uint64()
			require.Empty(t, seen[v])
			seen[v] = name
		}
	}
}
