package congestion

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// settings is what the settings of a story of a machine may say.
type settings struct {
	Line   units.Rate   `yaml:"line"`
	RTT    sim.Time     `yaml:"rtt"`
	Hops   int          `yaml:"hops"`
	MTU    units.Bytes  `yaml:"mtu"`
	INT    INTConfig    `yaml:"int"`
	HPCC   HPCCConfig   `yaml:"hpcc"`
	Swift  SwiftConfig  `yaml:"swift"`
	Timely TimelyConfig `yaml:"timely"`
	Credit CreditConfig `yaml:"credit"`
	GSE    GSEConfig    `yaml:"gse"`
	// Uplinks is the number of paths to spray over.
	Uplinks int `yaml:"uplinks"`
}

// machines is the table of the machines that stories in the directories of
// testdata drive.
var machines = []struct {
	name string
	make func(t *testing.T, s settings) machine
}{
	{"hpcc", newHPCCStory},
	{"int", newINTStory},
	{"swift", newSwiftStory},
	{"timely", newTimelyStory},
	{"scheduler", newSchedulerStory},
	{"credits", newCreditsStory},
	{"dgsq", newDGSQStory},
	{"uplinks", newUplinksStory},
	{"sequencer", newSequencerStory},
}

type machine interface {
	step(t *testing.T, words []string) given
}

// TestMachines runs the stories in the directories of testdata, which are of the
// form that TestStories explains.
func TestMachines(t *testing.T) {
	paths, err := filepath.Glob("testdata/*/*.story")
	require.NoError(t, err)
	told := map[string]bool{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, s := range parseStories(t, string(data)) {
			told[s.machine] = true
			t.Run(strings.TrimSuffix(filepath.Base(path), ".story")+"/"+s.title, func(t *testing.T) { s.drive(t) })
		}
	}
	for _, m := range machines {
		require.True(t, told[m.name], "no story drives %s", m.name)
	}
}

func (s story) drive(t *testing.T) {
	at := slices.IndexFunc(machines, func(m struct {
		name string
		make func(t *testing.T, s settings) machine
	}) bool {
		return m.name == s.machine
	})
	require.GreaterOrEqual(t, at, 0, "no machine %q", s.machine)
	h := settings{
		Line: 400 * units.Gbps, RTT: 8 * sim.Microsecond, Hops: 3, MTU: 4096,
		INT: DefaultINT(), HPCC: DefaultHPCC(), Swift: DefaultSwift(), Timely: DefaultTimely(), Credit: DefaultCredit(), GSE: DefaultGSE(), Uplinks: 4,
	}
	if s.settings != "" {
		tree, err := config.Parse("settings", []byte(s.settings))
		require.NoError(t, err)
		require.NoError(t, tree.Decode(&h))
	}
	m := machines[at].make(t, h)
	for _, line := range s.events {
		event, wants, _ := strings.Cut(line, "=>")
		got := m.step(t, strings.Fields(event))
		for _, want := range strings.Fields(wants) {
			name, value, _ := strings.Cut(want, "=")
			v, ok := got[name]
			require.True(t, ok, "%s: nothing is called %s", line, name)
			requireValue(t, v, value, line)
		}
	}
}

// whole reads a whole number.
func whole(t *testing.T, text string) int {
	n, err := strconv.Atoi(text)
	require.NoError(t, err, text)
	return n
}

// An hpccStory drives a flow of HPCC:
//
//	TIME ack ACKED/NEXT [path=N] AT/SENT/QUEUE/RATE ...   one hop each
//	TIME send BYTES
//	look
//
// Every event gives u, window (rounded down), reference (W_c in bytes, a
// number), rate and stage; send also gap.
type hpccStory struct {
	h *HPCC
	f HPCCFlow
}

func newHPCCStory(t *testing.T, s settings) machine {
	h, err := NewHPCC(s.HPCC, s.Line)
	require.NoError(t, err)
	m := &hpccStory{h: h}
	h.Start(&m.f, s.RTT)
	return m
}

