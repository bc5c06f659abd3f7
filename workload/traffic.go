package workload

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// A Flow is one transfer of pure network traffic, without requests.
type Flow struct {
	// Src and Dst are endpoints, counted from 0.
	Src, Dst int
	Bytes    units.Bytes
	Start    sim.Time
}

// The traffic patterns.
const (
	// PatternIncast has Hosts endpoints from First on send to endpoint Target.
	PatternIncast = "incast"
	// PatternPermutation has each of Hosts endpoints send to another, each of
	// which receives from one; no flow stays within Group endpoints.
	PatternPermutation = "permutation"
	// PatternAllToAll has each of Hosts endpoints send to every other.
	PatternAllToAll = "all_to_all"
	// PatternPoisson has flows begin at the instants of a Poisson process, each
	// from one of Hosts endpoints to another, all alike, with a size that is drawn.
	PatternPoisson = "poisson"
	// PatternFile reads the flows from Path.
	PatternFile = "file"
)

var patterns = []string{PatternIncast, PatternPermutation, PatternAllToAll, PatternPoisson, PatternFile}

// MaxFlows bounds the number of flows of a pattern or a file.
const MaxFlows = 1 << 24

// TrafficConfig describes pure network traffic. Keys that the pattern does not
// use are refused unless 0.
type TrafficConfig struct {
	// Pattern is incast, permutation, all_to_all, poisson or file.
	Pattern string `yaml:"pattern"`
	// Hosts is the number of endpoints that send; 0 takes all there are.
	Hosts int `yaml:"hosts"`
	// First is the first endpoint that sends.
	First int `yaml:"first"`
	// Target is the endpoint that receives. incast.
	Target int `yaml:"target"`
	// Group is the size of the groups, such as the endpoints of a leaf, within
	// which no flow of a permutation stays; 0 allows any but to oneself.
	Group int `yaml:"group"`
	// Bytes is the payload of every flow.
	Bytes units.Bytes `yaml:"bytes"`
	// Sizes is the distribution of the flows' sizes: a published one by name, or file,
	// which takes it from Path. poisson.
	Sizes string `yaml:"sizes"`
	// Load is the part of an endpoint's rate that it sends on average, payload.
	// Uplinks that are oversubscribed are loaded in proportion. poisson.
	Load float64 `yaml:"load"`
	// Duration is how long flows begin. poisson.
	Duration sim.Time `yaml:"duration"`
	// Warmup is until when flows that begin fill the fabric only and do not count.
	// poisson.
	Warmup sim.Time `yaml:"warmup"`
	// Path is a CSV file of source,destination,bytes and optionally start (a time
	// with its unit), with or without a header; or with pattern
	// poisson and sizes file, one of a distribution.
	Path string `yaml:"path"`
}

// Validate returns what is wrong as config.Problems, or nil.
func (c TrafficConfig) Validate() error {
	var ps config.Problems
	if !oneOf(&ps, "pattern", c.Pattern, patterns) {
		return ps.Err()
	}
	uses := map[string][]string{
		PatternIncast:      {"hosts", "first", "target", "bytes"},
		PatternPermutation: {"hosts", "first", "group", "bytes"},
		PatternAllToAll:    {"hosts", "first", "bytes"},
		PatternPoisson:     {"hosts", "first", "sizes", "load", "duration", "warmup"},
		PatternFile:        {"path"},
	}[c.Pattern]
	if c.Sizes == SizesFile {
		uses = append(uses, "path")
	}
	unused(&ps, "pattern", c.Pattern, uses, []setting{
		{"hosts", c.Hosts != 0}, {"first", c.First != 0}, {"target", c.Target != 0},
		{"group", c.Group != 0}, {"bytes", c.Bytes != 0}, {"path", c.Path != ""},
		{"sizes", c.Sizes != ""}, {"load", c.Load != 0}, {"duration", c.Duration != 0}, {"warmup", c.Warmup != 0},
	})
	if c.Pattern == PatternFile {
		ps.Require(c.Path != "", "path", "missing; name the file of flows")
		return ps.Err()
	}
	inRange(&ps, "hosts", c.Hosts, 0, maxRequests)
	inRange(&ps, "first", c.First, 0, maxRequests)
	inRange(&ps, "target", c.Target, 0, maxRequests)
	inRange(&ps, "group", c.Group, 0, maxRequests)
	if c.Pattern == PatternPoisson {
		c.validatePoisson(&ps)
		return ps.Err()
	}
	ps.Require(c.Bytes >= 1 && c.Bytes <= units.TB, "bytes", "%v; must be 1B to 1TB", c.Bytes)
	return ps.Err()
}

