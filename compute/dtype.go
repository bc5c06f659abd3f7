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
	// MXFP4 is 4-bit weights that share one 8-bit scale per block of 32 (OCP
	// Microscaling Formats specification 1.0, table 1). It is a format of routed
	// experts only; their activations and arithmetic stay bf16, as on GPUs
	// without FP4 tensor cores.
	MXFP4
)

var dtypeNames = [...]string{AsCheckpoint: "checkpoint", BF16: "bf16", FP8: "fp8", MXFP4: "mxfp4"}

// String names the format as scenarios do: checkpoint, bf16, fp8 or mxfp4.
func (d DType) String() string {
	if int(d) < len(dtypeNames) {
		return dtypeNames[d]
	}
	return fmt.Sprintf("dtype(%d)", uint8(d))
}

// MarshalText prints d as String does.
func (d DType) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads checkpoint, bf16, fp8 or mxfp4.
func (d *DType) UnmarshalText(text []byte) error {
	for i, n := range dtypeNames {
		if n == string(text) {
			*d = DType(i)
			return nil
		}
	}
	return fmt.Errorf("%q is not a number format: write checkpoint, bf16, fp8 or mxfp4", text)
}

// size is the bytes of one weight or KV element, without the scale factors of an
// fp8 block and with those of an mxfp4 block, which are not negligible.
func (d DType) size() float64 {
	switch d {
	case FP8:
		return 1
	case MXFP4:
		return 17. / 32
	}
	return 2
}

// activation is the format of the activations that meet weights of format d.
func (d DType) activation() DType {
	if d == MXFP4 {
		return BF16
	}
	return d
}

// or is d, or the given format where d leaves the choice open.
func (d DType) or(def DType) DType {
	if d == AsCheckpoint {
		return def
	}
	return d
}
