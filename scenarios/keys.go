package scenarios

import (
	_ "embed"
	"strings"

	"github.com/tgssim/tgssim/internal/config"
)

// keyTexts has a line for every key, "key<TAB>what it is", from the comments of the
// fields that hold them: go test ./scenarios -run TestKeyTexts -update.
//
//go:embed keys.tsv
var keyTexts string

// A Key is a key that a file may set.
type Key struct {
	config.KeyInfo
	// About says what it is, in sentences.
	About string
	// Fabric and Scenario tell whose key it is.
	Fabric, Scenario bool
	// FabricDefault is that of fabrics where it is not Default.
	FabricDefault string
}

// Keys lists the keys of scenarios, and those that only fabrics have, in the order
// in which they are resolved.
func Keys() []Key {
	about := map[string]string{}
	for line := range strings.Lines(keyTexts) {
		key, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		about[key] = text
	}
	var all []Key
	place := map[string]int{}
	for _, k := range config.Keys(Default()) {
		place[k.Path] = len(all)
		all = append(all, Key{KeyInfo: k, About: about[k.Path], Scenario: true})
	}
	for _, k := range config.Keys(Scale{}) {
		k.Path = rulesKey + "." + k.Path
		all = append(all, Key{KeyInfo: k, About: about[k.Path], Scenario: true})
	}
	for _, k := range config.Keys(DefaultFabric()) {
		if i, ok := place[k.Path]; ok {
			all[i].Fabric = true
			if k.Default != all[i].Default {
				all[i].FabricDefault = k.Default
			}
		} else {
			all = append(all, Key{KeyInfo: k, About: about[k.Path], Fabric: true})
		}
	}
	return all
}
