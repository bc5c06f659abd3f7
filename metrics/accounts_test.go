package metrics_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/fabric"
	_ "github.com/tgssim/tgssim/internal/testkit" // the same draws in every run
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

// comm makes the decode pool's dispatches and combines take hundredths of the
// run: start-up, latency, end ports, paths and contention.
func comm(startup, latency, ports, paths, contention sim.Time) func(a *metrics.Account) {
	return func(a *metrics.Account) {
		unit := a.End / 100
		a.Pools[1].Comm = serving.CommTime{
			Startup: startup * unit, Latency: latency * unit, Ports: ports * unit, Paths: paths * unit, Contention: contention * unit,
		}
	}
}

// leafSpine is a fabric of four servers that carries a little of everything.
func leafSpine(t testing.TB, oversubscription float64) func(a *metrics.Account) {
	cfg := topology.DefaultConfig()
	cfg.Nodes, cfg.Leaves, cfg.Spines, cfg.Oversubscription = 4, 4, 2, oversubscription
	g, err := topology.LeafSpine(cfg)
	require.NoError(t, err)
	return func(a *metrics.Account) {
		a.Graph = g
		for i := range g.Links {
			a.Loads = append(a.Loads, fabric.LinkLoad{
				Link: topology.LinkID(i), Wire: units.MB,
				Payload: [fabric.NumClasses]units.Bytes{fabric.ClassKV: units.MB / 2, fabric.ClassEP: units.MB / 2},
			})
		}
		a.Pools[1].GPUs = 16 // an instance of two servers
	}
}

func TestWhoWaitsForWhom(t *testing.T) {
	even, four := leafSpine(t, 1), leafSpine(t, 4)
	for _, c := range []struct {
		name           string
		alter          func(a *metrics.Account)
		want           metrics.Waiter
		bound, perfect float64 // TGSBound and TGSPerfect over TGS
		says           []string
		not            string
	}{
		{"no communication", busy(0, 0, 20), metrics.NetworkWaits, 1, 1, []string{"no GPU ever waits for the fabric"}, "gain"},
		{"little", both(even, busy(2, 0, 20), comm(1, 0, 0, 1, 0)), metrics.NetworkWaits, 80. / 78, 80. / 79,
			[]string{"network waits for the GPUs", "only 2.5 %", "at most 2.6 %"}, "mainly"},
		{"start-up", both(even, busy(20, 0, 20), comm(16, 4, 4, 1, 0)), metrics.GPUWaitsLatency, 80. / 60, 80. / 79,
			[]string{"not for bandwidth", "25.0 %", "dispatch (12.5 %) and combine (12.5 %)", "80.0 % start-up and latency, 16.0 % NIC bandwidth and 4.0 % uneven ECMP paths"}, "wait for the network"},
		{"a close call", both(even, busy(20, 0, 20), comm(5, 4, 10, 0, 0)), metrics.GPUWaitsPorts, 80. / 60, 1,
			[]string{"for their own NICs and about as much for start-up and latency: "}, "mainly"},
		{"start-up and some bandwidth", both(even, busy(20, 0, 20), comm(12, 4, 9, 0, 0)), metrics.GPUWaitsLatency, 80. / 60, 1,
			[]string{"mainly for start-up and latency", "64.0 % start-up and latency and 36.0 % NIC bandwidth"}, "but not for bandwidth"},
		{"NICs", both(even, busy(20, 0, 20), comm(5, 3, 12, 0, 0)), metrics.GPUWaitsPorts, 80. / 60, 1,
			[]string{"mainly for their own NICs", "a better fabric would gain nothing, faster NICs would help", "at most 33.3 %"}, "paths"},
		{"NVLink", both(even, busy(20, 0, 20), comm(5, 4, 11, 0, 0), func(a *metrics.Account) { a.Pools[1].Instances = 4 }),
			metrics.GPUWaitsPorts, 80. / 60, 1, []string{"over NVLink", "55.0 % NVLink bandwidth", "a better fabric would gain nothing"}, "NIC"},
		{"uneven paths", both(even, busy(20, 0, 20), comm(2, 1, 7, 10, 0)), metrics.GPUWaitsPaths, 80. / 60, 80. / 70,
			[]string{"for the fabric inside (uneven ECMP paths)", "would gain at most 14.3 %"}, "oversubscri"},
		{"oversubscription", both(four, busy(20, 0, 20), comm(2, 1, 7, 10, 0)), metrics.GPUWaitsPaths, 80. / 60, 80. / 70,
			[]string{"for the fabric inside (oversubscribed links, 4:1)"}, "ECMP"},
		{"contention", both(even, busy(20, 0, 20), comm(2, 1, 5, 1, 11)), metrics.GPUWaitsContention, 80. / 60, 80. / 68,
			[]string{"for links shared with other traffic", "55.0 % contention"}, "ports"},
		{"mostly hidden", both(even, busy(20, 0, 20), comm(2, 1, 50, 40, 0)), metrics.GPUWaitsPorts, 80. / 60, 80. / 60,
			[]string{"hidden ones included", "would gain at most 33.3 % (a run with network.engine ideal", "combine and KV at all at most 33.3 %"}, ""},
		{"ties go to the GPU's side", both(even, busy(20, 0, 20), comm(5, 0, 5, 5, 5)), metrics.GPUWaitsLatency, 80. / 60, 80. / 70, nil, ""},
		{"unknown fabric", both(busy(20, 0, 20), comm(0, 0, 1, 5, 0)), metrics.GPUWaitsPaths, 80. / 60, 80. / 75,
			[]string{"uneven paths or oversubscribed links"}, ""},
		{"unknown parts", busy(20, 0, 20), metrics.GPUWaits, 80. / 60, 1, []string{"The GPUs wait for communication: "}, "All dispatches"},
		// 11 transfers of 100 ms on the wire are 9.4 % of the run.
		{"starved of KV", both(even, busy(0, 50, 0)), metrics.GPUWaitsPorts, 2, 1,
			[]string{"KV under way (50.0 %)", "The KV transfers are 100.0 % NIC bandwidth"}, "dispatches"},
	} {
		t.Run(c.name, func(t *testing.T) {
			alter := c.alter
			r := measure(t, clockwork(), metrics.DefaultConfig(), func(a *metrics.Account) {
				a.Pools[1].GPUs = 16
				alter(a)
			})
			require.Equal(t, c.want.String(), r.Network.Waiter.String())
			require.InEpsilon(t, c.bound**r.Summary.TGS, *r.Network.TGSBound, 1e-5)
			require.InEpsilon(t, c.perfect**r.Summary.TGS, *r.Network.TGSPerfect, 1e-5)
			for _, says := range c.says {
				require.Contains(t, r.Network.Sentences[0], says)
			}
			if c.not != "" {
				require.NotContains(t, r.Network.Sentences[0], c.not)
			}
			require.Empty(t, r.Notes)
		})
	}
}

