package metrics

import (
	"cmp"
	"slices"

	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/topology"
)

// A Tier is a layer of the cluster's wiring, in one direction.
type Tier uint8

// The tiers, from the GPU outwards and back.
const (
	TierNVLink Tier = iota
	TierNICUp
	TierNICDown
	TierLeafUp
	TierLeafDown
	TierOther
	NumTiers
)

// String names the tier as tables, JSON keys and CSV cells do.
func (t Tier) String() string {
	return [...]string{"nvlink", "nic_up", "nic_down", "leaf_up", "leaf_down", "other"}[t]
}

// TierOf is the tier of a link.
func TierOf(g *topology.Graph, l *topology.Link) Tier {
	from, to := g.Nodes[l.From].Kind, g.Nodes[l.To].Kind
	switch {
	case from == topology.KindNVSwitch || to == topology.KindNVSwitch:
		return TierNVLink
	case from == topology.KindNIC && to == topology.KindLeaf:
		return TierNICUp
	case from == topology.KindLeaf && to == topology.KindNIC:
		return TierNICDown
	case from == topology.KindLeaf && to == topology.KindSpine:
		return TierLeafUp
	case from == topology.KindSpine && to == topology.KindLeaf:
		return TierLeafDown
	}
	return TierOther
}

// A LinkUse is what one link carried.
type LinkUse struct {
	Link    topology.LinkID
	Name    string
	Tier    Tier
	Rate    units.Rate
	Payload [fabric.NumClasses]units.Bytes
	Wire    units.Bytes
	// Utilisation is wire bits over rate times Result.Whole, 0 to 1.
	Utilisation float64
}

// A TierUse is what the links of a tier carried.
type TierUse struct {
	Tier  Tier
	Links int
	// Mean and Max are over the links' utilisations; Busiest names the maximum.
	Mean, Max float64
	Busiest   string
	// JFI is Jain's index over the links' wire bytes and MMR their maximum over
	// their mean (IETF draft-calabria-bmwg-ai-fabric-terminology); nil when the
	// tier carried nothing.
	JFI, MMR *float64
}

// Links is the use of the wiring.
type Links struct {
	// All is in link order; Hottest is the Config.TopLinks busiest, the lowest
	// link first among equals, idle links excluded.
	All, Hottest []LinkUse
	// Tiers has the tiers that have links, in order.
	Tiers []TierUse
}

// Tier finds a tier, nil when it has no links.
func (l *Links) Tier(t Tier) *TierUse {
	for i := range l.Tiers {
		if l.Tiers[i].Tier == t {
			return &l.Tiers[i]
		}
	}
	return nil
}

// links measures the wiring.
func (x *analysis) links() {
	g := x.a.Graph
	if g == nil {
		return
	}
	span := x.r.Whole.Length().Seconds()
	var bytes [NumTiers][]float64
	var tiers [NumTiers]TierUse
	for _, load := range x.a.Loads {
		if load.Link < 0 || int(load.Link) >= len(g.Links) {
			continue
		}
		l := &g.Links[load.Link]
		u := LinkUse{
			Link: load.Link, Name: l.Name, Tier: TierOf(g, l), Rate: l.Rate, Payload: load.Payload, Wire: load.Wire,
		}
		if span > 0 && l.Rate > 0 {
			u.Utilisation = float64(load.Wire) / l.Rate.BytesPerSecond() / span
		}
		x.r.Links.All = append(x.r.Links.All, u)
		t := &tiers[u.Tier]
		t.Links++
		t.Mean += u.Utilisation
		if u.Utilisation > t.Max {
			t.Max, t.Busiest = u.Utilisation, u.Name
		}
		bytes[u.Tier] = append(bytes[u.Tier], float64(u.Wire))
	}
	for t := range tiers {
		if tiers[t].Links == 0 {
			continue
		}
		tiers[t].Tier = Tier(t)
		tiers[t].Mean /= float64(tiers[t].Links)
		tiers[t].JFI = num(JFI(bytes[t]))
		tiers[t].MMR = maxOverMean(bytes[t])
		x.r.Links.Tiers = append(x.r.Links.Tiers, tiers[t])
	}
	x.r.Links.Hottest = hottest(x.r.Links.All, x.c.cfg.TopLinks)
	x.r.Summary.setLinks(&x.r.Links)
}

func maxOverMean(v []float64) *float64 {
	sum := 0.0
	for _, b := range v {
		sum += b
	}
	if sum == 0 {
		return nil
	}
	return num(slices.Max(v) * float64(len(v)) / sum)
}

func hottest(all []LinkUse, n int) []LinkUse {
	var used []LinkUse
	for _, u := range all {
		if u.Wire > 0 {
			used = append(used, u)
		}
	}
	slices.SortStableFunc(used, func(a, b LinkUse) int { return cmp.Compare(b.Utilisation, a.Utilisation) })
	return slices.Clip(used[:min(n, len(used))])
}
