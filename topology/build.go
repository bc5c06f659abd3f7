package topology

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/tgssim/tgssim/internal/invariants"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// A builder collects nodes and cables and makes them a Graph. Nodes are added
// kind by kind, in the order of the kinds. Names are gathered in one buffer and
// cut from one string at the end: a cluster has more names than anything else.
type builder struct {
	g     *Graph
	names []byte
	ends  []int32 // end of each node's, then each link's name in names
}

func newBuilder(nodes, links int) *builder {
	return &builder{
		g:     &Graph{Nodes: make([]Node, 0, nodes), Links: make([]Link, 0, links)},
		names: make([]byte, 0, 12*nodes+16*links),
		ends:  make([]int32, 0, nodes+links),
	}
}

// add appends n nodes of kind k.
func (b *builder) add(k Kind, n int) {
	g := b.g
	g.first[k] = NodeID(len(g.Nodes))
	for i := range n {
		b.names = strconv.AppendInt(append(b.names, k.String()...), int64(i), 10)
		b.ends = append(b.ends, int32(len(b.names)))
		g.Nodes = append(g.Nodes, Node{Kind: k, Index: int32(i)})
	}
	g.first[k+1] = NodeID(len(g.Nodes))
}

// cable joins two nodes with a link each way. Parallel cables, of which par
// says how many there are, are told apart by their number.
func (b *builder) cable(x, y NodeID, rate units.Rate, delay sim.Time, number, par int) {
	b.link(x, y, rate, delay, number, par)
	b.link(y, x, rate, delay, number, par)
}

func (b *builder) link(from, to NodeID, rate units.Rate, delay sim.Time, number, par int) {
	g := b.g
	name := func(n NodeID) {
		node := &g.Nodes[n]
		b.names = strconv.AppendInt(append(b.names, node.Kind.String()...), int64(node.Index), 10)
	}
	name(from)
	b.names = append(b.names, '>')
	name(to)
	if par > 1 {
		b.names = strconv.AppendInt(append(b.names, '#'), int64(number), 10)
	}
	b.ends = append(b.ends, int32(len(b.names)))
	g.Links = append(g.Links, Link{From: from, To: to, Rate: rate, Delay: delay})
}

// finish names everything, indexes the links and builds the routes.
func (b *builder) finish() *Graph {
	g := b.g
	names := string(b.names)
	at := int32(0)
	for i, end := range b.ends {
		if i < len(g.Nodes) {
			g.Nodes[i].Name = names[at:end]
		} else {
			g.Links[i-len(g.Nodes)].Name = names[at:end]
		}
		at = end
	}
	g.indexLinks()
	nics := g.count(KindNIC)
	g.leaf = make([]NodeID, nics)
	g.up, g.down = make([]LinkID, nics), make([]LinkID, nics)
	for i := range nics {
		g.leaf[i], g.up[i], g.down[i] = NoNode, NoLink, NoLink
		for _, l := range g.Out(g.first[KindNIC] + NodeID(i)) {
			g.leaf[i], g.up[i], g.down[i] = g.Links[l].To, l, g.Reverse(l)
		}
	}
	g.buildRoutes()
	if invariants.Enabled {
		g.check()
	}
	return g
}

// check panics when the graph is not what the rest of the package takes for
// granted. A panic is a bug in a builder, never in a Config.
func (g *Graph) check() {
	must := func(ok bool, format string, args ...any) {
		if !ok {
			panic("topology: " + fmt.Sprintf(format, args...))
		}
	}
	must(g.first[0] == 0 && g.first[numKinds] == NodeID(len(g.Nodes)), "nodes are not numbered kind by kind: %v", g.first)
	for i := range g.Nodes {
		k := g.Nodes[i].Kind
		must(NodeID(i) == g.first[k]+NodeID(g.Nodes[i].Index), "%s is node %d", g.Nodes[i].Name, i)
	}
	for i := range g.Links {
		l, r := &g.Links[i], &g.Links[g.Reverse(LinkID(i))]
		must(l.From == r.To && l.To == r.From && l.From != l.To, "%s and %s are not one cable", l.Name, r.Name)
		must(l.Rate == r.Rate && l.Delay == r.Delay, "%s and %s differ", l.Name, r.Name)
	}
	for nic := g.first[KindNIC]; nic < g.first[KindNIC+1]; nic++ {
		must(len(g.Out(nic)) <= 1, "%s has %d cables", g.Nodes[nic].Name, len(g.Out(nic)))
	}
	must(len(g.out) == len(g.Links), "%d of %d links leave a node", len(g.out), len(g.Links))
}

// indexLinks fills out and outAt.
func (g *Graph) indexLinks() {
	g.outAt = make([]int32, len(g.Nodes)+1)
	for i := range g.Links {
		g.outAt[g.Links[i].From+1]++
	}
	for n := range g.Nodes {
		g.outAt[n+1] += g.outAt[n]
	}
	g.out = make([]LinkID, len(g.Links))
	next := slices.Clone(g.outAt[:len(g.Nodes)])
	for i := range g.Links {
		from := g.Links[i].From
		g.out[next[from]] = LinkID(i)
		next[from]++
	}
	for n := range g.Nodes {
		slices.SortFunc(g.Out(NodeID(n)), func(a, b LinkID) int {
			if d := int(g.Links[a].To) - int(g.Links[b].To); d != 0 {
				return d
			}
			return int(a - b)
		})
	}
}
