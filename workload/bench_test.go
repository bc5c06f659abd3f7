package workload

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/sim"
)

// BenchmarkNext makes 100,000 requests per run; allocations are those of the
// set-up.
func BenchmarkNext(b *testing.B) {
	const n = 100_000
	ln := &LengthConfig{Dist: DistLognormal, Mean: 2000, CV: 1}
	zipf := &LengthConfig{Dist: DistZipf, Alpha: 1, Min: 128, Max: 8192}
	poisson := &ArrivalConfig{Process: ProcessPoisson, Rate: 100}
	for _, c := range []struct {
		name string
		cfg  Config
	}{
		{"poisson, lognormal", Config{Arrivals: poisson, Prompt: ln, Output: ln}},
		{"poisson, zipf", Config{Arrivals: poisson, Prompt: zipf, Output: zipf}},
		{"gamma, lognormal", Config{Arrivals: &ArrivalConfig{Process: ProcessGamma, Rate: 100, CV: 2}, Prompt: ln, Output: ln}},
		{"poisson, lognormal, prefix", Config{
			Arrivals: poisson, Prompt: ln, Output: ln,
			Prefix: &PrefixConfig{Groups: 100, Tokens: 1000, Share: 0.5, BlockTokens: 512},
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.cfg.Requests = n
			g, err := Load(c.cfg)
			require.NoError(b, err)
			b.ReportAllocs()
			for i := range b.N {
				s := g.Source(sim.Streams{Seed: uint64(i)})
				for _, ok := s.Next(); ok; _, ok = s.Next() {
				}
			}
			b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds(), "requests/s")
		})
	}
}

// BenchmarkReadTrace parses 50,000 rows of each shape.
func BenchmarkReadTrace(b *testing.B) {
	const n = 50_000
	start := time.Date(2024, 5, 10, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name, head string
		row        func(w *bytes.Buffer, i int)
	}{
		{"azure", azureHead, func(w *bytes.Buffer, i int) {
			at := start.Add(time.Duration(i) * 123_456_700)
			fmt.Fprintf(w, "%s+00:00,%d,%d\n", at.Format("2006-01-02 15:04:05.9999999"), 100+i%7000, 1+i%900)
		}},
		{"burstgpt", "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n", func(w *bytes.Buffer, i int) {
			fmt.Fprintf(w, "%d.0,1722ac82-0a46-4bf0-aa08-89794e7a2b3f,43,GPT-4,%d,%d,0,Conversation log\n", i, 100+i%7000, 1+i%900)
		}},
		{"mooncake, 20 blocks", "", func(w *bytes.Buffer, i int) {
			fmt.Fprintf(w, `{"timestamp": %d, "input_length": 10240, "output_length": %d, "hash_ids": [0`, i*300, 1+i%900)
			for j := 1; j < 20; j++ {
				fmt.Fprintf(w, ", %d", i*19+j)
			}
			w.WriteString("]}\n")
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			data := bytes.NewBufferString(c.head)
			for i := range n {
				c.row(data, i)
			}
			b.ReportAllocs()
			b.SetBytes(int64(data.Len()))
			for b.Loop() {
				_, err := ReadTrace(bytes.NewReader(data.Bytes()), "f", DefaultTraceConfig(""))
				require.NoError(b, err)
			}
			b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// BenchmarkLoadZipf builds the largest table of a zipf.
func BenchmarkLoadZipf(b *testing.B) {
	l := LengthConfig{Dist: DistZipf, Alpha: 1.1, Min: 1, Max: maxZipfSpan}
	b.ReportAllocs()
	for range b.N {
		newLaw(l)
	}
}
