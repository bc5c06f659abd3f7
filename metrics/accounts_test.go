package metrics_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/metrics"
	"github.com/tgssim/tgssim/serving"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// fabricOf is a graph with one server of two GPUs and two NICs on two leaves
// and two spines, loaded by load.
func fabricOf(load func(l *topology.Link, tier metrics.Tier) units.Bytes) func(a *metrics.Account) {
	g := &topology.Graph{}
	node := func(k topology.Kind, name string) topology.NodeID {
		g.Nodes = append(g.Nodes, topology.Node{Kind: k, Name: name})
		return topology.NodeID(len(g.Nodes) - 1)
	}
	cable := func(a, b topology.NodeID, rate units.Rate) {
		for _, e := range [][2]topology.NodeID{{a, b}, {b, a}} {
			g.Links = append(g.Links, topology.Link{
				From: e[0], To: e[1], Rate: rate, Name: g.Nodes[e[0]].Name + ">" + g.Nodes[e[1]].Name,
			})
		}
	}
	nv := node(topology.KindNVSwitch, "nvswitch0")
	spines := []topology.NodeID{node(topology.KindSpine, "spine0"), node(topology.KindSpine, "spine1")}
	for _, n := range []string{"0", "1"} {
		gpu, nic, leaf := node(topology.KindGPU, "gpu"+n), node(topology.KindNIC, "nic"+n), node(topology.KindLeaf, "leaf"+n)
		cable(gpu, nv, 3200*units.Gbps)
		cable(nic, leaf, 400*units.Gbps)
		for _, sp := range spines {
			cable(leaf, sp, 400*units.Gbps)
		}
	}
	return func(a *metrics.Account) {
		a.Graph = g
		for i := range g.Links {
			n := load(&g.Links[i], metrics.TierOf(g, &g.Links[i]))
			a.Loads = append(a.Loads, fabric.LinkLoad{
				Link: topology.LinkID(i), Wire: n, Payload: [fabric.NumClasses]units.Bytes{fabric.ClassKV: n / 2, fabric.ClassEP: n / 4},
			})
		}
	}
}

func TestLinks(t *testing.T) {
	// 11.7 s at 400 Gb/s is 585 GB.
	r := measure(t, clockwork(), metrics.DefaultConfig(), fabricOf(func(l *topology.Link, tier metrics.Tier) units.Bytes {
		switch {
		case l.Name == "leaf0>spine1":
			return 292.5 * 1000 * units.MB
		case tier == metrics.TierLeafUp:
			return 58.5 * 1000 * units.MB
		case tier == metrics.TierNICDown:
			return 5.85 * 1000 * units.MB
		}
		return 0
	}))
	require.Len(t, r.Links.All, 2*(2+2+4))
	up := r.Links.Tier(metrics.TierLeafUp)
	require.Equal(t, 4, up.Links)
	require.InEpsilon(t, 0.5, up.Max, 1e-12)
	require.InEpsilon(t, (0.5+3*0.1)/4, up.Mean, 1e-12)
	require.Equal(t, "leaf0>spine1", up.Busiest)
	require.InEpsilon(t, 8.*8/(4*(25+3)), *r.Summary.JFIUplinks, 1e-12)
	require.InEpsilon(t, 5/2., *r.Summary.MMRUplinks, 1e-12)
	require.InEpsilon(t, 0.01, *r.Summary.MaxUtilNICDown, 1e-12)
	require.Equal(t, 0., *r.Summary.MaxUtilNVLink)
	require.Nil(t, r.Links.Tier(metrics.TierOther))
	require.Nil(t, r.Links.Tier(metrics.TierNVLink).JFI, "nothing to share")

	names := []string{}
	for _, l := range r.Links.Hottest {
		names = append(names, l.Name)
	}
	require.Equal(t, []string{"leaf0>spine1", "leaf0>spine0", "leaf1>spine0", "leaf1>spine1", "leaf0>nic0"}, names)

	cfg := metrics.DefaultConfig()
	cfg.TopLinks = 1000
	r = measure(t, clockwork(), cfg, load(1))
	require.Len(t, r.Links.Hottest, 2, "idle links are not hot")
	require.Len(t, r.Links.All, 16)

	var tiers []metrics.Tier
	for _, u := range r.Links.Tiers {
		tiers = append(tiers, u.Tier)
	}
	require.Equal(t, []metrics.Tier{0, 1, 2, 3, 4}, tiers)
}

// busy makes a decode pool that computes, communicates and idles in hundredths.
func busy(comm, waitingKV, idle sim.Time) func(a *metrics.Account) {
	return func(a *metrics.Account) {
		p := &a.Pools[1]
		unit := a.End * sim.Time(p.GPUs) / 100
		p.Time = serving.GPUTime{
			Compute:  sim.TotalOf(a.End*sim.Time(p.GPUs)-unit*(comm+waitingKV+idle), 1),
			Dispatch: sim.TotalOf(comm*unit/2, 1), Combine: sim.TotalOf(comm*unit/2, 1),
			WaitingKV: sim.TotalOf(waitingKV*unit, 1), Idle: sim.TotalOf(idle*unit, 1),
		}
		a.Pools[0].Time = serving.GPUTime{Idle: sim.TotalOf(a.End, a.Pools[0].GPUs)}
	}
}

