package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/metrics"
	"github.com/tgssim/tgssim/sim"
)

// summaryKeys are the JSON keys of a summary, by its struct tags.
func summaryKeys(t reflect.Type) []string {
	var keys []string
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			keys = append(keys, summaryKeys(f.Type.Elem())...)
			continue
		}
		keys = append(keys, strings.Split(f.Tag.Get("json"), ",")[0])
	}
	return keys
}

// Every key of summary.json and every column of every CSV file is explained in
// docs/metrics.md.
func TestDocsNameEverything(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "metrics.md"))
	require.NoError(t, err)
	documented := map[string]bool{}
	for i, s := range strings.Split(string(text), "`") {
		if i%2 == 1 {
			documented[s] = true
		}
	}
	keys := summaryKeys(reflect.TypeFor[metrics.Summary]())
	require.Greater(t, len(keys), 100)
	var flat map[string]any
	full := metrics.Summary{
		TTFTShares: &metrics.TTFTShares{}, TTFTTailShares: &metrics.TTFTTailShares{},
		GPUTimePrefill: &metrics.GPUTimePrefill{}, GPUTimeDecode: &metrics.GPUTimeDecode{},
		CommSharesPrefill: &metrics.CommSharesPrefill{}, CommSharesDecode: &metrics.CommSharesDecode{},
		AllToAllPrefill: &metrics.AllToAllPrefill{}, AllToAllDecode: &metrics.AllToAllDecode{},
		ExpertLoadPrefill: &metrics.ExpertLoadPrefill{}, ExpertLoadDecode: &metrics.ExpertLoadDecode{},
		Ports: &metrics.Ports{},
	}
	j, err := json.Marshal(full)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(j, &flat))
	require.Len(t, flat, len(keys), "no key twice")
	for file, names := range map[string][]string{
		SummaryFile:  keys,
		RequestsFile: names(requestColumns()),
		FlowsFile:    names(flowColumns()),
		LinksFile:    names(linkColumns()),
		SeriesFile:   names(seriesColumns()),
		StepsFile:    names(stepColumns()),
	} {
		require.True(t, documented[file], file)
		for _, n := range names {
			require.True(t, documented[n], "%s: %s is not in docs/metrics.md", file, n)
		}
	}
	for _, field := range []reflect.Type{reflect.TypeFor[Manifest](), reflect.TypeFor[ManifestEntry](), reflect.TypeFor[timingJSON]()} {
		for _, n := range summaryKeys(field) {
			require.True(t, documented[n], "%v: %s is not in docs/metrics.md", field, n)
		}
	}
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.5: "0.5", 0.02537: "0.0254", 0.0000123: "1.23e-05", 1: "1.000", 9.9996: "10.00", 25.366: "25.37",
		99.996: "100.0", 298.66: "298.7", 999.96: "1,000", 1049.4: "1,049", 9999.6: "10,000", 1234567: "1,234,567",
		-12345: "-12,345",
	} {
		require.Equal(t, want, digits(v))
	}
	require.Equal(t, "-", figure(nil))
}

func TestExactTimes(t *testing.T) {
	for _, c := range []struct {
		t      int64
		digits int
		want   string
	}{
		{0, 12, "0"}, {1, 12, "0.000000000001"}, {1_500_000_000_000, 12, "1.5"}, {-1, 9, "-0.000000001"},
		{123_456_789_012, 9, "123.456789012"}, {7, 0, "7"},
	} {
		require.Equal(t, c.want, string(appendScaled(nil, sim.Time(c.t), c.digits)))
	}
	require.Empty(t, appendScaled(nil, sim.Never, 12))
}

func TestWrap(t *testing.T) {
	require.Equal(t, "one two\nthree", wrap("one two three", 8))
	require.Equal(t, "busy\n10.3 %", wrap("busy 10.3 %", 10), "a percent sign stays with its number")
	require.Equal(t, "a\nvery-long-word\nb", wrap("a very-long-word b", 5))
	require.Empty(t, wrap("", 10))
}
