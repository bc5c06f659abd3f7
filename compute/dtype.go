package compute

import "fmt"

// A DType is the number format of weights or of KV entries.
type DType uint8

// The formats.
const (
	// AsCheckpoint stands for the format of the model's own checkpoint (weights)
	// and for BF16 (KV).
	AsCheckpoint DType = iota
	BF16
	FP8
)

var dtypeNames = [...]string{AsCheckpoint: "checkpoint", BF16: "bf16", FP8: "fp8"}

// String names the format as scenarios do: checkpoint, bf16 or fp8.
func (d DType) String() string {
	if int(d) < len(dtypeNames) {
		return dtypeNames[d]
	}
	return fmt.Sprintf("dtype(%d)", uint8(d))
}

// MarshalText prints d as String does.
func (d DType) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads checkpoint, bf16 or fp8.
func (d *DType) UnmarshalText(text []byte) error {
	for i, n := range dtypeNames {
		if n == string(text) {
			*d = DType(i)
			return nil
		}
	}
	return fmt.Errorf("%q is not a number format: write checkpoint, bf16 or fp8", text)
}

// size is the bytes of one element, without the scale factors of a block.
func (d DType) size() float64 {
	if d == FP8 {
		return 1
	}
	return 2
}

// or is d, or the given format where d leaves the choice open.
func (d DType) or(def DType) DType {
	if d == AsCheckpoint {
		return def
	}
	return d
}
