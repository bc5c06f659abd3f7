// Package units holds the quantities of a scenario as they are written in text:
// rates, byte counts and frequencies, always with their unit.
package units

// Bytes is a number of bytes.
type Bytes int64

// Rate is a link or memory rate in bits per second.
type Rate int64