func (s *hpccStory) step(t *testing.T, words []string) given {
	g := given{}
	switch {
	case words[0] == "look":
	case words[1] == "send":
		now := parse[sim.Time](t, words[0])
		g["gap"] = s.h.OnSend(&s.f, now, parse[units.Bytes](t, words[2])) - now
	default:
		require.Equal(t, "ack", words[1])
		acked, next, _ := strings.Cut(words[2], "/")
		a := Ack{Acked: uint32(whole(t, acked)), Next: uint32(whole(t, next))}
		for _, w := range words[3:] {
			if n, ok := strings.CutPrefix(w, "path="); ok {
				a.Path = uint32(whole(t, n))
				continue
			}
			a.Hops = append(a.Hops, parseHop(t, w))
		}
		s.h.OnAck(&s.f, a)
	}
	g["u"], g["window"], g["rate"] = s.h.Utilisation(&s.f), s.h.Window(&s.f), s.h.Rate(&s.f)
	g["reference"], g["stage"] = s.f.ref, strconv.Itoa(int(s.f.stage))
	return g
}

// parseHop reads AT/SENT/QUEUE/RATE.
func parseHop(t *testing.T, text string) INTHop {
	f := strings.Split(text, "/")
	require.Len(t, f, 4, text)
	return INTHop{parse[sim.Time](t, f[0]), parse[units.Bytes](t, f[1]), parse[units.Bytes](t, f[2]), parse[units.Rate](t, f[3])}
}

// An intStory asks for the form of telemetry: "size HOPS" gives bytes, "stamp
// AT/SENT/QUEUE/RATE" gives at, sent and queue.
type intStory struct{ i *INT }

func newINTStory(t *testing.T, s settings) machine {
	i, err := NewINT(s.INT, s.Line)
	require.NoError(t, err)
	return intStory{i}
}

func (s intStory) step(t *testing.T, words []string) given {
	if words[0] == "size" {
		return given{"bytes": s.i.Bytes(whole(t, words[1]))}
	}
	require.Equal(t, "stamp", words[0])
	h := s.i.Stamp(parseHop(t, words[1]))
	return given{"at": h.At, "sent": h.Sent, "queue": h.Queue, "rate": h.Rate}
}

// A swiftStory drives a flow of Swift:
//
//	TIME ack BYTES RTT    TIME loss    TIME timeout    TIME send BYTES    look
//
// Every event gives cwnd (a number of packets), target (the delay, a number of
// microseconds), window and rate; send also gap.
type swiftStory struct {
	s *Swift
	f SwiftFlow
}

func newSwiftStory(t *testing.T, s settings) machine {
	w, err := NewSwift(s.Swift, s.Line, s.MTU)
	require.NoError(t, err)
	m := &swiftStory{s: w}
	w.Start(&m.f, s.RTT, s.Hops)
	return m
}

func (s *swiftStory) step(t *testing.T, words []string) given {
	g := given{}
	if words[0] != "look" {
		now := parse[sim.Time](t, words[0])
		switch words[1] {
		case "ack":
			s.s.OnAck(&s.f, now, Ack{Bytes: parse[units.Bytes](t, words[2]), RTT: parse[sim.Time](t, words[3])})
		case "loss":
			s.s.OnLoss(&s.f, now)
		case "timeout":
			s.s.OnTimeout(&s.f, now)
		default:
			require.Equal(t, "send", words[1])
			g["gap"] = s.s.OnSend(&s.f, now, parse[units.Bytes](t, words[2])) - now
		}
	}
	g["cwnd"], g["target"] = s.f.cwnd, s.s.target(&s.f)/float64(sim.Microsecond)
	g["window"], g["rate"] = s.s.Window(&s.f), s.s.Rate(&s.f)
	return g
}

// A timelyStory drives a flow of TIMELY: TIME ack ACKED/NEXT RTT, TIME send BYTES,
// or look. Every event gives rate, gradient and calm; send also gap.
type timelyStory struct {
	c *timelyFlows
	f FlowID
}

func newTimelyStory(t *testing.T, s settings) machine {
	c, err := newTimely(s.Timely, s.Line)
	require.NoError(t, err)
	return timelyStory{c, c.Open(0, Route{RTT: s.RTT, Hops: s.Hops})}
}

func (s timelyStory) step(t *testing.T, words []string) given {
	g := given{}
	if words[0] != "look" {
		now := parse[sim.Time](t, words[0])
		switch words[1] {
		case "ack":
			acked, next, _ := strings.Cut(words[2], "/")
			s.c.OnAck(s.f, now, Ack{Acked: uint32(whole(t, acked)), Next: uint32(whole(t, next)), RTT: parse[sim.Time](t, words[3])})
		default:
			require.Equal(t, "send", words[1])
			g["gap"] = s.c.OnSend(s.f, now, parse[units.Bytes](t, words[2])) - now
		}
	}
	f := &s.c.states[s.f]
	g["rate"], g["gradient"], g["calm"] = f.rate, f.diff/f.base, strconv.Itoa(int(f.calm))
	return g
}

