package packet

import (
	"fmt"
	"math"

	"github.com/tgssim/tgssim/congestion"
	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/invariants"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/routing"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/topology"
)

// A Network is the packet engine behind fabric.Network. Everything lives in
// slices and is named by index; in steady state nothing allocates.
type Network struct {
	engine *sim.Engine
	self   sim.HandlerID
	graph  *topology.Graph
	paths  *routing.ECMP
	// local moves what stays inside a server: the flow engine, on NVLink's links
	// only.
	local fabric.Network

	packets    []packet
	telemetry  []record // by packet; nil when switches stamp nothing
	int        *congestion.INT
	intPaths   *intPaths   // nil unless the path follows telemetry
	credits    *credits    // nil unless receivers grant
	conga      *congaPaths // nil unless CONGA chooses
	weaving    *weaving    // nil unless ConWeave does
	promised   []int64     // by LinkID: bytes on their way to it; nil without an oracle
	oracle     pathLoads   // scratch
	tookIn     uint32      // the lane whose DGSQ has taken in more to send, or none
	emitting   uint32      // the packet that chooses its path
	freePacket uint32
	inUse      int

	ports       []port       // by LinkID
	switchPorts []switchPort // by LinkID: its egress
	portIndex   []int32      // by LinkID: the port's place in its switch's buffer
	pauses      []pauseStats // by LinkID
	depths      [][2]depth   // by LinkID: of the KV and the EP queue; nil when they share one
	routes      []uint32     // links, each route ended by endOfRoute
	nics        []nic
	buffers     []*congestion.Buffer // by switch

	senders      []sender
	receivers    []receiver
	keys         []qpKey
	byKey        map[qpKey]uint32 // looked up, never ranged over
	requests     []request
	freeRequests uint32
	gaps         []gap
	freeGaps     uint32
	bitmaps      []uint64
	freeBitmaps  []uint32

	jobs            []job
	freeJobs        []uint32
	collectives     []*collective
	repeated        []repeated // by LinkID; nil until Repeat is used
	held            []sim.Time // by sender: when Repeat has held it last
	writes          []write
	freeWrites      uint32
	insideParts     []fabric.Part // scratch of Send
	descriptors     []descriptor
	freeDescriptors []uint32

	sent, delivered           [fabric.NumClasses]volume
	sentCount, deliveredCount [fabric.NumClasses]int64
	count                     Counters
	acted                     acted

	settings
	firstNIC, firstSwitch topology.NodeID
	scratch               []topology.LinkID
	place                 []int32 // scratch: each link's place in a load, -1 outside
	load                  loadScratch
	sprayDraws            uint64
	faults                faultState
	deadlock              deadlockState
	deadlocked            bool
	notices               []Notice
	untilCheck            int // events, when invariants are enabled
}

// settings is the configuration in the form that the hot path uses.
type settings struct {
	config           Settings
	path             PathConfig
	spraying         bool   // the path is chosen packet by packet
	train            uint32 // MTUs
	mtu, header      uint32
	fullWire         uint32 // a train with its headers
	ackWire          uint32
	ackEvery         uint16
	ackQueueing      bool
	selective        bool
	reorderWindow    uint32
	reorderTolerance uint32
	rto              sim.Time
	window           units.Bytes
	windowBDP        float64
	windowFollows    bool // DCQCN's window shrinks with its rate
	maxRequests      int32
	maxQPs           int
	wqeCost          sim.Time
	drainRate        units.Rate
	nicLatency       sim.Time
	nicLane          sim.Lane
	qos              [numPrios]int
	prioOf           [fabric.NumClasses]uint8
	weights          [2]int64 // KV (or all data), EP; 0, 0 is strict
	ecn              bool
	markOnEnqueue    bool
	markSeed         uint64
	spraySeed        uint64
	leastKmin        units.Bytes
	short            shortage    // of headroom, the worst
	pauseAlone       units.Bytes // the least at which a port is paused when no other uses memory
	cnpPerPort       bool
	pauseResponse    sim.Time
	faulty           bool
	fixedPaths       bool // all paths are laid, and keep their numbers
	paying           bool // NICs need credit
	atLeaves         bool // GSE is done in the leaves
	labelling        bool // packets carry something of label's
	learning         bool // replies say something of paths
	observing        bool // observe wants to know what ports send
	counting         bool // CONGA wants to know what switches take in
	next             func(n *Network, q *sender, qp uint32, p *packet, now sim.Time) int
	stamping         bool // data packets carry the time at which they were sent
}

