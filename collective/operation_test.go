package collective

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/experts"
	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

var kinds = []Kind{KindDispatch, KindCombine}

// pairs are the thousandths of a byte between two GPUs of a run.
func pairs(o Operation, units []int64) map[[2]topology.GPU]int64 {
	out := map[[2]topology.GPU]int64{}
	for _, s := range o.Spec.Shares {
		out[[2]topology.GPU{s.Src, s.Dst}] += s.Milli * units[s.Rank]
	}
	return out
}

// Bytes by hand: the group of TestSharesByHand, whose four ranks have 3, 0, 1 and
// 2 tokens of 200 B, with the choices given below.
func TestRoutedBytesByHand(t *testing.T) {
	p := unlike(t) // GPUs 0 and 1 of one server, 9 and 11 of the other
	e := Experts{Count: 4, TopK: 2, Hidden: 100}
	c := Config{Mode: ModeLowLatency, DispatchDType: "bf16", CombineDType: "fp8", Imbalance: 1}
	require.Equal(t, experts.Cluster{GPUs: []int{0, 0, 1, 1}, Ranks: []int{0, 0, 1, 1}}, p.Cluster())
	const k = 1000
	// Rank 0: (0, 1), (1, 2), (2, 3). Rank 2: (2, 3). Rank 3: (0, 1), (0, 3).
	tr := experts.Traffic{
		Ranks: 4, GPUs: 4, Servers: 2, Slots: 1,
		Pairs: []int64{
			1 * k, 2 * k, 2 * k, 1 * k,
			0, 0, 0, 0,
			0, 0, 1 * k, 1 * k,
			2 * k, 1 * k, 0, 1 * k,
		},
		GPUHits: []int64{
			1 * k, 2 * k, 2 * k, 1 * k,
			0, 0, 0, 0,
			0, 0, 1 * k, 1 * k,
			2 * k, 1 * k, 0, 1 * k,
		},
		ServerHits: []int64{2 * k, 2 * k, 0, 0, 0, 1 * k, 2 * k, 1 * k},
	}
	const b = 200 * 1000 // a token, in thousandths of a byte
	d, err := NewRouted(KindDispatch, c, e, p, 1)
	require.NoError(t, err)
	units := Units(c.Mode, &tr, nil, nil)
	require.Equal(t, map[[2]topology.GPU]int64{
		{0, 1}: 2 * b, {0, 9}: 2 * b, {0, 11}: 1 * b,
		{1, 0}: 0, {1, 9}: 0, {1, 11}: 0,
		{9, 0}: 0, {9, 1}: 0, {9, 11}: 1 * b,
		{11, 0}: 2 * b, {11, 1}: 1 * b, {11, 9}: 0,
	}, pairs(d, units))
	// 12 selections, of which rank 0's one on GPU 0, rank 2's one on 9 and rank 3's
	// one on 11 stay.
	require.Equal(t, Volume{Logical: 12 * b, NVLink: 3 * b, Network: 6 * b}, d.Of(units))

	// Normal: rank 0 sends two tokens to the other server, through GPU 9 for want of
	// GPU 8, which hands one of them on; rank 3 sends two back, both for GPU 0 and
	// one for GPU 1, through GPU 1.
	c.Mode = ModeNormal
	d, err = NewRouted(KindDispatch, c, e, p, 1)
	require.NoError(t, err)
	units = Units(c.Mode, &tr, nil, units)
	got := pairs(d, units)
	require.Equal(t, map[[2]topology.GPU]int64{
		{0, 1}: 2 * b, {0, 9}: 2 * b, {1, 0}: 2 * b, {1, 9}: 0, {9, 1}: 0, {9, 11}: 2 * b, {11, 1}: 2 * b, {11, 9}: 0,
	}, got)
	require.Equal(t, Volume{Logical: 8 * b, NVLink: 6 * b, Network: 4 * b}, d.Of(units))

	// The combine is the dispatch backwards, 104 B a token.
	back, err := NewRouted(KindCombine, c, e, p, 1)
	require.NoError(t, err)
	for pair, milli := range pairs(back, units) {
		require.Equal(t, got[[2]topology.GPU{pair[1], pair[0]}]*104/200, milli)
	}
	require.Equal(t, 12, back.Spec.QPs)
	require.Equal(t, fabric.ClassEP, back.Spec.Class)
}

// A rank of several GPUs shares a token to the byte.
func TestRoutedRanksShareTokens(t *testing.T) {
	p := Placement{Graph: servers(t, 2), Ranks: [][]topology.GPU{{0, 1, 2}, {3, 8, 9}}}
	c := Config{Mode: ModeLowLatency, DispatchDType: "bf16", CombineDType: "bf16", Imbalance: 1}
	d, err := NewRouted(KindDispatch, c, Experts{Count: 6, TopK: 1, Hidden: 100}, p, 3)
	require.NoError(t, err)
	require.Equal(t, 3, d.Spec.QPs)
	sent := map[int]int64{}
	for _, s := range d.Spec.Shares {
		sent[s.Rank] += s.Milli
	}
	require.EqualValues(t, 200-67, sent[0], "a third stays on GPU 0, the odd bytes with the first")
	require.EqualValues(t, 200, sent[3])
}

