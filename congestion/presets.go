package congestion

// A preset is a row of a table of named settings: its name, what it is in a line,
// and the settings.
type preset[C any] struct {
	name, about string
	make        func() C
}

// presets is such a table.
type presets[C any] []preset[C]

// names lists the names, in order.
func (t presets[C]) names() []string {
	names := make([]string, len(t))
	for i, p := range t {
		names[i] = p.name
	}
	return names
}

// find returns the settings of a name, or an error that names the nearest one.
func (t presets[C]) find(name string) (C, error) {
	for _, p := range t {
		if p.name == name {
			return p.make(), nil
		}
	}
	var none C
	return none, unknownName("preset", name, t.names())
}

// setPreset sets c to the settings of a name, which named, a field of c, becomes. An
// unknown name changes nothing.
func setPreset[C any](c *C, named *string, t presets[C], name string) error {
	p, err := t.find(name)
	if err == nil {
		*c = p
		*named = name
	}
	return err
}

// A PresetInfo says what a preset is.
type PresetInfo struct {
	// Key is the section of a Config that has the preset: "dcqcn", or "" for all
	// of it.
	Key string
	// Name is the preset's and About what it is, in a line.
	Name, About string
}

// PresetList lists the presets of a Config and its sections.
func PresetList() []PresetInfo {
	var all []PresetInfo
	all = append(all, infos("", configPresets)...)
	all = append(all, infos("dcqcn", dcqcnPresets)...)
	all = append(all, infos("ecn", ecnPresets)...)
	all = append(all, infos("buffer", bufferPresets)...)
	all = append(all, infos("hpcc", hpccPresets)...)
	all = append(all, infos("swift", swiftPresets)...)
	all = append(all, infos("timely", timelyPresets)...)
	all = append(all, infos("credit", creditPresets)...)
	all = append(all, infos("gse", gsePresets)...)
	return append(all, infos("int", intPresets)...)
}

func infos[C any](key string, t presets[C]) []PresetInfo {
	list := make([]PresetInfo, len(t))
	for i, p := range t {
		list[i] = PresetInfo{key, p.name, p.about}
	}
	return list
}
