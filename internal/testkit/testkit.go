// Package testkit finds the tables of documents for the tests that hold them to what
// comes out, and makes the property tests of a package that imports it draw the
// same values in every run, so that whether a commit passes is a property of the
// commit. New values are drawn by another seed, which RAPID_SEED or -rapid.seed
// gives (0: one of the clock's), and by .ci/fuzz.
package testkit

import (
	"flag"
	"os"

	_ "pgregory.net/rapid" // declares the flag
)

func init() {
	if _, set := os.LookupEnv("RAPID_SEED"); set {
		return
	}
	if err := flag.Set("rapid.seed", "1"); err != nil {
		panic(err)
	}
}
