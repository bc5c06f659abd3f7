package collective

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

var deepSeek = Experts{Count: 256, TopK: 8, Groups: 8, GroupLimit: 4, Hidden: 7168}

// servers builds a packed cluster of 8-GPU servers.
func servers(t testing.TB, n int) *topology.Graph {
	c := topology.DefaultConfig()
	c.Nodes, c.Leaves, c.Spines = n, n, 8
	if n == 1 {
		c.Leaves, c.Spines = 1, 0
	}
	g, err := topology.LeafSpine(c)
	require.NoError(t, err)
	return g
}

// place makes ranks of tp GPUs each over the first GPUs of the cluster.
func place(g *topology.Graph, gpus, tp int) Placement {
	p := Placement{Graph: g}
	for i := 0; i < gpus; i += tp {
		var r []topology.GPU
		for j := range tp {
			r = append(r, topology.GPU(i+j))
		}
		p.Ranks = append(p.Ranks, r)
	}
	return p
}

// hitBySampling estimates Experts.Hit by drawing expert sets.
func hitBySampling(e Experts, first, held, draws int) float64 {
	rng := rand.New(rand.NewPCG(1, 2))
	// draw moves k random items to the front.
	draw := func(items []int, k int) {
		for i := range k {
			j := i + rng.IntN(len(items)-i)
			items[i], items[j] = items[j], items[i]
		}
	}
	groups, size, chosen := []int{0}, e.Count, 1
	if e.Groups > 1 {
		groups, size, chosen = make([]int, e.Groups), e.Count/e.Groups, e.GroupLimit
	}
	for g := range groups {
		groups[g] = g
	}
	pool := make([]int, chosen*size)
	hits := 0
	for range draws {
		draw(groups, chosen)
		for i := range pool {
			pool[i] = groups[i/size]*size + i%size
		}
		draw(pool, e.TopK)
		for _, expert := range pool[:e.TopK] {
			if expert >= first && expert < first+held {
				hits++
				break
			}
		}
	}
	return float64(hits) / float64(draws)
}

func TestHitMatchesSampling(t *testing.T) {
	const draws = 20_000
	for _, e := range []Experts{deepSeek, {Count: 128, TopK: 8, Hidden: 2048}, {Count: 8, TopK: 2, Hidden: 4096}} {
		for _, held := range []int{1, 2, 8, 32, 40, 48, 56, 64, 112, 128} {
			for _, first := range []int{0, 7, 16, 40} {
				if first+held > e.Count {
					continue
				}
				// Four standard errors of a proportion.
				require.InDelta(t, hitBySampling(e, first, held, draws), e.Hit(first, held), 0.0145,
					"%+v holding %d from %d", e, held, first)
			}
		}
	}
	require.Zero(t, deepSeek.Hit(5, 0))
	require.InDelta(t, 1, deepSeek.Hit(0, 256), 1e-12)
	// One expert is hit by k of E tokens, whatever the grouping.
	require.InDelta(t, 8./256, deepSeek.Hit(77, 1), 1e-12)
	require.InDelta(t, 2./8, Experts{Count: 8, TopK: 2}.Hit(3, 1), 1e-12)
}

// TestDispatchPayload holds the low-latency bytes to DeepEP's published payload
// of 128 tokens: 7,569,408 B dispatched and 14,680,064 B combined per rank,
// which count the selections that stay on the rank.
func TestDispatchPayload(t *testing.T) {
	g := servers(t, 4)
	p := place(g, 32, 1)
	for _, c := range []struct {
		build     func(Config, Experts, Placement) (fabric.CollectiveSpec, error)
		published int64
	}{{Dispatch, 7_569_408}, {Combine, 14_680_064}} {
		spec, err := c.build(DefaultDecode(), deepSeek, p)
		require.NoError(t, err)
		require.Len(t, spec.Shares, 32*31)
		sent := make([]int64, 32)
		for _, s := range spec.Shares {
			require.NotEqual(t, s.Src, s.Dst)
			sent[s.Rank] += s.Milli
		}
		for _, milli := range sent {
			require.InDelta(t, float64(c.published)*31/32, float64(milli*128)/1000, 1)
		}
	}
}

// TestCombineIsDispatchReversed: the same pairs the other way round, in the
// ratio of the element sizes.
func TestCombineIsDispatchReversed(t *testing.T) {
	g := servers(t, 4)
	for _, mode := range Modes {
		cfg := DefaultPrefill()
		cfg.Mode = mode
		d, err := Dispatch(cfg, deepSeek, place(g, 32, 2))
		require.NoError(t, err)
		c, err := Combine(cfg, deepSeek, place(g, 32, 2))
		require.NoError(t, err)
		require.Equal(t, len(d.Shares), len(c.Shares))
		for i := range d.Shares {
			require.Equal(t, d.Shares[i].Src, c.Shares[i].Dst)
			require.Equal(t, d.Shares[i].Dst, c.Shares[i].Src)
			require.Equal(t, d.Shares[i].Rank, c.Shares[i].Rank)
			require.InEpsilon(t, 14336./7392, float64(c.Shares[i].Milli)/float64(d.Shares[i].Milli), 1e-3)
		}
	}
}

