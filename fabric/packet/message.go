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
	wire         sim.Time // the time alone
	bytes        units.Bytes
	milli        int64 // payload in thousandths of a byte
	src, dst     topology.GPU
	qps          uint32
	parts        int32 // work requests that have not arrived
	coll         int32 // place in Network.collectives, or -1
	class        fabric.Class
	live         bool
}

// A qpKey names a queue pair.
type qpKey struct {
	src, dst topology.GPU
	number   uint32
}

// Send posts a message. Between servers it is spread over its queue pairs as
// evenly as bytes allow, the first ones taking the odd bytes, as one WRITE with
// immediate on each; messages of the same queue pair follow each other. Inside a
// server it is a fluid on NVLink. It panics when a GPU does not exist, when there
// is no way between them, or when Bytes is negative or above 9 PB.
func (n *Network) Send(m fabric.Message, to fabric.Receiver) {
	gpus := topology.GPU(n.graph.GPUs())
	if m.Src >= 0 && m.Dst >= 0 && m.Src < gpus && m.Dst < gpus && n.graph.ServerOf(m.Src) == n.graph.ServerOf(m.Dst) {
		n.sendInside(m, to)
		return
	}
	if m.Bytes < 0 || int64(m.Bytes) > math.MaxInt64/1000 {
		panic(fmt.Sprintf("packet: message of %d bytes", int64(m.Bytes)))
	}
	if m.Src >= gpus || m.Dst >= gpus || m.Src < 0 || m.Dst < 0 {
		panic(fmt.Sprintf("packet: message from GPU %d to GPU %d of %d", m.Src, m.Dst, gpus))
	}
	id := n.newJob()
	qps := uint32(max(1, min(int64(m.QPs), int64(m.Bytes))))
	n.jobs[id] = job{
		to: to, tag: m.Tag, posted: n.engine.Now(), post: m.Post, bytes: m.Bytes, milli: 1000 * int64(m.Bytes),
		src: m.Src, dst: m.Dst, qps: qps, parts: int32(qps), coll: -1, class: m.Class, live: true,
	}
	n.jobs[id].wire = n.aloneMessage(&n.jobs[id])
	n.account(&n.jobs[id])
	n.postAfter(m.Post, id)
}

// inside takes in deliveries of messages inside servers, whose tag is their job.
type inside struct{ n *Network }

// sendInside sends a message between GPUs of one server.
func (n *Network) sendInside(m fabric.Message, to fabric.Receiver) {
	id := n.newJob()
	n.jobs[id] = job{to: to, tag: m.Tag, milli: 1000 * int64(m.Bytes), coll: -1, class: m.Class, live: true}
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
	for k := range j.qps {
		part := j.bytes / units.Bytes(j.qps)
		if units.Bytes(k) < j.bytes%units.Bytes(j.qps) {
			part++
		}
		n.fetch(n.queuePair(j.src, j.dst, j.class, k), id, part, now)
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
	d.Wire = min(j.wire, rest)
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