// Kinds of events, and what their argument is.
const (
	evArrive  uint16 = iota // packet, at the end of a link
	evWake                  // link, whose port may send again
	evReply                 // packet, back at its sender without having queued
	evNotify                // packet, a CNP that was delayed
	evPause                 // link, priority and XOFF or XON
	evPost                  // job, whose posting time is over
	evFetched               // descriptor that the NIC has taken in
	evPart                  // job, a part of which has left the receiving NIC
	evTimeout               // sender
	evFault                 // place in the list of faults
	evRoute                 // reconvergence
	evDrain                 // NIC, whose receive buffer has drained by a packet
	evDeadlock
	evProbe   // place in intPaths.known
	evRequest // packet, a control message of credits; so are the next two
	evReturn
	evCredit
	evGrant  // NIC, whose scheduler may grant
	evExpire // NIC, whose grants may be lost
	evOrder  // lane, whose packets wait for a container

	evWeaveReply  // packet, an answer between leaves
	evWeaveNotice // packet, of a mark
	evWeaveLine   // line of packets that are held
)

// New returns a packet network over g that lives on the engine's clock. The seed
// is the run's; it seeds the switches' hashes where Fabric.ECMPSeed is 0, and all
// draws. It fails when a setting is not valid, or does not fit the fabric, with
// config.Problems whose keys are those of a scenario.
func New(s Settings, engine *sim.Engine, g *topology.Graph, seed uint64) (*Network, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	ecmpSeed := seed
	if s.Fabric.ECMPSeed != 0 {
		ecmpSeed = s.Fabric.ECMPSeed
	}
	n := &Network{
		engine: engine, graph: g, paths: routing.NewECMP(g, ecmpSeed),
		tookIn:     none,
		freePacket: none, freeRequests: none, freeGaps: none, freeWrites: none,
		ports: make([]port, len(g.Links)), switchPorts: make([]switchPort, len(g.Links)), portIndex: make([]int32, len(g.Links)),
		pauses: make([]pauseStats, len(g.Links)),
		byKey:  map[qpKey]uint32{},
		place:  make([]int32, len(g.Links)),
	}
	for i := range n.place {
		n.place[i] = -1
	}
	inside := s.Fabric
	inside.Engine = "flow"
	var err error
	if n.local, err = fabric.New(inside, engine, g, seed); err != nil {
		return nil, nest("network", err)
	}
	n.self = engine.Register(n)
	if s.Packet.Queues.Mode != "shared" {
		n.depths = make([][2]depth, len(g.Links))
	}
	n.apply(s, seed)
	if err := n.layChoice(s); err != nil {
		return nil, err
	}
	if err := n.layPorts(); err != nil {
		return nil, err
	}
	n.layNICs()
	if err := n.layPacers(s.Congestion); err != nil {
		return nil, nest("congestion."+s.Congestion.Algorithm, err)
	}
	if n.weaving != nil {
		n.layLeaves()
	}
	n.labelling = n.stamping || n.telemetry != nil || n.paying
	n.learning = n.intPaths != nil || n.conga != nil
	n.counting = n.conga != nil && n.conga.early
	n.buffers = make([]*congestion.Buffer, len(g.Nodes)-int(n.firstSwitch))
	if err := n.checkMarks(s.Congestion.ECN); err != nil {
		return nil, nest("congestion.ecn", err)
	}
	if err := n.layBuffers(s.Congestion, n.nicRate()); err != nil {
		return nil, nest("congestion.buffer", err)
	}
	if err := n.layFaults(s.Packet); err != nil {
		return nil, err
	}
	n.deadlock.timer = engine.NewTimer(n.self, evDeadlock, 0)
	return n, nil
}

// nest puts the problems of a part of the settings under its key.
func nest(key string, err error) error {
	var ps config.Problems
	ps.Nest(key, err)
	return ps.Err()
}