// TestNormalModeDeduplicates: between servers a token travels once for each
// server that holds a selected expert, and every target GPU still gets it.
func TestNormalModeDeduplicates(t *testing.T) {
	g := servers(t, 4)
	p := place(g, 32, 1)
	normal, low := DefaultPrefill(), DefaultPrefill()
	low.Mode = ModeLowLatency
	between := func(c Config) (remote, arriving float64) {
		spec, err := Dispatch(c, deepSeek, p)
		require.NoError(t, err)
		for _, s := range spec.Shares {
			if s.Rank != 0 {
				continue
			}
			if g.ServerOf(s.Src) != g.ServerOf(s.Dst) {
				remote += float64(s.Milli)
				if c.Mode == ModeNormal {
					require.Equal(t, g.LocalIndex(s.Src), g.LocalIndex(s.Dst), "normal mode keeps to the rail")
				}
			}
			arriving += float64(s.Milli)
		}
		return remote / 1000 / 7392, arriving / 1000 / 7392
	}
	remote, _ := between(normal)
	require.InDelta(t, 3*deepSeek.Hit(64, 64), remote, 1e-3)
	flat, all := between(low)
	require.InDelta(t, 8*24./32, flat, 1e-3)
	require.InDelta(t, 8*31./32, all, 1e-3)
	require.Less(t, remote, flat/2)
}

func TestTensorParallelRanksSplitTheirTokens(t *testing.T) {
	g := servers(t, 2)
	one, err := Dispatch(DefaultDecode(), deepSeek, place(g, 16, 1))
	require.NoError(t, err)
	two, err := Dispatch(DefaultDecode(), deepSeek, place(g, 16, 2))
	require.NoError(t, err)
	sum := func(s fabric.CollectiveSpec, rank int) (milli int64) {
		for _, sh := range s.Shares {
			if sh.Rank == rank {
				milli += sh.Milli
			}
		}
		return milli
	}
	require.InEpsilon(t, float64(sum(one, 0)), float64(sum(two, 0)), 1e-4)
	require.Equal(t, 8, two.Ranks)
}

func TestUnevenExpertsAreRefused(t *testing.T) {
	_, err := Dispatch(DefaultDecode(), deepSeek, place(servers(t, 3), 24, 1))
	require.ErrorContains(t, err, "256 experts do not spread evenly over 24 GPUs")
}

func TestConfigIsChecked(t *testing.T) {
	c := DefaultPrefill()
	require.NoError(t, c.Validate())
	require.NoError(t, DefaultDecode().Validate())
	c.Mode, c.Imbalance, c.DispatchDType, c.CombineStartup = "normale", 0.5, "fp16", -1
	err := c.Validate()
	for _, want := range []string{
		`mode: unknown value "normale"`, "imbalance: 0.5 is out of range", `dispatch_dtype: unknown value "fp16"`,
		"combine_startup: -1ps is out of range",
	} {
		require.ErrorContains(t, err, want)
	}
}

func TestAllReduce(t *testing.T) {
	rate := 200 * 8 * units.Gbps // 200 GB/s: 5 ps per byte
	require.Zero(t, AllReduce(1<<20, 1, rate, sim.Microsecond))
	require.Equal(t, sim.Microsecond+5*1000, AllReduce(1000, 2, rate, sim.Microsecond))
	require.Equal(t, sim.Time(5*1750), AllReduce(1000, 8, rate, 0))
}

// All-gather sends every token whole to every other GPU, whatever its experts,
// and the combine sends as much back; a rank of two GPUs shares its tokens.
func TestAllGather(t *testing.T) {
	g := servers(t, 1)
	c := DefaultDecode()
	c.Mode, c.DispatchDType = ModeAllGather, "bf16"
	e := Experts{Count: 128, TopK: 8, Hidden: 2048}
	for _, tp := range []int{1, 2} {
		for _, build := range []func(Config, Experts, Placement) (fabric.CollectiveSpec, error){Dispatch, Combine} {
			spec, err := build(c, e, place(g, 4, tp))
			require.NoError(t, err)
			require.Equal(t, 1, spec.QPs)
			require.Len(t, spec.Shares, 4*3)
			for _, s := range spec.Shares {
				require.EqualValues(t, 1000*2*2048/tp, s.Milli)
			}
		}
	}
}

// The formats of dispatch and combine move their own bytes and no others.
func TestFormatsOfTraffic(t *testing.T) {
	p := place(servers(t, 4), 32, 1)
	bytes := func(c Config) (sums [2]int64) {
		for i, build := range []func(Config, Experts, Placement) (fabric.CollectiveSpec, error){Dispatch, Combine} {
			spec, err := build(c, deepSeek, p)
			require.NoError(t, err)
			for _, s := range spec.Shares {
				sums[i] += s.Milli
			}
		}
		return sums
	}
	for _, mode := range Modes {
		c := DefaultDecode()
		c.Mode = mode
		base := bytes(c)
		c.DispatchDType = "bf16"
		wide := bytes(c)
		require.Equal(t, base[1], wide[1])
		require.InEpsilon(t, 14336./7392, float64(wide[0])/float64(base[0]), 1e-4, mode)
		c.CombineDType = "fp8"
		narrow := bytes(c)
		require.Equal(t, wide[0], narrow[0])
		require.InEpsilon(t, 7392./14336, float64(narrow[1])/float64(base[1]), 1e-4, mode)
	}
}
