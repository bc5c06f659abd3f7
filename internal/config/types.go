package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// A field is a key of a struct, and where its value is.
type field struct {
	key   string
	index []int
	// omit is set when Marshal leaves a zero value out.
	omit bool
}

// fieldsOf lists the keys of a struct in the order of its fields, those of
// inline structs in their place.
func fieldsOf(t reflect.Type) []field {
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		key, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case key == "-" || !f.IsExported():
		case options == "inline":
			for _, in := range fieldsOf(f.Type) {
				fields = append(fields, field{in.key, append([]int{i}, in.index...), in.omit})
			}
		default:
			fields = append(fields, field{key, []int{i}, options == "omitempty"})
		}
	}
	return fields
}

func keysOf(fields []field) []string {
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.key
	}
	return keys
}

// checkType returns an error for a type that Decode and Marshal do not handle,
// which is a mistake of the program, not of a file. inside holds the types
// around it.
func checkType(t reflect.Type, inside []reflect.Type) error {
	if isText(t) {
		return nil
	}
	if slices.Contains(inside, t) {
		return fmt.Errorf("config: %s contains itself", t)
	}
	inside = append(inside, t)
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return nil
	case reflect.Slice:
		return checkType(t.Elem(), inside)
	case reflect.Pointer:
		if t.Elem().Kind() == reflect.Pointer {
			return fmt.Errorf("config: %s is a pointer to a pointer", t)
		}
		return checkType(t.Elem(), inside)
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			return fmt.Errorf("config: %s has keys that are not strings", t)
		}
		return checkType(t.Elem(), inside)
	case reflect.Struct:
		return checkStruct(t, inside)
	}
	return fmt.Errorf("config: %s cannot be read from YAML", t)
}

func checkStruct(t reflect.Type, inside []reflect.Type) error {
	for i := range t.NumField() {
		f := t.Field(i)
		key, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		inline := options == "inline"
		switch {
		case key == "-":
			continue
		case !f.IsExported():
			if inline || key != "" {
				return fmt.Errorf("config: field %s of %s has a yaml tag but is not exported", f.Name, t)
			}
			continue
		case options != "" && options != "omitempty" && !inline:
			return fmt.Errorf("config: field %s of %s: yaml option %q is not supported", f.Name, t, options)
		case inline && (f.Type.Kind() != reflect.Struct || isText(f.Type) || key != ""):
			return fmt.Errorf("config: field %s of %s: only a struct without a key can be inline", f.Name, t)
		case !inline && key == "":
			return fmt.Errorf("config: field %s of %s has no yaml tag", f.Name, t)
		}
		if err := checkType(f.Type, inside); err != nil {
			return err
		}
	}
	keys := keysOf(fieldsOf(t))
	slices.Sort(keys)
	for i := 1; i < len(keys); i++ {
		if keys[i] == keys[i-1] {
			return fmt.Errorf("config: %s has two fields with the key %s", t, keys[i])
		}
	}
	return nil
}

// KeyInfo describes one key that a file may set.
type KeyInfo struct {
	// Path is dotted, with [] for the items of a list and <name> for those of a
	// mapping: "topology.leaves", "pools[].tp", "mix.<name>.share".
	Path string
	// Type is in words: "whole number", "rate", "list of times".
	Type string
	// Default is the value in the struct as YAML on one line; "" when it is empty
	// or longer.
	Default string
}

// Keys lists the keys of a struct, or a pointer to one, in the order of its
// fields: one entry per value, and one per optional section before its keys. The
// keys of the items of lists and mappings, and of sections that are nil, have
// the defaults of SetDefaults. It returns nil for a type that Decode refuses.
func Keys(v any) []KeyInfo {
	value := reflect.Indirect(reflect.ValueOf(v))
	if value.Kind() != reflect.Struct || checkType(value.Type(), nil) != nil {
		return nil
	}
	return appendKeys(nil, "", value)
}

func appendKeys(keys []KeyInfo, path string, v reflect.Value) []KeyInfo {
	t := v.Type()
	leaf := func(what string) []KeyInfo {
		info := KeyInfo{Path: path, Type: what}
		if r, err := render(v); err == nil && len(r.body) == 0 && !(v.IsZero() && r.head == `""`) {
			info.Default = r.head
		}
		return append(keys, info)
	}
	item := func(t reflect.Type) reflect.Value {
		p := reflect.New(t)
		setDefaults(p)
		return p.Elem()
	}
	switch {
	case isText(t):
	case t.Kind() == reflect.Pointer && isStructured(t.Elem()):
		keys = leaf("optional " + words(t))
		if v.IsNil() {
			return appendKeys(keys, path, item(t.Elem()))
		}
		return appendKeys(keys, path, v.Elem())
	case t.Kind() == reflect.Slice && isStructured(t.Elem()):
		return appendKeys(keys, path+"[]", item(t.Elem()))
	case t.Kind() == reflect.Map && isStructured(t.Elem()):
		return appendKeys(keys, path+".<name>", item(t.Elem()))
	case t.Kind() == reflect.Struct:
		for _, f := range fieldsOf(t) {
			keys = appendKeys(keys, join(path, f.key), v.FieldByIndex(f.index))
		}
		return keys
	}
	return leaf(words(t))
}