// KV that arrives late is the fabric's fault only for what the fabric added, and
// posting is nobody's bandwidth.
func TestWhatLateKVIsFor(t *testing.T) {
	for _, c := range []struct {
		post, wire, paths, queue sim.Time
		want                     metrics.Waiter
		perfect                  float64
	}{
		{post: 60 * ms, wire: 30 * ms, queue: 10 * ms, want: metrics.GPUWaitsLatency, perfect: 10},
		{post: 10 * ms, wire: 80 * ms, paths: 20 * ms, queue: 10 * ms, want: metrics.GPUWaitsPorts, perfect: 30},
		{post: 10 * ms, wire: 80 * ms, paths: 60 * ms, queue: 10 * ms, want: metrics.GPUWaitsPaths, perfect: 70},
		{post: 10 * ms, wire: 20 * ms, queue: 70 * ms, want: metrics.GPUWaitsContention, perfect: 70},
	} {
		col := metrics.NewCollector(metrics.DefaultConfig())
		l := col.Listener()
		told := l.Transfer
		l.Transfer = func(x *serving.Transfer) {
			x.Post, x.Wire, x.Paths, x.Queue = c.post, c.wire, c.paths, c.queue
			told(x)
		}
		a := clockwork().Play(l)
		a.Pools[1].GPUs = 16
		both(busy(0, 50, 0), leafSpine(t, 1))(&a)
		r, err := col.Finish(a)
		require.NoError(t, err)
		require.Equal(t, c.want.String(), r.Network.Waiter.String())
		// Eleven transfers in 11.7 s, of which the fabric adds so many milliseconds.
		saved := 11 * c.perfect / 11_700
		require.InEpsilon(t, *r.Summary.TGS/(1-saved), *r.Network.TGSPerfect, 1e-5)
	}
}

