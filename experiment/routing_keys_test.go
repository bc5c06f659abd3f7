package experiment

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fewExperts is a model with 32 experts in six layers, of which a token chooses two.
const fewExperts = "model.name=testdata/small-moe.json"

// routingKeys has each key under moe.routing of a pool.
func routingKeys(pool string) (out []change) {
	const zipf = "popularity:_{kind:_zipf,_alpha:_1},_sample_layers:_2"
	add := func(key, value, does, routing, why string) {
		c := change{key: pool + ".moe.routing" + key, value: value, does: does, on: fewExperts, why: why}
		if routing != "" {
			c.on += " " + pool + ".moe.routing={" + routing + "}"
		}
		out = append(out, c)
	}
	if pool == "prefill" { // the few tokens of decode are drawn one by one anyway
		add(".counts", "exact", changes, zipf, "")
	}
	add(".counts", "expected", changes, zipf, "")
	add(".popularity.alpha", "2", changes, zipf, "")
	add(".popularity.kind", "balanced", changes, "popularity:_{kind:_file,_path:_WEIGHTS1},_sample_layers:_2", "")
	out[len(out)-1].does, out[len(out)-1].says = refused, "popularity.path: is only for kind file"
	add(".popularity.alpha", "1.5", changes, zipf, "")
	add(".popularity.path", "WEIGHTS2", changes, "popularity:_{kind:_file,_path:_WEIGHTS1},_sample_layers:_2", "")
	add(".popularity.same_layers", "true", changes, zipf, "")
	add(".choice", "expert", changes, zipf, "")
	add(".group_choice", "random", idle, zipf, "the model has no groups")
	add(".capacity_factor", "1", changes, zipf, "")
	add(".placement.strategy", "striped", changes, zipf, "")
	add(".placement.strategy", "eplb", changes, zipf, "")
	add(".placement.redundant", "16", changes, zipf+",_placement:_{strategy:_eplb}", "")
	add(".placement.forecast_cv", "0.5", changes, zipf+",_placement:_{strategy:_eplb}", "")
	add(".copy_choice", "nearest", changes, zipf+",_placement:_{strategy:_eplb,_redundant:_32}", "")
	const moving = zipf + ",_placement:_{strategy:_eplb,_redundant:_16,_forecast_cv:_1},_rebalance:_{every:_2,_window:_2}"
	add(".rebalance", "{every: 1, window: 1}", changes, moving, "")
	add(".rebalance.every", "3", changes, moving, "")
	add(".rebalance.window", "1", changes, moving, "")
	add(".sample_layers", "3", changes, zipf, "")
	add("", "{sample_layers: 2}", changes, "", "")
	return out
}

// weightFiles replaces WEIGHTS1 and WEIGHTS2 by files of weights for 32 experts.
func weightFiles(t *testing.T, text string) string {
	dir := t.TempDir()
	var names []string
	for n := 1; n <= 2; n++ {
		var b strings.Builder
		b.WriteString("expert,weight\n")
		for e := range 32 {
			fmt.Fprintf(&b, "%d,%d\n", e, 1+(e*n)%7)
		}
		file := filepath.Join(dir, fmt.Sprintf("weights%d.csv", n))
		require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o644))
		names = append(names, fmt.Sprintf("WEIGHTS%d", n), file)
	}
	return strings.NewReplacer(names...).Replace(text)
}