// validate says what is wrong with s, as config.Problems, or nil.
func (s *Settings) validate() error {
	var ps config.Problems
	ps.Nest("packet", s.Packet.Validate())
	f := s.Fabric
	f.Engine = "flow" // whoever calls New has chosen
	ps.Nest("network", f.Validate())
	ps.Nest("congestion", s.Congestion.Validate())
	if len(ps) == 0 {
		ps.Require((s.Fabric.MTU+s.Fabric.Header)*units.Bytes(s.Packet.Train) <= maxUnit, "packet.train",
			"%d MTUs of %v with headers are more than %v; use a shorter train", s.Packet.Train, s.Fabric.MTU, maxUnit)
		ps.Require(s.Congestion.Algorithm != "gse" || s.Packet.Path.Choice == PathECMP, "packet.path.choice",
			"%s, but containers of gse take all paths; leave it at ecmp", s.Packet.Path.Choice)
		ps.Require(s.Congestion.Algorithm != "gse" || s.Congestion.GSE.Mode == congestion.ModeN2N || s.Congestion.GSE.Spray != congestion.SprayLeastQueue, "congestion.gse.spray",
			"a NIC does not see the queues of its leaf; use %s or %s", congestion.SprayLeastSent, congestion.SprayRoundRobin)
		ps.Require(s.Congestion.Algorithm != "gse" || s.Congestion.GSE.Mode != congestion.ModeN2N || s.Packet.Train == 1, "packet.train",
			"%d MTUs as one, but leaves of gse n2n queue packets; use 1", s.Packet.Train)
		whole := s.Fabric.MTU + s.Fabric.Header + s.Congestion.GSE.HeaderBytes
		ps.Require(s.Congestion.Algorithm != "gse" || s.Congestion.GSE.ContainerBytes >= whole, "congestion.gse.container_bytes",
			"%v is less than a packet of %v on the wire, and packets are not cut; use %v to %v", s.Congestion.GSE.ContainerBytes, whole, whole, 16*units.MiB)
		needs := congestion.NeedsOf(s.Congestion)
		ps.Require(!needs.OnePath || !s.Packet.Path.reorders(), "packet.path.choice",
			"%s sends packets of a flow on several paths, and congestion.algorithm %s needs one; use ecmp, static, flowlet or conga",
			s.Packet.Path.Choice, s.Congestion.Algorithm)
	}
	return ps.Err()
}

// apply works out what the hot path needs.
func (n *Network) apply(s Settings, seed uint64) {
	c, t := s.Packet, s.Packet.Transport
	n.config, n.path = s, c.Path
	n.next = choiceOf(c.Path.Choice).next
	n.spraying = n.next != nil
	n.mtu, n.header = uint32(s.Fabric.MTU), uint32(s.Fabric.Header)
	n.train = uint32(c.Train)
	n.fullWire = (n.mtu + n.header) * n.train
	n.ackWire, n.ackEvery, n.ackQueueing = uint32(t.AckBytes), uint16(t.AckEvery), t.AckQueueing
	n.selective = t.Recovery == RecoverySelective || t.Recovery == RecoveryAuto && c.Path.reorders()
	n.reorderWindow, n.reorderTolerance = uint32(t.ReorderWindow), uint32(t.ReorderTolerance)
	if n.reorderTolerance == 0 {
		n.reorderTolerance = 1
		if n.spraying {
			n.reorderTolerance = n.reorderWindow / 2
		}
	}
	n.rto = t.Timeout
	n.maxRequests, n.maxQPs = math.MaxInt32, math.MaxInt
	if c.NIC.MaxRequests > 0 {
		n.maxRequests = int32(c.NIC.MaxRequests)
	}
	if c.NIC.MaxQPs > 0 {
		n.maxQPs = c.NIC.MaxQPs
	}
	n.wqeCost, n.drainRate = c.NIC.RequestCost, c.NIC.DrainRate
	n.nicLatency = n.graph.NICLatency()
	n.nicLane = n.engine.NewLane(n.nicLatency)
	q := c.Queues
	n.qos = [numPrios]int{q.ControlPriority, q.KVPriority, q.EPPriority}
	n.prioOf = [fabric.NumClasses]uint8{fabric.ClassKV: prioShared, fabric.ClassEP: prioEP}
	switch q.Mode {
	case "shared":
		n.prioOf[fabric.ClassEP] = prioShared
	case "weighted":
		n.weights = [2]int64{int64(q.KVWeight), int64(q.EPWeight)}
	}
	n.markOnEnqueue, n.pauseResponse = c.MarkAt == "enqueue", c.PauseResponse
	streams := sim.Streams{Seed: seed}
	n.markSeed = streams.Stream("packet/ecn").Uint64()
	n.spraySeed = streams.Stream("packet/spray").Uint64()
	n.ecn = true
	switch s.Congestion.Algorithm {
	case "dcqcn":
		n.window = s.Congestion.DCQCN.Window
		n.windowFollows = n.window > 0 && s.Congestion.DCQCN.WindowFollowsRate
		n.cnpPerPort = s.Congestion.DCQCN.CNPScope == congestion.ScopePort
	case "none":
		n.window, n.windowBDP = s.Congestion.None.Window, t.WindowBDP
	}
	n.stamping = congestion.NeedsOf(s.Congestion).RTT
	n.firstNIC, n.firstSwitch = nodesOf(n.graph)
}

