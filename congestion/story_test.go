package congestion

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// TestStories runs the stories of testdata. A story is
//
//	MACHINE: what it is about
//	settings, in YAML (see header)
//	----
//	event => what it gives
//
// up to an empty line. Lines that start with # say how the expected figures
// follow from the paper; they were worked out by hand, not by the code. The
// machines and their events are in the methods below. What an event gives is a
// list of name=value; what is not named is not looked at.
func TestStories(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.story")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, s := range parseStories(t, string(data)) {
			for _, touched := range []bool{false, true} {
				name := fmt.Sprintf("%s/%s", strings.TrimSuffix(filepath.Base(path), ".story"), s.title)
				if touched {
					name += " (touched at every deadline)"
				}
				t.Run(name, func(t *testing.T) { s.run(t, touched) })
			}
		}
	}
}

type story struct {
	machine, title, settings string
	events                   []string
}

func parseStories(t *testing.T, text string) []story {
	var stories []story
	for _, block := range strings.Split(strings.TrimSpace(text), "\n\n") {
		var lines []string
		for _, l := range strings.Split(block, "\n") {
			if !strings.HasPrefix(l, "#") {
				lines = append(lines, l)
			}
		}
		if len(lines) == 0 {
			continue
		}
		head, body, ok := strings.Cut(strings.Join(lines, "\n"), "\n----\n")
		require.True(t, ok, "a story without ----:\n%s", block)
		title, settings, _ := strings.Cut(head, "\n")
		machine, title, ok := strings.Cut(title, ": ")
		require.True(t, ok, "a story without machine and title:\n%s", block)
		stories = append(stories, story{
			machine: machine, title: title, settings: settings, events: strings.Split(strings.TrimSpace(body), "\n"),
		})
	}
	return stories
}

// header is what the settings of a story may say.
type header struct {
	Line   units.Rate   `yaml:"line"`
	DCQCN  DCQCNConfig  `yaml:"dcqcn"`
	ECN    ECNConfig    `yaml:"ecn"`
	Buffer BufferConfig `yaml:"buffer"`
	// Ports is the number of ports of the buffer, all of rate Line and Delay.
	Ports int         `yaml:"ports"`
	Delay sim.Time    `yaml:"delay"`
	Frame units.Bytes `yaml:"frame"`
}