func (c TrafficConfig) validatePoisson(ps *config.Problems) {
	if oneOf(ps, "sizes", c.Sizes, SizeNames()) && c.Sizes == SizesFile {
		ps.Require(c.Path != "", "path", "missing; name the file of the distribution")
	}
	inSpan(ps, "load", c.Load, 0.001, 1)
	ps.Require(c.Duration >= sim.Microsecond && c.Duration <= 1000*sim.Second, "duration", "%v; must be 1us to 1000s", c.Duration)
	ps.Require(c.Warmup >= 0 && (c.Warmup < c.Duration || c.Duration == 0), "warmup", "%v; must be less than the duration of %v", c.Warmup, c.Duration)
}

// Flows lays the traffic out over a number of endpoints of a rate each, in order
// of start. The permutation is drawn from the stream "traffic/permutation", Poisson
// traffic from "traffic/arrivals", "traffic/pairs" and "traffic/sizes". The error
// is a config.Problems with keys relative to c, or with the line of the file.
func (c TrafficConfig) Flows(endpoints int, rate units.Rate, streams sim.Streams) ([]Flow, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Pattern == PatternFile {
		return c.readFile(endpoints)
	}
	hosts := c.Hosts
	if hosts == 0 {
		hosts = endpoints - c.First
	}
	var ps config.Problems
	ps.Require(c.First < endpoints, "first", "%d; the cluster has the endpoints 0 to %d", c.First, endpoints-1)
	ps.Require(hosts >= 1 && hosts <= endpoints-c.First, "hosts",
		"%d; the cluster has %d endpoints from %d on", hosts, endpoints-c.First, c.First)
	ps.Require(c.Target < endpoints, "target", "%d; the cluster has the endpoints 0 to %d", c.Target, endpoints-1)
	if err := ps.Err(); err != nil {
		return nil, err
	}
	switch c.Pattern {
	case PatternIncast:
		return c.incast(hosts), nil
	case PatternPermutation:
		return c.permutation(hosts, streams.Stream("traffic/permutation"))
	case PatternPoisson:
		return c.poisson(hosts, rate, streams)
	default:
		return c.allToAll(hosts)
	}
}

func (c TrafficConfig) incast(hosts int) []Flow {
	flows := make([]Flow, 0, hosts)
	for s := c.First; s < c.First+hosts; s++ {
		if s != c.Target {
			flows = append(flows, Flow{Src: s, Dst: c.Target, Bytes: c.Bytes})
		}
	}
	return flows
}

// allToAll staggers the destinations, so that no endpoint is everyone's first.
func (c TrafficConfig) allToAll(hosts int) ([]Flow, error) {
	if hosts*(hosts-1) > MaxFlows {
		var ps config.Problems
		ps.Addf("hosts", "%d endpoints make %d flows; at most %d", hosts, hosts*(hosts-1), MaxFlows)
		return nil, ps
	}
	flows := make([]Flow, 0, hosts*(hosts-1))
	for step := 1; step < hosts; step++ {
		for s := range hosts {
			flows = append(flows, Flow{Src: c.First + s, Dst: c.First + (s+step)%hosts, Bytes: c.Bytes})
		}
	}
	return flows, nil
}

// permutation draws a random one and mends the pairs that stay in a group by
// exchanging destinations, which leaves every valid permutation possible.
func (c TrafficConfig) permutation(hosts int, rng *rand.Rand) ([]Flow, error) {
	group := max(c.Group, 1)
	if hosts < 2*group { // the endpoints of one group need as many others to send to
		var ps config.Problems
		ps.Addf("group", "%d; no permutation of %d endpoints leaves groups so large; at most %d", group, hosts, hosts/2)
		return nil, ps
	}
	to := rng.Perm(hosts)
	stays := func(s, d int) bool { return s/group == d/group }
	for s := range to {
		for stays(s, to[s]) {
			o := rng.IntN(hosts)
			if !stays(s, to[o]) && !stays(o, to[s]) {
				to[s], to[o] = to[o], to[s]
			}
		}
	}
	flows := make([]Flow, hosts)
	for s, d := range to {
		flows[s] = Flow{Src: c.First + s, Dst: c.First + d, Bytes: c.Bytes}
	}
	return flows, nil
}

