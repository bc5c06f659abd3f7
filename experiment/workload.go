package experiment

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/scenarios"
	"github.com/tgssim/tgssim/workload"
)

// Traces keeps the traces that it has read, so that many simulations of the same
// ones read each once. Goroutines may share it. The zero value is ready to use
// and keeps the one trace that was asked for last; traces that simulations still
// replay live on with them.
type Traces struct {
	// Limit is the number of traces kept; 0 is 1.
	Limit int

	mu   sync.Mutex
	kept []*readTrace // the last one asked for last
}

// A readTrace is one trace, once read.
type readTrace struct {
	config workload.TraceConfig // its speed aside
	once   sync.Once
	trace  *workload.Trace
	input  Input
	err    error
}

// get returns the trace that cfg names, reading it if nobody has.
func (t *Traces) get(cfg workload.TraceConfig) *readTrace {
	cfg.Speedup = 0 // of the replay, not of the reading
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, r := range t.kept {
		if r.config == cfg {
			t.kept = append(append(t.kept[:i:i], t.kept[i+1:]...), r)
			return r
		}
	}
	r := &readTrace{config: cfg}
	t.kept = append(t.kept, r)
	if over := len(t.kept) - max(t.Limit, 1); over > 0 {
		t.kept = append([]*readTrace(nil), t.kept[over:]...)
	}
	return r
}

// read reads and hashes the file, once. Keys of problems are relative to the
// workload.
func (r *readTrace) read() (*workload.Trace, Input, error) {
	r.once.Do(func() { r.trace, r.input, r.err = readFile(r.config) })
	return r.trace, r.input, r.err
}

func readFile(cfg workload.TraceConfig) (*workload.Trace, Input, error) {
	in := Input{Path: cfg.Path}
	refuse := func(format string, args ...any) (*workload.Trace, Input, error) {
		return nil, in, config.Problems{{Key: "trace.path", Message: fmt.Sprintf(format, args...)}}
	}
	if info, err := os.Stat(cfg.Path); err == nil && !info.Mode().IsRegular() {
		return refuse("%s is not a regular file", cfg.Path)
	}
	f, err := os.Open(cfg.Path)
	if err != nil {
		_, err := workload.Load(workload.Config{Trace: &workload.TraceConfig{
			Path: cfg.Path, Format: cfg.Format, Speedup: 1, ZeroLengths: cfg.ZeroLengths,
		}})
		return nil, in, err // it says why better
	}
	defer f.Close()
	h := sha256.New()
	size := counter(0)
	seen := io.TeeReader(f, io.MultiWriter(h, &size))
	trace, err := workload.ReadTrace(seen, cfg.Path, cfg)
	if err != nil {
		return nil, in, err
	}
	// A reading that stops early leaves the rest for the hash.
	if _, err := io.Copy(io.Discard, seen); err != nil {
		return refuse("cannot read %s: %v", cfg.Path, err)
	}
	in.Bytes = int64(size)
	h.Sum(in.SHA256[:0])
	return trace, in, nil
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// loadWorkload makes the requests of a scenario ready. Keys of problems are
// relative to the workload.
func loadWorkload(s *scenarios.Scenario, traces *Traces) (*workload.Generator, []Input, error) {
	cfg := s.Workload
	if cfg.Trace == nil {
		g, err := workload.Load(cfg)
		return g, nil, err
	}
	trace, in, err := traces.get(*cfg.Trace).read()
	if err != nil {
		return nil, nil, err
	}
	g, err := trace.Replay(cfg)
	return g, []Input{in}, err
}