func both(fs ...func(a *metrics.Account)) func(a *metrics.Account) {
	return func(a *metrics.Account) {
		for _, f := range fs {
			f(a)
		}
	}
}

// load makes every NIC downlink busy for a part of the run, in hundredths.
func load(hundredths units.Bytes) func(a *metrics.Account) {
	return fabricOf(func(_ *topology.Link, tier metrics.Tier) units.Bytes {
		if tier == metrics.TierNICDown {
			return 5850 * units.MB * hundredths
		}
		return 0
	})
}

func TestWhoWaitsForWhom(t *testing.T) {
	for _, c := range []struct {
		name  string
		alter func(a *metrics.Account)
		want  metrics.Waiter
		bound float64 // TGSBound / TGS
		says  string
	}{
		{"no communication", both(busy(0, 0, 20), load(40)), metrics.NetworkWaits, 1, "no GPU ever waits for the fabric"},
		{"little", both(busy(2, 0, 20), load(40)), metrics.NetworkWaits, 80. / 78, "network waits for the GPUs"},
		{"busy links", both(busy(20, 0, 20), load(30)), metrics.GPUWaitsBandwidth, 80. / 60, "leaf0>nic0 (nic_down), is busy 30.0 %"},
		{"slow start-up", both(busy(20, 0, 20), load(3)), metrics.GPUWaitsLatency, 80. / 60, "start-up and latency, not load"},
		{"idle fabric", both(busy(20, 0, 20), load(0)), metrics.GPUWaitsLatency, 80. / 60, "no link carries anything"},
		{"unknown fabric", busy(20, 0, 20), metrics.GPUWaits, 80. / 60, "dispatch 12.5 %, combine 12.5 %"},
		{"starved of KV", both(busy(0, 50, 0), load(95)), metrics.GPUWaitsBandwidth, 2, "KV under way 50.0 %"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := measure(t, clockwork(), metrics.DefaultConfig(), c.alter)
			require.Equal(t, c.want.String(), r.Network.Waiter.String())
			require.InEpsilon(t, c.bound**r.Summary.TGS, *r.Network.TGSBound, 1e-5)
			require.Contains(t, r.Network.Sentences[0], c.says)
			require.Empty(t, r.Notes)
		})
	}
}

// An idle fabric is never blamed, whatever the GPUs do: when no link carries
// anything, no answer says that the network is too slow.
func TestIdleFabricIsNeverBlamed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		comm := sim.Time(rapid.IntRange(0, 60).Draw(t, "comm"))
		kv := sim.Time(rapid.IntRange(0, 40).Draw(t, "kv"))
		r, err := clockwork().Measure(metrics.DefaultConfig(), both(busy(comm, kv, 0), load(0)))
		require.NoError(t, err)
		require.Contains(t, []metrics.Waiter{metrics.NetworkWaits, metrics.GPUWaitsLatency}, r.Network.Waiter)
		require.NotContains(t, r.Network.Sentences[0], "GPUs wait for the network")
	})
}

// The all-reduce stays inside the servers: it is reported, and no fabric blamed.
func TestAllReduceIsNotTheFabrics(t *testing.T) {
	r := measure(t, clockwork(), metrics.DefaultConfig(), both(load(0), func(a *metrics.Account) {
		a.Pools[1].Time = serving.GPUTime{Compute: sim.TotalOf(a.End, 5), AllReduce: sim.TotalOf(a.End, 3)}
		a.Pools[0].Time = serving.GPUTime{Compute: sim.TotalOf(a.End, 4)}
	}))
	require.Equal(t, metrics.NetworkWaits, r.Network.Waiter)
	require.Equal(t, *r.Summary.TGS, *r.Network.TGSBound)
	require.Equal(t, 0.375, *r.Summary.ExposedCommDecode)
	require.Equal(t, 0., *r.Summary.FabricWaitDecode)
	require.Equal(t, "All-reduce over NVLink takes 37.5 % of decode GPU time; it stays inside the servers, and no fabric changes it.",
		r.Network.Sentences[1])
}

// Prefill memory full of KV that has not left may be decode memory's fault; the
// fabric's share of it shows on the decode side.
func TestBlockedPrefillIsNotTheFabrics(t *testing.T) {
	r := measure(t, clockwork(), metrics.DefaultConfig(), both(load(0), func(a *metrics.Account) {
		a.Pools[0].Time = serving.GPUTime{Compute: sim.TotalOf(a.End, 1), WaitingKV: sim.TotalOf(a.End, 3)}
		a.Pools[1].Time = serving.GPUTime{Compute: sim.TotalOf(a.End, 8)}
	}))
	require.Equal(t, metrics.NetworkWaits, r.Network.Waiter)
	require.Equal(t, 0.75, r.Summary.GPUTimePrefill.WaitingKV)
	require.Equal(t, 0., *r.Summary.FabricWaitPrefill)
}

