package experts

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/internal/config"
)

func TestReadWeights(t *testing.T) {
	one := [][]float64{{1, 2.5, 0}}
	two := [][]float64{{1, 2}, {300, 0}}
	for text, want := range map[string][][]float64{
		"[1, 2.5, 0]":                                         one,
		"\uFEFF \n[\n1,\n2.5,\n0\n]\n":                        one,
		`{"weights": [1, 2.5, 0]}`:                            one,
		"[[1, 2], [3e2, 0]]":                                  two,
		`{"weights":[[1,2],[300,0.0]]}`:                       two,
		"expert,weight\n0,1\n2,0\n1,2.5\n":                    one,
		"expert, weight\r\n0,1\r\n1,2.5\r\n\r\n2,0":           one,
		"layer,expert,weight\n1,0,300\n0,0,1\n0,1,2\n1,1,0\n": two,
	} {
		w, err := ReadWeights(strings.NewReader(text), "f")
		require.NoError(t, err, "%q", text)
		require.Equal(t, want, w.Layers, "%q", text)
		require.Equal(t, "f", w.Name)
	}
}

func TestReadWeightsSaysWhereAndWhat(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "f:1: the file is empty",
		"\xff":                              "f:1: the file is not text",
		"[1,\n2,\n-3]":                      "f:3: the weight -3 is out of range; a number from 0 to 1e18 is valid",
		"[1, 1e19]":                         "f:1: the weight 1e19 is out of range",
		"[1, 1e999]":                        "f:1: the weight 1e999 is out of range",
		"[\n0, 0]":                          "f:2: all weights of layer 0 are 0",
		"[[1, 2],\n[3]]":                    "f:2: layer 1 has 1 experts; layer 0 has 2",
		"[[1], 2]":                          "f:1: found 2; a list of numbers, or of such lists, is expected",
		"[1, [2]]":                          "f:1: found [;",
		"[[[1]]]":                           "f:1: found [;",
		"[]":                                "f:1: a list of weights is empty",
		"[1, \"a\"]":                        `f:1: found "a";`,
		"[1, null]":                         "f:1: found null;",
		"[1\n":                              "f:1: the JSON ends too early",
		"[1 2]":                             "f:1: not JSON",
		"[1]\n[2]":                          "f:2: text follows the end",
		`{"load": [1]}`:                     `f:1: found "load"; the object's only member is "weights"`,
		"{\"weights\": [1],\n \"x\": 1}":    `f:2: found "x"; the object's only member`,
		`{"weights": 3}`:                    "f:1: weights: found 3; a list is expected",
		"expert;weight\n0;1":                `f:1: the header is "expert;weight"; expert,weight or layer,expert,weight is expected`,
		"expert,weight\n":                   "f:1: there are no rows",
		"expert,weight\n0,1\n0,2":           "f:3: expert: expert 0 of layer 0 is there twice",
		"expert,weight\n0,1\n2,2":           "f:3: expert: expert 1 of layer 0 is missing",
		"expert,weight\n0,1,2":              "f:2: the number of fields is 3; 2 are valid",
		"expert,weight\n-1,1":               `f:2: expert: "-1" is not valid; 0 to 16383 is`,
		"expert,weight\n0,0x1p3":            `f:2: weight: "0x1p3" is not valid`,
		"expert,weight\n0,NaN":              `f:2: weight: "NaN" is not valid`,
		"layer,expert,weight\n1,0,1":        "f:2: layer: layer 0 is missing",
		"layer,expert,weight\n0,0,1\n1,1,1": "f:3: expert: expert 0 of layer 1 is missing",
		"layer,expert,weight\n99999,0,1":    `f:2: layer: "99999" is not valid; 0 to 1023 is`,
	} {
		_, err := ReadWeights(strings.NewReader(text), "f")
		require.ErrorContains(t, err, want, "%q", text)
	}
}

