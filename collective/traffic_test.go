package collective

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// two servers that lend the group two GPUs each, of unlike local indices.
func unlike(t testing.TB) Placement {
	return Placement{Graph: servers(t, 2), Ranks: [][]topology.GPU{{0}, {1}, {9}, {11}}}
}

// Every share of a small group by hand. Four experts, one per GPU, of which a
// token selects one: a quarter of the tokens go to each GPU and half to each
// server. A token weighs 2 x 100 B.
func TestSharesByHand(t *testing.T) {
	e := Experts{Count: 4, TopK: 1, Hidden: 100}
	c := Config{Mode: ModeLowLatency, DispatchDType: "bf16", CombineDType: "fp8", Imbalance: 1}
	share := func(rank int, src, dst topology.GPU, milli int64) fabric.Share {
		return fabric.Share{Rank: rank, Src: src, Dst: dst, Milli: milli}
	}
	d, err := Dispatch(c, e, unlike(t))
	require.NoError(t, err)
	const quarter, half = 50_000, 100_000
	require.Equal(t, fabric.CollectiveSpec{
		Name: "dispatch", Class: fabric.ClassEP, QPs: 1, Ranks: 4, Shares: []fabric.Share{
			share(0, 0, 1, quarter), share(0, 0, 9, quarter), share(0, 0, 11, quarter),
			share(1, 1, 0, quarter), share(1, 1, 9, quarter), share(1, 1, 11, quarter),
			share(2, 9, 0, quarter), share(2, 9, 1, quarter), share(2, 9, 11, quarter),
			share(3, 11, 0, quarter), share(3, 11, 1, quarter), share(3, 11, 9, quarter),
		},
	}, d)

	// Normal mode: half of the tokens cross, to the GPU with the sender's local
	// index (1 to 9 and back) or its stand-in (index 0 to the first, 3 to the
	// second), which hands a quarter to the other GPU of its server.
	c.Mode = ModeNormal
	d, err = Dispatch(c, e, unlike(t))
	require.NoError(t, err)
	require.Equal(t, fabric.CollectiveSpec{
		Name: "dispatch", Class: fabric.ClassEP, QPs: 12, Ranks: 4, Shares: []fabric.Share{
			share(0, 0, 1, quarter), share(0, 0, 9, half), share(0, 9, 11, quarter),
			share(1, 1, 0, quarter), share(1, 1, 9, half), share(1, 9, 11, quarter),
			share(2, 9, 1, half), share(2, 1, 0, quarter), share(2, 9, 11, quarter),
			share(3, 11, 1, half), share(3, 1, 0, quarter), share(3, 11, 9, quarter),
		},
	}, d)

	// Back the same way in fp8: 100 B and one scale of 4 B.
	back, err := Combine(c, e, unlike(t))
	require.NoError(t, err)
	require.Equal(t, "combine", back.Name)
	require.Equal(t, share(0, 1, 0, 26_000), back.Shares[0])
	require.Equal(t, share(0, 9, 0, 52_000), back.Shares[1])
}

// fp8 has a 4-byte scale for every 128 elements begun.
func TestTokenBytes(t *testing.T) {
	for hidden, want := range map[int]int64{1: 5, 128: 132, 129: 137, 7168: 7392} {
		require.Equal(t, want, tokenBytes("fp8", hidden), hidden)
		require.Equal(t, int64(2*hidden), tokenBytes("bf16", hidden))
	}
}

// Pairs that carry less than a thousandth of a byte per token carry nothing.
func TestEmptySharesAreLeftOut(t *testing.T) {
	b := builder{spec: &fabric.CollectiveSpec{}, token: 1}
	b.add(0, 1, 0.0004)
	b.add(3, 3, 1)
	require.Empty(t, b.spec.Shares)
	b.add(0, 1, 0.0006)
	require.Equal(t, []fabric.Share{{Src: 0, Dst: 1, Milli: 1}}, b.spec.Shares)
}

