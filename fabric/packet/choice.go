package packet

import (
	"math"

	"github.com/tgssim/tgssim/congestion"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/routing"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// A choice is a row of the table of path choices. All decide where a packet is
// sent; in a leaf-spine that is where its leaf would decide.
type choice struct {
	name string
	// next is which of the paths of a queue pair a packet takes. It is nil where a
	// queue pair has one path, which pathOf knows.
	next func(n *Network, q *sender, qp uint32, p *packet, now sim.Time) int
	// reorders says whether packets of a queue pair overtake each other as a rule.
	reorders func(c PathConfig) bool
}

func always(PathConfig) bool { return true }
func never(PathConfig) bool  { return false }

// choices is the table of the path choices.
var choices = []choice{
	{PathCONGA, (*Network).nextCONGA, never},
	{PathConWeave, (*Network).nextAtLeaf, never},
	{PathECMP, nil, never},
	{PathFlowlet, (*Network).nextFlowlet, never},
	{PathINT, (*Network).nextINT, func(c PathConfig) bool { return c.INT.Per == routing.PerPacket }},
	{PathOracle, (*Network).nextOracle, always},
	{PathSprayRandom, (*Network).nextRandom, always},
	{PathSprayRoundRobin, (*Network).nextTurn, always},
	{PathStatic, nil, never},
}

func pathChoices() []string {
	names := make([]string, len(choices))
	for i, c := range choices {
		names[i] = c.name
	}
	return names
}

// choiceOf is the row of a valid name.
func choiceOf(name string) (row choice) {
	for _, c := range choices {
		if c.name == name {
			row = c
		}
	}
	return row
}

// reorders says whether packets of a queue pair overtake each other as a rule, so
// that receivers have to take them out of order.
func (c PathConfig) reorders() bool {
	row := choiceOf(c.Choice)
	return row.name != "" && row.reorders(c)
}

// nextAtLeaf leaves the path to the leaf. Until then its uplink is the port that
// the leaf's buffer counts the packet to.
func (n *Network) nextAtLeaf(q *sender, qp uint32, _ *packet, _ sim.Time) int {
	return int(n.receivers[qp].nic) % int(q.paths.count)
}

func (n *Network) nextTurn(q *sender, _ uint32, _ *packet, _ sim.Time) int {
	return q.paths.turn.Next(int(q.paths.count))
}

func (n *Network) nextRandom(q *sender, _ uint32, _ *packet, _ sim.Time) int {
	n.sprayDraws++
	return routing.RandomPath(n.spraySeed, n.sprayDraws, int(q.paths.count))
}

func (n *Network) nextFlowlet(q *sender, qp uint32, _ *packet, now sim.Time) int {
	at, moved := q.paths.flowlet.Next(now, n.path.FlowletGap, n.spraySeed+uint64(qp), int(q.paths.count))
	if moved {
		n.count.Flowlets++
	}
	return at
}

// layChoice prepares what telemetry, CONGA and the oracle need, headers included.
func (n *Network) layChoice(s Settings) error {
	p := s.Packet.Path
	if congestion.NeedsOf(s.Congestion).INT || p.Choice == PathINT {
		if err := n.layTelemetry(s); err != nil {
			return err
		}
	}
	if s.Congestion.Algorithm == "gse" {
		n.header += uint32(s.Congestion.GSE.HeaderBytes)
		n.train = min(n.train, uint32(s.Congestion.GSE.ContainerBytes)/(n.mtu+n.header)) // a train is in one container
		n.fullWire = (n.mtu + n.header) * n.train
		n.fixedPaths, n.spraying, n.next = true, true, (*Network).nextContainer
		if s.Congestion.GSE.Mode == congestion.ModeN2N {
			n.observing, n.next = true, (*Network).nextAtLeaf
			n.windowBDP = s.Packet.Transport.WindowBDP
		}
		return nil
	}
	switch p.Choice {
	case PathINT:
		r, err := routing.NewINT(p.INT)
		if err != nil {
			return nest("packet.path.int", err)
		}
		n.fixedPaths = true
		n.intPaths = &intPaths{INT: r, interval: p.INT.ProbeInterval, place: map[[2]uint32]uint32{}}
	case PathCONGA:
		n.header += uint32(p.CONGA.HeaderBytes)
		n.fullWire = (n.mtu + n.header) * n.train
		n.observing = p.CONGA.CountAt == routing.CountAtSend
		return n.layCONGA(p.CONGA)
	case PathConWeave:
		return n.layWeaving(p.ConWeave)
	case PathOracle:
		n.promised, n.observing = make([]int64, len(n.ports)), true
	}
	return nil
}

// observe is what a port's begin of a packet tells telemetry, CONGA and the
// oracle.
func (n *Network) observe(pt *port, id uint32, p *packet, now sim.Time) {
	if p.flags&flagReply != 0 {
		return
	}
	if n.promised != nil {
		n.promised[n.routes[p.at-1]] -= int64(p.wire)
	}
	if pt.nic {
		return
	}
	if n.atLeaves {
		if pt.whole {
			n.depart(id, p, now)
		}
		return
	}
	if n.telemetry != nil {
		n.stamp(pt, id, p, now)
	}
	if x := n.conga; x != nil && !x.early {
		l := n.routes[p.at-1]
		if x.pass(n, id, p, l, now); n.graph.Links[l].From >= x.spine {
			x.land(id, p, now)
		}
	}
}

// promise books a packet to the links of its path until they begin to send it, or
// takes it off those that are still to come.
func (n *Network) promise(at uint32, wire int64) {
	for ; n.routes[at] != endOfRoute; at++ {
		n.promised[n.routes[at]] += wire
	}
}

// pathLoads is what an oracle knows of a queue pair's paths.
type pathLoads struct {
	n   *Network
	q   *sender
	now sim.Time
}

// PathLoad is the longest time, in picoseconds, until a link of the path would
// have sent all that is on its way to it: for ever where one is down.
func (o *pathLoads) PathLoad(i int) (most float64) {
	n := o.n
	for at := o.q.paths.first + uint32(i)*uint32(o.q.paths.stride); n.routes[at] != endOfRoute; at++ {
		pt := &n.ports[n.routes[at]]
		if pt.down {
			return math.Inf(1)
		}
		t := float64(max(0, pt.busy-o.now)) + float64(float64(n.promised[n.routes[at]])/pt.rate.BytesPerPicosecond())
		most = max(most, t)
	}
	return most
}

// nextOracle knows every queue and every packet that is under way.
func (n *Network) nextOracle(q *sender, _ uint32, p *packet, now sim.Time) int {
	n.sprayDraws++
	n.oracle = pathLoads{n, q, now}
	at := routing.LeastLoaded(&n.oracle, int(q.paths.count), n.spraySeed, n.sprayDraws)
	n.promise(q.paths.first+uint32(at)*uint32(q.paths.stride), int64(p.wire))
	return at
}

// knowledge is what a NIC, or all NICs under a leaf, know of the paths to a leaf.
type knowledge struct {
	states []routing.PathState
	meters []congestion.INTMeter
	rtt    sim.Time
	used   sim.Time // by the last packet
	qp     uint32   // one of the queue pairs, whose paths probes take
	// probing is that an event looks for paths that want a probe.
	probing bool
}

// intFlow is what a queue pair keeps whose path follows telemetry.
type intFlow struct {
	routing.INTFlow
	hash  uint64
	known uint32 // place in intPaths.known
	begin uint32 // the first packet of the next message
	// own is the part of a link that the queue pair uses, as of its packets from
	// number from on, since an instant.
	own   float64
	since sim.Time
	from  uint32
}

// intPaths is path choice by telemetry.
type intPaths struct {
	*routing.INT
	interval sim.Time
	known    []knowledge
	place    map[[2]uint32]uint32 // by NIC, or its leaf, and leaf; looked up, never ranged over
	flows    []intFlow            // by queue pair
}

// layINT prepares a queue pair whose paths are laid.
func (n *Network) layINT(s *sender, k qpKey, id uint32) {
	x := n.intPaths
	key := [2]uint32{s.nic, uint32(n.graph.LeafOf(n.graph.NICOf(k.dst)))}
	if n.path.INT.Scope == routing.ScopeLeaf {
		key[0] = uint32(n.graph.LeafOf(n.graph.NICOf(k.src)))
	}
	at, ok := x.place[key]
	if !ok {
		at = uint32(len(x.known))
		x.place[key] = at
		x.known = append(x.known, knowledge{
			states: make([]routing.PathState, s.paths.count), meters: make([]congestion.INTMeter, s.paths.count),
			rtt: n.routeOf(n.pathAt(s.paths.first)).RTT, qp: id,
		})
	}
	for uint32(len(x.flows)) <= id {
		x.flows = append(x.flows, intFlow{})
	}
	f := &x.flows[id]
	f.known, f.hash = at, routing.Hash(routing.RoCE(uint32(k.src), uint32(k.dst), k.number), n.spraySeed)
	n.markDown(s, &x.known[at])
}

// markDown takes paths that routing avoids out of service, and others back.
func (n *Network) markDown(s *sender, k *knowledge) {
	if !n.faulty {
		return
	}
	for i := range k.states {
		down := false
		path := n.pathAt(s.paths.first + uint32(i)*uint32(s.paths.stride))
		for _, l := range path[1 : len(path)-1] {
			down = down || n.isExcluded(l)
		}
		k.states[i].SetDown(down)
	}
}

// pathAt is the path at a place in the routes, valid until the next call.
func (n *Network) pathAt(at uint32) []topology.LinkID {
	n.scratch = n.scratch[:0]
	for ; n.routes[at] != endOfRoute; at++ {
		n.scratch = append(n.scratch, topology.LinkID(n.routes[at]))
	}
	return n.scratch
}

// nextINT goes where telemetry says that it is quiet.
func (n *Network) nextINT(q *sender, qp uint32, p *packet, now sim.Time) int {
	x := n.intPaths
	f := &x.flows[qp]
	k := &x.known[f.known]
	if q.paths.count == 1 {
		return 0
	}
	if dt := now - f.since; dt >= k.rtt {
		bytes := float64(max(0, int32(p.seq-f.from))) * float64(n.mtu+n.header)
		f.own = min(1, bytes/(n.ports[n.nics[q.nic].port].rate.BytesPerPicosecond()*float64(dt)))
		f.since, f.from = now, p.seq
	}
	begins := p.seq == f.begin
	if begins {
		f.begin = n.requests[n.requestOf(q, p.seq)].end
	}
	at, moved := x.Next(&f.INTFlow, now, k.states, f.hash, f.own, begins)
	if moved {
		n.count.Moves++
	}
	k.used = now
	if x.interval > 0 && !k.probing {
		k.probing = true
		n.engine.After(0, n.self, evProbe, f.known)
	}
	return at
}

// learn takes in what a reply has brought back of paths. Of telemetry the last
// hop, the receiver's own port, is on every path.
func (n *Network) learn(q *sender, qp, id uint32, now sim.Time) {
	if n.conga != nil {
		n.conga.heed(id, n.conga.flows[qp].dst, n.conga.flows[qp].src, now)
		return
	}
	x := n.intPaths
	t := &n.telemetry[id]
	at := (t.path - q.paths.first) / uint32(q.paths.stride)
	if t.count < 2 || at >= uint32(q.paths.count) {
		return
	}
	k := &x.known[x.flows[qp].known]
	n.count.Reports++
	n.count.ReportAge += now - t.hops[0].At
	rate := t.hops[0].Rate
	for _, h := range t.hops[1 : t.count-1] {
		rate = min(rate, h.Rate)
	}
	k.states[at].SetRate(rate)
	if m := &k.meters[at]; m.Observe(0, t.hops[:t.count-1], k.rtt) {
		x.Observe(&k.states[at], t.hops[0].At, m.U())
	}
}

// probe sends a probe over every path that has not been heard of for too long, as
// long as somebody uses them. Probes are control packets that collect what data
// would meet, and are answered.
func (n *Network) probe(known uint32, now sim.Time) {
	x := n.intPaths
	k := &x.known[known]
	if now-k.used > x.interval {
		k.probing = false
		return
	}
	n.engine.After(x.interval, n.self, evProbe, known)
	for i := range k.states {
		bytes, due := x.ProbeDue(&k.states[i], now)
		if !due {
			continue
		}
		id := n.alloc()
		q := &n.senders[k.qp]
		at := q.paths.first + uint32(i)*uint32(q.paths.stride)
		n.packets[id] = packet{
			qp: k.qp, at: at, wire: uint32(bytes), prio: prioControl, class: q.class, flags: flagTelemetry,
		}
		n.collect(id, at)
		n.count.Probes++
		n.count.ProbeBytes += 2 * int64(bytes)
		n.sendControl(&n.nics[q.nic], id, now)
	}
}

// echo sends a probe back from where it has arrived.
func (n *Network) echo(id uint32, p *packet, now sim.Time) {
	r := &n.receivers[p.qp]
	p.flags |= flagReply
	if !n.ackQueueing {
		n.engine.AfterLane(r.back, n.self, evReply, id)
		return
	}
	p.at = r.route
	n.sendControl(&n.nics[r.nic], id, now)
}

// congaPaths is CONGA: the tables of the leaves and what packets carry.
type congaPaths struct {
	*routing.CONGA
	dres   []routing.DRE        // by LinkID
	leaves []*routing.CONGALeaf // by leaf
	ups    [][]topology.LinkID  // by leaf: its links to spines
	flows  []congaFlow          // by queue pair
	tags   []congaTag           // by packet
	local  []uint8              // scratch
	early  bool                 // estimators count what joins a queue
	first  topology.NodeID      // leaf
	spine  topology.NodeID
}

type congaFlow struct{ src, dst, path uint16 }

// A congaTag is what the header of a packet says between leaves.
type congaTag struct {
	uplink, feedback uint16
	ce, metric       uint8
	told             bool // feedback and metric count
}

func (n *Network) layCONGA(c routing.CONGAConfig) error {
	x := &congaPaths{
		dres: make([]routing.DRE, len(n.ports)), first: n.firstSwitch, spine: n.firstSwitch + topology.NodeID(n.graph.Leaves()),
		early: c.CountAt == routing.CountAtEnqueue,
	}
	var err error
	if x.CONGA, err = routing.NewCONGA(c); err != nil {
		return nest("packet.path.conga", err)
	}
	for i := range n.graph.Leaves() {
		var ups []topology.LinkID
		for _, l := range n.graph.Out(x.first + topology.NodeID(i)) {
			if n.graph.Links[l].To >= x.spine {
				ups = append(ups, l)
			}
		}
		x.ups = append(x.ups, ups)
		x.leaves = append(x.leaves, x.NewLeaf(n.graph.Leaves(), len(ups)))
	}
	n.conga = x
	return nil
}

func (n *Network) layCONGAFlow(k qpKey, id uint32) {
	x := n.conga
	for uint32(len(x.flows)) <= id {
		x.flows = append(x.flows, congaFlow{})
	}
	leaf := func(gpu topology.GPU) uint16 { return uint16(n.graph.LeafOf(n.graph.NICOf(gpu)) - x.first) }
	x.flows[id] = congaFlow{src: leaf(k.src), dst: leaf(k.dst)}
}

// tag begins the header of a packet, or of an acknowledgement, from a leaf to
// another, with what the one has to say to the other.
func (x *congaPaths) tag(id uint32, from, to uint16) *congaTag {
	for int(id) >= len(x.tags) {
		x.tags = append(x.tags, congaTag{})
	}
	t := &x.tags[id]
	*t = congaTag{}
	if up, metric, ok := x.leaves[from].Feedback(int(to)); ok {
		t.feedback, t.metric, t.told = uint16(up), metric, true
	}
	return t
}

// heed takes in what a packet from a leaf says to another.
func (x *congaPaths) heed(id uint32, from, at uint16, now sim.Time) {
	if t := &x.tags[id]; t.told {
		x.leaves[at].OnFeedback(int(from), int(t.feedback), t.metric, now)
	}
}

// nextCONGA is the path of the least congested uplink for a flowlet.
func (n *Network) nextCONGA(q *sender, qp uint32, p *packet, now sim.Time) int {
	x := n.conga
	f := &x.flows[qp]
	t := x.tag(n.emitting, f.src, f.dst)
	if q.paths.count == 1 {
		return 0
	}
	ups := x.ups[f.src]
	x.local = x.local[:0]
	for _, l := range ups {
		m := uint8(routing.Down)
		if !n.faulty || !n.isExcluded(l) {
			m = x.Metric(&x.dres[l], now, n.ports[l].rate)
		}
		x.local = append(x.local, m)
	}
	up, begins := x.leaves[f.src].Next(&q.paths.flowlet, now, int(f.dst), x.local, n.spraySeed+uint64(qp))
	if begins {
		n.count.Flowlets++
		f.path = n.pathOver(q, uint32(ups[up]))
	}
	t.uplink = uint16(up)
	return int(f.path)
}

// pathOver is the first path of a queue pair that begins with an uplink.
func (n *Network) pathOver(q *sender, up uint32) uint16 {
	for i := range q.paths.count {
		if n.routes[q.paths.first+uint32(i)*uint32(q.paths.stride)+1] == up {
			return i
		}
	}
	return 0
}

// pass is a packet that a switch sends over a link, or takes in for it: between
// leaves it collects the largest metric.
func (x *congaPaths) pass(n *Network, id uint32, p *packet, l uint32, now sim.Time) {
	x.Count(&x.dres[l], now, units.Bytes(p.wire))
	link := &n.graph.Links[l]
	if link.From < x.spine && link.To < x.spine {
		return // from its leaf to a NIC
	}
	t := &x.tags[id]
	t.ce = max(t.ce, x.Metric(&x.dres[l], now, n.ports[l].rate))
}

// land is a packet that has crossed the fabric, or has begun its last way to its
// leaf: what it brings goes into the tables.
func (x *congaPaths) land(id uint32, p *packet, now sim.Time) {
	t, f := &x.tags[id], &x.flows[p.qp]
	x.leaves[f.dst].OnArrive(int(f.src), int(t.uplink), t.ce, now)
	x.heed(id, f.src, f.dst, now)
}

// taken is a packet that a switch takes in for a link.
func (x *congaPaths) taken(n *Network, id uint32, p *packet, now sim.Time) {
	if p.flags&flagReply != 0 {
		return
	}
	if n.graph.Links[n.routes[p.at-1]].From >= x.spine {
		x.land(id, p, now)
	}
	x.pass(n, id, p, n.routes[p.at], now)
}
