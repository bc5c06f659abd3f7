package scenarios

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/topology"
	"github.com/tgssim/tgssim/workload"
)

// rulesKey is the section that says what follows the size of the cluster.
const rulesKey = "scale"

// Scale says what follows from the number of servers, in the section scale of a
// scenario file. Every rule works out keys of the scenario; a key that is written
// in the rule's own file, in a file that extends it, on the command line or by an
// axis wins over the rule, and one that is only inherited from what the file
// extends does not.
type Scale struct {
	// Fabric works out cluster.leaves and cluster.spines.
	Fabric *FabricRule `yaml:"fabric"`
	// GPUs and Instances work out prefill.instances and decode.instances. There is
	// at most one of the two.
	GPUs      *GPURule      `yaml:"gpus"`
	Instances *InstanceRule `yaml:"instances"`
	// Load works out workload.arrivals.rate and workload.requests.
	Load *LoadRule `yaml:"load"`
}

// A FabricRule builds the least leaf-spine fabric of equal switches with the
// cluster's oversubscription.
type FabricRule struct {
	// Radix is the number of ports of every switch, each of cluster.link_rate; a
	// slower NIC takes that part of a port, by breakout.
	Radix int `yaml:"radix"`
	// NodesPerLeaf is the number of servers with a NIC at one leaf; 0 takes the
	// most that the radix allows and that divides the servers evenly. Fewer
	// servers than that share one leaf (packed) or one leaf per rail.
	NodesPerLeaf int `yaml:"nodes_per_leaf"`
}

// A GPURule shares the cluster's GPUs between the pools in a fixed ratio.
type GPURule struct {
	// Prefill and Decode are the shares: 3 and 2 are three fifths and two fifths.
	// They must come out as whole instances.
	Prefill int `yaml:"prefill"`
	Decode  int `yaml:"decode"`
}

// An InstanceRule repeats a unit of so many servers.
type InstanceRule struct {
	// PerNodes is the number of servers of a unit; it divides cluster.nodes.
	PerNodes int `yaml:"per_nodes"`
	// Prefill and Decode are the instances of a unit.
	Prefill int `yaml:"prefill"`
	Decode  int `yaml:"decode"`
}

// A LoadRule lets the offered load follow the cluster's GPUs (weak scaling) or
// holds it (strong scaling).
type LoadRule struct {
	// RatePerGPU and RequestsPerGPU are per GPU of the whole cluster.
	RatePerGPU     units.Frequency `yaml:"rate_per_gpu"`
	RequestsPerGPU float64         `yaml:"requests_per_gpu"`
	// Rate and Requests are in all.
	Rate     units.Frequency `yaml:"rate"`
	Requests int             `yaml:"requests"`
}

// A Derived is a key that a rule worked out.
type Derived struct {
	// Key and Value are as they would be written; Rule is the key of the rule.
	Key, Value, Rule string
}

// Derived lists what the scaling rules worked out, in the order in which they
// did.
func (s *Scenario) Derived() []Derived { return slices.Clone(s.derived) }

// rules is the section scale and the places of its parts.
type rules struct {
	Scale
	at map[string]string
}

// takeRules takes the section scale off a tree; nil when there is none.
func takeRules(tree *config.Tree) (*rules, error) {
	v := tree.Value(rulesKey)
	if !v.Written() {
		return nil, nil
	}
	r := &rules{at: map[string]string{rulesKey: v.Where()}}
	if v.IsMapping() {
		for _, key := range v.Keys() {
			r.at[rulesKey+"."+key] = v.Get(key).Where()
		}
	}
	tree.Delete(rulesKey)
	if err := v.Decode(rulesKey, &r.Scale); err != nil {
		return nil, err
	}
	var ps config.Problems
	ps.Nest(rulesKey, r.Validate())
	for i, p := range ps {
		ps[i].Where = r.place(p.Key)
	}
	return r, ps.Err()
}

// place is where the part of the section around a key was written.
func (r *rules) place(key string) string {
	for part, where := range r.at {
		if part != rulesKey && overlap(part, key) {
			return where
		}
	}
	return r.at[rulesKey]
}