// Queue pairs are the setting, or else DeepEP's: 12 channels in normal mode, one
// per expert of a GPU in low-latency mode.
func TestQueuePairs(t *testing.T) {
	p := place(servers(t, 2), 16, 1)
	for _, c := range []struct {
		mode      string
		set, want int
	}{
		{ModeNormal, 0, 12}, {ModeLowLatency, 0, 16},
		{ModeNormal, 1, 1}, {ModeLowLatency, 1, 1}, {ModeNormal, 5, 5}, {ModeLowLatency, 5, 5},
	} {
		cfg := DefaultDecode()
		cfg.Mode, cfg.QPs = c.mode, c.set
		for _, build := range []func(Config, Experts, Placement) (fabric.CollectiveSpec, error){Dispatch, Combine} {
			spec, err := build(cfg, deepSeek, p)
			require.NoError(t, err)
			require.Equal(t, c.want, spec.QPs, "%+v", c)
		}
	}
}

// Every token reaches every GPU that holds one of its experts, in whichever
// mode: what arrives at a GPU, less what it passes on, is its share of the
// selections; a token that a GPU passes on and keeps counts once.
func TestNormalModeDelivers(t *testing.T) {
	p := place(servers(t, 4), 32, 4)
	spec, err := Dispatch(DefaultPrefill(), deepSeek, p)
	require.NoError(t, err)
	for rank, own := range p.Ranks {
		over := map[topology.GPU]float64{} // NVLink copies, by receiver
		for _, s := range spec.Shares {
			if s.Rank == rank && p.Graph.ServerOf(s.Src) == p.Graph.ServerOf(s.Dst) {
				over[s.Dst] += float64(s.Milli) / 1000 / 7392
			}
		}
		for i, gpu := range p.GPUs() {
			// Every GPU of the rank sends a quarter of its tokens. What the relay
			// itself holds took no NVLink.
			want := deepSeek.Hit(8*i, 8)
			for _, src := range own {
				if p.Graph.LocalIndex(src) == p.Graph.LocalIndex(gpu) {
					want -= deepSeek.Hit(8*i, 8) / 4
				}
			}
			require.InDelta(t, want, over[gpu], 1e-5, "rank %d, GPU %d", rank, gpu)
		}
	}
}

func TestDefaultsAreDeepEPs(t *testing.T) {
	p, d := DefaultPrefill(), DefaultDecode()
	require.Equal(t, [2]sim.Time{72 * sim.Microsecond, 149 * sim.Microsecond}, [2]sim.Time{p.DispatchStartup, p.CombineStartup})
	require.Equal(t, [2]sim.Time{21 * sim.Microsecond, 19 * sim.Microsecond}, [2]sim.Time{d.DispatchStartup, d.CombineStartup})
	require.Equal(t, [2]string{ModeNormal, ModeLowLatency}, [2]string{p.Mode, d.Mode})
}

// Each setting at both ends of its range, and beyond.
func TestRanges(t *testing.T) {
	for _, c := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.QPs = 256 }, ""},
		{func(c *Config) { c.QPs = 257 }, "qps: 257 is out of range"},
		{func(c *Config) { c.QPs = -1 }, "qps: -1 is out of range"},
		{func(c *Config) { c.Imbalance = 256 }, ""},
		{func(c *Config) { c.Imbalance = 257 }, "imbalance: 257 is out of range"},
		{func(c *Config) { c.Imbalance = 0.99 }, "imbalance: 0.99 is out of range"},
		{func(c *Config) { c.DispatchStartup = 0 }, ""},
		{func(c *Config) { c.DispatchStartup = -1 }, "dispatch_startup: -1ps is out of range"},
		{func(c *Config) { c.DispatchStartup = sim.Second + 1 }, "dispatch_startup: 1.000000000001s is out of range"},
		{func(c *Config) { c.CombineStartup = sim.Second }, ""},
		{func(c *Config) { c.CombineStartup = sim.Second + 1 }, "combine_startup: 1.000000000001s is out of range"},
		{func(c *Config) { c.CombineDType = "fp4" }, `combine_dtype: unknown value "fp4"`},
	} {
		cfg := DefaultDecode()
		c.change(&cfg)
		if err := cfg.Validate(); c.want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, c.want)
		}
	}
}
