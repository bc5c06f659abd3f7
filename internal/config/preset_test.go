package config_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/internal/config"
)

// An engine has two sets of values.
type engine struct {
	Preset string `yaml:"preset"`
	Power  int    `yaml:"power"`
	Gears  int    `yaml:"gears"`
}

func (e *engine) SetPreset(name string) error {
	switch name {
	case "small":
		*e = engine{name, 50, 4}
	case "large":
		*e = engine{name, 200, 6}
	default:
		return fmt.Errorf("%q is not an engine", name)
	}
	return nil
}

type car struct {
	Name    string            `yaml:"name"`
	Engine  engine            `yaml:"engine"`
	Spare   *engine           `yaml:"spare"`
	Trailer []engine          `yaml:"trailer"`
	Parts   map[string]engine `yaml:"parts"`
}

func decodeCar(t *testing.T, text string) (car, error) {
	tree, err := config.Parse("car.yaml", []byte(text))
	require.NoError(t, err)
	c := car{Engine: engine{"small", 51, 5}}
	return c, tree.Decode(&c)
}

func TestPreset(t *testing.T) {
	for _, tc := range []struct {
		text string
		want car
	}{
		{"name: a", car{Name: "a", Engine: engine{"small", 51, 5}}},
		{"engine: {power: 70}", car{Engine: engine{"small", 70, 5}}},
		{"engine: {preset: large}", car{Engine: engine{"large", 200, 6}}},
		{"engine: {preset: large, gears: 7}", car{Engine: engine{"large", 200, 7}}},
		{"engine: {gears: 7, preset: large}", car{Engine: engine{"large", 200, 7}}},
		{"engine: {preset: small}", car{Engine: engine{"small", 50, 4}}},
		{"spare: {power: 9, preset: large}", car{Engine: engine{"small", 51, 5}, Spare: &engine{"large", 9, 6}}},
		{"trailer: [{preset: small}, {gears: 3}]", car{Engine: engine{"small", 51, 5}, Trailer: []engine{{"small", 50, 4}, {"", 0, 3}}}},
		{"parts: {a: {preset: large}}", car{Engine: engine{"small", 51, 5}, Parts: map[string]engine{"a": {"large", 200, 6}}}},
	} {
		got, err := decodeCar(t, tc.text)
		require.NoError(t, err, tc.text)
		require.Equal(t, tc.want, got, tc.text)
		text, err := config.Marshal(&got)
		require.NoError(t, err)
		again, err := decodeCar(t, string(text))
		require.NoError(t, err, "%s", text)
		require.Equal(t, got, again)
	}
	for text, want := range map[string]string{
		"engine:\n  gears: 7\n  preset: huge\n": `car.yaml:3: engine.preset: "huge" is not an engine`,
		"engine: {preset: 5}":                   `car.yaml:1: engine.preset: expected text such as small, found 5: if text is meant, write "5"`,
		"engine: {preset: [large]}":             `car.yaml:1: engine.preset: expected text such as small, found a list`,
		"engine: {preset: null}":                `car.yaml:1: engine.preset: null; write text such as small, or delete the line to keep the default`,
		"engine: {presets: large}":              `car.yaml:1: engine.presets: unknown key; did you mean preset? (keys here: preset, power, gears)`,
		"engine: large":                         `car.yaml:1: engine: expected a mapping (keys: preset, power, gears), found the text "large"`,
	} {
		_, err := decodeCar(t, text)
		require.EqualError(t, err, want, text)
	}
}

// A preset set from the command line is one like any other.
func TestPresetBySet(t *testing.T) {
	tree, err := config.Parse("car.yaml", []byte("engine: {gears: 7}"))
	require.NoError(t, err)
	require.NoError(t, tree.Set("engine.preset=large"))
	var c car
	require.NoError(t, tree.Decode(&c))
	require.Equal(t, engine{"large", 200, 7}, c.Engine)
}