// nodesOf is the first NIC and the first switch of a graph, whose nodes are
// numbered kind by kind.
func nodesOf(g *topology.Graph) (nic, sw topology.NodeID) {
	sw = topology.NodeID(len(g.Nodes) - g.Leaves() - g.Spines())
	return sw - topology.NodeID(g.NICs()), sw
}

// layPorts sets up the port of every link outside servers.
func (n *Network) layPorts() error {
	g := n.graph
	for l := range g.Links {
		link := &g.Links[l]
		pt := &n.ports[l]
		*pt = port{wake: sim.Never, rate: link.Rate, fullWire: n.fullWire, nic: g.Nodes[link.From].Kind == topology.KindNIC}
		if k := g.Nodes[link.From].Kind; k == topology.KindGPU || k == topology.KindNVSwitch {
			continue
		}
		if pt.nic {
			pt.owner = uint32(link.From - n.firstNIC)
		} else {
			pt.owner = n.switchOf(link.From)
		}
		pt.fly = link.Delay + g.SwitchLatency(link.To)
		pt.whole = g.Nodes[link.To].Kind == topology.KindNIC
		n.setRate(pt, link.Rate)
	}
	if len(g.Links) >= 1<<29 {
		return fmt.Errorf("%d links are more than the packet engine can name", len(g.Links))
	}
	return nil
}

// setRate gives a port its rate and the lanes that follow from it.
func (n *Network) setRate(pt *port, rate units.Rate) {
	pt.rate = rate
	pt.ser = pt.time(n.fullWire)
	one := pt.time(n.mtu + n.header)
	pt.oneIn, pt.oneDone = n.engine.NewLane(one+pt.fly), n.engine.NewLane(one)
	first := one
	if pt.whole {
		first = pt.ser
	}
	pt.arriveIn = n.engine.NewLane(first + pt.fly)
	pt.doneIn = n.engine.NewLane(pt.ser)
}

// layNICs sets up the NICs.
func (n *Network) layNICs() {
	n.nics = make([]nic, n.graph.NICs())
	for i := range n.nics {
		nc := &n.nics[i]
		nc.waiting = emptyRing
		for p := range nc.ring {
			nc.ring[p] = emptyRing
		}
		if out := n.graph.Out(n.firstNIC + topology.NodeID(i)); len(out) > 0 {
			nc.port = uint32(out[0])
		}
	}
}

// nicRate is the highest rate of a NIC.
func (n *Network) nicRate() units.Rate {
	rate := units.Rate(1)
	for i := range n.nics {
		rate = max(rate, n.ports[n.nics[i].port].rate)
	}
	return rate
}

// Handle executes an event of the network.
func (n *Network) Handle(e sim.Event) {
	if invariants.Enabled {
		n.checkNow()
	}
	switch e.Kind {
	case evArrive:
		n.arrive(e.Arg, e.At)
	case evWake:
		n.woken(e.Arg, e.At)
	case evReply:
		n.reply(e.Arg, e.At)
	case evNotify:
		p := &n.packets[e.Arg]
		n.sendBack(&n.receivers[p.qp], e.Arg, p, e.At)
	case evPause:
		n.heedPause(e.Arg, e.At)
	case evPost:
		n.posted(e.Arg, e.At)
	case evFetched:
		n.fetched(e.Arg, e.At)
	case evPart:
		n.partDone(e.Arg, e.At)
	case evTimeout:
		n.timeout(e.Arg, e.At)
	case evGrant:
		n.grant(e.Arg, e.At)
	case evCredit:
		n.credited(e.Arg, e.At)
	case evRequest:
		n.requested(e.Arg, e.At)
	default:
		n.handleRare(e)
	}
}

func (n *Network) handleRare(e sim.Event) {
	switch e.Kind {
	case evFault:
		n.strike(e.Arg, e.At)
	case evRoute:
		n.reconverge(e.At)
	case evDrain:
		n.drained(e.Arg, e.At)
	case evDeadlock:
		n.checkDeadlock(e.At)
	case evProbe:
		n.probe(e.Arg, e.At)
	case evReturn:
		n.returned(e.Arg, e.At)
	case evExpire:
		n.expire(e.Arg, e.At)
	case evOrder:
		n.skipContainer(e.Arg, e.At)
	case evWeaveReply:
		n.weaveReply(e.Arg, e.At)
	case evWeaveNotice:
		n.weaveNotice(e.Arg, e.At)
	case evWeaveLine:
		n.lineDue(e.Arg, e.At)
	}
}