// TestWeightsMustFit: a file is for a model with as many layers and experts.
func TestWeightsMustFit(t *testing.T) {
	for text, want := range map[string]string{
		"[1,2,3]":           "popularity.path: w.json has weights for 3 experts; the model has 8",
		"[[1,2],[3,4]]":     "popularity.path: w.json has weights for 2 layers; the model has 32 MoE layers, and one list for all is valid too",
		"":                  "popularity.path: the weights have not been read",
		"[1,2,3,4,5,6,7,8]": "",
	} {
		s := Setup{Config: Default(), Shape: mixtral, Cluster: Packed(8, 8, 1)}
		s.Config.Popularity = PopularityConfig{Kind: PopularityFile, Path: "w.json"}
		if text != "" {
			w, err := ReadWeights(strings.NewReader(text), "w.json")
			require.NoError(t, err)
			s.Weights = w
		}
		r, err := New(s)
		if want != "" {
			require.ErrorContains(t, err, want)
			continue
		}
		require.NoError(t, err)
		// Arranged anew in every layer, but the same chances.
		require.NotEqual(t, r.Chances(0), r.Chances(1))
		require.InDelta(t, total(r.Chances(0)), total(r.Chances(1)), 1e-12)
	}
}

func total(xs []float64) (s float64) {
	for _, x := range xs {
		s += x
	}
	return s
}

// TestFloorKeepsUnseenExpertsPossible: weights of 0 or of any size leave every
// expert a chance, and the mean at 1.
func TestFloorKeepsUnseenExpertsPossible(t *testing.T) {
	for _, w := range [][]float64{{0, 0, 5}, {5e-324, 0}, {1e18, 1, 1}} {
		out := floored(w)
		require.InDelta(t, float64(len(w)), total(out), 1e-4)
		for _, x := range out {
			require.GreaterOrEqual(t, x, floorWeight)
		}
	}
}

var place = regexp.MustCompile(`^f:([0-9]+)$`)

// FuzzReadWeights reads any bytes: an error has a line of the file, and what is
// read is what it says it is, and is read again from both formats.
func FuzzReadWeights(f *testing.F) {
	for _, text := range []string{
		"[1,2,3]", "[[1,2],[3,4]]", `{"weights":[[1e3]]}`, "expert,weight\n0,1\n1,2\n", "layer,expert,weight\n0,0,1\n1,0,0.5\n",
		"[1,\n-2]", "[[[", "{", "layer,expert,weight\n0,3,1\n", "\uFEFF[7]",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := ReadWeights(strings.NewReader(string(data)), "f")
		if err != nil {
			var ps config.Problems
			require.ErrorAs(t, err, &ps)
			require.Len(t, ps, 1)
			m := place.FindStringSubmatch(ps[0].Where)
			require.NotNil(t, m, "%q", ps[0].Where)
			line, err := strconv.Atoi(m[1])
			require.NoError(t, err)
			require.True(t, 1 <= line && line <= strings.Count(string(data), "\n")+1, "line %d", line)
			require.NotEmpty(t, ps[0].Message)
			return
		}
		var csv, json strings.Builder
		csv.WriteString("layer,expert,weight\n")
		json.WriteString("[")
		for l, list := range w.Layers {
			require.Len(t, list, len(w.Layers[0]))
			require.Positive(t, total(list))
			json.WriteString(strings.Repeat(",", min(l, 1)) + "[")
			for e, x := range list {
				require.True(t, x >= 0 && x <= maxWeight && !math.IsNaN(x))
				fmt.Fprintf(&csv, "%d,%d,%g\n", l, e, x)
				fmt.Fprintf(&json, "%s%g", strings.Repeat(",", min(e, 1)), x)
			}
			json.WriteString("]")
		}
		json.WriteString("]")
		for _, text := range []string{csv.String(), json.String()} {
			again, err := ReadWeights(strings.NewReader(text), "f")
			require.NoError(t, err)
			require.Equal(t, w, again)
		}
	})
}