// A schedulerStory drives a credit scheduler:
//
//	open N WEIGHT          request N TOTAL        arrive N BYTES
//	close N                push BYTES             pushed BYTES (gone)
//	grant TIME             expire TIME
//
// with each time set by "at TIME" before it where it matters. N names a source.
// Every event gives outstanding and next; grant also to and total, or to=none;
// expire also lost.
type schedulerStory struct {
	c   *CreditScheduler
	ids map[string]SourceID
	now sim.Time
}

func newSchedulerStory(t *testing.T, s settings) machine {
	c, err := NewCreditScheduler(s.Credit, s.Line, s.RTT, s.MTU)
	require.NoError(t, err)
	return &schedulerStory{c: c, ids: map[string]SourceID{}}
}

func (s *schedulerStory) step(t *testing.T, words []string) given {
	g := given{}
	bytes := func() units.Bytes { return parse[units.Bytes](t, words[len(words)-1]) }
	switch words[0] {
	case "at":
		s.now = parse[sim.Time](t, words[1])
	case "open":
		s.ids[words[1]] = s.c.Open(whole(t, words[2]))
	case "close":
		s.c.Close(s.ids[words[1]])
	case "request":
		s.c.OnRequest(s.ids[words[1]], s.now, bytes())
	case "arrive":
		s.c.OnArrive(s.ids[words[1]], s.now, bytes())
	case "push":
		s.c.OnPush(bytes())
	case "pushed":
		s.c.OnPushGone(bytes())
	case "grant":
		s.now = parse[sim.Time](t, words[1])
		g["to"], g["total"] = "none", units.Bytes(0)
		if id, total, ok := s.c.Grant(s.now); ok {
			for name, i := range s.ids {
				if i == id {
					g["to"] = name
				}
			}
			g["total"] = total
		}
	case "expire":
		s.now = parse[sim.Time](t, words[1])
		g["lost"] = s.c.Expire(s.now)
	default:
		t.Fatalf("no event %q", words[0])
	}
	g["outstanding"], g["next"] = s.c.Outstanding(), s.c.Next(s.now)
	return g
}

// A creditsStory drives the sending side of credits:
//
//	add BYTES    send BYTES    credit TOTAL    cancel BYTES    request    return
//
// send gives sent (yes or no) and scheduled; request gives total, or 0 when there
// is nothing to ask for; return gives bytes. Every event gives backlog and
// credit.
type creditsStory struct {
	s         CreditSender
	threshold units.Bytes
}

func newCreditsStory(t *testing.T, s settings) machine {
	m := &creditsStory{threshold: s.Credit.RequestBytes}
	m.s.Start(s.Credit.PushBytes(s.Line, s.RTT))
	return m
}

func (s *creditsStory) step(t *testing.T, words []string) given {
	g := given{}
	bytes := func() units.Bytes { return parse[units.Bytes](t, words[1]) }
	switch words[0] {
	case "add":
		s.s.Add(bytes())
	case "cancel":
		s.s.Cancel(bytes())
	case "credit":
		s.s.OnCredit(bytes())
	case "send":
		g["sent"], g["scheduled"] = s.s.CanSend(), units.Bytes(0)
		if s.s.CanSend() {
			g["scheduled"] = s.s.OnSend(bytes())
		}
	case "request":
		total, ok := s.s.Request(s.threshold)
		if !ok {
			total = 0
		}
		g["total"] = total
	case "return":
		g["bytes"] = s.s.Return()
	default:
		t.Fatalf("no event %q", words[0])
	}
	g["backlog"], g["credit"] = s.s.Backlog(), s.s.Credit()
	return g
}

// A dgsqStory drives one DGSQ and the uplinks that it sprays over:
//
//	TIME enqueue BYTES    TIME send BYTES    TIME credit TOTAL    down N    up N
//
// enqueue gives verdict (ok or stop); send gives sent and, if so, tag (container,
// index, packets of the container before), path, scheduled and verdict (ok or
// resume).
type dgsqStory struct {
	g *GSE
	q DGSQ
	u *Uplinks
}

func newDGSQStory(t *testing.T, s settings) machine {
	g, err := NewGSE(s.GSE, s.Line, s.RTT)
	require.NoError(t, err)
	m := &dgsqStory{g: g, u: g.NewUplinks(s.Uplinks)}
	g.Start(&m.q, DGSQCursor{})
	return m
}

