package config_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/internal/config"
)

func TestAddfRecordsOnce(t *testing.T) {
	var ps config.Problems
	ps.Addf("a", "is %d", 1)
	ps.Addf("a", "is %d", 2)
	ps.Addf("b", "is %d", 1)
	ps.Addf("a", "is %d", 1)
	require.Equal(t, config.Problems{{Key: "a", Message: "is 1"}, {Key: "a", Message: "is 2"}, {Key: "b", Message: "is 1"}}, ps)
}

func TestNest(t *testing.T) {
	var inner config.Problems
	inner.Addf("tp", "must be 1 to %d", 8)
	inner.Addf("", "needs a GPU")
	var ps config.Problems
	ps.Nest("pool", inner.Err())
	ps.Nest("", inner.Err())
	ps.Nest("trace", config.Problems{{Where: "azure.csv:7", Key: "TIMESTAMP", Message: "is empty"}})
	ps.Nest("file", errors.New("is gone"))
	ps.Nest("nothing", nil)
	ps.Nest("nothing", config.Problems{}.Err())
	ps.Require(true, "leaves", "is fine")
	ps.Require(false, "leaves", "is not")
	require.EqualError(t, ps.Err(), `pool.tp: must be 1 to 8
pool: needs a GPU
tp: must be 1 to 8
needs a GPU
azure.csv:7: TIMESTAMP: is empty
file: is gone
leaves: is not`)
}