// With equally popular experts, groups by lot and expected counts, routed traffic
// is the one that Dispatch computes from Hit, pair by pair, to the thousandths of
// a token that counts are rounded to.
func TestExpectedIsHit(t *testing.T) {
	for _, shape := range []struct {
		e             Experts
		servers, tp   int
		tokens        int64
		withoutGroups bool
	}{
		{deepSeek, 4, 1, 4096, false}, {deepSeek, 4, 4, 4096, false}, {deepSeek, 8, 1, 77, false},
		{Experts{Count: 128, TopK: 8, Hidden: 2048}, 2, 2, 1000, true}, {deepSeek, 16, 1, 128, false},
	} {
		gpus := 8 * shape.servers
		p := place(servers(t, shape.servers), gpus, shape.tp)
		tokens, counts := make([]int64, len(p.Ranks)), make([]int, len(p.Ranks))
		for i := range tokens {
			tokens[i], counts[i] = shape.tokens, int(shape.tokens)
		}
		cfg := experts.Default()
		cfg.GroupChoice = experts.GroupRandom
		for _, mode := range []string{ModeLowLatency, ModeNormal} {
			r, err := experts.New(experts.Setup{
				Config:  cfg,
				Shape:   experts.Shape{Layers: 1, Experts: shape.e.Count, TopK: shape.e.TopK, Groups: shape.e.Groups, TopGroups: shape.e.GroupLimit},
				Cluster: p.Cluster(), Deduplicate: Deduplicates(mode), Streams: sim.Streams{Seed: 1}, Name: "x",
			})
			require.NoError(t, err)
			var tr experts.Traffic
			r.Route(0, counts, &tr)
			c := DefaultPrefill()
			c.Mode = mode
			for _, k := range kinds {
				want, err := NewOperation(k, c, shape.e, p)
				require.NoError(t, err)
				got, err := NewRouted(k, c, shape.e, p, shape.e.Count/gpus)
				require.NoError(t, err)
				units := Units(mode, &tr, tokens, nil)
				a, b := pairs(want, tokens), pairs(got, units)
				require.Equal(t, len(a), len(b))
				// A thousandth of a token for each rank that uses the pair, and the half
				// thousandth of a byte per token that shares are rounded to.
				slack := float64(tokenBytes(c.dtype(k), shape.e.Hidden))*float64(len(p.Ranks)) + float64(shape.tokens)*float64(len(p.Ranks))
				for pair, milli := range a {
					require.InDelta(t, milli, b[pair], slack, "%v %s %v", pair, mode, k)
				}
				v, w := want.Of(tokens), got.Of(units)
				require.InEpsilon(t, v.Logical, w.Logical, 1e-4)
				require.InEpsilon(t, v.NVLink, w.NVLink, 1e-3)
				require.InEpsilon(t, v.Network, w.Network, 1e-3)
			}
		}
	}
}

// What DeepEP publishes as the payload of 128 tokens is the logical volume, and
// what stays on the GPU is not on the wire.
func TestVolumes(t *testing.T) {
	p := place(servers(t, 4), 32, 1)
	tokens := make([]int64, 32)
	for i := range tokens {
		tokens[i] = 128
	}
	for k, published := range map[Kind]int64{KindDispatch: 7_569_408, KindCombine: 14_680_064} {
		o, err := NewOperation(k, DefaultDecode(), deepSeek, p)
		require.NoError(t, err)
		v := o.Of(tokens)
		require.EqualValues(t, 1000*32*published, v.Logical)
		require.InEpsilon(t, 1000*32*published*31/32, v.NVLink+v.Network, 1e-6)
		require.InEpsilon(t, 1000*32*published*24/32, v.Network, 1e-6)
	}
	// In normal mode the logical volume counts a token once per server, its own too:
	// on average 4 x 1 - C(4, ...) of them, as Hit says.
	o, err := NewOperation(KindDispatch, DefaultPrefill(), deepSeek, p)
	require.NoError(t, err)
	require.InEpsilon(t, 1000*32*128*7392*4*deepSeek.Hit(0, 64), o.Of(tokens).Logical, 1e-4)
}

func TestRoutingIsChecked(t *testing.T) {
	c := DefaultDecode()
	r := DefaultRouting()
	c.Routing = &r
	require.NoError(t, c.Validate())
	c.Imbalance, r.SampleLayers, r.Counts = 1.2, -1, "exakt"
	err := c.Validate()
	require.ErrorContains(t, err, "imbalance: 1.2 has no meaning with routing")
	require.ErrorContains(t, err, "routing.sample_layers: -1 is out of range")
	require.ErrorContains(t, err, `routing.counts: unknown value "exakt"`)
}
