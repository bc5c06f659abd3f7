//go:build !invariants

// Package invariants says whether the expensive self-checks are compiled in.
//
// Build or test with `-tags invariants` to turn them on. Code guards a check
// with `if invariants.Enabled { ... }`; without the tag the compiler removes it.
package invariants

// Enabled is true when the binary was built with the invariants tag.
const Enabled = false
