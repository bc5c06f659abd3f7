package plot

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A fake is a run of a sweep that was never run.
type fake struct {
	point, replication int
	axes               map[string]any
	cluster            map[string]any
	summary            map[string]any
	failure            string
	engine             string // "" is flow
}

// writeSweep writes the folder of a sweep: what pictures read of it.
func writeSweep(t testing.TB, dir string, runs ...fake) string {
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "points"), 0o755))
	manifest := `{"tool":"tgssim","kind":"sweep","format":1,"version":"9.9.9","scenario":"fake","seed":7}`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "manifest.json"), []byte(manifest), 0o644))
	var lines strings.Builder
	for _, f := range runs {
		line := map[string]any{
			"point": f.point, "replication": f.replication, "axes": f.axes, "seed": 7, "cluster": f.cluster, "summary": f.summary, "error": nil,
		}
		if f.failure != "" {
			line["error"], line["summary"] = f.failure, nil
		}
		text, err := json.Marshal(line)
		require.NoError(t, err)
		lines.Write(append(text, '\n'))
		if f.cluster != nil {
			engine := f.engine
			if engine == "" {
				engine = "flow"
			}
			text := fmt.Sprintf("model: {name: deepseek-v3}\ngpu: {name: h800}\ncluster: {link_rate: 400Gbps}\nnetwork: {engine: %s, sample_layers: 2}\npacket: {train: 16}\n"+
				"congestion: {algorithm: dcqcn}\n", engine)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "points", fmt.Sprintf("%05d.yaml", f.point)), []byte(text), 0o644))
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sweep.jsonl"), []byte(lines.String()), 0o644))
	return dir
}

// study is a sweep over sizes and networks, with an ideal one, and three
// replications each: TGS is 400 minus 10 per network, +2, 0 and -2.
func study() (runs []fake) {
	point := 0
	for _, nodes := range []int{8, 16, 32} {
		for i, network := range []string{"dcqcn-ecmp", "spray", "ideal"} {
			for r := range 3 {
				f := fake{
					point: point, replication: r, axes: map[string]any{"cluster.nodes": nodes, "network": network},
					cluster: map[string]any{"nodes": nodes, "gpus": 8 * nodes, "oversubscription": 1, "leaves": nodes},
					summary: map[string]any{"tgs_steady": 400 - 10*i + 2*(1-r), "mean_tpot_ms": 20, "batch_per_decode_gpu": 30 + i, "mean_itl_ms": 21},
				}
				if network == "ideal" {
					f.engine = "ideal"
					f.summary["tgs_steady"] = 420
				}
				runs = append(runs, f)
			}
			point++
		}
	}
	return runs
}

// textsOf parses an SVG file and returns what is written in it.
func textsOf(t testing.TB, svg []byte) (texts []string) {
	d := xml.NewDecoder(strings.NewReader(string(svg)))
	var at []string
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			require.Empty(t, at)
			return texts
		}
		require.NoError(t, err)
		switch x := token.(type) {
		case xml.StartElement:
			at = append(at, x.Name.Local)
			for _, a := range x.Attr {
				require.NotContains(t, a.Value, "NaN")
				require.NotContains(t, a.Value, "Inf")
			}
		case xml.EndElement:
			at = at[:len(at)-1]
		case xml.CharData:
			if len(at) > 0 && (at[len(at)-1] == "text" || at[len(at)-1] == "title") {
				texts = append(texts, string(x))
			}
		}
	}
}

func draws(t testing.TB, r Request) (*figure, []string) {
	p, err := Make(r)
	require.NoError(t, err)
	svg, err := p.Encode("x.svg")
	require.NoError(t, err)
	return p.figure, textsOf(t, svg)
}