// Validate says what is wrong with the rules by themselves.
func (s *Scale) Validate() error {
	var ps config.Problems
	if f := s.Fabric; f != nil {
		ps.Require(f.Radix >= 2 && f.Radix <= topology.MaxUplinks, "fabric.radix",
			"%d ports; use 2 to %d, such as 64 (a 25.6 Tb/s switch at 400 Gb/s) or 128", f.Radix, topology.MaxUplinks)
		ps.Require(f.NodesPerLeaf >= 0 && f.NodesPerLeaf <= topology.MaxUplinks, "fabric.nodes_per_leaf",
			"%d servers; use 1 to %d, or 0 for as many as the radix allows", f.NodesPerLeaf, topology.MaxUplinks)
	}
	share := func(key string, n int) {
		ps.Require(n >= 1 && n <= 1<<16, key, "%d is out of range: 1 to %d", n, 1<<16)
	}
	if g := s.GPUs; g != nil {
		share("gpus.prefill", g.Prefill)
		share("gpus.decode", g.Decode)
		ps.Require(s.Instances == nil, "instances", "gpus works out the instances already; remove one of the two")
	}
	if i := s.Instances; i != nil {
		share("instances.per_nodes", i.PerNodes)
		share("instances.prefill", i.Prefill)
		share("instances.decode", i.Decode)
	}
	if l := s.Load; l != nil {
		ps.Nest("load", l.validate())
	}
	return ps.Err()
}

func (l *LoadRule) validate() error {
	var ps config.Problems
	ps.Require(l.RatePerGPU >= 0 && !math.IsInf(float64(l.RatePerGPU), 0), "rate_per_gpu", "%v; use a rate above 0, such as 0.5/s", l.RatePerGPU)
	ps.Require(l.Rate >= 0 && !math.IsInf(float64(l.Rate), 0), "rate", "%v; use a rate above 0, such as 100/s", l.Rate)
	ps.Require(l.RequestsPerGPU >= 0 && l.RequestsPerGPU <= 1e9, "requests_per_gpu", "%v is out of range: 0 to 1e9", l.RequestsPerGPU)
	ps.Require(l.Requests >= 0, "requests", "%d is negative", l.Requests)
	ps.Require(l.RatePerGPU == 0 || l.Rate == 0, "rate", "rate_per_gpu lets the rate follow the GPUs, and this holds it; remove one of the two, or set workload.arrivals.rate")
	ps.Require(l.RequestsPerGPU == 0 || l.Requests == 0, "requests", "requests_per_gpu lets them follow the GPUs, and this holds them; remove one of the two, or set workload.requests")
	ps.Require(*l != LoadRule{}, "", "says nothing; write rate_per_gpu, requests_per_gpu, rate or requests")
	return ps.Err()
}

// The keys that rules work out.
const (
	keyLeaves           = "cluster.leaves"
	keySpines           = "cluster.spines"
	keyPrefillInstances = "prefill.instances"
	keyDecodeInstances  = "decode.instances"
	keyRate             = "workload.arrivals.rate"
	keyRequests         = "workload.requests"
)

// derives lists the keys that the rules work out.
func (r *rules) derives() (keys []string) {
	if r.Fabric != nil {
		keys = append(keys, keyLeaves, keySpines)
	}
	if r.GPUs != nil || r.Instances != nil {
		keys = append(keys, keyPrefillInstances, keyDecodeInstances)
	}
	if l := r.Load; l != nil {
		if l.Rate != 0 || l.RatePerGPU != 0 {
			keys = append(keys, keyRate)
		}
		if l.Requests != 0 || l.RequestsPerGPU != 0 {
			keys = append(keys, keyRequests)
		}
	}
	return keys
}

// rule is the key of the rule that works out a key.
func (r *rules) rule(key string) string {
	switch {
	case key == keyLeaves || key == keySpines:
		return rulesKey + ".fabric"
	case key == keyRate || key == keyRequests:
		return rulesKey + ".load"
	case r.GPUs != nil:
		return rulesKey + ".gpus"
	}
	return rulesKey + ".instances"
}

// where is the place of the rule that works out a key.
func (r *rules) where(key string) string { return r.at[r.rule(key)] }