func (s story) run(t *testing.T, touched bool) {
	h := header{Line: 400 * units.Gbps, DCQCN: DefaultDCQCN(), ECN: DefaultECN(), Buffer: DefaultBuffer(), Ports: 2, Frame: 4178}
	if s.settings != "" {
		tree, err := config.Parse("settings", []byte(s.settings))
		require.NoError(t, err)
		require.NoError(t, tree.Decode(&h))
	}
	var m interface {
		step(t *testing.T, words []string) given
	}
	switch s.machine {
	case "rp", "np":
		d, err := NewDCQCN(h.DCQCN, h.Line)
		require.NoError(t, err)
		if s.machine == "np" {
			m = &npStory{d: d}
		} else {
			m = &rpStory{d: d, touched: touched}
		}
	case "ecn":
		require.NoError(t, h.ECN.Validate())
		m = ecnStory{h.ECN}
	case "buffer":
		ports := make([]Port, h.Ports)
		for i := range ports {
			ports[i] = Port{h.Line, h.Delay}
		}
		b, err := NewBuffer(h.Buffer, h.Line, h.Frame, ports)
		require.NoError(t, err)
		m = &bufferStory{b}
	default:
		t.Fatalf("no machine %q", s.machine)
	}
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

// given is what an event gave: the values that may be named behind it.
type given map[string]any

// requireValue compares a value with its text: times, rates and sizes exactly,
// numbers to 1e-12.
func requireValue(t *testing.T, got any, want, line string) {
	switch got := got.(type) {
	case sim.Time:
		require.Equal(t, parse[sim.Time](t, want).String(), got.String(), "%s", line)
	case units.Rate:
		require.Equal(t, int64(parse[units.Rate](t, want)), int64(got), "%s", line)
	case units.Bytes:
		require.Equal(t, int64(parse[units.Bytes](t, want)), int64(got), "%s", line)
	case float64:
		w := number(t, want)
		require.InDelta(t, w, got, 1e-12*math.Abs(w), "%s", line)
	case bool:
		require.Equal(t, want, map[bool]string{true: "yes", false: "no"}[got], "%s", line)
	case string:
		require.Equal(t, want, got, "%s", line)
	default:
		t.Fatalf("cannot compare a %T", got)
	}
}

// parse reads a quantity with its unit.
func parse[T any, P interface {
	*T
	UnmarshalText([]byte) error
}](t *testing.T, text string) T {
	var v T
	require.NoError(t, P(&v).UnmarshalText([]byte(text)), text)
	return v
}

// number reads a sum of products of fractions and their powers: "1/256",
// "255/256^3", "255/256*1/2+1/256".
func number(t *testing.T, text string) float64 {
	sum := 0.
	for _, term := range strings.Split(text, "+") {
		product := 1.
		for _, factor := range strings.Split(term, "*") {
			base, exp, _ := strings.Cut(factor, "^")
			above, below, fraction := strings.Cut(base, "/")
			v, err := strconv.ParseFloat(above, 64)
			require.NoError(t, err, text)
			if fraction {
				b, err := strconv.ParseFloat(below, 64)
				require.NoError(t, err, text)
				v /= b
			}
			n := 1
			if exp != "" {
				n, err = strconv.Atoi(exp)
				require.NoError(t, err, text)
			}
			product *= math.Pow(v, float64(n))
		}
		sum += product
	}
	return sum
}

// An rpStory drives a reaction point:
//
//	TIME start         begin the flow
//	TIME cnp           a CNP arrives
//	TIME ack marked    an acknowledgement of a marked packet arrives
//	TIME ack           one of another packet
//	TIME send BYTES    a packet, or many together, leaves
//	TIME look          nothing
//
// Every event gives rate, target, alpha, next (deadline), stages (time/byte) and
// window; send also gives gap, the time until the next packet.
type rpStory struct {
	d       *DCQCN
	f       RP
	touched bool
}

func (s *rpStory) step(t *testing.T, words []string) given {
	now := parse[sim.Time](t, words[0])
	if s.touched && words[1] != "start" {
		for at := s.d.NextDeadline(&s.f); at <= now; at = s.d.NextDeadline(&s.f) {
			s.d.Rate(&s.f, at)
		}
	}
	g := given{}
	switch strings.Join(words[1:], " ") {
	case "start":
		s.d.Start(&s.f, now)
	case "cnp":
		s.d.OnCNP(&s.f, now)
	case "ack marked":
		s.d.OnAck(&s.f, now, Ack{Bytes: 4096, Marked: true})
	case "ack":
		s.d.OnAck(&s.f, now, Ack{Bytes: 4096})
	case "look":
	default:
		require.Equal(t, "send", words[1])
		g["gap"] = s.d.OnSend(&s.f, now, parse[units.Bytes](t, words[2])) - now
	}
	g["rate"], g["target"], g["alpha"] = s.d.Rate(&s.f, now), s.d.Target(&s.f, now), s.d.Alpha(&s.f, now)
	g["next"], g["window"] = s.d.NextDeadline(&s.f), s.d.Window(&s.f, now)
	g["stages"] = fmt.Sprintf("%d/%d", s.f.timeStage, s.f.byteStage)
	return g
}

// An npStory drives a notification point: TIME marked gives cnp, when the CNP
// leaves.
type npStory struct {
	d  *DCQCN
	np NP
}

func (s *npStory) step(t *testing.T, words []string) given {
	require.Equal(t, "marked", words[1])
	return given{"cnp": s.d.OnMarked(&s.np, parse[sim.Time](t, words[0]))}
}

// An ecnStory asks for thresholds: RATE QUEUE gives kmin, kmax, pmax and p, the
// probability of a mark; RATE QUEUE U, with 0 <= U < 1, also gives mark.
type ecnStory struct{ c ECNConfig }

func (s ecnStory) step(t *testing.T, words []string) given {
	th := s.c.At(parse[units.Rate](t, words[0]))
	q := parse[units.Bytes](t, words[1])
	g := given{"kmin": th.Kmin, "kmax": th.Kmax, "pmax": th.Pmax, "p": th.Probability(q)}
	if len(words) > 2 {
		g["mark"] = th.Marker().Mark(q, uint32(number(t, words[2])*(1<<32)))
	}
	return g
}

// A bufferStory drives a buffer:
//
//	admit IN>OUT PRIO BYTES [xN]     N packets, all with the same verdict
//	release IN>OUT PRIO BYTES [xN]
//
// Both give the verdict of the last packet (ok, pause, resume, or drop-REASON)
// and of port IN and priority PRIO used, headroom, paused and threshold; of port
// OUT queued; and of the buffer shared, total and pool.
type bufferStory struct{ b *Buffer }

func (s *bufferStory) step(t *testing.T, words []string) given {
	var in, out, prio int
	_, err := fmt.Sscanf(words[1]+" "+words[2], "%d>%d %d", &in, &out, &prio)
	require.NoError(t, err)
	n, times := parse[units.Bytes](t, words[3]), 1
	if len(words) > 4 {
		times, err = strconv.Atoi(strings.TrimPrefix(words[4], "x"))
		require.NoError(t, err)
	}
	verdict := ""
	for i := range times {
		before := verdict
		verdict = "ok"
		switch words[0] {
		case "admit":
			v := s.b.Admit(in, out, prio, n)
			switch {
			case v.Drop != NoDrop:
				verdict = "drop-" + v.Drop.String()
				if v.Pause {
					verdict += "-pause"
				}
			case v.Pause:
				verdict = "pause"
			}
		case "release":
			if s.b.Release(in, out, prio, n) {
				verdict = "resume"
			}
		default:
			t.Fatalf("no event %q", words[0])
		}
		if i > 0 {
			require.Equal(t, before, verdict, "packet %d of %s", i, strings.Join(words, " "))
		}
		s.b.check()
	}
	used, headroom := s.b.GroupUse(in, prio)
	use := s.b.Use()
	return given{
		"verdict": verdict, "used": used, "headroom": headroom, "paused": s.b.Paused(in, prio), "threshold": s.b.Threshold(in),
		"queued": s.b.Queued(out, prio), "shared": use.Shared, "total": use.Total, "pool": use.SharedPool,
	}
}
