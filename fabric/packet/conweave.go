package packet

import (
	"fmt"

	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/routing"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// ConWeave is done by the leaves: that of the source chooses the path of a packet
// when it has arrived, that of the destination holds what overtakes. What is held
// stays admitted to the leaf's buffer. Answers and notices of marks between leaves
// are control packets, which take the time that they take alone.

// weaving is path choice by ConWeave.
type weaving struct {
	*routing.ConWeave
	bytes uint32 // of a control packet
	flows []weaveFlow
	tags  []routing.WeaveTag // by packet
	pairs []weavePair
	place map[[2]topology.NodeID]uint32 // pair of leaves; looked up, never ranged over
	lines []weaveLine
	free  []uint32 // lines
	held  []int64  // bytes, by leaf
}

// weaveFlow is what the two leaves of a queue pair keep of it.
type weaveFlow struct {
	routing.WeaveFlow
	routing.WeaveOrder
	pair uint32 // of leaves, or none for one leaf
	line uint32 // while packets are held
}

// weavePair is a leaf and another that it sends to.
type weavePair struct {
	paths []routing.WeavePath
	rtt   sim.Time // without queues
	back  sim.Lane // of a control packet
}

// A weaveLine is where packets of a queue pair are held.
type weaveLine struct {
	queue fifo
	timer sim.Timer
	due   sim.Time // when its timer goes off; 0 when it is not set
	qp    uint32
}

// layWeaving prepares ConWeave.
func (n *Network) layWeaving(c routing.ConWeaveConfig) error {
	w, err := routing.NewConWeave(c)
	if err != nil {
		return nest("packet.path.conweave", err)
	}
	n.fixedPaths = true
	n.header += uint32(c.HeaderBytes)
	n.fullWire = (n.mtu + n.header) * n.train
	n.weaving = &weaving{
		ConWeave: w, bytes: uint32(c.ControlBytes), place: map[[2]topology.NodeID]uint32{}, held: make([]int64, n.graph.Leaves()),
	}
	return nil
}

// layWeave prepares a queue pair whose paths are laid.
func (n *Network) layWeave(s *sender, k qpKey, id uint32) {
	w := n.weaving
	for uint32(len(w.flows)) <= id {
		w.flows = append(w.flows, weaveFlow{pair: none, line: none})
	}
	if !s.paths.far() {
		return
	}
	leaves := [2]topology.NodeID{n.graph.LeafOf(n.graph.NICOf(k.src)), n.graph.LeafOf(n.graph.NICOf(k.dst))}
	at, ok := w.place[leaves]
	if !ok {
		at = uint32(len(w.pairs))
		w.place[leaves] = at
		path := n.pathAt(s.paths.first)
		between := path[1 : len(path)-1]
		p := weavePair{paths: make([]routing.WeavePath, s.paths.count)}
		for _, l := range between {
			back := &n.graph.Links[n.graph.Reverse(l)]
			p.rtt += n.ports[l^1].time(w.bytes) + back.Delay + n.graph.SwitchLatency(back.To)
		}
		p.back = n.engine.NewLane(p.rtt)
		for _, l := range between {
			p.rtt += n.ports[l].time(n.mtu+n.header) + n.ports[l].fly
		}
		w.pairs = append(w.pairs, p)
	}
	w.flows[id].pair = at
	n.weaveAround(s, id)
}

// weaveAround takes paths that routing avoids out of service, and others back.
func (n *Network) weaveAround(s *sender, qp uint32) {
	at := n.weaving.flows[qp].pair
	if !n.faulty || at == none {
		return
	}
	paths := n.weaving.pairs[at].paths
	for i := range paths {
		path := n.pathAt(s.paths.first + uint32(i)*uint32(s.paths.stride))
		paths[i].Down = n.crossesExcluded(path[1 : len(path)-1])
	}
}

// weave takes in a data packet that has reached a leaf.
func (n *Network) weave(l uint32, pt *port, id uint32, p *packet, now sim.Time) {
	w := n.weaving
	f := &w.flows[p.qp]
	switch {
	case f.pair == none:
		n.forward(l, pt, id, p, now)
	case !pt.whole:
		for int(id) >= len(w.tags) {
			w.tags = append(w.tags, routing.WeaveTag{})
		}
		pair, q := &w.pairs[f.pair], &n.senders[p.qp]
		tag, moved := w.Next(&f.WeaveFlow, now, pair.rtt, pair.paths, n.spraySeed+uint64(p.qp))
		if moved {
			n.count.Moves++
		}
		w.tags[id] = tag
		p.at = q.paths.first + uint32(tag.Path)*uint32(q.paths.stride) + 1
		l = n.routes[p.at]
		n.forward(l, &n.ports[l], id, p, now)
	default:
		n.unweave(l, id, f, now)
	}
}

// unweave takes in a packet from a spine.
func (n *Network) unweave(l, id uint32, f *weaveFlow, now sim.Time) {
	w, p := n.weaving, &n.packets[id]
	tag, qp, marked := w.tags[id], p.qp, p.flags&flagMarked != 0
	if f.Supersedes(tag) {
		n.emptyLine(f, now)
	}
	hold := w.Arrive(&f.WeaveOrder, tag, now)
	if hold {
		n.holdInLine(l, id, f, now)
	} else {
		n.forward(l, &n.ports[l], id, &n.packets[id], now)
	}
	if marked {
		n.tellLeaf(qp, uint32(tag.Path), evWeaveNotice, 0)
		n.count.WeaveNotices++
	}
	if tag.Kind != routing.WeaveData {
		n.tellLeaf(qp, tag.Epoch, evWeaveReply, tag.Kind)
		n.count.WeaveReplies++
	}
	switch {
	case !f.Holding || f.line == none:
	case f.Release() <= now:
		n.emptyLine(f, now)
	case w.lines[f.line].due != f.Release():
		x := &w.lines[f.line]
		x.due = f.Release()
		n.engine.Arm(x.timer, x.due)
	}
}

// tellLeaf sends a control packet from the leaf of a queue pair's destination to
// that of its source.
func (n *Network) tellLeaf(qp, value uint32, event uint16, kind routing.WeaveKind) {
	w := n.weaving
	id := n.alloc()
	n.packets[id] = packet{qp: qp, seq: value, count: uint8(kind), flags: flagReply}
	n.count.WeaveBytes += int64(w.bytes)
	n.engine.AfterLane(w.pairs[w.flows[qp].pair].back, n.self, event, id)
}

// weaveReply is an answer that has come back.
func (n *Network) weaveReply(id uint32, now sim.Time) {
	p := n.packets[id]
	n.release(id)
	n.weaving.OnReply(&n.weaving.flows[p.qp].WeaveFlow, p.seq, routing.WeaveKind(p.count), now)
}

// weaveNotice is the notice of a mark that has come back.
func (n *Network) weaveNotice(id uint32, now sim.Time) {
	p, w := n.packets[id], n.weaving
	n.release(id)
	w.Pause(&w.pairs[w.flows[p.qp].pair].paths[p.seq], now)
}

// holdInLine has the leaf's buffer keep a packet.
func (n *Network) holdInLine(l, id uint32, f *weaveFlow, now sim.Time) {
	w, p := n.weaving, &n.packets[id]
	if !n.admitted(l, &n.ports[l], id, p, now) {
		return
	}
	if f.line == none {
		f.line = w.newLine(n)
		w.lines[f.line].qp = p.qp
		w.lines[f.line].queue.push(n.packets, id, true)
	} else {
		w.lines[f.line].queue.push(n.packets, id, false)
	}
	w.tags[id].Sent = now
	leaf := n.ports[l].owner
	w.held[leaf] += int64(p.wire)
	n.count.MaxHeld = max(n.count.MaxHeld, w.held[leaf])
	n.count.Held++
}

// emptyLine lets go of what is held of a queue pair.
func (n *Network) emptyLine(f *weaveFlow, now sim.Time) {
	w := n.weaving
	f.Flush()
	at := f.line
	if at == none {
		return
	}
	f.line = none
	w.lines[at].due = 0
	n.engine.Disarm(w.lines[at].timer)
	for empty := false; !empty; {
		var id uint32
		id, empty = w.lines[at].queue.pop(n.packets)
		p := &n.packets[id]
		l := n.routes[p.at]
		n.count.HeldTime += now - w.tags[id].Sent
		w.held[n.ports[l].owner] -= int64(p.wire)
		n.dismiss(l, p, now)
		n.forward(l, &n.ports[l], id, p, now)
	}
	w.free = append(w.free, at)
}

// lineDue is the timer of packets that are held.
func (n *Network) lineDue(at uint32, now sim.Time) {
	n.emptyLine(&n.weaving.flows[n.weaving.lines[at].qp], now)
}

// newLine returns the place of a line without packets.
func (w *weaving) newLine(n *Network) uint32 {
	if k := len(w.free); k > 0 {
		at := w.free[k-1]
		w.free = w.free[:k-1]
		return at
	}
	at := uint32(len(w.lines))
	w.lines = append(w.lines, weaveLine{timer: n.engine.NewTimer(n.self, evWeaveLine, at)})
	return at
}

// checkWeaving adds what is held to the switches' accounts.
func (n *Network) checkWeaving(held []units.Bytes) error {
	if n.weaving == nil {
		return nil
	}
	w := n.weaving
	sums := make([]int64, len(w.held))
	for i := range w.flows {
		f := &w.flows[i]
		if f.line == none {
			continue
		}
		if w.lines[f.line].due == 0 {
			return fmt.Errorf("packets of queue pair %d are held and nothing will let them go", i)
		}
		for id := w.lines[f.line].queue.head; id != none; id = n.packets[id].next {
			sums[n.ports[n.routes[n.packets[id].at]].owner] += int64(n.packets[id].wire)
		}
	}
	for leaf, sum := range sums {
		if sum != w.held[leaf] {
			return fmt.Errorf("leaf %d says that it holds %d B back, it does %d", leaf, w.held[leaf], sum)
		}
		held[leaf] += units.Bytes(sum)
	}
	return nil
}