// apply works out every key that is not written, and writes it into the tree.
func (r *rules) apply(tree *config.Tree) ([]Derived, error) {
	s := Default()
	if err := tree.Decode(&s); err != nil {
		return nil, err
	}
	d := deriver{rules: r, tree: tree, s: &s}
	var ps config.Problems
	ps.Require(s.Cluster.Nodes >= 1 && s.Cluster.Nodes <= topology.MaxGPUs, "cluster.nodes", "%d servers; use 1 to %d", s.Cluster.Nodes, topology.MaxGPUs)
	ps.Require(s.Cluster.GPUsPerNode >= 1 && s.Cluster.GPUsPerNode <= topology.MaxGPUsPerNode,
		"cluster.gpus_per_node", "%d GPUs per server; use 1 to %d", s.Cluster.GPUsPerNode, topology.MaxGPUsPerNode)
	if err := ps.Err(); err != nil {
		return nil, err
	}
	if r.Fabric != nil {
		d.fabric()
	}
	if r.GPUs != nil {
		d.gpus()
	}
	if r.Instances != nil {
		d.instances()
	}
	if r.Load != nil {
		d.load()
	}
	return d.derived, d.problems.Err()
}

// A deriver applies rules to one scenario.
type deriver struct {
	*rules
	tree     *config.Tree
	s        *Scenario
	derived  []Derived
	problems config.Problems
}

// set writes a key, unless it is written already.
func (d *deriver) set(key, value string) {
	if d.tree.Where(key) != "" {
		return
	}
	if err := put(d.tree, d.where(key), key, value); err != nil {
		d.problems.Nest("", err)
		return
	}
	d.derived = append(d.derived, Derived{key, value, d.rule(key)})
}

// refuse says that a rule cannot be followed.
func (d *deriver) refuse(rule, format string, args ...any) {
	key := rulesKey + "." + rule
	d.problems = append(d.problems, config.Problem{Key: key, Where: d.at[key], Message: fmt.Sprintf(format, args...)})
}

// fabric works out leaves and spines.
func (d *deriver) fabric() {
	f, err := d.Fabric.build(d.s.Cluster)
	if err != nil {
		d.refuse("fabric", "%v", err)
		return
	}
	d.set(keyLeaves, strconv.Itoa(f.leaves))
	d.set(keySpines, strconv.Itoa(f.spines))
}

// A twoTier is a leaf-spine fabric in numbers.
type twoTier struct{ leaves, spines int }

// build finds the fabric of a cluster: the fewest leaves, then the fewest spines,
// that the ports allow.
func (f *FabricRule) build(c topology.Config) (twoTier, error) {
	if c.NICsPerNode == 0 {
		return twoTier{}, nil // one server by itself; topology judges the rest
	}
	if c.NICRate <= 0 || c.LinkRate <= 0 {
		return twoTier{}, fmt.Errorf("cluster.nic_rate and cluster.link_rate must be above 0")
	}
	nics := 1 // of a server, at one leaf
	rails := c.NICsPerNode
	if c.Wiring == topology.WiringPacked {
		nics, rails = c.NICsPerNode, 1
	}
	down := func(nodes int) float64 { // ports that they take at a leaf
		return float64(nodes*nics) * float64(c.NICRate) / float64(c.LinkRate)
	}
	if rails == 1 && down(c.Nodes) <= float64(f.Radix) && (f.NodesPerLeaf == 0 || c.Nodes <= f.NodesPerLeaf) {
		return twoTier{leaves: 1}, nil
	}
	up := func(nodes int) float64 { // ports that their uplinks take
		if c.UplinksPerLeaf > 0 || c.Oversubscription == 0 {
			return float64(c.UplinksPerLeaf)
		}
		return down(nodes) / c.Oversubscription
	}
	if n := min(f.NodesPerLeaf, c.Nodes); n > 0 {
		switch {
		case c.Nodes%n != 0:
			return twoTier{}, fmt.Errorf("%d servers do not fill leaves of nodes_per_leaf %d evenly", c.Nodes, n)
		case !f.fits(down(n), up(n)):
			return twoTier{}, fmt.Errorf("nodes_per_leaf %d takes %.4g ports of a leaf and %.4g for uplinks (oversubscription %g): "+
				"they must be whole and at most %d in all", n, down(n), up(n), c.Oversubscription, f.Radix)
		}
		return f.join(c.Nodes, rails*(c.Nodes/n), int(math.Round(up(n))))
	}
	var first error
	for n := c.Nodes; n >= 1; n-- {
		if c.Nodes%n != 0 || !f.fits(down(n), up(n)) {
			continue
		}
		t, err := f.join(c.Nodes, rails*(c.Nodes/n), int(math.Round(up(n))))
		if err == nil {
			return t, nil
		}
		if first == nil {
			first = err
		}
	}
	if first == nil {
		first = fmt.Errorf("no number of servers that divides %d fills a leaf of %d ports with whole uplinks: one server takes %.4g ports and %.4g for uplinks (oversubscription %g)",
			c.Nodes, f.Radix, down(1), up(1), c.Oversubscription)
	}
	return twoTier{}, first
}

