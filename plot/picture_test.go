package plot

import (
	"bytes"
	"flag"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden picture anew")

// The same input gives the same bytes, whatever was drawn before.
func TestPicturesAreReproducible(t *testing.T) {
	dir := writeSweep(t, filepath.Join(t.TempDir(), "s"), study()...)
	first := map[string][]byte{}
	for _, preset := range []string{"tgs-vs-size", "frontier", "tgs-vs-size"} {
		p, err := Make(Request{Dirs: []string{dir}, Preset: preset})
		require.NoError(t, err)
		for _, name := range []string{"x.svg", "x.png"} {
			data, err := p.Encode(name)
			require.NoError(t, err)
			if first[preset+name] == nil {
				first[preset+name] = data
			}
			require.True(t, bytes.Equal(first[preset+name], data))
		}
	}
}

// A PNG file is as large as a slide, and not empty.
func TestPNG(t *testing.T) {
	p, err := Make(Request{Dirs: []string{writeSweep(t, t.TempDir(), study()...)}, Preset: "batch"})
	require.NoError(t, err)
	data, err := p.Encode("x.PNG")
	require.NoError(t, err)
	image, err := png.Decode(bytes.NewReader(data))
	require.NoError(t, err)
	l := p.figure.layout()
	require.Equal(t, 1440, image.Bounds().Dx())
	require.InDelta(t, float64(l.height)*dpi/72, image.Bounds().Dy(), 1)
	colours := map[[3]uint32]int{}
	for y := range image.Bounds().Dy() {
		for x := range image.Bounds().Dx() {
			r, g, b, _ := image.At(x, y).RGBA()
			colours[[3]uint32{r >> 8, g >> 8, b >> 8}]++
		}
	}
	for _, c := range [][3]uint32{{0, 0x72, 0xb2}, {0xd5, 0x5e, 0}, {0, 0, 0}} { // the series are there
		require.Greater(t, colours[c], 100, "%v", c)
	}
}

// The golden picture, byte for byte. Write it anew with -update, and look at it.
func TestGolden(t *testing.T) {
	const golden = "testdata/tgs-vs-size.svg"
	p, err := Make(Request{Dirs: []string{writeSweep(t, t.TempDir(), study()...)}, Preset: "tgs-vs-size"})
	require.NoError(t, err)
	svg, err := p.Encode(golden)
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(golden, svg, 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), string(svg))
}

// What must be in the golden picture, whatever its bytes: lines and bands in
// their colours, a marker for every point, and every label once.
func TestGoldenShowsTheStudy(t *testing.T) {
	text, err := os.ReadFile("testdata/tgs-vs-size.svg")
	require.NoError(t, err)
	svg := string(text)
	require.Equal(t, 1, strings.Count(svg, "<title>Tokens per GPU per second against cluster size</title>"))
	require.NotContains(t, svg, "Liberation Sans;")
	require.Equal(t, 2, strings.Count(svg, "fill-opacity:0.17255"), "bands; the ideal fabric's values are equal")
	for _, colour := range []string{"#0072B2", "#D55E00"} {
		require.Equal(t, 2, strings.Count(svg, "stroke:"+colour), "the line and its sample")
		require.Equal(t, 4, strings.Count(svg, `style="fill:`+colour+`"`), "the points and their sample")
	}
	// Viewers place these, whose fonts may be wider.
	require.Regexp(t, `text-anchor:middle;[^>]*>GPUs<`, svg)
	require.Regexp(t, `text-anchor:middle;[^>]*>TGS \(tokens/s per GPU\)<`, svg)
	require.Regexp(t, `text-anchor:end;[^>]*>400<`, svg)
	texts := textsOf(t, text)
	for _, want := range []string{"64", "128", "256", "0", "100", "200", "300", "400", "GPUs", "TGS (tokens/s per GPU)", "Network", "dcqcn-ecmp", "spray", "Ideal fabric"} {
		n := len(slices.DeleteFunc(slices.Clone(texts), func(s string) bool { return s != want }))
		require.Equal(t, 1, n, want)
	}
}
