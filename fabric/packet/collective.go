package packet

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// A collective is one message per pair of GPUs: between servers a work request
// on each of the first queue pairs of the two in the collective's class, inside a
// server a share of one coflow of the flow engine.
type collective struct {
	net     *Network
	name    string
	job     uint32
	class   fabric.Class
	pairs   []pair
	shares  []perRank
	local   fabric.Collective // nil when nothing stays inside a server
	paths   []topology.LinkID // of the local pairs, two links each
	next    []int64           // units of the next run
	stale   bool
	most    int64
	milli   int64 // of a run
	sending int32 // pairs with something to send
	alone   alone
	repeats int64 // runs booked by Repeat that Network.repeated does not hold yet
}

// A pair is a queue pair between two GPUs, or two GPUs of a server, with what each
// rank contributes to it: the entries of collective.shares up to the next pair's.
type pair struct {
	qp      uint32 // none inside a server
	shareAt int32
	bytes   units.Bytes // of a run
}

// perRank is a payload per unit of one rank, in thousandths of a byte.
type perRank struct {
	rank  int32
	milli int64
}

// NewCollective prepares a recurring collective. Shares with the same source
// and destination are one message on each of their queue pairs. All units are 0 until SetUnits.
func (n *Network) NewCollective(spec fabric.CollectiveSpec) (fabric.Collective, error) {
	// The flow engine checks the whole spec, and keeps only what is local.
	inside := spec
	inside.Shares = nil
	var across []fabric.Share
	total := int64(0)
	gpus := topology.GPU(n.graph.GPUs())
	for _, s := range spec.Shares {
		exist := s.Src >= 0 && s.Dst >= 0 && s.Src < gpus && s.Dst < gpus && s.Milli >= 0 && s.Rank >= 0 && s.Rank < spec.Ranks
		if exist && n.graph.ServerOf(s.Src) != n.graph.ServerOf(s.Dst) {
			across = append(across, s)
		} else {
			inside.Shares = append(inside.Shares, s)
		}
		if exist {
			if s.Milli > math.MaxInt64/2-total {
				return nil, fmt.Errorf("collective %q: its shares add up to more than 4 PB per unit", spec.Name)
			}
			total += s.Milli
		}
	}
	c := &collective{
		net: n, name: spec.Name, class: spec.Class, next: make([]int64, max(0, spec.Ranks)), stale: true,
		most: math.MaxInt64 / 2 / max(1, total),
	}
	if len(inside.Shares) > 0 || len(across) == 0 {
		local, err := n.local.NewCollective(inside)
		if err != nil {
			return nil, err
		}
		c.local = local
	}
	if spec.Class >= fabric.NumClasses {
		return nil, fmt.Errorf("collective %q: class %d does not exist; there are %d", spec.Name, spec.Class, fabric.NumClasses)
	}
	if err := c.layOut(across, inside.Shares, int64(max(1, spec.QPs))); err != nil {
		return nil, fmt.Errorf("collective %q: %w", spec.Name, err)
	}
	c.job = n.newJob()
	n.jobs[c.job] = job{coll: int32(len(n.collectives))}
	n.collectives = append(n.collectives, c)
	return c, nil
}

// layOut sorts the shares into pairs. A source begins with the GPU that follows it
// and goes round, as collectives do, so that not all begin with the same one.
func (c *collective) layOut(across, inside []fabric.Share, qps int64) error {
	n := c.net
	for _, shares := range [][]fabric.Share{across, inside} {
		slices.SortStableFunc(shares, func(a, b fabric.Share) int {
			return cmp.Or(cmp.Compare(a.Src, b.Src), cmp.Compare(n.behind(a), n.behind(b)), cmp.Compare(a.Rank, b.Rank))
		})
		for i := 0; i < len(shares); {
			first, end := shares[i], i
			for end < len(shares) && shares[end].Src == first.Src && shares[end].Dst == first.Dst {
				end++
			}
			switch {
			case n.graph.ServerOf(first.Src) != n.graph.ServerOf(first.Dst):
				for qp := range qps {
					if len(n.somePath(first.Src, first.Dst, uint32(qp)*uint32(fabric.NumClasses)+uint32(c.class))) == 0 {
						return fmt.Errorf("there is no path from gpu%d to gpu%d", first.Src, first.Dst)
					}
					c.addPair(n.queuePair(first.Src, first.Dst, c.class, uint32(qp)), shares[i:end], qp, qps)
				}
			case first.Src != first.Dst:
				up, down := n.graph.NVLinks(first.Src, first.Dst)
				c.paths = append(c.paths, up, down)
				c.addPair(none, shares[i:end], 0, 1)
			default:
				c.paths = append(c.paths, topology.NoLink, topology.NoLink)
				c.addPair(none, shares[i:end], 0, 1)
			}
			i = end
		}
	}
	return nil
}