// What the fabric did not add it is never blamed for: with no bytes, no paths and
// no contention, as on an idle fabric, nothing that is said names them; with
// neither paths nor contention, as in the ideal engine, a better fabric gains
// nothing.
func TestIdleFabricIsNeverBlamed(t *testing.T) {
	even := leafSpine(t, 1)
	rapid.Check(t, func(t *rapid.T) {
		exposed := sim.Time(rapid.IntRange(0, 60).Draw(t, "exposed"))
		kv := sim.Time(rapid.IntRange(0, 40).Draw(t, "kv"))
		startup := sim.Time(rapid.IntRange(0, 60).Draw(t, "startup"))
		latency := sim.Time(rapid.IntRange(0, 60).Draw(t, "latency"))
		ports := sim.Time(rapid.SampledFrom([]int{0, 5, 50}).Draw(t, "ports"))
		r, err := clockwork().Measure(metrics.DefaultConfig(), both(even, busy(exposed, kv, 0), comm(startup, latency, ports, 0, 0)))
		require.NoError(t, err)
		require.Equal(t, *r.Summary.TGS, *r.Summary.TGSPerfectFabric)
		for _, word := range []string{"ath", "contention", "oversub", "fabric inside", "shared with"} {
			require.NotContains(t, r.Network.Sentences[0], word)
		}
		if ports == 0 && exposed >= kv {
			require.Contains(t, []metrics.Waiter{metrics.NetworkWaits, metrics.GPUWaits, metrics.GPUWaitsLatency}, r.Network.Waiter)
			require.NotContains(t, r.Network.Sentences[0], "GPUs wait for the network")
		}
	})
}

// A perfect fabric gains no more than no communication at all, and the parts of
// the communication sum to a million.
func TestBoundsAreOrdered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := func(name string) sim.Time { return sim.Time(rapid.IntRange(0, 100).Draw(t, name)) }
		r, err := clockwork().Measure(metrics.DefaultConfig(), both(
			busy(sim.Time(rapid.IntRange(0, 60).Draw(t, "exposed")), sim.Time(rapid.IntRange(0, 40).Draw(t, "kv")), 0),
			comm(part("startup"), part("latency"), part("ports"), part("paths"), part("contention"))))
		require.NoError(t, err)
		bounds := []*float64{r.Summary.TGS, r.Summary.TGSPerfectFabric, r.Summary.TGSWithoutFabricWait}
		for i := 1; i < len(bounds) && bounds[i] != nil; i++ {
			require.LessOrEqual(t, *bounds[i-1], *bounds[i])
			require.LessOrEqual(t, *bounds[i], 10**r.Summary.TGS, "beyond that a bound says nothing")
		}
		sum := 0
		for _, share := range r.Pools[1].Comm.Share {
			sum += share
		}
		require.Contains(t, []int{0, 1_000_000}, sum)
		require.GreaterOrEqual(t, r.Pools[1].Hidden(), 0)
		require.LessOrEqual(t, r.Pools[1].Hidden(), 1_000_000)
		require.Equal(t, sum == 0, r.Summary.CommSharesDecode == nil)
	})
}

// GPUs that hardly do anything but wait have no bound, and without tokens there
// is nothing to gain on: neither is printed as a figure.
func TestBoundsThatSayNothing(t *testing.T) {
	r := measure(t, clockwork(), metrics.DefaultConfig(), both(busy(60, 40, 0), comm(50, 10, 0, 0, 0)))
	require.Nil(t, r.Summary.TGSWithoutFabricWait)
	require.Nil(t, r.Network.TGSBound)
	require.Contains(t, r.Summary.NetworkAnswer, "at all an unknown multiple")
	require.NotRegexp(t, `[0-9]{4,}\.[0-9] %`, r.Summary.NetworkAnswer)

	story := clockwork()
	story.Stop = 650 * ms // prefilled and transferred, and not a token yet
	r = measure(t, story, metrics.DefaultConfig(), both(busy(40, 0, 0), comm(20, 20, 0, 0, 0)))
	require.Zero(t, *r.Summary.TGS)
	require.Nil(t, r.Summary.TGSWithoutFabricWait)
	require.Nil(t, r.Summary.TGSPerfectFabric)
	require.NotContains(t, r.Summary.NetworkAnswer, "gain")
}

