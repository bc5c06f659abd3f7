package serving

import (
	"github.com/tgssim/tgssim/collective"
	"github.com/tgssim/tgssim/compute"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// A microBatch is what one micro-batch of a step holds, by rank.
type microBatch struct {
	tokens []int64
	times  []compute.LayerTimes
}

// A batch is what a step works on.
type batch struct {
	tokens, output, context int
	micro                   []microBatch
}

// A price is what a step must take. dispatch is the exposed part of it, -1
// where no simple formula says it.
type price struct {
	total, compute, allReduce, dispatch, gpuCompute sim.Time
	comm                                            CommTime
}

// split tells whether a step splits in two.
func (a *audit) split(busiest int) bool {
	return a.cfg.Overlap == OverlapTwoBatch && a.cost.moe > 0 && a.cfg.TP*a.cfg.DP > 1 &&
		busiest >= 2 && busiest >= a.cfg.OverlapMinTokens
}

// prefillBatch lays out the chunks token by token: who is in the step is known,
// and its head takes of the budget first.
func (a *audit) prefillBatch(members [][]*Record) (b batch) {
	type token struct{ request, position int }
	ranks := make([][]token, len(members))
	busiest := 0
	for i, rs := range members {
		for n, r := range rs {
			for a.done[r.ID] < r.PromptTokens && len(ranks[i]) < a.cfg.MaxBatchTokens {
				ranks[i] = append(ranks[i], token{n, a.done[r.ID]})
				a.done[r.ID]++
			}
		}
		b.tokens += len(ranks[i])
		busiest = max(busiest, len(ranks[i]))
	}
	cost, parts := a.cost, 1
	if a.split(busiest) {
		parts = 2
		if a.s.overlap != nil {
			cost = a.s.overlap
		}
	}
	for p := range parts {
		var m microBatch
		for _, tokens := range ranks {
			half := (len(tokens) + 1) / 2
			switch {
			case parts == 2 && p == 0:
				tokens = tokens[:half]
			case parts == 2:
				tokens = tokens[half:]
			}
			var chunks []compute.Chunk
			for n, x := range tokens {
				if n == 0 || x.request != tokens[n-1].request {
					chunks = append(chunks, compute.Chunk{Context: x.position})
				}
				chunks[len(chunks)-1].Tokens++
			}
			m.add(len(tokens), func() compute.LayerTimes { return cost.Prefill(chunks) })
		}
		b.micro = append(b.micro, m)
	}
	return b
}

// decodeBatch gives the first micro-batch the odd request, and each its part of
// the KV: prompts, tokens so far, and the one that each request is given.
func (a *audit) decodeBatch(members [][]*Record) (b batch) {
	busiest := 0
	for _, rs := range members {
		busiest = max(busiest, len(rs))
	}
	query, parts := a.cfg.MTP.QueryTokens, 1
	if busiest > 1 && a.split(busiest*query) {
		parts = 2
	}
	b.micro = make([]microBatch, parts)
	for _, rs := range members {
		kv := 0
		for _, r := range rs {
			kv += r.PromptTokens + a.done[r.ID] + query
			// Drafts are kept one by one, up to a wrong one or the end.
			before := a.done[r.ID]
			a.done[r.ID]++
			for range query - 1 {
				if a.drafts[r.ID].Float64() >= a.cfg.MTP.Acceptance {
					break
				}
				a.done[r.ID] = min(a.done[r.ID]+1, r.OutputTokens)
			}
			b.output += a.done[r.ID] - before
		}
		n, first := len(rs), len(rs)
		b.tokens += n * query
		b.context += kv
		if parts == 2 {
			first = (n + 1) / 2
		}
		firstKV := 0
		if n > 0 {
			firstKV = kv * first / n
		}
		b.micro[0].add(first*query, func() compute.LayerTimes { return a.cost.Decode(first, int64(firstKV), query) })
		if parts == 2 {
			b.micro[1].add((n-first)*query, func() compute.LayerTimes { return a.cost.Decode(n-first, int64(kv-firstKV), query) })
		}
	}
	return b
}

func (m *microBatch) add(tokens int, times func() compute.LayerTimes) {
	m.tokens = append(m.tokens, int64(tokens))
	var t compute.LayerTimes
	if tokens > 0 {
		t = times()
	}
	m.times = append(m.times, t)
}

// A layer is the operations of one MoE layer of one micro-batch.
type layer struct{ in, out, shared, experts, dispatch, combine sim.Time }

// price works out a step from what its micro-batches hold.
func (a *audit) price(b batch) (p price) {
	cfg, gpus := a.cfg, sim.Time(a.cfg.TP*a.cfg.DP)
	dense, moe := sim.Time(a.cost.dense), sim.Time(a.cost.moe)
	mtp := a.s.config.Decode.MTP
	heads, more := sim.Time(1), sim.Time((mtp.QueryTokens-1)*mtp.LayersPerDraft)
	if a.prefill {
		more = min(more, sim.Time(mtp.LayersPerDraft))
	} else {
		heads += sim.Time((mtp.QueryTokens - 1) * min(1, mtp.LayersPerDraft)) // a lookup needs none
	}
	if moe > 0 {
		moe += more
	} else {
		dense += more
	}
	wired := moe > 0 && gpus > 1
	var layers []layer
	for _, m := range b.micro {
		var slow compute.LayerTimes
		var longest sim.Time
		var group, most int64
		for i, t := range m.times {
			all := dense*(t.AttnIn+t.AttnOut+t.DenseMLP) + moe*(t.AttnIn+t.AttnOut+t.Shared) + heads*t.Head
			if all > longest {
				longest, slow = all, t
			}
			p.gpuCompute += sim.Time(cfg.TP) * all
			group += m.tokens[i]
			most = max(most, m.tokens[i])
		}
		reduce := collective.AllReduce(units.Bytes(2*hidden*most), cfg.TP, nvlink, cfg.AllReduceStartup)
		p.allReduce += reduce * (2*dense + moe)
		cost := a.cost
		if a.prefill && len(b.micro) == 2 && a.s.overlap != nil {
			cost = a.s.overlap
		}
		experts, mean := sim.Time(0), sim.Time(0)
		if moe > 0 {
			experts = cost.Experts(a.prefill, group, cfg.MoE.Imbalance)
			mean = cost.Experts(a.prefill, group, 1)
		}
		p.gpuCompute += moe * mean * gpus
		p.compute += longest + moe*experts
		send := sim.Time(0)
		if !a.prefill && len(b.micro) == 2 {
			send = cfg.SendRecv // in AttnIn and in AttnOut
			p.compute += 2 * moe * send
			p.gpuCompute += 2 * moe * send * gpus
		}
		l := layer{slow.AttnIn + send, slow.AttnOut + send + reduce, slow.Shared, experts, 0, 0}
		if wired {
			l.dispatch = a.communicate(&p, moe, false, true, most, len(b.micro))
			if cfg.Overlap == OverlapSingle {
				l.combine = a.combineHalves(&p, moe, most, experts/6)
			} else {
				l.combine = a.communicate(&p, moe, true, true, most, len(b.micro))
			}
		}
		layers = append(layers, l)
	}
	p.total = p.compute + p.allReduce
	switch {
	case !wired:
	case len(layers) == 2:
		var alone sim.Time
		for _, l := range layers {
			alone += moe * (l.in + l.out + l.shared + l.experts)
		}
		schedule := twoBatchDecode
		if a.prefill {
			schedule = twoBatchPrefill
		}
		p.total += schedule(layers[0], layers[1], int(moe)) - alone
		p.dispatch = -1
	default:
		l := layers[0]
		p.dispatch = moe * l.dispatch
		if cfg.Overlap != OverlapNone {
			p.dispatch = moe * max(0, l.dispatch-l.shared)
		}
		p.total += p.dispatch + moe*l.combine
	}
	return p
}

// combineHalves is what a combine in two halves takes beyond the rest of the experts,
// which goes on beside the first.
func (a *audit) combineHalves(p *price, layers sim.Time, most int64, rest sim.Time) sim.Time {
	first := a.communicate(p, layers, true, true, (most+1)/2, 1)
	if most < 2 {
		return max(0, first-rest)
	}
	second := a.communicate(p, layers, true, false, most/2, 1)
	if a.cfg.MoE.Timing != collective.TimingMeasured { // its bytes follow those of the first
		latency := min(a.s.network.ideal(true, most/2)/4, a.cfg.MoE.CombineStartup)
		p.comm.Latency -= layers * latency
		first -= latency
	}
	return max(0, first-rest) + second
}

// communicate is one dispatch or combine, or what goes on with one that has
// started; only what an ideal fabric takes is stretched, and only beside another
// micro-batch.
func (a *audit) communicate(p *price, layers sim.Time, combine, starts bool, most int64, batches int) sim.Time {
	n, startup, measured := &a.s.network, a.cfg.MoE.DispatchStartup, a.cfg.MoE.MeasuredDispatch
	if combine {
		startup, measured = a.cfg.MoE.CombineStartup, a.cfg.MoE.MeasuredCombine
	}
	if !starts {
		startup, measured.Fixed = 0, 0
	}
	if a.cfg.MoE.Timing == collective.TimingMeasured { // of the tokens of one GPU, and nothing else
		bytes := measured.PerToken * sim.Time(most) / sim.Time(a.cfg.TP)
		p.comm.Startup += layers * measured.Fixed
		p.comm.Ports += layers * bytes
		if batches == 2 {
			return sim.Time(float64(measured.Fixed+bytes) * a.cfg.CommStretch)
		}
		return measured.Fixed + bytes
	}
	ideal := n.ideal(combine, most)
	p.comm.Startup += layers * startup
	p.comm.Latency += layers * (ideal / 4)
	p.comm.Ports += layers * (ideal - ideal/4)
	p.comm.Paths += layers * n.paths
	p.comm.Contention += layers * n.contention
	t := startup + ideal + n.paths + n.contention
	if batches == 2 {
		t += sim.Time(float64(startup+ideal) * (a.cfg.CommStretch - 1))
	}
	return t
}

// twoBatchPrefill is the prefill schedule, written out: two in-order streams
// with clocks of their own, c computing and m communicating.
func twoBatchPrefill(b0, b1 layer, layers int) sim.Time {
	var c, m, experts0, combine1 sim.Time
	for i := 0; i <= layers; i++ {
		inside := i < layers
		var attn1, combine0 sim.Time
		if inside {
			c = max(c, combine1) + b1.in + b1.out
			attn1 = c
		}
		if i > 0 { // batch 0 ends the layer before
			m = max(m, experts0) + b0.combine
			combine0 = m
			c += b0.shared
		}
		if !inside {
			break
		}
		m = max(m, attn1) + b1.dispatch
		dispatch1 := m
		c = max(c, combine0) + b0.in + b0.out
		m = max(m, c) + b0.dispatch
		dispatch0 := m
		c = max(c, dispatch1) + b1.experts
		experts1 := c
		c = max(c, dispatch0) + b0.experts
		experts0 = c
		m = max(m, experts1) + b1.combine
		combine1 = m
		c += b1.shared
	}
	return max(c, m)
}

// twoBatchDecode is the decode schedule likewise.
func twoBatchDecode(b0, b1 layer, layers int) sim.Time {
	var c, m, out1, combine0 sim.Time
	for i := 0; i <= layers; i++ {
		inside := i < layers
		if inside {
			c = max(c, combine0) + b0.in
		}
		var combine1 sim.Time
		if i > 0 { // batch 1 ends the layer before
			m = max(m, out1) + b1.dispatch
			c += b1.shared
			c = max(c, m) + b1.experts
			m = max(m, c) + b1.combine
			combine1 = m
		}
		if !inside {
			break
		}
		c += b0.out
		out0 := c
		c = max(c, combine1) + b1.in
		m = max(m, out0) + b0.dispatch
		c += b0.shared
		c = max(c, m) + b0.experts
		m = max(m, c) + b0.combine
		combine0 = m
		c += b1.out
		out1 = c
	}
	return max(c, m)
}