// fits tells whether a leaf has the ports, and its uplinks are whole.
func (f *FabricRule) fits(down, up float64) bool {
	n := math.Round(up)
	return n >= 1 && math.Abs(up-n) <= 1e-9*n && down+n <= float64(f.Radix)
}

// join finds the fewest spines that share the uplinks of the leaves evenly.
func (f *FabricRule) join(servers, leaves, uplinks int) (twoTier, error) {
	for spines := 1; spines <= uplinks; spines++ {
		if uplinks%spines == 0 && leaves*(uplinks/spines) <= f.Radix {
			return twoTier{leaves, spines}, nil
		}
	}
	return twoTier{}, fmt.Errorf("%d servers need %d leaves, and a spine of %d ports reaches no more than %d: "+
		"use a larger radix, more oversubscription or fewer servers", servers, leaves, f.Radix, f.Radix)
}

// gpus works out the instances from a ratio of GPUs.
func (d *deriver) gpus() {
	all := d.s.Cluster.Nodes * d.s.Cluster.GPUsPerNode
	parts := d.GPUs.Prefill + d.GPUs.Decode
	pool := func(name, key string, share, tp, dp int) {
		one := tp * dp
		if one < 1 {
			return // serving.Config.Validate says so
		}
		if n := all * share; n%(parts*one) == 0 {
			d.set(key, strconv.Itoa(n/(parts*one)))
			return
		}
		if d.tree.Where(key) != "" {
			return
		}
		d.refuse("gpus", "%d of %d parts of %d GPUs are %.4g GPUs for %s, which are no whole instances of %d (tp %d x dp %d)",
			share, parts, all, float64(all)*float64(share)/float64(parts), name, one, tp, dp)
	}
	p, q := d.s.Serving.Prefill, d.s.Serving.Decode
	pool("prefill", keyPrefillInstances, d.GPUs.Prefill, p.TP, p.DP)
	pool("decode", keyDecodeInstances, d.GPUs.Decode, q.TP, q.DP)
}

// instances works out the instances from a unit of servers.
func (d *deriver) instances() {
	n := d.s.Cluster.Nodes
	if n%d.Instances.PerNodes != 0 {
		d.refuse("instances", "%d servers are no multiple of per_nodes %d", n, d.Instances.PerNodes)
		return
	}
	n /= d.Instances.PerNodes
	d.set(keyPrefillInstances, strconv.Itoa(n*d.Instances.Prefill))
	d.set(keyDecodeInstances, strconv.Itoa(n*d.Instances.Decode))
}

// load works out rate and requests.
func (d *deriver) load() {
	l, gpus := d.Load, float64(d.s.Cluster.Nodes*d.s.Cluster.GPUsPerNode)
	if rate := max(l.Rate, l.RatePerGPU*units.Frequency(gpus)); rate != 0 {
		a := d.s.Workload.Arrivals
		if d.s.Workload.Trace != nil || a == nil || a.Process == workload.ProcessAtOnce {
			d.refuse("load", "there is no rate to set: the workload is a trace, or arrives at once")
			return
		}
		text, err := rate.MarshalText()
		if err != nil {
			d.refuse("load", "%v", err)
			return
		}
		d.set(keyRate, string(text))
	}
	n := float64(l.Requests)
	if l.RequestsPerGPU > 0 {
		n = max(1, math.Round(l.RequestsPerGPU*gpus))
	}
	if n != 0 {
		d.set(keyRequests, strconv.FormatFloat(min(n, 1e15), 'f', 0, 64))
	}
}
