package workload

import (
	"bytes"
	"fmt"
	"os"
	"testing"

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

// BenchmarkReadTrace parses a file of a few megabytes, made of copies of the
// sample's rows.
func BenchmarkReadTrace(b *testing.B) {
	for _, c := range samples {
		data, err := os.ReadFile(sample(c.file))
		require.NoError(b, err)
		data = append(bytes.TrimSuffix(data, []byte("\n")), '\n')
		var head []byte
		if formatNamed(c.format).columns != nil {
			end := bytes.IndexByte(data, '\n') + 1
			head, data = data[:end], data[end:]
		}
		data = append(head[:len(head):len(head)], bytes.Repeat(data, 4<<20/len(data))...)
		b.Run(fmt.Sprintf("%s, %s", c.format, c.file), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(data)))
			rows := 0
			for range b.N {
				trace, err := ReadTrace(bytes.NewReader(data), "f", DefaultTraceConfig(""))
				require.NoError(b, err)
				rows += trace.summary.Rows
			}
			b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
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