func TestCommShares(t *testing.T) {
	m := measure(t, clockwork(), metrics.DefaultConfig(), both(busy(20, 0, 20), comm(5, 4, 20, 10, 1), func(a *metrics.Account) {
		a.Pools[1].Steps, a.Pools[1].TwoBatchSteps = 7, 3
	})).Summary
	require.Equal(t, metrics.CommSharesDecode{
		Startup: 0.125, Latency: 0.1, Ports: 0.5, Paths: 0.25, Contention: 0.025, Hidden: 0.5,
	}, *m.CommSharesDecode, "40 % of the run is communication, 20 % of it exposed")
	require.Nil(t, m.CommSharesPrefill)
	require.Equal(t, []int{7, 3}, []int{m.StepsDecode, m.TwoBatchStepsDecode})
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
	require.Equal(t, "All-reduce over NVLink takes 37.5 % of the time that decode GPUs have work; it stays inside the servers, and no fabric changes it.",
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
// than it can do; and then the pool that limits it is judged, not the one that
// waits most.
func TestCostDependsOnLoad(t *testing.T) {
	alter := func(a *metrics.Account) {
		a.Pools[0].Time = serving.GPUTime{Compute: sim.TotalOf(sim.Second, 9), Combine: sim.TotalOf(sim.Second, 1)}
		a.Pools[1].Time = serving.GPUTime{Compute: sim.TotalOf(sim.Second, 3), Combine: sim.TotalOf(sim.Second, 1)}
		a.End = 0
	}
	light := measure(t, md1(1000, 0.5, 1), metrics.DefaultConfig(), alter)
	require.Equal(t, "decode", light.Network.Pool)
	require.Contains(t, light.Network.Sentences[0], "costs latency, not tokens")
	require.Contains(t, light.Network.Sentences[0], "at most 33.3 %")
	require.Equal(t, "Prefill GPUs wait 10.0 % of the time that they have work.", light.Network.Sentences[1])
	heavy := measure(t, md1(1000, 1.5, 1), metrics.DefaultConfig(), alter)
	require.Equal(t, metrics.StageQueue, heavy.Saturation.Bottleneck)
	require.Equal(t, "prefill", heavy.Network.Pool)
	require.NotContains(t, heavy.Network.Sentences[0], "not tokens")
	require.Contains(t, heavy.Network.Sentences[0], "prefill limits this run, and its GPUs spend 10.0 %")
	require.Contains(t, heavy.Network.Sentences[0], "at most 11.1 %")
	require.Equal(t, "Decode GPUs wait 25.0 % of the time that they have work.", heavy.Network.Sentences[1])
}

// With room everywhere nobody knows which pool would limit the cluster: what a
// fabric could gain is the largest of the pools, also when another one waits
// longer.
func TestGainIsTheLargestOfThePools(t *testing.T) {
	r := measure(t, clockwork(), metrics.DefaultConfig(), both(busy(20, 0, 20), comm(5, 4, 11, 0, 0), func(a *metrics.Account) {
		p := &a.Pools[0]
		p.Time = serving.GPUTime{Compute: sim.TotalOf(a.End/10*9, p.GPUs), Dispatch: sim.TotalOf(a.End/10, p.GPUs)}
		p.Comm = serving.CommTime{Ports: a.End / 20, Paths: a.End / 20}
	}))
	require.Equal(t, "decode", r.Network.Pool)
	require.Equal(t, metrics.GPUWaitsPorts, r.Network.Waiter)
	require.InEpsilon(t, *r.Summary.TGS/0.95, *r.Network.TGSPerfect, 1e-5)
	require.InEpsilon(t, *r.Summary.TGS*80/60, *r.Network.TGSBound, 1e-5)
	require.Contains(t, r.Network.Sentences[0], "would gain at most 5.3 %")
}

// Reasons are counted, the most frequent first, whatever numbers are in them.
func TestRejectionsAreGrouped(t *testing.T) {
	story := clockwork()
	story.Reject = map[int]string{
		0: "no room", 1: "a prompt of 17 tokens is too long", 2: "a prompt of 8192 tokens is too long",
		3: "b", 4: "b", 5: "b", 6: "c",
	}
	r := measure(t, story, metrics.DefaultConfig(), nil)
	require.Equal(t, "Rejected 7 requests: b (3); a prompt of 17 tokens is too long (2); no room (1); for other reasons (1).", r.Notes[0])
	story.Reject = map[int]string{0: "no room"}
	r = measure(t, story, metrics.DefaultConfig(), nil)
	require.Equal(t, "Rejected 1 request: no room (1).", r.Notes[0])
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
	r := measure(t, clockwork(), metrics.DefaultConfig(), both(load(10), comm(1, 1, 1, 1, 1), func(a *metrics.Account) {
		a.Pools[0].Comm = a.Pools[1].Comm
	}))
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
	for c := metrics.CommPart(0); c < metrics.NumCommParts; c++ {
		require.Contains(t, keys, "comm_prefill_"+c.String())
		require.Contains(t, keys, "comm_decode_"+c.String())
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
