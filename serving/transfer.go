package serving

import (
	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// handOver picks the decode rank of a prefilled request and queues it there for
// KV blocks. Its KV stays in the prefill rank's memory until it has been sent.
func (c *Cluster) handOver(q *request) {
	r := c.decode.route()
	q.DecodeRank = r.number
	r.charge(int64(r.blocks.need(q.PromptTokens + q.OutputTokens)))
	r.waiting.push(q)
	r.admit()
}

// admit reserves blocks for waiting requests, in order, and starts their KV
// transfers. Room for the whole output is reserved at once, so that a running
// request never runs out of memory.
func (r *rank) admit() {
	c := r.instance.pool.c
	for r.waiting.len > 0 && r.blocks.take(r.waiting.head.PromptTokens+r.waiting.head.OutputTokens) {
		q := r.waiting.pop()
		q.spend(PieceDecodeMemory, c.engine.Now())
		r.instance.accountIdle(c.engine.Now())
		r.inbound++
		c.transfer(q, r)
	}
}

// transfer sends a request's KV from its prefill rank to its decode rank: one
// message, with a part for every pair of GPUs that share some of it.
func (c *Cluster) transfer(q *request, to *rank) {
	from := c.prefill.ranks[q.PrefillRank]
	perGPU := c.decode.cost.Memory().KVPerToken * units.Bytes(q.PromptTokens)
	sources := max(1, len(from.gpus)/len(to.gpus)) // per receiving GPU
	blocks := to.blocks.need(q.PromptTokens)
	q.posted = c.engine.Now()
	q.KVBytes = perGPU * units.Bytes(len(to.gpus))
	post := c.opt.Config.KV.PostPerMessage +
		c.opt.Config.KV.PostPerDescriptor*sim.Time(blocks*c.opt.KVPieces)
	c.parts = c.parts[:0]
	for i, dst := range to.gpus {
		for s := range sources {
			c.parts = append(c.parts, fabric.Part{
				Src: from.gpus[(i*len(from.gpus)/len(to.gpus)+s)%len(from.gpus)], Dst: dst,
				Bytes: perGPU/units.Bytes(sources) + units.Bytes(extra(int64(perGPU), sources, s)),
			})
		}
	}
	c.opt.Network.Send(fabric.Message{
		Parts: c.parts,
		Class: fabric.ClassKV,
		QPs:   c.opt.Config.KV.QPs,
		Post:  post,
		Tag:   uint64(q.slot),
	}, (*kvReceiver)(c))
}

// extra is the odd byte that part i of n gets when total does not divide.
func extra(total int64, n, i int) int64 {
	if int64(i) < total%int64(n) {
		return 1
	}
	return 0
}

// kvReceiver is the cluster as the receiver of KV messages.
type kvReceiver Cluster

// Delivered makes a request ready to decode; its KV leaves the prefill rank.
func (k *kvReceiver) Delivered(d fabric.Delivery) {
	c := (*Cluster)(k)
	q := c.live[d.Tag]
	now := c.engine.Now()
	q.TTFT[PieceTransferPost] += d.Post
	q.TTFT[PieceTransferWire] += d.Wire
	q.TTFT[PieceTransferQueue] += d.Queue
	q.mark = now
	q.TransferEnd = now
	from, to := c.prefill.ranks[q.PrefillRank], c.decode.ranks[q.DecodeRank]
	if l := c.opt.Listener.Transfer; l != nil {
		l(&Transfer{
			Request: q.ID, PrefillRank: q.PrefillRank, DecodeRank: q.DecodeRank,
			Bytes: q.KVBytes, Messages: max(1, len(from.gpus)/len(to.gpus)) * len(to.gpus),
			Posted: q.posted, Arrived: now, Post: d.Post, Wire: d.Wire, Queue: d.Queue,
			Paths: d.Wire - d.Ideal,
		})
	}
	from.instance.accountIdle(now)
	from.blocks.give(q.PromptTokens)
	if from.queue.len > 0 {
		from.instance.wake()
	}
	to.instance.accountIdle(now)
	to.inbound--
	to.ready.push(q)
	to.instance.wake()
}
