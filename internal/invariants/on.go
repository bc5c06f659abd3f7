//go:build invariants

// Package invariants says whether the expensive self-checks are compiled in.
package invariants

// Enabled is true when the binary was built with the invariants tag.
const Enabled = true
