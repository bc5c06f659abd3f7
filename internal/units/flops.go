package units

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
)

// FLOPRate is a number of floating-point operations per second, a multiply-add
// counting as two.
type FLOPRate float64

// Multiples of a floating-point operation per second.
const (
	GFLOPs FLOPRate = 1e9
	TFLOPs FLOPRate = 1e12
	PFLOPs FLOPRate = 1e15
)

// flopUnits are in descending size; those after the first four are for reading
// only.
var flopUnits = []multiple{
	{"PFLOP/s", 1e15},
	{"TFLOP/s", 1e12},
	{"GFLOP/s", 1e9},
	{"FLOP/s", 1},
	{"PFLOPS", 1e15},
	{"TFLOPS", 1e12},
	{"GFLOPS", 1e9},
}

var flopQuantity = quantity{"rate of operations", "operations per second", "989.5TFLOP/s", flopUnits}

// UnmarshalText reads a rate of operations with its unit: "989.5TFLOP/s",
// "4.5PFLOPS". It is the float nearest to what is written.
func (f *FLOPRate) UnmarshalText(text []byte) error {
	number, size, err := flopQuantity.split(string(text))
	if err != nil {
		return err
	}
	approx, _ := strconv.ParseFloat(number, 64) // split has read it before
	if isZero(number) {
		*f = 0
		return nil
	}
	// Exact arithmetic on 1e99999999 would take all memory.
	switch rate := math.Abs(approx) * float64(size); {
	case rate >= 1e30:
		return fmt.Errorf("%q is too large for a rate of operations", text)
	case rate <= 1e-30:
		return fmt.Errorf("%q is too small for a rate of operations: write 0FLOP/s if you mean none", text)
	}
	v, ok := new(big.Rat).SetString(number)
	if !ok {
		return fmt.Errorf("%q does not start with a number: write a %s such as %s", text, flopQuantity.name, flopQuantity.example)
	}
	exact, _ := v.Mul(v, new(big.Rat).SetInt64(size)).Float64()
	*f = FLOPRate(exact)
	return nil
}

// String prints f so that it reads back as itself, in TFLOP/s where that can be:
// "989.5TFLOP/s".
func (f FLOPRate) String() string {
	for _, m := range []multiple{flopUnits[1], flopUnits[3]} {
		text := strconv.FormatFloat(float64(f)/float64(m.size), 'g', -1, 64) + m.name
		var back FLOPRate
		if back.UnmarshalText([]byte(text)) == nil && back == f {
			return text
		}
	}
	return strconv.FormatFloat(float64(f), 'g', -1, 64) + "FLOP/s"
}

// MarshalText prints f as String does.
func (f FLOPRate) MarshalText() ([]byte, error) { return []byte(f.String()), nil }
