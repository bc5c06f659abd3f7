package experiment

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/tgssim/tgssim/collective"
	"github.com/tgssim/tgssim/experts"
	"github.com/tgssim/tgssim/internal/config"
)

// readWeights reads the popularity of experts that prefill and decode name, nil
// where they name none, and notes the files among the inputs.
func (b *Simulation) readWeights() (weights [2]*experts.Weights, err error) {
	var ps config.Problems
	s := &b.Scenario.Serving
	for i, x := range []struct {
		pool string
		moe  *collective.Config
	}{{"prefill", &s.Prefill.MoE}, {"decode", &s.Decode.MoE}} {
		if x.moe.Routing == nil || x.moe.Routing.Popularity.Path == "" {
			continue
		}
		key, path := x.pool+".moe.routing.popularity.path", x.moe.Routing.Popularity.Path
		data, err := readInput(path)
		if err != nil {
			ps.Addf(key, "cannot read %s: %v", path, err)
			continue
		}
		w, err := experts.ReadWeights(bytes.NewReader(data), path)
		var inFile config.Problems // with places of their own
		switch {
		case errors.As(err, &inFile):
			ps.Nest(key, err)
		case err != nil:
			ps.Addf(key, "%v", err)
		}
		weights[i] = w
		input := Input{Path: path, Bytes: int64(len(data)), SHA256: sha256.Sum256(data)}
		if i == 0 || len(b.inputs) == 0 || b.inputs[len(b.inputs)-1] != input {
			b.inputs = append(b.inputs, input)
		}
	}
	return weights, ps.Err()
}

// maxWeights bounds a file of weights; experts.ReadWeights refuses larger ones.
const maxWeights = 64<<20 + 1

// readInput reads a regular file, as far as one of weights can be long.
func readInput(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	var cause *fs.PathError
	f, err := os.Open(path)
	if errors.As(err, &cause) {
		return nil, cause.Err
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxWeights))
}
