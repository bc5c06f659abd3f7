package packet

import (
	"fmt"
	"math"

	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// A job is a message or a run of a collective.
type job struct {
	to           fabric.Receiver
	tag          uint64
	posted, post sim.Time
	alone        alone
	milli        int64  // payload in thousandths of a byte
	qps, firstQP uint32 // queue pairs of each write
	writes       uint32 // the first of its writes until they are posted
	parts        int32  // work requests that have not arrived
	coll         int32  // place in Network.collectives, or -1
	class        fabric.Class
	live         bool
}

// A qpKey names a queue pair.
type qpKey struct {
	src, dst topology.GPU
	number   uint32
}

// A write is one part of a message that crosses the network.
type write struct {
	src, dst topology.GPU
	bytes    units.Bytes
	next     uint32
}

// Send posts a message. What goes between servers is spread over its queue pairs
// as evenly as bytes allow, the first ones taking the odd bytes, as one WRITE
// with immediate on each; writes of the same queue pair follow each other. What
// stays inside a server is a fluid on NVLink. It panics when a GPU does not
// exist, when there is no way between them, or when Bytes is negative or above
// 9 PB.
func (n *Network) Send(m fabric.Message, to fabric.Receiver) {
	one := [1]fabric.Part{{Src: m.Src, Dst: m.Dst, Bytes: m.Bytes}}
	parts := m.Parts
	if parts == nil {
		parts = one[:]
	}
	var total units.Bytes
	across := false
	for _, p := range parts {
		n.mustExist(p.Src, p.Dst, p.Bytes)
		total += p.Bytes
		n.mustExist(p.Src, p.Dst, total)
		across = across || n.graph.ServerOf(p.Src) != n.graph.ServerOf(p.Dst)
	}
	if !across {
		n.sendInside(m, total, to)
		return
	}
	id := n.newJob()
	n.jobs[id] = job{
		to: to, tag: m.Tag, posted: n.engine.Now(), post: m.Post, milli: 1000 * int64(total),
		qps: uint32(max(1, m.QPs)), firstQP: uint32(m.FirstQP), writes: none, coll: -1, class: m.Class, live: true,
	}
	n.insideParts = n.insideParts[:0]
	for i := len(parts) - 1; i >= 0; i-- { // the list is built from its end
		n.addPart(id, parts[i])
	}
	j := &n.jobs[id]
	j.alone = n.takeLoad()
	n.account(j)
	if len(n.insideParts) > 0 {
		j.parts++
		n.local.Send(fabric.Message{Parts: n.insideParts, Class: m.Class, Post: m.Post, Tag: uint64(id)}, insidePart{n})
	}
	n.postAfter(m.Post, id)
}

// mustExist panics when there cannot be such a message.
func (n *Network) mustExist(src, dst topology.GPU, b units.Bytes) {
	if b < 0 || int64(b) > math.MaxInt64/1000 {
		panic(fmt.Sprintf("packet: message of %d bytes", int64(b)))
	}
	if gpus := topology.GPU(n.graph.GPUs()); src >= gpus || dst >= gpus || src < 0 || dst < 0 {
		panic(fmt.Sprintf("packet: message from GPU %d to GPU %d of %d", src, dst, gpus))
	}
}

// addPart adds a part to a job and to the load of its time alone.
func (n *Network) addPart(id uint32, p fabric.Part) {
	if n.graph.ServerOf(p.Src) == n.graph.ServerOf(p.Dst) {
		n.insideParts = append(n.insideParts, p)
		if p.Src != p.Dst {
			up, down := n.graph.NVLinks(p.Src, p.Dst)
			n.scratch = append(n.scratch[:0], up, down)
			n.addLoad(n.scratch, 1000*int64(p.Bytes))
		}
		return
	}
	w := n.freeWrites
	if w != none {
		n.freeWrites = n.writes[w].next
	} else {
		w = uint32(len(n.writes))
		n.writes = append(n.writes, write{})
	}
	j := &n.jobs[id]
	n.writes[w] = write{p.Src, p.Dst, p.Bytes, j.writes}
	j.writes = w
	n.eachPiece(w, j.qps, func(k uint32, bytes units.Bytes) {
		n.jobs[id].parts++
		n.addLoad(n.currentPath(n.queuePair(p.Src, p.Dst, n.jobs[id].class, n.jobs[id].firstQP+k)), 1000*int64(bytes))
	})
}

// eachPiece divides a write over qps queue pairs.
func (n *Network) eachPiece(w, qps uint32, do func(k uint32, bytes units.Bytes)) {
	total := n.writes[w].bytes
	qps = uint32(max(1, min(int64(qps), int64(total))))
	for k := range qps {
		piece := total / units.Bytes(qps)
		if units.Bytes(k) < total%units.Bytes(qps) {
			piece++
		}
		do(k, piece)
	}
}

// inside takes in deliveries of messages inside servers, whose tag is their job.
type inside struct{ n *Network }

// insidePart takes in the part of a message that stays inside servers.
type insidePart struct{ n *Network }

// Delivered counts the part.
func (i insidePart) Delivered(d fabric.Delivery) { i.n.partDone(uint32(d.Tag), d.Arrived) }

// sendInside sends a message between GPUs of one server each.
func (n *Network) sendInside(m fabric.Message, total units.Bytes, to fabric.Receiver) {
	id := n.newJob()
	n.jobs[id] = job{to: to, tag: m.Tag, milli: 1000 * int64(total), coll: -1, class: m.Class, live: true}
	m.Tag = uint64(id)
	n.local.Send(m, inside{n})
	n.account(&n.jobs[id])
}

// Delivered hands a delivery on under the tag of its message.
func (i inside) Delivered(d fabric.Delivery) {
	id := uint32(d.Tag)
	d.Tag = i.n.jobs[id].tag
	i.n.finish(id, d)
}

// account books what a job hands in.
func (n *Network) account(j *job) {
	n.sent[j.class].add(j.milli)
	n.sentCount[j.class]++
}

// postAfter hands a job to the NIC after its posting time and the NIC's latency.
func (n *Network) postAfter(post sim.Time, id uint32) {
	if t := post + n.nicLatency; t > 0 {
		n.engine.After(t, n.self, evPost, id)
		return
	}
	n.posted(id, n.engine.Now())
}

// posted is the instant at which the NIC takes in the work requests of a job.
func (n *Network) posted(id uint32, now sim.Time) {
	if coll := n.jobs[id].coll; coll >= 0 {
		n.collectives[coll].posted(id, now)
		return
	}
	j := n.jobs[id]
	for w := j.writes; w != none; {
		x := n.writes[w]
		n.eachPiece(w, j.qps, func(k uint32, bytes units.Bytes) {
			n.fetch(n.queuePair(x.src, x.dst, j.class, j.firstQP+k), id, bytes, now)
		})
		n.writes[w].next = n.freeWrites
		n.freeWrites = w
		w = x.next
	}
}

// A descriptor is a work request on its way into the NIC.
type descriptor struct {
	qp, job uint32
	bytes   units.Bytes
}

// fetch lets the NIC take in a work request: it fetches them one after the
// other, each in its time.
func (n *Network) fetch(qp, job uint32, bytes units.Bytes, now sim.Time) {
	if n.wqeCost == 0 {
		n.post(qp, job, bytes, now)
		return
	}
	nc := &n.nics[n.senders[qp].nic]
	nc.wqeFree = max(nc.wqeFree, now) + n.wqeCost
	n.acted.wqe = true
	var at uint32
	if k := len(n.freeDescriptors); k > 0 {
		at = n.freeDescriptors[k-1]
		n.freeDescriptors = n.freeDescriptors[:k-1]
	} else {
		at = uint32(len(n.descriptors))
		n.descriptors = append(n.descriptors, descriptor{})
	}
	n.descriptors[at] = descriptor{qp, job, bytes}
	n.engine.At(nc.wqeFree, n.self, evFetched, at)
}

// fetched posts a work request that the NIC has taken in.
func (n *Network) fetched(at uint32, now sim.Time) {
	d := n.descriptors[at]
	n.freeDescriptors = append(n.freeDescriptors, at)
	n.post(d.qp, d.job, d.bytes, now)
}

// partDone counts a work request that has arrived and delivers its job with the
// last.
func (n *Network) partDone(id uint32, now sim.Time) {
	j := &n.jobs[id]
	j.parts--
	if j.parts > 0 {
		return
	}
	d := fabric.Delivery{Tag: j.tag, Posted: j.posted, Arrived: now, Post: j.post}
	// A message whose last packet is short can beat the formula by less than a
	// packet per link, because it takes all packets as full.
	rest := now - j.posted - j.post
	d.Wire = min(j.alone.wire, rest)
	d.Ideal, d.Latency = min(j.alone.ideal, d.Wire), min(j.alone.latency, d.Wire)
	d.Queue = rest - d.Wire
	n.finish(id, d)
}

// finish books and reports a delivery.
func (n *Network) finish(id uint32, d fabric.Delivery) {
	j := &n.jobs[id]
	n.delivered[j.class].add(j.milli)
	n.deliveredCount[j.class]++
	to := j.to
	j.to, j.live = nil, false
	if j.coll < 0 {
		n.freeJobs = append(n.freeJobs, id)
	}
	to.Delivered(d)
}

func (n *Network) newJob() uint32 {
	if k := len(n.freeJobs); k > 0 {
		id := n.freeJobs[k-1]
		n.freeJobs = n.freeJobs[:k-1]
		return id
	}
	n.jobs = append(n.jobs, job{})
	return uint32(len(n.jobs) - 1)
}

// A volume is a number of bytes, exact to a thousandth.
type volume struct {
	bytes units.Bytes
	milli int64 // 0..999
}

func (v *volume) add(milli int64) {
	v.bytes += units.Bytes(milli / 1000)
	if v.milli += milli % 1000; v.milli >= 1000 {
		v.milli -= 1000
		v.bytes++
	}
}
