package routing

// A PresetInfo says what a preset is: Key is the section of the path choice that
// has it, "int" or "conga", and About what it is, in a line.
type PresetInfo struct{ Key, Name, About string }

// PresetList lists the presets of all sections.
func PresetList() (all []PresetInfo) {
	for _, p := range intPresets {
		all = append(all, PresetInfo{"int", p.name, p.about})
	}
	for _, p := range congaPresets {
		all = append(all, PresetInfo{"conga", p.name, p.about})
	}
	return all
}
