package fabric

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// What lock-step costs: all-to-alls of 32 hosts on LS128 as one collective and
// as point flows that go on by themselves, alone and beside 16 KV flows of 16
// MiB into them from elsewhere. The time that counts is that of the last byte;
// of the KV flows, the mean. docs/decisions/0002-flow-engine.md quotes the
// figures that this test logs.
func TestLockStepAgainstPointFlows(t *testing.T) {
	const seeds = 30
	g := build(t, ls128())
	for _, tc := range []struct {
		name           string
		skewed, shared bool
		end, endWorst  float64 // of the ratio of ends, collective to flows: mean, and farthest from 1
		kv             float64 // of the ratio of the mean KV times
	}{
		{"even, alone", false, false, 1e-6, 1e-6, 0},
		{"skewed, alone", true, false, 0.004, 0.03, 0},
		{"even, with KV", false, true, 1e-4, 1e-3, 0.015},
		{"skewed, with KV", true, true, 0.004, 0.02, 0.04},
	} {
		var end, kv ratio
		for seed := range uint64(seeds) {
			spec := allToAll("a2a", gpuRange(0, 32), 1000*int64(256*units.KiB))
			r := rand.New(rand.NewPCG(seed, 1))
			if tc.skewed { // experts up to eight times as popular as others
				popular := make([]int64, 32)
				for i := range popular {
					popular[i] = 1 + r.Int64N(8)
				}
				for i := range spec.Shares {
					spec.Shares[i].Milli = spec.Shares[i].Milli * popular[spec.Shares[i].Dst] / 4
				}
			}
			flows := 0
			if tc.shared {
				flows = 16
			}
			c := DefaultConfig()
			c.ECMPSeed = seed + 1
			whole, kvWhole := lockStep(t, c, g, spec, flows, true)
			parts, kvParts := lockStep(t, c, g, spec, flows, false)
			end.add(whole, parts)
			kv.add(kvWhole, kvParts)
		}
		t.Logf("%-16s end %.4f (worst %.4f), KV %.4f (worst %.4f)", tc.name, end.mean(), end.worst, kv.mean(), kv.worst)
		require.InDelta(t, 1, end.mean(), tc.end, tc.name)
		require.InDelta(t, 1, end.worst, tc.endWorst, tc.name)
		if tc.shared {
			require.InDelta(t, 1, kv.mean(), tc.kv, tc.name)
		}
	}
}

// ratio collects quotients.
type ratio struct{ sum, n, worst float64 }

func (r *ratio) add(a, b float64) {
	if b == 0 {
		return
	}
	q := a / b
	r.sum, r.n = r.sum+q, r.n+1
	if r.worst == 0 || abs(q-1) > abs(r.worst-1) {
		r.worst = q
	}
}

func (r *ratio) mean() float64 { return r.sum / max(1, r.n) }

func abs(x float64) float64 { return max(x, -x) }

// lockStep runs spec as one collective or as flows, beside a number of KV flows,
// and returns when its last byte arrived and the mean time of a KV flow.
func lockStep(t *testing.T, c Config, g *topology.Graph, spec CollectiveSpec, flows int, whole bool) (end, kv float64) {
	b := newBench(t, c, g)
	for i := range flows {
		b.net.Send(Message{Src: topology.GPU(40 + 5*i), Dst: topology.GPU(2 * i), Bytes: 16 * units.MiB, Tag: 1}, b)
	}
	if whole {
		b.newCollective(spec, same(spec.Ranks, 1)).Start(0, 0, b)
	} else {
		for _, s := range spec.Shares {
			b.net.Send(Message{Src: s.Src, Dst: s.Dst, Bytes: units.Bytes(s.Milli / 1000), Class: ClassEP}, b)
		}
	}
	var last, sum sim.Time
	for _, d := range b.run() {
		if d.Tag == 1 {
			sum += d.Arrived / sim.Time(flows)
		} else {
			last = max(last, d.Arrived)
		}
	}
	return last.Seconds(), sum.Seconds()
}