func (s *dgsqStory) step(t *testing.T, words []string) given {
	g := given{"backlog": s.q.Backlog()}
	switch words[0] {
	case "down", "up":
		s.u.SetDown(whole(t, words[1]), words[0] == "down")
		return g
	}
	now := parse[sim.Time](t, words[0])
	bytes := parse[units.Bytes](t, words[2])
	switch words[1] {
	case "enqueue":
		g["verdict"] = "ok"
		if s.g.Enqueue(&s.q, now, bytes) {
			g["verdict"] = "stop"
		}
	case "credit":
		s.q.OnCredit(bytes)
	case "send":
		g["sent"], g["verdict"] = false, "ok"
		tag, resume, ok := s.g.Send(&s.q, now, bytes, s.u, UplinkView{})
		if ok {
			g["sent"], g["path"] = true, strconv.Itoa(int(tag.Path))
			g["tag"] = fmt.Sprintf("%d.%d/%d", tag.Container, tag.Index, tag.Prev)
			g["scheduled"] = units.Bytes(tag.Scheduled)
		}
		if resume {
			g["verdict"] = "resume"
		}
	default:
		t.Fatalf("no event %q", words[1])
	}
	g["backlog"] = s.q.Backlog()
	return g
}

// An uplinksStory drives the choice of an uplink: "open [LOAD ...]" gives path,
// or none; "close PATH UNUSED"; "down N"; "up N". Every event gives assigned, the
// bytes of all paths.
type uplinksStory struct{ u *Uplinks }

func newUplinksStory(t *testing.T, s settings) machine {
	g, err := NewGSE(s.GSE, s.Line, s.RTT)
	require.NoError(t, err)
	return uplinksStory{g.NewUplinks(s.Uplinks)}
}

func (s uplinksStory) step(t *testing.T, words []string) given {
	g := given{}
	switch words[0] {
	case "open":
		var loads []units.Bytes
		for _, w := range words[1:] {
			loads = append(loads, parse[units.Bytes](t, w))
		}
		g["path"] = "none"
		if p, ok := s.u.Open(UplinkView{Queues: loads}); ok {
			g["path"] = strconv.Itoa(p)
		}
	case "close":
		s.u.Close(whole(t, words[1]), 0, 0, s.u.container-parse[units.Bytes](t, words[2]))
	case "down", "up":
		s.u.SetDown(whole(t, words[1]), words[0] == "down")
	default:
		t.Fatalf("no event %q", words[0])
	}
	var b []string
	for i := range s.u.groups[0].assigned {
		b = append(b, s.u.groups[0].assigned[i].String())
	}
	g["assigned"] = strings.Join(b, ",")
	return g
}

// A sequencerStory drives the restoring of order:
//
//	TIME CONTAINER.INDEX/PREV[@PATH] BYTES    a packet arrives; by path 0 if none is said
//	TIME skip                                 the timeout has come
//
// Both give verdict, the packets that are handed over (out), held, late, lost
// and deadline.
type sequencerStory struct {
	*reorderer
}

func newSequencerStory(t *testing.T, s settings) machine {
	g, err := NewGSE(s.GSE, s.Line, s.RTT)
	require.NoError(t, err)
	return sequencerStory{newReorderer(g)}
}

func (s sequencerStory) step(t *testing.T, words []string) given {
	now := parse[sim.Time](t, words[0])
	s.out = nil
	verdict := "skip"
	if words[1] == "skip" {
		s.skip(now)
	} else {
		var tag GSETag
		packet, path, _ := strings.Cut(words[1]+"@0", "@")
		_, err := fmt.Sscanf(packet+"@"+path, "%d.%d/%d@%d", &tag.Container, &tag.Index, &tag.Prev, &tag.Path)
		require.NoError(t, err, words[1])
		verdict = s.arrive(tag, parse[units.Bytes](t, words[2]), now)
	}
	names := []string{"none"}
	if len(s.out) > 0 {
		names = nil
	}
	for _, p := range s.out {
		names = append(names, fmt.Sprintf("%d.%d", p.Container, p.Index))
	}
	return given{
		"verdict": verdict, "out": strings.Join(names, ","), "held": s.s.Held(), "deadline": s.s.Deadline(),
		"late": strconv.Itoa(int(s.s.Late)), "lost": strconv.Itoa(int(s.s.Lost)), "skipped": strconv.Itoa(int(s.s.Skipped)),
	}
}