// poisson draws flows until the duration is over. Independent processes of equal
// rate at every host are one process whose sources are drawn.
func (c TrafficConfig) poisson(hosts int, rate units.Rate, streams sim.Streams) ([]Flow, error) {
	var ps config.Problems
	if hosts < 2 {
		ps.Addf("hosts", "%d; it takes two to send and receive", hosts)
		return nil, ps
	}
	sizes := NamedSizes(c.Sizes)
	if c.Sizes == SizesFile {
		var err error
		if sizes, err = c.readSizes(); err != nil {
			return nil, err
		}
	}
	perSecond := float64(hosts) * c.Load * float64(rate) / 8 / sizes.Mean()
	if expected := perSecond * c.Duration.Seconds(); !(expected <= MaxFlows) {
		ps.Addf("duration", "about %.3g flows begin in %v; at most %d, which take %v",
			expected, c.Duration, MaxFlows, sim.FromSeconds(MaxFlows/perSecond))
		return nil, ps
	}
	var flows []Flow
	arrivals := poisson{r: streams.Stream("traffic/arrivals"), rate: perSecond}
	pairs, lengths := streams.Stream("traffic/pairs"), streams.Stream("traffic/sizes")
	for at := arrivals.next(); at < c.Duration; at = arrivals.next() {
		src, dst := pairs.IntN(hosts), pairs.IntN(hosts-1)
		if dst >= src {
			dst++
		}
		flows = append(flows, Flow{Src: c.First + src, Dst: c.First + dst, Bytes: sizes.Draw(lengths), Start: at})
	}
	if len(flows) == 0 {
		ps.Addf("duration", "%v; no flow begins in it, as about %.3g do in a second; use a longer one", c.Duration, perSecond)
		return nil, ps
	}
	return flows, nil
}

func (c TrafficConfig) readSizes() (Sizes, error) {
	f, err := c.open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadSizes(f, c.Path)
}

func (c TrafficConfig) readFile(endpoints int) ([]Flow, error) {
	f, err := c.open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadFlows(f, c.Path, endpoints)
}

// open opens the file at Path.
func (c TrafficConfig) open() (*os.File, error) {
	f, err := os.Open(c.Path)
	if err != nil {
		var cause *fs.PathError
		if errors.As(err, &cause) {
			err = cause.Err
		}
		return nil, config.Problems{{Key: "path", Message: fmt.Sprintf("cannot read %s: %v", c.Path, err)}}
	}
	return f, nil
}

// ReadFlows reads a list of flows over a number of endpoints: CSV lines of
// source,destination,bytes and optionally start, blank lines and lines that begin
// with # ignored. Bytes may have a unit; a start needs one. A header may name the
// columns, in any order; with one, start_ps is a start in picoseconds, and the
// results in what `tgssim net --flows` writes are passed over, so that its flows
// can be sent again.
//
// The flows come back in order of start, ties in the order of the file. Whatever
// is wrong comes back as config.Problems with the file and line.
func ReadFlows(r io.Reader, name string, endpoints int) ([]Flow, error) {
	var flows []Flow
	lines, columns := newLines(r), flowColumns{}
	for {
		line, f := lines.next()
		if f == nil && line == nil {
			break
		}
		if line = bytes.TrimSpace(line); f == nil && line[0] != '#' {
			switch {
			case columns.width == 0 && isFlowHeader(line):
				columns, f = newFlowColumns(line)
			default:
				if columns.width == 0 {
					columns = plainColumns
				}
				var flow Flow
				if flow, f = columns.flow(line, endpoints); f == nil {
					if flows = append(flows, flow); len(flows) > MaxFlows {
						f = faultf("", "more than %d flows", MaxFlows)
					}
				}
			}
		}
		if f != nil {
			return nil, config.Problems{{Key: f.column, Message: f.message, Where: name + ":" + strconv.Itoa(lines.number)}}
		}
	}
	if len(flows) == 0 {
		return nil, config.Problems{{Message: "holds no flows; write source,destination,bytes", Where: name}}
	}
	slices.SortStableFunc(flows, func(a, b Flow) int { return cmp.Compare(a.Start, b.Start) })
	return flows, nil
}