// behind is how many GPUs after its source a share's destination comes.
func (n *Network) behind(s fabric.Share) int {
	return (int(s.Dst) - int(s.Src) + n.graph.GPUs()) % n.graph.GPUs()
}

// addPair adds the part that queue pair k of qps carries of the shares of two
// GPUs: an equal one, the first ones taking the odd thousandths.
func (c *collective) addPair(qp uint32, shares []fabric.Share, k, qps int64) {
	c.pairs = append(c.pairs, pair{qp: qp, shareAt: int32(len(c.shares))})
	for _, s := range shares {
		milli := s.Milli / qps
		if k < s.Milli%qps {
			milli++
		}
		c.shares = append(c.shares, perRank{int32(s.Rank), milli})
	}
}

// SetUnits gives each rank's number of units for the runs that follow; one
// under way keeps its own. Ranks beyond len(units) get none, and a negative
// number is none. Numbers are limited so that a run is at most 4 PB.
func (c *collective) SetUnits(units []int64) {
	for r := range c.next {
		v := int64(0)
		if r < len(units) {
			v = min(max(0, units[r]), c.most)
		}
		c.stale = c.stale || v != c.next[r]
		c.next[r] = v
	}
	if c.local != nil {
		c.local.SetUnits(c.next)
	}
}

// prepare puts the units of the next run into effect.
func (c *collective) prepare() {
	if c.net.jobs[c.job].live {
		panic(fmt.Sprintf("packet: collective %q started while it runs", c.name))
	}
	if c.stale {
		c.reload()
	}
}

// Latency is that of the next run.
func (c *collective) Latency() sim.Time {
	c.prepare()
	return c.alone.latency
}

// Start begins a run. It panics when one is under way.
func (c *collective) Start(startup sim.Time, tag uint64, to fabric.Receiver) {
	c.prepare()
	n := c.net
	j := &n.jobs[c.job]
	*j = job{
		to: to, tag: tag, posted: n.engine.Now(), post: startup, alone: c.alone, milli: c.milli,
		parts: c.sending, coll: j.coll, class: c.class, live: true,
	}
	n.account(j)
	if c.local != nil {
		j.parts++
		c.local.Start(startup, 0, c)
	}
	if c.sending > 0 {
		n.postAfter(startup, c.job)
	} else if c.local == nil { // nothing to send: the latency of its paths
		n.jobs[c.job].parts = 1
		n.engine.After(startup+c.alone.wire, n.self, evPart, c.job)
	}
}

// Delivered takes in the end of the part of a run that is inside servers.
func (c *collective) Delivered(d fabric.Delivery) {
	c.net.partDone(c.job, d.Arrived)
}

// posted hands the work requests of a run to the NICs.
func (c *collective) posted(job uint32, now sim.Time) {
	n := c.net
	for i := range c.pairs {
		if p := &c.pairs[i]; p.qp != none && p.bytes > 0 {
			n.fetch(p.qp, job, p.bytes, now)
		}
	}
}

// reload computes everything that depends on the units. Bytes are whole: pair by
// pair, the thousandths are carried over, so that the bytes of all pairs add up
// to the whole bytes of the exact sum.
func (c *collective) reload() {
	n := c.net
	c.fold()
	c.stale, c.milli, c.sending = false, 0, 0
	carry, local := int64(0), 0
	for i := range c.pairs {
		end := int32(len(c.shares))
		if i+1 < len(c.pairs) {
			end = c.pairs[i+1].shareAt
		}
		p, milli := &c.pairs[i], int64(0)
		for _, s := range c.shares[p.shareAt:end] {
			milli += s.milli * c.next[s.rank]
		}
		c.milli += milli
		if p.qp == none {
			if path := c.paths[local : local+2]; path[0] != topology.NoLink {
				n.addLoad(path, milli)
			}
			local += 2
			continue
		}
		n.addLoad(n.currentPath(p.qp), milli)
		carry += milli % 1000
		p.bytes = units.Bytes(milli/1000 + carry/1000)
		carry %= 1000
		if p.bytes > 0 {
			c.sending++
		}
	}
	c.alone = n.takeLoad()
}