// What waiting costs is a promise of tokens only when the cluster has more work
// than it can do.
func TestCostDependsOnLoad(t *testing.T) {
	alter := func(a *metrics.Account) {
		a.Pools[1].Time = serving.GPUTime{Compute: sim.TotalOf(sim.Second, 3), Combine: sim.TotalOf(sim.Second, 1)}
		a.End = 0
	}
	light := measure(t, md1(1000, 0.5, 1), metrics.DefaultConfig(), alter)
	require.Contains(t, light.Network.Sentences[0], "costs latency, not tokens")
	heavy := measure(t, md1(1000, 1.5, 1), metrics.DefaultConfig(), alter)
	require.NotContains(t, heavy.Network.Sentences[0], "not tokens")
	require.Contains(t, heavy.Network.Sentences[0], "(+33.3 %)")
}

func TestGPUTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, err := clockwork().Measure(metrics.DefaultConfig(), func(a *metrics.Account) {
			span := func(name string) sim.Total { return sim.TotalOf(sim.Time(rapid.Int64Range(0, 1e18).Draw(t, name)), 1) }
			a.Pools[1].Time = serving.GPUTime{
				Compute: span("compute"), Dispatch: span("dispatch"), Combine: span("combine"), AllReduce: span("allreduce"),
				Barrier: span("barrier"), WaitingKV: span("kv"), Host: span("host"), Idle: span("idle"),
			}
			a.Pools[1].Time.Idle.Add(1, 1)
		})
		require.NoError(t, err)
		sum := 0
		for _, v := range r.Pools[1].Share {
			sum += v
		}
		require.Equal(t, 1_000_000, sum)
	})
	r := measure(t, clockwork(), metrics.DefaultConfig(), func(a *metrics.Account) { a.Pools[1].Time.Idle.Add(1, 1) })
	require.Equal(t, []string{"The GPU time of the decode pool does not sum to its GPUs times the run's length."}, r.Notes)
}

// The clockwork's decode GPUs: 60 % compute, 30 % exposed, 10 % host.
func TestGPUTimeOfClockwork(t *testing.T) {
	m := measure(t, clockwork(), metrics.DefaultConfig(), nil).Summary
	require.Equal(t, metrics.GPUTimeDecode{Compute: 0.6, Dispatch: 0.15, Combine: 0.15, Host: 0.1}, *m.GPUTimeDecode)
	require.Equal(t, 0.3, *m.ExposedCommDecode)
	require.Equal(t, 0.376068, m.GPUTimePrefill.Compute, "11 x 400 ms of 11.7 s")
	require.Equal(t, 0.094017, *m.ExposedCommPrefill)
}

// The keys are an interface: vLLM's readers find theirs, and nobody renames
// ours by accident.
func TestSummaryKeys(t *testing.T) {
	r := measure(t, clockwork(), metrics.DefaultConfig(), load(10))
	text, err := json.Marshal(r.Summary)
	require.NoError(t, err)
	dec := json.NewDecoder(strings.NewReader(string(text)))
	var keys []string
	for depth, key := 0, true; ; {
		token, err := dec.Token()
		if err != nil {
			break
		}
		if d, ok := token.(json.Delim); ok {
			require.Contains(t, "{}", d.String(), "the object is flat")
			depth++
			continue
		}
		if key {
			keys = append(keys, token.(string))
		}
		key = !key
	}
	vllm := []string{
		"duration", "completed", "failed", "total_input_tokens", "total_output_tokens", "request_throughput",
		"request_goodput", "output_throughput", "total_token_throughput", "max_output_tokens_per_s",
		"max_concurrent_requests",
	}
	require.Equal(t, vllm, keys[:len(vllm)])
	for _, m := range []string{"ttft", "tpot", "itl", "e2el"} {
		for _, s := range []string{"mean", "median", "std", "p99"} {
			require.Contains(t, keys, s+"_"+m+"_ms")
		}
	}
	for p := serving.Piece(0); p < serving.NumPieces; p++ {
		require.Contains(t, keys, "ttft_share_"+p.String())
		require.Contains(t, keys, "ttft_tail_share_"+p.String())
	}
	for a := metrics.Activity(0); a < metrics.NumActivities; a++ {
		require.Contains(t, keys, "gpu_time_prefill_"+a.String())
		require.Contains(t, keys, "gpu_time_decode_"+a.String())
	}
	for tier := metrics.Tier(0); tier < metrics.TierOther; tier++ {
		require.Contains(t, keys, "mean_util_"+tier.String())
		require.Contains(t, keys, "max_util_"+tier.String())
	}
	pinned, err := os.ReadFile("testdata/summary_keys.txt")
	require.NoError(t, err)
	require.Equal(t, strings.Fields(string(pinned)), keys)
	checkJSON(t, r)
}
